/*
 * zoo_load.c: gridsmith zoo load: kernels of the zoo and tasks as applications that keep a GPU busy; and gridsmith zoo
 * launch: the cost of a launch there.
 *
 * Applications are those of zoo_task.c. Each has its own thread and stream. All start a round together; with --wait,
 * when a line arrives on standard input, so that several processes can start together. Such a line may name the
 * applications of the round by their numbers, so that one process can keep many of them ready. Printed times are from a
 * clock shared by all processes, so they show how the processes overlapped. With --json each line is a document,
 * written as soon as it is known.
 */
#include "kernels/cuda/cuda.h"
#include "kernels/zoo/zoo.h"
#include "sharing/client/client.h"
#include "zoo_verbs.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct application {
    struct group *group;
    const gs_zoo_application *given;
    uint32_t repeat; /* 0: as needed to take --ms */
    bool is_in_round;
    gs_app_stream *stream;
    pthread_t thread;
    gs_zoo_load load;
    gs_zoo_round round;
    gs_code code;
    gs_error error;
};

/* The applications that run concurrently. */
struct group {
    const gs_command *command;
    const gs_zoo_options *options;
    gs_zoo_applications given;
    struct application list[GS_ZOO_APPLICATIONS];
    size_t count;
    pthread_barrier_t barrier; /* of the applications' threads and the main thread */
    bool is_over;              /* read by the threads after the barrier */
    int mistake;               /* the exit code for a wrong line, or 0 */
    gs_text text;              /* with --json: documents that are not yet on standard output */
};

/* ---- streams ---- */

/* `on` is an option, cuda by default; "cuda:0,sms=64" is a part of the GPU for each application. */
static gs_app_stream *open_stream(const char *on, size_t number, size_t count, gs_error *error) {
    char rest[64];
    if (!on)
        on = "cuda";
    if (strcmp(on, "serve") == 0)
        return gs_app_stream_remote(NULL, "gridsmith zoo load", error);
    if (!gs_cuda_is_device(on) || strlen(on) > 40) {
        gs_fail(error, GS_E_USAGE, "loads run on cuda or serve, not on \"%.40s\"", on);
        return NULL;
    }
    bool is_split = count > 1 && strstr(on, ",sms=") && !strstr(on, ",part=");
    snprintf(rest, sizeof rest, is_split ? "%s,part=%zu" : "%s", on[4] ? on + 5 : "", number);
    return gs_app_stream_cuda(rest, error);
}

/* ---- applications ---- */

static gs_code find_repeat(struct application *app) {
    return app->repeat ? GS_OK
                       : gs_zoo_load_repeat(&app->load, app->group->options->ms * 1000000, &app->repeat, &app->error);
}

static void set_up(struct application *app) {
    app->code = app->stream->ops->enter(app->stream, &app->error);
    if (app->code == GS_OK && app->given->uses_blas)
        app->code = app->stream->ops->use_blas(app->stream, &app->error);
    if (app->code == GS_OK)
        app->code = gs_zoo_load_open(&app->load, &app->given->task, app->stream, &app->error);
    if (app->code == GS_OK)
        app->code = find_repeat(app);
}

static void sleep_ns(int64_t ns) {
    struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

static void run_round(struct application *app) {
    app->code = find_repeat(app);
    sleep_ns(app->given->at_ns);
    if (app->code == GS_OK)
        app->code = gs_zoo_load_round(&app->load, app->repeat, &app->round, &app->error);
}

/* Waits for the main thread before and after each step. */
static void *run_application(void *argument) {
    struct application *app = argument;
    set_up(app);
    pthread_barrier_wait(&app->group->barrier);
    for (;;) {
        pthread_barrier_wait(&app->group->barrier);
        if (app->group->is_over)
            break;
        if (app->is_in_round)
            run_round(app);
        pthread_barrier_wait(&app->group->barrier);
    }
    if (app->code == GS_OK)
        app->code = gs_zoo_load_check(&app->load, &app->error);
    gs_zoo_load_close(&app->load);
    return NULL;
}

/* ---- output ---- */

static gs_writer begin_json(gs_text *text, const struct application *app, const char *event) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.zoo-load/1");
    gs_write_string(&writer, "event", event);
    gs_write_int(&writer, "application", app - app->group->list);
    gs_write_string(&writer, "kernel", app->given->task.name);
    return writer;
}

static void put_ready(gs_text *text, const struct application *app) {
    const gs_zoo_load *load = &app->load;
    gs_writer writer = begin_json(text, app, "ready");
    gs_write_string(&writer, "size", app->given->task.steps.data[0].size.name);
    gs_write_string(&writer, "on", app->stream->ops->name);
    gs_write_int(&writer, "repeat", app->repeat);
    gs_write_uint(&writer, "launches", load->launches);
    gs_write_uint(&writer, "blocks", load->blocks);
    gs_write_uint(&writer, "streams", load->tracks);
    gs_write_int(&writer, "ahead", load->pace.ahead);
    gs_write_real(&writer, "setup_ms", (double)load->setup_ns / 1e6, 3);
    gs_write_real(&writer, "compile_ms", (double)load->compile_ns / 1e6, 3);
    gs_write_real(&writer, "pass_ms", (double)load->pass_ns / 1e6, 6);
    gs_write_finish(&writer);
}

static void print_ready(struct application *app) {
    const gs_zoo_load *load = &app->load;
    if (app->group->options->json)
        put_ready(&app->group->text, app);
    else
        printf("%s, %s: %llu launch%s, repeated %u time%s; set up in %.0f ms, of that %.0f compiling\n",
               app->given->task.name, app->given->task.steps.data[0].size.name, (unsigned long long)load->launches,
               load->launches == 1 ? "" : "es", app->repeat, app->repeat == 1 ? "" : "s", (double)load->setup_ns / 1e6,
               (double)load->compile_ns / 1e6);
}

static void put_round(gs_text *text, const struct application *app, int64_t number) {
    gs_writer writer = begin_json(text, app, "round");
    gs_write_int(&writer, "round", number);
    gs_write_int(&writer, "repeat", app->repeat);
    gs_write_int(&writer, "began_ns", app->round.began_ns);
    gs_write_int(&writer, "ended_ns", app->round.ended_ns);
    gs_write_int(&writer, "launches", app->round.launches);
    gs_write_finish(&writer);
}

static void print_round(struct application *app, int64_t number) {
    const gs_zoo_round *round = &app->round;
    double ms = (double)(round->ended_ns - round->began_ns) / 1e6;
    if (app->group->options->json)
        put_round(&app->group->text, app, number);
    else
        printf("%-14s round %lld: %10.3f ms, %u launch%s, %.0f a second, from %.6f to %.6f s\n", app->given->task.name,
               (long long)number, ms, round->launches, round->launches == 1 ? "" : "es", round->launches / ms * 1e3,
               (double)round->began_ns / 1e9, (double)round->ended_ns / 1e9);
}

static void print_end(struct application *app) {
    bool is_right = app->code == GS_OK;
    if (app->group->options->json) {
        gs_writer writer = begin_json(&app->group->text, app, "done");
        gs_write_bool(&writer, "right", is_right);
        gs_write_string(&writer, "reason", is_right ? "" : app->error.message);
        gs_write_finish(&writer);
    } else {
        printf("%-14s %s%s\n", app->given->task.name,
               is_right ? "right" : "wrong: ", is_right ? "" : app->error.message);
    }
}

/* ---- the group ---- */

static bool all_are_well(const struct group *group) {
    for (size_t i = 0; i < group->count; i++)
        if (group->list[i].code != GS_OK)
            return false;
    return true;
}

/* Flushes the output before the next step begins. */
static void flush_output(struct group *group) {
    gs_text_flush(&group->text);
    fflush(stdout);
}

/* "NUMBER" or "NUMBER:REPEAT", where 0 stands for as many as take --ms. False: it is neither. */
static bool choose_application(struct group *group, const char *word) {
    enum { MOST = 1 << 24 };
    char *end;
    unsigned long number = strtoul(word, &end, 10), repeat = 0;
    if (end == word || number >= group->count)
        return false;
    if (*end == ':')
        repeat = strtoul(end + 1, &end, 10);
    else
        repeat = group->list[number].repeat;
    group->list[number].is_in_round = true;
    group->list[number].repeat = (uint32_t)repeat;
    return !*end && repeat <= MOST;
}

/* With --wait, waits for a line. False: standard input has ended, or the line is wrong. */
static bool may_begin(struct group *group) {
    char line[512] = "", *rest = NULL;
    flush_output(group);
    if (group->options->wait && !fgets(line, sizeof line, stdin))
        return false;
    bool has_all = line[strspn(line, " \n")] == '\0';
    for (size_t i = 0; i < group->count; i++)
        group->list[i].is_in_round = has_all;
    for (char *word = strtok_r(line, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest))
        if (!choose_application(group, word)) {
            group->mistake =
                gs_usage(group->command, "a line has NUMBER or NUMBER:REPEAT, with numbers below %zu, not \"%.40s\"",
                         group->count, word);
            return false;
        }
    return true;
}

static void run_rounds(struct group *group) {
    pthread_barrier_wait(&group->barrier); /* all are set up */
    for (size_t i = 0; i < group->count && all_are_well(group); i++)
        print_ready(&group->list[i]);
    for (int64_t round = 1; round <= group->options->rounds && all_are_well(group) && may_begin(group); round++) {
        pthread_barrier_wait(&group->barrier);
        pthread_barrier_wait(&group->barrier);
        for (size_t i = 0; i < group->count; i++)
            if (group->list[i].is_in_round)
                print_round(&group->list[i], round);
        flush_output(group);
    }
    group->is_over = true;
    pthread_barrier_wait(&group->barrier);
}

static int run_group(struct group *group) {
    pthread_barrier_init(&group->barrier, NULL, (unsigned)group->count + 1);
    for (size_t i = 0; i < group->count; i++)
        if (pthread_create(&group->list[i].thread, NULL, run_application, &group->list[i]) != 0) {
            fprintf(stderr,
                    "gridsmith: cannot start a thread\n"); /* the others wait at the barrier and end with the process */
            _exit(gs_code_exit(GS_E_IO));
        }
    run_rounds(group);
    int status = group->mistake;
    for (size_t i = 0; i < group->count; i++) {
        struct application *app = &group->list[i];
        pthread_join(app->thread, NULL);
        if (app->code == GS_OK || app->code == GS_E_KERNEL)
            print_end(app);
        flush_output(group);
        if (app->code != GS_OK)
            status = app->code == GS_E_KERNEL ? 1 : gs_report(&app->error);
    }
    pthread_barrier_destroy(&group->barrier);
    flush_output(group);
    return status;
}

/* A GPU or a driver may hang, and then no call returns: the program ends itself. */
static void give_up(int signal) {
    static const char words[] = "gridsmith: not done within --seconds\n";
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

/* What the words name. */
static gs_code open_applications(struct group *group, const gs_words *words, gs_error *error) {
    const gs_zoo_options *options = group->options;
    gs_code code = GS_OK;
    for (size_t i = 0; i < words->count && code == GS_OK; i++)
        code = gs_zoo_applications_add(&group->given, words->data[i], options->size, error);
    if (code == GS_OK && (group->given.count == 0 || group->given.count > GS_ZOO_APPLICATIONS))
        return gs_fail(error, GS_E_USAGE, "load runs 1 to %d applications, not %zu", GS_ZOO_APPLICATIONS,
                       group->given.count);
    for (size_t i = 0; i < group->given.count && code == GS_OK; i++) {
        const gs_zoo_application *given = &group->given.data[i];
        uint32_t repeat = given->task.repeat ? given->task.repeat : (uint32_t)options->repeat;
        group->list[group->count++] = (struct application){.group = group, .given = given, .repeat = repeat};
    }
    return code;
}

static gs_code open_group(struct group *group, const gs_words *words, gs_error *error) {
    gs_code code = open_applications(group, words, error);
    for (size_t i = 0; i < group->count && code == GS_OK; i++) {
        group->list[i].stream = open_stream(group->options->on, i, group->count, error);
        code = group->list[i].stream ? GS_OK : error->code;
    }
    return code;
}

int gs_zoo_load_verb(const gs_command *command, void *given, const gs_words *names) {
    const gs_zoo_options *options = given;
    struct group *group = calloc(1, sizeof *group);
    gs_error error;
    if (!group)
        return gs_report_memory();
    *group = (struct group){.command = command, .options = options, .text = {.sink = stdout}};
    limit_time(options->seconds);
    int status = open_group(group, names, &error) == GS_OK ? run_group(group) : gs_report(&error);
    for (size_t i = 0; i < group->count; i++)
        gs_app_stream_close(group->list[i].stream);
    gs_zoo_applications_free(&group->given);
    alarm(0);
    if (gs_print_text(&group->text, GS_OK, &error) != GS_OK)
        status = gs_report(&error);
    free(group);
    return status;
}

/* ---- the cost of a launch ---- */

static gs_code print_launch_json(const char *on, const gs_zoo_launch_times *times, gs_error *error) {
    gs_text text = {.sink = stdout};
    gs_writer writer = gs_writer_to(&text);
    gs_write_document(&writer, "gridsmith.zoo-launch/1");
    gs_write_string(&writer, "on", on);
    gs_write_real(&writer, "waited_us", (double)times->waited_ns / 1e3, 3);
    gs_write_real(&writer, "waited_99_percent_us", (double)times->waited_most_ns / 1e3, 3);
    gs_write_real(&writer, "pipelined_us", times->pipelined_ns / 1e3, 3);
    gs_write_finish(&writer);
    return gs_print_text(&text, GS_OK, error);
}

int gs_zoo_launch_verb(const gs_command *command, void *given, const gs_words *words) {
    const gs_zoo_options *options = given;
    gs_error error;
    gs_zoo_launch_times times;
    (void)command;
    (void)words;
    limit_time(options->seconds);
    gs_app_stream *stream = open_stream(options->on, 0, 1, &error);
    if (!stream)
        return gs_report(&error);
    gs_code code = stream->ops->enter(stream, &error);
    if (code == GS_OK)
        code = gs_zoo_launch_cost(stream, options->repeat ? (uint32_t)options->repeat : 10000, &times, &error);
    if (code == GS_OK && options->json)
        code = print_launch_json(stream->ops->name, &times, &error);
    else if (code == GS_OK)
        printf("an empty kernel, launched and waited for: %.2f us (1%% take longer than %.2f)\n"
               "an empty kernel of many in a row:         %.2f us\n",
               (double)times.waited_ns / 1e3, (double)times.waited_most_ns / 1e3, times.pipelined_ns / 1e3);
    gs_app_stream_close(stream);
    alarm(0);
    return code == GS_OK ? 0 : gs_report(&error);
}
