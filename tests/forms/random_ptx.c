/*
 * random_ptx.c: random kernels in PTX, to compare forms with the original.
 *
 * Each thread has a value, %v, made from its input, that statements change: arithmetic, the block number, exchange
 * through shared memory between barriers, shuffles and votes, sums in global memory, calls, branches and loops. At the
 * end, or where it leaves early, it adds its value to a sum or stores it.
 *
 * The kernels are correct CUDA: a value that one thread reads from another was written before a barrier; threads that
 * skip a barrier or a shuffle of others have exited. `kept` serves that: within a part that only the first `kept`
 * threads run, and after which no thread runs anything, barriers and shuffles still work, among those threads. A part
 * that all threads run has kept == 0.
 */
#include "random_ptx.h"

const char random_ptx_head[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                               ".func (.param .b32 result) mix (.param .b32 a, .param .b32 b)\n{\n"
                               "\t.reg .b32 %r<4>;\n"
                               "\tld.param.b32 %r1, [a];\n\tld.param.b32 %r2, [b];\n"
                               "\tmad.lo.u32 %r3, %r1, 33, %r2;\n\tst.param.b32 [result], %r3;\n\tret;\n}\n";

struct writer {
    gs_text *into;
    gs_random *random;
    int labels;
    int depth;
    int budget; /* statements left */
    bool has_shared;
};

static int pick(struct writer *writer, int least, int most) {
    return (int)gs_random_from(writer->random, least, most);
}

static void statements(struct writer *writer, const char *kept, bool is_last);

/* ---- statements of a single thread ---- */

static void put_arithmetic(struct writer *writer) {
    static const char *const lines[] = {
        "\tadd.u32 %%v, %%v, %d;\n",          "\tmul.lo.u32 %%v, %%v, %d;\n",
        "\txor.b32 %%v, %%v, %d;\n",          "\tshf.l.wrap.b32 %%v, %%v, %%v, %d;\n",
        "\tmad.lo.u32 %%v, %%me, %d, %%v;\n", "\tsub.u32 %%v, %d, %%v;\n",
    };
    gs_text_add(writer->into, lines[pick(writer, 0, (int)GS_COUNT(lines) - 1)], pick(writer, 1, 31));
}

static void put_block(struct writer *writer) {
    static const char *const names[] = {"ctaid.x", "ctaid.y", "ctaid.z", "nctaid.x", "nctaid.y", "nctaid.z"};
    gs_text_add(writer->into, "\tmov.u32 %%t1, %%%s;\n\tmad.lo.u32 %%v, %%v, 17, %%t1;\n",
                names[pick(writer, 0, (int)GS_COUNT(names) - 1)]);
}

static void put_sum(struct writer *writer) {
    gs_text_add(writer->into, "\tred.global.add.u32 [%%sums+%d], %%v;\n", 4 * pick(writer, 0, RANDOM_PTX_SUMS - 1));
}

static void put_call(struct writer *writer) {
    gs_text_add(writer->into,
                "\t{\n\t.param .b32 p0;\n\tst.param.b32 [p0], %%v;\n\t.param .b32 p1;\n\tst.param.b32 [p1], %%me;\n"
                "\t.param .b32 q0;\n\tcall.uni (q0), mix, (p0, p1);\n\tld.param.b32 %%v, [q0];\n\t}\n");
}

/* A branch or a loop without barriers, by which threads run apart and meet again. */
static void put_apart(struct writer *writer) {
    int label = writer->labels++;
    if (pick(writer, 0, 1)) {
        gs_text_add(writer->into, "\tand.b32 %%t1, %%v, %d;\n\tsetp.eq.u32 %%p1, %%t1, 0;\n\t@%%p1 bra $A%d;\n",
                    pick(writer, 1, 7), label);
        put_arithmetic(writer);
        gs_text_add(writer->into, "$A%d:\n", label);
        return;
    }
    gs_text_add(writer->into, "\tand.b32 %%t2, %%v, %d;\n$A%d:\n", pick(writer, 1, 7), label);
    put_arithmetic(writer);
    gs_text_add(writer->into, "\tadd.u32 %%t2, %%t2, 1;\n\tsetp.lt.u32 %%p1, %%t2, 8;\n\t@%%p1 bra $A%d;\n", label);
}

/* ---- statements of several threads ---- */

/* Writes to shared memory, waits, reads what another thread wrote, waits. `kept`: how many threads take part. */
static void put_exchange(struct writer *writer, const char *kept) {
    writer->has_shared = true;
    gs_text_add(writer->into,
                "\tst.shared.u32 [%%mine], %%v;\n\t%s 0;\n"
                "\tmad.lo.u32 %%t1, %%me, %d, %d;\n\trem.u32 %%t1, %%t1, %s;\n\tshl.b32 %%t1, %%t1, 2;\n"
                "\tmov.u32 %%t2, buffer;\n\tadd.u32 %%t1, %%t1, %%t2;\n\tld.shared.u32 %%t1, [%%t1];\n"
                "\t%s 0;\n\tadd.u32 %%v, %%v, %%t1;\n",
                pick(writer, 0, 1) ? "bar.sync" : "barrier.sync", pick(writer, 1, 5), pick(writer, 0, 40), kept,
                pick(writer, 0, 1) ? "bar.sync" : "barrier.sync");
}

/* Exited lanes contribute nothing: votes, and the value of the first lane, which is the last one to exit. */
static void put_warp_step(struct writer *writer) {
    switch (pick(writer, 0, 4)) {
    case 0:
        gs_text_add(writer->into, "\tshfl.sync.idx.b32 %%t1|%%p1, %%v, 0, 31, -1;\n\tadd.u32 %%v, %%v, %%t1;\n");
        break;
    case 1:
        gs_text_add(writer->into, "\tand.b32 %%t1, %%v, 3;\n\tsetp.eq.u32 %%p1, %%t1, 0;\n"
                                  "\tvote.sync.ballot.b32 %%t1, %%p1, -1;\n\tadd.u32 %%v, %%v, %%t1;\n");
        break;
    case 2:
        gs_text_add(writer->into, "\tand.b32 %%t1, %%v, 3;\n\tmatch.any.sync.b32 %%t1, %%t1, -1;\n"
                                  "\txor.b32 %%v, %%v, %%t1;\n");
        break;
    case 3:
        gs_text_add(writer->into, "\tredux.sync.add.u32 %%t1, %%v, -1;\n\txor.b32 %%v, %%v, %%t1;\n");
        break;
    default:
        gs_text_add(writer->into, "\tbar.warp.sync -1;\n");
        break;
    }
}

/* A mask of exactly the lanes that reach the operation. */
static void put_masked_step(struct writer *writer) {
    int label = writer->labels++;
    gs_text_add(writer->into,
                "\tand.b32 %%t1, %%v, %d;\n\tsetp.eq.u32 %%p1, %%t1, 0;\n\t@%%p1 bra $A%d;\n"
                "\tactivemask.b32 %%t2;\n\tvote.sync.any.pred %%p2, %%p1, %%t2;\n\t@%%p2 add.u32 %%v, %%v, 5;\n"
                "\tadd.u32 %%v, %%v, 1;\n$A%d:\n",
                pick(writer, 1, 3), label, label);
}

static void put_reduction(struct writer *writer) {
    gs_text_add(writer->into, "\tand.b32 %%t1, %%v, 1;\n\tsetp.eq.u32 %%p1, %%t1, 0;\n"
                              "\tbar.red.popc.u32 %%t1, 0, %%p1;\n\tadd.u32 %%v, %%v, %%t1;\n");
}

/* A loop with the same number of iterations for all threads. */
static void put_loop(struct writer *writer, const char *kept) {
    int label = writer->labels++, counter = writer->depth;
    if (counter >= 4)
        return;
    gs_text_add(writer->into, "\tmov.u32 %%c%d, 0;\n$L%d:\n", counter, label);
    writer->depth++;
    statements(writer, kept, false);
    writer->depth--;
    gs_text_add(writer->into, "\tadd.u32 %%c%d, %%c%d, 1;\n\tsetp.lt.u32 %%p3, %%c%d, %d;\n\t@%%p3 bra $L%d;\n",
                counter, counter, counter, pick(writer, 2, 3), label);
}

/* A branch that goes the same way in all threads. */
static void put_uniform(struct writer *writer, const char *kept) {
    int label = writer->labels++;
    gs_text_add(writer->into,
                "\tmov.u32 %%t1, %%ctaid.x;\n\tand.b32 %%t1, %%t1, %d;\n\tsetp.eq.u32 %%p3, %%t1, 0;\n"
                "\t@%%p3 bra $U%d;\n",
                pick(writer, 1, 3), label);
    statements(writer, kept, false);
    gs_text_add(writer->into, "$U%d:\n", label);
}

/* ---- leaving ---- */

static void put_end(struct writer *writer) {
    if (pick(writer, 0, 1))
        put_sum(writer);
    gs_text_add(writer->into, "\tst.global.u32 [%%out], %%v;\n");
}

/* Threads from a certain one on exit; the others continue in one of several shapes. */
static void put_leaving(struct writer *writer) {
    int label = writer->labels++, shape = pick(writer, 0, 3);
    gs_text_add(writer->into,
                "\tsub.u32 %%kept, %%threads, 1;\n\tmin.u32 %%kept, %%kept, %d;\n\tmax.u32 %%kept, %%kept, 1;\n"
                "\tsetp.ge.u32 %%p4, %%me, %%kept;\n",
                pick(writer, 1, 200));
    if (shape == 0) { /* return */
        gs_text_add(writer->into, "\t@%%p4 st.global.u32 [%%out], %%v;\n\t@%%p4 ret;\n");
        statements(writer, "%kept", true);
        put_end(writer);
        gs_text_add(writer->into, "\tret;\n");
    } else if (shape == 1) { /* fall off the end */
        gs_text_add(writer->into, "\t@%%p4 bra $E%d;\n", label);
        statements(writer, "%kept", true);
        put_end(writer);
        gs_text_add(writer->into, "$E%d:\n\t@%%p4 st.global.u32 [%%out], %%v;\n", label);
    } else if (shape == 2) { /* a loop of unequal length: in each iteration the last threads exit */
        gs_text_add(writer->into, "\tmov.u32 %%kept, %%threads;\n$E%d:\n", label);
        writer->depth = 4;
        put_exchange(writer, "%kept");
        statements(writer, "%kept", true);
        gs_text_add(writer->into,
                    "\tshr.u32 %%kept, %%kept, 1;\n\tsetp.lt.u32 %%p4, %%me, %%kept;\n\t@%%p4 bra $E%d;\n", label);
        put_end(writer);
    } else { /* exit, in the middle of a nested branch */
        gs_text_add(writer->into, "\t@!%%p4 bra $E%d;\n", label);
        put_apart(writer);
        put_end(writer);
        gs_text_add(writer->into, "\texit;\n$E%d:\n", label);
        statements(writer, "%kept", true);
        put_end(writer);
    }
}

/* ---- a whole kernel ---- */

static void statements(struct writer *writer, const char *kept, bool is_last) {
    bool is_whole = kept[1] == 't'; /* %threads: all of them */
    for (int count = pick(writer, 1, 4); count-- > 0 && writer->budget-- > 0;) {
        switch (pick(writer, 0, 13)) {
        case 0:
            put_block(writer);
            break;
        case 1:
            put_sum(writer);
            break;
        case 2:
            put_call(writer);
            break;
        case 3:
        case 4:
            put_apart(writer);
            break;
        case 5:
        case 6:
            put_exchange(writer, kept);
            break;
        case 7:
        case 8:
            put_warp_step(writer);
            break;
        case 9:
            put_loop(writer, kept);
            break;
        case 10:
            put_uniform(writer, kept);
            break;
        case 11:
            put_masked_step(writer);
            break;
        case 12:
            if (is_whole)
                put_reduction(writer);
            break;
        default:
            put_arithmetic(writer);
            break;
        }
    }
    (void)is_last;
}

static const char begin[] = "{\n"
                            "\t.reg .pred %p<8>;\n\t.reg .b32 %v, %me, %threads, %kept, %mine, %t<8>, %c<8>;\n"
                            "\t.reg .b64 %d<8>, %in, %out, %sums;\n"
                            "\tld.param.u64 %in, [in];\n\tld.param.u64 %out, [out];\n\tld.param.u64 %sums, [sums];\n"
                            "\tmov.u32 %t1, %ntid.x;\n\tmov.u32 %t2, %ntid.y;\n\tmul.lo.u32 %threads, %t1, %t2;\n"
                            "\tmov.u32 %t3, %tid.y;\n\tmov.u32 %t4, %tid.x;\n\tmad.lo.u32 %me, %t3, %t1, %t4;\n"
                            "\tmov.u32 %t1, %ctaid.z;\n\tmov.u32 %t2, %nctaid.y;\n\tmov.u32 %t3, %ctaid.y;\n"
                            "\tmad.lo.u32 %t1, %t1, %t2, %t3;\n\tmov.u32 %t2, %nctaid.x;\n\tmov.u32 %t3, %ctaid.x;\n"
                            "\tmad.lo.u32 %t1, %t1, %t2, %t3;\n\tmad.lo.u32 %t1, %t1, %threads, %me;\n"
                            "\tmul.wide.u32 %d1, %t1, 4;\n\tadd.u64 %in, %in, %d1;\n\tadd.u64 %out, %out, %d1;\n"
                            "\tld.global.u32 %v, [%in];\n"
                            "\tshl.b32 %t1, %me, 2;\n\tmov.u32 %mine, buffer;\n\tadd.u32 %mine, %mine, %t1;\n"
                            "\tmov.u32 %kept, %threads;\n";

void random_ptx_put(gs_text *into, const char *name, gs_random *random) {
    struct writer writer = {.into = into, .random = random, .budget = 14};
    gs_text_add(into,
                ".visible .entry %s(\n\t.param .u64 in,\n\t.param .u64 out,\n\t.param .u64 sums,\n\t.param .u32 n\n)\n",
                name);
    gs_text_put(into, begin, 2);
    gs_text_add(into, "\t.shared .align 4 .b8 buffer[1024];\n");
    gs_text_put(into, begin + 2, sizeof begin - 3);
    statements(&writer, "%threads", false);
    if (gs_random_chance(random, 60))
        put_leaving(&writer);
    else
        put_end(&writer);
    gs_text_add(into, "\tret;\n}\n");
}
