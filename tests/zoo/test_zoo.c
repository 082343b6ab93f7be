/*
 * test_zoo.c: the kernels of the zoo in every form, at several sizes, on the CPU, compared with their references in
 * plain C.
 *
 * All kernels in one form are one program, each in a namespace of its own, so that the C++ compiler runs six times: for
 * the originals, the persistent and the confined form, a half and a quarter of the threads; and again for the
 * persistent form with AddressSanitizer. GRIDSMITH_RUNS sets how much is tested.
 */
#include "test.h"

#include "kernels/zoo/zoo.h"
#include "run_forms.h"

#include <stdlib.h>
#include <string.h>

enum { KERNELS = 22, SANITIZED = 5, PROGRAMS = 6 };

static const gs_zoo_form programs[PROGRAMS] = {{.form = GS_FORM_ORIGINAL},
                                               {.form = GS_FORM_PERSISTENT, .counts_blocks = true},
                                               {.form = GS_FORM_CONFINED, .counts_blocks = true},
                                               {.form = GS_FORM_ELASTIC, .factor = 2},
                                               {.form = GS_FORM_ELASTIC, .factor = 4},
                                               [SANITIZED] = {.form = GS_FORM_PERSISTENT, .counts_blocks = true}};

static struct {
    gs_executor *executor;
    gs_zoo_part parts[PROGRAMS][KERNELS]; /* the first kernel of each instance */
} zoo;

static void die(const gs_zoo_kernel *kernel, const gs_error *error) {
    char words[1200];
    fail_msg("%s: %s", kernel->name, gs_error_text(error, words, sizeof words));
}

static bool is_thorough(void) {
    return test_number("GRIDSMITH_RUNS", 100000) >= 100000;
}

/* wgemm has no elastic forms. */
static bool has_program(size_t kernel, int program) {
    return programs[program].form != GS_FORM_ELASTIC || !gs_zoo_at(kernel)->is_assembly;
}

/* Compilers take most of the time, and no sanitizer of this test looks at them: unless the test is thorough, every
   third kernel is compiled, and the others are only reshaped. With AddressSanitizer in the kernels it is every third by
   default, and all with more than 100,000 runs. */
static bool is_compiled(size_t kernel, int program) {
    bool is_all = program == SANITIZED ? test_number("GRIDSMITH_RUNS", 100000) > 100000 : is_thorough();
    return is_all || kernel % 3 == 0;
}

static gs_zoo_instance plan_of(const gs_zoo_kernel *kernel, const char *size) {
    gs_zoo_instance instance;
    gs_error error;
    if (gs_zoo_instance_make(&instance, kernel, gs_zoo_size_find(kernel, size), &error) != GS_OK)
        die(kernel, &error);
    return instance;
}

/* ---- programs ---- */

static void make_parts(int program) {
    gs_error error;
    for (size_t i = 0; i < KERNELS; i++) {
        const gs_zoo_kernel *kernel = gs_zoo_at(i);
        gs_zoo_instance instance = plan_of(kernel, "tiny");
        uint32_t guess = kernel->elastic[programs[program].factor / 4];
        if (has_program(i, program) &&
            gs_zoo_part_make(&zoo.parts[program][i], &instance, 0, &programs[program], guess, &error) != GS_OK)
            die(kernel, &error);
        gs_zoo_instance_free(&instance);
    }
}

/* Elastic forms are sources: all kernels are compiled as one, each in a namespace. So CUDA's headers cannot be used. */
static void compile_sources(int program) {
    static const char *const options[] = {"-O1"};
    static formed list[KERNELS];
    const char *names[KERNELS];
    gs_text text = {0};
    gs_error error;
    size_t count = 0;
    for (size_t i = 0; i < KERNELS; i++) {
        gs_zoo_part *part = &zoo.parts[program][i];
        char name[100];
        if (!has_program(i, program))
            continue;
        snprintf(name, sizeof name, "%.99s", part->name);
        snprintf(list[count].name, sizeof list[count].name, "in_%.60s", gs_zoo_at(i)->name);
        snprintf(part->name, sizeof part->name, "%s::%s", list[count].name, name);
        list[count].text = part->text;
        names[count++] = part->name;
    }
    forms_put_all(list, sizeof list[0], count, &text);
    gs_build build = {.name = "zoo",
                      .text = text.data,
                      .size = text.count,
                      .kernels = names,
                      .kernel_count = count,
                      .options = options,
                      .option_count = GS_COUNT(options)};
    setenv("GRIDSMITH_COMPILER", "clang", 1);
    void *compiled = zoo.executor->ops->compile(zoo.executor, &build, &error);
    if (!compiled)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < KERNELS; i++)
        zoo.parts[program][i].program = compiled;
    gs_text_free(&text);
}

/* The others are PTX. */
static void compile_ptx(int program) {
    gs_error error;
    for (size_t i = 0; i < KERNELS; i++) {
        gs_zoo_part *part = &zoo.parts[program][i];
        const char *name = part->name;
        if (!is_compiled(i, program))
            continue;
        gs_build build = {.name = gs_zoo_at(i)->name,
                          .text = part->text.data,
                          .size = part->text.count,
                          .kernels = &name,
                          .kernel_count = 1,
                          .address_sanitizer = program == SANITIZED};
        part->program = zoo.executor->ops->compile(zoo.executor, &build, &error);
        if (!part->program)
            die(gs_zoo_at(i), &error);
    }
}

static int reshape_all(void **state) {
    (void)state;
    for (int program = 0; program < PROGRAMS; program++)
        make_parts(program);
    return 0;
}

static int open_zoo(void **state) {
    gs_error error;
    zoo.executor = gs_executor_host(&error);
    assert_non_null(zoo.executor);
    reshape_all(state);
    for (int program = 0; program < (is_thorough() ? PROGRAMS : SANITIZED); program++)
        (programs[program].form == GS_FORM_ELASTIC ? compile_sources : compile_ptx)(program);
    return 0;
}

static int close_zoo(void **state) {
    (void)state;
    for (int program = 0; program < PROGRAMS; program++)
        for (size_t i = 0; i < KERNELS; i++)
            gs_zoo_part_free(&zoo.parts[program][i]);
    gs_executor_close(zoo.executor);
    return 0;
}

/* The parts of an instance: its kinds, each from the kernel whose source it is. */
static void parts_of(const gs_zoo_instance *instance, int program, gs_zoo_part *parts) {
    for (size_t kind = 0; kind < instance->kind_count; kind++)
        for (size_t i = 0; i < KERNELS; i++)
            if (strcmp(gs_zoo_at(i)->name, instance->kinds[kind].source) == 0)
                parts[kind] = zoo.parts[program][i];
}

static bool can_play(const gs_zoo_instance *instance, int program) {
    gs_zoo_part parts[GS_ZOO_KINDS];
    parts_of(instance, program, parts);
    for (size_t kind = 0; kind < instance->kind_count; kind++)
        if (!parts[kind].program)
            return false;
    return true;
}

/* ---- tests ---- */

TEST(there_are_twenty_two_kernels) {
    static const char *const names[] = {"bfs",      "cp",          "cutcp",     "fft",   "histo",         "img",
                                        "lbm",      "mrif",        "mriq",      "pns",   "regtil",        "sgemm",
                                        "spmv",     "stenc",       "tpacf",     "tgemm", "black_scholes", "conv",
                                        "gaussian", "quasirandom", "transpose", "wgemm"};
    for (size_t i = 0; i < GS_COUNT(names); i++)
        assert_non_null(gs_zoo_find(names[i]));
    assert_non_null(gs_zoo_at(KERNELS - 1));
    assert_null(gs_zoo_at(KERNELS));
}

static void play(const gs_zoo_kernel *kernel, gs_zoo_instance *instance, int program, gs_zoo_form form) {
    gs_zoo_part parts[GS_ZOO_KINDS];
    gs_zoo_result result;
    gs_error error;
    form.seconds = 60;
    form.counts_blocks = true;
    parts_of(instance, program, parts);
    if (gs_zoo_play(instance, parts, zoo.executor, &form, &result, &error) != GS_OK)
        die(kernel, &error);
    if (!result.is_right)
        fail_msg("%s, %s, as %s, factor %u, %u workers, %u stops: %s", kernel->name, instance->size->name,
                 gs_form_name(form.form), form.factor, form.workers, form.stops, result.reason.message);
}

/* The odd size in every form, the others too or in turn. */
TEST(every_kernel_is_right_in_every_form) {
    static const struct {
        int program;
        gs_zoo_form form;
    } ways[] = {{0, {.form = GS_FORM_ORIGINAL}},
                {1, {.form = GS_FORM_PERSISTENT, .workers = 1}},
                {1, {.form = GS_FORM_PERSISTENT, .workers = 5, .backwards = true}},
                {2, {.form = GS_FORM_CONFINED, .workers = 3, .task_blocks = 1, .backwards = true}},
                {2, {.form = GS_FORM_CONFINED, .task_blocks = 2, .stops = 3, .seed = 7}},
                {3, {.form = GS_FORM_ELASTIC, .factor = 2}},
                {4, {.form = GS_FORM_ELASTIC, .factor = 4, .backwards = true}},
                {0, {.form = GS_FORM_REGISTERS, .max_registers = 32, .backwards = true}}};
    static const char *const sizes[] = {"odd", "tiny", "small"};
    size_t played = 0;
    for (size_t i = 0; i < KERNELS; i++)
        for (size_t s = 0; s < GS_COUNT(sizes); s++) {
            const gs_zoo_kernel *kernel = gs_zoo_at(i);
            gs_zoo_instance instance = plan_of(kernel, sizes[s]);
            for (size_t k = 0; k < GS_COUNT(ways); k++)
                if (has_program(i, ways[k].program) && can_play(&instance, ways[k].program) &&
                    (s == 0 || is_thorough() || (i + k) % 8 == s % 2)) {
                    play(kernel, &instance, ways[k].program, ways[k].form);
                    played++;
                }
            gs_zoo_instance_free(&instance);
        }
    print_message("%zu runs of %d kernels\n", played, KERNELS);
    assert_true(played > (is_thorough() ? 500 : 70));
}

TEST(no_kernel_leaves_its_buffers) {
    if (!is_thorough())
        skip();
    for (size_t i = 0; i < KERNELS; i++) {
        gs_zoo_instance instance = plan_of(gs_zoo_at(i), "odd");
        if (can_play(&instance, SANITIZED))
            play(gs_zoo_at(i), &instance, SANITIZED, programs[SANITIZED]);
        gs_zoo_instance_free(&instance);
    }
}

/* ---- sizes between those of the table ---- */

static int64_t count_blocks(const gs_zoo_kernel *kernel, const gs_zoo_size *size) {
    gs_zoo_instance instance = {.kernel = kernel, .size = size};
    int64_t blocks = 0;
    kernel->instance(&instance, size->n);
    for (size_t i = 0; i < instance.launches.count; i++)
        blocks += (int64_t)instance.launches.data[i].grid[0] * instance.launches.data[i].grid[1] *
                  instance.launches.data[i].grid[2];
    gs_zoo_instance_free(&instance);
    return blocks;
}

/* Only the number that is the work may be above that of the size that was fitted. */
static void check_fitted(const gs_zoo_kernel *kernel, const gs_zoo_size *size, const gs_zoo_size *fitted,
                         int64_t blocks) {
    if (count_blocks(kernel, fitted) != blocks)
        fail_msg("%s, %s: %lld blocks instead of %lld", kernel->name, size->name,
                 (long long)count_blocks(kernel, fitted), (long long)blocks);
    for (int i = 0; i < GS_ZOO_NUMBERS; i++)
        assert_true(fitted->n[i] <= size->n[i] || i + 1 == kernel->work);
}

TEST(a_launch_has_the_blocks_that_were_asked_for) {
    static const struct {
        const char *kernel, *size;
        int64_t blocks;
        double work;
        int32_t n[GS_ZOO_NUMBERS];
    } cases[] = {
        {"tgemm", "large", 4096, 0.5, {8192, 2048, 1024}},
        {"tgemm", "large", 205, 2, {41 * 64, 5 * 64, 4096}},
        {"lbm", "small", 8, 1, {128, 2, 4}},
        {"cutcp", "small", 6, 1, {3, 2, 1}},
        {"histo", "large", 2640, 0.5, {16000000, 2640}},
        {"quasirandom", "small", 6, 1, {1024, 3, 2}},
        {"stenc", "small", 12, 2, {64, 12, 24, 2}},
        {"fft", "small", 0, 1, {8}},
        {"tpacf", "small", 0, 1, {256, 512}},
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        const gs_zoo_kernel *kernel = gs_zoo_find(cases[i].kernel);
        gs_zoo_size fitted;
        gs_error error;
        if (gs_zoo_size_fit(kernel, gs_zoo_size_find(kernel, cases[i].size), cases[i].blocks, cases[i].work, &fitted,
                            &error) != GS_OK)
            die(kernel, &error);
        assert_string_equal(fitted.name, cases[i].size);
        assert_memory_equal(fitted.n, cases[i].n, sizeof fitted.n);
    }
}

TEST(blocks_that_a_kernel_cannot_have_are_refused) {
    static const struct {
        const char *kernel, *size;
        int64_t blocks;
        double work;
        const char *says;
    } cases[] = {
        {"tgemm", "large", 16385, 1, "tgemm (large) has up to 128 x 128 blocks, and cannot have 16385"},
        {"tgemm", "small", 3, 1, "tgemm (small) has up to 2 x 2 blocks, and cannot have 3"},
        {"lbm", "small", 6, 1, "lbm (small) has up to 1 x 24 blocks in 4 launches, and cannot have 6"},
        {"tpacf", "large", 5, 1, "tpacf (large) has 49152 blocks in 3 launches, and cannot have 5"},
        {"lbm", "small", 8, 0.5, "the work of a block of lbm cannot be changed"},
        {"tgemm", "large", 16384, 1e4,
         "tgemm cannot have blocks with 10000 times the work: a buffer would be too large"},
        {"cp", "large", 0, 1e7, "cp cannot have blocks with 1e+07 times the work"},
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        const gs_zoo_kernel *kernel = gs_zoo_find(cases[i].kernel);
        gs_zoo_size fitted;
        gs_error error;
        assert_int_equal(gs_zoo_size_fit(kernel, gs_zoo_size_find(kernel, cases[i].size), cases[i].blocks,
                                         cases[i].work, &fitted, &error),
                         GS_E_USAGE);
        assert_string_equal(error.message, cases[i].says);
    }
}

/* Every number of blocks of every kernel, up to a thousand: refused, or as asked for. Some of them are played. */
TEST(kernels_are_right_with_any_number_of_blocks) {
    size_t played = 0;
    for (size_t i = 0; i < KERNELS; i++) {
        const gs_zoo_kernel *kernel = gs_zoo_at(i);
        const gs_zoo_size *size = gs_zoo_size_find(kernel, "small");
        int64_t most = count_blocks(kernel, size), fit = 0;
        for (int64_t blocks = 1; blocks <= gs_min(most, 1000); blocks++) {
            gs_zoo_instance instance;
            gs_zoo_size fitted;
            gs_error error;
            if (gs_zoo_size_fit(kernel, size, blocks, kernel->work ? 1.5 : 1, &fitted, &error) != GS_OK)
                continue;
            check_fitted(kernel, size, &fitted, blocks);
            if (fit++ % 16 != 1)
                continue;
            assert_int_equal(gs_zoo_instance_make(&instance, kernel, &fitted, &error), GS_OK);
            if (can_play(&instance, 0)) {
                play(kernel, &instance, 0, programs[0]);
                played++;
            }
            gs_zoo_instance_free(&instance);
        }
        assert_true(fit > 0);
    }
    print_message("%zu sizes were played\n", played);
    assert_true(played > 5);
}

TEST(inline_assembly_has_no_elastic_form) {
    const gs_zoo_kernel *kernel = gs_zoo_find("wgemm");
    gs_zoo_form form = {.form = GS_FORM_ELASTIC, .factor = 2, .seconds = 60};
    static const char *const sizes[] = {"tiny", "odd"};
    gs_zoo_part parts[GS_ZOO_KINDS] = {{.program = NULL}};
    for (size_t i = 0; i < GS_COUNT(sizes); i++) {
        gs_zoo_instance instance = plan_of(kernel, sizes[i]);
        gs_zoo_result result;
        gs_error error;
        assert_int_equal(gs_zoo_run(&instance, zoo.executor, &form, parts, &result, &error), GS_OK);
        assert_false(result.is_right);
        assert_non_null(strstr(result.reason.message, "inline assembly"));
        gs_zoo_instance_free(&instance);
    }
}

/* A reference that does nothing, or a comparison that finds nothing, would make all these tests worthless. */
TEST(what_is_wrong_is_noticed) {
    for (size_t i = 0; i < KERNELS; i++) {
        gs_zoo_instance instance = plan_of(gs_zoo_at(i), "odd");
        gs_zoo_part parts[GS_ZOO_KINDS];
        gs_zoo_form form = {.form = GS_FORM_ORIGINAL, .seconds = 60};
        gs_zoo_result result;
        gs_error error;
        size_t changed = 0;
        if (!can_play(&instance, 0)) {
            gs_zoo_instance_free(&instance);
            continue;
        }
        for (size_t k = 0; k < instance.buffer_count; k++) {
            gs_zoo_buffer *buffer = &instance.buffers[k];
            size_t at = buffer->is_scratch ? buffer->count
                                           : gs_scalars_differ(buffer->type, buffer->data, buffer->expected,
                                                               buffer->count, instance.kernel->tolerance);
            if (at == buffer->count)
                continue;
            double was = gs_scalar_value(buffer->type, buffer->expected, at);
            gs_scalar_put(buffer->type, was + 1 + was * 0.1, buffer->expected, at);
            changed++;
        }
        assert_true(changed > 0);
        parts_of(&instance, 0, parts);
        assert_int_equal(gs_zoo_play(&instance, parts, zoo.executor, &form, &result, &error), GS_OK);
        assert_false(result.is_right);
        assert_non_null(strstr(result.reason.message, "expected"));
        gs_zoo_instance_free(&instance);
    }
}

/* A wrong kernel, rather than a wrong reference. */
TEST(a_kernel_that_is_wrong_is_noticed) {
    const gs_zoo_kernel *kernel = gs_zoo_find("transpose");
    gs_zoo_form form = {.form = GS_FORM_PERSISTENT, .seconds = 60, .counts_blocks = true, .workers = 3};
    gs_zoo_instance instance = plan_of(kernel, "odd");
    gs_zoo_part part;
    gs_zoo_result result;
    gs_error error;
    assert_int_equal(gs_zoo_part_make(&part, &instance, 0, &form, 0, &error), GS_OK);
    char *at = strstr(part.text.data, part.name); /* the form */
    while ((at = strstr(at + 1, ", %tid.y")) &&
           strncmp(at - 3, "%r", 2) != 0) /* behind a register of the kernel: %r5 */
        ;
    assert_non_null(at);
    at[strlen(", %tid.y") - 1] = 'x';
    assert_int_equal(gs_zoo_part_compile(&part, zoo.executor, "transpose", &error), GS_OK);
    assert_int_equal(gs_zoo_play(&instance, &part, zoo.executor, &form, &result, &error), GS_OK);
    assert_false(result.is_right);
    gs_zoo_part_free(&part);
    gs_zoo_instance_free(&instance);
}

/* ---- NVIDIA's compiler, if it is installed ---- */

/* Compiling takes long, so each kernel is compiled in one or two of the forms. */
static void nvrtc_compiles_every_form(void **state) {
    gs_error error;
    (void)state;
    for (size_t i = 0; i < KERNELS; i++)
        for (size_t turn = 0; turn < (is_thorough() ? 2 : 1); turn++) {
            size_t program = (i + turn) % SANITIZED;
            if (!has_program(i, (int)program))
                continue;
            gs_build build = {.name = gs_zoo_at(i)->name,
                              .text = zoo.parts[program][i].text.data,
                              .size = zoo.parts[program][i].text.count};
            gs_code code = gs_cubin_costs(&build, 90, NULL, &error);
            if (code == GS_E_NO_GPU) {
                print_message("skipped: %s\n", error.message);
                skip();
            }
            if (code != GS_OK)
                die(gs_zoo_at(i), &error);
        }
}

/* `test_zoo nvrtc` is a separate test, because NVRTC leaks, which LeakSanitizer would report. */
int main(int argc, char **argv) {
    const struct CMUnitTest nvrtc[] = {cmocka_unit_test(nvrtc_compiles_every_form)};
    if (argc > 1 && strcmp(argv[1], "nvrtc") == 0)
        return cmocka_run_group_tests(nvrtc, reshape_all, close_zoo);
    return TEST_ALL(open_zoo, close_zoo);
}
