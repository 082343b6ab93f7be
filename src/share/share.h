/*
 * share.h: one GPU for many processes: the daemon, its clients, and the processes that it starts.
 */
#ifndef GS_SHARE_H
#define GS_SHARE_H

#include "base/base.h"

/* ---- processes that the daemon starts: hidden subcommands of the program ---- */

#define GS_DEVICE_PROCESS   "device-process"
#define GS_COMPILER_PROCESS "compiler-process"

/* Both are told by descriptors that they inherit, and are of no use to people. They return an exit code. */
int gs_device_process(int argc, char **argv);
int gs_compiler_process(int argc, char **argv);

/* ---- the daemon ---- */

typedef struct gs_serve_options {
    const char *socket;    /* NULL: see gridsmith/client.h. A socket that systemd hands over comes first */
    const char *device;    /* "host", "cuda" or "cuda:N"; NULL: the first GPU, or the host where there is none */
    int32_t sms;           /* host: how many are pretended; 0: 8 */
    uint64_t memory_bytes; /* host: how much memory is pretended; 0: 1 GiB */
    double limit_seconds;  /* a kernel that runs longer is stopped; 0: 60 */
    const char *metrics;   /* ADDRESS:PORT where Prometheus may ask, or NULL */
    const char *profiles;  /* the file of profiles; NULL: in the user's data; "": none is kept */
    const char *cache;     /* the folder of compiled kernels; NULL: the user's */
    bool has_marks;        /* for tests: each block of a confined kernel is counted */
    int64_t shuffle_us;    /* for tests: SMs are dealt anew, at random, as often; 0: never */
    void (*say)(const char *line); /* what people should know; never NULL */
} gs_serve_options;

/* Serves until SIGTERM or SIGINT. */
gs_code gs_serve(const gs_serve_options *options, gs_error *error);

/* What a daemon says of itself: gridsmith.status/1. The caller frees the text. */
gs_code gs_status_ask(const char *socket, char **json, gs_error *error);

/* A daemon as an executor: buffers are copied in, kernels launched on one stream, buffers copied out. Forms are the
   daemon's business, so calls must be of originals. */
struct gs_executor *gs_executor_serve(const char *socket, gs_error *error);
/* And as a feed; `name` is what 'gridsmith top' shows. */
struct gs_feed *gs_feed_serve(const char *socket, const char *name, gs_error *error);

#endif
