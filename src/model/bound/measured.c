/*
 * measured.c: latencies measured on a real SM, and the bound for them.
 *
 * A latency is measured with chains of one instruction on one warp: it is the difference between two lengths of chain,
 * so the code around the chain does not count. The overhead of a warp is measured with whole programs on one warp. The
 * delay by an instruction of another warp is measured with the same chains on many warps: it is the time for each
 * instruction when the SM has enough of them, and at least what makes the bound hold for these warps. All of it is
 * measured on every SM and many times, and the bound uses the most that was measured.
 *
 * The bound is Theorem 1 of docs/bounds.md: the latencies of one warp, and all work of the others. An SM has several
 * schedulers, each with its own multipliers, and one shared memory. Here they are one unit of each kind, because a
 * delay is measured as the cost of one more instruction anywhere on the SM. An instruction for another unit than the
 * multipliers is also issued, which costs at most as much as a multiplication.
 */
#include "bound.h"

#include <stdlib.h>

#define SCHEMA "gridsmith.measured/1"

static const gs_field sample_fields[] = {
    {"schema", GS_FIELD_OTHER, false, 0, 0, 0},
    {"id", GS_FIELD_OTHER, false, 0, 0, 0},
    {"repeat", GS_FIELD_INT32, true, offsetof(gs_sample, repeat), 1, 10000},
    {"warps", GS_FIELD_INT32, true, offsetof(gs_sample, warps), 1, 64},
    {"blocks", GS_FIELD_INT64, true, offsetof(gs_sample, blocks), 1, INT32_MAX},
    {"on_sm", GS_FIELD_INT32, true, offsetof(gs_sample, on_sm), 1, 64},
    {"predicted_on_sm", GS_FIELD_INT32, true, offsetof(gs_sample, predicted_on_sm), 1, 64},
    {"skew_cycles", GS_FIELD_INT64, true, offsetof(gs_sample, skew), 0, INT32_MAX},
    {"measured_cycles", GS_FIELD_INT64, true, offsetof(gs_sample, cycles), 1, INT64_MAX / 2},
    {"bound_cycles", GS_FIELD_OTHER, false, 0, 0, 0}, /* computed again when read */
};

const char *const gs_measured_classes[GS_M_CLASSES] = {"compute", "load", "store", "clock"};

/* ---- the bound ---- */

int64_t gs_measured_bound(const gs_latencies *latencies, const gs_sample *sample) {
    const int64_t instructions[GS_M_CLASSES] = {sample->repeat + 1, 2 * sample->repeat, 1, GS_CLOCK_READINGS};
    int64_t others = (int64_t)sample->on_sm * sample->warps - 1, sum = latencies->overhead.most;
    for (int i = 0; i < GS_M_CLASSES; i++) {
        int64_t turn = i == GS_M_COMPUTE ? 0 : latencies->delay[GS_M_COMPUTE].most;
        sum += i == GS_M_CLOCK ? 0 : instructions[i] * latencies->latency[i].most;
        sum += others * instructions[i] * (latencies->delay[i].most + turn);
    }
    return gs_divide_up(sum, 1000);
}

void gs_measured_clear(gs_measured *measured) {
    free(measured->gpu);
    free(measured->uuid);
    free(measured->samples.data);
    *measured = (gs_measured){0};
}

/* ---- writing ---- */

static void write_range(gs_writer *writer, const char *key, const gs_range *range) {
    gs_write_array(writer, key);
    gs_write_int(writer, NULL, range->least);
    gs_write_int(writer, NULL, range->median);
    gs_write_int(writer, NULL, range->most);
    gs_write_end(writer);
}

/* A number below 0 stands for no number. */
static void write_head(gs_writer *writer, const gs_measured *measured, int64_t number) {
    gs_write_document(writer, SCHEMA);
    if (number >= 0)
        gs_write_int(writer, "id", number);
    gs_write_string(writer, "gpu", measured->gpu);
    gs_write_string(writer, "uuid", measured->uuid[0] ? measured->uuid : "none");
    gs_write_int(writer, "seed", measured->seed);
    write_range(writer, "overhead_millicycles", &measured->latencies.overhead);
    for (int i = 0; i < GS_M_CLASSES; i++) {
        gs_write_object(writer, gs_measured_classes[i]);
        if (i < GS_M_CLOCK)
            write_range(writer, "latency_millicycles", &measured->latencies.latency[i]);
        write_range(writer, "delay_millicycles", &measured->latencies.delay[i]);
        gs_write_end(writer);
    }
    gs_write_finish(writer);
}

void gs_measured_text(const gs_measured *measured, gs_text *text) {
    gs_writer writer = gs_writer_to(text);
    write_head(&writer, measured, -1);
    for (size_t i = 0; i < measured->samples.count; i++) {
        const gs_sample *sample = &measured->samples.data[i];
        gs_write_object(&writer, NULL);
        gs_write_fields(&writer, sample_fields, GS_COUNT(sample_fields), sample);
        gs_write_int(&writer, "bound_cycles", gs_measured_bound(&measured->latencies, sample));
        gs_write_finish(&writer);
    }
}

void gs_measured_head_text(const gs_measured *measured, int64_t number, gs_text *text) {
    gs_writer writer = gs_writer_to(text);
    write_head(&writer, measured, number);
}

void gs_sample_text(const gs_sample *sample, int64_t number, gs_text *text) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, SCHEMA);
    gs_write_int(&writer, "id", number);
    gs_write_fields(&writer, sample_fields, GS_COUNT(sample_fields), sample);
    gs_write_finish(&writer);
}

/* ---- reading ---- */

#define MOST_MILLICYCLES ((int64_t)1000000000)

static const gs_field head_fields[] = {
    {"schema", GS_FIELD_OTHER, true, 0, 0, 0},
    {"id", GS_FIELD_OTHER, false, 0, 0, 0},
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
    gs_code code = gs_json_schema(json, &root, SCHEMA, error);
    if (code == GS_OK && json_object_get(json->root, "repeat"))
        return gs_json_fail(json, &root, false, error,
                            "the file is a shard without latencies; combine all shards with 'gridsmith merge'");
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
    if (code == GS_OK && !GS_PUSH(&measured->samples, sample))
        code = gs_fail_memory(error);
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
        bool is_about = gs_is_campaign_header(json.root);
        if (more && !is_about)
            code = is_head ? read_head(&json, measured, error) : read_sample(&json, measured, error);
        is_head = is_head && is_about;
        gs_json_free(&json);
    }
    if (code == GS_OK && !measured->samples.count)
        code = gs_input_fail(input, error, GS_E_FORMAT, "the file holds no samples");
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
