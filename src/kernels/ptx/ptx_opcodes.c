/*
 * ptx_opcodes.c: the table of instructions. See ptx.h.
 *
 * The table is sorted by name. An opcode is looked up with all its suffixes, then with one less, and so on: "bar.warp"
 * is found before "bar". Most instructions write their first operand and read the others; if the first is an address,
 * the registers in it are read.
 */
#include "ptx.h"

#include <stdlib.h>

static const gs_ptx_opcode opcodes[] = {
    {"abs", GS_PTX_COMPUTE, "wr"},
    {"activemask", GS_PTX_COMPUTE, "wr"},
    {"add", GS_PTX_COMPUTE, "wr"},
    {"addc", GS_PTX_COMPUTE, "wr"},
    {"alloca", GS_PTX_STACK, "wr"},
    {"and", GS_PTX_COMPUTE, "wr"},
    {"applypriority", GS_PTX_MISC, "r"},
    {"atom", GS_PTX_ATOMIC, "wr"},
    {"bar", GS_PTX_BARRIER, "r"},
    {"bar.cta.red", GS_PTX_BARRIER, "wr"},
    {"bar.red", GS_PTX_BARRIER, "wr"},
    {"bar.warp", GS_PTX_BARRIER_WARP, "r"},
    {"barrier", GS_PTX_BARRIER, "r"},
    {"barrier.cluster", GS_PTX_BARRIER_CLUSTER, "r"},
    {"barrier.cta.red", GS_PTX_BARRIER, "wr"},
    {"barrier.red", GS_PTX_BARRIER, "wr"},
    {"bfe", GS_PTX_COMPUTE, "wr"},
    {"bfi", GS_PTX_COMPUTE, "wr"},
    {"bfind", GS_PTX_COMPUTE, "wr"},
    {"bmsk", GS_PTX_COMPUTE, "wr"},
    {"bra", GS_PTX_BRANCH, "r"},
    {"brev", GS_PTX_COMPUTE, "wr"},
    {"brkpt", GS_PTX_TRAP, "r"},
    {"brx", GS_PTX_BRANCH_TABLE, "r"},
    {"call", GS_PTX_CALL, "r"},
    {"clusterlaunchcontrol", GS_PTX_CLUSTER, "wr"},
    {"clz", GS_PTX_COMPUTE, "wr"},
    {"cnot", GS_PTX_COMPUTE, "wr"},
    {"copysign", GS_PTX_COMPUTE, "wr"},
    {"cos", GS_PTX_COMPUTE, "wr"},
    {"cp.async", GS_PTX_ASYNC_COPY, "r"},
    {"cp.async.bulk", GS_PTX_BULK_COPY, "r"},
    {"cp.async.mbarrier", GS_PTX_MBARRIER, "r"},
    {"cp.reduce.async.bulk", GS_PTX_BULK_COPY, "r"},
    {"createpolicy", GS_PTX_COMPUTE, "wr"},
    {"cvt", GS_PTX_COMPUTE, "wr"},
    {"cvta", GS_PTX_COMPUTE, "wr"},
    {"discard", GS_PTX_MISC, "r"},
    {"div", GS_PTX_COMPUTE, "wr"},
    {"dp2a", GS_PTX_COMPUTE, "wr"},
    {"dp4a", GS_PTX_COMPUTE, "wr"},
    {"elect", GS_PTX_SHUFFLE, "wr"},
    {"ex2", GS_PTX_COMPUTE, "wr"},
    {"exit", GS_PTX_EXIT, "r"},
    {"fence", GS_PTX_FENCE, "r"},
    {"fma", GS_PTX_COMPUTE, "wr"},
    {"fns", GS_PTX_COMPUTE, "wr"},
    {"getctarank", GS_PTX_CLUSTER, "wr"},
    {"griddepcontrol", GS_PTX_DEPENDENT, "r"},
    {"isspacep", GS_PTX_COMPUTE, "wr"},
    {"istypep", GS_PTX_TEXTURE, "wr"},
    {"ld", GS_PTX_LOAD, "wr"},
    {"ldmatrix", GS_PTX_MATRIX, "wr"},
    {"ldu", GS_PTX_LOAD, "wr"},
    {"lg2", GS_PTX_COMPUTE, "wr"},
    {"lop3", GS_PTX_COMPUTE, "wr"},
    {"mad", GS_PTX_COMPUTE, "wr"},
    {"mad24", GS_PTX_COMPUTE, "wr"},
    {"madc", GS_PTX_COMPUTE, "wr"},
    {"mapa", GS_PTX_CLUSTER, "wr"},
    {"match", GS_PTX_SHUFFLE, "wr"},
    {"max", GS_PTX_COMPUTE, "wr"},
    {"mbarrier", GS_PTX_MBARRIER, "wr"},
    {"membar", GS_PTX_FENCE, "r"},
    {"min", GS_PTX_COMPUTE, "wr"},
    {"mma", GS_PTX_MATRIX, "wr"},
    {"mov", GS_PTX_COMPUTE, "wr"},
    {"movmatrix", GS_PTX_MATRIX, "wr"},
    {"mul", GS_PTX_COMPUTE, "wr"},
    {"mul24", GS_PTX_COMPUTE, "wr"},
    {"multimem.ld_reduce", GS_PTX_ATOMIC, "wr"},
    {"multimem.red", GS_PTX_ATOMIC, "r"},
    {"multimem.st", GS_PTX_STORE, "r"},
    {"nanosleep", GS_PTX_MISC, "r"},
    {"neg", GS_PTX_COMPUTE, "wr"},
    {"not", GS_PTX_COMPUTE, "wr"},
    {"or", GS_PTX_COMPUTE, "wr"},
    {"pmevent", GS_PTX_MISC, "r"},
    {"popc", GS_PTX_COMPUTE, "wr"},
    {"prefetch", GS_PTX_MISC, "r"},
    {"prefetchu", GS_PTX_MISC, "r"},
    {"prmt", GS_PTX_COMPUTE, "wr"},
    {"rcp", GS_PTX_COMPUTE, "wr"},
    {"red", GS_PTX_ATOMIC, "r"},
    {"red.async", GS_PTX_BULK_COPY, "r"},
    {"redux", GS_PTX_SHUFFLE, "wr"},
    {"rem", GS_PTX_COMPUTE, "wr"},
    {"ret", GS_PTX_RETURN, "r"},
    {"rsqrt", GS_PTX_COMPUTE, "wr"},
    {"sad", GS_PTX_COMPUTE, "wr"},
    {"selp", GS_PTX_COMPUTE, "wr"},
    {"set", GS_PTX_COMPUTE, "wr"},
    {"setmaxnreg", GS_PTX_REGISTERS, "r"},
    {"setp", GS_PTX_COMPUTE, "wr"},
    {"shf", GS_PTX_COMPUTE, "wr"},
    {"shfl", GS_PTX_SHUFFLE, "wr"},
    {"shl", GS_PTX_COMPUTE, "wr"},
    {"shr", GS_PTX_COMPUTE, "wr"},
    {"sin", GS_PTX_COMPUTE, "wr"},
    {"slct", GS_PTX_COMPUTE, "wr"},
    {"sqrt", GS_PTX_COMPUTE, "wr"},
    {"st", GS_PTX_STORE, "r"},
    {"st.async", GS_PTX_BULK_COPY, "r"},
    {"st.bulk", GS_PTX_BULK_COPY, "r"},
    {"stackrestore", GS_PTX_STACK, "r"},
    {"stacksave", GS_PTX_STACK, "wr"},
    {"stmatrix", GS_PTX_MATRIX, "r"},
    {"sub", GS_PTX_COMPUTE, "wr"},
    {"subc", GS_PTX_COMPUTE, "wr"},
    {"suld", GS_PTX_TEXTURE, "wr"},
    {"suq", GS_PTX_TEXTURE, "wr"},
    {"sured", GS_PTX_TEXTURE, "r"},
    {"sust", GS_PTX_TEXTURE, "r"},
    {"szext", GS_PTX_COMPUTE, "wr"},
    {"tanh", GS_PTX_COMPUTE, "wr"},
    {"tcgen05", GS_PTX_TENSOR, "mr"},
    {"tensormap", GS_PTX_TENSOR, "mr"},
    {"testp", GS_PTX_COMPUTE, "wr"},
    {"tex", GS_PTX_TEXTURE, "wr"},
    {"tld4", GS_PTX_TEXTURE, "wr"},
    {"trap", GS_PTX_TRAP, "r"},
    {"txq", GS_PTX_TEXTURE, "wr"},
    {"vabsdiff", GS_PTX_COMPUTE, "wr"},
    {"vabsdiff2", GS_PTX_COMPUTE, "wr"},
    {"vabsdiff4", GS_PTX_COMPUTE, "wr"},
    {"vadd", GS_PTX_COMPUTE, "wr"},
    {"vadd2", GS_PTX_COMPUTE, "wr"},
    {"vadd4", GS_PTX_COMPUTE, "wr"},
    {"vavrg2", GS_PTX_COMPUTE, "wr"},
    {"vavrg4", GS_PTX_COMPUTE, "wr"},
    {"vmad", GS_PTX_COMPUTE, "wr"},
    {"vmax", GS_PTX_COMPUTE, "wr"},
    {"vmax2", GS_PTX_COMPUTE, "wr"},
    {"vmax4", GS_PTX_COMPUTE, "wr"},
    {"vmin", GS_PTX_COMPUTE, "wr"},
    {"vmin2", GS_PTX_COMPUTE, "wr"},
    {"vmin4", GS_PTX_COMPUTE, "wr"},
    {"vote", GS_PTX_SHUFFLE, "wr"},
    {"vset", GS_PTX_COMPUTE, "wr"},
    {"vset2", GS_PTX_COMPUTE, "wr"},
    {"vset4", GS_PTX_COMPUTE, "wr"},
    {"vshl", GS_PTX_COMPUTE, "wr"},
    {"vshr", GS_PTX_COMPUTE, "wr"},
    {"vsub", GS_PTX_COMPUTE, "wr"},
    {"vsub2", GS_PTX_COMPUTE, "wr"},
    {"vsub4", GS_PTX_COMPUTE, "wr"},
    {"wgmma", GS_PTX_WARPGROUP, "mr"},
    {"wgmma.commit_group", GS_PTX_WARPGROUP, "r"},
    {"wgmma.fence", GS_PTX_WARPGROUP, "r"},
    {"wgmma.wait_group", GS_PTX_WARPGROUP, "r"},
    {"wmma", GS_PTX_MATRIX, "wr"},
    {"wmma.store", GS_PTX_MATRIX, "r"},
    {"xor", GS_PTX_COMPUTE, "wr"},
};

static const gs_ptx_opcode unknown = {"", GS_PTX_UNKNOWN, "mr"};

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

const gs_ptx_opcode *gs_ptx_opcode_find(const char *word, size_t length) {
    while (length) {
        const gs_ptx_opcode *found = find_opcode(word, length);
        if (found)
            return found;
        while (length && word[--length] != '.')
            ;
    }
    return &unknown;
}
