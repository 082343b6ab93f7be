/*
 * endings.c: a heap of things that will happen: the first to happen is data[0].
 */
#include "engine_state.h"

bool gs_endings_add(struct endings *heap, struct ending ending) {
    if (!GS_RESERVE(heap, 1))
        return false;
    size_t at = heap->count++;
    for (; at > 0 && gs_ends_before(&ending, &heap->data[(at - 1) / 2]); at = (at - 1) / 2)
        heap->data[at] = heap->data[(at - 1) / 2];
    heap->data[at] = ending;
    return true;
}

struct ending gs_endings_take(struct endings *heap, size_t at) {
    struct ending first = heap->data[at];
    for (; at > 0; at = (at - 1) / 2)
        heap->data[at] = heap->data[(at - 1) / 2];
    struct ending last = heap->data[--heap->count];
    size_t child;
    while ((child = 2 * at + 1) < heap->count) {
        if (child + 1 < heap->count && gs_ends_before(&heap->data[child + 1], &heap->data[child]))
            child++;
        if (!gs_ends_before(&heap->data[child], &last))
            break;
        heap->data[at] = heap->data[child];
        at = child;
    }
    heap->data[at] = last;
    return first;
}
