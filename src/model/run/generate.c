/*
 * generate.c: random runs, in classes, each repeatable from its seed and index.
 *
 *   plain     kernels without shared memory          local     some kernels use local memory
 *   shared    most kernels use shared memory         cluster   some kernels launch clusters
 *   small     many kernels of few blocks             priority  a full GPU, kernels of several priorities, exits
 *   exits     kernels also end                       timed     kernels end by themselves, and more wait than fit
 *   graph CUDA graphs among the launches programmatic launches that start before their predecessor has ended
 *   cooperative  some launches are cooperative       green     most kernels run in green contexts
 *   streams   up to 200 streams, and up to 32 connections, behind which launches wait for those of other streams
 *   memory    graphs with memsets and copies         confined  graphs with nodes in green contexts
 *   mixed     all kinds of launches in one run, larger graphs of any shape
 *   waiting   clusters and cooperative launches that end by themselves, and more wait than fit
 *
 * The generator draws kernels within the limits of the GPU until the next one cannot fit, by counting each resource
 * over all SMs. It deliberately knows nothing of the scheduler: otherwise it would only test what is known.
 */
#include "run.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_LAUNCHES = 28, MOST_STREAMS = 200, MOST_IN_STREAMS = 240, MOST_CONNECTIONS = 32, MOST_RUNNING = 128 };

struct class {
    const char *name;
    int shared_percent;  /* the share of kernels that use shared memory */
    int largest_percent; /* the most of the GPU that a kernel may take */
    int exit_percent;    /* the share of exits among the events */
    int local_percent, cluster_percent, priority_percent, carveout_percent;
    int graph_percent, programmatic_percent, cooperative_percent, green_percent;
    int memory_percent; /* the share of memsets and copies among the nodes of graphs */
    int normal_percent; /* the share of launches in streams of programmatic launches that are not programmatic */
    bool timed;
    bool goes_on;        /* with launches after the GPU is full */
    bool in_streams;     /* launches in many streams, with few connections */
    bool has_any_graphs; /* graphs are larger, and differ in how many nodes wait for how many */
};

static const struct class classes[] = {
    {.name = "plain", .largest_percent = 10},
    {.name = "shared", .shared_percent = 70, .largest_percent = 8},
    {.name = "small", .shared_percent = 40, .largest_percent = 4},
    {.name = "exits", .shared_percent = 40, .largest_percent = 16, .exit_percent = 35, .goes_on = true},
    {.name = "timed", .shared_percent = 40, .largest_percent = 60, .timed = true, .goes_on = true},
    {.name = "local", .shared_percent = 20, .largest_percent = 14, .local_percent = 40},
    {.name = "cluster", .shared_percent = 40, .largest_percent = 14, .cluster_percent = 50},
    {.name = "priority",
     .shared_percent = 20,
     .largest_percent = 40,
     .exit_percent = 25,
     .priority_percent = 50,
     .goes_on = true},
    {.name = "carveout", .shared_percent = 50, .largest_percent = 8, .carveout_percent = 60},
    {.name = "urgent",
     .shared_percent = 20,
     .largest_percent = 60,
     .priority_percent = 50,
     .timed = true,
     .goes_on = true},
    {.name = "graph",
     .shared_percent = 30,
     .largest_percent = 9,
     .exit_percent = 30,
     .priority_percent = 30,
     .graph_percent = 40},
    {.name = "programmatic",
     .shared_percent = 30,
     .largest_percent = 8,
     .exit_percent = 15,
     .programmatic_percent = 60},
    {.name = "cooperative", .shared_percent = 30, .largest_percent = 14, .exit_percent = 30, .cooperative_percent = 60},
    {.name = "green", .shared_percent = 30, .largest_percent = 16, .exit_percent = 30, .green_percent = 75},
    {.name = "streams", .largest_percent = 1, .in_streams = true},
    {.name = "memory",
     .shared_percent = 30,
     .largest_percent = 9,
     .exit_percent = 30,
     .graph_percent = 40,
     .memory_percent = 35},
    {.name = "confined",
     .shared_percent = 30,
     .largest_percent = 24,
     .exit_percent = 30,
     .graph_percent = 40,
     .green_percent = 75},
    {.name = "mixed",
     .shared_percent = 40,
     .largest_percent = 10,
     .exit_percent = 35,
     .cluster_percent = 15,
     .priority_percent = 15,
     .carveout_percent = 15,
     .graph_percent = 15,
     .programmatic_percent = 40,
     .cooperative_percent = 15,
     .normal_percent = 30,
     .has_any_graphs = true},
    {.name = "waiting",
     .shared_percent = 40,
     .largest_percent = 60,
     .cluster_percent = 40,
     .carveout_percent = 15,
     .cooperative_percent = 25,
     .timed = true,
     .goes_on = true},
};

const char *gs_class_name(size_t number) {
    return number < GS_COUNT(classes) ? classes[number].name : NULL;
}

static const struct class *find_class(const char *name) {
    for (size_t i = 0; i < GS_COUNT(classes); i++)
        if (strcmp(classes[i].name, name) == 0)
            return &classes[i];
    return NULL;
}

bool gs_class_needs_contexts(const char *name) {
    const struct class *class = find_class(name);
    return class && class->green_percent > 0;
}

bool gs_class_has_copies(const char *name) {
    const struct class *class = find_class(name);
    return class && class->memory_percent > 0;
}

int32_t gs_generated_registers(size_t number) {
    return number < 29 ? 24 + 8 * (int32_t)number : number == 29 ? 255 : 0;
}

int64_t gs_generated_local_bytes(size_t number) {
    static const int64_t bytes[] = {256, 1024, 4096};
    return number < GS_COUNT(bytes) ? bytes[number] : -1;
}

/* ---- shapes ---- */

/* The largest share that one block takes of any resource of an SM. Registers belong to partitions, so the partition
   with the most warps counts. */
static double share_of_sm(const gs_bounds *bounds, const gs_shape *shape) {
    int64_t warps = gs_divide_up(shape->threads, bounds->warp_threads);
    int64_t threads = warps * bounds->warp_threads;
    int64_t full_rounds = gs_divide_up(warps, bounds->partitions_per_sm) * bounds->partitions_per_sm;
    int64_t registers = full_rounds * bounds->warp_threads * gs_divide_up(shape->registers, 8) * 8;
    double shares[] = {1.0 / bounds->blocks_per_sm, (double)threads / bounds->threads_per_sm,
                       (double)registers / bounds->registers_per_sm,
                       (double)(shape->shared_bytes + bounds->shared_reserved_bytes) /
                           (double)bounds->shared_per_sm_bytes};
    double most = 0;
    for (size_t i = 0; i < GS_COUNT(shares); i++)
        most = shares[i] > most ? shares[i] : most;
    return most;
}

/* Whole warps half of the time; otherwise the last warp need not be full. */
static int32_t draw_threads(gs_random *random, const gs_bounds *bounds) {
    int32_t most = bounds->threads_per_block, warp = bounds->warp_threads;
    int32_t threads = (int32_t)gs_random_from(random, 1, gs_random_chance(random, 50) ? most / 4 : most);
    return gs_random_chance(random, 50) ? (int32_t)gs_divide_up(threads, warp) * warp : threads;
}

static gs_shape draw_shape(gs_random *random, const gs_bounds *bounds, const struct class *class) {
    gs_shape shape;
    do {
        size_t registers = (size_t)gs_random_from(random, 0, 29);
        if (gs_random_chance(random, 40))
            registers /= 4;
        shape = gs_shape_of(draw_threads(random, bounds), gs_generated_registers(registers), 0);
        if (gs_random_chance(random, class->shared_percent)) {
            int64_t most = bounds->shared_per_block_bytes;
            shape.shared_bytes = gs_random_from(random, 1, gs_random_chance(random, 60) ? most / 8 : most);
        }
        if (gs_random_chance(random, class->local_percent)) {
            shape.local_bytes = gs_generated_local_bytes((size_t)gs_random_from(random, 0, 2));
            shape.registers =
                shape.registers < 64 ? 32 : 64; /* only two values: the probe compiles a kernel for each combination */
        }
        if (gs_random_chance(random, class->carveout_percent))
            shape.carveout_percent = (int32_t)gs_random_from(random, 0, 100);
    } while (share_of_sm(bounds, &shape) > 1.0);
    return shape;
}

/* ---- events ---- */

/* Puts a launch into a green context or the whole GPU. Returns how many SMs it can use. */
static int32_t draw_context(gs_random *random, const gs_bounds *bounds, const struct class *class,
                            gs_launch_facts *facts) {
    const gs_green_contexts *contexts = bounds->contexts;
    if (!class->green_percent || !gs_random_chance(random, class->green_percent))
        return bounds->sms;
    facts->green_context = gs_random_from(random, 0, contexts->count - 1);
    return contexts->ends[facts->green_context] - (facts->green_context ? contexts->ends[facts->green_context - 1] : 0);
}

static void draw_cluster(gs_random *random, const gs_bounds *bounds, gs_launch *launch) {
    while (launch->cluster < bounds->largest_cluster && gs_random_chance(random, 70))
        launch->cluster *= 2;
    launch->blocks = gs_divide_up(launch->blocks, launch->cluster) * launch->cluster;
}

static gs_code add_kernel(gs_random *random, const gs_bounds *bounds, const struct class *class, gs_run *run,
                          gs_launch_facts *facts, double *demand, gs_error *error) {
    gs_launch launch = gs_launch_default();
    char name[24];
    launch.issue.facts = facts;
    if (class->cooperative_percent && gs_random_chance(random, class->cooperative_percent))
        facts->is_cooperative = true;
    launch.shape = draw_shape(random, bounds, class);
    double share = share_of_sm(bounds, &launch.shape) / draw_context(random, bounds, class, facts);
    double wanted = class->largest_percent / 100.0 * (double)gs_random_from(random, 1, 1000) / 1000.0;
    launch.blocks = 1 + (int64_t)(wanted / share);
    bool has_clusters = gs_random_chance(random, class->cluster_percent) && bounds->largest_cluster > 1;
    if (facts->is_cooperative) /* it must fit as a whole, also if its carve-out leaves room for one block of an SM */
        launch.blocks = gs_min(
            launch.blocks,
            bounds->sms * (launch.shape.carveout_percent >= 0 ? 1 : (int64_t)(1 / share_of_sm(bounds, &launch.shape))));
    else if (has_clusters)
        draw_cluster(random, bounds, &launch);
    if (gs_random_chance(random, class->priority_percent))
        launch.priority = (int32_t)-gs_random_from(random, 1, 5);
    if (class->timed) {
        launch.duration_ns = 1000 * gs_random_from(random, 50, 500);
        launch.spread_ns = 1000 * gs_random_from(random, 500, 2000);
    }
    double more = share_of_sm(bounds, &launch.shape) / bounds->sms * (double)launch.blocks;
    *demand += more; /* not in one expression: some compilers would round only once, and draw other runs */
    snprintf(name, sizeof name, "k%zu", run->launches.count);
    launch.kernel = strdup(name);
    return launch.kernel ? gs_run_add_launch(run, &launch, error) : gs_fail_memory(error);
}

static gs_code set_stream(gs_run *run, gs_launch *launch, int number, gs_error *error) {
    char name[24];
    snprintf(name, sizeof name, "%d", number);
    launch->stream = gs_strings_add(&run->strings, name, strlen(name));
    launch->stream_is_number = true;
    return launch->stream ? GS_OK : gs_fail_memory(error);
}

/* The launch before it in its stream; SIZE_MAX: none. */
static size_t before_in_stream(const gs_run *run, size_t number) {
    const gs_launch *launches = run->launches.data;
    for (size_t before = number; launches[number].stream && before-- > 0;)
        if (launches[before].stream && strcmp(launches[before].stream, launches[number].stream) == 0)
            return before;
    return SIZE_MAX;
}

/* A launch in a stream of its own, or in one of a few streams, where it starts when the launch before it triggers
   it, or has ended. */
static gs_code add_single(gs_random *random, const gs_bounds *bounds, const struct class *class, gs_run *run,
                          double *demand, gs_error *error) {
    enum { STREAMS = 4 };
    gs_launch_facts facts = gs_launch_facts_none();
    gs_code code = add_kernel(random, bounds, class, run, &facts, demand, error);
    if (code != GS_OK || !class->programmatic_percent || !gs_random_chance(random, class->programmatic_percent))
        return code;
    size_t number = run->launches.count - 1, before;
    gs_launch *launch = &run->launches.data[number];
    code = set_stream(run, launch, (int)gs_random_from(random, 0, STREAMS - 1), error);
    if (code != GS_OK)
        return code;
    bool is_normal = class->normal_percent && gs_random_chance(random, class->normal_percent);
    before = before_in_stream(run, number);
    return before == SIZE_MAX
               ? GS_OK
               : gs_run_add_edge(run, &launch->issue,
                                 (gs_edge){.number = (uint32_t)before, .when = is_normal ? GS_AT_END : GS_AT_START},
                                 error);
}

/* A graph that is being drawn: its first launch, and its first memset or copy. */
struct drawn {
    size_t first, first_copy, nodes;
    int root_percent, edge_percent;
};

/* The next node of a graph waits for some of those before it: often a third of the nodes for none, so that there are
   branches. */
static gs_code add_node_edges(gs_random *random, gs_run *run, const struct drawn *graph, gs_issue *issue,
                              gs_error *error) {
    size_t launches = run->launches.count, copies = run->copies.count;
    gs_code code = GS_OK;
    if (gs_random_chance(random, graph->root_percent))
        return GS_OK;
    for (size_t i = graph->first; i < launches && code == GS_OK; i++)
        if (&run->launches.data[i].issue != issue && gs_random_chance(random, graph->edge_percent))
            code = gs_run_add_edge(run, issue, (gs_edge){.number = (uint32_t)i}, error);
    for (size_t i = graph->first_copy; i < copies && code == GS_OK; i++)
        if (&run->copies.data[i].issue != issue && gs_random_chance(random, graph->edge_percent))
            code = gs_run_add_edge(run, issue, (gs_edge){.number = (uint32_t)i, .is_copy = true}, error);
    return code;
}

/* A memset, or a copy in one of three directions, of 4 bytes to 1 MB. */
static gs_code add_memory_node(gs_random *random, gs_run *run, const gs_launch_facts *facts, gs_error *error) {
    static const uint8_t kinds[] = {GS_COPY_DEVICE_TO_DEVICE, GS_COPY_HOST_TO_DEVICE, GS_COPY_DEVICE_TO_HOST};
    char id[24];
    gs_copy copy = {.is_memset = gs_random_chance(random, 50), .issue = gs_issue_none()};
    snprintf(id, sizeof id, "m%zu", run->copies.count);
    copy.kind = kinds[gs_random_from(random, 0, 2)];
    copy.kind = copy.is_memset ? GS_COPY_UNKNOWN : copy.kind;
    copy.bytes = (int64_t)4 << gs_random_from(random, 0, 18);
    copy.issue.id = id;
    copy.issue.facts = facts;
    return gs_run_add_copy(run, &copy, error);
}

static gs_code add_node(gs_random *random, const gs_bounds *bounds, const struct class *class, gs_run *run,
                        const struct drawn *graph, double *demand, gs_error *error) {
    gs_launch_facts facts = gs_launch_facts_none();
    facts.graph = (int64_t)graph->first;
    facts.node = (int64_t)graph->nodes;
    if (class->memory_percent && gs_random_chance(random, class->memory_percent)) {
        gs_code code = add_memory_node(random, run, &facts, error);
        gs_issue *issue = code == GS_OK ? &run->copies.data[run->copies.count - 1].issue : NULL;
        return issue ? add_node_edges(random, run, graph, issue, error) : code;
    }
    gs_code code = add_kernel(random, bounds, class, run, &facts, demand, error);
    gs_issue *issue = code == GS_OK ? &run->launches.data[run->launches.count - 1].issue : NULL;
    return issue ? add_node_edges(random, run, graph, issue, error) : code;
}

/* A graph begins with a kernel, because a run identifies it by its first launch. */
static gs_code add_graph(gs_random *random, const gs_bounds *bounds, const struct class *class, gs_run *run,
                         double *demand, gs_error *error) {
    struct drawn graph = {run->launches.count, run->copies.count, 0, 33, 40};
    struct class kernels, nodes_of = *class;
    size_t nodes = (size_t)gs_random_from(random, 1, class->has_any_graphs ? 12 : 6);
    gs_code code = GS_OK;
    if (class->has_any_graphs) {
        graph.root_percent = (int)gs_random_from(random, 5, 70);
        graph.edge_percent = (int)gs_random_from(random, 10, 60);
    }
    nodes_of.cluster_percent = nodes_of.cooperative_percent = 0; /* nodes are plain */
    if (class->has_any_graphs)
        nodes_of.priority_percent = 0;
    kernels = nodes_of;
    kernels.memory_percent = 0;
    for (; graph.nodes < nodes && code == GS_OK; graph.nodes++)
        code = add_node(random, bounds, graph.nodes ? &nodes_of : &kernels, run, &graph, demand, error);
    return code;
}

/* Whether the kernels that a launch or a copy waits for have exited, directly or through copies. */
static bool is_freed(const gs_run *run, const gs_issue *issue) {
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        const gs_edge *edge = &run->edges.data[i];
        if (edge->is_copy ? !is_freed(run, &run->copies.data[edge->number].issue)
                          : edge->when == GS_AT_END && run->launches.data[edge->number].exit == SIZE_MAX)
            return false;
    }
    return true;
}

/* Whether the launches before it in its stream let a kernel begin: all have exited, or it is programmatic and the last
   one has begun. */
static bool is_free_in_stream(const gs_run *run, size_t number) {
    const gs_issue *issue = &run->launches.data[number].issue;
    size_t before = before_in_stream(run, number);
    bool is_programmatic = issue->after_count && run->edges.data[issue->after].when != GS_AT_END;
    while (is_programmatic && before != SIZE_MAX && run->launches.data[before].exit == SIZE_MAX) {
        issue = &run->launches.data[before].issue;
        is_programmatic = issue->after_count && run->edges.data[issue->after].when != GS_AT_END;
        before = before_in_stream(run, before);
    }
    for (; !is_programmatic && before != SIZE_MAX; before = before_in_stream(run, before))
        if (run->launches.data[before].exit == SIZE_MAX)
            return false;
    return true;
}

/* Whether a kernel has not exited, and has begun unless the GPU is full. */
static bool may_exit(const gs_run *run, size_t number) {
    const gs_launch *launch = &run->launches.data[number];
    return launch->exit == SIZE_MAX && is_freed(run, &launch->issue) && is_free_in_stream(run, number);
}

static gs_code add_exit(gs_random *random, gs_run *run, gs_error *error) {
    size_t able = 0, launch = 0;
    for (size_t i = 0; i < run->launches.count; i++)
        able += may_exit(run, i);
    if (!able)
        return GS_OK;
    for (size_t left = (size_t)gs_random_from(random, 0, (int64_t)able - 1);; launch++)
        if (may_exit(run, launch) && left-- == 0)
            break;
    return gs_run_add_exit(run, launch, error);
}

static gs_code draw_events(gs_random *random, const gs_bounds *bounds, const struct class *class, gs_run *run,
                           gs_error *error) {
    double demand = 0;
    size_t most = class->goes_on ? (size_t)gs_random_from(random, 12, 24) : MOST_LAUNCHES;
    gs_code code = GS_OK;
    while (code == GS_OK && run->launches.count < most && (class->goes_on || demand <= 1.0)) {
        if (run->launches.count > 1 && gs_random_chance(random, class->exit_percent))
            code = add_exit(random, run, error);
        else if (class->graph_percent && gs_random_chance(random, class->graph_percent))
            code = add_graph(random, bounds, class, run, &demand, error);
        else
            code = add_single(random, bounds, class, run, &demand, error);
    }
    return code;
}

/* ---- many streams ---- */

/* A run in many streams while it is drawn. */
struct in_streams {
    int32_t streams, exit_percent;
    int16_t of[MOST_IN_STREAMS]; /* by launch: its stream */
};

/* Lists the launches that may exit, and returns how many. These are the first launches of each stream that have not
   exited and have certainly begun: fewer blocked launches are before them than there are connections. */
static size_t list_able(const gs_run *run, const struct in_streams *in, size_t *able) {
    bool is_busy[MOST_STREAMS] = {false};
    int32_t blocked = 0;
    size_t count = 0;
    for (size_t i = 0; i < run->launches.count && blocked < run->connections && count < MOST_RUNNING; i++) {
        if (run->launches.data[i].exit != SIZE_MAX)
            continue;
        if (is_busy[in->of[i]])
            blocked++;
        else
            able[count++] = i;
        is_busy[in->of[i]] = true;
    }
    return count;
}

static gs_code add_exit_in_streams(gs_random *random, gs_run *run, const struct in_streams *in, gs_error *error) {
    size_t able[MOST_IN_STREAMS], count = list_able(run, in, able);
    if (!count)
        return GS_OK;
    size_t launch = able[gs_random_from(random, 0, (int64_t)count - 1)];
    return gs_run_add_exit(run, launch, error);
}

static gs_code add_in_stream(gs_random *random, const gs_bounds *bounds, const struct class *class, gs_run *run,
                             struct in_streams *in, double *demand, gs_error *error) {
    gs_launch_facts facts = gs_launch_facts_none();
    size_t number = run->launches.count;
    gs_code code = add_kernel(random, bounds, class, run, &facts, demand, error);
    in->of[number] = (int16_t)gs_random_from(random, 0, in->streams - 1);
    return code == GS_OK ? set_stream(run, &run->launches.data[number], in->of[number], error) : code;
}

/* Half of the runs have about as many streams as connections. */
static gs_code draw_streams(gs_random *random, const gs_bounds *bounds, const struct class *class, gs_run *run,
                            gs_error *error) {
    struct in_streams in;
    double demand = 0;
    gs_code code = GS_OK;
    run->connections = bounds->connections ? bounds->connections : (int32_t)gs_random_from(random, 1, MOST_CONNECTIONS);
    int64_t few = gs_min(3 * (int64_t)run->connections, MOST_STREAMS);
    in.streams = (int32_t)gs_random_from(random, 1, gs_random_chance(random, 50) ? few : MOST_STREAMS);
    in.exit_percent = (int32_t)gs_random_from(random, 0, 45);
    size_t most = (size_t)gs_min(gs_random_from(random, 8, 12 + 2 * (int64_t)in.streams), MOST_IN_STREAMS);
    while (code == GS_OK && run->launches.count < most && demand <= 1.0)
        code = run->launches.count > 1 && gs_random_chance(random, in.exit_percent)
                   ? add_exit_in_streams(random, run, &in, error)
                   : add_in_stream(random, bounds, class, run, &in, &demand, error);
    return code;
}

gs_run *gs_generate(const gs_bounds *bounds, const char *class_name, uint64_t seed, uint64_t index, gs_error *error) {
    const struct class *class = find_class(class_name);
    if (!class) {
        gs_fail(error, GS_E_USAGE, "unknown class of random runs \"%.60s\"", class_name);
        return NULL;
    }
    if (class->green_percent && !bounds->contexts) {
        gs_fail(error, GS_E_USAGE, "class %s needs a device with green contexts", class->name);
        return NULL;
    }
    gs_random random = gs_random_at(seed ^ (uint64_t)(class - classes) << 56, index);
    gs_run *run = gs_run_new(error);
    if (!run)
        return NULL;
    run->has_id = true;
    run->id = (int64_t)(index & INT64_MAX);
    run->class_name = strdup(class->name);
    bool copied = !class->green_percent || gs_green_copy(&run->green_contexts, bounds->contexts);
    gs_code code = run->class_name && copied ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK)
        code = (class->in_streams ? draw_streams : draw_events)(&random, bounds, class, run, error);
    if (code == GS_OK)
        return run;
    gs_run_free(run);
    return NULL;
}
