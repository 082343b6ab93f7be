/*
 * strings.c: strings that are kept once, at addresses that do not change.
 *
 * A recorded program launches a few hundred different kernels a million times. Each name is stored once, and a launch
 * has a pointer to it. Strings lie one after the other in large chunks, because a million small allocations would take
 * twice the memory. A hash table finds them; it has twice as many slots as there are strings.
 */
#include "base.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 16 };

struct gs_strings_chunk {
    struct gs_strings_chunk *next;
    _Alignas(8) char bytes[];
};

/* Takes bytes of the first chunk, or of a new one. */
static char *take_bytes(gs_strings *strings, size_t size) {
    size = (size + 7) / 8 * 8;
    if (size > strings->left) {
        size_t space = gs_max_u64(size, CHUNK);
        struct gs_strings_chunk *chunk = malloc(sizeof *chunk + space);
        if (!chunk)
            return NULL;
        chunk->next = strings->chunks;
        strings->chunks = chunk;
        strings->next = chunk->bytes;
        strings->left = space;
    }
    char *taken = strings->next;
    strings->next += size;
    strings->left -= size;
    return taken;
}

char *gs_strings_keep(gs_strings *strings, const void *bytes, size_t length) {
    char *kept = take_bytes(strings, length + 1);
    if (!kept)
        return NULL;
    memcpy(kept, bytes, length);
    kept[length] = '\0';
    return kept;
}

/* The slot of a string, or the free one where it would go. */
static struct gs_string *slot_of(const gs_strings *strings, const void *bytes, uint32_t length, uint32_t hash) {
    size_t mask = strings->capacity - 1, at = hash & mask;
    for (;; at = (at + 1) & mask) {
        struct gs_string *slot = &strings->slots[at];
        if (!slot->bytes || (slot->hash == hash && slot->length == length && memcmp(slot->bytes, bytes, length) == 0))
            return slot;
    }
}

static bool grow_table(gs_strings *strings) {
    gs_strings grown = *strings;
    grown.capacity = strings->capacity ? strings->capacity * 2 : 64;
    grown.slots = calloc(grown.capacity, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    for (size_t i = 0; i < strings->capacity; i++) {
        const struct gs_string *slot = &strings->slots[i];
        if (slot->bytes)
            *slot_of(&grown, slot->bytes, slot->length, slot->hash) = *slot;
    }
    free(strings->slots);
    *strings = grown;
    return true;
}

char *gs_strings_add(gs_strings *strings, const void *bytes, size_t length) {
    if (length >= UINT32_MAX || (strings->count * 2 >= strings->capacity && !grow_table(strings)))
        return NULL;
    uint32_t hash = (uint32_t)gs_hash(0, bytes, length);
    struct gs_string *slot = slot_of(strings, bytes, (uint32_t)length, hash);
    if (slot->bytes)
        return slot->bytes;
    char *kept = gs_strings_keep(strings, bytes, length);
    if (!kept)
        return NULL;
    *slot = (struct gs_string){kept, (uint32_t)length, hash};
    strings->count++;
    return kept;
}

void gs_strings_free(gs_strings *strings) {
    while (strings->chunks) {
        struct gs_strings_chunk *chunk = strings->chunks;
        strings->chunks = chunk->next;
        free(chunk);
    }
    free(strings->slots);
    *strings = (gs_strings){0};
}
