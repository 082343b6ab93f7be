/*
 * shares.c: what the bound of a compiled kernel consists of, and what would lower it.
 *
 * Parts of a bound overlap: a chain of latencies goes through many lines, and a unit is shared by all. So the share of
 * a line is not a part of a sum. It is by how much the bound would be lower if the instructions of the line were not
 * there, and in the same way for a loop with one round less, and for a branch whose threads stay together.
 */
#include "bound.h"

#include <stdlib.h>

enum { MOST_ROWS = 60, MOST_RELIEFS = 200 }; /* for which a bound is computed */

struct sharing {
    const gs_gpu *gpu;
    const gs_machine *machine;
    const gs_body *body;
    const gs_shape *shape;
    int64_t blocks;
    const gs_body_bound *bound;
    size_t *row_of; /* of each part that is an instruction: its row */
    gs_error *error;
};

/* ---- rows ---- */

static bool find_row(struct sharing *sharing, gs_body_shares *shares, size_t part, uint32_t container) {
    const gs_body_part *instruction = &sharing->body->parts.data[part];
    uint32_t offset = instruction->line ? 0 : container;
    for (size_t i = 0; i < shares->rows.count; i++)
        if (shares->rows.data[i].line == instruction->line &&
            (instruction->line || shares->rows.data[i].offset == offset)) {
            sharing->row_of[part] = i;
            return true;
        }
    sharing->row_of[part] = shares->rows.count;
    gs_body_row row = {.line = instruction->line,
                       .offset = instruction->line ? instruction->offset : offset,
                       .saved_cycles = GS_NOT_KNOWN};
    return GS_PUSH(&shares->rows, row);
}

/* Counts how often a warp executes each instruction at most. Over the sides of a branch that is uniform this is more
   than a warp executes, because it takes one of them. */
static bool count_rows(struct sharing *sharing, gs_body_shares *shares, size_t from, size_t end, int64_t times,
                       uint32_t container) {
    for (size_t i = from; i < end; i = sharing->body->parts.data[i].end) {
        const gs_body_part *part = &sharing->body->parts.data[i];
        int64_t inside = times;
        if (part->kind == GS_PART_INSTRUCTION && (!find_row(sharing, shares, i, container) ||
                                                  !gs_plus(&shares->rows.data[sharing->row_of[i]].instructions, times)))
            return false;
        if (part->kind == GS_PART_LOOP && !gs_scale(times, part->times, 1, &inside))
            return false;
        if (part->end > i + 1 && !count_rows(sharing, shares, i + 1, part->end, inside, part->offset))
            return false;
    }
    return true;
}

/* ---- the bound of a changed body ---- */

/* A copy without the instructions of a row (SIZE_MAX: with all), with `part` changed (SIZE_MAX: none). */
static bool change_body(const struct sharing *sharing, size_t row, size_t part, gs_body *changed) {
    const gs_body *body = sharing->body;
    *changed = (gs_body){.classes = {body->classes.data, body->classes.count, 0},
                         .memory_bytes = body->memory_bytes,
                         .constant_bytes = body->constant_bytes,
                         .constant_banks = body->constant_banks,
                         .is_kept = body->is_kept,
                         .others_write = body->others_write};
    size_t *place = calloc(body->parts.count + 1, sizeof *place);
    bool is_stored = place && GS_RESERVE(&changed->parts, body->parts.count + 1);
    for (size_t i = 0; i < body->parts.count && is_stored; i++) {
        place[i] = changed->parts.count;
        if (row != SIZE_MAX && body->parts.data[i].kind == GS_PART_INSTRUCTION && sharing->row_of[i] == row)
            continue;
        gs_body_part copy = body->parts.data[i];
        if (i == part && copy.kind == GS_PART_LOOP)
            copy.times--;
        if (i == part && copy.kind == GS_PART_BRANCH)
            copy.is_uniform = true;
        changed->parts.data[changed->parts.count++] = copy;
    }
    if (is_stored)
        place[body->parts.count] = changed->parts.count;
    for (size_t i = 0; i < changed->parts.count && is_stored; i++)
        changed->parts.data[i].end = place[changed->parts.data[i].end];
    free(place);
    return is_stored;
}

static gs_code bound_changed(const struct sharing *sharing, size_t row, size_t part, int64_t *saved) {
    gs_body changed;
    gs_body_bound bound;
    gs_code code = change_body(sharing, row, part, &changed) ? GS_OK : gs_fail_memory(sharing->error);
    if (code == GS_OK)
        code = gs_bound_body(sharing->gpu, sharing->machine, &changed, sharing->shape, sharing->blocks,
                             sharing->bound->kind >= GS_LATENCY_LOADED, &bound, sharing->error);
    if (code == GS_OK)
        *saved = sharing->bound->cycles - bound.cycles;
    free(changed.parts.data);
    return code;
}

/* ---- all ---- */

static int compare_instructions(const void *a, const void *b) {
    const gs_body_row *one = *(gs_body_row *const *)a, *other = *(gs_body_row *const *)b;
    return GS_COMPARE(other->instructions, one->instructions);
}

static int compare_rows(const void *a, const void *b) {
    const gs_body_row *one = a, *other = b;
    int by_cycles = GS_COMPARE(other->saved_cycles, one->saved_cycles);
    int by_line = GS_COMPARE(one->line, other->line);
    return by_cycles ? by_cycles : by_line ? by_line : GS_COMPARE(one->offset, other->offset);
}

static int compare_reliefs(const void *a, const void *b) {
    const gs_body_relief *one = a, *other = b;
    int by_cycles = GS_COMPARE(other->saved_cycles, one->saved_cycles);
    return by_cycles ? by_cycles : GS_COMPARE(one->part, other->part);
}

/* The rows with the most instructions, of which the bound without them is computed. */
static gs_code share_rows(struct sharing *sharing, gs_body_shares *shares) {
    gs_body_row **largest = calloc(shares->rows.count + 1, sizeof *largest);
    gs_code code = largest ? GS_OK : gs_fail_memory(sharing->error);
    for (size_t i = 0; i < shares->rows.count && largest; i++)
        largest[i] = &shares->rows.data[i];
    if (largest)
        qsort(largest, shares->rows.count, sizeof *largest, compare_instructions);
    for (size_t i = 0; i < shares->rows.count && i < MOST_ROWS && code == GS_OK; i++)
        code = bound_changed(sharing, (size_t)(largest[i] - shares->rows.data), SIZE_MAX, &largest[i]->saved_cycles);
    free(largest);
    if (code == GS_OK && shares->rows.count)
        qsort(shares->rows.data, shares->rows.count, sizeof *shares->rows.data, compare_rows);
    return code;
}

static gs_code find_reliefs(struct sharing *sharing, gs_body_shares *shares) {
    gs_code code = GS_OK;
    size_t tried = 0;
    for (size_t i = 0; i < sharing->body->parts.count && tried < MOST_RELIEFS && code == GS_OK; i++) {
        const gs_body_part *part = &sharing->body->parts.data[i];
        bool is_loop = part->kind == GS_PART_LOOP && part->times > 0 && part->source != GS_ROUNDS_OF_GROUPS;
        gs_body_relief relief = {.part = i};
        if (!is_loop && !(part->kind == GS_PART_BRANCH && !part->is_uniform))
            continue;
        tried++;
        code = bound_changed(sharing, SIZE_MAX, i, &relief.saved_cycles);
        if (code == GS_OK && relief.saved_cycles > 0 && !GS_PUSH(&shares->reliefs, relief))
            code = gs_fail_memory(sharing->error);
    }
    if (shares->reliefs.count)
        qsort(shares->reliefs.data, shares->reliefs.count, sizeof *shares->reliefs.data, compare_reliefs);
    return code;
}

gs_code gs_body_share(const gs_gpu *gpu, const gs_machine *machine, const gs_body *body, const gs_shape *shape,
                      int64_t blocks, const gs_body_bound *bound, gs_body_shares *shares, gs_error *error) {
    struct sharing sharing = {.gpu = gpu,
                              .machine = machine,
                              .body = body,
                              .shape = shape,
                              .blocks = blocks,
                              .bound = bound,
                              .row_of = calloc(body->parts.count + 1, sizeof(size_t)),
                              .error = error};
    *shares = (gs_body_shares){0};
    gs_code code = sharing.row_of ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK && !count_rows(&sharing, shares, 0, body->parts.count, 1, 0))
        code = gs_body_fail_large(body, error);
    if (code == GS_OK && machine)
        code = find_reliefs(&sharing, shares);
    if (code == GS_OK && machine)
        code = share_rows(&sharing, shares);
    free(sharing.row_of);
    return code;
}

void gs_body_shares_clear(gs_body_shares *shares) {
    free(shares->rows.data);
    free(shares->reliefs.data);
    *shares = (gs_body_shares){0};
}
