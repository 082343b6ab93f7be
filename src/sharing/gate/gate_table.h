/*
 * gate_table.h: puts a function of this library in place of one that another library calls.
 */
#ifndef GS_GATE_TABLE_H
#define GS_GATE_TABLE_H

typedef void gs_table_function(void); /* any */

/* In a library that dlopen() has returned. */
void gs_table_replace(void *library, const char *name, gs_table_function *function);

#endif
