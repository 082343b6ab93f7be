/* remote.h: what programs of our own need around the client library; see executor.c and feed.c. */
#ifndef GS_SHARE_EXECUTOR_H
#define GS_SHARE_EXECUTOR_H

#include "client.h"
#include "kernels/cuda/cuda.h"

#include <gridsmith/client.h>

/* A code of the client library in our words. */
gs_code gs_client_failed(gs_client_code code, gs_error *error);
gs_code gs_client_load_build(gs_client *client, const gs_build *build, uint32_t *module, gs_error *error);
/* An argument; buffers are addresses by number. It points to what it was made of. */
gs_client_argument gs_client_argument_of(const gs_job_argument *argument, const gs_client_memory *buffers);

#endif
