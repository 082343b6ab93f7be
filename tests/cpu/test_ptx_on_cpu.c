/*
 * test_ptx_on_cpu.c: kernels in PTX compute on the CPU the same as on a GPU, and their errors are detected.
 *
 * The kernels are in tests/kernels/ptx_host.cu; nvcc compiled them to ptx_host.ptx. test_ptx_instructions.c tests
 * single instructions.
 */
#include "test.h"

#include "kernels/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"

static struct {
    gs_host *host;
    char *text;
    size_t size;
    gs_module *plain, *sanitized;
} all;

static int set_up(void **state) {
    static const char *const few[] = {"past_shared", "past_global", "memory", "calls"};
    gs_error error;
    (void)state;
    all.host = gs_host_open(&error);
    assert_non_null(all.host);
    assert_int_equal(gs_input_all(test_path("tests/kernels/ptx_host.ptx"), 1 << 20, &all.text, &all.size, &error),
                     GS_OK);
    gs_build build = {.name = "host.ptx", .text = all.text, .size = all.size};
    all.plain = gs_host_compile(all.host, &build, &error);
    build.address_sanitizer = true;
    build.kernels = few;
    build.kernel_count = GS_COUNT(few);
    all.sanitized = gs_host_compile(all.host, &build, &error);
    assert_non_null(all.plain);
    assert_non_null(all.sanitized);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    gs_host_close(all.host);
    free(all.text);
    return 0;
}

/* ---- calls ---- */

/* A call: its arguments are added one by one. */
struct call {
    gs_work work;
};

static struct call begin(const char *kernel, uint32_t blocks, uint32_t threads, size_t shared_bytes) {
    struct call call = {.work = {.seconds = 60}};
    const uint32_t grid[3] = {blocks, 1, 1}, block[3] = {threads, 1, 1};
    gs_work_call(&call.work, kernel, grid, block, shared_bytes);
    return call;
}

static void pass(struct call *call, void *data, size_t bytes) {
    gs_work_pass_buffer(&call->work, gs_work_buffer(&call->work, data, bytes));
}

static void finish(struct call *call, gs_module *module) {
    gs_error error = {.message = ""};
    gs_code code = gs_module_run(module, &call->work, &error);
    assert_string_equal(error.message, "");
    assert_int_equal(code, GS_OK);
    gs_work_free(&call->work);
}

static void fails_with(struct call *call, gs_module *module, const char *words) {
    gs_error error = {.message = ""};
    assert_int_equal(gs_module_run(module, &call->work, &error), GS_E_KERNEL);
    if (!strstr(error.message, words))
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
    gs_work_free(&call->work);
}

/* ---- barriers ---- */

TEST(named_barriers_make_a_pipeline) {
    int out[128];
    for (int turn = 0; turn < 4; turn++) {
        struct call call = begin("pipeline", 1, 128, 0);
        call.work.shuffled = turn > 0;
        call.work.seed = (uint64_t)turn;
        pass(&call, out, sizeof out);
        finish(&call, all.plain);
        for (int i = 64; i < 128; i++)
            assert_int_equal(out[i], 1000 + 5 * (127 - i));
    }
}

TEST(barriers_vote_without_those_that_returned) {
    int out[40 * 3] = {0};
    struct call call = begin("votes", 1, 40, 0);
    pass(&call, out, sizeof out);
    finish(&call, all.plain);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(out[i * 3], i == 3 ? 0 : 20);
        assert_int_equal(out[i * 3 + 1] != 0, i != 3);
        assert_int_equal(out[i * 3 + 2], 0);
    }
}

TEST(threads_of_a_warp_meet_from_different_places) {
    int out[64];
    struct call call = begin("two_places", 1, 64, 0);
    pass(&call, out, sizeof out);
    finish(&call, all.plain);
    for (int i = 0; i < 64; i++)
        assert_int_equal(out[i], 63 - i);
}

TEST(a_thread_may_wait_for_another_by_polling) {
    int out = 0, flag = 0;
    struct call call = begin("waits_for_another", 1, 64, 0);
    pass(&call, &out, sizeof out);
    pass(&call, &flag, sizeof flag);
    finish(&call, all.plain);
    assert_int_equal(out, 7);
}

TEST(divergence_is_reported_with_its_places) {
    static const char *const words[] = {"16 threads, the first (0,0,0), wait in bar.sync at host.ptx:",
                                        "16 threads, the first (16,0,0), wait in a shuffle at host.ptx:"};
    int out[64];
    for (size_t i = 0; i < GS_COUNT(words); i++) {
        struct call call = begin("half_waits", 1, 32, 0);
        pass(&call, out, sizeof out);
        fails_with(&call, all.plain, words[i]);
    }
}

/* ---- warps ---- */

TEST(warps_work_together_without_lanes_that_returned) {
    static unsigned out[64 * 12];
    memset(out, 0, sizeof out);
    struct call call = begin("warps", 1, 64, 0);
    pass(&call, out, sizeof out);
    finish(&call, all.plain);
    for (unsigned i = 0; i < 64; i++) {
        unsigned lane = i % 32, eight = 0xffu << lane / 8 * 8;
        const unsigned expected[] = {lane < 2 ? lane : lane - 2,
                                     lane % 8 < 6 && lane + 2 != 31 ? lane + 2 : lane,
                                     (lane ^ 1) == 31 ? lane : lane ^ 1,
                                     5 + lane / 16 * 16,
                                     0x2aaaaaaau,
                                     1,
                                     0,
                                     eight & 0x7fffffffu,
                                     30 * 31 / 2,
                                     lane < 20 ? 19 : 0,
                                     lane >= 4 && lane < 9 ? 0x1f0 : 0,
                                     lane == 4};
        for (int k = 0; k < 12 && lane != 31; k++)
            assert_int_equal(out[i * 12 + k], expected[k]);
    }
}

/* ---- calls ---- */

TEST(functions_are_called) {
    struct triple {
        int a;
        double b;
        char c;
    } given = {5, 1.5, 'x'};
    long long out[12][4], factorial = 1;
    int which = 1;
    for (int k = 0; k < 2; k++) {
        memset(out, 0, sizeof out);
        struct call call = begin("calls", 1, 12, 0);
        pass(&call, out, sizeof out);
        gs_work_pass(&call.work, &given, sizeof given);
        gs_work_pass(&call.work, &which, sizeof which);
        finish(&call, k ? all.sanitized : all.plain);
        factorial = 1;
        for (int i = 0; i < 12; i++) {
            factorial *= i ? i : 1;
            bool leaves = (i + which) % 3 == 2 && i > 5;
            assert_int_equal(out[i][0], factorial);
            assert_int_equal(out[i][1], -5 + 3000 + 'y');
            assert_int_equal(out[i][2], leaves ? 0 : (i + which) % 3 == 0 ? 2 * i : (i + which) % 3 == 1 ? i * i : i);
            assert_int_equal(out[i][3], leaves ? 0 : 77);
        }
    }
}

TEST(branches_by_table_go_where_they_should) {
    int out[10] = {123}, shift = 0;
    struct call call = begin("cases", 1, 9, 0);
    pass(&call, out, sizeof out);
    gs_work_pass(&call.work, &shift, sizeof shift);
    finish(&call, all.plain);
    const int expected[] = {11, 3, -5, 3 ^ 99, 1 << 4, 5 / 3, 123, 1000, 1000};
    for (int i = 0; i < 9; i++)
        assert_int_equal(out[i + 1], expected[i]);
}

/* ---- memory ---- */

TEST(memory_has_its_spaces) {
    int out[32][8];
    for (int k = 0; k < 2; k++) {
        memset(out, 0, sizeof out);
        struct call call = begin("memory", 1, 32, 32 * sizeof(double));
        pass(&call, out, sizeof out);
        finish(&call, k ? all.sanitized : all.plain);
        for (int i = 0; i < 32; i++) {
            const int expected[] = {32 * 33 / 2, 28 * i, 41, 123, 31 - i, 40 + i, 3, 128};
            for (int n = 0; n < 8; n++)
                assert_int_equal(out[i][n], expected[n]);
        }
    }
}

TEST(atomics_lose_nothing) {
    enum { BLOCKS = 50, THREADS = 64, ALL = BLOCKS * THREADS };
    unsigned counts[13] = {0}, parity = 0;
    float sum = 0;
    double sums = 0;
    uint64_t most = 0;
    uint16_t halves[2] = {0};
    counts[5] = UINT32_MAX;
    for (unsigned i = 0; i < ALL; i++)
        parity ^= i;
    struct call call = begin("atomics", BLOCKS, THREADS, 0);
    call.work.shuffled = true;
    pass(&call, counts, sizeof counts);
    pass(&call, &sum, sizeof sum);
    pass(&call, &sums, sizeof sums);
    pass(&call, &most, sizeof most);
    pass(&call, halves, sizeof halves);
    finish(&call, all.plain);
    const unsigned expected[] = {
        ALL / 4,    ALL / 4, ALL / 4, ALL / 4, ALL - 1, 3, ALL % 10, ALL % 10 ? 10 - ALL % 10 : 0,
        UINT32_MAX, parity,  0,       ALL,     ALL};
    for (size_t i = 0; i < GS_COUNT(counts); i++)
        assert_int_equal(counts[i], expected[i]);
    assert_true(sum == ALL * 0.5f);
    assert_true(sums == ALL * 0.25);
    assert_int_equal(most, (uint64_t)(ALL - 1) << 20);
    assert_int_equal(halves[0], 0x5640); /* 100 */
    assert_int_equal(halves[1], 0x5a40); /* 200 */
}

TEST(copies_fill_with_zeros_and_mbarriers_have_phases) {
    int in[128], out[128];
    for (int i = 0; i < 128; i++)
        in[i] = -i - 1;
    struct call call = begin("copies", 1, 32, 0);
    pass(&call, in, sizeof in);
    pass(&call, out, sizeof out);
    finish(&call, all.plain);
    for (int i = 0; i < 32; i++) {
        unsigned char expected[16] = {0};
        memcpy(expected, in + 4 * (31 - i), (size_t)(31 - i) % 17);
        assert_memory_equal(out + 4 * i, expected, sizeof expected);
    }
}

/* ---- matrices ---- */

TEST(halves_multiply) {
    static const uint16_t small[] = {0x0000, 0x3c00, 0x4000, 0xbc00, 0x3800};
    static const float values[] = {0, 1, 2, -1, 0.5f};
    uint16_t a[16 * 16], b[16 * 8];
    float d[16 * 8];
    for (int i = 0; i < 256; i++)
        a[i] = small[i * 7 % 5];
    for (int i = 0; i < 128; i++)
        b[i] = small[(i * 3 + i / 16) % 5];
    struct call call = begin("product", 1, 32, 0);
    pass(&call, a, sizeof a);
    pass(&call, b, sizeof b);
    pass(&call, d, sizeof d);
    finish(&call, all.plain);
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++) {
            float sum = (float)(1 + column % 2 + row / 8 * 2);
            for (int k = 0; k < 16; k++)
                sum += values[(row * 16 + k) * 7 % 5] * values[((column * 16 + k) * 3 + column) % 5];
            assert_true(d[row * 8 + column] == sum);
        }
}

TEST(bytes_multiply) {
    int8_t a[16 * 32];
    uint8_t b[32 * 8];
    int d[16 * 8];
    for (int i = 0; i < 512; i++)
        a[i] = (int8_t)(i * 37);
    for (int i = 0; i < 256; i++)
        b[i] = (uint8_t)(i * 91);
    struct call call = begin("bytes", 1, 32, 0);
    pass(&call, a, sizeof a);
    pass(&call, b, sizeof b);
    pass(&call, d, sizeof d);
    finish(&call, all.plain);
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++) {
            int sum = 0;
            for (int k = 0; k < 32; k++)
                sum += a[row * 32 + k] * b[column * 32 + k];
            assert_int_equal(d[row * 8 + column], sum);
        }
}

/* ---- order ---- */

enum { ORDER_BLOCKS = 30, ORDER_THREADS = 64, ORDER_ALL = ORDER_BLOCKS * ORDER_THREADS };

static void run_order(unsigned *out, bool shuffled, uint64_t seed) {
    unsigned next = 0;
    struct call call = begin("order", ORDER_BLOCKS, ORDER_THREADS, 0);
    call.work.threads = 1;
    call.work.shuffled = shuffled;
    call.work.seed = seed;
    pass(&call, out, ORDER_ALL * sizeof *out);
    pass(&call, &next, sizeof next);
    finish(&call, all.plain);
}

static size_t count_places(const unsigned *order, const unsigned *other) {
    size_t count = 0;
    for (unsigned i = 0; i < ORDER_ALL; i++)
        count += order[i] == (other ? other[i] : i);
    return count;
}

TEST(the_order_is_random_and_repeats_from_its_seed) {
    static unsigned plain[ORDER_ALL], first[ORDER_ALL], again[ORDER_ALL], second[ORDER_ALL];
    bool seen[ORDER_ALL] = {false};
    run_order(plain, false, 1);
    run_order(first, true, 1);
    run_order(again, true, 1);
    run_order(second, true, 2);
    assert_int_equal(count_places(plain, NULL), ORDER_ALL);
    assert_int_equal(count_places(first, again), ORDER_ALL);
    assert_true(count_places(first, NULL) < ORDER_ALL / 10);
    assert_true(count_places(first, second) < ORDER_ALL / 10);
    for (unsigned i = 0; i < ORDER_ALL; i++) {
        assert_true(first[i] < ORDER_ALL && !seen[first[i]]);
        seen[first[i]] = true;
    }
}

static uint32_t read_past_the_table(gs_module *module, uint64_t seed) {
    uint32_t out = 0;
    struct call call = begin("past_the_table", 1, 1, 0);
    call.work.shuffled = seed != 0;
    call.work.seed = seed;
    pass(&call, &out, sizeof out);
    finish(&call, module);
    return out;
}

/* So a kernel that does this is detected, because its results depend on the order. */
TEST(what_lies_behind_a_variable_is_random) {
    static const char text[] = HEAD
        ".const .align 4 .b8 table[8] = {1, 0, 0, 0, 2, 0, 0, 0};\n.visible .entry past_the_table(.param .u64 out) "
        "{\n  .reg .b64 p;\n  .reg .b32 a;\n  ld.param.u64 p, [out];\n  ld.const.u32 a, [table + 40];\n"
        "  st.global.u32 [p], a;\n  ret;\n}\n";
    gs_build build = {.name = "x.ptx", .text = text, .size = sizeof text - 1};
    gs_error error;
    gs_module *module = gs_host_compile(all.host, &build, &error);
    assert_non_null(module);
    uint32_t first = read_past_the_table(module, 1), second = read_past_the_table(module, 2),
             third = read_past_the_table(module, 3);
    assert_int_equal(read_past_the_table(module, 0), 0xcdcdcdcdu);
    assert_int_equal(read_past_the_table(module, 1), first);
    assert_true(first != second || second != third);
}

/* ---- errors ---- */

static void kernel_fails(gs_module *module, const char *kernel, uint32_t threads, int number, const char *words) {
    int out[64] = {0};
    struct call call = begin(kernel, 1, threads, 0);
    pass(&call, out, sizeof out);
    if (number != -1)
        gs_work_pass(&call.work, &number, sizeof number);
    fails_with(&call, module, words);
}

TEST(errors_of_kernels_are_found) {
    kernel_fails(all.plain, "past_shared", 32, 40, "4 bytes at 284 are outside of the 256 bytes of shared memory");
    kernel_fails(all.plain, "past_shared", 32, 40, "thread (31,0,0) of past_shared");
    kernel_fails(all.plain, "misaligned", 1, 6, "must be a multiple of 4");
    kernel_fails(all.plain, "asserts", 32, 20, "assertion failed: (int)threadIdx.x < n");
    kernel_fails(all.plain, "traps", 32, -1, "the kernel trapped in block (0,0,0), thread (5,0,0) of traps");
    kernel_fails(all.plain, "past_global", 8, 64, "signal 11");
    kernel_fails(all.plain, "past_global", 8, 1 << 30, "signal 11");
    kernel_fails(all.plain, "past_global", 8, -(1 << 30), "signal 11");
    kernel_fails(all.sanitized, "past_global", 8, 60, "heap-buffer-overflow");
    kernel_fails(all.sanitized, "past_global", 8, 60, "host.ptx:");
}

TEST(kernels_may_print) {
    int out = -1;
    struct call call = begin("prints", 1, 32, 0);
    pass(&call, &out, sizeof out);
    finish(&call, all.plain);
    assert_int_equal(out, 0);
}

TEST(wrong_arguments_are_refused) {
    gs_error error;
    int out[4];
    struct call call = begin("past_global", 1, 1, 0);
    pass(&call, out, sizeof out);
    assert_int_equal(gs_module_run(all.plain, &call.work, &error), GS_E_USAGE);
    assert_non_null(strstr(error.message, "past_global has 2 parameters, but 1 arguments are given"));
    gs_work_free(&call.work);
}

/* ---- PTX that cannot be translated ---- */

TEST(what_does_not_run_is_refused_with_its_place) {
    static const struct {
        const char *text, *message;
        long line, column;
    } refused[] = {
        {HEAD ".entry k() {\n  .reg .b32 r<4>;\n  tcgen05.alloc r1, r2;\n}", "tcgen05.alloc does not run on the CPU", 6,
         3},
        {HEAD ".entry k() {\n  .reg .f32 f<9>;\n  tex.2d.v4.f32.f32 {f1, f2, f3, f4}, [f5, {f6, f7}];\n}",
         "tex.2d.v4.f32.f32 does not run on the CPU", 6, 3},
        {HEAD ".entry k() {\n  add.s32 %nothing, 1, 2;\n}", "expected a register", 5, 11},
        {HEAD ".entry k() {\n  bra nowhere;\n}", "unknown label", 5, 7},
        {HEAD ".entry k() {\n  call missing;\n}", "the function missing is not defined in this module", 5, 8},
        {HEAD ".entry k() {\n  .reg .b32 r<3>;\n  ld.global.u32 r1, [r2];\n}",
         "an address of 32 bits does not run on the CPU", 6, 22},
        {HEAD ".entry k()\n.explicitcluster\n.reqnctapercluster 2 {\n  ret;\n}",
         "a kernel with clusters does not run on the CPU", 4, 8},
    };
    for (size_t i = 0; i < GS_COUNT(refused); i++) {
        gs_build build = {.name = "x.ptx", .text = refused[i].text, .size = strlen(refused[i].text)};
        gs_text into = {0};
        gs_error error = {.message = ""};
        assert_int_equal(gs_host_translate_ptx(&build, &into, &error), GS_E_UNSUPPORTED);
        assert_string_equal(error.message, refused[i].message);
        assert_int_equal(error.line, refused[i].line);
        assert_int_equal(error.column, refused[i].column);
        gs_text_free(&into);
    }
}

TEST(a_kernel_does_not_suffer_from_its_neighbors) {
    static const char text[] = HEAD ".entry bad() {\n  tcgen05.alloc 1, 2;\n}\n.entry good() {\n  ret;\n}\n";
    static const char *const kernels[] = {"good"};
    gs_build build = {.name = "x.ptx", .text = text, .size = sizeof text - 1, .kernels = kernels, .kernel_count = 1};
    gs_text into = {0};
    gs_error error = {.message = ""};
    assert_int_equal(gs_host_translate_ptx(&build, &into, &error), GS_OK);
    gs_text_free(&into);
}

/* Templates have long symbols. */
TEST(symbols_may_be_long) {
    enum { LENGTH = 3000 };
    char symbol[LENGTH + 1], helper[LENGTH + 1];
    gs_text text = {0};
    gs_error error = {.message = ""};
    int out = 0;
    memset(symbol, 'k', LENGTH);
    memset(helper, 'h', LENGTH);
    symbol[LENGTH] = helper[LENGTH] = '\0';
    gs_text_add(&text,
                HEAD ".func %s(.param .u64 p) {\n.reg .b64 d;\nld.param.u64 d, [p];\nst.global.u32 [d], 5;\nret;\n}\n"
                     ".entry %s(.param .u64 p) {\n.reg .b64 d;\nld.param.u64 d, [p];\n{ .param .b64 q;\nst.param.b64 "
                     "[q], d;\ncall %s, (q);\n}\nret;\n}\n",
                helper, symbol, helper);
    const char *const kernels[] = {symbol};
    gs_build build = {.name = "x.ptx", .text = text.data, .size = text.count, .kernels = kernels, .kernel_count = 1};
    gs_module *module = gs_host_compile(all.host, &build, &error);
    if (!module)
        fail_msg("%s", error.message);
    struct call call = begin(symbol, 1, 1, 0);
    pass(&call, &out, sizeof out);
    finish(&call, module);
    assert_int_equal(out, 5);
    gs_text_free(&text);
}

/* Warps may be at different barriers of the same number; the threads of a warp may not. */
TEST(aligned_barriers_are_for_whole_warps) {
    static const char text[] = HEAD ".entry k(.param .u32 first) {\n.reg .pred p;\n.reg .b32 w<3>;\nld.param.u32 w1, "
                                    "[first];\nmov.u32 w2, %tid.x;\nsetp.lt.u32 p, w2, w1;\n@p bra A;\nbar.sync 0;\n"
                                    "ret;\nA: bar.sync 0;\nret;\n}\n";
    gs_build build = {.name = "x.ptx", .text = text, .size = sizeof text - 1};
    gs_error error = {.message = ""};
    gs_module *module = gs_host_compile(all.host, &build, &error);
    if (!module)
        fail_msg("%s", error.message);
    for (uint32_t first = 16; first <= 32; first += 16) {
        struct call call = begin("k", 1, 64, 0);
        gs_work_pass(&call.work, &first, sizeof first);
        if (first == 32)
            finish(&call, module);
        else
            fails_with(&call, module, "16 threads, the first (0,0,0), wait in bar.sync at x.ptx:13");
    }
}

/* As an H200 did (2026-11-18): a warp that has exited is not counted where a count is given, and the barrier never
   opens; a warp of which some lanes have exited counts as a whole. */
TEST(a_count_waits_for_warps_that_have_exited) {
    static const char begin_of[] = "(.param .u32 first) {\n.reg .pred p;\n.reg .b32 w<3>;\nld.param.u32 w1, [first];\n"
                                   "mov.u32 w2, %tid.x;\nsetp.lt.u32 p, w2, w1;\n@p ret;\n";
    static const struct {
        const char *barrier;
        uint32_t exited;
        bool ends;
    } rows[] = {{"bar.sync 1", 32, true},         {"bar.sync 1, 96", 32, true},   {"bar.sync 1, 128", 0, true},
                {"bar.sync 1, 128", 32, false},   {"bar.sync 0, 128", 64, false}, {"barrier.sync 1, 128", 32, false},
                {"barrier.sync 1, 128", 16, true}};
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_text text = {0};
        gs_error error = {.message = ""};
        gs_text_add(&text, HEAD ".entry k%s%s;\nret;\n}\n", begin_of, rows[i].barrier);
        gs_build build = {.name = "x.ptx", .text = text.data, .size = text.count};
        gs_module *module = gs_host_compile(all.host, &build, &error);
        if (!module)
            fail_msg("%s", error.message);
        struct call call = begin("k", 1, 128, 0);
        gs_work_pass(&call.work, &rows[i].exited, sizeof rows[i].exited);
        if (rows[i].ends)
            finish(&call, module);
        else
            fails_with(&call, module, "the others have returned");
        gs_text_free(&text);
    }
}

TEST_MAIN(set_up, tear_down)
