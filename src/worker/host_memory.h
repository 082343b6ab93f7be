/* host_memory.h: the memory of the CPU that plays a GPU, for host_backend.c. See host_memory.c. */
#ifndef GS_WORKER_HOST_MEMORY_H
#define GS_WORKER_HOST_MEMORY_H

#include "base/base.h"

#include <pthread.h>

typedef struct gs_host_memory {
    pthread_mutex_t mutex;
    uint64_t bytes, used_bytes; /* of the device */
    uint32_t mapped;            /* pieces that have a mapping of their own */
    struct gs_host_slab **data; /* by their addresses */
    size_t count, capacity;
} gs_host_memory;

void gs_host_memory_open(gs_host_memory *memory, uint64_t bytes);
/* Memory that is zero. Any thread may call these. */
gs_code gs_host_memory_allocate(gs_host_memory *memory, uint64_t bytes, uint64_t *address, gs_error *error);
void gs_host_memory_free(gs_host_memory *memory, uint64_t address, uint64_t bytes);

#endif
