/*
 * body.c: the tree of a compiled kernel is built, checked and counted. See body.h.
 *
 * A count goes down the tree. A loop counts each round; of a uniform branch, each class counts the most over its sides,
 * which need not be one side for all classes.
 */
#include "bound.h"

#include <stdlib.h>

void gs_body_clear(gs_body *body) {
    for (size_t i = 0; i < body->classes.count; i++)
        free(body->classes.data[i]);
    free(body->classes.data);
    free(body->parts.data);
    free(body->kernel);
    free(body->file);
    *body = (gs_body){0};
}

int32_t gs_body_class(gs_body *body, const char *name) {
    for (size_t i = 0; i < body->classes.count; i++)
        if (strcmp(body->classes.data[i], name) == 0)
            return (int32_t)i;
    char *copy = strdup(name);
    if (!copy || !GS_PUSH(&body->classes, copy)) {
        free(copy);
        return -1;
    }
    return (int32_t)body->classes.count - 1;
}

gs_body_part *gs_body_open(gs_body *body, gs_body_part_kind kind, uint32_t offset, uint32_t line) {
    gs_body_part part = {.kind = kind,
                         .end = body->parts.count + 1,
                         .offset = offset,
                         .line = line,
                         .result = GS_NO_SCOREBOARD,
                         .reads = GS_NO_SCOREBOARD};
    return GS_PUSH(&body->parts, part) ? &body->parts.data[body->parts.count - 1] : NULL;
}

void gs_body_close(gs_body *body, size_t part) {
    body->parts.data[part].end = body->parts.count;
}

static bool part_is_sound(const gs_body *body, size_t number, const gs_body_part *parent) {
    const gs_body_part *part = &body->parts.data[number];
    bool has_children = part->end > number + 1;
    bool is_leaf = part->kind == GS_PART_INSTRUCTION || part->kind == GS_PART_BARRIER;
    if (part->end <= number || part->end > (parent ? parent->end : body->parts.count) || (is_leaf && has_children))
        return false;
    if ((part->kind == GS_PART_SIDE) != (parent && parent->kind == GS_PART_BRANCH))
        return false;
    if (part->kind == GS_PART_LOOP && part->times < 0)
        return false;
    return part->kind != GS_PART_INSTRUCTION ||
           (part->class_number >= 0 && (size_t)part->class_number < body->classes.count &&
            part->result <= GS_NO_SCOREBOARD && part->reads <= GS_NO_SCOREBOARD && part->waits < 1 << GS_SCOREBOARDS);
}

static bool parts_are_sound(const gs_body *body, size_t from, size_t end, const gs_body_part *parent, int depth) {
    if (depth > GS_MOST_DEPTH)
        return false;
    for (size_t i = from; i < end; i = body->parts.data[i].end)
        if (!part_is_sound(body, i, parent) ||
            !parts_are_sound(body, i + 1, body->parts.data[i].end, &body->parts.data[i], depth + 1))
            return false;
    return true;
}

bool gs_body_is_sound(const gs_body *body) {
    return parts_are_sound(body, 0, body->parts.count, NULL, 0);
}

gs_code gs_body_fail_large(const gs_body *body, gs_error *error) {
    const gs_body_part *around[GS_MOST_DEPTH + 1], *largest = NULL;
    double rounds[GS_MOST_DEPTH + 1] = {1}, most = 0;
    int depth = 0;
    for (size_t i = 0; i < body->parts.count; i++) {
        const gs_body_part *part = &body->parts.data[i];
        while (depth && around[depth]->end <= i)
            depth--;
        if (part->kind != GS_PART_LOOP || depth == GS_MOST_DEPTH)
            continue;
        around[++depth] = part;
        rounds[depth] = rounds[depth - 1] * (double)part->times;
        if (rounds[depth] > most) {
            most = rounds[depth];
            largest = part;
        }
    }
    char line[32] = "";
    if (largest && largest->line)
        snprintf(line, sizeof line, " in line %u", largest->line);
    if (largest)
        return gs_fail(error, GS_E_REFUSED,
                       "at 0x%x: this takes more than 2^60 cycles, which is 18 years at 2 GHz; the loop%s has %.3g "
                       "rounds in all",
                       largest->offset, line, most);
    gs_fail_large(error);
    return error->code = GS_E_REFUSED;
}

/* ---- counts ---- */

/* Adds `times` of `more` to `sum`, or takes the larger one. */
static bool combine_counts(int64_t *sum, const int64_t *more, size_t count, int64_t times, bool takes_larger) {
    for (size_t i = 0; i < count; i++) {
        int64_t product;
        if (takes_larger && more[i] > sum[i])
            sum[i] = more[i];
        if (!takes_larger && (!gs_scale(more[i], times, 1, &product) || !gs_plus(&sum[i], product)))
            return false;
    }
    return true;
}

static bool count_parts(const gs_body *body, size_t from, size_t end, int64_t *sum, bool takes_larger) {
    size_t classes = body->classes.count;
    for (size_t i = from; i < end; i = body->parts.data[i].end) {
        const gs_body_part *part = &body->parts.data[i];
        if (part->kind == GS_PART_INSTRUCTION && !gs_plus(&sum[part->class_number], 1))
            return false;
        if (part->end == i + 1)
            continue;
        int64_t *own = calloc(classes + 1, sizeof *own);
        int64_t times = part->kind == GS_PART_LOOP ? part->times : 1;
        bool counted = own &&
                       count_parts(body, i + 1, part->end, own, part->kind == GS_PART_BRANCH && part->is_uniform) &&
                       combine_counts(sum, own, classes, times, takes_larger);
        free(own);
        if (!counted)
            return false;
    }
    return true;
}

bool gs_body_most(const gs_body *body, int64_t *of_class) {
    memset(of_class, 0, body->classes.count * sizeof *of_class);
    return count_parts(body, 0, body->parts.count, of_class, false);
}
