/*
 * gpu.c: the GPU behind the fake driver.
 *
 * Launches are in a list in the order in which they came. The most urgent one whose stream is free is served first,
 * until all its blocks have started. The dispatcher of src/model/engine places the blocks. So this is a second queue,
 * independent of that of the engine, with the same placement of blocks.
 *
 * A block does what a block of the probe kernel does: it reports its place, waits for its stop word or until its time
 * is over, and reports its end. A thread reads the words and the clock. Blocks that can start at once are started in
 * the launch call, so that a busy machine does not delay them. Everything that follows from one stop word happens under
 * one lock, so that a host that queries a stream afterwards sees all of it.
 *
 * The state of the SMs is reset when the host synchronizes, because a prediction also begins with a new GPU.
 */
#define _GNU_SOURCE
#include "fake.h"

#include "model/engine/engine.h"

#include <pthread.h>
#include <time.h>

enum { MOST_WARPS = 64, MOST_DELAY_NS = 100000, NAP_NS = 10000 };

struct block {
    int handle; /* the dispatcher's */
    int32_t sm;
    int64_t start_ns; /* in the future if the block is late */
    int64_t duration_ns;
    bool reported, is_complete, ended; /* its SM; its whole report */
    uint8_t slots[MOST_WARPS];
};

struct launch {
    fake_launch request;
    int kernel; /* the dispatcher's number */
    int64_t started, ended;
    int64_t first_running; /* all blocks before this one have ended */
    bool stopped;
    uint64_t ready; /* in which turn it became ready; 0: not yet */
    struct block *blocks;
    struct launch *next;
};

struct fake_gpu {
    const gs_gpu *description;
    bool late, torn, stuck, blocks_host;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    /* under the lock: */
    bool quits;
    gs_dispatcher *dispatcher;
    uint64_t turns;        /* of launches that have become ready */
    uint64_t *taken_slots; /* warp slots of each SM, as bits */
    struct launch *launches;
    gs_random random;
};

/* ---- words that the host reads ---- */

static void *host_memory(cu_pointer pointer) {
    return (void *)(uintptr_t)pointer;
}

static void report_rest(const struct launch *launch, int64_t number) {
    const probe_arguments *arguments = &launch->request.arguments;
    struct block *block = &launch->blocks[number];
    for (int64_t i = 0; i < arguments->warps; i++)
        __atomic_store_n((uint8_t *)host_memory(arguments->slots) + number * arguments->warps + i, block->slots[i],
                         __ATOMIC_RELEASE);
    __atomic_store_n((uint64_t *)host_memory(arguments->start) + number, (uint64_t)block->start_ns, __ATOMIC_RELEASE);
    block->is_complete = true;
}

/* A torn report begins with the SM, and its rest follows at the next step. */
static void report_start(const struct launch *launch, int64_t number, bool torn) {
    struct block *block = &launch->blocks[number];
    if (!torn)
        report_rest(launch, number);
    __atomic_store_n((uint32_t *)host_memory(launch->request.arguments.sm) + number, (uint32_t)block->sm + 1,
                     __ATOMIC_RELEASE);
    block->reported = true;
}

static void report_end(const struct launch *launch, int64_t number, int64_t now_ns) {
    __atomic_store_n((uint64_t *)host_memory(launch->request.arguments.end) + number, (uint64_t)now_ns,
                     __ATOMIC_RELEASE);
}

/* Block 0 reads the stop word, once it runs, and relays it to the others. */
static bool sees_stop(struct launch *launch) {
    const probe_arguments *arguments = &launch->request.arguments;
    if (launch->stopped || !launch->started || !launch->blocks[0].reported ||
        __atomic_load_n((uint32_t *)host_memory(arguments->stop), __ATOMIC_ACQUIRE) != arguments->generation)
        return launch->stopped;
    __atomic_store_n((uint32_t *)host_memory(arguments->relay), arguments->generation, __ATOMIC_RELEASE);
    return launch->stopped = true;
}

/* ---- blocks ---- */

/* Takes the lowest free slots of each partition, as many as the dispatcher placed there. */
static void take_slots(fake_gpu *gpu, struct block *block, int64_t warps) {
    const gs_resident *resident = &gs_dispatcher_state(gpu->dispatcher)->residents[block->handle];
    int32_t partitions = gpu->description->limits.partitions_per_sm;
    uint8_t left[GS_MAX_PARTITIONS];
    memcpy(left, resident->warps, sizeof left);
    for (int64_t warp = 0, partition = 0; warp < warps; partition = (partition + 1) % partitions) {
        if (!left[partition])
            continue;
        int64_t slot = partition;
        while (gpu->taken_slots[block->sm] >> slot & 1)
            slot += partitions;
        gpu->taken_slots[block->sm] |= UINT64_C(1) << slot;
        block->slots[warp++] = (uint8_t)slot;
        left[partition]--;
    }
}

static void start_block(fake_gpu *gpu, struct launch *launch, int sm) {
    struct block *block = &launch->blocks[launch->started++];
    block->handle = gs_dispatcher_place(gpu->dispatcher, launch->kernel, sm);
    block->sm = sm;
    block->start_ns = gs_now_ns() + (gpu->late ? gs_random_from(&gpu->random, 0, MOST_DELAY_NS) : 0);
    block->duration_ns = (int64_t)((uint64_t *)host_memory(launch->request.arguments.end))[launch->started - 1];
    take_slots(gpu, block, launch->request.arguments.warps);
}

static void end_block(fake_gpu *gpu, struct launch *launch, int64_t number, int64_t now_ns) {
    struct block *block = &launch->blocks[number];
    report_end(launch, number, now_ns);
    gs_dispatcher_release(gpu->dispatcher, block->handle);
    for (uint32_t warp = 0; warp < launch->request.arguments.warps; warp++)
        gpu->taken_slots[block->sm] &= ~(UINT64_C(1) << block->slots[warp]);
    block->ended = true;
    launch->ended++;
}

static bool is_over(const fake_gpu *gpu, struct launch *launch, const struct block *block, int64_t now_ns) {
    if (gpu->stuck || !block->is_complete)
        return false;
    return launch->request.arguments.is_timed ? now_ns - block->start_ns >= block->duration_ns : launch->stopped;
}

/* Reports starts and ends of one launch that are due. True: a block has ended. */
static bool pass_time(fake_gpu *gpu, struct launch *launch) {
    int64_t now_ns = gs_now_ns(), ended = launch->ended;
    for (int64_t i = launch->first_running; i < launch->started; i++)
        if (launch->blocks[i].reported && !launch->blocks[i].is_complete)
            report_rest(launch, i);
        else if (!launch->blocks[i].reported && launch->blocks[i].start_ns <= now_ns)
            report_start(launch, i, gpu->torn);
    sees_stop(launch);
    for (int64_t i = launch->first_running; i < launch->started; i++)
        if (!launch->blocks[i].ended && is_over(gpu, launch, &launch->blocks[i], now_ns))
            end_block(gpu, launch, i, now_ns);
    while (launch->first_running < launch->started && launch->blocks[launch->first_running].ended)
        launch->first_running++;
    return launch->ended > ended;
}

/* ---- the queue ---- */

static bool stream_is_free(const fake_gpu *gpu, const struct launch *launch) {
    const struct launch *before = NULL, *first = NULL;
    for (const struct launch *at = gpu->launches; at != launch; at = at->next)
        if (at->request.stream == launch->request.stream) {
            first = first ? first : at;
            before = at;
        }
    return !first || (launch->request.is_programmatic && before->started == before->request.blocks);
}

static bool nodes_have_ended(const fake_gpu *gpu, const fake_place *node) {
    for (const struct launch *at = gpu->launches; at; at = at->next)
        if (at->request.node.is_node && at->request.node.first_id == node->first_id &&
            node->after >> (at->request.node.id - node->first_id) & 1)
            return false;
    return true;
}

/* Launches that have become ready get their turns. */
static void make_ready(fake_gpu *gpu) {
    for (struct launch *at = gpu->launches; at; at = at->next)
        if (!at->ready &&
            (at->request.node.is_node ? nodes_have_ended(gpu, &at->request.node) : stream_is_free(gpu, at)))
            at->ready = ++gpu->turns;
}

static struct launch *first_in_queue(const fake_gpu *gpu) {
    struct launch *first = NULL;
    for (struct launch *at = gpu->launches; at; at = at->next)
        if (at->started < at->request.blocks && at->ready &&
            (!first || at->request.urgency > first->request.urgency ||
             (at->request.urgency == first->request.urgency && at->ready < first->ready)))
            first = at;
    return first;
}

static bool fits_as_a_whole(const fake_gpu *gpu, const struct launch *launch) {
    int64_t room = 0;
    for (int sm = 0; sm < gpu->description->sms; sm++)
        room += gs_dispatcher_room(gpu->dispatcher, launch->kernel, sm);
    return room >= launch->request.blocks;
}

static void serve(fake_gpu *gpu) {
    make_ready(gpu);
    for (struct launch *launch; (launch = first_in_queue(gpu)); make_ready(gpu))
        while (launch->started < launch->request.blocks) {
            if (launch->request.is_cooperative && !launch->started && !fits_as_a_whole(gpu, launch))
                return;
            int sm = gs_dispatcher_next(gpu->dispatcher, launch->kernel);
            if (sm == GS_WAIT)
                return;
            start_block(gpu, launch, sm);
        }
}

static void launch_free(struct launch *launch) {
    free(launch->blocks);
    free(launch);
}

static void drop_ended(fake_gpu *gpu) {
    for (struct launch **at = &gpu->launches; *at;) {
        struct launch *launch = *at;
        if (launch->ended < launch->request.blocks) {
            at = &launch->next;
            continue;
        }
        *at = launch->next;
        launch_free(launch);
    }
    if (!gpu->launches)
        pthread_cond_broadcast(&gpu->idle);
}

/* Does everything that is due, and what follows from it. */
static void step(fake_gpu *gpu) {
    bool ended = true;
    while (ended) {
        ended = false;
        serve(gpu);
        for (struct launch *at = gpu->launches; at; at = at->next)
            ended |= pass_time(gpu, at);
        drop_ended(gpu);
    }
}

static void *live(void *argument) {
    fake_gpu *gpu = argument;
    struct timespec nap = {.tv_nsec = NAP_NS};
    pthread_mutex_lock(&gpu->lock);
    while (!gpu->quits) {
        if (!gpu->launches) {
            pthread_cond_wait(&gpu->work, &gpu->lock);
            continue;
        }
        step(gpu);
        pthread_mutex_unlock(&gpu->lock);
        nanosleep(&nap, NULL);
        pthread_mutex_lock(&gpu->lock);
    }
    pthread_mutex_unlock(&gpu->lock);
    return NULL;
}

/* ---- the driver's side ---- */

static bool make_new(fake_gpu *gpu) {
    gs_dispatcher_free(gpu->dispatcher);
    gpu->dispatcher = gs_dispatcher_new(gpu->description, NULL);
    return gpu->dispatcher;
}

fake_gpu *fake_gpu_new(const gs_gpu *description) {
    fake_gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu)
        return NULL;
    *gpu = (fake_gpu){.description = description,
                      .late = fake_has("late"),
                      .torn = fake_has("torn"),
                      .stuck = fake_has("stuck"),
                      .blocks_host = fake_has("blocks-host"),
                      .random = gs_random_at(1, 0)};
    pthread_mutex_init(&gpu->lock, NULL);
    pthread_cond_init(&gpu->work, NULL);
    pthread_cond_init(&gpu->idle, NULL);
    gpu->taken_slots = calloc((size_t)description->sms, sizeof *gpu->taken_slots);
    if (gpu->taken_slots && make_new(gpu) && pthread_create(&gpu->thread, NULL, live, gpu) == 0) {
        pthread_setname_np(gpu->thread, FAKE_THREAD_NAME);
        return gpu;
    }
    gs_dispatcher_free(gpu->dispatcher);
    free(gpu->taken_slots);
    free(gpu);
    return NULL;
}

void fake_gpu_free(fake_gpu *gpu) {
    fake_gpu_forget(gpu);
    pthread_mutex_lock(&gpu->lock);
    gpu->quits = true;
    pthread_cond_signal(&gpu->work);
    pthread_mutex_unlock(&gpu->lock);
    pthread_join(gpu->thread, NULL);
    pthread_mutex_destroy(&gpu->lock);
    pthread_cond_destroy(&gpu->work);
    pthread_cond_destroy(&gpu->idle);
    gs_dispatcher_free(gpu->dispatcher);
    free(gpu->taken_slots);
    free(gpu);
}

static void wait_until_idle(fake_gpu *gpu) {
    while (gpu->launches)
        pthread_cond_wait(&gpu->idle, &gpu->lock);
}

static struct launch *launch_new(fake_gpu *gpu, const fake_launch *request) {
    struct launch *launch = calloc(1, sizeof *launch);
    if (!launch)
        return NULL;
    launch->request = *request;
    launch->kernel = gs_dispatcher_kernel(gpu->dispatcher, &request->shape, NULL);
    launch->blocks = calloc((size_t)request->blocks, sizeof *launch->blocks);
    if (launch->kernel >= 0 && launch->blocks)
        return launch;
    launch_free(launch);
    return NULL;
}

bool fake_gpu_launch(fake_gpu *gpu, const fake_launch *request) {
    pthread_mutex_lock(&gpu->lock);
    if (gpu->blocks_host && request->shape.local_bytes > gs_dispatcher_state(gpu->dispatcher)->local_bytes)
        wait_until_idle(gpu);
    struct launch *launch = launch_new(gpu, request), **at = &gpu->launches;
    if (launch) {
        while (*at)
            at = &(*at)->next;
        *at = launch;
        step(gpu);
        pthread_cond_signal(&gpu->work);
    }
    pthread_mutex_unlock(&gpu->lock);
    return launch;
}

void fake_gpu_synchronize(fake_gpu *gpu) {
    pthread_mutex_lock(&gpu->lock);
    wait_until_idle(gpu);
    if (!make_new(gpu))
        abort();
    pthread_mutex_unlock(&gpu->lock);
}

bool fake_gpu_is_idle(fake_gpu *gpu, cu_stream stream) {
    bool idle = true;
    pthread_mutex_lock(&gpu->lock);
    for (const struct launch *at = gpu->launches; at; at = at->next)
        idle = idle && at->request.stream != stream;
    pthread_mutex_unlock(&gpu->lock);
    return idle;
}

void fake_gpu_forget(fake_gpu *gpu) {
    pthread_mutex_lock(&gpu->lock);
    while (gpu->launches) {
        struct launch *launch = gpu->launches;
        gpu->launches = launch->next;
        launch_free(launch);
    }
    pthread_mutex_unlock(&gpu->lock);
}
