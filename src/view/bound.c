/*
 * bound.c: bounds and schedules, for people and for programs.
 */
#include "view.h"

/* ---- one program ---- */

const char *gs_verdict(int64_t formula, int64_t exact) {
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
                   compares ? gs_verdict(bound->formula_cycles, bound->exact_cycles) : "");
    put_cycles(text, "worst case, earlier sub-blocks first", bound->exact_fair_cycles,
               bound->formula_cycles != GS_NOT_KNOWN && bound->exact_fair_cycles > bound->formula_cycles
                   ? "the formula is too small here too"
                   : "");
    put_cycles(text, "worst case, any work-conserving schedule", bound->exact_cycles, "");
    put_cycles(text, "proven for any work-conserving schedule", bound->proven_cycles, "");
}

static void put_key(gs_text *text, const char *key, int64_t cycles) {
    if (cycles == GS_NOT_KNOWN)
        gs_text_add(text, ", \"%s\": null", key);
    else
        gs_text_add(text, ", \"%s\": %lld", key, (long long)cycles);
}

void gs_put_bound_json(gs_text *text, const gs_bound *bound) {
    gs_text_add(text, "{\"schema\": \"gridsmith.bound/1\"");
    put_key(text, "formula_cycles", bound->formula_cycles);
    put_key(text, "exact_fair_cycles", bound->exact_fair_cycles);
    put_key(text, "exact_cycles", bound->exact_cycles);
    put_key(text, "proven_cycles", bound->proven_cycles);
    gs_text_add(text, "}\n");
}

/* ---- a schedule ---- */

enum { CELL = 22, LEFT = 70, TOP = 52, FOOT = 30 };

static int32_t latency_of(const gs_flat *flat, int32_t instruction) {
    return (instruction + 1 < flat->instructions ? flat->start[instruction + 1] : flat->phases) -
           flat->start[instruction];
}

static void put_units(gs_text *text, const gs_program *program) {
    for (size_t i = 0; i < program->units.count; i++) {
        double x = 8 + 150.0 * (double)i;
        gs_text_add(text, "<rect x=\"%.0f\" y=\"28\" width=\"10\" height=\"10\" fill=\"", x);
        gs_put_colour(text, i);
        gs_text_add(text, "\"/><text x=\"%.0f\" y=\"37\">", x + 15);
        gs_text_put_xml(text, program->units.data[i].name);
        gs_text_add(text, ": %lld at once</text>\n", (long long)program->units.data[i].warps);
    }
}

static void put_instruction(gs_text *text, const gs_flat *flat, int32_t instruction, int64_t warp, int64_t cycle) {
    char letter[] = {flat->letter[instruction], '\0'};
    double x = LEFT + (double)(CELL * (cycle - 1)), y = TOP + (double)(CELL * warp);
    int32_t latency = latency_of(flat, instruction);
    gs_text_add(text, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" opacity=\"%s\" fill=\"", x + 1, y + 1,
                CELL * latency - 2, CELL - 2, latency > 1 ? "0.45" : "1");
    gs_put_colour(text, (size_t)flat->unit[instruction]);
    if (latency > 1) {
        gs_text_add(text, "\"/><rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" fill=\"", x + 1, y + 1, CELL - 2,
                    CELL - 2);
        gs_put_colour(text, (size_t)flat->unit[instruction]);
    }
    gs_text_add(text, "\"/><text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\" fill=\"#fff\">", x + CELL / 2.0, y + 15);
    gs_text_put_xml(text, letter);
    gs_text_add(text, "</text>\n");
}

void gs_put_schedule_svg(gs_text *text, const gs_schedule *schedule, const gs_flat *flat) {
    double width = LEFT + (double)(CELL * schedule->cycles) + 16;
    double height = TOP + (double)(CELL * schedule->warps) + FOOT;
    width = width < 480 ? 480 : width;
    gs_text_add(text,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
                "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
                "<text x=\"8\" y=\"18\" font-size=\"14\">%lld warps, %lld cycles</text>\n",
                width, height, width, height, (long long)schedule->warps, (long long)schedule->cycles);
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
    gs_text_add(text, "%s, %d SMs: %s\n", gpu->name, gpu->sms,
                bound->one_stream ? "kernels one after the other"
                : bound->at_once  ? "all blocks start at once"
                                  : "blocks wait: the bound holds wherever they go");
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

void gs_put_run_bound_json(gs_text *text, const gs_run *run, const gs_run_bound *bound, const int64_t *gpu_ns,
                           const int64_t *response_ns) {
    gs_text_add(text, "{\"schema\": \"gridsmith.run-bound/1\", \"at_once\": %s, \"cycles\": %lld",
                bound->at_once ? "true" : "false", (long long)bound->cycles);
    put_key(text, "formula_cycles", bound->formula_cycles);
    if (gpu_ns)
        gs_text_add(text, ", \"gpu_ns\": %lld, \"response_ns\": %lld", (long long)*gpu_ns, (long long)*response_ns);
    gs_text_add(text, ", \"kernels\": [");
    for (size_t i = 0; i < bound->count; i++) {
        gs_text_add(text, "%s{\"kernel\": ", i ? ", " : "");
        gs_text_put_json(text, run->launches.data[i].kernel);
        gs_text_add(text, ", \"cycles\": %lld}", (long long)bound->kernels[i].cycles);
    }
    gs_text_add(text, "]}\n");
}
