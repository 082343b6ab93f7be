/*
 * patterns.h: SMs that are alike, for bulk.c. patterns.c explains them.
 */
#ifndef GS_PATTERNS_H
#define GS_PATTERNS_H

#include "engine.h"

/* A launch whose blocks are on SMs, in patterns. Numbers begin at 1. One tag is used for many launches of the same
   kernel, one after the other, so that patterns come again. */
typedef uint32_t gs_tag;

/* What happens to an SM, or is asked about it. */
typedef struct gs_turnover {
    gs_tag ends;    /* its oldest blocks end; 0: none ends */
    gs_tag starts;  /* then as many of its blocks start as find headroom. 0: none starts; GS_COOLS: none starts, and an
                       idle SM loses its configuration */
    uint32_t count; /* of the blocks that end; if none does, of those that start: 0 only asks how many could */
} gs_turnover;

#define GS_COOLS UINT32_MAX

/* What a turnover makes of a pattern. */
typedef struct gs_pattern_step {
    gs_turnover turnover;
    uint32_t next; /* the pattern after it */
    uint8_t count; /* blocks that start; if that is asked: the headroom */
    uint8_t moves; /* partitions by which the pointer moves on */
} gs_pattern_step;

typedef struct gs_pattern {
    uint32_t words;           /* where its words begin: its key */
    uint32_t hash;            /* of these */
    uint16_t residents;       /* blocks */
    int16_t sm;               /* an SM of the scratch GPU that has this pattern; -1: none */
    gs_pattern_step steps[2]; /* the last that were looked at: one that only asks, and another */
} gs_pattern;

typedef struct gs_patterns {
    gs_pattern *data;
    size_t count, capacity;
    gs_turnover turnover; /* that is looked at */
    struct pattern_memory *memory;
} gs_patterns;

/* NULL: out of memory. The dispatcher knows the kernels. */
gs_patterns *gs_patterns_new(const gs_dispatcher *dispatcher);
void gs_patterns_free(gs_patterns *patterns);

/* A tag for a launch of this kernel that no other launch has; 0: out of memory. */
gs_tag gs_patterns_take_tag(gs_patterns *patterns, int kernel, size_t launch);
void gs_patterns_return_tag(gs_patterns *patterns, gs_tag tag);
size_t gs_patterns_taken_tags(const gs_patterns *patterns); /* how many launches have one */

/* The pattern of an idle SM. `warm_bytes`: the configuration that it keeps for a kernel that waits; -1: none. Returns
   UINT32_MAX if memory runs out. */
uint32_t gs_patterns_idle(gs_patterns *patterns, int32_t warm_bytes);

/* The shared-memory configuration of an SM with this pattern. */
int32_t gs_pattern_config(const gs_patterns *patterns, uint32_t pattern);

/* Whether it is idle and keeps its configuration for a kernel that waits. */
bool gs_pattern_is_warm(const gs_patterns *patterns, uint32_t pattern);

/* The launch and the kernel of a block; those of a launch follow each other, the oldest first. */
size_t gs_pattern_launch(const gs_patterns *patterns, uint32_t pattern, int32_t block);
int gs_pattern_kernel(const gs_patterns *patterns, uint32_t pattern, int32_t block);

/* How many of its blocks have this tag. */
int32_t gs_pattern_count(const gs_patterns *patterns, uint32_t pattern, gs_tag tag);

/* Why an SM with this pattern takes no block of a kernel. */
gs_obstacle_kind gs_pattern_obstacle(gs_patterns *patterns, uint32_t pattern, int kernel);

/* If there are very many patterns, forgets all but those of the `count` SMs, which get new numbers. False: out of
   memory. */
bool gs_patterns_tidy(gs_patterns *patterns, uint32_t *of_sms, int32_t count);

/* How often that was done. */
uint64_t gs_patterns_forgotten(const gs_patterns *patterns);

/* From now on this turnover is looked at. */
static inline void gs_patterns_look_at(gs_patterns *patterns, gs_turnover turnover) {
    patterns->turnover = turnover;
}

static inline bool gs_is_step_of(const gs_pattern_step *step, gs_turnover turnover) {
    return step->turnover.ends == turnover.ends && step->turnover.starts == turnover.starts &&
           step->turnover.count == turnover.count;
}

/* Finds out what the turnover makes of a pattern; false: out of memory. See gs_patterns_step. */
bool gs_patterns_find_step(gs_patterns *patterns, uint32_t pattern);

/* What the turnover that is looked at makes of a pattern: right until the next call of any function here. NULL: out of
   memory. */
static inline const gs_pattern_step *gs_patterns_step(gs_patterns *patterns, uint32_t pattern) {
    int which = patterns->turnover.count != 0;
    const gs_pattern_step *step = &patterns->data[pattern].steps[which];
    if (gs_is_step_of(step, patterns->turnover))
        return step;
    return gs_patterns_find_step(patterns, pattern) ? &patterns->data[pattern].steps[which] : NULL;
}

#endif
