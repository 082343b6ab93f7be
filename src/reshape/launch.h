/* launch.h: a launch as a file describes it, for this room alone. See launch.c. */
#ifndef GS_LAUNCH_H
#define GS_LAUNCH_H

#include "reshape.h"

typedef enum gs_scalar {
    GS_FLOAT32,
    GS_FLOAT64,
    GS_INT32,
    GS_UINT32,
    GS_INT64,
    GS_UINT8,
    GS_FLOAT16,
    GS_SCALARS
} gs_scalar;

typedef enum gs_fill { GS_FILL_RANDOM, GS_FILL_ZERO, GS_FILL_INDEX } gs_fill;

typedef struct gs_launch_argument {
    bool is_buffer;
    gs_scalar type;
    int64_t count, seed; /* of a buffer */
    gs_fill fill;
    unsigned char value[8]; /* otherwise */
} gs_launch_argument;

struct gs_launch_file {
    uint32_t grid[3], block[3];
    int64_t shared_bytes;
    struct {
        gs_launch_argument *data;
        size_t count, room;
    } arguments;
};

size_t gs_scalar_bytes(gs_scalar type);
const char *gs_scalar_name(gs_scalar type);
/* The element `index` of a buffer as a double; exact but for large int64. */
double gs_scalar_value(gs_scalar type, const void *data, size_t index);
/* Fills memory of the right size for a buffer. */
void gs_launch_fill(const gs_launch_argument *argument, void *data);

#endif
