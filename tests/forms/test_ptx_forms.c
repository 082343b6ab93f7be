/*
 * test_ptx_forms.c: forms of PTX compute what the original computes, or are refused.
 *
 * Many random kernels (random_ptx.c) form one module, which is compiled once for the CPU. Each kernel runs as it is,
 * persistent and confined, with few and many worker blocks, with stops, and with blocks and threads in random order.
 * The output, the sums and the count of each block must be the same. As many kernels run as GRIDSMITH_RUNS divided by
 * 5000.
 *
 * To show that it finds mistakes, the test also runs with forms that are broken on purpose.
 */
#include "test.h"

#include "kernels/cpu/cpu.h"
#include "random_ptx.h"

#include <stdlib.h>

enum {
    KERNELS = 40 /* of a module, at most */,
    FEW = 10,
    BROKEN = 5, /* of a module with broken forms, and how often each of them is launched, in other grids */
    TRIES = 8,
    WORDS = RANDOM_PTX_BLOCKS * RANDOM_PTX_THREADS,
    MOST_FEATURES = 64,
    COVERED = 6000 /* kernels that are made to count their features */
};

struct kernel {
    char name[40];
    bool is_made[3]; /* by form */
    gs_ptx_form needs;
    random_ptx_kernel made;
    uint32_t seconds; /* time limit */
};

static const char *const suffixes[] = {"", "__persistent", "__confined"};

struct outcome {
    uint32_t out[WORDS], sums[RANDOM_PTX_SUMS], flags[RANDOM_PTX_FLAGS], counts[RANDOM_PTX_BLOCKS];
};

/* ---- the module ---- */

static void choose_grid(struct kernel *kernel, gs_random *random) {
    static const uint32_t grids[][3] = {{1, 1, 1}, {7, 1, 1}, {24, 1, 1}, {3, 4, 2}, {3, 5, 1}};
    memcpy(kernel->made.grid, grids[gs_random_from(random, 0, GS_COUNT(grids) - 1)], sizeof kernel->made.grid);
}

/* Another grid with the same rows. */
static void choose_columns(struct kernel *kernel, gs_random *random) {
    uint32_t rows = kernel->made.grid[1] * kernel->made.grid[2];
    kernel->made.grid[0] = (uint32_t)gs_random_from(random, 1, RANDOM_PTX_BLOCKS / rows);
}

static void shape(struct kernel *kernel, gs_random *random) {
    static const uint32_t blocks[][3] = {{32, 1, 1}, {64, 1, 1}, {100, 1, 1}, {256, 1, 1},
                                         {16, 4, 1}, {48, 2, 1}, {1, 1, 1}};
    memcpy(kernel->made.block, blocks[gs_random_from(random, 0, GS_COUNT(blocks) - 1)], sizeof kernel->made.block);
    choose_grid(kernel, random);
}

/* Breaks forms: replaces all occurrences of one text by another of the same length. False: not found. */
static bool replace(gs_text *text, const char *from, const char *to) {
    bool has_any = false;
    assert_int_equal(strlen(from), strlen(to));
    for (char *at = text->data; at && (at = strstr(at, from)); at += strlen(from)) {
        memcpy(at, to, strlen(to));
        has_any = true;
    }
    return has_any;
}

struct breaking {
    const char *from, *to;
};

/* False: there was nothing to break. */
static bool add_forms(gs_text *text, struct kernel *kernels, int count, const struct breaking *breaking) {
    gs_ptx_module module;
    gs_error error;
    gs_text forms = {0};
    if (gs_ptx_read(&module, "random.ptx", text->data, text->count, &error) != GS_OK)
        fail_msg("%ld: %s", error.line, error.message);
    for (int i = 0; i < count; i++)
        for (int form = GS_FORM_PERSISTENT; form <= GS_FORM_CONFINED; form++) {
            gs_ptx_options options = {.form = (enum gs_form)form, .counts_blocks = true};
            gs_code code = gs_ptx_reshape(&module, (uint32_t)gs_ptx_find_function(&module, kernels[i].name), &options,
                                          &forms, &kernels[i].needs, &error);
            assert_true(code == GS_OK || code == GS_E_REFUSED);
            kernels[i].is_made[form] = code == GS_OK;
        }
    bool is_broken = breaking && forms.data && replace(&forms, breaking->from, breaking->to);
    gs_ptx_free(&module);
    if (forms.data)
        gs_text_put(text, forms.data, forms.count);
    gs_text_free(&forms);
    return is_broken;
}

static gs_text make_module(struct kernel *kernels, int count, uint64_t seed, uint64_t first,
                           const struct breaking *breaking, bool *is_broken) {
    gs_text text = {0};
    gs_text_add(&text, "%s", random_ptx_head);
    for (int i = 0; i < count; i++) {
        gs_random random = gs_random_at(seed, first + (uint64_t)i);
        kernels[i] = (struct kernel){.seconds = breaking ? 1 : 60};
        snprintf(kernels[i].name, sizeof kernels[i].name, "k%llu", (unsigned long long)(first + (uint64_t)i));
        kernels[i].made.name = kernels[i].name;
        shape(&kernels[i], &random);
        random_ptx_put(&text, &kernels[i].made, &random);
    }
    *is_broken = add_forms(&text, kernels, count, breaking);
    return text;
}

/* ---- running ---- */

/* The features with one of these needs. */
static uint64_t features_of(enum random_ptx_need first, enum random_ptx_need last) {
    uint64_t found = 0;
    for (int i = 0; random_ptx_feature(i); i++)
        for (size_t j = 0; j < random_ptx_row_count; j++)
            if (random_ptx_rows[j].need >= first && random_ptx_rows[j].need <= last &&
                strcmp(random_ptx_rows[j].feature, random_ptx_feature(i)) == 0)
                found |= UINT64_C(1) << i;
    return found;
}

/* Of these a kernel has only one each: blocks wait for others, and threads leave before others. */
static uint64_t features_that_wait(void) {
    return features_of(RANDOM_PTX_ONCE, RANDOM_PTX_ONE_ROW);
}

static uint64_t features_that_leave(void) {
    return features_of(RANDOM_PTX_LEAVES, RANDOM_PTX_LEAVES);
}

static const uint32_t *inputs(void) {
    static uint32_t in[WORDS];
    for (uint32_t i = 0; i < WORDS; i++)
        in[i] = i * 2654435761u >> 7;
    return in;
}

/* Adds the call of a kernel in a form. `in` is the number of the inputs. */
static void add_call(gs_work *work, const struct kernel *kernel, int form, int32_t in, gs_random *random,
                     struct outcome *outcome) {
    char name[80];
    memset(outcome, 0, sizeof *outcome);
    int32_t outputs = gs_work_buffer(work, outcome->out, sizeof outcome->out),
            sums = gs_work_buffer(work, outcome->sums, sizeof outcome->sums),
            flags = gs_work_buffer(work, outcome->flags, sizeof outcome->flags),
            counts = gs_work_buffer(work, outcome->counts, sizeof outcome->counts);
    snprintf(name, sizeof name, "%s%s", kernel->name, suffixes[form]);
    gs_job_call *call = gs_work_call(work, name, kernel->made.grid, kernel->made.block, kernel->made.shared_bytes);
    call->form = (uint32_t)form;
    call->counts = form == GS_FORM_ORIGINAL ? -1 : counts;
    call->workers = form == GS_FORM_ORIGINAL ? 0 : (uint32_t)gs_random_from(random, 1, 9);
    call->task_blocks = (uint32_t)gs_random_from(random, 0, 4);
    call->stops = form == GS_FORM_CONFINED ? (uint32_t)gs_random_from(random, 0, 3) : 0;
    call->gives_first = !kernel->needs.needs_queue && gs_random_chance(random, 67);
    gs_work_pass_buffer(work, in);
    gs_work_pass_buffer(work, outputs);
    gs_work_pass_buffer(work, sums);
    gs_work_pass_buffer(work, flags);
}

/* Whether a form of a kernel is to run. */
static bool is_run(const struct kernel *kernel, int form) {
    return form == GS_FORM_ORIGINAL ||
           (kernel->is_made[form] && !gs_ptx_form_misfit(&kernel->needs, kernel->made.grid, kernel->made.block));
}

/* Runs some kernels in a form, one after the other in one process: those that wait for other blocks, or the others.
   Blocks that wait for lower ones must begin in order. */
static gs_code play_some(gs_executor *executor, void *module, const struct kernel *kernels, int count, bool do_wait,
                         int form, uint64_t seed, struct outcome *outcomes, gs_error *error) {
    gs_random random = gs_random_at(seed, 7);
    gs_work work = {.seconds = kernels[0].seconds * (uint32_t)count,
                    .seed = seed,
                    .shuffled = seed % 2 && !do_wait,
                    .backwards = seed % 3 == 0,
                    .threads = seed % 7 < 5 ? 1 : 0}; /* 0: as many as there are cores */
    int32_t in = gs_work_buffer(&work, (void *)(uintptr_t)inputs(), WORDS * sizeof(uint32_t));
    for (int i = 0; i < count; i++)
        if (is_run(&kernels[i], form) && ((kernels[i].made.features & features_that_wait()) != 0) == do_wait)
            add_call(&work, &kernels[i], form, in, &random, &outcomes[i]);
    gs_code code = work.calls.count ? executor->ops->run(module, &work, error) : GS_OK;
    gs_work_free(&work);
    return code;
}

static gs_code play(gs_executor *executor, void *module, const struct kernel *kernels, int count, int form,
                    uint64_t seed, struct outcome *outcomes, gs_error *error) {
    gs_code code = play_some(executor, module, kernels, count, false, form, seed, outcomes, error);
    return code == GS_OK ? play_some(executor, module, kernels, count, true, form, seed, outcomes, error) : code;
}

static bool is_same(const struct kernel *kernel, const struct outcome *original, const struct outcome *formed) {
    uint32_t blocks = kernel->made.grid[0] * kernel->made.grid[1] * kernel->made.grid[2];
    for (uint32_t i = 0; i < blocks; i++)
        if (formed->counts[i] != 1)
            return false;
    return memcmp(original->out, formed->out, sizeof original->out) == 0 &&
           memcmp(original->sums, formed->sums, sizeof original->sums) == 0 &&
           memcmp(original->flags, formed->flags, sizeof original->flags) == 0;
}

/* Runs the forms of one kernel. False: one differs. */
static bool check_kernel(gs_executor *executor, void *module, const struct kernel *kernel, uint64_t seed, char *message,
                         size_t size) {
    static struct outcome original, formed;
    gs_error error = {.code = GS_OK};
    if (play(executor, module, kernel, 1, GS_FORM_ORIGINAL, seed, &original, &error) != GS_OK)
        fail_msg("the original %s fails: %s", kernel->name, error.message);
    for (int form = GS_FORM_PERSISTENT; form <= GS_FORM_CONFINED; form++) {
        if (!is_run(kernel, form))
            continue;
        gs_code code = play(executor, module, kernel, 1, form, seed + 1, &formed, &error);
        if (code == GS_OK && is_same(kernel, &original, &formed))
            continue;
        snprintf(message, size, "%.39s as form %d with seed %llu: %.400s", kernel->name, form, (unsigned long long)seed,
                 code == GS_OK ? "it computes something else" : error.message);
        return false;
    }
    return true;
}

/* Runs all kernels of a module in all forms. False: something differs or fails; check_kernel finds the kernel. */
static bool all_are_same(gs_executor *executor, void *module, const struct kernel *kernels, int count, uint64_t seed,
                         gs_error *error) {
    static struct outcome originals[KERNELS], formed[KERNELS];
    *error = (gs_error){.message = "one computes something else"};
    bool are_same = play(executor, module, kernels, count, GS_FORM_ORIGINAL, seed, originals, error) == GS_OK;
    for (int form = GS_FORM_PERSISTENT; form <= GS_FORM_CONFINED && are_same; form++) {
        are_same = play(executor, module, kernels, count, form, seed + (uint64_t)form, formed, error) == GS_OK;
        for (int i = 0; i < count && are_same; i++)
            are_same = !is_run(&kernels[i], form) || is_same(&kernels[i], &originals[i], &formed[i]);
    }
    return are_same;
}

/* All kernels and forms in one program. */
static void *compile(gs_executor *executor, const struct kernel *kernels, int kernel_count, const gs_text *text,
                     gs_error *error) {
    static char names[3 * KERNELS][80]; /* of 40 bytes and a suffix */
    static const char *list[3 * KERNELS];
    size_t count = 0;
    for (int i = 0; i < kernel_count; i++)
        for (int form = GS_FORM_ORIGINAL; form <= GS_FORM_CONFINED; form++)
            if (form == GS_FORM_ORIGINAL || kernels[i].is_made[form]) {
                snprintf(names[count], sizeof names[count], "%.39s%s", kernels[i].name, suffixes[form]);
                list[count] = names[count];
                count++;
            }
    gs_build build = {
        .name = "random.ptx", .text = text->data, .size = text->count, .kernels = list, .kernel_count = count};
    return executor->ops->compile(executor, &build, error);
}

static gs_executor *open_executor(void) {
    const char *on = getenv("GRIDSMITH_ON");
    gs_error error;
    gs_executor *executor = gs_executor_open(on ? on : "host", &error);
    if (!executor)
        fail_msg("%s", error.message);
    return executor;
}

/* Kernels number `first` to `first` + `count` - 1. Returns how many are accepted. */
static int check_module(uint64_t seed, uint64_t first, int count) {
    struct kernel kernels[KERNELS];
    int accepted = 0;
    char message[500];
    gs_error error;
    bool is_broken;
    gs_text text = make_module(kernels, count, seed, first, NULL, &is_broken);
    gs_executor *executor = open_executor();
    void *module = compile(executor, kernels, count, &text, &error);
    if (!module)
        fail_msg("%ld: %s", error.line, error.message);
    bool are_same = all_are_same(executor, module, kernels, count, seed + first, &error);
    for (int i = 0; i < count; i++) {
        accepted += kernels[i].is_made[GS_FORM_PERSISTENT];
        if (!are_same &&
            !check_kernel(executor, module, &kernels[i], seed + 10 * (first + (uint64_t)i), message, sizeof message))
            fail_msg("GRIDSMITH_SEED=%llu: %s", (unsigned long long)seed, message);
    }
    if (!are_same)
        fail_msg("GRIDSMITH_SEED=%llu: kernels from %llu on differ only together: %s", (unsigned long long)seed,
                 (unsigned long long)first, error.message);
    gs_executor_close(executor);
    gs_text_free(&text);
    return accepted;
}

/* Whether some launch of these kernels shows that their forms are broken. */
static bool is_noticed(uint64_t seed, uint64_t first, const struct breaking *breaking) {
    struct kernel kernels[KERNELS];
    gs_error error;
    bool is_broken, is_noticed = false;
    gs_text text = make_module(kernels, BROKEN, seed, first, breaking, &is_broken);
    gs_executor *executor = is_broken ? open_executor() : NULL;
    void *module = executor ? compile(executor, kernels, BROKEN, &text, &error) : NULL;
    if (executor && !module)
        fail_msg("%ld: %s", error.line, error.message);
    for (uint64_t i = 0; i < TRIES && module && !is_noticed; i++) {
        gs_random random = gs_random_at(seed + first, i);
        for (int k = 0; k < BROKEN; k++)
            choose_columns(&kernels[k], &random);
        is_noticed = !all_are_same(executor, module, kernels, BROKEN, seed + 10 * (first + i), &error);
    }
    gs_executor_close(executor);
    gs_text_free(&text);
    return is_noticed;
}

/* ---- tests ---- */

TEST(forms_compute_the_same) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1);
    uint64_t runs = gs_max_u64(FEW, test_number("GRIDSMITH_RUNS", 100000) / 5000);
    uint64_t accepted = 0;
    for (uint64_t first = 0, done; first < runs; first = done) {
        done = gs_min_u64(first + KERNELS, runs);
        accepted += (uint64_t)check_module(seed, first, (int)(done - first));
        if (done % 1000 == 0)
            print_message("%llu random kernels so far, %llu accepted\n", (unsigned long long)done,
                          (unsigned long long)accepted);
    }
    print_message("%llu random kernels, %llu accepted\n", (unsigned long long)runs, (unsigned long long)accepted);
    assert_true(accepted > runs / 2);
}

/* ---- what random kernels have ---- */

struct coverage {
    uint32_t kernels[MOST_FEATURES], accepted[MOST_FEATURES];
    uint32_t together[MOST_FEATURES][MOST_FEATURES]; /* accepted kernels that have both */
};

static void count_features(struct coverage *coverage, const struct kernel *kernel) {
    bool is_accepted = is_run(kernel, GS_FORM_PERSISTENT) && is_run(kernel, GS_FORM_CONFINED);
    for (int i = 0; random_ptx_feature(i); i++) {
        if (!(kernel->made.features >> i & 1))
            continue;
        coverage->kernels[i]++;
        coverage->accepted[i] += is_accepted;
        for (int j = 0; random_ptx_feature(j); j++)
            coverage->together[i][j] += is_accepted && kernel->made.features >> j & 1;
    }
}

/* Prints how often each feature occurs, with how many others together, and with which it never does. */
static uint32_t print_coverage(const struct coverage *coverage) {
    uint64_t waits = features_that_wait(), leaves = features_that_leave();
    uint32_t missing = 0;
    for (int i = 0; random_ptx_feature(i); i++) {
        gs_text never = {0};
        uint32_t others = 0, count = 0;
        for (int j = 0; random_ptx_feature(j); j++) {
            if (i == j || ((waits >> i & waits >> j) | (leaves >> i & leaves >> j)) & 1)
                continue;
            others++;
            count += coverage->together[i][j] > 0;
            if (!coverage->together[i][j])
                gs_text_add(&never, ", not %s", random_ptx_feature(j));
        }
        print_message("%-34s %5u kernels, %5u accepted, with %u of %u others%s\n", random_ptx_feature(i),
                      coverage->kernels[i], coverage->accepted[i], count, others, never.data ? never.data : "");
        missing += others - count;
        gs_text_free(&never);
    }
    return missing;
}

/* Every feature occurs in kernels that are accepted, and together with nearly every other one. */
TEST(random_kernels_have_all_features) {
    enum { MOST_MISSING = 60 };
    static struct coverage coverage;
    uint64_t seed = test_number("GRIDSMITH_SEED", 1);
    bool is_broken;
    if (test_number("GRIDSMITH_RUNS", 100000) < 10000)
        skip(); /* the same kernels with every preset */
    for (uint64_t first = 0; first < COVERED; first += KERNELS) {
        struct kernel kernels[KERNELS];
        gs_text text = make_module(kernels, KERNELS, seed, first, NULL, &is_broken);
        for (int i = 0; i < KERNELS; i++)
            count_features(&coverage, &kernels[i]);
        gs_text_free(&text);
    }
    assert_in_range(print_coverage(&coverage), 0, MOST_MISSING);
    for (int i = 0; random_ptx_feature(i); i++)
        assert_true(coverage.accepted[i]);
}

/* Each of these breaks the block loop, or a change of the body, in one place. */
TEST(broken_forms_are_found) {
    static const struct breaking broken[] = {
        {"red.shared.add.u32 [%gs_phase], 1;", "red.shared.add.u32 [%gs_phase], 2;"}, /* exited threads */
        {"xor.b32 %gs_phase, %gs_phase, 4;", "xor.b32 %gs_phase, %gs_phase, 0;"},
        {"mul.wide.u32 %gs_d1, %gs_r12, 4;", "mul.wide.u32 %gs_d1, %gs_r12, 0;"}, /* counts of blocks */
        {"shr.u32 %gs_r7, %gs_place, 20;", "shr.u32 %gs_r7, %gs_place, 21;"},     /* the block of a task */
        {"sub.u32 %gs_y, %gs_y, %gs_r21;", "sub.u32 %gs_y, %gs_y, %gs_r11;"},     /* rows */
        {"ld.param.u32 %gs_grid1, [gs_job+4];", "ld.param.u32 %gs_grid1, [gs_job+8];"},
        {"setp.eq.u32 %gs_p1, %gs_r9, %gs_r13;", "setp.ne.u32 %gs_p1, %gs_r9, %gs_r13;"}, /* the queue at the end */
        {"ld.param.u32 %gs_r9, [%gs_d4+52];", "ld.param.u32 %gs_r9, [%gs_d4+48];"},       /* and where it begins */
        {"selp.b32 %gs_r9, %gs_r14, 1, %gs_p1;", "selp.b32 %gs_r9,       9, 1, %gs_p1;"}, /* the last blocks */
    };
    uint64_t seed = test_number("GRIDSMITH_SEED", 1);
    if (getenv("GRIDSMITH_ON") || test_number("GRIDSMITH_RUNS", 100000) < 10000)
        skip(); /* a kernel that hangs would hold a GPU, and takes time everywhere */
    for (size_t i = 0; i < GS_COUNT(broken); i++) {
        bool is_found = false;
        for (uint64_t first = 0; first < 16 * KERNELS && !is_found; first += BROKEN)
            is_found = is_noticed(seed, first, &broken[i]);
        if (!is_found)
            fail_msg("not detected: \"%s\"", broken[i].to);
    }
}

TEST_MAIN(NULL, NULL)
