/*
 * include_search.h: where compilers look for included files, for this room alone. See include_search.c.
 */
#ifndef GS_INCLUDE_SEARCH_H
#define GS_INCLUDE_SEARCH_H

#include "dependencies.h"
#include "sandbox.h"

/* Asks a compiler where it looks for a language ("cuda", "c++"), besides `folder`, which has a higher priority and gets
   temporary files. The compiler itself becomes a dependency, and readable. */
gs_code gs_include_search_compiler(gs_dependencies *all, gs_readable *readable, const char *compiler,
                                   const char *language, const char *folder, gs_error *error);
/* A C compiler that reads nothing that comes from a source: it becomes a dependency, but it is not searched. */
gs_code gs_include_search_tool(gs_dependencies *all, gs_readable *readable, const char *compiler, const char *folder,
                               gs_error *error);
/* The same of NVRTC. Its library becomes a dependency when it is known. */
gs_code gs_include_search_nvrtc(gs_dependencies *all, gs_error *error);

#endif
