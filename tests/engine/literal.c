/*
 * literal.c: see literal.h. The names and the steps of choose() follow Algorithm 1. A mechanism that differs from that
 * of the paper changes its step in the most obvious way.
 */
#include "literal.h"

#include <stdlib.h>
#include <string.h>

#define NOBODY (-1)

struct block {
    size_t launch;
    int64_t block, end_ns; /* INT64_MAX: until its exit */
    int sm, room;          /* the room of the SM before */
    long owner;            /* of its memory */
    int warps[GS_MAX_PARTITIONS];
};

struct sm {
    int b; /* free block slots */
    int p; /* pointer */
    int w[GS_MAX_PARTITIONS], r[GS_MAX_PARTITIONS];
    long *register_map[GS_MAX_PARTITIONS]; /* the owner of each granule */
    long *shared_map;
    int shared_size; /* granules of the configuration */
    int origin;      /* where a ring begins */
};

/* A kernel: TB of Algorithm 1. */
struct tb {
    int w, r, s; /* warps, register granules of a warp, shared granules with the runtime's */
    int config_s, given_s, most_s;
    int per; /* blocks that an empty SM takes */
    int64_t config_l;
    int64_t started, ended;
    bool gone;
};

/* A launch, or a copy, which has a number after those of the launches. */
enum { CHAIN = 8 }; /* kernels of a stream that can run at a time */

struct operation {
    bool is_issued, is_due, is_held, is_ready, is_copying, has_started, is_over;
    int connection;                      /* -1: none */
    int order;                           /* in which it was issued */
    int turn;                            /* in which it became ready */
    size_t ready_at;                     /* the event of the run at which it did */
    int64_t arrived, due, started, over; /* started: all its blocks */
    int64_t usual_end;                   /* of a copy in a graph without times */
    literal_times *times;
};

struct play {
    const gs_gpu *gpu;
    const gs_run *run;
    struct tb *tbs;
    struct sm *sms;
    int *config_s; /* of each TPC or SM */
    bool *warm;    /* of each: its last block has just ended */
    int64_t config_l, now;
    int cursor; /* round-robin */
    int16_t *order;
    struct block **blocks; /* alive */
    size_t block_count, block_capacity;
    gs_log *log;
    size_t event;
    size_t entered; /* nodes that came or ended one after the other */
    int64_t usual;  /* when the last copy in a graph without times ended */
    size_t fresh;   /* the number of last blocks without a number; all are of one launch */
    literal_turns turns;
    gs_pace pace;
    struct operation *operations;
    size_t copies_issued;
    size_t kept[2]; /* by copy engine: the only copy that it may start; SIZE_MAX: any */
    int issued, turn;
    bool *closed;   /* by SM: a kernel that waits could use it */
    size_t serving; /* the launch */
    long owners;
};

static int round_up(int64_t value, int64_t by) {
    return (int)((value + by - 1) / by);
}

/* ---- TB: lines 4 to 6, and Mechanism 3's configuration ---- */

static int least(int a, int b) {
    return a < b ? a : b;
}

static int config_for(const gs_gpu *gpu, int64_t bytes) {
    for (int i = 0; i < gpu->limits.configs; i++)
        if (gpu->limits.config_bytes[i] >= bytes)
            return gpu->limits.config_bytes[i];
    return gpu->limits.config_bytes[gpu->limits.configs - 1];
}

static struct tb make_tb(const gs_gpu *gpu, const gs_launch *launch) {
    const gs_limits *l = &gpu->limits;
    struct tb tb = {.w = round_up(launch->shape.threads, l->warp_threads),
                    .r = round_up((int64_t)launch->shape.registers * l->warp_threads, l->register_granularity),
                    .s = round_up(launch->shape.shared_bytes, l->shared_granularity_bytes) +
                         round_up(l->shared_reserved_bytes, l->shared_granularity_bytes),
                    .config_l = launch->shape.local_bytes};
    if (launch->shape.shared_bytes == GS_BARE)
        tb.s = 0;
    int largest = l->config_bytes[l->configs - 1];
    int partition_registers = l->registers_per_sm / l->partitions_per_sm / l->register_granularity;
    int partition_warps = l->threads_per_sm / l->warp_threads / l->partitions_per_sm;
    int per = least(l->blocks_per_sm, least(partition_warps, partition_registers / tb.r) * l->partitions_per_sm / tb.w);
    int bytes = tb.s * l->shared_granularity_bytes;
    tb.per = per;
    if (bytes)
        per = least(per, largest / bytes);
    tb.config_s = config_for(gpu, (int64_t)per * bytes);
    if (launch->shape.carveout_percent != GS_NO_CARVEOUT) {
        tb.config_s = config_for(gpu, (int64_t)largest * launch->shape.carveout_percent / 100);
        if (tb.config_s < bytes)
            tb.config_s = config_for(gpu, bytes);
    }
    tb.given_s = gpu->mechanisms.shared_given == GS_GIVEN_LARGEST ? largest : tb.config_s;
    bool requested = launch->shape.carveout_percent != GS_NO_CARVEOUT;
    if (bytes)
        tb.per = least(tb.per, (requested ? tb.config_s : largest) / bytes);
    if (gpu->mechanisms.shared_given == GS_GIVEN_GENEROUS && !requested && per > 1) {
        int blocks = 32 - tb.w;
        if (launch->shape.shared_bytes && blocks > 2 * per)
            blocks = 2 * per;
        int generous = blocks > 0 ? config_for(gpu, (int64_t)blocks * bytes) : 0;
        generous = least(generous, 132 * 1024);
        tb.given_s = generous > tb.config_s ? generous : tb.config_s;
    }
    tb.most_s = largest;
    if (gpu->mechanisms.shared_given == GS_GIVEN_GENEROUS && requested) {
        gs_launch plain = *launch;
        plain.shape.carveout_percent = GS_NO_CARVEOUT;
        struct tb without = make_tb(gpu, &plain);
        int64_t wanted = (int64_t)largest * launch->shape.carveout_percent / 100;
        int config = config_for(gpu, wanted) < bytes ? config_for(gpu, bytes) : config_for(gpu, wanted);
        int own = round_up(launch->shape.shared_bytes, l->shared_granularity_bytes) * l->shared_granularity_bytes;
        int more = own ? config_for(gpu, wanted / own * bytes) : without.given_s;
        if (bytes)
            tb.config_s = config_for(gpu, (int64_t)least(per, config / bytes) * bytes);
        tb.given_s = tb.most_s = more > config ? more : config;
    }
    return tb;
}

/* ---- the state of an SM, computed on demand ---- */

static int group_of(const struct play *play, int sm) {
    return play->gpu->mechanisms.shared_scope == GS_SCOPE_TPC ? sm / play->gpu->sms_per_tpc : sm;
}

static bool group_is_idle(const struct play *play, int group) {
    for (size_t i = 0; i < play->block_count; i++)
        if (group_of(play, play->blocks[i]->sm) == group)
            return false;
    return true;
}

static int largest_hole(const long *map, int size) {
    int longest = 0, length = 0;
    for (int i = 0; i < size; i++) {
        length = map[i] == NOBODY ? length + 1 : 0;
        longest = length > longest ? length : longest;
    }
    return longest;
}

static int count_free(const long *map, int size) {
    int count = 0;
    for (int i = 0; i < size; i++)
        count += map[i] == NOBODY;
    return count;
}

/* How many granules from `at` on are free, continuing at the beginning. */
static int ring_hole(const long *map, int size, int at) {
    int length = 0;
    while (length < size && map[(at + length) % size] == NOBODY)
        length++;
    return length;
}

/* A hole of a ring begins at a free granule after one that is taken. */
static bool begins_ring_hole(const long *map, int size, int at) {
    return map[at] == NOBODY && map[(at + size - 1) % size] != NOBODY;
}

/* How many blocks of `wanted` granules the shared memory takes. */
static int shared_limit(const struct play *play, const struct sm *sm, int wanted) {
    const long *map = sm->shared_map;
    int size = sm->shared_size, fits = 0;
    if (play->gpu->mechanisms.shared_allocation == GS_SPACE_CONTIGUOUS)
        return largest_hole(map, size) / wanted;
    if (play->gpu->mechanisms.shared_allocation == GS_SPACE_COUNTED)
        return count_free(map, size) / wanted;
    if (count_free(map, size) == size)
        return size / wanted;
    for (int at = 0; at < size; at++)
        if (begins_ring_hole(map, size, at))
            fits += ring_hole(map, size, at) / wanted;
    return fits;
}

static int registers_usable(const struct play *play, const struct sm *sm, int partition) {
    bool contiguous = play->gpu->mechanisms.registers == GS_REGISTERS_CONTIGUOUS;
    return (contiguous ? largest_hole : count_free)(sm->register_map[partition], play->gpu->registers_per_partition);
}

/* An idle group has no configuration, but one that has just become idle keeps its own for a waiting kernel, if it is
   large enough. */
static bool is_unconfigured(const struct play *play, const struct tb *tb, int sm) {
    int group = group_of(play, sm);
    bool kept = play->gpu->mechanisms.shared_kept == GS_KEPT_FOR_WAITING && play->warm[group] &&
                play->config_s[group] >= tb->config_s && play->config_s[group] <= tb->most_s;
    return group_is_idle(play, group) && !kept;
}

/* ---- Algorithm 1 ---- */

/* Lines 13 to 26: how many of this block the SM can take. */
static int cur_thread_blocks(const struct play *play, const struct tb *tb, int i) {
    const gs_gpu *gpu = play->gpu;
    const struct sm *sm = &play->sms[i];
    int partitions = gpu->limits.partitions_per_sm, limit_pb_w[GS_MAX_PARTITIONS], minimum = INT32_MAX, sum = 0;
    bool idle = is_unconfigured(play, tb, i);
    int config = play->config_s[group_of(play, i)];
    if (!idle && (tb->config_s > config || config > tb->most_s))
        return 0;
    for (int j = 0; j < partitions; j++) {
        limit_pb_w[j] = least(sm->w[j], registers_usable(play, sm, j) / tb->r);
        minimum = least(minimum, limit_pb_w[j]);
        sum += limit_pb_w[j];
    }
    int limit_w = sum;
    if (gpu->mechanisms.warp_placement == GS_WARPS_STRICT)
        for (int j = 0; j < partitions; j++)
            if (limit_pb_w[(sm->p + j) % partitions] == minimum) {
                limit_w = minimum * partitions + j;
                break;
            }
    int limit_s = INT32_MAX, granule = gpu->limits.shared_granularity_bytes;
    if (tb->s)
        limit_s = idle ? tb->given_s / granule / tb->s : shared_limit(play, sm, tb->s);
    return least(least(sm->b, limit_w / tb->w), limit_s);
}

static bool is_open(const struct play *play, int sm) {
    return !play->closed[sm] &&
           (play->serving == play->run->launches.count || gs_run_may_use(play->run, play->serving, sm));
}

static bool is_in_first_group(const gs_gpu *gpu, int sm) {
    for (int i = 0; gpu->grants.first && i < gpu->grants.groups.ends[gpu->grants.first - 1]; i++)
        if (gpu->grants.groups.sms[i] == sm)
            return true;
    return false;
}

/* Lines 1 to 37; `room` becomes that of the SM. */
static int choose(const struct play *play, const struct tb *tb, int *room) {
    const gs_mechanisms *mechanisms = &play->gpu->mechanisms;
    if (mechanisms->local_growth_waits == GS_YES && play->block_count && tb->config_l > play->config_l)
        return GS_WAIT;
    int max_thread_blocks = 0, smid = GS_WAIT;
    bool in_turn = mechanisms->placement == GS_PLACEMENT_ROUND_ROBIN;
    for (int n = 0; n < play->gpu->sms; n++) {
        int i = play->order[in_turn ? (play->cursor + n) % play->gpu->sms : n];
        int cur = is_open(play, i) ? cur_thread_blocks(play, tb, i) : 0;
        if (cur > max_thread_blocks) {
            max_thread_blocks = cur;
            smid = i;
            if (in_turn)
                break;
        }
    }
    *room = in_turn && max_thread_blocks ? 1 : max_thread_blocks;
    return smid;
}

/* ---- placing ---- */

static void take_first_fit(long *map, int size, int wanted, long owner) {
    int at = 0, length = 0;
    for (int i = 0; i < size && length < wanted; i++) {
        length = map[i] == NOBODY ? length + 1 : 0;
        at = i + 1 - length;
    }
    for (int i = at; i < at + wanted; i++)
        map[i] = owner;
}

static void take_any(long *map, int size, int wanted, long owner) {
    for (int i = 0; i < size && wanted; i++)
        if (map[i] == NOBODY) {
            map[i] = owner;
            wanted--;
        }
}

/* The first hole, from the origin on, that is large enough. */
static void take_in_ring(struct sm *sm, int wanted, long owner) {
    int at = sm->origin, size = sm->shared_size;
    while (wanted && ring_hole(sm->shared_map, size, at) < wanted)
        at = (at + 1) % size;
    for (int i = 0; i < wanted; i++)
        sm->shared_map[(at + i) % size] = owner;
}

static void take_shared(const struct play *play, struct sm *sm, int wanted, long owner) {
    switch (play->gpu->mechanisms.shared_allocation) {
    case GS_SPACE_CONTIGUOUS:
        take_first_fit(sm->shared_map, sm->shared_size, wanted, owner);
        break;
    case GS_SPACE_COUNTED:
        take_any(sm->shared_map, sm->shared_size, wanted, owner);
        break;
    default:
        take_in_ring(sm, wanted, owner);
    }
}

/* An origin that is free moves back over all free granules before it. */
static void move_origin(struct sm *sm) {
    int size = sm->shared_size;
    if (count_free(sm->shared_map, size) == size || sm->shared_map[sm->origin] != NOBODY)
        return;
    while (sm->shared_map[(sm->origin + size - 1) % size] == NOBODY)
        sm->origin = (sm->origin + size - 1) % size;
}

static void give_back(long *map, int size, long owner) {
    for (int i = 0; i < size; i++)
        if (map[i] == owner)
            map[i] = NOBODY;
}

static void configure(struct play *play, int group, const struct tb *tb) {
    play->config_s[group] = tb->given_s;
    for (int i = 0; i < play->gpu->sms; i++)
        if (group_of(play, i) == group) {
            play->sms[i].shared_size = tb->given_s / play->gpu->limits.shared_granularity_bytes;
            play->sms[i].origin = 0;
        }
}

/* Warp by warp, round-robin; if warps are placed freely, to the next partition with room. */
static void place_warps(struct play *play, struct sm *sm, const struct tb *tb, struct block *block, long owner) {
    const gs_gpu *gpu = play->gpu;
    int partitions = gpu->limits.partitions_per_sm;
    for (int warp = 0; warp < tb->w; warp++) {
        while (gpu->mechanisms.warp_placement == GS_WARPS_FREE &&
               (sm->w[sm->p] == 0 || registers_usable(play, sm, sm->p) < tb->r))
            sm->p = (sm->p + 1) % partitions;
        sm->w[sm->p]--;
        if (gpu->mechanisms.registers == GS_REGISTERS_CONTIGUOUS)
            take_first_fit(sm->register_map[sm->p], gpu->registers_per_partition, tb->r, owner);
        else
            take_any(sm->register_map[sm->p], gpu->registers_per_partition, tb->r, owner);
        block->warps[sm->p]++;
        sm->p = (sm->p + 1) % partitions;
    }
    if (gpu->mechanisms.extra_step == GS_YES && tb->w % partitions == 0)
        sm->p = (sm->p + 1) % partitions;
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory)
        abort();
    return memory;
}

static void set_number(struct play *play, struct block *block, int64_t number) {
    const gs_launch *launch = &play->run->launches.data[block->launch];
    block->block = number;
    if (launch->duration_ns)
        block->end_ns = play->now + gs_block_duration(launch, number);
}

static bool is_cooperative(const struct play *play, size_t launch) {
    const gs_launch_facts *facts = play->run->launches.data[launch].issue.facts;
    return facts && facts->is_cooperative;
}

/* Gives the fresh blocks their numbers: as placed, or by grant. */
static void number_fresh(struct play *play) {
    if (!play->fresh)
        return;
    int count = (int)play->fresh, *numbers = allocate(3 * play->fresh + 1, sizeof *numbers);
    int *sms = numbers, *rooms = sms + count, *order = rooms + count;
    struct block **blocks = play->blocks + play->block_count - count;
    gs_start *log = play->log->data + play->log->count - count;
    size_t launch = count ? blocks[0]->launch : 0;
    for (int i = 0; i < count; i++) {
        sms[i] = order[i] = blocks[i]->sm;
        rooms[i] = blocks[i]->room;
    }
    play->fresh = 0;
    int size = count ? play->run->launches.data[launch].cluster : 1;
    bool in_turn = play->gpu->mechanisms.placement == GS_PLACEMENT_ROUND_ROBIN;
    if (size > 1) {
        literal_cluster_order(play->gpu, sms, count, size, &play->turns, order);
    } else if (count && play->gpu->mechanisms.numbering == GS_NUMBERED_BY_GRANT && is_cooperative(play, launch)) {
        literal_number_whole(play->gpu, sms, count, &play->turns, order);
    } else if (count && play->gpu->mechanisms.numbering == GS_NUMBERED_BY_GRANT) {
        const struct tb *tb = &play->tbs[launch];
        int room, next = choose(play, tb, &room);
        bool is_done = tb->started == play->run->launches.data[launch].blocks;
        literal_number(play->gpu, sms, rooms, count, is_done && next != GS_WAIT && room == rooms[count - 1],
                       &play->turns, order);
    }
    int64_t first = count ? play->tbs[launch].started - count : 0;
    for (int i = 0; i < count; i++) {
        int earlier = 0; /* on the same SM */
        for (int j = 0; j < i; j++)
            earlier += order[j] == order[i];
        for (int j = 0; j < count; j++)
            if (blocks[j]->sm == order[i] && earlier-- == 0) {
                set_number(play, blocks[j], first + i);
                log[i].headroom = size > 1 || in_turn ? 0 : rooms[j];
            }
        log[i].block = first + i;
        log[i].sm = order[i];
    }
    free(numbers);
}

/* Puts a block on an SM. */
static void occupy(struct play *play, const struct tb *tb, size_t launch, int i, int room) {
    struct sm *sm = &play->sms[i];
    struct block *block = allocate(1, sizeof *block);
    *block = (struct block){.launch = launch, .sm = i, .room = room, .end_ns = INT64_MAX, .owner = play->owners++};
    if (is_unconfigured(play, tb, i))
        configure(play, group_of(play, i), tb);
    play->warm[group_of(play, i)] = false;
    sm->b--;
    take_shared(play, sm, tb->s, block->owner);
    place_warps(play, sm, tb, block, block->owner);
    if (tb->config_l > play->config_l)
        play->config_l = tb->config_l;
    for (int n = 0; n < play->gpu->sms; n++)
        if (play->order[n] == i)
            play->cursor = (n + 1) % play->gpu->sms;
    if (!gs_array_reserve((void **)&play->blocks, play->block_count, &play->block_capacity, 1, sizeof *play->blocks))
        abort();
    play->blocks[play->block_count++] = block;
}

static void start(struct play *play, size_t launch, int i, int room) {
    struct tb *tb = &play->tbs[launch];
    tb->started++;
    play->fresh++;
    occupy(play, tb, launch, i, room);
    if (!GS_RESERVE(play->log, 1))
        abort();
    play->log->data[play->log->count++] = (gs_start){play->event, launch, 0, i, play->now, 0};
}

/* ---- launches and copies: when they are ready ---- */

static size_t operation_count(const struct play *play) {
    return play->run->launches.count + play->run->copies.count;
}

static const gs_copy *copy_of(const struct play *play, size_t operation) {
    size_t launches = play->run->launches.count;
    return operation < launches ? NULL : &play->run->copies.data[operation - launches];
}

static const gs_issue *issue_of(const struct play *play, size_t operation) {
    const gs_copy *copy = copy_of(play, operation);
    return copy ? &copy->issue : &play->run->launches.data[operation].issue;
}

static const char *stream_of(const struct play *play, size_t operation) {
    const gs_copy *copy = copy_of(play, operation);
    return copy ? copy->stream : play->run->launches.data[operation].stream;
}

static size_t edge_to(const struct play *play, const gs_edge *edge) {
    return edge->is_copy ? play->run->launches.count + edge->number : edge->number;
}

/* Whether `one` was issued before `other` in the same stream. */
static bool is_before(const struct play *play, size_t one, size_t other) {
    const char *a = stream_of(play, one), *b = stream_of(play, other);
    return play->operations[one].is_issued && play->operations[one].order < play->operations[other].order && a && b &&
           strcmp(a, b) == 0;
}

static bool is_last_before(const struct play *play, size_t one, size_t other) {
    for (size_t i = 0; i < operation_count(play); i++)
        if (is_before(play, i, other) && play->operations[i].order > play->operations[one].order)
            return false;
    return is_before(play, one, other);
}

static int64_t gap_of(const struct play *play, size_t operation, bool is_after_copy) {
    const gs_issue *issue = issue_of(play, operation);
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++)
        if (play->run->edges.data[i].when != GS_AT_END)
            return 0;
    if (copy_of(play, operation))
        return play->pace.gaps.copy_ns;
    if (is_after_copy)
        return play->pace.gaps.after_copy_ns;
    return gs_is_in_graph(play->run, operation) ? play->pace.gaps.graph_ns : play->pace.gaps.stream_ns;
}

/* Whether an operation says when it may start after the one before it in its stream; `early`: before the end of that
   one. Cooperative launches do not. */
static bool has_entry(const struct play *play, size_t operation, size_t before, bool early) {
    const gs_issue *issue = issue_of(play, operation);
    if (!copy_of(play, operation) && is_cooperative(play, operation))
        return false;
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        const gs_edge *edge = &play->run->edges.data[i];
        bool is_early = edge->when == GS_AT_START && !edge->is_copy;
        if ((is_early || !early) && edge_to(play, edge) == before && is_last_before(play, before, operation))
            return true;
    }
    return false;
}

/* How many operations are before it in its stream, from the first that is not over. */
static int place_in_chain(const struct play *play, size_t operation) {
    int first = INT32_MAX, place = 0;
    for (size_t i = 0; i < operation_count(play); i++)
        if (is_before(play, i, operation) && !play->operations[i].is_over && play->operations[i].order < first)
            first = play->operations[i].order;
    for (size_t i = 0; i < operation_count(play); i++)
        place += is_before(play, i, operation) && play->operations[i].order >= first;
    return place;
}

/* Sets `*time` to the time when the obstacle was gone, if that is later, and whether it is a copy. False: it
   remains. */
static bool is_gone(const struct play *play, size_t obstacle, bool at_end, int64_t *time, bool *is_copy) {
    const struct operation *operation = &play->operations[obstacle];
    if (!operation->is_over && (at_end || !operation->has_started))
        return false;
    int64_t at = at_end || !operation->has_started ? operation->over : operation->started;
    if (at >= *time)
        *is_copy = copy_of(play, obstacle) || (at == *time && *is_copy);
    *time = at > *time ? at : *time;
    return true;
}

/* Whether another launch waits in this connection, issued before this time. */
static bool waits_in(const struct play *play, int connection, int before) {
    for (size_t i = 0; i < play->run->launches.count; i++) {
        const struct operation *other = &play->operations[i];
        if (other->is_issued && other->connection == connection && other->order < before && !other->is_ready &&
            !other->is_over)
            return true;
    }
    return false;
}

/* When an operation is ready: all obstacles are gone, and then the gap has passed. INT64_MAX: not yet known. */
static int64_t due_time(const struct play *play, size_t operation) {
    const gs_issue *issue = issue_of(play, operation);
    int64_t gone = INT64_MIN, arrived = play->operations[operation].arrived;
    bool is_after_copy = false;
    bool replaces_order = false; /* an early start replaces the order of the stream */
    bool names_last = false;     /* it waits only for the one right before it in its stream, not for all */
    for (size_t i = 0; i < operation_count(play); i++) {
        replaces_order = replaces_order || has_entry(play, operation, i, true);
        names_last = names_last || has_entry(play, operation, i, false);
    }
    if (place_in_chain(play, operation) >= CHAIN)
        return INT64_MAX;
    if (play->operations[operation].connection >= 0 &&
        waits_in(play, play->operations[operation].connection, play->operations[operation].order))
        return INT64_MAX;
    for (size_t i = 0; i < operation_count(play) && !replaces_order; i++)
        if ((names_last ? is_last_before(play, i, operation) : is_before(play, i, operation)) &&
            !is_gone(play, i, true, &gone, &is_after_copy))
            return INT64_MAX;
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        const gs_edge *edge = &play->run->edges.data[i];
        if (!is_gone(play, edge_to(play, edge), edge->when != GS_AT_START, &gone, &is_after_copy))
            return INT64_MAX;
    }
    int64_t gap = gap_of(play, operation, is_after_copy);
    return gone != INT64_MIN && gone + gap > arrived ? gone + gap : arrived;
}

/* 0 and 1: from and to the host; -1: the copy needs no copy engine. */
static int copy_engine(const gs_copy *copy) {
    if (copy->is_memset)
        return -1;
    return copy->kind == GS_COPY_HOST_TO_DEVICE ? 0 : copy->kind == GS_COPY_DEVICE_TO_HOST ? 1 : -1;
}

/* Whether a copy must wait for another one on its copy engine. */
static bool copy_waits(const struct play *play, size_t operation) {
    const struct operation *operations = play->operations;
    int engine = copy_engine(copy_of(play, operation));
    if (engine >= 0 && play->kept[engine] != SIZE_MAX)
        return play->kept[engine] != operation;
    for (size_t i = play->run->launches.count; engine >= 0 && i < operation_count(play); i++)
        if (copy_engine(copy_of(play, i)) == engine && !operations[i].is_over &&
            (operations[i].is_copying || (operations[i].is_ready && operations[i].turn < operations[operation].turn)))
            return true;
    return false;
}

/* Whether an operation is a copy in a graph without times. */
static bool is_memory_node(const struct play *play, size_t operation) {
    if (operation < play->run->launches.count)
        return false;
    const gs_copy *copy = copy_of(play, operation);
    bool is_measured = copy->issue.start_ns != GS_NO_TIME && copy->issue.end_ns > copy->issue.start_ns;
    return copy->issue.facts && copy->issue.facts->graph != GS_NOT_GIVEN && copy->issue.at_ns == GS_NO_TIME &&
           !copy->duration_ns && !is_measured;
}

static int64_t memory_blocks(const struct play *play, size_t operation);

/* To or from the host 0.8 us, and 40 KB per microsecond; elsewhere 1 us, or 2 us with SMs, and 1 MB per microsecond. */
static int64_t usual_duration(const struct play *play, size_t operation) {
    const gs_copy *copy = copy_of(play, operation);
    if (copy->kind == GS_COPY_HOST_TO_DEVICE || copy->kind == GS_COPY_DEVICE_TO_HOST)
        return 800 + copy->bytes * 1000 / 40000;
    return (memory_blocks(play, operation) ? 2000 : 1000) + copy->bytes * 1000 / 1000000;
}

static void start_copies(struct play *play) {
    for (size_t i = play->run->launches.count; i < operation_count(play); i++) {
        struct operation *operation = &play->operations[i];
        if (!operation->is_ready || operation->is_copying || operation->is_over || copy_waits(play, i))
            continue;
        operation->is_copying = true;
        if (copy_engine(copy_of(play, i)) >= 0)
            play->kept[copy_engine(copy_of(play, i))] = SIZE_MAX;
        operation->usual_end = play->usual + usual_duration(play, i);
        operation->times->start_ns = play->now;
    }
}

/* Whether as many kernels are in the queue or running as the GPU takes. */
static bool is_full(const struct play *play) {
    int kernels = 0;
    for (size_t i = 0; i < play->run->launches.count; i++)
        kernels += play->operations[i].is_ready && !play->operations[i].is_over;
    return play->gpu->limits.kernels_per_gpu && kernels >= play->gpu->limits.kernels_per_gpu;
}

static void make_ready(struct play *play, size_t operation) {
    if (operation < play->run->launches.count && is_full(play)) {
        play->operations[operation].is_held = true;
        play->operations[operation].turn = play->turn++;
        return;
    }
    play->operations[operation].is_held = false;
    play->operations[operation].is_ready = true;
    play->operations[operation].turn = play->turn++;
    play->operations[operation].ready_at = play->event + play->entered;
    play->operations[operation].times->ready_ns = play->now;
    start_copies(play);
}

/* An operation that is due now is ready; one that is due later will be. */
static void settle_one(struct play *play, size_t number) {
    struct operation *operation = &play->operations[number];
    if (!operation->is_issued || operation->is_due || operation->is_over || due_time(play, number) == INT64_MAX)
        return;
    operation->is_due = true;
    operation->due = due_time(play, number);
    if (operation->due <= play->now)
        make_ready(play, number);
}

/* Called after each event. Operations that become ready may make others ready, which waited behind them. */
static void settle(struct play *play) {
    int before;
    do {
        before = play->turn;
        for (size_t i = 0; i < operation_count(play); i++)
            settle_one(play, i);
    } while (play->run->connections && play->turn != before);
}

/* The launch that was held first; SIZE_MAX: none is. */
static size_t first_held(const struct play *play) {
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < play->run->launches.count; i++)
        if (play->operations[i].is_held &&
            (first == SIZE_MAX || play->operations[i].turn < play->operations[first].turn))
            first = i;
    return first;
}

/* A copy engine goes on with the stream of a copy that is over, if the next operation there is one for it, and due. */
static void keep_engine(struct play *play, size_t over, size_t *kept) {
    int engine = copy_engine(copy_of(play, over));
    *kept = SIZE_MAX;
    for (size_t i = play->run->launches.count; i < operation_count(play); i++)
        if (play->operations[i].is_due && !play->operations[i].is_over && is_last_before(play, over, i) &&
            copy_engine(copy_of(play, i)) == engine)
            *kept = i;
}

static void operation_over(struct play *play, size_t operation) {
    int engine = copy_of(play, operation) ? copy_engine(copy_of(play, operation)) : -1;
    play->operations[operation].is_over = true;
    int64_t tail = operation < play->run->launches.count ? play->pace.gaps.tail_ns : 0;
    play->operations[operation].over = play->operations[operation].times->end_ns = play->now + tail;
    if (operation < play->run->launches.count)
        play->tbs[operation].gone = true;
    play->operations[operation].is_held = false;
    while (!is_full(play) && first_held(play) != SIZE_MAX)
        make_ready(play, first_held(play));
    if (engine >= 0)
        play->kept[engine] = operation;                /* none starts before its stream has gone on */
    for (size_t i = 0; i < operation_count(play); i++) /* its stream goes on before those that depend on it */
        if (play->operations[i].is_issued && is_before(play, operation, i))
            settle_one(play, i);
    settle(play);
    if (engine >= 0)
        keep_engine(play, operation, &play->kept[engine]);
    start_copies(play);
}

static void end(struct play *play, size_t number) {
    struct block *block = play->blocks[number];
    struct sm *sm = &play->sms[block->sm];
    sm->b++;
    for (int p = 0; p < play->gpu->limits.partitions_per_sm; p++) {
        sm->w[p] += block->warps[p];
        give_back(sm->register_map[p], play->gpu->registers_per_partition, block->owner);
    }
    give_back(sm->shared_map, sm->shared_size, block->owner);
    move_origin(sm);
    if (block->launch != SIZE_MAX)
        play->tbs[block->launch].ended++;
    int group = group_of(play, block->sm);
    free(block);
    play->blocks[number] = play->blocks[--play->block_count];
    play->warm[group] = group_is_idle(play, group);
}

/* ---- queue, streams, time ---- */

static bool waits(const struct play *play, size_t launch) {
    const struct tb *tb = &play->tbs[launch];
    return play->operations[launch].is_ready && !tb->gone && tb->started < play->run->launches.data[launch].blocks;
}

/* Whether one launch is before another in the queue: by priority, cooperative launches first, then by when they became
   ready: by time, then by launches and exits of the run, then by number. */
static bool goes_before(const struct play *play, size_t one, size_t other) {
    int here = 2 * abs(play->run->launches.data[one].priority) + is_cooperative(play, one);
    int there = 2 * abs(play->run->launches.data[other].priority) + is_cooperative(play, other);
    int64_t first = play->operations[one].times->ready_ns, second = play->operations[other].times->ready_ns;
    if (here != there)
        return here > there;
    if (first != second)
        return first < second;
    size_t here_at = play->operations[one].ready_at, there_at = play->operations[other].ready_at;
    return here_at != there_at ? here_at < there_at : one < other;
}

/* The waiting launch that comes after `last` in the queue (SIZE_MAX: the first), or SIZE_MAX. */
static size_t next_waiting(const struct play *play, size_t last) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < play->run->launches.count; i++)
        if (waits(play, i) && (last == SIZE_MAX || goes_before(play, last, i)) &&
            (best == SIZE_MAX || goes_before(play, i, best)))
            best = i;
    return best;
}

/* Whether a cooperative launch must wait, because not all its blocks fit now. */
static bool is_too_large_now(const struct play *play, size_t launch) {
    const gs_launch *which = &play->run->launches.data[launch];
    int64_t fit = 0;
    if (!is_cooperative(play, launch) || play->tbs[launch].started)
        return false;
    for (int i = 0; i < play->gpu->sms; i++)
        fit += is_open(play, i) ? cur_thread_blocks(play, &play->tbs[launch], i) : 0;
    return fit < which->blocks;
}

/* Starts the next block of a kernel, if it can start. */
static bool start_next(struct play *play, size_t launch) {
    if (is_too_large_now(play, launch))
        return false;
    int room, smid = choose(play, &play->tbs[launch], &room);
    if (smid == GS_WAIT)
        return false;
    if (play->fresh && play->blocks[play->block_count - 1]->launch != launch)
        number_fresh(play);
    start(play, launch, smid, room);
    if (play->tbs[launch].started == play->run->launches.data[launch].blocks)
        number_fresh(play);
    return true;
}

static literal_view view_of(const struct play *play, const struct tb *tb, int sm) {
    literal_view view = {is_open(play, sm) ? cur_thread_blocks(play, tb, sm) : 0, 0, true};
    for (size_t i = 0; i < play->block_count; i++)
        if (play->blocks[i]->sm == sm) {
            view.is_idle = false;
            view.cluster_blocks +=
                play->blocks[i]->launch != SIZE_MAX && play->run->launches.data[play->blocks[i]->launch].cluster > 1;
        }
    return view;
}

/* Starts the next round of clusters, if there can be one. */
static bool start_clusters(struct play *play, size_t launch) {
    const gs_launch *which = &play->run->launches.data[launch];
    const struct tb *tb = &play->tbs[launch];
    int sms[GS_MAX_SMS];
    literal_view views[GS_MAX_SMS];
    if (play->gpu->mechanisms.local_growth_waits == GS_YES && play->block_count && tb->config_l > play->config_l)
        return false;
    for (int i = 0; i < play->gpu->sms; i++)
        views[i] = view_of(play, tb, i);
    int64_t left = (which->blocks - tb->started) / which->cluster;
    int count = literal_clusters(play->gpu, views, tb->per, which->cluster, left, sms) * which->cluster;
    if (count)
        number_fresh(play);
    for (int i = 0; i < count; i++)
        start(play, launch, sms[i], 0);
    if (count)
        number_fresh(play);
    return count;
}

static void note_started(struct play *play, size_t launch) {
    struct operation *operation = &play->operations[launch];
    if (operation->times->start_ns == GS_NO_TIME)
        operation->times->start_ns = play->now;
    if (play->tbs[launch].started < play->run->launches.data[launch].blocks)
        return;
    operation->has_started = true;
    operation->started = play->now;
    settle(play);
}

static bool start_some(struct play *play, size_t launch) {
    play->serving = launch;
    return play->run->launches.data[launch].cluster > 1 ? start_clusters(play, launch) : start_next(play, launch);
}

static void open_all(struct play *play) {
    memset(play->closed, 0, (size_t)play->gpu->sms * sizeof *play->closed);
}

/* SMs that are idle do not keep their configuration for another kernel than the one that was first in the queue when
   they became idle. */
static void cool_all(struct play *play) {
    memset(play->warm, 0, (size_t)play->gpu->sms * sizeof *play->warm);
}

/* A waiting kernel closes the SMs that it could use: with clusters of three or more not those of the first groups, in a
   green context those of the context. */
static void close_for(struct play *play, size_t launch) {
    int size = play->run->launches.data[launch].cluster;
    for (int i = 0; i < play->gpu->sms; i++)
        if (gs_run_may_use(play->run, launch, i) && !(size > 2 && is_in_first_group(play->gpu, i)))
            play->closed[i] = true;
}

/* A launch has got its last block. If the next one has clusters of three or more, the one behind it goes first, on the
   SMs of the first groups. */
static void pass_clusters(struct play *play) {
    size_t first = next_waiting(play, SIZE_MAX), next = first == SIZE_MAX ? first : next_waiting(play, first);
    open_all(play);
    if (next == SIZE_MAX || play->run->launches.data[first].cluster <= 2 ||
        play->gpu->mechanisms.queue == GS_QUEUE_OVERTAKING)
        return;
    close_for(play, first);
    while (waits(play, next) && start_some(play, next))
        note_started(play, next);
    number_fresh(play);
    open_all(play);
}

/* With overtaking, later kernels may start before one that waits. Without it, they may on SMs that it has not closed.
 */
static void serve(struct play *play) {
    size_t launch = next_waiting(play, SIZE_MAX);
    open_all(play);
    while (launch != SIZE_MAX) {
        bool is_first = launch == next_waiting(play, SIZE_MAX);
        if (start_some(play, launch)) {
            bool is_last = !waits(play, launch);
            if (is_first && is_last)
                cool_all(play);
            note_started(play, launch);
            open_all(play);
            if (is_last)
                pass_clusters(play);
            launch = next_waiting(play, SIZE_MAX);
        } else if (play->gpu->mechanisms.queue == GS_QUEUE_OVERTAKING) {
            launch = next_waiting(play, launch);
        } else if (play->run->launches.data[launch].cluster > 2 || play->run->green_contexts.count) {
            close_for(play, launch);
            launch = next_waiting(play, launch);
        } else {
            break;
        }
    }
    number_fresh(play);
    if (next_waiting(play, SIZE_MAX) == SIZE_MAX)
        cool_all(play);
}

/* The block that ends next; block_count: none ends by itself. */
static size_t next_end(const struct play *play) {
    size_t best = play->block_count;
    for (size_t i = 0; i < play->block_count; i++) {
        const struct block *a = play->blocks[i], *b = best < play->block_count ? play->blocks[best] : NULL;
        if (a->end_ns == INT64_MAX)
            continue;
        if (!b || a->end_ns < b->end_ns ||
            (a->end_ns == b->end_ns && (a->launch < b->launch || (a->launch == b->launch && a->block < b->block))))
            best = i;
    }
    return best;
}

static int64_t copy_end(const struct play *play, size_t operation) {
    const gs_copy *copy = copy_of(play, operation);
    bool is_measured = copy->issue.start_ns != GS_NO_TIME && copy->issue.end_ns != GS_NO_TIME;
    int64_t duration = copy->duration_ns ? copy->duration_ns
                       : is_measured     ? copy->issue.end_ns - copy->issue.start_ns
                                         : 0;
    return play->operations[operation].times->start_ns + duration;
}

/* The time of the next event of an operation by itself: it becomes ready, or a copy ends. INT64_MAX: never. */
static int64_t timer_of(const struct play *play, size_t i) {
    const struct operation *operation = &play->operations[i];
    if (operation->is_over || (operation->is_copying && is_memory_node(play, i)))
        return INT64_MAX;
    if (operation->is_copying)
        return copy_end(play, i);
    return operation->is_due && !operation->is_ready && !operation->is_held ? operation->due : INT64_MAX;
}

static size_t next_timer(const struct play *play) {
    size_t best = 0;
    for (size_t i = 1; i < operation_count(play); i++)
        if (timer_of(play, i) < timer_of(play, best))
            best = i;
    return best;
}

/* The time of the next event that happens by itself; INT64_MAX: never. */
static int64_t next_time(const struct play *play) {
    size_t block = next_end(play);
    int64_t timer = operation_count(play) ? timer_of(play, next_timer(play)) : INT64_MAX;
    return block < play->block_count && play->blocks[block]->end_ns < timer ? play->blocks[block]->end_ns : timer;
}

/* Operations that wait for the end of a kernel come after those that wait for room. */
static void end_timed(struct play *play, size_t number) {
    size_t launch = play->blocks[number]->launch;
    end(play, number);
    if (play->tbs[launch].ended < play->run->launches.data[launch].blocks)
        return;
    serve(play);
    operation_over(play, launch);
}

static bool pass_time(struct play *play) {
    size_t next = next_end(play);
    int64_t time = next_time(play);
    if (time == INT64_MAX)
        return false;
    play->now = time;
    if (next < play->block_count && play->blocks[next]->end_ns == time)
        end_timed(play, next);
    else if (play->operations[next_timer(play)].is_copying)
        operation_over(play, next_timer(play));
    else
        make_ready(play, next_timer(play));
    serve(play);
    return true;
}

/* ---- nodes of graphs ---- */

static bool are_nodes_of_one_graph(const struct play *play, size_t one, size_t other) {
    const gs_launch_facts *a = issue_of(play, one)->facts, *b = issue_of(play, other)->facts;
    return a && b && a->graph != GS_NOT_GIVEN && a->graph == b->graph;
}

/* In one graph, but in different green contexts. */
static bool is_elsewhere(const struct play *play, size_t one, size_t other) {
    return are_nodes_of_one_graph(play, one, other) &&
           issue_of(play, one)->facts->green_context != issue_of(play, other)->facts->green_context;
}

/* The number of blocks of a memset or a copy within the GPU; 0: it needs no SM, or is another kind of node. */
static int64_t memory_blocks(const struct play *play, size_t operation) {
    const gs_copy *copy = copy_of(play, operation);
    if (!copy || !(copy->is_memset || copy->kind == GS_COPY_DEVICE_TO_DEVICE))
        return 0;
    const gs_memory_kernel *kernel = &play->gpu->memory_kernels[copy->is_memset ? GS_MEMORY_SET : GS_MEMORY_COPY];
    int64_t of_block = kernel->block_bytes, blocks = 0;
    if (kernel->large_bytes && copy->bytes >= kernel->large_bytes)
        of_block = kernel->large_block_bytes;
    if (!kernel->threads || copy->bytes < kernel->least_bytes)
        return 0;
    for (int64_t left = copy->bytes; left > 0; left -= of_block)
        blocks += left >= of_block || !kernel->whole_blocks;
    return blocks ? blocks : 1;
}

static bool takes_sms(const struct play *play, size_t operation) {
    return !copy_of(play, operation) || memory_blocks(play, operation);
}

/* Among launches and copies, in the order in which they are issued. */
static size_t place_of(const struct play *play, size_t operation) {
    size_t place = 0;
    for (size_t i = 0; i < operation_count(play); i++) {
        const gs_copy *one = copy_of(play, i), *other = copy_of(play, operation);
        bool is_before = !one && !other ? i < operation
                         : one && other ? i < operation
                         : one          ? one->before <= operation
                                        : i < other->before;
        place += i != operation && is_before;
    }
    return place;
}

static bool is_parent(const struct play *play, size_t parent, size_t child) {
    const gs_issue *issue = issue_of(play, child);
    if (is_elsewhere(play, parent, child))
        return false;
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        const gs_edge *edge = &play->run->edges.data[i];
        if ((edge->when != GS_AT_START || edge->is_copy) && edge_to(play, edge) == parent)
            return are_nodes_of_one_graph(play, parent, child);
    }
    return false;
}

/* The latest node without parents or without SMs from which a node can be reached. */
static size_t tree_of(const struct play *play, size_t node) {
    size_t tree = SIZE_MAX;
    for (size_t i = 0; takes_sms(play, node) && i < operation_count(play); i++)
        if (is_parent(play, i, node) && (tree == SIZE_MAX || place_of(play, tree_of(play, i)) > place_of(play, tree)))
            tree = tree_of(play, i);
    return tree == SIZE_MAX ? node : tree;
}

static bool is_join(const struct play *play, size_t node) {
    bool has_kernel = false, has_other = false;
    for (size_t i = 0; i < operation_count(play); i++) {
        if (is_parent(play, i, node) && tree_of(play, i) != tree_of(play, node))
            return true;
        has_kernel = has_kernel || (is_parent(play, i, node) && takes_sms(play, i));
        has_other = has_other || (is_parent(play, i, node) && !takes_sms(play, i));
    }
    return has_kernel && has_other;
}

/* A join of nodes that all take SMs. */
static bool is_signaled(const struct play *play, size_t node) {
    for (size_t i = 0; i < operation_count(play); i++)
        if (is_parent(play, i, node) && !takes_sms(play, i))
            return false;
    return is_join(play, node);
}

static bool has_signaled(const struct play *play, size_t node) {
    for (size_t i = 0; i < operation_count(play); i++)
        if (is_parent(play, node, i) && takes_sms(play, i) && is_signaled(play, i))
            return true;
    return false;
}

/* Whether it waits for the node, takes SMs and is not a join. */
static bool is_plain_child(const struct play *play, size_t node, size_t child) {
    return is_parent(play, node, child) && takes_sms(play, child) && !is_join(play, child);
}

/* The child that comes before all others in the order of the graph, from this place on; SIZE_MAX: none. */
static size_t child_from(const struct play *play, size_t node, size_t place) {
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < operation_count(play); i++)
        if (is_parent(play, node, i) && takes_sms(play, i) && place_of(play, i) >= place &&
            (first == SIZE_MAX || place_of(play, i) < place_of(play, first)))
            first = i;
    return first;
}

/* Lists the children that are not joins: the last of the list takes the place of each join that is signaled, beginning
   with the last join. Returns their number. */
static size_t list_children(const struct play *play, size_t node, size_t *list) {
    size_t count = 0;
    for (size_t child, place = 0; (child = child_from(play, node, place)) != SIZE_MAX;
         place = place_of(play, child) + 1)
        list[count++] = child;
    for (size_t i = count; i > 0; i--)
        if (is_join(play, list[i - 1])) {
            bool is_last_moved = is_signaled(play, list[i - 1]);
            for (size_t j = is_last_moved ? count : i; j < count; j++)
                list[j - 1] = list[j];
            if (is_last_moved)
                list[i - 1] = list[count - 1];
            count--;
        }
    return count;
}

/* Whether the node has so many children that its end is signaled to all. */
static bool has_many(const struct play *play, size_t node) {
    int count = has_signaled(play, node);
    for (size_t i = 0; i < operation_count(play); i++)
        count += is_plain_child(play, node, i);
    return play->gpu->join.most_children && count > play->gpu->join.most_children;
}

/* How many of the children that are not joins come before this one. `*behind`: how many after it. */
static size_t rank_of(const struct play *play, size_t node, size_t child, size_t *behind) {
    size_t *list = allocate(operation_count(play), sizeof *list), rank = 0;
    size_t count = list_children(play, node, list);
    while (rank < count && list[rank] != child)
        rank++;
    *behind = count - rank - (rank < count);
    free(list);
    return rank;
}

/* 0: before the block, 1: behind it, or the last two of a node without joins, 2: when the block has ended. */
static int phase_of(const struct play *play, size_t node, size_t child) {
    size_t behind;
    if (is_elsewhere(play, node, child))
        return 1;
    if (is_join(play, child))
        return 2;
    if (!is_parent(play, node, child))
        return 0;
    if (has_many(play, node))
        return 2;
    rank_of(play, node, child, &behind);
    return behind < (has_signaled(play, node) ? 1 : 2);
}

static int urgency(const struct play *play, size_t operation) {
    return copy_of(play, operation) ? 0 : abs(play->run->launches.data[operation].priority);
}

static bool comes_first(const struct play *play, size_t node, int phase, size_t one, size_t other) {
    int here = urgency(play, one), there = urgency(play, other);
    if (is_elsewhere(play, node, one) != is_elsewhere(play, node, other))
        return is_elsewhere(play, node, other);
    if (phase && here != there)
        return here > there;
    if (phase == 2)
        return place_of(play, one) > place_of(play, other);
    size_t behind, rank = rank_of(play, node, one, &behind), other_rank = rank_of(play, node, other, &behind);
    return rank != other_rank ? rank < other_rank : place_of(play, one) < place_of(play, other);
}

/* The blocks of a kernel of the driver take SMs, of a green context if one is given, as far as they fit. */
static void start_hidden(struct play *play, const gs_shape *shape, int64_t blocks, size_t serving) {
    gs_launch launch = gs_launch_default();
    launch.shape = *shape;
    struct tb tb = make_tb(play->gpu, &launch);
    int *sms = allocate(3 * (size_t)blocks + 1, sizeof *sms), *rooms = sms + blocks, *order = rooms + blocks;
    int count = 0, room = 0, next = 0;
    memset(play->closed, 0, (size_t)play->gpu->sms * sizeof *play->closed);
    play->serving = serving;
    while (count < blocks && (sms[count] = choose(play, &tb, &room)) != GS_WAIT) {
        rooms[count] = room;
        occupy(play, &tb, SIZE_MAX, sms[count++], room);
    }
    next = choose(play, &tb, &room);
    if (count && play->gpu->mechanisms.numbering == GS_NUMBERED_BY_GRANT)
        literal_number(play->gpu, sms, rooms, count, next != GS_WAIT && room == rooms[count - 1], &play->turns, order);
    free(sms);
}

static void end_hidden(struct play *play) {
    for (size_t i = 0; i < play->block_count;)
        if (play->blocks[i]->launch == SIZE_MAX)
            end(play, i);
        else
            i++;
}

/* Releases an operation that was held back: a launch enters the queue, the kernel of a memory node takes its SMs. */
static void come(struct play *play, bool *held, size_t operation) {
    held[operation] = false;
    if (!copy_of(play, operation)) {
        play->operations[operation].is_ready = true;
        play->operations[operation].ready_at = play->event + ++play->entered;
        serve(play);
    } else if (next_waiting(play, SIZE_MAX) == SIZE_MAX) {
        const gs_memory_kernel *kernel =
            &play->gpu->memory_kernels[copy_of(play, operation)->is_memset ? GS_MEMORY_SET : GS_MEMORY_COPY];
        gs_shape shape = gs_shape_of(kernel->threads, kernel->registers, GS_BARE);
        start_hidden(play, &shape, memory_blocks(play, operation), play->run->launches.count);
    }
}

/* Whether an operation has become ready, and needs SMs. */
static bool has_come(const struct play *play, size_t operation) {
    const struct operation *one = &play->operations[operation];
    return copy_of(play, operation)
               ? is_memory_node(play, operation) && memory_blocks(play, operation) && one->is_copying && !one->is_over
               : one->is_ready;
}

/* Notes the operations that are ready; later ones are held back. */
static bool *note_come(const struct play *play) {
    bool *held = allocate(operation_count(play) + 1, sizeof *held);
    for (size_t i = 0; i < operation_count(play); i++)
        held[i] = !has_come(play, i);
    return held;
}

static void hold_back(struct play *play, bool *held) {
    for (size_t i = 0; i < operation_count(play); i++) {
        held[i] = held[i] && has_come(play, i);
        if (held[i] && !copy_of(play, i))
            play->operations[i].is_ready = false;
    }
}

/* Releases the operations that became ready since `held` was noted: one after the other if there are kernels of memory
   nodes. */
static void come_in_order(struct play *play, bool *held) {
    bool has_memory = false;
    for (size_t i = play->run->launches.count; i < operation_count(play); i++)
        has_memory = has_memory || (held[i] && has_come(play, i));
    if (has_memory)
        hold_back(play, held);
    while (has_memory) {
        size_t next = SIZE_MAX;
        for (size_t i = 0; i < operation_count(play); i++)
            if (held[i] && (next == SIZE_MAX || place_of(play, i) < place_of(play, next)))
                next = i;
        if (next == SIZE_MAX)
            break;
        come(play, held, next);
        end_hidden(play);
    }
    free(held);
    serve(play);
}

/* Releases the held operations of this phase, one after the other. */
static void release(struct play *play, bool *held, size_t node, int phase) {
    for (;;) {
        size_t next = SIZE_MAX;
        for (size_t i = 0; i < operation_count(play); i++)
            if (held[i] && phase_of(play, node, i) == phase &&
                (next == SIZE_MAX || comes_first(play, node, phase, i, next)))
                next = i;
        if (next == SIZE_MAX)
            return;
        come(play, held, next);
    }
}

/* Starts the block that signals the end of a node, if there is room for it. */
static void signal_end(struct play *play, size_t node) {
    gs_shape shape = gs_shape_of(play->gpu->join.threads, play->gpu->join.registers, GS_BARE);
    if ((has_signaled(play, node) || has_many(play, node)) && next_waiting(play, SIZE_MAX) == SIZE_MAX)
        start_hidden(play, &shape, 1, copy_of(play, node) ? play->run->launches.count : node);
}

/* Called when a node of a graph has ended: releases its children in order. */
static void node_over(struct play *play, size_t node) {
    bool *held = note_come(play);
    operation_over(play, node);
    hold_back(play, held);
    release(play, held, node, 0);
    signal_end(play, node);
    release(play, held, node, 1);
    end_hidden(play);
    serve(play);
    release(play, held, node, 2);
    end_hidden(play);
    free(held);
}

static bool ends_in_order(const struct play *play, size_t operation) {
    return play->gpu->join.threads && are_nodes_of_one_graph(play, operation, operation) &&
           takes_sms(play, operation) && (copy_of(play, operation) || !play->run->launches.data[operation].duration_ns);
}

/* Called when an operation has ended: releases the operations that wait for it. */
static void over_in_order(struct play *play, size_t operation) {
    if (ends_in_order(play, operation)) {
        node_over(play, operation);
        return;
    }
    bool *held = note_come(play);
    operation_over(play, operation);
    come_in_order(play, held);
}

static void leave(struct play *play, size_t launch) {
    if (play->run->launches.data[launch].duration_ns)
        while (!play->tbs[launch].gone && pass_time(play))
            ;
    for (size_t i = 0; i < play->block_count;)
        if (play->blocks[i]->launch == launch)
            end(play, i);
        else
            i++;
    bool was_gone = play->tbs[launch].gone;
    play->tbs[launch].gone = true;
    if (!was_gone) {
        serve(play);
        over_in_order(play, launch);
    }
    serve(play);
}

static void end_memory_node(struct play *play, size_t node) {
    play->usual = play->operations[node].usual_end > play->usual ? play->operations[node].usual_end : play->usual;
    play->entered++;
    over_in_order(play, node);
    serve(play);
}

/* Ends the copies of graphs without times that end until then, one after the other, and releases the operations that
   wait for them. */
static void end_memory_nodes(struct play *play, int64_t until) {
    for (;;) {
        size_t next = SIZE_MAX;
        for (size_t i = play->run->launches.count; i < operation_count(play); i++)
            if (is_memory_node(play, i) && play->operations[i].is_copying && !play->operations[i].is_over &&
                (next == SIZE_MAX || play->operations[i].usual_end < play->operations[next].usual_end))
                next = i;
        if (next == SIZE_MAX || play->operations[next].usual_end > until)
            return;
        end_memory_node(play, next);
    }
}

/* ---- a whole run ---- */

static long *empty_map(int size) {
    long *map = allocate((size_t)size + 1, sizeof *map);
    for (int i = 0; i < size; i++)
        map[i] = NOBODY;
    return map;
}

static void set_up(struct play *play) {
    const gs_gpu *gpu = play->gpu;
    size_t sms = (size_t)gpu->sms;
    play->tbs = allocate(play->run->launches.count + 1, sizeof *play->tbs);
    play->sms = allocate(sms, sizeof *play->sms);
    play->config_s = allocate(sms, sizeof *play->config_s);
    play->warm = allocate(sms, sizeof *play->warm);
    play->closed = allocate(sms, sizeof *play->closed);
    play->order = allocate(sms, sizeof *play->order);
    gs_gpu_tie_order(gpu, play->order);
    for (size_t i = 0; i < sms; i++) {
        play->sms[i].b = gpu->limits.blocks_per_sm;
        play->sms[i].shared_map = empty_map(gpu->largest_config_bytes / gpu->limits.shared_granularity_bytes);
        for (int p = 0; p < gpu->limits.partitions_per_sm; p++) {
            play->sms[i].w[p] = gpu->limits.threads_per_sm / gpu->limits.warp_threads / gpu->limits.partitions_per_sm;
            play->sms[i].register_map[p] = empty_map(gpu->registers_per_partition);
        }
    }
}

static void clean_up(struct play *play) {
    for (int i = 0; i < play->gpu->sms; i++) {
        free(play->sms[i].shared_map);
        for (int p = 0; p < play->gpu->limits.partitions_per_sm; p++)
            free(play->sms[i].register_map[p]);
    }
    for (size_t i = 0; i < play->block_count; i++)
        free(play->blocks[i]);
    free(play->blocks);
    free(play->tbs);
    free(play->sms);
    free(play->config_s);
    free(play->warm);
    free(play->closed);
    free(play->order);
}

static void wait_for_host(struct play *play, const gs_issue *issue) {
    if (issue->at_ns == GS_NO_TIME)
        return;
    int64_t time = issue->at_ns + play->pace.latency_ns;
    while (next_time(play) <= time)
        pass_time(play);
    play->now = time > play->now ? time : play->now;
}

/* Whether the last launch that waits in a connection is of this stream. */
static bool ends_with(const struct play *play, int connection, const char *stream) {
    size_t last = SIZE_MAX;
    for (size_t i = 0; i < play->run->launches.count; i++) {
        const struct operation *other = &play->operations[i];
        if (other->is_issued && other->connection == connection && !other->is_ready && !other->is_over &&
            (last == SIZE_MAX || other->order > play->operations[last].order))
            last = i;
    }
    return last != SIZE_MAX && stream_of(play, last) && strcmp(stream_of(play, last), stream) == 0;
}

/* When a launch was last sent through a connection; -1: never. */
static int last_use(const struct play *play, int connection) {
    int last = -1;
    for (size_t i = 0; i < play->run->launches.count; i++) {
        const struct operation *other = &play->operations[i];
        if (other->is_issued && other->connection == connection && other->order > last)
            last = other->order;
    }
    return last;
}

/* The connection that was used the longest time ago, if possible one in which nothing waits. */
static int unused_longest(const struct play *play) {
    int found = -1;
    for (int must_be_free = 1; must_be_free >= 0 && found < 0; must_be_free--)
        for (int i = 0; i < play->run->connections; i++)
            if ((!must_be_free || !waits_in(play, i, INT32_MAX)) &&
                (found < 0 || last_use(play, i) < last_use(play, found)))
                found = i;
    return found;
}

/* The connection of a launch: that of its stream if it is not idle and nothing of others was sent there last. */
static int connection_of(struct play *play, size_t launch) {
    const gs_launch *which = &play->run->launches.data[launch];
    int connection = -1;
    bool is_idle = true;
    if (!play->run->connections || gs_run_is_timed(play->run) ||
        (which->issue.facts && which->issue.facts->graph != GS_NOT_GIVEN))
        return -1;
    for (size_t i = 0, last = SIZE_MAX; i < operation_count(play); i++) {
        const struct operation *other = &play->operations[i];
        if (i == launch || !other->is_issued || !which->stream || !stream_of(play, i) ||
            strcmp(stream_of(play, i), which->stream) != 0)
            continue;
        is_idle = is_idle && other->is_over;
        if (i < play->run->launches.count && (last == SIZE_MAX || other->order > play->operations[last].order)) {
            last = i;
            connection = other->connection;
        }
    }
    bool stays = !is_idle && connection >= 0 &&
                 (!waits_in(play, connection, INT32_MAX) || ends_with(play, connection, which->stream));
    return stays ? connection : unused_longest(play);
}

/* Nodes of a graph without times that wait for nothing come 1.1 us after each other, and copies end in between. */
static void pass_node(struct play *play, const gs_issue *issue) {
    if (!issue->facts || issue->facts->graph == GS_NOT_GIVEN || issue->at_ns != GS_NO_TIME || issue->after_count)
        return;
    play->usual += 1100;
    end_memory_nodes(play, play->usual);
}

static void issue(struct play *play, size_t operation) {
    wait_for_host(play, issue_of(play, operation));
    pass_node(play, issue_of(play, operation));
    bool *held = note_come(play);
    play->operations[operation].connection =
        operation < play->run->launches.count ? connection_of(play, operation) : -1;
    play->operations[operation].is_issued = true;
    play->operations[operation].arrived = play->now;
    play->operations[operation].order = play->issued++;
    settle(play);
    come_in_order(play, held);
}

static void issue_copies(struct play *play, size_t before) {
    while (play->copies_issued < play->run->copies.count &&
           play->run->copies.data[play->copies_issued].before <= before)
        issue(play, play->run->launches.count + play->copies_issued++);
}

/* A launch with its graph: the copies behind it, and when it is the last node, the end of all copies that can end. */
static void issue_launch(struct play *play, size_t launch) {
    const gs_run *run = play->run;
    issue_copies(play, launch);
    issue(play, launch);
    if (!are_nodes_of_one_graph(play, launch, launch))
        return;
    while (play->copies_issued < run->copies.count && run->copies.data[play->copies_issued].before <= launch + 1 &&
           is_memory_node(play, run->launches.count + play->copies_issued) &&
           run->copies.data[play->copies_issued].issue.facts->graph == run->launches.data[launch].issue.facts->graph)
        issue(play, run->launches.count + play->copies_issued++);
    bool is_last = launch + 1 == run->launches.count || !are_nodes_of_one_graph(play, launch, launch + 1) ||
                   run->launches.data[launch + 1].event != play->event + 1;
    if (is_last)
        end_memory_nodes(play, INT64_MAX);
}

int literal_turn;

/* All turns in their order: those of the others change first, and those of the groups that go first last. */
static literal_turns begin_turns(const gs_gpu *gpu) {
    literal_turns turns = {0};
    for (int left = literal_turn; left > 0; left--) {
        turns.other++;
        if (turns.other == gpu->grants.groups.count - gpu->grants.first)
            turns.other = 0, turns.part++;
        if (turns.part > 0 && turns.part >= gpu->grants.cluster_first.count)
            turns.part = 0, turns.first++;
    }
    return turns;
}

void literal_play_program(const gs_gpu *gpu, const gs_run *run, const gs_pace *pace, gs_log *log,
                          literal_times *times) {
    struct play play = {
        .gpu = gpu, .run = run, .log = log, .pace = *pace, .kept = {SIZE_MAX, SIZE_MAX}, .turns = begin_turns(gpu)};
    set_up(&play);
    play.operations = allocate(operation_count(&play) + 1, sizeof *play.operations);
    for (size_t i = 0; i < operation_count(&play); i++) {
        times[i] = (literal_times){GS_NO_TIME, GS_NO_TIME, GS_NO_TIME};
        play.operations[i].times = &times[i];
    }
    for (play.event = 0; play.event < run->events.count; play.event++) {
        size_t launch = run->events.data[play.event].launch;
        if (run->events.data[play.event].op == GS_LAUNCH) {
            play.tbs[launch] = make_tb(gpu, &run->launches.data[launch]);
            issue_launch(&play, launch);
        } else if (run->events.data[play.event].op == GS_EXIT && !play.tbs[launch].gone) {
            leave(&play, launch);
            end_memory_nodes(&play, INT64_MAX);
        }
    }
    issue_copies(&play, run->launches.count);
    while (pass_time(&play))
        ;
    free(play.operations);
    clean_up(&play);
}

void literal_play(const gs_gpu *gpu, const gs_run *run, gs_log *log) {
    gs_pace pace = {0};
    literal_times *times = allocate(run->launches.count + run->copies.count + 1, sizeof *times);
    literal_play_program(gpu, run, &pace, log, times);
    free(times);
}
