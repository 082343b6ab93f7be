/*
 * cmd.h: what the subcommands share: the option table, errors on standard error, GPUs by name.
 */
#ifndef GS_CMD_H
#define GS_CMD_H

#include "gpu/gpu.h"
#include "run/run.h"

/* ---- options: one table feeds the parser, the checks and the help ---- */

typedef enum gs_option_type {
    GS_OPTION_FLAG, /* bool */
    GS_OPTION_TEXT, /* const char * */
    GS_OPTION_INT,  /* int64_t, from least to most */
    GS_OPTION_LIST  /* gs_words: may be given several times */
} gs_option_type;

typedef struct gs_option {
    const char *name; /* without the dashes */
    char letter;      /* or 0 */
    gs_option_type type;
    size_t offset; /* in the command's own struct */
    const char *argument, *help;
    int64_t least, most;
    bool required;
} gs_option;

typedef struct gs_words {
    const char **data; /* not owned */
    size_t count, capacity;
} gs_words;

typedef struct gs_command {
    const char *name, *summary;
    const char *usage;   /* what stands after the name */
    const char *details; /* a paragraph or an example for the help */
    const gs_option *options;
    size_t option_count;
    int (*run)(const struct gs_command *command, int argc, char **argv);
} gs_command;

/* What parsing left to do. */
typedef enum gs_parsed { GS_PARSED, GS_PARSED_HELP, GS_PARSED_WRONG } gs_parsed;

/* Fills `into` and collects what is not an option in `files` (the caller frees files->data). Prints help, or what is
   wrong. */
gs_parsed gs_parse(const gs_command *command, int argc, char **argv, void *into, gs_words *files);

void gs_print_help(const gs_command *command, FILE *file);

/* ---- errors ---- */

/* Prints one line (and on a terminal the place with a caret) and returns the exit code. */
int gs_report(const gs_error *error);

/* Prints "gridsmith NAME: what is wrong" with a hint at --help; returns 2. */
int gs_usage(const gs_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- sources ---- */

struct gs_source;
/* Reads a CUDA source; `folder` is where it is. The caller frees `*text`, also where it fails, and the source. Reports
   what is wrong and returns the exit code. */
int gs_read_source(const char *path, char **text, char *folder, size_t size, struct gs_source *source, gs_error *error);

/* ---- GPUs ---- */

/* Which GPU, and which mechanisms, the command line asks for. */
typedef struct gs_gpu_choice {
    const char *name, *policy;
    gs_words settings; /* "mechanism=value" */
} gs_gpu_choice;

/* Opens the GPU of the command line, or else the one that `run` (may be NULL) names, which must be a built-in one: a
   file of runs does not open other files. The caller frees it. */
gs_gpu *gs_choose_gpu(const gs_gpu_choice *choice, const gs_run *run, gs_error *error);

/* Applies the policy and the settings of the command line to a GPU. */
gs_code gs_apply_choice(const gs_gpu_choice *choice, gs_gpu *gpu, gs_error *error);

/* The GPU for the runs of a file, one after the other: opened again only where a run names another. */
typedef struct gs_gpu_of_runs {
    gs_gpu *gpu;
    char *name;
} gs_gpu_of_runs;

const gs_gpu *gs_gpu_for(gs_gpu_of_runs *kept, const gs_gpu_choice *choice, const gs_run *run, gs_error *error);
void gs_gpu_of_runs_clear(gs_gpu_of_runs *kept);

/* The rows of an option table that fill in a gs_gpu_choice at `offset`. */
#define GS_GPU_OPTIONS(owner, field)                                                                                   \
    {.name = "gpu",                                                                                                    \
     .type = GS_OPTION_TEXT,                                                                                           \
     .offset = offsetof(owner, field.name),                                                                            \
     .argument = "NAME|FILE",                                                                                          \
     .help = "the GPU: a name from 'gridsmith gpus', or a description"},                                               \
        {.name = "policy",                                                                                             \
         .type = GS_OPTION_TEXT,                                                                                       \
         .offset = offsetof(owner, field.policy),                                                                      \
         .argument = "NAME",                                                                                           \
         .help = "paper, most-room or round-robin, in place of the GPU's mechanisms"},                                 \
    {                                                                                                                  \
        .name = "set", .type = GS_OPTION_LIST, .offset = offsetof(owner, field.settings),                              \
        .argument = "MECHANISM=VALUE", .help = "change one mechanism; may be repeated"                                 \
    }

extern const gs_command gs_command_predict, gs_command_check, gs_command_occupancy, gs_command_gpus, gs_command_fuzz,
    gs_command_replay, gs_command_shrink, gs_command_fit, gs_command_record, gs_command_probe, gs_command_bound,
    gs_command_reshape, gs_command_verify, gs_command_zoo, gs_command_serve, gs_command_status, gs_command_top;

#endif
