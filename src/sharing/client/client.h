/*
 * client.h: clients of the daemon: the protocol, and helpers around the client library for Gridsmith's own programs.
 *
 *   wire.h          the protocol between a client and the daemon
 *   ring.h          rings of records in shared memory, and bells
 *   descriptors.h   file descriptors that travel over a socket
 *   tenant.h        what the programs of `gridsmith run` share with the daemon
 *
 * The client library itself is <gridsmith/client.h> (client.c, link.c); it needs the C library alone.
 */
#ifndef GS_CLIENT_ROOM_H
#define GS_CLIENT_ROOM_H

#include "base/base.h"
#include "descriptors.h"
#include "ring.h"
#include "tenant.h"
#include "wire.h"

struct gs_executor;
struct gs_app_stream;

/* The status of a daemon: gridsmith.status/1. The caller frees the text. */
gs_code gs_status_request(const char *socket, char **json, gs_error *error);

/* A daemon as an executor: buffers are copied in, kernels launched on one stream, buffers copied out. The daemon
   chooses the form, so calls must be of originals. */
struct gs_executor *gs_executor_remote(const char *socket, gs_error *error);
/* A daemon as an application stream; `name` is what 'gridsmith top' shows. */
struct gs_app_stream *gs_app_stream_remote(const char *socket, const char *name, gs_error *error);

#endif
