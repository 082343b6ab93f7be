/*
 * serving.c: the daemon without its sockets: one iteration of the loop, a lost worker, quotas, profiles, opening and
 * closing.
 *
 * When the worker is lost, because a kernel faulted or did not end, the client of that kernel gets GS_CLIENT_KERNEL,
 * and every other client with resources there gets GS_CLIENT_RESET.
 */
#include "server.h"

#include <stdlib.h>

enum {
    CHECK_NS = 20000000,            /* how often limits are checked */
    QUIET_NS = 1000000000,          /* profiles are written after this long without work, */
    SAVED_AFTER = 60,               /* or after 60 times QUIET_NS: writing to a slow disk delays all clients */
    RETAKE_NS = 1000000,            /* delay before commands that could not be taken are retried */
    RETRY_NS = 1000000000,          /* how often starting the worker is retried */
    MOST_BACKLOG = 4 * 1024 * 1024, /* bytes queued for the worker; with more, clients wait */
    TAKEN_AT_ONCE = 256,            /* reports */
    TURN_NS = 1000000               /* how long commands are taken before reports and sockets are served */
};

const char gs_no_worker[] = "the worker cannot be started";
const char gs_no_memory[] = "the daemon is out of memory";

static void log_line(const gs_server *server, const char *line) {
    server->options.say(server->options.context, line);
}

/* ---- a lost worker ---- */

static void abandon_streams(gs_session *session) {
    gs_transfers_abandon(session);
    for (int i = 0; i < GS_CLIENT_STREAMS; i++) {
        gs_stream *stream = &session->streams[i];
        stream->launches = 0;
        stream->ahead_ns = 0;
        stream->confined = NULL;
        gs_stream_settle(stream);
    }
}

/* Operations of the lost worker will not happen. */
static void abandon_operations(gs_server *server) {
    server->life++;
    for (size_t i = 0; i < server->actions.count; i++) {
        gs_action *action = server->actions.data[i];
        if (!action->session || !action->is_issued)
            continue;
        if (action->stream)
            action->is_done = true;
        else
            gs_creation_refuse(action, GS_CLIENT_RESET, gs_client_meaning(GS_CLIENT_RESET));
    }
    for (size_t i = 0; i < server->sessions.count; i++)
        if (server->sessions.data[i])
            abandon_streams(server->sessions.data[i]);
    server->running = 0;
}

static void end_sessions(gs_server *server, const gs_action *culprit, const char *reason) {
    if (culprit)
        gs_session_end(culprit->session, GS_CLIENT_KERNEL, "%s: %s",
                       culprit->resource->image->kernels[culprit->launch.request.kernel].name, reason);
    for (size_t i = 0; i < server->sessions.count; i++) {
        gs_session *session = server->sessions.data[i];
        if (session && gs_session_has_resources(session))
            gs_session_end(session, GS_CLIENT_RESET, "%s (%s)", gs_client_meaning(GS_CLIENT_RESET), reason);
    }
}

/* `culprit` may be NULL. */
static void lose_worker(gs_server *server, const gs_action *culprit, const char *reason) {
    gs_error error;
    char name[GS_WIRE_NAME] = "", line[GS_WIRE_NAME + sizeof error.message + 200];
    if (culprit)
        snprintf(name, sizeof name, "%s", culprit->session->options.name);
    end_sessions(server, culprit, reason);
    abandon_operations(server);
    server->scheduler.must_decide = true;
    server->is_down = gs_worker_restart(server->worker, &error) != GS_OK;
    server->now_ns = server->tried_ns = (uint64_t)gs_now_ns();
    snprintf(line, sizeof line, "%s%s%s: %s%s", name[0] ? name : "the worker was lost", name[0] ? ": " : "",
             name[0] ? reason : "", server->is_down ? "it could not be restarted: " : "the worker was restarted",
             server->is_down ? error.message : "");
    log_line(server, line);
}

/* The kernel that exceeded the limit; of several the one that began first, because others may wait for it. NULL:
   none. */
static const gs_action *find_overdue(const gs_server *server) {
    const gs_action *worst = NULL;
    for (size_t i = 0; i < server->contenders.count; i++) {
        const gs_stream *stream = server->contenders.data[i];
        const gs_action *action = stream->launches ? gs_stream_launch(stream) : NULL;
        if (action && server->now_ns - stream->running_since + action->launch.ran_ns > server->options.limit_ns &&
            (!worst || stream->running_since < worst->stream->running_since))
            worst = action;
    }
    return worst;
}

/* The limit applies to kernels, and to every other request that the worker has not answered. A kernel is blamed only if
   the worker itself is responsive. */
static void check_limits(gs_server *server) {
    char reason[100];
    bool is_alive = true;
    if (server->is_down)
        return;
    double seconds = (double)server->options.limit_ns / 1e9;
    bool is_late = gs_worker_owes_ns(server->worker, server->now_ns, &is_alive) > server->options.limit_ns;
    const gs_action *overdue = find_overdue(server);
    if (overdue && is_alive)
        snprintf(reason, sizeof reason, "it ran longer than the limit of %g s", seconds);
    else if (overdue || is_late)
        snprintf(reason, sizeof reason, "the worker did not answer within the limit of %g s", seconds);
    else
        return;
    lose_worker(server, is_alive ? overdue : NULL, reason);
}

/* ---- iterations of the loop ---- */

static void take_report(gs_server *server, const gs_worker_report *report) {
    gs_action *action = gs_action_find(server, report->tag);
    if (report->kind == GS_REPORT_LOST)
        lose_worker(server, action && action->command == GS_WIRE_LAUNCH ? action : NULL, report->message);
    else if (report->kind != GS_REPORT_SHARED && action)
        gs_complete(server, action, report);
}

static bool take_reports(gs_server *server) {
    gs_worker_report report;
    int taken = 0;
    while (taken < TAKEN_AT_ONCE && !server->is_down && gs_worker_peek(server->worker, &report)) {
        take_report(server, &report);
        taken++;
    }
    return taken > 0;
}

static bool takes_commands(const gs_server *server) {
    return !server->is_down && !server->is_draining && gs_worker_backlog(server->worker) <= MOST_BACKLOG;
}

/* Each client is served, however much others send. */
static bool take_commands(gs_server *server) {
    gs_sessions *sessions = &server->sessions;
    bool is_any = false;
    if (!takes_commands(server))
        return false;
    int64_t until = gs_now_ns() + TURN_NS;
    for (size_t left = sessions->count; left && (!is_any || gs_now_ns() < until); left--) {
        gs_session *session = sessions->data[sessions->next];
        sessions->next = (sessions->next + 1) % sessions->count;
        if (session && gs_session_take(session))
            is_any = true;
    }
    return is_any;
}

/* Peeking at reports does not show a loss. Without a worker, starting another one is retried periodically. */
static void check_worker(gs_server *server) {
    gs_worker_report report;
    gs_error error;
    if (!server->is_down && gs_worker_poll(server->worker, &report))
        take_report(server, &report);
    else if (server->is_down && server->now_ns - server->tried_ns >= RETRY_NS) {
        server->tried_ns = server->now_ns;
        server->is_down = gs_worker_restart(server->worker, &error) != GS_OK;
    }
}

/* Whether there was work since profiles were written. */
static bool has_unsaved(const gs_server *server) {
    return server->worked_ns > server->saved_ns;
}

static void report_profiles(gs_server *server) {
    const char *problem = gs_profile_store_problem(server->profiles);
    if (problem)
        log_line(server, problem);
}

static void report_images(const gs_server *server) {
    const gs_error *problem = gs_images_problem(server->images);
    char text[GS_WIRE_MESSAGE], line[GS_WIRE_MESSAGE + 60];
    if (!problem)
        return;
    snprintf(line, sizeof line, "%s: no kernel can be loaded", gs_error_text(problem, text, sizeof text));
    log_line(server, line);
}

static void save_profiles(gs_server *server) {
    bool is_quiet = server->now_ns - server->worked_ns >= QUIET_NS;
    if (!has_unsaved(server) || !(is_quiet || (server->now_ns - server->saved_ns) / QUIET_NS >= SAVED_AFTER))
        return;
    bool is_more = gs_profile_store_save(server->profiles) && gs_profile_store_has_unsaved(server->profiles);
    server->saved_ns = is_more ? server->saved_ns : server->now_ns;
    report_profiles(server);
}

static void look_after(gs_server *server) {
    if (server->now_ns - server->checked_ns < CHECK_NS)
        return;
    server->checked_ns = server->now_ns;
    check_worker(server);
    check_limits(server);
    gs_loads_check(server);
    gs_actions_trim(server);
    save_profiles(server);
}

static bool must_decide_now(const gs_server *server) {
    const gs_scheduler *scheduler = &server->scheduler;
    return (scheduler->must_decide || server->now_ns >= scheduler->look_at_ns) &&
           server->now_ns >= scheduler->not_before_ns;
}

/* Decisions get at most a fifth of the time, however many contenders there are. */
static void decide_schedule(gs_server *server) {
    enum { USUAL_NS = 50000, TIMES = 4, MOST_PAUSE_NS = 10000000 };
    uint64_t began = (uint64_t)gs_now_ns();
    gs_schedule_decide(server);
    uint64_t now = (uint64_t)gs_now_ns(), took = now - began;
    server->scheduler.not_before_ns = took > USUAL_NS ? now + gs_min_u64(TIMES * took, MOST_PAUSE_NS) : 0;
}

bool gs_server_work(gs_server *server) {
    server->now_ns = (uint64_t)gs_now_ns();
    bool has_reports = take_reports(server), has_commands = take_commands(server);
    if (has_reports || has_commands)
        server->worked_ns = server->now_ns;
    if (must_decide_now(server))
        decide_schedule(server);
    if (server->loads.waiting[GS_LOAD_HANDS_OVER])
        gs_loads_check(server);
    gs_closing_collect(&server->closing, &server->quotas);
    look_after(server);
    if (server->sessions.must_sweep)
        gs_sessions_sweep(server);
    return has_reports || has_commands;
}

/* ---- sleeping ---- */

/* False: a command came meanwhile. */
static bool arm_rings(gs_server *server) {
    for (size_t i = 0; i < server->sessions.count; i++) {
        gs_session *session = server->sessions.data[i];
        if (session && gs_session_may_take(session) && !gs_ring_sleep(&session->ring))
            return false;
    }
    return true;
}

static uint64_t most_sleep_ns(const gs_server *server, bool is_taking) {
    uint64_t now = server->now_ns, look_at = server->scheduler.look_at_ns, load_at;
    if (server->scheduler.must_decide)
        look_at = server->scheduler.not_before_ns;
    uint64_t most = gs_min_u64(CHECK_NS, look_at > now ? look_at - now : 0);
    if (server->take_after_ns > now)
        most = gs_min_u64(most, server->take_after_ns - now);
    if (gs_loads_wait(server, &load_at))
        most = gs_min_u64(most, load_at > now ? load_at - now : 0);
    if (!is_taking || server->closing.count)
        return gs_min_u64(most, RETAKE_NS);
    if (server->quotas.all.used[GS_QUOTA_ACTIONS] || look_at != UINT64_MAX || server->take_after_ns > now ||
        gs_actions_may_trim(server))
        return most;
    return has_unsaved(server) ? QUIET_NS : UINT64_MAX;
}

bool gs_server_sleep(gs_server *server, uint64_t *most_ns) {
    gs_worker_report report;
    if (!server->is_down && gs_worker_poll(server->worker, &report)) {
        take_report(server, &report);
        return false;
    }
    bool is_taking = takes_commands(server);
    bool must_sweep = server->sessions.must_sweep;
    if (must_decide_now(server) || (must_sweep && gs_sessions_may_free(server)) || (is_taking && !arm_rings(server)))
        return false;
    *most_ns = most_sleep_ns(server, is_taking && !must_sweep);
    return true;
}

bool gs_server_is_busy(const gs_server *server) {
    for (size_t i = 0; i < server->sessions.count; i++)
        if (server->sessions.data[i] && server->sessions.data[i]->actions)
            return true;
    return false;
}

/* ---- opening and closing ---- */

void gs_server_drain(gs_server *server) {
    server->is_draining = true;
}

void gs_server_end_clients(gs_server *server) {
    for (size_t i = 0; i < server->sessions.count; i++)
        if (server->sessions.data[i])
            gs_session_end(server->sessions.data[i], GS_CLIENT_LOST, "the daemon was stopped");
}

/* Another user's file could make the daemon decide badly, or do worse. */
static bool may_keep_profiles(const char *path, gs_error *error) {
    return !path || gs_check_trusted_path(path, error) != GS_E_USAGE;
}

gs_server *gs_server_open(const gs_server_options *options, gs_error *error) {
    gs_server *server = calloc(1, sizeof *server);
    if (!server) {
        gs_fail_memory(error);
        return NULL;
    }
    server->options = *options;
    server->life = 1;
    server->cores = gs_process_cores();
    server->transfers.rate = 1;
    server->scheduler = (gs_scheduler){.look_at_ns = UINT64_MAX, .random = gs_random_at(1, 0)};
    server->opened_ns = server->saved_ns = server->now_ns = (uint64_t)gs_now_ns();
    server->images = gs_images_open(options->cache, error);
    if (server->images && may_keep_profiles(options->profiles, error))
        server->worker = gs_worker_open(&options->worker, error);
    if (server->worker) {
        server->facts = *gs_worker_facts_of(server->worker);
        server->plan = gs_decide_defaults(server->facts.sms);
        server->contenders.fairness = (gs_fairness){.sms = server->plan.sms, .slice_ns = server->plan.slice_ns};
        gs_quotas_open(&server->quotas, &options->quotas, server->facts.memory_bytes);
        if (gs_server_read_plan(server, options->plan, error) == GS_OK)
            server->profiles = gs_profile_store_open(options->profiles, server->facts.name, server->facts.sms, error);
    }
    if (!server->profiles || gs_server_try_inside(server, error) != GS_OK) {
        gs_server_close(server);
        return NULL;
    }
    server->tenants.profiles = server->profiles;
    report_images(server);
    report_profiles(server);
    return server;
}

void gs_server_close(gs_server *server) {
    if (!server)
        return;
    gs_server_end_clients(server);
    gs_loads_close(server);
    for (size_t i = 0; i < server->sessions.count; i++)
        if (server->sessions.data[i] && server->sessions.data[i]->page)
            gs_session_close(server->sessions.data[i]);
    if (server->worker)
        abandon_operations(server);
    for (server->is_down = true, server->sessions.must_sweep = true; server->sessions.must_sweep;)
        gs_sessions_sweep(server);
    gs_tenants_close(&server->tenants);
    gs_schedule_end_window(server);
    gs_contenders_close(server);
    gs_actions_free(&server->actions);
    free(server->sessions.data);
    free(server->sessions.slots.data);
    for (int i = 0; i < GS_RESOURCE_KINDS; i++)
        free(server->handles[i].data);
    if (server->profiles) {
        gs_profile_store_save(server->profiles);
        report_profiles(server);
    }
    gs_profile_store_close(server->profiles);
    gs_planned_clear(&server->planned);
    gs_worker_close(server->worker);
    if (!gs_closing_close(&server->closing, &server->quotas))
        return; /* leaked: the process ends */
    gs_quotas_close(&server->quotas);
    free(server);
}
