/*
 * demand.c: what a warp of a compiled kernel asks of the machine: its longest chain of latencies, and its work on each
 * unit.
 *
 * The chain. A warp has eight times: when its next instruction can be issued, when each of its six scoreboards is
 * clear, and when all that it has issued is done. An instruction is issued at the largest of the times that it waits
 * for, and sets others to that plus a number of cycles. So each time after it is the largest of the times before it,
 * each plus a number of cycles or not counted: a table of 8 x 8 numbers. Instructions in a row are the product of their
 * tables, a loop is a power of one, and for a branch the larger number counts in each place. No time ever decreases, so
 * a walk that leaves a loop early, or skips a part, is not longer than one that does not.
 *
 * Where threads of a warp have parted, both sides of a branch can be interleaved in any way, and share scoreboards.
 * There each instruction waits for the one before.
 *
 * A store is done when a fence behind it is. The latency of its class is longer: that until a load has read what it
 * wrote. It counts if a load of memory can follow the store, in the order of the tree or in a round of a loop.
 *
 * Single accesses to memory take much longer than most do. In a chain of k accesses of a class they take at most k
 * times its repeated latency, and its burst once: so the chain is that of the repeated latencies, and each class adds
 * its burst.
 */
#include "bound.h"

#include <stdlib.h>
#include <string.h>

enum { NEXT, FIRST_SCOREBOARD, ALL = FIRST_SCOREBOARD + GS_SCOREBOARDS, TIMES };

#define NOT_COUNTED ((int64_t)-1)

/* after[i][j]: cycles from time j before to time i after. */
struct chain {
    int64_t after[TIMES][TIMES];
};

/* What a part of the tree asks for. */
struct sum {
    struct chain chain;
    int64_t serial; /* cycles if each instruction waits for all that it can of the one before, */
    int64_t tail;   /* and the most that is not done then */
    int64_t issue, after_issue, held[GS_MACHINE_UNITS];
    int64_t constants; /* places of constants that registers say, each of which may be in another line */
    bool has_instructions;
};

struct demanding {
    const gs_machine *machine;
    const gs_body *body;
    const gs_machine_class **classes; /* by class number of the body, */
    int64_t *most;                    /* and how often a warp executes it at most */
    int64_t most_stores;              /* of a class of stores */
    const gs_machine_class *fence;    /* a store, and a fence behind it; or NULL */
    size_t last_load;                 /* the last part that reads memory of the GPU */
    size_t outer_loop;                /* that is walked; SIZE_MAX: none */
    gs_latency_kind kind;
    int64_t barrier_cycles; /* that instructions before a barrier can hold units of a partition after it */
    uint32_t line;          /* of the last instruction */
    bool is_barrier;        /* the next instruction is one: what follows waits for its latency */
    bool is_first;          /* control may come from elsewhere: the line must be fetched again */
    bool keeps_constants;   /* each line of constants is fetched once, whatever register says where it is */
    bool has_overflown;     /* more than 2^60 cycles */
};

/* ---- chains ---- */

static struct chain chain_of_nothing(void) {
    struct chain chain;
    for (int i = 0; i < TIMES; i++)
        for (int j = 0; j < TIMES; j++)
            chain.after[i][j] = i == j ? 0 : NOT_COUNTED;
    return chain;
}

static int64_t add_cycles(struct demanding *demanding, int64_t a, int64_t b) {
    if (a == NOT_COUNTED || b == NOT_COUNTED)
        return NOT_COUNTED;
    if (!gs_plus(&a, b))
        demanding->has_overflown = true;
    return demanding->has_overflown ? 0 : a;
}

/* First `a`, then `b`. */
static struct chain chain_join(struct demanding *demanding, const struct chain *a, const struct chain *b) {
    struct chain both;
    for (int i = 0; i < TIMES; i++)
        for (int j = 0; j < TIMES; j++) {
            int64_t most = NOT_COUNTED;
            for (int k = 0; k < TIMES; k++)
                most = gs_max(most, add_cycles(demanding, a->after[k][j], b->after[i][k]));
            both.after[i][j] = most;
        }
    return both;
}

static struct chain chain_power(struct demanding *demanding, struct chain chain, int64_t times) {
    struct chain power = chain_of_nothing();
    for (; times && !demanding->has_overflown; times /= 2) {
        if (times % 2)
            power = chain_join(demanding, &power, &chain);
        if (times > 1)
            chain = chain_join(demanding, &chain, &chain);
    }
    return power;
}

static void chain_larger(struct chain *chain, const struct chain *other) {
    for (int i = 0; i < TIMES; i++)
        for (int j = 0; j < TIMES; j++)
            chain->after[i][j] = gs_max(chain->after[i][j], other->after[i][j]);
}

/* Every time after is `cycles` after the last time before that an instruction can wait for, and the end of everything
   `tail` later. */
static struct chain chain_of_cycles(struct demanding *demanding, int64_t cycles, int64_t tail) {
    struct chain chain;
    for (int i = 0; i < TIMES; i++)
        for (int j = 0; j < TIMES; j++)
            chain.after[i][j] = j == ALL   ? i == ALL ? 0 : NOT_COUNTED
                                : i == ALL ? add_cycles(demanding, cycles, tail)
                                           : cycles;
    return chain;
}

/* Row `to` becomes the larger of itself and of `from` plus cycles. */
static void raise_row(struct demanding *demanding, int64_t *to, const int64_t *from, int64_t cycles) {
    for (int j = 0; j < TIMES; j++)
        to[j] = gs_max(to[j], add_cycles(demanding, from[j], cycles));
}

static void chain_instruction(struct demanding *demanding, struct chain *chain, const gs_body_part *part, int64_t fetch,
                              int64_t latency, int64_t reads) {
    int64_t issued[TIMES], stall = gs_max(gs_max(part->stall, 1), demanding->is_barrier ? latency : 0);
    for (int j = 0; j < TIMES; j++)
        issued[j] = NOT_COUNTED;
    raise_row(demanding, issued, chain->after[NEXT], fetch);
    for (int i = 0; i < GS_SCOREBOARDS; i++)
        if (part->waits >> i & 1)
            raise_row(demanding, issued, chain->after[FIRST_SCOREBOARD + i], fetch);
    raise_row(demanding, chain->after[NEXT], issued, stall);
    raise_row(demanding, chain->after[ALL], issued, gs_max(latency, stall));
    if (part->result < GS_SCOREBOARDS)
        raise_row(demanding, chain->after[FIRST_SCOREBOARD + part->result], issued, latency);
    if (part->reads < GS_SCOREBOARDS)
        raise_row(demanding, chain->after[FIRST_SCOREBOARD + part->reads], issued, reads);
}

/* ---- sums ---- */

static struct sum sum_of_nothing(void) {
    return (struct sum){.chain = chain_of_nothing()};
}

static void add_times(struct demanding *demanding, int64_t *to, int64_t value, int64_t times) {
    int64_t product;
    if (!gs_scale(value, times, 1, &product) || !gs_plus(to, product)) {
        demanding->has_overflown = true;
        *to = 0;
    }
}

/* Adds `times` of `more`, but not its chain. */
static void add_work(struct demanding *demanding, struct sum *sum, const struct sum *more, int64_t times) {
    add_times(demanding, &sum->serial, more->serial, times);
    add_times(demanding, &sum->issue, more->issue, times);
    add_times(demanding, &sum->after_issue, more->after_issue, times);
    add_times(demanding, &sum->constants, more->constants, times);
    for (size_t i = 0; i < GS_MACHINE_UNITS; i++)
        add_times(demanding, &sum->held[i], more->held[i], times);
    sum->tail = gs_max(sum->tail, more->tail);
    sum->has_instructions = sum->has_instructions || more->has_instructions;
}

static void take_larger(struct sum *sum, const struct sum *other) {
    chain_larger(&sum->chain, &other->chain);
    sum->serial = gs_max(sum->serial, other->serial);
    sum->tail = gs_max(sum->tail, other->tail);
    sum->issue = gs_max(sum->issue, other->issue);
    sum->after_issue = gs_max(sum->after_issue, other->after_issue);
    sum->constants = gs_max(sum->constants, other->constants);
    for (size_t i = 0; i < GS_MACHINE_UNITS; i++)
        sum->held[i] = gs_max(sum->held[i], other->held[i]);
    sum->has_instructions = sum->has_instructions || other->has_instructions;
}

/* ---- the tree ---- */

/* The cycles that a warp waits for an instruction to be fetched. A call and its return are two jumps. */
static int64_t fetch_of(struct demanding *demanding, const gs_body_part *part) {
    const gs_machine *machine = demanding->machine;
    int64_t jump_cycles = machine->fetch_cycles + machine->jump_cycles;
    uint32_t line = (uint32_t)(part->offset / machine->line_bytes);
    bool is_same = line == demanding->line;
    bool is_jump = demanding->is_first || (!is_same && line != demanding->line + 1);
    demanding->line = line;
    demanding->is_first = false;
    int64_t cycles = is_jump ? jump_cycles : is_same ? 0 : machine->fetch_cycles;
    return part->is_call ? cycles + 2 * jump_cycles : cycles;
}

static int64_t transactions_of(const gs_body_part *part, const gs_machine_class *row) {
    return part->transactions ? part->transactions : row->transactions;
}

/* How long an instruction holds units of its partition after the cycle in which it is issued, in thousandths. */
static int64_t after_issue(const gs_machine *machine, const gs_machine_class *row, int64_t transactions) {
    int64_t sum = 0;
    for (size_t i = 0; i < machine->units.count; i++)
        if (machine->units.data[i].scope == GS_UNIT_OF_PARTITION)
            sum += gs_max(row->held_millicycles[i] * transactions - 1000, 0);
    return sum;
}

static bool is_under_load(const struct demanding *demanding) {
    return demanding->kind >= GS_LATENCY_LOADED;
}

/* The times of accesses of a class: the longest of one, the longest until it has read its operands, 0 if that is not
   known; and what some in a row take, 0 if that is not known. */
struct access {
    int64_t longest, reads, repeated, burst;
};

/* Beside others: one access may take as long as one of several in a row can. */
static struct access beside_access(const gs_machine_class *row) {
    int64_t most = gs_max(row->beside_cycles, row->beside_repeated_cycles + row->beside_burst_cycles);
    return (struct access){most, row->beside_read_cycles ? most : 0, row->beside_repeated_cycles,
                           row->beside_burst_cycles};
}

static struct access access_of(const struct demanding *demanding, const gs_machine_class *row) {
    const struct access alone = {row->latency_cycles, row->read_cycles, row->alone_repeated_cycles,
                                 row->alone_burst_cycles};
    const struct access loaded = {row->loaded_cycles, row->loaded_read_cycles, row->repeated_cycles, row->burst_cycles};
    int64_t kept_reads = row->kept_read_cycles ? gs_min(row->read_cycles, row->kept_read_cycles) : row->read_cycles;
    switch (demanding->kind) {
    case GS_LATENCY_KEPT:
    case GS_LATENCY_KEPT_REPEATED:
        return row->kept_cycles ? (struct access){gs_min(row->kept_cycles, row->latency_cycles), kept_reads,
                                                  row->kept_repeated_cycles, row->kept_burst_cycles}
                                : alone;
    case GS_LATENCY_BESIDE:
    case GS_LATENCY_BESIDE_REPEATED:
        if (demanding->body->others_write && row->written_cycles)
            return (struct access){.longest = row->written_cycles, .reads = row->written_read_cycles};
        return row->beside_cycles ? beside_access(row) : loaded;
    default:
        return is_under_load(demanding) ? loaded : alone;
    }
}

/* Whether up to `most` accesses in a row take less with the repeated latency and the burst than with the longest. Both
   hold; a long burst is not worth it for a few accesses. */
static bool is_repeated(const struct demanding *demanding, const gs_machine_class *row, int64_t most) {
    struct access access = access_of(demanding, row);
    int64_t saved = access.longest - access.repeated;
    return gs_latency_is_repeated(demanding->kind) && access.repeated && saved > 0 && access.burst / saved < most;
}

static int64_t latency_of(const struct demanding *demanding, const gs_machine_class *row, int64_t most) {
    struct access access = access_of(demanding, row);
    return is_repeated(demanding, row, most) ? access.repeated : access.longest;
}

/* Until an instruction has read its operands: no later than it is done. 0: the machine does not say. */
static int64_t reads_of(const struct demanding *demanding, const gs_machine_class *row, int64_t latency) {
    return gs_min(access_of(demanding, row).reads, latency);
}

/* How long a unit is busy with a transaction of a class, in thousandths. Also under load: latencies contain the delays
   by others, but not those by what a warp itself has under way. */
static int64_t held_of(const struct demanding *demanding, const gs_machine_class *row, size_t unit) {
    gs_unit_scope scope = demanding->machine->units.data[unit].scope;
    int64_t held = row->held_millicycles[unit];
    if (scope == GS_UNIT_OF_PARTITION)
        return 0;
    bool is_kept = demanding->kind == GS_LATENCY_KEPT || demanding->kind == GS_LATENCY_KEPT_REPEATED;
    return is_kept && scope == GS_UNIT_OF_GPU && row->kept_millicycles ? gs_min(held, row->kept_millicycles) : held;
}

/* Whether an instruction uses a unit of the GPU, and stores, or does something else. */
static bool uses_memory(const struct demanding *demanding, const gs_body_part *part, bool stores) {
    const gs_machine *machine = demanding->machine;
    const gs_machine_class *row = demanding->classes[part->class_number];
    bool is_used = false;
    for (size_t i = 0; i < machine->units.count; i++)
        is_used = is_used || (machine->units.data[i].scope == GS_UNIT_OF_GPU && row->held_millicycles[i]);
    return is_used && (strstr(demanding->body->classes.data[part->class_number], "_store") != NULL) == stores;
}

/* Whether an instruction is a store that no load can follow, and the machine has a fence. */
static bool is_only_stored(const struct demanding *demanding, const gs_body_part *part) {
    size_t place = (size_t)(part - demanding->body->parts.data);
    bool is_read = demanding->last_load > (demanding->outer_loop == SIZE_MAX ? place : demanding->outer_loop);
    return !is_read && demanding->fence && uses_memory(demanding, part, true);
}

/* Until a store is done that has read its operands after so many cycles. */
static int64_t stored_cycles(const struct demanding *demanding, const gs_body_part *part, int64_t latency,
                             int64_t reads) {
    if (!is_only_stored(demanding, part))
        return latency;
    return gs_min(latency, gs_max(latency_of(demanding, demanding->fence, demanding->most_stores), reads));
}

/* How long a unit is busy with a transaction of an instruction. The memory does for a store that no load can follow
   what it does for one before a fence, and for others no less: stores of neighboring lanes fill sectors, and were
   measured so, but one may write a part of a sector only. */
static int64_t held_by(const struct demanding *demanding, const gs_body_part *part, size_t unit) {
    int64_t held = held_of(demanding, demanding->classes[part->class_number], unit);
    if (demanding->machine->units.data[unit].scope != GS_UNIT_OF_GPU || !demanding->fence ||
        !uses_memory(demanding, part, true))
        return held;
    int64_t fenced = held_of(demanding, demanding->fence, unit);
    return is_only_stored(demanding, part) ? fenced : gs_max(held, fenced);
}

/* The lines that an instruction may read of constants whose place is not known: one for each transaction. */
static int64_t any_constants(const struct demanding *demanding, const gs_body_part *part) {
    int64_t lines = transactions_of(part, demanding->classes[part->class_number]);
    return part->constant == GS_ANY_CONSTANT ? lines : 0;
}

/* The cycles in which an SM fetches these, in thousandths, if they are not counted once for all warps. */
static int64_t cold_constants(const struct demanding *demanding, const gs_body_part *part) {
    int64_t cycles = demanding->keeps_constants ? 0 : demanding->machine->cold_constant_cycles;
    return cycles * any_constants(demanding, part) * 1000;
}

static void sum_instruction(struct demanding *demanding, const gs_body_part *part, struct sum *sum) {
    const gs_machine *machine = demanding->machine;
    const gs_machine_class *row = demanding->classes[part->class_number];
    int64_t latency = latency_of(demanding, row, demanding->most[part->class_number]);
    int64_t reads = reads_of(demanding, row, latency);
    latency += cold_constants(demanding, part) / 1000;
    reads = reads ? reads : latency;
    latency = stored_cycles(demanding, part, latency, reads);
    int64_t transactions = transactions_of(part, row);
    int64_t fetch = fetch_of(demanding, part);
    chain_instruction(demanding, &sum->chain, part, fetch, latency, reads);
    int64_t waited = gs_max(gs_max(part->stall, 1), demanding->is_barrier ? latency : 0);
    waited = part->result < GS_SCOREBOARDS ? gs_max(waited, latency) : waited;
    waited = part->reads < GS_SCOREBOARDS ? gs_max(waited, reads) : waited;
    add_times(demanding, &sum->serial, fetch + waited, 1);
    sum->tail = gs_max(sum->tail, latency - waited);
    for (size_t i = 0; i < machine->units.count; i++) {
        add_times(demanding, &sum->held[i], held_by(demanding, part, i), transactions);
        if (machine->units.data[i].scope == GS_UNIT_OF_SM && row->held_millicycles[i])
            add_times(demanding, &sum->held[i], cold_constants(demanding, part), 1);
    }
    int64_t after = after_issue(machine, row, transactions);
    add_times(demanding, &sum->issue, 1000 + after, 1);
    add_times(demanding, &sum->after_issue, after, 1);
    add_times(demanding, &sum->constants, any_constants(demanding, part), 1);
    demanding->is_barrier = false;
    sum->has_instructions = true;
}

/* The instruction of the barrier is another part. */
static void sum_barrier(struct demanding *demanding, struct sum *sum) {
    raise_row(demanding, sum->chain.after[NEXT], sum->chain.after[NEXT], demanding->barrier_cycles);
    add_times(demanding, &sum->serial, demanding->barrier_cycles, 1);
    demanding->is_barrier = true;
}

static struct sum sum_parts(struct demanding *demanding, size_t from, size_t end);

/* One side, or both sides in any order and interleaved in any way. */
static struct sum sum_branch(struct demanding *demanding, size_t branch) {
    const gs_body_part *parts = demanding->body->parts.data;
    struct sum whole = sum_of_nothing();
    int sides = 0;
    for (size_t i = branch + 1; i < parts[branch].end; i = parts[i].end) {
        demanding->is_first = true;
        struct sum side = sum_parts(demanding, i + 1, parts[i].end);
        sides += side.has_instructions;
        if (parts[branch].is_uniform)
            take_larger(&whole, &side);
        else
            add_work(demanding, &whole, &side, 1);
        if (!parts[branch].is_uniform && side.has_instructions)
            whole.chain = side.chain;
    }
    if (!parts[branch].is_uniform && sides > 1)
        whole.chain = chain_of_cycles(demanding, whole.serial, whole.tail);
    return whole;
}

static struct sum sum_loop(struct demanding *demanding, size_t loop) {
    const gs_body_part *part = &demanding->body->parts.data[loop];
    struct sum whole = sum_of_nothing();
    demanding->is_first = true;
    bool is_outer = demanding->outer_loop == SIZE_MAX;
    demanding->outer_loop = is_outer ? loop : demanding->outer_loop;
    struct sum round = sum_parts(demanding, loop + 1, part->end);
    demanding->outer_loop = is_outer ? SIZE_MAX : demanding->outer_loop;
    add_work(demanding, &whole, &round, part->times);
    whole.chain = part->source == GS_ROUNDS_OF_GROUPS ? chain_of_cycles(demanding, whole.serial, whole.tail)
                                                      : chain_power(demanding, round.chain, part->times);
    return whole;
}

static struct sum sum_parts(struct demanding *demanding, size_t from, size_t end) {
    const gs_body_part *parts = demanding->body->parts.data;
    struct sum sum = sum_of_nothing();
    for (size_t i = from; i < end; i = parts[i].end) {
        if (parts[i].kind == GS_PART_INSTRUCTION)
            sum_instruction(demanding, &parts[i], &sum);
        if (parts[i].kind == GS_PART_BARRIER)
            sum_barrier(demanding, &sum);
        if (parts[i].kind != GS_PART_BRANCH && parts[i].kind != GS_PART_LOOP)
            continue;
        struct sum part = parts[i].kind == GS_PART_BRANCH ? sum_branch(demanding, i) : sum_loop(demanding, i);
        demanding->is_first = true;
        sum.chain = chain_join(demanding, &sum.chain, &part.chain);
        add_work(demanding, &sum, &part, 1);
    }
    return sum;
}

/* ---- a warp ---- */

/* A class, or the one that a machine without it has instead: the name without or with another end. */
static const gs_machine_class *find_class(const gs_machine *machine, const char *name) {
    static const char *const ends[][2] = {
        {"_wide", "_near"}, {"_near", ""}, {"_scattered", ""}, {"_fp64", ""}, {"_float", ""}};
    const gs_machine_class *found = gs_machine_find(machine, name);
    char known[64];
    if ((size_t)snprintf(known, sizeof known, "%s", name) >= sizeof known - 1)
        return found;
    for (size_t i = 0; i < GS_COUNT(ends) && !found; i++) {
        char *end = strrchr(known, '_');
        if (end && strcmp(end, ends[i][0]) == 0) {
            memcpy(end, ends[i][1], strlen(ends[i][1]) + 1);
            found = gs_machine_find(machine, known);
        }
    }
    return found;
}

static gs_code find_classes(struct demanding *demanding, gs_error *error) {
    const gs_body *body = demanding->body;
    demanding->classes = calloc(body->classes.count + 1, sizeof *demanding->classes);
    demanding->most = calloc(body->classes.count + 1, sizeof *demanding->most);
    if (!demanding->classes || !demanding->most)
        return gs_fail_memory(error);
    if (!gs_body_most(body, demanding->most))
        return gs_body_fail_large(body, error);
    for (size_t i = 0; i < body->classes.count; i++)
        if (strstr(body->classes.data[i], "_store"))
            demanding->most_stores = gs_max(demanding->most_stores, demanding->most[i]);
    for (size_t i = 0; i < body->classes.count; i++)
        if (!(demanding->classes[i] = find_class(demanding->machine, body->classes.data[i])))
            return gs_fail(error, GS_E_REFUSED, "no bound is known: the latencies have no class \"%.60s\"",
                           body->classes.data[i]);
    for (size_t i = 0; i < body->parts.count; i++) {
        const gs_body_part *part = &body->parts.data[i];
        if (part->kind != GS_PART_INSTRUCTION)
            continue;
        const gs_machine_class *row = demanding->classes[part->class_number];
        int64_t held = after_issue(demanding->machine, row, transactions_of(part, row));
        demanding->barrier_cycles = gs_max(demanding->barrier_cycles, gs_divide_up(held, 1000));
        if (uses_memory(demanding, part, false))
            demanding->last_load = i;
    }
    return GS_OK;
}

/* The line of the first instruction; INT64_MAX: there is none. */
static int64_t first_line(const gs_body *body, int64_t line_bytes) {
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < body->parts.count; i++)
        if (body->parts.data[i].kind == GS_PART_INSTRUCTION)
            least = gs_min(least, body->parts.data[i].offset / line_bytes);
    return least;
}

/* Lines from the first instruction to the last. */
static int64_t count_lines(const gs_body *body, int64_t line_bytes) {
    int64_t least = first_line(body, line_bytes), most = 0;
    for (size_t i = 0; i < body->parts.count; i++)
        if (body->parts.data[i].kind == GS_PART_INSTRUCTION)
            most = gs_max(most, body->parts.data[i].offset / line_bytes);
    return least > most ? 0 : most - least + 1;
}

/* An SM keeps all lines of code: how long it takes for others was not measured. */
static gs_code check_code(const struct demanding *demanding, int64_t bytes, gs_error *error) {
    const gs_machine *machine = demanding->machine;
    if (bytes > machine->code_bytes)
        return gs_fail(
            error, GS_E_REFUSED, "at 0x%llx: no bound is known: the code has %lld bytes, and an SM keeps %lld",
            (long long)(first_line(demanding->body, machine->line_bytes) * machine->line_bytes + machine->code_bytes),
            (long long)bytes, (long long)machine->code_bytes);
    return GS_OK;
}

static int compare_places(const void *a, const void *b) {
    return GS_COMPARE(*(const uint32_t *)a, *(const uint32_t *)b);
}

/* Lines of constants whose places are known. -1: out of memory. */
static int64_t count_constants(const gs_body *body, int64_t line_bytes) {
    uint32_t *places = malloc((body->parts.count + 1) * sizeof *places);
    size_t count = 0;
    int64_t lines = 0;
    if (!places)
        return -1;
    for (size_t i = 0; i < body->parts.count && line_bytes; i++) {
        uint32_t constant = body->parts.data[i].constant;
        if (body->parts.data[i].kind == GS_PART_INSTRUCTION && constant && constant != GS_ANY_CONSTANT)
            places[count++] = (uint32_t)((constant - 1) / line_bytes);
    }
    qsort(places, count, sizeof *places, compare_places);
    for (size_t i = 0; i < count; i++)
        lines += !i || places[i] != places[i - 1];
    free(places);
    return lines;
}

/* What chains take beyond the repeated latency of each access: once for each class, and for the fence that stands for a
   store. */
static int64_t burst_of(const struct demanding *demanding) {
    const gs_body *body = demanding->body;
    int64_t burst = 0;
    for (size_t i = 0; i < body->classes.count; i++)
        if (is_repeated(demanding, demanding->classes[i], demanding->most[i]))
            burst += access_of(demanding, demanding->classes[i]).burst;
    if (demanding->fence && is_repeated(demanding, demanding->fence, demanding->most_stores))
        burst += access_of(demanding, demanding->fence).burst;
    return burst;
}

/* The lines of all constants that the kernel may read: a bank may begin and end within a line. 0: not known, or more
   than those with which it was measured that an SM keeps them. */
static int64_t all_constant_lines(const gs_machine *machine, const gs_body *body) {
    if (!machine->constant_line_bytes || !body->constant_bytes)
        return 0;
    int64_t lines = body->constant_bytes / machine->constant_line_bytes + 2 * body->constant_banks;
    return lines <= GS_KEPT_CONSTANT_LINES ? lines : 0;
}

gs_code gs_demand_of(const gs_machine *machine, const gs_body *body, gs_latency_kind kind, bool keeps_constants,
                     gs_demand *demand, gs_error *error) {
    int64_t kept_lines = all_constant_lines(machine, body);
    struct demanding demanding = {.machine = machine,
                                  .body = body,
                                  .fence = gs_machine_find(machine, "fence"),
                                  .outer_loop = SIZE_MAX,
                                  .kind = kind,
                                  .is_first = true,
                                  .keeps_constants = keeps_constants && kept_lines};
    *demand = (gs_demand){.lines = count_lines(body, machine->line_bytes)};
    demand->constant_lines = count_constants(body, machine->constant_line_bytes);
    gs_code code = demand->constant_lines < 0 ? gs_fail_memory(error)
                                              : check_code(&demanding, demand->lines * machine->line_bytes, error);
    if (code == GS_OK)
        code = find_classes(&demanding, error);
    if (code == GS_OK) {
        struct sum sum = sum_parts(&demanding, 0, body->parts.count);
        for (int i = 0; i < TIMES; i++)
            for (int j = 0; j < TIMES; j++)
                demand->path_cycles = gs_max(demand->path_cycles, sum.chain.after[i][j]);
        demand->burst_cycles = burst_of(&demanding);
        demand->issue_millicycles = sum.issue;
        demand->after_issue_millicycles = sum.after_issue;
        memcpy(demand->held_millicycles, sum.held, sizeof demand->held_millicycles);
        demand->any_constants = kept_lines ? sum.constants : 0;
        demand->constant_lines += demanding.keeps_constants ? kept_lines : 0;
        for (size_t i = 0; i < body->parts.count; i++)
            demand->has_barrier = demand->has_barrier || body->parts.data[i].kind == GS_PART_BARRIER;
        code = demanding.has_overflown ? gs_body_fail_large(body, error) : GS_OK;
    }
    free(demanding.classes);
    free(demanding.most);
    return code;
}
