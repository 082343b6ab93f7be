/*
 * random_loops.c: random kernels of nested loops and branches.
 *
 * A kernel is drawn as a tree, written as PTX, and executed as the tree, thread by thread: the oracle for how often
 * code is executed. A mark is some stores that the assembler must keep, so many that it does not do without a branch
 * around them. Loops count up and down, signed and unsigned, are tested at their begin or at their end, and compare
 * with <, <=, >, >=, and !=. Their limits are numbers, parameters, numbers of threads and blocks, and counters of loops
 * around them. Some begin or end near 2^31, so that a counter can go around; some are tested only at the end of a
 * round; and of some, what is compared does not grow by the same number in each round. A loop that has no end is given
 * up.
 */
#include "random_loops.h"

#include <stdlib.h>

enum { MOST_DEPTH = 3, MOST_COUNTERS = 16, MOST_STEPS = 3000, LANES = 32 };

typedef enum kind { MARK, LOOP, IF } kind;
typedef enum source { NUMBER, PARAMETER, THREAD, BLOCK, COUNTER } source;

typedef enum operation { NOTHING, ADD, SUBTRACT, SMALLER, LARGER, MULTIPLY, OPERATIONS } operation;

/* ((source & mask) >> shift) + more, and an operation with the number of the thread or a parameter */
typedef struct value {
    source source;
    int which, shift;
    int32_t number, mask, more;
    operation operation;
    int other; /* a parameter; -1: the number of the thread */
} value;

typedef struct node {
    kind kind;
    int mark;                /* MARK */
    int counter;             /* LOOP */
    value start, limit;      /* LOOP: of the counter; IF: start < limit */
    int32_t step;            /* LOOP */
    bool is_down, is_signed; /* LOOP */
    bool is_guarded;         /* LOOP: tested before it, and at the end of each round */
    bool is_entered;         /* LOOP: tested at the end of each round only */
    bool may_go_around;      /* LOOP: not unrolled: ptxas unrolls as if no counter went around */
    bool adds_bit;           /* LOOP: compared is the counter plus its lowest bit; */
    bool limit_adds_bit;     /* LOOP: the limit, plus the lowest bit of the counter */
    bool counts_exactly;     /* LOOP: until it is the limit, `rounds` rounds */
    int32_t rounds;
    bool includes_limit;
    int shift;      /* LOOP: not 0: the counter is shifted, to the left or, if it is_down, to the right */
    bool may_leave; /* LOOP: in the middle of a round, if the number of the thread is larger than the counter */
    struct node *inside, *otherwise, *next;
} node;

struct writing {
    loops_kernel *kernel;
    gs_random *random;
    int counters, labels, open[MOST_DEPTH + 1], depth;
    bool may_go_around; /* a loop around what is drawn */
};

static void put_line(struct writing *writing, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put_line(struct writing *writing, const char *format, ...) {
    char line[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    gs_text_add(writing->kernel->text, "%s\n", line);
    ++*writing->kernel->line;
}

static int64_t draw(struct writing *writing, int64_t low, int64_t high) {
    return gs_random_from(writing->random, low, high);
}

/* ---- drawing ---- */

static value draw_value(struct writing *writing, int32_t most) {
    value drawn = {.source = (source)draw(writing, NUMBER, writing->depth ? COUNTER : BLOCK), .mask = -1};
    drawn.number = (int32_t)draw(writing, 0, most);
    drawn.which = (int)draw(writing, 0, LOOPS_PARAMETERS - 1);
    if (drawn.source == COUNTER)
        drawn.which = writing->open[draw(writing, 0, writing->depth - 1)];
    if (draw(writing, 0, 3) == 0)
        drawn.mask = draw(writing, 0, 1) ? 7 : -4;
    if (draw(writing, 0, 3) == 0)
        drawn.shift = (int)draw(writing, 1, 3);
    if (draw(writing, 0, 2) == 0)
        drawn.more = (int32_t)draw(writing, 0, 5);
    if (draw(writing, 0, 2) == 0)
        drawn.operation = (operation)draw(writing, ADD, OPERATIONS - 1);
    drawn.other = (int)draw(writing, -1, LOOPS_PARAMETERS - 1);
    return drawn;
}

static node *draw_nodes(struct writing *writing, int depth);

/* A number from which a few steps lead around. */
static int32_t draw_large(struct writing *writing) {
    static const int32_t large[] = {1 << 27, 1 << 29, 1 << 30, 0x60000001, INT32_MAX, INT32_MIN, -(1 << 30), -1};
    return large[draw(writing, 0, GS_COUNT(large) - 1)] ^ (int32_t)draw(writing, 0, 3);
}

static node *draw_loop(struct writing *writing, int depth) {
    node *loop = calloc(1, sizeof *loop);
    *loop = (node){.kind = LOOP,
                   .counter = writing->counters++,
                   .start = draw_value(writing, 4),
                   .limit = draw_value(writing, 20),
                   .step = (int32_t)draw(writing, 1, 3),
                   .is_down = draw(writing, 0, 3) == 0,
                   .is_signed = draw(writing, 0, 3) > 0,
                   .is_guarded = draw(writing, 0, 1),
                   .counts_exactly = draw(writing, 0, 3) == 0,
                   .rounds = (int32_t)draw(writing, 1, 6),
                   .includes_limit = draw(writing, 0, 2) == 0,
                   .may_leave = draw(writing, 0, 5) == 0};
    if (loop->is_down) /* it would not end below 0 */
        loop->is_signed = true;
    if (draw(writing, 0, 5) == 0) {
        loop->shift = (int)draw(writing, 1, 2);
        loop->start.operation = loop->limit.operation = NOTHING;
        loop->counts_exactly = loop->is_signed = false;
        loop->start.more = 1; /* 0 stays 0 */
        loop->limit.more = loop->is_down ? 0 : loop->limit.more;
        loop->includes_limit = !loop->is_down && loop->includes_limit;
    }
    loop->is_entered = draw(writing, 0, 3) == 0;
    loop->adds_bit = draw(writing, 0, 15) == 0;
    loop->limit_adds_bit = draw(writing, 0, 15) == 0;
    bool starts_large = draw(writing, 0, 7) == 0, ends_large = draw(writing, 0, 15) == 0;
    if (starts_large)
        loop->start.more = draw_large(writing);
    if (ends_large)
        loop->limit.more = draw_large(writing);
    loop->may_go_around = starts_large || ends_large || loop->is_entered || loop->adds_bit || loop->limit_adds_bit ||
                          writing->may_go_around;
    bool outer = writing->may_go_around;
    writing->may_go_around = loop->may_go_around;
    writing->open[writing->depth++] = loop->counter;
    loop->inside = draw_nodes(writing, depth + 1);
    writing->depth--;
    writing->may_go_around = outer;
    return loop;
}

static node *draw_nodes(struct writing *writing, int depth) {
    node *first = NULL, **last = &first;
    for (int64_t count = draw(writing, 1, 2); count > 0; count--) {
        int64_t what = depth < MOST_DEPTH && writing->counters < MOST_COUNTERS ? draw(writing, 0, 4) : 0;
        if (what > 2) {
            *last = draw_loop(writing, depth);
        } else if (what == 2) {
            *last = calloc(1, sizeof **last);
            **last = (node){.kind = IF, .start = draw_value(writing, 20), .limit = draw_value(writing, 40)};
            (*last)->inside = draw_nodes(writing, depth + 1);
            (*last)->otherwise = draw(writing, 0, 1) ? draw_nodes(writing, depth + 1) : NULL;
        } else if (writing->kernel->marks < LOOPS_MARKS) {
            *last = calloc(1, sizeof **last);
            **last = (node){.kind = MARK, .mark = writing->kernel->marks++};
        }
        if (*last)
            last = &(*last)->next;
    }
    return first;
}

static void free_nodes(node *first) {
    while (first) {
        node *next = first->next;
        free_nodes(first->inside);
        free_nodes(first->otherwise);
        free(first);
        first = next;
    }
}

/* ---- as PTX ---- */

static void put_value(struct writing *writing, const value *put, const char *into) {
    static const char *const sources[] = {[THREAD] = "%r90", [BLOCK] = "%r91"};
    if (put->source == NUMBER)
        put_line(writing, "mov.u32 %s, %d;", into, put->number);
    else if (put->source == PARAMETER)
        put_line(writing, "mov.u32 %s, %%r%d;", into, 92 + put->which);
    else if (put->source == COUNTER)
        put_line(writing, "mov.u32 %s, %%r%d;", into, put->which);
    else
        put_line(writing, "mov.u32 %s, %s;", into, sources[put->source]);
    if (put->mask != -1)
        put_line(writing, "and.b32 %s, %s, %d;", into, into, put->mask);
    if (put->shift)
        put_line(writing, "shr.u32 %s, %s, %d;", into, into, put->shift);
    if (put->more)
        put_line(writing, "add.s32 %s, %s, %d;", into, into, put->more);
    static const char *const operations[] = {[ADD] = "add.s32",
                                             [SUBTRACT] = "sub.s32",
                                             [SMALLER] = "min.s32",
                                             [LARGER] = "max.s32",
                                             [MULTIPLY] = "mul.lo.s32"};
    if (put->operation)
        put_line(writing, "%s %s, %s, %%r%d;", operations[put->operation], into, into,
                 put->other < 0 ? 90 : 92 + put->other);
}

static void put_nodes(struct writing *writing, const node *first);

static const char *relation_of(const node *loop) {
    if (loop->counts_exactly)
        return "ne";
    if (loop->is_down)
        return loop->includes_limit ? "ge" : "gt";
    return loop->includes_limit ? "le" : "lt";
}

/* The comparison that says whether the loop goes on, into %p1. */
static void put_test(struct writing *writing, const node *loop) {
    char counter[20], limit[20];
    snprintf(counter, sizeof counter, "%%r%d", loop->counter);
    snprintf(limit, sizeof limit, "%%r%d", 40 + loop->counter);
    if (loop->adds_bit || loop->limit_adds_bit)
        put_line(writing, "and.b32 %%r82, %s, 1;", counter);
    if (loop->limit_adds_bit)
        put_line(writing, "add.s32 %%r84, %%r82, %s;", limit);
    if (loop->adds_bit)
        put_line(writing, "add.s32 %%r83, %%r82, %s;", counter);
    put_line(writing, "setp.%s.%s %%p1, %s, %s;", relation_of(loop), loop->is_signed ? "s32" : "u32",
             loop->adds_bit ? "%r83" : counter, loop->limit_adds_bit ? "%r84" : limit);
}

static void put_loop(struct writing *writing, const node *loop) {
    int label = writing->labels++, limit = 40 + loop->counter;
    char start_name[20], limit_name[20];
    snprintf(start_name, sizeof start_name, "%%r%d", loop->counter);
    snprintf(limit_name, sizeof limit_name, "%%r%d", limit);
    put_value(writing, &loop->start, start_name);
    put_value(writing, &loop->limit, limit_name);
    if (loop->counts_exactly)
        put_line(writing, "add.s32 %s, %s, %d;", limit_name, start_name,
                 (loop->is_down ? -loop->step : loop->step) * loop->rounds);
    if (loop->is_guarded && !loop->is_entered) {
        put_test(writing, loop);
        put_line(writing, "@!%%p1 bra E%d;", label);
    }
    put_line(writing, "L%d:", label);
    if (loop->may_go_around)
        put_line(writing, ".pragma \"nounroll\";");
    if (!loop->is_guarded && !loop->is_entered) {
        put_test(writing, loop);
        put_line(writing, "@!%%p1 bra E%d;", label);
    }
    put_nodes(writing, loop->inside);
    if (loop->may_leave) {
        put_line(writing, "setp.gt.s32 %%p2, %%r90, %s;", start_name);
        put_line(writing, "@%%p2 bra E%d;", label);
    }
    if (loop->shift)
        put_line(writing, "%s %s, %s, %d;", loop->is_down ? "shr.u32" : "shl.b32", start_name, start_name, loop->shift);
    else
        put_line(writing, "add.s32 %s, %s, %d;", start_name, start_name, loop->is_down ? -loop->step : loop->step);
    if (loop->is_guarded || loop->is_entered) {
        put_test(writing, loop);
        put_line(writing, "@%%p1 bra L%d;", label);
    } else {
        put_line(writing, "bra L%d;", label);
    }
    put_line(writing, "E%d:", label);
}

static void put_nodes(struct writing *writing, const node *first) {
    for (; first; first = first->next) {
        if (first->kind == MARK) {
            writing->kernel->mark_line[first->mark] = *writing->kernel->line;
            for (int i = 0; i < LOOPS_STORES; i++)
                put_line(writing, "st.volatile.global.u32 [%%rd1+%d], %%r90;", (first->mark * LOOPS_STORES + i) * 4);
        } else if (first->kind == LOOP) {
            put_loop(writing, first);
        } else {
            int label = writing->labels++;
            put_value(writing, &first->start, "%r80");
            put_value(writing, &first->limit, "%r81");
            put_line(writing, "setp.lt.s32 %%p3, %%r80, %%r81;");
            put_line(writing, "@!%%p3 bra F%d;", label);
            put_nodes(writing, first->inside);
            put_line(writing, "bra G%d;", label);
            put_line(writing, "F%d:", label);
            put_nodes(writing, first->otherwise);
            put_line(writing, "G%d:", label);
        }
    }
}

static void put_kernel(struct writing *writing, const char *name, const node *nodes) {
    put_line(writing,
             ".visible .entry %s(.param .u64 a, .param .u32 b0, .param .u32 b1, .param .u32 b2, .param .u32 b3)", name);
    put_line(writing, "{");
    put_line(writing, ".reg .b32 %%r<100>; .reg .b64 %%rd<2>; .reg .pred %%p<4>;");
    put_line(writing, "ld.param.u64 %%rd1, [a];");
    put_line(writing, "cvta.to.global.u64 %%rd1, %%rd1;");
    for (int i = 0; i < LOOPS_PARAMETERS; i++)
        put_line(writing, "ld.param.u32 %%r%d, [b%d];", 92 + i, i);
    put_line(writing, "mov.u32 %%r90, %%tid.x;");
    put_line(writing, "mov.u32 %%r91, %%ctaid.x;");
    put_nodes(writing, nodes);
    put_line(writing, "ret;");
    put_line(writing, "}");
}

/* ---- executed ---- */

struct thread {
    const loops_kernel *kernel;
    int32_t number, block, counters[MOST_COUNTERS];
    int64_t executed[LOOPS_MARKS], steps;
    uint64_t place;    /* the rounds of all loops that it is in, as a number */
    struct seen *seen; /* by threads of its warp */
};

/* The marks that threads of a warp have executed, each once for each place. Threads in the same rounds may execute a
   mark together; those in others cannot. */
struct seen {
    uint64_t *data;
    size_t count, capacity;
};

static int32_t value_in(const struct thread *thread, const value *of) {
    int32_t result = of->source == NUMBER      ? of->number
                     : of->source == PARAMETER ? thread->kernel->parameters[of->which]
                     : of->source == THREAD    ? thread->number
                     : of->source == BLOCK     ? thread->block
                                               : thread->counters[of->which];
    result = (int32_t)(((uint32_t)(result & of->mask) >> of->shift) + (uint32_t)of->more);
    int32_t other = of->other < 0 ? thread->number : thread->kernel->parameters[of->other];
    switch (of->operation) {
    case ADD:
        return (int32_t)((uint32_t)result + (uint32_t)other);
    case SUBTRACT:
        return (int32_t)((uint32_t)result - (uint32_t)other);
    case SMALLER:
        return result < other ? result : other;
    case LARGER:
        return result > other ? result : other;
    case MULTIPLY:
        return (int32_t)((uint32_t)result * (uint32_t)other);
    default:
        return result;
    }
}

static int32_t sum_of(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static bool goes_on(const node *loop, int32_t counter, int32_t limit) {
    int32_t bit = counter & 1;
    counter = sum_of(counter, loop->adds_bit ? bit : 0);
    limit = sum_of(limit, loop->limit_adds_bit ? bit : 0);
    bool is_less = loop->is_signed ? counter < limit : (uint32_t)counter < (uint32_t)limit;
    if (loop->counts_exactly)
        return counter != limit;
    if (counter == limit)
        return loop->includes_limit;
    return loop->is_down ? !is_less : is_less;
}

static void execute_nodes(struct thread *thread, const node *first);

static void execute_loop(struct thread *thread, const node *loop) {
    int32_t *counter = &thread->counters[loop->counter], step = loop->is_down ? -loop->step : loop->step;
    *counter = value_in(thread, &loop->start);
    int64_t round = 0;
    int32_t limit = loop->counts_exactly ? sum_of(*counter, step * loop->rounds) : value_in(thread, &loop->limit);
    while (((loop->is_entered && !round) || goes_on(loop, *counter, limit)) && thread->steps++ < MOST_STEPS) {
        uint64_t place = thread->place;
        thread->place = (place * 1000003 + (uint64_t)round++ + 1) * 0x9e3779b97f4a7c15u + (uint64_t)loop->counter;
        execute_nodes(thread, loop->inside);
        thread->place = place;
        if (loop->may_leave && thread->number > *counter)
            break;
        if (loop->shift)
            *counter = (int32_t)(loop->is_down ? (uint32_t)*counter >> loop->shift : (uint32_t)*counter << loop->shift);
        else
            *counter = sum_of(*counter, step);
    }
}

static void execute_nodes(struct thread *thread, const node *first) {
    for (; first; first = first->next)
        if (first->kind == MARK) {
            thread->executed[first->mark]++;
            if (!GS_PUSH(thread->seen, thread->place * LOOPS_MARKS + (uint64_t)first->mark))
                abort();
        } else if (first->kind == LOOP)
            execute_loop(thread, first);
        else
            execute_nodes(thread, value_in(thread, &first->start) < value_in(thread, &first->limit) ? first->inside
                                                                                                    : first->otherwise);
}

static int compare_places(const void *a, const void *b) {
    return GS_COMPARE(*(const uint64_t *)a, *(const uint64_t *)b);
}

static int64_t count_different(struct seen *seen) {
    int64_t count = 0;
    if (seen->count)
        qsort(seen->data, seen->count, sizeof *seen->data, compare_places);
    for (size_t i = 0; i < seen->count; i++)
        count += i == 0 || seen->data[i] != seen->data[i - 1];
    seen->count = 0;
    return count;
}

void loops_random(loops_kernel *kernel, gs_random *random, const char *name) {
    struct writing writing = {.kernel = kernel, .random = random};
    kernel->marks = 0;
    memset(kernel->executed, 0, sizeof kernel->executed);
    for (int i = 0; i < LOOPS_PARAMETERS; i++)
        kernel->parameters[i] = (int32_t)draw(&writing, 0, 30);
    node *nodes = draw_nodes(&writing, 0);
    put_kernel(&writing, name, nodes);
    struct seen seen = {0};
    kernel->most_together = 0;
    for (int32_t i = 0; i < LOOPS_BLOCKS * LOOPS_THREADS; i++) {
        struct thread thread = {
            .kernel = kernel, .number = i % LOOPS_THREADS, .block = i / LOOPS_THREADS, .seen = &seen};
        execute_nodes(&thread, nodes);
        for (int mark = 0; mark < kernel->marks; mark++)
            if (thread.executed[mark] > kernel->executed[mark])
                kernel->executed[mark] = thread.executed[mark];
        int64_t together = i % LANES == LANES - 1 ? count_different(&seen) : 0;
        if (together > kernel->most_together)
            kernel->most_together = together;
    }
    free(seen.data);
    free_nodes(nodes);
}
