/*
 * measured.c: what a real SM takes, and what its bound is.
 *
 * Latencies come from chains of one instruction on one warp: the difference of two lengths, so that what surrounds the
 * chain does not count. What a warp takes besides comes from whole programs on one warp. How much an instruction of
 * another warp delays comes from the same chains on many warps: it is the time an instruction when the SM has enough of
 * them, and nowhere less than by what such a crowd was seen to be later than one warp. All of it is measured on every
 * SM and many times, and the bound takes the most that was seen.
 *
 * The bound is Theorem 1 of docs/bounds.md: the latencies of one warp, and all work of the others. An SM has several
 * schedulers, each with its own multipliers, and one shared memory; here they are one unit of each kind, because a
 * delay is measured as what one more instruction on the SM costs, wherever it is. An instruction that holds another
 * unit also takes its turn to be issued, which costs no more than that of a multiplication.
 */
#include "bound.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLE_TRIALS = 3, SHORT_CHAIN = 32, LONG_CHAIN = 64, CLOCK_READINGS = 2 };

const char *const gs_measured_classes[GS_M_CLASSES] = {"compute", "load", "store", "clock"};

/* ---- the bound ---- */

int64_t gs_measured_bound(const gs_latencies *latencies, const gs_sample *sample) {
    const int64_t instructions[GS_M_CLASSES] = {sample->repeat + 1, 2 * sample->repeat, 1, CLOCK_READINGS};
    int64_t others = (int64_t)sample->on_sm * sample->warps - 1, sum = latencies->overhead.most;
    for (int i = 0; i < GS_M_CLASSES; i++) {
        int64_t turn = i == GS_M_COMPUTE ? 0 : latencies->delay[GS_M_COMPUTE].most;
        sum += i == GS_M_CLOCK ? 0 : instructions[i] * latencies->latency[i].most;
        sum += others * instructions[i] * (latencies->delay[i].most + turn);
    }
    return gs_divide_up(sum, 1000);
}

/* ---- values that were seen ---- */

struct values {
    int64_t *data;
    size_t count, room;
};

static bool add_value(struct values *values, int64_t value) {
    if (!GS_RESERVE(values, 1))
        return false;
    values->data[values->count++] = value > 0 ? value : 0;
    return true;
}

static int compare_values(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static gs_range range_of(struct values *values) {
    gs_range range = {0};
    if (values->count) {
        qsort(values->data, values->count, sizeof *values->data, compare_values);
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
    int trials;          /* of everything that goes into the latencies */
    int64_t done, total; /* for progress */
};

static void show(struct measuring *measuring) {
    if (measuring->options->progress)
        measuring->options->progress(measuring->options->user, ++measuring->done, measuring->total);
}

/* `on_sm` blocks on every SM, as the scheduler deals them out. */
static gs_code time_body(struct measuring *measuring, gs_timed_body body, int32_t count, int32_t warps, int32_t on_sm,
                         gs_timing *timing, gs_error *error) {
    gs_timing_plan plan = {
        .body = body, .count = count, .blocks = (int64_t)on_sm * measuring->device->gpu->sms, .warps = warps};
    return gs_device_time(measuring->device, &plan, timing, error);
}

/* What one more instruction of a chain takes: the longest against the shortest, so that the most is on the safe side.
 */
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
        show(measuring);
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
    if (in_place > latency[GS_M_COMPUTE].most)
        latency[GS_M_COMPUTE].most = in_place;
    return GS_OK;
}

/* Whole programs on one warp: what they take besides their instructions. */
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
            show(measuring);
        }
    latencies->overhead = range_of(&measuring->values);
    latencies->overhead.most += 1000; /* the instructions were rounded up to a cycle */
    return code;
}

/* ---- delays ---- */

/* Warps of a block, and blocks on an SM: even and uneven shares of four schedulers. */
static const struct {
    int32_t warps, on_sm;
} crowds[] = {{2, 1},  {3, 1},  {4, 1},  {5, 1},  {6, 1},  {7, 1},  {8, 1},  {9, 1}, {12, 1},
              {13, 1}, {16, 1}, {20, 1}, {24, 1}, {32, 1}, {20, 2}, {32, 2}, {1, 2}, {3, 3}};

static bool crowd_fits(const gs_gpu *gpu, const gs_shape *shape, int32_t on_sm) {
    gs_need need;
    return shape->threads <= gpu->limits.threads_per_block && gs_need_of(gpu, shape, &need, NULL) == GS_OK &&
           need.blocks_per_sm >= on_sm;
}

/* `*full` becomes the least time an instruction of any crowd. */
static gs_code measure_crowd(struct measuring *measuring, gs_timed_body body, int32_t count, size_t crowd,
                             int64_t alone, int64_t *full, gs_error *error) {
    int32_t warps = crowds[crowd].warps, instructions = count ? count : CLOCK_READINGS;
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
        longest = timing.cycles > longest ? timing.cycles : longest;
        if (!add_value(&measuring->values, gs_divide_up((timing.cycles - alone) * 1000, (all - 1) * instructions)))
            code = gs_fail_memory(error);
        show(measuring);
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
        delay->most = full != INT64_MAX && full > delay->most ? full : delay->most;
    }
    return code;
}

/* ---- samples ---- */

/* The most blocks that one SM gets, or 0: not all fit on the GPU together. */
static int32_t predict_most(const gs_gpu *gpu, const gs_shape *shape, int64_t blocks) {
    gs_dispatcher *dispatcher = gs_dispatcher_new(gpu, NULL);
    int kernel = dispatcher ? gs_dispatcher_kernel(dispatcher, shape, NULL) : -1, sm = kernel < 0 ? GS_WAIT : 0;
    int32_t most = 0;
    for (int64_t i = 0; i < blocks && sm != GS_WAIT; i++)
        if ((sm = gs_dispatcher_next(dispatcher, kernel)) != GS_WAIT) {
            gs_dispatcher_place(dispatcher, kernel, sm);
            int32_t on_sm = gs_dispatcher_resident(dispatcher, sm);
            most = on_sm > most ? on_sm : most;
        }
    gs_dispatcher_free(dispatcher);
    return sm == GS_WAIT ? 0 : most;
}

/* A random configuration all of which is on the GPU together. */
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

static gs_code measure_sample(struct measuring *measuring, uint64_t index, gs_error *error) {
    gs_sample sample;
    gs_code code = draw_sample(measuring, index, &sample, error);
    gs_timing_plan plan = {.body = GS_TIMED_PROGRAM, .count = sample.repeat, .blocks = sample.blocks};
    plan.warps = sample.warps;
    for (int trial = 0; trial < SAMPLE_TRIALS && code == GS_OK; trial++) {
        gs_timing timing;
        code = gs_device_time(measuring->device, &plan, &timing, error);
        if (code != GS_OK)
            break;
        sample.cycles = timing.cycles > sample.cycles ? timing.cycles : sample.cycles;
        sample.skew = timing.skew > sample.skew ? timing.skew : sample.skew;
        sample.on_sm = timing.most_on_sm > sample.on_sm ? timing.most_on_sm : sample.on_sm;
    }
    show(measuring);
    if (code != GS_OK)
        return code;
    if (!GS_RESERVE(&measuring->measured->samples, 1))
        return gs_fail_memory(error);
    measuring->measured->samples.data[measuring->measured->samples.count++] = sample;
    return GS_OK;
}

gs_code gs_measure(gs_device *device, const gs_measure_options *options, gs_measured *measured, gs_error *error) {
    *measured = (gs_measured){.seed = (int64_t)options->seed};
    struct measuring measuring = {.device = device, .options = options, .measured = measured};
    measuring.trials = (int)gs_min(20, 4 + options->count / 50);
    measuring.total =
        options->count + measuring.trials * (4 + GS_TIMED_REPEATS + GS_M_CLASSES * (int64_t)GS_COUNT(crowds));
    gs_code code = measure_latencies(&measuring, error);
    if (code == GS_OK) {
        measured->gpu = strdup(device->gpu->name);
        measured->uuid = strdup(device->uuid);
        code = measured->gpu && measured->uuid ? measure_overhead(&measuring, error) : gs_fail_memory(error);
    }
    if (code == GS_OK)
        code = measure_delays(&measuring, error);
    for (int64_t i = 0; i < options->count && code == GS_OK; i++)
        code = measure_sample(&measuring, (uint64_t)i, error);
    free(measuring.values.data);
    if (code != GS_OK)
        gs_measured_clear(measured);
    return code;
}

void gs_measured_clear(gs_measured *measured) {
    free(measured->gpu);
    free(measured->uuid);
    free(measured->samples.data);
    *measured = (gs_measured){0};
}

/* ---- writing ---- */

static void put_range(gs_text *text, const char *key, const gs_range *range) {
    gs_text_add(text, "\"%s\": [%lld, %lld, %lld]", key, (long long)range->least, (long long)range->median,
                (long long)range->most);
}

void gs_measured_text(const gs_measured *measured, gs_text *text) {
    gs_text_add(text, "{\"schema\": \"gridsmith.measured/1\", \"gpu\": ");
    gs_text_put_json(text, measured->gpu);
    gs_text_add(text, ", \"uuid\": ");
    gs_text_put_json(text, measured->uuid[0] ? measured->uuid : "none");
    gs_text_add(text, ", \"seed\": %lld, ", (long long)measured->seed);
    put_range(text, "overhead_millicycles", &measured->latencies.overhead);
    for (int i = 0; i < GS_M_CLASSES; i++) {
        gs_text_add(text, ", \"%s\": {", gs_measured_classes[i]);
        if (i < GS_M_CLOCK) {
            put_range(text, "latency_millicycles", &measured->latencies.latency[i]);
            gs_text_add(text, ", ");
        }
        put_range(text, "delay_millicycles", &measured->latencies.delay[i]);
        gs_text_add(text, "}");
    }
    gs_text_add(text, "}\n");
    for (size_t i = 0; i < measured->samples.count; i++) {
        const gs_sample *sample = &measured->samples.data[i];
        gs_text_add(text,
                    "{\"repeat\": %d, \"warps\": %d, \"blocks\": %lld, \"on_sm\": %d, \"predicted_on_sm\": %d, "
                    "\"skew_cycles\": %lld, \"measured_cycles\": %lld, \"bound_cycles\": %lld}\n",
                    sample->repeat, sample->warps, (long long)sample->blocks, sample->on_sm, sample->predicted_on_sm,
                    (long long)sample->skew, (long long)sample->cycles,
                    (long long)gs_measured_bound(&measured->latencies, sample));
    }
}

/* ---- reading ---- */

#define MOST_MILLICYCLES ((int64_t)1000000000)

static const gs_field head_fields[] = {
    {"schema", GS_FIELD_OTHER, true, 0, 0, 0},
    {"gpu", GS_FIELD_NAME, true, offsetof(gs_measured, gpu), 0, 0},
    {"uuid", GS_FIELD_NAME, true, offsetof(gs_measured, uuid), 0, 0},
    {"seed", GS_FIELD_INT64, true, offsetof(gs_measured, seed), 0, INT64_MAX},
    {"overhead_millicycles", GS_FIELD_OTHER, true, 0, 0, 0},
    {"compute", GS_FIELD_OTHER, true, 0, 0, 0},
    {"load", GS_FIELD_OTHER, true, 0, 0, 0},
    {"store", GS_FIELD_OTHER, true, 0, 0, 0},
    {"clock", GS_FIELD_OTHER, true, 0, 0, 0},
};

static const gs_field class_fields[] = {
    {"latency_millicycles", GS_FIELD_OTHER, false, 0, 0, 0},
    {"delay_millicycles", GS_FIELD_OTHER, true, 0, 0, 0},
};

static const gs_field sample_fields[] = {
    {"repeat", GS_FIELD_INT32, true, offsetof(gs_sample, repeat), 1, 10000},
    {"warps", GS_FIELD_INT32, true, offsetof(gs_sample, warps), 1, 64},
    {"blocks", GS_FIELD_INT64, true, offsetof(gs_sample, blocks), 1, INT32_MAX},
    {"on_sm", GS_FIELD_INT32, true, offsetof(gs_sample, on_sm), 1, 64},
    {"predicted_on_sm", GS_FIELD_INT32, true, offsetof(gs_sample, predicted_on_sm), 1, 64},
    {"skew_cycles", GS_FIELD_INT64, true, offsetof(gs_sample, skew), 0, INT32_MAX},
    {"measured_cycles", GS_FIELD_INT64, true, offsetof(gs_sample, cycles), 1, INT64_MAX / 2},
    {"bound_cycles", GS_FIELD_OTHER, true, 0, 0, 0}, /* is worked out again */
};

static gs_code read_range(const gs_json *json, const gs_step *at, const char *key, gs_range *range, gs_error *error) {
    gs_step list = gs_step_key(at, key);
    int64_t *const values[] = {&range->least, &range->median, &range->most};
    gs_code code = GS_OK;
    if (json_array_size(list.value) != GS_COUNT(values))
        return gs_json_fail(json, list.value ? &list : at, false, error,
                            "\"%s\" must be the least, the median and the most", key);
    for (size_t i = 0; i < GS_COUNT(values) && code == GS_OK; i++) {
        gs_step step = gs_step_index(&list, i);
        code = gs_json_int(json, &step, 0, MOST_MILLICYCLES, values[i], error);
    }
    return code;
}

static gs_code read_head(const gs_json *json, gs_measured *measured, gs_error *error) {
    gs_step root = gs_step_root(json);
    gs_code code = gs_json_schema(json, &root, "gridsmith.measured/1", error);
    if (code == GS_OK)
        code = gs_json_object(json, &root, head_fields, GS_COUNT(head_fields), measured, error);
    if (code == GS_OK)
        code = read_range(json, &root, "overhead_millicycles", &measured->latencies.overhead, error);
    for (int i = 0; i < GS_M_CLASSES && code == GS_OK; i++) {
        gs_step step = gs_step_key(&root, gs_measured_classes[i]);
        code = gs_json_object(json, &step, class_fields, GS_COUNT(class_fields), NULL, error);
        if (code == GS_OK && i < GS_M_CLOCK)
            code = read_range(json, &step, "latency_millicycles", &measured->latencies.latency[i], error);
        if (code == GS_OK)
            code = read_range(json, &step, "delay_millicycles", &measured->latencies.delay[i], error);
    }
    return code;
}

static gs_code read_sample(const gs_json *json, gs_measured *measured, gs_error *error) {
    gs_step root = gs_step_root(json);
    gs_sample sample = {0};
    gs_code code = gs_json_object(json, &root, sample_fields, GS_COUNT(sample_fields), &sample, error);
    if (code == GS_OK && !GS_RESERVE(&measured->samples, 1))
        code = gs_fail_memory(error);
    if (code == GS_OK)
        measured->samples.data[measured->samples.count++] = sample;
    return code;
}

gs_code gs_measured_input(gs_input *input, gs_measured *measured, gs_error *error) {
    gs_code code = GS_OK;
    bool is_head = true, more = true;
    *measured = (gs_measured){0};
    while (code == GS_OK && more) {
        gs_json json;
        code = gs_json_next(input, &json, error);
        if (code != GS_OK)
            break;
        more = json.root != NULL;
        if (more)
            code = is_head ? read_head(&json, measured, error) : read_sample(&json, measured, error);
        is_head = false;
        gs_json_free(&json);
    }
    if (code == GS_OK && !measured->samples.count)
        code = gs_fail(error, GS_E_FORMAT, "there are no samples in the file");
    if (code != GS_OK)
        gs_measured_clear(measured);
    return code;
}

gs_code gs_measured_read(const char *path, gs_measured *measured, gs_error *error) {
    gs_input *input = gs_input_open(path, error);
    gs_code code = input ? gs_measured_input(input, measured, error) : error->code;
    gs_input_close(input);
    return code;
}
