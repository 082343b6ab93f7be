/*
 * choice.c: whether a program of `gridsmith run` uses MPS the next time that it is started, or time slices.
 *
 * The daemon keeps for each best-effort command what requests lost beside it with each of the two ways (stretch.c). The
 * way with which they lose less is taken. Of a way that was not measured it is assumed what requests are likely to
 * lose, so MPS is first. MPS keeps more of the other work: it stays while p99 is at most a fifth longer, which is what
 * is promised, and time slices must be better by a tenth.
 *
 * Each run with one way lets what was measured of the other count a little less: it is tried again some time, the
 * sooner the less it was worse.
 *
 * What is likely comes from docs/reports/neighbors.md: requests lose one switch by time slices, 0.15 to 0.3 ms, also
 * those of many launches, because a keeper keeps the GPU for them; the least of it counts, so that time slices are
 * tried. Under MPS the longest kernel that cannot be stopped holds requests up.
 *
 * A latency program does as its neighbors will.
 */
#include "server.h"

#include <math.h>

static const double better = 0.9, /* time slices are taken if requests lose at most this part of what MPS costs */
    not_much = 0.2,               /* of p99: MPS stays if requests lose no more */
    remembered = 31 / 32.0,       /* what counts of a way after a run with the other one */
    switch_us = 150,              /* what time slices are likely to cost */
    most_late = GS_TENANT_MOST_LATE / 100.0;

/* ---- deciding ---- */

/* What requests lose: as measured, or else what is likely. */
static double lost_us(const gs_command_profile *command, bool has_mps) {
    double measured = command->lost_us[has_mps];
    if (measured >= 0)
        return measured;
    return has_mps ? command->kernels_us : switch_us;
}

bool gs_choice_has_mps(const gs_command_profile *command) {
    return !command->is_sliced && lost_us(command, false) >= better * lost_us(command, true);
}

void gs_choice_why(const gs_command_profile *command, char *why, size_t size) {
    const double *measured = command->lost_us;
    if (command->is_sliced) {
        snprintf(why, size, "as its neighbors do");
        return;
    }
    snprintf(why, size, "requests lose %s%.2f ms beside it under MPS%s, %s%.2f ms by time slices%s",
             measured[1] < 0 ? "about " : "", lost_us(command, true) / 1e3, measured[1] < 0 ? " (not measured)" : "",
             measured[0] < 0 ? "about " : "", lost_us(command, false) / 1e3, measured[0] < 0 ? " (not measured)" : "");
}

/* ---- learning ---- */

/* A number that a program wrote. */
static double number_of(const _Atomic uint64_t *number) {
    return (double)atomic_load_explicit(number, memory_order_relaxed);
}

/* Whether a best-effort program has worked for long enough to tell. How long graphs take may never be known: some
   programs make new ones all the time. */
static bool has_worked(const gs_tenant *tenant) {
    enum { LEAST_NS = 100000000, LEAST_GRAPHS = 100 };
    return number_of(&tenant->page->work_ns) >= LEAST_NS || number_of(&tenant->page->graphs) >= LEAST_GRAPHS;
}

/* What a request can lose under MPS to kernels that cannot be stopped: the longest of them, if they are more than a
   small part of the work. */
static double held_up_us(const gs_tenant *tenant) {
    const gs_tenant_page *page = tenant->page;
    return number_of(&page->late_ns) > most_late * number_of(&page->work_ns) ? number_of(&page->stop_ns) / 1e3 : 0;
}

/* After a run with one way; `measured` is negative if it was not. One bad run, by a host that was busy with something
   else, makes little difference to what was good before: else the worse way would be taken for dozens of runs. */
static void learn_way(double *lost, bool has_mps, double measured) {
    if (measured >= 0 && lost[has_mps] >= 0)
        measured = (lost[has_mps] + fmin(measured, 3 * lost[has_mps] + 2 * switch_us)) / 2;
    if (measured >= 0)
        lost[has_mps] = measured;
    lost[!has_mps] *= remembered; /* what was not measured stays negative */
}

/* What is known of a best-effort program that has worked, if it ends now. Beside others nothing can be told of one of
   them, and time slices of several are long: it begins with MPS again. */
static gs_command_profile learn_program(const gs_tenant *tenant) {
    const gs_profile_store *profiles = tenant->tenants->profiles;
    uint64_t key = tenant->options.command;
    const gs_command_profile *known = profiles ? gs_profile_store_command(profiles, key) : NULL;
    gs_command_profile command = known && !tenant->saw_others ? *known : GS_UNKNOWN_COMMAND(key);
    if (tenant->saw_others)
        return command;
    learn_way(command.lost_us, tenant->options.has_mps, tenant->lost_us);
    command.is_sliced = false;
    command.kernels_us = tenant->options.has_mps ? held_up_us(tenant) : remembered * command.kernels_us;
    return command;
}

/* What its user has chosen, and a program that has done nothing, stay as they are. */
static bool will_use_mps(const gs_tenant *tenant) {
    if (!tenant->options.command || !has_worked(tenant))
        return tenant->options.has_mps;
    gs_command_profile command = learn_program(tenant);
    return gs_choice_has_mps(&command);
}

/* A program under MPS beside one without it has time slices, but not short ones: that is neither way. */
static void measure_lost(const gs_tenant *latency, gs_tenant *best_effort) {
    bool has_mps = best_effort->options.has_mps;
    double lost = gs_stretch_lost_us(latency->page, latency->beside_before, has_mps ? not_much : 0);
    if (has_worked(best_effort) && (latency->options.has_mps || !has_mps))
        best_effort->lost_us = fmax(best_effort->lost_us, lost);
}

static void meet_request(gs_tenant *latency, gs_tenant *best_effort) {
    measure_lost(latency, best_effort);
    bool has_mps = will_use_mps(best_effort);
    latency->saw_mps |= has_mps;
    latency->saw_slices |= !has_mps;
}

static void meet_work(gs_tenant *one, gs_tenant *other) {
    bool is_shared = has_worked(one) && has_worked(other);
    one->saw_others |= is_shared;
    other->saw_others |= is_shared;
}

static void meet(gs_tenant *one, gs_tenant *other) {
    if (one->options.is_latency && other->options.is_latency)
        return;
    if (one->options.is_latency)
        meet_request(one, other);
    else if (other->options.is_latency)
        meet_request(other, one);
    else
        meet_work(one, other);
}

static void keep_command(const gs_tenant *tenant) {
    gs_profile_store *profiles = tenant->tenants->profiles;
    gs_command_profile command = GS_UNKNOWN_COMMAND(tenant->options.command);
    bool is_latency = tenant->options.is_latency;
    if (!profiles || !command.key || !(is_latency ? tenant->saw_mps || tenant->saw_slices : has_worked(tenant)))
        return;
    if (is_latency)
        command.is_sliced = !tenant->saw_mps;
    else
        command = learn_program(tenant);
    gs_profile_store_put_command(profiles, &command);
    gs_profile_store_save(profiles);
}

void gs_choice_begin(const gs_tenant *tenant) {
    gs_tenant *first = tenant->tenants->first;
    for (const gs_tenant *at = first; at; at = at->next)
        if (at != tenant && at->group == tenant->group && !at->options.is_latency && has_worked(at))
            return;
    for (gs_tenant *at = first; at; at = at->next)
        if (at->group == tenant->group && at->options.is_latency)
            gs_stretch_count(at->page, at->beside_before);
}

void gs_choice_end(gs_tenant *tenant) {
    for (gs_tenant *at = tenant->tenants->first; at; at = at->next)
        if (at != tenant && at->group == tenant->group)
            meet(tenant, at);
    keep_command(tenant);
    gs_choice_begin(tenant);
}
