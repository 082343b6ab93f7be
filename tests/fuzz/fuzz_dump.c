/*
 * fuzz_dump.c: any bytes as a core dump of a GPU. Where the warps are is looked for in what is read.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "lab/dump/dump.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void use_dump(const char *path) {
    gs_dump dump;
    gs_dump_places places = {0};
    gs_error error = {.code = GS_OK};
    if (gs_dump_read(&dump, path, &error) == GS_OK)
        gs_dump_find_places(&dump, &places, &error);
    gs_dump_places_free(&places);
    gs_dump_free(&dump);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[40];
    int file = memfd_create("dump", 0);
    if (file >= 0 && write(file, data, size) == (ssize_t)size) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        use_dump(path);
    }
    if (file >= 0)
        close(file);
    return 0;
}
