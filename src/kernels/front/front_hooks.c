/*
 * front_hooks.c: finds the hook of a function.
 *
 * Programs get functions by their exported names, or from cuGetProcAddress, which knows them by a name without a
 * version. So cuGetProcAddress is hooked here for all libraries: its result is compared with the driver's exported
 * functions, and the hook always has the right version. The CUDA runtime asks cuGetProcAddress for cuGetProcAddress
 * first, and that for everything else.
 */
#include "front_hooks.h"

#include <stdint.h>
#include <string.h>

static int (*real_cuGetProcAddress)(const char *, void **, int, uint64_t);
static int (*real_cuGetProcAddress_v2)(const char *, void **, int, uint64_t, int *);

/* Puts the hook in place of a real function. */
static void replace_function(void **function);

static int hook_cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    int result = real_cuGetProcAddress(name, function, version, flags);
    if (result == GS_CUDA_OK && function)
        replace_function(function);
    return result;
}

static int hook_cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    int result = real_cuGetProcAddress_v2(name, function, version, flags, status);
    if (result == GS_CUDA_OK && function)
        replace_function(function);
    return result;
}

static const gs_front_hook own[] = {
    {"cuGetProcAddress", (gs_front_function *)hook_cuGetProcAddress, &real_cuGetProcAddress, NULL, 0},
    {"cuGetProcAddress_v2", (gs_front_function *)hook_cuGetProcAddress_v2, &real_cuGetProcAddress_v2, NULL, 0},
};

enum { OWN = sizeof own / sizeof *own };

static size_t hook_count(void) {
    return OWN + gs_front_hooks.count;
}

static const gs_front_hook *hook_at(size_t i) {
    return i < OWN ? &own[i] : &gs_front_hooks.list[i - OWN];
}

static gs_front_function *real_of(const gs_front_hook *hook) {
    gs_front_function *real;
    memcpy(&real, hook->real, sizeof real);
    return real;
}

static bool is_used(size_t i) {
    return real_of(hook_at(i)) && (i < OWN || !gs_front_hooks.is_needed || gs_front_hooks.is_needed(hook_at(i)));
}

static void replace_function(void **function) {
    gs_front_function *real;
    memcpy(&real, function, sizeof real);
    for (size_t i = 0; real && i < hook_count(); i++)
        if (real_of(hook_at(i)) == real && is_used(i))
            memcpy(function, &hook_at(i)->hook, sizeof hook_at(i)->hook);
}

void gs_front_find_real(const char *name, void *function) {
    gs_front_function *found = gs_front_driver_symbol(name);
    memcpy(function, &found, sizeof found);
}

void gs_front_hooks_resolve(void) {
    for (size_t i = 0; i < hook_count(); i++)
        gs_front_find_real(hook_at(i)->name, hook_at(i)->real);
}

gs_front_function *gs_front_hooks_find(const char *name) {
    for (size_t i = 0; i < hook_count(); i++)
        if (strcmp(hook_at(i)->name, name) == 0 && is_used(i))
            return hook_at(i)->hook;
    return NULL;
}
