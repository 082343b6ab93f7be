/*
 * test_connections.c: connections come, say something, wait and leave, at random, and each is told what the rules of
 * src/sharing/serve/connection.c say. The rules are written out here, over a plain list of connections.
 *
 * The clock and the timers are played, and so is what the kernel says of the process at the other end: there are six,
 * of three families and three users. Sessions are counted only; what they do is tested elsewhere.
 */
#define _GNU_SOURCE
#include "test.h"

#include "sharing/client/descriptors.h"
#include "sharing/serve/daemon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MS = 1000000,
    PEERS = 400,
    STEPS = 150,
    GROUP = 4321,
    MEMBER = 54321,   /* users: of the group, */
    STRANGER = 54322, /* and not */
    MOST_SILENT = 128,
    AT_ONCE = 32,
};

/* ---- processes ---- */

static struct process {
    int32_t id;
    int64_t family;
    uid_t user; /* 0: the daemon's */
    bool has_ended;
} processes[] = {{101, 1, 0, false}, {102, 1, 0, false},      {103, 2, 0, false},
                 {104, 2, 0, false}, {105, 3, MEMBER, false}, {106, 3, STRANGER, false}};

static uid_t user_of(int process) {
    return processes[process].user ? processes[process].user : geteuid();
}

int64_t __wrap_gs_family_of(gs_families *families, const char *proc, int32_t process, uint32_t user);
int64_t __wrap_gs_family_of(gs_families *families, const char *proc, int32_t process, uint32_t user) {
    (void)families;
    assert_string_equal(proc, "/proc");
    assert_int_equal(user, user_of(process - 101));
    return processes[process - 101].family;
}

bool __wrap_gs_process_has_ended(int32_t process);
bool __wrap_gs_process_has_ended(int32_t process) {
    return processes[process - 101].has_ended;
}

/* ---- what a peer knows, and what it should be told ---- */

enum said { NOTHING, EMPTY, SHORT, BAD_MAGIC, BAD_VERSION, BAD_KIND, STATUS, HELLO, LATENCY, BEST_EFFORT, SAID };
enum place { COMING, SILENT, CLIENT, PROGRAM, GONE };

static struct peer {
    int fd, daemon_fd; /* its end, and the daemon's */
    int process;
    enum said says; /* before it is accepted */
    enum place place;
    bool wants_status, is_told, has_closed;
    int64_t arrived_ns;
    char answer[GS_WIRE_MESSAGE]; /* "": none; "page": a client's; "board": a program's; "status"; or a refusal */
    gs_session session;
} peers[PEERS];
static size_t peer_count;

static size_t silent[PEERS], silent_count, closing_count; /* the oldest first; those that the loop has not closed yet */

/* ---- the clock ---- */

static int64_t now_ns, thread_ns, accept_cost_ns, status_cost_ns;

int64_t __wrap_gs_now_ns(void);
int64_t __wrap_gs_now_ns(void) {
    return now_ns;
}

int64_t __wrap_gs_thread_ns(void);
int64_t __wrap_gs_thread_ns(void) {
    return thread_ns;
}

void __wrap_gs_status_json(const gs_server *server, gs_text *into);
void __wrap_gs_status_json(const gs_server *server, gs_text *into) {
    (void)server;
    thread_ns += status_cost_ns;
    gs_text_add(into, "status");
}

/* ---- timers ---- */

static gs_server server;
static gs_connections connections;
static uv_loop_t loop;

static struct timer {
    bool is_active;
    int64_t due_ns, repeat_ns;
    uv_timer_cb callback;
} timers[2]; /* for silent connections, and for the status */

static struct timer *timer_of(const void *handle) {
    return handle == &connections.timer ? &timers[0] : handle == &connections.status_timer ? &timers[1] : NULL;
}

int __wrap_uv_timer_start(uv_timer_t *handle, uv_timer_cb callback, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *handle, uv_timer_cb callback, uint64_t timeout, uint64_t repeat) {
    *timer_of(handle) = (struct timer){true, now_ns + (int64_t)timeout * MS, (int64_t)repeat * MS, callback};
    return 0;
}

int __wrap_uv_timer_stop(uv_timer_t *handle);
int __wrap_uv_timer_stop(uv_timer_t *handle) {
    timer_of(handle)->is_active = false;
    return 0;
}

int __real_uv_is_active(const uv_handle_t *handle);
int __wrap_uv_is_active(const uv_handle_t *handle);
int __wrap_uv_is_active(const uv_handle_t *handle) {
    return timer_of(handle) ? timer_of(handle)->is_active : __real_uv_is_active(handle);
}

/* ---- sockets ---- */

static size_t next_to_accept;  /* of the peers: they are accepted in order */
static int out_of_descriptors; /* so many calls find none */

int __real_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
    assert_int_equal(flags, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (out_of_descriptors > 0) {
        out_of_descriptors--;
        errno = out_of_descriptors % 2 ? ENFILE : EMFILE;
        return -1;
    }
    int got = __real_accept4(fd, address, size, flags);
    if (got >= 0) {
        peers[next_to_accept++].daemon_fd = got;
        thread_ns += accept_cost_ns;
    }
    return got;
}

/* The status is sent in a file. Without the spare descriptors there may be none for it. */
static bool has_only_spares;
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags) {
    if (has_only_spares && connections.spares[0] >= 0 && strcmp(name, "gridsmith-status") == 0) {
        errno = EMFILE;
        return -1;
    }
    return __real_memfd_create(name, flags);
}

/* The last one that was accepted with this descriptor. */
static size_t peer_behind(int fd) {
    size_t number = next_to_accept;
    while (number-- > 0 && peers[number].daemon_fd != fd)
        ;
    assert_true(number < PEERS);
    return number;
}

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size) {
    if (level != SOL_SOCKET || (name != SO_PEERCRED && name != 59))
        return __real_getsockopt(fd, level, name, value, size);
    int process = peers[peer_behind(fd)].process;
    if (name == SO_PEERCRED) {
        *(struct ucred *)value = (struct ucred){processes[process].id, user_of(process), 1};
        return 0;
    }
    const gid_t groups[] = {1, user_of(process) == MEMBER ? GROUP : 2};
    memcpy(value, groups, sizeof groups);
    *size = sizeof groups;
    return 0;
}

/* ---- sessions ---- */

static void expect_session(const gs_session_options *options, size_t number);

gs_session *__wrap_gs_session_open(gs_server *of, const gs_session_options *options, gs_error *error);
gs_session *__wrap_gs_session_open(gs_server *of, const gs_session_options *options, gs_error *error) {
    (void)error;
    assert_ptr_equal(of, &server);
    size_t number = peer_behind(options->socket);
    expect_session(options, number);
    return &peers[number].session;
}

static struct peer *peer_of(const gs_session *session) {
    return (struct peer *)((char *)(uintptr_t)session - offsetof(struct peer, session));
}

static gs_account *account_of(int process) {
    gs_account *account = server.quotas.first;
    while (account->kind != GS_ACCOUNT_PROCESS || account->id != processes[process].id)
        account = account->next;
    return account;
}

void __wrap_gs_session_leave_socket(gs_session *session);
void __wrap_gs_session_leave_socket(gs_session *session) {
    struct peer *peer = peer_of(session);
    gs_account_subtract(account_of(peer->process), GS_QUOTA_DESCRIPTORS, 1);
    close(peer->daemon_fd);
}

void __wrap_gs_session_close(gs_session *session);
void __wrap_gs_session_close(gs_session *session) {
    assert_int_equal(peer_of(session)->place, GONE);
}

enum gs_receive_result __wrap_gs_session_receive(gs_session *session);
enum gs_receive_result __wrap_gs_session_receive(gs_session *session) {
    char byte;
    ssize_t got = recv(peer_of(session)->daemon_fd, &byte, 1, MSG_DONTWAIT);
    return got > 0 ? GS_RECEIVED : got == 0 ? GS_RECEIVE_CLOSED : GS_RECEIVE_NOTHING;
}

/* ---- the rules ---- */

static int64_t status_after_ns, accept_after_ns, look_due_ns, status_due_ns; /* due: -1: the timer is not started */
static uint64_t limit;                                                       /* of descriptors */
static int looks;
static bool serves_members, is_stopping;

__attribute__((format(printf, 2, 3))) static void answer(struct peer *peer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(peer->answer, sizeof peer->answer, format, arguments);
    va_end(arguments);
}

static size_t used_descriptors(void) {
    size_t count = closing_count;
    for (size_t i = 0; i < peer_count; i++)
        count += peers[i].place != COMING && peers[i].place != GONE;
    return count;
}

static void remove_silent(const struct peer *peer) {
    size_t at = 0;
    while (&peers[silent[at]] != peer)
        at++;
    memmove(silent + at, silent + at + 1, (--silent_count - at) * sizeof silent[0]);
}

static void hang_up(struct peer *peer) {
    if (peer->place == SILENT)
        remove_silent(peer);
    peer->place = GONE;
    closing_count++;
}

/* The family's silent connections count before those of the process. */
static size_t rank(const struct peer *peer) {
    size_t of_family = 0, of_process = 0;
    for (size_t i = 0; i < silent_count; i++) {
        of_family += processes[peers[silent[i]].process].family == processes[peer->process].family;
        of_process += peers[silent[i]].process == peer->process;
    }
    return of_family * PEERS + of_process;
}

static size_t most_silent(void) {
    size_t most = limit / 4 < 1 ? 1 : limit / 4 > MOST_SILENT ? MOST_SILENT : limit / 4;
    return used_descriptors() > limit && most > 4 ? 4 : most;
}

static int64_t played_ns; /* what the daemon's thread used in this round, by the rules */

static void answer_status(struct peer *peer) {
    answer(peer, "status");
    played_ns += status_cost_ns;
}

/* One that wants the status gets it. */
static void end_silent(struct peer *peer, const char *why) {
    if (peer->wants_status)
        answer_status(peer);
    else
        answer(peer, "%s", why);
    hang_up(peer);
}

/* The oldest of those with the most. */
static void drop_one(void) {
    struct peer *worst = NULL;
    for (size_t i = 0; i < silent_count; i++)
        if (!worst || rank(&peers[silent[i]]) > rank(worst))
            worst = &peers[silent[i]];
    end_silent(worst, "too many connections without a hello: try again");
}

static struct peer *next_for_status(void) {
    struct peer *best = NULL;
    for (size_t i = 0; i < silent_count; i++)
        if (peers[silent[i]].wants_status && (!best || rank(&peers[silent[i]]) < rank(best)))
            best = &peers[silent[i]];
    return best;
}

static int64_t pause_until(int64_t took_ns, int64_t times) {
    return now_ns + (times * took_ns < 20 * MS ? times * took_ns : 20 * MS);
}

static void answer_next(void) {
    struct peer *next = next_for_status();
    if (next && now_ns >= status_after_ns) {
        answer_status(next);
        status_after_ns = pause_until(status_cost_ns, 4);
        hang_up(next);
        next = next_for_status();
    }
    int64_t left_ns = status_after_ns > now_ns ? status_after_ns - now_ns : 0;
    if (next)
        status_due_ns = now_ns + (left_ns / MS + 1) * MS;
}

static bool is_own(const struct peer *peer) {
    return !processes[peer->process].user;
}

static bool is_program(enum said said) {
    return said == LATENCY || said == BEST_EFFORT;
}

static size_t programs_of(int process) {
    size_t count = 0;
    for (size_t i = 0; i < peer_count; i++)
        count += peers[i].place == PROGRAM && peers[i].process == process;
    return count;
}

static void admit(struct peer *peer, enum said said) {
    if (is_stopping)
        answer(peer, "the daemon is stopping");
    else if (said == HELLO && !is_own(peer))
        answer(peer, "the daemon runs kernels only for the user who started it: use 'gridsmith run'");
    else if (used_descriptors() > limit)
        answer(peer,
               "all clients together may have at most %llu descriptors of the daemon: %llu are in use, 1 more were "
               "requested",
               (unsigned long long)limit, (unsigned long long)limit);
    else if (is_program(said) && programs_of(peer->process) >= 2)
        answer(peer, "process %d is connected already, and a process needs one connection",
               processes[peer->process].id);
    else {
        remove_silent(peer);
        peer->place = said == HELLO ? CLIENT : PROGRAM;
        answer(peer, "%s", said == HELLO ? "page" : "board");
        return;
    }
    hang_up(peer);
}

static void hear(struct peer *peer, enum said said) {
    if (said == NOTHING)
        return;
    if (said == STATUS) {
        peer->wants_status = true;
        answer_next();
        return;
    }
    if ((said == HELLO || is_program(said)) && !peer->wants_status) {
        admit(peer, said);
        return;
    }
    if (said == SHORT || said == BAD_MAGIC)
        answer(peer, "the first message is not a hello from a gridsmith client");
    else if (said == BAD_VERSION)
        answer(peer, "the daemon uses version %d of the protocol, the client version %d", GS_WIRE_VERSION,
               GS_WIRE_VERSION + 1);
    else if (said != EMPTY)
        answer(peer, "unknown kind of hello %d",
               said == BAD_KIND  ? 9
               : said == HELLO   ? GS_WIRE_HELLO
               : said == LATENCY ? GS_WIRE_LATENCY
                                 : GS_WIRE_BEST_EFFORT);
    hang_up(peer);
}

static void add_silent(struct peer *peer) {
    peer->place = SILENT;
    peer->arrived_ns = now_ns;
    silent[silent_count++] = (size_t)(peer - peers);
    hear(peer, peer->says);
    if (silent_count > most_silent())
        drop_one();
    if (look_due_ns < 0)
        look_due_ns = now_ns + 250 * MS;
}

static bool is_allowed(const struct peer *peer) {
    return is_own(peer) || (serves_members && user_of(peer->process) == MEMBER);
}

static void serve_with_spares(struct peer *peer) {
    peer->place = GONE;
    if (is_allowed(peer) && peer->says == STATUS)
        answer_status(peer);
    else
        answer(peer, "the daemon is out of descriptors: try again");
}

static size_t next_by_rules; /* to be accepted */
static int missing;          /* so many calls find no descriptor */

enum accepted { ACCEPTED, NO_MORE, NO_DESCRIPTORS };

static enum accepted accept_one(void) {
    bool is_full = used_descriptors() > limit + 8, is_short = missing > 0;
    if (is_full && silent_count) {
        drop_one();
        return NO_MORE;
    }
    missing -= is_short;
    if (missing > 0 && is_short) {
        missing--;
        return NO_DESCRIPTORS;
    }
    if (next_by_rules == peer_count)
        return NO_MORE;
    struct peer *peer = &peers[next_by_rules++];
    played_ns += accept_cost_ns;
    if (is_full || is_short)
        serve_with_spares(peer);
    else if (is_allowed(peer))
        add_silent(peer);
    else {
        answer(peer, "the daemon serves only the user who started it%s",
               serves_members ? " and members of its group" : "");
        peer->place = GONE;
    }
    return ACCEPTED;
}

/* False: there are no descriptors. */
static bool accept_some(void) {
    size_t accepted = 0, most = most_silent() < AT_ONCE ? most_silent() : AT_ONCE;
    enum accepted last = ACCEPTED;
    if (now_ns < accept_after_ns)
        return true;
    played_ns = 0;
    while (accepted < most && (accepted < 2 || played_ns < MS) && (last = accept_one()) == ACCEPTED)
        accepted++;
    accept_after_ns = pause_until(played_ns, 2);
    return last != NO_DESCRIPTORS;
}

static void look_at_all(void) {
    bool is_anybody = false;
    looks++;
    for (size_t i = 0; i < peer_count; i++)
        if (looks % 4 == 0 && (peers[i].place == CLIENT || peers[i].place == PROGRAM) &&
            processes[peers[i].process].has_ended)
            hang_up(&peers[i]);
    while (silent_count && now_ns - peers[silent[0]].arrived_ns >= (int64_t)5000 * MS)
        end_silent(&peers[silent[0]], "no hello within 5 s");
    for (size_t i = 0; i < peer_count; i++)
        is_anybody |= peers[i].place != COMING && peers[i].place != GONE;
    look_due_ns = is_anybody ? now_ns + 250 * MS : -1;
}

/* ---- what peers do ---- */

static int listening;
static struct sockaddr_un address;
static socklen_t address_size;

static const uint32_t weights[] = {0, 1, 500, 1000, 1001, UINT32_MAX};
static const int32_t priorities[] = {-11, -10, 0, 10, 11, INT32_MIN};

/* Each peer has its own number as the deadline. */
static gs_wire_hello hello_of(size_t number, enum said said) {
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC + (said == BAD_MAGIC),
                           .version = GS_WIRE_VERSION + (said == BAD_VERSION),
                           .kind = said == STATUS        ? GS_WIRE_STATUS
                                   : said == LATENCY     ? GS_WIRE_LATENCY
                                   : said == BEST_EFFORT ? GS_WIRE_BEST_EFFORT
                                   : said == BAD_KIND    ? 9
                                                         : GS_WIRE_HELLO,
                           .weight = weights[number % 6],
                           .priority = priorities[number / 6 % 6],
                           .most_sms = (uint32_t)number,
                           .hold_ms = (const uint32_t[]){0, 1, 10000, 10001}[number % 4],
                           .most_percent = (const uint32_t[]){0, 100, 101}[number % 3],
                           .has_mps = number % 5 == 0,
                           .deadline_us = (uint32_t)number,
                           .command = number * 3};
    hello.gpu[5] = (unsigned char)(number % 2);
    snprintf(hello.name, sizeof hello.name, "peer\n%zu", number);
    return hello;
}

static void say(const struct peer *peer, enum said said) {
    gs_wire_hello hello = hello_of((size_t)(peer - peers), said);
    size_t size = said == EMPTY ? 0 : said == SHORT ? sizeof hello - 1 : sizeof hello;
    if (said != NOTHING)
        assert_int_equal(send(peer->fd, &hello, size, MSG_NOSIGNAL), size);
}

static struct peer *come_as(int process, enum said says) {
    struct peer *peer = &peers[peer_count++];
    *peer = (struct peer){
        .fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0), .daemon_fd = -1, .process = process, .says = says};
    assert_int_equal(connect(peer->fd, (const struct sockaddr *)&address, address_size), 0);
    say(peer, says);
    return peer;
}

static void come(gs_random *random) {
    if (peer_count == PEERS || peer_count - next_by_rules > 100)
        return;
    int process = (int)gs_random_from(random, 0, GS_COUNT(processes) - 1);
    enum said says = (enum said)gs_random_from(random, 0, SAID - 1);
    if (gs_random_from(random, 0, 2))
        says = (const enum said[]){NOTHING, STATUS, HELLO}[gs_random_from(random, 0, 2)];
    come_as(process, says);
}

/* Something more of one that was accepted. */
static void speak(struct peer *peer, enum said said) {
    if (peer->place == COMING || peer->place == GONE || peer->has_closed)
        return;
    say(peer, said);
    if (peer->place == SILENT)
        hear(peer, said);
    else if (said == EMPTY || (peer->place == PROGRAM && said != NOTHING))
        hang_up(peer);
}

static void close_peer(struct peer *peer) {
    if (peer->place == COMING || peer->place == GONE || peer->has_closed)
        return;
    close(peer->fd);
    peer->has_closed = true;
    hang_up(peer);
}

/* ---- comparing ---- */

static void expect_session(const gs_session_options *options, size_t number) {
    static const uint32_t within[] = {1, 1, 500, 1000, 1000, 1000};
    static const int32_t kept[] = {-10, -10, 0, 10, 10, -10};
    char name[GS_WIRE_NAME];
    snprintf(name, sizeof name, "peer?%zu", number);
    assert_string_equal(options->name, name);
    assert_int_equal(options->weight, within[number % 6]);
    assert_int_equal(options->priority, kept[number / 6 % 6]);
    assert_int_equal(options->most_sms, number);
    assert_int_equal(options->process, processes[peers[number].process].id);
    assert_int_equal(options->user, user_of(peers[number].process));
    assert_true(options->page >= 0);
}

static void expect_program(size_t number) {
    static const uint32_t within[] = {1, 1, 500, 1000, 1000, 1000};
    static const uint64_t holds[] = {1000, 1, 10000, 10000};
    const gs_tenant *tenant = server.tenants.first;
    char name[GS_WIRE_NAME];
    while (tenant && tenant->options.deadline_us != number)
        tenant = tenant->next;
    assert_non_null(tenant);
    snprintf(name, sizeof name, "peer?%zu", number);
    assert_string_equal(tenant->options.name, name);
    assert_int_equal(tenant->options.weight, within[number % 6]);
    assert_int_equal(tenant->options.hold_ns, holds[number % 4] * MS);
    assert_int_equal(tenant->options.most_percent, number % 3 ? 100 : 0);
    assert_int_equal(tenant->options.has_mps, number % 5 == 0);
    assert_int_equal(tenant->options.command, number * 3);
    assert_int_equal(tenant->options.gpu[5], number % 2);
    assert_int_equal(tenant->options.process, processes[peers[number].process].id);
}

static ssize_t receive(int fd, gs_wire_welcome *welcome, int fds[4]) {
    ssize_t got = gs_descriptors_receive(fd, welcome, sizeof *welcome, fds, 4, MSG_DONTWAIT);
    return got < 0 && errno == ECONNRESET ? gs_descriptors_receive(fd, welcome, sizeof *welcome, fds, 4, MSG_DONTWAIT)
                                          : got;
}

static void expect_welcome(const gs_wire_welcome *welcome, bool is_client) {
    assert_int_equal(welcome->page_bytes,
                     is_client ? gs_wire_page_bytes() : sizeof(gs_board) + sizeof(gs_tenant_page) + sizeof(gs_notice));
    assert_int_equal(welcome->sms, is_client ? 7 : 0);
    assert_int_equal(welcome->architecture, is_client ? 90 : 0);
    assert_int_equal(welcome->is_gpu, is_client);
    assert_int_equal(welcome->memory_bytes, is_client ? 1 << 20 : 0);
    assert_string_equal(welcome->name, is_client ? "any" : "");
}

static void expect_answer(struct peer *peer) {
    static const struct {
        const char *answer;
        size_t descriptors;
    } kinds[] = {{"page", 1}, {"board", 3}, {"status", 1}};
    gs_wire_welcome welcome = {.code = GS_CLIENT_LOST};
    int fds[4];
    size_t descriptors = 0, wanted = 0;
    assert_int_equal(receive(peer->fd, &welcome, fds), sizeof welcome);
    for (; descriptors < 4 && fds[descriptors] >= 0; descriptors++)
        close(fds[descriptors]);
    for (size_t i = 0; i < GS_COUNT(kinds); i++)
        wanted = strcmp(kinds[i].answer, peer->answer) == 0 ? kinds[i].descriptors : wanted;
    assert_int_equal(welcome.magic, GS_WIRE_MAGIC);
    assert_int_equal(welcome.version, GS_WIRE_VERSION);
    assert_int_equal(descriptors, wanted);
    assert_int_equal(welcome.code, wanted ? GS_CLIENT_OK : GS_CLIENT_REFUSED);
    assert_string_equal(welcome.message, wanted ? "" : peer->answer);
    if (peer->place == CLIENT || peer->place == PROGRAM)
        expect_welcome(&welcome, peer->place == CLIENT);
    if (peer->place == PROGRAM)
        expect_program((size_t)(peer - peers));
    peer->is_told = true;
}

static void expect_peer(struct peer *peer) {
    gs_wire_welcome welcome;
    int fds[4];
    if (peer->has_closed)
        return;
    if (peer->answer[0] && !peer->is_told)
        expect_answer(peer);
    ssize_t got = receive(peer->fd, &welcome, fds);
    if (peer->place != GONE) {
        assert_true(got < 0 && errno == EAGAIN);
        return;
    }
    assert_int_equal(got, 0);
    close(peer->fd);
    peer->has_closed = true;
}

/* When the loop has run, and all is closed that was to be closed. */
static void compare(void) {
    size_t programs = 0;
    do {
        uv_run(&loop, UV_RUN_NOWAIT);
        gs_closing_collect(&server.closing, &server.quotas);
    } while (server.closing.count);
    for (int i = 0; i < 3; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    gs_closing_collect(&server.closing, &server.quotas);
    closing_count = 0;
    for (size_t i = 0; i < peer_count; i++)
        expect_peer(&peers[i]);
    for (const gs_tenant *at = server.tenants.first; at; at = at->next)
        programs++;
    for (size_t i = 0; i < peer_count; i++)
        programs -= peers[i].place == PROGRAM;
    assert_int_equal(programs, 0);
    for (size_t i = 0; i < GS_COUNT(connections.spares); i++)
        assert_true(connections.spares[i] >= 0);
    assert_int_equal(connections.silent_count, silent_count);
    assert_int_equal(server.quotas.all.used[GS_QUOTA_DESCRIPTORS], used_descriptors());
    assert_int_equal(connections.status_after_ns, status_after_ns);
    assert_int_equal(connections.accept_after_ns, accept_after_ns);
    assert_int_equal(timers[0].is_active ? timers[0].due_ns : -1, look_due_ns);
    assert_int_equal(timers[1].is_active ? timers[1].due_ns : -1, status_due_ns);
}

/* ---- the test ---- */

static void ring(struct timer *timer, uv_timer_t *handle) {
    if (!timer->is_active || timer->due_ns > now_ns)
        return;
    timer->is_active = timer->repeat_ns > 0;
    timer->due_ns = now_ns + timer->repeat_ns;
    timer->callback(handle);
}

static void let_time_pass(int64_t ns) {
    now_ns += ns;
    ring(&timers[1], &connections.status_timer);
    if (status_due_ns >= 0 && status_due_ns <= now_ns) {
        status_due_ns = -1;
        answer_next();
    }
    ring(&timers[0], &connections.timer);
    if (look_due_ns >= 0 && look_due_ns <= now_ns)
        look_at_all();
    compare();
}

static void set_limit(uint64_t most) {
    limit = most;
    for (int kind = 0; kind < GS_ACCOUNTS; kind++)
        server.quotas.most[kind][GS_QUOTA_DESCRIPTORS] = kind == GS_ACCOUNT_ALL ? most : UINT64_MAX / 2;
}

static void change_something(gs_random *random) {
    static const uint64_t limits[] = {1, 6, 20, 60, 1000};
    static const int64_t costs[] = {0, 10000, 60000, 600000, 6000000};
    switch (gs_random_from(random, 0, 6)) {
    case 0:
        set_limit(limits[gs_random_from(random, 0, 4)]);
        break;
    case 1:
        accept_cost_ns = costs[gs_random_from(random, 0, 3)];
        break;
    case 2:
        status_cost_ns = costs[gs_random_from(random, 0, 4)];
        break;
    case 3:
        processes[gs_random_from(random, 0, GS_COUNT(processes) - 1)].has_ended = gs_random_from(random, 0, 1);
        break;
    case 4:
        connections.members.are_served = serves_members = gs_random_from(random, 0, 1);
        break;
    case 5:
        has_only_spares = gs_random_from(random, 0, 1);
        break;
    default:
        connections.is_stopping = is_stopping = gs_random_from(random, 0, 3) == 0;
    }
}

static void do_something(gs_random *random) {
    static const int64_t times[] = {100000, MS, 3 * MS, 30 * MS, 250 * MS, 1000 * MS, INT64_C(4999) * MS};
    int64_t what = gs_random_from(random, 0, 9);
    size_t which = peer_count ? (size_t)gs_random_from(random, 0, (int64_t)peer_count - 1) : 0;
    if (what < 4)
        for (int64_t i = gs_random_from(random, 0, 9) ? 2 : 40; i > 0; i--)
            come(random);
    else if (what == 4 && peer_count)
        speak(&peers[which], (enum said)gs_random_from(random, 0, SAID - 1));
    else if (what == 5 && peer_count)
        close_peer(&peers[which]);
    else if (what == 6)
        out_of_descriptors = missing = (int)gs_random_from(random, 1, 2);
    else if (what == 7)
        change_something(random);
    else
        let_time_pass(times[gs_random_from(random, 0, GS_COUNT(times) - 1)]);
    compare();
}

static void open_all(void) {
    address = (struct sockaddr_un){.sun_family = AF_UNIX};
    address_size = sizeof address;
    server =
        (gs_server){.facts = {.name = "any", .is_gpu = true, .sms = 7, .architecture = 90, .memory_bytes = 1 << 20}};
    peer_count = silent_count = closing_count = next_to_accept = next_by_rules = 0;
    out_of_descriptors = missing = looks = 0;
    now_ns = (int64_t)1000000 * MS;
    thread_ns = accept_cost_ns = status_cost_ns = status_after_ns = accept_after_ns = 0;
    has_only_spares = false;
    look_due_ns = status_due_ns = -1;
    serves_members = is_stopping = false;
    memset(timers, 0, sizeof timers);
    for (size_t i = 0; i < GS_COUNT(processes); i++)
        processes[i].has_ended = false;
    gs_quotas_open(&server.quotas, &(gs_quotas_options){0}, 1 << 20);
    set_limit(1000);
    listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listening, (struct sockaddr *)&address, sizeof address.sun_family), 0);
    assert_int_equal(listen(listening, 200), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &address_size), 0);
    assert_int_equal(uv_loop_init(&loop), 0);
    gs_connections_open(&connections, &loop, &server);
    connections.members.group = GROUP;
}

static void close_all(void) {
    gs_connections_close(&connections);
    for (size_t i = 0; i < peer_count; i++)
        if (peers[i].place != COMING)
            peers[i].place = GONE;
    while (uv_run(&loop, UV_RUN_DEFAULT))
        ;
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_true(gs_closing_close(&server.closing, &server.quotas));
    assert_int_equal(server.quotas.all.used[GS_QUOTA_DESCRIPTORS], 0);
    assert_int_equal(server.quotas.all.used[GS_QUOTA_CLIENTS], 0);
    assert_null(server.quotas.first);
    assert_null(server.tenants.first);
    for (size_t i = 0; i < peer_count; i++)
        if (!peers[i].has_closed)
            close(peers[i].fd);
    close(listening);
}

TEST(connections_are_told_what_the_rules_say) {
    for (uint64_t index = 0; index < 40; index++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 77), index);
        open_all();
        for (int step = 0; step < STEPS; step++) {
            do_something(&random);
            bool is_served = gs_connections_accept(&connections, listening);
            assert_int_equal(is_served, accept_some());
            compare();
        }
        close_all();
    }
}

/* ---- threads that close nothing ---- */

static gs_account *hung; /* the process whose family has no thread left */

/* As if all threads that may close descriptors of the family were in close(), which does not return. */
static void hang_threads(int process) {
    hung = gs_account_take(&server.quotas, processes[process].id, user_of(process));
    hung->above->closing_now = GS_COUNT(server.closing.threads) / 2;
}

static void free_threads(void) {
    if (server.closing.thread_count)
        pthread_mutex_lock(&server.closing.mutex);
    hung->above->closing_now = 0;
    if (server.closing.thread_count) {
        pthread_cond_broadcast(&server.closing.wake);
        pthread_mutex_unlock(&server.closing.mutex);
    }
    gs_account_leave(&server.quotas, hung);
}

/* Accepts what has come, and runs the loop. */
static void serve_all(void) {
    gs_connections_accept(&connections, listening);
    for (int i = 0; i < 3; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    gs_closing_collect(&server.closing, &server.quotas);
}

static void leave(struct peer *peer) {
    close(peer->fd);
    peer->has_closed = true;
}

static void expect_client(int process) {
    struct peer *peer = come_as(process, HELLO);
    serve_all();
    peer->place = CLIENT;
    answer(peer, "page");
    expect_answer(peer);
}

/* Of all kinds that hold no descriptor: the daemon's own thread closes them. */
TEST(connections_that_leave_take_no_descriptor_from_others) {
    static const enum said kinds[] = {NOTHING, EMPTY, SHORT, BAD_KIND, STATUS};
    open_all();
    set_limit(20);
    hang_threads(0);
    for (size_t i = 0; i < 200; i++) {
        struct peer *peer = come_as(0, kinds[i % GS_COUNT(kinds)]);
        for (size_t k = 0; k < i % 4; k++)
            say(peer, k % 2 ? EMPTY : SHORT);
        leave(peer);
        serve_all();
    }
    assert_int_equal(server.quotas.all.used[GS_QUOTA_DESCRIPTORS], 0);
    expect_client(1); /* of the same family */
    expect_client(2);
    free_threads();
    close_all();
}

/* A thread closes what may take long, also behind messages without descriptors, empty ones included. */
TEST(descriptors_in_connections_are_left_to_threads) {
    open_all();
    hang_threads(0);
    for (int before = 0; before < 30; before++) {
        struct peer *peer = come_as(0, SHORT);
        for (int i = 0; i < before; i++)
            say(peer, i % 2 ? SHORT : EMPTY);
        assert_int_equal(gs_descriptors_send(peer->fd, "", (size_t)before % 2, &listening, 1, 0), before % 2);
        leave(peer);
        serve_all();
        assert_int_equal(server.closing.count, before + 1);
    }
    assert_int_equal(hung->used[GS_QUOTA_DESCRIPTORS], 30);
    free_threads();
    close_all();
}

TEST_MAIN(NULL, NULL)
