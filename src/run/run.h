/*
 * run.h: what happens: launches and exits in order, with or without what was seen of them (schema gridsmith.run/1).
 *
 * A scenario, a recording and a prediction are the same type. Events refer to launches by number, so that nobody looks
 * up a kernel by name after a run was read.
 */
#ifndef GS_RUN_H
#define GS_RUN_H

#include "base/base.h"

/* Lists with one entry a block. Blocks past `count` are null: not started, or not known. */
typedef struct gs_sm_list {
    int32_t *data; /* GS_WAIT: null */
    size_t count, capacity;
} gs_sm_list;

typedef struct gs_time_list {
    int64_t *data; /* GS_NO_TIME: null */
    size_t count, capacity;
} gs_time_list;

#define GS_NO_TIME INT64_MIN

/* The hardware slots of the warps of each block, end to end; `ends[i]` is where those of block i end. None: null. */
typedef struct gs_slot_lists {
    int16_t *slots;
    size_t *ends;
} gs_slot_lists;

/* What is seen, or predicted, of a kernel at some point. A flag says whether the list is there at all. */
typedef struct gs_seen {
    bool has_placed, has_warp_slots, has_start, has_end;
    gs_sm_list placed;
    gs_slot_lists warp_slots;
    gs_time_list start_ns, end_ns;
} gs_seen;

typedef enum gs_op { GS_LAUNCH, GS_EXIT, GS_OBSERVE } gs_op;

typedef struct gs_event {
    gs_op op;
    size_t launch; /* which launch it is, or refers to */
    gs_seen seen;  /* of launches and observations */
    char *why;     /* in a prediction: why blocks wait at this point, one sentence a line, or NULL; not in files */
} gs_event;

typedef struct gs_launch {
    char *kernel;
    int64_t blocks;
    gs_shape shape;
    int32_t cluster;
    int32_t priority;
    char *stream; /* NULL: a stream of its own */
    bool stream_is_number;
    int64_t duration_ns; /* 0: until its exit */
    int64_t spread_ns;   /* some blocks run up to so much longer, see gs_block_duration */
    size_t event, exit;  /* where it is launched and where it exits (SIZE_MAX: nowhere) in the events */
    size_t observed;     /* its latest observation, or its launch */
} gs_launch;

typedef struct gs_launches {
    gs_launch *data;
    size_t count, capacity;
} gs_launches;

typedef struct gs_events {
    gs_event *data;
    size_t count, capacity;
} gs_events;

struct gs_run {
    bool has_id;
    int64_t id;
    char *class_name, *gpu;
    gs_launches launches;
    gs_events events;
    gs_names kernels; /* name to number of the launch */
    gs_json source;   /* the text it was read from (no values), so that later errors find their place */
};

/* ---- making runs ---- */

gs_run *gs_run_new(gs_error *error);

/* Appends a launch with its event; takes over what `launch` points to, also where it fails. */
gs_code gs_run_add_launch(gs_run *run, const gs_launch *launch, gs_error *error);

/* Appends a copy of a launch of another run. */
gs_code gs_run_copy_launch(gs_run *run, const gs_launch *launch, gs_error *error);

/* The whole run again, with what was seen of it, but without its source text. */
gs_run *gs_run_copy(const gs_run *run, gs_error *error);

/* Appends an exit or an observation of a launch and returns the event, or NULL. */
gs_event *gs_run_add_event(gs_run *run, gs_op op, size_t launch, gs_error *error);

/* Nothing seen yet, default values: what a launch is before its keys are read. */
gs_launch gs_launch_default(void);
void gs_launch_clear(gs_launch *launch);
void gs_seen_clear(gs_seen *seen);

/* ---- asking ---- */

/* An error about an event, with its place in the file where there is one. */
gs_code gs_run_fail(const gs_run *run, size_t event, gs_error *error, gs_code code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Whether any kernel has a duration. */
bool gs_run_is_timed(const gs_run *run);

/* How long a block of a kernel with a duration runs. The spread is the same each time, and even: the blocks of any
   range differ by nearly all of it. */
static inline int64_t gs_block_duration(const gs_launch *launch, int64_t block) {
    int64_t share = (int64_t)((uint64_t)block * 40503 & 65535); /* of 65536: the golden ratio */
    return launch->duration_ns + launch->spread_ns / 65536 * share + launch->spread_ns % 65536 * share / 65536;
}

/* The SM of a block, or GS_WAIT. */
static inline int32_t gs_seen_sm(const gs_seen *seen, int64_t block) {
    return (size_t)block < seen->placed.count ? seen->placed.data[block] : GS_WAIT;
}

static inline int64_t gs_seen_time(const gs_time_list *times, int64_t block) {
    return (size_t)block < times->count ? times->data[block] : GS_NO_TIME;
}

/* How many blocks have started. */
int64_t gs_seen_started(const gs_seen *seen);

/* Copies what was seen of a kernel of so many blocks into an empty gs_seen. False: out of memory. */
bool gs_seen_copy(gs_seen *to, const gs_seen *from, int64_t blocks);

/* ---- generating ---- */

/* The classes of random runs: "plain", "shared", ... by number; NULL past the last. */
const char *gs_class_name(size_t number);

/* What a random run may ask of a GPU. */
typedef struct gs_bounds {
    int32_t sms, blocks_per_sm, threads_per_sm, threads_per_block, warp_threads, partitions_per_sm, registers_per_sm;
    int64_t shared_per_block_bytes, shared_per_sm_bytes, shared_reserved_bytes;
    int32_t largest_cluster; /* 1: none */
} gs_bounds;

/* Draws the run of a class that belongs to a seed and an index: kernels of random shapes, until the next does not fit.
   NULL: the class is not known, or memory ran out. */
gs_run *gs_generate(const gs_bounds *bounds, const char *class_name, uint64_t seed, uint64_t index, gs_error *error);

/* The register counts that generated kernels have: 24, 32, ... 248, 255. By number, 0 past the last. */
int32_t gs_generated_registers(size_t number);

/* The local memory a thread that generated kernels have; -1 past the last. */
int64_t gs_generated_local_bytes(size_t number);

/* ---- comparing ---- */

typedef struct gs_score {
    int64_t runs, runs_exact, launches, launches_exact, blocks, blocks_exact;
} gs_score;

/* Adds how far `predicted`, which has the launches of `recorded`, agrees with it. */
gs_code gs_score_add(gs_score *score, const gs_run *recorded, const gs_run *predicted, gs_error *error);

/* ---- scores by class ---- */

typedef struct gs_class_score {
    char *class_name; /* "" for runs without one */
    gs_score score;
} gs_class_score;

typedef struct gs_scores {
    gs_class_score *data; /* in the order in which the classes came up */
    size_t count, capacity;
    gs_names by_name;
} gs_scores;

/* Adds a run to the score of its class. `*exact`, where given: whether it agrees. */
gs_code gs_scores_add(gs_scores *scores, const gs_run *recorded, const gs_run *predicted, bool *exact, gs_error *error);
void gs_scores_free(gs_scores *scores);

/* All classes together. */
gs_score gs_scores_total(const gs_scores *scores);

/* GS_E_FORMAT, with the place, where a launch of the run does not say what was seen of it. Launches that are not
   scored, those after the first that waits, need not. */
gs_code gs_run_is_recorded(const gs_run *run, gs_error *error);

/* ---- files ---- */

/* Reads one run from a value of JSON; `json` is emptied, its text goes into the run. */
gs_run *gs_run_read(gs_json *json, gs_error *error);

/* A run as a value of a JSON document; and as a text of its own: one line, without the newline. */
void gs_write_run(gs_writer *writer, const char *key, const gs_run *run);
void gs_run_text(const gs_run *run, gs_text *text);

#endif
