/*
 * ptx_loop.c: the PTX that is put around the body of a kernel. See ptx_loop.h.
 *
 * The first thread of a worker block takes tasks of several blocks from a queue and stores them in shared memory, so
 * that a thread needs a single register, %gs_place, for its position while the body runs: twice the number of blocks of
 * the task after this one, plus the index of the task. Two tasks alternate: the one being written was read before the
 * last barrier. 0xffffffff: there is no task.
 *
 * Shared memory, gs_ours: two tasks of 32 bytes (x, y, z of the first block with `after` added to x; `after`, how many
 * blocks follow the first; how many there are; the number after the last; the clock when it was taken; the estimated
 * cycles of a block), then 0xffffffff / grid.x and / grid.y, then two counters of threads that have returned.
 *
 * The size of a task: it should last 32768 cycles, so that the queue costs little; near the end of the grid less, so
 * that all worker blocks end together, but at least 4096. At most twice as many blocks as the last one, because slow
 * blocks may follow quick ones; for the same reason a higher estimate from before is only halved with each task.
 *
 * Ghosts: threads that have returned wait in the barriers of the others. A thread that returns between two barriers
 * adds 1 to the counter of this interval, of which there are two, by turns. The counter of the interval before cannot
 * change meanwhile, so that all ghosts behind a barrier see the same sum, and leave together when all have returned.
 * The counters are never reset: the sum that ends a block grows by the number of threads with each block.
 *
 * Registers: %gs_r, %gs_d, %gs_f and %gs_p are used within one part only.
 */
#include "ptx_loop.h"

#include <string.h>

static void put(gs_text *into, const char *text) {
    gs_text_put(into, text, strlen(text));
}

void gs_block_loop_parameter(gs_text *into, const gs_block_loop *loop) {
    gs_text_add(into, "\t.param .align 8 .b8 gs_job[%zu]",
                loop->form == GS_FORM_CONFINED ? sizeof(gs_confined_parameter) : sizeof(gs_persistent_parameter));
}

static const char declarations[] = "\n"
                                   "\t.reg .pred %gs_p<8>;\n"
                                   "\t.reg .b32 %gs_place, %gs_x, %gs_y, %gs_z, %gs_grid, %gs_lanes;\n"
                                   "\t.reg .b32 %gs_r<32>, %gs_m<64>;\n"
                                   "\t.reg .b64 %gs_d<8>;\n"
                                   "\t.reg .f32 %gs_f<8>;\n"
                                   "\t.shared .align 16 .b8 gs_ours[80];\n";

static const char ghost_declarations[] = "\t.reg .b32 %gs_phase, %gs_other, %gs_all, %gs_threads, %gs_votes;\n"
                                         "\t.reg .pred %gs_none;\n"
                                         "\tsetp.ne.u32 %gs_none, 0, 0;\n";

/* %gs_p0: this is not the first thread. */
static const char find_first[] = "\tmov.u32 %gs_r0, %tid.x;\n"
                                 "\tmov.u32 %gs_r1, %tid.y;\n"
                                 "\tmov.u32 %gs_r2, %tid.z;\n"
                                 "\tor.b32 %gs_r1, %gs_r1, %gs_r2;\n"
                                 "\tor.b32 %gs_r1, %gs_r0, %gs_r1;\n"
                                 "\tsetp.ne.u32 %gs_p0, %gs_r1, 0;\n";

static const char prepare_ghosts[] = "\tmov.u32 %gs_r3, %ntid.x;\n"
                                     "\tmov.u32 %gs_r4, %ntid.y;\n"
                                     "\tmov.u32 %gs_r5, %ntid.z;\n"
                                     "\tmul.lo.u32 %gs_r4, %gs_r4, %gs_r5;\n"
                                     "\tmul.lo.u32 %gs_threads, %gs_r3, %gs_r4;\n"
                                     "\tmov.u32 %gs_all, 0;\n"
                                     "\tmov.u32 %gs_phase, gs_ours;\n"
                                     "\tadd.u32 %gs_phase, %gs_phase, 72;\n"
                                     "\t@!%gs_p0 st.shared.u32 [gs_ours+72], 0;\n"
                                     "\t@!%gs_p0 st.shared.u32 [gs_ours+76], 0;\n";

/* Lets kernels that count on whole warps in a row of the block fail rather than hang. */
static const char check_rows[] = "\tmov.u32 %gs_r3, %ntid.x;\n"
                                 "\tand.b32 %gs_r3, %gs_r3, 31;\n"
                                 "\tsetp.ne.u32 %gs_p1, %gs_r3, 0;\n"
                                 "\t@%gs_p1 trap;\n";

/* The same for kernels whose blocks wait for others, and are in order only in a grid of one row. */
static const char check_one_row[] = "\tld.param.u32 %gs_r3, [gs_job+4];\n"
                                    "\tsetp.ne.u32 %gs_p1, %gs_r3, 1;\n"
                                    "\t@%gs_p1 trap;\n"
                                    "\tld.param.u32 %gs_r3, [gs_job+8];\n"
                                    "\tsetp.ne.u32 %gs_p1, %gs_r3, 1;\n"
                                    "\t@%gs_p1 trap;\n";

static const char store_inverses[] = "\t@%gs_p0 bra $gs_started;\n"
                                     "\tld.param.u32 %gs_r10, [gs_job];\n"
                                     "\tld.param.u32 %gs_r11, [gs_job+4];\n"
                                     "\tmov.u32 %gs_r14, 0xffffffff;\n"
                                     "\tdiv.u32 %gs_r12, %gs_r14, %gs_r10;\n"
                                     "\tst.shared.u32 [gs_ours+64], %gs_r12;\n"
                                     "\tdiv.u32 %gs_r13, %gs_r14, %gs_r11;\n"
                                     "\tst.shared.u32 [gs_ours+68], %gs_r13;\n";

/* ---- signals of a confined kernel ---- */

/* %gs_p2: the worker block may stay: the stop word is 0, and the mask allows its SM. */
static const char read_signals[] = "\tmov.u32 %gs_r20, 0;\n"
                                   "\tmov.u32 %gs_r21, 0xffffffff;\n"
                                   "\tmov.u32 %gs_r22, %smid;\n"
                                   "\tld.param.u64 %gs_d1, [gs_job+32];\n"
                                   "\tld.param.u64 %gs_d2, [gs_job+40];\n"
                                   "\tsetp.ne.u64 %gs_p3, %gs_d1, 0;\n"
                                   "\tsetp.ne.u64 %gs_p4, %gs_d2, 0;\n"
                                   "\tshr.u32 %gs_r23, %gs_r22, 5;\n"
                                   "\tmul.wide.u32 %gs_d3, %gs_r23, 4;\n"
                                   "\tadd.u64 %gs_d2, %gs_d2, %gs_d3;\n"
                                   "\t@%gs_p3 ld.volatile.global.u32 %gs_r20, [%gs_d1];\n"
                                   "\t@%gs_p4 ld.volatile.global.u32 %gs_r21, [%gs_d2];\n"
                                   "\tand.b32 %gs_r22, %gs_r22, 31;\n"
                                   "\tshr.u32 %gs_r21, %gs_r21, %gs_r22;\n"
                                   "\tand.b32 %gs_r21, %gs_r21, 1;\n"
                                   "\tsetp.ne.u32 %gs_p2, %gs_r21, 0;\n"
                                   "\tsetp.eq.and.u32 %gs_p2, %gs_r20, 0, %gs_p2;\n";

/* ---- storing a task ---- */

/* From %gs_r15 (the first block), %gs_r16 (how many), %gs_r17 (the address of the task) and %gs_f0 (the estimate). */
static const char store_task[] = "\tld.param.u32 %gs_r10, [gs_job];\n"
                                 "\tld.param.u32 %gs_r11, [gs_job+4];\n"
                                 "\tld.param.u32 %gs_r12, [gs_job+8];\n"
                                 "\tmul.lo.u32 %gs_r13, %gs_r10, %gs_r11;\n"
                                 "\tmul.lo.u32 %gs_r13, %gs_r13, %gs_r12;\n" /* all blocks */
                                 "\tmin.u32 %gs_r14, %gs_r15, %gs_r13;\n"
                                 "\tsub.u32 %gs_r14, %gs_r13, %gs_r14;\n" /* how many are left */
                                 "\tmin.u32 %gs_r16, %gs_r16, %gs_r14;\n"
                                 "\tld.shared.v2.u32 {%gs_r18, %gs_r19}, [gs_ours+64];\n"
                                 "\tmul.hi.u32 %gs_r20, %gs_r15, %gs_r18;\n" /* rows */
                                 "\tmul.lo.u32 %gs_r21, %gs_r20, %gs_r10;\n"
                                 "\tsub.u32 %gs_r21, %gs_r15, %gs_r21;\n"
                                 "\tsetp.ge.u32 %gs_p5, %gs_r21, %gs_r10;\n"
                                 "\t@%gs_p5 add.u32 %gs_r20, %gs_r20, 1;\n"
                                 "\t@%gs_p5 sub.u32 %gs_r21, %gs_r21, %gs_r10;\n" /* x */
                                 "\tmul.hi.u32 %gs_r22, %gs_r20, %gs_r19;\n"      /* planes */
                                 "\tmul.lo.u32 %gs_r23, %gs_r22, %gs_r11;\n"
                                 "\tsub.u32 %gs_r23, %gs_r20, %gs_r23;\n"
                                 "\tsetp.ge.u32 %gs_p5, %gs_r23, %gs_r11;\n"
                                 "\t@%gs_p5 add.u32 %gs_r22, %gs_r22, 1;\n"       /* z */
                                 "\t@%gs_p5 sub.u32 %gs_r23, %gs_r23, %gs_r11;\n" /* y */
                                 "\tsub.u32 %gs_r24, %gs_r16, 1;\n"               /* after */
                                 "\tadd.u32 %gs_r21, %gs_r21, %gs_r24;\n"
                                 "\tadd.u32 %gs_r25, %gs_r15, %gs_r16;\n"
                                 "\tmov.u32 %gs_r26, %clock;\n"
                                 "\tmov.b32 %gs_r27, %gs_f0;\n"
                                 "\tst.shared.v4.u32 [%gs_r17], {%gs_r21, %gs_r23, %gs_r22, %gs_r24};\n"
                                 "\tst.shared.v4.u32 [%gs_r17+16], {%gs_r16, %gs_r25, %gs_r26, %gs_r27};\n";

/* Behind store_task: a worker block that may not stay leaves after this task, which says so by a count of 0. */
static const char store_last[] = "\t@!%gs_p2 st.shared.u32 [%gs_r17+16], 0;\n";

/* ---- the first task ---- */

static const char first_persistent[] = "\tmov.u32 %gs_r15, %ctaid.x;\n"
                                       "\tmov.u32 %gs_r16, 1;\n"
                                       "\tmov.u32 %gs_r17, gs_ours;\n"
                                       "\tmov.f32 %gs_f0, 0f00000000;\n";

static const char first_confined[] = "\tmov.u32 %gs_r17, 0xffffffff;\n"
                                     "\tst.shared.u32 [gs_ours+12], %gs_r17;\n"
                                     "\t@!%gs_p2 bra $gs_started;\n"
                                     "\tld.param.u64 %gs_d0, [gs_job+24];\n"
                                     "\tmul.wide.u32 %gs_d1, %gs_r0, 8;\n"
                                     "\tadd.u64 %gs_d0, %gs_d0, %gs_d1;\n"
                                     "\tatom.global.add.u64 %gs_d2, [%gs_d0], 1;\n"
                                     "\tcvt.u32.u64 %gs_r15, %gs_d2;\n"
                                     "\tmov.u32 %gs_r16, 1;\n"
                                     "\tmov.u32 %gs_r17, gs_ours;\n"
                                     "\tmov.f32 %gs_f0, 0f00000000;\n";

/* Where blocks wait for lower ones, the first task comes from the queue, too: a worker block that has not begun,
   because more were launched than fit, must not have a block. Its number would be waited for. */
static const char first_ordered[] = "\tld.param.u64 %gs_d0, [gs_job+24];\n"
                                    "\tmul.wide.u32 %gs_d1, %gs_r0, 8;\n"
                                    "\tadd.u64 %gs_d0, %gs_d0, %gs_d1;\n"
                                    "\tatom.global.add.u64 %gs_d2, [%gs_d0], 1;\n"
                                    "\tcvt.u32.u64 %gs_r15, %gs_d2;\n"
                                    "\tld.param.u32 %gs_r10, [gs_job];\n"
                                    "\tld.param.u32 %gs_r11, [gs_job+4];\n"
                                    "\tld.param.u32 %gs_r12, [gs_job+8];\n"
                                    "\tmul.lo.u32 %gs_r13, %gs_r10, %gs_r11;\n"
                                    "\tmul.lo.u32 %gs_r13, %gs_r13, %gs_r12;\n"
                                    "\tmov.u32 %gs_r14, %nctaid.x;\n"
                                    "\tmov.u32 %gs_r16, 1;\n"
                                    "\tmov.u32 %gs_r17, gs_ours;\n"
                                    "\tmov.f32 %gs_f0, 0f00000000;\n";

/* The upper half of the queue then counts worker blocks that found no task. The last one sets the queue back. */
static const char leave_ordered[] = "\tsetp.ge.u32 %gs_p1, %gs_r15, %gs_r13;\n"
                                    "\tmov.u64 %gs_d3, 0x100000000;\n"
                                    "\t@%gs_p1 atom.global.add.u64 %gs_d3, [%gs_d0], %gs_d3;\n"
                                    "\tshr.u64 %gs_d3, %gs_d3, 32;\n"
                                    "\tcvt.u32.u64 %gs_r9, %gs_d3;\n"
                                    "\tadd.u32 %gs_r9, %gs_r9, 1;\n"
                                    "\tsetp.eq.and.u32 %gs_p1, %gs_r9, %gs_r14, %gs_p1;\n"
                                    "\tmov.u64 %gs_d3, 0;\n"
                                    "\t@%gs_p1 st.global.u64 [%gs_d0], %gs_d3;\n";

/* ---- blocks ---- */

/* %gs_place from the task at index %gs_r6. */
static const char enter_task[] = "\tshl.b32 %gs_r7, %gs_r6, 5;\n"
                                 "\tmov.u32 %gs_r8, gs_ours;\n"
                                 "\tadd.u32 %gs_r8, %gs_r8, %gs_r7;\n"
                                 "\tld.shared.u32 %gs_r9, [%gs_r8+12];\n"
                                 "\tsetp.eq.u32 %gs_p1, %gs_r9, 0xffffffff;\n"
                                 "\tshl.b32 %gs_place, %gs_r9, 1;\n"
                                 "\tor.b32 %gs_place, %gs_place, %gs_r6;\n"
                                 "\tselp.b32 %gs_place, 0xffffffff, %gs_place, %gs_p1;\n";

static const char enter_block[] = "$gs_loop:\n"
                                  "\tsetp.eq.u32 %gs_p1, %gs_place, 0xffffffff;\n"
                                  "\t@%gs_p1 bra $gs_end;\n"
                                  "\tand.b32 %gs_r6, %gs_place, 1;\n"
                                  "\tshl.b32 %gs_r6, %gs_r6, 5;\n"
                                  "\tmov.u32 %gs_r8, gs_ours;\n"
                                  "\tadd.u32 %gs_r8, %gs_r8, %gs_r6;\n"
                                  "\tld.shared.v4.u32 {%gs_x, %gs_y, %gs_z, %gs_r9}, [%gs_r8];\n"
                                  "\tshr.u32 %gs_r7, %gs_place, 1;\n"
                                  "\tsub.u32 %gs_x, %gs_x, %gs_r7;\n"
                                  "\tld.param.u32 %gs_r10, [gs_job];\n"
                                  "\tsetp.lt.u32 %gs_p1, %gs_x, %gs_r10;\n"
                                  "\t@%gs_p1 bra $gs_body;\n"
                                  "\tld.shared.v2.u32 {%gs_r18, %gs_r19}, [gs_ours+64];\n"
                                  "\tmul.hi.u32 %gs_r20, %gs_x, %gs_r18;\n"
                                  "\tmul.lo.u32 %gs_r21, %gs_r20, %gs_r10;\n"
                                  "\tsub.u32 %gs_x, %gs_x, %gs_r21;\n"
                                  "\tsetp.ge.u32 %gs_p1, %gs_x, %gs_r10;\n"
                                  "\t@%gs_p1 add.u32 %gs_r20, %gs_r20, 1;\n"
                                  "\t@%gs_p1 sub.u32 %gs_x, %gs_x, %gs_r10;\n"
                                  "\tadd.u32 %gs_y, %gs_y, %gs_r20;\n"
                                  "\tld.param.u32 %gs_r11, [gs_job+4];\n"
                                  "\tsetp.lt.u32 %gs_p1, %gs_y, %gs_r11;\n"
                                  "\t@%gs_p1 bra $gs_body;\n"
                                  "\tmul.hi.u32 %gs_r20, %gs_y, %gs_r19;\n"
                                  "\tmul.lo.u32 %gs_r21, %gs_r20, %gs_r11;\n"
                                  "\tsub.u32 %gs_y, %gs_y, %gs_r21;\n"
                                  "\tsetp.ge.u32 %gs_p1, %gs_y, %gs_r11;\n"
                                  "\t@%gs_p1 add.u32 %gs_r20, %gs_r20, 1;\n"
                                  "\t@%gs_p1 sub.u32 %gs_y, %gs_y, %gs_r11;\n"
                                  "\tadd.u32 %gs_z, %gs_z, %gs_r20;\n"
                                  "$gs_body:\n";

static const char mark_block[] = "\tmov.u32 %gs_r0, %tid.x;\n"
                                 "\tmov.u32 %gs_r1, %tid.y;\n"
                                 "\tmov.u32 %gs_r2, %tid.z;\n"
                                 "\tor.b32 %gs_r1, %gs_r1, %gs_r2;\n"
                                 "\tor.b32 %gs_r1, %gs_r0, %gs_r1;\n"
                                 "\tsetp.ne.u32 %gs_p0, %gs_r1, 0;\n"
                                 "\tld.param.u64 %gs_d0, [gs_job+16];\n"
                                 "\tsetp.eq.or.u64 %gs_p0, %gs_d0, 0, %gs_p0;\n"
                                 "\tld.param.u32 %gs_r10, [gs_job];\n"
                                 "\tld.param.u32 %gs_r11, [gs_job+4];\n"
                                 "\tmad.lo.u32 %gs_r12, %gs_z, %gs_r11, %gs_y;\n"
                                 "\tmad.lo.u32 %gs_r12, %gs_r12, %gs_r10, %gs_x;\n"
                                 "\tmul.wide.u32 %gs_d1, %gs_r12, 4;\n"
                                 "\tadd.u64 %gs_d0, %gs_d0, %gs_d1;\n"
                                 "\t@!%gs_p0 red.global.add.u32 [%gs_d0], 1;\n";

/* ---- behind the body ---- */

static const char wait_as_ghost[] = "\txor.b32 %gs_r5, %gs_phase, 4;\n"
                                    "\tld.volatile.shared.u32 %gs_other, [%gs_r5];\n"
                                    "\tred.shared.add.u32 [%gs_phase], 1;\n"
                                    "$gs_ghost:\n"
                                    "%MEET%"
                                    "\tld.volatile.shared.u32 %gs_r4, [%gs_phase];\n"
                                    "\tadd.u32 %gs_r3, %gs_r4, %gs_other;\n"
                                    "\tmov.u32 %gs_other, %gs_r4;\n"
                                    "\txor.b32 %gs_phase, %gs_phase, 4;\n"
                                    "\tsetp.ne.u32 %gs_p1, %gs_r3, %gs_all;\n"
                                    "\t@%gs_p1 bra $gs_ghost;\n"
                                    "\tbar.warp.sync 0xffffffff;\n";

/* The first thread takes the next task only when it is needed, because another worker block may need one sooner. */
static const char take_task[] =
    "\t@%gs_p0 bra $gs_meet;\n"
    "\tshl.b32 %gs_r7, %gs_place, 5;\n" /* here %gs_place is the index of the last task */
    "\tmov.u32 %gs_r8, gs_ours;\n"
    "\tadd.u32 %gs_r8, %gs_r8, %gs_r7;\n"
    "\txor.b32 %gs_r7, %gs_r7, 32;\n"
    "\tmov.u32 %gs_r17, gs_ours;\n"
    "\tadd.u32 %gs_r17, %gs_r17, %gs_r7;\n"
    "\tmov.u32 %gs_r9, 0xffffffff;\n"
    "\tst.shared.u32 [%gs_r17+12], %gs_r9;\n"
    "\tld.shared.v4.u32 {%gs_r28, %gs_r29, %gs_r30, %gs_r31}, [%gs_r8+16];\n" /* count, end, since, pace */
    "\tmov.u32 %gs_r26, %clock;\n"
    "\tsub.u32 %gs_r30, %gs_r26, %gs_r30;\n" /* cycles */
    "\tld.param.u32 %gs_r10, [gs_job];\n"
    "\tld.param.u32 %gs_r11, [gs_job+4];\n"
    "\tld.param.u32 %gs_r12, [gs_job+8];\n"
    "\tmul.lo.u32 %gs_r13, %gs_r10, %gs_r11;\n"
    "\tmul.lo.u32 %gs_r13, %gs_r13, %gs_r12;\n"
    "\tmov.u32 %gs_r14, %nctaid.x;\n";

static const char may_take_persistent[] = "\tsetp.le.u32 %gs_p1, %gs_r13, %gs_r14;\n"
                                          "\t@%gs_p1 bra $gs_meet;\n";

/* Long tasks: the signals are read before another one is taken. */
static const char may_take_confined[] = "\tsetp.eq.u32 %gs_p1, %gs_r28, 0;\n"
                                        "\t@%gs_p1 bra $gs_meet;\n";

static const char leave_early[] = "\tsetp.gt.u32 %gs_p1, %gs_r30, 65536;\n"
                                  "\tnot.pred %gs_p6, %gs_p2;\n"
                                  "\tand.pred %gs_p1, %gs_p1, %gs_p6;\n"
                                  "\t@%gs_p1 bra $gs_meet;\n";

/* %gs_f0: the estimate; %gs_r16: how many blocks. */
static const char size_task[] = "\tor.b32 %gs_r9, %gs_r30, 1;\n"
                                "\tcvt.rn.f32.u32 %gs_f1, %gs_r9;\n"
                                "\tcvt.rn.f32.u32 %gs_f2, %gs_r28;\n"
                                "\tdiv.approx.f32 %gs_f1, %gs_f1, %gs_f2;\n"
                                "\tmov.b32 %gs_f2, %gs_r31;\n"
                                "\tmul.f32 %gs_f2, %gs_f2, 0f3F000000;\n"
                                "\tmax.f32 %gs_f0, %gs_f1, %gs_f2;\n"
                                "\tsub.u32 %gs_r9, %gs_r13, %gs_r29;\n"
                                "\tcvt.rn.f32.u32 %gs_f1, %gs_r9;\n"
                                "\tcvt.rn.f32.u32 %gs_f2, %gs_r14;\n"
                                "\tmul.f32 %gs_f2, %gs_f2, 0f3FC00000;\n" /* 1.5 times the worker blocks */
                                "\tdiv.approx.f32 %gs_f1, %gs_f1, %gs_f2;\n"
                                "\tmov.f32 %gs_f2, 0f47000000;\n" /* 32768 */
                                "\tdiv.approx.f32 %gs_f2, %gs_f2, %gs_f0;\n"
                                "\tmin.f32 %gs_f1, %gs_f1, %gs_f2;\n"
                                "\tmul.f32 %gs_f2, %gs_f2, 0f3E000000;\n" /* 1/8 */
                                "\tmax.f32 %gs_f1, %gs_f1, %gs_f2;\n"
                                "\tld.param.u32 %gs_r9, [gs_job+12];\n"
                                "\tsetp.eq.u32 %gs_p1, %gs_r9, 0;\n"
                                "\tselp.b32 %gs_r9, %TASK%, %gs_r9, %gs_p1;\n"
                                "\tshl.b32 %gs_r16, %gs_r28, 1;\n"
                                "\tmin.u32 %gs_r16, %gs_r16, %gs_r9;\n"
                                "\tcvt.rn.f32.u32 %gs_f2, %gs_r16;\n"
                                "\tmin.f32 %gs_f1, %gs_f1, %gs_f2;\n"
                                "\tmax.f32 %gs_f1, %gs_f1, 0f3F800000;\n"
                                "\tcvt.rzi.u32.f32 %gs_r16, %gs_f1;\n"
                                "\tld.param.u64 %gs_d0, [gs_job+24];\n"
                                "\tmul.wide.u32 %gs_d1, %gs_r0, 8;\n" /* 0, but ptxas does not know that all lanes */
                                "\tadd.u64 %gs_d0, %gs_d0, %gs_d1;\n" /* would add to the same word */
                                "\tcvt.u64.u32 %gs_d1, %gs_r16;\n";

/* The upper half of the queue counts blocks that are done; the last addition makes the count complete. */
static const char take_persistent[] = "\tcvt.u64.u32 %gs_d2, %gs_r28;\n"
                                      "\tshl.b64 %gs_d2, %gs_d2, 32;\n"
                                      "\tor.b64 %gs_d1, %gs_d1, %gs_d2;\n"
                                      "\tatom.global.add.u64 %gs_d2, [%gs_d0], %gs_d1;\n"
                                      "\tcvt.u32.u64 %gs_r15, %gs_d2;\n"
                                      "\tadd.u32 %gs_r15, %gs_r15, %gs_r14;\n"
                                      "\tshr.u64 %gs_d2, %gs_d2, 32;\n"
                                      "\tcvt.u32.u64 %gs_r9, %gs_d2;\n"
                                      "\tadd.u32 %gs_r9, %gs_r9, %gs_r28;\n"
                                      "\tsetp.eq.u32 %gs_p1, %gs_r9, %gs_r13;\n"
                                      "\tmov.u64 %gs_d2, 0;\n"
                                      "\t@%gs_p1 st.global.u64 [%gs_d0], %gs_d2;\n";

static const char take_confined[] = "\tatom.global.add.u64 %gs_d2, [%gs_d0], %gs_d1;\n"
                                    "\tcvt.u32.u64 %gs_r15, %gs_d2;\n";

/* ---- the whole ---- */

const char *gs_ptx_form_symbol(const gs_ptx_module *module, uint32_t function, enum gs_form form, char *into,
                               size_t size) {
    char name[2048];
    gs_ptx_token_text(module, module->functions.data[function].name, name, sizeof name);
    snprintf(into, size, "%s__%s", name, gs_form_name(form));
    return into;
}

/* A gap in a part, and what is put there. */
static const char *const gaps[] = {"%BARRIER%", "%TASK%", "%MEET%"};
enum { GAP_BARRIER, GAP_TASK, GAP_MEET };

static void put_gap(gs_text *into, size_t gap, const gs_block_loop *loop) {
    if (gap == GAP_BARRIER)
        gs_text_add(into, "%u", loop->barrier);
    else if (gap == GAP_TASK)
        gs_text_add(into, "%u", loop->task_blocks);
    else if (loop->has_votes)
        gs_text_add(into, "\tbarrier.red.popc.u32 %%gs_votes, %u, %%gs_none;\n", loop->barrier);
    else
        gs_text_add(into, "\tbarrier.sync %u;\n", loop->barrier);
}

/* Puts a part, with the number of the barrier and the size of a task written in. */
static void put_filled(gs_text *into, const char *part, const gs_block_loop *loop) {
    for (const char *at = part; *at;) {
        const char *next = NULL;
        size_t which = 0;
        for (size_t i = 0; i < GS_COUNT(gaps); i++) {
            const char *gap = strstr(at, gaps[i]);
            which = gap && (!next || gap < next) ? i : which;
            next = gap && (!next || gap < next) ? gap : next;
        }
        gs_text_put(into, at, next ? (size_t)(next - at) : strlen(at));
        if (!next)
            return;
        put_gap(into, which, loop);
        at = next + strlen(gaps[which]);
    }
}

/* The result of a reduction is in a uniform register, as %ctaid is: so ptxas has as many registers for the body as in
   the original. Else a kernel that needs many registers may keep fewer loads in flight, which made one slower by a
   third. Others do without: the reductions cost more than they gain. */
static void put_uniform_block(gs_text *into, const gs_block_loop *loop) {
    for (int i = 0; i < 3 && loop->is_uniform; i++)
        if (loop->reads_block[i])
            gs_text_add(into, "\tredux.sync.min.u32 %%gs_%c, %%gs_%c, 0xffffffff;\n", 'x' + i, 'x' + i);
}

void gs_block_loop_begin(gs_text *into, const gs_block_loop *loop) {
    bool is_confined = loop->form == GS_FORM_CONFINED;
    put(into, declarations);
    put(into, loop->has_ghosts ? ghost_declarations : "");
    put(into, loop->has_mbarriers ? "\t.reg .b32 %gs_again;\n\tmov.u32 %gs_again, 0;\n" : "");
    put(into, find_first);
    put(into, loop->needs_whole_rows ? check_rows : "");
    put(into, loop->needs_one_row ? check_one_row : "");
    put(into, loop->has_ghosts ? prepare_ghosts : "");
    put(into, store_inverses);
    put(into, is_confined ? read_signals : "");
    put(into, is_confined ? first_confined : loop->is_ordered ? first_ordered : first_persistent);
    put(into, !is_confined && loop->is_ordered ? leave_ordered : "");
    put(into, store_task);
    put_filled(into, "$gs_started:\n\tbar.warp.sync 0xffffffff;\n\tbar.sync %BARRIER%;\n\tmov.u32 %gs_r6, 0;\n", loop);
    put(into, enter_task);
    put(into, enter_block);
    put_uniform_block(into, loop);
    put(into, loop->has_ghosts ? "\tadd.u32 %gs_all, %gs_all, %gs_threads;\n" : "");
    put(into, loop->has_marks ? mark_block : "");
}

/* Goes on to the next block of the task, if there is one, without waiting for other warps. */
static const char go_on[] = "\tsetp.gt.u32 %gs_p1, %gs_place, 1;\n"
                            "\t@%gs_p1 sub.u32 %gs_place, %gs_place, 2;\n"
                            "\t@%gs_p1 bra $gs_loop;\n";

/* The same behind a barrier. */
static const char wait_and_go_on[] = "\tsetp.le.u32 %gs_p1, %gs_place, 1;\n"
                                     "\t@%gs_p1 bra $gs_take;\n"
                                     "\tbar.sync %BARRIER%;\n"
                                     "\tsub.u32 %gs_place, %gs_place, 2;\n"
                                     "\tbra $gs_loop;\n"
                                     "$gs_take:\n";

void gs_block_loop_end(gs_text *into, const gs_block_loop *loop) {
    bool is_confined = loop->form == GS_FORM_CONFINED;
    put(into, "$gs_next:\n");
    put(into, loop->has_async_copies ? "\tcp.async.wait_all;\n" : "");
    put(into, loop->has_bulk_copies ? "\tcp.async.bulk.wait_group 0;\n" : "");
    put(into, loop->has_mbarriers ? "\tmov.u32 %gs_again, 1;\n" : "");
    put_filled(into, loop->has_ghosts ? wait_as_ghost : "\tbar.warp.sync 0xffffffff;\n", loop);
    put_filled(into, loop->warps_are_independent || loop->has_ghosts ? go_on : wait_and_go_on, loop);
    put(into, find_first);
    put(into, take_task);
    put(into, is_confined ? may_take_confined : loop->is_ordered ? "" : may_take_persistent);
    put(into, is_confined ? read_signals : "");
    put(into, is_confined ? leave_early : "");
    put_filled(into, size_task, loop);
    put(into, is_confined || loop->is_ordered ? take_confined : take_persistent);
    put(into, !is_confined && loop->is_ordered ? leave_ordered : "");
    put(into, store_task);
    put(into, is_confined ? store_last : "");
    put_filled(into, "$gs_meet:\n\tbar.warp.sync 0xffffffff;\n\tbar.sync %BARRIER%;\n\txor.b32 %gs_r6, %gs_place, 1;\n",
               loop);
    put(into, enter_task);
    put(into, "\tbra $gs_loop;\n$gs_end:\n\tret;\n");
}
