/*
 * beside.c: when a request is done at the latest, beside best-effort work under `gridsmith run`, from a recording of
 * each program alone.
 *
 * A request waits for what the best-effort streams have begun (docs/run.md): in each of them at most `ahead_ns` of work
 * lie between two waits, or one operation that alone is longer. A kernel that is longer and can be stopped ends with
 * the blocks that run, and with the others coming and going. How long a block runs is taken from the recording if it
 * has the blocks, and otherwise from the kernel, as if all its blocks took equally long. After that the request takes
 * as long as the longest one that was recorded (requests.c), and a launch.
 *
 * A kernel is sure to stop once: it is a chain of at least two launches, and the last one does not stop. So it counts
 * as one that stops only if it is over before the next request: after this one has its answer, and the kernel has had
 * the GPU for as long as it takes, beside the other streams. This depends on when the answer is there, and that on
 * which kernels stop: the first guess is that all do, and each one is longer than the one before.
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
    int64_t streams;     /* of the work */
    int64_t response_ns; /* the request is done by then, if a guess is right */
    gs_request_bound *found;
};

/* ---- the work ---- */

/* Whether a kernel that was stopped once is over before the next request begins. */
static bool is_over_in_time(const struct beside *beside, const gs_request_piece *piece) {
    int64_t left_ns = beside->found->requests.every_ns - beside->response_ns;
    return piece->ns + piece->exit_ns <= left_ns / beside->streams;
}

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
    piece->is_stopped =
        can_be_stopped(beside, launch, waves) && 2 * stop_ns <= piece->ns && is_over_in_time(beside, piece);
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
    beside->found->stop_ns += has_graphs ? longest.lost_ns : 0;
}

static int64_t count_streams(const gs_run *work) {
    int64_t streams = 0;
    bool has_graphs = false;
    for (size_t i = 0; i < work->launches.count; i++) {
        bool is_node = gs_issue_is_node(&work->launches.data[i].issue);
        has_graphs = has_graphs || is_node;
        streams += !is_node && begins_stream(work, i);
    }
    return streams + has_graphs;
}

static gs_code add_streams(struct beside *beside, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < beside->work->launches.count && code == GS_OK; i++) {
        gs_request_piece longest;
        if (gs_issue_is_node(&beside->work->launches.data[i].issue) || !begins_stream(beside->work, i))
            continue;
        code = stream_piece(beside, i, &longest, error);
        beside->found->stop_ns += longest.lost_ns;
    }
    return code;
}

/* What is lost to the work, if the request is done by response_ns. */
static gs_code add_work(struct beside *beside, gs_error *error) {
    gs_request_bound *found = beside->found;
    found->stop_ns = 0;
    found->stopped = found->unstopped = (gs_request_piece){.ns = 0};
    gs_code code = add_streams(beside, error);
    if (code == GS_OK)
        add_graphs(beside);
    found->response_ns = found->stop_ns + found->launch_ns + found->requests.longest_ns;
    return code;
}

gs_code gs_bound_request(const gs_gpu *gpu, const gs_run *request, const gs_run *work, const gs_beside_options *options,
                         gs_request_bound *found, gs_error *error) {
    struct beside beside = {
        .gpu = gpu, .work = work, .options = options, .streams = count_streams(work), .found = found};
    *found = (gs_request_bound){.streams = beside.streams, .launch_ns = options->machine->launch_ns};
    gs_code code = gs_requests_find(request, options->range, &found->requests, error);
    if (options->every_ns)
        found->requests.every_ns = options->every_ns;
    do {
        beside.response_ns = found->response_ns;
        code = code == GS_OK ? add_work(&beside, error) : code;
    } while (code == GS_OK && found->response_ns > beside.response_ns);
    if (code == GS_OK && !found->stopped.ns && !found->unstopped.ns)
        code = gs_fail(error, GS_E_USAGE, "the work beside it was not recorded: no launch has start_us and end_us");
    return code;
}
