/*
 * gate_share.c: when a best-effort program may launch. See gate_share.h.
 *
 * The data of others on the board is not trusted: the caller waits for a limited time, and then the program is no
 * longer ahead, however far it was. Slots of no connected program do not count.
 */
#include "gate_share.h"

enum {
    AHEAD_NS = 2000000,        /* a program with weight 100 may be this far ahead of others, or of its cap */
    MOST_BUSY_NS = 1000000000, /* how long others may wait for a program that launches nothing more */
    LOOK_NS = 10000000,        /* a program that waits looks again before that, also on a busy machine */
    USUAL_WEIGHT = 100
};

static uint64_t read_ns(const _Atomic uint64_t *ns) {
    return atomic_load_explicit(ns, memory_order_relaxed);
}

/* The least pass of the other programs that have work; `none` if there is none. */
static uint64_t least_pass(const gs_gate_share *share, uint64_t now_ns, uint64_t none) {
    uint64_t least = UINT64_MAX;
    uint32_t shares =
        atomic_load_explicit(&share->notice->shares, memory_order_relaxed) & ~((uint32_t)1 << share->slot);
    for (uint32_t i = 0; i < GS_BOARD_SLOTS; i++) {
        const gs_board_share *other = &share->board->shares[i];
        if (shares >> i & 1 && read_ns(&other->busy_until_ns) > now_ns && read_ns(&other->pass_ns) < least)
            least = read_ns(&other->pass_ns);
    }
    return least == UINT64_MAX ? none : least;
}

void gs_share_publish(const gs_gate_share *share) {
    gs_board_share *own = &share->board->shares[share->slot];
    atomic_store_explicit(&own->pass_ns, share->pass_ns, memory_order_relaxed);
    atomic_store_explicit(&own->busy_until_ns, share->busy_until_ns, memory_order_relaxed);
}

/* How long some work keeps the GPU busy: if others have work, too, the program gets only its share. */
static uint64_t stretch(const gs_gate_share *share, uint64_t work_ns, uint64_t now_ns) {
    uint64_t weights = atomic_load_explicit(&share->notice->weights, memory_order_relaxed);
    bool is_alone = least_pass(share, now_ns, UINT64_MAX) == UINT64_MAX;
    return is_alone || !weights ? work_ns : work_ns * weights / share->weight;
}

void gs_share_charge(gs_gate_share *share, uint64_t work_ns, uint64_t now_ns) {
    if (share->busy_until_ns < now_ns) { /* it was idle: idle time earns no credit */
        uint64_t least = least_pass(share, now_ns, share->pass_ns);
        share->pass_ns = share->pass_ns < least ? least : share->pass_ns;
        share->busy_until_ns = now_ns;
    }
    share->pass_ns += work_ns * USUAL_WEIGHT / share->weight;
    share->busy_until_ns += stretch(share, work_ns, now_ns);
    if (share->busy_until_ns > now_ns + MOST_BUSY_NS)
        share->busy_until_ns = now_ns + MOST_BUSY_NS;
    gs_share_publish(share);
}

bool gs_share_is_ahead(const gs_gate_share *share, uint64_t now_ns) {
    uint64_t least = least_pass(share, now_ns, share->pass_ns);
    return share->pass_ns > least && share->pass_ns - least > AHEAD_NS;
}

void gs_share_wait(gs_gate_share *share, uint64_t now_ns) {
    if (share->busy_until_ns < now_ns + LOOK_NS)
        share->busy_until_ns = now_ns + LOOK_NS;
    gs_share_publish(share);
}

void gs_share_forgive(gs_gate_share *share, uint64_t now_ns) {
    if (gs_share_is_ahead(share, now_ns))
        share->pass_ns = least_pass(share, now_ns, share->pass_ns) + AHEAD_NS;
    gs_share_publish(share);
}

/* Idle time earns no credit. */
void gs_cap_charge(gs_gate_cap *cap, uint64_t work_ns, uint64_t now_ns) {
    uint64_t from_ns = cap->paid_until_ns > now_ns ? cap->paid_until_ns : now_ns;
    cap->paid_until_ns = from_ns + work_ns * 100 / cap->percent;
}

uint64_t gs_cap_wait_ns(const gs_gate_cap *cap, uint64_t now_ns) {
    return cap->paid_until_ns > now_ns + AHEAD_NS ? cap->paid_until_ns - now_ns - AHEAD_NS : 0;
}
