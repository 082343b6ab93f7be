/*
 * gate_marks.c: puts a wait for the board's marks into a stream.
 *
 * The GPU looks ahead: it looks at the word of a plain cuStreamWaitValue32 while the kernel before it still runs, and
 * then starts the next kernel although a mark has come meanwhile. So the wait must itself wait for that kernel. Two
 * ways:
 *
 *   ordered   a write behind the kernel, a wait for that write, and then the wait for the marks
 *   kernel    a kernel of one thread that reads the marks until there is none; under MPS only, because without it
 *             a kernel that waits keeps the GPU from the processes that it waits for
 */
#include "gate.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    REGISTER_PORTABLE = 1,
    REGISTER_MAPPED = 2,
    WAIT_AT_LEAST = 0,
    WAIT_EQUAL = 1,
    WAIT_VALUE = 1, /* operations */
    WRITE_VALUE = 2,
    WORDS = 1 << 16,
    MPS_ENABLED = 133 /* CU_DEVICE_ATTRIBUTE_MPS_ENABLED */
};

static const uint64_t most_spin_ns = 10000000000;

static const char gate_kernel[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                                  ".visible .entry gridsmith_gate(.param .u64 marks, .param .u64 most) {\n"
                                  "    .reg .u32 %r;\n    .reg .u64 %a, %m, %s, %n;\n    .reg .pred %p;\n"
                                  "    ld.param.u64 %a, [marks];\n    ld.param.u64 %m, [most];\n"
                                  "    mov.u64 %s, %globaltimer;\n"
                                  "look:\n    ld.volatile.global.u32 %r, [%a];\n    setp.eq.u32 %p, %r, 0;\n"
                                  "    @%p bra done;\n    nanosleep.u32 500;\n    mov.u64 %n, %globaltimer;\n"
                                  "    sub.u64 %n, %n, %s;\n    setp.lt.u64 %p, %n, %m;\n    @%p bra look;\n"
                                  "done:\n    ret;\n}\n";

/* CUstreamBatchMemOpParams */
struct operation {
    int operation;
    gs_gate_pointer address;
    uint64_t value;
    unsigned flags;
    gs_gate_pointer alias;
    uint64_t padding;
};

static struct marks {
    enum { NOT_OPEN, PLAIN, ORDERED, KERNEL } way;
    gs_gate_pointer marks; /* on the device */
    gs_gate_pointer words; /* for the writes behind kernels */
    void *kernel;
    _Atomic uint32_t number; /* of writes */
} marks;

static int map_board(void) {
    gs_board *board = gs_gate_state.board;
    if (!gs_gate_real.cuStreamWaitValue32_v2 || !gs_gate_real.cuMemHostRegister_v2)
        return GS_CUDA_NOT_FOUND;
    int code = gs_gate_real.cuMemHostRegister_v2(board, sizeof *board, REGISTER_PORTABLE | REGISTER_MAPPED);
    return code ? code : gs_gate_real.cuMemHostGetDevicePointer_v2(&marks.marks, board->marks, 0);
}

static bool has_mps(void) {
    int device = 0, is_on = 0;
    return gs_gate_real.cuCtxGetDevice && gs_gate_real.cuDeviceGetAttribute &&
           gs_gate_real.cuCtxGetDevice(&device) == GS_CUDA_OK &&
           gs_gate_real.cuDeviceGetAttribute(&is_on, MPS_ENABLED, device) == GS_CUDA_OK && is_on;
}

static bool load_kernel(void) {
    void *library = NULL;
    return gs_gate_real.cuLibraryLoadData && gs_gate_real.cuLibraryGetKernel &&
           gs_gate_real.cuLibraryLoadData(&library, gate_kernel, NULL, NULL, 0, NULL, NULL, 0) == GS_CUDA_OK &&
           gs_gate_real.cuLibraryGetKernel(&marks.kernel, library, "gridsmith_gate") == GS_CUDA_OK;
}

static bool make_words(void) {
    return gs_gate_real.cuStreamBatchMemOp_v2 && gs_gate_real.cuMemsetD32_v2 &&
           gs_gate_real.cuMemAlloc_v2(&marks.words, WORDS * sizeof(uint32_t)) == GS_CUDA_OK &&
           gs_gate_real.cuMemsetD32_v2(marks.words, 0, WORDS) == GS_CUDA_OK;
}

int gs_gate_marks_open(void) {
    const char *wanted = getenv("GRIDSMITH_WAITS");
    int code = marks.way ? GS_CUDA_OK : map_board();
    if (code != GS_CUDA_OK || marks.way)
        return code;
    bool may_spin = wanted ? strcmp(wanted, "kernel") == 0 : has_mps();
    if (may_spin && load_kernel())
        marks.way = KERNEL;
    else if ((!wanted || strcmp(wanted, "plain") != 0) && make_words())
        marks.way = ORDERED;
    else
        marks.way = PLAIN;
    return GS_CUDA_OK;
}

bool gs_gate_marks_are_open(void) {
    return marks.way != NOT_OPEN;
}

static int wait_in_order(void *stream, gs_gate_pointer word) {
    uint32_t number = atomic_fetch_add_explicit(&marks.number, 1, memory_order_relaxed) + 1;
    gs_gate_pointer own = marks.words + number % WORDS * sizeof(uint32_t);
    struct operation operations[] = {{.operation = WRITE_VALUE, .address = own, .value = number},
                                     {.operation = WAIT_VALUE, .address = own, .value = number, .flags = WAIT_EQUAL},
                                     {.operation = WAIT_VALUE, .address = word, .value = 0, .flags = WAIT_EQUAL}};
    return gs_gate_real.cuStreamBatchMemOp_v2(stream, 3, operations, 0);
}

static int wait_by_kernel(void *stream, gs_gate_pointer word) {
    uint64_t most = most_spin_ns;
    void *values[] = {&word, &most};
    return gs_gate_real.cuLaunchKernel(marks.kernel, 1, 1, 1, 1, 1, 1, 0, stream, values, NULL);
}

int gs_gate_marks_wait(void *stream, uint32_t level) {
    gs_gate_pointer word = marks.marks + level * sizeof(uint32_t);
    return marks.way == KERNEL    ? wait_by_kernel(stream, word)
           : marks.way == ORDERED ? wait_in_order(stream, word)
                                  : gs_gate_real.cuStreamWaitValue32_v2(stream, word, 0, WAIT_EQUAL);
}
