/*
 * driver_functions.c: the driver's attributes of kernels, cached, and records of launches, copies and memsets.
 *
 * Programs launch the same few kernels repeatedly, and querying the driver takes a microsecond. So attributes are
 * cached by the handle of the function, and each thread caches its latest ones, which need no lock. Names are stored
 * once and never freed: unwritten records point to them.
 */
#define _GNU_SOURCE
#include "driver_work.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHARED_BYTES = 1,
    LOCAL_BYTES = 3,
    REGISTERS = 4,
    CARVEOUT = 9,
    CLUSTER = 11 /* and 12, 13 */
};

static struct functions {
    pthread_mutex_t lock;
    gs_number_map numbers;   /* of a handle: its index in `kept`, plus 1 */
    gs_number_map caches;    /* of a handle: the requested cache configuration */
    gs_number_map carveouts; /* of a CUfunction: the last carve-out set, plus 2 */
    gs_number_map names;     /* of a digest of a name: the name */
    gs_driver_function *kept;
    size_t count, capacity;
    atomic_uint changes; /* cached attributes from before the latest change are not used */
} functions = {.lock = GS_SHORT_LOCK};

/* ---- names ---- */

static uint64_t digest_of_text(const char *text) {
    uint64_t sum = 14695981039346656037u;
    for (; *text; text++)
        sum = (sum ^ (unsigned char)*text) * 1099511628211u;
    return sum | 1;
}

static const char *keep_name(const char *name) {
    uint64_t *found = gs_number_map_add(&functions.names, digest_of_text(name));
    const char *kept = found ? (const char *)(uintptr_t)*found : NULL;
    if (kept && strcmp(kept, name) == 0)
        return kept;
    char *made = strdup(name);
    if (found && made)
        *found = (uint64_t)(uintptr_t)made;
    return made;
}

/* ---- queries ---- */

static int query_attribute(const gs_driver_queries *driver, const void *function, int attribute, int otherwise) {
    int value = otherwise;
    return driver->cuFuncGetAttribute && driver->cuFuncGetAttribute(&value, attribute, function) == GS_CUDA_OK
               ? value
               : otherwise;
}

/* Programs may launch a CUkernel, which has a function in each context. */
static const void *function_of(const gs_driver_queries *driver, const void *handle) {
    void *function = NULL;
    if (query_attribute(driver, handle, REGISTERS, -1) >= 0 || !driver->cuKernelGetFunction)
        return handle;
    return driver->cuKernelGetFunction(&function, handle) == GS_CUDA_OK && function ? function : handle;
}

static gs_driver_function ask_all(const gs_driver_queries *driver, const void *handle) {
    const void *function = function_of(driver, handle);
    const char *name = NULL;
    gs_driver_function found = {.registers = query_attribute(driver, function, REGISTERS, 0),
                                .static_shared_bytes = query_attribute(driver, function, SHARED_BYTES, 0),
                                .local_bytes = query_attribute(driver, function, LOCAL_BYTES, 0),
                                .carveout_percent = query_attribute(driver, function, CARVEOUT, -1)};
    for (int i = 0; i < 3; i++)
        found.cluster[i] = query_attribute(driver, function, CLUSTER + i, 0);
    const uint64_t *cache = gs_number_map_find(&functions.caches, (uint64_t)(uintptr_t)handle);
    found.cache_config = cache ? (int)*cache : 0;
    if (driver->cuFuncGetName && driver->cuFuncGetName(&name, function) == GS_CUDA_OK && name)
        found.name = keep_name(name);
    return found;
}

static void keep_function(uint64_t handle, const gs_driver_function *found) {
    uint64_t *number = gs_number_map_add(&functions.numbers, handle);
    if (!number)
        return;
    if (!gs_grow((void **)&functions.kept, &functions.capacity, functions.count + 1, sizeof *found)) {
        gs_number_map_remove(&functions.numbers, handle);
        return;
    }
    functions.kept[functions.count] = *found;
    *number = ++functions.count;
}

static gs_driver_function find_or_ask(const gs_driver_queries *driver, const void *function) {
    gs_driver_function found;
    pthread_mutex_lock(&functions.lock);
    const uint64_t *number = gs_number_map_find(&functions.numbers, (uint64_t)(uintptr_t)function);
    if (number) {
        found = functions.kept[*number - 1];
    } else {
        found = ask_all(driver, function);
        keep_function((uint64_t)(uintptr_t)function, &found);
    }
    pthread_mutex_unlock(&functions.lock);
    return found;
}

gs_driver_function gs_driver_function_get(const gs_driver_queries *driver, const void *function) {
    enum { LATEST = 32, ALIGNED_BITS = 4 };
    static _Thread_local struct latest {
        const void *function;
        unsigned changes;
        gs_driver_function found;
    } latest[LATEST];
    unsigned changes = atomic_load_explicit(&functions.changes, memory_order_acquire);
    uint64_t key = (uint64_t)(uintptr_t)function >> ALIGNED_BITS;
    struct latest *slot = &latest[(key ^ key >> 5 ^ key >> 10) % LATEST];
    if (slot->function != function || slot->changes != changes)
        *slot = (struct latest){function, changes, find_or_ask(driver, function)};
    return slot->found;
}

/* With the lock held. */
static void ask_again(void) {
    functions.changes++;
    gs_number_map_clear(&functions.numbers);
    functions.count = 0;
}

void gs_driver_functions_forget(void) {
    pthread_mutex_lock(&functions.lock);
    ask_again();
    gs_number_map_clear(&functions.caches);
    gs_number_map_clear(&functions.carveouts);
    pthread_mutex_unlock(&functions.lock);
}

/* Libraries set the same carve-out before each launch. With function NULL the function is not known. */
static void set_carveout(const void *function, int value) {
    pthread_mutex_lock(&functions.lock);
    uint64_t *latest = function ? gs_number_map_add(&functions.carveouts, (uint64_t)(uintptr_t)function) : NULL;
    if (!latest)
        gs_number_map_clear(&functions.carveouts);
    if (!latest || *latest != (uint64_t)(value + 2))
        ask_again();
    if (latest)
        *latest = (uint64_t)(value + 2);
    pthread_mutex_unlock(&functions.lock);
}

void gs_driver_function_set(const void *function, int attribute, int value) {
    if (attribute == CARVEOUT)
        set_carveout(function, value);
}

void gs_driver_kernel_set(const gs_driver_queries *driver, const void *kernel, int device, int attribute, int value) {
    int current = -1;
    void *function = NULL;
    if (attribute != CARVEOUT)
        return;
    bool is_here = driver->cuCtxGetDevice && driver->cuCtxGetDevice(&current) == GS_CUDA_OK && current == device;
    if (!is_here || !driver->cuKernelGetFunction || driver->cuKernelGetFunction(&function, kernel) != GS_CUDA_OK)
        function = NULL;
    set_carveout(function, value);
}

void gs_driver_function_cache(const void *function, int config) {
    pthread_mutex_lock(&functions.lock);
    const uint64_t *number = gs_number_map_find(&functions.numbers, (uint64_t)(uintptr_t)function);
    uint64_t *cache = gs_number_map_add(&functions.caches, (uint64_t)(uintptr_t)function);
    if (!cache || *cache != (uint64_t)config)
        functions.changes++;
    if (cache)
        *cache = (uint64_t)config;
    if (number)
        functions.kept[*number - 1].cache_config = config;
    pthread_mutex_unlock(&functions.lock);
}

/* ---- records ---- */

gs_driver_record gs_driver_kernel(const gs_driver_function *function, const unsigned *shape, unsigned shared_bytes) {
    gs_driver_record record = {.kernel = {.kind = CUPTI_KERNEL,
                                          .cache_config = (uint8_t)function->cache_config,
                                          .registers = (uint16_t)function->registers,
                                          .static_shared_bytes = function->static_shared_bytes,
                                          .dynamic_shared_bytes = (int32_t)shared_bytes,
                                          .local_bytes = (uint32_t)function->local_bytes,
                                          .name = function->name}};
    cupti_kernel *kernel = &record.kernel;
    for (int i = 0; i < 3; i++) {
        kernel->grid[i] = (int32_t)shape[i];
        kernel->block[i] = (int32_t)shape[3 + i];
        kernel->cluster[i] = (uint32_t)function->cluster[i];
    }
    kernel->has_carveout = function->carveout_percent >= 0;
    kernel->carveout_percent = (uint8_t)(kernel->has_carveout ? function->carveout_percent : 0);
    return record;
}

void gs_driver_kernel_attribute(cupti_kernel *kernel, int attribute, const int *value) {
    enum { COOPERATIVE = 2, CLUSTER_SHAPE = 4, PREFERRED_CARVEOUT = 14 };
    if (attribute == COOPERATIVE)
        kernel->launch_type = value[0] ? CUPTI_COOPERATIVE : 0;
    for (int i = 0; attribute == CLUSTER_SHAPE && value[0] && i < 3; i++)
        kernel->cluster[i] = (uint32_t)value[i];
    if (attribute == PREFERRED_CARVEOUT && value[0] >= 0 && value[0] <= 100) {
        kernel->has_carveout = 1;
        kernel->carveout_percent = (uint8_t)value[0];
    }
}

gs_driver_record gs_driver_copy(int kind, uint64_t bytes) {
    return (gs_driver_record){.copy = {.kind = CUPTI_MEMCPY, .copy_kind = (uint8_t)kind, .bytes = bytes}};
}

gs_driver_record gs_driver_memset(uint64_t bytes) {
    return (gs_driver_record){.set = {.kind = CUPTI_MEMSET, .bytes = bytes}};
}

/* CUPTI's kind of a copy between memories of these types; 0: not known. */
static int kind_of(int from, int to) {
    enum { HOST = 1, UNIFIED = 4, HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2, DEVICE_TO_DEVICE = 8, HOST_TO_HOST = 9 };
    if (from < HOST || from >= UNIFIED || to < HOST || to >= UNIFIED)
        return 0;
    if (from == HOST)
        return to == HOST ? HOST_TO_HOST : HOST_TO_DEVICE;
    return to == HOST ? DEVICE_TO_HOST : DEVICE_TO_DEVICE;
}

static uint64_t size_at(const void *parameters, size_t offset) {
    size_t found;
    memcpy(&found, (const char *)parameters + offset, sizeof found);
    return found;
}

gs_driver_record gs_driver_copy_2d(const void *parameters) {
    enum { FROM_TYPE = 16, TO_TYPE = 72, WIDTH = 112, HEIGHT = 120 };
    return gs_driver_copy(kind_of(gs_int_at(parameters, FROM_TYPE), gs_int_at(parameters, TO_TYPE)),
                          size_at(parameters, WIDTH) * size_at(parameters, HEIGHT));
}

gs_driver_record gs_driver_copy_3d(const void *parameters) {
    enum { FROM_TYPE = 32, TO_TYPE = 120, WIDTH = 176, HEIGHT = 184, DEPTH = 192 };
    return gs_driver_copy(kind_of(gs_int_at(parameters, FROM_TYPE), gs_int_at(parameters, TO_TYPE)),
                          size_at(parameters, WIDTH) * size_at(parameters, HEIGHT) * size_at(parameters, DEPTH));
}
