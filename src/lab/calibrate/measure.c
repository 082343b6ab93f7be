/*
 * measure.c: measures the latencies of the instructions of the paper's program on a real SM, and the durations of
 * random samples of the program. src/model/bound/measured.c explains the latencies, and has the bound for them.
 */
#include "calibrate.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLE_TRIALS = 3, SHORT_CHAIN = 32, LONG_CHAIN = 64 };

/* ---- measured values ---- */

struct values {
    int64_t *data;
    size_t count, capacity;
};

static bool add_value(struct values *values, int64_t value) {
    return GS_PUSH(values, gs_max(value, 0));
}

static gs_range range_of(struct values *values) {
    gs_range range = {0};
    if (values->count) {
        qsort(values->data, values->count, sizeof *values->data, gs_compare_int64);
        range = (gs_range){values->data[0], values->data[values->count / 2], values->data[values->count - 1]};
    }
    values->count = 0;
    return range;
}

/* ---- chains ---- */

struct measuring {
    gs_device *device;
    const gs_measure_options *options;
    gs_measured *measured;
    struct values values;
    int trials;          /* how often each part of the latencies is measured */
    int64_t done, total; /* for progress */
};

static void show_progress(struct measuring *measuring) {
    if (measuring->options->progress)
        measuring->options->progress(measuring->options->user, ++measuring->done, measuring->total);
}

/* The number of blocks is such that each SM gets `on_sm` of them. */
static gs_code time_body(struct measuring *measuring, gs_timed_body body, int32_t count, int32_t warps, int32_t on_sm,
                         gs_timing *timing, gs_error *error) {
    gs_timing_request request = {
        .body = body, .count = count, .blocks = (int64_t)on_sm * measuring->device->gpu->sms, .warps = warps};
    return gs_device_time(measuring->device, &request, timing, error);
}

/* The time of one more instruction of a chain. The upper limit is from the slowest long and the fastest short chain, so
   it is safe. */
static gs_code measure_chain(struct measuring *measuring, gs_timed_body body, gs_range *range, gs_error *error) {
    gs_code code = GS_OK;
    for (int trial = 0; trial < measuring->trials && code == GS_OK; trial++) {
        gs_timing brief, full;
        code = time_body(measuring, body, SHORT_CHAIN, 1, 1, &brief, error);
        if (code == GS_OK)
            code = time_body(measuring, body, LONG_CHAIN, 1, 1, &full, error);
        const int64_t pairs[][2] = {
            {full.shortest, brief.cycles}, {full.cycles, brief.cycles}, {full.cycles, brief.shortest}};
        for (size_t i = 0; i < GS_COUNT(pairs) && code == GS_OK; i++)
            if (!add_value(&measuring->values,
                           gs_divide_up((pairs[i][0] - pairs[i][1]) * 1000, LONG_CHAIN - SHORT_CHAIN)))
                code = gs_fail_memory(error);
        show_progress(measuring);
    }
    *range = range_of(&measuring->values);
    return code;
}

/* A multiplication after a load can take longer than one after a multiplication. */
static gs_code measure_latencies(struct measuring *measuring, gs_error *error) {
    static const gs_timed_body bodies[] = {GS_TIMED_COMPUTE, GS_TIMED_LOAD, GS_TIMED_STORE};
    gs_range *latency = measuring->measured->latencies.latency, sub_block;
    gs_code code = GS_OK;
    for (int i = 0; i < GS_M_CLOCK && code == GS_OK; i++)
        code = measure_chain(measuring, bodies[i], &latency[i], error);
    if (code == GS_OK)
        code = measure_chain(measuring, GS_TIMED_SUB_BLOCK, &sub_block, error);
    if (code != GS_OK)
        return code;
    int64_t in_place = sub_block.most - 2 * latency[GS_M_LOAD].most;
    latency[GS_M_COMPUTE].most = gs_max(latency[GS_M_COMPUTE].most, in_place);
    return GS_OK;
}

/* Whole programs on one warp: the time not accounted for by their instructions. */
static gs_code measure_overhead(struct measuring *measuring, gs_error *error) {
    gs_latencies *latencies = &measuring->measured->latencies;
    gs_code code = GS_OK;
    for (int32_t repeat = 1; repeat <= GS_TIMED_REPEATS && code == GS_OK; repeat++)
        for (int trial = 0; trial < measuring->trials && code == GS_OK; trial++) {
            gs_timing timing;
            gs_sample alone = {.repeat = repeat, .warps = 1, .on_sm = 1};
            code = time_body(measuring, GS_TIMED_PROGRAM, repeat, 1, 1, &timing, error);
            int64_t instructions = gs_measured_bound(latencies, &alone) * 1000;
            if (code == GS_OK && (!add_value(&measuring->values, timing.shortest * 1000 - instructions) ||
                                  !add_value(&measuring->values, timing.cycles * 1000 - instructions)))
                code = gs_fail_memory(error);
            show_progress(measuring);
        }
    latencies->overhead = range_of(&measuring->values);
    latencies->overhead.most += 1000; /* the instructions were rounded up to a cycle */
    return code;
}

/* ---- delays ---- */

/* Numbers of warps of a block and of blocks on an SM, which divide evenly and unevenly among four schedulers. */
static const struct {
    int32_t warps, on_sm;
} crowds[] = {{2, 1},  {3, 1},  {4, 1},  {5, 1},  {6, 1},  {7, 1},  {8, 1},  {9, 1}, {12, 1},
              {13, 1}, {16, 1}, {20, 1}, {24, 1}, {32, 1}, {20, 2}, {32, 2}, {1, 2}, {3, 3}};

static bool crowd_fits(const gs_gpu *gpu, const gs_shape *shape, int32_t on_sm) {
    gs_need need;
    return shape->threads <= gpu->limits.threads_per_block && gs_need_of(gpu, shape, &need, NULL) == GS_OK &&
           need.blocks_per_sm >= on_sm;
}

/* Lowers `*full` to the time of this crowd for each of its instructions. */
static gs_code measure_crowd(struct measuring *measuring, gs_timed_body body, int32_t count, size_t crowd,
                             int64_t alone, int64_t *full, gs_error *error) {
    int32_t warps = crowds[crowd].warps, instructions = count ? count : GS_CLOCK_READINGS;
    const gs_gpu *gpu = measuring->device->gpu;
    gs_timing timing;
    int64_t longest = 0, all = 1;
    if (warps * gpu->limits.warp_threads > gpu->limits.threads_per_block)
        return GS_OK;
    gs_code code = time_body(measuring, body, count, warps, 0, &timing, error);
    if (code != GS_OK || !crowd_fits(gpu, &timing.shape, crowds[crowd].on_sm))
        return code;
    for (int trial = 0; trial < measuring->trials && code == GS_OK; trial++) {
        code = time_body(measuring, body, count, warps, crowds[crowd].on_sm, &timing, error);
        if (code != GS_OK)
            break;
        all = (int64_t)timing.most_on_sm * warps;
        longest = gs_max(longest, timing.cycles);
        if (!add_value(&measuring->values, gs_divide_up((timing.cycles - alone) * 1000, (all - 1) * instructions)))
            code = gs_fail_memory(error);
        show_progress(measuring);
    }
    *full = gs_min(*full, gs_divide_up(longest * 1000, all * instructions));
    return code;
}

static gs_code measure_delays(struct measuring *measuring, gs_error *error) {
    static const gs_timed_body bodies[] = {GS_TIMED_COMPUTE, GS_TIMED_LOAD, GS_TIMED_STORE, GS_TIMED_NOTHING};
    gs_code code = GS_OK;
    for (int i = 0; i < GS_M_CLASSES && code == GS_OK; i++) {
        int32_t count = i == GS_M_CLOCK ? 0 : LONG_CHAIN;
        int64_t full = INT64_MAX;
        gs_timing timing = {0};
        gs_range *delay = &measuring->measured->latencies.delay[i];
        code = time_body(measuring, bodies[i], count, 1, 1, &timing, error);
        for (size_t crowd = 0; crowd < GS_COUNT(crowds) && code == GS_OK; crowd++)
            code = measure_crowd(measuring, bodies[i], count, crowd, timing.shortest, &full, error);
        *delay = range_of(&measuring->values);
        if (full != INT64_MAX)
            delay->most = gs_max(delay->most, full);
    }
    return code;
}

/* ---- samples ---- */

/* The most blocks on one SM, or 0: not all fit on the GPU together. */
static int32_t predict_most(const gs_gpu *gpu, const gs_shape *shape, int64_t blocks) {
    gs_dispatcher *dispatcher = gs_dispatcher_new(gpu, NULL);
    int kernel = dispatcher ? gs_dispatcher_kernel(dispatcher, shape, NULL) : -1, sm = kernel < 0 ? GS_WAIT : 0;
    int32_t most = 0;
    for (int64_t i = 0; i < blocks && sm != GS_WAIT; i++)
        if ((sm = gs_dispatcher_next(dispatcher, kernel)) != GS_WAIT) {
            gs_dispatcher_place(dispatcher, kernel, sm);
            int32_t on_sm = gs_dispatcher_resident(dispatcher, sm);
            most = (int32_t)gs_max(most, on_sm);
        }
    gs_dispatcher_free(dispatcher);
    return sm == GS_WAIT ? 0 : most;
}

/* A random sample whose blocks all fit on the GPU together. */
static gs_code draw_sample(struct measuring *measuring, uint64_t index, gs_sample *sample, gs_error *error) {
    gs_random random = gs_random_at(measuring->options->seed, index);
    const gs_gpu *gpu = measuring->device->gpu;
    gs_timing timing;
    gs_need need;
    int64_t most_warps =
        gs_min(gs_random_chance(&random, 40) ? 4 : 32, gpu->limits.threads_per_block / gpu->limits.warp_threads);
    *sample = (gs_sample){.repeat = (int32_t)gs_random_from(&random, 1, GS_TIMED_REPEATS),
                          .warps = (int32_t)gs_random_from(&random, 1, most_warps)};
    gs_code code = time_body(measuring, GS_TIMED_PROGRAM, sample->repeat, sample->warps, 0, &timing, error);
    if (code == GS_OK)
        code = gs_need_of(gpu, &timing.shape, &need, error);
    if (code != GS_OK)
        return code;
    int64_t on_sm = gs_random_from(&random, 1, gs_min(need.blocks_per_sm, GS_TIMED_MOST_WARPS / sample->warps));
    sample->blocks = gs_random_from(&random, 1, on_sm * gpu->sms);
    while (!(sample->predicted_on_sm = predict_most(gpu, &timing.shape, sample->blocks)))
        sample->blocks = (sample->blocks + 1) / 2;
    return GS_OK;
}

static gs_code measure_sample(struct measuring *measuring, uint64_t index, gs_sample *sample, gs_error *error) {
    gs_code code = draw_sample(measuring, index, sample, error);
    gs_timing_request request = {.body = GS_TIMED_PROGRAM, .count = sample->repeat, .blocks = sample->blocks};
    request.warps = sample->warps;
    for (int trial = 0; trial < SAMPLE_TRIALS && code == GS_OK; trial++) {
        gs_timing timing;
        code = gs_device_time(measuring->device, &request, &timing, error);
        if (code != GS_OK)
            break;
        sample->cycles = gs_max(sample->cycles, timing.cycles);
        sample->skew = gs_max(sample->skew, timing.skew);
        sample->on_sm = (int32_t)gs_max(sample->on_sm, timing.most_on_sm);
    }
    show_progress(measuring);
    return code;
}

static gs_code add_sample(struct measuring *measuring, uint64_t index, gs_error *error) {
    gs_sample sample;
    gs_code code = measure_sample(measuring, index, &sample, error);
    if (code == GS_OK && !GS_PUSH(&measuring->measured->samples, sample))
        code = gs_fail_memory(error);
    return code;
}

/* ---- all of it ---- */

static gs_code measure_head(struct measuring *measuring, gs_error *error) {
    gs_measured *measured = measuring->measured;
    gs_code code = measure_latencies(measuring, error);
    if (code == GS_OK) {
        measured->gpu = strdup(measuring->device->gpu->name);
        measured->uuid = strdup(measuring->device->uuid);
        code = measured->gpu && measured->uuid ? measure_overhead(measuring, error) : gs_fail_memory(error);
    }
    return code == GS_OK ? measure_delays(measuring, error) : code;
}

/* A run of a campaign: the latencies, or a sample. */
static gs_code add_run(struct measuring *measuring, int64_t number, gs_error *error) {
    gs_text line = {0};
    gs_sample sample;
    gs_code code =
        number ? measure_sample(measuring, (uint64_t)(number - 1), &sample, error) : measure_head(measuring, error);
    if (code == GS_OK && number)
        gs_sample_text(&sample, number, &line);
    else if (code == GS_OK)
        gs_measured_head_text(measuring->measured, number, &line);
    if (code == GS_OK)
        code = gs_journal_add_line(measuring->options->journal, &line, error);
    gs_text_free(&line);
    return code;
}

int64_t gs_measure_runs(int64_t count) {
    return count + 1;
}

static gs_code measure_shard(struct measuring *measuring, gs_error *error) {
    const gs_measure_options *options = measuring->options;
    int64_t runs = gs_measure_runs(options->count), begin = gs_shard_begin(&options->shard, runs);
    int64_t end = begin + gs_shard_count(&options->shard, runs);
    gs_code code = GS_OK;
    measuring->total = end - begin;
    for (int64_t i = begin + gs_journal_runs(options->journal); i < end && code == GS_OK; i++)
        code = add_run(measuring, i, error);
    gs_measured_clear(measuring->measured);
    return code == GS_OK ? gs_journal_end(options->journal, error) : code;
}

static gs_code measure_all(struct measuring *measuring, gs_error *error) {
    gs_code code = measure_head(measuring, error);
    for (int64_t i = 0; i < measuring->options->count && code == GS_OK; i++)
        code = add_sample(measuring, (uint64_t)i, error);
    return code;
}

gs_code gs_measure(gs_device *device, const gs_measure_options *options, gs_measured *measured, gs_error *error) {
    *measured = (gs_measured){.seed = (int64_t)options->seed};
    struct measuring measuring = {.device = device, .options = options, .measured = measured};
    measuring.trials = (int)gs_min(20, 4 + options->count / 50);
    measuring.total =
        options->count + measuring.trials * (4 + GS_TIMED_REPEATS + GS_M_CLASSES * (int64_t)GS_COUNT(crowds));
    gs_code code = (options->journal ? measure_shard : measure_all)(&measuring, error);
    free(measuring.values.data);
    if (code != GS_OK)
        gs_measured_clear(measured);
    return code;
}
