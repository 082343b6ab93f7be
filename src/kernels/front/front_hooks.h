/*
 * front_hooks.h: the hooks of the library that uses this room, for front_table.c.
 */
#ifndef GS_FRONT_HOOKS_H
#define GS_FRONT_HOOKS_H

#include "front.h"

/* Finds the real functions of all hooks. */
void gs_front_hooks_resolve(void);
/* The hook that replaces a function of the driver; NULL: none. */
gs_front_function *gs_front_hooks_find(const char *name);

#endif
