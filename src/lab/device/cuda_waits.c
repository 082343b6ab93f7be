/*
 * cuda_waits.c: how long the host waits for blocks to start or to end.
 *
 * Nothing says that no more blocks will start: the host waits until none has for a while, a silence. The silence is
 * short as long as the device does what was expected, and long otherwise or if the caller is patient. No loop waits
 * forever: each has a deadline.
 */
#include "cuda_device.h"

#include <stdlib.h>

enum {
    BRIEF_SILENCE_NS = 6000,  /* as expected, and not scored, because an earlier kernel waits */
    SHORT_SILENCE_NS = 20000, /* as expected */
    OTHER_SILENCE_NS = 50000, /* not as expected, and not scored */
    SILENCE_NS = 200000,
    LONG_SILENCE_NS = 1500000,  /* the caller is patient, and it is scored */
    GONE_NS = 10000,            /* from the end of a block to when it has left the GPU, at most */
    MIXED_SILENCE_NS = 50000000 /* kernels with durations may wait for one without */
};

/* ---- for starts ---- */

/* Blocks that have started: all of them, and those of kernels that no exit has stopped. */
struct started {
    int64_t all, running;
};

static struct started count_all(struct cuda_play *play) {
    struct started started = {0};
    for (size_t i = 0; i < play->launched; i++) {
        struct cuda_slot *slot = &play->cuda->slots[i];
        int64_t now = slot->started == slot->blocks ? slot->blocks : gs_slot_started(slot);
        started.all += now;
        started.running += slot->is_stopped ? 0 : now;
    }
    return started;
}

/* How long no block must start before the wait ends. Blocks that are left of stopped kernels can hold up others, which
   the expected run does not know. That is not a surprise at each event. */
static int64_t silence_ns(const struct cuda_play *play, const struct started *seen, int64_t expected, bool matters) {
    int64_t surplus = seen->running - expected;
    if (play->options->patient)
        return play->expected && !play->is_scored ? SILENCE_NS : LONG_SILENCE_NS;
    if (!play->expected || (surplus && play->is_scored))
        return SILENCE_NS;
    if (surplus && surplus != play->surplus)
        return OTHER_SILENCE_NS;
    return matters ? SHORT_SILENCE_NS : BRIEF_SILENCE_NS;
}

/* Polls until `most` blocks have started in all, or none has started for long enough. That depends on whether as many
   have started as expected, of the kernels that no exit has stopped, and on whether it matters for the score. */
void gs_play_wait_starts(struct cuda_play *play, int64_t expected, int64_t most, bool matters) {
    int64_t last = play->acted_ns;
    struct started seen = count_all(play);
    while (seen.all < most && gs_now_ns() - last <= silence_ns(play, &seen, expected, matters)) {
        struct started now = count_all(play);
        if (now.all != seen.all)
            last = gs_now_ns();
        seen = now;
    }
    play->surplus = seen.running - expected;
}

/* For each launch and exit: how many blocks have started after it in the expected run, of the kernels that have not
   exited. A kernel that exits while some of its blocks wait loses them in the expected run, but on a GPU they still
   start. */
gs_code gs_play_count_expected(struct cuda_play *play, gs_error *error) {
    const gs_run *expected = play->options->expected;
    int64_t started[GS_DEVICE_LAUNCHES] = {0}, total = 0;
    bool has_exited[GS_DEVICE_LAUNCHES] = {false};
    size_t number = 0;
    if (!expected || gs_run_is_timed(play->run))
        return GS_OK;
    play->expected = calloc(play->run->events.count + 1, sizeof *play->expected);
    if (!play->expected)
        return gs_fail_memory(error);
    for (size_t i = 0; i < expected->events.count; i++) {
        const gs_event *event = &expected->events.data[i];
        number += event->op != GS_OBSERVE;
        if (number > play->run->events.count)
            break;
        if (event->launch < GS_DEVICE_LAUNCHES) {
            bool is_exit = event->op == GS_EXIT, is_news = event->seen->has_placed && !has_exited[event->launch];
            int64_t before = started[event->launch];
            int64_t now = is_exit ? 0 : is_news ? gs_seen_started(event->seen) : before;
            total += now - before;
            started[event->launch] = now;
            has_exited[event->launch] |= is_exit;
        }
        if (number)
            play->expected[number - 1] = total;
    }
    return GS_OK;
}

int64_t gs_play_expected_after(const struct cuda_play *play, size_t event) {
    return play->expected ? play->expected[event] : 0;
}

/* ---- for ends ---- */

/* Waits until the started blocks of a launch have ended. */
gs_code gs_slot_wait_end(const struct cuda_slot *slot, gs_error *error) {
    int64_t deadline = gs_now_ns() + STUCK_NS;
    while (!gs_slot_has_ended(slot))
        if (gs_now_ns() > deadline)
            return gs_fail(error, GS_E_NO_GPU, "the GPU is stuck: a kernel does not stop");
    return GS_OK;
}

/* Waits until the launches from `first` to before `past` have ended. Kernels with durations end by themselves, but may
   wait for one without. Then nothing starts or ends for longer than the longest duration, and the wait ends too. */
void gs_play_wait_times(struct cuda_play *play, size_t first, size_t past) {
    int64_t longest = 0, patience = STUCK_NS, last = gs_now_ns(), seen = -1, over = 0, wanted = 0;
    for (size_t i = 0; i < play->launched; i++) {
        int64_t duration_ns = play->run->launches.data[i].duration_ns + play->run->launches.data[i].spread_ns;
        longest = gs_max(longest, duration_ns);
        patience = duration_ns ? patience : MIXED_SILENCE_NS;
        wanted += i >= first && i < past ? play->cuda->slots[i].blocks : 0;
    }
    while (over < wanted && gs_now_ns() - last <= longest + patience) {
        int64_t now_seen = count_all(play).all;
        over = 0;
        for (size_t i = 0; i < play->launched; i++) {
            int64_t ended = gs_slot_ended(&play->cuda->slots[i]);
            now_seen += ended;
            over += i >= first && i < past ? ended : 0;
        }
        if (now_seen != seen)
            last = gs_now_ns();
        seen = now_seen;
    }
}

/* The blocks of a launch have reported their end, but may still be on the GPU. If other launches use its stream, the
   stream does not show when it has ended. */
void gs_play_wait_gone(struct cuda_play *play, size_t number) {
    struct cuda_slot *slots = play->cuda->slots;
    size_t users = 0;
    for (size_t i = 0; i < play->launched; i++)
        users += slots[i].stream == slots[number].stream;
    int64_t deadline = gs_now_ns() + (users > 1 ? GONE_NS : LONG_SILENCE_NS);
    if (users == 1)
        gs_cuda_wait_until(&play->cuda->api, slots[number].stream, deadline);
    while (users > 1 && gs_now_ns() < deadline)
        ;
}
