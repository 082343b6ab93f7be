/* host_memory.h: the device memory of the emulated GPU, for host_backend.c. See host_memory.c. */
#ifndef GS_WORKER_HOST_MEMORY_H
#define GS_WORKER_HOST_MEMORY_H

#include "base/base.h"

#include <pthread.h>

typedef struct gs_host_memory {
    pthread_mutex_t mutex;
    pthread_cond_t changed;        /* signaled when `unused` changes */
    uint64_t bytes, used_bytes;    /* of the device; used: by pieces, modules, and kernels */
    uint64_t local_bytes;          /* of them, for local variables of kernels, */
    uint64_t local_launches;       /* which this many launches have; */
    uint64_t stack_bytes;          /* for stacks that are longer than usual; */
    uint64_t heap_bytes;           /* and, besides them, for malloc of kernels */
    _Atomic uint64_t *shown;       /* the sum of these three is written there */
    struct gs_host_unused *unused; /* mappings of pieces that were freed, */
    uint64_t unused_bytes;         /* and their total size */
    uint32_t mapped;               /* pieces with their own mapping */
    struct gs_host_slab **data;    /* by their addresses */
    size_t count, capacity;
} gs_host_memory;

void gs_host_memory_open(gs_host_memory *memory, uint64_t bytes, _Atomic uint64_t *shown);
/* Zeroed memory. Any thread may call these. */
gs_code gs_host_memory_allocate(gs_host_memory *memory, uint64_t bytes, uint64_t *address, gs_error *error);
void gs_host_memory_free(gs_host_memory *memory, uint64_t address, uint64_t bytes);

/* Counts `bytes` as used, without memory, and the inverse. GS_E_FULL: fewer are left. */
gs_code gs_host_memory_take(gs_host_memory *memory, uint64_t bytes, const char *what, gs_error *error);
void gs_host_memory_give(gs_host_memory *memory, uint64_t bytes);

/* Local variables of a launch: `bytes` if all SMs run it. Launches use the same memory, because an SM runs one block at
   a time. They are counted until the last launch has ended. */
gs_code gs_host_memory_begin_launch(gs_host_memory *memory, uint64_t bytes, gs_error *error);
void gs_host_memory_end_launch(gs_host_memory *memory, uint64_t bytes);

/* Memory that a kernel takes while it runs: for stacks, or for malloc. False: there is none. */
bool gs_host_memory_extend(gs_host_memory *memory, bool is_heap, uint64_t bytes);
void gs_host_memory_shrink(gs_host_memory *memory, bool is_heap, uint64_t bytes);

/* The body of a thread that unmaps freed pieces; it never ends. The argument is the gs_host_memory. */
void *gs_host_memory_unmap_unused(void *argument);
/* Like munmap, but other threads do not wait until all of it is done. */
void gs_host_unmap(void *address, uint64_t bytes);

#endif
