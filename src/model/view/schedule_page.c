/*
 * schedule_page.c: the pages of bounds: a schedule in the viewer of runs, and a picture with its report.
 *
 * A schedule is shown as a run on a GPU whose SMs are the warps: the units are the kernels, and the instructions on a
 * unit are its blocks. An instruction takes its latency; in a gap, a warp waits for its unit.
 */
#include "html.h"

#include <stdlib.h>
#include <string.h>

static bool list_instruction(gs_seen *seen, int32_t warp, int64_t cycle, int64_t latency) {
    return GS_PUSH(&seen->placed, warp) && GS_PUSH(&seen->start_ns, cycle - 1) &&
           GS_PUSH(&seen->end_ns, cycle - 1 + latency);
}

/* The instructions of a unit as a launch. */
static gs_code add_unit(gs_run *run, const gs_schedule *schedule, const gs_flat *flat, int16_t unit, gs_error *error) {
    gs_launch launch = gs_launch_default();
    gs_seen seen = {.has_placed = true, .has_start = true, .has_end = true};
    bool done = true;
    for (int64_t warp = 0; warp < schedule->warps; warp++)
        for (int32_t i = 0; i < flat->instructions && done; i++)
            if (flat->unit[i] == unit)
                done = list_instruction(&seen, (int32_t)warp, schedule->issued[warp * schedule->instructions + i],
                                        gs_flat_latency(flat, i));
    launch.kernel = strdup(flat->program->units.data[unit].name);
    launch.blocks = (int64_t)seen.placed.count;
    gs_code code = done && launch.kernel ? gs_run_add_launch(run, &launch, error) : gs_fail_memory(error);
    gs_seen *kept =
        code == GS_OK ? gs_event_see(&run->events.data[run->launches.data[run->launches.count - 1].event]) : NULL;
    if (kept) {
        *kept = seen;
        return GS_OK;
    }
    gs_seen_clear(&seen);
    return code == GS_OK ? gs_fail_memory(error) : code;
}

static gs_run *run_of(const gs_schedule *schedule, const gs_flat *flat, gs_error *error) {
    gs_run *run = gs_run_new(error);
    gs_code code = run ? GS_OK : GS_E_MEMORY;
    for (size_t i = 0; i < flat->program->units.count && code == GS_OK; i++)
        code = add_unit(run, schedule, flat, (int16_t)i, error);
    if (code == GS_OK)
        return run;
    gs_run_free(run);
    return NULL;
}

gs_code gs_put_schedule_html(gs_text *text, const gs_schedule *schedule, const gs_flat *flat, const gs_text *report,
                             gs_error *error) {
    static char name[] = "schedule";
    gs_gpu gpu = {.name = name, .sms = (int32_t)schedule->warps, .sms_per_tpc = 1, .limits = {.blocks_per_sm = 1}};
    gs_run *run = run_of(schedule, flat, error);
    gs_scene_source source = {.gpu = &gpu, .run = run, .row_word = "warp", .time_word = "cycles"};
    gs_scene scene;
    gs_code code = run ? gs_scene_make(&scene, &source, error) : error->code;
    if (code == GS_OK) {
        char title[80];
        snprintf(title, sizeof title, "%lld warps, %lld cycles", (long long)schedule->warps,
                 (long long)schedule->cycles);
        gs_html_begin(text, "page.html");
        gs_html_add_report(text, "bounds", report, false);
        code = gs_html_add_scene(text, &scene, title, error);
        gs_html_end(text, "page.html", gs_html_scripts);
        gs_scene_clear(&scene);
    }
    gs_run_free(run);
    return code;
}

void gs_put_picture_html(gs_text *text, const char *title, const gs_text *picture, const gs_text *report) {
    static const char *const no_scripts[] = {NULL};
    gs_html_begin(text, "picture.html");
    gs_text_add(text, "<h2>");
    gs_text_put_xml(text, title);
    gs_text_add(text, "</h2>\n");
    gs_text_put(text, picture->data ? picture->data : "", picture->count);
    gs_text_add(text, "<pre>");
    gs_text_put_xml(text, report->data ? report->data : "");
    gs_text_add(text, "</pre>\n");
    gs_html_end(text, "picture.html", no_scripts);
}
