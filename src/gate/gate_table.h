/*
 * gate_table.h: what gate.cmake generates of driver_symbols.txt.
 */
#ifndef GS_GATE_TABLE_H
#define GS_GATE_TABLE_H

#include <stddef.h>

extern const char *const gs_gate_symbols[]; /* what the driver exports */
extern const size_t gs_gate_symbol_count;
extern void (*gs_gate_table[])(void); /* where the jump of each goes */

#endif
