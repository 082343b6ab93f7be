/*
 * data.c: the formats for programs: JSON (a line for each run) and CSV (a row for each block).
 */
#include "view.h"

/* ---- JSON ---- */

static gs_code json_run(gs_view *view, const gs_gpu *gpu, const gs_run *run, gs_error *error) {
    (void)gpu;
    (void)error;
    gs_run_text(run, &view->text);
    gs_text_put(&view->text, "\n", 1);
    return GS_OK;
}

const gs_format gs_format_json = {
    .name = "json", .help = "the run with its prediction, a line for each run", .run = json_run};

/* ---- CSV ---- */

void gs_put_csv_name(gs_text *text, const char *name) {
    bool plain = true;
    for (const char *c = name; *c; c++)
        plain = plain && *c != '"' && *c != ',' && *c != '\n' && *c != '\r';
    if (plain) {
        gs_text_add(text, "%s", name);
        return;
    }
    gs_text_put(text, "\"", 1);
    for (; *name; name++)
        gs_text_put(text, *name == '"' ? "\"\"" : name, *name == '"' ? 2 : 1);
    gs_text_put(text, "\"", 1);
}

static void csv_begin(gs_view *view) {
    gs_text_add(&view->text, "run,id,event,op,kernel,block,sm,start_ns,end_ns\n");
}

static void put_time(gs_text *text, int64_t time) {
    gs_text_put(text, ",", 1);
    if (time != GS_NO_TIME)
        gs_text_put_int(text, time);
}

static void csv_event(gs_view *view, const gs_run *run, size_t number) {
    const gs_event *event = &run->events.data[number];
    const gs_launch *launch = &run->launches.data[event->launch];
    gs_text head = {0}, *text = &view->text;
    gs_text_add(&head, "%zu,", view->number);
    if (run->has_id)
        gs_text_put_int(&head, run->id);
    gs_text_add(&head, ",%zu,%s,", number + 1, gs_op_name(event->op));
    gs_put_csv_name(&head, launch->kernel);
    for (int64_t i = 0; event->seen->has_placed && i < launch->blocks && !head.failed; i++) {
        gs_text_put(text, head.data, head.count);
        gs_text_put(text, ",", 1);
        gs_text_put_int(text, i);
        gs_text_put(text, ",", 1);
        if (gs_seen_sm(event->seen, i) != GS_WAIT)
            gs_text_put_int(text, gs_seen_sm(event->seen, i));
        put_time(text, gs_seen_time(&event->seen->start_ns, i));
        put_time(text, gs_seen_time(&event->seen->end_ns, i));
        gs_text_put(text, "\n", 1);
    }
    text->failed = text->failed || head.failed;
    gs_text_free(&head);
}

static gs_code csv_run(gs_view *view, const gs_gpu *gpu, const gs_run *run, gs_error *error) {
    (void)gpu;
    (void)error;
    for (size_t i = 0; i < run->events.count; i++)
        csv_event(view, run, i);
    return GS_OK;
}

const gs_format gs_format_csv = {
    .name = "csv", .help = "a row for each block; sm is empty where it waits", .begin = csv_begin, .run = csv_run};
