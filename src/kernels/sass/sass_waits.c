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
    MOST_POLL_BYTES = 1 << 13
};

/* Operations. */
enum {
    CALL = 0x343,
    CALL_ABSOLUTE = 0x943,
    CALL_RELATIVE = 0x944,
    BRANCH = 0x947,
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
    STORE = 0x985,
    STORE_GLOBAL = 0x986,
    MOVE = 0x002 /* without the form of its operand */
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

static bool is_call(unsigned operation) {
    return operation == CALL || operation == CALL_ABSOLUTE || operation == CALL_RELATIVE;
}

/* Atomic operations with a result: on generic addresses, on global memory, and compare-and-swap of both. */
static bool is_atomic(unsigned operation) {
    unsigned form = operation & 0x1ff;
    return form == 0x18a || form == 0x1a8 || form == 0x1a9 || form == 0x18b;
}

static bool is_read(unsigned operation) {
    return operation == LOAD || operation == LOAD_GLOBAL || is_atomic(operation);
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
    return operation != BRANCH && operation != EXIT && !is_store(operation);
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

static void follow_instruction(struct followed *followed, struct instruction instruction) {
    enum { FIRST_RESULT = 4 }; /* of a function: registers 4 and 5 */
    unsigned operation = operation_of(instruction), result = byte_of(instruction.low, 16);
    if (is_read(operation) || operation == LOAD_SHARED) {
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

/* A loop that also stores or comes to a barrier does work; what it reads may tell it what to do next. */
static bool does_work(unsigned operation) {
    enum { STORE_SHARED = 0x988, REDUCE = 0x98e };
    return operation == STORE || operation == STORE_GLOBAL || operation == STORE_SHARED || operation == REDUCE ||
           is_barrier(operation);
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
            if (is_read(operation_of(instruction)) && is_counted)
                return true;
            follow_step(&counted, instruction, is_counted);
        }
    return false;
}

/* Whether a read decides about the end of the loop, which does nothing else. */
static bool loop_polls(const unsigned char *code, struct loop loop) {
    struct followed followed = {0};
    if (loop.last - loop.first > MOST_POLL_BYTES)
        return false;
    for (size_t at = loop.first; at <= loop.last; at += BYTES)
        if (does_work(operation_of(instruction_at(code, at))))
            return false;
    if (loop_reads_on(code, loop))
        return false;
    for (int round = 0; round < 2; round++)
        for (size_t at = loop.first; at <= loop.last; at += BYTES)
            follow_instruction(&followed, instruction_at(code, at));
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
        bool always = guard_of(instruction) == NO_PREDICATE && (instruction.high >> 23 & 7) == NO_PREDICATE;
        size_t target = operation == BRANCH ? target_of(instruction, at, architecture) : loop.first;
        if (operation == EXIT || is_call(operation) || operation == RETURN || operation == BREAK ||
            operation == INDIRECT || operation == JUMP || operation == WARP_BREAK || target < loop.first ||
            target > loop.last || (at == loop.last && !always))
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
        if (operation_of(instruction) != BRANCH)
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

gs_sass_wait gs_sass_wait_at(const void *bytes, size_t size, int architecture, size_t at) {
    const unsigned char *code = bytes;
    struct loop loops[MOST_LOOPS];
    for (size_t back = 0; back <= BYTES && at % BYTES == 0 && at < size; back += BYTES) {
        if (back > at || at - back + BYTES > size)
            break;
        struct instruction instruction = instruction_at(code, at - back);
        unsigned operation = operation_of(instruction);
        if (is_barrier(operation))
            return (gs_sass_wait){.kind = GS_SASS_AT_BARRIER,
                                  .read = at - back,
                                  .barrier = operation == BARRIER_OF_REGISTERS ? -1 : (int)(instruction.low >> 54 & 15),
                                  .base = NO_REGISTER};
        if (operation == CLUSTER_WAIT)
            return (gs_sass_wait){.kind = GS_SASS_AT_CLUSTER, .read = at - back, .base = NO_REGISTER};
        if (operation == DEPENDENCY_WAIT)
            return (gs_sass_wait){.kind = GS_SASS_AT_DEPENDENCY, .read = at - back, .base = NO_REGISTER};
    }
    size_t count = find_loops(code, size, architecture, at, loops);
    for (size_t i = 0; i < count; i++)
        if (loop_polls(code, loops[i]))
            return wait_of_loop(code, loops[i]);
    for (size_t i = 0; i < count; i++)
        if (loop_is_endless(code, loops[i], architecture))
            return (gs_sass_wait){.kind = GS_SASS_ENDLESS,
                                  .read = loops[i].first,
                                  .first = loops[i].first,
                                  .last = loops[i].last,
                                  .base = NO_REGISTER};
    return (gs_sass_wait){.kind = GS_SASS_RUNS, .base = NO_REGISTER};
}

bool gs_sass_waits_for_memory(const void *bytes, size_t size, int architecture, size_t *at) {
    struct loop loops[MOST_LOOPS];
    size_t count = find_loops(bytes, size, architecture, SIZE_MAX, loops);
    for (size_t i = 0; i < count; i++)
        if (loop_polls(bytes, loops[i]) && wait_of_loop(bytes, loops[i]).is_global) {
            *at = loops[i].first;
            return true;
        }
    return false;
}

gs_sass_code gs_sass_code_of(const void *bytes, size_t size, int architecture, const char *kernel, gs_expand *zstd,
                             size_t *at) {
    gs_text cubin = {0};
    gs_sass_image image = {0};
    gs_error error = {.code = GS_OK};
    gs_sass_code found = GS_SASS_CODE_UNKNOWN;
    size_t place;
    if (gs_fatbin_find_cubin(bytes, size, architecture, kernel, zstd, &cubin, &error) == GS_OK &&
        gs_sass_read(&image, cubin.data, cubin.count, &error) == GS_OK) {
        const gs_sass_section *code = gs_sass_find(&image, ".text.", kernel);
        if (code)
            found = gs_sass_waits_for_memory(code->bytes.data, code->bytes.count, architecture, at ? at : &place)
                        ? GS_SASS_CODE_WAITS
                        : GS_SASS_CODE_RUNS;
    }
    gs_sass_free(&image);
    gs_text_free(&cubin);
    return found;
}
