/*
 * ptx_loop.c: the PTX around the body of a kernel. See ptx_loop.h.
 *
 * The first thread of a worker block takes tasks of several blocks from a queue and stores them in shared memory, so
 * that a thread needs a single register, %gs_place, for its position while the body runs: the address of the task, plus
 * 0x100000 times the number of blocks of the task after this one, plus 0x80000 if this is the last task of the worker
 * block. Two tasks alternate: the one being written was read before the last barrier.
 *
 * Shared memory, gs_ours: two tasks of 64 bytes (x, y, z of the first block with `after` added to x; twice `after`, how
 * many blocks follow the first, plus 1 in the last task, or a negative number: no task; four words from which the next
 * size is computed; 2^32 / grid.x and / grid.y; the clock when the signals were read), then two counters of exited
 * threads. The four words of a confined kernel: the number of blocks; the number after the last; the clock when the
 * task was taken; the pace: how many blocks last as long as a task should. Those of a persistent one: the number of
 * blocks, and 0x10000 times the size of the next task; the clock; the budget; the pace. It lies behind all variables of
 * the kernel, so that their addresses stay, and with them the code that ptxas generates for the body (ptx_shared.c).
 *
 * The size of a task: it should last 32768 cycles, so that the queue costs little; near the end of the grid less, so
 * that all worker blocks end together, but at least 4096. It has at most one block more than the last task, because
 * slow blocks may follow quick ones; for the same reason the pace grows by at most a quarter with each task. While a
 * task is less than a quarter of the blocks left for each worker block, it may have twice the blocks of the last one:
 * if they are slow, the other worker blocks make up for it.
 *
 * A persistent kernel chooses the size of the next task while the queue answers for this one, so that it asks sooner.
 * The duration of this task is not known yet: if it exceeds the budget, divided by the size, the size is reduced when
 * the next task is taken.
 *
 * The last task: a worker block leaves after it, and does not ask the queue again, which would take a trip to memory. A
 * task is the last one if the worker block must leave; if it has the last block; and, in a launch whose worker blocks
 * all stay (the first one of a confined kernel on all SMs), if it has one of the last N blocks, where N is the number
 * of worker blocks. Still, all blocks are taken: when the first worker block leaves in this way, at most as many blocks
 * are left as there are other worker blocks. Each of these got its last answer before, so it asks again, and takes a
 * block if one is left. If blocks are long, this is not done, because a slow worker block should not have to take one.
 *
 * Exited threads: threads that have returned wait in the barriers of the others. A thread that returns between two
 * barriers adds 1 to the counter of this interval; two counters alternate. The counter of the previous interval cannot
 * change meanwhile, so all exited threads see the same sum after a barrier, and leave together when all threads have
 * exited. The counters are never reset: the sum that ends a block grows by the number of threads with each block.
 *
 * Votes of barriers, if exited threads wait in them: threads that vote add to a counter in shared memory before the
 * barrier. Here, too, two counters alternate and are never reset; each thread knows what it read from each. Lanes of a
 * warp that are at different places cannot vote in the barrier itself: on an H200 they get wrong results.
 *
 * Registers: %gs_r, %gs_d, %gs_f and %gs_p are used within one part only.
 */
#include "ptx_loop.h"

#include <stddef.h>
#include <string.h>

static void put_part(gs_text *into, const char *text) {
    gs_text_put(into, text, strlen(text));
}

void gs_block_loop_parameter(gs_text *into, const gs_block_loop *loop) {
    gs_text_add(into, "\t.param .align 8 .b8 gs_job[%u]", gs_block_loop_parameter_bytes(loop));
}

uint32_t gs_block_loop_parameter_bytes(const gs_block_loop *loop) {
    return gs_block_loop_shared_at(loop) + (loop->is_behind ? 8 : 0);
}

uint32_t gs_block_loop_shared_at(const gs_block_loop *loop) {
    return loop->form == GS_FORM_CONFINED ? offsetof(gs_confined_parameter, shared)
                                          : offsetof(gs_persistent_parameter, shared);
}

void gs_block_loop_declare(gs_text *into, const gs_block_loop *loop) {
    if (loop->is_behind)
        gs_text_add(into, ".extern .shared .align %u .b8 %s[];\n", loop->dynamic_align, loop->ours);
    else
        gs_text_add(into, ".shared .align 128 .b8 %s[%d];\n", loop->ours,
                    GS_LOOP_SHARED + (loop->stores_block ? GS_LOOP_BLOCK : 0));
}

void gs_block_loop_find(gs_text *into, const gs_block_loop *loop, const char *address, const char *other) {
    gs_text_add(into, "\tmov.u32 %s, %s;\n\tmov.u32 %s, %%dynamic_smem_size;\n", address, loop->ours, other);
    gs_text_add(into, "\tadd.u32 %s, %s, %s;\n\tsub.u32 %s, %s, %d;\n\tand.b32 %s, %s, 0xffffff80;\n", address, address,
                other, address, address, GS_LOOP_SHARED + GS_LOOP_BLOCK, address, address);
}

/* Each thread stores the same values. A barrier separates this from reads of the values of the block before. */
void gs_block_loop_store_block(gs_text *into, const gs_block_loop *loop) {
    if (loop->is_behind)
        gs_text_add(into, "\tand.b32 %%gs_r9, %%gs_place, 0x7ff80;\n");
    for (int i = 0; i < 6; i++) {
        if (i >= 3)
            gs_text_add(into, "\tld.param.u32 %%gs_grid0, [gs_job+%d];\n", 4 * (i - 3));
        gs_text_add(into, "\tst.shared.u32 [%s+%d], ", loop->is_behind ? "%gs_r9" : loop->ours, GS_LOOP_SHARED + 4 * i);
        gs_text_add(into, i < 3 ? "%%gs_%c;\n" : "%%gs_grid0;\n", 'x' + i);
    }
}

static const char declarations[] = "\n"
                                   "\t.reg .pred %gs_p<8>;\n"
                                   "\t.reg .b32 %gs_place, %gs_x, %gs_y, %gs_z, %gs_grid<4>, %gs_lanes;\n"
                                   "\t.reg .b32 %gs_r<32>;\n"
                                   "\t.reg .b64 %gs_d<8>;\n"
                                   "\t.reg .f32 %gs_f<8>;\n";

/* The loop is behind the dynamic shared memory, to which the launch must have added space. */
static const char check_shared[] = "\t.reg .b32 %gs_ours;\n"
                                   "\tmov.u32 %gs_r3, %dynamic_smem_size;\n"
                                   "\tld.param.u32 %gs_r4, [gs_job+%SHARED_AT%];\n"
                                   "\tadd.u32 %gs_r4, %gs_r4, %SHARED%;\n"
                                   "\tsetp.ne.u32 %gs_p1, %gs_r3, %gs_r4;\n"
                                   "\t@%gs_p1 trap;\n";

static const char exited_declarations[] = "\t.reg .b32 %gs_phase, %gs_other, %gs_all, %gs_threads;\n";

/* The counters of votes are in the unused part of the first task. */
static const char vote_declarations[] = "\t.reg .b32 %gs_votes, %gs_grown, %gs_seen, %gs_last;\n"
                                        "\tmov.u32 %gs_seen, 0;\n"
                                        "\tmov.u32 %gs_last, 0;\n";

static const char prepare_votes[] = "\t@!%gs_p0 st.shared.u32 [%gs_phase+-80], 0;\n"
                                    "\t@!%gs_p0 st.shared.u32 [%gs_phase+-76], 0;\n";

/* Exited threads do not know who votes. */
static const char skip_votes[] = "\tld.volatile.shared.u32 %gs_votes, [" GS_PTX_VOTES_AT "];\n"
                                 "\tmov.u32 %gs_seen, %gs_last;\n"
                                 "\tmov.u32 %gs_last, %gs_votes;\n";

/* %gs_p0: this is not the first thread. */
static const char find_first[] = "\tmov.u32 %gs_r0, %tid.x;\n"
                                 "\tmov.u32 %gs_r1, %tid.y;\n"
                                 "\tmov.u32 %gs_r2, %tid.z;\n"
                                 "\tor.b32 %gs_r1, %gs_r1, %gs_r2;\n"
                                 "\tor.b32 %gs_r1, %gs_r0, %gs_r1;\n"
                                 "\tsetp.ne.u32 %gs_p0, %gs_r1, 0;\n";

static const char prepare_exited[] = "\tmov.u32 %gs_r3, %ntid.x;\n"
                                     "\tmov.u32 %gs_r4, %ntid.y;\n"
                                     "\tmov.u32 %gs_r5, %ntid.z;\n"
                                     "\tmul.lo.u32 %gs_r4, %gs_r4, %gs_r5;\n"
                                     "\tmul.lo.u32 %gs_threads, %gs_r3, %gs_r4;\n"
                                     "\tmov.u32 %gs_all, 0;\n"
                                     "\tmov.u32 %gs_phase, %OURS%;\n"
                                     "\tadd.u32 %gs_phase, %gs_phase, 128;\n"
                                     "\t@!%gs_p0 st.shared.u32 [%OURS%+128], 0;\n"
                                     "\t@!%gs_p0 st.shared.u32 [%OURS%+132], 0;\n";

/* Makes kernels that rely on whole warps in a row of the block fail instead of hang. */
static const char check_rows[] = "\tmov.u32 %gs_r3, %ntid.x;\n"
                                 "\tand.b32 %gs_r3, %gs_r3, 31;\n"
                                 "\tsetp.ne.u32 %gs_p1, %gs_r3, 0;\n"
                                 "\t@%gs_p1 trap;\n";

/* The same for kernels whose blocks wait for others and are in order only in a grid of one row. */
static const char check_one_row[] = "\tld.param.u32 %gs_r3, [gs_job+4];\n"
                                    "\tsetp.ne.u32 %gs_p1, %gs_r3, 1;\n"
                                    "\t@%gs_p1 trap;\n";
static const char check_one_layer[] = "\tld.param.u32 %gs_r3, [gs_job+8];\n"
                                      "\tsetp.ne.u32 %gs_p1, %gs_r3, 1;\n"
                                      "\t@%gs_p1 trap;\n";

/* The same for launches that give blocks to worker blocks although the kernel needs the queue: such blocks would not
   run. */
static const char check_queue[] = "\tld.param.u32 %gs_r3, [gs_job+12];\n"
                                  "\tld.param.u32 %gs_r4, [gs_job+52];\n"
                                  "\tor.b32 %gs_r3, %gs_r3, %gs_r4;\n"
                                  "\tsetp.ne.u32 %gs_p1, %gs_r3, 0;\n"
                                  "\t@%gs_p1 trap;\n";

/* %gs_r10 to %gs_r12: the grid. %gs_r3 and %gs_r4: what is above 32 bits of the number of its blocks. */
static const char count_blocks[] = "\tld.param.u32 %gs_r10, [gs_job];\n"
                                   "\tld.param.u32 %gs_r11, [gs_job+4];\n"
                                   "\tld.param.u32 %gs_r12, [gs_job+8];\n"
                                   "\tmul.wide.u32 %gs_d2, %gs_r10, %gs_r11;\n"
                                   "\tmov.b64 {%gs_r3, %gs_r4}, %gs_d2;\n"
                                   "\tmul.wide.u32 %gs_d2, %gs_r3, %gs_r12;\n"
                                   "\tmov.b64 {%gs_r13, %gs_r3}, %gs_d2;\n" /* all blocks */
                                   "\tmov.u32 %gs_r14, %nctaid.x;\n" /* worker blocks */;

/* Makes launches with more blocks than can be counted, or than the kernel's waits allow, fail. */
static const char check_grid[] = "\tor.b32 %gs_r3, %gs_r3, %gs_r4;\n"
                                 "\tsetp.gt.u32 %gs_p1, %gs_r13, %MOST_BLOCKS%;\n"
                                 "\tsetp.ne.or.u32 %gs_p1, %gs_r3, 0, %gs_p1;\n"
                                 "\t@%gs_p1 trap;\n";

/* %gs_d4: the last parameter, for the part of the first thread in a confined kernel. Between blocks, a 0 that ptxas
   cannot know is added to its address. Otherwise ptxas would load the fields before the body, and keep them in
   registers that the body needs. */
static const char find_job_first[] = "\tmov.u64 %gs_d4, gs_job;\n";

static const char find_job[] = "\tshr.u32 %gs_r9, %gs_place, 20;\n"
                               "\tcvt.u64.u32 %gs_d4, %gs_r9;\n"
                               "\tmov.u64 %gs_d3, gs_job;\n"
                               "\tadd.u64 %gs_d4, %gs_d4, %gs_d3;\n";

/* ---- signals of a confined kernel ---- */

/* %gs_r20: the stop word; %gs_r21: a word of the mask; bit %gs_r22 % 32 of it is for this SM. */
static const char find_signals[] = "\tmov.u32 %gs_r20, 0;\n"
                                   "\tmov.u32 %gs_r21, 0xffffffff;\n"
                                   "\tmov.u32 %gs_r22, %smid;\n"
                                   "\tld.param.u64 %gs_d1, [%gs_d4+32];\n"
                                   "\tld.param.u64 %gs_d2, [%gs_d4+40];\n"
                                   "\tsetp.ne.u64 %gs_p3, %gs_d1, 0;\n"
                                   "\tsetp.ne.u64 %gs_p4, %gs_d2, 0;\n"
                                   "\tshr.u32 %gs_r23, %gs_r22, 5;\n"
                                   "\tmul.wide.u32 %gs_d3, %gs_r23, 4;\n"
                                   "\tadd.u64 %gs_d2, %gs_d2, %gs_d3;\n";

/* Skips the signals if they were read in the last 8192 cycles. %gs_r9: the clock. A form under test reads them more
   often, so that more of its worker blocks leave. */
static const char spare_signals[] = "\tld.shared.u32 %gs_r24, [%gs_place+40];\n"
                                    "\tsub.u32 %gs_r25, %gs_r9, %gs_r24;\n"
                                    "\tsetp.ge.u32 %gs_p6, %gs_r25, %SPARE%;\n"
                                    "\tselp.b32 %gs_r24, %gs_r9, %gs_r24, %gs_p6;\n"
                                    "\tst.shared.u32 [%gs_r17+40], %gs_r24;\n"
                                    "\tand.pred %gs_p3, %gs_p3, %gs_p6;\n"
                                    "\tand.pred %gs_p4, %gs_p4, %gs_p6;\n";

static const char load_signals[] = "\t@%gs_p3 ld.volatile.global.u32 %gs_r20, [%gs_d1];\n"
                                   "\t@%gs_p4 ld.volatile.global.u32 %gs_r21, [%gs_d2];\n";

/* %gs_p2: the worker block may stay: the stop word is 0, and the mask allows its SM. This waits for the words. */
static const char read_signals[] = "\tand.b32 %gs_r23, %gs_r22, 31;\n"
                                   "\tshr.u32 %gs_r23, %gs_r21, %gs_r23;\n"
                                   "\tand.b32 %gs_r23, %gs_r23, 1;\n"
                                   "\tsetp.ne.u32 %gs_p2, %gs_r23, 0;\n"
                                   "\tsetp.eq.and.u32 %gs_p2, %gs_r20, 0, %gs_p2;\n";

/* Before read_signals, so that the kernel does not wait for the words before it asks the queue. The upper half of the
   queue of a confined kernel is 0. */
static const char delay_signals[] = "\tmov.b64 {%gs_r23, %gs_r9}, %gs_d5;\n"
                                    "\tor.b32 %gs_r20, %gs_r20, %gs_r9;\n"
                                    "\tor.b32 %gs_r22, %gs_r22, %gs_r9;\n";

/* ---- the queue ---- */

/* %gs_d1: requests %gs_r16 blocks. Again a 0 is added, so that ptxas does not know that all lanes would add to the same
   word. */
static const char find_queue[] = "\tmul.wide.u32 %gs_d1, %gs_r0, 8;\n"
                                 "\tmov.u64 %gs_d0, gs_job;\n"
                                 "\tadd.u64 %gs_d1, %gs_d0, %gs_d1;\n"
                                 "\tld.param.u64 %gs_d0, [%gs_d1+24];\n";

/* The upper half of the queue of a persistent kernel counts blocks that are done. */
static const char add_done[] = "\tmov.b64 %gs_d1, {%gs_r16, %gs_r28};\n";

/* Instructions between this and the use of %gs_d5 run while the queue answers. */
static const char ask_queue[] = "\tatom.global.add.u64 %gs_d5, [%gs_d0], %gs_d1;\n";

/* %gs_r18: 2^32 / grid.x, at most 2 too small, so that a quotient of 30 bits is at most 1 too small. The first value is
   2^32 times (1 - 2^-21) by the reciprocal, whose error is 2^-22, and so not too large; a step of Newton squares its
   relative error. */
static const char invert_x[] = "\tcvt.rn.f32.u32 %gs_f1, %gs_r10;\n"
                               "\trcp.approx.ftz.f32 %gs_f1, %gs_f1;\n"
                               "\tmul.f32 %gs_f1, %gs_f1, 0f4F7FFFF8;\n"
                               "\tcvt.rzi.u32.f32 %gs_r18, %gs_f1;\n"
                               "\tmul.lo.u32 %gs_r9, %gs_r18, %gs_r10;\n"
                               "\tsub.u32 %gs_r9, 0, %gs_r9;\n"
                               "\tmul.hi.u32 %gs_r9, %gs_r18, %gs_r9;\n"
                               "\tadd.u32 %gs_r18, %gs_r18, %gs_r9;\n";

/* %gs_r19: 2^32 / grid.y. */
static const char invert_y[] = "\tcvt.rn.f32.u32 %gs_f2, %gs_r11;\n"
                               "\trcp.approx.ftz.f32 %gs_f2, %gs_f2;\n"
                               "\tmul.f32 %gs_f2, %gs_f2, 0f4F7FFFF8;\n"
                               "\tcvt.rzi.u32.f32 %gs_r19, %gs_f2;\n"
                               "\tmul.lo.u32 %gs_r9, %gs_r19, %gs_r11;\n"
                               "\tsub.u32 %gs_r9, 0, %gs_r9;\n"
                               "\tmul.hi.u32 %gs_r9, %gs_r19, %gs_r9;\n"
                               "\tadd.u32 %gs_r19, %gs_r19, %gs_r9;\n";

/* A 0 that ptxas cannot know is added to the answer of the queue. Otherwise the code would wait for the answer before
   it computes the size of the next task. */
static const char wait_for_answer[] = "\tshr.u32 %gs_r9, %gs_r5, 31;\n"
                                      "\tcvt.u32.u64 %gs_r15, %gs_d5;\n"
                                      "\tadd.u32 %gs_r15, %gs_r15, %gs_r9;\n";

/* %gs_r15: the first block. It may be past the last one of the grid. */

/* The queue of a confined kernel begins with a block that the launch names. */
static const char get_number_confined[] = "\tld.param.u32 %gs_r9, [%gs_d4+52];\n"
                                          "\tadd.u32 %gs_r15, %gs_r15, %gs_r9;\n";

/* The first blocks need no queue. The addition that makes the count of blocks complete is the last one. */
static const char get_number_persistent[] = "\tadd.u32 %gs_r15, %gs_r15, %gs_r14;\n"
                                            "\tshr.u64 %gs_d5, %gs_d5, 32;\n"
                                            "\tcvt.u32.u64 %gs_r9, %gs_d5;\n"
                                            "\tadd.u32 %gs_r9, %gs_r9, %gs_r28;\n"
                                            "\tsetp.eq.u32 %gs_p1, %gs_r9, %gs_r13;\n"
                                            "\tmov.u64 %gs_d5, 0;\n"
                                            "\t@%gs_p1 st.global.u64 [%gs_d0], %gs_d5;\n";

/* If the first block also comes from the queue, the upper half counts worker blocks that found no task. The last one
   resets the queue. */
static const char leave_ordered[] = "\tsetp.ge.u32 %gs_p1, %gs_r15, %gs_r13;\n"
                                    "\tmov.u64 %gs_d3, 0x100000000;\n"
                                    "\t@%gs_p1 atom.global.add.u64 %gs_d3, [%gs_d0], %gs_d3;\n"
                                    "\tshr.u64 %gs_d3, %gs_d3, 32;\n"
                                    "\tcvt.u32.u64 %gs_r9, %gs_d3;\n"
                                    "\tadd.u32 %gs_r9, %gs_r9, 1;\n"
                                    "\tsetp.eq.and.u32 %gs_p1, %gs_r9, %gs_r14, %gs_p1;\n"
                                    "\tmov.u64 %gs_d3, 0;\n"
                                    "\t@%gs_p1 st.global.u64 [%gs_d0], %gs_d3;\n";

/* ---- storing a task ---- */

/* From %gs_r15 (the first block) and %gs_r16 (how many). */
static const char find_blocks[] = "\tmin.u32 %gs_r9, %gs_r15, %gs_r13;\n"
                                  "\tsub.u32 %gs_r9, %gs_r13, %gs_r9;\n" /* blocks that are left */
                                  "\tmin.u32 %gs_r16, %gs_r16, %gs_r9;\n"
                                  "\tsub.u32 %gs_r1, %gs_r9, %gs_r16;\n"      /* and after this task */
                                  "\tmul.hi.u32 %gs_r24, %gs_r15, %gs_r18;\n" /* rows */
                                  "\tmul.lo.u32 %gs_r25, %gs_r24, %gs_r10;\n"
                                  "\tsub.u32 %gs_r25, %gs_r15, %gs_r25;\n"
                                  "\tsetp.ge.u32 %gs_p5, %gs_r25, %gs_r10;\n"
                                  "\t@%gs_p5 add.u32 %gs_r24, %gs_r24, 1;\n"
                                  "\t@%gs_p5 sub.u32 %gs_r25, %gs_r25, %gs_r10;\n" /* x */
                                  "\tmul.hi.u32 %gs_r26, %gs_r24, %gs_r19;\n"      /* planes */
                                  "\tmul.lo.u32 %gs_r27, %gs_r26, %gs_r11;\n"
                                  "\tsub.u32 %gs_r27, %gs_r24, %gs_r27;\n"
                                  "\tsetp.ge.u32 %gs_p5, %gs_r27, %gs_r11;\n"
                                  "\t@%gs_p5 add.u32 %gs_r26, %gs_r26, 1;\n"       /* z */
                                  "\t@%gs_p5 sub.u32 %gs_r27, %gs_r27, %gs_r11;\n" /* y */
                                  "\tsub.u32 %gs_r28, %gs_r16, 1;\n"               /* after */
                                  "\tadd.u32 %gs_r25, %gs_r25, %gs_r28;\n"
                                  "\tadd.u32 %gs_r29, %gs_r15, %gs_r16;\n"
                                  "\tshl.b32 %gs_r28, %gs_r28, 1;\n";

/* In a confined kernel: whether this is the last task of the worker block. %gs_r9: the number of blocks that may be
   left then, plus 1. In a form under test, all blocks count as short. */
static const char find_last[] = "\tld.param.u32 %gs_r9, [gs_job+12];\n"
                                "\tsetp.ne.u32 %gs_p1, %gs_r9, 0;\n"
                                "\tsetp.ge.and.f32 %gs_p1, %gs_f0, %QUICK%, %gs_p1;\n"
                                "\tselp.b32 %gs_r9, %gs_r14, 1, %gs_p1;\n"
                                "\tadd.u32 %gs_r9, %gs_r29, %gs_r9;\n"
                                "\tsetp.gt.u32 %gs_p1, %gs_r9, %gs_r13;\n"
                                "\tnot.pred %gs_p2, %gs_p2;\n"
                                "\tor.pred %gs_p1, %gs_p1, %gs_p2;\n"
                                "\tselp.b32 %gs_r9, 1, 0, %gs_p1;\n"
                                "\tor.b32 %gs_r28, %gs_r28, %gs_r9;\n";

/* %gs_r1: how many blocks the next task has, if this one lasts no longer than %gs_r2 divided by it. */
static const char size_next[] = "\tmul.hi.u32 %gs_r7, %gs_r1, %gs_r3;\n"
                                "\tmul.lo.u32 %gs_r8, %gs_r7, 3;\n"
                                "\tshr.u32 %gs_r8, %gs_r8, 3;\n"
                                "\tadd.u32 %gs_r9, %gs_r16, %gs_r16;\n"
                                "\tmin.u32 %gs_r8, %gs_r8, %gs_r9;\n"
                                "\tadd.u32 %gs_r9, %gs_r16, 1;\n"
                                "\tmax.u32 %gs_r8, %gs_r8, %gs_r9;\n"
                                "\tmin.u32 %gs_r8, %gs_r8, %gs_r4;\n"
                                "\tmax.u32 %gs_r1, %gs_r7, %gs_r5;\n"
                                "\tmin.u32 %gs_r1, %gs_r1, %gs_r8;\n"
                                "\tmax.u32 %gs_r1, %gs_r1, 1;\n"
                                "\tsetp.gt.u32 %gs_p1, %gs_r1, %gs_r7;\n"
                                "\tselp.b32 %gs_r2, 6144, 49152, %gs_p1;\n"
                                "\tmul.lo.u32 %gs_r2, %gs_r16, %gs_r2;\n"
                                "\tsetp.eq.u32 %gs_p1, %gs_r1, 1;\n"
                                "\tselp.b32 %gs_r2, 0xffffffff, %gs_r2, %gs_p1;\n"
                                "\tshl.b32 %gs_r1, %gs_r1, 16;\n"
                                "\tor.b32 %gs_r1, %gs_r1, %gs_r16;\n";

/* %gs_r17: the address of the task; %gs_f0: the pace. */
static const char store_task[] = "\tmov.b32 %gs_r31, %gs_f0;\n"
                                 "\tmov.u32 %gs_r30, %clock;\n"
                                 "\tst.shared.v4.u32 [%gs_r17], {%gs_r25, %gs_r27, %gs_r26, %gs_r28};\n"
                                 "\tst.shared.v4.u32 [%gs_r17+16], {%gs_r1, %gs_r30, %gs_r2, %gs_r31};\n"
                                 "\tst.shared.v2.u32 [%gs_r17+32], {%gs_r18, %gs_r19};\n";

/* In a confined kernel: the number of blocks, the number after the last, the clock, the pace. */
static const char store_task_confined[] = "\tmov.b32 %gs_r31, %gs_f0;\n"
                                          "\tmov.u32 %gs_r30, %clock;\n"
                                          "\tst.shared.v4.u32 [%gs_r17], {%gs_r25, %gs_r27, %gs_r26, %gs_r28};\n"
                                          "\tst.shared.v4.u32 [%gs_r17+16], {%gs_r16, %gs_r29, %gs_r30, %gs_r31};\n"
                                          "\tst.shared.v2.u32 [%gs_r17+32], {%gs_r18, %gs_r19};\n";

/* ---- the first task ---- */

/* The first block of a worker block has the number of the worker block. Each thread computes it, without waiting.
   %gs_p6: it is the only one. */
static const char begin_persistent[] = "\tmov.u32 %gs_r15, %ctaid.x;\n"
                                       "\tsetp.ge.u32 %gs_p1, %gs_r15, %gs_r13;\n"
                                       "\t@%gs_p1 bra $gs_end;\n"
                                       "\tsetp.ge.u32 %gs_p6, %gs_r14, %gs_r13;\n"
                                       "\t@%gs_p0 bra $gs_started;\n";

/* The same in a confined kernel, for as many worker blocks as the launch says. %gs_r9: how many. */
static const char begin_confined[] = "\tld.param.u32 %gs_r9, [gs_job+12];\n"
                                     "\tmin.u32 %gs_r9, %gs_r9, %gs_r13;\n"
                                     "\tmov.u32 %gs_r15, %ctaid.x;\n"
                                     "\tsetp.ge.u32 %gs_p1, %gs_r15, %gs_r9;\n"
                                     "\t@%gs_p1 bra $gs_begin;\n"
                                     "\tsetp.ge.u32 %gs_p6, %gs_r9, %gs_r13;\n"
                                     "\t@%gs_p0 bra $gs_started;\n"
                                     "\tmov.u32 %gs_r16, 1;\n"
                                     "\tmov.u32 %gs_r30, %clock;\n"
                                     "\tmov.u32 %gs_r31, 0x7e000000;\n"
                                     "\tst.shared.v4.u32 [%OURS%+16], {%gs_r16, %gs_r9, %gs_r30, %gs_r31};\n"
                                     "\tst.shared.u32 [%OURS%+40], %gs_r30;\n";

/* %gs_r9: the first block that is not given to a worker block. The next task has two blocks if there are enough. */
static const char store_given[] = "\tshl.b32 %gs_r1, %gs_r14, 2;\n"
                                  "\tsetp.ge.u32 %gs_p1, %gs_r13, %gs_r1;\n"
                                  "\tselp.b32 %gs_r2, 49152, 6144, %gs_p1;\n"
                                  "\tld.param.u32 %gs_r9, [gs_job+%TASK_OFFSET%];\n"
                                  "\tsetp.eq.u32 %gs_p1, %gs_r9, 1;\n"
                                  "\tselp.b32 %gs_r1, 0x10001, 0x20001, %gs_p1;\n"
                                  "\tmov.u32 %gs_r30, %clock;\n"
                                  "\tmov.u32 %gs_r31, 0x7e000000;\n"
                                  "\tst.shared.v4.u32 [%OURS%+16], {%gs_r1, %gs_r30, %gs_r2, %gs_r31};\n";

static const char find_first_x[] = "\tmov.u32 %gs_place, %OURS%;\n"
                                   "\t@%gs_p6 or.b32 %gs_place, %gs_place, 0x80000;\n"
                                   "\tmov.u32 %gs_x, %gs_r15;\n"
                                   "\tmov.u32 %gs_y, 0;\n"
                                   "\tmov.u32 %gs_z, 0;\n"
                                   "\tsetp.lt.u32 %gs_p1, %gs_x, %gs_r10;\n"
                                   "\t@%gs_p1 bra $gs_body;\n";

static const char find_first_y[] = "\tmul.hi.u32 %gs_y, %gs_x, %gs_r18;\n"
                                   "\tmul.lo.u32 %gs_r20, %gs_y, %gs_r10;\n"
                                   "\tsub.u32 %gs_x, %gs_x, %gs_r20;\n"
                                   "\tsetp.ge.u32 %gs_p1, %gs_x, %gs_r10;\n"
                                   "\t@%gs_p1 add.u32 %gs_y, %gs_y, 1;\n"
                                   "\t@%gs_p1 sub.u32 %gs_x, %gs_x, %gs_r10;\n"
                                   "\tsetp.lt.u32 %gs_p1, %gs_y, %gs_r11;\n"
                                   "\t@%gs_p1 bra $gs_body;\n";

static const char find_first_z[] = "\tmul.hi.u32 %gs_z, %gs_y, %gs_r19;\n"
                                   "\tmul.lo.u32 %gs_r20, %gs_z, %gs_r11;\n"
                                   "\tsub.u32 %gs_y, %gs_y, %gs_r20;\n"
                                   "\tsetp.ge.u32 %gs_p1, %gs_y, %gs_r11;\n"
                                   "\t@%gs_p1 add.u32 %gs_z, %gs_z, 1;\n"
                                   "\t@%gs_p1 sub.u32 %gs_y, %gs_y, %gs_r11;\n"
                                   "\tbra $gs_body;\n";

/* The first task comes from the queue in a confined kernel whose launch says so, and if blocks wait for lower ones. If
   more worker blocks were launched than fit, one that has not begun must not have a block, because others would wait
   for it. */
static const char begin_asking[] = "$gs_begin:\n"
                                   "\t@%gs_p0 bra $gs_asked;\n"
                                   "\tmov.u32 %gs_r9, 0xffffffff;\n"
                                   "\tst.shared.u32 [%OURS%+12], %gs_r9;\n"
                                   "\tmov.u32 %gs_r16, 1;\n"
                                   "\tmov.u32 %gs_r17, %OURS%;\n"
                                   "\tmov.b32 %gs_f0, 0x7e000000;\n";

/* The first task, if any, is a single block. This does not go through $gs_enter, because ptxas optimizes a loop with
   two entries less. */
static const char enter_first[] = "\tbar.sync %BARRIER%;\n"
                                  "\tmov.u32 %gs_place, %OURS%;\n"
                                  "\tld.shared.v4.u32 {%gs_x, %gs_y, %gs_z, %gs_r9}, [%OURS%];\n"
                                  "\tsetp.lt.s32 %gs_p1, %gs_r9, 0;\n"
                                  "\t@%gs_p1 bra $gs_end;\n"
                                  "\tshl.b32 %gs_r9, %gs_r9, 19;\n"
                                  "\tor.b32 %gs_place, %gs_place, %gs_r9;\n"
                                  "\tbra $gs_body;\n";

/* ---- blocks ---- */

/* %gs_r6: the address of the task. */
static const char enter_task[] = "$gs_enter:\n"
                                 "\tld.shared.v4.u32 {%gs_x, %gs_y, %gs_z, %gs_r9}, [%gs_r6];\n"
                                 "\tsetp.lt.s32 %gs_p1, %gs_r9, 0;\n"
                                 "\t@%gs_p1 bra $gs_end;\n"
                                 "\tshl.b32 %gs_r7, %gs_r9, 19;\n"
                                 "\tor.b32 %gs_place, %gs_r6, %gs_r7;\n"
                                 "\tshr.u32 %gs_r7, %gs_r9, 1;\n"
                                 "\tsub.u32 %gs_x, %gs_x, %gs_r7;\n"
                                 "\tbra $gs_body;\n";

/* The next block of the task, from the values that load_block has loaded. */
static const char enter_block[] = "$gs_more:\n"
                                  "\tshr.u32 %gs_r7, %gs_place, 20;\n"
                                  "\tsub.u32 %gs_x, %gs_x, %gs_r7;\n"
                                  "\tld.param.u32 %gs_r10, [gs_job];\n"
                                  "\tsetp.lt.u32 %gs_p1, %gs_x, %gs_r10;\n"
                                  "\t@%gs_p1 bra $gs_body;\n"
                                  "\tld.shared.v2.u32 {%gs_r18, %gs_r19}, [%gs_r6+32];\n"
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

/* ---- after the body ---- */

static const char wait_as_exited[] = "\txor.b32 %gs_r5, %gs_phase, 4;\n"
                                     "\tld.volatile.shared.u32 %gs_other, [%gs_r5];\n"
                                     "\tred.shared.add.u32 [%gs_phase], 1;\n"
                                     "$gs_exited:\n"
                                     "%MEET%"
                                     "\tld.volatile.shared.u32 %gs_r4, [%gs_phase];\n"
                                     "\tadd.u32 %gs_r3, %gs_r4, %gs_other;\n"
                                     "\tmov.u32 %gs_other, %gs_r4;\n"
                                     "\txor.b32 %gs_phase, %gs_phase, 4;\n"
                                     "\tsetp.ne.u32 %gs_p1, %gs_r3, %gs_all;\n"
                                     "\t@%gs_p1 bra $gs_exited;\n"
                                     "\tbar.warp.sync 0xffffffff;\n";

/* Continues with the next block of the task, if any. The task is loaded before the barrier, if any, which takes as
   long. */
static const char load_block[] = "\tsetp.lt.u32 %gs_p1, %gs_place, 0x100000;\n"
                                 "\t@%gs_p1 bra $gs_take;\n"
                                 "\tsub.u32 %gs_place, %gs_place, 0x100000;\n"
                                 "\tand.b32 %gs_r6, %gs_place, 0x7ffff;\n"
                                 "\tld.shared.v4.u32 {%gs_x, %gs_y, %gs_z, %gs_r9}, [%gs_r6];\n";

/* All threads leave after the last task, without a barrier. */
static const char leave_after_last[] = "\tsetp.ge.u32 %gs_p1, %gs_place, 0x80000;\n"
                                       "\t@%gs_p1 bra $gs_end;\n";

/* The first thread takes the next task only when it is needed, because another worker block may need one sooner. */
static const char begin_taking[] =
    "\txor.b32 %gs_r17, %gs_place, 64;\n" /* here %gs_place is the address of the last task */
    "\t@%gs_p0 bra $gs_meet;\n"
    "\tld.shared.v4.u32 {%gs_r28, %gs_r30, %gs_r2, %gs_r31}, [%gs_place+16];\n" /* sizes, since, budget, pace */
    "\tshr.u32 %gs_r16, %gs_r28, 16;\n"
    "\tand.b32 %gs_r28, %gs_r28, 0xffff;\n";

/* %gs_r30: the duration of the last task. %gs_p1: too long for a task of the size that was chosen when it began. */
static const char time_task[] = "\tmov.u32 %gs_r9, %clock;\n"
                                "\tsub.u32 %gs_r30, %gs_r9, %gs_r30;\n"
                                "\tmin.u32 %gs_r9, %gs_r30, 0x200000;\n"
                                "\tmul.lo.u32 %gs_r9, %gs_r9, %gs_r16;\n"
                                "\tsetp.gt.u32 %gs_p1, %gs_r9, %gs_r2;\n";

/* Then the task has as many blocks as last 32768 cycles. */
static const char size_again[] = "$gs_slow:\n"
                                 "\tor.b32 %gs_r9, %gs_r30, 1;\n"
                                 "\tcvt.rn.f32.u32 %gs_f1, %gs_r9;\n"
                                 "\trcp.approx.ftz.f32 %gs_f1, %gs_f1;\n"
                                 "\tcvt.rn.f32.u32 %gs_f2, %gs_r2;\n"
                                 "\tmul.f32 %gs_f2, %gs_f2, 0f3F2AAAAB;\n" /* 2/3 */
                                 "\tmul.f32 %gs_f1, %gs_f1, %gs_f2;\n"
                                 "\tcvt.rzi.u32.f32 %gs_r9, %gs_f1;\n"
                                 "\tmax.u32 %gs_r9, %gs_r9, 1;\n"
                                 "\tmin.u32 %gs_r16, %gs_r16, %gs_r9;\n"
                                 "\tbra $gs_ask;\n";

/* %gs_f4 and %gs_r3: 1 / (1.5 times the worker blocks), and 2^32 times it. */
static const char size_share[] = "\tcvt.rn.f32.u32 %gs_f1, %gs_r14;\n"
                                 "\tmul.f32 %gs_f1, %gs_f1, 0f3FC00000;\n"
                                 "\trcp.approx.ftz.f32 %gs_f1, %gs_f1;\n"
                                 "\tmul.f32 %gs_f1, %gs_f1, 0f4F800000;\n" /* 2^32 */
                                 "\tcvt.rzi.u32.f32 %gs_r3, %gs_f1;\n";

/* The size after the first task. */
static const char size_second[] = "\tld.param.u32 %gs_r9, [gs_job+%TASK_OFFSET%];\n"
                                  "\tsetp.eq.u32 %gs_p1, %gs_r9, 1;\n"
                                  "\tselp.b32 %gs_r4, 1, 2, %gs_p1;\n"
                                  "\tmov.u32 %gs_r5, %gs_r4;\n";

/* %gs_f0: the pace, from the blocks of the last task and its time: blocks in 32768 cycles, at most 1.25 times the last
   pace. */
#define PACE                                                                                                           \
    "\tor.b32 %gs_r9, %gs_r30, 1;\n"                                                                                   \
    "\tcvt.rn.f32.u32 %gs_f1, %gs_r9;\n"                                                                               \
    "\trcp.approx.ftz.f32 %gs_f1, %gs_f1;\n"                                                                           \
    "\tcvt.rn.f32.u32 %gs_f2, %gs_r28;\n"                                                                              \
    "\tmul.f32 %gs_f2, %gs_f2, 0f47000000;\n" /* 32768 */                                                              \
    "\tmul.f32 %gs_f1, %gs_f1, %gs_f2;\n"                                                                              \
    "\tmov.b32 %gs_f2, %gs_r31;\n"                                                                                     \
    "\tmul.f32 %gs_f2, %gs_f2, 0f3FA00000;\n" /* 1.25 */                                                               \
    "\tmin.f32 %gs_f0, %gs_f1, %gs_f2;\n"

/* The size after other tasks. */
static const char size_task[] = PACE "\tld.param.u32 %gs_r9, [%TASK_AT%];\n"
                                     "\tsetp.eq.u32 %gs_p1, %gs_r9, 0;\n"
                                     "\tselp.b32 %gs_r9, %TASK%, %gs_r9, %gs_p1;\n"
                                     "\tcvt.rn.f32.u32 %gs_f2, %gs_r9;\n"
                                     "\tmin.f32 %gs_f1, %gs_f0, %gs_f2;\n"
                                     "\tmax.f32 %gs_f1, %gs_f1, 0f3F800000;\n"
                                     "\tcvt.rzi.u32.f32 %gs_r4, %gs_f1;\n"
                                     "\tmul.f32 %gs_f1, %gs_f0, 0f3E000000;\n" /* 1/8 */
                                     "\tcvt.rzi.u32.f32 %gs_r5, %gs_f1;\n"
                                     "\tmin.u32 %gs_r5, %gs_r5, %gs_r4;\n";

/* ---- taking a task in a confined kernel ---- */

/* Here the size is chosen before the queue is asked, while the signals are loaded. */
static const char begin_taking_confined[] =
    "\t@%gs_p0 bra $gs_meet;\n"
    "\txor.b32 %gs_r17, %gs_place, 64;\n" /* here %gs_place is the address of the last task */
    "\tmov.u32 %gs_r9, 0xffffffff;\n"
    "\tst.shared.u32 [%gs_r17+12], %gs_r9;\n"
    "\tld.shared.v4.u32 {%gs_r28, %gs_r29, %gs_r30, %gs_r31}, [%gs_place+16];\n" /* count, end, since, pace */;

static const char time_task_confined[] = "\tmov.u32 %gs_r9, %clock;\n"
                                         "\tsub.u32 %gs_r30, %gs_r9, %gs_r30;\n";

/* %gs_r16: the number of blocks. */
static const char size_task_confined[] =
    PACE "\tsub.u32 %gs_r9, %gs_r13, %gs_r29;\n"
         "\tcvt.rn.f32.u32 %gs_f1, %gs_r9;\n"
         "\tcvt.rn.f32.u32 %gs_f2, %gs_r14;\n"
         "\tmul.f32 %gs_f2, %gs_f2, 0f3FC00000;\n" /* 1.5 times the worker blocks */
         "\trcp.approx.ftz.f32 %gs_f2, %gs_f2;\n"
         "\tmul.f32 %gs_f1, %gs_f1, %gs_f2;\n"
         "\tmul.f32 %gs_f3, %gs_f1, 0f3EC00000;\n" /* 3/8 */
         "\tmin.f32 %gs_f1, %gs_f1, %gs_f0;\n"
         "\tmul.f32 %gs_f2, %gs_f0, 0f3E000000;\n" /* 1/8 */
         "\tmax.f32 %gs_f1, %gs_f1, %gs_f2;\n"
         "\tld.param.u32 %gs_r9, [%TASK_AT%];\n"
         "\tsetp.eq.u32 %gs_p1, %gs_r9, 0;\n"
         "\tselp.b32 %gs_r9, %TASK%, %gs_r9, %gs_p1;\n"
         "\tcvt.rn.f32.u32 %gs_f2, %gs_r28;\n"
         "\tadd.f32 %gs_f4, %gs_f2, %gs_f2;\n"
         "\tmin.f32 %gs_f3, %gs_f3, %gs_f4;\n"
         "\tadd.f32 %gs_f2, %gs_f2, 0f3F800000;\n"
         "\tmax.f32 %gs_f2, %gs_f2, %gs_f3;\n"
         "\tmin.f32 %gs_f1, %gs_f1, %gs_f2;\n"
         "\tcvt.rn.f32.u32 %gs_f2, %gs_r9;\n"
         "\tmin.f32 %gs_f1, %gs_f1, %gs_f2;\n"
         "\tmax.f32 %gs_f1, %gs_f1, 0f3F800000;\n"
         "\tcvt.rzi.u32.f32 %gs_r16, %gs_f1;\n";

/* After a long task, the kernel waits for the signals before it takes another one. They are loaded again for this: if
   one load served both cases, the kernel would wait for it after short tasks, too. */
static const char ask_if_short[] = "\tsetp.le.u32 %gs_p1, %gs_r30, 65536;\n"
                                   "\t@%gs_p1 bra $gs_ask;\n";

static const char ask_if_allowed[] = "\t@!%gs_p2 bra $gs_meet;\n"
                                     "$gs_ask:\n";

/* ---- the whole loop ---- */

const char *gs_ptx_form_symbol(const gs_ptx_module *module, uint32_t function, enum gs_form form, char *into,
                               size_t size) {
    char name[GS_PTX_SYMBOL_MOST];
    gs_ptx_token_text(module, module->functions.data[function].name, name, sizeof name);
    snprintf(into, size, "%s__%s", name, gs_form_name(form));
    return into;
}

/* A placeholder in a part, and its replacement. */
static const char *const gaps[] = {"%BARRIER%", "%TASK%",      "%TASK_AT%", "%TASK_OFFSET%", "%QUICK%", "%SPARE%",
                                   "%OURS%",    "%SHARED_AT%", "%SHARED%",  "%MOST_BLOCKS%", "%MEET%"};
enum {
    GAP_BARRIER,
    GAP_TASK,
    GAP_TASK_AT,
    GAP_TASK_OFFSET,
    GAP_QUICK,
    GAP_SPARE,
    GAP_OURS,
    GAP_SHARED_AT,
    GAP_SHARED,
    GAP_MOST_BLOCKS,
    GAP_MEET
};

static void put_gap(gs_text *into, size_t gap, const gs_block_loop *loop) {
    if (gap == GAP_BARRIER)
        gs_text_add(into, "%u", loop->barrier);
    else if (gap == GAP_TASK)
        gs_text_add(into, "%u", loop->task_blocks);
    else if (gap == GAP_TASK_AT)
        put_part(into, loop->form == GS_FORM_CONFINED ? "%gs_d4+48" : "gs_job+12");
    else if (gap == GAP_TASK_OFFSET)
        put_part(into, loop->form == GS_FORM_CONFINED ? "48" : "12");
    else if (gap == GAP_QUICK)
        put_part(into, loop->counts_blocks ? "0f00000000" : "0f41000000"); /* 8: 4096 cycles a block */
    else if (gap == GAP_SPARE)
        gs_text_add(into, "%u", loop->counts_blocks ? 64 : 8192);
    else if (gap == GAP_OURS)
        put_part(into, loop->is_behind ? "%gs_ours" : loop->ours);
    else if (gap == GAP_SHARED_AT)
        gs_text_add(into, "%u", gs_block_loop_shared_at(loop));
    else if (gap == GAP_SHARED)
        gs_text_add(into, "%d", GS_JOB_SHARED);
    else if (gap == GAP_MOST_BLOCKS)
        gs_text_add(into, "0x%x", loop->most_blocks);
    else
        gs_text_add(into, "\tbarrier.sync %u;\n%s", loop->barrier, loop->has_votes ? skip_votes : "");
}

/* Puts a part, with its placeholders replaced. */
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
   the original. Otherwise a kernel that needs many registers may keep fewer loads in flight, which made one slower by a
   third. Other kernels have no reductions, because these cost more than they gain. */
static void put_uniform_block(gs_text *into, const gs_block_loop *loop) {
    for (int i = 0; i < 3 && loop->is_uniform; i++)
        if (loop->reads_block[i])
            gs_text_add(into, "\tredux.sync.min.u32 %%gs_%c, %%gs_%c, 0xffffffff;\n", 'x' + i, 'x' + i);
}

/* %gs_r15: the first block of a task. */
static void put_number(gs_text *into, const gs_block_loop *loop) {
    bool is_confined = loop->form == GS_FORM_CONFINED;
    if (loop->is_ordered) {
        put_part(into, is_confined ? "" : leave_ordered);
    } else {
        put_part(into, is_confined ? get_number_confined : get_number_persistent);
    }
}

/* Asks the queue for %gs_r16 blocks. */
static void put_asking(gs_text *into, const gs_block_loop *loop) {
    bool counts_done = loop->form == GS_FORM_PERSISTENT && !loop->is_ordered;
    put_part(into, loop->takes_single ? "\tmov.u32 %gs_r16, 1;\n" : "");
    put_part(into, counts_done ? add_done : "\tcvt.u64.u32 %gs_d1, %gs_r16;\n");
    put_part(into, ask_queue);
}

/* Stores the answer of the queue as a task. */
static void put_answer(gs_text *into, const gs_block_loop *loop, bool is_first) {
    put_part(into, invert_x);
    put_part(into, invert_y);
    put_part(into, size_share);
    put_filled(into, is_first ? size_second : size_task, loop);
    put_part(into, wait_for_answer);
    put_number(into, loop);
    put_part(into, find_blocks);
    put_part(into, size_next);
    put_part(into, store_task);
}

static void put_answer_confined(gs_text *into, const gs_block_loop *loop, bool is_first) {
    put_part(into, invert_x);
    put_part(into, invert_y);
    put_part(into, is_first ? "" : delay_signals);
    put_part(into, is_first ? "" : read_signals);
    put_part(into, "\tcvt.u32.u64 %gs_r15, %gs_d5;\n");
    put_number(into, loop);
    put_part(into, find_blocks);
    put_filled(into, find_last, loop);
    put_part(into, store_task_confined);
}

/* The first task is the block with the number of the worker block. */
static void put_given(gs_text *into, const gs_block_loop *loop) {
    put_filled(into, loop->form == GS_FORM_CONFINED ? begin_confined : begin_persistent, loop);
    put_filled(into, loop->form == GS_FORM_CONFINED ? "" : store_given, loop);
    put_part(into, "$gs_started:\n\tbar.warp.sync 0xffffffff;\n");
    put_filled(into, loop->exited_threads_wait || loop->arrivals ? "\tbar.sync %BARRIER%;\n" : "", loop);
    const char *const parts[] = {find_first_x, invert_x, find_first_y, invert_y, find_first_z};
    for (size_t i = 0; i < GS_COUNT(parts); i++)
        put_filled(into, parts[i], loop);
}

/* The first task comes from the queue. */
static void put_asked(gs_text *into, const gs_block_loop *loop) {
    put_filled(into, begin_asking, loop);
    if (loop->form == GS_FORM_CONFINED) {
        put_part(into, find_job_first);
        put_part(into, find_signals);
        put_part(into, load_signals);
        put_filled(into, "\tmov.u32 %gs_r9, %clock;\n\tst.shared.u32 [%OURS%+40], %gs_r9;\n", loop);
        put_part(into, read_signals);
        put_part(into, "\t@!%gs_p2 bra $gs_asked;\n");
    }
    put_part(into, find_queue);
    put_asking(into, loop);
    (loop->form == GS_FORM_CONFINED ? put_answer_confined : put_answer)(into, loop, true);
    put_part(into, "$gs_asked:\n\tbar.warp.sync 0xffffffff;\n");
    put_filled(into, enter_first, loop);
}

/* The first task of a worker block. */
static void put_first(gs_text *into, const gs_block_loop *loop) {
    bool is_confined = loop->form == GS_FORM_CONFINED;
    put_part(into, is_confined && loop->is_ordered ? check_queue : "");
    put_part(into, count_blocks);
    put_filled(into, check_grid, loop);
    if (!loop->is_ordered)
        put_given(into, loop);
    if (is_confined || loop->is_ordered)
        put_asked(into, loop);
}

/* ---- barriers that may be left with arrivals ---- */

/* The words are in the unused parts of the two tasks. */
uint32_t gs_block_loop_arrivals_at(const gs_block_loop *loop, uint32_t barrier) {
    static const uint32_t words[] = {48, 52, 56, 60, 112, 116, 120, 124};
    uint32_t place = 0;
    for (uint32_t i = 0; i < barrier; i++)
        place += loop->arrivals >> i & 1;
    return place < GS_COUNT(words) ? words[place] : 0;
}

static void put_each_arrival(gs_text *into, const gs_block_loop *loop, const char *before) {
    for (uint32_t i = 0; i < GS_PTX_BARRIERS; i++)
        if (loop->arrivals >> i & 1)
            gs_text_add(into, "\t%s st.shared.u32 [%%gs_r3+%u], 0;\n", before, gs_block_loop_arrivals_at(loop, i));
}

static void put_first_arrivals(gs_text *into, const gs_block_loop *loop) {
    if (!loop->arrivals)
        return;
    put_filled(into, "\tmov.u32 %gs_r3, %OURS%;\n", loop);
    put_each_arrival(into, loop, "@!%gs_p0");
}

/* %gs_r0: the number of the thread in its block. */
static const char number_thread[] = "\tmov.u32 %gs_r0, %tid.z;\n"
                                    "\tmov.u32 %gs_r1, %ntid.y;\n"
                                    "\tmov.u32 %gs_r2, %tid.y;\n"
                                    "\tmad.lo.u32 %gs_r0, %gs_r0, %gs_r1, %gs_r2;\n"
                                    "\tmov.u32 %gs_r1, %ntid.x;\n"
                                    "\tmov.u32 %gs_r2, %tid.x;\n"
                                    "\tmad.lo.u32 %gs_r0, %gs_r0, %gs_r1, %gs_r2;\n";

/* When all threads have ended the block, as many warps arrive at a barrier as it still waits for. Then the counters
   begin again. */
static void put_last_arrivals(gs_text *into, const gs_block_loop *loop) {
    if (!loop->arrivals)
        return;
    put_filled(into, "\tbar.sync %BARRIER%;\n", loop);
    put_part(into, number_thread);
    put_part(into, "\tand.b32 %gs_r4, %gs_r0, 0xffffffe0;\n\tand.b32 %gs_r3, %gs_place, 0x7ff80;\n");
    for (uint32_t i = 0; i < GS_PTX_BARRIERS; i++)
        if (loop->arrivals >> i & 1) {
            uint32_t count = loop->arrival_counts[i];
            gs_text_add(into, "\tld.volatile.shared.u32 %%gs_r5, [%%gs_r3+%u];\n\trem.u32 %%gs_r5, %%gs_r5, %u;\n",
                        gs_block_loop_arrivals_at(loop, i), count);
            gs_text_add(into, "\tsetp.ne.u32 %%gs_p1, %%gs_r5, 0;\n\tsub.u32 %%gs_r5, %u, %%gs_r5;\n", count);
            gs_text_add(into, "\tsetp.lt.and.u32 %%gs_p1, %%gs_r4, %%gs_r5, %%gs_p1;\n\t@%%gs_p1 bar.arrive %u, %u;\n",
                        i, count);
        }
    put_filled(into, "\tbar.sync %BARRIER%;\n", loop);
    put_part(into, "\tsetp.eq.u32 %gs_p1, %gs_r0, 0;\n");
    put_each_arrival(into, loop, "@%gs_p1");
    put_filled(into, "\tbar.sync %BARRIER%;\n", loop);
}

void gs_block_loop_begin(gs_text *into, const gs_block_loop *loop) {
    put_part(into, declarations);
    put_part(into, loop->exited_threads_wait ? exited_declarations : "");
    put_part(into, loop->has_votes ? vote_declarations : "");
    if (loop->masks)
        gs_text_add(into, "\t.reg .b32 %%gs_m<%u>;\n", loop->masks);
    put_part(into, loop->has_mbarriers ? "\t.reg .b32 %gs_again;\n\tmov.u32 %gs_again, 0;\n" : "");
    if (loop->is_behind) {
        put_filled(into, check_shared, loop);
        gs_block_loop_find(into, loop, "%gs_ours", "%gs_r3");
    }
    put_part(into, find_first);
    put_part(into, loop->needs_whole_rows ? check_rows : "");
    put_part(into, loop->needs_one_row ? check_one_row : "");
    put_part(into, loop->needs_one_row || loop->needs_one_layer ? check_one_layer : "");
    put_filled(into, loop->exited_threads_wait ? prepare_exited : "", loop);
    put_part(into, loop->has_votes ? prepare_votes : "");
    put_first_arrivals(into, loop);
    put_first(into, loop);
    put_part(into, enter_task);
    put_part(into, enter_block);
    put_uniform_block(into, loop);
    put_part(into, loop->exited_threads_wait ? "\tadd.u32 %gs_all, %gs_all, %gs_threads;\n" : "");
    put_part(into, loop->counts_blocks ? mark_block : "");
    for (uint32_t i = 0; i < loop->masks; i++)
        gs_text_add(into, "\tmov.b32 %%gs_m%u, 0xffffffff;\n", i);
    if (loop->stores_block)
        gs_block_loop_store_block(into, loop);
}

static void put_taking_persistent(gs_text *into, const gs_block_loop *loop) {
    put_part(into, begin_taking);
    put_part(into, find_queue);
    put_part(into, time_task);
    put_part(into, "\t@%gs_p1 bra $gs_slow;\n$gs_ask:\n");
    put_asking(into, loop);
    put_part(into, count_blocks);
    put_answer(into, loop, false);
}

static void put_taking_confined(gs_text *into, const gs_block_loop *loop) {
    put_part(into, begin_taking_confined);
    put_part(into, find_job);
    put_part(into, count_blocks);
    put_part(into, time_task_confined);
    put_part(into, ask_if_short);
    put_part(into, find_signals);
    put_part(into, load_signals);
    put_part(into, read_signals);
    put_part(into, ask_if_allowed);
    put_part(into, find_signals);
    put_filled(into, spare_signals, loop);
    put_part(into, load_signals);
    put_filled(into, size_task_confined, loop);
    put_part(into, find_queue);
    put_asking(into, loop);
    put_answer_confined(into, loop, false);
}

/* The first thread takes a task; then all threads continue with it. If blocks wait both for lower ones and for holders
   of a lock or of a lower ticket, which may have any number, each block that was taken must have begun: otherwise a
   holder may wait for a lower block, whose worker block waits for the holder. So tasks have one block then, and it is
   taken when the last thread has ended the block before. */
static void put_taking(gs_text *into, const gs_block_loop *loop) {
    bool is_confined = loop->form == GS_FORM_CONFINED;
    put_part(into, "$gs_take:\n");
    put_filled(into, loop->takes_single && !loop->exited_threads_wait ? "\tbar.sync %BARRIER%;\n" : "", loop);
    put_part(into, is_confined || !loop->is_ordered ? leave_after_last : "");
    put_part(into, find_first);
    (is_confined ? put_taking_confined : put_taking_persistent)(into, loop);
    put_filled(into, "$gs_meet:\n\tbar.warp.sync 0xffffffff;\n\tbar.sync %BARRIER%;\n", loop);
    put_part(into, is_confined ? "\txor.b32 %gs_r6, %gs_place, 64;\n" : "\tmov.u32 %gs_r6, %gs_r17;\n");
    put_part(into, "\tbra $gs_enter;\n");
    put_part(into, is_confined ? "" : size_again);
}

/* Bulk copies of the next block come after the accesses of this one to the same shared memory. */
static const char finish_bulk_copies[] = "\tcp.async.bulk.wait_group 0;\n"
                                         "\tfence.proxy.async;\n";

void gs_block_loop_end(gs_text *into, const gs_block_loop *loop) {
    bool has_barrier = !loop->warps_are_independent && !loop->exited_threads_wait;
    put_part(into, "$gs_next:\n");
    put_part(into, loop->has_async_copies ? "\tcp.async.wait_all;\n" : "");
    put_part(into, loop->has_bulk_copies ? finish_bulk_copies : "");
    put_part(into, loop->has_mbarriers ? "\tmov.u32 %gs_again, 1;\n" : "");
    put_filled(into, loop->exited_threads_wait ? wait_as_exited : "\tbar.warp.sync 0xffffffff;\n", loop);
    put_part(into, loop->has_group_products ? "\twgmma.wait_group.sync.aligned 0;\n" : "");
    put_last_arrivals(into, loop);
    put_part(into, load_block);
    put_filled(into, has_barrier ? "\tbar.sync %BARRIER%;\n" : "", loop);
    put_part(into, "\tbra $gs_more;\n");
    put_taking(into, loop);
    put_part(into, "$gs_end:\n\tret;\n");
}
