/*
 * cuda_backend.c: a GPU, for the worker.
 *
 * A lane is a stream and a word of pinned memory. Behind each operation the stream writes its number into the word, so
 * that the loop sees what is done without a call of the driver. Such a write delays the next kernel by 2 to 3 us,
 * because all memory is made visible to the host before it. So launches whose report is deferred do without it.
 *
 * Nothing here may wait for a kernel, because another one may run for ever:
 *   - Memory comes from the driver's pool, in the order of a stream of its own. cuMemFree would wait for all kernels.
 *   - Memory is cleared by copies of zeros, which need no SM; by a kernel only where it is large, and nothing is
 *     confined.
 *   - Kernels are loaded whole and early (CUDA_MODULE_LOADING=EAGER), by the thread for modules: the driver waits there
 *     until no kernel runs.
 *   - A product of cuBLAS is computed once when it is loaded, by the thread for modules: then cuBLAS has chosen and
 *     loaded its kernel. Launches have a handle of their own, which that thread has tried, and so no lock.
 *   - Masks are copied to the GPU on a stream of their own.
 *
 * A kernel with more local memory than any before makes the driver wait at its launch; that cannot be avoided.
 *
 * The control of a confined launch lies in device memory. Its blocks read the counter and the mask with each task,
 * through the GPU's cache. There is no stop word to read: an empty mask stops a launch. The block loops of a lane use
 * its counters one after the other; the stream clears all of them when it starts again with the first.
 *
 * A loaded product has one workspace. Where another lane still uses it, a launch waits for that lane, on the GPU: the
 * lane is the same client's, because only one client has the module, and a lane goes to others when it is done.
 */
#define _GNU_SOURCE
#include "backend.h"
#include "kernels/cuda/cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HOST_FLAGS = CU_HOST_PORTABLE | CU_HOST_MAPPED };
enum { MOST_LANES = 4096, MOST_CONTROLS = 1024 };
enum { ZEROS = 4 << 20, COPIED_ZEROS = 64 << 20, PROGRESS_NS = 1000000 };

struct cuda_lane {
    gs_lane lane;
    cu_stream stream;
    cu_pointer done; /* the word, as the GPU sees it */
    cu_pointer counters;
};

/* Each is a line of the cache: its word is written by the GPU. */
struct lane_word {
    _Alignas(64) _Atomic uint32_t done;
};

enum { COUNTER_BYTES = 64, COUNTERS_BYTES = 16 * COUNTER_BYTES }; /* a line of the cache each; of a lane */

struct cuda_control {
    gs_control control; /* its words are pinned */
    struct cuda_control *next_free;
    int64_t asked_ns; /* when the counter was last asked for */
};

struct cuda_kernel {
    cu_kernel original, confined;
    bool needs_queue; /* see gs_ptx_form */
    /* Of a product. */
    cu_pointer workspace;
    uint64_t workspace_bytes;
    struct cuda_lane *last; /* that has used the workspace, or NULL; */
    uint32_t last_number;   /* and its work that did */
};

struct cuda_loaded {
    gs_loaded loaded;
    gs_modules modules; /* one for each part of the image */
    struct cuda_kernel *kernels;
};

/* Who uses a handle of cuBLAS: the thread for modules, or the loop. */
enum blas_user { LOADS, LAUNCHES, BLAS_USERS };

struct cuda {
    cu_api api;
    int device;
    bool has_context;
    cu_context context;
    int sms;
    cu_stream memory, control, progress;
    pthread_mutex_t memory_mutex; /* the loop needs memory for counts */
    void *zeros;
    struct lane_word *words;
    cu_pointer words_on_gpu, counters_on_gpu;
    uint32_t lane_count;
    cu_pointer controls_on_gpu;
    struct cuda_control controls[MOST_CONTROLS], *free_control;
    gs_blas *blas[BLAS_USERS]; /* NULL: no product was loaded */
    bool is_blas_tried;        /* both handles */
    cu_stream trials;          /* of products that are loaded */
    cu_event workspace_free;   /* of the loop: a stream waits for an event as it was recorded last */
    int (*wait_for_event)(cu_stream, cu_event, unsigned);
    _Atomic int confined; /* launches that run */
    _Atomic int of_mps;   /* not 0: the error of a call that found MPS gone */
};

/* A context of an MPS that has died never works again, but streams that are idle do not say so. */
static gs_code check(struct cuda *cuda, int failed, const char *what, gs_error *error) {
    if (failed >= CU_ERROR_MPS_FIRST && failed <= CU_ERROR_MPS_LAST)
        atomic_store(&cuda->of_mps, failed);
    return failed ? gs_cuda_check(&cuda->api, failed, what, error) : GS_OK;
}

/* ---- memory ---- */

static int clear(struct cuda *cuda, cu_pointer address, uint64_t bytes) {
    const cu_api *api = &cuda->api;
    if (bytes > COPIED_ZEROS && !atomic_load(&cuda->confined))
        return api->set_bytes_later(address, 0, bytes, cuda->memory);
    int failed = 0;
    for (uint64_t at = 0; at < bytes && !failed; at += ZEROS)
        failed = api->copy_in_later(address + at, cuda->zeros, bytes - at < ZEROS ? bytes - at : ZEROS, cuda->memory);
    return failed;
}

static gs_code cuda_allocate(void *device, uint64_t bytes, uint64_t *address, gs_error *error) {
    struct cuda *cuda = device;
    cu_pointer made = 0;
    pthread_mutex_lock(&cuda->memory_mutex);
    int failed = cuda->api.alloc_later(&made, bytes ? bytes : 1, cuda->memory);
    if (!failed)
        failed = clear(cuda, made, bytes);
    if (!failed)
        failed = cuda->api.stream_wait(cuda->memory);
    pthread_mutex_unlock(&cuda->memory_mutex);
    *address = made;
    if (failed == CU_ERROR_MEMORY)
        return gs_fail(error, GS_E_FULL, "no memory on the GPU for %llu bytes", (unsigned long long)bytes);
    return check(cuda, failed, "allocating", error);
}

static void cuda_free(void *device, uint64_t address, uint64_t bytes) {
    struct cuda *cuda = device;
    (void)bytes;
    pthread_mutex_lock(&cuda->memory_mutex);
    cuda->api.free_later(address, cuda->memory);
    pthread_mutex_unlock(&cuda->memory_mutex);
}

/* Memory that cannot be pinned is used as it is; copies are slower then. */
static gs_code cuda_map(void *device, int fd, uint64_t bytes, void **pointer, gs_error *error) {
    struct cuda *cuda = device;
    void *memory = bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (memory == MAP_FAILED)
        return gs_fail_system(error, "map", "the memory of a client");
    cuda->api.host_register(memory, bytes, 0);
    *pointer = memory;
    return GS_OK;
}

static void cuda_unmap(void *device, void *pointer, uint64_t bytes) {
    struct cuda *cuda = device;
    cuda->api.host_unregister(pointer);
    munmap(pointer, bytes);
}

static gs_code cuda_read(void *device, void *into, uint64_t address, uint64_t bytes, gs_error *error) {
    struct cuda *cuda = device;
    int failed = cuda->api.copy_out_later(into, address, bytes, cuda->control);
    if (!failed)
        failed = cuda->api.stream_wait(cuda->control);
    return check(cuda, failed, "reading", error);
}

/* ---- products of cuBLAS ---- */

static gs_code start_blas(struct cuda *cuda, gs_error *error) {
    enum { WITHOUT_TIME = 2 };
    const cu_api *api = &cuda->api;
    const char *missing = NULL;
    gs_code code = GS_OK;
    for (enum blas_user user = 0; user < BLAS_USERS && code == GS_OK; user++)
        if (!cuda->blas[user] && !(cuda->blas[user] = gs_blas_open(NULL, error)))
            code = error->code;
    if (code != GS_OK || cuda->workspace_free)
        return code;
    if (!gs_cuda_find(api->driver, "cuStreamWaitEvent", (void *)&cuda->wait_for_event, &missing))
        return gs_fail(error, GS_E_NO_GPU, "the driver has no %s", missing);
    int failed = cuda->trials ? 0 : api->stream_new(&cuda->trials, CU_STREAM_NON_BLOCKING, 0);
    if (!failed)
        failed = api->event_new(&cuda->workspace_free, WITHOUT_TIME);
    return check(cuda, failed, "preparing cuBLAS", error);
}

/* Computes it in memory that all three matrices share: only that it was computed matters. */
static gs_code try_product(struct cuda *cuda, enum blas_user user, const struct cuda_kernel *kernel,
                           const gs_product *product, cu_pointer memory, gs_error *error) {
    const cu_pointer matrices[GS_PRODUCT_MATRICES] = {memory, memory, memory};
    gs_code code = gs_blas_use(cuda->blas[user], cuda->trials, kernel->workspace, kernel->workspace_bytes, error);
    if (code == GS_OK)
        code = gs_blas_multiply(cuda->blas[user], product, matrices, error);
    int failed = code == GS_OK ? cuda->api.stream_wait(cuda->trials) : 0;
    return failed ? check(cuda, failed, "trying a product of cuBLAS", error) : code;
}

/* The first one tries the handle for launches, too: no launch uses that before. */
static gs_code try_handles(struct cuda *cuda, const struct cuda_kernel *kernel, const gs_product *product,
                           gs_error *error) {
    uint64_t most = 0, memory;
    for (size_t i = 0; i < GS_PRODUCT_MATRICES; i++)
        most = gs_max_u64(most, gs_product_bytes(product, i));
    gs_code code = cuda_allocate(cuda, most, &memory, error);
    if (code != GS_OK)
        return code;
    code = try_product(cuda, LOADS, kernel, product, memory, error);
    if (code == GS_OK && !cuda->is_blas_tried)
        code = try_product(cuda, LAUNCHES, kernel, product, memory, error);
    cuda->is_blas_tried = cuda->is_blas_tried || code == GS_OK;
    cuda_free(cuda, memory, most);
    return code;
}

static gs_code load_product(struct cuda *cuda, struct cuda_kernel *kernel, gs_loaded_kernel *loaded,
                            const gs_product *product, uint64_t workspace_bytes, gs_error *error) {
    gs_code code = start_blas(cuda, error);
    kernel->workspace_bytes = workspace_bytes;
    if (code == GS_OK)
        code = cuda_allocate(cuda, workspace_bytes, &kernel->workspace, error);
    if (code == GS_OK)
        code = try_handles(cuda, kernel, product, error);
    loaded->inside = kernel;
    for (loaded->parameters = 0; loaded->parameters < GS_PRODUCT_MATRICES; loaded->parameters++)
        loaded->sizes[loaded->parameters] = sizeof(cu_pointer);
    return code;
}

/* ---- modules ---- */

static gs_code find_function(struct cuda *cuda, const struct cuda_loaded *made, const gs_image_entry *entry,
                             cu_kernel *kernel, gs_error *error) {
    if (entry->part == GS_IMAGE_NO_PART)
        return GS_OK;
    if (entry->part >= made->modules.count)
        return gs_fail(error, GS_E_FORMAT, "the image has no part %u", entry->part);
    return check(cuda, gs_cuda_kernel_find(&cuda->api, made->modules.data[entry->part], entry->symbol, kernel),
                 "finding a kernel", error);
}

static gs_worker_cost cost_of(const cu_kernel *kernel) {
    return (gs_worker_cost){.registers = (uint32_t)kernel->registers,
                            .local_bytes = (uint32_t)kernel->local_bytes,
                            .shared_bytes = (uint32_t)kernel->shared_bytes + kernel->form_shared};
}

static gs_code find_kernel(struct cuda *cuda, struct cuda_loaded *made, size_t number, const gs_image_stored *stored,
                           gs_error *error) {
    struct cuda_kernel *kernel = &made->kernels[number];
    gs_loaded_kernel *loaded = &made->loaded.kernels[number];
    gs_code code = find_function(cuda, made, &stored->original, &kernel->original, error);
    if (code == GS_OK)
        code = find_function(cuda, made, &stored->confined, &kernel->confined, error);
    if (code == GS_OK)
        code = gs_cuda_parameters(&cuda->api, kernel->original.function, GS_WORKER_PARAMETERS, loaded->sizes,
                                  &loaded->parameters, error);
    if (code == GS_OK)
        gs_cuda_kernel_is_form(&cuda->api, &kernel->confined, sizeof(gs_confined_parameter));
    kernel->needs_queue = stored->kernel.form.needs_queue;
    loaded->can_be_confined = kernel->confined.function != NULL;
    loaded->cost = cost_of(&kernel->confined);
    loaded->inside = kernel;
    return code;
}

static void cuda_unload(void *device, gs_loaded *loaded) {
    struct cuda *cuda = device;
    struct cuda_loaded *made = (struct cuda_loaded *)loaded;
    gs_modules_unload(&made->modules, &cuda->api);
    for (size_t i = 0; made->kernels && i < loaded->kernel_count; i++)
        if (made->kernels[i].workspace)
            cuda_free(cuda, made->kernels[i].workspace, made->kernels[i].workspace_bytes);
    free(made->kernels);
    free(made->loaded.kernels);
    free(made);
}

static gs_code cuda_load(void *device, const gs_image_file *file, gs_loaded **loaded, gs_error *error) {
    struct cuda *cuda = device;
    struct cuda_loaded *made = calloc(1, sizeof *made);
    if (!made)
        return gs_fail_memory(error);
    made->kernels = calloc(file->kernel_count + 1, sizeof *made->kernels);
    made->loaded.kernels = calloc(file->kernel_count + 1, sizeof *made->loaded.kernels);
    made->loaded.kernel_count = file->kernel_count;
    gs_code code = made->kernels && made->loaded.kernels ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; i < file->part_count && code == GS_OK; i++)
        code = check(cuda, gs_modules_load(&made->modules, &cuda->api, file->bytes + file->parts[i].at),
                     "loading the kernels", error);
    for (size_t i = 0; i < file->kernel_count && code == GS_OK; i++)
        code = file->kernels[i].product.rows ? load_product(cuda, &made->kernels[i], &made->loaded.kernels[i],
                                                            &file->kernels[i].product, file->device_bytes, error)
                                             : find_kernel(cuda, made, i, &file->kernels[i], error);
    if (code == GS_OK)
        *loaded = &made->loaded;
    else
        cuda_unload(device, &made->loaded);
    return code;
}

/* ---- lanes ---- */

static gs_lane *cuda_lane_new(void *device) {
    struct cuda *cuda = device;
    struct cuda_lane *made = cuda->lane_count < MOST_LANES ? calloc(1, sizeof *made) : NULL;
    if (!made || cuda->api.stream_new(&made->stream, CU_STREAM_NON_BLOCKING, 0) != 0) {
        free(made);
        return NULL;
    }
    made->lane.done = &cuda->words[cuda->lane_count].done;
    made->done = cuda->words_on_gpu + cuda->lane_count * sizeof(struct lane_word);
    made->lane.counter = made->counters = cuda->counters_on_gpu + cuda->lane_count * COUNTERS_BYTES;
    cuda->lane_count++;
    return &made->lane;
}

/* Counts what was given to the stream. */
static gs_code count_work(struct cuda *cuda, struct cuda_lane *lane, bool defers_report, int failed, const char *what,
                          gs_error *error) {
    if (!failed && !defers_report)
        failed = cuda->api.write_word(lane->stream, lane->done, lane->lane.given + 1, 0);
    if (!failed) {
        lane->lane.given++;
        lane->lane.is_unreported = defers_report;
    }
    return check(cuda, failed, what, error);
}

static gs_code cuda_copy(void *device, gs_lane *lane, bool in, uint64_t address, void *pointer, uint64_t bytes,
                         gs_error *error) {
    struct cuda *cuda = device;
    struct cuda_lane *mine = (struct cuda_lane *)lane;
    int failed = !bytes ? 0
                 : in   ? cuda->api.copy_in_later(address, pointer, bytes, mine->stream)
                        : cuda->api.copy_out_later(pointer, address, bytes, mine->stream);
    return count_work(cuda, mine, false, failed, "copying", error);
}

static gs_code cuda_fill(void *device, gs_lane *lane, uint64_t address, uint8_t value, uint64_t bytes,
                         gs_error *error) {
    struct cuda *cuda = device;
    struct cuda_lane *mine = (struct cuda_lane *)lane;
    int failed = bytes ? cuda->api.set_bytes_later(address, value, bytes, mine->stream) : 0;
    return count_work(cuda, mine, false, failed, "filling", error);
}

/* ---- launches ---- */

/* Finds how many blocks of the confined form fit on an SM. */
static gs_code count_fitting(const struct cuda *cuda, struct cuda_kernel *kernel, const gs_worker_launch *launch,
                             int *fit, gs_error *error) {
    uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
    *fit = gs_cuda_kernel_fit(&cuda->api, &kernel->confined, threads, launch->shared_bytes);
    if (!*fit)
        return gs_fail(error, GS_E_NO_FIT, "no block of %u threads with %llu bytes of shared memory fits on an SM",
                       threads, (unsigned long long)launch->shared_bytes + kernel->confined.form_shared);
    return GS_OK;
}

static gs_code allow_shared(const struct cuda *cuda, struct cuda_kernel *kernel, const gs_worker_launch *launch,
                            gs_error *error) {
    if (gs_cuda_kernel_allow_shared(&cuda->api, &kernel->original, launch->shared_bytes) != 0)
        return gs_fail(error, GS_E_NO_FIT, "a block with %llu bytes of shared memory never fits",
                       (unsigned long long)launch->shared_bytes);
    return GS_OK;
}

/* The counter of the next block loop. It was last used 16 launches ago. */
static int step_counter(const struct cuda *cuda, struct cuda_lane *lane) {
    lane->lane.counter += COUNTER_BYTES;
    if (lane->lane.counter < lane->counters + COUNTERS_BYTES)
        return 0;
    lane->lane.counter = lane->counters;
    return cuda->api.set_bytes_later(lane->counters, 0, COUNTERS_BYTES, lane->stream);
}

/* The grid of the confined form: as many blocks as fit on each SM, or as there are for each of a number of SMs, or as
   the launch may have on each. */
static uint32_t confined_grid(const struct cuda *cuda, int fit, const gs_worker_launch *launch, uint32_t sms) {
    int64_t per_sm = gs_divide_up((int64_t)gs_launch_blocks(launch), sms ? (int64_t)sms : cuda->sms);
    if (launch->workers)
        per_sm = gs_min(per_sm, launch->workers);
    return (uint32_t)(gs_min(fit, per_sm) * cuda->sms);
}

static int wait_for_workspace(const struct cuda *cuda, const struct cuda_lane *lane, const struct cuda_kernel *kernel) {
    const struct cuda_lane *last = kernel->last;
    if (!last || last == lane || gs_lane_is_done(&last->lane, kernel->last_number))
        return 0;
    int failed = cuda->api.event_record(cuda->workspace_free, last->stream);
    return failed ? failed : cuda->wait_for_event(lane->stream, cuda->workspace_free, 0);
}

static gs_code launch_product(struct cuda *cuda, struct cuda_lane *lane, struct cuda_kernel *kernel,
                              const gs_product *product, void **arguments, bool defers_report, gs_error *error) {
    cu_pointer matrices[GS_PRODUCT_MATRICES];
    for (size_t i = 0; i < GS_PRODUCT_MATRICES; i++)
        memcpy(&matrices[i], arguments[i], sizeof matrices[i]);
    gs_code code = check(cuda, wait_for_workspace(cuda, lane, kernel), "waiting for a workspace", error);
    if (code == GS_OK)
        code = gs_blas_use(cuda->blas[LAUNCHES], lane->stream, kernel->workspace, kernel->workspace_bytes, error);
    if (code == GS_OK)
        code = gs_blas_multiply(cuda->blas[LAUNCHES], product, matrices, error);
    if (code != GS_OK)
        return code;
    kernel->last = lane;
    kernel->last_number = lane->lane.given + 1;
    return count_work(cuda, lane, defers_report, 0, "launching", error);
}

static gs_code cuda_launch(void *device, gs_lane *lane, const gs_loaded_kernel *loaded, const gs_worker_launch *launch,
                           void **arguments, gs_control *control, uint32_t sms, gs_error *error) {
    struct cuda *cuda = device;
    struct cuda_lane *mine = (struct cuda_lane *)lane;
    struct cuda_kernel *kernel = loaded->inside;
    bool is_block_loop = !control && gs_lane_loops(lane, launch), is_original = !control && !is_block_loop;
    int fit = 0;
    if (loaded->product.rows)
        return launch_product(cuda, mine, kernel, &loaded->product, arguments, launch->defer_report, error);
    gs_code code = launch->shared_bytes > INT32_MAX
                       ? gs_fail(error, GS_E_NO_FIT, "a block exceeds an SM's shared memory")
                   : is_original ? allow_shared(cuda, kernel, launch, error)
                                 : count_fitting(cuda, kernel, launch, &fit, error);
    if (code != GS_OK)
        return code;
    cu_call call = {.grid = {is_original ? launch->grid[0] : confined_grid(cuda, fit, launch, sms),
                             is_original ? launch->grid[1] : 1, is_original ? launch->grid[2] : 1},
                    .block = {launch->block[0], launch->block[1], launch->block[2]},
                    .shared_bytes = launch->shared_bytes,
                    .stream = mine->stream};
    if (is_block_loop && !kernel->needs_queue) /* its blocks are never asked to leave */
        gs_grid_give(arguments[loaded->parameters], call.grid[0]);
    int failed = gs_cuda_launch(&cuda->api, is_original ? &kernel->original : &kernel->confined, &call, arguments);
    if (!failed && is_block_loop)
        failed = step_counter(cuda, mine);
    return count_work(cuda, mine, launch->defer_report && !control, failed, "launching", error);
}

/* ---- the state of a confined launch ---- */

static gs_control *cuda_control_new(void *device) {
    struct cuda *cuda = device;
    struct cuda_control *control = cuda->free_control;
    if (!control)
        return NULL;
    cuda->free_control = control->next_free;
    atomic_fetch_add(&cuda->confined, 1);
    return &control->control;
}

static void cuda_control_free(void *device, gs_control *control) {
    struct cuda *cuda = device;
    struct cuda_control *mine = (struct cuda_control *)control;
    mine->next_free = cuda->free_control;
    cuda->free_control = mine;
    atomic_fetch_sub(&cuda->confined, 1);
}

/* The progress stream may still copy the counter of the launch that had this control before: wait for it first. */
static gs_code cuda_control_begin(void *device, gs_control *control, uint64_t next, const uint32_t *mask,
                                  gs_error *error) {
    struct cuda *cuda = device;
    struct cuda_control *mine = (struct cuda_control *)control;
    int failed = cuda->api.stream_wait(cuda->progress);
    mine->asked_ns = gs_now_ns();
    if (!failed)
        failed = gs_control_begin(control, next, mask, &cuda->api, cuda->control);
    if (!failed)
        failed = cuda->api.stream_wait(cuda->control);
    return check(cuda, failed, "preparing a queue", error);
}

static gs_code cuda_control_confine(void *device, gs_control *control, const uint32_t *mask, gs_error *error) {
    struct cuda *cuda = device;
    return check(cuda, gs_control_confine(control, mask, &cuda->api, cuda->control), "changing a mask", error);
}

static uint64_t cuda_control_next(void *device, gs_control *control, bool exactly) {
    struct cuda *cuda = device;
    struct cuda_control *mine = (struct cuda_control *)control;
    cu_stream stream = exactly ? cuda->control : cuda->progress;
    int64_t now = exactly ? 0 : gs_now_ns();
    if (exactly || now - mine->asked_ns >= PROGRESS_NS) {
        int failed = exactly ? cuda->api.stream_wait(cuda->progress) : 0;
        if (!failed)
            failed = gs_control_fetch(control, &cuda->api, stream);
        if (exactly && !failed)
            failed = cuda->api.stream_wait(stream);
        mine->asked_ns = now ? now : mine->asked_ns;
    }
    return gs_control_next(control);
}

/* ---- opening ---- */

/* A fault stays with the context: every call returns it. That MPS has died is no kernel's fault. */
static gs_code cuda_check(void *device, gs_error *error) {
    struct cuda *cuda = device;
    int of_mps = atomic_load(&cuda->of_mps);
    if (of_mps)
        return check(cuda, of_mps, "the GPU", error);
    int state = cuda->api.stream_query(cuda->memory);
    if (!state || state == CU_ERROR_NOT_READY)
        return GS_OK;
    check(cuda, state, "the GPU", error);
    if (error)
        error->code = GS_E_KERNEL;
    return GS_E_KERNEL;
}

static void cuda_enter_thread(void *device) {
    struct cuda *cuda = device;
    cuda->api.context_set(cuda->context);
}

static gs_code make_streams(struct cuda *cuda, gs_error *error) {
    uint64_t keep = UINT64_MAX;
    cu_pool pool = NULL;
    int failed = cuda->api.stream_new(&cuda->memory, CU_STREAM_NON_BLOCKING, 0);
    if (!failed)
        failed = cuda->api.stream_new(&cuda->control, CU_STREAM_NON_BLOCKING, 0);
    if (!failed)
        failed = cuda->api.stream_new(&cuda->progress, CU_STREAM_NON_BLOCKING, 0);
    if (!failed)
        failed = cuda->api.device_pool(&pool, cuda->device);
    if (!failed)
        failed = cuda->api.pool_set(pool, CU_POOL_RELEASE_THRESHOLD, &keep);
    return check(cuda, failed, "making streams", error);
}

static gs_code make_memory(struct cuda *cuda, gs_error *error) {
    const cu_api *api = &cuda->api;
    void *words = NULL, *staged = NULL;
    int failed = api->host_alloc(&words, MOST_LANES * sizeof(struct lane_word), HOST_FLAGS);
    if (!failed)
        failed = api->host_pointer(&cuda->words_on_gpu, words, 0);
    if (!failed)
        failed = api->host_alloc(&cuda->zeros, ZEROS, HOST_FLAGS);
    if (!failed)
        failed = api->host_alloc(&staged, MOST_CONTROLS * sizeof(gs_control_words), HOST_FLAGS);
    if (!failed)
        failed = api->alloc(&cuda->controls_on_gpu, MOST_CONTROLS * sizeof(gs_control_words));
    if (!failed)
        failed = api->alloc(&cuda->counters_on_gpu, MOST_LANES * COUNTERS_BYTES);
    if (!failed)
        failed = api->set_bytes(cuda->counters_on_gpu, 0, MOST_LANES * COUNTERS_BYTES);
    if (failed)
        return check(cuda, failed, "allocating", error);
    memset(words, 0, MOST_LANES * sizeof(struct lane_word));
    memset(cuda->zeros, 0, ZEROS);
    memset(staged, 0, MOST_CONTROLS * sizeof(gs_control_words));
    cuda->words = words;
    for (int i = MOST_CONTROLS; i-- > 0;) {
        struct cuda_control *control = &cuda->controls[i];
        cu_pointer on_gpu = cuda->controls_on_gpu + (cu_pointer)i * sizeof(gs_control_words);
        *control = (struct cuda_control){.control = gs_control_at(on_gpu, (gs_control_words *)staged + i, false),
                                         .next_free = cuda->free_control};
        control->control.stop = 0;
        cuda->free_control = control;
    }
    return GS_OK;
}

static gs_code read_facts(struct cuda *cuda, gs_worker_facts *facts, gs_error *error) {
    const cu_api *api = &cuda->api;
    int major = 0, minor = 0;
    size_t bytes = 0;
    int failed = api->device_attribute(&cuda->sms, CU_DEVICE_SMS, cuda->device);
    if (!failed)
        failed = api->device_attribute(&major, CU_DEVICE_MAJOR, cuda->device);
    if (!failed)
        failed = api->device_attribute(&minor, CU_DEVICE_MINOR, cuda->device);
    if (!failed)
        failed = api->device_memory(&bytes, cuda->device);
    if (!failed)
        failed = api->context_get(&cuda->context);
    *facts =
        (gs_worker_facts){.is_gpu = true, .sms = cuda->sms, .architecture = major * 10 + minor, .memory_bytes = bytes};
    if (!failed)
        failed = api->device_name(facts->name, sizeof facts->name, cuda->device);
    return check(cuda, failed, "reading the properties of the GPU", error);
}

/* Nothing is ever closed: the driver does that at the end of the process. */
static void *cuda_open(gs_worker_loop *loop, const gs_worker_options *options, gs_worker_facts *facts,
                       gs_error *error) {
    struct cuda *cuda = calloc(1, sizeof *cuda);
    const char *rest = options->device + strlen("cuda");
    (void)loop;
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    if (!cuda) {
        gs_fail_memory(error);
        return NULL;
    }
    pthread_mutex_init(&cuda->memory_mutex, NULL);
    gs_code code = gs_cuda_open(&cuda->api, error);
    if (code == GS_OK)
        code = gs_cuda_open_gpu(&cuda->api, *rest == ':' ? rest + 1 : rest, &cuda->device, &cuda->has_context, error);
    if (code == GS_OK)
        code = read_facts(cuda, facts, error);
    if (code == GS_OK)
        code = make_streams(cuda, error);
    if (code == GS_OK)
        code = make_memory(cuda, error);
    return code == GS_OK ? cuda : NULL;
}

const gs_backend gs_backend_cuda = {.open = cuda_open,
                                    .enter_thread = cuda_enter_thread,
                                    .rings = false,
                                    .allocate = cuda_allocate,
                                    .free = cuda_free,
                                    .map = cuda_map,
                                    .unmap = cuda_unmap,
                                    .load = cuda_load,
                                    .unload = cuda_unload,
                                    .lane_new = cuda_lane_new,
                                    .copy = cuda_copy,
                                    .fill = cuda_fill,
                                    .launch = cuda_launch,
                                    .control_new = cuda_control_new,
                                    .control_free = cuda_control_free,
                                    .control_begin = cuda_control_begin,
                                    .control_confine = cuda_control_confine,
                                    .control_next = cuda_control_next,
                                    .read = cuda_read,
                                    .check = cuda_check};
