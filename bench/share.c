/*
 * share.c: what sharing a GPU brings: five applications of the zoo alone, and in all fifteen pairs, each pair
 *
 *   a   as two processes, which the driver gives the GPU by turns
 *   b   as two processes under MPS
 *   c   as two threads of one process, each with half of the SMs (green contexts)
 *   d   as two clients of 'gridsmith serve'
 *
 * Each application is 'gridsmith zoo load': the repetitions that take --seconds alone are found out first, and are the
 * same everywhere. The two begin together; the makespan is from the first begin to the last end, by the clock that all
 * processes share. "gain" is how much shorter it is than one after the other: (alone + alone) / makespan - 1.
 *
 * Everything that is started is a child of this program, has a time limit, and goes when this program goes.
 */
#include "share.h"

#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { APPLICATIONS = 5, PAIRS = APPLICATIONS * (APPLICATIONS + 1) / 2, MOST_REPEATS = 100, MOST_FAILURES = 3 };
enum { SETUP_SECONDS = 60, SPARE_SECONDS = 30 };

/* ---- what is measured ---- */

typedef struct series {
    double values[MOST_REPEATS];
    int count;
} series;

typedef struct alone {
    bool is_there;
    series ms;
    double setup_ms, compile_ms;
} alone;

typedef struct application {
    const char *name, *letters;
    uint32_t repeat;
    bool is_wanted;
    alone direct, served;
    alone long_direct, long_served; /* of 30 seconds */
} application;

typedef struct outcome {
    bool is_there;
    series makespan_ms, first_ms, second_ms;
} outcome;

enum mode { TIME_SLICED, MPS, GREEN, GRIDSMITH, MODES };

static const struct {
    char letter;
    const char *name, *words;
} modes[MODES] = {{'a', "time_sliced", "time-sliced"},
                  {'b', "mps", "MPS"},
                  {'c', "green", "green halves"},
                  {'d', "gridsmith", "Gridsmith"}};

typedef struct pair {
    application *first, *second;
    bool is_wanted;
    outcome outcomes[MODES];
} pair;

typedef struct launch_times {
    bool is_there;
    double waited_us, pipelined_us;
} launch_times;

struct bench {
    double seconds;
    int repeats, sms, limit_seconds;
    const char *size, *only;
    bool is_json, is_long;
    bool is_used[MODES];
    int failures[MODES]; /* in a row */
    char why_not[MODES][200];
    application applications[APPLICATIONS];
    pair pairs[PAIRS];
    launch_times launch[2]; /* direct, served */
    int64_t began_ns;
    int wrong;
    struct services services;
};

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

/* From the least to the most, in percent of the median. */
static double spread(const series *from) {
    double least = INFINITY, most = -INFINITY;
    for (int i = 0; i < from->count; i++) {
        least = fmin(least, from->values[i]);
        most = fmax(most, from->values[i]);
    }
    return from->count ? 100 * (most - least) / median(from) : NAN;
}

static void add(series *to, double value) {
    if (to->count < MOST_REPEATS)
        to->values[to->count++] = value;
}

/* ---- one application, one pair ---- */

/* What 'zoo load' prints: a line for each event. */
typedef struct event {
    char what[16];
    int number; /* of the application */
    uint32_t repeat;
    double setup_ms, compile_ms;
    int64_t began_ns, ended_ns;
    bool is_right;
    char reason[160];
} event;

static bool next_event(child *from, double seconds, event *found) {
    const char *line = child_line(from, seconds), *what = "", *reason = "";
    json_t *json = line ? json_loads(line, 0, NULL) : NULL;
    int repeat = 0, is_right = 0;
    json_int_t began_ns = 0, ended_ns = 0;
    *found = (event){.number = 0};
    if (!json)
        return false;
    json_unpack(json, "{s:s, s:i, s?i, s?F, s?F, s?I, s?I, s?b, s?s}", "event", &what, "application", &found->number,
                "repeat", &repeat, "setup_ms", &found->setup_ms, "compile_ms", &found->compile_ms, "began_ns",
                &began_ns, "ended_ns", &ended_ns, "right", &is_right, "reason", &reason);
    snprintf(found->what, sizeof found->what, "%s", what);
    snprintf(found->reason, sizeof found->reason, "%s", reason);
    found->repeat = (uint32_t)repeat;
    found->began_ns = began_ns;
    found->ended_ns = ended_ns;
    found->is_right = is_right;
    json_decref(json);
    return true;
}

static bool expect(child *from, double seconds, const char *what, event *found) {
    return next_event(from, seconds, found) && strcmp(found->what, what) == 0;
}

/* Reads the last event of each application, and ends the child. False: a result is wrong, or it did not end well. */
static bool end_load(child *from, int applications) {
    event last;
    bool is_well = true;
    for (int i = 0; i < applications && is_well; i++) {
        is_well = expect(from, SETUP_SECONDS, "done", &last) && last.is_right;
        if (last.reason[0])
            fprintf(stderr, "share: wrong: %s\n", last.reason);
    }
    return child_end(from, SPARE_SECONDS) == 0 && is_well;
}

static double seconds_for(const struct bench *bench, double factor) {
    return factor * bench->seconds * 10 + SPARE_SECONDS;
}

/* "gridsmith zoo load NAME[:REPEAT] [NAME[:REPEAT]] --on ...". */
static bool start_load(const struct bench *bench, enum mode mode, const application *first, const application *second,
                       int rounds, bool waits, double seconds, child *started) {
    char words[12][64];
    const char *list[24] = {bench->services.program, "zoo", "load"};
    int count = 3, at = 0;
    const application *both[] = {first, second};
    for (int i = 0; i < 2 && both[i]; i++) {
        snprintf(words[at], sizeof *words, both[i]->repeat ? "%s:%u" : "%s", both[i]->name, both[i]->repeat);
        list[count++] = words[at++];
    }
    list[count++] = "--on";
    snprintf(words[at], sizeof *words,
             mode == GREEN       ? "cuda:0,sms=%d"
             : mode == GRIDSMITH ? "serve"
                                 : "cuda",
             bench->sms);
    list[count++] = words[at++];
    snprintf(words[at], sizeof *words, "--ms=%d", (int)(seconds * 1000));
    list[count++] = words[at++];
    snprintf(words[at], sizeof *words, "--rounds=%d", rounds);
    list[count++] = words[at++];
    snprintf(words[at], sizeof *words, "--seconds=%d",
             (int)(SETUP_SECONDS + rounds * seconds_for(bench, seconds / bench->seconds)));
    list[count++] = words[at++];
    if (bench->size) {
        list[count++] = "--size";
        list[count++] = bench->size;
    }
    if (waits)
        list[count++] = "--wait";
    list[count++] = "--json";
    return child_start(started, list, services_environment(&bench->services, mode == MPS, mode == GRIDSMITH));
}

static bool run_alone(struct bench *bench, enum mode mode, application *app, int rounds, double seconds, alone *into) {
    child load;
    event found;
    *into = (alone){.is_there = false};
    if (!start_load(bench, mode, app, NULL, rounds, false, seconds, &load))
        return false;
    bool is_well = expect(&load, SETUP_SECONDS + seconds_for(bench, seconds / bench->seconds), "ready", &found);
    into->setup_ms = found.setup_ms;
    into->compile_ms = found.compile_ms;
    app->repeat = is_well && !app->repeat ? found.repeat : app->repeat;
    for (int i = 0; i < rounds && is_well; i++) {
        is_well = expect(&load, seconds_for(bench, seconds / bench->seconds), "round", &found);
        add(&into->ms, (double)(found.ended_ns - found.began_ns) / 1e6);
    }
    if (is_well)
        is_well = end_load(&load, 1);
    else
        child_kill(&load);
    into->is_there = is_well;
    return is_well;
}

/* One round of both: they begin when a line comes. */
static bool run_round(struct bench *bench, child *loads, int processes, outcome *into) {
    event found[2] = {{.number = 0}, {.number = 0}};
    for (int i = 0; i < processes; i++)
        if (!child_tell(&loads[i], "\n"))
            return false;
    for (int i = 0; i < 2; i++)
        if (!expect(&loads[processes == 2 ? i : 0], seconds_for(bench, 2), "round", &found[i]))
            return false;
    int64_t began_ns = gs_min(found[0].began_ns, found[1].began_ns);
    int64_t ended_ns = -gs_min(-found[0].ended_ns, -found[1].ended_ns);
    add(&into->makespan_ms, (double)(ended_ns - began_ns) / 1e6);
    add(&into->first_ms, (double)(found[0].ended_ns - found[0].began_ns) / 1e6);
    add(&into->second_ms, (double)(found[1].ended_ns - found[1].began_ns) / 1e6);
    return true;
}

static bool run_rounds(struct bench *bench, child *loads, int processes, outcome *into) {
    event found;
    for (int i = 0; i < 2; i++)
        if (!expect(&loads[processes == 2 ? i : 0], SETUP_SECONDS, "ready", &found))
            return false;
    for (int i = 0; i < bench->repeats; i++)
        if (!run_round(bench, loads, processes, into))
            return false;
    return true;
}

static bool run_pair(struct bench *bench, enum mode mode, const pair *of, outcome *into) {
    child loads[2] = {{.pid = 0}, {.pid = 0}};
    int processes = mode == GREEN ? 1 : 2;
    *into = (outcome){.is_there = false};
    bool is_well = start_load(bench, mode, of->first, processes == 1 ? of->second : NULL, bench->repeats, true,
                              bench->seconds, &loads[0]);
    if (is_well && processes == 2)
        is_well = start_load(bench, mode, of->second, NULL, bench->repeats, true, bench->seconds, &loads[1]);
    is_well = is_well && run_rounds(bench, loads, processes, into);
    for (int i = 0; i < processes && is_well; i++)
        is_well = end_load(&loads[i], 2 / processes);
    for (int i = 0; i < processes; i++)
        child_kill(&loads[i]);
    into->is_there = is_well;
    return is_well;
}

/* ---- overheads ---- */

static bool run_launch(struct bench *bench, bool is_served) {
    const char *const list[] = {
        bench->services.program,       "zoo", "launch", "--json", "--on", is_served ? "serve" : "cuda", "--repeat",
        bench->size ? "100" : "10000", NULL};
    launch_times *into = &bench->launch[is_served];
    child asked;
    if (!child_start(&asked, list, services_environment(&bench->services, false, is_served)))
        return false;
    const char *line = child_line(&asked, SETUP_SECONDS);
    json_t *json = line ? json_loads(line, 0, NULL) : NULL;
    into->is_there = json && json_unpack(json, "{s:F, s:F}", "waited_us", &into->waited_us, "pipelined_us",
                                         &into->pipelined_us) == 0;
    json_decref(json);
    return child_end(&asked, SPARE_SECONDS) == 0 && into->is_there;
}

/* In percent of an application that takes 30 seconds: what talking to the daemon costs, in the rounds and once at the
   start; and injection with compilation, which is all that loading took the first time. */
static void overheads_of(const application *app, double *communication, double *compilation) {
    const double thirty_seconds_ms = 30000;
    bool is_long = app->long_direct.is_there && app->long_served.is_there;
    const alone *direct = is_long ? &app->long_direct : &app->direct;
    const alone *served = is_long ? &app->long_served : &app->served;
    double slower = median(&served->ms) / median(&direct->ms) - 1;
    double once_ms = served->setup_ms - served->compile_ms - (direct->setup_ms - direct->compile_ms);
    *communication = 100 * (slower + once_ms / thirty_seconds_ms);
    *compilation = 100 * app->served.compile_ms / thirty_seconds_ms;
}

/* ---- for people ---- */

static double gain_of(const pair *of, enum mode mode) {
    return 100 *
           ((median(&of->first->direct.ms) + median(&of->second->direct.ms)) / median(&of->outcomes[mode].makespan_ms) -
            1);
}

/* How much more one mode does in the same time than another; NAN: one of them is not there. */
static double over(const pair *of, enum mode mode, enum mode other) {
    return of->outcomes[mode].is_there && of->outcomes[other].is_there
               ? 100 * (median(&of->outcomes[other].makespan_ms) / median(&of->outcomes[mode].makespan_ms) - 1)
               : NAN;
}

static double over_best(const pair *of) {
    double least = NAN;
    for (enum mode other = TIME_SLICED; other < GRIDSMITH; other++)
        least = fmin(least, over(of, GRIDSMITH, other));
    return least;
}

static void print_alone(const struct bench *bench, const application *app) {
    if (bench->is_json)
        return;
    printf("%s  %-14s %9.2f ms alone, spread %.1f%%; %u repetitions; set up in %.0f ms\n", app->letters, app->name,
           median(&app->direct.ms), spread(&app->direct.ms), app->repeat, app->direct.setup_ms);
    fflush(stdout);
}

static void print_header(const struct bench *bench) {
    if (bench->is_json)
        return;
    printf("\nmakespan in ms, its spread, and the gain over one after the other\npair       alone");
    for (int mode = 0; mode < MODES; mode++)
        if (bench->is_used[mode])
            printf("  %24s", modes[mode].words);
    printf("%s\n", bench->is_used[GRIDSMITH] ? "  d over b  d over best" : "");
    fflush(stdout);
}

static void print_percent(double percent, int width) {
    if (isnan(percent))
        printf("  %*s", width, "-");
    else
        printf("  %+*.1f%%", width - 1, percent);
}

static void print_pair(const struct bench *bench, const pair *of) {
    if (bench->is_json)
        return;
    printf("%s-%s  %9.1f", of->first->letters, of->second->letters,
           median(&of->first->direct.ms) + median(&of->second->direct.ms));
    for (enum mode mode = 0; mode < MODES; mode++) {
        const outcome *found = &of->outcomes[mode];
        if (bench->is_used[mode] && found->is_there)
            printf("  %9.1f %5.1f%% %+6.1f%%", median(&found->makespan_ms), spread(&found->makespan_ms),
                   gain_of(of, mode));
        else if (bench->is_used[mode])
            printf("  %24s", "failed");
    }
    if (bench->is_used[GRIDSMITH]) {
        print_percent(over(of, GRIDSMITH, MPS), 8);
        print_percent(over_best(of), 11);
    }
    printf("\n");
    fflush(stdout);
}

/* The average, and the least with the pair that has it. */
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

static void print_summary(const summary *of, const char *words) {
    if (of->count)
        printf("%-40s %+6.1f%% on average over %d pairs, least %+.1f%% (%s-%s)\n", words, of->sum / of->count,
               of->count, of->least, of->worst->first->letters, of->worst->second->letters);
}

static void print_averages(const struct bench *bench) {
    summary gains[MODES] = {{.sum = 0}}, over_mps = {.sum = 0}, best = {.sum = 0};
    for (int i = 0; i < PAIRS; i++) {
        const pair *of = &bench->pairs[i];
        for (enum mode mode = 0; mode < MODES; mode++)
            if (of->outcomes[mode].is_there)
                sum_up(&gains[mode], of, gain_of(of, mode));
        sum_up(&over_mps, of, over(of, GRIDSMITH, MPS));
        sum_up(&best, of, over_best(of));
    }
    printf("\n");
    for (int mode = 0; mode < MODES; mode++) {
        char words[80];
        snprintf(words, sizeof words, "(%c) %s over one after the other", modes[mode].letter, modes[mode].words);
        print_summary(&gains[mode], words);
        if (bench->why_not[mode][0])
            printf("(%c) %s: %s\n", modes[mode].letter, modes[mode].words, bench->why_not[mode]);
    }
    print_summary(&over_mps, "Gridsmith over MPS");
    print_summary(&best, "Gridsmith over the best of the others");
}

static void print_overheads(const struct bench *bench) {
    for (int i = 0; i < APPLICATIONS; i++) {
        const application *app = &bench->applications[i];
        double communication, compilation;
        if (!app->served.is_there || !app->direct.is_there)
            continue;
        overheads_of(app, &communication, &compilation);
        printf("%s alone through the daemon: communication %+.2f%%, injection and compilation %.2f%% of 30 seconds"
               " (a round takes %.2f ms, direct %.2f; compiling %.0f ms, direct %.0f)\n",
               app->letters, communication, compilation, median(&app->served.ms), median(&app->direct.ms),
               app->served.compile_ms, app->direct.compile_ms);
    }
    for (int i = 0; i < 2; i++)
        if (bench->launch[i].is_there)
            printf("an empty kernel %s: %.2f us launched and waited for, %.2f us in a row\n",
                   i ? "through the daemon" : "direct", bench->launch[i].waited_us, bench->launch[i].pipelined_us);
}

/* ---- for programs ---- */

static void put_number(gs_text *text, const char *key, double value) {
    if (isnan(value))
        gs_text_add(text, "\"%s\":null", key);
    else
        gs_text_add(text, "\"%s\":%.4f", key, value);
}

static void put_series(gs_text *text, const char *key, const series *from) {
    gs_text_add(text, "\"%s\":{", key);
    put_number(text, "median", median(from));
    gs_text_add(text, ",");
    put_number(text, "spread_percent", spread(from));
    gs_text_add(text, ",\"all\":[");
    for (int i = 0; i < from->count; i++)
        gs_text_add(text, "%s%.4f", i ? "," : "", from->values[i]);
    gs_text_add(text, "]}");
}

static void put_alone(gs_text *text, const char *key, const alone *of) {
    if (!of->is_there)
        return;
    gs_text_add(text, ",\"%s\":{", key);
    put_series(text, "round_ms", &of->ms);
    gs_text_add(text, ",\"setup_ms\":%.3f,\"compile_ms\":%.3f}", of->setup_ms, of->compile_ms);
}

static void put_application(gs_text *text, const application *app) {
    double communication, compilation;
    gs_text_add(text, "{\"letters\":\"%s\",\"kernel\":\"%s\",\"repeat\":%u", app->letters, app->name, app->repeat);
    put_alone(text, "direct", &app->direct);
    put_alone(text, "served", &app->served);
    put_alone(text, "long_direct", &app->long_direct);
    put_alone(text, "long_served", &app->long_served);
    if (app->served.is_there && app->direct.is_there) {
        overheads_of(app, &communication, &compilation);
        gs_text_add(text, ",\"communication_percent\":%.4f,\"compilation_percent\":%.4f", communication, compilation);
    }
    gs_text_add(text, "}");
}

static void put_pair(gs_text *text, const pair *of) {
    gs_text_add(text, "{\"pair\":\"%s-%s\"", of->first->letters, of->second->letters);
    for (enum mode mode = 0; mode < MODES; mode++) {
        const outcome *found = &of->outcomes[mode];
        if (!found->is_there)
            continue;
        gs_text_add(text, ",\"%s\":{", modes[mode].name);
        put_series(text, "makespan_ms", &found->makespan_ms);
        gs_text_add(text, ",");
        put_series(text, "first_ms", &found->first_ms);
        gs_text_add(text, ",");
        put_series(text, "second_ms", &found->second_ms);
        gs_text_add(text, ",");
        put_number(text, "gain_percent", gain_of(of, mode));
        gs_text_add(text, "}");
    }
    gs_text_add(text, ",");
    put_number(text, "over_mps_percent", over(of, GRIDSMITH, MPS));
    gs_text_add(text, ",");
    put_number(text, "over_best_percent", over_best(of));
    gs_text_add(text, "}");
}

static void print_json(const struct bench *bench) {
    gs_text text = {.sink = stdout};
    const char *between = "";
    gs_text_add(&text, "{\"schema\":\"gridsmith.share/1\",\"seconds\":%.3f,\"repeats\":%d,\"applications\":[",
                bench->seconds, bench->repeats);
    for (int i = 0; i < APPLICATIONS; i++)
        if (bench->applications[i].is_wanted) {
            gs_text_add(&text, "%s", between);
            put_application(&text, &bench->applications[i]);
            between = ",";
        }
    gs_text_add(&text, "],\"pairs\":[");
    between = "";
    for (int i = 0; i < PAIRS; i++)
        if (bench->pairs[i].is_wanted) {
            gs_text_add(&text, "%s", between);
            put_pair(&text, &bench->pairs[i]);
            between = ",";
        }
    gs_text_add(&text, "],\"launch\":{");
    between = "";
    for (int i = 0; i < 2; i++)
        if (bench->launch[i].is_there) {
            gs_text_add(&text, "%s\"%s\":{\"waited_us\":%.3f,\"pipelined_us\":%.3f}", between, i ? "served" : "direct",
                        bench->launch[i].waited_us, bench->launch[i].pipelined_us);
            between = ",";
        }
    gs_text_add(&text, "},\"not_measured\":{");
    between = "";
    for (int mode = 0; mode < MODES; mode++)
        if (bench->why_not[mode][0]) {
            gs_text_add(&text, "%s\"%s\":", between, modes[mode].name);
            gs_text_put_json(&text, bench->why_not[mode]);
            between = ",";
        }
    gs_text_add(&text, "},\"failed\":%d}\n", bench->wrong);
    gs_text_flush(&text);
    gs_text_free(&text);
}

/* ---- all of it ---- */

static bool is_time_left(const struct bench *bench) {
    return !services_interrupted() && gs_now_ns() - bench->began_ns < (int64_t)bench->limit_seconds * 1000000000;
}

static void refuse(struct bench *bench, enum mode mode, const char *why) {
    bench->is_used[mode] = false;
    snprintf(bench->why_not[mode], sizeof bench->why_not[mode], "%s", why);
}

static void start_services(struct bench *bench) {
    char why[200];
    if (bench->is_used[MPS] && !services_start_mps(&bench->services, why, sizeof why))
        refuse(bench, MPS, why);
    if (bench->is_used[GRIDSMITH] && !services_start_daemon(&bench->services, why, sizeof why))
        refuse(bench, GRIDSMITH, why);
}

/* Alone, direct: without that there is nothing to compare with. */
static bool measure_alone(struct bench *bench) {
    for (int i = 0; i < APPLICATIONS && is_time_left(bench); i++) {
        application *app = &bench->applications[i];
        if (!app->is_wanted)
            continue;
        if (!run_alone(bench, TIME_SLICED, app, bench->repeats, bench->seconds, &app->direct))
            return false;
        print_alone(bench, app);
    }
    return true;
}

/* Alone through the daemon, which also shows it each kernel before the pairs. */
static void measure_served(struct bench *bench) {
    run_launch(bench, false);
    for (int i = 0; i < APPLICATIONS && is_time_left(bench) && bench->is_used[GRIDSMITH]; i++) {
        application *app = &bench->applications[i];
        if (app->is_wanted && !run_alone(bench, GRIDSMITH, app, bench->repeats, bench->seconds, &app->served))
            refuse(bench, GRIDSMITH, "an application alone through the daemon failed");
    }
    if (bench->is_used[GRIDSMITH])
        run_launch(bench, true);
}

/* Rounds of 30 seconds, one direct and one through the daemon. */
static void measure_long(struct bench *bench) {
    const double long_seconds = 30;
    for (int i = 0; i < APPLICATIONS && is_time_left(bench) && bench->is_used[GRIDSMITH]; i++) {
        application *app = &bench->applications[i], longer = *app;
        longer.repeat = (uint32_t)(app->repeat * long_seconds / bench->seconds);
        if (app->is_wanted && run_alone(bench, TIME_SLICED, &longer, 1, long_seconds, &app->long_direct))
            run_alone(bench, GRIDSMITH, &longer, 1, long_seconds, &app->long_served);
    }
}

static void measure_pairs(struct bench *bench) {
    print_header(bench);
    for (int i = 0; i < PAIRS; i++) {
        pair *of = &bench->pairs[i];
        if (of->is_wanted && !is_time_left(bench)) {
            bench->wrong++;
            fprintf(stderr, "share: %s-%s was not measured: no time left\n", of->first->letters, of->second->letters);
            continue;
        }
        for (enum mode mode = 0; mode < MODES && of->is_wanted; mode++) {
            if (!bench->is_used[mode] || services_interrupted())
                continue;
            bool is_well = run_pair(bench, mode, of, &of->outcomes[mode]);
            bench->failures[mode] = is_well ? 0 : bench->failures[mode] + 1;
            bench->wrong += !is_well;
            if (bench->failures[mode] == MOST_FAILURES)
                refuse(bench, mode, "failed three times in a row");
        }
        if (of->is_wanted)
            print_pair(bench, of);
    }
}

static int measure(struct bench *bench) {
    bench->began_ns = gs_now_ns();
    start_services(bench);
    if (!measure_alone(bench)) {
        fprintf(stderr, "share: an application alone on the GPU failed\n");
        return 3;
    }
    measure_served(bench);
    measure_pairs(bench);
    if (bench->is_long)
        measure_long(bench);
    if (bench->is_json) {
        print_json(bench);
    } else {
        print_averages(bench);
        print_overheads(bench);
        printf("took %.0f s\n", (double)(gs_now_ns() - bench->began_ns) / 1e9);
    }
    return services_interrupted() ? 130 : bench->wrong > 0;
}

/* ---- the command line ---- */

static void put_applications(struct bench *bench) {
    static const char *const names[APPLICATIONS][2] = {
        {"black_scholes", "BS"}, {"gaussian", "GS"}, {"sgemm", "MM"}, {"quasirandom", "RG"}, {"transpose", "TR"}};
    int count = 0;
    for (int i = 0; i < APPLICATIONS; i++)
        bench->applications[i] = (application){.name = names[i][0], .letters = names[i][1]};
    for (int i = 0; i < APPLICATIONS; i++)
        for (int k = i; k < APPLICATIONS; k++)
            bench->pairs[count++] = (pair){.first = &bench->applications[i], .second = &bench->applications[k]};
}

/* --only BS-RG,GS-GS; "none" is no pair, but all applications alone. False: there is no such pair. */
static bool choose_pairs(struct bench *bench) {
    size_t found = 0;
    for (int i = 0; i < PAIRS; i++) {
        pair *of = &bench->pairs[i];
        char words[2][8];
        snprintf(words[0], sizeof *words, "%s-%s", of->first->letters, of->second->letters);
        snprintf(words[1], sizeof *words, "%s-%s", of->second->letters, of->first->letters);
        of->is_wanted = !bench->only || strstr(bench->only, words[0]) || strstr(bench->only, words[1]);
        found += of->is_wanted ? strlen(words[0]) + 1 : 0;
        of->first->is_wanted |= of->is_wanted;
        of->second->is_wanted |= of->is_wanted;
    }
    for (int i = 0; i < APPLICATIONS && bench->only && strcmp(bench->only, "none") == 0; i++)
        bench->applications[i].is_wanted = true;
    return !bench->only || strcmp(bench->only, "none") == 0 || found == strlen(bench->only) + 1;
}

static bool choose_modes(struct bench *bench, const char *letters) {
    for (int mode = 0; mode < MODES; mode++)
        bench->is_used[mode] = strchr(letters, modes[mode].letter);
    return letters[0] && strspn(letters, "abcd") == strlen(letters);
}

static const char help[] = "usage: share [options]\n\n"
                           "Five applications of the zoo alone and in all pairs on one GPU: as two processes (a), "
                           "under MPS (b), with half of\n"
                           "the SMs each (c), and through 'gridsmith serve' (d). Takes about 8 minutes.\n\n"
                           "  --seconds S      how long an application takes alone (default 0.5)\n"
                           "  --repeats N      how often each pair runs (default 5); medians are printed\n"
                           "  --modes LETTERS  some of abcd (default all)\n"
                           "  --only PAIRS     BS-RG,GS-GS; or none: the applications alone\n"
                           "  --sms N          SMs of a half (default 64)\n"
                           "  --size NAME      of the applications (default: the one for loads)\n"
                           "  --long           overheads from rounds of 30 seconds\n"
                           "  --limit S        begin no pair after so long (default 540)\n"
                           "  --program FILE   gridsmith (default: beside this program)\n"
                           "  --json           write gridsmith.share/1\n"
                           "  --help           show this\n";

static int mistake(const char *words) {
    fprintf(stderr, "share: %s; see 'share --help'\n", words);
    return 2;
}

/* -1: go on; else the exit code. */
static int parse(struct bench *bench, int argc, char **argv, const char **program) {
    static const struct option options[] = {
        {"seconds", 1, NULL, 's'}, {"repeats", 1, NULL, 'r'}, {"modes", 1, NULL, 'm'}, {"only", 1, NULL, 'o'},
        {"sms", 1, NULL, 'n'},     {"size", 1, NULL, 'z'},    {"long", 0, NULL, 'l'},  {"limit", 1, NULL, 't'},
        {"program", 1, NULL, 'p'}, {"json", 0, NULL, 'j'},    {"help", 0, NULL, 'h'},  {NULL, 0, NULL, 0}};
    const char *letters = "abcd";
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        bench->seconds = option == 's' ? strtod(optarg, NULL) : bench->seconds;
        bench->repeats = option == 'r' ? atoi(optarg) : bench->repeats;
        bench->sms = option == 'n' ? atoi(optarg) : bench->sms;
        bench->limit_seconds = option == 't' ? atoi(optarg) : bench->limit_seconds;
        letters = option == 'm' ? optarg : letters;
        bench->only = option == 'o' ? optarg : bench->only;
        bench->size = option == 'z' ? optarg : bench->size;
        *program = option == 'p' ? optarg : *program;
        bench->is_long |= option == 'l';
        bench->is_json |= option == 'j';
        if (option == 'h')
            return fputs(help, stdout) < 0 ? 4 : 0;
        if (option == '?')
            return 2;
    }
    if (optind < argc)
        return mistake("it takes options only");
    if (!(bench->seconds >= 0.001 && bench->seconds <= 100))
        return mistake("--seconds takes a number from 0.001 to 100");
    if (bench->repeats < 1 || bench->repeats > MOST_REPEATS)
        return mistake("--repeats takes a number from 1 to 100");
    if (bench->sms < 1 || bench->limit_seconds < 1)
        return mistake("--sms and --limit take a number from 1");
    if (!choose_modes(bench, letters))
        return mistake("--modes takes some of the letters abcd");
    return choose_pairs(bench) ? -1 : mistake("--only takes pairs of BS, GS, MM, RG and TR, such as BS-RG,GS-GS");
}

int main(int argc, char **argv) {
    struct bench *bench = calloc(1, sizeof *bench);
    const char *program = NULL;
    if (!bench)
        return 4;
    bench->seconds = 0.5;
    bench->repeats = 5;
    bench->sms = 64;
    bench->limit_seconds = 540;
    put_applications(bench);
    int status = parse(bench, argc, argv, &program);
    if (status < 0)
        status = services_open(&bench->services, program, argv[0]) ? measure(bench) : 4;
    services_close(&bench->services);
    free(bench);
    return status;
}
