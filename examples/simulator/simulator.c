/*
 * simulator.c: a small cycle-level GPU simulator that dispatches its blocks through libgridsmith. A template.
 *
 * The simulator has the time, the warps and the memory; the dispatcher has the queue of launches and the resources of
 * the SMs. They meet in four places, which are all that another simulator has to add:
 *
 *   launch_kernels   the host launches a kernel             gs_dispatcher_launch, gs_dispatcher_why
 *   start_blocks     a block starts on the SM that is said  gs_dispatcher_next, gs_dispatcher_place
 *   end_block        the last warp of a block has ended     gs_dispatcher_release
 *   run_cycles       time passes                            gs_dispatcher_wait_until
 *
 * The rest is a toy. A warp executes a number of instructions, one after the other. A partition issues one instruction
 * per cycle, in turn from its warps that are ready. Arithmetic takes 4 cycles. Every 64th instruction reads memory:
 * 400 cycles, and the memory serves 20 reads per cycle. At most one block starts on an SM in a cycle.
 *
 *   simulator [GPU [SMS]]    h200 if no GPU is named; SMS: a GPU like it with so many SMs
 *
 * The same kernels are then dispatched round-robin, as simulators often do, to show what it changes.
 */
#include <gridsmith/gridsmith.h>

#include <stdlib.h>
#include <string.h>

enum {
    KERNELS = 5,
    PARTITIONS = 4,
    ALU_CYCLES = 4,
    READ_CYCLES = 400,
    READ_EVERY = 64,
    READS_PER_CYCLE = 20,
    FREE = -1
};

/* What the host does, in order. A cycle is a nanosecond here. */
static const struct kernel {
    gs_launch_spec spec;
    int64_t at_cycle;
    int instructions; /* of a warp */
} kernels[KERNELS] = {
    {{.kernel = "gemm", .blocks = 200, .shape = {512, 64, 65536, 0, GS_NO_CARVEOUT}, .stream = "a"}, 0, 1600},
    {{.kernel = "copy", .blocks = 40, .shape = {512, 16, 0, 0, GS_NO_CARVEOUT}, .stream = "b"}, 500, 200},
    {{.kernel = "norm", .blocks = 300, .shape = {512, 40, 8192, 0, GS_NO_CARVEOUT}, .stream = "a"}, 600, 400},
    {{.kernel = "scan", .blocks = 64, .shape = {768, 40, 0, 0, GS_NO_CARVEOUT}, .stream = "c"}, 700, 1600},
    {{.kernel = "flag", .blocks = 1, .shape = {32, 16, 0, 0, GS_NO_CARVEOUT}, .priority = -1}, 2000, 100},
};

struct warp {
    int block; /* FREE: the slot has no warp */
    int left;  /* instructions */
    int64_t ready;
};

struct block {
    int kernel, sm, warps; /* warps that have not ended */
};

/* How a kernel went. */
struct course {
    int launch; /* the dispatcher's number; -1: not launched */
    int64_t first, last;
    int64_t placed, ended;
};

struct simulator {
    gs_dispatcher *dispatcher;
    int sms, slots; /* slots: warps on an SM */
    int64_t cycle;
    int64_t reads; /* READS_PER_CYCLE times the cycle until which the memory is busy */
    struct warp *warps;
    struct block *blocks; /* by the handle of gs_dispatcher_place */
    int *turns;           /* by SM and partition: the slot that issues next */
    int64_t *started_at;  /* by SM: the cycle in which a block started last */
    struct course courses[KERNELS];
    bool is_silent;
};

/* ---- the four places ---- */

static gs_code launch_kernels(struct simulator *simulator, gs_error *error) {
    for (int i = 0; i < KERNELS; i++) {
        struct course *course = &simulator->courses[i];
        if (course->launch >= 0 || kernels[i].at_cycle > simulator->cycle)
            continue;
        course->launch = gs_dispatcher_launch(simulator->dispatcher, &kernels[i].spec, error);
        if (course->launch < 0)
            return error->code;
        char *why = gs_dispatcher_why(simulator->dispatcher, course->launch, error);
        if (why && !simulator->is_silent)
            printf("cycle %lld: %s\n", (long long)simulator->cycle, why);
        gs_string_free(why);
    }
    return GS_OK;
}

static void start_warps(struct simulator *simulator, int kernel, int sm, int handle) {
    struct block *block = &simulator->blocks[handle];
    struct warp *warps = &simulator->warps[sm * simulator->slots];
    *block = (struct block){kernel, sm, (kernels[kernel].spec.shape.threads + 31) / 32};
    for (int slot = 0, wanted = block->warps; wanted; slot++)
        if (warps[slot].block == FREE) {
            warps[slot] = (struct warp){handle, kernels[kernel].instructions, simulator->cycle + 1};
            wanted--;
        }
}

/* Returns whether a block started. */
static bool start_blocks(struct simulator *simulator) {
    bool has_started = false;
    for (int i = 0, sm; i < KERNELS; i++) {
        struct course *course = &simulator->courses[i];
        while (course->launch >= 0 && (sm = gs_dispatcher_next(simulator->dispatcher, course->launch)) != GS_WAIT &&
               simulator->started_at[sm] < simulator->cycle) {
            start_warps(simulator, i, sm, gs_dispatcher_place(simulator->dispatcher, course->launch, sm));
            simulator->started_at[sm] = simulator->cycle;
            if (!course->placed++)
                course->first = simulator->cycle;
            has_started = true;
        }
    }
    return has_started;
}

static void end_block(struct simulator *simulator, int handle) {
    struct course *course = &simulator->courses[simulator->blocks[handle].kernel];
    course->ended++;
    course->last = simulator->cycle;
    gs_dispatcher_release(simulator->dispatcher, handle);
}

/* ---- the toy ---- */

static void issue(struct simulator *simulator, struct warp *warp) {
    int handle = warp->block;
    warp->ready = simulator->cycle + ALU_CYCLES;
    if (--warp->left % READ_EVERY == 0) {
        int64_t now = simulator->cycle * READS_PER_CYCLE;
        simulator->reads = (simulator->reads > now ? simulator->reads : now) + 1;
        warp->ready = simulator->reads / READS_PER_CYCLE + READ_CYCLES;
    }
    if (warp->left)
        return;
    warp->block = FREE;
    if (!--simulator->blocks[handle].warps)
        end_block(simulator, handle);
}

/* One instruction of a partition, from the slots partition, partition + 4, ... Lowers `*next` to the cycle in which a
   warp is ready. */
static void run_partition(struct simulator *simulator, int sm, int partition, int64_t *next) {
    int count = simulator->slots / PARTITIONS, *turn = &simulator->turns[sm * PARTITIONS + partition];
    bool has_issued = false;
    for (int i = 0, first = *turn; i < count; i++) {
        int at = (first + i) % count;
        struct warp *warp = &simulator->warps[sm * simulator->slots + at * PARTITIONS + partition];
        if (warp->block != FREE && warp->ready <= simulator->cycle && !has_issued) {
            issue(simulator, warp);
            *turn = (at + 1) % count;
            has_issued = true;
        }
        if (warp->block != FREE && warp->ready < *next)
            *next = warp->ready > simulator->cycle ? warp->ready : simulator->cycle + 1;
    }
}

static bool is_done(const struct simulator *simulator) {
    for (int i = 0; i < KERNELS; i++)
        if (simulator->courses[i].ended < kernels[i].spec.blocks)
            return false;
    return true;
}

/* Cycles in which nothing can happen are skipped. */
static gs_code run_cycles(struct simulator *simulator, gs_error *error) {
    while (!is_done(simulator)) {
        int64_t next = INT64_MAX;
        gs_dispatcher_wait_until(simulator->dispatcher, simulator->cycle);
        if (launch_kernels(simulator, error) != GS_OK)
            return error->code;
        if (start_blocks(simulator))
            next = simulator->cycle + 1;
        for (int sm = 0; sm < simulator->sms; sm++)
            for (int partition = 0; partition < PARTITIONS; partition++)
                run_partition(simulator, sm, partition, &next);
        for (int i = 0; i < KERNELS; i++) {
            const struct course *course = &simulator->courses[i];
            if (course->launch < 0 && kernels[i].at_cycle < next)
                next = kernels[i].at_cycle;
            if (course->launch >= 0 && gs_dispatcher_next(simulator->dispatcher, course->launch) != GS_WAIT)
                next = simulator->cycle + 1;
        }
        simulator->cycle = next;
    }
    return GS_OK;
}

/* ---- one simulation ---- */

static bool allocate(struct simulator *simulator) {
    size_t warps = (size_t)simulator->sms * (size_t)simulator->slots;
    simulator->warps = malloc(warps * sizeof *simulator->warps);
    simulator->blocks = malloc(warps * sizeof *simulator->blocks); /* a block has at least one warp */
    simulator->turns = calloc((size_t)simulator->sms * PARTITIONS, sizeof *simulator->turns);
    simulator->started_at = malloc((size_t)simulator->sms * sizeof *simulator->started_at);
    if (!simulator->warps || !simulator->blocks || !simulator->turns || !simulator->started_at)
        return false;
    for (size_t i = 0; i < warps; i++)
        simulator->warps[i].block = FREE;
    for (int i = 0; i < simulator->sms; i++)
        simulator->started_at[i] = -1;
    for (int i = 0; i < KERNELS; i++)
        simulator->courses[i].launch = -1;
    return true;
}

static void print_courses(const struct simulator *simulator) {
    printf("%-6s %6s %9s %9s %9s\n", "kernel", "blocks", "launched", "starts", "ends");
    for (int i = 0; i < KERNELS; i++)
        printf("%-6s %6lld %9lld %9lld %9lld\n", kernels[i].spec.kernel, (long long)kernels[i].spec.blocks,
               (long long)kernels[i].at_cycle, (long long)simulator->courses[i].first,
               (long long)simulator->courses[i].last);
}

/* Simulates the kernels, and prints how they went. */
static gs_code simulate(const gs_gpu *gpu, const char *title, bool is_silent, gs_error *error) {
    gs_occupancy occupancy;
    gs_shape smallest = gs_shape_of(32, 16, 0);
    gs_occupancy_of(gpu, &smallest, &occupancy, error);
    struct simulator simulator = {.dispatcher = gs_dispatcher_new(gpu, error),
                                  .sms = gs_gpu_sms(gpu),
                                  .slots = occupancy.warps_per_sm,
                                  .is_silent = is_silent};
    gs_code code = simulator.dispatcher && allocate(&simulator) ? GS_OK : GS_E_MEMORY;
    if (code == GS_OK) {
        printf("%s\n", title);
        code = run_cycles(&simulator, error);
    }
    if (code == GS_OK)
        print_courses(&simulator);
    gs_dispatcher_free(simulator.dispatcher);
    free(simulator.warps);
    free(simulator.blocks);
    free(simulator.turns);
    free(simulator.started_at);
    return code;
}

int main(int argc, char **argv) {
    gs_error error = {.code = GS_OK};
    char text[700];
    gs_gpu_limits limits = {.sms = argc > 2 ? atoi(argv[2]) : 0};
    gs_gpu *gpu = gs_gpu_new(argc > 1 ? argv[1] : "h200", &limits, &error);
    gs_code code = gpu ? simulate(gpu, "as the GPU dispatches", false, &error) : error.code;
    if (code == GS_OK)
        code = gs_gpu_use(gpu, "round-robin", &error);
    if (code == GS_OK)
        code = simulate(gpu, "\nround-robin", true, &error);
    gs_gpu_free(gpu);
    if (code != GS_OK)
        fprintf(stderr, "%s\n", gs_error_text(&error, text, sizeof text));
    return gs_code_exit(code);
}
