/*
 * driver.c: libcuda.so.1: starting, the device, the context, memory, functions by name.
 *
 * Device memory is memory of the process, at the same address. The driver counts allocations: a primary context that is
 * released while streams, modules or memory are left ends the program, so that a test fails. There are global variables
 * because the interface has no handle for the driver. Several threads may call it, and may retain the primary context
 * several times.
 *
 * As the real driver does, it loads the library that CUDA_INJECTION64_PATH names, and sets the time slice of its
 * channels by a call of the kernel module.
 */
#define _GNU_SOURCE
#include "fake.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/ioctl.h>

CU_SYMBOLS(FAKE_CALL)

fake_driver fake;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for starting, retaining and releasing the context */
static _Thread_local cu_context current;

cu_context fake_current(void) {
    return current;
}

/* ---- starting ---- */

static void inject(void) {
    const char *path = getenv("CUDA_INJECTION64_PATH");
    int (*initialize)(void) = NULL;
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL,
         *found = library ? dlsym(library, "InitializeInjection") : NULL;
    if (path && !found)
        fprintf(stderr, "the fake driver: %s\n", dlerror());
    if (!found)
        return;
    memcpy(&initialize, &found, sizeof found);
    initialize();
    fake_connect_cupti();
}

/* To 2048 us. */
static void set_slice(void) {
    uint64_t slice_us = 2048;
    struct {
        uint32_t client, object, command, flags;
        uint64_t parameters;
        uint32_t size, status;
    } control = {.command = 0xa06c0103, .parameters = (uint64_t)(uintptr_t)&slice_us, .size = sizeof slice_us};
    ioctl(-1, _IOWR('F', 0x2a, control), &control);
}

int cuInit(unsigned flags) {
    if (fake_has("init-fails"))
        return FAKE_NO_DEVICE;
    pthread_mutex_lock(&lock);
    if (!fake.started) {
        inject();
        fake_offer_dumps();
    }
    fake.started = true;
    pthread_mutex_unlock(&lock);
    set_slice();
    return flags ? FAKE_INVALID_VALUE : FAKE_OK;
}

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}

int cuGetErrorString(int code, const char **words) {
    static const struct {
        int code;
        const char *words;
    } errors[] = {{FAKE_INVALID_VALUE, "invalid argument"},
                  {FAKE_OUT_OF_MEMORY, "out of memory"},
                  {FAKE_NOT_INITIALIZED, "initialization error"},
                  {FAKE_NO_DEVICE, "no CUDA-capable device is detected"},
                  {FAKE_INVALID_DEVICE, "invalid device ordinal"},
                  {FAKE_INVALID_IMAGE, "device kernel image is invalid"},
                  {FAKE_INVALID_CONTEXT, "invalid device context"},
                  {FAKE_INVALID_PTX, "a PTX JIT compilation failed"},
                  {FAKE_NOT_FOUND, "named symbol not found"},
                  {FAKE_NOT_READY, "device not ready"},
                  {FAKE_ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
                  {FAKE_OUT_OF_RESOURCES, "too many resources requested for launch"}};
    for (size_t i = 0; i < GS_COUNT(errors); i++)
        if (errors[i].code == code) {
            *words = errors[i].words;
            return 0;
        }
    return FAKE_INVALID_VALUE;
}

/* The one GPU that CUDA_VISIBLE_DEVICES allows, or -1. */
static int visible_gpu(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return fake_has("three-gpus") && visible ? atoi(visible) : -1;
}

int cuDeviceGetCount(int *count) {
    *count = fake_has("no-device") ? 0 : fake_has("three-gpus") && visible_gpu() < 0 ? 3 : 1;
    return fake.started ? 0 : FAKE_NOT_INITIALIZED;
}

int cuDeviceGet(int *device, int number) {
    *device = number;
    return number || fake_has("no-device") ? FAKE_INVALID_DEVICE : 0;
}

/* A name without a version means the newest, but for cuGetProcAddress; flag 2 is for the default stream of each
   thread. */
FAKE_VISIBLE cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    static const char *const endings[] = {"_ptsz", "_v2", ""};
    Dl_info self;
    char versioned[80];
    void *library = dladdr(&fake, &self) ? dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    bool is_old = version < 12000 && strcmp(name, "cuGetProcAddress") == 0;
    *function = NULL;
    for (size_t i = is_old ? 2 : flags & 2 ? 0 : 1; i < GS_COUNT(endings) && library && !*function; i++) {
        snprintf(versioned, sizeof versioned, "%s%s", name, endings[i]);
        *function = dlsym(library, versioned);
    }
    if (library)
        dlclose(library);
    if (status)
        *status = *function ? 0 : 1;
    return *function ? FAKE_OK : FAKE_NOT_FOUND;
}

FAKE_VISIBLE cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

FAKE_VISIBLE cuModuleGetLoadingMode(int *mode) {
    enum { LAZY = 2 };
    *mode = LAZY;
    return FAKE_OK;
}

/* ---- the context ---- */

static gs_gpu *open_description(void) {
    return gs_gpu_open(fake_has("h200") ? "h200" : FAKE_SMALL, NULL);
}

static int hold_context(int device) {
    if (device)
        return FAKE_INVALID_DEVICE;
    if (fake.holders++)
        return 0;
    fake.description = open_description();
    fake.gpu = fake.description ? fake_gpu_new(fake.description) : NULL;
    fake.objects = fake.probes = 0;
    return fake.gpu ? 0 : FAKE_INVALID_DEVICE;
}

int cuDevicePrimaryCtxRetain(cu_context *context, int device) {
    pthread_mutex_lock(&lock);
    int failed = hold_context(device);
    *context = (cu_context)(void *)fake.gpu;
    pthread_mutex_unlock(&lock);
    return failed;
}

static int release_context(int device) {
    if (device || !fake.gpu)
        return FAKE_INVALID_CONTEXT;
    if (--fake.holders)
        return 0;
    fake_gpu_free(fake.gpu);
    gs_gpu_free(fake.description);
    if (fake.objects) {
        fprintf(stderr, "the fake driver: %lld objects were not given back\n", (long long)fake.objects);
        abort();
    }
    fake.gpu = NULL;
    fake.description = NULL;
    fake.started = false;
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
    return !context || fake_is_context(context, fake.gpu) ? 0 : FAKE_INVALID_CONTEXT;
}

int cuCtxGetCurrent(cu_context *context) {
    *context = current;
    return 0;
}

FAKE_VISIBLE cuCtxGetDevice(int *device) {
    *device = 0;
    return current ? FAKE_OK : FAKE_INVALID_CONTEXT;
}

int cuCtxSynchronize(void) {
    fake_queue_wait(fake_stream(NULL)->queue);
    fake_gpu_synchronize(fake.gpu);
    while (fake.keepers)
        fake_sleep_us(20);
    return 0;
}

/* Ends all work first. Nothing is given back: callers end afterwards. */
FAKE_VISIBLE cuDevicePrimaryCtxReset_v2(int device) {
    return device || !fake.gpu ? FAKE_INVALID_CONTEXT : cuCtxSynchronize();
}

/* A copy that waits for the default stream, and copies nothing. */
FAKE_VISIBLE cuMemcpy2D_v2(const void *what) {
    return what ? cuCtxSynchronize() : FAKE_INVALID_VALUE;
}

/* ---- properties of the device ---- */

int cuDeviceGetName(char *name, int size, int device) {
    (void)device;
    snprintf(name, (size_t)size, "%s%s", fake.description->title, fake_has("nvl") ? " NVL" : "");
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)1 << 34;
    return 0;
}

FAKE_VISIBLE cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    *total_bytes = (size_t)1 << 34;
    *free_bytes = *total_bytes - 1;
    return 0;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    memset(uuid, visible_gpu() < 0 ? device : visible_gpu(), 16);
    return 0;
}

static int attribute_of(const gs_gpu *gpu, int number, int *value) {
    const gs_limits *limits = &gpu->limits;
    int major = 0, minor = 0;
    sscanf(gpu->compute_capability, "%d.%d", &major, &minor);
    const struct {
        int number, value;
    } attributes[] = {{1, limits->threads_per_block},
                      {10, limits->warp_threads},
                      {16, gpu->sms},
                      {39, limits->threads_per_sm},
                      {75, major},
                      {76, minor},
                      {81, gpu->largest_config_bytes},
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
    return FAKE_INVALID_VALUE;
}

/* They are known without a context. */
int cuDeviceGetAttribute(int *value, int number, int device) {
    gs_gpu *own = fake.description ? NULL : open_description();
    int failed = device ? FAKE_INVALID_DEVICE : attribute_of(own ? own : fake.description, number, value);
    gs_gpu_free(own);
    return failed;
}

/* ---- memory ---- */

static void *take(size_t bytes) {
    fake.objects++;
    return calloc(1, bytes);
}

static int give_back(void *object) {
    if (fake.gpu)
        fake_gpu_forget(fake.gpu);
    fake.objects--;
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
    return flags ? FAKE_INVALID_VALUE : 0;
}

int cuMemAlloc_v2(cu_pointer *pointer, size_t bytes) {
    if (fake_unsafe())
        return FAKE_CAPTURE_UNSUPPORTED;
    *pointer = (cu_pointer)(uintptr_t)take(bytes);
    return 0;
}

int cuMemFree_v2(cu_pointer pointer) {
    if (fake_unsafe())
        return FAKE_CAPTURE_UNSUPPORTED;
    return give_back((void *)(uintptr_t)pointer);
}

int cuMemsetD8_v2(cu_pointer pointer, unsigned char value, size_t bytes) {
    memset((void *)(uintptr_t)pointer, value, bytes);
    return 0;
}

/* The memory of the host that was registered last. */
static struct { _Atomic uintptr_t at, bytes; } registered[4];

int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
    enum { KNOWN_FLAGS = 3 };
    static _Atomic unsigned count;
    if (!memory || !bytes || flags & ~(unsigned)KNOWN_FLAGS)
        return FAKE_INVALID_VALUE;
    if (fake_unsafe())
        return FAKE_CAPTURE_UNSUPPORTED;
    unsigned place = count++ % GS_COUNT(registered);
    registered[place].at = (uintptr_t)memory;
    registered[place].bytes = bytes;
    return FAKE_OK;
}

/* All other memory counts as the device's. */
FAKE_VISIBLE cuPointerGetAttribute(void *value, int attribute, cu_pointer pointer) {
    enum { MEMORY_TYPE = 2, HOST = 1, DEVICE = 2 };
    if (attribute != MEMORY_TYPE || !pointer)
        return FAKE_INVALID_VALUE;
    *(unsigned *)value = DEVICE;
    for (size_t i = 0; i < GS_COUNT(registered); i++)
        if (pointer - registered[i].at < registered[i].bytes)
            *(unsigned *)value = HOST;
    return FAKE_OK;
}

int cuMemHostUnregister(void *memory) {
    return memory ? 0 : FAKE_INVALID_VALUE;
}

int cuDeviceGetDefaultMemPool(cu_pool *pool, int device) {
    *pool = NULL;
    return device ? FAKE_INVALID_DEVICE : 0;
}

int cuMemPoolSetAttribute(cu_pool pool, int number, void *value) {
    enum { RELEASE_THRESHOLD = 4 };
    return pool || number != RELEASE_THRESHOLD || !value ? FAKE_INVALID_VALUE : 0;
}

/* New memory is not zero. MPS dies with an allocation of as many bytes as the error has. */
int cuMemAllocAsync(cu_pointer *pointer, size_t bytes, cu_stream stream) {
    (void)stream;
    if (bytes == FAKE_MPS_RPC_FAILURE && fake_has("mps-dies"))
        return FAKE_MPS_RPC_FAILURE;
    void *memory = bytes < (size_t)1 << 34 ? malloc(bytes) : NULL;
    if (!memory)
        return FAKE_OUT_OF_MEMORY;
    memset(memory, 0xcd, bytes);
    fake.objects++;
    *pointer = (cu_pointer)(uintptr_t)memory;
    return fake_is_broken() ? FAKE_ILLEGAL_ADDRESS : 0;
}

int cuMemFreeAsync(cu_pointer pointer, cu_stream stream) {
    fake_queue_wait(fake_stream(stream)->queue);
    fake.objects--;
    free((void *)(uintptr_t)pointer);
    return 0;
}

/* ---- for tests ---- */

int fake_counts(uint64_t *counts) {
    const uint64_t all[] = {fake.waits,       fake.launches, fake.queries, fake.writes,
                            fake.graph_waits, fake.stops,    fake.keepers};
    memcpy(counts, all, sizeof all);
    return 0;
}
