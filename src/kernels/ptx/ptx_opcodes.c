/*
 * ptx_opcodes.c: the table of instructions, one row for each with all that analyses know about it. See ptx.h.
 *
 * The table is sorted by name. An opcode is looked up with all its suffixes, then with one less, and so on:
 * "bar.warp.sync" is found before "bar". Suffixes may come in another order, "vote.ballot.sync" for "vote.sync.ballot",
 * so a row of which all suffixes occur is preferred if it has more of them. Where suffixes change more than types and
 * rounding, a row of its own says so: "shfl.sync.idx". A column that a row does not name is 0: no arithmetic that is
 * followed, no memory, no wait, a result as uniform as the operands, accepted.
 *
 * `operands` has a letter for each operand, the last one for all that follow: 'w' is written, 'r' is read, 'm' is both.
 * 'l', 's' and 'u' are addresses of memory that is loaded, stored, or both; the registers in them are read. Most
 * instructions write their first operand and read the others.
 */
#include "ptx.h"

#include <stdlib.h>

static const char of_clusters[] = "it belongs to a cluster of blocks";
static const char to_clusters[] = "it writes to other blocks of a cluster";
static const char of_blocks_to_come[] = "it takes blocks that have not begun from the grid, as a form does itself";
static const char without_end[] = "it writes global memory, and nothing says when that has ended";
static const char of_registers[] = "it changes how many registers its warps have";
static const char of_the_stack[] = "it takes memory from the stack, which is freed only when a thread ends";
static const char of_tensors[] = "it uses tensor memory or tensor maps, which outlive a block";
static const char without_mask[] = "it exchanges values without a mask, as on GPUs before sm_70";

#define ROW(opcode, kind, letters) .name = opcode, .class = GS_PTX_##kind, .operands = letters
/* clang-format off */
static const gs_ptx_opcode opcodes[] = {
    {ROW("abs", COMPUTE, "wr"), .math = GS_PTX_MATH_ABS},
    {ROW("activemask", COMPUTE, "wr"), .result = GS_PTX_OF_THREAD, .math = GS_PTX_MATH_ACTIVE},
    {ROW("add", COMPUTE, "wr"), .math = GS_PTX_MATH_ADD},
    {ROW("addc", COMPUTE, "wr"), .result = GS_PTX_OF_THREAD, .math = GS_PTX_MATH_CARRY},
    {ROW("alloca", STACK, "wr"), .result = GS_PTX_OF_THREAD, .refused = of_the_stack},
    {ROW("and", COMPUTE, "wr"), .math = GS_PTX_MATH_AND},
    {ROW("applypriority", MISC, "r")},
    {ROW("atom", ATOMIC, "wur"), .reads = GS_PTX_BY_SUFFIX, .writes = GS_PTX_BY_SUFFIX, .result = GS_PTX_OF_THREAD},
    {ROW("bar.arrive", BARRIER, "r"), .is_aligned = true},
    {ROW("bar.cta.arrive", BARRIER, "r"), .is_aligned = true},
    {ROW("bar.cta.red", BARRIER, "wr"), .is_aligned = true, .waits = GS_PTX_WAITS_BLOCK, .result = GS_PTX_OF_BARRIER},
    {ROW("bar.cta.sync", BARRIER, "r"), .is_aligned = true, .waits = GS_PTX_WAITS_BLOCK},
    {ROW("bar.red", BARRIER, "wr"), .is_aligned = true, .waits = GS_PTX_WAITS_BLOCK, .result = GS_PTX_OF_BARRIER},
    {ROW("bar.sync", BARRIER, "r"), .is_aligned = true, .waits = GS_PTX_WAITS_BLOCK},
    {ROW("bar.warp.sync", BARRIER_WARP, "r"), .waits = GS_PTX_WAITS_LANES},
    {ROW("barrier.arrive", BARRIER, "r")},
    {ROW("barrier.cluster", BARRIER_CLUSTER, "r"), .waits = GS_PTX_WAITS_CLUSTER, .refused = of_clusters},
    {ROW("barrier.cta.arrive", BARRIER, "r")},
    {ROW("barrier.cta.red", BARRIER, "wr"), .waits = GS_PTX_WAITS_BLOCK, .result = GS_PTX_OF_BARRIER},
    {ROW("barrier.cta.sync", BARRIER, "r"), .waits = GS_PTX_WAITS_BLOCK},
    {ROW("barrier.red", BARRIER, "wr"), .waits = GS_PTX_WAITS_BLOCK, .result = GS_PTX_OF_BARRIER},
    {ROW("barrier.sync", BARRIER, "r"), .waits = GS_PTX_WAITS_BLOCK},
    {ROW("bfe", COMPUTE, "wr")},
    {ROW("bfi", COMPUTE, "wr")},
    {ROW("bfind", COMPUTE, "wr")},
    {ROW("bmsk", COMPUTE, "wr")},
    {ROW("bra", BRANCH, "r")},
    {ROW("brev", COMPUTE, "wr")},
    {ROW("brkpt", TRAP, "r")},
    {ROW("brx.idx", BRANCH_TABLE, "r")},
    {ROW("call", CALL, "r"), .reads = GS_PTX_IN_GLOBAL | GS_PTX_IN_SHARED | GS_PTX_IN_LOCAL | GS_PTX_IN_PARAM,
     .writes = GS_PTX_IN_GLOBAL | GS_PTX_IN_SHARED | GS_PTX_IN_LOCAL | GS_PTX_IN_PARAM, .result = GS_PTX_OF_THREAD},
    {ROW("clusterlaunchcontrol", CLUSTER, "wr"), .result = GS_PTX_OF_THREAD, .refused = of_blocks_to_come},
    {ROW("clz", COMPUTE, "wr")},
    {ROW("cnot", COMPUTE, "wr")},
    {ROW("copysign", COMPUTE, "wr")},
    {ROW("cos", COMPUTE, "wr")},
    {ROW("cp.async", ASYNC_COPY, "slr"), .reads = GS_PTX_IN_GLOBAL, .writes = GS_PTX_IN_SHARED},
    {ROW("cp.async.bulk", BULK_COPY, "slr"), .reads = GS_PTX_BY_ORDER, .writes = GS_PTX_BY_ORDER},
    {ROW("cp.async.bulk.commit_group", BULK_COPY, "r")},
    {ROW("cp.async.bulk.prefetch", BULK_COPY, "r")},
    {ROW("cp.async.bulk.tensor", BULK_COPY, "r"), .reads = GS_PTX_BY_ORDER, .writes = GS_PTX_BY_ORDER},
    {ROW("cp.async.bulk.wait_group", BULK_COPY, "r"), .waits = GS_PTX_WAITS_COPIES},
    {ROW("cp.async.commit_group", ASYNC_COPY, "r")},
    {ROW("cp.async.mbarrier", MBARRIER, "ur"), .reads = GS_PTX_IN_SHARED, .writes = GS_PTX_IN_SHARED},
    {ROW("cp.async.wait_all", ASYNC_COPY, "r"), .waits = GS_PTX_WAITS_COPIES},
    {ROW("cp.async.wait_group", ASYNC_COPY, "r"), .waits = GS_PTX_WAITS_COPIES},
    {ROW("cp.reduce.async.bulk", BULK_COPY, "slr"), .reads = GS_PTX_BY_ORDER, .writes = GS_PTX_BY_ORDER},
    {ROW("cp.reduce.async.bulk.tensor", BULK_COPY, "r"), .reads = GS_PTX_BY_ORDER, .writes = GS_PTX_BY_ORDER},
    {ROW("createpolicy", COMPUTE, "wr")},
    {ROW("cvt", COMPUTE, "wr"), .math = GS_PTX_MATH_CONVERT},
    {ROW("cvta", COMPUTE, "wr"), .math = GS_PTX_MATH_CONVERT_ADDRESS},
    {ROW("discard", MISC, "sr"), .writes = GS_PTX_BY_SUFFIX},
    {ROW("div", COMPUTE, "wr"), .math = GS_PTX_MATH_DIV},
    {ROW("dp2a", COMPUTE, "wr")},
    {ROW("dp4a", COMPUTE, "wr")},
    {ROW("elect.sync", SHUFFLE, "wr"), .waits = GS_PTX_WAITS_LANES, .result = GS_PTX_OF_THREAD},
    {ROW("ex2", COMPUTE, "wr")},
    {ROW("exit", EXIT, "r")},
    {ROW("fence", FENCE, "r")},
    {ROW("fma", COMPUTE, "wr")},
    {ROW("fns", COMPUTE, "wr")},
    {ROW("getctarank", CLUSTER, "wr"), .result = GS_PTX_OF_THREAD, .refused = of_clusters},
    {ROW("griddepcontrol.launch_dependents", DEPENDENT, "r")},
    {ROW("griddepcontrol.wait", DEPENDENT, "r"), .waits = GS_PTX_WAITS_KERNEL},
    {ROW("isspacep", COMPUTE, "wr")},
    {ROW("istypep", TEXTURE, "wr")},
    {ROW("ld", LOAD, "wlr"), .reads = GS_PTX_BY_SUFFIX, .result = GS_PTX_OF_MEMORY},
    {ROW("ldmatrix", MATRIX, "wlr"), .reads = GS_PTX_IN_SHARED, .result = GS_PTX_OF_THREAD, .waits = GS_PTX_WAITS_WARP},
    {ROW("ldu", LOAD, "wlr"), .reads = GS_PTX_BY_SUFFIX, .result = GS_PTX_OF_MEMORY},
    {ROW("lg2", COMPUTE, "wr")},
    {ROW("lop3", COMPUTE, "wr")},
    {ROW("mad", COMPUTE, "wr"), .math = GS_PTX_MATH_MAD},
    {ROW("mad24", COMPUTE, "wr")},
    {ROW("madc", COMPUTE, "wr"), .result = GS_PTX_OF_THREAD, .math = GS_PTX_MATH_CARRY},
    {ROW("mapa", CLUSTER, "wr"), .result = GS_PTX_OF_THREAD, .refused = of_clusters},
    {ROW("match.all.sync", SHUFFLE, "wr"), .waits = GS_PTX_WAITS_LANES, .result = GS_PTX_OF_LANES},
    {ROW("match.any.sync", SHUFFLE, "wr"), .waits = GS_PTX_WAITS_LANES, .result = GS_PTX_OF_THREAD,
     .math = GS_PTX_MATH_ALIKE},
    {ROW("max", COMPUTE, "wr"), .math = GS_PTX_MATH_MAX},
    {ROW("mbarrier.arrive", MBARRIER, "wur"), .reads = GS_PTX_IN_SHARED, .writes = GS_PTX_IN_SHARED,
     .result = GS_PTX_OF_THREAD},
    {ROW("mbarrier.arrive_drop", MBARRIER, "wur"), .reads = GS_PTX_IN_SHARED, .writes = GS_PTX_IN_SHARED,
     .result = GS_PTX_OF_THREAD},
    {ROW("mbarrier.complete_tx", MBARRIER, "ur"), .reads = GS_PTX_IN_SHARED, .writes = GS_PTX_IN_SHARED},
    {ROW("mbarrier.expect_tx", MBARRIER, "ur"), .reads = GS_PTX_IN_SHARED, .writes = GS_PTX_IN_SHARED},
    {ROW("mbarrier.init", MBARRIER, "sr"), .writes = GS_PTX_IN_SHARED},
    {ROW("mbarrier.inval", MBARRIER, "sr"), .writes = GS_PTX_IN_SHARED},
    {ROW("mbarrier.pending_count", MBARRIER, "wr")},
    {ROW("mbarrier.test_wait", MBARRIER, "wlr"), .reads = GS_PTX_IN_SHARED, .result = GS_PTX_OF_THREAD,
     .waits = GS_PTX_WAITS_MBARRIER},
    {ROW("mbarrier.try_wait", MBARRIER, "wlr"), .reads = GS_PTX_IN_SHARED, .result = GS_PTX_OF_THREAD,
     .waits = GS_PTX_WAITS_MBARRIER},
    {ROW("membar", FENCE, "r")},
    {ROW("min", COMPUTE, "wr"), .math = GS_PTX_MATH_MIN},
    {ROW("mma", MATRIX, "wr"), .result = GS_PTX_OF_THREAD, .waits = GS_PTX_WAITS_WARP},
    {ROW("mov", COMPUTE, "wr"), .math = GS_PTX_MATH_MOVE},
    {ROW("movmatrix", MATRIX, "wr"), .result = GS_PTX_OF_THREAD, .waits = GS_PTX_WAITS_WARP},
    {ROW("mul", COMPUTE, "wr"), .math = GS_PTX_MATH_MUL},
    {ROW("mul24", COMPUTE, "wr")},
    {ROW("multimem.ld_reduce", ATOMIC, "wlr"), .reads = GS_PTX_IN_GLOBAL, .result = GS_PTX_OF_THREAD,
     .is_multicast = true},
    {ROW("multimem.red", ATOMIC, "ur"), .reads = GS_PTX_IN_GLOBAL, .writes = GS_PTX_IN_GLOBAL, .is_multicast = true},
    {ROW("multimem.st", STORE, "sr"), .writes = GS_PTX_IN_GLOBAL, .is_multicast = true},
    {ROW("nanosleep", MISC, "r")},
    {ROW("neg", COMPUTE, "wr"), .math = GS_PTX_MATH_NEGATE},
    {ROW("not", COMPUTE, "wr"), .math = GS_PTX_MATH_NOT},
    {ROW("or", COMPUTE, "wr"), .math = GS_PTX_MATH_OR},
    {ROW("pmevent", MISC, "r")},
    {ROW("popc", COMPUTE, "wr"), .math = GS_PTX_MATH_COUNT_BITS},
    {ROW("prefetch", MISC, "r")},
    {ROW("prefetchu", MISC, "r")},
    {ROW("prmt", COMPUTE, "wr")},
    {ROW("rcp", COMPUTE, "wr")},
    {ROW("red", ATOMIC, "ur"), .reads = GS_PTX_BY_SUFFIX, .writes = GS_PTX_BY_SUFFIX},
    {ROW("red.async", BULK_COPY, "ur"), .reads = GS_PTX_IN_SHARED, .writes = GS_PTX_IN_SHARED, .refused = to_clusters},
    {ROW("red.async.global", BULK_COPY, "ur"), .reads = GS_PTX_IN_GLOBAL, .writes = GS_PTX_IN_GLOBAL,
     .refused = without_end},
    {ROW("redux.sync", SHUFFLE, "wr"), .waits = GS_PTX_WAITS_LANES, .result = GS_PTX_OF_LANES},
    {ROW("rem", COMPUTE, "wr"), .math = GS_PTX_MATH_REM},
    {ROW("ret", RETURN, "r")},
    {ROW("rsqrt", COMPUTE, "wr")},
    {ROW("sad", COMPUTE, "wr")},
    {ROW("selp", COMPUTE, "wr"), .math = GS_PTX_MATH_SELECT},
    {ROW("set", COMPUTE, "wr"), .math = GS_PTX_MATH_SET},
    {ROW("setmaxnreg", REGISTERS, "r"), .refused = of_registers},
    {ROW("setp", COMPUTE, "wr"), .math = GS_PTX_MATH_COMPARE},
    {ROW("shf", COMPUTE, "wr")},
    {ROW("shfl", SHUFFLE, "wr"), .result = GS_PTX_OF_THREAD, .refused = without_mask},
    {ROW("shfl.sync", SHUFFLE, "wr"), .waits = GS_PTX_WAITS_LANES, .result = GS_PTX_OF_THREAD},
    {ROW("shfl.sync.idx", SHUFFLE, "wr"), .waits = GS_PTX_WAITS_LANES, .result = GS_PTX_OF_ONE_LANE},
    {ROW("shl", COMPUTE, "wr"), .math = GS_PTX_MATH_SHL},
    {ROW("shr", COMPUTE, "wr"), .math = GS_PTX_MATH_SHR},
    {ROW("sin", COMPUTE, "wr")},
    {ROW("slct", COMPUTE, "wr")},
    {ROW("sqrt", COMPUTE, "wr")},
    {ROW("st", STORE, "sr"), .writes = GS_PTX_BY_SUFFIX},
    {ROW("st.async", BULK_COPY, "sr"), .writes = GS_PTX_IN_SHARED, .refused = to_clusters},
    {ROW("st.async.global", BULK_COPY, "sr"), .writes = GS_PTX_IN_GLOBAL, .refused = without_end},
    {ROW("st.bulk", BULK_COPY, "sr"), .writes = GS_PTX_IN_SHARED},
    {ROW("stackrestore", STACK, "r"), .refused = of_the_stack},
    {ROW("stacksave", STACK, "wr"), .result = GS_PTX_OF_THREAD, .refused = of_the_stack},
    {ROW("stmatrix", MATRIX, "sr"), .writes = GS_PTX_IN_SHARED, .waits = GS_PTX_WAITS_WARP},
    {ROW("sub", COMPUTE, "wr"), .math = GS_PTX_MATH_SUB},
    {ROW("subc", COMPUTE, "wr"), .result = GS_PTX_OF_THREAD, .math = GS_PTX_MATH_CARRY},
    {ROW("suld", TEXTURE, "wr"), .reads = GS_PTX_IN_GLOBAL, .result = GS_PTX_OF_THREAD},
    {ROW("suq", TEXTURE, "wr")},
    {ROW("sured", TEXTURE, "r"), .reads = GS_PTX_IN_GLOBAL, .writes = GS_PTX_IN_GLOBAL},
    {ROW("sust", TEXTURE, "r"), .writes = GS_PTX_IN_GLOBAL},
    {ROW("szext", COMPUTE, "wr")},
    {ROW("tanh", COMPUTE, "wr")},
    {ROW("tcgen05", TENSOR, "mr"), .reads = GS_PTX_IN_GLOBAL | GS_PTX_IN_SHARED,
     .writes = GS_PTX_IN_GLOBAL | GS_PTX_IN_SHARED, .result = GS_PTX_OF_THREAD, .refused = of_tensors},
    {ROW("tensormap.cp_fenceproxy", TENSOR, "slr"), .reads = GS_PTX_IN_SHARED, .writes = GS_PTX_IN_GLOBAL,
     .refused = of_tensors},
    {ROW("tensormap.replace", TENSOR, "sr"), .writes = GS_PTX_BY_SUFFIX, .refused = of_tensors},
    {ROW("testp", COMPUTE, "wr")},
    {ROW("tex", TEXTURE, "wr"), .reads = GS_PTX_IN_CONST, .result = GS_PTX_OF_THREAD},
    {ROW("tld4", TEXTURE, "wr"), .reads = GS_PTX_IN_CONST, .result = GS_PTX_OF_THREAD},
    {ROW("trap", TRAP, "r")},
    {ROW("txq", TEXTURE, "wr")},
    {ROW("vabsdiff", COMPUTE, "wr")},
    {ROW("vabsdiff2", COMPUTE, "wr")},
    {ROW("vabsdiff4", COMPUTE, "wr")},
    {ROW("vadd", COMPUTE, "wr")},
    {ROW("vadd2", COMPUTE, "wr")},
    {ROW("vadd4", COMPUTE, "wr")},
    {ROW("vavrg2", COMPUTE, "wr")},
    {ROW("vavrg4", COMPUTE, "wr")},
    {ROW("vmad", COMPUTE, "wr")},
    {ROW("vmax", COMPUTE, "wr")},
    {ROW("vmax2", COMPUTE, "wr")},
    {ROW("vmax4", COMPUTE, "wr")},
    {ROW("vmin", COMPUTE, "wr")},
    {ROW("vmin2", COMPUTE, "wr")},
    {ROW("vmin4", COMPUTE, "wr")},
    {ROW("vote", SHUFFLE, "wr"), .result = GS_PTX_OF_THREAD, .refused = without_mask},
    {ROW("vote.sync", SHUFFLE, "wr"), .waits = GS_PTX_WAITS_LANES, .result = GS_PTX_OF_LANES},
    {ROW("vote.sync.ballot", SHUFFLE, "wr"), .waits = GS_PTX_WAITS_LANES, .result = GS_PTX_OF_LANES,
     .math = GS_PTX_MATH_LANES},
    {ROW("vset", COMPUTE, "wr")},
    {ROW("vset2", COMPUTE, "wr")},
    {ROW("vset4", COMPUTE, "wr")},
    {ROW("vshl", COMPUTE, "wr")},
    {ROW("vshr", COMPUTE, "wr")},
    {ROW("vsub", COMPUTE, "wr")},
    {ROW("vsub2", COMPUTE, "wr")},
    {ROW("vsub4", COMPUTE, "wr")},
    {ROW("wgmma.commit_group", WARPGROUP, "r")},
    {ROW("wgmma.fence", WARPGROUP, "r")},
    {ROW("wgmma.mma_async", WARPGROUP, "mr"), .reads = GS_PTX_IN_SHARED, .result = GS_PTX_OF_THREAD},
    {ROW("wgmma.wait_group", WARPGROUP, "r"), .waits = GS_PTX_WAITS_COPIES},
    {ROW("wmma.load", MATRIX, "wlr"), .reads = GS_PTX_BY_SUFFIX, .result = GS_PTX_OF_THREAD,
     .waits = GS_PTX_WAITS_WARP},
    {ROW("wmma.mma", MATRIX, "wr"), .result = GS_PTX_OF_THREAD, .waits = GS_PTX_WAITS_WARP},
    {ROW("wmma.store", MATRIX, "sr"), .writes = GS_PTX_BY_SUFFIX, .waits = GS_PTX_WAITS_WARP},
    {ROW("xor", COMPUTE, "wr"), .math = GS_PTX_MATH_XOR},
};
/* clang-format on */

static const gs_ptx_opcode unknown = {ROW("", UNKNOWN, "mr"), .result = GS_PTX_OF_THREAD,
                                      .refused = "unknown instruction"};

static int compare_opcode(const char *word, size_t length, const char *name) {
    int order = strncmp(word, name, length);
    return order ? order : name[length] ? -1 : 0;
}

static const gs_ptx_opcode *find_opcode(const char *word, size_t length) {
    size_t low = 0, high = GS_COUNT(opcodes);
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare_opcode(word, length, opcodes[middle].name);
        if (!order)
            return &opcodes[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* The row with the longest beginning of the word. */
static const gs_ptx_opcode *find_beginning(const char *word, size_t length) {
    const gs_ptx_opcode *found = NULL;
    while (length && !found) {
        found = find_opcode(word, length);
        while (length && word[--length] != '.')
            ;
    }
    return found;
}

static size_t length_of_part(const char *at, const char *end) {
    const char *dot = memchr(at, '.', (size_t)(end - at));
    return dot ? (size_t)(dot - at) : (size_t)(end - at);
}

/* How many parts a name has, if each of them is among those of the word in whatever order; else 0. */
static size_t count_parts(const char *name, const char *word, size_t length) {
    const char *end = name + strlen(name), *word_end = word + length;
    size_t count = 0;
    for (const char *part = name; part < end; part += length_of_part(part, end) + 1, count++) {
        size_t bytes = length_of_part(part, end);
        const char *other = word;
        while (other < word_end && (length_of_part(other, word_end) != bytes || memcmp(other, part, bytes) != 0))
            other += length_of_part(other, word_end) + 1;
        if (other >= word_end)
            return 0;
    }
    return count;
}

/* The first row whose name begins with the `length` bytes of `word`, or would stand behind them. */
static const gs_ptx_opcode *first_of_family(const char *word, size_t length) {
    size_t low = 0, high = GS_COUNT(opcodes);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strncmp(opcodes[middle].name, word, length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return opcodes + low;
}

uint16_t gs_ptx_opcode_find(const char *word, size_t length) {
    size_t family = length_of_part(word, word + length);
    const gs_ptx_opcode *found = find_beginning(word, length), *row = first_of_family(word, family);
    size_t parts = found ? count_parts(found->name, word, length) : 0;
    for (; family && row < opcodes + GS_COUNT(opcodes) && !strncmp(row->name, word, family); row++) {
        bool is_of_family = row->name[family] == '.' || !row->name[family];
        size_t count = is_of_family ? count_parts(row->name, word, length) : 0;
        if (count > parts) {
            found = row;
            parts = count;
        }
    }
    return found ? (uint16_t)(found - opcodes + 1) : 0;
}

const gs_ptx_opcode *gs_ptx_opcode_at(uint16_t row) {
    return row && row <= GS_COUNT(opcodes) ? &opcodes[row - 1] : &unknown;
}
