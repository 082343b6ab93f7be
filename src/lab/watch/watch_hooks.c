/*
 * watch_hooks.c: the hooks of `gridsmith watch`: the calls of the driver that issue work, wait for it, or may wait
 * for the GPU without saying so. The hook of cuX is named hook_cuX.
 * watch_hook_list.h has them.
 */
#include "watch_notes.h"

#include <string.h>

#define NO_STREAM ((const void *)-1)

/* A hooked call: `before` and `after` are statements around it that use `call` and `result`. */
#define CALL(name, class, parameters, arguments, stream, object, before, after)                                        \
    static int(*real_##name) parameters;                                                                               \
    static uint32_t number_##name;                                                                                     \
    static int hook_##name parameters {                                                                                \
        if (!gs_watch_shared)                                                                                          \
            return real_##name arguments;                                                                              \
        gs_watch_call call = {.call = number_##name, .per_thread = sizeof #name > 6 && is_per_thread(#name)};          \
        gs_watch_enter(&call, stream, (uint64_t)(object));                                                             \
        before;                                                                                                        \
        int result = real_##name arguments;                                                                            \
        after;                                                                                                         \
        gs_watch_leave(&call);                                                                                         \
        return result;                                                                                                 \
    }
#define CALLS(name, class, parameters, arguments, stream, object, before, after)                                       \
    CALL(name, class, parameters, arguments, stream, object, before, after)                                            \
    CALL(name##_ptsz, class, parameters, arguments, stream, object, before, after)
#define SYNCS(name, class, parameters, arguments, before, after)                                                       \
    CALL(name, class, parameters, arguments, NULL, 0, before, after)                                                   \
    CALL(name##_ptds, class, parameters, arguments, NULL, 0, before, after)

static inline bool is_per_thread(const char *name) {
    size_t length = strlen(name);
    return strcmp(name + length - 5, "_ptsz") == 0 || strcmp(name + length - 5, "_ptds") == 0;
}

/* What a call that succeeded has done. */
#define DONE(what)                                                                                                     \
    do {                                                                                                               \
        if (result == GS_CUDA_OK)                                                                                      \
            what;                                                                                                      \
    } while (0)

/* ---- kernels and graphs ---- */

/* CUlaunchAttribute. */
enum { ATTRIBUTE_BYTES = 72, ATTRIBUTE_VALUE = 8, COOPERATIVE = 2, CLUSTER = 4, PROGRAMMATIC = 6 };

static void note_cooperative(gs_watch_operation *operation) {
    if (operation)
        operation->is_cooperative = 1;
}

static void note_attributes(gs_watch_operation *operation, const gs_launch_config *config) {
    for (unsigned i = 0; operation && config->attributes && i < config->attribute_count; i++) {
        const char *at = config->attributes + (size_t)i * ATTRIBUTE_BYTES;
        int attribute, value[3];
        memcpy(&attribute, at, sizeof attribute);
        memcpy(value, at + ATTRIBUTE_VALUE, sizeof value);
        if (attribute == COOPERATIVE)
            operation->is_cooperative = value[0] != 0;
        if (attribute == PROGRAMMATIC)
            operation->is_programmatic = value[0] != 0;
        if (attribute == CLUSTER)
            operation->cluster = (uint32_t)(value[0] * value[1] * value[2]);
    }
}

static void note_batch(gs_watch_call *call, unsigned count, const gs_watch_batch *operations) {
    for (unsigned i = 0; i < count; i++) {
        int kind = operations[i].kind;
        bool waits = gs_watch_batch_waits(&operations[i]);
        gs_watch_operation *made = waits || kind == GS_WATCH_BATCH_WRITE || kind == GS_WATCH_BATCH_WRITE_64
                                       ? gs_watch_issue(call, waits ? GS_WATCH_WAIT_VALUE : GS_WATCH_WRITE_VALUE)
                                       : NULL;
        if (!made)
            continue;
        made->object = operations[i].address;
        made->value = (uint32_t)operations[i].value;
    }
}

static void put_callback(gs_watch_call *call, void *stream, void (**function)(void *, int, void *), void **data) {
    gs_watch_host *host = gs_watch_host_new(call, stream, NULL, *data);
    if (host) {
        host->callback = *function;
        *function = gs_watch_host_call;
        *data = host;
    }
}

static void put_host(gs_watch_call *call, void *stream, void (**function)(void *), void **data) {
    gs_watch_host *host = gs_watch_host_new(call, stream, *function, *data);
    if (host) {
        *function = gs_watch_host_run;
        *data = host;
    }
}

/* CUipcMemHandle, which is passed by value. */
struct ipc_handle {
    char bytes[64];
};

#include "watch_hook_list.h"

/* ---- starting ---- */

static void start_watching(void);

static int (*real_cuInit)(unsigned);
static int hook_cuInit(unsigned flags) {
    int result = real_cuInit(flags);
    if (result == GS_CUDA_OK && !gs_watch_shared)
        start_watching();
    return result;
}

/* ---- the table ---- */

#define HOOK(function, class)                                                                                          \
    { #function, (gs_front_function *)hook_##function, &real_##function, &number_##function, GS_WATCH_##class }

static uint32_t number_cuInit; /* not used */

#undef CALL
#define CALL(name, class, ...) HOOK(name, class),

static const gs_front_hook hooks[] = {
#include "watch_hook_list.h"
    HOOK(cuInit, OTHER),
};

enum { HOOKS = sizeof hooks / sizeof *hooks };

const struct gs_front_hooks gs_front_hooks = {hooks, HOOKS, NULL};

_Static_assert((int)HOOKS <= (int)GS_WATCH_CALLS, "the page has names for all hooks");

static void start_watching(void) {
    const char *names[HOOKS];
    uint32_t classes[HOOKS];
    for (size_t i = 0; i < HOOKS; i++) {
        names[i] = hooks[i].name;
        classes[i] = (uint32_t)hooks[i].kind;
    }
    if (gs_watch_start(names, classes, HOOKS))
        gs_watch_helper_start();
}

#define FIND(name, arguments) gs_front_find_real(#name, &gs_watch_driver_functions.name);

void gs_front_ready(bool has_driver) {
    if (!has_driver)
        return;
    for (size_t i = 0; i < HOOKS; i++)
        *(uint32_t *)hooks[i].note = (uint32_t)i;
    GS_WATCH_DRIVER(FIND)
}
