/*
 * ptx_command.h: runs a compiler in a folder of its own, for a limited time. Inside of this room.
 */
#ifndef GS_PTX_COMMAND_H
#define GS_PTX_COMMAND_H

#include "base/base.h"

/* A new folder for temporary files, or NULL. The caller frees the name, after gs_ptx_folder_remove. */
char *gs_ptx_folder_make(gs_error *error);
void gs_ptx_folder_remove(const char *folder);
gs_code gs_ptx_folder_write(const char *folder, const char *name, const char *bytes, size_t count, gs_error *error);
/* A file of the folder, or NULL: there is none, or no memory. The caller frees it. */
char *gs_ptx_folder_read(const char *folder, const char *name, size_t most);

typedef struct gs_ptx_command {
    const char *const *words; /* ending in NULL; the first is looked for in PATH */
    const char *folder;       /* where its temporary files and its output, "log", go */
    int seconds;              /* time limit */
    bool stays_in_group;      /* it gets no process group of its own */
    int signal;               /* afterwards: what ended it; 0: nothing */
} gs_ptx_command;

typedef enum gs_ptx_end { GS_PTX_DONE, GS_PTX_FAILED, GS_PTX_LATE, GS_PTX_NOT_FOUND } gs_ptx_end;

/* Runs the command. After the time limit it is killed, with all that it started. */
gs_ptx_end gs_ptx_command_run(gs_ptx_command *command);

#endif
