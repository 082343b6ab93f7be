/*
 * serve.h: one GPU for many processes: the daemon, its clients, and the processes that it starts.
 */
#ifndef GS_SHARE_H
#define GS_SHARE_H

#include "base/base.h"

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

#endif
