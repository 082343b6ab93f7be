/* zoo_load.h: gridsmith zoo load and gridsmith zoo launch, for zoo.c, which has their options. */
#ifndef GS_CMD_ZOO_LOAD_H
#define GS_CMD_ZOO_LOAD_H

#include "cmd.h"

typedef struct gs_zoo_load_asked {
    const char *on, *size;               /* NULL: cuda, and the size for loads */
    int64_t repeat, ms, rounds, seconds; /* repeat 0: as many as take `ms` */
    bool wait, json;
} gs_zoo_load_asked;

/* Both print what there is to say and return the exit code. */
int gs_zoo_load_command(const gs_command *command, const gs_zoo_load_asked *asked, const char *const *names,
                        size_t count);
int gs_zoo_launch_command(const gs_zoo_load_asked *asked);

#endif
