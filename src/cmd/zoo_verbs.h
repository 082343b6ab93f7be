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
    int64_t repeat, ms, rounds; /* repeat 0: the default of the verb; for 'load' as needed to take `ms` */
    bool json, unlimited, wait;
} gs_zoo_options;

enum { GS_ZOO_APPLICATIONS = 32 }; /* the most that 'load' runs at a time */

/* Reports an unknown kernel; returns the exit code. */
int gs_zoo_unknown(const gs_command *command, const char *name);

/* ---- networks as kernels of the zoo (zoo_network.c) ---- */

struct gs_network;

/* A network of networks/, or one that was read, which belongs to the kernel then. GS_E_USAGE: there is none of this
   name. The caller closes it; closing another kernel does nothing. */
const gs_zoo_kernel *gs_zoo_network_open(const char *name, gs_error *error);
const gs_zoo_kernel *gs_zoo_network_of(const struct gs_network *network, gs_error *error);
void gs_zoo_network_close(const gs_zoo_kernel *kernel);

/* ---- kernels of files as kernels of the zoo (zoo_file.c) ---- */

/* The kernel `name` of a file of PTX or CUDA C++, with a launch (gridsmith.launch/1). The caller closes it. The other
   functions are for such kernels. */
const gs_zoo_kernel *gs_zoo_file_open(const char *file, const char *name, const char *launch, gs_error *error);
void gs_zoo_file_close(const gs_zoo_kernel *kernel);
/* Whether it was opened with these. */
bool gs_zoo_file_is(const gs_zoo_kernel *kernel, const char *file, const char *name, const char *launch);
int64_t gs_zoo_file_blocks(const gs_zoo_kernel *kernel); /* of its launch */
/* Its PTX, and the symbol of the kernel there; both belong to it. */
const char *gs_zoo_file_ptx(const gs_zoo_kernel *kernel, const char **symbol);

/* ---- applications (zoo_task.c) ---- */

/* What 'load' keeps a GPU busy with. */
typedef struct gs_zoo_application {
    gs_zoo_task task;
    bool uses_blas;  /* tgemm is a product of cuBLAS */
    bool is_of_file; /* `text` is JSON: a task or a network */
    int64_t at_ns;   /* when it begins in a round */
    char *text;      /* or the word */
    struct {
        const gs_zoo_kernel **data;
        size_t count, capacity;
    } files; /* kernels of users' files */
} gs_zoo_application;

typedef struct gs_zoo_applications {
    gs_zoo_application *data;
    size_t count, capacity;
} gs_zoo_applications;

/* Cuts "/cublas" out of "NAME/cublas", "NAME/cublas:REPEAT" or "FILE/cublas". False: it is not there. */
bool gs_zoo_cut_blas(char *word);
/* Adds the application of "NAME" or "NAME:REPEAT", or those of a file of tasks and networks; each also with "/cublas".
   `size` is the name of a size; NULL: the one for loads, and large for files. The caller frees the list, also after an
   error.
 */
gs_code gs_zoo_applications_add(gs_zoo_applications *list, const char *word, const char *size, gs_error *error);
void gs_zoo_applications_free(gs_zoo_applications *list);

gs_command_function gs_zoo_run_verb, gs_zoo_bench_verb, gs_zoo_load_verb, gs_zoo_launch_verb;

#endif
