/*
 * gpu_view.c: what is known of a GPU, drawn: its GPCs, TPCs and SMs, the partitions of an SM, and which SM gets which
 * block of the first launch.
 *
 * A description may have the SMs of each GPC (gpc_sms), or groups of SMs that are granted one after the other (grants),
 * which are GPCs or halves of them. Otherwise all SMs are one group. The order of blocks is that of the engine: a
 * launch of one block per SM on an empty GPU.
 */
#include "view.h"

#include <stdlib.h>

/* ---- what is drawn ---- */

struct layout {
    const gs_gpu *gpu;
    const char *what;         /* a group is called */
    const gs_sm_groups *list; /* NULL: one group of all SMs */
    int32_t *order;           /* by block: its SM */
    int32_t *turn;            /* by SM: its block, or -1 */
    int32_t ordered;          /* how many blocks have an SM */
};

static int32_t group_count(const struct layout *layout) {
    return layout->list ? layout->list->count : 1;
}

static int32_t group_begin(const struct layout *layout, int32_t group) {
    return layout->list && group ? layout->list->ends[group - 1] : 0;
}

static int32_t group_end(const struct layout *layout, int32_t group) {
    return layout->list ? layout->list->ends[group] : layout->gpu->sms;
}

static int32_t group_sm(const struct layout *layout, int32_t at) {
    return layout->list ? layout->list->sms[at] : at;
}

/* Launches a block for each SM. */
static gs_code find_order(struct layout *layout, gs_error *error) {
    const gs_gpu *gpu = layout->gpu;
    gs_dispatcher *dispatcher = gs_dispatcher_new(gpu, error);
    gs_launch_spec spec = {.kernel = "k",
                           .blocks = gpu->sms,
                           .shape = gs_shape_of(gpu->limits.threads_per_block, gpu->limits.registers_per_sm / 4096, 0)};
    int launch = dispatcher ? gs_dispatcher_launch(dispatcher, &spec, error) : -1, sm;
    while (launch >= 0 && layout->ordered < gpu->sms && (sm = gs_dispatcher_next(dispatcher, launch)) != GS_WAIT) {
        gs_dispatcher_place(dispatcher, launch, sm);
        if (layout->turn[sm] < 0)
            layout->turn[sm] = layout->ordered;
        layout->order[layout->ordered++] = sm;
    }
    gs_dispatcher_free(dispatcher);
    return launch < 0 ? error->code : GS_OK;
}

static gs_code make_layout(struct layout *layout, const gs_gpu *gpu, gs_error *error) {
    *layout = (struct layout){.gpu = gpu, .what = "GPC"};
    if (gpu->gpc_sms.count) {
        layout->list = &gpu->gpc_sms;
    } else if (gpu->grants.groups.count) {
        layout->list = &gpu->grants.groups;
        layout->what = "group";
    }
    layout->order = calloc((size_t)gpu->sms, sizeof *layout->order);
    layout->turn = malloc((size_t)gpu->sms * sizeof *layout->turn);
    if (!layout->order || !layout->turn)
        return gs_fail_memory(error);
    for (int32_t sm = 0; sm < gpu->sms; sm++)
        layout->turn[sm] = -1;
    return find_order(layout, error);
}

static void clear_layout(struct layout *layout) {
    free(layout->order);
    free(layout->turn);
}

/* Whether two SMs that stand side by side are of one TPC. */
static bool is_same_tpc(const gs_gpu *gpu, int32_t one, int32_t other) {
    return one / gpu->sms_per_tpc == other / gpu->sms_per_tpc;
}

/* ---- as text ---- */

static void put_group(gs_text *text, const struct layout *layout, int32_t group) {
    int32_t begin = group_begin(layout, group), end = group_end(layout, group);
    gs_text_add(text, "  %-5s %2d, %3d SMs        ", layout->what, group, end - begin);
    for (int32_t at = begin; at < end; at++) {
        int32_t sm = group_sm(layout, at);
        bool goes_on = at > begin && is_same_tpc(layout->gpu, group_sm(layout, at - 1), sm);
        gs_text_add(text, "%s%d", goes_on ? "+" : at > begin ? " " : "", sm);
    }
    gs_text_put(text, "\n", 1);
}

gs_code gs_put_gpu_layout(gs_text *text, const gs_gpu *gpu, gs_error *error) {
    enum { MOST_PARTS = 16 };
    struct layout layout;
    gs_code code = make_layout(&layout, gpu, error);
    if (code == GS_OK && layout.list)
        for (int32_t group = 0; group < group_count(&layout); group++)
            put_group(text, &layout, group);
    if (code == GS_OK) {
        gs_text_add(text, "  blocks 0, 1, ... go to  SM ");
        gs_text_put_numbers(text, layout.order, (size_t)layout.ordered, MOST_PARTS);
        gs_text_put(text, "\n", 1);
    }
    clear_layout(&layout);
    return code;
}

/* ---- as a picture ---- */

enum { WIDTH = 1060, SIDE = 12, SM_WIDTH = 46, SM_HEIGHT = 34, GAP = 8, TITLE = 20, HEAD = 44, ZOOM = 150 };

/* Where things go, as they are drawn from left to right and from top to bottom. */
struct pen {
    gs_text *text;
    double x, y;
};

static void put_box(gs_text *text, double x, double y, double width, double height, const char *fill) {
    gs_text_add(
        text, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"3\" fill=\"%s\" stroke=\"#8b8b97\"/>\n",
        x, y, width, height, fill);
}

/* Early blocks are dark. */
static void put_sm(const struct layout *layout, const struct pen *pen, int32_t sm) {
    char fill[40];
    int32_t turn = layout->turn[sm];
    int light = turn < 0 ? 100 : 72 + 24 * turn / (int)gs_max(layout->ordered, 1);
    snprintf(fill, sizeof fill, "hsl(206,60%%,%d%%)", light);
    put_box(pen->text, pen->x, pen->y, SM_WIDTH, SM_HEIGHT, fill);
    gs_text_add(pen->text, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-weight=\"600\">%d</text>",
                pen->x + SM_WIDTH / 2.0, pen->y + 14, sm);
    if (turn >= 0)
        gs_text_add(
            pen->text,
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"9\" fill=\"#333\">block %d</text>\n",
            pen->x + SM_WIDTH / 2.0, pen->y + 27, turn);
}

/* How many SMs from `at` on are of one TPC. */
static int32_t tpc_length(const struct layout *layout, int32_t at, int32_t end) {
    int32_t length = 1;
    while (at + length < end && is_same_tpc(layout->gpu, group_sm(layout, at), group_sm(layout, at + length)))
        length++;
    return length;
}

/* Draws the TPCs of a group, or without a text only moves the pen. */
static void put_tpcs(const struct layout *layout, struct pen *pen, int32_t group) {
    int32_t end = group_end(layout, group);
    pen->x = SIDE + GAP;
    for (int32_t at = group_begin(layout, group), length; at < end; at += length) {
        length = tpc_length(layout, at, end);
        double width = length * (SM_WIDTH + 2.0) + 4;
        if (pen->x + width > WIDTH - SIDE - GAP) {
            pen->x = SIDE + GAP;
            pen->y += SM_HEIGHT + GAP + 6;
        }
        if (pen->text)
            put_box(pen->text, pen->x, pen->y, width, SM_HEIGHT + 6, "#ffffff");
        for (int32_t i = 0; i < length && pen->text; i++) {
            struct pen sm = {pen->text, pen->x + 3 + i * (SM_WIDTH + 2.0), pen->y + 3};
            put_sm(layout, &sm, group_sm(layout, at + i));
        }
        pen->x += width + GAP;
    }
    pen->y += SM_HEIGHT + 6 + GAP;
}

static void put_groups(const struct layout *layout, struct pen *pen) {
    for (int32_t group = 0; group < group_count(layout); group++) {
        struct pen measure = {NULL, 0, pen->y + TITLE};
        put_tpcs(layout, &measure, group);
        if (pen->text) {
            int32_t sms = group_end(layout, group) - group_begin(layout, group);
            put_box(pen->text, SIDE, pen->y, WIDTH - 2.0 * SIDE, measure.y - pen->y, "#f2f2f6");
            gs_text_add(pen->text, "<text x=\"%d\" y=\"%.1f\" fill=\"#333\">", SIDE + GAP, pen->y + 14);
            if (layout->list)
                gs_text_add(pen->text, "%s %d: ", layout->what, group);
            gs_text_add(pen->text, "%d SM%s</text>\n", sms, sms == 1 ? "" : "s");
        }
        pen->y += TITLE;
        put_tpcs(layout, pen, group);
        pen->y += GAP;
    }
}

/* One SM: its partitions, and its shared memory. */
static void put_one_sm(const struct layout *layout, struct pen *pen) {
    const gs_limits *limits = &layout->gpu->limits;
    double width = (WIDTH - 2.0 * SIDE - GAP) / limits->partitions_per_sm - GAP;
    put_box(pen->text, SIDE, pen->y, WIDTH - 2.0 * SIDE, ZOOM - 20, "#f2f2f6");
    gs_text_add(pen->text, "<text x=\"%d\" y=\"%.1f\" fill=\"#333\">an SM: %d block slots, %d threads</text>\n",
                SIDE + GAP, pen->y + 14, limits->blocks_per_sm, limits->threads_per_sm);
    for (int32_t i = 0; i < limits->partitions_per_sm; i++) {
        double x = SIDE + GAP + i * (width + GAP);
        put_box(pen->text, x, pen->y + TITLE, width, 58, "#ffffff");
        gs_text_add(pen->text,
                    "<text x=\"%.1f\" y=\"%.1f\">partition %d</text><text x=\"%.1f\" y=\"%.1f\">%d warps</text>"
                    "<text x=\"%.1f\" y=\"%.1f\">%d registers</text>\n",
                    x + 6, pen->y + TITLE + 16, i, x + 6, pen->y + TITLE + 33, layout->gpu->warps_per_partition, x + 6,
                    pen->y + TITLE + 50, limits->registers_per_sm / limits->partitions_per_sm);
    }
    put_box(pen->text, SIDE + GAP, pen->y + TITLE + 66, WIDTH - 2.0 * (SIDE + GAP), 34, "#ffffff");
    gs_text_add(pen->text, "<text x=\"%d\" y=\"%.1f\">shared memory: ", SIDE + GAP + 6, pen->y + TITLE + 87);
    for (int32_t i = 0; i < limits->configs; i++)
        gs_text_add(pen->text, "%s%d", i ? ", " : "", limits->config_bytes[i] / 1024);
    gs_text_add(pen->text, " KB; at most %d bytes a block, in steps of %d, and %d for the runtime</text>\n",
                limits->shared_per_block_bytes, limits->shared_granularity_bytes, limits->shared_reserved_bytes);
}

gs_code gs_put_gpu_svg(gs_text *text, const gs_gpu *gpu, gs_error *error) {
    struct layout layout;
    gs_code code = make_layout(&layout, gpu, error);
    if (code == GS_OK) {
        struct pen measure = {NULL, 0, HEAD}, pen = {text, 0, HEAD};
        put_groups(&layout, &measure);
        gs_text_add(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" font-family=\"system-ui, 'DejaVu Sans', "
            "sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            WIDTH, measure.y + ZOOM);
        gs_text_add(text, "<text x=\"%d\" y=\"24\" font-size=\"16\">", SIDE);
        gs_text_put_xml(text, gpu->title ? gpu->title : gpu->name);
        gs_text_add(text, ": %d SMs, %d per TPC%s</text>\n", gpu->sms, gpu->sms_per_tpc,
                    layout.list ? "" : "; which SMs form a GPC is not known");
        put_groups(&layout, &pen);
        put_one_sm(&layout, &pen);
        gs_text_add(text, "</svg>\n");
    }
    clear_layout(&layout);
    return code;
}
