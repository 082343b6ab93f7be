/*
 * collect.c: turns the contents of a trace into runs.
 *
 *   1. Each launch gets the time of its call, by the correlation number. A graph launch is one call for many kernels.
 *   2. Work of a stream starts in the order in which it was issued, so the times of calls do not decrease along a
 *      stream. If two threads use one stream, the later call may begin earlier; its time is raised. A launch without a
 *      call (the trace began later) gets the time of the one before it in its stream. At the beginning of a stream it
 *      gets its start, or the time of the one after it if that is earlier.
 *   3. Everything is sorted by these times, the nodes of a graph by their starts, and numbered.
 *   4. Waits for events become edges: from the first work after the wait to the last work before the record.
 */
#include "collect.h"

#include <stdlib.h>

/* ---- adding ---- */

gs_traced_what gs_traced_what_none(void) {
    gs_traced_what what;
    memset(&what, 0, sizeof what);
    what.static_shared_bytes = what.shared_config_bytes = GS_NOT_GIVEN;
    what.process = what.context = what.green_context = what.graph = GS_NOT_GIVEN;
    return what;
}

const char *gs_collect_name(gs_collection *collection, char *name) {
    gs_make_printable(name);
    return gs_strings_add(&collection->strings, name, strlen(name));
}

static bool is_stream(const gs_traced_stream *known, int64_t process, int64_t context, int32_t device, int64_t stream) {
    return known->stream == stream && known->context == context && known->process == process && known->device == device;
}

/* A trace has few streams, and the requested one is often the same as before. */
int32_t gs_collect_stream(gs_collection *collection, int64_t process, int64_t context, int32_t device, int64_t stream) {
    for (size_t i = collection->streams.count; i-- > 0;) {
        if (is_stream(&collection->streams.data[i], process, context, device, stream))
            return (int32_t)i;
    }
    if (collection->streams.count >= INT32_MAX || !GS_RESERVE(&collection->streams, 1))
        return -1;
    collection->streams.data[collection->streams.count] =
        (gs_traced_stream){process, context, stream, device, .beside_ns = GS_NO_TIME};
    return (int32_t)collection->streams.count++;
}

/* The product of three sizes; 0 if it is out of range for a launch. */
static int64_t volume_of(const int32_t *sizes, int64_t most) {
    int64_t product = 1;
    for (int i = 0; i < 3; i++) {
        product = sizes[i] < 1 || sizes[i] > most ? 0 : product * sizes[i];
        if (product > most)
            return 0;
    }
    return product;
}

/* Checks that a launch can be part of a run. */
static gs_code check_launch(gs_traced_what *what, gs_error *error) {
    if (!volume_of(what->grid, INT32_MAX) || !volume_of(what->block, 65536))
        return gs_fail(error, GS_E_FORMAT,
                       "kernel \"%.60s\" has an impossible size: a grid of %d x %d x %d, blocks of "
                       "%d x %d x %d",
                       what->name, what->grid[0], what->grid[1], what->grid[2], what->block[0], what->block[1],
                       what->block[2]);
    if (what->registers < 0 || what->registers > 65536)
        return gs_fail(error, GS_E_FORMAT, "kernel \"%.60s\" has %d registers a thread, which is impossible",
                       what->name, what->registers);
    if (what->priority < -1000 || what->priority > 1000)
        return gs_fail(error, GS_E_FORMAT, "kernel \"%.60s\" has priority %d, which is impossible", what->name,
                       what->priority);
    what->registers = (int32_t)gs_max(1, what->registers);
    return GS_OK;
}

/* Checks that a launch needs no more memory than any GPU has. */
static gs_code check_memory(const gs_traced_what *what, gs_error *error) {
    static const int64_t most_bytes = (int64_t)1 << 40;
    int64_t shared_bytes = gs_max(what->shared_bytes, what->shared_config_bytes);
    if (shared_bytes > most_bytes || what->local_bytes > most_bytes)
        return gs_fail(error, GS_E_FORMAT,
                       "kernel \"%.60s\" has more than 2^40 bytes of %s memory, which is impossible", what->name,
                       shared_bytes > most_bytes ? "shared" : "local");
    return GS_OK;
}

static gs_code check_signs(const gs_traced_what *what, const gs_traced *traced, gs_error *error) {
    bool is_launch = what->op == GS_TRACED_LAUNCH;
    if (traced->end_ns < gs_collect_time(traced->start_ns))
        return gs_fail(error, GS_E_FORMAT, "%s%.60s%s ends before it starts", is_launch ? "kernel \"" : "a ",
                       is_launch                    ? what->name
                       : what->op == GS_TRACED_COPY ? "copy"
                                                    : "memset",
                       is_launch ? "\"" : "");
    if (is_launch && (what->shared_bytes < 0 || what->local_bytes < 0))
        return gs_fail(error, GS_E_FORMAT, "kernel \"%.60s\" has a negative amount of %s memory", what->name,
                       what->shared_bytes < 0 ? "shared" : "local");
    if (!is_launch && what->bytes < 0)
        return gs_fail(error, GS_E_FORMAT, "a %s has a negative number of bytes",
                       what->op == GS_TRACED_COPY ? "copy" : "memset");
    return GS_OK;
}

static void limit_value(int64_t *value, int64_t least, int64_t most) {
    *value = gs_max(least, gs_min(*value, most));
}

/* Negative numbers mean "not given" where others are only copied. */
static void limit_numbers(gs_traced_what *what) {
    limit_value(&what->static_shared_bytes, GS_NOT_GIVEN, INT64_MAX);
    limit_value(&what->shared_config_bytes, GS_NOT_GIVEN, INT64_MAX);
    limit_value(&what->process, GS_NOT_GIVEN, INT64_MAX);
    limit_value(&what->context, GS_NOT_GIVEN, INT64_MAX);
    limit_value(&what->green_context, GS_NOT_GIVEN, INT64_MAX);
    limit_value(&what->graph, GS_NOT_GIVEN, INT64_MAX);
}

/* Tools write -1 for no GPU. */
static gs_code check_device(gs_traced_what *what, gs_trace_fields *given, gs_error *error) {
    if (what->device < GS_NOT_GIVEN)
        return gs_fail(error, GS_E_FORMAT, "GPU %d is not possible: GPUs are counted from 0", what->device);
    if (what->device == GS_NOT_GIVEN) {
        *given &= ~(1u << GS_TRACE_DEVICE);
        what->device = 0;
    }
    return GS_OK;
}

gs_code gs_collect_add(gs_collection *collection, const gs_traced_what *what, gs_trace_fields given, gs_traced traced,
                       gs_error *error) {
    gs_traced_what copy = *what;
    limit_numbers(&copy);
    gs_code code = check_device(&copy, &given, error);
    if (code == GS_OK)
        code = gs_check_fields(collection, what, given, error);
    if (code == GS_OK)
        code = check_signs(what, &traced, error);
    if (code == GS_OK && what->op == GS_TRACED_LAUNCH)
        code = check_launch(&copy, error);
    if (code == GS_OK && what->op == GS_TRACED_LAUNCH)
        code = check_memory(what, error);
    if (code != GS_OK)
        return code;
    limit_value(&traced.node, GS_NOT_GIVEN, INT64_MAX);
    traced.start_ns = gs_collect_time(traced.start_ns);
    traced.end_ns = gs_collect_time(traced.end_ns);
    traced.stream_number = gs_collect_stream(collection, copy.process, copy.context, copy.device, copy.stream);
    traced.what = (const void *)gs_strings_add(&collection->strings, &copy, sizeof copy);
    if (traced.stream_number < 0 || !traced.what || collection->traced.count >= UINT32_MAX ||
        !GS_RESERVE(&collection->traced, 1))
        return gs_fail_memory(error);
    traced.order = (uint32_t)collection->traced.count;
    traced.at_ns = GS_NO_TIME;
    collection->traced.data[collection->traced.count++] = traced;
    return GS_OK;
}

gs_code gs_collect_add_call(gs_collection *collection, uint64_t call, int64_t at_ns, gs_error *error) {
    return GS_PUSH(&collection->calls, (struct gs_call){call, gs_collect_time(at_ns)}) ? GS_OK : gs_fail_memory(error);
}

gs_code gs_collect_add_wait(gs_collection *collection, const gs_traced_wait *wait, gs_error *error) {
    return GS_PUSH(&collection->waits, *wait) ? GS_OK : gs_fail_memory(error);
}

gs_code gs_collect_add_range(gs_collection *collection, const gs_traced_range *range, gs_error *error) {
    gs_traced_range kept = {range->name, gs_collect_time(range->from_ns), gs_collect_time(range->to_ns)};
    return GS_PUSH(&collection->ranges, kept) ? GS_OK : gs_fail_memory(error);
}

gs_code gs_collect_add_gpu(gs_collection *collection, gs_traced_gpu gpu, gs_error *error) {
    if (!gpu.name || !GS_PUSH(&collection->gpus, gpu)) {
        free(gpu.name);
        return gs_fail_memory(error);
    }
    gs_make_printable(gpu.name);
    return GS_OK;
}

void gs_collection_free(gs_collection *collection) {
    for (size_t i = 0; i < collection->gpus.count; i++)
        free(collection->gpus.data[i].name);
    free(collection->gpus.data);
    free(collection->waits.data);
    free(collection->ranges.data);
    free(collection->streams.data);
    free(collection->calls.data);
    free(collection->traced.data);
    gs_strings_free(&collection->strings);
    *collection = (gs_collection){0};
}

/* ---- streams ---- */

/* If some work has no context or no process, that of no work counts: else its streams would be others than those of
   the rest. Streams that differ in it only become one. */
static gs_code merge_streams(gs_collection *collection, gs_error *error) {
    size_t count = collection->streams.count, kept = 0;
    bool ignores_context = collection->missing[GS_TRACE_CONTEXT],
         ignores_process = collection->missing[GS_TRACE_PROCESS];
    int32_t *merged = calloc(count + 1, sizeof *merged);
    if (!merged)
        return gs_fail_memory(error);
    for (size_t i = 0; i < count; i++) {
        gs_traced_stream stream = collection->streams.data[i];
        stream.context = ignores_context ? GS_NOT_GIVEN : stream.context;
        stream.process = ignores_process ? GS_NOT_GIVEN : stream.process;
        size_t same = 0;
        while (same < kept && !is_stream(&collection->streams.data[same], stream.process, stream.context, stream.device,
                                         stream.stream))
            same++;
        if (same == kept)
            collection->streams.data[kept++] = stream;
        merged[i] = (int32_t)same;
    }
    collection->streams.count = kept;
    for (size_t i = 0; i < collection->traced.count; i++)
        collection->traced.data[i].stream_number = merged[collection->traced.data[i].stream_number];
    for (size_t i = 0; i < collection->waits.count; i++) {
        gs_traced_wait *wait = &collection->waits.data[i];
        wait->waits = merged[wait->waits];
        wait->records = merged[wait->records];
    }
    free(merged);
    return GS_OK;
}

/* ---- times of calls ---- */

GS_ORDER_THEN(compare_calls, struct gs_call, call, at_ns)

/* The time of a call; of calls with the same key, the first. GS_NO_TIME: not in the trace. */
static int64_t time_of_call(const gs_collection *collection, uint64_t call) {
    size_t low = 0, high = collection->calls.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (collection->calls.data[middle].call < call)
            low = middle + 1;
        else
            high = middle;
    }
    return low < collection->calls.count && collection->calls.data[low].call == call ? collection->calls.data[low].at_ns
                                                                                     : GS_NO_TIME;
}

GS_ORDER_THEN(compare_starts, gs_traced, start_ns, order)

static int compare_times(const void *a, const void *b) {
    const gs_traced *one = a, *two = b;
    int order = GS_COMPARE(one->at_ns, two->at_ns);
    return order ? order : compare_starts(a, b);
}

static void sort_traced(gs_collection *collection, int (*compare)(const void *, const void *)) {
    if (collection->traced.count)
        qsort(collection->traced.data, collection->traced.count, sizeof *collection->traced.data, compare);
}

/* From the last start to the first: work without a call is issued when it starts at the latest, and not after what
   follows it in its stream. */
static void find_calls(gs_collection *collection) {
    for (size_t i = collection->traced.count; i-- > 0;) {
        gs_traced *traced = &collection->traced.data[i];
        int64_t *beside_ns = &collection->streams.data[traced->stream_number].beside_ns;
        traced->at_ns = time_of_call(collection, traced->call);
        traced->has_call = traced->at_ns != GS_NO_TIME;
        if (!traced->has_call)
            traced->at_ns = *beside_ns == GS_NO_TIME ? traced->start_ns : gs_min(traced->start_ns, *beside_ns);
        collection->without_call += !traced->has_call;
        *beside_ns = traced->at_ns;
    }
    for (size_t i = 0; i < collection->streams.count; i++)
        collection->streams.data[i].beside_ns = GS_NO_TIME;
}

static void set_times(gs_collection *collection) {
    if (collection->calls.count)
        qsort(collection->calls.data, collection->calls.count, sizeof *collection->calls.data, compare_calls);
    sort_traced(collection, compare_starts);
    find_calls(collection);
    for (size_t i = 0; i < collection->traced.count; i++) {
        gs_traced *traced = &collection->traced.data[i];
        int64_t *beside_ns = &collection->streams.data[traced->stream_number].beside_ns;
        if (*beside_ns != GS_NO_TIME)
            traced->at_ns = traced->has_call ? gs_max(traced->at_ns, *beside_ns) : *beside_ns;
        *beside_ns = traced->at_ns;
    }
    sort_traced(collection, compare_times);
}

/* ---- waits ---- */

/* From waiting work to its dependency, both by number in the order of calls. */
struct dependence {
    uint32_t waits, other;
};

struct dependences {
    struct dependence *data;
    size_t count, capacity;
};

/* The work of each stream, in order: that of stream i is from first[i] to before first[i + 1] of `work`. */
struct by_stream {
    uint32_t *first, *work;
};

static bool group_by_stream(const gs_collection *collection, struct by_stream *groups) {
    size_t streams = collection->streams.count;
    groups->first = calloc(streams + 2, sizeof *groups->first);
    groups->work = calloc(collection->traced.count + 1, sizeof *groups->work);
    if (!groups->first || !groups->work)
        return false;
    for (size_t i = 0; i < collection->traced.count; i++)
        groups->first[collection->traced.data[i].stream_number + 2]++;
    for (size_t i = 2; i < streams + 2; i++)
        groups->first[i] += groups->first[i - 1];
    for (size_t i = 0; i < collection->traced.count; i++)
        groups->work[groups->first[collection->traced.data[i].stream_number + 1]++] = (uint32_t)i;
    return true;
}

/* The first work of a stream issued after `at_ns`, by its index in `work`. */
static uint32_t first_after(const gs_collection *collection, const struct by_stream *groups, int32_t stream,
                            int64_t at_ns) {
    uint32_t low = groups->first[stream], high = groups->first[stream + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (collection->traced.data[groups->work[middle]].at_ns <= at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A wait for work of its own stream, or for a stream without work before the record, adds nothing. A wait whose calls
   are not in the trace, or that would come before what it waits for, is left out. */
static gs_code add_dependence(gs_collection *collection, const struct by_stream *groups, const gs_traced_wait *wait,
                              struct dependences *all, gs_error *error) {
    int64_t waits_ns = time_of_call(collection, wait->wait_call);
    int64_t records_ns = time_of_call(collection, wait->record_call);
    if (wait->waits == wait->records)
        return GS_OK;
    if (waits_ns == GS_NO_TIME || records_ns == GS_NO_TIME) {
        collection->lost_waits++;
        return GS_OK;
    }
    uint32_t later = first_after(collection, groups, wait->waits, waits_ns);
    uint32_t past = first_after(collection, groups, wait->records, records_ns);
    if (later == groups->first[wait->waits + 1] || past == groups->first[wait->records])
        return GS_OK;
    struct dependence found = {groups->work[later], groups->work[past - 1]};
    if (found.other >= found.waits) {
        collection->lost_waits++;
        return GS_OK;
    }
    return GS_PUSH(all, found) ? GS_OK : gs_fail_memory(error);
}

GS_ORDER_THEN(compare_dependences, struct dependence, waits, other)

static gs_code find_dependences(gs_collection *collection, struct dependences *all, gs_error *error) {
    struct by_stream groups = {0};
    gs_code code = group_by_stream(collection, &groups) ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; i < collection->waits.count && code == GS_OK; i++)
        code = add_dependence(collection, &groups, &collection->waits.data[i], all, error);
    if (all->count)
        qsort(all->data, all->count, sizeof *all->data, compare_dependences);
    free(groups.first);
    free(groups.work);
    return code;
}

/* ---- runs ---- */

struct maker {
    gs_collection *collection;
    gs_imported *imported;
    size_t first_run; /* of this trace */
    struct dependences dependences;
    size_t next_dependence;
    int64_t zero_ns;
};

/* The built-in GPU with this driver name. */
static char *known_gpu(const char *name, int32_t sms) {
    gs_gpu *gpu = gs_gpu_open_called(name, sms);
    char *known = gpu ? strdup(gpu->name) : NULL;
    gs_gpu_free(gpu);
    return known;
}

static gs_code describe_run(const struct maker *maker, gs_run *run, int64_t device, gs_error *error) {
    const gs_collection *collection = maker->collection;
    run->origin.device = device;
    run->origin.recorder = strdup(collection->recorder);
    run->origin.lacks = gs_lacking_keys(collection);
    if (collection->unix_ns >= 0)
        run->origin.start_unix_ns = gs_max(GS_NOT_GIVEN, gs_collect_time(collection->unix_ns) + maker->zero_ns);
    if (!run->origin.recorder || !run->origin.lacks)
        return gs_fail_memory(error);
    for (size_t i = 0; i < collection->gpus.count; i++) {
        const gs_traced_gpu *gpu = &collection->gpus.data[i];
        if (gpu->device != device || run->origin.gpu_name || !gpu->name[0])
            continue;
        run->origin.gpu_name = strdup(gpu->name);
        run->gpu = known_gpu(gpu->name, gpu->sms);
    }
    return GS_OK;
}

/* The run of a GPU, made on first use. */
static gs_run *run_of(struct maker *maker, int64_t device, gs_error *error) {
    gs_imported *imported = maker->imported;
    for (size_t i = maker->first_run; i < imported->count; i++)
        if (imported->data[i]->origin.device == device)
            return imported->data[i];
    gs_run *run = GS_RESERVE(imported, 1) ? gs_run_new(error) : NULL;
    if (!run) {
        gs_fail_memory(error);
        return NULL;
    }
    imported->data[imported->count++] = run;
    return describe_run(maker, run, device, error) == GS_OK ? run : NULL;
}

/* The name of a stream in a run: its number, if all streams of the GPU are of one context. */
static void name_stream(const gs_collection *collection, gs_traced_stream *named) {
    char *name = named->name;
    size_t size = sizeof named->name;
    bool one_process = true, one_context = true;
    for (size_t i = 0; i < collection->streams.count; i++) {
        const gs_traced_stream *stream = &collection->streams.data[i];
        if (stream->device != named->device)
            continue;
        one_process = one_process && stream->process == named->process;
        one_context = one_context && stream->process == named->process && stream->context == named->context;
    }
    named->is_number = one_context;
    if (one_context)
        snprintf(name, size, "%lld", (long long)named->stream);
    else if (one_process)
        snprintf(name, size, "%lld/%lld", (long long)named->context, (long long)named->stream);
    else
        snprintf(name, size, "%lld/%lld/%lld", (long long)named->process, (long long)named->context,
                 (long long)named->stream);
}

static gs_issue issue_of(const struct maker *maker, const gs_traced *traced, char *id, gs_launch_facts *facts) {
    const gs_traced_what *what = traced->what;
    facts->device = what->device;
    facts->process = what->process;
    facts->context = what->context;
    facts->green_context = what->green_context;
    facts->graph = what->graph;
    facts->node = traced->node;
    gs_issue issue = gs_issue_none();
    issue.id = id;
    issue.id_is_number = true;
    issue.facts = facts;
    issue.at_ns = traced->at_ns - maker->zero_ns;
    issue.start_ns = traced->start_ns - maker->zero_ns;
    issue.end_ns = traced->end_ns - maker->zero_ns;
    return issue;
}

/* Adds the edges of the last added work, which has this number. Those between GPUs are between runs, and left out. */
static gs_code add_edges(struct maker *maker, gs_run *run, size_t index, gs_issue *issue, gs_error *error) {
    const struct dependences *all = &maker->dependences;
    const gs_traced *traced = maker->collection->traced.data;
    gs_code code = GS_OK;
    size_t first = maker->next_dependence;
    for (; maker->next_dependence < all->count && all->data[maker->next_dependence].waits == index && code == GS_OK;
         maker->next_dependence++) {
        uint32_t at = all->data[maker->next_dependence].other;
        bool is_repeated = maker->next_dependence > first && all->data[maker->next_dependence - 1].other == at;
        gs_edge edge = {.number = traced[at].number, .is_copy = traced[at].what->op != GS_TRACED_LAUNCH};
        bool is_here = traced[at].what->device == traced[index].what->device;
        maker->collection->waits_between_gpus += !is_here && !is_repeated;
        if (is_here && !is_repeated)
            code = gs_run_add_edge(run, issue, edge, error);
    }
    return code;
}

static gs_launch launch_of(const gs_traced_what *what, const gs_traced_stream *stream, gs_launch_facts *facts) {
    gs_launch launch = gs_launch_default();
    launch.kernel = (char *)what->name; /* strings are copied */
    launch.blocks = (int64_t)what->grid[0] * what->grid[1] * what->grid[2];
    launch.shape.threads = what->block[0] * what->block[1] * what->block[2];
    launch.shape.registers = what->registers;
    launch.shape.shared_bytes = what->shared_bytes;
    launch.shape.local_bytes = what->local_bytes;
    launch.priority = what->priority;
    launch.stream = (char *)stream->name;
    launch.stream_is_number = stream->is_number;
    memcpy(facts->grid, what->grid, sizeof facts->grid);
    memcpy(facts->block, what->block, sizeof facts->block);
    facts->is_cooperative = what->is_cooperative;
    facts->static_shared_bytes = what->static_shared_bytes;
    facts->shared_config_bytes = what->shared_config_bytes;
    return launch;
}

static gs_copy copy_of(const gs_traced_what *what, const gs_traced_stream *stream) {
    return (gs_copy){.is_memset = what->op == GS_TRACED_MEMSET,
                     .kind = (uint8_t)what->copy_kind,
                     .stream = (char *)stream->name,
                     .stream_is_number = stream->is_number,
                     .bytes = what->bytes};
}

static gs_code add_traced(struct maker *maker, size_t index, gs_error *error) {
    gs_traced *traced = &maker->collection->traced.data[index];
    const gs_traced_what *what = traced->what;
    gs_traced_stream *stream = &maker->collection->streams.data[traced->stream_number];
    gs_run *run = run_of(maker, what->device, error);
    if (!run)
        return GS_E_MEMORY;
    if (!*stream->name)
        name_stream(maker->collection, stream);
    char id[24];
    snprintf(id, sizeof id, "%zu", run->launches.count + run->copies.count + 1);
    gs_launch_facts facts = gs_launch_facts_none();
    gs_issue issue = issue_of(maker, traced, id, &facts), *added;
    gs_code code;
    if (what->op == GS_TRACED_LAUNCH) {
        gs_launch launch = launch_of(what, stream, &facts);
        launch.issue = issue;
        traced->number = (uint32_t)run->launches.count;
        code = gs_run_copy_launch(run, &launch, error);
        added = code == GS_OK ? &run->launches.data[traced->number].issue : NULL;
    } else {
        gs_copy copy = copy_of(what, stream);
        copy.issue = issue;
        traced->number = (uint32_t)run->copies.count;
        code = gs_run_add_copy(run, &copy, error);
        added = code == GS_OK ? &run->copies.data[traced->number].issue : NULL;
    }
    return code == GS_OK ? add_edges(maker, run, index, added, error) : code;
}

#define MOST_NS ((int64_t)1000000000 * 1000000) /* the times of a run are limited */

/* A trace that spans more than eleven days has times of different clocks. */
static gs_code check_span(const gs_collection *collection, int64_t zero_ns, gs_error *error) {
    for (size_t i = 0; i < collection->traced.count; i++) {
        const gs_traced *traced = &collection->traced.data[i];
        if (traced->end_ns - zero_ns > MOST_NS || traced->at_ns - zero_ns > MOST_NS)
            return gs_fail(error, GS_E_FORMAT, "the times of the trace are more than eleven days apart");
    }
    return GS_OK;
}

static int64_t earliest_start(const gs_collection *collection) {
    int64_t zero_ns = collection->traced.count ? collection->traced.data[0].at_ns : 0;
    for (size_t i = 0; i < collection->traced.count; i++)
        zero_ns = gs_min(zero_ns, collection->traced.data[i].start_ns);
    return zero_ns;
}

/* The named ranges, without those that ended before the first operation. */
static gs_code add_ranges(const struct maker *maker, gs_run *run, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < maker->collection->ranges.count && code == GS_OK; i++) {
        const gs_traced_range *range = &maker->collection->ranges.data[i];
        int64_t from_ns = gs_max(0, range->from_ns - maker->zero_ns), to_ns = range->to_ns - maker->zero_ns;
        if (to_ns > from_ns && to_ns <= MOST_NS)
            code = gs_run_add_range(run, range->name, from_ns, to_ns, error);
    }
    return code;
}

gs_code gs_collect_runs(gs_collection *collection, int64_t device, gs_imported *imported, gs_error *error) {
    gs_code code = GS_OK;
    if (collection->missing[GS_TRACE_CONTEXT] || collection->missing[GS_TRACE_PROCESS])
        code = merge_streams(collection, error);
    if (code != GS_OK)
        return code;
    set_times(collection);
    struct maker maker = {.collection = collection,
                          .imported = imported,
                          .first_run = imported->count,
                          .zero_ns = earliest_start(collection)};
    code = check_span(collection, maker.zero_ns, error);
    if (code == GS_OK)
        code = find_dependences(collection, &maker.dependences, error);
    for (size_t i = 0; i < collection->traced.count && code == GS_OK; i++) {
        if (device == GS_NOT_GIVEN || collection->traced.data[i].what->device == device)
            code = add_traced(&maker, i, error);
        while (maker.next_dependence < maker.dependences.count &&
               maker.dependences.data[maker.next_dependence].waits <= i)
            maker.next_dependence++;
    }
    free(maker.dependences.data);
    for (size_t i = maker.first_run; i < imported->count && code == GS_OK; i++) {
        imported->data[i]->has_ended = true;
        code = add_ranges(&maker, imported->data[i], error);
    }
    return code;
}
