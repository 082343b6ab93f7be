/* classes.h: PTX whose meaning is known, and the class that its machine instruction must have. See test_flow.c. */
#ifndef CLASSES_H
#define CLASSES_H

/* Of %r1 to %r4 (32 bits), %rd1 (an address), %rd2, %f1 to %f4, %d1, %d2, %h1 to %h3 (16 bits), %p1; what is stored is
   in %r9. */
static const struct {
    const char *statements, *class_name;
} classes[] = {
    {"add.s32 %r9, %r1, %r2;", "alu"},
    {"sub.s32 %r9, %r1, %r2;", "alu"},
    {"and.b32 %r9, %r1, %r2;", "alu"},
    {"xor.b32 %r9, %r1, %r2;", "alu"},
    {"shf.l.wrap.b32 %r9, %r1, %r2, %r3;", "alu"},
    {"shr.s32 %r9, %r1, %r2;", "alu"},
    {"min.s32 %r9, %r1, %r2;", "alu"},
    {"setp.lt.s32 %p1, %r1, %r2; selp.b32 %r9, %r3, %r4, %p1;", "alu"},
    {"prmt.b32 %r9, %r1, %r2, %r3;", "alu"},
    {"abs.s32 %r9, %r1;", "alu"},
    {"mad.lo.s32 %r9, %r1, %r2, %r3;", "fma"},
    {"mul.hi.u32 %r9, %r1, %r2;", "special"},
    {"mul.wide.u32 %rd2, %r1, %r2; mov.b64 {%r9, %r8}, %rd2; xor.b32 %r9, %r9, %r8;", "fma"},
    {"add.rn.f32 %f4, %f1, %f2; mov.b32 %r9, %f4;", "fma_float"},
    {"mul.rn.f32 %f4, %f1, %f2; mov.b32 %r9, %f4;", "fma_float"},
    {"fma.rn.f32 %f4, %f1, %f2, %f3; mov.b32 %r9, %f4;", "fma_float"},
    {"min.f32 %f4, %f1, %f2; mov.b32 %r9, %f4;", "alu"},
    {"setp.lt.f32 %p1, %f1, %f2; selp.b32 %r9, %r3, %r4, %p1;", "alu"},
    {"fma.rn.f64 %d2, %d1, %d1, %d1; mov.b64 {%r9, %r8}, %d2;", "fp64"},
    {"add.rn.f64 %d2, %d1, %d1; mov.b64 {%r9, %r8}, %d2;", "fp64"},
    {"mul.rn.f64 %d2, %d1, %d1; mov.b64 {%r9, %r8}, %d2;", "fp64"},
    {"fma.rn.f16x2 %r9, %r1, %r2, %r3;", "half"},
    {"add.rn.f16x2 %r9, %r1, %r2;", "half"},
    {"ex2.approx.ftz.f32 %f4, %f1; mov.b32 %r9, %f4;", "special"},
    {"rsqrt.approx.ftz.f32 %f4, %f1; mov.b32 %r9, %f4;", "special"},
    {"sin.approx.ftz.f32 %f4, %f1; mov.b32 %r9, %f4;", "special"},
    {"popc.b32 %r9, %r1;", "convert"},
    {"brev.b32 %r9, %r1;", "convert"},
    {"clz.b32 %r9, %r1;", "convert"},
    {"cvt.rni.s32.f32 %r9, %f1;", "convert"},
    {"cvt.rn.f64.s32 %d2, %r1; mov.b64 {%r9, %r8}, %d2;", "convert"},
    {"cvt.rni.f32.f32 %f4, %f1; mov.b32 %r9, %f4;", "convert"},
    {"mov.u32 %r9, %laneid;", "special_register"},
    {"mov.u32 %r9, %clock;", "special_register"},
    {"shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;", "shuffle"},
    {"match.all.sync.b32 %r9, %r1, -1;", "shuffle"},
    {"setp.lt.s32 %p1, %r1, %r2; vote.sync.ballot.b32 %r9, %p1, -1;", "vote"},
    {"redux.sync.add.s32 %r9, %r1, -1;", "move_uniform"},
    {"ld.global.u32 %r9, [%rd1+64];", "global_load"},
    {"st.global.u32 [%rd1+64], %r1; mov.u32 %r9, %r1;", "global_store"},
    {"atom.global.add.u32 %r9, [%rd1], %r1;", "global_atomic"},
    {"red.global.add.u32 [%rd1+64], %r1; mov.u32 %r9, %r1;", "global_atomic"},
    {"ld.u32 %r9, [%rd2];", "generic_load"},
    {"st.u32 [%rd2], %r1; mov.u32 %r9, %r1;", "generic_store"},
    {"atom.add.u32 %r9, [%rd2], %r1;", "generic_atomic"},
    {"and.b32 %r1, %r1, 252; st.shared.u32 [%r1], %r2; mov.u32 %r9, %r2;", "shared_store"},
    {"and.b32 %r1, %r1, 252; ld.volatile.shared.u32 %r9, [%r1];", "shared_load"},
    {"and.b32 %r1, %r1, 252; atom.shared.add.u32 %r9, [%r1], %r2;", "shared_atomic"},
    {"and.b32 %r1, %r1, 240; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%r1];", "matrix_load"},
    {"and.b32 %r1, %r1, 240; cp.async.ca.shared.global [%r1], [%rd1], 16; mov.u32 %r9, %r2;", "async_copy"},
    {"mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r9, %r8}, {%r1, %r2}, {%r3}, {%r4, %r5};", "tensor"},
    {"and.b32 %r1, %r1, 12; mov.u32 %r8, scratch; add.u32 %r7, %r8, %r1; st.local.u32 [%r7], %r2; ld.local.u32 %r9, "
     "[%r8];",
     "local_store"},
    {"and.b32 %r1, %r1, 12; mov.u32 %r8, scratch; add.u32 %r7, %r8, %r1; st.local.u32 [%r7], %r2; ld.local.u32 %r9, "
     "[%r8];",
     "local_load"},
    {"and.b32 %r1, %r1, 12; mov.u32 %r8, table; add.u32 %r8, %r8, %r1; ld.const.u32 %r9, [%r8];", "constant"},
    {"bar.sync 0; mov.u32 %r9, %r1;", "barrier"},
    {"membar.gl; mov.u32 %r9, %r1;", "fence"},
};

#endif
