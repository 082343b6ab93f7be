/*
 * runtime.h: functions of the driver, found as the CUDA runtime finds them.
 *
 * The runtime takes cuGetProcAddress_v2 by its exported name. It asks that for cuGetProcAddress, of version 11030 and
 * of 12000, and what it gets for the latter it asks for all other functions, by names without a version.
 */
#ifndef RUNTIME_H
#define RUNTIME_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int runtime_get(const char *name, void **function, int version, uint64_t flags, int *status);

/* NULL: the driver does not have it. */
static inline runtime_get *runtime_get_in(void *driver) {
    void *exported = dlsym(driver, "cuGetProcAddress_v2"), *old = NULL, *given = NULL;
    runtime_get *get;
    memcpy(&get, &exported, sizeof get);
    if (!get || get("cuGetProcAddress", &old, 11030, 0, NULL) || get("cuGetProcAddress", &given, 12000, 0, NULL))
        return NULL;
    memcpy(&get, &given, sizeof get);
    return get;
}

/* The function of an exported name, for example cuMemAlloc_v2 or cuLaunchKernel_ptsz; NULL: the driver does not have
   it. */
static inline void *runtime_function(void *driver, const char *exported) {
    enum { PER_THREAD = 2 };
    runtime_get *get = runtime_get_in(driver);
    char name[80];
    snprintf(name, sizeof name, "%s", exported);
    char *ending = strstr(name, "_pt");
    uint64_t flags = ending ? PER_THREAD : 0;
    if (ending)
        *ending = 0;
    ending = strstr(name, "_v");
    if (ending)
        *ending = 0;
    void *found = NULL;
    return get && get(name, &found, 13000, flags, NULL) == 0 ? found : NULL;
}

#endif
