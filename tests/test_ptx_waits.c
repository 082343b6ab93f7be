/*
 * test_ptx_waits.c: which loops wait for other blocks.
 *
 * Each row is the loop of a kernel whose block 0 runs it, while all blocks but the first write the word `flag`, before
 * it or elsewhere. A loop that only another block can end must be refused, whatever it reads with: with fewer worker
 * blocks than blocks the other one may never begin. A loop that ends by itself, or that takes a lock, must not be.
 *
 * Registers: %flag and %other are the addresses of two parameters, %i is 0.
 */
#include "test.h"

#include "reshape/reshape.h"

static const char head[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.global .u32 word;\n"
    ".func (.param .b32 result) peek (.param .b64 at)\n{\n\t.reg .b64 %a<2>; .reg .b32 %r<2>;\n"
    "\tld.param.b64 %a1, [at];\n\tld.global.cg.b32 %r1, [%a1];\n\tst.param.b32 [result], %r1;\n\tret;\n}\n"
    ".visible .entry k(.param .u64 flag, .param .u64 other)\n{\n"
    "\t.reg .pred %p<8>; .reg .b32 %v, %w, %i, %t, %b; .reg .b64 %flag, %other, %next; .shared .b32 own[4];\n"
    "\tld.param.u64 %flag, [flag];\n\tld.param.u64 %other, [other];\n\tmov.u32 %i, 0;\n\tmov.u32 %t, %tid.x;\n"
    "\tmov.u32 %b, %ctaid.x;\n\tsetp.ne.u32 %p7, %b, 0;\n";

/* Other blocks write the word in code that is not behind the loop, or behind it. */
static const char elsewhere[] = "\t@%p7 bra write;\n", elsewhere_end[] =
                                                           "\tbra done;\nwrite:\n"
                                                           "\tst.global.u32 [%flag], 1;\ndone:\n\tret;\n}\n";
static const char behind_end[] = "\tst.global.u32 [%flag], 0;\n\tret;\n}\n";

static const struct {
    const char *what, *loop;
    bool is_behind, is_refused;
} rows[] = {
    {"a volatile load", "again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", false,
     true},
    {"ld.cv", "again: ld.global.cv.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", false, true},
    {"ld.cg", "again: ld.global.cg.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", false, true},
    {"a plain load", "again: membar.gl; ld.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", false,
     true},
    {"a generic load", "again: ld.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", false, true},
    {"a load of a vector",
     "again: ld.global.v2.u32 {%v, %w}, [%flag]; or.b32 %i, %v, %w; setp.eq.u32 %p1, %i, 0; "
     "@%p1 bra again;",
     false, true},
    {"a load that another end does not end",
     "again: ld.global.cg.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 7; @%p1 bra out; setp.eq.u32 %p2, %v, 0; "
     "@%p2 bra again; out:",
     false, true},
    {"a load with a pause",
     "again: ld.global.cg.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @%p1 bra out; mov.u32 %w, 0; "
     "pause: add.u32 %w, %w, 1; setp.lt.u32 %p2, %w, 100; @%p2 bra pause; bra again; out:",
     false, true},
    {"a load beside a store elsewhere",
     "again: st.global.u32 [%other], %t; ld.global.cg.u32 %v, [%flag]; "
     "setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     false, true},
    {"a vote",
     "again: ld.global.cg.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; vote.sync.any.pred %p2, %p1, 0xffffffff; "
     "@!%p2 bra again;",
     false, true},
    {"shared memory",
     "again: ld.volatile.global.u32 %v, [%flag]; st.shared.u32 [own], %v; bar.sync 0; "
     "ld.shared.u32 %w, [own]; bar.sync 0; setp.eq.u32 %p1, %w, 0; @%p1 bra again;",
     false, true},
    {"shared memory and a plain load",
     "again: ld.global.u32 %v, [%flag]; st.shared.u32 [own], %v; bar.sync 0; "
     "ld.shared.u32 %w, [own]; bar.sync 0; setp.eq.u32 %p1, %w, 0; @%p1 bra again;",
     false, true},
    {"a copy to shared memory",
     "again: cp.async.ca.shared.global [own], [%flag], 4; cp.async.wait_all; ld.shared.u32 %w, [own]; "
     "setp.eq.u32 %p1, %w, 0; @%p1 bra again;",
     false, true},
    {"a function",
     "again: { .param .b64 at; st.param.b64 [at], %flag; .param .b32 result; call.uni (result), peek, (at); "
     "ld.param.b32 %v, [result]; } setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     false, true},
    {"a comparison with itself",
     "again: atom.global.cas.b32 %v, [%flag], 1, 1; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", false, true},
    {"and with all bits", "again: atom.global.and.b32 %v, [%flag], -1; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", true,
     true},
    {"the least with the most", "again: atom.global.min.u32 %v, [%flag], -1; setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     true, true},
    {"a token by an exchange", "again: atom.global.exch.b32 %v, [%flag], 0; setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     false, true},
    {"a token by a comparison", "again: atom.global.cas.b32 %v, [%flag], 1, 0; setp.ne.u32 %p1, %v, 1; @%p1 bra again;",
     false, true},
    {"a lock", "again: atom.global.cas.b32 %v, [%flag], 0, 1; setp.ne.u32 %p1, %v, 0; @%p1 bra again;", true, false},
    {"a lock by an exchange", "again: atom.global.exch.b32 %v, [%flag], 1; setp.ne.u32 %p1, %v, 0; @%p1 bra again;",
     true, false},
    {"a lock that one thread takes",
     "setp.ne.u32 %p3, %t, 0; @%p3 bra join; again: atom.global.cas.b32 %v, [%flag], 0, 1; setp.ne.u32 %p1, %v, 0; "
     "@%p1 bra again; join: bar.sync 0; @%p3 bra done;",
     true, false},
    {"an update",
     "ld.global.u32 %v, [%flag]; again: mov.b32 %w, %v; add.u32 %i, %w, 3; "
     "atom.global.cas.b32 %v, [%flag], %w, %i; setp.ne.u32 %p1, %v, %w; @%p1 bra again;",
     false, false},
    {"a counter of work", "again: atom.global.add.u32 %v, [%flag], 1; setp.lt.u32 %p1, %v, 100; @%p1 bra again;", false,
     false},
    {"a loop to a number in memory",
     "again: st.global.u32 [%other], %i; add.u32 %i, %i, 1; ld.global.u32 %v, [%flag]; "
     "setp.lt.u32 %p1, %i, %v; @%p1 bra again;",
     false, false},
    {"a number that the loop changes",
     "again: ld.global.u32 %v, [%flag]; sub.u32 %v, %v, 1; st.global.u32 [%flag], %v; "
     "setp.gt.s32 %p1, %v, 0; @%p1 bra again;",
     false, false},
    {"a list", "mov.b64 %next, %flag; again: ld.global.u64 %next, [%next]; setp.ne.u64 %p1, %next, 0; @%p1 bra again;",
     false, false},
    {"a limit",
     "again: ld.global.cg.u32 %v, [%flag]; add.u32 %i, %i, 1; setp.ne.u32 %p1, %v, 0; @%p1 bra out; "
     "setp.lt.u32 %p2, %i, 1000; @%p2 bra again; out:",
     false, false},
    {"a clock",
     "again: ld.global.cg.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @%p1 bra out; mov.u32 %w, %clock; "
     "setp.lt.u32 %p2, %w, 1000; @%p2 bra again; out:",
     false, false},
    {"a counter in shared memory",
     "again: ld.volatile.global.u32 %v, [%other]; atom.shared.add.u32 %w, [own], %v; bar.sync 0; "
     "ld.shared.u32 %w, [own]; bar.sync 0; setp.lt.u32 %p1, %w, 100; @%p1 bra again;",
     false, false},
};

static gs_code reshape(size_t row, gs_error *error) {
    gs_ptx_options options = {.form = GS_FORM_PERSISTENT};
    gs_ptx_module module;
    gs_text text = {0};
    gs_text_add(&text, "%s%s%s\n%s", head, rows[row].is_behind ? "" : elsewhere, rows[row].loop,
                rows[row].is_behind ? "done:" : elsewhere_end);
    if (rows[row].is_behind)
        gs_text_add(&text, "%s", behind_end);
    if (gs_ptx_read(&module, "k.ptx", text.data, text.count, error) != GS_OK)
        fail_msg("%s: %ld: %s", rows[row].what, error->line, error->message);
    gs_code code = gs_ptx_reshape(&module, (uint32_t)gs_ptx_find_function(&module, "k"), &options, NULL, NULL, error);
    gs_ptx_free(&module);
    gs_text_free(&text);
    return code;
}

static void loops_that_only_another_block_can_end_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_error error = {.code = GS_OK};
        gs_code code = reshape(i, &error);
        if (code != (rows[i].is_refused ? GS_E_REFUSED : GS_OK))
            fail_msg("%s: %s %s", rows[i].what, code == GS_OK ? "accepted" : "refused", error.message);
        if (rows[i].is_refused)
            assert_non_null(strstr(error.message, "waits in a loop for memory that another block may write"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(loops_that_only_another_block_can_end_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
