/*
 * gate_twin.h: the twin of a kernel: the same machine code with a guard in front, in a module of its own.
 */
#ifndef GS_GATE_TWIN_H
#define GS_GATE_TWIN_H

#include "gate.h"

/* ---- what the program loads: for the hooks ---- */

/* A module or a library was made of an image, which the program may free afterwards, */
void gs_gate_image_keep(const void *owner, bool is_library, const void *image);
/* or of a file. */
void gs_gate_image_keep_file(const void *owner, bool is_library, const char *path);
/* A module, a kernel or a function comes from that library, module or kernel. */
void gs_gate_owner_keep(const void *child, const void *owner);
/* A launch is captured: the graph will have the function, whatever the program launches. */
void gs_gate_function_keep(const void *what);
/* It is about to be unloaded. */
void gs_gate_image_forget(const void *owner);
/* A context is about to go: nothing is kept. */
void gs_gate_twins_forget(void);

/* ---- twins ---- */

typedef struct gs_gate_twin {
    const void *what; /* what the program launches: a function or a kernel */
    void *context;
    void *module;
    void *function;             /* NULL: it has no twin */
    void *original;             /* the function of `what` */
    uint32_t parameter, offset; /* the number and the place of the guard's parameter */
    uint32_t cluster;           /* blocks of a cluster, if its code says so */
    gs_gate_constants constants;
    char reason[GS_TENANT_REASON]; /* why it has no twin */
    bool is_used;
} gs_gate_twin;

/* Finds the twin of a kernel in the current context, and makes it if need be. False: it has none; `twin` has the
   reason. */
bool gs_gate_twin_find(const void *what, gs_gate_twin *twin);
/* The function of a twin is launched, by the program or in a graph: for the status. */
void gs_gate_twin_use(const void *function);

#endif
