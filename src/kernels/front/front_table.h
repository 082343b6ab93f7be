/*
 * front_table.h: the tables that front.cmake generates from driver_symbols.txt.
 */
#ifndef GS_FRONT_TABLE_H
#define GS_FRONT_TABLE_H

#include <stddef.h>

extern const char *const gs_front_symbols[]; /* the exports of the driver */
extern const size_t gs_front_symbol_count;
extern void (*gs_front_table[])(void); /* the target of each jump */

#endif
