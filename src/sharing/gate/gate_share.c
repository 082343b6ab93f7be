/*
 * gate_share.c: when a best-effort program may launch. See gate_share.h.
 *
 * The data of others on the board is not trusted: the caller waits for a limited time, and then the program is no
 * longer ahead, however far it was. Slots of no connected program do not count.
 */
#include "gate_share.h"

enum {
    UNIT_BITS = 15,             /* numbers count 33 us of pass */
    AHEAD_NS = 10000000,        /* a program with weight 100 may be this far ahead of others, */
    CAP_AHEAD_NS = 2000000,     /* and this far of its cap */
    QUEUED_NS = 20000000,       /* work that it may have queued on the GPU while others have some, or had */
    RECENT_NS = 100000000,      /* so long ago; */
    QUIET_QUEUED_NS = 4000000,  /* and while it times its kernels: they are done before it is over */
    UNKNOWN_NS = 20000,         /* charged for a launch while none was timed; */
    LONG_NS = 1000000,          /* but it may take as long as this */
    NUMBER_NS = 1000000,        /* work between two numbers: one costs the GPU about 1 us; */
    ALONE_NUMBER_NS = 4000000,  /* and while others are idle, who may come back */
    MOST_BUSY_NS = 1000000000,  /* how long others may wait for a program that launches nothing more */
    LOOK_NS = 10000000,         /* a program that waits looks again before that, also on a busy machine */
    QUIET_NS = 40000000,        /* how long it is quiet for a program that times its kernels, */
    QUIET_MOST_NS = 300000000,  /* with the time until others have finished, */
    QUIET_EVERY_NS = 600000000, /* and how often at most */
    MOST_UNTIMED = 16,          /* one part of this many may be work that was not timed alone */
    USUAL_WEIGHT = 100
};

static uint64_t read_ns(const _Atomic uint64_t *ns) {
    return atomic_load_explicit(ns, memory_order_relaxed);
}

/* ---- what the board says of programs ---- */

/* Whether the GPU has work of a program in a lane that needs SMs. */
static bool lane_is_busy(const gs_board_share *one, uint32_t lane) {
    uint32_t done = atomic_load_explicit(&one->done[lane], memory_order_relaxed);
    return done != atomic_load_explicit(&one->sent[lane], memory_order_relaxed) && !(done & 1);
}

static bool uses_gpu(const gs_board_share *one, uint64_t now_ns) {
    bool is_busy = read_ns(&one->busy_until_ns) > now_ns;
    for (uint32_t lane = 0; lane < GS_SHARE_LANES; lane++)
        is_busy |= lane_is_busy(one, lane);
    return is_busy && read_ns(&one->expires_ns) > now_ns;
}

static bool has_work(const gs_board_share *one, uint64_t now_ns) {
    return read_ns(&one->waits_until_ns) > now_ns || uses_gpu(one, now_ns);
}

/* The part of its pass that the GPU has yet to do. Numbers have 31 bits, and may be a little ahead of the pass. */
static uint64_t queued_pass(const gs_board_share *one) {
    enum { MOST_UNITS = 1 << 14, AHEAD_UNITS = 1 << 30 }; /* 0.5 s; what is more than that is negative */
    uint32_t most = 0, now = (uint32_t)(read_ns(&one->pass_ns) >> UNIT_BITS);
    for (uint32_t lane = 0; lane < GS_SHARE_LANES; lane++) {
        uint32_t done = atomic_load_explicit(&one->done[lane], memory_order_relaxed) >> 1;
        uint32_t units = (now - done) & INT32_MAX;
        if (lane_is_busy(one, lane) && units < AHEAD_UNITS && units > most)
            most = units < MOST_UNITS ? units : MOST_UNITS;
    }
    return (uint64_t)most << UNIT_BITS;
}

/* Whether others should launch nothing for it. */
static bool needs_quiet(const gs_board_share *one, uint64_t now_ns) {
    uint64_t until_ns = read_ns(&one->quiet_until_ns);
    return until_ns > now_ns && until_ns - now_ns <= QUIET_MOST_NS && has_work(one, now_ns);
}

static const gs_board_share *own_of(const gs_gate_share *share) {
    return &share->board->shares[share->slot];
}

/* The other connected programs: a bit each. */
static uint32_t others_of(const gs_gate_share *share) {
    return atomic_load_explicit(&share->notice->shares, memory_order_relaxed) & ~((uint32_t)1 << share->slot);
}

/* Takes one of them. NULL: no more. */
static const gs_board_share *next_other(const gs_gate_share *share, uint32_t *others) {
    if (!*others)
        return NULL;
    int slot = __builtin_ctz(*others);
    *others &= *others - 1;
    return &share->board->shares[slot];
}

/* The least pass of the other programs that have work; `none` if there is none. `is_done`: only what the GPU has done.
 */
static uint64_t least_pass(const gs_gate_share *share, bool is_done, uint64_t now_ns, uint64_t none) {
    uint64_t least = UINT64_MAX;
    const gs_board_share *other;
    for (uint32_t others = others_of(share); (other = next_other(share, &others));) {
        uint64_t pass_ns = read_ns(&other->pass_ns), queued_ns = is_done ? queued_pass(other) : 0;
        pass_ns = pass_ns > queued_ns ? pass_ns - queued_ns : 0;
        if (has_work(other, now_ns) && pass_ns < least)
            least = pass_ns;
    }
    return least == UINT64_MAX ? none : least;
}

bool gs_share_has_others(const gs_gate_share *share, uint64_t now_ns) {
    return least_pass(share, false, now_ns, UINT64_MAX) != UINT64_MAX;
}

uint64_t gs_share_others(const gs_gate_share *share, uint64_t now_ns) {
    uint64_t sum = GS_SHARE_NONE;
    const gs_board_share *other;
    for (uint32_t others = others_of(share); (other = next_other(share, &others));) {
        if (uses_gpu(other, now_ns))
            return GS_SHARE_CROWDED;
        sum += read_ns(&other->pass_ns);
    }
    return sum == GS_SHARE_CROWDED ? GS_SHARE_NONE : sum;
}

static bool others_need_quiet(const gs_gate_share *share, uint64_t now_ns) {
    const gs_board_share *other;
    for (uint32_t others = others_of(share); (other = next_other(share, &others));)
        if (needs_quiet(other, now_ns))
            return true;
    return false;
}

void gs_share_publish(const gs_gate_share *share) {
    gs_board_share *own = &share->board->shares[share->slot];
    atomic_store_explicit(&own->pass_ns, share->pass_ns, memory_order_relaxed);
    atomic_store_explicit(&own->busy_until_ns, share->busy_until_ns, memory_order_relaxed);
    atomic_store_explicit(&own->waits_until_ns, share->waits_until_ns, memory_order_relaxed);
    atomic_store_explicit(&own->quiet_until_ns, share->quiet_until_ns, memory_order_relaxed);
    atomic_store_explicit(&own->expires_ns, share->expires_ns, memory_order_relaxed);
    for (uint32_t lane = 0; lane < GS_SHARE_LANES; lane++)
        atomic_store_explicit(&own->sent[lane], share->sent[lane], memory_order_relaxed);
}

/* ---- launches ---- */

static bool is_ahead(const gs_gate_share *share, uint64_t now_ns) {
    uint64_t least = least_pass(share, false, now_ns, share->pass_ns);
    return share->pass_ns > least && share->pass_ns - least > AHEAD_NS;
}

static void note_others(gs_gate_share *share, uint64_t now_ns) {
    if (gs_share_has_others(share, now_ns))
        share->others_ns = now_ns;
}

/* What is queued cannot be held back any more when another program comes, or comes back. */
static bool has_queued(const gs_gate_share *share, uint64_t most_ns, uint64_t now_ns) {
    return now_ns < share->others_ns + RECENT_NS && queued_pass(own_of(share)) * share->weight > most_ns * USUAL_WEIGHT;
}

bool gs_share_must_wait(const gs_gate_share *share, uint64_t now_ns) {
    if (share->quiet_until_ns > now_ns)
        return has_queued(share, QUIET_QUEUED_NS, now_ns);
    return is_ahead(share, now_ns) || has_queued(share, QUEUED_NS, now_ns) || others_need_quiet(share, now_ns);
}

void gs_share_wait(gs_gate_share *share, uint64_t now_ns) {
    share->waits_until_ns = now_ns + LOOK_NS;
    note_others(share, now_ns);
    gs_share_publish(share);
}

void gs_share_forgive(gs_gate_share *share, uint64_t now_ns) {
    if (is_ahead(share, now_ns))
        share->pass_ns = least_pass(share, false, now_ns, share->pass_ns) + AHEAD_NS;
    gs_share_publish(share);
}

/* What the program is behind others it keeps while it is idle, but idle time adds nothing. Others may have launched far
   ahead: what counts is what the GPU has done for them. */
static void note_behind(gs_gate_share *share, uint64_t now_ns) {
    uint64_t least = least_pass(share, true, now_ns, share->pass_ns);
    uint64_t behind = least > share->pass_ns ? least - share->pass_ns : 0;
    share->behind_ns = behind < 2 * (uint64_t)AHEAD_NS ? behind : 2 * (uint64_t)AHEAD_NS;
}

static void resume(gs_gate_share *share, uint64_t now_ns) {
    uint64_t least = least_pass(share, true, now_ns, share->pass_ns);
    if (least > share->pass_ns && least - share->pass_ns > share->behind_ns)
        share->pass_ns = least - share->behind_ns;
}

/* How long some work keeps the GPU busy: if others have work, too, the program gets only its share. */
static uint64_t stretch(const gs_gate_share *share, uint64_t work_ns, uint64_t now_ns) {
    uint64_t weights = atomic_load_explicit(&share->notice->weights, memory_order_relaxed);
    return weights && gs_share_has_others(share, now_ns) ? work_ns * weights / share->weight : work_ns;
}

/* Ends a quiet time, or begins one. */
static void look_for_quiet(gs_gate_share *share, uint64_t now_ns) {
    if (share->quiet_until_ns > now_ns) {
        bool is_quiet = gs_share_others(share, now_ns) != GS_SHARE_CROWDED;
        share->quiet_since_ns = !is_quiet ? 0 : share->quiet_since_ns ? share->quiet_since_ns : now_ns;
        if (is_quiet && now_ns - share->quiet_since_ns >= QUIET_NS)
            share->quiet_until_ns = 0;
    } else if (now_ns >= share->look_ns) {
        bool is_needed = share->untimed_ns * MOST_UNTIMED > share->charged_ns && gs_share_has_others(share, now_ns) &&
                         !others_need_quiet(share, now_ns);
        share->quiet_until_ns = is_needed ? now_ns + QUIET_MOST_NS : 0;
        share->look_ns = now_ns + QUIET_EVERY_NS;
        share->charged_ns = share->untimed_ns = share->quiet_since_ns = 0;
    }
}

void gs_share_charge(gs_gate_share *share, uint64_t work_ns, bool is_timed, uint64_t now_ns) {
    if (!has_work(own_of(share), now_ns))
        resume(share, now_ns);
    uint64_t busy_ns = work_ns ? work_ns : LONG_NS;
    if (!work_ns)
        work_ns = share->usual_ns ? share->usual_ns : UNKNOWN_NS;
    share->usual_ns += (work_ns >> 4) - (share->usual_ns >> 4);
    share->pass_ns += (work_ns * USUAL_WEIGHT + share->weight - 1) / share->weight;
    share->busy_until_ns = share->busy_until_ns < now_ns ? now_ns : share->busy_until_ns;
    share->busy_until_ns += stretch(share, busy_ns, now_ns);
    share->expires_ns = now_ns + MOST_BUSY_NS;
    share->waits_until_ns = 0;
    share->unnumbered_ns += busy_ns;
    share->charged_ns += work_ns;
    share->untimed_ns += is_timed ? 0 : work_ns;
    look_for_quiet(share, now_ns);
    note_others(share, now_ns);
    note_behind(share, now_ns);
    gs_share_publish(share);
}

void gs_share_synchronizes(gs_gate_share *share, uint64_t now_ns) {
    share->expires_ns = now_ns + MOST_BUSY_NS;
    share->busy_until_ns = share->unnumbered_ns ? share->expires_ns : share->busy_until_ns;
    gs_share_publish(share);
}

void gs_share_synchronized(gs_gate_share *share, uint64_t now_ns) {
    share->busy_until_ns = share->busy_until_ns < now_ns ? share->busy_until_ns : now_ns;
    share->unnumbered_ns = 0;
    note_behind(share, now_ns);
    gs_share_publish(share);
}

/* ---- numbers ---- */

bool gs_share_wants_number(const gs_gate_share *share, uint64_t now_ns) {
    return share->unnumbered_ns >= ALONE_NUMBER_NS ||
           (share->unnumbered_ns >= NUMBER_NS && gs_share_has_others(share, now_ns));
}

/* Numbers grow, and the last bit says that the stream only copies until the next one. Before the first number of a lane
   that has been idle, the GPU has done all that the lane had. */
uint32_t gs_share_take_number(gs_gate_share *share, uint32_t lane, bool is_copy) {
    gs_board_share *own = &share->board->shares[share->slot];
    uint32_t number = (uint32_t)(share->pass_ns >> UNIT_BITS) << 1, next = (share->next[lane] | 1) + 1;
    if ((int32_t)(next - number) > 0)
        number = next;
    if (!lane_is_busy(own, lane))
        atomic_store_explicit(&own->done[lane], share->sent[lane] = number - 2, memory_order_relaxed);
    share->next[lane] = number | is_copy;
    return share->next[lane];
}

void gs_share_send_number(gs_gate_share *share, uint32_t lane, uint32_t number, uint64_t now_ns) {
    share->sent[lane] = number;
    share->unnumbered_ns = 0;
    share->busy_until_ns = now_ns;
    gs_share_publish(share);
}

/* ---- caps ---- */

/* Idle time earns no credit. */
void gs_cap_charge(gs_gate_cap *cap, uint64_t work_ns, uint64_t now_ns) {
    uint64_t from_ns = cap->paid_until_ns > now_ns ? cap->paid_until_ns : now_ns;
    cap->paid_until_ns = from_ns + work_ns * 100 / cap->percent;
}

uint64_t gs_cap_wait_ns(const gs_gate_cap *cap, uint64_t now_ns) {
    return cap->paid_until_ns > now_ns + CAP_AHEAD_NS ? cap->paid_until_ns - now_ns - CAP_AHEAD_NS : 0;
}
