/*
 * fuzz_wire.c: what two clients can say, against an engine that checks all that it is asked.
 *
 * The input is a list of steps: a command of one of the clients, as it would stand in its ring (its first words small,
 * so that it comes near to being right, or any bytes), a file that says it is a source, an event of the engine. The
 * engine here only keeps books: whatever reaches it must name what is there, and lie within it, and be one client's
 * own.
 */
#define _GNU_SOURCE
#include "share/inside.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- an engine that keeps books ---- */

enum { MOST = 4096 };

struct thing {
    bool is_there;
    uint64_t bytes;
};

struct gs_engine {
    struct thing memories[MOST], regions[MOST], modules[MOST];
    gs_engine_event events[2 * GS_SESSION_ACTIONS + 16];
    size_t first, count;
    gs_engine_facts facts;
};

static void must_hold(bool holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "fuzz_wire.c:%d: %s does not hold\n", line, what);
        abort();
    }
}
#define must(holds) must_hold(holds, #holds, __LINE__)

static bool was_lied_to; /* then the daemon's books need not be the engine's, but it must stay sound */

static void happens(gs_engine *engine, uint32_t what, uint64_t tag, uint64_t blocks) {
    must(engine->count < GS_COUNT(engine->events));
    size_t at = (engine->first + engine->count++) % GS_COUNT(engine->events);
    engine->events[at] =
        (gs_engine_event){.happened = what, .tag = tag, .blocks_done = blocks, .began_ns = 1, .ended_ns = 2};
}

static void check(const struct thing *list, uint32_t number, uint64_t at, uint64_t bytes) {
    must(number < MOST);
    must(was_lied_to || (list[number].is_there && at <= list[number].bytes && bytes <= list[number].bytes - at));
}

static struct gs_engine the_engine;

gs_engine *gs_engine_open(const gs_engine_options *options, gs_error *error) {
    (void)options, (void)error;
    the_engine = (gs_engine){.facts = {.name = "books", .sms = 8}};
    return &the_engine;
}

const gs_engine_facts *gs_engine_facts_of(const gs_engine *engine) {
    return &engine->facts;
}

int gs_engine_fd(const gs_engine *engine) {
    (void)engine;
    return -1;
}

bool gs_engine_peek(gs_engine *engine, gs_engine_event *event) {
    if (!engine->count)
        return false;
    *event = engine->events[engine->first];
    engine->first = (engine->first + 1) % GS_COUNT(engine->events);
    engine->count--;
    return true;
}

bool gs_engine_poll(gs_engine *engine, gs_engine_event *event) {
    (void)engine, (void)event;
    return false;
}

gs_code gs_engine_restart(gs_engine *engine, gs_error *error) {
    (void)error;
    *engine = (gs_engine){.facts = engine->facts};
    return GS_OK;
}

void gs_engine_close(gs_engine *engine) {
    (void)engine;
}

size_t gs_engine_backlog(const gs_engine *engine) {
    (void)engine;
    return 0;
}

gs_code gs_engine_allocate(gs_engine *engine, uint64_t tag, uint32_t memory, uint64_t bytes) {
    must(memory < MOST && (was_lied_to || !engine->memories[memory].is_there) && bytes > 0);
    if (bytes > 1 << 20) {
        happens(engine, GS_ENGINE_ALLOCATED, tag, 0);
        engine->events[(engine->first + engine->count - 1) % GS_COUNT(engine->events)].code = GS_E_FULL;
        return GS_OK;
    }
    engine->memories[memory] = (struct thing){true, bytes};
    happens(engine, GS_ENGINE_ALLOCATED, tag, 0);
    return GS_OK;
}

void gs_engine_release(gs_engine *engine, uint32_t memory) {
    check(engine->memories, memory, 0, 0);
    engine->memories[memory].is_there = false;
}

gs_code gs_engine_share(gs_engine *engine, uint32_t region, int fd, uint64_t bytes) {
    (void)fd;
    must(region < MOST && !engine->regions[region].is_there);
    engine->regions[region] = (struct thing){true, bytes};
    return GS_OK;
}

void gs_engine_unshare(gs_engine *engine, uint32_t region) {
    check(engine->regions, region, 0, 0);
    engine->regions[region].is_there = false;
}

gs_code gs_engine_copy(gs_engine *engine, uint64_t tag, uint32_t queue, bool in, uint32_t memory, uint64_t at,
                       uint32_t region, uint64_t region_at, uint64_t bytes) {
    (void)in;
    must(queue != GS_ENGINE_NO_QUEUE);
    check(engine->memories, memory, at, bytes);
    check(engine->regions, region, region_at, bytes);
    happens(engine, GS_ENGINE_COPIED, tag, 0);
    return GS_OK;
}

gs_code gs_engine_fill(gs_engine *engine, uint64_t tag, uint32_t queue, uint32_t memory, uint64_t at, uint64_t bytes,
                       uint8_t value) {
    (void)value;
    must(queue != GS_ENGINE_NO_QUEUE);
    check(engine->memories, memory, at, bytes);
    happens(engine, GS_ENGINE_COPIED, tag, 0);
    return GS_OK;
}

gs_code gs_engine_load(gs_engine *engine, uint64_t tag, uint32_t module, const gs_image *image) {
    (void)image;
    must(module < MOST && !engine->modules[module].is_there);
    engine->modules[module].is_there = true;
    happens(engine, GS_ENGINE_LOADED, tag, 0);
    return GS_OK;
}

void gs_engine_unload(gs_engine *engine, uint32_t module) {
    check(engine->modules, module, 0, 0);
    engine->modules[module].is_there = false;
}

gs_code gs_engine_start(gs_engine *engine, uint64_t tag, const gs_engine_run *run) {
    unsigned char copy[GS_CLIENT_VALUE_BYTES];
    check(engine->modules, run->module, 0, 0);
    must(run->kernel < 2 && run->grid[0] && run->grid[1] && run->grid[2] && run->argument_count <= GS_ENGINE_ARGUMENTS);
    for (uint32_t i = 0; i < run->argument_count; i++) {
        const gs_engine_argument *argument = &run->arguments[i];
        if (!argument->bytes) {
            check(engine->memories, argument->memory, argument->at, 1);
            continue;
        }
        must(argument->bytes <= sizeof copy);
        memcpy(copy, argument->value, argument->bytes); /* the sanitizer looks */
    }
    uint64_t blocks = (uint64_t)run->grid[0] * run->grid[1] * run->grid[2];
    happens(engine, GS_ENGINE_RAN, tag, run->is_confined && blocks > 4 ? run->first_block + blocks / 4 : blocks);
    if (run->first_block)
        engine->events[(engine->first + engine->count - 1) % GS_COUNT(engine->events)].blocks_done = blocks;
    return GS_OK;
}

void gs_engine_confine(gs_engine *engine, uint64_t tag, const uint32_t *mask) {
    (void)engine, (void)tag, (void)mask;
}

uint64_t gs_engine_progress(const gs_engine *engine, uint64_t tag) {
    (void)engine, (void)tag;
    return 0;
}

/* ---- the clients ---- */

static void nothing_to_watch(void *context, gs_load *load) {
    (void)context, (void)load;
}

static void nothing_to_say(void *context, const char *line) {
    (void)context, (void)line;
}

/* A region and a module, which would come over the socket. */
static void give_things(gs_session *session) {
    enum { ROOM = 8 };
    for (int kind = GS_THING_REGION; kind < GS_THING_KINDS; kind++) {
        gs_thing_table *table = &session->things[kind];
        table->data = calloc(ROOM, sizeof *table->data);
        gs_thing *thing = gs_thing_new(session, (enum gs_thing_kind)kind, 5000);
        must(table->data && thing);
        table->count = table->room = ROOM;
        table->data[1] = thing;
        thing->is_ready = true;
        thing->life = session->dispatch->life;
        (kind == GS_THING_REGION ? the_engine.regions : the_engine.modules)[thing->number] = (struct thing){true, 5000};
        if (kind == GS_THING_MODULE) {
            thing->image = calloc(1, sizeof *thing->image + 2 * sizeof thing->image->kernels[0]);
            must(thing->image);
            thing->image->kernel_count = 2;
            thing->image->kernels[0].can_be_confined = true;
        }
    }
}

static gs_session *open_session(gs_dispatch *dispatch) {
    gs_session_options options = {.weight = 1, .bell = -1, .own_bell = -1};
    options.page = memfd_create("fuzz", 0);
    must(options.page >= 0 && ftruncate(options.page, (off_t)gs_wire_page_bytes()) == 0);
    gs_session *session = gs_session_open(dispatch, &options, NULL);
    must(session);
    give_things(session);
    return session;
}

/* ---- steps ---- */

struct reader {
    const uint8_t *data;
    size_t size;
};

static uint8_t next(struct reader *reader) {
    if (!reader->size)
        return 0;
    reader->size--;
    return *reader->data++;
}

/* Each word of the command is a byte of the input, or four of them. */
static void say(gs_session *session, struct reader *reader, uint8_t how) {
    alignas(8) uint32_t words[GS_WIRE_MOST_BYTES / 4] = {0};
#define SIZE(name, type) sizeof(type),
    static const size_t sizes[] = {GS_WIRE_COMMANDS(SIZE)};
#undef SIZE
    uint32_t what = next(reader) % (GS_WIRE_WHATS + 1);
    size_t count = (what < GS_WIRE_WHATS ? sizes[what] : 8) / 4;
    if (what == GS_WIRE_LAUNCH || how & 4)
        count += next(reader) % 64;
    for (size_t i = 1; i < count && i < GS_COUNT(words); i++) {
        words[i] = next(reader);
        if (how & 8 && words[i] == 255)
            words[i] = UINT32_MAX - next(reader);
    }
    words[0] = what;
    gs_session_command(session, words, (count < GS_COUNT(words) ? count : GS_COUNT(words)) * 4);
}

static void unpack(struct reader *reader) {
    gs_image_request request = {0};
    uint32_t options = next(reader) % 5, kernels = next(reader) % 5;
    size_t size = next(reader) < reader->size ? next(reader) % (reader->size + 1) : reader->size;
    char *bytes = malloc(size + 1);
    must(bytes);
    memcpy(bytes, reader->data, size);
    bytes[size] = '\0';
    if (gs_source_unpack(bytes, size, options, kernels, &request))
        must(request.text >= bytes && request.text + request.size == bytes + size);
    gs_source_free_unpacked(&request, bytes);
}

/* An event that the device process had no reason for: a kernel may have written over its memory. */
static void lie(const gs_dispatch *dispatch, struct reader *reader) {
    uint32_t what = next(reader) % 6;
    size_t number = next(reader);
    uint64_t blocks = next(reader);
    was_lied_to = true;
    if (dispatch->actions.count)
        happens(&the_engine, what, gs_action_tag(dispatch->actions.data[number % dispatch->actions.count]), blocks);
}

/* When both clients are gone, and what was under way is done, nothing is left. */
static void nothing_is_left(const gs_dispatch *dispatch) {
    must(!gs_dispatch_is_busy(dispatch) && dispatch->running == 0);
    for (size_t i = 0; i < dispatch->sessions.count; i++)
        must(!dispatch->sessions.data[i]);
    for (size_t i = 0; i < 64 && !was_lied_to; i++)
        must(!the_engine.memories[i].is_there && !the_engine.regions[i].is_there && !the_engine.modules[i].is_there);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gs_dispatch_options options = {.watch = nothing_to_watch, .say = nothing_to_say, .limit_ns = UINT64_MAX / 2};
    enum { ENOUGH = 4096 };
    struct reader reader = {data, size < ENOUGH ? size : ENOUGH};
    static gs_dispatch *dispatch;
    if (!dispatch)
        dispatch = gs_dispatch_open(&options, NULL);
    must(dispatch);
    dispatch->options.shuffle_ns = next(&reader) & 1;
    if (was_lied_to)
        the_engine = (gs_engine){.facts = the_engine.facts};
    was_lied_to = false;
    gs_session *sessions[2] = {open_session(dispatch), open_session(dispatch)};
    while (reader.size) {
        uint8_t how = next(&reader);
        gs_session *session = sessions[how & 1];
        if (how >> 4 == 15)
            unpack(&reader);
        else if (how >> 4 == 14)
            lie(dispatch, &reader);
        else if (how >> 4 < 3 || the_engine.count > GS_SESSION_ACTIONS || session->actions >= GS_SESSION_ACTIONS)
            gs_dispatch_work(dispatch);
        else
            say(session, &reader, how);
    }
    gs_session_close(sessions[0]);
    gs_session_close(sessions[1]);
    while (the_engine.count || dispatch->must_sweep)
        gs_dispatch_work(dispatch);
    nothing_is_left(dispatch);
    return 0;
}
