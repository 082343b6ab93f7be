/*
 * gate_guard.c: launches long kernels of a best-effort program so that a request can stop them.
 *
 * In place of the kernel its twin (gate_twin.c) is launched, as a chain (gate_chain.c): the controls of its launches
 * are set, and then come the launches, with a wait for the board's flags before each but the first. The stop word of
 * all but the last one is the board's flags. Nothing behind the chain in its stream begins before the kernel is done.
 *
 * The chains of a stream are done one after the other, so they share their controls: a stream has a lane, with memory
 * for one chain. What a thread puts into a stream while another one launches a chain there may come between its
 * launches; it must not be another chain.
 */
#include "gate.h"

#include "gate_chain.h"
#include "gate_twin.h"
#include "kernels/sass/sass.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES = 256,       /* streams with long kernels; in further ones kernels are not stopped */
    SMS = 16,          /* an attribute of a device */
    LOOK_NS = 50000000 /* how often requests are counted */
};

#define PER_THREAD ((void *)2)

typedef struct gs_gate_lane {
    pthread_mutex_t lock; /* while a chain is launched */
    void *context, *stream;
    uint64_t thread;          /* of the default stream of a thread, else 0 */
    gs_gate_pointer controls; /* 0: the lane is not used */
    void *end;                /* of a stream that was destroyed: recorded behind its work */
} gs_gate_lane;

static struct guards {
    pthread_mutex_t lock;
    gs_gate_lane lanes[LANES];
    size_t count;
    uint64_t looked_ns;
    uint32_t requests;
    double requests_per_ns;
    gs_chain_budget budget;
} guards = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- lanes; under the lock ---- */

/* Never used again, other than the address of anything. */
static uint64_t thread_number(void) {
    static _Atomic uint64_t last;
    static _Thread_local uint64_t number;
    if (!number)
        number = atomic_fetch_add(&last, 1) + 1;
    return number;
}

/* A lane whose stream is gone, with all of its work. */
static gs_gate_lane *find_free(void) {
    for (size_t i = 0; i < guards.count; i++) {
        gs_gate_lane *lane = &guards.lanes[i];
        if (!lane->controls || (lane->end && gs_gate_real.cuEventQuery(lane->end) == GS_CUDA_OK))
            return lane;
    }
    if (guards.count == LANES)
        return NULL;
    pthread_mutex_init(&guards.lanes[guards.count].lock, NULL);
    return &guards.lanes[guards.count++];
}

static bool open_lane(gs_gate_lane *lane, void *context, void *stream, uint64_t thread) {
    enum { WORDS = sizeof(gs_guard_control) / sizeof(uint32_t) };
    if (lane->context != context)
        lane->controls = 0; /* that memory went with its context, or stays with it */
    if (!lane->controls &&
        gs_gate_real.cuMemAlloc_v2(&lane->controls, (GS_CHAIN_LAUNCHES + 1) * sizeof(gs_guard_control)) != GS_CUDA_OK)
        lane->controls = 0;
    lane->context = context;
    lane->stream = stream;
    lane->thread = thread;
    lane->end = NULL;
    if (lane->controls && gs_gate_real.cuMemsetD32Async(lane->controls, 0, WORDS, stream) != GS_CUDA_OK)
        lane->controls = 0;
    return lane->controls;
}

static gs_gate_lane *find_lane(void *stream) {
    void *context = NULL;
    uint64_t thread = stream == PER_THREAD ? thread_number() : 0;
    if (gs_gate_real.cuCtxGetCurrent(&context) != GS_CUDA_OK)
        return NULL;
    for (size_t i = 0; i < guards.count; i++) {
        gs_gate_lane *lane = &guards.lanes[i];
        if (lane->controls && !lane->end && lane->stream == stream && lane->context == context &&
            lane->thread == thread)
            return lane;
    }
    gs_gate_lane *lane = find_free();
    return lane && open_lane(lane, context, stream, thread) ? lane : NULL;
}

void gs_gate_guard_stream_ends(void *stream) {
    pthread_mutex_lock(&guards.lock);
    for (size_t i = 0; i < guards.count; i++) {
        gs_gate_lane *lane = &guards.lanes[i];
        if (lane->stream != stream || !lane->controls || lane->end)
            continue;
        if (gs_gate_real.cuEventCreate(&lane->end, 0) != GS_CUDA_OK ||
            gs_gate_real.cuEventRecord(lane->end, stream) != GS_CUDA_OK)
            lane->stream = lane; /* no stream has this name: the lane is never used again */
    }
    pthread_mutex_unlock(&guards.lock);
}

void gs_gate_guard_forget(void) {
    pthread_mutex_lock(&guards.lock);
    for (size_t i = 0; i < guards.count; i++)
        guards.lanes[i].controls = 0;
    pthread_mutex_unlock(&guards.lock);
    gs_gate_twins_forget();
}

/* ---- planning ---- */

/* How often latency programs have requests; under the lock. */
static double requests_per_ns(void) {
    uint64_t now = gs_gate_now_ns();
    uint32_t requests = atomic_load_explicit(&gs_gate_state.board->requests, memory_order_relaxed);
    if (now - guards.looked_ns >= LOOK_NS) {
        double seen = (double)(requests - guards.requests) / (double)(now - guards.looked_ns);
        guards.requests_per_ns = guards.looked_ns ? (3 * guards.requests_per_ns + seen) / 4 : seen;
        guards.looked_ns = now;
        guards.requests = requests;
    }
    return guards.requests_per_ns;
}

struct attribute { /* CUlaunchAttribute */
    int id;
    char padding[4];
    union {
        unsigned cluster[3];
        int flag;
        char bytes[64];
    } value;
};

enum { COOPERATIVE = 2 };

bool gs_gate_is_cooperative(const gs_gate_item *item) {
    bool is_cooperative = item->is_cooperative;
    for (unsigned i = 0; item->launch && i < item->launch->attribute_count; i++) {
        const struct attribute *at = (const struct attribute *)item->launch->attributes + i;
        is_cooperative |= at->id == COOPERATIVE && at->value.flag;
    }
    return is_cooperative;
}

/* Whether a launch with these attributes can be made of several. Attributes that are not known are refused. */
static bool is_plain(const gs_gate_config *launch, unsigned *cluster) {
    enum {
        IGNORED = 0,
        WINDOW = 1,
        POLICY = 3,
        CLUSTER = 4,
        SPREAD = 5,
        PROGRAMMATIC = 6,
        PRIORITY = 8,
        DOMAINS = 9,
        DOMAIN_MAP = 10,
        CARVEOUT = 14
    };
    const struct attribute *attributes = launch->attributes;
    for (unsigned i = 0; i < launch->attribute_count; i++) {
        const struct attribute *at = &attributes[i];
        if (at->id == CLUSTER)
            *cluster = at->value.cluster[0] * at->value.cluster[1] * at->value.cluster[2];
        else if (at->id == COOPERATIVE || at->id == PROGRAMMATIC
                     ? at->value.flag
                     : at->id != IGNORED && at->id != WINDOW && at->id != POLICY && at->id != SPREAD &&
                           at->id != PRIORITY && at->id != DOMAINS && at->id != DOMAIN_MAP && at->id != CARVEOUT)
            return false;
    }
    return *cluster;
}

static uint64_t product(const unsigned *three) {
    return (uint64_t)three[0] * three[1] * three[2];
}

/* How many blocks the GPU runs at a time; 0: not known. */
static uint64_t count_resident(const gs_gate_twin *twin, const gs_gate_config *launch) {
    int device = 0, sms = 0, blocks = 0;
    return gs_gate_real.cuOccupancyMaxActiveBlocksPerMultiprocessor && gs_gate_real.cuCtxGetDevice &&
                   gs_gate_real.cuDeviceGetAttribute && gs_gate_real.cuCtxGetDevice(&device) == GS_CUDA_OK &&
                   gs_gate_real.cuDeviceGetAttribute(&sms, SMS, device) == GS_CUDA_OK &&
                   gs_gate_real.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                       &blocks, twin->original, (int)product(launch->shape + 3), launch->shared_bytes) == GS_CUDA_OK
               ? (uint64_t)sms * (uint64_t)blocks
               : 0;
}

/* What the program has set for the kernel. */
static void copy_attributes(const gs_gate_twin *twin) {
    enum { MOST_SHARED = 8, CARVEOUT = 9, ANY_CLUSTER = 14 };
    static const int copied[] = {MOST_SHARED, CARVEOUT, ANY_CLUSTER};
    for (size_t i = 0; i < sizeof copied / sizeof *copied && gs_gate_real.cuFuncSetAttribute; i++) {
        int value, now;
        if (gs_gate_real.cuFuncGetAttribute(&value, copied[i], twin->original) == GS_CUDA_OK &&
            gs_gate_real.cuFuncGetAttribute(&now, copied[i], twin->function) == GS_CUDA_OK && value != now)
            gs_gate_real.cuFuncSetAttribute(twin->function, copied[i], value);
    }
}

/* Each launch has a guard on its stack, so the text is not in it. */
__attribute__((format(printf, 1, 2))) static gs_gate_guard refuse(const char *format, ...) {
    static _Thread_local char text[GS_TENANT_REASON];
    va_list words;
    va_start(words, format);
    vsnprintf(text, sizeof text, format, words);
    va_end(words);
    return (gs_gate_guard){.reason = text};
}

gs_gate_guard gs_gate_guard_find(const void *what, const gs_gate_config *launch, unsigned cluster,
                                 int64_t expected_ns) {
    gs_gate_twin twin;
    gs_gate_guard guard = {0};
    twin.reason[0] = '\0';
    if (!gs_gate_twin_find(what, &twin))
        return refuse("%s", twin.reason);
    cluster = twin.cluster > 1 ? twin.cluster : cluster;
    uint64_t work_ns = atomic_load_explicit(&gs_gate_state.page->work_ns, memory_order_relaxed);
    pthread_mutex_lock(&guards.lock);
    gs_chain_kernel kernel = {.expected_ns = expected_ns,
                              .blocks = product(launch->shape) / cluster,
                              .resident = count_resident(&twin, launch) / cluster,
                              .requests_per_ns = requests_per_ns(),
                              .most_cost = gs_chain_most_cost(&guards.budget, work_ns, expected_ns),
                              .cluster = cluster};
    gs_chain_plan plan = gs_chain_plan_of(&kernel);
    guards.budget.left_ns -= (double)plan.cost_ns;
    pthread_mutex_unlock(&guards.lock);
    if (!plan.launches)
        return refuse("%s (%llu %s, %llu at a time)", plan.reason, (unsigned long long)kernel.blocks,
                      cluster > 1 ? "clusters" : "blocks", (unsigned long long)kernel.resident);
    copy_attributes(&twin);
    guard.twin = twin.function;
    guard.parameter = twin.parameter;
    guard.offset = twin.offset;
    guard.launches = plan.launches;
    guard.first = plan.first;
    guard.mask = plan.mask;
    guard.stop_ns = plan.stop_ns;
    guard.constants = twin.constants;
    return guard;
}

gs_gate_guard gs_gate_guard_plan(const gs_gate_item *item, int64_t expected_ns) {
    unsigned cluster = 1;
    if (item->is_cooperative || !is_plain(item->launch, &cluster) || !gs_gate_real.cuLaunchKernelEx)
        return refuse("its launch is cooperative, or tied to other launches");
    gs_gate_guard guard = gs_gate_guard_find(item->what, item->launch, cluster, expected_ns);
    if (!guard.twin)
        return guard;
    pthread_mutex_lock(&guards.lock);
    guard.lane = find_lane(item->stream);
    pthread_mutex_unlock(&guards.lock);
    return guard.lane ? guard : refuse("there are too many streams");
}

/* ---- launching ---- */

/* The parameters of a launch, with the guard's behind them. */
struct values {
    void **values, **extra; /* for the driver; one of them, as the program had it */
    void *made;             /* memory to be freed, or NULL */
    void *few[64], *list[5];
    size_t size;
};

#define BUFFER      ((void *)1) /* CU_LAUNCH_PARAM_BUFFER_POINTER */
#define BUFFER_SIZE ((void *)2)

/* A buffer with all values, as the program gave one. */
static bool extend_buffer(struct values *made, const gs_gate_guard *guard, void **extra, gs_guard_parameter **own) {
    const void *buffer = NULL;
    size_t size = 0;
    for (; extra[0]; extra += 2) {
        if (extra[0] == BUFFER)
            buffer = extra[1];
        else if (extra[0] == BUFFER_SIZE)
            size = *(const size_t *)extra[1];
    }
    made->size = guard->offset + sizeof **own;
    char *bytes = made->made = calloc(1, made->size);
    if (!bytes || size > guard->offset)
        return false;
    memcpy(bytes, buffer, size);
    *own = (gs_guard_parameter *)(void *)(bytes + guard->offset);
    void *const list[] = {BUFFER, bytes, BUFFER_SIZE, &made->size, NULL};
    made->extra = memcpy(made->list, list, sizeof list);
    return true;
}

static bool extend_values(struct values *made, const gs_gate_guard *guard, void **values, gs_guard_parameter *own) {
    size_t count = guard->parameter + (size_t)1;
    made->values =
        count <= sizeof made->few / sizeof *made->few ? made->few : (made->made = calloc(count, sizeof *values));
    if (!made->values || (guard->parameter && !values))
        return false;
    if (guard->parameter)
        memcpy(made->values, values, guard->parameter * sizeof *values);
    made->values[guard->parameter] = own;
    return true;
}

static int launch_chain(const gs_gate_guard *guard, const gs_gate_config *launch, struct values *values,
                        gs_guard_parameter *own) {
    enum { WORDS = sizeof(gs_guard_control) / sizeof(uint32_t), CONTROL = sizeof(gs_guard_control) };
    const gs_gate_constants *constants = &guard->constants;
    gs_gate_pointer controls = guard->lane->controls;
    int code = gs_gate_real.cuMemsetD32Async(controls + CONTROL, guard->first, WORDS * guard->launches, launch->stream);
    if (constants->bytes && code == GS_CUDA_OK)
        code = gs_gate_real.cuMemcpyDtoDAsync_v2(constants->to, constants->from, constants->bytes, launch->stream);
    for (uint32_t i = 0; i < guard->launches && code == GS_CUDA_OK; i++) {
        bool is_last = i + 1 == guard->launches;
        *own = (gs_guard_parameter){.control = controls + CONTROL * i, .mask = guard->mask};
        own->stop = is_last ? controls : gs_gate_mark_find(false);
        if (i)
            gs_gate_mark_wait(launch->stream);
        code = gs_gate_real.cuLaunchKernelEx(launch, guard->twin, values->values, values->extra);
    }
    return code;
}

int gs_gate_guard_launch(const gs_gate_guard *guard, const gs_gate_config *launch, void *stream, void **values,
                         void **extra) {
    enum { INVALID_VALUE = 1 };
    gs_gate_config config = *launch;
    gs_guard_parameter parameter, *own = &parameter;
    struct values made = {0};
    int code = INVALID_VALUE;
    config.stream = stream;
    if (extra && !values ? extend_buffer(&made, guard, extra, &own) : extend_values(&made, guard, values, own)) {
        pthread_mutex_lock(&guard->lane->lock);
        code = launch_chain(guard, &config, &made, own);
        pthread_mutex_unlock(&guard->lane->lock);
        gs_gate_count(&gs_gate_state.page->guarded, 1);
        gs_gate_twin_use(guard->twin);
    }
    free(made.made);
    return code;
}
