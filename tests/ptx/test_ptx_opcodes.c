/*
 * test_ptx_opcodes.c: the table of instructions.
 *
 * The names are those of chapter 9.7 of the manual, PTX ISA 9.0. Samples say what single instructions do.
 */
#include "test.h"

#include "kernels/ptx/ptx.h"

#include <stdlib.h>

/* Every instruction of the manual, with the suffixes that select it. */
static const char *const manual[] = {
    "add.u32",
    "sub.s32",
    "mul.lo.u32",
    "mad.lo.s32",
    "mul24.lo.u32",
    "mad24.lo.u32",
    "sad.u32",
    "div.u32",
    "rem.u32",
    "abs.s32",
    "neg.s32",
    "min.u32",
    "max.u32",
    "popc.b32",
    "clz.b32",
    "bfind.u32",
    "fns.b32",
    "brev.b32",
    "bfe.u32",
    "bfi.b32",
    "szext.wrap.s32",
    "bmsk.clamp.b32",
    "dp4a.u32.u32",
    "dp2a.lo.u32.u32",
    "add.cc.u32",
    "addc.u32",
    "sub.cc.u32",
    "subc.u32",
    "mad.lo.cc.u32",
    "madc.lo.u32",
    "testp.finite.f32",
    "copysign.f32",
    "fma.rn.f32",
    "rcp.rn.f32",
    "rcp.approx.ftz.f64",
    "sqrt.rn.f32",
    "rsqrt.approx.f32",
    "sin.approx.f32",
    "cos.approx.f32",
    "lg2.approx.f32",
    "ex2.approx.f32",
    "tanh.approx.f32",
    "set.lt.u32.u32",
    "setp.lt.u32",
    "selp.b32",
    "slct.u32.s32",
    "and.b32",
    "or.b32",
    "xor.b32",
    "not.b32",
    "cnot.b32",
    "lop3.b32",
    "shf.l.wrap.b32",
    "shl.b32",
    "shr.u32",
    "mov.u32",
    "prmt.b32",
    "ld.global.u32",
    "ld.global.nc.u32",
    "ldu.global.u32",
    "st.global.u32",
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32",
    "st.bulk.weak.shared::cta",
    "multimem.ld_reduce.weak.global.add.u32",
    "multimem.st.weak.global.u32",
    "multimem.red.relaxed.sys.global.add.u32",
    "prefetch.global.L2",
    "prefetchu.L1",
    "applypriority.global.L2::evict_normal",
    "discard.global.L2",
    "createpolicy.fractional.L2::evict_last.b64",
    "isspacep.global",
    "cvta.to.global.u64",
    "cvt.u32.u64",
    "cvt.pack.sat.u8.s32.b32",
    "mapa.shared::cluster.u32",
    "getctarank.u32",
    "cp.async.ca.shared.global",
    "cp.async.commit_group",
    "cp.async.wait_group",
    "cp.async.wait_all",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32",
    "cp.async.bulk.prefetch.L2.global",
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group",
    "cp.async.bulk.prefetch.tensor.2d.L2.global",
    "cp.async.bulk.commit_group",
    "cp.async.bulk.wait_group",
    "tensormap.replace.tile.global_address.global.b1024.b64",
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned",
    "tex.2d.v4.f32.f32",
    "tld4.r.2d.v4.f32.f32",
    "txq.width.b32",
    "istypep.texref",
    "suld.b.2d.b32.trap",
    "sust.b.2d.b32.trap",
    "sured.b.add.2d.u32.trap",
    "suq.width.b32",
    "bra",
    "bra.uni",
    "brx.idx",
    "call",
    "call.uni",
    "ret",
    "exit",
    "bar.sync",
    "bar.arrive",
    "bar.red.popc.u32",
    "bar.cta.sync",
    "bar.cta.arrive",
    "bar.cta.red.and.pred",
    "barrier.sync",
    "barrier.arrive",
    "barrier.red.or.pred",
    "barrier.cta.sync.aligned",
    "barrier.cta.arrive.aligned",
    "barrier.cta.red.popc.aligned.u32",
    "bar.warp.sync",
    "barrier.cluster.arrive.aligned",
    "barrier.cluster.wait",
    "membar.gl",
    "fence.acq_rel.gpu",
    "fence.proxy.async",
    "fence.mbarrier_init.release.cluster",
    "atom.global.add.u32",
    "red.global.add.u32",
    "red.async.relaxed.cluster.shared::cluster.add.u32",
    "vote.all.pred",
    "vote.sync.any.pred",
    "vote.sync.ballot.b32",
    "match.any.sync.b32",
    "match.all.sync.b32",
    "activemask.b32",
    "redux.sync.add.u32",
    "griddepcontrol.wait",
    "griddepcontrol.launch_dependents",
    "elect.sync",
    "mbarrier.init.shared.b64",
    "mbarrier.inval.shared.b64",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64",
    "mbarrier.complete_tx.relaxed.cta.shared::cta.b64",
    "mbarrier.arrive.shared.b64",
    "mbarrier.arrive_drop.shared.b64",
    "cp.async.mbarrier.arrive.shared.b64",
    "mbarrier.test_wait.shared.b64",
    "mbarrier.try_wait.parity.shared.b64",
    "mbarrier.pending_count.b64",
    "tensormap.cp_fenceproxy.global.shared::cta",
    "clusterlaunchcontrol.try_cancel.async",
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128",
    "wmma.load.a.sync.aligned.row.m16n16k16.f16",
    "wmma.store.d.sync.aligned.row.m16n16k16.f32",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
    "stmatrix.sync.aligned.m8n8.x4.shared.b16",
    "movmatrix.sync.aligned.m8n8.trans.b16",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
    "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16",
    "wgmma.fence.sync.aligned",
    "wgmma.commit_group.sync.aligned",
    "wgmma.wait_group.sync.aligned",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32",
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32",
    "tcgen05.st.sync.aligned.32x32b.x1.b32",
    "tcgen05.wait::ld.sync.aligned",
    "tcgen05.cp.cta_group::1.128x256b",
    "tcgen05.shift.cta_group::1.down",
    "tcgen05.mma.cta_group::1.kind::f16",
    "tcgen05.commit.cta_group::1.b64",
    "tcgen05.fence::before_thread_sync",
    "alloca.u64",
    "stacksave.u64",
    "stackrestore.u64",
    "vadd.u32.u32.u32",
    "vsub.u32.u32.u32",
    "vabsdiff.u32.u32.u32",
    "vmin.u32.u32.u32",
    "vmax.u32.u32.u32",
    "vshl.u32.u32.u32.clamp",
    "vshr.u32.u32.u32.clamp",
    "vmad.u32.u32.u32",
    "vset.u32.u32.lt",
    "vadd2.u32.u32.u32",
    "vsub2.u32.u32.u32",
    "vavrg2.u32.u32.u32",
    "vabsdiff2.u32.u32.u32",
    "vmin2.u32.u32.u32",
    "vmax2.u32.u32.u32",
    "vset2.u32.u32.lt",
    "vadd4.u32.u32.u32",
    "vsub4.u32.u32.u32",
    "vavrg4.u32.u32.u32",
    "vabsdiff4.u32.u32.u32",
    "vmin4.u32.u32.u32",
    "vmax4.u32.u32.u32",
    "vset4.u32.u32.lt",
    "brkpt",
    "nanosleep.u32",
    "pmevent",
    "trap",
    "setmaxnreg.inc.sync.aligned.u32",
    "shfl.up.b32",
    "shfl.sync.up.b32",
    "shfl.sync.idx.b32",
};

TEST(every_instruction_of_the_manual_has_a_row) {
    for (size_t i = 0; i < GS_COUNT(manual); i++)
        if (!gs_ptx_opcode_find(manual[i], strlen(manual[i])))
            fail_msg("%s has no row", manual[i]);
}

/* A search by halves finds each row only if the table is sorted; and each row has what its readers rely on. */
TEST(every_row_is_found_and_complete) {
    uint16_t row = 1;
    for (; gs_ptx_opcode_at(row)->class != GS_PTX_UNKNOWN; row++) {
        const gs_ptx_opcode *opcode = gs_ptx_opcode_at(row);
        assert_int_equal(gs_ptx_opcode_find(opcode->name, strlen(opcode->name)), row);
        assert_true(*opcode->operands);
        assert_int_equal(strspn(opcode->operands, "wrmlsu"), strlen(opcode->operands));
        if (strpbrk(opcode->operands, "lu"))
            assert_true(opcode->reads);
        if (strpbrk(opcode->operands, "su"))
            assert_true(opcode->writes);
    }
    assert_true(row > 150);
    assert_string_equal(gs_ptx_opcode_at(0)->refused, "unknown instruction");
}

/* ptxas takes the suffixes of these in any order. */
TEST(suffixes_may_come_in_any_order) {
    static const char *const words[][2] = {
        {"vote.ballot.sync.b32", "vote.sync.ballot"},
        {"vote.b32.ballot.sync", "vote.sync.ballot"},
        {"vote.all.sync.pred", "vote.sync"},
        {"vote.ballot.b32", "vote"},
        {"shfl.b32.sync.idx", "shfl.sync.idx"},
        {"shfl.up.sync.b32", "shfl.sync"},
        {"shfl.idx.b32", "shfl"},
        {"match.sync.any.b32", "match.any.sync"},
        {"match.all.b32.sync", "match.all.sync"},
        {"redux.add.sync.s32", "redux.sync"},
        {"red.relaxed.async", "red.async"},
        {"barrier.cluster.arrive", "barrier.cluster"},
        {"mbarrier.arrive.expect_tx", "mbarrier.arrive"},
        {"cp.async.bulk.commit_group", "cp.async.bulk.commit_group"},
    };
    for (size_t i = 0; i < GS_COUNT(words); i++) {
        uint16_t row = gs_ptx_opcode_find(words[i][0], strlen(words[i][0]));
        assert_string_equal(gs_ptx_opcode_at(row)->name, words[i][1]);
    }
}

TEST(words_that_no_manual_has_are_unknown) {
    static const char *const words[] = {
        "frobnicate.u32",       "bar",         "barrier.cta",         "addx.u32",      "ad", "st2", "mbarrier.new.b64",
        "griddepcontrol.other", "wgmma.other", "match.some.sync.b32", "multimem.other"};
    for (size_t i = 0; i < GS_COUNT(words); i++)
        if (gs_ptx_opcode_find(words[i], strlen(words[i])))
            fail_msg("%s has a row", words[i]);
}

enum { G = GS_PTX_IN_GLOBAL, S = GS_PTX_IN_SHARED, L = GS_PTX_IN_LOCAL, P = GS_PTX_IN_PARAM, C = GS_PTX_IN_CONST };
enum { X = GS_PTX_IN_CLUSTER, ANY = G | S | L, NONE = -1 };

/* What an instruction does with memory: the sets, and the operands that are addresses. */
static const struct {
    const char *text;
    uint8_t reads, writes;
    int read_at, written_at;
    bool is_strong, reads_constants;
    gs_ptx_atomic kind;
} samples[] = {
    {"add.u32 %r1, %r2, 1;", 0, 0, NONE, NONE, false, false, GS_PTX_NOT_ATOMIC},
    {"ld.u32 %r1, [%d1];", ANY, 0, 1, NONE, false, false, GS_PTX_NOT_ATOMIC},
    {"ld.global.u32 %r1, [%d1+4];", G, 0, 1, NONE, false, false, GS_PTX_NOT_ATOMIC},
    {"ld.global.nc.L1::no_allocate.v2.u32 {%r1, %r2}, [%d1];", G, 0, 1, NONE, false, true, GS_PTX_NOT_ATOMIC},
    {"ld.global.cv.u32 %r1, [%d1];", G, 0, 1, NONE, true, false, GS_PTX_NOT_ATOMIC},
    {"ld.volatile.shared.u32 %r1, [%r2];", S, 0, 1, NONE, true, false, GS_PTX_NOT_ATOMIC},
    {"ld.acquire.gpu.u32 %r1, [%d1];", ANY, 0, 1, NONE, true, false, GS_PTX_NOT_ATOMIC},
    {"ld.shared::cluster.u32 %r1, [%r2];", S | X, 0, 1, NONE, false, false, GS_PTX_NOT_ATOMIC},
    {"ld.const.u32 %r1, [%d1];", C, 0, 1, NONE, false, true, GS_PTX_NOT_ATOMIC},
    {"ld.param::entry.u32 %r1, [p];", P, 0, 1, NONE, false, true, GS_PTX_NOT_ATOMIC},
    {"ldu.global.u32 %r1, [%d1];", G, 0, 1, NONE, false, false, GS_PTX_NOT_ATOMIC},
    {"st.u32 [%d1], %r1;", 0, ANY, NONE, 0, false, false, GS_PTX_NOT_ATOMIC},
    {"st.local.v2.u32 [%d1], {%r1, %r2};", 0, L, NONE, 0, false, false, GS_PTX_NOT_ATOMIC},
    {"st.release.gpu.global.u32 [%d1], %r1;", 0, G, NONE, 0, true, false, GS_PTX_NOT_ATOMIC},
    {"st.mmio.relaxed.sys.global.u32 [%d1], %r1;", 0, G, NONE, 0, true, false, GS_PTX_NOT_ATOMIC},
    {"atom.global.add.u32 %r1, [%d1], 1;", G, G, 1, 1, true, false, GS_PTX_ATOMIC_ADD},
    {"atom.shared.cas.b32 %r1, [%r2], 0, 1;", S, S, 1, 1, true, false, GS_PTX_ATOMIC_CAS},
    {"atom.acq_rel.gpu.inc.u32 %r1, [%d1], 7;", ANY, ANY, 1, 1, true, false, GS_PTX_ATOMIC_INC},
    {"red.global.or.b32 [%d1], %r1;", G, G, 0, 0, true, false, GS_PTX_ATOMIC_OR},
    {"red.relaxed.gpu.global.add.noftz.f16x2 [%d1], %r1;", G, G, 0, 0, true, false, GS_PTX_ATOMIC_ADD},
    {"multimem.ld_reduce.weak.global.add.u32 %r1, [%d1];", G, 0, 1, NONE, true, false, GS_PTX_NOT_ATOMIC},
    {"multimem.red.relaxed.sys.global.max.u32 [%d1], %r1;", G, G, 0, 0, true, false, GS_PTX_ATOMIC_MAX},
    {"multimem.st.weak.global.u32 [%d1], %r1;", 0, G, NONE, 0, false, false, GS_PTX_NOT_ATOMIC},
    {"cp.async.ca.shared.global [%r1], [%d1], 16;", G, S, 1, 0, false, false, GS_PTX_NOT_ATOMIC},
    {"cp.async.wait_all;", 0, 0, NONE, NONE, false, false, GS_PTX_NOT_ATOMIC},
    {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], 64, [%r2];", G, S | X, 1, NONE,
     false, false, GS_PTX_NOT_ATOMIC}, /* it writes the mbarrier, too */
    {"cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 64;", S, G, 1, 0, false, false, GS_PTX_NOT_ATOMIC},
    {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [%r1], 64;", S, G, 1, 0, false, false,
     GS_PTX_ATOMIC_ADD},
    {"cp.async.bulk.prefetch.L2.global [%d1], 64;", 0, 0, NONE, NONE, false, false, GS_PTX_NOT_ATOMIC},
    {"cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1, {%r2}], [%r3];", G,
     S | X, NONE, NONE, false, false, GS_PTX_NOT_ATOMIC},
    {"cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%d1, {%r2}], [%r3];", S, G, NONE, NONE, false, false,
     GS_PTX_NOT_ATOMIC},
    {"st.bulk.weak.shared::cta [%r1], 64, 0;", 0, S, NONE, 0, false, false, GS_PTX_NOT_ATOMIC},
    {"wmma.load.c.sync.aligned.row.m16n16k16.global.f16 {%r1, %r2}, [%d1], 16;", G, 0, 1, NONE, false, false,
     GS_PTX_NOT_ATOMIC},
    {"wmma.store.d.sync.aligned.row.m16n16k16.f16 [%d1], {%r1, %r2}, 16;", 0, ANY, NONE, 0, false, false,
     GS_PTX_NOT_ATOMIC},
    {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];", S, 0, 1, NONE, false, false, GS_PTX_NOT_ATOMIC},
    {"stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r1};", 0, S, NONE, 0, false, false, GS_PTX_NOT_ATOMIC},
    {"tex.1d.v4.f32.s32 {%r1, %r2, %r3, %r4}, [%d1, {%r5}];", C, 0, NONE, NONE, false, true, GS_PTX_NOT_ATOMIC},
    {"suld.b.1d.b32.trap %r1, [%d1, {%r5}];", G, 0, NONE, NONE, false, false, GS_PTX_NOT_ATOMIC},
    {"sust.b.1d.b32.trap [%d1, {%r5}], %r1;", 0, G, NONE, NONE, false, false, GS_PTX_NOT_ATOMIC},
    {"sured.b.min.1d.u32.trap [%d1, {%r5}], %r1;", G, G, NONE, NONE, false, false, GS_PTX_ATOMIC_MIN},
    {"mbarrier.init.shared.b64 [%r1], 1;", 0, S, NONE, 0, true, false, GS_PTX_NOT_ATOMIC},
    {"mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;", S, 0, 1, NONE, true, false, GS_PTX_NOT_ATOMIC},
    {"discard.global.L2 [%d1], 128;", 0, G, NONE, 0, false, false, GS_PTX_NOT_ATOMIC},
    {"prefetch.global.L2 [%d1];", 0, 0, NONE, NONE, false, false, GS_PTX_NOT_ATOMIC},
};

TEST(instructions_say_which_memory_they_access) {
    for (size_t i = 0; i < GS_COUNT(samples); i++) {
        gs_ptx_module module;
        gs_error error;
        gs_text text = {0};
        gs_text_add(&text,
                    ".version 8.6\n.target sm_90\n.address_size 64\n.entry k(.param .u32 p)\n{\n.reg .b32 %%r<9>;\n"
                    ".reg .b64 %%d<3>;\n.reg .pred %%p<3>;\n%s\nret;\n}\n",
                    samples[i].text);
        assert_int_equal(gs_ptx_read(&module, "m.ptx", text.data, text.count, &error), GS_OK);
        const gs_ptx_statement *statement = &module.statements.data[4];
        bool is_right = gs_ptx_reads(&module, statement) == samples[i].reads &&
                        gs_ptx_writes(&module, statement) == samples[i].writes &&
                        (int)gs_ptx_address_read(&module, statement) == samples[i].read_at &&
                        (int)gs_ptx_address_written(&module, statement) == samples[i].written_at &&
                        gs_ptx_is_strong(&module, statement) == samples[i].is_strong &&
                        gs_ptx_reads_constants(&module, statement) == samples[i].reads_constants &&
                        gs_ptx_atomic_kind(&module, statement) == samples[i].kind;
        if (!is_right)
            fail_msg("%s: reads %d at %d, writes %d at %d, strong %d, constants %d, kind %d", samples[i].text,
                     gs_ptx_reads(&module, statement), (int)gs_ptx_address_read(&module, statement),
                     gs_ptx_writes(&module, statement), (int)gs_ptx_address_written(&module, statement),
                     gs_ptx_is_strong(&module, statement), gs_ptx_reads_constants(&module, statement),
                     (int)gs_ptx_atomic_kind(&module, statement));
        gs_ptx_free(&module);
        gs_text_free(&text);
    }
}

TEST_MAIN(NULL, NULL)
