/*
 * gate_copy.c: big copies of a best-effort program, in pieces with waits between them.
 *
 * A copy engine does one copy after the other: a copy of 256 MB from the host takes 5 ms, and the small one of a
 * request stands behind it. A piece takes about as long as the work between two waits. Copies of memory that is not
 * pinned are left to the driver, which puts them through buffers of its own.
 */
#include "gate.h"

static const uint64_t HOST_BYTES_PER_US = 50000, DEVICE_BYTES_PER_US = 1000000;

/* The kind of memory; 0: not known, or not pinned. */
static unsigned kind_of(uint64_t address) {
    enum { MEMORY_TYPE = 2 };
    unsigned kind = 0;
    return gs_gate_real.cuPointerGetAttribute(&kind, MEMORY_TYPE, address) == GS_CUDA_OK ? kind : 0;
}

size_t gs_gate_copy_piece(uint64_t to, uint64_t from, size_t bytes) {
    enum { HOST = 1, DEVICE = 2, ALIGN = 4096 };
    uint64_t ahead_us = (uint64_t)gs_gate_state.ahead_ns / 1000;
    if (bytes <= HOST_BYTES_PER_US * ahead_us || !gs_gate_real.cuPointerGetAttribute)
        return 0;
    unsigned kinds[2] = {kind_of(to), kind_of(from)};
    for (int i = 0; i < 2; i++)
        if (kinds[i] != HOST && kinds[i] != DEVICE)
            return 0;
    bool is_of_host = kinds[0] == HOST || kinds[1] == HOST;
    uint64_t piece = (is_of_host ? HOST_BYTES_PER_US : DEVICE_BYTES_PER_US) * ahead_us / ALIGN * ALIGN;
    return piece < bytes ? piece : 0;
}
