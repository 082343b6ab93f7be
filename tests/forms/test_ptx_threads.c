/*
 * test_ptx_threads.c: forms of kernels whose threads take different ways: votes and exchanges of parts of a warp,
 * results that only look uniform, barriers of some threads, barriers that vote after threads have exited, and calls
 * through pointers that threads may have different ones of.
 *
 * Each kernel is a few lines of PTX. It is refused for the stated reason, or runs on the CPU as it is, persistent and
 * confined, with few worker blocks and many. GRIDSMITH_ON=cuda runs them on a GPU.
 */
#include "test.h"

#include "run_forms.h"
#include "variations.h"

#include <stdlib.h>

/* Before each kernel: r0 thread, r1 block, r2 their number in the grid, r3 a number of the thread below 256, r4 lane,
   r5 warp, r6 a mask of half a warp, d0 where the result r9 goes. r30 is the thread's word in shared memory, r31 that
   of the next thread. p1 is true for some threads, p2 for some blocks. */
static const char head[] =
    ".version 8.3\n.target sm_90\n.address_size 64\n"
    ".const .align 4 .b32 numbers[8] = {0, 1, 0, 0, 1, 0, 1, 1};\n"
    ".func (.param .b32 result) odd(.param .b32 x)\n{\n.reg .b32 a<3>;\nld.param.u32 a1, [x];\nand.b32 a1, a1, 1;\n"
    "st.param.b32 [result], a1;\nret;\n}\n"
    ".func meet_five(.param .b32 x)\n{\nbarrier.cta.sync.aligned 5, 64;\nret;\n}\n"
    ".func meet_any(.param .b32 x)\n{\n.reg .b32 a<3>;\nld.param.u32 a1, [x];\nbar.sync a1, 64;\nret;\n}\n"
    ".func (.param .b32 result) look(.param .b32 x)\n{\n.reg .b32 a<3>;\nld.param.u32 a1, [x];\n"
    "ld.volatile.shared.u32 a1, [a1];\nst.param.b32 [result], a1;\nret;\n}\n"
    ".func wait_for(.param .b32 x)\n{\n.reg .b32 a<3>;\n.reg .pred p;\nld.param.u32 a1, [x];\nMORE:\n"
    "ld.volatile.shared.u32 a2, [a1];\nsetp.eq.u32 p, a2, 0;\n@p bra MORE;\nret;\n}\n";

static const char begin[] =
    "{\n.reg .b32 r<60>;\n.reg .b16 h<8>;\n.reg .b64 d<9>;\n.reg .pred p<16>;\n.shared .align 16 .b32 s[256];\n"
    "ld.param.u64 d0, [out];\nmov.u32 r0, %tid.x;\nmov.u32 r1, %ctaid.x;\nmov.u32 r7, %ntid.x;\n"
    "mad.lo.u32 r2, r1, r7, r0;\nmul.lo.u32 r3, r2, 0x9E3779B1;\nshr.u32 r3, r3, 24;\n"
    "and.b32 r4, r0, 31;\nshr.u32 r5, r0, 5;\nmul.wide.u32 d1, r2, 4;\nadd.u64 d0, d0, d1;\n"
    "setp.lt.u32 p0, r4, 16;\nselp.b32 r6, 0xffff, 0xffff0000, p0;\nmov.u32 r9, 0;\n"
    "setp.gt.u32 p1, r3, 100;\nrem.u32 r8, r1, 3;\nsetp.eq.u32 p2, r8, 1;\n"
    "shl.b32 r30, r0, 2;\nmov.u32 r31, s;\nadd.u32 r30, r30, r31;\nadd.u32 r8, r0, 1;\nrem.u32 r8, r8, r7;\n"
    "shl.b32 r8, r8, 2;\nadd.u32 r31, r31, r8;\n";

static const char end[] = "DONE:\nst.global.u32 [d0], r9;\nret;\n}\n";

/* All threads store a number. */
#define START "st.shared.u32 [r30], r3;\nbar.sync 0;\n"
/* The threads that are left exchange numbers with their neighbors, of which some have exited. Halves of a warp may come
   apart, so the barriers are not `.aligned`. */
#define SHARE                                                                                                          \
    "add.u32 r9, r9, 7;\nst.shared.u32 [r30], r9;\nbarrier.sync 0;\nld.shared.u32 r40, [r31];\nbarrier.sync 0;\n"      \
    "mad.lo.u32 r9, r9, 3, r40;\n"
/* Lanes that are left exchange numbers; those that have exited count as 5. */
#define SWAP                                                                                                           \
    "mov.u32 r41, 5;\nvote.sync.ballot.b32 r42, p15, 0xffffffff;\nshfl.sync.bfly.b32 r41|p14, r3, 8, 31, "             \
    "0xffffffff;\n"                                                                                                    \
    "xor.b32 r43, r4, 8;\nmov.u32 r44, 1;\nshl.b32 r44, r44, r43;\nand.b32 r44, r44, r42;\nsetp.eq.u32 p14, r44, 0;\n" \
    "selp.b32 r41, 5, r41, p14;\nadd.u32 r9, r9, r41;\n"
#define TRUTH "setp.eq.u32 p15, r0, r0;\n"
/* Steps in each of which some threads leave, and the others vote. */
#define LEAVING(votes)                                                                                                 \
    "rem.u32 r10, r3, 6;\nmov.u32 r11, 0;\nAGAIN:\nsetp.eq.u32 p3, r10, r11;\n@p3 bra DONE;\nand.b32 r12, r0, 1;\n"    \
    "setp.eq.u32 p4, r12, 1;\nsetp.eq.u32 p5, r0, r11;\nsetp.ne.u32 p6, r0, r11;\n" votes                              \
    "add.u32 r11, r11, 1;\nsetp.lt.u32 p7, r11, 5;\n@p7 bra AGAIN;\n"

/* Lanes exchange numbers in a loop, r13 times, in each iteration of another loop. */
#define IN_A_LOOP(before, limit)                                                                                       \
    TRUTH before "mov.u32 r11, 0;\nOUTER:\n" limit "mov.u32 r12, 0;\nINNER:\nsetp.ge.u32 p5, r12, r13;\n"              \
                 "@p5 bra NEXT;\nshfl.sync.bfly.b32 r14, r3, 4, 31, 0xffffffff;\nadd.u32 r9, r9, r14;\n"               \
                 "add.u32 r12, r12, 1;\nbra INNER;\nNEXT:\nadd.u32 r11, r11, 1;\nsetp.lt.u32 p6, r11, 3;\n"            \
                 "@p6 bra OUTER;\n"

/* The same, with all threads as long as their number is below r13, which `limit` makes of r12. */
#define BELOW_A_LIMIT(limit)                                                                                           \
    "mov.u32 r11, 0;\nOUTER:\nmad.lo.u32 r12, r1, 5, r11;\nadd.u32 r12, r12, 40;\n" limit "mov.u32 r14, r0;\n"         \
    "setp.ge.u32 p5, r14, r13;\n@p5 bra NEXT;\nINNER:\nshfl.sync.bfly.b32 r15, r3, 4, 31, 0xffffffff;\n"               \
    "add.u32 r9, r9, r15;\nadd.u32 r14, r14, r7;\nsetp.lt.u32 p5, r14, r13;\n@p5 bra INNER;\nNEXT:\n"                  \
    "add.u32 r11, r11, 13;\nsetp.lt.u32 p6, r11, 39;\n@p6 bra OUTER;\n"

/* A loop that lanes leave one after the other, and in which the rest vote. */
#define ENDLESS(left)                                                                                                  \
    "AGAIN:\nadd.u32 r11, r11, 1;\nsetp.gt.u32 p3, r11, r4;\n@p3 bra " left ";\n"                                      \
    "vote.sync.ballot.b32 r10, p0, 0xffffffff;\nadd.u32 r9, r9, r10;\nbra AGAIN;\n"

/* In two steps, first some lanes of a warp vote among themselves, and then the others; `inside` them, and `behind`. */
#define IN_TURN(inside, behind)                                                                                        \
    "mov.u32 r17, 0;\nROUND:\nmov.u32 r11, 0;\nsetp.lt.u32 p3, r4, 9;\nselp.b32 r16, 0x1ff, 0xfffffe00, p3;\n"         \
    "selp.u32 r15, 0, 1, p3;\nTURN:\nsetp.ne.u32 p4, r11, r15;\n@p4 bra PASS;\n" inside                                \
    "vote.sync.ballot.b32 r10, p0, r16;\nmad.lo.u32 r9, r9, 3, r10;\nPASS:\nadd.u32 r11, r11, 1;\n"                    \
    "setp.lt.u32 p5, r11, 2;\n@p5 bra TURN;\n" behind "add.u32 r9, r9, 1;\n"
#define AND_AGAIN "add.u32 r17, r17, 1;\nsetp.lt.u32 p6, r17, 3;\n@p6 bra ROUND;\n"

/* Lanes exchange numbers as often as r13 says, which `limit` makes of the numbers of thread and lane. */
#define UP_TO(limit)                                                                                                   \
    limit "shr.u32 r13, r13, 4;\nmov.u32 r11, 0;\nOUTER:\nmov.u32 r14, 0;\nINNER:\n"                                   \
          "shfl.sync.bfly.b32 r15, r3, 4, 31, 0xffffffff;\nadd.u32 r9, r9, r15;\nadd.u32 r14, r14, 1;\n"               \
          "setp.le.u32 p5, r14, r13;\n@p5 bra INNER;\nadd.u32 r11, r11, 1;\nsetp.lt.u32 p6, r11, 3;\n@p6 bra OUTER;\n"

/* Half of the lanes wait in a loop for what the others write behind an exchange among themselves. */
#define HALF_WAITS(waits)                                                                                              \
    "st.volatile.shared.u32 [s], 0;\nbar.warp.sync 0xffffffff;\n@p0 bra OVER;\nAGAIN:\n" waits                         \
    "OVER:\n@!p0 bra BEHIND;\nshfl.sync.idx.b32 r9, r3, 3, 31, 0xffff;\natom.shared.add.u32 r10, [s], 1;\nBEHIND:\n"
/* A call with the address of s[0]. */
#define WITH_S(call) "{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], r8;\n" call "}\n"
/* The two halves of a warp execute something else each. */
#define HALVES(low, high) "@!p0 bra HIGH;\n" low "bra JOINED;\nHIGH:\n" high "JOINED:\nadd.u32 r9, r9, r10;\n"

#define LATER   "the others may reach it later"
#define WAITING "lanes may wait for others in a loop"
#define MEETING "the others may meet them at another place"
#define SEVERAL "come from several branches"
#define ALL     "it may use all 16 barriers"
#define APART   "not all threads reach this barrier"

struct one {
    const char *name, *body;
    uint32_t threads;
    const char *reason; /* a part of the message, or NULL: it is accepted */
    const char *limits; /* of the kernel, or NULL */
};

static const struct one cases[] = {
    /* limits that are multiples of the width of a block, or only look so */
    {"less_its_remainder", BELOW_A_LIMIT("rem.u32 r16, r12, r7;\nsub.u32 r13, r12, r16;\n"), 64, NULL, NULL},
    {"less_its_signed_remainder", BELOW_A_LIMIT("rem.s32 r16, r12, r7;\nsub.s32 r13, r12, r16;\n"), 32, NULL, NULL},
    {"less_its_wide_remainder",
     BELOW_A_LIMIT("cvt.u64.u32 d2, r12;\ncvt.u64.u32 d3, r7;\nrem.u64 d4, d2, d3;\nsub.u64 d5, d2, d4;\n"
                   "cvt.u32.u64 r13, d5;\n"),
     96, NULL, NULL},
    {"less_its_remainder_by_a_number", BELOW_A_LIMIT("rem.u32 r16, r12, 96;\nsub.u32 r13, r12, r16;\n"), 32, NULL,
     NULL},
    {"less_its_remainder_by_a_part", BELOW_A_LIMIT("rem.u32 r16, r12, 48;\nsub.u32 r13, r12, r16;\n"), 64, SEVERAL,
     NULL},
    {"less_its_remainder_by_a_half",
     BELOW_A_LIMIT("shr.u32 r17, r7, 1;\nrem.u32 r16, r12, r17;\nsub.u32 r13, r12, r16;\n"), 64, SEVERAL, NULL},
    {"less_its_remainder_by_more",
     BELOW_A_LIMIT("mov.u32 r17, 48;\nrem.u32 r16, r12, r17;\nmov.u32 r17, 64;\nsub.u32 r13, r12, r16;\n"), 64, SEVERAL,
     NULL},
    {"less_the_remainder_of_another", BELOW_A_LIMIT("rem.u32 r16, r11, r7;\nsub.u32 r13, r12, r16;\n"), 64, SEVERAL,
     NULL},
    {"less_its_earlier_remainder",
     BELOW_A_LIMIT("rem.u32 r16, r12, r7;\nadd.u32 r12, r12, 1;\nsub.u32 r13, r12, r16;\n"), 64, SEVERAL, NULL},
    {"less_its_remainder_sometimes",
     BELOW_A_LIMIT("mov.u32 r16, 1;\n@p2 rem.u32 r16, r12, r7;\nsub.u32 r13, r12, r16;\n"), 64, SEVERAL, NULL},
    {"less_what_was_its_remainder",
     BELOW_A_LIMIT("rem.u32 r16, r12, r7;\nshr.u32 r16, r16, 1;\nsub.u32 r13, r12, r16;\n"), 64, SEVERAL, NULL},
    {"remainder_less_its_number",
     BELOW_A_LIMIT("rem.u32 r12, r12, r7;\nsub.u32 r13, r12, r12;\nadd.u32 r13, r13, r12;\n"), 64, SEVERAL, NULL},
    {"less_its_quotient", BELOW_A_LIMIT("div.u32 r16, r12, r7;\nsub.u32 r13, r12, r16;\n"), 64, SEVERAL, NULL},
    {"less_its_remainder_per_thread",
     BELOW_A_LIMIT("add.u32 r12, r12, r3;\nrem.u32 r16, r12, r7;\nsub.u32 r13, r12, r16;\n"), 64, SEVERAL, NULL},

    /* results of parts of a warp */
    {"any_of_half", TRUTH "vote.sync.any.pred p3, p1, r6;\n@!p3 ret;\n" SWAP, 64, NULL, NULL},
    {"all_of_half", TRUTH "vote.sync.all.pred p3, p1, r6;\n@p3 ret;\n" SWAP, 96, NULL, NULL},
    {"uni_of_half",
     TRUTH "vote.sync.uni.pred p3, p0, r6;\n@!p3 ret;\nsetp.lt.u32 p4, r3, 99;\n"
           "vote.sync.any.pred p3, p4, r6;\n@p3 ret;\n" SWAP,
     64, NULL, NULL},
    {"ballot_of_half",
     TRUTH "vote.sync.ballot.b32 r10, p1, r6;\npopc.b32 r10, r10;\nsetp.lt.u32 p3, r10, 10;\n@p3 ret;\n" SWAP, 64, NULL,
     NULL},
    {"any_of_half_and_barrier", START "vote.sync.any.pred p3, p1, r6;\n@!p3 ret;\n" SHARE, 64, NULL, NULL},
    {"ballot_of_half_and_barrier",
     START "vote.sync.ballot.b32 r10, p1, r6;\nand.b32 r10, r10, 0x10001;\n"
           "setp.eq.u32 p3, r10, 0;\n@p3 ret;\n" SHARE,
     77, NULL, NULL},
    {"sum_of_half",
     START "redux.sync.add.u32 r10, r3, r6;\nand.b32 r10, r10, 1;\nsetp.eq.u32 p3, r10, 0;\n@p3 ret;\n" SHARE, 64, NULL,
     NULL},
    {"greatest_of_half", TRUTH "redux.sync.max.u32 r10, r3, r6;\nsetp.lt.u32 p3, r10, 250;\n@p3 ret;\n" SWAP, 64, NULL,
     NULL},
    /* both results are used: ptxas 13.0 breaks the barrier behind a match whose results nobody uses */
    {"all_match_in_half",
     START "shr.u32 r10, r3, 7;\nmatch.all.sync.b32 r11|p3, r5, r6;\nmatch.all.sync.b32 r12|p4, r10, "
           "r6;\nselp.u32 r12, 1, 0, p4;\nadd.u32 r9, r9, r12;\nselp.u32 r12, 2, 0, p3;\nadd.u32 r9, r9, "
           "r12;\n@p4 ret;\n" SHARE,
     64, NULL, NULL},
    {"matches_of_lanes",
     START "and.b32 r10, r3, 3;\nmatch.any.sync.b32 r11, r10, 0xffffffff;\npopc.b32 r12, r11;\n"
           "setp.lt.u32 p3, r12, 8;\n@p3 ret;\nadd.u32 r9, r9, r12;\n" SHARE,
     64, NULL, NULL},
    {"one_is_elected",
     START "elect.sync _|p3, 0xffffffff;\nvote.sync.ballot.b32 r10, p3, 0xffffffff;\npopc.b32 r9, r10;\n"
           "@!p3 ret;\n" SHARE,
     64, NULL, NULL},
    {"value_of_a_half",
     START "shfl.sync.idx.b32 r10|p3, r3, 0, 0x101f, 0xffffffff;\nand.b32 r10, r10, 1;\n"
           "setp.eq.u32 p4, r10, 0;\n@p4 ret;\n" SHARE,
     64, NULL, NULL},
    {"value_of_a_half_by_mask",
     TRUTH "and.b32 r11, r4, 16;\nshfl.sync.idx.b32 r10|p3, r3, r11, 31, r6;\nand.b32 r10, r10, 1;\n"
           "setp.eq.u32 p4, r10, 0;\n@p4 ret;\n" SWAP,
     64, NULL, NULL},
    {"value_of_lanes",
     START "add.u32 r11, r4, 5;\nshfl.sync.idx.b32 r10, r3, r11, 31, 0xffffffff;\nsetp.lt.u32 p4, r10, 128;\n"
           "@p4 ret;\n" SHARE,
     64, NULL, NULL},
    {"value_from_above",
     START "shfl.sync.down.b32 r10|p3, r3, 1, 31, 0xffffffff;\nsetp.lt.u32 p4, r10, 128;\n@p4 ret;\n" SHARE, 64, NULL,
     NULL},
    {"range_of_a_shuffle", START "shfl.sync.up.b32 r10|p3, r3, 4, 0, 0xffffffff;\n@!p3 ret;\n" SHARE, 64, NULL, NULL},
    {"value_of_one_lane",
     START TRUTH "shfl.sync.idx.b32 r10, r3, 3, 31, 0xffffffff;\nsetp.lt.u32 p4, r10, 128;\n@p4 ret;\n" SWAP SHARE, 96,
     NULL, NULL},
    {"any_of_a_warp",
     START TRUTH "setp.gt.u32 p3, r3, 250;\nvote.sync.any.pred p4, p3, 0xffffffff;\n@!p4 ret;\n" SWAP SHARE, 128, NULL,
     NULL},
    {"mask_in_a_register",
     TRUTH "mov.u32 r10, 0;\nnot.b32 r10, r10;\nsetp.gt.u32 p3, r3, 250;\nvote.sync.any.pred p4, p3, "
           "r10;\n@!p4 ret;\n" SWAP,
     64, NULL, NULL},
    {"mask_of_some_lanes", TRUTH "selp.b32 r10, 0xffffffff, r6, p2;\nvote.sync.any.pred p4, p1, r10;\n@!p4 ret;\n" SWAP,
     64, NULL, NULL},
    {"active_lanes_vote",
     "@!p1 bra DONE;\nactivemask.b32 r10;\nsetp.lt.u32 p3, r3, 180;\nvote.sync.ballot.b32 r11, p3, r10;\n"
     "popc.b32 r11, r11;\nmin.u32 r9, r11, 0;\nshfl.sync.idx.b32 r12, r3, r4, 31, r10;\nadd.u32 r9, r9, "
     "r12;\n",
     64, NULL, NULL},
    {"active_lanes_before_a_loop",
     "@!p1 bra DONE;\nactivemask.b32 r10;\nmov.u32 r11, 0;\nAGAIN:\nshfl.sync.idx.b32 r12, r3, r4, 31, r10;\n"
     "@p0 bra SKIP;\nadd.u32 r9, r9, r12;\nSKIP:\nadd.u32 r11, r11, 1;\nsetp.lt.u32 p4, r11, 3;\n@p4 bra AGAIN;\n",
     64, NULL, NULL},
    {"active_lanes_of_last_time",
     "mov.u32 r11, 0;\nrem.u32 r12, r3, 5;\nAGAIN:\nsetp.eq.u32 p3, r11, 0;\n@p3 bra FIRST;\n"
     "vote.sync.ballot.b32 r13, p1, r10;\npopc.b32 r13, r13;\nmin.u32 r13, r13, 1;\nadd.u32 r9, r9, r13;\nFIRST:\n"
     "activemask.b32 r10;\nadd.u32 r11, r11, 1;\nsetp.lt.u32 p4, r11, r12;\n@p4 bra AGAIN;\n",
     64, "not known that all lanes", NULL},
    {"suffixes_in_another_order",
     START TRUTH "vote.ballot.sync.b32 r10, p1, r6;\nshfl.b32.sync.idx r11, r3, 3, 31, 0xffffffff;\n"
                 "and.b32 r10, r10, 0x10001;\nadd.u32 r9, r10, r11;\nsetp.eq.u32 p3, r10, 0;\n@p3 ret;\n" SWAP SHARE,
     64, NULL, NULL},
    {"vote_without_mask", "vote.ballot.b32 r9, p1;\n", 64, "without a mask", NULL},
    {"shuffle_without_mask", "shfl.idx.b32 r9, r3, 0, 31;\n", 64, "without a mask", NULL},

    /* lanes that wait for each other before lanes leave */
    {"lanes_wait_for_a_flag",
     "st.volatile.shared.u32 [s], 0;\nbar.warp.sync 0xffffffff;\n@p0 bra OVER;\nAGAIN:\nld.volatile.shared.u32 r10, "
     "[s];\n"
     "setp.eq.u32 p3, r10, 0;\n@p3 bra AGAIN;\nOVER:\nand.b32 r11, r0, 1;\nsetp.eq.u32 p4, r11, 1;\n@p4 ret;\n"
     "st.volatile.shared.u32 [s], 1;\n" TRUTH "vote.sync.ballot.b32 r9, p15, 0xffffffff;\n",
     32, "lanes may wait for others", NULL},
    {"lanes_wait_for_a_lock",
     "AGAIN:\natom.shared.cas.b32 r10, [s], 0, 1;\nsetp.ne.u32 p3, r10, 0;\n@p3 bra AGAIN;\n@p1 ret;\n" TRUTH
     "vote.sync.ballot.b32 r9, p15, 0xffffffff;\n",
     32, "lanes may wait for others", NULL},
    {"lanes_wait_for_memory",
     "AGAIN:\nld.shared.u32 r10, [s];\nsetp.eq.u32 p3, r10, 0;\n@p3 bra AGAIN;\n@p1 ret;\n" TRUTH
     "vote.sync.ballot.b32 r9, p15, 0xffffffff;\n",
     32, "lanes may wait for others", NULL},
    {"lanes_wait_by_adding_nothing",
     HALF_WAITS("atom.shared.add.u32 r10, [s], 0;\nsetp.lt.u32 p3, r10, 16;\n@p3 bra AGAIN;\n"), 32, WAITING, NULL},
    {"lanes_wait_by_adding_what_may_be_nothing",
     HALF_WAITS("and.b32 r11, r3, 1;\natom.shared.add.u32 r10, [s], r11;\nsetp.lt.u32 p3, r10, 16;\n@p3 bra AGAIN;\n"),
     32, WAITING, NULL},
    {"lanes_count", HALF_WAITS("atom.shared.add.u32 r10, [s], 1;\nsetp.lt.u32 p3, r10, 16;\n@p3 bra AGAIN;\n"), 32,
     NULL, NULL},
    {"lanes_wait_for_a_lock_with_numbers_in_registers",
     HALF_WAITS(
         "mov.b32 r11, 16;\nmov.b32 r12, 99;\natom.shared.cas.b32 r10, [s], r11, r12;\nsetp.lt.u32 p3, r10, 16;\n"
         "@p3 bra AGAIN;\n"),
     32, WAITING, NULL},
    {"lanes_wait_for_what_a_function_reads",
     HALF_WAITS("mov.u32 r8, s;\n" WITH_S(
         "call.uni (b), look, (a);\nld.param.u32 r10, [b];\n") "setp.lt.u32 p3, r10, 16;\n@p3 bra AGAIN;\n"),
     32, WAITING, NULL},
    {"lanes_wait_in_a_function", HALF_WAITS("mov.u32 r8, s;\n" WITH_S("call.uni wait_for, (a);\n")), 32, WAITING, NULL},
    {"lanes_wait_at_a_barrier",
     "mov.u32 r10, 0;\n@!p0 bra OVER;\nbarrier.sync 0;\nOVER:\n@p0 bra JOINED;\n"
     "shfl.sync.idx.b32 r10, r3, 20, 31, 0xffff0000;\nbarrier.sync 0;\nJOINED:\nadd.u32 r9, r9, r10;\n",
     32, "some may wait for others at a barrier", NULL},

    /* lanes that meet at two places */
    {"shuffles_at_two_places",
     HALVES("shfl.sync.idx.b32 r10, r3, 20, 31, 0xffffffff;\n",
            "add.u32 r10, r3, 1;\nshfl.sync.idx.b32 r10, r10, 3, 31, 0xffffffff;\n"),
     64, MEETING, NULL},
    {"shuffles_of_halves_at_two_places",
     HALVES("shfl.sync.idx.b32 r10, r3, 4, 31, 0xffff;\n", "shfl.sync.idx.b32 r10, r3, 20, 31, 0xffff0000;\n"), 64,
     NULL, NULL},
    {"another_shuffle_at_another_place",
     HALVES("shfl.sync.idx.b32 r10, r3, 4, 31, r6;\n", "shfl.sync.bfly.b32 r10, r3, 1, 31, r6;\n"), 64, NULL, NULL},
    {"votes_at_two_places_with_a_mask_in_a_register",
     "mov.u32 r11, 0xffffffff;\n@p2 mov.u32 r11, -1;\n" HALVES("vote.sync.ballot.b32 r10, p1, r11;\n",
                                                               "vote.sync.ballot.b32 r10, !p1, r11;\n"),
     64, MEETING, NULL},
    {"lanes_meet_in_two_loops",
     "mov.u32 r10, 0;\nmov.u32 r11, 0;\n" HALVES(
         "ONE:\nst.shared.u32 [s+128], r11;\nbar.warp.sync 0xffffffff;\nadd.u32 r11, r11, 1;\nsetp.lt.u32 p3, r11, 6;\n"
         "@p3 bra ONE;\n",
         "OTHER:\nbar.warp.sync 0xffffffff;\nld.shared.u32 r12, [s+128];\nadd.u32 r10, r10, r12;\n"
         "add.u32 r11, r11, 1;\nsetp.lt.u32 p3, r11, 6;\n@p3 bra OTHER;\n"),
     32, MEETING, NULL},
    {"shuffles_in_a_part_and_behind_it",
     "mov.u32 r10, 0;\n@!p1 bra BEHIND;\nshfl.sync.bfly.b32 r10, r3, 1, 31, 0xffffffff;\nBEHIND:\n"
     "shfl.sync.bfly.b32 r11, r3, 2, 31, 0xffffffff;\nadd.u32 r9, r10, r11;\n",
     64, MEETING, NULL},
    {"a_limit_in_memory",
     START
     "mov.u32 r10, 0;\nAGAIN:\nadd.u32 r10, r10, 64;\nld.volatile.shared.u32 r11, [s];\nsetp.lt.u32 p3, r10, r11;\n"
     "@p3 bra AGAIN;\nbar.sync 0;\n@p1 ret;\nadd.u32 r9, r9, r10;\n" TRUTH SWAP,
     64, NULL, NULL},
    {"an_update_before",
     START
     "AGAIN:\nld.volatile.shared.u32 r10, [s+4];\nUPDATE:\nadd.u32 r11, r10, 3;\natom.shared.cas.b32 r12, [s+4], r10, "
     "r11;\nsetp.ne.u32 p3, r12, r10;\nmov.u32 r10, r12;\n@p3 bra UPDATE;\nbar.sync 0;\nld.shared.u32 r9, [s+4];\n"
     "@p1 ret;\n" TRUTH SWAP,
     64, NULL, NULL},

    /* values that differ between threads, though not at first sight */
    {"loaded_from_one_place", IN_A_LOOP(START, "ld.shared.u32 r13, [s];\nand.b32 r13, r13, 7;\n"), 64, NULL, NULL},
    {"loaded_after_a_barrier_of_all",
     IN_A_LOOP(START "rem.u32 r10, r1, 3;\nsetp.eq.u32 p3, r10, 1;\n@p3 bra BOTH;\nbar.sync 0;\nBOTH:\n",
               "ld.shared.u32 r13, [s+4];\nand.b32 r13, r13, 7;\n"),
     64, NULL, NULL},
    {"loaded_from_several_places", IN_A_LOOP(START, "ld.shared.u32 r13, [r30];\nand.b32 r13, r13, 7;\n"), 64, LATER,
     NULL},
    {"loaded_by_volatile", IN_A_LOOP(START, "ld.volatile.shared.u32 r13, [s];\nand.b32 r13, r13, 7;\n"), 64, LATER,
     NULL},
    {"loaded_after_lanes_met",
     IN_A_LOOP(START "@p0 bra LOW;\nbar.warp.sync r6;\nLOW:\n", "ld.shared.u32 r13, [s];\nand.b32 r13, r13, 7;\n"), 64,
     LATER, NULL},
    {"loaded_after_lanes_waited",
     IN_A_LOOP(START "@p0 bra LOW;\nWAIT:\natom.shared.exch.b32 r10, [s+4], 1;\nsetp.gt.u32 p3, r10, 300;\n"
                     "@p3 bra WAIT;\nLOW:\n",
               "ld.shared.u32 r13, [s];\nand.b32 r13, r13, 7;\n"),
     64, LATER, NULL},
    {"loaded_after_a_call",
     IN_A_LOOP(START "{\n.param .b32 x;\n.param .b32 y;\nst.param.b32 [x], r3;\ncall (y), odd, (x);\n}\n",
               "ld.shared.u32 r13, [s];\nand.b32 r13, r13, 7;\n"),
     64, LATER, NULL},
    {"selected", START "selp.b32 r10, 1, 2, p1;\nsetp.eq.u32 p3, r10, 1;\n@p3 ret;\n" SHARE, 64, NULL, NULL},
    {"carried", START "add.cc.u32 r10, r3, 0xffffff80;\naddc.u32 r11, 0, 0;\nsetp.eq.u32 p3, r11, 0;\n@p3 ret;\n" SHARE,
     64, NULL, NULL},
    {"borrowed", START "sub.cc.u32 r10, r3, 100;\nsubc.u32 r11, 7, 0;\nsetp.eq.u32 p3, r11, 7;\n@p3 ret;\n" SHARE, 64,
     NULL, NULL},
    {"written_by_some", START "mov.u32 r10, 0;\n@p1 mov.u32 r10, 1;\nsetp.eq.u32 p3, r10, 1;\n@p3 ret;\n" SHARE, 64,
     NULL, NULL},
    {"written_in_a_branch",
     START "mov.u32 r10, 4;\n@p1 bra OVER;\nmov.u32 r10, 5;\nOVER:\nsetp.eq.u32 p3, r10, 5;\n@p3 ret;\n" SHARE, 64,
     NULL, NULL},
    {"part_of_a_pair",
     START "mov.b64 d3, {r1, r3};\nmov.b64 {r10, r11}, d3;\nsetp.lt.u32 p3, r11, 90;\n@p3 ret;\n" SHARE, 64, NULL,
     NULL},
    {"half_of_a_word", START "cvt.u16.u32 h1, r3;\nand.b16 h2, h1, 32;\nsetp.ne.u16 p3, h2, 0;\n@p3 ret;\n" SHARE, 64,
     NULL, NULL},
    {"piece_of_a_word",
     START "mov.b32 {h1, h2}, r3;\nmov.b32 r10, {h2, h1};\nsetp.lt.u32 p3, r10, 0x400000;\n@p3 ret;\n" SHARE, 64, NULL,
     NULL},
    {"bits_of_a_word",
     START "bfe.u32 r10, r3, 3, 2;\nprmt.b32 r10, r10, r1, 0x4440;\nand.b32 r10, r10, 1;\nsetp.eq.u32 p3, r10, 0;\n@p3 "
           "ret;\n" SHARE,
     64, NULL, NULL},
    {"compared",
     START "set.lt.u32.u32 r10, r3, 77;\nslct.u32.s32 r11, 3, 4, r10;\nsetp.eq.u32 p3, r11, 4;\n@p3 ret;\n" SHARE, 64,
     NULL, NULL},
    {"both_of_a_pair", START "setp.lt.u32 p3|p4, r3, 60;\n@!p4 ret;\n" SHARE, 64, NULL, NULL},
    {"saturated", START "add.sat.s32 r10, r3, 0x7fffff80;\nsetp.eq.s32 p3, r10, 0x7fffffff;\n@p3 ret;\n" SHARE, 64,
     NULL, NULL},
    {"iterations",
     START "mov.u32 r10, 0;\nAGAIN:\nadd.u32 r10, r10, 64;\nsetp.lt.u32 p3, r10, r3;\n@p3 bra AGAIN;\n"
           "setp.eq.u32 p4, r10, 128;\n@p4 ret;\n" SHARE,
     64, NULL, NULL},
    {"broken_off",
     START "mov.u32 r10, 0;\nAGAIN:\nadd.u32 r10, r10, 1;\nsetp.eq.u32 p3, r10, r4;\n@p3 bra OUT;\n"
           "setp.lt.u32 p4, r10, 20;\n@p4 bra AGAIN;\nOUT:\nadd.u32 r9, r9, r10;\n" SHARE,
     64, NULL, NULL},
    {"constants",
     START "and.b32 r10, r3, 7;\nmul.wide.u32 d3, r10, 4;\nmov.u64 d4, numbers;\nadd.u64 d4, d4, d3;\n"
           "ld.const.u32 r11, [d4];\nsetp.eq.u32 p3, r11, 0;\n@p3 ret;\n" SHARE,
     64, NULL, NULL},
    {"one_constant", START "mov.u64 d4, numbers;\nld.const.u32 r11, [d4+4];\nsetp.ne.u32 p3, r11, 1;\n@p3 ret;\n" SHARE,
     64, NULL, NULL},
    {"returned",
     START "{\n.param .b32 x;\n.param .b32 y;\nst.param.b32 [x], r3;\ncall.uni (y), odd, (x);\nld.param.b32 r10, "
           "[y];\n}\nsetp.eq.u32 p3, r10, 1;\n@p3 ret;\n" SHARE,
     64, NULL, NULL},
    {"table_of_branches",
     START "and.b32 r10, r3, 3;\nTABLE: .branchtargets OVER, LEAVE, OVER, MORE;\nbrx.idx r10, TABLE;\n"
           "LEAVE:\nret;\nMORE:\nadd.u32 r9, r9, 100;\nOVER:\n" SHARE,
     64, NULL, NULL},
    {"guarded_table",
     START "rem.u32 r10, r1, 2;\nTABLE: .branchtargets OVER, OVER;\n@p1 brx.idx r10, TABLE;\nret;\nOVER:\n" SHARE, 64,
     NULL, NULL},
    {"table_of_a_block",
     START "rem.u32 r10, r1, 3;\nTABLE: .branchtargets OVER, LEAVE, MORE;\nbrx.idx r10, TABLE;\nLEAVE:\n"
           "ret;\nMORE:\nadd.u32 r9, r9, 100;\nOVER:\n" SHARE,
     64, NULL, NULL},

    /* barriers of some threads */
    {"two_groups",
     "shr.u32 r10, r0, 6;\nst.shared.u32 [r30], r3;\nsetp.eq.u32 p3, r10, 0;\n@p3 bra ZERO;\nbar.sync 2, 64;\n"
     "xor.b32 r11, r30, 128;\nld.shared.u32 r9, [r11];\nbra DONE;\nZERO:\nbar.sync 0, 64;\nxor.b32 r11, r30, 128;\n"
     "ld.shared.u32 r9, [r11];\n",
     128, NULL, NULL},
    {"counted_by_all", "st.shared.u32 [r30], r3;\nbar.sync 0, 128;\nld.shared.u32 r9, [r31];\n", 128, NULL, NULL},
    {"group_votes", "shr.u32 r10, r0, 6;\nadd.u32 r10, r10, 1;\nbar.red.popc.u32 r9, r10, 64, p1;\n", 128, NULL,
     ".maxntid 512"},
    {"group_leaves",
     START "shr.u32 r10, r0, 6;\nadd.u32 r10, r10, 1;\nand.b32 r11, r1, 1;\nshr.u32 r12, r0, 6;\n"
           "setp.eq.u32 p3, r12, r11;\nbar.red.or.pred p4, r10, 64, p3;\n@!p4 ret;\n" SHARE,
     128, NULL, NULL},
    {"group_votes_for_all",
     START "shr.u32 r10, r0, 6;\nadd.u32 r10, r10, 3;\nsetp.lt.u32 p3, r3, 253;\nbar.red.and.pred p4, "
           "r10, 64, p3;\n@p4 ret;\n" SHARE,
     128, NULL, NULL},
    {"warps_vote",
     START TRUTH "add.u32 r10, r5, 1;\nsetp.gt.u32 p3, r3, 200;\nbarrier.cta.red.popc.aligned.u32 r11, r10, 32, p3;\n"
                 "setp.lt.u32 p4, r11, 7;\n@p4 ret;\n" SWAP SHARE,
     96, NULL, ".maxntid 128"},
    {"numbers_from_zero",
     "shr.u32 r10, r0, 6;\nmov.u32 r11, 0;\nAGAIN:\nadd.u32 r12, r3, r11;\nst.shared.u32 [r30], r12;\n"
     "bar.sync r10, 64;\nxor.b32 r13, r30, 128;\nld.shared.u32 r14, [r13];\nadd.u32 r9, r9, r14;\n"
     "bar.sync r10, 64;\nadd.u32 r11, r11, 1;\nsetp.lt.u32 p3, r11, 3;\n@p3 bra AGAIN;\n",
     256, NULL, ".maxntid 256"},
    {"any_number_from_zero",
     "shr.u32 r10, r0, 6;\nst.shared.u32 [r30], r3;\nbar.sync r10, 64;\nld.shared.u32 r9, [r30];\n", 128, ALL, NULL},
    {"number_of_memory", "ld.shared.u32 r10, [s];\nbar.sync r10, 64;\n", 64, ALL, NULL},
    {"number_of_a_warp",
     "shr.u32 r10, r0, 5;\nshfl.sync.idx.b32 r10, r10, 0, 31, 0xffffffff;\nadd.u32 r10, r10, 1;\n"
     "bar.red.popc.u32 r9, r10, 32, p1;\n",
     96, NULL, ".maxntid 256"},
    {"number_of_a_choice", "setp.lt.u32 p3, r0, 64;\nselp.b32 r10, 0, 1, p3;\nbar.red.popc.u32 r9, r10, 64, p1;\n", 128,
     NULL, NULL},
    {"number_of_a_remainder",
     "rem.u32 r10, r5, 3;\nadd.u32 r10, r10, 4;\nmin.u32 r10, r10, 9;\nbar.red.popc.u32 r9, r10, 32, "
     "p1;\n",
     96, NULL, NULL},
    {"number_below_one",
     "shr.u32 r10, r0, 5;\nadd.u32 r10, r10, 1;\nadd.s32 r10, r10, -1;\nmad.lo.u32 r10, r10, 2, 1;\n"
     "bar.red.popc.u32 r9, r10, 32, p1;\n",
     96, NULL, ".reqntid 96"},
    {"number_of_the_block", "st.shared.u32 [r30], r3;\nand.b32 r10, r1, 7;\nbar.sync r10;\nld.shared.u32 r9, [r31];\n",
     64, NULL, NULL},
    {"number_of_the_block_after_exits", START "@p1 ret;\nand.b32 r10, r1, 7;\nbar.sync r10;\n", 64,
     "whose number is computed", NULL},
    {"other_numbers_after_exits", START "@p1 ret;\nbar.sync 1;\n", 64, APART, NULL},
    {"computed_and_exits", "and.b32 r10, r1, 7;\nbar.sync r10;\n@p1 ret;\nbar.sync 0;\n", 64, APART, NULL},
    {"groups_after_exits",
     START "shr.u32 r10, r0, 6;\nadd.u32 r10, r10, 1;\nbar.red.popc.u32 r11, r10, 64, p1;\nadd.u32 r9, r9, "
           "r11;\n@p1 ret;\n" SHARE,
     128, NULL, NULL},
    {"number_in_use_after_exits", START "bar.sync 0, 64;\n@p1 ret;\n" SHARE, 64, APART, NULL},
    {"unaligned", "st.shared.u32 [r30], r3;\nbarrier.sync 0;\nld.shared.u32 r9, [r31];\nbarrier.cta.sync 3;\n", 77,
     NULL, NULL},
    {"barrier_of_a_function",
     "{\n.param .b32 x;\nst.param.b32 [x], r3;\ncall.uni meet_five, (x);\n}\nadd.u32 r9, r3, 1;\n", 64, NULL, NULL},
    {"any_barrier_of_a_function", "{\n.param .b32 x;\nst.param.b32 [x], 2;\ncall.uni meet_any, (x);\n}\n", 64, ALL,
     NULL},
    /* threads that arrive without waiting */
    {"arrivals",
     "setp.lt.u32 p3, r0, 32;\n@p3 bra OTHER;\nst.shared.u32 [r30], r3;\nbar.arrive 1, 64;\nbra DONE;\n"
     "OTHER:\nbar.sync 1, 64;\nld.shared.u32 r9, [r30+128];\n",
     64, NULL, NULL},
    {"arrivals_are_left",
     "setp.lt.u32 p3, r0, 32;\n@p3 bra OTHER;\nst.shared.u32 [r30], r3;\nbar.arrive 1, 64;\nbra DONE;\n"
     "OTHER:\n@p2 bra DONE;\nbar.sync 1, 64;\nld.shared.u32 r9, [r30+128];\n",
     64, NULL, NULL},
    {"arrivals_of_one_block",
     "setp.ne.u32 p3, r5, 1;\n@p3 bra OTHER;\n@p2 bar.arrive 3, 96;\nbra DONE;\nOTHER:\n"
     "setp.eq.u32 p4, r5, 0;\n@p4 bra DONE;\n@!p2 bar.arrive 3, 96;\nadd.u32 r9, r3, 2;\n",
     96, NULL, NULL},
    {"arrivals_in_turn",
     "shr.u32 r10, r0, 6;\nmov.u32 r11, 0;\nsetp.eq.u32 p3, r10, 0;\n@p3 bra FIRST;\nbar.arrive 1, 128;\n"
     "AGAIN:\nbar.sync 2, 128;\nld.shared.u32 r12, [r30+-256];\nadd.u32 r9, r9, r12;\nbar.arrive 1, 128;\n"
     "add.u32 r11, r11, 1;\nsetp.lt.u32 p4, r11, 3;\n@p4 bra AGAIN;\nbra DONE;\nFIRST:\nbar.sync 1, 128;\n"
     "add.u32 r12, r3, r11;\nst.shared.u32 [r30], r12;\nbar.arrive 2, 128;\nadd.u32 r11, r11, 1;\n"
     "setp.lt.u32 p4, r11, 3;\n@p4 bra FIRST;\n",
     128, NULL, NULL},
    {"two_arrivals",
     "setp.lt.u32 p3, r0, 32;\n@p3 bra OTHER;\nbarrier.cta.arrive.aligned 4, 64;\nbarrier.arrive 6, 64;\n"
     "bra DONE;\nOTHER:\nbar.sync 4, 64;\nmov.u32 r9, r3;\n@p2 bar.sync 6, 64;\n",
     64, NULL, NULL},
    {"many_arrivals",
     "bar.arrive 1, 128;\nbar.arrive 2, 128;\nbar.arrive 3, 128;\nbar.arrive 4, 128;\nbar.arrive 5, 128;\n"
     "bar.arrive 6, 128;\nbar.arrive 7, 128;\nbar.arrive 8, 128;\nbar.arrive 9, 128;\n",
     64, "too many such barriers", NULL},
    {"arrivals_of_any_number", "add.u32 r10, r5, 1;\nbar.arrive r10, 64;\n", 64, "without waiting", ".maxntid 64"},
    {"arrivals_of_two_counts", "bar.arrive 1, 64;\nbar.arrive 1, 128;\n", 64, "without waiting", NULL},
    {"arrivals_of_a_computed_count", "bar.arrive 1, r7;\n", 64, "without waiting", NULL},
    {"count_after_lanes_have_left", "@p1 ret;\nbar.sync 1, 64;\n", 64, "which counts whole warps", NULL},
    {"arrivals_of_some_lanes", "@p1 bra DONE;\nbarrier.arrive 1, 64;\n", 64, "which counts whole warps", NULL},
    {"arrivals_after_exits", START "bar.arrive 1, 128;\n@p1 ret;\n" SHARE, 64, "others have exited", NULL},
    {"arrivals_of_a_function",
     "{\n.param .b32 x;\nst.param.b32 [x], r3;\ncall.uni meet_five, (x);\n}\nbar.arrive 5, 64;\n", 64,
     "without waiting", NULL},
    {"computed_barriers_of_some_threads",
     "and.b32 r10, r5, 1;\nmov.u32 r11, r10;\nmin.u32 r12, r11, 3;\nadd.u32 r13, r12, 2;\nbar.sync r13, 32;\n", 64,
     NULL, NULL},
    {"no_such_barrier", "bar.sync 16;\n", 64, "numbers from 0 to 15", NULL},
    {"no_such_counted_barrier", "bar.arrive 4294967295, 64;\n", 64, "numbers from 0 to 15", NULL},
    {"registers_of_warps", "setmaxnreg.inc.sync.aligned.u32 64;\n", 128, "how many registers", NULL},
    {"cluster_barrier", "barrier.cluster.arrive;\nbarrier.cluster.wait;\n", 64, "cluster", NULL},
    {"no_such_instruction", "frobnicate.u32 r9, r3;\n", 64, "unknown instruction", NULL},

    /* lanes leave on some ways only, or in a loop that is entered without a branch */
    {"exits_in_some_blocks", TRUTH "@!p2 bra JOIN;\nadd.u32 r9, r9, 1;\n@p1 bra DONE;\nJOIN:\n" SWAP, 64, NULL, NULL},
    {"exits_in_cases",
     TRUTH "and.b32 r10, r1, 1;\nCASES: .branchtargets FIRST, JOIN;\nbrx.idx r10, CASES;\nFIRST:\n@p1 bra DONE;\n"
           "JOIN:\n" SWAP,
     50, NULL, NULL},
    {"exits_on_both_sides", TRUTH "@p2 bra OTHER;\n@p1 bra DONE;\nbra JOIN;\nOTHER:\n@p0 bra DONE;\nJOIN:\n" SWAP, 64,
     "come from several branches", NULL},
    {"more_exits_behind",
     TRUTH "@p2 bra JOIN;\n@p1 bra DONE;\nJOIN:\nsetp.lt.u32 p3, r3, 50;\n@p3 bra DONE;\n@p2 bra LAST;\n" SWAP
           "LAST:\nredux.sync.add.u32 r10, r3, 0xffffffff;\nadd.u32 r9, r9, r10;\n",
     64, NULL, NULL},
    {"loop_that_only_exits_end", TRUTH "mov.u32 r11, 0;\n" ENDLESS("DONE"), 64, NULL, NULL},
    {"loop_that_begins_the_kernel", TRUTH "mov.u32 r11, 0;\nbra FIRST;\nFIRST:\n" ENDLESS("DONE"), 33, NULL, NULL},
    {"loop_with_two_entries", TRUTH "mov.u32 r11, 0;\n@p2 bra AGAIN;\nmov.u32 r11, 3;\nbra AGAIN;\n" ENDLESS("DONE"),
     64, NULL, NULL},
    {"loop_behind_a_join", TRUTH "mov.u32 r11, 0;\n@p1 bra AGAIN;\nadd.u32 r9, r9, 4;\n" ENDLESS("DONE"), 64, NULL,
     NULL},
    {"endless_loop_in_a_counted_one",
     TRUTH "mov.u32 r11, 0;\nmov.u32 r13, 0;\nOUTER:\nadd.u32 r13, r13, 1;\n" ENDLESS(
         "LEFT") "LEFT:\n"
                 "setp.lt.u32 p7, r13, 3;\n@p7 bra OUTER;\n",
     64, LATER, NULL},
    {"exits_behind_the_test",
     TRUTH "mov.u32 r11, 0;\nAGAIN:\n" SWAP "add.u32 r11, r11, 1;\nsetp.ge.u32 p3, r11, 3;\n@p3 bra LAST;\n"
           "rem.u32 r10, r3, 5;\nsetp.eq.u32 p4, r10, r11;\n@p4 bra DONE;\nbra.uni AGAIN;\nLAST:\n",
     64, NULL, NULL},
    {"active_lanes_before_exits",
     "mov.u32 r11, 0;\nAGAIN:\nadd.u32 r11, r11, 1;\nsetp.gt.u32 p3, r11, r4;\nactivemask.b32 r12;\n@p3 bra DONE;\n"
     "bar.warp.sync r12;\nadd.u32 r9, r9, r11;\nbra AGAIN;\n",
     64, NULL, NULL},
    {"others_come_to_a_part_later",
     "mov.u32 r11, 0;\nsetp.lt.u32 p3, r4, 9;\n@!p3 bra JOIN;\nvote.sync.ballot.b32 r10, p3, 0xffffffff;\n"
     "add.u32 r9, r9, r10;\nbra PART;\nPART:\nvote.sync.ballot.b32 r10, p0, 0xffffffff;\nadd.u32 r9, r9, r10;\n"
     "JOIN:\nadd.u32 r11, r11, 1;\nsetp.lt.u32 p4, r11, 3;\n@p4 bra PART;\n",
     64, MEETING, NULL},

    /* parts of a warp that come one after the other, before or behind a place where all wait for each other */
    {"in_turn", IN_TURN("", ""), 64, LATER, NULL},
    {"in_turn_before_a_barrier", IN_TURN("", "bar.sync 0;\n"), 64, NULL, NULL},
    {"in_turn_before_a_barrier_in_a_loop", IN_TURN("", "bar.sync 0;\n" AND_AGAIN), 64, NULL, NULL},
    {"in_turn_before_lanes_meet", IN_TURN("", "bar.warp.sync 0xffffffff;\n"), 64, NULL, NULL},
    {"in_turn_before_a_vote_of_all", IN_TURN("", "vote.sync.any.pred p8, p0, 0xffffffff;\n"), 64, NULL, NULL},
    {"in_turn_before_the_same_vote", IN_TURN("", "vote.sync.ballot.b32 r10, p0, 0xffffffff;\n"), 64, LATER, NULL},
    {"in_turn_before_a_part_meets", IN_TURN("", "bar.warp.sync r16;\n"), 64, LATER, NULL},
    {"in_turn_before_a_counted_barrier", IN_TURN("", "bar.sync 1, 64;\n"), 64, LATER, NULL},
    {"in_turn_before_a_guarded_barrier", IN_TURN("", "@p2 bar.sync 0;\n"), 64, LATER, NULL},
    {"in_turn_and_other_barriers", IN_TURN("barrier.sync 0;\n", "barrier.sync 0;\n"), 64, LATER, NULL},
    {"in_turn_and_lanes_that_meet_apart", IN_TURN("bar.warp.sync r16;\n", "bar.warp.sync 0xffffffff;\n"), 64, LATER,
     NULL},
    {"in_turn_before_an_exit_and_a_barrier", IN_TURN("", "setp.eq.u32 p8, r3, 7;\n@p8 bra DONE;\nbar.sync 0;\n"), 64,
     LATER, NULL},

    /* the number of a thread without that of its lane is the same in a warp */
    {"less_its_lane", UP_TO("sub.u32 r13, r2, r4;\n"), 64, NULL, NULL},
    {"less_its_lane_and_more", UP_TO("add.u32 r12, r2, 96;\nadd.u32 r16, r4, 64;\nsub.u32 r13, r12, r16;\n"), 96, NULL,
     NULL},
    {"less_its_wide_lane",
     UP_TO("cvt.u64.u32 d2, r2;\nmov.u32 r16, %laneid;\ncvt.u64.u32 d3, r16;\nsub.u64 d4, d2, d3;\n"
           "cvt.u32.u64 r13, d4;\n"),
     64, NULL, NULL},
    {"less_a_part_of_its_lane", UP_TO("and.b32 r16, r0, 15;\nsub.u32 r13, r2, r16;\n"), 64, LATER, NULL},
    {"less_more_than_its_lane", UP_TO("add.u32 r16, r4, 1;\nsub.u32 r13, r2, r16;\n"), 64, LATER, NULL},
    {"more_than_its_lane", UP_TO("add.u32 r13, r2, r4;\n"), 64, LATER, NULL},
    {"less_another_lane", UP_TO("xor.b32 r16, r4, 1;\nsub.u32 r13, r2, r16;\n"), 64, LATER, NULL},
    {"less_its_lane_at_most", UP_TO("min.u32 r16, r4, 9;\nsub.u32 r13, r2, r16;\n"), 64, LATER, NULL},
    {"twice_less_its_lane", UP_TO("shl.b32 r12, r2, 1;\nsub.u32 r13, r12, r4;\n"), 64, LATER, NULL},

    /* votes of barriers after threads have exited */
    {"count_all_left", LEAVING("bar.red.popc.u32 r13, 0, 1;\nadd.u32 r9, r9, r13;\n"), 77, NULL, NULL},
    {"constant_votes_of_those_left",
     LEAVING("bar.red.or.pred p8, 0, 0;\nbar.red.and.pred p9, 0, 1;\nbar.red.and.pred p10, 0, 0;\n"
             "mov.u32 r13, 0;\n@p2 bar.red.popc.u32 r13, 0, 1;\n@!p2 bar.red.popc.u32 r13, 0, 0;\n"
             "selp.u32 r14, 3, 0, p8;\nselp.u32 r15, 50, 0, p9;\nselp.u32 r16, 700, 0, p10;\nadd.u32 r9, r9, r13;\n"
             "add.u32 r9, r9, r14;\nadd.u32 r9, r9, r15;\nadd.u32 r9, r9, r16;\n"),
     77, NULL, NULL},
    {"count_those_left", LEAVING("bar.red.popc.u32 r13, 0, p4;\nadd.u32 r9, r9, r13;\n"), 77, NULL, NULL},
    {"any_of_those_left", LEAVING("bar.red.or.pred p8, 0, p5;\nselp.u32 r13, 9, 0, p8;\nadd.u32 r9, r9, r13;\n"), 77,
     NULL, NULL},
    {"all_of_those_left", LEAVING("bar.red.and.pred p8, 0, p6;\nselp.u32 r13, 9, 0, p8;\nadd.u32 r9, r9, r13;\n"), 40,
     NULL, NULL},
    {"all_votes_of_those_left",
     LEAVING("bar.red.popc.u32 r13, 0, !p4;\nbar.red.or.pred p8, 0, !p6;\nbar.sync 0;\nbar.red.and.pred p9, 0, !p5;\n"
             "selp.u32 r14, 3, 0, p8;\nselp.u32 r15, 50, 0, p9;\nadd.u32 r9, r9, r13;\nadd.u32 r9, r9, r14;\n"
             "add.u32 r9, r9, r15;\n"),
     96, NULL, NULL},
    {"votes_in_some_blocks",
     LEAVING(
         "mov.u32 r13, 0;\n@p2 bar.red.popc.u32 r13, 0, p4;\nadd.u32 r9, r9, r13;\n@!p2 bar.red.popc.u32 r13, 0, !p4;\n"
         "add.u32 r9, r9, r13;\n"),
     64, NULL, NULL},
    {"vote_into_its_guard",
     LEAVING("setp.ne.u32 p8, r1, 3;\n@p8 bar.red.or.pred p8, 0, p5;\nselp.u32 r13, 9, 0, p8;\nadd.u32 r9, r9, r13;\n"
             "bar.red.popc.u32 r13, 0, p4;\nadd.u32 r9, r9, r13;\n"),
     64, NULL, NULL},
    {"vote_into_the_vote", LEAVING("bar.red.and.pred p6, 0, p6;\nselp.u32 r13, 9, 0, p6;\nadd.u32 r9, r9, r13;\n"), 33,
     NULL, NULL},
    {"votes_of_no_one_left", START "@p2 ret;\n@p1 ret;\nbar.red.popc.u32 r9, 0, p0;\n" SHARE, 64, NULL, NULL},
    {"votes_of_a_few", START "setp.gt.u32 p3, r3, 8;\n@p3 ret;\nbar.red.popc.u32 r9, 0, p15;\n", 64, NULL, NULL},
};

static formed all[GS_COUNT(cases)];

static gs_launch_file *launch_of(uint32_t threads) {
    gs_text text = {0};
    gs_text_add(&text,
                "{\"schema\": \"gridsmith.launch/1\", \"grid\": [13, 1, 1], \"block\": [%u, 1, 1], \"arguments\": "
                "[{\"buffer\": \"uint32\", \"count\": %u, \"fill\": \"zero\"}]}",
                threads, 13 * threads);
    gs_input *input = gs_input_memory("launch", text.data, text.count, NULL);
    gs_launch_file *launch = gs_launch_read(input, NULL);
    gs_input_close(input);
    gs_text_free(&text);
    assert_non_null(launch);
    return launch;
}

static void put_kernels(gs_text *ptx) {
    size_t step = test_number("GRIDSMITH_RUNS", 100000) >= 4000 ? 1 : 4;
    gs_text_add(ptx, "%s", head);
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        snprintf(all[i].name, sizeof all[i].name, "%s", cases[i].name);
        snprintf(all[i].symbol, sizeof all[i].symbol, "%s", cases[i].name);
        all[i].launch = launch_of(cases[i].threads);
        /* Not all of the refused assemble, and a GPU's assembler takes long. */
        all[i].is_left_out = forms_are_assembled() && (cases[i].reason || i % step);
        if (all[i].is_left_out)
            continue;
        gs_text_add(ptx, ".visible .entry %s(.param .u64 out)\n%s\n%s%s\n%s", cases[i].name,
                    cases[i].limits ? cases[i].limits : "", begin, cases[i].body, end);
    }
}

TEST(forms_are_right_or_refused) {
    gs_text ptx = {0};
    put_kernels(&ptx);
    forms_make(all, sizeof all[0], GS_COUNT(all), &ptx);
    size_t wrong = 0;
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        bool is_refused = all[i].refusal.code == GS_E_REFUSED;
        if (all[i].is_left_out)
            continue;
        if (is_refused == (cases[i].reason != NULL) && (!is_refused || strstr(all[i].refusal.message, cases[i].reason)))
            continue;
        print_error("%s: %s\n", cases[i].name, is_refused ? all[i].refusal.message : "accepted");
        wrong++;
    }
    assert_int_equal(wrong, 0);
    forms_check(all, sizeof all[0], GS_COUNT(all), &ptx);
    gs_text_free(&ptx);
    for (size_t i = 0; i < GS_COUNT(all); i++)
        forms_free(&all[i]);
}

TEST(nearly_the_same_kernels_are_decided_as_before) {
    static const char *const inserted[] = {"@p1 bra DONE; ",
                                           "bar.sync 0; ",
                                           "@p2 bra DONE; ",
                                           "vote.sync.ballot.b32 r20, p1, 0xffffffff; ",
                                           "shfl.sync.idx.b32 r9, r3, 0, 31, 0xffffffff; ",
                                           "activemask.b32 r6; ",
                                           "@p1 ret; ",
                                           "mov.u32 r9, r3; ",
                                           "bar.arrive 3, 64; ",
                                           "setp.eq.u32 p3, r1, 1; ",
                                           "bar.warp.sync r6; ",
                                           "bar.red.popc.u32 r9, 0, p0; ",
                                           NULL};
    variations_open("threads");
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_text text = {0};
        gs_text_add(&text, "%s.visible .entry %s(.param .u64 out)\n%s\n%s", head, cases[i].name,
                    cases[i].limits ? cases[i].limits : "", begin);
        size_t from = text.count, to = from + strlen(cases[i].body);
        gs_text_add(&text, "%s\n%s", cases[i].body, end);
        variations_scope scope = {.symbol = cases[i].name, .guard = "@p1 ", .value = "r3", .inserted = inserted};
        variations_expect(cases[i].name, text.data, text.data + from, text.data + to, &scope);
        gs_text_free(&text);
    }
    variations_close();
}

/* ---- calls through a pointer ---- */

/* Who has the same pointer. */
enum same { OF_BLOCK, OF_WARP, OF_THREAD };

#define EITHER(who)  "mov.u64 d2, one;\nmov.u64 d3, two;\nselp.b64 d8, d2, d3, " who ";\n"
#define INDEX(index) "and.b32 r10, " index ", 1;\nmul.wide.u32 d2, r10, 8;\n"
#define TABLE(index) INDEX(index) "mov.u64 d3, table;\nadd.u64 d3, d3, d2;\nld.global.u64 d8, [d3];\n"
#define KEPT         "mov.u32 r11, kept;\n"

/* Each makes d8 a pointer to `one` or `two`. */
static const struct {
    const char *name, *pointer;
    enum same same;
} pointers[] = {
    {"chosen_by_block", EITHER("p2"), OF_BLOCK},
    {"one_way_of_the_block", "@p2 bra OTHER;\nmov.u64 d8, one;\nbra HAVE;\nOTHER:\nmov.u64 d8, two;\nHAVE:\n",
     OF_BLOCK},
    {"of_a_table_by_block", TABLE("r1"), OF_BLOCK},
    {"of_a_table_by_a_number_in_memory",
     "and.b32 r10, r1, 3;\nmul.wide.u32 d2, r10, 4;\nmov.u64 d3, order;\nadd.u64 d3, d3, d2;\nld.global.u32 r12, "
     "[d3];\n" TABLE("r12"),
     OF_BLOCK},
    {"kept_by_one_thread",
     TABLE("r1") KEPT "setp.ne.u32 p3, r0, 0;\n@p3 bra HAVE;\nst.shared.u64 [r11], d8;\nHAVE:\nbar.sync 0;\n"
                      "ld.shared.u64 d8, [r11];\n",
     OF_BLOCK},
    {"chosen_by_warp", "setp.eq.u32 p3, r5, 1;\n" EITHER("p3"), OF_WARP},
    {"of_a_table_by_warp", TABLE("r5"), OF_WARP},
    {"kept_for_each_warp",
     TABLE("r5") KEPT "shl.b32 r12, r5, 3;\nadd.u32 r11, r11, r12;\nsetp.ne.u32 p3, r4, 0;\n@p3 bra HAVE;\n"
                      "st.shared.u64 [r11], d8;\nHAVE:\nbar.sync 0;\nld.shared.u64 d8, [r11];\n",
     OF_WARP},
    {"behind_barriers_of_warps", "add.u32 r13, r5, 1;\nbar.sync r13, 32;\n" TABLE("r1"), OF_WARP},
    {"behind_a_counted_barrier", "bar.sync 1, 64;\n" TABLE("r1"), OF_WARP},
    {"chosen_by_thread", EITHER("p1"), OF_THREAD},
    {"chosen_by_lane", EITHER("p0"), OF_THREAD},
    {"of_a_table_by_thread", TABLE("r3"), OF_THREAD},
    {"changed_in_some_threads", "mov.u64 d8, one;\n@p1 mov.u64 d8, two;\n", OF_THREAD},
    {"one_way_of_the_thread", "@p1 bra OTHER;\nmov.u64 d8, one;\nbra HAVE;\nOTHER:\nmov.u64 d8, two;\nHAVE:\n",
     OF_THREAD},
    {"kept_by_each_thread", ".local .b64 mine;\n" EITHER("p1") "st.local.u64 [mine], d8;\nld.local.u64 d8, [mine];\n",
     OF_THREAD},
    {"read_while_others_write",
     INDEX("r1") "mov.u64 d3, table;\nadd.u64 d3, d3, d2;\nld.volatile.global.u64 d8, [d3];\n", OF_THREAD},
};

/* What is called: it needs all threads of the block, all lanes of the warp, or none of them. */
static const struct {
    const char *name, *step, *reason;
    enum same needs;
} callees[] = {
    {"barrier",
     "st.shared.u32 [r4], r1;\nbar.sync 0;\nxor.b32 r3, r4, 4;\nld.shared.u32 r2, [r3];\nbar.sync 0;\n"
     "add.u32 r1, r1, r2;\n",
     "through a pointer, which has a barrier that some threads may not reach", OF_BLOCK},
    {"shuffle", "shfl.sync.bfly.b32 r2, r1, 5, 31, 0xffffffff;\nadd.u32 r1, r1, r2;\n",
     "through a pointer, in which lanes wait for others that may not come", OF_WARP},
    {"plain", "mad.lo.u32 r1, r1, r1, 9;\n", NULL, OF_THREAD},
};

static const char pointers_head[] =
    ".version 8.3\n.target sm_90\n.address_size 64\n.shared .align 16 .b32 area[256];\n.shared .align 8 .b64 kept[8];\n"
    ".global .align 4 .b32 order[4] = {1, 0, 0, 1};\n"
    ".func (.param .b32 y) two(.param .b32 x)\n{\n.reg .b32 r<2>;\nld.param.u32 r1, [x];\nmul.lo.u32 r1, r1, 5;\n"
    "st.param.b32 [y], r1;\nret;\n}\n"
    ".func (.param .b32 y) one(.param .b32 x)\n{\n.reg .b32 r<6>;\nld.param.u32 r1, [x];\nmov.u32 r5, %tid.x;\n"
    "shl.b32 r5, r5, 2;\nmov.u32 r4, area;\nadd.u32 r4, r4, r5;\n";
static const char pointers_begin[] = "st.param.b32 [y], r1;\nret;\n}\n.global .align 8 .u64 table[2] = {one, two};\n";
static const char pointed_call[] = "{\n.param .b32 x;\n.param .b32 y;\nst.param.b32 [x], r3;\nkind: .callprototype "
                                   "(.param .b32 _) _ (.param .b32 _);\n"
                                   "call (y), d8, (x), kind;\nld.param.b32 r9, [y];\n}\n";

static formed pointed[GS_COUNT(pointers)];

static size_t count_wrong_pointers(size_t callee) {
    size_t wrong = 0;
    for (size_t i = 0; i < GS_COUNT(pointers); i++) {
        bool must_refuse = pointers[i].same > callees[callee].needs, is_refused = pointed[i].refusal.code != GS_OK;
        if (is_refused == must_refuse && (!is_refused || strstr(pointed[i].refusal.message, callees[callee].reason)))
            continue;
        print_error("%s, %s: %s\n", pointed[i].name, callees[callee].name,
                    is_refused ? pointed[i].refusal.message : "accepted");
        wrong++;
    }
    return wrong;
}

TEST(calls_through_pointers_are_branches) {
    for (size_t c = 0; c < GS_COUNT(callees); c++) {
        gs_text ptx = {0};
        memset(pointed, 0, sizeof pointed);
        gs_text_add(&ptx, "%s%s%s", pointers_head, callees[c].step, pointers_begin);
        for (size_t i = 0; i < GS_COUNT(pointers); i++) {
            snprintf(pointed[i].name, sizeof pointed[i].name, "%s", pointers[i].name);
            snprintf(pointed[i].symbol, sizeof pointed[i].symbol, "%s", pointers[i].name);
            pointed[i].launch = launch_of(64);
            gs_text_add(&ptx, ".visible .entry %s(.param .u64 out)\n%s%s%s%s", pointers[i].name, begin,
                        pointers[i].pointer, pointed_call, end);
        }
        forms_make(pointed, sizeof pointed[0], GS_COUNT(pointed), &ptx);
        assert_int_equal(count_wrong_pointers(c), 0);
        forms_check(pointed, sizeof pointed[0], GS_COUNT(pointed), &ptx);
        gs_text_free(&ptx);
        for (size_t i = 0; i < GS_COUNT(pointed); i++)
            forms_free(&pointed[i]);
    }
}

TEST_MAIN(NULL, NULL)
