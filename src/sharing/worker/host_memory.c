/*
 * host_memory.c: the device memory of the emulated GPU.
 *
 * A piece of memory has its own mapping, followed by a guard page, so that a kernel that writes too far faults. But a
 * process can have only some ten thousand mappings (vm.max_map_count). So only the first pieces get one, and pieces too
 * large for a slab. All others come from slabs: a slab is one mapping with pieces of one size, a power of two.
 *
 * On a busy core Linux needs about 50 ms to reclaim the pages of 256 MiB. No operation should wait for that. So a
 * separate thread unmaps large pieces that are freed, or an allocation does that would otherwise have too little
 * memory.
 *
 * Other memory of the process that clients cause is counted here, too, before it is touched: modules, local variables
 * of kernels, and stacks that are longer than usual. malloc of kernels has a heap of its own, as on a GPU.
 */
#define _GNU_SOURCE
#include "host_memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MAPPED = 2048,        /* pieces with their own mapping, apart from large ones */
    LEAST_PIECE = 64,     /* bytes, in a slab */
    MOST_PIECE = 4 << 20, /* larger ones have their own mappings */
    SLAB = 1 << 20,       /* bytes of a slab, */
    SLAB_PIECES = 16,     /* or at least this many pieces */
    AT_ONCE = 2 << 20,    /* bytes whose pages are reclaimed at a time */
    HEAP = 8 << 20        /* bytes for malloc of kernels: the default of CUDA */
};

struct gs_host_unused {
    struct gs_host_unused *next;
    char *address;
    uint64_t bytes;
};

struct gs_host_slab {
    char *memory;
    uint64_t piece; /* bytes */
    uint32_t count, free_count;
    uint32_t free[]; /* numbers of free pieces */
};

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- mappings ---- */

static uint64_t with_guard(uint64_t bytes) {
    size_t page = page_bytes();
    return (bytes + page - 1) / page * page + page;
}

/* While a mapping is removed, no other thread of the process can map memory, or touch a page for the first time. So its
   pages are reclaimed before, a part at a time. */
void gs_host_unmap(void *address, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += AT_ONCE)
        madvise((char *)address + at, gs_min_u64(AT_ONCE, bytes - at), MADV_DONTNEED);
    munmap(address, bytes);
}

/* NULL: out of memory, or too many mappings. */
static char *map_pages(uint64_t bytes) {
    uint64_t all = with_guard(bytes);
    char *memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    mprotect(memory + all - page_bytes(), page_bytes(), PROT_NONE);
    return memory;
}

/* ---- unused mappings; under the mutex ---- */

static void unmap_later(gs_host_memory *memory, char *address, uint64_t bytes) {
    struct gs_host_unused *unused = bytes > AT_ONCE ? malloc(sizeof *unused) : NULL;
    if (!unused) {
        gs_host_unmap(address, bytes);
        return;
    }
    *unused = (struct gs_host_unused){memory->unused, address, bytes};
    memory->unused = unused;
    memory->unused_bytes += bytes;
    pthread_cond_broadcast(&memory->changed);
}

/* Unmaps one; there must be one. The mutex is released meanwhile. */
static void unmap_one(gs_host_memory *memory) {
    struct gs_host_unused *unused = memory->unused;
    memory->unused = unused->next;
    pthread_mutex_unlock(&memory->mutex);
    gs_host_unmap(unused->address, unused->bytes);
    pthread_mutex_lock(&memory->mutex);
    memory->unused_bytes -= unused->bytes;
    free(unused);
    pthread_cond_broadcast(&memory->changed);
}

/* Waits until `bytes` are available, or nothing is left to unmap. */
static void unmap_for(gs_host_memory *memory, uint64_t bytes) {
    while (memory->unused_bytes && memory->used_bytes + memory->unused_bytes + bytes > memory->bytes)
        if (memory->unused)
            unmap_one(memory);
        else
            pthread_cond_wait(&memory->changed, &memory->mutex); /* the thread is unmapping the last one */
}

void *gs_host_memory_unmap_unused(void *argument) {
    gs_host_memory *memory = argument;
    pthread_setname_np(pthread_self(), "unmaps");
    pthread_mutex_lock(&memory->mutex);
    for (;;) {
        if (memory->unused)
            unmap_one(memory);
        else
            pthread_cond_wait(&memory->changed, &memory->mutex);
    }
    return NULL;
}

/* ---- slabs; under the mutex ---- */

static uint64_t piece_for(uint64_t bytes) {
    uint64_t piece = LEAST_PIECE;
    while (piece < bytes)
        piece *= 2;
    return piece;
}

/* The index at which a slab with this address is, or would be. */
static size_t place_of(const gs_host_memory *memory, const char *address) {
    size_t low = 0, high = memory->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (memory->data[middle]->memory <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct gs_host_slab *add_slab(gs_host_memory *memory, uint64_t piece) {
    uint32_t count = (uint32_t)gs_max_u64(SLAB / piece, SLAB_PIECES);
    struct gs_host_slab *slab = malloc(sizeof *slab + count * sizeof *slab->free);
    char *mapped = slab && GS_RESERVE(memory, 1) ? map_pages(piece * count) : NULL;
    if (!mapped) {
        free(slab);
        return NULL;
    }
    *slab = (struct gs_host_slab){.memory = mapped, .piece = piece, .count = count, .free_count = count};
    for (uint32_t i = 0; i < count; i++)
        slab->free[i] = count - 1 - i;
    size_t at = place_of(memory, mapped);
    memmove(memory->data + at + 1, memory->data + at, (memory->count - at) * sizeof *memory->data);
    memory->data[at] = slab;
    memory->count++;
    return slab;
}

static char *take_piece(gs_host_memory *memory, uint64_t piece) {
    struct gs_host_slab *slab = NULL;
    for (size_t i = 0; i < memory->count && !slab; i++)
        if (memory->data[i]->piece == piece && memory->data[i]->free_count)
            slab = memory->data[i];
    if (!slab)
        slab = add_slab(memory, piece);
    return slab ? slab->memory + slab->piece * slab->free[--slab->free_count] : NULL;
}

/* Returns pages to the system, which zeroes them. */
static void clear_piece(char *address, uint64_t bytes) {
    if (bytes < page_bytes() || madvise(address, bytes, MADV_DONTNEED) != 0)
        memset(address, 0, bytes);
}

/* False: it is not from a slab. */
static bool give_piece(gs_host_memory *memory, char *address) {
    size_t after = place_of(memory, address);
    struct gs_host_slab *slab = after ? memory->data[after - 1] : NULL;
    if (!slab || (uint64_t)(address - slab->memory) >= slab->piece * slab->count)
        return false;
    clear_piece(address, slab->piece);
    slab->free[slab->free_count++] = (uint32_t)((uint64_t)(address - slab->memory) / slab->piece);
    if (slab->free_count < slab->count)
        return true;
    gs_host_unmap(slab->memory, with_guard(slab->piece * slab->count));
    memory->count--;
    memmove(memory->data + after - 1, memory->data + after, (memory->count - after + 1) * sizeof *memory->data);
    free(slab);
    return true;
}

/* ---- pieces ---- */

void gs_host_memory_open(gs_host_memory *memory, uint64_t bytes, _Atomic uint64_t *shown) {
    *memory = (gs_host_memory){.bytes = bytes, .shown = shown};
    pthread_mutex_init(&memory->mutex, NULL);
    pthread_cond_init(&memory->changed, NULL);
}

static char *allocate_pages(gs_host_memory *memory, uint64_t bytes) {
    unmap_for(memory, bytes);
    if (bytes > memory->bytes - memory->used_bytes)
        return NULL;
    if (memory->mapped >= MAPPED && bytes <= MOST_PIECE)
        return take_piece(memory, piece_for(bytes));
    char *address = map_pages(bytes);
    memory->mapped += address != NULL;
    return address;
}

gs_code gs_host_memory_allocate(gs_host_memory *memory, uint64_t bytes, uint64_t *address, gs_error *error) {
    pthread_mutex_lock(&memory->mutex);
    char *made = allocate_pages(memory, bytes);
    memory->used_bytes += made ? bytes : 0;
    pthread_mutex_unlock(&memory->mutex);
    *address = (uint64_t)(uintptr_t)made;
    return made ? GS_OK
                : gs_fail(error, GS_E_FULL, "out of device memory: %llu bytes were requested",
                          (unsigned long long)bytes);
}

void gs_host_memory_free(gs_host_memory *memory, uint64_t address, uint64_t bytes) {
    char *given = (char *)(uintptr_t)address;
    pthread_mutex_lock(&memory->mutex);
    memory->used_bytes -= bytes;
    if (!give_piece(memory, given)) {
        unmap_later(memory, given, with_guard(bytes));
        memory->mapped--;
    }
    pthread_mutex_unlock(&memory->mutex);
}

/* ---- memory without pieces ---- */

static gs_code take_bytes(gs_host_memory *memory, uint64_t bytes, const char *what, gs_error *error) {
    unmap_for(memory, bytes);
    uint64_t left = memory->bytes - memory->used_bytes;
    if (bytes > left)
        return gs_fail(error, GS_E_FULL, "out of device memory: %s needs %llu bytes, and %llu are left", what,
                       (unsigned long long)bytes, (unsigned long long)left);
    memory->used_bytes += bytes;
    return GS_OK;
}

gs_code gs_host_memory_take(gs_host_memory *memory, uint64_t bytes, const char *what, gs_error *error) {
    pthread_mutex_lock(&memory->mutex);
    gs_code code = take_bytes(memory, bytes, what, error);
    pthread_mutex_unlock(&memory->mutex);
    return code;
}

void gs_host_memory_give(gs_host_memory *memory, uint64_t bytes) {
    pthread_mutex_lock(&memory->mutex);
    memory->used_bytes -= bytes;
    pthread_mutex_unlock(&memory->mutex);
}

static void show_bytes(const gs_host_memory *memory) {
    atomic_store_explicit(memory->shown, memory->local_bytes + memory->stack_bytes + memory->heap_bytes,
                          memory_order_relaxed);
}

gs_code gs_host_memory_begin_launch(gs_host_memory *memory, uint64_t bytes, gs_error *error) {
    gs_code code = GS_OK;
    if (!bytes)
        return GS_OK;
    pthread_mutex_lock(&memory->mutex);
    if (bytes > memory->local_bytes)
        code = take_bytes(memory, bytes - memory->local_bytes, "the local memory of a kernel", error);
    if (code == GS_OK) {
        memory->local_bytes = gs_max_u64(memory->local_bytes, bytes);
        memory->local_launches++;
    }
    show_bytes(memory);
    pthread_mutex_unlock(&memory->mutex);
    return code;
}

void gs_host_memory_end_launch(gs_host_memory *memory, uint64_t bytes) {
    if (!bytes)
        return;
    pthread_mutex_lock(&memory->mutex);
    if (!--memory->local_launches) {
        memory->used_bytes -= memory->local_bytes;
        memory->local_bytes = 0;
        show_bytes(memory);
    }
    pthread_mutex_unlock(&memory->mutex);
}

/* Called by handlers of signals that kernels raise: those hold no lock. */
bool gs_host_memory_extend(gs_host_memory *memory, bool is_heap, uint64_t bytes) {
    pthread_mutex_lock(&memory->mutex);
    uint64_t left = is_heap ? HEAP - memory->heap_bytes : memory->bytes - memory->used_bytes;
    bool is_allowed = bytes <= left;
    if (is_allowed && is_heap) {
        memory->heap_bytes += bytes;
    } else if (is_allowed) {
        memory->stack_bytes += bytes;
        memory->used_bytes += bytes;
    }
    show_bytes(memory);
    pthread_mutex_unlock(&memory->mutex);
    return is_allowed;
}

void gs_host_memory_shrink(gs_host_memory *memory, bool is_heap, uint64_t bytes) {
    pthread_mutex_lock(&memory->mutex);
    if (is_heap) {
        memory->heap_bytes -= bytes;
    } else {
        memory->stack_bytes -= bytes;
        memory->used_bytes -= bytes;
    }
    show_bytes(memory);
    pthread_mutex_unlock(&memory->mutex);
}
