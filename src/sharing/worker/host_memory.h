/* host_memory.h: the device memory of the emulated GPU, for host_backend.c. See host_memory.c. */
#ifndef GS_WORKER_HOST_MEMORY_H
#define GS_WORKER_HOST_MEMORY_H

#include "base/base.h"

#include <pthread.h>

typedef struct gs_host_memory {
    pthread_mutex_t mutex;
    pthread_cond_t changed;        /* signaled when `unused` changes */
    uint64_t bytes, used_bytes;    /* of the device */
    struct gs_host_unused *unused; /* mappings of pieces that were freed, */
    uint64_t unused_bytes;         /* and their total size */
    uint32_t mapped;               /* pieces with their own mapping */
    struct gs_host_slab **data;    /* by their addresses */
    size_t count, capacity;
} gs_host_memory;

void gs_host_memory_open(gs_host_memory *memory, uint64_t bytes);
/* Zeroed memory. Any thread may call these. */
gs_code gs_host_memory_allocate(gs_host_memory *memory, uint64_t bytes, uint64_t *address, gs_error *error);
void gs_host_memory_free(gs_host_memory *memory, uint64_t address, uint64_t bytes);

/* The body of a thread that unmaps freed pieces; it never ends. The argument is the gs_host_memory. */
void *gs_host_memory_unmap_unused(void *argument);
/* Like munmap, but other threads do not wait until all of it is done. */
void gs_host_unmap(void *address, uint64_t bytes);

#endif
