/*
 * random_rows.c: what random kernels are made of. See random_ptx.c.
 *
 * A row is a piece of PTX that changes %v, the value of a thread, or sums in global memory, so that the result does not
 * depend on the order of threads and blocks. The rows of a feature are alternatives. These characters stand for
 * something else:
 *
 *   #   a number from 1 to 31
 *   ?   a number that no other row has, for labels and variables
 *   ~   the register with the number of threads that take part
 *   =   the number of the kernel's barrier without a count
 *   ^   the variable in shared memory that has a word for each thread
 *
 * Registers that rows may use: %t1 to %t7 (32 bits), %h1 to %h3 (16), %q1 to %q5 (64), %f1, %f2, %g1, %p1, %p2. %me is
 * the number of the thread in its block, %block that of the block in its grid, %mine the thread's word in shared
 * memory.
 */
#include "random_ptx.h"

#define ADD_T1     " add.u32 %v, %v, %t1;"
#define XOR_T1     " xor.b32 %v, %v, %t1;"
#define TO_FLOAT   "and.b32 %t1, %v, 0xffff; cvt.rn.f32.u32 %f1, %t1; add.rn.f32 %f1, %f1, 0f3F800000;"
#define FROM_FLOAT " mov.b32 %t1, %f1; xor.b32 %v, %v, %t1;"
#define IS_EVEN    "and.b32 %t1, %v, 1; setp.eq.u32 %p1, %t1, 0;"
/* The mask of this half of the warp, and of this quarter. */
#define HALF    "mov.u32 %t7, %laneid; and.b32 %t7, %t7, 16; shl.b32 %t7, 0xffff, %t7;"
#define QUARTER "mov.u32 %t7, %laneid; and.b32 %t7, %t7, 24; shl.b32 %t7, 0xff, %t7;"
/* The barrier of a pair of warps. There are four pairs at most. */
#define GROUP "{ .reg .b32 %n<3>; mov.u32 %n0, %tid.x; shr.u32 %n1, %n0, 6; add.u32 %n2, %n1, 5; "

/* The word of the same lane of the other warp of the pair. */
#define OTHER_WARP "xor.b32 %t1, %me, 32; shl.b32 %t1, %t1, 2; mov.u32 %t2, ^; add.u32 %t1, %t1, %t2;"

/* Registers that are written once, as compilers write them: what a loop waits for is followed through such registers.
 */
#define OWN "{ .reg .b32 %w<10>; .reg .b64 %x<3>; .reg .pred %y<4>; "

const random_ptx_row random_ptx_rows[] = {
    {"arithmetic", RANDOM_PTX_ANY, "add.u32 %v, %v, #;"},
    {"arithmetic", RANDOM_PTX_ANY, "mul.lo.u32 %v, %v, #;"},
    {"arithmetic", RANDOM_PTX_ANY, "xor.b32 %v, %v, #;"},
    {"arithmetic", RANDOM_PTX_ANY, "mad.lo.u32 %v, %me, #, %v;"},
    {"arithmetic", RANDOM_PTX_ANY, "sub.u32 %v, #, %v;"},
    {"arithmetic", RANDOM_PTX_ANY, "mul.hi.u32 %t1, %v, 0x9e3779b1;" ADD_T1},
    {"arithmetic", RANDOM_PTX_ANY, "mul24.lo.u32 %t1, %v, #;" ADD_T1},
    {"arithmetic", RANDOM_PTX_ANY, "mad24.lo.u32 %v, %v, #, %me;"},
    {"arithmetic", RANDOM_PTX_ANY, "div.u32 %t1, %v, #;" XOR_T1},
    {"arithmetic", RANDOM_PTX_ANY, "rem.s32 %t1, %v, #; abs.s32 %t1, %t1;" ADD_T1},
    {"arithmetic", RANDOM_PTX_ANY, "min.s32 %t1, %v, #; max.u32 %t1, %t1, 9; neg.s32 %t1, %t1;" ADD_T1},
    {"arithmetic", RANDOM_PTX_ANY, "sad.u32 %v, %v, #, %me;"},
    {"arithmetic", RANDOM_PTX_ANY, "dp4a.u32.u32 %v, %v, %me, %v; dp2a.lo.u32.u32 %v, %v, #, %v;"},
    {"arithmetic", RANDOM_PTX_ANY, "setp.lt.s32 %p1, %v, #; selp.b32 %t1, 3, %me, %p1; cnot.b32 %t1, %t1;" ADD_T1},
    {"arithmetic", RANDOM_PTX_ANY, "set.gt.u32.u32 %t1, %v, 4096; slct.u32.s32 %t1, #, 5, %t1;" ADD_T1},

    {"bits", RANDOM_PTX_ANY, "shf.l.wrap.b32 %v, %v, %v, #;"},
    {"bits", RANDOM_PTX_ANY, "lop3.b32 %v, %v, %me, #, 0x96; not.b32 %v, %v; or.b32 %v, %v, 1;"},
    {"bits", RANDOM_PTX_ANY, "prmt.b32 %v, %v, %me, 0x3214;"},
    {"bits", RANDOM_PTX_ANY, "bfe.u32 %t1, %v, #, 7; bfi.b32 %v, %t1, %v, #, 5;"},
    {"bits", RANDOM_PTX_ANY,
     "popc.b32 %t1, %v; clz.b32 %t2, %v; bfind.u32 %t3, %v; add.u32 %t1, %t1, %t2;"
     " mad.lo.u32 %t1, %t3, 3, %t1;" ADD_T1},
    {"bits", RANDOM_PTX_ANY, "brev.b32 %v, %v; shr.s32 %t1, %v, #; shl.b32 %t1, %t1, 3;" XOR_T1},
    {"bits", RANDOM_PTX_ANY,
     "fns.b32 %t1, %v, 0, 1; bmsk.wrap.b32 %t2, 3, #; szext.wrap.u32 %t1, %t1, #;"
     " and.b32 %t1, %t1, %t2;" ADD_T1},

    {"carry", RANDOM_PTX_ANY, "add.cc.u32 %t1, %v, -7; addc.u32 %v, %t1, #;"},
    {"carry", RANDOM_PTX_ANY, "sub.cc.u32 %t1, %v, 4096; subc.u32 %v, %t1, #;"},
    {"carry", RANDOM_PTX_ANY, "mad.lo.cc.u32 %t1, %v, #, %me; madc.hi.u32 %v, %v, #, %t1;"},

    {"halves", RANDOM_PTX_ANY, "mov.b32 {%h1, %h2}, %v; add.u16 %h1, %h1, #; mov.b32 %v, {%h2, %h1};"},
    {"halves", RANDOM_PTX_ANY, "mul.wide.u32 %q1, %v, %v; shr.u64 %q1, %q1, 7; cvt.u32.u64 %t1, %q1;" XOR_T1},
    {"halves", RANDOM_PTX_ANY, "cvt.u16.u32 %h1, %v; mul.wide.u16 %t1, %h1, #;" ADD_T1},
    {"halves", RANDOM_PTX_ANY,
     "mov.b64 %q1, {%v, %me}; mov.b64 {%t1, %t2}, %q1; cvt.s32.s8 %t2, %t1;"
     " add.u32 %t1, %t1, %t2;" XOR_T1},

    {"real numbers", RANDOM_PTX_ANY,
     TO_FLOAT " fma.rn.f32 %f1, %f1, %f1, 0f40400000; sqrt.rn.f32 %f1, %f1;" FROM_FLOAT},
    {"real numbers", RANDOM_PTX_ANY,
     TO_FLOAT " rcp.rn.f32 %f2, %f1; div.rn.f32 %f1, %f2, %f1; neg.f32 %f1, %f1;"
              " testp.finite.f32 %p1, %f1; @%p1 copysign.f32 %f1, %f1, %f2;" FROM_FLOAT},
    {"real numbers", RANDOM_PTX_ANY,
     TO_FLOAT " ex2.approx.f32 %f2, 0f3F000000; lg2.approx.f32 %f1, %f1;"
              " mul.rn.f32 %f1, %f1, %f2; rsqrt.approx.f32 %f1, 0f40000000;" FROM_FLOAT},
    {"real numbers", RANDOM_PTX_ANY,
     TO_FLOAT " cvt.f64.f32 %g1, %f1; fma.rn.f64 %g1, %g1, %g1, %g1;"
              " cvt.rn.f32.f64 %f1, %g1;" FROM_FLOAT},
    {"real numbers", RANDOM_PTX_ANY,
     TO_FLOAT " cvt.rn.f16.f32 %h1, %f1; fma.rn.f16 %h1, %h1, %h1, %h1;"
              " cvt.f32.f16 %f1, %h1;" FROM_FLOAT},
    {"real numbers", RANDOM_PTX_ANY,
     "sin.approx.f32 %f1, 0f3F000000; cos.approx.f32 %f2, %f1;"
     " tanh.approx.f32 %f1, %f2; cvt.rzi.u32.f32 %t1, %f1;" ADD_T1},

    {"block number", RANDOM_PTX_ANY, "mov.u32 %t1, %ctaid.x; mad.lo.u32 %v, %v, 17, %t1;"},
    {"block number", RANDOM_PTX_ANY, "mov.u32 %t1, %ctaid.y; mad.lo.u32 %v, %v, 17, %t1;"},
    {"block number", RANDOM_PTX_ANY, "mov.u32 %t1, %ctaid.z; mad.lo.u32 %v, %v, 17, %t1;"},
    {"block number", RANDOM_PTX_ANY, "mov.u32 %t1, %nctaid.x; mov.u32 %t2, %nctaid.y; sub.u32 %t1, %t1, %t2;" ADD_T1},
    {"block number", RANDOM_PTX_ANY, "mov.u32 %t1, %nctaid.z; mad.lo.u32 %v, %v, 17, %t1;"},
    {"short block number", RANDOM_PTX_ANY, "mov.u16 %h1, %ctaid.x; cvt.u32.u16 %t1, %h1;" ADD_T1},
    {"short block number", RANDOM_PTX_ANY, "cvt.u64.u32 %q1, %nctaid.y; cvt.u32.u64 %t1, %q1;" ADD_T1},
    {"two block numbers", RANDOM_PTX_ANY,
     "mov.b64 %q1, {%ctaid.x, %ctaid.y}; mov.b64 {%t1, %t2}, %q1; mad.lo.u32 %v, %t1, 3, %v; add.u32 %v, %v, %t2;"},
    {"two block numbers", RANDOM_PTX_ANY,
     "mov.b64 %q1, {%nctaid.x, %nctaid.y}; cvt.u32.u64 %t1, %q1; shr.u64 %q1, %q1, 32; cvt.u32.u64 %t2, %q1;"
     " mad.lo.u32 %t1, %t1, 5, %t2;" ADD_T1},
    {"two block numbers", RANDOM_PTX_ANY,
     "mov.b64 %q1, {%ctaid.z, %nctaid.z}; mov.b64 {%t1, %t2}, %q1; mad.lo.u32 %t1, %t1, 7, %t2;" ADD_T1},

    {"local memory", RANDOM_PTX_ANY, "st.local.v2.u32 [array+8], {%v, %me}; ld.local.u32 %t1, [array+12];" ADD_T1},
    {"local memory", RANDOM_PTX_ANY,
     "and.b32 %t1, %v, 12; mov.u64 %q1, array; cvt.u64.u32 %q2, %t1; add.u64 %q1, %q1, %q2;"
     " st.local.u32 [%q1], #; ld.local.u32 %t1, [%q1];" ADD_T1},
    {"constants", RANDOM_PTX_ANY,
     "and.b32 %t1, %v, 12; mov.u64 %q1, table; cvt.u64.u32 %q2, %t1; add.u64 %q1, %q1, %q2;"
     " ld.const.u32 %t1, [%q1];" ADD_T1},
    {"constants", RANDOM_PTX_ANY,
     "and.b32 %t1, %me, 12; mov.u64 %q1, weights; cvt.u64.u32 %q2, %t1;"
     " add.u64 %q1, %q1, %q2; ld.global.nc.u32 %t1, [%q1]; ldu.global.u32 %t2, [%q1];"
     " add.u32 %t1, %t1, %t2;" ADD_T1},
    {"own words", RANDOM_PTX_ANY, "st.volatile.global.u32 [%out], %v; ld.volatile.global.u32 %t1, [%out];" ADD_T1},
    {"own words", RANDOM_PTX_ANY,
     "cvta.global.u64 %q1, %out; isspacep.global %p1, %q1; @%p1 st.u32 [%q1], %v;"
     " ld.u32 %t1, [%q1];" ADD_T1},
    {"own words", RANDOM_PTX_ANY,
     "prefetch.global.L2 [%in]; createpolicy.fractional.L2::evict_last.b64 %q1, 1.0;"
     " ld.relaxed.gpu.global.u32 %t1, [%in];" XOR_T1},

    {"sums", RANDOM_PTX_ANY, "red.global.add.u32 [%sums], %v;"},
    {"sums", RANDOM_PTX_ANY, "red.global.add.u32 [%sums+4], %v; add.u32 %v, %v, 1;"},
    {"sums", RANDOM_PTX_ANY, "atom.global.add.u32 %t1, [%sums+8], %v;"},
    {"sums", RANDOM_PTX_ANY, "red.global.min.u32 [%sums+12], %v; red.global.max.u32 [%sums+16], %v;"},
    {"sums", RANDOM_PTX_ANY, "red.global.or.b32 [%sums+20], %v; red.global.xor.b32 [%sums+24], %v;"},
    {"sums", RANDOM_PTX_ANY, "red.relaxed.gpu.global.inc.u32 [%sums+28], 30; atom.global.dec.u32 %t1, [%sums+32], 12;"},
    {"sums", RANDOM_PTX_ANY, "atom.global.exch.b32 %t1, [%sums+36], 7; atom.global.and.b32 %t1, [%sums+40], %v;"},
    {"sums", RANDOM_PTX_ANY,
     "cvt.u64.u32 %q1, %v; red.global.add.u64 [%sums+48], %q1;"
     " red.global.add.f32 [%sums+56], 0f3F800000;"},
    {"updates", RANDOM_PTX_ANY,
     OWN "ld.volatile.global.u32 %w1, [%sums+60];\n$C?:\nmov.u32 %w2, %w1; add.u32 %w3, %w2, %v;"
         " atom.global.cas.b32 %w1, [%sums+60], %w2, %w3; setp.ne.u32 %y1, %w1, %w2;"
         " @%y1 bra $C?;"
         " }"},

    {"fences", RANDOM_PTX_ANY, "membar.gl; fence.acq_rel.gpu;"},
    {"fences", RANDOM_PTX_ANY, "nanosleep.u32 #; .pragma \"nounroll\"; pmevent 1;"},
    {"dependent kernels", RANDOM_PTX_ANY, "griddepcontrol.launch_dependents; add.u32 %v, %v, #;"},
    {"dependent kernels", RANDOM_PTX_ANY, "{griddepcontrol.launch_dependents;} { griddepcontrol.wait; }"},
    {"dependent kernels", RANDOM_PTX_ANY, "@%p1 griddepcontrol.launch_dependents; xor.b32 %v, %v, #;"},
    {"traps", RANDOM_PTX_ANY, "setp.eq.u32 %p1, %threads, 0; @%p1 trap; @%p1 brkpt;"},

    {"calls", RANDOM_PTX_ANY,
     "{ .param .b32 p0; st.param.b32 [p0], %v; .param .b32 p1; st.param.b32 [p1], %me;"
     " .param .b32 q0; call.uni (q0), mix, (p0, p1); ld.param.b32 %v, [q0]; }"},
    {"calls that know the block", RANDOM_PTX_ANY,
     "{ .param .b32 p0; st.param.b32 [p0], %v; .param .b32 q0;"
     " call.uni (q0), place, (p0); ld.param.b32 %v, [q0]; }"},
    {"calls with a barrier", RANDOM_PTX_WHOLE,
     "{ .param .b32 p0; st.param.b32 [p0], %v; .param .b32 q0;"
     " call.uni (q0), meet, (p0); ld.param.b32 %v, [q0]; }"},
    {"calls with a vote", RANDOM_PTX_WARPS,
     "{ .param .b32 p0; st.param.b32 [p0], %v; .param .b32 q0;"
     " call.uni (q0), agree, (p0); ld.param.b32 %v, [q0]; }"},

    {"branches", RANDOM_PTX_ANY,
     "and.b32 %t1, %v, #; setp.eq.u32 %p1, %t1, 0; @%p1 bra $A?; mul.lo.u32 %v, %v, #;\n$A?:\n"},
    {"branches", RANDOM_PTX_ANY,
     "and.b32 %t2, %v, 7;\n$A?:\nadd.u32 %v, %v, #; add.u32 %t2, %t2, 1;"
     " setp.lt.u32 %p1, %t2, 8; @%p1 bra $A?;"},
    {"tables of branches", RANDOM_PTX_ANY,
     "and.b32 %t1, %v, 1;\n$J?: .branchtargets $A?, $B?;\nbrx.idx %t1, $J?;\n$A?:\n"
     "add.u32 %v, %v, #; bra $E?;\n$B?:\nxor.b32 %v, %v, #;\n$E?:\n"},
    {"scopes", RANDOM_PTX_ANY,
     "{ .reg .b32 %t1; .reg .pred %p1; and.b32 %t1, %v, 3;\nagain:\nadd.u32 %v, %v, #;"
     " add.u32 %t1, %t1, 1; setp.lt.u32 %p1, %t1, 4; @%p1 bra again; }"},
    {"scopes", RANDOM_PTX_ANY,
     "{ .reg .b32 %v0; { .reg .b32 %t1; mov.u32 %t1, %me;\nagain:\n mov.u32 %v0, %t1; }"
     " { .reg .pred %p2; setp.eq.u32 %p2, %v0, #; @%p2 bra again; add.u32 %v, %v, %v0;\nagain:\n }"
     " add.u32 %v, %v, 1; }"},
    {"scopes", RANDOM_PTX_ANY,
     "{ .reg .b32 n; .reg .pred q; mov.u32 n, 0;\nagain:\nadd.u32 n, n, 1; { .reg .b32 n; mov.u32 n, #;"
     " add.u32 %v, %v, n; } setp.lt.u32 q, n, 3; @q bra again; }"},

    /* Exited lanes contribute nothing: votes, and the value of the first lane, which is the last one to exit. */
    {"votes", RANDOM_PTX_ANY, "shfl.sync.idx.b32 %t1|%p1, %v, 0, 31, -1;" ADD_T1},
    {"votes", RANDOM_PTX_ANY, "and.b32 %t1, %v, 3; setp.eq.u32 %p1, %t1, 0; vote.sync.ballot.b32 %t1, %p1, -1;" ADD_T1},
    {"votes", RANDOM_PTX_ANY, "and.b32 %t1, %v, 3; match.any.sync.b32 %t1, %t1, -1;" XOR_T1},
    {"votes", RANDOM_PTX_ANY, "redux.sync.add.u32 %t1, %v, -1;" XOR_T1},
    {"votes", RANDOM_PTX_ANY, "bar.warp.sync -1;"},
    {"votes of whole warps", RANDOM_PTX_WARPS, "shfl.sync.bfly.b32 %t1, %v, #, 31, -1;" ADD_T1},
    {"votes of whole warps", RANDOM_PTX_WARPS, "shfl.sync.up.b32 %t1|%p1, %v, 3, 0, -1; @%p1 add.u32 %v, %v, %t1;"},
    {"votes of whole warps", RANDOM_PTX_WARPS,
     "shfl.sync.down.b32 %t1|%p1, %v, 1, 0x181f, -1; @%p1 xor.b32 %v, %v, %t1;"},
    {"votes of whole warps", RANDOM_PTX_WARPS,
     IS_EVEN " vote.sync.all.pred %p1, %p1, -1; vote.sync.uni.pred %p2, %p1, -1;"
             " @%p2 add.u32 %v, %v, #;"},
    {"votes of whole warps", RANDOM_PTX_WARPS,
     "match.all.sync.b32 %t1|%p1, 5, -1; @%p1 add.u32 %v, %v, %t1;"
     " elect.sync %t1|%p1, -1; @%p1 add.u32 %v, %v, 7;"},
    /* A vote of the whole warp decides about a branch, in which the whole warp votes. */
    {"votes that decide", RANDOM_PTX_WARPS,
     IS_EVEN " vote.sync.any.pred %p2, %p1, -1; @!%p2 bra $V?;"
             " redux.sync.max.u32 %t1, %v, -1;" ADD_T1 "\n$V?:\n"},
    {"votes that decide", RANDOM_PTX_WARPS,
     "shfl.sync.idx.b32 %t2, %v, #, 31, -1; and.b32 %t2, %t2, 1;"
     " setp.eq.u32 %p2, %t2, 0; @%p2 bra $V?; shfl.sync.idx.b32 %t1, %v, 5, 31, -1;" ADD_T1 "\n$V?:\n"},
    {"partial masks", RANDOM_PTX_ANY, HALF IS_EVEN " vote.sync.ballot.b32 %t1, %p1, %t7;" ADD_T1},
    {"partial masks", RANDOM_PTX_ANY, QUARTER " redux.sync.xor.b32 %t1, %v, %t7;" XOR_T1},
    {"partial masks", RANDOM_PTX_WARPS, HALF " shfl.sync.idx.b32 %t1, %v, 2, 0x101f, %t7;" XOR_T1},
    {"partial masks", RANDOM_PTX_WARPS, QUARTER " and.b32 %t1, %v, 1; match.any.sync.b32 %t1, %t1, %t7;" XOR_T1},
    {"partial masks", RANDOM_PTX_WARPS,
     "and.b32 %t1, %me, 31; setp.lt.u32 %p2, %t1, 12; @!%p2 bra $V?;"
     " redux.sync.min.u32 %t1, %v, 0xfff;" ADD_T1 "\n$V?:\n"},
    /* A vote of half a warp decides about a branch, in which that half votes. */
    {"partial masks that decide", RANDOM_PTX_WARPS,
     HALF IS_EVEN " vote.sync.ballot.b32 %t1, %p1, %t7; popc.b32 %t1, %t1;"
                  " and.b32 %t1, %t1, 1; setp.eq.u32 %p2, %t1, 0; @%p2 bra $V?;"
                  " redux.sync.add.u32 %t1, %v, %t7;" ADD_T1 " bar.warp.sync %t7;\n$V?:\n"},
    {"partial masks that decide", RANDOM_PTX_WARPS,
     QUARTER " redux.sync.or.b32 %t1, %v, %t7; and.b32 %t1, %t1, 0x70;"
             " setp.ne.u32 %p2, %t1, 0x70;"
             " @%p2 bra $V?; shfl.sync.bfly.b32 %t1, %v, 4, 31, %t7;" ADD_T1 "\n$V?:\n"},
    {"partial masks that decide", RANDOM_PTX_WARPS,
     HALF " shfl.sync.idx.b32 %t2, %v, 1, 0x101f, %t7; and.b32 %t2, %t2, 2;"
          " setp.eq.u32 %p2, %t2, 0; @%p2 bra $V?;"
          " match.any.sync.b32 %t1, %t2, %t7;" XOR_T1 "\n$V?:\n"},
    {"active masks", RANDOM_PTX_ANY,
     "and.b32 %t1, %v, #; setp.eq.u32 %p1, %t1, 0; @%p1 bra $A?; activemask.b32 %t2;"
     " vote.sync.any.pred %p2, %p1, %t2; @%p2 add.u32 %v, %v, 5; add.u32 %v, %v, 1;\n$A?:\n"},

    {"barriers", RANDOM_PTX_ANY,
     "st.shared.u32 [%mine], %v; bar.sync =; mad.lo.u32 %t1, %me, #, #; rem.u32 %t1, %t1, ~;"
     " shl.b32 %t1, %t1, 2; mov.u32 %t2, ^; add.u32 %t1, %t1, %t2;"
     " ld.shared.u32 %t1, [%t1]; bar.sync =;" ADD_T1},
    {"barriers", RANDOM_PTX_ANY,
     "st.shared.u32 [%mine], %v; barrier.sync =; mad.lo.u32 %t1, %me, #, #; rem.u32 %t1, %t1, ~;"
     " shl.b32 %t1, %t1, 2; mov.u32 %t2, ^; add.u32 %t1, %t1, %t2;"
     " ld.shared.u32 %t1, [%t1]; barrier.cta.sync =;" ADD_T1},
    {"barriers that vote", RANDOM_PTX_WHOLE, IS_EVEN " bar.red.popc.u32 %t1, =, %p1;" ADD_T1},
    {"barriers that vote", RANDOM_PTX_WHOLE, IS_EVEN " bar.red.or.pred %p2, =, %p1; @%p2 add.u32 %v, %v, #;"},
    {"barriers that vote", RANDOM_PTX_WHOLE, IS_EVEN " barrier.red.and.pred %p2, =, !%p1; @%p2 add.u32 %v, %v, #;"},
    {"barriers that count threads", RANDOM_PTX_ANY, "bar.red.popc.u32 %t1, =, 1;" ADD_T1},
    {"barriers that count threads", RANDOM_PTX_ANY, "bar.red.or.pred %p2, =, 0; @!%p2 add.u32 %v, %v, #;"},
    {"barriers that decide", RANDOM_PTX_WHOLE,
     IS_EVEN " bar.red.or.pred %p2, =, %p1; @%p2 bra $V?;"
             " bar.red.popc.u32 %t1, =, %p1;" ADD_T1 "\n$V?:\n"},
    {"shuffles up to a limit", RANDOM_PTX_GROUPS,
     "{ .reg .b32 %n<6>; .reg .pred %y<2>; mov.u32 %n0, %tid.x; mov.u32 %n1, %ntid.x; mov.u32 %n2, %ctaid.x; "
     "mad.lo.u32 %n2, %n2, #, 130; rem.u32 %n3, %n2, %n1; sub.u32 %n4, %n2, %n3; mov.u32 %n5, %n0; "
     "setp.ge.u32 %y0, %n5, %n4; @%y0 bra $N?; $M?: shfl.sync.bfly.b32 %t1, %v, #, 31, -1;" ADD_T1
     " add.u32 %n5, %n5, %n1; setp.lt.u32 %y1, %n5, %n4; @%y1 bra $M?; $N?: }"},
    {"shuffles up to a limit", RANDOM_PTX_GROUPS,
     "{ .reg .b32 %n<6>; .reg .pred %y<2>; mov.u32 %n0, %tid.x; mov.u32 %n2, %ctaid.x; mad.lo.u32 %n2, %n2, #, 150; "
     "rem.s32 %n3, %n2, 64; sub.s32 %n4, %n2, %n3; setp.ge.s32 %y0, %n0, %n4; @%y0 bra $N?; " IS_EVEN
     " vote.sync.ballot.b32 %t1, %p1, -1;" XOR_T1 " $N?: }"},

    {"counted barriers", RANDOM_PTX_WARPS,
     "st.shared.u32 [%mine], %v; bar.sync 2, %threads; xor.b32 %t1, %me, #;"
     " rem.u32 %t1, %t1, %threads; shl.b32 %t1, %t1, 2; mov.u32 %t2, ^;"
     " add.u32 %t1, %t1, %t2; ld.shared.u32 %t1, [%t1]; bar.sync 2, %threads;" ADD_T1},
    {"counted barriers", RANDOM_PTX_GROUPS,
     GROUP " st.shared.u32 [%mine], %v; bar.sync %n2, 64; " OTHER_WARP ""
           " ld.shared.u32 %t1, [%t1]; bar.sync %n2, 64;" ADD_T1 " }"},
    {"counted barriers", RANDOM_PTX_GROUPS,
     "setp.ge.u32 %p2, %me, 64; @%p2 bra $V?; st.shared.u32 [%mine], %v;"
     " bar.sync 14, 64; " OTHER_WARP " ld.shared.u32 %t1, [%t1];"
     " bar.sync 14, 64;" ADD_T1 "\n$V?:\n"},
    {"counted barriers", RANDOM_PTX_GROUPS,
     "setp.ge.u32 %p2, %me, 64; @%p2 bra $V?; st.shared.u32 [%mine], %v;"
     " bar.sync 3, 64; " OTHER_WARP " ld.shared.u32 %t1, [%t1];"
     " bar.sync 3, 64;" ADD_T1 "\n$V?:\n"},
    {"counted barriers that decide", RANDOM_PTX_GROUPS,
     GROUP IS_EVEN " bar.red.popc.u32 %t1, %n2, 64, %p1; and.b32 %t1, %t1, 1;"
                   " setp.eq.u32 %p2, %t1, 0; @%p2 bra $V?;"
                   " bar.red.popc.u32 %t1, %n2, 64, %p1;" ADD_T1 "\n$V?:\n"
                   " }"},
    {"counted barriers that decide", RANDOM_PTX_GROUPS,
     GROUP IS_EVEN " bar.red.or.pred %p2, %n2, 64, %p1; @%p2 bra $V?;"
                   " redux.sync.add.u32 %t1, %v, -1;" ADD_T1 " bar.sync %n2, 64;\n$V?:\n"
                   " }"},
    {"computed barriers", RANDOM_PTX_WHOLE,
     "mov.u32 %t6, %ctaid.x; and.b32 %t6, %t6, 3; add.u32 %t6, %t6, 9;"
     " st.shared.u32 [%mine], %v; bar.sync %t6; xor.b32 %t1, %me, 1;"
     " rem.u32 %t1, %t1, %threads; shl.b32 %t1, %t1, 2; mov.u32 %t2, ^;"
     " add.u32 %t1, %t1, %t2; ld.shared.u32 %t1, [%t1]; bar.sync %t6;" ADD_T1},
    {"computed barriers", RANDOM_PTX_WHOLE,
     "mov.u32 %t6, 4; st.shared.u32 [%mine], %v; bar.sync %t6; xor.b32 %t1, %me, 1;"
     " rem.u32 %t1, %t1, %threads; shl.b32 %t1, %t1, 2; mov.u32 %t2, ^;"
     " add.u32 %t1, %t1, %t2; ld.shared.u32 %t1, [%t1]; bar.sync %t6;" ADD_T1},
    /* The second warp of a pair waits for the first one, and all for the second. */
    {"arrivals", RANDOM_PTX_GROUPS,
     GROUP " st.shared.u32 [%mine], %v; and.b32 %t1, %me, 32; setp.eq.u32 %p2, %t1, 0;"
           " @%p2 bra $V?; bar.sync %n2, 64; " OTHER_WARP ""
           " ld.shared.u32 %t1, [%t1];" ADD_T1 " bra $W?;\n$V?:\nbar.arrive %n2, 64;\n$W?:\n"
           "bar.sync =;"
           " }"},
    {"arrivals", RANDOM_PTX_GROUPS,
     "st.shared.u32 [%mine], %v; setp.ge.u32 %p2, %me, 64; @%p2 bra $W?;"
     " setp.lt.u32 %p2, %me, 32; @%p2 bra $V?; bar.sync 3, 64; " OTHER_WARP ""
     " ld.shared.u32 %t1, [%t1];" ADD_T1 " bra $W?;\n$V?:\nbar.arrive 3, 64;\n$W?:\n"
     "bar.sync =;"},

    {"addresses of shared memory", RANDOM_PTX_ANY, "mov.u32 %t1, ^; and.b32 %t1, %t1, 1023;" ADD_T1},
    {"addresses of shared memory", RANDOM_PTX_ANY, "and.b32 %t1, %mine, 127; mad.lo.u32 %v, %t1, #, %v;"},
    {"copies", RANDOM_PTX_WHOLE,
     "cp.async.ca.shared.global [%mine], [%in], 4; cp.async.wait_all; bar.sync =;"
     " add.u32 %t1, %me, #; rem.u32 %t1, %t1, %threads; shl.b32 %t1, %t1, 2;"
     " mov.u32 %t2, ^; add.u32 %t1, %t1, %t2; ld.shared.u32 %t1, [%t1]; bar.sync =;" XOR_T1},
    {"mbarriers", RANDOM_PTX_WHOLE,
     "{ .shared .align 8 .b64 gate?; setp.eq.u32 %p2, %me, 0;"
     " @%p2 mbarrier.init.shared.b64 [gate?], %threads; bar.sync =;"
     " st.shared.u32 [%mine], %v; mbarrier.arrive.shared.b64 %q1, [gate?];\n$M?:\n"
     "mbarrier.test_wait.shared.b64 %p1, [gate?], %q1; @!%p1 bra $M?;"
     " add.u32 %t1, %me, #; rem.u32 %t1, %t1, %threads; shl.b32 %t1, %t1, 2;"
     " mov.u32 %t2, ^; add.u32 %t1, %t1, %t2; ld.shared.u32 %t1, [%t1]; bar.sync =;"
     " @%p2 mbarrier.inval.shared.b64 [gate?]; bar.sync =;" XOR_T1 " }"},
    {"bulk copies", RANDOM_PTX_WARPS,
     "{ .shared .align 8 .b64 gate?; setp.eq.u32 %p2, %me, 0; bar.sync =;"
     " @%p2 mbarrier.init.shared.b64 [gate?], 1; bar.sync =; @!%p2 bra $N?;"
     " mov.u32 %t2, ^; mov.u32 %t3, gate?;"
     " mbarrier.arrive.expect_tx.shared.b64 %q1, [gate?], 64;"
     " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%t2], [%in], 64, [%t3];"
     "\n$N?:\nmbarrier.try_wait.parity.shared.b64 %p1, [gate?], 0; @!%p1 bra $N?;"
     " mov.u32 %t2, ^; ld.shared.u32 %t1, [%t2+12]; bar.sync =;"
     " @%p2 mbarrier.inval.shared.b64 [gate?]; bar.sync =;" XOR_T1 " }"},
    {"matrices", RANDOM_PTX_WARPS,
     "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%t1, %t2}, {%v}, {%me}, {%me, %v};"
     " add.u32 %t1, %t1, %t2;" XOR_T1},
    {"matrices", RANDOM_PTX_WARPS, "movmatrix.sync.aligned.m8n8.trans.b16 %t1, %v;" XOR_T1},
    {"matrices", RANDOM_PTX_WARPS,
     "st.shared.u32 [%mine], %v; bar.sync =; and.b32 %t2, %me, 7; shl.b32 %t2, %t2, 4;"
     " mov.u32 %t3, ^; add.u32 %t2, %t2, %t3;"
     " ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%t1}, [%t2]; bar.sync =;" XOR_T1},

    /* Waits for blocks with lower numbers. */
    {"look-back", RANDOM_PTX_ONE_ROW,
     OWN
     "setp.ne.u32 %y1, %me, 0; @%y1 bra $W?; mov.u32 %w1, %ctaid.x; mul.wide.u32 %x1, %w1, 4; add.u64 %x2, %flags, %x1;"
     " setp.eq.u32 %y2, %w1, 0; @%y2 bra $P?;\n$S?:\n"
     "ld.acquire.gpu.global.u32 %w2, [%x2+-4]; setp.eq.u32 %y3, %w2, 0; @%y3 bra $S?; add.u32 %v, %v, %w2;\n$P?:\n"
     "or.b32 %w3, %v, 1; st.release.gpu.global.u32 [%x2], %w3;\n$W?:\n }"},
    {"look-back", RANDOM_PTX_ONE_ROW,
     OWN
     "setp.ne.u32 %y1, %me, 0; @%y1 bra $W?; mov.u32 %w1, %ctaid.x; mul.wide.u32 %x1, %w1, 4; add.u64 %x2, %flags, %x1;"
     " setp.lt.u32 %y2, %w1, 3; @%y2 bra $P?;\n$S?:\n"
     "ld.volatile.global.u32 %w2, [%x2+-12]; setp.eq.u32 %y3, %w2, 0; @%y3 bra $S?; add.u32 %v, %v, %w2;\n$P?:\n"
     "membar.gl; st.volatile.global.u32 [%x2], 5;\n$W?:\n }"},
    {"look-back in rows", RANDOM_PTX_ONCE,
     OWN "setp.ne.u32 %y1, %me, 0; @%y1 bra $W?; mov.u32 %w1, %ctaid.z; mov.u32 %w2, %nctaid.y; mov.u32 %w3, %ctaid.y;"
         " mad.lo.u32 %w4, %w1, %w2, %w3; mov.u32 %w5, %nctaid.x; mov.u32 %w6, %ctaid.x; mad.lo.u32 %w7, %w4, %w5, %w6;"
         " mul.wide.u32 %x1, %w7, 4; add.u64 %x2, %flags, %x1; setp.eq.u32 %y2, %w7, 0; @%y2 bra $P?;\n$S?:\n"
         "ld.acquire.gpu.global.u32 %w8, [%x2+-4]; setp.eq.u32 %y3, %w8, 0; @%y3 bra $S?; add.u32 %v, %v, %w8;\n$P?:\n"
         "or.b32 %w9, %v, 1; st.release.gpu.global.u32 [%x2], %w9;\n$W?:\n }"},
    {"look-back by tickets", RANDOM_PTX_ONCE,
     OWN "setp.ne.u32 %y1, %me, 0; @%y1 bra $W?; atom.global.add.u32 %w1, [%sums+64], 1; mul.wide.u32 %x1, %w1, 4;"
         " add.u64 %x2, %flags, %x1; setp.eq.u32 %y2, %w1, 0; @%y2 bra $P?;\n$S?:\n"
         "ld.acquire.gpu.global.u32 %w2, [%x2+-4]; setp.eq.u32 %y3, %w2, 0; @%y3 bra $S?;\n$P?:\n"
         "st.release.gpu.global.u32 [%x2], 7; add.u32 %v, %v, 3;\n$W?:\n }"},
    {"locks", RANDOM_PTX_ONCE,
     OWN "setp.ne.u32 %y1, %me, 0; @%y1 bra $W?;\n$S?:\natom.global.cas.b32 %w1, [%flags+132], 0, 1;"
         " setp.ne.u32 %y2, %w1, 0; @%y2 bra $S?; membar.gl; ld.volatile.global.u32 %w2, [%flags+136];"
         " add.u32 %w3, %w2, %v; st.volatile.global.u32 [%flags+136], %w3; membar.gl;"
         " atom.global.exch.b32 %w4, [%flags+132], 0;\n$W?:\n }"},
    {"work counters", RANDOM_PTX_ONCE,
     OWN "setp.ne.u32 %y1, %me, 0; @%y1 bra $W?;\n$S?:\natom.global.add.u32 %w1, [%flags+140], 1;"
         " setp.ge.u32 %y2, %w1, 40; @%y2 bra $W?; red.global.add.u32 [%flags+144], %w1; bra $S?;\n$W?:\n }"},
    {"claims", RANDOM_PTX_ONCE,
     OWN "setp.ne.u32 %y1, %me, 0; @%y1 bra $W?; and.b32 %w1, %v, 31;\n$S?:\nmul.wide.u32 %x1, %w1, 4;"
         " add.u64 %x2, %flags, %x1; atom.global.cas.b32 %w2, [%x2+192], 0, 1; add.u32 %w3, %w1, 1;"
         " and.b32 %w1, %w3, 31; setp.ne.u32 %y2, %w2, 0; @%y2 bra $S?; add.u32 %v, %v, 1;\n$W?:\n }"},

    {"loops", RANDOM_PTX_ANY, NULL},
    {"loops with a limit that is loaded", RANDOM_PTX_ANY, NULL},
    {"uniform branches", RANDOM_PTX_ANY, NULL},
    {"scopes around statements", RANDOM_PTX_ANY, NULL},

    {"returns", RANDOM_PTX_LEAVES, NULL},
    {"branches to the end", RANDOM_PTX_LEAVES, NULL},
    {"exits in a branch", RANDOM_PTX_LEAVES, NULL},
    {"exits in a uniform branch", RANDOM_PTX_LEAVES, NULL},
    {"loops that end for the last threads", RANDOM_PTX_LEAVES, NULL},
    {"loops that only exits end", RANDOM_PTX_LEAVES, NULL},
    {"loops with exits behind their test", RANDOM_PTX_LEAVES, NULL},
};

const size_t random_ptx_row_count = GS_COUNT(random_ptx_rows);
