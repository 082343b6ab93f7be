/*
 * test_forms_of_cuda.c: random kernels of CUDA C in all forms; each block runs exactly once in all cases; and the
 * verdicts of verifying.
 *
 * A random kernel works on one number per thread and has the constructs that make reshaping hard: barriers, votes and
 * loops with barriers, shared memory, functions and macros that use the block number or have a barrier, votes of warps,
 * and returns anywhere. The number has no sign, because the overflow of a signed one is what a compiler likes. Shared
 * memory is filled first, so that the values of threads that return are known. clang compiles all of them at once.
 * Kernels that are refused are counted; those that are accepted must compute the same.
 */
#include "test.h"

#include "run_forms.h"

#include <math.h>
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
    int number = (int)draw(maker, 6) + 2;
    gs_text_add(maker->text, conditions[draw(maker, 5)], number);
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
    int number = (int)draw(maker, 5) + 2;
    gs_text_add(maker->text, statements[draw(maker, maker->has_warps ? 6 : 4)], number);
}

static void put_alone(struct maker *maker) {
    static const char *const statements[] = {"v = v * 3 + in[(HERE + %d) %% n];\n", "out[HERE] += v %% 100 + %d;\n",
                                             "v += block_number() * %d;\n", "v ^= (int)gridDim.x + %d;\n",
                                             "v += twice<%d>(v %% 1000);\n"};
    int number = (int)draw(maker, 9) + 1;
    gs_text_add(maker->text, statements[draw(maker, 4)], number);
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
                      "unsigned v = in[HERE];\npart[threadIdx.x] = v;\n__syncthreads();\n");
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

static formed formed_of(const char *name, const char *kernel, const char *text) {
    formed it = {.launch = usual_launch()};
    snprintf(it.name, sizeof it.name, "%s", name);
    snprintf(it.kernel, sizeof it.kernel, "%s", kernel);
    gs_text_put(&it.text, text, strlen(text));
    return it;
}

TEST(random_kernels_compute_the_same_in_all_forms) {
    enum { MOST = 100 };
    static formed kernels[MOST];
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), count = test_number("GRIDSMITH_RUNS", 100000) / 4000,
             accepted = 0;
    gs_text ptx = {0};
    count = count < 5 ? 5 : count > MOST ? MOST : count;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < count; i++) {
        char name[40];
        snprintf(name, sizeof name, "random_%llu", (unsigned long long)i);
        kernels[i] = formed_of(name, "trap", "");
        put_kernel(&kernels[i].text, seed, i);
    }
    forms_compile(kernels, sizeof kernels[0], (size_t)count, "tests", &ptx);
    forms_make(kernels, sizeof kernels[0], (size_t)count, &ptx);
    for (uint64_t i = 0; i < count; i++)
        accepted += kernels[i].refusal.code == GS_OK;
    print_message("%llu random kernels, %llu accepted\n", (unsigned long long)count, (unsigned long long)accepted);
    assert_true(2 * accepted > count);
    forms_check(kernels, sizeof kernels[0], (size_t)count, &ptx);
    for (uint64_t i = 0; i < count; i++)
        forms_free(&kernels[i]);
    gs_text_free(&ptx);
}

/* ---- details ---- */

/* At most those of the original, rounded up to the unit of allocation; if the original has many, not fewer either. */
TEST(registers_are_those_of_the_original) {
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

/* Warps continue with the next block on their own only if that has no effect. */
TEST(threads_that_share_nothing_need_no_barrier) {
    static const struct {
        bool is_sharing;
        const char *text;
    } cases[] = {
        {true, "__global__ void k(int *a) { __shared__ volatile int b; b = a[0]; a[blockIdx.x] = b; }"},
        {true, "extern __shared__ int b[]; __global__ void k(int *a) { a[blockIdx.x] = b[0]; }"},
        {true, "__global__ void k(int *a) { __syncthreads(); a[blockIdx.x] = 1; }"},
        {true, "__global__ void k(int *a) { a[blockIdx.x] = __syncthreads_or(a[1]); }"},
        {true, "__device__ void wait() { __syncthreads(); } __global__ void k(int *a) { wait(); a[blockIdx.x] = 1; }"},
        {true, "__global__ void k(int *a) { asm(\"bar.sync 0;\"); a[blockIdx.x] = 1; }"},
        {true, "__global__ void k(int *a) { asm volatile(\"st.shared.u32 [0], 1;\"); a[blockIdx.x] = 1; }"},
        {false, "__global__ void k(int *a) { a[blockIdx.x] = 1; }"},
        {false, "__global__ void k(int *a) { if (a[0]) return; __syncwarp(); a[blockIdx.x] = 1; }"},
        {false, "__device__ int at() { return blockIdx.x; } __global__ void k(int *a) { a[at()] = 1; }"},
        {false, "__global__ void other(int *a) { __shared__ volatile int b; b = a[0]; a[1] = b; }"
                "__global__ void k(int *a) { a[blockIdx.x] = 1; }"}};
    formed kernels[GS_COUNT(cases)];
    gs_text ptx = {0};
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        char name[40];
        snprintf(name, sizeof name, "case_%zu", i);
        kernels[i] = formed_of(name, "k", cases[i].text);
    }
    forms_compile(kernels, sizeof kernels[0], GS_COUNT(cases), "tests", &ptx);
    forms_make(kernels, sizeof kernels[0], GS_COUNT(cases), &ptx);
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        if (kernels[i].refusal.code != GS_OK || kernels[i].made.warps_are_independent == cases[i].is_sharing)
            fail_msg("%s: %s", cases[i].text, kernels[i].refusal.message);
        forms_free(&kernels[i]);
    }
    gs_text_free(&ptx);
}

/* ---- exactly once ---- */

/* The same count, by threads that wait for each other and by warps that continue on their own. */
static const char with_barriers[] =
    "__global__ void k(int *out, const int *in, int n) {\n    __shared__ int sum;\n    if (threadIdx.x == 0)\n"
    "        sum = 0;\n    __syncthreads();\n    if (threadIdx.x % 7 == blockIdx.y)\n        return;\n"
    "    atomicAdd(&sum, 1);\n    __syncthreads();\n    if (threadIdx.x == 5)\n"
    "        atomicAdd(&out[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x], sum);\n}\n";
static const char without_barriers[] =
    "__global__ void k(int *out, const int *in, int n) {\n    if (threadIdx.x % 7 == blockIdx.y)\n        return;\n"
    "    atomicAdd(&out[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x], 1);\n}\n";

/* With stops, changing masks, and any number of worker blocks and size of tasks, each block runs once. */
static void run_each_block_once(void *module, gs_executor *executor, const formed *it, enum gs_form form,
                                uint64_t runs) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), launches = 0;
    gs_error error;
    gs_variant variant = gs_variant_original(it->launch, it->symbol);
    gs_verify_options options = {.seconds = 60};
    gs_verify_run run = {
        .executor = executor, .launch = it->launch, .options = &options, .variant = &variant, .module = module};
    snprintf(variant.kernel, sizeof variant.kernel, "%.200s__%s", it->symbol, gs_form_name(form));
    variant.form = form;
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
            if (run.counts[block] != 1 || out[block] != 60)
                fail_msg("seed %llu, run %llu: block %llu ran %u times and counted %d", (unsigned long long)seed,
                         (unsigned long long)i, (unsigned long long)block, run.counts[block], out[block]);
        launches += run.launches;
    }
    print_message("%llu runs in %llu launches\n", (unsigned long long)runs, (unsigned long long)launches);
    assert_true(form != GS_FORM_CONFINED || launches > 2 * runs);
    gs_verify_run_free(&run);
}

static gs_launch_file *read_launch(const char *text) {
    gs_input *input = gs_input_memory("launch", text, strlen(text), NULL);
    gs_launch_file *launch = gs_launch_read(input, NULL);
    gs_input_close(input);
    assert_non_null(launch);
    return launch;
}

static void *compile_forms(gs_executor *executor, const formed *kernels, const gs_text *ptx) {
    char names[4][GS_JOB_NAME];
    const char *list[4];
    gs_error error;
    for (int i = 0; i < 4; i++) {
        enum gs_form form = i % 2 ? GS_FORM_CONFINED : GS_FORM_PERSISTENT;
        snprintf(names[i], sizeof names[i], "%.200s__%s", kernels[i / 2].symbol, gs_form_name(form));
        list[i] = names[i];
    }
    gs_build build = {.name = "once.ptx", .text = ptx->data, .size = ptx->count, .kernels = list, .kernel_count = 4};
    void *module = executor->ops->compile(executor, &build, &error);
    if (!module)
        fail_msg("%s", error.message);
    return module;
}

TEST(every_block_runs_exactly_once) {
    static const char launch[] =
        "{\"schema\": \"gridsmith.launch/1\", \"grid\": [11, 5, 3], \"block\": [70, 1, 1], \"arguments\": "
        "[{\"buffer\": \"int32\", \"count\": 165}, {\"buffer\": \"int32\", \"count\": 1}, {\"int32\": 0}]}";
    uint64_t runs = gs_max_u64(1, test_number("GRIDSMITH_RUNS", 100000) / 2000);
    formed kernels[] = {formed_of("with", "k", with_barriers), formed_of("without", "k", without_barriers)};
    gs_text ptx = {0};
    gs_error error;
    gs_executor *executor = gs_executor_host(&error);
    forms_compile(kernels, sizeof kernels[0], 2, "tests", &ptx);
    forms_make(kernels, sizeof kernels[0], 2, &ptx);
    void *module = compile_forms(executor, kernels, &ptx);
    assert_true(kernels[0].made.exited_threads_wait && kernels[1].made.warps_are_independent);
    for (int i = 0; i < 2; i++) {
        gs_launch_free(kernels[i].launch);
        kernels[i].launch = read_launch(launch);
        run_each_block_once(module, executor, &kernels[i], GS_FORM_CONFINED, runs);
        run_each_block_once(module, executor, &kernels[i], GS_FORM_PERSISTENT, runs / 2);
        forms_free(&kernels[i]);
    }
    gs_executor_close(executor);
    gs_text_free(&ptx);
}

/* ---- verifying ---- */

/* A kernel that expects that no other block changes its variable in shared memory: block 4 reads the value that the
   block before left, which never happens if each block is alone and the memory is new. */
static const char reads_what_is_left[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n) "
    "{\n"
    ".reg .pred %p<4>;\n.reg .b32 %r<6>;\n.reg .b64 %d<3>;\n.shared .u32 left;\n"
    "ld.shared.u32 %r1, [left];\nbar.sync 0;\nmov.u32 %r2, %tid.x;\nsetp.eq.u32 %p1, %r2, 0;\n"
    "@%p1 st.shared.u32 [left], 7;\nsetp.eq.u32 %p2, %r1, 7;\nsetp.eq.and.u32 %p2, %r2, 5, %p2;\n"
    "selp.u32 %r3, 2, 1, %p2;\nmov.u32 %r4, %ctaid.x;\nsetp.eq.u32 %p3, %r4, 4;\nselp.u32 %r3, %r3, 3, %p3;\n"
    "mad.lo.u32 %r5, %r4, 64, %r2;\nld.param.u64 %d1, [out];\nmul.wide.u32 %d2, %r5, 4;\nadd.u64 %d1, %d1, %d2;\n"
    "st.global.u32 [%d1], %r3;\nret;\n}\n";

static gs_verify_result verify_ptx(const char *text, const gs_verify_options *options) {
    gs_ptx_module module;
    gs_error error = {.message = ""};
    gs_verify_result result;
    gs_executor *executor = gs_executor_host(&error);
    gs_launch_file *launch = usual_launch();
    if (gs_ptx_read(&module, "a.ptx", text, strlen(text), &error) != GS_OK)
        fail_msg("%ld: %s", error.line, error.message);
    gs_ptx_place place = {&module, (uint32_t)gs_ptx_find_function(&module, "k")};
    if (gs_verify_ptx(executor, &place, launch, options, &result, &error) != GS_OK)
        fail_msg("%s", error.message);
    gs_ptx_free(&module);
    gs_launch_free(launch);
    gs_executor_close(executor);
    return result;
}

TEST(what_differs_is_named_with_its_block) {
    gs_verify_options options = {.form = GS_FORM_PERSISTENT, .workers = 1, .seconds = 60};
    gs_verify_result result = verify_ptx(reads_what_is_left, &options);
    assert_int_equal(result.verdict, GS_VERDICT_DIFFERENT);
    assert_string_equal(result.reason.message,
                        "argument 1, element 261: the original has 1, the reshaped kernel 2; block "
                        "(4,0,0) writes it");
}

/* The same, with results that are only in variables of the module. One with an address is not compared. */
TEST(variables_are_compared) {
    static const char kernel[] =
        ".version 7.0\n.target sm_80\n.address_size 64\n.global .align 8 .u64 where = results;\n"
        ".global .align 4 .u32 results[448];\n.global .align 1 .b8 odd[3] = {1, 2, 3};\n"
        ".visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n) {\n"
        ".reg .pred %%p<4>;\n.reg .b32 %%r<6>;\n.reg .b64 %%d<3>;\n.shared .u32 left;\n"
        "ld.shared.u32 %%r1, [left];\nbar.sync 0;\nmov.u32 %%r2, %%tid.x;\nsetp.eq.u32 %%p1, %%r2, 0;\n"
        "@%%p1 st.shared.u32 [left], 7;\nsetp.eq.u32 %%p2, %%r1, 7;\nselp.u32 %%r3, 4000000000, 1, %%p2;\n"
        "mov.u32 %%r4, %%ctaid.x;\nsetp.eq.u32 %%p3, %%r4, 4;\nsetp.eq.and.u32 %%p3, %%r2, 5, %%p3;\n"
        "%sselp.u32 %%r3, %%r3, 3, %%p3;\nmad.lo.u32 %%r5, %%r4, 64, %%r2;\nld.global.u64 %%d1, [where];\n"
        "mov.u64 %%d1, results;\nmul.wide.u32 %%d2, %%r5, 4;\nadd.u64 %%d1, %%d1, %%d2;\n"
        "st.global.u32 [%%d1], %%r3;\nst.global.u8 [odd+1], 9;\nret;\n}\n";
    gs_verify_options options = {.form = GS_FORM_PERSISTENT, .workers = 1, .seconds = 60};
    char text[sizeof kernel + 40];
    snprintf(text, sizeof text, kernel, "");
    gs_verify_result result = verify_ptx(text, &options);
    assert_int_equal(result.verdict, GS_VERDICT_DIFFERENT);
    assert_string_equal(result.reason.message,
                        "variable results, element 261: the original has 1, the reshaped kernel 4000000000");
    snprintf(text, sizeof text, kernel, "mov.u32 %r3, 1; ");
    assert_int_equal(verify_ptx(text, &options).verdict, GS_VERDICT_SAME);
}

TEST(large_integers_are_named_whole) {
    static const char kernel[] =
        ".version 7.0\n.target sm_80\n.address_size 64\n.global .align 8 .s64 result;\n"
        ".visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n) {\n"
        ".reg .pred %p<3>;\n.reg .b32 %r<3>;\n.reg .b64 %d<2>;\n.shared .u32 left;\n"
        "ld.shared.u32 %r1, [left];\nbar.sync 0;\nst.shared.u32 [left], 7;\nsetp.eq.u32 %p1, %r1, 7;\n"
        "selp.b64 %d1, 1152921504606846977, 1152921504606846979, %p1;\nmov.u32 %r2, %ctaid.x;\n"
        "setp.eq.u32 %p2, %r2, 4;\n@%p2 st.global.u64 [result], %d1;\nret;\n}\n";
    gs_verify_options options = {.form = GS_FORM_PERSISTENT, .workers = 1, .seconds = 60};
    gs_verify_result result = verify_ptx(kernel, &options);
    assert_int_equal(result.verdict, GS_VERDICT_DIFFERENT);
    assert_string_equal(result.reason.message, "variable result, element 0: the original has 1152921504606846979, the "
                                               "reshaped kernel 1152921504606846977");
}

/* Block 4 writes 1.0001 as the original, and 1 as a form: into an array that is declared as bytes, as nvcc does. The
   instructions are those that write; `%f1` has the number, `%p2` says that it is block 4. */
static gs_verify_result verify_bytes(const char *declarations, const char *instructions, double tolerance) {
    gs_verify_options options = {.form = GS_FORM_PERSISTENT, .workers = 1, .seconds = 60, .tolerance = tolerance};
    char text[2000];
    snprintf(text, sizeof text,
             ".version 7.0\n.target sm_80\n.address_size 64\n.global .align 4 .b8 results[16];\n%s"
             ".visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n) {\n"
             ".reg .pred %%p<3>;\n.reg .b32 %%r<3>;\n.reg .f32 %%f<3>;\n.reg .b64 %%d<4>;\n.shared .u32 left;\n"
             "ld.shared.u32 %%r1, [left];\nbar.sync 0;\nst.shared.u32 [left], 7;\nsetp.eq.u32 %%p1, %%r1, 7;\n"
             "selp.f32 %%f1, 0f3F800000, 0f3F800347, %%p1;\nmov.u32 %%r2, %%ctaid.x;\nsetp.eq.u32 %%p2, %%r2, 4;\n"
             "%s\nret;\n}\n",
             declarations, instructions);
    return verify_ptx(text, &options);
}

static void expect_difference(gs_verify_result result, const char *words) {
    assert_int_equal(result.verdict, GS_VERDICT_DIFFERENT);
    assert_string_equal(result.reason.message, words);
}

#define EXACTLY                                                                                                        \
    "; it is compared exactly: PTX declares it as bytes, and the kernel does not access it as floating-point numbers " \
    "of one type only"

TEST(tolerance_is_for_arrays_of_numbers) {
    static const char add[] = "mov.u64 %d1, results; cvta.global.u64 %d2, %d1; add.u64 %d3, %d2, 8;\n"
                              "@%p2 st.f32 [%d3], %f1;";
    expect_difference(verify_bytes("", add, 0),
                      "variable results, element 2: the original has 1.00010002, the reshaped kernel 1");
    assert_int_equal(verify_bytes("", add, 0.001).verdict, GS_VERDICT_SAME);
    expect_difference(verify_bytes("", add, 0.00001),
                      "variable results, element 2: the original has 1.00010002, the reshaped kernel 1");
}

/* Small integers are tiny as floating-point numbers: within any tolerance. */
TEST(tolerance_is_not_for_bytes_that_may_be_integers) {
    static const char exactly[] = "variable results, byte 8: the original has 71, the reshaped kernel 0" EXACTLY;
    expect_difference(verify_bytes("", "@%p2 st.global.f32 [results+8], %f1; st.global.u32 [results], 1;", 0.001),
                      exactly);
    expect_difference(verify_bytes(".global .u64 table = results;\n", "@%p2 st.global.f32 [results+8], %f1;", 0.001),
                      exactly);
    expect_difference(verify_bytes(".global .u64 place;\n",
                                   "@%p2 st.global.f32 [results+8], %f1; mov.u64 %d1, results;\n"
                                   "setp.eq.u32 %p1, %r2, 99; @%p1 st.global.u64 [place], %d1;",
                                   0.001),
                      exactly);
    expect_difference(
        verify_bytes("", "mov.b32 %r1, %f1; @%p2 st.global.u32 [results+8], %r1;", 0.001),
        "variable results, element 2: the original has 1065354055, the reshaped kernel 1065353216" EXACTLY);
}

TEST(variables_that_only_a_table_names_are_compared) {
    expect_difference(verify_bytes(".global .u64 table = results;\n",
                                   "ld.global.u64 %d1, [table]; @%p2 st.global.f32 [%d1+8], %f1;", 0),
                      "variable results, byte 8: the original has 71, the reshaped kernel 0");
}

/* It would not even fit: variables on the CPU have at most 64 MB. */
TEST(variables_that_no_instruction_reaches_do_not_matter) {
    assert_int_equal(verify_bytes(".global .b8 huge[1000000000];\n", "", 0).verdict, GS_VERDICT_SAME);
}

TEST(only_an_infinity_is_close_to_it) {
    static const gs_scalar types[] = {GS_FLOAT32, GS_FLOAT64, GS_FLOAT16, GS_BFLOAT16};
    static const double numbers[] = {INFINITY, -INFINITY, NAN, 5, -20};
    unsigned char one[8], other[8];
    for (size_t t = 0; t < GS_COUNT(types); t++)
        for (size_t i = 0; i < GS_COUNT(numbers); i++)
            for (size_t k = 0; k < GS_COUNT(numbers); k++) {
                gs_scalar_put(types[t], numbers[i], one, 0);
                gs_scalar_put(types[t], numbers[k], other, 0);
                assert_int_equal(gs_scalars_differ(types[t], one, other, 1, 0.5), i == k);
                assert_int_equal(gs_scalars_differ(types[t], one, other, 1, 1e29), i == k || (i >= 3 && k >= 3));
            }
}

/* The same text, compiled with fewer registers. */
TEST(limits_of_registers_are_verified) {
    gs_verify_options options = {.form = GS_FORM_REGISTERS, .registers = 32, .seconds = 60};
    gs_verify_result result = verify_ptx(reads_what_is_left, &options);
    assert_int_equal(result.verdict, GS_VERDICT_SAME);
    assert_int_equal(result.launches, 1);
}

static gs_verify_result verify_elastic(const char *text, gs_text *found) {
    gs_verify_options options = {.form = GS_FORM_ELASTIC, .kernel = "k", .seconds = 60};
    gs_source source;
    gs_error error = {.message = ""};
    gs_verify_result result;
    gs_executor *executor = gs_executor_host(&error);
    gs_launch_file *launch = usual_launch();
    assert_int_equal(gs_source_read(&source, "a.cu", text, strlen(text), &error), GS_OK);
    if (gs_verify_elastic(executor, &source, launch, &options, 0, found, &result, &error) != GS_OK)
        fail_msg("%s", error.message);
    gs_source_free(&source);
    gs_launch_free(launch);
    gs_executor_close(executor);
    return result;
}

TEST(elastic_blocks_are_found_by_trying) {
    static const char text[] =
        "#define SIZE 64\n__global__ void k(int *out, const int *in, int n) {\n"
        "    __shared__ int part[SIZE];\n    part[threadIdx.x] = in[blockIdx.x * SIZE + threadIdx.x];\n"
        "    __syncthreads();\n    out[blockIdx.x * SIZE + threadIdx.x] = part[threadIdx.x] + n;\n}\n";
    gs_text found = {0};
    gs_verify_result result = verify_elastic(text, &found);
    assert_int_equal(result.verdict, GS_VERDICT_SAME);
    assert_string_equal(result.reason.message,
                        "1/2 of the threads: block [32, 1, 1], grid [18, 1, 1], line 1: 32 for 64; 1/4 of the threads: "
                        "block [16, 1, 1], grid [36, 1, 1], line 1: 16 for 64");
    assert_non_null(strstr(found.data, "#define SIZE 32\n"));
    gs_text_free(&found);
}

/* Its result depends on the number of threads, and no constant of the source changes that. */
TEST(elastic_blocks_that_differ_are_refused) {
    static const char text[] = "__global__ void k(int *out, const int *in, int n) {\n"
                               "    out[blockIdx.x * blockDim.x + threadIdx.x] = in[0] + blockDim.x;\n}\n";
    gs_verify_result result = verify_elastic(text, NULL);
    assert_int_equal(result.verdict, GS_VERDICT_REFUSED);
    assert_string_equal(result.reason.message,
                        "no constants were found with which fewer threads compute the same results in this launch");
}

TEST_MAIN(NULL, NULL)
