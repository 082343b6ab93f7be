/*
 * gate_share.c: which of several best-effort programs may launch. See gate_share.h.
 *
 * The data of others on the board is not trusted: the caller waits for a limited time.
 */
#include "gate_share.h"

enum {
    AHEAD_NS = 2000000, /* a program with weight 100 may be this far ahead of others */
    USUAL_WEIGHT = 100
};

static uint64_t read_ns(const _Atomic uint64_t *ns) {
    return atomic_load_explicit(ns, memory_order_relaxed);
}

/* The least pass of the other programs that have work; `none` if there is none. */
static uint64_t least_pass(const gs_gate_share *share, uint64_t now_ns, uint64_t none) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < GS_BOARD_SLOTS; i++) {
        const gs_board_share *other = &share->board->shares[i];
        if (i != share->slot && read_ns(&other->busy_until_ns) > now_ns && read_ns(&other->pass_ns) < least)
            least = read_ns(&other->pass_ns);
    }
    return least == UINT64_MAX ? none : least;
}

void gs_share_charge(const gs_gate_share *share, uint64_t work_ns, uint64_t now_ns) {
    gs_board_share *own = &share->board->shares[share->slot];
    uint64_t pass = read_ns(&own->pass_ns), busy_until = read_ns(&own->busy_until_ns);
    uint64_t weights = atomic_load_explicit(&share->board->weights, memory_order_relaxed);
    if (busy_until < now_ns) { /* it was idle: idle time earns no credit */
        uint64_t least = least_pass(share, now_ns, pass);
        pass = pass < least ? least : pass;
        busy_until = now_ns;
    }
    atomic_store_explicit(&own->pass_ns, pass + work_ns * USUAL_WEIGHT / share->weight, memory_order_relaxed);
    atomic_store_explicit(&own->busy_until_ns,
                          busy_until + work_ns * (weights ? weights : share->weight) / share->weight,
                          memory_order_relaxed);
}

bool gs_share_is_ahead(const gs_gate_share *share, uint64_t now_ns) {
    uint64_t pass = read_ns(&share->board->shares[share->slot].pass_ns);
    uint64_t least = least_pass(share, now_ns, pass);
    return pass > least && pass - least > AHEAD_NS;
}
