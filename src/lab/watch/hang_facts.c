/*
 * hang_facts.c: what hangs: unfinished streams and their heads, kernels. See hang.h.
 *
 * The page is a copy of memory that the program can write, so numbers in it are checked.
 */
#include "hang.h"

#include <stdlib.h>
#include <string.h>

const gs_watch_operation *gs_hang_operation(const gs_watch_stream *stream, uint64_t number) {
    const gs_watch_operation *found = &stream->operations[number % GS_WATCH_OPERATIONS];
    return found->number == number && found->kind != GS_WATCH_NONE ? found : NULL;
}

gs_hang_stream *gs_hang_stream_of(const gs_hang *hang, uint32_t place) {
    for (size_t i = 0; i < hang->streams.count; i++)
        if (hang->streams.data[i].place == place)
            return &hang->streams.data[i];
    return NULL;
}

bool gs_hang_waits_for_event(const gs_hang *hang, const gs_watch_operation *operation) {
    if (operation->kind != GS_WATCH_WAIT_EVENT || !operation->other || operation->other > GS_WATCH_STREAMS)
        return false;
    return operation->until > atomic_load(&hang->page->streams[operation->other - 1].done);
}

const gs_hang_kernel *gs_hang_kernel_of(const gs_hang *hang, const gs_watch_operation *operation) {
    for (size_t i = 0; i < hang->kernels.count; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        if (kernel->operation == operation || (kernel->graph == operation && kernel->is_head))
            return kernel;
    }
    return NULL;
}

gs_hang_kernel *gs_hang_first_head(const gs_hang *hang) {
    for (size_t i = 0; i < hang->kernels.count; i++)
        if (hang->kernels.data[i].is_head)
            return &hang->kernels.data[i];
    return NULL;
}

/* ---- the heads of streams ---- */

/* How surely a stream stands at an operation. */
enum { NEVER, ENDS, MAY_BE_LONG, MAY_WAIT, WAITED_BEFORE, WAITS };

static int weight_of_kernel(const gs_hang_kernel *kernel) {
    enum { TRIES = GS_SASS_CODE_READS | GS_SASS_CODE_RETRIES | GS_SASS_CODE_POLLS_SHARED | GS_SASS_CODE_ENDLESS };
    if (kernel->code & GS_SASS_CODE_WAITS || kernel->operation->collective)
        return kernel->is_older ? WAITED_BEFORE : WAITS;
    if (kernel->is_older)
        return NEVER;
    if (kernel->code & TRIES)
        return MAY_WAIT;
    return kernel->code == GS_SASS_CODE_KNOWN ? ENDS : MAY_BE_LONG;
}

/* The weights that are known, by the places of streams and operations; UNKNOWN: not yet. */
enum { UNKNOWN = -1, PLACES = GS_WATCH_STREAMS * GS_WATCH_OPERATIONS };

static size_t place_of(uint32_t stream, uint64_t number) {
    return (size_t)stream * GS_WATCH_OPERATIONS + number % GS_WATCH_OPERATIONS;
}

static int weight_at(const gs_hang *hang, signed char *known, uint32_t stream, uint64_t number);

/* A stream stands at a wait for an event as surely as the other stream stands at something before that event. */
static int weight_of_event(const gs_hang *hang, signed char *known, const gs_watch_operation *wait) {
    uint32_t other = wait->other - 1;
    int weight = wait->other ? NEVER : ENDS; /* of another process, perhaps */
    if (!gs_hang_waits_for_event(hang, wait))
        return weight;
    uint64_t issued = atomic_load(&hang->page->streams[other].issued);
    uint64_t done = atomic_load(&hang->page->streams[other].done);
    uint64_t kept = issued > GS_WATCH_OPERATIONS ? issued - GS_WATCH_OPERATIONS : 0;
    for (uint64_t number = gs_max_u64(done, kept) + 1; number <= wait->until && number <= issued; number++)
        weight = (int)gs_max(weight, weight_at(hang, known, other, number));
    for (size_t i = 0; i < hang->kernels.count; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        if (kernel->is_older && kernel->stream == other && kernel->operation->number <= wait->until)
            weight = (int)gs_max(weight, weight_of_kernel(kernel));
    }
    return weight;
}

/* Of all but kernels. */
static int weight_of(const gs_hang *hang, signed char *known, const gs_watch_operation *operation) {
    uint8_t phase = atomic_load(&operation->phase);
    switch (operation->kind) {
    case GS_WATCH_WAIT_EVENT:
        return weight_of_event(hang, known, operation);
    case GS_WATCH_WAIT_VALUE:
        return WAITS;
    case GS_WATCH_HOST_FUNCTION:
        return phase == 1 ? WAITS : phase == 0 ? ENDS : NEVER;
    case GS_WATCH_GRAPH:
        return MAY_BE_LONG;
    case GS_WATCH_COPIES:
        return ENDS;
    default:
        return NEVER;
    }
}

static void propose_head(gs_hang_stream *stream, const gs_watch_operation *operation, int weight) {
    bool is_before = stream->head && operation->number < stream->head->number;
    if (weight == NEVER || (weight == stream->weight && !is_before) || weight < stream->weight)
        return;
    stream->head = operation;
    stream->weight = weight;
}

/* Each operation is looked at once. */
static int weight_at(const gs_hang *hang, signed char *known, uint32_t stream, uint64_t number) {
    const gs_watch_operation *operation = gs_hang_operation(&hang->page->streams[stream], number);
    signed char *weight = &known[place_of(stream, number)];
    if (operation && *weight == UNKNOWN) {
        *weight = NEVER; /* if a damaged page has a circle */
        *weight = (signed char)weight_of(hang, known, operation);
    }
    return operation ? *weight : NEVER;
}

static void weigh_kernels(const gs_hang *hang, signed char *known) {
    memset(known, UNKNOWN, PLACES);
    for (size_t i = 0; i < hang->kernels.count; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        signed char *weight = &known[place_of(kernel->stream, kernel->operation->number)];
        if (!kernel->is_older)
            *weight =
                (signed char)gs_max(*weight, gs_max(weight_of_kernel(kernel), kernel->graph ? MAY_BE_LONG : NEVER));
    }
}

static void propose_heads(gs_hang *hang, signed char *known) {
    for (size_t i = 0; i < hang->streams.count; i++) {
        gs_hang_stream *stream = &hang->streams.data[i];
        uint64_t issued = atomic_load(&stream->stream->issued);
        stream->head = NULL;
        stream->weight = NEVER;
        for (uint64_t number = stream->first; number <= issued; number++) {
            const gs_watch_operation *operation = gs_hang_operation(stream->stream, number);
            if (operation)
                propose_head(stream, operation, weight_at(hang, known, stream->place, number));
        }
        for (size_t k = 0; k < GS_WATCH_OLDER; k++) {
            const gs_watch_operation *older = &stream->stream->older[k];
            if (older->kind == GS_WATCH_WAIT_VALUE && older->number > atomic_load(&stream->stream->done) &&
                older->number < stream->first)
                propose_head(stream, older, WAITED_BEFORE);
        }
    }
    for (size_t i = 0; i < hang->kernels.count; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        gs_hang_stream *stream = gs_hang_stream_of(hang, kernel->stream);
        if (stream && kernel->is_older)
            propose_head(stream, kernel->operation, weight_of_kernel(kernel));
    }
}

/* A stream may as well stand at something long before its head. */
static void find_guesses(gs_hang *hang, signed char *known) {
    for (size_t i = 0; i < hang->streams.count; i++) {
        gs_hang_stream *stream = &hang->streams.data[i];
        stream->is_guess = false;
        for (uint64_t number = stream->first; stream->head && number < stream->head->number; number++)
            if (weight_at(hang, known, stream->place, number) >= MAY_BE_LONG)
                stream->is_guess = true;
    }
    for (size_t i = 0; i < hang->kernels.count; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        gs_hang_stream *stream = gs_hang_stream_of(hang, kernel->stream);
        if (stream && stream->head && kernel->is_older && kernel->operation->number < stream->head->number &&
            weight_of_kernel(kernel) >= MAY_BE_LONG)
            stream->is_guess = true;
    }
}

/* The kernel that is a head; of a graph, the first that is a reason to take it. */
static void mark_head_kernels(gs_hang *hang) {
    for (size_t i = 0; i < hang->kernels.count; i++)
        hang->kernels.data[i].is_head = false;
    for (size_t i = 0; i < hang->kernels.count; i++) {
        gs_hang_kernel *kernel = &hang->kernels.data[i];
        const gs_hang_stream *stream = gs_hang_stream_of(hang, kernel->stream);
        const gs_watch_operation *head = stream ? stream->head : NULL;
        kernel->is_head =
            head && (kernel->operation == head || (kernel->graph == head && !gs_hang_kernel_of(hang, head) &&
                                                   weight_of_kernel(kernel) == stream->weight));
    }
}

void gs_hang_find_heads(gs_hang *hang) {
    signed char known[PLACES];
    weigh_kernels(hang, known);
    propose_heads(hang, known);
    find_guesses(hang, known);
    mark_head_kernels(hang);
}

bool gs_hang_is_long(const gs_hang *hang) {
    size_t heads = 0;
    if (hang->has_dump || hang->cause == GS_HANG_HOST_FUNCTION)
        return !hang->has_dump && hang->host_state == 'R';
    for (size_t i = 0; i < hang->kernels.count; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        heads += kernel->is_head;
        if (kernel->is_head && (!kernel->code || kernel->code & GS_HANG_MAY_WAIT))
            return false;
    }
    if (!heads && hang->cause == GS_HANG_UNKNOWN)
        return gs_hang_compiles(hang);
    return heads && (hang->cause == GS_HANG_UNKNOWN || hang->cause == GS_HANG_WHOLE_GPU);
}

/* ---- streams ---- */

GS_ORDER(by_number, gs_hang_stream, number)

static gs_code find_streams(gs_hang *hang, gs_error *error) {
    for (uint32_t i = 0; i < GS_WATCH_STREAMS; i++) {
        const gs_watch_stream *stream = &hang->page->streams[i];
        uint64_t issued = atomic_load(&stream->issued), done = atomic_load(&stream->done);
        if (!atomic_load(&stream->handle) || issued <= done)
            continue;
        uint64_t kept = issued > GS_WATCH_OPERATIONS ? issued - GS_WATCH_OPERATIONS : 0;
        gs_hang_stream found = {
            .stream = stream, .place = i, .number = stream->number, .first = (uint64_t)gs_max_u64(done, kept) + 1};
        if (!GS_PUSH(&hang->streams, found))
            return gs_fail_memory(error);
    }
    if (hang->streams.count)
        qsort(hang->streams.data, hang->streams.count, sizeof *hang->streams.data, by_number);
    return GS_OK;
}

/* ---- kernels ---- */

GS_ORDER_THEN(by_time, gs_hang_kernel, operation->at_ns, place)

static gs_code add_kernel(gs_hang *hang, const gs_hang_stream *stream, const gs_watch_operation *operation,
                          const gs_watch_operation *graph, gs_error *error) {
    gs_hang_kernel kernel = {.operation = operation,
                             .graph = graph,
                             .stream = stream->place,
                             .stream_number = stream->number,
                             .grid = GS_DUMP_NONE,
                             .is_older = operation->number < stream->first};
    if (operation->function && operation->function <= GS_WATCH_FUNCTIONS)
        kernel.function = &hang->page->functions[operation->function - 1];
    kernel.blocks = (int64_t)operation->shape[0] * operation->shape[1] * operation->shape[2];
    kernel.threads = (int64_t)operation->shape[3] * operation->shape[4] * operation->shape[5];
    kernel.name = kernel.function && kernel.function->name[0] ? gs_demangle(kernel.function->name, GS_NAME_ALONE)
                                                              : strdup("a kernel");
    if (!kernel.name)
        return gs_fail_memory(error);
    gs_make_printable(kernel.name);
    kernel.place = (uint32_t)hang->kernels.count;
    if (GS_PUSH(&hang->kernels, kernel))
        return GS_OK;
    free(kernel.name);
    return gs_fail_memory(error);
}

const gs_watch_graph *gs_hang_graph_of(const gs_hang *hang, const gs_watch_operation *operation) {
    for (size_t i = 0; i < GS_WATCH_GRAPHS && operation && operation->kind == GS_WATCH_GRAPH; i++)
        if (atomic_load(&hang->page->graphs[i].handle) == operation->object)
            return &hang->page->graphs[i];
    return NULL;
}

/* Each kernel of a graph, as an operation of its own. */
static gs_code add_graph(gs_hang *hang, const gs_hang_stream *stream, const gs_watch_operation *operation,
                         gs_error *error) {
    const gs_watch_graph *graph = gs_hang_graph_of(hang, operation);
    gs_code code = GS_OK;
    for (uint32_t i = 0; graph && i < gs_min(graph->kernel_count, GS_WATCH_GRAPH_KERNELS) && code == GS_OK; i++) {
        gs_watch_operation *node = calloc(1, sizeof *node);
        if (!node || !GS_PUSH(&hang->nodes, node)) {
            free(node);
            return gs_fail_memory(error);
        }
        node->kind = GS_WATCH_KERNEL;
        node->number = operation->number;
        node->at_ns = operation->at_ns;
        node->function = graph->kernels[i].function;
        node->shared_bytes = graph->kernels[i].shared_bytes;
        memcpy(node->shape, graph->kernels[i].shape, sizeof node->shape);
        code = add_kernel(hang, stream, node, operation, error);
    }
    return code;
}

static gs_code find_kernels_of(gs_hang *hang, const gs_hang_stream *stream, gs_error *error) {
    uint64_t issued = atomic_load(&stream->stream->issued), done = atomic_load(&stream->stream->done);
    gs_code code = GS_OK;
    for (size_t i = 0; i < GS_WATCH_OLDER && code == GS_OK; i++) {
        const gs_watch_operation *operation = &stream->stream->older[i];
        if (operation->kind == GS_WATCH_KERNEL && operation->number > done && operation->number < stream->first)
            code = add_kernel(hang, stream, operation, NULL, error);
    }
    for (uint64_t number = stream->first; number <= issued && code == GS_OK; number++) {
        const gs_watch_operation *operation = gs_hang_operation(stream->stream, number);
        if (operation && operation->kind == GS_WATCH_KERNEL)
            code = add_kernel(hang, stream, operation, NULL, error);
        if (operation && operation->kind == GS_WATCH_GRAPH)
            code = add_graph(hang, stream, operation, error);
    }
    return code;
}

static gs_code find_kernels(gs_hang *hang, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < hang->streams.count && code == GS_OK; i++)
        code = find_kernels_of(hang, &hang->streams.data[i], error);
    if (hang->kernels.count)
        qsort(hang->kernels.data, hang->kernels.count, sizeof *hang->kernels.data, by_time);
    return code;
}

gs_code gs_hang_find(gs_hang *hang, gs_watch_page *page, int64_t now_ns, int64_t after_ns, gs_error *error) {
    *hang = (gs_hang){.page = page, .now_ns = now_ns, .after_ns = after_ns, .dump = {.file = -1}};
    page->gpu[sizeof page->gpu - 1] = page->program[sizeof page->program - 1] = '\0';
    for (size_t i = 0; i < GS_WATCH_FUNCTIONS; i++)
        page->functions[i].name[GS_WATCH_NAME - 1] = '\0';
    for (size_t i = 0; i < GS_WATCH_CALLS; i++)
        page->calls[i].name[GS_WATCH_CALL_NAME - 1] = '\0';
    for (size_t i = 0; i < GS_WATCH_THREADS * GS_WATCH_FRAMES; i++)
        page->threads[i / GS_WATCH_FRAMES].stack[i % GS_WATCH_FRAMES][GS_WATCH_FRAME - 1] = '\0';
    hang->gpu = page->gpu[0] ? gs_gpu_open_called(page->gpu, page->sms) : NULL;
    gs_code code = find_streams(hang, error);
    if (code == GS_OK)
        code = find_kernels(hang, error);
    gs_hang_find_heads(hang);
    return code == GS_OK ? gs_hang_find_threads(hang, error) : code;
}

/* ---- the dump ---- */

/* By its shape, and its name where it is known; or by its name alone. */
static bool is_launch_of(const gs_hang *hang, const gs_hang_kernel *kernel, uint32_t number, bool by_name) {
    const gs_dump_grid *grid = &hang->dump.grids.data[number];
    const char *symbol = hang->places.kernels.data[number];
    const uint32_t *shape = kernel->operation->shape;
    bool has_name = symbol && kernel->function && kernel->function->name[0];
    bool has_shape =
        memcmp(grid->grid, shape, sizeof grid->grid) == 0 && memcmp(grid->block, shape + 3, sizeof grid->block) == 0;
    return (by_name ? has_name : has_shape) &&
           (!has_name || strncmp(symbol, kernel->function->name, GS_WATCH_NAME - 1) == 0);
}

static gs_hang_kernel *find_launch(gs_hang *hang, uint32_t number) {
    for (size_t i = 0; i < 2 * hang->kernels.count; i++) {
        gs_hang_kernel *kernel = &hang->kernels.data[i % hang->kernels.count];
        if (kernel->grid == GS_DUMP_NONE && is_launch_of(hang, kernel, number, i >= hang->kernels.count))
            return kernel;
    }
    return NULL;
}

static int by_grid(const void *a, const void *b) {
    const gs_dump_grid *const *one = a, *const *other = b;
    return GS_COMPARE((*one)->id, (*other)->id);
}

/* Grids have ids in their launch order, so each takes the first kernel that is like it and was not taken. */
static gs_code match_grids(gs_hang *hang, gs_error *error) {
    size_t count = hang->dump.grids.count;
    const gs_dump_grid **sorted = calloc(count + 1, sizeof *sorted);
    if (!sorted)
        return gs_fail_memory(error);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &hang->dump.grids.data[i];
    qsort(sorted, count, sizeof *sorted, by_grid);
    for (size_t i = 0; i < count; i++) {
        uint32_t number = (uint32_t)(sorted[i] - hang->dump.grids.data);
        gs_hang_kernel *kernel = find_launch(hang, number);
        if (!kernel)
            continue;
        kernel->grid = number;
        kernel->never_started = gs_max(0, sorted[i]->blocks - 1 - sorted[i]->last);
    }
    free(sorted);
    return GS_OK;
}

/* A stream is at its kernel in the dump: what was issued before it has ended, but for a programmatic launch. */
static void move_heads(gs_hang *hang) {
    for (size_t k = hang->kernels.count; k-- > 0;) {
        const gs_hang_kernel *kernel = &hang->kernels.data[k];
        for (size_t i = 0; kernel->grid != GS_DUMP_NONE && i < hang->streams.count; i++)
            if (hang->streams.data[i].place == kernel->stream) {
                hang->streams.data[i].first = kernel->operation->number;
                hang->streams.data[i].head = kernel->operation;
            }
    }
    for (size_t k = 0; k < hang->kernels.count; k++) {
        gs_hang_kernel *kernel = &hang->kernels.data[k];
        const gs_hang_stream *stream = gs_hang_stream_of(hang, kernel->stream);
        kernel->is_head = stream && stream->head == kernel->operation;
    }
}

gs_code gs_hang_add_dump(gs_hang *hang, const char *path, gs_error *error) {
    gs_code code = gs_dump_read(&hang->dump, path, error);
    if (code == GS_OK)
        code = gs_dump_find_places(&hang->dump, &hang->places, error);
    hang->has_dump = code == GS_OK;
    if (code == GS_OK)
        code = match_grids(hang, error);
    if (code == GS_OK)
        move_heads(hang);
    return code;
}

void gs_hang_free(gs_hang *hang) {
    for (size_t i = 0; i < hang->kernels.count; i++)
        free(hang->kernels.data[i].name);
    for (size_t i = 0; i < hang->fixes.count; i++)
        free(hang->fixes.data[i]);
    for (size_t i = 0; i < hang->nodes.count; i++)
        free(hang->nodes.data[i]);
    free(hang->nodes.data);
    free(hang->kernels.data);
    free(hang->streams.data);
    free(hang->threads.data);
    free(hang->fixes.data);
    free(hang->no_dump);
    gs_text_free(&hang->said);
    gs_dump_places_free(&hang->places);
    gs_dump_free(&hang->dump);
    gs_gpu_free(hang->gpu);
    free(hang->page);
    *hang = (gs_hang){.dump = {.file = -1}};
}
