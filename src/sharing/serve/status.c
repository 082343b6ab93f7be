/*
 * status.c: the state of the daemon as gridsmith.status/1; docs/share.md explains each number.
 */
#include "server.h"

#include <unistd.h>

/* The percentile, rounded up to a power of two. */
static uint64_t percentile(const gs_times *times, uint64_t percent) {
    uint64_t seen = 0;
    for (int i = 0; i < GS_TIME_BUCKETS; i++) {
        seen += times->buckets[i];
        if (seen && seen * 100 >= times->count * percent)
            return gs_min_u64((uint64_t)1 << i, times->most_ns);
    }
    return 0;
}

/* ---- kernels ---- */

static void write_sms(gs_writer *writer, const char *key, const uint32_t *mask, int32_t sms) {
    int32_t numbers[GS_JOB_SMS];
    size_t count = 0;
    gs_text list = {0};
    for (int32_t i = 0; i < sms && i < GS_JOB_SMS; i++)
        if (mask[i / 32] >> i % 32 & 1)
            numbers[count++] = i;
    gs_text_put_numbers(&list, numbers, count, 8);
    gs_write_string(writer, key, list.data ? list.data : "");
    gs_text_free(&list);
}

static const char *form_of(const gs_action *action) {
    static const char *const names[] = {
        [GS_LAUNCH_ORIGINAL] = "original", [GS_LAUNCH_BLOCK_LOOP] = "block-loop", [GS_LAUNCH_CONFINED] = "confined"};
    return action->is_issued ? names[action->launch.request.form] : "";
}

static uint64_t blocks_done(const gs_server *server, const gs_action *action) {
    uint64_t done = action->launch.request.first_block;
    if (action->stream->confined != action)
        return done;
    return gs_max_u64(done, gs_worker_progress(server->worker, gs_action_tag(action)));
}

static void write_kernel(const gs_server *server, const gs_action *action, gs_writer *writer) {
    const gs_action_launch *launch = &action->launch;
    const gs_profile *profile = launch->profile;
    bool is_running = action->is_issued, is_confined = is_running && launch->request.form == GS_LAUNCH_CONFINED;
    gs_write_object(writer, NULL);
    gs_write_uint(writer, "stream", action->stream->number);
    gs_write_string(writer, "kernel", action->resource->image->kernels[launch->request.kernel].name);
    gs_write_string(writer, "state", !is_running ? "waits" : launch->is_stopping ? "stops" : "runs");
    gs_write_string(writer, "form", form_of(action));
    gs_write_int(writer, "sms", is_confined ? launch->sms : is_running ? server->facts.sms : 0);
    write_sms(writer, "on", launch->request.mask, is_confined ? server->facts.sms : 0);
    gs_write_uint(writer, "blocks", launch->blocks);
    gs_write_uint(writer, "done", blocks_done(server, action));
    if (profile) {
        gs_write_real(writer, "usual_us", (double)gs_profile_duration_ns(profile) / 1e3, 1);
        gs_write_string(writer, "compute", gs_level_name(gs_profile_compute(profile)));
        gs_write_string(writer, "memory", gs_level_name(gs_profile_memory(profile)));
    }
    gs_write_end(writer);
}

/* ---- limits ---- */

static void write_limit(const char *key, uint64_t used, uint64_t limit, gs_writer *writer) {
    gs_write_object(writer, key);
    gs_write_uint(writer, "used", used);
    gs_write_uint(writer, "limit", limit);
    gs_write_end(writer);
}

/* Usage of each limit. */
static void write_quotas(const gs_quotas *quotas, const gs_account *account, gs_writer *writer) {
    for (int i = 0; i < GS_QUOTAS; i++)
        write_limit(gs_quota_key((enum gs_quota)i), account->used[i], quotas->most[account->kind][i], writer);
}

/* Sources in progress. */
static void write_sources(uint32_t count, uint64_t bytes, uint64_t most, uint64_t most_mb, gs_writer *writer) {
    write_limit("sources", count, most, writer);
    write_limit("source_bytes", bytes, most_mb << 20, writer);
}

static void write_client_limits(const gs_server *server, const gs_session *session, gs_writer *writer) {
    gs_write_object(writer, "limits");
    write_quotas(&server->quotas, &session->account, writer);
    write_sources(session->loads.count, session->loads.bytes, GS_SESSION_SOURCES, GS_SESSION_SOURCES_MB, writer);
    gs_write_end(writer);
}

static void write_accounts(const gs_quotas *quotas, enum gs_account_kind kind, const char *key, const char *id,
                           gs_writer *writer) {
    gs_write_array(writer, key);
    for (const gs_account *account = quotas->first; account; account = account->next) {
        if (account->kind != kind)
            continue;
        gs_write_object(writer, NULL);
        gs_write_int(writer, id, account->id);
        gs_write_object(writer, "limits");
        write_quotas(quotas, account, writer);
        gs_write_end(writer);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void write_limits(const gs_server *server, gs_writer *writer) {
    const gs_quotas *quotas = &server->quotas;
    gs_write_object(writer, "limits");
    gs_write_object(writer, "all");
    write_quotas(quotas, &quotas->all, writer);
    write_sources(server->loads.count, server->loads.bytes, GS_SOURCES, GS_SOURCES_MB, writer);
    gs_write_end(writer);
    write_accounts(quotas, GS_ACCOUNT_USER, "users", "user", writer);
    write_accounts(quotas, GS_ACCOUNT_FAMILY, "families", "family", writer);
    write_accounts(quotas, GS_ACCOUNT_PROCESS, "processes", "process", writer);
    gs_write_end(writer);
}

/* ---- clients ---- */

static void write_client(const gs_server *server, const gs_session *session, gs_writer *writer) {
    const gs_session_options *options = &session->options;
    const gs_session_counts *counts = &session->counts;
    gs_write_object(writer, NULL);
    gs_write_string(writer, "name", options->name);
    gs_write_int(writer, "process", options->process);
    gs_write_uint(writer, "opened_ns", session->opened_ns);
    gs_write_uint(writer, "weight", options->weight);
    gs_write_int(writer, "priority", options->priority);
    gs_write_uint(writer, "most_sms", options->most_sms);
    gs_write_string(writer, "state",
                    session->end_code  ? gs_client_meaning(session->end_code)
                    : session->actions ? "busy"
                                       : "idle");
    gs_write_uint(writer, "memory_bytes", counts->memory_bytes);
    gs_write_uint(writer, "commands", counts->commands);
    gs_write_uint(writer, "launches", counts->launches);
    gs_write_uint(writer, "blocks", counts->blocks);
    gs_write_uint(writer, "copied_bytes", counts->copied_bytes);
    gs_write_uint(writer, "resizes", counts->resizes);
    gs_write_uint(writer, "errors", counts->errors);
    gs_write_uint(writer, "served_sm_ns", counts->served);
    write_client_limits(server, session, writer);
    gs_write_array(writer, "kernels");
    for (int i = 0; i < GS_CLIENT_STREAMS; i++) {
        const gs_action *action = gs_stream_launch(&session->streams[i]);
        if (action)
            write_kernel(server, action, writer);
    }
    gs_write_end(writer);
    gs_write_end(writer);
}

size_t gs_status_clients(const gs_server *server) {
    size_t count = 0;
    for (size_t i = 0; i < server->sessions.count; i++)
        count += server->sessions.data[i] && server->sessions.data[i]->page;
    return count;
}

/* ---- pairs of clients that keep the GPU busy ---- */

static const char *name_of(const gs_server *server, uint32_t slot) {
    const gs_session *session = slot < server->sessions.count ? server->sessions.data[slot] : NULL;
    return session ? session->options.name : "";
}

static void write_pair(const gs_server *server, const gs_mixed_pair *pair, gs_writer *writer) {
    double error, gain = gs_mixing_gain(pair, &error);
    gs_write_object(writer, NULL);
    gs_write_string(writer, "first", name_of(server, pair->clients[0]));
    gs_write_string(writer, "second", name_of(server, pair->clients[1]));
    gs_write_string(writer, "way", pair->is_compared ? "both" : pair->prefers_turns ? "turns" : "mixed");
    gs_write_real(writer, "mixed_work", pair->figure, 3);
    gs_write_uint(writer, "comparisons", (uint64_t)pair->rounds);
    gs_write_real(writer, "gain", gain, 3);
    gs_write_real(writer, "gain_error", error, 3);
    gs_write_end(writer);
}

static void write_pairs(const gs_server *server, gs_writer *writer) {
    gs_write_array(writer, "pairs");
    for (size_t i = 0; i < GS_COUNT(server->mixing.pairs); i++)
        if (server->mixing.pairs[i].figures)
            write_pair(server, &server->mixing.pairs[i], writer);
    gs_write_end(writer);
}

/* ---- the document ---- */

/* Resident memory of a process; 0: not known. */
static uint64_t resident_bytes(int32_t process) {
    char path[40];
    unsigned long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", process);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void write_device(const gs_server *server, gs_writer *writer) {
    const gs_worker_facts *facts = gs_worker_facts_of(server->worker);
    gs_write_object(writer, "device");
    gs_write_string(writer, "name", facts->name);
    gs_write_bool(writer, "is_gpu", facts->is_gpu);
    gs_write_int(writer, "sms", facts->sms);
    gs_write_int(writer, "architecture", facts->architecture);
    gs_write_uint(writer, "memory_bytes", facts->memory_bytes);
    gs_write_int(writer, "process", facts->process);
    gs_write_uint(writer, "resident_bytes", resident_bytes(facts->process));
    gs_write_uint(writer, "kernel_bytes", gs_worker_kernel_bytes(server->worker));
    gs_write_uint(writer, "restarts", server->life - 1);
    gs_write_bool(writer, "is_down", server->is_down);
    gs_write_end(writer);
}

static void write_first_block(const gs_times *times, gs_writer *writer) {
    gs_write_object(writer, "first_block");
    gs_write_uint(writer, "count", times->count);
    gs_write_real(writer, "mean_us", times->count ? (double)times->sum_ns / (double)times->count / 1e3 : 0, 1);
    gs_write_real(writer, "p50_us", (double)percentile(times, 50) / 1e3, 1);
    gs_write_real(writer, "p99_us", (double)percentile(times, 99) / 1e3, 1);
    gs_write_real(writer, "most_us", (double)times->most_ns / 1e3, 1);
    gs_write_end(writer);
}

/* The time is that of the request: `now_ns` of the server is when it last had work. */
void gs_status_json(const gs_server *server, gs_text *into) {
    uint64_t now_ns = (uint64_t)gs_now_ns();
    gs_writer writer = gs_writer_to(into);
    gs_write_document(&writer, "gridsmith.status/1");
    gs_write_int(&writer, "process", getpid());
    gs_write_uint(&writer, "resident_bytes", resident_bytes(getpid()));
    gs_write_uint(&writer, "time_ns", now_ns);
    gs_write_uint(&writer, "uptime_ns", now_ns - server->opened_ns);
    write_device(server, &writer);
    gs_write_uint(&writer, "launches", server->launches);
    gs_write_uint(&writer, "resizes", server->resizes);
    gs_write_uint(&writer, "launches_inside", server->inside_launches);
    gs_write_uint(&writer, "launches_confined", server->form_launches[GS_LAUNCH_CONFINED]);
    gs_write_uint(&writer, "launches_looped", server->form_launches[GS_LAUNCH_BLOCK_LOOP]);
    gs_write_uint(&writer, "turns", server->mixing.taken);
    gs_write_uint(&writer, "decisions", server->scheduler.decisions);
    gs_write_uint(&writer, "compiling", server->loads.compiling);
    write_first_block(&server->first_block, &writer);
    write_limits(server, &writer);
    gs_write_array(&writer, "clients");
    for (size_t i = 0; i < server->sessions.count; i++)
        if (server->sessions.data[i] && server->sessions.data[i]->page)
            write_client(server, server->sessions.data[i], &writer);
    gs_write_end(&writer);
    write_pairs(server, &writer);
    gs_tenants_json(&server->tenants, &writer);
    if (server->options.mps_folder)
        gs_write_string(&writer, "mps_folder", server->options.mps_folder);
    gs_write_finish(&writer);
}
