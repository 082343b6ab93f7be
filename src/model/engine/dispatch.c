/*
 * dispatch.c: the SM of the next block, in constant time.
 *
 * Each kernel shape in use has a table: the headroom of every SM, and for each amount of headroom the set of SMs that
 * have it, as bits in tie order. The next SM is the first bit of the highest set that is not empty. Finding it takes
 * three instructions that count zeros, for any number of SMs.
 *
 * Tables are updated, not recomputed. Placing or releasing a block changes the headroom of one SM, or of its whole TPC
 * when that becomes busy or idle. The dispatcher notes the changed SMs in a journal, and a table catches up with the
 * journal when it is used next. A table that is far behind is recomputed. Only a few tables are kept, because few
 * kernels are active at a time; the others are computed again when needed.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum {
    WORD_BITS = 64,
    MOST_WORDS = GS_MAX_SMS / WORD_BITS, /* so that one summary word covers a set */
    MOST_TABLES = 16,
    JOURNAL = 1024 /* a power of two */
};

/* The SMs with one amount of headroom: bit i stands for the i-th SM in tie order. */
struct set {
    uint64_t summary; /* which words are not zero */
    uint64_t *words;
};

struct table {
    int32_t kernel;    /* -1: not in use */
    bool is_old;       /* more has changed than the journal says */
    uint64_t seen;     /* changes of the journal up to which it is current */
    uint64_t levels;   /* bit n - 1: the set of headroom n is not empty */
    uint8_t *headroom; /* by SM */
    struct set sets[GS_MAX_BLOCKS_PER_SM];
    uint64_t *words; /* the memory of all sets */
};

struct kernel {
    gs_need need;
    int32_t table;     /* -1: none */
    int32_t same_hash; /* the next kernel in its bucket, or -1 */
};

enum { BUCKETS = 256 };

struct gs_dispatcher {
    const gs_gpu *gpu;
    gs_state state;
    bool turns;        /* round-robin: any SM with headroom, the next in turn */
    bool is_regular;   /* a block takes away the headroom of one block of its kernel, on an SM that was not idle */
    int32_t turn;      /* round-robin: the position in tie order of the next SM */
    int32_t words;     /* of a set */
    int16_t *order;    /* SMs in tie order */
    int16_t *position; /* where an SM is in it */
    uint64_t changes;  /* written to the journal so far */
    int16_t *journal;  /* the last JOURNAL of the SMs whose headroom may have changed */
    struct kernel *kernels;
    size_t kernel_count, kernel_capacity;
    int32_t buckets[BUCKETS];
    struct table tables[MOST_TABLES];
    int32_t next_table;       /* the one to reuse next */
    int16_t warm[GS_MAX_SMS]; /* groups that may be warm */
    bool is_listed[GS_MAX_SMS];
    int32_t warm_count;
    gs_launched *launched; /* kept for launched.c; NULL: there are no launches */
};

/* ---- sets ---- */

static inline void set_add(struct set *set, int32_t bit) {
    set->words[bit / WORD_BITS] |= (uint64_t)1 << bit % WORD_BITS;
    set->summary |= (uint64_t)1 << bit / WORD_BITS;
}

static inline void set_remove(struct set *set, int32_t bit) {
    set->words[bit / WORD_BITS] &= ~((uint64_t)1 << bit % WORD_BITS);
    if (!set->words[bit / WORD_BITS])
        set->summary &= ~((uint64_t)1 << bit / WORD_BITS);
}

static inline int32_t set_first(const struct set *set) {
    int32_t word = __builtin_ctzll(set->summary);
    return word * WORD_BITS + __builtin_ctzll(set->words[word]);
}

/* The first bit at or after `from`, or the first of all if there is none. The set is not empty. */
static int32_t set_first_from(const struct set *set, int32_t from) {
    int32_t word = from / WORD_BITS;
    uint64_t here = set->words[word] & ~(uint64_t)0 << from % WORD_BITS;
    if (here)
        return word * WORD_BITS + __builtin_ctzll(here);
    uint64_t later = word + 1 < WORD_BITS ? set->summary & ~(uint64_t)0 << (word + 1) : 0;
    if (!later)
        return set_first(set);
    word = __builtin_ctzll(later);
    return word * WORD_BITS + __builtin_ctzll(set->words[word]);
}

/* ---- tables ---- */

/* For round-robin it only matters whether an SM has headroom. */
static inline int32_t level_of(const gs_dispatcher *dispatcher, int32_t headroom) {
    return dispatcher->turns && headroom > 1 ? 1 : headroom;
}

static inline void table_set(gs_dispatcher *dispatcher, struct table *table, int32_t sm, int32_t headroom) {
    int32_t was = table->headroom[sm];
    if (headroom == was)
        return;
    int32_t bit = dispatcher->position[sm];
    if (was) {
        set_remove(&table->sets[was - 1], bit);
        if (!table->sets[was - 1].summary)
            table->levels &= ~((uint64_t)1 << (was - 1));
    }
    if (headroom) {
        set_add(&table->sets[headroom - 1], bit);
        table->levels |= (uint64_t)1 << (headroom - 1);
    }
    table->headroom[sm] = (uint8_t)headroom;
}

static inline void table_update(gs_dispatcher *dispatcher, struct table *table, int32_t sm) {
    const gs_need *need = &dispatcher->kernels[table->kernel].need;
    table_set(dispatcher, table, sm, level_of(dispatcher, gs_state_headroom(&dispatcher->state, need, sm)));
}

static void table_catch_up(gs_dispatcher *dispatcher, struct table *table) {
    uint64_t behind = dispatcher->changes - table->seen;
    if (table->is_old || behind > JOURNAL || behind > (uint64_t)dispatcher->gpu->sms) {
        for (int32_t sm = 0; sm < dispatcher->gpu->sms; sm++)
            table_update(dispatcher, table, sm);
    } else {
        for (; table->seen < dispatcher->changes; table->seen++)
            table_update(dispatcher, table, dispatcher->journal[table->seen & (JOURNAL - 1)]);
    }
    table->seen = dispatcher->changes;
    table->is_old = false;
}

static void make_tables_old(gs_dispatcher *dispatcher) {
    for (int32_t i = 0; i < MOST_TABLES; i++)
        dispatcher->tables[i].is_old = true;
}

/* Empties a table, which is then recomputed. */
static void table_clear(gs_dispatcher *dispatcher, struct table *table, int32_t kernel) {
    size_t sets = (size_t)dispatcher->gpu->limits.blocks_per_sm, words = (size_t)dispatcher->words;
    memset(table->headroom, 0, (size_t)dispatcher->gpu->sms);
    memset(table->words, 0, sets * words * sizeof *table->words);
    for (size_t i = 0; i < sets; i++)
        table->sets[i] = (struct set){0, table->words + i * words};
    table->levels = 0;
    table->kernel = kernel;
    table->is_old = true;
}

static struct table *table_of(gs_dispatcher *dispatcher, int32_t number) {
    struct kernel *kernel = &dispatcher->kernels[number];
    if (kernel->table < 0) {
        struct table *table = &dispatcher->tables[dispatcher->next_table];
        if (table->kernel >= 0)
            dispatcher->kernels[table->kernel].table = -1;
        table_clear(dispatcher, table, number);
        kernel->table = dispatcher->next_table;
        dispatcher->next_table = (dispatcher->next_table + 1) % MOST_TABLES;
    }
    struct table *table = &dispatcher->tables[kernel->table];
    table_catch_up(dispatcher, table);
    return table;
}

/* ---- making a dispatcher ---- */

static bool table_allocate(const gs_dispatcher *dispatcher, struct table *table) {
    table->kernel = -1;
    table->headroom = malloc((size_t)dispatcher->gpu->sms);
    table->words = malloc(sizeof *table->words * GS_MAX_BLOCKS_PER_SM * (size_t)dispatcher->words);
    return table->headroom && table->words;
}

static bool dispatcher_allocate(gs_dispatcher *dispatcher) {
    size_t sms = (size_t)dispatcher->gpu->sms;
    dispatcher->order = malloc(sms * sizeof *dispatcher->order);
    dispatcher->position = malloc(sms * sizeof *dispatcher->position);
    dispatcher->journal = calloc(JOURNAL, sizeof *dispatcher->journal);
    bool allocated = dispatcher->order && dispatcher->position && dispatcher->journal;
    for (int32_t i = 0; i < MOST_TABLES; i++)
        allocated = table_allocate(dispatcher, &dispatcher->tables[i]) && allocated;
    return allocated;
}

gs_dispatcher *gs_dispatcher_new(const gs_gpu *gpu, gs_error *error) {
    gs_dispatcher *dispatcher = calloc(1, sizeof *dispatcher);
    if (!dispatcher) {
        gs_fail_memory(error);
        return NULL;
    }
    dispatcher->gpu = gpu;
    dispatcher->turns = gpu->mechanisms.placement == GS_PLACEMENT_ROUND_ROBIN;
    dispatcher->is_regular =
        !dispatcher->turns && gpu->mechanisms.warp_placement == GS_WARPS_STRICT &&
        gpu->mechanisms.registers != GS_REGISTERS_CONTIGUOUS &&
        (gpu->mechanisms.shared_allocation == GS_SPACE_RING || gpu->mechanisms.shared_allocation == GS_SPACE_COUNTED);
    dispatcher->words = (gpu->sms + WORD_BITS - 1) / WORD_BITS;
    memset(dispatcher->buckets, -1, sizeof dispatcher->buckets);
    if (!dispatcher_allocate(dispatcher) || gs_state_init(&dispatcher->state, gpu, error) != GS_OK) {
        gs_dispatcher_free_sms(dispatcher);
        gs_fail_memory(error);
        return NULL;
    }
    gs_gpu_tie_order(gpu, dispatcher->order);
    for (int32_t i = 0; i < gpu->sms; i++)
        dispatcher->position[dispatcher->order[i]] = (int16_t)i;
    return dispatcher;
}

void gs_dispatcher_free_sms(gs_dispatcher *dispatcher) {
    if (!dispatcher)
        return;
    for (int32_t i = 0; i < MOST_TABLES; i++) {
        free(dispatcher->tables[i].headroom);
        free(dispatcher->tables[i].words);
    }
    gs_state_free(&dispatcher->state);
    free(dispatcher->order);
    free(dispatcher->position);
    free(dispatcher->journal);
    free(dispatcher->kernels);
    free(dispatcher);
}

/* ---- kernels ---- */

static size_t bucket_of(const gs_shape *shape) {
    const int64_t numbers[] = {shape->threads, shape->registers, shape->shared_bytes, shape->local_bytes,
                               shape->carveout_percent};
    return gs_hash(0, numbers, sizeof numbers) & (BUCKETS - 1);
}

int gs_dispatcher_kernel(gs_dispatcher *dispatcher, const gs_shape *shape, gs_error *error) {
    int32_t *bucket = &dispatcher->buckets[bucket_of(shape)];
    for (int32_t i = *bucket; i >= 0; i = dispatcher->kernels[i].same_hash)
        if (gs_shape_equal(&dispatcher->kernels[i].need.shape, shape))
            return i;
    struct kernel fresh = {.table = -1, .same_hash = *bucket};
    if (gs_need_of(dispatcher->gpu, shape, &fresh.need, error) != GS_OK)
        return -1;
    if (!gs_array_reserve((void **)&dispatcher->kernels, dispatcher->kernel_count, &dispatcher->kernel_capacity, 1,
                          sizeof *dispatcher->kernels)) {
        gs_fail_memory(error);
        return -1;
    }
    *bucket = (int32_t)dispatcher->kernel_count;
    dispatcher->kernels[dispatcher->kernel_count] = fresh;
    return (int)dispatcher->kernel_count++;
}

/* ---- choosing, placing, releasing ---- */

bool gs_dispatcher_knows(const gs_dispatcher *dispatcher, int kernel) {
    return kernel >= 0 && (size_t)kernel < dispatcher->kernel_count;
}

int gs_dispatcher_choose(gs_dispatcher *dispatcher, int kernel, int32_t *headroom) {
    const struct table *table = table_of(dispatcher, kernel);
    if (!table->levels || gs_state_local_waits(&dispatcher->state, &dispatcher->kernels[kernel].need))
        return GS_WAIT;
    int32_t level = WORD_BITS - 1 - __builtin_clzll(table->levels);
    *headroom = level + 1;
    if (dispatcher->turns)
        return dispatcher->order[set_first_from(&table->sets[0], dispatcher->turn)];
    return dispatcher->order[set_first(&table->sets[level])];
}

int gs_dispatcher_choose_among(gs_dispatcher *dispatcher, int kernel, const bool *open, int32_t *headroom) {
    int32_t sms = dispatcher->gpu->sms, at = dispatcher->turns ? dispatcher->turn : 0;
    const struct table *table = table_of(dispatcher, kernel);
    int best = GS_WAIT;
    *headroom = 0;
    if (gs_state_local_waits(&dispatcher->state, &dispatcher->kernels[kernel].need))
        return GS_WAIT;
    for (int32_t i = 0; i < sms; i++, at = at + 1 < sms ? at + 1 : 0) {
        int32_t sm = dispatcher->order[at];
        if (table->headroom[sm] > *headroom && open[sm]) {
            *headroom = table->headroom[sm];
            best = sm;
        }
    }
    return best;
}

int32_t gs_dispatcher_headroom(const gs_dispatcher *dispatcher, int kernel, int32_t sm) {
    const gs_need *need = &dispatcher->kernels[kernel].need;
    return gs_state_local_waits(&dispatcher->state, need) ? 0 : gs_state_headroom(&dispatcher->state, need, sm);
}

static inline void note_change(gs_dispatcher *dispatcher, int32_t sm) {
    dispatcher->journal[dispatcher->changes++ & (JOURNAL - 1)] = (int16_t)sm;
}

static void note_changes(gs_dispatcher *dispatcher, int32_t sm, bool group_changed) {
    if (!group_changed) {
        note_change(dispatcher, sm);
        return;
    }
    const gs_group *group = &dispatcher->state.groups[dispatcher->state.sms[sm].group];
    for (int32_t i = group->first_sm; i < group->first_sm + group->sms; i++)
        note_change(dispatcher, i);
}

/* If the table is current, as it is after gs_dispatcher_choose, nothing need be computed. */
static bool has_headroom(const gs_dispatcher *dispatcher, int kernel, int sm) {
    int32_t number = dispatcher->kernels[kernel].table;
    const struct table *table = number < 0 ? NULL : &dispatcher->tables[number];
    if (!table || table->seen != dispatcher->changes)
        return gs_dispatcher_headroom(dispatcher, kernel, sm) > 0;
    return table->headroom[sm] && !gs_state_local_waits(&dispatcher->state, &dispatcher->kernels[kernel].need);
}

/* The headroom for other kernels is looked at when it is asked for; that for this kernel is often known. */
static inline void note_placed(gs_dispatcher *dispatcher, int kernel, int32_t sm, bool group_changed) {
    int32_t number = dispatcher->kernels[kernel].table;
    struct table *table = number < 0 ? NULL : &dispatcher->tables[number];
    bool is_known = table && table->seen == dispatcher->changes && dispatcher->is_regular && !group_changed;
    note_changes(dispatcher, sm, group_changed);
    if (!is_known)
        return;
    table_set(dispatcher, table, sm, table->headroom[sm] - 1);
    table->seen = dispatcher->changes;
}

/* The last block went to this SM. */
static inline void set_turn(gs_dispatcher *dispatcher, int32_t sm) {
    int32_t next = dispatcher->position[sm] + 1;
    dispatcher->turn = next == dispatcher->gpu->sms ? 0 : next;
}

static inline int place(gs_dispatcher *dispatcher, int kernel, int sm, bool in_cluster) {
    if (sm < 0 || sm >= dispatcher->gpu->sms || !has_headroom(dispatcher, kernel, sm))
        return -1;
    const gs_need *need = &dispatcher->kernels[kernel].need;
    bool group_changed;
    int32_t handle = gs_state_place(&dispatcher->state, need, kernel, sm, in_cluster, &group_changed);
    note_placed(dispatcher, kernel, sm, group_changed);
    set_turn(dispatcher, sm);
    return handle;
}

int gs_dispatcher_put(gs_dispatcher *dispatcher, int kernel, int sm) {
    return place(dispatcher, kernel, sm, false);
}

int gs_dispatcher_place_in_cluster(gs_dispatcher *dispatcher, int kernel, int sm) {
    return place(dispatcher, kernel, sm, true);
}

static void list_warm(gs_dispatcher *dispatcher, int32_t group) {
    if (!dispatcher->state.groups[group].is_warm || dispatcher->is_listed[group])
        return;
    dispatcher->is_listed[group] = true;
    dispatcher->warm[dispatcher->warm_count++] = (int16_t)group;
}

void gs_dispatcher_end(gs_dispatcher *dispatcher, int block) {
    if (block < 0 || block >= dispatcher->gpu->sms * dispatcher->gpu->limits.blocks_per_sm)
        return;
    const gs_resident *resident = &dispatcher->state.residents[block];
    if (resident->need < 0)
        return;
    int32_t sm = resident->sm;
    bool group_changed;
    gs_state_release(&dispatcher->state, &dispatcher->kernels[resident->need].need, block, &group_changed);
    list_warm(dispatcher, dispatcher->state.sms[sm].group);
    note_changes(dispatcher, sm, group_changed);
}

/* ---- blocks that take the place of others ---- */

bool gs_dispatcher_is_full(gs_dispatcher *dispatcher, int kernel) {
    return !table_of(dispatcher, kernel)->levels;
}

int32_t gs_dispatcher_replace(gs_dispatcher *dispatcher, int block, int kernel, gs_placement *placed) {
    gs_state *state = &dispatcher->state;
    int32_t sm = state->residents[block].sm, count = 0;
    const gs_need *need = &dispatcher->kernels[kernel].need;
    const gs_group *group = &state->groups[state->sms[sm].group];
    if (group->residents == 1 && group->sms > 1)
        return -1;
    bool group_changed;
    gs_state_release(state, &dispatcher->kernels[state->residents[block].need].need, block, &group_changed);
    for (int32_t headroom = gs_state_headroom(state, need, sm); headroom;) {
        placed[count] = (gs_placement){.sm = sm, .headroom = headroom};
        placed[count++].handle = gs_state_place(state, need, kernel, sm, false, &group_changed);
        headroom = dispatcher->is_regular && !group_changed ? headroom - 1 : gs_state_headroom(state, need, sm);
    }
    if (count)
        set_turn(dispatcher, sm);
    note_change(dispatcher, sm);
    return count;
}

bool gs_dispatcher_stays_full(gs_dispatcher *dispatcher, int kernel, int32_t sm) {
    int32_t *pointer = &dispatcher->state.sms[sm].pointer, kept = *pointer;
    bool is_full = true;
    for (*pointer = 0; *pointer < dispatcher->gpu->limits.partitions_per_sm && is_full; ++*pointer)
        is_full = !gs_state_headroom(&dispatcher->state, &dispatcher->kernels[kernel].need, sm);
    *pointer = kept;
    return is_full;
}

void gs_dispatcher_replaced(gs_dispatcher *dispatcher, int kernel) {
    dispatcher->tables[dispatcher->kernels[kernel].table].seen = dispatcher->changes;
}

void gs_dispatcher_step_pointers(gs_dispatcher *dispatcher, const int32_t *steps, int64_t times, int32_t last_sm) {
    gs_sm *sms = dispatcher->state.sms;
    int32_t partitions = dispatcher->gpu->limits.partitions_per_sm;
    for (int32_t i = 0; i < dispatcher->gpu->sms; i++) {
        sms[i].pointer = (int32_t)((sms[i].pointer + times % partitions * steps[i]) % partitions);
        if (steps[i])
            note_change(dispatcher, i);
    }
    set_turn(dispatcher, last_sm);
}

int gs_dispatcher_resident(const gs_dispatcher *dispatcher, int sm) {
    if (sm < 0 || sm >= dispatcher->gpu->sms)
        return 0;
    return dispatcher->gpu->limits.blocks_per_sm - dispatcher->state.sms[sm].block_slots;
}

int gs_dispatcher_resident_all(const gs_dispatcher *dispatcher) {
    return dispatcher->state.resident_count;
}

void gs_dispatcher_settle(gs_dispatcher *dispatcher) {
    for (int32_t i = 0; i < dispatcher->warm_count; i++) {
        int32_t group = dispatcher->warm[i];
        dispatcher->is_listed[group] = false;
        if (dispatcher->state.groups[group].is_warm) {
            gs_state_cool(&dispatcher->state, group);
            note_changes(dispatcher, dispatcher->state.groups[group].first_sm, true);
        }
    }
    dispatcher->warm_count = 0;
}

bool gs_dispatcher_remembers(const gs_dispatcher *dispatcher, gs_remembered *remembered) {
    *remembered = (gs_remembered){dispatcher->turns ? dispatcher->turn : 0, -1, 0};
    for (int32_t i = 0; i < dispatcher->warm_count; i++) {
        const gs_group *group = &dispatcher->state.groups[dispatcher->warm[i]];
        if (group->is_warm && remembered->warm_group >= 0)
            return false;
        if (group->is_warm)
            *remembered = (gs_remembered){remembered->turn, dispatcher->warm[i], group->config_bytes};
    }
    return true;
}

void gs_dispatcher_warm(gs_dispatcher *dispatcher, int32_t group, int32_t config_bytes) {
    gs_state_warm(&dispatcher->state, group, config_bytes);
    list_warm(dispatcher, group);
    note_changes(dispatcher, dispatcher->state.groups[group].first_sm, true);
}

void gs_dispatcher_leave(gs_dispatcher *dispatcher, int kernel, const gs_remembered *remembered, const gs_mark *moves) {
    gs_dispatcher_settle(dispatcher);
    gs_state_move(&dispatcher->state, moves);
    gs_dispatcher_grow_local(dispatcher, dispatcher->kernels[kernel].need.shape.local_bytes);
    if (dispatcher->turns)
        dispatcher->turn = remembered->turn;
    if (remembered->warm_group >= 0)
        gs_dispatcher_warm(dispatcher, remembered->warm_group, remembered->warm_bytes);
    if (dispatcher->state.resident_count)
        make_tables_old(dispatcher); /* pointers matter where blocks are */
}

gs_launched *gs_dispatcher_launched(const gs_dispatcher *dispatcher) {
    return dispatcher->launched;
}

void gs_dispatcher_keep_launched(gs_dispatcher *dispatcher, gs_launched *launched) {
    dispatcher->launched = launched;
}

int32_t gs_dispatcher_sm(const gs_dispatcher *dispatcher, int block) {
    return dispatcher->state.residents[block].sm;
}

void gs_dispatcher_grow_local(gs_dispatcher *dispatcher, int64_t bytes) {
    dispatcher->state.local_bytes = gs_max(dispatcher->state.local_bytes, bytes);
}

const gs_state *gs_dispatcher_state(const gs_dispatcher *dispatcher) {
    return &dispatcher->state;
}

const gs_need *gs_dispatcher_need(const gs_dispatcher *dispatcher, int kernel) {
    return &dispatcher->kernels[kernel].need;
}

void gs_dispatcher_image(const gs_dispatcher *dispatcher, const int32_t *handles, const int32_t *names,
                         gs_text *image) {
    gs_text_put(image, (const char *)&dispatcher->turn, sizeof dispatcher->turn);
    gs_state_image(&dispatcher->state, handles, names, image);
}

void gs_dispatcher_keep_kernels(gs_dispatcher *to, const gs_dispatcher *from) {
    size_t same = 0;
    while (same < to->kernel_count && same < from->kernel_count &&
           gs_shape_equal(&to->kernels[same].need.shape, &from->kernels[same].need.shape))
        same++;
    if (same == to->kernel_count)
        return;
    to->kernel_count = 0;
    memset(to->buckets, -1, sizeof to->buckets);
    for (int32_t i = 0; i < MOST_TABLES; i++)
        to->tables[i].kernel = -1;
}

gs_code gs_dispatcher_copy_sms(gs_dispatcher *to, const gs_dispatcher *from, gs_error *error) {
    for (size_t i = to->kernel_count; i < from->kernel_count; i++)
        if (gs_dispatcher_kernel(to, &from->kernels[i].need.shape, error) < 0)
            return GS_E_MEMORY;
    gs_state_copy(&to->state, &from->state);
    to->turn = from->turn;
    to->warm_count = from->warm_count;
    memcpy(to->warm, from->warm, sizeof to->warm);
    memcpy(to->is_listed, from->is_listed, sizeof to->is_listed);
    make_tables_old(to);
    return GS_OK;
}
