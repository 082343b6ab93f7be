/*
 * share.c: the effect of sharing a GPU: applications of the zoo alone, and in all pairs, each pair
 *
 *   a   as two processes, between which the driver switches
 *   b   as two processes under MPS
 *   c   as two threads of one process, each with half of the SMs (green contexts)
 *   s   as two threads of one process, each with a stream
 *   d   as two clients of 'gridsmith serve'
 *   e   as two clients of 'gridsmith serve --plan', which knows whether they gain on the same SMs (with --plan)
 *
 * Each application is 'gridsmith zoo load'. The number of repetitions that take --seconds alone is determined first,
 * and is the same everywhere. Both applications of a pair begin together. The makespan is from the first begin to the
 * last end, by a clock that all processes share. "gain" compares it with serial execution: (alone + alone) / makespan -
 * 1.
 *
 * Everything that is started is a child of this program, has a time limit, and ends when this program ends.
 */
#include "share.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static void add(series *to, double value) {
    if (to->count < MOST_REPEATS)
        to->values[to->count++] = value;
}

/* ---- one application, one pair ---- */

enum { WARM_UP = 2 }; /* rounds that do not count: clocks settle, and the daemon measures the kernels */

/* An event, as 'zoo load' prints it in a line. */
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

/* Reads the last event of each application, and waits for the child. False: a result is wrong, or it failed. */
static bool end_load(const struct bench *bench, child *from, int applications) {
    event last;
    bool succeeded = true;
    for (int i = 0; i < applications && succeeded; i++) {
        succeeded = expect(from, bench->patience_seconds, "done", &last) && last.is_right;
        if (last.reason[0])
            fprintf(stderr, "share: wrong: %s\n", last.reason);
    }
    return child_end(from, bench->patience_seconds) == 0 && succeeded;
}

static double seconds_for(const struct bench *bench, double factor) {
    return factor * bench->seconds * 10 + bench->patience_seconds;
}

static const enum services_of service_of[MODES] = {
    [TIME_SLICED] = SERVICES_NONE, [MPS] = SERVICES_MPS,          [GREEN] = SERVICES_NONE,
    [STREAMS] = SERVICES_NONE,     [GRIDSMITH] = SERVICES_DAEMON, [PLANNED] = SERVICES_PLANNED};

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
             : mode >= GRIDSMITH ? "serve"
                                 : "cuda",
             bench->sms);
    list[count++] = words[at++];
    snprintf(words[at], sizeof *words, "--ms=%d", (int)(seconds * 1000));
    list[count++] = words[at++];
    snprintf(words[at], sizeof *words, "--rounds=%d", rounds);
    list[count++] = words[at++];
    snprintf(words[at], sizeof *words, "--seconds=%d",
             (int)(1 + bench->patience_seconds + rounds * seconds_for(bench, seconds / bench->seconds)));
    list[count++] = words[at++];
    if (bench->size) {
        list[count++] = "--size";
        list[count++] = bench->size;
    }
    if (waits)
        list[count++] = "--wait";
    list[count++] = "--json";
    return child_start(started, list, services_environment(&bench->services, service_of[mode]));
}

static bool run_alone(struct bench *bench, enum mode mode, application *app, int rounds, double seconds, alone *into) {
    child load;
    event found;
    int uncounted = seconds > bench->seconds ? 0 : WARM_UP; /* not needed for a long round */
    *into = (alone){.is_measured = false};
    if (!start_load(bench, mode, app, NULL, uncounted + rounds, false, seconds, &load))
        return false;
    bool succeeded =
        expect(&load, bench->patience_seconds + seconds_for(bench, seconds / bench->seconds), "ready", &found);
    into->setup_ms = found.setup_ms;
    into->compile_ms = found.compile_ms;
    app->repeat = succeeded && !app->repeat ? found.repeat : app->repeat;
    for (int i = -uncounted; i < rounds && succeeded; i++) {
        succeeded = expect(&load, seconds_for(bench, seconds / bench->seconds), "round", &found);
        if (i >= 0)
            add(&into->ms, (double)(found.ended_ns - found.began_ns) / 1e6);
    }
    if (succeeded)
        succeeded = end_load(bench, &load, 1);
    else
        child_kill(&load);
    into->is_measured = succeeded;
    return succeeded;
}

/* One round of both applications, which begin when they read a line. */
static bool run_round(struct bench *bench, child *loads, int processes, outcome *into) {
    event found[2] = {{.number = 0}, {.number = 0}};
    for (int i = 0; i < processes; i++)
        if (!child_write(&loads[i], "\n"))
            return false;
    for (int i = 0; i < 2; i++)
        if (!expect(&loads[processes == 2 ? i : 0], seconds_for(bench, 2), "round", &found[i]))
            return false;
    int64_t began_ns = gs_min(found[0].began_ns, found[1].began_ns);
    int64_t ended_ns = gs_max(found[0].ended_ns, found[1].ended_ns);
    add(&into->makespan_ms, (double)(ended_ns - began_ns) / 1e6);
    add(&into->first_ms, (double)(found[0].ended_ns - found[0].began_ns) / 1e6);
    add(&into->second_ms, (double)(found[1].ended_ns - found[1].began_ns) / 1e6);
    return true;
}

static bool run_rounds(struct bench *bench, child *loads, int processes, int warm_up, outcome *into) {
    event found;
    for (int i = 0; i < 2; i++)
        if (!expect(&loads[processes == 2 ? i : 0], bench->patience_seconds, "ready", &found))
            return false;
    for (int i = -warm_up; i < bench->repeats; i++) {
        if (i == 0)
            *into = (outcome){.is_measured = false};
        if (!run_round(bench, loads, processes, into))
            return false;
    }
    return true;
}

static bool run_pair(struct bench *bench, enum mode mode, const pair *of, outcome *into) {
    child loads[2] = {{.pid = 0}, {.pid = 0}};
    int warm_up = mode < GRIDSMITH ? (int)gs_min(bench->warm_up, WARM_UP) : bench->warm_up;
    int processes = mode == GREEN || mode == STREAMS ? 1 : 2, rounds = warm_up + bench->repeats;
    *into = (outcome){.is_measured = false};
    bool succeeded =
        start_load(bench, mode, of->first, processes == 1 ? of->second : NULL, rounds, true, bench->seconds, &loads[0]);
    if (succeeded && processes == 2)
        succeeded = start_load(bench, mode, of->second, NULL, rounds, true, bench->seconds, &loads[1]);
    succeeded = succeeded && run_rounds(bench, loads, processes, warm_up, into);
    for (int i = 0; i < processes && succeeded; i++)
        succeeded = end_load(bench, &loads[i], 2 / processes);
    for (int i = 0; i < processes; i++)
        child_kill(&loads[i]);
    into->is_measured = succeeded;
    return succeeded;
}

/* ---- overheads ---- */

static bool run_launch(struct bench *bench, bool is_served) {
    const char *const list[] = {
        bench->services.program,       "zoo", "launch", "--json", "--on", is_served ? "serve" : "cuda", "--repeat",
        bench->size ? "100" : "10000", NULL};
    launch_times *into = &bench->launch[is_served];
    child load;
    if (!child_start(&load, list, services_environment(&bench->services, is_served ? SERVICES_DAEMON : SERVICES_NONE)))
        return false;
    const char *line = child_line(&load, bench->patience_seconds);
    json_t *json = line ? json_loads(line, 0, NULL) : NULL;
    into->is_measured = json && json_unpack(json, "{s:F, s:F}", "waited_us", &into->waited_us, "pipelined_us",
                                            &into->pipelined_us) == 0;
    json_decref(json);
    return child_end(&load, bench->patience_seconds) == 0 && into->is_measured;
}

/* ---- the measurements ---- */

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
    for (enum mode mode = GRIDSMITH; mode < MODES; mode++)
        if (bench->is_used[mode] &&
            !(services_start_daemon(&bench->services, service_of[mode], bench->plan, why, sizeof why) &&
              services_await_daemon(&bench->services, service_of[mode], why, sizeof why)))
            refuse(bench, mode, why);
}

/* Each application alone, direct: the basis of all comparisons. */
static bool measure_alone(struct bench *bench) {
    for (int i = 0; i < bench->application_count && is_time_left(bench); i++) {
        application *app = &bench->applications[i];
        if (!app->is_selected)
            continue;
        if (!run_alone(bench, TIME_SLICED, app, bench->repeats, bench->seconds, &app->direct))
            return false;
        print_alone(bench, app);
    }
    return true;
}

/* Loads the application again and again without cached images, with one launch each time. */
static bool measure_loading(struct bench *bench, application *app) {
    application once = *app;
    alone loaded;
    once.repeat = 1;
    add(&app->loading_ms, app->served.compile_ms);
    for (int i = 1; i < bench->repeats; i++) {
        if (!services_remove_images(&bench->services) ||
            !run_alone(bench, GRIDSMITH, &once, 1, bench->seconds, &loaded))
            return false;
        add(&app->loading_ms, loaded.compile_ms);
    }
    return true;
}

/* Each application alone, so that the daemon knows its kernels before the pairs. */
static void measure_known(struct bench *bench, enum mode mode) {
    for (int i = 0; i < bench->application_count && is_time_left(bench) && bench->is_used[mode]; i++) {
        application *app = &bench->applications[i];
        alone ignored;
        if (app->is_selected && !run_alone(bench, mode, app, bench->repeats, bench->seconds, &ignored))
            refuse(bench, mode, "an application alone through the daemon failed");
    }
}

/* Each application alone through the daemon, which also measures its kernels before the pairs. */
static void measure_served(struct bench *bench) {
    if (!bench->is_brief)
        run_launch(bench, false);
    for (int i = 0; i < bench->application_count && is_time_left(bench) && bench->is_used[GRIDSMITH]; i++) {
        application *app = &bench->applications[i];
        if (app->is_selected && !(run_alone(bench, GRIDSMITH, app, bench->repeats, bench->seconds, &app->served) &&
                                  (bench->is_brief || measure_loading(bench, app))))
            refuse(bench, GRIDSMITH, "an application alone through the daemon failed");
    }
    if (bench->is_used[GRIDSMITH] && !bench->is_brief)
        run_launch(bench, true);
    for (enum mode mode = PLANNED; mode < MODES; mode++)
        measure_known(bench, mode);
}

/* Rounds of 30 seconds, one direct and one through the daemon. */
static void measure_long(struct bench *bench) {
    const double long_seconds = 30;
    for (int i = 0; i < bench->application_count && is_time_left(bench) && bench->is_used[GRIDSMITH]; i++) {
        application *app = &bench->applications[i], longer = *app;
        longer.repeat = (uint32_t)(app->repeat * long_seconds / bench->seconds);
        if (app->is_selected && run_alone(bench, TIME_SLICED, &longer, 1, long_seconds, &app->long_direct))
            run_alone(bench, GRIDSMITH, &longer, 1, long_seconds, &app->long_served);
    }
}

static void measure_pairs(struct bench *bench) {
    print_header(bench);
    for (int i = 0; i < bench->pair_count; i++) {
        pair *of = &bench->pairs[i];
        if (of->is_selected && !is_time_left(bench)) {
            bench->wrong++;
            fprintf(stderr, "share: %s-%s was not measured: no time left\n", of->first->letters, of->second->letters);
            continue;
        }
        for (enum mode mode = 0; mode < MODES && of->is_selected; mode++) {
            if (!bench->is_used[mode] || services_interrupted())
                continue;
            bool succeeded = run_pair(bench, mode, of, &of->outcomes[mode]);
            bench->failures[mode] = succeeded ? 0 : bench->failures[mode] + 1;
            bench->wrong += !succeeded;
            if (bench->failures[mode] == MOST_FAILURES)
                refuse(bench, mode, "failed three times in a row");
        }
        if (of->is_selected)
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
    print_averages(bench);
    if (!bench->is_brief)
        print_overheads(bench);
    fprintf(bench->table, "took %.0f s\n", (double)(gs_now_ns() - bench->began_ns) / 1e9);
    if (bench->is_json)
        print_json(bench);
    return services_interrupted() ? 130 : bench->wrong > 0;
}

/* ---- the command line ---- */

static void add_application(struct bench *bench, const char *name, const char *letters) {
    bench->applications[bench->application_count++] = (application){.name = name, .letters = letters};
}

/* Slate's five, or those of --kernels, whose text is divided. False: too many. */
static bool put_applications(struct bench *bench) {
    static const char *const slate[][2] = {
        {"black_scholes", "BS"}, {"gaussian", "GS"}, {"sgemm", "MM"}, {"quasirandom", "RG"}, {"transpose", "TR"}};
    for (size_t i = 0; i < sizeof slate / sizeof *slate && !bench->kernels; i++)
        add_application(bench, slate[i][0], slate[i][1]);
    for (char *name = bench->kernels ? strtok(bench->kernels, ",") : NULL; name; name = strtok(NULL, ",")) {
        if (bench->application_count == MOST_APPLICATIONS)
            return false;
        add_application(bench, name, name);
    }
    for (int i = 0; i < bench->application_count; i++)
        for (int k = i; k < bench->application_count; k++)
            bench->pairs[bench->pair_count++] =
                (pair){.first = &bench->applications[i], .second = &bench->applications[k]};
    return bench->application_count > 0;
}

/* --only BS-RG,GS-GS; "none": no pair, but all applications alone. False: unknown pair. */
static bool choose_pairs(struct bench *bench) {
    size_t found = 0;
    for (int i = 0; i < bench->pair_count; i++) {
        pair *of = &bench->pairs[i];
        char words[2][64];
        snprintf(words[0], sizeof *words, "%s-%s", of->first->letters, of->second->letters);
        snprintf(words[1], sizeof *words, "%s-%s", of->second->letters, of->first->letters);
        of->is_selected = !bench->only || strstr(bench->only, words[0]) || strstr(bench->only, words[1]);
        found += of->is_selected ? strlen(words[0]) + 1 : 0;
        of->first->is_selected |= of->is_selected;
        of->second->is_selected |= of->is_selected;
    }
    for (int i = 0; i < bench->application_count && bench->only && strcmp(bench->only, "none") == 0; i++)
        bench->applications[i].is_selected = true;
    return !bench->only || strcmp(bench->only, "none") == 0 || found == strlen(bench->only) + 1;
}

static bool choose_modes(struct bench *bench, const char *letters) {
    for (int mode = 0; mode < MODES; mode++)
        bench->is_used[mode] = strchr(letters, modes[mode].letter) && (mode != PLANNED || bench->plan);
    return letters[0] && strspn(letters, "abcsde") == strlen(letters);
}

static const char help[] =
    "usage: share [options]\n\n"
    "Five applications of the zoo alone and in all pairs on one GPU: as two processes (a), "
    "under MPS (b), with half of\n"
    "the SMs each (c), on two streams (s), through 'gridsmith serve' (d), and through 'gridsmith serve --plan' (e). "
    "Takes some minutes.\n\n"
    "  --seconds S      how long an application takes alone (default 0.5)\n"
    "  --repeats N      how often each pair runs (default 5); medians are printed\n"
    "  --warm-up N      rounds of a pair before them (default 2; d needs about 10 seconds to measure; a, b, c and s "
    "have\n"
    "                   two at most)\n"
    "  --modes LETTERS  some of abcsde (default abcde; e needs --plan)\n"
    "  --plan FILE      gridsmith.plan/1, for e\n"
    "  --kernels NAMES  other kernels of the zoo, or networks, up to 16: fft,spmv,resnet50\n"
    "  --only PAIRS     BS-RG,GS-GS; or none: the applications alone\n"
    "  --sms N          SMs of a half (default 64)\n"
    "  --size NAME      of the applications (default: the one for loads)\n"
    "  --long           overheads from rounds of 30 seconds\n"
    "  --brief          no overheads: neither launches nor loading\n"
    "  --limit S        start no pair after this time (default 540)\n"
    "  --patience S     a child that is late by more than this has failed (default 60)\n"
    "  --program FILE   gridsmith (default: beside this program)\n"
    "  --json           write gridsmith.share/1; the tables go to standard error\n"
    "  --help           print this help\n";

static int mistake(const char *words) {
    fprintf(stderr, "share: %s; see 'share --help'\n", words);
    return 2;
}

/* -1: continue; otherwise the exit code. */
static int parse(struct bench *bench, int argc, char **argv, const char **program) {
    static const struct option options[] = {
        {"seconds", 1, NULL, 's'},  {"repeats", 1, NULL, 'r'}, {"modes", 1, NULL, 'm'},   {"only", 1, NULL, 'o'},
        {"sms", 1, NULL, 'n'},      {"size", 1, NULL, 'z'},    {"long", 0, NULL, 'l'},    {"limit", 1, NULL, 't'},
        {"patience", 1, NULL, 'w'}, {"program", 1, NULL, 'p'}, {"json", 0, NULL, 'j'},    {"help", 0, NULL, 'h'},
        {"plan", 1, NULL, 'f'},     {"kernels", 1, NULL, 'k'}, {"warm-up", 1, NULL, 'u'}, {"brief", 0, NULL, 'b'},
        {NULL, 0, NULL, 0}};
    const char *letters = "abcde";
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        bench->seconds = option == 's' ? strtod(optarg, NULL) : bench->seconds;
        bench->repeats = option == 'r' ? atoi(optarg) : bench->repeats;
        bench->sms = option == 'n' ? atoi(optarg) : bench->sms;
        bench->limit_seconds = option == 't' ? atoi(optarg) : bench->limit_seconds;
        bench->patience_seconds = option == 'w' ? strtod(optarg, NULL) : bench->patience_seconds;
        letters = option == 'm' ? optarg : letters;
        bench->only = option == 'o' ? optarg : bench->only;
        bench->size = option == 'z' ? optarg : bench->size;
        bench->plan = option == 'f' ? optarg : bench->plan;
        bench->kernels = option == 'k' ? optarg : bench->kernels;
        bench->warm_up = option == 'u' ? atoi(optarg) : bench->warm_up;
        *program = option == 'p' ? optarg : *program;
        bench->is_long |= option == 'l';
        bench->is_json |= option == 'j';
        bench->is_brief |= option == 'b';
        if (option == 'h')
            return fputs(help, stdout) < 0 ? 4 : 0;
        if (option == '?')
            return 2;
    }
    if (optind < argc)
        return mistake("only options are accepted");
    if (!(bench->seconds >= 0.001 && bench->seconds <= 100))
        return mistake("--seconds takes a number from 0.001 to 100");
    if (!(bench->patience_seconds > 0 && bench->patience_seconds <= 1000))
        return mistake("--patience takes a number from 0 to 1000");
    if (bench->repeats < 1 || bench->repeats > MOST_REPEATS || bench->warm_up < 0 || bench->warm_up > MOST_REPEATS)
        return mistake("--repeats takes a number from 1 to 100, and --warm-up one from 0 to 100");
    if (bench->sms < 1 || bench->limit_seconds < 1)
        return mistake("--sms and --limit take a number from 1");
    if (!choose_modes(bench, letters))
        return mistake("--modes takes some of the letters abcsde");
    if (!put_applications(bench))
        return mistake("--kernels takes 1 to 16 kernels of the zoo or networks, such as fft,resnet50");
    return choose_pairs(bench)
               ? -1
               : mistake("--only takes pairs of BS, GS, MM, RG and TR, such as BS-RG,GS-GS, or of --kernels");
}

int main(int argc, char **argv) {
    struct bench *bench = calloc(1, sizeof *bench);
    const char *program = NULL;
    if (!bench)
        return 4;
    bench->seconds = 0.5;
    bench->repeats = 5;
    bench->warm_up = 2;
    bench->sms = 64;
    bench->limit_seconds = 540;
    bench->patience_seconds = 60;
    int status = parse(bench, argc, argv, &program);
    bench->table = bench->is_json ? stderr : stdout;
    if (status < 0)
        status = services_open(&bench->services, program, argv[0]) ? measure(bench) : 4;
    services_close(&bench->services);
    free(bench);
    return status;
}
