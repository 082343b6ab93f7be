/*
 * serve.h: the daemon: one GPU for many processes. See docs/share.md. server.h lists the files of this room.
 */
#ifndef GS_SERVE_H
#define GS_SERVE_H

#include "base/base.h"

/* MPS is started where it is installed, and no other one is there; or in any case; or not. */
enum gs_serve_mps { GS_SERVE_MPS_IF_THERE, GS_SERVE_MPS, GS_SERVE_NO_MPS };

typedef struct gs_serve_options {
    const char *socket;    /* NULL: see gridsmith/client.h. A socket from systemd takes precedence */
    const char *device;    /* "host", "cuda" or "cuda:N"; NULL: the first GPU, or the host if there is none */
    int32_t sms;           /* host: number of SMs; 0: 8 */
    uint64_t memory_bytes; /* host: size of its memory; 0: 1 GiB */
    double limit_seconds;  /* a kernel that runs longer is stopped; 0: 60 */
    uint64_t client_memory_bytes, client_host_memory_bytes; /* limits per client; 0: see docs/share.md */
    const char *metrics;                                    /* ADDRESS:PORT for Prometheus, or NULL */
    const char *profiles;          /* the file of profiles; NULL: in the user's data folder; "": none */
    const char *cache;             /* the folder of compiled kernels; NULL: the user's */
    const char *plan;              /* a plan (gridsmith.plan/1) of kernels that may share SMs, or NULL */
    const char *group;             /* its members may use `gridsmith run`, or NULL */
    enum gs_serve_mps mps;         /* whether MPS is started and stopped with the daemon */
    bool counts_blocks;            /* for tests: each block of a confined kernel is counted */
    int64_t shuffle_us;            /* for tests: how often SMs are assigned anew at random; 0: never */
    void (*say)(const char *line); /* messages for the user; never NULL */
} gs_serve_options;

/* Serves until SIGTERM or SIGINT. */
gs_code gs_serve(const gs_serve_options *options, gs_error *error);

/* MPS, for as long as the daemon and its programs run. */
typedef struct gs_mps {
    char folder[108];
    int socket; /* to the process that watches MPS; 0 or negative: none */
    bool is_started;
} gs_mps;

/* Whether MPS is installed beside a GPU, and no other one serves this environment. */
bool gs_mps_may_start(void);
/* Starts MPS, and tries whether it works. Stop it even if this fails. */
gs_code gs_mps_start(gs_mps *mps, bool is_tried, gs_error *error);
/* MPS ends when its last client has ended. */
void gs_mps_stop(gs_mps *mps);

/* The process that stands beside NVIDIA's control daemon (mps.c); `argv` is GS_MPS_PROCESS, the folder, and perhaps
   "try". Returns its exit code. */
#define GS_MPS_PROCESS "mps-process"
int gs_mps_process(int argc, char **argv);

#endif
