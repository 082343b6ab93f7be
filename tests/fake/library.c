/*
 * library.c: kernels of users, neither probe nor timed kernels, for the fake driver: a shared library that runs
 * them on the CPU.
 *
 * Device memory is memory of this process, so the driver can copy what a kernel writes.
 */
#define _GNU_SOURCE
#include "fake.h"
#include "kernels/cpu/cpu.h"

#include "kernels/cpu/runtime/gridsmith_run.h"
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int (*launch_function)(int, const uint32_t *, const uint32_t *, size_t, uint32_t, void **);

struct fake_library {
    void *handle;
    const gs_kernel *kernels;
    int count;
    launch_function launch;
};

/* The file exists only while it is open. */
static void *load(const char *bytes, size_t count) {
    char path[64] = "/tmp/gridsmith-fake-XXXXXX";
    int file = mkstemp(path);
    bool written = file >= 0 && write(file, bytes, count) == (ssize_t)count;
    void *handle = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (file >= 0) {
        close(file);
        unlink(path);
    }
    return handle;
}

fake_library *fake_library_load(const void *image) {
    const char *text = (const char *)image + strlen(FAKE_LIBRARY);
    fake_library *library = calloc(1, sizeof *library);
    char *bytes;
    size_t count = strtoul(text, &bytes, 10);
    library->handle = load(bytes + 1, count);
    if (!library->handle) {
        free(library);
        return NULL;
    }
    void *launch = dlsym(library->handle, "gs_host_launch");
    library->kernels = dlsym(library->handle, "gs_kernels");
    library->count = *(const int *)dlsym(library->handle, "gs_kernel_count");
    memcpy(&library->launch, &launch, sizeof launch);
    return library;
}

/* What a driver does with PTX: it compiles it, here for the CPU. */
fake_library *fake_library_compile(const char *ptx) {
    gs_build build = {.name = "ptx", .text = ptx, .size = strlen(ptx), .as_library = true};
    gs_text image = {0};
    char path[300], *bytes = NULL;
    size_t count = 0;
    gs_host *host = gs_host_open(NULL);
    gs_module *made = host ? gs_host_compile(host, &build, NULL) : NULL;
    bool is_made =
        made && gs_module_wait(made, NULL) == GS_OK &&
        gs_input_all(gs_module_path(made, path, sizeof path), (size_t)64 << 20, &bytes, &count, NULL) == GS_OK;
    gs_text_add(&image, "%s%zu\n", FAKE_LIBRARY, count);
    gs_text_put(&image, is_made ? bytes : "", count);
    fake_library *library = is_made && !image.failed ? fake_library_load(image.data) : NULL;
    gs_host_close(host);
    gs_text_free(&image);
    free(bytes);
    return library;
}

void fake_library_launch(const fake_library *library, int kernel, const cu_launch *call, uint32_t sms,
                         void **arguments) {
    const uint32_t grid[3] = {call->grid_x, call->grid_y, call->grid_z};
    const uint32_t block[3] = {call->block_x, call->block_y, call->block_z};
    library->launch(kernel, grid, block, call->shared_bytes, sms, arguments);
}

void fake_library_free(fake_library *library) {
    if (library)
        dlclose(library->handle);
    free(library);
}

int fake_library_find(const fake_library *library, const char *kernel) {
    for (int i = 0; i < library->count; i++)
        if (strcmp(library->kernels[i].name, kernel) == 0)
            return i;
    return -1;
}

uint32_t fake_library_sizes(const fake_library *library, int kernel, const unsigned **sizes) {
    *sizes = library->kernels[kernel].sizes;
    return library->kernels[kernel].parameters;
}
