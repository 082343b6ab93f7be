/*
 * assumed.c: what was assumed about kernels, and for which other values the answer is the same.
 *
 * A kernel that is given as a word has 32 registers, no shared memory and no local memory unless the word says more.
 * Any of these can decide the answer. So other values are tried, from the assumed one up, and for registers also down,
 * until the answer changes.
 *
 * Registers are tried for all kernels that were given without: first with equal values, then in every combination of
 * two kernels' values, or of the least, the assumed and the largest value of more kernels. So the answer holds for each
 * of them, up to the number with which a block of each can run. Shared and local memory are tried for one kernel at a
 * time, all others as assumed.
 */
#include "trial.h"

#include <stdlib.h>

enum { LEAST_REGISTERS = GS_LEAST_ASSUMED_REGISTERS };

struct search {
    const gs_gpu *gpu;
    gs_run *run; /* a copy, whose launches get other values */
    bool every_order;
    bool answer;  /* with the assumed values */
    int64_t left; /* launches that may still be tried */
};

static int64_t value_of(const gs_launch *launch, gs_assumed_kind kind) {
    return kind == GS_ASSUMED_REGISTERS ? launch->shape.registers
           : kind == GS_ASSUMED_SHARED  ? launch->shape.shared_bytes
                                        : launch->shape.local_bytes;
}

static void set_value(gs_launch *launch, gs_assumed_kind kind, int64_t value) {
    if (kind == GS_ASSUMED_REGISTERS)
        launch->shape.registers = (int32_t)value;
    else if (kind == GS_ASSUMED_SHARED)
        launch->shape.shared_bytes = value;
    else
        launch->shape.local_bytes = value;
}

static bool is_assumed(const gs_launch *launch, gs_assumed_kind kind) {
    return launch->assumed >> kind & 1;
}

/* Registers of a thread are given in steps: as many as this make no difference. */
static int64_t register_step(const gs_gpu *gpu) {
    return gs_max(1, gpu->limits.register_granularity / gpu->limits.warp_threads);
}

static int64_t round_registers(const gs_gpu *gpu, int64_t registers) {
    int64_t step = register_step(gpu);
    return gs_min(gs_divide_up(registers, step) * step, gpu->limits.registers_per_thread);
}

/* The same, or the most that a block of the kernel can have. */
static void set_registers(const gs_gpu *gpu, gs_launch *launch, int64_t registers) {
    gs_need need;
    set_value(launch, GS_ASSUMED_REGISTERS, registers);
    while (gs_need_of(gpu, &launch->shape, &need, NULL) != GS_OK && registers > LEAST_REGISTERS) {
        registers = round_registers(gpu, registers) - register_step(gpu);
        set_value(launch, GS_ASSUMED_REGISTERS, registers);
    }
}

/* ---- trying ---- */

static gs_code play_orders(struct search *search, bool *works, gs_error *error) {
    size_t order[GS_MOST_PERMUTED], count = search->run->launches.count;
    gs_trial *trial = gs_trial_new(search->gpu, search->run, error);
    gs_code code = trial ? GS_OK : GS_E_MEMORY;
    bool more = true;
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (*works = true; more && *works && code == GS_OK;
         more = search->every_order && gs_next_permutation(order, count)) {
        code = gs_trial_play(trial, NULL, 0, search->every_order ? order : NULL, works, error);
        search->left -= (int64_t)count;
    }
    gs_trial_free(trial);
    return code;
}

/* Whether a block of each kernel fits on an SM of the empty GPU: other values are not plausible. */
static bool is_possible(const struct search *search) {
    for (size_t i = 0; i < search->run->launches.count; i++) {
        gs_need need;
        if (gs_need_of(search->gpu, &search->run->launches.data[i].shape, &need, NULL) != GS_OK)
            return false;
    }
    return true;
}

/* What a value gives: the same answer, the other one, or nothing, because it cannot be. */
enum outcome { SAME, OTHER, IMPOSSIBLE };

static gs_code try_values(struct search *search, enum outcome *outcome, gs_error *error) {
    bool works;
    *outcome = IMPOSSIBLE;
    if (!is_possible(search))
        return GS_OK;
    gs_code code = play_orders(search, &works, error);
    *outcome = works == search->answer ? SAME : OTHER;
    return code;
}

/* Sets the value of all kernels of which it was assumed, or of one of them, and tries it. */
static gs_code try_value(struct search *search, gs_assumed_kind kind, size_t only, int64_t value, enum outcome *outcome,
                         gs_error *error) {
    gs_launches *launches = &search->run->launches;
    for (size_t i = 0; i < launches->count; i++)
        if (is_assumed(&launches->data[i], kind) && (only == SIZE_MAX || i == only)) {
            if (kind == GS_ASSUMED_REGISTERS)
                set_registers(search->gpu, &launches->data[i], value);
            else
                set_value(&launches->data[i], kind, value);
        }
    return try_values(search, outcome, error);
}

static void restore_values(struct search *search, const gs_run *given, gs_assumed_kind kind) {
    for (size_t i = 0; i < given->launches.count; i++)
        set_value(&search->run->launches.data[i], kind, value_of(&given->launches.data[i], kind));
}

/* ---- registers ---- */

/* The next step up or down; 0: there is none. */
static int64_t next_registers(const gs_gpu *gpu, int64_t registers, bool up) {
    int64_t next = round_registers(gpu, registers) + (up ? 1 : -1) * register_step(gpu);
    if (up)
        return registers < gpu->limits.registers_per_thread ? gs_min(next, gpu->limits.registers_per_thread) : 0;
    return registers > LEAST_REGISTERS ? gs_max(next, LEAST_REGISTERS) : 0;
}

/* The bound of the range, from the assumed value up or down. All kernels have the same value, or only one another. */
static gs_code widen_registers(struct search *search, gs_assumed *assumed, size_t only, bool up, int64_t *bound,
                               gs_error *error) {
    enum outcome outcome = SAME;
    gs_code code = GS_OK;
    int64_t value = *bound = up ? round_registers(search->gpu, assumed->value) : assumed->value;
    while (outcome == SAME && code == GS_OK && search->left > 0 &&
           (value = next_registers(search->gpu, value, up)) != 0) {
        code = try_value(search, GS_ASSUMED_REGISTERS, only, value, &outcome, error);
        if (outcome == SAME)
            *bound = value;
        assumed->decides |= outcome == OTHER;
    }
    if (outcome == OTHER && !up) /* as many as this are given more */
        *bound = gs_min(*bound, value + 1);
    return code;
}

static gs_code find_bounds(struct search *search, const gs_run *given, gs_assumed *assumed, size_t only,
                           gs_error *error) {
    int64_t least = assumed->value, most = assumed->value;
    gs_code code = widen_registers(search, assumed, only, true, &most, error);
    restore_values(search, given, GS_ASSUMED_REGISTERS);
    if (code == GS_OK)
        code = widen_registers(search, assumed, only, false, &least, error);
    restore_values(search, given, GS_ASSUMED_REGISTERS);
    if (code == GS_OK) {
        assumed->least = gs_max(assumed->least, least);
        assumed->most = gs_min(assumed->most, most);
    }
    return code;
}

/* The two kernels of which registers were assumed. */
static void find_both(const gs_run *run, size_t *first, size_t *second) {
    *first = *second = SIZE_MAX;
    for (size_t i = 0; i < run->launches.count; i++)
        if (is_assumed(&run->launches.data[i], GS_ASSUMED_REGISTERS))
            *(*first == SIZE_MAX ? first : second) = i;
}

/* Tries all values of the two kernels in the range. `*outcome` is OTHER if one of them gives another answer. */
static gs_code try_both(struct search *search, const gs_assumed *assumed, enum outcome *outcome, gs_error *error) {
    size_t first, second;
    gs_code code = GS_OK;
    gs_launch *launches = search->run->launches.data;
    find_both(search->run, &first, &second);
    *outcome = SAME;
    for (int64_t a = assumed->least; a && a <= assumed->most && *outcome != OTHER;
         a = next_registers(search->gpu, a, true))
        for (int64_t b = assumed->least;
             b && b <= assumed->most && *outcome != OTHER && code == GS_OK && search->left > 0;
             b = next_registers(search->gpu, b, true)) {
            set_registers(search->gpu, &launches[first], a);
            set_registers(search->gpu, &launches[second], b);
            code = try_values(search, outcome, error);
        }
    return code;
}

/* Makes the range of two kernels smaller, first from above, until the answer holds for all pairs of values: at the
   latest when only the assumed one is left. */
static gs_code hold_for_both(struct search *search, gs_assumed *assumed, gs_error *error) {
    enum outcome outcome = OTHER;
    gs_code code = GS_OK;
    int64_t given = round_registers(search->gpu, assumed->value);
    while (code == GS_OK && search->left > 0) {
        code = try_both(search, assumed, &outcome, error);
        if (outcome != OTHER)
            break;
        assumed->decides = true;
        if (assumed->most > given)
            assumed->most = gs_max(given, next_registers(search->gpu, assumed->most, false));
        else
            assumed->least = assumed->value;
    }
    return code;
}

/* With more registers than this, a block of some kernel cannot run: that is another answer, too. */
static void cap_registers(struct search *search, gs_assumed *assumed) {
    for (size_t i = 0; i < search->run->launches.count; i++) {
        gs_launch *launch = &search->run->launches.data[i];
        if (!is_assumed(launch, GS_ASSUMED_REGISTERS))
            continue;
        set_registers(search->gpu, launch, search->gpu->limits.registers_per_thread);
        assumed->is_capped |= launch->shape.registers < assumed->most;
        assumed->most = gs_min(assumed->most, launch->shape.registers);
    }
}

static gs_code find_registers(struct search *search, const gs_run *given, gs_assumed *assumed, gs_error *error) {
    gs_code code = GS_OK;
    assumed->least = LEAST_REGISTERS;
    assumed->most = search->gpu->limits.registers_per_thread;
    if (assumed->kernels <= 2)
        code = find_bounds(search, given, assumed, SIZE_MAX, error);
    for (size_t i = 0; i < given->launches.count && code == GS_OK && assumed->kernels > 2; i++)
        if (is_assumed(&given->launches.data[i], GS_ASSUMED_REGISTERS))
            code = find_bounds(search, given, assumed, i, error);
    if (code == GS_OK && assumed->kernels == 2)
        code = hold_for_both(search, assumed, error);
    cap_registers(search, assumed);
    return code;
}

/* ---- memory ---- */

/* The next value to try. Local memory matters only as equal to that of another kernel, or more, or less. */
static int64_t next_value(const struct search *search, gs_assumed_kind kind, size_t launch, int64_t value) {
    int64_t next = INT64_MAX;
    if (kind == GS_ASSUMED_SHARED)
        return value < search->gpu->limits.shared_per_block_bytes ? value + search->gpu->limits.shared_granularity_bytes
                                                                  : INT64_MAX;
    for (size_t i = 0; i < search->run->launches.count; i++) {
        int64_t other = i == launch ? 0 : search->run->launches.data[i].shape.local_bytes;
        for (int64_t more = 0; more <= 1; more++)
            next = other + more > value ? gs_min(next, other + more) : next;
    }
    return next;
}

/* Up to which value of one kernel the answer is the same. */
static gs_code raise_memory(struct search *search, gs_assumed *assumed, size_t launch, gs_error *error) {
    enum outcome outcome = SAME;
    gs_code code = GS_OK;
    int64_t value = assumed->value;
    while (code == GS_OK && search->left > 0 &&
           (value = next_value(search, assumed->kind, launch, value)) != INT64_MAX) {
        code = try_value(search, assumed->kind, launch, value, &outcome, error);
        if (outcome != SAME)
            break;
    }
    if (outcome == OTHER) {
        int64_t last = value - (assumed->kind == GS_ASSUMED_SHARED ? search->gpu->limits.shared_granularity_bytes : 1);
        assumed->most = assumed->decides ? gs_min(assumed->most, last) : last;
        assumed->decides = true;
    }
    return code;
}

/* ---- all ---- */

static gs_code find_range(struct search *search, const gs_run *given, gs_assumed *assumed, gs_error *error) {
    gs_code code = GS_OK;
    if (assumed->kind == GS_ASSUMED_REGISTERS)
        code = find_registers(search, given, assumed, error);
    for (size_t i = 0; i < given->launches.count && assumed->kind != GS_ASSUMED_REGISTERS && code == GS_OK; i++)
        if (is_assumed(&given->launches.data[i], assumed->kind)) {
            code = raise_memory(search, assumed, i, error);
            restore_values(search, given, assumed->kind);
        }
    restore_values(search, given, assumed->kind);
    assumed->is_tried = search->left > 0;
    return code;
}

/* Which kernels were given without this. */
static gs_assumed assumed_of(const gs_run *run, gs_assumed_kind kind) {
    gs_assumed assumed = {.kind = kind};
    for (size_t i = 0; i < run->launches.count; i++)
        if (is_assumed(&run->launches.data[i], kind)) {
            assumed.kernels++;
            assumed.value = assumed.least = assumed.most = value_of(&run->launches.data[i], kind);
        }
    return assumed;
}

gs_code gs_assumed_find(const gs_gpu *gpu, const gs_run *run, const gs_assumed_question *question,
                        gs_assumptions *assumptions, gs_error *error) {
    struct search search = {
        .gpu = gpu, .every_order = question->every_order && gs_run_order_is_free(run), .answer = question->answer};
    gs_code code = GS_OK;
    assumptions->count = 0;
    for (gs_assumed_kind kind = 0; kind < GS_ASSUMED_KINDS; kind++) {
        gs_assumed assumed = assumed_of(run, kind);
        if (assumed.kernels)
            assumptions->data[assumptions->count++] = assumed;
    }
    if (!assumptions->count || run->launches.count > GS_MOST_PERMUTED)
        return GS_OK;
    search.run = gs_run_copy(run, error);
    code = search.run ? GS_OK : GS_E_MEMORY;
    for (size_t i = 0; i < assumptions->count && code == GS_OK; i++) {
        search.left = question->budget;
        code = find_range(&search, run, &assumptions->data[i], error);
    }
    gs_run_free(search.run);
    return code;
}

bool gs_assumed_decide(const gs_assumptions *assumptions) {
    for (size_t i = 0; i < assumptions->count; i++)
        if (assumptions->data[i].kind == GS_ASSUMED_REGISTERS && assumptions->data[i].decides)
            return true;
    return false;
}
