/*
 * svg.c: a run as a picture that fits a page: waits, streams, and SMs, with time or launches across.
 *
 * The picture is always as wide as a page. Identical SMs are one row; if rows would be too low, several SMs are a row,
 * and the picture says so. A row has a path for each function: as high as the share of the SM that its blocks take, in
 * columns of two pixels. So the size of the picture does not depend on the number of blocks.
 */
#include "scene.h"

#include <math.h>
#include <stdlib.h>

enum {
    WIDTH = 1060,
    HEIGHT = 745, /* at most */
    LEFT = 92,    /* for the names of rows */
    RIGHT = 14,
    PLOT = WIDTH - LEFT - RIGHT,
    COLUMN = 2, /* pixels */
    COLUMNS = PLOT / COLUMN,
    LINE = 15, /* of text */
    LEGEND_COLUMNS = 7,
    MOST_LEGEND = 3 * LEGEND_COLUMNS,
    MOST_LANES = 8, /* of waits */
    LANE = 10,
    STREAMS = 110, /* pixels for all of them, at most */
    GROUP_GAP = 3,
    UNITS = 2 /* heights of bars are multiples of a pixel's half */
};

struct picture {
    gs_text *text;
    gs_scene scene;
    gs_strip strip;
    double y, height;
    int32_t per_row; /* rows of the scene that are drawn as one */
    double row_height;
    int *tops, *heights; /* by column, of the row being drawn */
    int *left;           /* by column: functions that are not drawn yet */
};

static double x_of(const struct picture *picture, int64_t time) {
    const gs_scene *scene = &picture->scene;
    return LEFT + PLOT * ((double)time - (double)scene->from) / ((double)scene->to - (double)scene->from);
}

/* Long names are cut, but not within a UTF-8 character. */
static void put_short_name(gs_text *text, const char *name, size_t most) {
    char cut[128];
    size_t length = strlen(name);
    most = gs_min_u64(most, sizeof cut - 1);
    if (length > most)
        for (length = most; length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80;)
            length--;
    memcpy(cut, name, length);
    cut[length] = '\0';
    gs_text_put_xml(text, cut);
    if (name[length])
        gs_text_add(text, "..");
}

/* ---- the head ---- */

static void put_counts(struct picture *picture) {
    const gs_scene *scene = &picture->scene;
    gs_text *text = picture->text;
    gs_text_put_grouped(text, (int64_t)scene->run->launches.count);
    gs_text_add(text, " launch%s, ", scene->run->launches.count == 1 ? "" : "es");
    gs_text_put_grouped(text, (int64_t)scene->layers[0].stays.count);
    gs_text_add(text, " block%s started", scene->layers[0].stays.count == 1 ? "" : "s");
    if (scene->is_timed) {
        gs_text_add(text, ", ");
        gs_put_duration(text, scene->to - scene->from);
    }
    if (scene->functions.count > MOST_LEGEND)
        gs_text_add(text, "; rows show the function that takes most of the SM");
    if (scene->counts_differ)
        gs_text_add(text, "; differs from the measurement: black lines above rows");
}

static void put_title(struct picture *picture) {
    const gs_scene *scene = &picture->scene;
    gs_text *text = picture->text;
    gs_text_add(text, "<text x=\"8\" y=\"18\" font-size=\"14\">");
    gs_text_put_xml(text, scene->gpu->title ? scene->gpu->title : scene->gpu->name);
    gs_text_add(text, ", %d SM%s", scene->gpu->sms, scene->gpu->sms == 1 ? "" : "s");
    if (scene->run->has_id)
        gs_text_add(text, ", run %lld", (long long)scene->run->id);
    if (scene->run->class_name) {
        gs_text_add(text, ", ");
        put_short_name(text, scene->run->class_name, 90);
    }
    if (scene->gpu->assumed) {
        gs_text_add(text, "; ");
        gs_text_put_xml(text, scene->gpu->assumed);
    }
    gs_text_add(text, "</text>\n<text x=\"8\" y=\"34\" fill=\"#555\">");
    put_counts(picture);
    gs_text_add(text, "</text>\n");
    picture->y = 42;
}

/* How many launches and blocks of a function there are, and how many blocks never start. */
static void put_function_title(gs_text *text, const gs_scene *scene, uint32_t function) {
    int64_t launches = 0, blocks = 0, started = 0;
    for (size_t i = 0; i < scene->run->launches.count; i++)
        if (scene->operations.data[i].function == function) {
            launches++;
            blocks += scene->run->launches.data[i].blocks;
            started += scene->operations.data[i].started;
        }
    gs_text_add(text, "<title>");
    put_short_name(text, scene->functions.data[function].name, 100);
    gs_text_add(text, ": %lld launch%s, %lld block%s", (long long)launches, launches == 1 ? "" : "es",
                (long long)blocks, blocks == 1 ? "" : "s");
    if (started < blocks && scene->layers[0].stays.count)
        gs_text_add(text, ", %lld never start", (long long)(blocks - started));
    gs_text_add(text, "</title>");
}

static void put_legend(struct picture *picture) {
    const gs_scene *scene = &picture->scene;
    gs_text *text = picture->text;
    size_t shown = gs_min_u64(scene->functions.count, MOST_LEGEND);
    for (size_t i = 0; i < shown; i++) {
        uint32_t function = scene->functions.data[i].at_rank;
        double x = 8 + (double)(WIDTH - 16) / LEGEND_COLUMNS * (double)(i % LEGEND_COLUMNS);
        double y = picture->y + LINE * (double)(i / LEGEND_COLUMNS);
        gs_text_add(text, "<g>");
        put_function_title(text, scene, function);
        gs_text_add(text,
                    "<rect x=\"%.0f\" y=\"%.0f\" width=\"10\" height=\"10\" fill=\"#%06x\"/><text x=\"%.0f\" "
                    "y=\"%.0f\">",
                    x, y, (unsigned)scene->functions.data[function].color, x + 14, y + 9);
        put_short_name(text, scene->functions.data[function].name, 19);
        gs_text_add(text, "</text></g>\n");
    }
    picture->y += LINE * (double)((shown + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS);
    if (shown < scene->functions.count) {
        gs_text_add(text, "<text x=\"8\" y=\"%.0f\" fill=\"#555\">and %zu more functions</text>\n", picture->y + 9,
                    scene->functions.count - shown);
        picture->y += LINE;
    }
}

/* ---- the axis ---- */

static void put_grid_line(struct picture *picture, double x) {
    gs_text_add(picture->text, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#ddd\"/>", x, picture->y + LINE - 2,
                picture->height - 4);
}

/* About ten steps of 1, 2 or 5 times a power of ten. */
static void put_time_axis(struct picture *picture) {
    const gs_scene *scene = &picture->scene;
    double span_ns = (double)scene->to - (double)scene->from;
    double unit = span_ns >= 5e9 ? 1e9 : span_ns >= 5e6 ? 1e6 : 1e3;
    const char *name = span_ns >= 5e9 ? "s" : span_ns >= 5e6 ? "ms" : "us";
    double from = (double)scene->from / unit, to = (double)scene->to / unit, span = to - from;
    double step = pow(10.0, floor(log10(span / 5.0)));
    while (span / step > 10)
        step *= span / step > 25 ? 5 : 2;
    for (double at = ceil(from / step - 1e-9) * step; at <= to + step / 1e4; at += step) {
        double x = LEFT + PLOT * (at - from) / span;
        put_grid_line(picture, x);
        gs_text_add(picture->text, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#555\">%g %s</text>\n", x,
                    picture->y + 10, fabs(at) < step / 1e4 ? 0 : at, name);
    }
}

/* A column for each launch (+) and exit (-). Narrow columns are not all labeled. */
static void put_event_axis(struct picture *picture) {
    const gs_run *run = picture->scene.run;
    double width = x_of(picture, 1) - x_of(picture, 0);
    size_t every = width >= 40 ? 1 : (size_t)ceil(40.0 / width), letters = (size_t)(width * (double)every / 6.5);
    int64_t column = 0;
    for (size_t i = 0; i < run->events.count; i++) {
        const gs_event *event = &run->events.data[i];
        if (event->op == GS_OBSERVE)
            continue;
        if ((size_t)column % every == 0) {
            put_grid_line(picture, x_of(picture, column));
            gs_text_add(picture->text, "<text x=\"%.1f\" y=\"%.1f\" fill=\"#555\">%s ", x_of(picture, column) + 2,
                        picture->y + 10, event->op == GS_LAUNCH ? "+" : "\xe2\x88\x92");
            put_short_name(picture->text, run->launches.data[event->launch].kernel, letters > 4 ? letters - 4 : 1);
            gs_text_add(picture->text, "</text>\n");
        }
        column++;
    }
}

static void put_label(struct picture *picture, double y, double height, const char *label, bool is_strong) {
    gs_text_add(picture->text, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\"%s>", LEFT - 5, y + height / 2 + 3.5,
                is_strong ? "" : " fill=\"#555\"");
    put_short_name(picture->text, label, 14);
    gs_text_add(picture->text, "</text>\n");
}

/* ---- waits ---- */

/* Each wait gets the lowest lane that is free; those without one are counted. */
static size_t lay_waits(const gs_scene *scene, int *lanes, int *lane_count) {
    int64_t ends[MOST_LANES];
    size_t left_out = 0;
    *lane_count = 0;
    for (size_t i = 0; i < scene->waits.count; i++) {
        int lane = 0;
        while (lane < *lane_count && ends[lane] > scene->waits.data[i].from)
            lane++;
        lanes[i] = lane < MOST_LANES ? lane : -1;
        left_out += lane >= MOST_LANES;
        if (lane >= MOST_LANES)
            continue;
        if (lane == *lane_count)
            ++*lane_count;
        ends[lane] = scene->waits.data[i].to;
    }
    return left_out;
}

static uint32_t color_of(const gs_scene *scene, size_t operation) {
    uint32_t function = scene->operations.data[operation].function;
    return function == GS_NO_NUMBER ? 0x888888 : scene->functions.data[function].color;
}

static void put_wait(struct picture *picture, const gs_scene_wait *wait, double y) {
    const gs_scene *scene = &picture->scene;
    gs_text *text = picture->text;
    double x = x_of(picture, wait->from), width = fmax(x_of(picture, wait->to) - x, 0.5);
    const char *name = gs_operation_name(scene->run, wait->operation);
    gs_text_add(text,
                "<g><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"#%06x\" fill-opacity=\".3\" "
                "stroke=\"#%06x\" stroke-dasharray=\"3 2\"/><title>",
                x, y + 1, width, LANE - 2, (unsigned)color_of(scene, wait->operation),
                (unsigned)color_of(scene, wait->operation));
    gs_text words = {0};
    gs_text_add(&words, "%.100s waits ", name);
    gs_put_wait(&words, (gs_reason)wait->reason, (gs_lack)wait->lack,
                wait->behind == GS_NO_NUMBER ? NULL : gs_operation_name(scene->run, wait->behind));
    gs_text_put_xml(text, words.data ? words.data : "");
    gs_text_add(text, "</title>");
    if (width > 60) {
        gs_text_add(text, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"8.5\">", x + 3, y + LANE - 2);
        put_short_name(text, words.data ? words.data : "", (size_t)(width / 5));
        gs_text_add(text, "</text>");
    }
    gs_text_add(text, "</g>\n");
    text->failed = text->failed || words.failed;
    gs_text_free(&words);
}

static gs_code put_waits(struct picture *picture, gs_error *error) {
    const gs_scene *scene = &picture->scene;
    if (!scene->waits.count)
        return GS_OK;
    int *lanes = calloc(scene->waits.count, sizeof *lanes), count;
    if (!lanes)
        return gs_fail_memory(error);
    size_t left_out = lay_waits(scene, lanes, &count);
    double drawn[MOST_LANES] = {0};
    put_label(picture, picture->y, LANE, "waiting", true);
    for (size_t i = 0; i < scene->waits.count; i++) {
        double end = lanes[i] < 0 ? 0 : x_of(picture, scene->waits.data[i].to);
        if (lanes[i] < 0 || end < drawn[lanes[i]] + 0.4) /* too narrow to be visible */
            continue;
        drawn[lanes[i]] = end;
        put_wait(picture, &scene->waits.data[i], picture->y + LANE * lanes[i]);
    }
    picture->y += LANE * count + 2;
    if (left_out) {
        gs_text_add(picture->text,
                    "<text x=\"%d\" y=\"%.1f\" fill=\"#555\" font-size=\"9\">and %zu more wait%s</text>\n", LEFT,
                    picture->y + 8, left_out, left_out == 1 ? "" : "s");
        picture->y += 12;
    }
    free(lanes);
    return GS_OK;
}

/* ---- streams ---- */

static void put_operation(struct picture *picture, size_t number, double y, double height) {
    const gs_scene *scene = &picture->scene;
    const gs_scene_operation *operation = &scene->operations.data[number];
    double x = x_of(picture, operation->start);
    double width = x_of(picture, operation->end == GS_NO_TIME ? scene->to : operation->end) - x;
    uint32_t color = color_of(scene, number);
    bool is_dark = (color >> 16) * 30 + (color >> 8 & 255) * 59 + (color & 255) * 11 < 14000;
    gs_text_add(picture->text, "<g><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#%06x\"/><title>",
                x, y, fmax(width - 0.4, 0.4), height, (unsigned)color);
    put_short_name(picture->text, gs_operation_name(scene->run, number), 100);
    if (scene->is_timed)
        gs_text_add(picture->text, ", %.3f to %.3f us", (double)operation->start / 1000, (double)operation->end / 1000);
    gs_text_add(picture->text, "</title>");
    if (width > 18 && height >= 8) {
        gs_text_add(picture->text, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"8.5\" fill=\"%s\">", x + 2,
                    y + height / 2 + 3, is_dark ? "#fff" : "#000");
        put_short_name(picture->text, gs_operation_name(scene->run, number), (size_t)(width / 5.2));
        gs_text_add(picture->text, "</text>");
    }
    gs_text_add(picture->text, "</g>\n");
}

static gs_code put_streams(struct picture *picture, gs_error *error) {
    const gs_scene *scene = &picture->scene;
    size_t rows = scene->streams.count;
    double height = fmin(12, (double)STREAMS / fmax((double)rows, 1)), *drawn = calloc(rows + 1, sizeof *drawn);
    if (!drawn)
        return gs_fail_memory(error);
    for (size_t i = 0; i < rows && height >= 9; i++)
        put_label(picture, picture->y + height * (double)i, height,
                  scene->streams.data[i].data ? scene->streams.data[i].data : "", false);
    if (height < 9)
        put_label(picture, picture->y, LINE, "streams", false);
    for (size_t i = 0; i < scene->operations.count; i++) {
        const gs_scene_operation *operation = &scene->operations.data[i];
        double end = operation->start == GS_NO_TIME ? 0 : x_of(picture, gs_max(operation->end, operation->start));
        if (operation->start == GS_NO_TIME || (operation->end != GS_NO_TIME && end < drawn[operation->stream] + 0.3))
            continue;
        drawn[operation->stream] = end;
        put_operation(picture, i, picture->y + height * operation->stream + 0.5, height - 1);
    }
    picture->y += height * (double)rows + 6;
    free(drawn);
    return GS_OK;
}

/* ---- SMs ---- */

/* Rows get the rest of the page, within limits. */
static void lay_rows(struct picture *picture) {
    const gs_scene *scene = &picture->scene;
    double left = HEIGHT - 10 - picture->y - GROUP_GAP * (double)scene->groups.count;
    picture->per_row = 1;
    while ((double)scene->rows.count / picture->per_row * 2.5 > left)
        picture->per_row++;
    picture->row_height = floor(fmin(left / ceil((double)scene->rows.count / picture->per_row), 18) * UNITS) / UNITS;
}

/* How high a function stands in each column, above those before it. Each of those after it can still be seen. */
static void stack_function(struct picture *picture, uint32_t function, double *sums) {
    const double *shares = picture->strip.shares + function * (picture->strip.columns + 2);
    int most = (int)(picture->row_height * UNITS) - 1;
    for (int x = 0; x < COLUMNS; x++) {
        picture->heights[x] = 0;
        if (shares[x] <= 0)
            continue;
        sums[x] = fmin(sums[x] + shares[x], 1);
        int top = (int)gs_max(lround(sums[x] * most), picture->tops[x] + 1), highest = most - --picture->left[x];
        picture->heights[x] = (int)gs_max(gs_min(top, highest) - picture->tops[x], 0);
    }
}

/* A path of one function in one row: a rectangle for each run of equal columns. `label`: of its title; NULL: none. */
static void put_path(struct picture *picture, uint32_t function, const char *label) {
    gs_text *text = picture->text;
    bool is_begun = false;
    for (int x = 0, end; x < COLUMNS; x = end) {
        for (end = x + 1;
             end < COLUMNS && picture->heights[end] == picture->heights[x] && picture->tops[end] == picture->tops[x];)
            end++;
        if (!picture->heights[x])
            continue;
        if (!is_begun)
            gs_text_add(text, "<path fill=\"#%06x\" d=\"", (unsigned)picture->scene.functions.data[function].color);
        is_begun = true;
        gs_text_add(text, "M%d %dh%dv%dh%dz", x, -picture->tops[x], end - x, -picture->heights[x], x - end);
    }
    if (!is_begun)
        return;
    if (label) {
        gs_text_add(text, "\"><title>");
        put_short_name(text, picture->scene.functions.data[function].name, 100);
        gs_text_add(text, " on %s</title></path>\n", label);
    } else {
        gs_text_add(text, "\"/>\n");
    }
    for (int x = 0; x < COLUMNS; x++)
        picture->tops[x] += picture->heights[x];
}

static void put_differences(struct picture *picture) {
    int top = (int)(picture->row_height * UNITS);
    for (int x = 0, end; x < COLUMNS; x = end) {
        for (end = x + 1; end < COLUMNS && picture->strip.differs[end] == picture->strip.differs[x];)
            end++;
        if (picture->strip.differs[x])
            gs_text_add(picture->text, "<path d=\"M%d %dh%dv-2h%dz\"/>\n", x, 2 - top, end - x, x - end);
    }
}

static void put_sms(gs_text *text, const int32_t *sms, size_t count) {
    gs_text_add(text, "SM ");
    gs_text_put_numbers(text, sms, count, 6);
}

static void count_functions(struct picture *picture) {
    const gs_strip *strip = &picture->strip;
    memset(picture->left, 0, COLUMNS * sizeof *picture->left);
    for (size_t i = 0; i < strip->function_count; i++)
        for (size_t x = 0; x < COLUMNS; x++)
            picture->left[x] += strip->shares[strip->functions[i] * (strip->columns + 2) + x] > 0;
}

/* With many functions a column shows only the one that takes most, as high as all of them together. */
static void keep_largest(gs_strip *strip) {
    for (size_t x = 0; x < strip->columns; x++) {
        double sum = 0, *largest = NULL;
        for (size_t i = 0; i < strip->function_count; i++) {
            double *share = &strip->shares[strip->functions[i] * (strip->columns + 2) + x];
            sum += *share;
            if (!largest || *share > *largest)
                largest = share;
        }
        for (size_t i = 0; i < strip->function_count; i++)
            strip->shares[strip->functions[i] * (strip->columns + 2) + x] = 0;
        if (largest)
            *largest = sum;
    }
}

/* Draws the rows of the scene from `first` to before `last` as one. Of identical SMs, one is enough. */
static void put_row(struct picture *picture, size_t first, size_t last) {
    const gs_scene *scene = &picture->scene;
    const gs_scene_row *from = &scene->rows.data[first], *to = &scene->rows.data[last - 1];
    const int32_t *sms = scene->row_sms + from->first;
    int32_t count = to->first + to->count - from->first;
    double sums[COLUMNS] = {0};
    gs_text label = {0};
    put_sms(&label, sms, (size_t)count);
    gs_strip_fill(&picture->strip, scene, sms, last - first == 1 ? 1 : count);
    memset(picture->tops, 0, COLUMNS * sizeof *picture->tops);
    if (scene->functions.count > MOST_LEGEND)
        keep_largest(&picture->strip);
    count_functions(picture);
    gs_text_add(picture->text,
                "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" fill=\"#f4f4f6\"/><g "
                "transform=\"translate(%d %.1f) scale(%d %.1f)\">\n",
                LEFT, picture->y, PLOT, picture->row_height - 0.5, LEFT, picture->y + picture->row_height - 0.5, COLUMN,
                1.0 / UNITS);
    for (size_t i = 0; i < picture->strip.function_count; i++) {
        stack_function(picture, picture->strip.functions[i], sums);
        put_path(picture, picture->strip.functions[i], scene->functions.count > MOST_LEGEND ? NULL : label.data);
    }
    put_differences(picture);
    gs_text_add(picture->text, "</g>\n");
    if (picture->row_height >= 9)
        put_label(picture, picture->y, picture->row_height, label.data ? label.data : "", false);
    picture->text->failed = picture->text->failed || label.failed;
    gs_text_free(&label);
    picture->y += picture->row_height;
}

static void put_rows(struct picture *picture) {
    const gs_scene *scene = &picture->scene;
    size_t rows = scene->rows.count;
    for (size_t first = 0, last; first < rows; first = last) {
        int32_t group = scene->rows.data[first].group;
        if (!first || group != scene->rows.data[first - 1].group) {
            picture->y += GROUP_GAP;
            if (picture->row_height < 9)
                put_label(picture, picture->y, 9, scene->groups.data[group].name, true);
        }
        for (last = first + 1;
             last < rows && last < first + (size_t)picture->per_row && scene->rows.data[last].group == group;)
            last++;
        put_row(picture, first, last);
    }
}

/* ---- all ---- */

/* Draws everything except the axis, which is behind the rest and as high. */
static gs_code draw_body(struct picture *picture, double *axis, gs_error *error) {
    put_title(picture);
    put_legend(picture);
    *axis = picture->y;
    picture->y += LINE;
    gs_code code = put_waits(picture, error);
    if (code == GS_OK)
        code = put_streams(picture, error);
    if (code != GS_OK)
        return code;
    lay_rows(picture);
    if (picture->scene.layers[0].stays.count)
        put_rows(picture);
    if (picture->per_row > 1) {
        gs_text_add(
            picture->text,
            "<text x=\"%d\" y=\"%.1f\" font-size=\"9\" fill=\"#555\">each row is the mean of up to %d rows of SMs "
            "that differ</text>\n",
            LEFT, picture->y + 9, picture->per_row);
        picture->y += 10;
    }
    return GS_OK;
}

void gs_put_svg_begin(gs_text *text, double width, double height, double font_size) {
    gs_text_add(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
        "font-family=\"sans-serif\" font-size=\"%g\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
        width, height, width, height, font_size);
}

static gs_code draw_picture(struct picture *picture, gs_text *text, gs_error *error) {
    gs_text body = {0};
    double axis;
    picture->text = &body;
    gs_code code = draw_body(picture, &axis, error);
    picture->text = text;
    picture->height = picture->y + 8;
    picture->y = axis;
    if (code == GS_OK) {
        gs_put_svg_begin(text, WIDTH, picture->height, 10.5);
        (picture->scene.is_timed ? put_time_axis : put_event_axis)(picture);
        gs_text_put(text, body.data, body.count);
        gs_text_add(text, "</svg>\n");
    }
    text->failed = text->failed || body.failed;
    gs_text_free(&body);
    return code;
}

static gs_code svg_run(gs_view *view, const gs_gpu *gpu, const gs_run *run, gs_error *error) {
    struct picture picture = {0};
    gs_scene_source source = {.gpu = gpu, .run = run, .measured = view->measured, .played = view->played};
    gs_code code = gs_scene_make(&picture.scene, &source, error);
    if (code != GS_OK)
        return code;
    picture.tops = calloc(COLUMNS, sizeof *picture.tops);
    picture.heights = calloc(COLUMNS, sizeof *picture.heights);
    picture.left = calloc(COLUMNS, sizeof *picture.left);
    code = picture.tops && picture.heights && picture.left
               ? gs_strip_new(&picture.strip, &picture.scene, COLUMNS, error)
               : gs_fail_memory(error);
    if (code == GS_OK)
        code = draw_picture(&picture, &view->text, error);
    gs_strip_clear(&picture.strip);
    gs_scene_clear(&picture.scene);
    free(picture.tops);
    free(picture.heights);
    free(picture.left);
    return code;
}

const gs_format gs_format_svg = {.name = "svg",
                                 .help = "a picture: SMs down, time or launches across",
                                 .one_run = true,
                                 .wants_played = true,
                                 .run = svg_run};
