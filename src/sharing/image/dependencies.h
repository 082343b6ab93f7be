/*
 * dependencies.h: the files that the image of a source depends on, private to this room. See dependencies.c.
 */
#ifndef GS_DEPENDENCIES_H
#define GS_DEPENDENCIES_H

#include "include_macro.h"

enum gs_dependency_kind {
    GS_DEPENDENCY_FILE,   /* a file with these contents */
    GS_DEPENDENCY_ABSENT, /* there is no file */
    GS_DEPENDENCY_TOOL    /* a compiler, identified by its size and time */
};

/* As stored in an image. */
typedef struct gs_dependency {
    uint32_t kind; /* enum gs_dependency_kind */
    uint32_t path; /* offset of its absolute path in the paths of the image */
    uint64_t device, inode, bytes;
    int64_t modified_ns, changed_ns;
    uint32_t has_times;  /* FILE: while the numbers above are the same, so are the contents */
    uint32_t has_digest; /* FILE; without it has_times is set */
    unsigned char digest[32];
} gs_dependency;

/* Whether it is unchanged. Reads the file if its times differ. */
bool gs_dependency_holds(const gs_dependency *dependency, const char *path);

/* The include folders of a compiler, in order. */
typedef struct gs_include_search {
    char **data;
    size_t count, capacity;
} gs_include_search;

/* A path: a file, or none. */
typedef struct gs_found {
    char *path;
    gs_dependency dependency;
    bool is_own;    /* in a folder of the compiler process itself: not a dependency of the image */
    bool is_system; /* a header of the compiler or the system */
} gs_found;

typedef struct gs_dependencies {
    gs_found *data;
    size_t count, capacity;
    gs_names names; /* path to number */
    uint64_t bytes; /* of all files */
    uint64_t files;
    int64_t began_ns;   /* CLOCK_REALTIME */
    bool is_incomplete; /* a dependency cannot be found by reading: the image must not be kept */
    const char *own;    /* folder */
    gs_include_search search;
    gs_include_names macro_names; /* strings in macros: possible meanings of `#include MACRO` */
    gs_include_names definitions; /* macros, */
    gs_include_names computed;    /* and what follows `#include` where that is not a name */
} gs_dependencies;

/* Adds all files that a text includes, directly or indirectly. `folder`: of the text, where "quoted" names are searched
   first. GS_E_KERNEL: it includes a file that is not allowed. */
gs_code gs_dependencies_add_text(gs_dependencies *all, const char *name, const char *text, size_t size,
                                 const char *folder, gs_error *error);
/* Options ("-DNAME=VALUE") may contain names of files, too. */
gs_code gs_dependencies_add_option(gs_dependencies *all, const char *option, gs_error *error);
/* Adds a compiler: its program, or its library. */
gs_code gs_dependencies_add_tool(gs_dependencies *all, const char *path, gs_error *error);
/* Whether all of them are unchanged. */
bool gs_dependencies_hold(const gs_dependencies *all);

#endif
