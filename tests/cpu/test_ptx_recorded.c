/*
 * test_ptx_recorded.c: instructions of PTX compute on the CPU what an H200 computed.
 *
 * For instructions that are exact, the digest of all results on an H200 is recorded here (ptx_numbers.h has the
 * numbers). Instructions that are approximate are compared with the error that the PTX manual states.
 *
 * GRIDSMITH_ON=cuda compares the CPU with a GPU, shows the differences, and prints the digests of the GPU.
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
    {"div.u16 h, ha, hb;", 'h', 0xaed3fdf4e9c38031u},
    {"rem.u16 h, ha, hb;", 'h', 0xe6f1ba2850e4aa42u},
    {"div.s16 h, ha, hb;", 'h', 0x6e73e1b1ba442559u},
    {"rem.s16 h, ha, hb;", 'h', 0xc725a0c4a85cdf43u},
    {"div.u64 D, A, B;", 'd', 0x610ba6213dbe3233u},
    {"rem.s64 D, A, B;", 'd', 0x3de1409043b45745u},
    {"bfe.u64 D, A, b, c;", 'd', 0xbf2b6a1882616f2au},
    {"bfe.s64 D, A, b, c;", 'd', 0x462882dc6376c3b4u},
    {"bfi.b64 D, A, B, b, c;", 'd', 0x1ea1e4a752ab42beu},
    {"bfi.b32 w, a, b, b, c;", 'w', 0x29d4c958983965e9u},
    {"add.rn.f64 D, A, B;", 'd', 0x29a24287017074e0u},
    {"add.rn.ftz.f32 w, a, b;", 'w', 0xc5a749385ca0c536u},
    {"sub.rn.f64 D, A, B;", 'd', 0xb7bed06d2314ee2cu},
    {"sub.rn.ftz.f32 w, a, b;", 'w', 0xad37ecc494b000c5u},
    {"mul.rn.f64 D, A, B;", 'd', 0xdc35885103f647c9u},
    {"mul.rn.ftz.f32 w, a, b;", 'w', 0x4dc74a25f0cdb3deu},
    {"div.rn.f64 D, A, B;", 'd', 0x96a29f40a55c2034u},
    {"div.rn.ftz.f32 w, a, b;", 'w', 0x178731dc7b9dd9e4u},
    {"fma.rn.f64 D, A, B, C;", 'd', 0x53544a34c0796208u},
    {"fma.rn.f32 w, a, b, c;", 'w', 0xf0bb419687f7941du},
    {"rcp.rn.f64 D, A;", 'd', 0xe4a26ad62636f4f1u},
    {"sqrt.rn.f64 D, A;", 'd', 0x18f039f5541ac879u},
    {"sqrt.rn.ftz.f32 w, a;", 'w', 0x9d6c4b136ff5aa89u},
    {"rcp.rn.ftz.f32 w, a;", 'w', 0xd0e42e4dd0e86f15u},
    {"add.rz.f64 D, A, B;", 'd', 0x1d32da4db5f39088u},
    {"add.rz.ftz.f32 w, a, b;", 'w', 0x3c9d0bdbe0322f5fu},
    {"sub.rz.f64 D, A, B;", 'd', 0xb1a880fbb96168a4u},
    {"sub.rz.ftz.f32 w, a, b;", 'w', 0x91110c6fbcb0d425u},
    {"mul.rz.f64 D, A, B;", 'd', 0x1361b7dbeecad1eau},
    {"mul.rz.ftz.f32 w, a, b;", 'w', 0xda55c5cdd54426afu},
    {"div.rz.f64 D, A, B;", 'd', 0x883f947c546a0975u},
    {"div.rz.ftz.f32 w, a, b;", 'w', 0x95f3e8018311ca7bu},
    {"fma.rz.f64 D, A, B, C;", 'd', 0x63d3d9f16595aaeau},
    {"fma.rz.f32 w, a, b, c;", 'w', 0x3ff5798e74be81b3u},
    {"rcp.rz.f64 D, A;", 'd', 0x122676abb8a038c1u},
    {"sqrt.rz.f64 D, A;", 'd', 0xdcd5884f573626c5u},
    {"sqrt.rz.ftz.f32 w, a;", 'w', 0x4ed04c7ba5b1d309u},
    {"rcp.rz.ftz.f32 w, a;", 'w', 0x1da7d0a2672cc691u},
    {"add.rm.f64 D, A, B;", 'd', 0x9cb845752ba1d840u},
    {"add.rm.ftz.f32 w, a, b;", 'w', 0xd847ef6a5c667dcbu},
    {"sub.rm.f64 D, A, B;", 'd', 0x4a500a7e499aeba2u},
    {"sub.rm.ftz.f32 w, a, b;", 'w', 0x923380dd36f99371u},
    {"mul.rm.f64 D, A, B;", 'd', 0x6782d862b58f669au},
    {"mul.rm.ftz.f32 w, a, b;", 'w', 0xf2be4782e3066d63u},
    {"div.rm.f64 D, A, B;", 'd', 0xd3feded61887d868u},
    {"div.rm.ftz.f32 w, a, b;", 'w', 0x4755a172d90f7bf3u},
    {"fma.rm.f64 D, A, B, C;", 'd', 0x24ddb67209fcfe89u},
    {"fma.rm.f32 w, a, b, c;", 'w', 0x45acde502d452b96u},
    {"rcp.rm.f64 D, A;", 'd', 0x730a52ee22df378du},
    {"sqrt.rm.f64 D, A;", 'd', 0xdcd5884f573626c5u},
    {"sqrt.rm.ftz.f32 w, a;", 'w', 0x4ed04c7ba5b1d309u},
    {"rcp.rm.ftz.f32 w, a;", 'w', 0x688d8fe4230b436du},
    {"add.rp.f64 D, A, B;", 'd', 0xbe3fc814ed572fdcu},
    {"add.rp.ftz.f32 w, a, b;", 'w', 0x90225e8d3940d9e2u},
    {"sub.rp.f64 D, A, B;", 'd', 0x81d9f864802abc36u},
    {"sub.rp.ftz.f32 w, a, b;", 'w', 0xce4d21d96fcc0605u},
    {"mul.rp.f64 D, A, B;", 'd', 0x330a4a24af18400du},
    {"mul.rp.ftz.f32 w, a, b;", 'w', 0xc07236c548a994b6u},
    {"div.rp.f64 D, A, B;", 'd', 0x7b3b1cd67a60d9edu},
    {"div.rp.ftz.f32 w, a, b;", 'w', 0x31b096d061237572u},
    {"fma.rp.f64 D, A, B, C;", 'd', 0x564a76080b4def19u},
    {"fma.rp.f32 w, a, b, c;", 'w', 0x777fc611af03190cu},
    {"rcp.rp.f64 D, A;", 'd', 0xe355a147525ecf5u},
    {"sqrt.rp.f64 D, A;", 'd', 0x3a524c7f2cead899u},
    {"sqrt.rp.ftz.f32 w, a;", 'w', 0xc45427f997579f61u},
    {"rcp.rp.ftz.f32 w, a;", 'w', 0xc8cfe67638a87cc1u},
    {"neg.f32 w, a;", 'w', 0x48b9cf4db7e15695u},
    {"neg.f64 D, A;", 'd', 0x3476efc8437af309u},
    {"neg.f16 h, ha;", 'h', 0x9c5501f6f6671921u},
    {"neg.bf16 h, ha;", 'h', 0x43c2888577624371u},
    {"neg.f16x2 w, a;", 'w', 0x65ddbcbb6fddb00du},
    {"neg.bf16x2 w, a;", 'w', 0xb5ac6a5cfb1830f5u},
    {"neg.ftz.f32 w, a;", 'w', 0x16728be9b617f6c1u},
    {"neg.ftz.f16 h, ha;", 'h', 0xf7eddfc095864a99u},
    {"abs.f32 w, a;", 'w', 0x4b3bff420a6e6295u},
    {"abs.f64 D, A;", 'd', 0x22c59b19c8c7ad09u},
    {"abs.f16 h, ha;", 'h', 0x87fae94c93a61b21u},
    {"abs.bf16 h, ha;", 'h', 0x71e4e4e2965efe71u},
    {"abs.f16x2 w, a;", 'w', 0xfb34843d5537700du},
    {"abs.bf16x2 w, a;", 'w', 0x717d7c859eb4b1f5u},
    {"abs.ftz.f32 w, a;", 'w', 0xf7dfb14edc51f2c1u},
    {"abs.ftz.f16 h, ha;", 'h', 0xa04d173ffa166699u},
    {"min.f64 D, A, B;", 'd', 0x1c86fc207cf95b0au},
    {"min.ftz.f32 w, a, b;", 'w', 0x7fb4467129a40b74u},
    {"min.NaN.f32 w, a, b;", 'w', 0x867356448f4b45c3u},
    {"min.xorsign.abs.f32 w, a, b;", 'w', 0xbf7a55aee5885bd3u},
    {"min.NaN.xorsign.abs.f32 w, a, b;", 'w', 0xf90e0ebd0266829bu},
    {"min.f16 h, ha, hb;", 'h', 0xdfbad9ca66c048d3u},
    {"min.NaN.f16 h, ha, hb;", 'h', 0xfe174aaee8accd5fu},
    {"min.f16x2 w, a, b;", 'w', 0xfb84321ed276fb6eu},
    {"min.bf16 h, ha, hb;", 'h', 0xe864129484dcca6du},
    {"min.NaN.bf16 h, ha, hb;", 'h', 0x232c6e9a362714a9u},
    {"min.bf16x2 w, a, b;", 'w', 0x6a8bf324ec1290e4u},
    {"max.f64 D, A, B;", 'd', 0xd4d20c843c852462u},
    {"max.ftz.f32 w, a, b;", 'w', 0xc74d53febd4ada0cu},
    {"max.NaN.f32 w, a, b;", 'w', 0x410f6209f6f20e2fu},
    {"max.xorsign.abs.f32 w, a, b;", 'w', 0x6d450ad4afc96c47u},
    {"max.NaN.xorsign.abs.f32 w, a, b;", 'w', 0xba9ee1e0f7e48d7fu},
    {"max.f16 h, ha, hb;", 'h', 0x3dddf6e320da015bu},
    {"max.NaN.f16 h, ha, hb;", 'h', 0xa6723564c407f2dbu},
    {"max.f16x2 w, a, b;", 'w', 0x3d3a090ef25cd0cau},
    {"max.bf16 h, ha, hb;", 'h', 0xdd4d82bed3ff9879u},
    {"max.NaN.bf16 h, ha, hb;", 'h', 0xb6f1be6578b86f39u},
    {"max.bf16x2 w, a, b;", 'w', 0xa79bb87fd99cd314u},
    {"copysign.f64 D, A, B;", 'd', 0x9465b73d99a9e4f9u},
    {"add.rn.f16 h, ha, hb;", 'h', 0xc1ff422f7b33d62u},
    {"add.rn.f16x2 w, a, b;", 'w', 0xe4548fd26a3b9c45u},
    {"sub.rn.f16 h, ha, hb;", 'h', 0x1433382b8299c667u},
    {"sub.rn.f16x2 w, a, b;", 'w', 0x50b5e7011a4a3b29u},
    {"mul.rn.f16 h, ha, hb;", 'h', 0xb46e100801bf1ffcu},
    {"mul.rn.f16x2 w, a, b;", 'w', 0xee8549fe26785525u},
    {"fma.rn.relu.f16 h, ha, hb, hc;", 'h', 0xb1e560d3f3216d1cu},
    {"fma.rn.relu.f16x2 w, a, b, c;", 'w', 0xe65e4f74311badacu},
    {"setp.lt.f16 p, ha, hb;", 'p', 0xfade17881cb5fee5u},
    {"setp.neu.f16 p, ha, hb;", 'p', 0x645923892b73c3a5u},
    {"add.rn.bf16 h, ha, hb;", 'h', 0xf4bec402ce3885du},
    {"add.rn.bf16x2 w, a, b;", 'w', 0xf1ded2630ff95742u},
    {"sub.rn.bf16 h, ha, hb;", 'h', 0x815cd011c20b443bu},
    {"sub.rn.bf16x2 w, a, b;", 'w', 0xd5968106ab1c1dc9u},
    {"mul.rn.bf16 h, ha, hb;", 'h', 0xb45c72fbeb824cabu},
    {"mul.rn.bf16x2 w, a, b;", 'w', 0xc306350b6df62455u},
    {"fma.rn.relu.bf16 h, ha, hb, hc;", 'h', 0xa10cc49fa6aeeda6u},
    {"fma.rn.relu.bf16x2 w, a, b, c;", 'w', 0xb5b65290ffaf4083u},
    {"setp.lt.bf16 p, ha, hb;", 'p', 0xd12b64f71ff46964u},
    {"setp.neu.bf16 p, ha, hb;", 'p', 0x3a75c4dcedf89424u},
    {"add.rn.sat.f16 h, ha, hb;", 'h', 0x2438db658f978abdu},
    {"mul.ftz.f16 h, ha, hb;", 'h', 0xb97db7f2f197b149u},
    {"fma.rn.sat.f16 h, ha, hb, hc;", 'h', 0xd2e0db7f25418ec0u},
    {"fma.rn.ftz.f16 h, ha, hb, hc;", 'h', 0xfc7f396de9543698u},
    {"fma.rn.sat.f32 w, a, b, c;", 'w', 0xff3af586ccdad2bfu},
    {"fma.rn.ftz.f32 w, a, b, c;", 'w', 0x67ae58763c16de9eu},
    {"mul.sat.f32 w, a, b;", 'w', 0x40978d82460a915eu},
    {"sub.ftz.sat.f32 w, a, b;", 'w', 0xffb1bac0b795cda2u},
    {"cvt.rni.s8.f32 w, a;", 'w', 0x98ae1bc0aa083325u},
    {"cvt.rni.s8.f64 w, A;", 'w', 0x67308b24d170a12du},
    {"cvt.rni.s8.f16 w, ha;", 'w', 0x25deeec4f31345b5u},
    {"cvt.rni.u8.f32 w, a;", 'w', 0xfceaf4f61ee95a5u},
    {"cvt.rni.u8.f64 w, A;", 'w', 0x9aa26644f1fce765u},
    {"cvt.rni.u8.f16 w, ha;", 'w', 0xf5573c51421a0225u},
    {"cvt.rni.s16.f32 h, a;", 'h', 0x2523ac84115d9241u},
    {"cvt.rni.s16.f64 h, A;", 'h', 0x21543c2ec25e4e75u},
    {"cvt.rni.s16.f16 h, ha;", 'h', 0x2aef39ae2a7d16e1u},
    {"cvt.rni.u16.f32 h, a;", 'h', 0x1842f4ff74980fbdu},
    {"cvt.rni.u16.f64 h, A;", 'h', 0xfbaccf5c5d6eee71u},
    {"cvt.rni.u16.f16 h, ha;", 'h', 0x7370e7707169d129u},
    {"cvt.rni.s32.f32 w, a;", 'w', 0x896953d20b9bd1a9u},
    {"cvt.rni.s32.f64 w, A;", 'w', 0x3911ed83912ba285u},
    {"cvt.rni.s32.f16 w, ha;", 'w', 0x3085616a746fbf9du},
    {"cvt.rni.u32.f32 w, a;", 'w', 0x5f86400504017db1u},
    {"cvt.rni.u32.f64 w, A;", 'w', 0x7c5166e5229f5bdu},
    {"cvt.rni.u32.f16 w, ha;", 'w', 0x88b9a4b6c85402edu},
    {"cvt.rni.s64.f32 D, a;", 'd', 0x784d475cd63b6501u},
    {"cvt.rni.s64.f64 D, A;", 'd', 0xd2c00b62214279du},
    {"cvt.rni.s64.f16 D, ha;", 'd', 0x53c59a069cd59cfdu},
    {"cvt.rni.u64.f32 D, a;", 'd', 0xe8ff18e63c3e4551u},
    {"cvt.rni.u64.f64 D, A;", 'd', 0x6517afe6a7e8b285u},
    {"cvt.rni.u64.f16 D, ha;", 'd', 0x8ebd9f3ea2824d95u},
    {"cvt.rzi.s8.f32 w, a;", 'w', 0xef21388bd67c4ae5u},
    {"cvt.rzi.s8.f64 w, A;", 'w', 0x67308b24d170a12du},
    {"cvt.rzi.s8.f16 w, ha;", 'w', 0xc959a87671150935u},
    {"cvt.rzi.u8.f32 w, a;", 'w', 0xfceaf4f61ee95a5u},
    {"cvt.rzi.u8.f64 w, A;", 'w', 0x9aa26644f1fce765u},
    {"cvt.rzi.u8.f16 w, ha;", 'w', 0x18f1c6c705f9fb25u},
    {"cvt.rzi.s16.f32 h, a;", 'h', 0x3a928dec77699a01u},
    {"cvt.rzi.s16.f64 h, A;", 'h', 0x21543c2ec25e4e75u},
    {"cvt.rzi.s16.f16 h, ha;", 'h', 0xe3d271dcb398b3e1u},
    {"cvt.rzi.u16.f32 h, a;", 'h', 0x1842f4ff74980fbdu},
    {"cvt.rzi.u16.f64 h, A;", 'h', 0xfbaccf5c5d6eee71u},
    {"cvt.rzi.u16.f16 h, ha;", 'h', 0x10a4a000b553b529u},
    {"cvt.rzi.s32.f32 w, a;", 'w', 0x7153632cfedaac69u},
    {"cvt.rzi.s32.f64 w, A;", 'w', 0x3911ed83912ba285u},
    {"cvt.rzi.s32.f16 w, ha;", 'w', 0x5c56505591e9d29du},
    {"cvt.rzi.u32.f32 w, a;", 'w', 0x5f86400504017db1u},
    {"cvt.rzi.u32.f64 w, A;", 'w', 0x7c5166e5229f5bdu},
    {"cvt.rzi.u32.f16 w, ha;", 'w', 0x9c0206db15716edu},
    {"cvt.rzi.s64.f32 D, a;", 'd', 0xc7b152ec3d1017c1u},
    {"cvt.rzi.s64.f64 D, A;", 'd', 0xa45e87b87b8dc225u},
    {"cvt.rzi.s64.f16 D, ha;", 'd', 0x25cd46d8d96996fdu},
    {"cvt.rzi.u64.f32 D, a;", 'd', 0xe8ff18e63c3e4551u},
    {"cvt.rzi.u64.f64 D, A;", 'd', 0x8f13037624b7680du},
    {"cvt.rzi.u64.f16 D, ha;", 'd', 0x3624fea32276395u},
    {"cvt.rmi.s8.f32 w, a;", 'w', 0x32ace3d842ea6365u},
    {"cvt.rmi.s8.f64 w, A;", 'w', 0xbfa9c4cfbf02d34du},
    {"cvt.rmi.s8.f16 w, ha;", 'w', 0xd5093ce89d4154fdu},
    {"cvt.rmi.u8.f32 w, a;", 'w', 0xfceaf4f61ee95a5u},
    {"cvt.rmi.u8.f64 w, A;", 'w', 0x9aa26644f1fce765u},
    {"cvt.rmi.u8.f16 w, ha;", 'w', 0x18f1c6c705f9fb25u},
    {"cvt.rmi.s16.f32 h, a;", 'h', 0xfb4f83095efe7071u},
    {"cvt.rmi.s16.f64 h, A;", 'h', 0x47f1f74e02bb7ea1u},
    {"cvt.rmi.s16.f16 h, ha;", 'h', 0x918707db9401ae5u},
    {"cvt.rmi.u16.f32 h, a;", 'h', 0x1842f4ff74980fbdu},
    {"cvt.rmi.u16.f64 h, A;", 'h', 0xfbaccf5c5d6eee71u},
    {"cvt.rmi.u16.f16 h, ha;", 'h', 0x10a4a000b553b529u},
    {"cvt.rmi.s32.f32 w, a;", 'w', 0x235cf3115e50dae9u},
    {"cvt.rmi.s32.f64 w, A;", 'w', 0xac0c66c66e2d5aa5u},
    {"cvt.rmi.s32.f16 w, ha;", 'w', 0xad546b1349fc70e5u},
    {"cvt.rmi.u32.f32 w, a;", 'w', 0x5f86400504017db1u},
    {"cvt.rmi.u32.f64 w, A;", 'w', 0x7c5166e5229f5bdu},
    {"cvt.rmi.u32.f16 w, ha;", 'w', 0x9c0206db15716edu},
    {"cvt.rmi.s64.f32 D, a;", 'd', 0xa74c059c7dc64fe1u},
    {"cvt.rmi.s64.f64 D, A;", 'd', 0xb7d90f8f7c8f6f6du},
    {"cvt.rmi.s64.f16 D, ha;", 'd', 0x11f5715339baae6du},
    {"cvt.rmi.u64.f32 D, a;", 'd', 0xe8ff18e63c3e4551u},
    {"cvt.rmi.u64.f64 D, A;", 'd', 0x8f13037624b7680du},
    {"cvt.rmi.u64.f16 D, ha;", 'd', 0x3624fea32276395u},
    {"cvt.rpi.s8.f32 w, a;", 'w', 0x2ee9ac1507209485u},
    {"cvt.rpi.s8.f64 w, A;", 'w', 0xe4764e3a0c95828du},
    {"cvt.rpi.s8.f16 w, ha;", 'w', 0x6b949a16f7f709f5u},
    {"cvt.rpi.u8.f32 w, a;", 'w', 0xe427bdc214e56745u},
    {"cvt.rpi.u8.f64 w, A;", 'w', 0x1fa465cd95fa17c5u},
    {"cvt.rpi.u8.f16 w, ha;", 'w', 0x9b92bb118c6a8265u},
    {"cvt.rpi.s16.f32 h, a;", 'h', 0x282b7f14b83807a1u},
    {"cvt.rpi.s16.f64 h, A;", 'h', 0xc3862e4d221f07d5u},
    {"cvt.rpi.s16.f16 h, ha;", 'h', 0x3b70cda29d46d721u},
    {"cvt.rpi.u16.f32 h, a;", 'h', 0x6eee5da58211075du},
    {"cvt.rpi.u16.f64 h, A;", 'h', 0xa3c2b883cdb475d1u},
    {"cvt.rpi.u16.f16 h, ha;", 'h', 0x20f5db0aae02a469u},
    {"cvt.rpi.s32.f32 w, a;", 'w', 0x153a46d65708a09u},
    {"cvt.rpi.s32.f64 w, A;", 'w', 0xdd0dd0ae286117e5u},
    {"cvt.rpi.s32.f16 w, ha;", 'w', 0xad51a61322acecddu},
    {"cvt.rpi.u32.f32 w, a;", 'w', 0xa5383bb0971c351u},
    {"cvt.rpi.u32.f64 w, A;", 'w', 0x5816194a821acb1du},
    {"cvt.rpi.u32.f16 w, ha;", 'w', 0xaee09362cf47332du},
    {"cvt.rpi.s64.f32 D, a;", 'd', 0xb9e1679ac3984661u},
    {"cvt.rpi.s64.f64 D, A;", 'd', 0xcfbe7f9f890cb2fdu},
    {"cvt.rpi.s64.f16 D, ha;", 'd', 0xc45665fc36ed123du},
    {"cvt.rpi.u64.f32 D, a;", 'd', 0x6d4d620135c0c8f1u},
    {"cvt.rpi.u64.f64 D, A;", 'd', 0x2518849cb9d125e5u},
    {"cvt.rpi.u64.f16 D, ha;", 'd', 0xc89b35d78eaf66d5u},
    {"cvt.rzi.ftz.s32.f32 w, a;", 'w', 0x7153632cfedaac69u},
    {"cvt.rpi.ftz.s32.f32 w, a;", 'w', 0x4e3c9ee85ebcd449u},
    {"cvt.rzi.sat.u32.f32 w, a;", 'w', 0x5f86400504017db1u},
    {"cvt.rn.f32.s64 w, A;", 'w', 0x415058550bce4489u},
    {"cvt.rn.f64.s64 D, A;", 'd', 0xd75bfd56292e97f9u},
    {"cvt.rn.f16.s64 h, A;", 'h', 0xdc2479748dec5085u},
    {"cvt.rn.f32.u64 w, A;", 'w', 0x366e5de0ad14f555u},
    {"cvt.rn.f64.u64 D, A;", 'd', 0xeea0b2b78457a7b1u},
    {"cvt.rn.f16.u64 h, A;", 'h', 0xdb67f7c1eb6c2505u},
    {"cvt.rn.f32.u32 w, a;", 'w', 0xe0427d949362e029u},
    {"cvt.rn.f64.u32 D, a;", 'd', 0x496f35d8dc1c3131u},
    {"cvt.rn.f16.u32 h, a;", 'h', 0xc8cf69cba57b1f71u},
    {"cvt.rn.f32.s32 w, a;", 'w', 0x30c27400971b488du},
    {"cvt.rn.f64.s32 D, a;", 'd', 0x7839f427c0f0bc05u},
    {"cvt.rn.f16.s32 h, a;", 'h', 0xacbcbc53db6e04f1u},
    {"cvt.rn.f32.f64 w, A;", 'w', 0xe92f5b592b0810d1u},
    {"cvt.rn.ftz.f32.f64 w, A;", 'w', 0xe92f5b592b0810d1u},
    {"cvt.rn.f16.f64 h, A;", 'h', 0xad2f1835757990edu},
    {"cvt.rn.f16.f32 h, a;", 'h', 0x3fea6896db04b999u},
    {"cvt.rz.f32.s64 w, A;", 'w', 0x95c3ca8acedd1ad5u},
    {"cvt.rz.f64.s64 D, A;", 'd', 0x61c49bf12b8aeacdu},
    {"cvt.rz.f16.s64 h, A;", 'h', 0x76821d7181d64cd9u},
    {"cvt.rz.f32.u64 w, A;", 'w', 0xa1d4ac3918b8b3b9u},
    {"cvt.rz.f64.u64 D, A;", 'd', 0x785a43c9a274e0a5u},
    {"cvt.rz.f16.u64 h, A;", 'h', 0x170047545f33021du},
    {"cvt.rz.f32.u32 w, a;", 'w', 0x6b816ce107242c5u},
    {"cvt.rz.f64.u32 D, a;", 'd', 0x496f35d8dc1c3131u},
    {"cvt.rz.f16.u32 h, a;", 'h', 0x42e08f1e37010619u},
    {"cvt.rz.f32.s32 w, a;", 'w', 0x43f10847adc45f29u},
    {"cvt.rz.f64.s32 D, a;", 'd', 0x7839f427c0f0bc05u},
    {"cvt.rz.f16.s32 h, a;", 'h', 0xc6012419a789fddu},
    {"cvt.rz.f32.f64 w, A;", 'w', 0x1b6fe8f40a77431du},
    {"cvt.rz.ftz.f32.f64 w, A;", 'w', 0x1b6fe8f40a77431du},
    {"cvt.rz.f16.f64 h, A;", 'h', 0x91d5cc2c5938971du},
    {"cvt.rz.f16.f32 h, a;", 'h', 0xffadf3cdba727adu},
    {"cvt.rm.f32.s64 w, A;", 'w', 0x9c4132aa0d1b706du},
    {"cvt.rm.f64.s64 D, A;", 'd', 0x61c49bf12b8aeacdu},
    {"cvt.rm.f16.s64 h, A;", 'h', 0x888f638831c9285u},
    {"cvt.rm.f32.u64 w, A;", 'w', 0xa1d4ac3918b8b3b9u},
    {"cvt.rm.f64.u64 D, A;", 'd', 0x785a43c9a274e0a5u},
    {"cvt.rm.f16.u64 h, A;", 'h', 0x170047545f33021du},
    {"cvt.rm.f32.u32 w, a;", 'w', 0x6b816ce107242c5u},
    {"cvt.rm.f64.u32 D, a;", 'd', 0x496f35d8dc1c3131u},
    {"cvt.rm.f16.u32 h, a;", 'h', 0x42e08f1e37010619u},
    {"cvt.rm.f32.s32 w, a;", 'w', 0x282a2d8b7ccb8cf9u},
    {"cvt.rm.f64.s32 D, a;", 'd', 0x7839f427c0f0bc05u},
    {"cvt.rm.f16.s32 h, a;", 'h', 0x4f204cd0e92b60bdu},
    {"cvt.rm.f32.f64 w, A;", 'w', 0x5aa29848e3f615d5u},
    {"cvt.rm.ftz.f32.f64 w, A;", 'w', 0x5aa29848e3f615d5u},
    {"cvt.rm.f16.f64 h, A;", 'h', 0x4b12966991243f35u},
    {"cvt.rm.f16.f32 h, a;", 'h', 0xdeddbf40b1d8bf51u},
    {"cvt.rp.f32.s64 w, A;", 'w', 0x4238dd5c64a8ffe1u},
    {"cvt.rp.f64.s64 D, A;", 'd', 0xf107f0e1bfa07391u},
    {"cvt.rp.f16.s64 h, A;", 'h', 0x1cab75dd262924f9u},
    {"cvt.rp.f32.u64 w, A;", 'w', 0x84dbeb8dd6366565u},
    {"cvt.rp.f64.u64 D, A;", 'd', 0x29218f7845a379adu},
    {"cvt.rp.f16.u64 h, A;", 'h', 0xdb270ad226e2e6a5u},
    {"cvt.rp.f32.u32 w, a;", 'w', 0xaa6c143597e0c95u},
    {"cvt.rp.f64.u32 D, a;", 'd', 0x496f35d8dc1c3131u},
    {"cvt.rp.f16.u32 h, a;", 'h', 0x81b2b433d543b591u},
    {"cvt.rp.f32.s32 w, a;", 'w', 0x22bbc94f6e426499u},
    {"cvt.rp.f64.s32 D, a;", 'd', 0x7839f427c0f0bc05u},
    {"cvt.rp.f16.s32 h, a;", 'h', 0x8dfa6726835a6cd1u},
    {"cvt.rp.f32.f64 w, A;", 'w', 0xa374cbaa5a702799u},
    {"cvt.rp.ftz.f32.f64 w, A;", 'w', 0x960b6ca791e988d9u},
    {"cvt.rp.f16.f64 h, A;", 'h', 0xfe341c925f083779u},
    {"cvt.rp.f16.f32 h, a;", 'h', 0xbc50f1a5680e4f3du},
    {"cvt.rni.f32.f32 w, a;", 'w', 0x1f1547635d9dec21u},
    {"cvt.rni.ftz.f32.f32 w, a;", 'w', 0x1f1547635d9dec21u},
    {"cvt.rni.f64.f64 D, A;", 'd', 0x6f1ad0fd79e597f1u},
    {"cvt.rni.f16.f16 h, ha;", 'h', 0x40ba66230d4476b9u},
    {"cvt.rzi.f32.f32 w, a;", 'w', 0xa5b6bee9b95d1621u},
    {"cvt.rzi.ftz.f32.f32 w, a;", 'w', 0xa5b6bee9b95d1621u},
    {"cvt.rzi.f64.f64 D, A;", 'd', 0x8817c712f00eed69u},
    {"cvt.rzi.f16.f16 h, ha;", 'h', 0x427f21677c0cf6d9u},
    {"cvt.rmi.f32.f32 w, a;", 'w', 0xc8e27de78cab6e21u},
    {"cvt.rmi.ftz.f32.f32 w, a;", 'w', 0x8f712507b56a4f01u},
    {"cvt.rmi.f64.f64 D, A;", 'd', 0x75fb99c42904be69u},
    {"cvt.rmi.f16.f16 h, ha;", 'h', 0xab35c5aff9078bf9u},
    {"cvt.rpi.f32.f32 w, a;", 'w', 0x3a362f10939c0011u},
    {"cvt.rpi.ftz.f32.f32 w, a;", 'w', 0xfe7ca9bc8f145bd1u},
    {"cvt.rpi.f64.f64 D, A;", 'd', 0x5d7b536716912451u},
    {"cvt.rpi.f16.f16 h, ha;", 'h', 0x3a05648c2a13cd39u},
    {"cvt.f64.f32 D, a;", 'd', 0xffec64ed9f216cb1u},
    {"cvt.ftz.f64.f32 D, a;", 'd', 0x4f3200d11109e4d1u},
    {"cvt.f64.f16 D, ha;", 'd', 0xc4672a8b0ada073du},
    {"cvt.f32.f16 w, ha;", 'w', 0xd9e99d6ac4c378f1u},
    {"cvt.f32.bf16 w, ha;", 'w', 0x18e7c9b0b2dbf9b1u},
    {"cvt.sat.f32.f32 w, a;", 'w', 0xf8b98e8d564046c5u},
    {"cvt.rn.sat.f32.f64 w, A;", 'w', 0x643250e7b26afd01u},
    {"cvt.sat.f64.f64 D, A;", 'd', 0x76787c8142f3a3f5u},
    {"cvt.ftz.f32.f32 w, a;", 'w', 0xe5793588d546fc1u},
    {"cvt.rn.bf16.f32 h, a;", 'h', 0xc789283190e44a51u},
    {"cvt.rn.relu.bf16.f32 h, a;", 'h', 0x798865a8f632c989u},
    {"cvt.rn.relu.f16.f32 h, a;", 'h', 0xba4c073cb3242329u},
    {"cvt.rn.f16x2.f32 w, a, b;", 'w', 0xc10ea5d092fe1925u},
    {"cvt.rn.bf16x2.f32 w, a, b;", 'w', 0xcf664c32ec7623b9u},
    {"cvt.rn.relu.bf16x2.f32 w, a, b;", 'w', 0x3d33980425008b11u},
    {"cvt.rz.bf16.f32 h, a;", 'h', 0x94a11e9af765d0adu},
    {"cvt.rz.relu.bf16.f32 h, a;", 'h', 0xfc7624a4dd45f4b1u},
    {"cvt.rz.relu.f16.f32 h, a;", 'h', 0x41fdf94078e4047du},
    {"cvt.rz.f16x2.f32 w, a, b;", 'w', 0x98cad156b3069cd9u},
    {"cvt.rz.bf16x2.f32 w, a, b;", 'w', 0x3c0c81ddf14f0941u},
    {"cvt.rz.relu.bf16x2.f32 w, a, b;", 'w', 0x14d021e44c744c01u},
    {"cvt.rna.tf32.f32 w, a;", 'w', 0x7889eb2cede1d8d5u},
    {"cvt.rn.satfinite.e4m3x2.f32 h, a, b;", 'h', 0xa06ea38cbeee1085u},
    {"cvt.rn.satfinite.e5m2x2.f32 h, a, b;", 'h', 0x90444b519adcf16du},
    {"cvt.rn.f16x2.e4m3x2 w, ha;", 'w', 0xda0cec4c749ab145u},
    {"cvt.rn.f16x2.e5m2x2 w, ha;", 'w', 0xad345c418c6622f1u},
    /* Without the sum, ptxas 13.0 treats the result as an integer, 1, against the manual. */
    {"{.reg .f32 f; set.lt.f32.f32 f, a, b; add.rn.f32 f, f, f; mov.b32 w, f;}", 'w', 0xc573cdd4b80cdca5u},
    {"set.geu.u32.f64 w, A, B;", 'w', 0x809275790cec3859u},
    {"slct.f32.f32 w, a, b, c;", 'w', 0xd2c20dff88728249u},
    {"selp.f64 D, A, B, q;", 'd', 0x6118f95f9e29935eu},
    {"testp.finite.f64 p, A;", 'p', 0xfa6c47563c1cc805u},
    {"testp.finite.f32 p, a;", 'p', 0x5be6d23e4cb82185u},
    {"testp.infinite.f64 p, A;", 'p', 0x2befc653ddd86345u},
    {"testp.infinite.f32 p, a;", 'p', 0xc8ab2b140b0ad4e5u},
    {"testp.number.f64 p, A;", 'p', 0xd37155736df6c1a5u},
    {"testp.number.f32 p, a;", 'p', 0xd1a7451babc48cc5u},
    {"testp.notanumber.f64 p, A;", 'p', 0x3a4d1f3fdbbe1b65u},
    {"testp.notanumber.f32 p, a;", 'p', 0x3c172f979df05045u},
    {"testp.normal.f64 p, A;", 'p', 0x7feebfef3d122b85u},
    {"testp.normal.f32 p, a;", 'p', 0xb93ac0b4b7e4b725u},
    {"testp.subnormal.f64 p, A;", 'p', 0xcd683f9dab090625u},
    {"testp.subnormal.f32 p, a;", 'p', 0xf596c9c040d1d405u},
    {"shf.l.clamp.b32 w, a, b, c;", 'w', 0x3ba3c585b556ca42u},
    {"shf.r.wrap.b32 w, a, b, c;", 'w', 0x1d996736fa06f9c2u},
    {"shf.l.wrap.b32 w, a, b, c;", 'w', 0xd8ff3e1c682bf866u},
    {"shf.r.clamp.b32 w, a, b, c;", 'w', 0x21182c985fe59068u},
    {"bmsk.clamp.b32 w, a, b;", 'w', 0x5ebe95873646c187u},
    {"bmsk.wrap.b32 w, a, b;", 'w', 0x9fd18d5c54e84a2cu},
    {"szext.clamp.s32 w, a, b;", 'w', 0xd1a3561915234d69u},
    {"szext.wrap.u32 w, a, b;", 'w', 0x79c05c27444ebb3du},
    {"szext.wrap.s32 w, a, b;", 'w', 0x3db0aacc7d42d9bu},
    {"szext.clamp.u32 w, a, b;", 'w', 0x2d8be71bd89dab23u},
    {"prmt.b32.f4e w, a, b, c;", 'w', 0xca20633406f1735fu},
    {"prmt.b32.b4e w, a, b, c;", 'w', 0xc0038d113d1f4be6u},
    {"prmt.b32.rc8 w, a, b, c;", 'w', 0x6229bd494d476a01u},
    {"prmt.b32.ecl w, a, b, c;", 'w', 0x62680215889aa5b1u},
    {"prmt.b32.ecr w, a, b, c;", 'w', 0x790f309d5217f73du},
    {"prmt.b32.rc16 w, a, b, c;", 'w', 0x68ffb78c5336dca5u},
    {"fns.b32 w, a, 0, 1;", 'w', 0xbae838994d768b55u},
    {"dp2a.lo.s32.u32 w, a, b, c;", 'w', 0x965d4b7983bce92bu},
    {"dp2a.hi.u32.s32 w, a, b, c;", 'w', 0x22c509e10709a48u},
    {"dp4a.u32.s32 w, a, b, c;", 'w', 0xb4bb0b1c757b6d94u},
    {"mad.hi.sat.s32 w, a, b, c;", 'w', 0xaba91f8b09ed95dcu},
    {"mul24.hi.u32 w, a, b;", 'w', 0xc3529fd203a51c9du},
    {"mad24.hi.s32 w, a, b, c;", 'w', 0xd09f80ac1a44ef6bu},
    {"sad.u32 w, a, b, c;", 'w', 0x2c7afd9ef0a97e06u},
    {"sad.s64 D, A, B, C;", 'd', 0x2c3cee0ef10ab3f9u},
    {"sad.u16 h, ha, hb, hc;", 'h', 0x5a71e9476a63915fu},
    {"vadd2.s32.s32.u32 w, a, b, c;", 'w', 0x68db36c50abfa33du},
    {"vsub2.s32.s32.u32 w, a, b, c;", 'w', 0x2450af111d7b39acu},
    {"vabsdiff2.s32.s32.u32 w, a, b, c;", 'w', 0xbaafd906de22a188u},
    {"vmin2.s32.s32.u32 w, a, b, c;", 'w', 0x61386a8601adc615u},
    {"vmax2.s32.s32.u32 w, a, b, c;", 'w', 0xbb0a57218b698959u},
    {"vavrg2.s32.s32.u32 w, a, b, c;", 'w', 0xecacd0791ddede90u},
    {"vadd4.s32.s32.u32 w, a, b, c;", 'w', 0xd5f17d2d8c7bd9du},
    {"vsub4.s32.s32.u32 w, a, b, c;", 'w', 0xa30241e691f88105u},
    {"vavrg4.s32.s32.u32 w, a, b, c;", 'w', 0xed4b0477421041c5u},
    {"vmin4.s32.s32.u32 w, a, b, c;", 'w', 0xfc2202103d1dfeaau},
    {"vmax4.s32.s32.u32 w, a, b, c;", 'w', 0xa8b7d1e2b0e01f26u},
    {"vadd4.u32.u32.u32.sat w, a, b, c;", 'w', 0x8dacb28cf278f2fu},
    {"vabsdiff2.s32.s32.s32.add w, a, b, c;", 'w', 0x34f905af68481cf0u},
    {"neg.s16 h, ha;", 'h', 0x4412f29a0d548a19u},
    {"abs.s16 h, ha;", 'h', 0x1aa9a32857fb7f59u},
    {"abs.s64 D, A;", 'd', 0xa08fd7a67684a381u},
    {"min.s16x2 w, a, b;", 'w', 0x25bca70a72bee0b3u},
    {"max.u16x2 w, a, b;", 'w', 0x909fc78fc367d827u},
    {"add.u16x2 w, a, b;", 'w', 0x68db36c50abfa33du},
    {"mad.wide.u32 D, a, b, C;", 'd', 0xc97419a62ef68e90u},
    {"mul.hi.s64 D, A, B;", 'd', 0x585d4b87643c28e8u},
    {"mad.lo.s64 D, A, B, C;", 'd', 0x47c937c9c64cdfd2u},
    {"clz.b64 w, A;", 'w', 0x736aeeefffad0985u},
    {"bfind.s64 w, A;", 'w', 0x216d5be144de8435u},
    {"bfind.shiftamt.s64 w, A;", 'w', 0x10aeebd1b3271f75u},
    {"popc.b32 w, a;", 'w', 0x5da5b28d778daca5u},
    {"shr.u64 D, A, b;", 'd', 0x53eaaffe82d5556cu},
    {"brev.b64 D, A;", 'd', 0xa732605963898e19u},
    {"cnot.b64 D, A;", 'd', 0x9a22ccc752dd3b45u},
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

TEST(exact_instructions_compute_what_an_h200_computes) {
    struct ptx_row rows[GS_COUNT(recorded)];
    const char *on = getenv("GRIDSMITH_ON");
    size_t wrong = 0;
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

static double bf16_of(uint64_t bits) {
    return (double)f32_of(bits << 16);
}

static double flushed(double value) {
    return fabs(value) < 0x1p-126 ? copysign(0, value) : value;
}

static bool is_flushed(double value) {
    return value != value || flushed(value) == value;
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

static bool is_div_approx_ftz(double x, double y, double found) {
    return is_flushed(found) && (fabs(x / y) < 0x1p-125 || is_div_approx(flushed(x), flushed(y), found));
}

static bool is_div_full_ftz(double x, double y, double found) {
    return is_flushed(found) && (fabs(x / y) < 0x1p-125 || is_div_full(flushed(x), flushed(y), found));
}

static bool is_ex2_bf16(double x, double y, double found) {
    double exact = exp2(flushed(x));
    (void)y;
    if (x != x)
        return found != found;
    return flushed(found) == found &&
           (in_relative(found, exact, 0x1p-7) || exact < 0x1.02p-126 || (exact > 0x1.fep127 && isinf(found)));
}

static bool is_tanh_bf16(double x, double y, double found) {
    (void)y;
    return x != x ? found != found : fabs(found - tanh(x)) <= 0x1p-8;
}

static const struct approximate {
    const char *code;
    char width; /* 'w': f32, 'h': f16, 'b': bf16 */
    bool (*is_right)(double x, double y, double found);
} approximate[] = {
    {"ex2.approx.f32 w, a;", 'w', is_ex2},
    {"ex2.approx.ftz.f32 w, a;", 'w', is_ex2_ftz},
    {"lg2.approx.f32 w, a;", 'w', is_lg2},
    {"lg2.approx.ftz.f32 w, a;", 'w', is_lg2_ftz},
    {"rsqrt.approx.f32 w, a;", 'w', is_rsqrt},
    {"rsqrt.approx.ftz.f32 w, a;", 'w', is_rsqrt_ftz},
    {"sqrt.approx.f32 w, a;", 'w', is_sqrt},
    {"sqrt.approx.ftz.f32 w, a;", 'w', is_sqrt_ftz},
    {"rcp.approx.f32 w, a;", 'w', is_rcp},
    {"rcp.approx.ftz.f32 w, a;", 'w', is_rcp_ftz},
    {"sin.approx.f32 w, a;", 'w', is_sin},
    {"cos.approx.f32 w, a;", 'w', is_cos},
    {"sin.approx.ftz.f32 w, a;", 'w', is_sin},
    {"cos.approx.ftz.f32 w, a;", 'w', is_cos},
    {"tanh.approx.f32 w, a;", 'w', is_tanh},
    {"div.approx.f32 w, a, b;", 'w', is_div_approx},
    {"div.full.f32 w, a, b;", 'w', is_div_full},
    {"ex2.approx.f16 h, ha;", 'h', is_ex2_f16},
    {"tanh.approx.f16 h, ha;", 'h', is_tanh_f16},
    {"div.approx.ftz.f32 w, a, b;", 'w', is_div_approx_ftz},
    {"div.full.ftz.f32 w, a, b;", 'w', is_div_full_ftz},
    {"ex2.approx.ftz.bf16 h, ha;", 'b', is_ex2_bf16},
    {"tanh.approx.bf16 h, ha;", 'b', is_tanh_bf16},
};

static double value_of(const struct approximate *row, uint64_t bits) {
    return row->width == 'w' ? (double)f32_of(bits) : row->width == 'h' ? f16_of(bits) : bf16_of(bits);
}

static size_t check(const struct approximate *row, const uint64_t *results) {
    size_t wrong = 0;
    for (size_t i = 0; i < PTX_THREADS; i++) {
        uint64_t in[3];
        ptx_numbers_at(i, in);
        double x = value_of(row, in[0]), y = value_of(row, in[1]), found = value_of(row, results[i]);
        if (row->is_right(x, y, found))
            continue;
        if (wrong++ < test_number("GRIDSMITH_SHOWN", 3))
            print_message("%s of %.9g (0x%llx), %.9g is %.9g (0x%llx)\n", row->code, x, (unsigned long long)in[0], y,
                          found, (unsigned long long)results[i]);
    }
    return wrong;
}

TEST(approximate_instructions_are_as_near_as_the_manual_says) {
    struct ptx_row rows[GS_COUNT(approximate)];
    const char *on = getenv("GRIDSMITH_ON");
    size_t wrong = 0;
    for (size_t i = 0; i < GS_COUNT(approximate); i++)
        rows[i] = (struct ptx_row){approximate[i].code, approximate[i].width == 'w' ? 'w' : 'h'};
    uint64_t *results = ptx_numbers_run(on ? on : "host", rows, GS_COUNT(rows));
    for (size_t i = 0; i < GS_COUNT(approximate); i++)
        wrong += check(&approximate[i], results + i * PTX_THREADS);
    free(results);
    if (wrong)
        fail_msg("%zu results are beyond the stated error", wrong);
}

TEST_MAIN(NULL, NULL)
