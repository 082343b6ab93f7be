/* builder.h: builds by NVRTC side by side, for the compiler process. See builder.c. */
#ifndef GS_BUILDER_H
#define GS_BUILDER_H

#include "cuda/cuda.h"

#include <sys/types.h>

typedef struct gs_builder {
    pid_t process; /* 0: there is none */
    int result;    /* descriptor of the memory where the process leaves what it made */
} gs_builder;

/* Starts a build. `build` must stay as it is until then, not longer. */
gs_code gs_builder_start(gs_builder *builder, const gs_build *build, int architecture, gs_error *error);
/* Waits for it. The caller frees what was built. */
gs_code gs_builder_finish(gs_builder *builder, gs_nvrtc_built *built, gs_error *error);

#endif
