/*
 * beside.c: when a request is done at the latest, beside best-effort work under `gridsmith run`, from a recording of
 * each program alone.
 *
 * A request waits for what the best-effort streams have begun (docs/run.md): in each of them at most `ahead_ns` of work
 * lie between two waits, or one operation that alone is longer. A kernel that is longer and can be stopped ends with
 * the blocks that run, and with the others coming and going. How long a block runs is taken from the recording if it
 * has the blocks, and otherwise from the kernel, as if all its blocks took equally long. After that the request takes
 * as long as the longest one that was recorded, and a launch. A request is a range that the program names; without a
 * name, it is a step of what repeats.
 */
#include "explain.h"

#include <fnmatch.h>
#include <string.h>

/* Of a wave of blocks that come and go, as `gridsmith run` expects it (src/sharing/gate/gate_chain.c). It does not stop
   kernels for which that, and one block, is more than half of their time. */
enum { WAVE_EXIT_NS = 2500 };

struct beside {
    const gs_gpu *gpu;
    const gs_run *work;
    const gs_beside_options *options;
    gs_request_bound *found;
};

/* ---- the work ---- */

static bool can_be_stopped(const struct beside *beside, const gs_launch *launch, int64_t waves) {
    const gs_launch_facts *facts = launch->issue.facts;
    for (const char *const *pattern = beside->options->unstopped; pattern && *pattern; pattern++)
        if (fnmatch(*pattern, launch->kernel, 0) == 0)
            return false;
    return waves >= 2 && !(facts && facts->is_cooperative > 0) && launch->cluster <= 1;
}

/* The longest block that was recorded; 0: there are none. */
static int64_t longest_block(const gs_run *run, const gs_launch *launch) {
    const gs_seen *seen = run->events.data[launch->observed].seen;
    int64_t longest = 0;
    for (size_t i = 0; seen->has_start && seen->has_end && i < seen->start_ns.count && i < seen->end_ns.count; i++)
        if (seen->start_ns.data[i] != GS_NO_TIME && seen->end_ns.data[i] != GS_NO_TIME)
            longest = gs_max(longest, seen->end_ns.data[i] - seen->start_ns.data[i]);
    return longest;
}

/* What a request can lose to one launch. */
static gs_code launch_piece(const struct beside *beside, const gs_launch *launch, gs_request_piece *piece,
                            gs_error *error) {
    gs_need need;
    *piece = (gs_request_piece){.kernel = launch->kernel, .ns = gs_measured_ns(&launch->issue)};
    piece->lost_ns = piece->ns;
    if (!beside->options->has_guards || piece->ns <= beside->options->ahead_ns)
        return GS_OK;
    gs_code code = gs_need_of(beside->gpu, &launch->shape, &need, error);
    if (code != GS_OK)
        return code;
    const gs_machine *machine = beside->options->machine;
    int64_t sms = beside->gpu->sms, waves = gs_divide_up(launch->blocks, sms * need.blocks_per_sm);
    int64_t exits = gs_divide_up(launch->blocks, sms) * machine->block_cycles;
    piece->block_ns = longest_block(beside->work, launch);
    if (!piece->block_ns)
        piece->block_ns = gs_divide_up(piece->ns, waves);
    piece->exit_ns = gs_max(gs_divide_up(exits * 1000, machine->clock_mhz), waves * WAVE_EXIT_NS);
    int64_t stop_ns = piece->block_ns + piece->exit_ns;
    piece->is_stopped = can_be_stopped(beside, launch, waves) && 2 * stop_ns <= piece->ns;
    if (piece->is_stopped)
        piece->lost_ns = stop_ns;
    return GS_OK;
}

static void take_longer(gs_request_piece *longest, const gs_request_piece *piece) {
    if (piece->lost_ns > longest->lost_ns)
        *longest = *piece;
}

/* A launch without a stream has one of its own. */
static bool is_same_stream(const char *a, const char *b) {
    return a && b && strcmp(a, b) == 0;
}

/* Whether no earlier launch has the stream of this one. */
static bool begins_stream(const gs_run *run, size_t launch) {
    const char *stream = run->launches.data[launch].stream;
    for (size_t i = 0; stream && i < launch; i++)
        if (is_same_stream(run->launches.data[i].stream, stream))
            return false;
    return true;
}

/* The longest piece of the stream that a launch begins. */
static gs_code stream_piece(struct beside *beside, size_t first, gs_request_piece *longest, gs_error *error) {
    const gs_run *run = beside->work;
    const char *stream = run->launches.data[first].stream;
    gs_request_bound *found = beside->found;
    gs_code code = GS_OK;
    *longest = (gs_request_piece){.lost_ns = beside->options->ahead_ns};
    for (size_t i = first; i < (stream ? run->launches.count : first + 1) && code == GS_OK; i++) {
        const gs_launch *launch = &run->launches.data[i];
        gs_request_piece piece;
        if (gs_issue_is_node(&launch->issue) || (i != first && !is_same_stream(stream, launch->stream)))
            continue;
        code = launch_piece(beside, launch, &piece, error);
        if (code != GS_OK)
            return gs_run_fail(run, launch->event, error, code, "kernel \"%.60s\": %s", launch->kernel, error->message);
        take_longer(longest, &piece);
        take_longer(piece.is_stopped ? &found->stopped : &found->unstopped, &piece);
    }
    for (size_t i = 0; stream && i < run->copies.count; i++)
        if (is_same_stream(stream, run->copies.data[i].stream)) {
            gs_request_piece piece = {.kernel = run->copies.data[i].is_memset ? "a memset" : "a copy",
                                      .ns = gs_measured_ns(&run->copies.data[i].issue)};
            piece.lost_ns = piece.ns;
            take_longer(longest, &piece);
            take_longer(&found->unstopped, &piece);
        }
    return code;
}

/* The launches from this one on that are nodes of one launch of a graph: its nodes come in their order. */
static size_t count_nodes(const gs_run *run, size_t first) {
    const gs_launch *launches = run->launches.data;
    size_t at = first + 1;
    while (at < run->launches.count && gs_issue_is_beside(&launches[at].issue, &launches[at - 1].issue) &&
           launches[at].issue.facts->node > launches[at - 1].issue.facts->node)
        at++;
    return at - first;
}

/* Graphs count as one stream. Some are launched whole, so that each may be one operation. */
static void add_graphs(struct beside *beside) {
    const gs_run *run = beside->work;
    gs_request_piece longest = {.lost_ns = beside->options->ahead_ns};
    bool has_graphs = false;
    for (size_t i = 0, count = 1; i < run->launches.count; i += count, count = 1) {
        int64_t first = INT64_MAX, last = 0;
        if (!gs_issue_is_node(&run->launches.data[i].issue))
            continue;
        has_graphs = true;
        count = count_nodes(run, i);
        for (size_t node = i; node < i + count; node++) {
            const gs_issue *issue = &run->launches.data[node].issue;
            first = gs_measured_ns(issue) ? gs_min(first, issue->start_ns) : first;
            last = gs_measured_ns(issue) ? gs_max(last, issue->end_ns) : last;
        }
        gs_request_piece piece = {
            .kernel = "a graph", .ns = gs_max(last - first, 0), .lost_ns = gs_max(last - first, 0)};
        take_longer(&longest, &piece);
        take_longer(&beside->found->unstopped, &piece);
    }
    beside->found->streams += has_graphs;
    beside->found->stop_ns += has_graphs ? longest.lost_ns : 0;
}

static gs_code add_streams(struct beside *beside, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < beside->work->launches.count && code == GS_OK; i++) {
        gs_request_piece longest;
        if (gs_issue_is_node(&beside->work->launches.data[i].issue) || !begins_stream(beside->work, i))
            continue;
        code = stream_piece(beside, i, &longest, error);
        beside->found->streams++;
        beside->found->stop_ns += longest.lost_ns;
    }
    return code;
}

/* ---- the request ---- */

static const gs_issue *issue_of(const gs_run *run, size_t operation) {
    return operation < run->launches.count ? &run->launches.data[operation].issue
                                           : &run->copies.data[operation - run->launches.count].issue;
}

/* From the first call, or start, to the last end of operations of the order. */
static int64_t span_of(const gs_run *run, const gs_sequence *order, size_t from, size_t to) {
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = from; i < to; i++) {
        const gs_issue *issue = issue_of(run, order->data[i]);
        if (!gs_measured_ns(issue))
            continue;
        first = gs_min(first, issue->at_ns == GS_NO_TIME ? issue->start_ns : gs_min(issue->at_ns, issue->start_ns));
        last = gs_max(last, issue->end_ns);
    }
    return last > first ? last - first : 0;
}

/* Requests that the program names: the host's time of each, from before its first call to after its last wait. */
static gs_code find_named_requests(const gs_run *request, const char *name, gs_request_bound *found, gs_error *error) {
    for (size_t i = 0; i < request->ranges.count; i++) {
        const gs_named_range *range = &request->ranges.data[i];
        if (strcmp(range->name, name) != 0)
            continue;
        found->requests++;
        found->request_ns = gs_max(found->request_ns, range->to_ns - range->from_ns);
    }
    return found->request_ns ? GS_OK : gs_fail(error, GS_E_USAGE, "the recording has no range \"%.60s\"", name);
}

static gs_code find_requests(const gs_run *request, gs_request_bound *found, gs_error *error) {
    gs_sequence order = {0};
    gs_part part = {0};
    gs_code code = gs_sequence_of(request, &order, error);
    if (code == GS_OK)
        code = gs_part_find(request, &order, &part, error);
    if (code == GS_OK) {
        size_t period = part.period ? part.period : order.count, from = part.period ? part.first : 0;
        for (size_t at = from; at < order.count && period; at += period) {
            size_t end = (size_t)gs_min_u64(at + period, order.count);
            found->requests++;
            found->request_ns = gs_max(found->request_ns, span_of(request, &order, at, end));
        }
    }
    gs_sequence_clear(&order);
    if (code == GS_OK && !found->request_ns)
        code = gs_fail(error, GS_E_USAGE, "the request was not recorded: no operation has start_us and end_us");
    return code;
}

gs_code gs_bound_request(const gs_gpu *gpu, const gs_run *request, const gs_run *work, const gs_beside_options *options,
                         gs_request_bound *found, gs_error *error) {
    struct beside beside = {.gpu = gpu, .work = work, .options = options, .found = found};
    *found = (gs_request_bound){.launch_ns = options->machine->launch_ns};
    gs_code code = options->range ? find_named_requests(request, options->range, found, error)
                                  : find_requests(request, found, error);
    if (code == GS_OK)
        code = add_streams(&beside, error);
    if (code == GS_OK)
        add_graphs(&beside);
    if (code == GS_OK && !found->stopped.ns && !found->unstopped.ns)
        code = gs_fail(error, GS_E_USAGE, "the work beside it was not recorded: no launch has start_us and end_us");
    found->response_ns = found->stop_ns + found->launch_ns + found->request_ns;
    return code;
}
