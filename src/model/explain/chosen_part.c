/*
 * chosen_part.c: the part of a recording that is looked at: found by itself, or chosen by words.
 *
 * By itself it is the steps that repeat (steps.c). If they are a small part of the program, such as a loop in a data
 * loader, they do not stand for it: then it is a step of the PyTorch profiler (ranges.c), or all. But if they are most
 * operations, and last to the end, what is before them is start-up, however long it takes.
 */
#include "change.h"

static gs_part whole_part(const gs_run *run, const gs_sequence *order) {
    gs_part part = {.last = order->count};
    gs_part_set_times(run, order, &part);
    return part;
}

static int64_t kernel_time(const gs_run *run, const gs_sequence *order, size_t first, size_t last) {
    int64_t ns = 0;
    for (size_t i = first; i < last; i++)
        ns += order->data[i] < run->launches.count ? gs_measured_ns(gs_run_issue(run, order->data[i])) : 0;
    return ns;
}

/* Whether the steps stand for the program. The last one was left out, and the recording may end within another. */
static bool is_program(const gs_run *run, const gs_sequence *order, const gs_part *part) {
    int64_t part_ns = kernel_time(run, order, part->first, part->last);
    if (5 * part_ns > kernel_time(run, order, 0, order->count))
        return true;
    int64_t rest_ns = kernel_time(run, order, part->last, order->count);
    return 2 * (part->last - part->first) > order->count && rest_ns <= 2 * part_ns / (int64_t)gs_part_steps(part);
}

gs_code gs_part_find(const gs_run *run, const gs_sequence *order, gs_part *part, gs_error *error) {
    gs_code code = gs_part_repeated(run, order, 0, part, error);
    if (code != GS_OK)
        return code;
    if (part->period && is_program(run, order, part))
        return gs_part_is_inside(run, order, GS_PROFILER_STEP, part, &part->is_inside, error);
    if (gs_part_of_range(run, order, GS_PROFILER_STEP, part, NULL) != GS_OK)
        *part = whole_part(run, order);
    return GS_OK;
}

/* ---- by words ---- */

static bool scan_steps(const char *words, long long *first, long long *last) {
    int length = 0;
    return sscanf(words, "%lld-%lld%n", first, last, &length) == 2 && !words[length] && *first >= 1 && *last >= *first;
}

static bool scan_every(const char *words, size_t *every) {
    unsigned number = 0;
    int length = 0;
    bool is_read = sscanf(words, "%6u%n", &number, &length) == 1 && !words[length] && number >= 1;
    *every = number;
    return is_read;
}

static bool scan_ms(const char *words, double *from, double *to) {
    int length = 0;
    return sscanf(words, "%lf-%lf%n", from, to, &length) == 2 && !words[length] && *from >= 0 && *to > *from &&
           *to <= 1e12;
}

gs_code gs_part_check(const char *words, gs_error *error) {
    long long first, last;
    double from, to;
    size_t every;
    if (strcmp(words, "all") == 0 || strncmp(words, "nvtx=", 5) == 0)
        return GS_OK;
    if (strncmp(words, "steps=", 6) == 0)
        return scan_steps(words + 6, &first, &last)
                   ? GS_OK
                   : gs_fail(error, GS_E_USAGE, "%.40s: give FIRST-LAST, from 1", words);
    if (strncmp(words, "every=", 6) == 0)
        return scan_every(words + 6, &every)
                   ? GS_OK
                   : gs_fail(error, GS_E_USAGE, "%.40s: give the number of repeated parts in a step", words);
    if (strncmp(words, "ms=", 3) == 0)
        return scan_ms(words + 3, &from, &to)
                   ? GS_OK
                   : gs_fail(error, GS_E_USAGE, "%.40s: give FROM-TO in milliseconds since the start of the recording",
                             words);
    return gs_fail(error, GS_E_USAGE,
                   "a range is all, steps=FIRST-LAST, every=N, ms=FROM-TO or nvtx=NAME, not \"%.60s\"", words);
}

static gs_code fail_no_steps(gs_error *error) {
    return gs_fail(error, GS_E_USAGE, "the recording has no steps that repeat; choose a range by ms=FROM-TO");
}

static gs_code read_every(const gs_run *run, const gs_sequence *order, const char *words, gs_part *part,
                          gs_error *error) {
    size_t every = 1;
    scan_every(words, &every);
    gs_code code = gs_part_repeated(run, order, every, part, error);
    if (code != GS_OK || (part->period && gs_max_u64(1, part->equal_parts) == every))
        return code;
    return part->period ? gs_fail(error, GS_E_USAGE, "every=%zu: the recording has too few parts that repeat", every)
                        : fail_no_steps(error);
}

static gs_code read_steps(const gs_run *run, const gs_sequence *order, const char *words, gs_part *part,
                          gs_error *error) {
    long long first, last;
    gs_code code = gs_part_repeated(run, order, 0, part, error);
    if (code != GS_OK)
        return code;
    if (!part->period)
        return fail_no_steps(error);
    size_t steps = gs_part_steps(part);
    if (!scan_steps(words, &first, &last) || (size_t)last > steps)
        return gs_fail(error, GS_E_USAGE, "steps=%.40s: give FIRST-LAST, from 1 to %zu", words, steps);
    part->last = part->first + (size_t)last * part->period;
    part->first += (size_t)(first - 1) * part->period;
    gs_part_set_next(run, order, part);
    return GS_OK;
}

static gs_code read_ms(const gs_run *run, const gs_sequence *order, const char *words, gs_part *part, gs_error *error) {
    double from = 0, to = 0;
    scan_ms(words, &from, &to);
    gs_part all = whole_part(run, order); /* before and after it nothing is recorded */
    *part = (gs_part){.first = order->count,
                      .from_ns = gs_max(all.from_ns, (int64_t)(from * 1e6)),
                      .to_ns = gs_min(all.to_ns, (int64_t)(to * 1e6))};
    for (size_t i = 0; i < order->count; i++) {
        const gs_issue *issue = gs_run_issue(run, order->data[i]);
        if (!gs_measured_ns(issue) || issue->end_ns <= part->from_ns || issue->start_ns >= part->to_ns)
            continue;
        part->first = gs_min_u64(part->first, i);
        part->last = i + 1;
    }
    if (part->first >= part->last)
        return gs_fail(error, GS_E_USAGE, "nothing ran from %g to %g ms", from, to);
    return GS_OK;
}

gs_code gs_part_read(const gs_run *run, const gs_sequence *order, const char *words, gs_part *part, gs_error *error) {
    gs_code code = gs_part_check(words, error);
    if (code != GS_OK)
        return code;
    if (strcmp(words, "all") == 0) {
        *part = whole_part(run, order);
        return GS_OK;
    }
    if (strncmp(words, "steps=", 6) == 0)
        return read_steps(run, order, words + 6, part, error);
    if (strncmp(words, "every=", 6) == 0)
        return read_every(run, order, words + 6, part, error);
    if (strncmp(words, "ms=", 3) == 0)
        return read_ms(run, order, words + 3, part, error);
    return gs_part_of_range(run, order, words + 5, part, error);
}
