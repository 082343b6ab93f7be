/*
 * completion.c: what a report of the worker means for an action: how long a launch took, what this tells about its
 * kernel, what its stream does next.
 */
#include "server.h"

enum { KEPT_NS = 200000 }; /* how long a stream keeps its place after a launch */

/* ---- measurements ---- */

static void count_first_block(gs_times *times, uint64_t from_ns, uint64_t to_ns) {
    uint64_t ns = to_ns > from_ns ? to_ns - from_ns : 0;
    int bucket = 0;
    while (bucket < GS_TIME_BUCKETS - 1 && ns >> bucket)
        bucket++;
    times->buckets[bucket]++;
    times->count++;
    times->sum_ns += ns;
    times->most_ns = gs_max_u64(times->most_ns, ns);
}

/* A launch without neighbors gives the kernel's duration, or its rate on that many SMs. */
static void measure_blocks(const gs_action *action, uint64_t done, uint64_t ns) {
    const gs_action_launch *launch = &action->launch;
    const gs_worker_launch *request = &launch->request;
    double *ns_per_block = action->resource->ns_per_block;
    if (launch->had_neighbors || request->workers)
        return;
    if (request->form == GS_LAUNCH_CONFINED) {
        if (!launch->was_resized && done > request->first_block)
            gs_profile_rate(launch->profile, launch->sms, done - request->first_block, ns);
        return;
    }
    if (ns_per_block)
        ns_per_block[request->kernel] = (double)ns / (double)gs_max_u64(launch->blocks, 1);
    gs_profile_ran(launch->profile, request->form == GS_LAUNCH_BLOCK_LOOP, launch->blocks, ns);
}

/* Updates the time per block of the confined form. */
static void note_worker(gs_profile *profile, const gs_worker_launch *request, const gs_worker_cost *cost) {
    if (cost->registers)
        profile->worker = (gs_shape){.threads = (int32_t)(request->block[0] * request->block[1] * request->block[2]),
                                     .registers = (int32_t)cost->registers,
                                     .shared_bytes = (int64_t)(request->shared_bytes + cost->shared_bytes),
                                     .local_bytes = cost->local_bytes,
                                     .carveout_percent = GS_NO_CARVEOUT};
}

/* The place of an ended launch is kept for the next one. */
static void keep_place(gs_stream *stream, const gs_action *action) {
    gs_server *server = stream->session->server;
    const gs_action_launch *launch = &action->launch;
    const gs_profile *profile = launch->profile;
    stream->kept = (struct gs_kept){
        .profile = gs_profile_store_get(server->profiles, profile->key, profile->name, profile->blocks),
        .how = launch->how,
        .sms = launch->sms,
        .can_share = gs_contender_can_confine(action),
        .until_ns = server->now_ns + KEPT_NS};
    memcpy(stream->kept.mask.words, launch->request.mask, sizeof stream->kept.mask.words);
}

/* A launch that ran whole beside others may have waited for them on the device, and one that shared its SMs was slowed
   down: neither is charged with that. One that had a part of the SMs is charged with what it has done. */
static void learn_launch(gs_server *server, gs_action *action, const gs_worker_report *report) {
    gs_action_launch *launch = &action->launch;
    uint64_t ns = report->ended_ns > report->began_ns ? report->ended_ns - report->began_ns : 0;
    bool is_confined = launch->request.form == GS_LAUNCH_CONFINED,
         is_shared = (is_confined ? launch->request.workers > 0 : launch->had_neighbors) && launch->expected_ns > 0;
    uint64_t done = is_confined ? report->blocks_done : launch->blocks;
    uint64_t sms = (uint64_t)(launch->sms > 0 ? launch->sms : server->facts.sms);
    uint64_t served = is_confined ? gs_launch_served(launch, report->began_ns, report->ended_ns) : ns * sms;
    uint64_t expected = gs_launch_work(server, launch, done);
    gs_mixing_ran(&server->mixing, action->session->slot, !is_confined, (uint64_t)launch->expected_ns, report->ended_ns,
                  server->now_ns);
    launch->ran_ns += ns;
    action->session->counts.served += served;
    if (is_shared)
        gs_fair_charge_beside(&server->contenders.fairness, &action->session->fair, served, expected);
    else
        gs_fair_charge(&server->contenders.fairness, &action->session->fair,
                       is_confined ? gs_launch_charge(server, launch, served, expected, ns) : served);
    if (report->code != GS_OK || !launch->profile)
        return;
    gs_schedule_count(action, done);
    note_worker(launch->profile, &launch->request, &report->cost);
    if (!report->is_estimated)
        measure_blocks(action, done, ns);
    gs_stream_forget_kept(action->stream);
    if (server->contenders.count > 1 && done >= launch->blocks)
        keep_place(action->stream, action);
}

/* ---- ends of actions ---- */

/* The launch was stopped and continues later at the block it reached; launches before it continue first. */
static void wait_again(gs_server *server, gs_action *action, uint64_t blocks_done) {
    gs_stream *stream = action->stream;
    gs_action_launch *launch = &action->launch;
    launch->request.first_block = blocks_done;
    launch->is_stopping = false;
    launch->waits_since = server->now_ns;
    action->is_issued = false;
    for (stream->next = stream->head; stream->next->is_issued;)
        stream->next = stream->next->next;
}

/* A launch that could not begin is a wrong call, and the client goes on. A kernel that went wrong ends its client. */
static void report_failure(gs_action *action, const gs_worker_report *report) {
    if (report->code == GS_E_KERNEL)
        gs_session_end(action->session, GS_CLIENT_KERNEL, "%s", report->message);
    else
        gs_page_error(action->stream,
                      report->code == GS_E_FULL     ? GS_CLIENT_MEMORY
                      : report->code == GS_E_MEMORY ? GS_CLIENT_SYSTEM
                                                    : GS_CLIENT_INVALID,
                      report->message);
}

static void end_launch(gs_action *action, const gs_worker_report *report) {
    action->is_done = true;
    action->session->counts.launches++;
    action->session->counts.blocks += action->launch.blocks;
    if (report->code != GS_OK)
        report_failure(action, report);
}

static void finish_run(gs_server *server, gs_action *action, const gs_worker_report *report) {
    gs_stream *stream = action->stream;
    gs_action_launch *launch = &action->launch;
    bool is_stopped =
        launch->request.form == GS_LAUNCH_CONFINED && report->code == GS_OK && report->blocks_done < launch->blocks;
    if (!launch->has_begun && report->began_ns)
        count_first_block(&server->first_block, gs_max_u64(action->arrived_ns, stream->ended_ns), report->began_ns);
    launch->has_begun = true;
    learn_launch(server, action, report);
    stream->ahead_ns -= launch->expected_ns;
    if (!--stream->launches) {
        server->running--;
        stream->ahead_ns = 0;
    }
    stream->running_since = server->now_ns;
    stream->ended_ns = report->ended_ns ? report->ended_ns : server->now_ns;
    if (is_stopped && !action->session->end_code)
        wait_again(server, action, report->blocks_done);
    else
        end_launch(action, report);
    gs_stream_find_confined(stream);
    server->scheduler.must_decide = true;
}

static void finish_copy(gs_server *server, gs_action *action, const gs_worker_report *report) {
    action->stream->ended_ns = report->ended_ns ? report->ended_ns : server->now_ns;
    if (report->code != GS_OK)
        gs_page_error(action->stream, GS_CLIENT_SYSTEM,
                      report->message[0] ? report->message : gs_code_meaning(report->code));
    gs_transfer_moved(action, report);
}

void gs_complete(gs_server *server, gs_action *action, const gs_worker_report *report) {
    gs_stream *stream = action->stream;
    if (!stream) {
        gs_creation_end(action, report);
        return;
    }
    bool is_launch = action->command == GS_WIRE_LAUNCH;
    if (report->kind == GS_REPORT_RAN && is_launch)
        finish_run(server, action, report);
    else if (report->kind == GS_REPORT_COPIED && action->sent > action->moved)
        finish_copy(server, action, report);
    gs_stream_settle(stream);
    gs_stream_advance(stream);
}
