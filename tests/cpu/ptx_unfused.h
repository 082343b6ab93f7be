/*
 * ptx_unfused.h: PTX that a GPU computes as it is written. For tests.
 *
 * `mul.f32` and `add.f32` without a rounding mode may be fused by ptxas into one instruction that rounds once, and so
 * the result depends on the compiler. With `.rn` written out they are not.
 */
#ifndef GS_PTX_UNFUSED_H
#define GS_PTX_UNFUSED_H

#include "kernels/ptx/ptx.h"

/* The text of the module with `.rn` written out and without the kernels other than `kept` (GS_PTX_NONE: with all of
   them). The caller frees it. */
gs_text ptx_unfused(const gs_ptx_module *module, uint32_t kept);

#endif
