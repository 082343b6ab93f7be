/*
 * run.h: runs: launches and exits in order, with or without observations (schema gridsmith.run/1).
 *
 * A scenario, a recording and a prediction are the same type. Events refer to launches by number, so kernels are only
 * looked up by name while a run is read.
 *
 *   run.c, build.c        made, copied, freed; call by call, for users of the library
 *   read.c, lines.c       read: as JSON, and recorded programs line by line (event_fields.c has the keys)
 *   other_file.c          files that are no runs, and which command reads them
 *   write.c               written
 *   devices.c             of several GPUs: a run for each
 *   launch_word.c         a launch as one word of a command line
 *   issued.c, select.c    launches and copies in the order of the host; those that a user chooses
 *   generate.c            drawn at random
 *   score.c, scores.c     a prediction compared with a recording
 */
#ifndef GS_RUN_H
#define GS_RUN_H

#include "base/base.h"

/* Lists with one entry for each block. Blocks past `count` are null: not started, or not known. */
typedef struct gs_sm_list {
    int32_t *data; /* GS_WAIT: null */
    size_t count, capacity;
} gs_sm_list;

typedef struct gs_time_list {
    int64_t *data; /* GS_NO_TIME: null */
    size_t count, capacity;
} gs_time_list;

/* The hardware slots of the warps of each block: those of block i end before `ends[i]`. A block without slots is null.
 */
typedef struct gs_slot_lists {
    int16_t *slots;
    size_t *ends;
} gs_slot_lists;

/* The part of a prediction that a table shows: as many of the first SMs as GS_BRIEF_PARTS parts of a list can stand
   for. */
enum { GS_BRIEF_PARTS = 10 };

typedef struct gs_brief {
    int64_t started;           /* blocks */
    int64_t first_ns, last_ns; /* the first start and the last end, or GS_NO_TIME */
    struct {
        gs_number_run *data;
        size_t count, capacity;
    } placed;
} gs_brief;

/* An observation, or a prediction, of a kernel at some point of a run. The flags tell which lists exist. */
typedef struct gs_seen {
    bool is_brief; /* there are no lists, only `brief` */
    gs_brief brief;
    bool has_placed, has_warp_slots, has_start, has_end;
    gs_sm_list placed;
    gs_slot_lists warp_slots;
    gs_time_list start_ns, end_ns;
} gs_seen;

typedef enum gs_op { GS_LAUNCH, GS_EXIT, GS_OBSERVE } gs_op;

/* "launch", "exit" or "observe". */
const char *gs_op_name(gs_op op);

typedef struct gs_event {
    gs_op op;
    bool lacks_headroom; /* in a prediction: after this launch or exit a kernel waits for room */
    uint32_t place;      /* in the file: its line, or its number in the list of events; 0 if it was not read */
    size_t launch;       /* the number of the launch that it is or refers to */
    const gs_seen *seen; /* of launches and observations; never NULL; gs_event_see to write */
    char *why;           /* in a prediction: why blocks wait at this point, a sentence per line, or NULL */
} gs_event;

/* ---- additional facts of recorded programs ---- */

#define GS_NOT_GIVEN (-1)

/* Facts about a recorded launch or copy that do not change where blocks go. Numbers that are not given are
   GS_NOT_GIVEN, sizes are {0, 0, 0}. Facts are the same for many launches, so a run holds each set of them once. */
typedef struct gs_launch_facts {
    int32_t grid[3], block[3], cluster_shape[3]; /* x, y, z */
    int32_t is_cooperative;
    int64_t static_shared_bytes; /* the part of shared_bytes that is static */
    int64_t shared_config_bytes; /* the shared-memory configuration that the SMs had */
    int64_t device;              /* the number of the GPU */
    int64_t process, context, green_context;
    int64_t graph, node; /* the CUDA graph, and its node */
} gs_launch_facts;

/* The condition that a launch waits for, besides the launches and copies before it in its stream: another launch has
   ended, all blocks of that launch have triggered the launch of dependents (or have ended), or all its blocks have
   started. An edge to the launch before it in the same stream that is not GS_AT_END replaces the stream's order. */
typedef enum gs_when { GS_AT_END, GS_AT_TRIGGER, GS_AT_START } gs_when;

/* "end", "trigger" or "start". */
const char *gs_when_name(gs_when when);

typedef struct gs_edge {
    uint32_t number; /* of an earlier launch or copy of the run */
    bool is_copy;
    uint8_t when; /* gs_when */
} gs_edge;

/* How the host issued a launch or a copy, and when it ran as a whole. Times are since the start of the run. */
typedef struct gs_issue {
    char *id; /* NULL: none */
    const gs_launch_facts *facts;
    int64_t at_ns;            /* when the host issued it, or GS_NO_TIME */
    int64_t start_ns, end_ns; /* measured, or GS_NO_TIME */
    uint32_t after;           /* its first edge among those of the run */
    uint32_t after_count;
    bool id_is_number;
} gs_issue;

/* What is assumed of a kernel that is given as a word without it: GS_WORD_REGISTERS, no shared, no local memory. */
typedef enum gs_assumed_kind {
    GS_ASSUMED_REGISTERS,
    GS_ASSUMED_SHARED,
    GS_ASSUMED_LOCAL,
    GS_ASSUMED_KINDS
} gs_assumed_kind;

/* Strings of a gs_launch or a gs_copy of a run belong to the run, and equal strings are at the same address. */
typedef struct gs_launch {
    char *kernel; /* unique among the launches without an id */
    int64_t blocks;
    gs_shape shape;
    int32_t cluster;
    int32_t priority;
    char *stream; /* NULL: a stream of its own */
    bool stream_is_number;
    bool is_again;       /* another launch of the kernel before it, with the same shape: see gs_run_pick */
    uint8_t assumed;     /* a bit for each gs_assumed_kind that was not given */
    int64_t duration_ns; /* 0: until its exit */
    int64_t spread_ns;   /* blocks run up to this much longer, see gs_block_duration */
    size_t event, exit;  /* the numbers of its launch and its exit (SIZE_MAX: none) among the events */
    size_t observed;     /* the number of its latest observation, or of its launch */
    gs_issue issue;
} gs_launch;

/* Copies and memsets use no SM, but occupy a stream and take time. */
typedef enum gs_copy_kind {
    GS_COPY_UNKNOWN,
    GS_COPY_HOST_TO_DEVICE,
    GS_COPY_DEVICE_TO_HOST,
    GS_COPY_DEVICE_TO_DEVICE,
    GS_COPY_PEER_TO_PEER,
    GS_COPY_HOST_TO_HOST,
    GS_COPY_KINDS
} gs_copy_kind;

/* "host_to_device" and so on; NULL for GS_COPY_UNKNOWN. */
const char *gs_copy_kind_name(gs_copy_kind kind);

typedef struct gs_copy {
    bool is_memset;
    uint8_t kind; /* gs_copy_kind */
    bool stream_is_number;
    uint32_t place; /* as of events */
    char *stream;
    int64_t bytes;
    int64_t duration_ns; /* 0: not known; then end_ns - start_ns, if they are measured */
    size_t before;       /* it was issued before the launch of this number, and after the one before that */
    gs_issue issue;
} gs_copy;

typedef struct gs_copies {
    gs_copy *data;
    size_t count, capacity;
} gs_copies;

typedef struct gs_edges {
    gs_edge *data;
    size_t count, capacity;
} gs_edges;

/* A part of the program that it named (NVTX, record_function of PyTorch), in the time of the host. */
typedef struct gs_named_range {
    const char *name; /* of the strings of the run */
    int64_t from_ns, to_ns;
} gs_named_range;

typedef struct gs_named_ranges {
    gs_named_range *data; /* in any order; they may be inside each other */
    size_t count, capacity;
} gs_named_ranges;

enum { GS_LONGEST_KEY = 40 }; /* of those in `lacks` */

/* Where a recording comes from. All of it is optional: NULL, GS_NOT_GIVEN. */
typedef struct gs_origin {
    char *program;         /* its command line */
    char *recorder;        /* the name of the recording tool */
    char *gpu_name;        /* as the driver names it */
    int64_t device;        /* the number of the GPU */
    int64_t process;       /* the process id */
    int64_t start_unix_ns; /* the time at which the run starts */
    char *lacks;           /* the keys of launches that the recorder cannot know, separated by spaces */
} gs_origin;

typedef struct gs_launches {
    gs_launch *data;
    size_t count, capacity;
} gs_launches;

typedef struct gs_events {
    gs_event *data;
    size_t count, capacity;
} gs_events;

/* Green contexts: the SMs of context 0, then those of context 1, ...; those of context i end before `ends[i]`. */
typedef struct gs_green_contexts {
    int16_t *sms;
    int32_t *ends;
    int32_t count;
} gs_green_contexts;

struct gs_run {
    bool has_id;
    int64_t id;
    char *class_name, *gpu;
    char *assumed; /* of a prediction: what is assumed about the GPU, or NULL */
    gs_origin origin;
    gs_green_contexts green_contexts;
    int32_t connections; /* CUDA_DEVICE_MAX_CONNECTIONS of the program; 0: enough */
    gs_launches launches;
    gs_events events;
    gs_copies copies; /* in the order in which they were issued */
    gs_edges edges;   /* what launches and copies wait for */
    gs_named_ranges ranges;
    gs_names ids;          /* an id, or the kernel of a launch without one; see gs_run_find */
    gs_strings strings;    /* of launches and copies, and their facts */
    bool is_followed;      /* its events follow it in the file, a line each */
    bool has_ended;        /* an "end" was read: the recording is complete */
    bool is_cut;           /* the file ends in the middle of an event, which is left out */
    int64_t end_ns;        /* the time of the "end", or GS_NO_TIME */
    int64_t lost;          /* events that the recorder lost, as the "end" says */
    bool is_of_several;    /* the recording has the work of other GPUs too; this one is origin.device */
    size_t waits_left_out; /* for work of other GPUs */
    bool has_pace;         /* the run was made of a recording, whose pace this is: see gs_pace */
    int64_t pace_ns[6];    /* latency; gaps of streams, of graphs, before copies, after copies; tail */
    gs_json source;        /* the text it was read from (without the values), for the places of later errors */
};

/* ---- launches and copies by one number: the copies come after the launches ---- */

static inline const gs_issue *gs_run_issue(const gs_run *run, size_t operation) {
    size_t launches = run->launches.count;
    return operation < launches ? &run->launches.data[operation].issue : &run->copies.data[operation - launches].issue;
}

/* The operation that an edge leads to. */
static inline size_t gs_run_operation(const gs_run *run, const gs_edge *edge) {
    return edge->is_copy ? run->launches.count + edge->number : edge->number;
}

/* Whether it is a node of a graph; whether two are nodes of the same graph. */
static inline bool gs_issue_is_node(const gs_issue *issue) {
    return issue->facts && issue->facts->graph != GS_NOT_GIVEN;
}

static inline bool gs_issue_is_beside(const gs_issue *one, const gs_issue *other) {
    return gs_issue_is_node(one) && gs_issue_is_node(other) && one->facts->graph == other->facts->graph;
}

/* Whether the next launch is of the same graph, and nothing happens in between: the host launches both at once. */
static inline bool gs_run_graph_goes_on(const gs_run *run, size_t launch) {
    const gs_launch *one = &run->launches.data[launch];
    return launch + 1 < run->launches.count && gs_issue_is_beside(&one->issue, &one[1].issue) &&
           one[1].event == one->event + 1;
}

/* The schema of campaign headers. Such a line names the campaign of the runs that follow it in a file. Readers of runs
   skip it. */
#define GS_CAMPAIGN_SCHEMA "gridsmith.campaign/1"
bool gs_is_campaign_header(const json_t *value);

/* ---- making runs ---- */

/* Appends a launch with its event. Takes ownership of the strings of `launch`, even if it fails. The id must be new. */
gs_code gs_run_add_launch(gs_run *run, const gs_launch *launch, gs_error *error);

/* Appends a launch of this shape that is named by its number: k0, k1, ... */
gs_code gs_run_add_numbered(gs_run *run, const gs_shape *shape, int64_t blocks, gs_error *error);

/* The same as gs_run_add_launch with copies of the strings. The launch may be of another run. It has no edges yet. */
gs_code gs_run_copy_launch(gs_run *run, const gs_launch *launch, gs_error *error);

/* As gs_run_launch, but the kernel's name need not be unique. */
gs_code gs_run_copy_spec(gs_run *run, const gs_launch_spec *spec, gs_error *error);

/* Appends a copy of an event, with its observation. `launch` is the number in `run` of the launch that an exit or an
   observation refers to. */
gs_code gs_run_copy_event(gs_run *run, const gs_run *from, const gs_event *event, size_t launch, gs_error *error);

/* Appends a copy or memset, issued after all launches so far, with copies of its strings; without edges. */
gs_code gs_run_add_copy(gs_run *run, const gs_copy *copy, gs_error *error);

/* Adds a named range, with a copy of the name. */
gs_code gs_run_add_range(gs_run *run, const char *name, int64_t from_ns, int64_t to_ns, gs_error *error);

/* Adds an edge to the latest launch or copy; `issue` is its issue. */
gs_code gs_run_add_edge(gs_run *run, gs_issue *issue, gs_edge edge, gs_error *error);

/* Copies what is said of a run as a whole: id, class, origin, green contexts. The caller sets the GPU. */
gs_code gs_run_copy_about(gs_run *to, const gs_run *from, gs_error *error);

/* Copies the parts of a run that are not launches or events: what gs_run_copy_about copies, copies, and the edges of
   launches. Both runs have the same launches. */
gs_code gs_run_copy_rest(gs_run *to, const gs_run *from, gs_error *error);

/* Sorts launches and copies by the times at which they were issued, if all have one. Runs with exits or observations
   cannot be sorted: GS_E_FORMAT, if they are not in order. */
gs_code gs_run_sort(gs_run *run, gs_error *error);

/* Sets `*found` to the launch or copy with this id, or to the launch of this kernel that has no id. False: there is
   none. */
bool gs_run_find(const gs_run *run, const char *id, gs_edge *found);

/* The observation of an event, for writing. NULL: out of memory. */
gs_seen *gs_event_see(gs_event *event);

/* Facts without any value. */
gs_launch_facts gs_launch_facts_none(void);

/* An issue without an id, times and edges. */
gs_issue gs_issue_none(void);

/* A copy of a run with its observations, but without its source text. */
gs_run *gs_run_copy(const gs_run *run, gs_error *error);

/* Appends an exit or an observation of a launch and returns the event, or NULL. */
gs_event *gs_run_add_event(gs_run *run, gs_op op, size_t launch, gs_error *error);

/* Appends an exit of a launch. */
gs_code gs_run_add_exit(gs_run *run, size_t launch, gs_error *error);

/* A launch with the default values of the optional keys. */
gs_launch gs_launch_default(void);
void gs_launch_clear(gs_launch *launch);
void gs_seen_clear(gs_seen *seen);

/* A launch from a word of a command line, such as mega=132x256,r168,s200K (launch_word.c). Without registers it has
   GS_WORD_REGISTERS. The caller clears it. */
enum { GS_WORD_REGISTERS = 32 };
gs_code gs_launch_of_word(const char *word, gs_launch *launch, gs_error *error);

/* Names what was assumed of the kernels of a run, a line each, as "assumed: 32 registers a thread for nccl (give r)".
   Nothing, if all was given. */
void gs_run_put_assumed(const gs_run *run, gs_text *text);

/* One of these: "32 registers a thread for nccl", or "no shared memory for mega and nccl"; and the letter of its part.
 */
void gs_run_put_assumed_kind(const gs_run *run, gs_assumed_kind kind, gs_text *text);
char gs_assumed_letter(gs_assumed_kind kind);

/* "a", "a and b", "a, b and c": the kernels of which it was assumed. */
void gs_run_put_assumed_kernels(const gs_run *run, gs_assumed_kind kind, gs_text *text);

/* Whether a word of a command line is such a launch, and not a file. */
bool gs_is_launch_word(const char *word);

/* The kernels of a run whose names match one of the patterns (as of a shell, separated by commas), in a run of their
   own: of each kernel and shape the launch with the most blocks, without streams, times and exits (select.c). The
   caller frees it. */
gs_run *gs_run_select(const gs_run *run, const char *patterns, gs_error *error);
bool gs_run_matches(const char *kernel, const char *patterns); /* one of them */
/* These launches in a run of their own, without streams, times and exits. One that has the kernel and the shape of the
   one before it is marked (is_again): what is changed in the one changes in the other. The caller frees it. */
gs_run *gs_run_pick(const gs_run *run, const size_t *launches, size_t count, gs_error *error);

/* The smallest number of a GPU above this one that launches or copies name; GS_NOT_GIVEN: there is none (devices.c). */
int64_t gs_run_next_device(const gs_run *run, int64_t above);
/* Refuses a run of several GPUs in which something does not name its GPU, or of very many GPUs. */
gs_code gs_run_check_devices(const gs_run *run, gs_error *error);
/* The work of one GPU in a run of its own, without waits for work of others. The caller frees it. */
gs_run *gs_run_of_device(const gs_run *run, int64_t device, gs_error *error);

/* Gives all kernels different names: those that share one are called NAME#ID, or NAME#PLACE, counted from 1, if they
   have no id. */
gs_code gs_run_name_apart(gs_run *run, gs_error *error);

/* Gives all kernels short names for people, different if the kernels are. `names` is filled, and says which name was
   which; the caller clears it. */
gs_code gs_run_shorten(gs_run *run, gs_short_names *names, gs_error *error);

/* Sets a number of a launch by its key in files: "cluster", "local_bytes". */
gs_code gs_launch_set(gs_launch *launch, const char *key, int64_t value, gs_error *error);

/* ---- inspecting runs ---- */

/* An error about an event, with its place in the file if it was read from one. */
gs_code gs_run_fail(const gs_run *run, size_t event, gs_error *error, gs_code code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The same about a place: that of an event or of a copy. */
gs_code gs_run_fail_at(const gs_run *run, uint32_t place, gs_error *error, gs_code code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Whether any kernel has a duration. */
bool gs_run_is_timed(const gs_run *run);

/* How long a block of a kernel with a duration runs. The spread is always the same for a block, and is distributed
   evenly: in any range of blocks, nearly all of it occurs. It repeats every GS_SPREAD_BLOCKS blocks. */
enum { GS_SPREAD_BLOCKS = 65536 };
static inline int64_t gs_block_duration(const gs_launch *launch, int64_t block) {
    int64_t share = (int64_t)((uint64_t)block * 40503 & 65535); /* of 65536; 40503 is the golden ratio of it */
    return launch->duration_ns + launch->spread_ns / 65536 * share + launch->spread_ns % 65536 * share / 65536;
}

/* The SM of a block, or GS_WAIT. */
static inline int32_t gs_seen_sm(const gs_seen *seen, int64_t block) {
    return (size_t)block < seen->placed.count ? seen->placed.data[block] : GS_WAIT;
}

static inline int64_t gs_seen_time(const gs_time_list *times, int64_t block) {
    return (size_t)block < times->count ? times->data[block] : GS_NO_TIME;
}

/* The observation of a launch at its launch; times are in this one. */
const gs_seen *gs_launch_seen(const gs_run *run, size_t launch);
/* How many blocks have started. */
int64_t gs_seen_started(const gs_seen *seen);

/* Copies the observation of a kernel of `blocks` blocks into an empty gs_seen. False: out of memory. */
bool gs_seen_copy(gs_seen *to, const gs_seen *from, int64_t blocks);

/* ---- generating ---- */

/* The classes of random runs: "plain", "shared", ... by number; NULL past the last. */
const char *gs_class_name(size_t number);
/* Whether its runs need green contexts: gs_bounds.contexts. */
bool gs_class_needs_contexts(const char *name);
/* Whether its graphs have memsets and copies: not all of its runs are predicted exactly (docs/hopper.md). */
bool gs_class_has_copies(const char *name);

/* The limits within which random runs stay. */
typedef struct gs_bounds {
    int32_t sms, blocks_per_sm, threads_per_sm, threads_per_block, warp_threads, partitions_per_sm, registers_per_sm;
    int64_t shared_per_block_bytes, shared_per_sm_bytes, shared_reserved_bytes;
    int32_t largest_cluster;           /* 1: none */
    const gs_green_contexts *contexts; /* in which launches can be; NULL: none */
    int32_t connections;               /* of the program; 0: each run draws how many there are */
} gs_bounds;

/* Generates the run of a class for a seed and an index: kernels of random shapes, until the next does not fit. NULL:
   the class is not known, or out of memory. */
gs_run *gs_generate(const gs_bounds *bounds, const char *class_name, uint64_t seed, uint64_t index, gs_error *error);

/* The register counts of generated kernels, by number: 24, 32, ... 248, 255; 0 past the last. */
int32_t gs_generated_registers(size_t number);

/* The local memory per thread of generated kernels, by number; -1 past the last. */
int64_t gs_generated_local_bytes(size_t number);

/* Copies green contexts into an empty list; frees them. False: out of memory. */
bool gs_green_copy(gs_green_contexts *to, const gs_green_contexts *from);
void gs_green_clear(gs_green_contexts *contexts);

/* Whether a launch may use an SM: it is outside all green contexts of the run, or in one that has the SM. */
bool gs_run_may_use(const gs_run *run, size_t launch, int32_t sm);

/* ---- comparing ---- */

/* Whether a launch waits, when it is launched, for the end of others that have not exited: directly, or through copies.
 */
bool gs_run_is_held(const gs_run *run, size_t launch);

typedef struct gs_score {
    int64_t runs, runs_exact, launches, launches_exact, blocks, blocks_exact;
} gs_score;

/* Compares `predicted` with `recorded`, which have the same launches, and adds the result to the score. */
gs_code gs_score_add(gs_score *score, const gs_run *recorded, const gs_run *predicted, gs_error *error);

/* ---- scores by class ---- */

typedef struct gs_class_score {
    char *class_name; /* "" for runs without one */
    gs_score score;
} gs_class_score;

typedef struct gs_scores {
    gs_class_score *data; /* in the order in which the classes first occurred */
    size_t count, capacity;
    gs_names by_name;
} gs_scores;

/* Adds a run to the score of its class. Sets `*exact`, which may be NULL, to whether the run is exact. */
gs_code gs_scores_add(gs_scores *scores, const gs_run *recorded, const gs_run *predicted, bool *exact, gs_error *error);
void gs_scores_free(gs_scores *scores);

/* All classes together. */
gs_score gs_scores_total(const gs_scores *scores);

/* Checks that all scored launches of a run have `placed`. Otherwise GS_E_FORMAT, with the place of the launch. Launches
   after the first that waits are not scored. */
gs_code gs_run_is_recorded(const gs_run *run, gs_error *error);

/* ---- files ---- */

/* Reads one run from a value of JSON. Empties `json`; its text is kept in the run. */
gs_run *gs_run_read(gs_json *json, gs_error *error);

/* The runs of an input whose first value was read already. Takes both, also on errors. */
gs_runs *gs_runs_after(gs_input *input, gs_json *first, gs_error *error);

/* What a file is that is no run, and which command reads it; by its name and first bytes. NULL: it is not known. */
const char *gs_other_file(const char *path, const char *bytes, size_t count);

/* As text with one line for each event, as recorders write it. A long text goes to its sink. */
void gs_run_lines(const gs_run *run, gs_text *text);

/* A run as a value of a JSON document; and as a text of its own: one line, without the newline. */
void gs_write_run(gs_writer *writer, const char *key, const gs_run *run);
void gs_run_text(const gs_run *run, gs_text *text);

#endif
