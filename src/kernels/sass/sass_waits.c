/*
 * sass_waits.c: what an instruction waits for, seen from the code around it.
 *
 * A warp at a barrier has the address of the instruction behind it. A warp that waits for memory is in a loop that
 * reads a place again and again, a poll: the read decides whether the loop goes on. To find out, the registers and
 * predicates that come from reads are followed through the loop, until one is the condition of a branch of it.
 *
 * Instructions have 16 bytes: the operation in bits 0 to 11, the predicate that guards it in bits 12 to 14, the result
 * in 16 to 23, the first source in 24 to 31, the second in 32 to 39, the third in 64 to 71, predicates that are written
 * in 81 to 86. This is what ptxas of CUDA 13.0 writes from sm_70 on; branches are different from sm_90 on.
 */
#include "sass.h"

#include <stdlib.h>

enum {
    BYTES = 16,
    NO_REGISTER = 255,
    NO_PREDICATE = 7,
    MOST_LOOPS = 64,
    MOST_LOOP_BYTES = 1 << 16,
    MOST_POLL_BYTES = 1 << 13,
    MOST_WEAK_BYTES = 1 << 9 /* of a loop that polls and reads nothing in order with others */
};

/* Operations. */
enum {
    CALL = 0x343,
    CALL_ABSOLUTE = 0x943,
    CALL_RELATIVE = 0x944,
    BRANCH = 0x947,
    BRANCH_OF_WARP = 0x547, /* on a predicate of the warp */
    EXIT = 0x94d,
    BARRIER_OF_REGISTERS = 0x31d,
    BARRIER_WITH_COUNT = 0x91d,
    BARRIER = 0xb1d,
    CLUSTER_WAIT = 0xdc7,
    DEPENDENCY_WAIT = 0x82e,
    MBARRIER_TRY = 0x5a7,
    LOAD = 0x980,
    LOAD_GLOBAL = 0x981,
    LOAD_SHARED = 0x984,
    LOAD_CONSTANT = 0xb82,
    FENCE = 0x992,
    /* without the form of their operands: */
    MOVE = 0x002,
    STORE = 0x185,
    STORE_GLOBAL = 0x186,
    STORE_SHARED = 0x188,
    REDUCE = 0x18e,
    UPDATE_SHARED = 0x18d, /* compare-and-swap of shared memory */
    ATOMIC_GENERIC = 0x18a,
    ATOMIC = 0x1a8
};

struct instruction {
    uint64_t low, high;
};

struct loop {
    size_t first, last; /* the target of the branch, and the branch */
};

/* What comes from reads of the loop. */
struct followed {
    bool registers[NO_REGISTER + 1];
    bool predicates[NO_PREDICATE + 1];
};

static struct instruction instruction_at(const unsigned char *code, size_t at) {
    struct instruction found;
    memcpy(&found.low, code + at, 8);
    memcpy(&found.high, code + at + 8, 8);
    return found;
}

static unsigned operation_of(struct instruction instruction) {
    return instruction.low & 0xfff;
}

static unsigned guard_of(struct instruction instruction) {
    return instruction.low >> 12 & 7;
}

static unsigned byte_of(uint64_t word, int at) {
    return word >> at & 0xff;
}

static bool is_barrier(unsigned operation) {
    return operation == BARRIER || operation == BARRIER_WITH_COUNT || operation == BARRIER_OF_REGISTERS;
}

static bool is_branch(unsigned operation) {
    return operation == BRANCH || operation == BRANCH_OF_WARP;
}

/* Calls of what is not in the code of this kernel; others, as of a division, have its code behind them. */
static bool is_call(unsigned operation) {
    return operation == CALL || operation == CALL_ABSOLUTE;
}

/* Atomic operations with a result: on generic addresses, on global memory, and compare-and-swap of both. */
static bool is_atomic(unsigned operation) {
    unsigned form = operation & 0x1ff;
    return form == ATOMIC_GENERIC || form == ATOMIC || form == 0x1a9 || form == 0x18b;
}

static bool is_read(unsigned operation) {
    return operation == LOAD || operation == LOAD_GLOBAL || is_atomic(operation);
}

/* In which order an access stands with others: weak, or strong within the block, the GPU or the system. */
enum { WITHIN_BLOCK = 5 };

static unsigned order_of(struct instruction access) {
    return access.high >> 13 & 15;
}

/* Whether an instruction reads what others may write meanwhile: volatile, relaxed, acquiring and atomic reads. */
static bool is_strong_read(struct instruction instruction) {
    unsigned operation = operation_of(instruction);
    return is_atomic(operation) || (is_read(operation) && order_of(instruction) >= WITHIN_BLOCK);
}

/* Whether an atomic operation changes the word by itself, as one that takes a number does. */
static bool adds(struct instruction instruction) {
    enum { ADD = 0 };
    unsigned form = operation_of(instruction) & 0x1ff;
    return (form == ATOMIC_GENERIC || form == ATOMIC) && (instruction.high >> 23 & 15) == ADD &&
           byte_of(instruction.low, 32) != NO_REGISTER;
}

/* The target of a branch; SIZE_MAX: before the code. */
static size_t target_of(struct instruction branch, size_t at, int architecture) {
    uint64_t upper = branch.low >> 34 | branch.high << 30;
    int64_t words = (int64_t)(upper << 16) >> 16;
    if (architecture >= 90)
        words = (int64_t)((uint64_t)words << 8 | byte_of(branch.low, 16));
    int64_t target = (int64_t)(at + BYTES) + words * 4;
    return target >= 0 && target % BYTES == 0 ? (size_t)target : SIZE_MAX;
}

/* Stores of all kinds. */
static bool is_store(unsigned operation) {
    unsigned form = operation & 0x1ff;
    return form >= 0x185 && form <= 0x188;
}

/* Whether an operation may have a result in a register. */
static bool has_result(unsigned operation) {
    return !is_branch(operation) && operation != EXIT && !is_store(operation);
}

/* Comparisons of integers and of floating-point numbers, and operations on predicates. */
static bool compares(unsigned operation) {
    unsigned form = operation & 0x1ff;
    return form == 0x00c || form == 0x00b || form == 0x01c;
}

/* ---- following values ---- */

/* Loads have an address alone; their other fields mean something else. */
static bool is_load(unsigned operation) {
    unsigned form = operation & 0x1ff;
    return form >= 0x180 && form <= 0x184;
}

/* Whether an operation has a third source: moves, selections and operations with two operands have 0 there. */
static bool has_third(unsigned operation) {
    enum { SELECT = 0x007, LESSER_REAL = 0x009, MULTIPLY_REAL = 0x020, ADD_REAL = 0x021, ADD_TWO = 0x036 };
    unsigned form = operation & 0x1ff;
    return operation >> 9 <= 4 && !compares(operation) && !is_load(operation) && form != MOVE && form != ADD_TWO &&
           form != MULTIPLY_REAL && form != ADD_REAL && (form < SELECT || form > LESSER_REAL);
}

static bool reads_followed(const struct followed *followed, struct instruction instruction) {
    unsigned operation = operation_of(instruction);
    if ((operation & 0x1ff) != MOVE && followed->registers[byte_of(instruction.low, 24)])
        return true;
    if (operation >> 9 == 1 && followed->registers[byte_of(instruction.low, 32)])
        return true;
    return has_third(operation) && followed->registers[byte_of(instruction.high, 0)];
}

static void follow_result(struct followed *followed, struct instruction instruction, bool is_followed) {
    unsigned result = byte_of(instruction.low, 16);
    unsigned operation = operation_of(instruction);
    if (!is_followed)
        return;
    if (!compares(operation) && result != NO_REGISTER)
        followed->registers[result] = true;
    if (compares(operation) || operation == MBARRIER_TRY) {
        followed->predicates[instruction.high >> 17 & 7] = true;
        followed->predicates[instruction.high >> 20 & 7] = true;
    }
    followed->predicates[NO_PREDICATE] = false;
}

static bool reads_followed_predicate(const struct followed *followed, struct instruction instruction) {
    unsigned operation = operation_of(instruction) & 0x1ff;
    bool combines = operation == 0x01c || operation == 0x00c || operation == 0x007;
    return combines && followed->predicates[instruction.high >> 23 & 7];
}

static void follow_instruction(struct followed *followed, struct instruction instruction, bool of_shared) {
    enum { FIRST_RESULT = 4 }; /* of a function: registers 4 and 5 */
    unsigned operation = operation_of(instruction), result = byte_of(instruction.low, 16);
    if (is_read(operation) || (of_shared && operation == LOAD_SHARED)) {
        follow_result(followed, instruction, true);
        if (result + 1 < NO_REGISTER && (instruction.high >> 9 & 7) >= 5)
            followed->registers[result + 1] = true; /* 64 bits */
    } else if (is_call(operation)) {
        followed->registers[FIRST_RESULT] = followed->registers[FIRST_RESULT + 1] = true;
    } else if (operation == MBARRIER_TRY) {
        follow_result(followed, instruction, true);
    } else if (has_result(operation)) {
        follow_result(followed, instruction,
                      reads_followed(followed, instruction) || reads_followed_predicate(followed, instruction));
    }
}

/* What a loop does besides reading: one that stores does work, and what it reads may tell it what to do next. */
enum work { NOTHING, SHARES, WORKS };

static enum work work_of(const unsigned char *code, struct loop loop) {
    enum work work = NOTHING;
    for (size_t at = loop.first; at <= loop.last; at += BYTES) {
        unsigned operation = operation_of(instruction_at(code, at)), form = operation & 0x1ff;
        if (form == STORE || form == STORE_GLOBAL || form == REDUCE || form == UPDATE_SHARED)
            return WORKS;
        if (form == STORE_SHARED || is_barrier(operation))
            work = SHARES;
    }
    return work;
}

/* Follows values over a loop, also from one iteration to the next. */
static void follow_loop(struct followed *followed, const unsigned char *code, struct loop loop, bool of_shared) {
    for (int round = 0; round < 2; round++)
        for (size_t at = loop.first; at <= loop.last; at += BYTES)
            follow_instruction(followed, instruction_at(code, at), of_shared);
}

/* Whether all that a loop stores in shared memory is what it reads elsewhere, and others may have written: one thread
   waits for all threads of its block. */
static bool loop_passes_on(const unsigned char *code, struct loop loop) {
    struct followed followed = {0};
    bool is_strong = false;
    follow_loop(&followed, code, loop, false);
    for (size_t at = loop.first; at <= loop.last; at += BYTES) {
        struct instruction instruction = instruction_at(code, at);
        bool stores = (operation_of(instruction) & 0x1ff) == STORE_SHARED;
        if ((stores && !followed.registers[byte_of(instruction.low, 32)]) || adds(instruction))
            return false;
        is_strong = is_strong || is_strong_read(instruction);
    }
    return is_strong;
}

/* Whether an instruction reads a register of the warp that the loop counts with. */
static bool reads_counted(const unsigned char *code, struct loop loop, struct instruction instruction) {
    enum { ADD_OF_WARP = 0x090, FROM_WARP = 6 };
    unsigned number = byte_of(instruction.low, 32);
    for (size_t at = loop.first; at <= loop.last && operation_of(instruction) >> 9 >= FROM_WARP; at += BYTES) {
        struct instruction add = instruction_at(code, at);
        if ((operation_of(add) & 0x1ff) == ADD_OF_WARP && byte_of(add.low, 16) == number &&
            byte_of(add.low, 24) == number)
            return true;
    }
    return false;
}

/* Follows values over an instruction, which may replace one of them. */
static void follow_step(struct followed *values, struct instruction instruction, bool is_followed) {
    unsigned operation = operation_of(instruction);
    if (!has_result(operation) || compares(operation))
        return;
    if (guard_of(instruction) == NO_PREDICATE)
        values->registers[byte_of(instruction.low, 16)] = false;
    follow_result(values, instruction, is_followed);
}

/* Whether the result of an instruction comes from its result in the iteration before, as in i = i + 1. */
static bool counts_on(const unsigned char *code, struct loop loop, size_t counter) {
    struct followed values = {0};
    size_t at = counter;
    for (size_t left = (loop.last - loop.first) / BYTES + 1; left > 0; left--) {
        struct instruction instruction = instruction_at(code, at);
        follow_step(&values, instruction, at == counter || reads_followed(&values, instruction));
        at = at == loop.last ? loop.first : at + BYTES;
    }
    return has_result(operation_of(instruction_at(code, counter))) &&
           reads_followed(&values, instruction_at(code, counter));
}

/* Whether a loop reads at other addresses each time, as in a search or in a walk along a list, or swaps what it has
   read before, as in an update: what it needs for that it counts, or has read. */
static bool loop_reads_on(const unsigned char *code, struct loop loop) {
    struct followed counted = {0};
    for (int round = 0; round < 2; round++)
        for (size_t at = loop.first; at <= loop.last; at += BYTES) {
            struct instruction instruction = instruction_at(code, at);
            bool is_counted = reads_followed(&counted, instruction) || reads_counted(code, loop, instruction) ||
                              counts_on(code, loop, at);
            unsigned operation = operation_of(instruction);
            if ((is_read(operation) || operation == LOAD_SHARED) && is_counted)
                return true;
            follow_step(&counted, instruction, is_counted);
        }
    return false;
}

/* The size of a loop that may poll: compilers move weak reads out of loops, except short ones around a fence. */
static size_t most_of_poll(const unsigned char *code, struct loop loop) {
    for (size_t at = loop.first; at <= loop.last; at += BYTES) {
        struct instruction instruction = instruction_at(code, at);
        unsigned operation = operation_of(instruction);
        if (is_strong_read(instruction) || is_call(operation) || operation == MBARRIER_TRY)
            return MOST_POLL_BYTES;
    }
    return MOST_WEAK_BYTES;
}

/* Whether a read decides about the end of the loop, which does nothing else. */
static bool loop_polls(const unsigned char *code, struct loop loop) {
    struct followed followed = {0};
    if (loop.last - loop.first > most_of_poll(code, loop))
        return false;
    enum work work = work_of(code, loop);
    if (work == WORKS || (work == SHARES && !loop_passes_on(code, loop)) || loop_reads_on(code, loop))
        return false;
    follow_loop(&followed, code, loop, true);
    for (size_t at = loop.first; at <= loop.last; at += BYTES) {
        struct instruction instruction = instruction_at(code, at);
        unsigned operation = operation_of(instruction);
        if ((operation == BRANCH || operation == EXIT) && followed.predicates[guard_of(instruction)])
            return true;
        if (operation == BRANCH && followed.predicates[instruction.high >> 23 & 7])
            return true;
    }
    return false;
}

/* Whether nothing leads out of a loop: only its branches within it. */
static bool loop_is_endless(const unsigned char *code, struct loop loop, int architecture) {
    enum { RETURN = 0x950, BREAK = 0x942, INDIRECT = 0x949, JUMP = 0x94a, WARP_BREAK = 0x941 };
    for (size_t at = loop.first; at <= loop.last; at += BYTES) {
        struct instruction instruction = instruction_at(code, at);
        unsigned operation = operation_of(instruction);
        bool always = operation == BRANCH && guard_of(instruction) == NO_PREDICATE &&
                      (instruction.high >> 23 & 7) == NO_PREDICATE;
        size_t target = is_branch(operation) ? target_of(instruction, at, architecture) : loop.first;
        if (operation == EXIT || is_call(operation) || operation == CALL_RELATIVE || operation == RETURN ||
            operation == BREAK || operation == INDIRECT || operation == JUMP || operation == WARP_BREAK ||
            target < loop.first || target > loop.last || (at == loop.last && !always))
            return false;
    }
    return true;
}

/* ---- loops ---- */

static int compare_loops(const void *a, const void *b) {
    const struct loop *one = a, *other = b;
    return GS_COMPARE(one->last - one->first, other->last - other->first);
}

/* Loops that contain the instruction at `within`, or all; the first MOST_LOOPS. A branch to itself is only one for the
   warp that is there: such branches also stand behind the end of the code. */
static size_t find_loops(const unsigned char *code, size_t size, int architecture, size_t within, struct loop *loops) {
    size_t count = 0;
    for (size_t at = 0; at + BYTES <= size && count < MOST_LOOPS; at += BYTES) {
        struct instruction instruction = instruction_at(code, at);
        if (!is_branch(operation_of(instruction)))
            continue;
        size_t target = target_of(instruction, at, architecture);
        bool contains = within == SIZE_MAX || (target <= within && within <= at);
        if ((target < at || (target == at && within == at)) && contains && at - target <= MOST_LOOP_BYTES)
            loops[count++] = (struct loop){target, at};
    }
    qsort(loops, count, sizeof *loops, compare_loops);
    return count;
}

/* The read of a loop that polls. */
static gs_sass_wait wait_of_loop(const unsigned char *code, struct loop loop) {
    gs_sass_wait wait = {
        .kind = GS_SASS_POLLS, .read = loop.first, .first = loop.first, .last = loop.last, .base = NO_REGISTER};
    for (size_t at = loop.first; at <= loop.last; at += BYTES) {
        struct instruction instruction = instruction_at(code, at);
        unsigned operation = operation_of(instruction);
        if (is_read(operation)) {
            wait.base = (uint8_t)byte_of(instruction.low, 24);
            wait.offset = (int32_t)((int64_t)instruction.low >> 40);
            wait.is_global = true;
            wait.read = at;
            return wait;
        }
        if (operation == MBARRIER_TRY)
            wait.kind = GS_SASS_AT_MBARRIER;
        wait.calls = wait.calls || is_call(operation);
    }
    return wait;
}

/* Whether a loop has another one within it that polls: around that it does something else. */
static bool has_poll_within(const unsigned char *code, size_t size, int architecture, struct loop outer) {
    struct loop loops[MOST_LOOPS];
    size_t count = find_loops(code, size, architecture, SIZE_MAX, loops);
    for (size_t i = 0; i < count; i++)
        if (loops[i].first >= outer.first && loops[i].last <= outer.last &&
            loops[i].last - loops[i].first < outer.last - outer.first && loop_polls(code, loops[i]))
            return true;
    return false;
}

/* The wait of one instruction, without a loop. */
static gs_sass_wait wait_of_instruction(struct instruction instruction, size_t at) {
    gs_sass_wait wait = {.kind = GS_SASS_RUNS, .read = at, .base = NO_REGISTER};
    unsigned operation = operation_of(instruction);
    if (is_barrier(operation)) {
        wait.kind = GS_SASS_AT_BARRIER;
        wait.barrier = operation == BARRIER_OF_REGISTERS ? -1 : (int)(instruction.low >> 54 & 15);
    } else if (operation == CLUSTER_WAIT) {
        wait.kind = GS_SASS_AT_CLUSTER;
    } else if (operation == DEPENDENCY_WAIT) {
        wait.kind = GS_SASS_AT_DEPENDENCY;
    } else if (operation == MBARRIER_TRY) {
        wait.kind = GS_SASS_AT_MBARRIER;
    }
    return wait;
}

gs_sass_wait gs_sass_wait_at(const void *bytes, size_t size, int architecture, size_t at) {
    const unsigned char *code = bytes;
    struct loop loops[MOST_LOOPS];
    for (size_t back = 0; back <= BYTES && at % BYTES == 0 && at < size; back += BYTES) {
        if (back > at || at - back + BYTES > size)
            break;
        gs_sass_wait wait = wait_of_instruction(instruction_at(code, at - back), at - back);
        if (wait.kind != GS_SASS_RUNS)
            return wait;
    }
    size_t count = find_loops(code, size, architecture, at, loops);
    for (size_t i = 0; i < count; i++)
        if (loop_polls(code, loops[i])) {
            if (has_poll_within(code, size, architecture, loops[i]))
                break;
            return wait_of_loop(code, loops[i]);
        }
    for (size_t i = 0; i < count; i++)
        if (loop_is_endless(code, loops[i], architecture))
            return (gs_sass_wait){.kind = GS_SASS_ENDLESS,
                                  .read = loops[i].first,
                                  .first = loops[i].first,
                                  .last = loops[i].last,
                                  .base = NO_REGISTER};
    return (gs_sass_wait){.kind = GS_SASS_RUNS, .base = NO_REGISTER};
}

/* ---- who can end a wait ---- */

static int32_t offset_of(struct instruction access) {
    return (int32_t)((int64_t)access.low >> 40);
}

static bool sets_pair(struct instruction instruction, unsigned base) {
    unsigned operation = operation_of(instruction), result = byte_of(instruction.low, 16);
    return has_result(operation) && !compares(operation) && result <= base + 1 && result + 1 >= base;
}

/* What the address of the access at `at` comes from, as a number: a constant, or the nearest instruction before it that
   sets its two registers. If none is near, it is like no other. */
static uint64_t origin_of(const unsigned char *code, size_t at) {
    enum { MOST_BACK = 1 << 16 };
    const uint64_t is_instruction = (uint64_t)1 << 63;
    unsigned base = byte_of(instruction_at(code, at).low, 24);
    for (size_t before = at; before >= BYTES && at - before < MOST_BACK; before -= BYTES) {
        struct instruction setter = instruction_at(code, before - BYTES);
        if (!sets_pair(setter, base))
            continue;
        return operation_of(setter) == LOAD_CONSTANT ? setter.low >> 24 : is_instruction | before;
    }
    return is_instruction | at | 1;
}

static bool is_global_write(unsigned operation) {
    unsigned form = operation & 0x1ff;
    return form == STORE || form == STORE_GLOBAL || form == REDUCE || is_atomic(operation);
}

/* Whether some instruction outside a loop writes the word that the loop waits for. */
static bool word_is_written(const unsigned char *code, size_t size, const gs_sass_wait *wait) {
    uint64_t wanted = origin_of(code, wait->read);
    int32_t offset = offset_of(instruction_at(code, wait->read));
    for (size_t at = 0; at + BYTES <= size; at += BYTES) {
        struct instruction write = instruction_at(code, at);
        bool is_outside = at < wait->first || at > wait->last;
        if (is_outside && is_global_write(operation_of(write)) && offset_of(write) == offset &&
            origin_of(code, at) == wanted)
            return true;
    }
    return false;
}

/* Whether an instruction outside a loop writes memory. A plain store is seen by others at some time, too. */
static bool code_tells(const unsigned char *code, size_t size, struct loop loop) {
    for (size_t at = 0; at + BYTES <= size; at += BYTES) {
        unsigned operation = operation_of(instruction_at(code, at));
        bool is_outside = at < loop.first || at > loop.last;
        if (is_call(operation) || (is_outside && is_global_write(operation)))
            return true;
    }
    return false;
}

/* What a loop that waits for memory tells of what can end its wait. */
static unsigned code_of_wait(const unsigned char *code, size_t size, struct loop loop, const gs_sass_wait *wait) {
    return (word_is_written(code, size, wait) ? GS_SASS_CODE_WRITES_IT : 0) |
           (code_tells(code, size, loop) ? GS_SASS_CODE_TELLS : 0);
}

/* ---- kernels ---- */

/* What an instruction tells of the code that it is in. */
static unsigned code_of_instruction(struct instruction instruction) {
    switch (wait_of_instruction(instruction, 0).kind) {
    case GS_SASS_AT_MBARRIER:
        return GS_SASS_CODE_POLLS_SHARED;
    case GS_SASS_RUNS:
        return is_call(operation_of(instruction)) ? GS_SASS_CODE_CALLS : 0;
    default:
        return GS_SASS_CODE_AT_BARRIERS;
    }
}

static bool branches_to_itself(const unsigned char *code, size_t at, int architecture) {
    struct instruction instruction = instruction_at(code, at);
    return operation_of(instruction) == BRANCH && target_of(instruction, at, architecture) == at;
}

/* What a loop tells. */
static unsigned code_of_loop(const unsigned char *code, size_t size, int architecture, struct loop loop) {
    unsigned found = GS_SASS_CODE_LOOPS | (loop_is_endless(code, loop, architecture) ? GS_SASS_CODE_ENDLESS : 0);
    for (size_t at = loop.first; at <= loop.last; at += BYTES)
        if (is_strong_read(instruction_at(code, at)))
            found |= GS_SASS_CODE_READS;
    if (!loop_polls(code, loop))
        return found;
    gs_sass_wait wait = wait_of_loop(code, loop);
    return found | (wait.is_global ? GS_SASS_CODE_WAITS | code_of_wait(code, size, loop, &wait)
                    : wait.calls   ? GS_SASS_CODE_RETRIES
                                   : GS_SASS_CODE_POLLS_SHARED);
}

unsigned gs_sass_code_in(const void *bytes, size_t size, int architecture, size_t *at) {
    struct loop loops[MOST_LOOPS];
    unsigned found = GS_SASS_CODE_KNOWN;
    size_t alone = 0; /* branches to themselves; the last one stands behind the end of the code */
    size_t count = find_loops(bytes, size, architecture, SIZE_MAX, loops);
    for (size_t place = 0; place + BYTES <= size; place += BYTES) {
        found |= code_of_instruction(instruction_at(bytes, place));
        alone += branches_to_itself(bytes, place, architecture);
    }
    found |= alone > 1 ? GS_SASS_CODE_LOOPS | GS_SASS_CODE_ENDLESS : 0;
    for (size_t i = 0; i < count; i++) {
        unsigned more = code_of_loop(bytes, size, architecture, loops[i]);
        if (more & ~found & GS_SASS_CODE_WAITS)
            *at = loops[i].first;
        found |= more;
    }
    /* What is not looked at may read. */
    return count == MOST_LOOPS ? found | GS_SASS_CODE_READS : found;
}

unsigned gs_sass_code_of(const void *bytes, size_t size, int architecture, const char *kernel, gs_expand *zstd,
                         size_t *at) {
    gs_text cubin = {0};
    gs_sass_image image = {0};
    gs_error error = {.code = GS_OK};
    unsigned found = 0;
    if (gs_fatbin_find_cubin(bytes, size, architecture, kernel, zstd, &cubin, &error) == GS_OK &&
        gs_sass_read(&image, cubin.data, cubin.count, &error) == GS_OK) {
        const gs_sass_section *code = gs_sass_find(&image, ".text.", kernel);
        if (code)
            found = gs_sass_code_in(code->bytes.data, code->bytes.count, architecture, at);
    }
    gs_sass_free(&image);
    gs_text_free(&cubin);
    return found;
}
