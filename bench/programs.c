/*
 * programs.c: pairs of programs that stay loaded: each of --first beside each of --second, in some of these ways
 *
 *   o   one after the other, in one process
 *   s   as two threads of that process, each with a stream
 *   b   as two processes under MPS
 *   d   as two clients of 'gridsmith serve'; f and g: of a second and a third one, which learn for themselves
 *   e   as two clients of 'gridsmith serve --plan', which knows what kernels gain on the same SMs (with --plan)
 *
 * bench/share starts two programs for each pair and way, which takes much longer than the rounds that count. Here each
 * way has one or two processes of 'gridsmith zoo load --wait' with all programs, which are set up once; a line to them
 * names the programs of a round. So a pair takes about a second, and 150 pairs three minutes. With --fresh only those
 * without a daemon stay: for each pair the daemons begin anew, and know nothing.
 *
 * The rounds of all ways of a pair alternate, because a GPU changes its clocks. A program of --first repeats as often
 * as takes --ms, and the other one as often as takes the same time. Pairs are in an order in which a run that is cut
 * has something of each program. Each pair is a line of JSON (gridsmith.programs/1) as soon as it was measured.
 */
#include "services.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PROGRAMS = 16, MOST_ROUNDS = 25, PATIENCE_SECONDS = 180, ROUND_SECONDS = 20 };

enum way { SERIAL, STREAMS, MPS, SERVED, SERVED_2, SERVED_3, PLANNED, WAYS };

/* The processes of a way. */
enum stage { DIRECT_STAGE, MPS_STAGE, SERVED_STAGE, SERVED_2_STAGE, SERVED_3_STAGE, PLANNED_STAGE, STAGES };

static const struct {
    char letter;
    const char *name;
    enum stage stage;
} ways[WAYS] = {{'o', "serial", DIRECT_STAGE},  {'s', "streams", DIRECT_STAGE},    {'b', "mps", MPS_STAGE},
                {'d', "served", SERVED_STAGE},  {'f', "served_2", SERVED_2_STAGE}, {'g', "served_3", SERVED_3_STAGE},
                {'e', "planned", PLANNED_STAGE}};

static const enum services_of service_of[STAGES] = {SERVICES_NONE,     SERVICES_MPS,      SERVICES_DAEMON,
                                                    SERVICES_DAEMON_2, SERVICES_DAEMON_3, SERVICES_PLANNED};

typedef struct program {
    const char *name;
    int numbers[STAGES];                  /* in its process of a stage */
    uint32_t repeat;                      /* takes --ms, */
    double ms;                            /* exactly this */
    double alone_ms[STAGES][MOST_ROUNDS]; /* through a daemon, before the pairs */
    int alone_counts[STAGES];
} program;

typedef struct list {
    program data[MOST_PROGRAMS];
    int count;
} list;

/* What the status of a daemon counts. */
static const char *const counted[] = {"launches", "launches_inside", "launches_confined", "launches_looped", "resizes",
                                      "turns"};

typedef struct times {
    double makespan_ms, first_ms, second_ms;
    int64_t counts[GS_COUNT(counted)];
} times;

typedef struct pair {
    const program *first, *second;
    uint32_t first_repeat, second_repeat;
    times rounds[WAYS][MOST_ROUNDS];
    int counts[WAYS];
} pair;

struct bench {
    list firsts, seconds;
    bool is_used[WAYS], is_half; /* is_half: both lists are the same, and each pair is measured once */
    child loads[STAGES][2];
    bool is_up[STAGES];
    const char *plan, *size, *only, *keep, *other;
    bool is_fresh; /* daemons begin anew for each pair */
    int ms, rounds, warm_up, alone, limit_seconds, failures;
    double sums[WAYS]; /* of gains over one after the other, */
    int sum_counts[WAYS];
    int64_t began_ns;
    struct services services;
};

/* ---- processes ---- */

static bool needs_stage(const struct bench *bench, enum stage stage) {
    bool is_needed = stage == DIRECT_STAGE; /* finds the repetitions */
    for (enum way way = 0; way < WAYS; way++)
        is_needed |= bench->is_used[way] && ways[way].stage == stage;
    return is_needed;
}

/* The process of the first, or of the second program of a pair. */
static child *load_of(struct bench *bench, enum stage stage, bool is_second) {
    return &bench->loads[stage][is_second && stage != DIRECT_STAGE];
}

/* Adds the programs of a list to a command; `count` is how many the process has. */
static int add_names(list *programs, enum stage stage, const char **words, char (*texts)[64], int count) {
    for (int i = 0; i < programs->count; i++) {
        program *one = &programs->data[i];
        one->numbers[stage] = count;
        snprintf(texts[count], sizeof *texts, "%s:1", one->name);
        words[3 + count] = texts[count];
        count++;
    }
    return count;
}

/* "gridsmith zoo load NAME:1... --wait"; `more` may be NULL. */
static bool start_load(struct bench *bench, enum stage stage, list *programs, list *more, child *started) {
    char texts[2 * MOST_PROGRAMS][64], ms[32], limit[32];
    const char *words[2 * MOST_PROGRAMS + 16] = {bench->services.program, "zoo", "load"};
    int count = add_names(programs, stage, words, texts, 0);
    count = more ? add_names(more, stage, words, texts, count) : count;
    snprintf(ms, sizeof ms, "--ms=%d", bench->ms);
    snprintf(limit, sizeof limit, "--seconds=%d", bench->limit_seconds + 2 * PATIENCE_SECONDS);
    const char *const options[] = {"--on",
                                   stage >= SERVED_STAGE ? "serve" : "cuda",
                                   ms,
                                   limit,
                                   "--rounds=1000000",
                                   "--wait",
                                   "--json",
                                   "--size",
                                   bench->size};
    memcpy(words + 3 + count, options, sizeof options);
    if (!bench->size)
        words[3 + count + GS_COUNT(options) - 2] = NULL;
    return count > 0 && child_start(started, words, services_environment(&bench->services, service_of[stage]));
}

static void drop_stage(struct bench *bench, enum stage stage, const char *why) {
    if (bench->is_up[stage])
        fprintf(stderr, "programs: stage %d is given up: %s\n", (int)stage, why);
    bench->is_up[stage] = false;
    bench->failures++;
    for (int i = 0; i < 2; i++)
        child_kill(&bench->loads[stage][i]);
}

static void start_service(struct bench *bench, enum stage stage) {
    char why[200];
    bool is_started = true;
    bench->is_up[stage] = true;
    if (stage == MPS_STAGE)
        is_started = services_start_mps(&bench->services, why, sizeof why);
    else if (stage >= SERVED_STAGE)
        is_started = services_start_daemon(&bench->services, service_of[stage], bench->plan, why, sizeof why);
    if (!is_started)
        drop_stage(bench, stage, why);
}

static void start_loads(struct bench *bench, enum stage stage, list *firsts, list *seconds) {
    char why[200] = "a process did not start";
    bool is_started = bench->is_up[stage];
    if (is_started && stage >= SERVED_STAGE)
        is_started = services_await_daemon(&bench->services, service_of[stage], why, sizeof why);
    if (is_started && stage == DIRECT_STAGE)
        is_started = start_load(bench, stage, firsts, seconds, &bench->loads[stage][0]);
    else if (is_started)
        is_started = start_load(bench, stage, firsts, NULL, &bench->loads[stage][0]) &&
                     start_load(bench, stage, seconds, NULL, &bench->loads[stage][1]);
    if (!is_started && bench->is_up[stage])
        drop_stage(bench, stage, why);
}

/* The next event of a process; NULL: none came in time. The caller frees it. */
static json_t *next_event(child *from, double seconds, const char *wanted) {
    const char *line = child_line(from, seconds);
    json_t *json = line ? json_loads(line, 0, NULL) : NULL;
    const char *event = json_string_value(json_object_get(json, "event"));
    if (event && strcmp(event, wanted) == 0)
        return json;
    json_decref(json);
    return NULL;
}

/* Waits until all programs of a list are set up. */
static bool is_list_ready(child *load, const list *programs) {
    bool is_ready = true;
    for (int i = 0; i < programs->count && is_ready; i++) {
        json_t *event = next_event(load, PATIENCE_SECONDS, "ready");
        is_ready = event != NULL;
        json_decref(event);
    }
    return is_ready;
}

static void wait_for_stage(struct bench *bench, enum stage stage, const list *firsts, const list *seconds) {
    if (bench->is_up[stage] &&
        !(is_list_ready(load_of(bench, stage, false), firsts) && is_list_ready(load_of(bench, stage, true), seconds)))
        drop_stage(bench, stage, "a program was not set up");
}

/* Starts those of the stages from `first` up to `last` that are needed. */
static void start_stages(struct bench *bench, enum stage first, enum stage last, list *firsts, list *seconds) {
    for (enum stage stage = first; stage <= last; stage++)
        if (needs_stage(bench, stage))
            start_service(bench, stage);
    for (enum stage stage = first; stage <= last; stage++)
        if (needs_stage(bench, stage))
            start_loads(bench, stage, firsts, seconds);
    for (enum stage stage = first; stage <= last; stage++)
        wait_for_stage(bench, stage, firsts, seconds);
}

/* ---- rounds ---- */

typedef struct span {
    int64_t began_ns, ended_ns;
    uint32_t repeat;
} span;

static bool read_round(child *from, int *number, span *into) {
    json_t *event = next_event(from, ROUND_SECONDS, "round");
    if (!event)
        return false;
    *number = (int)json_integer_value(json_object_get(event, "application"));
    *into = (span){.began_ns = json_integer_value(json_object_get(event, "began_ns")),
                   .ended_ns = json_integer_value(json_object_get(event, "ended_ns")),
                   .repeat = (uint32_t)json_integer_value(json_object_get(event, "repeat"))};
    json_decref(event);
    return true;
}

static double span_ms(const span *of) {
    return (double)(of->ended_ns - of->began_ns) / 1e6;
}

/* One program alone. */
static bool run_alone(child *load, int number, uint32_t repeat, span *into) {
    char line[64];
    int ignored;
    snprintf(line, sizeof line, "%d:%u\n", number, repeat);
    return child_write(load, line) && read_round(load, &ignored, into);
}

static bool run_serial(struct bench *bench, const pair *of, times *into) {
    child *load = &bench->loads[DIRECT_STAGE][0];
    span spans[2];
    if (!run_alone(load, of->first->numbers[DIRECT_STAGE], of->first_repeat, &spans[0]) ||
        !run_alone(load, of->second->numbers[DIRECT_STAGE], of->second_repeat, &spans[1]))
        return false;
    into->makespan_ms = span_ms(&spans[0]) + span_ms(&spans[1]);
    into->first_ms = span_ms(&spans[0]);
    into->second_ms = span_ms(&spans[1]);
    return true;
}

/* Both at once. In one process, the program with the lower number is printed first. */
static bool run_together(struct bench *bench, enum stage stage, const pair *of, times *into) {
    child *loads[] = {load_of(bench, stage, false), load_of(bench, stage, true)};
    char lines[2][64];
    span spans[2];
    int number;
    snprintf(lines[0], sizeof *lines, "%d:%u%s", of->first->numbers[stage], of->first_repeat,
             loads[0] == loads[1] ? " " : "\n");
    snprintf(lines[1], sizeof *lines, "%d:%u\n", of->second->numbers[stage], of->second_repeat);
    for (int i = 0; i < 2; i++)
        if (!child_write(loads[i], lines[i]))
            return false;
    for (int i = 0; i < 2; i++)
        if (!read_round(loads[i], &number, &spans[i]))
            return false;
    int64_t began_ns = gs_min(spans[0].began_ns, spans[1].began_ns);
    int64_t ended_ns = gs_max(spans[0].ended_ns, spans[1].ended_ns);
    into->makespan_ms = (double)(ended_ns - began_ns) / 1e6;
    into->first_ms = span_ms(&spans[0]);
    into->second_ms = span_ms(&spans[1]);
    return true;
}

static bool can_run(const struct bench *bench, enum way way) {
    return bench->is_used[way] && bench->is_up[ways[way].stage];
}

/* Adds what the daemon of a stage has counted so far, or subtracts it. */
static void ask_daemon(struct bench *bench, enum stage stage, int sign, times *into) {
    const char *const words[] = {bench->services.program, "status", "--json", NULL};
    child asked;
    if (stage < SERVED_STAGE || !child_start(&asked, words, services_environment(&bench->services, service_of[stage])))
        return;
    const char *line = child_line(&asked, ROUND_SECONDS);
    json_t *status = line ? json_loads(line, 0, NULL) : NULL;
    for (size_t i = 0; i < GS_COUNT(counted); i++)
        into->counts[i] += sign * json_integer_value(json_object_get(status, counted[i]));
    json_decref(status);
    child_kill(&asked);
}

static void run_way(struct bench *bench, enum way way, pair *of, bool is_counted) {
    enum stage stage = ways[way].stage;
    times found = {0};
    if (!can_run(bench, way))
        return;
    if (is_counted)
        ask_daemon(bench, stage, -1, &found);
    if (!(way == SERIAL ? run_serial(bench, of, &found) : run_together(bench, stage, of, &found))) {
        drop_stage(bench, stage, "a round failed");
        return;
    }
    if (is_counted) {
        ask_daemon(bench, stage, 1, &found);
        of->rounds[way][of->counts[way]++] = found;
    }
}

static void measure_pair(struct bench *bench, pair *of) {
    double pass_ms = of->second->ms / of->second->repeat;
    of->first_repeat = of->first->repeat;
    of->second_repeat = (uint32_t)gs_max(1, (int64_t)(of->first->ms / pass_ms + 0.5));
    for (int i = 0; i < bench->warm_up; i++)
        for (enum way way = SERVED; way < WAYS; way++)
            run_way(bench, way, of, false);
    for (int i = 0; i < bench->rounds; i++)
        for (enum way way = 0; way < WAYS; way++)
            run_way(bench, way, of, true);
}

/* Finds how often a program repeats in --ms, and what that takes. */
static bool find_repeat(struct bench *bench, program *one) {
    child *load = &bench->loads[DIRECT_STAGE][0];
    span found;
    if (!run_alone(load, one->numbers[DIRECT_STAGE], 0, &found))
        return false;
    one->repeat = found.repeat;
    bool is_found = run_alone(load, one->numbers[DIRECT_STAGE], one->repeat, &found);
    one->ms = span_ms(&found);
    return is_found;
}

/* Some rounds alone, so that a daemon knows the kernels; prints each, and what the daemon counted in the last. */
static void make_known(struct bench *bench, enum stage stage, program *one, bool is_second) {
    times last = {0};
    one->alone_counts[stage] = 0;
    if (!bench->is_up[stage])
        return;
    for (int i = 0; i < bench->alone; i++) {
        span found;
        if (i == bench->alone - 1)
            ask_daemon(bench, stage, -1, &last);
        if (!run_alone(load_of(bench, stage, is_second), one->numbers[stage], one->repeat, &found)) {
            drop_stage(bench, stage, one->name);
            return;
        }
        one->alone_ms[stage][one->alone_counts[stage]++] = span_ms(&found);
        fprintf(stderr, "%s %.2f", i ? "" : ", through a daemon", span_ms(&found));
    }
    ask_daemon(bench, stage, 1, &last);
    for (size_t i = 0; i < GS_COUNT(counted); i++)
        fprintf(stderr, "%s %s %lld", i ? "," : " ms;", counted[i], (long long)last.counts[i]);
}

static void make_all_known(struct bench *bench, list *programs, bool is_second) {
    for (int i = 0; i < programs->count; i++) {
        program *one = &programs->data[i];
        fprintf(stderr, "%-20s alone %.2f ms, %u times", one->name, one->ms, one->repeat);
        for (enum stage stage = SERVED_STAGE; stage < STAGES; stage++)
            make_known(bench, stage, one, is_second);
        fprintf(stderr, "\n");
    }
}

static bool find_repeats(struct bench *bench, list *programs) {
    for (int i = 0; i < programs->count; i++)
        if (!find_repeat(bench, &programs->data[i]))
            return false;
    return true;
}

/* ---- output ---- */

static int by_size(const void *a, const void *b) {
    const double first = *(const double *)a, second = *(const double *)b;
    return first < second ? -1 : first > second;
}

/* NAN: it was not measured. */
static double median_makespan(const pair *of, enum way way) {
    double sorted[MOST_ROUNDS];
    int count = of->counts[way];
    for (int i = 0; i < count; i++)
        sorted[i] = of->rounds[way][i].makespan_ms;
    qsort(sorted, (size_t)count, sizeof *sorted, by_size);
    return count ? (sorted[(count - 1) / 2] + sorted[count / 2]) / 2 : NAN;
}

static void write_times(gs_writer *writer, const char *key, const double *ms, int count) {
    gs_write_array(writer, key);
    for (int i = 0; i < count; i++)
        gs_write_real(writer, NULL, ms[i], 3);
    gs_write_end(writer);
}

static void write_rounds(gs_writer *writer, const pair *of, enum way way) {
    static const char *const keys[] = {"makespan_ms", "first_ms", "second_ms"};
    gs_write_object(writer, ways[way].name);
    for (int key = 0; key < 3; key++) {
        gs_write_array(writer, keys[key]);
        for (int i = 0; i < of->counts[way]; i++) {
            const times *round = &of->rounds[way][i];
            gs_write_real(writer, NULL,
                          key == 0   ? round->makespan_ms
                          : key == 1 ? round->first_ms
                                     : round->second_ms,
                          3);
        }
        gs_write_end(writer);
    }
    for (size_t key = 0; key < GS_COUNT(counted) && way >= SERVED; key++) {
        gs_write_array(writer, counted[key]);
        for (int i = 0; i < of->counts[way]; i++)
            gs_write_int(writer, NULL, of->rounds[way][i].counts[key]);
        gs_write_end(writer);
    }
    enum stage stage = ways[way].stage;
    if (way >= SERVED) {
        write_times(writer, "first_alone_ms", of->first->alone_ms[stage], of->first->alone_counts[stage]);
        write_times(writer, "second_alone_ms", of->second->alone_ms[stage], of->second->alone_counts[stage]);
    }
    gs_write_end(writer);
}

static void print_pair(struct bench *bench, const pair *of) {
    gs_text text = {.sink = stdout};
    gs_writer writer = gs_writer_to(&text);
    gs_write_document(&writer, "gridsmith.programs/1");
    gs_write_string(&writer, "first", of->first->name);
    gs_write_string(&writer, "second", of->second->name);
    gs_write_uint(&writer, "first_repeat", of->first_repeat);
    gs_write_uint(&writer, "second_repeat", of->second_repeat);
    fprintf(stderr, "%-20s %-14s", of->first->name, of->second->name);
    for (enum way way = 0; way < WAYS; way++) {
        double ms = median_makespan(of, way), gain = 100 * (median_makespan(of, SERIAL) / ms - 1);
        if (isnan(ms))
            continue;
        write_rounds(&writer, of, way);
        fprintf(stderr, "  %s %.1f", ways[way].name, ms);
        if (way == SERIAL || isnan(gain))
            continue;
        fprintf(stderr, " (%+.1f%%)", gain);
        bench->sums[way] += gain;
        bench->sum_counts[way]++;
    }
    fprintf(stderr, "\n");
    gs_write_finish(&writer);
    gs_text_flush(&text);
    gs_text_free(&text);
    fflush(stdout);
}

static void print_averages(const struct bench *bench) {
    for (enum way way = STREAMS; way < WAYS; way++)
        if (bench->sum_counts[way])
            fprintf(stderr, "%s over one after the other: %+.1f%% on average over %d pairs\n", ways[way].name,
                    bench->sums[way] / bench->sum_counts[way], bench->sum_counts[way]);
    fprintf(stderr, "took %.0f s\n", (double)(gs_now_ns() - bench->began_ns) / 1e9);
}

/* ---- the measurements ---- */

static bool is_time_left(const struct bench *bench) {
    return !services_interrupted() && gs_now_ns() - bench->began_ns < bench->limit_seconds * INT64_C(1000000000);
}

/* --only A-B,C-D */
static bool is_wanted(const struct bench *bench, const pair *of) {
    char words[2000], name[160];
    snprintf(words, sizeof words, ",%s,", bench->only ? bench->only : "");
    snprintf(name, sizeof name, ",%s-%s,", of->first->name, of->second->name);
    return !bench->only || strstr(words, name);
}

/* Ends the processes; each compares its last results. */
static void end_stage(struct bench *bench, enum stage stage) {
    for (int side = 0; side < 2 && bench->is_up[stage]; side++) {
        child *load = &bench->loads[stage][side];
        if (!load->pid)
            continue;
        child_end_input(load);
        for (json_t *event; (event = next_event(load, PATIENCE_SECONDS, "done")); json_decref(event))
            if (!json_is_true(json_object_get(event, "right"))) {
                fprintf(stderr, "programs: wrong: %s\n", json_string_value(json_object_get(event, "reason")));
                bench->failures++;
            }
        bench->failures += child_end(load, PATIENCE_SECONDS) != 0;
    }
}

/* Stops the daemons. `name` is that of the pair that they alone had, or NULL. */
static void end_daemons(struct bench *bench, const char *name) {
    for (enum stage stage = SERVED_STAGE; stage < STAGES; stage++) {
        char keep[600];
        if (!needs_stage(bench, stage))
            continue;
        end_stage(bench, stage);
        snprintf(keep, sizeof keep, "%s/%s%s%d.db", bench->keep ? bench->keep : "", name ? name : "", name ? "-" : "",
                 stage - SERVED_STAGE + 1);
        services_stop_daemon(&bench->services, service_of[stage], bench->keep && bench->is_up[stage] ? keep : NULL);
    }
}

static void measure_fresh(struct bench *bench, pair *of, list *firsts, list *seconds) {
    char name[160];
    snprintf(name, sizeof name, "%s-%s", of->first->name, of->second->name);
    start_stages(bench, SERVED_STAGE, PLANNED_STAGE, firsts, seconds);
    make_all_known(bench, firsts, false);
    make_all_known(bench, seconds, true);
    measure_pair(bench, of);
    end_daemons(bench, name);
}

/* Each program of --first has its turn, each time beside another one of --second. Without --second, each has those
   that come after it, and itself. */
static void measure_pairs(struct bench *bench) {
    for (int step = 0; step < bench->seconds.count; step++)
        for (int i = 0; i < bench->firsts.count; i++) {
            int k = bench->is_half ? step + i : (step + i) % bench->seconds.count;
            list first = {.data = {bench->firsts.data[i]}, .count = 1},
                 second = {.data = {bench->seconds.data[k % MOST_PROGRAMS]}, .count = 1};
            pair of = {.first = &first.data[0], .second = &second.data[0]};
            if (k >= bench->seconds.count || !is_wanted(bench, &of))
                continue;
            if (!is_time_left(bench) || !bench->is_up[DIRECT_STAGE])
                return;
            if (bench->is_fresh)
                measure_fresh(bench, &of, &first, &second);
            else
                measure_pair(bench, &of);
            print_pair(bench, &of);
        }
}

static int measure(struct bench *bench) {
    enum stage last = bench->is_fresh ? MPS_STAGE : PLANNED_STAGE;
    bench->began_ns = gs_now_ns();
    bench->services.other = bench->other;
    start_stages(bench, DIRECT_STAGE, last, &bench->firsts, &bench->seconds);
    fprintf(stderr, "set up in %.1f s\n", (double)(gs_now_ns() - bench->began_ns) / 1e9);
    if (!bench->is_up[DIRECT_STAGE] || !find_repeats(bench, &bench->firsts) || !find_repeats(bench, &bench->seconds)) {
        fprintf(stderr, "programs: a program alone on the GPU failed\n");
        return 3;
    }
    if (!bench->is_fresh) {
        make_all_known(bench, &bench->firsts, false);
        make_all_known(bench, &bench->seconds, true);
    }
    measure_pairs(bench);
    print_averages(bench);
    for (enum stage stage = 0; stage < SERVED_STAGE; stage++)
        end_stage(bench, stage);
    if (!bench->is_fresh)
        end_daemons(bench, NULL);
    return services_interrupted() ? 130 : bench->failures > 0;
}

/* ---- the command line ---- */

static const char help[] =
    "usage: programs --first NAMES [--second NAMES] [options]\n\n"
    "Each program of --first beside each of --second on one GPU: one after the other (o), on two streams (s), under "
    "MPS\n"
    "(b), through 'gridsmith serve' (d; f and g: a second and a third daemon) and through 'gridsmith serve --plan'\n"
    "(e). Writes gridsmith.programs/1.\n\n"
    "  --first NAMES    networks or kernels of the zoo, up to 16: resnet50,resnet50/cublas\n"
    "  --second NAMES   the same; without it, all pairs of --first\n"
    "  --modes LETTERS  some of osbdfge (default osbd; e needs --plan)\n"
    "  --only PAIRS     some of the pairs: resnet50-lbm,vgg16-cp\n"
    "  --plan FILE      gridsmith.plan/1, for e\n"
    "  --ms N           how long a program of --first takes alone (default 50)\n"
    "  --rounds N       how often each pair runs in each way (default 3)\n"
    "  --warm-up N      rounds before them through daemons (default 2)\n"
    "  --alone N        rounds of each program alone through each daemon before its pairs (default 6)\n"
    "  --fresh          daemons begin anew for each pair\n"
    "  --keep FOLDER    keep what daemons have learned: N.db, or FIRST-SECOND-N.db with --fresh\n"
    "  --limit S        start no pair after this time (default 540)\n"
    "  --size NAME      of the programs (default: the one for loads)\n"
    "  --program FILE   gridsmith (default: beside this program)\n"
    "  --other FILE     gridsmith of the second and the third daemon, to compare two of them\n"
    "  --help           print this help\n";

static int mistake(const char *words) {
    fprintf(stderr, "programs: %s; see 'programs --help'\n", words);
    return 2;
}

/* Divides the text. False: there are too many, or none. */
static bool put_programs(list *programs, char *text) {
    for (char *name = text ? strtok(text, ",") : NULL; name; name = strtok(NULL, ",")) {
        if (programs->count == MOST_PROGRAMS)
            return false;
        programs->data[programs->count++] = (program){.name = name};
    }
    return programs->count > 0;
}

/* -1: continue; otherwise the exit code. */
static int parse(struct bench *bench, int argc, char **argv, const char **gridsmith) {
    static const struct option options[] = {
        {"first", 1, NULL, 'f'}, {"second", 1, NULL, 's'},  {"modes", 1, NULL, 'm'},   {"plan", 1, NULL, 'p'},
        {"ms", 1, NULL, 't'},    {"rounds", 1, NULL, 'r'},  {"warm-up", 1, NULL, 'w'}, {"limit", 1, NULL, 'l'},
        {"size", 1, NULL, 'z'},  {"program", 1, NULL, 'g'}, {"help", 0, NULL, 'h'},    {"only", 1, NULL, 'o'},
        {"alone", 1, NULL, 'a'}, {"fresh", 0, NULL, 'n'},   {"keep", 1, NULL, 'k'},    {"other", 1, NULL, 'b'},
        {NULL, 0, NULL, 0}};
    const char *letters = "osbd";
    char *first = NULL, *second = NULL;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        first = option == 'f' ? optarg : first;
        second = option == 's' ? optarg : second;
        letters = option == 'm' ? optarg : letters;
        bench->plan = option == 'p' ? optarg : bench->plan;
        bench->ms = option == 't' ? atoi(optarg) : bench->ms;
        bench->rounds = option == 'r' ? atoi(optarg) : bench->rounds;
        bench->warm_up = option == 'w' ? atoi(optarg) : bench->warm_up;
        bench->limit_seconds = option == 'l' ? atoi(optarg) : bench->limit_seconds;
        bench->size = option == 'z' ? optarg : bench->size;
        bench->only = option == 'o' ? optarg : bench->only;
        bench->alone = option == 'a' ? atoi(optarg) : bench->alone;
        bench->is_fresh |= option == 'n';
        bench->keep = option == 'k' ? optarg : bench->keep;
        bench->other = option == 'b' ? optarg : bench->other;
        *gridsmith = option == 'g' ? optarg : *gridsmith;
        if (option == 'h')
            return fputs(help, stdout) < 0 ? 4 : 0;
        if (option == '?')
            return 2;
    }
    for (enum way way = 0; way < WAYS; way++)
        bench->is_used[way] = strchr(letters, ways[way].letter) && (way != PLANNED || bench->plan);
    if (optind < argc || strspn(letters, "osbdfge") != strlen(letters))
        return mistake("only options are accepted, and --modes takes some of the letters osbdfge");
    if (bench->ms < 1 || bench->rounds < 1 || bench->rounds > MOST_ROUNDS || bench->warm_up < 0 ||
        bench->limit_seconds < 1 || bench->alone < 0 || bench->alone > MOST_ROUNDS)
        return mistake(
            "--ms and --limit take a number from 1, --rounds one from 1 to 25, --alone one from 0 to 25, and "
            "--warm-up one from 0");
    bench->is_half = !second;
    bool is_put = put_programs(&bench->firsts, first) && (!second || put_programs(&bench->seconds, second));
    if (!second)
        bench->seconds = bench->firsts;
    return is_put ? -1 : mistake("--first and --second take 1 to 16 kernels of the zoo or networks each");
}

int main(int argc, char **argv) {
    struct bench *bench = calloc(1, sizeof *bench);
    const char *gridsmith = NULL;
    if (!bench)
        return 4;
    bench->ms = 50;
    bench->rounds = 3;
    bench->warm_up = 2;
    bench->alone = 6;
    bench->limit_seconds = 540;
    int status = parse(bench, argc, argv, &gridsmith);
    if (status < 0)
        status = services_open(&bench->services, gridsmith, argv[0]) ? measure(bench) : 4;
    for (enum stage stage = 0; stage < STAGES; stage++)
        for (int i = 0; i < 2; i++)
            child_kill(&bench->loads[stage][i]);
    services_close(&bench->services);
    free(bench);
    return status;
}
