/*
 * include_search.h: the include folders of compilers, private to this room. See include_search.c.
 */
#ifndef GS_INCLUDE_SEARCH_H
#define GS_INCLUDE_SEARCH_H

#include "dependencies.h"
#include "sandbox.h"

/* Asks a compiler for its include folders for a language ("cuda", "c++"); `folder` precedes them and gets temporary
   files. The compiler itself becomes a dependency, and readable. */
gs_code gs_include_search_compiler(gs_dependencies *all, gs_readable *readable, const char *compiler,
                                   const char *language, const char *folder, gs_error *error);
/* A C compiler that reads no file of a source: it becomes a dependency, but its folders are not searched. */
gs_code gs_include_search_tool(gs_dependencies *all, gs_readable *readable, const char *compiler, const char *folder,
                               gs_error *error);
/* The same for NVRTC. Its library becomes a dependency if it is known. */
gs_code gs_include_search_nvrtc(gs_dependencies *all, gs_error *error);

#endif
