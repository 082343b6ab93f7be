/*
 * cuda_watchdog.c: a thread that ends calls of the driver that would never return.
 *
 * Growing local memory blocks a launch call until the GPU is idle, which never happens while kernels wait for the host.
 * The watchdog then stops all kernels. It knows when a call begins and ends.
 */
#include "cuda_device.h"

#include <time.h>

enum { BLOCKED_NS = 200000000 };

/* Kernels with a duration ignore it. */
void gs_watchdog_stop_kernels(struct cuda *cuda) {
    for (size_t i = 0; i < GS_DEVICE_LAUNCHES; i++)
        gs_shared_word_set((uint32_t *)(void *)(cuda->memory + i * LINE), cuda->generation);
}

static void *watch(void *argument) {
    struct cuda *cuda = argument;
    struct timespec nap = {.tv_nsec = 10000000};
    while (!atomic_load(&cuda->quits)) {
        pthread_mutex_lock(&cuda->lock);
        if (cuda->launching_since_ns && gs_now_ns() - cuda->launching_since_ns > BLOCKED_NS) {
            cuda->blocked = true;
            gs_watchdog_stop_kernels(cuda);
        }
        pthread_mutex_unlock(&cuda->lock);
        nanosleep(&nap, NULL);
    }
    return NULL;
}

gs_code gs_watchdog_start(struct cuda *cuda, gs_error *error) {
    cuda->has_watchdog = pthread_create(&cuda->watchdog, NULL, watch, cuda) == 0;
    return cuda->has_watchdog ? GS_OK : gs_fail(error, GS_E_MEMORY, "cannot start a thread");
}

void gs_watchdog_end(struct cuda *cuda) {
    atomic_store(&cuda->quits, true);
    if (cuda->has_watchdog)
        pthread_join(cuda->watchdog, NULL);
}

void gs_watchdog_call_begins(struct cuda *cuda) {
    pthread_mutex_lock(&cuda->lock);
    cuda->launching_since_ns = gs_now_ns();
    cuda->blocked = false;
    pthread_mutex_unlock(&cuda->lock);
}

/* True: the call was blocked, and the watchdog ended it. */
bool gs_watchdog_call_ends(struct cuda *cuda) {
    pthread_mutex_lock(&cuda->lock);
    cuda->launching_since_ns = 0;
    bool blocked = cuda->blocked;
    pthread_mutex_unlock(&cuda->lock);
    return blocked;
}
