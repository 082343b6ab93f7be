/*
 * ranges.c: the ranges that a program names (NVTX, record_function of PyTorch): the part that one of them is, and the
 * time of each.
 *
 * A range is a span of the host's time. The operations that the host issued in it belong to it, whichever thread did:
 * the backward pass of PyTorch has a thread of its own. Names that differ only in numbers after "#", such as
 * "ProfilerStep#12", are of one kind, which is called by the name without the numbers.
 */
#include "change.h"

#include <fnmatch.h>
#include <stdlib.h>

/* ---- operations by the time of the host ---- */

struct issued {
    int64_t at_ns;
    size_t place; /* in the order */
};

struct issues {
    struct issued *data; /* sorted by time */
    size_t count;
};

GS_ORDER_THEN(compare_issued, struct issued, at_ns, place)

static gs_code list_issues(const gs_run *run, const gs_sequence *order, struct issues *issues, gs_error *error) {
    *issues = (struct issues){.data = malloc((order->count + 1) * sizeof *issues->data)};
    if (!issues->data)
        return gs_fail_memory(error);
    for (size_t i = 0; i < order->count; i++) {
        int64_t at_ns = gs_run_issue(run, order->data[i])->at_ns;
        if (at_ns != GS_NO_TIME)
            issues->data[issues->count++] = (struct issued){at_ns, i};
    }
    qsort(issues->data, issues->count, sizeof *issues->data, compare_issued);
    return GS_OK;
}

/* The number of operations that were issued before a time. */
static size_t issued_before(const struct issues *issues, int64_t ns) {
    size_t low = 0, high = issues->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (issues->data[middle].at_ns < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- names ---- */

/* The kind of a name: "#" without the number after it; at the end of a name, that "#" neither. The caller frees it.
   NULL: out of memory. */
static char *kind_of(const char *name) {
    char *kind = malloc(strlen(name) + 1);
    size_t length = 0;
    while (kind && *name) {
        kind[length++] = *name++;
        size_t digits = kind[length - 1] == '#' ? strspn(name, "0123456789") : 0;
        name += digits;
        if (digits && !*name && length > 1)
            length--;
    }
    if (kind)
        kind[length] = 0;
    return kind;
}

/* Sets `*called` to whether a name, or its kind, is the one that is meant. */
static gs_code compare_name(const char *name, const char *pattern, bool *called, gs_error *error) {
    char *kind = kind_of(name);
    *called = kind && (strcmp(kind, pattern) == 0 || fnmatch(pattern, name, 0) == 0);
    free(kind);
    return kind ? GS_OK : gs_fail_memory(error);
}

/* ---- a part by name ---- */

/* A range as operations: `first` to before `last` of the order. */
struct stretch {
    size_t first, last;
    int64_t ns; /* of the host */
    const char *name;
};

struct stretches {
    struct stretch *data;
    size_t count, capacity;
};

static int compare_stretches(const void *first, const void *second) {
    const struct stretch *a = first, *b = second;
    int order = GS_COMPARE(a->first, b->first);
    return order ? order : GS_COMPARE(b->last, a->last);
}

static int compare_lengths(const void *first, const void *second) {
    const struct stretch *a = first, *b = second;
    int order = GS_COMPARE(a->ns, b->ns);
    return order ? order : compare_stretches(first, second);
}

/* The operations of each range of this name, in order. Ranges without operations, and ranges inside others of the same
   name, are left out. */
static gs_code find_stretches(const gs_run *run, const struct issues *issues, const char *pattern,
                              struct stretches *found, gs_error *error) {
    for (size_t i = 0; i < run->ranges.count; i++) {
        const gs_named_range *range = &run->ranges.data[i];
        bool is_called;
        if (compare_name(range->name, pattern, &is_called, error) != GS_OK)
            return GS_E_MEMORY;
        if (!is_called)
            continue;
        struct stretch stretch = {SIZE_MAX, 0, range->to_ns - range->from_ns, range->name};
        for (size_t at = issued_before(issues, range->from_ns), to = issued_before(issues, range->to_ns); at < to;
             at++) {
            stretch.first = gs_min_u64(stretch.first, issues->data[at].place);
            stretch.last = gs_max_u64(stretch.last, issues->data[at].place + 1);
        }
        if (stretch.first < stretch.last && !GS_PUSH(found, stretch))
            return gs_fail_memory(error);
    }
    if (found->count)
        qsort(found->data, found->count, sizeof *found->data, compare_stretches);
    size_t kept = 0;
    for (size_t i = 0; i < found->count; i++)
        if (!kept || found->data[i].first >= found->data[kept - 1].last)
            found->data[kept++] = found->data[i];
    found->count = kept;
    return GS_OK;
}

/* Whether the ranges follow each other, and have the same operations: then they are steps. */
static bool are_steps(const gs_run *run, const gs_sequence *order, const struct stretches *all) {
    size_t period = all->count > 2 ? all->data[0].last - all->data[0].first : 0;
    for (size_t i = 1; i < all->count && period; i++) {
        if (all->data[i].first != all->data[i - 1].last || all->data[i].last - all->data[i].first != period)
            return false;
        for (size_t k = 0; k < period; k++)
            if (gs_operation_kind(run, order->data[all->data[i].first + k]) !=
                gs_operation_kind(run, order->data[all->data[i - 1].first + k]))
                return false;
    }
    return period > 0;
}

/* "NAME" or "NAME:3". Sets the length of the name. */
static size_t read_number(const char *words, size_t *length) {
    const char *colon = strrchr(words, ':');
    char *end;
    *length = strlen(words);
    unsigned long number = colon && colon[1] >= '1' && colon[1] <= '9' ? strtoul(colon + 1, &end, 10) : 0;
    if (!number || *end || number > UINT32_MAX)
        return 0;
    *length = (size_t)(colon - words);
    return number;
}

static gs_code fail_no_range(const gs_run *run, const char *pattern, gs_error *error) {
    const char *some = run->ranges.count ? run->ranges.data[0].name : NULL;
    if (!some)
        return gs_fail(error, GS_E_USAGE, "nvtx=%.60s: the recording has no named ranges", pattern);
    return gs_fail(error, GS_E_USAGE,
                   "nvtx=%.60s: nothing was issued in a range of this name; the first range is %.60s", pattern, some);
}

/* All of them, if they are steps; otherwise the one with this number, or the one of median length. */
static gs_code choose_stretch(const gs_run *run, const gs_sequence *order, const struct stretches *all, size_t number,
                              gs_part *part, gs_error *error) {
    if (number > all->count)
        return gs_fail(error, GS_E_USAGE, "there are %zu such ranges, not %zu", all->count, number);
    *part = (gs_part){.ranges = all->count, .range = number};
    if (!number && are_steps(run, order, all)) {
        part->first = all->data[0].first;
        part->last = all->data[all->count - 1].last;
        part->period = all->data[0].last - all->data[0].first;
        gs_part_cut_last(run, order, part);
        return GS_OK;
    }
    struct stretches sorted = {.data = malloc(all->count * sizeof *all->data), .count = all->count};
    if (!sorted.data)
        return gs_fail_memory(error);
    memcpy(sorted.data, all->data, all->count * sizeof *all->data);
    qsort(sorted.data, sorted.count, sizeof *sorted.data, compare_lengths);
    struct stretch chosen = number ? all->data[number - 1] : sorted.data[sorted.count / 2];
    free(sorted.data);
    part->first = chosen.first;
    part->last = chosen.last;
    part->name = chosen.name;
    for (size_t i = 0; i < all->count && !part->range; i++)
        part->range = all->data[i].first == chosen.first ? i + 1 : 0;
    gs_part_set_times(run, order, part);
    return GS_OK;
}

gs_code gs_part_of_range(const gs_run *run, const gs_sequence *order, const char *words, gs_part *part,
                         gs_error *error) {
    struct issues issues = {0};
    struct stretches found = {0};
    char pattern[200];
    size_t length, number = read_number(words, &length);
    if (!length || length >= sizeof pattern)
        return gs_fail(error, GS_E_USAGE, "nvtx=%.40s: give the name of a range of 1 to %zu letters", words,
                       sizeof pattern - 1);
    memcpy(pattern, words, length);
    pattern[length] = 0;
    gs_code code = list_issues(run, order, &issues, error);
    if (code == GS_OK)
        code = find_stretches(run, &issues, pattern, &found, error);
    if (code == GS_OK && !found.count)
        code = fail_no_range(run, pattern, error);
    if (code == GS_OK)
        code = choose_stretch(run, order, &found, number, part, error);
    free(issues.data);
    free(found.data);
    return code;
}

gs_code gs_part_is_inside(const gs_run *run, const gs_sequence *order, const char *name, const gs_part *part,
                          bool *is_inside, gs_error *error) {
    struct issues issues = {0};
    struct stretches found = {0};
    gs_code code = list_issues(run, order, &issues, error);
    if (code == GS_OK)
        code = find_stretches(run, &issues, name, &found, error);
    *is_inside = false;
    for (size_t i = 0; i < found.count && part->period; i++) {
        size_t first = gs_max_u64(found.data[i].first, part->first), last = gs_min_u64(found.data[i].last, part->last);
        *is_inside = *is_inside || (first < last && last - first >= 2 * part->period);
    }
    free(issues.data);
    free(found.data);
    return code;
}

/* ---- how far apart ranges begin ---- */

struct beginning {
    uint64_t kind; /* of the name */
    size_t place;
};

struct beginnings {
    struct beginning *data;
    size_t count, capacity;
};

GS_ORDER_THEN(compare_beginnings, struct beginning, kind, place)

static uint64_t hash_name(const char *name) {
    return gs_hash(0, name, strlen(name));
}

/* The ranges whose first operation is in the part. */
static gs_code list_beginnings(const gs_run *run, const struct issues *issues, const gs_part *part,
                               struct beginnings *found, gs_error *error) {
    for (size_t i = 0; i < run->ranges.count; i++) {
        const gs_named_range *range = &run->ranges.data[i];
        size_t at = issued_before(issues, range->from_ns);
        if (at >= issued_before(issues, range->to_ns) || issues->data[at].place < part->first ||
            issues->data[at].place >= part->last)
            continue;
        char *kind = kind_of(range->name);
        bool is_listed = kind && GS_PUSH(found, (struct beginning){hash_name(kind), issues->data[at].place});
        free(kind);
        if (!is_listed)
            return gs_fail_memory(error);
    }
    if (found->count)
        qsort(found->data, found->count, sizeof *found->data, compare_beginnings);
    return GS_OK;
}

/* The distance of beginnings of one kind, if it is the same for all, and a multiple of the period; otherwise 0. */
static size_t same_distance(const struct beginning *data, size_t count, size_t period) {
    size_t distance = 0, distances = 0;
    for (size_t i = 1; i < count; i++) {
        size_t here = data[i].place - data[i - 1].place;
        if (here && distance && here != distance)
            return 0;
        distance = here ? here : distance;
        distances += here > 0;
    }
    return distances >= GS_FEWEST_STEPS && distance % period == 0 ? distance : 0;
}

gs_code gs_ranges_distance(const gs_run *run, const gs_sequence *order, const gs_part *part, const char *name,
                           size_t *distance, size_t *from, gs_error *error) {
    struct issues issues = {0};
    struct beginnings found = {0};
    *distance = 0;
    if (!run->ranges.count)
        return GS_OK;
    gs_code code = list_issues(run, order, &issues, error);
    if (code == GS_OK)
        code = list_beginnings(run, &issues, part, &found, error);
    bool is_named = false;
    for (size_t i = 0, next; i < found.count && code == GS_OK && !is_named; i = next) {
        for (next = i; next < found.count && found.data[next].kind == found.data[i].kind; next++)
            ;
        size_t here = same_distance(&found.data[i], next - i, part->period);
        is_named = here && found.data[i].kind == hash_name(name);
        if (here <= *distance && !is_named)
            continue;
        *distance = here;
        *from = found.data[i].place;
    }
    free(issues.data);
    free(found.data);
    return code;
}

/* ---- the time of each ---- */

struct sums {
    int64_t ns, launches;
};

/* By place in the sorted issues: the sums of all before it. The part only. */
static struct sums *sum_issues(const gs_run *run, const gs_sequence *order, const gs_part *part,
                               const struct issues *issues) {
    struct sums *sums = malloc((issues->count + 1) * sizeof *sums);
    if (!sums)
        return NULL;
    sums[0] = (struct sums){0};
    for (size_t i = 0; i < issues->count; i++) {
        size_t place = issues->data[i].place, operation = order->data[place];
        bool counts = place >= part->first && place < part->last && operation < run->launches.count;
        sums[i + 1] = sums[i];
        sums[i + 1].ns += counts ? gs_part_ns(part, gs_run_issue(run, operation)) : 0;
        sums[i + 1].launches += counts;
    }
    return sums;
}

static int compare_rows(const void *first, const void *second) {
    const gs_range_row *a = first, *b = second;
    int order = GS_COMPARE(b->kernel_ns, a->kernel_ns);
    order = order ? order : GS_COMPARE(b->host_ns, a->host_ns);
    return order ? order : strcmp(a->name, b->name);
}

/* Adds a range to the row of its kind. False: out of memory. */
static bool add_range(const gs_named_range *range, const struct sums *before, const struct sums *after,
                      gs_names *by_kind, gs_range_rows *rows) {
    char *made = kind_of(range->name);
    const char *kind = made ? gs_strings_add(&rows->names, made, strlen(made)) : NULL;
    size_t row = kind ? gs_names_add(by_kind, kind, rows->count) : SIZE_MAX;
    free(made);
    if (row == rows->count && !GS_PUSH(rows, (gs_range_row){.name = kind}))
        return false;
    if (row == SIZE_MAX)
        return false;
    rows->data[row].ranges++;
    rows->data[row].host_ns += range->to_ns - range->from_ns;
    rows->data[row].kernel_ns += after->ns - before->ns;
    rows->data[row].launches += after->launches - before->launches;
    return true;
}

gs_code gs_range_rows_of(const gs_run *run, const gs_sequence *order, const gs_part *part, gs_range_rows *rows,
                         gs_error *error) {
    struct issues issues = {0};
    struct sums *sums = NULL;
    gs_names by_kind = {0};
    *rows = (gs_range_rows){0};
    if (!run->ranges.count)
        return GS_OK;
    gs_code code = list_issues(run, order, &issues, error);
    if (code == GS_OK)
        sums = sum_issues(run, order, part, &issues);
    bool done = sums;
    for (size_t i = 0; i < run->ranges.count && done; i++) {
        const gs_named_range *range = &run->ranges.data[i];
        const struct sums *before = &sums[issued_before(&issues, range->from_ns)];
        const struct sums *after = &sums[issued_before(&issues, range->to_ns)];
        if (after->launches > before->launches)
            done = add_range(range, before, after, &by_kind, rows);
    }
    if (done && rows->count)
        qsort(rows->data, rows->count, sizeof *rows->data, compare_rows);
    gs_names_free(&by_kind);
    free(issues.data);
    free(sums);
    return code != GS_OK ? code : done ? GS_OK : gs_fail_memory(error);
}
