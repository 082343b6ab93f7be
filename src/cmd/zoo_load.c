/*
 * zoo_load.c: gridsmith zoo load: kernels of the zoo as applications that keep a GPU busy; and gridsmith zoo launch:
 * what a launch costs there.
 *
 * Each application has a thread and a stream of its own. All begin a round together, when a line comes on standard
 * input where that is asked for: so whoever starts two programs can have them begin together, and see by the times of
 * the clock that they share how they overlapped. With --json each line is a document, written when it happened.
 */
#include "zoo_load.h"

#include "client/client.h"
#include "cuda/cuda.h"
#include "zoo/zoo.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_APPLICATIONS = 8 };

struct application {
    struct party *party;
    const gs_zoo_kernel *kernel;
    const gs_zoo_size *size;
    uint32_t repeat; /* 0: to be found out */
    gs_app_stream *stream;
    pthread_t thread;
    gs_zoo_load load;
    gs_zoo_round round;
    gs_code code;
    gs_error error;
};

struct party {
    const gs_command *command;
    const gs_zoo_load_asked *asked;
    struct application list[MOST_APPLICATIONS];
    size_t count;
    pthread_barrier_t barrier; /* of the threads and this one */
    bool is_over;              /* read by the threads after the barrier */
};

/* ---- where ---- */

/* "cuda:0,sms=64" is a part for each application. */
static gs_app_stream *open_stream(const char *on, size_t number, size_t count, gs_error *error) {
    char rest[64];
    if (strcmp(on, "serve") == 0)
        return gs_app_stream_remote(NULL, "gridsmith zoo load", error);
    bool is_cuda = strcmp(on, "cuda") == 0 || strncmp(on, "cuda:", 5) == 0;
    if (!is_cuda || strlen(on) > 40) {
        gs_fail(error, GS_E_USAGE, "loads run on cuda or serve, not on \"%.40s\"", on);
        return NULL;
    }
    bool is_split = count > 1 && strstr(on, ",sms=") && !strstr(on, ",part=");
    snprintf(rest, sizeof rest, is_split ? "%s,part=%zu" : "%s", on[4] ? on + 5 : "", number);
    return gs_app_stream_cuda(rest, error);
}

/* ---- applications ---- */

/* "NAME" or "NAME:REPEAT". 0: done. */
static int choose(struct party *party, struct application *app, const char *word) {
    char name[40];
    size_t length = strcspn(word, ":");
    snprintf(name, sizeof name, "%.*s", (int)gs_min((int64_t)length, sizeof name - 1), word);
    app->party = party;
    app->kernel = gs_zoo_find(name);
    app->repeat = (uint32_t)party->asked->repeat;
    if (!app->kernel)
        return gs_usage(party->command, "there is no kernel \"%.40s\"; 'gridsmith zoo list' lists them", name);
    if (word[length]) {
        char *end;
        long repeat = strtol(word + length + 1, &end, 10);
        if (*end || repeat < 1 || repeat > 1 << 24)
            return gs_usage(party->command, "load takes NAME or NAME:REPEAT, not \"%.60s\"", word);
        app->repeat = (uint32_t)repeat;
    }
    app->size =
        party->asked->size ? gs_zoo_size_find(app->kernel, party->asked->size) : gs_zoo_size_for_loads(app->kernel);
    if (!app->size)
        return gs_usage(party->command, "%s has no size \"%.40s\"", name, party->asked->size);
    return 0;
}

static void set_up(struct application *app) {
    app->code = app->stream->ops->enter(app->stream, &app->error);
    if (app->code == GS_OK)
        app->code = gs_zoo_load_open(&app->load, app->kernel, app->size, app->stream, &app->error);
    if (app->code == GS_OK && !app->repeat)
        app->code = gs_zoo_load_repeat(&app->load, app->party->asked->ms * 1000000, &app->repeat, &app->error);
}

/* Meets the main thread before and after each step. */
static void *run_application(void *argument) {
    struct application *app = argument;
    set_up(app);
    pthread_barrier_wait(&app->party->barrier);
    for (;;) {
        pthread_barrier_wait(&app->party->barrier);
        if (app->party->is_over)
            break;
        app->code = gs_zoo_load_round(&app->load, app->repeat, &app->round, &app->error);
        pthread_barrier_wait(&app->party->barrier);
    }
    if (app->code == GS_OK)
        app->code = gs_zoo_load_check(&app->load, &app->error);
    gs_zoo_load_close(&app->load);
    return NULL;
}

/* ---- what is printed ---- */

static void begin_json(const struct application *app, const char *event) {
    printf("{\"schema\":\"gridsmith.zoo_load/1\",\"event\":\"%s\",\"application\":%zu,\"kernel\":\"%s\",", event,
           (size_t)(app - app->party->list), app->kernel->name);
}

static void print_ready(const struct application *app) {
    const gs_zoo_load *load = &app->load;
    if (app->party->asked->json) {
        begin_json(app, "ready");
        printf("\"size\":\"%s\",\"on\":\"%s\",\"repeat\":%u,\"launches\":%zu,\"ahead\":%u,\"setup_ms\":%.3f,"
               "\"compile_ms\":%.3f,\"pass_ms\":%.6f}\n",
               app->size->name, app->stream->ops->name, app->repeat, load->instance.launches.count, load->ahead,
               (double)load->setup_ns / 1e6, (double)load->compile_ns / 1e6, (double)load->pass_ns / 1e6);
    } else {
        printf("%s, %s: %zu launches %u times over; set up in %.0f ms, of that %.0f compiling\n", app->kernel->name,
               app->size->name, load->instance.launches.count, app->repeat, (double)load->setup_ns / 1e6,
               (double)load->compile_ns / 1e6);
    }
}

static void print_round(const struct application *app, int64_t number) {
    const gs_zoo_round *round = &app->round;
    double ms = (double)(round->ended_ns - round->began_ns) / 1e6;
    if (app->party->asked->json) {
        begin_json(app, "round");
        printf("\"round\":%lld,\"began_ns\":%lld,\"ended_ns\":%lld,\"launches\":%u}\n", (long long)number,
               (long long)round->began_ns, (long long)round->ended_ns, round->launches);
    } else {
        printf("%-14s round %lld: %10.3f ms, %u launches, %.0f a second, from %.6f to %.6f s\n", app->kernel->name,
               (long long)number, ms, round->launches, round->launches / ms * 1e3, (double)round->began_ns / 1e9,
               (double)round->ended_ns / 1e9);
    }
}

static void print_end(const struct application *app) {
    bool is_right = app->code == GS_OK;
    if (app->party->asked->json) {
        gs_text text = {.sink = stdout};
        begin_json(app, "done");
        gs_text_add(&text, "\"right\":%s,\"reason\":", is_right ? "true" : "false");
        gs_text_put_json(&text, is_right ? "" : app->error.message);
        gs_text_add(&text, "}\n");
        gs_text_flush(&text);
        gs_text_free(&text);
    } else {
        printf("%-14s %s%s\n", app->kernel->name, is_right ? "right" : "wrong: ", is_right ? "" : app->error.message);
    }
}

/* ---- all of them ---- */

static bool all_are_well(const struct party *party) {
    for (size_t i = 0; i < party->count; i++)
        if (party->list[i].code != GS_OK)
            return false;
    return true;
}

/* False: there is nobody left to begin for. */
static bool may_begin(const struct party *party) {
    char line[16];
    fflush(stdout);
    return !party->asked->wait || fgets(line, sizeof line, stdin);
}

static void play_rounds(struct party *party) {
    pthread_barrier_wait(&party->barrier); /* all are set up */
    for (size_t i = 0; i < party->count && all_are_well(party); i++)
        print_ready(&party->list[i]);
    for (int64_t round = 1; round <= party->asked->rounds && all_are_well(party) && may_begin(party); round++) {
        pthread_barrier_wait(&party->barrier);
        pthread_barrier_wait(&party->barrier);
        for (size_t i = 0; i < party->count; i++)
            print_round(&party->list[i], round);
        fflush(stdout);
    }
    party->is_over = true;
    pthread_barrier_wait(&party->barrier);
}

static int play(struct party *party) {
    pthread_barrier_init(&party->barrier, NULL, (unsigned)party->count + 1);
    for (size_t i = 0; i < party->count; i++)
        if (pthread_create(&party->list[i].thread, NULL, run_application, &party->list[i]) != 0) {
            fprintf(stderr, "gridsmith: no more threads\n"); /* those that wait at the barrier go with the process */
            _exit(gs_code_exit(GS_E_IO));
        }
    play_rounds(party);
    int status = 0;
    for (size_t i = 0; i < party->count; i++) {
        struct application *app = &party->list[i];
        pthread_join(app->thread, NULL);
        if (app->code == GS_OK || app->code == GS_E_KERNEL)
            print_end(app);
        if (app->code != GS_OK)
            status = app->code == GS_E_KERNEL ? 1 : gs_report(&app->error);
    }
    pthread_barrier_destroy(&party->barrier);
    return status;
}

/* Neither a GPU that hangs nor a driver that does may keep this program: it ends itself. */
static void give_up(int signal) {
    static const char words[] = "gridsmith: not done in the time that --seconds allows\n";
    (void)signal;
    ssize_t ignored = write(STDERR_FILENO, words, sizeof words - 1);
    (void)ignored;
    _exit(4);
}

static void limit_time(int64_t seconds) {
    struct sigaction action = {.sa_handler = give_up};
    sigaction(SIGALRM, &action, NULL);
    alarm((unsigned)seconds);
}

int gs_zoo_load_command(const gs_command *command, const gs_zoo_load_asked *asked, const char *const *names,
                        size_t count) {
    struct party *party = calloc(1, sizeof *party);
    gs_error error;
    int status = 0;
    if (!party)
        return gs_code_exit(GS_E_MEMORY);
    *party = (struct party){.command = command, .asked = asked, .count = count};
    if (count < 1 || count > MOST_APPLICATIONS)
        status = gs_usage(command, "load takes the names of 1 to %d kernels", MOST_APPLICATIONS);
    for (size_t i = 0; i < count && status == 0; i++)
        status = choose(party, &party->list[i], names[i]);
    limit_time(asked->seconds);
    for (size_t i = 0; i < count && status == 0; i++) {
        party->list[i].stream = open_stream(asked->on ? asked->on : "cuda", i, count, &error);
        status = party->list[i].stream ? 0 : gs_report(&error);
    }
    if (status == 0)
        status = play(party);
    for (size_t i = 0; i < count && i < MOST_APPLICATIONS; i++)
        gs_app_stream_close(party->list[i].stream);
    alarm(0);
    free(party);
    return status;
}

/* ---- what a launch costs ---- */

int gs_zoo_launch_command(const gs_zoo_load_asked *asked) {
    gs_error error;
    gs_zoo_launch_times times;
    limit_time(asked->seconds);
    gs_app_stream *stream = open_stream(asked->on ? asked->on : "cuda", 0, 1, &error);
    if (!stream)
        return gs_report(&error);
    gs_code code = stream->ops->enter(stream, &error);
    if (code == GS_OK)
        code = gs_zoo_launch_cost(stream, asked->repeat ? (uint32_t)asked->repeat : 10000, &times, &error);
    if (code != GS_OK)
        gs_report(&error);
    else if (asked->json)
        printf("{\"schema\":\"gridsmith.zoo_launch/1\",\"on\":\"%s\",\"waited_us\":%.3f,\"waited_99_percent_us\":%.3f,"
               "\"pipelined_us\":%.3f}\n",
               stream->ops->name, (double)times.waited_ns / 1e3, (double)times.waited_most_ns / 1e3,
               times.pipelined_ns / 1e3);
    else
        printf("an empty kernel, launched and waited for: %.2f us (1%% take longer than %.2f)\n"
               "an empty kernel of many in a row:         %.2f us\n",
               (double)times.waited_ns / 1e3, (double)times.waited_most_ns / 1e3, times.pipelined_ns / 1e3);
    gs_app_stream_close(stream);
    alarm(0);
    return gs_code_exit(code);
}
