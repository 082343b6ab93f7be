/*
 * launched.c: launches that a simulator gives to a dispatcher.
 *
 * Which block of a launch is on which SM depends on all blocks that start with it, on how many blocks the grid has, and
 * on the other launches in the queue. So the dispatcher becomes an engine: the one that predicts runs, on a run that
 * grows with each launch, and whose blocks the simulator ends. After each launch and each end the engine starts all
 * blocks that can start. These are kept, launch by launch in the order of their numbers, until the simulator takes them
 * (gs_dispatcher_next says where the next one is, gs_dispatcher_place takes it). The lists go through arrays by handle,
 * so a block needs no memory of its own.
 *
 * Launches have numbers that are far from those of kernels (gs_dispatcher_kernel), because the same functions take
 * both. Blocks of such kernels can be on the SMs too: they stand in no queue.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_NUMBER = 1 << 30, NOTHING = -1 };

/* What is known of a block, by its handle. */
enum place { ELSEWHERE, STARTED, TAKEN }; /* it is of no launch; on an SM, but not taken; taken */

/* The blocks of a launch that have started and are not taken: the first and the last, by handle. */
struct list {
    int32_t first, last;
};

struct gs_launched {
    gs_dispatcher *dispatcher;
    gs_run *run;
    gs_engine *engine;
    struct {
        struct list *data; /* by launch */
        size_t count, capacity;
    } lists;
    int32_t *next; /* by handle: the next in its list */
    uint8_t *places;
    int32_t turn;    /* with which the engine began */
    bool has_failed; /* memory ran out in a function that cannot say so */
};

static const gs_gpu *gpu_of(const gs_launched *launched) {
    return gs_dispatcher_state(launched->dispatcher)->gpu;
}

/* The engine has started a block: it is the last of its list. */
static bool keep_started(void *user, size_t launch, int64_t block, int32_t sm, int64_t now_ns) {
    gs_launched *launched = user;
    struct list *list = &launched->lists.data[launch];
    int32_t handle = gs_engine_latest(launched->engine, launch);
    (void)block, (void)sm, (void)now_ns;
    launched->next[handle] = NOTHING;
    launched->places[handle] = STARTED;
    *(list->first == NOTHING ? &list->first : &launched->next[list->last]) = handle;
    list->last = handle;
    return true;
}

/* ---- making and copying ---- */

static void launched_free(gs_launched *launched) {
    if (!launched)
        return;
    gs_engine_free(launched->engine);
    gs_run_free(launched->run);
    free(launched->lists.data);
    free(launched->next);
    free(launched->places);
    free(launched);
}

/* Takes `run`, which may be NULL: then memory has run out. */
static gs_launched *launched_new(gs_dispatcher *dispatcher, gs_run *run, int32_t turn, gs_error *error) {
    const gs_gpu *gpu = gs_dispatcher_state(dispatcher)->gpu;
    gs_launched *launched = calloc(1, sizeof *launched);
    if (launched) {
        gs_engine_hooks hooks = {
            .user = launched, .started = keep_started, .endless = true, .turn = turn, .dispatcher = dispatcher};
        *launched = (gs_launched){.dispatcher = dispatcher, .run = run, .turn = turn};
        launched->next = calloc(gs_gpu_most_blocks(gpu), sizeof *launched->next);
        launched->places = calloc(gs_gpu_most_blocks(gpu), sizeof *launched->places);
        launched->engine = run ? gs_engine_new(gpu, run, &hooks, NULL) : NULL;
        if (launched->next && launched->places && launched->engine)
            return launched;
        launched_free(launched);
    } else {
        gs_run_free(run);
    }
    gs_fail_memory(error);
    return NULL;
}

void gs_dispatcher_free(gs_dispatcher *dispatcher) {
    if (!dispatcher)
        return;
    launched_free(gs_dispatcher_launched(dispatcher));
    gs_dispatcher_free_sms(dispatcher);
}

/* Makes `to` an equal of `from`, with its SMs. Its run is a copy already. */
static gs_code copy_launched(gs_launched *to, const gs_launched *from, gs_error *error) {
    size_t blocks = gs_gpu_most_blocks(gpu_of(from));
    if (!GS_RESERVE(&to->lists, from->lists.count) || !gs_engine_copy(to->engine, from->engine))
        return gs_fail_memory(error);
    if (from->lists.count)
        memcpy(to->lists.data, from->lists.data, from->lists.count * sizeof *to->lists.data);
    to->lists.count = from->lists.count;
    memcpy(to->next, from->next, blocks * sizeof *to->next);
    memcpy(to->places, from->places, blocks * sizeof *to->places);
    to->has_failed = from->has_failed;
    return GS_OK;
}

gs_code gs_dispatcher_copy(gs_dispatcher *to, const gs_dispatcher *from, gs_error *error) {
    const gs_launched *launched = gs_dispatcher_launched(from);
    if (gs_dispatcher_state(to)->gpu != gs_dispatcher_state(from)->gpu)
        return gs_fail(error, GS_E_USAGE, "a dispatcher can be copied only to one of the same gs_gpu");
    if (to == from)
        return GS_OK;
    gs_dispatcher_keep_kernels(to, from);
    launched_free(gs_dispatcher_launched(to));
    gs_launched *copy = launched ? launched_new(to, gs_run_copy(launched->run, NULL), launched->turn, error) : NULL;
    gs_dispatcher_keep_launched(to, copy);
    if (!launched)
        return gs_dispatcher_copy_sms(to, from, error);
    return copy ? copy_launched(copy, launched, error) : GS_E_MEMORY;
}

/* How many blocks of a launch wait to be taken. */
static int64_t count_list(const gs_launched *launched, size_t launch) {
    int64_t count = 0;
    for (int32_t at = launched->lists.data[launch].first; at != NOTHING; at = launched->next[at])
        count++;
    return count;
}

static bool put_image(const gs_dispatcher *dispatcher, gs_text *image) {
    const gs_launched *launched = gs_dispatcher_launched(dispatcher);
    for (size_t i = 0; launched && i < launched->lists.count; i++)
        gs_text_add(image, "%lld ", (long long)count_list(launched, i));
    return gs_engine_image(dispatcher, launched ? launched->engine : NULL, image);
}

bool gs_dispatcher_equal(const gs_dispatcher *a, const gs_dispatcher *b, gs_error *error) {
    gs_text images[2] = {{0}, {0}};
    if (error)
        *error = (gs_error){.code = GS_OK};
    if (gs_dispatcher_state(a)->gpu != gs_dispatcher_state(b)->gpu) {
        gs_fail(error, GS_E_USAGE, "a dispatcher can be compared only with one of the same gs_gpu");
        return false;
    }
    bool are_put = put_image(a, &images[0]) && put_image(b, &images[1]);
    bool are_equal =
        are_put && images[0].count == images[1].count && memcmp(images[0].data, images[1].data, images[0].count) == 0;
    if (!are_put)
        gs_fail_memory(error);
    gs_text_free(&images[0]);
    gs_text_free(&images[1]);
    return are_equal;
}

/* ---- launches ---- */

gs_code gs_dispatcher_turn(gs_dispatcher *dispatcher, int turn, gs_error *error) {
    gs_launched *launched = gs_dispatcher_launched(dispatcher);
    const gs_gpu *gpu = gs_dispatcher_state(dispatcher)->gpu;
    if (turn < 0 || turn >= gs_gpu_turns(gpu))
        return gs_fail(error, GS_E_USAGE, "the turn must be from 0 to %d on this GPU, not %d", gs_gpu_turns(gpu) - 1,
                       turn);
    if (launched && launched->run->launches.count)
        return gs_fail(error, GS_E_USAGE, "the turn can be set only before the first launch");
    launched_free(launched);
    launched = launched_new(dispatcher, gs_run_new(NULL), turn, error);
    gs_dispatcher_keep_launched(dispatcher, launched);
    return launched ? GS_OK : GS_E_MEMORY;
}

static gs_code add_launch(gs_launched *launched, const gs_launch_spec *spec, gs_error *error) {
    size_t number = launched->run->launches.count;
    if (launched->has_failed || !gs_engine_grow(launched->engine) || !GS_RESERVE(&launched->lists, 2))
        return gs_fail_memory(error);
    launched->lists.data[number] = (struct list){NOTHING, NOTHING};
    launched->lists.count = number + 1;
    gs_code code = gs_run_copy_spec(launched->run, spec, error);
    return code == GS_OK ? gs_engine_launch(launched->engine, number, error) : code;
}

int gs_dispatcher_launch(gs_dispatcher *dispatcher, const gs_launch_spec *spec, gs_error *error) {
    if (!gs_dispatcher_launched(dispatcher) && gs_dispatcher_turn(dispatcher, 0, error) != GS_OK)
        return -1;
    gs_launched *launched = gs_dispatcher_launched(dispatcher);
    if (add_launch(launched, spec, error) != GS_OK)
        return -1;
    return FIRST_NUMBER + (int)launched->run->launches.count - 1;
}

void gs_dispatcher_wait_until(gs_dispatcher *dispatcher, int64_t now_ns) {
    gs_launched *launched = gs_dispatcher_launched(dispatcher);
    if (launched)
        gs_engine_wait_until(launched->engine, now_ns);
}

/* ---- blocks ---- */

/* The launch with this number; SIZE_MAX: there is none. */
static size_t launch_of(const gs_launched *launched, int number) {
    if (!launched || number < FIRST_NUMBER || (size_t)(number - FIRST_NUMBER) >= launched->run->launches.count)
        return SIZE_MAX;
    return (size_t)(number - FIRST_NUMBER);
}

int gs_dispatcher_room(const gs_dispatcher *dispatcher, int number, int sm) {
    const gs_launched *launched = gs_dispatcher_launched(dispatcher);
    size_t launch = launch_of(launched, number);
    int kernel = launch == SIZE_MAX ? number : gs_engine_kernel(launched->engine, launch);
    if (!gs_dispatcher_knows(dispatcher, kernel) || sm < 0 || sm >= gs_dispatcher_state(dispatcher)->gpu->sms)
        return 0;
    return gs_dispatcher_headroom(dispatcher, kernel, sm);
}

/* The next block of a launch, or NOTHING. */
static int32_t next_block(const gs_launched *launched, int number) {
    size_t launch = launch_of(launched, number);
    return launch == SIZE_MAX ? NOTHING : launched->lists.data[launch].first;
}

int gs_dispatcher_next(gs_dispatcher *dispatcher, int number) {
    int32_t headroom, handle = next_block(gs_dispatcher_launched(dispatcher), number);
    if (gs_dispatcher_knows(dispatcher, number))
        return gs_dispatcher_choose(dispatcher, number, &headroom);
    return handle == NOTHING ? GS_WAIT : gs_dispatcher_sm(dispatcher, handle);
}

int gs_dispatcher_place(gs_dispatcher *dispatcher, int number, int sm) {
    gs_launched *launched = gs_dispatcher_launched(dispatcher);
    int32_t handle = next_block(launched, number);
    if (gs_dispatcher_knows(dispatcher, number))
        return gs_dispatcher_put(dispatcher, number, sm);
    if (handle == NOTHING || gs_dispatcher_sm(dispatcher, handle) != sm)
        return -1;
    launched->places[handle] = TAKEN;
    launched->lists.data[launch_of(launched, number)].first = launched->next[handle];
    return handle;
}

/* Starts what can start now. */
static void release_block(gs_launched *launched, int block) {
    if (block < 0 || (size_t)block >= gs_gpu_most_blocks(gpu_of(launched)) || launched->places[block] == STARTED)
        return;
    bool is_launched = launched->places[block] == TAKEN;
    launched->places[block] = ELSEWHERE;
    bool done = is_launched ? gs_engine_end(launched->engine, block) : gs_engine_end_other(launched->engine, block);
    launched->has_failed = launched->has_failed || !done;
}

void gs_dispatcher_release(gs_dispatcher *dispatcher, int block) {
    if (gs_dispatcher_launched(dispatcher)) {
        release_block(gs_dispatcher_launched(dispatcher), block);
        return;
    }
    gs_dispatcher_end(dispatcher, block);
    gs_dispatcher_settle(dispatcher);
}

/* What is on the SMs of a launch that ends is forgotten, taken or not. */
static void forget_blocks(gs_launched *launched, size_t launch) {
    for (int32_t i = 0; (size_t)i < gs_gpu_most_blocks(gpu_of(launched)); i++)
        if (launched->places[i] != ELSEWHERE && gs_engine_launch_of(launched->engine, i) == launch)
            launched->places[i] = ELSEWHERE;
    launched->lists.data[launch].first = NOTHING;
}

void gs_dispatcher_exit(gs_dispatcher *dispatcher, int number) {
    gs_launched *launched = gs_dispatcher_launched(dispatcher);
    size_t launch = launch_of(launched, number);
    if (launch == SIZE_MAX)
        return;
    forget_blocks(launched, launch);
    if (gs_engine_exit(launched->engine, launch, NULL) != GS_OK)
        launched->has_failed = true;
}

/* ---- reasons ---- */

/* Why blocks of a launch wait, or of a kernel that is in no queue. */
static void put_why(gs_dispatcher *dispatcher, int number, gs_text *text) {
    gs_launched *launched = gs_dispatcher_launched(dispatcher);
    size_t launch = launch_of(launched, number);
    gs_grid grid = {.kernel = number, .blocks = 1, .cluster = 1};
    if (launch != SIZE_MAX)
        gs_why_with_numbers(launched->engine, launched->run, launch, text);
    else if (gs_dispatcher_next(dispatcher, number) == GS_WAIT)
        gs_why_not_placed(dispatcher, &grid, text);
}

char *gs_dispatcher_why(gs_dispatcher *dispatcher, int number, gs_error *error) {
    gs_text text = {0};
    bool is_launch = launch_of(gs_dispatcher_launched(dispatcher), number) != SIZE_MAX;
    if (error)
        *error = (gs_error){.code = GS_OK};
    if (!is_launch && !gs_dispatcher_knows(dispatcher, number)) {
        gs_fail(error, GS_E_USAGE, "the dispatcher has no kernel or launch with the number %d", number);
        return NULL;
    }
    put_why(dispatcher, number, &text);
    if (!text.failed)
        return text.data;
    gs_text_free(&text);
    gs_fail_memory(error);
    return NULL;
}
