/*
 * number_map.c: arrays that grow, and a table from numbers to numbers: open addressing, linear probing, no tombstones.
 *
 * The recorder looks up every launch in one, and its library needs only the C library. An empty slot has the key 0.
 */
#include "recorder.h"

#include <stdlib.h>

bool gs_grow(void **data, size_t *capacity, size_t wanted, size_t size) {
    if (wanted <= *capacity)
        return true;
    size_t larger = *capacity ? *capacity * 2 : 8;
    larger = larger < wanted ? wanted : larger;
    void *grown = realloc(*data, larger * size);
    if (!grown)
        return false;
    *data = grown;
    *capacity = larger;
    return true;
}

static size_t home_of(const gs_number_map *map, uint64_t key) {
    return (size_t)(key * 0x9e3779b97f4a7c15u >> 20) & (map->capacity - 1);
}

uint64_t *gs_number_map_find(const gs_number_map *map, uint64_t key) {
    if (!map->count)
        return NULL;
    for (size_t at = home_of(map, key);; at = (at + 1) & (map->capacity - 1)) {
        if (map->slots[at].key == key)
            return &map->slots[at].value;
        if (!map->slots[at].key)
            return NULL;
    }
}

static uint64_t *put_key(gs_number_map *map, uint64_t key) {
    size_t at = home_of(map, key);
    while (map->slots[at].key && map->slots[at].key != key)
        at = (at + 1) & (map->capacity - 1);
    if (!map->slots[at].key) {
        map->slots[at] = (struct gs_number_entry){.key = key};
        map->count++;
    }
    return &map->slots[at].value;
}

static bool grow_map(gs_number_map *map) {
    gs_number_map larger = {.capacity = map->capacity ? map->capacity * 2 : 64};
    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].key)
            *put_key(&larger, map->slots[i].key) = map->slots[i].value;
    free(map->slots);
    *map = larger;
    return true;
}

uint64_t *gs_number_map_add(gs_number_map *map, uint64_t key) {
    if (map->count * 2 >= map->capacity && !grow_map(map))
        return NULL;
    return put_key(map, key);
}

/* The slots after the removed one move up if that brings them closer to their home. */
void gs_number_map_remove(gs_number_map *map, uint64_t key) {
    uint64_t *value = gs_number_map_find(map, key);
    if (!value)
        return;
    size_t mask = map->capacity - 1, hole = (size_t)((struct gs_number_entry *)(void *)(value - 1) - map->slots);
    for (size_t at = (hole + 1) & mask; map->slots[at].key; at = (at + 1) & mask) {
        size_t home = home_of(map, map->slots[at].key);
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        map->slots[hole] = map->slots[at];
        hole = at;
    }
    map->slots[hole] = (struct gs_number_entry){0};
    map->count--;
}

void gs_number_map_clear(gs_number_map *map) {
    free(map->slots);
    *map = (gs_number_map){0};
}
