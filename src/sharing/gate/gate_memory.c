/*
 * gate_memory.c: how much device memory the program may have.
 *
 * Allocations are kept by their address or handle in a hash table, because the calls that free them do not give their
 * size. Bytes are counted as the program asks for them; the driver rounds them up.
 */
#include "gate.h"

#include <pthread.h>
#include <stdlib.h>

struct entry {
    gs_gate_pointer name; /* 0: free */
    uint64_t bytes;
};

static struct memory {
    pthread_mutex_t lock;
    struct entry *entries;
    size_t count, capacity; /* a power of two */
    uint64_t used;
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t place_of(gs_gate_pointer name, size_t capacity) {
    return (size_t)(name * 0x9e3779b97f4a7c15u >> 20) & (capacity - 1);
}

static void insert_entry(struct entry *entries, size_t capacity, struct entry added) {
    size_t at = place_of(added.name, capacity);
    while (entries[at].name)
        at = (at + 1) & (capacity - 1);
    entries[at] = added;
}

static bool reserve_entry(void) {
    enum { FIRST = 256 };
    if (memory.count * 2 < memory.capacity)
        return true;
    size_t capacity = memory.capacity ? memory.capacity * 2 : FIRST;
    struct entry *entries = calloc(capacity, sizeof *entries);
    for (size_t i = 0; i < memory.capacity && entries; i++)
        if (memory.entries[i].name)
            insert_entry(entries, capacity, memory.entries[i]);
    if (!entries)
        return false;
    free(memory.entries);
    memory.entries = entries;
    memory.capacity = capacity;
    return true;
}

/* Removes an entry, and moves those behind it so that they are found. */
static void remove_at(size_t at) {
    memory.entries[at].name = 0;
    memory.count--;
    for (size_t i = (at + 1) & (memory.capacity - 1); memory.entries[i].name; i = (i + 1) & (memory.capacity - 1)) {
        struct entry moved = memory.entries[i];
        memory.entries[i].name = 0;
        insert_entry(memory.entries, memory.capacity, moved);
    }
}

static void publish_bytes(void) {
    if (gs_gate_is_linked())
        atomic_store_explicit(&gs_gate_state.page->memory_bytes, memory.used, memory_order_relaxed);
}

bool gs_gate_memory_take(uint64_t bytes) {
    if (!gs_gate_state.memory_limit)
        return true;
    pthread_mutex_lock(&memory.lock);
    bool fits = bytes <= gs_gate_state.memory_limit && memory.used <= gs_gate_state.memory_limit - bytes;
    memory.used += fits ? bytes : 0;
    publish_bytes();
    pthread_mutex_unlock(&memory.lock);
    return fits;
}

void gs_gate_memory_return(uint64_t bytes) {
    if (!gs_gate_state.memory_limit)
        return;
    pthread_mutex_lock(&memory.lock);
    memory.used -= bytes;
    publish_bytes();
    pthread_mutex_unlock(&memory.lock);
}

void gs_gate_memory_keep(gs_gate_pointer name, uint64_t bytes) {
    if (!gs_gate_state.memory_limit)
        return;
    pthread_mutex_lock(&memory.lock);
    if (name && reserve_entry()) {
        insert_entry(memory.entries, memory.capacity, (struct entry){.name = name, .bytes = bytes});
        memory.count++;
    }
    pthread_mutex_unlock(&memory.lock);
}

void gs_gate_memory_free(gs_gate_pointer name) {
    pthread_mutex_lock(&memory.lock);
    size_t at = memory.capacity ? place_of(name, memory.capacity) : 0;
    while (memory.capacity && memory.entries[at].name && memory.entries[at].name != name)
        at = (at + 1) & (memory.capacity - 1);
    if (name && memory.capacity && memory.entries[at].name) {
        memory.used -= memory.entries[at].bytes;
        remove_at(at);
        publish_bytes();
    }
    pthread_mutex_unlock(&memory.lock);
}

void gs_gate_memory_info(size_t *free_bytes, size_t *total_bytes) {
    pthread_mutex_lock(&memory.lock);
    uint64_t limit = gs_gate_state.memory_limit, left = limit > memory.used ? limit - memory.used : 0;
    if (free_bytes && *free_bytes > left)
        *free_bytes = left;
    if (total_bytes && *total_bytes > limit)
        *total_bytes = limit;
    pthread_mutex_unlock(&memory.lock);
}
