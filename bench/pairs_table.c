/*
 * pairs_table.c: the output of bench/pairs: the sides alone, a row for each pair, averages; and all of it as JSON.
 *
 * A gain is in throughput: the additional work in the same time compared with serial execution, alone + alone over the
 * makespan. After each gain comes the spread of its makespans, maximum minus minimum, in percent of the median.
 */
#include "pairs.h"

#include <stdlib.h>
#include <string.h>

static const char *const mode_names[PAIR_MODES] = {"serial", "streams", "mps", "inside", "split"};

/* ---- figures ---- */

static int by_size(const void *a, const void *b) {
    const double first = *(const double *)a, second = *(const double *)b;
    return first < second ? -1 : first > second;
}

static pair_series sorted(const pair_series *series) {
    pair_series copy = *series;
    qsort(copy.ms, (size_t)copy.count, sizeof *copy.ms, by_size);
    return copy;
}

double series_median(const pair_series *series) {
    pair_series ordered = sorted(series);
    return ordered.count ? ordered.ms[ordered.count / 2] : 0;
}

double series_spread_percent(const pair_series *series) {
    pair_series ordered = sorted(series);
    double median = series_median(series);
    return median > 0 ? 100 * (ordered.ms[ordered.count - 1] - ordered.ms[0]) / median : 0;
}

double pair_gain_percent(const pair_result *result, enum pair_mode mode) {
    double serial = series_median(&result->series[MODE_SERIAL]), makespan = series_median(&result->series[mode]);
    return makespan > 0 ? 100 * (serial / makespan - 1) : 0;
}

enum pair_mode pair_best(const pair_result *result) {
    enum pair_mode best = MODE_SERIAL;
    for (int mode = MODE_STREAMS; mode < PAIR_MODES; mode++)
        if (result->series[mode].count &&
            pair_gain_percent(result, (enum pair_mode)mode) > pair_gain_percent(result, best))
            best = (enum pair_mode)mode;
    return best;
}

static double unit_percent(double work, double ms, enum pair_unit unit) {
    return ms > 0 ? 100 * work / (ms / 1e3) / pair_units[unit].peak : 0;
}

enum pair_unit pair_unit_of(const pair_result *result, enum pair_mode mode, double *percent) {
    enum pair_unit most = UNIT_TENSOR;
    double ms = series_median(&result->series[mode]);
    *percent = 0;
    for (int unit = 0; unit < PAIR_UNITS; unit++) {
        double work = result->a->work[unit] * result->a->repeat + result->b->work[unit] * result->b->repeat;
        double used = unit_percent(work, ms, (enum pair_unit)unit);
        if (used > *percent) {
            *percent = used;
            most = (enum pair_unit)unit;
        }
    }
    return most;
}

/* ---- tables ---- */

static void print_units(const double *work, double ms) {
    for (int unit = 0; unit < PAIR_UNITS; unit++)
        if (work[unit] > 0)
            printf("  %s %.0f%%", pair_units[unit].name, unit_percent(work[unit], ms, (enum pair_unit)unit));
}

void table_side(const pair_side *side) {
    static bool has_head;
    if (!has_head)
        printf("kernel     pass us  repeat  registers, blocks per SM    used of the peak of an H200\n");
    has_head = true;
    printf("%-9s %8.1f %7u ", side->name, side->pass_ms * 1e3, side->repeat);
    for (size_t kind = 0; kind < side->instance.kind_count; kind++)
        printf(" %d/%d/%d", side->forms[0][kind].cost.registers, side->forms[1][kind].cost.registers,
               side->forms[2][kind].cost.registers);
    print_units(side->work, side->pass_ms);
    printf("\n");
    fflush(stdout);
}

void table_pair_head(void) {
    printf("\npair               alone ms       streams        mps            inside                 split           "
           "best, over streams\n");
}

static void print_gain(const pair_result *result, enum pair_mode mode) {
    if (result->series[mode].count)
        printf(" %+6.1f%% (%4.1f)", pair_gain_percent(result, mode), series_spread_percent(&result->series[mode]));
    else
        printf("       - %6s", "");
}

static void print_workers(const pair_result *result) {
    char words[40] = "";
    const pair_way *ways = result->inside.ways;
    if (result->series[MODE_INSIDE].count && result->a->kernel)
        snprintf(words, sizeof words, "%u+%u%s", ways[0].workers[result->a->instance.kind_count - 1],
                 ways[1].workers[result->b->instance.kind_count - 1], result->inside.b_is_first ? "'" : "");
    else if (result->series[MODE_INSIDE].count)
        snprintf(words, sizeof words, "+%u%s", ways[1].workers[0], result->inside.b_is_first ? "'" : "");
    printf(" %-6s", words);
}

void table_pair(const pair_result *result) {
    enum pair_mode best = pair_best(result);
    double percent, streams = series_median(&result->series[MODE_STREAMS]);
    double over = series_median(&result->series[best]);
    enum pair_unit unit = pair_unit_of(result, best, &percent);
    printf("%-7s %-9s %5.2f + %5.2f", result->a->name, result->b->name, result->a_ms, result->b_ms);
    print_gain(result, MODE_STREAMS);
    print_gain(result, MODE_MPS);
    print_gain(result, MODE_INSIDE);
    print_workers(result);
    print_gain(result, MODE_SPLIT);
    printf(" %3d", result->series[MODE_SPLIT].count ? result->split.ways[1].first_sm : 0);
    printf("  %-7s %+6.1f%%  %s %.0f%%%s\n", mode_names[best], over > 0 ? 100 * (streams / over - 1) : 0,
           pair_units[unit].name, percent, result->is_wrong ? "  WRONG RESULTS" : "");
    fflush(stdout);
}

static double steady_gain_percent(const pair_result *result) {
    const pair_clock *clocks = result->clocks;
    double serial = clocks[CLOCK_FIRST].round_ms + clocks[CLOCK_SECOND].round_ms;
    return clocks[CLOCK_INSIDE].rounds ? 100 * (serial / clocks[CLOCK_INSIDE].round_ms - 1) : 0;
}

void table_clocks(const pair_result *result) {
    const pair_clock *clocks = result->clocks;
    for (int i = 0; i < PAIR_CLOCKS; i++)
        if (clocks[i].rounds)
            printf("%s%s %.0f MHz, %.0f in a burst, %.0f W", i ? "; " : "        clocks: ",
                   i == CLOCK_FIRST    ? result->a->name
                   : i == CLOCK_SECOND ? result->b->name
                                       : "inside",
                   clocks[i].mhz, clocks[i].burst_mhz, clocks[i].watts);
    if (clocks[CLOCK_INSIDE].rounds)
        printf(", %+.1f%% in the long run", steady_gain_percent(result));
    printf("%s", clocks[CLOCK_FIRST].rounds ? "\n" : "");
    fflush(stdout);
}

/* Averages for the pairs of each product, without the probes, whose names are in brackets. */
void table_averages(const pair_result *results, size_t count) {
    printf("\naverage gains over one after the other, and of the best over streams\n");
    for (size_t i = 0; i < count; i++) {
        double sums[PAIR_MODES] = {0}, over = 0;
        int counts[PAIR_MODES] = {0}, pairs = 0;
        if (i && results[i].a == results[i - 1].a)
            continue;
        for (size_t k = i; k < count && results[k].a == results[i].a; k++) {
            const pair_result *result = &results[k];
            if (result->b->name[0] == '(')
                continue;
            for (int mode = 1; mode < PAIR_MODES; mode++)
                if (result->series[mode].count) {
                    sums[mode] += pair_gain_percent(result, (enum pair_mode)mode);
                    counts[mode]++;
                }
            over +=
                100 *
                (series_median(&result->series[MODE_STREAMS]) / series_median(&result->series[pair_best(result)]) - 1);
            pairs++;
        }
        printf("%-7s", results[i].a->name);
        for (int mode = 1; mode < PAIR_MODES; mode++)
            printf("  %s %+.1f%% of %d", mode_names[mode], counts[mode] ? sums[mode] / counts[mode] : 0, counts[mode]);
        printf("  best over streams %+.1f%%\n", pairs ? over / pairs : 0);
    }
}

/* ---- JSON ---- */

static void write_series(gs_writer *writer, const pair_result *result, enum pair_mode mode) {
    const pair_series *series = &result->series[mode];
    if (!series->count)
        return;
    gs_write_object(writer, mode_names[mode]);
    gs_write_real(writer, "makespan_ms", series_median(series), 4);
    gs_write_real(writer, "spread_percent", series_spread_percent(series), 2);
    gs_write_real(writer, "gain_percent", pair_gain_percent(result, mode), 2);
    gs_write_real(writer, "reduction_percent",
                  100 * (1 - series_median(series) / series_median(&result->series[MODE_SERIAL])), 2);
    if (mode == MODE_INSIDE)
        for (int i = 0; i < 2; i++)
            gs_write_int(writer, i ? "second_workers" : "first_workers", result->inside.ways[i].workers[0]);
    for (int i = 0; i < 2 && mode == MODE_INSIDE; i++)
        gs_write_real(writer, i ? "second_ended_ms" : "first_ended_ms", result->inside.ended_ms[i], 4);
    if (mode == MODE_SPLIT)
        gs_write_int(writer, "first_sms", result->split.ways[1].first_sm);
    gs_write_end(writer);
}

static void write_clocks(gs_writer *writer, const pair_result *result) {
    static const char *const names[PAIR_CLOCKS] = {"first", "second", "inside"};
    gs_write_object(writer, "clocks");
    for (int i = 0; i < PAIR_CLOCKS; i++) {
        if (!result->clocks[i].rounds)
            continue;
        gs_write_object(writer, names[i]);
        gs_write_real(writer, "mhz", result->clocks[i].mhz, 1);
        gs_write_real(writer, "burst_mhz", result->clocks[i].burst_mhz, 1);
        gs_write_real(writer, "watts", result->clocks[i].watts, 1);
        gs_write_real(writer, "round_ms", result->clocks[i].round_ms, 4);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

/* Everything that was tried: worker blocks, or SMs, of both; how many passes have the form, if not all; and the
   makespan. */
static void write_trials(gs_writer *writer, const char *key, const pair_trials *trials) {
    gs_write_array(writer, key);
    for (size_t i = 0; i < trials->count; i++) {
        const pair_trial *trial = &trials->list[i];
        gs_write_object(writer, NULL);
        for (int k = 0; k < 2; k++) {
            gs_write_array(writer, k ? "second" : "first");
            gs_write_int(writer, NULL, trial->ways[k].workers[0]);
            gs_write_int(writer, NULL, trial->ways[k].workers[1]);
            gs_write_int(writer, NULL, trial->ways[k].sms);
            gs_write_int(writer, NULL, trial->ways[k].passes);
            gs_write_end(writer);
        }
        gs_write_bool(writer, "carveout", trial->ways[1].has_carveout);
        gs_write_bool(writer, "second_is_first", trial->b_is_first);
        gs_write_real(writer, "ms", trial->ms, 4);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void write_pair(gs_writer *writer, const pair_result *result) {
    double percent;
    enum pair_mode best = pair_best(result);
    enum pair_unit unit = pair_unit_of(result, best, &percent);
    gs_write_object(writer, NULL);
    gs_write_string(writer, "first", result->a->name);
    gs_write_string(writer, "second", result->b->name);
    gs_write_real(writer, "first_ms", result->a_ms, 4);
    gs_write_real(writer, "second_ms", result->b_ms, 4);
    for (int mode = 0; mode < PAIR_MODES; mode++)
        write_series(writer, result, (enum pair_mode)mode);
    gs_write_string(writer, "best", mode_names[best]);
    gs_write_string(writer, "unit", pair_units[unit].name);
    gs_write_real(writer, "unit_percent", percent, 1);
    gs_write_bool(writer, "right", !result->is_wrong);
    if (result->clocks[CLOCK_FIRST].rounds)
        write_clocks(writer, result);
    write_trials(writer, "inside_tried", &result->insides);
    write_trials(writer, "split_tried", &result->splits);
    gs_write_end(writer);
}

static void write_side(gs_writer *writer, const pair_side *side) {
    gs_write_object(writer, NULL);
    gs_write_string(writer, "kernel", side->name);
    gs_write_real(writer, "pass_us", side->pass_ms * 1e3, 2);
    gs_write_int(writer, "repeat", side->repeat);
    for (int unit = 0; unit < PAIR_UNITS; unit++)
        if (side->work[unit] > 0)
            gs_write_real(writer, pair_units[unit].name,
                          unit_percent(side->work[unit], side->pass_ms, (enum pair_unit)unit), 1);
    gs_write_end(writer);
}

void table_json(FILE *file, const pair_side *sides, size_t side_count, const pair_result *results, size_t count) {
    gs_text text = {.sink = file};
    gs_writer writer = gs_writer_to(&text);
    gs_write_document(&writer, "gridsmith.pairs/1");
    gs_write_array(&writer, "kernels");
    for (size_t i = 0; i < side_count; i++)
        if (sides[i].is_ready)
            write_side(&writer, &sides[i]);
    gs_write_end(&writer);
    gs_write_array(&writer, "pairs");
    for (size_t i = 0; i < count; i++)
        write_pair(&writer, &results[i]);
    gs_write_end(&writer);
    gs_write_finish(&writer);
    gs_text_flush(&text);
    gs_text_free(&text);
}
