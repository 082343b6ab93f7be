/*
 * status.c: what the daemon is doing, as gridsmith.status/1 and for Prometheus; docs/share.md explains each number.
 */
#include "server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The time that `percent` of all were below, to the power of two above it. */
static uint64_t percentile(const gs_times *times, uint64_t percent) {
    uint64_t seen = 0;
    for (int i = 0; i < GS_TIME_BUCKETS; i++) {
        seen += times->buckets[i];
        if (seen && seen * 100 >= times->count * percent)
            return (uint64_t)gs_min((int64_t)1 << i, (int64_t)times->most_ns);
    }
    return 0;
}

static void put_sms(gs_text *into, const gs_mask *mask, int32_t sms) {
    int32_t numbers[GS_JOB_SMS];
    size_t count = 0;
    gs_text list = {0};
    for (int32_t i = 0; i < sms && i < GS_JOB_SMS; i++)
        if (gs_mask_has(mask, i))
            numbers[count++] = i;
    gs_text_put_numbers(&list, numbers, count, 8);
    gs_text_put_json(into, list.data ? list.data : "");
    gs_text_free(&list);
}

static void put_kernel(const gs_server *server, const gs_stream *stream, const gs_action *action, gs_text *into) {
    const gs_action_launch *launch = &action->launch;
    bool is_running = action->is_issued;
    uint64_t done = launch->run.first_block;
    if (stream->confined == action) {
        uint64_t progress = gs_worker_progress(server->engine, gs_action_tag(action));
        done = progress > done ? progress : done;
    }
    gs_text_add(into, "{\"stream\":%u,\"kernel\":", stream->number);
    gs_text_put_json(into, action->resource->image->kernels[launch->run.kernel].name);
    gs_text_add(into, ",\"state\":\"%s\",\"form\":\"%s\",\"sms\":%d,\"on\":",
                !is_running           ? "waits"
                : launch->is_stopping ? "stops"
                                      : "runs",
                !is_running                 ? ""
                : launch->run.is_confined   ? "confined"
                : launch->run.is_block_loop ? "walked"
                                            : "original",
                !is_running               ? 0
                : launch->run.is_confined ? launch->sms
                                          : server->facts.sms);
    put_sms(into, &launch->mask, is_running && launch->run.is_confined ? server->facts.sms : 0);
    gs_text_add(into, ",\"blocks\":%llu,\"done\":%llu", (unsigned long long)launch->blocks, (unsigned long long)done);
    if (launch->profile)
        gs_text_add(into, ",\"usual_us\":%.1f,\"compute\":\"%s\",\"memory\":\"%s\"",
                    (double)gs_profile_duration_ns(launch->profile) / 1e3,
                    gs_level_name(gs_profile_compute(launch->profile)),
                    gs_level_name(gs_profile_memory(launch->profile)));
    gs_text_add(into, "}");
}

static void put_client(const gs_server *server, const gs_session *session, gs_text *into) {
    const gs_session_counts *counts = &session->counts;
    bool is_first = true;
    gs_text_add(into, "{\"name\":");
    gs_text_put_json(into, session->options.name);
    gs_text_add(into,
                ",\"process\":%d,\"weight\":%u,\"priority\":%d,\"most_sms\":%u,\"state\":", session->options.process,
                session->options.weight, session->options.priority, session->options.most_sms);
    gs_text_put_json(into, session->end_code  ? gs_client_meaning(session->end_code)
                           : session->actions ? "busy"
                                              : "idle");
    gs_text_add(into, ",\"memory_bytes\":%llu,\"commands\":%llu,\"launches\":%llu,\"blocks\":%llu",
                (unsigned long long)counts->memory_bytes, (unsigned long long)counts->commands,
                (unsigned long long)counts->launches, (unsigned long long)counts->blocks);
    gs_text_add(into, ",\"copied_bytes\":%llu,\"resizes\":%llu,\"errors\":%llu,\"served_sm_ns\":%llu,\"kernels\":[",
                (unsigned long long)counts->copied_bytes, (unsigned long long)counts->resizes,
                (unsigned long long)counts->errors, (unsigned long long)counts->served);
    for (int i = 0; i < GS_CLIENT_STREAMS; i++) {
        const gs_action *action = gs_stream_launch(&session->streams[i]);
        if (!action)
            continue;
        gs_text_add(into, "%s", is_first ? "" : ",");
        put_kernel(server, &session->streams[i], action, into);
        is_first = false;
    }
    gs_text_add(into, "]}");
}

static size_t count_clients(const gs_server *server) {
    size_t count = 0;
    for (size_t i = 0; i < server->sessions.count; i++)
        count += server->sessions.data[i] && server->sessions.data[i]->page;
    return count;
}

void gs_status_json(const gs_server *server, gs_text *into) {
    const gs_worker_facts *facts = gs_worker_facts_of(server->engine);
    const gs_times *first = &server->first_block;
    bool is_first = true;
    gs_text_add(into, "{\"schema\":\"gridsmith.status/1\",\"process\":%d,\"time_ns\":%llu,\"uptime_ns\":%llu",
                (int)getpid(), (unsigned long long)server->now_ns,
                (unsigned long long)(server->now_ns - server->opened_ns));
    gs_text_add(into, ",\"device\":{\"name\":");
    gs_text_put_json(into, facts->name);
    gs_text_add(into,
                ",\"is_gpu\":%s,\"sms\":%d,\"architecture\":%d,\"memory_bytes\":%llu,\"process\":%d,\"restarts\":%u,"
                "\"is_down\":%s}",
                facts->is_gpu ? "true" : "false", facts->sms, facts->architecture,
                (unsigned long long)facts->memory_bytes, facts->process, server->life - 1,
                server->is_down ? "true" : "false");
    gs_text_add(into, ",\"launches\":%llu,\"resizes\":%llu,\"decisions\":%llu,\"compiling\":%u",
                (unsigned long long)server->launches, (unsigned long long)server->resizes,
                (unsigned long long)server->decisions, server->compiling);
    gs_text_add(
        into, ",\"first_block\":{\"count\":%llu,\"mean_us\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"most_us\":%.1f}",
        (unsigned long long)first->count, first->count ? (double)first->sum_ns / (double)first->count / 1e3 : 0.0,
        (double)percentile(first, 50) / 1e3, (double)percentile(first, 99) / 1e3, (double)first->most_ns / 1e3);
    gs_text_add(into, ",\"clients\":[");
    for (size_t i = 0; i < server->sessions.count; i++) {
        const gs_session *session = server->sessions.data[i];
        if (!session || !session->page)
            continue;
        gs_text_add(into, "%s", is_first ? "" : ",");
        put_client(server, session, into);
        is_first = false;
    }
    gs_text_add(into, "]}\n");
}

/* ---- Prometheus ---- */

static void put_metric(gs_text *into, const char *name, const char *type, const char *help, double value) {
    gs_text_add(into, "# HELP gridsmith_%s %s\n# TYPE gridsmith_%s %s\ngridsmith_%s %.17g\n", name, help, name, type,
                name, value);
}

/* The name of a client as Prometheus quotes it. */
static void put_label(gs_text *into, const char *name) {
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            gs_text_add(into, "\\%c", *name);
        else if ((unsigned char)*name >= ' ')
            gs_text_put(into, name, 1);
    }
}

struct client_metric {
    const char *name, *type, *help;
    size_t offset;
    double scale;
};

#define METRIC(metric, kind, words, field, by)                                                                         \
    { .name = metric, .type = kind, .help = words, .offset = offsetof(gs_session_counts, field), .scale = by }
static const struct client_metric client_metrics[] = {
    METRIC("client_launches_total", "counter", "Kernels that have run.", launches, 1),
    METRIC("client_blocks_total", "counter", "Thread blocks that have run.", blocks, 1),
    METRIC("client_copied_bytes_total", "counter", "Bytes copied in and out.", copied_bytes, 1),
    METRIC("client_errors_total", "counter", "Commands that failed.", errors, 1),
    METRIC("client_memory_bytes", "gauge", "Memory that is allocated.", memory_bytes, 1),
    METRIC("client_sm_seconds_total", "counter", "SMs times seconds that its kernels had.", served, 1e-9),
};

static void put_client_metric(const gs_server *server, const struct client_metric *metric, gs_text *into) {
    gs_text_add(into, "# HELP gridsmith_%s %s\n# TYPE gridsmith_%s %s\n", metric->name, metric->help, metric->name,
                metric->type);
    for (size_t i = 0; i < server->sessions.count; i++) {
        const gs_session *session = server->sessions.data[i];
        uint64_t value;
        if (!session || !session->page)
            continue;
        memcpy(&value, (const char *)&session->counts + metric->offset, sizeof value);
        gs_text_add(into, "gridsmith_%s{client=\"", metric->name);
        put_label(into, session->options.name);
        gs_text_add(into, "\",process=\"%d\"} %.17g\n", session->options.process, (double)value * metric->scale);
    }
}

static void put_times(const gs_times *times, gs_text *into) {
    uint64_t seen = 0;
    gs_text_add(into, "# HELP gridsmith_first_block_seconds From the arrival of a launch to its first block.\n"
                      "# TYPE gridsmith_first_block_seconds histogram\n");
    for (int i = 0; i < GS_TIME_BUCKETS; i++) {
        seen += times->buckets[i];
        if (i >= 10 && i <= 34 && i % 2 == 0)
            gs_text_add(into, "gridsmith_first_block_seconds_bucket{le=\"%.9g\"} %llu\n",
                        (double)((uint64_t)1 << i) * 1e-9, (unsigned long long)seen);
    }
    gs_text_add(into,
                "gridsmith_first_block_seconds_bucket{le=\"+Inf\"} %llu\ngridsmith_first_block_seconds_sum %.9g\n"
                "gridsmith_first_block_seconds_count %llu\n",
                (unsigned long long)times->count, (double)times->sum_ns * 1e-9, (unsigned long long)times->count);
}

void gs_status_metrics(const gs_server *server, gs_text *into) {
    put_metric(into, "up", "gauge", "1: there is a device process.", !server->is_down);
    put_metric(into, "sms", "gauge", "SMs of the device.", server->facts.sms);
    put_metric(into, "clients", "gauge", "Clients that are connected.", (double)count_clients(server));
    put_metric(into, "running_streams", "gauge", "Streams with a kernel on the device.", server->running);
    put_metric(into, "launches_total", "counter", "Launches handed to the device.", (double)server->launches);
    put_metric(into, "resizes_total", "counter", "Changes of the SMs of a running kernel.", (double)server->resizes);
    put_metric(into, "restarts_total", "counter", "Device processes started anew.", server->life - 1);
    for (size_t i = 0; i < GS_COUNT(client_metrics); i++)
        put_client_metric(server, &client_metrics[i], into);
    put_times(&server->first_block, into);
}
