/*
 * test_ptx_replay.c: where a thread goes if a load returns a certain value, compared with threads that run.
 *
 * A random loop loads a word, computes from it, from numbers and from words of shared memory, branches, and ends or
 * goes on. It runs here, literally, with values that the word may have. Where a thread goes, the analysis must say that
 * it may go: otherwise a loop that waits counts as one that ends. Where all values are known, it must say exactly that:
 * otherwise a kernel is refused without need.
 */
#include "test.h"

#include "kernels/forms/forms.h"
#include "kernels/forms/ptx_wait_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REGISTERS = 5, PREDICATES = 4, WORDS = 4, MOST_STEPS = 24, SAMPLES = 24, NEVER = MOST_STEPS };

enum operation { MOVE, NUMBER, BITS, COMPARE, COMBINE, NEGATE, SELECT, CONVERT, ADD, STORE, LOAD, VOTE, JUMP, MARK };

/* Register 0 is what was loaded. */
struct step {
    enum operation operation;
    int to, one, other, third, variant, guard; /* `guard`: 1 + the predicate, negative: it is negated; 0: none */
    uint32_t number;
    bool has_number; /* instead of the other register */
};

struct loop {
    struct step steps[MOST_STEPS];
    int count, returns_by; /* a predicate: the loop goes on if it is true */
    uint32_t registers[REGISTERS];
    bool predicates[PREDICATES];
    uint32_t words[WORDS];
    gs_ptx_fact fact; /* of what is loaded */
    bool is_exact;
    bool is_known; /* predicates have no values at first */
};

static gs_random source;

static int pick(int count) {
    return (int)gs_random_from(&source, 0, count - 1);
}

static uint32_t pick_number(void) {
    static const uint32_t numbers[] = {0,   1,   2,      3,      5,          8,          127,       128,
                                       255, 256, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff};
    return numbers[pick(pick(3) ? 5 : (int)GS_COUNT(numbers))];
}

/* ---- a random loop ---- */

static const char *const bits_names[] = {"and", "or", "xor"};
static const char *const tests_names[] = {"eq.u32", "ne.s32", "lt.u32", "le.s32", "gt.s32", "ge.u32",
                                          "lo.u32", "ls.u32", "hi.u32", "hs.u32", "lt.s32", "ne.b32"};
static const char *const convert_names[] = {"u32.u8", "s32.s8", "u32.u16", "s32.s16"};

static void make_loop(struct loop *loop) {
    static const enum operation usual[] = {MOVE,    NUMBER,  BITS,   BITS,   COMPARE, COMPARE, COMPARE,
                                           COMBINE, COMBINE, NEGATE, SELECT, CONVERT, STORE,   STORE,
                                           LOAD,    LOAD,    VOTE,   JUMP,   JUMP,    MARK};
    *loop = (struct loop){.count = 4 + pick(MOST_STEPS - 4), .returns_by = pick(PREDICATES), .is_exact = pick(2)};
    for (int i = 1; i < REGISTERS; i++)
        loop->registers[i] = pick_number();
    for (int i = 0; i < PREDICATES; i++)
        loop->predicates[i] = pick(2);
    for (int i = 0; i < WORDS; i++)
        loop->words[i] = pick_number();
    loop->fact = (gs_ptx_fact){GS_FACT_IS, pick_number()};
    if (!loop->is_exact) {
        static const uint8_t kinds[] = {GS_FACT_IS, GS_FACT_IS_NOT, GS_FACT_SET, GS_FACT_CLEAR, GS_FACT_ANY};
        loop->fact.kind = kinds[pick(5)];
    }
    for (int i = 0; i < loop->count; i++) {
        struct step *step = &loop->steps[i];
        *step = (struct step){.operation = usual[pick(GS_COUNT(usual))],
                              .to = 1 + pick(REGISTERS - 1),
                              .one = pick(REGISTERS),
                              .other = pick(REGISTERS),
                              .third = pick(PREDICATES),
                              .variant = pick(12),
                              .number = pick_number(),
                              .has_number = pick(2)};
        if (!loop->is_exact && !pick(8))
            step->operation = ADD;
        if (step->operation == JUMP)
            step->to = i + 1 + pick(loop->count - i);
        if (step->operation == JUMP || (step->operation != VOTE && !pick(5)))
            step->guard = (1 + pick(PREDICATES)) * (pick(2) ? 1 : -1);
    }
}

/* Adds a comparison by which the loop goes on, or only a predicate. */
static struct step *add_test(struct loop *loop, int predicate, int one, const char *name) {
    struct step *step = &loop->steps[loop->count++];
    *step = (struct step){.operation = COMPARE, .to = predicate, .one = one, .third = predicate, .has_number = true};
    while (strcmp(tests_names[step->variant], name) != 0)
        step->variant++;
    return step;
}

/* A loop that tests the word so that what is known of it decides: that it is another number, that bits are set or
   clear, or what a branch before has told. */
static void make_known_loop(struct loop *loop) {
    static const uint8_t kinds[] = {GS_FACT_IS_NOT, GS_FACT_SET, GS_FACT_CLEAR, GS_FACT_ANY};
    uint32_t number = pick_number(),
             bits = number & INT32_MAX ? number & INT32_MAX : 1; /* written as a positive number */
    *loop = (struct loop){.returns_by = 3, .is_exact = true, .is_known = true, .fact = {kinds[pick(4)], number}};
    for (int i = 1; i < REGISTERS; i++)
        loop->registers[i] = number;
    if (loop->fact.kind == GS_FACT_SET || loop->fact.kind == GS_FACT_CLEAR) {
        uint32_t part = bits & -bits; /* a bit of them */
        loop->fact.bits = bits;
        if (pick(2)) {
            loop->steps[loop->count++] =
                (struct step){.operation = BITS, .to = 2, .one = 0, .number = part, .has_number = true};
            add_test(loop, 3, 2, pick(2) ? "ge.u32" : "ls.u32")->number = part;
        } else {
            uint32_t other = loop->fact.kind == GS_FACT_SET ? pick_number() & ~part : pick_number() | part;
            add_test(loop, 3, 0, pick(2) ? "eq.u32" : "ne.s32")->number = other;
        }
        return;
    }
    if (loop->fact.kind == GS_FACT_ANY) { /* the branch tells: it leads to the end of the iteration */
        add_test(loop, 3, 1, pick(2) ? "eq.u32" : "ne.s32")->number = number;
        add_test(loop, 0, 0, pick(2) ? "eq.u32" : "ne.s32")->number = number;
        loop->steps[loop->count] = (struct step){.operation = JUMP, .guard = pick(2) ? 1 : -1};
        loop->count++;
    }
    const char *name = number == 0 && pick(2) ? (pick(2) ? "hi.u32" : "ls.u32") : pick(2) ? "eq.u32" : "ne.s32";
    struct step *test = add_test(loop, 2, 0, name);
    test->number = number;
    if (pick(2)) { /* the number comes first */
        test->has_number = false;
        test->one = 1;
        if (name[0] == 'h' || name[0] == 'l')
            test->variant = name[0] == 'h' ? 6 : 9; /* lo, hs */
    }
    loop->steps[loop->count++] = (struct step){.operation = COMBINE, .to = 3, .third = 2, .one = 2};
    for (int i = 0; i < loop->count; i++)
        if (loop->steps[i].operation == JUMP)
            loop->steps[i].to = loop->count;
}

static void put_guard(gs_text *text, int guard) {
    if (guard)
        gs_text_add(text, "@%s%%p%d ", guard < 0 ? "!" : "", (guard < 0 ? -guard : guard) - 1);
}

static void put_step(gs_text *text, const struct step *step) {
    char second[24];
    if (step->has_number)
        snprintf(second, sizeof second, "%d", (int32_t)step->number);
    else
        snprintf(second, sizeof second, "%%r%d", step->other);
    int to = step->to, predicate = step->to % PREDICATES, one = step->one;
    put_guard(text, step->guard);
    switch (step->operation) {
    case MOVE:
        gs_text_add(text, "mov.u32 %%r%d, %%r%d;\n", to, one);
        break;
    case NUMBER:
        gs_text_add(text, "mov.u32 %%r%d, %d;\n", to, (int32_t)step->number);
        break;
    case BITS:
        gs_text_add(text, "%s.b32 %%r%d, %%r%d, %s;\n", bits_names[step->variant % 3], to, one, second);
        break;
    case COMPARE:
        if (step->variant % 4 == 0 && step->third != predicate)
            gs_text_add(text, "setp.%.2s.%s%s %%p%d, %%r%d, %s, %%p%d;\n", tests_names[step->variant],
                        bits_names[step->number % 3], tests_names[step->variant] + 2, predicate, one, second,
                        step->third);
        else
            gs_text_add(text, "setp.%s %%p%d, %%r%d, %s;\n", tests_names[step->variant], predicate, one, second);
        break;
    case COMBINE:
        gs_text_add(text, "%s.pred %%p%d, %%p%d, %%p%d;\n", bits_names[step->variant % 3], predicate, step->third,
                    one % PREDICATES);
        break;
    case NEGATE:
        gs_text_add(text, "not.pred %%p%d, %%p%d;\n", predicate, step->third);
        break;
    case SELECT:
        gs_text_add(text, "selp.b32 %%r%d, %%r%d, %s, %%p%d;\n", to, one, second, step->third);
        break;
    case CONVERT:
        gs_text_add(text, "cvt.%s %%r%d, %%r%d;\n", convert_names[step->variant % 4], to, one);
        break;
    case ADD:
        gs_text_add(text, "add.u32 %%r%d, %%r%d, %s;\n", to, one, second);
        break;
    case STORE:
        if (step->variant == 0) /* two words at once, and a part of one */
            gs_text_add(text, "st.shared.v2.u32 [own+%d], {%%r%d, %%r%d};\n", step->third / 2 * 8, one, step->other);
        else if (step->variant == 1)
            gs_text_add(text, "st.shared.u8 [own+%d], %%r%d;\n", step->third * 4, one);
        else
            gs_text_add(text, "st.shared.u32 [own+%d], %%r%d;\n", step->third * 4, one);
        break;
    case LOAD:
        gs_text_add(text, "ld.shared.u32 %%r%d, [own+%d];\n", to, step->third * 4);
        break;
    case VOTE:
        gs_text_add(text, "vote.sync.%s.pred %%p%d, %%p%d, -1;\n", step->variant % 2 ? "any" : "all", predicate,
                    step->third);
        break;
    case JUMP:
        gs_text_add(text, "bra L%d;\n", to);
        break;
    case MARK:
        gs_text_add(text, "st.global.u32 [%%q], %%r0;\n");
        break;
    }
}

static void put_loop(gs_text *text, const struct loop *loop) {
    gs_text_add(text, "%s",
                ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
                "\t.reg .pred %p<8>; .reg .b32 %r<8>; .reg .b64 %q; .shared .align 8 .b32 own[8];\n"
                "\tld.param.u64 %q, [p];\nhead:\n\tld.volatile.global.u32 %r0, [%q];\n");
    for (int i = 1; i < REGISTERS; i++)
        gs_text_add(text, "mov.u32 %%r%d, %d;\n", i, (int32_t)loop->registers[i]);
    for (int i = 0; i < WORDS; i++)
        gs_text_add(text, "mov.u32 %%r7, %d; st.shared.u32 [own+%d], %%r7;\n", (int32_t)loop->words[i], i * 4);
    for (int i = 0; i < PREDICATES && !loop->is_known; i++)
        gs_text_add(text, "setp.eq.u32 %%p%d, 1, %d;\n", i, loop->predicates[i]);
    for (int i = 0; i < loop->count; i++) {
        gs_text_add(text, "L%d:\t", i);
        put_step(text, &loop->steps[i]);
    }
    gs_text_add(text, "L%d:\t@%%p%d bra head;\n\tret;\n}\n", loop->count, loop->returns_by);
}

/* ---- the machine ---- */

static uint32_t combined(int which, uint32_t one, uint32_t other) {
    return which % 3 == 0 ? (one & other) : which % 3 == 1 ? (one | other) : (one ^ other);
}

static bool tested(int variant, uint32_t one, uint32_t other) {
    const char *name = tests_names[variant];
    bool is_signed = name[3] == 's', is_less = is_signed ? (int32_t)one < (int32_t)other : one < other;
    switch (name[0] == 'h' ? (name[1] == 'i' ? 'g' : 'G') : name[0] == 'l' && name[1] == 'o' ? 't' : name[1]) {
    case 'q':
        return one == other;
    case 'e': /* ne, le, ge */
        return name[0] == 'n' ? one != other : name[0] == 'l' ? is_less || one == other : !is_less;
    case 's':
        return is_less || one == other;
    case 'g':
        return !is_less && one != other;
    case 'G':
        return !is_less;
    default: /* lt, gt, lo */
        return name[0] == 'g' ? !is_less && one != other : is_less;
    }
}

struct outcome {
    bool returns, marked[MOST_STEPS];
};

/* Runs an iteration in which `value` is loaded. */
static void run_iteration(const struct loop *loop, uint32_t value, struct outcome *outcome) {
    uint32_t r[REGISTERS];
    union {
        uint32_t words[WORDS];
        uint8_t bytes[4 * WORDS];
    } own;
    bool p[PREDICATES];
    memcpy(r, loop->registers, sizeof r);
    memcpy(own.words, loop->words, sizeof own.words);
    memcpy(p, loop->predicates, sizeof p);
    r[0] = value;
    for (int i = 0; i < loop->count; i++) {
        const struct step *step = &loop->steps[i];
        int to = step->to, which = to % PREDICATES, guard = step->guard < 0 ? -step->guard : step->guard;
        uint32_t one = r[step->one], other = step->has_number ? step->number : r[step->other];
        if (guard && p[guard - 1] == (step->guard < 0))
            continue;
        switch (step->operation) {
        case MOVE:
            r[to] = one;
            break;
        case NUMBER:
            r[to] = step->number;
            break;
        case BITS:
            r[to] = combined(step->variant, one, other);
            break;
        case COMPARE: {
            bool is_so = tested(step->variant, one, other);
            if (step->variant % 4 == 0 && step->third != which)
                is_so = combined((int)(step->number % 3), is_so, p[step->third]);
            p[which] = is_so;
            break;
        }
        case COMBINE:
            p[which] = combined(step->variant, p[step->third], p[step->one % PREDICATES]);
            break;
        case NEGATE:
            p[which] = !p[step->third];
            break;
        case SELECT:
            r[to] = p[step->third] ? one : other;
            break;
        case CONVERT:
            r[to] = step->variant % 4 == 0   ? (uint8_t)one
                    : step->variant % 4 == 1 ? (uint32_t)(int8_t)one
                    : step->variant % 4 == 2 ? (uint16_t)one
                                             : (uint32_t)(int16_t)one;
            break;
        case ADD:
            r[to] = one + other;
            break;
        case STORE:
            if (step->variant == 0) {
                own.words[step->third / 2 * 2] = one;
                own.words[step->third / 2 * 2 + 1] = r[step->other];
            } else if (step->variant == 1) {
                own.bytes[step->third * 4] = (uint8_t)one;
            } else {
                own.words[step->third] = one;
            }
            break;
        case LOAD:
            r[to] = own.words[step->third];
            break;
        case VOTE:
            p[which] = p[step->third];
            break;
        case JUMP:
            i = to - 1;
            break;
        case MARK:
            outcome->marked[i] = true;
            break;
        }
    }
    outcome->returns = p[loop->returns_by];
}

/* A value that is as given. */
static uint32_t pick_value(gs_ptx_fact fact) {
    uint32_t bits = (uint32_t)fact.bits, value = pick(2) ? pick_number() : (uint32_t)gs_random_next(&source);
    switch (fact.kind) {
    case GS_FACT_IS:
        return bits;
    case GS_FACT_IS_NOT:
        return value == bits ? bits + 1 : value;
    case GS_FACT_SET:
        return value | bits;
    case GS_FACT_CLEAR:
        return value & ~bits;
    default:
        return fact.kind == GS_FACT_ANY && pick(2) ? bits : value;
    }
}

/* ---- what is said ---- */

/* Whether what is known of a loop's values is lost: a part of a word is stored. */
static bool loses(const struct loop *loop) {
    for (int i = 0; i < loop->count; i++)
        if (loop->steps[i].operation == STORE && loop->steps[i].variant == 1)
            return true;
    return false;
}

/* `said`: that a thread may go somewhere; `may`: a thread went there; `must`: all of them did. */
static void check_said(const char *what, bool said, bool went, bool is_exact, const gs_text *text, gs_ptx_fact fact) {
    if (said != went && (went || is_exact))
        fail_msg("%s: threads %s, with fact %d of %llu\n%s", what, went ? "do" : "do not", fact.kind,
                 (unsigned long long)fact.bits, text->data);
}

static const gs_ptx_statement *statement_of(const gs_ptx_kernel *kernel, bool is_load, int mark) {
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    for (uint32_t i = function->statements;; i++) {
        const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, i);
        if (statement->kind != GS_PTX_INSTRUCTION)
            continue;
        uint8_t reads = gs_ptx_reads(kernel->module, statement), writes = gs_ptx_writes(kernel->module, statement);
        if (is_load && statement->opcode == GS_PTX_LOAD && reads & GS_PTX_IN_GLOBAL)
            return statement;
        if (!is_load && statement->opcode == GS_PTX_STORE && writes & GS_PTX_IN_GLOBAL && mark-- == 0)
            return statement;
    }
}

static void check_loop(const struct loop *loop, const gs_ptx_loop *analyzed, const gs_text *text) {
    bool returns = false, leaves = false, is_exact = loop->is_exact && !loses(loop);
    struct outcome all = {.returns = false};
    gs_ptx_given given = {statement_of(analyzed->kernel, true, 0), loop->fact};
    for (int i = 0; i < SAMPLES; i++) {
        struct outcome outcome = {.returns = false};
        run_iteration(loop, pick_value(loop->fact), &outcome);
        returns = returns || outcome.returns;
        leaves = leaves || !outcome.returns;
        for (int k = 0; k < loop->count; k++)
            all.marked[k] = all.marked[k] || outcome.marked[k];
    }
    check_said("may return", gs_ptx_may_return(analyzed, given.statement, &given, 1, NULL), returns, is_exact, text,
               loop->fact);
    check_said("may run again", gs_ptx_may_run_again(analyzed, given.statement, &given, 1), returns, is_exact, text,
               loop->fact);
    check_said("may leave", gs_ptx_may_leave(analyzed, given.statement, &given, 1, NULL), leaves, is_exact, text,
               loop->fact);
    for (int k = 0, mark = 0; k < loop->count; k++) {
        if (loop->steps[k].operation != MARK)
            continue;
        const gs_ptx_statement *target = statement_of(analyzed->kernel, false, mark++);
        check_said("may run", gs_ptx_may_run(analyzed, target, &given, 1), all.marked[k], is_exact, text, loop->fact);
        if (all.marked[k] && !gs_ptx_may_reach(analyzed, given.statement, target, &given, 1))
            fail_msg("a store is reached\n%s", text->data);
    }
}

static uint32_t load_of(const gs_ptx_kernel *kernel) {
    return gs_ptx_number_of(kernel, statement_of(kernel, true, 0));
}

TEST(loops_end_where_threads_end) {
    uint64_t runs = test_number("GRIDSMITH_RUNS", 100000) / 20 + 100, checked = 0;
    for (uint64_t i = 0; i < runs; i++) {
        struct loop loop;
        gs_text text = {0};
        gs_error error = {.code = GS_OK};
        gs_ptx_options options = {.form = GS_FORM_PERSISTENT, .looks_back = true};
        gs_ptx_module module;
        gs_ptx_loop analyzed = {.head = 0};
        source = gs_random_at(64, i);
        if (i % 4)
            make_loop(&loop);
        else
            make_known_loop(&loop);
        put_loop(&text, &loop);
        if (gs_ptx_read(&module, "k.ptx", text.data, text.count, &error) != GS_OK)
            fail_msg("%ld: %s\n%s", error.line, error.message, text.data);
        gs_ptx_kernel kernel = {.module = &module, .function = (uint32_t)gs_ptx_find_function(&module, "k")};
        if (gs_ptx_kernel_examine(&kernel, &options, &error) != GS_OK || /* votes of some lanes only are refused */
            gs_ptx_loop_init(&analyzed, &kernel, &error) != GS_OK)
            assert_int_equal(error.code, GS_E_REFUSED);
        else if (gs_ptx_loop_collect(&analyzed, gs_ptx_flow_block(&kernel.flow, load_of(&kernel)))) {
            check_loop(&loop, &analyzed, &text);
            checked++;
        }
        gs_ptx_loop_free(&analyzed);
        gs_ptx_kernel_free(&kernel);
        gs_ptx_free(&module);
        gs_text_free(&text);
    }
    assert_true(checked > runs / 2);
}

/* Whether the loop of a compare-and-swap goes on after the word had the awaited value, and after it had another. */
TEST(a_word_is_compared_with_what_was_awaited) {
    for (int i = 0; i < 8; i++) {
        bool is_equal = i & 1, is_swapped = i & 2, is_same = i & 4;
        gs_text text = {0};
        gs_error error = {.code = GS_OK};
        gs_ptx_options options = {.form = GS_FORM_PERSISTENT, .looks_back = true};
        gs_ptx_module module;
        gs_ptx_loop loop = {.head = 0};
        gs_text_add(
            &text,
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 n)\n{\n"
            "\t.reg .pred %%p; .reg .b32 %%r0, %%r1; .reg .b64 %%q;\n\tld.param.u64 %%q, [p];\n"
            "\tld.param.u32 %%r1, [n];\nhead:\n\tld.volatile.global.u32 %%r0, [%%q];\n"
            "\tsetp.%s.u32 %%p, %s;\n\t@%%p bra head;\n\tret;\n}\n",
            is_equal ? "eq" : "ne", is_swapped ? "%r1, %r0" : "%r0, %r1");
        assert_int_equal(gs_ptx_read(&module, "k.ptx", text.data, text.count, &error), GS_OK);
        gs_ptx_kernel kernel = {.module = &module, .function = (uint32_t)gs_ptx_find_function(&module, "k")};
        assert_int_equal(gs_ptx_kernel_examine(&kernel, &options, &error), GS_OK);
        assert_int_equal(gs_ptx_loop_init(&loop, &kernel, &error), GS_OK);
        assert_true(gs_ptx_loop_collect(&loop, gs_ptx_flow_block(&kernel.flow, load_of(&kernel))));
        const gs_ptx_statement *load = statement_of(&kernel, true, 0);
        const gs_ptx_operand *awaited = gs_ptx_operand_at(&kernel, load + 1, is_swapped ? 1 : 2);
        gs_ptx_given given = {load, {is_same ? GS_FACT_SAME : GS_FACT_OTHER, 0}};
        assert_int_equal(gs_ptx_may_return(&loop, load, &given, 1, awaited), is_same == is_equal);
        assert_int_equal(gs_ptx_may_leave(&loop, load, &given, 1, awaited), is_same != is_equal);
        gs_ptx_loop_free(&loop);
        gs_ptx_kernel_free(&kernel);
        gs_ptx_free(&module);
        gs_text_free(&text);
    }
}

TEST_MAIN(NULL, NULL)
