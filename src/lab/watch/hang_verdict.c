/*
 * hang_verdict.c: the cause of a hang: the first rule of a table that holds.
 *
 * A rule looks at facts: what threads wait in, what the heads of streams are, what the dump shows, what the model says
 * of the kernels. Without a dump it is not seen whether blocks wait. Then a kernel only counts as waiting if its code
 * has a loop that does nothing but read memory. A rule raises the alarm if what it has found does not end by itself;
 * what may simply take long raises none.
 */
#include "hang_rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* By gs_hang_cause: its name, and whether it depends on which kernels streams are at. */
static const struct {
    const char *name;
    bool is_of_kernels;
} causes[GS_HANG_CAUSES] = {
    {"unknown", true},        {"too-many-blocks", true},
    {"two-kernels", true},    {"ranks", true},
    {"loading", true},        {"whole-gpu", true},
    {"connections", true},    {"configuration", true},
    {"programmatic", true},   {"host-function", false},
    {"default-stream", true}, {"never-issued", false},
    {"error", false},         {"heap", true},
    {"endless", true},
};

const char *gs_hang_cause_name(gs_hang_cause cause) {
    return causes[cause].name;
}

/* ---- the rules ---- */

static gs_hang_cause say_heap(gs_hang *hang) {
    gs_hang_add_fix(hang, "a larger heap: cudaDeviceSetLimit(cudaLimitMallocHeapSize, BYTES)");
    gs_hang_add_fix(hang, "free memory of the heap, or let the kernel end when malloc returns NULL");
    return GS_HANG_HEAP;
}

static gs_hang_cause judge_heap(gs_hang *hang, gs_hang_fit *fit) {
    (void)fit;
    for (size_t i = 0; i < hang->places.count; i++) {
        const gs_dump_place *place = &hang->places.data[i];
        if (!(place->wait.kind == GS_SASS_POLLS && place->wait.calls) && !place->in_syscall)
            continue;
        gs_text_add(&hang->said, "%zu warps are in a loop that calls a function again and again", place->warps);
        if (place->source)
            gs_text_add(&hang->said, " (%s:%u)", place->source, place->line);
        gs_text_add(&hang->said, "%s: if it tries until malloc succeeds, the device heap is full.",
                    place->in_syscall ? ", and are in the driver's part of it, such as malloc" : "");
        hang->is_alarm = true;
        return say_heap(hang);
    }
    const gs_hang_kernel *kernel = gs_hang_first_head(hang);
    if (hang->has_dump || !kernel || !(kernel->code & GS_SASS_CODE_RETRIES) || kernel->code & GS_SASS_CODE_WAITS)
        return GS_HANG_UNKNOWN;
    gs_hang_put_kernel(&hang->said, kernel);
    gs_text_add(&hang->said,
                " does not end. It has a loop that calls a function again and again: if it tries until malloc "
                "succeeds, the device heap is full.");
    return say_heap(hang);
}

/* The fixes that the model found. */
static void add_model_fixes(gs_hang *hang, const gs_hang_fit *fit) {
    enum { MOST = 6 };
    const gs_check_answer *answer = &fit->answer;
    for (size_t i = 0; i < answer->fixes.count && i < MOST; i++) {
        const gs_fix *fix = &answer->fixes.data[i];
        gs_text text = {0};
        for (size_t k = 0; k < fix->count; k++) {
            gs_text_add(&text, "%s", k ? ", and " : "");
            gs_change_text(fit->gpu, fit->run, fix, k, &text);
        }
        if (text.data)
            gs_hang_add_fix(hang, "%s", text.data);
        gs_text_free(&text);
    }
}

static gs_hang_cause judge_alone(gs_hang *hang, const gs_hang_kernel *kernel) {
    int64_t room = hang->has_dump && kernel->grid != GS_DUMP_NONE ? hang->dump.grids.data[kernel->grid].resident
                                                                  : kernel->blocks - kernel->never_started;
    gs_hang_put_kernel(&hang->said, kernel);
    gs_text_add(&hang->said, hang->has_dump ? " waits for all its blocks, but only " : " has room for only ");
    gs_text_put_grouped(&hang->said, room);
    bool is_barrier = hang->has_dump || kernel->code & GS_SASS_CODE_WRITES_IT;
    gs_text_add(&hang->said, hang->has_dump ? " are resident, and "
                             : is_barrier   ? " blocks, and its code waits for others: "
                                            : " blocks, and its code waits for memory: if the other ");
    gs_text_put_grouped(&hang->said, kernel->never_started);
    gs_text_add(&hang->said, is_barrier ? " never started" : " would write it, it does not end");
    gs_hang_put_places(hang, kernel);
    gs_text_add(&hang->said, ".");
    uint64_t launches = kernel->function ? atomic_load(&kernel->function->launches) : 0;
    if (launches > 1 && !hang->has_dump)
        gs_text_add(&hang->said,
                    " It was launched %" PRIu64
                    " times: if an earlier launch with this many blocks has ended, this one only takes long.",
                    launches);
    gs_hang_add_fix(hang, "launch %s with at most %" PRId64 " blocks", kernel->name, room);
    gs_hang_add_fix(hang, "launch it with cudaLaunchCooperativeKernel, which refuses more blocks than fit");
    /* Blocks that wait for those before them, as in a scan, or for some others, as a team, come to an end. */
    hang->is_alarm = hang->has_dump;
    return GS_HANG_TOO_MANY_BLOCKS;
}

/* Whether another shared-memory configuration alone would be enough. */
static bool is_of_configuration(const gs_hang_fit *fit) {
    const char *why = fit->answer.check.here.why.data;
    for (size_t i = 0; i < fit->answer.fixes.count; i++) {
        const gs_fix *fix = &fit->answer.fixes.data[i];
        if (fix->count == 1 && fix->changes[0].kind == GS_FIX_CARVEOUT)
            return why && strstr(why, "configuration");
    }
    return false;
}

/* The kernels that hold SMs which the one that does not start needs. */
static gs_hang_cause judge_conflict(gs_hang *hang, const gs_hang_fit *fit, const gs_hang_kernel *waiting) {
    const gs_conflict *here = &fit->answer.check.here;
    bool says = false;
    hang->is_alarm = true;
    gs_hang_put_kernel(&hang->said, waiting);
    gs_text_add(&hang->said, " cannot start %" PRId64 " of its blocks", waiting->never_started);
    gs_hang_put_places(hang, waiting);
    gs_text_add(&hang->said, ". The SMs are held by ");
    for (size_t i = 0; i + 1 < here->order.count; i++) {
        const gs_hang_kernel *holder = &hang->kernels.data[fit->kernels[here->order.data[i]]];
        gs_text_add(&hang->said, "%s", says ? " and " : "");
        gs_hang_put_kernel(&hang->said, holder);
        gs_hang_put_places(hang, holder);
        says = true;
        hang->is_alarm =
            hang->is_alarm && gs_hang_kernel_waits(hang, holder) && !gs_hang_may_be_released(hang, holder, waiting);
    }
    gs_text_add(&hang->said, ", launched before. %s%s", here->why.data ? here->why.data : "",
                here->why.data ? "." : "");
    if (fit->part)
        gs_text_add(&hang->said, " They are in a green context of %d SMs.", fit->part->sms);
    add_model_fixes(hang, fit);
    return is_of_configuration(fit) ? GS_HANG_CONFIGURATION : GS_HANG_TWO_KERNELS;
}

/* The last kernel at the head of a stream, besides the one that waits, that has not started as far as is known. */
static const gs_hang_kernel *not_started(const gs_hang *hang, const gs_hang_kernel *waiting) {
    for (size_t i = hang->kernels.count; i-- > 0;) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        if (kernel->is_head && kernel != waiting && (!hang->has_dump || kernel->grid == GS_DUMP_NONE))
            return kernel;
    }
    return NULL;
}

/* Blocks of a programmatic launch that wait for the kernel before it, which waits for one that has no room beside them.
 */
static gs_hang_cause judge_programmatic(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_kernel *waiting = gs_hang_first_waiting(hang), *missing = not_started(hang, waiting);
    const gs_hang_kernel *dependent = NULL;
    for (size_t i = 0; i < hang->kernels.count; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        if (kernel->operation->is_programmatic && (!hang->has_dump || kernel->grid != GS_DUMP_NONE))
            dependent = kernel;
    }
    bool lacks_room = hang->has_dump || (fit->is_known && !fit->fits);
    if (!dependent || !missing || !waiting || waiting->stream != dependent->stream ||
        missing->stream == dependent->stream || !lacks_room)
        return GS_HANG_UNKNOWN;
    gs_hang_put_kernel(&hang->said, missing);
    gs_text_add(&hang->said, " cannot start: blocks of ");
    gs_hang_put_kernel(&hang->said, dependent);
    gs_text_add(&hang->said, ", a programmatic launch, hold the SMs");
    gs_hang_put_places(hang, dependent);
    gs_text_add(&hang->said, ". They wait for the end of ");
    gs_hang_put_kernel(&hang->said, waiting);
    gs_hang_put_places(hang, waiting);
    gs_text_add(&hang->said, ".");
    gs_hang_add_fix(hang, "launch %s before %s", missing->name, dependent->name);
    gs_hang_add_fix(hang, "launch %s with fewer blocks, so that SMs stay free, or without the programmatic attribute",
                    dependent->name);
    hang->is_alarm = !gs_hang_may_be_released(hang, waiting, missing);
    return GS_HANG_PROGRAMMATIC;
}

/* Whether a kernel waits, or may wait while it works. */
static bool holder_may_wait(gs_hang *hang) {
    for (size_t i = 0; i < hang->kernels.count && !hang->has_dump; i++)
        if (hang->kernels.data[i].is_head && hang->kernels.data[i].code & GS_SASS_CODE_READS)
            return true;
    return gs_hang_first_waiting(hang) != NULL;
}

static gs_hang_cause judge_room(gs_hang *hang, gs_hang_fit *fit) {
    /* Seen: a grid that waits, alone on the GPU, with blocks that never started. */
    for (size_t i = 0; i < hang->kernels.count && hang->has_dump && hang->dump.grids.count == 1; i++) {
        gs_hang_kernel *kernel = &hang->kernels.data[i];
        if (kernel->grid == GS_DUMP_NONE || !kernel->never_started)
            continue;
        if (fit->is_known && fit->fits)
            kernel->never_started = 0; /* alone they have room: they have ended */
        else if (gs_hang_kernel_waits(hang, kernel))
            return judge_alone(hang, kernel);
    }
    if (!fit->is_known || fit->fits || !holder_may_wait(hang) || !fit->answer.check.here.order.count)
        return GS_HANG_UNKNOWN;
    const gs_conflict *here = &fit->answer.check.here;
    gs_hang_kernel *last = &hang->kernels.data[fit->kernels[here->order.data[here->order.count - 1]]];
    if (hang->has_dump && last->grid == GS_DUMP_NONE)
        last->never_started = last->blocks;
    if (hang->has_dump && !last->never_started)
        return GS_HANG_UNKNOWN;
    if (here->order.count > 1)
        return judge_conflict(hang, fit, last);
    return gs_hang_kernel_waits(hang, last) ? judge_alone(hang, last) : GS_HANG_UNKNOWN;
}

/* A kernel of a graph that waits, and another one of it that has no room beside it. The order of its nodes is not
 * known.
 */
static gs_hang_cause judge_graph(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_kernel *waiting = gs_hang_first_waiting(hang);
    const gs_watch_graph *graph = waiting ? gs_hang_graph_of(hang, waiting->graph) : NULL;
    gs_hang_cause cause = GS_HANG_UNKNOWN;
    (void)fit;
    for (size_t i = 0; i < hang->kernels.count && graph && graph->has_branches && !cause; i++) {
        gs_hang_kernel *other = &hang->kernels.data[i];
        gs_error none = {.code = GS_OK};
        gs_hang_fit pair;
        if (other == waiting || other->graph != waiting->graph || waiting->operation->collective || !other->function ||
            !waiting->function || other->grid != GS_DUMP_NONE)
            continue;
        gs_code code = gs_hang_check_pair(hang, &pair, (size_t)(waiting - hang->kernels.data), i, &none);
        if (code == GS_OK && pair.is_known && !pair.fits && pair.answer.check.here.order.count == 2) {
            other->never_started = pair.answer.check.here.waiting;
            cause = judge_conflict(hang, &pair, other);
            gs_text_add(&hang->said, " Both are in one graph: this holds if it runs them at the same time.");
            hang->is_alarm = false;
        }
        gs_hang_fit_free(&pair);
    }
    return cause;
}

/* A kernel at the head of a stream that has room, and still does not start. */
static gs_hang_cause judge_connections(gs_hang *hang, gs_hang_fit *fit) {
    const gs_hang_kernel *waiting = gs_hang_first_waiting(hang), *missing = not_started(hang, waiting);
    size_t streams = 0;
    for (size_t i = 0; i < hang->streams.count; i++)
        streams += hang->streams.data[i].head != NULL;
    bool has_room = fit->is_known && fit->fits;
    if (!waiting || !missing || !has_room || streams <= (size_t)gs_max(1, hang->page->connections))
        return GS_HANG_UNKNOWN;
    gs_text_add(&hang->said, "%zu streams have work, and CUDA_DEVICE_MAX_CONNECTIONS is %d: some share a queue. ",
                streams, hang->page->connections);
    gs_hang_put_kernel(&hang->said, missing);
    gs_text_add(&hang->said, " has room, but stands in a queue behind work that waits for ");
    gs_hang_put_kernel(&hang->said, waiting);
    gs_hang_put_places(hang, waiting);
    gs_text_add(&hang->said, ".");
    gs_hang_add_fix(hang, "CUDA_DEVICE_MAX_CONNECTIONS=%zu (32 at most)", gs_min_u64(32, gs_max_u64(8, streams)));
    gs_hang_add_fix(hang, "issue %s before what waits for it", missing->name);
    hang->is_alarm = !gs_hang_may_be_released(hang, waiting, NULL);
    return GS_HANG_CONNECTIONS;
}

static gs_hang_cause judge_ranks(gs_hang *hang, gs_hang_fit *fit) {
    (void)fit;
    for (size_t i = 0; i < hang->kernels.count; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        if (!kernel->is_head || !kernel->operation->collective || (hang->has_dump && kernel->grid == GS_DUMP_NONE))
            continue;
        gs_hang_put_kernel(&hang->said, kernel);
        gs_text_add(&hang->said, " is collective %u of its stream", kernel->operation->collective);
        if (kernel->operation->communicator)
            gs_text_add(&hang->said, ", of communicator %u,", kernel->operation->communicator);
        if (hang->page->rank >= 0)
            gs_text_add(&hang->said, " on rank %d", hang->page->rank);
        gs_text_add(&hang->said, ", and waits for other ranks");
        gs_hang_put_places(hang, kernel);
        gs_text_add(&hang->said, ". Another rank has not come to it, or is at another collective.");
        gs_hang_add_fix(hang,
                        "gridsmith watch --join FOLDER says which rank is missing (run all ranks with -o FOLDER)");
        gs_hang_add_fix(hang, "issue the same collectives in the same order on all ranks");
        hang->is_alarm = hang->has_dump; /* the other rank may be late */
        return GS_HANG_RANKS;
    }
    return GS_HANG_UNKNOWN;
}

/* Whether a stream may be at another kernel than the one that is taken: one before it that takes long, or none of so
   long ago. */
static bool is_guess(const gs_hang *hang) {
    for (size_t i = 0; i < hang->kernels.count && !hang->has_dump; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        const gs_hang_stream *stream = gs_hang_stream_of(hang, kernel->stream);
        if (kernel->is_head && (kernel->is_older || (stream && stream->is_guess)))
            return true;
    }
    return false;
}

gs_code gs_hang_judge(gs_hang *hang, gs_error *error) {
    static gs_hang_rule *const rules[] = {gs_hang_judge_error,
                                          gs_hang_judge_host_function,
                                          gs_hang_judge_whole_gpu,
                                          gs_hang_judge_loading,
                                          judge_heap,
                                          judge_programmatic,
                                          judge_room,
                                          judge_ranks,
                                          judge_graph,
                                          gs_hang_judge_waits,
                                          gs_hang_judge_default_stream,
                                          judge_connections,
                                          gs_hang_judge_late,
                                          gs_hang_judge_condition,
                                          gs_hang_judge_host_node,
                                          gs_hang_judge_endless,
                                          gs_hang_judge_nccl,
                                          gs_hang_judge_event};
    gs_hang_fit fit;
    gs_text_clear(&hang->said);
    for (size_t i = 0; i < hang->fixes.count; i++)
        free(hang->fixes.data[i]);
    hang->fixes.count = 0;
    hang->cause = GS_HANG_UNKNOWN;
    gs_code code = gs_hang_check(hang, &fit, error);
    for (size_t i = 0; i < GS_COUNT(rules) && code == GS_OK && hang->cause == GS_HANG_UNKNOWN; i++) {
        hang->is_alarm = false;
        hang->cause = rules[i](hang, &fit);
    }
    hang->is_alarm =
        hang->is_alarm && hang->cause != GS_HANG_UNKNOWN && !(causes[hang->cause].is_of_kernels && is_guess(hang));
    gs_hang_fit_free(&fit);
    return code == GS_OK && hang->said.failed ? gs_fail_memory(error) : code;
}
