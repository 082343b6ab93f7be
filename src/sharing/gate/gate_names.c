/*
 * gate_names.c: the names of kernels that take longer than the allowed work between two waits. They bound the delay of
 * a request, so users should know them. The longest few are on the program's page.
 *
 * A name is asked for when the kernel is about to be launched: later its module may be gone. A launch takes handles of
 * two kinds, functions and kernels.
 */
#include "gate.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *name_of(const void *what, bool is_function) {
    const char *name = NULL;
    if (!is_function)
        return "a graph";
    if (gs_gate_real.cuFuncGetName && gs_gate_real.cuFuncGetName(&name, what) == GS_CUDA_OK && name)
        return name;
    if (gs_gate_real.cuKernelGetName && gs_gate_real.cuKernelGetName(&name, what) == GS_CUDA_OK && name)
        return name;
    return "a kernel without a name";
}

/* The entry with this name, or that of the shortest kernel. */
static gs_tenant_kernel *find_entry(gs_tenant_kernel *kernels, const char *name) {
    gs_tenant_kernel *shortest = &kernels[0];
    for (size_t i = 0; i < GS_TENANT_KERNELS; i++) {
        if (atomic_load(&kernels[i].ns) && strncmp(kernels[i].name, name, sizeof kernels[i].name - 1) == 0)
            return &kernels[i];
        if (atomic_load(&kernels[i].ns) < atomic_load(&shortest->ns))
            shortest = &kernels[i];
    }
    return shortest;
}

void gs_gate_name_kernel(const void *what, bool is_function, uint64_t ns, const char *reason) {
    const char *name = name_of(what, is_function);
    pthread_mutex_lock(&lock);
    gs_tenant_kernel *entry = find_entry(gs_gate_state.page->kernels, name);
    if (ns > atomic_load(&entry->ns)) {
        atomic_store(&entry->ns, 0);
        snprintf(entry->name, sizeof entry->name, "%s", name);
        snprintf(entry->reason, sizeof entry->reason, "%s", reason ? reason : "");
        atomic_store(&entry->ns, ns);
    }
    pthread_mutex_unlock(&lock);
}
