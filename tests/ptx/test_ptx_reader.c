/*
 * test_ptx_reader.c: reading PTX, control flow and uniformity.
 *
 * Post-dominators and dependences are compared with their definitions, taken literally, on random graphs.
 */
#include "test.h"

#include "kernels/ptx/ptx.h"

#include <stdlib.h>

static const char head[] = ".version 8.0\n.target sm_80, debug\n.address_size 64\n";

/* A module with `text` after its first lines. The caller frees both. */
static char *read_module(gs_ptx_module *module, const char *text, gs_code expected, gs_error *error) {
    gs_text whole = {0};
    gs_text_add(&whole, "%s%s", head, text);
    gs_code code = gs_ptx_read(module, "m.ptx", whole.data, whole.count, error);
    if (code != expected)
        print_error("%s\n", code == GS_OK ? "accepted" : error->message);
    assert_int_equal(code, expected);
    return whole.data;
}

static const gs_ptx_statement *instruction(const gs_ptx_module *module, size_t number) {
    for (size_t i = 0; i < module->statements.count; i++)
        if (module->statements.data[i].kind == GS_PTX_INSTRUCTION && number-- == 0)
            return &module->statements.data[i];
    fail_msg("there is no such instruction");
    return NULL;
}

TEST(functions_have_their_parameters_and_limits) {
    gs_ptx_module module;
    gs_error error;
    char name[100];
    char *text = read_module(&module,
                             ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
                             ".visible .entry f(.param .u64 .ptr .global .align 4 p, .param .align 16 .b8 q[24])\n"
                             ".maxntid 256, 2\n.minnctapersm 3\n{ ret; }\n",
                             GS_OK, &error);
    assert_int_equal(module.version, 80);
    assert_string_equal(module.target, "sm_80");
    assert_int_equal(module.functions.count, 2);
    const gs_ptx_function *f = &module.functions.data[1];
    assert_true(f->is_entry && f->is_defined && !module.functions.data[0].is_defined);
    assert_int_equal(module.functions.data[0].return_count, 1);
    assert_int_equal(f->parameter_count, 2);
    const gs_ptx_variable *p = &module.variables.data[f->parameters], *q = p + 1;
    assert_string_equal(gs_ptx_token_text(&module, p->name, name, sizeof name), "p");
    assert_int_equal(p->bytes, 8);
    assert_int_equal(p->align, 8);
    assert_int_equal(q->bytes, 24);
    assert_int_equal(q->align, 16);
    assert_int_equal(f->limits.max_threads[0], 256);
    assert_int_equal(f->limits.max_threads[1], 2);
    assert_int_equal(f->limits.max_threads[2], 1);
    assert_int_equal(f->limits.min_blocks, 3);
    assert_int_equal(gs_ptx_find_function(&module, "f"), 1);
    assert_int_equal(gs_ptx_find_function(&module, "g"), -1);
    gs_ptx_free(&module);
    free(text);
}

TEST(names_mean_the_innermost_declaration) {
    gs_ptx_module module;
    gs_error error;
    char *text = read_module(&module,
                             ".entry f() { .reg .b32 %r<3>, %r1x; .reg .pred p;\n"
                             "mov.u32 %r2, %tid.x;\n"
                             "{ .reg .pred p; .reg .b64 %r<2>; setp.eq.s32 p, %r2, 0; mov.u64 %r1, 5; }\n"
                             "@!p mov.b32 %r1, %r1x; ret; }\n",
                             GS_OK, &error);
    const gs_ptx_operand *operands = module.operands.data;
    const gs_ptx_statement *mov = instruction(&module, 0), *setp = instruction(&module, 1),
                           *inner = instruction(&module, 2), *guarded = instruction(&module, 3);
    assert_int_equal(operands[mov->operands].value, 2);
    assert_int_equal(operands[mov->operands].access, GS_PTX_WRITE);
    assert_int_equal(operands[mov->operands + 1].kind, GS_PTX_SPECIAL);
    assert_int_equal(operands[mov->operands + 1].value, GS_PTX_TID);
    assert_int_equal(operands[mov->operands + 1].part, 'x');
    assert_int_not_equal(operands[setp->operands].value, guarded->guard);
    assert_int_equal(gs_ptx_register_type(&module, 0, operands[setp->operands].value), GS_PTX_PRED);
    assert_int_equal(gs_ptx_register_type(&module, 0, operands[inner->operands].value), GS_PTX_B64);
    assert_int_equal(operands[inner->operands + 1].bits, 5);
    assert_true(guarded->guard_is_negated);
    assert_int_equal(operands[guarded->operands].value, 1);
    assert_int_equal(operands[guarded->operands + 1].value, 3);
    gs_ptx_free(&module);
    free(text);
}

TEST(operands_are_told_apart) {
    gs_ptx_module module;
    gs_error error;
    char *text = read_module(&module,
                             ".shared .align 4 .b8 s[64];\n"
                             ".entry f() { .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<3>;\n"
                             "ld.global.v2.f32 {%f1, %f2}, [%rd1+-8];\n"
                             "st.shared.u32 [s+4], %r1;\n"
                             "shfl.sync.up.b32 %r1|%p1, %r2, 0x1, 0, -1;\n"
                             "mov.f32 %f1, 0f3F800000;\n"
                             "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd2, {%f5, %f6}];\n"
                             "invented.new.b32 %r3, %r4;\n"
                             "bar.warp.sync %r5;\n"
                             "call (%r6), f, (%r7, %rd3); }\n",
                             GS_OK, &error);
    const gs_ptx_operand *all = module.operands.data;
    const gs_ptx_operand *load = &all[instruction(&module, 0)->operands];
    assert_int_equal(load[0].kind, GS_PTX_VECTOR);
    assert_int_equal(all[load[0].children + 1].access, GS_PTX_WRITE);
    assert_int_equal(load[1].kind, GS_PTX_ADDRESS);
    assert_int_equal((int64_t)all[load[1].children].bits, -8);
    assert_int_equal(all[load[1].children].access, GS_PTX_READ);
    const gs_ptx_operand *store = &all[instruction(&module, 1)->operands];
    assert_int_equal(all[store[0].children].kind, GS_PTX_SYMBOL);
    assert_int_equal(all[store[0].children].value, 0);
    assert_int_equal(all[store[0].children].bits, 4);
    assert_int_equal(store[1].access, GS_PTX_READ);
    const gs_ptx_operand *shuffle = &all[instruction(&module, 2)->operands];
    assert_int_equal(shuffle[0].kind, GS_PTX_PAIR);
    assert_int_equal(all[shuffle[0].children + 1].access, GS_PTX_WRITE);
    assert_int_equal((int64_t)shuffle[4].bits, -1);
    assert_int_equal(all[instruction(&module, 3)->operands + 1].kind, GS_PTX_FLOAT32);
    assert_int_equal(all[instruction(&module, 3)->operands + 1].bits, 0x3f800000);
    const gs_ptx_operand *texture = &all[instruction(&module, 4)->operands];
    assert_int_equal(texture[0].count, 4);
    assert_int_equal(texture[1].count, 2);
    assert_int_equal(instruction(&module, 5)->opcode, GS_PTX_UNKNOWN);
    assert_int_equal(all[instruction(&module, 5)->operands].access, GS_PTX_READ | GS_PTX_WRITE);
    assert_int_equal(instruction(&module, 6)->opcode, GS_PTX_BARRIER_WARP);
    assert_true(gs_ptx_has(&module, instruction(&module, 6), "sync"));
    assert_false(gs_ptx_has(&module, instruction(&module, 6), "syn"));
    const gs_ptx_operand *call = &all[instruction(&module, 7)->operands];
    assert_int_equal(all[call[0].children].access, GS_PTX_WRITE);
    assert_int_equal(all[call[2].children + 1].access, GS_PTX_READ);
    gs_ptx_free(&module);
    free(text);
}

/* The values are those that ptxas puts into a variable. */
TEST(constant_expressions_have_the_values_of_ptxas) {
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"1+1", 2},
        {"32*2", 64},
        {"(1<<4)|3", 19},
        {"~0", -1},
        {"-(3)", -3},
        {"!0", 1},
        {"!7", 0},
        {"+5", 5},
        {"4-2-1", 1},
        {"2+3*4", 14},
        {"2*-3", -6},
        {"((2))", 2},
        {"1 ? 2 : 3", 2},
        {"0 ? 2 : 0 ? 4 : 5", 5},
        {"-7/2", -3},
        {"32 % (0-3)", 32},
        {"-63 % 7", 2},
        {"-1 >> 1", -1},
        {"~0 >> 60", 15},
        {"1 << 65", 2},
        {"1 < 2 == 1", 1},
        {"1 | 2 ^ 3 & 1", 3},
        {"2 >= 2 && 0 || 3 != 4", 1},
        {"(0-1) < 5U", 0},
        {"(0-1) < (5 & 3)", 1},
        {"(0-1) < (5 % 3)", 0},
        {"(0-1) < (3 ? 1 : 2U)", 1},
        {"(.s64)5U > 0-1", 1},
        {"(.u64)(0-1) > 5", 1},
        {"0x8000000000000000 / (0-1)", 0},
        {"WARP_SZ", 32},
        {"WARP_SZ*2-1", 63},
        {"! WARP_SZ", 0},
        {"0x10U>>1", 8},
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_ptx_module module;
        gs_error error;
        char line[200];
        snprintf(line, sizeof line,
                 ".shared .b32 s[9]; .entry f() { .reg .b64 %%rd<9>; mov.u64 %%rd1, %s; ld.shared.b64 %%rd2, [s+%s]; "
                 "call f, (%s, %%rd1); }\n",
                 cases[i].text, cases[i].text, cases[i].text);
        char *text = read_module(&module, line, GS_OK, &error);
        const gs_ptx_operand *all = module.operands.data, *number = &all[instruction(&module, 0)->operands + 1],
                             *place = &all[all[instruction(&module, 1)->operands + 1].children],
                             *list = &all[instruction(&module, 2)->operands + 1];
        if (number->kind != GS_PTX_INTEGER || (int64_t)number->bits != cases[i].value)
            fail_msg("%s is %lld", cases[i].text, (long long)number->bits);
        assert_int_equal(place->kind, GS_PTX_SYMBOL);
        assert_int_equal((int64_t)place->bits, cases[i].value);
        assert_int_equal(list->kind, GS_PTX_LIST);
        assert_int_equal(list->count, 2);
        assert_int_equal((int64_t)all[list->children].bits, cases[i].value);
        gs_ptx_free(&module);
        free(text);
    }
}

TEST(other_expressions_stay_unknown) {
    static const char *const cases[] = {"1.5*2.0", "1/0", "5 % 0"};
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_ptx_module module;
        gs_error error;
        char line[100];
        snprintf(line, sizeof line, ".entry f() { .reg .f64 %%f<9>; mov.f64 %%f1, %s; }\n", cases[i]);
        char *text = read_module(&module, line, GS_OK, &error);
        assert_int_not_equal(module.operands.data[instruction(&module, 0)->operands + 1].kind, GS_PTX_INTEGER);
        gs_ptx_free(&module);
        free(text);
    }
}

TEST(mistakes_have_a_place) {
    static const struct {
        const char *text;
        long line, column;
        const char *message;
    } cases[] = {
        {".entry f(.param .u32 a,) { }", 4, 24, "expected another parameter after the ','"},
        {".entry f( { }", 4, 11, "expected a state space, such as .reg or .param"},
        {".entry f() { add.s32 1 2; }", 4, 24, "expected ',' or ';'"},
        {".entry f() {\n @%p1 bra X; }", 5, 3, "undeclared predicate"},
        {".reg .b32 %g<9>;\n.entry f() { ret; }", 4, 11, "registers belong to a function: declare them in its braces"},
        {".entry f() { ret; ", 4, 19, "the module ends here; expected '}'"},
        {".entry f() { mov.b32 \"a, 1; }", 4, 22, "this string does not end on its line"},
        {".global .b32 x[2] = {1, 2;", 4, 21, "this bracket is not closed"},
        {"/* open", 4, 1, "this comment does not end"},
        {"ret;", 4, 1, "expected a variable or a function"},
        {".global .b64 x[2305843009213693953];", 4, 16, "the array exceeds the address space"},
        {".shared .b8 x[4294967296][4294967296];", 4, 27, "the array exceeds the address space"},
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_ptx_module module;
        gs_error error = {.code = GS_OK};
        char *text = read_module(&module, cases[i].text, GS_E_SYNTAX, &error);
        assert_string_equal(error.message, cases[i].message);
        assert_int_equal(error.line, cases[i].line);
        assert_int_equal(error.column, cases[i].column);
        assert_string_equal(error.file, "m.ptx");
        free(text);
    }
}

TEST(only_ptx_up_to_9_0_is_read) {
    gs_ptx_module module;
    gs_error error;
    assert_int_equal(gs_ptx_read(&module, "x", "int main;", 9, &error), GS_E_SYNTAX);
    assert_string_equal(error.message, "not PTX: expected .version");
    assert_int_equal(gs_ptx_read(&module, "x", ".version 9.9", 12, &error), GS_E_SYNTAX);
    assert_string_equal(error.message, "PTX 9.9 is not supported; the newest supported version is 9.0");
    assert_int_equal(gs_ptx_read(&module, "x", "", 0, &error), GS_E_SYNTAX);
    assert_int_equal(gs_ptx_read(&module, "x", ".version 8.0 .target", 20, &error), GS_E_SYNTAX);
}

/* ---- control flow ---- */

/* A kernel whose block i is labeled Li, and ends with a random branch or return. */
static char *random_kernel(gs_random *random, int blocks) {
    gs_text text = {0};
    gs_text_add(&text, ".entry f() { .reg .pred %%p;\n");
    for (int i = 0; i < blocks; i++) {
        gs_text_add(&text, "L%d: ", i);
        int64_t kind = gs_random_from(random, 0, 9), to = gs_random_from(random, 0, blocks - 1);
        if (kind < 6)
            gs_text_add(&text, "@%%p bra L%d;\n", (int)to);
        else if (kind < 7)
            gs_text_add(&text, "bra L%d;\n", (int)to);
        else
            gs_text_add(&text, kind < 8 ? "@%%p ret;\n" : kind < 9 ? "ret;\n" : "membar.gl;\n");
    }
    gs_text_add(&text, "}\n");
    return text.data;
}

/* Whether the exit can be reached from `from` without `without`. */
static bool reaches_exit(const gs_ptx_flow *flow, uint32_t from, uint32_t without, bool *seen) {
    if (from == without || (from < flow->blocks.count && seen[from]))
        return false;
    if (from >= flow->blocks.count)
        return true;
    seen[from] = true;
    for (int i = 0; i < 2; i++)
        if (flow->blocks.data[from].successors[i] != GS_PTX_NONE &&
            reaches_exit(flow, flow->blocks.data[from].successors[i], without, seen))
            return true;
    return false;
}

static bool post_dominates(const gs_ptx_flow *flow, uint32_t block, uint32_t from) {
    bool seen[64] = {false};
    return from == block || !reaches_exit(flow, from, block, seen);
}

static bool has_dependence(const gs_ptx_flow *flow, uint32_t block, uint32_t branch) {
    for (uint32_t i = flow->dependence_first[block]; i < flow->dependence_first[block + 1]; i++)
        if (flow->dependences.data[i].branch == branch)
            return true;
    return false;
}

/* A block depends on a branch if it post-dominates one of its edges, but not the branch itself. */
static bool depends(const gs_ptx_flow *flow, uint32_t block, uint32_t branch) {
    const uint32_t *edges = flow->blocks.data[branch].successors;
    bool after_one = false, after_all = true;
    if (edges[0] == GS_PTX_NONE || edges[1] == GS_PTX_NONE)
        return false;
    for (int i = 0; i < 2; i++) {
        bool is_after = edges[i] < flow->blocks.count && post_dominates(flow, block, edges[i]);
        after_one = after_one || is_after;
        after_all = after_all && is_after;
    }
    return after_one && (!after_all || block == branch) && (block == branch || !post_dominates(flow, block, branch));
}

TEST(dependences_are_those_of_the_definition) {
    int compared = 0;
    for (uint64_t index = 0; index < test_number("GRIDSMITH_RUNS", 100000) / 20; index++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), index);
        gs_ptx_module module;
        gs_ptx_flow flow;
        gs_error error;
        char *body = random_kernel(&random, (int)gs_random_from(&random, 1, 12));
        char *text = read_module(&module, body, GS_OK, &error);
        assert_int_equal(gs_ptx_flow_make(&flow, &module, 0, &error), GS_OK);
        bool is_endless = false;
        for (uint32_t b = 0; b < flow.blocks.count; b++)
            is_endless = is_endless || post_dominates(&flow, GS_PTX_NONE - 1, b);
        for (uint32_t b = 0; b < flow.blocks.count && !is_endless; b++)
            for (uint32_t branch = 0; branch < flow.blocks.count; branch++, compared++)
                if (has_dependence(&flow, b, branch) != depends(&flow, b, branch))
                    fail_msg("index %llu: block %u, branch %u\n%s", (unsigned long long)index, b, branch, body);
        gs_ptx_flow_free(&flow);
        gs_ptx_free(&module);
        free(text);
        free(body);
    }
    assert_true(compared > 0);
}

/* ---- uniformity ---- */

struct scopes {
    const char *text;
    bool has_whole_rows;
    gs_ptx_scope runs; /* of the block with `bar.sync` */
};

static gs_ptx_scope scope_of_barrier(const char *body, bool has_whole_rows) {
    gs_ptx_module module;
    gs_ptx_flow flow;
    gs_ptx_uniform uniform;
    gs_error error;
    gs_text whole = {0};
    gs_text_add(&whole,
                ".const .b32 table[4]; .entry f(.param .u32 n) { .reg .b32 %%r<9>; .reg .pred %%p<9>;\n%s\nret; }",
                body);
    char *text = read_module(&module, whole.data, GS_OK, &error);
    assert_int_equal(gs_ptx_flow_make(&flow, &module, 0, &error), GS_OK);
    assert_int_equal(gs_ptx_uniform_make(&uniform, &flow, has_whole_rows, &error), GS_OK);
    gs_ptx_scope scope = GS_PTX_SAME_THREAD;
    for (uint32_t i = 0; i < module.statements.count; i++)
        if (module.statements.data[i].opcode == GS_PTX_BARRIER && module.statements.data[i].kind == GS_PTX_INSTRUCTION)
            scope = (gs_ptx_scope)gs_max(uniform.runs[gs_ptx_flow_block(&flow, i)], uniform.guards[i]);
    gs_ptx_uniform_free(&uniform);
    gs_ptx_flow_free(&flow);
    gs_ptx_free(&module);
    free(text);
    gs_text_free(&whole);
    return scope;
}

TEST(divergence_is_seen) {
    static const struct scopes cases[] = {
        {"bar.sync 0;", false, GS_PTX_SAME_BLOCK},
        {"ld.param.u32 %r1, [n]; setp.eq.u32 %p1, %r1, 0; @%p1 bra X; bar.sync 0; X:", false, GS_PTX_SAME_BLOCK},
        {"mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra X; bar.sync 0; X:", false, GS_PTX_SAME_THREAD},
        {"mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra X; mov.u32 %r2, 1; X: bar.sync 0;", false,
         GS_PTX_SAME_BLOCK},
        {"mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 ret; bar.sync 0;", false, GS_PTX_SAME_THREAD},
        {"mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bar.sync 0;", false, GS_PTX_SAME_BLOCK},
        {"mov.u32 %r1, %laneid; setp.eq.u32 %p1, %r1, 0; @%p1 bar.sync 0;", false, GS_PTX_SAME_THREAD},
        /* written on one side of a divergent branch */
        {"mov.u32 %r1, %tid.x; mov.u32 %r2, 0; setp.eq.u32 %p1, %r1, 0; @%p1 bra X; mov.u32 %r2, 1; X: "
         "setp.eq.u32 %p2, %r2, 0; @%p2 bra Y; bar.sync 0; Y:",
         false, GS_PTX_SAME_THREAD},
        /* left in different iterations */
        {"mov.u32 %r1, %tid.x; mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L; "
         "setp.eq.u32 %p2, %r2, 5; @%p2 bra Y; bar.sync 0; Y:",
         false, GS_PTX_SAME_THREAD},
        {"mov.u32 %r1, 9; mov.u32 %r2, 0; L: bar.sync 0; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L;",
         false, GS_PTX_SAME_BLOCK},
        /* the register of a uniform value is used again for one that is not */
        {"mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra X; bar.sync 0; X: mov.u32 %r1, %tid.x; "
         "setp.eq.u32 %p1, %r1, 0; @%p1 bra Y; membar.gl; Y:",
         false, GS_PTX_SAME_BLOCK},
        /* whole warps */
        {"mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.eq.u32 %p1, %r2, 0; @%p1 bra X; bar.sync 0; X:", false,
         GS_PTX_SAME_THREAD},
        {"mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.eq.u32 %p1, %r2, 0; @%p1 bra X; bar.sync 0; X:", true,
         GS_PTX_SAME_WARP},
        {"mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 4; setp.eq.u32 %p1, %r2, 0; @%p1 bra X; bar.sync 0; X:", true,
         GS_PTX_SAME_THREAD},
        {"mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 31; @%p1 bra X; bar.sync 0; X:", true, GS_PTX_SAME_WARP},
        {"mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 32; @%p1 bra X; bar.sync 0; X:", true, GS_PTX_SAME_THREAD},
        {"mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r4, %r2, %r3, %r1; "
         "and.b32 %r5, %r4, -32; setp.eq.u32 %p1, %r5, 64; @%p1 bra X; bar.sync 0; X:",
         true, GS_PTX_SAME_WARP},
        {"mov.u32 %r1, %tid.x; add.u32 %r1, %r1, 5; shr.u32 %r2, %r1, 5; setp.eq.u32 %p1, %r2, 0; @%p1 bra X; "
         "bar.sync 0; X:",
         true, GS_PTX_SAME_THREAD},
        {"mov.u32 %r1, %tid.y; setp.eq.u32 %p1, %r1, 0; @%p1 bra X; bar.sync 0; X:", true, GS_PTX_SAME_WARP},
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++)
        if (scope_of_barrier(cases[i].text, cases[i].has_whole_rows) != cases[i].runs)
            fail_msg("case %zu: %d\n%s", i, (int)scope_of_barrier(cases[i].text, cases[i].has_whole_rows),
                     cases[i].text);
}

TEST_MAIN(NULL, NULL)
