/*
 * assembler.c: PTX to machine code by nvJitLink, a library of the CUDA toolkit that is opened at run time. It needs no
 * GPU. Without it, the driver of a GPU compiles PTX when it loads it.
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_PTX = 2, MOST_OPTIONS = 4 };

typedef void *link_handle;

#define LINK_SYMBOLS(X)                                                                                                \
    X(create, nvJitLinkCreate, (link_handle *, uint32_t, const char **))                                               \
    X(destroy, nvJitLinkDestroy, (link_handle *))                                                                      \
    X(add, nvJitLinkAddData, (link_handle, int, const void *, size_t, const char *))                                   \
    X(complete, nvJitLinkComplete, (link_handle))                                                                      \
    X(image_size, nvJitLinkGetLinkedCubinSize, (link_handle, size_t *))                                                \
    X(image, nvJitLinkGetLinkedCubin, (link_handle, void *))                                                           \
    X(error_size, nvJitLinkGetErrorLogSize, (link_handle, size_t *))                                                   \
    X(error_text, nvJitLinkGetErrorLog, (link_handle, char *))                                                         \
    X(info_size, nvJitLinkGetInfoLogSize, (link_handle, size_t *))                                                     \
    X(info_text, nvJitLinkGetInfoLog, (link_handle, char *))

#define LINK_POINTER(name, symbol, arguments) int(*name) arguments;
struct linker {
    void *library;
    LINK_SYMBOLS(LINK_POINTER)
};

#define FIND(name, symbol, arguments)                                                                                  \
    found = dlsym(linker->library, #symbol);                                                                           \
    memcpy(&linker->name, &found, sizeof found);                                                                       \
    is_whole = is_whole && found;

/* It stays open: closing it costs more than it holds. */
static bool open_linker(struct linker *linker) {
    static const char *const names[] = {"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so",
                                        "/usr/local/cuda/lib64/libnvJitLink.so"};
    void *found;
    bool is_whole = true;
    *linker = (struct linker){.library = NULL};
    for (size_t i = 0; i < GS_COUNT(names) && !linker->library; i++)
        linker->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!linker->library)
        return false;
    LINK_SYMBOLS(FIND)
    return is_whole;
}

bool gs_cubin_has_assembler(void) {
    struct linker linker;
    return open_linker(&linker);
}

/* The log of a link that ended, which the caller frees; or NULL. */
static char *read_log(link_handle link, int (*get_size)(link_handle, size_t *), int (*get)(link_handle, char *)) {
    size_t size = 0;
    char *log = get_size(link, &size) == 0 && size ? calloc(1, size + 1) : NULL;
    if (log)
        get(link, log);
    return log;
}

/* ---- what ptxas says ---- */

/* The number right before the first `words` after `from`. */
static int number_before(const char *from, const char *words) {
    const char *at = from ? strstr(from, words) : NULL;
    while (at && at > from && (at[-1] == ' ' || (at[-1] >= '0' && at[-1] <= '9')))
        at--;
    return at ? atoi(at) : 0;
}

/* ptxas writes "Compiling entry function 'NAME'", then its spills and registers. */
gs_cost gs_ptxas_cost(const char *log, const char *symbol) {
    gs_text wanted = {0};
    gs_cost cost = {0};
    gs_text_add(&wanted, "entry function '%s'", symbol);
    const char *at = log && wanted.data ? strstr(log, wanted.data) : NULL;
    const char *used = at ? strstr(at, "Used ") : NULL;
    if (used) {
        cost.local_bytes = number_before(at, " bytes stack frame");
        cost.spill_stores = number_before(at, " bytes spill stores");
        cost.spill_loads = number_before(at, " bytes spill loads");
        cost.registers = atoi(used + strlen("Used "));
        const char *end = strchr(used, '\n'), *shared = strstr(used, " bytes smem");
        if (shared && (!end || shared < end))
            cost.shared_bytes = number_before(used, " bytes smem");
    }
    gs_text_free(&wanted);
    return cost;
}

/* ---- assembling ---- */

/* ptxas reports "ptxas NAME, line 12; error : message". */
static gs_code fail(const struct linker *linker, link_handle link, const gs_build *build, gs_error *error) {
    char *log = read_log(link, linker->error_size, linker->error_text);
    const char *words = log ? strstr(log, "error") : NULL, *line = log ? strstr(log, ", line ") : NULL;
    words = words ? words : log ? log : "no reason given";
    gs_fail(error, GS_E_KERNEL, "ptxas says: %.*s", (int)strcspn(words, "\n"), words);
    if (error && line) {
        snprintf(error->file, sizeof error->file, "%s", build->name);
        error->line = strtol(line + strlen(", line "), NULL, 10);
        error->column = 1;
    }
    free(log);
    return GS_E_KERNEL;
}

static gs_code keep(const struct linker *linker, link_handle link, const gs_build *build, gs_cubin *cubin,
                    gs_error *error) {
    char *log = read_log(link, linker->info_size, linker->info_text);
    bool has_image = linker->image_size(link, &cubin->bytes) == 0 && (cubin->image = malloc(cubin->bytes + 1)) &&
                     linker->image(link, cubin->image) == 0;
    cubin->symbols = calloc(build->kernel_count + 1, sizeof *cubin->symbols);
    cubin->costs = calloc(build->kernel_count + 1, sizeof *cubin->costs);
    bool is_well = has_image && cubin->symbols && cubin->costs;
    for (size_t i = 0; i < build->kernel_count && is_well; i++) {
        is_well = (cubin->symbols[i] = strdup(build->kernels[i])) != NULL;
        cubin->count += is_well;
        cubin->costs[i] = gs_ptxas_cost(log, build->kernels[i]);
    }
    free(log);
    return is_well ? GS_OK : gs_fail_memory(error);
}

gs_code gs_assemble(const gs_build *build, int architecture, gs_cubin *cubin, gs_error *error) {
    struct linker linker;
    link_handle link = NULL;
    char target[40], limit[40];
    const char *options[MOST_OPTIONS] = {target, "-Xptxas=-v", limit};
    if (!open_linker(&linker))
        return gs_fail(error, GS_E_NO_GPU, "NVIDIA's assembler was not found (libnvJitLink.so of CUDA 12 or later)");
    snprintf(target, sizeof target, "-arch=sm_%d", architecture);
    snprintf(limit, sizeof limit, "-maxrregcount=%u", build->max_registers);
    if (linker.create(&link, build->max_registers ? 3 : 2, options) != 0)
        return gs_fail(error, GS_E_NO_GPU, "NVIDIA's assembler does not know sm_%d", architecture);
    int state = linker.add(link, INPUT_PTX, build->text, build->size, build->name);
    state = state ? state : linker.complete(link);
    gs_code code = state ? fail(&linker, link, build, error) : keep(&linker, link, build, cubin, error);
    linker.destroy(&link);
    return code;
}

void gs_assembler_library(char *path, size_t size) {
    struct linker linker;
    struct link_map *map = NULL;
    bool is_known = open_linker(&linker) && dlinfo(linker.library, RTLD_DI_LINKMAP, &map) == 0 && map;
    snprintf(path, size, "%s", is_known ? map->l_name : "");
}
