/*
 * cuda_reports.c: what blocks of the probe kernel report to the host, and how that becomes a recording.
 *
 * Each launch has a slot: a part of the host memory that the GPU sees, with an SM, a start and an end for each block,
 * and a hardware slot for each warp. The host treats the GPU like another thread, whose writes arrive in any order: it
 * reads each word of a report until it is there.
 */
#include "cuda_device.h"

#include <stdlib.h>
#include <string.h>

static uint64_t load_time(const uint64_t *time) {
    return __atomic_load_n(time, __ATOMIC_ACQUIRE);
}

static uint8_t load_slot(const uint8_t *slot) {
    return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

/* ---- a slot ---- */

/* The duration of a block, which stands in its `end` until it has ended. */
static uint64_t planned_ns(const gs_launch *launch, int64_t block) {
    return launch->duration_ns ? (uint64_t)gs_block_duration(launch, block) : 0;
}

/* When a block ended; 0: not yet. */
static uint64_t end_of(const struct cuda_slot *slot, int64_t block) {
    uint64_t time = load_time(&slot->end[block]);
    return time == planned_ns(slot->launch, block) ? 0 : time;
}

/* Gives a launch its part of the host memory, from `*at` on, and clears it. */
gs_code gs_slot_prepare(struct cuda *cuda, size_t number, const gs_launch *launch, int32_t warp_threads, size_t *at,
                        gs_error *error) {
    struct cuda_slot *slot = &cuda->slots[number];
    size_t blocks = (size_t)launch->blocks, warps = (size_t)gs_divide_up(launch->shape.threads, warp_threads);
    size_t sizes[] = {round_up_line(blocks * 4), round_up_line(blocks * 8), round_up_line(blocks * 8),
                      round_up_line(blocks * warps)};
    size_t needed = sizes[0] + sizes[1] + sizes[2] + sizes[3], sm = *at, start = sm + sizes[0], end = start + sizes[1],
           slots = end + sizes[2];
    if (*at + needed > RECORD_BYTES)
        return gs_fail(error, GS_E_USAGE, "the run has more blocks than can report to the host");
    cu_pointer base = cuda->memory_on_device;
    *slot = (struct cuda_slot){.sm = (uint32_t *)(void *)(cuda->memory + sm),
                               .start = (uint64_t *)(void *)(cuda->memory + start),
                               .end = (uint64_t *)(void *)(cuda->memory + end),
                               .warps = (uint8_t *)(cuda->memory + slots),
                               .stop = (uint32_t *)(void *)(cuda->memory + number * LINE),
                               .blocks = launch->blocks,
                               .launch = launch,
                               .warps_per_block = (int64_t)warps};
    slot->arguments = (probe_arguments){.sm = base + sm,
                                        .start = base + start,
                                        .end = base + end,
                                        .slots = base + slots,
                                        .stop = base + number * LINE,
                                        .relay = cuda->relays + number * LINE,
                                        .is_timed = launch->duration_ns != 0,
                                        .warps = (uint32_t)warps,
                                        .generation = cuda->generation,
                                        .triggers = true};
    memset(cuda->memory + sm, 0, sizes[0] + sizes[1]);
    memset(cuda->memory + slots, PROBE_NO_SLOT, sizes[3]);
    for (int64_t i = 0; i < launch->blocks; i++)
        slot->end[i] = planned_ns(launch, i);
    *at += needed;
    /* The kernel is loaded now, while the GPU is idle: later, loading could wait for kernels that wait for the host. */
    return gs_probe_find(&cuda->probe, launch->shape.registers, launch->shape.local_bytes, 0, &slot->kernel, error);
}

/* Counts the blocks that have reported their SM. Blocks start nearly in order. */
int64_t gs_slot_started(struct cuda_slot *slot) {
    if (!slot->launched)
        return 0;
    while (slot->first_silent < slot->blocks && gs_shared_word(&slot->sm[slot->first_silent]))
        slot->first_silent++;
    int64_t started = slot->first_silent;
    for (int64_t i = slot->first_silent; i < slot->blocks; i++)
        started += gs_shared_word(&slot->sm[i]) != 0;
    return slot->started = started;
}

static bool is_complete(const struct cuda_slot *slot, int64_t block) {
    const uint8_t *warps = slot->warps + block * slot->warps_per_block;
    for (int64_t i = 0; i < slot->warps_per_block; i++)
        if (load_slot(&warps[i]) == PROBE_NO_SLOT)
            return false;
    return load_time(&slot->start[block]);
}

int64_t gs_slot_ended(const struct cuda_slot *slot) {
    int64_t ended = 0;
    for (int64_t i = 0; i < slot->blocks; i++)
        ended += end_of(slot, i) != 0;
    return ended;
}

bool gs_slot_has_ended(const struct cuda_slot *slot) {
    for (int64_t i = 0; i < slot->blocks; i++)
        if (gs_shared_word(&slot->sm[i]) && !end_of(slot, i))
            return false;
    return true;
}

/* ---- recordings ---- */

/* Waits for the rest of the report of a block that has reported its SM. */
static gs_code wait_for_report(const struct cuda_slot *slot, int64_t block, gs_error *error) {
    int64_t deadline = 0;
    while (!is_complete(slot, block)) {
        deadline = deadline ? deadline : gs_now_ns() + STUCK_NS;
        if (gs_now_ns() > deadline)
            return gs_fail(error, GS_E_NO_GPU, "the GPU is stuck: a block has not reported its warps");
    }
    return GS_OK;
}

static gs_code reserve_seen(gs_seen *seen, size_t blocks, size_t warps, bool with_ends, gs_error *error) {
    seen->warp_slots.slots = malloc(blocks * warps * sizeof *seen->warp_slots.slots + 1);
    seen->warp_slots.ends = malloc(blocks * sizeof *seen->warp_slots.ends + 1);
    bool reserved = seen->warp_slots.slots && seen->warp_slots.ends && GS_RESERVE(&seen->placed, blocks) &&
                    GS_RESERVE(&seen->start_ns, blocks) && GS_RESERVE(&seen->end_ns, with_ends ? blocks : 0);
    return reserved ? GS_OK : gs_fail_memory(error);
}

/* Copies the reports of a launch into a recording. */
gs_code gs_slot_record(const struct cuda_slot *slot, gs_seen *seen, bool with_ends, gs_error *error) {
    size_t blocks = (size_t)slot->blocks, warps = (size_t)slot->warps_per_block, end = 0;
    *seen = (gs_seen){.has_placed = true, .has_warp_slots = true, .has_start = with_ends, .has_end = with_ends};
    gs_code code = reserve_seen(seen, blocks, warps, with_ends, error);
    if (code != GS_OK)
        return code;
    for (size_t i = 0; i < blocks && code == GS_OK; i++) {
        uint32_t sm = gs_shared_word(&slot->sm[i]);
        uint64_t ended = sm && with_ends ? end_of(slot, (int64_t)i) : 0;
        code = sm ? wait_for_report(slot, (int64_t)i, error) : GS_OK;
        seen->placed.data[i] = (int32_t)sm - 1;
        seen->start_ns.data[i] = sm ? (int64_t)slot->start[i] : GS_NO_TIME;
        if (with_ends)
            seen->end_ns.data[i] = ended ? (int64_t)ended : GS_NO_TIME;
        for (size_t warp = 0; sm && warp < warps; warp++)
            seen->warp_slots.slots[end++] = slot->warps[i * warps + warp];
        seen->warp_slots.ends[i] = end;
    }
    seen->placed.count = seen->start_ns.count = blocks;
    seen->end_ns.count = with_ends ? blocks : 0;
    return code;
}
