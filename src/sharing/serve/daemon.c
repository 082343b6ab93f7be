/*
 * daemon.c: gridsmith serve: the loop around serving.c, signals, and descriptors watched by libuv.
 *
 * There is one thread, besides those of src/sharing/image. libuv watches descriptors: the listening socket, each
 * client's connection, the worker, the threads of compilers, a timer, signals, and HTTP for Prometheus. While there is
 * work, and for a while after it, the loop does not sleep: it polls the rings in shared memory, and sometimes libuv.
 * The time it stays awake without work grows when spinning found work, and shrinks when it did not.
 */
#define _GNU_SOURCE
#include "daemon.h"
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    SPIN_NS = 2000000,          /* awake without work, at most, */
    SPIN_FEW_CORES_NS = 100000, /* where there are few cores, */
    SPIN_LEAST_NS = 5000,       /* and at least */
    LOOK_NS = 50000,            /* how often libuv is polled while there is work */
    DRAIN_SECONDS = 10          /* how long a stopping daemon waits for the commands of clients */
};

struct daemon {
    const gs_serve_options *options;
    gs_server *server;
    gs_listener listener;
    gs_mps mps;
    gs_connections connections;
    gs_members members;
    gs_http http;
    uv_loop_t loop;
    uv_poll_t listener_poll, worker_poll, image_poll, timer_poll;
    uv_signal_t terminate, interrupt;
    uv_timer_t again; /* when clients are accepted again */
    int timer_fd;
    uint64_t stop_at_ns; /* 0: not stopping */
    bool must_stop_now;
    uint64_t spin_ns, most_spin_ns; /* how long it spins before it sleeps */
    uint64_t worked_ns;             /* when it last found work */
};

/* ---- what libuv watches ---- */

static void client_came(uv_poll_t *poll, int status, int events);

static void accept_again(uv_timer_t *timer) {
    struct daemon *daemon = timer->data;
    if (!daemon->connections.is_stopping)
        uv_poll_start(&daemon->listener_poll, UV_READABLE, client_came);
}

/* Without free descriptors the socket stays readable, so it is ignored for a while. */
static void client_came(uv_poll_t *poll, int status, int events) {
    enum { AGAIN_MS = 100 };
    struct daemon *daemon = poll->data;
    (void)status, (void)events;
    if (gs_connections_accept(&daemon->connections, daemon->listener.fd))
        return;
    uv_poll_stop(poll);
    uv_timer_start(&daemon->again, accept_again, AGAIN_MS, 0);
}

static void worker_reported(uv_poll_t *poll, int status, int events) {
    (void)poll, (void)status, (void)events; /* the loop checks it anyway */
}

static void timer_rang(uv_poll_t *poll, int status, int events) {
    struct daemon *daemon = poll->data;
    uint64_t times;
    (void)status, (void)events;
    while (read(daemon->timer_fd, &times, sizeof times) < 0 && errno == EINTR)
        ;
}

/* The first signal lets clients finish their commands; the second does not. */
static void signal_came(uv_signal_t *signal, int number) {
    struct daemon *daemon = signal->data;
    (void)number;
    daemon->must_stop_now = daemon->stop_at_ns != 0;
    daemon->stop_at_ns = (uint64_t)gs_now_ns() + (uint64_t)DRAIN_SECONDS * 1000000000;
    daemon->connections.is_stopping = true;
    gs_server_drain(daemon->server);
    uv_poll_stop(&daemon->listener_poll);
    gs_listener_stop(&daemon->listener);
}

static void image_done(uv_poll_t *poll, int status, int events) {
    struct daemon *daemon = poll->data;
    (void)status, (void)events;
    gs_loads_collect(daemon->server);
}

static void say_line(void *context, const char *line) {
    const struct daemon *daemon = context;
    daemon->options->say(line);
}

/* ---- the loop ---- */

static bool must_stop(const struct daemon *daemon) {
    return daemon->stop_at_ns &&
           (daemon->must_stop_now || !gs_server_is_busy(daemon->server) || (uint64_t)gs_now_ns() >= daemon->stop_at_ns);
}

/* A timer of 0 ns would never end. */
static void set_timer(struct daemon *daemon, uint64_t ns) {
    ns = gs_max_u64(ns, 1);
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)}};
    timerfd_settime(daemon->timer_fd, 0, &when, NULL);
}

static void sleep_until_woken(struct daemon *daemon) {
    enum { STOPPING_NS = 100000000 };
    uint64_t most_ns;
    if (!gs_server_sleep(daemon->server, &most_ns))
        return;
    if (most_ns == UINT64_MAX && daemon->stop_at_ns)
        most_ns = STOPPING_NS;
    if (most_ns != UINT64_MAX)
        set_timer(daemon, most_ns);
    uv_run(&daemon->loop, UV_RUN_ONCE);
}

/* There is work. If spinning would have found it, the next spin is as long, otherwise shorter. */
static void learn_to_wait(struct daemon *daemon) {
    uint64_t now = daemon->server->now_ns, most = daemon->most_spin_ns;
    daemon->spin_ns = now - daemon->worked_ns < most ? most : gs_max_u64(daemon->spin_ns / 2, SPIN_LEAST_NS);
    daemon->worked_ns = now;
}

/* Polls for work for a while. True: there was some. */
static bool spin_for_commands(struct daemon *daemon) {
    uint64_t began = (uint64_t)gs_now_ns();
    while (!gs_server_work(daemon->server)) {
        sched_yield();
        if (daemon->server->now_ns - began >= daemon->spin_ns)
            return false;
    }
    learn_to_wait(daemon);
    return true;
}

static void run_loop(struct daemon *daemon) {
    uint64_t looked = 0;
    while (!must_stop(daemon)) {
        if (daemon->connections.paused)
            gs_connections_resume(&daemon->connections);
        if (!spin_for_commands(daemon)) {
            sleep_until_woken(daemon);
            looked = (uint64_t)gs_now_ns();
        } else if (daemon->server->now_ns - looked >= LOOK_NS) {
            uv_run(&daemon->loop, UV_RUN_NOWAIT);
            looked = daemon->server->now_ns;
        }
    }
}

/* ---- opening ---- */

/* The file of profiles in the user's data folder; NULL: there is no such folder. */
static const char *default_profiles(char *path, size_t size) {
    const char *home = getenv("HOME"), *data = getenv("XDG_DATA_HOME");
    bool has_data = data && data[0] == '/', has_home = home && home[0] == '/';
    if (!has_data && !has_home)
        return NULL;
    snprintf(path, size, "%s%s", has_data ? data : home, has_data ? "/gridsmith" : "/.local/share/gridsmith");
    gs_make_folders(path, NULL); /* if that fails, opening the file reports it */
    snprintf(path + strlen(path), size - strlen(path), "/profiles.sqlite");
    return path;
}

static gs_server *open_server(struct daemon *daemon, gs_error *error) {
    const gs_serve_options *options = daemon->options;
    char profiles[1024];
    gs_server_options wanted = {
        .worker = {.device = options->device ? options->device : "cuda",
                   .sms = options->sms,
                   .memory_bytes = options->memory_bytes,
                   .checks_counts = options->counts_blocks},
        .profiles = !options->profiles     ? default_profiles(profiles, sizeof profiles)
                    : options->profiles[0] ? options->profiles
                                           : NULL,
        .cache = options->cache,
        .plan = options->plan,
        .tries_intra_sm = true,
        .limit_ns = (uint64_t)((options->limit_seconds > 0 ? options->limit_seconds : 60) * 1e9),
        .quotas = {.client_memory_bytes = options->client_memory_bytes,
                   .client_shared_bytes = options->client_host_memory_bytes},
        .mps_folder = daemon->mps.is_started ? daemon->mps.folder : NULL,
        .shuffle_ns = (uint64_t)options->shuffle_us * 1000,
        .say = say_line,
        .context = daemon,
    };
    gs_server *server = gs_server_open(&wanted, error);
    if (!server && !options->device && error->code == GS_E_NO_GPU) {
        options->say("no GPU found: kernels run on the CPU, which emulates one");
        wanted.worker.device = "host";
        server = gs_server_open(&wanted, error);
    }
    return server;
}

static gs_code watch_fd(struct daemon *daemon, uv_poll_t *poll, int fd, uv_poll_cb callback, gs_error *error) {
    poll->data = daemon;
    if (uv_poll_init(&daemon->loop, poll, fd) != 0 || uv_poll_start(poll, UV_READABLE, callback) != 0)
        return gs_fail(error, GS_E_IO, "cannot watch a descriptor");
    return GS_OK;
}

static void watch_signal(struct daemon *daemon, uv_signal_t *handle, int number) {
    uv_signal_init(&daemon->loop, handle);
    handle->data = daemon;
    uv_signal_start(handle, signal_came, number);
}

static gs_code start_daemon(struct daemon *daemon, gs_error *error) {
    gs_connections_open(&daemon->connections, &daemon->loop, daemon->server);
    daemon->connections.members = daemon->members;
    uv_timer_init(&daemon->loop, &daemon->again);
    daemon->again.data = daemon;
    daemon->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (daemon->timer_fd < 0)
        return gs_fail_system(error, "make", "a timer");
    gs_code code = watch_fd(daemon, &daemon->listener_poll, daemon->listener.fd, client_came, error);
    if (code == GS_OK)
        code = watch_fd(daemon, &daemon->worker_poll, gs_worker_fd(daemon->server->worker), worker_reported, error);
    if (code == GS_OK)
        code = watch_fd(daemon, &daemon->image_poll, gs_images_fd(daemon->server->images), image_done, error);
    if (code == GS_OK)
        code = watch_fd(daemon, &daemon->timer_poll, daemon->timer_fd, timer_rang, error);
    watch_signal(daemon, &daemon->terminate, SIGTERM);
    watch_signal(daemon, &daemon->interrupt, SIGINT);
    if (code == GS_OK && daemon->options->metrics)
        code = gs_http_open(&daemon->http, &daemon->loop, daemon->server, daemon->options->metrics, error);
    return code;
}

/* ---- closing ---- */

/* Handles that were never opened are all zero. */
static void close_handle(void *handle) {
    if (((uv_handle_t *)handle)->type != UV_UNKNOWN_HANDLE)
        uv_close(handle, NULL);
}

static void stop_daemon(struct daemon *daemon) {
    if (daemon->server)
        gs_server_end_clients(daemon->server);
    gs_connections_close(&daemon->connections);
    gs_http_close(&daemon->http);
    close_handle(&daemon->again);
    close_handle(&daemon->listener_poll);
    close_handle(&daemon->worker_poll);
    close_handle(&daemon->image_poll);
    close_handle(&daemon->timer_poll);
    close_handle(&daemon->terminate);
    close_handle(&daemon->interrupt);
    while (uv_run(&daemon->loop, UV_RUN_DEFAULT) != 0)
        ;
    gs_server_close(daemon->server);
    uv_loop_close(&daemon->loop);
    gs_mps_stop(&daemon->mps);
    gs_listener_close(&daemon->listener);
    gs_close_fd(&daemon->timer_fd);
}

/* ---- the command ---- */

static void say_where(const struct daemon *daemon) {
    char line[300];
    snprintf(line, sizeof line, "serving %s at %s", daemon->server->facts.name,
             daemon->listener.path[0] ? daemon->listener.path : "the socket of systemd");
    daemon->options->say(line);
}

/* Each client uses one descriptor, and a few more while it sends files. */
static void allow_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* A daemon may be started with descriptors 0 to 2 closed: no other file may get these numbers. */
static void fill_descriptors(void) {
    int fd;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO)
        ;
    gs_close_fd(&fd);
}

/* The group by its name, as the system knows it. */
static gs_code find_members(const char *name, gs_members *members, gs_error *error) {
    const struct group *group = name ? getgrnam(name) : NULL;
    if (name && !group)
        return gs_fail(error, GS_E_USAGE, "--group: no group is named \"%.40s\"", name);
    *members = (gs_members){.are_served = group, .group = group ? group->gr_gid : 0};
    return GS_OK;
}

/* Programs of several users would not share MPS. The worker uses it only if asked for: SMs have other numbers there. */
static gs_code start_mps(struct daemon *daemon, gs_error *error) {
    enum gs_serve_mps mps = daemon->options->mps;
    if (mps == GS_SERVE_NO_MPS || (mps == GS_SERVE_MPS_IF_THERE && (daemon->options->group || !gs_mps_may_start())))
        return GS_OK;
    gs_code code = gs_mps_start(&daemon->mps, mps == GS_SERVE_MPS_IF_THERE, error);
    if (code == GS_OK && mps == GS_SERVE_MPS)
        setenv("CUDA_MPS_PIPE_DIRECTORY", daemon->mps.folder, 1);
    if (code == GS_OK || mps == GS_SERVE_MPS)
        return code;
    daemon->options->say("MPS cannot be started: programs of 'gridsmith run' share the GPU by time slices");
    return GS_OK;
}

gs_code gs_serve(const gs_serve_options *options, gs_error *error) {
    struct daemon daemon = {.options = options, .timer_fd = -1};
    if (find_members(options->group, &daemon.members, error) != GS_OK)
        return error->code;
    signal(SIGPIPE, SIG_IGN);
    fill_descriptors();
    allow_descriptors();
    if (uv_loop_init(&daemon.loop) != 0)
        return gs_fail_memory(error);
    gs_code code = gs_listener_open(&daemon.listener, options->socket, &daemon.members, error);
    if (code == GS_OK)
        code = start_mps(&daemon, error);
    if (code == GS_OK) {
        daemon.server = open_server(&daemon, error);
        code = daemon.server ? start_daemon(&daemon, error) : error->code;
    }
    if (code == GS_OK) {
        bool may_spin = gs_process_may_spin(gs_worker_threads(&daemon.server->facts));
        daemon.spin_ns = daemon.most_spin_ns = may_spin ? SPIN_NS : SPIN_FEW_CORES_NS;
        say_where(&daemon);
        run_loop(&daemon);
    }
    stop_daemon(&daemon);
    return code;
}
