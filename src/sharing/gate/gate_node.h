/*
 * gate_node.h: the nodes of a long graph of a best-effort program: how long each takes, and long kernels that can be
 * stopped.
 */
#ifndef GS_GATE_NODE_H
#define GS_GATE_NODE_H

#include "gate.h"
#include "gate_parts.h"

/* A form of a graph that tells how long its nodes take, once it has been launched. */
typedef struct gs_gate_timing {
    void *exec;    /* NULL: none */
    void **events; /* one behind each node, by number, and one before all of them */
    size_t count;
} gs_gate_timing;

/* False: it cannot be made. */
bool gs_gate_timing_make(gs_gate_timing *timing, const gs_gate_parts *parts, uint64_t flags);
/* False: it has not ended. */
bool gs_gate_timing_is_done(const gs_gate_timing *timing);
/* The time of each node: from the end of all that it depends on to its own. False: the driver does not tell. */
bool gs_gate_timing_read(const gs_gate_timing *timing, const gs_gate_parts *parts, int64_t *ns);
void gs_gate_timing_free(gs_gate_timing *timing);

/* Puts a wait for the board's flags behind a node. Returns an error of the driver. */
int gs_gate_node_wait(gs_gate_parts *parts, uint32_t number, gs_gate_pointer flags);

/* The kernels of a graph that can be stopped. */
typedef struct {
    gs_gate_pointer
        controls; /* the memory of all; 0: there is none. The caller frees it, when the GPU has done all work */
    size_t count;
} gs_gate_chains;

/* Puts a chain into the place of a kernel that takes so long, if it can be stopped and there is room. The memory is
   made for the first one, and set in the stream of the work. Returns an error of the driver. */
int gs_gate_node_guard(gs_gate_parts *parts, uint32_t number, int64_t ns, const gs_gate_work *work,
                       gs_gate_chains *chains);

#endif
