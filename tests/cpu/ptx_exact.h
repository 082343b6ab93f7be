/*
 * ptx_exact.h: PTX without instructions that are approximate by specification. For tests.
 *
 * If a CPU and a GPU differ in a kernel that has such instructions, this shows whether they are the only cause: with
 * exact instructions in their place both must compute the same bytes. Divisions, roots and reciprocals are rounded to
 * nearest. For ex2, lg2, sin and cos there are no exact instructions: polynomials of fma stand for them, near enough
 * for the kernel to do its usual work.
 */
#ifndef GS_PTX_EXACT_H
#define GS_PTX_EXACT_H

#include "kernels/ptx/ptx.h"

/* The text of the module with all approximate instructions replaced, except those with guards and those that do not
   occur in the corpus. */
gs_text ptx_exact(const gs_ptx_module *module);

#endif
