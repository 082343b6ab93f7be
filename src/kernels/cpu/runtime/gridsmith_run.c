/*
 * gridsmith_run.c: runs CUDA kernels on the CPU. It is linked with the kernels, which are C made from PTX and
 * include gridsmith_ptx.h.
 *
 * Blocks run in parallel on the cores, each on one POSIX thread, a runner. The threads of a block are fibers on that
 * runner: each has a stack and runs until it must wait, then the next one runs. A fiber waits at a barrier for all
 * threads that have not returned, or in a collective of its warp (shuffle, vote, matrix product) for the lanes of its
 * mask. The last to arrive computes the result for all and makes the others ready. If no fiber is ready although some
 * have not returned, the threads of the block have diverged; the error message says how many wait at which place.
 *
 * A block has 16 barriers. A phase of a barrier ends when all threads that have not returned have arrived, or as many
 * as the caller requests. A thread that polls memory yields to the others from time to time (gs_host_yield).
 *
 * The order of threads and blocks is fixed, backwards, or random (`shuffled`). Each block draws from the seed and its
 * own number, so that a run can be repeated on any number of cores.
 *
 * Surprising: shared memory is filled with 0xcd bytes before each block, because a GPU does not initialize it either,
 * and all blocks of a runner use the same memory. In a random order it is filled with other bytes, to detect kernels
 * whose results depend on them.
 */
#define _GNU_SOURCE
#include "gridsmith_run.h"
#include "gridsmith_job.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Reports each switch between stacks to AddressSanitizer. */
#if defined(__SANITIZE_ADDRESS__)
#    define WITH_ASAN 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define WITH_ASAN 1
#    endif
#endif
#ifdef WITH_ASAN
#    include <sanitizer/common_interface_defs.h>
#    define LEAVE_STACK(fake, stack, bytes) __sanitizer_start_switch_fiber(fake, stack, bytes)
#    define ENTER_STACK(fake, stack, bytes) __sanitizer_finish_switch_fiber(fake, stack, bytes)
enum { STACK_BYTES = 512 << 10 };

/* Kernels cannot leak, and the search for leaks takes seconds. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "detect_leaks=0";
}
#else
#    define LEAVE_STACK(fake, stack, bytes) ((void)0)
#    define ENTER_STACK(fake, stack, bytes) ((void)0)
enum { STACK_BYTES = 256 << 10 };
#endif

enum { WARP = 32, MOST_THREADS = 1024, MOST_WARPS = MOST_THREADS / WARP, FILLING = 0xcd };

/* ---- switching from one stack to another ---- */

void gs_switch(void **save, void *to);

#if defined(__aarch64__)
__asm__(".text\n.global gs_switch\n.type gs_switch, %function\ngs_switch:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n    stp x21, x22, [sp, #16]\n    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n    stp x27, x28, [sp, #64]\n    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n    stp d10, d11, [sp, #112]\n    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n    str x9, [x0]\n    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n    ldp x21, x22, [sp, #16]\n    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n    ldp x27, x28, [sp, #64]\n    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n    ldp d10, d11, [sp, #112]\n    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n    ret\n.size gs_switch, .-gs_switch\n");

/* Prepares a stack as if `entry` had called gs_switch at its first instruction. */
static void *prepare_stack(char *top, void (*entry)(void)) {
    uint64_t *at = (uint64_t *)(void *)(top - 160);
    memset(at, 0, 160);
    at[11] = (uint64_t)(uintptr_t)entry; /* x30 */
    return at;
}
#elif defined(__x86_64__)
__asm__(".text\n.globl gs_switch\n.type gs_switch, @function\ngs_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n.size gs_switch, .-gs_switch\n");

static void *prepare_stack(char *top, void (*entry)(void)) {
    /* After `ret` the stack is as after a call: 8 bytes below a multiple of 16. */
    uint64_t *at = (uint64_t *)(void *)(top - 16 - 6 * 8);
    memset(at, 0, 16 + 6 * 8);
    at[6] = (uint64_t)(uintptr_t)entry;
    return at;
}
#else
#    include <ucontext.h>

/* On other architectures the C library switches stacks. This is slower. Each pointer points to a ucontext_t. */
void gs_switch(void **save, void *to) {
    ucontext_t here;
    *save = &here;
    swapcontext(&here, to);
}

static void *prepare_stack(char *top, void (*entry)(void)) {
    enum { TAKEN = 29 * 128 }; /* the tops of stacks differ by as much */
    ucontext_t *context = (ucontext_t *)(void *)(top - STACK_BYTES + TAKEN);
    getcontext(context);
    context->uc_stack.ss_sp = (char *)(context + 1);
    context->uc_stack.ss_size = STACK_BYTES - TAKEN - sizeof *context;
    makecontext(context, entry, 0);
    return context;
}
#endif

/* ---- the state of a thread and of a block ---- */

/* AT_ACTIVE: waits until no other lane of the warp can run, to find the lanes that are at the same place. */
enum state { READY, YIELDED, AT_BARRIER, IN_WARP, AT_ACTIVE, RETURNED };

struct fiber {
    void *stack_pointer;
    char *stack, *usable; /* the lowest byte, and the lowest one that can be accessed */
    gs_uint3 index;
    enum state state;
    gs_place place;       /* where it waits */
    unsigned instruction; /* AT_ACTIVE: at which one */
    int kind;             /* of the barrier or of the collective */
    int scope;            /* of the barrier */
    int vote;
    unsigned barrier;
    unsigned result; /* of the barrier, or the active lanes */
    unsigned mask;
    void *mine;
    gs_finish finish;
#ifdef WITH_ASAN
    void *fake_stack;
#endif
};

struct launch {
    const gs_kernel *kernel;
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    void **arguments;
    uint32_t sms, sm; /* blocks go to SMs round-robin; if `sms` is 0, all blocks are on `sm` */
    bool backwards, shuffled;
    uint64_t seed;                 /* of the order, if it is shuffled */
    atomic_ullong own_next, *next; /* block */
    unsigned long long blocks;
    /* stopping the kernel: after this many waits of all runners together */
    atomic_llong until_stop;
    uint32_t *stop;
};

struct barrier {
    unsigned count;            /* how many threads must arrive; 0: all of the block */
    bool is_counted;           /* the count was given: as on an H200, warps that have returned are then awaited, too */
    unsigned waiting, arrived; /* threads that wait, and that arrived and went on */
    unsigned by_warp[MOST_WARPS]; /* of `arrived` */
};

struct runner {
    struct fiber fibers[MOST_THREADS];
    struct barrier barriers[GS_BARRIERS];
    unsigned order[MOST_THREADS]; /* of the threads, if it is shuffled */
    uint64_t random;
    char *stacks;
    size_t stack_bytes; /* of a thread */
    size_t taken_bytes; /* of gs_host_take_memory */
    void *scheduler;
    struct fiber *current;
    struct launch *launch;
    unsigned threads, returned;
    unsigned sm;
    void *shared; /* static shared memory, then dynamic shared memory */
    size_t shared_bytes;
    char signal_stack[64 << 10];
#ifdef WITH_ASAN
    void *own_fake_stack;
    const void *own_stack;
    size_t own_stack_bytes;
#endif
};

static __thread gs_uint3 threadIdx, blockIdx, blockDim, gridDim;
static __thread struct runner *self;

static gs_job *job;
void (*gs_host_on_failure)(const char *message), (*gs_host_on_shortage)(const char *message);
int (*gs_host_take_memory)(int kind, size_t bytes);
void (*gs_host_give_memory)(int kind, size_t bytes);
static pthread_mutex_t failure = PTHREAD_MUTEX_INITIALIZER;

/* ---- failures: the first one writes its message, and the process ends ---- */

static void fail_job(enum gs_job_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

static void fail_job(enum gs_job_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&failure);
    fflush(stdout);
    if (job) {
        vsnprintf(job->message, sizeof job->message, format, arguments);
        job->status = status;
    } else {
        char message[GS_JOB_MESSAGE];
        vsnprintf(message, sizeof message, format, arguments);
        if (gs_host_on_failure)
            gs_host_on_failure(message);
        fprintf(stderr, "%s\n", message);
    }
    va_end(arguments);
    _exit(1);
}

void gs_host_fail(const char *format, ...) {
    char message[GS_JOB_MESSAGE - 300], where[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    gs_host_where(where, sizeof where);
    fail_job(GS_JOB_FAILED, "%s%s", message, where);
}

/* Fails because memory for running a kernel cannot be allocated. */
static void fail_memory(const char *what, size_t count) __attribute__((noreturn));

static void fail_memory(const char *what, size_t count) {
    char message[GS_JOB_MESSAGE];
    snprintf(message, sizeof message, "no memory for %zu %s", count, what);
    if (!job && gs_host_on_shortage)
        gs_host_on_shortage(message);
    fail_job(GS_JOB_WRONG, "%s", message);
}

static const char *kind_name(int kind) {
    static const char *const names[] = {GS_WAIT_KINDS(GS_WAIT_NAME)};
    return names[kind];
}

/* Appends "12 threads, the first (3,0,0), wait in bar.sync at FILE:LINE". Returns the new length of the text. */
static size_t describe_group(char *text, size_t size, size_t at, const struct runner *runner, unsigned first) {
    const struct fiber *fiber = &runner->fibers[first];
    unsigned count = 0;
    for (unsigned i = first; i < runner->threads; i++) {
        const struct fiber *other = &runner->fibers[i];
        count += other->state == fiber->state && other->kind == fiber->kind && other->place.line == fiber->place.line;
    }
    int more =
        snprintf(text + at, size - at, "%s%u thread%s, the first (%u,%u,%u), wait%s in %s at %s:%d", at ? "; " : "",
                 count, count == 1 ? "" : "s", fiber->index.x, fiber->index.y, fiber->index.z, count == 1 ? "s" : "",
                 kind_name(fiber->kind), fiber->place.file ? fiber->place.file : "?", fiber->place.line);
    return at + (size_t)more < size ? at + (size_t)more : size - 1;
}

/* Called when no thread is ready: reports where threads wait, and ends the process. */
static void fail_diverged(const struct runner *runner) {
    char text[700] = "";
    size_t at = 0;
    for (unsigned i = 0; i < runner->threads; i++) {
        const struct fiber *fiber = &runner->fibers[i];
        bool is_new = fiber->state == AT_BARRIER || fiber->state == IN_WARP;
        for (unsigned j = 0; j < i && is_new; j++) {
            const struct fiber *other = &runner->fibers[j];
            is_new =
                other->state != fiber->state || other->kind != fiber->kind || other->place.line != fiber->place.line;
        }
        if (is_new)
            at = describe_group(text, sizeof text, at, runner, i);
    }
    fail_job(GS_JOB_FAILED, "the threads of block (%u,%u,%u) of %s diverged: %s%s", blockIdx.x, blockIdx.y, blockIdx.z,
             runner->launch->kernel->name, text, runner->returned ? "; the others have returned" : "");
}

/* ---- fibers ---- */

static void to_scheduler(struct runner *runner) {
    struct fiber *fiber = runner->current;
    LEAVE_STACK(&fiber->fake_stack, runner->own_stack, runner->own_stack_bytes);
    gs_switch(&fiber->stack_pointer, runner->scheduler);
    ENTER_STACK(fiber->fake_stack, &runner->own_stack, &runner->own_stack_bytes);
}

static void leave_block(struct runner *runner);

/* A fiber runs a thread of each block of its runner, block after block. */
static void fiber_main(void) {
    struct runner *runner = self;
    ENTER_STACK(NULL, &runner->own_stack, &runner->own_stack_bytes);
    for (;;) {
        runner->launch->kernel->call(runner->launch->arguments);
        leave_block(runner);
        to_scheduler(runner);
    }
}

static void resume_fiber(struct runner *runner, struct fiber *fiber) {
    runner->current = fiber;
    threadIdx = fiber->index;
    LEAVE_STACK(&runner->own_fake_stack, fiber->stack, runner->stack_bytes);
    gs_switch(&runner->scheduler, fiber->stack_pointer);
    ENTER_STACK(runner->own_fake_stack, NULL, NULL);
}

static void prepare_fiber(struct runner *runner, struct fiber *fiber) {
    unsigned number = (unsigned)(fiber - runner->fibers);
    /* The tops of stacks are in different cache lines, because otherwise they would compete for the same few. */
    fiber->stack_pointer = prepare_stack(fiber->stack + runner->stack_bytes - number % 29 * 128, fiber_main);
}

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t whole_pages(size_t bytes) {
    size_t page = page_bytes();
    return (bytes + page - 1) / page * page;
}

/* Below the usable part of a stack there is a guard page, or the part that has not been requested. */
static void make_stacks(struct runner *runner, unsigned threads) {
    const gs_kernel *kernel = runner->launch->kernel;
    runner->stack_bytes = STACK_BYTES + whole_pages(kernel->local_bytes);
    size_t each = runner->stack_bytes + page_bytes(), usable = runner->stack_bytes;
    if (gs_host_take_memory && whole_pages(GS_STACK_BYTES + kernel->array_bytes) < usable)
        usable = whole_pages(GS_STACK_BYTES + kernel->array_bytes);
    runner->stacks = mmap(NULL, each * threads, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (runner->stacks == MAP_FAILED)
        fail_memory("stacks of threads", threads);
    for (unsigned i = 0; i < threads; i++) {
        struct fiber *fiber = &runner->fibers[i];
        fiber->stack = runner->stacks + each * i + page_bytes();
        fiber->usable = fiber->stack + runner->stack_bytes - usable;
        if (mprotect(fiber->usable, usable, PROT_READ | PROT_WRITE) != 0)
            fail_memory("stacks of threads", threads);
        prepare_fiber(runner, fiber);
    }
}

/* Doubles the usable part, or more if the address is further away. */
int gs_host_extend_stack(const void *address) {
    struct runner *runner = self;
    struct fiber *fiber = runner ? runner->current : NULL;
    const char *at = address;
    if (!fiber || at < fiber->stack || at >= fiber->usable)
        return 0;
    size_t now = (size_t)(fiber->stack + runner->stack_bytes - fiber->usable), wanted = 2 * now;
    size_t needed = whole_pages((size_t)(fiber->stack + runner->stack_bytes - at));
    wanted = wanted < needed ? needed : wanted > runner->stack_bytes ? runner->stack_bytes : wanted;
    if (!gs_host_take_memory(GS_HOST_STACK, wanted - now))
        return 0;
    runner->taken_bytes += wanted - now;
    fiber->usable -= wanted - now;
    return mprotect(fiber->usable, wanted - now, PROT_READ | PROT_WRITE) == 0;
}

static void free_stacks(struct runner *runner) {
    munmap(runner->stacks, (runner->stack_bytes + page_bytes()) * runner->threads);
    if (runner->taken_bytes)
        gs_host_give_memory(GS_HOST_STACK, runner->taken_bytes);
}

/* ---- malloc ---- */

enum { HEAP_HEAD = 16 }; /* bytes before each allocation, which have its size */

/* Extends the stack now: it could not be extended by the functions below, which hold a lock. */
__attribute__((noinline)) static void touch_stack(void) {
    volatile char bytes[8 << 10];
    bytes[0] = 0;
}

void *gs_host_allocate(size_t bytes) {
    if (!gs_host_take_memory)
        return malloc(bytes);
    size_t all = bytes + HEAP_HEAD;
    touch_stack();
    if (all < bytes || !gs_host_take_memory(GS_HOST_HEAP, all))
        return NULL;
    size_t *head = malloc(all);
    if (!head) {
        gs_host_give_memory(GS_HOST_HEAP, all);
        return NULL;
    }
    *head = all;
    return (char *)head + HEAP_HEAD;
}

void gs_host_free(void *memory) {
    if (!gs_host_take_memory || !memory) {
        free(memory);
        return;
    }
    size_t *head = (size_t *)(void *)((char *)memory - HEAP_HEAD);
    touch_stack();
    gs_host_give_memory(GS_HOST_HEAP, *head);
    free(head);
}

/* The thread returns from the middle of a function. Its stack is abandoned; the next block begins it anew. */
void gs_host_exit(void) {
    struct runner *runner = self;
    struct fiber *fiber = runner->current;
    void *abandoned;
    leave_block(runner);
    prepare_fiber(runner, fiber);
    LEAVE_STACK(NULL, runner->own_stack, runner->own_stack_bytes);
    gs_switch(&abandoned, runner->scheduler);
    __builtin_unreachable();
}

void gs_host_yield(void) {
    self->current->state = YIELDED;
    to_scheduler(self);
}

/* ---- stopping a confined kernel ---- */

/* Counts waits at barriers and starts of blocks. The seed determines at which one the kernel is stopped. */
static void count_wait(void) {
    struct launch *launch = self->launch;
    if (launch->stop && atomic_fetch_sub(&launch->until_stop, 1) == 1)
        __atomic_store_n(launch->stop, 1, __ATOMIC_RELEASE);
}

/* ---- barriers ---- */

static unsigned number_of(const struct runner *runner, const struct fiber *fiber) {
    return (unsigned)(fiber - runner->fibers);
}

static bool is_at(const struct fiber *fiber, unsigned barrier) {
    return fiber->state == AT_BARRIER && fiber->barrier == barrier;
}

static bool same_place(const gs_place *a, const gs_place *b) {
    return !a->file || !b->file || (a->line == b->line && strcmp(a->file, b->file) == 0);
}

/* Threads of a warp that must be at the same place. */
static void check_places(const struct runner *runner, unsigned barrier) {
    const struct fiber *first = NULL;
    for (unsigned i = 0; i < runner->threads; i++) {
        const struct fiber *fiber = &runner->fibers[i];
        if (!is_at(fiber, barrier))
            continue;
        if (first && fiber->scope == GS_SCOPE_OF_WARP && number_of(runner, first) / WARP != i / WARP)
            first = NULL;
        first = first ? first : fiber;
        if (fiber->scope != GS_SCOPE_OF_THREAD &&
            (fiber->kind != first->kind || !same_place(&fiber->place, &first->place)))
            fail_diverged(runner);
    }
}

/* All threads have arrived. */
static void open_barrier(struct runner *runner, unsigned number) {
    struct barrier *barrier = &runner->barriers[number];
    unsigned all = 1, any = 0, count = 0;
    check_places(runner, number);
    for (unsigned i = 0; i < runner->threads; i++) {
        const struct fiber *fiber = &runner->fibers[i];
        if (!is_at(fiber, number))
            continue;
        all = all && fiber->vote;
        any = any || fiber->vote;
        count += fiber->vote != 0;
    }
    for (unsigned i = 0; i < runner->threads; i++) {
        struct fiber *fiber = &runner->fibers[i];
        if (!is_at(fiber, number))
            continue;
        fiber->result = fiber->kind == GS_WAIT_BAR_AND ? all : fiber->kind == GS_WAIT_BAR_OR ? any : count;
        fiber->state = READY;
    }
    *barrier = (struct barrier){0};
}

/* A warp counts as 32 threads when all of its threads that have not returned have arrived. */
static unsigned arrivals_of(const struct runner *runner, unsigned number, unsigned warp) {
    unsigned here = runner->barriers[number].by_warp[warp], left = 0;
    for (unsigned i = warp * WARP; i < (warp + 1) * WARP && i < runner->threads; i++) {
        here += is_at(&runner->fibers[i], number);
        left += runner->fibers[i].state != RETURNED;
    }
    return here && here >= left && here < WARP ? WARP : here;
}

static unsigned threads_of_warps(const struct runner *runner) {
    return (runner->threads + WARP - 1) / WARP * WARP;
}

static bool is_complete(const struct runner *runner, unsigned number) {
    const struct barrier *barrier = &runner->barriers[number];
    unsigned here = barrier->waiting + barrier->arrived, total = 0;
    unsigned count = barrier->count ? barrier->count : threads_of_warps(runner);
    if (!barrier->count && !barrier->is_counted)
        return here + runner->returned >= runner->threads;
    if (here + runner->returned + WARP <= count)
        return false;
    for (unsigned warp = 0; warp * WARP < runner->threads; warp++)
        total += arrivals_of(runner, number, warp);
    return total >= count;
}

static void check_barrier(const struct runner *runner, const gs_barrier *wanted) {
    const struct barrier *barrier = &runner->barriers[wanted->number % GS_BARRIERS];
    if (wanted->number >= GS_BARRIERS)
        gs_host_fail("barrier %u at %s:%d does not exist; a block has barriers 0 to 15", wanted->number,
                     wanted->place.file, wanted->place.line);
    if (wanted->count % WARP)
        gs_host_fail("barrier %u at %s:%d is for %u threads, which must be a multiple of 32", wanted->number,
                     wanted->place.file, wanted->place.line, wanted->count);
    if ((barrier->waiting || barrier->arrived) && barrier->count != wanted->count)
        gs_host_fail("barrier %u at %s:%d is for %u threads, but others use it for %u", wanted->number,
                     wanted->place.file, wanted->place.line, wanted->count, barrier->count);
}

int gs_host_barrier_at(const gs_barrier *given) {
    struct runner *runner = self;
    struct fiber *fiber = runner->current;
    struct barrier *barrier = &runner->barriers[given->number % GS_BARRIERS];
    gs_barrier normal = *given, *wanted = &normal;
    if (normal.count == threads_of_warps(runner))
        normal.count = 0; /* all threads, by their number */
    count_wait();
    check_barrier(runner, wanted);
    barrier->count = wanted->count;
    barrier->is_counted = barrier->is_counted || given->count;
    if (wanted->kind == GS_WAIT_BARRIER_ARRIVE) {
        barrier->arrived++;
        barrier->by_warp[number_of(runner, fiber) / WARP]++;
        if (is_complete(runner, wanted->number))
            open_barrier(runner, wanted->number);
        return 0;
    }
    fiber->state = AT_BARRIER;
    fiber->barrier = wanted->number;
    fiber->kind = wanted->kind;
    fiber->scope = wanted->scope;
    fiber->vote = wanted->vote != 0;
    fiber->place = wanted->place;
    barrier->waiting++;
    if (is_complete(runner, wanted->number))
        open_barrier(runner, wanted->number);
    else
        to_scheduler(runner);
    return (int)fiber->result;
}

/* ---- collectives of a warp ---- */

/* Completes the collective of `caller` if all lanes of its mask that have not returned have arrived. */
static bool try_finish(struct runner *runner, const struct fiber *caller) {
    unsigned first = number_of(runner, caller) / WARP * WARP;
    void *lanes[WARP] = {0};
    for (unsigned lane = 0; lane < WARP; lane++) {
        struct fiber *fiber = &runner->fibers[first + lane];
        if (!(caller->mask >> lane & 1) || first + lane >= runner->threads || fiber->state == RETURNED)
            continue;
        if (fiber->state != IN_WARP || fiber->mask != caller->mask || fiber->kind != caller->kind)
            return false;
        lanes[lane] = fiber->mine;
    }
    caller->finish(lanes);
    for (unsigned lane = 0; lane < WARP; lane++)
        if (lanes[lane])
            runner->fibers[first + lane].state = READY;
    return true;
}

void gs_host_warp(int kind, unsigned mask, void *mine, gs_finish finish, gs_place place) {
    struct runner *runner = self;
    struct fiber *fiber = runner->current;
    unsigned number = number_of(runner, fiber);
    if (!(mask >> number % WARP & 1))
        fail_job(GS_JOB_FAILED, "lane %u of block (%u,%u,%u) of %s is not in its own mask 0x%x in %s at %s:%d",
                 number % WARP, blockIdx.x, blockIdx.y, blockIdx.z, runner->launch->kernel->name, mask, kind_name(kind),
                 place.file, place.line);
    fiber->state = IN_WARP;
    fiber->kind = kind;
    fiber->mask = mask;
    fiber->mine = mine;
    fiber->finish = finish;
    fiber->place = place;
    if (!try_finish(runner, fiber))
        to_scheduler(runner);
}

unsigned gs_host_active_at(gs_place place, unsigned instruction) {
    struct fiber *fiber = self->current;
    fiber->state = AT_ACTIVE;
    fiber->place = place;
    fiber->instruction = instruction;
    to_scheduler(self);
    return fiber->result;
}

/* Called when no lane of the warp can run: the active lanes are those that asked for them at one place. Returns whether
   there are any. */
static bool release_active(struct runner *runner, unsigned first) {
    const struct fiber *chosen = NULL;
    unsigned mask = 0;
    for (unsigned i = first; i < first + WARP && i < runner->threads; i++) {
        const struct fiber *fiber = &runner->fibers[i];
        if (fiber->state != AT_ACTIVE)
            continue;
        chosen = chosen ? chosen : fiber;
        mask |= fiber->instruction == chosen->instruction ? 1u << (i - first) : 0;
    }
    for (unsigned lane = 0; lane < WARP; lane++)
        if (mask >> lane & 1) {
            runner->fibers[first + lane].result = mask;
            runner->fibers[first + lane].state = READY;
        }
    return mask != 0;
}

/* Called when a thread has returned: others may have waited only for it. */
static void leave_block(struct runner *runner) {
    struct fiber *fiber = runner->current;
    unsigned first = number_of(runner, fiber) / WARP * WARP;
    fiber->state = RETURNED;
    runner->returned++;
    for (unsigned i = 0; i < GS_BARRIERS; i++)
        if (runner->barriers[i].waiting && is_complete(runner, i))
            open_barrier(runner, i);
    for (unsigned i = first; i < first + WARP && i < runner->threads; i++)
        if (runner->fibers[i].state == IN_WARP)
            try_finish(runner, &runner->fibers[i]);
}

/* ---- shared memory ---- */

void *gs_host_shared(size_t *bytes) {
    *bytes = self->shared_bytes;
    return self->shared;
}

void gs_host_stack(char **first, char **end) {
    *first = self->current->stack;
    *end = *first + self->stack_bytes;
}

static int filling_byte(const struct launch *launch) {
    return launch->shuffled ? (int)(launch->seed >> 24 & 255) : FILLING;
}

static void poison_shared(struct runner *runner) {
    if (runner->shared_bytes)
        memset(runner->shared, filling_byte(runner->launch), runner->shared_bytes);
}

void gs_host_indices(gs_uint3 *thread, gs_uint3 *block_size, gs_uint3 *block, gs_uint3 *grid_size) {
    *thread = threadIdx;
    *block_size = blockDim;
    *block = blockIdx;
    *grid_size = gridDim;
}

unsigned gs_host_sm(void) {
    return self->sm;
}

unsigned gs_host_sms(void) {
    return self->launch->sms ? self->launch->sms : self->launch->sm + 1;
}

/* ---- random numbers ---- */

static uint64_t draw_from(uint64_t *state, uint64_t below) {
    *state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % below;
}

static unsigned long long greatest_divisor(unsigned long long a, unsigned long long b) {
    while (b) {
        unsigned long long rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The block at position `turn` of the random order: positions and blocks correspond by multiplication with a number
   that has no divisor in common with the number of blocks. */
static unsigned long long block_at(const struct launch *launch, unsigned long long turn) {
    uint64_t random = launch->seed;
    unsigned long long blocks = launch->blocks, factor;
    if (!launch->shuffled || blocks < 2)
        return turn;
    do
        factor = draw_from(&random, blocks) + 1;
    while (greatest_divisor(factor, blocks) != 1);
    unsigned __int128 product = (unsigned __int128)turn * factor + draw_from(&random, blocks);
    return (unsigned long long)(product % blocks);
}

/* ---- a block ---- */

/* Runs the ready threads of a warp until all wait or have returned. */
static bool run_warp(struct runner *runner, unsigned first) {
    unsigned last = first + WARP < runner->threads ? first + WARP : runner->threads;
    bool any = false;
    for (bool again = true; again;) {
        again = false;
        for (unsigned i = first; i < last; i++) {
            struct fiber *fiber = &runner->fibers[runner->launch->backwards ? first + last - 1 - i : i];
            if (fiber->state == READY) {
                resume_fiber(runner, fiber);
                again = any = true;
            }
        }
        again = again || release_active(runner, first);
    }
    return any;
}

/* Runs each ready thread once, in random order. */
static bool run_shuffled(struct runner *runner) {
    bool any = false;
    for (unsigned i = 0; i < runner->threads; i++)
        runner->order[i] = i;
    for (unsigned i = runner->threads; i > 1; i--) {
        unsigned other = (unsigned)draw_from(&runner->random, i), number = runner->order[other];
        runner->order[other] = runner->order[i - 1];
        runner->order[i - 1] = number;
    }
    for (unsigned i = 0; i < runner->threads; i++)
        if (runner->fibers[runner->order[i]].state == READY) {
            resume_fiber(runner, &runner->fibers[runner->order[i]]);
            any = true;
        }
    for (unsigned first = 0; first < runner->threads && !any; first += WARP)
        any = release_active(runner, first);
    return any;
}

static bool run_all_warps(struct runner *runner) {
    bool any = false, backwards = runner->launch->backwards;
    for (unsigned first = 0; first < runner->threads; first += WARP)
        any |= run_warp(runner, backwards ? (runner->threads - 1) / WARP * WARP - first : first);
    return any;
}

/* Threads that yielded may run again. */
static bool wake_yielded(struct runner *runner) {
    bool any = false;
    for (unsigned i = 0; i < runner->threads; i++)
        if (runner->fibers[i].state == YIELDED) {
            runner->fibers[i].state = READY;
            any = true;
        }
    return any;
}

static void run_threads(struct runner *runner) {
    while (runner->returned < runner->threads) {
        bool any = runner->launch->shuffled ? run_shuffled(runner) : run_all_warps(runner);
        any |= wake_yielded(runner);
        if (!any)
            fail_diverged(runner);
    }
}

static void run_block(struct runner *runner, unsigned long long turn) {
    const struct launch *launch = runner->launch;
    unsigned long long number = block_at(launch, turn);
    blockIdx = (gs_uint3){(unsigned)(number % launch->grid[0]), (unsigned)(number / launch->grid[0] % launch->grid[1]),
                          (unsigned)(number / launch->grid[0] / launch->grid[1])};
    runner->sm = launch->sms ? (unsigned)(number % launch->sms) : launch->sm;
    runner->returned = 0;
    runner->random = launch->seed + number;
    memset(runner->barriers, 0, sizeof runner->barriers);
    for (unsigned i = 0; i < runner->threads; i++)
        runner->fibers[i].state = READY;
    poison_shared(runner);
    count_wait();
    run_threads(runner);
    if (gs_host_block_ended)
        gs_host_block_ended();
}

static void number_threads(struct runner *runner) {
    const uint32_t *block = runner->launch->block;
    for (unsigned i = 0; i < runner->threads; i++)
        runner->fibers[i].index = (gs_uint3){i % block[0], i / block[0] % block[1], i / block[0] / block[1]};
}

static void run_blocks(struct launch *launch) {
    struct runner *runner = calloc(1, sizeof *runner);
    unsigned long long number;
    if (!runner)
        fail_memory("bytes", sizeof *runner);
    self = runner;
    runner->launch = launch;
    runner->threads = launch->block[0] * launch->block[1] * launch->block[2];
    runner->shared_bytes = launch->kernel->shared_bytes + launch->shared_bytes;
    if (posix_memalign(&runner->shared, 1024, runner->shared_bytes ? runner->shared_bytes : 1))
        fail_memory("bytes of shared memory", runner->shared_bytes);
    stack_t signals = {.ss_sp = runner->signal_stack, .ss_size = sizeof runner->signal_stack};
    sigaltstack(&signals, NULL);
    make_stacks(runner, runner->threads);
    number_threads(runner);
    blockDim = (gs_uint3){launch->block[0], launch->block[1], launch->block[2]};
    gridDim = (gs_uint3){launch->grid[0], launch->grid[1], launch->grid[2]};
    while (atomic_load(launch->next) < launch->blocks && (number = atomic_fetch_add(launch->next, 1)) < launch->blocks)
        run_block(runner, number);
    free(runner->shared);
    signals.ss_flags = SS_DISABLE;
    sigaltstack(&signals, NULL);
    free_stacks(runner);
    free(runner);
    self = NULL;
}

static void *start_runner(void *argument) {
    run_blocks(argument);
    return NULL;
}

void gs_host_where(char *text, size_t size) {
    const struct runner *runner = self;
    text[0] = '\0';
    if (runner && runner->current)
        snprintf(text, size, " in block (%u,%u,%u), thread (%u,%u,%u) of %s", blockIdx.x, blockIdx.y, blockIdx.z,
                 threadIdx.x, threadIdx.y, threadIdx.z, runner->launch->kernel->name);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void run_launch(struct launch *launch, gs_job_call *call) {
    enum { MOST_RUNNERS = 256 };
    long cores = job && job->threads ? (long)job->threads : sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t runners[MOST_RUNNERS];
    int count = 0;
    uint64_t began = now_ns();
    launch->blocks = (unsigned long long)launch->grid[0] * launch->grid[1] * launch->grid[2];
    if (call->form == GS_FORM_ORIGINAL && call->first_blocks && call->first_blocks < launch->blocks)
        launch->blocks = call->first_blocks;
    atomic_store(&launch->own_next, 0);
    launch->next = &launch->own_next;
    while (count < cores && count < MOST_RUNNERS && (unsigned long long)count < launch->blocks)
        if (pthread_create(&runners[count++], NULL, start_runner, launch) != 0)
            fail_job(GS_JOB_WRONG, "cannot start a thread");
    while (count > 0)
        pthread_join(runners[--count], NULL);
    call->elapsed_ns += now_ns() - began;
    call->launches++;
}

#ifdef GRIDSMITH_LIBRARY

int gs_host_launch(int kernel, const uint32_t grid[3], const uint32_t block[3], size_t shared_bytes, uint32_t sms,
                   void **arguments) {
    struct launch launch = {.kernel = &gs_kernels[kernel],
                            .grid = {grid[0], grid[1], grid[2]},
                            .block = {block[0], block[1], block[2]},
                            .shared_bytes = shared_bytes,
                            .arguments = arguments,
                            .sms = sms};
    gs_job_call call = {.form = GS_FORM_ORIGINAL};
    run_launch(&launch, &call);
    return 0;
}

void gs_host_serve(const gs_host_part *part) {
    struct launch launch = {.kernel = &gs_kernels[part->kernel],
                            .grid = {part->grid[0], part->grid[1], part->grid[2]},
                            .block = {part->block[0], part->block[1], part->block[2]},
                            .shared_bytes = part->shared_bytes,
                            .arguments = part->arguments,
                            .sm = part->sm,
                            .next = (atomic_ullong *)part->next,
                            .blocks = part->end};
    run_blocks(&launch);
}

#else

/* ---- a call: one launch, or several if a confined kernel is stopped ---- */

static uint64_t seed_state;

static uint64_t draw_below(uint64_t below) {
    return draw_from(&seed_state, below);
}

/* A mask of all SMs, or of random ones, at least one. */
static void draw_sms(uint32_t *sms, uint32_t count, bool some) {
    memset(sms, 0, GS_JOB_SMS / 8);
    for (uint32_t i = 0; i < count; i++)
        if (!some || draw_below(2))
            sms[i / 32] |= 1u << i % 32;
    if (some)
        sms[0] |= 1u << draw_below(count < 32 ? count : 32);
}

/* The number of worker blocks of the first launch that begin with the block of their own number: all, or a random
   number if the kernel is to be stopped. */
static uint32_t draw_given(const struct launch *launch, const gs_job_call *call, uint64_t blocks) {
    uint32_t most = launch->grid[0] < blocks ? launch->grid[0] : (uint32_t)blocks;
    return !call->gives_first ? 0 : call->stops ? (uint32_t)draw_below(most + 1) : most;
}

static void run_confined(struct launch *launch, gs_job_call *call, gs_confined_parameter *parameter, uint64_t blocks) {
    uint32_t sms[GS_JOB_SMS / 32], stop = 0, stops = call->stops;
    uint64_t next = 0;
    parameter->next = (uint64_t)(uintptr_t)&next;
    parameter->stop = (uint64_t)(uintptr_t)&stop;
    parameter->sms = (uint64_t)(uintptr_t)sms;
    parameter->given = parameter->first = draw_given(launch, call, blocks);
    while (parameter->given || parameter->first + __atomic_load_n(&next, __ATOMIC_ACQUIRE) < blocks) {
        stop = 0;
        draw_sms(sms, launch->sms, call->stops > 0);
        launch->stop = stops ? &stop : NULL;
        atomic_store(&launch->until_stop, (long long)draw_below(400) + 1);
        stops -= stops > 0;
        run_launch(launch, call);
        if (!call->stops && parameter->first + __atomic_load_n(&next, __ATOMIC_ACQUIRE) < blocks)
            fail_job(GS_JOB_FAILED, "the worker blocks of %s exited with blocks unprocessed", call->kernel);
        parameter->given = 0;
    }
}

/* Some forms need more dynamic shared memory than the original: those that have the whole parameter. */
static void add_shared(struct launch *launch, const gs_job_call *call) {
    enum { MOST_SHARED = 227 * 1024 }; /* of a block, on any GPU */
    const gs_kernel *kernel = launch->kernel;
    unsigned bytes = kernel->parameters ? kernel->sizes[kernel->parameters - 1] : 0;
    bool is_confined = call->form == GS_FORM_CONFINED;
    if (bytes == (is_confined ? sizeof(gs_confined_parameter) : sizeof(gs_persistent_parameter)))
        launch->shared_bytes += GS_JOB_SHARED;
    if (kernel->shared_bytes + launch->shared_bytes > MOST_SHARED)
        fail_job(GS_JOB_WRONG, "a block of %s needs %zu bytes of shared memory; a GPU has at most %d for a block",
                 kernel->name, kernel->shared_bytes + launch->shared_bytes, MOST_SHARED);
}

static void run_reshaped(struct launch *launch, gs_job_call *call, void **arguments, unsigned char *const *buffers) {
    uint64_t blocks = (uint64_t)call->grid[0] * call->grid[1] * call->grid[2];
    uint64_t counts = call->counts < 0 ? 0 : (uint64_t)(uintptr_t)buffers[call->counts];
    uint64_t queue = 0;
    uint32_t shared = (uint32_t)call->shared_bytes;
    gs_persistent_parameter persistent = {
        call->grid[0], call->grid[1], call->grid[2], call->task_blocks, counts, (uint64_t)(uintptr_t)&queue, shared, 0};
    gs_confined_parameter confined = {
        call->grid[0], call->grid[1], call->grid[2], 0, counts, 0, 0, 0, call->task_blocks, 0, shared, 0};
    if (blocks > GS_JOB_BLOCKS || call->task_blocks > GS_JOB_TASK)
        fail_job(GS_JOB_WRONG, "a reshaped kernel may have at most %d blocks, %d per task", GS_JOB_BLOCKS, GS_JOB_TASK);
    add_shared(launch, call);
    launch->grid[0] = call->workers ? call->workers : 2 * launch->sms;
    launch->grid[1] = launch->grid[2] = 1;
    arguments[call->arguments] = call->form == GS_FORM_CONFINED ? (void *)&confined : (void *)&persistent;
    if (call->form == GS_FORM_CONFINED)
        run_confined(launch, call, &confined, blocks);
    else
        run_launch(launch, call);
    if (queue)
        fail_job(GS_JOB_FAILED, "the worker blocks of %s left their queue in an invalid state", call->kernel);
}

/* ---- checking ---- */

static const gs_kernel *find_kernel(const char *name) {
    for (int i = 0; i < gs_kernel_count; i++)
        if (strcmp(gs_kernels[i].name, name) == 0)
            return &gs_kernels[i];
    fail_job(GS_JOB_WRONG, "this program has no kernel %s", name);
}

enum { MOST_ARGUMENTS = 128 };

static void check_arguments(const gs_kernel *kernel, const gs_job_call *call) {
    const gs_job_argument *given = gs_job_arguments(job) + call->first;
    unsigned added = call->form == GS_FORM_PERSISTENT || call->form == GS_FORM_CONFINED;
    if (call->arguments >= MOST_ARGUMENTS)
        fail_job(GS_JOB_WRONG, "a kernel may have at most %d arguments, not %u", MOST_ARGUMENTS - 1, call->arguments);
    if (call->arguments + added != kernel->parameters)
        fail_job(GS_JOB_WRONG, "%s has %u parameters, but %u arguments are given", kernel->name,
                 kernel->parameters - added, call->arguments);
    for (unsigned i = 0; i < call->arguments; i++) {
        bool is_buffer = given[i].buffer >= 0;
        if (kernel->is_pointer[i] == GS_MAYBE_POINTER && (is_buffer || given[i].bytes == kernel->sizes[i]))
            continue;
        if (is_buffer != (kernel->is_pointer[i] == 1))
            fail_job(GS_JOB_WRONG, "parameter %u of %s is %s, but the argument is %s", i + 1, kernel->name,
                     is_buffer ? "a value" : "a pointer", is_buffer ? "a buffer" : "a value");
        if (!is_buffer && given[i].bytes != kernel->sizes[i])
            fail_job(GS_JOB_WRONG, "parameter %u of %s has %u bytes, but the argument has %u", i + 1, kernel->name,
                     kernel->sizes[i], given[i].bytes);
    }
}

static void check_shape(const gs_kernel *kernel, const gs_job_call *call) {
    uint64_t threads = (uint64_t)call->block[0] * call->block[1] * call->block[2];
    if (!threads || threads > MOST_THREADS)
        fail_job(GS_JOB_WRONG, "a block has %llu threads; it must have 1 to %d", (unsigned long long)threads,
                 MOST_THREADS);
    if (kernel->most_threads && threads > kernel->most_threads)
        fail_job(GS_JOB_WRONG, "a block of %s may have at most %llu threads (.maxntid), not %llu", kernel->name,
                 kernel->most_threads, (unsigned long long)threads);
    const unsigned *only = kernel->required_block;
    if (only[0] && memcmp(only, call->block, sizeof kernel->required_block) != 0)
        fail_job(GS_JOB_WRONG, "a block of %s must be %u x %u x %u threads (.reqntid), not %u x %u x %u", kernel->name,
                 only[0], only[1], only[2], call->block[0], call->block[1], call->block[2]);
}

static void fill_tails(const struct launch *launch) {
    const gs_tail *tail = gs_tails;
    for (; tail && tail->at; tail++)
        memset(tail->at, filling_byte(launch), tail->bytes);
}

static void run_call(gs_job_call *call, unsigned char *const *buffers) {
    const gs_kernel *kernel = find_kernel(call->kernel);
    gs_job_argument *given = gs_job_arguments(job) + call->first;
    void *pointers[MOST_ARGUMENTS], *arguments[MOST_ARGUMENTS];
    check_shape(kernel, call);
    check_arguments(kernel, call);
    for (unsigned i = 0; i < call->arguments; i++) {
        pointers[i] = given[i].buffer >= 0 ? buffers[given[i].buffer] : NULL;
        arguments[i] = given[i].buffer >= 0 ? (void *)&pointers[i] : given[i].value;
    }
    struct launch launch = {.kernel = kernel,
                            .grid = {call->grid[0], call->grid[1], call->grid[2]},
                            .block = {call->block[0], call->block[1], call->block[2]},
                            .shared_bytes = call->shared_bytes,
                            .arguments = arguments,
                            .sms = job->sms ? job->sms : 4,
                            .backwards = job->backwards != 0,
                            .shuffled = job->shuffled != 0};
    if (launch.shuffled)
        launch.seed = draw_below(UINT64_MAX);
    fill_tails(&launch);
    call->elapsed_ns = call->launches = 0;
    if (!call->grid[0] || !call->grid[1] || !call->grid[2])
        return; /* an empty grid, which CUDA does not launch either */
    if (call->form == GS_FORM_PERSISTENT || call->form == GS_FORM_CONFINED)
        run_reshaped(&launch, call, arguments, buffers);
    else
        run_launch(&launch, call);
}

/* ---- the process ---- */

static void on_signal(int number) {
    char text[300];
    gs_host_where(text, sizeof text);
    if (number == SIGALRM)
        fail_job(GS_JOB_FAILED, "timeout after %u seconds%s", job->seconds, text);
    fail_job(GS_JOB_FAILED, "signal %d (%s)%s", number, strsignal(number), text);
}

/* The handler runs on a separate stack, because the stack of the kernel may have overflowed. ASan has its own
   handlers. */
static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaction(SIGALRM, &action, NULL);
#    ifndef WITH_ASAN
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
    sigaction(SIGILL, &action, NULL);
    sigaction(SIGABRT, &action, NULL);
#    endif
}

static void map_job(const char *path) {
    struct stat status;
    int file = open(path, O_RDWR);
    if (file < 0 || fstat(file, &status) != 0 || (size_t)status.st_size < sizeof *job)
        fail_job(GS_JOB_WRONG, "cannot read the job %s", path);
    gs_job *mapped = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED || mapped->magic != GS_JOB_MAGIC || mapped->size != sizeof *job ||
        mapped->file_bytes != (uint64_t)status.st_size)
        fail_job(GS_JOB_WRONG, "%s is not a job for this program", path);
    job = mapped;
}

enum { BUFFER_ALIGNMENT = 256 };
#    define GUARD_BYTES ((size_t)64 << 30) /* what a 32-bit index of elements of 16 bytes reaches */

/* Memory between two ranges of inaccessible addresses, as close to its end as its alignment allows. NULL: not enough
   addresses. */
static void *guarded_memory(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (bytes + page - 1) / page * page;
    char *all = mmap(NULL, size + 2 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    if (mprotect(all + GUARD_BYTES, size, PROT_READ | PROT_WRITE) != 0) {
        munmap(all, size + 2 * GUARD_BYTES);
        return NULL;
    }
    return all + GUARD_BYTES + (size - bytes) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
}

/* AddressSanitizer knows where memory of malloc ends. */
static void *buffer_memory(size_t bytes) {
    void *memory = NULL;
#    ifndef WITH_ASAN
    memory = guarded_memory(bytes);
#    endif
    if (!memory && posix_memalign(&memory, BUFFER_ALIGNMENT, bytes))
        memory = NULL;
    return memory;
}

/* Buffers are copied out of the file, so that accesses past the end of one are detected. */
static unsigned char **copy_buffers_in(void) {
    unsigned char **buffers = calloc(job->buffers + 1, sizeof *buffers);
    for (uint32_t i = 0; buffers && i < job->buffers; i++) {
        const gs_job_buffer *buffer = &gs_job_buffers(job)[i];
        void *bytes = buffer_memory(buffer->bytes ? buffer->bytes : 1);
        if (!bytes)
            fail_job(GS_JOB_WRONG, "no memory for a buffer of %llu bytes", (unsigned long long)buffer->bytes);
        memcpy(bytes, (unsigned char *)job + buffer->offset, buffer->bytes);
        buffers[i] = bytes;
    }
    return buffers;
}

static void copy_buffers_out(unsigned char **buffers) {
    for (uint32_t i = 0; i < job->buffers; i++) {
        const gs_job_buffer *buffer = &gs_job_buffers(job)[i];
        memcpy((unsigned char *)job + buffer->offset, buffers[i], buffer->bytes);
#    ifdef WITH_ASAN
        free(buffers[i]); /* otherwise the end of the process frees it */
#    endif
    }
}

int main(int argc, char **argv) {
    if (argc != 2)
        fail_job(GS_JOB_WRONG, "usage: %s JOB", argv[0]);
    map_job(argv[1]);
    catch_signals();
    alarm(job->seconds);
    seed_state = job->seed;
    unsigned char **buffers = copy_buffers_in();
    for (uint32_t i = 0; i < job->calls; i++)
        run_call(&gs_job_calls(job)[i], buffers);
    copy_buffers_out(buffers);
    free(buffers);
    job->status = GS_JOB_DONE;
    return 0;
}

#endif
