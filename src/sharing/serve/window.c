/*
 * window.c: measurement windows: what kernels do to each other while they run.
 *
 * A launch that ran without a neighbor gives its kernel's duration (completion.c). Everything else is measured in
 * windows: times in which the same one or two kernels run on the same SMs, or two run in sequence, over any number of
 * launches. Gaps between launches count. Two kernels that both run whole also run in sequence: the GPU starts the
 * second when no block of the first waits any more.
 */
#include "server.h"

enum {
    WHOLE_WINDOW_NS = 20000000,  /* the least: many launches of both */
    TURNS_WINDOW_NS = 100000000, /* the least: both kernels have run */
    USUAL_WINDOW_NS = 50000000   /* after this its result is stored, and a new window begins */
};

/* ---- counting ---- */

void gs_window_count(gs_action *action, uint64_t done) {
    gs_action_launch *launch = &action->launch;
    gs_window *window = &action->session->server->window;
    uint64_t more = done > launch->counted ? done - launch->counted : 0;
    launch->counted += more;
    for (size_t i = 0; i < window->count; i++)
        if (window->streams[i] == action->stream && window->profiles[i] == launch->profile)
            window->blocks[i] += more;
}

static void count_running(gs_server *server) {
    for (size_t i = 0; i < server->contenders.count; i++) {
        gs_action *action = server->contenders.data[i]->confined;
        if (action)
            gs_window_count(action, gs_worker_progress(server->worker, gs_action_tag(action)));
    }
}

/* ---- opening and closing ---- */

static void learn_window(gs_server *server, const gs_beside *both, uint64_t ns) {
    const gs_window *window = &server->window;
    if (window->is_intra_sm)
        gs_profile_store_intra_sm(server->profiles, &both[0], &both[1], window->workers, ns);
    else if (window->count == 1)
        gs_profile_rate(both[0].profile, both[0].sms, both[0].blocks, ns);
    else if (window->is_serial)
        gs_profile_store_serial(server->profiles, &both[0], &both[1], ns);
    else
        gs_profile_store_inter_sm(server->profiles, &both[0], &both[1], ns);
}

void gs_window_close(gs_server *server) {
    gs_window *window = &server->window;
    uint64_t ns = server->now_ns - window->since_ns;
    gs_beside both[2];
    if (!window->count)
        return;
    count_running(server);
    for (size_t i = 0; i < window->count; i++)
        both[i] = (gs_beside){window->profiles[i], window->sms[i], window->blocks[i]};
    bool is_measured = ns >= window->least_ns && both[0].blocks && both[window->count - 1].blocks;
    if (!is_measured)
        both[0].blocks = 0;
    if (is_measured || (window->is_intra_sm && window->is_probe))
        learn_window(server, both, ns);
    for (size_t i = 0; i < window->count; i++)
        gs_profile_store_put(server->profiles, window->profiles[i]);
    window->count = 0;
}

uint64_t gs_window_least_ns(const gs_server *server, const gs_decided_place *place) {
    return place->workers > 0 ? (uint64_t)server->plan.trial_ns : GS_LEAST_WINDOW_NS;
}

/* The window for the current decision; without kernels there is none. */
static gs_window window_of(const gs_server *server, size_t count) {
    const gs_contenders *contenders = &server->contenders;
    gs_window window = {.since_ns = server->now_ns, .least_ns = GS_LEAST_WINDOW_NS};
    size_t running = 0, whole = 0;
    for (size_t i = 0; i < count; i++) {
        window.is_intra_sm |= contenders->places[i].workers > 0;
        running += contenders->places[i].how != GS_DECIDE_WAIT;
        whole += contenders->places[i].how == GS_DECIDE_WHOLE;
    }
    if (count > 2 || running == 0 || (count == 1 && whole == 1) || (window.is_intra_sm && running != 2))
        return window;
    if (window.is_intra_sm)
        window.least_ns = gs_window_least_ns(server, &contenders->places[0]);
    window.is_serial = running < count || whole == count;
    if (window.is_serial)
        window.least_ns = running < count ? TURNS_WINDOW_NS : WHOLE_WINDOW_NS;
    for (size_t i = 0; i < count; i++) {
        gs_profile *profile = (gs_profile *)contenders->queries[i].profile; /* owned by the store */
        if (!profile)
            return (gs_window){.count = 0};
        window.streams[i] = contenders->data[i];
        window.profiles[i] = profile;
        window.sms[i] = window.is_serial ? 0 : contenders->places[i].sms;
        window.workers[i] = contenders->places[i].workers;
        window.is_probe |= contenders->places[i].is_probe || contenders->places[i].is_trial;
    }
    window.count = count;
    return window;
}

/* Of two kernels that run in sequence, sometimes both are with the GPU, and sometimes one waits. */
static bool is_same(const gs_window *a, const gs_window *b) {
    if (a->count != b->count || a->is_serial != b->is_serial)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        size_t k = a->streams[i] == b->streams[i] ? i : a->count - 1 - i;
        if (a->streams[i] != b->streams[k] || a->profiles[i] != b->profiles[k] || a->sms[i] != b->sms[k] ||
            a->workers[i] != b->workers[k])
            return false;
    }
    return true;
}

void gs_window_end_probe(gs_server *server) {
    const gs_window *window = &server->window;
    if (!window->count || !window->is_probe || server->now_ns - window->since_ns < window->least_ns)
        return;
    count_running(server);
    for (size_t i = 0; i < window->count; i++)
        if (!window->blocks[i])
            return;
    gs_window_close(server);
}

void gs_window_follow(gs_server *server, size_t count) {
    gs_window next = window_of(server, count), *window = &server->window;
    if (is_same(window, &next)) {
        window->least_ns = gs_max_u64(window->least_ns, next.least_ns);
        uint64_t most = window->least_ns == TURNS_WINDOW_NS ? 2 * TURNS_WINDOW_NS : USUAL_WINDOW_NS;
        if (server->now_ns - window->since_ns < most)
            return;
    }
    gs_window_close(server);
    count_running(server); /* earlier blocks do not count */
    *window = next;
    window->count = 0;
    for (size_t i = 0; i < next.count; i++) {
        const gs_profile *profile = next.profiles[i];
        window->profiles[i] = gs_profile_store_get(server->profiles, profile->key, profile->name, profile->blocks);
        if (!window->profiles[i]) {
            gs_window_close(server);
            return;
        }
        window->count++;
    }
}
