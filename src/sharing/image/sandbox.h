/*
 * sandbox.h: restrictions of a compiler process, private to this room. See sandbox.c.
 */
#ifndef GS_SANDBOX_H
#define GS_SANDBOX_H

#include "image.h"

/* Sets the limits of this process and its children. */
void gs_sandbox_limit(const gs_compiler_limits *limits);

/* Lowers the priority of this process. */
void gs_sandbox_lower_priority(void);

/* Folders and files that a compiler may read. */
typedef struct gs_readable {
    char **data;
    size_t count, capacity;
} gs_readable;

/* Adds a path, if it exists. False: out of memory. */
bool gs_readable_add(gs_readable *readable, const char *path);
/* Adds the paths that all compilers need: the folders of the system, of libraries, and of the toolkit. */
bool gs_readable_add_system(gs_readable *readable);

/* From now on this process reads only these files, writes only beneath `scratch`, has no network, and stays in its
   group. If the kernel lacks these features, it can do more. */
gs_code gs_sandbox_enter(const gs_readable *readable, const char *scratch, gs_error *error);

/* Memory and number of the processes of a group; memory that they share with others is not counted. False: they cannot
   be measured on this system. */
bool gs_sandbox_measure(pid_t group, uint64_t *bytes, uint32_t *processes);

#endif
