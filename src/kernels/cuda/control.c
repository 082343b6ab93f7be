/*
 * control.c: moving, stopping and continuing a kernel whose blocks take their work from a queue. See kernel.h.
 *
 * Such a kernel is launched with worker blocks. Each takes task after task from a counter in memory, and between tasks
 * looks at the words of its control: a block leaves if the stop word is set, or if the mask does not allow its SM. So
 * the launch ends early, and the counter says how far the grid is done; another launch with the same counter goes on.
 *
 * These functions know where the words are and how they get there. Who waits for what is the caller's affair: an
 * executor stops, waits and launches again; the worker process changes masks while blocks run, and never waits for a
 * kernel; a player sets many counters at once before it measures.
 */
#include "kernel.h"

#include <stddef.h>
#include <string.h>

_Static_assert(offsetof(gs_control_words, next) == 0 && offsetof(gs_control_words, mask) == GS_CONTROL_LINE &&
                   offsetof(gs_control_words, stop) == 2 * GS_CONTROL_LINE &&
                   offsetof(gs_control_words, queue) == 3 * GS_CONTROL_LINE,
               "each word has a line of its own");

gs_control gs_control_at(uint64_t address, gs_control_words *words, bool is_mapped) {
    return (gs_control){.next = address + offsetof(gs_control_words, next),
                        .mask = address + offsetof(gs_control_words, mask),
                        .stop = address + offsetof(gs_control_words, stop),
                        .queue = address + offsetof(gs_control_words, queue),
                        .is_mapped = is_mapped,
                        .words = words};
}

/* ---- the words ---- */

static void set_next(gs_control *control, uint64_t next) {
    __atomic_store_n(&control->words->next, next, __ATOMIC_RELEASE);
}

static void set_mask(gs_control *control, const uint32_t *mask) {
    for (size_t i = 0; i < GS_COUNT(control->words->mask); i++)
        gs_shared_word_set(&control->words->mask[i], mask[i]);
}

/* Sends the first words of the control. */
static int send_words(const gs_control *control, size_t bytes, const cu_api *api, cu_stream stream) {
    return control->is_mapped ? 0 : api->copy_in_later(control->next, control->words, bytes, stream);
}

int gs_control_clear(gs_control *control, const cu_api *api, cu_stream stream) {
    memset(control->words, 0, sizeof *control->words);
    return send_words(control, sizeof *control->words, api, stream);
}

/* A control without a stop word sends the counter and the mask. */
int gs_control_begin(gs_control *control, uint64_t next, const uint32_t *mask, const cu_api *api, cu_stream stream) {
    set_next(control, next);
    set_mask(control, mask);
    gs_shared_word_set(&control->words->stop, 0);
    return send_words(control, control->stop ? offsetof(gs_control_words, queue) : offsetof(gs_control_words, stop),
                      api, stream);
}

/* The GPU may still copy an earlier mask; this one follows it. */
int gs_control_confine(gs_control *control, const uint32_t *mask, const cu_api *api, cu_stream stream) {
    set_mask(control, mask);
    return control->is_mapped
               ? 0
               : api->copy_in_later(control->mask, control->words->mask, sizeof control->words->mask, stream);
}

int gs_control_stop(gs_control *control, const cu_api *api, cu_stream stream) {
    gs_shared_word_set(&control->words->stop, 1);
    return control->is_mapped ? 0 : api->write_word(stream, control->stop, 1, 0);
}

int gs_control_fetch(gs_control *control, const cu_api *api, cu_stream stream) {
    return control->is_mapped
               ? 0
               : api->copy_out_later(&control->words->next, control->next, sizeof control->words->next, stream);
}

uint64_t gs_control_next(const gs_control *control) {
    return __atomic_load_n(&control->words->next, __ATOMIC_ACQUIRE);
}

/* ---- grids ---- */

gs_confined_parameter gs_control_grid(const gs_control *control, const uint32_t grid[3], uint64_t shared_bytes,
                                      uint32_t task_blocks, uint64_t counts) {
    return (gs_confined_parameter){.grid_x = grid[0],
                                   .grid_y = grid[1],
                                   .grid_z = grid[2],
                                   .counts = counts,
                                   .next = control->next,
                                   .stop = control->stop,
                                   .sms = control->mask,
                                   .task_blocks = task_blocks,
                                   .shared = (uint32_t)shared_bytes};
}

gs_persistent_parameter gs_control_persistent(const gs_control *control, const uint32_t grid[3], uint64_t shared_bytes,
                                              uint32_t task_blocks, uint64_t counts) {
    return (gs_persistent_parameter){.grid_x = grid[0],
                                     .grid_y = grid[1],
                                     .grid_z = grid[2],
                                     .task_blocks = task_blocks,
                                     .counts = counts,
                                     .queue = control->queue,
                                     .shared = (uint32_t)shared_bytes};
}

void gs_grid_give(gs_confined_parameter *grid, uint32_t worker_blocks) {
    grid->given = grid->first = worker_blocks;
}

void gs_grid_continue(gs_confined_parameter *grid) {
    grid->given = 0;
}

static uint64_t blocks_of(const gs_confined_parameter *grid) {
    return (uint64_t)grid->grid_x * grid->grid_y * grid->grid_z;
}

uint64_t gs_grid_taken(const gs_confined_parameter *grid, uint64_t next) {
    return gs_min_u64(grid->first + next, blocks_of(grid));
}

/* Blocks that are given to the next launch are not taken before it. */
bool gs_grid_is_finished(const gs_confined_parameter *grid, uint64_t next) {
    return !grid->given && gs_grid_taken(grid, next) == blocks_of(grid);
}
