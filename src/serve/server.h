/*
 * server.h: the daemon from within; for this room alone.
 *
 *   resources     what a client has on the device: memory, host memory that is shared, modules
 *   actions    commands that have been checked, from their arrival until they have happened
 *   sessions   one client: its page, its resources, its streams (session.c)
 *   server   all sessions, and the engine that does what they ask for (dispatch.c): launches that follow the ones
 *              before them (follow.c), and those that need a decision (schedule.c)
 *   status     what is going on, for people and for programs (status.c)
 *
 * Nothing here knows sockets or loops: those are daemon.c's, which calls
 *
 *   gs_session_open, gs_session_file, gs_session_close      as connections come, say something and go
 *   gs_server_work                                        as often as it can while there is something to do
 *   gs_server_sleep                                       before it waits
 *
 * All of it is one thread's.
 */
#ifndef GS_SHARE_INSIDE_H
#define GS_SHARE_INSIDE_H

#include "client/client.h"
#include "plan/plan.h"
#include "worker/worker.h"

enum {
    GS_SESSIONS = 1024,       /* at a time */
    GS_SESSION_ACTIONS = 512, /* of one client that have not happened: more stay in its ring */
    GS_SESSION_TURN = 64,     /* commands taken from one client before the next one's turn */
    GS_TIME_BUCKETS = 40      /* powers of two of nanoseconds */
};

typedef struct gs_server gs_server;
typedef struct gs_session gs_session;
typedef struct gs_action gs_action;

/* ---- resources ---- */

enum gs_resource_kind { GS_RESOURCE_MEMORY, GS_RESOURCE_REGION, GS_RESOURCE_MODULE, GS_RESOURCE_KINDS };

/* Lives as long as its client names it or an action uses it. */
typedef struct gs_resource {
    enum gs_resource_kind kind;
    uint32_t number; /* the engine's */
    uint32_t users;
    bool is_named;
    bool is_ready; /* actions may use it */
    uint32_t life; /* the engine had it in this life; 0: never */
    uint64_t bytes;
    gs_image *image; /* of a module */
    uint64_t source; /* of a module: its hash */
    double
        *ns_per_block; /* of a module: of each kernel the ns a block took, in the shape it ran in last; 0: not known */
    gs_session *session;
} gs_resource;

typedef struct gs_resource_table {
    gs_resource **data; /* by the client's numbers */
    size_t count, capacity;
} gs_resource_table;

/* Numbers that are given out and come back. */
typedef struct gs_handles {
    uint32_t *data; /* that came back */
    size_t count, capacity;
    uint32_t next;
} gs_handles;

/* ---- actions ---- */

/* What a launch is, besides. */
typedef struct gs_action_launch {
    gs_worker_launch run;
    uint64_t blocks;  /* of the grid */
    uint64_t counted; /* of them, those that a measurement has seen */
    gs_profile *profile;
    enum gs_plan_how how;
    int32_t sms;
    gs_mask mask;
    bool is_stopping;     /* its mask is empty, it has not ended yet */
    bool had_neighbors;   /* another stream's kernel ran beside it */
    bool was_resized;     /* its mask changed while it ran */
    bool has_begun;       /* some blocks of it ran */
    uint64_t arrival;     /* order of arrival */
    uint64_t waits_since; /* ns */
    uint64_t ran_ns;      /* before it was stopped the last time */
    int64_t expected_ns;  /* when it was given to the engine: how long it would take */
    uint32_t memory_count;
    gs_resource *memories[GS_CLIENT_ARGUMENTS];
    gs_worker_argument arguments[GS_CLIENT_ARGUMENTS];
    alignas(8) unsigned char values[GS_CLIENT_VALUES_BYTES];
} gs_action_launch;

struct gs_action {
    uint32_t index, generation;
    uint32_t what;  /* enum gs_wire_what, or GS_ACTION_LOAD */
    bool is_issued; /* the engine has it */
    bool is_done;
    uint64_t number; /* of the command */
    uint64_t arrived_ns;
    gs_session *session;
    struct gs_stream *stream;
    gs_action *next; /* in the stream, or among those that are free */
    gs_resource *resource, *region;
    uint64_t at, region_at, bytes;
    uint32_t reply, ticket, event;
    uint8_t value;
    gs_action_launch launch;
};

enum { GS_ACTION_LOAD = GS_WIRE_WHATS };

typedef struct gs_stream {
    gs_session *session;
    uint32_t number, queue;
    gs_action *head, *tail; /* in order */
    gs_action *next;        /* the first that the engine does not have; NULL: it has all */
    uint32_t launches;      /* that the engine has */
    gs_action *confined;    /* the engine has it: nothing is sent after it */
    int64_t pipelined_ns;   /* how long the launches that the engine has will take, about */
    int64_t unreported_ns;  /* the same of the last of them of which it need not tell one by one */
    bool is_full;           /* the engine had enough of them, and has not yet used up what makes a refill worthwhile */
    uint64_t running_since; /* when the first of them began, about */
    uint64_t ended_ns;      /* when the last action was done */
    /* Of the launch that ended last, while another is expected: */
    gs_profile *last; /* pinned; NULL: none is */
    gs_mask last_mask;
    int32_t last_sms;
    enum gs_plan_how last_how;
    uint64_t expected_until_ns;
    bool is_listed; /* among the server's contenders */
} gs_stream;

/* ---- sessions ---- */

typedef struct gs_session_options {
    char name[GS_WIRE_NAME];
    uint32_t weight, most_sms;
    int32_t priority;
    int32_t process;          /* its id */
    int page, bell, own_bell; /* descriptors, the session's from now on */
} gs_session_options;

/* What a client has had so far. */
typedef struct gs_session_counts {
    uint64_t commands, launches, blocks, copied_bytes, memory_bytes, resizes, errors;
    uint64_t served; /* SMs times nanoseconds */
} gs_session_counts;

struct gs_session {
    gs_server *server;
    gs_session_options options;
    uint32_t slot;
    gs_wire_page *page; /* NULL: the client is gone */
    gs_ring ring;
    gs_resource_table resources[GS_RESOURCE_KINDS];
    gs_stream streams[GS_CLIENT_STREAMS];
    uint64_t commands;
    uint32_t actions;  /* that have not happened */
    uint32_t end_code; /* enum gs_client_code */
    bool is_slow;      /* it has as many actions as it may have: its ring waits */
    uint64_t opened_ns;
    uint32_t listed; /* streams that take part in decisions */
    uint64_t had;    /* SMs times nanoseconds, for fairness: see schedule.c */
    gs_session_counts counts;
};

/* A client came. Owns the descriptors, also where it fails. */
gs_session *gs_session_open(gs_server *server, const gs_session_options *options, gs_error *error);
/* The client is gone: what it has goes as soon as nothing uses it, and then the session. */
void gs_session_close(gs_session *session);
/* A message with a file came over the socket. Does not keep `fd`. */
void gs_session_file(gs_session *session, const void *message, size_t bytes, int fd);
/* Takes commands from the ring; true: there were some. */
bool gs_session_take(gs_session *session);
/* One command, as it stood in the ring. What is wrong with it ends the client. */
void gs_session_command(gs_session *session, const void *command, size_t bytes);
/* Ends the client: it gets this code from every call. */
void gs_session_end(gs_session *session, gs_client_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void gs_session_reply(gs_session *session, uint32_t slot, uint32_t ticket, gs_client_code code, const char *words);
/* Something changed in the page: wakes the client where it sleeps. */
void gs_session_ring(gs_session *session);
bool gs_session_has_resources(const gs_session *session);

/* A source as it comes in a file: name, options, kernels, text. What points into `bytes` must outlive it; the caller
   frees the request's lists. False: it is not one. */
void gs_source_free_unpacked(gs_image_request *request, char *bytes);
bool gs_source_unpack(const char *bytes, size_t size, uint32_t options, uint32_t kernels, gs_image_request *request);

gs_resource *gs_resource_new(gs_session *session, enum gs_resource_kind kind, uint64_t bytes);
void gs_resource_use(gs_resource *resource);
void gs_resource_leave(gs_resource *resource);
void gs_resource_forget(gs_resource *resource); /* its client does not name it any more */

/* ---- server ---- */

/* A source on its way to a module. */
typedef struct gs_load {
    gs_compilation *work; /* NULL: it waits for others */
    gs_image_request request;
    char *bytes; /* that the request points into */
    gs_action *action;
    struct gs_load *next;
    void *watcher; /* daemon.c's */
} gs_load;

typedef struct gs_server_options {
    gs_worker_options engine;
    const char *profiles; /* file of the store, or NULL */
    const char *cache;    /* folder of images; NULL: the user's */
    uint64_t limit_ns;    /* a kernel that runs longer is stopped */
    uint64_t shuffle_ns;  /* for tests: SMs are dealt anew as often; 0: never */
    /* A source is being compiled: when gs_image_fd is readable, gs_server_loaded is to be called. */
    void (*watch)(void *context, gs_load *load);
    void (*say)(void *context, const char *line); /* what people should know */
    void *context;
} gs_server_options;

typedef struct gs_times {
    uint64_t buckets[GS_TIME_BUCKETS], count, sum_ns, most_ns;
} gs_times;

struct gs_server {
    gs_server_options options;
    gs_worker *engine;
    gs_worker_facts facts;
    gs_profile_store *store;
    gs_plan_options plan;
    struct {
        gs_session **data; /* by slot; NULL: nobody */
        size_t count, capacity;
    } sessions;
    gs_handles slots, numbers[GS_RESOURCE_KINDS];
    struct {
        gs_action **data;
        size_t count, capacity;
    } actions;
    gs_action *free_actions;
    struct {
        gs_stream **data;
        size_t count, capacity;
    } contenders; /* streams with a launch that waits or runs, or that is expected */
    struct {
        gs_contender *data;
        size_t count, capacity;
    } asked;
    struct {
        gs_plan_place *data;
        size_t count, capacity;
    } placed;
    gs_load *loads; /* in order; the first few are being compiled */
    uint32_t compiling;
    uint32_t loading; /* modules that the engine loads: nothing starts meanwhile */
    uint64_t arrivals;
    uint64_t now_ns;     /* as of this turn of the loop */
    uint64_t look_at_ns; /* decide again then */
    uint64_t saved_ns, worked_ns, checked_ns, tried_ns;
    gs_random random;
    bool must_decide, must_sweep;
    bool somebody_waits; /* for a turn, as of the last decision */
    bool is_down;        /* there is no device process */
    bool is_draining;    /* no more commands are taken */
    uint32_t life;       /* of the engine, from 1 on */
    uint32_t running;    /* streams with launches that the engine has */
    uint64_t opened_ns, launches, resizes, decisions;
    gs_times first_block; /* from the arrival of a launch to its first block */
    struct gs_window {
        size_t count;
        const gs_stream *streams[2];
        gs_profile *profiles[2];
        int32_t sms[2];
        uint64_t blocks[2], since_ns, least_ns; /* shorter, and it tells nothing */
        bool is_turns;                          /* or all whole: the GPU has them take turns */
        bool is_probe;                          /* or a trial */
    } window;
    unsigned char record[GS_WIRE_MOST_BYTES];
};

extern const char gs_no_device[]; /* the words for it */

gs_server *gs_server_open(const gs_server_options *options, gs_error *error);
void gs_server_close(gs_server *server);
/* Takes what came from clients and from the engine, and decides what runs. True: there was something. */
bool gs_server_work(gs_server *server);
/* Before waiting. False: something came meanwhile, work first. `*most_ns`: wait no longer. */
bool gs_server_sleep(gs_server *server, uint64_t *most_ns);
void gs_server_loaded(gs_load *load);
/* Whether any client has something that has not happened. */
bool gs_server_is_busy(const gs_server *server);

/* An action of a session; NULL: out of memory. It is freed when it is done. */
gs_action *gs_action_new(gs_session *session, uint32_t what);
void gs_action_free(gs_action *action);
uint64_t gs_action_tag(const gs_action *action);
/* Puts it at the end of its stream. */
void gs_server_add(gs_action *action);
/* Starts an allocation or a load, which have no stream. */
void gs_server_allocate(gs_action *action);
void gs_server_load(gs_action *action, const gs_image_request *request,
                    char *bytes); /* all of it is the server's now */
/* Drops what the engine does not have yet of a session that is over, and stops what it has. */
void gs_server_drop(gs_session *session);

/* For schedule.c, follow.c and dispatch.c. */
gs_action *gs_stream_launch(const gs_stream *stream); /* the first launch that is not done, or NULL */
void gs_stream_list(gs_stream *stream);               /* it takes part in decisions */
void gs_server_start(gs_action *action);              /* hands a launch to the engine, as its `how` and `mask` say */
void gs_server_advance(gs_stream *stream);            /* hands over what can be */
/* How long a launch will take by itself, about; 0: nobody knows. */
int64_t gs_launch_expected_ns(const gs_action *action);
/* Whether the launch may follow those of its stream that the engine has, without a decision. */
bool gs_launch_may_follow(gs_stream *stream, const gs_action *action);
/* Whether the end of a launch may be told with the next one's. Asked once, when it starts. */
bool gs_launch_defers_report(gs_stream *stream, const gs_action *action);
bool gs_launch_uses_block_loop(const gs_action *action);
void gs_schedule_decide(gs_server *server);
/* A launch ended, or was stopped. */
void gs_schedule_ran(gs_action *action, const gs_worker_report *event);
void gs_schedule_close(gs_server *server);
void gs_schedule_unlist(gs_session *session); /* its streams take part no more */

uint32_t gs_handles_take(gs_handles *numbers); /* 0: out of memory */
void gs_handles_give(gs_handles *numbers, uint32_t number);

/* ---- status ---- */

/* gridsmith.status/1 */
void gs_status_json(const gs_server *server, gs_text *into);
/* What Prometheus reads. */
void gs_status_metrics(const gs_server *server, gs_text *into);

#endif
