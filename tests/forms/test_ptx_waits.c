/*
 * test_ptx_waits.c: which loops wait for other blocks.
 *
 * Each row is a loop, and the kernel around it also writes the word `flag`: either block 0 runs the loop and the others
 * write, or all run the loop and write after it. A loop that only another block can end must be refused, with any kind
 * of load: with fewer worker blocks than blocks the other one may never begin. A loop that ends by itself, or that
 * takes a lock, must be accepted.
 *
 * Registers: %flag and %other are the addresses of two parameters, %i is 0, %t the thread and %b the block; %p7 is
 * false in block 0. A loop that writes `flag` after it may go to `end` instead. A line before the loop has the limits
 * of the kernel, or a function.
 */
#include "test.h"

#include "kernels/forms/forms.h"
#include "variations.h"

static const char head[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.global .u32 word;\n"
    ".func (.param .b32 result) peek (.param .b64 at)\n{\n\t.reg .b64 %a<2>; .reg .b32 %r<2>;\n"
    "\tld.param.b64 %a1, [at];\n\tld.global.cg.b32 %r1, [%a1];\n\tst.param.b32 [result], %r1;\n\tret;\n}\n"
    ".func pass (.param .b64 at)\n{\n\t.reg .b64 %a<2>; .reg .b32 %r<2>; .reg .pred %p<2>;\n"
    "\tld.param.b64 %a1, [at];\nagain: ld.global.cg.b32 %r1, [%a1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra again; ret;\n}\n"
    ".func give (.param .b64 at)\n{\n\t.reg .b64 %a<2>; .reg .b32 %r<2>;\n"
    "\tld.param.b64 %a1, [at];\n\tatom.global.add.u32 %r1, [%a1], 1;\n\tret;\n}\n"
    ".extern .func __assertfail;\n"
    ".func (.param .b32 result) count (.param .b64 at)\n{\n\t.reg .b64 %a<2>; .reg .b32 %r<2>;\n"
    "\tld.param.b64 %a1, [at];\n\tcvt.u32.u64 %r1, %a1;\n\tst.param.b32 [result], %r1;\n\tret;\n}\n"
    ".func set (.param .b64 at)\n{\n\t.reg .b64 %a<2>;\n"
    "\tld.param.b64 %a1, [at];\n\tst.u32 [%a1], 1;\n\tret;\n}\n"
    ".func (.param .b32 result) take (.param .b64 at)\n{\n\t.reg .b64 %a<2>; .reg .b32 %r<2>;\n"
    "\tld.param.b64 %a1, [at];\n\tatom.global.exch.b32 %r1, [%a1], 0;\n\tst.param.b32 [result], %r1;\n\tret;\n}\n"
    ".func order ()\n{\n\tmembar.gl; ret;\n}\n"
    ".func (.param .b32 result) look (.param .b64 at)\n{\n\t.reg .b64 %a<2>; .reg .b32 %r<2>;\n"
    "\tld.param.b64 %a1, [at];\n\tld.global.b32 %r1, [%a1];\n\tst.param.b32 [result], %r1;\n\tret;\n}\n"
    ".func hold (.param .b32 at)\n{\n\t.reg .b32 %r<3>; .reg .pred %p<2>;\n"
    "\tld.param.b32 %r1, [at];\nagain: ld.volatile.shared.b32 %r2, [%r1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra again; "
    "ret;\n}\n"
    ".func forward (.param .b64 at, .param .b32 to)\n{\n\t.reg .b64 %a<2>; .reg .b32 %r<4>; .reg .pred %p<2>;\n"
    "\tld.param.b64 %a1, [at];\n\tld.param.b32 %r1, [to];\nagain: membar.gl; ld.global.b32 %r2, [%a1]; "
    "st.shared.b32 [%r1], %r2; ld.volatile.shared.b32 %r3, [%r1+4]; setp.eq.u32 %p1, %r3, 0; @%p1 bra again; ret;\n}\n"
    /* these on one line: decisions on variations know the lines */
    ".extern .func (.param .b64 result) malloc (.param .b64 size); "
    ".func (.param .b64 result) get (.param .b64 size) { .reg .b64 %a<3>; ld.param.b64 %a1, [size]; "
    "{ .param .b64 x; .param .b64 y; st.param.b64 [x], %a1; call.uni (y), malloc, (x); ld.param.b64 %a2, [y]; } "
    "st.param.b64 [result], %a2; ret; } "
    ".func insist () { .reg .b64 %a<3>; .reg .pred %p<2>; again: "
    "{ .param .b64 x; .param .b64 y; st.param.b64 [x], 64; call.uni (y), malloc, (x); ld.param.b64 %a2, [y]; } "
    "setp.eq.u64 %p1, %a2, 0; @%p1 bra again; ret; } "
    ".visible .entry k(.param .u64 flag, .param .u64 other, .param .u32 n)\n{\n"
    "\t.reg .pred %p<8>; .reg .b32 %v, %w, %i, %t, %b; .reg .f32 %f; .reg .b64 %flag, %other, %next; .shared .b32 "
    "own[4];\n"
    "\tld.param.u64 %flag, [flag];\n\tld.param.u64 %other, [other];\n\tmov.u32 %i, 0;\n\tmov.u32 %t, %tid.x;\n"
    "\tmov.u32 %b, %ctaid.x;\n\tsetp.ne.u32 %p7, %b, 0;\n";

/* Who else writes the word: other blocks than the first, which does not run the loop; all, after the loop, with 0 or
   with 1; nobody. */
enum writer { ELSEWHERE, BEHIND, BEHIND_1, NOBODY };

static const char *const before[] = {"\t@%p7 bra write;\n", "", "", ""};
static const char *const after[] = {"\tbra done;\nwrite:\n\tst.global.u32 [%flag], 1;\ndone:\n\tret;\n}\n",
                                    "\tst.global.u32 [%flag], 0;\nend:\n\tret;\n}\n",
                                    "\tst.global.u32 [%flag], 1;\nend:\n\tret;\n}\n", "end:\n\tret;\n}\n"};

/* A ticket of the block comes to all threads through shared memory, which is then used for something else. */
#define TICKET(between)                                                                                                \
    ".reg .b32 %mine, %at, %x, %y; .reg .b64 %far; setp.ne.u32 %p1, %t, 0; mov.u32 %at, own; @%p1 bra have; "          \
    "atom.global.add.u32 %v, [%other], 1; st.shared.u32 [own], %v; have: bar.sync 0; " between                         \
    "ld.shared.u32 %mine, [own]; "
#define REUSE "bar.sync 0; st.shared.u32 [%at], %t; "
/* Each thread waits for one of the block before. */
#define LOOK_BACK "mad.lo.u32 %w, %mine, 256, %t; " LOOK_BACK_AT
#define LOOK_BACK_AT                                                                                                   \
    "mul.wide.u32 %far, %w, 4; add.u64 %next, %flag, %far; "                                                           \
    "setp.eq.u32 %p2, %mine, 0; @%p2 bra tell; again: ld.volatile.global.u32 %i, [%next+-1024]; "                      \
    "setp.eq.u32 %p3, %i, 0; @%p3 bra again; tell: st.volatile.global.u32 [%next], 1; "

/* What was read is stored in a queue, with an index that a test limits; the word behind the queue counts iterations. */
#define QUEUE(test, store)                                                                                             \
    "{ .reg .b32 %k, %l, %m, %x; again: ld.volatile.global.u32 %v, [%flag]; atom.shared.add.u32 %k, [own+12], "        \
    "1; " test "shl.b32 %x, %k, 2; mov.u32 %l, own; add.u32 %m, %l, %x; " store "full: add.u32 %i, %i, 1; "            \
    "st.shared.u32 [own+8], %i; ld.shared.u32 %w, [own+8]; setp.lt.u32 %p2, %w, 9; @%p2 bra again; }"

/* The first thread reads the flag of other blocks and writes something, until another thread, which waits for that, has
   ended. */
#define FORWARD(write, read)                                                                                           \
    "@%p7 st.volatile.global.u32 [%flag], 1; setp.ne.u32 %p1, %t, 0; @%p1 bra second; again: "                         \
    "ld.volatile.global.u32 %v, [%flag]; " write "ld.volatile.shared.u32 %w, [own+4]; setp.eq.u32 %p2, %w, 0; "        \
    "@%p2 bra again; bra end; second: " read "st.volatile.shared.u32 [own+4], 1; "
#define WAIT(load) "hear: " load " setp.eq.u32 %p3, %v, 0; @%p3 bra hear; "
#define AWAIT(word, number)                                                                                            \
    "again: ld.volatile.global.u32 %v, " word "; setp.eq.u32 %p1, %v, " number "; @%p1 bra again; "
/* Blocks wait until a word has a number, and write the next, which is %w. */
#define TURN(number, next)                                                                                             \
    "{ .reg .b32 %z, %last; " next "again: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, " number "; "      \
    "@%p1 bra again; st.volatile.global.u32 [%flag], %w; } "
/* The word of the block. */
#define OF_BLOCK_WORD "mad.wide.u32 %next, %b, 4, %flag; "
/* Blocks take tickets of a counter, and wait for the flag of the ticket before, which only some blocks write. */
#define STORE(base, changes)                                                                                           \
    "{ .reg .b64 %where, %from, %to; mov.u64 %where, word; cvta.to.global.u64 %from, %where; "                         \
    "ld.global.u64 %away, [%from+8]; add.u64 %to, " base ", %away; " changes "st.global.u8 [%to], 0; } "
#define TICKET_OF(address)                                                                                             \
    "{ .reg .b64 %far, %away, %ours; .reg .b32 %mine, %y; " address "atom.global.add.u32 %mine, [%ours], 1; "          \
    "mul.wide.u32 %far, %mine, 4; add.u64 %next, %flag, %far; @%p7 bra give; setp.eq.u32 %p1, %mine, 0; @%p1 bra "     \
    "end; "                                                                                                            \
    "again: ld.volatile.global.u32 %v, [%next+-4]; setp.eq.u32 %p2, %v, 0; @%p2 bra again; bra end; "                  \
    "give: st.volatile.global.u32 [%next], 1; }"
/* %y is 0 where `tested` is equal, and else `number`; each block waits for the flag of the number before. */
#define CHOICE(tested, number, before, between)                                                                        \
    "{ .reg .b64 %far, %away; .reg .b32 %x, %y; " before "setp.eq.u32 %p1, " tested "; " between                       \
    "@%p1 bra none; mov.u32 %y, " number "; mul.wide.u32 %away, " number ", 4; add.u64 %next, %flag, %away; again: "   \
    "ld.volatile.global.u32 %v, [%next+-4]; setp.eq.u32 %p2, %v, 0; @%p2 bra again; bra tell; none: mov.u32 %y, 0; "   \
    "tell: mul.wide.u32 %far, %y, 4; add.u64 %next, %flag, %far; st.volatile.global.u32 [%next], 1; }"
/* %next is memory that a function allocates. */
#define ALLOCATE(call)                                                                                                 \
    "{ .param .b64 size; .param .b64 got; st.param.b64 [size], 64; " call "ld.param.b64 %next, [got]; } "
#define MALLOC ALLOCATE("call.uni (got), malloc, (size); ")
/* A lock with tickets. */
#define TICKET_LOCK(next, serving)                                                                                     \
    "{ .reg .b64 %far, %near, %ours; .reg .b32 %mine, %found, %more; mul.wide.u32 %near, %t, 4; "                      \
    "mul.wide.u32 %far, %b, 8; " next serving "atom.global.add.u32 %mine, [%ours], 1; "                                \
    "again: ld.volatile.global.u32 %found, [%next+4]; setp.ne.u32 %p1, %found, %mine; @%p1 bra again; "                \
    "add.u32 %more, %mine, 1; st.volatile.global.u32 [%next+4], %more; }"

/* Each block tells that it is there, and waits for those before it, the nearest first; `address` makes %next of %w. */
#define BACKWARD(address)                                                                                              \
    "{ .reg .b64 %far, %away, %mine; .reg .b32 %x; mul.wide.u32 %away, %b, 4; add.u64 %mine, %flag, %away; "           \
    "st.volatile.global.u32 [%mine], 1; mov.u32 %w, %b; more: setp.eq.u32 %p2, %w, 0; @%p2 bra end; "                  \
    "sub.u32 %w, %w, 1; " address "again: ld.volatile.global.u32 %v, [%next]; setp.eq.u32 %p1, %v, 0; "                \
    "@%p1 bra again; bra more; }"

/* Each block waits for the one before the block %y of the first lane. */
#define BEFORE(named)                                                                                                  \
    "{ .reg .b64 %far, %away, %mine; .reg .b32 %x, %y; mul.wide.u32 %away, %b, 4; add.u64 %mine, %flag, %away; "       \
    "setp.eq.u32 %p2, %b, 0; @%p2 bra tell; " named "shfl.sync.idx.b32 %x, %y, 0, 31, 0xffffffff; "                    \
    "mul.wide.u32 %far, %x, 4; add.u64 %next, %flag, %far; again: ld.volatile.global.u32 %v, [%next+-4]; "             \
    "setp.eq.u32 %p1, %v, 0; @%p1 bra again; tell: st.volatile.global.u32 [%mine], 1; }"

/* A word is read and swapped, until nobody else was faster. The two addresses are computed one by one. */
#define SWAP(one, other)                                                                                               \
    "{ .reg .b32 %x, %y, %k, %l; .reg .b64 %far, %near, %ours; " one                                                   \
    " mul.wide.u32 %far, %x, 4; add.u64 %next, %flag, %far; " other                                                    \
    " mul.wide.u32 %near, %y, 4; add.u64 %ours, %flag, %near; again: ld.volatile.global.u32 %v, [%next]; "             \
    "add.u32 %i, %v, 1; atom.global.cas.b32 %w, [%ours], %v, %i; setp.ne.u32 %p1, %w, %v; @%p1 bra again; }"

/* while (!done) if (takes the lock) { ...; done = true; } */
#define DONE(take, protected, always)                                                                                  \
    "again: atom.global." take "; setp.eq.u32 %p1, %v, 0; @!%p1 bra busy; " protected "busy: " always "@!%p1 bra "     \
                                                                                      "again;"
/* %c is how many lanes are in a ballot. */
#define LANES(before, predicate)                                                                                       \
    "{ .reg .b32 %m, %c, %x, %y, %mine; .reg .b64 %far; " before "vote.sync.ballot.b32 %m, " predicate                 \
    ", -1; popc.b32 %c, %m; "
#define COUNT_LANES "again: atom.global.add.u32 %v, [%flag], %c; setp.lt.u32 %p1, %v, 100; @%p1 bra again; }"
/* Block 0 waits for the flag of its ticket, the others set that of theirs. */
#define TICKET_BY(step)                                                                                                \
    "atom.global.add.u32 %mine, [%other], " step "; mul.wide.u32 %far, %mine, 4; add.u64 %next, %flag, %far; "         \
    "@%p7 bra give; again: ld.volatile.global.u32 %v, [%next]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; "      \
    "give: st.volatile.global.u32 [%next], 1; }"
/* Block 0 waits for its flag, which all others set; those that are block 0 would set it again. */
#define REPEATED                                                                                                       \
    "{ .reg .b64 %far; mul.wide.u32 %far, %b, 4; add.u64 %next, %flag, %far; setp.eq.u32 %p3, %b, 0; @%p7 bra more; "  \
    "again: ld.volatile.global.u32 %v, [%next]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; "                              \
    "more: st.volatile.global.u32 [%flag], 1; add.u32 %i, %i, 1; setp.gt.u32 %p2, %i, 3; @%p2 bra end; "               \
    "@%p3 bra more; }"

static const struct {
    const char *what, *loop;
    enum writer writer;
    bool is_refused;
} rows[] = {
    {"a word that is swapped", SWAP("mov.u32 %k, %tid.x; xor.b32 %x, %k, 3;", "mov.u32 %l, %tid.x; xor.b32 %y, %l, 3;"),
     NOBODY, false},
    {"a word that is swapped, and another mask", SWAP("xor.b32 %x, %t, 3;", "xor.b32 %y, %t, 5;"), NOBODY, true},
    {"a word that is swapped, and another number",
     SWAP("mov.u32 %k, %tid.x; xor.b32 %x, %k, 3;", "mov.u32 %l, %tid.y; xor.b32 %y, %l, 3;"), NOBODY, true},
    {"a word that is swapped, and another operation", SWAP("xor.b32 %x, %t, 3;", "or.b32 %y, %t, 3;"), NOBODY, true},
    {"a ticket in shared memory that is used again", ".maxntid 384\n" TICKET("") REUSE LOOK_BACK, NOBODY, false},
    {"a ticket, and words that are far apart by a number that is not known",
     ".maxntid 256\n" TICKET(
         "") "mov.u32 %x, %clock; mul.lo.u32 %y, %t, %x; mad.lo.u32 %w, %mine, 256, %y; " LOOK_BACK_AT,
     NOBODY, true},
    {"a ticket, and words that are far apart by a number of the block",
     ".maxntid 128\n" TICKET("") "mov.u32 %x, %ctaid.y; mad.lo.u32 %w, %mine, 256, %x; " LOOK_BACK_AT, NOBODY, true},
    {"the same, and the number comes first",
     ".maxntid 256\n" TICKET(
         "") "mov.u32 %x, %clock; mul.lo.u32 %y, %x, %t; mad.lo.u32 %w, %mine, 256, %y; " LOOK_BACK_AT,
     NOBODY, true},
    {"the same, and the number is known",
     ".maxntid 256\n" TICKET("") "mov.u32 %x, 1; mul.lo.u32 %y, %x, %t; mad.lo.u32 %w, %mine, 256, %y; " LOOK_BACK_AT,
     NOBODY, false},
    {"the same, and the number is too large",
     ".maxntid 256\n" TICKET("") "mov.u32 %x, 4; mul.lo.u32 %y, %x, %t; mad.lo.u32 %w, %mine, 256, %y; " LOOK_BACK_AT,
     NOBODY, true},
    {"flags of all lower blocks, by a product", BACKWARD("mul.wide.u32 %far, %w, 4; add.u64 %next, %flag, %far; "),
     NOBODY, false},
    {"flags of all lower blocks, by a product with the number first",
     BACKWARD("mul.lo.u32 %x, 4, %w; cvt.u64.u32 %far, %x; add.u64 %next, %flag, %far; "), NOBODY, false},
    {"flags of all lower blocks, by a sum of a product", BACKWARD("mad.wide.u32 %next, %w, 4, %flag; "), NOBODY, false},
    {"flags of all lower blocks, and a number in front of the pointer",
     BACKWARD("mul.wide.u32 %far, %w, 4; .reg .b64 %from; add.u64 %from, 0, %flag; add.u64 %next, %from, %far; "),
     NOBODY, false},
    {"flags of all lower blocks, by a shift",
     BACKWARD("shl.b32 %x, %w, 2; cvt.u64.u32 %far, %x; add.u64 %next, %far, %flag; "), NOBODY, false},
    {"flags of blocks that a lane names, from another iteration perhaps",
     BACKWARD("shfl.sync.idx.b32 %x, %w, 0, 31, 0xffffffff; mul.wide.u32 %far, %x, 4; add.u64 %next, %flag, %far; "),
     NOBODY, true},
    {"the block before the one that a lane names", BEFORE("mov.u32 %y, %b; "), NOBODY, false},
    {"the block before a number that a lane names", BEFORE("add.u32 %y, %b, %t; "), NOBODY, true},
    {"the block before a word that a lane names", BEFORE("ld.global.u32 %y, [%other]; "), NOBODY, true},
    {"the block before a time that a lane names", BEFORE("mov.u32 %y, %clock; "), NOBODY, true},
    {"words that differ in their low bits",
     "{ .reg .b64 %far, %wide; cvt.u64.u32 %wide, %t; mul.lo.u64 %far, %wide, 8; add.u64 %next, %flag, %far; "
     "st.volatile.global.u32 [%next+4], 1; again: ld.volatile.global.u32 %v, [%next]; setp.eq.u32 %p1, %v, 0; @%p1 bra "
     "again; }",
     NOBODY, false},
    {"words that differ in their low bits, by a mask",
     "{ .reg .b64 %far, %wide; cvt.u64.u32 %wide, %t; and.b64 %far, %wide, -8; add.u64 %next, %flag, %far; "
     "st.volatile.global.u32 [%next+4], 1; again: ld.volatile.global.u32 %v, [%next]; setp.eq.u32 %p1, %v, 0; @%p1 bra "
     "again; }",
     NOBODY, false},
    {"words that differ in their low bits, by a shift",
     "{ .reg .b64 %far, %wide; cvt.u64.u32 %wide, %t; shl.b64 %far, %wide, 3; add.u64 %next, %flag, %far; "
     "st.volatile.global.u32 [%next+4], 1; again: ld.volatile.global.u32 %v, [%next]; setp.eq.u32 %p1, %v, 0; @%p1 bra "
     "again; }",
     NOBODY, false},
    {"odd words are read, and even ones are written",
     "{ .reg .b64 %far, %wide, %twice, %odd, %even, %to; cvt.u64.u32 %wide, %t; shl.b64 %twice, %wide, 1; "
     "add.u64 %odd, %twice, 1; mul.lo.u64 %far, %odd, 4; mul.lo.u64 %even, %twice, 4; add.u64 %next, %flag, %far; "
     "add.u64 %to, %flag, %even; st.volatile.global.u32 [%to], 1; again: ld.volatile.global.u32 %v, [%next]; "
     "setp.eq.u32 %p1, %v, 0; @%p1 bra again; }",
     NOBODY, false},
    {"words that do not differ in their low bits: the block before writes them",
     "{ .reg .b64 %far, %wide; cvt.u64.u32 %wide, %b; mul.lo.u64 %far, %wide, 4; add.u64 %next, %flag, %far; "
     "st.volatile.global.u32 [%next+4], 1; again: ld.volatile.global.u32 %v, [%next]; setp.eq.u32 %p1, %v, 0; @%p1 bra "
     "again; }",
     NOBODY, false},
    {"a ticket that is given back", ".maxntid 256\n" TICKET("") LOOK_BACK "atom.global.add.u32 %x, [%other], -1;",
     NOBODY, true},
    {"a ticket that is set", ".maxntid 256\n" TICKET("") LOOK_BACK "st.global.u32 [%other], 0;", NOBODY, true},
    {"a ticket, and more threads than words", ".maxntid 1024\n" TICKET("") REUSE LOOK_BACK, NOBODY, true},
    {"a ticket, and any number of threads", TICKET("") REUSE LOOK_BACK, NOBODY, true},
    {"a ticket, and a required number of threads", ".reqntid 512\n" TICKET("") REUSE LOOK_BACK, NOBODY, false},
/* loaded as 64 bits, of which the ticket is the lower half */
#define WIDE_TICKET(store, load)                                                                                       \
    ".reg .b64 %wide, %far, %off, %at; .reg .b32 %mine; setp.ne.u32 %p1, %t, 0; @%p1 bra have; "                       \
    "atom.global.add.u32 %v, [%other], 1; " store "have: bar.sync 0; " load " cvt.u32.u64 %mine, %wide; "              \
    "@%p1 bra end; shl.b64 %far, %wide, 2; add.u64 %at, %flag, %far; setp.eq.u32 %p2, %mine, 0; @%p2 bra tell; "       \
    "sub.u32 %w, %mine, 1; mul.wide.u32 %off, %w, 4; add.u64 %next, %flag, %off; "                                     \
    "again: ld.volatile.global.u32 %i, [%next]; setp.eq.u32 %p3, %i, 0; @%p3 bra again; "                              \
    "tell: st.volatile.global.u32 [%at], 1; "
    {"a ticket that is loaded wide", WIDE_TICKET("st.shared.u32 [own], %v; ", "ld.shared.u32 %wide, [own];"), NOBODY,
     false},
    {"a half of a ticket that is loaded wide", WIDE_TICKET("st.shared.u32 [own], %v; ", "ld.shared.u16 %wide, [own];"),
     NOBODY, true},
    {"a ticket that is loaded wide with its neighbour",
     WIDE_TICKET("st.shared.u32 [own], %v; ", "ld.shared.u64 %wide, [own];"), NOBODY, true},
#undef WIDE_TICKET
    {"a ticket in shared memory that was used before", ".maxntid 384\n" TICKET(REUSE) LOOK_BACK, NOBODY, true},
    {"a ticket behind a wait of some threads",
     ".maxntid 384\n" TICKET("setp.gt.u32 %p4, %t, 63; @%p4 bra most; bar.sync 1, 64; most: ") REUSE LOOK_BACK, NOBODY,
     true},
    {"a ticket behind a wait of lanes", ".maxntid 384\n" TICKET("bar.warp.sync 0xffffffff; ") REUSE LOOK_BACK, NOBODY,
     true},
    {"a ticket in a loop",
     ".maxntid 384\n" TICKET("once: ") REUSE "add.u32 %i, %i, 1; setp.lt.u32 %p5, %i, 3; @%p5 bra once; " LOOK_BACK,
     NOBODY, true},
    {"a volatile load", "again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", ELSEWHERE,
     true},
    {"a word that the block writes when another has come",
     "again: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @%p1 st.volatile.global.u32 [%other], %v; "
     "ld.volatile.global.u32 %w, [%other]; setp.eq.u32 %p2, %w, 0; @%p2 bra again;",
     ELSEWHERE, true},
    {"a value that the loop remembers",
     "mov.u32 %i, 0; again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 1; @%p1 mov.u32 %i, 1; "
     "setp.eq.u32 %p2, %v, 2; @%p2 bra out; setp.eq.u32 %p1, %i, 0; @%p1 bra again; out:",
     ELSEWHERE, true},
    {"a swap of what another block writes",
     "again: atom.global.cas.b32 %v, [%flag], 1, 2; setp.ne.u32 %p1, %v, 2; @%p1 bra again;", ELSEWHERE, true},
    {"a carry",
     "again: ld.volatile.global.u32 %v, [%flag]; add.cc.u32 %w, %v, -1; addc.u32 %w, 0, 0; setp.eq.u32 %p1, %w, 0; "
     "@%p1 bra again;",
     ELSEWHERE, true},
    {"a copy in a word of the block",
     "again: ld.volatile.global.u32 %v, [%flag]; atom.global.exch.b32 %i, [%other], %v; ld.global.u32 %w, [%other]; "
     "setp.eq.u32 %p1, %w, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"a copy in a word of the block by a plain store",
     "again: ld.volatile.global.u32 %v, [%flag]; st.global.u32 [%other], %v; ld.global.u32 %w, [%other]; "
     "setp.eq.u32 %p1, %w, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"ld.cv", "again: ld.global.cv.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", ELSEWHERE, true},
    {"ld.cg", "again: ld.global.cg.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", ELSEWHERE, true},
    {"a plain load", "again: membar.gl; ld.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", ELSEWHERE,
     true},
    {"a generic load", "again: ld.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", ELSEWHERE, true},
    {"a load of a vector",
     "again: ld.global.v2.u32 {%v, %w}, [%flag]; or.b32 %i, %v, %w; setp.eq.u32 %p1, %i, 0; "
     "@%p1 bra again;",
     ELSEWHERE, true},
    {"the second word of a vector",
     "again: ld.global.v2.u32 {%v, %w}, [%flag]; setp.eq.u32 %p1, %w, 0; @%p1 bra again;", ELSEWHERE, true},
    {"the last word of a vector",
     ".reg .b32 %x, %y; again: ld.volatile.global.v4.u32 {%v, %x, %y, %w}, [%flag]; setp.eq.u32 %p1, %w, 0; "
     "@%p1 bra again;",
     ELSEWHERE, true},
    {"a load that another end does not end",
     "again: ld.global.cg.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 7; @%p1 bra out; setp.eq.u32 %p2, %v, 0; "
     "@%p2 bra again; out:",
     ELSEWHERE, true},
    {"a load with a pause",
     "again: ld.global.cg.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @%p1 bra out; mov.u32 %w, 0; "
     "pause: add.u32 %w, %w, 1; setp.lt.u32 %p2, %w, 100; @%p2 bra pause; bra again; out:",
     ELSEWHERE, true},
    {"a load beside a store elsewhere",
     "again: st.global.u32 [%other], %t; ld.global.cg.u32 %v, [%flag]; "
     "setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"a vote",
     "again: ld.global.cg.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; vote.sync.any.pred %p2, %p1, 0xffffffff; "
     "@!%p2 bra again;",
     ELSEWHERE, true},
    {"shared memory",
     "again: ld.volatile.global.u32 %v, [%flag]; st.shared.u32 [own], %v; bar.sync 0; "
     "ld.shared.u32 %w, [own]; bar.sync 0; setp.eq.u32 %p1, %w, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"shared memory and a plain load",
     "again: ld.global.u32 %v, [%flag]; st.shared.u32 [own], %v; bar.sync 0; "
     "ld.shared.u32 %w, [own]; bar.sync 0; setp.eq.u32 %p1, %w, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"a copy to shared memory",
     "again: cp.async.ca.shared.global [own], [%flag], 4; cp.async.wait_all; ld.shared.u32 %w, [own]; "
     "setp.eq.u32 %p1, %w, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"a function",
     "again: { .param .b64 at; st.param.b64 [at], %flag; .param .b32 result; call.uni (result), peek, (at); "
     "ld.param.b32 %v, [result]; } setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"a comparison with itself",
     "again: atom.global.cas.b32 %v, [%flag], 1, 1; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", ELSEWHERE, true},
    {"and with all bits", "again: atom.global.and.b32 %v, [%flag], -1; setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"the least with the most", "again: atom.global.min.u32 %v, [%flag], -1; setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"a token by an exchange", "again: atom.global.exch.b32 %v, [%flag], 0; setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"a token by a comparison", "again: atom.global.cas.b32 %v, [%flag], 1, 0; setp.ne.u32 %p1, %v, 1; @%p1 bra again;",
     ELSEWHERE, true},
    /* atomic operations that change something */
    {"a semaphore",
     "again: atom.global.add.u32 %v, [%flag], -1; setp.gt.s32 %p1, %v, 0; @%p1 bra out; "
     "atom.global.add.u32 %w, [%flag], 1; bra again; out:",
     ELSEWHERE, true},
    {"a semaphore of which all blocks give a part back",
     "again: atom.global.add.u32 %v, [%flag], -1; setp.gt.s32 %p1, %v, 0; @%p1 bra out; "
     "atom.global.add.u32 %w, [%flag], 1; bra again; out:",
     BEHIND, true},
    {"a semaphore of which a function gives back",
     "again: atom.global.add.u32 %v, [%flag], -1; setp.gt.s32 %p1, %v, 0; @%p1 bra out; "
     "{ .param .b64 at; st.param.b64 [at], %flag; call.uni give, (at); } bra again; out:",
     ELSEWHERE, true},
    {"a semaphore by a comparison",
     "ld.global.u32 %v, [%flag]; again: max.u32 %w, %v, 1; sub.u32 %i, %w, 1; "
     "atom.global.cas.b32 %v, [%flag], %w, %i; setp.ne.u32 %p1, %v, %w; @%p1 bra again;",
     ELSEWHERE, true},
    {"an update that changes nothing and ends by another test",
     "ld.global.u32 %v, [%flag]; again: mov.u32 %w, %v; add.u32 %i, %w, 0; "
     "atom.global.cas.b32 %v, [%flag], %w, %i; setp.lt.u32 %p1, %v, 5; @%p1 bra again;",
     ELSEWHERE, true},
    {"a semaphore by an update",
     "ld.global.cg.u32 %v, [%flag]; again: mov.u32 %w, %v; setp.eq.u32 %p2, %w, 0; @%p2 bra look; sub.u32 %i, %w, 1; "
     "atom.global.cas.b32 %v, [%flag], %w, %i; setp.ne.u32 %p1, %v, %w; @%p1 bra again; bra out; "
     "look: ld.global.cg.u32 %v, [%flag]; bra again; out:",
     ELSEWHERE, true},
    {"a counter that waits for a sign",
     "again: ld.global.cg.u32 %w, [%other]; setp.eq.u32 %p2, %w, 0; @%p2 bra more; atom.global.add.u32 %i, [%flag], 1; "
     "more: setp.lt.u32 %p1, %i, 100; @%p1 bra again;",
     ELSEWHERE, true},
    {"a bit that is not added",
     "again: atom.global.add.u32 %v, [%flag], 2; and.b32 %w, %v, 1; setp.eq.u32 %p1, %w, 0; @%p1 bra again;", ELSEWHERE,
     true},
    {"a number that is passed over",
     "again: atom.global.add.u32 %v, [%flag], 2; setp.ne.u32 %p1, %v, 7; @%p1 bra again;", ELSEWHERE, true},
    {"a bit that is not changed",
     "again: atom.global.xor.b32 %v, [%flag], 2; and.b32 %w, %v, 1; setp.eq.u32 %p1, %w, 0; @%p1 bra again;", ELSEWHERE,
     true},
    {"an addition of nothing",
     "mov.u32 %w, 0; again: atom.global.add.u32 %v, [%flag], %w; setp.lt.u32 %p1, %v, 100; @%p1 bra again;", ELSEWHERE,
     true},
    {"an addition of nothing to a float",
     "again: atom.global.add.f32 %f, [%flag], 0f00000000; setp.lt.f32 %p1, %f, 0f3F800000; @%p1 bra again;", ELSEWHERE,
     true},
    {"an increment up to 0", "again: atom.global.inc.u32 %v, [%flag], 0; setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"an addition that is taken back",
     "mov.u32 %w, 1; again: atom.global.add.u32 %v, [%flag], %w; neg.s32 %w, %w; setp.lt.s32 %p1, %v, 8; "
     "@%p1 bra again;",
     ELSEWHERE, true},
    {"a barrier of bits",
     "mov.u32 %w, 1; shl.b32 %w, %w, %b; again: atom.global.or.b32 %v, [%flag], %w; setp.ne.u32 %p1, %v, 15; "
     "@%p1 bra again;",
     BEHIND, true},
    {"the greatest block", "again: atom.global.max.u32 %v, [%flag], %b; setp.lt.u32 %p1, %v, 3; @%p1 bra again;",
     BEHIND, true},
    {"the greatest of negative numbers",
     "again: atom.global.max.s32 %v, [%flag], -2147483648; setp.ne.s32 %p1, %v, 1; @%p1 bra again;", ELSEWHERE, true},
    {"the greatest with 0 where it is signed",
     "again: atom.global.max.s32 %v, [%flag], 0; setp.eq.s32 %p1, %v, 0; @%p1 bra again;", ELSEWHERE, true},
    {"the block that has a lock",
     "add.u32 %w, %b, 1; again: atom.global.cas.b32 %v, [%flag], 0, %w; setp.ne.u32 %p1, %v, 4; @%p1 bra again;",
     BEHIND, true},
    {"three tokens",
     "again: atom.global.exch.b32 %v, [%flag], 0; setp.ne.u32 %p1, %v, 0; @%p1 add.u32 %i, %i, 1; "
     "setp.lt.u32 %p2, %i, 3; @%p2 bra again;",
     ELSEWHERE, true},
    {"a token at one of four places",
     "again: and.b32 %w, %i, 3; mul.wide.u32 %next, %w, 4; add.u64 %next, %next, %flag; add.u32 %i, %i, 1; "
     "atom.global.cas.b32 %v, [%next], 1, 0; setp.ne.u32 %p1, %v, 1; @%p1 bra again;",
     ELSEWHERE, true},
    {"a token that a block gives behind the loop, without having run it",
     "@%p7 bra join; again: atom.global.exch.b32 %v, [%flag], 0; setp.eq.u32 %p1, %v, 0; @%p1 bra again; "
     "join: setp.ne.u32 %p3, %b, 3; @%p3 bra end;",
     BEHIND_1, true},
    {"a token that a block gives in another turn of a loop around it",
     "outer: @%p7 bra give; again: atom.global.exch.b32 %v, [%flag], 0; setp.eq.u32 %p1, %v, 0; @%p1 bra again; "
     "bra join; give: atom.global.exch.b32 %w, [%flag], 1; join: add.u32 %i, %i, 1; setp.lt.u32 %p2, %i, 9; "
     "@%p2 bra outer; bra end;",
     BEHIND, true},
    {"a token that a thread of one block gives",
     "setp.ne.u32 %p3, %t, 0; @%p3 bra join; again: atom.global.exch.b32 %v, [%flag], 0; setp.eq.u32 %p1, %v, 0; "
     "@%p1 bra again; join: setp.ne.u32 %p4, %b, 3; @%p4 bra end;",
     BEHIND_1, true},
    {"a token that other blocks give when they find none",
     "again: atom.global.exch.b32 %v, [%flag], 0; setp.ne.u32 %p1, %v, 0; @%p1 bra out; @!%p7 bra again; "
     "atom.global.exch.b32 %w, [%flag], 1; out: bra end;",
     BEHIND, true},
    {"a token through shared memory",
     "again: setp.ne.u32 %p3, %t, 0; @%p3 bra meet; atom.global.exch.b32 %v, [%flag], 0; st.shared.u32 [own], %v; "
     "meet: bar.sync 0; ld.shared.u32 %w, [own]; bar.sync 0; setp.eq.u32 %p1, %w, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"a function that takes a token",
     "again: { .param .b64 at; st.param.b64 [at], %flag; .param .b32 result; call.uni (result), take, (at); "
     "ld.param.b32 %v, [result]; } setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"a function that waits", "{ .param .b64 at; st.param.b64 [at], %flag; call.uni pass, (at); }", ELSEWHERE, true},
    /* conditions around the end */
    {"an end behind another condition",
     "again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra more; st.global.u32 [%other], %t; "
     "setp.gt.u32 %p2, %b, 9; @!%p2 bra out; more: bra again; out:",
     ELSEWHERE, true},
    {"an end behind another condition, with a plain load",
     "again: ld.global.cg.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra more; st.global.u32 [%other], %t; "
     "setp.gt.u32 %p2, %b, 9; @!%p2 bra out; more: bra again; out:",
     ELSEWHERE, true},
    {"a look in every tenth turn",
     "again: add.u32 %i, %i, 1; rem.u32 %w, %i, 10; setp.ne.u32 %p2, %w, 0; @%p2 bra again; "
     "ld.global.cg.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"a variable that is set",
     "mov.u32 %w, 0; again: ld.global.cg.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @!%p1 bra more; mov.u32 %w, 1; "
     "more: setp.eq.u32 %p2, %w, 0; @%p2 bra again;",
     ELSEWHERE, true},
    {"a word beside one that the loop counts",
     "again: atom.global.add.u32 %w, [%flag+4], 1; ld.global.cg.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; "
     "@%p1 bra again;",
     ELSEWHERE, true},
    /* loops that end */
    {"a lock", "again: atom.global.cas.b32 %v, [%flag], 0, 1; setp.ne.u32 %p1, %v, 0; @%p1 bra again;", BEHIND, false},
    {"a lock by an exchange", "again: atom.global.exch.b32 %v, [%flag], 1; setp.ne.u32 %p1, %v, 0; @%p1 bra again;",
     BEHIND, false},
    {"a lock that one thread takes",
     "setp.ne.u32 %p3, %t, 0; @%p3 bra join; again: atom.global.cas.b32 %v, [%flag], 0, 1; setp.ne.u32 %p1, %v, 0; "
     "@%p1 bra again; join: bar.sync 0; @%p3 bra end;",
     BEHIND, false},
    {"an update",
     "ld.global.u32 %v, [%flag]; again: mov.b32 %w, %v; add.u32 %i, %w, 3; "
     "atom.global.cas.b32 %v, [%flag], %w, %i; setp.ne.u32 %p1, %v, %w; @%p1 bra again;",
     ELSEWHERE, false},
    {"a counter of work", "again: atom.global.add.u32 %v, [%flag], 1; setp.lt.u32 %p1, %v, 100; @%p1 bra again;",
     NOBODY, false},
    {"a loop to a number in memory",
     "again: st.global.u32 [%other], %i; add.u32 %i, %i, 1; ld.global.u32 %v, [%flag]; "
     "setp.lt.u32 %p1, %i, %v; @%p1 bra again;",
     ELSEWHERE, false},
    {"a number that the loop changes",
     "again: ld.global.u32 %v, [%flag]; sub.u32 %v, %v, 1; st.global.u32 [%flag], %v; "
     "setp.gt.s32 %p1, %v, 0; @%p1 bra again;",
     ELSEWHERE, false},
    {"a list", "mov.b64 %next, %flag; again: ld.global.u64 %next, [%next]; setp.ne.u64 %p1, %next, 0; @%p1 bra again;",
     ELSEWHERE, false},
    {"a limit",
     "again: ld.global.cg.u32 %v, [%flag]; add.u32 %i, %i, 1; setp.ne.u32 %p1, %v, 0; @%p1 bra out; "
     "setp.lt.u32 %p2, %i, 1000; @%p2 bra again; out:",
     ELSEWHERE, true},
    {"a clock",
     "again: ld.global.cg.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @%p1 bra out; mov.u32 %w, %clock; "
     "setp.lt.u32 %p2, %w, 1000; @%p2 bra again; out:",
     ELSEWHERE, true},
    {"a lock with the number of its block",
     "add.u32 %w, %b, 1; again: atom.global.cas.b32 %v, [%flag], 0, %w; setp.ne.u32 %p1, %v, 0; @%p1 bra again;",
     BEHIND, false},
    {"a lock by a bit",
     "again: atom.global.or.b32 %v, [%flag], 1; and.b32 %w, %v, 1; setp.ne.u32 %p1, %w, 0; @%p1 bra again;", BEHIND,
     false},
    {"a lock of some blocks",
     "setp.ge.u32 %p2, %b, 3; @%p2 bra end; setp.ne.u32 %p3, %t, 0; @%p3 bra join; "
     "again: atom.global.cas.b32 %v, [%flag], 0, 1; setp.ne.u32 %p1, %v, 0; @%p1 bra again; "
     "join: bar.sync 0; @%p3 bra end;",
     BEHIND, false},
    {"a lock that is held within the loop",
     "again: mov.u32 %w, 0; atom.global.cas.b32 %v, [%flag], 0, 1; setp.ne.u32 %p1, %v, 0; @%p1 bra more; "
     "atom.global.exch.b32 %i, [%flag], 0; mov.u32 %w, 1; more: setp.eq.u32 %p2, %w, 0; @%p2 bra again; bra end;",
     BEHIND, false},
    {"an insertion",
     "mov.b64 %next, %other; add.u32 %w, %b, 9; again: atom.global.cas.b32 %v, [%next], 0, %w; add.u64 %next, %next, "
     "4; "
     "setp.eq.u32 %p1, %v, 0; setp.eq.u32 %p2, %v, %w; or.pred %p3, %p1, %p2; @!%p3 bra again;",
     ELSEWHERE, false},
    {"an update with a second end",
     "ld.global.u32 %v, [%flag]; again: mov.b32 %w, %v; setp.gt.u32 %p2, %w, %t; @%p2 bra out; "
     "atom.global.cas.b32 %v, [%flag], %w, %t; setp.ne.u32 %p1, %v, %w; @%p1 bra again; out:",
     ELSEWHERE, false},
    {"a counter in steps",
     "mov.u32 %w, %ntid.x; again: atom.global.add.u32 %v, [%flag], %w; setp.lt.u32 %p1, %v, 100; @%p1 bra again;",
     NOBODY, false},
    {"a counter whose comparison is a number",
     "again: atom.global.add.u32 %v, [%flag], 32; setp.lt.u32 %p1, %v, 100; selp.b32 %w, 2, 0, %p1; "
     "setp.ne.u32 %p2, %w, 0; @%p2 bra again;",
     NOBODY, false},
    {"a counter in two places",
     "again: atom.global.add.u32 %v, [%flag], 1; setp.lt.u32 %p1, %v, 50; @%p1 bra again; "
     "atom.global.add.u32 %v, [%flag], 1; setp.lt.u32 %p1, %v, 100; @%p1 bra again;",
     NOBODY, false},
    {"a counter that one thread reads",
     "again: setp.ne.u32 %p3, %t, 0; @%p3 bra meet; atom.global.add.u32 %v, [%flag], 1; st.shared.u32 [own], %v; "
     "meet: bar.sync 0; ld.shared.u32 %w, [own]; bar.sync 0; setp.lt.u32 %p1, %w, 100; @%p1 bra again;",
     NOBODY, false},
    {"a token, for some turns",
     "again: atom.global.exch.b32 %v, [%flag], 0; add.u32 %i, %i, 1; setp.eq.u32 %p1, %v, 0; setp.lt.u32 %p2, %i, 9; "
     "and.pred %p3, %p1, %p2; @%p3 bra again;",
     ELSEWHERE, true},
    {"a word that no block writes",
     "again: ld.volatile.global.u32 %v, [%other]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", NOBODY, false},
    {"a branch backward that closes no loop",
     "bra second; first: bra out; second: ld.global.cg.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra first; "
     "st.global.u32 [%other], %v; out:",
     ELSEWHERE, false},
    {"a counter in shared memory",
     "again: ld.volatile.global.u32 %v, [%other]; atom.shared.add.u32 %w, [own], %v; bar.sync 0; "
     "ld.shared.u32 %w, [own]; bar.sync 0; setp.lt.u32 %p1, %w, 100; @%p1 bra again;",
     NOBODY, false},
    /* bounded waits: the result depends on who was there */
    {"a swap, for some iterations",
     "again: atom.global.cas.b32 %v, [%flag], 1, 2; setp.eq.u32 %p1, %v, 1; @%p1 bra out; add.u32 %i, %i, 1; "
     "setp.lt.u32 %p2, %i, 3000; @%p2 bra again; out:",
     ELSEWHERE, true},
    {"a plain load with a fence, for some iterations",
     "again: membar.gl; ld.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @%p1 bra out; add.u32 %i, %i, 1; "
     "setp.lt.u32 %p2, %i, 3000; @%p2 bra again; out:",
     ELSEWHERE, true},
    {"a limit from a parameter",
     "ld.param.u32 %w, [n]; again: ld.acquire.gpu.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @%p1 bra out; "
     "add.u32 %i, %i, 1; setp.lt.u32 %p2, %i, %w; @%p2 bra again; out:",
     ELSEWHERE, true},
    {"a lock, for some iterations",
     "again: atom.global.cas.b32 %v, [%flag], 0, 1; setp.eq.u32 %p1, %v, 0; @%p1 bra out; add.u32 %i, %i, 1; "
     "setp.lt.u32 %p2, %i, 100; @%p2 bra again; bra end; out:",
     BEHIND, false},
    /* counters */
    {"a counter that wraps below its limit",
     "again: atom.global.inc.u32 %v, [%flag], 7; setp.lt.u32 %p1, %v, 50; @%p1 bra again;", NOBODY, true},
    {"a counter that wraps far above",
     "again: atom.global.inc.u32 %v, [%flag], -1; setp.lt.u32 %p1, %v, 50; @%p1 bra again;", NOBODY, false},
/* what is computed of a number that grows */
#define COUNTED "again: atom.global.add.u32 %v, [%flag], 1; "
#define WHILE   "setp.lt.u32 %p1, %w, 5; @%p1 bra again;"
    {"a number that grows slowly", COUNTED "div.u32 %w, %v, 1000; " WHILE, NOBODY, false},
    {"a number divided by one that grows", COUNTED "div.u32 %w, 1000, %v; " WHILE, NOBODY, true},
    {"a number without its low bits", COUNTED "shr.u32 %w, %v, 4; " WHILE, NOBODY, false},
    {"a number shifted down by one that grows", COUNTED "shr.u32 %w, 1000, %v; " WHILE, NOBODY, true},
    {"a number shifted up by one that grows", COUNTED "shl.b32 %w, 1, %v; " WHILE, NOBODY, true},
    {"a number less one that grows", COUNTED "sub.u32 %w, 1000, %v; " WHILE, NOBODY, true},
    {"a number that grows, less another", COUNTED "sub.u32 %w, %v, 1; setp.lt.s32 %p1, %w, 5; @%p1 bra again;", NOBODY,
     false},
    {"three times a number that grows", COUNTED "mul.lo.u32 %w, 3, %v; " WHILE, NOBODY, false},
    {"a number that grows three times", COUNTED "mul.lo.u32 %w, %v, 3; " WHILE, NOBODY, false},
    {"minus a number that grows", COUNTED "mul.lo.u32 %w, %v, -3; " WHILE, NOBODY, true},
    {"nothing of a number that grows", COUNTED "mul.lo.u32 %w, %v, 0; " WHILE, NOBODY, true},
    {"a number that grows, and another", COUNTED "mad.lo.u32 %w, %v, 2, 1; " WHILE, NOBODY, false},
    {"a number that grows, and the thread", COUNTED "mad.lo.u32 %w, %v, 2, %t; " WHILE, NOBODY, false},
    {"a counter down", "again: atom.global.add.u32 %v, [%flag], -1; setp.gt.s32 %p1, %v, 0; @%p1 bra again;", NOBODY,
     false},
    {"a counter down without a sign",
     "again: atom.global.add.u32 %v, [%flag], -1; setp.gt.u32 %p1, %v, 0; @%p1 bra again;", NOBODY, true},
    {"a counter in the wrong direction",
     "again: atom.global.add.u32 %v, [%flag], 1; setp.gt.u32 %p1, %v, 50; @%p1 bra again;", NOBODY, true},
    {"a counter that others set back",
     "again: atom.global.add.u32 %v, [%flag], 1; setp.lt.u32 %p1, %v, 50; @%p1 bra again; "
     "atom.global.exch.b32 %v, [%flag], 0;",
     NOBODY, true},
    {"a counter that others take from",
     "again: atom.global.add.u32 %v, [%flag], 1; setp.lt.u32 %p1, %v, 50; @%p1 bra again; "
     "red.global.add.u32 [%flag], -3;",
     NOBODY, true},
    {"a counter that others add to",
     "again: atom.global.add.u32 %v, [%flag], 1; setp.lt.u32 %p1, %v, 50; @%p1 bra again; "
     "red.global.add.u32 [%flag], 3;",
     NOBODY, true},
    {"a counter that others add as much to",
     "again: atom.global.add.u32 %v, [%flag], 1; setp.lt.u32 %p1, %v, 50; @%p1 bra again; "
     "red.global.add.u32 [%flag], 1;",
     NOBODY, true},
    {"a counter in steps of two kinds",
     "again: atom.global.add.u32 %v, [%flag], 1; setp.lt.u32 %p1, %v, 50; @%p1 bra again; "
     "atom.global.add.u32 %v, [%flag], 2; setp.lt.u32 %p1, %v, 100; @%p1 bra again;",
     NOBODY, true},
    {"a counter in steps of the thread",
     "add.u32 %w, %t, 1; again: atom.global.add.u32 %v, [%flag], %w; setp.lt.u32 %p1, %v, 50; @%p1 bra again;", NOBODY,
     true},
    /* a barrier of the whole grid: blocks arrive with a large step, and wait with small ones */
    {"a counter of blocks that arrive",
     "{ .reg .b64 %x, %y; red.global.add.u64 [%flag], 1099511627776; cvt.u64.u32 %y, %b; shl.b64 %y, %y, 40; "
     "again: atom.global.add.u64 %x, [%flag], 1; setp.lt.u64 %p1, %x, %y; @%p1 bra again; }",
     NOBODY, true},
    {"a counter of threads that arrive",
     "red.global.add.u32 [%flag], 1; setp.ne.u32 %p2, %t, 0; @%p2 bra end; "
     "again: atom.global.add.u32 %v, [%flag], 1; setp.lt.u32 %p1, %v, 4096; @%p1 bra again;",
     NOBODY, true},
    {"a counter that the last block closes",
     "@%p7 bra close; again: atom.global.add.u32 %v, [%flag], 1; setp.lt.u32 %p1, %v, -9; @%p1 bra again; bra end; "
     "close: red.global.add.u32 [%flag], 1;",
     NOBODY, true},
    {"a counter whose first item is taken before",
     "atom.global.add.u32 %v, [%flag], 1; setp.ge.u32 %p2, %v, 50; @%p2 bra end; "
     "again: atom.global.add.u32 %v, [%flag], 1; setp.lt.u32 %p1, %v, 50; @%p1 bra again;",
     NOBODY, false},
    {"a counter whose first item one thread takes",
     "setp.ne.u32 %p3, %t, 0; @%p3 bra first; atom.global.add.u32 %v, [%flag], 1; st.shared.u32 [own], %v; "
     "first: bar.sync 0; ld.shared.u32 %w, [own]; setp.ge.u32 %p2, %w, 50; @%p2 bra end; "
     "again: @%p3 bra meet; atom.global.add.u32 %v, [%flag], 1; st.shared.u32 [own], %v; "
     "meet: bar.sync 0; ld.shared.u32 %w, [own]; bar.sync 0; setp.lt.u32 %p1, %w, 50; @%p1 bra again;",
     NOBODY, false},
/* limits in memory */
#define TO_LIMIT "atom.global.add.u32 %v, [%flag], 1; setp.lt.u32 %p1, %v, %w; @%p1 bra again;"
    {"a counter to a limit in memory", "again: ld.global.u32 %w, [%other]; " TO_LIMIT, NOBODY, false},
    {"a counter to a limit that its loop raises",
     "again: ld.global.u32 %w, [%other]; add.u32 %i, %w, 20; st.global.u32 [%other], %i; " TO_LIMIT, NOBODY, true},
    {"a counter to a limit that its loop adds to",
     "again: red.global.add.u32 [%other], 20; ld.global.u32 %w, [%other]; " TO_LIMIT, NOBODY, true},
    {"a counter to a limit that is loaded by way of one",
     "again: ld.global.u64 %next, [%other]; ld.global.u32 %w, [%next]; add.u64 %next, %next, 4; "
     "st.global.u64 [%other], %next; " TO_LIMIT,
     NOBODY, true},
    {"a counter to a limit that others raise",
     "again: ld.global.u32 %w, [%other]; " TO_LIMIT " red.global.add.u32 [%other], 20;", NOBODY, true},
#undef TO_LIMIT
    {"a counter of bits",
     "again: atom.global.add.u32 %v, [%flag], 1; and.b32 %w, %v, 63; setp.lt.u32 %p1, %w, 50; @%p1 bra again;", NOBODY,
     true},
    {"a remainder of a counter",
     "again: atom.global.add.u32 %v, [%flag], 2; rem.u32 %w, %v, 3; setp.ne.u32 %p1, %w, 1; @%p1 bra again;", NOBODY,
     true},
    {"a part of a counter",
     "{ .reg .b16 %h; again: atom.global.add.u32 %v, [%flag], 1; cvt.u16.u32 %h, %v; setp.lt.u16 %p1, %h, 50; "
     "@%p1 bra again; }",
     NOBODY, true},
    {"a plain load that ends a loop before its limit",
     "again: ld.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @%p1 bra out; add.u32 %i, %i, 1; "
     "setp.lt.u32 %p2, %i, 3000; @%p2 bra again; out:",
     ELSEWHERE, false},
    {"a counter and another that keeps up",
     "again: atom.global.add.u32 %v, [%flag], 1; add.u32 %i, %i, 1; setp.le.u32 %p1, %v, %i; @%p1 bra again;", NOBODY,
     true},
    {"a counter less itself",
     "again: atom.global.add.u32 %v, [%flag], 1; sub.u32 %w, %v, %v; setp.lt.u32 %p1, %w, 5; @%p1 bra again;", NOBODY,
     true},
    {"a counter of elements",
     "again: atom.global.add.u32 %v, [%flag], 1; mad.lo.u32 %w, %v, 64, %t; setp.lt.u32 %p1, %w, 5000; "
     "@%p1 bra again;",
     NOBODY, false},
    {"a counter times nothing",
     "ld.param.u32 %i, [n]; again: atom.global.add.u32 %v, [%flag], 1; mul.lo.u32 %w, %v, %i; "
     "setp.lt.u32 %p1, %w, 5000; @%p1 bra again;",
     NOBODY, true},
    {"a counter that a lane hands on",
     "again: atom.global.add.u32 %v, [%flag], 1; shfl.sync.idx.b32 %w, %v, 0, 31, -1; setp.lt.u32 %p1, %w, 100; "
     "@%p1 bra again;",
     NOBODY, false},
    {"a counter by the lanes that are there",
     "{ .reg .b32 %m, %c; again: activemask.b32 %m; popc.b32 %c, %m; atom.global.add.u32 %v, [%flag], %c; "
     "setp.lt.u32 %p1, %v, 100; @%p1 bra again; }",
     NOBODY, false},
    {"a counter by the lanes with the same number",
     "{ .reg .b32 %m, %c; again: match.any.sync.b32 %m, %i, -1; popc.b32 %c, %m; "
     "atom.global.add.u32 %v, [%flag], %c; setp.lt.u32 %p1, %v, 100; @%p1 bra again; }",
     NOBODY, false},
    {"a counter by all lanes that vote", LANES("mov.pred %p2, -1; ", "%p2") COUNT_LANES, NOBODY, false},
    {"a counter by lanes that may be none", LANES("setp.eq.u32 %p2, %b, 3; ", "%p2") COUNT_LANES, NOBODY, true},
    {"a counter by the other lanes", LANES("setp.eq.u32 %p2, %b, 3; ", "!%p2") COUNT_LANES, NOBODY, true},
    {"a counter by no lanes", LANES("mov.pred %p2, 0; ", "%p2") COUNT_LANES, NOBODY, true},
    {"tickets by all lanes that vote", LANES("mov.pred %p2, -1; ", "%p2") TICKET_BY("%c"), NOBODY, false},
    {"tickets by lanes that may be none", LANES("setp.eq.u32 %p2, %b, 3; ", "%p2") TICKET_BY("%c"), NOBODY, true},
    {"tickets by a number", LANES("", "%p7") TICKET_BY("65536"), NOBODY, false},
    {"tickets by a number that is too large", LANES("", "%p7") TICKET_BY("0x40000000"), NOBODY, true},
    {"tickets by the size of the grid, squared",
     LANES("mov.u32 %x, %nctaid.x; mul.lo.u32 %y, %x, %x; ", "%p7") TICKET_BY("%y"), NOBODY, true},
    {"a flag in a loop whose end tests the block", REPEATED, NOBODY, true},
    {"a lock, with what it protects in the loop",
     DONE("cas.b32 %v, [%flag], 0, 1", "st.global.u32 [%other], %t; atom.global.exch.b32 %w, [%flag], 0; ", ""), NOBODY,
     false},
    {"the same by an exchange",
     DONE("exch.b32 %v, [%flag], 1", "st.global.u32 [%other], %t; atom.global.exch.b32 %w, [%flag], 0; ", ""), NOBODY,
     false},
    {"the same, and something is written in each iteration",
     DONE("exch.b32 %v, [%flag], 1", "atom.global.exch.b32 %w, [%flag], 0; ", "st.global.u32 [%other], %t; "), NOBODY,
     true},
    {"a lock that is released in each iteration",
     DONE("cas.b32 %v, [%flag], 0, 1", "st.global.u32 [%other], %t; ", "atom.global.exch.b32 %w, [%flag], 0; "), NOBODY,
     true},
    {"a counter at changing places",
     "mov.b64 %next, %flag; again: atom.global.add.u32 %v, [%next], 1; add.u64 %next, %next, 4; "
     "setp.lt.u32 %p1, %v, 1; @%p1 bra again;",
     NOBODY, true},
    {"a number of floats",
     "again: atom.global.add.f32 %f, [%flag], 0f3F800000; setp.lt.f32 %p1, %f, 0f41200000; @%p1 bra again;", NOBODY,
     true},
    /* updates */
    {"an update that expects an old value",
     "ld.global.u32 %w, [%flag]; again: add.u32 %i, %w, 3; atom.global.cas.b32 %v, [%flag], %w, %i; "
     "setp.ne.u32 %p1, %v, %w; @%p1 bra again;",
     ELSEWHERE, true},
    {"an update that reads anew",
     "again: ld.volatile.global.u32 %w, [%flag]; add.u32 %i, %w, 3; atom.global.cas.b32 %v, [%flag], %w, %i; "
     "setp.ne.u32 %p1, %v, %w; @%p1 bra again;",
     ELSEWHERE, false},
    {"an update that waits for a value",
     "again: ld.volatile.global.u32 %w, [%flag]; setp.eq.u32 %p2, %w, 0; @%p2 bra again; add.u32 %i, %w, 3; "
     "atom.global.cas.b32 %v, [%flag], %w, %i; setp.ne.u32 %p1, %v, %w; @%p1 bra again;",
     ELSEWHERE, true},
    {"an update of what another word has",
     "again: ld.volatile.global.u32 %w, [%flag+8]; atom.global.cas.b32 %v, [%flag], %w, %t; setp.ne.u32 %p1, %v, %w; "
     "@%p1 bra again;",
     ELSEWHERE, true},
    {"an update that goes on when it succeeds",
     "ld.global.u32 %v, [%flag]; again: mov.b32 %w, %v; add.u32 %i, %w, 3; atom.global.cas.b32 %v, [%flag], %w, %i; "
     "setp.eq.u32 %p1, %v, %w; @%p1 bra again;",
     ELSEWHERE, true},
    /* claims and marks */
    {"a claim with a limit",
     "mov.b64 %next, %flag; again: atom.global.cas.b32 %v, [%next], 0, 9; setp.eq.u32 %p1, %v, 0; @%p1 bra out; "
     "add.u64 %next, %next, 4; add.u32 %i, %i, 1; setp.lt.u32 %p2, %i, 64; @%p2 bra again; out:",
     NOBODY, false},
    {"a claim beside which a value is stored",
     "{ .reg .b64 %x, %y; again: and.b32 %w, %i, 63; mul.wide.u32 %x, %w, 8; add.u64 %y, %x, %flag; "
     "add.u32 %i, %i, 1; atom.global.cas.b32 %v, [%y], 0, 9; setp.ne.u32 %p1, %v, 0; @%p1 bra again; "
     "st.global.u32 [%y+4], %b; }",
     NOBODY, false},
    {"a claim beside which values are stored that lie across",
     "{ .reg .b64 %x, %y; again: and.b32 %w, %i, 63; mul.wide.u32 %x, %w, 4; add.u64 %y, %x, %flag; "
     "add.u32 %i, %i, 1; atom.global.cas.b32 %v, [%y], 0, 9; setp.ne.u32 %p1, %v, 0; @%p1 bra again; "
     "st.global.u32 [%y+4], 0; }",
     NOBODY, true},
    {"a claim that others free",
     "mov.b64 %next, %flag; again: and.b32 %w, %i, 3; mul.wide.u32 %next, %w, 4; add.u64 %next, %next, %flag; "
     "add.u32 %i, %i, 1; atom.global.cas.b32 %v, [%next], 0, 9; setp.ne.u32 %p1, %v, 0; @%p1 bra again; "
     "st.global.u32 [%flag+4], 0;",
     NOBODY, true},
    {"a look for what others claim",
     "@%p7 bra claim; again: atom.global.cas.b32 %v, [%flag], 0, 0; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; "
     "claim: atom.global.cas.b32 %w, [%flag], 0, 5;",
     NOBODY, true},
    {"a look for a claim of another word",
     "@%p7 bra claim; again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; "
     "claim: atom.global.cas.b32 %w, [%flag], 0, 5;",
     NOBODY, true},
    {"a claim where the place is given by others",
     "again: ld.volatile.global.u32 %w, [%flag+512]; mul.wide.u32 %next, %w, 4; add.u64 %next, %next, %flag; "
     "atom.global.cas.b32 %v, [%next], 0, 1; setp.ne.u32 %p1, %v, 0; @%p1 bra again; "
     "add.u32 %w, %b, 1; st.volatile.global.u32 [%flag+512], %w;",
     NOBODY, true},
    {"marks",
     "mov.b64 %next, %flag; again: atom.global.exch.b32 %v, [%next], 1; add.u64 %next, %next, 4; "
     "setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     NOBODY, false},
    {"marks by a swap that may change nothing",
     "again: atom.global.cas.b32 %v, [%flag], 0, %b; setp.eq.u32 %p1, %v, 0; @%p1 bra again;", NOBODY, true},
    /* locks */
    {"a lock that hands another one on",
     "mul.wide.u32 %next, %b, 4; add.u64 %next, %next, %flag; again: atom.global.cas.b32 %v, [%next], 0, 1; "
     "setp.ne.u32 %p1, %v, 0; @%p1 bra again; st.volatile.global.u32 [%next+-4], 0;",
     NOBODY, true},
    {"locks of several words",
     "rem.u32 %w, %b, 5; mul.wide.u32 %next, %w, 4; add.u64 %next, %next, %flag; again: "
     "atom.global.cas.b32 %v, [%next], 0, 1; setp.ne.u32 %p1, %v, 0; @%p1 bra again; "
     "st.volatile.global.u32 [%next], 0;",
     NOBODY, false},
    {"a lock whose holders release it twice, once without having it",
     "setp.eq.u32 %p4, %b, 3; @%p4 bra free; again: atom.global.cas.b32 %v, [%flag], 0, 1; setp.ne.u32 %p1, %v, 0; "
     "@%p1 bra again; free:",
     BEHIND, true},
    {"a lock that those who fail release",
     "again: atom.global.exch.b32 %v, [%flag], 1; setp.eq.u32 %p1, %v, 0; @%p1 bra out; "
     "@%p7 st.volatile.global.u32 [%flag], 0; bra again; out:",
     BEHIND, true},
    {"a lock of the first thread",
     "setp.ne.u32 %p3, %t, 0; @%p3 bra join; again: atom.global.exch.b32 %v, [%flag], 1; setp.ne.u32 %p1, %v, 0; "
     "@%p1 bra again; join: bar.sync 0; setp.ne.u32 %p4, %t, 0; @%p4 bra end;",
     BEHIND, false},
    {"a lock of the first thread that the second one releases",
     "setp.ne.u32 %p3, %t, 0; @%p3 bra join; again: atom.global.exch.b32 %v, [%flag], 1; setp.ne.u32 %p1, %v, 0; "
     "@%p1 bra again; join: bar.sync 0; setp.ne.u32 %p4, %t, 1; @%p4 bra end;",
     BEHIND, true},
    {"a lock that is looked at first",
     "again: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @%p1 bra again; "
     "atom.global.cas.b32 %w, [%flag], 0, 1; setp.ne.u32 %p2, %w, 0; @%p2 bra again;",
     BEHIND, false},
    {"a lock that is looked at before an exchange",
     "again: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @%p1 bra again; "
     "atom.global.exch.b32 %w, [%flag], 1; setp.ne.u32 %p2, %w, 0; @%p2 bra again;",
     BEHIND, false},
    {"a lock that is looked at before a bit is set",
     "again: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @%p1 bra again; "
     "atom.global.or.b32 %w, [%flag], 1; setp.ne.u32 %p2, %w, 0; @%p2 bra again;",
     BEHIND, false},
    {"a lock of another word behind a look",
     "again: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @%p1 bra again; "
     "atom.global.exch.b32 %w, [%other], 1; setp.ne.u32 %p2, %w, 0; @%p2 bra again;",
     BEHIND, true},
    {"a lock by bits of which any may be set",
     "again: atom.global.or.b32 %v, [%flag], 6; setp.ne.u32 %p1, %v, 0; @%p1 bra again;", BEHIND, false},
    {"a wait for other bits than those that are set",
     "again: atom.global.or.b32 %v, [%flag], 6; setp.ne.u32 %p1, %v, 1; @%p1 bra again;", BEHIND_1, true},
    {"a lock that is looked at when it is taken",
     "again: atom.global.cas.b32 %w, [%flag], 0, 1; setp.eq.u32 %p2, %w, 0; @%p2 bra out; "
     "look: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @%p1 bra look; bra again; out:",
     BEHIND, false},
    {"a lock with tickets",
     "atom.global.add.u32 %w, [%other], 1; again: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, %w; "
     "@%p1 bra again; red.global.add.u32 [%flag], 1;",
     NOBODY, false},
    {"a lock with tickets, released by a store",
     "atom.global.add.u32 %w, [%other], 1; again: ld.acquire.gpu.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, %w; "
     "@%p1 bra again; { .reg .b32 %u; add.u32 %u, %w, 1; st.release.gpu.global.u32 [%flag], %u; }",
     NOBODY, false},
    {"a lock with tickets in steps of 2",
     "atom.global.add.u32 %w, [%other], 2; again: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, %w; "
     "@%p1 bra again; red.global.add.u32 [%flag], 1;",
     NOBODY, true},
    {"a lock with tickets that wrap",
     "atom.global.inc.u32 %w, [%other], 3; again: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, %w; "
     "@%p1 bra again; red.global.add.u32 [%flag], 1;",
     NOBODY, true},
    {"a lock with tickets that anybody serves",
     "atom.global.add.u32 %w, [%other], 1; @%p7 bra serve; again: ld.volatile.global.u32 %v, [%flag]; "
     "setp.ne.u32 %p1, %v, %w; @%p1 bra again; serve: red.global.add.u32 [%flag], 1;",
     NOBODY, true},
    {"a lock with tickets that are the numbers of blocks",
     "again: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, %b; @%p1 bra again; "
     "red.global.add.u32 [%flag], 1;",
     NOBODY, true},
    {"turns by the number of the block", TURN("%b", "add.u32 %w, %b, 1; "), NOBODY, false},
    {"turns by the number of the block, by way of others", TURN("%b", "add.u32 %w, %b, 65535; "), NOBODY, false},
    {"turns of layers", TURN("%z", "mov.u32 %z, %ctaid.z; add.u32 %w, %z, 1; "), NOBODY, false},
    {"turns downward", TURN("%b", "sub.u32 %w, %b, 1; "), NOBODY, true},
    {"turns that stay", TURN("%b", "mov.u32 %w, %b; "), NOBODY, true},
    {"turns that wrap around", TURN("%b", "add.u32 %w, %b, 4294967290; "), NOBODY, true},
    {"turns by another number", TURN("%b", "mov.u32 %z, %ctaid.y; add.u32 %w, %z, 1; "), NOBODY, true},
    {"turns by a product", TURN("%b", "mad.lo.u32 %w, %b, 2, 1; "), NOBODY, true},
    {"turns by an argument", TURN("%b", "ld.param.u32 %z, [n]; add.u32 %w, %z, %b; "), NOBODY, true},
    {"turns from the last block", TURN("%z", "mov.u32 %last, %nctaid.x; sub.u32 %z, %last, %b; add.u32 %w, %z, 1; "),
     NOBODY, true},
    {"turns that are set back", TURN("%b", "add.u32 %w, %b, 1; ") "@%p7 st.volatile.global.u32 [%flag], 0;", NOBODY,
     true},
    {"turns that have passed",
     "add.u32 %w, %b, 1; again: ld.volatile.global.u32 %v, [%flag]; setp.lt.u32 %p1, %v, %b; @%p1 bra again; "
     "st.volatile.global.u32 [%flag], %w;",
     NOBODY, true},
    {"turns, and another number that ends the wait",
     "add.u32 %w, %b, 1; again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p2, %v, 7; @%p2 bra past; "
     "setp.ne.u32 %p1, %v, %b; @%p1 bra again; past: st.volatile.global.u32 [%flag], %w;",
     NOBODY, true},
    {"a lock with tickets of another word that others set",
     "atom.global.add.u32 %w, [%other], 1; again: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, %w; "
     "@%p1 bra again; red.global.add.u32 [%flag], 1; st.volatile.global.u32 [%other], 0;",
     NOBODY, true},
    {"a lock with tickets at addresses that are converted in place",
     "cvta.to.global.u64 %flag, %flag; cvta.to.global.u64 %other, %other; atom.global.add.u32 %w, [%other], 1; "
     "again: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, %w; @%p1 bra again; "
     "red.global.add.u32 [%flag], 1;",
     NOBODY, false},
    {"a lock with tickets at an address that is that of another",
     "cvta.to.global.u64 %flag, %other; atom.global.add.u32 %w, [%other+4], 1; "
     "again: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, %w; @%p1 bra again; "
     "red.global.add.u32 [%flag], 1;",
     NOBODY, true},
    /* other instructions that read and write */
    {"a load by a matrix instruction",
     "{ .reg .b32 %m<8>; again: wmma.load.c.sync.aligned.row.m16n16k16.global.s32 {%m0, %m1, %m2, %m3, %m4, %m5, %m6, "
     "%m7}, [%flag]; setp.eq.u32 %p1, %m0, 0; @%p1 bra again; }",
     ELSEWHERE, true},
    {"a store by a matrix instruction",
     "@%p7 bra give; again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; "
     "give: mov.u32 %w, 1; wmma.store.d.sync.aligned.row.m16n16k16.global.s32 [%flag], {%w,%w,%w,%w,%w,%w,%w,%w};",
     NOBODY, true},
    {"a reduction by another block",
     "@%p7 bra give; again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; "
     "give: red.global.or.b32 [%flag], 4;",
     NOBODY, true},
    {"a bulk copy to global memory",
     "@%p7 bra give; again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; "
     "give: mov.u32 %w, own; cp.async.bulk.global.shared::cta.bulk_group [%flag], [%w], 16; "
     "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
     NOBODY, true},
    {"a copy of a function's argument",
     "{ .param .b64 at; st.param.b64 [at], %flag; call.uni give, (at); } @%p7 bra end; "
     "again: ld.volatile.global.u32 %v, [%flag]; setp.lt.u32 %p1, %v, 4; @%p1 bra again;",
     NOBODY, true},
    {"a word of the module",
     "@%p7 bra give; again: ld.volatile.global.u32 %v, [word]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; "
     "give: st.volatile.global.u32 [word], 1;",
     NOBODY, true},
    /* parameters, and results of calls */
    {"a limit that is a parameter, beside a call",
     "again: ld.volatile.global.u32 %v, [%flag]; { .param .b64 at; st.param.b64 [at], %other; .param .b32 result; "
     "call.uni (result), count, (at); ld.param.b32 %w, [result]; } st.global.u32 [%other], %v; add.u32 %i, %i, 1; "
     "ld.param.u32 %w, [n]; setp.lt.u32 %p1, %i, %w; @%p1 bra again;",
     ELSEWHERE, false},
    {"a limit that is the result of a call",
     "again: ld.volatile.global.u32 %v, [%flag]; cvt.u64.u32 %next, %v; { .param .b64 at; st.param.b64 [at], %next; "
     ".param .b32 result; call.uni (result), count, (at); ld.param.b32 %w, [result]; } "
     "setp.lt.u32 %p1, %i, %w; @%p1 bra again;",
     ELSEWHERE, true},
    {"an assertion beside a word of local memory",
     "{ .local .b32 mine[2]; .reg .b64 %m; mov.u64 %m, mine; st.local.u32 [%m], 9; again: "
     "ld.volatile.global.u32 %v, [%flag]; setp.lt.u32 %p1, %v, 99; @%p1 bra well; call.uni __assertfail; well: "
     "add.u32 %i, %i, 1; ld.local.u32 %w, [%m]; setp.lt.u32 %p2, %i, %w; @%p2 bra again; }",
     ELSEWHERE, false},
    {"a function beside a word of local memory",
     "{ .local .b32 mine[2]; .reg .b64 %m; mov.u64 %m, mine; st.local.u32 [%m], 9; again: "
     "ld.volatile.global.u32 %v, [%flag]; setp.lt.u32 %p1, %v, 99; @%p1 bra well; "
     "{ .param .b64 at; st.param.b64 [at], %other; call.uni set, (at); } well: "
     "add.u32 %i, %i, 1; ld.local.u32 %w, [%m]; setp.lt.u32 %p2, %i, %w; @%p2 bra again; }",
     ELSEWHERE, true},
    /* the blocks of a loop */
    {"two ways back to the head, beside a count",
     "again: add.u32 %i, %i, 1; ld.volatile.global.u32 %v, [%flag]; setp.ge.u32 %p3, %i, 9; @%p3 bra out; "
     "setp.eq.u32 %p1, %v, 0; @%p1 bra again; st.global.u32 [%other], %v; bra again; out:",
     ELSEWHERE, false},
    {"two ways back to the head",
     "again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; setp.gt.u32 %p2, %v, 2; "
     "@%p2 bra out; st.global.u32 [%other], %v; bra again; out:",
     ELSEWHERE, true},
    {"a head that comes later in the text",
     "bra first; body: ld.volatile.global.u32 %v, [%flag]; st.global.u32 [%other], %v; bra next; "
     "first: setp.eq.u32 %p2, %i, 3; @%p2 bra next; bra body; next: add.u32 %i, %i, 1; setp.lt.u32 %p1, %i, 9; "
     "@%p1 bra first;",
     ELSEWHERE, false},
    {"a head that comes later in the text, and a wait",
     "bra first; body: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p3, %v, 0; @%p3 bra out; bra next; "
     "first: setp.eq.u32 %p2, %i, 3; @%p2 bra next; bra body; next: add.u32 %i, %i, 1; bra first; out:",
     ELSEWHERE, true},
    {"a wait within a loop with the same head",
     "again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; add.u32 %i, %i, 1; "
     "setp.lt.u32 %p2, %i, 9; @%p2 bra again;",
     ELSEWHERE, true},
    /* indices */
    {"a queue before the word", QUEUE("setp.gt.s32 %p1, %k, 1; @%p1 bra full; ", "st.shared.u32 [%m], %v; "), ELSEWHERE,
     false},
    {"a queue before the word, and a test of the limit",
     QUEUE("setp.lt.u32 %p1, %k, 2; @!%p1 bra full; ", "st.shared.u32 [%m], %v; "), ELSEWHERE, false},
    {"a queue that reaches the word", QUEUE("setp.gt.s32 %p1, %k, 2; @%p1 bra full; ", "st.shared.u32 [%m], %v; "),
     ELSEWHERE, true},
    {"a queue that reaches the word, and a test of the limit",
     QUEUE("setp.le.u32 %p1, %k, 2; @!%p1 bra full; ", "st.shared.u32 [%m], %v; "), ELSEWHERE, true},
    {"a queue with a step", QUEUE("setp.gt.s32 %p1, %k, 1; @%p1 bra full; ", "st.shared.u32 [%m+4], %v; "), ELSEWHERE,
     true},
    {"a queue of larger words", QUEUE("setp.gt.s32 %p1, %k, 1; @%p1 bra full; ", "st.shared.v2.u32 [%m], {%v, %v}; "),
     ELSEWHERE, true},
    {"a queue behind the limit", QUEUE("setp.gt.s32 %p1, %k, 1; @!%p1 bra full; ", "st.shared.u32 [%m], %v; "),
     ELSEWHERE, true},
    {"a queue with any index", QUEUE("", "st.shared.u32 [%m], %v; "), ELSEWHERE, true},
    {"a queue whose index is computed again",
     QUEUE("setp.gt.s32 %p1, %k, 1; @%p1 bra full; add.u32 %k, %k, 1; ", "st.shared.u32 [%m], %v; "), ELSEWHERE, true},
    {"a queue that is tested on one way",
     QUEUE("@%p6 bra on; setp.gt.s32 %p1, %k, 1; @%p1 bra full; on: ", "st.shared.u32 [%m], %v; "), ELSEWHERE, true},
    /* claims */
    {"a search for a claimed word",
     "again: mul.wide.u32 %next, %i, 4; add.u64 %next, %flag, %next; ld.volatile.global.u32 %v, [%next]; "
     "setp.eq.u32 %p1, %v, %t; @%p1 bra end; ld.volatile.global.u32 %w, [%next]; setp.eq.u32 %p2, %w, 0; "
     "@%p2 bra out; add.u32 %i, %i, 1; and.b32 %i, %i, 1023; bra again; "
     "out: atom.global.cas.b32 %v, [%next], 0, %t;",
     NOBODY, false},
    {"a search for a claimed word that begins with the next",
     "mov.u64 %next, %flag; bra first; again: ld.volatile.global.u32 %w, [%next]; setp.eq.u32 %p2, %w, 0; "
     "@%p2 bra out; add.u32 %i, %i, 1; and.b32 %i, %i, 1023; mul.wide.u32 %next, %i, 4; add.u64 %next, %flag, %next; "
     "first: ld.volatile.global.u32 %v, [%next]; setp.ne.u32 %p1, %v, %t; @%p1 bra again; bra end; "
     "out: atom.global.cas.b32 %v, [%next], 0, %t;",
     NOBODY, false},
    {"searches for claimed words, one after the other",
     "each: mov.u64 %next, %other; again: ld.volatile.global.u32 %w, [%next]; setp.eq.u32 %p2, %w, 0; "
     "@%p2 bra out; add.u32 %i, %i, 1; and.b32 %i, %i, 1023; mul.wide.u32 %next, %i, 4; add.u64 %next, %other, %next; "
     "ld.volatile.global.u32 %v, [%next]; setp.ne.u32 %p1, %v, %t; @%p1 bra again; "
     "out: atom.global.cas.b32 %v, [%next], 0, %t; add.u32 %t, %t, 256; setp.lt.u32 %p3, %t, 1024; @%p3 bra each;",
     NOBODY, false},
    {"a search that another word ends",
     "again: mul.wide.u32 %next, %i, 4; add.u64 %next, %flag, %next; ld.volatile.global.u32 %v, [%next]; "
     "setp.eq.u32 %p1, %v, %t; @%p1 bra end; ld.volatile.global.u32 %w, [%next+64]; setp.eq.u32 %p2, %w, 0; "
     "@%p2 bra out; add.u32 %i, %i, 1; and.b32 %i, %i, 1023; bra again; "
     "out: atom.global.cas.b32 %v, [%next], 0, %t;",
     NOBODY, true},
    {"a search that looks again after a step",
     "again: mul.wide.u32 %next, %i, 4; add.u64 %next, %flag, %next; ld.volatile.global.u32 %v, [%next]; "
     "setp.eq.u32 %p1, %v, %t; @%p1 bra end; add.u64 %next, %next, 4; ld.volatile.global.u32 %w, [%next]; "
     "setp.eq.u32 %p2, %w, 0; @%p2 bra out; add.u32 %i, %i, 1; and.b32 %i, %i, 1023; bra again; "
     "out: atom.global.cas.b32 %v, [%next], 0, %t;",
     NOBODY, true},
    {"a search that ends at claimed words only",
     "again: mul.wide.u32 %next, %i, 4; add.u64 %next, %flag, %next; ld.volatile.global.u32 %v, [%next]; "
     "setp.eq.u32 %p1, %v, %t; @%p1 bra end; ld.volatile.global.u32 %w, [%next]; setp.eq.u32 %p2, %w, 7; "
     "@%p2 bra out; add.u32 %i, %i, 1; and.b32 %i, %i, 1023; bra again; "
     "out: atom.global.cas.b32 %v, [%next], 0, %t;",
     NOBODY, true},
    {"the upper half of what a later block writes",
     "mul.wide.u32 %next, %b, 8; add.u64 %next, %flag, %next; st.global.u64 [%next], %other; "
     "again: ld.volatile.global.u32 %v, [%next+12]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     NOBODY, true},
    {"a half of words that are marked",
     "again: mul.wide.u32 %next, %i, 8; add.u64 %next, %flag, %next; atom.global.exch.b32 %v, [%next+4], 1; "
     "add.u32 %i, %i, 1; and.b32 %i, %i, 1023; setp.eq.u32 %p1, %v, 0; @%p1 bra again; "
     "atom.global.exch.b64 %next, [%next], 1;",
     NOBODY, true},
    {"a half of words that are claimed",
     "again: mul.wide.u32 %next, %i, 8; add.u64 %next, %flag, %next; ld.volatile.global.u32 %v, [%next+4]; "
     "add.u32 %i, %i, 1; and.b32 %i, %i, 1023; setp.ne.u32 %p1, %v, 9; @%p1 bra again; "
     "atom.global.cas.b64 %next, [%next], 9, %other;",
     NOBODY, true},
    {"a word of which half is written",
     "@%p7 bra give; again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 1; @%p1 bra again; bra end; "
     "give: st.global.u16 [%flag+2], 1;",
     NOBODY, true},
    {"a claim of another word than the one that is waited for",
     "add.u32 %w, %b, 1; mul.wide.u32 %next, %w, 4; add.u64 %next, %flag, %next; setp.eq.u32 %p5, %b, 9; "
     "@%p5 bra give; again: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @%p1 bra end; "
     "atom.global.cas.b32 %w, [%next], 0, 1; setp.ne.u32 %p2, %w, 0; @%p2 bra again; bra end; "
     "give: atom.global.cas.b32 %w, [%flag], 0, 1;",
     NOBODY, true},
    /* pointers */
    {"a pointer through a shuffle",
     "{ .reg .b32 %l<4>; mov.b64 {%l0, %l1}, %flag; shfl.sync.idx.b32 %l2, %l0, 0, 31, -1; "
     "shfl.sync.idx.b32 %l3, %l1, 0, 31, -1; mov.b64 %next, {%l2, %l3}; } @%p7 bra give; "
     "again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; "
     "give: st.volatile.global.u32 [%next], 1;",
     NOBODY, true},
    {"a pointer put together by shifting",
     "{ .reg .b32 %l<2>; .reg .b64 %h<2>; mov.b64 {%l0, %l1}, %flag; cvt.u64.u32 %h0, %l0; cvt.u64.u32 %h1, %l1; "
     "shl.b64 %h1, %h1, 32; or.b64 %next, %h0, %h1; } @%p7 bra give; again: ld.volatile.global.u32 %v, [%flag]; "
     "setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; give: st.volatile.global.u32 [%next], 1;",
     NOBODY, true},
    {"one of two pointers",
     "setp.eq.u32 %p5, %t, 0; selp.b64 %next, %flag, %other, %p5; @%p7 bra give; "
     "again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; "
     "give: st.volatile.global.u32 [%next], 1;",
     NOBODY, true},
    {"a pointer in memory",
     "ld.global.u64 %next, [%other]; @%p7 bra give; again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; "
     "@%p1 bra again; bra end; give: st.volatile.global.u32 [%next], 1;",
     NOBODY, true},
    {"another parameter, which may be the same",
     "@%p7 bra give; again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; "
     "give: st.volatile.global.u32 [%other], 1;",
     NOBODY, true},
    {"another parameter, behind the wait", AWAIT("[%flag]", "0") "st.volatile.global.u32 [%other], 1;", NOBODY, false},
    {"a store of 128 bits, behind the wait", AWAIT("[%flag]", "0") "st.global.v4.u32 [%other], {%t, %t, %t, %t};",
     NOBODY, false},
    {"a word of the module, behind the wait", AWAIT("[word]", "0") "st.global.u32 [%other], %t;", NOBODY, false},
    {"another parameter, before the wait", "st.volatile.global.u32 [%other], 1; " AWAIT("[%flag]", "0"), NOBODY, true},
    {"another parameter, behind the wait of some blocks",
     "@%p7 bra past; " AWAIT("[%flag]", "0") "past: st.volatile.global.u32 [%other], 1;", NOBODY, true},
    {"another parameter, behind the wait for a word of each block",
     OF_BLOCK_WORD AWAIT("[%next]", "0") "st.volatile.global.u32 [%other], 1;", NOBODY, true},
    {"another parameter, behind the wait for a number of each block",
     AWAIT("[%flag]", "%b") "st.volatile.global.u32 [%other], 1;", NOBODY, true},
    {"another parameter, behind the wait for another value",
     "@%p7 bra second; " AWAIT("[%flag]",
                               "0") "bra end; second: { hear: ld.volatile.global.u32 %w, [%flag]; "
                                    "setp.ne.u32 %p2, %w, 7; @%p2 bra hear; } st.volatile.global.u32 [%other], 1;",
     NOBODY, true},
    {"a plain store through another parameter",
     "@%p7 bra give; again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; "
     "give: st.global.u32 [%other], 1;",
     NOBODY, true},
    {"a store of another size through another parameter",
     "@%p7 bra give; again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; "
     "give: st.global.u64 [%other], %next;",
     NOBODY, true},
    {"a byte through another parameter",
     "@%p7 bra give; again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; "
     "give: st.global.u8 [%other], 1;",
     NOBODY, true},
    {"a sum of two halves through another parameter",
     "@%p7 bra give; again: ld.volatile.global.u64 %next, [%flag]; setp.eq.u64 %p1, %next, 0; @%p1 bra again; bra end; "
     "give: red.global.add.u32 [%other], 1;",
     NOBODY, true},
    {"a store of 128 bits through another parameter",
     "{ .reg .b128 %q; mov.b128 %q, {%next, %next}; @%p7 bra give; again: ld.volatile.global.u32 %v, [%flag]; "
     "setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; give: st.global.b128 [%other], %q; }",
     NOBODY, true},
    {"a parameter read in two halves",
     "{ .reg .b32 %l<2>; ld.param.u32 %l0, [flag]; ld.param.u32 %l1, [flag+4]; mov.b64 %next, {%l0, %l1}; } "
     "@%p7 bra give; again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; "
     "give: st.volatile.global.u32 [%next], 1;",
     NOBODY, true},
    {"a parameter read in two halves, which are shifted together",
     "{ .reg .b32 %l<2>; .reg .b64 %h<2>; ld.param.u32 %l0, [flag]; ld.param.u32 %l1, [flag+4]; cvt.u64.u32 %h0, %l0; "
     "cvt.u64.u32 %h1, %l1; shl.b64 %h1, %h1, 32; or.b64 %next, %h0, %h1; } "
     "@%p7 bra give; again: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end; "
     "give: st.volatile.global.u32 [%next], 1;",
     NOBODY, true},
    {"a counter in shared memory at a generic address",
     "mov.u64 %next, own; cvta.shared.u64 %next, %next; again: atom.add.u32 %v, [%next], 1; setp.lt.u32 %p1, %v, 50; "
     "@%p1 bra again;",
     NOBODY, false},
    {"a word in shared memory at a generic address",
     "mov.u64 %next, own; cvta.shared.u64 %next, %next; again: ld.volatile.u32 %v, [%next]; setp.eq.u32 %p1, %v, 0; "
     "@%p1 bra again;",
     BEHIND, false},
    {"what another block writes, through shared memory at a generic address",
     "mov.u64 %next, own; cvta.shared.u64 %next, %next; again: ld.volatile.global.u32 %v, [%flag]; "
     "atom.exch.b32 %w, [%next], %v; setp.eq.u32 %p1, %w, 0; @%p1 bra again;",
     ELSEWHERE, true},
    /* through other threads */
    {"a flag forwarded in shared memory",
     FORWARD("st.volatile.shared.u32 [own], %v; ", WAIT("ld.volatile.shared.u32 %v, [own];")), NOBODY, true},
    {"a flag forwarded in another word",
     FORWARD("st.volatile.global.u32 [%other], %v; ", WAIT("ld.volatile.global.u32 %v, [%other];")), NOBODY, true},
    {"a flag forwarded by counting",
     FORWARD("setp.ne.u32 %p4, %v, 0; @%p4 red.global.add.u32 [%other], 1; ",
             WAIT("ld.volatile.global.u32 %v, [%other];")),
     NOBODY, true},
    {"a flag forwarded by a branch",
     FORWARD("setp.eq.u32 %p4, %v, 0; @%p4 bra skip; st.volatile.shared.u32 [own], 1; skip: ",
             WAIT("ld.volatile.shared.u32 %v, [own];")),
     NOBODY, true},
    {"a flag forwarded by an address",
     FORWARD("{ .reg .b32 %to; shl.b32 %to, %v, 3; add.u32 %to, %to, own; st.volatile.shared.u32 [%to], 1; } ",
             WAIT("ld.volatile.shared.u32 %v, [own+8];")),
     NOBODY, true},
    {"a flag forwarded twice",
     FORWARD("st.volatile.shared.u32 [own], %v; ",
             "setp.ne.u32 %p5, %t, 1; @%p5 bra hear; pass: ld.volatile.shared.u32 %v, [own]; "
             "st.volatile.shared.u32 [own+8], %v; ld.volatile.shared.u32 %w, [own+4]; setp.eq.u32 %p2, %w, 0; "
             "@%p2 bra pass; bra end; " WAIT("ld.volatile.shared.u32 %v, [own+8];")),
     NOBODY, true},
    {"a flag forwarded to a function",
     FORWARD("st.volatile.shared.u32 [own], %v; ",
             "{ .param .b32 at; mov.u32 %v, own; st.param.b32 [at], %v; call.uni hold, (at); } "),
     NOBODY, true},
    {"a flag forwarded by a function",
     "@%p7 st.volatile.global.u32 [%flag], 1; setp.ne.u32 %p1, %t, 0; @%p1 bra hear; "
     "{ .param .b64 at; .param .b32 to; mov.u32 %v, own; st.param.b64 [at], %flag; st.param.b32 [to], %v; "
     "call.uni forward, (at, to); } bra end; " WAIT(
         "ld.volatile.shared.u32 %v, [own];") "st.volatile.shared.u32 [own+4], 1;",
     NOBODY, true},
    {"a flag forwarded by a barrier",
     ".reqntid 64\n@%p7 st.volatile.global.u32 [%flag], 1; shr.u32 %w, %t, 5; setp.ne.u32 %p1, %w, 0; @%p1 bra second; "
     "again: ld.volatile.global.u32 %v, [%flag]; redux.sync.max.u32 %v, %v, -1; setp.eq.u32 %p2, %v, 0; @%p2 bra skip; "
     "bar.sync 1, 64; skip: ld.volatile.shared.u32 %w, [own]; redux.sync.max.u32 %w, %w, -1; setp.eq.u32 %p2, %w, 0; "
     "@%p2 bra again; bra end; second: bar.sync 1, 64; st.volatile.shared.u32 [own], 1;",
     NOBODY, true},
    {"a flag forwarded a number of times",
     "@%p7 st.volatile.global.u32 [%flag], 1; setp.ne.u32 %p1, %t, 0; @%p1 bra hear; again: "
     "ld.volatile.global.u32 %v, [%flag]; st.volatile.shared.u32 [own], %v; add.u32 %i, %i, 1; setp.lt.u32 %p2, %i, 9; "
     "@%p2 bra again; st.volatile.shared.u32 [own], 1; bra end; " WAIT("ld.volatile.shared.u32 %v, [own];"),
     NOBODY, false},
    {"the block before, by a number that is 0 where it was found to be 0", CHOICE("%b, 0", "%b", "", ""), NOBODY,
     false},
    {"the ticket before, by a number that is 0 where it was found to be 0",
     CHOICE("%x, 0", "%x", "atom.global.add.u32 %x, [%other], 1; ", ""), NOBODY, false},
    {"the block before, by a number that is 0 where another one is", CHOICE("%t, 0", "%b", "", ""), NOBODY, true},
    {"the block before, by a number that is 0 where it is 1", CHOICE("%b, 1", "%b", "", ""), NOBODY, true},
    {"the block before, by a number that is 0 also where it is not",
     CHOICE("%b, 0", "%b", "setp.eq.u32 %p4, %b, 3; @%p4 bra none; ", ""), NOBODY, true},
    {"the block before, by a number that is changed after it was found to be 0",
     CHOICE("%x, 0", "%x", "", "atom.global.add.u32 %x, [%other], 1; "), NOBODY, true},
    {"a flag forwarded by a loop that counts",
     FORWARD("st.volatile.shared.u32 [own], %v; add.u32 %i, %i, 1; setp.gt.u32 %p4, %i, 1000000; @%p4 bra end; ",
             WAIT("ld.volatile.shared.u32 %v, [own];")),
     NOBODY, true},
    {"a flag of the block before, forwarded",
     "{ .reg .b64 %far; mul.wide.u32 %far, %b, 4; add.u64 %next, %flag, %far; setp.ne.u32 %p1, %t, 0; @%p1 bra second; "
     "again: ld.volatile.global.u32 %v, [%next+-4]; st.volatile.shared.u32 [own], %v; ld.volatile.shared.u32 %w, "
     "[own+4]; setp.eq.u32 %p2, %w, 0; @%p2 bra again; bra end; second: @!%p7 bra first; " WAIT(
         "ld.volatile.shared.u32 %v, [own];") "first: st.volatile.global.u32 [%next], 1; "
                                              "st.volatile.shared.u32 [own+4], 1; }",
     NOBODY, false},
    /* functions with fences */
    {"two places by turns, and a fence",
     "again: membar.gl; xor.b32 %i, %i, 4; cvt.u64.u32 %next, %i; add.u64 %next, %next, %flag; "
     "ld.global.u32 %v, [%next]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"two places by turns, and a function with a fence",
     "again: call.uni order; xor.b32 %i, %i, 4; cvt.u64.u32 %next, %i; add.u64 %next, %next, %flag; "
     "ld.global.u32 %v, [%next]; setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"two places by turns, and a fence that is called through a pointer",
     "{ .reg .b64 %to; mov.u64 %to, order; again: { to: .callprototype _ (); call %to, (), to; } xor.b32 %i, %i, 4; "
     "cvt.u64.u32 %next, %i; add.u64 %next, %next, %flag; ld.global.u32 %v, [%next]; setp.eq.u32 %p1, %v, 0; "
     "@%p1 bra again; }",
     ELSEWHERE, true},
    {"two places by turns, read by a function, and a fence",
     "again: membar.gl; xor.b32 %i, %i, 4; cvt.u64.u32 %next, %i; add.u64 %next, %next, %flag; "
     "{ .param .b64 at; .param .b32 got; st.param.b64 [at], %next; call.uni (got), look, (at); ld.param.b32 %v, [got]; "
     "} "
     "setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"two places by turns, a function that reads and one with a fence",
     "again: call.uni order; xor.b32 %i, %i, 4; cvt.u64.u32 %next, %i; add.u64 %next, %next, %flag; "
     "{ .param .b64 at; .param .b32 got; st.param.b64 [at], %next; call.uni (got), look, (at); ld.param.b32 %v, [got]; "
     "} "
     "setp.eq.u32 %p1, %v, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"a function with a fence in a loop that counts",
     "again: call.uni order; add.u32 %i, %i, 4; cvt.u64.u32 %next, %i; add.u64 %next, %next, %other; "
     "ld.global.u32 %v, [%next]; setp.lt.u32 %p1, %i, 64; @%p1 bra again;",
     ELSEWHERE, false},
    /* memory that another block frees */
    {"malloc until it succeeds", "again: " MALLOC "setp.eq.u64 %p1, %next, 0; @%p1 bra again;", NOBODY, true},
    {"malloc until it succeeds, which other threads see",
     "again: " MALLOC "setp.ne.u64 %p1, %next, 0; bar.red.or.pred %p2, 0, %p1; @!%p2 bra again;", NOBODY, true},
    {"malloc until it succeeds, through local memory",
     "{ .local .b64 mine; again: " MALLOC "st.local.u64 [mine], %next; ld.local.u64 %next, [mine]; "
     "setp.eq.u64 %p1, %next, 0; @%p1 bra again; }",
     NOBODY, true},
    {"malloc until it succeeds, and some blocks give up",
     "again: " MALLOC "setp.ne.u64 %p1, %next, 0; @%p1 bra out; @%p7 bra end; bra again; out:", NOBODY, true},
    {"malloc until it succeeds or has failed often",
     "again: " MALLOC "setp.ne.u64 %p1, %next, 0; @%p1 bra out; add.u32 %i, %i, 1; setp.lt.u32 %p2, %i, 9; "
     "@%p2 bra again; out:",
     NOBODY, false},
    {"malloc until it fails", "again: " MALLOC "setp.ne.u64 %p1, %next, 0; @%p1 bra again;", NOBODY, false},
    {"malloc for each element of a list",
     "again: " MALLOC "setp.eq.u64 %p1, %next, 0; @%p1 bra end; st.global.u64 [%next], %other; "
     "ld.global.u64 %other, [%other]; setp.ne.u64 %p2, %other, 0; @%p2 bra again;",
     NOBODY, false},
    {"malloc beside a loop that counts",
     "again: " MALLOC "st.global.u64 [%other], %next; add.u32 %i, %i, 1; setp.lt.u32 %p1, %i, 9; @%p1 bra again;",
     NOBODY, false},
    {"a function with malloc until it succeeds",
     "again: " ALLOCATE("call.uni (got), get, (size); ") "setp.eq.u64 %p1, %next, 0; @%p1 bra again;", NOBODY, true},
    {"a function that insists on memory", "call.uni insist;", NOBODY, true},
    /* counters of tickets */
    {"tickets of one counter", TICKET_OF("mov.b64 %ours, %other; "), NOBODY, false},
    {"tickets of a variable", TICKET_OF("mov.u64 %ours, word; "), NOBODY, false},
    {"tickets of two counters",
     TICKET_OF("selp.u32 %y, 4, 0, %p7; cvt.u64.u32 %away, %y; add.u64 %ours, %other, %away; "), NOBODY, true},
    {"tickets of a counter of each row",
     TICKET_OF("mov.u32 %y, %ctaid.y; mul.wide.u32 %away, %y, 4; add.u64 %ours, %other, %away; "), NOBODY, true},
    {"tickets of a counter of each thread", TICKET_OF("mul.wide.u32 %away, %t, 4; add.u64 %ours, %other, %away; "),
     NOBODY, true},
    {"tickets of a counter in memory", TICKET_OF("ld.global.u64 %ours, [%other]; "), NOBODY, true},
    {"tickets, and a byte at an offset in memory", TICKET_OF("mov.b64 %ours, %other; " STORE("%from", "")), NOBODY,
     false},
    {"tickets, and a byte at an offset or at a pointer in memory",
     TICKET_OF("mov.b64 %ours, %other; " STORE("%from", "@%p7 mov.b64 %to, %away; ")), NOBODY, true},
    {"tickets, and a byte at a pointer in memory", TICKET_OF("mov.b64 %ours, %other; " STORE("%where", "")), NOBODY,
     true},
    {"tickets, and a byte at an offset to another pointer",
     TICKET_OF("mov.b64 %ours, %other; " STORE("%from", "sub.u64 %away, %other, %from; add.u64 %to, %from, %away; ")),
     NOBODY, true},
    {"tickets of a counter that an argument chooses",
     TICKET_OF("ld.param.u32 %y, [n]; mul.wide.u32 %away, %y, 4; add.u64 %ours, %other, %away; "), NOBODY, false},
    {"a lock of each block with tickets", TICKET_LOCK("add.u64 %ours, %flag, %far; ", "mov.b64 %next, %ours; "), NOBODY,
     false},
    {"a lock with the tickets of each thread", TICKET_LOCK("add.u64 %ours, %other, %near; ", "mov.b64 %next, %flag; "),
     NOBODY, true},
    {"a lock with the tickets of another", TICKET_LOCK("add.u64 %ours, %other, %far; ", "sub.u64 %next, %flag, %far; "),
     NOBODY, true},
    /* through lanes, barriers and branches */
    {"a vote of the barrier",
     "again: ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 0; bar.red.or.pred %p2, 0, %p1; @!%p2 bra again;",
     ELSEWHERE, true},
    {"a reduction of the warp",
     "again: ld.volatile.global.u32 %v, [%flag]; redux.sync.max.u32 %w, %v, -1; setp.eq.u32 %p1, %w, 0; "
     "@%p1 bra again;",
     ELSEWHERE, true},
    {"local memory",
     "{ .local .b32 mine[2]; again: ld.volatile.global.u32 %v, [%flag]; st.local.u32 [mine+4], %v; "
     "ld.local.u32 %w, [mine+4]; setp.eq.u32 %p1, %w, 0; @%p1 bra again; }",
     ELSEWHERE, true},
    {"another word of shared memory",
     "again: ld.volatile.global.u32 %v, [%flag]; st.shared.u32 [own+4], %v; add.u32 %i, %i, 1; st.shared.u32 [own], "
     "%i; "
     "ld.shared.u32 %w, [own]; setp.lt.u32 %p1, %w, 9; @%p1 bra again;",
     ELSEWHERE, false},
    {"the second word of a vector in shared memory, which is read",
     "again: ld.volatile.global.u32 %v, [%flag]; add.u32 %i, %i, 1; st.shared.v2.u32 [own], {%i, %v}; "
     "ld.shared.u32 %w, [own+4]; setp.eq.u32 %p1, %w, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"a loop with two entries",
     "@%p6 bra second; first: ld.volatile.global.u32 %v, [%flag]; second: setp.eq.u32 %p1, %v, 0; @%p1 bra first;",
     ELSEWHERE, true},
    {"a register that is used again",
     "again: add.u32 %w, %i, 1; mov.u32 %i, %w; setp.ge.u32 %p1, %w, 9; @%p1 bra out; "
     "ld.volatile.global.u32 %w, [%flag]; st.global.u32 [%other], %w; bra again; out:",
     ELSEWHERE, false},
    {"a register that is used again, and written only sometimes",
     "again: @%p6 add.u32 %w, %i, 1; setp.ge.u32 %p1, %w, 9; @%p1 bra out; add.u32 %i, %i, 1; "
     "ld.volatile.global.u32 %w, [%flag]; st.global.u32 [%other], %w; bra again; out:",
     ELSEWHERE, true},
    {"a register that is written too late",
     "again: setp.ge.u32 %p1, %w, 9; @%p1 bra out; add.u32 %w, %i, 1; mov.u32 %i, %w; "
     "ld.volatile.global.u32 %w, [%flag]; st.global.u32 [%other], %w; bra again; out:",
     ELSEWHERE, true},
    {"a register that goes on from what was read",
     "again: add.u32 %w, %w, 1; setp.ge.u32 %p1, %w, 9; @%p1 bra out; "
     "ld.volatile.global.u32 %w, [%flag]; st.global.u32 [%other], %w; bra again; out:",
     ELSEWHERE, true},
    {"a register that is written on another way, too",
     "again: add.u32 %w, %i, 1; @%p6 bra skip; ld.volatile.global.u32 %w, [%flag]; skip: setp.ge.u32 %p1, %w, 9; "
     "@%p1 bra out; add.u32 %i, %i, 1; bra again; out:",
     ELSEWHERE, true},
    {"a register of which a half was read",
     "again: ld.volatile.global.u32 %w, [%flag]; cvt.u64.u32 %next, %w; add.u64 %next, %next, 0; mov.u32 %w, 3; "
     "cvt.u32.u64 %w, %next; setp.eq.u32 %p1, %w, 0; @%p1 bra again;",
     ELSEWHERE, true},
    {"a read that decides nothing",
     "again: ld.volatile.global.u32 %v, [%flag]; st.global.u32 [%other], %v; add.u32 %i, %i, 1; "
     "setp.lt.u32 %p1, %i, 9; @%p1 bra again;",
     ELSEWHERE, false},
    {"the last block",
     "atom.global.inc.u32 %v, [%flag], 15; setp.ne.u32 %p1, %v, 15; @%p1 bra end; again: ld.global.u32 %w, [%other]; "
     "add.u32 %i, %i, 1; setp.lt.u32 %p2, %i, 9; @%p2 bra again;",
     NOBODY, false},
    {"a number that grows, shifted up", COUNTED "shl.b32 %w, %v, 16; " WHILE, NOBODY, false},
    {"a number that grows, and its high bits are lost", COUNTED "shl.b32 %w, %v, 17; " WHILE, NOBODY, true},
    {"a number that grows, times so much that its high bits are lost", COUNTED "mul.lo.u32 %w, %v, 1048576; " WHILE,
     NOBODY, true},
    {"a number that grows, times as much in 64 bits",
     COUNTED "mul.wide.u32 %next, %v, 1048576; setp.lt.u64 %p1, %next, 5; @%p1 bra again;", NOBODY, false},
    {"large steps whose high bits are lost", "again: atom.global.add.u32 %v, [%flag], 256; shl.b32 %w, %v, 9; " WHILE,
     NOBODY, true},
    {"steps that are so large that they pass the limit",
     "again: atom.global.add.u32 %v, [%flag], 1073741824; setp.lt.s32 %p1, %v, 2147483632; @%p1 bra again;", NOBODY,
     true},
    {"a number that grows until a loop inside does not end",
     COUNTED "stay: setp.gt.u32 %p2, %v, 1000000; @%p2 bra stay; and.b32 %w, %v, 7; setp.ne.u32 %p1, %w, 5; "
             "@%p1 bra again;",
     NOBODY, true},
    {"a lock of which only a byte is looked at",
     "again: ld.volatile.global.u8 %v, [%flag]; setp.ne.u32 %p1, %v, 0; @%p1 bra again; "
     "atom.global.cas.b32 %v, [%flag], 256, 1; setp.ne.u32 %p2, %v, 256; @%p2 bra again;",
     BEHIND, true},
};

/* The kernel with this loop, which begins at *from. */
static gs_text put_loop(const char *rules, enum writer writer, size_t *from) {
    gs_text text = {0};
    const char *body = strstr(head, ".param .u32 n)\n") + strlen(".param .u32 n)\n");
    const char *loop = strchr(rules, '\n') ? strchr(rules, '\n') + 1 : rules;
    const char *kernel = strncmp(rules, ".func", 5) ? body : strstr(head, ".visible .entry k");
    gs_text_add(&text, "%.*s%.*s%s%s", (int)(kernel - head), head, (int)(loop - rules), rules, kernel, before[writer]);
    *from = text.count;
    gs_text_add(&text, "%s\n%s", loop, after[writer]);
    return text;
}

static gs_code reshape(const char *what, const char *rules, enum writer writer, gs_error *error) {
    gs_ptx_options options = {.form = GS_FORM_PERSISTENT};
    gs_ptx_module module;
    size_t from;
    gs_text text = put_loop(rules, writer, &from);
    if (gs_ptx_read(&module, "k.ptx", text.data, text.count, error) != GS_OK)
        fail_msg("%s: %ld: %s", what, error->line, error->message);
    gs_code code = gs_ptx_reshape(&module, (uint32_t)gs_ptx_find_function(&module, "k"), &options, NULL, NULL, error);
    gs_ptx_free(&module);
    gs_text_free(&text);
    return code;
}

static void expect(const char *what, const char *loop, enum writer writer, bool is_refused) {
    gs_error error = {.code = GS_OK};
    gs_code code = reshape(what, loop, writer, &error);
    if (code != (is_refused ? GS_E_REFUSED : GS_OK))
        fail_msg("%s: %s %s", what, code == GS_OK ? "accepted" : "refused", error.message);
    if (is_refused && !strstr(error.message, "waits in a loop for memory that another block may write") &&
        !strstr(error.message, "waits in a loop for memory that another block may free") &&
        !strstr(error.message, "calls a function that may wait for memory that another block writes"))
        fail_msg("%s: refused for another reason: %s", what, error.message);
}

TEST(loops_that_only_another_block_can_end_are_refused) {
    for (size_t i = 0; i < GS_COUNT(rows); i++)
        expect(rows[i].what, rows[i].loop, rows[i].writer, rows[i].is_refused);
}

/* A store right before the word that counts iterations does not write it, nor does one to another variable; a store a
   byte further does. */
TEST(stores_are_as_wide_as_they_say) {
    static const struct {
        const char *type, *value;
        int bytes;
    } stores[] = {{"u8", "%v", 1},
                  {"b16", "%v", 2},
                  {"b32", "%v", 4},
                  {"u64", "%next", 8},
                  {"v2.u8", "{%v, %v}", 2},
                  {"v2.b32", "{%v, %v}", 8},
                  {"v4.s16", "{%v, %v, %v, %v}", 8},
                  {"v4.u32", "{%v, %v, %v, %v}", 16},
                  {"v2.b64", "{%next, %next}", 16}};
    for (size_t i = 0; i < GS_COUNT(stores); i++) {
        const struct {
            const char *variable;
            int at;
        } places[] = {{"many", 32 - stores[i].bytes}, {"beside", 32}, {"many", 33 - stores[i].bytes}};
        for (size_t k = 0; k < GS_COUNT(places); k++) {
            char loop[600];
            snprintf(loop, sizeof loop,
                     "{ .shared .b32 many[9]; .shared .b32 beside[12]; again: ld.volatile.global.u32 %%v, [%%flag]; "
                     "cvt.u64.u32 %%next, %%v; add.u32 %%i, %%i, 1; st.shared.u32 [many+32], %%i; "
                     "st.shared.%s [%s+%d], %s; ld.shared.u32 %%w, [many+32]; setp.lt.u32 %%p2, %%w, 9; "
                     "@%%p2 bra again; }",
                     stores[i].type, places[k].variable, places[k].at, stores[i].value);
            expect(stores[i].type, loop, ELSEWHERE, k == 2);
        }
    }
}

/* A pointer that is either shared memory or a parameter may write the shared word that ends a loop. A limit that a
   function returns, or that another thread of the block may move meanwhile, does not stay. */
TEST(what_may_change_in_a_loop_ends_it_or_not) {
#define CHOOSE "st.shared.u32 [own], 0; mov.u64 %next, own; cvta.shared.u64 %next, %next; setp.eq.u32 %p6, %t, 99; "
#define PASS_ON(write)                                                                                                 \
    "again: ld.volatile.global.u32 %v, [%flag]; " write "ld.shared.u32 %w, [own]; setp.eq.u32 %p1, %w, 0; "            \
    "@%p1 bra again;"
#define LIMITED(limit) "again: atom.global.add.u32 %v, [%flag], 1; " limit "setp.lt.u32 %p1, %v, %w; @%p1 bra again;"
#define CALL_FOR_LIMIT                                                                                                 \
    "{ .param .b64 at; .param .b32 result; cvt.u64.u32 %next, %i; st.param.b64 [at], %next; "                          \
    "call.uni (result), count, (at); ld.param.b32 %w, [result]; } "
    static const struct {
        const char *what, *loop;
        enum writer writer;
        bool is_refused;
    } cases[] = {
        {"a pointer that is selected", CHOOSE "selp.b64 %next, %other, %next, %p6; " PASS_ON("st.u32 [%next], %v; "),
         ELSEWHERE, true},
        {"a pointer that a branch sets",
         CHOOSE "@%p6 bra have; mov.u64 %next, %other; have: " PASS_ON("atom.or.b32 %w, [%next], %v; "), ELSEWHERE,
         true},
        {"a limit that a function computes from a counter", LIMITED(CALL_FOR_LIMIT "add.u32 %i, %w, 1; "), NOBODY,
         true},
        {"a shared limit that others move", LIMITED("ld.volatile.shared.u32 %w, [own]; "), NOBODY, true},
        {"a shared limit", LIMITED("ld.shared.u32 %w, [own]; "), NOBODY, false},
        {"a limit that a function has computed before", CALL_FOR_LIMIT LIMITED(""), NOBODY, false},
    };
    (void)state;
    for (size_t i = 0; i < GS_COUNT(cases); i++)
        expect(cases[i].what, cases[i].loop, cases[i].writer, cases[i].is_refused);
}

/* Also a loop that begins with the kernel, of one part or of two. Block 5 gives what the others wait for. */
TEST(loops_from_the_first_statement_are_refused) {
    static const char *const middles[] = {"", "\t@%p bra part;\npart:\n"};
    for (size_t i = 0; i < GS_COUNT(middles); i++) {
        gs_text text = {0};
        gs_ptx_module module;
        gs_ptx_options options = {.form = GS_FORM_PERSISTENT};
        gs_error error = {.message = ""};
        gs_text_add(&text,
                    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a)\n{\nagain:\n"
                    "\t.reg .b64 %%a; .reg .b32 %%v, %%c; .reg .pred %%p;\n\tld.param.u64 %%a, [a];\n"
                    "\tmov.u32 %%c, %%ctaid.x;\n\tld.volatile.global.u32 %%v, [%%a];\n\tsetp.eq.u32 %%p, %%v, 0;\n"
                    "%s\tsetp.ne.and.u32 %%p, %%c, 5, %%p;\n\t@%%p bra again;\n"
                    "\tst.volatile.global.u32 [%%a], 1;\n\tret;\n}\n",
                    middles[i]);
        assert_int_equal(gs_ptx_read(&module, "k.ptx", text.data, text.count, &error), GS_OK);
        assert_int_equal(gs_ptx_reshape(&module, 0, &options, NULL, NULL, &error), GS_E_REFUSED);
        assert_non_null(strstr(error.message, "waits in a loop for memory that another block may write"));
        gs_ptx_free(&module);
        gs_text_free(&text);
    }
}

TEST(nearly_the_same_loops_are_decided_as_before) {
    static const char *const inserted[] = {"st.volatile.global.u32 [%flag], %i; ",
                                           "ld.volatile.global.u32 %v, [%flag]; ",
                                           "atom.global.add.u32 %v, [%other], 1; ",
                                           "bar.sync 0; ",
                                           "add.u32 %i, %i, 1; ",
                                           "mov.u32 %v, %t; ",
                                           "st.shared.u32 [own], %v; ",
                                           "ld.shared.u32 %w, [own]; ",
                                           "setp.eq.u32 %p1, %v, 1; ",
                                           "membar.gl; ",
                                           "atom.global.exch.b32 %w, [%flag], 0; ",
                                           "shfl.sync.idx.b32 %v, %i, 0, 31, 0xffffffff; ",
                                           "bra end; ",
                                           "mov.u32 %w, %clock; ",
                                           "add.u64 %next, %flag, 4; ",
                                           "ret; ",
                                           NULL};
    static const variations_scope scope = {.symbol = "k", .guard = "@%p7 ", .value = "%w", .inserted = inserted};
    variations_open("waits");
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        size_t from;
        gs_text text = put_loop(rows[i].loop, rows[i].writer, &from);
        variations_expect(rows[i].what, text.data, text.data + from, text.data + text.count, &scope);
        gs_text_free(&text);
    }
    variations_close();
}

/* How a value comes from %x to %w: only a part of it; scaled, and its high bits are lost if it grows; whole, but what
   grows does not count as growing; whole. */
enum passed { PART, SCALED, VALUE, GROWING };
static const struct {
    const char *way;
    enum passed passed;
} ways[] = {
    {"mov.b32 %w, %x;", GROWING},
    {"add.u32 %w, %x, 3;", GROWING},
    {"cvt.u32.u32 %w, %x;", GROWING},
    {"cvt.s64.s32 %d, %x; cvt.u32.u64 %w, %d;", VALUE},
    {"st.shared.u32 [own], %x; ld.shared.b32 %w, [own];", GROWING},
    {"st.local.s32 [near], %x; ld.local.u32 %w, [near];", GROWING},
    {"st.shared.u32 [own], %x; st.shared.u8 [own+4], 7; ld.shared.b32 %w, [own];", GROWING},
    {"cvt.s32.s8 %w, %x;", PART},
    {"cvt.u32.u8 %w, %x;", PART},
    {"cvt.u32.u16 %w, %x;", PART},
    {"cvt.s32.s16 %w, %x;", PART},
    {"cvt.u8.u32 %w, %x;", PART},
    {"cvt.s8.s32 %w, %x;", PART},
    {"cvt.u16.u32 %w, %x;", PART},
    {"cvt.s16.s32 %w, %x;", PART},
    {"cvt.sat.u8.u32 %w, %x;", PART},
    {"cvt.sat.s32.u32 %w, %x;", PART},
    {"cvt.s64.s8 %d, %x; cvt.u32.u64 %w, %d;", PART},
    {"cvt.u64.u8 %d, %x; cvt.u32.u64 %w, %d;", PART},
    {"cvt.s64.s16 %d, %x; cvt.u32.u64 %w, %d;", PART},
    {"cvt.u64.u32 %d, %x; cvt.u32.u8 %w, %d;", PART},
    {"cvt.u16.u32 %h, %x; cvt.u32.u16 %w, %h;", PART},
    {"mov.b32 {%h, %g}, %x; cvt.u32.u16 %w, %h;", PART},
    {"mov.b32 {%h, %g}, %x; mov.b32 %w, {%h, %h};", PART},
    {"cvt.rn.f32.u32 %f, %x; cvt.rzi.u32.f32 %w, %f;", PART},
    {"and.b32 %w, %x, 255;", PART},
    {"bfe.u32 %w, %x, 0, 8;", PART},
    {"prmt.b32 %w, %x, 0, 0x4440;", PART},
    {"st.shared.u32 [own], %x; ld.shared.u8 %w, [own];", PART},
    {"st.shared.u32 [own], %x; ld.shared.s8 %w, [own];", PART},
    {"st.shared.u32 [own], %x; ld.shared.b8 %w, [own];", PART},
    {"st.shared.u32 [own], %x; ld.shared.u16 %w, [own];", PART},
    {"st.shared.u32 [own], %x; ld.shared.s16 %w, [own];", PART},
    {"st.shared.u32 [own], %x; ld.shared.b16 %w, [own];", PART},
    {"st.shared.u32 [own], %x; ld.shared.u16 %h, [own]; cvt.u32.u16 %w, %h;", PART},
    {"st.shared.u8 [own], %x; ld.shared.u32 %w, [own];", PART},
    {"st.shared.u16 [own], %x; ld.shared.u32 %w, [own];", PART},
    {"st.shared.u8 [own], %x; ld.shared.u8 %w, [own];", PART},
    {"st.shared.u32 [own], %x; st.shared.u8 [own+1], 0; ld.shared.u32 %w, [own];", PART},
    {"st.shared.u32 [own], %x; st.shared.u16 [own+2], 0; ld.shared.u32 %w, [own];", PART},
    {"st.shared.u32 [own+4], %x; st.shared.v2.u32 [own], {%i, %i}; ld.shared.u32 %w, [own+4];", PART},
    {"st.local.u32 [near], %x; ld.local.u8 %w, [near];", PART},
    {"st.local.u32 [near], %x; ld.local.s16 %w, [near];", PART},
    {"st.local.u8 [near], %x; ld.local.u32 %w, [near];", PART},
    {"shl.b32 %w, %x, 24;", SCALED},
    {"mul.lo.u32 %w, %x, 16777216;", SCALED},
    {"mad.lo.u32 %w, %x, 16777216, 1;", SCALED},
    {"shl.b32 %y, %x, 29; shr.s32 %w, %y, 29;", PART},
    {"shl.b32 %y, %x, 12; shl.b32 %w, %y, 12;", SCALED},
    {"mul.hi.u32 %w, %x, 16777216;", PART},
    {"mov.b32 %w, %x; less: setp.lt.u32 %p4, %w, 256; @%p4 bra few; sub.u32 %w, %w, 256; bra less; few:", PART},
    {"mov.b32 %w, %x; less: shr.u32 %w, %w, 8; setp.gt.u32 %p4, %w, 255; @%p4 bra less;", PART},
    {"mov.b32 %w, %x; less: sub.u32 %y, %w, 256; mov.b32 %w, %y; setp.gt.s32 %p4, %w, 255; @%p4 bra less;", PART},
};

/* A part of the number of a block, of a ticket or of a counter proves nothing about it. */
TEST(only_whole_values_are_followed) {
    static const char look_back[] =
        "mul.wide.s32 %far, %w, 4; add.u64 %next, %flag, %far; setp.eq.u32 %p1, %b, 0; @%p1 bra tell; again: "
        "ld.volatile.global.u32 %v, [%next+-4]; setp.eq.u32 %p2, %v, 0; @%p2 bra again; tell: "
        "st.volatile.global.u32 [%next], 1; }";
    const struct {
        const char *before, *after;
        enum passed least;
    } uses[] = {
        {"mov.u32 %x, %b; ", look_back, VALUE},
        {"atom.global.add.u32 %x, [%other], 1; ", look_back, VALUE},
        {"again: atom.global.add.u32 %x, [%flag], 1; ", " setp.lt.s32 %p1, %w, 5; @%p1 bra again; }", GROWING},
    };
    for (size_t i = 0; i < GS_COUNT(ways); i++)
        for (size_t k = 0; k < GS_COUNT(uses); k++) {
            gs_text loop = {0};
            if (ways[i].passed == SCALED && uses[k].least == VALUE)
                continue;
            gs_text_add(&loop,
                        "{ .reg .b32 %%x, %%y; .reg .b64 %%d, %%far; .reg .b16 %%h, %%g; .local .align 8 .b32 near[2]; "
                        "%s%s%s",
                        uses[k].before, ways[i].way, uses[k].after);
            expect(loop.data, loop.data, NOBODY, ways[i].passed < uses[k].least);
            gs_text_free(&loop);
        }
}

/* Another block ends a wait by an atomic operation, unless that cannot change any number. */
TEST(an_operation_that_changes_nothing_ends_no_wait) {
    static const struct {
        const char *name, *nothing, *something;
    } operations[] = {
        {"add.u32", "0", "1"},
        {"or.b32", "0", "8"},
        {"xor.b32", "0", "-1"},
        {"and.b32", "-1", "0"},
        {"and.b32", "4294967295", "2147483647"},
        {"max.u32", "0", "-2147483648"},
        {"max.s32", "-2147483648", "0"},
        {"min.u32", "-1", "2147483647"},
        {"min.s32", "2147483647", "-1"},
        {"exch.b32", NULL, "0"},
        {"cas.b32", "7, 7", "0, 8"},
        {"inc.u32", NULL, "0"},
    };
    for (size_t i = 0; i < GS_COUNT(operations); i++)
        for (int changes = 0; changes < 2; changes++) {
            const char *with = changes ? operations[i].something : operations[i].nothing;
            gs_text loop = {0};
            gs_text_add(&loop,
                        "@%%p7 bra give; again: ld.volatile.global.u32 %%v, [%%flag]; setp.eq.u32 %%p1, %%v, 0; "
                        "@%%p1 bra again; bra end; give: atom.global.%s %%v, [%%flag], %s;",
                        operations[i].name, with);
            if (with)
                expect(loop.data, loop.data, NOBODY, changes);
            gs_text_free(&loop);
        }
}

/* Another block writes the word, and the wait goes on or ends by what is written. */
TEST(only_what_ends_a_wait_is_waited_for) {
    static const char zero[] = "ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0;";
    static const char byte[] = "ld.volatile.global.u8 %v, [%flag]; setp.ne.u32 %p1, %v, 255;";
    static const char not_one[] = "ld.volatile.global.u32 %v, [%flag]; setp.ne.u32 %p1, %v, 1;";
    static const char bit[] = "ld.volatile.global.u32 %v, [%flag]; and.b32 %w, %v, 4; setp.ne.u32 %p1, %w, 0;";
    static const char lock[] = "atom.global.cas.b32 %v, [%flag], 0, 1; setp.ne.u32 %p1, %v, 0;";
    static const char swap[] = "atom.global.exch.b32 %v, [%flag], 1; setp.ne.u32 %p1, %v, 0;";
    static const char set[] = "atom.global.or.b32 %v, [%flag], 1; and.b32 %w, %v, 1; setp.ne.u32 %p1, %w, 0;";
    static const struct {
        const char *wait, *write;
        bool is_refused;
    } cases[] = {
        {byte, "st.volatile.global.u8 [%flag], 3;", false},
        {byte, "st.volatile.global.u8 [%flag], 255;", true},
        {byte, "st.volatile.global.u8 [%flag], 511;", true},
        {zero, "st.volatile.global.u32 [%flag], 0;", false},
        {zero, "st.volatile.global.u32 [%flag], 1;", true},
        {zero, "st.volatile.global.u32 [%flag], %t;", true},
        {zero, "st.volatile.global.v2.u32 [%flag], {%i, %t};", true},
        {zero, "atom.global.exch.b32 %old, [%flag], 0;", false},
        {zero, "atom.global.exch.b32 %old, [%flag], 1;", true},
        {zero, "atom.global.cas.b32 %old, [%flag], 0, 0;", false},
        {zero, "atom.global.cas.b32 %old, [%flag], 5, 0;", false},
        {zero, "atom.global.cas.b32 %old, [%flag], 5, 6;", false},
        {zero, "atom.global.cas.b32 %old, [%flag], 0, 6;", true},
        {zero, "atom.global.cas.b32 %old, [%flag], %t, 6;", true},
        {zero, "atom.global.or.b32 %old, [%flag], 1;", true},
        {not_one, "st.volatile.global.u32 [%flag], 0;", false},
        {not_one, "st.volatile.global.u32 [%flag], 1;", true},
        {not_one, "st.volatile.global.u32 [%flag], 2;", false},
        {not_one, "atom.global.exch.b32 %old, [%flag], 2;", false},
        {not_one, "atom.global.cas.b32 %old, [%flag], 0, 2;", false},
        {not_one, "atom.global.cas.b32 %old, [%flag], 1, 2;", false},
        {not_one, "atom.global.cas.b32 %old, [%flag], 0, 1;", true},
        {bit, "st.volatile.global.u32 [%flag], 3;", true},
        {bit, "atom.global.and.b32 %old, [%flag], 3;", true},
        {lock, "st.volatile.global.u32 [%flag], 1;", false},
        {lock, "st.volatile.global.u32 [%flag], 2;", false},
        {lock, "st.volatile.global.u32 [%flag], 0;", true},
        {swap, "st.volatile.global.u32 [%flag], 1;", false},
        {swap, "st.volatile.global.u32 [%flag], 0;", true},
        {set, "st.volatile.global.u32 [%flag], 3;", false},
        {set, "st.volatile.global.u32 [%flag], 2;", true},
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_text loop = {0};
        gs_text_add(&loop, ".reg .b32 %%old; @%%p7 bra give; again: %s @%%p1 bra again; bra end; give: %s",
                    cases[i].wait, cases[i].write);
        expect(loop.data, loop.data, NOBODY, cases[i].is_refused);
        gs_text_free(&loop);
    }
}

/* ---- indices that lose their high bits ---- */

/* Block 0 waits for its flag, and the others set theirs, at `index` of the block: in which grids are these others? */
TEST(flags_are_told_apart_only_in_grids_where_no_index_wraps) {
    static const struct {
        const char *index;
        uint32_t most; /* 0: refused */
    } uses[] = {
        {"mov.u32 %w, %b; ", 1 << 30},
        {"add.u32 %w, %b, 1000; ", 1 << 30},
        {"shl.b32 %w, %b, 2; ", (1 << 30) - 1},
        {"shl.b32 %w, %b, 16; ", 65535},
        {"mul.lo.u32 %w, %b, 65536; ", 65535},
        {"mul.lo.u32 %w, %b, 131072; ", 32767},
        {"shl.b32 %w, %b, 16; shl.b32 %w, %w, 16; ", 0},
        {"shl.b32 %x, %b, 16; shl.b32 %w, %x, 15; ", 1},
        {"shl.b32 %x, %b, 16; shl.b32 %w, %x, 16; ", 0},
        {"mov.u32 %x, %nctaid.x; mul.lo.u32 %w, %b, %x; ", 65535},
        {"mov.u32 %x, %nctaid.x; mul.lo.u32 %y, %x, %x; mul.lo.u32 %w, %b, %y; ", 1625},
        {"mov.u32 %x, %ntid.x; mul.lo.u32 %w, %b, %x; ", (1 << 22) - 1},
        {"mov.u32 %x, %ntid.x; mov.u32 %y, %ntid.y; mul.lo.u32 %x, %x, %y; mul.lo.u32 %w, %b, %x; ", 0},
        {"atom.global.add.u32 %w, [%other], 1; ", 1 << 30},
        {"atom.global.add.u32 %x, [%other], 1; shl.b32 %w, %x, 8; ", 16383},
        {"atom.global.add.u32 %x, [%other], 65536; shl.b32 %w, %x, 16; ", 0},
    };
    for (size_t i = 0; i < GS_COUNT(uses); i++) {
        gs_text text = {0}, made = {0};
        char check[64];
        gs_ptx_form form = {.most_blocks = 0};
        gs_error error = {.code = GS_OK};
        gs_ptx_module module;
        gs_ptx_options options = {.form = GS_FORM_CONFINED};
        gs_text_add(&text,
                    "%s{ .reg .b32 %%x, %%y; .reg .b64 %%far; %smul.wide.u32 %%far, %%w, 4; add.u64 %%next, %%flag, "
                    "%%far; @%%p7 bra tell; again: ld.volatile.global.u32 %%v, [%%next]; setp.eq.u32 %%p2, %%v, 0; "
                    "@%%p2 bra again; tell: st.volatile.global.u32 [%%next], 1; }\nret;\n}\n",
                    head, uses[i].index);
        if (gs_ptx_read(&module, "k.ptx", text.data, text.count, &error) != GS_OK)
            fail_msg("%s", error.message);
        gs_ptx_reshape(&module, (uint32_t)gs_ptx_find_function(&module, "k"), &options, &made, &form, &error);
        if (form.most_blocks != uses[i].most)
            fail_msg("%s at most %u blocks, not %u", uses[i].index, form.most_blocks, uses[i].most);
        uint32_t block[] = {32, 1, 1}, grid[] = {form.most_blocks, 1, 1}, more[] = {form.most_blocks + 1, 1, 1};
        if (form.most_blocks) {
            assert_null(gs_ptx_form_misfit(&form, grid, block));
            assert_non_null(gs_ptx_form_misfit(&form, more, block));
            snprintf(check, sizeof check, "setp.gt.u32 %%gs_p1, %%gs_r13, 0x%x;", form.most_blocks); /* and traps */
            assert_non_null(strstr(made.data, check));
        }
        gs_text_free(&made);
        gs_ptx_free(&module);
        gs_text_free(&text);
    }
}

/* ---- variables that are the same memory ---- */

/* A word of `ea` is written through another name before it is read: an index, the limit of a counter, or what a thread
   waits for. If the two names are the same memory, nothing is known of it. */
TEST(variables_are_told_apart_only_where_they_are_different_memory) {
    static const char *const uses[] = {
        "mul.wide.u32 %far, %b, 4; add.u64 %next, %flag, %far; add.u32 %w, %b, 1; sub.u32 %x, %b, 1; "
        "st.shared.u32 [ea], %x; bar.sync 0; "
        "STORE, %w; bar.sync 0; ld.shared.u32 %z, [ea]; setp.eq.u32 %p1, %b, 9; @%p1 bra tell; "
        "mul.wide.u32 %from, %z, 4; add.u64 %at, %flag, %from; again: ld.volatile.global.u32 %v, [%at]; "
        "setp.eq.u32 %p2, %v, 0; @%p2 bra again; tell: st.volatile.global.u32 [%next], 1; }",
        "@%p7 bra tell; st.shared.u32 [ea], 8; again: atom.global.add.u32 %x, [%flag], 1; "
        "ld.volatile.global.u32 %v, [%other]; add.u32 %w, %x, 1; mul.lo.u32 %z, %w, %v; sub.u32 %l, %w, %z; "
        "STORE, %l; ld.shared.u32 %m, [ea]; setp.lt.u32 %p1, %x, %m; @%p1 bra again; bra end; "
        "tell: st.volatile.global.u32 [%other], 1; bra end; }",
        "@%p7 st.volatile.global.u32 [%flag], 1; setp.ne.u32 %p1, %t, 0; @%p1 bra second; again: "
        "ld.volatile.global.u32 %w, [%flag]; STORE, %w; ld.volatile.shared.u32 %x, [own+4]; "
        "setp.eq.u32 %p2, %x, 0; @%p2 bra again; bra end; second: ld.volatile.shared.u32 %v, [ea]; "
        "setp.eq.u32 %p3, %v, 0; @%p3 bra second; st.volatile.shared.u32 [own+4], 1; }",
    };
    static const struct {
        const char *declared, *store;
        bool is_same;
    } cases[] = {
        {".extern .shared .b32 ea[]; .extern .shared .b32 eb[];", "st.shared.u32 [eb]", true},
        {".extern .shared .b32 ea[]; .extern .shared .b32 eb[];", "st.volatile.shared.u32 [eb]", true},
        {".extern .shared .b32 ea[]; .extern .shared .b32 eb[];", "atom.shared.exch.b32 %y, [eb]", true},
        {".extern .shared .b32 ea[]; .extern .shared .b32 eb[];", "mov.u32 %y, eb; st.shared.u32 [%y]", true},
        {".extern .shared .b32 eb[]; .extern .shared .b32 ea[];", "st.shared.u32 [eb]", true},
        {".extern .shared .b32 eb[]; .extern .shared .b32 ec[]; .extern .shared .b32 ea[];", "st.shared.u32 [ec]",
         true},
        {".extern .shared .b32 ea[]; .extern .shared .align 64 .b32 eb[];", "st.shared.u32 [eb]", true},
        {".extern .shared .b32 ea[]; .extern .shared .align 64 .b32 eb[];", "st.shared.u32 [eb+4]", true},
        {".extern .shared .align 64 .b32 eb[]; .extern .shared .b32 ea[];", "st.shared.u32 [eb+4]", true},
        {".extern .shared .b32 ea[]; .extern .shared .b32 eb[4];", "st.shared.u32 [eb]", true},
        {".extern .shared .b32 ea[]; .shared .b32 eb[4];", "st.shared.u32 [eb]", false},
        {".shared .b32 ea[4]; .shared .b32 eb[4];", "st.shared.u32 [eb]", false},
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++)
        for (size_t k = 0; k < GS_COUNT(uses); k++) {
            gs_text loop = {0};
            const char *at = strstr(uses[k], "STORE");
            gs_text_add(&loop,
                        ".func none () { ret; } %s\n{ .reg .b32 %%x, %%y, %%z, %%l, %%m; .reg .b64 %%far, %%from, "
                        "%%at; %.*s%s%s",
                        cases[i].declared, (int)(at - uses[k]), uses[k], cases[i].store, at + strlen("STORE"));
            expect(loop.data, loop.data, NOBODY, cases[i].is_same);
            gs_text_free(&loop);
        }
}

/* A variable that is declared as external, and defined behind that, is one word. */
TEST(a_variable_that_is_declared_twice_is_one) {
    static const char *const declared[] = {".extern .global .u32 there;", ".global .u32 here;"};
    static const char defined[] = ".visible .global .u32 there = 0;";
    for (size_t i = 0; i < GS_COUNT(declared); i++) {
        gs_text text = {0};
        gs_ptx_module module;
        gs_error error = {.message = ""};
        gs_text_add(&text, ".version 8.0\n.target sm_80\n.address_size 64\n%s\n%s\n.shared .u32 there_too;\n",
                    declared[i], defined);
        assert_int_equal(gs_ptx_read(&module, "k.ptx", text.data, text.count, &error), GS_OK);
        assert_int_equal(module.variables.data[1].memory, i);
        assert_int_equal(module.variables.data[2].memory, 2);
        gs_ptx_free(&module);
        gs_text_free(&text);
    }
}

/* Block 0 waits for a word, which the others may write through another parameter. That counts unless a write through
   the pointer that the word is read with may be what ends the wait. */
TEST(a_word_that_is_only_set_back_is_set_through_another_pointer) {
    static const char wait[] = "ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; ";
    static const char lock[] = "atom.global.cas.b32 %v, [%flag], 0, 1; setp.ne.u32 %p1, %v, 0; @%p1 bra again; ";
    static const char token[] = "atom.global.cas.b32 %v, [%flag], 1, 0; setp.ne.u32 %p1, %v, 1; @%p1 bra again; ";
    static const char taken[] = "atom.global.exch.b32 %v, [%flag], 0; setp.eq.u32 %p1, %v, 0; @%p1 bra again; ";
    static const char many[] = "multimem.ld_reduce.relaxed.sys.global.add.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; "
                               "@%p1 bra again; ";
    static const char set[] = "st.volatile.global.u32 [%other], 1; ";
    static const char multicast[] = "multimem.st.release.sys.global.u32 [%other], 1; ";
    static const struct {
        const char *wait, *behind, *others;
        bool is_refused;
    } cases[] = {
        {wait, "st.volatile.global.u32 [%flag], 0; ", set, true},
        {wait, "atom.global.exch.b32 %w, [%flag], 0; ", set, true},
        {wait, "atom.global.cas.b32 %w, [%flag], 1, 0; ", set, true},
        {wait, "st.volatile.global.u32 [%flag], 2; ", set, true},
        {wait, "st.volatile.global.u32 [%flag], 0; ", multicast, true},
        {wait, "", multicast, true},
        {many, "", set, true},
        {many, "", multicast, true},
        {token, "", set, true},
        {taken, "", set, true},
        {token, "", multicast, true},
        {wait, "st.volatile.global.u32 [%flag], 0; ", "", false},
        {wait, "st.volatile.global.u32 [%flag], 0; st.volatile.global.u32 [%other], 1; ", "", false},
        {token, "st.volatile.global.u32 [%other], 1; ", "", false},
        {lock, "st.volatile.global.u32 [%flag], 0; ", set, false},
        {lock, "st.volatile.global.u32 [%flag], 0; ", multicast, false},
        {lock, "st.volatile.global.u32 [%flag], 0; ", "multimem.st.release.sys.global.u32 [%other], 0; ", true},
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_text loop = {0};
        gs_text_add(&loop, "@%%p7 bra give; again: %s%sbra end; give: %s", cases[i].wait, cases[i].behind,
                    cases[i].others);
        expect(loop.data, loop.data, NOBODY, cases[i].is_refused);
        gs_text_free(&loop);
    }
}

/* A word of a surface is waited for as one of global memory is. */
TEST(surfaces_are_read_as_global_memory_is) {
    static const struct {
        const char *before, *others;
        bool is_refused;
    } cases[] = {
        {"", "sust.b.1d.b32.trap [%flag, {%i}], {%t}; ", true},
        {"sured.b.add.1d.u32.trap [%flag, {%i}], %t; ", "", true},
        {"", "", false},
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_text loop = {0};
        gs_text_add(&loop,
                    "%s@%%p7 bra give; again: suld.b.1d.b32.trap {%%v}, [%%flag, {%%i}]; setp.eq.u32 %%p1, %%v, 0; "
                    "@%%p1 bra again; bra end; give: %s",
                    cases[i].before, cases[i].others);
        expect(loop.data, loop.data, NOBODY, cases[i].is_refused);
        gs_text_free(&loop);
    }
}

/* ---- plain loads ---- */

/* A block looks for a word up to a hundred times, and others write it. Without a race it finds that only behind a
   statement that synchronizes; else the count ends the loop. */
TEST(plain_loads_wait_where_their_loop_synchronizes) {
    static const char *const loops[] = {
        "again: %sld.global.u32 %%v, [%%flag]; setp.ne.u32 %%p1, %%v, 0; @%%p1 bra end; add.u32 %%i, %%i, 1; "
        "setp.lt.u32 %%p2, %%i, 100; @%%p2 bra again; ",
        "again: %sld.global.u32 %%v, [%%flag]; add.u32 %%i, %%i, 1; setp.lt.u32 %%p2, %%i, %%v; @%%p2 bra again; ",
        "again: %sand.b32 %%w, %%i, 1; mul.wide.u32 %%far, %%w, 4; add.u64 %%next, %%flag, %%far; "
        "ld.global.u32 %%v, [%%next]; setp.ne.u32 %%p1, %%v, 0; @%%p1 bra end; add.u32 %%i, %%i, 1; "
        "setp.lt.u32 %%p2, %%i, 100; @%%p2 bra again; ",
        "again: %scp.async.ca.shared.global [own], [%%flag], 4; cp.async.wait_all; ld.shared.u32 %%v, [own]; "
        "setp.ne.u32 %%p1, %%v, 0; @%%p1 bra end; add.u32 %%i, %%i, 1; setp.lt.u32 %%p2, %%i, 100; @%%p2 bra again; ",
    };
    static const char acquire[] = "ld.acquire.gpu.global.u32 %x, [%other]; ";
    static const char join[] = ".func join () { .reg .b32 %r; atom.acquire.gpu.global.exch.b32 %r, [word], 1; ret; }\n";
    static const char meet[] = ".func meet () { .reg .pred %p; .reg .b64 %d; .reg .b32 %a; mov.u64 %d, 0; "
                               "mov.u32 %a, 0; mbarrier.test_wait.shared.b64 %p, [%a], %d; ret; }\n";
    static const struct {
        const char *function, *before, *within;
        bool is_refused;
    } cases[] = {
        {"", "", acquire, true},
        {"", "", "ld.acquire.sys.u32 %x, [%other]; ", true},
        {"", "", "atom.acquire.gpu.global.exch.b32 %x, [%other], 1; ", true},
        {"", "", "atom.acq_rel.sys.global.add.u32 %x, [%other], 1; ", true},
        {"", "", "membar.gl; ", true},
        {"", "", "fence.acq_rel.gpu; ", true},
        {"", "", "fence.sc.sys; ", true},
        {"", "", "call.uni order; ", true},
        {join, "", "call.uni join; ", true},
        {meet, acquire, "call.uni meet; ", true},
        {"", acquire, "bar.sync 0; ", true},
        {"", acquire, "barrier.sync 1, 64; ", true},
        {"", acquire, "bar.red.popc.u32 %x, 0, %p7; ", true},
        {"", acquire, "bar.warp.sync -1; ", true},
        {"", acquire, "mbarrier.test_wait.shared.b64 %p3, [wide], %d; ", true},
        {"", acquire, "ld.acquire.cta.shared.u32 %x, [own+4]; ", true},
        {"", "membar.gl; ", "bar.sync 0; ", true},
        {"", "", "", false},
        {"", "", "bar.sync 0; ", false},
        {"", "", "bar.warp.sync -1; ", false},
        {meet, "", "call.uni meet; ", false},
        {"", "", "mbarrier.test_wait.shared.b64 %p3, [wide], %d; ", false},
        {"", "", "ld.acquire.cta.shared.u32 %x, [own+4]; ", false},
        {"", "", "atom.global.add.u32 %x, [%other], 1; ", false},
        {"", "", "ld.volatile.global.u32 %x, [%other]; ", false},
        {"", "", "st.release.gpu.global.u32 [%other], 1; ", false},
        {"", acquire, "", false},
        {"", acquire, "nanosleep.u32 100; cp.async.wait_all; ", false},
        {"", acquire, "st.release.gpu.global.u32 [%other], 1; ", false},
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++)
        for (size_t k = 0; k < GS_COUNT(loops); k++) {
            gs_text loop = {0};
            gs_text_add(&loop,
                        "%s.reg .b32 %%x; .reg .b64 %%far, %%d; .shared .b64 wide; mov.u64 %%d, 0; "
                        "@%%p7 st.global.u32 [%%flag], 1; %s",
                        cases[i].function, cases[i].before);
            gs_text_add(&loop, loops[k], cases[i].within);
            expect(loop.data, loop.data, NOBODY, cases[i].is_refused);
            gs_text_free(&loop);
        }
}

/* A warp looks for a word of another block, and then does something. Another warp waits at an mbarrier, and ends the
   loop of the first. */
TEST(what_ends_a_wait_of_another_warp_is_waited_for) {
    static const char format[] =
        ".reg .b32 %%x, %%to, %%gate; .reg .b64 %%d; .reg .pred %%q; .shared .align 8 .b64 wide; "
        ".shared .align 16 .b8 data[16]; mov.u32 %%to, data; mov.u32 %%gate, wide; setp.gt.u32 %%p3, %%t, 31; "
        "@%%p3 bra consume; again: ld.acquire.gpu.global.u32 %%v, [%%flag]; setp.ne.u32 %%p1, %%v, 0; @%%p1 %s "
        "ld.volatile.shared.u32 %%x, [own]; setp.eq.u32 %%p2, %%x, 0; @%%p2 bra again; bra done; "
        "consume: mbarrier.try_wait.parity.shared.b64 %%q, [wide], 0; @!%%q bra consume; "
        "st.volatile.shared.u32 [own], 1; ";
    static const struct {
        const char *step;
        bool is_refused;
    } cases[] = {
        {"mbarrier.arrive.shared.b64 %d, [wide];", true},
        {"mbarrier.arrive.shared.b64 %d, [%gate];", true},
        {"mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [wide], 16;", true},
        {"cp.async.mbarrier.arrive.shared.b64 [wide];", true},
        {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%other], 16, [wide];", true},
        {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%to], [%other], 16, [%gate];", true},
        {"cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%to], [%other], 16, [%gate];", true},
        {"cp.async.bulk.prefetch.L2.global [%other], 16;", false},
        {"add.u32 %i, %i, 1;", false},
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_text loop = {0};
        gs_text_add(&loop, format, cases[i].step);
        expect(cases[i].step, loop.data, ELSEWHERE, cases[i].is_refused);
        gs_text_free(&loop);
    }
}

TEST(a_refusal_names_the_write_that_is_in_the_way) {
#define WAITS "\nagain: ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; bra end;\n"
    static const struct {
        const char *loop, *write, *how;
    } cases[] = {
        {"\n@%p7 bra give;" WAITS "give: st.global.u32 [%flag], 5;", "give:", ""},
        {"\nst.global.u32 [%flag], 0;\ngive: st.global.u32 [%flag], 7;" WAITS, "give:", ""},
        {"\n@%p7 bra give;" WAITS "give: st.global.u8 [%other], 7;", "give:", ", through another pointer"},
        {"\natom.global.add.u32 %v, [%flag], 1;\nagain: atom.global.add.u32 %v, [%flag], 1; setp.lt.u32 %p1, %v, 9; "
         "@%p1 bra again;\ngive: st.global.u32 [%flag], 0;",
         "give:", ""},
    };
    (void)state;
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        char expected[100];
        size_t from;
        long line = 1;
        gs_error error = {.message = ""};
        gs_text text = put_loop(cases[i].loop, NOBODY, &from);
        for (const char *at = text.data; at < strstr(text.data, cases[i].write); at++)
            line += *at == '\n';
        snprintf(expected, sizeof expected, "that another block may write in line %ld%s", line, cases[i].how);
        assert_int_equal(reshape(cases[i].write, cases[i].loop, NOBODY, &error), GS_E_REFUSED);
        if (!strstr(error.message, expected))
            fail_msg("%s, not %s", error.message, expected);
        gs_text_free(&text);
    }
}

/* A form lets dependent kernels begin when it ends, so it must not wait for them. */
TEST(what_is_launched_is_not_waited_for) {
    static const char wait[] = "again: ld.volatile.global.u32 %v, [word]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; ";
    static const char count[] = "again: add.u32 %i, %i, 1; setp.lt.u32 %p1, %i, 9; @%p1 bra again; ";
    static const char mailbox[] =
        OF_BLOCK_WORD "st.volatile.global.u32 [%next], 1; "
                      "again: ld.volatile.global.u32 %v, [%next]; setp.ne.u32 %p1, %v, 2; @%p1 bra again; ";
    static const char number[] =
        OF_BLOCK_WORD "st.volatile.global.u32 [%next], %w; "
                      "again: ld.volatile.global.u32 %v, [%next]; setp.ne.u32 %p1, %v, 2; @%p1 bra again; ";
    static const char token[] =
        "again: atom.global.cas.b32 %v, [%flag], 1, 0; setp.ne.u32 %p1, %v, 1; @%p1 bra again; ";
    static const char back[] =
        OF_BLOCK_WORD "st.volatile.global.u32 [%next], 1; setp.eq.u32 %p2, %b, 0; @%p2 bra end; "
                      "again: ld.volatile.global.u32 %v, [%next+-4]; setp.eq.u32 %p1, %v, 0; @%p1 bra again; ";
    static const char other[] =
        OF_BLOCK_WORD "st.volatile.global.u32 [%next], 1; setp.eq.u32 %p2, %b, 0; @%p2 bra end; "
                      "again: ld.volatile.global.u32 %v, [%next+-4]; setp.ne.u32 %p1, %v, 2; @%p1 bra again; ";
    static const struct {
        const char *before, *loop;
        bool is_refused;
    } cases[] = {
        {"griddepcontrol.launch_dependents; ", wait, true},    {"griddepcontrol.launch_dependents; ", count, false},
        {"griddepcontrol.launch_dependents; ", mailbox, true}, {"griddepcontrol.launch_dependents; ", number, true},
        {"griddepcontrol.launch_dependents; ", token, true},   {"griddepcontrol.launch_dependents; ", back, false},
        {"griddepcontrol.launch_dependents; ", other, true},   {"griddepcontrol.wait; ", wait, false},
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_text loop = {0};
        gs_error error = {.message = ""};
        gs_text_add(&loop, "%s%s", cases[i].before, cases[i].loop);
        gs_code code = reshape("dependents", loop.data, NOBODY, &error);
        assert_int_equal(code, cases[i].is_refused ? GS_E_REFUSED : GS_OK);
        if (cases[i].is_refused)
            assert_non_null(strstr(error.message, "it launches dependents"));
        gs_text_free(&loop);
    }
}

TEST_MAIN(NULL, NULL)
