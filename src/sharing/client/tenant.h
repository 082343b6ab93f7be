/*
 * tenant.h: what the daemon and the programs of `gridsmith run` share.
 *
 * A program is a process that uses CUDA directly, through the libcuda.so.1 of src/sharing/gate. It says hello as
 * LATENCY or BEST_EFFORT and gets three files of shared memory with the answer:
 *
 *   the board   one for all programs of a GPU. A latency program sets its flag there while it has work. The streams of
 *               best-effort programs wait until no flag is set. This needs no system call, and the GPU reads the flags
 *               itself.
 *   its page    the program's part of the status. The program writes it, and the daemon checks what it reads.
 *   the notice  one for all programs of a GPU: what the daemon says. It is sealed: programs can only read it.
 *
 * The board is not trusted: any program can write anything there. Flags expire: a best-effort program clears the flag
 * of a request that exceeds its limit, which the notice limits, and flags that belong to no connected program. The
 * daemon clears those too when a program has ended. When the daemon has ended, each program finds out by itself: it
 * clears all flags, and from then on sets no flag and does not wait.
 */
#ifndef GS_TENANT_H
#define GS_TENANT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

enum {
    GS_BOARD_SLOTS = 32, /* programs of each class at a time; a latency program has one bit of the flags */
    GS_SHARE_LANES =
        4, /* streams of a best-effort program whose progress others see; more of them have one in common */
    GS_TENANT_TIMES = 832,
    GS_TENANT_WINDOWS = 2, /* of recent requests: the older one is cleared when the other ends, which it does */
    GS_TENANT_WINDOW_REQUESTS = 1000, /* after this number, */
    GS_TENANT_WINDOW_S = 30,          /* or at the first request after so long */
    GS_TENANT_LATE_NS = 150000,       /* without MPS a request waits about so long for the GPU */
    GS_TENANT_MOST_LATE = 1, /* percent of its work that may hold up requests for longer: p99 is what is promised */
    GS_TENANT_ALONE = 64,    /* the last requests alone: others beside work are compared with them */
    GS_TENANT_EAGER = 16,    /* launches of a request that has many */
    GS_TENANT_EAGER_PERCENT = 50, /* of the recent requests of a program that has such requests, or streams of them */
    GS_TENANT_KERNELS = 4,
    GS_TENANT_NAME = 512,
    GS_TENANT_REASON = 128
};

/* Only the latency program of this slot should write it. */
typedef struct gs_board_slot {
    alignas(64) _Atomic uint64_t since_ns; /* begin of its request (CLOCK_MONOTONIC); 0: it has no work */
    _Atomic uint64_t hold_ns;              /* how long the request may hold others */
} gs_board_slot;

/* Only the best-effort program of this slot, and the GPU for it, should write this. Used while there are several. Times
   are of CLOCK_MONOTONIC. */
typedef struct gs_board_share {
    alignas(64) _Atomic uint64_t pass_ns;  /* the work that it launched, divided by its weight */
    _Atomic uint64_t busy_until_ns;        /* when launches that no number follows are done, by an estimate */
    _Atomic uint64_t waits_until_ns;       /* a launch waits for the shares of others */
    _Atomic uint64_t quiet_until_ns;       /* others should launch nothing: the program times its kernels */
    _Atomic uint64_t expires_ns;           /* after this it has no work, whatever the numbers say */
    _Atomic uint32_t sent[GS_SHARE_LANES]; /* the last number put into a stream behind launches: its pass then, */
    _Atomic uint32_t done[GS_SHARE_LANES]; /* and the last that the GPU has written. See gate_share.h. */
    _Atomic uint64_t works_until_ns; /* it has launched something not long before this, or it is not done, while there
                                        are latency programs */
    _Atomic uint64_t lost_ns; /* what a request loses on average under MPS if it begins while this program has work */
} gs_board_share;

typedef struct gs_board {
    alignas(64) _Atomic uint32_t flags; /* one bit per latency program: it has work */
    _Atomic uint32_t requests;          /* how often a bit was set */
    gs_board_slot slots[GS_BOARD_SLOTS];
    gs_board_share shares[GS_BOARD_SLOTS];
} gs_board;

typedef struct gs_notice {
    _Atomic uint32_t latency, best_effort;    /* connected programs, */
    _Atomic uint32_t sliced;                  /* and those of the latter that do not use MPS */
    _Atomic uint32_t weights;                 /* of best-effort programs: their sum */
    _Atomic uint32_t slots, shares;           /* those of the board that belong to connected programs: a bit each */
    _Atomic uint64_t hold_ns[GS_BOARD_SLOTS]; /* the longest that a request of each slot may hold others */
} gs_notice;

/* A kernel of a best-effort program that takes longer than the allowed work between two waits. */
typedef struct gs_tenant_kernel {
    _Atomic uint64_t ns;           /* 0: none */
    char name[GS_TENANT_NAME];     /* written while `ns` is 0; may be cut off */
    char reason[GS_TENANT_REASON]; /* why it cannot be stopped, or "" */
} gs_tenant_kernel;

typedef struct gs_tenant_page {
    uint32_t slot; /* on the board, among those of its class; written by the daemon before it sends the page */
    char why[GS_TENANT_REASON]; /* it shares the GPU by MPS, or by time slices; "": not known */
    alignas(64) _Atomic uint64_t launches, graphs, copies;
    _Atomic uint64_t waits;        /* that a best-effort program put into its streams */
    _Atomic uint64_t work_ns;      /* duration of its launches, as far as it is known */
    _Atomic uint64_t late_ns;      /* the part of it in which a request would wait for longer than GS_TENANT_LATE_NS */
    _Atomic uint64_t memory_bytes; /* allocated, if there is a limit */
    _Atomic uint64_t memory_limit; /* 0: none */
    _Atomic uint64_t is_ungated;   /* it does not wait, because its streams cannot */
    _Atomic uint64_t longest_ns;   /* its longest known kernel, */
    _Atomic uint64_t stop_ns;      /* and the longest time until one has ended or stopped, under MPS */
    _Atomic uint64_t share_waits;  /* launches that waited for the shares of others, or for its cap */
    _Atomic uint64_t memory_waits; /* calls that map memory or give it back, which waited for a request */
    _Atomic uint64_t slice_us;     /* its time slice on the GPU; 0: the driver's */
    _Atomic uint64_t guarded;      /* launches of long kernels that can be stopped */
    _Atomic uint64_t guarded_kernels;   /* long kernels that were launched so, */
    _Atomic uint64_t unguarded_kernels; /* and that were not */
    gs_tenant_kernel kernels[GS_TENANT_KERNELS];
    alignas(64) _Atomic uint64_t requests;
    _Atomic uint64_t announced;      /* requests that were announced */
    _Atomic uint64_t held;           /* gaps behind requests over which others were held */
    _Atomic uint64_t keepers;        /* kernels that kept the GPU for the program, without MPS */
    _Atomic uint64_t eager_permille; /* of the recent requests: those of many launches, or in a stream of requests */
    _Atomic uint64_t request_ns;     /* sum over all requests */
    _Atomic uint32_t request_times[GS_TENANT_TIMES]; /* see gs_tenant_bucket, */
    _Atomic uint32_t beside_times[GS_TENANT_TIMES];  /* and of those while a best-effort program worked */
    _Atomic uint64_t alone;                          /* the others, and how long the last of them took */
    _Atomic uint64_t alone_ns[GS_TENANT_ALONE];
    _Atomic uint32_t recent_times[GS_TENANT_WINDOWS][GS_TENANT_TIMES];
} gs_tenant_page;

/* 32 buckets for each power of two, from 1 us on. */
static inline unsigned gs_tenant_bucket(uint64_t ns) {
    enum { LEAST_BITS = 10, PARTS_BITS = 5, PARTS = 1 << PARTS_BITS };
    unsigned bits = 63 - (unsigned)__builtin_clzll(ns | 1);
    if (bits < LEAST_BITS)
        return 0;
    unsigned bucket = ((bits - LEAST_BITS) << PARTS_BITS) + (unsigned)(ns >> (bits - PARTS_BITS) & (PARTS - 1));
    return bucket < GS_TENANT_TIMES ? bucket : GS_TENANT_TIMES - 1;
}

/* The longest time that falls into a bucket. */
static inline uint64_t gs_tenant_bucket_ns(unsigned bucket) {
    enum { LEAST_BITS = 10, PARTS_BITS = 5, PARTS = 1 << PARTS_BITS };
    unsigned bits = LEAST_BITS + (bucket >> PARTS_BITS);
    return ((uint64_t)1 << bits) + (((uint64_t)(bucket & (PARTS - 1)) + 1) << (bits - PARTS_BITS)) - 1;
}

static inline void gs_board_raise(gs_board *board, uint32_t bit) {
    if (!(atomic_fetch_or(&board->flags, bit) & bit))
        atomic_fetch_add_explicit(&board->requests, 1, memory_order_relaxed);
}

static inline void gs_board_lower(gs_board *board, uint32_t bit) {
    atomic_fetch_and(&board->flags, ~bit);
}

#endif
