/*
 * body_bound.c: the latest end of a compiled kernel: Theorems 6 to 8 of docs/bounds.md.
 *
 * A chain of warps leads from the end of the kernel back to its start. In each cycle the warp of the chain makes
 * progress on its longest path of latencies; or it is ready, and another warp is issued in its partition or still holds
 * a unit there; or one of its transactions waits in the queue of a unit that serves another. So the bound is the path
 * once for each block of the chain, and all work of all warps that the chain can meet, counted once. Every term is a
 * sum of maxima: shorter latencies, fewer rounds and other branches only make it smaller, so that no anomaly can exceed
 * it.
 *
 * If blocks wait, the chain has several blocks on one SM (Theorem 4), and then the block that starts last.
 */
#include "bound.h"

#include <stdlib.h>

/* A kernel on an SM. */
struct crowd {
    const gs_gpu *gpu;
    const gs_machine *machine;
    gs_demand demand;
    gs_need need;
    int64_t blocks, most_on_sm;
    bool overflows, is_beside, others_write;
    gs_body_bound *bound;
};

static void add_product(struct crowd *crowd, int64_t *sum, int64_t a, int64_t b) {
    int64_t product;
    if (crowd->overflows || !gs_scale(a, b, 1, &product) || !gs_plus(sum, product)) {
        crowd->overflows = true;
        *sum = 0;
    }
}

/* The most warps of a block in one partition. */
static int64_t partition_share(const struct crowd *crowd) {
    int64_t warps = crowd->need.warps;
    if (crowd->gpu->mechanisms.warp_placement == GS_WARPS_STRICT)
        return gs_divide_up(warps, crowd->gpu->limits.partitions_per_sm);
    return gs_min(warps, crowd->gpu->warps_per_partition);
}

/* The warps whose instructions the warp of a chain can meet in its partition, while the chain has `links` blocks one
   after the other on an SM with `blocks` blocks in all. In each block of the chain it meets those of the block that
   share its partition: it stays in one partition, or moves to another warp of the block at a barrier, where all are.
   Blocks beside it are not at the same barrier, and can be met in each partition that the chain comes to. */
static int64_t warps_met(struct crowd *crowd, int64_t links, int64_t blocks) {
    int64_t share = partition_share(crowd), warps = 0;
    bool stays = links == 1 && !crowd->demand.has_barrier;
    add_product(crowd, &warps, links, share - 1);
    add_product(crowd, &warps, blocks - links, stays ? share : crowd->need.warps);
    return warps;
}

static bool is_kind_beside(gs_latency_kind kind) {
    return kind == GS_LATENCY_BESIDE || kind == GS_LATENCY_BESIDE_REPEATED;
}

/* Whether the work of a unit is counted for each SM: it is a unit of the SM; or others use the unit of the GPU as much
   as they can, and it serves the SMs in turn. */
static bool serves_sm(const struct crowd *crowd, size_t unit) {
    gs_unit_scope scope = crowd->machine->units.data[unit].scope;
    return scope == GS_UNIT_OF_SM || (scope == GS_UNIT_OF_GPU && crowd->is_beside);
}

/* Adds the work that a part of the chain can meet on an SM. A warp is not left out for its own instructions, but can
   find its own units in use. */
static void add_work(struct crowd *crowd, int64_t links, int64_t blocks) {
    gs_body_bound *bound = crowd->bound;
    int64_t warps = crowd->need.warps;
    add_product(crowd, &bound->issue_cycles, warps_met(crowd, links, blocks), crowd->demand.issue_millicycles);
    add_product(crowd, &bound->issue_cycles, links, crowd->demand.after_issue_millicycles);
    for (size_t i = 0; i < crowd->machine->units.count; i++)
        if (serves_sm(crowd, i)) {
            int64_t held = 0;
            add_product(crowd, &held, blocks, crowd->demand.held_millicycles[i]);
            add_product(crowd, &bound->unit_cycles[i], held,
                        crowd->machine->units.data[i].scope == GS_UNIT_OF_SM
                            ? warps
                            : warps * gs_max(crowd->machine->sms, crowd->gpu->sms));
        }
    add_product(crowd, &bound->fetch_cycles, crowd->demand.lines, crowd->machine->cold_fetch_cycles);
    add_product(crowd, &bound->fetch_cycles, crowd->demand.constant_lines, crowd->machine->cold_constant_cycles);
}

/* Units of the GPU serve all blocks of the kernel, once. */
static void add_gpu_work(struct crowd *crowd) {
    for (size_t i = 0; i < crowd->machine->units.count; i++)
        if (crowd->machine->units.data[i].scope == GS_UNIT_OF_GPU && !serves_sm(crowd, i)) {
            int64_t held = 0;
            add_product(crowd, &held, crowd->blocks, crowd->demand.held_millicycles[i]);
            add_product(crowd, &crowd->bound->unit_cycles[i], held, crowd->need.warps);
        }
}

/* From the first block to the start of the last, while some wait: Theorem 4. */
static void add_waiting(struct crowd *crowd) {
    int64_t on_sm = (crowd->blocks - 1) / crowd->gpu->sms;
    int64_t full = gs_least_when_full(crowd->gpu, &crowd->need, true), links = on_sm / full;
    if (crowd->bound->at_once || crowd->blocks <= full * crowd->gpu->sms)
        return;
    crowd->bound->chain_blocks += links;
    add_product(crowd, &crowd->bound->block_cycles, on_sm, crowd->machine->block_cycles);
    add_work(crowd, links, on_sm);
}

static int64_t launch_of(const struct crowd *crowd) {
    const gs_machine *machine = crowd->machine;
    int64_t launch_ns = machine->launch_ns;
    if (crowd->is_beside)
        launch_ns = gs_max(launch_ns, machine->loaded_launch_ns);
    if (crowd->is_beside && crowd->others_write)
        launch_ns = gs_max(launch_ns, machine->written_launch_ns);
    return launch_ns;
}

static gs_code sum_bound(struct crowd *crowd, const gs_body *body, gs_error *error) {
    gs_body_bound *bound = crowd->bound;
    int64_t thousandths = 1000;
    bound->path_cycles = crowd->demand.path_cycles;
    bound->chain_blocks = 1;
    add_waiting(crowd);
    add_product(crowd, &bound->block_cycles, crowd->most_on_sm, crowd->machine->block_cycles);
    add_work(crowd, 1, crowd->most_on_sm);
    add_gpu_work(crowd);
    bound->issue_cycles = gs_divide_up(bound->issue_cycles, thousandths);
    bound->burst_cycles = crowd->demand.burst_cycles;
    add_product(crowd, &bound->cycles, bound->chain_blocks, bound->path_cycles);
    add_product(crowd, &bound->cycles, 1, bound->burst_cycles);
    add_product(crowd, &bound->cycles, 1, bound->block_cycles);
    add_product(crowd, &bound->cycles, 1, bound->issue_cycles);
    add_product(crowd, &bound->cycles, 1, bound->fetch_cycles);
    for (size_t i = 0; i < crowd->machine->units.count; i++) {
        bound->unit_cycles[i] = gs_divide_up(bound->unit_cycles[i], thousandths);
        add_product(crowd, &bound->cycles, 1, bound->unit_cycles[i]);
    }
    if (crowd->overflows || !gs_scale(bound->cycles, 1000, 1, &bound->nanoseconds))
        return gs_body_fail_large(body, error);
    bound->nanoseconds = gs_divide_up(bound->nanoseconds, crowd->machine->clock_mhz);
    bound->launch_ns = launch_of(crowd);
    bound->nanoseconds += bound->launch_ns;
    return GS_OK;
}

/* ---- where blocks go ---- */

/* The most blocks on one SM, and whether all start at once on an empty GPU. */
static gs_code place_blocks(struct crowd *crowd, gs_error *error) {
    gs_dispatcher *dispatcher = gs_dispatcher_new(crowd->gpu, error);
    int kernel = dispatcher ? gs_dispatcher_kernel(dispatcher, &crowd->need.shape, error) : -1, sm = 0;
    int64_t most = (int64_t)crowd->gpu->sms * crowd->need.blocks_per_sm;
    crowd->bound->at_once = kernel >= 0 && crowd->blocks <= most;
    for (int64_t i = 0; i < gs_min(crowd->blocks, most) && kernel >= 0; i++) {
        if ((sm = gs_dispatcher_next(dispatcher, kernel)) == GS_WAIT) {
            crowd->bound->at_once = false;
            break;
        }
        gs_dispatcher_place(dispatcher, kernel, sm);
        crowd->most_on_sm = gs_max(crowd->most_on_sm, gs_dispatcher_resident(dispatcher, sm));
    }
    gs_dispatcher_free(dispatcher);
    if (!crowd->bound->at_once)
        crowd->most_on_sm = gs_min(crowd->need.blocks_per_sm, crowd->blocks);
    return kernel < 0 ? error->code : GS_OK;
}

/* Whether the chain of the proofs can take the slowest of a few warps at a time only: it stays in one, or in a block
   that has no more. */
static bool chain_has_few(const struct crowd *crowd, const gs_body *body) {
    bool stays = crowd->bound->at_once;
    for (size_t i = 0; i < body->parts.count; i++)
        stays = stays && body->parts.data[i].kind != GS_PART_BARRIER;
    return stays || crowd->need.warps <= GS_FEW_WARPS;
}

static bool has_written(const gs_machine *machine) {
    bool has = false;
    for (size_t i = 0; i < machine->classes.count; i++)
        has = has || machine->classes.data[i].written_cycles;
    return has && machine->sms;
}

/* Whether latencies of a kind hold for the kernel. */
static bool kind_holds(const struct crowd *crowd, const gs_body *body, gs_latency_kind kind) {
    if (crowd->is_beside && body->others_write)
        return kind == GS_LATENCY_BESIDE && has_written(crowd->machine);
    if (kind >= GS_LATENCY_LOADED)
        return true;
    if (gs_latency_is_repeated(kind) && !chain_has_few(crowd, body))
        return false;
    if (kind == GS_LATENCY_KEPT || kind == GS_LATENCY_KEPT_REPEATED)
        return !crowd->is_beside && body->is_kept && body->memory_bytes <= crowd->machine->kept_bytes;
    return is_kind_beside(kind) ? crowd->is_beside && crowd->machine->sms : !crowd->is_beside;
}

/* What a kernel may need at most for the measured times to hold: memory as large as that in which they were measured.
 */
static gs_code check_reach(const gs_body *body, gs_error *error) {
    const int64_t reach_bytes = (int64_t)2 << 30;
    if (body->memory_bytes <= reach_bytes)
        return GS_OK;
    return gs_fail(error, GS_E_REFUSED,
                   "no bound is known: the kernel has %lld MB of memory, and latencies were measured in %lld MB",
                   (long long)(body->memory_bytes >> 20), (long long)(reach_bytes >> 20));
}

/* Takes over what latencies of a kind give, if it is lower than the bound so far. */
static gs_code take_lower(struct crowd *crowd, const gs_body *body, const gs_body_bound *placed, gs_latency_kind kind,
                          bool keeps_constants, gs_error *error) {
    gs_body_bound found = *placed, *bound = crowd->bound;
    found.kind = kind;
    gs_code code = gs_demand_of(crowd->machine, body, kind, keeps_constants, &crowd->demand, error);
    crowd->bound = &found;
    if (code == GS_OK)
        code = sum_bound(crowd, body, error);
    crowd->bound = bound;
    if (code == GS_OK && (bound->kind == GS_LATENCY_KINDS || found.cycles < bound->cycles))
        *bound = found;
    return code;
}

gs_code gs_bound_body(const gs_gpu *gpu, const gs_machine *machine, const gs_body *body, const gs_shape *shape,
                      int64_t blocks, bool beside, gs_body_bound *bound, gs_error *error) {
    struct crowd crowd = {.gpu = gpu,
                          .machine = machine,
                          .blocks = blocks,
                          .is_beside = beside,
                          .others_write = body->others_write,
                          .bound = bound};
    *bound = (gs_body_bound){.kind = GS_LATENCY_KINDS};
    if (blocks < 1)
        return gs_fail(error, GS_E_USAGE, "a kernel has at least 1 block, not %lld", (long long)blocks);
    gs_code code = check_reach(body, error);
    if (code == GS_OK)
        code = gs_need_of(gpu, shape, &crowd.need, error);
    if (code == GS_OK)
        code = place_blocks(&crowd, error);
    bound->warps_per_block = crowd.need.warps;
    bound->blocks_per_sm = crowd.need.blocks_per_sm;
    bound->most_on_sm = crowd.most_on_sm;
    const gs_body_bound placed = *bound;
    for (gs_latency_kind kind = 0; kind < GS_LATENCY_KINDS && code == GS_OK; kind++) {
        bool holds = kind_holds(&crowd, body, kind);
        if (holds)
            code = take_lower(&crowd, body, &placed, kind, false, error);
        if (holds && code == GS_OK && crowd.demand.any_constants)
            code = take_lower(&crowd, body, &placed, kind, true, error);
    }
    if (code == GS_OK && bound->kind == GS_LATENCY_KINDS)
        code =
            gs_fail(error, GS_E_REFUSED, "no bound is known: the latencies beside others that write were not measured");
    return code;
}
