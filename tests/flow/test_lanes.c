/*
 * test_lanes.c: how many transactions a store makes, against random addresses that are computed here, lane by lane.
 *
 * A kernel computes random indexes from numbers of threads and blocks, numbers and parameters, some of them under a
 * predicate or in a loop, and stores at each of them. For every warp of some blocks the sectors of 32 bytes, and the
 * passes over the banks of shared memory, are counted. The walk must not say less.
 */
#include "test.h"

#include "ignored_parts.h"
#include "kernels/cuda/cuda.h"
#include "kernels/flow/flow.h"

#include <stdlib.h>

enum { VALUES = 6, STEPS = 14, STORES = 6, LANES = 32, MOST_LINES = 4000, PARAMETERS = 4 };

struct store {
    uint32_t line;
    int bytes;
    bool is_shared;
    int64_t most; /* transactions */
};

/* A kernel, and what a warp has in its registers. */
struct kernel {
    gs_text text;
    uint32_t line;
    gs_random random;
    int64_t block[3];
    uint32_t parameters[PARAMETERS];
    int warps;                         /* of all blocks that are tried */
    uint32_t (*values)[VALUES][LANES]; /* by warp */
    bool (*is_in)[LANES];              /* under the predicate, by warp */
    struct store stores[STORES * 3];
    int store_count;
};

static uint32_t draw(struct kernel *kernel, uint32_t below) {
    return (uint32_t)(gs_random_next(&kernel->random) % below);
}

__attribute__((format(printf, 2, 3))) static void put_line(struct kernel *kernel, const char *format, ...) {
    char line[300];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    gs_text_add(&kernel->text, "%s\n", line);
    kernel->line++;
}

/* ---- a step: an instruction, and what it does ---- */

static uint32_t thread_of(const struct kernel *kernel, int warp, int lane, int axis) {
    int64_t in_block = kernel->block[0] * kernel->block[1] * kernel->block[2] / LANES;
    int64_t number = warp % in_block * LANES + lane;
    if (axis == 3)
        return (uint32_t)(warp / in_block);
    return (uint32_t)(axis == 0   ? number % kernel->block[0]
                      : axis == 1 ? number / kernel->block[0] % kernel->block[1]
                                  : number / (kernel->block[0] * kernel->block[1]));
}

static void step_leaf(struct kernel *kernel, int to) {
    static const char *const names[] = {"%tid.x", "%tid.y", "%tid.z", "%ctaid.x"};
    int axis = (int)draw(kernel, 6), parameter = (int)draw(kernel, PARAMETERS);
    uint32_t number = draw(kernel, 8) ? draw(kernel, 40) : (uint32_t)gs_random_next(&kernel->random);
    if (axis < 4)
        put_line(kernel, "mov.u32 %%x%d, %s;", to, names[axis]);
    else if (axis == 4)
        put_line(kernel, "ld.param.u32 %%x%d, [n%d];", to, parameter);
    else
        put_line(kernel, "mov.u32 %%x%d, %u;", to, number);
    for (int warp = 0; warp < kernel->warps; warp++)
        for (int lane = 0; lane < LANES; lane++)
            kernel->values[warp][to][lane] = axis < 4    ? thread_of(kernel, warp, lane, axis)
                                             : axis == 4 ? kernel->parameters[parameter]
                                                         : number;
}

static uint32_t apply(int operation, uint32_t a, uint32_t b, uint32_t number) {
    switch (operation) {
    case 0:
        return a + b;
    case 1:
        return a - b;
    case 2:
        return a * number + b;
    case 3:
        return a << number % 6;
    case 4:
        return a + number;
    case 5:
        return a & number;
    case 6:
        return a >> number % 6;
    case 7:
        return a * b;
    case 8:
        return (int32_t)a < (int32_t)b ? a : b;
    case 9:
        return a > b ? a : b;
    default: /* an addition and the smaller one, which may be one instruction */
        return (int32_t)(a + number) < (int32_t)b ? a + number : b;
    }
}

/* One of two values, in lanes of the predicate the first. */
static void step_selection(struct kernel *kernel, int to) {
    int a = (int)draw(kernel, VALUES), b = (int)draw(kernel, VALUES);
    put_line(kernel, "selp.b32 %%x%d, %%x%d, %%x%d, %%p;", to, a, b);
    for (int warp = 0; warp < kernel->warps; warp++)
        for (int lane = 0; lane < LANES; lane++) {
            uint32_t(*values)[LANES] = kernel->values[warp];
            values[to][lane] = kernel->is_in[warp][lane] ? values[a][lane] : values[b][lane];
        }
}

/* `guard`: only in lanes of the predicate. */
static void step_operation(struct kernel *kernel, int to, bool guard) {
    int operation = (int)draw(kernel, draw(kernel, 3) ? 5 : 11), a = (int)draw(kernel, VALUES),
        b = (int)draw(kernel, VALUES);
    uint32_t number = draw(kernel, 40);
    char line[200];
    static const char *const words[] = {"add.u32", "sub.u32",    "mad.lo.u32", "shl.b32", "add.u32", "and.b32",
                                        "shr.u32", "mul.lo.u32", "min.s32",    "max.u32", "min.s32"};
    const char *under = guard ? "@%p " : "", *word = words[operation];
    if (operation == 10)
        put_line(kernel, "%sadd.u32 %%s, %%x%d, %u;", under, a, number);
    int used = operation == 10 ? snprintf(line, sizeof line, "%s%s %%x%d, %%s, ", under, word, to)
                               : snprintf(line, sizeof line, "%s%s %%x%d, %%x%d, ", under, word, to, a);
    if (operation == 2)
        snprintf(line + used, sizeof line - (size_t)used, "%u, %%x%d;", number, b);
    else if (operation >= 3 && operation <= 6)
        snprintf(line + used, sizeof line - (size_t)used, "%u;",
                 operation == 3 || operation == 6 ? number % 6 : number);
    else
        snprintf(line + used, sizeof line - (size_t)used, "%%x%d;", b);
    put_line(kernel, "%s", line);
    for (int warp = 0; warp < kernel->warps; warp++)
        for (int lane = 0; lane < LANES; lane++) {
            uint32_t(*values)[LANES] = kernel->values[warp];
            if (!guard || kernel->is_in[warp][lane])
                values[to][lane] = apply(operation, values[a][lane], values[b][lane], number);
        }
}

static void step_predicate(struct kernel *kernel) {
    int of = (int)draw(kernel, VALUES);
    uint32_t number = draw(kernel, 200);
    put_line(kernel, "setp.lt.u32 %%p, %%x%d, %u;", of, number);
    for (int warp = 0; warp < kernel->warps; warp++)
        for (int lane = 0; lane < LANES; lane++)
            kernel->is_in[warp][lane] = kernel->values[warp][of][lane] < number;
}

/* ---- stores ---- */

static int compare_places(const void *a, const void *b) {
    return GS_COMPARE(*(const uint64_t *)a, *(const uint64_t *)b);
}

static int64_t count_different(uint64_t *places, int count) {
    int64_t different = 0;
    qsort(places, (size_t)count, sizeof *places, compare_places);
    for (int i = 0; i < count; i++)
        different += !i || places[i] != places[i - 1];
    return different;
}

/* The most words of one bank, of the lanes that are served together. */
static int64_t count_passes(const uint32_t *addresses, const bool *is_in, int bytes) {
    enum { MOST_SHARED = 227 << 10 };
    int parts = bytes / 4;
    int64_t passes = 0;
    for (int part = 0; part < parts; part++) {
        int64_t most = 0;
        for (int bank = 0; bank < 32; bank++) {
            uint64_t words[LANES * 4];
            int count = 0;
            for (int lane = part * LANES / parts; lane < (part + 1) * LANES / parts; lane++)
                for (int word = 0; word < parts; word++) {
                    uint64_t at = addresses[lane] / 4 + (uint32_t)word;
                    if (is_in[lane] && addresses[lane] > MOST_SHARED)
                        return 0;
                    if (is_in[lane] && at % 32 == (uint64_t)bank)
                        words[count++] = at;
                }
            int64_t different = count_different(words, count);
            most = different > most ? different : most;
        }
        passes += most;
    }
    return passes;
}

static void put_store(struct kernel *kernel) {
    struct store *store = &kernel->stores[kernel->store_count++];
    int of = (int)draw(kernel, VALUES), kind = (int)draw(kernel, 3);
    int more = (int)draw(kernel, VALUES); /* a second index, in 64 bits */
    int form = (int)draw(kernel, 4), sign = form == 0 && !draw(kernel, 4) ? -1 : 1;
    bool guard = !draw(kernel, 3);
    uint64_t base = (uint64_t)7 << 40 | draw(kernel, 4096) * 16;
    *store = (struct store){.bytes = 4 << kind, .is_shared = !draw(kernel, 3)};
    static const char *const types[] = {"u32 [%s], %%v;", "v2.u32 [%s], {%%v, %%v};",
                                        "v4.u32 [%s], {%%v, %%v, %%v, %%v};"};
    char line[200];
    if (store->is_shared)
        put_line(kernel, "mul.lo.u32 %%s, %%x%d, %d;", of, store->bytes);
    else if (form == 0)
        put_line(kernel, "mul.wide.s32 %%o, %%x%d, %d; add.u64 %%a, %%base, %%o;", of, store->bytes * sign);
    else if (form == 1)
        put_line(kernel, "mul.wide.u32 %%o, %%x%d, %d; add.u64 %%a, %%base, %%o;", of, store->bytes);
    else if (form == 2)
        put_line(kernel, "cvt.s64.s32 %%o, %%x%d; shl.b64 %%o, %%o, %d; add.u64 %%a, %%base, %%o;", of, 2 + kind);
    else
        put_line(kernel,
                 "cvt.s64.s32 %%o, %%x%d; cvt.s64.s32 %%a, %%x%d; add.s64 %%o, %%o, %%a; shl.b64 %%o, %%o, %d; "
                 "add.u64 %%a, %%base, %%o;",
                 of, more, 2 + kind);
    snprintf(line, sizeof line, types[kind], store->is_shared ? "%s" : "%a");
    put_line(kernel, "%sst.volatile.%s.%s", guard ? "@%p " : "", store->is_shared ? "shared" : "global", line);
    store->line = kernel->line;
    for (int warp = 0; warp < kernel->warps; warp++) {
        uint64_t places[LANES];
        uint32_t addresses[LANES];
        bool is_in[LANES];
        int count = 0;
        for (int lane = 0; lane < LANES; lane++) {
            uint32_t value = kernel->values[warp][of][lane];
            is_in[lane] = !guard || kernel->is_in[warp][lane];
            addresses[lane] = value * (uint32_t)store->bytes;
            int64_t index = form == 1 ? (int64_t)value : (int64_t)(int32_t)value * sign;
            if (form == 3)
                index += (int32_t)kernel->values[warp][more][lane];
            if (is_in[lane])
                places[count++] = (base + (uint64_t)(index * store->bytes)) / 32;
        }
        int64_t now = store->is_shared ? count_passes(addresses, is_in, store->bytes) : count_different(places, count);
        store->most = now > store->most ? now : store->most;
    }
}

/* ---- kernels ---- */

static void make_kernel(struct kernel *kernel) {
    static const int64_t blocks[][3] = {{64, 1, 1}, {96, 2, 1}, {16, 16, 1}, {8, 4, 4},
                                        {32, 4, 1}, {24, 4, 1}, {1, 32, 2},  {48, 2, 1}};
    enum { GRID = 3 };
    memcpy(kernel->block, blocks[draw(kernel, GS_COUNT(blocks))], sizeof kernel->block);
    kernel->warps = (int)(kernel->block[0] * kernel->block[1] * kernel->block[2] / LANES) * GRID;
    kernel->values = calloc((size_t)kernel->warps, sizeof *kernel->values);
    kernel->is_in = calloc((size_t)kernel->warps, sizeof *kernel->is_in);
    for (int i = 0; i < PARAMETERS; i++)
        kernel->parameters[i] = draw(kernel, 3000);
    put_line(kernel, ".version 8.0");
    put_line(kernel, ".target sm_90");
    put_line(kernel, ".address_size 64");
    put_line(kernel,
             ".visible .entry k(.param .u64 b, .param .u32 n0, .param .u32 n1, .param .u32 n2, .param .u32 n3)");
    put_line(kernel, "{ .reg .b32 %%x<%d>, %%s, %%v; .reg .b64 %%base, %%o, %%a; .reg .pred %%p;", VALUES);
    put_line(kernel, "ld.param.u64 %%base, [b]; cvta.to.global.u64 %%base, %%base; mov.u32 %%v, 1;");
    for (int i = 0; i < VALUES; i++)
        step_leaf(kernel, i);
    step_predicate(kernel);
    for (int i = 0; i < STORES; i++) {
        for (uint32_t j = draw(kernel, STEPS); j > 0; j--) {
            uint32_t kind = draw(kernel, 11);
            int to = (int)draw(kernel, VALUES);
            if (kind == 0)
                step_predicate(kernel);
            else if (kind == 10)
                step_selection(kernel, to);
            else if (kind < 3)
                step_leaf(kernel, to);
            else
                step_operation(kernel, to, kind == 3);
        }
        put_store(kernel);
    }
    put_line(kernel, "ret; }");
}

struct found {
    int64_t transactions[MOST_LINES]; /* of the store of a line, plus 1 */
};

static bool keep_store(void *user, const gs_flow_step *step) {
    struct found *found = user;
    if (strstr(step->class_name, "_store") && step->line < MOST_LINES)
        found->transactions[step->line] = 1 + step->transactions;
    return true;
}

struct totals {
    int64_t stores, known, exact;
};

static void check_stores(const struct kernel *kernel, const struct found *found, uint64_t index,
                         struct totals *totals) {
    for (int i = 0; i < kernel->store_count; i++) {
        const struct store *store = &kernel->stores[i];
        int64_t said = found->transactions[store->line] - 1;
        totals->stores += said >= 0;
        totals->known += said > 0;
        totals->exact += said > 0 && said <= store->most + 2;
        if (said > 0 && said < store->most)
            fail_msg("kernel %llu, line %u: %lld transactions, the walk says %lld\n%s", (unsigned long long)index,
                     store->line, (long long)store->most, (long long)said, kernel->text.data);
    }
}

static void check_kernel(uint64_t seed, uint64_t index, struct totals *totals) {
    struct kernel *kernel = calloc(1, sizeof *kernel);
    struct found *found = calloc(1, sizeof *found);
    gs_error error = {.code = GS_OK};
    gs_cubin cubin = {0};
    gs_sass_image image = {0};
    char *file = NULL;
    kernel->random = gs_random_at(seed, index);
    make_kernel(kernel);
    gs_build build = {.name = "k", .text = kernel->text.data, .size = kernel->text.count, .with_lines = true};
    if (gs_cubin_make(&build, 90, &cubin, &error) != GS_OK)
        fail_msg("%s, line %ld\n%s", error.message, error.line, kernel->text.data);
    assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
    unsigned char parameters[24] = {0};
    bool is_known[24] = {0};
    gs_flow_launch launch = {
        .grid = {3, 1, 1}, .parameters = parameters, .is_known = is_known, .bytes = sizeof parameters};
    memcpy(launch.block, kernel->block, sizeof launch.block);
    memcpy(parameters + 8, kernel->parameters, sizeof kernel->parameters);
    for (size_t i = 8; i < sizeof is_known && index % 2; i++)
        is_known[i] = true;
    gs_flow_visitor visitor = {found, ignore_open, ignore_close, keep_store};
    assert_int_equal(gs_flow_walk(&image, "k", &launch, NULL, 0, &visitor, &file, &error), GS_OK);
    check_stores(kernel, found, index, totals);
    free(file);
    gs_sass_free(&image);
    gs_cubin_free(&cubin);
    gs_text_free(&kernel->text);
    free(kernel->values);
    free(kernel->is_in);
    free(kernel);
    free(found);
}

TEST(never_says_fewer_transactions) {
    char path[1000];
    struct totals totals = {0};
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), runs = test_number("GRIDSMITH_RUNS", 100000) / 2500 + 1;
    if (!gs_assembler_find(path, sizeof path))
        skip();
    for (uint64_t i = 0; i < runs; i++)
        check_kernel(seed, i, &totals);
    printf("%lld stores, %lld with a known number, %lld of them at most 2 more than there are\n",
           (long long)totals.stores, (long long)totals.known, (long long)totals.exact);
    assert_true(totals.known > totals.stores / 10);
}

/* ---- local memory ---- */

/* A word of 4 bytes is that of all lanes in one piece of 128 bytes, and the next one of a lane is behind that. */
static const struct {
    const char *statement;
    const char *class_name;
    int sectors;
} of_local[] = {
    {"ld.local.u8 %r3, [here+4];", "local_load", 4},
    {"ld.local.u16 %r3, [here+4];", "local_load", 4},
    {"ld.local.u32 %r3, [here+4];", "local_load", 4},
    {"ld.local.v2.u32 {%r3, %r4}, [here+8];", "local_load", 8},
    {"ld.local.v4.u32 {%r3, %r4, %r5, %r6}, [here+16];", "local_load", 16},
    {"ld.local.u8 %r3, [%here];", "local_load", 32},
    {"ld.local.u32 %r3, [%here];", "local_load", 32},
    {"ld.local.v2.u32 {%r3, %r4}, [%here];", "local_load", 64},
    {"ld.local.v4.u32 {%r3, %r4, %r5, %r6}, [%here];", "local_load", 128},
    {"st.local.u8 [here+4], %r2;", "local_store", 4},
    {"st.local.v4.u32 [%here], {%r2, %r2, %r2, %r2};", "local_store", 128},
    {"ld.v2.u32 {%r3, %r4}, [%any];", "generic_load", 64},
    {"st.v4.u32 [%any], {%r2, %r2, %r2, %r2};", "generic_store", 128},
};

struct wanted {
    const char *class_name;
    uint32_t line;
    int most;
};

static bool keep_most(void *user, const gs_flow_step *step) {
    struct wanted *wanted = user;
    if (step->line == wanted->line && strstr(step->class_name, wanted->class_name) && step->transactions > wanted->most)
        wanted->most = step->transactions;
    return true;
}

TEST(knows_the_sectors_of_local_memory) {
    char path[1000];
    if (!gs_assembler_find(path, sizeof path))
        skip();
    for (size_t i = 0; i < GS_COUNT(of_local); i++) {
        gs_error error = {.code = GS_OK};
        gs_text text = {0};
        gs_cubin cubin = {0};
        gs_sass_image image = {0};
        char *file = NULL;
        struct wanted wanted = {.class_name = of_local[i].class_name, .line = 8};
        gs_flow_launch launch = {.grid = {1, 1, 1}, .block = {LANES, 1, 1}};
        gs_flow_visitor visitor = {&wanted, ignore_open, ignore_close, keep_most};
        gs_text_add(&text,
                    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
                    ".reg .b32 %%r<9>; .reg .b64 %%p, %%d, %%here, %%any; .local .align 16 .b8 here[1024];\n"
                    "ld.param.u64 %%p, [p]; mov.u32 %%r1, %%tid.x; mul.wide.u32 %%d, %%r1, 16; "
                    "add.u64 %%any, %%p, %%d; mov.u64 %%here, here; add.u64 %%d, %%here, %%d; mov.u32 %%r2, "
                    "%%clock; st.local.u32 [%%d], %%r2;\n"
                    "and.b32 %%r3, %%r2, 496; cvt.u64.u32 %%d, %%r3; add.u64 %%here, %%here, %%d;\n%s\n"
                    "ld.local.u32 %%r7, [%%here+64]; ld.local.u8 %%r8, [here+4]; add.u32 %%r3, %%r3, %%r7; "
                    "add.u32 %%r3, %%r3, %%r8; add.u32 %%r3, %%r3, %%r4; add.u32 %%r3, %%r3, %%r5;\n"
                    "add.u32 %%r3, %%r3, %%r6; st.volatile.global.u32 [%%p], %%r3; ret; }\n",
                    of_local[i].statement);
        gs_build build = {.name = "k", .text = text.data, .size = text.count, .with_lines = true};
        if (gs_cubin_make(&build, 90, &cubin, &error) != GS_OK)
            fail_msg("%s, line %ld", error.message, error.line);
        assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
        if (gs_flow_walk(&image, "k", &launch, NULL, 0, &visitor, &file, &error) != GS_OK)
            fail_msg("%s: %s", of_local[i].statement, error.message);
        if (wanted.most != of_local[i].sectors)
            fail_msg("%s %d sectors, not %d", of_local[i].statement, wanted.most, of_local[i].sectors);
        free(file);
        gs_sass_free(&image);
        gs_cubin_free(&cubin);
        gs_text_free(&text);
    }
}

TEST_MAIN(NULL, NULL)
