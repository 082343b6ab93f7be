/*
 * include_scan.h: the names that a text includes, private to this room. See include_scan.c.
 */
#ifndef GS_INCLUDE_SCAN_H
#define GS_INCLUDE_SCAN_H

#include <stdbool.h>
#include <stddef.h>

enum gs_include_kind {
    GS_INCLUDE_PLAIN,    /* #include, #import, #embed, __has_include */
    GS_INCLUDE_NEXT,     /* #include_next, __has_include_next: also in folders after that of the includer */
    GS_INCLUDE_MACRO,    /* a string in a #define: a possible meaning of #include MACRO */
    GS_INCLUDE_COMPUTED, /* #include MACRO: the rest of the line */
    GS_INCLUDE_QUESTION, /* __has_include(MACRO): no name */
    GS_INCLUDE_DEFINE    /* the rest of a line with #define */
};

typedef struct gs_include {
    enum gs_include_kind kind;
    const char *name; /* not terminated */
    size_t length;
    bool is_quoted; /* otherwise in angle brackets */
    long line;
} gs_include;

typedef void (*gs_include_found)(void *context, const gs_include *include);

/* Calls `found` for each name. False: out of memory. */
bool gs_include_scan(const char *text, size_t size, gs_include_found found, void *context);

/* Whether the compiled text may depend on more than its includes: it uses __TIME__ or the like. */
bool gs_include_is_unstable(const char *text, size_t size);

#endif
