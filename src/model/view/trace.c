/*
 * trace.c: Chrome trace JSON, which ui.perfetto.dev and chrome://tracing open.
 *
 * Processes are: the streams, with a thread each; the waits, as slices; the occupancy of the GPU, as counters; and each
 * SM. Slices of one thread must not overlap, so an SM has a thread for each lane. If a trace would have more than
 * MOST_SLICES blocks, the blocks of a launch on an SM are one slice, with their number; if these are too many, SMs are
 * left out; and of waits the longest remain. The trace says so. Without times each launch or exit takes one
 * millisecond.
 */
#include "scene.h"

#include <stdlib.h>

enum {
    COLUMN_NS = 1000000,
    MOST_SLICES = 200000,
    SAMPLES = 2000, /* of occupancy */
    STREAMS = 1,    /* processes */
    WAITS = 2,
    COUNTERS = 3,
    FIRST_SM = 10,
    THREADS = 1000 /* of a process */
};

struct trace {
    gs_writer writer;
    gs_scene scene;
    bool is_brief;         /* blocks of a launch on an SM are one slice */
    bool is_briefer;       /* even these are too many: SMs are left out */
    int64_t shortest_wait; /* waits that are not longer are left out */
};

static int64_t to_ns(const struct trace *trace, int64_t at) {
    return trace->scene.is_timed ? at : at * COLUMN_NS;
}

static void begin_event(gs_writer *writer, const char *phase, const char *name, int32_t process) {
    gs_write_object(writer, NULL);
    gs_write_string(writer, "ph", phase);
    gs_write_string(writer, "name", name);
    gs_write_int(writer, "pid", process);
}

/* The end of an event with arguments. */
static void end_event(gs_writer *writer) {
    gs_write_end(writer);
    gs_write_end(writer);
}

/* ---- names ---- */

static void name_process(gs_writer *writer, int32_t process, const char *name) {
    begin_event(writer, "M", "process_name", process);
    gs_write_object(writer, "args");
    gs_write_string(writer, "name", name);
    end_event(writer);
    begin_event(writer, "M", "process_sort_index", process);
    gs_write_object(writer, "args");
    gs_write_int(writer, "sort_index", process);
    end_event(writer);
}

static void name_thread(gs_writer *writer, int32_t process, int32_t thread, const char *name) {
    begin_event(writer, "M", "thread_name", process);
    gs_write_int(writer, "tid", process * THREADS + thread);
    gs_write_object(writer, "args");
    gs_write_string(writer, "name", name);
    end_event(writer);
}

static void name_lane(gs_writer *writer, int32_t process, int32_t lane) {
    char name[32];
    snprintf(name, sizeof name, "lane %d", lane);
    name_thread(writer, process, lane, name);
}

/* ---- slices ---- */

/* The caller adds arguments and ends it. */
static void begin_slice(struct trace *trace, const char *name, int32_t process, int32_t thread, int64_t from,
                        int64_t to) {
    gs_writer *writer = &trace->writer;
    begin_event(writer, "X", name, process);
    gs_write_int(writer, "tid", process * THREADS + thread);
    gs_write_us(writer, "ts", to_ns(trace, from));
    gs_write_us(writer, "dur", to_ns(trace, to - from));
    gs_write_object(writer, "args");
}

static void put_stream_slice(struct trace *trace, size_t operation, int32_t thread) {
    const gs_scene *scene = &trace->scene;
    const gs_scene_operation *times = &scene->operations.data[operation];
    gs_writer *writer = &trace->writer;
    begin_slice(trace, gs_operation_name(scene->run, operation), STREAMS, thread, times->start,
                times->end == GS_NO_TIME ? scene->to : times->end);
    if (operation < scene->run->launches.count) {
        const gs_launch *launch = &scene->run->launches.data[operation];
        gs_write_int(writer, "blocks", launch->blocks);
        gs_write_int(writer, "threads", launch->shape.threads);
        gs_write_int(writer, "registers", launch->shape.registers);
        gs_write_int(writer, "shared_bytes", launch->shape.shared_bytes);
    } else {
        gs_write_int(writer, "bytes", scene->run->copies.data[operation - scene->run->launches.count].bytes);
    }
    if (times->measured_start != GS_NO_TIME)
        gs_write_us(writer, "measured_start_us", times->measured_start);
    end_event(writer);
}

/* ---- lanes ---- */

struct lanes {
    int64_t *data; /* when each is free */
    size_t count, capacity;
};

/* The lowest lane that is free from `from` on. -1: out of memory. */
static int32_t take_lane(struct lanes *lanes, int64_t from, int64_t to) {
    size_t lane = 0;
    while (lane < lanes->count && lanes->data[lane] > from)
        lane++;
    if (lane == lanes->count) {
        if (!GS_RESERVE(lanes, 1))
            return -1;
        lanes->count++;
    }
    lanes->data[lane] = to;
    return (int32_t)lane;
}

/* ---- streams ---- */

/* Launches of a stream can overlap, if one starts before the one before it has ended: then they are on several threads.
 */
static bool put_stream(struct trace *trace, size_t operation, struct lanes *lanes) {
    const gs_scene *scene = &trace->scene;
    const gs_scene_operation *times = &scene->operations.data[operation];
    struct lanes *own = &lanes[times->stream];
    const gs_text *name = &scene->streams.data[times->stream];
    size_t named = own->count;
    int32_t lane = take_lane(own, times->start, times->end == GS_NO_TIME ? scene->to : times->end);
    int32_t thread = (int32_t)(times->stream + (size_t)lane * scene->streams.count);
    if (lane < 0)
        return false;
    if ((size_t)lane == named)
        name_thread(&trace->writer, STREAMS, thread, name->data ? name->data : "no stream");
    put_stream_slice(trace, operation, thread);
    return true;
}

static gs_code put_streams(struct trace *trace, gs_error *error) {
    const gs_scene *scene = &trace->scene;
    struct lanes *lanes = calloc(scene->streams.count + 1, sizeof *lanes);
    bool done = lanes;
    name_process(&trace->writer, STREAMS, "streams");
    for (size_t i = 0; i < scene->operations.count && done; i++)
        if (scene->operations.data[i].start != GS_NO_TIME)
            done = put_stream(trace, i, lanes);
    for (size_t i = 0; lanes && i < scene->streams.count; i++)
        free(lanes[i].data);
    free(lanes);
    return done ? GS_OK : gs_fail_memory(error);
}

/* ---- waits ---- */

static void put_wait(struct trace *trace, const gs_scene_wait *wait, int32_t lane) {
    const gs_scene *scene = &trace->scene;
    gs_text words = {0};
    gs_put_name(&words, gs_operation_name(scene->run, wait->operation));
    gs_text_add(&words, " waits ");
    gs_put_wait(&words, (gs_reason)wait->reason, (gs_lack)wait->lack,
                wait->behind == GS_NO_NUMBER ? NULL : gs_operation_name(scene->run, wait->behind));
    begin_slice(trace, words.data ? words.data : "", WAITS, lane, wait->from, wait->to);
    gs_write_string(&trace->writer, "for", gs_reason_name((gs_reason)wait->reason));
    end_event(&trace->writer);
    trace->writer.text->failed = trace->writer.text->failed || words.failed;
    gs_text_free(&words);
}

GS_ORDER_THEN(compare_waits, gs_scene_wait, from, operation)

/* If there are too many waits, the longest remain. */
static gs_code choose_waits(struct trace *trace, gs_error *error) {
    size_t count = trace->scene.waits.count;
    if (count <= MOST_SLICES)
        return GS_OK;
    int64_t *lengths = malloc(count * sizeof *lengths);
    if (!lengths)
        return gs_fail_memory(error);
    for (size_t i = 0; i < count; i++)
        lengths[i] = trace->scene.waits.data[i].to - trace->scene.waits.data[i].from;
    qsort(lengths, count, sizeof *lengths, gs_compare_int64);
    trace->shortest_wait = lengths[count - 1 - MOST_SLICES];
    free(lengths);
    return GS_OK;
}

static gs_code put_waits(struct trace *trace, gs_error *error) {
    const gs_scene *scene = &trace->scene;
    struct lanes lanes = {0};
    gs_code code = GS_OK;
    if (!scene->waits.count)
        return GS_OK;
    qsort(scene->waits.data, scene->waits.count, sizeof *scene->waits.data, compare_waits);
    name_process(&trace->writer, WAITS, "waiting");
    for (size_t i = 0; i < scene->waits.count && code == GS_OK; i++) {
        size_t named = lanes.count;
        if (scene->waits.data[i].to - scene->waits.data[i].from <= trace->shortest_wait)
            continue;
        int32_t lane = take_lane(&lanes, scene->waits.data[i].from, scene->waits.data[i].to);
        if (lane >= THREADS) /* too many lanes to read */
            continue;
        if (lane < 0)
            code = gs_fail_memory(error);
        if ((size_t)lane == named)
            name_lane(&trace->writer, WAITS, lane);
        put_wait(trace, &scene->waits.data[i], lane);
    }
    free(lanes.data);
    return code;
}

/* ---- occupancy ---- */

static void put_counter(struct trace *trace, const gs_strip *strip, int use) {
    const gs_scene *scene = &trace->scene;
    gs_writer *writer = &trace->writer;
    int64_t last = -1;
    for (size_t i = 0; i <= strip->columns; i++) {
        int64_t value = i < strip->columns ? (int64_t)(strip->uses[use][i] * 1000 + 0.5) : 0;
        if (value == last)
            continue;
        double part = (double)i / (double)strip->columns;
        begin_event(writer, "C", gs_use_names[use], COUNTERS);
        gs_write_us(writer, "ts", to_ns(trace, scene->from + (int64_t)((double)(scene->to - scene->from) * part)));
        gs_write_object(writer, "args");
        gs_write_real(writer, "percent", (double)value / 10, 1);
        end_event(writer);
        last = value;
    }
}

static gs_code put_counters(struct trace *trace, gs_error *error) {
    gs_strip strip;
    gs_code code = gs_strip_new(&strip, &trace->scene, SAMPLES, error);
    if (code != GS_OK)
        return code;
    name_process(&trace->writer, COUNTERS, "occupancy of the GPU");
    gs_strip_fill(&strip, &trace->scene, trace->scene.sms, trace->scene.gpu->sms);
    for (int i = 0; i < GS_USES; i++)
        put_counter(trace, &strip, i);
    gs_strip_clear(&strip);
    return GS_OK;
}

/* ---- SMs ---- */

static void put_block(struct trace *trace, const gs_stay *stay, int32_t lane) {
    const gs_launch *launch = &trace->scene.run->launches.data[stay->launch];
    begin_slice(trace, launch->kernel, FIRST_SM + stay->sm, lane, stay->from, stay->to);
    gs_write_int(&trace->writer, stay->count > 1 ? "blocks" : "block", stay->count > 1 ? stay->count : stay->block);
    end_event(&trace->writer);
}

static void name_sm(struct trace *trace, int32_t sm) {
    char name[32];
    snprintf(name, sizeof name, "SM %d", sm);
    name_process(&trace->writer, FIRST_SM + sm, name);
}

static gs_code put_slices(struct trace *trace, const gs_stay *stays, size_t count, gs_error *error) {
    struct lanes lanes = {0};
    gs_code code = GS_OK;
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        size_t named = lanes.count;
        int32_t lane = take_lane(&lanes, stays[i].from, stays[i].to);
        if (lane < 0)
            code = gs_fail_memory(error);
        if ((size_t)lane == named)
            name_lane(&trace->writer, FIRST_SM + stays[i].sm, lane);
        if (lane >= 0)
            put_block(trace, &stays[i], lane);
    }
    free(lanes.data);
    return code;
}

GS_ORDER_THEN(compare_starts, gs_stay, from, launch)

/* The blocks of each launch on an SM as one stay, from the first start to the last end. `at` has a number for each
   launch, and is left as it was. Returns how many. */
static size_t join_launches(const gs_stay *stays, size_t count, size_t *at, gs_stay *joined) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        size_t *number = &at[stays[i].launch];
        if (*number == SIZE_MAX) {
            *number = found;
            joined[found++] = stays[i];
            continue;
        }
        joined[*number].count += stays[i].count;
        joined[*number].to = gs_max(joined[*number].to, stays[i].to);
    }
    for (size_t i = 0; i < found; i++)
        at[joined[i].launch] = SIZE_MAX;
    qsort(joined, found, sizeof *joined, compare_starts);
    return found;
}

/* How many slices there are if the blocks of a launch on an SM are one. SIZE_MAX: out of memory. */
static size_t count_joined(const gs_scene *scene, gs_error *error) {
    const gs_scene_layer *layer = &scene->layers[0];
    int32_t *last =
        malloc((scene->run->launches.count + 1) * sizeof *last); /* the SM on which a launch was seen last */
    size_t count = 0;
    if (!last) {
        gs_fail_memory(error);
        return SIZE_MAX;
    }
    for (size_t i = 0; i < scene->run->launches.count; i++)
        last[i] = -1;
    for (size_t i = 0; i < layer->stays.count; i++) {
        count += last[layer->stays.data[i].launch] != layer->stays.data[i].sm;
        last[layer->stays.data[i].launch] = layer->stays.data[i].sm;
    }
    free(last);
    return count;
}

static gs_code put_sms(struct trace *trace, gs_error *error) {
    const gs_scene_layer *layer = &trace->scene.layers[0];
    size_t launches = trace->scene.run->launches.count;
    gs_stay *joined = trace->is_brief ? malloc((launches + 1) * sizeof *joined) : NULL;
    size_t *at = trace->is_brief ? malloc((launches + 1) * sizeof *at) : NULL;
    gs_code code = trace->is_brief && (!joined || !at) ? gs_fail_memory(error) : GS_OK;
    for (size_t i = 0; at && i < launches; i++)
        at[i] = SIZE_MAX;
    for (int32_t sm = 0; sm < trace->scene.gpu->sms && code == GS_OK; sm++) {
        const gs_stay *stays = layer->stays.data + layer->first[sm];
        size_t count = layer->first[sm + 1] - layer->first[sm];
        if (!count)
            continue;
        name_sm(trace, sm);
        if (trace->is_brief) {
            count = join_launches(stays, count, at, joined);
            stays = joined;
        }
        code = put_slices(trace, stays, count, error);
    }
    free(joined);
    free(at);
    return code;
}

/* ---- all ---- */

static void put_notes(struct trace *trace) {
    gs_writer *writer = &trace->writer;
    gs_write_object(writer, "otherData");
    gs_write_string(writer, "gpu", trace->scene.gpu->name);
    gs_write_optional(writer, "assumed", trace->scene.gpu->assumed);
    gs_write_string(writer, "time",
                    trace->scene.is_timed ? "as predicted or recorded" : "one millisecond a launch or exit");
    if (trace->is_brief)
        gs_write_string(writer, "blocks",
                        trace->is_briefer ? "too many blocks: SMs are left out, the counters show how full they are"
                                          : "too many blocks: a slice stands for all blocks of a launch on an SM");
    if (trace->shortest_wait)
        gs_write_us(writer, "waits_longer_than_us", to_ns(trace, trace->shortest_wait));
    gs_write_end(writer);
}

static gs_code trace_run(gs_view *view, const gs_gpu *gpu, const gs_run *run, gs_error *error) {
    struct trace trace = {.writer = gs_writer_to(&view->text)};
    gs_writer *writer = &trace.writer;
    gs_scene_source source = {.gpu = gpu, .run = run, .measured = view->measured, .played = view->played};
    gs_code code = gs_scene_make(&trace.scene, &source, error);
    if (code != GS_OK)
        return code;
    trace.is_brief = trace.scene.layers[0].stays.count > MOST_SLICES;
    size_t joined = trace.is_brief ? count_joined(&trace.scene, error) : 0;
    trace.is_briefer = joined > MOST_SLICES;
    code = joined == SIZE_MAX ? GS_E_MEMORY : choose_waits(&trace, error);
    if (code != GS_OK) {
        gs_scene_clear(&trace.scene);
        return code;
    }
    gs_write_object(writer, NULL);
    gs_write_string(writer, "displayTimeUnit", "ns");
    put_notes(&trace);
    gs_write_array(writer, "traceEvents");
    code = put_streams(&trace, error);
    if (code == GS_OK)
        code = put_waits(&trace, error);
    if (code == GS_OK && trace.scene.layers[0].stays.count)
        code = put_counters(&trace, error);
    if (code == GS_OK && !trace.is_briefer)
        code = put_sms(&trace, error);
    gs_write_finish(writer);
    gs_scene_clear(&trace.scene);
    return code;
}

const gs_format gs_format_trace = {.name = "trace",
                                   .help = "Chrome trace JSON, for ui.perfetto.dev",
                                   .one_run = true,
                                   .wants_played = true,
                                   .run = trace_run};
