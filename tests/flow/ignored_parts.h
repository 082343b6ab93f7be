/* ignored_parts.h: for visitors of a kernel's flow that look at its instructions only. */
#ifndef IGNORED_PARTS_H
#define IGNORED_PARTS_H

#include "kernels/flow/flow.h"

static bool ignore_open(void *user, gs_flow_kind kind, uint32_t offset, uint32_t line, bool is_uniform, int64_t times,
                        gs_flow_source source) {
    (void)user, (void)kind, (void)offset, (void)line, (void)is_uniform, (void)times, (void)source;
    return true;
}

static bool ignore_close(void *user) {
    (void)user;
    return true;
}

#endif
