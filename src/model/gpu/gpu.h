/*
 * gpu.h: what a GPU is.
 *
 *   gs_gpu    its description: limits, topology, mechanisms (gpu.c reads it, mechanisms.c knows the switches)
 *   gs_need   what one block of a kernel takes from this GPU, computed once for each kernel (need.c)
 *   gs_state  the current state of its SMs: headroom, place, release (state.c); its outline (outline.c)
 *   gs_gpu_part  the same GPU with other SMs (part.c)
 *   gs_machine   how long the instructions of a warp take on it (machine.c)
 *
 * An SM is divided into partitions (the paper's "processing blocks"), and two SMs form a TPC. Warp slots and registers
 * belong to a partition, block slots and shared memory to the SM, and the shared-memory configuration to the TPC or the
 * SM, depending on a mechanism.
 */
#ifndef GS_GPU_H
#define GS_GPU_H

#include "base/base.h"

enum {
    GS_MAX_SMS = 4096,
    GS_MAX_BLOCKS_PER_SM = 64,
    GS_MAX_PARTITIONS = 8,
    GS_MAX_WARPS_PER_PARTITION = 64,
    GS_MAX_CONFIGS = 16,
    GS_MAX_GRANT_GROUPS = 64, /* and the most SMs in one of them */
    GS_MAX_TURNS = GS_MAX_GRANT_GROUPS * GS_MAX_GRANT_GROUPS / 4
};

/* ---- mechanisms: what differs between schedulers, as switches ---- */

enum { GS_PLACEMENT_MOST_ROOM, GS_PLACEMENT_ROUND_ROBIN };
enum { GS_TIES_EVEN_ODD, GS_TIES_ASCENDING, GS_TIES_LISTED };
enum { GS_WARPS_STRICT, GS_WARPS_FREE };
enum { GS_SCOPE_TPC, GS_SCOPE_SM };
enum { GS_GIVEN_NEED, GS_GIVEN_LARGEST, GS_GIVEN_GENEROUS };
enum { GS_KEPT_WHILE_BUSY, GS_KEPT_FOR_WAITING };
enum { GS_SPACE_CONTIGUOUS, GS_SPACE_COUNTED, GS_SPACE_RING };
enum { GS_REGISTERS_RENAMED, GS_REGISTERS_CONTIGUOUS };
enum { GS_QUEUE_IN_ORDER, GS_QUEUE_OVERTAKING };
enum { GS_NUMBERED_AS_PLACED, GS_NUMBERED_BY_GRANT };
enum { GS_YES, GS_NO };

typedef struct gs_mechanisms {
    int placement;         /* which SM: the one with the most headroom, or round-robin */
    int tie_order;         /* which SM among equals */
    int warp_placement;    /* warps go to partitions in strict round-robin order (Mechanism 2.1), or step aside */
    int extra_step;        /* Mechanism 2.2 */
    int shared_scope;      /* what a shared-memory configuration belongs to (Mechanism 3) */
    int shared_given;      /* the configuration an idle TPC or SM is given */
    int shared_kept;       /* how long it keeps it */
    int shared_allocation; /* in one piece, or counted (Mechanism 4) */
    int registers;         /* renamed, or in one piece (Mechanism 4) */
    int local_growth_waits;
    int queue;
    int numbering; /* blocks are numbered in the order of placement, or as groups of SMs are granted */
} gs_mechanisms;

/* A row of the table of mechanisms: the name and the values, that of the paper first. */
typedef struct gs_mechanism {
    const char *name;
    size_t offset;         /* of its int in gs_mechanisms */
    const char *values[4]; /* NULL-terminated */
    const char *help;
} gs_mechanism;

extern const gs_mechanism gs_mechanism_table[];
extern const size_t gs_mechanism_count;

const gs_mechanism *gs_mechanism_find(const char *name);
int *gs_mechanism_value(gs_mechanisms *mechanisms, const gs_mechanism *mechanism);

/* A policy of the literature, as a value for every mechanism. */
typedef struct gs_policy {
    const char *name, *alias, *help;
    gs_mechanisms mechanisms;
} gs_policy;

extern const gs_policy gs_policy_table[];
extern const size_t gs_policy_count;

/* ---- description ---- */

typedef struct gs_limits {
    int32_t blocks_per_sm, threads_per_sm, threads_per_block, warp_threads, partitions_per_sm;
    int32_t registers_per_sm, registers_per_thread, register_granularity; /* the last: for the registers of a warp */
    int32_t shared_per_block_bytes, shared_granularity_bytes, shared_reserved_bytes;
    int32_t kernels_per_gpu; /* that run at a time; 0: any number */
    int32_t configs;         /* the shared-memory configurations, ascending */
    int32_t config_bytes[GS_MAX_CONFIGS];
} gs_limits;

/* Groups of SMs. `sms` lists the SMs of group 0, then those of group 1, ...; those of group i end before `ends[i]`. No
   SM is listed twice. */
typedef struct gs_sm_groups {
    int16_t *sms;
    int32_t *ends;
    int32_t count; /* 0: not known */
} gs_sm_groups;

/* How Hopper numbers blocks; see src/model/engine/number.c. */
typedef struct gs_grants {
    gs_sm_groups groups;        /* of all SMs, at most 64 groups of at most 64; the SMs of each ascend */
    int32_t first;              /* the number of groups at the beginning that go before the others */
    int32_t between_rounds;     /* grants from one full round to the next */
    int16_t *before_cut;        /* by SM: grants from a round to a cut one that ends with this SM */
    gs_sm_groups cluster_first; /* the SMs of the first groups in groups of clusters; see src/model/engine/cluster.c */
    int32_t cluster_blocks_per_sm; /* the most blocks of clusters on an SM; 0: clusters are not described */
} gs_grants;

/* Instead of the bytes of shared memory of a shape: a kernel of the driver, which has none, not even the share of the
   runtime. */
#define GS_BARE INT32_MIN

/* The block that signals the end of a node of a CUDA graph to another branch; see src/model/engine/join.c. It has no
   shared memory: GS_BARE. */
typedef struct gs_join {
    int32_t threads, registers;
    int32_t most_children; /* of a node that does not signal its end to all of them; 0: any number */
} gs_join;

/* Memsets, and copies within the GPU. */
enum { GS_MEMORY_SET, GS_MEMORY_COPY, GS_MEMORY_KERNELS };

/* The kernel of the driver that sets or copies memory as a node of a CUDA graph; see src/model/engine/hidden.c. It has
   no shared memory: GS_BARE. */
typedef struct gs_memory_kernel {
    int32_t threads, registers;             /* without threads: not known, or the GPU has none */
    int32_t least_bytes;                    /* smaller operations use no SMs */
    int32_t block_bytes;                    /* bytes that a block sets or copies */
    int32_t large_bytes, large_block_bytes; /* from large_bytes on, the bytes per block; 0: never */
    int32_t whole_blocks; /* the last part, which does not fill a block, goes to the other blocks, if there are any */
} gs_memory_kernel;

/* How many blocks it has for this many bytes; 0: it uses no SMs. */
int64_t gs_memory_kernel_blocks(const gs_memory_kernel *kernel, int64_t bytes);

/* ---- how long instructions take ---- */

enum { GS_MACHINE_UNITS = 16 };

/* What warps wait for: each partition, each SM, or the GPU has one of it. */
typedef enum gs_unit_scope { GS_UNIT_OF_PARTITION, GS_UNIT_OF_SM, GS_UNIT_OF_GPU, GS_UNIT_SCOPES } gs_unit_scope;

typedef struct gs_machine_unit {
    char *name;
    gs_unit_scope scope;
} gs_machine_unit;

/* A class of instructions. All times are maxima. */
enum { GS_FEW_WARPS = 8 };

typedef struct gs_machine_class {
    char *name;
    int64_t latency_cycles; /* from its issue until its scoreboard is cleared, if it waits for nothing else */
    int64_t loaded_cycles;  /* the same while others use the units of the GPU as much as they can */
    int64_t read_cycles, loaded_read_cycles;   /* the same until it has read its operands; 0: as the two above */
    int64_t kept_cycles, kept_read_cycles;     /* as latency and read if the L2 has what they access; 0: not measured */
    int64_t kept_millicycles;                  /* and how long units of the GPU are busy with a transaction then */
    int64_t beside_cycles, beside_read_cycles; /* as latency and read beside other programs on other SMs, which contains
                                                  the delays by them; 0: not measured */
    int64_t written_cycles, written_read_cycles; /* the same beside others that write; 0: not measured */
    /* k of them in a chain take at most k times the first, and the second once: alone, kept, beside, loaded. 0: not
       measured, so k times the longest. The first three hold for the slowest of up to GS_FEW_WARPS at a time. */
    int64_t alone_repeated_cycles, alone_burst_cycles, kept_repeated_cycles, kept_burst_cycles;
    int64_t beside_repeated_cycles, beside_burst_cycles, repeated_cycles, burst_cycles;
    int64_t transactions;                       /* the most that one instruction of a warp makes */
    int64_t held_millicycles[GS_MACHINE_UNITS]; /* how long each unit is busy with one transaction */
} gs_machine_class;

/* The times of a GPU, in cycles of its SMs. */
typedef struct gs_machine {
    char *found;                                       /* how, when and on which GPU they were measured */
    int64_t clock_mhz;                                 /* the lowest of the SMs */
    int64_t line_bytes;                                /* instructions are fetched in lines */
    int64_t code_bytes;                                /* of lines that an SM keeps */
    int64_t fetch_cycles;                              /* that a warp waits for a line that its SM has */
    int64_t cold_fetch_cycles;                         /* and for one that it does not have */
    int64_t jump_cycles;                               /* and for one that a branch leads to; 0: as fetch_cycles */
    int64_t constant_line_bytes, cold_constant_cycles; /* constants come in lines as well; 0: not measured */
    int64_t block_cycles; /* from headroom for a block to its first instruction, and from its last to headroom */
    int64_t launch_ns;    /* of an empty kernel, from when it is the next to be launched on an idle GPU to its end */
    int64_t loaded_launch_ns;  /* the same beside others; 0: as launch_ns */
    int64_t written_launch_ns; /* the same beside others that write; 0: as loaded_launch_ns */
    int64_t kept_bytes;        /* of memory that the L2 keeps; 0: not measured */
    int64_t sms;               /* of the GPU that was measured; 0: not known */
    struct {
        gs_machine_unit *data;
        size_t count, capacity;
    } units;
    struct {
        gs_machine_class *data;
        size_t count, capacity;
    } classes;
} gs_machine;

/* Reads gridsmith.machine/1. The caller frees it. */
gs_machine *gs_machine_open(const char *path, gs_error *error);
gs_machine *gs_machine_input(gs_input *input, gs_error *error);
void gs_machine_free(gs_machine *machine);

/* A document gridsmith.machine/1, without the newline. */
void gs_machine_text(const gs_machine *machine, gs_text *text);

/* The row of a class, or NULL. */
const gs_machine_class *gs_machine_find(const gs_machine *machine, const char *name);

/* The error for a GPU that was not measured. */
gs_code gs_fail_no_machine(const gs_gpu *gpu, gs_error *error);

/* For gpu.c: "machine" of a description. */
gs_code gs_machine_read(const gs_json *json, const gs_step *at, gs_machine **machine, gs_error *error);
void gs_machine_write(gs_writer *writer, const gs_machine *machine);

/* ---- all of it ---- */

struct gs_gpu {
    char *name, *title, *architecture, *compute_capability, *uuid, *source;
    char *assumed;                  /* what was not measured on this GPU, in words; NULL: all was measured */
    int32_t sms, gpcs, sms_per_tpc; /* gpcs 0: not known */
    gs_sm_groups gpc_sms;
    gs_limits limits;
    gs_mechanisms mechanisms;
    int16_t *listed_order; /* GS_TIES_LISTED: the SMs, first choice first */
    gs_grants grants;      /* GS_NUMBERED_BY_GRANT; without groups: not known */
    gs_join join;          /* without threads: not known, or the GPU has none */
    gs_memory_kernel memory_kernels[GS_MEMORY_KERNELS];
    gs_machine *machine; /* NULL: not measured */
    int32_t skipped_sm;  /* for tests: this SM, counted from 1, gets no blocks; 0: none */
    /* computed from the above: */
    int32_t warps_per_partition, registers_per_partition; /* registers in granules */
    int32_t largest_config_bytes;
};

/* Its compute capability as a number: 90 for 9.0; 0: not known. */
int gs_gpu_architecture(const gs_gpu *gpu);

/* Whether the description says where clusters go. */
bool gs_gpu_has_clusters(const gs_gpu *gpu);

gs_gpu *gs_gpu_read(gs_input *input, gs_error *error);

/* A copy, but without `skipped_sm`. */
gs_gpu *gs_gpu_copy(const gs_gpu *gpu, gs_error *error);

/* A copy with `sms` SMs, without GPCs and clusters. The caller frees it. */
gs_gpu *gs_gpu_part(const gs_gpu *gpu, int32_t sms, gs_error *error);

/* Removes the grants from a description. Its numbering stays. */
void gs_gpu_drop_grants(gs_gpu *gpu);

/* The sizes that a green context can have: at least `*least` SMs, and a multiple of `*step` (the CUDA driver's
   documentation of cuDevSmResourceSplitByCount). */
void gs_gpu_green_sizes(const gs_gpu *gpu, int32_t *least, int32_t *step);

/* Notes that the description is used for another GPU like this one. */
gs_code gs_gpu_assume_like(gs_gpu *gpu, gs_error *error);

/* Appends the assumptions about the GPU as a line. Appends nothing if all was measured. */
void gs_gpu_put_assumed(const gs_gpu *gpu, gs_text *text);

/* The built-in name that is meant: "h200", or the name that the driver reports, with or without its maker and words for
   the board ("NVIDIA H200 NVL"). Case, spaces, dashes and underscores do not matter. NULL: none matches. */
const char *gs_gpu_builtin_name(const char *name);

/* Whether `name` can be the driver's name of this GPU: the title, or the title followed by the kind of board, if the
   number of SMs agrees. */
bool gs_gpu_is_called(const gs_gpu *gpu, const char *driver_name, int32_t sms);
/* The built-in GPU of that name, or NULL. The caller frees it. */
gs_gpu *gs_gpu_open_called(const char *driver_name, int32_t sms);

/* The most blocks that are on the GPU at a time. */
static inline size_t gs_gpu_most_blocks(const gs_gpu *gpu) {
    return (size_t)gpu->sms * (size_t)gpu->limits.blocks_per_sm;
}

/* The description as one line of JSON, without the newline. */
void gs_gpu_text(const gs_gpu *gpu, gs_text *text);

/* The SMs in the order in which ties are broken, into `order`, which has gpu->sms elements. */
void gs_gpu_tie_order(const gs_gpu *gpu, int16_t *order);

/* The smallest configuration that holds `bytes`, or the largest there is. */
int32_t gs_gpu_config_for(const gs_gpu *gpu, int64_t bytes);

/* ---- need: one block of a kernel on this GPU ---- */

bool gs_shape_equal(const gs_shape *a, const gs_shape *b);

typedef struct gs_need {
    gs_shape shape;
    int32_t warps;            /* of a block */
    int32_t registers;        /* of a warp, in granules */
    int32_t shared;           /* of a block with the runtime's share, in granules */
    int32_t config_bytes;     /* a busy TPC must have at least this (Mechanism 3) */
    int32_t given_bytes;      /* an idle one is given this */
    int32_t most_bytes;       /* a busy one must not have more */
    int32_t blocks_per_sm;    /* on an SM with nothing else on it */
    int32_t shared_when_idle; /* blocks that the given configuration holds */
} gs_need;

/* Computes the need. GS_E_NO_FIT, with the reason, if no SM can ever take a block. */
gs_code gs_need_of(const gs_gpu *gpu, const gs_shape *shape, gs_need *need, gs_error *error);

/* ---- state: the SMs as they are now ---- */

/* Which block holds a piece of shared memory or registers. */
typedef struct gs_piece {
    uint16_t at, size;
    int32_t block;
} gs_piece;

/* Memory that is allocated in pieces, each at the lowest address that fits. A ring continues at its beginning after its
   end, and its addresses count from an origin that moves (move_origin in state.c). */
typedef struct gs_space {
    gs_piece *pieces; /* in order of address; allocated for the most there can be */
    uint16_t count, size, largest_hole;
    bool is_ring;
} gs_space;

typedef struct gs_sm {
    int32_t block_slots;                   /* free */
    int32_t pointer;                       /* the partition that gets the next warp */
    int32_t shared_free;                   /* granules: the largest hole, or all that is free where memory is counted */
    int32_t group;                         /* the TPC, or the SM itself: what shares a configuration */
    int32_t warp_slots[GS_MAX_PARTITIONS]; /* free */
    int32_t registers[GS_MAX_PARTITIONS];  /* free, in granules: all, or the largest hole */
    int32_t cluster_blocks;                /* how many of its blocks are part of a cluster */
    gs_space shared_space;                 /* used where shared memory is in one piece */
    gs_space *register_spaces;             /* one per partition where registers are in one piece, or NULL */
} gs_sm;

/* SMs that share a shared-memory configuration. */
typedef struct gs_group {
    int32_t residents;    /* blocks on all its SMs */
    int32_t config_bytes; /* set by the first block on an idle group */
    bool is_warm;         /* its last block has just ended, and a waiting kernel can still use the configuration */
    int32_t first_sm, sms;
} gs_group;

/* A block on an SM, and what it holds. */
typedef struct gs_resident {
    int32_t need; /* the caller's number of its need; -1: the handle is free */
    int32_t sm;   /* of a free handle: the next free one */
    uint8_t warps[GS_MAX_PARTITIONS];
} gs_resident;

typedef struct gs_state {
    const gs_gpu *gpu;
    gs_sm *sms;
    gs_group *groups;
    int32_t group_count;
    gs_resident *residents; /* by handle, one for each block that the GPU can hold */
    bool *in_cluster;       /* by handle: the block is part of a cluster */
    int32_t free_handle;    /* -1: none */
    int32_t resident_count;
    int64_t local_bytes; /* per thread, that local memory is set up for */
    gs_piece *pieces;    /* the memory of all spaces */
    gs_space *spaces;
} gs_state;

gs_code gs_state_init(gs_state *state, const gs_gpu *gpu, gs_error *error);
void gs_state_free(gs_state *state);

/* Copies `from` to `to`, which was initialized for the same GPU. */
void gs_state_copy(gs_state *to, const gs_state *from);

/* Appends the part of the state that decides where later blocks go. Handles are only names: `handles` lists those in
   use, in an order that the caller chooses, and `names` has the position of each in that order. States with equal bytes
   behave alike. */
void gs_state_image(const gs_state *state, const int32_t *handles, const int32_t *names, gs_text *image);

/* How many blocks of a kernel the SM can still take. */
int32_t gs_state_headroom(const gs_state *state, const gs_need *need, int32_t sm);

/* Whether the kernel must wait for an idle GPU, because local memory is set up for fewer bytes than it needs (Algorithm
   1, line 1). */
bool gs_state_local_waits(const gs_state *state, const gs_need *need);

/* Places a block, of a cluster or alone; the SM must have headroom. Returns its handle. `group_changed`: the
   configuration of the SM's group was set, so the headroom of its other SMs has changed too. */
int32_t gs_state_place(gs_state *state, const gs_need *need, int32_t need_number, int32_t sm, bool in_cluster,
                       bool *group_changed);

/* The state of an SM that remains after all its blocks have ended; or the difference of two such states. */
typedef struct gs_mark {
    uint16_t pointer;
    uint16_t at; /* the address of the first piece of a ring of shared memory; 0: none */
} gs_mark;

/* The marks of all SMs, by SM. */
void gs_state_mark(const gs_state *state, gs_mark *marks);

/* Moves each SM by a difference of two marks. */
void gs_state_move(gs_state *state, const gs_mark *moves);

/* Appends the resources that the blocks on the GPU leave to others (outline.c). States with equal bytes behave alike as
   long as these blocks stay. Nothing is appended for an idle GPU. */
void gs_state_outline(const gs_state *state, gs_text *text);

/* Makes an idle group one that has just become idle, with this configuration. */
void gs_state_warm(gs_state *state, int32_t group, int32_t config_bytes);

/* Drops the configuration of a group that has become idle, because no kernel waited for it. */
void gs_state_cool(gs_state *state, int32_t group);

/* Frees a block. `group_changed`: its group is idle now. */
void gs_state_release(gs_state *state, const gs_need *need, int32_t handle, bool *group_changed);

/* ---- why an SM has no headroom ---- */

typedef enum gs_obstacle_kind {
    GS_OBSTACLE_NONE,
    GS_OBSTACLE_CONFIG,       /* busy, with an unsuitable shared-memory configuration */
    GS_OBSTACLE_BLOCK_SLOTS,  /* of the SM */
    GS_OBSTACLE_WARP_SLOTS,   /* of a partition */
    GS_OBSTACLE_REGISTERS,    /* of a partition */
    GS_OBSTACLE_SHARED,       /* less is free than a block needs */
    GS_OBSTACLE_SHARED_HOLES, /* enough is free, but not in one piece */
} gs_obstacle_kind;

typedef struct gs_obstacle {
    gs_obstacle_kind kind;
    int32_t partition;    /* for warp slots and registers: the one without enough; -1: all together */
    int32_t share, fits;  /* warps of a block that would go there, and how many fit */
    int32_t config_bytes; /* for CONFIG: what the SM has */
    bool others_could;    /* the block would fit if its warps went to other partitions */
} gs_obstacle;

/* The first limit that leaves the SM without headroom for a block. */
gs_obstacle gs_state_obstacle(const gs_state *state, const gs_need *need, int32_t sm);

#endif
