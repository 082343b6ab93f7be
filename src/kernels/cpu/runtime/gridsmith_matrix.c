/*
 * gridsmith_matrix.c: the matrix instructions of PTX: mma, wmma, wgmma, ldmatrix, stmatrix, movmatrix.
 *
 * Each lane of a warp passes the registers of its fragments, and the last lane to arrive computes the result for all.
 * The registers of a lane are an array of bytes, the first register first; element `j` of a lane is the j-th element in
 * it.
 *
 * mma lays out fragments as the PTX manual specifies: with g = lane / 4, t = lane % 4 and E elements in a register,
 * register r of A has the rows g + 8 (r % (m / 8)) and the columns t E to t E + E - 1 of block r / (m / 8), which has 4
 * E columns; B is the same with rows and columns exchanged; C and D have row g + 8 (j / 2) and column 2 t + j % 2.
 *
 * The threads of a warpgroup do not wait for each other at wgmma: the factors are in shared memory, so each computes
 * its own elements of the result, at once. A kernel may change the factors only after wgmma.wait_group.
 *
 * The layout of wmma is not specified. Here a lane has consecutive elements of the matrix, row by row.
 *
 * Products of small numbers are exact as doubles; they are added as doubles, and the sum is rounded once.
 */
#include "gridsmith_ptx.h"

enum { LANES = 32, MOST = 4096 };

static const int bits_of[] = {
    [PTX_M_F16] = 16, [PTX_M_BF16] = 16, [PTX_M_TF32] = 32, [PTX_M_F32] = 32, [PTX_M_F64] = 64, [PTX_M_S8] = 8,
    [PTX_M_U8] = 8,   [PTX_M_S4] = 4,    [PTX_M_U4] = 4,    [PTX_M_B1] = 1,   [PTX_M_S32] = 32};

static int bits_at(const unsigned char *data, int index, int bits) {
    int value = data[index * bits / 8] >> index * bits % 8;
    return value & ((1 << bits) - 1);
}

static double element_value(int kind, const unsigned char *data, int index) {
    int small;
    switch (kind) {
    case PTX_M_F16:
        return ptx_f16(ptx_ld_u16(data + 2 * index));
    case PTX_M_BF16:
        return ptx_bf16(ptx_ld_u16(data + 2 * index));
    case PTX_M_TF32:
        return ptx_f32(ptx_ld_u32(data + 4 * index) & 0xffffe000u);
    case PTX_M_F32:
        return ptx_f32(ptx_ld_u32(data + 4 * index));
    case PTX_M_F64:
        return ptx_f64(ptx_ld_u64(data + 8 * index));
    case PTX_M_S32:
        return ptx_ld_s32(data + 4 * index);
    case PTX_M_S8:
        return (int8_t)data[index];
    case PTX_M_U8:
        return data[index];
    case PTX_M_S4:
        small = bits_at(data, index, 4);
        return small < 8 ? small : small - 16;
    case PTX_M_U4:
        return bits_at(data, index, 4);
    default:
        return bits_at(data, index, 1);
    }
}

static void set_element(int kind, unsigned char *data, int index, double value, int saturates) {
    int64_t whole;
    switch (kind) {
    case PTX_M_F16:
        ptx_st_u16(data + 2 * index, (uint16_t)ptx_pack(value, 5, 10, PTX_RN));
        return;
    case PTX_M_F32:
        ptx_st_u32(data + 4 * index, ptx_bits_f32((float)value));
        return;
    case PTX_M_F64:
        ptx_st_u64(data + 8 * index, ptx_bits_f64(value));
        return;
    default:
        whole = (int64_t)value;
        ptx_st_u32(data + 4 * index, saturates ? ptx_clamp_s32(whole) : (uint32_t)whole);
    }
}

/* ---- products ---- */

struct fragments {
    const gs_ptx_product *product;
    unsigned char *d;
    const unsigned char *a, *b, *c;
};

/* The position in a matrix of `rows` by `columns` of element `index` of a lane. */
static int place_in_a(const gs_ptx_product *product, int lane, int index) {
    int each = product->a_kind == PTX_M_F64 ? 1 : 32 / bits_of[product->a_kind];
    int at = index / each, halves = product->m / 8;
    int row = lane / 4 + 8 * (at % halves), column = lane % 4 * each + index % each + 4 * each * (at / halves);
    return row * product->k + column;
}

static int place_in_b(const gs_ptx_product *product, int lane, int index) {
    int each = product->b_kind == PTX_M_F64 ? 1 : 32 / bits_of[product->b_kind];
    int row = lane % 4 * each + index % each + 4 * each * (index / each);
    return row * product->n + lane / 4;
}

static int place_in_c(const gs_ptx_product *product, int lane, int index) {
    return (lane / 4 + 8 * (index / 2)) * product->n + lane % 4 * 2 + index % 2;
}

typedef int place_of(const gs_ptx_product *product, int lane, int index);

static void gather_matrix(const gs_ptx_product *product, void **lanes, char which, int kind, int count, place_of *place,
                          double *matrix) {
    int each = count / LANES;
    for (int lane = 0; lane < LANES; lane++) {
        const struct fragments *mine = lanes[lane];
        const unsigned char *data = which == 'a' ? mine->a : which == 'b' ? mine->b : mine->c;
        for (int i = 0; i < each; i++)
            matrix[product->is_wmma ? lane * each + i : place(product, lane, i)] = element_value(kind, data, i);
    }
}

static double sum_of(const gs_ptx_product *product, const double *a, const double *b, double sum, int row, int column) {
    for (int i = 0; i < product->k; i++) {
        double x = a[row * product->k + i], y = b[i * product->n + column];
        if (product->a_kind == PTX_M_B1)
            sum += product->bit_operation ? x * y : x != y;
        else
            sum = product->a_kind == PTX_M_F64 ? fma(x, y, sum) : sum + x * y;
    }
    return sum;
}

static void finish_product(void **lanes) {
    double a[MOST], b[MOST], c[1024];
    for (int lane = 0; lane < LANES; lane++)
        if (!lanes[lane])
            gs_host_fail("a matrix instruction needs all 32 lanes of a warp, but lane %d has exited", lane);
    const gs_ptx_product *product = ((struct fragments *)lanes[0])->product;
    int m = product->m, n = product->n, k = product->k;
    gather_matrix(product, lanes, 'a', product->a_kind, m * k, place_in_a, a);
    gather_matrix(product, lanes, 'b', product->b_kind, k * n, place_in_b, b);
    gather_matrix(product, lanes, 'c', product->c_kind, m * n, place_in_c, c);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < m * n / LANES; i++) {
            int at = product->is_wmma ? lane * (m * n / LANES) + i : place_in_c(product, lane, i);
            set_element(product->d_kind, ((struct fragments *)lanes[lane])->d, i,
                        sum_of(product, a, b, c[at], at / n, at % n), product->saturates);
        }
}

void ptx_product(const gs_ptx_thread *t, const gs_ptx_product *product, void *d, const void *a, const void *b,
                 const void *c, int line) {
    struct fragments mine = {product, d, a, b, c};
    gs_host_warp(GS_WAIT_MATRIX, UINT32_MAX, &mine, finish_product, (gs_place){t->file, line});
}

/* ---- wgmma ---- */

enum { GROUP_DEPTH = 16, GROUP_BYTES = 2 }; /* of an element */

/* The address of the element at `row` and `k` of a matrix. Its descriptor has the first address, the distances between
   pieces of 8 x 16 bytes along the depth and along the rows, in units of 16 bytes, and the swizzle. */
static uint64_t group_offset(uint64_t matrix, int row, int k) {
    static const int widths[] = {16, 128, 64, 32}; /* the bytes of a row, by the kind of the swizzle */
    uint64_t first = (matrix & 0x3fff) << 4, along_depth = (matrix >> 16 & 0x3fff) << 4;
    uint64_t along_rows = (matrix >> 32 & 0x3fff) << 4;
    int swizzle = (int)(matrix >> 62), width = widths[swizzle], byte = k * GROUP_BYTES;
    uint64_t at = first + (uint64_t)(row / 8) * along_rows + (uint64_t)(row % 8 * width);
    if (!swizzle)
        return at + (uint64_t)(byte / width) * along_depth + (uint64_t)(byte % width);
    at += (uint64_t)byte;
    return at ^ (at >> 3 & (uint64_t)(width - 16)); /* pieces of 16 bytes are exchanged, by the number of the row */
}

static void load_row(const gs_ptx_thread *t, int kind, uint64_t matrix, int row, double *numbers, int line) {
    for (int k = 0; k < GROUP_DEPTH; k++)
        numbers[k] = element_value(kind, ptx_shared_range(t, group_offset(matrix, row, k), GROUP_BYTES, line), 0);
}

void ptx_wgmma(const gs_ptx_thread *t, const gs_ptx_group_product *product, void *d, uint64_t a, uint64_t b, int keeps,
               int line) {
    int first = (int)(t->warp % 4 * 16 + t->lane / 4);
    double rows[2][GROUP_DEPTH], column[GROUP_DEPTH];
    for (int half = 0; half < 2; half++)
        load_row(t, product->kind, a, first + 8 * half, rows[half], line);
    for (int i = 0; i < product->n / 4; i++) { /* two columns of every eight */
        load_row(t, product->kind, b, i / 2 * 8 + (int)(t->lane % 4) * 2 + i % 2, column, line);
        for (int half = 0; half < 2; half++) {
            int at = i / 2 * 4 + half * 2 + i % 2;
            double sum = 0;
            for (int k = 0; k < GROUP_DEPTH; k++)
                sum += rows[half][k] * column[k];
            sum *= product->a_scale * product->b_scale;
            set_element(PTX_M_F32, d, at, keeps ? sum + element_value(PTX_M_F32, d, at) : sum, 0);
        }
    }
}

/* ---- wmma.load and wmma.store ---- */

/* The offset of element `index` of this lane, in elements. */
static size_t offset_of(const gs_ptx_thread *t, const gs_ptx_fragment *fragment, int index, uint32_t stride) {
    int number = (int)t->lane * (fragment->rows * fragment->columns / LANES) + index;
    int row = number / fragment->columns, column = number % fragment->columns;
    return fragment->is_column ? (size_t)column * stride + (size_t)row : (size_t)row * stride + (size_t)column;
}

/* Shared memory is checked, other memory is not. */
static void check_range(const gs_ptx_thread *t, const unsigned char *first, const unsigned char *last, size_t bytes) {
    uint64_t from = (uint64_t)(uintptr_t)first, to = (uint64_t)(uintptr_t)last;
    if (ptx_isspacep_shared(t, from))
        ptx_shared_range(t, ptx_offset_shared(t, to), bytes, 0);
}

static void copy_bits(unsigned char *to, int to_index, const unsigned char *from, size_t from_index, int bits) {
    if (bits >= 8) {
        size_t bytes = (size_t)bits / 8;
        memcpy(to + (size_t)to_index * bytes, from + from_index * bytes, bytes);
        return;
    }
    int value = from[from_index * (size_t)bits / 8] >> from_index * (size_t)bits % 8 & ((1 << bits) - 1);
    unsigned char *at = to + to_index * bits / 8;
    int shift = to_index * bits % 8;
    *at = (unsigned char)((*at & ~(((1 << bits) - 1) << shift)) | value << shift);
}

void ptx_wmma_load(const gs_ptx_thread *t, const gs_ptx_fragment *fragment, void *registers, const unsigned char *from,
                   uint32_t stride) {
    int bits = bits_of[fragment->kind];
    for (int i = 0; i < fragment->rows * fragment->columns / LANES; i++) {
        size_t at = offset_of(t, fragment, i, stride);
        check_range(t, from, from + at * (size_t)bits / 8, (size_t)(bits + 7) / 8);
        copy_bits(registers, i, from, at, bits);
    }
}

void ptx_wmma_store(const gs_ptx_thread *t, const gs_ptx_fragment *fragment, const void *registers, unsigned char *to,
                    uint32_t stride) {
    size_t bytes = (size_t)bits_of[fragment->kind] / 8;
    for (int i = 0; i < fragment->rows * fragment->columns / LANES; i++) {
        size_t at = offset_of(t, fragment, i, stride);
        check_range(t, to, to + at * bytes, bytes);
        memcpy(to + at * bytes, (const unsigned char *)registers + (size_t)i * bytes, bytes);
    }
}

/* ---- ldmatrix, stmatrix, movmatrix: matrices of 8 rows of 8 elements of 16 bits ---- */

struct rows {
    uint32_t *registers;
    unsigned char *row; /* of 16 bytes */
    int count, is_transposed, is_store;
};

/* Element `half` of register `number` of a lane. */
static unsigned char *element_in(void **lanes, int number, int lane, int half, int is_transposed) {
    int row = lane / 4, column = lane % 4 * 2 + half;
    int from = is_transposed ? column : row, at = is_transposed ? row : column;
    const struct rows *owner = lanes[number * 8 + from];
    return owner->row + 2 * at;
}

static void finish_rows(void **lanes) {
    for (int lane = 0; lane < LANES; lane++)
        if (!lanes[lane])
            gs_host_fail("a matrix instruction needs all 32 lanes of a warp, but lane %d has exited", lane);
    for (int lane = 0; lane < LANES; lane++) {
        const struct rows *mine = lanes[lane];
        for (int i = 0; i < mine->count * 2; i++) {
            unsigned char *memory = element_in(lanes, i / 2, lane, i % 2, mine->is_transposed);
            unsigned char *own = (unsigned char *)mine->registers + 2 * i;
            memcpy(mine->is_store ? memory : own, mine->is_store ? own : memory, 2);
        }
    }
}

void ptx_ldmatrix(const gs_ptx_thread *t, uint32_t *registers, int count, int is_transposed, const unsigned char *row,
                  int line) {
    struct rows mine = {registers, (unsigned char *)(uintptr_t)row, count, is_transposed, 0};
    gs_host_warp(GS_WAIT_MATRIX, UINT32_MAX, &mine, finish_rows, (gs_place){t->file, line});
}

void ptx_stmatrix(const gs_ptx_thread *t, const uint32_t *registers, int count, int is_transposed, unsigned char *row,
                  int line) {
    struct rows mine = {(uint32_t *)(uintptr_t)registers, row, count, is_transposed, 1};
    gs_host_warp(GS_WAIT_MATRIX, UINT32_MAX, &mine, finish_rows, (gs_place){t->file, line});
}

static void finish_movmatrix(void **lanes) {
    uint16_t matrix[8][8];
    for (int lane = 0; lane < LANES; lane++) {
        if (!lanes[lane])
            gs_host_fail("a matrix instruction needs all 32 lanes of a warp, but lane %d has exited", lane);
        for (int half = 0; half < 2; half++)
            matrix[lane / 4][lane % 4 * 2 + half] = (uint16_t)(*(uint32_t *)lanes[lane] >> 16 * half);
    }
    for (int lane = 0; lane < LANES; lane++)
        *(uint32_t *)lanes[lane] =
            (uint32_t)matrix[lane % 4 * 2][lane / 4] | (uint32_t)matrix[lane % 4 * 2 + 1][lane / 4] << 16;
}

uint32_t ptx_movmatrix(const gs_ptx_thread *t, uint32_t value, int line) {
    gs_host_warp(GS_WAIT_MATRIX, UINT32_MAX, &value, finish_movmatrix, (gs_place){t->file, line});
    return value;
}
