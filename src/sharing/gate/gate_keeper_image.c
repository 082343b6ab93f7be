/*
 * gate_keeper_image.c: a keeper, the kernel of gate_keeper.c, in PTX.
 *
 * It reads the flags of the board and the words about every 10 us: if it were more often, kernels of the program would
 * start later. It ends when none of its `bit` of the flags is set, when the words say so, when there was no sign of
 * life for its patience, or when it has run for as long as it may. A keeper with no bits ends at once.
 */
#include "gate_keeper.h"

const char gs_keeper_image[] =
    ".version 6.3\n.target sm_70\n.address_size 64\n"
    ".visible .entry " GS_KEEPER_NAME "(.param .u64 flags, .param .u64 words, .param .u32 bit, .param .u32 number, "
    ".param .u64 patience, .param .u64 most) {\n"
    ".reg .u64 %flags, %words, %patience, %most, %start, %beat, %now, %ns;\n"
    ".reg .u32 %bit, %number, %seen, %last, %beats, %waits, %ended, %done;\n.reg .pred %lives, %ends;\n"
    "ld.param.u64 %flags, [flags];\nld.param.u64 %words, [words];\nld.param.u32 %bit, [bit];\n"
    "ld.param.u32 %number, [number];\nld.param.u64 %patience, [patience];\nld.param.u64 %most, [most];\n"
    "mov.u64 %start, %globaltimer;\nmov.u64 %beat, %start;\nmov.u32 %last, 0;\n"
    "again: ld.volatile.global.u32 %seen, [%flags];\n"
    "ld.volatile.global.v4.u32 {%beats, %waits, %ended, %done}, [%words];\nmov.u64 %now, %globaltimer;\n"
    "setp.ne.u32 %lives, %beats, %last;\nsetp.ne.or.u32 %lives, %waits, 0, %lives;\n@%lives mov.u64 %beat, %now;\n"
    "mov.u32 %last, %beats;\nand.b32 %seen, %seen, %bit;\nsetp.eq.u32 %ends, %seen, 0;\n"
    "sub.u32 %ended, %ended, %number;\nsetp.ge.or.s32 %ends, %ended, 0, %ends;\n"
    "sub.u64 %ns, %now, %beat;\nsetp.gt.or.u64 %ends, %ns, %patience, %ends;\n"
    "sub.u64 %ns, %now, %start;\nsetp.gt.or.u64 %ends, %ns, %most, %ends;\n"
    "@%ends bra done;\nnanosleep.u32 10000;\nbra again;\n"
    "done: st.volatile.global.u32 [%words+12], %number;\nret;\n}\n";
