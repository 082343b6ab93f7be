/*
 * test_ptx_recorded.c: instructions of PTX compute on the CPU what an H200 computed.
 *
 * For instructions that are exact, the digest of all results on an H200 is recorded here (ptx_numbers.h has the
 * numbers). Instructions that are approximate are compared with the error that the PTX manual states.
 *
 * GRIDSMITH_ON=cuda compares the CPU with a GPU, shows what differs, and prints the digests of the GPU.
 */
#include "test.h"

#include "ptx_numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- exact instructions ---- */

static const struct recorded {
    const char *code;
    char width;
    uint64_t digest; /* of the results of an H200 */
} recorded[] = {
    {"div.u16 h, ha, hb;", 'h', 0},
    {"rem.u16 h, ha, hb;", 'h', 0},
    {"div.s16 h, ha, hb;", 'h', 0},
    {"rem.s16 h, ha, hb;", 'h', 0},
    {"div.u64 D, A, B;", 'd', 0},
    {"rem.s64 D, A, B;", 'd', 0},
    {"bfe.u64 D, A, b, c;", 'd', 0},
    {"bfe.s64 D, A, b, c;", 'd', 0},
    {"bfi.b64 D, A, B, b, c;", 'd', 0},
    {"bfi.b32 w, a, b, b, c;", 'w', 0},
    {"add.rn.f64 D, A, B;", 'd', 0},
    {"add.rn.ftz.f32 w, a, b;", 'w', 0},
    {"sub.rn.f64 D, A, B;", 'd', 0},
    {"sub.rn.ftz.f32 w, a, b;", 'w', 0},
    {"mul.rn.f64 D, A, B;", 'd', 0},
    {"mul.rn.ftz.f32 w, a, b;", 'w', 0},
    {"div.rn.f64 D, A, B;", 'd', 0},
    {"div.rn.ftz.f32 w, a, b;", 'w', 0},
    {"fma.rn.f64 D, A, B, C;", 'd', 0},
    {"fma.rn.f32 w, a, b, c;", 'w', 0},
    {"rcp.rn.f64 D, A;", 'd', 0},
    {"sqrt.rn.f64 D, A;", 'd', 0},
    {"sqrt.rn.ftz.f32 w, a;", 'w', 0},
    {"rcp.rn.ftz.f32 w, a;", 'w', 0},
    {"add.rz.f64 D, A, B;", 'd', 0},
    {"add.rz.ftz.f32 w, a, b;", 'w', 0},
    {"sub.rz.f64 D, A, B;", 'd', 0},
    {"sub.rz.ftz.f32 w, a, b;", 'w', 0},
    {"mul.rz.f64 D, A, B;", 'd', 0},
    {"mul.rz.ftz.f32 w, a, b;", 'w', 0},
    {"div.rz.f64 D, A, B;", 'd', 0},
    {"div.rz.ftz.f32 w, a, b;", 'w', 0},
    {"fma.rz.f64 D, A, B, C;", 'd', 0},
    {"fma.rz.f32 w, a, b, c;", 'w', 0},
    {"rcp.rz.f64 D, A;", 'd', 0},
    {"sqrt.rz.f64 D, A;", 'd', 0},
    {"sqrt.rz.ftz.f32 w, a;", 'w', 0},
    {"rcp.rz.ftz.f32 w, a;", 'w', 0},
    {"add.rm.f64 D, A, B;", 'd', 0},
    {"add.rm.ftz.f32 w, a, b;", 'w', 0},
    {"sub.rm.f64 D, A, B;", 'd', 0},
    {"sub.rm.ftz.f32 w, a, b;", 'w', 0},
    {"mul.rm.f64 D, A, B;", 'd', 0},
    {"mul.rm.ftz.f32 w, a, b;", 'w', 0},
    {"div.rm.f64 D, A, B;", 'd', 0},
    {"div.rm.ftz.f32 w, a, b;", 'w', 0},
    {"fma.rm.f64 D, A, B, C;", 'd', 0},
    {"fma.rm.f32 w, a, b, c;", 'w', 0},
    {"rcp.rm.f64 D, A;", 'd', 0},
    {"sqrt.rm.f64 D, A;", 'd', 0},
    {"sqrt.rm.ftz.f32 w, a;", 'w', 0},
    {"rcp.rm.ftz.f32 w, a;", 'w', 0},
    {"add.rp.f64 D, A, B;", 'd', 0},
    {"add.rp.ftz.f32 w, a, b;", 'w', 0},
    {"sub.rp.f64 D, A, B;", 'd', 0},
    {"sub.rp.ftz.f32 w, a, b;", 'w', 0},
    {"mul.rp.f64 D, A, B;", 'd', 0},
    {"mul.rp.ftz.f32 w, a, b;", 'w', 0},
    {"div.rp.f64 D, A, B;", 'd', 0},
    {"div.rp.ftz.f32 w, a, b;", 'w', 0},
    {"fma.rp.f64 D, A, B, C;", 'd', 0},
    {"fma.rp.f32 w, a, b, c;", 'w', 0},
    {"rcp.rp.f64 D, A;", 'd', 0},
    {"sqrt.rp.f64 D, A;", 'd', 0},
    {"sqrt.rp.ftz.f32 w, a;", 'w', 0},
    {"rcp.rp.ftz.f32 w, a;", 'w', 0},
    {"neg.f32 w, a;", 'w', 0},
    {"neg.f64 D, A;", 'd', 0},
    {"neg.f16 h, ha;", 'h', 0},
    {"neg.bf16 h, ha;", 'h', 0},
    {"neg.f16x2 w, a;", 'w', 0},
    {"neg.bf16x2 w, a;", 'w', 0},
    {"neg.ftz.f32 w, a;", 'w', 0},
    {"neg.ftz.f16 h, ha;", 'h', 0},
    {"abs.f32 w, a;", 'w', 0},
    {"abs.f64 D, A;", 'd', 0},
    {"abs.f16 h, ha;", 'h', 0},
    {"abs.bf16 h, ha;", 'h', 0},
    {"abs.f16x2 w, a;", 'w', 0},
    {"abs.bf16x2 w, a;", 'w', 0},
    {"abs.ftz.f32 w, a;", 'w', 0},
    {"abs.ftz.f16 h, ha;", 'h', 0},
    {"min.f64 D, A, B;", 'd', 0},
    {"min.ftz.f32 w, a, b;", 'w', 0},
    {"min.NaN.f32 w, a, b;", 'w', 0},
    {"min.xorsign.abs.f32 w, a, b;", 'w', 0},
    {"min.NaN.xorsign.abs.f32 w, a, b;", 'w', 0},
    {"min.f16 h, ha, hb;", 'h', 0},
    {"min.NaN.f16 h, ha, hb;", 'h', 0},
    {"min.f16x2 w, a, b;", 'w', 0},
    {"min.bf16 h, ha, hb;", 'h', 0},
    {"min.NaN.bf16 h, ha, hb;", 'h', 0},
    {"min.bf16x2 w, a, b;", 'w', 0},
    {"max.f64 D, A, B;", 'd', 0},
    {"max.ftz.f32 w, a, b;", 'w', 0},
    {"max.NaN.f32 w, a, b;", 'w', 0},
    {"max.xorsign.abs.f32 w, a, b;", 'w', 0},
    {"max.NaN.xorsign.abs.f32 w, a, b;", 'w', 0},
    {"max.f16 h, ha, hb;", 'h', 0},
    {"max.NaN.f16 h, ha, hb;", 'h', 0},
    {"max.f16x2 w, a, b;", 'w', 0},
    {"max.bf16 h, ha, hb;", 'h', 0},
    {"max.NaN.bf16 h, ha, hb;", 'h', 0},
    {"max.bf16x2 w, a, b;", 'w', 0},
    {"copysign.f64 D, A, B;", 'd', 0},
    {"add.rn.f16 h, ha, hb;", 'h', 0},
    {"add.rn.f16x2 w, a, b;", 'w', 0},
    {"sub.rn.f16 h, ha, hb;", 'h', 0},
    {"sub.rn.f16x2 w, a, b;", 'w', 0},
    {"mul.rn.f16 h, ha, hb;", 'h', 0},
    {"mul.rn.f16x2 w, a, b;", 'w', 0},
    {"fma.rn.relu.f16 h, ha, hb, hc;", 'h', 0},
    {"fma.rn.relu.f16x2 w, a, b, c;", 'w', 0},
    {"setp.lt.f16 p, ha, hb;", 'p', 0},
    {"setp.neu.f16 p, ha, hb;", 'p', 0},
    {"add.rn.bf16 h, ha, hb;", 'h', 0},
    {"add.rn.bf16x2 w, a, b;", 'w', 0},
    {"sub.rn.bf16 h, ha, hb;", 'h', 0},
    {"sub.rn.bf16x2 w, a, b;", 'w', 0},
    {"mul.rn.bf16 h, ha, hb;", 'h', 0},
    {"mul.rn.bf16x2 w, a, b;", 'w', 0},
    {"fma.rn.relu.bf16 h, ha, hb, hc;", 'h', 0},
    {"fma.rn.relu.bf16x2 w, a, b, c;", 'w', 0},
    {"setp.lt.bf16 p, ha, hb;", 'p', 0},
    {"setp.neu.bf16 p, ha, hb;", 'p', 0},
    {"add.rn.sat.f16 h, ha, hb;", 'h', 0},
    {"mul.ftz.f16 h, ha, hb;", 'h', 0},
    {"fma.rn.sat.f16 h, ha, hb, hc;", 'h', 0},
    {"fma.rn.ftz.f16 h, ha, hb, hc;", 'h', 0},
    {"fma.rn.sat.f32 w, a, b, c;", 'w', 0},
    {"fma.rn.ftz.f32 w, a, b, c;", 'w', 0},
    {"mul.sat.f32 w, a, b;", 'w', 0},
    {"sub.ftz.sat.f32 w, a, b;", 'w', 0},
    {"cvt.rni.s8.f32 w, a;", 'w', 0},
    {"cvt.rni.s8.f64 w, A;", 'w', 0},
    {"cvt.rni.s8.f16 w, ha;", 'w', 0},
    {"cvt.rni.u8.f32 w, a;", 'w', 0},
    {"cvt.rni.u8.f64 w, A;", 'w', 0},
    {"cvt.rni.u8.f16 w, ha;", 'w', 0},
    {"cvt.rni.s16.f32 h, a;", 'h', 0},
    {"cvt.rni.s16.f64 h, A;", 'h', 0},
    {"cvt.rni.s16.f16 h, ha;", 'h', 0},
    {"cvt.rni.u16.f32 h, a;", 'h', 0},
    {"cvt.rni.u16.f64 h, A;", 'h', 0},
    {"cvt.rni.u16.f16 h, ha;", 'h', 0},
    {"cvt.rni.s32.f32 w, a;", 'w', 0},
    {"cvt.rni.s32.f64 w, A;", 'w', 0},
    {"cvt.rni.s32.f16 w, ha;", 'w', 0},
    {"cvt.rni.u32.f32 w, a;", 'w', 0},
    {"cvt.rni.u32.f64 w, A;", 'w', 0},
    {"cvt.rni.u32.f16 w, ha;", 'w', 0},
    {"cvt.rni.s64.f32 D, a;", 'd', 0},
    {"cvt.rni.s64.f64 D, A;", 'd', 0},
    {"cvt.rni.s64.f16 D, ha;", 'd', 0},
    {"cvt.rni.u64.f32 D, a;", 'd', 0},
    {"cvt.rni.u64.f64 D, A;", 'd', 0},
    {"cvt.rni.u64.f16 D, ha;", 'd', 0},
    {"cvt.rzi.s8.f32 w, a;", 'w', 0},
    {"cvt.rzi.s8.f64 w, A;", 'w', 0},
    {"cvt.rzi.s8.f16 w, ha;", 'w', 0},
    {"cvt.rzi.u8.f32 w, a;", 'w', 0},
    {"cvt.rzi.u8.f64 w, A;", 'w', 0},
    {"cvt.rzi.u8.f16 w, ha;", 'w', 0},
    {"cvt.rzi.s16.f32 h, a;", 'h', 0},
    {"cvt.rzi.s16.f64 h, A;", 'h', 0},
    {"cvt.rzi.s16.f16 h, ha;", 'h', 0},
    {"cvt.rzi.u16.f32 h, a;", 'h', 0},
    {"cvt.rzi.u16.f64 h, A;", 'h', 0},
    {"cvt.rzi.u16.f16 h, ha;", 'h', 0},
    {"cvt.rzi.s32.f32 w, a;", 'w', 0},
    {"cvt.rzi.s32.f64 w, A;", 'w', 0},
    {"cvt.rzi.s32.f16 w, ha;", 'w', 0},
    {"cvt.rzi.u32.f32 w, a;", 'w', 0},
    {"cvt.rzi.u32.f64 w, A;", 'w', 0},
    {"cvt.rzi.u32.f16 w, ha;", 'w', 0},
    {"cvt.rzi.s64.f32 D, a;", 'd', 0},
    {"cvt.rzi.s64.f64 D, A;", 'd', 0},
    {"cvt.rzi.s64.f16 D, ha;", 'd', 0},
    {"cvt.rzi.u64.f32 D, a;", 'd', 0},
    {"cvt.rzi.u64.f64 D, A;", 'd', 0},
    {"cvt.rzi.u64.f16 D, ha;", 'd', 0},
    {"cvt.rmi.s8.f32 w, a;", 'w', 0},
    {"cvt.rmi.s8.f64 w, A;", 'w', 0},
    {"cvt.rmi.s8.f16 w, ha;", 'w', 0},
    {"cvt.rmi.u8.f32 w, a;", 'w', 0},
    {"cvt.rmi.u8.f64 w, A;", 'w', 0},
    {"cvt.rmi.u8.f16 w, ha;", 'w', 0},
    {"cvt.rmi.s16.f32 h, a;", 'h', 0},
    {"cvt.rmi.s16.f64 h, A;", 'h', 0},
    {"cvt.rmi.s16.f16 h, ha;", 'h', 0},
    {"cvt.rmi.u16.f32 h, a;", 'h', 0},
    {"cvt.rmi.u16.f64 h, A;", 'h', 0},
    {"cvt.rmi.u16.f16 h, ha;", 'h', 0},
    {"cvt.rmi.s32.f32 w, a;", 'w', 0},
    {"cvt.rmi.s32.f64 w, A;", 'w', 0},
    {"cvt.rmi.s32.f16 w, ha;", 'w', 0},
    {"cvt.rmi.u32.f32 w, a;", 'w', 0},
    {"cvt.rmi.u32.f64 w, A;", 'w', 0},
    {"cvt.rmi.u32.f16 w, ha;", 'w', 0},
    {"cvt.rmi.s64.f32 D, a;", 'd', 0},
    {"cvt.rmi.s64.f64 D, A;", 'd', 0},
    {"cvt.rmi.s64.f16 D, ha;", 'd', 0},
    {"cvt.rmi.u64.f32 D, a;", 'd', 0},
    {"cvt.rmi.u64.f64 D, A;", 'd', 0},
    {"cvt.rmi.u64.f16 D, ha;", 'd', 0},
    {"cvt.rpi.s8.f32 w, a;", 'w', 0},
    {"cvt.rpi.s8.f64 w, A;", 'w', 0},
    {"cvt.rpi.s8.f16 w, ha;", 'w', 0},
    {"cvt.rpi.u8.f32 w, a;", 'w', 0},
    {"cvt.rpi.u8.f64 w, A;", 'w', 0},
    {"cvt.rpi.u8.f16 w, ha;", 'w', 0},
    {"cvt.rpi.s16.f32 h, a;", 'h', 0},
    {"cvt.rpi.s16.f64 h, A;", 'h', 0},
    {"cvt.rpi.s16.f16 h, ha;", 'h', 0},
    {"cvt.rpi.u16.f32 h, a;", 'h', 0},
    {"cvt.rpi.u16.f64 h, A;", 'h', 0},
    {"cvt.rpi.u16.f16 h, ha;", 'h', 0},
    {"cvt.rpi.s32.f32 w, a;", 'w', 0},
    {"cvt.rpi.s32.f64 w, A;", 'w', 0},
    {"cvt.rpi.s32.f16 w, ha;", 'w', 0},
    {"cvt.rpi.u32.f32 w, a;", 'w', 0},
    {"cvt.rpi.u32.f64 w, A;", 'w', 0},
    {"cvt.rpi.u32.f16 w, ha;", 'w', 0},
    {"cvt.rpi.s64.f32 D, a;", 'd', 0},
    {"cvt.rpi.s64.f64 D, A;", 'd', 0},
    {"cvt.rpi.s64.f16 D, ha;", 'd', 0},
    {"cvt.rpi.u64.f32 D, a;", 'd', 0},
    {"cvt.rpi.u64.f64 D, A;", 'd', 0},
    {"cvt.rpi.u64.f16 D, ha;", 'd', 0},
    {"cvt.rzi.ftz.s32.f32 w, a;", 'w', 0},
    {"cvt.rpi.ftz.s32.f32 w, a;", 'w', 0},
    {"cvt.rzi.sat.u32.f32 w, a;", 'w', 0},
    {"cvt.rn.f32.s64 w, A;", 'w', 0},
    {"cvt.rn.f64.s64 D, A;", 'd', 0},
    {"cvt.rn.f16.s64 h, A;", 'h', 0},
    {"cvt.rn.f32.u64 w, A;", 'w', 0},
    {"cvt.rn.f64.u64 D, A;", 'd', 0},
    {"cvt.rn.f16.u64 h, A;", 'h', 0},
    {"cvt.rn.f32.u32 w, a;", 'w', 0},
    {"cvt.rn.f64.u32 D, a;", 'd', 0},
    {"cvt.rn.f16.u32 h, a;", 'h', 0},
    {"cvt.rn.f32.s32 w, a;", 'w', 0},
    {"cvt.rn.f64.s32 D, a;", 'd', 0},
    {"cvt.rn.f16.s32 h, a;", 'h', 0},
    {"cvt.rn.f32.f64 w, A;", 'w', 0},
    {"cvt.rn.ftz.f32.f64 w, A;", 'w', 0},
    {"cvt.rn.f16.f64 h, A;", 'h', 0},
    {"cvt.rn.f16.f32 h, a;", 'h', 0},
    {"cvt.rz.f32.s64 w, A;", 'w', 0},
    {"cvt.rz.f64.s64 D, A;", 'd', 0},
    {"cvt.rz.f16.s64 h, A;", 'h', 0},
    {"cvt.rz.f32.u64 w, A;", 'w', 0},
    {"cvt.rz.f64.u64 D, A;", 'd', 0},
    {"cvt.rz.f16.u64 h, A;", 'h', 0},
    {"cvt.rz.f32.u32 w, a;", 'w', 0},
    {"cvt.rz.f64.u32 D, a;", 'd', 0},
    {"cvt.rz.f16.u32 h, a;", 'h', 0},
    {"cvt.rz.f32.s32 w, a;", 'w', 0},
    {"cvt.rz.f64.s32 D, a;", 'd', 0},
    {"cvt.rz.f16.s32 h, a;", 'h', 0},
    {"cvt.rz.f32.f64 w, A;", 'w', 0},
    {"cvt.rz.ftz.f32.f64 w, A;", 'w', 0},
    {"cvt.rz.f16.f64 h, A;", 'h', 0},
    {"cvt.rz.f16.f32 h, a;", 'h', 0},
    {"cvt.rm.f32.s64 w, A;", 'w', 0},
    {"cvt.rm.f64.s64 D, A;", 'd', 0},
    {"cvt.rm.f16.s64 h, A;", 'h', 0},
    {"cvt.rm.f32.u64 w, A;", 'w', 0},
    {"cvt.rm.f64.u64 D, A;", 'd', 0},
    {"cvt.rm.f16.u64 h, A;", 'h', 0},
    {"cvt.rm.f32.u32 w, a;", 'w', 0},
    {"cvt.rm.f64.u32 D, a;", 'd', 0},
    {"cvt.rm.f16.u32 h, a;", 'h', 0},
    {"cvt.rm.f32.s32 w, a;", 'w', 0},
    {"cvt.rm.f64.s32 D, a;", 'd', 0},
    {"cvt.rm.f16.s32 h, a;", 'h', 0},
    {"cvt.rm.f32.f64 w, A;", 'w', 0},
    {"cvt.rm.ftz.f32.f64 w, A;", 'w', 0},
    {"cvt.rm.f16.f64 h, A;", 'h', 0},
    {"cvt.rm.f16.f32 h, a;", 'h', 0},
    {"cvt.rp.f32.s64 w, A;", 'w', 0},
    {"cvt.rp.f64.s64 D, A;", 'd', 0},
    {"cvt.rp.f16.s64 h, A;", 'h', 0},
    {"cvt.rp.f32.u64 w, A;", 'w', 0},
    {"cvt.rp.f64.u64 D, A;", 'd', 0},
    {"cvt.rp.f16.u64 h, A;", 'h', 0},
    {"cvt.rp.f32.u32 w, a;", 'w', 0},
    {"cvt.rp.f64.u32 D, a;", 'd', 0},
    {"cvt.rp.f16.u32 h, a;", 'h', 0},
    {"cvt.rp.f32.s32 w, a;", 'w', 0},
    {"cvt.rp.f64.s32 D, a;", 'd', 0},
    {"cvt.rp.f16.s32 h, a;", 'h', 0},
    {"cvt.rp.f32.f64 w, A;", 'w', 0},
    {"cvt.rp.ftz.f32.f64 w, A;", 'w', 0},
    {"cvt.rp.f16.f64 h, A;", 'h', 0},
    {"cvt.rp.f16.f32 h, a;", 'h', 0},
    {"cvt.rni.f32.f32 w, a;", 'w', 0},
    {"cvt.rni.ftz.f32.f32 w, a;", 'w', 0},
    {"cvt.rni.f64.f64 D, A;", 'd', 0},
    {"cvt.rni.f16.f16 h, ha;", 'h', 0},
    {"cvt.rzi.f32.f32 w, a;", 'w', 0},
    {"cvt.rzi.ftz.f32.f32 w, a;", 'w', 0},
    {"cvt.rzi.f64.f64 D, A;", 'd', 0},
    {"cvt.rzi.f16.f16 h, ha;", 'h', 0},
    {"cvt.rmi.f32.f32 w, a;", 'w', 0},
    {"cvt.rmi.ftz.f32.f32 w, a;", 'w', 0},
    {"cvt.rmi.f64.f64 D, A;", 'd', 0},
    {"cvt.rmi.f16.f16 h, ha;", 'h', 0},
    {"cvt.rpi.f32.f32 w, a;", 'w', 0},
    {"cvt.rpi.ftz.f32.f32 w, a;", 'w', 0},
    {"cvt.rpi.f64.f64 D, A;", 'd', 0},
    {"cvt.rpi.f16.f16 h, ha;", 'h', 0},
    {"cvt.f64.f32 D, a;", 'd', 0},
    {"cvt.ftz.f64.f32 D, a;", 'd', 0},
    {"cvt.f64.f16 D, ha;", 'd', 0},
    {"cvt.f32.f16 w, ha;", 'w', 0},
    {"cvt.f32.bf16 w, ha;", 'w', 0},
    {"cvt.sat.f32.f32 w, a;", 'w', 0},
    {"cvt.rn.sat.f32.f64 w, A;", 'w', 0},
    {"cvt.sat.f64.f64 D, A;", 'd', 0},
    {"cvt.ftz.f32.f32 w, a;", 'w', 0},
    {"cvt.rn.bf16.f32 h, a;", 'h', 0},
    {"cvt.rn.relu.bf16.f32 h, a;", 'h', 0},
    {"cvt.rn.relu.f16.f32 h, a;", 'h', 0},
    {"cvt.rn.f16x2.f32 w, a, b;", 'w', 0},
    {"cvt.rn.bf16x2.f32 w, a, b;", 'w', 0},
    {"cvt.rn.relu.bf16x2.f32 w, a, b;", 'w', 0},
    {"cvt.rz.bf16.f32 h, a;", 'h', 0},
    {"cvt.rz.relu.bf16.f32 h, a;", 'h', 0},
    {"cvt.rz.relu.f16.f32 h, a;", 'h', 0},
    {"cvt.rz.f16x2.f32 w, a, b;", 'w', 0},
    {"cvt.rz.bf16x2.f32 w, a, b;", 'w', 0},
    {"cvt.rz.relu.bf16x2.f32 w, a, b;", 'w', 0},
    {"cvt.rna.tf32.f32 w, a;", 'w', 0},
    {"cvt.rn.satfinite.e4m3x2.f32 h, a, b;", 'h', 0},
    {"cvt.rn.satfinite.e5m2x2.f32 h, a, b;", 'h', 0},
    {"cvt.rn.f16x2.e4m3x2 w, ha;", 'w', 0},
    {"cvt.rn.f16x2.e5m2x2 w, ha;", 'w', 0},
    {"set.lt.f32.f32 w, a, b;", 'w', 0},
    {"set.geu.u32.f64 w, A, B;", 'w', 0},
    {"slct.f32.f32 w, a, b, c;", 'w', 0},
    {"selp.f64 D, A, B, q;", 'd', 0},
    {"testp.finite.f64 p, A;", 'p', 0},
    {"testp.finite.f32 p, a;", 'p', 0},
    {"testp.infinite.f64 p, A;", 'p', 0},
    {"testp.infinite.f32 p, a;", 'p', 0},
    {"testp.number.f64 p, A;", 'p', 0},
    {"testp.number.f32 p, a;", 'p', 0},
    {"testp.notanumber.f64 p, A;", 'p', 0},
    {"testp.notanumber.f32 p, a;", 'p', 0},
    {"testp.normal.f64 p, A;", 'p', 0},
    {"testp.normal.f32 p, a;", 'p', 0},
    {"testp.subnormal.f64 p, A;", 'p', 0},
    {"testp.subnormal.f32 p, a;", 'p', 0},
    {"shf.l.clamp.b32 w, a, b, c;", 'w', 0},
    {"shf.r.wrap.b32 w, a, b, c;", 'w', 0},
    {"shf.l.wrap.b32 w, a, b, c;", 'w', 0},
    {"shf.r.clamp.b32 w, a, b, c;", 'w', 0},
    {"bmsk.clamp.b32 w, a, b;", 'w', 0},
    {"bmsk.wrap.b32 w, a, b;", 'w', 0},
    {"szext.clamp.s32 w, a, b;", 'w', 0},
    {"szext.wrap.u32 w, a, b;", 'w', 0},
    {"szext.wrap.s32 w, a, b;", 'w', 0},
    {"szext.clamp.u32 w, a, b;", 'w', 0},
    {"prmt.b32.f4e w, a, b, c;", 'w', 0},
    {"prmt.b32.b4e w, a, b, c;", 'w', 0},
    {"prmt.b32.rc8 w, a, b, c;", 'w', 0},
    {"prmt.b32.ecl w, a, b, c;", 'w', 0},
    {"prmt.b32.ecr w, a, b, c;", 'w', 0},
    {"prmt.b32.rc16 w, a, b, c;", 'w', 0},
    {"fns.b32 w, a, 0, 1;", 'w', 0},
    {"dp2a.lo.s32.u32 w, a, b, c;", 'w', 0},
    {"dp2a.hi.u32.s32 w, a, b, c;", 'w', 0},
    {"dp4a.u32.s32 w, a, b, c;", 'w', 0},
    {"mad.hi.sat.s32 w, a, b, c;", 'w', 0},
    {"mul24.hi.u32 w, a, b;", 'w', 0},
    {"mad24.hi.s32 w, a, b, c;", 'w', 0},
    {"sad.u32 w, a, b, c;", 'w', 0},
    {"sad.s64 D, A, B, C;", 'd', 0},
    {"sad.u16 h, ha, hb, hc;", 'h', 0},
    {"vadd2.s32.s32.u32 w, a, b, c;", 'w', 0},
    {"vsub2.s32.s32.u32 w, a, b, c;", 'w', 0},
    {"vabsdiff2.s32.s32.u32 w, a, b, c;", 'w', 0},
    {"vmin2.s32.s32.u32 w, a, b, c;", 'w', 0},
    {"vmax2.s32.s32.u32 w, a, b, c;", 'w', 0},
    {"vavrg2.s32.s32.u32 w, a, b, c;", 'w', 0},
    {"vadd4.s32.s32.u32 w, a, b, c;", 'w', 0},
    {"vsub4.s32.s32.u32 w, a, b, c;", 'w', 0},
    {"vavrg4.s32.s32.u32 w, a, b, c;", 'w', 0},
    {"vmin4.s32.s32.u32 w, a, b, c;", 'w', 0},
    {"vmax4.s32.s32.u32 w, a, b, c;", 'w', 0},
    {"vadd4.u32.u32.u32.sat w, a, b, c;", 'w', 0},
    {"vabsdiff2.s32.s32.s32.add w, a, b, c;", 'w', 0},
    {"neg.s16 h, ha;", 'h', 0},
    {"abs.s16 h, ha;", 'h', 0},
    {"abs.s64 D, A;", 'd', 0},
    {"min.s16x2 w, a, b;", 'w', 0},
    {"max.u16x2 w, a, b;", 'w', 0},
    {"add.u16x2 w, a, b;", 'w', 0},
    {"mad.wide.u32 D, a, b, C;", 'd', 0},
    {"mul.hi.s64 D, A, B;", 'd', 0},
    {"mad.lo.s64 D, A, B, C;", 'd', 0},
    {"clz.b64 w, A;", 'w', 0},
    {"bfind.s64 w, A;", 'w', 0},
    {"bfind.shiftamt.s64 w, A;", 'w', 0},
    {"popc.b32 w, a;", 'w', 0},
    {"shr.u64 D, A, b;", 'd', 0},
    {"brev.b64 D, A;", 'd', 0},
    {"cnot.b64 D, A;", 'd', 0},
};

static uint64_t digest(const uint64_t *results) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < PTX_THREADS; i++)
        for (int k = 0; k < 64; k += 8)
            hash = (hash ^ (results[i] >> k & 255)) * 0x100000001b3u;
    return hash;
}

static void show_differences(const char *code, const uint64_t *cpu, const uint64_t *gpu) {
    for (size_t i = 0, shown = 0; i < PTX_THREADS; i++) {
        uint64_t in[3];
        ptx_numbers_at(i, in);
        if (cpu[i] != gpu[i] && shown++ < test_number("GRIDSMITH_SHOWN", 3))
            print_message("%s of 0x%llx, 0x%llx, 0x%llx is 0x%llx on the CPU, 0x%llx on the GPU\n", code,
                          (unsigned long long)in[0], (unsigned long long)in[1], (unsigned long long)in[2],
                          (unsigned long long)cpu[i], (unsigned long long)gpu[i]);
    }
}

static void exact_instructions_compute_what_an_h200_computes(void **state) {
    struct ptx_row rows[GS_COUNT(recorded)];
    const char *on = getenv("GRIDSMITH_ON");
    size_t wrong = 0;
    (void)state;
    for (size_t i = 0; i < GS_COUNT(recorded); i++)
        rows[i] = (struct ptx_row){recorded[i].code, recorded[i].width};
    uint64_t *cpu = ptx_numbers_run("host", rows, GS_COUNT(rows));
    uint64_t *gpu = on ? ptx_numbers_run(on, rows, GS_COUNT(rows)) : NULL;
    for (size_t i = 0; i < GS_COUNT(recorded); i++) {
        uint64_t found = digest(cpu + i * PTX_THREADS);
        uint64_t expected = gpu ? digest(gpu + i * PTX_THREADS) : recorded[i].digest;
        if (gpu)
            print_message("digest %s 0x%llx\n", recorded[i].code, (unsigned long long)expected);
        if (found == expected || !expected)
            continue;
        wrong++;
        print_message("%s: the digest is 0x%llx, not 0x%llx\n", recorded[i].code, (unsigned long long)found,
                      (unsigned long long)expected);
        if (gpu)
            show_differences(recorded[i].code, cpu + i * PTX_THREADS, gpu + i * PTX_THREADS);
    }
    free(cpu);
    free(gpu);
    if (wrong)
        fail_msg("%zu instructions differ from an H200", wrong);
}

/* ---- approximate instructions ---- */

static float f32_of(uint64_t bits) {
    uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static double f16_of(uint64_t bits) {
    int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    double value = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    if (exponent == 31)
        value = fraction ? NAN : INFINITY;
    return bits & 0x8000 ? -value : value;
}

static double flushed(double value) {
    return fabs(value) < 0x1p-126 ? copysign(0, value) : value;
}

/* The distance of two neighbors of f32 at a value. */
static double ulp(double value) {
    int exponent;
    frexp(value, &exponent);
    return ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
}

/* Checks of a result against the exact value of a function. `x` and `y` are the operands. */
static bool in_ulps(double found, double exact, double ulps) {
    if (exact != exact)
        return found != found;
    if (fabs(exact) >= 0x1p128 - 0x1p103 || isinf(found))
        return found == (exact > 0 ? INFINITY : -INFINITY) || fabs(exact) > 0x1p128 * (1 - 0x1p-22);
    return fabs(found - exact) <= (ulps + 0.5) * ulp(exact); /* "ulps from the rounded result" */
}

static bool in_relative(double found, double exact, double error) {
    if (exact != exact || isinf(exact))
        return exact != exact ? found != found : found == exact;
    return fabs(found - exact) <= error * fabs(exact) || fabs(found - exact) <= 0x1p-149;
}

static bool is_ex2(double x, double y, double found) {
    (void)y;
    return in_ulps(found, exp2(x), 2);
}

static bool is_ex2_ftz(double x, double y, double found) {
    double exact = exp2(flushed(x));
    (void)y;
    if (x != x)
        return found != found;
    return flushed(found) == found &&
           (exact < 0x1p-126 * (1 + 0x1p-22) ? found <= 0x1.000004p-126 : in_ulps(found, exact, 2));
}

static bool is_lg2_of(double x, double found) {
    if (x > 0.5 && x < 2)
        return fabs(found - log2(x)) <= 0x1p-22;
    return in_relative(found, log2(x), 0x1p-22);
}

static bool is_lg2(double x, double y, double found) {
    (void)y;
    return is_lg2_of(x, found);
}

static bool is_lg2_ftz(double x, double y, double found) {
    (void)y;
    return is_lg2_of(flushed(x), found);
}

static bool is_rsqrt(double x, double y, double found) {
    (void)y;
    return in_relative(found, 1 / sqrt(x), exp2(-22.9));
}

static bool is_rsqrt_ftz(double x, double y, double found) {
    return is_rsqrt(flushed(x), y, found);
}

static bool is_sqrt(double x, double y, double found) {
    (void)y;
    return in_relative(found, sqrt(x), 0x1p-23);
}

static bool is_sqrt_ftz(double x, double y, double found) {
    return is_sqrt(flushed(x), y, found);
}

static bool is_rcp(double x, double y, double found) {
    (void)y;
    return in_ulps(found, 1 / x, 1);
}

static bool is_rcp_ftz(double x, double y, double found) {
    double exact = 1 / flushed(x);
    (void)y;
    return fabs(exact) < 0x1p-126 ? fabs(found) <= 0x1p-126 && flushed(found) == found : in_ulps(found, exact, 1);
}

/* No error is stated for angles beyond 100 pi. */
static bool is_near_wave(double x, double exact, double found) {
    if (!isfinite(x))
        return found != found;
    double most = fabs(x) <= 2 * M_PI ? exp2(-20.5) : fabs(x) <= 100 * M_PI ? exp2(-14.7) : 2;
    return fabs(found) <= 1 + 0x1p-20 && fabs(found - exact) <= most;
}

static bool is_sin(double x, double y, double found) {
    (void)y;
    return is_near_wave(x, sin(x), found);
}

static bool is_cos(double x, double y, double found) {
    (void)y;
    return is_near_wave(x, cos(x), found);
}

static bool is_tanh(double x, double y, double found) {
    (void)y;
    return in_relative(found, tanh(x), 0x1p-11);
}

/* The manual states 2 ulps for divisors from 2^-126 to 2^126, and 0 (of infinities: not a number) above. */
static bool is_div_approx(double x, double y, double found) {
    if (fabs(y) > 0x1p126 && isfinite(y) && x == x)
        return isinf(x) ? found != found : found == 0;
    if (fabs(y) < 0x1p-126 && y != 0)
        return true;
    return in_ulps(found, x / y, 2) || fabs(x / y) < 0x1p-125;
}

static bool is_div_full(double x, double y, double found) {
    return in_ulps(found, x / y, 2) || fabs(x / y) < 0x1p-125;
}

static bool is_ex2_f16(double x, double y, double found) {
    double exact = exp2(x);
    (void)y;
    return in_relative(found, exact, exp2(-9.9)) || fabs(found - exact) <= 0x1p-24 || (exact > 65504 && isinf(found));
}

static bool is_tanh_f16(double x, double y, double found) {
    (void)y;
    return x != x ? found != found : fabs(found - tanh(x)) <= exp2(-10.987);
}

static const struct approximate {
    const char *code;
    char width; /* 'w': f32, 'h': f16 */
    bool (*is_right)(double x, double y, double found);
} approximate[] = {
    {"ex2.approx.f32 w, a;", 'w', is_ex2},        {"ex2.approx.ftz.f32 w, a;", 'w', is_ex2_ftz},
    {"lg2.approx.f32 w, a;", 'w', is_lg2},        {"lg2.approx.ftz.f32 w, a;", 'w', is_lg2_ftz},
    {"rsqrt.approx.f32 w, a;", 'w', is_rsqrt},    {"rsqrt.approx.ftz.f32 w, a;", 'w', is_rsqrt_ftz},
    {"sqrt.approx.f32 w, a;", 'w', is_sqrt},      {"sqrt.approx.ftz.f32 w, a;", 'w', is_sqrt_ftz},
    {"rcp.approx.f32 w, a;", 'w', is_rcp},        {"rcp.approx.ftz.f32 w, a;", 'w', is_rcp_ftz},
    {"sin.approx.f32 w, a;", 'w', is_sin},        {"cos.approx.f32 w, a;", 'w', is_cos},
    {"sin.approx.ftz.f32 w, a;", 'w', is_sin},    {"cos.approx.ftz.f32 w, a;", 'w', is_cos},
    {"tanh.approx.f32 w, a;", 'w', is_tanh},      {"div.approx.f32 w, a, b;", 'w', is_div_approx},
    {"div.full.f32 w, a, b;", 'w', is_div_full},  {"ex2.approx.f16 h, ha;", 'h', is_ex2_f16},
    {"tanh.approx.f16 h, ha;", 'h', is_tanh_f16},
};

static size_t check(const struct approximate *row, const uint64_t *results) {
    size_t wrong = 0;
    for (size_t i = 0; i < PTX_THREADS; i++) {
        uint64_t in[3];
        ptx_numbers_at(i, in);
        double x = row->width == 'w' ? (double)f32_of(in[0]) : f16_of(in[0]);
        double y = row->width == 'w' ? (double)f32_of(in[1]) : f16_of(in[1]);
        double found = row->width == 'w' ? (double)f32_of(results[i]) : f16_of(results[i]);
        if (row->is_right(x, y, found))
            continue;
        if (wrong++ < test_number("GRIDSMITH_SHOWN", 3))
            print_message("%s of %.9g (0x%llx), %.9g is %.9g (0x%llx)\n", row->code, x, (unsigned long long)in[0], y,
                          found, (unsigned long long)results[i]);
    }
    return wrong;
}

static void approximate_instructions_are_as_near_as_the_manual_says(void **state) {
    struct ptx_row rows[GS_COUNT(approximate)];
    const char *on = getenv("GRIDSMITH_ON");
    size_t wrong = 0;
    (void)state;
    for (size_t i = 0; i < GS_COUNT(approximate); i++)
        rows[i] = (struct ptx_row){approximate[i].code, approximate[i].width};
    uint64_t *results = ptx_numbers_run(on ? on : "host", rows, GS_COUNT(rows));
    for (size_t i = 0; i < GS_COUNT(approximate); i++)
        wrong += check(&approximate[i], results + i * PTX_THREADS);
    free(results);
    if (wrong)
        fail_msg("%zu results are beyond the stated error", wrong);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_instructions_compute_what_an_h200_computes),
        cmocka_unit_test(approximate_instructions_are_as_near_as_the_manual_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
