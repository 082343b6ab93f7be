/*
 * function.c: modules and kernels of the fake driver.
 *
 * A module has probe kernels (of PTX), timed kernels (of an image of compiler.c) or a library that runs on the CPU. A
 * kernel without a module is only a name, from which its attributes follow, so that recorders see some of each.
 */
#include "fake.h"
#include "kernels/cpu/cpu.h"

#include <pthread.h>
#include <time.h>

CU_SYMBOLS(FAKE_CALL)

enum { MOST_FUNCTIONS = 256, TIMED_SHARED_BYTES = 16 };

struct cu_module {
    struct cu_function functions[MOST_FUNCTIONS];
    int count;
    fake_library *library;
};

/* ---- modules ---- */

/* As with a real compiler the first guess is wrong, registers are allocated in pairs, and what does not fit into
   `most` registers goes to local memory. */
static struct cu_function make_probe(int number, int live, int local, int most) {
    struct cu_function made = {.kind = FAKE_PROBE, .carveout_percent = GS_NO_CARVEOUT};
    int registers = live + 9 + live / 64 + (local ? 2 : 0), step = fake_has("coarse") ? 16 : 2;
    int spilled = (int)gs_max(fake_has("coarse") ? gs_divide_up(registers, 16) * 16 - most : registers - most, 0);
    snprintf(made.name, sizeof made.name, "probe_%d", number);
    made.registers = (int)gs_min(gs_divide_up(registers, step) * step, most);
    made.local_bytes = gs_divide_up(local, 8) * 8 + 8 * spilled;
    return made;
}

/* The number after a word, before the next kernel; 0: there is none. */
static int number_after(const char *at, const char *word) {
    const char *found = strstr(at, word), *end = strstr(at, "ret;");
    return found && (!end || found < end) ? atoi(found + strlen(word)) : 0;
}

/* The probe kernels of a PTX module. False: it has none. */
static bool read_probes(cu_module module, const char *ptx) {
    static const char start[] = ".visible .entry probe_";
    for (const char *at = ptx; (at = strstr(at, start)) && module->count < MOST_FUNCTIONS; at++)
        module->functions[module->count++] = make_probe(atoi(at + sizeof start - 1), number_after(at, "%live<"),
                                                        number_after(at, " local["), number_after(at, ".maxnreg "));
    return module->count;
}

static struct cu_function make_timed(int number, int body, int count) {
    struct cu_function made = {.kind = FAKE_TIMED,
                               .carveout_percent = GS_NO_CARVEOUT,
                               .registers = 32,
                               .shared_bytes = TIMED_SHARED_BYTES,
                               .body = body,
                               .count = count};
    snprintf(made.name, sizeof made.name, "timed_%d", number);
    return made;
}

static bool read_image(cu_module module, const char *at) {
    int number, body, count, used;
    while (module->count < MOST_FUNCTIONS && sscanf(at, "timed %d %d %d\n%n", &number, &body, &count, &used) == 3) {
        module->functions[module->count++] = make_timed(number, body, count);
        at += used;
    }
    return !*at;
}

static int load_library(cu_module *module, fake_library *library) {
    *module = calloc(1, sizeof **module);
    fake.objects++;
    (*module)->library = library;
    return library ? 0 : FAKE_INVALID_IMAGE;
}

static bool is_ptx(const char *image) {
    const gs_build build = {.text = image, .size = strlen(image)};
    return gs_build_is_ptx(&build);
}

static int load_keeper(cu_module *module) {
    *module = calloc(1, sizeof **module);
    (*module)->functions[0] = (struct cu_function){.kind = FAKE_OF_GATE, .name = GS_KEEPER_NAME};
    (*module)->count = 1;
    fake.objects++;
    return 0;
}

static int load_ptx(cu_module *module, const char *ptx) {
    if (fake_has("compile-fails"))
        return FAKE_INVALID_PTX;
    if (strstr(ptx, ".entry " GS_KEEPER_NAME "("))
        return load_keeper(module);
    *module = calloc(1, sizeof **module);
    if (*module && read_probes(*module, ptx)) {
        fake.objects++;
        return 0;
    }
    free(*module);
    return load_library(module, fake_library_compile(ptx));
}

int cuModuleLoadData(cu_module *module, const void *image) {
    enum { SECONDS = 3 };
    if (!fake_current())
        return FAKE_INVALID_CONTEXT;
    for (time_t end = time(NULL) + SECONDS; fake_has("slow-load") && time(NULL) <= end;)
        ;
    if (fake_unsafe())
        return FAKE_CAPTURE_UNSUPPORTED;
    if (strncmp(image, FAKE_LIBRARY, strlen(FAKE_LIBRARY)) == 0)
        return load_library(module, fake_library_load(image));
    if (fake_is_cubin(image)) {
        *module = calloc(1, sizeof **module);
        fake.objects++;
        (*module)->count = fake_cubin_read(image, (*module)->functions, MOST_FUNCTIONS);
        return (*module)->count ? 0 : FAKE_INVALID_IMAGE;
    }
    if (is_ptx(image))
        return load_ptx(module, image);
    if (strncmp(image, FAKE_IMAGE, strlen(FAKE_IMAGE)) != 0)
        return FAKE_INVALID_IMAGE;
    *module = calloc(1, sizeof **module);
    fake.objects++;
    return *module && read_image(*module, (const char *)image + strlen(FAKE_IMAGE)) ? 0 : FAKE_INVALID_IMAGE;
}

int cuModuleUnload(cu_module module) {
    fake_library_free(module->library);
    free(module);
    fake.objects--;
    return 0;
}

/* ---- functions ---- */

static cu_function make_named(const char *name) {
    cu_function made = calloc(1, sizeof *made);
    enum { STUCK_US = 2000000000 };
    unsigned long long us = 0;
    *made = (struct cu_function){.kind = FAKE_NAMED, .registers = 40, .shared_bytes = 512};
    snprintf(made->name, sizeof made->name, "%s", name);
    const char *timed = strstr(name, "kernel_");
    if (timed && sscanf(timed, "kernel_%llu", &us) == 1)
        made->us = us;
    if (fake_has("stuck"))
        made->us = STUCK_US;
    made->local_bytes = strstr(name, "local") ? 96 : 0;
    made->carveout_percent = strstr(name, "carveout") ? 75 : GS_NO_CARVEOUT;
    return made;
}

/* The kernel with this name, which has no module. */
static cu_function find_named(const char *name) {
    static cu_function first;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    cu_function found = first;
    while (found && strcmp(found->name, name) != 0)
        found = found->next;
    if (!found) {
        found = make_named(name);
        found->next = first;
        first = found;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

int cuModuleGetFunction(cu_function *function, cu_module module, const char *name) {
    if (!module) {
        *function = find_named(name);
        return FAKE_OK;
    }
    int number = module->library ? fake_library_find(module->library, name) : -1;
    if (number >= 0 && number < MOST_FUNCTIONS) {
        module->functions[number] = (struct cu_function){.kind = FAKE_OF_LIBRARY,
                                                         .number = number,
                                                         .registers = 32,
                                                         .library = module->library,
                                                         .is_fault = strstr(name, "fault") != NULL};
        *function = &module->functions[number];
        return 0;
    }
    for (int i = 0; i < module->count; i++)
        if (strcmp(module->functions[i].name, name) == 0) {
            *function = &module->functions[i];
            return 0;
        }
    return FAKE_NOT_FOUND;
}

FAKE_VISIBLE cuFuncGetName(const char **name, cu_function function) {
    *name = function->name;
    return FAKE_OK;
}

static atomic_int questions; /* calls of cuFuncGetAttribute */

__attribute__((destructor)) static void tell_questions(void) {
    const char *path = getenv("GRIDSMITH_FAKE_QUESTIONS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file && fprintf(file, "%d\n", questions) >= 0)
        fclose(file);
}

int cuFuncGetAttribute(int *value, int number, cu_function function) {
    questions++;
    switch (number) {
    case CU_FUNCTION_SHARED_BYTES:
        *value = function->shared_bytes;
        return FAKE_OK;
    case CU_FUNCTION_LOCAL_BYTES:
        *value = (int)function->local_bytes;
        return FAKE_OK;
    case CU_FUNCTION_REGISTERS:
        *value = function->registers;
        return FAKE_OK;
    case CU_FUNCTION_CARVEOUT:
        *value = function->carveout_percent;
        return FAKE_OK;
    default:
        return FAKE_INVALID_VALUE;
    }
}

int cuFuncSetAttribute(cu_function function, int number, int value) {
    if (number == CU_FUNCTION_MAX_SHARED && value <= fake.description->limits.shared_per_block_bytes)
        function->most_shared_bytes = value;
    else if (number == CU_FUNCTION_CARVEOUT && value >= GS_NO_CARVEOUT && value <= 100)
        function->carveout_percent = value;
    else if (number == CU_FUNCTION_NON_PORTABLE_CLUSTER && fake.description->compute_capability[0] == '9')
        function->any_cluster = value;
    else
        return FAKE_INVALID_VALUE;
    return FAKE_OK;
}

FAKE_VISIBLE cuFuncSetCacheConfig(cu_function function, int config) {
    function->cache_config = config;
    return FAKE_OK;
}

FAKE_VISIBLE cuFuncGetParamInfo(cu_function function, size_t number, size_t *offset, size_t *bytes) {
    const unsigned *sizes;
    if (function->kind == FAKE_OF_CUBIN)
        return fake_cubin_parameter(function, number, offset, bytes);
    if (!function->library || number >= fake_library_sizes(function->library, function->number, &sizes))
        return FAKE_INVALID_VALUE;
    *offset = 0;
    *bytes = sizes[number];
    return FAKE_OK;
}

FAKE_VISIBLE cuKernelGetFunction(cu_function *function, char *kernel) {
    *function = (cu_function)(void *)(kernel - offsetof(struct cu_function, kernel));
    return FAKE_OK;
}

FAKE_VISIBLE cuKernelSetAttribute(int attribute, int value, char *kernel, int device) {
    cu_function function;
    cuKernelGetFunction(&function, kernel);
    return device ? FAKE_INVALID_DEVICE : cuFuncSetAttribute(function, attribute, value);
}

int fake_get_kernel(void **kernel, cu_function function) {
    *kernel = &function->kernel;
    return FAKE_OK;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, cu_function function, int threads, size_t shared_bytes) {
    gs_shape shape = gs_shape_of(threads, function->registers, (int64_t)shared_bytes);
    gs_occupancy occupancy;
    gs_occupancy_of(fake.description, &shape, &occupancy, NULL);
    *blocks = occupancy.blocks;
    return 0;
}
