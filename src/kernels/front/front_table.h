/*
 * front_table.h: what front.cmake generates of driver_symbols.txt.
 */
#ifndef GS_FRONT_TABLE_H
#define GS_FRONT_TABLE_H

#include <stddef.h>

extern const char *const gs_front_symbols[]; /* what the driver exports */
extern const size_t gs_front_symbol_count;
extern void (*gs_front_table[])(void); /* where the jump of each goes */

#endif
