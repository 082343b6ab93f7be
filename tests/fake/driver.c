/*
 * driver.c: libcuda.so.1 of the fake driver: its calls, checks and errors.
 *
 * Device memory is memory of the process, at the same address. The driver counts allocations: a context that is
 * released while streams, modules or memory are left ends the program, so that a test fails. The one global variable is
 * needed because the interface has no handle for the driver. Several threads may call it, and may retain the primary
 * context several times.
 */
#include "fake.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

CU_SYMBOLS(FAKE_CALL)

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    OUT_OF_RESOURCES = 701
};

enum { MOST_FUNCTIONS = 256, TIMED_SHARED_BYTES = 16, FAILING_LAUNCH = 3, MOST_URGENCY = 5, PORTABLE_CLUSTER = 8 };

struct cu_function {
    char name[32];
    int registers;
    bool is_timed;
    int body, count; /* of a timed kernel */
    int64_t local_bytes;
    int most_shared_bytes, carveout_percent;
    bool any_cluster;
    bool is_fault;
    fake_library *library; /* NULL: a probe or timed kernel */
    int number;                 /* in that library */
};

struct cu_module {
    struct cu_function functions[MOST_FUNCTIONS];
    int count;
    fake_library *library;
};

struct cu_stream {
    int priority;
    fake_queue *queue;
};

struct cu_event {
    int64_t at_ns;
};

static struct driver {
    atomic_bool started;
    gs_gpu *description;
    fake_gpu *gpu;      /* NULL: no context */
    int holders;             /* of the context */
    _Atomic int64_t objects; /* streams, modules and memory that were not released */
    int64_t launches;
} driver;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for retaining and releasing the context */
static _Thread_local cu_context current;

/* ---- starting ---- */

int cuInit(unsigned flags) {
    if (fake_has("init-fails"))
        return NO_DEVICE;
    driver.started = true;
    return flags ? INVALID_VALUE : 0;
}

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}

int cuGetErrorString(int code, const char **words) {
    static const struct {
        int code;
        const char *words;
    } errors[] = {{INVALID_VALUE, "invalid argument"},
                  {OUT_OF_MEMORY, "out of memory"},
                  {NOT_INITIALIZED, "initialization error"},
                  {NO_DEVICE, "no CUDA-capable device is detected"},
                  {INVALID_DEVICE, "invalid device ordinal"},
                  {INVALID_IMAGE, "device kernel image is invalid"},
                  {INVALID_CONTEXT, "invalid device context"},
                  {INVALID_PTX, "a PTX JIT compilation failed"},
                  {NOT_FOUND, "named symbol not found"},
                  {NOT_READY, "device not ready"},
                  {ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
                  {OUT_OF_RESOURCES, "too many resources requested for launch"}};
    for (size_t i = 0; i < GS_COUNT(errors); i++)
        if (errors[i].code == code) {
            *words = errors[i].words;
            return 0;
        }
    return INVALID_VALUE;
}

/* The one GPU that CUDA_VISIBLE_DEVICES allows, or -1. */
static int visible_gpu(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return fake_has("three-gpus") && visible ? atoi(visible) : -1;
}

int cuDeviceGetCount(int *count) {
    *count = fake_has("no-device") ? 0 : fake_has("three-gpus") && visible_gpu() < 0 ? 3 : 1;
    return driver.started ? 0 : NOT_INITIALIZED;
}

int cuDeviceGet(int *device, int number) {
    *device = number;
    return number ? INVALID_DEVICE : 0;
}

/* ---- the context ---- */

static int hold_context(int device) {
    if (device)
        return INVALID_DEVICE;
    if (driver.holders++)
        return 0;
    driver.description = gs_gpu_open(fake_has("h200") ? "h200" : FAKE_SMALL, NULL);
    driver.gpu = driver.description ? fake_gpu_new(driver.description) : NULL;
    driver.objects = driver.launches = 0;
    return driver.gpu ? 0 : INVALID_DEVICE;
}

int cuDevicePrimaryCtxRetain(cu_context *context, int device) {
    pthread_mutex_lock(&lock);
    int failed = hold_context(device);
    *context = (cu_context)(void *)driver.gpu;
    pthread_mutex_unlock(&lock);
    return failed;
}

static int release_context(int device) {
    if (device || !driver.gpu)
        return INVALID_CONTEXT;
    if (--driver.holders)
        return 0;
    fake_gpu_free(driver.gpu);
    gs_gpu_free(driver.description);
    if (driver.objects) {
        fprintf(stderr, "the fake driver: %lld objects were not given back\n", (long long)driver.objects);
        abort();
    }
    driver.gpu = NULL;
    driver.description = NULL;
    driver.started = false;
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    pthread_mutex_lock(&lock);
    int failed = release_context(device);
    pthread_mutex_unlock(&lock);
    return failed;
}

int cuCtxSetCurrent(cu_context context) {
    current = context;
    return !context || fake_is_context(context, driver.gpu) ? 0 : INVALID_CONTEXT;
}

int cuCtxGetCurrent(cu_context *context) {
    *context = current;
    return 0;
}

int cuCtxSynchronize(void) {
    fake_gpu_synchronize(driver.gpu);
    return 0;
}

/* ---- properties of the device ---- */

int cuDeviceGetName(char *name, int size, int device) {
    (void)device;
    snprintf(name, (size_t)size, "%s", driver.description->title);
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)1 << 34;
    return 0;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    memset(uuid, visible_gpu() < 0 ? device : visible_gpu(), 16);
    return 0;
}

int cuDeviceGetAttribute(int *value, int number, int device) {
    const gs_limits *limits = &driver.description->limits;
    int major = 0, minor = 0;
    (void)device;
    sscanf(driver.description->compute_capability, "%d.%d", &major, &minor);
    const struct {
        int number, value;
    } attributes[] = {{1, limits->threads_per_block},
                      {10, limits->warp_threads},
                      {16, driver.description->sms},
                      {39, limits->threads_per_sm},
                      {75, major},
                      {76, minor},
                      {81, driver.description->largest_config_bytes},
                      {82, limits->registers_per_sm},
                      {97, limits->shared_per_block_bytes},
                      {106, limits->blocks_per_sm},
                      {111, limits->shared_reserved_bytes},
                      {120, major >= 9}};
    for (size_t i = 0; i < GS_COUNT(attributes); i++)
        if (attributes[i].number == number) {
            *value = attributes[i].value;
            return 0;
        }
    return INVALID_VALUE;
}

/* ---- modules and functions ---- */

/* As with a real compiler the first guess is wrong, registers are allocated in pairs, and what does not fit into
   `most` registers goes to local memory. */
static struct cu_function make_probe(int number, int live, int local, int most) {
    struct cu_function made = {.carveout_percent = GS_NO_CARVEOUT};
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
    struct cu_function made = {
        .carveout_percent = GS_NO_CARVEOUT, .is_timed = true, .registers = 32, .body = body, .count = count};
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
    driver.objects++;
    (*module)->library = library;
    return library ? 0 : INVALID_IMAGE;
}

static bool is_ptx(const char *image) {
    const gs_build build = {.text = image, .size = strlen(image)};
    return gs_build_is_ptx(&build);
}

static int load_ptx(cu_module *module, const char *ptx) {
    if (fake_has("compile-fails"))
        return INVALID_PTX;
    *module = calloc(1, sizeof **module);
    if (*module && read_probes(*module, ptx)) {
        driver.objects++;
        return 0;
    }
    free(*module);
    return load_library(module, fake_library_compile(ptx));
}

int cuModuleLoadData(cu_module *module, const void *image) {
    if (!current)
        return INVALID_CONTEXT;
    if (strncmp(image, FAKE_LIBRARY, strlen(FAKE_LIBRARY)) == 0)
        return load_library(module, fake_library_load(image));
    if (is_ptx(image))
        return load_ptx(module, image);
    if (strncmp(image, FAKE_IMAGE, strlen(FAKE_IMAGE)) != 0)
        return INVALID_IMAGE;
    *module = calloc(1, sizeof **module);
    driver.objects++;
    return *module && read_image(*module, (const char *)image + strlen(FAKE_IMAGE)) ? 0 : INVALID_IMAGE;
}

int cuModuleUnload(cu_module module) {
    fake_library_free(module->library);
    free(module);
    driver.objects--;
    return 0;
}

int cuModuleGetFunction(cu_function *function, cu_module module, const char *name) {
    int number = module->library ? fake_library_find(module->library, name) : -1;
    if (number >= 0 && number < MOST_FUNCTIONS) {
        module->functions[number] = (struct cu_function){
            .number = number, .registers = 32, .library = module->library, .is_fault = strstr(name, "fault") != NULL};
        *function = &module->functions[number];
        return 0;
    }
    for (int i = 0; i < module->count; i++)
        if (strcmp(module->functions[i].name, name) == 0) {
            *function = &module->functions[i];
            return 0;
        }
    return NOT_FOUND;
}

enum { SHARED_BYTES = 1, LOCAL_BYTES = 3, REGISTERS = 4, MOST_SHARED = 8, CARVEOUT = 9, ANY_CLUSTER = 14 };

int cuFuncGetAttribute(int *value, int number, cu_function function) {
    *value = number == LOCAL_BYTES    ? (int)function->local_bytes
             : number == SHARED_BYTES ? (function->is_timed ? TIMED_SHARED_BYTES : 0)
                                      : function->registers;
    return number == SHARED_BYTES || number == LOCAL_BYTES || number == REGISTERS ? 0 : INVALID_VALUE;
}

int cuFuncSetAttribute(cu_function function, int number, int value) {
    if (number == MOST_SHARED && value <= driver.description->limits.shared_per_block_bytes)
        function->most_shared_bytes = value;
    else if (number == CARVEOUT && value >= GS_NO_CARVEOUT && value <= 100)
        function->carveout_percent = value;
    else if (number == ANY_CLUSTER && driver.description->compute_capability[0] == '9')
        function->any_cluster = value;
    else
        return INVALID_VALUE;
    return 0;
}

/* ---- memory and streams ---- */

static void *take(size_t bytes) {
    driver.objects++;
    return calloc(1, bytes);
}

static int give_back(void *object) {
    fake_gpu_forget(driver.gpu);
    driver.objects--;
    free(object);
    return 0;
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    (void)flags;
    *memory = take(bytes);
    return 0;
}

int cuMemFreeHost(void *memory) {
    return give_back(memory);
}

int cuMemHostGetDevicePointer_v2(cu_pointer *pointer, void *memory, unsigned flags) {
    *pointer = (cu_pointer)(uintptr_t)memory;
    return flags ? INVALID_VALUE : 0;
}

int cuMemAlloc_v2(cu_pointer *pointer, size_t bytes) {
    *pointer = (cu_pointer)(uintptr_t)take(bytes);
    return 0;
}

int cuMemFree_v2(cu_pointer pointer) {
    return give_back((void *)(uintptr_t)pointer);
}

int cuMemsetD8_v2(cu_pointer pointer, unsigned char value, size_t bytes) {
    memset((void *)(uintptr_t)pointer, value, bytes);
    return 0;
}

/* Adds an operation to a stream, unless the context is broken. */
static int add_step(cu_stream stream, const fake_step *step) {
    if (fake_is_broken())
        return ILLEGAL_ADDRESS;
    fake_queue_add(stream->queue, step, NULL);
    return 0;
}

/* A stop word is written at once if the stream is idle, otherwise in order. */
int cuStreamWriteValue32_v2(cu_stream stream, cu_pointer pointer, unsigned value, unsigned flags) {
    fake_step step = {.kind = FAKE_WRITE, .to = (void *)(uintptr_t)pointer, .value = value};
    return flags ? INVALID_VALUE : add_step(stream, &step);
}

int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
    (void)memory, (void)bytes;
    return flags ? INVALID_VALUE : 0;
}

int cuMemHostUnregister(void *memory) {
    return memory ? 0 : INVALID_VALUE;
}

int cuDeviceGetDefaultMemPool(cu_pool *pool, int device) {
    *pool = NULL;
    return device ? INVALID_DEVICE : 0;
}

int cuMemPoolSetAttribute(cu_pool pool, int number, void *value) {
    enum { RELEASE_THRESHOLD = 4 };
    return pool || number != RELEASE_THRESHOLD || !value ? INVALID_VALUE : 0;
}

/* New memory is not zero. */
int cuMemAllocAsync(cu_pointer *pointer, size_t bytes, cu_stream stream) {
    (void)stream;
    void *memory = bytes < (size_t)1 << 34 ? malloc(bytes) : NULL;
    if (!memory)
        return OUT_OF_MEMORY;
    memset(memory, 0xcd, bytes);
    driver.objects++;
    *pointer = (cu_pointer)(uintptr_t)memory;
    return fake_is_broken() ? ILLEGAL_ADDRESS : 0;
}

int cuMemFreeAsync(cu_pointer pointer, cu_stream stream) {
    fake_queue_wait(stream->queue);
    driver.objects--;
    free((void *)(uintptr_t)pointer);
    return 0;
}

int cuMemsetD8Async(cu_pointer pointer, unsigned char value, size_t bytes, cu_stream stream) {
    return add_step(
        stream,
        &(fake_step){.kind = FAKE_SET, .to = (void *)(uintptr_t)pointer, .value = value, .bytes = bytes});
}

int cuMemcpyHtoDAsync_v2(cu_pointer to, const void *from, size_t bytes, cu_stream stream) {
    return add_step(
        stream, &(fake_step){.kind = FAKE_COPY, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes});
}

int cuMemcpyDtoHAsync_v2(void *to, cu_pointer from, size_t bytes, cu_stream stream) {
    return add_step(
        stream,
        &(fake_step){.kind = FAKE_COPY, .to = to, .from = (const void *)(uintptr_t)from, .bytes = bytes});
}

int cuMemcpyDtoDAsync_v2(cu_pointer to, cu_pointer from, size_t bytes, cu_stream stream) {
    return add_step(stream, &(fake_step){.kind = FAKE_COPY,
                                              .to = (void *)(uintptr_t)to,
                                              .from = (const void *)(uintptr_t)from,
                                              .bytes = bytes});
}

int cuMemcpyDtoH_v2(void *to, cu_pointer from, size_t bytes) {
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return 0;
}

int cuEventCreate(cu_event *event, unsigned flags) {
    *event = take(sizeof **event);
    return flags ? INVALID_VALUE : 0;
}

int cuEventDestroy_v2(cu_event event) {
    return give_back(event);
}

int cuEventRecord(cu_event event, cu_stream stream) {
    (void)stream;
    event->at_ns = gs_now_ns();
    return 0;
}

int cuEventElapsedTime(float *elapsed_ms, cu_event began, cu_event ended) {
    *elapsed_ms = (float)(ended->at_ns - began->at_ns) / 1e6f;
    return 0;
}

int cuStreamCreateWithPriority(cu_stream *stream, unsigned flags, int priority) {
    (void)flags;
    *stream = take(sizeof **stream);
    (*stream)->priority = priority;
    (*stream)->queue = fake_queue_new();
    return 0;
}

int cuStreamDestroy_v2(cu_stream stream) {
    fake_queue_free(stream->queue);
    return give_back(stream);
}

int cuStreamQuery(cu_stream stream) {
    if (fake_is_broken())
        return ILLEGAL_ADDRESS;
    return fake_queue_is_idle(stream->queue) && fake_gpu_is_idle(driver.gpu, stream) ? 0 : NOT_READY;
}

int cuStreamSynchronize(cu_stream stream) {
    fake_queue_wait(stream->queue);
    return fake_is_broken() ? ILLEGAL_ADDRESS : 0;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, cu_function function, int threads, size_t shared_bytes) {
    gs_shape shape = gs_shape_of(threads, function->registers, (int64_t)shared_bytes);
    gs_occupancy occupancy;
    gs_occupancy_of(driver.description, &shape, &occupancy, NULL);
    *blocks = occupancy.blocks;
    return 0;
}

/* ---- launching ---- */

#ifndef FAKE_OLD

static bool attributes_are_right(const cu_launch *call, cu_function function, fake_launch *launch) {
    for (unsigned i = 0; i < call->attribute_count; i++) {
        const cu_attribute *attribute = &call->attributes[i];
        unsigned cluster = attribute->value.cluster.x;
        if (attribute->id == CU_LAUNCH_PRIORITY) {
            launch->urgency = -attribute->value.priority;
            if (launch->urgency < 0 || launch->urgency > MOST_URGENCY)
                return false;
        } else if (attribute->id == CU_LAUNCH_COOPERATIVE) {
            launch->is_cooperative = attribute->value.flag;
        } else if (attribute->id == CU_LAUNCH_PROGRAMMATIC) {
            launch->is_programmatic = attribute->value.flag;
        } else if (attribute->id != CU_LAUNCH_CLUSTER || !cluster || call->grid_x % cluster ||
                   driver.description->compute_capability[0] != '9' ||
                   (cluster > PORTABLE_CLUSTER && !function->any_cluster)) {
            return false;
        }
    }
    return true;
}

/* A kernel of a library runs on the CPU, in the order of its stream. */
static int launch_library(const cu_launch *call, cu_function function, void **arguments) {
    enum { USUAL_SHARED = 48 << 10 };
    if (call->shared_bytes > USUAL_SHARED && call->shared_bytes > (unsigned)function->most_shared_bytes)
        return INVALID_VALUE;
    if (fake_is_broken())
        return ILLEGAL_ADDRESS;
    fake_step step = {.kind = FAKE_KERNEL,
                           .library = function->library,
                           .kernel = function->number,
                           .is_fault = function->is_fault,
                           .call = *call,
                           .sms = (uint32_t)driver.description->sms};
    fake_queue_add(call->stream->queue, &step, arguments);
    return 0;
}

__attribute__((visibility("default"))) int cuFuncGetParamInfo(cu_function function, size_t number, size_t *offset,
                                                              size_t *bytes);
int cuFuncGetParamInfo(cu_function function, size_t number, size_t *offset, size_t *bytes) {
    const unsigned *sizes;
    if (!function->library || number >= fake_library_sizes(function->library, function->number, &sizes))
        return INVALID_VALUE;
    *offset = 0;
    *bytes = sizes[number];
    return 0;
}

static int launch_probe(const cu_launch *call, cu_function function, const void *arguments,
                        const fake_node *node) {
    const gs_limits *limits = &driver.description->limits;
    fake_launch launch = {.blocks = call->grid_x, .stream = call->stream, .urgency = -call->stream->priority};
    if (call->grid_y * call->grid_z * call->block_y * call->block_z != 1 || !call->grid_x || !call->block_x ||
        call->block_x > (unsigned)limits->threads_per_block ||
        call->shared_bytes > (unsigned)function->most_shared_bytes || !attributes_are_right(call, function, &launch))
        return INVALID_VALUE;
    if (++driver.launches == FAILING_LAUNCH && fake_has("launch-fails"))
        return OUT_OF_RESOURCES;
    if (function->is_timed)
        return fake_time(driver.description, function->body, function->count, call, arguments) ? 0
                                                                                                    : OUT_OF_RESOURCES;
    memcpy(&launch.arguments, arguments, sizeof launch.arguments);
    if (node)
        launch.node = *node;
    launch.shape = (gs_shape){.threads = (int32_t)call->block_x,
                              .registers = function->registers,
                              .shared_bytes = call->shared_bytes,
                              .local_bytes = function->local_bytes,
                              .carveout_percent = function->carveout_percent};
    return fake_gpu_launch(driver.gpu, &launch) ? 0 : OUT_OF_RESOURCES;
}

uint64_t fake_gpu_next_id(size_t count) {
    static _Atomic uint64_t next = 1;
    return atomic_fetch_add(&next, count);
}

int fake_launch_node(const cu_launch *call, cu_function function, const probe_arguments *arguments,
                          const fake_node *node) {
    return launch_probe(call, function, arguments, node);
}

bool (*fake_capture)(const cu_launch *call, cu_function function, const void *arguments);

int cuLaunchKernelEx(const cu_launch *call, cu_function function, void **arguments, void **extra) {
    if (function->library && !extra && !call->attribute_count)
        return launch_library(call, function, arguments);
    if (extra)
        return INVALID_VALUE;
    if (fake_capture && fake_capture(call, function, arguments[0]))
        return 0;
    return launch_probe(call, function, arguments[0], NULL);
}

#endif
