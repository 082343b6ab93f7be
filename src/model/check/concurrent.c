/*
 * concurrent.c: which of the marked launches of a recorded program may run at the same time.
 *
 * Two launches may, if neither waits for the other: not by the order of a stream, and not through events, graphs or
 * copies. The host may wait between them as well; recordings do not have that, so it is not counted on.
 *
 * Each launch and copy has a clock: for each stream, how many of its launches and copies have ended before it can
 * start. It comes from the clock of the one before it in its stream, and from the clocks of those that it waits for.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { NO_STREAM = -1, MOST_STREAMS = 128, MOST_ITEMS = 2000000, MOST_MARKED = 4000, MOST_SETS = 64 };

/* A launch or a copy. */
struct item {
    int32_t stream;    /* NO_STREAM: none, as of a node of a graph that is not marked */
    uint32_t position; /* in its stream, from 1 on */
};

struct search {
    const gs_run *run;
    gs_names streams;
    size_t stream_count;
    struct item *launches, *copies;
    uint32_t *launch_clocks, *copy_clocks; /* `stream_count` numbers each */
    uint32_t *counts;                      /* items of each stream so far */
    const uint32_t **latest;               /* the clock of the latest item of each stream, or NULL */
};

/* ---- streams ---- */

/* A marked launch without a stream gets one of its own. */
static gs_code number_streams(struct search *search, const bool *marked, gs_error *error) {
    const gs_run *run = search->run;
    for (size_t i = 0; i < run->launches.count + run->copies.count; i++) {
        bool is_launch = i < run->launches.count;
        const char *name = is_launch ? run->launches.data[i].stream : run->copies.data[i - run->launches.count].stream;
        struct item *item = is_launch ? &search->launches[i] : &search->copies[i - run->launches.count];
        item->stream = NO_STREAM;
        if (!name && !(is_launch && marked[i]))
            continue;
        size_t number = name ? gs_names_add(&search->streams, name, search->stream_count) : search->stream_count;
        if (number == SIZE_MAX)
            return gs_fail_memory(error);
        search->stream_count += number == search->stream_count;
        item->stream = (int32_t)number;
        if (search->stream_count > MOST_STREAMS)
            return gs_fail(error, GS_E_REFUSED, "the recording has more than %d streams", MOST_STREAMS);
    }
    return GS_OK;
}

/* ---- clocks ---- */

static void merge_clock(uint32_t *clock, const uint32_t *other, size_t count) {
    for (size_t i = 0; other && i < count; i++)
        clock[i] = (uint32_t)gs_max(clock[i], other[i]);
}

/* The edge to the launch before it in its stream that lets it start before that one has ended, or NULL. */
static const gs_edge *early_edge(const struct search *search, const gs_issue *issue, const struct item *item) {
    for (uint32_t i = 0; i < issue->after_count; i++) {
        const gs_edge *edge = &search->run->edges.data[issue->after + i];
        const struct item *other = edge->is_copy ? &search->copies[edge->number] : &search->launches[edge->number];
        if (edge->when != GS_AT_END && other->stream == item->stream && other->position + 1 == item->position)
            return edge;
    }
    return NULL;
}

/* A launch that may start early has the clock of the one before it, which has not ended then. */
static void set_clock(struct search *search, const gs_issue *issue, struct item *item, uint32_t *clock) {
    size_t count = search->stream_count;
    if (item->stream != NO_STREAM) {
        item->position = ++search->counts[item->stream];
        merge_clock(clock, search->latest[item->stream], count);
        if (!early_edge(search, issue, item))
            clock[item->stream] = item->position - 1;
    }
    for (uint32_t i = 0; i < issue->after_count; i++) {
        const gs_edge *edge = &search->run->edges.data[issue->after + i];
        const struct item *other = edge->is_copy ? &search->copies[edge->number] : &search->launches[edge->number];
        if (edge->when != GS_AT_END)
            continue;
        merge_clock(clock, (edge->is_copy ? search->copy_clocks : search->launch_clocks) + edge->number * count, count);
        if (other->stream != NO_STREAM)
            clock[other->stream] = (uint32_t)gs_max(clock[other->stream], other->position);
    }
    if (item->stream != NO_STREAM)
        search->latest[item->stream] = clock;
}

static void set_clocks(struct search *search) {
    const gs_run *run = search->run;
    size_t copies = 0, count = search->stream_count;
    for (size_t i = 0; i <= run->launches.count; i++) {
        for (; copies < run->copies.count && run->copies.data[copies].before <= i; copies++)
            set_clock(search, &run->copies.data[copies].issue, &search->copies[copies],
                      search->copy_clocks + copies * count);
        if (i < run->launches.count)
            set_clock(search, &run->launches.data[i].issue, &search->launches[i], search->launch_clocks + i * count);
    }
}

static bool is_before(const struct search *search, size_t one, size_t other) {
    const struct item *item = &search->launches[one];
    return search->launch_clocks[other * search->stream_count + (size_t)item->stream] >= item->position;
}

/* ---- sets ---- */

static bool same_shape(const gs_launch *a, const gs_launch *b) {
    return a->kernel == b->kernel && a->blocks == b->blocks && a->cluster == b->cluster &&
           gs_shape_equal(&a->shape, &b->shape);
}

static bool is_known(const struct search *search, const gs_concurrent *sets, size_t one, size_t other) {
    const gs_launch *launches = search->run->launches.data;
    for (size_t i = 0; i < sets->count; i++) {
        const size_t *set = sets->data[i].data;
        if ((same_shape(&launches[set[0]], &launches[one]) && same_shape(&launches[set[1]], &launches[other])) ||
            (same_shape(&launches[set[0]], &launches[other]) && same_shape(&launches[set[1]], &launches[one])))
            return true;
    }
    return false;
}

static gs_code add_pair(gs_concurrent *sets, size_t one, size_t other, gs_error *error) {
    gs_order set = {0};
    if (GS_PUSH(&set, one) && GS_PUSH(&set, other) && GS_PUSH(sets, set))
        return GS_OK;
    free(set.data);
    return gs_fail_memory(error);
}

static gs_code find_pairs(const struct search *search, const size_t *marked, size_t count, gs_concurrent *sets,
                          gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < count && code == GS_OK; i++)
        for (size_t k = 0; k < i && code == GS_OK && sets->count < MOST_SETS; k++)
            if (!is_before(search, marked[k], marked[i]) && !is_known(search, sets, marked[k], marked[i]))
                code = add_pair(sets, marked[k], marked[i], error);
    sets->is_complete = sets->count < MOST_SETS;
    return code;
}

static gs_code allocate_search(struct search *search, const bool *marked, gs_error *error) {
    const gs_run *run = search->run;
    size_t launches = run->launches.count + 1, copies = run->copies.count + 1;
    if (launches + copies > MOST_ITEMS)
        return gs_fail(error, GS_E_REFUSED, "the recording has more than %d launches and copies", MOST_ITEMS);
    search->launches = calloc(launches, sizeof *search->launches);
    search->copies = calloc(copies, sizeof *search->copies);
    gs_code code = search->launches && search->copies ? number_streams(search, marked, error) : gs_fail_memory(error);
    if (code != GS_OK)
        return code;
    size_t count = search->stream_count + 1;
    search->launch_clocks = calloc(launches, count * sizeof *search->launch_clocks);
    search->copy_clocks = calloc(copies, count * sizeof *search->copy_clocks);
    search->counts = calloc(count, sizeof *search->counts);
    search->latest = calloc(count, sizeof *search->latest);
    return search->launch_clocks && search->copy_clocks && search->counts && search->latest ? GS_OK
                                                                                            : gs_fail_memory(error);
}

gs_code gs_concurrent_find(const gs_run *run, const bool *marked, gs_concurrent *sets, gs_error *error) {
    struct search search = {.run = run};
    size_t *numbers = malloc(MOST_MARKED * sizeof *numbers), count = 0;
    bool has_more = false; /* marked launches that are not looked at */
    *sets = (gs_concurrent){0};
    gs_code code = numbers ? allocate_search(&search, marked, error) : gs_fail_memory(error);
    if (code == GS_OK) {
        set_clocks(&search);
        for (size_t i = 0; i < run->launches.count && !has_more; i++) {
            has_more = marked[i] && count == MOST_MARKED;
            if (marked[i] && !has_more)
                numbers[count++] = i;
        }
        code = find_pairs(&search, numbers, count, sets, error);
        sets->is_complete = sets->is_complete && !has_more;
    }
    gs_names_free(&search.streams);
    free(search.launches);
    free(search.copies);
    free(search.launch_clocks);
    free(search.copy_clocks);
    free(search.counts);
    free(search.latest);
    free(numbers);
    return code;
}

void gs_concurrent_clear(gs_concurrent *sets) {
    for (size_t i = 0; i < sets->count; i++)
        free(sets->data[i].data);
    free(sets->data);
    *sets = (gs_concurrent){0};
}
