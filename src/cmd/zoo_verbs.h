/* zoo_verbs.h: the options of 'gridsmith zoo', and the verbs that are not in zoo.c. */
#ifndef GS_CMD_ZOO_VERBS_H
#define GS_CMD_ZOO_VERBS_H

#include "cmd.h"
#include "kernels/zoo/zoo.h"

typedef struct gs_zoo_options {
    gs_shard_choice keep;
    const char *measured;
    const char *form, *on, *size, *gpu;
    int64_t factor, registers, workers, task, stops, seed, seconds;
    int64_t repeat, ms, rounds; /* repeat 0: the default of the verb; for 'load' so many that they take `ms` */
    bool json, unlimited, wait;
} gs_zoo_options;

enum { GS_ZOO_APPLICATIONS = 32 }; /* the most that 'load' runs at a time */

/* Reports an unknown kernel; returns the exit code. */
int gs_zoo_unknown(const gs_command *command, const char *name);

/* A network of networks/ as a kernel of the zoo, for 'load'. GS_E_USAGE: there is none of this name. The caller closes
   it; closing another kernel does nothing. */
const gs_zoo_kernel *gs_zoo_network_open(const char *name, gs_error *error);
void gs_zoo_network_close(const gs_zoo_kernel *kernel);

gs_command_function gs_zoo_run_verb, gs_zoo_bench_verb, gs_zoo_load_verb, gs_zoo_launch_verb;

#endif
