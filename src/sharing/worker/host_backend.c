/*
 * host_backend.c: emulates a GPU on the CPU, so that everything works without a GPU.
 *
 * Each SM is a thread that runs one block at a time. Copies have a separate thread, as a GPU has copy engines.
 * Kernels are shared libraries made by the host compiler (src/kernels/cpu/host.c); the threads of SMs run their blocks.
 *
 * A task at the head of its lane is offered to all SMs, in the order in which tasks became heads. An original kernel
 * gives each idle SM its next block. A confined one places one worker block on each SM that its mask allows, which
 * stays until the SM is no longer allowed or all blocks of the grid are taken; the launch is done when no worker is
 * left and none can come. So two launches on disjoint SMs share the cores as they share the SMs, and a kernel without
 * an SM waits.
 *
 * A real GPU uses no cores. So the emulated SMs have lower priority than the daemon, this process, and the clients.
 *
 * A kernel that crashes ends the process, after leaving a note: as with a GPU, everything is lost.
 */
#define _GNU_SOURCE
#include "backend.h"
#include "host_memory.h"

#include "kernels/cpu/runtime/gridsmith_run.h"
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DEFAULT_SMS = 8, MOST_SMS = 256, WORD_ALIGN = 16 };
#define DEFAULT_MEMORY ((uint64_t)1 << 30)

struct host;

/* A library: one part of an image. */
struct library {
    int file; /* stays open, because dlopen identifies libraries by their file name */
    void *handle;
    const gs_kernel *kernels;
    int count;
    void (*serve)(const gs_host_part *part);
    void (*where)(char *text, size_t size);
    int (*extend)(const void *address);
};

struct form {
    const struct library *library; /* or NULL */
    int number;
};

struct host_kernel {
    struct form original, confined;
};

struct host_loaded {
    gs_loaded loaded;
    struct library *libraries;
    size_t library_count;
    struct host_kernel *kernels;
    uint64_t bytes; /* of device memory */
};

struct host_control {
    gs_control control;
    gs_control_words words;
};

enum task_kind { COPY, FILL, WHOLE, CONFINED };

struct task {
    struct task *lane_next;     /* behind it on its lane */
    struct task *next, *before; /* in the list of offered tasks */
    struct host_lane *lane;
    enum task_kind kind;
    int running; /* SMs */
    void *to;
    const void *from;
    uint64_t bytes;
    uint8_t value;
    uint32_t number; /* on its lane */
    /* a kernel */
    bool defer_report;
    uint64_t tag, blocks;
    uint64_t local_bytes; /* of local variables, if all SMs run it */
    const struct form *form;
    gs_host_part part;
    struct host_control *control;
    unsigned long long next_block;
    void *arguments[GS_WORKER_PARAMETERS + 1];
    _Alignas(WORD_ALIGN) unsigned char values[];
};

struct host_lane {
    gs_lane lane;
    _Atomic uint32_t done;
    uint32_t unreported; /* ended tasks that are not yet counted in `done` */
    struct task *first, **last;
};

struct sm {
    struct host *host;
    uint32_t number;
};

struct host {
    gs_worker_loop *loop;
    pthread_mutex_t mutex;
    pthread_cond_t for_sms, for_copier; /* the list of tasks has changed */
    struct task *offered, *offered_last;
    gs_host_memory memory;
    uint32_t sm_count;
    struct sm sms[MOST_SMS];
};

/* For signal handlers: state of the thread. */
static _Thread_local const struct task *running_task;
static _Thread_local sigjmp_buf *volatile copying; /* where a faulting copy continues */
static gs_worker_loop *the_loop;                   /* for signal handlers */
static struct host *the_host;                      /* for kernels, which take memory */

/* ---- tasks; under the mutex ---- */

static bool may_run_on(const struct host_control *control, uint32_t sm) {
    return gs_shared_word(&control->words.mask[sm / 32]) >> sm % 32 & 1;
}

static bool allows_none(const struct host_control *control) {
    uint32_t any = 0;
    for (int i = 0; i < GS_WORKER_MASK_WORDS; i++)
        any |= gs_shared_word(&control->words.mask[i]);
    return !any;
}

static bool has_blocks(const struct task *task) {
    uint64_t next = task->kind == CONFINED ? gs_control_next(&task->control->control)
                                           : __atomic_load_n(&task->next_block, __ATOMIC_ACQUIRE);
    return next < task->blocks;
}

static bool is_for(const struct task *task, uint32_t sm) {
    return (task->kind == WHOLE && has_blocks(task)) ||
           (task->kind == CONFINED && has_blocks(task) && may_run_on(task->control, sm));
}

static bool is_over(const struct task *task) {
    return !task->running && (!has_blocks(task) || (task->kind == CONFINED && allows_none(task->control)));
}

static bool is_kernel(const struct task *task) {
    return task->kind == WHOLE || task->kind == CONFINED;
}

static void end_task(struct host *host, struct task *task);

/* A launch that arrives when all blocks are taken, or when no SM is allowed, has nothing to do. */
static void offer_task(struct host *host, struct task *task) {
    task->next = NULL;
    task->before = host->offered_last;
    *(host->offered_last ? &host->offered_last->next : &host->offered) = task;
    host->offered_last = task;
    if (task->kind == CONFINED && is_over(task))
        end_task(host, task);
    else if (is_kernel(task))
        pthread_cond_broadcast(&host->for_sms);
    else
        pthread_cond_signal(&host->for_copier);
}

static void withdraw_task(struct host *host, struct task *task) {
    *(task->before ? &task->before->next : &host->offered) = task->next;
    *(task->next ? &task->next->before : &host->offered_last) = task->before;
}

static void end_task(struct host *host, struct task *task) {
    struct host_lane *lane = task->lane;
    withdraw_task(host, task);
    gs_host_memory_end_launch(&host->memory, task->local_bytes);
    lane->first = task->lane_next;
    if (lane->first)
        offer_task(host, lane->first);
    else
        lane->last = &lane->first;
    lane->unreported++;
    if (!task->defer_report) {
        atomic_fetch_add(&lane->done, lane->unreported);
        lane->unreported = 0;
        gs_loop_wake(host->loop);
    }
    free(task);
}

static void add_task(struct host *host, gs_lane *lane, struct task *task) {
    struct host_lane *mine = (struct host_lane *)lane;
    task->lane = mine;
    task->lane_next = NULL;
    pthread_mutex_lock(&host->mutex);
    task->number = ++lane->given;
    lane->is_unreported = task->defer_report;
    bool is_first = !mine->first;
    *mine->last = task;
    mine->last = &task->lane_next;
    if (is_first)
        offer_task(host, task);
    pthread_mutex_unlock(&host->mutex);
}

/* A confined launch may have several tasks; they all end together. */
static void end_all_over(struct host *host, const struct host_control *control) {
    for (struct task *task = host->offered, *next; task; task = next) {
        next = task->next;
        if (task->kind == CONFINED && task->control == control && is_over(task))
            end_task(host, task);
    }
}

/* ---- the threads ---- */

static void run_part(const struct task *task, uint32_t sm) {
    gs_host_part part = task->part;
    unsigned long long one = 0;
    part.sm = sm;
    part.arguments = (void **)(uintptr_t)task->arguments;
    part.next = task->kind == CONFINED ? &one : (unsigned long long *)(uintptr_t)&task->next_block;
    part.end = task->kind == CONFINED ? 1 : task->blocks;
    running_task = task;
    task->form->library->serve(&part);
    running_task = NULL;
}

static void *be_sm(void *argument) {
    const struct sm *sm = argument;
    struct host *host = sm->host;
    gs_thread_give_way(host->sm_count);
    pthread_setname_np(pthread_self(), "SM");
    pthread_mutex_lock(&host->mutex);
    for (;;) {
        struct task *task = host->offered;
        while (task && !is_for(task, sm->number))
            task = task->next;
        if (!task) {
            pthread_cond_wait(&host->for_sms, &host->mutex);
            continue;
        }
        task->running++;
        pthread_mutex_unlock(&host->mutex);
        run_part(task, sm->number);
        pthread_mutex_lock(&host->mutex);
        task->running--;
        if (task->kind == CONFINED)
            end_all_over(host, task->control);
        else if (is_over(task))
            end_task(host, task);
    }
    return NULL;
}

/* The host memory belongs to a client. A page that the system cannot provide is a fault of this copy, not of the
   process. */
static bool copy_bytes(const struct task *task) {
    sigjmp_buf here;
    if (sigsetjmp(here, 1) != 0) {
        copying = NULL;
        return false;
    }
    copying = &here;
    if (task->kind == FILL && task->bytes)
        memset(task->to, task->value, task->bytes);
    else if (task->kind == COPY)
        memcpy(task->to, task->from, task->bytes);
    copying = NULL;
    return true;
}

static void note_failure(gs_lane *lane, uint32_t number) {
    uint32_t bit = number % GS_LANE_FAILURES;
    atomic_fetch_or(&lane->failed[bit / 64], (uint64_t)1 << bit % 64);
}

static void *be_copier(void *argument) {
    struct host *host = argument;
    pthread_setname_np(pthread_self(), "copies");
    pthread_mutex_lock(&host->mutex);
    for (;;) {
        struct task *task = host->offered;
        while (task && is_kernel(task))
            task = task->next;
        if (!task) {
            pthread_cond_wait(&host->for_copier, &host->mutex);
            continue;
        }
        pthread_mutex_unlock(&host->mutex);
        if (!copy_bytes(task))
            note_failure(&task->lane->lane, task->number);
        pthread_mutex_lock(&host->mutex);
        end_task(host, task);
    }
    return NULL;
}

/* ---- kernels that fail ---- */

static void on_failure(const char *words) {
    gs_loop_give_up(the_loop, GS_E_KERNEL, running_task ? running_task->tag : GS_NO_TAG, words);
}

/* The process is out of some resource: the running kernel is not to blame. */
static void on_shortage(const char *words) {
    gs_loop_give_up(the_loop, GS_E_MEMORY, GS_NO_TAG, words);
}

static void on_signal(int number, siginfo_t *info, void *context) {
    char words[200], where[120] = "";
    (void)context;
    if (number == SIGBUS && copying)
        siglongjmp(*copying, 1);
    if (number == SIGSEGV && running_task && running_task->form->library->extend(info->si_addr))
        return;
    if (running_task)
        running_task->form->library->where(where, sizeof where);
    snprintf(words, sizeof words, "signal %d%s", number, where);
    on_failure(words);
}

static int take_memory(int kind, size_t bytes) {
    return gs_host_memory_extend(&the_host->memory, kind == GS_HOST_HEAP, bytes);
}

static void give_memory(int kind, size_t bytes) {
    gs_host_memory_shrink(&the_host->memory, kind == GS_HOST_HEAP, bytes);
}

/* On an alternate stack: the kernel's own may have overflowed. */
static void catch_signals(void) {
    static const int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_ONSTACK | SA_SIGINFO};
    for (size_t i = 0; i < GS_COUNT(caught); i++)
        sigaction(caught[i], &action, NULL);
}

/* ---- memory ---- */

static gs_code host_allocate(void *device, uint64_t bytes, uint64_t *address, gs_error *error) {
    return gs_host_memory_allocate(&((struct host *)device)->memory, bytes, address, error);
}

static void host_free(void *device, uint64_t address, uint64_t bytes) {
    gs_host_memory_free(&((struct host *)device)->memory, address, bytes);
}

static gs_code host_map(void *device, int fd, uint64_t bytes, void **pointer, gs_error *error) {
    (void)device;
    void *memory = bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (memory == MAP_FAILED)
        return gs_fail_system(error, "map", "the memory of a client");
    *pointer = memory;
    return GS_OK;
}

static void host_unmap(void *device, void *pointer, uint64_t bytes) {
    (void)device;
    gs_host_unmap(pointer, bytes);
}

/* ---- modules ---- */

static bool find_function(void *handle, const char *name, void *pointer) {
    void *symbol = dlsym(handle, name);
    memcpy(pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

static gs_code open_library(struct library *library, const char *bytes, size_t count, gs_error *error) {
    char path[40];
    library->file = memfd_create("gridsmith-kernels", MFD_CLOEXEC);
    bool is_written = library->file >= 0 && write(library->file, bytes, count) == (ssize_t)count;
    snprintf(path, sizeof path, "/proc/self/fd/%d", library->file);
    library->handle = is_written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void (**on)(const char *) = NULL, (**on_short)(const char *) = NULL, (**give)(int, size_t) = NULL;
    int (**take)(int, size_t) = NULL;
    const int *kernel_count = NULL;
    if (!library->handle || !find_function(library->handle, "gs_host_serve", &library->serve) ||
        !find_function(library->handle, "gs_host_where", &library->where) ||
        !find_function(library->handle, "gs_kernels", &library->kernels) ||
        !find_function(library->handle, "gs_kernel_count", &kernel_count) ||
        !find_function(library->handle, "gs_host_on_failure", &on) ||
        !find_function(library->handle, "gs_host_on_shortage", &on_short) ||
        !find_function(library->handle, "gs_host_take_memory", &take) ||
        !find_function(library->handle, "gs_host_give_memory", &give) ||
        !find_function(library->handle, "gs_host_extend_stack", &library->extend))
        return gs_fail(error, GS_E_KERNEL, "the kernels cannot be loaded: %.100s",
                       library->handle ? "they were made for another version"
                       : is_written    ? dlerror()
                                       : "out of memory");
    *on = on_failure;
    *on_short = on_shortage;
    *take = take_memory;
    *give = give_memory;
    library->count = *kernel_count;
    return GS_OK;
}

static gs_code find_form(const struct host_loaded *made, const gs_image_entry *entry, struct form *form,
                         gs_error *error) {
    if (entry->part == GS_IMAGE_NO_PART)
        return GS_OK;
    const struct library *library = entry->part < made->library_count ? &made->libraries[entry->part] : NULL;
    for (int i = 0; library && i < library->count; i++)
        if (strcmp(library->kernels[i].name, entry->symbol) == 0) {
            *form = (struct form){library, i};
            return GS_OK;
        }
    return gs_fail(error, GS_E_KERNEL, "the image has no kernel %.100s", entry->symbol);
}

static gs_code find_kernel(struct host_loaded *made, size_t number, const gs_image_stored *stored, gs_error *error) {
    struct host_kernel *kernel = &made->kernels[number];
    gs_loaded_kernel *loaded = &made->loaded.kernels[number];
    gs_code code = find_form(made, &stored->original, &kernel->original, error);
    if (code == GS_OK)
        code = find_form(made, &stored->confined, &kernel->confined, error);
    if (code != GS_OK)
        return code;
    const gs_kernel *found = &kernel->original.library->kernels[kernel->original.number];
    if (found->parameters > GS_WORKER_PARAMETERS)
        return gs_fail(error, GS_E_KERNEL, "%.100s has more than %d parameters", found->name, GS_WORKER_PARAMETERS);
    loaded->can_be_confined = kernel->confined.library != NULL;
    loaded->parameters = found->parameters;
    memcpy(loaded->sizes, found->sizes, found->parameters * sizeof *found->sizes);
    loaded->inside = kernel;
    return GS_OK;
}

static void host_unload(void *device, gs_loaded *loaded) {
    struct host_loaded *made = (struct host_loaded *)loaded;
    for (size_t i = 0; i < made->library_count; i++) {
        if (made->libraries[i].handle)
            dlclose(made->libraries[i].handle);
        gs_close_fd(&made->libraries[i].file);
    }
    gs_host_memory_give(&((struct host *)device)->memory, made->bytes);
    free(made->libraries);
    free(made->kernels);
    free(made->loaded.kernels);
    free(made);
}

static gs_code host_load(void *device, const gs_image_file *file, gs_loaded **loaded, gs_error *error) {
    struct host_loaded *made = calloc(1, sizeof *made);
    if (!made)
        return gs_fail_memory(error);
    made->libraries = calloc(file->part_count + 1, sizeof *made->libraries);
    made->kernels = calloc(file->kernel_count + 1, sizeof *made->kernels);
    made->loaded.kernels = calloc(file->kernel_count + 1, sizeof *made->loaded.kernels);
    gs_code code = made->libraries && made->kernels && made->loaded.kernels ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK)
        code = gs_host_memory_take(&((struct host *)device)->memory, file->device_bytes, "a module", error);
    made->bytes = code == GS_OK ? file->device_bytes : 0;
    for (size_t i = 0; i < file->part_count && code == GS_OK; i++, made->library_count = i)
        code = open_library(&made->libraries[i], file->bytes + file->parts[i].at, file->parts[i].bytes, error);
    for (size_t i = 0; i < file->kernel_count && code == GS_OK; i++)
        code = find_kernel(made, i, &file->kernels[i], error);
    made->loaded.kernel_count = file->kernel_count;
    if (code == GS_OK)
        *loaded = &made->loaded;
    else
        host_unload(device, &made->loaded);
    return code;
}

/* ---- work ---- */

static gs_lane *host_lane_new(void *device) {
    (void)device;
    struct host_lane *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->last = &made->first;
    made->lane.done = &made->done;
    return &made->lane;
}

static gs_code host_copy(void *device, gs_lane *lane, bool in, uint64_t address, void *pointer, uint64_t bytes,
                         gs_error *error) {
    struct task *task = calloc(1, sizeof *task);
    void *memory = (void *)(uintptr_t)address;
    if (!task)
        return gs_fail_memory(error);
    *task = (struct task){.kind = COPY, .to = in ? memory : pointer, .from = in ? pointer : memory, .bytes = bytes};
    add_task(device, lane, task);
    return GS_OK;
}

static gs_code host_fill(void *device, gs_lane *lane, uint64_t address, uint8_t value, uint64_t bytes,
                         gs_error *error) {
    struct task *task = calloc(1, sizeof *task);
    if (!task)
        return gs_fail_memory(error);
    *task = (struct task){.kind = FILL, .to = (void *)(uintptr_t)address, .value = value, .bytes = bytes};
    add_task(device, lane, task);
    return GS_OK;
}

/* The arguments are copied, each to a multiple of 16, so that any type can be read there. */
static struct task *make_task(const gs_kernel *found, const gs_worker_launch *launch, void **arguments) {
    size_t bytes = 0, at = 0;
    for (unsigned i = 0; i < found->parameters; i++)
        bytes += (found->sizes[i] + WORD_ALIGN - 1) / WORD_ALIGN * WORD_ALIGN;
    struct task *task = aligned_alloc(WORD_ALIGN, (sizeof *task + bytes + WORD_ALIGN - 1) / WORD_ALIGN * WORD_ALIGN);
    if (!task)
        return NULL;
    *task = (struct task){.tag = launch->request.tag, .blocks = gs_launch_blocks(launch)};
    for (unsigned i = 0; i < found->parameters; i++) {
        task->arguments[i] = task->values + at;
        memcpy(task->values + at, arguments[i], found->sizes[i]);
        at += (found->sizes[i] + WORD_ALIGN - 1) / WORD_ALIGN * WORD_ALIGN;
    }
    return task;
}

/* What the local variables of a block take on each SM. */
static uint64_t local_bytes_of(const struct host *host, const gs_kernel *kernel, const gs_worker_launch *launch) {
    uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    return kernel->array_bytes > UINT64_MAX / MOST_SMS / 2048 ? UINT64_MAX
                                                              : kernel->array_bytes * threads * host->sm_count;
}

static gs_code host_launch(void *device, gs_lane *lane, const gs_loaded_kernel *loaded, const gs_worker_launch *launch,
                           void **arguments, gs_control *control, uint32_t sms, gs_error *error) {
    enum { MOST_SHARED = 256 << 10, PRODUCT_BLOCKS = 64 }; /* a product needs no more: any grid computes all of it */
    const struct host_kernel *kernel = loaded->inside;
    const struct form *form = control ? &kernel->confined : &kernel->original;
    const gs_kernel *found = &form->library->kernels[form->number];
    (void)sms;
    if (found->parameters != loaded->parameters + (control ? 1 : 0))
        return gs_fail(error, GS_E_KERNEL, "the confined kernel's parameters do not match");
    /* a form with the whole parameter needs more shared memory */
    bool needs_more = control && found->sizes[found->parameters - 1] == sizeof(gs_confined_parameter);
    uint64_t shared_bytes = launch->shared_bytes + (needs_more ? GS_JOB_SHARED : 0);
    uint64_t all_shared = found->shared_bytes + shared_bytes;
    if (launch->shared_bytes > MOST_SHARED || all_shared > MOST_SHARED) /* the sum may wrap around */
        return gs_fail(error, GS_E_NO_FIT, "a block with %llu bytes of shared memory never fits",
                       (unsigned long long)gs_max_u64(launch->shared_bytes, all_shared));
    struct task *task = make_task(found, launch, arguments);
    if (!task)
        return gs_fail_memory(error);
    task->local_bytes = local_bytes_of(device, found, launch);
    gs_code code = gs_host_memory_begin_launch(&((struct host *)device)->memory, task->local_bytes, error);
    if (code != GS_OK) {
        free(task);
        return code;
    }
    task->kind = control ? CONFINED : WHOLE;
    task->defer_report = !control && launch->defer_report;
    task->form = form;
    task->control = (struct host_control *)control;
    task->part = (gs_host_part){.kernel = form->number,
                                .block = {launch->block[0], launch->block[1], launch->block[2]},
                                .shared_bytes = shared_bytes};
    for (int i = 0; i < 3; i++)
        task->part.grid[i] = control || loaded->product.rows ? 1 : launch->grid[i];
    if (loaded->product.rows)
        task->part.grid[0] = (uint32_t)(task->blocks = gs_min_u64(task->blocks, PRODUCT_BLOCKS));
    add_task(device, lane, task);
    return GS_OK;
}

/* ---- the state of a confined launch ---- */

static gs_control *host_control_new(void *device) {
    struct host_control *made = calloc(1, sizeof *made);
    (void)device;
    if (!made)
        return NULL;
    made->control = gs_control_at((uint64_t)(uintptr_t)&made->words, &made->words, true);
    made->control.stop = 0;
    return &made->control;
}

static void host_control_free(void *device, gs_control *control) {
    (void)device;
    free(control);
}

/* A launch without blocks on SMs ends when no SM is allowed any more. */
static gs_code host_control_confine(void *device, gs_control *control, const uint32_t *mask, gs_error *error) {
    struct host *host = device;
    struct host_control *mine = (struct host_control *)control;
    (void)error;
    pthread_mutex_lock(&host->mutex);
    gs_control_confine(control, mask, NULL, NULL);
    end_all_over(host, mine);
    pthread_cond_broadcast(&host->for_sms);
    pthread_mutex_unlock(&host->mutex);
    return GS_OK;
}

static gs_code host_control_begin(void *device, gs_control *control, uint64_t next, const uint32_t *mask,
                                  gs_error *error) {
    (void)device, (void)error;
    gs_control_begin(control, next, mask, NULL, NULL);
    return GS_OK;
}

static uint64_t host_control_next(void *device, gs_control *control, bool exactly) {
    (void)device, (void)exactly;
    return gs_control_next(control);
}

static gs_code host_read(void *device, void *into, uint64_t address, uint64_t bytes, gs_error *error) {
    (void)device, (void)error;
    memcpy(into, (const void *)(uintptr_t)address, bytes);
    return GS_OK;
}

static gs_code host_check(void *device, gs_error *error) {
    (void)device, (void)error;
    return GS_OK;
}

/* ---- opening ---- */

static bool start_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    bool is_started = pthread_create(&thread, NULL, body, argument) == 0;
    if (is_started)
        pthread_detach(thread);
    return is_started;
}

static void *host_open(gs_worker_loop *loop, const gs_worker_options *options, gs_worker_facts *facts,
                       gs_error *error) {
    struct host *host = calloc(1, sizeof *host);
    if (!host || options->sms < 0 || options->sms > MOST_SMS) {
        gs_fail(error, host ? GS_E_USAGE : GS_E_MEMORY, "the CPU can emulate 1 to %d SMs, not %d", MOST_SMS,
                options->sms);
        return NULL;
    }
    host->loop = the_loop = loop;
    the_host = host;
    host->sm_count = (uint32_t)(options->sms ? options->sms : DEFAULT_SMS);
    gs_host_memory_open(&host->memory, options->memory_bytes ? options->memory_bytes : DEFAULT_MEMORY,
                        gs_loop_kernel_bytes(loop));
    pthread_mutex_init(&host->mutex, NULL);
    pthread_cond_init(&host->for_sms, NULL);
    pthread_cond_init(&host->for_copier, NULL);
    catch_signals();
    bool is_started = start_thread(be_copier, host) && start_thread(gs_host_memory_unmap_unused, &host->memory);
    for (uint32_t i = 0; i < host->sm_count && is_started; i++) {
        host->sms[i] = (struct sm){host, i};
        is_started = start_thread(be_sm, &host->sms[i]);
    }
    if (!is_started) {
        gs_fail_system(error, "start", "a thread for each emulated SM");
        return NULL;
    }
    *facts = (gs_worker_facts){.sms = (int32_t)host->sm_count, .memory_bytes = host->memory.bytes};
    snprintf(facts->name, sizeof facts->name, "the CPU, emulating a GPU of %u SMs", host->sm_count);
    return host;
}

static void host_enter_thread(void *device) {
    (void)device;
}

const gs_backend gs_backend_host = {.open = host_open,
                                    .enter_thread = host_enter_thread,
                                    .rings = true,
                                    .allocate = host_allocate,
                                    .free = host_free,
                                    .map = host_map,
                                    .unmap = host_unmap,
                                    .load = host_load,
                                    .unload = host_unload,
                                    .lane_new = host_lane_new,
                                    .copy = host_copy,
                                    .fill = host_fill,
                                    .launch = host_launch,
                                    .control_new = host_control_new,
                                    .control_free = host_control_free,
                                    .control_begin = host_control_begin,
                                    .control_confine = host_control_confine,
                                    .control_next = host_control_next,
                                    .read = host_read,
                                    .check = host_check};
