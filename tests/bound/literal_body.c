/*
 * literal_body.c: the latest end of blocks that all start at once, by trying every walk of every warp and every
 * schedule of these, without any optimization. See body_case.h.
 *
 * A walk is the list of the instructions of a warp. The times of a schedule are absolute: when each instruction of each
 * warp was issued, and when it is done.
 */
#include "body_case.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_WALKS = 64, MOST_LENGTH = 12, MOST_WARPS = 4, MOST_TRIALS = 3000000, UNKNOWN = -1 };

struct walk {
    int parts[MOST_LENGTH];
    bool is_barrier[MOST_LENGTH];
    int length;
};

struct walks {
    struct walk data[MOST_WALKS];
    int count;
};

struct play {
    const body_case *given;
    const struct walk *walk[MOST_WARPS];
    int warps, position[MOST_WARPS];
    int64_t issued[MOST_WARPS][MOST_LENGTH], done[MOST_WARPS][MOST_LENGTH]; /* done UNKNOWN: not served yet */
    int64_t go_on[MOST_WARPS]; /* after a barrier; UNKNOWN: the others have not arrived */
    int64_t free_at[GS_MACHINE_UNITS];
    int slow[MOST_WARPS][MOST_LENGTH]; /* the most slow ones of a chain that ends with this one */
};

struct literal {
    const body_case *given;
    bool too_large;
    int64_t trials;
};

/* ---- walks ---- */

static void add_walk(struct literal *literal, struct walks *walks, const struct walk *walk) {
    for (int i = 0; i < walks->count; i++)
        if (walks->data[i].length == walk->length &&
            memcmp(walks->data[i].parts, walk->parts, (size_t)walk->length * sizeof *walk->parts) == 0)
            return;
    if (walks->count == MOST_WALKS)
        literal->too_large = true;
    else
        walks->data[walks->count++] = *walk;
}

/* Every walk of `first` followed by every walk of `second`. */
static void join_walks(struct literal *literal, const struct walks *first, const struct walks *second,
                       struct walks *into) {
    into->count = 0;
    for (int i = 0; i < first->count; i++)
        for (int j = 0; j < second->count; j++) {
            struct walk walk = first->data[i];
            const struct walk *more = &second->data[j];
            if (walk.length + more->length > MOST_LENGTH) {
                literal->too_large = true;
                return;
            }
            memcpy(walk.parts + walk.length, more->parts, sizeof(int) * (size_t)more->length);
            memcpy(walk.is_barrier + walk.length, more->is_barrier, sizeof(bool) * (size_t)more->length);
            walk.length += more->length;
            add_walk(literal, into, &walk);
        }
}

/* Adds every merge of two walks, from given positions on. */
static void merge_walks(struct literal *literal, const struct walk *a, int at_a, const struct walk *b, int at_b,
                        struct walk *so_far, struct walks *into) {
    if (at_a == a->length && at_b == b->length) {
        add_walk(literal, into, so_far);
        return;
    }
    if (so_far->length == MOST_LENGTH) {
        literal->too_large = true;
        return;
    }
    if (at_a < a->length) {
        so_far->parts[so_far->length++] = a->parts[at_a];
        merge_walks(literal, a, at_a + 1, b, at_b, so_far, into);
        so_far->length--;
    }
    if (at_b < b->length) {
        so_far->parts[so_far->length++] = b->parts[at_b];
        merge_walks(literal, a, at_a, b, at_b + 1, so_far, into);
        so_far->length--;
    }
}

static bool contains_barrier(const gs_body_part *parts, size_t part) {
    bool found = false;
    for (size_t i = part; i < parts[part].end; i++)
        found = found || parts[i].kind == GS_PART_BARRIER;
    return found;
}

static void list_walks(struct literal *literal, size_t from, size_t end, struct walks *walks);

static void list_branch(struct literal *literal, size_t branch, struct walks *walks) {
    const gs_body_part *parts = literal->given->body->parts.data;
    struct walks *sides = calloc(2, sizeof *sides);
    int count = 0, chosen = literal->given->barrier_side % 2;
    for (size_t i = branch + 1; i < parts[branch].end; i = parts[i].end)
        list_walks(literal, i + 1, parts[i].end, &sides[count++]);
    walks->count = 0;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < sides[side].count; i++)
            if (!contains_barrier(parts, branch) || side == chosen)
                add_walk(literal, walks, &sides[side].data[i]);
    if (!parts[branch].is_uniform && !contains_barrier(parts, branch)) {
        struct walk none = {.length = 0};
        add_walk(literal, walks, &none);
        for (int i = 0; i < sides[0].count; i++)
            for (int j = 0; j < sides[1].count; j++)
                merge_walks(literal, &sides[0].data[i], 0, &sides[1].data[j], 0, &none, walks);
    }
    free(sides);
}

/* Some whole rounds, and then a part of one. */
static void list_loop(struct literal *literal, size_t loop, struct walks *walks) {
    const gs_body_part *part = &literal->given->body->parts.data[loop];
    struct walks *lists = calloc(4, sizeof *lists), *whole = &lists[0], *begun = &lists[1], *so_far = &lists[2];
    bool is_fixed = contains_barrier(literal->given->body->parts.data, loop);
    int64_t rounds = part->times;
    if (is_fixed && rounds > literal->given->barrier_rounds)
        rounds = literal->given->barrier_rounds;
    list_walks(literal, loop + 1, part->end, whole);
    *begun = *whole;
    for (int i = 0; i < whole->count && !is_fixed; i++)
        for (int length = 0; length < whole->data[i].length; length++) {
            struct walk first = whole->data[i];
            first.length = length;
            add_walk(literal, begun, &first);
        }
    so_far->count = walks->count = 1;
    so_far->data[0].length = walks->data[0].length = 0;
    for (int64_t i = 0; i < rounds && !literal->too_large; i++) {
        join_walks(literal, so_far, begun, &lists[3]);
        if (is_fixed)
            walks->count = 0;
        for (int j = 0; j < lists[3].count; j++)
            add_walk(literal, walks, &lists[3].data[j]);
        join_walks(literal, so_far, whole, &lists[3]);
        *so_far = lists[3];
    }
    free(lists);
}

static void list_walks(struct literal *literal, size_t from, size_t end, struct walks *walks) {
    const gs_body_part *parts = literal->given->body->parts.data;
    struct walks *lists = calloc(2, sizeof *lists);
    bool is_barrier = false;
    walks->count = 1;
    walks->data[0].length = 0;
    for (size_t i = from; i < end && !literal->too_large; i = parts[i].end) {
        lists[0].count = 0;
        if (parts[i].kind == GS_PART_BARRIER) {
            is_barrier = true;
            continue;
        }
        if (parts[i].kind == GS_PART_INSTRUCTION) {
            lists[0].count = 1;
            lists[0].data[0] = (struct walk){.parts = {(int)i}, .is_barrier = {is_barrier}, .length = 1};
            is_barrier = false;
        } else if (parts[i].kind == GS_PART_BRANCH) {
            list_branch(literal, i, &lists[0]);
        } else {
            list_loop(literal, i, &lists[0]);
        }
        join_walks(literal, walks, &lists[0], &lists[1]);
        *walks = lists[1];
    }
    free(lists);
}

/* ---- schedules ---- */

static const gs_body_part *part_at(const struct play *play, int warp, int position) {
    return &play->given->body->parts.data[play->walk[warp]->parts[position]];
}

static const gs_machine_class *row_at(const struct play *play, int warp, int position) {
    const gs_body *body = play->given->body;
    const char *name = body->classes.data[part_at(play, warp, position)->class_number];
    for (size_t i = 0; i < play->given->machine->classes.count; i++)
        if (strcmp(play->given->machine->classes.data[i].name, name) == 0)
            return &play->given->machine->classes.data[i];
    return NULL;
}

static int64_t held_by(const struct play *play, int warp, int position, size_t unit) {
    return row_at(play, warp, position)->held_millicycles[unit] / 1000;
}

static bool can_issue(const struct play *play, int warp, int64_t now) {
    int at = play->position[warp], partitions = play->given->partitions;
    if (at == play->walk[warp]->length)
        return false;
    if (at && play->walk[warp]->is_barrier[at - 1] && (play->go_on[warp] == UNKNOWN || now < play->go_on[warp]))
        return false;
    int64_t stall = at ? part_at(play, warp, at - 1)->stall : 0;
    if (at && now < play->issued[warp][at - 1] + (stall ? stall : 1))
        return false;
    for (int i = 0; i < at; i++) {
        const gs_body_part *part = part_at(play, warp, i);
        int waits = part_at(play, warp, at)->waits;
        bool counts = (part->result < 6 && waits >> part->result & 1) || (part->reads < 6 && waits >> part->reads & 1);
        if (counts && (play->done[warp][i] == UNKNOWN || now < play->done[warp][i]))
            return false;
    }
    for (size_t unit = 0; unit < play->given->machine->units.count; unit++) {
        if (play->given->machine->units.data[unit].scope != GS_UNIT_OF_PARTITION || !held_by(play, warp, at, unit))
            continue;
        for (int other = warp % partitions; other < play->warps; other += partitions)
            for (int i = 0; i < play->position[other]; i++)
                if (held_by(play, other, i, unit) && now < play->issued[other][i] + held_by(play, other, i, unit))
                    return false;
    }
    return true;
}

static bool is_queued(const struct play *play, int warp, int position, size_t unit) {
    return play->given->machine->units.data[unit].scope != GS_UNIT_OF_PARTITION && held_by(play, warp, position, unit);
}

/* The most slow ones of a chain that is done. */
static int slow_before(const struct play *play, int64_t now) {
    int most = 0;
    for (int warp = 0; warp < play->warps; warp++)
        for (int i = 0; i < play->position[warp]; i++)
            if (play->done[warp][i] != UNKNOWN && play->done[warp][i] <= now && play->slow[warp][i] > most)
                most = play->slow[warp][i];
    return most;
}

static void issue_next(struct play *play, int warp, int64_t now, bool is_slow) {
    int most = slow_before(play, now), at = play->position[warp]++;
    const gs_machine_class *row = row_at(play, warp, at);
    play->slow[warp][at] = is_slow ? most + 1 : 0;
    bool waits_for_unit = false;
    play->issued[warp][at] = now;
    for (size_t unit = 0; unit < play->given->machine->units.count; unit++)
        waits_for_unit = waits_for_unit || is_queued(play, warp, at, unit);
    play->done[warp][at] = waits_for_unit ? UNKNOWN : now + row->latency_cycles;
    if (is_slow)
        play->done[warp][at] += play->given->slow_cycles;
    if (!play->walk[warp]->is_barrier[at])
        return;
    play->go_on[warp] = UNKNOWN;
    int from = warp / play->given->warps * play->given->warps, to = from + play->given->warps, arrived = 0;
    int before = 0;
    for (int i = 0; i < at; i++)
        before += play->walk[warp]->is_barrier[i];
    for (int i = from; i < to; i++) {
        int passed = 0;
        for (int j = 0; j < play->position[i]; j++)
            passed += play->walk[i]->is_barrier[j];
        arrived += passed == before + 1;
    }
    int64_t stall = part_at(play, warp, at)->stall;
    for (int i = from; i < to && arrived == play->given->warps; i++)
        play->go_on[i] = now + (row->latency_cycles > stall ? row->latency_cycles : stall);
}

static int64_t end_of(const struct play *play) {
    int64_t end = 0;
    for (int warp = 0; warp < play->warps; warp++) {
        if (play->position[warp] < play->walk[warp]->length)
            return UNKNOWN;
        for (int i = 0; i < play->walk[warp]->length; i++) {
            int64_t stall = part_at(play, warp, i)->stall, over = play->issued[warp][i] + (stall ? stall : 1);
            if (play->done[warp][i] == UNKNOWN)
                return UNKNOWN;
            end = play->done[warp][i] > end ? play->done[warp][i] : end;
            end = over > end ? over : end;
        }
        if (play->walk[warp]->length && play->walk[warp]->is_barrier[play->walk[warp]->length - 1] &&
            play->go_on[warp] > end)
            end = play->go_on[warp];
    }
    return end;
}

static int64_t try_all(struct literal *literal, const struct play *play, size_t step, int64_t now);

static int64_t try_issues(struct literal *literal, const struct play *play, int partition, size_t step, int64_t now) {
    int64_t worst = UNKNOWN;
    for (int warp = partition; warp < play->warps; warp += play->given->partitions)
        if (can_issue(play, warp, now)) {
            const gs_machine_class *row = row_at(play, warp, play->position[warp]);
            bool may_be_slow = strcmp(row->name, "memory") == 0 && slow_before(play, now) < play->given->slow_most;
            for (int is_slow = 0; is_slow <= may_be_slow; is_slow++) {
                struct play after = *play;
                issue_next(&after, warp, now, is_slow);
                int64_t end = try_all(literal, &after, step + 1, now);
                worst = end > worst ? end : worst;
            }
        }
    return worst == UNKNOWN ? try_all(literal, play, step + 1, now) : worst;
}

static int64_t try_served(struct literal *literal, const struct play *play, size_t unit, size_t step, int64_t now) {
    int64_t worst = UNKNOWN;
    for (int warp = 0; warp < play->warps && now >= play->free_at[unit]; warp++)
        for (int i = 0; i < play->position[warp]; i++)
            if (play->done[warp][i] == UNKNOWN && is_queued(play, warp, i, unit)) {
                struct play after = *play;
                after.done[warp][i] = now + row_at(play, warp, i)->latency_cycles;
                after.free_at[unit] = now + held_by(play, warp, i, unit);
                int64_t end = try_all(literal, &after, step + 1, now);
                worst = end > worst ? end : worst;
            }
    return worst == UNKNOWN ? try_all(literal, play, step + 1, now) : worst;
}

static int64_t try_all(struct literal *literal, const struct play *play, size_t step, int64_t now) {
    size_t partitions = (size_t)play->given->partitions, units = play->given->machine->units.count;
    if (literal->too_large || ++literal->trials > MOST_TRIALS) {
        literal->too_large = true;
        return 0;
    }
    if (step == 0 && end_of(play) != UNKNOWN)
        return end_of(play);
    if (step < partitions)
        return try_issues(literal, play, (int)step, step, now);
    if (step < partitions + units)
        return try_served(literal, play, step - partitions, step, now);
    return try_all(literal, play, 0, now + 1);
}

/* Gives each warp every walk. */
static int64_t try_walks(struct literal *literal, struct play *play, const struct walks *walks, int warp) {
    int64_t worst = 0;
    if (warp >= play->warps || warp >= MOST_WARPS)
        return try_all(literal, play, 0, 0);
    for (int i = 0; i < walks->count && !literal->too_large; i++) {
        play->walk[warp] = &walks->data[i];
        int64_t end = try_walks(literal, play, walks, warp + 1);
        worst = end > worst ? end : worst;
    }
    return worst;
}

int64_t literal_body_worst(const body_case *given) {
    struct literal literal = {.given = given};
    struct play play = {.given = given, .warps = given->blocks * given->warps};
    struct walks *walks = calloc(1, sizeof *walks);
    if (!walks || play.warps > MOST_WARPS || given->blocks > given->slots || given->early) {
        free(walks);
        return -1;
    }
    list_walks(&literal, 0, given->body->parts.count, walks);
    int64_t worst = literal.too_large ? -1 : try_walks(&literal, &play, walks, 0);
    free(walks);
    return literal.too_large ? -1 : worst;
}
