/*
 * moves.c: two ways to move a running kernel to fewer SMs, on a GPU: the confined form, whose worker blocks look at a
 * mask between their tasks, and a guard (src/kernels/sass), which ends the kernel as it was compiled at a block
 * boundary; then what is left of it is launched on the SMs of a green context. See docs/reports/moves.md.
 *
 *   moves [KERNEL...]     kernels of the zoo; without names: Slate's five
 *
 *   cost   what a pass of the kernel takes longer than as it was written, while nothing moves
 *   stop   from the request to the end of the launch, if it is to leave all SMs: the median and the worst
 *   move   a launch that is moved to about half of the SMs after 0.4 of its time: how much later it ends than it would
 *          if that took no time, and each part ran as fast as it does alone on its SMs
 *
 * Launches below 0.2 ms are not stopped: they end sooner than anything can be done about them. The results of launches
 * that were moved must be those of the kernel as it was written.
 */
#include "kernels/sass/sass.h"
#include "pairs.h"

#include <stdlib.h>
#include <string.h>

enum { TIMES = 9, MOVES = 15, PART_SMS = 64, LEAST_US = 200, CONTROLS = 4096, GUARDS_AHEAD_NS = 4000 };

enum way { ORIGINAL, CONFINED, GUARDED, WAYS };

struct bench {
    pair_card card;
    cu_stream part, others, signals; /* PART_SMS SMs, the others, and what tells a kernel to move */
    gs_control control;
    gs_control_words *words;   /* of the host, pinned */
    gs_guard_control *set;     /* the same */
    uint32_t *stop;            /* the stop word of guards, in mapped memory, */
    cu_pointer stop_on_device; /* and its address */
    cu_pointer memory, guards; /* of the control and its counters; of the guards' controls */
    gs_random random;
};

struct job {
    pair_side side;
    cu_kernel guarded[GS_ZOO_KINDS];
    uint32_t workers[GS_ZOO_KINDS], resident[GS_ZOO_KINDS];
    double launch_us, part_us; /* of the first launch as written, on all SMs and on those of the part */
};

static int compare_double(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median_of(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare_double);
    return values[count / 2];
}

static double us_since(int64_t ns) {
    return (double)(gs_now_ns() - ns) / 1e3;
}

/* ---- opening ---- */

static bool open_bench(struct bench *bench) {
    enum { MAPPED = 2, HOST_BYTES = 1 << 16, STOP_AT = 1024, SET_AT = 4096 };
    const cu_api *api = &bench->card.api;
    void *host = NULL;
    if (!card_open(&bench->card) || !parts_make(&bench->card, PART_SMS, &bench->part, &bench->others))
        return false;
    int failed = api->host_alloc(&host, HOST_BYTES, MAPPED);
    failed = failed ? failed : api->host_pointer(&bench->stop_on_device, host, 0);
    failed = failed ? failed : api->stream_new(&bench->signals, CU_STREAM_NON_BLOCKING, 0);
    failed = failed ? failed : api->alloc(&bench->memory, sizeof(gs_control_words) + CONTROLS * GS_CONTROL_LINE);
    failed = failed ? failed : api->alloc(&bench->guards, (CONTROLS + 1) * sizeof(gs_guard_control));
    bench->words = host;
    bench->stop = (uint32_t *)((char *)host + STOP_AT);
    bench->stop_on_device += STOP_AT;
    bench->set = (gs_guard_control *)((char *)host + SET_AT);
    bench->control = gs_control_at(bench->memory, bench->words, false);
    bench->random = gs_random_at(1, 0);
    _Static_assert(sizeof(gs_control_words) <= STOP_AT, "the words of the control come first");
    _Static_assert(SET_AT + (CONTROLS + 1) * sizeof(gs_guard_control) <= HOST_BYTES, "the controls come last");
    return card_check(&bench->card, failed, "opening the GPU");
}

/* Puts the guard in front of the original. */
static bool guard_kernel(struct bench *bench, struct job *job, size_t kind) {
    const gs_cubin *cubin = &job->side.cubins[GS_FORM_ORIGINAL][kind];
    gs_sass_image image;
    gs_guarded_list list = {0};
    gs_text text = {0};
    gs_error error;
    gs_modules modules = {0};
    bool is_guarded = gs_sass_read(&image, cubin->image, cubin->bytes, &error) == GS_OK &&
                      gs_sass_guard(&image, &list, &error) == GS_OK && gs_sass_write(&image, &text, &error) == GS_OK;
    for (size_t i = 0; i < list.count && is_guarded; i++)
        if (list.data[i].refused) {
            fprintf(stderr, "moves: %s has no guard: %s\n", job->side.name, list.data[i].refused);
            return false;
        }
    if (!is_guarded) {
        fprintf(stderr, "moves: %s\n", error.message);
        return false;
    }
    int failed = gs_modules_load(&modules, &bench->card.api, text.data);
    if (!failed)
        failed = gs_cuda_kernel_find(&bench->card.api, modules.data[0], cubin->symbols[0], &job->guarded[kind]);
    return card_check(&bench->card, failed, "loading a kernel with a guard");
}

static bool prepare_job(struct bench *bench, struct job *job, const char *name) {
    pair_side *side = &job->side;
    *side = (pair_side){.name = name, .kernel = gs_zoo_find(name), .is_used = true, .has_forms = true};
    if (!side->kernel) {
        fprintf(stderr, "moves: unknown kernel \"%s\"\n", name);
        return false;
    }
    side->size = *gs_zoo_size_for_loads(side->kernel);
    side_prepare(side, bench->card.architecture);
    bool is_ready = side_load(side, &bench->card) && side->instance.launches.count <= CONTROLS;
    for (size_t kind = 0; kind < side->instance.kind_count && is_ready; kind++) {
        gs_shape confined = side_shape(side, GS_FORM_CONFINED, kind);
        gs_shape original = side_shape(side, GS_FORM_ORIGINAL, kind);
        job->workers[kind] = card_fit(&bench->card, &confined, &confined, 0) * (uint32_t)bench->card.sms;
        job->resident[kind] = card_fit(&bench->card, &original, &original, 0) * (uint32_t)bench->card.sms;
        is_ready = guard_kernel(bench, job, kind);
    }
    if (!is_ready && side->why[0])
        fprintf(stderr, "moves: %s: %s\n", name, side->why);
    return is_ready;
}

/* ---- launching ---- */

static uint64_t blocks_of(const gs_zoo_launch *launch) {
    return (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
}

static void fill_mask(uint32_t mask[GS_JOB_SMS / 32], int sms) {
    memset(mask, 0, GS_JOB_SMS / 8);
    for (int i = 0; i < sms; i++)
        mask[i / 32] |= 1u << i % 32;
}

/* Before launches: counters are 0, all SMs are allowed, and each guard has claimed what starts at once. */
static int reset(struct bench *bench, const struct job *job) {
    const cu_api *api = &bench->card.api;
    uint32_t mask[GS_JOB_SMS / 32];
    cu_stream stream = job->side.stream;
    fill_mask(mask, bench->card.sms);
    int failed = gs_control_begin(&bench->control, 0, mask, api, stream);
    failed =
        failed ? failed
               : api->set_bytes_later(bench->memory + sizeof(gs_control_words), 0, CONTROLS * GS_CONTROL_LINE, stream);
    bench->set[0] = (gs_guard_control){0};
    for (size_t i = 1; i <= CONTROLS; i++)
        bench->set[i] = (gs_guard_control){.word = (uint32_t)gs_max(job->resident[0], 1)};
    failed =
        failed ? failed : api->copy_in_later(bench->guards, bench->set, (CONTROLS + 1) * sizeof *bench->set, stream);
    gs_shared_word_set(bench->stop, 0);
    return failed ? failed : api->stream_wait(stream);
}

/* A look at the stop word in about 4 us, as `gridsmith run` does. */
static uint32_t guard_mask(const struct job *job, const gs_zoo_launch *launch) {
    enum { MOST_AHEAD = 1024 };
    double us = job->launch_us > 0 ? job->launch_us : 1000;
    double wanted = (double)blocks_of(launch) * GUARDS_AHEAD_NS / (us * 1e3);
    uint32_t ahead = 1;
    while (ahead < MOST_AHEAD && ahead * 2 <= wanted)
        ahead *= 2;
    return ahead - 1;
}

/* How many blocks a worker block takes at a time: as the daemon does, fewer than usual if there are few. */
static uint32_t task_of(const struct bench *bench, const gs_zoo_launch *launch) {
    enum { USUAL = 10, TASKS = 16 };
    uint64_t task = blocks_of(launch) / ((uint64_t)bench->card.sms * TASKS);
    return (uint32_t)gs_max_u64(gs_min_u64(task, USUAL), 1);
}

/* `number` is the place of its counters. A guarded launch continues the one with the number before it, unless that is
   0; `is_last`: nothing stops it. */
static int launch_way(struct bench *bench, struct job *job, const gs_zoo_launch *launch, enum way way, uint32_t number,
                      bool is_last, cu_stream stream) {
    pair_side *side = &job->side;
    gs_control control = bench->control;
    control.next = bench->memory + sizeof(gs_control_words) + GS_CONTROL_LINE * (uint64_t)number;
    gs_confined_parameter confined =
        gs_control_grid(&control, launch->grid, launch->shared_bytes, task_of(bench, launch), 0);
    gs_guard_parameter guard = {.control = bench->guards + number * sizeof(gs_guard_control),
                                .stop = is_last ? bench->guards : bench->stop_on_device,
                                .mask = guard_mask(job, launch)};
    void *arguments[GS_COUNT(launch->list) + 1];
    cu_call call = {.grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                    .block = {launch->block[0], launch->block[1], launch->block[2]},
                    .shared_bytes = launch->shared_bytes,
                    .stream = stream};
    cu_kernel *kernel = way == CONFINED  ? &side->forms[GS_FORM_CONFINED][launch->kind].kernel
                        : way == GUARDED ? &job->guarded[launch->kind]
                                         : &side->forms[GS_FORM_ORIGINAL][launch->kind].kernel;
    gs_cuda_point(arguments, launch->list, launch->arguments, side->memory);
    arguments[launch->arguments] = way == CONFINED ? (void *)&confined : (void *)&guard;
    if (way == CONFINED)
        call.grid[0] = job->workers[launch->kind], call.grid[1] = call.grid[2] = 1;
    return blocks_of(launch) ? gs_cuda_launch(&bench->card.api, kernel, &call, arguments) : 0;
}

/* ---- cost while nothing moves ---- */

/* All launches of the instance once, in us. Each guarded launch is the first and only one of its chain: the control
   before it must be all 0, so every second one is used. */
static bool time_pass(struct bench *bench, struct job *job, enum way way, double *us) {
    const gs_zoo_instance *instance = &job->side.instance;
    cu_stream stream = job->side.stream;
    int failed = side_restore(&job->side, &bench->card) ? reset(bench, job) : 1;
    for (size_t i = 1; i < CONTROLS && way == GUARDED; i++)
        bench->set[i].word = i % 2 ? (uint32_t)gs_max(job->resident[0], 1) : 0;
    if (way == GUARDED && !failed)
        failed = bench->card.api.copy_in_later(bench->guards, bench->set, (CONTROLS + 1) * sizeof *bench->set, stream);
    failed = failed ? failed : bench->card.api.stream_wait(stream);
    int64_t began = gs_now_ns();
    for (size_t i = 0; i < instance->launches.count && !failed; i++)
        failed = launch_way(bench, job, &instance->launches.data[i], way,
                            (uint32_t)(way == GUARDED ? 2 * i % (CONTROLS - 2) : i), false, stream);
    failed = failed ? failed : bench->card.api.stream_wait(stream);
    *us = us_since(began);
    return card_check(&bench->card, failed, job->side.name);
}

/* Medians of passes in all ways, which alternate. */
static bool measure_costs(struct bench *bench, struct job *job, double us[WAYS]) {
    double times[WAYS][TIMES];
    for (int i = -1; i < TIMES; i++)
        for (enum way way = 0; way < WAYS; way++)
            if (!time_pass(bench, job, way, &times[way][gs_max(i, 0)]))
                return false;
    for (enum way way = 0; way < WAYS; way++)
        us[way] = median_of(times[way], TIMES);
    return true;
}

/* ---- stopping and moving one launch ---- */

static int wait_for_stream(const struct bench *bench, cu_stream stream) {
    int code;
    while ((code = bench->card.api.stream_query(stream)) == CU_ERROR_NOT_READY)
        ;
    return code;
}

static int ask_to_leave(struct bench *bench, enum way way, int sms) {
    uint32_t mask[GS_JOB_SMS / 32];
    fill_mask(mask, sms);
    if (way == CONFINED)
        return gs_control_confine(&bench->control, mask, &bench->card.api, bench->signals);
    gs_shared_word_set(bench->stop, 1);
    return 0;
}

/* What is left of a guarded launch, on the part. */
static int launch_rest(struct bench *bench, struct job *job, const gs_zoo_launch *launch) {
    gs_shared_word_set(bench->stop, 0);
    int failed = launch_way(bench, job, launch, GUARDED, 1, true, bench->part);
    return failed ? failed : wait_for_stream(bench, bench->part);
}

/* The first launch, asked after `part` of its time to leave all SMs but `sms`. `*stop_us`: from there to its end;
   `*all_us`: until all is done. A confined launch that has left all SMs is not continued. */
static bool time_move(struct bench *bench, struct job *job, enum way way, double part, int sms, double *stop_us,
                      double *all_us) {
    const gs_zoo_launch *launch = &job->side.instance.launches.data[0];
    int failed = side_restore(&job->side, &bench->card) ? reset(bench, job) : 1;
    int64_t began = gs_now_ns(), asked_at = began + (int64_t)(part * job->launch_us * 1e3);
    failed = failed ? failed : launch_way(bench, job, launch, way, 0, false, job->side.stream);
    while (gs_now_ns() < asked_at)
        ;
    int64_t asked = gs_now_ns();
    failed = failed ? failed : ask_to_leave(bench, way, sms);
    failed = failed ? failed : wait_for_stream(bench, job->side.stream);
    *stop_us = us_since(asked);
    if (!failed && way == GUARDED)
        failed = launch_rest(bench, job, launch);
    *all_us = us_since(began);
    failed = failed ? failed : bench->card.api.stream_wait(bench->signals);
    return card_check(&bench->card, failed, job->side.name);
}

/* The first launch as written, on all SMs or on the part. */
static bool time_launch(struct bench *bench, struct job *job, cu_stream stream, double *median) {
    double times[TIMES];
    for (int i = 0; i < TIMES; i++) {
        int failed = side_restore(&job->side, &bench->card) ? bench->card.api.stream_wait(job->side.stream) : 1;
        int64_t began = gs_now_ns();
        failed =
            failed ? failed : launch_way(bench, job, &job->side.instance.launches.data[0], ORIGINAL, 0, false, stream);
        failed = failed ? failed : wait_for_stream(bench, stream);
        times[i] = us_since(began);
        if (!card_check(&bench->card, failed, job->side.name))
            return false;
    }
    *median = median_of(times, TIMES);
    return true;
}

struct moved {
    double stop_us, worst_us; /* to leave all SMs */
    double late_us;           /* after a move */
};

static bool measure_moves(struct bench *bench, struct job *job, enum way way, struct moved *into) {
    static const double PART = 0.4;
    double stops[MOVES], late[MOVES], us;
    double ideal = PART * job->launch_us + (1 - PART) * job->part_us;
    for (int i = 0; i < MOVES; i++) {
        double part = 0.1 + 0.5 * (double)gs_random_from(&bench->random, 0, 1000) / 1000;
        if (!time_move(bench, job, way, part, 0, &stops[i], &us) ||
            !time_move(bench, job, way, PART, PART_SMS, &us, &late[i]))
            return false;
        late[i] -= ideal;
    }
    *into = (struct moved){.stop_us = median_of(stops, MOVES), .late_us = median_of(late, MOVES)};
    into->worst_us = stops[MOVES - 1];
    return true;
}

/* ---- one kernel ---- */

static bool try_kernel(struct bench *bench, const char *name) {
    struct job *job = calloc(1, sizeof *job);
    double us[WAYS];
    struct moved confined, guarded;
    bool is_well = job && prepare_job(bench, job, name) && time_pass(bench, job, ORIGINAL, &us[0]) &&
                   side_keep(&job->side, &bench->card) && time_launch(bench, job, job->side.stream, &job->launch_us) &&
                   time_launch(bench, job, bench->part, &job->part_us) && measure_costs(bench, job, us);
    bool is_moved = is_well && job->launch_us >= LEAST_US && job->side.instance.launches.count == 1;
    if (is_moved)
        is_well = measure_moves(bench, job, CONFINED, &confined) && side_is_right(&job->side, &bench->card) &&
                  measure_moves(bench, job, GUARDED, &guarded) && side_is_right(&job->side, &bench->card);
    if (is_well)
        printf("%-14s %6zu %9.1f %+7.2f%% %+7.2f%%", name, job->side.instance.launches.count, us[ORIGINAL],
               100 * (us[CONFINED] / us[ORIGINAL] - 1), 100 * (us[GUARDED] / us[ORIGINAL] - 1));
    if (is_well && is_moved)
        printf(" %9.1f %7.1f %7.1f %9.1f %7.1f %7.1f", confined.stop_us, confined.worst_us, confined.late_us,
               guarded.stop_us, guarded.worst_us, guarded.late_us);
    printf(is_well ? "\n" : "%s: failed, or a result is wrong\n", name);
    fflush(stdout);
    if (job)
        side_free(&job->side, &bench->card);
    free(job);
    return is_well;
}

int main(int argc, char **argv) {
    static const char *const slate[] = {"black_scholes", "gaussian", "sgemm", "quasirandom", "transpose"};
    static struct bench bench;
    int wrong = 0;
    if (!open_bench(&bench))
        return 3;
    printf("                              cost                 confined, us             guard, us\n"
           "kernel        launches       us confined    guard      stop   worst    late      stop   worst    late\n");
    for (int i = 1; i < argc; i++)
        wrong += !try_kernel(&bench, argv[i]);
    for (size_t i = 0; i < GS_COUNT(slate) && argc < 2; i++)
        wrong += !try_kernel(&bench, slate[i]);
    card_close(&bench.card);
    return wrong ? 1 : 0;
}
