/*
 * run.c: gridsmith run: runs an unmodified program in a class. Puts the libcuda.so.1 of src/sharing/gate in front of
 * the driver, passes the settings in the environment, and executes the program.
 */
#define _GNU_SOURCE
#include "cmd.h"
#include "kernels/front/front.h"
#include "sharing/client/client.h"
#include "status.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Time slices of best-effort programs, and of latency programs: the GPU should not switch to a kernel that it has
   interrupted before a request is done. */
static const char slice_us[] = "5", latency_slice_us[] = "20000";

enum { LEAST_MEMORY = 1 << 20 };

struct options {
    const char *socket, *most, *deadline, *sms;
    int64_t memory;
    int64_t weight, hold, ahead, slice;
    bool latency, best_effort, guard, no_guard, mps, no_mps;
};

static const gs_option option_table[] = {
    GS_FLAG(struct options, "latency", latency, "its requests must be fast: best-effort programs wait for it"),
    GS_FLAG(struct options, "best-effort", best_effort, "it uses the time that latency programs leave"),
    GS_INT(struct options, "weight", weight, "N", 1, 1000,
           "its share relative to the other programs of its class (default 100)"),
    GS_TEXT(struct options, "most", most, "PERCENT",
            "limit of the GPU's time that a best-effort program may have, such as 30%"),
    GS_SIZE(struct options, "memory", memory, LEAST_MEMORY, INT64_MAX,
            "limit of its device memory, such as 16G; allocations beyond it fail"),
    GS_TEXT(struct options, "sms", sms, "N|PERCENT", "SMs that it may use, such as 64 or 50%; needs MPS"),
    GS_INT(struct options, "hold", hold, "MS", 1, 10000,
           "a request delays others for at most this long (default: 10 times the longest, 20 to 1000)"),
    GS_TEXT(struct options, "deadline", deadline, "TIME",
            "of a request of a latency program, such as 5ms: the status counts later ones, and names kernels that can "
            "cause them"),
    GS_INT(struct options, "ahead", ahead, "US", 1, 1000000,
           "best-effort work between two waits for latency programs (default 50)"),
    GS_INT(
        struct options, "slice", slice, "US", 1, 1000000,
        "time slices of the GPU for it, without MPS (default: 5 for a best-effort program beside a latency program)"),
    GS_FLAG(struct options, "mps", mps,
            "share the GPU by MPS, or fail (default: MPS, unless requests lose less without it)"),
    GS_FLAG(struct options, "no-mps", no_mps, "share the GPU by time slices"),
    GS_FLAG(struct options, "guard", guard,
            "long kernels of a best-effort program stop when a request comes (default: under MPS)"),
    GS_FLAG(struct options, "no-guard", no_guard, "they do not"),
    GS_SOCKET_OPTION(struct options, socket),
};

/* ---- where the library is ---- */

/* The folder of the gate's libcuda.so.1: beside the program in a build, or installed. False: not found. */
static bool find_gate(char *folder, size_t size) {
    static const char *const places[] = {"gate", "../" GS_LIBRARY_FOLDER "/gridsmith/gate"};
    const char *named = getenv("GRIDSMITH_GATE");
    if (named && named[0] == '/') {
        char library[1200];
        snprintf(library, sizeof library, "%s/libcuda.so.1", named);
        return snprintf(folder, size, "%s", named) < (int)size && access(library, R_OK) == 0;
    }
    return gs_front_find(places, GS_COUNT(places), folder, size);
}

/* ---- MPS ---- */

/* The MPS started by the daemon, if any, or the one of the environment. */
static bool find_mps(const json_t *status) {
    const char *folder = json_string_value(json_object_get(status, "mps_folder"));
    char path[1024];
    if (folder)
        setenv("CUDA_MPS_PIPE_DIRECTORY", folder, 1);
    folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    snprintf(path, sizeof path, "%s/control", folder && folder[0] ? folder : "/tmp/nvidia-mps");
    return access(path, F_OK) == 0;
}

/* No MPS has this folder: the program runs without one. */
static void leave_mps(void) {
    setenv("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent", 1);
}

/* A step size, a count, a seed: it does not name other work. */
static bool is_number(const char *text) {
    char *end = NULL;
    strtod(text, &end);
    return strpbrk(text, "0123456789") && !*end;
}

/* A word of a command, or what is behind its "=", may be a number: all are the same. */
static uint64_t hash_word(uint64_t key, const char *word) {
    word += strncmp(word, "./", 2) == 0 ? 2 : 0;
    const char *sign = strchr(word, '='), *value = sign ? sign + 1 : word;
    bool has_number = is_number(value);
    key = gs_hash(key, word, has_number ? (size_t)(value - word) : strlen(word));
    return has_number ? gs_hash(key, "#", 2) : gs_hash(key, "", 1);
}

/* Names what is executed: the words without numbers, the folder and the class. Never 0. */
static uint64_t command_key(const gs_words *words, bool is_latency) {
    char *here = getcwd(NULL, 0);
    uint64_t key = here ? gs_hash(is_latency, here, strlen(here)) : is_latency;
    for (size_t i = 0; i < words->count; i++)
        key = hash_word(key, words->data[i]);
    free(here);
    return key ? key : 1;
}

/* Whether there are best-effort programs, and all use MPS. Time slices of several programs are long, so without MPS a
   request would wait for some of them. */
static bool others_use_mps(const json_t *status) {
    const json_t *programs = json_object_get(status, "programs");
    size_t mps = 0, slices = 0;
    for (size_t i = 0; i < json_array_size(programs); i++) {
        const json_t *program = json_array_get(programs, i);
        const char *sharing = json_string_value(json_object_get(program, "sharing"));
        if (!sharing || json_object_get(program, "requests"))
            continue;
        mps += strcmp(sharing, "MPS") == 0;
        slices += strcmp(sharing, "MPS") != 0;
    }
    return mps && !slices;
}

/* Whether the program uses MPS, and why, for people. */
struct choice {
    bool has_mps;
    char why[GS_TENANT_REASON];
};

static struct choice choose(bool has_mps, const char *why) {
    struct choice choice = {.has_mps = has_mps};
    snprintf(choice.why, sizeof choice.why, "%s", why);
    return choice;
}

/* By what the daemon knows of the command. */
static struct choice choose_by_command(const struct options *options, const json_t *status, uint64_t key) {
    char name[24];
    snprintf(name, sizeof name, "%016llx", (unsigned long long)key);
    const json_t *known = gs_status_choice(status, name);
    const char *next = json_string_value(json_object_get(known, "next")),
               *why = json_string_value(json_object_get(known, "why"));
    if (!next || !why)
        return choose(true, "the daemon does not know this command yet");
    return choose(strcmp(next, "MPS") == 0, options->latency ? "as its neighbors do" : why);
}

static struct choice choose_mps(const struct options *options, const json_t *status, uint64_t key, bool is_there) {
    if (options->mps || options->no_mps)
        return choose(options->mps, options->mps ? "--mps" : "--no-mps");
    if (!is_there)
        return choose(false, "there is no MPS");
    if (options->best_effort && others_use_mps(status))
        return choose(true, "other best-effort programs use it");
    return choose_by_command(options, status, key);
}

/* Chooses, and says it on standard error and, by the library, in the status. */
static gs_code share(const struct options *options, const json_t *status, uint64_t key, bool *has_mps,
                     gs_error *error) {
    bool is_there = find_mps(status);
    if (options->mps && !is_there)
        return gs_fail(error, GS_E_NO_GPU, "--mps: no MPS control daemon was found");
    struct choice choice = choose_mps(options, status, key, is_there);
    *has_mps = choice.has_mps;
    if (is_there && !*has_mps)
        leave_mps();
    setenv("GRIDSMITH_WHY", choice.why, 1);
    if (status)
        fprintf(stderr, "gridsmith run: shares the GPU by %s: %s\n", *has_mps ? "MPS" : "time slices", choice.why);
    return GS_OK;
}

/* Digits, and this unit: a number up to `most`. -1: something else. */
static int64_t count_of(const char *text, const char *unit, int64_t most) {
    size_t digits = strspn(text, "0123456789");
    long long count = strtoll(text, NULL, 10);
    return digits && strcmp(text + digits, unit) == 0 && count >= 1 && count <= most ? count : -1;
}

/* "64" or "50%" of the SMs in percent. 0: not given, or the number of the GPU's SMs is not known; -1: something else.
 */
static double sms_percent(const char *text, const json_t *status) {
    enum { MOST_SMS = 1024 };
    const json_t *device = json_object_get(status, "device");
    int64_t percent = text ? count_of(text, "%", 100) : 0;
    if (percent >= 0)
        return (double)percent;
    int64_t sms = count_of(text, "", MOST_SMS);
    if (sms < 0 || !json_is_true(json_object_get(device, "is_gpu")))
        return sms < 0 ? -1 : 0;
    return fmin(100 * (double)sms / json_number_value(json_object_get(device, "sms")), 100);
}

static void set_sms(const char *sms, const json_t *status, bool has_mps) {
    double part = sms_percent(sms, status);
    char percent[20];
    if (has_mps && part > 0) {
        snprintf(percent, sizeof percent, "%.2f", part);
        setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percent, 1);
    } else {
        fprintf(stderr, "gridsmith run: --sms has no effect: %s\n",
                has_mps ? "no daemon on the GPU says how many it has; give a part, such as 50%"
                        : "it needs MPS, and no MPS control daemon was found");
    }
}

/* Says once that there is no daemon: the library in front of the driver need not. */
static void report_daemon(bool is_there, const gs_error *error) {
    if (is_there) {
        unsetenv("GRIDSMITH_NO_DAEMON");
        return;
    }
    fprintf(stderr, "gridsmith run: %s; running without it\n", error->message);
    setenv("GRIDSMITH_NO_DAEMON", "1", 1);
}

/* Under MPS, a part of the SMs and a lower priority; without it, short time slices. */
static gs_code set_mps(const struct options *options, const gs_words *words, gs_error *error) {
    gs_error no_daemon = {.code = GS_OK};
    char *text = NULL, key[24];
    json_t *status = gs_status_get(NULL, &text, &no_daemon);
    uint64_t command = command_key(words, options->latency);
    bool has_mps = false;
    report_daemon(status, &no_daemon);
    gs_code code = share(options, status, command, &has_mps, error);
    snprintf(key, sizeof key, "%llu", (unsigned long long)command);
    if (options->mps || options->no_mps)
        unsetenv("GRIDSMITH_COMMAND"); /* what the user chooses is not learned */
    else
        setenv("GRIDSMITH_COMMAND", key, 1);
    if (options->best_effort && has_mps)
        setenv("CUDA_MPS_CLIENT_PRIORITY", "1", 0);
    if (!has_mps && !options->slice)
        setenv("GRIDSMITH_SLICE_US", options->latency ? latency_slice_us : slice_us, 0);
    if (options->sms)
        set_sms(options->sms, status, has_mps);
    if (options->most && !status)
        fprintf(stderr, "gridsmith run: --most has no effect: no daemon answers\n");
    json_decref(status);
    free(text);
    return code;
}

/* ---- running ---- */

/* A limit of memory of the outer run can only be lowered. What is no limit is ignored, as the library does. */
static int64_t lowest_memory(int64_t wanted) {
    const char *outer = getenv("GRIDSMITH_CLASS") ? getenv("GRIDSMITH_MEMORY") : NULL;
    char *end = NULL;
    int64_t limit = outer ? strtoll(outer, &end, 10) : 0;
    return limit >= LEAST_MEMORY && !*end && limit < wanted ? limit : wanted;
}

/* A nested run has its own class and options. Only the memory limit is inherited. */
static void forget_outer_run(void) {
    static const char *const variables[] = {"GRIDSMITH_WEIGHT",      "GRIDSMITH_MOST",     "GRIDSMITH_HOLD_MS",
                                            "GRIDSMITH_DEADLINE_US", "GRIDSMITH_AHEAD_US", "GRIDSMITH_SLICE_US",
                                            "GRIDSMITH_GUARD"};
    const char *class = getenv("GRIDSMITH_CLASS");
    if (!class)
        return;
    for (size_t i = 0; i < GS_COUNT(variables); i++)
        unsetenv(variables[i]);
    if (strcmp(class, "best-effort") == 0)
        unsetenv("CUDA_MPS_CLIENT_PRIORITY");
}

/* "30%" or "30", from 1 to 100. 0: not given; -1: something else. */
static int64_t percent_of(const char *text) {
    int64_t percent = text ? count_of(text, "%", 100) : 0;
    return percent >= 0 ? percent : count_of(text, "", 100);
}

/* "5ms", "500us" or "1s" in microseconds, up to an hour. 0: not given; -1: something else. */
static int64_t deadline_of(const char *text) {
    static const struct {
        const char *unit;
        int64_t us;
    } units[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}};
    enum { MOST_S = 3600 };
    char *end = NULL;
    if (!text)
        return 0;
    double number = text[0] >= '0' && text[0] <= '9' ? strtod(text, &end) : 0;
    for (size_t i = 0; i < GS_COUNT(units) && end; i++)
        if (strcmp(end, units[i].unit) == 0 && number * (double)units[i].us >= 1 &&
            number * (double)units[i].us <= MOST_S * 1e6)
            return (int64_t)(number * (double)units[i].us);
    return -1;
}

static void set_number(const char *variable, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    if (value)
        setenv(variable, text, 1);
}

/* The path is absolute: the program may be in another folder when it connects. */
static bool set_socket(const char *path) {
    gs_text whole = {0};
    char *here = path[0] && path[0] != '/' ? getcwd(NULL, 0) : NULL;
    gs_text_add(&whole, "%s%s%s", here ? here : "", here ? "/" : "", path);
    bool is_well = !whole.failed && setenv("GRIDSMITH_SOCKET", whole.data, 1) == 0;
    gs_text_free(&whole);
    free(here);
    return is_well;
}

static gs_code set_environment(const struct options *options, const gs_words *words, gs_error *error) {
    const char *socket = options->socket ? options->socket : getenv("GRIDSMITH_SOCKET");
    char folder[1100];
    if (!find_gate(folder, sizeof folder))
        return gs_fail(error, GS_E_IO, "the libcuda.so.1 of gridsmith was not found: set GRIDSMITH_GATE to its folder");
    int64_t memory = lowest_memory(options->memory);
    forget_outer_run();
    setenv("GRIDSMITH_CLASS", options->latency ? "latency" : "best-effort", 1);
    set_number("GRIDSMITH_WEIGHT", options->weight);
    set_number("GRIDSMITH_MOST", percent_of(options->most));
    set_number("GRIDSMITH_MEMORY", memory);
    set_number("GRIDSMITH_HOLD_MS", options->hold);
    set_number("GRIDSMITH_DEADLINE_US", deadline_of(options->deadline));
    set_number("GRIDSMITH_AHEAD_US", options->ahead);
    set_number("GRIDSMITH_SLICE_US", options->slice);
    if (options->guard || options->no_guard)
        setenv("GRIDSMITH_GUARD", options->guard ? "1" : "0", 1);
    if (socket && !set_socket(socket))
        return gs_fail_memory(error);
    if (set_mps(options, words, error) != GS_OK)
        return error->code;
    return gs_front_place(folder) ? GS_OK : gs_fail_memory(error);
}

/* The exit status is that of a shell, and of 'gridsmith trace'. */
static int report_no_program(const char *program, int reason) {
    enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 };
    gs_error error;
    gs_fail(&error, GS_E_IO, "cannot start \"%s\": %s", program, strerror(reason));
    gs_report(&error);
    return reason == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
}

static int run_program(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    gs_error error = {.code = GS_OK};
    if (options->latency == options->best_effort)
        return gs_usage(command, "give one class: --latency or --best-effort");
    if (options->latency && (options->guard || options->no_guard))
        return gs_usage(command, "%s is for best-effort programs: kernels of a latency program are not stopped",
                        options->guard ? "--guard" : "--no-guard");
    if ((options->mps && options->no_mps) || (options->guard && options->no_guard))
        return gs_usage(command, "give %s, not both", options->mps ? "--mps or --no-mps" : "--guard or --no-guard");
    if (percent_of(options->most) < 0)
        return gs_usage(command, "--most takes a percentage from 1 to 100, such as 30%%");
    if (sms_percent(options->sms, NULL) < 0)
        return gs_usage(command, "--sms takes a number from 1 to 1024, or a percentage, such as 50%%");
    if (deadline_of(options->deadline) < 0)
        return gs_usage(command, "--deadline takes a time with its unit from 1us to 3600s, such as 5ms");
    if (options->deadline && options->best_effort)
        return gs_usage(command, "--deadline is for latency programs: those of best effort have no requests");
    if (options->latency && (options->most || options->ahead))
        return gs_usage(command, "%s is for best-effort programs", options->most ? "--most" : "--ahead");
    if (options->best_effort && options->hold)
        return gs_usage(command, "--hold is for latency programs: best-effort programs do not hold others");
    if (set_environment(options, words, &error) == GS_OK) {
        execvp(words->data[0], (char *const *)(uintptr_t)words->data);
        return report_no_program(words->data[0], errno);
    }
    return gs_report(&error);
}

const gs_command gs_command_run_program = {
    .name = "run",
    .summary = "Run an unmodified program, protected from its neighbors or yielding to them.",
    .usage = "(--latency | --best-effort) [options] -- PROGRAM [ARGUMENT...]",
    .details = "Best-effort programs stop launching kernels while a latency program has work. Without a daemon\n"
               "('gridsmith serve') programs run as usual, and a line on standard error says so.\n\n"
               "  gridsmith serve &\n"
               "  gridsmith run --latency -- python serve.py\n"
               "  gridsmith run --best-effort -- python train.py\n",
    GS_OPTION_TABLE(struct options, option_table),
    .words = {.least = 1, .most = SIZE_MAX, .mistake = "give a program: gridsmith run --latency -- PROGRAM"},
    .takes_program = true,
    .run = run_program,
};
