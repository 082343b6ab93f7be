/*
 * report.c: prints the results of bench/share as tables and as gridsmith.share/1: medians, spreads, gains and averages.
 *
 * "gain" is the additional work in the same time compared with serial execution: (alone + alone) / makespan - 1. "d
 * over b" compares makespans: b / d - 1.
 */
#include "share.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct mode_names modes[MODES] = {{'a', "time_sliced", "time-sliced"}, {'b', "mps", "MPS"},
                                        {'c', "green", "green halves"},      {'s', "streams", "streams"},
                                        {'d', "gridsmith", "Gridsmith"},     {'e', "planned", "with a plan"}};

static int by_size(const void *a, const void *b) {
    const double first = *(const double *)a, second = *(const double *)b;
    return first < second ? -1 : first > second;
}

static double median(const series *from) {
    double sorted[MOST_REPEATS];
    if (!from->count)
        return NAN;
    memcpy(sorted, from->values, sizeof sorted);
    qsort(sorted, (size_t)from->count, sizeof *sorted, by_size);
    int half = from->count / 2;
    return from->count % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/* The difference of the largest and the smallest value, in percent of the median. */
static double spread(const series *from) {
    double least = INFINITY, most = -INFINITY;
    for (int i = 0; i < from->count; i++) {
        least = fmin(least, from->values[i]);
        most = fmax(most, from->values[i]);
    }
    return from->count ? 100 * (most - least) / median(from) : NAN;
}

/* In percent of an application that takes 30 seconds: the cost of communication with the daemon, in the rounds and once
   at the start; and injection with compilation, which is the whole cost of loading if nothing is cached. */
static void overheads_of(const application *app, double *communication, double *compilation) {
    const double thirty_seconds_ms = 30000;
    bool is_long = app->long_direct.is_measured && app->long_served.is_measured;
    const alone *direct = is_long ? &app->long_direct : &app->direct;
    const alone *served = is_long ? &app->long_served : &app->served;
    double slower = median(&served->ms) / median(&direct->ms) - 1;
    double once_ms = served->setup_ms - served->compile_ms - (direct->setup_ms - direct->compile_ms);
    *communication = 100 * (slower + once_ms / thirty_seconds_ms);
    *compilation = 100 * median(&app->loading_ms) / thirty_seconds_ms;
}

/* ---- tables ---- */

static double gain_of(const pair *of, enum mode mode) {
    return 100 *
           ((median(&of->first->direct.ms) + median(&of->second->direct.ms)) / median(&of->outcomes[mode].makespan_ms) -
            1);
}

/* How much more work one mode does in the same time than another; NAN: one of them was not measured. */
static double over(const pair *of, enum mode mode, enum mode other) {
    return of->outcomes[mode].is_measured && of->outcomes[other].is_measured
               ? 100 * (median(&of->outcomes[other].makespan_ms) / median(&of->outcomes[mode].makespan_ms) - 1)
               : NAN;
}

static double over_best(const pair *of) {
    double least = NAN;
    for (enum mode other = TIME_SLICED; other < GRIDSMITH; other++)
        least = fmin(least, over(of, GRIDSMITH, other));
    return least;
}

void print_alone(const struct bench *bench, const application *app) {
    fprintf(bench->table, "%s  %-14s %9.2f ms alone, spread %.1f%%; %u repetitions; set up in %.0f ms\n", app->letters,
            app->name, median(&app->direct.ms), spread(&app->direct.ms), app->repeat, app->direct.setup_ms);
    fflush(bench->table);
}

void print_header(const struct bench *bench) {
    fprintf(bench->table, "\nmakespan in ms, its spread, and the gain over one after the other\npair       alone");
    for (int mode = 0; mode < MODES; mode++)
        if (bench->is_used[mode])
            fprintf(bench->table, "  %24s", modes[mode].words);
    fprintf(bench->table, "%s\n", bench->is_used[GRIDSMITH] ? "  d over b  d over best" : "");
    fflush(bench->table);
}

static void print_percent(const struct bench *bench, double percent, int width) {
    if (isnan(percent))
        fprintf(bench->table, "  %*s", width, "-");
    else
        fprintf(bench->table, "  %+*.1f%%", width - 1, percent);
}

void print_pair(const struct bench *bench, const pair *of) {
    fprintf(bench->table, "%s-%s  %9.1f", of->first->letters, of->second->letters,
            median(&of->first->direct.ms) + median(&of->second->direct.ms));
    for (enum mode mode = 0; mode < MODES; mode++) {
        const outcome *found = &of->outcomes[mode];
        if (bench->is_used[mode] && found->is_measured)
            fprintf(bench->table, "  %9.1f %5.1f%% %+6.1f%%", median(&found->makespan_ms), spread(&found->makespan_ms),
                    gain_of(of, mode));
        else if (bench->is_used[mode])
            fprintf(bench->table, "  %24s", "failed");
    }
    if (bench->is_used[GRIDSMITH]) {
        print_percent(bench, over(of, GRIDSMITH, MPS), 8);
        print_percent(bench, over_best(of), 11);
    }
    fprintf(bench->table, "\n");
    fflush(bench->table);
}

/* The average, and the minimum with its pair. */
typedef struct summary {
    double sum, least;
    const pair *worst;
    int count;
} summary;

static void sum_up(summary *into, const pair *of, double value) {
    if (isnan(value))
        return;
    if (!into->count || value < into->least) {
        into->least = value;
        into->worst = of;
    }
    into->sum += value;
    into->count++;
}

static void print_summary(const struct bench *bench, const summary *of, const char *words) {
    if (of->count)
        fprintf(bench->table, "%-40s %+6.1f%% on average over %d pairs, least %+.1f%% (%s-%s)\n", words,
                of->sum / of->count, of->count, of->least, of->worst->first->letters, of->worst->second->letters);
}

void print_averages(const struct bench *bench) {
    summary gains[MODES] = {{.sum = 0}}, over_mps = {.sum = 0}, best = {.sum = 0}, planned = {.sum = 0},
            others = {.sum = 0};
    for (int i = 0; i < bench->pair_count; i++) {
        const pair *of = &bench->pairs[i];
        for (enum mode mode = 0; mode < MODES; mode++)
            if (of->outcomes[mode].is_measured)
                sum_up(&gains[mode], of, gain_of(of, mode));
        sum_up(&over_mps, of, over(of, GRIDSMITH, MPS));
        sum_up(&best, of, over_best(of));
        sum_up(&planned, of, over(of, PLANNED, GRIDSMITH));
        if (strcmp(of->first->letters, "GS") != 0 && strcmp(of->second->letters, "GS") != 0)
            sum_up(&others, of, over(of, GRIDSMITH, MPS));
    }
    fprintf(bench->table, "\n");
    for (int mode = 0; mode < MODES; mode++) {
        char words[80];
        snprintf(words, sizeof words, "(%c) %s over one after the other", modes[mode].letter, modes[mode].words);
        print_summary(bench, &gains[mode], words);
        if (bench->why_not[mode][0])
            fprintf(bench->table, "(%c) %s: %s\n", modes[mode].letter, modes[mode].words, bench->why_not[mode]);
    }
    print_summary(bench, &over_mps, "Gridsmith over MPS");
    print_summary(bench, &others, "Gridsmith over MPS, without gaussian");
    print_summary(bench, &best, "Gridsmith over the best of the others");
    print_summary(bench, &planned, "Gridsmith with a plan over without");
}

void print_overheads(const struct bench *bench) {
    for (int i = 0; i < bench->application_count; i++) {
        const application *app = &bench->applications[i];
        double communication, compilation;
        if (!app->served.is_measured || !app->direct.is_measured)
            continue;
        overheads_of(app, &communication, &compilation);
        fprintf(bench->table,
                "%s alone through the daemon: communication %+.2f%%, injection and compilation %.2f%% of 30 seconds"
                " (a round takes %.2f ms, direct %.2f; loading %.0f ms, the first time %.0f, direct %.0f)\n",
                app->letters, communication, compilation, median(&app->served.ms), median(&app->direct.ms),
                median(&app->loading_ms), app->served.compile_ms, app->direct.compile_ms);
    }
    for (int i = 0; i < 2; i++)
        if (bench->launch[i].is_measured)
            fprintf(bench->table, "an empty kernel %s: %.2f us launched and waited for, %.2f us in a row\n",
                    i ? "through the daemon" : "direct", bench->launch[i].waited_us, bench->launch[i].pipelined_us);
}

/* ---- JSON ---- */

enum { DECIMALS = 4 };

static void write_series(gs_writer *writer, const char *key, const series *from) {
    gs_write_object(writer, key);
    gs_write_real(writer, "median", median(from), DECIMALS);
    gs_write_real(writer, "spread_percent", spread(from), DECIMALS);
    gs_write_array(writer, "all");
    for (int i = 0; i < from->count; i++)
        gs_write_real(writer, NULL, from->values[i], DECIMALS);
    gs_write_end(writer);
    gs_write_end(writer);
}

static void write_alone(gs_writer *writer, const char *key, const alone *of) {
    if (!of->is_measured)
        return;
    gs_write_object(writer, key);
    write_series(writer, "round_ms", &of->ms);
    gs_write_real(writer, "setup_ms", of->setup_ms, 3);
    gs_write_real(writer, "compile_ms", of->compile_ms, 3);
    gs_write_end(writer);
}

static void write_application(gs_writer *writer, const application *app) {
    double communication, compilation;
    gs_write_object(writer, NULL);
    gs_write_string(writer, "letters", app->letters);
    gs_write_string(writer, "kernel", app->name);
    gs_write_uint(writer, "repeat", app->repeat);
    write_alone(writer, "direct", &app->direct);
    write_alone(writer, "served", &app->served);
    write_alone(writer, "long_direct", &app->long_direct);
    write_alone(writer, "long_served", &app->long_served);
    if (app->served.is_measured && app->direct.is_measured) {
        overheads_of(app, &communication, &compilation);
        gs_write_real(writer, "communication_percent", communication, DECIMALS);
        if (app->loading_ms.count) {
            write_series(writer, "loading_ms", &app->loading_ms);
            gs_write_real(writer, "compilation_percent", compilation, DECIMALS);
        }
    }
    gs_write_end(writer);
}

static void write_pair(gs_writer *writer, const pair *of) {
    char name[40];
    snprintf(name, sizeof name, "%s-%s", of->first->letters, of->second->letters);
    gs_write_object(writer, NULL);
    gs_write_string(writer, "pair", name);
    for (enum mode mode = 0; mode < MODES; mode++) {
        const outcome *found = &of->outcomes[mode];
        if (!found->is_measured)
            continue;
        gs_write_object(writer, modes[mode].name);
        write_series(writer, "makespan_ms", &found->makespan_ms);
        write_series(writer, "first_ms", &found->first_ms);
        write_series(writer, "second_ms", &found->second_ms);
        gs_write_real(writer, "gain_percent", gain_of(of, mode), DECIMALS);
        gs_write_end(writer);
    }
    gs_write_real(writer, "over_mps_percent", over(of, GRIDSMITH, MPS), DECIMALS);
    gs_write_real(writer, "over_best_percent", over_best(of), DECIMALS);
    gs_write_end(writer);
}

static void write_launches(gs_writer *writer, const struct bench *bench) {
    gs_write_object(writer, "launch");
    for (int i = 0; i < 2; i++)
        if (bench->launch[i].is_measured) {
            gs_write_object(writer, i ? "served" : "direct");
            gs_write_real(writer, "waited_us", bench->launch[i].waited_us, 3);
            gs_write_real(writer, "pipelined_us", bench->launch[i].pipelined_us, 3);
            gs_write_end(writer);
        }
    gs_write_end(writer);
}

void print_json(const struct bench *bench) {
    gs_text text = {.sink = stdout};
    gs_writer writer = gs_writer_to(&text);
    gs_write_document(&writer, "gridsmith.share/1");
    gs_write_real(&writer, "seconds", bench->seconds, 3);
    gs_write_int(&writer, "repeats", bench->repeats);
    gs_write_array(&writer, "applications");
    for (int i = 0; i < bench->application_count; i++)
        if (bench->applications[i].is_selected)
            write_application(&writer, &bench->applications[i]);
    gs_write_end(&writer);
    gs_write_array(&writer, "pairs");
    for (int i = 0; i < bench->pair_count; i++)
        if (bench->pairs[i].is_selected)
            write_pair(&writer, &bench->pairs[i]);
    gs_write_end(&writer);
    write_launches(&writer, bench);
    gs_write_object(&writer, "not_measured");
    for (int mode = 0; mode < MODES; mode++)
        if (bench->why_not[mode][0])
            gs_write_string(&writer, modes[mode].name, bench->why_not[mode]);
    gs_write_end(&writer);
    gs_write_int(&writer, "failed", bench->wrong);
    gs_write_finish(&writer);
    gs_text_flush(&text);
    gs_text_free(&text);
}
