/*
 * trace.c: Chrome trace JSON, which ui.perfetto.dev and chrome://tracing open.
 *
 * An SM is a process and a lane of it a thread, because slices on one thread must not overlap. Without times each
 * launch or exit takes one millisecond, so that the picture can be read.
 */
#include "view.h"

enum { COLUMN_NS = 1000000, LANES_PER_SM = 1000 };

struct trace {
    gs_text *text;
    const gs_run *run;
    gs_stays stays;
    bool has_events;
};

static void next_event(struct trace *trace) {
    gs_text_add(trace->text, trace->has_events ? ",\n" : "\n");
    trace->has_events = true;
}

static int thread_of(int32_t sm, int32_t lane) {
    return (sm + 1) * LANES_PER_SM + lane;
}

static void put_us(struct trace *trace, int64_t at) {
    int64_t ns = trace->stays.timed ? at : at * COLUMN_NS;
    gs_text_put_int(trace->text, ns / 1000);
    if (ns % 1000)
        gs_text_add(trace->text, ".%03d", (int)(ns % 1000));
}

static void name_sm(struct trace *trace, int32_t sm) {
    next_event(trace);
    gs_text_add(trace->text, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"SM %d\"}}",
                sm + 1, sm);
    next_event(trace);
    gs_text_add(trace->text, "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%d}}",
                sm + 1, sm);
}

static void name_lane(struct trace *trace, int32_t sm, int32_t lane) {
    next_event(trace);
    gs_text_add(trace->text,
                "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"lane %d\"}}", sm + 1,
                thread_of(sm, lane), lane);
}

static void put_slice(struct trace *trace, const gs_stay *stay) {
    const gs_launch *launch = &trace->run->launches.data[stay->launch];
    gs_text *text = trace->text;
    next_event(trace);
    gs_text_add(text, "{\"ph\":\"X\",\"name\":");
    gs_text_put_json(text, launch->kernel);
    gs_text_add(text, ",\"pid\":%d,\"tid\":%d,\"ts\":", stay->sm + 1, thread_of(stay->sm, stay->lane));
    put_us(trace, stay->from);
    gs_text_add(text, ",\"dur\":");
    put_us(trace, stay->to - stay->from);
    gs_text_add(text, ",\"args\":{\"block\":%lld,\"threads\":%d,\"registers\":%d,\"shared_bytes\":%lld}}",
                (long long)stay->block, launch->shape.threads, launch->shape.registers,
                (long long)launch->shape.shared_bytes);
}

static void put_slices(struct trace *trace) {
    int32_t lanes = 0;
    for (size_t i = 0; i < trace->stays.count; i++) {
        const gs_stay *stay = &trace->stays.data[i];
        if (!i || stay->sm != trace->stays.data[i - 1].sm) {
            name_sm(trace, stay->sm);
            lanes = 0;
        }
        for (; lanes <= stay->lane; lanes++)
            name_lane(trace, stay->sm, lanes);
        put_slice(trace, stay);
    }
}

static gs_code trace_run(gs_view *view, const gs_gpu *gpu, const gs_run *run, gs_error *error) {
    struct trace trace = {.text = &view->text, .run = run};
    gs_code code = gs_stays_of(run, false, &trace.stays, error);
    if (code != GS_OK)
        return code;
    gs_text_add(trace.text, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"gpu\":");
    gs_text_put_json(trace.text, gpu->name);
    gs_text_add(trace.text, ",\"time\":\"%s\"},\"traceEvents\":[",
                trace.stays.timed ? "as predicted or recorded" : "one millisecond a launch or exit");
    put_slices(&trace);
    gs_text_add(trace.text, "\n]}\n");
    gs_stays_free(&trace.stays);
    return GS_OK;
}

const gs_format gs_format_trace = {
    .name = "trace", .help = "Chrome trace JSON, for ui.perfetto.dev", .one_run = true, .run = trace_run};
