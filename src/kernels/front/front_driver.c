/*
 * front_driver.c: the real driver behind this library.
 *
 * GS_FRONT_DRIVER has its path. Without that the usual folders are tried. It is opened by its path: a name without a
 * folder would find this library again. A file that is this library itself is skipped.
 */
#define _GNU_SOURCE
#include "front.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void *driver;

#if defined(__aarch64__)
#    define MACHINE "aarch64-linux-gnu"
#else
#    define MACHINE "x86_64-linux-gnu"
#endif

static const char *const folders[] = {
    "/usr/local/cuda/compat", "/usr/lib/" MACHINE,       "/lib/" MACHINE,         "/usr/lib64", "/usr/lib",
    "/usr/lib/wsl/lib",       "/usr/local/nvidia/lib64", "/run/opengl-driver/lib"};

static bool is_this_library(const char *path) {
    Dl_info self;
    struct stat own, other;
    return dladdr(folders, &self) && stat(self.dli_fname, &own) == 0 && stat(path, &other) == 0 &&
           own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

static void *open_path(const char *path) {
    return is_this_library(path) ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *open_in(const char *folder, size_t length) {
    char path[1024];
    snprintf(path, sizeof path, "%.*s/libcuda.so.1", (int)length, folder);
    return length && folder[0] == '/' ? open_path(path) : NULL;
}

/* In the folders of LD_LIBRARY_PATH. */
static void *open_listed(const char *list) {
    void *found = NULL;
    while (list && *list && !found) {
        size_t length = strcspn(list, ":");
        found = open_in(list, length);
        list += length + (list[length] == ':');
    }
    return found;
}

static void *open_driver(void) {
    const char *named = getenv(GS_FRONT_DRIVER);
    void *found = named && named[0] == '/' ? open_path(named) : NULL;
    if (!found)
        found = open_listed(getenv("LD_LIBRARY_PATH"));
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !found; i++)
        found = open_in(folders[i], strlen(folders[i]));
    return found;
}

gs_front_function *gs_front_driver_symbol(const char *name) {
    void *found = driver ? dlsym(driver, name) : NULL;
    gs_front_function *function;
    memcpy(&function, &found, sizeof function);
    return function;
}

bool gs_front_driver_open(void) {
    driver = open_driver();
    return driver != NULL;
}

void *gs_front_driver_handle(void) {
    return driver;
}
