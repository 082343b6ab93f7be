/*
 * tenants.c: the programs of `gridsmith run`, which use CUDA directly (src/sharing/client/tenant.h).
 *
 * The daemon only connects them: it makes the board, the notice and a page for each program, and clears the flag of a
 * latency program that has ended. It never waits for what a program writes there, and makes no decision from it.
 */
#define _GNU_SOURCE
#include "server.h"

#include "kernels/ptx/ptx.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#    define F_SEAL_FUTURE_WRITE 0x10
#endif

/* Shared memory of a fixed size, all zero. -1: see `error`. */
static int new_memory(const char *name, size_t bytes, void **memory, gs_error *error) {
    int fd = gs_page_new(name, bytes);
    *memory = fd >= 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (*memory != MAP_FAILED)
        return fd;
    gs_fail_system(error, "make", "memory for a program");
    gs_close_fd(&fd);
    return -1;
}

/* Memory that only this process can write to: it is sealed once it is mapped here. Linux before 5.1 cannot do that;
   there programs are trusted. */
static int new_notice(void **memory, gs_error *error) {
    int fd = memfd_create("gridsmith-notice", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool has_size = fd >= 0 && ftruncate(fd, sizeof(gs_notice)) == 0 && fallocate(fd, 0, 0, sizeof(gs_notice)) == 0;
    *memory = has_size ? mmap(NULL, sizeof(gs_notice), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (*memory == MAP_FAILED) {
        gs_fail_system(error, "make", "memory for a program");
        gs_close_fd(&fd);
        return -1;
    }
    fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return fd;
}

/* ---- GPUs ---- */

static gs_code open_board(gs_tenant_group *group, gs_error *error) {
    void *board, *notice;
    group->board_fd = new_memory("gridsmith-board", sizeof(gs_board), &board, error);
    if (group->board_fd < 0)
        return error->code;
    group->notice_fd = new_notice(&notice, error);
    if (group->notice_fd < 0) {
        munmap(board, sizeof(gs_board));
        gs_close_fd(&group->board_fd);
        return error->code;
    }
    group->board = board;
    group->notice = notice;
    return GS_OK;
}

/* The group of a GPU, which is made if there is none. NULL: see `error`. */
static gs_tenant_group *find_group(gs_tenants *tenants, const unsigned char *gpu, gs_error *error) {
    enum { MOST = 64 };
    int count = 0;
    for (gs_tenant_group *at = tenants->groups; at; at = at->next, count++)
        if (memcmp(at->gpu, gpu, sizeof at->gpu) == 0)
            return at;
    if (count == MOST) {
        gs_fail(error, GS_E_FULL, "a daemon serves programs of at most %d GPUs", MOST);
        return NULL;
    }
    gs_tenant_group *made = calloc(1, sizeof *made);
    if (!made) {
        gs_fail_memory(error);
        return NULL;
    }
    memcpy(made->gpu, gpu, sizeof made->gpu);
    if (open_board(made, error) != GS_OK) {
        free(made);
        return NULL;
    }
    made->next = tenants->groups;
    return tenants->groups = made;
}

/* The board is freed with the last program, so nothing written there stays. */
static void close_group_if_unused(gs_tenants *tenants, gs_tenant_group *group) {
    gs_tenant_group **at = &tenants->groups;
    if (group->programs)
        return;
    while (*at != group)
        at = &(*at)->next;
    *at = group->next;
    munmap(group->board, sizeof *group->board);
    munmap(group->notice, sizeof *group->notice);
    close(group->board_fd);
    close(group->notice_fd);
    free(group);
}

/* ---- programs ---- */

/* The slots of the tenant's class that are in use. */
static uint32_t *slots_of(const gs_tenant *tenant) {
    return tenant->options.is_latency ? &tenant->group->slots : &tenant->group->shares;
}

/* A process needs one connection, and another one while it executes another program. In another namespace of processes
   it has no number. */
static gs_code check_process(const gs_tenants *tenants, const gs_tenant *tenant, gs_error *error) {
    enum { MOST = 2 };
    int connected = 0;
    for (const gs_tenant *at = tenants->first; at; at = at->next)
        connected += at->options.process == tenant->options.process;
    return connected < MOST || !tenant->options.process
               ? GS_OK
               : gs_fail(error, GS_E_FULL, "process %d is connected already, and a process needs one connection",
                         tenant->options.process);
}

/* A slot of the board. If none is left, a best-effort program runs without one, and its weight does not count. */
static gs_code give_slot(const gs_tenants *tenants, gs_tenant *tenant, gs_error *error) {
    uint32_t *used = slots_of(tenant), slot = 0;
    if (check_process(tenants, tenant, error) != GS_OK)
        return error->code;
    while (slot < GS_BOARD_SLOTS && *used >> slot & 1)
        slot++;
    tenant->slot = slot;
    if (slot < GS_BOARD_SLOTS)
        *used |= (uint32_t)1 << slot;
    return slot < GS_BOARD_SLOTS || !tenant->options.is_latency
               ? GS_OK
               : gs_fail(error, GS_E_FULL, "a GPU has at most %d latency programs, and %d are connected",
                         GS_BOARD_SLOTS, GS_BOARD_SLOTS);
}

/* Says which programs of a GPU are connected. A program knows its slot only after that. */
static void publish_notice(const gs_tenants *tenants, const gs_tenant_group *group) {
    gs_notice *notice = group->notice;
    uint32_t latency = 0, best_effort = 0, sliced = 0, weights = 0;
    for (const gs_tenant *at = tenants->first; at; at = at->next) {
        if (at->group != group)
            continue;
        latency += at->options.is_latency;
        if (at->options.is_latency) {
            atomic_store(&notice->hold_ns[at->slot], at->options.hold_ns);
            continue;
        }
        best_effort++;
        sliced += !at->options.has_mps;
        weights += at->options.weight;
    }
    atomic_store(&notice->slots, group->slots);
    atomic_store(&notice->shares, group->shares);
    atomic_store(&notice->latency, latency);
    atomic_store(&notice->best_effort, best_effort);
    atomic_store(&notice->sliced, sliced);
    atomic_store(&notice->weights, weights);
}

static void free_slot(const gs_tenant *tenant) {
    if (tenant->slot < GS_BOARD_SLOTS)
        *slots_of(tenant) &= ~((uint32_t)1 << tenant->slot);
}

/* Its slot and its page. Returns the page's descriptor; -1: see `error`. */
static int equip(const gs_tenants *tenants, gs_tenant *tenant, gs_error *error) {
    void *memory = NULL;
    int fd = give_slot(tenants, tenant, error) == GS_OK
                 ? new_memory("gridsmith-program", sizeof(gs_tenant_page), &memory, error)
                 : -1;
    tenant->page = memory;
    if (fd < 0)
        free_slot(tenant);
    return fd;
}

gs_tenant *gs_tenant_open(gs_tenants *tenants, const gs_tenant_options *options, int *page_fd, gs_error *error) {
    gs_tenant_group *group = find_group(tenants, options->gpu, error);
    gs_tenant *tenant = group ? calloc(1, sizeof *tenant) : NULL;
    *page_fd = -1;
    if (group && !tenant)
        gs_fail_memory(error);
    if (tenant) {
        *tenant = (gs_tenant){.tenants = tenants,
                              .group = group,
                              .options = *options,
                              .slot = GS_BOARD_SLOTS,
                              .lost_us = -1,
                              .opened_ns = (uint64_t)gs_now_ns()};
        *page_fd = equip(tenants, tenant, error);
    }
    if (*page_fd < 0) {
        if (group)
            close_group_if_unused(tenants, group);
        free(tenant);
        return NULL;
    }
    group->programs++;
    tenant->number = ++tenants->opened;
    tenant->page->slot = tenant->slot;
    tenant->next = tenants->first;
    tenants->first = tenant;
    gs_choice_begin(tenant);
    publish_notice(tenants, group);
    return tenant;
}

static void clear_share(gs_board_share *share) {
    atomic_store(&share->busy_until_ns, 0);
    atomic_store(&share->waits_until_ns, 0);
    atomic_store(&share->expires_ns, 0);
    atomic_store(&share->works_until_ns, 0);
    atomic_store(&share->lost_ns, 0);
    for (int lane = 0; lane < GS_SHARE_LANES; lane++) { /* the next program begins with 0 */
        atomic_store(&share->sent[lane], 0);
        atomic_store(&share->done[lane], 0);
    }
}

/* No program waits for one that has ended, or for what it wrote into slots that belong to no program. */
static void clear_free_slots(const gs_tenant_group *group) {
    gs_board *board = group->board;
    gs_board_lower(board, ~group->slots);
    for (uint32_t slot = 0; slot < GS_BOARD_SLOTS; slot++) {
        if (!(group->slots >> slot & 1))
            atomic_store(&board->slots[slot].since_ns, 0);
        if (!(group->shares >> slot & 1))
            clear_share(&board->shares[slot]);
    }
}

/* A number that a program wrote, limited to what JSON readers accept. */
static uint64_t read_count(const _Atomic uint64_t *count) {
    return gs_min_u64(atomic_load_explicit(count, memory_order_relaxed), INT64_MAX);
}

void gs_tenant_close(gs_tenant *tenant) {
    gs_tenants *tenants = tenant->tenants;
    gs_tenant **at = &tenants->first;
    while (*at != tenant)
        at = &(*at)->next;
    gs_choice_end(tenant);
    *at = tenant->next;
    free_slot(tenant);
    tenant->group->programs--;
    publish_notice(tenants, tenant->group);
    clear_free_slots(tenant->group);
    close_group_if_unused(tenants, tenant->group);
    munmap(tenant->page, sizeof *tenant->page);
    free(tenant);
}

void gs_tenants_close(gs_tenants *tenants) {
    while (tenants->first)
        gs_tenant_close(tenants->first);
}

/* ---- the status ---- */

/* Approximate percentiles of the times of recent requests; 0: no requests. The program may write concurrently. */
static void read_percentiles(const gs_tenant_page *page, const double *percents, double *ns, size_t count) {
    uint32_t times[GS_TENANT_TIMES];
    uint64_t all = 0, seen = 0;
    size_t at = 0;
    for (unsigned i = 0; i < GS_TENANT_TIMES; i++) {
        times[i] = 0;
        for (unsigned window = 0; window < GS_TENANT_WINDOWS; window++)
            times[i] += atomic_load_explicit(&page->recent_times[window][i], memory_order_relaxed);
        all += times[i];
    }
    for (unsigned i = 0; i < GS_TENANT_TIMES; i++) {
        seen += times[i];
        while (at < count && seen && (double)seen >= (double)all * percents[at] / 100)
            ns[at++] = (double)gs_tenant_bucket_ns(i);
    }
}

/* Requests that took longer than a deadline, as far as the buckets tell. */
static uint64_t count_late(const gs_tenant_page *page, uint64_t deadline_us) {
    uint64_t late = 0;
    for (unsigned i = gs_tenant_bucket(deadline_us * 1000) + 1; i < GS_TENANT_TIMES; i++)
        late += atomic_load_explicit(&page->request_times[i], memory_order_relaxed);
    return late;
}

static void write_requests(const gs_tenant *tenant, gs_writer *writer) {
    const gs_tenant_page *page = tenant->page;
    static const double percents[3] = {50, 99, 99.9};
    double ns[3] = {0};
    uint64_t requests = read_count(&page->requests);
    uint32_t deadline_us = tenant->options.deadline_us;
    double lost_us = gs_stretch_lost_us(page, tenant->beside_before, 0);
    read_percentiles(page, percents, ns, GS_COUNT(percents));
    gs_write_object(writer, "requests");
    gs_write_uint(writer, "count", requests);
    gs_write_uint(writer, "announced", read_count(&page->announced));
    gs_write_uint(writer, "held", read_count(&page->held));
    gs_write_uint(writer, "keepers", read_count(&page->keepers));
    if (lost_us >= 0)
        gs_write_real(writer, "lost_us", lost_us, 1);
    gs_write_real(writer, "eager_percent", (double)read_count(&page->eager_permille) / 10, 1);
    gs_write_real(writer, "mean_us", requests ? (double)read_count(&page->request_ns) / (double)requests / 1e3 : 0, 1);
    gs_write_real(writer, "p50_us", ns[0] / 1e3, 1);
    gs_write_real(writer, "p99_us", ns[1] / 1e3, 1);
    gs_write_real(writer, "p999_us", ns[2] / 1e3, 1);
    if (deadline_us) {
        gs_write_uint(writer, "deadline_us", deadline_us);
        gs_write_uint(writer, "late", count_late(page, deadline_us));
    }
    gs_write_end(writer);
}

/* Kernels too long for the work between two waits. The program may write concurrently, so names are copied before they
   are read. */
static void write_kernels(const gs_tenant_page *page, gs_writer *writer) {
    gs_write_array(writer, "long_kernels");
    for (size_t i = 0; i < GS_TENANT_KERNELS; i++) {
        char name[GS_TENANT_NAME], reason[GS_TENANT_REASON];
        uint64_t ns = gs_min_u64(atomic_load(&page->kernels[i].ns), INT64_MAX);
        memcpy(name, page->kernels[i].name, sizeof name);
        name[sizeof name - 1] = '\0';
        memcpy(reason, page->kernels[i].reason, sizeof reason);
        reason[sizeof reason - 1] = '\0';
        if (!ns)
            continue;
        gs_make_printable(name);
        gs_make_printable(reason);
        char *plain = gs_demangle(name, GS_NAME_ALONE);
        gs_write_object(writer, NULL);
        gs_write_string(writer, "name", plain ? plain : name);
        gs_write_real(writer, "us", (double)ns / 1e3, 1);
        if (reason[0])
            gs_write_string(writer, "why", reason);
        gs_write_end(writer);
        free(plain);
    }
    gs_write_end(writer);
}

static bool has_work(const gs_tenant *tenant) {
    return tenant->options.is_latency && read_count(&tenant->group->board->slots[tenant->slot].since_ns);
}

/* How it shares the GPU, and why. The program may write concurrently, so its words are copied before they are read. */
static void write_sharing(const gs_tenant *tenant, gs_writer *writer) {
    char why[GS_TENANT_REASON];
    memcpy(why, tenant->page->why, sizeof why);
    why[sizeof why - 1] = '\0';
    gs_make_printable(why);
    gs_write_string(writer, "sharing", tenant->options.has_mps ? "MPS" : "time slices");
    if (why[0])
        gs_write_string(writer, "sharing_why", why);
}

/* Names what is executed. */
static void write_command(uint64_t command, gs_writer *writer) {
    char name[24];
    snprintf(name, sizeof name, "%016llx", (unsigned long long)command);
    if (command)
        gs_write_string(writer, "command", name);
}

static void write_tenant(const gs_tenant *tenant, gs_writer *writer) {
    const gs_tenant_page *page = tenant->page;
    gs_write_object(writer, NULL);
    gs_write_string(writer, "name", tenant->options.name);
    gs_write_int(writer, "process", tenant->options.process);
    gs_write_uint(writer, "opened_ns", tenant->opened_ns);
    char gpu[2 * GS_WIRE_GPU + 1];
    for (size_t i = 0; i < GS_WIRE_GPU; i++)
        snprintf(gpu + 2 * i, 3, "%02x", tenant->options.gpu[i]);
    gs_write_string(writer, "gpu", gpu);
    gs_write_string(writer, "class", tenant->options.is_latency ? "latency" : "best-effort");
    write_sharing(tenant, writer);
    write_command(tenant->options.command, writer);
    gs_write_uint(writer, "weight", tenant->options.weight);
    gs_write_uint(writer, "most_percent", tenant->options.most_percent);
    gs_write_bool(writer, "has_work", has_work(tenant));
    gs_write_bool(writer, "is_ungated", read_count(&page->is_ungated));
    gs_write_uint(writer, "launches", read_count(&page->launches));
    gs_write_uint(writer, "graphs", read_count(&page->graphs));
    gs_write_uint(writer, "copies", read_count(&page->copies));
    gs_write_uint(writer, "waits", read_count(&page->waits));
    gs_write_uint(writer, "work_ns", read_count(&page->work_ns));
    gs_write_uint(writer, "late_ns", read_count(&page->late_ns));
    gs_write_real(writer, "longest_us", (double)read_count(&page->longest_ns) / 1e3, 1);
    gs_write_real(writer, "stop_us", (double)read_count(&page->stop_ns) / 1e3, 1);
    gs_write_uint(writer, "share_waits", read_count(&page->share_waits));
    gs_write_uint(writer, "memory_waits", read_count(&page->memory_waits));
    gs_write_uint(writer, "guarded", read_count(&page->guarded));
    gs_write_uint(writer, "guarded_kernels", read_count(&page->guarded_kernels));
    gs_write_uint(writer, "unguarded_kernels", read_count(&page->unguarded_kernels));
    gs_write_uint(writer, "slice_us", read_count(&page->slice_us));
    write_kernels(page, writer);
    gs_write_uint(writer, "memory_bytes", read_count(&page->memory_bytes));
    gs_write_uint(writer, "memory_limit_bytes", read_count(&page->memory_limit));
    if (tenant->options.is_latency)
        write_requests(tenant, writer);
    gs_write_end(writer);
}

/* A time that was measured; else there is none. */
static void write_lost(gs_writer *writer, const char *key, double us) {
    if (us >= 0)
        gs_write_real(writer, key, us, 1);
}

/* What a command does the next time, and why. */
static void write_choice(const gs_command_profile *command, gs_writer *writer) {
    char why[GS_TENANT_REASON];
    gs_choice_why(command, why, sizeof why);
    write_lost(writer, "mps_us", command->lost_us[true]);
    write_lost(writer, "slices_us", command->lost_us[false]);
    gs_write_string(writer, "next", gs_choice_has_mps(command) ? "MPS" : "time slices");
    gs_write_string(writer, "why", why);
}

/* What is known of commands that were run before. */
static void write_commands(const gs_profile_store *profiles, gs_writer *writer) {
    const gs_command_profile *command;
    gs_write_array(writer, "commands");
    for (size_t at = 0; profiles && (command = gs_profile_store_next_command(profiles, &at));) {
        gs_write_object(writer, NULL);
        write_command(command->key, writer);
        write_choice(command, writer);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

void gs_tenants_json(const gs_tenants *tenants, gs_writer *writer) {
    gs_write_array(writer, "programs");
    for (const gs_tenant *at = tenants->first; at; at = at->next)
        write_tenant(at, writer);
    gs_write_end(writer);
    write_commands(tenants->profiles, writer);
}

/* ---- metrics ---- */

#define METRIC(name, type, help, field, scale)                                                                         \
    { name, type, help, offsetof(gs_tenant_page, field), scale }
static const gs_metric program_metrics[] = {
    METRIC("program_launches_total", "counter", "Kernels that a program launched.", launches, 1),
    METRIC("program_graphs_total", "counter", "Graphs that a program launched.", graphs, 1),
    METRIC("program_waits_total", "counter", "Waits for latency programs, put into streams.", waits, 1),
    METRIC("program_work_seconds_total", "counter", "Duration of the launches of a best-effort program.", work_ns,
           1e-9),
    METRIC("program_requests_total", "counter", "Requests of a latency program.", requests, 1),
    METRIC("program_request_seconds_total", "counter", "Time of all its requests.", request_ns, 1e-9),
    METRIC("program_announced_total", "counter", "Requests that were announced.", announced, 1),
    METRIC("program_share_waits_total", "counter", "Launches that waited for shares or a cap.", share_waits, 1),
    METRIC("program_guarded_launches_total", "counter", "Launches of long kernels that a request can stop.", guarded,
           1),
    METRIC("program_longest_kernel_seconds", "gauge", "The longest kernel of a best-effort program.", longest_ns, 1e-9),
    METRIC("program_memory_bytes", "gauge", "Device memory of a program that has a limit.", memory_bytes, 1),
};

static void put_metric(const gs_tenants *tenants, const gs_metric *metric, gs_text *into) {
    gs_metric_begin(into, metric->name, metric->type, metric->help);
    for (const gs_tenant *at = tenants->first; at; at = at->next) {
        const char *count = (const char *)at->page + metric->offset;
        gs_text_add(into, "gridsmith_%s{class=\"%s\",process=\"%d\",number=\"%u\"} %.17g\n", metric->name,
                    at->options.is_latency ? "latency" : "best-effort", at->options.process, at->number,
                    (double)read_count((const _Atomic uint64_t *)(const void *)count) * metric->scale);
    }
}

/* Of latency programs: a summary. */
static void put_request_times(const gs_tenants *tenants, gs_text *into) {
    static const double percents[] = {50, 99, 99.9};
    static const char name[] = "gridsmith_program_request_seconds";
    gs_text_add(into, "# HELP %s Times of requests: quantiles of recent ones.\n# TYPE %s summary\n", name, name);
    for (const gs_tenant *at = tenants->first; at; at = at->next) {
        double ns[GS_COUNT(percents)] = {0};
        char labels[80];
        if (!at->options.is_latency)
            continue;
        snprintf(labels, sizeof labels, "class=\"latency\",process=\"%d\",number=\"%u\"", at->options.process,
                 at->number);
        read_percentiles(at->page, percents, ns, GS_COUNT(percents));
        for (size_t i = 0; i < GS_COUNT(percents); i++)
            gs_text_add(into, "%s{%s,quantile=\"%g\"} %.9g\n", name, labels, percents[i] / 100, ns[i] * 1e-9);
        gs_text_add(into, "%s_sum{%s} %.17g\n", name, labels, (double)read_count(&at->page->request_ns) * 1e-9);
        gs_text_add(into, "%s_count{%s} %llu\n", name, labels, (unsigned long long)read_count(&at->page->requests));
    }
}

void gs_tenants_metrics(const gs_tenants *tenants, gs_text *into) {
    if (!tenants->first)
        return;
    for (size_t i = 0; i < GS_COUNT(program_metrics); i++)
        put_metric(tenants, &program_metrics[i], into);
    put_request_times(tenants, into);
}
