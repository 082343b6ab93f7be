/*
 * server.h: the internals of the daemon, private to this room.
 *
 * A client's commands become actions. An action belongs to a stream of its session, uses resources, and is handed to
 * the worker, whose report ends it. Each part has one file that owns its data, and uses only files before it:
 *
 *   family.c       which processes belong together
 *   quotas.c       limits of each resource for clients, processes, families of processes, and users
 *   activity.c     which clients connected or sent commands recently
 *   closing.c      descriptors of clients, closed by separate threads
 *   resource.c     resources of clients on the device: memory, shared host memory, modules
 *   page.c         the page that a client reads
 *   action.c       checked commands, from their arrival until they are done
 *   stream.c       the actions of a stream, in order
 *   contenders.c   streams that take part in decisions
 *   ahead.c        which launches are handed over ahead, without a decision
 *   transfer.c     copies and fills in pieces, and which client's piece is next
 *   handover.c     actions handed to the worker
 *   scheduler.c    decisions: src/sharing/decide decides, this file queries it and applies the decision
 *   creation.c     memory and modules made by the worker
 *   loading.c      turns sources into modules
 *   session.c      one client: its page, its resources, its streams
 *   file.c         files that clients send, and the commands that need them: host memory and sources
 *   command.c      commands, checked and made into actions
 *   completion.c   handles the worker's reports
 *   tenants.c      the programs of `gridsmith run`
 *   choice.c       whether they use MPS the next time
 *   stretch.c      how much longer their requests take beside others
 *   serving.c      all parts together: one iteration of the loop, a lost worker, quotas, opening and closing
 *   status.c       the state of the daemon, for people and for programs; metrics.c: for Prometheus
 *
 * These files know neither sockets nor event loops. Those belong to daemon.c (with listener.c, connection.c and
 * http.c), which calls
 *
 *   gs_session_open, gs_session_receive, gs_session_close   when connections open, send, and close
 *   gs_server_work                                          as often as it can while there is work
 *   gs_server_sleep                                         before it waits
 *
 * One thread does all of this, except for closing.c.
 */
#ifndef GS_SERVER_H
#define GS_SERVER_H

#include "sharing/client/client.h"
#include "sharing/decide/decide.h"
#include "sharing/worker/worker.h"

#include <pthread.h>

enum {
    GS_SESSIONS = 1024,       /* at a time */
    GS_SESSION_ACTIONS = 512, /* in progress per client; further commands stay in its ring */
    GS_MOST_ACTIONS = 65536,  /* of all clients; with more, each client may have GS_LEAST_ACTIONS */
    GS_LEAST_ACTIONS = 16,
    GS_EARLIEST = 4,     /* waiting launches of one client that take part in a decision */
    GS_TIME_BUCKETS = 40 /* powers of two of nanoseconds */
};

typedef struct gs_server gs_server;
typedef struct gs_session gs_session;
typedef struct gs_stream gs_stream;
typedef struct gs_action gs_action;

extern const char gs_no_worker[], gs_no_memory[]; /* messages */

/* ---- pauses ---- */

/* For work that clients can request as often as they like, such as the status. It is followed by a pause of `times` its
   duration, at most 20 ms, so that it gets only a part of the daemon's time. Returns the end of the pause. `began_ns`
   is gs_thread_ns() when the work began: time without a CPU does not count. */
static inline int64_t gs_pause_until(int64_t began_ns, int64_t times) {
    enum { MOST_NS = 20000000 };
    return gs_now_ns() + gs_min(times * (gs_thread_ns() - began_ns), MOST_NS);
}

/* ---- family.c ---- */

/* Families that were looked up, by the parent of the process. */
typedef struct gs_families {
    struct gs_known_family {
        int64_t parent, family;
        uint32_t user;
        int64_t until_ns;
    } known[64];
} gs_families;

/* The family of a process of a user: the id of its oldest process, or a negative number; 0: not known. `proc` is
   "/proc". */
int64_t gs_family_of(gs_families *families, const char *proc, int32_t process, uint32_t user);
/* A number that no other process gets, also if the id is used again. 0: not known. Before Linux 6.9 all have the same.
 */
int64_t gs_process_serial(int32_t process);
static inline bool gs_process_is_another(int64_t serial, int64_t other_serial) {
    return serial && other_serial && serial != other_serial;
}
/* Whether the process with this serial number has ended. False if that is not known. */
bool gs_process_has_ended(int32_t process, int64_t serial);

/* ---- quotas.c ---- */

enum gs_quota {
    GS_QUOTA_CLIENTS,
    GS_QUOTA_MEMORY,      /* bytes on the device */
    GS_QUOTA_ALLOCATIONS, /* of them */
    GS_QUOTA_SHARED,      /* bytes of host memory */
    GS_QUOTA_REGIONS,     /* of them */
    GS_QUOTA_MODULES,
    GS_QUOTA_ACTIONS,     /* not refused: further commands stay in the ring */
    GS_QUOTA_DESCRIPTORS, /* of the daemon: the connection, and files not yet taken by commands */
    GS_QUOTAS
};

enum gs_account_kind {
    GS_ACCOUNT_CLIENT,
    GS_ACCOUNT_PROCESS,
    GS_ACCOUNT_FAMILY,
    GS_ACCOUNT_USER,
    GS_ACCOUNT_ALL,
    GS_ACCOUNTS
};

/* Resources in use. Those of a client count for its process, its family, its user and all, which are `above` it. */
typedef struct gs_account {
    enum gs_account_kind kind;
    int64_t id;     /* of the process, the family or the user */
    int64_t serial; /* of a process: gs_process_serial */
    uint64_t used[GS_QUOTAS];
    uint32_t silent;      /* of a process or a family: connections that have not said hello, */
    uint32_t closing_now; /* and descriptors being closed; */
    uint32_t closing;     /* of a process: those given to closing.c */
    uint32_t holders;     /* except of a client and of all: number of connections and accounts that use it */
    struct gs_account *above, *next;
} gs_account;

typedef struct gs_quotas {
    uint64_t most[GS_ACCOUNTS][GS_QUOTAS];
    gs_account all, *first; /* of processes, families and users, in no order */
    gs_families families;
} gs_quotas;

/* 0: the defaults of quotas.c. */
typedef struct gs_quotas_options {
    uint64_t client_memory_bytes, client_shared_bytes;
} gs_quotas_options;

void gs_quotas_open(gs_quotas *quotas, const gs_quotas_options *options, uint64_t device_bytes);
void gs_quotas_close(gs_quotas *quotas);
/* The key in gridsmith.status/1. */
const char *gs_quota_key(enum gs_quota quota);
/* The account of a process, until it is left; NULL: out of memory. The family is found when the process is new. */
gs_account *gs_account_take(gs_quotas *quotas, int32_t process, uint32_t user);
void gs_account_leave(gs_quotas *quotas, gs_account *account);
/* Whether `more` is allowed. If not, `message`, of GS_WIRE_MESSAGE bytes, names the limit. */
bool gs_quotas_allow(const gs_quotas *quotas, const gs_account *account, enum gs_quota quota, uint64_t amount,
                     char *message);
void gs_account_add(gs_account *account, enum gs_quota quota, uint64_t amount);
void gs_account_subtract(gs_account *account, enum gs_quota quota, uint64_t amount);

/* ---- activity.c ---- */

typedef struct gs_activity {
    struct gs_active {
        uint32_t slot; /* 0: none yet */
        uint64_t noted_ns;
    } last[2]; /* the two clients that were noted last */
} gs_activity;

/* A client connected, or commands of it were taken. */
void gs_activity_note(const gs_session *session);
/* Whether another client was noted in the last `within_ns`. */
bool gs_activity_has_others(const gs_session *session, uint64_t within_ns);

/* ---- closing.c ---- */

typedef struct gs_closing_item gs_closing_item;

typedef struct gs_closing {
    bool must_end;
    uint32_t count; /* given and not yet collected */
    pthread_t threads[32];
    size_t thread_count;
    pthread_mutex_t mutex; /* for the lists, and for closing_now of accounts */
    pthread_cond_t wake;
    gs_closing_item *waiting, **last, *done;
} gs_closing;

/* Has the descriptor, which may be -1, closed soon. It counts for the process until then. */
void gs_closing_give(gs_closing *closing, int fd, gs_account *process);
/* Ends a connection. It is closed at once if no descriptors wait in it. */
void gs_closing_give_connection(gs_closing *closing, int socket, gs_account *process);
/* Uncounts the descriptors that were closed meanwhile. */
void gs_closing_collect(gs_closing *closing, gs_quotas *quotas);
/* Whether a process has too many unclosed descriptors to take anything more from its clients. */
bool gs_closing_is_behind(const gs_account *process);
/* Waits until all are closed. False: one cannot be closed, and a thread still uses this structure. */
bool gs_closing_close(gs_closing *closing, gs_quotas *quotas);

/* ---- resource.c ---- */

enum gs_resource_kind { GS_RESOURCE_MEMORY, GS_RESOURCE_REGION, GS_RESOURCE_MODULE, GS_RESOURCE_KINDS };

/* Lives as long as its client has a handle to it or an action uses it. */
typedef struct gs_resource {
    enum gs_resource_kind kind;
    uint32_t handle; /* the worker's */
    uint32_t users;
    bool has_name; /* the client has a handle to it */
    bool is_ready; /* actions may use it */
    uint32_t life; /* of the worker that has it; 0: none */
    uint64_t bytes;
    gs_image *image;      /* of a module */
    uint64_t source;      /* of a module: a hash of it */
    double *ns_per_block; /* of a module, for each kernel: in its last shape; 0: not known */
    gs_session *session;
} gs_resource;

typedef struct gs_resource_table {
    gs_resource **data; /* by the client's handles */
    size_t count, capacity;
} gs_resource_table;

/* A pool of handles. */
typedef struct gs_handles {
    uint32_t *data; /* free ones */
    size_t count, capacity;
    uint32_t next;
} gs_handles;

uint32_t gs_handles_take(gs_handles *handles); /* 0: out of memory */
void gs_handles_give(gs_handles *handles, uint32_t handle);

/* Whether its client may have one more, of `bytes`. If not, `message`, of GS_WIRE_MESSAGE bytes, says why. */
bool gs_resource_is_allowed(const gs_session *session, enum gs_resource_kind kind, uint64_t bytes, char *message);
/* The same for a resource whose size was not known when it was made: 0 bytes. */
bool gs_resource_set_bytes(gs_resource *resource, uint64_t bytes, char *message);
/* NULL: out of memory. */
gs_resource *gs_resource_new(gs_session *session, enum gs_resource_kind kind, uint64_t bytes);
void gs_resource_use(gs_resource *resource);
void gs_resource_leave(gs_resource *resource);
void gs_resource_forget(gs_resource *resource); /* its client has no handle to it any more */
/* After the end of its client: forgets up to `most` resources. Returns how many; fewer than `most`: no more are
   left. */
size_t gs_resource_forget_some(gs_session *session, size_t most);

/* The resource of a client's handle, if actions may use it; otherwise NULL. */
gs_resource *gs_resource_find(const gs_session *session, enum gs_resource_kind kind, uint32_t handle);
enum gs_table_result { GS_TABLE_OK, GS_TABLE_OUT_OF_RANGE, GS_TABLE_IN_USE, GS_TABLE_NO_MEMORY };
/* The table entry for a new resource with this handle. */
enum gs_table_result gs_resource_place(gs_session *session, enum gs_resource_kind kind, uint32_t handle,
                                       gs_resource ***place);

/* ---- page.c ---- */

/* Shared memory of a fixed size, all zero and allocated at once. Returns its descriptor; -1: see errno. */
int gs_page_new(const char *name, size_t bytes);
/* Wakes the client if it sleeps, because its page has changed. */
void gs_page_wake(gs_session *session);
void gs_page_reply(gs_session *session, uint32_t slot, uint32_t ticket, gs_client_code code, const char *message);
/* The reply to a request that exceeds a limit. */
void gs_page_refuse(gs_session *session, uint32_t slot, uint32_t ticket, const char *message);
/* A command failed without ending the client, which gets the error when it waits for the stream. */
void gs_page_error(const gs_stream *stream, gs_client_code code, const char *message);
void gs_page_event(const gs_action *action);
void gs_page_done(const gs_stream *stream, uint64_t command);
void gs_page_end(gs_session *session, gs_client_code code, const char *message);

/* ---- action.c ---- */

/* Additional data of a launch. */
typedef struct gs_action_launch {
    uint64_t blocks;  /* of the grid */
    uint64_t counted; /* of them, those counted by a measurement */
    gs_profile *profile;
    enum gs_decide_how how;
    int32_t sms;
    uint64_t served;      /* SMs times ns, until its SMs changed, */
    uint64_t served_ns;   /* and when they did; 0: never */
    bool is_stopping;     /* its mask is empty, but it has not ended yet */
    bool had_neighbors;   /* another stream's kernel ran beside it */
    bool was_resized;     /* its mask changed while it ran */
    bool has_begun;       /* some of its blocks ran */
    uint64_t arrival;     /* order of arrival */
    uint64_t waits_since; /* ns */
    uint64_t ran_ns;      /* before its last stop */
    int64_t expected_ns;  /* expected duration when it was handed over */
    uint32_t memory_count;
    gs_worker_launch request;
    gs_resource *memories[GS_CLIENT_ARGUMENTS];
} gs_action_launch;

struct gs_action {
    uint32_t index, generation;
    uint32_t command; /* enum gs_wire_command */
    bool is_issued;   /* the worker has it */
    bool is_done;
    uint64_t number; /* of the command */
    uint64_t arrived_ns;
    gs_session *session;
    gs_stream *stream;
    gs_action *next; /* in the stream, or in the free list */
    gs_resource *resource, *region;
    uint64_t at, region_at, bytes;
    uint64_t piece, sent, moved;       /* of a copy or fill: bytes per piece; bytes handed over; bytes reported */
    uint64_t piece_before, changed_at; /* bytes per piece of the part handed over before that byte */
    uint32_t handle, reply, ticket, event;
    uint8_t value;
    gs_action_launch launch;
};

typedef struct gs_actions {
    gs_action **data;
    size_t count, capacity;
    size_t used; /* the first ones were used before; `free` has the unused ones of them */
    gs_action *free;
    uint32_t generation; /* of the actions allocated next */
    uint64_t arrivals;   /* launches so far */
    uint64_t sorted_ns;  /* when `free` was sorted */
} gs_actions;

/* NULL: out of memory. */
gs_action *gs_action_new(gs_session *session, uint32_t command);
void gs_action_free(gs_action *action);
uint64_t gs_action_tag(const gs_action *action);
/* The action with this tag, if the worker has it; otherwise NULL. */
gs_action *gs_action_find(const gs_server *server, uint64_t tag);
/* Frees memory of unused actions, a part at a time. */
void gs_actions_trim(gs_server *server);
bool gs_actions_may_trim(const gs_server *server);
void gs_actions_free(gs_actions *actions);

/* ---- stream.c ---- */

struct gs_stream {
    gs_session *session;
    uint32_t number, queue;
    gs_action *head, *tail;  /* in order */
    gs_action *next;         /* the first not handed over; NULL: the worker has all */
    uint32_t launches;       /* handed over */
    gs_action *confined;     /* the first one handed over; only a follower is handed over behind it, see ahead.c */
    int64_t ahead_ns;        /* approximate duration of the launches handed over */
    int64_t unreported_ns;   /* the same for those at the end with deferred reports */
    uint64_t started;        /* launches so far */
    bool is_full;            /* enough was handed over; more follows when a good part of it is done */
    uint64_t running_since;  /* approximate begin of the first of them */
    uint64_t filled_ns;      /* when a decision last knew launches behind the first one; 0: never */
    uint64_t ended_ns;       /* when the last action ended */
    struct gs_kept {         /* the place of the last launch, kept for the expected one */
        gs_profile *profile; /* held; NULL: no launch is expected */
        enum gs_decide_how how;
        int32_t sms;
        bool can_share; /* see gs_contender */
        gs_mask mask;
        uint64_t until_ns;
    } kept;
    bool is_contender;
};

/* The first launch that is not done, or NULL. */
gs_action *gs_stream_launch(const gs_stream *stream);
/* The same, if the worker has it or it is next. */
gs_action *gs_stream_contender(const gs_stream *stream);
static inline uint64_t gs_stream_id(const gs_stream *stream) {
    return (uint64_t)(uintptr_t)stream;
}
void gs_stream_append(gs_action *action);
/* Frees the actions at the head that are done, and publishes the stream's progress. */
void gs_stream_settle(gs_stream *stream);
/* Sets `confined` after a report. */
void gs_stream_find_confined(gs_stream *stream);
/* Called before the confined launch is stopped or resized: the follower, if the worker has it, must not begin. It is
   reported as stopped. */
void gs_stream_stop_follower(gs_stream *stream);
/* Drops actions not yet handed over, and stops the others. */
void gs_stream_drop(gs_stream *stream);
void gs_stream_forget_kept(gs_stream *stream);

/* ---- contenders.c ---- */

/* Streams with a launch that waits, runs or is expected; and the query and the decision for each. */
typedef struct gs_contenders {
    gs_stream **data;
    size_t count, capacity;
    gs_contender *queries;
    gs_decided_place *places;
    size_t answer_capacity; /* of queries and places */
    gs_fairness fairness;
} gs_contenders;

/* Makes space for the streams of one more session. */
bool gs_contenders_reserve(gs_server *server);
void gs_contenders_add(gs_stream *stream);
void gs_contenders_remove(gs_session *session);
void gs_contenders_close(gs_server *server);
/* Fills in the queries; streams without a launch are removed. Returns how many take part; the others come after
   them. */
size_t gs_contenders_describe(gs_server *server);
/* See gs_fair_is_ahead. */
bool gs_contenders_is_ahead(const gs_session *session);
/* Whether a launch takes the place of the one before it in its stream: the same kernel on its SMs. */
bool gs_contender_takes_place(const gs_stream *stream, const gs_action *action);
bool gs_contender_can_confine(const gs_action *action);
/* The service of a launch from its begin until now, with the SMs that it had: SMs times nanoseconds. */
uint64_t gs_launch_served(const gs_action_launch *launch, uint64_t began_ns, uint64_t now_ns);
/* How long what was done, up to this block, would have taken alone: all SMs times nanoseconds. */
uint64_t gs_launch_work(const gs_server *server, const gs_action_launch *launch, uint64_t done);
/* What a confined launch that ran so long is charged with: its work, if that is known and it had not all SMs. */
uint64_t gs_launch_charge(const gs_server *server, const gs_action_launch *launch, uint64_t served, uint64_t work,
                          uint64_t ns);

/* ---- ahead.c ---- */

/* Approximate duration of a launch alone; 0: not known. */
int64_t gs_launch_expected_ns(const gs_action *action);
/* Whether the launch may follow those of its stream that the worker has, without a decision. */
bool gs_launch_may_follow(gs_stream *stream, const gs_action *action);
/* Whether it may be handed over behind the confined launch of its stream, as another one that shares SMs. */
bool gs_launch_may_share_next(const gs_stream *stream, const gs_action *action);
/* Whether the end of a launch may be reported with the next one's. Called once, when it starts. */
bool gs_launch_defers_report(gs_stream *stream, const gs_action *action);

/* ---- transfer.c ---- */

/* Copies and fills of all clients. */
typedef struct gs_transfers {
    uint32_t moving;             /* sessions with pieces in flight, */
    uint32_t held;               /* and with waiting pieces */
    uint32_t mover;              /* the slot of the session that had the last piece, */
    uint64_t mover_ns, other_ns; /* when, and when another session had one */
    uint64_t ended_ns;           /* when the last piece was moved */
    double most_moved;           /* the largest account of a client, before its last piece */
    double rate;                 /* approximate bytes per nanosecond */
} gs_transfers;

bool gs_is_transfer(const gs_action *action);
/* Hands over as much as the client may have in flight. False: a part must wait. */
bool gs_transfer_hand_over(gs_action *action);
/* A piece was reported. */
void gs_transfer_count(gs_action *action, const gs_worker_report *report);
/* The worker is lost, and its pieces with it; or the session is freed. */
void gs_transfers_abandon(gs_session *session);

/* ---- handover.c ---- */

/* Hands a launch to the worker, as its `how` says. */
void gs_launch_start(gs_action *action);
/* Hands over all actions that are ready. */
void gs_stream_advance(gs_stream *stream);
/* A piece of a copy or fill was reported: counts it, and hands over the actions that waited for it. */
void gs_transfer_moved(gs_action *action, const gs_worker_report *report);

/* ---- scheduler.c ---- */

typedef struct gs_scheduler {
    bool must_decide;
    bool somebody_waits;    /* a client waits for a time slice, as of the last decision */
    int64_t yield_ns;       /* of the last decision */
    uint64_t look_at_ns;    /* when to decide again even if nothing happens */
    uint64_t not_before_ns; /* the next decision is not made earlier: those among many contenders take long */
    uint64_t decisions;
    gs_random random; /* for tests */
} gs_scheduler;

void gs_schedule_decide(gs_server *server);
/* Counts the blocks done by a launch. */
void gs_schedule_count(gs_action *action, uint64_t done);
/* Ends the measurement of what runs. */
void gs_schedule_end_window(gs_server *server);

/* ---- creation.c ---- */

/* An action that makes a resource, which gets its place in the client's table. NULL: out of memory. */
gs_action *gs_creation_new(gs_session *session, uint32_t command, enum gs_resource_kind kind, uint64_t bytes,
                           gs_resource **place);
/* Starts an allocation. */
void gs_creation_allocate(gs_action *action);
/* The worker made the resource of an allocation or a load, or failed to. */
void gs_creation_end(gs_action *action, const gs_worker_report *report);
/* The client gets a reply with this code instead of the resource. */
void gs_creation_refuse(gs_action *action, gs_client_code code, const char *message);

/* ---- loading.c ---- */

/* First the image is looked up in the cache; if it is missing, it is compiled. Then it is handed to the worker. */
enum gs_load_stage { GS_LOAD_FINDS, GS_LOAD_COMPILES, GS_LOAD_HANDS_OVER, GS_LOAD_STAGES };

/* A source that becomes a module. */
typedef struct gs_load {
    enum gs_load_stage stage;
    gs_image_job *job;
    gs_session *session; /* NULL: its client was ended meanwhile */
    gs_action *action;
    int32_t process;   /* of the client, */
    int64_t family;    /* and its family */
    bool is_slow;      /* it takes much too long, and was set aside */
    uint64_t since_ns; /* when it began, or when its client was ended */
    struct gs_load *next;
} gs_load;

/* The sources of one client. */
typedef struct gs_session_loads {
    uint32_t count; /* of sources that are not with the worker yet */
    uint64_t bytes; /* of them */
    struct gs_load_queue {
        gs_load *first, *last; /* the waiting ones, in order */
        uint32_t running;
        uint64_t used_ns; /* of threads or compilers, or modules: the client with less goes first */
    } stages[GS_LOAD_STAGES];
} gs_session_loads;

typedef struct gs_loads {
    gs_load *running[GS_LOOK_UPS + GS_COMPILERS + GS_SLOW_JOBS]; /* in no order; NULL: free */
    uint32_t finding, finding_large, compiling, slow;            /* how many */
    uint32_t count;                                              /* of sources that are not with the worker yet */
    uint64_t bytes;                                              /* of them */
    uint32_t waiting[GS_LOAD_STAGES];
    uint64_t share_ns[GS_LOAD_STAGES]; /* the time used by a client that always had sources */
    uint32_t loading;                  /* modules that the worker is loading: nothing starts meanwhile */
    uint64_t loading_since_ns;         /* when it began, */
    uint64_t next_after_ns;            /* and until when launches have the device afterwards */
} gs_loads;

/* Whether a client may send one more source of this size; if not, `message` says why. */
bool gs_load_is_allowed(const gs_session *session, uint64_t bytes, char *message, size_t size);
/* Finds or compiles a source, and loads it. Owns the descriptor of the request, whose program, architecture and
   counting of blocks are set here. */
void gs_load_start(gs_action *action, const gs_image_request *request);
/* Whether an image waits because launches have the device, at most until `*until_ns`. */
bool gs_loads_wait(const gs_server *server, uint64_t *until_ns);
/* Collects finished jobs of the server's images. */
void gs_loads_collect(gs_server *server);
/* Sets aside loads that take much too long; others begin in their place. */
void gs_loads_check(gs_server *server);
/* Kills all compilers; nothing can be loaded any more. Call it after all clients were ended. */
void gs_loads_close(gs_server *server);
/* A client was ended: its sources are dropped, its compilers killed. */
void gs_loads_drop(gs_session *session, gs_client_code code, const char *message);

/* ---- session.c ---- */

typedef struct gs_session_options {
    char name[GS_WIRE_NAME];
    uint32_t weight, most_sms;
    int32_t priority;
    int32_t process; /* its id */
    uint32_t user;   /* the id of its user */
    int page;        /* descriptor; needed only while the session is opened */
    int socket;      /* of its connection; see gs_session_leave_socket */
} gs_session_options;

/* Statistics of a client. */
typedef struct gs_session_counts {
    uint64_t commands, launches, blocks, copied_bytes, memory_bytes, resizes, errors;
    uint64_t served; /* SMs times nanoseconds */
} gs_session_counts;

struct gs_session {
    gs_server *server;
    gs_session_options options;
    uint32_t slot;
    gs_wire_page *page; /* NULL: the client has disconnected */
    int left_socket;    /* to close at the end, or -1 */
    gs_ring ring;
    int files[GS_WIRE_FILES]; /* received, in order; negative: none, see file.c */
    uint32_t file_count;
    uint64_t take_after_ns; /* a pause ends then: see command.c */
    gs_resource_table resources[GS_RESOURCE_KINDS];
    gs_stream streams[GS_CLIENT_STREAMS];
    uint64_t commands;
    uint32_t actions;  /* in progress */
    uint32_t end_code; /* enum gs_client_code; 0: it is open */
    uint64_t opened_ns;
    uint32_t contenders;                    /* of its streams, */
    uint32_t running;                       /* those on the device, as of the last decision, */
    const gs_stream *earliest[GS_EARLIEST]; /* those that have waited longest, in order; NULL: no more */
    bool is_present;                        /* whether one has a launch, */
    bool waits_for_turn;                    /* and whether one waits for a time slice */
    uint64_t moving;                        /* bytes of copies and fills in flight, */
    bool is_held;                           /* whether some wait for other clients', */
    double moved;                           /* bytes moved, for fairness, and */
    uint64_t moved_ns;                      /* when the last were: see transfer.c */
    gs_fair_client fair;                    /* what it has had */
    gs_session_loads loads;
    gs_session_counts counts;
    gs_account account;
};

enum { GS_PRIORITIES = 21, GS_MOST_PRIORITY = 10 }; /* priorities are from -10 to 10 */

typedef struct gs_sessions {
    gs_session **data; /* by slot; NULL: free */
    size_t count, capacity;
    gs_handles slots;
    size_t next; /* which one is served first */
    bool must_sweep;
    uint32_t by_priority[GS_PRIORITIES]; /* how many clients are connected */
} gs_sessions;

/* Opens a session. The caller closes the page's descriptor when the client has it. */
gs_session *gs_session_open(gs_server *server, const gs_session_options *options, gs_error *error);
/* The client has disconnected: its resources are released as soon as nothing uses them, and then the session is
   freed. */
void gs_session_close(gs_session *session);
/* The session closes its socket when it is freed, and counts it until then. */
void gs_session_leave_socket(gs_session *session);
/* Ends the client: all its calls return this code. */
void gs_session_end(gs_session *session, gs_client_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool gs_session_has_resources(const gs_session *session);
/* Whether one more command may be taken from its ring. */
bool gs_session_may_take(const gs_session *session);
/* Frees resources of ended clients, a part at a time, and sessions of disconnected clients whose actions are done. */
void gs_sessions_sweep(gs_server *server);
/* Whether the worker keeps up with releases. */
bool gs_sessions_may_free(const gs_server *server);
/* Whether a client of a higher priority than this is connected. */
bool gs_sessions_have_above(const gs_server *server, int32_t priority);

/* ---- file.c ---- */

enum gs_receive_result { GS_RECEIVED, GS_RECEIVE_NOTHING, GS_RECEIVE_CLOSED };
/* Reads one message of the socket: a file, or a byte that wakes the daemon. Never waits. */
enum gs_receive_result gs_session_receive(gs_session *session);
/* The commands that need a file. */
void gs_file_share(gs_session *session, const gs_wire_share *request);
void gs_file_load(gs_session *session, const gs_wire_load *request);

/* ---- command.c ---- */

/* Takes commands from the ring. True: there were some. */
bool gs_session_take(gs_session *session);
/* One command, as read from the ring. An invalid one ends the client. */
void gs_session_command(gs_session *session, const void *command, size_t bytes);

/* ---- completion.c ---- */

typedef struct gs_times {
    uint64_t buckets[GS_TIME_BUCKETS], count, sum_ns, most_ns;
} gs_times;

/* A report of the worker about this action, other than LOST. */
void gs_complete(gs_server *server, gs_action *action, const gs_worker_report *report);

/* ---- stretch.c ---- */

/* How many requests of each duration were beside best-effort work so far. */
void gs_stretch_count(const gs_tenant_page *page, uint32_t *beside);
/* What requests beside best-effort work have lost since `before`, against those alone: the mean of what p99 and the
   median lose. 0: nothing, or p99 is longer by less than this part; -1: there were too few, alone or beside. */
double gs_stretch_lost_us(const gs_tenant_page *page, const uint32_t *before, double tolerated);

/* ---- tenants.c ---- */

typedef struct gs_tenant_options {
    char name[GS_WIRE_NAME];
    unsigned char gpu[GS_WIRE_GPU]; /* that it uses */
    int32_t process;                /* its id */
    uint32_t weight;
    uint32_t most_percent; /* of a best-effort program; 0: it has no cap */
    uint32_t deadline_us;  /* of a latency program's requests; 0: none */
    uint64_t command;      /* what it executes; 0: not known */
    bool has_mps;
    uint64_t hold_ns; /* of a latency program: how long a request may hold others */
    bool is_latency;
} gs_tenant_options;

/* The programs of a GPU: only they have anything to do with each other. */
typedef struct gs_tenant_group {
    unsigned char gpu[GS_WIRE_GPU];
    gs_board *board;
    gs_notice *notice;
    int board_fd, notice_fd;
    uint32_t slots, shares; /* those in use: of latency programs, and of best-effort programs */
    uint32_t programs;
    struct gs_tenant_group *next;
} gs_tenant_group;

typedef struct gs_tenant {
    struct gs_tenants *tenants;
    gs_tenant_group *group;
    gs_tenant_options options;
    uint32_t slot;   /* on the board; GS_BOARD_SLOTS: a best-effort program without a slot */
    uint32_t number; /* in metrics; no other program has it */
    gs_tenant_page *page;
    uint64_t opened_ns;
    /* a latency program: */
    bool saw_mps, saw_slices;                /* beside programs that will use MPS, and that will not */
    uint32_t beside_before[GS_TENANT_TIMES]; /* gs_stretch_count when the best-effort program beside it came */
    /* a best-effort program: */
    bool saw_others; /* beside others that worked */
    double lost_us;  /* what requests lost beside it, those of the program that lost most; -1: not measured */
    struct gs_tenant *next;
} gs_tenant;

typedef struct gs_tenants {
    gs_tenant *first;
    gs_tenant_group *groups; /* of GPUs with programs */
    uint32_t opened;         /* programs so far */
    gs_profile_store *profiles;
} gs_tenants;

/* Adds a program, which gets the board and the notice of its GPU, and its page; the caller closes the page's
 * descriptor. NULL: it is refused. */
gs_tenant *gs_tenant_open(gs_tenants *tenants, const gs_tenant_options *options, int *page_fd, gs_error *error);
/* The program has ended. */
void gs_tenant_close(gs_tenant *tenant);
void gs_tenants_close(gs_tenants *tenants);
void gs_tenants_json(const gs_tenants *tenants, gs_writer *writer);
void gs_tenants_metrics(const gs_tenants *tenants, gs_text *into);

/* ---- choice.c ---- */

/* Whether a program that executes this uses MPS, and why. */
bool gs_choice_has_mps(const gs_command_profile *command);
void gs_choice_why(const gs_command_profile *command, char *why, size_t size);
/* A program has come, or goes: what requests lose is measured from now on, unless another one beside them works. */
void gs_choice_begin(const gs_tenant *tenant);
/* A program goes: keeps what was learned of it, and of those beside it. */
void gs_choice_end(gs_tenant *tenant);

/* ---- serving.c ---- */

typedef struct gs_server_options {
    gs_worker_options worker;
    const char *profiles; /* the file of profiles, or NULL */
    const char *cache;    /* the folder of images; NULL: the user's */
    const char *plan;     /* the file of a plan, or NULL */
    bool tries_intra_sm;  /* kernels without a plan may share SMs, too */
    uint64_t limit_ns;    /* a kernel that runs longer is stopped */
    gs_quotas_options quotas;
    const char *mps_folder;                       /* NULL: MPS was not started; kept, not copied */
    uint64_t shuffle_ns;                          /* for tests: how often SMs are assigned anew; 0: never */
    void (*say)(void *context, const char *line); /* messages for the user */
    void *context;
} gs_server_options;

struct gs_server {
    gs_server_options options;
    uint64_t now_ns, opened_ns; /* as of this iteration of the loop */
    gs_worker *worker;
    gs_worker_facts facts;
    bool is_down;     /* without a worker */
    bool is_draining; /* no more commands are taken */
    uint32_t life;    /* of the worker, from 1 on */
    uint32_t running; /* streams with launches handed over */
    gs_decide_options plan;
    gs_planned planned;       /* the pairs of the plan file */
    uint64_t inside_launches; /* with intra-SM sharing */
    uint64_t form_launches[GS_LAUNCH_CONFINED + 1];
    gs_profile_store *profiles;
    gs_quotas quotas;
    gs_sessions sessions;
    gs_handles handles[GS_RESOURCE_KINDS];
    gs_actions actions;
    gs_contenders contenders;
    gs_window window;
    gs_mixing mixing;
    gs_scheduler scheduler;
    gs_closing closing;
    gs_images *images; /* when gs_images_fd is readable, gs_loads_collect must be called */
    gs_loads loads;
    gs_transfers transfers;
    gs_tenants tenants;
    uint64_t launches, resizes;
    gs_times first_block;                               /* from the arrival of a launch to its first block */
    uint64_t saved_ns, worked_ns, checked_ns, tried_ns; /* for serving.c: when it last did these */
    uint64_t take_after_ns;                             /* when the latest pause of a client ends */
    gs_activity activity;
    int64_t cores;                                       /* that the daemon may use */
    alignas(8) unsigned char record[GS_WIRE_MOST_BYTES]; /* command.c's */
};

/* Reads the pairs of a plan; NULL: no plan. */
gs_code gs_server_read_plan(gs_server *server, const char *path, gs_error *error);
/* Enables predictions of which other kernels may share SMs, if this GPU has a description and that is wanted. */
gs_code gs_server_try_inside(gs_server *server, gs_error *error);

gs_server *gs_server_open(const gs_server_options *options, gs_error *error);
void gs_server_close(gs_server *server);
/* Takes commands of clients and reports of the worker, and decides what runs. True: there was work. */
bool gs_server_work(gs_server *server);
/* Before waiting. False: there is new work, do it first. `*most_ns`: wait no longer. */
bool gs_server_sleep(gs_server *server, uint64_t *most_ns);
/* Whether any client has commands in progress. */
bool gs_server_is_busy(const gs_server *server);
/* Takes no more commands; those in progress are finished. */
void gs_server_drain(gs_server *server);
/* Ends all clients. */
void gs_server_end_clients(gs_server *server);

/* ---- status.c, metrics.c ---- */

/* gridsmith.status/1 */
void gs_status_json(const gs_server *server, gs_text *into);
/* What Prometheus reads. */
void gs_metrics_text(const gs_server *server, gs_text *into);

/* A number of each client or program: a count at `offset` of its counts, times `scale`. */
typedef struct gs_metric {
    const char *name, *type, *help;
    size_t offset;
    double scale;
} gs_metric;

/* The lines before the values of a metric. */
static inline void gs_metric_begin(gs_text *into, const char *name, const char *type, const char *help) {
    gs_text_add(into, "# HELP gridsmith_%s %s\n# TYPE gridsmith_%s %s\n", name, help, name, type);
}
size_t gs_status_clients(const gs_server *server); /* connected clients */

#endif
