/*
 * executor.c: a real GPU as an executor: NVRTC compiles, the driver runs.
 *
 * Work runs as it does on the CPU (src/kernels/cpu/runtime/gridsmith_run.c): the buffers are copied to the GPU, the
 * calls run in order on one stream, each timed by events, and the buffers are copied back. A persistent kernel is
 * launched with as many workers as fit. A confined kernel is launched again until its queue is empty. If the call has
 * stops, it is stopped through a second stream after a random time, and the next launch may use other SMs.
 *
 * Nothing waits forever: while a kernel runs the host polls it, and gives up after the seconds that the work allows.
 */
#include "executor.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- modules ---- */

/* Whether a name ends as that of a form. */
static bool is_named_as(const char *symbol, enum gs_form form) {
    const char *end = form == GS_FORM_CONFINED ? "__confined" : "__persistent";
    size_t length = strlen(symbol), tail = strlen(end);
    return length > tail && strcmp(symbol + length - tail, end) == 0;
}

/* Finds a kernel of the loaded module. `cost` is what ptxas has reported, or NULL. */
static gs_code load_kernel(cuda_module *module, const char *name, const char *symbol, const gs_cost *cost,
                           gs_error *error) {
    const cu_api *api = &module->owner->api;
    cuda_kernel *kernel = &module->kernels[module->count++];
    kernel->name = strdup(name);
    if (!kernel->name)
        return gs_fail_memory(error);
    int failed = gs_cuda_kernel_find(api, module->loaded.data[0], symbol, &kernel->kernel);
    if (!failed && is_named_as(symbol, GS_FORM_CONFINED))
        gs_cuda_kernel_is_form(api, &kernel->kernel, sizeof(gs_confined_parameter));
    if (!failed && is_named_as(symbol, GS_FORM_PERSISTENT))
        gs_cuda_kernel_is_form(api, &kernel->kernel, sizeof(gs_persistent_parameter));
    kernel->cost = cost ? *cost : (gs_cost){0};
    kernel->cost.registers = kernel->kernel.registers;
    kernel->cost.local_bytes = kernel->kernel.local_bytes;
    kernel->cost.shared_bytes = kernel->kernel.shared_bytes;
    return gs_cuda_check(api, failed, "finding the kernel", error);
}

static gs_code load_cubin(cuda_module *module, const gs_build *build, gs_error *error) {
    const cu_api *api = &module->owner->api;
    gs_cubin cubin;
    gs_code code = gs_cubin_make(build, module->owner->architecture, &cubin, error);
    if (code != GS_OK)
        return code;
    code = gs_cuda_check(api, gs_modules_load(&module->loaded, api, cubin.image), "loading the kernels", error);
    for (size_t i = 0; i < build->kernel_count && code == GS_OK; i++)
        code = load_kernel(module, build->kernels[i], cubin.symbols[i], &cubin.costs[i], error);
    gs_cubin_free(&cubin);
    return code;
}

/* Without an assembler, the driver compiles PTX while it loads it. */
static gs_code load_ptx(cuda_module *module, const gs_build *build, gs_error *error) {
    const cu_api *api = &module->owner->api;
    gs_text text = {0};
    gs_text_put(&text, build->text, build->size);
    gs_code code = text.failed ? gs_fail_memory(error) : GS_OK;
    int state = code == GS_OK ? gs_modules_load(&module->loaded, api, text.data) : 0;
    if (state)
        code = gs_fail(error, GS_E_KERNEL, "%s: the driver does not take this PTX (CUDA error %d)", build->name, state);
    for (size_t i = 0; i < build->kernel_count && code == GS_OK; i++)
        code = load_kernel(module, build->kernels[i], build->kernels[i], NULL, error);
    gs_text_free(&text);
    return code;
}

static gs_code load_module(cuda_module *module, const gs_build *build, gs_error *error) {
    char ptxas[1000];
    bool is_for_driver = gs_build_is_ptx(build) && !build->max_registers && !gs_assembler_find(ptxas, sizeof ptxas);
    return is_for_driver ? load_ptx(module, build, error) : load_cubin(module, build, error);
}

static void *cuda_compile(gs_executor *executor, const gs_build *build, gs_error *error) {
    cuda_executor *cuda = executor->inside;
    cuda_module *module = calloc(1, sizeof *module);
    cuda_kernel *kernels = calloc(build->kernel_count + 1, sizeof *kernels);
    if (!module || !kernels) {
        free(module);
        free(kernels);
        gs_fail_memory(error);
        return NULL;
    }
    *module = (cuda_module){.owner = cuda, .next = cuda->first, .kernels = kernels};
    cuda->first = module;
    gs_code code = load_module(module, build, error);
    return code == GS_OK ? module : NULL;
}

cuda_kernel *gs_cuda_kernel(cuda_module *module, const char *name) {
    for (size_t i = 0; i < module->count; i++)
        if (strcmp(module->kernels[i].name, name) == 0)
            return &module->kernels[i];
    return NULL;
}

static int blocks_per_sm(const cuda_executor *cuda, cuda_kernel *kernel, const uint32_t block[3], size_t shared_bytes) {
    return gs_cuda_kernel_fit(&cuda->api, &kernel->kernel, block[0] * block[1] * block[2], shared_bytes);
}

static gs_code cuda_cost(void *inside, const char *name, const uint32_t block[3], size_t shared_bytes, gs_cost *cost,
                         gs_error *error) {
    cuda_module *module = inside;
    cuda_kernel *kernel = gs_cuda_kernel(module, name);
    if (!kernel)
        return gs_fail(error, GS_E_USAGE, "there is no kernel %.100s in this program", name);
    *cost = kernel->cost;
    cost->sms = module->owner->sms;
    cost->blocks_per_sm = blocks_per_sm(module->owner, kernel, block, shared_bytes);
    return GS_OK;
}

/* ---- running ---- */

struct play {
    cuda_executor *cuda;
    cuda_module *module;
    gs_work *work;
    cu_pointer *buffers;
    cu_pointer memory;  /* of the GPU, for the words of: */
    gs_control control; /* of reshaped kernels */
    gs_control_words words;
    gs_random random;
};

static void free_buffers(const cu_api *api, cu_pointer *buffers, size_t count) {
    for (size_t i = 0; buffers && i < count; i++)
        if (buffers[i])
            api->free(buffers[i]);
    free(buffers);
}

static void free_kept(cuda_executor *cuda) {
    free_buffers(&cuda->api, cuda->kept, cuda->kept_count);
    cuda->kept = NULL;
    cuda->kept_count = cuda->kept_as = 0;
}

/* Takes the buffers of the work before. False: there are none for this one. */
static bool take_kept(struct play *play) {
    cuda_executor *cuda = play->cuda;
    if (!play->work->kept_as || play->work->kept_as != cuda->kept_as || cuda->kept_count != play->work->buffers.count) {
        free_kept(cuda);
        return false;
    }
    free(play->buffers);
    play->buffers = cuda->kept;
    cuda->kept = NULL;
    cuda->kept_count = cuda->kept_as = 0;
    return true;
}

static void keep(struct play *play) {
    play->cuda->kept = play->buffers;
    play->cuda->kept_count = play->work->buffers.count;
    play->cuda->kept_as = play->work->kept_as;
    play->buffers = NULL;
}

static gs_code send_buffers(struct play *play, gs_error *error) {
    const cu_api *api = &play->cuda->api;
    cu_stream stream = play->cuda->stream;
    bool has_kept = take_kept(play);
    int failed = api->alloc(&play->memory, sizeof play->words);
    play->control = gs_control_at(play->memory, &play->words, false);
    failed = failed ? failed : gs_control_clear(&play->control, api, stream);
    for (size_t i = 0; i < play->work->buffers.count && !failed && !has_kept; i++) {
        const struct gs_work_buffer *buffer = &play->work->buffers.data[i];
        failed = api->alloc(&play->buffers[i], buffer->bytes ? buffer->bytes : 1);
        if (!failed && buffer->bytes)
            failed = api->copy_in_later(play->buffers[i], buffer->data, buffer->bytes, stream);
    }
    failed = failed ? failed : api->stream_wait(stream);
    return gs_cuda_check(api, failed, "sending buffers to the GPU", error);
}

static gs_code fetch_buffers(struct play *play, gs_error *error) {
    const cu_api *api = &play->cuda->api;
    int failed = 0;
    for (size_t i = 0; i < play->work->buffers.count && !failed; i++)
        if (play->work->buffers.data[i].bytes)
            failed =
                api->copy_out(play->work->buffers.data[i].data, play->buffers[i], play->work->buffers.data[i].bytes);
    return gs_cuda_check(api, failed, "fetching buffers from the GPU", error);
}

/* Stops the kernel, and waits for it. */
static int stop_kernel(struct play *play, int64_t deadline_ns) {
    const cu_api *api = &play->cuda->api;
    int state = gs_control_stop(&play->control, api, play->cuda->signals);
    if (!state)
        state = gs_cuda_wait_until(api, play->cuda->stream, deadline_ns);
    if (!state) /* the kernel may have ended by itself, and the next launch must not see the word */
        state = api->stream_wait(play->cuda->signals);
    return state;
}

/* Waits for the stream. Stops the kernel after `stop_after_ns`; 0: never. */
static gs_code wait_for_end(struct play *play, int64_t stop_after_ns, gs_error *error) {
    int64_t began = gs_now_ns(), deadline = play->work->seconds ? began + play->work->seconds * 1000000000LL : 0;
    int64_t until = stop_after_ns ? began + stop_after_ns : deadline;
    int state = gs_cuda_wait_until(&play->cuda->api, play->cuda->stream, until);
    if (state == CU_ERROR_NOT_READY && stop_after_ns)
        state = stop_kernel(play, deadline);
    if (state == CU_ERROR_NOT_READY)
        return gs_fail(error, GS_E_KERNEL, "not done after %u seconds", play->work->seconds);
    return state ? gs_fail(error, GS_E_KERNEL, "the kernel failed (CUDA error %d)", state) : GS_OK;
}

static gs_code launch_and_time(struct play *play, cuda_kernel *kernel, gs_job_call *call, const uint32_t grid[3],
                               void **arguments, int64_t stop_after_ns, gs_error *error) {
    cuda_executor *cuda = play->cuda;
    const cu_api *api = &cuda->api;
    const cu_call launched = {.grid = {grid[0], grid[1], grid[2]},
                              .block = {call->block[0], call->block[1], call->block[2]},
                              .shared_bytes = call->shared_bytes,
                              .stream = cuda->stream};
    float elapsed_ms = 0;
    int failed = api->event_record(cuda->began, cuda->stream);
    if (!failed)
        failed = gs_cuda_launch(api, &kernel->kernel, &launched, arguments);
    if (!failed)
        failed = api->event_record(cuda->ended, cuda->stream);
    gs_code code = gs_cuda_check(api, failed, "launching", error);
    if (code == GS_OK)
        code = wait_for_end(play, stop_after_ns, error);
    if (code == GS_OK)
        code = gs_cuda_check(api, api->event_elapsed(&elapsed_ms, cuda->began, cuda->ended), "timing", error);
    call->elapsed_ns += (uint64_t)((double)elapsed_ms * 1e6);
    call->launches++;
    return code;
}

/* Allows all SMs, or a random half of them if the kernel is to move (`some`), with at least one of the first 32. */
static gs_code send_control(struct play *play, bool some, uint64_t next, gs_error *error) {
    uint32_t mask[GS_JOB_SMS / 32] = {0};
    int count = (int)gs_min(play->cuda->sms, GS_JOB_SMS);
    for (int i = 0; i < count; i++)
        if (!some || gs_random_chance(&play->random, 50))
            mask[i / 32] |= 1u << i % 32;
    if (some)
        mask[0] |= 1u << gs_random_from(&play->random, 0, count < 32 ? count - 1 : 31);
    const cu_api *api = &play->cuda->api;
    int failed = gs_control_begin(&play->control, next, mask, api, play->cuda->stream);
    failed = failed ? failed : api->stream_wait(play->cuda->stream);
    return gs_cuda_check(api, failed, "preparing the queue", error);
}

static gs_code read_counter(struct play *play, gs_error *error) {
    const cu_api *api = &play->cuda->api;
    int failed = gs_control_fetch(&play->control, api, play->cuda->stream);
    failed = failed ? failed : api->stream_wait(play->cuda->stream);
    return gs_cuda_check(api, failed, "reading the queue", error);
}

static uint64_t blocks_of(const gs_job_call *call) {
    return (uint64_t)call->grid[0] * call->grid[1] * call->grid[2];
}

/* How many worker blocks of the first launch begin with the block of their number: all, or, if the kernel is to be
   stopped, a random number of them. */
static uint32_t draw_given(struct play *play, const gs_job_call *call) {
    int64_t most = gs_min(call->workers, (int64_t)blocks_of(call));
    return (uint32_t)(!call->gives_first ? 0 : call->stops ? gs_random_from(&play->random, 0, most) : most);
}

static gs_code run_confined(struct play *play, cuda_kernel *kernel, gs_job_call *call, void **arguments,
                            uint64_t counts, gs_error *error) {
    enum { LATEST_STOP_NS = 300000 };
    const uint32_t worker_grid[3] = {call->workers, 1, 1};
    gs_confined_parameter grid =
        gs_control_grid(&play->control, call->grid, call->shared_bytes, call->task_blocks, counts);
    uint64_t next = 0;
    uint32_t stops = call->stops;
    gs_grid_give(&grid, draw_given(play, call));
    arguments[call->arguments] = &grid;
    gs_code code = GS_OK;
    while (!gs_grid_is_finished(&grid, next) && code == GS_OK) {
        int64_t stop_after_ns = stops ? gs_random_from(&play->random, 1, LATEST_STOP_NS) : 0;
        stops -= stops > 0;
        code = send_control(play, call->stops > 0, next, error);
        if (code == GS_OK)
            code = launch_and_time(play, kernel, call, worker_grid, arguments, stop_after_ns, error);
        if (code == GS_OK)
            code = read_counter(play, error);
        next = gs_control_next(&play->control);
        gs_grid_continue(&grid);
        if (code == GS_OK && !call->stops && !gs_grid_is_finished(&grid, next))
            code = gs_fail(error, GS_E_KERNEL, "the worker blocks exited with blocks unprocessed");
    }
    return code;
}

static gs_code run_persistent(struct play *play, cuda_kernel *kernel, gs_job_call *call, void **arguments,
                              uint64_t counts, gs_error *error) {
    const uint32_t worker_grid[3] = {call->workers, 1, 1};
    gs_persistent_parameter grid =
        gs_control_persistent(&play->control, call->grid, call->shared_bytes, call->task_blocks, counts);
    arguments[call->arguments] = &grid;
    return launch_and_time(play, kernel, call, worker_grid, arguments, 0, error);
}

static gs_code fail_fit(const cuda_kernel *kernel, const gs_job_call *call, gs_error *error) {
    return gs_fail(error, GS_E_NO_FIT,
                   "no block of the form fits on an SM: %u threads of %d registers, %d bytes of static and %llu of "
                   "dynamic shared memory, of which %u are the form's",
                   call->block[0] * call->block[1] * call->block[2], kernel->cost.registers, kernel->cost.shared_bytes,
                   (unsigned long long)(call->shared_bytes + kernel->kernel.form_shared), kernel->kernel.form_shared);
}

static gs_code run_reshaped(struct play *play, cuda_kernel *kernel, gs_job_call *call, void **arguments,
                            gs_error *error) {
    uint64_t counts = call->counts < 0 ? 0 : play->buffers[call->counts];
    if (blocks_of(call) > GS_JOB_BLOCKS || call->task_blocks > GS_JOB_TASK)
        return gs_fail(error, GS_E_USAGE, "a reshaped kernel has at most %d blocks, %d per task", GS_JOB_BLOCKS,
                       GS_JOB_TASK);
    if (!call->workers) {
        int fit = blocks_per_sm(play->cuda, kernel, call->block, call->shared_bytes);
        if (fit <= 0)
            return fail_fit(kernel, call, error);
        call->workers = (uint32_t)(fit * play->cuda->sms);
    }
    if (call->form == GS_FORM_PERSISTENT || !call->stops) /* all SMs are allowed, so every worker stays */
        call->workers = (uint32_t)gs_min(call->workers, (int64_t)blocks_of(call));
    return call->form == GS_FORM_CONFINED ? run_confined(play, kernel, call, arguments, counts, error)
                                          : run_persistent(play, kernel, call, arguments, counts, error);
}

static gs_code run_call(struct play *play, gs_job_call *call, gs_error *error) {
    enum { MOST_ARGUMENTS = 128 };
    cuda_kernel *kernel = gs_cuda_kernel(play->module, call->kernel);
    void *arguments[MOST_ARGUMENTS];
    bool has_workers = call->form == GS_FORM_PERSISTENT || call->form == GS_FORM_CONFINED;
    if (!kernel || call->arguments >= MOST_ARGUMENTS)
        return gs_fail(error, GS_E_USAGE, "there is no kernel %.100s in this program", call->kernel);
    gs_cuda_point(arguments, play->work->arguments.data + call->first, call->arguments, play->buffers);
    call->elapsed_ns = call->launches = 0;
    if (!call->grid[0] || !call->grid[1] || !call->grid[2])
        return GS_OK;
    return has_workers ? run_reshaped(play, kernel, call, arguments, error)
                       : launch_and_time(play, kernel, call, call->grid, arguments, 0, error);
}

static gs_code cuda_run(void *inside, gs_work *work, gs_error *error) {
    cuda_module *module = inside;
    const cu_api *api = &module->owner->api;
    struct play play = {.cuda = module->owner,
                        .module = module,
                        .work = work,
                        .buffers = calloc(work->buffers.count + 1, sizeof *play.buffers),
                        .random = gs_random_at(work->seed, 0)};
    gs_code code = work->failed || !play.buffers ? gs_fail_memory(error) : send_buffers(&play, error);
    for (size_t i = 0; i < work->calls.count && code == GS_OK; i++)
        code = run_call(&play, &work->calls.data[i], error);
    if (code == GS_OK && !work->discards_results)
        code = fetch_buffers(&play, error);
    if (code == GS_OK && work->kept_as && work->discards_results)
        keep(&play);
    free_buffers(api, play.buffers, work->buffers.count);
    if (play.memory)
        api->free(play.memory);
    return code;
}

/* ---- opening and closing ---- */

static gs_code open_device(cuda_executor *cuda, const char *rest, gs_error *error) {
    const cu_api *api = &cuda->api;
    int major = 0, minor = 0;
    gs_code code = gs_cuda_open_gpu(api, rest, &cuda->device, &cuda->has_context, error);
    if (code != GS_OK)
        return code;
    int failed = api->stream_new(&cuda->stream, CU_STREAM_NON_BLOCKING, 0);
    failed = failed ? failed : api->stream_new(&cuda->signals, CU_STREAM_NON_BLOCKING, 0);
    failed = failed ? failed : api->event_new(&cuda->began, 0);
    failed = failed ? failed : api->event_new(&cuda->ended, 0);
    api->device_attribute(&cuda->sms, CU_DEVICE_SMS, cuda->device);
    api->device_attribute(&major, CU_DEVICE_MAJOR, cuda->device);
    api->device_attribute(&minor, CU_DEVICE_MINOR, cuda->device);
    cuda->architecture = major * 10 + minor;
    return gs_cuda_check(api, failed, "making streams", error);
}

static void free_modules(cuda_executor *cuda) {
    for (cuda_module *module = cuda->first, *next; module; module = next) {
        next = module->next;
        gs_modules_unload(&module->loaded, &cuda->api);
        for (size_t i = 0; i < module->count; i++)
            free(module->kernels[i].name);
        free(module->kernels);
        free(module);
    }
}

static void cuda_close(gs_executor *executor) {
    cuda_executor *cuda = executor->inside;
    if (cuda->has_context) {
        free_kept(cuda);
        free_modules(cuda);
        if (cuda->began)
            cuda->api.event_free(cuda->began);
        if (cuda->ended)
            cuda->api.event_free(cuda->ended);
        if (cuda->signals)
            cuda->api.stream_free(cuda->signals);
        if (cuda->stream)
            cuda->api.stream_free(cuda->stream);
        cuda->api.context_release(cuda->device);
    }
    gs_cuda_close(&cuda->api);
    free(cuda);
    free(executor);
}

gs_executor *gs_executor_cuda(const char *rest, gs_error *error) {
    static const gs_executor_ops ops = {
        .name = "cuda", .compile = cuda_compile, .run = cuda_run, .cost = cuda_cost, .close = cuda_close};
    gs_executor *executor = calloc(1, sizeof *executor);
    cuda_executor *cuda = calloc(1, sizeof *cuda);
    if (!executor || !cuda) {
        free(executor);
        free(cuda);
        gs_fail_memory(error);
        return NULL;
    }
    *executor = (gs_executor){.ops = &ops, .inside = cuda};
    gs_code code = gs_cuda_open(&cuda->api, error);
    if (code == GS_OK)
        code = open_device(cuda, rest, error);
    if (code == GS_OK) {
        gs_cuda_name_gpu(&cuda->api, cuda->device, executor->uuid, sizeof executor->uuid, executor->driver,
                         sizeof executor->driver);
        return executor;
    }
    cuda_close(executor);
    return NULL;
}
