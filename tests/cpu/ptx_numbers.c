/*
 * ptx_numbers.c: runs single instructions of PTX on many numbers. See ptx_numbers.h.
 */
#include "ptx_numbers.h"

#include "kernels/cpu/cpu.h"
#include "test.h"

#include <stdlib.h>

static const uint64_t numbers[PTX_NUMBERS] = {
    0,
    1,
    2,
    3,
    7,
    16,
    31,
    32,
    33,
    63,
    64,
    100,
    255,
    0x100000000u,
    0xffffffffu,
    UINT64_MAX,
    0x7fffffffu,
    0x80000000u,         /* -0 of f32 */
    0x8000000000000000u, /* -0 of f64 */
    0x7fffffffffffffffu,
    0x123456789abcdef0u,
    0xfedcba9876543210u,
    0x8000,
    0x7fff,
    0x0f0f0f0f33cc55aau,
    0x3f800000u, /* floats: 1, 1 + 2^-23, -1.5, 2^-24, the least, -the largest subnormal, the largest, infinite, NaN */
    0x3f800001u,
    0xbfc00000u,
    0x33800000u,
    0x00000001u,
    0x807fffffu,
    0x7f7fffffu,
    0x7f800000u,
    0xff800000u,
    0x7fc00001u,
    0x4b800001u,         /* 16777218 */
    0x4f000000u,         /* 2^31 */
    0xc0490fdbu,         /* -pi */
    0x3f000000u,         /* 0.5 */
    0x40200000u,         /* 2.5 */
    0x3ff0000000000000u, /* doubles: 1, -2.5, 0.1, 1e300, the least, infinite, NaN, 2^32 - 0.5, -2^31 - 0.5 */
    0xc004000000000000u,
    0x3fb999999999999au,
    0x7e37e43c8800759cu,
    0x0000000000000001u,
    0x7ff0000000000000u,
    0x7ff8000000000001u,
    0x41effffffff00000u,
    0xc1e0000000100000u,
    0x3c00, /* halves: 1, -2, the largest, the least, infinite, 1 + 2^-10 */
    0xc000,
    0x7bff,
    0x0001,
    0x7c00,
    0x3c01,
    0x7f800001u, /* other NaNs: of f32, f64, f16 */
    0xffc00123u,
    0xff800001u,
    0x7ff0000000000001u,
    0xfff8000000000abcu,
    0x7ff4000012345678u,
    0x7e01,
    0xfe00,
    0x7c01,
    0x3dcccccdu, /* floats: 0.1, 100.25, -7.5, 0.001, more than 2^126, a subnormal */
    0x42c88000u,
    0xc0f00000u,
    0x3a83126fu,
    0x7e800001u,
    0x00212345u,
};

enum { BLOCK = 128 };

void ptx_numbers_at(size_t thread, uint64_t three[3]) {
    three[0] = numbers[thread / PTX_NUMBERS];
    three[1] = numbers[thread % PTX_NUMBERS];
    three[2] = numbers[(thread * 7 + thread / PTX_NUMBERS * 3) % PTX_NUMBERS];
}

static void put_store(gs_text *text, char width, size_t row) {
    switch (width) {
    case 'p':
        gs_text_add(text, "    selp.u64 D, 1, 0, p;\n");
        break;
    case 'h':
        gs_text_add(text, "    cvt.u64.u16 D, h;\n");
        break;
    case 'w':
        gs_text_add(text, "    cvt.u64.u32 D, w;\n");
        break;
    default:
        break;
    }
    gs_text_add(text, "    st.global.u64 [out + %zu], D;\n", row * PTX_THREADS * sizeof(uint64_t));
}

static void put_kernel(gs_text *text, const struct ptx_row *rows, size_t count) {
    gs_text_add(text,
                ".version 8.0\n.target sm_90\n.address_size 64\n\n.visible .entry all(.param .u64 from, .param .u64 "
                "to) {\n    .reg .pred p, q, o_;\n    .reg .b16 h, ha, hb, hc;\n    .reg .b32 w, a, b, c, i, j, k, n;\n"
                "    .reg .b64 D, A, B, C, in, out, at;\n");
    gs_text_add(text,
                "    ld.param.u64 in, [from];\n    ld.param.u64 out, [to];\n    mov.u32 i, %%ctaid.x;\n    mov.u32 j, "
                "%%tid.x;\n    mov.u32 n, %%ntid.x;\n    mad.lo.s32 i, i, n, j;\n    setp.ge.u32 p, i, %d;\n    @p "
                "exit;\n",
                (int)PTX_THREADS);
    gs_text_add(
        text,
        "    mul.wide.u32 at, i, 24;\n    add.s64 in, in, at;\n    mul.wide.u32 at, i, 8;\n    add.s64 out, "
        "out, at;\n    ld.global.u64 A, [in];\n    ld.global.u64 B, [in + 8];\n    ld.global.u64 C, [in + 16];\n");
    gs_text_add(text,
                "    cvt.u32.u64 a, A;\n    cvt.u32.u64 b, B;\n    cvt.u32.u64 c, C;\n    cvt.u16.u64 ha, A;\n    "
                "cvt.u16.u64 hb, B;\n    cvt.u16.u64 hc, C;\n    and.b32 k, c, 1;\n    setp.ne.s32 q, k, 0;\n");
    for (size_t i = 0; i < count; i++) {
        gs_text_add(text, "    %s\n", rows[i].code);
        put_store(text, rows[i].width, i);
    }
    gs_text_add(text, "    ret;\n}\n");
}

static void run(gs_executor *executor, const gs_text *text, uint64_t *in, uint64_t *out, size_t count) {
    static const char *const kernels[] = {"all"};
    const uint32_t grid[3] = {(PTX_THREADS + BLOCK - 1) / BLOCK, 1, 1}, block[3] = {BLOCK, 1, 1};
    gs_error error = {.message = ""};
    gs_work work = {.seconds = 300};
    gs_build build = {
        .name = "all.ptx", .text = text->data, .size = text->count, .kernels = kernels, .kernel_count = 1};
    void *module = executor->ops->compile(executor, &build, &error);
    if (!module)
        fail_msg("%ld: %s", error.line, error.message);
    int32_t first = gs_work_buffer(&work, in, 3 * PTX_THREADS * sizeof *in);
    int32_t second = gs_work_buffer(&work, out, count * PTX_THREADS * sizeof *out);
    gs_work_call(&work, "all", grid, block, 0);
    gs_work_pass_buffer(&work, first);
    gs_work_pass_buffer(&work, second);
    gs_code code = executor->ops->run(module, &work, &error);
    assert_string_equal(error.message, "");
    assert_int_equal(code, GS_OK);
    gs_work_free(&work);
}

uint64_t *ptx_numbers_run(const char *on, const struct ptx_row *rows, size_t count) {
    static uint64_t in[PTX_THREADS][3];
    gs_text text = {0};
    gs_error error;
    uint64_t *out = calloc(count * PTX_THREADS, sizeof *out);
    gs_executor *executor = gs_executor_open(on, &error);
    if (!executor)
        fail_msg("%s", error.message);
    assert_non_null(out);
    for (size_t i = 0; i < PTX_THREADS; i++)
        ptx_numbers_at(i, in[i]);
    put_kernel(&text, rows, count);
    run(executor, &text, in[0], out, count);
    gs_text_free(&text);
    gs_executor_close(executor);
    return out;
}
