/*
 * test_files.c: a client sends messages and files, in any order, and commands for them, and is told what the rules of
 * src/sharing/serve/file.c say. The rules are written out here, over plain lists: of the messages that are at the
 * socket, of the files that wait for their commands, and of what became of each descriptor.
 *
 * A descriptor is known by its inode. The worker and the loading of sources are counted only.
 */
#define _GNU_SOURCE
#include "test.h"

#include "sharing/client/descriptors.h"
#include "sharing/serve/server.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#    define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum {
    STEPS = 120,
    HANDLES = 4, /* that are used, and one that is out of range */
    SLOTS = 3,   /* of replies */
    MOST_REGIONS = 2,
    MOST_MODULES = 2,
    MOST_SHARED = 10001,
    MOST_MESSAGES = 300,
    MOST_FILES = 4096
};

/* ---- descriptors ---- */

struct file {
    ino_t inode;
    bool is_memory, is_writable;
    int seals;
    uint64_t bytes;
    int ends; /* how often it should have been closed by another thread */
};

static struct file files[MOST_FILES];
static int file_count;
static ino_t thrown[2 * MOST_FILES];
static int thrown_count;

static ino_t inode_of(int fd) {
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    return status.st_ino;
}

void __wrap_gs_closing_give(gs_closing *closing, int fd, gs_account *process);
void __wrap_gs_closing_give(gs_closing *closing, int fd, gs_account *process) {
    (void)closing, (void)process;
    if (fd < 0)
        return;
    thrown[thrown_count++] = inode_of(fd);
    close(fd);
}

/* A new descriptor of memory that is sealed in some way, or of something else; `*file` describes it. */
static int new_file(gs_random *random, struct file **file) {
    static const uint64_t sizes[] = {
        1, 1, 4096, 4096, 5904, 5905, GS_WIRE_SOURCE_BYTES, GS_WIRE_SOURCE_BYTES, GS_WIRE_SOURCE_BYTES + 1, 0};
    enum { SIZE = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };
    static const int seals[] = {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_WRITE, F_SEAL_FUTURE_WRITE};
    assert_true(file_count < MOST_FILES);
    struct file *made = *file = &files[file_count++];
    *made = (struct file){.is_memory = gs_random_from(random, 0, 19) != 0, .is_writable = true};
    if (!made->is_memory) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        close(pair[1]);
        made->inode = inode_of(pair[0]);
        return pair[0];
    }
    int fd = memfd_create("file", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    made->bytes = sizes[gs_random_from(random, 0, GS_COUNT(sizes) - 1)];
    made->seals = SIZE | (gs_random_from(random, 0, 1) ? F_SEAL_WRITE : 0);
    if (gs_random_from(random, 0, 7) == 0)
        made->seals ^= seals[gs_random_from(random, 0, GS_COUNT(seals) - 1)];
    assert_true(fd >= 0 && ftruncate(fd, (off_t)made->bytes) == 0);
    made->inode = inode_of(fd);
    if (gs_random_from(random, 0, 19) == 0) {
        char path[40];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int other = open(path, gs_random_from(random, 0, 1) ? O_RDONLY : O_WRONLY);
        assert_true(other >= 0);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, made->seals), 0);
        close(fd);
        made->is_writable = false;
        return other;
    }
    assert_int_equal(fcntl(fd, F_ADD_SEALS, made->seals), 0);
    return fd;
}

/* ---- the rest of the daemon ---- */

static struct {
    uint64_t shared, unshared;
    ino_t inode;
    uint64_t bytes;
    bool must_fail;
} worker;

gs_code __wrap_gs_worker_share(gs_worker *to, uint32_t region, int fd, uint64_t bytes);
gs_code __wrap_gs_worker_share(gs_worker *to, uint32_t region, int fd, uint64_t bytes) {
    (void)to;
    assert_true(region != 0);
    if (worker.must_fail)
        return GS_E_MEMORY;
    worker.shared++;
    worker.inode = inode_of(fd);
    worker.bytes = bytes;
    return GS_OK;
}

void __wrap_gs_worker_unshare(gs_worker *of, uint32_t region);
void __wrap_gs_worker_unshare(gs_worker *of, uint32_t region) {
    (void)of;
    assert_true(region != 0);
    worker.unshared++;
}

static struct {
    gs_action *actions[MOST_MODULES];
    size_t count;
    ino_t inode;
    gs_image_request request;
    bool is_refused;
} loading;

void __wrap_gs_load_start(gs_action *action, const gs_image_request *request);
void __wrap_gs_load_start(gs_action *action, const gs_image_request *request) {
    assert_true(loading.count < MOST_MODULES);
    loading.actions[loading.count++] = action;
    loading.request = *request;
    loading.inode = inode_of(request->source);
    close(request->source);
}

bool __wrap_gs_load_is_allowed(const gs_session *session, uint64_t bytes, char *message, size_t size);
bool __wrap_gs_load_is_allowed(const gs_session *session, uint64_t bytes, char *message, size_t size) {
    (void)session, (void)bytes;
    snprintf(message, size, "too many sources");
    return !loading.is_refused;
}

/* ---- the rules ---- */

enum { NO_FILE = -1, NOT_MEMORY = -2 }; /* what else waits for a command; otherwise the index of a file */

struct message {
    size_t bytes;
    char first;
    size_t count;
    int files[3];
};

struct reply {
    uint32_t ticket;
    gs_client_code code;
    const char *message; /* with which it begins */
};

/* What there should be. */
struct rules {
    struct message messages[MOST_MESSAGES];
    size_t first, last;
    bool has_left;
    int waiting[GS_WIRE_FILES];
    size_t waiting_count;
    uint64_t counted, most_counted; /* of waiting files, those counted */
    const char *ended;              /* with what message; NULL: it is open */
    gs_client_code end_code;
    uint64_t regions[HANDLES + 1], modules[HANDLES + 1]; /* bytes, and whether there is one; 0: free */
    struct reply replies[SLOTS];
    uint64_t errors;
    char text[200];
};

struct scene {
    gs_random random;
    gs_server server;
    gs_session *session;
    int near, far;
    struct rules rules;
};

static int64_t draw(struct scene *scene, int64_t from, int64_t to) {
    return gs_random_from(&scene->random, from, to);
}

static void throw_away(int file) {
    if (file >= 0)
        files[file].ends++;
}

static void end_client(struct rules *rules, gs_client_code code, const char *format, ...) {
    va_list arguments;
    if (rules->ended)
        return;
    va_start(arguments, format);
    vsnprintf(rules->text, sizeof rules->text, format, arguments);
    va_end(arguments);
    rules->ended = rules->text;
    rules->end_code = code;
}

static void take_new_file(struct rules *rules, int file) {
    int kept = file;
    if (file >= 0 && !files[file].is_memory) {
        throw_away(file);
        kept = NOT_MEMORY;
    }
    if (rules->ended || rules->waiting_count == GS_WIRE_FILES) {
        throw_away(kept);
        end_client(rules, GS_CLIENT_INVALID, "more than 4 files were sent without a command");
        return;
    }
    if (kept >= 0 && rules->counted == rules->most_counted) {
        throw_away(kept);
        kept = NO_FILE;
    }
    rules->counted += kept >= 0;
    rules->waiting[rules->waiting_count++] = kept;
}

static enum gs_receive_result receive(struct rules *rules) {
    if (rules->first == rules->last)
        return rules->has_left ? GS_RECEIVE_CLOSED : GS_RECEIVE_NOTHING;
    const struct message *message = &rules->messages[rules->first++];
    bool is_file = message->bytes == 1 && message->first == 'f';
    if (is_file)
        take_new_file(rules, message->count ? message->files[0] : NO_FILE);
    for (size_t i = is_file; i < message->count; i++)
        throw_away(message->files[i]);
    if (message->bytes == 0)
        return GS_RECEIVE_CLOSED;
    if (!is_file && !(message->bytes == 1 && message->first == 'r'))
        end_client(rules, GS_CLIENT_INVALID, "invalid message of %zu bytes", message->bytes);
    return GS_RECEIVED;
}

static void reply(struct rules *rules, uint32_t slot, uint32_t ticket, gs_client_code code, const char *message) {
    rules->replies[slot] = (struct reply){ticket, code, message};
    rules->errors += code != GS_CLIENT_OK;
}

/* The file of a command; NO_FILE: it is answered, or the client was ended. A command without a file, and one that the
   daemon has no descriptor for, is no error of the client. */
static int take_file(struct scene *scene, uint32_t slot, uint32_t ticket, uint64_t bytes, int seals) {
    struct rules *rules = &scene->rules;
    for (int i = 0; i < 256 && !rules->waiting_count; i++)
        if (receive(rules) != GS_RECEIVED)
            break;
    if (rules->ended)
        return NO_FILE;
    if (!rules->waiting_count || slot >= GS_WIRE_REPLIES) {
        end_client(rules, GS_CLIENT_INVALID, "a command without its file, or with reply slot %u", slot);
        return NO_FILE;
    }
    int file = rules->waiting[0];
    rules->waiting_count--;
    for (size_t i = 0; i < rules->waiting_count; i++)
        rules->waiting[i] = rules->waiting[i + 1];
    rules->counted -= file >= 0;
    if (file == NO_FILE || scene->server.is_down) {
        reply(rules, slot, ticket, GS_CLIENT_SYSTEM,
              file == NO_FILE ? "the daemon is out of descriptors" : "the worker cannot be started");
        rules->errors--;
        throw_away(file);
        return NO_FILE;
    }
    if (file == NOT_MEMORY || !bytes || files[file].bytes != bytes || (files[file].seals & seals) != seals) {
        end_client(rules, GS_CLIENT_INVALID, "a file is not sealed memory of %llu bytes", (unsigned long long)bytes);
        throw_away(file);
        return NO_FILE;
    }
    return file;
}

/* Whether a new resource may have this handle. */
static bool is_free(struct rules *rules, const char *kind, const uint64_t *table, uint32_t handle) {
    if (handle && handle < HANDLES && !table[handle])
        return true;
    bool is_there = handle && handle < HANDLES;
    end_client(rules, GS_CLIENT_INVALID, "%s handle %u is %s", kind, handle, is_there ? "in use" : "out of range");
    return false;
}

static uint64_t sum_of(const uint64_t *table) {
    uint64_t sum = 0;
    for (int i = 0; i <= HANDLES; i++)
        sum += table[i];
    return sum;
}

static uint64_t count_of(const uint64_t *table) {
    uint64_t count = 0;
    for (int i = 0; i <= HANDLES; i++)
        count += table[i] != 0;
    return count;
}

/* Whether the worker was given the file. */
static bool share(struct scene *scene, const gs_wire_share *request) {
    struct rules *rules = &scene->rules;
    int file =
        take_file(scene, request->reply, request->ticket, request->bytes, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    if (file < 0)
        return false;
    bool is_read_only = !files[file].is_writable || files[file].seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE);
    if (is_read_only)
        end_client(rules, GS_CLIENT_INVALID, "host memory to share must be writable");
    if (is_read_only || !is_free(rules, "region", rules->regions, request->region)) {
        throw_away(file);
        return false;
    }
    bool is_too_much =
        count_of(rules->regions) == MOST_REGIONS || sum_of(rules->regions) + request->bytes > MOST_SHARED;
    if (is_too_much || worker.must_fail) {
        reply(rules, request->reply, request->ticket, is_too_much ? GS_CLIENT_MEMORY : GS_CLIENT_SYSTEM,
              is_too_much ? "a client may have at most" : "the daemon is out of memory");
        rules->errors -= !is_too_much;
        throw_away(file);
        return false;
    }
    reply(rules, request->reply, request->ticket, GS_CLIENT_OK, "");
    rules->regions[request->region] = request->bytes;
    assert_int_equal(worker.inode, files[file].inode);
    assert_int_equal(worker.bytes, request->bytes);
    return true;
}

/* Whether the source is being loaded. */
static bool load(struct scene *scene, const gs_wire_load *request) {
    struct rules *rules = &scene->rules;
    int file = take_file(scene, request->reply, request->ticket, request->bytes,
                         F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_WRITE);
    if (file < 0)
        return false;
    bool is_source = request->bytes <= GS_WIRE_SOURCE_BYTES && request->kernels >= 1 && request->kernels <= 64 &&
                     request->options <= 32;
    bool has_place = is_free(rules, "module", rules->modules, request->module);
    bool is_too_much = count_of(rules->modules) == MOST_MODULES;
    if (!is_source)
        end_client(rules, GS_CLIENT_INVALID, "a file of %llu bytes is not a source",
                   (unsigned long long)request->bytes);
    else if (has_place && (is_too_much || loading.is_refused))
        reply(rules, request->reply, request->ticket, is_too_much ? GS_CLIENT_MEMORY : GS_CLIENT_SYSTEM,
              is_too_much ? "a client may have at most" : "too many sources");
    if (!is_source || !has_place || is_too_much || loading.is_refused) {
        throw_away(file);
        return false;
    }
    rules->modules[request->module] = 1;
    assert_int_equal(loading.inode, files[file].inode);
    assert_int_equal(loading.request.bytes, request->bytes);
    assert_int_equal(loading.request.option_count, request->options);
    assert_int_equal(loading.request.kernel_count, request->kernels);
    const gs_action *action = loading.actions[loading.count - 1];
    assert_true(action->reply == request->reply && action->ticket == request->ticket);
    assert_true(action->handle == request->module && action->command == GS_WIRE_LOAD);
    return true;
}

/* ---- steps ---- */

static void send_message(struct scene *scene) {
    struct rules *rules = &scene->rules;
    int fds[3], kind = (int)draw(scene, 0, 49);
    if (rules->last == MOST_MESSAGES || rules->has_left)
        return;
    struct message *message = &rules->messages[rules->last++];
    *message = (struct message){.bytes = 1, .first = 'f', .count = 1};
    if (kind < 10)
        message->first = 'r';
    if (kind == 10)
        message->bytes = 2;
    if (kind == 11)
        message->first = (char)draw(scene, 'a', 'z');
    if (message->first != 'f' || kind < 18)
        message->count = (size_t)draw(scene, 0, 3);
    for (size_t i = 0; i < message->count; i++) {
        struct file *file;
        fds[i] = new_file(&scene->random, &file);
        message->files[i] = (int)(file - files);
    }
    const char bytes[2] = {message->first, 0};
    assert_int_equal(gs_descriptors_send(scene->far, bytes, message->bytes, fds, message->count, MSG_DONTWAIT),
                     message->bytes);
    for (size_t i = 0; i < message->count; i++)
        close(fds[i]);
}

/* The file of the next command; NO_FILE: none is known. */
static int next_file(const struct rules *rules) {
    if (rules->waiting_count)
        return rules->waiting[0];
    for (size_t i = rules->first; i < rules->last; i++)
        if (rules->messages[i].first == 'f' && rules->messages[i].count)
            return rules->messages[i].files[0];
    return NO_FILE;
}

/* The number of bytes that a command says its file has: mostly right. */
static uint64_t draw_bytes(struct scene *scene) {
    int file = next_file(&scene->rules);
    uint64_t bytes = file >= 0 ? files[file].bytes : 1;
    return draw(scene, 0, 19) ? bytes : bytes + (uint64_t)draw(scene, -1, 1);
}

static uint32_t draw_slot(struct scene *scene) {
    return draw(scene, 0, 39) ? (uint32_t)draw(scene, 0, SLOTS - 1) : (uint32_t)draw(scene, 63, 65) / 64 * 64;
}

static uint32_t draw_handle(struct scene *scene, uint32_t out_of_range) {
    return draw(scene, 0, 29) ? (uint32_t)draw(scene, 1, HANDLES - 1) : draw(scene, 0, 1) ? 0 : out_of_range;
}

/* A handle that is mostly free. */
static uint32_t draw_free(struct scene *scene, const uint64_t *table, uint32_t out_of_range) {
    uint32_t handle = draw_handle(scene, out_of_range);
    for (int i = 0; i < 9 && handle < HANDLES && table[handle]; i++)
        handle = draw_handle(scene, out_of_range);
    return handle;
}

static void send_share(struct scene *scene) {
    gs_wire_share request = {.head.command = GS_WIRE_SHARE,
                             .reply = draw_slot(scene),
                             .ticket = (uint32_t)draw(scene, 1, 1000),
                             .region = draw_free(scene, scene->rules.regions, GS_WIRE_REGIONS),
                             .bytes = draw_bytes(scene)};
    uint64_t shared = worker.shared;
    worker.must_fail = draw(scene, 0, 9) == 0;
    gs_file_share(scene->session, &request);
    shared += share(scene, &request);
    assert_int_equal(worker.shared, shared);
}

static void send_load(struct scene *scene) {
    gs_wire_load request = {.head.command = GS_WIRE_LOAD,
                            .reply = draw_slot(scene),
                            .ticket = (uint32_t)draw(scene, 1, 1000),
                            .module = draw_free(scene, scene->rules.modules, GS_WIRE_MODULES),
                            .options = (uint32_t)(draw(scene, 0, 9) ? draw(scene, 0, 32) : draw(scene, 32, 33)),
                            .kernels = (uint32_t)(draw(scene, 0, 19) ? draw(scene, 0, 7) ? draw(scene, 1, 64) : 64
                                                                     : draw(scene, 0, 1) * 65),
                            .bytes = draw_bytes(scene)};
    size_t count = loading.count;
    loading.is_refused = draw(scene, 0, 9) == 0;
    gs_file_load(scene->session, &request);
    count += load(scene, &request);
    assert_int_equal(loading.count, count);
}

/* A source cannot be loaded, and its handle is free again. */
static void end_load(struct scene *scene) {
    struct rules *rules = &scene->rules;
    if (!loading.count)
        return;
    gs_action *action = loading.actions[--loading.count];
    rules->modules[action->handle] = 0;
    reply(rules, action->reply, action->ticket, GS_CLIENT_SOURCE, "wrong");
    gs_creation_refuse(action, GS_CLIENT_SOURCE, "wrong");
}

static void free_region(struct scene *scene) {
    uint32_t handle = (uint32_t)draw(scene, 1, HANDLES - 1);
    const gs_wire_free request = {.head.command = GS_WIRE_UNSHARE, .handle = handle};
    if (!scene->rules.regions[handle] || scene->rules.ended)
        return;
    uint64_t unshared = worker.unshared;
    gs_session_command(scene->session, &request, sizeof request);
    assert_int_equal(worker.unshared, unshared + 1);
    scene->rules.regions[handle] = 0;
}

/* The process of the client has too many descriptors that are not closed yet, so nothing is taken. */
static void receive_while_behind(struct scene *scene) {
    scene->session->account.above->closing = 4;
    assert_int_equal(gs_session_receive(scene->session), GS_RECEIVE_NOTHING);
    scene->session->account.above->closing = 3;
}

/* Mostly the one that the file is for. */
static void send_command(struct scene *scene) {
    int file = next_file(&scene->rules);
    if (file == NO_FILE && draw(scene, 0, 9))
        return;
    bool is_source = file >= 0 && files[file].seals & F_SEAL_WRITE;
    if (is_source == (draw(scene, 0, 19) != 0))
        send_load(scene);
    else
        send_share(scene);
}

static void step(struct scene *scene) {
    switch (draw(scene, 0, 19)) {
    case 0:
        end_load(scene);
        break;
    case 1:
        free_region(scene);
        break;
    case 2:
        receive_while_behind(scene);
        break;
    case 3:
        scene->server.is_down = draw(scene, 0, 4) == 0;
        break;
    case 4:
    case 5:
    case 6:
        assert_int_equal(gs_session_receive(scene->session), receive(&scene->rules));
        break;
    case 7:
    case 8:
    case 9:
    case 10:
    case 11:
    case 12:
        send_command(scene);
        break;
    default:
        send_message(scene);
    }
}

/* ---- what there is ---- */

static void expect_files(const struct scene *scene) {
    const gs_session *session = scene->session;
    const struct rules *rules = &scene->rules;
    assert_int_equal(session->file_count, rules->waiting_count);
    for (size_t i = 0; i < rules->waiting_count; i++)
        if (rules->waiting[i] >= 0)
            assert_int_equal(inode_of(session->files[i]), files[rules->waiting[i]].inode);
        else
            assert_true(session->files[i] < 0);
    assert_int_equal(session->account.used[GS_QUOTA_DESCRIPTORS], 1 + rules->counted);
}

static void expect_thrown(void) {
    int count = 0;
    for (int i = 0; i < file_count; i++) {
        int ends = 0;
        for (int k = 0; k < thrown_count; k++)
            ends += thrown[k] == files[i].inode;
        assert_int_equal(ends, files[i].ends);
        count += ends;
    }
    assert_int_equal(count, thrown_count);
}

static void expect_page(const struct scene *scene) {
    const gs_wire_page *page = scene->session->page;
    const struct rules *rules = &scene->rules;
    assert_int_equal(scene->session->counts.errors, rules->errors);
    assert_int_equal(scene->session->end_code, rules->ended ? (int)rules->end_code : 0);
    assert_string_equal(page->end_message, rules->ended ? rules->ended : "");
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct reply *wanted = &rules->replies[i];
        const gs_wire_reply *found = &page->replies[i];
        assert_int_equal(found->ticket, wanted->ticket);
        if (!wanted->ticket)
            continue;
        assert_int_equal(found->code, wanted->code);
        assert_memory_equal(found->message, wanted->message, strlen(wanted->message) + (wanted->code == GS_CLIENT_OK));
    }
}

/* ---- tests ---- */

static void open_scene(struct scene *scene, uint64_t seed) {
    int ends[2];
    memset(scene, 0, sizeof *scene);
    memset(&worker, 0, sizeof worker);
    memset(&loading, 0, sizeof loading);
    file_count = thrown_count = 0;
    scene->random = gs_random_at(35, seed);
    gs_server *server = &scene->server;
    server->life = 1;
    gs_quotas_open(&server->quotas, &(gs_quotas_options){0}, 1 << 20);
    uint64_t *most = server->quotas.most[GS_ACCOUNT_CLIENT];
    scene->rules.most_counted = (uint64_t)draw(scene, 1, GS_WIRE_FILES);
    most[GS_QUOTA_DESCRIPTORS] = 1 + scene->rules.most_counted;
    most[GS_QUOTA_REGIONS] = MOST_REGIONS;
    most[GS_QUOTA_SHARED] = MOST_SHARED;
    most[GS_QUOTA_MODULES] = MOST_MODULES;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
    scene->near = ends[0];
    scene->far = ends[1];
    gs_session_options options = {.weight = 1, .socket = scene->near, .process = getpid(), .user = getuid()};
    options.page = gs_page_new("page", gs_wire_page_bytes());
    scene->session = gs_session_open(server, &options, NULL);
    assert_non_null(scene->session);
    close(options.page);
}

static void close_scene(struct scene *scene) {
    for (size_t i = 0; i < scene->rules.waiting_count; i++)
        throw_away(scene->rules.waiting[i]);
    while (loading.count)
        gs_creation_refuse(loading.actions[--loading.count], GS_CLIENT_SYSTEM, "");
    gs_session_close(scene->session);
    expect_thrown();
    scene->server.is_down = true;
    while (scene->server.sessions.must_sweep)
        gs_sessions_sweep(&scene->server);
    assert_int_equal(worker.shared, worker.unshared);
    for (int i = 0; i < GS_QUOTAS; i++)
        assert_int_equal(scene->server.quotas.all.used[i], 0);
    close(scene->near);
    if (!scene->rules.has_left)
        close(scene->far);
    gs_quotas_close(&scene->server.quotas);
    gs_contenders_close(&scene->server);
    gs_actions_free(&scene->server.actions);
    free(scene->server.sessions.data);
    free(scene->server.sessions.slots.data);
    for (int i = 0; i < GS_RESOURCE_KINDS; i++)
        free(scene->server.handles[i].data);
}

static struct scene scene;

TEST(files_go_to_their_commands) {
    for (uint64_t seed = 0; seed < 20 + test_number("GRIDSMITH_RUNS", 20000) / 20; seed++) {
        open_scene(&scene, seed);
        for (int i = 0; i < STEPS && !(scene.rules.ended && draw(&scene, 0, 3) == 0); i++) {
            step(&scene);
            expect_files(&scene);
            expect_page(&scene);
        }
        close_scene(&scene);
    }
}

/* An honest client sends only a few bytes before the file. */
TEST(a_file_is_looked_for_behind_256_messages) {
    for (int bells = 255; bells <= 256; bells++) {
        struct file *file;
        open_scene(&scene, 0);
        for (int i = 0; i < bells; i++)
            assert_int_equal(send(scene.far, "r", 1, 0), 1);
        int fd = new_file(&scene.random, &file);
        assert_int_equal(gs_descriptors_send(scene.far, "f", 1, &fd, 1, 0), 1);
        close(fd);
        gs_file_share(scene.session, &(gs_wire_share){.head.command = GS_WIRE_SHARE, .region = 1, .bytes = 77});
        assert_string_equal(scene.session->page->end_message, bells == 255
                                                                  ? "a file is not sealed memory of 77 bytes"
                                                                  : "a command without its file, or with reply slot 0");
        file->ends = bells == 255;
        close_scene(&scene);
    }
}

/* Linux sends at most so many in a message. */
TEST(all_descriptors_of_a_message_are_thrown_away) {
    static int fds[GS_DESCRIPTORS];
    for (int is_file = 0; is_file < 2; is_file++) {
        open_scene(&scene, 0);
        int fd = memfd_create("one", MFD_ALLOW_SEALING | MFD_CLOEXEC);
        for (size_t i = 0; i < GS_COUNT(fds); i++)
            fds[i] = fd;
        files[0] = (struct file){.inode = inode_of(fd), .ends = GS_DESCRIPTORS};
        file_count = 1;
        assert_int_equal(gs_descriptors_send(scene.far, is_file ? "f" : "r", 1, fds, GS_COUNT(fds), 0), 1);
        close(fd);
        assert_int_equal(gs_session_receive(scene.session), GS_RECEIVED);
        assert_int_equal(thrown_count, GS_DESCRIPTORS - is_file);
        close_scene(&scene);
    }
}

/* A client that leaves with unread messages resets the connection; what it has sent is not looked at any more. */
TEST(clients_leave) {
    for (int is_reset = 0; is_reset < 2; is_reset++) {
        open_scene(&scene, 0);
        if (is_reset)
            assert_int_equal(send(scene.near, "r", 1, 0), 1);
        assert_int_equal(gs_session_receive(scene.session), GS_RECEIVE_NOTHING);
        close(scene.far);
        scene.rules.has_left = true;
        assert_int_equal(gs_session_receive(scene.session), GS_RECEIVE_CLOSED);
        assert_int_equal(scene.session->end_code, 0);
        close_scene(&scene);
    }
}

TEST_MAIN(NULL, NULL)
