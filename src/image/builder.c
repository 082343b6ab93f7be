/*
 * builder.c: builds by NVRTC side by side: in one process it does one after the other, so each has a process.
 *
 * A process is a fork of the compiler process, before that has loaded NVRTC, and leaves in a piece of memory: the code
 * and the error, the sizes, the costs and the symbols of the kernels, and the image.
 */
#define _GNU_SOURCE
#include "builder.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct head {
    gs_error error;
    uint64_t count, symbol_bytes, image_bytes;
    char library[300];
};

/* ---- in the process ---- */

static void pack(gs_text *into, const gs_nvrtc_built *built, const gs_error *error) {
    struct head head = {.error = *error, .count = built->count, .image_bytes = built->bytes};
    snprintf(head.library, sizeof head.library, "%s", built->library);
    for (size_t i = 0; i < built->count; i++)
        head.symbol_bytes += strlen(built->symbols[i]) + 1;
    gs_text_put(into, (const char *)&head, sizeof head);
    if (error->code != GS_OK)
        return;
    gs_text_put(into, (const char *)built->costs, built->count * sizeof *built->costs);
    for (size_t i = 0; i < built->count; i++)
        gs_text_put(into, built->symbols[i], strlen(built->symbols[i]) + 1);
    gs_text_put(into, built->image, built->bytes);
}

static bool put_all(int fd, const char *bytes, size_t count) {
    while (count) {
        ssize_t put = write(fd, bytes, count);
        if (put <= 0)
            return false;
        bytes += put;
        count -= (size_t)put;
    }
    return true;
}

__attribute__((noreturn)) static void build_and_exit(const gs_build *build, int architecture, int result) {
    gs_nvrtc_built built = {.count = 0};
    gs_error error = {.code = GS_OK};
    gs_text packed = {0};
    error.code = gs_nvrtc_build(build, architecture, &built, &error);
    pack(&packed, &built, &error);
    _exit(packed.failed || !put_all(result, packed.data, packed.count));
}

/* ---- in the compiler process ---- */

gs_code gs_builder_start(gs_builder *builder, const gs_build *build, int architecture, gs_error *error) {
    pid_t compiler = getpid();
    builder->result = memfd_create("built", MFD_CLOEXEC);
    if (builder->result < 0)
        return gs_fail_system(error, "make", "memory for what is built");
    builder->process = fork();
    if (builder->process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == compiler)
            build_and_exit(build, architecture, builder->result);
        _exit(1);
    }
    if (builder->process > 0)
        return GS_OK;
    close(builder->result);
    builder->process = 0;
    return gs_fail_system(error, "start", "a compiler");
}

static gs_code unpack(const char *bytes, size_t size, gs_nvrtc_built *built, gs_error *error) {
    struct head head;
    if (size < sizeof head)
        return gs_fail(error, GS_E_IO, "the compiler left nothing");
    memcpy(&head, bytes, sizeof head);
    if (head.error.code != GS_OK) {
        *error = head.error;
        return head.error.code;
    }
    size_t cost_bytes = head.count * sizeof *built->costs;
    const char *symbol = bytes + sizeof head + cost_bytes, *image = symbol + head.symbol_bytes;
    if (size != sizeof head + cost_bytes + head.symbol_bytes + head.image_bytes)
        return gs_fail(error, GS_E_IO, "what the compiler left is cut short");
    *built = (gs_nvrtc_built){.image = malloc(head.image_bytes + 1),
                              .bytes = head.image_bytes,
                              .symbols = calloc(head.count + 1, sizeof *built->symbols),
                              .costs = calloc(head.count + 1, sizeof *built->costs)};
    bool is_well = built->image && built->symbols && built->costs;
    for (; is_well && built->count < head.count; built->count++, symbol += strlen(symbol) + 1)
        is_well = (built->symbols[built->count] = strdup(symbol)) != NULL;
    if (!is_well) {
        gs_nvrtc_built_free(built);
        return gs_fail_memory(error);
    }
    memcpy(built->library, head.library, sizeof built->library);
    memcpy(built->costs, bytes + sizeof head, cost_bytes);
    memcpy(built->image, image, head.image_bytes);
    return GS_OK;
}

gs_code gs_builder_finish(gs_builder *builder, gs_nvrtc_built *built, gs_error *error) {
    int status = 0;
    struct stat about = {.st_size = 0};
    pid_t ended = waitpid(builder->process, &status, 0);
    builder->process = 0;
    if (ended < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0 || fstat(builder->result, &about) != 0) {
        close(builder->result);
        return gs_fail(error, GS_E_KERNEL, "the compiler crashed");
    }
    char *bytes = about.st_size ? mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, builder->result, 0) : NULL;
    gs_code code = bytes == MAP_FAILED ? gs_fail_memory(error) : unpack(bytes, (size_t)about.st_size, built, error);
    if (bytes && bytes != MAP_FAILED)
        munmap(bytes, (size_t)about.st_size);
    close(builder->result);
    return code;
}
