/*
 * stage.c: a daemon with honest clients around it, on the CPU or on a GPU.
 *
 * The daemon has a folder of its own for everything: its socket, its cache, TMPDIR. So what it leaves behind is found.
 * The kit is the reaper of orphans (PR_SET_CHILD_SUBREAPER), so compilers that lost their parent are found, too.
 * Private memory of the daemon's processes is limited (RLIMIT_DATA), so that a source that eats memory ends by itself
 * and not the machine.
 */
#define _GNU_SOURCE
#include "hostile.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the status ---- */

static int request_status(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = 20};
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = GS_WIRE_STATUS};
    gs_wire_welcome welcome;
    alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {.iov_base = &welcome, .iov_len = sizeof welcome};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int file = -1, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello && recvmsg(fd, &message, MSG_CMSG_CLOEXEC) > 0 &&
        CMSG_FIRSTHDR(&message))
        memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    close(fd);
    return file;
}

/* The caller gives it back. NULL: no answer. */
static json_t *read_status(const char *path) {
    int file = request_status(path);
    FILE *stream = file >= 0 && lseek(file, 0, SEEK_SET) == 0 ? fdopen(file, "r") : NULL;
    json_t *root = stream ? json_loadf(stream, 0, NULL) : NULL;
    if (stream)
        fclose(stream);
    else if (file >= 0)
        close(file);
    return root;
}

bool stage_status_time(const char *socket, int64_t *time_ns) {
    json_t *root = read_status(socket);
    *time_ns = json_integer_value(json_object_get(root, "time_ns"));
    json_decref(root);
    return root != NULL;
}

bool stage_status(const struct stage *stage, long *clients, long *restarts, pid_t *worker) {
    json_t *root = read_status(stage->socket), *device = json_object_get(root, "device");
    if (clients)
        *clients = (long)json_array_size(json_object_get(root, "clients"));
    if (restarts)
        *restarts = (long)json_integer_value(json_object_get(device, "restarts"));
    if (worker)
        *worker = (pid_t)json_integer_value(json_object_get(device, "process"));
    json_decref(root);
    return root != NULL;
}

/* ---- the daemon ---- */

static void limit(int what, uint64_t most) {
    struct rlimit both = {.rlim_cur = most, .rlim_max = most};
    setrlimit(what, &both);
}

__attribute__((noreturn)) static void become_daemon(const struct stage *stage, const struct stage_options *options) {
    char metrics[40];
    const char *words[32] = {options->program, "serve",   "--device",   options->device, "--socket",
                             stage->socket,    "--cache", stage->cache, "--profiles",    "",
                             "--metrics",      metrics,   "--no-mps"};
    size_t count = 13;
    snprintf(metrics, sizeof metrics, "127.0.0.1:%d", stage->metrics_port);
    bool is_on_cpu = strcmp(options->device, "host") == 0;
    if (is_on_cpu) {
        words[count++] = "--sms";
        words[count++] = "4";
    }
    for (const char *const *more = options->more; more && *more && count < 31;)
        words[count++] = *more++;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("TMPDIR", stage->temporary, 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    int log = open(stage->log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600), none = open("/dev/null", O_RDWR);
    dup2(none, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    if (!HOSTILE_IS_SANITIZED && is_on_cpu) /* the driver of a GPU needs more */
        limit(RLIMIT_DATA, (uint64_t)3 << 30);
    if (options->descriptors)
        limit(RLIMIT_NOFILE, options->descriptors);
    execv(options->program, (char **)(uintptr_t)words);
    _exit(127);
}

static void name_paths(struct stage *stage, const char *folder) {
    snprintf(stage->folder, sizeof stage->folder, "%s", folder);
    snprintf(stage->socket, sizeof stage->socket, "%s/s", stage->folder);
    snprintf(stage->cache, sizeof stage->cache, "%s/cache", stage->folder);
    snprintf(stage->temporary, sizeof stage->temporary, "%s/tmp", stage->folder);
    snprintf(stage->log, sizeof stage->log, "%s/daemon.log", stage->folder);
    mkdir(stage->folder, 0700);
    mkdir(stage->cache, 0700);
    mkdir(stage->temporary, 0700);
}

/* A port that nobody has now. */
static int free_port(void) {
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof where;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_bound = fd >= 0 && bind(fd, (struct sockaddr *)&where, sizeof where) == 0 &&
                    getsockname(fd, (struct sockaddr *)&where, &size) == 0;
    if (fd >= 0)
        close(fd);
    return is_bound ? ntohs(where.sin_port) : 0;
}

bool stage_open(struct stage *stage, const char *folder, const struct stage_options *options) {
    name_paths(stage, folder);
    stage->metrics_port = free_port();
    stage->honest_count = 0;
    stage->stuck = 0;
    stage->daemon = fork();
    if (stage->daemon == 0)
        become_daemon(stage, options);
    for (int i = 0; i < 12000; i++) {
        if (access(stage->socket, F_OK) == 0 && stage_status(stage, NULL, NULL, &stage->worker))
            return true;
        hostile_sleep_ms(10);
    }
    return false;
}

bool stage_settle(struct stage *stage, long clients, int seconds) {
    long connected = -1;
    size_t processes = 0;
    for (int i = 0; i < seconds * 50; i++) {
        pid_t children[1];
        processes = watch_children(stage->daemon, children, 1);
        if (stage_status(stage, &connected, NULL, NULL) && connected <= clients + stage->stuck && processes <= 1)
            return true;
        hostile_sleep_ms(20);
    }
    printf("%ld clients are connected, and %ld should be; the daemon has %zu processes\n", connected,
           clients + stage->stuck, processes);
    stage->stuck = connected > clients ? connected - clients : 0;
    return false;
}

/* ---- honest clients ---- */

void stage_restart_honest(struct stage *stage, size_t number) {
    struct honest honest = {.socket = stage->socket,
                            .board = stage->board,
                            .side = stage->side,
                            .number = (int)number,
                            .may_fail = stage->may_fail};
    stage->board->honest[stage->side][number] = (struct honest_state){0};
    pid_t process = fork();
    if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(honest_works(&honest));
    }
    stage->honest[number] = process;
}

void stage_start_honest(struct stage *stage, size_t count, bool may_fail) {
    atomic_store(&stage->board->must_stop, 0);
    stage->may_fail = may_fail;
    stage->honest_count = count < HONEST_MOST ? count : HONEST_MOST;
    for (size_t i = 0; i < stage->honest_count; i++)
        stage_restart_honest(stage, i);
}

/* Waits for a process; kills it if it takes too long. */
static int wait_for(pid_t process, int seconds) {
    int status = -1;
    for (int i = 0; i < seconds * 100; i++) {
        if (waitpid(process, &status, WNOHANG) == process)
            return status;
        hostile_sleep_ms(10);
    }
    kill(process, SIGKILL);
    waitpid(process, &status, 0);
    return status;
}

bool stage_stop_honest(struct stage *stage) {
    enum { PATIENCE_SECONDS = 240 };
    bool is_good = true;
    atomic_store(&stage->board->must_stop, 1);
    for (size_t i = 0; i < stage->honest_count; i++) {
        const struct honest_state *state = &stage->board->honest[stage->side][i];
        uint32_t operation = atomic_load(&state->operation);
        int status = wait_for(stage->honest[i], PATIENCE_SECONDS);
        if (status == 0)
            continue;
        is_good = false;
        fprintf(stderr, "honest client %zu: %s%s\n", i,
                atomic_load(&state->has_failed) ? state->message : "it hangs or was ended, while it waits for ",
                atomic_load(&state->has_failed) ? "" : honest_names[operation % HONEST_OPERATIONS]);
    }
    stage->honest_count = 0;
    return is_good;
}

/* ---- closing ---- */

static bool is_empty(const char *folder, const char *prefix, const char *what) {
    size_t count = watch_entries(folder, prefix);
    if (count)
        fprintf(stderr, "%zu %s are left in %s\n", count, what, folder);
    return count == 0;
}

bool stage_close(struct stage *stage) {
    enum { PATIENCE_SECONDS = 240 };
    if (stage->daemon <= 0)
        return false;
    kill(stage->daemon, SIGCONT);
    kill(stage->daemon, SIGTERM);
    int status = wait_for(stage->daemon, PATIENCE_SECONDS);
    if (status != 0)
        fprintf(stderr, "the daemon ended with status %x instead of 0\n", (unsigned)status);
    bool is_clean = is_empty(stage->cache, "work-", "folders of compilers");
    is_clean = is_empty(stage->temporary, "", "temporary files") && is_clean;
    stage->daemon = 0;
    return status == 0 && is_clean;
}
