/*
 * dependencies.h: the files that the image of a source depends on, for this room alone. See dependencies.c.
 */
#ifndef GS_DEPENDENCIES_H
#define GS_DEPENDENCIES_H

#include "base/base.h"

enum gs_dependency_kind {
    GS_DEPENDENCY_FILE,   /* a file with these contents */
    GS_DEPENDENCY_ABSENT, /* there is no file */
    GS_DEPENDENCY_TOOL    /* a compiler: its size and time say whether it is the same */
};

/* As it stands in an image. */
typedef struct gs_dependency {
    uint32_t kind; /* enum gs_dependency_kind */
    uint32_t path; /* where its path begins in the paths of the image; absolute */
    uint64_t device, inode, bytes;
    int64_t modified_ns, changed_ns;
    uint32_t has_times;  /* FILE: while the numbers above are the same, so are the contents */
    uint32_t has_digest; /* FILE; without it has_times is set */
    unsigned char digest[32];
} gs_dependency;

/* Whether it is as it was. Reads the file if its times differ. */
bool gs_dependency_holds(const gs_dependency *dependency, const char *path);

/* Where a compiler looks for included files, in order. */
typedef struct gs_include_search {
    char **data;
    size_t count, capacity;
} gs_include_search;

/* A file that was found, or looked for in vain. */
typedef struct gs_found {
    char *path;
    gs_dependency dependency;
    bool is_own;    /* in a folder of the compiler process itself: no dependency of the image */
    bool is_system; /* a header of the compiler or the system */
} gs_found;

typedef struct gs_dependencies {
    gs_found *data;
    size_t count, capacity;
    gs_names names; /* path to number */
    uint64_t bytes; /* of all files */
    uint64_t files;
    int64_t began_ns;   /* CLOCK_REALTIME */
    bool is_incomplete; /* some dependency cannot be found by reading: the image must not be kept */
    const char *own;    /* folder */
    gs_include_search search;
    struct gs_macro_names { /* strings in macros: what `#include MACRO` could mean */
        char **data;
        size_t count, capacity;
    } macro_names;
} gs_dependencies;

/* Adds what a text includes, and what that includes, and so on. `folder`: of the text, where "quoted" names are looked
   for first. GS_E_KERNEL: it includes what no source may include. */
gs_code gs_dependencies_add_text(gs_dependencies *all, const char *name, const char *text, size_t size,
                                 const char *folder, gs_error *error);
/* Options ("-DNAME=VALUE") may have names of files, too. */
gs_code gs_dependencies_add_option(gs_dependencies *all, const char *option, gs_error *error);
/* Adds a compiler: its program, or its library. */
gs_code gs_dependencies_add_tool(gs_dependencies *all, const char *path, gs_error *error);
/* Whether all of them are as they were. */
bool gs_dependencies_hold(const gs_dependencies *all);

#endif
