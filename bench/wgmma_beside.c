/*
 * wgmma_beside.c: what a loop of wgmma keeps of its speed beside instructions of other kinds on the same SM, and which
 * resource they share. See docs/reports/pairs.md.
 *
 * Each SM has one block that repeats wgmma on the same tiles of zeros in shared memory, and one block of a partner.
 * Both count their work in the same number of cycles, so that neither the clock nor the memory matters. A partner
 * repeats one instruction, in several independent chains: with one warp on each quarter of an SM and one chain it uses
 * few of the issue slots, with more of both it uses all of them.
 *
 * A partner that is switched off by a predicate takes the same issue slots at the same times, but its instructions do
 * not read, compute or write. So it separates the effect of issue slots from that of everything after them. A partner
 * that computes predicates writes no register.
 */
#include "kernels/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum { TILES = 16, MOST_CHAINS = 8, LINES = 256, WORDS = 4, REPEATS = 3 };
static const uint64_t CYCLES = 3000000;

/* ---- products and partners ---- */

static const struct product {
    const char *name, *type, *registers; /* of the results: their type, and the registers that hold them */
    int count;
} products[] = {
    {"f32", "f32.bf16.bf16", "f32", 128},
    {"f16", "f16.f16.f16", "b32", 64},
};

/* Instructions of partners; # is the number of the chain. */
enum { FMA, FMA_OFF, ADD, SHIFT, SHIFT_OFF, COMPARE, SPECIAL };
static const struct instruction {
    const char *name, *text;
} instructions[] = {
    [FMA] = {"fma", "fma.rn.f32 %f#, %f#, %f8, %f9;"},
    [FMA_OFF] = {"fma, off", "@%off fma.rn.f32 %f#, %f#, %f8, %f9;"},
    [ADD] = {"add", "add.rn.f32 %f#, %f#, 0f3A83126F;"},
    [SHIFT] = {"shift", "shf.l.wrap.b32 %f#, %f#, %f8, 7;"},
    [SHIFT_OFF] = {"shift, off", "@%off shf.l.wrap.b32 %f#, %f#, %f8, 7;"},
    [COMPARE] = {"compare", "setp.lt.xor.f32 %p#, %f#, %f8, %p#;"},
    [SPECIAL] = {"special", "ex2.approx.ftz.f32 %f#, %f#;"},
};

static const struct partner {
    int instruction, warps, chains; /* warps of a quarter of an SM, chains of a warp */
} partners[] = {
    {FMA, 1, 1},     {FMA, 1, 2},     {FMA, 1, 3},     {FMA, 1, 4},     {FMA, 1, 8},     {FMA, 2, 8},
    {FMA, 4, 8},     {FMA_OFF, 1, 1}, {FMA_OFF, 1, 2}, {FMA_OFF, 1, 4}, {FMA_OFF, 1, 8}, {FMA_OFF, 4, 8},
    {SHIFT, 1, 1},   {ADD, 1, 4},     {ADD, 4, 8},     {SHIFT, 1, 4},   {SHIFT, 4, 8},   {SHIFT_OFF, 4, 8},
    {COMPARE, 1, 1}, {COMPARE, 1, 4}, {COMPARE, 4, 4}, {SPECIAL, 4, 8},
};

enum { PRODUCTS = GS_COUNT(products), PARTNERS = GS_COUNT(partners) };

/* ---- kernels ---- */

/* `before_branch` makes all warps of a block repeat, or none: wgmma needs all four. */
static void put_loop_end(gs_text *text, const char *before_branch) {
    gs_text_add(text,
                "\tadd.u32 %%n, %%n, 1;\n\tmov.u64 %%now, %%clock64;\n\tsub.u64 %%now, %%now, %%began;\n"
                "\tsetp.lt.u64 %%go, %%now, %%cycles;\n%s\t@%%go bra $again;\n",
                before_branch);
}

/* One thread of each block reports its iterations, the cycles, and its SM. */
static void put_end(gs_text *text) {
    gs_text_add(text, "\tmov.u32 %%t, %%tid.x;\n\tsetp.ne.u32 %%go, %%t, 0;\n\t@%%go bra $end;\n"
                      "\tmov.u32 %%t, %%ctaid.x;\n\tmul.wide.u32 %%at, %%t, 16;\n\tadd.u64 %%at, %%at, %%out;\n"
                      "\tcvt.u32.u64 %%t, %%now;\n\tst.global.u32 [%%at], %%n;\n\tst.global.u32 [%%at+4], %%t;\n"
                      "\tmov.u32 %%t, %%smid;\n\tst.global.u32 [%%at+8], %%t;\n$end:\n\tret;\n}\n");
}

static void put_begin(gs_text *text, const char *name) {
    gs_text_add(
        text,
        ".version 8.0\n.target sm_90a\n.address_size 64\n"
        ".visible .entry %s(.param .u64 out, .param .u64 cycles) {\n"
        "\t.reg .pred %%go, %%on, %%off, %%p<8>;\n\t.reg .b32 %%n, %%t;\n\t.reg .b64 %%out, %%cycles, %%began, %%now, "
        "%%at, %%a, %%b;\n"
        "\tld.param.u64 %%out, [out];\n\tcvta.to.global.u64 %%out, %%out;\n\tld.param.u64 %%cycles, [cycles];\n"
        "\tmov.u32 %%n, 0;\n",
        name);
}

/* Clears the tiles: A (64 x 16) is at their beginning, B (16 x 256) behind it. %a and %b become their descriptors. */
static void put_tiles(gs_text *text, const struct product *product) {
    gs_text_add(text,
                "\t.shared .align 128 .b8 tiles[10240];\n\t.reg .%s %%d<%d>;\n"
                "\tmov.u32 %%t, %%tid.x;\n$clear:\n\tmul.wide.u32 %%at, %%t, 4;\n\tmov.u64 %%a, tiles;\n"
                "\tadd.u64 %%at, %%at, %%a;\n\tst.shared.u32 [%%at], 0;\n\tadd.u32 %%t, %%t, 128;\n"
                "\tsetp.lt.u32 %%go, %%t, 2560;\n\t@%%go bra $clear;\n\tbar.sync 0;\n"
                "\tfence.proxy.async;\n\tsetp.lt.u32 %%on, %%n, 1;\n"
                "\tshr.u64 %%a, %%a, 4;\n\tor.b64 %%a, %%a, 0x0000000800080000;\n\tadd.u64 %%b, %%a, 128;\n",
                product->registers, product->count);
}

static void put_product(gs_text *text, const struct product *product) {
    put_begin(text, "product");
    put_tiles(text, product);
    for (int i = 0; i < product->count; i++)
        gs_text_add(text, "\tmov.%s %%d%d, 0%s;\n", product->registers, i,
                    product->registers[0] == 'f' ? "f00000000" : "");
    gs_text_add(text, "\tmov.u64 %%began, %%clock64;\n$again:\n\twgmma.fence.sync.aligned;\n");
    for (int tile = 0; tile < TILES; tile++) {
        gs_text_add(text, "\twgmma.mma_async.sync.aligned.m64n256k16.%s {", product->type);
        for (int i = 0; i < product->count; i++)
            gs_text_add(text, "%s%%d%d", i ? "," : "", i);
        gs_text_add(text, "}, %%a, %%b, %%on, 1, 1, 0, 0;\n");
    }
    gs_text_add(text, "\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;\n");
    put_loop_end(text, "\tbar.red.or.pred %go, 0, %go;\n");
    for (int i = 0; i < product->count; i++)
        gs_text_add(text, "\tst.shared.%s [tiles+%d], %%d%d;\n", product->registers, 4 * i, i);
    put_end(text);
}

static int lines_of(const struct partner *partner) {
    return LINES / partner->chains * partner->chains;
}

static void put_instruction(gs_text *text, const struct instruction *instruction, int chain) {
    const char number = (char)('0' + chain);
    gs_text_add(text, "\t");
    for (const char *at = instruction->text; *at; at++)
        gs_text_put(text, *at == '#' ? &number : at, 1);
    gs_text_add(text, "\n");
}

static void put_partner(gs_text *text, const struct partner *partner) {
    put_begin(text, "partner");
    gs_text_add(text, "\t.reg .f32 %%f<10>;\n\tmov.u32 %%t, %%tid.x;\n\tcvt.rn.f32.u32 %%f8, %%t;\n"
                      "\tmov.f32 %%f9, 0f3A83126F;\n\tsetp.gt.u32 %%off, %%t, 5000;\n");
    for (int i = 0; i < MOST_CHAINS; i++)
        gs_text_add(text, "\tadd.f32 %%f%d, %%f8, 0f%08X;\n\tsetp.gt.u32 %%p%d, %%t, %d;\n", i, 0x3F800000 + i, i, i);
    gs_text_add(text, "\tmul.f32 %%f8, %%f8, 0f3A83126F;\n\tmov.u64 %%began, %%clock64;\n$again:\n");
    for (int i = 0; i < lines_of(partner); i++)
        put_instruction(text, &instructions[partner->instruction], i % partner->chains);
    put_loop_end(text, "");
    for (int i = 0; i < MOST_CHAINS; i++) /* what was computed is used, so that the compiler keeps it */
        gs_text_add(text,
                    "\tsetp.eq.and.f32 %%go, %%f%d, 0fC4F9B3F4, %%p%d;\n\t@%%go st.global.f32 [%%out+12], %%f%d;\n", i,
                    i, i);
    put_end(text);
}

/* ---- running ---- */

struct bench {
    cu_api api;
    int device, sms;
    bool has_context;
    cu_stream streams[2];
    cu_pointer found[2];
    uint32_t *counts; /* WORDS for each block */
};

/* The work of one loop: iterations in a million cycles, on the average SM. */
struct speed {
    double rounds;
    bool is_spread; /* one block on each SM */
};

struct loop {
    cu_module module;
    cu_function function;
    unsigned threads;
};

static bool check(const struct bench *bench, int code, const char *what) {
    gs_error error;
    if (gs_cuda_check(&bench->api, code, what, &error) == GS_OK)
        return true;
    fprintf(stderr, "wgmma_beside: %s\n", error.message);
    return false;
}

static bool load(struct bench *bench, gs_text *text, const char *name, unsigned threads, struct loop *loop) {
    int failed = text->failed ? 2 : bench->api.module_load(&loop->module, text->data);
    failed = failed ? failed : bench->api.module_function(&loop->function, loop->module, name);
    loop->threads = threads;
    gs_text_free(text);
    return check(bench, failed, name);
}

static bool start(struct bench *bench, int side, const struct loop *loop) {
    uint64_t cycles = CYCLES;
    void *arguments[] = {&bench->found[side], &cycles};
    cu_launch config = {.grid_x = (unsigned)bench->sms,
                        .grid_y = 1,
                        .grid_z = 1,
                        .block_x = loop->threads,
                        .block_y = 1,
                        .block_z = 1,
                        .stream = bench->streams[side]};
    return check(bench, bench->api.launch(&config, loop->function, arguments, NULL), "launching");
}

static bool read_speed(struct bench *bench, int side, struct speed *speed) {
    size_t bytes = (size_t)bench->sms * WORDS * sizeof *bench->counts;
    bool was_seen[1024] = {false};
    *speed = (struct speed){.is_spread = true};
    if (!check(bench, bench->api.copy_out(bench->counts, bench->found[side], bytes), "reading"))
        return false;
    for (int i = 0; i < bench->sms; i++) {
        const uint32_t *found = &bench->counts[i * WORDS];
        speed->rounds += 1e6 * found[0] / (found[1] ? found[1] : 1) / bench->sms;
        speed->is_spread = speed->is_spread && !was_seen[found[2] % 1024];
        was_seen[found[2] % 1024] = true;
    }
    return true;
}

/* Runs the product, the partner or both at the same time. `speeds` gets the medians of those that ran. */
static bool run(struct bench *bench, const struct loop *product, const struct loop *partner, struct speed *speeds) {
    const struct loop *loops[2] = {product, partner};
    struct speed tried[REPEATS][2];
    for (int i = 0; i < REPEATS; i++) {
        for (int side = 0; side < 2; side++)
            if (loops[side] && !start(bench, side, loops[side]))
                return false;
        for (int side = 0; side < 2; side++)
            if (loops[side] && !(check(bench, bench->api.stream_wait(bench->streams[side]), "running") &&
                                 read_speed(bench, side, &tried[i][side])))
                return false;
    }
    for (int side = 0; side < 2; side++) { /* of three */
        const double a = tried[0][side].rounds, b = tried[1][side].rounds, c = tried[2][side].rounds;
        int middle = (a <= b) == (b <= c) ? 1 : (b <= a) == (a <= c) ? 0 : 2;
        if (loops[side])
            speeds[side] = tried[middle][side];
    }
    return true;
}

static bool compare(struct bench *bench, const struct product *kind, const struct loop *product,
                    const struct partner *partner) {
    struct speed alone[2], beside[2];
    struct loop loop;
    gs_text text = {0};
    put_partner(&text, partner);
    if (!load(bench, &text, "partner", (unsigned)partner->warps * 128, &loop))
        return false;
    bool is_right = run(bench, product, NULL, alone) && run(bench, NULL, &loop, alone) && /* each sets its side */
                    run(bench, product, &loop, beside);
    bench->api.module_unload(loop.module);
    if (!is_right)
        return false;
    double slots = (double)lines_of(partner) * partner->warps / 1e6;
    printf("%-4s %-11s %d x %d  %5.1f%%  %5.1f%%  %5.1f%%  %5.1f%%%s\n", kind->name,
           instructions[partner->instruction].name, partner->warps, partner->chains, 100 * slots * alone[1].rounds,
           100 * slots * beside[1].rounds, 100 * beside[0].rounds / alone[0].rounds,
           100 * beside[1].rounds / alone[1].rounds,
           beside[0].is_spread && beside[1].is_spread ? "" : "  (not one block on each SM)");
    fflush(stdout);
    return true;
}

static bool compare_all(struct bench *bench, const struct product *kind) {
    struct speed alone[2];
    struct loop product;
    gs_text text = {0};
    put_product(&text, kind);
    if (!load(bench, &text, "product", 128, &product) || !run(bench, &product, NULL, alone))
        return false;
    printf("wgmma with results in %s: %.1f cycles for 64 x 256 x 16\n", kind->name, 1e6 / TILES / alone[0].rounds);
    bool is_right = true;
    for (int i = 0; i < PARTNERS && is_right; i++)
        is_right = compare(bench, kind, &product, &partners[i]);
    bench->api.module_unload(product.module);
    return is_right;
}

static bool open_bench(struct bench *bench) {
    gs_error error;
    if (gs_cuda_open(&bench->api, &error) != GS_OK ||
        gs_cuda_open_gpu(&bench->api, "", &bench->device, &bench->has_context, &error) != GS_OK) {
        fprintf(stderr, "wgmma_beside: %s\n", error.message);
        return false;
    }
    int failed = bench->api.device_attribute(&bench->sms, CU_DEVICE_SMS, bench->device);
    size_t bytes = (size_t)bench->sms * WORDS * sizeof *bench->counts;
    bench->counts = malloc(bytes);
    for (int i = 0; i < 2; i++) {
        failed = failed ? failed : bench->api.stream_new(&bench->streams[i], CU_STREAM_NON_BLOCKING, 0);
        failed = failed ? failed : bench->api.alloc(&bench->found[i], bytes);
    }
    return bench->counts && check(bench, failed, "opening the GPU");
}

/* `--text N`: prints the PTX of a partner, or of a product: -1, -2. */
static int print_text(int number) {
    gs_text text = {0};
    if (number < -PRODUCTS || number >= PARTNERS)
        return 2;
    if (number < 0)
        put_product(&text, &products[-number - 1]);
    else
        put_partner(&text, &partners[number]);
    fputs(text.data, stdout);
    gs_text_free(&text);
    return 0;
}

int main(int argc, char **argv) {
    static struct bench bench;
    bool is_right = true;
    if (argc == 3 && strcmp(argv[1], "--text") == 0)
        return print_text(atoi(argv[2]));
    if (argc != 1) {
        fprintf(stderr, "usage: wgmma_beside [--text N]\n");
        return 2;
    }
    if (!open_bench(&bench))
        return 3;
    printf("partner, its warps on a quarter of an SM x chains; issue slots that it has alone and beside wgmma;\n"
           "what wgmma and the partner keep of their speed\n");
    for (int i = 0; i < PRODUCTS && is_right; i++)
        is_right = compare_all(&bench, &products[i]);
    free(bench.counts);
    return is_right ? 0 : 1;
}
