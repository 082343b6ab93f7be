/* siblings.h: GPUs that are like a described one but for the number of their SMs. */
#ifndef GS_SIBLINGS_H
#define GS_SIBLINGS_H

#include "base/base.h"

typedef struct gs_sibling {
    const char *name, *title, *like, *compute_capability; /* like: a description of gpus/ */
    int32_t sms;
} gs_sibling;

extern const gs_sibling gs_siblings[];
extern const size_t gs_sibling_count;

#endif
