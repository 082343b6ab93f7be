/*
 * product.c: a matrix product as a source: the document that names it, and a kernel that computes it without cuBLAS.
 *
 * A client of the daemon sends the document where others send code. On a GPU cuBLAS computes the product; on the CPU
 * the kernel does, plainly and slowly. It is PTX, because every source for the CPU goes through PTX.
 */
#include "cuda.h"

#include <string.h>

#define SCHEMA "gridsmith.product/1"

enum { MOST_SIDE = 1 << 24 };
#define MOST_BYTES ((uint64_t)4 << 30) /* of one matrix */

bool gs_product_is(const char *text, size_t size) {
    size_t at = 0;
    while (at < size && strchr(" \t\r\n", text[at]) && text[at])
        at++;
    return at < size && text[at] == '{';
}

uint64_t gs_product_bytes(const gs_product *product, size_t matrix) {
    const uint64_t rows = (uint64_t)product->rows, columns = (uint64_t)product->columns,
                   depth = (uint64_t)product->depth;
    return matrix == 0 ? rows * depth * 2 : matrix == 1 ? depth * columns * 2 : rows * columns * 4;
}

/* ---- the zoo's tgemm(a, b, c, rows, columns, depth) ---- */

bool gs_product_is_tgemm(const gs_build *build) {
    return strcmp(build->name, "tgemm.ptx") == 0;
}

gs_product gs_product_of_tgemm(const gs_app_launch *launch) {
    int32_t sides[3];
    for (size_t i = 0; i < GS_COUNT(sides); i++)
        memcpy(&sides[i], launch->arguments[GS_PRODUCT_MATRICES + i].value, sizeof *sides);
    return (gs_product){.rows = sides[0], .columns = sides[1], .depth = sides[2]};
}

/* ---- the document ---- */

static gs_code read_fields(const gs_json *json, gs_product *product, gs_error *error) {
    static const gs_field fields[] = {
        {"schema", GS_FIELD_OTHER, true, 0, 0, 0},
        {"rows", GS_FIELD_INT32, true, offsetof(gs_product, rows), 1, MOST_SIDE},
        {"columns", GS_FIELD_INT32, true, offsetof(gs_product, columns), 1, MOST_SIDE},
        {"depth", GS_FIELD_INT32, true, offsetof(gs_product, depth), 1, MOST_SIDE},
        {"b_transposed", GS_FIELD_BOOL, false, offsetof(gs_product, is_b_transposed), 0, 0},
        {"bfloat16", GS_FIELD_BOOL, false, offsetof(gs_product, is_bfloat16), 0, 0},
    };
    gs_step root = gs_step_root(json);
    gs_code code = gs_json_schema(json, &root, SCHEMA, error);
    if (code == GS_OK)
        code = gs_json_object(json, &root, fields, GS_COUNT(fields), product, error);
    for (size_t i = 0; i < GS_PRODUCT_MATRICES && code == GS_OK; i++)
        if (gs_product_bytes(product, i) > MOST_BYTES)
            code =
                gs_json_fail(json, &root, false, error, "%c has %llu bytes: a matrix may have at most %llu", "ABC"[i],
                             (unsigned long long)gs_product_bytes(product, i), (unsigned long long)MOST_BYTES);
    return code;
}

gs_code gs_product_read(const char *name, const char *text, size_t size, gs_product *product, gs_error *error) {
    gs_json json = {0};
    gs_input *input = gs_input_memory(name, text, size, error);
    gs_code code = input ? gs_json_next(input, &json, error) : error->code;
    *product = (gs_product){0};
    if (code == GS_OK)
        code = json.root ? read_fields(&json, product, error) : gs_fail(error, GS_E_FORMAT, "%s is empty", name);
    if (code == GS_OK)
        code = gs_json_end(input, error);
    gs_json_free(&json);
    gs_input_close(input);
    return code;
}

void gs_product_write(const gs_product *product, gs_text *text) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, SCHEMA);
    gs_write_int(&writer, "rows", product->rows);
    gs_write_int(&writer, "columns", product->columns);
    gs_write_int(&writer, "depth", product->depth);
    gs_write_bool(&writer, "b_transposed", product->is_b_transposed);
    gs_write_bool(&writer, "bfloat16", product->is_bfloat16);
    gs_write_finish(&writer);
}

/* ---- the kernel ---- */

/* Numbers of C are dealt to the threads of all blocks in turn, so any grid computes all of them. */
static const char ptx_of_dealing[] =
    ".version 7.8\n"
    ".target sm_80\n"
    ".address_size 64\n"
    "\n"
    ".visible .entry " GS_PRODUCT_KERNEL "(.param .u64 product_a, .param .u64 product_b, .param .u64 product_c)\n"
    "{\n"
    "    .reg .pred %past, %more;\n"
    "    .reg .b16 %left, %right, %zero;\n"
    "    .reg .b32 %x, %y, %z, %xs, %ys, %zs, %bits;\n"
    "    .reg .f32 %sum, %l, %r;\n"
    "    .reg .b64 %at, %step, %next, %a, %b, %c, %row, %column, %end, %to;\n"
    "\n"
    "    mov.u32 %x, %ctaid.x;\n"
    "    mov.u32 %y, %ctaid.y;\n"
    "    mov.u32 %z, %ctaid.z;\n"
    "    mov.u32 %xs, %nctaid.x;\n"
    "    mov.u32 %ys, %nctaid.y;\n"
    "    mov.u32 %zs, %nctaid.z;\n"
    "    mad.lo.u32 %y, %z, %ys, %y;\n"
    "    mul.wide.u32 %at, %y, %xs;\n"
    "    cvt.u64.u32 %next, %x;\n"
    "    add.u64 %at, %at, %next;\n"
    "    mul.lo.u32 %ys, %ys, %zs;\n"
    "    mul.wide.u32 %step, %ys, %xs;\n"
    "    mov.u32 %x, %tid.x;\n"
    "    mov.u32 %y, %tid.y;\n"
    "    mov.u32 %z, %tid.z;\n"
    "    mov.u32 %xs, %ntid.x;\n"
    "    mov.u32 %ys, %ntid.y;\n"
    "    mov.u32 %zs, %ntid.z;\n"
    "    mad.lo.u32 %y, %z, %ys, %y;\n"
    "    mad.lo.u32 %x, %y, %xs, %x;\n"
    "    mul.lo.u32 %xs, %xs, %ys;\n"
    "    mul.lo.u32 %xs, %xs, %zs;\n"
    "    cvt.u64.u32 %next, %xs;\n"
    "    mul.lo.u64 %step, %step, %next;\n"
    "    mul.lo.u64 %at, %at, %next;\n"
    "    cvt.u64.u32 %next, %x;\n"
    "    add.u64 %at, %at, %next;\n"
    "    ld.param.u64 %a, [product_a];\n"
    "    ld.param.u64 %b, [product_b];\n"
    "    ld.param.u64 %c, [product_c];\n"
    "    mov.u16 %zero, 0;\n";

static const char ptx_of_half[] = "    cvt.f32.f16 %l, %left;\n"
                                  "    cvt.f32.f16 %r, %right;\n";

/* The upper half of a float. */
static const char ptx_of_bfloat16[] = "    mov.b32 %bits, {%zero, %left};\n"
                                      "    mov.b32 %l, %bits;\n"
                                      "    mov.b32 %bits, {%zero, %right};\n"
                                      "    mov.b32 %r, %bits;\n";

void gs_product_ptx(const gs_product *product, gs_text *text) {
    const unsigned long long columns = (unsigned long long)product->columns,
                             row_bytes = (unsigned long long)product->depth * 2, column_bytes = columns * 2;
    gs_text_put(text, ptx_of_dealing, strlen(ptx_of_dealing));
    gs_text_add(text,
                "number:\n"
                "    setp.ge.u64 %%past, %%at, %llu;\n"
                "    @%%past bra done;\n"
                "    div.u64 %%row, %%at, %llu;\n"
                "    rem.u64 %%column, %%at, %llu;\n"
                "    mad.lo.u64 %%row, %%row, %llu, %%a;\n"
                "    add.u64 %%end, %%row, %llu;\n"
                "    mad.lo.u64 %%column, %%column, %llu, %%b;\n"
                "    mov.f32 %%sum, 0f00000000;\n"
                "step:\n"
                "    ld.global.u16 %%left, [%%row];\n"
                "    ld.global.u16 %%right, [%%column];\n",
                (unsigned long long)product->rows * columns, columns, columns, row_bytes, row_bytes,
                product->is_b_transposed ? row_bytes : 2);
    gs_text_add(text, "%s", product->is_bfloat16 ? ptx_of_bfloat16 : ptx_of_half);
    gs_text_add(text,
                "    fma.rn.f32 %%sum, %%l, %%r, %%sum;\n"
                "    add.u64 %%row, %%row, 2;\n"
                "    add.u64 %%column, %%column, %llu;\n"
                "    setp.lt.u64 %%more, %%row, %%end;\n"
                "    @%%more bra step;\n"
                "    mad.lo.u64 %%to, %%at, 4, %%c;\n"
                "    st.global.f32 [%%to], %%sum;\n"
                "    add.u64 %%at, %%at, %%step;\n"
                "    bra number;\n"
                "done:\n"
                "    ret;\n"
                "}\n",
                product->is_b_transposed ? 2 : column_bytes);
}
