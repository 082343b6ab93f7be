/*
 * latency.c: measures how long the instructions of warps take on a real GPU: its machine (model/gpu/machine.c).
 *
 * Each row of src/lab/device/timed_classes.c is measured several times, and the largest time counts; of the rows of a
 * class, the largest.
 *
 *   latency   one warp on each SM. For units of a partition or an SM: the difference of two chains, per instruction;
 *             for units of the GPU the longest single one, because they differ from each other
 *   loaded    the longest single one, with as many warps as fit on all SMs
 *   beside    the longest single one of one warp of a block, while warps on other SMs read memory, or write it
 *   kept      the longest single one, and the time of a chain, in memory that the cache of the GPU keeps
 *   in a row  how long some take, each of which begins when the slowest of some warps has done the one before: of all
 *             warps of a full block (loaded), or of a few (the others)
 *   held      the time of a chain with as many warps as fit, over all transactions: of a partition, of an SM, of the
 *             GPU. A transaction for the memory also passes the load/store units of its SM: this is measured with one
 *             block alone, in memory that is in the cache of the GPU
 *
 * Accesses of more than 4 bytes by each lane (`wide`) take at least as long as those of 4 bytes (`near`).
 *
 * From single ones, and those in a row, the least is taken off that a step without an instruction takes: reading the
 * clock, and waiting for other warps. What else is around an instruction, as computing its address, is in the measured
 * times, which so are too long rather than too short. Classes that cannot
 * be measured by themselves have the times of others: `aliases`.
 */
#include "calibrate.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_CHAIN = 32, LONG_CHAIN = 64, FULL_BLOCK = 32, LINE_BYTES = 128 };
enum { KEPT_BYTES = 16 << 20 }; /* a third of the L2 of an H200 */

static const char load_store_unit[] = "load/store";

static const struct alias {
    const char *name, *as;
} aliases[] = {{"global_load_wide", "global_load_near"},  {"global_store_wide", "global_store_near"},
               {"global_atomic_near", "global_atomic"},   {"local_load_near", "global_load_near"},
               {"local_store_near", "global_store_near"}, {"local_load_wide", "global_load_wide"},
               {"local_store_wide", "global_store_wide"}, {"local_load", "global_load"},
               {"local_store", "global_store"},           {"generic_load", "global_load"},
               {"generic_load", "shared_load"},           {"generic_store", "global_store"},
               {"generic_store", "shared_store"},         {"generic_atomic", "global_atomic"},
               {"generic_atomic", "shared_atomic"},       {"nop", "alu"}};

/* A store, or an atomic operation, has read its operands by the time at which a load in its place would have its
 * result.
 */
static const struct alias reads[] = {{"global_store", "global_load"},
                                     {"global_store_near", "global_load_near"},
                                     {"global_store_wide", "global_load_wide"},
                                     {"local_store_wide", "global_load_wide"},
                                     {"global_atomic", "global_load"},
                                     {"global_atomic_near", "global_load_near"},
                                     {"local_store", "global_load"},
                                     {"local_store_near", "global_load_near"},
                                     {"generic_store", "generic_load"},
                                     {"shared_store", "shared_load"},
                                     {"shared_store_near", "shared_load_near"}};

struct timing {
    gs_device *device;
    const gs_latency_options *options;
    gs_machine *machine;
    int64_t bare_cycles, bare_together_cycles; /* of a step without an instruction, and with a barrier */
};

/* ---- times ---- */

/* The least and the most over all trials, and the least of what the longest of a trial takes. */
struct extremes {
    int64_t least, most, least_longest;
};

static gs_code time_request(struct timing *timing, const gs_timing_request *request, struct extremes *cycles,
                            struct extremes *ns, gs_error *error) {
    *cycles = *ns = (struct extremes){INT64_MAX, 0, INT64_MAX};
    for (int i = 0; i < timing->options->trials; i++) {
        gs_timing found;
        gs_code code = gs_device_time(timing->device, request, &found, error);
        if (code != GS_OK)
            return code;
        *cycles = (struct extremes){gs_min(cycles->least, found.shortest), gs_max(cycles->most, found.cycles),
                                    gs_min(cycles->least_longest, found.cycles)};
        *ns = (struct extremes){gs_min(ns->least, found.least_ns), gs_max(ns->most, found.ns),
                                gs_min(ns->least_longest, found.ns)};
    }
    return GS_OK;
}

static gs_code time_body(struct timing *timing, int32_t body, int32_t count, int64_t blocks, int32_t warps,
                         struct extremes *cycles, struct extremes *ns, gs_error *error) {
    gs_timing_request request = {.body = (gs_timed_body)body, .count = count, .blocks = blocks, .warps = warps};
    return time_request(timing, &request, cycles, ns, error);
}

/* The blocks of a full GPU, each of FULL_BLOCK warps. */
static gs_code full_blocks(struct timing *timing, int32_t body, int32_t count, int64_t *on_sm, gs_error *error) {
    gs_timing_request request = {.body = (gs_timed_body)body, .count = count, .warps = FULL_BLOCK};
    gs_timing found;
    gs_need need;
    gs_code code = gs_device_time(timing->device, &request, &found, error);
    if (code == GS_OK)
        code = gs_need_of(timing->device->gpu, &found.shape, &need, error);
    if (code == GS_OK)
        *on_sm = need.blocks_per_sm;
    return code;
}

/* ---- rows ---- */

/* What some in a row take: cycles for each, and cycles beyond that in all. */
struct in_a_row {
    int64_t repeated, burst;
};

/* What a row was measured as. */
struct row_times {
    int64_t latency, loaded, held, load_store; /* held and load_store: thousandths of a cycle, of one transaction */
    int64_t kept_latency, kept_held;           /* in memory that the cache of the GPU keeps */
    int64_t beside, written; /* the longest, by one warp of a block, beside others that read, and that write */
    struct in_a_row alone_row, kept_row, beside_row, loaded_row;
};

static int64_t instructions_of(const gs_timed_row *row) {
    return row->instructions ? row->instructions : 1;
}

static gs_code measure_latency(struct timing *timing, size_t row, struct row_times *times, gs_error *error) {
    const gs_timed_row *of = &gs_timed_rows[row];
    int32_t chain = gs_timed_class_body(row, GS_TIMED_CHAIN), warps = strcmp(of->unit, "barrier") ? 1 : FULL_BLOCK;
    int64_t sms = timing->device->gpu->sms;
    struct extremes brief, full, single, ns;
    gs_code code = time_body(timing, chain, SHORT_CHAIN, sms, warps, &brief, &ns, error);
    if (code == GS_OK)
        code = time_body(timing, chain, LONG_CHAIN, sms, warps, &full, &ns, error);
    if (code == GS_OK)
        code =
            time_body(timing, gs_timed_class_body(row, GS_TIMED_SINGLE), GS_TIMED_SINGLES, sms, 1, &single, &ns, error);
    if (code != GS_OK)
        return code;
    int64_t steps = LONG_CHAIN - SHORT_CHAIN;
    times->latency = gs_max(gs_divide_up(full.most - brief.least, steps * instructions_of(of)), 1);
    if (of->scope == GS_UNIT_OF_GPU || of->is_single)
        times->latency = gs_max(single.most - timing->bare_cycles, times->latency);
    return GS_OK;
}

static gs_code measure_load(struct timing *timing, size_t row, struct row_times *times, gs_error *error) {
    const gs_timed_row *of = &gs_timed_rows[row];
    const gs_gpu *gpu = timing->device->gpu;
    int32_t chain = gs_timed_class_body(row, GS_TIMED_CHAIN);
    int64_t on_sm, transactions = LONG_CHAIN * FULL_BLOCK * instructions_of(of) * of->transactions;
    struct extremes all, one, ns;
    const gs_timing_request small = {
        .body = (gs_timed_body)chain, .count = LONG_CHAIN, .blocks = 1, .warps = FULL_BLOCK, .data_bytes = 64 << 10};
    gs_code code = full_blocks(timing, chain, LONG_CHAIN, &on_sm, error);
    if (code == GS_OK)
        code = time_body(timing, chain, LONG_CHAIN, on_sm * gpu->sms, FULL_BLOCK, &all, &ns, error);
    if (code == GS_OK)
        code = time_request(timing, &small, &one, &ns, error);
    if (code != GS_OK)
        return code;
    int64_t units = of->scope == GS_UNIT_OF_PARTITION ? gpu->limits.partitions_per_sm : 1;
    int64_t sms = of->scope == GS_UNIT_OF_GPU ? gpu->sms : 1;
    times->held = gs_max(gs_divide_up(all.most * 1000 * units, transactions * on_sm * sms), 1);
    times->load_store = of->scope == GS_UNIT_OF_GPU ? gs_max(gs_divide_up(one.most * 1000, transactions), 1) : 0;
    return GS_OK;
}

static gs_code time_most(struct timing *timing, const gs_timing_request *request, int64_t *most, gs_error *error) {
    struct extremes cycles, ns;
    gs_code code = time_request(timing, request, &cycles, &ns, error);
    *most = gs_max(cycles.most, *most);
    return code;
}

/* The most cycles on a full GPU: on which all warps do the same, or half of them read at random places. */
static gs_code time_loads(struct timing *timing, const gs_timing_request *given, int64_t *most, gs_error *error) {
    gs_timing_request request = *given;
    gs_code code = time_most(timing, &request, most, error);
    request.is_beside = true;
    return code == GS_OK ? time_most(timing, &request, most, error) : code;
}

typedef gs_code time_function(struct timing *timing, const gs_timing_request *request, int64_t *most, gs_error *error);

/* A step of GS_TIMED_BARE_ROW, at least; also with a barrier, of one warp: more warps arrive there one after the other,
   which the slowest of an access does not wait for. */
static gs_code measure_bare(struct timing *timing, gs_error *error) {
    enum { ROUNDS = 256 };
    gs_timing_request request = {.body = (gs_timed_body)gs_timed_class_body(GS_TIMED_BARE_ROW, GS_TIMED_SINGLE),
                                 .count = GS_TIMED_SINGLES,
                                 .blocks = timing->device->gpu->sms,
                                 .warps = 1,
                                 .singles = ROUNDS,
                                 .rate = 1};
    struct extremes one, together, ns;
    gs_code code = time_request(timing, &request, &one, &ns, error);
    request.is_together = true;
    if (code == GS_OK)
        code = time_request(timing, &request, &together, &ns, error);
    if (code != GS_OK)
        return code;
    timing->bare_cycles = one.least / ROUNDS + 1;
    timing->bare_together_cycles = together.least / ROUNDS + 1;
    return GS_OK;
}

/* What some in a row take, of which one takes `longest`, for the better of two rates above their mean. In a row each
   takes until all warps of its block have done theirs, because the chain of a proof may take the slowest of several. */
static gs_code measure_in_a_row(struct timing *timing, gs_timing_request request, time_function *time, int64_t longest,
                                struct in_a_row *row, gs_error *error) {
    enum { ROUNDS = 256, SLOW_ROUNDS = 64, SLOW_CYCLES = 100000, TYPICAL = 32, PARTS = 4 };
    static const int64_t rates[] = {5, 8}; /* parts of the mean */
    int64_t sum = 0, rounds = longest > SLOW_CYCLES ? SLOW_ROUNDS : ROUNDS, bare = timing->bare_together_cycles;
    request.is_together = true;
    request.singles = (int32_t)rounds;
    request.rate = 1;
    gs_code code = time(timing, &request, &sum, error);
    int64_t mean = gs_max(sum / rounds + 1 - bare, 1);
    for (size_t i = 0; i < GS_COUNT(rates) && code == GS_OK; i++) {
        int64_t burst = 0;
        int64_t rate = gs_divide_up(mean * rates[i], PARTS);
        request.rate = (int32_t)gs_min(rate + bare, INT32_MAX);
        code = time(timing, &request, &burst, error);
        if (!i || burst + TYPICAL * rate < row->burst + TYPICAL * row->repeated)
            *row = (struct in_a_row){rate, burst};
    }
    return code;
}

/* The longest single one. */
static gs_code time_single(struct timing *timing, const gs_timing_request *request, time_function *time, int64_t *most,
                           gs_error *error) {
    gs_code code = time(timing, request, most, error);
    *most = gs_max(*most - timing->bare_cycles, 1);
    return code;
}

static gs_timing_request single_of(size_t row, int64_t blocks, int32_t warps) {
    return (gs_timing_request){.body = (gs_timed_body)gs_timed_class_body(row, GS_TIMED_SINGLE),
                               .count = GS_TIMED_SINGLES,
                               .blocks = blocks,
                               .warps = warps};
}

/* On a full GPU: the longest single one, and some in a row. */
static gs_code measure_loaded(struct timing *timing, size_t row, struct row_times *times, gs_error *error) {
    gs_timing_request request = single_of(row, 0, FULL_BLOCK);
    int64_t on_sm;
    gs_code code = full_blocks(timing, (int32_t)request.body, request.count, &on_sm, error);
    request.blocks = on_sm * timing->device->gpu->sms;
    if (code == GS_OK)
        code = time_single(timing, &request, time_loads, &times->loaded, error);
    if (code == GS_OK)
        code = measure_in_a_row(timing, request, time_loads, times->loaded, &times->loaded_row, error);
    return code;
}

/* A few warps on half of the SMs, while those on the others read, or write, at random places. */
static gs_code measure_beside(struct timing *timing, size_t row, struct row_times *times, gs_error *error) {
    gs_timing_request request = single_of(row, 0, FULL_BLOCK);
    int64_t on_sm;
    gs_code code = full_blocks(timing, (int32_t)request.body, request.count, &on_sm, error);
    request.blocks = on_sm * timing->device->gpu->sms;
    request.is_beside = true;
    request.few = 1;
    if (code == GS_OK)
        code = time_single(timing, &request, time_most, &times->beside, error);
    request.few = GS_FEW_WARPS;
    if (code == GS_OK)
        code = measure_in_a_row(timing, request, time_most, times->beside, &times->beside_row, error);
    request.few = 1;
    request.is_writing = true;
    return code == GS_OK ? time_single(timing, &request, time_most, &times->written, error) : code;
}

/* In memory that the cache of the GPU keeps: a full GPU reads all of it first. And some in a row, there and in all
   memory. */
static gs_code measure_kept(struct timing *timing, size_t row, struct row_times *times, gs_error *error) {
    const gs_timed_row *of = &gs_timed_rows[row];
    int64_t sms = timing->device->gpu->sms, on_sm;
    struct extremes all, ns;
    gs_timing_request request = {.body = (gs_timed_body)gs_timed_class_body(row, GS_TIMED_CHAIN),
                                 .count = LONG_CHAIN,
                                 .warps = FULL_BLOCK,
                                 .data_bytes = KEPT_BYTES};
    gs_code code = full_blocks(timing, (int32_t)request.body, request.count, &on_sm, error);
    request.blocks = on_sm * sms;
    if (code == GS_OK)
        code = time_request(timing, &request, &all, &ns, error);
    request = single_of(row, sms, 1);
    request.data_bytes = KEPT_BYTES;
    if (code == GS_OK)
        code = time_single(timing, &request, time_most, &times->kept_latency, error);
    request.warps = GS_FEW_WARPS;
    if (code == GS_OK)
        code = measure_in_a_row(timing, request, time_most, times->kept_latency, &times->kept_row, error);
    request.data_bytes = 0;
    if (code == GS_OK)
        code = measure_in_a_row(timing, request, time_most, times->latency, &times->alone_row, error);
    if (code != GS_OK)
        return code;
    int64_t transactions = LONG_CHAIN * FULL_BLOCK * instructions_of(of) * of->transactions;
    times->kept_held = gs_max(gs_divide_up(all.most * 1000, transactions * on_sm * sms), 1);
    return GS_OK;
}

/* The number of a unit, which is added if it is new. -1: out of memory. */
static int unit_of(gs_machine *machine, const char *name, gs_unit_scope scope) {
    for (size_t i = 0; i < machine->units.count; i++)
        if (strcmp(machine->units.data[i].name, name) == 0)
            return (int)i;
    char *copy = strdup(name);
    if (!copy || !GS_PUSH(&machine->units, (gs_machine_unit){copy, scope})) {
        free(copy);
        return -1;
    }
    return (int)machine->units.count - 1;
}

/* The class with this name, which is added if it is new. NULL: out of memory. */
static gs_machine_class *class_of(gs_machine *machine, const char *name) {
    for (size_t i = 0; i < machine->classes.count; i++)
        if (strcmp(machine->classes.data[i].name, name) == 0)
            return &machine->classes.data[i];
    char *copy = strdup(name);
    if (!copy ||
        !GS_PUSH(&machine->classes, (gs_machine_class){.name = copy, .latency_cycles = 1, .transactions = 1})) {
        free(copy);
        return NULL;
    }
    return &machine->classes.data[machine->classes.count - 1];
}

/* Each time of a class becomes the larger of two. */
static void class_larger(gs_machine_class *row, const gs_machine_class *other) {
    static const size_t times[] = {
        offsetof(gs_machine_class, latency_cycles),        offsetof(gs_machine_class, loaded_cycles),
        offsetof(gs_machine_class, repeated_cycles),       offsetof(gs_machine_class, burst_cycles),
        offsetof(gs_machine_class, kept_cycles),           offsetof(gs_machine_class, kept_millicycles),
        offsetof(gs_machine_class, kept_repeated_cycles),  offsetof(gs_machine_class, kept_burst_cycles),
        offsetof(gs_machine_class, alone_repeated_cycles), offsetof(gs_machine_class, alone_burst_cycles),
        offsetof(gs_machine_class, beside_cycles),         offsetof(gs_machine_class, transactions),
        offsetof(gs_machine_class, written_cycles),        offsetof(gs_machine_class, beside_repeated_cycles),
        offsetof(gs_machine_class, beside_burst_cycles)};
    for (size_t i = 0; i < GS_COUNT(times); i++) {
        int64_t *to = (int64_t *)(void *)((char *)row + times[i]);
        *to = gs_max(*to, *(const int64_t *)(const void *)((const char *)other + times[i]));
    }
    for (size_t i = 0; i < GS_MACHINE_UNITS; i++)
        row->held_millicycles[i] = gs_max(row->held_millicycles[i], other->held_millicycles[i]);
}

static gs_code add_row(struct timing *timing, size_t row, const struct row_times *times, gs_error *error) {
    const gs_timed_row *of = &gs_timed_rows[row];
    gs_machine_class found = {.latency_cycles = times->latency,
                              .loaded_cycles = gs_max(times->loaded, times->latency),
                              .repeated_cycles = times->loaded_row.repeated,
                              .burst_cycles = times->loaded_row.burst,
                              .kept_cycles = times->kept_latency,
                              .kept_repeated_cycles = times->kept_row.repeated,
                              .kept_burst_cycles = times->kept_row.burst,
                              .alone_repeated_cycles = times->alone_row.repeated,
                              .alone_burst_cycles = times->alone_row.burst,
                              .beside_cycles = times->beside,
                              .written_cycles = times->written,
                              .beside_repeated_cycles = times->beside_row.repeated,
                              .beside_burst_cycles = times->beside_row.burst,
                              .kept_millicycles = times->kept_held,
                              .transactions = of->transactions};
    int unit = unit_of(timing->machine, of->unit, of->scope);
    int load_store = times->load_store ? unit_of(timing->machine, load_store_unit, GS_UNIT_OF_SM) : unit;
    gs_machine_class *into = class_of(timing->machine, of->class_name);
    if (unit < 0 || load_store < 0 || !into)
        return gs_fail_memory(error);
    if (times->load_store)
        found.held_millicycles[load_store] = times->load_store;
    found.held_millicycles[unit] = times->held;
    class_larger(into, &found);
    return GS_OK;
}

static bool has_kernel(struct timing *timing, size_t row) {
    int architecture = gs_gpu_architecture(timing->device->gpu);
    return !architecture || architecture >= gs_timed_rows[row].architecture;
}

static gs_code measure_rows(struct timing *timing, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t row = 0; row < gs_timed_row_count && code == GS_OK; row++) {
        struct row_times times = {0};
        if (!gs_timed_rows[row].class_name || !has_kernel(timing, row))
            continue;
        bool is_of_gpu = gs_timed_rows[row].scope == GS_UNIT_OF_GPU;
        code = measure_latency(timing, row, &times, error);
        if (code == GS_OK)
            code = measure_load(timing, row, &times, error);
        if (code == GS_OK && is_of_gpu)
            code = measure_loaded(timing, row, &times, error);
        if (code == GS_OK && is_of_gpu)
            code = measure_beside(timing, row, &times, error);
        if (code == GS_OK && is_of_gpu)
            code = measure_kept(timing, row, &times, error);
        if (code == GS_OK)
            code = add_row(timing, row, &times, error);
        if (timing->options->progress)
            timing->options->progress(timing->options->user, (int64_t)row + 1, (int64_t)gs_timed_row_count);
    }
    for (size_t i = 0; i < GS_COUNT(aliases) && code == GS_OK; i++) {
        const gs_machine_class *as = gs_machine_find(timing->machine, aliases[i].as);
        gs_machine_class copy = as ? *as : (gs_machine_class){0}, *into = class_of(timing->machine, aliases[i].name);
        if (!into)
            return gs_fail_memory(error);
        if (strncmp(aliases[i].name, "global", strlen("global")) != 0)
            copy.kept_cycles = copy.kept_millicycles = copy.kept_repeated_cycles = copy.kept_burst_cycles =
                0; /* local memory is not among the buffers of a launch */
        class_larger(into, &copy);
    }
    for (size_t i = 0; i < GS_COUNT(reads) && code == GS_OK; i++) {
        const gs_machine_class *as = gs_machine_find(timing->machine, reads[i].as);
        gs_machine_class *store = class_of(timing->machine, reads[i].name);
        if (!store)
            return gs_fail_memory(error);
        store->read_cycles = as ? as->latency_cycles : 0;
        store->loaded_read_cycles = as ? as->loaded_cycles : 0;
        store->kept_read_cycles = as ? as->kept_cycles : 0;
        store->beside_read_cycles = as ? as->beside_cycles : 0;
        store->written_read_cycles = as ? as->written_cycles : 0;
    }
    timing->machine->kept_bytes = KEPT_BYTES;
    timing->machine->sms = timing->device->gpu->sms;
    return code;
}

/* ---- instructions, constants, launches, the clock ---- */

/* A chain of `count` steps, compared with one of `least`: of both, the time of an SM from the start of its first warp
   to the end of its last, because warps that run one after the other hide what each of them waits for. `late` gets by
   how many cycles it is longer than its instructions take to be issued, for each of `waits`; in the crowd of warps that
   is the latest. `of_others`: a warp does not issue its own while it waits. */
static gs_code time_crowds(struct timing *timing, size_t row, int32_t least, int32_t count, int64_t instructions,
                           bool of_others, int64_t waits, int64_t *late, gs_error *error) {
    static const int32_t crowds[] = {1, 4, 16, FULL_BLOCK};
    gs_timing_request request = {.body = (gs_timed_body)gs_timed_class_body(row, GS_TIMED_CHAIN),
                                 .blocks = timing->device->gpu->sms,
                                 .is_of_sm = true};
    *late = 0;
    for (size_t i = 0; i < GS_COUNT(crowds); i++) {
        struct extremes brief, full, ns;
        int64_t in_turn = gs_divide_up(crowds[i], timing->device->gpu->limits.partitions_per_sm) - of_others;
        request.warps = crowds[i];
        request.count = least;
        gs_code code = time_request(timing, &request, &brief, &ns, error);
        request.count = count;
        if (code == GS_OK)
            code = time_request(timing, &request, &full, &ns, error);
        if (code != GS_OK)
            return code;
        int64_t issued = (count - least) * instructions * in_turn;
        *late = gs_max(*late, gs_divide_up(gs_max(full.most - brief.least_longest - issued, 0), waits));
    }
    return GS_OK;
}

/* Lines that follow each other, and jumps, in code of 1 to 31 KB. A branch that is taken counts as two jumps, to its
   side and behind it; it has at least three instructions. */
static gs_code measure_crowds(struct timing *timing, gs_error *error) {
    enum { LINE_INSTRUCTIONS = LINE_BYTES / GS_TIMED_INSTRUCTION_BYTES, BRANCH = 3 };
    gs_machine *machine = timing->machine;
    gs_code code = GS_OK;
    for (int i = 1; i < GS_TIMED_CROWDED_CODES && code == GS_OK; i++) {
        int32_t least = gs_timed_code_counts[0], count = gs_timed_code_counts[i];
        int32_t jumps = gs_timed_jump_count(i), least_jumps = gs_timed_jump_count(0);
        int64_t line = 0, jump = 0;
        code = time_crowds(timing, GS_TIMED_CODE_ROW, least, count, GS_TIMED_CODE_INSTRUCTIONS, false,
                           (count - least) * GS_TIMED_CODE_INSTRUCTIONS / LINE_INSTRUCTIONS, &line, error);
        if (code == GS_OK)
            code = time_crowds(timing, GS_TIMED_JUMP_ROW, least_jumps, jumps, BRANCH, true, 2 * (jumps - least_jumps),
                               &jump, error);
        machine->fetch_cycles = gs_max(machine->fetch_cycles, line);
        machine->jump_cycles = gs_max(machine->jump_cycles, jump);
    }
    return code;
}

/* A loop of one instruction, for a jump; chains of several lengths, in their first round and in the second. What an
   instruction of a line takes beyond one cycle counts as waiting for the line. */
static gs_code measure_code(struct timing *timing, gs_error *error) {
    enum { LINE_INSTRUCTIONS = LINE_BYTES / GS_TIMED_INSTRUCTION_BYTES, ROUNDS = 64 };
    gs_machine *machine = timing->machine;
    int64_t sms = timing->device->gpu->sms;
    struct extremes loop, ns;
    gs_code code =
        time_body(timing, gs_timed_class_body(GS_TIMED_CODE_ROW, GS_TIMED_LOOP), ROUNDS, sms, 1, &loop, &ns, error);
    machine->line_bytes = LINE_BYTES;
    if (code == GS_OK)
        machine->jump_cycles = gs_divide_up(loop.most, ROUNDS);
    for (int i = GS_TIMED_LARGE_CODE; i < GS_TIMED_CODES && code == GS_OK; i++) {
        struct extremes warm, cold;
        int32_t count = gs_timed_code_counts[i];
        int64_t bytes = (int64_t)count * GS_TIMED_CODE_INSTRUCTIONS * GS_TIMED_INSTRUCTION_BYTES,
                lines = bytes / LINE_BYTES;
        code =
            time_body(timing, gs_timed_class_body(GS_TIMED_CODE_ROW, GS_TIMED_CHAIN), count, sms, 1, &warm, &ns, error);
        if (code == GS_OK)
            code = time_body(timing, gs_timed_class_body(GS_TIMED_CODE_ROW, GS_TIMED_COLD), count, sms, 1, &cold, &ns,
                             error);
        if (code != GS_OK)
            break;
        int64_t late = gs_max(gs_divide_up(warm.most, lines) - LINE_INSTRUCTIONS, 0);
        if (late <= LINE_INSTRUCTIONS) { /* it is in a cache; jumps in larger code take longer: tests/gpu/caches.cu */
            machine->fetch_cycles = gs_max(machine->fetch_cycles, late);
            machine->code_bytes = bytes;
        }
        machine->cold_fetch_cycles =
            gs_max(machine->cold_fetch_cycles, gs_divide_up(gs_max(cold.most - warm.least, 0), lines));
    }
    if (code == GS_OK)
        code = measure_crowds(timing, error);
    machine->jump_cycles = gs_max(machine->jump_cycles, machine->fetch_cycles);
    machine->cold_fetch_cycles = gs_max(machine->cold_fetch_cycles, machine->fetch_cycles);
    return code;
}

/* Each load of the chain is from another line. */
static gs_code measure_constants(struct timing *timing, gs_error *error) {
    gs_machine *machine = timing->machine;
    int64_t sms = timing->device->gpu->sms;
    struct extremes warm, cold, ns;
    gs_code code = time_body(timing, gs_timed_class_body(GS_TIMED_CONSTANT_ROW, GS_TIMED_CHAIN), LONG_CHAIN, sms, 1,
                             &warm, &ns, error);
    if (code == GS_OK)
        code = time_body(timing, gs_timed_class_body(GS_TIMED_CONSTANT_ROW, GS_TIMED_COLD), LONG_CHAIN, sms, 1, &cold,
                         &ns, error);
    if (code != GS_OK)
        return code;
    machine->constant_line_bytes = GS_TIMED_CONSTANT_LINE;
    machine->cold_constant_cycles = gs_max(gs_divide_up(cold.most - warm.least, LONG_CHAIN), 1);
    return GS_OK;
}

/* Launches differ more than instructions do, so there are more trials of them. */
static gs_code time_launches(struct timing *timing, gs_timing_request request, struct extremes *ns, gs_error *error) {
    enum { TIMES = 4 };
    request.body = (gs_timed_body)GS_TIMED_EMPTY;
    request.blocks = request.warps = 1;
    *ns = (struct extremes){INT64_MAX, 0, INT64_MAX};
    for (int i = 0; i < TIMES; i++) {
        struct extremes cycles, found;
        gs_code code = time_request(timing, &request, &cycles, &found, error);
        if (code != GS_OK)
            return code;
        *ns = (struct extremes){gs_min(ns->least, found.least), gs_max(ns->most, found.most),
                                gs_min(ns->least_longest, found.least_longest)};
    }
    return GS_OK;
}

static gs_code measure_launches(struct timing *timing, gs_error *error) {
    enum { MANY = 256, CLOCK_PARTS = 100 };
    gs_machine *machine = timing->machine;
    int64_t sms = timing->device->gpu->sms;
    struct extremes cycles, one = {0}, loaded = {0}, written = {0}, many, ns;
    gs_code code = time_body(timing, GS_TIMED_CLOCK, 0, sms, 1, &cycles, &ns, error);
    if (code == GS_OK)
        machine->clock_mhz = gs_max(cycles.least * CLOCK_PARTS / 1000000, 1);
    if (code == GS_OK)
        code = time_launches(timing, (gs_timing_request){.count = 0}, &one, error);
    if (code == GS_OK)
        code = time_launches(timing, (gs_timing_request){.count = GS_TIMED_BUSY}, &loaded, error);
    if (code == GS_OK)
        code = time_launches(timing, (gs_timing_request){.count = GS_TIMED_BUSY, .is_beside = true, .is_writing = true},
                             &written, error);
    if (code == GS_OK)
        code = time_body(timing, GS_TIMED_EMPTY, 0, sms * MANY, 1, &cycles, &many, error);
    if (code != GS_OK)
        return code;
    machine->launch_ns = one.most;
    machine->loaded_launch_ns = gs_max(loaded.most, one.most);
    machine->written_launch_ns = gs_max(written.most, machine->loaded_launch_ns);
    machine->block_cycles = gs_divide_up(gs_max(many.most - one.least, 0) * machine->clock_mhz, (int64_t)MANY * 1000);
    return GS_OK;
}

static gs_code add_branches(struct timing *timing, gs_error *error) {
    gs_machine_class *row = class_of(timing->machine, "branch");
    if (!row)
        return gs_fail_memory(error);
    row->latency_cycles = row->loaded_cycles = gs_max(timing->machine->jump_cycles, 1);
    return GS_OK;
}

static gs_code say_found(struct timing *timing, gs_error *error) {
    const gs_device *device = timing->device;
    gs_text text = {0};
    gs_text_add(&text,
                "gridsmith probe --latency on %s, %s%sdriver %s%s%s; maxima of %d trials, not guaranteed; "
                "%lld cycles around an access, and %lld in a row, are taken off",
                device->gpu->title ? device->gpu->title : device->gpu->name, device->uuid, device->uuid[0] ? ", " : "",
                device->driver, timing->options->date ? ", " : "", timing->options->date ? timing->options->date : "",
                timing->options->trials, (long long)timing->bare_cycles, (long long)timing->bare_together_cycles);
    timing->machine->found = text.data;
    return text.failed ? gs_fail_memory(error) : GS_OK;
}

gs_code gs_measure_machine(gs_device *device, const gs_latency_options *options, gs_machine **machine,
                           gs_error *error) {
    struct timing timing = {.device = device, .options = options};
    timing.machine = calloc(1, sizeof *timing.machine);
    gs_code code = timing.machine ? measure_bare(&timing, error) : gs_fail_memory(error);
    if (code == GS_OK)
        code = say_found(&timing, error);
    if (code == GS_OK)
        code = measure_launches(&timing, error);
    if (code == GS_OK)
        code = measure_rows(&timing, error);
    if (code == GS_OK)
        code = measure_code(&timing, error);
    if (code == GS_OK)
        code = measure_constants(&timing, error);
    if (code == GS_OK)
        code = add_branches(&timing, error);
    if (code == GS_OK)
        *machine = timing.machine;
    else
        gs_machine_free(timing.machine);
    return code;
}
