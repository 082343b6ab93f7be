/*
 * gate_table.h: puts functions of this library in place of those that other libraries call.
 */
#ifndef GS_GATE_TABLE_H
#define GS_GATE_TABLE_H

#include <link.h>
#include <stddef.h>

typedef void gs_table_function(void); /* any */

typedef struct gs_table_change {
    const char *name; /* of a function that is called */
    gs_table_function *function;
} gs_table_change;

/* In a library that is at this address, with this dynamic section. */
void gs_table_replace(ElfW(Addr) address, const ElfW(Dyn) * section, const gs_table_change *changes, size_t count);

#endif
