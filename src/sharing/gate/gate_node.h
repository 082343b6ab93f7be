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

enum { GS_NODE_CHAINS = 32 }; /* in a graph, at most */

/* Puts a wait for the board's flags behind a node. Returns an error of the driver. */
int gs_gate_node_wait(gs_gate_parts *parts, uint32_t number, gs_gate_pointer flags);
/* The memory of all chains of a graph; 0: there is none. It is set in the stream. */
gs_gate_pointer gs_gate_node_controls(void *stream);
/* Puts a chain into the place of a kernel that takes so long, if it can be stopped. `index`: of the chain in the
   memory. Returns an error of the driver; `is_chain`: whether it has been done. */
int gs_gate_node_guard(gs_gate_parts *parts, uint32_t number, int64_t ns, gs_gate_pointer flags,
                       gs_gate_pointer controls, size_t index, bool *is_chain);

#endif
