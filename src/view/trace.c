/*
 * trace.c: Chrome trace JSON, which ui.perfetto.dev and chrome://tracing open.
 *
 * An SM is shown as a process and a lane as a thread, because slices on one thread must not overlap. Without times each
 * launch or exit takes one millisecond.
 */
#include "view.h"

enum { COLUMN_NS = 1000000, LANES_PER_SM = 1000 };

struct trace {
    gs_writer writer;
    const gs_run *run;
    gs_stays stays;
};

static int thread_of(int32_t sm, int32_t lane) {
    return (sm + 1) * LANES_PER_SM + lane;
}

static int64_t to_ns(const struct trace *trace, int64_t at) {
    return trace->stays.timed ? at : at * COLUMN_NS;
}

static void begin_event(gs_writer *writer, const char *phase, const char *name, int32_t sm) {
    gs_write_object(writer, NULL);
    gs_write_string(writer, "ph", phase);
    gs_write_string(writer, "name", name);
    gs_write_int(writer, "pid", sm + 1);
}

/* The end of an event with arguments. */
static void end_event(gs_writer *writer) {
    gs_write_end(writer);
    gs_write_end(writer);
}

static void name_sm(gs_writer *writer, int32_t sm) {
    char name[32];
    snprintf(name, sizeof name, "SM %d", sm);
    begin_event(writer, "M", "process_name", sm);
    gs_write_object(writer, "args");
    gs_write_string(writer, "name", name);
    end_event(writer);
    begin_event(writer, "M", "process_sort_index", sm);
    gs_write_object(writer, "args");
    gs_write_int(writer, "sort_index", sm);
    end_event(writer);
}

static void name_lane(gs_writer *writer, int32_t sm, int32_t lane) {
    char name[32];
    snprintf(name, sizeof name, "lane %d", lane);
    begin_event(writer, "M", "thread_name", sm);
    gs_write_int(writer, "tid", thread_of(sm, lane));
    gs_write_object(writer, "args");
    gs_write_string(writer, "name", name);
    end_event(writer);
}

static void put_slice(struct trace *trace, const gs_stay *stay) {
    const gs_launch *launch = &trace->run->launches.data[stay->launch];
    gs_writer *writer = &trace->writer;
    begin_event(writer, "X", launch->kernel, stay->sm);
    gs_write_int(writer, "tid", thread_of(stay->sm, stay->lane));
    gs_write_us(writer, "ts", to_ns(trace, stay->from));
    gs_write_us(writer, "dur", to_ns(trace, stay->to - stay->from));
    gs_write_object(writer, "args");
    gs_write_int(writer, "block", stay->block);
    gs_write_int(writer, "threads", launch->shape.threads);
    gs_write_int(writer, "registers", launch->shape.registers);
    gs_write_int(writer, "shared_bytes", launch->shape.shared_bytes);
    end_event(writer);
}

static void put_slices(struct trace *trace) {
    int32_t lanes = 0;
    for (size_t i = 0; i < trace->stays.count; i++) {
        const gs_stay *stay = &trace->stays.data[i];
        if (!i || stay->sm != trace->stays.data[i - 1].sm) {
            name_sm(&trace->writer, stay->sm);
            lanes = 0;
        }
        for (; lanes <= stay->lane; lanes++)
            name_lane(&trace->writer, stay->sm, lanes);
        put_slice(trace, stay);
    }
}

static gs_code trace_run(gs_view *view, const gs_gpu *gpu, const gs_run *run, gs_error *error) {
    struct trace trace = {.writer = gs_writer_to(&view->text), .run = run};
    gs_writer *writer = &trace.writer;
    gs_code code = gs_stays_of(run, false, &trace.stays, error);
    if (code != GS_OK)
        return code;
    gs_write_object(writer, NULL);
    gs_write_string(writer, "displayTimeUnit", "ns");
    gs_write_object(writer, "otherData");
    gs_write_string(writer, "gpu", gpu->name);
    gs_gpu_write_assumed(gpu, writer);
    gs_write_string(writer, "time",
                    trace.stays.timed ? "as predicted or recorded" : "one millisecond a launch or exit");
    gs_write_end(writer);
    gs_write_array(writer, "traceEvents");
    put_slices(&trace);
    gs_write_finish(writer);
    gs_stays_free(&trace.stays);
    return GS_OK;
}

const gs_format gs_format_trace = {
    .name = "trace", .help = "Chrome trace JSON, for ui.perfetto.dev", .one_run = true, .run = trace_run};
