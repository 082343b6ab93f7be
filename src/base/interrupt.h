/* interrupt.h: what happens when a signal ends the program, for output.c and progress.c only. */
#ifndef GS_INTERRUPT_H
#define GS_INTERRUPT_H

#include "base.h"

#include <stdarg.h>

/* This file is to be removed; NULL: none. The path stays where it is. */
void gs_interrupt_removes(char *path);

/* What the program does: "placing blocks"; NULL: nothing that takes long. */
void gs_interrupt_says(const char *what);

/* How far it has come. `is_line_begun`: a line of progress is on the terminal. */
void gs_interrupt_note(bool is_line_begun, const char *format, va_list arguments);

#endif
