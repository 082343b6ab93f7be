/*
 * test_ptx_waits_random.c: random kernels whose blocks wait for each other, decided by running them.
 *
 * A kernel is a list of instructions of a small machine. It is written as PTX, which reshape accepts or refuses, and it
 * is run here, literally, on small grids: with all blocks at once, and with one block after the other in linear order,
 * as a form with one worker block runs them. If a block is stuck when they run serially, and would go on if the next
 * ones began, or if the kernel stores something else then, it must have been refused. This machine shares no code with
 * the analysis.
 *
 * The kernels are variations of what people write: flags of other blocks by coordinates, threads and tickets; counters;
 * locks; locks with tickets; claims; searches; updates; bytes of block numbers and counters; steps that may be 0, and
 * indices that lose their high bits, or are chosen; plain loads behind locks, acquires and fences; each with mistakes.
 * GRIDSMITH_RUNS sets how many are tried.
 */
#include "test.h"

#include "kernels/forms/forms.h"

/* ---- the machine ---- */

enum operation {
    SPECIAL, /* d = special register number `a` */
    NUMBER,  /* d = number */
    ADD,     /* d = a op b, or op number if b is negative */
    SUB,
    MUL,
    AND,
    REM,
    MAD,   /* d = a * b + c */
    NOT,   /* d = ~a */
    PASS,  /* d = a, or a byte of it: `variant` says how */
    LANES, /* d = how many of one lane, this one, are in a mask: `variant` says in which; a is a predicate */
    TEST,  /* predicate d = a ? b, `variant` says how */
    JUMP,  /* to label number if predicate a, with variant: if not; a is -1: always */
    LABEL,
    LOAD, /* d = memory[a + number] of pointer b, `variant` says with which instruction */
    STORE,
    ATOMIC, /* d = old; c and `more` are numbers; of an addition, `more` is 1 + the register of the number, or 0 */
    FENCE,
    STOP
};

enum test { EQUAL, DIFFERENT, BELOW, AT_LEAST, BELOW_SIGNED, ABOVE_SIGNED };
enum atomic { A_ADD, A_EXCH, A_CAS, A_OR, A_MAX, A_INC, A_ACQUIRE /* a compare-and-swap */ };
enum pointer { FLAGS, OTHER, COUNTER, SHUFFLED, POINTERS };

struct instruction {
    enum operation operation;
    int d, a, b, c, variant, number, more;
};

enum { MOST_INSTRUCTIONS = 96, REGISTERS = 64, WORDS = 512, ORIGIN = 128, MOST_THREADS = 64, MOST_STEPS = 1500 };

struct kernel {
    struct instruction code[MOST_INSTRUCTIONS];
    int count, registers, predicates, labels;
    bool is_aliased; /* the other parameter points to the flags */
};

struct thread {
    int at, values[REGISTERS];
    bool predicates[REGISTERS], is_done;
    int block[3], thread;
};

struct machine {
    const struct kernel *kernel;
    int grid[3], threads;
    int memory[3][WORDS];
};

static const char *const special_names[] = {"%ctaid.x",  "%ctaid.y",  "%ctaid.z", "%nctaid.x",
                                            "%nctaid.y", "%nctaid.z", "%tid.x",   "%ntid.x"};

/* How a value comes from a register to another one: whole, or only its lowest byte. */
static const struct {
    const char *text;
    bool is_byte, is_signed;
} passes[] = {
    {"cvt.s32.s8 %%r%d, %%r%d;", true, true},
    {"cvt.u32.u8 %%r%d, %%r%d;", true, false},
    {"cvt.u8.u32 %%r%d, %%r%d;", true, false},
    {"st.shared.u32 [part], %%r%2$d; ld.shared.s8 %%r%1$d, [part];", true, true},
    {"st.shared.u8 [part], %%r%2$d; ld.shared.u8 %%r%1$d, [part];", true, false},
    {"cvt.s64.s32 %%wide, %%r%2$d; cvt.u32.u64 %%r%1$d, %%wide;", false, false},
    {"st.shared.u32 [part], %%r%2$d; ld.shared.b32 %%r%1$d, [part];", false, false},
    {"mov.b32 %%r%d, %%r%d;", false, false},
};

static int passed_value(int variant, int value) {
    if (!passes[variant].is_byte)
        return value;
    return passes[variant].is_signed ? (int8_t)value : (uint8_t)value;
}

/* Masks of the lane itself. Only the first may be empty. */
static const struct {
    const char *text;
    bool is_of_predicate;
} masks[] = {
    {"mov.u32 %%l, %%lanemask_eq; vote.sync.ballot.b32 %%m%1$d, %%p%2$d, %%l;", true},
    {"mov.u32 %%l, %%lanemask_eq; mov.pred %%all, -1; vote.sync.ballot.b32 %%m%1$d, %%all, %%l;", false},
    {"mov.u32 %%l, %%lanemask_eq; match.any.sync.b32 %%m%1$d, %%hi, %%l;", false},
};

static int special_value(const struct machine *machine, const struct thread *thread, int which) {
    return which < 3    ? thread->block[which]
           : which < 6  ? machine->grid[which - 3]
           : which == 6 ? thread->thread
                        : machine->threads;
}

static int *word_at(struct machine *machine, const struct instruction *code, const struct thread *thread) {
    static int nowhere;
    int pointer = code->b == SHUFFLED || (code->b == OTHER && machine->kernel->is_aliased) ? FLAGS : code->b;
    int64_t index = (int64_t)ORIGIN + (code->a < 0 ? 0 : thread->values[code->a]) + code->number;
    nowhere = 0;
    return index < 0 || index >= WORDS ? &nowhere : &machine->memory[pointer][index];
}

static bool test_values(enum test test, int a, int b) {
    switch (test) {
    case EQUAL:
        return a == b;
    case DIFFERENT:
        return a != b;
    case BELOW:
        return (unsigned)a < (unsigned)b;
    case AT_LEAST:
        return (unsigned)a >= (unsigned)b;
    case BELOW_SIGNED:
        return a < b;
    default:
        return a > b;
    }
}

static int changed_value(enum atomic atomic, int old, int value, int next) {
    switch (atomic) {
    case A_ADD:
        return (int)((unsigned)old + (unsigned)value);
    case A_EXCH:
        return value;
    case A_CAS:
    case A_ACQUIRE:
        return old == value ? next : old;
    case A_OR:
        return old | value;
    case A_MAX:
        return old > value ? old : value;
    default:
        return (unsigned)old >= (unsigned)value ? 0 : (int)((unsigned)old + 1);
    }
}

static void run_instruction(struct machine *machine, struct thread *thread) {
    const struct instruction *code = &machine->kernel->code[thread->at++];
    int *values = thread->values, b = code->b < 0 ? code->number : values[code->b < REGISTERS ? code->b : 0];
    switch (code->operation) {
    case SPECIAL:
        values[code->d] = special_value(machine, thread, code->a);
        break;
    case NUMBER:
        values[code->d] = code->number;
        break;
    case ADD:
        values[code->d] = (int)((unsigned)values[code->a] + (unsigned)b);
        break;
    case SUB:
        values[code->d] = (int)((unsigned)values[code->a] - (unsigned)b);
        break;
    case PASS:
        values[code->d] = passed_value(code->variant, values[code->a]);
        break;
    case LANES:
        values[code->d] = !masks[code->variant].is_of_predicate || thread->predicates[code->a];
        break;
    case MUL:
        values[code->d] = (int)((unsigned)values[code->a] * (unsigned)b);
        break;
    case AND:
        values[code->d] = values[code->a] & b;
        break;
    case REM:
        values[code->d] = (int)((unsigned)values[code->a] % (unsigned)(b ? b : 1));
        break;
    case MAD:
        values[code->d] = (int)((unsigned)values[code->a] * (unsigned)values[code->b] + (unsigned)values[code->c]);
        break;
    case NOT:
        values[code->d] = ~values[code->a];
        break;
    case TEST:
        thread->predicates[code->d] = test_values((enum test)code->variant, values[code->a], b);
        break;
    case JUMP:
        if (code->a < 0 || thread->predicates[code->a] != (bool)code->variant)
            for (thread->at = 0; machine->kernel->code[thread->at].operation != LABEL ||
                                 machine->kernel->code[thread->at].number != code->number;)
                thread->at++;
        break;
    case LOAD:
        values[code->d] = *word_at(machine, code, thread);
        break;
    case STORE: /* of register c, or of the number `more` */
        *word_at(machine, code, thread) = code->c < 0 ? code->more : values[code->c];
        break;
    case ATOMIC: {
        int *word = word_at(machine, code, thread), old = *word;
        bool has_register = code->variant == A_ADD && code->more;
        *word =
            changed_value((enum atomic)code->variant, old, has_register ? values[code->more - 1] : code->c, code->more);
        values[code->d] = old;
        break;
    }
    case STOP:
        thread->is_done = true;
        break;
    default:
        break;
    }
}

/* ---- running ---- */

/* LATER: a block begins when those before it have ended, or are stuck. */
enum schedule { SERIALLY, LATER, AT_ONCE, AT_ONCE_BACKWARD };

static int block_count(const struct machine *machine) {
    return machine->grid[0] * machine->grid[1] * machine->grid[2];
}

/* Runs some threads alternately, one instruction each, up to a limit. False: some have not ended. */
static bool run_threads(struct machine *machine, struct thread *threads, int count, int most_steps, bool is_backward) {
    for (int step = 0; step < most_steps; step++) {
        bool are_done = true;
        for (int i = 0; i < count; i++) {
            struct thread *thread = &threads[is_backward ? count - 1 - i : i];
            if (!thread->is_done) {
                run_instruction(machine, thread);
                are_done = false;
            }
        }
        if (are_done)
            return true;
    }
    return false;
}

static bool run_kernel(struct machine *machine, enum schedule schedule) {
    static struct thread threads[MOST_THREADS];
    int blocks = block_count(machine), count = blocks * machine->threads;
    memset(machine->memory, 0, sizeof machine->memory);
    for (int i = 0; i < count; i++) {
        int block = i / machine->threads;
        threads[i] = (struct thread){.thread = i % machine->threads,
                                     .block = {block % machine->grid[0], block / machine->grid[0] % machine->grid[1],
                                               block / machine->grid[0] / machine->grid[1]}};
    }
    if (schedule == AT_ONCE || schedule == AT_ONCE_BACKWARD)
        return run_threads(machine, threads, count, MOST_STEPS, schedule == AT_ONCE_BACKWARD);
    bool has_ended = true;
    for (int block = 0; block < blocks && (has_ended || schedule == LATER); block++) {
        int first = schedule == LATER ? 0 : block * machine->threads;
        has_ended = run_threads(machine, &threads[first], (block + 1) * machine->threads - first, MOST_STEPS, false);
    }
    return has_ended;
}

/* The words of OTHER from 256 on are what the kernel computes. */
enum { OUTPUT = 256, OUTPUTS = 128 };

/* Runs a kernel, and keeps what it computes. */
static bool ends_with(const struct kernel *kernel, const int *grid, enum schedule schedule, int *output) {
    static struct machine machine;
    machine = (struct machine){.kernel = kernel, .grid = {grid[0], grid[1], grid[2]}, .threads = grid[3]};
    bool has_ended = run_kernel(&machine, schedule);
    memcpy(output, machine.memory[OTHER] + OUTPUT, OUTPUTS * sizeof(int));
    return has_ended;
}

/* Whether the form differs from the original on a grid: it is stuck, or a flag that always comes in time does not. */
static bool is_wrong_on(const struct kernel *kernel, const int *grid) {
    int serial[OUTPUTS], one[OUTPUTS], other[OUTPUTS];
    if (!ends_with(kernel, grid, SERIALLY, serial))
        return ends_with(kernel, grid, LATER, one);
    if (!ends_with(kernel, grid, AT_ONCE, one) || !memcmp(one, serial, sizeof one) ||
        !ends_with(kernel, grid, AT_ONCE_BACKWARD, other))
        return false;
    for (int i = 0; i < OUTPUTS; i++)
        if (one[i] && other[i] && !serial[i])
            return true;
    return false;
}

static bool is_wrong(const struct kernel *kernel, const gs_ptx_form *form) {
    static const int grids[][4] = {{2, 1, 1, 1}, {4, 1, 1, 2}, {5, 1, 1, 3}, {2, 2, 1, 2}, {3, 2, 1, 1}, {2, 3, 1, 2},
                                   {1, 4, 1, 2}, {2, 2, 2, 1}, {1, 2, 3, 2}, {2, 1, 3, 1}, {3, 3, 1, 1}};
    for (size_t i = 0; i < GS_COUNT(grids); i++) {
        bool is_row = grids[i][1] == 1 && grids[i][2] == 1, is_layer = grids[i][2] == 1;
        if ((form->needs_one_row && !is_row) || (form->needs_one_layer && !is_layer) ||
            (form->most_blocks && (uint32_t)(grids[i][0] * grids[i][1] * grids[i][2]) > form->most_blocks))
            continue;
        if (is_wrong_on(kernel, grids[i]))
            return true;
    }
    return false;
}

/* ---- as PTX ---- */

static void put_address(gs_text *text, const struct instruction *code) {
    static const char *const bases[] = {"%flags", "%other", "%counter", "%shuffled"};
    if (code->a >= 0)
        gs_text_add(text, "\tmul.wide.s32 %%d%d, %%r%d, 4;\n\tadd.s64 %%d%d, %%d%d, %s;\n", code->more + 100, code->a,
                    code->more + 200, code->more + 100, bases[code->b]);
}

static void put_memory(gs_text *text, const struct instruction *code, int line) {
    static const char *const bases[] = {"%flags", "%other", "%counter", "%shuffled"};
    static const char *const loads[] = {"ld.volatile.global.u32",    "ld.relaxed.gpu.global.u32",
                                        "ld.acquire.gpu.global.u32", "ld.global.cg.u32",
                                        "ld.volatile.u32",           "ld.global.u32"};
    static const char *const stores[] = {"st.volatile.global.u32", "st.relaxed.gpu.global.u32",
                                         "st.release.gpu.global.u32", "st.global.u32"};
    static const char *const atomics[] = {"add.u32", "exch.b32", "cas.b32", "or.b32", "max.s32", "inc.u32"};
    struct instruction place = *code;
    char address[64];
    place.more = line;
    put_address(text, &place);
    if (code->a < 0)
        snprintf(address, sizeof address, "[%s+%d]", bases[code->b], code->number * 4);
    else
        snprintf(address, sizeof address, "[%%d%d+%d]", line + 200, code->number * 4);
    if (code->operation == LOAD)
        gs_text_add(text, "\t%s %%r%d, %s;\n", loads[code->variant], code->d, address);
    else if (code->operation == STORE && code->c >= 0)
        gs_text_add(text, "\t%s %s, %%r%d;\n", stores[code->variant], address, code->c);
    else if (code->operation == STORE)
        gs_text_add(text, "\t%s %s, %d;\n", stores[code->variant], address, code->more);
    else if (code->variant == A_CAS || code->variant == A_ACQUIRE)
        gs_text_add(text, "\tatom%s.global.cas.b32 %%r%d, %s, %d, %d;\n", code->variant == A_CAS ? "" : ".acquire.gpu",
                    code->d, address, code->c, code->more);
    else if (code->variant == A_ADD && code->more)
        gs_text_add(text, "\tatom.global.add.u32 %%r%d, %s, %%r%d;\n", code->d, address, code->more - 1);
    else
        gs_text_add(text, "\tatom.global.%s %%r%d, %s, %d;\n", atomics[code->variant], code->d, address, code->c);
}

static void put_instruction(gs_text *text, const struct instruction *code, int line) {
    static const char *const names[] = {
        [ADD] = "add.s32", [SUB] = "sub.s32", [MUL] = "mul.lo.s32", [AND] = "and.b32", [REM] = "rem.u32"};
    static const char *const tests[] = {"eq.s32", "ne.s32", "lt.u32", "ge.u32", "lt.s32", "gt.s32"};
    switch (code->operation) {
    case SPECIAL:
        gs_text_add(text, "\tmov.u32 %%r%d, %s;\n", code->d, special_names[code->a]);
        break;
    case NUMBER:
        gs_text_add(text, "\tmov.u32 %%r%d, %d;\n", code->d, code->number);
        break;
    case ADD:
    case SUB:
    case MUL:
    case AND:
    case REM:
        gs_text_add(text, "\t%s %%r%d, %%r%d, ", names[code->operation], code->d, code->a);
        gs_text_add(text, code->b < 0 ? "%d;\n" : "%%r%d;\n", code->b < 0 ? code->number : code->b);
        break;
    case MAD:
        gs_text_add(text, "\tmad.lo.s32 %%r%d, %%r%d, %%r%d, %%r%d;\n", code->d, code->a, code->b, code->c);
        break;
    case PASS:
        gs_text_add(text, "\t");
        gs_text_add(text, passes[code->variant].text, code->d, code->a);
        gs_text_add(text, "\n");
        break;
    case LANES:
        gs_text_add(text, "\t");
        gs_text_add(text, masks[code->variant].text, code->d, code->a);
        gs_text_add(text, " popc.b32 %%r%d, %%m%d;\n", code->d, code->d);
        break;
    case NOT:
        gs_text_add(text, "\tnot.b32 %%r%d, %%r%d;\n", code->d, code->a);
        break;
    case TEST:
        gs_text_add(text, "\tsetp.%s %%p%d, %%r%d, ", tests[code->variant], code->d, code->a);
        gs_text_add(text, code->b < 0 ? "%d;\n" : "%%r%d;\n", code->b < 0 ? code->number : code->b);
        break;
    case JUMP:
        if (code->a < 0)
            gs_text_add(text, "\tbra L%d;\n", code->number);
        else
            gs_text_add(text, "\t@%s%%p%d bra L%d;\n", code->variant ? "!" : "", code->a, code->number);
        break;
    case LABEL:
        gs_text_add(text, "L%d:\n", code->number);
        break;
    case FENCE:
        gs_text_add(text, "\tmembar.gl;\n");
        break;
    case STOP:
        gs_text_add(text, "\tret;\n");
        break;
    default:
        put_memory(text, code, line);
    }
}

static void put_kernel(gs_text *text, const struct kernel *kernel) {
    gs_text_add(text,
                ".version 8.0\n.target sm_80\n.address_size 64\n"
                ".visible .entry k(.param .u64 flags, .param .u64 other, .param .u64 counter)\n{\n"
                "\t.shared .b32 part;\n\t.reg .b64 %%d<400>, %%flags, %%other, %%counter, %%shuffled, %%wide;\n\t.reg "
                ".b32 %%r<%d>, %%m<%d>, %%lo, %%hi, "
                "%%l, %%h;\n\t.reg .pred %%p<%d>, %%all;\n"
                "\tld.param.u64 %%flags, [flags];\n\tld.param.u64 %%other, [other];\n"
                "\tld.param.u64 %%counter, [counter];\n\tmov.b64 {%%lo, %%hi}, %%flags;\n"
                "\tshfl.sync.idx.b32 %%l, %%lo, 0, 31, -1;\n\tshfl.sync.idx.b32 %%h, %%hi, 0, 31, -1;\n"
                "\tmov.b64 %%shuffled, {%%l, %%h};\n",
                REGISTERS, REGISTERS, REGISTERS);
    for (int i = 0; i < kernel->count; i++)
        put_instruction(text, &kernel->code[i], i);
    gs_text_add(text, "}\n");
}

/* ---- making kernels ---- */

static gs_random source;

static int pick(int count) {
    return (int)gs_random_from(&source, 0, count - 1);
}

static int one_of(const int *numbers, int count) {
    return numbers[pick(count)];
}

#define ONE_OF(...) one_of((const int[]){__VA_ARGS__}, (int)GS_COUNT(((const int[]){__VA_ARGS__})))

static struct instruction *put(struct kernel *kernel, enum operation operation, int d, int a, int b) {
    assert_true(kernel->count < MOST_INSTRUCTIONS);
    kernel->code[kernel->count] = (struct instruction){.operation = operation, .d = d, .a = a, .b = b, .c = -1};
    return &kernel->code[kernel->count++];
}

static int new_register(struct kernel *kernel) {
    assert_true(kernel->registers < REGISTERS);
    return kernel->registers++;
}

static void put_label(struct kernel *kernel, int label) {
    put(kernel, LABEL, -1, -1, -1)->number = label;
}

static void put_jump(struct kernel *kernel, int predicate, bool is_negated, int label) {
    struct instruction *jump = put(kernel, JUMP, -1, predicate, -1);
    jump->variant = is_negated;
    jump->number = label;
}

static int put_test(struct kernel *kernel, enum test test, int a, int number) {
    int predicate = kernel->predicates++;
    assert_true(predicate < REGISTERS);
    struct instruction *code = put(kernel, TEST, predicate, a, -1);
    code->variant = test;
    code->number = number;
    return predicate;
}

static int put_special(struct kernel *kernel, int which) {
    int d = new_register(kernel);
    put(kernel, SPECIAL, d, which, -1);
    return d;
}

static int put_sum(struct kernel *kernel, enum operation operation, int a, int b, int number) {
    int d = new_register(kernel);
    put(kernel, operation, d, a, b)->number = number;
    return d;
}

/* The order in which the arguments of a call are computed depends on the compiler: those that write or pick are
   computed before it. */
static int put_mad(struct kernel *kernel, int a, int b, int c) {
    int d = new_register(kernel);
    put(kernel, MAD, d, a, b)->c = c;
    return d;
}

/* A number of the block: by one coordinate, in linear order, by columns, or a ticket. */
static int put_block_number(struct kernel *kernel) {
    int x = put_special(kernel, 0), d, y, z, height;
    switch (pick(9)) {
    case 0:
        return put_special(kernel, 1);
    case 1:
        return put_special(kernel, 2);
    case 2: /* y * grid.x + x */
    case 3:
        y = put_special(kernel, 1);
        return put_mad(kernel, y, put_special(kernel, 3), x);
    case 4: /* (z * grid.y + y) * grid.x + x */
        z = put_special(kernel, 2);
        height = put_special(kernel, 4);
        d = put_mad(kernel, z, height, put_special(kernel, 1));
        return put_mad(kernel, d, put_special(kernel, 3), x);
    case 5: /* x * grid.y + y */
        height = put_special(kernel, 4);
        return put_mad(kernel, x, height, put_special(kernel, 1));
    case 6: { /* a ticket */
        d = new_register(kernel);
        struct instruction *code = put(kernel, ATOMIC, d, -1, COUNTER);
        code->variant = ONE_OF(A_ADD, A_ADD, A_ADD, A_INC, A_EXCH);
        code->c = ONE_OF(1, 1, 1, 2, 3);
        return d;
    }
    default:
        return x;
    }
}

/* x == 0 ? 0 : x, as compilers write it, and with mistakes. */
static int put_choice(struct kernel *kernel, int x) {
    int other = kernel->labels++, out = kernel->labels++, d = new_register(kernel);
    int tested = pick(4) ? x : put_special(kernel, ONE_OF(0, 6));
    bool is_equal = pick(4);
    int test = put_test(kernel, is_equal ? EQUAL : DIFFERENT, tested, ONE_OF(0, 0, 0, 1));
    put_jump(kernel, test, pick(6) == 0, other);
    put(kernel, ADD, d, x, -1)->number = ONE_OF(0, 0, 0, 1);
    put_jump(kernel, -1, false, out);
    if (!pick(5))
        put_jump(kernel, put_test(kernel, EQUAL, x, 2), false, other);
    put_label(kernel, other);
    put(kernel, NUMBER, d, -1, -1)->number = ONE_OF(0, 0, 0, 1);
    put_label(kernel, out);
    return d;
}

/* An index: the number of the block, times something, plus threads, plus a number. */
static int put_index(struct kernel *kernel, int block) {
    int d = block;
    if (!pick(6))
        d = put_sum(kernel, MUL, d, -1, ONE_OF(-1, 2, 3, 65536, 1073741824));
    else if (!pick(4))
        d = put_sum(kernel, MUL, d, put_special(kernel, 7), 0);
    if (!pick(8)) {
        enum operation operation = (enum operation)ONE_OF(AND, REM);
        d = put_sum(kernel, operation, d, -1, ONE_OF(1, 2, 3));
    }
    if (!pick(3))
        d = put_sum(kernel, ONE_OF(ADD, ADD, SUB), d, put_special(kernel, 6), 0);
    if (!pick(8))
        d = put_sum(kernel, ONE_OF(ADD, SUB), d, put_special(kernel, 3), 0);
    if (!pick(10)) {
        int other = new_register(kernel);
        put(kernel, NOT, other, d, -1);
        d = other;
    }
    return d;
}

/* Skips to a label unless a condition holds, as `if (threadIdx.x == 0)` or `if (blockIdx.x > 0)` do. */
static void put_condition(struct kernel *kernel, int block, int label) {
    switch (pick(5)) {
    case 0:
        put_jump(kernel, put_test(kernel, DIFFERENT, put_special(kernel, 6), 0), false, label);
        break;
    case 1:
        put_jump(kernel, put_test(kernel, EQUAL, block, 0), false, label);
        break;
    case 2:
        put_jump(kernel, put_test(kernel, DIFFERENT, block, pick(3)), false, label);
        break;
    default:
        break;
    }
}

static void put_publishing_at(struct kernel *kernel, int index, int block, int offset) {
    int skip = kernel->labels++;
    put_condition(kernel, block, skip);
    int pointer = ONE_OF(FLAGS, FLAGS, FLAGS, FLAGS, FLAGS, SHUFFLED, OTHER);
    bool is_atomic = !pick(2);
    struct instruction *code = put(kernel, is_atomic ? ATOMIC : STORE, -1, index, pointer);
    if (is_atomic) {
        int d = new_register(kernel);
        code->d = d;
        code->variant = ONE_OF(A_ADD, A_EXCH, A_OR, A_MAX, A_CAS);
        code->c = code->variant == A_CAS ? 0 : 1;
        code->more = code->variant == A_CAS;
    } else {
        code->variant = pick(4);
        code->more = ONE_OF(1, 1, 1, 1, 0);
    }
    code->number = offset;
    put_label(kernel, skip);
}

static void put_publishing(struct kernel *kernel, int block, int offset) {
    put_publishing_at(kernel, put_index(kernel, block), block, offset);
}

/* Stores what a thread has computed at its place. */
static void put_output(struct kernel *kernel, int value) {
    int z = put_special(kernel, 2), height = put_special(kernel, 4), y = put_special(kernel, 1);
    int plane = put_mad(kernel, z, height, y), width = put_special(kernel, 3), x = put_special(kernel, 0);
    int row = put_mad(kernel, plane, width, x), threads = put_special(kernel, 7);
    int here = put_mad(kernel, row, threads, put_special(kernel, 6));
    struct instruction *store = put(kernel, STORE, -1, here, OTHER);
    store->c = value;
    store->number = OUTPUT - ORIGIN;
    store->variant = 3;
}

/* Waits for a flag, sometimes with a limit, and then stores whether it came. */
static void put_waiting_at(struct kernel *kernel, int index, int block, int offset) {
    int skip = kernel->labels++, again = kernel->labels++, out = kernel->labels++;
    int value = new_register(kernel), i = new_register(kernel);
    bool has_limit = !pick(4);
    put_condition(kernel, block, skip);
    /* only indices that somebody could write */
    int moved = put_sum(kernel, ADD, index, -1, offset);
    put_jump(kernel, put_test(kernel, BELOW_SIGNED, moved, ONE_OF(0, 0, -3)), false, skip);
    put_jump(kernel, put_test(kernel, ABOVE_SIGNED, moved, ONE_OF(5, 11, 20)), false, skip);
    put(kernel, NUMBER, i, -1, -1);
    put_label(kernel, again);
    bool is_atomic = !pick(3);
    struct instruction *code = put(kernel, is_atomic ? ATOMIC : LOAD, value, index, FLAGS);
    code->number = offset;
    code->variant = is_atomic ? ONE_OF(A_ADD, A_OR, A_CAS) : pick(5);
    code->c = 0;
    /* with a limit, only for a flag to come: who is late for one that goes is a matter of time in any case */
    enum test test = has_limit ? DIFFERENT : (enum test)ONE_OF(DIFFERENT, AT_LEAST);
    put_jump(kernel, put_test(kernel, test, value, has_limit ? 0 : ONE_OF(0, 0, 1)), false, out);
    if (has_limit) {
        put(kernel, ADD, i, i, -1)->number = 1;
        put_jump(kernel, put_test(kernel, BELOW, i, 100), false, again);
    } else {
        put_jump(kernel, -1, false, again);
    }
    put_label(kernel, out);
    if (has_limit)
        put_output(kernel, value);
    put_label(kernel, skip);
}

static void put_waiting(struct kernel *kernel, int block, int offset) {
    put_waiting_at(kernel, put_index(kernel, block), block, offset);
}

static void make_flags(struct kernel *kernel) {
    int block = put_block_number(kernel), other = pick(5) ? block : put_block_number(kernel);
    int offset = ONE_OF(0, 0, 1, -1, 2), back = ONE_OF(-1, -1, -1, 0, 1, 1, 1, -2);
    bool waits_first = pick(2);
    kernel->is_aliased = !pick(3);
    if (waits_first)
        put_waiting(kernel, block, offset + back);
    put_publishing(kernel, other, offset);
    if (!waits_first)
        put_waiting(kernel, block, offset + back);
}

static void put_addition(struct kernel *kernel, int value, int number) {
    struct instruction *code = put(kernel, ATOMIC, value, -1, FLAGS);
    code->variant = A_ADD;
    code->c = number;
}

/* Whether a number is below a limit in memory, which the loop may raise. */
static int put_test_of_limit(struct kernel *kernel, int value) {
    int found = new_register(kernel), predicate = kernel->predicates++;
    put(kernel, LOAD, found, -1, OTHER)->variant = pick(4) ? 5 : 0;
    if (pick(2)) {
        int raised = put_sum(kernel, ADD, found, -1, ONE_OF(1, 30));
        struct instruction *store = put(kernel, STORE, -1, -1, OTHER);
        store->variant = 3;
        store->c = raised;
    }
    int limit = put_sum(kernel, ADD, found, -1, 20);
    put(kernel, TEST, predicate, value, limit)->variant = BELOW;
    return predicate;
}

/* Work that a counter divides; or a wait until others have come, who add more than a block can alone. */
static void make_division(struct kernel *kernel) {
    int again = kernel->labels++, skip = kernel->labels++, end = kernel->labels++, value = new_register(kernel);
    bool others_add = pick(2), is_far = others_add && pick(2);
    if (others_add)
        put_jump(kernel, put_test(kernel, EQUAL, put_special(kernel, 0), ONE_OF(0, 1, 1)), false, skip);
    if (!pick(3)) { /* the first item, or an arrival */
        put_addition(kernel, value, ONE_OF(1, 1, 2000));
        if (pick(2))
            put_jump(kernel, put_test(kernel, AT_LEAST, value, 20), false, end);
    }
    put_label(kernel, again);
    put_addition(kernel, value, ONE_OF(1, 1, 2));
    bool is_loaded = !pick(3);
    put_jump(kernel, is_loaded ? put_test_of_limit(kernel, value) : put_test(kernel, BELOW, value, is_far ? 3000 : 20),
             false, again);
    put_jump(kernel, -1, false, end);
    put_label(kernel, skip);
    if (others_add)
        put_addition(kernel, value, is_far ? 4000 : 1);
    put_label(kernel, end);
}

/* A loop to the end of a counter, and what others do with its word. */
static void make_counter(struct kernel *kernel) {
    if (pick(2)) {
        make_division(kernel);
        return;
    }
    int block = put_block_number(kernel), again = kernel->labels++, skip = kernel->labels++, end = kernel->labels++;
    int value = new_register(kernel), used;
    int leaves = put_test(kernel, EQUAL, block, pick(3));
    put_jump(kernel, leaves, pick(2), skip);
    put_label(kernel, again);
    struct instruction *code = put(kernel, ATOMIC, value, -1, FLAGS);
    code->variant = ONE_OF(A_ADD, A_ADD, A_ADD, A_INC, A_INC, A_MAX);
    code->c = ONE_OF(1, 1, 2, 3, 0, -1, 7);
    used = value;
    if (!pick(3)) {
        enum operation operation = (enum operation)ONE_OF(AND, REM, MUL, ADD);
        used = put_sum(kernel, operation, value, -1, ONE_OF(7, 3, 1, 16));
    }
    enum test test = (enum test)ONE_OF(BELOW, BELOW_SIGNED, DIFFERENT, EQUAL, ABOVE_SIGNED);
    put_jump(kernel, put_test(kernel, test, used, ONE_OF(20, 3, 50, 0)), false, again);
    if (pick(2))
        put_jump(kernel, -1, false, end);
    put_label(kernel, skip);
    if (pick(4)) {
        code = put(kernel, ATOMIC, new_register(kernel), -1, FLAGS);
        code->variant = ONE_OF(A_ADD, A_ADD, A_EXCH, A_OR, A_MAX);
        code->c = ONE_OF(1, 100, -5, 0, 64);
    }
    put_label(kernel, end);
}

static int put_pass(struct kernel *kernel, int a) {
    int d = new_register(kernel);
    put(kernel, PASS, d, a, -1)->variant = pick(GS_COUNT(passes));
    return d;
}

/* Flags by a number of which only a byte may be used: then block 0 may be behind block 1. */
static void make_parts(struct kernel *kernel) {
    int given = put_block_number(kernel);
    int number = put_sum(kernel, ADD, given, -1, ONE_OF(0, 126, 127, 254, 255));
    int block = put_pass(kernel, number), offset = ONE_OF(0, 0, 1, -1);
    put_waiting(kernel, block, offset + ONE_OF(-1, -1, -255, -255, 1));
    put_publishing(kernel, pick(4) ? block : number, offset);
}

/* A loop inside that leaves a remainder of a number. */
static void put_reduction(struct kernel *kernel, int value) {
    int less = kernel->labels++, few = kernel->labels++;
    put_label(kernel, less);
    put_jump(kernel, put_test(kernel, BELOW, value, 256), false, few);
    put(kernel, SUB, value, value, -1)->number = 256;
    put_jump(kernel, -1, false, less);
    put_label(kernel, few);
}

/* A counter of which only a part may be used: the last block adds what the others wait for. */
static void make_counter_parts(struct kernel *kernel) {
    int again = kernel->labels++, skip = kernel->labels++, end = kernel->labels++, value = new_register(kernel);
    put_jump(kernel, put_test(kernel, EQUAL, put_special(kernel, 0), pick(3)), false, skip);
    put_label(kernel, again);
    struct instruction *code = put(kernel, ATOMIC, value, -1, FLAGS);
    code->variant = A_ADD;
    code->c = ONE_OF(1, 256, 256);
    int used = put_pass(kernel, value);
    if (!pick(3))
        used = put_sum(kernel, MUL, used, -1, ONE_OF(2, 256, 16777216));
    else if (!pick(3))
        put_reduction(kernel, used);
    put_jump(kernel, put_test(kernel, BELOW_SIGNED, used, 5), false, again);
    put_jump(kernel, -1, false, end);
    put_label(kernel, skip);
    if (pick(2)) {
        code = put(kernel, ATOMIC, new_register(kernel), -1, FLAGS);
        code->variant = A_ADD;
        code->c = ONE_OF(1, 5, 64);
    }
    put_label(kernel, end);
}

/* A lock, and its release: by all, by some, of this word, of another one. */
static void make_lock(struct kernel *kernel) {
    int block = put_block_number(kernel), again = kernel->labels++, skip = kernel->labels++, end = kernel->labels++;
    int index = ONE_OF(0, 1) ? -1 : put_index(kernel, block), value = new_register(kernel);
    int kind = ONE_OF(A_CAS, A_CAS, A_EXCH, A_OR), taken = 1;
    bool is_token = !pick(3); /* waits for 1, which others give */
    if (is_token && pick(3))
        put_jump(kernel, put_test(kernel, DIFFERENT, block, pick(2)), false, skip);
    else if (!pick(3))
        put_condition(kernel, block, skip);
    if (!is_token && !pick(4)) { /* looks first */
        int seen = new_register(kernel);
        put_label(kernel, again);
        put(kernel, LOAD, seen, index, FLAGS);
        put_jump(kernel, put_test(kernel, DIFFERENT, seen, 0), false, again);
    } else {
        put_label(kernel, again);
    }
    struct instruction *code = put(kernel, ATOMIC, value, index, FLAGS);
    code->variant = kind;
    code->c = kind == A_CAS ? is_token : is_token ? 0 : taken;
    code->more = is_token ? 0 : taken;
    put_jump(kernel, put_test(kernel, ONE_OF(DIFFERENT, DIFFERENT, DIFFERENT, EQUAL), value, is_token), false, again);
    if (!pick(4))
        put_jump(kernel, -1, false, end);
    if (pick(3))
        put_label(kernel, skip);
    if (!pick(4))
        put_condition(kernel, block, end);
    int where = pick(4) ? index : put_index(kernel, block);
    code = put(kernel, STORE, -1, where, FLAGS);
    code->variant = pick(3);
    code->more = is_token != !pick(6);
    code->number = ONE_OF(0, 0, 0, 0, -1, 1);
    bool has_skip = false;
    for (int i = 0; i < kernel->count; i++)
        has_skip = has_skip || (kernel->code[i].operation == LABEL && kernel->code[i].number == skip);
    if (!has_skip)
        put_label(kernel, skip);
    put_label(kernel, end);
}

/* my = atomicAdd(next, 1); while (serving != my); serving++, with mistakes. */
static void make_tickets(struct kernel *kernel) {
    int ticket = pick(6) ? new_register(kernel) : put_block_number(kernel), value = new_register(kernel);
    int again = kernel->labels++, skip = kernel->labels++;
    if (ticket == kernel->registers - 2) {
        struct instruction *code = put(kernel, ATOMIC, ticket, -1, COUNTER);
        code->variant = ONE_OF(A_ADD, A_ADD, A_ADD, A_INC);
        code->c = ONE_OF(1, 1, 1, 2, 3);
    }
    if (!pick(5))
        put_condition(kernel, ticket, skip);
    if (!pick(3)) /* waits for another one than its own */
        ticket = pick(2) ? put_sum(kernel, SUB, put_special(kernel, 3), ticket, 0) : put_index(kernel, ticket);
    put_label(kernel, again);
    put(kernel, LOAD, value, -1, FLAGS)->variant = pick(4);
    int predicate = put_test(kernel, ONE_OF(DIFFERENT, DIFFERENT, DIFFERENT, BELOW), value, 0);
    kernel->code[kernel->count - 1].b = ticket;
    put_jump(kernel, predicate, false, again);
    if (!pick(4))
        put_label(kernel, skip), skip = kernel->labels++;
    if (pick(2)) {
        struct instruction *code = put(kernel, ATOMIC, new_register(kernel), -1, FLAGS);
        code->variant = A_ADD;
        code->c = ONE_OF(1, 1, 1, 2);
    } else {
        int next = put_sum(kernel, ADD, ticket, -1, ONE_OF(1, 1, 1, 0, -1));
        put(kernel, STORE, -1, -1, FLAGS)->c = next;
    }
    put_label(kernel, skip);
}

/* Places that are claimed, or marked, one after the other. */
static void make_claims(struct kernel *kernel) {
    int block = put_block_number(kernel), again = kernel->labels++, end = kernel->labels++;
    int start = put_sum(kernel, REM, block, -1, ONE_OF(1, 3, 64)), index = new_register(kernel);
    int value = new_register(kernel), kind = ONE_OF(A_CAS, A_CAS, A_EXCH);
    put(kernel, ADD, index, start, -1);
    if (!pick(2)) { /* one block only looks */
        int claims = kernel->labels++, look = kernel->labels++, seen = new_register(kernel);
        put_jump(kernel, put_test(kernel, DIFFERENT, block, pick(3)), false, claims);
        put_label(kernel, look);
        struct instruction *code = put(kernel, ONE_OF(LOAD, ATOMIC), seen, index, FLAGS);
        code->variant = code->operation == ATOMIC ? A_CAS : 0;
        code->c = code->more = 0;
        put_jump(kernel, put_test(kernel, EQUAL, seen, 0), false, look);
        put_jump(kernel, -1, false, end);
        put_label(kernel, claims);
    }
    put_label(kernel, again);
    struct instruction *code = put(kernel, ATOMIC, value, index, FLAGS);
    code->variant = kind;
    code->c = kind == A_CAS ? 0 : 1;
    code->more = ONE_OF(1, 1, 1, 0);
    put(kernel, ADD, index, index, -1)->number = ONE_OF(1, 1, 1, 0, 2);
    if (!pick(3)) {
        int wrapped = new_register(kernel);
        put(kernel, AND, wrapped, index, -1)->number = 7;
        put(kernel, ADD, index, wrapped, -1);
    }
    enum test test = (enum test)ONE_OF(DIFFERENT, DIFFERENT, EQUAL);
    put_jump(kernel, put_test(kernel, test, value, ONE_OF(0, 0, 0, 1)), false, again);
    if (!pick(3)) { /* frees, or claims in another way */
        put_condition(kernel, block, end);
        enum operation operation = (enum operation)ONE_OF(STORE, ATOMIC);
        code = put(kernel, operation, new_register(kernel), pick(2) ? start : index, FLAGS);
        code->variant = code->operation == ATOMIC ? A_CAS : 0;
        code->c = code->operation == ATOMIC ? ONE_OF(0, 1) : -1;
        code->more = ONE_OF(0, 1);
    }
    put_label(kernel, end);
}

static void put_step(struct kernel *kernel, int index) {
    int wrapped = new_register(kernel);
    put(kernel, ADD, index, index, -1)->number = ONE_OF(1, 1, 1, 0, 3);
    put(kernel, AND, wrapped, index, -1)->number = 7;
    put(kernel, ADD, index, wrapped, -1);
}

/* Looks for a key in a table, from one place to the next, up to an empty one; then some claim it, or another one. */
static void make_search(struct kernel *kernel) {
    int block = put_block_number(kernel), again = kernel->labels++, out = kernel->labels++, end = kernel->labels++;
    int index = new_register(kernel), key = ONE_OF(1, 2), seen = new_register(kernel), found = new_register(kernel);
    bool begins_with_empty = pick(2), goes_back_twice = !pick(4);
    put(kernel, ADD, index, put_sum(kernel, REM, block, -1, ONE_OF(1, 3, 64)), -1);
    if (!pick(4))
        put_condition(kernel, block, out);
    put_label(kernel, again);
    if (!begins_with_empty) {
        put(kernel, LOAD, found, index, FLAGS);
        put_jump(kernel, put_test(kernel, EQUAL, found, key), false, end);
    }
    put(kernel, LOAD, seen, index, FLAGS)->number = ONE_OF(0, 0, 0, 0, 1);
    enum test test = (enum test)ONE_OF(EQUAL, EQUAL, EQUAL, DIFFERENT);
    put_jump(kernel, put_test(kernel, test, seen, ONE_OF(0, 0, 0, 3)), false, out);
    put_step(kernel, index);
    if (goes_back_twice) {
        int goes_back = put_test(kernel, EQUAL, index, pick(8));
        put_jump(kernel, goes_back, pick(2), again);
    }
    if (begins_with_empty) {
        put(kernel, LOAD, found, index, FLAGS);
        put_jump(kernel, put_test(kernel, EQUAL, found, key), false, end);
    }
    put_jump(kernel, -1, false, again);
    put_label(kernel, out);
    if (!pick(3))
        put_condition(kernel, block, end);
    struct instruction *code = put(kernel, ATOMIC, new_register(kernel), index, FLAGS);
    code->variant = ONE_OF(A_CAS, A_CAS, A_CAS, A_CAS, A_EXCH);
    code->number = ONE_OF(0, 0, 0, 1);
    code->c = ONE_OF(0, 0, 0, 0, 1);
    code->more = ONE_OF(1, 2, 3);
    put_label(kernel, end);
}

/* How much a block adds: a number of lanes, which may be none, or a product, which may lose all its bits. */
static int put_amount(struct kernel *kernel) {
    int block = put_special(kernel, 0), d = new_register(kernel);
    if (pick(2)) {
        int comparison = ONE_OF(EQUAL, DIFFERENT, ABOVE_SIGNED),
            predicate = put_test(kernel, comparison, block, pick(3));
        put(kernel, LANES, d, predicate, -1)->variant = pick(GS_COUNT(masks));
        return d;
    }
    put(kernel, NUMBER, d, -1, -1)->number = ONE_OF(1, 1, 2, 65536, 1073741824);
    for (int i = pick(4); i > 0; i--)
        d = pick(2) ? put_sum(kernel, MUL, d, put_special(kernel, ONE_OF(3, 4, 7)), 0)
                    : put_sum(kernel, MUL, d, -1, ONE_OF(2, 16384, 65536));
    return d;
}

static int put_ticket(struct kernel *kernel, int pointer, int amount) {
    int d = new_register(kernel);
    struct instruction *code = put(kernel, ATOMIC, d, -1, pointer);
    code->variant = A_ADD;
    code->more = amount + 1;
    return d;
}

/* Work that a counter divides, or flags by tickets, with steps that may be 0. */
static void make_steps(struct kernel *kernel) {
    int amount = put_amount(kernel), again = kernel->labels++;
    if (pick(2)) {
        int ticket = put_ticket(kernel, COUNTER, amount), offset = ONE_OF(0, 0, 1);
        bool waits_first = pick(2);
        if (waits_first)
            put_waiting(kernel, ticket, offset + ONE_OF(-1, -1, 0));
        put_publishing(kernel, ticket, offset);
        if (!waits_first)
            put_waiting(kernel, ticket, offset + ONE_OF(-1, -1, 0));
        return;
    }
    put_label(kernel, again);
    put_jump(kernel, put_test(kernel, BELOW, put_ticket(kernel, FLAGS, amount), 20), false, again);
}

/* Flags by a number of the block, or a ticket, times something that may be too large: some blocks wait, some publish.
 */
static void make_wraps(struct kernel *kernel) {
    int x = put_special(kernel, 0), waited = kernel->labels++, end = kernel->labels++;
    int block = pick(3) ? put_block_number(kernel) : put_ticket(kernel, COUNTER, put_amount(kernel)), offset = pick(2);
    for (int i = pick(4); i > 0; i--)
        block = pick(2) ? put_sum(kernel, MUL, block, put_special(kernel, ONE_OF(3, 3, 4, 7)), 0)
                        : put_sum(kernel, MUL, block, -1, ONE_OF(2, 3, 256, 16384, 65536, 1073741824));
    put_jump(kernel, put_test(kernel, DIFFERENT, x, pick(2)), false, waited);
    put_waiting_at(kernel, block, x, offset);
    put_label(kernel, waited);
    int comparison = ONE_OF(EQUAL, DIFFERENT);
    put_jump(kernel, put_test(kernel, comparison, x, pick(4)), false, end);
    put_publishing_at(kernel, block, x, offset);
    put_label(kernel, end);
}

/* A flag in a loop that a part of the blocks repeats: what is tested at its end does not hold the first time. */
static void make_repeats(struct kernel *kernel) {
    int block = put_block_number(kernel), again = kernel->labels++, end = kernel->labels++, i = new_register(kernel);
    int index = pick(2) ? -1 : put_index(kernel, block), number = ONE_OF(0, 0, 1);
    int decides = put_test(kernel, ONE_OF(EQUAL, EQUAL, DIFFERENT), block, number);
    bool is_tested = !pick(3), waits_first = pick(2);
    put(kernel, NUMBER, i, -1, -1);
    if (waits_first)
        put_waiting(kernel, block, ONE_OF(0, 0, -1));
    if (is_tested)
        put_jump(kernel, decides, true, end);
    put_label(kernel, again);
    struct instruction *code = put(kernel, STORE, -1, index, FLAGS);
    code->more = 1;
    code->number = ONE_OF(0, 0, 1);
    put(kernel, ADD, i, i, -1)->number = 1;
    put_jump(kernel, put_test(kernel, ABOVE_SIGNED, i, 3), false, end);
    put_jump(kernel, decides, false, again);
    put_label(kernel, end);
    if (!waits_first)
        put_waiting(kernel, block, ONE_OF(0, 0, -1));
}

/* while (!done) if (takes the lock) { ...; release; done = true; }, with mistakes. */
static void make_done(struct kernel *kernel) {
    int block = put_block_number(kernel), again = kernel->labels++, busy = kernel->labels++, end = kernel->labels++;
    int value = new_register(kernel), kind = ONE_OF(A_CAS, A_CAS, A_EXCH),
        index = pick(3) ? -1 : put_index(kernel, block);
    if (!pick(3))
        put_condition(kernel, block, end);
    put_label(kernel, again);
    struct instruction *code = put(kernel, ATOMIC, value, index, FLAGS);
    code->variant = kind;
    code->c = kind == A_CAS ? 0 : 1;
    code->more = 1;
    int done = put_test(kernel, EQUAL, value, ONE_OF(0, 0, 0, 0, 1));
    bool is_early = !pick(6);
    if (!is_early)
        put_jump(kernel, done, true, busy);
    if (pick(6)) {
        bool is_exchange = pick(2);
        int old = new_register(kernel);
        code = put(kernel, is_exchange ? ATOMIC : STORE, old, index, FLAGS);
        code->variant = is_exchange ? A_EXCH : 0;
        code->c = is_exchange ? ONE_OF(0, 0, 0, 0, 1) : -1;
        code->number = ONE_OF(0, 0, 0, 0, 0, 1);
    }
    if (is_early)
        put_jump(kernel, done, true, busy);
    put_label(kernel, busy);
    put_jump(kernel, pick(6) ? done : put_test(kernel, EQUAL, value, 1), true, again);
    put_label(kernel, end);
    if (!pick(4)) {
        put_condition(kernel, block, again);
        put(kernel, STORE, -1, index, FLAGS)->more = ONE_OF(0, 1);
    }
}

/* How plain loads come behind what other blocks have stored. */
enum order { BY_LOCK, BY_ACQUIRE, BY_FENCE };

static void put_lock(struct kernel *kernel) {
    int again = kernel->labels++, value = new_register(kernel);
    put_label(kernel, again);
    struct instruction *code = put(kernel, ATOMIC, value, -1, COUNTER);
    code->variant = A_ACQUIRE;
    code->c = 0;
    code->more = 1;
    code->number = 9;
    put_jump(kernel, put_test(kernel, DIFFERENT, value, 0), false, again);
}

static void put_acquire(struct kernel *kernel, enum order order) {
    if (order == BY_LOCK) {
        put_lock(kernel);
    } else if (order == BY_ACQUIRE) {
        struct instruction *code = put(kernel, LOAD, new_register(kernel), -1, COUNTER);
        code->variant = 2;
        code->number = 9;
    } else {
        put(kernel, FENCE, -1, -1, -1);
    }
}

static void put_release(struct kernel *kernel, enum order order) {
    struct instruction *code = put(kernel, STORE, -1, -1, COUNTER);
    code->variant = 2;
    code->number = 9;
    code->more = order != BY_LOCK;
}

/* Looks for a flag with plain loads, once or some times. */
static void put_looking(struct kernel *kernel, int block, int index, int offset, enum order order) {
    int skip = kernel->labels++, again = kernel->labels++, out = kernel->labels++;
    int value = new_register(kernel), i = new_register(kernel), limit = ONE_OF(12, 12, 1 << 30);
    bool is_repeated = pick(6);
    put_condition(kernel, block, skip);
    put(kernel, NUMBER, i, -1, -1);
    put_label(kernel, again);
    put(kernel, ADD, i, i, -1)->number = 1;
    put_acquire(kernel, order);
    struct instruction *code = put(kernel, LOAD, value, index, FLAGS);
    code->variant = 5;
    code->number = offset;
    if (order == BY_LOCK)
        put_release(kernel, order);
    put_jump(kernel, put_test(kernel, DIFFERENT, value, 0), false, out);
    if (is_repeated)
        put_jump(kernel, put_test(kernel, BELOW, i, limit), false, again);
    put_label(kernel, out);
    if (is_repeated) /* what is found at once is a matter of time in any case */
        put_output(kernel, value);
    put_label(kernel, skip);
}

/* Flags that are read with plain loads behind a lock, an acquire or a fence. */
static void make_plain(struct kernel *kernel) {
    int block = put_block_number(kernel), index = pick(3) ? put_index(kernel, block) : -1, skip = kernel->labels++;
    int offset = ONE_OF(0, 0, 1), back = ONE_OF(-1, -1, -1, 0, 1);
    bool looks_first = pick(2);
    enum order order = (enum order)pick(3);
    if (looks_first)
        put_looking(kernel, block, index, offset + back, order);
    put_condition(kernel, block, skip);
    if (order == BY_LOCK)
        put_lock(kernel);
    struct instruction *code = put(kernel, STORE, -1, index, FLAGS);
    code->variant = 3;
    code->more = 1;
    code->number = offset;
    put_release(kernel, order);
    put_label(kernel, skip);
    if (!looks_first)
        put_looking(kernel, block, index, offset + back, order);
}

/* Flags by a number that is chosen. */
static void make_choices(struct kernel *kernel) {
    int block = put_block_number(kernel), chosen = put_choice(kernel, block), offset = ONE_OF(0, 0, 1);
    bool waits_first = pick(2);
    int waits_by = pick(2) ? chosen : block, tells_by = pick(4) ? chosen : block;
    if (waits_first)
        put_waiting_at(kernel, waits_by, block, offset + ONE_OF(-1, -1, 0));
    put_publishing_at(kernel, tells_by, block, offset);
    if (!waits_first)
        put_waiting_at(kernel, waits_by, block, offset + ONE_OF(-1, -1, 0));
}

static const struct {
    const char *name;
    void (*make)(struct kernel *kernel);
} makers[] = {{"flags", make_flags},       {"flags", make_flags},
              {"flags", make_flags},       {"counter", make_counter},
              {"lock", make_lock},         {"tickets", make_tickets},
              {"claims", make_claims},     {"search", make_search},
              {"parts", make_parts},       {"counter parts", make_counter_parts},
              {"steps", make_steps},       {"wraps", make_wraps},
              {"repeats", make_repeats},   {"done", make_done},
              {"plain loads", make_plain}, {"choices", make_choices}};

static bool is_accepted(const gs_text *text, gs_ptx_form *form) {
    gs_ptx_options options = {.form = GS_FORM_PERSISTENT};
    gs_error error = {.code = GS_OK};
    gs_ptx_module module;
    if (gs_ptx_read(&module, "k.ptx", text->data, text->count, &error) != GS_OK)
        fail_msg("%ld: %s\n%s", error.line, error.message, text->data);
    gs_code code = gs_ptx_reshape(&module, (uint32_t)gs_ptx_find_function(&module, "k"), &options, NULL, form, &error);
    gs_ptx_free(&module);
    return code == GS_OK;
}

/* Makes, decides and runs one kernel. */
static void try_kernel(uint64_t number, size_t maker, int *accepted, int *refused_wrong) {
    struct kernel kernel = {.count = 0};
    gs_ptx_form form = {.needs_one_row = false};
    gs_text text = {0};
    source = gs_random_at(35, number);
    makers[maker].make(&kernel);
    put(&kernel, STOP, -1, -1, -1);
    put_kernel(&text, &kernel);
    bool is_made = is_accepted(&text, &form), is_bad = is_wrong(&kernel, &form);
    if (is_made && is_bad) {
        fputs(text.data, stderr); /* longer than a message may be */
        fail_msg("kernel %llu (%s) is accepted, and hangs or differs", (unsigned long long)number, makers[maker].name);
    }
    *accepted += is_made;
    *refused_wrong += is_bad;
    gs_text_free(&text);
}

TEST(accepted_kernels_end_with_one_worker_block) {
    int accepted[GS_COUNT(makers)] = {0}, wrong[GS_COUNT(makers)] = {0};
    uint64_t runs = test_number("GRIDSMITH_RUNS", 100000) / 12;
    for (uint64_t i = 0; i < runs; i++)
        try_kernel(i, i % GS_COUNT(makers), &accepted[i % GS_COUNT(makers)], &wrong[i % GS_COUNT(makers)]);
    for (size_t i = 0; i < GS_COUNT(makers) && runs >= 2500; i++) /* both kinds occur */
        if (accepted[i] < 10 || wrong[i] < 2)
            fail_msg("%s: %d are accepted, %d would be wrong", makers[i].name, accepted[i], wrong[i]);
}

/* What is decided of a kernel: refused, or accepted, with what its form needs. */
static char decision_of(uint64_t number, size_t maker) {
    struct kernel kernel = {.count = 0};
    gs_ptx_form form = {.needs_one_row = false};
    gs_text text = {0};
    source = gs_random_at(36, number);
    makers[maker].make(&kernel);
    put(&kernel, STOP, -1, -1, -1);
    put_kernel(&text, &kernel);
    bool is_made = is_accepted(&text, &form);
    gs_text_free(&text);
    return is_made ? "0123456789"[form.needs_one_row + 2 * form.needs_one_layer + 4 * form.needs_queue] : '-';
}

/* Accepted kernels are right, which is tried above; this is about those that are refused without need. A change of the
   analysis that changes a decision is seen here, and it should be one that was meant: with GRIDSMITH_WRITE=1 the file
   is written anew. */
TEST(decisions_are_as_they_were) {
    enum { KERNELS = 250 };
    size_t count = test_is_brief() && !test_number("GRIDSMITH_WRITE", 0) ? KERNELS / 10 : KERNELS;
    char found[KERNELS + 2], wanted[KERNELS + 3];
    FILE *file = fopen(test_path("tests/forms/decisions.txt"), test_number("GRIDSMITH_WRITE", 0) ? "w" : "r");
    assert_non_null(file);
    for (size_t maker = 0; maker < GS_COUNT(makers); maker++) {
        for (uint64_t i = 0; i < count; i++)
            found[i] = decision_of(i * GS_COUNT(makers) + maker, maker);
        memcpy(found + KERNELS, "\n", 2);
        if (test_number("GRIDSMITH_WRITE", 0))
            fputs(found, file);
        else
            assert_non_null(fgets(wanted, sizeof wanted, file));
        for (size_t i = 0; i < count && !test_number("GRIDSMITH_WRITE", 0); i++)
            if (found[i] != wanted[i])
                fail_msg("decisions.txt:%zu: kernel %zu (%s): %c instead of %c", maker + 1, i, makers[maker].name,
                         found[i], wanted[i]);
    }
    fclose(file);
}

TEST_MAIN(NULL, NULL)
