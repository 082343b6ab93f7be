/*
 * occupancy_view.c: how many blocks fit on an SM, as a picture: over the threads, the registers and the shared memory
 * of a block, with a curve for each limit, like the spreadsheet that came with CUDA.
 *
 * The picture has three plots. In each, one number varies, and the others are those of the kernel. occupancy_page.c
 * makes the page in which they can be changed.
 */
#include "occupancy_view.h"

#include <math.h>

enum { WIDTH = 1060, HEIGHT = 330, PLOTS = 3, TOP = 74, BOTTOM = 44, SIDE = 44, GAP = 34, CURVES = GS_LIMIT_CURVES };

const gs_limit_curve gs_limit_curves[GS_LIMIT_CURVES] = {{"block slots", "#a0527e", "9 3 2 3"},
                                                         {"warps", "#0072b2", ""},
                                                         {"registers", "#c55300", "7 3"},
                                                         {"shared memory", "#00795a", "2 2"}};

struct plot {
    const char *name;
    int64_t least, most, step, now;
    double x, y, width, height;
};

static gs_shape shape_at(const gs_shape *shape, int plot, int64_t value) {
    gs_shape at = *shape;
    if (plot == 0)
        at.threads = (int32_t)value;
    else if (plot == 1)
        at.registers = (int32_t)value;
    else
        at.shared_bytes = value;
    return at;
}

gs_curve_limits gs_curve_limits_of(const gs_gpu *gpu, const gs_shape *shape) {
    gs_occupancy occupancy;
    gs_error error;
    gs_occupancy_of(gpu, shape, &occupancy, &error);
    return (gs_curve_limits){{occupancy.by_blocks, occupancy.by_warps, occupancy.by_registers, occupancy.by_shared},
                             occupancy.blocks};
}

/* ---- the picture ---- */

static void lay_plots(const gs_gpu *gpu, const gs_shape *shape, struct plot *plots) {
    const gs_limits *limits = &gpu->limits;
    double width = (WIDTH - 2.0 * SIDE - (PLOTS - 1) * GAP) / PLOTS;
    plots[0] = (struct plot){.name = "threads of a block",
                             .least = limits->warp_threads,
                             .most = limits->threads_per_block,
                             .step = limits->warp_threads,
                             .now = shape->threads};
    plots[1] = (struct plot){.name = "registers of a thread",
                             .least = 1,
                             .most = limits->registers_per_thread,
                             .step = 1,
                             .now = shape->registers};
    plots[2] = (struct plot){.name = "shared memory of a block, KB",
                             .least = 0,
                             .most = limits->shared_per_block_bytes,
                             .step = gs_max(limits->shared_granularity_bytes, limits->shared_per_block_bytes / 1000),
                             .now = shape->shared_bytes};
    for (int i = 0; i < PLOTS; i++) {
        plots[i].x = SIDE + i * (width + GAP);
        plots[i].y = TOP;
        plots[i].width = width;
        plots[i].height = HEIGHT - TOP - BOTTOM;
    }
}

static double x_of(const struct plot *plot, int64_t value) {
    return plot->x + plot->width * (double)(value - plot->least) / (double)gs_max(plot->most - plot->least, 1);
}

static double y_of(const struct plot *plot, const gs_gpu *gpu, int32_t blocks) {
    double most = gpu->limits.blocks_per_sm * 1.06;
    return plot->y + plot->height * (1 - fmin(blocks, most) / most);
}

static void put_frame(gs_text *text, const struct plot *plot, const gs_gpu *gpu, int number) {
    int32_t most = gpu->limits.blocks_per_sm, step = (int32_t)gs_max(most / 8, 1);
    for (int32_t blocks = 0; blocks <= most; blocks += step) {
        double y = y_of(plot, gpu, blocks);
        gs_text_add(text, "<path d=\"M%.1f %.1fh%.1f\" stroke=\"#e4e4ea\"/>", plot->x, y, plot->width);
        gs_text_add(text, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555\">%d</text>\n", plot->x - 4,
                    y + 3.5, blocks);
    }
    double unit = number == 2 ? 1024 : 1, span = (double)(plot->most - plot->least) / unit;
    double mark = pow(2, floor(log2(span / 4)));
    for (double at = 0; at <= (double)plot->most / unit; at += mark)
        if (at * unit >= (double)plot->least)
            gs_text_add(text, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#555\">%g</text>\n",
                        x_of(plot, (int64_t)(at * unit)), plot->y + plot->height + 14, at);
    gs_text_add(text, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", plot->x + plot->width / 2,
                plot->y + plot->height + 32, plot->name);
}

/* A curve as steps; -1: how many blocks fit. */
static void put_curve(gs_text *text, const struct plot *plot, const gs_gpu *gpu, const gs_shape *shape, int number,
                      int curve) {
    int32_t last = -1;
    gs_text_add(text, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" stroke-dasharray=\"%s\" d=\"",
                curve < 0 ? "#000" : gs_limit_curves[curve].color, curve < 0 ? "2.6" : "1.5",
                curve < 0 ? "" : gs_limit_curves[curve].dash);
    for (int64_t value = plot->least; value <= plot->most; value += plot->step) {
        gs_shape at = shape_at(shape, number, value);
        gs_curve_limits limits = gs_curve_limits_of(gpu, &at);
        int32_t blocks = curve < 0 ? limits.blocks : (int32_t)gs_min(limits.by[curve], gpu->limits.blocks_per_sm * 2);
        if (last < 0)
            gs_text_add(text, "M%.1f %.1f", x_of(plot, value), y_of(plot, gpu, blocks));
        else if (blocks != last)
            gs_text_add(text, "H%.1fV%.1f", x_of(plot, value), y_of(plot, gpu, blocks));
        last = blocks;
    }
    gs_text_add(text, "H%.1f\"><title>%s</title></path>\n", plot->x + plot->width,
                curve < 0 ? "blocks that fit on an SM" : gs_limit_curves[curve].name);
}

static void put_plot(gs_text *text, const struct plot *plot, const gs_gpu *gpu, const gs_shape *shape, int number) {
    gs_curve_limits now = gs_curve_limits_of(gpu, shape);
    put_frame(text, plot, gpu, number);
    for (int i = 0; i < CURVES; i++)
        put_curve(text, plot, gpu, shape, number, i);
    put_curve(text, plot, gpu, shape, number, -1);
    gs_text_add(text, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"#fff\" stroke=\"#000\" stroke-width=\"2\"/>\n",
                x_of(plot, plot->now), y_of(plot, gpu, now.blocks));
}

static void put_words(gs_text *text, const gs_gpu *gpu, const gs_shape *shape) {
    gs_curve_limits limits = gs_curve_limits_of(gpu, shape);
    int32_t all = gpu->warps_per_partition * gpu->limits.partitions_per_sm;
    int32_t warps = (int32_t)gs_divide_up(shape->threads, gpu->limits.warp_threads);
    gs_text_add(text, "<text x=\"8\" y=\"18\" font-size=\"14\">");
    gs_text_put_xml(text, gpu->title ? gpu->title : gpu->name);
    gs_text_add(text, ": %d threads, %d registers a thread, ", shape->threads, shape->registers);
    gs_text_put_grouped(text, shape->shared_bytes);
    gs_text_add(text,
                " bytes of shared memory</text>\n<text x=\"8\" y=\"36\">%d block%s on an SM: %d of %d warps</text>\n",
                limits.blocks, limits.blocks == 1 ? "" : "s", limits.blocks * warps, all);
    if (gpu->assumed) {
        gs_text_add(text, "<text x=\"360\" y=\"36\" fill=\"#555\">");
        gs_text_put_xml(text, gpu->assumed);
        gs_text_add(text, "</text>\n");
    }
    double x = 8;
    for (int i = -1; i < CURVES; i++) {
        const char *name = i < 0 ? "blocks that fit" : gs_limit_curves[i].name;
        gs_text_add(
            text,
            "<path d=\"M%.0f 52h22\" stroke=\"%s\" stroke-width=\"%s\" stroke-dasharray=\"%s\"/><text x=\"%.0f\" "
            "y=\"56\">%s%s</text>\n",
            x, i < 0 ? "#000" : gs_limit_curves[i].color, i < 0 ? "2.6" : "1.5", i < 0 ? "" : gs_limit_curves[i].dash,
            x + 27, i < 0 ? "" : "by ", name);
        x += 150;
    }
}

void gs_put_occupancy_svg(gs_text *text, const gs_gpu *gpu, const gs_shape *shape) {
    struct plot plots[PLOTS];
    lay_plots(gpu, shape, plots);
    gs_put_svg_begin(text, WIDTH, HEIGHT, 11);
    put_words(text, gpu, shape);
    for (int i = 0; i < PLOTS; i++)
        put_plot(text, &plots[i], gpu, shape, i);
    gs_text_add(text, "</svg>\n");
}
