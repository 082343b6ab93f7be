/*
 * loop.h: the device process from within: what its three files share.
 *
 *   engine_process.c   the loop: orders, queues of works, events
 *   engine_resources.c    memory, regions and modules, and the slow threads that make them
 *   engine_confined.c  runs that are confined to some SMs
 */
#ifndef GS_WORKER_LOOP_H
#define GS_WORKER_LOOP_H

#include "worker_device.h"

#include <pthread.h>

enum resource_kind { MEMORY, REGION, MODULE, RESOURCE_KINDS };
enum resource_state { COMING, READY, FAILED };

struct resource {
    struct resource *next; /* in its slot of the table */
    enum resource_kind kind;
    uint32_t number, uses;
    enum resource_state state;
    uint64_t bytes, tag;
    uint64_t address;
    void *pointer;
    gs_loaded *loaded;
};

/* What a slow thread is to do, and what came of it. */
struct chore {
    struct chore *next;
    struct resource *resource;
    bool is_end; /* free, unmap, unload; else the beginning */
    int fd;
    gs_error error;
    char path[];
};

struct helper {
    gs_worker_loop *loop;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct chore *first, **last, *done, **done_last;
    _Atomic uint32_t done_count; /* so that the loop need not lock where there are none */
    uint32_t waiting;            /* chores that the loop has not seen the end of; its own */
};

/* A copy, fill or run that was ordered. */
struct work {
    struct work *next;
    gs_worker_request order;
    gs_launch_request run;
    uint32_t number; /* on its lane */
    int64_t given_ns;
    struct resource *resource, *region; /* memory or module; of a copy */
    bool is_wrong;                      /* it names resources that are not there */
    struct resource **memories;         /* of the arguments that are memory; NULL else */
    gs_request_argument *arguments;
    unsigned char *values;
    _Alignas(16) unsigned char rest[];
};

enum { GS_MOST_FLIGHTS = 8 }; /* launches of a confined run at a time */

struct confined {
    struct work *work;
    gs_control *control;
    uint32_t mask[GS_WORKER_MASK_WORDS];
    uint64_t blocks, seen; /* of the grid; taken when workers were last sent without effect */
    struct flight {
        gs_lane *lane;
        uint32_t number;
    } flights[GS_MOST_FLIGHTS];
    int flight_count, top_ups;
    bool wants_workers;
    int64_t began_ns, top_up_ns, pause_ns; /* and how long after the one before */
    int64_t again_ns, again_us;            /* the same for workers that found no place */
    uint32_t launches;
    uint64_t marks;
    /* what the kernel is told besides its own arguments */
    gs_confined_parameter told;
};

struct list {
    struct work *first, **last;
};

struct queue {
    struct queue *next;
    uint32_t number, flying_count;
    gs_lane *lane;
    struct list waiting, flying;
    struct confined *confined;
    int64_t ended_ns;              /* when the last of its works did */
    const struct work *last_given; /* to the lane; there while the lane has not told of it */
};

enum { SLOTS = 1024 };

struct gs_worker_loop {
    gs_worker_shared *memory;
    gs_ring orders, events;
    const gs_device_kind *kind;
    void *device;
    gs_worker_facts facts;
    bool checks_marks;
    struct resource *resources[RESOURCE_KINDS][SLOTS];
    struct queue *queues; /* with work */
    gs_lane *lanes;       /* that nobody uses */
    struct helper memories, modules;
    struct unreported {
        struct unreported *next;
        uint32_t bytes;
        gs_worker_report event;
    } * unreported, **unreported_last; /* events for which the ring has no room */
    int64_t now_ns, happened_ns, checked_ns, spin_ns;
    unsigned char *record;
};

/* ---- engine_process.c ---- */

/* The device is of no use any more; whose fault it is is guessed. */
void gs_loop_fail(gs_worker_loop *loop, const gs_error *error) __attribute__((noreturn));
void gs_loop_tell_error(gs_worker_loop *loop, uint32_t happened, uint64_t tag, const gs_error *error);
/* `memory`, or the end of the process where there is none. */
void *gs_loop_need(gs_worker_loop *loop, void *memory);

gs_lane *gs_loop_take_lane(gs_worker_loop *loop);
void gs_loop_give_lane_back(gs_worker_loop *loop, gs_lane *lane);
bool gs_lane_is_done(const gs_lane *lane, uint32_t number);

/* Tells what became of a work, and frees it. */
void gs_loop_end_work(gs_worker_loop *loop, struct work *work, gs_worker_report *event);
void gs_loop_fail_work(gs_worker_loop *loop, struct work *work, const gs_error *error);
/* Launches a run on a lane: as it was written, walked, or confined. */
gs_code gs_loop_launch(gs_worker_loop *loop, gs_lane *lane, struct work *work, struct confined *confined,
                       gs_error *error);
/* What a kernel is told besides its own arguments. */
gs_confined_parameter gs_told_of(const gs_launch_request *run, uint64_t next);
uint32_t gs_count_sms(const uint32_t *mask);

/* ---- engine_resources.c ---- */

/* Makes a resource, in place of one that has its number. */
void gs_loop_make_resource(gs_worker_loop *loop, enum resource_kind kind, const gs_worker_request *order, int fd,
                           const char *path);
void gs_loop_drop_resource(gs_worker_loop *loop, enum resource_kind kind, uint32_t number);
/* One more use of a resource; NULL: there is none. */
struct resource *gs_loop_hold(gs_worker_loop *loop, enum resource_kind kind, uint32_t number);
void gs_loop_let_go(gs_worker_loop *loop, struct resource *resource);

void gs_loop_start_helper(gs_worker_loop *loop, struct helper *helper);
/* True: some were done. */
bool gs_loop_finish_chores(gs_worker_loop *loop, struct helper *helper);

/* ---- engine_confined.c ---- */

void gs_confined_begin(gs_worker_loop *loop, struct queue *queue, struct work *work);
/* True: something happened. */
bool gs_confined_advance(gs_worker_loop *loop, struct queue *queue);
/* A new mask for a run, under way or waiting. */
void gs_loop_confine(gs_worker_loop *loop, uint64_t tag, const uint32_t *mask);

#endif
