/*
 * random.c: see random.h. Shapes are drawn so that each resource is sometimes the scarce one, and numbers near the
 * limits are more frequent than with a uniform distribution.
 */
#include "random.h"

#include <stdlib.h>
#include <string.h>

/* Small, anything, or a power of two. */
static int64_t random_skewed(gs_random *random, int64_t least, int64_t most) {
    switch (gs_random_from(random, 0, 2)) {
    case 0:
        return gs_random_from(random, least, least + (most - least) / 16);
    case 1:
        return gs_random_from(random, least, most);
    default: {
        int64_t value = (int64_t)1 << gs_random_from(random, 0, 17);
        return gs_max(least, gs_min(value, most));
    }
    }
}

static gs_shape draw_shape(gs_random *random, const gs_gpu *gpu) {
    const gs_limits *limits = &gpu->limits;
    gs_shape shape = {.threads = (int32_t)random_skewed(random, 1, limits->threads_per_block),
                      .registers = (int32_t)random_skewed(random, 16, limits->registers_per_thread),
                      .carveout_percent = GS_NO_CARVEOUT};
    if (gs_random_chance(random, 50))
        shape.shared_bytes = random_skewed(random, 0, limits->shared_per_block_bytes);
    if (gs_random_chance(random, 10))
        shape.carveout_percent = (int32_t)gs_random_from(random, 0, 100);
    if (gs_random_chance(random, 10))
        shape.local_bytes = 256 * gs_random_from(random, 1, 3);
    return shape;
}

gs_shape random_shape(gs_random *random, const gs_gpu *gpu) {
    for (;;) {
        gs_shape shape = draw_shape(random, gpu);
        gs_occupancy occupancy;
        gs_occupancy_of(gpu, &shape, &occupancy, NULL);
        if (occupancy.blocks)
            return shape;
    }
}

void random_no_grants(gs_gpu *gpu) {
    free(gpu->grants.groups.sms);
    free(gpu->grants.groups.ends);
    free(gpu->grants.before_cut);
    free(gpu->grants.cluster_first.sms);
    free(gpu->grants.cluster_first.ends);
    gpu->grants = (gs_grants){0};
    gpu->mechanisms.numbering = GS_NUMBERED_AS_PLACED;
}

static gs_sm_groups groups_for(const gs_gpu *gpu) {
    gs_sm_groups groups = {.sms = calloc((size_t)gpu->sms, sizeof *groups.sms),
                           .ends = calloc((size_t)gpu->sms, sizeof *groups.ends)};
    if (!groups.sms || !groups.ends)
        abort();
    return groups;
}

/* The first groups, each whole or in parts of some TPCs. */
static void draw_clusters(gs_random *random, gs_gpu *gpu) {
    gs_grants *grants = &gpu->grants;
    gs_sm_groups *parts = &grants->cluster_first;
    *parts = groups_for(gpu);
    grants->cluster_blocks_per_sm = (int32_t)gs_random_from(random, 1, 8);
    for (int32_t group = 0, at = 0; group < grants->first; group++)
        for (; at < grants->groups.ends[group]; at += 2) {
            parts->sms[at] = grants->groups.sms[at];
            parts->sms[at + 1] = grants->groups.sms[at + 1];
            if (at + 2 == grants->groups.ends[group] || gs_random_chance(random, 50))
                parts->ends[parts->count++] = at + 2;
        }
}

/* Up to four groups of SMs; up to three of them go first. SMs, or TPCs if there are clusters, are assigned to groups by
   their number, so that no group is empty if there are enough. */
static void draw_grants(gs_random *random, gs_gpu *gpu) {
    gs_grants *grants = &gpu->grants;
    bool clusters = gpu->sms_per_tpc == 2 && gpu->sms % 2 == 0 && gs_random_chance(random, 60);
    int32_t step = clusters ? 2 : 1, units = gpu->sms / step, at = 0;
    int32_t groups = (int32_t)gs_random_from(random, 1, gs_min(units, 4));
    grants->first = (int32_t)gs_random_from(random, 0, groups - 1);
    grants->between_rounds = (int32_t)gs_random_from(random, 1, 6);
    grants->groups = groups_for(gpu);
    grants->groups.count = groups;
    grants->before_cut = calloc((size_t)gpu->sms, sizeof *grants->before_cut);
    if (!grants->before_cut)
        abort();
    for (int32_t group = 0; group < groups; group++) {
        for (int32_t unit = group; unit < units; unit += groups)
            for (int32_t i = 0; i < step; i++)
                grants->groups.sms[at++] = (int16_t)(unit * step + i);
        grants->groups.ends[group] = at;
    }
    if (clusters)
        draw_clusters(random, gpu);
    for (int32_t sm = 0; sm < gpu->sms; sm++)
        grants->before_cut[sm] = (int16_t)gs_random_from(random, 1, 12);
}

gs_gpu *random_gpu(gs_random *random, int percent) {
    size_t count = 0;
    while (gs_gpu_builtin(count))
        count++;
    gs_gpu *gpu = gs_gpu_open(gs_gpu_builtin((size_t)gs_random_from(random, 0, (int64_t)count - 1)), NULL);
    if (!gpu)
        abort();
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        int values = 0;
        while (gs_mechanism_table[i].values[values])
            values++;
        int value = gs_random_chance(random, percent) ? (int)gs_random_from(random, 0, values - 1) : 0;
        *gs_mechanism_value(&gpu->mechanisms, &gs_mechanism_table[i]) = value;
    }
    gpu->sms = (int32_t)gs_random_from(random, 1, 8);
    bool by_grant = gpu->mechanisms.numbering == GS_NUMBERED_BY_GRANT;
    random_no_grants(gpu);
    if (by_grant)
        draw_grants(random, gpu);
    gpu->mechanisms.numbering = by_grant ? GS_NUMBERED_BY_GRANT : GS_NUMBERED_AS_PLACED;
    if (gpu->mechanisms.tie_order == GS_TIES_LISTED) {
        free(gpu->listed_order);
        gpu->listed_order = malloc((size_t)gpu->sms * sizeof *gpu->listed_order);
        if (!gpu->listed_order)
            abort();
        for (int32_t i = 0; i < gpu->sms; i++) {
            int64_t at = gs_random_from(random, 0, i);
            gpu->listed_order[i] = gpu->listed_order[at];
            gpu->listed_order[at] = (int16_t)i;
        }
    }
    gpu->join = gpu->sms % 2 ? (gs_join){8 * gpu->sms, 32, gpu->sms % 5} : (gs_join){0};
    return gpu;
}

/* The most blocks that a cluster can have on this GPU; 1: none can be launched. */
static int32_t largest_cluster(const gs_gpu *gpu) {
    const gs_sm_groups *groups = &gpu->grants.groups;
    int32_t largest = 1;
    for (int32_t i = gpu->grants.first; gs_gpu_has_clusters(gpu) && i < groups->count; i++) {
        int32_t sms = groups->ends[i] - (i ? groups->ends[i - 1] : 0);
        largest = (int32_t)gs_max(largest, sms);
    }
    return (int32_t)gs_min(largest, 16);
}

gs_launch numbered_launch(int64_t number) {
    gs_launch launch = gs_launch_default();
    char name[24];
    snprintf(name, sizeof name, "k%lld", (long long)number);
    launch.kernel = strdup(name);
    return launch;
}

void random_cluster(gs_random *random, const gs_gpu *gpu, gs_launch *launch) {
    int32_t largest = largest_cluster(gpu);
    if (largest == 1 || gs_random_chance(random, 50))
        return;
    launch->cluster = (int32_t)gs_random_from(random, 2, largest);
    launch->blocks = (launch->blocks + launch->cluster - 1) / launch->cluster * launch->cluster;
}

/* Makes the last launch, a node of a graph, wait for some nodes before it. */
static void add_parents(gs_random *random, gs_run *run) {
    size_t node = run->launches.count - 1;
    const gs_launch_facts *facts = run->launches.data[node].issue.facts;
    for (size_t i = 0; i < node; i++) {
        const gs_launch_facts *other = run->launches.data[i].issue.facts;
        if (other && other->graph == facts->graph && gs_random_chance(random, 35) &&
            gs_run_add_edge(run, &run->launches.data[node].issue, (gs_edge){.number = (uint32_t)i}, NULL) != GS_OK)
            abort();
    }
}

static void add_launch(gs_random *random, const gs_gpu *gpu, gs_run *run, const gs_launch *alike, bool timed,
                       int graph_percent) {
    gs_launch launch = numbered_launch((int64_t)run->launches.count);
    char name[24];
    launch.shape = alike ? alike->shape : random_shape(random, gpu);
    launch.blocks = random_skewed(random, 1, gpu->sms * (gs_random_chance(random, 20) ? 12 : 2));
    random_cluster(random, gpu, &launch);
    if (gs_random_chance(random, 20))
        launch.priority = (int32_t)gs_random_from(random, -3, 0);
    if (gs_random_chance(random, 25)) {
        snprintf(name, sizeof name, "%d", (int)gs_random_from(random, 0, 2));
        launch.stream = strdup(name);
        launch.stream_is_number = true;
    }
    if (timed && gs_random_chance(random, 85))
        launch.duration_ns = 1000 * gs_random_from(random, 1, 6);
    if (launch.duration_ns && gs_random_chance(random, 50))
        launch.spread_ns = 1000 * gs_random_from(random, 1, 6);
    gs_launch_facts facts = gs_launch_facts_none();
    facts.is_cooperative = gs_random_chance(random, 8);
    if (run->green_contexts.count && gs_random_chance(random, 60))
        facts.green_context = gs_random_from(random, 0, run->green_contexts.count - 1);
    if (graph_percent && gs_random_chance(random, graph_percent) && !launch.stream)
        facts.graph = gs_random_from(random, 0, 1);
    launch.issue.facts = &facts;
    gs_error error;
    if (!launch.kernel || gs_run_add_launch(run, &launch, &error) != GS_OK)
        abort();
    if (facts.graph != GS_NOT_GIVEN)
        add_parents(random, run);
}

static void add_exit(gs_random *random, gs_run *run) {
    size_t launch = (size_t)gs_random_from(random, 0, (int64_t)run->launches.count - 1);
    if (run->launches.data[launch].exit == SIZE_MAX && gs_run_add_exit(run, launch, NULL) != GS_OK)
        abort();
}

void random_green_contexts(gs_random *random, const gs_gpu *gpu, gs_green_contexts *contexts) {
    enum { CONTEXTS = 2 };
    int32_t at = 0;
    contexts->sms = calloc(CONTEXTS * (size_t)gpu->sms, sizeof *contexts->sms);
    contexts->ends = calloc(CONTEXTS, sizeof *contexts->ends);
    if (!contexts->sms || !contexts->ends)
        abort();
    for (contexts->count = 0; contexts->count < CONTEXTS; contexts->ends[contexts->count++] = at)
        for (int16_t sm = 0; sm < gpu->sms; sm++)
            if (gs_random_chance(random, 50) || (sm == gpu->sms - 1 && at == 0))
                contexts->sms[at++] = sm;
}

static gs_run *draw_run(gs_random *random, const gs_gpu *gpu, int graph_percent, int32_t connections) {
    gs_run *run = gs_run_new(NULL);
    if (!run)
        abort();
    if (gs_random_chance(random, 10))
        random_green_contexts(random, gpu, &run->green_contexts);
    bool timed = gs_random_chance(random, 35);
    run->connections = connections;
    int64_t events = gs_random_from(random, 2, 24), exits = gs_random_from(random, 0, 50);
    for (int64_t i = 0; i < events; i++) {
        const gs_launch *last = run->launches.count ? &run->launches.data[run->launches.count - 1] : NULL;
        if (last && gs_random_chance(random, (int)exits))
            add_exit(random, run);
        else
            add_launch(random, gpu, run, gs_random_chance(random, 30) ? last : NULL, timed, graph_percent);
    }
    return run;
}

gs_run *random_run(gs_random *random, const gs_gpu *gpu) {
    return draw_run(random, gpu, 0, 0);
}

gs_run *random_modern_run(gs_random *random, const gs_gpu *gpu) {
    int graph_percent = gs_random_chance(random, 20) ? 70 : 0;
    int32_t connections = gs_random_chance(random, 25) ? (int32_t)gs_random_from(random, 1, 4) : 0;
    return draw_run(random, gpu, graph_percent, connections);
}

/* Whether a node waits for others that have not exited. */
static bool waits_for_nodes(const gs_run *run, const gs_issue *issue) {
    for (size_t at = issue->after; at < (size_t)issue->after + issue->after_count; at++) {
        const gs_edge *edge = &run->edges.data[at];
        if (edge->is_copy ? waits_for_nodes(run, &run->copies.data[edge->number].issue)
                          : run->launches.data[edge->number].exit == SIZE_MAX)
            return true;
    }
    return false;
}

/* A memset or copy of a graph, which waits for some of its nodes; some later nodes wait for it. */
static void add_memory_node(gs_random *random, gs_run *run) {
    char id[24];
    gs_launch_facts facts = gs_launch_facts_none();
    facts.graph = 0;
    gs_copy copy = {.is_memset = gs_random_chance(random, 40), .issue = gs_issue_none()};
    snprintf(id, sizeof id, "m%zu", run->copies.count);
    copy.kind = (uint8_t)(copy.is_memset ? GS_COPY_UNKNOWN : gs_random_from(random, 1, 3));
    copy.bytes = 4 << gs_random_from(random, 0, 18);
    copy.issue.id = id;
    copy.issue.facts = &facts;
    if (gs_run_add_copy(run, &copy, NULL) != GS_OK)
        abort();
    gs_issue *issue = &run->copies.data[run->copies.count - 1].issue;
    for (size_t i = 0; i < run->launches.count; i++)
        if (gs_random_chance(random, 25) &&
            gs_run_add_edge(run, issue, (gs_edge){.number = (uint32_t)i}, NULL) != GS_OK)
            abort();
}

/* The latest node waits for some of the memsets and copies. */
static void add_memory_parents(gs_random *random, gs_run *run) {
    gs_issue *issue = &run->launches.data[run->launches.count - 1].issue;
    for (size_t i = 0; i < run->copies.count; i++)
        if (gs_random_chance(random, 35) &&
            gs_run_add_edge(run, issue, (gs_edge){.number = (uint32_t)i, .is_copy = true}, NULL) != GS_OK)
            abort();
}

/* Exits a node that has not exited, but whose parents all have. */
static void add_node_exit(gs_random *random, gs_run *run) {
    size_t count = run->launches.count, from = (size_t)gs_random_from(random, 0, (int64_t)count - 1);
    for (size_t i = 0; i < count; i++) {
        size_t node = (from + i) % count;
        if (run->launches.data[node].exit != SIZE_MAX || gs_run_is_held(run, node))
            continue;
        if (!waits_for_nodes(run, &run->launches.data[node].issue)) {
            if (gs_run_add_exit(run, node, NULL) != GS_OK)
                abort();
            return;
        }
    }
}

gs_run *random_graph(gs_random *random, const gs_gpu *gpu) {
    gs_run *run = gs_run_new(NULL);
    int64_t nodes = gs_random_from(random, 3, 8);
    int memory_percent = gs_random_chance(random, 30) ? 50 : 0;
    if (!run)
        abort();
    if (gs_random_chance(random, 30))
        random_green_contexts(random, gpu, &run->green_contexts);
    for (int64_t i = 0; i < nodes; i++) {
        gs_launch launch = numbered_launch(i);
        gs_launch_facts facts = gs_launch_facts_none();
        facts.graph = 0;
        if (run->green_contexts.count && gs_random_chance(random, 60))
            facts.green_context = gs_random_from(random, 0, run->green_contexts.count - 1);
        launch.shape = gs_shape_of(32 * (int32_t)gs_random_from(random, 1, 3), 24, 0);
        launch.blocks = gs_random_from(random, 1, gpu->sms + 1);
        if (gs_random_chance(random, 30))
            launch.priority = (int32_t)gs_random_from(random, -3, 0);
        launch.issue.facts = &facts;
        if (!launch.kernel || gs_run_add_launch(run, &launch, NULL) != GS_OK)
            abort();
        if (gs_random_chance(random, 70))
            add_parents(random, run);
        add_memory_parents(random, run);
        if (gs_random_chance(random, memory_percent))
            add_memory_node(random, run);
    }
    for (int64_t i = 0; i < nodes; i++) {
        add_node_exit(random, run);
        if (i == 0 && gs_random_chance(random, 30))
            add_launch(random, gpu, run, NULL, false, 0);
    }
    return run;
}

/* ---- programs ---- */

/* Makes the latest launch or copy depend on an earlier one. */
static void add_edge(gs_random *random, gs_run *run, gs_issue *issue, bool is_copy) {
    size_t launches = run->launches.count - !is_copy, copies = run->copies.count - is_copy;
    if (!launches && !copies)
        return;
    gs_edge edge = {.when = (uint8_t)(gs_random_chance(random, 60) ? GS_AT_END : gs_random_from(random, 1, 2))};
    edge.is_copy = copies && (!launches || gs_random_chance(random, 25));
    size_t count = edge.is_copy ? copies : launches;
    edge.number =
        (uint32_t)(gs_random_chance(random, 50) ? (int64_t)count - 1 : gs_random_from(random, 0, (int64_t)count - 1));
    if (gs_run_add_edge(run, issue, edge, NULL) != GS_OK)
        abort();
}

static void set_time(gs_random *random, gs_issue *issue, int64_t *now_ns, int timed) {
    if (!gs_random_chance(random, timed))
        return;
    *now_ns += gs_random_chance(random, 70) ? gs_random_from(random, 0, 5) * 500 : gs_random_from(random, 0, 30000);
    issue->at_ns = *now_ns;
}

static void add_copy(gs_random *random, gs_run *run, int64_t *now_ns, int timed) {
    static char *const streams[] = {NULL, "0", "1", "2"};
    gs_copy copy = {.is_memset = gs_random_chance(random, 20), .bytes = 1, .issue = gs_issue_none()};
    copy.kind = (uint8_t)gs_random_from(random, GS_COPY_UNKNOWN, GS_COPY_DEVICE_TO_DEVICE);
    copy.stream = streams[gs_random_from(random, 0, 3)];
    if (gs_random_chance(random, 90))
        copy.duration_ns = gs_random_from(random, 1, 8) * 500;
    set_time(random, &copy.issue, now_ns, timed);
    if (gs_run_add_copy(run, &copy, NULL) != GS_OK)
        abort();
    if (gs_random_chance(random, 20))
        add_edge(random, run, &run->copies.data[run->copies.count - 1].issue, true);
}

gs_run *random_program(gs_random *random, const gs_gpu *gpu) {
    gs_run *run = gs_run_new(NULL);
    if (!run)
        abort();
    int64_t events = gs_random_from(random, 2, 24), now_ns = 0;
    int copies = (int)gs_random_from(random, 0, 30), edges = (int)gs_random_from(random, 0, 40);
    int timed = gs_random_chance(random, 80) ? 100 : 50, exits = gs_random_chance(random, 20) ? 10 : 0;
    int spread = gs_random_chance(random, 30) ? 100 : 0;
    for (int64_t i = 0; i < events; i++) {
        if (gs_random_chance(random, copies)) {
            add_copy(random, run, &now_ns, timed);
            continue;
        }
        if (run->launches.count && gs_random_chance(random, exits)) {
            add_exit(random, run);
            continue;
        }
        size_t count = run->launches.count;
        const gs_launch *like = count ? &run->launches.data[gs_random_from(random, 0, (int64_t)count - 1)] : NULL;
        add_launch(random, gpu, run, gs_random_chance(random, 60) ? like : NULL, true, 0);
        gs_launch *launch = &run->launches.data[count];
        if (like && gs_random_chance(random, 60) && run->launches.data[0].blocks % launch->cluster == 0)
            launch->blocks = run->launches.data[0].blocks;
        if (!gs_random_chance(random, spread))
            launch->spread_ns = 0;
        set_time(random, &launch->issue, &now_ns, timed);
        if (gs_random_chance(random, edges))
            add_edge(random, run, &launch->issue, false);
    }
    return run;
}

gs_run *random_copies(gs_random *random) {
    gs_run *run = gs_run_new(NULL);
    int64_t now_ns = 0;
    if (!run)
        abort();
    for (int64_t i = gs_random_from(random, 3, 16); i > 0; i--) {
        add_copy(random, run, &now_ns, 100);
        gs_copy *copy = &run->copies.data[run->copies.count - 1];
        copy->is_memset = copy->is_memset && gs_random_chance(random, 30);
        if (gs_random_chance(random, 80))
            copy->kind = GS_COPY_HOST_TO_DEVICE;
    }
    return run;
}
