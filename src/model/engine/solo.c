/*
 * solo.c: memoizes launches that have the scheduler to themselves.
 *
 * Most kernels of most programs do: nothing else waits when they start, and until they end, nothing else starts and no
 * other block ends. The GPU is idle, or the blocks on it stay longer. What happens then depends on few things: the
 * shape of the kernel, the number of its blocks, and what the GPU has left (its outline, see outline.c) and remembers
 * (gs_remembered, and the turns). It does not depend on the duration of a block, if all blocks of the kernel run
 * equally long: then all happens at multiples of that duration, the waves.
 *
 * The first such launch is played block by block, and a memo of what it did is kept. A later launch that begins in the
 * same way is memoized: it is one event, its end. Then the memo is committed: the GPU becomes what the launch leaves.
 * Until then the state of the GPU is that at its start, so that if another kernel has to start earlier, the engine can
 * replay the launch block by block from its beginning (serve.c). When all that is kept takes much memory, it is
 * forgotten, and launches are played again.
 */
#include "engine_state.h"

#include <stdlib.h>
#include <string.h>

enum {
    FEW_BUCKETS = 1024,
    MOST_BYTES = 64 << 20 /* of memos and outlines */
};

/* How a launch begins: launches with equal keys go alike. Without padding. */
struct solo_key {
    int64_t blocks;
    int64_t duration_ns, spread_ns; /* of a block; 0 if all blocks run equally long */
    int32_t kernel, cluster;
    gs_turns turns;
    gs_remembered remembered;
    uint64_t outline; /* the number of the outline, from 1; 0: the GPU is idle */
};

/* How it went. */
struct gs_memo {
    struct solo_key key;
    size_t launch;  /* the one that was played */
    int64_t took;   /* waves, or nanoseconds if blocks do not run equally long */
    gs_turns turns; /* at its end */
    gs_remembered remembered;
    gs_memo *next;   /* in its bucket */
    gs_mark moves[]; /* by SM */
};

/* An outline, once for all memos that have it in their key. */
struct outline {
    uint64_t number, hash;
    size_t count;
    struct outline *next; /* in its bucket */
    char bytes[];
};

struct gs_solos {
    gs_memo **memos;
    struct outline **outlines;
    size_t memo_buckets, memo_count, outline_buckets, outline_count;
    uint64_t last_outline; /* the number of the last outline that was added */
    size_t bytes;          /* of memos and outlines */
    gs_text text;          /* the outline of the present state */
    struct solo_key key;   /* of the launch that is being played */
    gs_mark marks[];       /* by SM: at its start */
};

gs_solos *gs_solos_new(const gs_gpu *gpu) {
    gs_solos *solos = calloc(1, sizeof *solos + (size_t)gpu->sms * sizeof(gs_mark));
    if (!solos)
        return NULL;
    solos->memo_buckets = solos->outline_buckets = FEW_BUCKETS;
    solos->memos = calloc(FEW_BUCKETS, sizeof(gs_memo *));
    solos->outlines = calloc(FEW_BUCKETS, sizeof(struct outline *));
    if (solos->memos && solos->outlines)
        return solos;
    gs_solos_free(solos);
    return NULL;
}

static void forget_memos(gs_solos *solos) {
    for (size_t i = 0; solos->memos && i < solos->memo_buckets; i++) {
        for (gs_memo *memo = solos->memos[i], *next; memo; memo = next) {
            next = memo->next;
            free(memo);
        }
        solos->memos[i] = NULL;
    }
    for (size_t i = 0; solos->outlines && i < solos->outline_buckets; i++) {
        for (struct outline *outline = solos->outlines[i], *next; outline; outline = next) {
            next = outline->next;
            free(outline);
        }
        solos->outlines[i] = NULL;
    }
    solos->memo_count = solos->outline_count = solos->bytes = 0;
}

void gs_solos_free(gs_solos *solos) {
    if (!solos)
        return;
    forget_memos(solos);
    free(solos->memos);
    free(solos->outlines);
    gs_text_free(&solos->text);
    free(solos);
}

/* ---- outlines ---- */

static bool grow_outlines(gs_solos *solos) {
    size_t count = 2 * solos->outline_buckets;
    struct outline **more = calloc(count, sizeof(struct outline *));
    if (!more)
        return false;
    for (size_t i = 0; i < solos->outline_buckets; i++)
        for (struct outline *outline = solos->outlines[i], *next; outline; outline = next) {
            struct outline **bucket = &more[outline->hash & (count - 1)];
            next = outline->next;
            outline->next = *bucket;
            *bucket = outline;
        }
    free(solos->outlines);
    solos->outlines = more;
    solos->outline_buckets = count;
    return true;
}

static uint64_t add_outline(gs_solos *solos, uint64_t hash) {
    const gs_text *text = &solos->text;
    struct outline *outline = malloc(sizeof *outline + text->count);
    if (!outline || (solos->outline_count == solos->outline_buckets && !grow_outlines(solos))) {
        free(outline);
        return UINT64_MAX;
    }
    struct outline **bucket = &solos->outlines[hash & (solos->outline_buckets - 1)];
    *outline = (struct outline){++solos->last_outline, hash, text->count, *bucket};
    solos->outline_count++;
    solos->bytes += sizeof *outline + text->count;
    memcpy(outline->bytes, text->data, text->count);
    *bucket = outline;
    return outline->number;
}

/* The number of the outline of the present state; UINT64_MAX: out of memory. */
static uint64_t outline_now(gs_solos *solos, const gs_state *state) {
    gs_text *text = &solos->text;
    gs_text_clear(text);
    gs_state_outline(state, text);
    if (text->failed)
        return UINT64_MAX;
    if (!text->count)
        return 0;
    uint64_t hash = gs_hash(0, text->data, text->count);
    for (const struct outline *known = solos->outlines[hash & (solos->outline_buckets - 1)]; known; known = known->next)
        if (known->hash == hash && known->count == text->count && memcmp(known->bytes, text->data, text->count) == 0)
            return known->number;
    return add_outline(solos, hash);
}

/* ---- looking up ---- */

static gs_memo **bucket_of(gs_memo **buckets, size_t count, const struct solo_key *key) {
    return &buckets[gs_hash(0, key, sizeof *key) & (count - 1)];
}

static gs_turns turns_now(const gs_engine *engine) {
    return engine->numbering.turns.count ? engine->numbering.turns.data[0] : (gs_turns){0};
}

bool gs_solo_begin(gs_engine *engine, size_t launch, bool *is_known, const gs_memo **memo) {
    const gs_launch *which = &engine->run->launches.data[launch];
    const gs_state *state = gs_dispatcher_state(engine->dispatcher);
    gs_solos *solos = engine->solos;
    struct solo_key *key = &solos->key;
    if (solos->bytes > MOST_BYTES)
        forget_memos(solos); /* no launch is memoized now */
    int64_t spread_ns = gs_engine_spread(engine, launch);
    *key = (struct solo_key){.blocks = which->blocks,
                             .duration_ns = spread_ns ? which->duration_ns : 0,
                             .spread_ns = spread_ns,
                             .kernel = engine->plays[launch].kernel,
                             .cluster = which->cluster,
                             .turns = turns_now(engine),
                             .outline = outline_now(solos, state)};
    *memo = NULL;
    *is_known = gs_dispatcher_remembers(engine->dispatcher, &key->remembered);
    if (key->outline == UINT64_MAX)
        return false;
    for (const gs_memo *known = *bucket_of(solos->memos, solos->memo_buckets, key); known && !*memo;
         known = known->next)
        if (*is_known && memcmp(&known->key, key, sizeof *key) == 0)
            *memo = known;
    if (!*memo)
        gs_state_mark(state, solos->marks);
    return true;
}

/* ---- keeping ---- */

static bool grow_memos(gs_solos *solos) {
    size_t count = 2 * solos->memo_buckets;
    gs_memo **more = calloc(count, sizeof(gs_memo *));
    if (!more)
        return false;
    for (size_t i = 0; i < solos->memo_buckets; i++)
        for (gs_memo *memo = solos->memos[i], *next; memo; memo = next) {
            gs_memo **bucket = bucket_of(more, count, &memo->key);
            next = memo->next;
            memo->next = *bucket;
            *bucket = memo;
        }
    free(solos->memos);
    solos->memos = more;
    solos->memo_buckets = count;
    return true;
}

static void set_moves(gs_memo *memo, const gs_solos *solos, const gs_state *state) {
    uint16_t partitions = (uint16_t)state->gpu->limits.partitions_per_sm;
    gs_state_mark(state, memo->moves);
    for (int32_t i = 0; i < state->gpu->sms; i++) {
        gs_mark *move = &memo->moves[i];
        move->pointer = (uint16_t)((move->pointer + partitions - solos->marks[i].pointer) % partitions);
        move->at = (uint16_t)(move->at - solos->marks[i].at);
    }
}

static void add_memo(gs_memo *memo, gs_solos *solos, const gs_state *state) {
    gs_memo **bucket = bucket_of(solos->memos, solos->memo_buckets, &memo->key);
    set_moves(memo, solos, state);
    memo->next = *bucket;
    *bucket = memo;
    solos->memo_count++;
    solos->bytes += sizeof *memo + (size_t)state->gpu->sms * sizeof(gs_mark);
}

bool gs_solo_keep(gs_engine *engine, size_t launch, int64_t began_ns) {
    gs_solos *solos = engine->solos;
    const gs_state *state = gs_dispatcher_state(engine->dispatcher);
    gs_memo *memo = calloc(1, sizeof *memo + (size_t)state->gpu->sms * sizeof(gs_mark));
    if (!memo || (solos->memo_count == solos->memo_buckets && !grow_memos(solos))) {
        free(memo);
        return false;
    }
    memo->key = solos->key;
    memo->launch = launch;
    memo->took = engine->clock.now_ns - began_ns;
    if (!solos->key.spread_ns)
        memo->took /= gs_engine_duration(engine, launch);
    memo->turns = turns_now(engine);
    if (gs_dispatcher_remembers(engine->dispatcher, &memo->remembered))
        add_memo(memo, solos, state);
    else
        free(memo);
    return true;
}

/* ---- committing ---- */

int64_t gs_memo_took(const gs_engine *engine, size_t launch, const gs_memo *memo) {
    int64_t took;
    if (memo->key.spread_ns)
        return memo->took;
    bool is_too_long = __builtin_mul_overflow(memo->took, gs_engine_duration(engine, launch), &took);
    return is_too_long ? INT64_MAX : took;
}

size_t gs_memo_commit(gs_engine *engine, size_t launch, const gs_memo *memo) {
    if (engine->numbering.turns.count)
        engine->numbering.turns.data[0] = memo->turns;
    gs_dispatcher_leave(engine->dispatcher, engine->plays[launch].kernel, &memo->remembered, memo->moves);
    return memo->launch;
}
