/*
 * bound.c: bounds, schedules and measurements, as tables, pictures and JSON.
 */
#include "view.h"

#include <math.h>

/* ---- one program ---- */

/* "exact", "pessimistic" or "too small". */
static const char *verdict_on(int64_t formula, int64_t exact) {
    return formula == exact ? "exact" : formula > exact ? "pessimistic" : "too small";
}

static void put_cycles(gs_text *text, const char *what, int64_t cycles, const char *words) {
    if (cycles == GS_NOT_KNOWN)
        gs_text_add(text, "  %-44s %12s\n", what, "not known");
    else
        gs_text_add(text, "  %-44s %12lld%s%s\n", what, (long long)cycles, words[0] ? "  " : "", words);
}

void gs_put_bound(gs_text *text, const gs_bound *bound) {
    bool compares = bound->formula_cycles != GS_NOT_KNOWN && bound->exact_cycles != GS_NOT_KNOWN;
    if (bound->formula_cycles != GS_NOT_KNOWN)
        put_cycles(text, "the paper's formula", bound->formula_cycles,
                   compares ? verdict_on(bound->formula_cycles, bound->exact_cycles) : "");
    put_cycles(text, "worst case, earlier sub-blocks first", bound->exact_fair_cycles,
               bound->formula_cycles != GS_NOT_KNOWN && bound->exact_fair_cycles > bound->formula_cycles
                   ? "the formula is too small here too"
                   : "");
    put_cycles(text, "worst case, any work-conserving schedule", bound->exact_cycles, "");
    put_cycles(text, "proven for any work-conserving schedule", bound->proven_cycles, "");
}

static void write_cycles(gs_writer *writer, const char *key, int64_t cycles) {
    if (cycles == GS_NOT_KNOWN)
        gs_write_null(writer, key);
    else
        gs_write_int(writer, key, cycles);
}

static void write_bound(gs_writer *writer, const gs_bound *bound) {
    write_cycles(writer, "formula_cycles", bound->formula_cycles);
    write_cycles(writer, "exact_fair_cycles", bound->exact_fair_cycles);
    write_cycles(writer, "exact_cycles", bound->exact_cycles);
    write_cycles(writer, "proven_cycles", bound->proven_cycles);
}

void gs_put_bound_json(gs_text *text, const gs_bound *bound) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.bound/1");
    write_bound(&writer, bound);
    gs_write_finish(&writer);
}

void gs_put_grid_json(gs_text *text, const gs_bound *cells, int64_t warps, int64_t repeat) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.bound-grid/1");
    gs_write_array(&writer, "cells");
    for (int64_t i = 0; i < warps * repeat; i++) {
        gs_write_object(&writer, NULL);
        gs_write_int(&writer, "warps", i / repeat + 1);
        gs_write_int(&writer, "repeat", i % repeat + 1);
        write_bound(&writer, &cells[i]);
        gs_write_end(&writer);
    }
    gs_write_finish(&writer);
}

/* ---- the grid ---- */

static void put_difference(gs_text *text, int64_t formula, int64_t exact) {
    if (exact == GS_NOT_KNOWN)
        gs_text_add(text, "     ?");
    else if (formula == exact)
        gs_text_add(text, "     =");
    else
        gs_text_add(text, "  %+4lld", (long long)(formula - exact));
}

void gs_put_grid(gs_text *text, const gs_bound *cells, int64_t warps, int64_t repeat, bool fair) {
    int64_t counts[3] = {0};
    gs_text_add(text, "\n%s\nrepetitions ",
                fair ? "where earlier sub-blocks go first" : "over all work-conserving schedules");
    for (int64_t r = 1; r <= repeat; r++)
        gs_text_add(text, "%6lld", (long long)r);
    gs_text_add(text, "\n");
    for (int64_t w = 1; w <= warps; w++) {
        gs_text_add(text, "%4lld warp%s  ", (long long)w, w == 1 ? " " : "s");
        for (int64_t r = 1; r <= repeat; r++) {
            const gs_bound *cell = &cells[(w - 1) * repeat + r - 1];
            int64_t exact = fair ? cell->exact_fair_cycles : cell->exact_cycles;
            put_difference(text, cell->formula_cycles, exact);
            if (exact != GS_NOT_KNOWN)
                counts[cell->formula_cycles == exact ? 0 : cell->formula_cycles > exact ? 1 : 2]++;
        }
        gs_text_add(text, "\n");
    }
    gs_text_add(text, "exact in %lld, pessimistic in %lld, too small in %lld\n", (long long)counts[0],
                (long long)counts[1], (long long)counts[2]);
}

/* ---- a schedule ---- */

enum { CELL = 22, LEFT = 70, TOP = 52, FOOT = 30 };

static void put_units(gs_text *text, const gs_program *program) {
    for (size_t i = 0; i < program->units.count; i++) {
        double x = 8 + 150.0 * (double)i;
        gs_text_add(text, "<rect x=\"%.0f\" y=\"28\" width=\"10\" height=\"10\" fill=\"", x);
        gs_put_color(text, i);
        gs_text_add(text, "\"/><text x=\"%.0f\" y=\"37\">", x + 15);
        gs_text_put_xml(text, program->units.data[i].name);
        gs_text_add(text, ": %lld at once</text>\n", (long long)program->units.data[i].warps);
    }
}

static void put_instruction(gs_text *text, const gs_flat *flat, int32_t instruction, int64_t warp, int64_t cycle) {
    char letter[] = {flat->letter[instruction], '\0'};
    double x = LEFT + (double)(CELL * (cycle - 1)), y = TOP + (double)(CELL * warp);
    int32_t latency = gs_flat_latency(flat, instruction);
    gs_text_add(text, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" opacity=\"%s\" fill=\"", x + 1, y + 1,
                CELL * latency - 2, CELL - 2, latency > 1 ? "0.45" : "1");
    gs_put_color(text, (size_t)flat->unit[instruction]);
    if (latency > 1) {
        gs_text_add(text, "\"/><rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" fill=\"", x + 1, y + 1, CELL - 2,
                    CELL - 2);
        gs_put_color(text, (size_t)flat->unit[instruction]);
    }
    gs_text_add(text, "\"/><text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\" fill=\"#fff\">", x + CELL / 2.0, y + 15);
    gs_text_put_xml(text, letter);
    gs_text_add(text, "</text>\n");
}

void gs_put_schedule_svg(gs_text *text, const gs_schedule *schedule, const gs_flat *flat) {
    double width = LEFT + (double)(CELL * schedule->cycles) + 16;
    double height = TOP + (double)(CELL * schedule->warps) + FOOT;
    width = fmax(width, 480);
    gs_put_svg_begin(text, width, height, 11);
    gs_text_add(text, "<text x=\"8\" y=\"18\" font-size=\"14\">%lld warps, %lld cycles</text>\n",
                (long long)schedule->warps, (long long)schedule->cycles);
    put_units(text, flat->program);
    for (int64_t warp = 0; warp < schedule->warps; warp++) {
        gs_text_add(text, "<text x=\"8\" y=\"%.0f\">warp %lld</text>\n", TOP + (double)(CELL * warp) + 15,
                    (long long)warp + 1);
        for (int32_t i = 0; i < flat->instructions; i++)
            put_instruction(text, flat, i, warp, schedule->issued[warp * schedule->instructions + i]);
    }
    int64_t step = schedule->cycles > 200 ? 10 : 1;
    for (int64_t cycle = step; cycle <= schedule->cycles; cycle += step)
        gs_text_add(text,
                    "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\" font-size=\"9\" fill=\"#666\">%lld</text>\n",
                    LEFT + CELL * ((double)cycle - 0.5), TOP + (double)(CELL * schedule->warps) + 14, (long long)cycle);
    gs_text_add(text, "</svg>\n");
}

/* ---- random programs ---- */

void gs_put_compared(gs_text *text, const gs_compared *compared) {
    gs_text_add(text, "proven bound / exact worst case    programs\n");
    for (size_t i = 0; i < GS_QUOTIENTS; i++) {
        char range[40];
        if (i == 0)
            snprintf(range, sizeof range, "1: exact");
        else if (i == GS_QUOTIENTS - 1)
            snprintf(range, sizeof range, "over %.2f", gs_quotients[i - 1]);
        else
            snprintf(range, sizeof range, "over %.2f to %.2f", gs_quotients[i - 1], gs_quotients[i]);
        gs_text_add(text, "%-32s %10lld %6.1f%%\n", range, (long long)compared->by_quotient[i],
                    compared->programs ? 100.0 * (double)compared->by_quotient[i] / (double)compared->programs : 0.0);
    }
    gs_text_add(text, "%-32s %10lld\n", "below the worst case", (long long)compared->below);
    gs_text_add(text, "mean %.3f, most %.3f (program %lld)\n",
                compared->programs ? compared->sum / (double)compared->programs : 0.0, compared->worst,
                (long long)compared->worst_index);
}

/* ---- runs ---- */

void gs_put_run_bound(gs_text *text, const gs_gpu *gpu, const gs_run *run, const gs_run_bound *bound) {
    gs_text_add(text, "%s, %d SM%s: %s\n", gpu->name, gpu->sms, gpu->sms == 1 ? "" : "s",
                bound->one_stream ? "kernels run serially"
                : bound->at_once  ? "all blocks start at once"
                                  : "blocks wait: the bound holds for any placement");
    gs_gpu_put_assumed(gpu, text);
    gs_text_add(text, "%-16s %10s %11s %11s %10s %16s\n", "kernel", "blocks", "warps/block", "blocks/SM", "on an SM",
                "ended by cycle");
    for (size_t i = 0; i < bound->count; i++)
        gs_text_add(text, "%-16.16s %10lld %11lld %11lld %10lld %16lld\n", run->launches.data[i].kernel,
                    (long long)run->launches.data[i].blocks, (long long)bound->kernels[i].warps_per_block,
                    (long long)bound->kernels[i].blocks_per_sm, (long long)bound->kernels[i].most_on_sm,
                    (long long)bound->kernels[i].cycles);
    gs_text_add(text, "all have ended by cycle %lld\n", (long long)bound->cycles);
    if (bound->formula_cycles != GS_NOT_KNOWN)
        gs_text_add(text, "the paper's formula says %lld\n", (long long)bound->formula_cycles);
}

void gs_put_run_bound_json(gs_text *text, const gs_gpu *gpu, const gs_run *run, const gs_run_bound *bound,
                           const int64_t *gpu_ns, const int64_t *response_ns) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.run-bound/1");
    gs_write_optional(&writer, "assumed", gpu->assumed);
    gs_write_bool(&writer, "at_once", bound->at_once);
    gs_write_int(&writer, "cycles", bound->cycles);
    write_cycles(&writer, "formula_cycles", bound->formula_cycles);
    if (gpu_ns) {
        gs_write_int(&writer, "gpu_ns", *gpu_ns);
        gs_write_int(&writer, "response_ns", *response_ns);
    }
    gs_write_array(&writer, "kernels");
    for (size_t i = 0; i < bound->count; i++) {
        gs_write_object(&writer, NULL);
        gs_write_string(&writer, "kernel", run->launches.data[i].kernel);
        gs_write_int(&writer, "cycles", bound->kernels[i].cycles);
        gs_write_end(&writer);
    }
    gs_write_finish(&writer);
}

/* ---- a real GPU ---- */

static void put_range(gs_text *text, const char *what, const gs_range *range) {
    gs_text_add(text, "%-44s %9.3f %9.3f %9.3f\n", what, (double)range->least / 1000, (double)range->median / 1000,
                (double)range->most / 1000);
}

static void put_latencies(gs_text *text, const gs_latencies *latencies) {
    gs_text_add(text, "%-44s %9s %9s %9s\n", "cycles", "least", "median", "most");
    for (int i = 0; i < GS_M_CLOCK; i++) {
        char what[64];
        snprintf(what, sizeof what, "latency of a %s", gs_measured_classes[i]);
        put_range(text, what, &latencies->latency[i]);
    }
    for (int i = 0; i < GS_M_CLASSES; i++) {
        char what[64];
        snprintf(what, sizeof what, "delay by a %s of another warp", gs_measured_classes[i]);
        put_range(text, what, &latencies->delay[i]);
    }
    put_range(text, "overhead of each warp", &latencies->overhead);
}

static int64_t warps_on_sm(const gs_sample *sample) {
    return (int64_t)sample->on_sm * sample->warps;
}

static double bound_tightness(const gs_measured *measured, const gs_sample *sample) {
    return (double)gs_measured_bound(&measured->latencies, sample) / (double)sample->cycles;
}

/* One row of the table: samples with `from` to `to` warps on an SM. */
static int64_t put_tightness(gs_text *text, const gs_measured *measured, int64_t from, int64_t to) {
    int64_t count = 0, late = 0;
    double least = INFINITY, most = 0, sum = 0;
    char range[32];
    for (size_t i = 0; i < measured->samples.count; i++) {
        const gs_sample *sample = &measured->samples.data[i];
        double quotient = bound_tightness(measured, sample);
        if (warps_on_sm(sample) < from || warps_on_sm(sample) > to)
            continue;
        count++;
        late += quotient < 1;
        least = fmin(least, quotient);
        most = fmax(most, quotient);
        sum += quotient;
    }
    snprintf(range, sizeof range,
             to == INT32_MAX ? "all"
             : from == to    ? "%lld"
                             : "%lld to %lld",
             (long long)from, (long long)to);
    if (count)
        gs_text_add(text, "%-18s %10lld %10.3f %10.3f %10.3f %12lld\n", range, (long long)count, least,
                    sum / (double)count, most, (long long)late);
    return late;
}

int64_t gs_put_measured(gs_text *text, const gs_measured *measured) {
    static const int64_t ends[] = {1, 2, 4, 8, 16, 32, 64, INT32_MAX - 1};
    int64_t from = 1, as_predicted = 0;
    for (size_t i = 0; i < measured->samples.count; i++)
        as_predicted += measured->samples.data[i].on_sm == measured->samples.data[i].predicted_on_sm;
    gs_text_add(text, "%s, %s, seed %lld\n", measured->gpu, measured->uuid, (long long)measured->seed);
    put_latencies(text, &measured->latencies);
    gs_text_add(text, "\n%-18s %10s %10s %10s %10s %12s\n", "warps on an SM", "samples", "least", "mean", "most",
                "after bound");
    for (size_t i = 0; i < GS_COUNT(ends); from = ends[i++] + 1)
        put_tightness(text, measured, from, ends[i]);
    int64_t late = put_tightness(text, measured, 1, INT32_MAX);
    gs_text_add(text, "least, mean and most of bound / measured; the bound holds for latencies up to the most above\n");
    gs_text_add(text, "%lld of %zu placed as predicted: as many blocks on the fullest SM\n", (long long)as_predicted,
                measured->samples.count);
    return late;
}

/* Measured cycles across, the bound upwards, both logarithmic. */
enum { PLOT = 520, PLOT_LEFT = 64, PLOT_TOP = 40 };

struct axes {
    double low, high; /* logarithms */
};

static double place_on(const struct axes *axes, double cycles) {
    return PLOT * (log10(cycles) - axes->low) / (axes->high - axes->low);
}

static struct axes find_axes(const gs_measured *measured) {
    double least = INFINITY, most = 1;
    for (size_t i = 0; i < measured->samples.count; i++) {
        const gs_sample *sample = &measured->samples.data[i];
        double bound = (double)gs_measured_bound(&measured->latencies, sample), cycles = (double)sample->cycles;
        least = fmin(least, fmin(bound, cycles));
        most = fmax(most, fmax(bound, cycles));
    }
    return (struct axes){floor(10 * log10(fmax(least, 1)) - 0.5) / 10, ceil(10 * log10(most) + 0.5) / 10};
}

static void put_axes(gs_text *text, const struct axes *axes) {
    static const double steps[] = {1, 2, 5};
    gs_text_add(text, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888\"/>\n", PLOT_LEFT,
                PLOT_TOP, PLOT, PLOT);
    for (int power = 0; power < 12; power++)
        for (size_t i = 0; i < GS_COUNT(steps); i++) {
            double cycles = steps[i] * pow(10, power), at = place_on(axes, cycles);
            if (at < 0 || at > PLOT)
                continue;
            gs_text_add(text,
                        "<path d=\"M%.1f %d V%d M%d %.1f H%d\" stroke=\"#e4e4e4\"/><text x=\"%.1f\" y=\"%d\" "
                        "text-anchor=\"middle\">%.0f</text><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>\n",
                        PLOT_LEFT + at, PLOT_TOP, PLOT_TOP + PLOT, PLOT_LEFT, PLOT_TOP + PLOT - at, PLOT_LEFT + PLOT,
                        PLOT_LEFT + at, PLOT_TOP + PLOT + 16, cycles, PLOT_LEFT - 6, PLOT_TOP + PLOT - at + 4, cycles);
        }
    gs_text_add(text, "<path d=\"M%d %d L%d %d\" stroke=\"#444\" stroke-dasharray=\"5 4\"/>\n", PLOT_LEFT,
                PLOT_TOP + PLOT, PLOT_LEFT + PLOT, PLOT_TOP);
    gs_text_add(
        text,
        "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">measured cycles</text><text transform=\"translate(16 %d) "
        "rotate(-90)\" text-anchor=\"middle\">bound, cycles</text>\n",
        PLOT_LEFT + PLOT / 2, PLOT_TOP + PLOT + 34, PLOT_TOP + PLOT / 2);
}

/* The class of a sample by its warps on the SM: 1, up to 4, up to 16, or more. */
static size_t class_of(const gs_sample *sample) {
    int64_t warps = warps_on_sm(sample);
    return warps == 1 ? 0 : warps <= 4 ? 1 : warps <= 16 ? 2 : 3;
}

void gs_put_measured_svg(gs_text *text, const gs_measured *measured) {
    static const char *const classes[] = {"1 warp on an SM", "2 to 4", "5 to 16", "17 and more"};
    struct axes axes = find_axes(measured);
    gs_put_svg_begin(text, PLOT_LEFT + PLOT + 24, PLOT_TOP + PLOT + 50, 11);
    gs_text_add(text, "<text x=\"8\" y=\"18\" font-size=\"14\">");
    gs_text_put_xml(text, measured->gpu);
    gs_text_add(text, ": bounds and measurements of %zu configurations</text>\n", measured->samples.count);
    put_axes(text, &axes);
    for (size_t i = 0; i < measured->samples.count; i++) {
        const gs_sample *sample = &measured->samples.data[i];
        double bound = (double)gs_measured_bound(&measured->latencies, sample);
        gs_text_add(text, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2\" fill-opacity=\"0.6\" fill=\"",
                    PLOT_LEFT + place_on(&axes, (double)sample->cycles), PLOT_TOP + PLOT - place_on(&axes, bound));
        gs_put_color(text, class_of(sample));
        gs_text_add(text, "\"/>\n");
    }
    for (size_t i = 0; i < GS_COUNT(classes); i++) {
        gs_text_add(text, "<circle cx=\"%d\" cy=\"%zu\" r=\"4\" fill=\"", PLOT_LEFT + PLOT - 120,
                    PLOT_TOP + PLOT - 72 + 18 * i);
        gs_put_color(text, i);
        gs_text_add(text, "\"/><text x=\"%d\" y=\"%zu\">%s</text>\n", PLOT_LEFT + PLOT - 110,
                    PLOT_TOP + PLOT - 68 + 18 * i, classes[i]);
    }
    gs_text_add(text, "</svg>\n");
}
