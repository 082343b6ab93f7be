/*
 * window.c: measurement windows: what kernels do to each other while they run.
 *
 * A launch that ran without a neighbor gives its kernel's duration. Everything else is measured in windows: times in
 * which the same one or two kernels run on the same SMs, or two run in sequence, over any number of launches. Gaps
 * between launches count. Two kernels that both run whole also run in sequence: the GPU starts the second when no block
 * of the first waits any more.
 *
 * A pair of a plan that shares SMs may be interrupted by a sequence again and again, each time before it can be
 * measured. So the times of such a pair are added up until they are long enough.
 */
#include "decide.h"

enum {
    LEAST_WINDOW_NS = 4000000,   /* progress is known to about a millisecond */
    WHOLE_WINDOW_NS = 20000000,  /* the least: many launches of both */
    TURNS_WINDOW_NS = 100000000, /* the least: both kernels have run */
    USUAL_WINDOW_NS = 50000000   /* after this its result is stored, and a new window begins */
};

int64_t gs_window_least_ns(const gs_decide_options *options, const gs_decided_place *place) {
    return place->workers > 0 ? options->trial_ns : LEAST_WINDOW_NS;
}

void gs_window_count(gs_window *window, uint64_t stream, const gs_profile *profile, uint64_t blocks) {
    for (size_t i = 0; i < window->count; i++)
        if (window->streams[i] == stream && window->profiles[i] == profile)
            window->blocks[i] += blocks;
}

/* ---- opening and closing ---- */

static void learn_window(const gs_window *window, gs_profile_store *store, const gs_beside *both, uint64_t ns) {
    if (window->is_intra_sm)
        gs_profile_store_intra_sm(store, &both[0], &both[1], window->workers, ns);
    else if (window->count == 1)
        gs_profile_rate(both[0].profile, both[0].sms, both[0].blocks, ns);
    else if (window->is_serial)
        gs_profile_store_serial(store, &both[0], &both[1], ns);
    else
        gs_profile_store_inter_sm(store, &both[0], &both[1], ns);
}

void gs_window_close(gs_window *window, gs_profile_store *store, uint64_t now_ns) {
    uint64_t ns = now_ns - window->since_ns;
    gs_beside both[2];
    if (!window->count)
        return;
    for (size_t i = 0; i < window->count; i++)
        both[i] = (gs_beside){window->profiles[i], window->sms[i], window->blocks[i]};
    if (window->is_intra_sm && !window->is_probe && ns >= LEAST_WINDOW_NS)
        ns = gs_profile_store_gather(store, &both[0], &both[1], window->workers, ns);
    bool is_measured = ns >= window->least_ns && both[0].blocks && both[window->count - 1].blocks;
    if (!is_measured)
        both[0].blocks = 0;
    if (is_measured || (window->is_intra_sm && window->is_probe))
        learn_window(window, store, both, ns);
    for (size_t i = 0; i < window->count; i++)
        gs_profile_store_put(store, window->profiles[i]);
    window->count = 0;
}

static gs_window window_of(const gs_decide_options *options, const gs_contender *contenders,
                           const gs_decided_place *places, size_t count);

/* The window of two on the same SMs while others wait, which do not change what the two do. */
static gs_window window_of_pair(const gs_decide_options *options, const gs_contender *contenders,
                                const gs_decided_place *places, size_t count) {
    gs_contender both[2];
    gs_decided_place their[2];
    for (size_t i = 0, at = 0; i < count && at < 2; i++)
        if (places[i].how != GS_DECIDE_WAIT) {
            both[at] = contenders[i];
            their[at++] = places[i];
        }
    return window_of(options, both, their, 2);
}

/* The window for the current decision; without kernels there is none. One of a probe is of that kernel alone, whoever
   waits for it. */
static gs_window window_of(const gs_decide_options *options, const gs_contender *contenders,
                           const gs_decided_place *places, size_t count) {
    gs_window window = {.least_ns = LEAST_WINDOW_NS};
    size_t running = 0, whole = 0, inside = 0;
    for (size_t i = 0; i < count && count > 1; i++)
        if (places[i].is_probe)
            return window_of(options, &contenders[i], &places[i], 1);
    for (size_t i = 0; i < count; i++) {
        window.is_intra_sm |= places[i].workers > 0;
        running += places[i].how != GS_DECIDE_WAIT;
        whole += places[i].how == GS_DECIDE_WHOLE;
        inside += places[i].how != GS_DECIDE_WAIT && places[i].workers > 0;
    }
    if (count > 2 && running == 2 && inside == 2)
        return window_of_pair(options, contenders, places, count);
    if (count > 2 || running == 0 || (count == 1 && whole == 1) || (window.is_intra_sm && running != 2))
        return window;
    if (window.is_intra_sm)
        window.least_ns = (uint64_t)gs_window_least_ns(options, &places[0]);
    window.is_serial = running < count || whole == count;
    if (window.is_serial)
        window.least_ns = running < count ? TURNS_WINDOW_NS : WHOLE_WINDOW_NS;
    for (size_t i = 0; i < count; i++) {
        gs_profile *profile = (gs_profile *)contenders[i].profile; /* owned by the store */
        if (!profile)
            return (gs_window){.count = 0};
        window.streams[i] = contenders[i].stream;
        window.profiles[i] = profile;
        window.sms[i] = window.is_serial ? 0 : places[i].sms;
        window.workers[i] = places[i].workers;
        window.is_probe |= places[i].is_probe || places[i].is_trial;
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

void gs_window_end_probe(gs_window *window, gs_profile_store *store, uint64_t now_ns) {
    if (!window->count || !window->is_probe || now_ns - window->since_ns < window->least_ns)
        return;
    for (size_t i = 0; i < window->count; i++)
        if (!window->blocks[i])
            return;
    gs_window_close(window, store, now_ns);
}

void gs_window_follow(gs_window *window, gs_profile_store *store, const gs_decide_options *options,
                      const gs_contender *contenders, const gs_decided_place *places, size_t count, uint64_t now_ns) {
    gs_window next = window_of(options, contenders, places, count);
    if (is_same(window, &next)) {
        window->least_ns = gs_max_u64(window->least_ns, next.least_ns);
        uint64_t most = window->least_ns == TURNS_WINDOW_NS ? 2 * TURNS_WINDOW_NS : USUAL_WINDOW_NS;
        if (now_ns - window->since_ns < most)
            return;
    }
    gs_window_close(window, store, now_ns);
    *window = next;
    window->since_ns = now_ns;
    window->count = 0;
    for (size_t i = 0; i < next.count; i++) {
        const gs_profile *profile = next.profiles[i];
        window->profiles[i] = gs_profile_store_get(store, profile->key, profile->name, profile->blocks);
        if (!window->profiles[i]) {
            gs_window_close(window, store, now_ns);
            return;
        }
        window->count++;
    }
}
