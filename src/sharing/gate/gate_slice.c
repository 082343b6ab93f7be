/*
 * gate_slice.c: how long the GPU works for a program before it switches to another one, without MPS.
 *
 * The GPU switches between processes by time slices. At the end of a slice it also interrupts running kernels; there is
 * no other way to do that. The driver sets the slices of a process when it makes a context (2 ms), by a call of ioctl()
 * to the kernel module that needs no privilege. This file replaces the driver's ioctl (in the table that its calls go
 * through) by its own function, which repeats that call with another time: best-effort programs get short slices, so
 * that a request waits at most one slice.
 *
 * The layout of the calls is that of NVIDIA's open kernel modules. Other calls pass unchanged.
 */
#define _GNU_SOURCE
#include "gate.h"
#include "gate_table.h"

#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

enum {
    MAGIC = 'F',
    RM_CONTROL = 0x2a, /* an ioctl number */
    GROUPS = 64
};

static const uint32_t SET_TIMESLICE = 0xa06c0103; /* of a channel group */

struct rm_control { /* NVOS54_PARAMETERS */
    uint32_t client, object, command, flags;
    uint64_t parameters;
    uint32_t size, status;
};

/* A channel group of the driver, and the call that set its slice. A destroyed group refuses later calls. */
struct group {
    int fd;
    unsigned long request;
    struct rm_control control;
    uint64_t usual_us;
};

static struct slices {
    pthread_mutex_t lock;
    uint64_t us;     /* 0: the driver's default */
    bool is_refused; /* some group has refused it */
    struct group groups[GROUPS];
    size_t count; /* groups so far; only the last are kept */
} slices = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool sets_slice(unsigned long request, const struct rm_control *control) {
    return _IOC_TYPE(request) == MAGIC && _IOC_NR(request) == RM_CONTROL && _IOC_SIZE(request) == sizeof *control &&
           control && control->command == SET_TIMESLICE && control->size == sizeof(uint64_t) && control->parameters;
}

static bool set_timeslice(const struct group *group, uint64_t us) {
    struct rm_control control = group->control;
    control.parameters = (uint64_t)(uintptr_t)&us;
    return ioctl(group->fd, group->request, &control) == 0 && control.status == 0;
}

/* The driver sets a slice. If ours is refused, the driver's value is set. */
static int set_slice(int fd, unsigned long request, struct rm_control *control) {
    struct group group = {.fd = fd, .request = request, .control = *control};
    memcpy(&group.usual_us, (void *)(uintptr_t)control->parameters, sizeof group.usual_us);
    int result = ioctl(fd, request, control);
    pthread_mutex_lock(&slices.lock);
    slices.is_refused |= slices.us && !set_timeslice(&group, slices.us);
    slices.groups[slices.count++ % GROUPS] = group;
    pthread_mutex_unlock(&slices.lock);
    return result;
}

uint64_t gs_gate_slice_set(uint64_t us) {
    pthread_mutex_lock(&slices.lock);
    if (slices.us != us) {
        slices.us = us;
        slices.is_refused = false;
        for (size_t i = 0; i < slices.count && i < GROUPS; i++)
            slices.is_refused |= !set_timeslice(&slices.groups[i], us ? us : slices.groups[i].usual_us);
    }
    uint64_t in_force = slices.count && !slices.is_refused ? us : 0;
    pthread_mutex_unlock(&slices.lock);
    return in_force;
}

/* In place of the driver's ioctl. */
static int sliced_ioctl(int fd, unsigned long request, ...) {
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return sets_slice(request, argument) ? set_slice(fd, request, argument) : ioctl(fd, request, argument);
}

void gs_gate_slice_install(void *driver) {
    if (gs_gate_state.slice_us)
        gs_table_replace(driver, "ioctl", (gs_table_function *)sliced_ioctl);
}
