/* launch.h: a launch as described by a file, for this room only. See launch.c. */
#ifndef GS_LAUNCH_H
#define GS_LAUNCH_H

#include "cpu.h"

typedef enum gs_fill { GS_FILL_RANDOM, GS_FILL_ZERO, GS_FILL_INDEX } gs_fill;

typedef struct gs_launch_argument {
    bool is_buffer;
    gs_scalar type;
    int64_t count, seed; /* of a buffer */
    gs_fill fill;
    unsigned char value[8]; /* of a value */
} gs_launch_argument;

struct gs_launch_file {
    uint32_t grid[3], block[3];
    int64_t shared_bytes;
    struct {
        gs_launch_argument *data;
        size_t count, capacity;
    } arguments;
};

/* Fills the memory of a buffer, whose size is that of the argument. */
void gs_launch_fill(const gs_launch_argument *argument, void *data);

#endif
