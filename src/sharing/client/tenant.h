/*
 * tenant.h: what the daemon and the programs of `gridsmith run` share.
 *
 * A program is a process that uses CUDA by itself, behind the libcuda.so.1 of src/sharing/gate. It says hello as LATENCY or
 * BEST_EFFORT and gets two files of shared memory with the answer:
 *
 *   the board   one for all programs. A latency program marks there when it has work. The streams of best-effort
 *               programs wait until no mark is left. Nobody needs a system call for this, and the GPU reads the marks
 *               by itself.
 *   its page    what the daemon shows of the program. The program writes it, and the daemon checks what it reads.
 *
 * Nobody trusts the board. Marks expire: a best-effort program removes those of a request that takes longer than its
 * limit. The daemon removes those of a program that is gone. When the daemon is gone, the first program that sees it
 * removes all of them and sets `has_ended`; from then on nobody marks or waits.
 */
#ifndef GS_TENANT_H
#define GS_TENANT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

enum {
    GS_BOARD_SLOTS = 32, /* programs of each class at a time; for a latency program a bit in a mark */
    GS_TENANT_TIMES = 208,
    GS_TENANT_KERNELS = 4,
    GS_TENANT_NAME = 512
};

/* A latency program writes its own. */
typedef struct gs_board_slot {
    alignas(64) _Atomic uint64_t since_ns; /* when its request began (CLOCK_MONOTONIC); 0: it has no work */
    _Atomic uint64_t hold_ns;              /* the request may hold others so long */
    _Atomic uint32_t launches;             /* of a request, on average; 0: there was none yet */
} gs_board_slot;

/* A best-effort program writes its own. Used where programs have different weights. */
typedef struct gs_board_share {
    alignas(64) _Atomic uint64_t pass_ns; /* the work that it launched, for its weight */
    _Atomic uint64_t busy_until_ns; /* until then it has work, if it gets no more than its share (CLOCK_MONOTONIC) */
} gs_board_share;

typedef struct gs_board {
    alignas(64) _Atomic uint32_t marks; /* a bit for each latency program: it has work */
    alignas(64) _Atomic uint32_t has_ended;
    alignas(64) _Atomic uint32_t latency, best_effort; /* programs that are connected; written by the daemon */
    _Atomic uint32_t weights, is_weighted; /* of all best-effort programs together, and whether they differ; the same */
    gs_board_slot slots[GS_BOARD_SLOTS];
    gs_board_share shares[GS_BOARD_SLOTS];
} gs_board;

/* A kernel of a best-effort program that takes longer than the work between two of its waits. */
typedef struct gs_tenant_kernel {
    _Atomic uint64_t ns;       /* 0: none */
    char name[GS_TENANT_NAME]; /* written while `ns` is 0; may be cut off */
} gs_tenant_kernel;

typedef struct gs_tenant_page {
    uint32_t slot; /* on the board, among those of its class; written by the daemon before it sends the page */
    alignas(64) _Atomic uint64_t launches, graphs, copies;
    _Atomic uint64_t waits;        /* put into streams by a best-effort program */
    _Atomic uint64_t work_ns;      /* how long what it launched takes, as far as it is known */
    _Atomic uint64_t memory_bytes; /* allocated, where there is a limit */
    _Atomic uint64_t memory_limit; /* 0: none */
    _Atomic uint64_t is_ungated;   /* it does not wait: its streams cannot */
    _Atomic uint64_t longest_ns;   /* of its kernels, the longest known */
    _Atomic uint64_t share_waits;  /* launches that waited until others had their shares */
    _Atomic uint64_t slice_us;     /* time slices of the GPU that were set for it; 0: the driver's */
    gs_tenant_kernel kernels[GS_TENANT_KERNELS];
    alignas(64) _Atomic uint64_t requests;
    _Atomic uint64_t announced;                      /* requests that were announced */
    _Atomic uint64_t request_ns;                     /* of all requests together */
    _Atomic uint32_t request_times[GS_TENANT_TIMES]; /* see gs_tenant_bucket */
} gs_tenant_page;

/* Eight buckets for each power of two, from 1 us on. */
static inline unsigned gs_tenant_bucket(uint64_t ns) {
    enum { LEAST_BITS = 10, PARTS_BITS = 3 };
    unsigned bits = 63 - (unsigned)__builtin_clzll(ns | 1);
    if (bits < LEAST_BITS)
        return 0;
    unsigned bucket = ((bits - LEAST_BITS) << PARTS_BITS) + (unsigned)(ns >> (bits - PARTS_BITS) & 7);
    return bucket < GS_TENANT_TIMES ? bucket : GS_TENANT_TIMES - 1;
}

/* The longest time that falls into a bucket. */
static inline uint64_t gs_tenant_bucket_ns(unsigned bucket) {
    enum { LEAST_BITS = 10, PARTS_BITS = 3 };
    unsigned bits = LEAST_BITS + (bucket >> PARTS_BITS);
    return ((uint64_t)1 << bits) + (((uint64_t)(bucket & 7) + 1) << (bits - PARTS_BITS)) - 1;
}

static inline void gs_board_mark(gs_board *board, uint32_t bit) {
    atomic_fetch_or(&board->marks, bit);
}

static inline void gs_board_unmark(gs_board *board, uint32_t bit) {
    atomic_fetch_and(&board->marks, ~bit);
}

#endif
