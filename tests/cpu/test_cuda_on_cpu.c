/*
 * test_cuda_on_cpu.c: CUDA sources on the CPU compute the same as on a GPU, and their errors are detected.
 *
 * All kernels of tests/kernels/host.cu are one module; the one with AddressSanitizer is compiled at the same time.
 */
#include "test.h"

#include "kernels/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"where", "reverse",       "outside",    "declarators", "warps",
                                    "votes", "atomics",       "product",    "halves",      "half_waits",
                                    "crash", "out_of_bounds", "past_shared"};

static struct {
    gs_host *host;
    char *text;
    size_t size;
    gs_module *plain, *sanitized;
} all;

static gs_build build_of(const char *file, bool address_sanitizer) {
    gs_error error;
    if (!all.text)
        assert_int_equal(gs_input_all(test_path(file), 1 << 20, &all.text, &all.size, &error), GS_OK);
    return (gs_build){.name = "host.cu",
                      .text = all.text,
                      .size = all.size,
                      .kernels = names,
                      .kernel_count = GS_COUNT(names),
                      .address_sanitizer = address_sanitizer};
}

static int set_up(void **state) {
    gs_error error;
    (void)state;
    all.host = gs_host_open(&error);
    assert_non_null(all.host);
    gs_build plain = build_of("tests/kernels/host.cu", false), sanitized = build_of("tests/kernels/host.cu", true);
    all.plain = gs_host_compile(all.host, &plain, &error);
    all.sanitized = gs_host_compile(all.host, &sanitized, &error);
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

/* Calls a kernel with one buffer of `bytes` and, if `number` is not -1, with that number. */
static gs_code call(gs_module *module, const char *kernel, uint32_t blocks, uint32_t threads, size_t shared_bytes,
                    void *data, size_t bytes, int number, gs_error *error) {
    gs_work work = {.seconds = 60};
    const uint32_t grid[3] = {blocks, 1, 1}, block[3] = {threads, 1, 1};
    int32_t buffer = gs_work_buffer(&work, data, bytes);
    gs_work_call(&work, kernel, grid, block, shared_bytes);
    gs_work_pass_buffer(&work, buffer);
    if (number != -1)
        gs_work_pass(&work, &number, sizeof number);
    gs_code code = gs_module_run(module, &work, error);
    gs_work_free(&work);
    return code;
}

static void call_well(const char *kernel, uint32_t blocks, uint32_t threads, size_t shared_bytes, void *data,
                      size_t bytes) {
    gs_error error = {.message = ""};
    gs_code code = call(all.plain, kernel, blocks, threads, shared_bytes, data, bytes, -1, &error);
    assert_string_equal(error.message, "");
    assert_int_equal(code, GS_OK);
}

TEST(every_thread_knows_where_it_is) {
    enum { THREADS = 5 * 3 * 2, BLOCKS = 3 * 4 * 2 };
    static int out[THREADS * BLOCKS];
    gs_work work = {0};
    gs_error error = {.message = ""};
    const uint32_t grid[3] = {3, 4, 2}, block[3] = {5, 3, 2};
    int32_t buffer = gs_work_buffer(&work, out, sizeof out);
    gs_work_call(&work, "where", grid, block, 0);
    gs_work_pass_buffer(&work, buffer);
    assert_int_equal(gs_module_run(all.plain, &work, &error), GS_OK);
    for (int i = 0; i < THREADS * BLOCKS; i++)
        assert_int_equal(out[i], 1000 * (i / THREADS) + i % THREADS);
    gs_work_free(&work);
}

TEST(shared_memory_is_of_the_block) {
    static int data[40 * 1024], sums[20 * 64], one[32];
    for (int i = 0; i < 40 * 1024; i++)
        data[i] = i;
    call_well("reverse", 40, 1024, 4096, data, sizeof data);
    for (int i = 0; i < 40 * 1024; i++)
        assert_int_equal(data[i], i / 1024 * 1024 + 1023 - i % 1024);
    call_well("outside", 20, 64, 16, sums, sizeof sums);
    for (int i = 0; i < 20 * 64; i++)
        assert_int_equal(sums[i], 63 * 64 / 2 + 7);
    call_well("declarators", 1, 32, 0, one, sizeof one);
    assert_int_equal(one[31], 2 * 120 + 100);
}

TEST(warps_work_together) {
    static unsigned out[3 * 64 * 10];
    memset(out, 0, sizeof out);
    call_well("warps", 3, 64, 0, out, sizeof out);
    for (unsigned i = 0; i < 3 * 64; i++) {
        const unsigned *mine = out + i * 10, lane = i % 32;
        const unsigned expected[] = {15,
                                     lane < 2 ? lane : lane - 2,
                                     lane % 8 < 6 ? lane + 2 : lane,
                                     lane ^ 1,
                                     0xaaaaaaaau,
                                     2,
                                     0xffu << lane / 8 * 8,
                                     31 * 16,
                                     lane < 16 ? 16 : 17,
                                     lane < 20 ? 0xfffffu : 0};
        for (int k = 0; k < 10; k++)
            assert_int_equal(mine[k], expected[k]);
    }
}

TEST(barriers_vote_without_those_that_returned) {
    int out[40 * 3] = {0};
    call_well("votes", 1, 40, 0, out, sizeof out);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(out[i * 3], i == 3 ? 0 : 19);
        assert_int_equal(out[i * 3 + 1] != 0, i != 3);
        assert_int_equal(out[i * 3 + 2], 0);
    }
}

TEST(atomics_lose_nothing) {
    int counts[7] = {0};
    float sum = 0;
    uint64_t most = 0;
    gs_work work = {0};
    gs_error error;
    const uint32_t grid[3] = {100, 1, 1}, block[3] = {64, 1, 1};
    int32_t buffers[] = {gs_work_buffer(&work, counts, sizeof counts), gs_work_buffer(&work, &sum, sizeof sum),
                         gs_work_buffer(&work, &most, sizeof most)};
    gs_work_call(&work, "atomics", grid, block, 0);
    for (int i = 0; i < 3; i++)
        gs_work_pass_buffer(&work, buffers[i]);
    assert_int_equal(gs_module_run(all.plain, &work, &error), GS_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(counts[i], 1600);
    assert_int_equal(counts[4], 5);
    assert_int_equal(counts[5], 1);
    assert_int_equal(counts[6], 6400 % 10);
    assert_true(sum == 3200.0f);
    assert_int_equal(most, 6399);
    gs_work_free(&work);
}

/* The reverse: the bits of a half as a float. */
static float half_value(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float value = exponent ? (float)(1024 + fraction) : (float)fraction;
    for (int i = exponent ? exponent : 1; i < 25; i++)
        value /= 2;
    for (int i = 25; i < exponent; i++)
        value *= 2;
    return bits & 0x8000 ? -value : value;
}

TEST(every_half_survives_and_floats_round_to_the_nearest) {
    enum { COUNT = 2 * 63488 };
    static float in[COUNT], back[COUNT];
    static uint16_t out[COUNT];
    gs_work work = {0};
    gs_error error;
    const uint32_t grid[3] = {COUNT / 1024, 1, 1}, block[3] = {1024, 1, 1};
    /* Each finite half, and the float just above the middle between it and the next. */
    for (int i = 0; i < COUNT / 2; i++) {
        uint16_t bits = (uint16_t)(i < 31744 ? i : i - 31744 + 0x8000);
        in[2 * i] = half_value(bits);
        float next = (bits & 0x7fff) == 0x7bff ? in[2 * i] : half_value((uint16_t)(bits + 1));
        in[2 * i + 1] = in[2 * i] + (next - in[2 * i]) * 0.501f;
    }
    int32_t buffers[] = {gs_work_buffer(&work, in, sizeof in), gs_work_buffer(&work, out, sizeof out),
                         gs_work_buffer(&work, back, sizeof back)};
    gs_work_call(&work, "halves", grid, block, 0);
    for (int i = 0; i < 3; i++)
        gs_work_pass_buffer(&work, buffers[i]);
    assert_int_equal(gs_module_run(all.plain, &work, &error), GS_OK);
    for (int i = 0; i < COUNT / 2; i++) {
        uint16_t bits = (uint16_t)(i < 31744 ? i : i - 31744 + 0x8000);
        assert_int_equal(out[2 * i], bits);
        assert_true(back[2 * i] == in[2 * i]);
        assert_int_equal(out[2 * i + 1], (bits & 0x7fff) == 0x7bff ? bits : bits + 1);
    }
    gs_work_free(&work);
}

TEST(matrices_multiply) {
    uint16_t a[256], b[256];
    float c[256];
    gs_work work = {0};
    gs_error error;
    const uint32_t grid[3] = {1, 1, 1}, block[3] = {32, 1, 1};
    static const uint16_t small[] = {0x0000, 0x3c00, 0x4000, 0xbc00, 0x3800}; /* 0, 1, 2, -1, 0.5 */
    for (int i = 0; i < 256; i++) {
        a[i] = small[i * 7 % 5];
        b[i] = small[i * 3 % 5];
    }
    int32_t buffers[] = {gs_work_buffer(&work, a, sizeof a), gs_work_buffer(&work, b, sizeof b),
                         gs_work_buffer(&work, c, sizeof c)};
    gs_work_call(&work, "product", grid, block, 0);
    for (int i = 0; i < 3; i++)
        gs_work_pass_buffer(&work, buffers[i]);
    assert_int_equal(gs_module_run(all.plain, &work, &error), GS_OK);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            float sum = 1;
            for (int k = 0; k < 16; k++)
                sum += half_value(a[i * 16 + k]) * half_value(b[j * 16 + k]);
            assert_true(c[i * 16 + j] == 2 * sum);
        }
    gs_work_free(&work);
}

static void fails_with(gs_module *module, const char *kernel, uint32_t blocks, uint32_t threads, int number,
                       gs_code code, const char *words) {
    int out[64] = {0};
    gs_error error = {.message = ""};
    assert_int_equal(call(module, kernel, blocks, threads, 0, out, sizeof out, number, &error), code);
    if (!strstr(error.message, words))
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
}

TEST(divergence_is_reported_with_its_places) {
    fails_with(all.plain, "half_waits", 1, 32, -1, GS_E_KERNEL,
               "16 threads, the first (0,0,0), wait in bar.sync at the PTX of host.cu:");
    fails_with(all.plain, "half_waits", 1, 32, -1, GS_E_KERNEL,
               "16 threads, the first (16,0,0), wait in a shuffle at the PTX of host.cu:");
}

TEST(a_crash_is_only_the_kernels) {
    fails_with(all.plain, "crash", 4, 32, 8, GS_E_KERNEL, "in block (2,0,0), thread (1,0,0) of crash");
}

TEST(out_of_bounds_accesses_are_found) {
    fails_with(all.sanitized, "out_of_bounds", 1, 8, 64, GS_E_KERNEL, "heap-buffer-overflow");
    fails_with(all.sanitized, "past_shared", 1, 8, 81, GS_E_KERNEL, "outside of the 352 bytes of shared memory");
    int out[64] = {0};
    gs_error error = {.message = ""};
    assert_int_equal(call(all.sanitized, "past_shared", 1, 8, 0, out, sizeof out, 0, &error), GS_OK);
    assert_int_equal(out[7], 2);
}

TEST(wrong_arguments_are_refused) {
    fails_with(all.plain, "out_of_bounds", 1, 8, -1, GS_E_USAGE, "has 2 parameters, but 1 arguments");
    fails_with(all.plain, "where", 1, 1025, -1, GS_E_USAGE, "a block has 1025 threads");
    fails_with(all.plain, "nowhere", 1, 1, -1, GS_E_USAGE, "no kernel nowhere");
}

TEST(mistakes_of_the_source_have_their_place) {
    static const char text[] = "__global__ void wrong(int *out) {\n    out[0] = missing;\n}\n";
    static const char *const kernels[] = {"wrong"};
    gs_build build = {.name = "wrong.cu", .text = text, .size = sizeof text - 1, .kernels = kernels, .kernel_count = 1};
    gs_error error;
    assert_null(gs_host_compile(all.host, &build, &error));
    assert_int_equal(error.code, GS_E_KERNEL);
    assert_string_equal(error.file, "wrong.cu");
    assert_int_equal(error.line, 2);
    assert_non_null(strstr(error.message, "missing"));
}

TEST_MAIN(set_up, tear_down)
