/*
 * random_ptx.c: random kernels in PTX, to compare forms with the original.
 *
 * Each thread has a value, %v, made from its input, that the pieces of random_rows.c change, one after the other, in
 * loops and under branches. At the end, or where it leaves early, the thread stores its value.
 *
 * The kernels are correct PTX: a value that one thread reads from another was written before a barrier; threads that
 * skip a barrier or a vote of others have exited. `kept` serves that: it is the register with the number of threads
 * that are still there. They are the first ones of the block. %threads: none has left.
 */
#include "random_ptx.h"

#include <string.h>

#define BLOCK_NUMBER                                                                                                   \
    "\tmov.u32 %r1, %ctaid.x;\n\tmov.u32 %r2, %nctaid.y;\n\tmad.lo.u32 %r3, %r1, 3, %r2;\n\tld.param.b32 %r4, [a];\n"  \
    "\tadd.u32 %r3, %r3, %r4;\n\tst.param.b32 [result], %r3;\n\tret;\n}\n"

const char random_ptx_head[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".const .align 4 .b32 table[4] = {11, 22, 33, 44};\n"
    ".global .align 4 .b32 weights[4] = {3, 5, 7, 9};\n"
    ".extern .shared .align 16 .b8 dynamic16[];\n.extern .shared .align 128 .b8 dynamic128[];\n"
    ".extern .shared .align 1024 .b8 dynamic1024[];\n"
    ".func (.param .b32 result) mix (.param .b32 a, .param .b32 b)\n{\n"
    "\t.reg .b32 %r<4>;\n\tld.param.b32 %r1, [a];\n\tld.param.b32 %r2, [b];\n"
    "\tmad.lo.u32 %r3, %r1, 33, %r2;\n\tst.param.b32 [result], %r3;\n\tret;\n}\n"
    ".func (.param .b32 result) place (.param .b32 a)\n{\n\t.reg .b32 %r<5>;\n" BLOCK_NUMBER
    ".func (.param .b32 result) meet (.param .b32 a)\n{\n\t.reg .b32 %r<5>;\n\t.reg .pred %p<2>;\n"
    "\tld.param.b32 %r1, [a];\n\tand.b32 %r2, %r1, 1;\n\tsetp.eq.u32 %p1, %r2, 0;\n"
    "\tbar.red.popc.u32 %r3, 0, %p1;\n\tadd.u32 %r1, %r1, %r3;\n\tst.param.b32 [result], %r1;\n\tret;\n}\n"
    ".func (.param .b32 result) agree (.param .b32 a)\n{\n\t.reg .b32 %r<5>;\n"
    "\tld.param.b32 %r1, [a];\n\tredux.sync.add.u32 %r2, %r1, -1;\n\tadd.u32 %r1, %r1, %r2;\n"
    "\tst.param.b32 [result], %r1;\n\tret;\n}\n";

struct writer {
    gs_text *into;
    gs_random *random;
    random_ptx_kernel *kernel;
    int numbers;      /* given to labels and variables so far */
    int depth;        /* of loops */
    int budget;       /* statements left */
    bool has_limit;   /* it declares how many threads a block may have */
    uint32_t barrier; /* without a count */
    char buffer[20];  /* the variable in shared memory that has a word for each thread */
};

/* Whether a row can be at a place. `is_whole`: no thread has left. */
typedef bool row_fits(const struct writer *writer, const random_ptx_row *row, bool is_whole);

static int pick(struct writer *writer, int least, int most) {
    return (int)gs_random_from(writer->random, least, most);
}

/* ---- features ---- */

const char *random_ptx_feature(int number) {
    for (size_t i = 0; i < random_ptx_row_count; i++) {
        bool is_new = i == 0 || strcmp(random_ptx_rows[i].feature, random_ptx_rows[i - 1].feature) != 0;
        if (is_new && number-- == 0)
            return random_ptx_rows[i].feature;
    }
    return NULL;
}

/* A row that fits, or NULL: none does. First a feature is chosen, so that one with many rows does not come more often.
 */
static const random_ptx_row *choose_row(struct writer *writer, row_fits *fits, bool is_whole, int *feature) {
    const random_ptx_row *chosen = NULL;
    int number = -1, features = 0, rows = 0;
    for (size_t i = 0; i < random_ptx_row_count; i++) {
        const random_ptx_row *row = &random_ptx_rows[i];
        bool is_new = i == 0 || strcmp(row->feature, row[-1].feature) != 0;
        number += is_new;
        rows = is_new ? 0 : rows;
        if (!fits(writer, row, is_whole))
            continue;
        bool is_taken =
            rows++ ? *feature == number && pick(writer, 0, rows - 1) == 0 : pick(writer, 0, features++) == 0;
        if (is_taken) {
            chosen = row;
            *feature = number;
        }
    }
    return chosen;
}

static uint32_t threads_of(const struct writer *writer) {
    const uint32_t *block = writer->kernel->block;
    return block[0] * block[1] * block[2];
}

static bool is_statement(const struct writer *writer, const random_ptx_row *row, bool is_whole) {
    uint32_t threads = threads_of(writer);
    switch (row->need) {
    case RANDOM_PTX_ANY:
        return true;
    case RANDOM_PTX_WHOLE:
        return is_whole;
    case RANDOM_PTX_WARPS:
        return is_whole && threads % 32 == 0;
    case RANDOM_PTX_GROUPS:
        return is_whole && threads % 64 == 0 && threads == writer->kernel->block[0] && writer->has_limit;
    default:
        return false;
    }
}

static bool is_wait(const struct writer *writer, const random_ptx_row *row, bool is_whole) {
    (void)is_whole;
    return row->need == RANDOM_PTX_ONCE ||
           (row->need == RANDOM_PTX_ONE_ROW && writer->kernel->grid[1] * writer->kernel->grid[2] == 1);
}

static bool leaves(const struct writer *writer, const random_ptx_row *row, bool is_whole) {
    (void)writer;
    (void)is_whole;
    return row->need == RANDOM_PTX_LEAVES;
}

/* ---- statements ---- */

static void statements(struct writer *writer, const char *kept);

static void put_text(struct writer *writer, const char *text, const char *kept) {
    int number = writer->numbers++;
    gs_text_add(writer->into, "\t");
    for (; *text; text++) {
        if (*text == '#')
            gs_text_add(writer->into, "%d", pick(writer, 1, 31));
        else if (*text == '?')
            gs_text_add(writer->into, "%d", number);
        else if (*text == '~')
            gs_text_add(writer->into, "%s", kept);
        else if (*text == '=')
            gs_text_add(writer->into, "%u", writer->barrier);
        else if (*text == '^')
            gs_text_add(writer->into, "%s", writer->buffer);
        else
            gs_text_put(writer->into, text, 1);
    }
    gs_text_add(writer->into, "\n");
}

/* A loop with the same number of iterations for all threads: a number, or one that is loaded from read-only memory. */
static void put_loop(struct writer *writer, const char *kept, bool is_loaded) {
    int label = writer->numbers++, counter = writer->depth;
    if (counter >= 4)
        return;
    gs_text_add(writer->into, "\tmov.u32 %%c%d, 0;\n", counter);
    if (is_loaded)
        gs_text_add(writer->into, "\tld.const.u32 %%m%d, [table+%d];\n\tand.b32 %%m%d, %%m%d, 3;\n", counter,
                    4 * pick(writer, 0, 3), counter, counter);
    else
        gs_text_add(writer->into, "\tmov.u32 %%m%d, %d;\n", counter, pick(writer, 2, 3));
    gs_text_add(writer->into, "$L%d:\n", label);
    writer->depth++;
    statements(writer, kept);
    writer->depth--;
    gs_text_add(writer->into, "\tadd.u32 %%c%d, %%c%d, 1;\n\tsetp.lt.u32 %%p3, %%c%d, %%m%d;\n\t@%%p3 bra $L%d;\n",
                counter, counter, counter, counter, label);
}

/* A branch that goes the same way in all threads. */
static void put_uniform(struct writer *writer, const char *kept) {
    int label = writer->numbers++;
    gs_text_add(writer->into,
                "\tmov.u32 %%t1, %%ctaid.x;\n\tand.b32 %%t1, %%t1, %d;\n\tsetp.eq.u32 %%p3, %%t1, 0;\n"
                "\t@%%p3 bra $U%d;\n",
                pick(writer, 1, 3), label);
    statements(writer, kept);
    gs_text_add(writer->into, "$U%d:\n", label);
}

/* Registers and a label that hide others of the same names. */
static void put_scope(struct writer *writer, const char *kept) {
    gs_text_add(writer->into, "\t{\n\t.reg .b32 %%t<8>;\n\t.reg .pred %%p<3>;\n\tbra.uni here;\nhere:\n");
    statements(writer, kept);
    gs_text_add(writer->into, "\t}\n");
}

/* ---- leaving ---- */

static void put_end(struct writer *writer) {
    gs_text_add(writer->into, "\tst.global.u32 [%%out], %%v;\n");
}

/* %p4: this thread is one of the last, which leave. */
static void put_choice(struct writer *writer) {
    gs_text_add(writer->into,
                "\tsub.u32 %%kept, %%threads, 1;\n\tmin.u32 %%kept, %%kept, %d;\n\tmax.u32 %%kept, %%kept, 1;\n"
                "\tsetp.ge.u32 %%p4, %%me, %%kept;\n",
                pick(writer, 1, 200));
}

/* Threads of %p4 leave, in one of two ways. */
static void put_exit(struct writer *writer, int label) {
    gs_text_add(writer->into,
                pick(writer, 0, 1) ? "\t@%%p4 bra $X%d;\n" : "\t@%%p4 st.global.u32 [%%out], %%v;\n\t@%%p4 exit;\n",
                label);
}

static void put_returns(struct writer *writer, int label) {
    (void)label;
    put_choice(writer);
    gs_text_add(writer->into, "\t@%%p4 st.global.u32 [%%out], %%v;\n\t@%%p4 ret;\n");
    statements(writer, "%kept");
}

static void put_branch_to_end(struct writer *writer, int label) {
    put_choice(writer);
    gs_text_add(writer->into, "\t@%%p4 bra $X%d;\n", label);
    statements(writer, "%kept");
}

static void put_exit_in_branch(struct writer *writer, int label) {
    put_choice(writer);
    gs_text_add(writer->into, "\t@!%%p4 bra $E%d;\n\txor.b32 %%v, %%v, 5;\n", label);
    put_end(writer);
    gs_text_add(writer->into, "\texit;\n$E%d:\n", label);
    statements(writer, "%kept");
}

/* In some blocks no thread leaves. */
static void put_exit_in_uniform_branch(struct writer *writer, int label) {
    put_choice(writer);
    gs_text_add(writer->into,
                "\tmov.u32 %%t1, %%ctaid.x;\n\tand.b32 %%t1, %%t1, %d;\n\tsetp.eq.u32 %%p3, %%t1, 0;\n"
                "\t@%%p3 mov.u32 %%kept, %%threads;\n\t@%%p3 bra $E%d;\n\tadd.u32 %%v, %%v, 9;\n",
                pick(writer, 1, 3), label);
    put_exit(writer, label);
    gs_text_add(writer->into, "$E%d:\n", label);
    statements(writer, "%kept");
}

static void put_unequal_loop(struct writer *writer, int label) {
    gs_text_add(writer->into, "\tmov.u32 %%kept, %%threads;\n$E%d:\n", label);
    statements(writer, "%kept");
    gs_text_add(writer->into, "\tshr.u32 %%kept, %%kept, 1;\n\tsetp.lt.u32 %%p4, %%me, %%kept;\n\t@%%p4 bra $E%d;\n",
                label);
}

/* Some blocks enter the loop from another place. */
static void put_endless_loop(struct writer *writer, int label) {
    gs_text_add(writer->into, "\tmov.u32 %%kept, %%threads;\n");
    if (pick(writer, 0, 1))
        gs_text_add(writer->into,
                    "\tmov.u32 %%t1, %%ctaid.x;\n\tand.b32 %%t1, %%t1, 1;\n\tsetp.eq.u32 %%p3, %%t1, 0;\n"
                    "\t@%%p3 bra $E%d;\n\txor.b32 %%v, %%v, 7;\n\tbra $E%d;\n",
                    label, label);
    gs_text_add(writer->into, "$E%d:\n", label);
    if (pick(writer, 0, 1))
        statements(writer, "%kept");
    gs_text_add(writer->into, "\tshr.u32 %%kept, %%kept, 1;\n\tsetp.ge.u32 %%p4, %%me, %%kept;\n");
    put_exit(writer, label);
    statements(writer, "%kept");
    gs_text_add(writer->into, "\tbra $E%d;\n", label);
}

static void put_loop_with_test(struct writer *writer, int label) {
    gs_text_add(writer->into, "\tmov.u32 %%kept, %%threads;\n\tmov.u32 %%c7, 0;\n$E%d:\n", label);
    statements(writer, "%kept");
    gs_text_add(writer->into,
                "\tadd.u32 %%c7, %%c7, 1;\n\tsetp.ge.u32 %%p3, %%c7, %d;\n\t@%%p3 bra $F%d;\n"
                "\tshr.u32 %%kept, %%kept, 1;\n\tmax.u32 %%kept, %%kept, 1;\n\tsetp.ge.u32 %%p4, %%me, %%kept;\n",
                pick(writer, 2, 4), label);
    put_exit(writer, label);
    gs_text_add(writer->into, "\tbra.uni $E%d;\n$F%d:\n", label, label);
    statements(writer, "%kept");
}

static const struct {
    const char *feature;
    void (*put)(struct writer *writer, int label);
    bool is_loop;
} leavings[] = {
    {"returns", put_returns, false},
    {"branches to the end", put_branch_to_end, false},
    {"exits in a branch", put_exit_in_branch, false},
    {"exits in a uniform branch", put_exit_in_uniform_branch, false},
    {"loops that end for the last threads", put_unequal_loop, true},
    {"loops that only exits end", put_endless_loop, true},
    {"loops with exits behind their test", put_loop_with_test, true},
};

/* The last threads leave, and the others continue, in one of several shapes. */
static bool put_leaving(struct writer *writer, const char *feature) {
    for (size_t i = 0; i < GS_COUNT(leavings); i++) {
        if (strcmp(leavings[i].feature, feature) != 0)
            continue;
        int label = writer->numbers++;
        writer->depth = leavings[i].is_loop ? 4 : writer->depth;
        leavings[i].put(writer, label);
        gs_text_add(writer->into, "$X%d:\n", label);
        put_end(writer);
        return true;
    }
    return false;
}

/* ---- choosing ---- */

static void put_structure(struct writer *writer, const char *feature, const char *kept) {
    if (put_leaving(writer, feature))
        return;
    if (strcmp(feature, "uniform branches") == 0)
        put_uniform(writer, kept);
    else if (strcmp(feature, "scopes around statements") == 0)
        put_scope(writer, kept);
    else
        put_loop(writer, kept, strcmp(feature, "loops") != 0);
}

static void put_statement(struct writer *writer, const char *kept, row_fits *fits) {
    int feature = 0;
    const random_ptx_row *row = choose_row(writer, fits, strcmp(kept, "%threads") == 0, &feature);
    writer->kernel->features |= UINT64_C(1) << feature;
    if (row->text)
        put_text(writer, row->text, kept);
    else
        put_structure(writer, row->feature, kept);
}

static void statements(struct writer *writer, const char *kept) {
    for (int count = pick(writer, 1, writer->depth ? 3 : 7); count-- > 0 && writer->budget-- > 0;)
        put_statement(writer, kept, is_statement);
}

/* ---- a whole kernel ---- */

static const char begin[] = "\t.reg .pred %p<8>;\n\t.reg .b32 %v, %me, %threads, %kept, %mine, %t<8>, %c<8>, %m<8>;\n"
                            "\t.reg .b16 %h<4>;\n\t.reg .f32 %f<3>;\n\t.reg .f64 %g<2>;\n"
                            "\t.reg .b64 %q<6>, %in, %out, %sums, %flags;\n\t.local .align 8 .b8 array[16];\n"
                            "\tld.param.u64 %in, [in];\n\tld.param.u64 %out, [out];\n\tld.param.u64 %sums, [sums];\n"
                            "\tld.param.u64 %flags, [flags];\n"
                            "\tmov.u32 %t1, %ntid.x;\n\tmov.u32 %t2, %ntid.y;\n\tmul.lo.u32 %threads, %t1, %t2;\n"
                            "\tmov.u32 %t3, %tid.y;\n\tmov.u32 %t4, %tid.x;\n\tmad.lo.u32 %me, %t3, %t1, %t4;\n"
                            "\tmov.u32 %t1, %ctaid.z;\n\tmov.u32 %t2, %nctaid.y;\n\tmov.u32 %t3, %ctaid.y;\n"
                            "\tmad.lo.u32 %t1, %t1, %t2, %t3;\n\tmov.u32 %t2, %nctaid.x;\n\tmov.u32 %t3, %ctaid.x;\n"
                            "\tmad.lo.u32 %t1, %t1, %t2, %t3;\n\tmad.lo.u32 %t1, %t1, %threads, %me;\n"
                            "\tmul.wide.u32 %q1, %t1, 4;\n\tadd.u64 %in, %in, %q1;\n\tadd.u64 %out, %out, %q1;\n"
                            "\tld.global.u32 %v, [%in];\n"
                            "\tshl.b32 %t1, %me, 2;\n\tmov.u32 %mine, ^;\n\tadd.u32 %mine, %mine, %t1;\n"
                            "\tmov.u32 %kept, %threads;\n"
                            "\tst.local.v2.u32 [array], {%me, %v};\n\tst.local.v2.u32 [array+8], {%v, %me};\n";

/* The memory that threads exchange values in: static, with or without other variables in front, or dynamic. */
static void put_buffer(struct writer *writer) {
    static const uint32_t alignments[] = {16, 128, 1024};
    uint32_t align = alignments[pick(writer, 0, (int)GS_COUNT(alignments) - 1)];
    if (pick(writer, 0, 3) == 0)
        gs_text_add(writer->into, "\t.shared .align 4 .b8 before[%d];\n", 4 * pick(writer, 1, 9));
    if (writer->kernel->shared_bytes)
        snprintf(writer->buffer, sizeof writer->buffer, "dynamic%u", align);
    else
        gs_text_add(writer->into, "\t.shared .align %u .b8 buffer[1024];\n", align);
}

void random_ptx_put(gs_text *into, random_ptx_kernel *kernel, gs_random *random) {
    struct writer writer = {.into = into, .random = random, .kernel = kernel, .budget = 20, .buffer = "buffer"};
    writer.barrier = gs_random_chance(random, 75) ? 0 : 1;
    writer.has_limit = gs_random_chance(random, 70);
    kernel->features = 0;
    kernel->shared_bytes = gs_random_chance(random, 40) ? 4 * RANDOM_PTX_THREADS : 0;
    gs_text_add(into,
                ".visible .entry %s(\n\t.param .u64 in,\n\t.param .u64 out,\n\t.param .u64 sums,\n\t.param .u64 "
                "flags\n)\n%s{\n",
                kernel->name, writer.has_limit ? ".maxntid 256, 1, 1\n" : "");
    put_buffer(&writer);
    put_text(&writer, begin, "%threads");
    if (gs_random_chance(random, 50))
        put_statement(&writer, "%threads", is_wait);
    statements(&writer, "%threads");
    if (gs_random_chance(random, 50))
        put_statement(&writer, "%threads", leaves);
    else
        put_end(&writer);
    gs_text_add(into, "\tret;\n}\n");
}
