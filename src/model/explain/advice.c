/*
 * advice.c: the changes that would help, the largest gain first.
 *
 * Each is a what-if that was played, or is computed from the waves of a kernel. A change that needs to know whether
 * operations are independent says so: a recording does not. What gains less than a hundredth is left out.
 */
#include "advice.h"

#include <stdlib.h>

static gs_code add_advice(struct gs_adviser *adviser, const gs_advice *advice, gs_error *error) {
    int64_t now_ns = adviser->base->least_ns, gained_ns = now_ns - (advice->least_ns + advice->most_ns) / 2;
    if (gained_ns * 100 < now_ns)
        return GS_OK;
    return GS_PUSH(adviser->advices, *advice) ? GS_OK : gs_fail_memory(error);
}

/* Whether a what-if gains more than one that was tried before, and that is a part of it. */
static bool gains_more(const struct gs_adviser *adviser, const gs_advice *advice) {
    for (size_t i = 0; i < adviser->advices->count; i++) {
        const gs_advice *other = &adviser->advices->data[i];
        int64_t ns = advice->least_ns + advice->most_ns, other_ns = other->least_ns + other->most_ns;
        if (strncmp(advice->words, other->words, strlen(other->words)) == 0 && ns + ns / 50 > other_ns)
            return false;
    }
    return true;
}

/* Plays a what-if, and adds it if it helps. */
static gs_code advise(struct gs_adviser *adviser, const char *words, const char *sentence, gs_error *error) {
    gs_what_if what_if;
    gs_outcome outcome;
    gs_code code = gs_what_if_read(words, &what_if, error);
    if (code == GS_OK)
        code = gs_try(adviser->program, &what_if, adviser->base, &outcome, error);
    if (code != GS_OK)
        return code;
    gs_advice advice = {.least_ns = outcome.least_ns, .most_ns = outcome.most_ns};
    snprintf(advice.words, sizeof advice.words, "%s", words);
    snprintf(advice.sentence, sizeof advice.sentence, "%s", sentence);
    return gains_more(adviser, &advice) ? add_advice(adviser, &advice, error) : GS_OK;
}

/* ---- what there is in the program ---- */

struct traits {
    bool has_copies, has_streams;
    size_t alone; /* operations that a call of their own issues */
};

static struct traits traits_of(const gs_recorded_program *program) {
    struct traits traits = {0};
    const gs_run *run = program->run;
    const char *first = NULL;
    int64_t before_ns = GS_NO_TIME;
    for (size_t i = program->part->first; i < program->part->last; i++) {
        size_t operation = program->order->data[i];
        bool is_launch = operation < run->launches.count;
        const gs_copy *copy = is_launch ? NULL : &run->copies.data[operation - run->launches.count];
        const char *stream = is_launch ? run->launches.data[operation].stream : copy->stream;
        const gs_issue *issue = gs_run_issue(run, operation);
        traits.has_copies = traits.has_copies || (copy && !copy->is_memset);
        traits.has_streams = traits.has_streams || (first && stream && strcmp(first, stream) != 0);
        traits.alone += issue->at_ns != before_ns && !gs_issue_is_node(issue);
        first = first ? first : stream;
        before_ns = issue->at_ns;
    }
    return traits;
}

/* ---- kernels ---- */

/* "*name*" for patterns, of the identifier of a short name. */
static void put_pattern(const char *name, char *pattern, size_t size) {
    snprintf(pattern, size, "*%.*s*", (int)gs_min_u64(strcspn(name, "<#.+,:[]*?"), 100), name);
}

/* Of several streams, the kernel that waited longest for others to be served first, or for SMs. */
static const gs_kernel_row *longest_waiting(const gs_kernel_rows *rows) {
    const gs_kernel_row *found = NULL;
    for (size_t i = 0; i < rows->count; i++) {
        const gs_kernel_row *row = &rows->data[i];
        bool is_held =
            row->reason == GS_REASON_QUEUE || row->reason == GS_REASON_HEADROOM || row->reason == GS_REASON_REST;
        if (is_held && row->wait_ns && (!found || row->wait_ns > found->wait_ns))
            found = row;
    }
    return found;
}

static gs_code advise_waiting(struct gs_adviser *adviser, gs_error *error) {
    const gs_kernel_row *row = longest_waiting(adviser->rows);
    char pattern[120], words[240], sentence[400];
    if (!row)
        return GS_OK;
    put_pattern(row->name, pattern, sizeof pattern);
    snprintf(words, sizeof words, "priority=%s:-1", pattern);
    snprintf(sentence, sizeof sentence, "launch %s on a stream of higher priority: it waits for others to leave SMs",
             row->name);
    gs_code code = advise(adviser, words, sentence, error);
    snprintf(words, sizeof words, "order=%s:first", pattern);
    snprintf(sentence, sizeof sentence, "launch %s as soon as what it waits for is launched", row->name);
    return code == GS_OK ? advise(adviser, words, sentence, error) : code;
}

/* The kernel that loses most in its last wave, of those that have more than one. */
static gs_code advise_tail(struct gs_adviser *adviser, gs_error *error) {
    const gs_kernel_row *most = NULL;
    for (size_t i = 0; i < adviser->rows->count; i++) {
        const gs_kernel_row *row = &adviser->rows->data[i];
        if (row->waves > 1 && (!most || row->tail * (double)row->ns > most->tail * (double)most->ns))
            most = row;
    }
    if (!most)
        return GS_OK;
    gs_advice advice = {.most_ns = adviser->base->least_ns};
    double lost_ns = most->tail * (double)most->ns / (double)gs_max_u64(1, gs_part_steps(adviser->program->part));
    advice.least_ns = gs_max(0, adviser->base->least_ns - (int64_t)lost_ns);
    snprintf(advice.sentence, sizeof advice.sentence,
             "give %s a grid that ends with a full wave: %.0f%% of its SM time is lost in the last of %.1f waves",
             most->name, most->tail * 100, most->waves);
    return add_advice(adviser, &advice, error);
}

/* ---- all ---- */

static int compare_advices(const void *first, const void *second) {
    const gs_advice *a = first, *b = second;
    int order = GS_COMPARE(a->least_ns + a->most_ns, b->least_ns + b->most_ns);
    return order ? order : strcmp(a->words, b->words);
}

/* Steps that repeat can be graphs, or run at the same time. */
static gs_code advise_steps(struct gs_adviser *adviser, const struct traits *traits, gs_error *error) {
    size_t steps = gs_part_steps(adviser->program->part);
    char sentence[400];
    gs_code code = GS_OK;
    if (steps && traits->alone > 2 * steps) {
        snprintf(sentence, sizeof sentence, "make each step a CUDA graph: one call instead of %zu",
                 traits->alone / steps);
        code = advise(adviser, "graph", sentence, error);
    }
    bool can_turn = steps && !adviser->program->part->is_inside; /* layers depend on each other */
    if (code == GS_OK && can_turn)
        code = advise(adviser, "streams=2", "run two steps at a time on two streams, if they are independent", error);
    if (code == GS_OK && can_turn && traits->alone > 2 * steps)
        code = advise(adviser, "graph,streams=2",
                      "make each step a CUDA graph, and run two at a time, if they are independent", error);
    return code;
}

gs_code gs_advise(struct gs_adviser *adviser, gs_error *error) {
    struct traits traits = traits_of(adviser->program);
    gs_code code = advise_steps(adviser, &traits, error);
    if (code == GS_OK)
        code = advise(adviser, "host=never-late",
                      "let the host issue launches before the GPU has finished the last ones", error);
    if (code == GS_OK && traits.has_copies)
        code = advise(adviser, "streams=copy", "copy on a stream of its own, beside the kernels of the step before",
                      error);
    if (code == GS_OK && traits.has_streams)
        code = advise(adviser, "streams=1", "run all on one stream: side by side, kernels slow each other down", error);
    if (code == GS_OK && traits.has_streams)
        code = advise_waiting(adviser, error);
    if (code == GS_OK)
        code = advise_tail(adviser, error);
    if (code == GS_OK && adviser->advices->count)
        qsort(adviser->advices->data, adviser->advices->count, sizeof *adviser->advices->data, compare_advices);
    return code;
}
