/*
 * test_wgmma_on_cpu.c: wgmma on the CPU: products of a warpgroup whose factors are in shared memory, without a
 * swizzle and with each of the three, compared with plain sums. The layouts here are written down from the tables of
 * the PTX manual, for a row and a column at a time; src/kernels/cpu/runtime/gridsmith_matrix.c computes addresses by
 * shifting bits.
 */
#include "test.h"

#include "kernels/cpu/cpu.h"

#include "kernels/cpu/half.h"
#include <string.h>

enum { ROWS = 64, MOST_COLUMNS = 16, DEPTH = 16, B_AT = 16384, BYTES = 24576, THREADS = 128 };

/* Copies the image to shared memory, and multiplies it. `high` is the descriptor without its address. */
static const char head[] = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                           ".extern .shared .align 1024 .b8 memory[];\n";
static const char body[] =
    "(.param .u64 image, .param .u64 out, .param .u64 high, .param .u32 keeps) {\n"
    "\t.reg .pred %p, %keeps;\n\t.reg .b32 %t, %i, %s, %v;\n\t.reg .b64 %image, %out, %a, %b, %h;\n"
    "\t.reg .f32 %d<8>;\n"
    "\tmov.u32 %t, %tid.x;\n\tld.param.u64 %image, [image];\n\tld.param.u64 %out, [out];\n"
    "\tld.param.u64 %h, [high];\n\tld.param.u32 %i, [keeps];\n\tsetp.ne.u32 %keeps, %i, 0;\n"
    "\tmov.f32 %d0, 0f42C80000;\n\tmov.f32 %d1, %d0;\n\tmov.f32 %d2, %d0;\n\tmov.f32 %d3, %d0;\n"
    "\tmov.f32 %d4, %d0;\n\tmov.f32 %d5, %d0;\n\tmov.f32 %d6, %d0;\n\tmov.f32 %d7, %d0;\n"
    "\tmul.lo.u32 %i, %t, 4;\n"
    "$copy:\n"
    "\tcvt.u64.u32 %a, %i;\n\tadd.u64 %a, %a, %image;\n\tld.global.u32 %v, [%a];\n"
    "\tmov.u32 %s, memory;\n\tadd.u32 %s, %s, %i;\n\tst.shared.u32 [%s], %v;\n"
    "\tadd.u32 %i, %i, 512;\n\tsetp.lt.u32 %p, %i, 24576;\n\t@%p bra $copy;\n"
    "\tfence.proxy.async;\n\tbar.sync 0;\n"
    "\tmov.u32 %s, memory;\n\tshr.u32 %s, %s, 4;\n\tcvt.u64.u32 %a, %s;\n\tor.b64 %a, %a, %h;\n"
    "\tadd.u64 %b, %a, 1024;\n"
    "\twgmma.fence.sync.aligned;\n";
static const char tail[] = "\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;\n"
                           "\tmul.wide.u32 %a, %t, 32;\n\tadd.u64 %out, %out, %a;\n"
                           "\tst.global.v4.f32 [%out], {%d0, %d1, %d2, %d3};\n"
                           "\tst.global.v4.f32 [%out + 16], {%d4, %d5, %d6, %d7};\n\tret;\n}\n";

static const struct kind {
    const char *kernel, *product;
    int columns, sign;
    bool is_half;
} kinds[] = {{"bfloats",
              "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7}, %a, %b, "
              "%keeps, 1, "
              "1, 0, 0;",
              16, 1, false},
             {"halves",
              "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, %a, %b, %keeps, -1, 1, 0, 0;", 8,
              -1, true}};

static struct {
    gs_host *host;
    gs_module *module;
} all;

static gs_text text_of(const char *product) {
    gs_text text = {0};
    gs_text_add(&text, "%s", head);
    for (size_t i = 0; i < GS_COUNT(kinds); i++)
        gs_text_add(&text, ".visible .entry %s%s\t%s\n%s", kinds[i].kernel, body, product ? product : kinds[i].product,
                    tail);
    return text;
}

static int set_up(void **state) {
    gs_error error;
    gs_text text = text_of(NULL);
    gs_build build = {.name = "group.ptx", .text = text.data, .size = text.count};
    (void)state;
    all.host = gs_host_open(&error);
    assert_non_null(all.host);
    all.module = gs_host_compile(all.host, &build, &error);
    if (!all.module)
        fail_msg("%s", error.message);
    gs_text_free(&text);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    gs_host_close(all.host);
    return 0;
}

/* The offset of the element by the manual: rows of `width` bytes, whose pieces of 16 bytes are exchanged; or, without a
   swizzle, blocks of 8 rows of 16 bytes. */
static size_t place_of(int width, int row, int k) {
    if (width == 0)
        return (size_t)(row / 8 * 256 + k / 8 * 128 + row % 8 * 16 + k % 8 * 2);
    int piece = k / 8 ^ row * width / 128 % (width / 16);
    return (size_t)(row * width + piece * 16 + k % 8 * 2);
}

static double number_of(int row, int k, int seed) {
    return (double)((row * 37 + k * 11 + seed * 5) % 33 - 16) / 8;
}

static void fill(const struct kind *kind, int width, unsigned char *image) {
    memset(image, 0xff, BYTES); /* NaN */
    for (int row = 0; row < ROWS; row++)
        for (int k = 0; k < DEPTH; k++)
            for (int is_b = 0; is_b < 2; is_b++) {
                float number = (float)number_of(row, k, is_b);
                uint16_t bits = kind->is_half ? gs_half_of(number) : gs_bfloat_of(number);
                if (!is_b || row < kind->columns)
                    memcpy(image + (is_b ? B_AT : 0) + place_of(width, row, k), &bits, sizeof bits);
            }
}

static void check(const struct kind *kind, const float *out, bool keeps) {
    for (int thread = 0; thread < THREADS; thread++)
        for (int i = 0; i < kind->columns / 2; i++) {
            int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + thread % 4 * 2 + i % 2;
            double sum = 0;
            for (int k = 0; k < DEPTH; k++)
                sum += number_of(row, k, 0) * number_of(column, k, 1);
            assert_true(out[thread * 8 + i] == (float)(kind->sign * sum + (keeps ? 100 : 0)));
        }
}

TEST(every_swizzle_is_read) {
    static const struct {
        int width, swizzle;
        uint64_t along_depth, along_rows;
    } layouts[] = {{0, 0, 128, 256}, {128, 1, 16, 1024}, {64, 2, 16, 512}, {32, 3, 16, 256}};
    static unsigned char image[BYTES];
    static float out[THREADS * 8];
    for (size_t i = 0; i < GS_COUNT(kinds); i++)
        for (size_t k = 0; k < GS_COUNT(layouts); k++)
            for (uint32_t keeps = 0; keeps < 2; keeps++) {
                uint64_t high = layouts[k].along_depth >> 4 << 16 | layouts[k].along_rows >> 4 << 32 |
                                (uint64_t)layouts[k].swizzle << 62;
                gs_work work = {.seconds = 60, .shuffled = keeps, .seed = k};
                gs_error error = {.message = ""};
                fill(&kinds[i], layouts[k].width, image);
                gs_work_call(&work, kinds[i].kernel, (const uint32_t[3]){1, 1, 1}, (const uint32_t[3]){THREADS, 1, 1},
                             BYTES);
                gs_work_pass_buffer(&work, gs_work_buffer(&work, image, sizeof image));
                gs_work_pass_buffer(&work, gs_work_buffer(&work, out, sizeof out));
                gs_work_pass(&work, &high, sizeof high);
                gs_work_pass(&work, &keeps, sizeof keeps);
                gs_module_run(all.module, &work, &error);
                assert_string_equal(error.message, "");
                check(&kinds[i], out, keeps);
                gs_work_free(&work);
            }
}

/* Factors in registers, transposed ones and other types. */
TEST(other_products_are_refused) {
#define N8 "wgmma.mma_async.sync.aligned.m64n8"
    static const char *const products[] = {
        N8 "k16.f32.bf16.bf16 {%d0, %d1, %d2, %d3}, {%t, %i, %s, %v}, %b, %keeps, 1, 1, 0;",
        N8 "k16.f32.bf16.bf16 {%d0, %d1, %d2, %d3}, %a, %b, %keeps, 1, 1, 0, 1;",
        N8 "k8.f32.tf32.tf32 {%d0, %d1, %d2, %d3}, %a, %b, %keeps, 1, 1;"};
    (void)state;
    for (size_t i = 0; i < GS_COUNT(products); i++) {
        gs_text text = text_of(products[i]), c = {0};
        gs_build build = {.name = "group.ptx", .text = text.data, .size = text.count};
        gs_error error;
        assert_int_equal(gs_host_translate_ptx(&build, &c, &error), GS_E_UNSUPPORTED);
        gs_text_free(&text);
        gs_text_free(&c);
    }
}

/* Products may be on the way when a block returns; the next block must not begin before they are done. */
TEST(forms_wait_for_products) {
    static const enum gs_form forms[] = {GS_FORM_PERSISTENT, GS_FORM_CONFINED};
    gs_text text = text_of(NULL);
    gs_ptx_module module;
    gs_error error;
    assert_int_equal(gs_ptx_read(&module, "group.ptx", text.data, text.count, &error), GS_OK);
    for (size_t i = 0; i < GS_COUNT(forms); i++) {
        gs_ptx_options options = {.form = forms[i]};
        gs_text form = {0};
        uint32_t function = gs_ptx_find_entry(&module, "bfloats");
        assert_int_equal(gs_ptx_reshape(&module, function, &options, &form, NULL, &error), GS_OK);
        const char *end = strstr(form.data, "$gs_next:");
        assert_non_null(end);
        assert_non_null(strstr(end, "wgmma.wait_group.sync.aligned 0;"));
        gs_text_free(&form);
    }
    gs_ptx_free(&module);
    gs_text_free(&text);
}

TEST_MAIN(set_up, tear_down)
