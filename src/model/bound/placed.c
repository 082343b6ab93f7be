/*
 * placed.c: the bound of a whole run, from the placement of its blocks.
 *
 * The dispatcher decides how many blocks of each kernel each SM gets. If all blocks of all kernels start at once, this
 * placement is certain, and each SM is bounded separately, with its own warps. If blocks wait, their places depend on
 * which blocks end first, and the bound holds for every possible placement (Theorem 4 of docs/bounds.md). Then kernels
 * are considered in launch order: when all earlier kernels have ended, a kernel has the GPU to itself until its last
 * block starts, and shares it with later kernels after that.
 *
 * Kernels of one stream run serially, so their bounds are added.
 */
#include "bound.h"

#include <stdlib.h>
#include <string.h>

struct placing {
    const gs_gpu *gpu;
    const gs_run *run;
    const gs_program *const *programs;
    gs_need *needs;
    int64_t *on_sm; /* blocks of each launch on each SM */
    gs_run_bound *bound;
};

/* ---- which runs can be bounded ---- */

/* Why no bound of a launch is known, as what follows its name; NULL: one is. */
static const char *why_unknown(const gs_run *run, const gs_launch *launch) {
    const gs_launch *first = &run->launches.data[0];
    if (launch->exit != SIZE_MAX)
        return "has an exit: a bound is for kernels that end by themselves";
    if (launch->priority != first->priority)
        return "has another priority than the first: give all the same";
    if (launch->issue.at_ns != first->issue.at_ns)
        return "is launched at another time than the first (at_us): a bound counts from one launch of all";
    if (gs_issue_is_node(&launch->issue))
        return "is in a CUDA graph, which has blocks of its own";
    if (launch->issue.after_count)
        return "waits for others (after), so that the order of the kernels depends on which end first";
    return NULL;
}

static gs_code check_run(const gs_run *run, const gs_program *const *programs, gs_error *error) {
    for (size_t i = 0; i < run->launches.count; i++) {
        const gs_launch *launch = &run->launches.data[i];
        const char *why = why_unknown(run, launch);
        if (why)
            return gs_run_fail(run, launch->event, error, GS_E_UNSUPPORTED, "no bound is known: kernel \"%.60s\" %s",
                               launch->kernel, why);
        if (!gs_program_same_sm(programs[i], programs[0]))
            return gs_fail(error, GS_E_USAGE,
                           "the program of kernel \"%.60s\" is for another SM than that of \"%.60s\"", launch->kernel,
                           run->launches.data[0].kernel);
    }
    if (run->copies.count)
        return gs_run_fail_at(run, run->copies.data[0].place, error, GS_E_UNSUPPORTED,
                              "no bound is known for copies: leave them out, and give --copy-in-ns and --copy-out-ns");
    return run->launches.count ? GS_OK : gs_fail(error, GS_E_USAGE, "the run launches no kernel");
}

/* Whether all kernels are in one stream or each in its own; anything else is refused. */
static gs_code look_at_streams(const gs_run *run, bool *one_stream, gs_error *error) {
    size_t shared = 0, count = run->launches.count;
    const char *first = run->launches.data[0].stream;
    for (size_t i = 1; i < count; i++)
        shared += first && run->launches.data[i].stream && strcmp(first, run->launches.data[i].stream) == 0;
    *one_stream = count > 1 && shared == count - 1;
    for (size_t i = 0; i < count && !*one_stream; i++)
        for (size_t j = i + 1; j < count; j++) {
            const char *a = run->launches.data[i].stream, *b = run->launches.data[j].stream;
            if (a && b && strcmp(a, b) == 0)
                return gs_fail(error, GS_E_UNSUPPORTED,
                               "a bound needs all kernels in one stream, or each in its own; \"%.60s\" and "
                               "\"%.60s\" share one",
                               run->launches.data[i].kernel, run->launches.data[j].kernel);
        }
    if (run->connections && count > 1 && !*one_stream)
        return gs_fail(error, GS_E_UNSUPPORTED,
                       "no bound is known for streams that share connections: leave \"connections\" out");
    return GS_OK;
}

/* ---- where blocks go ---- */

static bool count_block(void *user, size_t launch, int64_t block, int32_t sm, int64_t now_ns) {
    struct placing *placing = user;
    (void)block, (void)now_ns;
    placing->on_sm[launch * (size_t)placing->gpu->sms + (size_t)sm]++;
    return true;
}

/* Plays the launches from `from` to before `to` on an empty GPU, with blocks that do not end. `*at_once`: all blocks
   have started. */
static gs_code place_launches(struct placing *placing, size_t from, size_t to, bool *at_once, gs_error *error) {
    gs_engine_hooks hooks = {.user = placing, .started = count_block, .endless = true};
    gs_engine *engine = gs_engine_new(placing->gpu, placing->run, &hooks, error);
    gs_code code = engine ? GS_OK : GS_E_MEMORY;
    *at_once = true;
    for (size_t i = from; i < to && code == GS_OK; i++) {
        code = gs_engine_launch(engine, i, error);
        *at_once = *at_once && code == GS_OK && gs_engine_started(engine, i) == placing->run->launches.data[i].blocks;
    }
    gs_engine_free(engine);
    return code;
}

static int64_t blocks_on(const struct placing *placing, size_t launch, int32_t sm) {
    return placing->on_sm[launch * (size_t)placing->gpu->sms + (size_t)sm];
}

/* ---- all at once ---- */

/* A warp of `launch` on an SM, among all others there. If all have the same program, Theorem 3 may give a lower bound.
 */
static gs_code bound_on_sm(struct placing *placing, size_t launch, size_t from, size_t to, int32_t sm, int64_t *others,
                           int64_t *cycles, gs_error *error) {
    int64_t alone = 0, warps = 0;
    bool one_program = true;
    for (size_t i = from; i < to; i++) {
        others[i] = blocks_on(placing, i, sm) * placing->needs[i].warps - (i == launch);
        warps += others[i];
        one_program = one_program && (!others[i] || gs_program_same(placing->programs[i], placing->programs[launch]));
    }
    gs_code code =
        gs_proven_among(placing->programs[launch], placing->programs + from, others + from, to - from, cycles, error);
    if (code == GS_OK && one_program)
        code = gs_proven_cycles(placing->programs[launch], warps + 1, &alone, error);
    *cycles = code == GS_OK && one_program ? gs_min(*cycles, alone) : *cycles;
    return code;
}

static gs_code bound_at_once(struct placing *placing, size_t from, size_t to, gs_error *error) {
    gs_code code = GS_OK;
    int64_t *others = calloc(to, sizeof *others);
    if (!others)
        return gs_fail_memory(error);
    for (size_t i = from; i < to && code == GS_OK; i++) {
        gs_kernel_bound *kernel = &placing->bound->kernels[i];
        for (int32_t sm = 0; sm < placing->gpu->sms && code == GS_OK; sm++) {
            int64_t cycles = 0, blocks = blocks_on(placing, i, sm);
            if (!blocks)
                continue;
            kernel->most_on_sm = gs_max(kernel->most_on_sm, blocks);
            code = bound_on_sm(placing, i, from, to, sm, others, &cycles, error);
            kernel->cycles = gs_max(kernel->cycles, cycles);
        }
    }
    free(others);
    return code;
}

/* ---- in waves ---- */

/* Blocks that shared memory takes for certain. Where each block is in one piece, n of them leave at most n + 1 holes,
   so there is headroom unless all of these are smaller than a block. If all blocks are equal, and each is at the lowest
   address that fits, there are no holes. */
static int64_t certain_by_shared(const gs_gpu *gpu, const gs_need *need, bool is_alone) {
    int64_t size = need->config_bytes / gpu->limits.shared_granularity_bytes, block = need->shared;
    int allocation = gpu->mechanisms.shared_allocation;
    if (!block)
        return INT64_MAX;
    if (allocation == GS_SPACE_COUNTED || (allocation == GS_SPACE_CONTIGUOUS && is_alone))
        return size / block;
    return size < block ? 0 : (size - block) / (2 * block - 1) + 1;
}

int64_t gs_least_when_full(const gs_gpu *gpu, const gs_need *need, bool is_alone) {
    int64_t partitions = gpu->limits.partitions_per_sm, share = gs_divide_up(need->warps, partitions);
    int64_t certain = gs_min(need->blocks_per_sm, certain_by_shared(gpu, need, is_alone));
    if (gpu->mechanisms.registers != GS_REGISTERS_RENAMED)
        return 1;
    if (gpu->mechanisms.warp_placement == GS_WARPS_STRICT) /* a block has at most `share` warps in a partition */
        certain =
            gs_min(certain, gs_min(gpu->warps_per_partition, gpu->registers_per_partition / need->registers) / share);
    return gs_max(certain, 1);
}

/* The SMs that a launch may use. */
static int32_t usable_sms(const struct placing *placing, size_t launch) {
    int32_t count = 0;
    for (int32_t sm = 0; sm < placing->gpu->sms; sm++)
        count += gs_run_may_use(placing->run, launch, sm);
    return count;
}

/* From the end of all earlier kernels to the start of the last block. */
static gs_code bound_start(struct placing *placing, size_t launch, int64_t *cycles, gs_error *error) {
    const gs_program *program = placing->programs[launch];
    int64_t blocks = placing->run->launches.data[launch].blocks, sms = usable_sms(placing, launch);
    int64_t full = gs_least_when_full(placing->gpu, &placing->needs[launch], placing->run->launches.count == 1),
            on_sm = (blocks - 1) / sms, others, more;
    gs_totals totals;
    *cycles = 0;
    if (blocks <= sms * full)
        return GS_OK;
    if (!gs_scale(on_sm, placing->needs[launch].warps, 1, &others))
        return gs_fail_large(error);
    others--;
    gs_code code = gs_program_totals(program, &totals, error);
    if (code == GS_OK)
        code = gs_proven_among(program, &program, &others, 1, cycles, error);
    if (code == GS_OK && (!gs_scale(on_sm / full - 1, totals.latency, 1, &more) || !gs_plus(cycles, more)))
        code = gs_fail_large(error);
    return code;
}

/* From the start of the last block to its end, together with all later kernels. */
static gs_code bound_end(struct placing *placing, size_t launch, size_t to, int64_t *cycles, gs_error *error) {
    const gs_launches *launches = &placing->run->launches;
    int64_t *others = calloc(to, sizeof *others);
    gs_code code = others ? GS_OK : gs_fail_memory(error);
    for (size_t i = launch; i < to && code == GS_OK; i++) {
        int64_t blocks = launches->data[i].blocks;
        if (i == launch)
            blocks = gs_min(blocks, placing->needs[i].blocks_per_sm);
        if (!gs_scale(blocks, placing->needs[i].warps, 1, &others[i]))
            code = gs_fail_large(error);
        others[i] -= i == launch;
    }
    if (code == GS_OK)
        code = gs_proven_among(placing->programs[launch], placing->programs + launch, others + launch, to - launch,
                               cycles, error);
    free(others);
    return code;
}

static int64_t context_of(const gs_launch *launch) {
    return launch->issue.facts ? launch->issue.facts->green_context : GS_NOT_GIVEN;
}

static gs_code fail_in_waves(const gs_run *run, size_t launch, const char *why, gs_error *error) {
    return gs_run_fail(run, run->launches.data[launch].event, error, GS_E_UNSUPPORTED,
                       "no bound is known: not all blocks start at once, and kernel \"%.60s\" %s",
                       run->launches.data[launch].kernel, why);
}

static gs_code fail_never(const gs_run *run, size_t launch, const char *why, gs_error *error) {
    return gs_run_fail(run, run->launches.data[launch].event, error, GS_E_NO_FIT, "kernel \"%.60s\" never starts: %s",
                       run->launches.data[launch].kernel, why);
}

/* Theorem 4 needs blocks that start one by one on any of the same SMs, in launch order. */
static gs_code check_order(const struct placing *placing, size_t from, size_t launch, gs_error *error) {
    const gs_run *run = placing->run;
    if (placing->gpu->mechanisms.queue == GS_QUEUE_OVERTAKING && launch > from)
        return fail_in_waves(run, launch, "may overtake others", error);
    if (run->launches.data[launch].cluster > 1)
        return fail_in_waves(run, launch, "has clusters, which cannot use every free place", error);
    if (context_of(&run->launches.data[launch]) != context_of(&run->launches.data[from]))
        return fail_in_waves(run, launch, "is in another green context than the first", error);
    return GS_OK;
}

/* A cooperative launch starts on the empty GPU or never. */
static gs_code check_starts(struct placing *placing, size_t launch, gs_error *error) {
    bool starts = true;
    gs_code code = GS_OK;
    if (!usable_sms(placing, launch))
        return fail_never(placing->run, launch, "its green context has no SM of this GPU", error);
    if (gs_grid_of(&placing->run->launches.data[launch], 0, NULL).is_whole)
        code = place_launches(placing, launch, launch + 1, &starts, error);
    if (code == GS_OK && !starts)
        return fail_never(placing->run, launch,
                          "it is cooperative, and the empty GPU does not take all its blocks at once", error);
    return code;
}

static gs_code check_waves(struct placing *placing, size_t from, size_t to, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = from; i < to && code == GS_OK; i++) {
        code = check_order(placing, from, i, error);
        if (code == GS_OK)
            code = check_starts(placing, i, error);
    }
    return code;
}

static gs_code bound_waves(struct placing *placing, size_t from, size_t to, gs_error *error) {
    gs_code code = check_waves(placing, from, to, error);
    int64_t ended = 0;
    for (size_t i = from; i < to && code == GS_OK; i++) {
        int64_t start, end;
        gs_kernel_bound *kernel = &placing->bound->kernels[i];
        code = bound_start(placing, i, &start, error);
        if (code == GS_OK)
            code = bound_end(placing, i, to, &end, error);
        if (code == GS_OK && (!gs_plus(&ended, start) || !gs_plus(&ended, end)))
            code = gs_fail_large(error);
        kernel->cycles = ended;
        kernel->most_on_sm = gs_min(placing->run->launches.data[i].blocks, kernel->blocks_per_sm);
    }
    return code;
}

/* ---- a run ---- */

/* Launches that are on the GPU together. */
static gs_code bound_part(struct placing *placing, size_t from, size_t to, gs_error *error) {
    bool at_once;
    gs_code code = place_launches(placing, from, to, &at_once, error);
    placing->bound->at_once = placing->bound->at_once && at_once;
    if (code == GS_OK)
        code = (at_once ? bound_at_once : bound_waves)(placing, from, to, error);
    return code;
}

static gs_code bound_stream(struct placing *placing, gs_error *error) {
    gs_code code = GS_OK;
    int64_t ended = 0;
    for (size_t i = 0; i < placing->run->launches.count && code == GS_OK; i++) {
        code = bound_part(placing, i, i + 1, error);
        if (code == GS_OK && !gs_plus(&ended, placing->bound->kernels[i].cycles))
            code = gs_fail_large(error);
        placing->bound->kernels[i].cycles = ended;
    }
    return code;
}

/* The paper's formula, if the run is one kernel of its program that starts at once. */
static gs_code add_formula(struct placing *placing, gs_error *error) {
    const gs_program *program = placing->programs[0];
    int64_t cycles;
    if (!program->is_paper || placing->run->launches.count != 1 || !placing->bound->at_once)
        return GS_OK;
    int64_t *warps = calloc((size_t)placing->gpu->sms, sizeof *warps);
    if (!warps)
        return gs_fail_memory(error);
    for (int32_t sm = 0; sm < placing->gpu->sms; sm++)
        warps[sm] = blocks_on(placing, 0, sm) * placing->needs[0].warps;
    gs_code code = gs_formula_kernel(warps, (size_t)placing->gpu->sms, program->repetitions, &cycles, error);
    placing->bound->formula_cycles = cycles;
    free(warps);
    return code;
}

static gs_code find_needs(struct placing *placing, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < placing->run->launches.count && code == GS_OK; i++) {
        code = gs_need_of(placing->gpu, &placing->run->launches.data[i].shape, &placing->needs[i], error);
        placing->bound->kernels[i] = (gs_kernel_bound){.warps_per_block = placing->needs[i].warps,
                                                       .blocks_per_sm = placing->needs[i].blocks_per_sm};
    }
    return code;
}

gs_code gs_bound_run(const gs_gpu *gpu, const gs_run *run, const gs_program *const *programs, gs_run_bound *bound,
                     gs_error *error) {
    size_t count = run->launches.count;
    *bound = (gs_run_bound){.at_once = true, .formula_cycles = GS_NOT_KNOWN, .count = count};
    struct placing placing = {.gpu = gpu, .run = run, .programs = programs, .bound = bound};
    gs_code code = check_run(run, programs, error);
    if (code == GS_OK)
        code = look_at_streams(run, &bound->one_stream, error);
    if (code != GS_OK)
        return code;
    placing.needs = calloc(count, sizeof *placing.needs);
    placing.on_sm = calloc(count * (size_t)gpu->sms, sizeof *placing.on_sm);
    bound->kernels = calloc(count, sizeof *bound->kernels);
    if (!placing.needs || !placing.on_sm || !bound->kernels)
        code = gs_fail_memory(error);
    if (code == GS_OK)
        code = find_needs(&placing, error);
    if (code == GS_OK)
        code = bound->one_stream ? bound_stream(&placing, error) : bound_part(&placing, 0, count, error);
    if (code == GS_OK)
        code = add_formula(&placing, error);
    for (size_t i = 0; i < count && code == GS_OK; i++)
        bound->cycles = gs_max(bound->cycles, bound->kernels[i].cycles);
    free(placing.needs);
    free(placing.on_sm);
    if (code != GS_OK)
        gs_run_bound_clear(bound);
    return code;
}

void gs_run_bound_clear(gs_run_bound *bound) {
    free(bound->kernels);
    *bound = (gs_run_bound){0};
}

/* ---- the task around it ---- */

gs_code gs_response_ns(const gs_task *task, int64_t cycles, int64_t *gpu_ns, int64_t *response_ns, gs_error *error) {
    int64_t rounded;
    if (!gs_scale(cycles, 1000, 1, &rounded))
        return gs_fail_large(error);
    *gpu_ns = gs_divide_up(rounded, task->clock_mhz);
    *response_ns = task->before_ns;
    if (!gs_plus(response_ns, task->copy_in_ns) || !gs_plus(response_ns, *gpu_ns) ||
        !gs_plus(response_ns, task->copy_out_ns) || !gs_plus(response_ns, task->after_ns))
        return gs_fail_large(error);
    return GS_OK;
}
