/*
 * loop.h: the internals of the worker process. Each file uses only files before it:
 *
 *   reports.c      reports to the daemon, and the end of the process
 *   resources.c    memory, regions and modules, and the slow threads that make them
 *   operations.c   copies, fills and launches
 *   confined.c     launches confined to some SMs
 *   loop.c         requests, queues, the loop
 */
#ifndef GS_WORKER_LOOP_H
#define GS_WORKER_LOOP_H

#include "backend.h"

#include <pthread.h>

enum resource_kind { MEMORY, REGION, MODULE, RESOURCE_KINDS };
enum resource_state { COMING, READY, FAILED };

struct resource {
    struct resource *next; /* in its bucket of the table */
    enum resource_kind kind;
    uint32_t handle, uses;
    enum resource_state state;
    uint64_t bytes, tag;
    uint64_t address;
    void *pointer;
    gs_loaded *loaded;
};

/* A job of a slow thread, and its result. */
struct slow_job {
    struct slow_job *next;
    struct resource *resource;
    bool is_end; /* free, unmap or unload; otherwise allocate, map or load */
    int fd;      /* of a region or an image, or -1 */
    gs_error error;
};

struct slow_thread {
    gs_worker_loop *loop;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct slow_job *first, **last, *done, **done_last;
    uint32_t count;              /* of jobs not yet collected; only the loop uses it */
    _Atomic uint32_t done_count; /* so that the loop need not lock if there are none */
};

/* A requested copy, fill or launch. */
struct operation {
    struct operation *next;
    uint32_t number; /* on its lane */
    int64_t given_ns;
    struct resource *resource, *region; /* memory or module; of a copy */
    struct resource **memories;         /* of a launch: for each argument its memory, or NULL */
    bool is_wrong;                      /* it names resources that do not exist */
    gs_worker_request *request;         /* as received, in `record` */
    gs_worker_launch *launch;           /* the same if it is a launch, otherwise NULL */
    alignas(8) unsigned char record[];  /* as received, then `memories` */
};

enum { GS_MOST_FLIGHTS = 8 }; /* simultaneous driver launches of one confined launch */

struct confined {
    struct operation *operation;
    gs_control *control;
    uint32_t mask[GS_WORKER_MASK_WORDS];
    uint64_t blocks, seen; /* of the grid; blocks taken when workers were last launched in vain */
    struct flight {
        gs_lane *lane;
        uint32_t number;
    } flights[GS_MOST_FLIGHTS];
    int flight_count, top_ups;
    bool wants_blocks;
    bool is_held;                          /* a follower: the device sees an empty mask instead of `mask` */
    int64_t began_ns, top_up_ns, pause_ns; /* the next top-up, and the interval since the last */
    int64_t again_ns, again_us;            /* the same for workers that found no SM */
    uint32_t launches;
    uint64_t counts;
    gs_confined_parameter grid; /* the additional argument of the kernel */
};

struct operations {
    struct operation *first, **last;
};

struct queue {
    struct queue *next;
    uint32_t number, in_flight_count;
    gs_lane *lane;
    struct operations waiting, in_flight;
    struct confined *confined, *follower; /* the running launch, and one given to its lane behind it */
    int64_t ended_ns;                     /* the end of its last operation */
    const struct operation *last_given;   /* to the lane; valid while the lane is unreported */
};

enum { RESOURCE_BUCKETS = 1024 };

struct gs_worker_loop {
    gs_worker_shared *shared;
    gs_ring requests, reports;
    const gs_backend *backend;
    void *device;
    gs_worker_facts facts;
    bool checks_counts;
    struct resource *resources[RESOURCE_KINDS][RESOURCE_BUCKETS];
    struct queue *queues; /* with operations */
    gs_lane *free_lanes;
    struct slow_thread memory_thread, module_thread, release_thread;
    struct unsent_report {
        struct unsent_report *next;
        uint32_t bytes;
        gs_worker_report report;
    } * unsent, **unsent_last; /* reports that did not fit into the ring */
    int64_t now_ns, active_ns, checked_ns, spin_ns;
    bool is_suspect; /* a resource could not be made: the device may be broken */
    uint32_t jobs;   /* with the slow threads */
    uint32_t freed;  /* operations and jobs freed since the last trim */
    unsigned char *record;
};

/* ---- reports.c ---- */

void gs_loop_report(gs_worker_loop *loop, const gs_worker_report *report);
void gs_loop_report_error(gs_worker_loop *loop, uint32_t kind, uint64_t tag, const gs_error *error);
/* Sends reports that did not fit into the ring. */
void gs_loop_flush(gs_worker_loop *loop);
/* Returns `memory`; ends the process if it is NULL. */
void *gs_loop_need(gs_worker_loop *loop, void *memory);

/* ---- resources.c ---- */

/* Makes a resource; it replaces one with the same handle. */
void gs_loop_resource_make(gs_worker_loop *loop, enum resource_kind kind, const gs_worker_request *request, int fd);
void gs_loop_resource_drop(gs_worker_loop *loop, enum resource_kind kind, uint32_t handle);
/* Adds a use to a resource; NULL: it does not exist. */
struct resource *gs_loop_resource_hold(gs_worker_loop *loop, enum resource_kind kind, uint32_t handle);
void gs_loop_resource_let_go(gs_worker_loop *loop, struct resource *resource);

void gs_slow_thread_start(gs_worker_loop *loop, struct slow_thread *thread);
/* Collects finished jobs. True: there were some. */
bool gs_slow_thread_collect(gs_worker_loop *loop, struct slow_thread *thread);

/* ---- operations.c ---- */

gs_lane *gs_lane_take(gs_worker_loop *loop);
void gs_lane_give_back(gs_worker_loop *loop, gs_lane *lane);
/* Whether finished work failed; true once. */
bool gs_lane_has_failed(gs_lane *lane, uint32_t number);

/* An operation from a request of `bytes` bytes. */
struct operation *gs_operation_new(gs_worker_loop *loop, const void *request, uint32_t bytes);
/* Whether all resources are ready; an error if one never will be. */
bool gs_operation_is_ready(const struct operation *operation, gs_error *error);
gs_code gs_operation_check_launch(const struct operation *operation, gs_error *error);
/* Gives a copy, a fill or a launch to a lane. */
gs_code gs_operation_give(gs_worker_loop *loop, gs_lane *lane, struct operation *operation, gs_error *error);
/* Launches the original, the block loop, or the confined form. */
gs_code gs_operation_launch(gs_worker_loop *loop, gs_lane *lane, struct operation *operation, struct confined *confined,
                            gs_error *error);
/* Reports the result of an operation, and frees it. */
void gs_operation_end(gs_worker_loop *loop, struct operation *operation, gs_worker_report *report);
void gs_operation_fail(gs_worker_loop *loop, struct operation *operation, const gs_error *error);
/* The device has failed: ends the process, with a guess at the launch that caused it. */
void gs_loop_fail(gs_worker_loop *loop, const gs_error *error) __attribute__((noreturn));

/* The additional argument of a reshaped kernel. */
gs_confined_parameter gs_operation_grid(const gs_worker_launch *launch, const gs_control *control, uint64_t counts);

/* ---- confined.c ---- */

void gs_confined_begin(gs_worker_loop *loop, struct queue *queue, struct operation *operation);
/* Gives an operation to the device behind the confined launch of its queue. False: it must wait until that has ended.
 */
bool gs_confined_follow(gs_worker_loop *loop, struct queue *queue, struct operation *operation);
/* True: there was progress. */
bool gs_confined_advance(gs_worker_loop *loop, struct queue *queue);
/* A new mask for a launch, running or waiting. */
void gs_confined_resize(gs_worker_loop *loop, uint64_t tag, const uint32_t *mask);

#endif
