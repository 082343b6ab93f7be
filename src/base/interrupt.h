/* interrupt.h: cleaning up when a signal ends the program, for output.c, folder.c and progress.c only. */
#ifndef GS_INTERRUPT_H
#define GS_INTERRUPT_H

#include "base.h"

#include <stdarg.h>

/* Sets the file that a signal removes; NULL: none. The path is not copied. */
void gs_interrupt_removes(char *path);

/* Adds a folder that a signal removes by this function, unless there are too many, and takes it from the list. The path
   is not copied. Any thread may call these. */
void gs_interrupt_add_folder(const char *path, void (*remove_folder)(const char *));
void gs_interrupt_drop_folder(const char *path);

/* Sets the name of the current work: "placing blocks"; NULL: no long work. */
void gs_interrupt_says(const char *what);

/* Sets the progress of the work. `is_line_begun`: a line of progress is on the terminal. */
void gs_interrupt_note(bool is_line_begun, const char *format, va_list arguments);

#endif
