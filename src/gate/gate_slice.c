/*
 * gate_slice.c: how long the GPU works for a program before it turns to another one, without MPS.
 *
 * The GPU switches between processes by time slices. At the end of a slice it also interrupts kernels that run, which
 * nothing else can do. The driver sets the slices of a process when it makes a context (2 ms), by a call of ioctl() to
 * the kernel module that needs no privilege. This file puts a function of its own in place of the driver's ioctl (in
 * the table that its calls go through), and repeats that call with another time: best-effort programs get short slices,
 * so that a request waits for a slice at most.
 *
 * The layout of the calls is that of NVIDIA's open kernel modules. Calls that do not look like it are left alone.
 */
#define _GNU_SOURCE
#include "gate.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MAGIC = 'F',
    RM_CONTROL = 0x2a, /* of the numbers of ioctl */
    GROUPS = 64,
#if defined(__aarch64__)
    JUMP_SLOT = R_AARCH64_JUMP_SLOT,
    GLOBAL_DATA = R_AARCH64_GLOB_DAT
#else
    JUMP_SLOT = R_X86_64_JUMP_SLOT,
    GLOBAL_DATA = R_X86_64_GLOB_DAT
#endif
};

static const uint32_t SET_TIMESLICE = 0xa06c0103; /* of a group of channels */

struct rm_control { /* NVOS54_PARAMETERS */
    uint32_t client, object, command, flags;
    uint64_t parameters;
    uint32_t size, status;
};

/* A group of channels of the driver, and the call that set its slice. One that is gone refuses later calls. */
struct group {
    int fd;
    unsigned long request;
    struct rm_control control;
    uint64_t usual_us;
};

static struct slices {
    pthread_mutex_t lock;
    uint64_t us;     /* 0: as the driver likes */
    bool is_refused; /* not by all groups is it accepted */
    struct group groups[GROUPS];
    size_t count; /* so far: the last are kept */
} slices = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool sets_slice(unsigned long request, const struct rm_control *control) {
    return _IOC_TYPE(request) == MAGIC && _IOC_NR(request) == RM_CONTROL && _IOC_SIZE(request) == sizeof *control &&
           control && control->command == SET_TIMESLICE && control->size == sizeof(uint64_t) && control->parameters;
}

static bool call(const struct group *group, uint64_t us) {
    struct rm_control control = group->control;
    control.parameters = (uint64_t)(uintptr_t)&us;
    return ioctl(group->fd, group->request, &control) == 0 && control.status == 0;
}

/* The driver sets a slice. Where ours is refused, it is set as the driver wants it. */
static int set_slice(int fd, unsigned long request, struct rm_control *control) {
    struct group group = {.fd = fd, .request = request, .control = *control};
    memcpy(&group.usual_us, (void *)(uintptr_t)control->parameters, sizeof group.usual_us);
    int result = ioctl(fd, request, control);
    pthread_mutex_lock(&slices.lock);
    slices.is_refused |= slices.us && !call(&group, slices.us);
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
            slices.is_refused |= !call(&slices.groups[i], us ? us : slices.groups[i].usual_us);
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

/* ---- the driver's table ---- */

struct table {
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * entries[2];
    size_t bytes[2];
};

static struct table read_table(const struct link_map *library) {
    struct table table = {0};
    for (const ElfW(Dyn) *at = library->l_ld; at->d_tag != DT_NULL; at++) {
        const void *address = (const void *)at->d_un.d_ptr;
        switch (at->d_tag) {
        case DT_SYMTAB:
            table.symbols = address;
            break;
        case DT_STRTAB:
            table.names = address;
            break;
        case DT_JMPREL:
            table.entries[0] = address;
            break;
        case DT_PLTRELSZ:
            table.bytes[0] = at->d_un.d_val;
            break;
        case DT_RELA:
            table.entries[1] = address;
            break;
        case DT_RELASZ:
            table.bytes[1] = at->d_un.d_val;
            break;
        default:
            break;
        }
    }
    return table;
}

static bool is_ioctl(const struct table *table, const ElfW(Rela) * entry) {
    unsigned type = (unsigned)ELF64_R_TYPE(entry->r_info);
    const ElfW(Sym) *symbol = &table->symbols[ELF64_R_SYM(entry->r_info)];
    return (type == JUMP_SLOT || type == GLOBAL_DATA) && strcmp(table->names + symbol->st_name, "ioctl") == 0;
}

static void replace_at(uintptr_t place) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    int (*hook)(int, unsigned long, ...) = sliced_ioctl;
    if (mprotect((void *)(place & ~(page - 1)), page, PROT_READ | PROT_WRITE) == 0)
        memcpy((void *)place, &hook, sizeof hook);
}

void gs_gate_slice_install(void *driver) {
    struct link_map *library = NULL;
    if (!gs_gate_state.slice_us || dlinfo(driver, RTLD_DI_LINKMAP, &library) != 0)
        return;
    struct table table = read_table(library);
    for (int i = 0; i < 2 && table.symbols && table.names; i++)
        for (size_t at = 0; table.entries[i] && at < table.bytes[i] / sizeof *table.entries[i]; at++)
            if (is_ioctl(&table, &table.entries[i][at]))
                replace_at((uintptr_t)library->l_addr + table.entries[i][at].r_offset);
}
