/*
 * test_reshape.c: random kernels in all forms, and details of the output that running a kernel does not show.
 *
 * A random kernel works on one number per thread and consists of what makes reshaping hard: barriers, votes and loops
 * with barriers, shared memory, functions and macros that use the block number or have a barrier, votes of warps, and
 * returns anywhere. Shared memory is filled first, so that the values of threads that return are known. Kernels that
 * are refused are counted; those that are accepted must compile and compute the same.
 */
#include "test.h"

#include "forms.h"

#include <stdlib.h>
#include <string.h>

/* ---- random kernels ---- */

struct maker {
    gs_random random;
    gs_text *text;
    int depth, returns;
    bool has_warps; /* if not, returns may be nested */
};

static int64_t draw(struct maker *maker, int64_t most) {
    return gs_random_from(&maker->random, 0, most);
}

static void put_condition(struct maker *maker) {
    static const char *const conditions[] = {
        "v %% %d == 1",    "(int)threadIdx.x %% 37 == %d", "blockIdx.x %% 5 == %d %% 3",
        "HERE > 390 - %d", "(int)threadIdx.x > 25 + %d",   "block_number() %% 4 == %d"};
    gs_text_add(maker->text, conditions[draw(maker, 5)], (int)draw(maker, 6) + 2);
}

static void put_statements(struct maker *maker, int count, bool is_uniform);

static void put_return(struct maker *maker) {
    if (maker->has_warps && maker->depth > 1)
        return;
    gs_text_add(maker->text, "if (");
    put_condition(maker);
    gs_text_add(maker->text, draw(maker, 1) ? ") return;\n" : ") {\nreturn;\n}\n");
    maker->returns++;
}

static void put_block(struct maker *maker, const char *head, bool is_uniform) {
    gs_text_add(maker->text, "%s {\n", head);
    maker->depth++;
    put_statements(maker, 2, is_uniform);
    maker->depth--;
    gs_text_add(maker->text, "}\n");
}

/* A statement that all threads that have not returned execute together. */
static void put_together(struct maker *maker) {
    static const char *const statements[] = {
        "part[threadIdx.x] = v; __syncthreads(); v += part[(threadIdx.x + %d) %% 64]; __syncthreads();\n",
        "v += exchange(part, v + %d);\n",
        "v = MEET_AND(v * %d);\n",
        "v += __syncthreads_count(v %% %d == 0);\n",
        "v += 3 * (__syncthreads_or(v %% 50 == %d) != 0);\n",
        "v += __popc(__ballot_sync(0xffffffffu, v %% %d == 0));\n",
        "v += ayes(v %% %d == 1);\n"};
    gs_text_add(maker->text, statements[draw(maker, maker->has_warps ? 6 : 4)], (int)draw(maker, 5) + 2);
}

static void put_alone(struct maker *maker) {
    static const char *const statements[] = {"v = v * 3 + in[(HERE + %d) %% n];\n", "out[HERE] += v %% 100 + %d;\n",
                                             "v += block_number() * %d;\n", "v ^= (int)gridDim.x + %d;\n",
                                             "v += twice<%d>(v %% 1000);\n"};
    gs_text_add(maker->text, statements[draw(maker, 4)], (int)draw(maker, 9) + 1);
}

static void put_statements(struct maker *maker, int count, bool is_uniform) {
    for (int i = 0; i < count; i++) {
        int64_t kind = draw(maker, 9);
        if (kind < 2)
            put_alone(maker);
        else if (kind < 5 && is_uniform)
            put_together(maker);
        else if (kind == 5)
            put_return(maker);
        else if (kind == 6 && maker->depth < 3)
            put_block(maker, is_uniform ? "for (int k = 0; k < 3; k++)" : "for (int k = 0; k < 2; k++)", is_uniform);
        else if (kind == 7 && maker->depth < 3) {
            gs_text_add(maker->text, "if (");
            put_condition(maker);
            put_block(maker, ")", false);
        } else if (kind == 8 && is_uniform && maker->depth < 3) {
            put_block(maker, "if (blockIdx.x % 2 == gridDim.x % 2)", true);
        } else {
            put_alone(maker);
        }
    }
}

static void put_kernel(gs_text *text, uint64_t seed, uint64_t index) {
    struct maker maker = {.random = gs_random_at(seed, index), .text = text, .depth = 1};
    maker.has_warps = draw(&maker, 2) == 0;
    gs_text_add(text, "#define HERE ((int)(blockIdx.x * blockDim.x + threadIdx.x))\n"
                      "#define MEET_AND(x) (__syncthreads(), (x))\n"
                      "__device__ int block_number() {\nreturn blockIdx.y * gridDim.x + blockIdx.x;\n}\n"
                      "template <int K> __device__ int twice(int x) {\nif (x %% 2)\nreturn x * K;\n"
                      "return x + (int)gridDim.x;\n}\n"
                      "__device__ int exchange(int *part, int x) {\npart[threadIdx.x] = x;\n__syncthreads();\n"
                      "x = part[63 - threadIdx.x];\n__syncthreads();\nreturn x;\n}\n"
                      "__device__ int ayes(int x) {\nreturn __popc(__ballot_sync(0xffffffffu, x));\n}\n"
                      "__global__ void trap(int *out, const int *in, int n) {\n__shared__ int part[64];\n"
                      "int v = in[HERE];\npart[threadIdx.x] = v;\n__syncthreads();\n");
    put_statements(&maker, 8, true);
    gs_text_add(text, "out[HERE] = v;\n}\n#undef HERE\n#undef MEET_AND\n");
}

static gs_launch_file *usual_launch(void) {
    static const char text[] =
        "{\"schema\": \"gridsmith.launch/1\", \"grid\": [9, 1, 1], \"block\": [64, 1, 1], \"arguments\": [{\"buffer\": "
        "\"int32\", \"count\": 640}, {\"buffer\": \"int32\", \"count\": 640, \"fill\": \"random\", \"seed\": 5}, "
        "{\"int32\": 600}]}";
    gs_input *input = gs_input_memory("launch", text, sizeof text - 1, NULL);
    gs_launch_file *launch = gs_launch_read(input, NULL);
    gs_input_close(input);
    assert_non_null(launch);
    return launch;
}

static void random_kernels_compute_the_same_in_all_forms(void **state) {
    enum { MOST = 100 };
    static formed kernels[MOST];
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), count = test_number("GRIDSMITH_RUNS", 100000) / 4000,
             accepted = 0;
    (void)state;
    count = count < 5 ? 5 : count > MOST ? MOST : count;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < count; i++) {
        gs_source source;
        gs_error error;
        snprintf(kernels[i].name, sizeof kernels[i].name, "random_%llu", (unsigned long long)i);
        snprintf(kernels[i].kernel, sizeof kernels[i].kernel, "trap");
        kernels[i].launch = usual_launch();
        put_kernel(&kernels[i].text[GS_FORM_ORIGINAL], seed, i);
        const gs_text *text = &kernels[i].text[GS_FORM_ORIGINAL];
        assert_int_equal(gs_source_read(&source, kernels[i].name, text->data, text->count, &error), GS_OK);
        for (int form = GS_FORM_PERSISTENT; form < FORMS; form++) {
            gs_reshape_options options = {.form = (enum gs_form)form};
            gs_code code = gs_reshape(&source, "trap", &options, &kernels[i].text[form], &error);
            assert_true(code == GS_OK || code == GS_E_REFUSED);
            kernels[i].is_left_out |= code != GS_OK;
        }
        accepted += !kernels[i].is_left_out;
        gs_source_free(&source);
    }
    print_message("%llu random kernels, %llu accepted\n", (unsigned long long)count, (unsigned long long)accepted);
    assert_true(2 * accepted > count);
    forms_check(kernels, sizeof kernels[0], (size_t)count);
    for (uint64_t i = 0; i < count; i++)
        forms_free(&kernels[i]);
}

/* ---- details of the output ---- */

static void expect_of(const char *text, const char *kernel, const gs_reshape_options *options, const char *wanted,
                      bool is_there) {
    gs_source source;
    gs_text output = {0};
    gs_error error = {.message = ""};
    assert_int_equal(gs_source_read(&source, "a.cu", text, strlen(text), &error), GS_OK);
    if (gs_reshape(&source, kernel, options, &output, &error) != GS_OK)
        fail_msg("%s", error.message);
    if ((strstr(output.data, wanted) != NULL) != is_there)
        fail_msg("%s\n%s \"%s\"", output.data, is_there ? "lacks" : "has", wanted);
    gs_text_free(&output);
    gs_source_free(&source);
}

static void expect(const char *text, const char *kernel, enum gs_form form, const char *wanted, bool is_there) {
    expect_of(text, kernel, &(gs_reshape_options){.form = form}, wanted, is_there);
}

/* At most those of the original, rounded up to the unit of allocation; if the original has many, not fewer either. */
static void registers_are_those_of_the_original(void **state) {
    (void)state;
    assert_int_equal(gs_register_limit(76, 72), 80);
    assert_int_equal(gs_register_limit(76, 96), 80);
    assert_int_equal(gs_register_limit(80, 72), 80);
    assert_int_equal(gs_register_limit(255, 255), 255);
    assert_int_equal(gs_register_limit(44, 42), 0);
    assert_int_equal(gs_register_limit(44, 48), 0);
    assert_int_equal(gs_register_limit(44, 49), 48);
    assert_int_equal(gs_register_limit(16, 32), 0);
    assert_int_equal(gs_register_limit(16, 33), 32);
    assert_int_equal(gs_register_limit(0, 0), 0); /* on the CPU */
}

static void the_parameter_goes_where_it_belongs(void **state) {
    (void)state;
    expect("__global__ void k(void) {}", "k", GS_FORM_PERSISTENT, "k(const gs_persistent gs_parameter) {", true);
    expect("__global__ void k() {}", "k", GS_FORM_CONFINED, "k(const gs_confined gs_parameter) {", true);
    expect("__global__ void k(int a = 1) {}", "k", GS_FORM_PERSISTENT,
           "k(int a = 1, const gs_persistent gs_parameter = gs_persistent())", true);
    expect("__global__ void k(int a // last\n) {}", "k", GS_FORM_PERSISTENT,
           "int a, const gs_persistent gs_parameter // last", true);
}

static void only_the_code_that_is_needed_is_added(void **state) {
    static const char plain[] = "__global__ void k(int *a) { a[blockIdx.x] = 1; }";
    static const char returns[] = "__global__ void k(int *a) { if (a[0]) return; __syncthreads(); a[blockIdx.x] = 1; }";
    (void)state;
    expect(plain, "k", GS_FORM_PERSISTENT, "gs_end_block", false);
    expect(plain, "k", GS_FORM_PERSISTENT, "gs_here", false);
    expect(plain, "k", GS_FORM_PERSISTENT, "{ a[blockIdx.x] = 1; }();", true);
    expect(returns, "k", GS_FORM_PERSISTENT, "if (a[0]) return; gs_sync(); a[blockIdx.x] = 1; }(); gs_end_block(); }",
           true);
}

/* Warps go on to the next block by themselves only if that has no effect. */
static void threads_that_share_nothing_need_no_barrier(void **state) {
    static const char *const sharing[] = {
        "__global__ void k(int *a) { __shared__ int b; b = a[0]; a[blockIdx.x] = b; }",
        "extern __shared__ int b[]; __global__ void k(int *a) { a[blockIdx.x] = b[0]; }",
        "#define HERE __shared__\n__global__ void k(int *a) { HERE int b; b = a[0]; a[blockIdx.x] = b; }",
        "__global__ void k(int *a) { __syncthreads(); a[blockIdx.x] = 1; }",
        "__global__ void k(int *a) { __syncthreads_or(1); a[blockIdx.x] = 1; }",
        "__device__ void wait() { __syncthreads(); } __global__ void k(int *a) { wait(); a[blockIdx.x] = 1; }",
        "__device__ int at() { return blockIdx.x; } __global__ void k(int *a) { a[at()] = 1; }",
        "__global__ void k(int *a) { asm(\"bar.sync 0;\"); a[blockIdx.x] = 1; }",
        "__global__ void k(int *a) { asm(\"st.shared.u32 [0], 1;\"); a[blockIdx.x] = 1; }"};
    static const char *const independent[] = {
        "__global__ void k(int *a) { a[blockIdx.x] = 1; }",
        "__global__ void k(int *a) { if (a[0]) return; __syncwarp(); a[blockIdx.x] = 1; }",
        "__global__ void o(int *a) { __shared__ int b; b = a[0]; } __global__ void k(int *a) { a[blockIdx.x] = 1; }"};
    (void)state;
    for (size_t i = 0; i < GS_COUNT(sharing); i++)
        expect(sharing[i], "k", GS_FORM_PERSISTENT, "gs_advance(gs_parameter, gs_ours", true);
    for (size_t i = 0; i < GS_COUNT(independent); i++)
        expect(independent[i], "k", GS_FORM_CONFINED, "gs_advance_warp(gs_parameter, gs_ours", true);
}

static void other_kernels_keep_their_code(void **state) {
    static const char two[] =
        "__global__ void other(int *a) { if (a[0]) return; __syncthreads(); a[blockIdx.x] = 1; }\n"
        "__global__ void k(int *a) { a[blockIdx.x] = 2; }";
    (void)state;
    expect(two, "k", GS_FORM_CONFINED,
           "__global__ void other(int *a) { if (a[0]) return; __syncthreads(); a[blockIdx.x] = 1; }\n", true);
}

/* If the option says so, but not bodies with directives. */
static void other_kernels_lose_their_code(void **state) {
    static const char three[] = "__global__ void other(int *a) { if (a[0]) return; a[blockIdx.x] = 1; }\n"
                                "__global__ void third(int *a) {\n#ifdef X\n    a[0] = 1;\n#endif\n}\n"
                                "__global__ void k(int *a) { a[blockIdx.x] = 2; }";
    const gs_reshape_options alone = {.form = GS_FORM_CONFINED, .is_alone = true};
    (void)state;
    expect_of(three, "k", &alone, "__global__ void other(int *a) {}\n", true);
    expect_of(three, "k", &alone, "__global__ void third(int *a) {\n#ifdef X\n    a[0] = 1;\n#endif\n}\n", true);
    expect_of(three, "k", &alone, "{ a[blockIdx.x] = 2; }();", true);
}

static void a_report_covers_every_kernel(void **state) {
    static const char text[] = "__global__ void good(int *a);\n__global__ void good(int *a) { a[blockIdx.x] = 1; }\n"
                               "__global__ void bad(int *a) {\n    asm(\"exit;\");\n}\n";
    gs_source source;
    gs_text report = {0};
    gs_error error;
    gs_report_counts counts;
    gs_reshape_options options = {.form = GS_FORM_PERSISTENT};
    (void)state;
    assert_int_equal(gs_source_read(&source, "a.cu", text, sizeof text - 1, &error), GS_OK);
    assert_int_equal(gs_reshape_report(&source, &options, &counts, &report, &error), GS_OK);
    assert_string_equal(
        report.data,
        "{\"schema\":\"gridsmith.reshape/1\",\"file\":\"a.cu\",\"form\":\"persistent\",\"kernels\":[{\"name\":\"good\","
        "\"line\":2,\"column\":17,\"accepted\":true},{\"name\":\"bad\",\"line\":3,\"column\":17,\"accepted\":false,"
        "\"reason\":\"the assembly ends the thread (\\\"exit\\\" in "
        "assembly)\",\"reason_line\":4,\"reason_column\":8}]}"
        "\n");
    gs_text_free(&report);
    gs_source_free(&source);
}

/* ---- exactly once ---- */

/* The same count, by threads that wait for each other and by warps that go on by themselves. */
static const char with_barriers[] =
    "__global__ void k(int *out, const int *in, int n) {\n    __shared__ int sum;\n    if (threadIdx.x == 0)\n"
    "        sum = 0;\n    __syncthreads();\n    if (threadIdx.x % 7 == blockIdx.y)\n        return;\n"
    "    atomicAdd(&sum, 1);\n    __syncthreads();\n    if (threadIdx.x == 5)\n"
    "        atomicAdd(&out[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x], sum);\n}\n";
static const char without_barriers[] =
    "__global__ void k(int *out, const int *in, int n) {\n    if (threadIdx.x % 7 == blockIdx.y)\n        return;\n"
    "    atomicAdd(&out[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x], 1);\n}\n";

/* With stops, changing masks, and any number of worker blocks and size of tasks, each block runs once. */
static void run_each_block_once(const char *text, enum gs_form form, uint64_t runs) {
    static const char launch_text[] =
        "{\"schema\": \"gridsmith.launch/1\", \"grid\": [11, 5, 3], \"block\": [70, 1, 1], \"arguments\": "
        "[{\"buffer\": \"int32\", \"count\": 165}, {\"buffer\": \"int32\", \"count\": 1}, {\"int32\": 0}]}";
    uint64_t seed = test_number("GRIDSMITH_SEED", 1);
    gs_error error;
    gs_input *input = gs_input_memory("launch", launch_text, sizeof launch_text - 1, NULL);
    gs_launch_file *launch = gs_launch_read(input, &error);
    gs_executor *executor = gs_executor_host(&error);
    gs_source source;
    gs_reshape_options reshape = {.form = form};
    gs_variant variant = gs_variant_original(launch, "k");
    gs_verify_options options = {.seconds = 60};
    gs_verify_run run = {.executor = executor, .launch = launch, .options = &options, .variant = &variant};
    uint64_t launches = 0;
    variant.form = form;
    assert_int_equal(gs_source_read(&source, "once.cu", text, strlen(text), &error), GS_OK);
    assert_int_equal(gs_reshape(&source, "k", &reshape, &variant.text, &error), GS_OK);
    assert_int_equal(gs_verify_run_compile(&run, &source, &error), GS_OK);
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(seed, i);
        options.workers = (uint32_t)gs_random_from(&random, 1, 40);
        options.task_blocks = (uint32_t)gs_random_from(&random, 1, 12);
        options.stops = form == GS_FORM_CONFINED ? (uint32_t)gs_random_from(&random, 0, 30) : 0;
        options.seed = gs_random_next(&random);
        if (gs_verify_run_execute(&run, &error) != GS_OK)
            fail_msg("seed %llu, run %llu: %s", (unsigned long long)seed, (unsigned long long)i, error.message);
        const int *out = run.buffers.data[0];
        for (uint64_t block = 0; block < run.blocks; block++)
            if (run.marks[block] != 1 || out[block] != 60)
                fail_msg("seed %llu, run %llu: block %llu ran %u times and counted %d", (unsigned long long)seed,
                         (unsigned long long)i, (unsigned long long)block, run.marks[block], out[block]);
        launches += run.launches;
    }
    print_message("%llu runs in %llu launches\n", (unsigned long long)runs, (unsigned long long)launches);
    assert_true(form != GS_FORM_CONFINED || launches > 2 * runs);
    gs_verify_run_free(&run);
    gs_source_free(&source);
    gs_launch_free(launch);
    gs_input_close(input);
    gs_executor_close(executor);
}

static void every_block_runs_exactly_once(void **state) {
    uint64_t runs = gs_max_u64(1, test_number("GRIDSMITH_RUNS", 100000) / 2000);
    (void)state;
    run_each_block_once(with_barriers, GS_FORM_CONFINED, runs);
    run_each_block_once(without_barriers, GS_FORM_CONFINED, runs);
    run_each_block_once(with_barriers, GS_FORM_PERSISTENT, runs / 2);
    run_each_block_once(without_barriers, GS_FORM_PERSISTENT, runs / 2);
}

/* ---- verifying ---- */

static gs_verify_result verify(const char *text, const gs_verify_options *options) {
    gs_source source;
    gs_error error = {.message = ""};
    gs_verify_result result;
    gs_executor *executor = gs_executor_host(&error);
    gs_launch_file *launch = usual_launch();
    assert_non_null(executor);
    assert_int_equal(gs_source_read(&source, "a.cu", text, strlen(text), &error), GS_OK);
    if (gs_verify(executor, &source, launch, options, &result, &error) != GS_OK)
        fail_msg("%s", error.message);
    gs_source_free(&source);
    gs_launch_free(launch);
    gs_executor_close(executor);
    return result;
}

/* A kernel that expects that no other block changes its variable in shared memory: block 4 reads the value that the
   block before left, which never happens if each block is alone and the memory is new. */
static void what_differs_is_named_with_its_block(void **state) {
    static const char text[] =
        "__global__ void k(int *out, const int *in, int n) {\n    __shared__ int left;\n    int before = left;\n"
        "    __syncthreads();\n    if (threadIdx.x == 0) left = 7;\n"
        "    out[blockIdx.x * 64 + threadIdx.x] = blockIdx.x == 4 ? 1 + (before == 7 && threadIdx.x == 5) : 3;\n}\n";
    gs_verify_options options = {.form = GS_FORM_PERSISTENT, .kernel = "k", .workers = 1, .seconds = 60};
    (void)state;
    gs_verify_result result = verify(text, &options);
    assert_int_equal(result.verdict, GS_VERDICT_DIFFERENT);
    assert_string_equal(result.reason.message,
                        "argument 1, element 261: the original has 1, the reshaped kernel 2; block "
                        "(4,0,0) writes it");
}

static void elastic_blocks_are_found_by_trying(void **state) {
    static const char text[] =
        "#define SIZE 64\n__global__ void k(int *out, const int *in, int n) {\n"
        "    __shared__ int part[SIZE];\n    part[threadIdx.x] = in[blockIdx.x * SIZE + threadIdx.x];\n"
        "    __syncthreads();\n    out[blockIdx.x * SIZE + threadIdx.x] = part[threadIdx.x] + n;\n}\n";
    gs_verify_options options = {.form = GS_FORM_ELASTIC, .kernel = "k", .seconds = 60};
    (void)state;
    gs_verify_result result = verify(text, &options);
    assert_int_equal(result.verdict, GS_VERDICT_SAME);
    assert_string_equal(result.reason.message,
                        "1/2 of the threads: block [32, 1, 1], grid [18, 1, 1], line 1: 32 for 64; 1/4 of the threads: "
                        "block [16, 1, 1], grid [36, 1, 1], line 1: 16 for 64");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_kernels_compute_the_same_in_all_forms),
        cmocka_unit_test(the_parameter_goes_where_it_belongs),
        cmocka_unit_test(registers_are_those_of_the_original),
        cmocka_unit_test(only_the_code_that_is_needed_is_added),
        cmocka_unit_test(other_kernels_keep_their_code),
        cmocka_unit_test(other_kernels_lose_their_code),
        cmocka_unit_test(threads_that_share_nothing_need_no_barrier),
        cmocka_unit_test(a_report_covers_every_kernel),
        cmocka_unit_test(every_block_runs_exactly_once),
        cmocka_unit_test(what_differs_is_named_with_its_block),
        cmocka_unit_test(elastic_blocks_are_found_by_trying),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
