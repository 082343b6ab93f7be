/*
 * unit_probes.c: kernels that use only one unit of an SM, as partners for bench/pairs. They show what a matrix product
 * leaves of FMAs, special functions, shared memory and device memory. fma reads one register that the instruction
 * before it has not read, fma3 three. An addition is another instruction of the FMA units, and a shift one of the
 * integer units, which have half of the rate.
 *
 * Each thread repeats a few independent instructions. A number that never occurs would be stored, so that the compiler
 * keeps them.
 */
#include "pairs.h"

#include <string.h>

enum { THREADS = 256, NUMBERS = 8 };

static const struct probe {
    const char *name, *line; /* the repeated instruction; `%u` is 0, 1, ... */
    int at_once;             /* how many are independent, */
    int unroll;              /* and how often these are repeated in a round */
    int32_t blocks, rounds;
    double fmas, bytes; /* of a line, for a thread */
} probes[PAIR_PROBES] = {
    {"(fma)", "fma.rn.f32 %%f%u, %%f%u, %%f8, %%f9;", 8, 4, 4224, 1000, 1, 0},
    {"(fma3)", "fma.rn.f32 %%f%1$u, %%f%6$u, %%f%7$u, %%f%1$u;", 8, 4, 4224, 1000, 1, 0},
    {"(add)", "add.rn.f32 %%f%u, %%f%u, 0f3A83126F;", 8, 4, 4224, 1000, 1, 0},
    {"(shift)", "shf.l.wrap.b32 %%f%u, %%f%u, %%f8, 7;", 8, 4, 4224, 500, 0, 0},
    {"(special)", "ex2.approx.ftz.f32 %%f%u, %%f%u;", 8, 4, 4224, 120, 0, 0},
    {"(shared)", "ld.volatile.shared.v4.f32 {%%a%u, %%b%u, %%c%u, %%d%u}, [%%own];", 4, 1, 4224, 480, 0, 0},
    {"(memory)", "ld.volatile.global.v4.f32 {%%a%u, %%b%u, %%c%u, %%d%u}, [%%at + %u];", 4, 1, 2112, 16, 0, 16},
};

static gs_text texts[PAIR_PROBES];
static char symbols[PAIR_PROBES][24]; /* a name of its own for each, for profilers */
static gs_zoo_kernel kernels[PAIR_PROBES];

static void put_body(gs_text *text, const struct probe *probe) {
    for (int i = 0; i < probe->at_once * probe->unroll; i++) {
        unsigned next = (unsigned)probe->at_once, u = (unsigned)i % next;
        gs_text_add(text, "\t");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
        gs_text_add(text, probe->line, u, u, u, u, u * THREADS * 16, (u + 1) % next, (u + 2) % next);
#pragma GCC diagnostic pop
        gs_text_add(text, "\n");
    }
}

static void put_probe(gs_text *text, const struct probe *probe, const char *symbol) {
    gs_text_add(text,
                ".version 7.0\n.target sm_80\n.address_size 64\n"
                ".visible .entry %s(.param .u64 data, .param .u32 rounds) {\n"
                "\t.reg .pred %%p;\n\t.reg .b32 %%i, %%n, %%t, %%own;\n\t.reg .b64 %%data, %%at;\n"
                "\t.reg .f32 %%f<10>, %%a<8>, %%b<8>, %%c<8>, %%d<8>;\n"
                "\t.shared .align 16 .b8 mine[4096];\n"
                "\tmov.u32 %%t, %%tid.x;\n\tld.param.u64 %%data, [data];\n\tld.param.u32 %%n, [rounds];\n"
                "\tcvta.to.global.u64 %%data, %%data;\n"
                "\tmov.u32 %%own, mine;\n\tmad.lo.u32 %%own, %%t, 16, %%own;\n"
                "\tmov.u32 %%i, %%ctaid.x;\n\tmul.lo.u32 %%i, %%i, %%n;\n"
                "\tmul.lo.u32 %%i, %%i, %d;\n\tadd.u32 %%i, %%i, %%t;\n\tmul.wide.u32 %%at, %%i, 16;\n"
                "\tadd.u64 %%at, %%at, %%data;\n"
                "\tcvt.rn.f32.u32 %%f8, %%t;\n\tmov.f32 %%f9, 0f3A83126F;\n",
                symbol, probe->at_once * THREADS);
    for (int i = 0; i < NUMBERS; i++)
        gs_text_add(text, "\tmov.f32 %%f%d, %%f8;\n", i);
    gs_text_add(text, "\tmul.f32 %%f8, %%f8, 0f3A83126F;\n\tmov.u32 %%i, 0;\n$again:\n\t.pragma \"nounroll\";\n");
    put_body(text, probe);
    gs_text_add(text,
                "\tadd.u64 %%at, %%at, %d;\n\tadd.u32 %%i, %%i, 1;\n\tsetp.lt.u32 %%p, %%i, %%n;\n"
                "\t@%%p bra $again;\n",
                probe->at_once * THREADS * 16);
    for (int i = 1; i < NUMBERS; i++)
        gs_text_add(text, "\tadd.f32 %%f0, %%f0, %%f%d;\n", i);
    gs_text_add(text, "\tsetp.eq.f32 %%p, %%f0, 0fC4F9B3F4;\n\t@%%p st.global.f32 [%%data], %%f0;\n\tret;\n}\n");
}

static void make_instance(gs_zoo_instance *instance, const int32_t *n) {
    int data = gs_zoo_buffer_zero(instance, GS_FLOAT32, (size_t)n[2]);
    gs_zoo_launch_add(instance, "probe", symbols[n[3]], (const uint32_t[3]){(uint32_t)n[0], 1, 1},
                      (const uint32_t[3]){THREADS, 1, 1}, "bi", data, n[1]);
}

void probe_make(pair_side *side, int number) {
    const struct probe *probe = &probes[number];
    double lines = (double)probe->blocks * THREADS * probe->rounds * probe->at_once * probe->unroll;
    snprintf(symbols[number], sizeof symbols[number], "unit_%.*s", (int)strlen(probe->name) - 2, probe->name + 1);
    put_probe(&texts[number], probe, symbols[number]);
    kernels[number] = (gs_zoo_kernel){.name = probe->name, .instance = make_instance};
    *side = (pair_side){.name = probe->name, .kernel = &kernels[number], .text = texts[number].data, .has_forms = true};
    side->size = (gs_zoo_size){
        "large", {probe->blocks, probe->rounds, probe->bytes > 0 ? (int32_t)(lines * probe->bytes / 4) : 1, number}};
    side->work[UNIT_FMA] = lines * probe->fmas;
    side->work[UNIT_ISSUE] = lines;
    side->work[UNIT_DRAM] = lines * probe->bytes;
}

void probes_free(void) {
    for (int i = 0; i < PAIR_PROBES; i++)
        gs_text_free(&texts[i]);
}
