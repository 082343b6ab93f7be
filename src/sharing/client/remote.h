/* remote.h: helpers around the client library; see remote_executor.c and remote_stream.c. */
#ifndef GS_SHARE_EXECUTOR_H
#define GS_SHARE_EXECUTOR_H

#include "client.h"
#include "kernels/cuda/cuda.h"

#include <gridsmith/client.h>

/* Converts an error of the client library. */
gs_code gs_client_failed(gs_client_code code, gs_error *error);
gs_code gs_client_load_build(gs_client *client, const gs_build *build, uint32_t *module, gs_error *error);
/* Converts an argument; buffers are addresses by number. The result points into the original. */
gs_client_argument gs_client_argument_of(const gs_job_argument *argument, const gs_client_memory *buffers);

#endif
