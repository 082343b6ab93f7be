/*
 * include_macro.h: names of files that macros put together, private to this room. See include_macro.c.
 */
#ifndef GS_INCLUDE_MACRO_H
#define GS_INCLUDE_MACRO_H

#include "base/base.h"

/* A list of texts. */
typedef struct gs_include_names {
    char **data;
    size_t count, capacity;
} gs_include_names;

/* The name in `text`, which is what follows #include. `definitions`: what follows each #define, in order. False: it is
   not a name. */
bool gs_include_expand(const gs_include_names *definitions, const char *text, gs_text *name, bool *is_quoted);

#endif
