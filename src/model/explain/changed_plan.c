/*
 * changed_plan.c: when the host issues the operations of a plan, and the run that a plan is.
 *
 * The host takes as long from one operation to the next as it did in the recording. Where it had waited for the GPU, it
 * goes on when all has ended; that is known only after the run was played, so it is played again with the new times.
 */
#include "change.h"

#include <stdlib.h>

enum { GRAPH_LAUNCH_NS = 10000 }; /* the call that launches a graph takes at least this */

/* ---- the host ---- */

static int64_t issue_time(const gs_plan *plan, size_t number, int64_t before_ns, int64_t ended_ns) {
    const gs_issue_planned *planned = &plan->data[number];
    bool begins_graph = number + 1 < plan->count && plan->data[number + 1].is_with_last;
    if (!number)
        return 0;
    if (planned->is_with_last)
        return before_ns;
    if (plan->is_never_late)
        return before_ns + 1;
    if (planned->waits_for_all && ended_ns != GS_NO_TIME)
        return gs_max(before_ns + 1, ended_ns + planned->slack_ns);
    return before_ns + gs_max(begins_graph ? GRAPH_LAUNCH_NS : 1, planned->gap_ns);
}

void gs_plan_issue(gs_plan *plan, const int64_t *ends_ns, bool *has_moved) {
    int64_t before_ns = 0, ended_ns = GS_NO_TIME;
    *has_moved = false;
    for (size_t i = 0; i < plan->count; i++) {
        int64_t at_ns = issue_time(plan, i, before_ns, ended_ns);
        *has_moved = *has_moved || at_ns != plan->data[i].at_ns;
        plan->data[i].at_ns = before_ns = at_ns;
        if (ends_ns)
            ended_ns = gs_max(ended_ns, ends_ns[i]);
    }
}

/* ---- another GPU ---- */

/* The architecture in the name of a kernel, 90 for "nvjet_sm90_..."; 0: none. */
static int named_architecture(const char *kernel) {
    const char *at = strstr(kernel, "sm");
    for (; at; at = strstr(at + 2, "sm")) {
        const char *digits = at + 2 + (at[2] == '_');
        int number = atoi(digits);
        if (number >= 50 && number < 200)
            return number;
    }
    return 0;
}

/* Code for 9.0 and later runs only on GPUs of the same generation, and clusters are there since 9.0. */
static bool is_made_for_other(const gs_gpu *gpu, const gs_launch *launch) {
    int has = gs_gpu_architecture(gpu), named = named_architecture(launch->kernel);
    if (has && has < 90 && launch->cluster > 1)
        return true;
    return has && named && (named > has || (named >= 90 && named / 10 != has / 10));
}

static bool never_fits(const gs_gpu *gpu, const gs_launch *launch) {
    gs_need need;
    gs_error error;
    return gs_need_of(gpu, &launch->shape, &need, &error) != GS_OK;
}

int64_t gs_plan_foreign(const gs_recorded_program *program, const gs_plan *plan) {
    int64_t foreign = 0;
    for (size_t i = 0; i < plan->count && plan->gpu && plan->data[i].step == 0; i++) {
        if (plan->data[i].operation >= program->run->launches.count)
            continue;
        const gs_launch *launch = &program->run->launches.data[plan->data[i].operation];
        foreign += is_made_for_other(plan->gpu, launch) || never_fits(plan->gpu, launch);
    }
    return foreign;
}

/* A launch that cannot run there is played as one that needs little. */
static void fit_launch(const gs_gpu *gpu, gs_launch *launch) {
    if (launch->cluster > 1 && !gs_gpu_has_clusters(gpu))
        launch->cluster = 1;
    if (!never_fits(gpu, launch))
        return;
    launch->cluster = 1;
    launch->shape.threads = (int32_t)gs_min(launch->shape.threads, gpu->limits.threads_per_block);
    launch->shape.registers = (int32_t)gs_min(launch->shape.registers, GS_WORD_REGISTERS);
    launch->shape.shared_bytes = launch->shape.local_bytes = 0;
    launch->shape.carveout_percent = GS_NO_CARVEOUT;
}

/* ---- the run ---- */

struct making {
    const gs_recorded_program *program;
    const gs_plan *plan;
    gs_run *run;
    size_t *places;  /* by operation of the recording: its number in the plan; SIZE_MAX: it is not in it */
    gs_edge *edges;  /* by number in the plan: an edge to it */
    int32_t green;   /* the new green context; the next one has the other SMs; -1: none */
    int64_t from_ns; /* the time of the recording at which the plan begins */
};

/* A green context of the SMs from `first` to before `last`. */
static gs_code add_green(struct making *making, int32_t first, int32_t last, gs_error *error) {
    gs_green_contexts *contexts = &making->run->green_contexts;
    int32_t sms = last - first, before = contexts->count ? contexts->ends[contexts->count - 1] : 0;
    int16_t *more = realloc(contexts->sms, (size_t)(before + sms) * sizeof *more);
    if (more)
        contexts->sms = more;
    int32_t *ends = realloc(contexts->ends, (size_t)(contexts->count + 1) * sizeof *ends);
    if (ends)
        contexts->ends = ends;
    if (!more || !ends)
        return gs_fail_memory(error);
    for (int32_t i = 0; i < sms; i++)
        contexts->sms[before + i] = (int16_t)(first + i);
    contexts->ends[contexts->count++] = before + sms;
    return GS_OK;
}

/* Those with the lowest numbers, and if others are apart from them the rest. */
static gs_code add_greens(struct making *making, gs_error *error) {
    const gs_plan *plan = making->plan;
    if (!plan->sms)
        return GS_OK;
    int32_t all = (plan->gpu ? plan->gpu : making->program->gpu)->sms;
    making->green = making->run->green_contexts.count;
    gs_code code = add_green(making, 0, plan->sms, error);
    return code == GS_OK && plan->is_parted ? add_green(making, plan->sms, all, error) : code;
}

/* An operation that started early follows the one before it in its stream without a gap. */
static gs_code add_early_edge(struct making *making, size_t number, gs_issue *issue, gs_error *error) {
    const gs_issue_planned *planned = &making->plan->data[number];
    const gs_freed *freed = &making->program->freed[planned->operation];
    size_t place = freed->freed_by == SIZE_MAX ? SIZE_MAX : making->places[freed->freed_by];
    const char *before = place < number ? making->plan->data[place].stream : NULL;
    if (!gs_started_early(gs_run_issue(making->program->run, planned->operation), freed) || freed->is_by_event ||
        !before || !planned->stream || strcmp(before, planned->stream) != 0)
        return GS_OK;
    gs_edge edge = making->edges[place];
    edge.when = GS_AT_TRIGGER;
    return gs_run_add_edge(making->run, issue, edge, error);
}

static gs_code add_edges(struct making *making, size_t number, gs_issue *issue, gs_error *error) {
    const gs_run *from = making->program->run;
    const gs_issue_planned *planned = &making->plan->data[number];
    const gs_issue *recorded = gs_run_issue(from, planned->operation);
    gs_code code = add_early_edge(making, number, issue, error);
    for (size_t i = recorded->after; i < (size_t)recorded->after + recorded->after_count && code == GS_OK; i++) {
        size_t place = making->places[gs_run_operation(from, &from->edges.data[i])];
        if (place == SIZE_MAX || place >= number)
            continue;
        gs_edge edge = making->edges[place];
        edge.when = from->edges.data[i].when;
        code = gs_run_add_edge(making->run, issue, edge, error);
    }
    if (code == GS_OK && planned->joins != SIZE_MAX)
        code = gs_run_add_edge(making->run, issue, making->edges[planned->joins], error);
    return code;
}

/* When it is issued, and when it was measured, since the beginning of the plan: from when it had what it waits for. */
static void set_times(const struct making *making, const gs_issue_planned *planned, gs_issue *issue) {
    issue->at_ns = planned->at_ns;
    if (!gs_measured_ns(issue))
        return;
    issue->start_ns = issue->end_ns - gs_own_ns(issue, &making->program->freed[planned->operation]) - making->from_ns;
    issue->end_ns -= making->from_ns;
}

/* How long the launch takes: alone, and with the clock of the GPU without a recorder. */
static void set_duration(const struct making *making, size_t launch, gs_issue *issue) {
    const gs_recorded_program *program = making->program;
    int64_t alone_ns = program->alone ? program->alone[launch] : 0;
    if (alone_ns)
        issue->end_ns = issue->start_ns + (int64_t)((double)alone_ns * (program->slower > 0 ? program->slower : 1));
}

/* The same work by another number of blocks: a block takes as much longer as there are fewer. */
static void change_blocks(const struct making *making, const gs_issue_planned *planned, gs_launch *launch) {
    int64_t capacity, blocks = planned->blocks, cluster = gs_max(1, launch->cluster);
    if (gs_launch_capacity(making->program->recorded_on, launch, &capacity, NULL) != GS_OK)
        return;
    if (!blocks) /* full waves; one that is not full once stays as it is */
        blocks = launch->blocks < capacity ? launch->blocks : launch->blocks / capacity * capacity;
    blocks = gs_divide_up(blocks, cluster) * cluster;
    double work = (double)launch->blocks / (double)blocks;
    double waves = (double)gs_divide_up(blocks, capacity) / (double)gs_divide_up(launch->blocks, capacity);
    if (!making->plan->keeps_times && gs_measured_ns(&launch->issue))
        launch->issue.end_ns =
            launch->issue.start_ns + gs_max(1, (int64_t)((double)gs_measured_ns(&launch->issue) * work * waves));
    launch->blocks = blocks;
}

static void change_shape(const struct making *making, const gs_issue_planned *planned, gs_launch *launch) {
    if (planned->blocks >= 0)
        change_blocks(making, planned, launch);
    if (planned->registers)
        launch->shape.registers = planned->registers;
    if (planned->carveout_percent >= 0)
        launch->shape.carveout_percent = planned->carveout_percent;
}

static gs_code add_launch(struct making *making, size_t number, gs_error *error) {
    const gs_issue_planned *planned = &making->plan->data[number];
    gs_launch launch = making->program->run->launches.data[planned->operation];
    gs_launch_facts facts = launch.issue.facts ? *launch.issue.facts : gs_launch_facts_none();
    launch.stream = (char *)(uintptr_t)planned->stream;
    launch.stream_is_number = false;
    launch.priority = planned->priority;
    set_times(making, planned, &launch.issue);
    set_duration(making, planned->operation, &launch.issue);
    change_shape(making, planned, &launch);
    if (making->plan->gpu)
        fit_launch(making->plan->gpu, &launch);
    if (making->green >= 0) {
        facts.green_context = making->green + (making->plan->is_parted && !planned->is_apart);
        launch.issue.facts = &facts;
    }
    gs_run *run = making->run;
    making->edges[number] = (gs_edge){.number = (uint32_t)run->launches.count, .when = GS_AT_END};
    gs_code code = gs_run_copy_launch(run, &launch, error);
    return code == GS_OK ? add_edges(making, number, &run->launches.data[run->launches.count - 1].issue, error) : code;
}

static gs_code add_copy(struct making *making, size_t number, gs_error *error) {
    const gs_issue_planned *planned = &making->plan->data[number];
    const gs_run *from = making->program->run;
    gs_copy copy = from->copies.data[planned->operation - from->launches.count];
    copy.stream = (char *)(uintptr_t)planned->stream;
    copy.stream_is_number = false;
    set_times(making, planned, &copy.issue);
    gs_run *run = making->run;
    making->edges[number] = (gs_edge){.number = (uint32_t)run->copies.count, .is_copy = true, .when = GS_AT_END};
    gs_code code = gs_run_add_copy(run, &copy, error);
    return code == GS_OK ? add_edges(making, number, &run->copies.data[run->copies.count - 1].issue, error) : code;
}

/* The first in the plan that was issued at a time of the recording or later. */
static size_t planned_from(const struct making *making, int64_t ns) {
    size_t low = 0, high = making->plan->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (gs_run_issue(making->program->run, making->plan->data[middle].operation)->at_ns < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The named ranges, from the first that is issued in each to what comes after it. In another order they are no ranges.
 */
static gs_code add_ranges(struct making *making, gs_error *error) {
    const gs_named_ranges *ranges = &making->program->run->ranges;
    const gs_plan *plan = making->plan;
    gs_code code = GS_OK;
    for (size_t i = 0; i < ranges->count && !plan->is_reordered && code == GS_OK; i++) {
        size_t first = planned_from(making, ranges->data[i].from_ns),
               last = planned_from(making, ranges->data[i].to_ns);
        if (first < last)
            code = gs_run_add_range(making->run, ranges->data[i].name, plan->data[first].at_ns,
                                    plan->data[last < plan->count ? last : last - 1].at_ns, error);
    }
    return code;
}

/* What is taken from the recording as a whole cannot be found in a part with changes. A kernel that was recorded in a
   stream is shorter as a node of a graph, which is taken from the gap: less than 0.1 us are left in the median of 17
   programs (docs/explain.md). */
static void keep_pace(gs_run *run, const gs_pace *pace, bool makes_graphs) {
    enum { MADE_GRAPH_NS = 100 };
    const gs_gaps *gaps = &pace->gaps;
    int64_t graph_ns = makes_graphs ? gs_min(MADE_GRAPH_NS, gaps->graph_ns) : gaps->graph_ns;
    const int64_t all[] = {pace->latency_ns, gaps->stream_ns,     graph_ns,
                           gaps->copy_ns,    gaps->after_copy_ns, gaps->tail_ns};
    run->has_pace = true;
    memcpy(run->pace_ns, all, sizeof all);
}

static gs_code make_run(struct making *making, gs_error *error) {
    const gs_run *from = making->program->run;
    size_t operations = from->launches.count + from->copies.count;
    making->places = malloc((operations + 1) * sizeof *making->places);
    making->edges = calloc(making->plan->count + 1, sizeof *making->edges);
    making->run->gpu = from->gpu ? strdup(from->gpu) : NULL;
    if (!making->places || !making->edges || (from->gpu && !making->run->gpu) ||
        !gs_green_copy(&making->run->green_contexts, &from->green_contexts))
        return gs_fail_memory(error);
    making->run->connections = from->connections;
    keep_pace(making->run, making->program->pace, making->plan->makes_graphs);
    if (making->plan->count) {
        const gs_issue *first = gs_run_issue(from, making->plan->data[0].operation);
        making->from_ns = first->at_ns != GS_NO_TIME ? first->at_ns : making->program->part->from_ns;
    }
    gs_code code = add_greens(making, error);
    for (size_t i = 0; i < operations; i++)
        making->places[i] = SIZE_MAX;
    for (size_t i = 0; i < making->plan->count && code == GS_OK; i++) {
        size_t operation = making->plan->data[i].operation;
        making->places[operation] = i;
        code = operation < from->launches.count ? add_launch(making, i, error) : add_copy(making, i, error);
    }
    return code == GS_OK ? add_ranges(making, error) : code;
}

gs_run *gs_plan_run(const gs_recorded_program *program, const gs_plan *plan, size_t *numbers, gs_error *error) {
    struct making making = {.program = program, .plan = plan, .run = gs_run_new(error), .green = -1};
    gs_code code = making.run ? make_run(&making, error) : GS_E_MEMORY;
    for (size_t i = 0; i < plan->count && code == GS_OK && numbers; i++)
        numbers[i] = gs_run_operation(making.run, &making.edges[i]);
    free(making.places);
    free(making.edges);
    if (code == GS_OK)
        return making.run;
    gs_run_free(making.run);
    return NULL;
}
