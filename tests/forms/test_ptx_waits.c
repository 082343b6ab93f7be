/*
 * test_ptx_waits.c: which loops wait for other blocks.
 *
 * Each row is a loop, and the kernel around it also writes the word `flag`: either block 0 runs the loop and the others
 * write, or all run the loop and write after it. A loop that only another block can end must be refused, with any kind
 * of load: with fewer worker blocks than blocks the other one may never begin. A loop that ends by itself, or that
 * takes a lock, must be accepted.
 *
 * Registers: %flag and %other are the addresses of two parameters, %i is 0, %t the thread and %b the block; %p7 is
 * false in block 0. A loop that writes `flag` after it may go to `end` instead.
 */
#include "test.h"

#include "kernels/forms/forms.h"

static const char head[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.global .u32 word;\n"
    ".func (.param .b32 result) peek (.param .b64 at)\n{\n\t.reg .b64 %a<2>; .reg .b32 %r<2>;\n"
    "\tld.param.b64 %a1, [at];\n\tld.global.cg.b32 %r1, [%a1];\n\tst.param.b32 [result], %r1;\n\tret;\n}\n"
    ".func pass (.param .b64 at)\n{\n\t.reg .b64 %a<2>; .reg .b32 %r<2>; .reg .pred %p<2>;\n"
    "\tld.param.b64 %a1, [at];\nagain: ld.global.cg.b32 %r1, [%a1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra again; ret;\n}\n"
    ".func give (.param .b64 at)\n{\n\t.reg .b64 %a<2>; .reg .b32 %r<2>;\n"
    "\tld.param.b64 %a1, [at];\n\tatom.global.add.u32 %r1, [%a1], 1;\n\tret;\n}\n"
    ".func (.param .b32 result) take (.param .b64 at)\n{\n\t.reg .b64 %a<2>; .reg .b32 %r<2>;\n"
    "\tld.param.b64 %a1, [at];\n\tatom.global.exch.b32 %r1, [%a1], 0;\n\tst.param.b32 [result], %r1;\n\tret;\n}\n"
    ".visible .entry k(.param .u64 flag, .param .u64 other, .param .u32 n)\n{\n"
    "\t.reg .pred %p<8>; .reg .b32 %v, %w, %i, %t, %b; .reg .f32 %f; .reg .b64 %flag, %other, %next; .shared .b32 "
    "own[4];\n"
    "\tld.param.u64 %flag, [flag];\n\tld.param.u64 %other, [other];\n\tmov.u32 %i, 0;\n\tmov.u32 %t, %tid.x;\n"
    "\tmov.u32 %b, %ctaid.x;\n\tsetp.ne.u32 %p7, %b, 0;\n";

/* Other blocks write the word in code that is not after the loop, or after it. */
static const char elsewhere[] = "\t@%p7 bra write;\n", elsewhere_end[] =
                                                           "\tbra done;\nwrite:\n"
                                                           "\tst.global.u32 [%flag], 1;\ndone:\n\tret;\n}\n";
static const char behind_end[] = "\tst.global.u32 [%flag], 0;\nend:\n\tret;\n}\n";

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
    /* atomic operations that change something */
    {"a semaphore",
     "again: atom.global.add.u32 %v, [%flag], -1; setp.gt.s32 %p1, %v, 0; @%p1 bra out; "
     "atom.global.add.u32 %w, [%flag], 1; bra again; out:",
     false, true},
    {"a semaphore of which all blocks give a part back",
     "again: atom.global.add.u32 %v, [%flag], -1; setp.gt.s32 %p1, %v, 0; @%p1 bra out; "
     "atom.global.add.u32 %w, [%flag], 1; bra again; out:",
     true, true},
    {"a semaphore of which a function gives back",
     "again: atom.global.add.u32 %v, [%flag], -1; setp.gt.s32 %p1, %v, 0; @%p1 bra out; "
     "{ .param .b64 at; st.param.b64 [at], %flag; call.uni give, (at); } bra again; out:",
     false, true},
    {"a semaphore by a comparison",
     "ld.global.u32 %v, [%flag]; again: max.u32 %w, %v, 1; sub.u32 %i, %w, 1; "
     "atom.global.cas.b32 %v, [%flag], %w, %i; setp.ne.u32 %p1, %v, %w; @%p1 bra again;",
     false, true},
    {"an update that changes nothing and ends by another test",
     "ld.global.u32 %v, [%flag]; again: mov.u32 %w, %v; add.u32 %i, %w, 0; "
     "atom.global.cas.b32 %v, [%flag], %w, %i; setp.lt.u32 %p1, %v, 5; @%p1 bra again;",
     false, true},
    {"a semaphore by an update",
     "ld.global.cg.u32 %v, [%flag]; again: mov.u32 %w, %v; setp.eq.u32 %p2, %w, 0; @%p2 bra look; sub.u32 %i, %w, 1; "
     "atom.global.cas.b32 %v, [%flag], %w, %i; setp.ne.u32 %p1, %v, %w; @%p1 bra again; bra out; "
     "look: ld.global.cg.u32 %v, [%flag]; bra again; out:",
     false, true},
    {"a counter that waits for a sign",
     "again: ld.global.cg.u32 %w, [%other]; setp.eq.u32 %p2, %w, 0; @%p2 bra more; atom.global.add.u32 %i, [%flag], 1; "
     "more: setp.lt.u32 %p1, %i, 100; @%p1 bra again;",
     false, true},
    {"a bit that is not added",
     "again: atom.global.add.u32 %v, [%flag], 2; and.b32 %w, %v, 1; setp.eq.u32 %p1, %w, 0; @%p1 bra again;", false,
     true},
    {"a number that is passed over",
     "again: atom.global.add.u32 %v, [%flag], 2; setp.ne.u32 %p1, %v, 7; @%p1 bra again;", false, true},
    {"a bit that is not changed",
     "again: atom.global.xor.b32 %v, [%flag], 2; and.b32 %w, %v, 1; setp.eq.u32 %p1, %w, 0; @%p1 bra again;", false,
     true},
    {"an addition of nothing",
     "mov.u32 %w, 0; again: atom.global.add.u32 %v, [%flag], %w; setp.lt.u32 %p1, %v, 100; @%p1 bra again;", false,
     true},
    {"an addition of nothing to a float",
     "again: atom.global.add.f32 %f, [%flag], 0f00000000; setp.lt.f32 %p1, %f, 0f3F800000; @%p1 bra again;", false,
     true},
    {"an increment up to 0", "again: atom.global.inc.u32 %v, [%flag], 0; setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     false, true},
    {"an addition that is taken back",
     "mov.u32 %w, 1; again: atom.global.add.u32 %v, [%flag], %w; neg.s32 %w, %w; setp.lt.s32 %p1, %v, 8; "
     "@%p1 bra again;",
     false, true},
    {"a barrier of bits",
     "mov.u32 %w, 1; shl.b32 %w, %w, %b; again: atom.global.or.b32 %v, [%flag], %w; setp.ne.u32 %p1, %v, 15; "
     "@%p1 bra again;",
     true, true},
    {"the greatest block", "again: atom.global.max.u32 %v, [%flag], %b; setp.lt.u32 %p1, %v, 3; @%p1 bra again;", true,
     true},
    {"the greatest of negative numbers",
     "again: atom.global.max.s32 %v, [%flag], -2147483648; setp.ne.s32 %p1, %v, -7; @%p1 bra again;", false, true},
    {"the greatest with 0 where it is signed",
     "again: atom.global.max.s32 %v, [%flag], 0; setp.eq.s32 %p1, %v, 0; @%p1 bra again;", false, true},
    {"the block that has a lock",
     "add.u32 %w, %b, 1; again: atom.global.cas.b32 %v, [%flag], 0, %w; setp.ne.u32 %p1, %v, 4; @%p1 bra again;", true,
     true},
    {"three tokens",
     "again: atom.global.exch.b32 %v, [%flag], 0; setp.ne.u32 %p1, %v, 0; @%p1 add.u32 %i, %i, 1; "
     "setp.lt.u32 %p2, %i, 3; @%p2 bra again;",
     false, true},
    {"a token at one of four places",
     "again: and.b32 %w, %i, 3; mul.wide.u32 %next, %w, 4; add.u64 %next, %next, %flag; add.u32 %i, %i, 1; "
     "atom.global.cas.b32 %v, [%next], 1, 0; setp.ne.u32 %p1, %v, 1; @%p1 bra again;",
     false, true},
    {"a token that a block gives behind the loop, without having run it",
     "@%p7 bra join; again: atom.global.exch.b32 %v, [%flag], 0; setp.eq.u32 %p1, %v, 0; @%p1 bra again; "
     "join: setp.ne.u32 %p3, %b, 3; @%p3 bra end;",
     true, true},
    {"a token that a block gives in another turn of a loop around it",
     "outer: @%p7 bra give; again: atom.global.exch.b32 %v, [%flag], 0; setp.eq.u32 %p1, %v, 0; @%p1 bra again; "
     "bra join; give: atom.global.exch.b32 %w, [%flag], 1; join: add.u32 %i, %i, 1; setp.lt.u32 %p2, %i, 9; "
     "@%p2 bra outer; bra end;",
     true, true},
    {"a token that a thread of one block gives",
     "setp.ne.u32 %p3, %t, 0; @%p3 bra join; again: atom.global.exch.b32 %v, [%flag], 0; setp.eq.u32 %p1, %v, 0; "
     "@%p1 bra again; join: setp.ne.u32 %p4, %b, 3; @%p4 bra end;",
     true, true},
    {"a token that other blocks give when they find none",
     "again: atom.global.exch.b32 %v, [%flag], 0; setp.ne.u32 %p1, %v, 0; @%p1 bra out; @!%p7 bra again; "
     "atom.global.exch.b32 %w, [%flag], 1; out: bra end;",
     true, true},
    {"a token through shared memory",
     "again: setp.ne.u32 %p3, %t, 0; @%p3 bra meet; atom.global.exch.b32 %v, [%flag], 0; st.shared.u32 [own], %v; "
     "meet: bar.sync 0; ld.shared.u32 %w, [own]; bar.sync 0; setp.eq.u32 %p1, %w, 0; @%p1 bra again;",
     false, true},
    {"a function that takes a token",
     "again: { .param .b64 at; st.param.b64 [at], %flag; .param .b32 result; call.uni (result), take, (at); "
     "ld.param.b32 %v, [result]; } setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     false, true},
    {"a function that waits", "{ .param .b64 at; st.param.b64 [at], %flag; call.uni pass, (at); }", false, true},
    /* conditions around the end */
    {"an end behind another condition",
     "again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra more; st.global.u32 [%other], %t; "
     "setp.gt.u32 %p2, %b, 9; @!%p2 bra out; more: bra again; out:",
     false, true},
    {"an end behind another condition, with a plain load",
     "again: ld.global.cg.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra more; st.global.u32 [%other], %t; "
     "setp.gt.u32 %p2, %b, 9; @!%p2 bra out; more: bra again; out:",
     false, true},
    {"a look in every tenth turn",
     "again: add.u32 %i, %i, 1; rem.u32 %w, %i, 10; setp.ne.u32 %p2, %w, 0; @%p2 bra again; "
     "ld.global.cg.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     false, true},
    {"a variable that is set",
     "mov.u32 %w, 0; again: ld.global.cg.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @!%p1 bra more; mov.u32 %w, 1; "
     "more: setp.eq.u32 %p2, %w, 0; @%p2 bra again;",
     false, true},
    {"a word beside one that the loop counts",
     "again: atom.global.add.u32 %w, [%flag+4], 1; ld.global.cg.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; "
     "@%p1 bra again;",
     false, true},
    /* loops that end */
    {"a lock", "again: atom.global.cas.b32 %v, [%flag], 0, 1; setp.ne.u32 %p1, %v, 0; @%p1 bra again;", true, false},
    {"a lock by an exchange", "again: atom.global.exch.b32 %v, [%flag], 1; setp.ne.u32 %p1, %v, 0; @%p1 bra again;",
     true, false},
    {"a lock that one thread takes",
     "setp.ne.u32 %p3, %t, 0; @%p3 bra join; again: atom.global.cas.b32 %v, [%flag], 0, 1; setp.ne.u32 %p1, %v, 0; "
     "@%p1 bra again; join: bar.sync 0; @%p3 bra end;",
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
    {"a lock with the number of its block",
     "add.u32 %w, %b, 1; again: atom.global.cas.b32 %v, [%flag], 0, %w; setp.ne.u32 %p1, %v, 0; @%p1 bra again;", true,
     false},
    {"a lock by a bit",
     "again: atom.global.or.b32 %v, [%flag], 1; and.b32 %w, %v, 1; setp.ne.u32 %p1, %w, 0; @%p1 bra again;", true,
     false},
    {"a lock of some blocks",
     "setp.ge.u32 %p2, %b, 3; @%p2 bra end; setp.ne.u32 %p3, %t, 0; @%p3 bra join; "
     "again: atom.global.cas.b32 %v, [%flag], 0, 1; setp.ne.u32 %p1, %v, 0; @%p1 bra again; "
     "join: bar.sync 0; @%p3 bra end;",
     true, false},
    {"a lock that is held within the loop",
     "again: mov.u32 %w, 0; atom.global.cas.b32 %v, [%flag], 0, 1; setp.ne.u32 %p1, %v, 0; @%p1 bra more; "
     "atom.global.exch.b32 %i, [%flag], 0; mov.u32 %w, 1; more: setp.eq.u32 %p2, %w, 0; @%p2 bra again; bra end;",
     true, false},
    {"an insertion",
     "mov.b64 %next, %other; add.u32 %w, %b, 9; again: atom.global.cas.b32 %v, [%next], 0, %w; add.u64 %next, %next, "
     "4; "
     "setp.eq.u32 %p1, %v, 0; setp.eq.u32 %p2, %v, %w; or.pred %p3, %p1, %p2; @!%p3 bra again;",
     false, false},
    {"an update with a second end",
     "ld.global.u32 %v, [%flag]; again: mov.b32 %w, %v; setp.gt.u32 %p2, %w, %t; @%p2 bra out; "
     "atom.global.cas.b32 %v, [%flag], %w, %t; setp.ne.u32 %p1, %v, %w; @%p1 bra again; out:",
     false, false},
    {"a counter in steps",
     "ld.param.u32 %w, [n]; again: atom.global.add.u32 %v, [%flag], %w; setp.lt.u32 %p1, %v, 100; @%p1 bra again;",
     false, false},
    {"a counter whose comparison is a number",
     "again: atom.global.add.u32 %v, [%flag], 32; setp.lt.u32 %p1, %v, 100; selp.b32 %w, 2, 0, %p1; "
     "setp.ne.u32 %p2, %w, 0; @%p2 bra again;",
     false, false},
    {"a counter in two places",
     "again: atom.global.add.u32 %v, [%flag], 1; setp.lt.u32 %p1, %v, 50; @%p1 bra again; "
     "atom.global.add.u32 %v, [%flag], 2; setp.lt.u32 %p1, %v, 100; @%p1 bra again;",
     false, false},
    {"a counter that one thread reads",
     "again: setp.ne.u32 %p3, %t, 0; @%p3 bra meet; atom.global.add.u32 %v, [%flag], 1; st.shared.u32 [own], %v; "
     "meet: bar.sync 0; ld.shared.u32 %w, [own]; bar.sync 0; setp.lt.u32 %p1, %w, 100; @%p1 bra again;",
     false, false},
    {"a token, for some turns",
     "again: atom.global.exch.b32 %v, [%flag], 0; add.u32 %i, %i, 1; setp.eq.u32 %p1, %v, 0; setp.lt.u32 %p2, %i, 9; "
     "and.pred %p3, %p1, %p2; @%p3 bra again;",
     false, false},
    {"a word that no block writes",
     "again: ld.volatile.global.u32 %v, [%other]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", false, false},
    {"a branch backward that closes no loop",
     "bra second; first: bra out; second: ld.global.cg.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra first; "
     "st.global.u32 [%other], %v; out:",
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
                rows[row].is_behind ? behind_end : elsewhere_end);
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
            assert_true(strstr(error.message, "waits in a loop for memory that another block may write") ||
                        strstr(error.message, "calls a function that may wait for memory that another block writes"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(loops_that_only_another_block_can_end_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
