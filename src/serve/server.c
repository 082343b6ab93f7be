/*
 * server.c: actions from the sessions to the engine, and what happened back to them.
 *
 * Each stream is a list of actions in order. Copies and fills are handed to the engine as they come, in a queue of
 * their stream, and so are launches that need no decision (follow.c); a launch that needs one holds up its stream
 * until it has its turn, and a confined one also until it has ended, because it may be stopped and go on later. Events
 * of the engine come with the tag of an action. Tags are checked: kernels share the device process, and could have
 * written over its memory.
 *
 * When the device process is lost, because a kernel faulted or did not end, whose kernel it was gets GS_CLIENT_KERNEL
 * and everybody else who had something there GS_CLIENT_RESET.
 */
#include "server.h"

#include <stdlib.h>
#include <string.h>

enum {
    ACTIONS_AT_ONCE = 32,          /* allocated together */
    COMPILERS = 2,                 /* at a time */
    CHECK_NS = 20000000,           /* how often limits are looked at */
    QUIET_NS = 1000000000,         /* profiles are written when nothing has happened for so long, */
    SAVED_AFTER = 60,              /* or this many times as long: a disk may keep everybody waiting */
    RETAKE_NS = 1000000,           /* commands that could not be taken are looked at again */
    BLOCK_LOOP_TASK = 64,          /* blocks at a time: nobody waits for a worker to make room */
    RETRY_NS = 1000000000,         /* how often a device process that cannot be started is tried again */
    MOST_BACKLOG = 4 * 1024 * 1024 /* bytes on their way to the engine: more, and clients wait */
};

const char gs_no_device[] = "the device process cannot be started";

/* ---- actions ---- */

static bool more_actions(gs_server *server) {
    if (!GS_RESERVE(&server->actions, ACTIONS_AT_ONCE))
        return false;
    gs_action *list = calloc(ACTIONS_AT_ONCE, sizeof *list);
    for (int i = ACTIONS_AT_ONCE - 1; i >= 0 && list; i--) {
        list[i].index = (uint32_t)server->actions.count + (uint32_t)i;
        list[i].next = server->free_actions;
        server->actions.data[list[i].index] = server->free_actions = &list[i];
    }
    server->actions.count += list ? ACTIONS_AT_ONCE : 0;
    return list;
}

gs_action *gs_action_new(gs_session *session, uint32_t what) {
    gs_server *server = session->server;
    if (!server->free_actions && !more_actions(server))
        return NULL;
    gs_action *action = server->free_actions;
    server->free_actions = action->next;
    uint32_t index = action->index, generation = action->generation;
    memset(action, 0, offsetof(gs_action, launch) + offsetof(gs_action_launch, memories));
    action->index = index;
    action->generation = generation;
    action->what = what;
    action->session = session;
    action->number = session->commands;
    action->arrived_ns = server->now_ns;
    session->actions++;
    return action;
}

void gs_action_free(gs_action *action) {
    gs_session *session = action->session;
    gs_server *server = session->server;
    for (uint32_t i = 0; i < action->launch.memory_count; i++)
        gs_resource_leave(action->launch.memories[i]);
    if (action->resource)
        gs_resource_leave(action->resource);
    if (action->region)
        gs_resource_leave(action->region);
    if (action->launch.profile)
        gs_profile_store_put(server->store, action->launch.profile);
    action->session = NULL;
    action->generation++;
    action->next = server->free_actions;
    server->free_actions = action;
    session->actions--;
    if (!session->page && !session->actions)
        server->must_sweep = true;
}

uint64_t gs_action_tag(const gs_action *action) {
    return (uint64_t)action->generation << 32 | action->index;
}

/* What the engine has of this tag; NULL: nothing. Of an action that is done it has said all that there was to say. */
static gs_action *find_action(const gs_server *server, uint64_t tag) {
    uint32_t index = (uint32_t)tag;
    gs_action *action = index < server->actions.count ? server->actions.data[index] : NULL;
    bool is_there = action && action->session && action->is_issued && !action->is_done;
    return is_there && action->generation == tag >> 32 ? action : NULL;
}

/* ---- streams ---- */

gs_action *gs_stream_launch(const gs_stream *stream) {
    gs_action *action = stream->head;
    while (action && (action->what != GS_WIRE_LAUNCH || action->is_done))
        action = action->next;
    return action;
}

static void happened(gs_action *action) {
    gs_session *session = action->session;
    if (action->what != GS_WIRE_EVENT || !session->page || session->end_code)
        return;
    uint64_t time_ns = action->stream->ended_ns > action->arrived_ns ? action->stream->ended_ns : action->arrived_ns;
    gs_wire_event *event = &session->page->events[action->event];
    atomic_store_explicit(&event->time_ns, (int64_t)time_ns, memory_order_relaxed);
    atomic_store_explicit(&event->command, action->number, memory_order_release);
}

/* Tells the client how far the stream is. After its end_code a client is told nothing: what was abandoned never
 * happened.
 */
static void settle(gs_stream *stream) {
    gs_session *session = stream->session;
    uint64_t number = 0;
    for (gs_action *action = stream->head;
         action && action->is_issued && (action->is_done || action->what == GS_WIRE_EVENT); action = stream->head) {
        happened(action);
        number = action->number;
        stream->head = action->next;
        if (!stream->head)
            stream->tail = NULL;
        gs_action_free(action);
    }
    if (number && session->page && !session->end_code) {
        atomic_store_explicit(&session->page->streams[stream->number].done, number, memory_order_release);
        gs_session_ring(session);
    }
}

/* A command failed; the client goes on, and is told when it waits for the stream. */
static void trouble(gs_action *action, gs_client_code code, const char *words) {
    gs_wire_page *page = action->session->page;
    action->session->counts.errors++;
    if (!page || action->session->end_code)
        return;
    gs_wire_stream *stream = &page->streams[action->stream->number];
    stream->code = code;
    snprintf(stream->words, sizeof stream->words, "%s", words);
    atomic_fetch_add_explicit(&stream->errors, 1, memory_order_release);
}

static gs_code hand_over(gs_action *action) {
    gs_worker *engine = action->session->server->engine;
    if (action->what == GS_WIRE_EVENT)
        return GS_OK;
    if (action->what == GS_WIRE_FILL)
        return gs_worker_fill(engine, gs_action_tag(action), action->stream->queue, action->resource->number,
                              action->at, action->bytes, action->value);
    return gs_worker_copy(engine, gs_action_tag(action), action->stream->queue, action->what == GS_WIRE_COPY_IN,
                          action->resource->number, action->at, action->region->number, action->region_at,
                          action->bytes);
}

void gs_server_advance(gs_stream *stream) {
    gs_action *action;
    while ((action = stream->next) && !stream->confined) {
        if (action->what == GS_WIRE_LAUNCH && !gs_launch_may_follow(stream, action)) {
            if (!stream->launches) {
                if (!action->launch.waits_since)
                    action->launch.waits_since = stream->session->server->now_ns; /* its stream's turn has come */
                gs_stream_list(stream);
                stream->session->server->must_decide = true;
            }
            break;
        }
        stream->next = action->next;
        action->is_issued = true;
        if (action->what == GS_WIRE_LAUNCH) {
            action->launch.how = GS_PLAN_WHOLE;
            action->launch.sms = gs_stream_launch(stream)->launch.sms; /* what was left for the one before it */
            gs_server_start(action);
        } else if (hand_over(action) != GS_OK) {
            trouble(action, GS_CLIENT_SYSTEM, "the daemon has no memory left");
            action->is_done = true;
        }
    }
    settle(stream);
}

/* What is known of a kernel of this shape. */
static void find_profile(gs_action *action) {
    gs_server *server = action->session->server;
    const gs_worker_launch *run = &action->launch.run;
    const char *name = action->resource->image->kernels[run->kernel].name;
    uint64_t blocks = gs_profile_blocks(action->launch.blocks);
    uint64_t key = gs_profile_key(action->resource->source, name, blocks, run->block, run->shared_bytes);
    action->launch.profile = gs_profile_store_get(server->store, key, name, blocks);
    action->launch.arrival = ++server->arrivals;
}

void gs_server_add(gs_action *action) {
    gs_stream *stream = action->stream;
    if (action->what == GS_WIRE_LAUNCH)
        find_profile(action);
    if (stream->tail)
        stream->tail->next = action;
    else
        stream->head = action;
    stream->tail = action;
    action->next = NULL;
    if (!stream->next)
        stream->next = action;
    if (stream->next == action)
        gs_server_advance(stream);
}

/* ---- launches ---- */

/* The first launch of a stream beside others: all of them have company. Those that come later find it at their start.
 */
static void note_neighbors(gs_server *server, const gs_stream *stream) {
    for (size_t i = 0; i < server->contenders.count; i++) {
        gs_stream *other = server->contenders.data[i];
        for (gs_action *beside = other->head; other != stream && beside && beside->is_issued; beside = beside->next)
            beside->launch.had_neighbors = true;
    }
}

void gs_server_start(gs_action *action) {
    gs_stream *stream = action->stream;
    gs_server *server = action->session->server;
    gs_action_launch *launch = &action->launch;
    launch->run.is_confined = launch->how == GS_PLAN_CONFINED;
    launch->run.is_block_loop = launch->how == GS_PLAN_WHOLE && gs_launch_uses_block_loop(action);
    if (launch->run.is_block_loop)
        launch->run.task_blocks = BLOCK_LOOP_TASK;
    launch->run.defer_report = gs_launch_defers_report(stream, action);
    memcpy(launch->run.mask, launch->mask.words, sizeof launch->run.mask);
    gs_code code = gs_worker_start(server->engine, gs_action_tag(action), &launch->run);
    action->is_issued = true;
    if (!launch->waits_since)
        launch->waits_since = server->now_ns;
    if (code != GS_OK) {
        trouble(action, code == GS_E_USAGE ? GS_CLIENT_INVALID : GS_CLIENT_SYSTEM, gs_code_meaning(code));
        action->is_done = true;
        return;
    }
    if (!stream->launches++) {
        server->running++;
        stream->running_since = server->now_ns;
        gs_stream_list(stream);
        if (server->running > 1)
            note_neighbors(server, stream);
    }
    launch->had_neighbors |= server->running > 1;
    if (launch->run.is_confined)
        stream->confined = action;
    launch->expected_ns = gs_launch_expected_ns(action);
    stream->pipelined_ns += launch->expected_ns;
    server->launches++;
}

static void count_first(gs_times *times, uint64_t from_ns, uint64_t to_ns) {
    uint64_t ns = to_ns > from_ns ? to_ns - from_ns : 0;
    int bucket = 0;
    while (bucket < GS_TIME_BUCKETS - 1 && ns >> bucket)
        bucket++;
    times->buckets[bucket]++;
    times->count++;
    times->sum_ns += ns;
    times->most_ns = ns > times->most_ns ? ns : times->most_ns;
}

static void ran(gs_server *server, gs_action *action, const gs_worker_report *event) {
    gs_stream *stream = action->stream;
    gs_action_launch *launch = &action->launch;
    bool is_stopped = launch->run.is_confined && event->code == GS_OK && event->blocks_done < launch->blocks;
    if (!launch->has_begun && event->began_ns)
        count_first(&server->first_block, action->arrived_ns > stream->ended_ns ? action->arrived_ns : stream->ended_ns,
                    event->began_ns);
    launch->has_begun = true;
    gs_schedule_ran(action, event);
    stream->pipelined_ns -= launch->expected_ns;
    if (!--stream->launches) {
        server->running--;
        stream->pipelined_ns = 0;
    }
    stream->running_since = server->now_ns;
    stream->ended_ns = event->ended_ns ? event->ended_ns : server->now_ns;
    stream->confined = NULL;
    if (is_stopped && !action->session->end_code) {
        launch->run.first_block = event->blocks_done;
        launch->is_stopping = false;
        launch->waits_since = server->now_ns;
        action->is_issued = false;
        stream->next = action;
    } else {
        action->is_done = true;
        action->session->counts.launches++;
        action->session->counts.blocks += launch->blocks;
        if (event->code != GS_OK)
            trouble(action, event->code == GS_E_USAGE ? GS_CLIENT_INVALID : GS_CLIENT_KERNEL, event->message);
    }
    server->must_decide = true;
}

/* ---- allocations and modules ---- */

/* While a module is loaded nothing runs. */
static void settle_load(gs_action *action) {
    gs_server *server = action->session->server;
    if (action->what != GS_ACTION_LOAD || !action->is_issued || !action->resource->image)
        return;
    server->loading--;
    server->must_decide = true;
}

/* The client is told that it does not have it; and it has not. */
static void refuse(gs_action *action, gs_client_code code, const char *words) {
    gs_session *session = action->session;
    settle_load(action);
    gs_resource *resource = action->resource;
    gs_resource_table *table = &session->resources[resource->kind];
    if (action->at < table->count && table->data[action->at] == resource) {
        table->data[action->at] = NULL;
        gs_resource_forget(resource);
    }
    session->counts.errors++;
    gs_session_reply(session, action->reply, action->ticket, code, words);
    gs_action_free(action);
}

void gs_server_allocate(gs_action *action) {
    action->is_issued = true;
    gs_code code = gs_worker_allocate(action->session->server->engine, gs_action_tag(action), action->resource->number,
                                      action->resource->bytes);
    if (code != GS_OK)
        refuse(action, GS_CLIENT_SYSTEM, "the daemon has no memory left");
}

static void got_resource(gs_action *action, const gs_worker_report *event) {
    if (event->code != GS_OK) {
        refuse(action, event->code == GS_E_FULL ? GS_CLIENT_MEMORY : GS_CLIENT_SYSTEM,
               event->message[0] ? event->message : gs_code_meaning(event->code));
        return;
    }
    settle_load(action);
    action->resource->life = action->session->server->life;
    action->resource->is_ready = true;
    gs_session_reply(action->session, action->reply, action->ticket, GS_CLIENT_OK, "");
    gs_action_free(action);
}

static void start_loads(gs_server *server);

static void remove_load(gs_server *server, gs_load *load) {
    gs_load **at = &server->loads;
    while (*at != load)
        at = &(*at)->next;
    *at = load->next;
    gs_source_free_unpacked(&load->request, load->bytes);
    free(load);
}

/* False: it is gone, because that failed, or nobody waits for it any more. */
static bool start_load(gs_server *server, gs_load *load) {
    gs_error error = {.code = GS_OK};
    gs_action *action = load->action;
    if (!action->session->end_code) {
        load->work = gs_image_start(&load->request, &error);
        if (load->work) {
            server->compiling++;
            server->options.watch(server->options.context, load);
            return true;
        }
    }
    remove_load(server, load);
    refuse(action, error.code == GS_E_KERNEL ? GS_CLIENT_SOURCE : GS_CLIENT_SYSTEM, error.message);
    return false;
}

static void start_loads(gs_server *server) {
    gs_load *load = server->loads, *next;
    for (; load && server->compiling < COMPILERS; load = next) {
        next = load->next;
        if (!load->work)
            start_load(server, load);
    }
}

void gs_server_load(gs_action *action, const gs_image_request *request, char *bytes) {
    gs_server *server = action->session->server;
    gs_load *load = calloc(1, sizeof *load), **at = &server->loads;
    if (!load) {
        gs_image_request given = *request;
        gs_source_free_unpacked(&given, bytes);
        refuse(action, GS_CLIENT_SYSTEM, "the daemon has no memory left");
        return;
    }
    *load = (gs_load){.request = *request, .bytes = bytes, .action = action};
    load->request.program = server->options.engine.program;
    load->request.folder = server->options.cache;
    load->request.architecture = server->facts.architecture;
    load->request.has_marks = server->options.engine.checks_marks;
    while (*at)
        at = &(*at)->next;
    *at = load;
    start_loads(server);
}

/* The first words of the key are enough to tell sources apart. */
static uint64_t hash_of(const gs_image *image) {
    char first[17] = {0};
    memcpy(first, image->key, sizeof first - 1);
    return strtoull(first, NULL, 16);
}

void gs_server_loaded(gs_load *load) {
    gs_action *action = load->action;
    gs_server *server = action->session->server;
    gs_error error = {.code = GS_OK};
    char words[GS_WIRE_MESSAGE];
    gs_image *image = gs_image_finish(load->work, &error);
    server->compiling--;
    remove_load(server, load);
    action->resource->image = image;
    if (image) /* and without memory for the ns_per_block it does without them */
        action->resource->ns_per_block = calloc(image->kernel_count + 1, sizeof *action->resource->ns_per_block);
    action->is_issued = true;
    if (!image) {
        refuse(action, error.code == GS_E_KERNEL ? GS_CLIENT_SOURCE : GS_CLIENT_SYSTEM,
               gs_error_text(&error, words, sizeof words));
    } else if (action->session->end_code || server->is_down) {
        action->is_issued = false;
        refuse(action, GS_CLIENT_SYSTEM, gs_no_device);
    } else {
        action->resource->source = hash_of(image);
        server->loading++;
        server->must_decide = true;
        if (gs_worker_load(server->engine, gs_action_tag(action), action->resource->number, image) != GS_OK)
            refuse(action, GS_CLIENT_SYSTEM, "the daemon has no memory left");
    }
    start_loads(server);
}

/* ---- when clients and engines go ---- */

void gs_server_drop(gs_session *session) {
    gs_server *server = session->server;
    static const gs_mask nowhere;
    for (int i = 0; i < GS_CLIENT_STREAMS; i++) {
        gs_stream *stream = &session->streams[i];
        gs_action **at = &stream->head, *action;
        stream->tail = stream->next = NULL;
        while ((action = *at)) {
            if (action->is_issued) {
                stream->tail = action;
                at = &action->next;
                continue;
            }
            *at = action->next;
            gs_action_free(action);
        }
        if (stream->confined && !stream->confined->launch.is_stopping) {
            stream->confined->launch.is_stopping = true;
            gs_worker_confine(server->engine, gs_action_tag(stream->confined), nowhere.words);
        }
        settle(stream);
    }
    server->must_decide = true;
}

/* Nothing that the engine was given will happen. */
static void abandon(gs_server *server) {
    server->life++;
    for (size_t i = 0; i < server->actions.count; i++) {
        gs_action *action = server->actions.data[i];
        if (!action->session || !action->is_issued)
            continue;
        if (action->stream)
            action->is_done = true;
        else
            refuse(action, GS_CLIENT_RESET, gs_client_meaning(GS_CLIENT_RESET));
    }
    for (size_t i = 0; i < server->sessions.count; i++)
        for (int k = 0; k < GS_CLIENT_STREAMS && server->sessions.data[i]; k++) {
            gs_stream *stream = &server->sessions.data[i]->streams[k];
            stream->launches = 0;
            stream->pipelined_ns = 0;
            stream->confined = NULL;
            settle(stream);
        }
    server->running = 0;
}

/* The engine is of no use any more. `culprit` may be NULL. */
static void lose(gs_server *server, gs_action *culprit, const char *words) {
    gs_session *guilty = culprit ? culprit->session : NULL;
    gs_error error;
    if (guilty)
        gs_session_end(guilty, GS_CLIENT_KERNEL, "%s: %s",
                       culprit->resource->image->kernels[culprit->launch.run.kernel].name, words);
    for (size_t i = 0; i < server->sessions.count; i++) {
        gs_session *session = server->sessions.data[i];
        if (session && gs_session_has_resources(session))
            gs_session_end(session, GS_CLIENT_RESET, "%s (%s)", gs_client_meaning(GS_CLIENT_RESET), words);
    }
    abandon(server);
    server->must_decide = true;
    server->is_down = gs_worker_restart(server->engine, &error) != GS_OK;
    server->now_ns = server->tried_ns = (uint64_t)gs_now_ns();
    char text[GS_WIRE_NAME + sizeof error.message + 100];
    snprintf(text, sizeof text, "%s%s: the device process was started anew%s%s",
             guilty ? guilty->options.name : "the device process", guilty ? "" : " is gone",
             server->is_down ? ", which failed: " : ": ", server->is_down ? error.message : words);
    server->options.say(server->options.context, text);
}

/* Kernels that run too long; of several the one that began first, because others may wait for it. */
static void check_limits(gs_server *server) {
    gs_action *worst = NULL;
    for (size_t i = 0; i < server->contenders.count; i++) {
        const gs_stream *stream = server->contenders.data[i];
        gs_action *action = stream->launches ? gs_stream_launch(stream) : NULL;
        if (action && server->now_ns - stream->running_since + action->launch.ran_ns > server->options.limit_ns &&
            (!worst || stream->running_since < worst->stream->running_since))
            worst = action;
    }
    if (!worst)
        return;
    char words[80];
    snprintf(words, sizeof words, "it ran longer than the limit of %g s", (double)server->options.limit_ns / 1e9);
    lose(server, worst, words);
}

static void sweep(gs_server *server) {
    server->must_sweep = false;
    for (size_t i = 0; i < server->sessions.count; i++) {
        gs_session *session = server->sessions.data[i];
        if (!session || session->page || session->actions)
            continue;
        gs_schedule_unlist(session);
        server->sessions.data[i] = NULL;
        gs_handles_give(&server->slots, session->slot);
        free(session);
    }
}

/* ---- turns of the loop ---- */

static void take_event(gs_server *server, const gs_worker_report *event) {
    gs_action *action = find_action(server, event->tag);
    if (event->happened == GS_REPORT_LOST) {
        lose(server, action && action->what == GS_WIRE_LAUNCH ? action : NULL, event->message);
        return;
    }
    if (event->happened == GS_REPORT_SHARED || !action)
        return;
    gs_stream *stream = action->stream;
    if (!stream) {
        got_resource(action, event);
        return;
    }
    if (event->happened == GS_REPORT_RAN && action->what == GS_WIRE_LAUNCH) {
        ran(server, action, event);
    } else if (event->happened == GS_REPORT_COPIED && action->what != GS_WIRE_LAUNCH) {
        action->is_done = true;
        action->session->counts.copied_bytes += action->bytes;
        stream->ended_ns = event->ended_ns ? event->ended_ns : server->now_ns;
        if (event->code != GS_OK)
            trouble(action, GS_CLIENT_SYSTEM, event->message[0] ? event->message : gs_code_meaning(event->code));
    }
    settle(stream);
    gs_server_advance(stream);
}

static bool take_events(gs_server *server) {
    enum { MOST = 256 };
    gs_worker_report event;
    int taken = 0;
    while (taken < MOST && !server->is_down && gs_worker_peek(server->engine, &event)) {
        take_event(server, &event);
        taken++;
    }
    return taken > 0;
}

static bool takes_commands(const gs_server *server) {
    return !server->is_down && !server->is_draining && gs_worker_backlog(server->engine) <= MOST_BACKLOG;
}

static bool take_commands(gs_server *server) {
    bool is_any = false;
    if (!takes_commands(server))
        return false;
    for (size_t i = 0; i < server->sessions.count; i++)
        if (server->sessions.data[i] && gs_session_take(server->sessions.data[i]))
            is_any = true;
    return is_any;
}

/* Whether it was lost, which does not show where events are only peeked at; and another try where there is none. */
static void check_engine(gs_server *server) {
    gs_worker_report event;
    gs_error error;
    if (!server->is_down && gs_worker_poll(server->engine, &event))
        take_event(server, &event);
    else if (server->is_down && server->now_ns - server->tried_ns >= RETRY_NS) {
        server->tried_ns = server->now_ns;
        server->is_down = gs_worker_restart(server->engine, &error) != GS_OK;
    }
}

/* Whether something has happened since profiles were written. */
static bool has_unsaved(const gs_server *server) {
    return server->worked_ns > server->saved_ns;
}

static void look_after(gs_server *server) {
    if (server->now_ns - server->checked_ns < CHECK_NS)
        return;
    server->checked_ns = server->now_ns;
    check_engine(server);
    check_limits(server);
    bool is_quiet = server->now_ns - server->worked_ns >= QUIET_NS;
    if (has_unsaved(server) && (is_quiet || (server->now_ns - server->saved_ns) / QUIET_NS >= SAVED_AFTER)) {
        bool is_more = gs_profile_store_save(server->store) && gs_profile_store_has_unsaved(server->store);
        server->saved_ns = is_more ? server->saved_ns : server->now_ns;
    }
}

bool gs_server_work(gs_server *server) {
    server->now_ns = (uint64_t)gs_now_ns();
    bool has_events = take_events(server), has_commands = take_commands(server);
    if (has_events || has_commands)
        server->worked_ns = server->now_ns;
    if (server->now_ns >= server->look_at_ns)
        server->must_decide = true;
    if (server->must_decide)
        gs_schedule_decide(server);
    look_after(server);
    if (server->must_sweep)
        sweep(server);
    return has_events || has_commands;
}

bool gs_server_is_busy(const gs_server *server) {
    for (size_t i = 0; i < server->sessions.count; i++)
        if (server->sessions.data[i] && server->sessions.data[i]->actions)
            return true;
    return false;
}

bool gs_server_sleep(gs_server *server, uint64_t *most_ns) {
    gs_worker_report event;
    if (!server->is_down && gs_worker_poll(server->engine, &event)) {
        take_event(server, &event);
        return false;
    }
    if (server->must_decide || server->must_sweep)
        return false;
    bool is_taking = takes_commands(server);
    for (size_t i = 0; i < server->sessions.count && is_taking; i++) {
        gs_session *session = server->sessions.data[i];
        if (session && session->page && !session->end_code && session->actions < GS_SESSION_ACTIONS &&
            !gs_ring_sleep(&session->ring))
            return false;
    }
    *most_ns = CHECK_NS;
    if (server->look_at_ns < server->now_ns + *most_ns)
        *most_ns = server->look_at_ns > server->now_ns ? server->look_at_ns - server->now_ns : 0;
    if (!is_taking && *most_ns > RETAKE_NS)
        *most_ns = RETAKE_NS;
    else if (!server->running && server->look_at_ns == UINT64_MAX)
        *most_ns = has_unsaved(server) ? QUIET_NS : UINT64_MAX;
    return true;
}

/* ---- opening and closing ---- */

gs_server *gs_server_open(const gs_server_options *options, gs_error *error) {
    gs_server *server = calloc(1, sizeof *server);
    if (!server) {
        gs_fail_memory(error);
        return NULL;
    }
    *server = (gs_server){.options = *options, .life = 1, .look_at_ns = UINT64_MAX};
    server->opened_ns = server->saved_ns = server->now_ns = (uint64_t)gs_now_ns();
    server->random = gs_random_at(1, 0);
    server->engine = gs_worker_open(&options->engine, error);
    if (server->engine) {
        server->facts = *gs_worker_facts_of(server->engine);
        server->plan = gs_plan_defaults(server->facts.sms);
        server->store = gs_profile_store_open(options->profiles, server->facts.name, server->facts.sms, error);
    }
    if (!server->store) {
        gs_server_close(server);
        return NULL;
    }
    return server;
}

void gs_server_close(gs_server *server) {
    if (!server)
        return;
    for (gs_load *load; (load = server->loads);) {
        gs_action *action = load->action;
        if (load->work)
            gs_image_cancel(load->work);
        remove_load(server, load);
        refuse(action, GS_CLIENT_LOST, "the daemon was stopped");
    }
    for (size_t i = 0; i < server->sessions.count; i++)
        if (server->sessions.data[i] && server->sessions.data[i]->page)
            gs_session_close(server->sessions.data[i]);
    if (server->engine)
        abandon(server);
    sweep(server);
    gs_schedule_close(server);
    for (size_t i = 0; i < server->actions.count; i += ACTIONS_AT_ONCE)
        free(server->actions.data[i]);
    free(server->actions.data);
    free(server->sessions.data);
    free(server->contenders.data);
    free(server->asked.data);
    free(server->placed.data);
    free(server->slots.data);
    for (int i = 0; i < GS_RESOURCE_KINDS; i++)
        free(server->numbers[i].data);
    gs_profile_store_close(server->store);
    gs_worker_close(server->engine);
    free(server);
}
