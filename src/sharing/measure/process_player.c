/*
 * process_player.c: a GPU as a player, in a process of its own.
 *
 * A kernel that never ends, or that fails, makes a context useless. So another process has the GPU: it is killed when a
 * measurement takes too long, and after a failure it ends. The next measurement starts it again.
 *
 * Both are this program, so what they exchange are structs: first the sources, then the shapes of the kernels back,
 * then a measurement and its result, again and again.
 */
#include "cuda_player.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SETUP_SECONDS = 600, REST_BYTES = 64 };

struct hello {
    uint64_t count;
    char rest[REST_BYTES];
};

struct opened {
    gs_error error; /* GS_OK: the kernels follow */
    gs_player_gpu gpu;
};

struct answer {
    gs_code code;
    gs_measure_result measured;
    char words[GS_SEARCH_WORDS];
};

/* ---- bytes ---- */

static bool send_bytes(int fd, const void *bytes, size_t count) {
    const char *at = bytes;
    while (count > 0) {
        ssize_t sent = send(fd, at, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        count -= (size_t)sent;
    }
    return true;
}

/* False: the other end is gone. `*is_late`: it is silent for longer than the time that is left. */
static bool receive_bytes(int fd, void *bytes, size_t count, int64_t deadline_ns, bool *is_late) {
    char *at = bytes;
    *is_late = false;
    while (count > 0) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int64_t left_ns = deadline_ns ? deadline_ns - gs_now_ns() : INT64_MAX;
        int ready = left_ns <= 0 ? 0 : poll(&wait, 1, deadline_ns ? (int)gs_min(left_ns / 1000000 + 1, INT32_MAX) : -1);
        if (ready < 0 && errno == EINTR)
            continue;
        *is_late = ready == 0;
        ssize_t got = ready > 0 ? recv(fd, at, count, 0) : 0;
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        count -= (size_t)got;
    }
    return true;
}

/* ---- the process ---- */

static bool answer_one(gs_bench *bench, int fd) {
    gs_measurement measurement;
    struct answer answer = {.code = GS_OK};
    gs_error error = {.code = GS_OK};
    bool is_late;
    if (!receive_bytes(fd, &measurement, sizeof measurement, 0, &is_late))
        return false;
    answer.code = gs_bench_measure(bench, &measurement, &answer.measured, &error);
    if (answer.code != GS_OK)
        snprintf(answer.words, sizeof answer.words, "%.*s", (int)sizeof answer.words - 1, error.message);
    return send_bytes(fd, &answer, sizeof answer) && answer.code == GS_OK;
}

static int serve(int fd, const struct hello *hello, gs_kernel_source *sources) {
    gs_bench bench;
    struct opened opened = {.gpu = {.sms = 0}};
    opened.error.code = gs_bench_open(&bench, hello->rest, sources, hello->count, &opened.error);
    opened.gpu.sms = bench.gpu.sms;
    memcpy(opened.gpu.name, bench.gpu.name, sizeof opened.gpu.name);
    bool good = send_bytes(fd, &opened, sizeof opened) && opened.error.code == GS_OK;
    for (size_t i = 0; i < hello->count && good; i++)
        good = send_bytes(fd, &bench.subjects[i].given, sizeof bench.subjects[i].given);
    while (good && answer_one(&bench, fd))
        ;
    _exit(0); /* without closing: a kernel may still run */
}

int gs_player_process(int argc, char **argv) {
    struct hello hello;
    bool is_late;
    int fd = GS_PROCESS_FIRST_FD;
    (void)argv;
    if (argc != 1 || !receive_bytes(fd, &hello, sizeof hello, 0, &is_late) || hello.count > GS_SEARCH_KERNELS)
        return gs_code_exit(GS_E_USAGE);
    gs_kernel_source *sources = calloc(hello.count + 1, sizeof *sources);
    hello.rest[REST_BYTES - 1] = '\0';
    if (!sources || !receive_bytes(fd, sources, hello.count * sizeof *sources, 0, &is_late))
        return gs_code_exit(GS_E_USAGE);
    return serve(fd, &hello, sources);
}

/* ---- the player ---- */

struct process_player {
    gs_cuda_player_options options;
    gs_kernel_source *sources;
    gs_pair_search_kernel *kernels; /* as the process reports them */
    pid_t process;                  /* 0: there is none */
    int fd;
    gs_player_gpu gpu;
};

static void end_process(struct process_player *inside) {
    if (!inside->process)
        return;
    close(inside->fd);
    gs_process_kill(inside->process, false);
    inside->process = 0;
}

static gs_code spawn(struct process_player *inside, gs_error *error) {
    const char *words[] = {"gridsmith", GS_PLAYER_PROCESS, NULL};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return gs_fail_system(error, "open", "a socket pair");
    gs_process_options options = {
        .program = gs_program_own(), .words = words, .fds = {ends[1]}, .fd_count = 1, .end_signal = SIGKILL};
    gs_code code = gs_process_start(&options, &inside->process, error);
    close(ends[1]);
    inside->fd = ends[0];
    if (code != GS_OK) {
        close(ends[0]);
        inside->process = 0;
    }
    return code;
}

static gs_code start(struct process_player *inside, gs_error *error) {
    struct hello hello = {.count = inside->options.count};
    struct opened opened;
    int64_t deadline_ns = gs_now_ns() + (int64_t)SETUP_SECONDS * 1000000000;
    bool is_late = false;
    gs_code code = spawn(inside, error);
    if (code != GS_OK)
        return code;
    snprintf(hello.rest, sizeof hello.rest, "%s", inside->options.rest);
    bool good = send_bytes(inside->fd, &hello, sizeof hello) &&
                send_bytes(inside->fd, inside->sources, hello.count * sizeof *inside->sources) &&
                receive_bytes(inside->fd, &opened, sizeof opened, deadline_ns, &is_late);
    if (good && opened.error.code != GS_OK) {
        *error = opened.error;
        end_process(inside);
        return error->code;
    }
    good = good &&
           receive_bytes(inside->fd, inside->kernels, hello.count * sizeof *inside->kernels, deadline_ns, &is_late);
    if (good) {
        inside->gpu = opened.gpu;
        return GS_OK;
    }
    end_process(inside);
    return gs_fail(error, GS_E_IO, "the process that measures %s",
                   is_late ? "did not start in time" : "ended while it started");
}

static void fail(gs_measure_result *measured, const char *words) {
    *measured = (gs_measure_result){.is_failed = true};
    snprintf(measured->reason, sizeof measured->reason, "%s", words);
}

static gs_code measure(gs_player *player, const gs_measurement *measurement, gs_measure_result *measured,
                       gs_error *error) {
    struct process_player *inside = player->inside;
    struct answer answer;
    char words[GS_SEARCH_WORDS];
    bool is_late = false;
    gs_code code = inside->process ? GS_OK : start(inside, error);
    if (code != GS_OK)
        return code;
    int64_t deadline_ns = gs_now_ns() + inside->options.seconds * 1000000000;
    bool good = send_bytes(inside->fd, measurement, sizeof *measurement) &&
                receive_bytes(inside->fd, &answer, sizeof answer, deadline_ns, &is_late);
    if (good && answer.code == GS_OK) {
        *measured = answer.measured;
        return GS_OK;
    }
    if (good)
        snprintf(words, sizeof words, "%s", answer.words);
    else if (is_late)
        snprintf(words, sizeof words, "it did not end within %lld seconds", (long long)inside->options.seconds);
    else
        snprintf(words, sizeof words, "the process that measures has ended");
    fail(measured, words);
    end_process(inside);
    return GS_OK;
}

static void close_player(gs_player *player) {
    struct process_player *inside = player->inside;
    end_process(inside);
    free(inside->sources);
    free(inside->kernels);
    free(inside);
    free(player);
}

gs_player *gs_player_cuda(const gs_cuda_player_options *options, gs_pair_search_kernel *kernels, gs_player_gpu *gpu,
                          gs_error *error) {
    static const gs_player_ops ops = {.name = "cuda", .measure = measure, .close = close_player};
    gs_player *player = calloc(1, sizeof *player);
    struct process_player *inside = calloc(1, sizeof *inside);
    if (!player || !inside) {
        free(player);
        free(inside);
        gs_fail_memory(error);
        return NULL;
    }
    *player = (gs_player){.ops = &ops, .inside = inside};
    *inside = (struct process_player){.options = *options,
                                      .sources = calloc(options->count + 1, sizeof *inside->sources),
                                      .kernels = calloc(options->count + 1, sizeof *inside->kernels)};
    gs_code code = inside->sources && inside->kernels ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK) {
        memcpy(inside->sources, options->sources, options->count * sizeof *inside->sources);
        code = start(inside, error);
    }
    if (code != GS_OK) {
        close_player(player);
        return NULL;
    }
    memcpy(kernels, inside->kernels, options->count * sizeof *kernels);
    *gpu = inside->gpu;
    return player;
}
