/*
 * svg.c: a run as a picture: SMs down, time or launches across, a color for each kernel.
 *
 * Each SM is a row. Each bar is a group of blocks of one kernel that start and end together. Their number is in the
 * tooltip, and in the bar if it is large enough. Rows are as high as the busiest SM needs. The legend names the
 * kernels, how many blocks they have and how many of them never start.
 */
#include "view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEFT = 56, /* margin for the names of SMs */
    RIGHT = 16,
    LINE = 18, /* a line of text */
    LEGEND_COLUMN = 230,
    MOST_BARS = 400000 /* viewers do not open more */
};

struct picture {
    gs_text *text;
    const gs_gpu *gpu;
    const gs_run *run;
    gs_stays stays;
    int64_t *started; /* blocks, by launch */
    int legend_rows, legend_columns;
    double top, plot_width, row_height, lane_height;
};

static gs_code count_started(struct picture *picture, gs_error *error) {
    const gs_run *run = picture->run;
    picture->started = calloc(run->launches.count + 1, sizeof *picture->started);
    if (!picture->started)
        return gs_fail_memory(error);
    for (size_t i = 0; i < run->events.count; i++) {
        int64_t started = gs_seen_started(run->events.data[i].seen),
                *most = &picture->started[run->events.data[i].launch];
        *most = gs_max(*most, started);
    }
    return GS_OK;
}

/* ---- layout ---- */

static int64_t columns_of(const struct picture *picture) {
    return gs_max(picture->stays.horizon, 1);
}

static void lay_out(struct picture *picture) {
    int lanes = (int)gs_max(picture->stays.lanes, 1);
    picture->lane_height = lanes <= 1 ? 10 : lanes <= 2 ? 8 : lanes <= 4 ? 6 : lanes <= 12 ? 4 : 2;
    picture->row_height = picture->lane_height * lanes + 2;
    picture->plot_width = 1000;
    if (!picture->stays.timed)
        picture->plot_width = fmin(fmax(72.0 * (double)columns_of(picture), 420), 2400);
    picture->legend_columns = (int)gs_max((int64_t)((picture->plot_width + LEFT) / LEGEND_COLUMN), 1);
    size_t kernels = picture->run->launches.count;
    picture->legend_rows = (int)((kernels + (size_t)picture->legend_columns - 1) / (size_t)picture->legend_columns);
    picture->top = LINE * (3.2 + picture->legend_rows) + (picture->stays.timed ? 0 : LINE);
}

static double x_of(const struct picture *picture, int64_t at) {
    return LEFT + picture->plot_width * (double)at / (double)columns_of(picture);
}

static double y_of(const struct picture *picture, int32_t sm) {
    return picture->top + picture->row_height * sm;
}

/* ---- parts ---- */

static void put_head(struct picture *picture) {
    double width = LEFT + picture->plot_width + RIGHT;
    double height = picture->top + picture->row_height * picture->gpu->sms + LINE;
    gs_text *text = picture->text;
    gs_text_add(text,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
                "font-family=\"sans-serif\" font-size=\"11\">\n",
                width, height, width, height);
    gs_text_add(
        text, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"8\" y=\"%d\" font-size=\"14\">", LINE);
    gs_text_put_xml(text, picture->gpu->title ? picture->gpu->title : picture->gpu->name);
    gs_text_add(text, ", %d SMs", picture->gpu->sms);
    if (picture->run->has_id)
        gs_text_add(text, ", run %lld", (long long)picture->run->id);
    if (picture->run->class_name) {
        gs_text_add(text, ", ");
        gs_text_put_xml(text, picture->run->class_name);
    }
    gs_text_add(text, "</text>\n");
}

/* Long names are cut, but not within a UTF-8 character. */
static void put_short_name(gs_text *text, const char *name, size_t most) {
    char cut[64];
    size_t length = strlen(name);
    if (length > most)
        for (length = most; length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80;)
            length--;
    memcpy(cut, name, length);
    cut[length] = '\0';
    gs_text_put_xml(text, cut);
    if (name[length])
        gs_text_add(text, "..");
}

static void put_legend(struct picture *picture) {
    gs_text *text = picture->text;
    for (size_t i = 0; i < picture->run->launches.count; i++) {
        const gs_launch *launch = &picture->run->launches.data[i];
        double x = 8 + LEGEND_COLUMN * (double)(i % (size_t)picture->legend_columns);
        double y = LINE * (1.6 + (double)(i / (size_t)picture->legend_columns));
        gs_text_add(text, "<rect x=\"%.0f\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"", x, y);
        gs_put_color(text, i);
        gs_text_add(text, "\"/><text x=\"%.0f\" y=\"%.1f\">", x + 15, y + 9);
        put_short_name(text, launch->kernel, 16);
        gs_text_add(text, ": %lld block%s", (long long)launch->blocks, launch->blocks == 1 ? "" : "s");
        if (picture->started[i] < launch->blocks)
            gs_text_add(text, ", %lld wait", (long long)(launch->blocks - picture->started[i]));
        gs_text_add(text, "</text>\n");
    }
}

static void put_grid_line(struct picture *picture, double x) {
    gs_text_add(picture->text, "<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", x, x,
                picture->top - 4, y_of(picture, picture->gpu->sms));
}

/* About ten steps of 1, 2 or 5 times a power of ten. */
static void put_time_axis(struct picture *picture) {
    double horizon = (double)columns_of(picture) / 1000.0, step = pow(10.0, floor(log10(horizon / 5.0)));
    while (horizon / step > 10)
        step *= horizon / step > 25 ? 5 : 2;
    for (double at = 0; at <= horizon * 1.0001; at += step) {
        double x = LEFT + picture->plot_width * at / horizon;
        put_grid_line(picture, x);
        gs_text_add(picture->text, "<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#555\">%g%s</text>\n", x,
                    picture->top - 8, at, at == 0 ? " us" : "");
    }
}

/* A column for each launch (+) and exit (-). Narrow columns are not all labeled. */
static void put_event_axis(struct picture *picture) {
    double width = picture->plot_width / (double)columns_of(picture);
    size_t every = width >= 40 ? 1 : (size_t)ceil(40.0 / width), column = 0;
    for (size_t i = 0; i < picture->run->events.count; i++) {
        const gs_event *event = &picture->run->events.data[i];
        if (event->op == GS_OBSERVE)
            continue;
        if (column % every == 0) {
            put_grid_line(picture, x_of(picture, (int64_t)column));
            gs_text_add(picture->text, "<text x=\"%.2f\" y=\"%.1f\" fill=\"#555\">%s ",
                        x_of(picture, (int64_t)column) + 2, picture->top - 8,
                        event->op == GS_LAUNCH ? "+" : "\xe2\x88\x92");
            put_short_name(picture->text, picture->run->launches.data[event->launch].kernel,
                           width * (double)every < 72 ? 5 : 9);
            gs_text_add(picture->text, "</text>\n");
        }
        column++;
    }
}

static void put_rows(struct picture *picture) {
    int every = (int)ceil(10.0 / picture->row_height);
    for (int32_t sm = 0; sm < picture->gpu->sms; sm++) {
        double y = y_of(picture, sm);
        if (sm % 2 == 0)
            gs_text_add(picture->text, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#f6f6f8\"/>\n",
                        LEFT, y, picture->plot_width, picture->row_height);
        if (sm % every == 0)
            gs_text_add(picture->text,
                        "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" font-size=\"9\" fill=\"#555\">SM %d</text>\n",
                        LEFT - 5, y + picture->row_height / 2 + 3, sm);
    }
}

static void put_span(struct picture *picture, const gs_stay *stay) {
    if (picture->stays.timed)
        gs_text_add(picture->text, ", %.3f to %.3f us", (double)stay->from / 1000, (double)stay->to / 1000);
}

static void put_bar(struct picture *picture, const gs_stay *stay) {
    double x = x_of(picture, stay->from), width = x_of(picture, stay->to) - x;
    double y = y_of(picture, stay->sm) + 1 + picture->lane_height * stay->lane;
    double gap = picture->lane_height > 3 ? 1 : 0.3;
    gs_text *text = picture->text;
    gs_text_add(text, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"", x + 0.5, y,
                width > 1.5 ? width - 1 : 0.5, picture->lane_height - gap);
    gs_put_color(text, stay->launch);
    gs_text_add(text, "\"><title>");
    gs_text_put_xml(text, picture->run->launches.data[stay->launch].kernel);
    gs_text_add(text, " on SM %d: %d block%s from block %lld", stay->sm, stay->count, stay->count == 1 ? "" : "s",
                (long long)stay->block);
    put_span(picture, stay);
    gs_text_add(text, "</title></rect>\n");
    if (stay->count > 1 && picture->lane_height >= 8 && width > 16)
        gs_text_add(text, "<text x=\"%.2f\" y=\"%.1f\" font-size=\"%.1f\" fill=\"#fff\">%d</text>\n", x + 3,
                    y + picture->lane_height - 1.7, picture->lane_height - 0.5, stay->count);
}

static gs_code svg_run(gs_view *view, const gs_gpu *gpu, const gs_run *run, gs_error *error) {
    struct picture picture = {.text = &view->text, .gpu = gpu, .run = run};
    gs_code code = gs_stays_of(run, true, &picture.stays, error);
    if (code == GS_OK && picture.stays.count > MOST_BARS)
        code = gs_fail(error, GS_E_USAGE, "%zu bars are too many for a picture (at most %d); try --trace or --csv",
                       picture.stays.count, MOST_BARS);
    if (code == GS_OK)
        code = count_started(&picture, error);
    if (code == GS_OK) {
        lay_out(&picture);
        put_head(&picture);
        put_legend(&picture);
        put_rows(&picture);
        (picture.stays.timed ? put_time_axis : put_event_axis)(&picture);
        for (size_t i = 0; i < picture.stays.count; i++)
            if (picture.stays.data[i].sm < gpu->sms)
                put_bar(&picture, &picture.stays.data[i]);
        gs_text_add(picture.text, "</svg>\n");
    }
    gs_stays_free(&picture.stays);
    free(picture.started);
    return code;
}

const gs_format gs_format_svg = {
    .name = "svg", .help = "a picture: SMs down, time or launches across", .one_run = true, .run = svg_run};
