/*
 * cupti_open.c: finds CUPTI and fills the table of its functions.
 *
 * A process can use only one CUPTI. PyTorch includes one, loaded before the driver starts, so a loaded copy comes
 * first. Then come the one found by the loader, the toolkit's, and one beside the CUDA libraries of Python packages:
 * .../nvidia/cu13/lib, .../nvidia/cuda_cupti/lib.
 */
#define _GNU_SOURCE
#include "cupti.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
enum { NAMES = 3, PATH = 4096 };

static void *open_loaded(void) {
    void *found = NULL;
    for (int i = 0; i < NAMES && !found; i++)
        found = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
    return found;
}

/* folder: "" lets the loader search. */
static void *open_in(const char *folder, const char *below) {
    char path[PATH + 64];
    void *found = NULL;
    for (int i = 0; i < NAMES && !found; i++) {
        int length = snprintf(path, sizeof path, "%s%s%s%s", folder, below, *folder ? "/" : "", names[i]);
        if (length < (int)sizeof path)
            found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return found;
}

static void *open_toolkit(void) {
    const char *folders[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda", "/opt/cuda"};
    static const char *const below[] = {"/lib64", "/extras/CUPTI/lib64", "/lib"};
    void *found = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && !found; i++)
        for (size_t k = 0; k < sizeof below / sizeof below[0] && !found && folders[i] && *folders[i]; k++)
            found = open_in(folders[i], below[k]);
    return found;
}

/* A library that the program has loaded from .../nvidia/PACKAGE/lib: CUPTI may be in the package or in another. */
static int look_beside(struct dl_phdr_info *library, size_t size, void *result) {
    static const char *const packages[] = {"/cu13/lib", "/cuda_cupti/lib", "/cu12/lib"};
    const char *found = strstr(library->dlpi_name, "/nvidia/");
    char folder[PATH];
    void **cupti = result;
    (void)size;
    if (!found || found - library->dlpi_name > PATH - 64)
        return 0;
    snprintf(folder, sizeof folder, "%.*s/nvidia", (int)(found - library->dlpi_name), library->dlpi_name);
    for (size_t i = 0; i < sizeof packages / sizeof packages[0] && !*cupti; i++)
        *cupti = open_in(folder, packages[i]);
    return *cupti != NULL;
}

static void *open_library(const char *path, char *problem, size_t size) {
    if (path) {
        void *found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!found)
            snprintf(problem, size, "CUPTI cannot be opened: %s", dlerror());
        return found;
    }
    void *found = open_loaded();
    if (!found)
        found = open_in("", "");
    if (!found)
        found = open_toolkit();
    if (!found)
        dl_iterate_phdr(look_beside, &found);
    if (!found)
        snprintf(problem, size,
                 "no CUPTI (libcupti.so.12 or .13) was found: it comes with the CUDA toolkit and with PyTorch; "
                 "name it with --cupti, or record without it: --through driver");
    return found;
}

#define FILL(name, symbol, arguments) {offsetof(cupti_api, name), #symbol},
bool gs_cupti_open(cupti_api *api, const char *path, char *problem, size_t size) {
    static const struct {
        size_t offset;
        const char *symbol;
    } symbols[] = {CUPTI_SYMBOLS(FILL)};
    *api = (cupti_api){.library = open_library(path, problem, size)};
    if (!api->library)
        return false;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(api->library, symbols[i].symbol);
        if (!found) {
            snprintf(problem, size, "CUPTI is too old: it lacks %s; version 12.0 or later is needed",
                     symbols[i].symbol);
            return false;
        }
        memcpy((char *)api + symbols[i].offset, &found, sizeof found);
    }
    return true;
}
