/*
 * gate_twin.c: the twin of a kernel: the same machine code with a guard in front, in a module of its own.
 *
 * Nothing of what the program loads is changed, and it never gets to see a twin. When a kernel turns out to be long,
 * its machine code is looked up in what the program gave to the driver, gets a guard, and is loaded once more. The twin
 * uses the variables of the original. A kernel whose code is not found, or of which something is not understood, has no
 * twin.
 *
 * Constants that the program can write are copied before each launch of a twin (gate_guard.c).
 *
 * Images inside of libraries stay where they are; others are copied, because programs free them. The code that the
 * driver makes of PTX is not known.
 */
#define _GNU_SOURCE
#include "gate_twin.h"

#include "kernels/sass/sass.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLACES = 1 << 14,        /* of the table of owners, a power of two */
    TWINS = 256,             /* kernels that have one, or cannot */
    OWNERS = 4,              /* from a function to its library, at most */
    MOST_COPIED = 256 << 20, /* bytes of images */
    MOST_FILE = 1 << 30,
    MAJOR = 75, /* attributes of a device */
    MINOR = 76
};

struct image {
    const void *owner;
    bool is_library; /* else a module */
    const void *bytes;
    size_t size;
    char *path;   /* of a file, which is read when it is needed */
    void *copied; /* NULL, or `bytes`, to be freed */
    struct image *next;
};

static struct twins {
    pthread_mutex_t lock;
    struct {
        const void *child, *owner;
    } owners[PLACES];
    struct image *images;
    size_t copied;
    gs_gate_twin all[TWINS];
    size_t count;
} twins = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- owners; under the lock ---- */

/* The entry of a child, or a free one; NULL: that part of the table is full. */
static size_t find_place(const void *child) {
    enum { TRIES = 64 };
    size_t start = (size_t)((uintptr_t)child / 16 * 0x9e3779b97f4a7c15u >> 32);
    for (size_t i = 0; i < TRIES; i++) {
        size_t at = (start + i) % PLACES;
        if (!twins.owners[at].child || twins.owners[at].child == child)
            return at;
    }
    return PLACES;
}

void gs_gate_owner_keep(const void *child, const void *owner) {
    pthread_mutex_lock(&twins.lock);
    size_t at = find_place(child);
    if (at < PLACES && child) {
        twins.owners[at].child = child;
        twins.owners[at].owner = owner;
    }
    pthread_mutex_unlock(&twins.lock);
}

static const void *owner_of(const void *child) {
    size_t at = find_place(child);
    return at < PLACES && twins.owners[at].child == child ? twins.owners[at].owner : NULL;
}

static bool is_owned(const void *child, const void *owner) {
    for (int i = 0; i < OWNERS && child && child != owner; i++)
        child = owner_of(child);
    return child == owner;
}

/* ---- images ---- */

static void free_image(struct image *image) {
    twins.copied -= image->copied ? image->size : 0;
    free(image->copied);
    free(image->path);
    free(image);
}

static void add_image(struct image image) {
    struct image *kept = malloc(sizeof *kept);
    pthread_mutex_lock(&twins.lock);
    bool is_room = !image.copied || twins.copied <= MOST_COPIED - image.size;
    if (kept && is_room) {
        *kept = image;
        kept->next = twins.images;
        twins.images = kept;
        twins.copied += image.copied ? image.size : 0;
    } else {
        free(image.copied);
        free(image.path);
        free(kept);
    }
    pthread_mutex_unlock(&twins.lock);
}

void gs_gate_image_keep(const void *owner, bool is_library, const void *given) {
    Dl_info place;
    struct image image = {.owner = owner, .is_library = is_library, .bytes = gs_fatbin_unwrap(given)};
    image.size = gs_fatbin_bytes(image.bytes);
    if (!image.size)
        return;
    if (!dladdr(image.bytes, &place)) {
        image.copied = image.size <= MOST_COPIED ? malloc(image.size) : NULL;
        if (!image.copied)
            return;
        image.bytes = memcpy(image.copied, image.bytes, image.size);
    }
    add_image(image);
}

void gs_gate_image_keep_file(const void *owner, bool is_library, const char *path) {
    struct image image = {.owner = owner, .is_library = is_library, .path = strdup(path)};
    if (image.path)
        add_image(image);
}

static const struct image *image_of(const void *what) {
    for (int i = 0; i < OWNERS && what; i++, what = owner_of(what))
        for (const struct image *image = twins.images; image; image = image->next)
            if (image->owner == what)
                return image;
    return NULL;
}

/* There are more ways to a function than the hooks know: the driver may say where it comes from. */
static const struct image *image_of_twin(const gs_gate_twin *twin) {
    const struct image *image = image_of(twin->what);
    void *kernel = (void *)(uintptr_t)twin->what, *owner = NULL;
    if (!image && gs_gate_real.cuKernelGetLibrary && twin->what != twin->original &&
        gs_gate_real.cuKernelGetLibrary(&owner, kernel) == GS_CUDA_OK)
        image = image_of(owner);
    if (!image && gs_gate_real.cuFuncGetModule && gs_gate_real.cuFuncGetModule(&owner, twin->original) == GS_CUDA_OK)
        image = image_of(owner);
    return image;
}

/* The bytes of an image that is a file. The caller frees them. */
static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    bool is_there = fseek(file, 0, SEEK_END) == 0;
    long length = is_there ? ftell(file) : -1;
    char *bytes = length > 0 && length < MOST_FILE ? malloc((size_t)length) : NULL;
    *size = (size_t)length;
    rewind(file);
    if (bytes && fread(bytes, 1, *size, file) != *size) {
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    return bytes;
}

/* ---- making a twin; under the lock ---- */

static size_t expand_zstd(void *into, size_t into_size, const void *from, size_t size) {
    static size_t (*decompress)(void *, size_t, const void *, size_t);
    if (!decompress) {
        void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
        void *symbol = library ? dlsym(library, "ZSTD_decompress") : NULL;
        memcpy(&decompress, &symbol, sizeof symbol);
    }
    return decompress ? decompress(into, into_size, from, size) : 0;
}

static int architecture_here(void) {
    int device = 0, major = 0, minor = 0;
    return gs_gate_real.cuCtxGetDevice && gs_gate_real.cuCtxGetDevice(&device) == GS_CUDA_OK &&
                   gs_gate_real.cuDeviceGetAttribute(&major, MAJOR, device) == GS_CUDA_OK &&
                   gs_gate_real.cuDeviceGetAttribute(&minor, MINOR, device) == GS_CUDA_OK
               ? 10 * major + minor
               : 0;
}

static const char *name_of(const gs_gate_twin *twin) {
    const char *name = NULL;
    return gs_gate_real.cuFuncGetName && gs_gate_real.cuFuncGetName(&name, twin->original) == GS_CUDA_OK ? name : NULL;
}

/* The machine code of a kernel, in the module that has it. */
static gs_code find_code(const struct image *image, const char *name, gs_text *code, gs_error *error) {
    size_t size = image->size;
    char *file = image->path ? read_file(image->path, &size) : NULL;
    const void *bytes = file ? file : image->bytes;
    gs_code result = bytes ? gs_fatbin_find_cubin(bytes, size, architecture_here(), name, expand_zstd, code, error)
                           : gs_fail(error, GS_E_REFUSED, "its file cannot be read");
    free(file);
    return result;
}

/* The address of a variable of the original. */
static bool find_variable(void *context, const char *name, uint64_t size, uint64_t *address) {
    const struct image *image = context;
    gs_gate_pointer found = 0;
    size_t bytes = 0;
    int (*find)(gs_gate_pointer *, size_t *, void *, const char *) =
        image->is_library ? gs_gate_real.cuLibraryGetGlobal : gs_gate_real.cuModuleGetGlobal_v2;
    if (!find || find(&found, &bytes, (void *)(uintptr_t)image->owner, name) != GS_CUDA_OK || bytes != size)
        return false;
    *address = found;
    return true;
}

/* `constants` is of the original; that of the twin is found when it is loaded. */
static gs_code keep_constants(gs_gate_twin *twin, const gs_sass_constants *constants, char **name, gs_error *error) {
    twin->constants.bytes = constants->end - constants->begin;
    twin->constants.from = constants->address + constants->begin;
    twin->constants.to = constants->begin - constants->at; /* from the one that is named */
    *name = constants->name ? strdup(constants->name) : NULL;
    return constants->name && !*name ? gs_fail_memory(error) : GS_OK;
}

/* Puts the guard in front of all kernels of the module; `twin` gets what is special to the one named. The caller frees
   `constant`. */
static gs_code guard_code(const struct image *from, gs_text *code, const char *name, gs_gate_twin *twin,
                          char **constant, gs_error *error) {
    gs_sass_constants constants;
    gs_sass_image image;
    gs_guarded_list list = {0};
    gs_text made = {0};
    const char *refused = "it is not a kernel of its module";
    gs_code result = gs_sass_read(&image, code->data, code->count, error);
    if (result == GS_OK)
        result = gs_sass_share_variables(&image, name, find_variable, (void *)(uintptr_t)from, error);
    if (result == GS_OK)
        result = gs_sass_find_constants(&image, find_variable, (void *)(uintptr_t)from, &constants, error);
    if (result == GS_OK)
        result = keep_constants(twin, &constants, constant, error);
    if (result == GS_OK)
        result = gs_sass_guard(&image, &list, error);
    for (size_t i = 0; i < list.count && result == GS_OK; i++)
        if (strcmp(list.data[i].kernel, name) == 0) {
            refused = list.data[i].refused;
            twin->parameter = list.data[i].parameter;
            twin->offset = list.data[i].offset;
            twin->cluster = list.data[i].cluster;
        }
    if (result == GS_OK)
        result = refused ? gs_fail(error, GS_E_REFUSED, "%s", refused) : gs_sass_write(&image, &made, error);
    gs_sass_free(&image);
    free(list.data);
    gs_text_free(code);
    *code = made;
    return result;
}

/* Whether the driver runs the code that has the guard: newer GPUs have it twice. */
static bool takes_guard(const gs_gate_twin *twin) {
    size_t offset = 0, size = 0;
    return gs_gate_real.cuFuncGetParamInfo &&
           gs_gate_real.cuFuncGetParamInfo(twin->function, twin->parameter, &offset, &size) == GS_CUDA_OK &&
           offset == twin->offset && size == sizeof(gs_guard_parameter);
}

/* Where the twin has its constants. */
static bool find_constants(gs_gate_twin *twin, const char *constant) {
    gs_gate_pointer address = 0;
    size_t bytes = 0;
    if (constant && (!gs_gate_real.cuModuleGetGlobal_v2 || !gs_gate_real.cuMemcpyDtoDAsync_v2 ||
                     gs_gate_real.cuModuleGetGlobal_v2(&address, &bytes, twin->module, constant) != GS_CUDA_OK))
        return false;
    twin->constants.to += address;
    return true;
}

static gs_code load_twin(gs_gate_twin *twin, const char *name, const char *constant, const gs_text *code,
                         gs_error *error) {
    int failed = gs_gate_real.cuModuleLoadData(&twin->module, code->data);
    if (failed)
        return gs_fail(error, GS_E_REFUSED, "the driver refuses it: CUDA error %d", failed);
    if (gs_gate_real.cuModuleGetFunction(&twin->function, twin->module, name) == GS_CUDA_OK && takes_guard(twin) &&
        find_constants(twin, constant))
        return GS_OK;
    gs_gate_real.cuModuleUnload(twin->module);
    twin->module = twin->function = NULL;
    return gs_fail(error, GS_E_REFUSED, "the driver runs other code of it");
}

static void make_twin(gs_gate_twin *twin) {
    const struct image *image = image_of_twin(twin);
    const char *name = name_of(twin);
    char *constant = NULL;
    gs_error error = {.message = "its machine code is not known"};
    gs_text code = {0};
    if (image && name && find_code(image, name, &code, &error) == GS_OK &&
        guard_code(image, &code, name, twin, &constant, &error) == GS_OK &&
        load_twin(twin, name, constant, &code, &error) == GS_OK)
        error.message[0] = '\0';
    snprintf(twin->reason, sizeof twin->reason, "%s", error.message);
    gs_text_free(&code);
    free(constant);
}

/* ---- finding twins ---- */

/* A launch takes handles of two kinds, functions and kernels. */
static void *function_of(const void *what) {
    enum { REGISTERS = 4 };
    void *handle = (void *)(uintptr_t)what, *function = NULL;
    int value;
    if (gs_gate_real.cuFuncGetAttribute(&value, REGISTERS, handle) == GS_CUDA_OK)
        return handle;
    return gs_gate_real.cuKernelGetFunction && gs_gate_real.cuKernelGetFunction(&function, handle) == GS_CUDA_OK
               ? function
               : NULL;
}

void gs_gate_function_keep(const void *what) {
    pthread_mutex_lock(&twins.lock);
    bool is_known = owner_of(what) && image_of(what);
    pthread_mutex_unlock(&twins.lock);
    int mode = gs_gate_relax();
    void *function = is_known && gs_gate_real.cuFuncGetAttribute ? function_of(what) : NULL;
    gs_gate_respect(mode);
    if (function && function != what)
        gs_gate_owner_keep(function, what);
}

bool gs_gate_twin_find(const void *what, gs_gate_twin *twin) {
    void *context = NULL;
    if (!gs_gate_real.cuModuleLoadData || !gs_gate_real.cuModuleGetFunction || !gs_gate_real.cuModuleUnload ||
        !gs_gate_real.cuFuncGetAttribute || !gs_gate_real.cuCtxGetCurrent ||
        gs_gate_real.cuCtxGetCurrent(&context) != GS_CUDA_OK)
        return false;
    pthread_mutex_lock(&twins.lock);
    size_t at = 0;
    while (at < twins.count && (twins.all[at].what != what || twins.all[at].context != context))
        at++;
    bool is_room = at < TWINS;
    if (is_room && at == twins.count) {
        gs_gate_twin made = {.what = what, .context = context, .original = function_of(what)};
        if (made.original)
            make_twin(&made);
        gs_gate_count(&gs_gate_state.page->unguarded_kernels, 1);
        twins.all[twins.count++] = made;
    }
    if (is_room)
        *twin = twins.all[at];
    pthread_mutex_unlock(&twins.lock);
    return is_room && twin->function;
}

void gs_gate_twin_use(const void *function) {
    gs_tenant_page *page = gs_gate_state.page;
    pthread_mutex_lock(&twins.lock);
    for (size_t i = 0; i < twins.count; i++) {
        if (twins.all[i].function != function || twins.all[i].is_used)
            continue;
        twins.all[i].is_used = true;
        gs_gate_count(&page->guarded_kernels, 1);
        atomic_fetch_sub_explicit(&page->unguarded_kernels, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&twins.lock);
}

/* ---- forgetting ---- */

static void forget_twins(const void *owner) {
    for (size_t i = twins.count; i-- > 0;)
        if (is_owned(twins.all[i].what, owner)) {
            if (twins.all[i].module)
                gs_gate_real.cuModuleUnload(twins.all[i].module);
            twins.all[i] = twins.all[--twins.count];
        }
}

/* Entries of children stay: a handle that is used again gets a new owner before anybody asks. */
void gs_gate_image_forget(const void *owner) {
    pthread_mutex_lock(&twins.lock);
    forget_twins(owner);
    for (struct image **at = &twins.images; *at;) {
        struct image *image = *at;
        if (image->owner != owner) {
            at = &image->next;
            continue;
        }
        *at = image->next;
        free_image(image);
    }
    pthread_mutex_unlock(&twins.lock);
}

void gs_gate_twins_forget(void) {
    pthread_mutex_lock(&twins.lock);
    twins.count = 0;
    pthread_mutex_unlock(&twins.lock);
}
