/*
 * cache.c: the folder of the cache: looks images up, adds new ones, removes old ones.
 *
 * Kernels of images run with the rights of the worker. So the folder must belong to this user or root, and no other
 * user may write to it, nor to a folder above it (src/base/trust.c). Files are opened relative to the folder, and their
 * owner and mode are checked once more.
 *
 * A compiler works in its own folder inside the cache, "work-PROCESS-XXXXXX", and leaves its image there; the image is
 * renamed into place, so no half-written image is ever found. The folder of a killed daemon is recognized by its
 * process, which no longer exists: the next daemon removes it. When the images take too much space, the least recently
 * used ones are removed; the modification time of a file is that of its last use.
 *
 * Any number of threads may call these functions at a time (images.c).
 */
#define _GNU_SOURCE
#include "cache.h"

#include "image_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the folder ---- */

static gs_code name_folder(const char *given, char *folder, gs_error *error) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = given                      ? snprintf(folder, GS_CACHE_PATH, "%s", given)
                 : cache && cache[0] == '/' ? snprintf(folder, GS_CACHE_PATH, "%s/gridsmith", cache)
                 : home && home[0] == '/'   ? snprintf(folder, GS_CACHE_PATH, "%s/.cache/gridsmith", home)
                                            : 0;
    if (length <= 0 || length >= GS_CACHE_PATH)
        return gs_fail(error, GS_E_IO, "no folder for compiled kernels: set XDG_CACHE_HOME or HOME");
    return GS_OK;
}

static gs_code open_folder(gs_cache *cache, const char *given, gs_error *error) {
    char absolute[PATH_MAX];
    gs_code code = name_folder(given, cache->folder, error);
    if (code == GS_OK)
        code = gs_make_folders(cache->folder, error);
    if (code == GS_OK)
        code = gs_check_trusted_path(cache->folder, error);
    if (code != GS_OK)
        return code;
    if (!realpath(cache->folder, absolute) || strlen(absolute) >= sizeof cache->folder)
        return gs_fail_system(error, "find", cache->folder);
    memcpy(cache->folder, absolute, strlen(absolute) + 1);
    cache->fd = open(cache->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return cache->fd >= 0 ? GS_OK : gs_fail_system(error, "open", cache->folder);
}

gs_cache *gs_cache_open(const char *folder, gs_error *error) {
    gs_cache *cache = calloc(1, sizeof *cache);
    if (!cache) {
        gs_fail_memory(error);
        return NULL;
    }
    cache->fd = -1;
    if (open_folder(cache, folder, error) == GS_OK)
        return cache;
    gs_cache_close(cache);
    return NULL;
}

void gs_cache_close(gs_cache *cache) {
    if (cache && cache->fd >= 0)
        close(cache->fd);
    free(cache);
}

/* ---- keys ---- */

/* Another build of the program compiles again, even with the same version. */
static void hash_program(gs_digest *hash, const char *program) {
    struct stat status = {0};
    if (stat(program ? program : gs_program_own(), &status) == 0) {
        const int64_t facts[] = {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
        gs_digest_add(hash, facts, sizeof facts);
    }
}

/* Variables that decide which compiler runs, and where it looks. The compiler itself is a dependency of the image. */
static void hash_environment(gs_digest *hash) {
    static const char *const variables[] = {"CC",
                                            "PATH",
                                            "GRIDSMITH_COMPILER",
                                            "GRIDSMITH_PTXAS",
                                            "CUDA_PATH",
                                            "CUDA_HOME",
                                            "LD_LIBRARY_PATH",
                                            "LD_PRELOAD",
                                            "CPATH",
                                            "C_INCLUDE_PATH",
                                            "CPLUS_INCLUDE_PATH",
                                            "GCC_EXEC_PREFIX",
                                            "COMPILER_PATH",
                                            "LIBRARY_PATH"};
    for (size_t i = 0; i < GS_COUNT(variables); i++)
        gs_digest_add_text(hash, getenv(variables[i]) ? getenv(variables[i]) : "");
}

gs_code gs_cache_key(const gs_image_request *request, char key[65], gs_error *error) {
    gs_digest hash;
    unsigned char digest[32];
    const uint64_t numbers[] = {request->bytes, request->kernel_count, request->option_count,
                                (uint64_t)request->architecture, request->counts_blocks};
    gs_digest_begin(&hash);
    gs_digest_add_text(&hash, "gridsmith image 8, " GS_VERSION);
    gs_digest_add(&hash, numbers, sizeof numbers);
    hash_program(&hash, request->program);
    hash_environment(&hash);
    if (!gs_image_digest(&hash, request->source, 0, request->bytes))
        return gs_fail(error, GS_E_IO, "a source cannot be read");
    gs_digest_end(&hash, digest);
    gs_digest_hex(digest, key);
    return GS_OK;
}

/* ---- images ---- */

/* Owns `fd`. */
static gs_image *new_image(int fd, const gs_image_front *front, const char *key, gs_error *error) {
    gs_image *image = calloc(1, sizeof *image + front->kernel_count * sizeof image->kernels[0]);
    if (!image) {
        close(fd);
        gs_fail_memory(error);
        return NULL;
    }
    image->fd = fd;
    image->kernel_count = front->kernel_count;
    image->device_bytes = front->device_bytes;
    memcpy(image->key, key, sizeof image->key);
    for (size_t i = 0; i < front->kernel_count; i++)
        image->kernels[i] = front->kernels[i].kernel;
    return image;
}

/* Opens a file that no other user can have written. -1: there is none. */
static int open_own(int folder, const char *name) {
    struct stat status;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        (status.st_uid == geteuid() || status.st_uid == 0) && !(status.st_mode & (S_IWGRP | S_IWOTH)))
        return fd;
    gs_close_fd(&fd);
    return -1;
}

static bool do_all_hold(const gs_image_front *front) {
    for (size_t i = 0; i < front->dependency_count; i++)
        if (!gs_dependency_holds(&front->dependencies[i], front->paths + front->dependencies[i].path))
            return false;
    return true;
}

static void name_image(const char *key, char *name, size_t size) {
    snprintf(name, size, "%s.image", key);
}

gs_image *gs_cache_find(const gs_cache *cache, const gs_image_request *request, gs_error *error) {
    char key[65], name[80];
    gs_image_front front;
    gs_image *image = NULL;
    if (gs_cache_key(request, key, error) != GS_OK)
        return NULL;
    name_image(key, name, sizeof name);
    int fd = open_own(cache->fd, name);
    if (fd < 0)
        return NULL;
    if (gs_image_verify(fd, &front, NULL) != GS_OK) {
        close(fd);
        return NULL;
    }
    if (do_all_hold(&front)) {
        futimens(fd, NULL); /* the time of its last use */
        image = new_image(fd, &front, key, error);
    } else {
        close(fd);
    }
    gs_image_front_free(&front);
    if (image)
        image->was_cached = image->is_kept = true;
    return image;
}

gs_image *gs_cache_install(const gs_cache *cache, const char *scratch, const char *key, bool can_be_kept,
                           gs_error *error) {
    char path[GS_CACHE_PATH + 100], name[80];
    gs_image_front front;
    snprintf(path, sizeof path, "%s/image", scratch);
    name_image(key, name, sizeof name);
    int fd = open_own(AT_FDCWD, path);
    if (fd < 0 || gs_image_verify(fd, &front, NULL) != GS_OK) {
        gs_close_fd(&fd);
        gs_fail(error, GS_E_IO, "the compiler produced no image");
        return NULL;
    }
    gs_image *image = new_image(fd, &front, key, error);
    gs_image_front_free(&front);
    if (image && can_be_kept)
        image->is_kept = renameat(AT_FDCWD, path, cache->fd, name) == 0;
    return image;
}

void gs_image_close(gs_image *image) {
    gs_close_fd(&image->fd);
}

void gs_image_free(gs_image *image) {
    if (image)
        gs_image_close(image);
    free(image);
}

/* ---- working folders of compilers ---- */

void gs_cache_sweep(const gs_cache *cache) {
    DIR *all = opendir(cache->folder);
    char path[GS_CACHE_PATH + NAME_MAX + 2];
    int process;
    for (struct dirent *entry; all && (entry = readdir(all));) {
        if (sscanf(entry->d_name, "work-%d-", &process) != 1 || kill(process, 0) == 0 || errno != ESRCH)
            continue;
        snprintf(path, sizeof path, "%s/%s", cache->folder, entry->d_name);
        gs_folder_remove(path);
    }
    if (all)
        closedir(all);
}

/* ---- least recently used images ---- */

struct kept {
    char name[80];
    uint64_t bytes;
    struct timespec used;
};

struct kept_list {
    struct kept *data;
    size_t count, capacity;
    uint64_t bytes;
};

static int by_use(const void *a, const void *b) {
    const struct timespec *x = &((const struct kept *)a)->used, *y = &((const struct kept *)b)->used;
    return x->tv_sec != y->tv_sec ? (x->tv_sec > y->tv_sec) - (x->tv_sec < y->tv_sec)
                                  : (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static void list_images(const gs_cache *cache, struct kept_list *list) {
    DIR *all = opendir(cache->folder);
    struct stat status;
    for (struct dirent *entry; all && (entry = readdir(all));) {
        const char *end = strrchr(entry->d_name, '.');
        if (!end || strcmp(end, ".image") != 0 || strlen(entry->d_name) >= sizeof list->data->name ||
            fstatat(dirfd(all), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !GS_RESERVE(list, 1))
            continue;
        struct kept *kept = &list->data[list->count++];
        *kept = (struct kept){.bytes = (uint64_t)status.st_size, .used = status.st_mtim};
        memcpy(kept->name, entry->d_name, strlen(entry->d_name) + 1);
        list->bytes += kept->bytes;
    }
    if (all)
        closedir(all);
}

static void drop_stale(const gs_cache *cache) {
    struct kept_list list = {0};
    list_images(cache, &list);
    if (list.bytes > GS_IMAGE_CACHE_BYTES)
        qsort(list.data, list.count, sizeof *list.data, by_use);
    for (size_t i = 0; i < list.count && list.bytes > GS_IMAGE_CACHE_BYTES; i++)
        if (unlinkat(cache->fd, list.data[i].name, 0) == 0)
            list.bytes -= list.data[i].bytes;
    free(list.data);
}

gs_code gs_cache_scratch(const gs_cache *cache, char *path, size_t size, gs_error *error) {
    char name[24];
    drop_stale(cache);
    snprintf(name, sizeof name, "work-%d", (int)getpid());
    char *made = gs_folder_make_in(cache->folder, name, error);
    snprintf(path, size, "%s", made ? made : "");
    free(made);
    return path[0] ? GS_OK : GS_E_IO;
}
