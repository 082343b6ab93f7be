/*
 * test_form_cases.c: forms of the kernels in tests/cases/forms.cu compute what the originals compute, or are refused
 * for the stated reason.
 *
 * clang makes the PTX. Each kernel runs on the CPU as it is, persistent and confined, with one worker block, with some,
 * and with more than there are blocks, and with blocks and threads in random order.
 */
#include "test.h"

#include "kernels/cpu/cpu.h"

#include <stdlib.h>

enum { THREADS = 64, WORDS = 64 * THREADS + 64, BLOCKS = 21 };

static const struct {
    const char *kernel;
    const char *reason; /* a part of the message, or NULL: it is accepted */
    bool has_rows;      /* the grid has several */
} cases[] = {
    {"changes_parameter", NULL, true},
    {"changes_by_reference", NULL, true},
    {"changes_struct", NULL, true},
    {"falls_off_the_end", NULL, true},
    {"leaves_by_goto", NULL, true},
    {"loops_of_unequal_length", NULL, true},
    {"leaves_when_unlikely", NULL, true},
    {"votes_after_return", NULL, true},
    {"in_a_header", NULL, true},
    {"in_a_constructor_by_typedef", NULL, true},
    {"in_a_constructor_by_template", NULL, true},
    {"in_a_default_argument", NULL, true},
    {"in_a_function_of_a_macro", NULL, true},
    {"in_assembly", NULL, true},
    {"in_functions_that_are_called", NULL, true},
    {"barrier_in_a_function", NULL, true},
    {"shuffle_in_a_function", NULL, true},
    {"barrier_in_a_function_after_return", "a barrier that some threads may not reach", true},
    {"shuffle_in_a_function_after_return", "lanes wait for others that may not come", true},
    {"through_a_pointer", "through a pointer, which reads the number of the block", true},
    {"looks_back", NULL, false},
    {"looks_back_and_stores", NULL, false},
    {"looks_back_by_columns", NULL, false},
    {"looks_back_and_stores_anywhere", "waits in a loop for memory that another block may write", false},
    {"waits_in_a_function", "may wait for memory that another block writes", false},
    {"parameters_that_end_in_endif", NULL, true},
    {"launched_by_function", NULL, true},
    {"launched_by_brackets", NULL, true},
    {"launched_by_a_graph", NULL, true},
};

static const char *const suffixes[] = {"", "__persistent", "__confined"};

static struct {
    gs_ptx_file file;
    const gs_ptx_module *module;
    gs_executor *executor;
    void *program;
    bool needs_queue[GS_COUNT(cases)];
} all;

static uint32_t function_of(const char *kernel) {
    int number = gs_ptx_find_function(all.module, kernel);
    if (number < 0)
        fail_msg("there is no %s", kernel);
    return (uint32_t)number;
}

/* ---- the program: all kernels and their forms ---- */

static void compile_all(void) {
    static char names[3 * GS_COUNT(cases)][80];
    static const char *list[3 * GS_COUNT(cases)];
    static gs_text text;
    gs_error error;
    size_t count = 0;
    gs_text_put(&text, all.module->text, all.module->size);
    for (size_t i = 0; i < GS_COUNT(cases); i++)
        for (int form = GS_FORM_ORIGINAL; form <= GS_FORM_CONFINED; form++) {
            gs_ptx_options options = {.form = (enum gs_form)form, .counts_blocks = true};
            gs_ptx_form made = {.needs_queue = false};
            if (cases[i].reason ||
                (form != GS_FORM_ORIGINAL &&
                 gs_ptx_reshape(all.module, function_of(cases[i].kernel), &options, &text, &made, &error) != GS_OK))
                continue;
            all.needs_queue[i] = made.needs_queue;
            snprintf(names[count], sizeof names[count], "%s%s", cases[i].kernel, suffixes[form]);
            list[count] = names[count];
            count++;
        }
    gs_build build = {
        .name = "forms.ptx", .text = text.data, .size = text.count, .kernels = list, .kernel_count = count};
    all.program = all.executor->ops->compile(all.executor, &build, &error);
    if (!all.program)
        fail_msg("%ld: %s", error.line, error.message);
    gs_text_free(&text);
}

/* Without clang there are no kernels, and the tests are skipped. */
static int set_up(void **state) {
    static char path[1024];
    static const char *const options[] = {"-std=c++20"};
    gs_error error;
    (void)state;
    snprintf(path, sizeof path, "%s", test_path("tests/cases/forms.cu"));
    gs_ptx_file_request request = {
        .path = path, .compiler = "clang", .architecture = 80, .options = options, .option_count = 1};
    gs_code code = gs_ptx_file_open(&all.file, &request, &error);
    if (code == GS_E_UNSUPPORTED)
        return 0;
    if (code != GS_OK)
        fail_msg("%s:%ld: %s", error.file, error.line, error.message);
    all.module = &all.file.data[0].module;
    all.executor = gs_executor_host(&error);
    assert_non_null(all.executor);
    compile_all();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    if (all.module)
        gs_ptx_file_free(&all.file);
    gs_executor_close(all.executor);
    return 0;
}

/* ---- running ---- */

struct outcome {
    int32_t out[WORDS];
    uint32_t counts[BLOCKS];
};

/* How a form is launched. */
struct way {
    uint32_t workers, stops;
    uint64_t seed;
    bool gives_first;
};

static gs_code try(size_t number, int form, const struct way *way, struct outcome *outcome, gs_error *error) {
    static int32_t in[WORDS];
    const uint32_t grid[3] = {cases[number].has_rows ? 7 : BLOCKS, cases[number].has_rows ? 3 : 1, 1},
                   block[3] = {THREADS, 1, 1};
    const int32_t n = BLOCKS * THREADS - 37, values[4] = {5, 6, 7, 8};
    gs_work work = {.seconds = 60, .seed = way->seed, .shuffled = way->seed != 0};
    char name[80];
    memset(outcome, 0, sizeof *outcome);
    for (int i = 0; i < WORDS; i++)
        in[i] = (int32_t)((uint32_t)i * 2654435761u >> 20);
    int32_t inputs = gs_work_buffer(&work, in, sizeof in),
            outputs = gs_work_buffer(&work, outcome->out, sizeof outcome->out),
            counts = gs_work_buffer(&work, outcome->counts, sizeof outcome->counts);
    snprintf(name, sizeof name, "%s%s", cases[number].kernel, suffixes[form]);
    gs_job_call *call = gs_work_call(&work, name, grid, block, 0);
    call->form = (uint32_t)form;
    call->counts = form == GS_FORM_ORIGINAL ? -1 : counts;
    call->workers = way->workers;
    call->stops = form == GS_FORM_CONFINED ? way->stops : 0;
    call->gives_first = way->gives_first;
    gs_work_pass_buffer(&work, outputs);
    gs_work_pass_buffer(&work, inputs);
    gs_work_pass(&work, &n, sizeof n);
    if (strcmp(cases[number].kernel, "changes_struct") == 0)
        gs_work_pass(&work, values, sizeof values);
    gs_code code = all.executor->ops->run(all.program, &work, error);
    gs_work_free(&work);
    return code;
}

static void play(size_t number, int form, uint32_t workers, uint64_t seed, struct outcome *outcome) {
    const struct way way = {.workers = workers, .stops = 2, .seed = seed, .gives_first = !all.needs_queue[number]};
    gs_error error;
    if (try(number, form, &way, outcome, &error) != GS_OK)
        fail_msg("%s%s: %s", cases[number].kernel, suffixes[form], error.message);
}

TEST(accepted_kernels_compute_the_same) {
    static const uint32_t workers[] = {1, 4, 40};
    static struct outcome original, formed;
    if (!all.module)
        skip();
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        if (cases[i].reason)
            continue;
        play(i, GS_FORM_ORIGINAL, 0, 0, &original);
        for (int form = GS_FORM_PERSISTENT; form <= GS_FORM_CONFINED; form++)
            for (size_t k = 0; k < GS_COUNT(workers); k++) {
                play(i, form, workers[k], cases[i].has_rows ? k : 0, &formed); /* looking back needs the order */
                for (int b = 0; b < BLOCKS; b++)
                    if (formed.counts[b] != 1)
                        fail_msg("%s%s: block %d ran %u times", cases[i].kernel, suffixes[form], b, formed.counts[b]);
                if (memcmp(original.out, formed.out, sizeof original.out) != 0)
                    fail_msg("%s%s with %u workers computes something else", cases[i].kernel, suffixes[form],
                             workers[k]);
            }
    }
}

/* A block of a kernel that looks back must not wait for one whose worker block has not begun. A launch that still gives
   blocks to its worker blocks fails: the queue does not have these blocks. */
TEST(kernels_that_look_back_need_the_queue) {
    static const struct way given = {.workers = 4, .gives_first = true};
    static struct outcome outcome;
    gs_error error;
    if (!all.module)
        skip();
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        bool looks_back = strncmp(cases[i].kernel, "looks_back", 10) == 0;
        if (cases[i].reason)
            continue;
        assert_int_equal(all.needs_queue[i], looks_back);
        if (looks_back)
            assert_int_equal(try(i, GS_FORM_CONFINED, &given, &outcome, &error), GS_E_KERNEL);
    }
}

TEST(the_others_are_refused_for_a_reason) {
    if (!all.module)
        skip();
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_error error = {.message = ""};
        gs_ptx_options options = {.form = GS_FORM_CONFINED};
        gs_code code = gs_ptx_reshape(all.module, function_of(cases[i].kernel), &options, NULL, NULL, &error);
        if (code != (cases[i].reason ? GS_E_REFUSED : GS_OK) ||
            (cases[i].reason && !strstr(error.message, cases[i].reason)))
            fail_msg("%s: \"%s\"", cases[i].kernel, error.message);
    }
}

/* Looks back, and stores through a pointer: `pointer` is how it is loaded into %rd5. */
static gs_code reshape_looking_back(const char *pointer) {
    gs_ptx_module module;
    gs_error error;
    gs_text text = {0};
    gs_ptx_options options = {.form = GS_FORM_PERSISTENT};
    gs_text_add(&text,
                ".version 8.0\n.target sm_80\n.address_size 64\n"
                ".visible .entry k(.param .u64 flags, .param .align 8 .b8 more[16]) {\n"
                "  .reg .pred %%p<3>;\n  .reg .b32 %%r<4>;\n  .reg .b64 %%rd<8>;\n  ld.param.u64 %%rd1, [flags];\n"
                "  mov.u32 %%r1, %%ctaid.x;\n  mul.wide.u32 %%rd2, %%r1, 4;\n  add.s64 %%rd3, %%rd1, %%rd2;\n  %s\n"
                "  setp.eq.u32 %%p1, %%r1, 0;\n  @%%p1 bra first;\nagain:\n"
                "  ld.volatile.global.u32 %%r2, [%%rd3+-4];\n  setp.eq.u32 %%p2, %%r2, 0;\n  @%%p2 bra again;\n"
                "first:\n  st.global.u32 [%%rd5], %%r1;\n  st.volatile.global.u32 [%%rd3], 1;\n  ret;\n}\n",
                pointer);
    assert_int_equal(gs_ptx_read(&module, "k.ptx", text.data, text.count, &error), GS_OK);
    gs_code code = gs_ptx_reshape(&module, 0, &options, NULL, NULL, &error);
    gs_ptx_free(&module);
    gs_text_free(&text);
    return code;
}

TEST(pointers_are_followed_to_parameters) {
    assert_int_equal(reshape_looking_back("ld.param.u64 %rd5, [more+8];"), GS_OK);
    assert_int_equal(reshape_looking_back("mov.b64 %rd4, more; ld.param.u64 %rd5, [%rd4+8];"), GS_OK);
    assert_int_equal(reshape_looking_back("mov.b64 %rd4, flags; ld.param.u64 %rd5, [%rd4];"), GS_E_REFUSED);
    assert_int_equal(reshape_looking_back("mov.b64 %rd4, more; add.s64 %rd4, %rd4, %rd2; ld.param.u64 %rd5, [%rd4];"),
                     GS_E_REFUSED);
    assert_int_equal(reshape_looking_back("ld.param.u64 %rd4, [more]; ld.global.u64 %rd5, [%rd4];"), GS_E_REFUSED);
}

TEST_MAIN(set_up, tear_down)
