/*
 * test_shared_memory_layout.c: the places of blocks in shared memory, block by block, compared with those on an H200
 * (tests/gpu/places.cu).
 *
 * The state counts addresses from an origin that moves. The test follows the origin: when the addresses of blocks
 * increase by some bytes, the origin has moved back by as many.
 */
#include "test.h"

#include "base/base.h"
#include "model/gpu/gpu.h"

#include <string.h>

enum { KERNELS = 64, KILOBYTE = 1024 };

/* One SM, with a block of each kernel. */
struct play {
    gs_state state;
    gs_need needs[KERNELS];
    int32_t handles[KERNELS]; /* -1: not there */
    int64_t origin;           /* bytes */
};

static int64_t address_of(const struct play *play, int kernel) {
    const gs_space *space = &play->state.sms[0].shared_space;
    for (int i = 0; i < space->count; i++)
        if (space->pieces[i].block == play->handles[kernel])
            return (int64_t)space->pieces[i].at * play->state.gpu->limits.shared_granularity_bytes;
    fail_msg("kernel %d is nowhere", kernel);
    return -1;
}

static void leave(struct play *play, int kernel) {
    bool changed;
    int other = 0;
    int32_t handle = play->handles[kernel];
    play->handles[kernel] = -1;
    while (other < KERNELS && play->handles[other] < 0)
        other++;
    int64_t before = other < KERNELS ? address_of(play, other) : 0;
    gs_state_release(&play->state, &play->needs[kernel], handle, &changed);
    if (changed)
        gs_state_cool(&play->state, play->state.sms[0].group);
    int64_t moved = other < KERNELS ? address_of(play, other) - before : play->origin;
    play->origin -= moved;
}

/* Returns the address of the block. */
static int64_t enter(struct play *play, int kernel, int64_t kilobytes) {
    gs_shape shape = {.threads = 32, .registers = 24, .shared_bytes = kilobytes * KILOBYTE, .carveout_percent = 100};
    int64_t size = play->state.gpu->largest_config_bytes;
    bool changed;
    assert_int_equal(gs_need_of(play->state.gpu, &shape, &play->needs[kernel], NULL), GS_OK);
    assert_true(gs_state_headroom(&play->state, &play->needs[kernel], 0) > 0);
    play->handles[kernel] = gs_state_place(&play->state, &play->needs[kernel], kernel, 0, false, &changed);
    return ((address_of(play, kernel) + play->origin) % size + size) % size;
}

static size_t play_run(const gs_gpu *gpu, const json_t *run) {
    struct play play = {.origin = 0};
    json_t *event;
    size_t i, places = 0;
    memset(play.handles, -1, sizeof play.handles);
    assert_int_equal(gs_state_init(&play.state, gpu, NULL), GS_OK);
    json_array_foreach(json_object_get(run, "ev"), i, event) {
        if (json_object_get(event, "x")) {
            leave(&play, (int)json_integer_value(json_object_get(event, "x")));
            continue;
        }
        if (json_integer_value(json_object_get(event, "seen")) < gpu->sms ||
            json_integer_value(json_object_get(event, "at")) < 0)
            break;
        int64_t found = enter(&play, (int)json_integer_value(json_object_get(event, "k")),
                              json_integer_value(json_object_get(event, "kb")));
        int64_t wanted = json_integer_value(json_object_get(event, "at"));
        if (found != wanted)
            fail_msg("run %lld, event %zu: at %lld, not at %lld",
                     (long long)json_integer_value(json_object_get(run, "run")), i, (long long)wanted,
                     (long long)found);
        places++;
    }
    gs_state_free(&play.state);
    return places;
}

TEST(blocks_lie_where_they_were_seen) {
    gs_error error = {.code = GS_OK};
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    gs_input *input = gs_input_open(test_path("corpus/h200-places.jsonl.gz"), &error);
    assert_non_null(gpu);
    assert_non_null(input);
    size_t places = 0, runs = 0;
    for (;;) {
        gs_json json;
        assert_int_equal(gs_json_next(input, &json, &error), GS_OK);
        if (!json.root)
            break;
        places += play_run(gpu, json.root);
        runs++;
        gs_json_free(&json);
    }
    print_message("%zu runs, %zu places\n", runs, places);
    assert_int_equal(runs, 800);
    assert_true(places > 5000);
    gs_input_close(input);
    gs_gpu_free(gpu);
}

TEST_MAIN(NULL, NULL)
