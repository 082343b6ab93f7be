/* rounds.h: what rounds.c needs of rounds_exact.c. */
#ifndef GS_ROUNDS_H
#define GS_ROUNDS_H

#include "kernels/ptx/ptx.h"
#include "launch.h"

/* GS_E_REFUSED: a branch of the kernel depends on what a CPU may compute otherwise than a GPU. `is_passed`, of each
   statement: some thread comes to it on the CPU. */
gs_code gs_rounds_check_exact(const gs_ptx_module *module, const gs_ptx_function *function, const bool *is_passed,
                              const gs_launch_file *launch, gs_error *error);

#endif
