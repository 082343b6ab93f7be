/*
 * trace.h: real programs as runs.
 *
 *   gs_import     reads the traces of other tools: the PyTorch profiler, Nsight Systems, cuobjdump, ptxas
 *
 * A run holds the launches and copies of one GPU. What a tool does not record is named in `lacks` of the run's origin,
 * and can be supplied by the user (gs_supply) or by a recording of the same program.
 */
#ifndef GS_TRACE_H
#define GS_TRACE_H

#include "run/run.h"

#endif
