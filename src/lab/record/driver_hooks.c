/*
 * driver_hooks.c: hooks of the recorded driver functions; the hook of cuX is named hook_cuX.
 *
 * driver_hook_list.h has the functions. Most are WORK: their parameters, the call of the driver, and its meaning.
 */
#include "driver_work.h"

#include <string.h>

/* CUPTI's kinds of copies. */
enum {
    UNKNOWN,
    TO_DEVICE,
    TO_HOST,
    TO_ARRAY,
    FROM_ARRAY,
    ARRAYS,
    ARRAY_TO_DEVICE,
    DEVICE_TO_ARRAY,
    IN_DEVICE,
    PEERS = 10
};

static uint64_t sum_of_sizes(const size_t *sizes, size_t count) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < count && sizes; i++)
        bytes += sizes[i];
    return bytes;
}

/* A hooked function: the real one, its row in the recorder's table, and the hook. */
#define HOOK(name, parameters, ...)                                                                                    \
    static int(*real_##name) parameters;                                                                               \
    static const gs_call *call_##name;                                                                                 \
    static int hook_##name parameters {                                                                                \
        __VA_ARGS__                                                                                                    \
    }

/* A function that the recorder follows. */
#define WORK(name, parameters, arguments, ...)                                                                         \
    HOOK(name, parameters, if (!gs_driver_recorder_is_on()) return real_##name arguments;                              \
         gs_driver_work work = {.call = call_##name, __VA_ARGS__}; gs_driver_before(&work);                            \
         int result = real_##name arguments; gs_driver_after(&work, result); return result;)
#define WORKS(name, parameters, arguments, ...)                                                                        \
    WORK(name, parameters, arguments, __VA_ARGS__)                                                                     \
    WORK(name##_ptsz, parameters, arguments, __VA_ARGS__)
/* For functions without a stream. */
#define SYNCS(name, parameters, arguments, ...)                                                                        \
    WORK(name, parameters, arguments, __VA_ARGS__)                                                                     \
    WORK(name##_ptds, parameters, arguments, __VA_ARGS__)
/* One of which something is noted after the call, on a condition. */
#define AFTER(name, parameters, arguments, condition, note)                                                            \
    HOOK(name, parameters, int result = real_##name arguments; if (gs_driver_recorder_is_on() && (condition)) note;    \
         return result;)

#include "driver_hook_list.h"

/* ---- the table of hooks ---- */

#undef HOOK
#define HOOK(name, ...) {#name, (gs_front_function *)hook_##name, &real_##name, &call_##name, 0},

static const gs_front_hook hooks[] = {
#include "driver_hook_list.h"
};

const struct gs_front_hooks gs_front_hooks = {hooks, sizeof hooks / sizeof *hooks, NULL};

/* The row of a function in the recorder's table; NULL: it has none. */
static const gs_call *find_call(const char *name) {
    static const char *const endings[] = {"_ptsz", "_ptds"};
    size_t length = strlen(name);
    bool per_thread = false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings && !per_thread; i++)
        per_thread = length > 5 && strcmp(name + length - 5, endings[i]) == 0;
    length -= per_thread ? 5 : 0;
    for (size_t i = 0; i < gs_call_count; i++)
        if (gs_calls[i].domain == CUPTI_DRIVER && gs_calls[i].per_thread == per_thread &&
            strncmp(gs_calls[i].symbol, name, length) == 0 && !gs_calls[i].symbol[length])
            return &gs_calls[i];
    return NULL;
}

void gs_front_ready(bool has_driver) {
    for (size_t i = 0; i < gs_front_hooks.count && has_driver; i++)
        *(const gs_call **)hooks[i].note = find_call(hooks[i].name);
    gs_driver_recorder_ready();
}
