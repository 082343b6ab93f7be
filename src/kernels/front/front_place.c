/*
 * front_place.c: puts a folder with a libcuda.so.1 of this room in front of the driver, for the programs that this one
 * starts.
 */
#define _GNU_SOURCE
#include "front.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether a file is in this folder. */
static bool is_in(const char *path, const char *folder) {
    char *real = realpath(folder, NULL);
    size_t length = real ? strlen(real) : 0;
    bool is_there = real && strncmp(path, real, length) == 0 && path[length] == '/';
    free(real);
    return is_there;
}

/* Notes the path of the driver as the system finds it now, for the library that will be in front of it. The path is
   absolute, also if a folder of LD_LIBRARY_PATH is not: the program may be in another folder when it starts CUDA. The
   library itself, which an outer command has put in front, is no driver. */
static void name_driver(const char *folder) {
    struct link_map *map = NULL;
    const char *known = getenv(GS_FRONT_DRIVER);
    void *driver = known && known[0] ? NULL : dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    char *path = driver && dlinfo(driver, RTLD_DI_LINKMAP, &map) == 0 ? realpath(map->l_name, NULL) : NULL;
    if (path && !is_in(path, folder))
        setenv(GS_FRONT_DRIVER, path, 1);
    free(path);
}

bool gs_front_place(const char *folder) {
    const char *before = getenv("LD_LIBRARY_PATH");
    size_t size = strlen(folder) + (before ? strlen(before) : 0) + 2;
    char *path = malloc(size);
    if (!path)
        return false;
    name_driver(folder);
    snprintf(path, size, "%s%s%s", folder, before && before[0] ? ":" : "", before ? before : "");
    bool is_done = setenv("LD_LIBRARY_PATH", path, 1) == 0;
    free(path);
    return is_done;
}

bool gs_front_find(const char *const *places, size_t count, char *folder, size_t size) {
    char program[1024], path[1200];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash = length > 0 ? memrchr(program, '/', (size_t)length) : NULL;
    for (size_t i = 0; slash && i < count; i++) {
        snprintf(folder, size, "%.*s/%s", (int)(slash - program), program, places[i]);
        snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}
