/*
 * patterns.c: SMs that are alike.
 *
 * A pattern is all that decides what happens on one SM: which blocks of which launches are there, in which order those
 * of a launch end, on which partitions and where in shared memory they are, and the configuration. Partitions are
 * counted from the pointer, so that the pointer does not matter (see outline.c). Equal patterns have the same number.
 * What a change makes of a pattern (a block ends, others start) is computed once, with the functions of the GPU room on
 * a GPU of one SM, and then known: for all SMs of this pattern, and for those that have it later. So a step costs a
 * look into a table.
 *
 * The key of a pattern is a list of words: a head, and a word for each block, sorted by tag and then by age. There is a
 * limit on the memory of all patterns and steps; beyond it all are forgotten.
 */
#include "patterns.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_BYTES = 1 << 19, /* of words, patterns and steps */
    FIRST_SLOTS = 1 << 12,
    NO_PLACE = 0xffff /* instead of an address in shared memory */
};

#define NO_PATTERN UINT32_MAX

struct owner {
    int32_t kernel;
    gs_tag next;   /* another one of the same kernel; 0: none */
    size_t launch; /* SIZE_MAX: it is free */
};

struct step {
    uint32_t pattern; /* NO_PATTERN: the slot is free */
    gs_turnover change;
    uint32_t next;
    uint8_t count, moves;
};

/* A block on the one SM, in the order of the words. */
struct occupant {
    gs_tag tag;
    int32_t handle;
    int32_t first; /* the partition of its first warp; -1: each has as many of its warps */
};

struct pattern_memory {
    const gs_dispatcher *dispatcher;
    gs_gpu gpu;      /* of one SM; its pointers are those of another */
    gs_state state;  /* of that SM */
    uint32_t loaded; /* the pattern that it has, or NO_PATTERN */
    struct occupant blocks[GS_MAX_BLOCKS_PER_SM];
    int32_t block_count;
    struct {
        uint64_t *data;
        size_t count, capacity;
    } words;
    uint32_t *slots; /* a hash table of patterns; NO_PATTERN: free */
    size_t slot_count;
    struct step *steps; /* a hash table */
    size_t step_slots, step_count;
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

static bool clear_tables(struct pattern_memory *memory) {
    free(memory->slots);
    free(memory->steps);
    memory->slot_count = memory->step_slots = FIRST_SLOTS;
    memory->step_count = 0;
    memory->slots = malloc(FIRST_SLOTS * sizeof *memory->slots);
    memory->steps = malloc(FIRST_SLOTS * sizeof *memory->steps);
    if (!memory->slots || !memory->steps)
        return false;
    memset(memory->slots, 0xff, FIRST_SLOTS * sizeof *memory->slots);
    memset(memory->steps, 0xff, FIRST_SLOTS * sizeof *memory->steps);
    memory->loaded = NO_PATTERN;
    return true;
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
    memory->gpu.sms = 1;
    if (clear_tables(memory) && gs_state_init(&memory->state, &memory->gpu, NULL) == GS_OK)
        return patterns;
    gs_patterns_free(patterns);
    return NULL;
}

void gs_patterns_free(gs_patterns *patterns) {
    if (!patterns)
        return;
    struct pattern_memory *memory = patterns->memory;
    gs_state_free(&memory->state);
    free(memory->words.data);
    free(memory->slots);
    free(memory->steps);
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
        gs_tag fresh = (gs_tag)memory->owners.count + 1;
        *link = fresh;
        if (!GS_PUSH(&memory->owners, (struct owner){.kernel = kernel}))
            return 0;
        tag = fresh;
    }
    memory->owners.data[tag - 1].launch = launch;
    return tag;
}

void gs_patterns_return_tag(gs_patterns *patterns, gs_tag tag) {
    patterns->memory->owners.data[tag - 1].launch = SIZE_MAX;
}

static const gs_need *need_of(const struct pattern_memory *memory, gs_tag tag) {
    return gs_dispatcher_need(memory->dispatcher, memory->owners.data[tag - 1].kernel);
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

/* ---- the tables ---- */

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
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

static uint32_t add_pattern(gs_patterns *patterns, const uint64_t *words, uint16_t residents, uint32_t hash) {
    struct pattern_memory *memory = patterns->memory;
    if ((2 * patterns->count >= memory->slot_count && !grow_slots(patterns)) ||
        !GS_RESERVE(&memory->words, (size_t)residents + 1) ||
        !GS_PUSH(patterns, (gs_pattern){.words = memory->words.count, .hash = hash, .residents = residents}))
        return NO_PATTERN;
    memcpy(memory->words.data + memory->words.count, words, ((size_t)residents + 1) * sizeof *words);
    memory->words.count += (size_t)residents + 1;
    size_t at = hash & (memory->slot_count - 1);
    while (memory->slots[at] != NO_PATTERN)
        at = (at + 1) & (memory->slot_count - 1);
    return memory->slots[at] = (uint32_t)patterns->count - 1;
}

/* The number of the pattern with this key; NO_PATTERN: out of memory. */
static uint32_t number_of(gs_patterns *patterns, const uint64_t *words, uint16_t residents) {
    const struct pattern_memory *memory = patterns->memory;
    uint64_t hash = residents;
    for (int i = 0; i <= residents; i++)
        hash = mix(hash, words[i]);
    hash = hash >> 32 ^ hash;
    for (size_t at = hash & (memory->slot_count - 1); memory->slots[at] != NO_PATTERN;
         at = (at + 1) & (memory->slot_count - 1)) {
        uint32_t known = memory->slots[at];
        const gs_pattern *pattern = &patterns->data[known];
        if (pattern->hash == (uint32_t)hash && pattern->residents == residents &&
            memcmp(words_of(patterns, known), words, ((size_t)residents + 1) * sizeof *words) == 0)
            return known;
    }
    return add_pattern(patterns, words, residents, (uint32_t)hash);
}

uint32_t gs_patterns_idle(gs_patterns *patterns, int32_t warm_bytes) {
    uint64_t head = head_of(warm_bytes >= 0, warm_bytes);
    return number_of(patterns, &head, 0);
}

/* The slot of a step, which may be free. */
static struct step *slot_of(const struct pattern_memory *memory, uint32_t pattern, gs_turnover change) {
    uint64_t hash = mix(mix(pattern, change.ends), change.starts);
    size_t at = (hash >> 32 ^ hash) & (memory->step_slots - 1);
    for (;; at = (at + 1) & (memory->step_slots - 1)) {
        struct step *step = &memory->steps[at];
        if (step->pattern == NO_PATTERN ||
            (step->pattern == pattern && step->change.ends == change.ends && step->change.starts == change.starts))
            return step;
    }
}

static bool grow_steps(struct pattern_memory *memory) {
    size_t before = memory->step_slots;
    struct step *old = memory->steps, *more = malloc(2 * before * sizeof *more);
    if (!more)
        return false;
    memset(more, 0xff, 2 * before * sizeof *more);
    memory->steps = more;
    memory->step_slots = 2 * before;
    for (size_t i = 0; i < before; i++)
        if (old[i].pattern != NO_PATTERN)
            *slot_of(memory, old[i].pattern, old[i].change) = old[i];
    free(old);
    return true;
}

uint64_t gs_patterns_forgotten(const gs_patterns *patterns) {
    return patterns->memory->forgotten;
}

bool gs_patterns_tidy(gs_patterns *patterns, uint32_t *of_sms, int32_t count) {
    struct pattern_memory *memory = patterns->memory;
    size_t bytes = memory->words.count * sizeof *memory->words.data + memory->step_slots * sizeof *memory->steps +
                   patterns->count * sizeof *patterns->data + memory->slot_count * sizeof *memory->slots;
    if (bytes < MOST_BYTES)
        return true;
    gs_patterns old = *patterns;
    memory->forgotten++;
    uint64_t *words = memory->words.data;
    patterns->data = NULL;
    patterns->count = patterns->capacity = 0;
    memory->words.data = NULL;
    memory->words.count = memory->words.capacity = 0;
    bool done = clear_tables(memory);
    for (int32_t i = 0; i < count && done; i++) {
        const gs_pattern *pattern = &old.data[of_sms[i]];
        of_sms[i] = number_of(patterns, words + pattern->words, pattern->residents);
        done = of_sms[i] != NO_PATTERN;
    }
    free(old.data);
    free(words);
    return done;
}

/* ---- one SM ---- */

static bool keeps_pieces(const struct pattern_memory *memory) {
    return memory->gpu.mechanisms.shared_allocation != GS_SPACE_COUNTED;
}

static void set_warps(gs_resident *resident, const gs_need *need, int32_t first, int32_t partitions) {
    int32_t rounds = need->warps / partitions, more = need->warps % partitions;
    for (int32_t turn = 0; turn < partitions; turn++) {
        int32_t partition = first + turn < partitions ? first + turn : first + turn - partitions;
        resident->warps[partition] = (uint8_t)(rounds + (turn < more));
    }
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

static void load_block(struct pattern_memory *memory, uint64_t word, int32_t handle) {
    gs_sm *sm = memory->state.sms;
    gs_resident *resident = &memory->state.residents[handle];
    gs_tag tag = tag_of(word);
    const gs_need *need = need_of(memory, tag);
    int32_t first = (int32_t)(word & 0xff), at = (int32_t)(word >> 8 & 0xffff);
    bool is_even = need->warps % memory->gpu.limits.partitions_per_sm == 0;
    *resident = (gs_resident){.need = memory->owners.data[tag - 1].kernel};
    set_warps(resident, need, first, memory->gpu.limits.partitions_per_sm);
    for (int32_t p = 0; p < memory->gpu.limits.partitions_per_sm; p++) {
        sm->warp_slots[p] -= resident->warps[p];
        sm->registers[p] -= resident->warps[p] * need->registers;
    }
    if (at != NO_PLACE)
        insert_piece(&sm->shared_space, (gs_piece){(uint16_t)at, (uint16_t)need->shared, handle});
    sm->shared_free -= need->shared;
    memory->blocks[handle] = (struct occupant){tag, handle, is_even ? -1 : first};
}

/* Makes the one SM what a pattern says. */
static void load_pattern(const gs_patterns *patterns, uint32_t number) {
    struct pattern_memory *memory = patterns->memory;
    const uint64_t *words = words_of(patterns, number);
    const gs_gpu *gpu = &memory->gpu;
    gs_state *state = &memory->state;
    gs_sm *sm = state->sms;
    int32_t residents = patterns->data[number].residents;
    if (memory->loaded == number)
        return;
    sm->pointer = 0;
    sm->block_slots = gpu->limits.blocks_per_sm - residents;
    for (int32_t p = 0; p < gpu->limits.partitions_per_sm; p++) {
        sm->warp_slots[p] = gpu->warps_per_partition;
        sm->registers[p] = gpu->registers_per_partition;
    }
    state->groups[0].config_bytes = gs_pattern_config(patterns, number);
    state->groups[0].residents = state->resident_count = residents;
    state->groups[0].is_warm = gs_pattern_is_warm(patterns, number);
    sm->shared_free = state->groups[0].config_bytes / gpu->limits.shared_granularity_bytes;
    sm->shared_space.count = 0;
    sm->shared_space.size = (uint16_t)sm->shared_free;
    memory->block_count = residents;
    for (int32_t i = 0; i < residents; i++)
        load_block(memory, words[1 + i], i);
    for (int32_t i = residents; i < gpu->limits.blocks_per_sm; i++)
        state->residents[i] = (gs_resident){.need = -1, .sm = i + 1 < gpu->limits.blocks_per_sm ? i + 1 : -1};
    state->free_handle = residents < gpu->limits.blocks_per_sm ? residents : -1;
    if (keeps_pieces(memory)) {
        measure_space(&sm->shared_space);
        sm->shared_free = sm->shared_space.largest_hole;
    }
}

/* The number of the pattern that the one SM has now; NO_PATTERN: out of memory. */
static uint32_t save_pattern(gs_patterns *patterns) {
    struct pattern_memory *memory = patterns->memory;
    const gs_sm *sm = memory->state.sms;
    const gs_group *group = memory->state.groups;
    int32_t partitions = memory->gpu.limits.partitions_per_sm;
    uint64_t words[GS_MAX_BLOCKS_PER_SM + 1];
    uint16_t at[GS_MAX_BLOCKS_PER_SM];
    memset(at, 0xff, sizeof at);
    for (int32_t i = 0; keeps_pieces(memory) && i < sm->shared_space.count; i++)
        at[sm->shared_space.pieces[i].block] = sm->shared_space.pieces[i].at;
    words[0] = head_of(group->residents || group->is_warm, group->config_bytes);
    for (int32_t i = 0; i < memory->block_count; i++) {
        const struct occupant *block = &memory->blocks[i];
        int32_t first = block->first < 0 ? 0 : block->first - sm->pointer;
        words[1 + i] = word_of(block->tag, at[block->handle], first < 0 ? first + partitions : first);
    }
    return number_of(patterns, words, (uint16_t)memory->block_count);
}

static void end_oldest(struct pattern_memory *memory, gs_tag tag) {
    bool group_changed;
    int32_t i = 0;
    while (memory->blocks[i].tag != tag)
        i++;
    gs_state_release(&memory->state, need_of(memory, tag), memory->blocks[i].handle, &group_changed);
    memory->block_count--;
    memmove(&memory->blocks[i], &memory->blocks[i + 1], (size_t)(memory->block_count - i) * sizeof *memory->blocks);
}

static void start_newest(struct pattern_memory *memory, gs_tag tag) {
    const gs_need *need = need_of(memory, tag);
    bool group_changed, is_even = need->warps % memory->gpu.limits.partitions_per_sm == 0;
    int32_t first = is_even ? -1 : memory->state.sms->pointer, i = memory->block_count;
    int32_t kernel = memory->owners.data[tag - 1].kernel;
    int32_t handle = gs_state_place(&memory->state, need, kernel, 0, false, &group_changed);
    for (; i > 0 && memory->blocks[i - 1].tag > tag; i--)
        memory->blocks[i] = memory->blocks[i - 1];
    memory->blocks[i] = (struct occupant){tag, handle, first};
    memory->block_count++;
}

/* Makes the change on the one SM. Returns the count of the step. */
static int32_t make_change(struct pattern_memory *memory, gs_turnover change) {
    if (change.ends)
        end_oldest(memory, change.ends);
    if (change.starts == GS_COOLS)
        gs_state_cool(&memory->state, 0);
    if (!change.starts || change.starts == GS_COOLS)
        return 0;
    const gs_need *need = need_of(memory, change.starts);
    int32_t headroom = gs_state_headroom(&memory->state, need, 0), count = 0;
    if (!change.ends && headroom)
        start_newest(memory, change.starts);
    if (!change.ends)
        return headroom;
    for (; headroom; headroom = gs_state_headroom(&memory->state, need, 0), count++)
        start_newest(memory, change.starts);
    return count;
}

gs_obstacle_kind gs_pattern_obstacle(gs_patterns *patterns, uint32_t pattern, int kernel) {
    struct pattern_memory *memory = patterns->memory;
    load_pattern(patterns, pattern);
    memory->loaded = pattern;
    return gs_state_obstacle(&memory->state, gs_dispatcher_need(memory->dispatcher, kernel), 0).kind;
}

/* ---- steps ---- */

void gs_patterns_look_at(gs_patterns *patterns, gs_turnover change) {
    patterns->change = change;
    if (++patterns->stamp)
        return;
    for (size_t i = 0; i < patterns->count; i++)
        patterns->data[i].stamp = 0;
    patterns->stamp = 1;
}

bool gs_patterns_find_step(gs_patterns *patterns, uint32_t number) {
    struct pattern_memory *memory = patterns->memory;
    struct step *step = slot_of(memory, number, patterns->change);
    if (step->pattern == NO_PATTERN) {
        load_pattern(patterns, number);
        int32_t *pointer = &memory->state.sms->pointer, before = *pointer;
        int32_t count = make_change(memory, patterns->change), partitions = memory->gpu.limits.partitions_per_sm;
        int32_t moves = (*pointer - before + partitions) % partitions;
        uint32_t next = memory->loaded = save_pattern(patterns);
        if (next == NO_PATTERN || (2 * memory->step_count >= memory->step_slots && !grow_steps(memory)))
            return false;
        step = slot_of(memory, number, patterns->change);
        *step = (struct step){number, patterns->change, next, (uint8_t)count, (uint8_t)moves};
        memory->step_count++;
    }
    gs_pattern *pattern = &patterns->data[number];
    pattern->stamp = patterns->stamp;
    pattern->next = step->next;
    pattern->count = step->count;
    pattern->moves = step->moves;
    return true;
}
