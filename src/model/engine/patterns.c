/*
 * patterns.c: SMs that are alike.
 *
 * A pattern is all that decides what happens on one SM: which blocks of which launches are there, in which order those
 * of a launch end, on which partitions and where in shared memory they are, and the configuration. Partitions are
 * counted from the pointer, so that the pointer does not matter (see outline.c). Equal patterns have the same number.
 * What a turnover makes of a pattern (a block ends, others start) is found out once, and then known for all SMs of this
 * pattern.
 *
 * It is found out with the functions of the GPU room, on a scratch GPU. One of its SMs is given the pattern, and the
 * turnover happens there. Then this SM has the next pattern, for which the next turnover is likely to be asked.
 *
 * The key of a pattern is a list of words: a head, and a word for each block, sorted by tag and then by age. Few
 * patterns come again after a long time, and tables that do not fit into the cache of a core are slow. So there is a
 * limit on the memory of all patterns; beyond it they are forgotten.
 */
#include "patterns.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_BYTES = 1 << 19, /* of patterns and their words */
    MOST_PATTERNS = 1 << 11,
    FIRST_SLOTS = 1 << 13, /* of the hash table */
    SCRATCH_SMS = 128,
    NO_PLACE = 0xffff /* instead of an address in shared memory */
};

#define NO_PATTERN UINT32_MAX

struct owner {
    int32_t kernel;
    gs_tag next;   /* another one of the same kernel; 0: none */
    size_t launch; /* SIZE_MAX: it is free */
    gs_need need;
    bool is_even; /* each partition gets as many warps of a block */
};

/* A block on a scratch SM. */
struct occupant {
    gs_tag tag;
    int32_t handle;
    int16_t first; /* the partition of its first warp */
    bool is_even;  /* that does not matter: each partition has as many of its warps */
};

struct scratch {
    uint32_t pattern; /* that the SM has; NO_PATTERN: none */
    int32_t count;
    struct occupant blocks[GS_MAX_BLOCKS_PER_SM]; /* in the order of the words */
};

struct pattern_memory {
    const gs_dispatcher *dispatcher;
    gs_gpu gpu;      /* the scratch GPU; its pointers are those of another */
    gs_state state;  /* of that GPU */
    bool is_regular; /* a block takes away the headroom of one block of its kernel, on an SM that was not idle */
    struct scratch scratch[SCRATCH_SMS];
    int32_t next_scratch; /* the one to use next */
    int32_t *places;      /* by handle, while a pattern is saved */
    struct {
        uint64_t *data;
        size_t count, capacity;
    } words;
    uint32_t *slots; /* a hash table of patterns, which fill at most half of it; NO_PATTERN: free */
    size_t slot_count;
    uint64_t forgotten; /* how often all was forgotten */
    struct {
        struct owner *data; /* by tag - 1 */
        size_t count, capacity;
    } owners;
    struct {
        gs_tag *data; /* by kernel: its first tag, or 0 */
        size_t count, capacity;
    } first_tags;
};

/* ---- making and forgetting ---- */

static void forget_all(gs_patterns *patterns) {
    struct pattern_memory *memory = patterns->memory;
    patterns->count = memory->words.count = 0;
    memset(memory->slots, 0xff, memory->slot_count * sizeof *memory->slots);
    for (int32_t i = 0; i < SCRATCH_SMS; i++)
        memory->scratch[i].pattern = NO_PATTERN;
}

gs_patterns *gs_patterns_new(const gs_dispatcher *dispatcher) {
    gs_patterns *patterns = calloc(1, sizeof *patterns);
    struct pattern_memory *memory = calloc(1, sizeof *memory);
    if (!patterns || !memory) {
        free(patterns);
        free(memory);
        return NULL;
    }
    patterns->memory = memory;
    memory->dispatcher = dispatcher;
    memory->gpu = *gs_dispatcher_state(dispatcher)->gpu;
    memory->gpu.sms = SCRATCH_SMS;
    memory->is_regular = memory->gpu.mechanisms.shared_allocation != GS_SPACE_CONTIGUOUS;
    memory->gpu.mechanisms.shared_scope = GS_SCOPE_SM;
    memory->places = calloc((size_t)SCRATCH_SMS * (size_t)memory->gpu.limits.blocks_per_sm, sizeof *memory->places);
    memory->slot_count = FIRST_SLOTS;
    memory->slots = malloc(FIRST_SLOTS * sizeof *memory->slots);
    if (memory->slots)
        forget_all(patterns);
    if (memory->slots && memory->places && gs_state_init(&memory->state, &memory->gpu, NULL) == GS_OK)
        return patterns;
    gs_patterns_free(patterns);
    return NULL;
}

void gs_patterns_free(gs_patterns *patterns) {
    if (!patterns)
        return;
    struct pattern_memory *memory = patterns->memory;
    gs_state_free(&memory->state);
    free(memory->places);
    free(memory->slots);
    free(memory->words.data);
    free(memory->owners.data);
    free(memory->first_tags.data);
    free(memory);
    free(patterns->data);
    free(patterns);
}

/* ---- tags ---- */

gs_tag gs_patterns_take_tag(gs_patterns *patterns, int kernel, size_t launch) {
    struct pattern_memory *memory = patterns->memory;
    while (memory->first_tags.count <= (size_t)kernel)
        if (!GS_PUSH(&memory->first_tags, 0))
            return 0;
    gs_tag *link = &memory->first_tags.data[kernel], tag = *link;
    for (; tag && memory->owners.data[tag - 1].launch != SIZE_MAX; tag = *link)
        link = &memory->owners.data[tag - 1].next;
    if (!tag) {
        const gs_need *need = gs_dispatcher_need(memory->dispatcher, kernel);
        struct owner fresh = {.kernel = kernel, .need = *need};
        fresh.is_even = need->warps % memory->gpu.limits.partitions_per_sm == 0;
        tag = *link = (gs_tag)memory->owners.count + 1;
        if (!GS_PUSH(&memory->owners, fresh))
            return 0;
    }
    memory->owners.data[tag - 1].launch = launch;
    return tag;
}

void gs_patterns_return_tag(gs_patterns *patterns, gs_tag tag) {
    patterns->memory->owners.data[tag - 1].launch = SIZE_MAX;
}

size_t gs_patterns_taken_tags(const gs_patterns *patterns) {
    size_t taken = 0;
    for (size_t i = 0; i < patterns->memory->owners.count; i++)
        taken += patterns->memory->owners.data[i].launch != SIZE_MAX;
    return taken;
}

static const struct owner *owner_of(const struct pattern_memory *memory, gs_tag tag) {
    return &memory->owners.data[tag - 1];
}

/* ---- words ---- */

static uint64_t head_of(bool has_config, int32_t config_bytes) {
    return has_config ? 1 | (uint64_t)(uint32_t)config_bytes << 1 : 0;
}

static uint64_t word_of(gs_tag tag, int32_t at, int32_t first) {
    return (uint64_t)tag << 32 | (uint64_t)(uint32_t)at << 8 | (uint64_t)(uint32_t)first;
}

static gs_tag tag_of(uint64_t word) {
    return (gs_tag)(word >> 32);
}

static const uint64_t *words_of(const gs_patterns *patterns, uint32_t pattern) {
    return patterns->memory->words.data + patterns->data[pattern].words;
}

int32_t gs_pattern_config(const gs_patterns *patterns, uint32_t pattern) {
    return (int32_t)(words_of(patterns, pattern)[0] >> 1);
}

bool gs_pattern_is_warm(const gs_patterns *patterns, uint32_t pattern) {
    return !patterns->data[pattern].residents && (words_of(patterns, pattern)[0] & 1);
}

size_t gs_pattern_launch(const gs_patterns *patterns, uint32_t pattern, int32_t block) {
    gs_tag tag = tag_of(words_of(patterns, pattern)[1 + block]);
    return patterns->memory->owners.data[tag - 1].launch;
}

int gs_pattern_kernel(const gs_patterns *patterns, uint32_t pattern, int32_t block) {
    gs_tag tag = tag_of(words_of(patterns, pattern)[1 + block]);
    return patterns->memory->owners.data[tag - 1].kernel;
}

int32_t gs_pattern_count(const gs_patterns *patterns, uint32_t pattern, gs_tag tag) {
    int32_t count = 0;
    for (int32_t i = 0; i < patterns->data[pattern].residents; i++)
        count += tag_of(words_of(patterns, pattern)[1 + i]) == tag;
    return count;
}

/* ---- the tables ---- */

#define FIRST_WEIGHT 0x9e3779b97f4a7c15u
#define NEXT_WEIGHT  0xd1b54a32d192ed02u

static uint32_t add_pattern(gs_patterns *patterns, const uint64_t *words, uint16_t residents, uint32_t hash) {
    struct pattern_memory *memory = patterns->memory;
    gs_pattern fresh = {.words = (uint32_t)memory->words.count, .hash = hash, .residents = residents, .sm = -1};
    if (!GS_RESERVE(&memory->words, (size_t)residents + 1) || !GS_PUSH(patterns, fresh))
        return NO_PATTERN;
    memcpy(memory->words.data + memory->words.count, words, ((size_t)residents + 1) * sizeof *words);
    memory->words.count += (size_t)residents + 1;
    return (uint32_t)patterns->count - 1;
}

static bool grow_slots(gs_patterns *patterns) {
    struct pattern_memory *memory = patterns->memory;
    size_t count = 2 * memory->slot_count;
    uint32_t *more = malloc(count * sizeof *more);
    if (!more)
        return false;
    memset(more, 0xff, count * sizeof *more);
    for (size_t i = 0; i < patterns->count; i++) {
        size_t at = patterns->data[i].hash & (count - 1);
        while (more[at] != NO_PATTERN)
            at = (at + 1) & (count - 1);
        more[at] = (uint32_t)i;
    }
    free(memory->slots);
    memory->slots = more;
    memory->slot_count = count;
    return true;
}

/* The number of the pattern with this key; NO_PATTERN: out of memory. */
static uint32_t number_of(gs_patterns *patterns, const uint64_t *words, uint16_t residents) {
    struct pattern_memory *memory = patterns->memory;
    uint64_t hash = residents, weight = FIRST_WEIGHT; /* no word waits for the hash of the one before it */
    for (int i = 0; i <= residents; i++, weight += NEXT_WEIGHT)
        hash += (words[i] ^ words[i] >> 29) * weight;
    hash = hash >> 32 ^ hash;
    size_t at = hash & (memory->slot_count - 1);
    for (; memory->slots[at] != NO_PATTERN; at = (at + 1) & (memory->slot_count - 1)) {
        uint32_t known = memory->slots[at];
        const gs_pattern *pattern = &patterns->data[known];
        if (pattern->hash == (uint32_t)hash && pattern->residents == residents &&
            memcmp(words_of(patterns, known), words, ((size_t)residents + 1) * sizeof *words) == 0)
            return known;
    }
    memory->slots[at] = add_pattern(patterns, words, residents, (uint32_t)hash);
    uint32_t added = memory->slots[at];
    return 2 * patterns->count < memory->slot_count || grow_slots(patterns) ? added : NO_PATTERN;
}

uint32_t gs_patterns_idle(gs_patterns *patterns, int32_t warm_bytes) {
    uint64_t head = head_of(warm_bytes >= 0, warm_bytes);
    return number_of(patterns, &head, 0);
}

uint64_t gs_patterns_forgotten(const gs_patterns *patterns) {
    return patterns->memory->forgotten;
}

bool gs_patterns_tidy(gs_patterns *patterns, uint32_t *of_sms, int32_t count) {
    struct pattern_memory *memory = patterns->memory;
    size_t bytes = memory->words.count * sizeof *memory->words.data + patterns->count * sizeof *patterns->data;
    if (bytes < MOST_BYTES && patterns->count < MOST_PATTERNS)
        return true;
    enum { MOST_WORDS = GS_MAX_BLOCKS_PER_SM + 1 };
    uint64_t *kept = malloc((size_t)count * MOST_WORDS * sizeof *kept);
    uint16_t *residents = malloc((size_t)count * sizeof *residents);
    bool done = kept && residents;
    for (int32_t i = 0; i < count && done; i++) {
        residents[i] = patterns->data[of_sms[i]].residents;
        memcpy(kept + i * MOST_WORDS, words_of(patterns, of_sms[i]), ((size_t)residents[i] + 1) * sizeof *kept);
    }
    forget_all(patterns);
    memory->forgotten++;
    for (int32_t i = 0; i < count && done; i++) {
        of_sms[i] = number_of(patterns, kept + i * MOST_WORDS, residents[i]);
        done = of_sms[i] != NO_PATTERN;
    }
    free(kept);
    free(residents);
    return done;
}

/* ---- scratch SMs ---- */

static bool keeps_pieces(const struct pattern_memory *memory) {
    return memory->gpu.mechanisms.shared_allocation != GS_SPACE_COUNTED;
}

/* Pieces are in order of address. */
static void insert_piece(gs_space *space, gs_piece piece) {
    int32_t i = space->count++;
    for (; i > 0 && space->pieces[i - 1].at > piece.at; i--)
        space->pieces[i] = space->pieces[i - 1];
    space->pieces[i] = piece;
}

static void measure_space(gs_space *space) {
    int32_t end = 0, largest = 0;
    for (int32_t i = 0; i < space->count; i++) {
        int32_t hole = space->pieces[i].at - end;
        largest = hole > largest ? hole : largest;
        end = space->pieces[i].at + space->pieces[i].size;
    }
    space->largest_hole = (uint16_t)gs_max(largest, space->size - end);
}

static void empty_scratch(struct pattern_memory *memory, int32_t number) {
    struct scratch *scratch = &memory->scratch[number];
    gs_state *state = &memory->state;
    for (int32_t i = 0; i < scratch->count; i++) {
        state->residents[scratch->blocks[i].handle] = (gs_resident){.need = -1, .sm = state->free_handle};
        state->free_handle = scratch->blocks[i].handle;
    }
    state->resident_count -= scratch->count;
    scratch->count = 0;
}

static void take_warps(const struct pattern_memory *memory, gs_sm *sm, gs_resident *resident, const gs_need *need,
                       int32_t first) {
    int32_t partitions = memory->gpu.limits.partitions_per_sm, partition = first;
    int32_t rounds = need->warps / partitions, more = need->warps - rounds * partitions;
    for (int32_t turn = 0; turn < partitions; turn++) {
        int32_t warps = rounds + (turn < more);
        resident->warps[partition] = (uint8_t)warps;
        sm->warp_slots[partition] -= warps;
        sm->registers[partition] -= warps * need->registers;
        partition = partition + 1 == partitions ? 0 : partition + 1;
    }
}

static void load_block(struct pattern_memory *memory, uint64_t word, int32_t number) {
    struct scratch *scratch = &memory->scratch[number];
    gs_state *state = &memory->state;
    gs_sm *sm = &state->sms[number];
    const struct owner *owner = owner_of(memory, tag_of(word));
    int32_t first = (int32_t)(word & 0xff), at = (int32_t)(word >> 8 & 0xffff), handle = state->free_handle;
    gs_resident *resident = &state->residents[handle];
    state->free_handle = resident->sm;
    *resident = (gs_resident){.need = owner->kernel, .sm = number};
    take_warps(memory, sm, resident, &owner->need, first);
    if (at != NO_PLACE)
        insert_piece(&sm->shared_space, (gs_piece){(uint16_t)at, (uint16_t)owner->need.shared, handle});
    sm->shared_free -= owner->need.shared;
    scratch->blocks[scratch->count++] = (struct occupant){tag_of(word), handle, (int16_t)first, owner->is_even};
}

/* Gives a pattern to a scratch SM. */
static void load_pattern(const gs_patterns *patterns, uint32_t pattern, int32_t number) {
    struct pattern_memory *memory = patterns->memory;
    const uint64_t *words = words_of(patterns, pattern);
    const gs_gpu *gpu = &memory->gpu;
    gs_state *state = &memory->state;
    gs_sm *sm = &state->sms[number];
    gs_group *group = &state->groups[number];
    int32_t residents = patterns->data[pattern].residents;
    empty_scratch(memory, number);
    sm->pointer = 0;
    sm->block_slots = gpu->limits.blocks_per_sm - residents;
    for (int32_t p = 0; p < gpu->limits.partitions_per_sm; p++) {
        sm->warp_slots[p] = gpu->warps_per_partition;
        sm->registers[p] = gpu->registers_per_partition;
    }
    group->config_bytes = gs_pattern_config(patterns, pattern);
    group->residents = residents;
    group->is_warm = gs_pattern_is_warm(patterns, pattern);
    state->resident_count += residents;
    sm->shared_free = group->config_bytes / gpu->limits.shared_granularity_bytes;
    sm->shared_space.count = 0;
    sm->shared_space.size = (uint16_t)sm->shared_free;
    for (int32_t i = 0; i < residents; i++)
        load_block(memory, words[1 + i], number);
    if (keeps_pieces(memory)) {
        measure_space(&sm->shared_space);
        sm->shared_free = sm->shared_space.largest_hole;
    }
}

/* A scratch SM that has the pattern. */
static int32_t scratch_with(gs_patterns *patterns, uint32_t pattern) {
    struct pattern_memory *memory = patterns->memory;
    if (patterns->data[pattern].sm >= 0)
        return patterns->data[pattern].sm;
    int32_t number = memory->next_scratch++ % SCRATCH_SMS;
    struct scratch *scratch = &memory->scratch[number];
    memory->next_scratch %= SCRATCH_SMS;
    if (scratch->pattern != NO_PATTERN)
        patterns->data[scratch->pattern].sm = -1;
    load_pattern(patterns, pattern, number);
    scratch->pattern = pattern;
    patterns->data[pattern].sm = (int16_t)number;
    return number;
}

/* The number of the pattern that a scratch SM has after a turnover; NO_PATTERN: out of memory. */
static uint32_t save_pattern(gs_patterns *patterns, int32_t number) {
    struct pattern_memory *memory = patterns->memory;
    struct scratch *scratch = &memory->scratch[number];
    const gs_sm *sm = &memory->state.sms[number];
    const gs_group *group = &memory->state.groups[number];
    int32_t partitions = memory->gpu.limits.partitions_per_sm;
    uint64_t words[GS_MAX_BLOCKS_PER_SM + 1];
    words[0] = head_of(group->residents || group->is_warm, group->config_bytes);
    for (int32_t i = 0; i < scratch->count; i++) {
        const struct occupant *block = &scratch->blocks[i];
        int32_t first = block->is_even ? 0 : block->first - sm->pointer;
        words[1 + i] = word_of(block->tag, NO_PLACE, first < 0 ? first + partitions : first);
        memory->places[block->handle] = i;
    }
    for (int32_t i = 0; keeps_pieces(memory) && i < sm->shared_space.count; i++) {
        const gs_piece *piece = &sm->shared_space.pieces[i];
        words[1 + memory->places[piece->block]] -= (uint64_t)(NO_PLACE - piece->at) << 8;
    }
    patterns->data[scratch->pattern].sm = -1;
    scratch->pattern = number_of(patterns, words, (uint16_t)scratch->count);
    if (scratch->pattern == NO_PATTERN)
        return NO_PATTERN;
    uint32_t pattern = scratch->pattern;
    if (patterns->data[pattern].sm < 0)
        patterns->data[pattern].sm = (int16_t)number;
    else
        scratch->pattern = NO_PATTERN;
    return pattern;
}

/* ---- turnovers ---- */

static void end_oldest(struct pattern_memory *memory, int32_t number, gs_tag tag) {
    struct scratch *scratch = &memory->scratch[number];
    bool group_changed;
    int32_t i = 0;
    while (scratch->blocks[i].tag != tag)
        i++;
    gs_state_release(&memory->state, &owner_of(memory, tag)->need, scratch->blocks[i].handle, &group_changed);
    for (scratch->count--; i < scratch->count; i++)
        scratch->blocks[i] = scratch->blocks[i + 1];
}

static void start_newest(struct pattern_memory *memory, int32_t number, gs_tag tag) {
    struct scratch *scratch = &memory->scratch[number];
    const struct owner *owner = owner_of(memory, tag);
    bool group_changed;
    int32_t first = memory->state.sms[number].pointer, i = scratch->count++;
    int32_t handle = gs_state_place(&memory->state, &owner->need, owner->kernel, number, false, &group_changed);
    for (; i > 0 && scratch->blocks[i - 1].tag > tag; i--)
        scratch->blocks[i] = scratch->blocks[i - 1];
    scratch->blocks[i] = (struct occupant){tag, handle, (int16_t)first, owner->is_even};
}

/* Starts as many blocks as find headroom. Returns how many. */
static int32_t start_all(struct pattern_memory *memory, int32_t number, gs_tag tag) {
    const gs_need *need = &owner_of(memory, tag)->need;
    int32_t headroom, count = 0;
    while ((headroom = gs_state_headroom(&memory->state, need, number))) {
        bool is_known = memory->is_regular && memory->scratch[number].count;
        for (int32_t i = 0; i < (is_known ? headroom : 1); i++, count++)
            start_newest(memory, number, tag);
        if (is_known)
            break;
    }
    return count;
}

/* Makes the turnover on a scratch SM. Returns how many blocks start. */
static int32_t make_turnover(struct pattern_memory *memory, int32_t number, gs_turnover turnover) {
    bool starts = turnover.starts && turnover.starts != GS_COOLS;
    for (uint32_t i = 0; i < turnover.count; i++)
        if (turnover.ends)
            end_oldest(memory, number, turnover.ends);
        else
            start_newest(memory, number, turnover.starts);
    if (turnover.starts == GS_COOLS)
        gs_state_cool(&memory->state, number);
    if (!turnover.ends)
        return (int32_t)turnover.count;
    return starts ? start_all(memory, number, turnover.starts) : 0;
}

gs_obstacle_kind gs_pattern_obstacle(gs_patterns *patterns, uint32_t pattern, int kernel) {
    struct pattern_memory *memory = patterns->memory;
    int32_t number = scratch_with(patterns, pattern);
    return gs_state_obstacle(&memory->state, gs_dispatcher_need(memory->dispatcher, kernel), number).kind;
}

bool gs_patterns_find_step(gs_patterns *patterns, uint32_t pattern) {
    struct pattern_memory *memory = patterns->memory;
    gs_turnover turnover = patterns->turnover;
    gs_pattern_step step = {turnover, pattern, 0, 0};
    int32_t number = scratch_with(patterns, pattern), partitions = memory->gpu.limits.partitions_per_sm;
    if (turnover.count || turnover.starts == GS_COOLS) {
        int32_t *pointer = &memory->state.sms[number].pointer, before = *pointer;
        step.count = (uint8_t)make_turnover(memory, number, turnover);
        step.moves = (uint8_t)((*pointer - before + partitions) % partitions);
        step.next = save_pattern(patterns, number);
    } else {
        const gs_need *need = &owner_of(memory, turnover.starts)->need;
        step.count = (uint8_t)gs_state_headroom(&memory->state, need, number);
    }
    patterns->data[pattern].steps[turnover.count != 0] = step;
    return step.next != NO_PATTERN;
}
