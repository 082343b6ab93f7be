/*
 * file.c: files that clients send over the socket: host memory to share, and sources to load.
 */
#define _GNU_SOURCE
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether a descriptor is memory of that size, which cannot change. */
static bool is_sealed(int fd, uint64_t bytes) {
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS), wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    return seals >= 0 && (seals & wanted) == wanted && fstat(fd, &status) == 0 && status.st_size >= 0 &&
           (uint64_t)status.st_size == bytes;
}

/* ---- host memory ---- */

static gs_resource *new_region(gs_session *session, uint64_t bytes, int fd) {
    gs_resource *region = gs_resource_new(session, GS_RESOURCE_REGION, bytes);
    if (!region)
        return NULL;
    if (gs_worker_share(session->server->worker, region->handle, fd, bytes) != GS_OK) {
        gs_resource_forget(region);
        return NULL;
    }
    region->is_ready = true;
    region->life = session->server->life;
    return region;
}

static void share(gs_session *session, const gs_wire_file *file, gs_resource **place, int fd) {
    *place = new_region(session, file->bytes, fd);
    gs_page_reply(session, file->reply, file->ticket, *place ? GS_CLIENT_OK : GS_CLIENT_SYSTEM,
                  *place ? "" : gs_no_memory);
}

/* ---- sources ---- */

/* The daemon's own copy, because the client may go on writing; with a NUL behind it. NULL: it cannot be read. */
static char *read_file(int fd, size_t bytes) {
    char *text = malloc(bytes + 1);
    for (size_t at = 0; at < bytes && text;) {
        ssize_t got = pread(fd, text + at, bytes - at, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            free(text);
            return NULL;
        }
        at += (size_t)got;
    }
    if (text)
        text[bytes] = '\0';
    return text;
}

static void load(gs_session *session, const gs_wire_file *file, gs_resource **place, int fd) {
    gs_image_request request = {0};
    char *bytes = file->bytes <= GS_WIRE_SOURCE_BYTES ? read_file(fd, file->bytes) : NULL;
    if (!bytes || !gs_source_unpack(bytes, file->bytes, file->options, file->kernels, &request)) {
        free(bytes);
        gs_session_end(session, GS_CLIENT_INVALID, "a file of %llu bytes is not a source",
                       (unsigned long long)file->bytes);
        return;
    }
    gs_action *action = gs_action_new(session, GS_ACTION_LOAD);
    gs_resource *module = action ? gs_resource_new(session, GS_RESOURCE_MODULE, 0) : NULL;
    if (!module) {
        if (action)
            gs_action_free(action);
        gs_source_free_unpacked(&request, bytes);
        gs_session_end(session, GS_CLIENT_SYSTEM, "%s", gs_no_memory);
        return;
    }
    *place = module;
    gs_resource_use(action->resource = module);
    action->reply = file->reply;
    action->ticket = file->ticket;
    action->handle = file->handle;
    gs_load_start(action, &request, bytes);
}

/* ---- messages ---- */

static bool is_well_formed(const gs_session *session, const gs_wire_file *file, size_t bytes, int fd) {
    return bytes == sizeof *file && fd >= 0 && file->reply < GS_WIRE_REPLIES && file->bytes &&
           (file->kind == GS_WIRE_SHARE || file->kind == GS_WIRE_LOAD) && is_sealed(fd, file->bytes) &&
           session->actions < GS_SESSION_ACTIONS;
}

void gs_session_file(gs_session *session, const void *message, size_t bytes, int fd) {
    gs_wire_file file = {0};
    gs_resource **place;
    if (session->end_code)
        return;
    memcpy(&file, message, gs_min_u64(bytes, sizeof file));
    if (!is_well_formed(session, &file, bytes, fd)) {
        gs_session_end(session, GS_CLIENT_INVALID, "a file is malformed, not sealed, or one too many");
        return;
    }
    if (session->server->is_down) {
        gs_page_reply(session, file.reply, file.ticket, GS_CLIENT_SYSTEM, gs_no_worker);
        return;
    }
    bool is_share = file.kind == GS_WIRE_SHARE;
    enum gs_table_result result =
        gs_resource_place(session, is_share ? GS_RESOURCE_REGION : GS_RESOURCE_MODULE, file.handle, &place);
    if (result == GS_TABLE_NO_MEMORY)
        gs_session_end(session, GS_CLIENT_SYSTEM, "%s", gs_no_memory);
    else if (result != GS_TABLE_OK)
        gs_session_end(session, GS_CLIENT_INVALID, "%s handle %u is %s", is_share ? "region" : "module", file.handle,
                       result == GS_TABLE_IN_USE ? "in use" : "out of range");
    else if (is_share)
        share(session, &file, place, fd);
    else
        load(session, &file, place, fd);
}
