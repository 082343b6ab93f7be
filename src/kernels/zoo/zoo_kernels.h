/* zoo_kernels.h: the kernels of kernels/ as CUDA C and as compressed PTX, compiled into the library (the build makes
   zoo.c), and the structs of the zoo. For this room only. */
#ifndef GS_ZOO_KERNELS_H
#define GS_ZOO_KERNELS_H

#include "zoo.h"

extern const gs_embedded_files gs_zoo_files; /* bfs.cu, bfs.ptx.gz */

extern const gs_zoo_kernel gs_zoo_bfs, gs_zoo_cp, gs_zoo_cutcp, gs_zoo_fft, gs_zoo_histo, gs_zoo_img, gs_zoo_lbm,
    gs_zoo_mrif, gs_zoo_mriq, gs_zoo_pns, gs_zoo_regtil, gs_zoo_sgemm, gs_zoo_spmv, gs_zoo_stenc, gs_zoo_tpacf,
    gs_zoo_black_scholes, gs_zoo_gaussian, gs_zoo_quasirandom, gs_zoo_transpose, gs_zoo_tgemm, gs_zoo_conv,
    gs_zoo_wgemm;

#define GS_DIM(x, y, z) ((const uint32_t[3]){(uint32_t)(x), (uint32_t)(y), (uint32_t)(z)})
#define GS_UP(n, by)    gs_divide_up(n, by)

/* The element `index` of a random buffer. It depends only on the seed, the index and the bounds. */
double gs_zoo_random(uint64_t seed, size_t index, double low, double high);
/* Fills a random buffer. The elements repeat after a million. */
void gs_zoo_fill(gs_scalar type, uint64_t seed, double low, double high, void *data, size_t count);

#endif
