/*
 * host_order.c: the calls of the program in order: streams, events, and the dependencies of each launch.
 *
 * A launch waits for the launch before it in its stream. That is implicit, except after a graph, whose nodes run
 * concurrently: then the launch names the last nodes. It also waits for events: cuEventRecord lets an event stand for
 * the work of its stream so far, and cuStreamWaitEvent makes the next launch of another stream wait for that. The
 * default stream waits for all streams that are not "non-blocking", and they wait for it.
 *
 * Of each stream only the latest launch to wait for counts: there is one wait per stream (struct wait). So a stream
 * without launches, which only waits and is waited for, does not grow.
 *
 * Calls between the beginning and the end of a capture launch nothing: they make a graph. A stream that waits for an
 * event of a captured stream is captured with it.
 *
 * Launches have different times, in the order of the calls, so that readers can sort them; the nodes of a graph are a
 * nanosecond apart.
 *
 * A launch is kept until its record arrives. Launches without a record (a copy of 0 bytes) are dropped after some time.
 */
#include "recorder.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_WAITING = 1 << 21 };
#define OLD_NS    10000000000
#define FORGET_NS 1000000000 /* not often, because all launches are checked */

typedef struct ids {
    uint64_t *data;
    uint32_t count, capacity;
} ids;

/* A wait for the work of a stream up to some time. */
struct wait {
    uint32_t stream;
    ids ids;
};

typedef struct waits {
    struct wait *data;
    uint32_t count, capacity;
} waits;

struct stream {
    void *context;
    bool is_null, is_blocking;
    bool is_behind_graph; /* the last launch is a graph */
    int priority;
    uint64_t capture;   /* 0: not capturing */
    ids last;           /* the last launch, or the last nodes of a graph */
    waits waits;        /* of the next launch */
    uint64_t seen_null; /* the launch of the default stream that the last launch waits for */
    uint64_t null_saw;  /* the launch of this stream that the last one of the default stream waits for */
};

struct event {
    uint64_t capture;
    waits waits;
};

struct gs_host_order {
    uint64_t next_id, next_capture;
    int64_t latest_ns; /* the time of the latest launch */
    struct stream *streams;
    uint32_t stream_count, stream_capacity;
    gs_number_map stream_numbers; /* of a handle, plus 1 */
    ids nulls, blocking;          /* the numbers of default streams, and of those that wait for them */
    struct event *events;
    uint32_t event_count, event_capacity;
    gs_number_map event_numbers;
    uint32_t *free_events;
    uint32_t free_event_count, free_event_capacity;
    gs_number_map launch_numbers; /* of a correlation id, plus 1 */
    gs_host_launch *launches;
    uint32_t launch_count, launch_capacity, free_launch; /* free ones form a list: `left` is the next, plus 1 */
    uint64_t forgotten;
    int64_t forgot_ns;   /* when that was last done */
    gs_number_map execs; /* of an executable graph: its gs_graph_shape */
};

/* ---- arrays ---- */

static bool grow_array(void **data, uint32_t *capacity, uint32_t wanted, size_t size) {
    if (wanted <= *capacity)
        return true;
    uint32_t larger = *capacity * 2 > wanted ? *capacity * 2 : wanted;
    void *grown = realloc(*data, larger * size);
    if (!grown)
        return false;
    memset((char *)grown + *capacity * size, 0, (larger - *capacity) * size);
    *data = grown;
    *capacity = larger;
    return true;
}
#define GROW(list, wanted) grow_array((void **)&(list)->data, &(list)->capacity, (wanted), sizeof *(list)->data)

static void ids_copy(ids *to, const ids *from) {
    to->count = 0;
    if (!from->count || !GROW(to, from->count))
        return;
    memcpy(to->data, from->data, from->count * sizeof *from->data);
    to->count = from->count;
}

static void ids_set(ids *list, uint64_t id) {
    list->count = 0;
    if (GROW(list, 1))
        list->data[list->count++] = id;
}

/* Adds a wait for a stream; a later one replaces an earlier one. */
static void waits_add(waits *list, uint32_t stream, const ids *wanted) {
    struct wait *found = NULL;
    for (uint32_t i = 0; i < list->count && !found; i++)
        if (list->data[i].stream == stream)
            found = &list->data[i];
    if (!found && GROW(list, list->count + 1)) {
        found = &list->data[list->count++];
        found->stream = stream;
        found->ids.count = 0;
    }
    if (found && (!found->ids.count || (wanted->count && wanted->data[0] > found->ids.data[0])))
        ids_copy(&found->ids, wanted);
}

static void waits_free(waits *list) {
    for (uint32_t i = 0; i < list->capacity; i++)
        free(list->data[i].ids.data);
    free(list->data);
}

/* ---- streams and events ---- */

/* Handles of streams: 0 and 1 are the default stream, 2 that of the thread. */
enum { LEGACY_STREAM = 1, THREAD_STREAM = 2 };

static uint64_t stream_key(const gs_host_call *call, bool *is_null) {
    static _Thread_local char thread;
    uint64_t handle = call->call->stream_at == GS_STREAM_NONE ? 0 : (uint64_t)(uintptr_t)call->stream;
    if (handle > THREAD_STREAM)
        return handle;
    *is_null = handle == LEGACY_STREAM || (handle == 0 && !call->call->per_thread);
    return *is_null ? (uint64_t)(uintptr_t)call->context | 1 : ((uint64_t)(uintptr_t)&thread << 1 | 1);
}

static void ids_add(ids *list, uint64_t id) {
    if (GROW(list, list->count + 1))
        list->data[list->count++] = id;
}

static uint32_t new_stream(gs_host_order *order, uint64_t key, const struct stream *like) {
    uint64_t *number = gs_number_map_add(&order->stream_numbers, key);
    if (!number ||
        !grow_array((void **)&order->streams, &order->stream_capacity, order->stream_count + 1, sizeof *order->streams))
        return UINT32_MAX;
    *number = ++order->stream_count;
    order->streams[*number - 1] = *like;
    if (like->is_null || like->is_blocking)
        ids_add(like->is_null ? &order->nulls : &order->blocking, *number - 1);
    return (uint32_t)*number - 1;
}

static uint32_t find_stream(gs_host_order *order, const gs_host_call *call) {
    bool is_null = false;
    uint64_t key = stream_key(call, &is_null);
    const uint64_t *number = gs_number_map_find(&order->stream_numbers, key);
    if (number)
        return (uint32_t)*number - 1;
    return new_stream(order, key,
                      &(struct stream){.context = call->context, .is_null = is_null, .is_blocking = !is_null});
}

/* A destroyed stream: its number is not reused, because others may wait for its work. */
static void free_stream(gs_host_order *order, void *handle) {
    const uint64_t *number = gs_number_map_find(&order->stream_numbers, (uint64_t)(uintptr_t)handle);
    for (uint32_t i = 0; number && i < order->blocking.count; i++)
        if (order->blocking.data[i] == *number - 1)
            order->blocking.data[i--] = order->blocking.data[--order->blocking.count];
    gs_number_map_remove(&order->stream_numbers, (uint64_t)(uintptr_t)handle);
}

void gs_host_order_stream_new(gs_host_order *order, void *context, void *stream, bool is_blocking, int priority) {
    free_stream(order, stream);
    new_stream(order, (uint64_t)(uintptr_t)stream,
               &(struct stream){.context = context, .is_blocking = is_blocking, .priority = priority});
}

static struct event *find_event(gs_host_order *order, void *handle, bool make) {
    uint64_t *number = make ? gs_number_map_add(&order->event_numbers, (uint64_t)(uintptr_t)handle)
                            : gs_number_map_find(&order->event_numbers, (uint64_t)(uintptr_t)handle);
    if (!number)
        return NULL;
    if (!*number && order->free_event_count)
        *number = order->free_events[--order->free_event_count] + 1u;
    if (!*number) {
        if (!grow_array((void **)&order->events, &order->event_capacity, order->event_count + 1,
                        sizeof *order->events)) {
            gs_number_map_remove(&order->event_numbers, (uint64_t)(uintptr_t)handle);
            return NULL;
        }
        *number = ++order->event_count;
    }
    return &order->events[*number - 1];
}

static void free_event(gs_host_order *order, void *handle) {
    uint64_t *number = gs_number_map_find(&order->event_numbers, (uint64_t)(uintptr_t)handle);
    if (!number)
        return;
    order->events[*number - 1].waits.count = 0;
    order->events[*number - 1].capture = 0;
    if (grow_array((void **)&order->free_events, &order->free_event_capacity, order->free_event_count + 1,
                   sizeof *order->free_events))
        order->free_events[order->free_event_count++] = (uint32_t)*number - 1;
    gs_number_map_remove(&order->event_numbers, (uint64_t)(uintptr_t)handle);
}

/* The event stands for the work of the stream, and for its pending waits. */
static void record_event(gs_host_order *order, uint32_t number, void *handle) {
    struct event *event = find_event(order, handle, true);
    const struct stream *stream = &order->streams[number];
    if (!event)
        return;
    event->capture = stream->capture;
    event->waits.count = 0;
    if (stream->capture)
        return;
    for (uint32_t i = 0; i < stream->waits.count; i++)
        waits_add(&event->waits, stream->waits.data[i].stream, &stream->waits.data[i].ids);
    if (stream->last.count)
        waits_add(&event->waits, number, &stream->last);
}

static void wait_event(gs_host_order *order, uint32_t number, void *handle) {
    const struct event *event = find_event(order, handle, false);
    struct stream *stream = &order->streams[number];
    if (!event)
        return;
    if (event->capture) {
        stream->capture = event->capture;
        return;
    }
    for (uint32_t i = 0; i < event->waits.count; i++)
        if (event->waits.data[i].stream != number)
            waits_add(&stream->waits, event->waits.data[i].stream, &event->waits.data[i].ids);
}

static void end_capture(gs_host_order *order, uint64_t capture) {
    for (uint32_t i = 0; i < order->stream_count && capture; i++)
        if (order->streams[i].capture == capture)
            order->streams[i].capture = 0;
}

/* ---- launches ---- */

/* Drops launches whose records have not arrived for long. Returns how many. */
static size_t forget_old(gs_host_order *order, int64_t now_ns) {
    gs_number_map kept = {0};
    size_t forgotten = 0;
    if (now_ns - order->forgot_ns < FORGET_NS)
        return 0;
    order->forgot_ns = now_ns;
    for (size_t i = 0; i < order->launch_numbers.capacity; i++) {
        struct gs_number_entry pair = order->launch_numbers.slots[i];
        if (!pair.key)
            continue;
        gs_host_launch *launch = &order->launches[pair.value - 1];
        if (now_ns - launch->at_ns < OLD_NS) {
            uint64_t *value = gs_number_map_add(&kept, pair.key);
            if (value)
                *value = pair.value;
            continue;
        }
        gs_host_launch_clear(launch);
        launch->left = order->free_launch;
        order->free_launch = (uint32_t)pair.value;
        forgotten++;
    }
    gs_number_map_clear(&order->launch_numbers);
    order->launch_numbers = kept;
    order->forgotten += forgotten;
    return forgotten;
}

/* A slot for a launch, found by its correlation id. */
static gs_host_launch *new_launch(gs_host_order *order, uint32_t correlation, int64_t now_ns) {
    if (order->launch_numbers.count >= MOST_WAITING && !forget_old(order, now_ns))
        return NULL;
    uint64_t *number = gs_number_map_add(&order->launch_numbers, correlation);
    if (!number)
        return NULL;
    if (order->free_launch) {
        *number = order->free_launch;
        order->free_launch = order->launches[*number - 1].left;
    } else if (grow_array((void **)&order->launches, &order->launch_capacity, order->launch_count + 1,
                          sizeof *order->launches)) {
        *number = ++order->launch_count;
    } else {
        gs_number_map_remove(&order->launch_numbers, correlation);
        return NULL;
    }
    order->launches[*number - 1] = (gs_host_launch){0};
    return &order->launches[*number - 1];
}

static void add_after(gs_host_launch *launch, const ids *wanted) {
    size_t count = launch->after_count + (size_t)wanted->count;
    uint64_t *grown = wanted->count ? realloc(launch->after, count * sizeof *grown) : NULL;
    if (!grown)
        return;
    memcpy(grown + launch->after_count, wanted->data, wanted->count * sizeof *grown);
    launch->after = grown;
    launch->after_count = (uint32_t)count;
}

/* The default stream and the streams that block wait for each other. */
static void wait_default(gs_host_order *order, uint32_t number, gs_host_launch *launch) {
    struct stream *stream = &order->streams[number];
    const ids *others = stream->is_null ? &order->blocking : &order->nulls;
    for (uint32_t i = 0; i < others->count && (stream->is_null || stream->is_blocking); i++) {
        struct stream *other = &order->streams[others->data[i]];
        uint64_t *seen = stream->is_null ? &other->null_saw : &stream->seen_null;
        if (other->context != stream->context || !other->last.count || *seen == other->last.data[0])
            continue;
        *seen = other->last.data[0];
        add_after(launch, &other->last);
    }
}

/* The ids of a graph's last nodes. */
static void last_nodes(ids *list, uint64_t first, const gs_graph_shape *shape) {
    list->count = 0;
    for (uint32_t i = 0; i < shape->count && GROW(list, shape->last_count + 1); i++)
        if (shape->nodes[i].is_last)
            list->data[list->count++] = first + i;
}

/* The shape of the graph that a call launches; NULL: no graph, one without nodes, or an unknown one.
 */
static gs_graph_shape *shape_of(const gs_host_order *order, const gs_host_call *call) {
    const uint64_t *exec =
        call->call->kind == GS_CALL_GRAPH ? gs_number_map_find(&order->execs, (uint64_t)(uintptr_t)call->other) : NULL;
    gs_graph_shape *shape = exec ? (gs_graph_shape *)(uintptr_t)*exec : NULL;
    return shape && shape->count ? shape : NULL;
}

/* The dependencies of a launch, besides the one before it in its stream. */
static void collect_waits(gs_host_order *order, uint32_t number, gs_host_launch *launch) {
    struct stream *stream = &order->streams[number];
    if (launch->is_graph || stream->is_behind_graph)
        add_after(launch, &stream->last);
    for (uint32_t i = 0; i < stream->waits.count; i++)
        add_after(launch, &stream->waits.data[i].ids);
    stream->waits.count = 0;
    wait_default(order, number, launch);
}

static void make_launch(gs_host_order *order, uint32_t number, const gs_host_call *call, gs_host_launch *made) {
    struct stream *stream = &order->streams[number];
    gs_graph_shape *shape = shape_of(order, call);
    uint32_t count = shape ? shape->count : 1;
    *made = (gs_host_launch){
        .id = order->next_id,
        .before = stream->last.count == 1 ? stream->last.data[0] : 0,
        .at_ns = call->at_ns > order->latest_ns ? call->at_ns : order->latest_ns + 1,
        .shape = shape,
        .stream = number,
        .left = shape ? count : 0,
        .priority = stream->priority,
        .is_graph = call->call->kind == GS_CALL_GRAPH,
        .is_programmatic = call->is_programmatic && !stream->is_behind_graph && stream->last.count == 1,
    };
    collect_waits(order, number, made);
    order->next_id += count;
    order->latest_ns = made->at_ns + count - 1;
    if (shape) {
        shape->references++;
        last_nodes(&stream->last, made->id, shape);
    } else {
        ids_set(&stream->last, made->id);
    }
    stream->is_behind_graph = made->is_graph;
}

/* Handles a call that launches nothing; otherwise returns false, and the number of its stream. */
static bool follow_call(gs_host_order *order, const gs_host_call *call, uint32_t *number) {
    if (call->call->kind == GS_CALL_EVENT_FREE) {
        free_event(order, call->other);
        return true;
    }
    if (call->call->kind == GS_CALL_STREAM_FREE) {
        free_stream(order, call->stream);
        return true;
    }
    *number = find_stream(order, call);
    if (*number == UINT32_MAX)
        return true;
    struct stream *stream = &order->streams[*number];
    switch (call->call->kind) {
    case GS_CALL_EVENT_RECORD:
        record_event(order, *number, call->other);
        return true;
    case GS_CALL_EVENT_WAIT:
        wait_event(order, *number, call->other);
        return true;
    case GS_CALL_BEGIN_CAPTURE:
        stream->capture = ++order->next_capture;
        return true;
    case GS_CALL_END_CAPTURE:
        end_capture(order, stream->capture);
        return true;
    default:
        return stream->capture;
    }
}

uint64_t gs_host_order_call(gs_host_order *order, const gs_host_call *call) {
    uint32_t number;
    gs_host_launch *made = follow_call(order, call, &number) ? NULL : new_launch(order, call->correlation, call->at_ns);
    if (!made)
        return 0;
    make_launch(order, number, call, made);
    return made->id;
}

bool gs_host_order_call_now(gs_host_order *order, const gs_host_call *call, gs_host_launch *made) {
    uint32_t number;
    if (follow_call(order, call, &number))
        return false;
    make_launch(order, number, call, made);
    return true;
}

/* Frees the slot of a launch. */
static void forget_pending(gs_host_order *order, uint32_t correlation, uint64_t number) {
    order->launches[number - 1] = (gs_host_launch){.left = order->free_launch};
    order->free_launch = (uint32_t)number;
    gs_number_map_remove(&order->launch_numbers, correlation);
}

void gs_host_order_failed_now(gs_host_order *order, gs_host_launch *failed) {
    for (uint32_t i = 0; i < order->stream_count; i++)
        if (order->streams[i].last.count && order->streams[i].last.data[0] == failed->id)
            order->streams[i].last.count = 0;
    gs_host_launch_clear(failed);
}

void gs_host_order_failed(gs_host_order *order, uint32_t correlation) {
    const uint64_t *number = gs_number_map_find(&order->launch_numbers, correlation);
    if (!number)
        return;
    gs_host_order_failed_now(order, &order->launches[*number - 1]);
    forget_pending(order, correlation, *number);
}

void gs_host_order_exec(gs_host_order *order, void *exec, gs_graph_shape *shape) {
    uint64_t *found = gs_number_map_find(&order->execs, (uint64_t)(uintptr_t)exec);
    if (found)
        gs_graph_shape_release((gs_graph_shape *)(uintptr_t)*found);
    if (!shape) {
        gs_number_map_remove(&order->execs, (uint64_t)(uintptr_t)exec);
        return;
    }
    found = gs_number_map_add(&order->execs, (uint64_t)(uintptr_t)exec);
    if (found)
        *found = (uint64_t)(uintptr_t)shape;
    else
        gs_graph_shape_release(shape);
}

/* ---- records ---- */

/* The position of a node, by its id in the executable graph. Records of nodes of a nested graph have ids that CUPTI did
   not report: the executable graph is flat. Their records arrive in order, so the first belongs to the first position
   without an id. */
static const gs_shape_node *find_node(gs_graph_shape *shape, uint64_t node) {
    uint64_t *found = gs_number_map_find(&shape->positions, node);
    for (uint32_t i = 0; i < shape->count && !found; i++)
        if (!shape->nodes[i].has_exec_id && (found = gs_number_map_add(&shape->positions, node))) {
            *found = i + 1;
            shape->nodes[i].has_exec_id = true;
        }
    return found ? &shape->nodes[*found - 1] : NULL;
}

void gs_host_launch_node(const gs_host_launch *launch, const gs_shape_node *found, gs_host_launch *taken) {
    *taken = *launch;
    taken->after = NULL;
    taken->after_count = 0;
    taken->node = found;
    if (found) {
        uint32_t position = (uint32_t)(found - launch->shape->nodes);
        taken->id += position;
        taken->at_ns += position;
        taken->priority = found->priority;
    }
    if (launch->shape)
        launch->shape->references++;
    if ((!found || !found->after_count) && launch->after_count &&
        (taken->after = malloc(launch->after_count * sizeof *taken->after))) {
        memcpy(taken->after, launch->after, launch->after_count * sizeof *taken->after);
        taken->after_count = launch->after_count;
    }
}

/* Takes one node of a graph launch. The launch stays until the last one. */
static void take_node(gs_host_order *order, gs_host_launch *launch, uint64_t node, gs_host_launch *taken) {
    const gs_shape_node *found = launch->shape ? find_node(launch->shape, node) : NULL;
    gs_host_launch_node(launch, found, taken);
    /* The id of an unreadable graph goes to its first node. */
    if (!found && (launch->shape || launch->left++))
        taken->id = order->next_id++;
}

bool gs_host_order_take(gs_host_order *order, uint32_t correlation, uint64_t node, gs_host_launch *launch) {
    const uint64_t *number = gs_number_map_find(&order->launch_numbers, correlation);
    if (!number)
        return false;
    gs_host_launch *found = &order->launches[*number - 1];
    if (!found->is_graph) {
        *launch = *found;
        forget_pending(order, correlation, *number);
        return true;
    }
    take_node(order, found, node, launch);
    if (found->shape && --found->left == 0) {
        gs_host_launch_clear(found);
        forget_pending(order, correlation, *number);
    }
    return true;
}

void gs_host_launch_clear(gs_host_launch *launch) {
    free(launch->after);
    gs_graph_shape_release(launch->shape);
    *launch = (gs_host_launch){0};
}

uint64_t gs_host_order_new_id(gs_host_order *order) {
    return order->next_id++;
}

uint64_t gs_host_order_waiting(const gs_host_order *order) {
    return order->launch_numbers.count + order->forgotten;
}

/* ---- making and freeing ---- */

gs_host_order *gs_host_order_new(void) {
    gs_host_order *order = calloc(1, sizeof *order);
    if (order)
        order->next_id = 1;
    return order;
}

void gs_host_order_free(gs_host_order *order) {
    if (!order)
        return;
    for (uint32_t i = 0; i < order->stream_count; i++) {
        free(order->streams[i].last.data);
        waits_free(&order->streams[i].waits);
    }
    for (uint32_t i = 0; i < order->event_count; i++)
        waits_free(&order->events[i].waits);
    for (uint32_t i = 0; i < order->launch_count; i++)
        gs_host_launch_clear(&order->launches[i]);
    for (size_t i = 0; i < order->execs.capacity; i++)
        if (order->execs.slots[i].key)
            gs_graph_shape_release((gs_graph_shape *)(uintptr_t)order->execs.slots[i].value);
    gs_number_map_clear(&order->stream_numbers);
    gs_number_map_clear(&order->event_numbers);
    gs_number_map_clear(&order->launch_numbers);
    gs_number_map_clear(&order->execs);
    free(order->nulls.data);
    free(order->blocking.data);
    free(order->streams);
    free(order->events);
    free(order->free_events);
    free(order->launches);
    free(order);
}
