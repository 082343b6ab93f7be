/*
 * gate_mark.c: the board as the GPU sees it: mapped, its flags waited for in streams of best-effort programs, and
 * numbers written there.
 */
#include "gate.h"

#include <pthread.h>

enum { REGISTER_PORTABLE = 1, REGISTER_MAPPED = 2, WAIT_EQUAL = 1 };

static struct marks {
    pthread_mutex_t lock;
    _Atomic gs_gate_pointer flags; /* on the device; 0: not mapped yet */
    _Atomic bool is_broken;        /* streams cannot wait */
} marks = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void break_waits(const char *what, int code) {
    marks.is_broken = true;
    if (gs_gate_state.class != GS_GATE_BEST_EFFORT)
        return;
    atomic_store(&gs_gate_state.page->is_ungated, 1);
    gs_gate_say("%s failed with CUDA error %d: launches will not wait for latency programs", what, code);
}

/* The device address of the board's flags. */
static gs_gate_pointer find_marks(void) {
    gs_board *board = gs_gate_state.board;
    gs_gate_pointer flags = 0;
    if (!gs_gate_real.cuStreamWaitValue32_v2 || !gs_gate_real.cuMemHostRegister_v2) {
        break_waits("finding cuStreamWaitValue32", GS_CUDA_NOT_FOUND);
        return 0;
    }
    int mode = gs_gate_relax();
    int code = gs_gate_real.cuMemHostRegister_v2(board, sizeof *board, REGISTER_PORTABLE | REGISTER_MAPPED);
    if (code == GS_CUDA_OK)
        code = gs_gate_real.cuMemHostGetDevicePointer_v2(&flags, &board->flags, 0);
    gs_gate_respect(mode);
    if (code != GS_CUDA_OK)
        break_waits("mapping the board", code);
    return code == GS_CUDA_OK ? flags : 0;
}

gs_gate_pointer gs_gate_mark_find(bool may_map) {
    if (marks.flags || !may_map)
        return marks.flags;
    pthread_mutex_lock(&marks.lock);
    if (!marks.flags && !marks.is_broken)
        marks.flags = find_marks();
    pthread_mutex_unlock(&marks.lock);
    return marks.flags;
}

bool gs_gate_mark_is_broken(void) {
    return marks.is_broken;
}

void gs_gate_mark_wait(void *stream) {
    int code = gs_gate_real.cuStreamWaitValue32_v2(stream, marks.flags, 0, WAIT_EQUAL);
    if (code == GS_CUDA_OK)
        gs_gate_count(&gs_gate_state.page->waits, 1);
    else if (!marks.is_broken)
        break_waits("cuStreamWaitValue32", code);
}

bool gs_gate_mark_write(void *stream, const _Atomic uint32_t *to, uint32_t number) {
    size_t offset = (size_t)((const char *)to - (const char *)&gs_gate_state.board->flags);
    return marks.flags && gs_gate_real.cuStreamWriteValue32_v2 &&
           gs_gate_real.cuStreamWriteValue32_v2(stream, marks.flags + offset, number, 0) == GS_CUDA_OK;
}
