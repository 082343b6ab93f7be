/*
 * versions_view.c: two recordings side by side: what changed between two versions of a program.
 *
 * Times are per step. Kernels are compared by their names; those that changed most are first. One recorder writes
 * symbols, another one names with spaces and the type of the result: these are the same kernel.
 */
#include "view.h"

#include <stdlib.h>

struct pair {
    const gs_kernel_row *before, *after; /* NULL: the version does not have it */
    double before_us, after_us;
};

struct pairs {
    struct pair *data;
    size_t count, capacity;
};

static double steps_of(const gs_explained *explained) {
    return (double)gs_max_u64(1, gs_part_steps(&explained->part));
}

static double us_of(const gs_kernel_row *row, const gs_explained *explained) {
    return row ? (double)row->ns / 1000 / steps_of(explained) : 0;
}

static double change_of(const struct pair *pair) {
    double change = pair->after_us - pair->before_us;
    return change < 0 ? -change : change;
}

static int compare_pairs(const void *first, const void *second) {
    const struct pair *a = first, *b = second;
    int order = GS_COMPARE(change_of(b), change_of(a));
    const char *one = (a->after ? a->after : a->before)->kernel, *two = (b->after ? b->after : b->before)->kernel;
    return order ? order : strcmp(one, two);
}

/* The name by which recordings are compared: `void f<4>(int*)`, `f<4>(int *)` and its symbol are one. */
static const char *common_name(gs_strings *strings, const char *kernel) {
    char *readable = gs_demangle(kernel, 0);
    const char *from = readable && strncmp(readable, "void ", 5) == 0 ? readable + 5 : readable;
    size_t length = 0;
    for (const char *at = from; at && *at; at++)
        if (*at != ' ')
            readable[length++] = *at;
    const char *name = readable ? gs_strings_add(strings, readable, length) : NULL;
    free(readable);
    return name;
}

static bool pair_kernels(const gs_explained *before, const gs_explained *after, struct pairs *pairs) {
    gs_names known = {0};
    gs_strings strings = {0};
    bool done = true;
    for (size_t i = 0; i < before->kernels.count && done; i++) {
        const gs_kernel_row *row = &before->kernels.data[i];
        const char *name = common_name(&strings, row->kernel);
        done = name && gs_names_add(&known, name, i) != SIZE_MAX &&
               GS_PUSH(pairs, (struct pair){.before = row, .before_us = us_of(row, before)});
    }
    for (size_t i = 0; i < after->kernels.count && done; i++) {
        const gs_kernel_row *row = &after->kernels.data[i];
        const char *name = common_name(&strings, row->kernel);
        size_t number = name ? gs_names_find(&known, name) : SIZE_MAX;
        if (number != SIZE_MAX && !pairs->data[number].after) {
            pairs->data[number].after = row;
            pairs->data[number].after_us = us_of(row, after);
        } else
            done = name && GS_PUSH(pairs, (struct pair){.after = row, .after_us = us_of(row, after)});
    }
    gs_names_free(&known);
    gs_strings_free(&strings);
    if (done && pairs->count)
        qsort(pairs->data, pairs->count, sizeof *pairs->data, compare_pairs);
    return done;
}

static void put_times(gs_text *text, const char *name, double before_us, double after_us) {
    gs_text_add(text, "%-12s %12.1f %12.1f %+12.1f", name, before_us, after_us, after_us - before_us);
    if (before_us > 0)
        gs_text_add(text, " %+6.1f%%", (after_us / before_us - 1) * 100);
    gs_text_add(text, "\n");
}

static void put_kernel(gs_text *text, const struct pair *pair, const gs_explained *before, const gs_explained *after) {
    double launches = pair->before ? (double)pair->before->launches / steps_of(before) : 0;
    double later = pair->after ? (double)pair->after->launches / steps_of(after) : 0;
    gs_text_add(text, "%12.1f %12.1f %+12.1f %9.0f %9.0f  %s\n", pair->before_us, pair->after_us,
                pair->after_us - pair->before_us, launches, later, (pair->after ? pair->after : pair->before)->name);
}

/* What makes two recordings no versions of one program: other GPUs, or hardly a kernel in common. */
static void put_unlike(gs_text *text, const struct pairs *pairs, const gs_explained *before,
                       const gs_explained *after) {
    enum { LEAST_PERCENT = 10 };
    const gs_gpu *first = before->recorded_on, *second = after->recorded_on;
    double common_us = 0, all_us = 0;
    for (size_t i = 0; i < pairs->count; i++) {
        const struct pair *pair = &pairs->data[i];
        all_us += pair->before_us + pair->after_us;
        common_us += pair->before && pair->after ? pair->before_us + pair->after_us : 0;
    }
    if (strcmp(first->name, second->name) != 0 || first->sms != second->sms)
        gs_text_add(text, "two GPUs: %s, %d SMs, before, and %s, %d SMs, after\n", first->name, first->sms,
                    second->name, second->sms);
    if (common_us * 100 < all_us * LEAST_PERCENT)
        gs_text_add(text, "two programs? Kernels that are in both have %.0f%% of the time of all kernels\n",
                    common_us / all_us * 100);
}

gs_code gs_put_versions(gs_text *text, const gs_explained *before, const gs_explained *after, int64_t top,
                        gs_error *error) {
    struct pairs pairs = {0};
    if (!pair_kernels(before, after, &pairs)) {
        free(pairs.data);
        return gs_fail_memory(error);
    }
    put_unlike(text, &pairs, before, after);
    gs_text_add(text, "us per step         before        after       change\n");
    put_times(text, "step", (double)before->step_ns / 1000, (double)after->step_ns / 1000);
    put_times(text, "busy", (double)before->account.busy_ns / 1000 / steps_of(before),
              (double)after->account.busy_ns / 1000 / steps_of(after));
    for (gs_idle idle = 0; idle < GS_IDLES; idle++)
        put_times(text, gs_idle_name(idle), (double)before->account.idle_ns[idle] / 1000 / steps_of(before),
                  (double)after->account.idle_ns[idle] / 1000 / steps_of(after));
    gs_text_add(text, "\n   before us     after us       change  launches     after  kernel\n");
    size_t shown = top ? gs_min_u64(pairs.count, (uint64_t)top) : pairs.count;
    for (size_t i = 0; i < shown; i++)
        put_kernel(text, &pairs.data[i], before, after);
    if (shown < pairs.count)
        gs_text_add(text, "and %zu more kernels, which changed less\n", pairs.count - shown);
    free(pairs.data);
    return GS_OK;
}
