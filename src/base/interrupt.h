/* interrupt.h: cleaning up when a signal ends the program, for output.c and progress.c only. */
#ifndef GS_INTERRUPT_H
#define GS_INTERRUPT_H

#include "base.h"

#include <stdarg.h>

/* Sets the file that a signal removes; NULL: none. The path is not copied. */
void gs_interrupt_removes(char *path);

/* Sets the name of the current work: "placing blocks"; NULL: no long work. */
void gs_interrupt_says(const char *what);

/* Sets the progress of the work. `is_line_begun`: a line of progress is on the terminal. */
void gs_interrupt_note(bool is_line_begun, const char *format, va_list arguments);

#endif
