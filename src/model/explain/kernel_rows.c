/*
 * kernel_rows.c: the kernels of a part by their time: how many blocks they have against what fits, and what they waited
 * for.
 *
 * The blocks of a launch that has the GPU to itself run in waves. If the last wave is not full, SMs are idle while it
 * runs: of W waves with a share S of what the GPU takes (S = 2.1 makes W = 3), the part 1 - S / W of the SM time is
 * lost. A launch that does not fill the GPU once loses the same way; it is small rather than badly shaped.
 */
#include "explain.h"

#include <stdlib.h>

/* Sums over the launches of a kernel, beside its row. */
struct sums {
    double waves, lost_ns;
    int64_t waits[GS_REASONS], wait_ns[GS_REASONS];
    gs_wait longest[GS_REASONS];
};

struct table {
    const gs_gpu *gpu;
    const gs_part *part;
    const gs_timeline *followed;
    gs_kernel_rows *rows;
    struct {
        struct sums *data;
        size_t count, capacity;
    } sums; /* by row */
    gs_names by_kernel;
};

/* The wait for the operation before it in its stream is what streams are for, and a gap is counted elsewhere. */
static bool is_worth_telling(gs_reason reason) {
    return reason != GS_REASON_STREAM && reason != GS_REASON_OVERHEAD;
}

static void add_launch(const struct table *table, size_t row, const gs_launch *launch, size_t operation) {
    gs_kernel_row *kernel = &table->rows->data[row];
    struct sums *sums = &table->sums.data[row];
    const gs_operation *played = &table->followed->operations[operation];
    gs_wait waits[GS_MOST_WAITS];
    int64_t ns = gs_measured_ns(&launch->issue), all_waves = gs_max(1, played->waves);
    kernel->launches++;
    kernel->ns += gs_part_ns(table->part, &launch->issue);
    kernel->whole_ns += ns;
    kernel->least_blocks = gs_min(kernel->least_blocks, launch->blocks);
    kernel->most_blocks = gs_max(kernel->most_blocks, launch->blocks);
    sums->waves += played->share;
    sums->lost_ns += (double)ns * (1 - played->share / (double)all_waves);
    bool has_waited = false;
    size_t count = gs_timeline_waits(table->followed, operation, waits);
    for (size_t i = 0; i < count; i++)
        if (is_worth_telling(waits[i].reason)) {
            sums->waits[waits[i].reason]++;
            sums->wait_ns[waits[i].reason] += waits[i].ns;
            if (waits[i].ns > sums->longest[waits[i].reason].ns)
                sums->longest[waits[i].reason] = waits[i];
            has_waited = true;
        }
    kernel->waits += has_waited;
}

static size_t row_of(struct table *table, const gs_launch *launch, const gs_short_names *names) {
    size_t row = gs_names_add(&table->by_kernel, launch->kernel, table->rows->count);
    if (row != table->rows->count)
        return row;
    gs_occupancy occupancy;
    gs_occupancy_of(table->gpu, &launch->shape, &occupancy, NULL);
    gs_kernel_row kernel = {.kernel = launch->kernel,
                            .name = gs_short_name(names, launch->kernel),
                            .least_blocks = INT64_MAX,
                            .behind = SIZE_MAX,
                            .limits = occupancy.limits};
    if (occupancy.warps_per_sm)
        kernel.occupancy = (double)occupancy.blocks * occupancy.warps_per_block / occupancy.warps_per_sm;
    bool done = GS_PUSH(table->rows, kernel) && GS_PUSH(&table->sums, (struct sums){0});
    return done ? row : SIZE_MAX;
}

static void finish_row(gs_kernel_row *row, const struct sums *sums) {
    row->waves = sums->waves / (double)row->launches;
    row->tail = row->whole_ns ? sums->lost_ns / (double)row->whole_ns : 0;
    for (gs_reason reason = 0; reason < GS_REASONS; reason++)
        if (sums->wait_ns[reason] > row->wait_ns) {
            row->reason = reason;
            row->wait_ns = sums->wait_ns[reason];
            row->behind = sums->longest[reason].behind;
            row->lack = sums->longest[reason].lack;
        }
}

static int compare_rows(const void *first, const void *second) {
    const gs_kernel_row *a = first, *b = second;
    int order = GS_COMPARE(b->ns, a->ns);
    return order ? order : strcmp(a->kernel, b->kernel);
}

gs_code gs_kernel_rows_of(const gs_gpu *gpu, const gs_run *run, const gs_sequence *order, const gs_part *part,
                          const gs_timeline *followed, const gs_short_names *names, gs_kernel_rows *rows,
                          gs_error *error) {
    struct table table = {.gpu = gpu, .part = part, .followed = followed, .rows = rows};
    bool done = true;
    *rows = (gs_kernel_rows){0};
    for (size_t i = part->first; i < part->last && done; i++) {
        if (order->data[i] >= run->launches.count)
            continue;
        const gs_launch *launch = &run->launches.data[order->data[i]];
        size_t row = row_of(&table, launch, names);
        done = row != SIZE_MAX;
        if (done)
            add_launch(&table, row, launch, order->data[i]);
    }
    for (size_t i = 0; i < rows->count && done; i++)
        finish_row(&rows->data[i], &table.sums.data[i]);
    if (done && rows->count)
        qsort(rows->data, rows->count, sizeof *rows->data, compare_rows);
    gs_names_free(&table.by_kernel);
    free(table.sums.data);
    return done ? GS_OK : gs_fail_memory(error);
}
