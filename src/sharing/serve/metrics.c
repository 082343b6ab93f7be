/*
 * metrics.c: the state of the daemon in the text format of Prometheus; docs/share.md explains each number.
 *
 * Clients of a process may have the same name, and processes in other PID namespaces the same id. So each client and
 * each program also has a number, which no other connected one has: Prometheus rejects a series that comes twice.
 */
#include "server.h"

static void put_metric(gs_text *into, const char *name, const char *type, const char *help, double value) {
    gs_metric_begin(into, name, type, help);
    gs_text_add(into, "gridsmith_%s %.17g\n", name, value);
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

#define METRIC(name, type, help, field, scale)                                                                         \
    { name, type, help, offsetof(gs_session_counts, field), scale }
static const gs_metric client_metrics[] = {
    METRIC("client_launches_total", "counter", "Kernels that ran.", launches, 1),
    METRIC("client_blocks_total", "counter", "Thread blocks that ran.", blocks, 1),
    METRIC("client_copied_bytes_total", "counter", "Bytes copied in and out.", copied_bytes, 1),
    METRIC("client_errors_total", "counter", "Commands that failed.", errors, 1),
    METRIC("client_memory_bytes", "gauge", "Allocated memory.", memory_bytes, 1),
    METRIC("client_sm_seconds_total", "counter", "SM seconds used by its kernels.", served, 1e-9),
};

static void put_client_metric(const gs_server *server, const gs_metric *metric, gs_text *into) {
    gs_metric_begin(into, metric->name, metric->type, metric->help);
    for (size_t i = 0; i < server->sessions.count; i++) {
        const gs_session *session = server->sessions.data[i];
        uint64_t value;
        if (!session || !session->page)
            continue;
        memcpy(&value, (const char *)&session->counts + metric->offset, sizeof value);
        gs_text_add(into, "gridsmith_%s{client=\"", metric->name);
        put_label(into, session->options.name);
        gs_text_add(into, "\",process=\"%d\",number=\"%u\"} %.17g\n", session->options.process, session->slot,
                    (double)value * metric->scale);
    }
}

static void put_times(const gs_times *times, gs_text *into) {
    uint64_t seen = 0;
    gs_metric_begin(into, "first_block_seconds", "histogram", "From the arrival of a launch to its first block.");
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

void gs_metrics_text(const gs_server *server, gs_text *into) {
    put_metric(into, "up", "gauge", "1 if there is a worker.", !server->is_down);
    put_metric(into, "sms", "gauge", "SMs of the device.", server->facts.sms);
    put_metric(into, "clients", "gauge", "Connected clients.", (double)gs_status_clients(server));
    put_metric(into, "running_streams", "gauge", "Streams with a kernel on the device.", server->running);
    put_metric(into, "launches_total", "counter", "Launches handed to the device.", (double)server->launches);
    put_metric(into, "resizes_total", "counter", "Changes of the SMs of a running kernel.", (double)server->resizes);
    put_metric(into, "restarts_total", "counter", "Workers restarted after a loss.", server->life - 1);
    for (size_t i = 0; i < GS_COUNT(client_metrics); i++)
        put_client_metric(server, &client_metrics[i], into);
    put_times(&server->first_block, into);
    gs_tenants_metrics(&server->tenants, into);
}
