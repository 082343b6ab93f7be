/*
 * image.c: the daemon's side of compiling: the cache, and one compiler process for each source that is not in it. See
 * image.h.
 *
 * A compiler works in a folder of its own inside the cache, "work-PROCESS-XXXXXX", and leaves its image there; the
 * daemon renames it into place. So no half-written image is ever found. What a killed daemon leaves behind is known by
 * its process, which is gone: the next daemon removes it. When the images take too much space, those that were used
 * longest ago are removed; the time of a file says when that was.
 */
#define _GNU_SOURCE
#include "image_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct gs_compilation {
    char folder[GS_IMAGE_PATH - 200]; /* of the cache */
    char path[GS_IMAGE_PATH], made[GS_IMAGE_PATH];
    char scratch[GS_IMAGE_PATH - 100]; /* the folder of the compiler, or "" */
    char key[65];
    char name[100];
    uint32_t seconds;
    pid_t process; /* 0: none is needed */
    int fd;        /* of the process, or an eventfd that is readable */
    gs_image *image;
    gs_compiler_answer *answer;
};

/* ---- the cache ---- */

static gs_code find_folder(gs_compilation *compilation, const char *given, gs_error *error) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = given ? snprintf(compilation->folder, sizeof compilation->folder, "%s", given)
                 : cache && cache[0] == '/'
                     ? snprintf(compilation->folder, sizeof compilation->folder, "%s/gridsmith", cache)
                 : home && home[0] == '/'
                     ? snprintf(compilation->folder, sizeof compilation->folder, "%s/.cache/gridsmith", home)
                     : 0;
    if (length <= 0 || (size_t)length >= sizeof compilation->folder)
        return gs_fail(error, GS_E_USAGE, "there is no folder for compiled kernels: set XDG_CACHE_HOME or HOME");
    return gs_make_folders(compilation->folder, error);
}

/* Another build of the program compiles again, whatever its version says. */
static void hash_program(gs_digest *hash, const char *program) {
    struct stat status = {0};
    const char *named = getenv("GRIDSMITH_PROGRAM");
    if (stat(program ? program : named && named[0] ? named : "/proc/self/exe", &status) == 0) {
        const int64_t facts[] = {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
        gs_digest_add(hash, facts, sizeof facts);
    }
    static const char *const variables[] = {"CXX", "CUDA_PATH", "CUDA_HOME"};
    for (size_t i = 0; i < GS_COUNT(variables); i++)
        gs_digest_add_text(hash, getenv(variables[i]) ? getenv(variables[i]) : "");
}

static void hash_request(gs_compilation *compilation, const gs_image_request *request) {
    gs_digest hash;
    unsigned char digest[32];
    const uint64_t numbers[] = {request->size, request->kernel_count, request->option_count,
                                (uint64_t)request->architecture, request->has_marks};
    gs_digest_begin(&hash);
    gs_digest_add_text(&hash, "gridsmith image, " GS_VERSION);
    gs_digest_add(&hash, numbers, sizeof numbers);
    gs_digest_add_text(&hash, request->name);
    gs_digest_add(&hash, request->text, request->size);
    for (size_t i = 0; i < request->kernel_count; i++)
        gs_digest_add_text(&hash, request->kernels[i]);
    for (size_t i = 0; i < request->option_count; i++)
        gs_digest_add_text(&hash, request->options[i]);
    hash_program(&hash, request->program);
    gs_digest_end(&hash, digest);
    gs_digest_hex(digest, compilation->key);
    snprintf(compilation->path, sizeof compilation->path, "%s/%s.image", compilation->folder, compilation->key);
}

static gs_image *open_image(const gs_compilation *compilation, gs_error *error) {
    gs_image_file file;
    if (gs_image_read(compilation->path, &file, error) != GS_OK)
        return NULL;
    utimensat(AT_FDCWD, compilation->path, NULL, 0); /* it was used now */
    gs_image *image = calloc(1, sizeof *image + file.kernel_count * sizeof image->kernels[0]);
    if (image) {
        image->kernel_count = file.kernel_count;
        memcpy(image->path, compilation->path, sizeof image->path);
        memcpy(image->key, compilation->key, sizeof image->key);
        for (size_t i = 0; i < file.kernel_count; i++)
            image->kernels[i] = file.kernels[i].kernel;
    } else {
        gs_fail_memory(error);
    }
    gs_image_file_free(&file);
    return image;
}

/* ---- folders that compilers work in ---- */

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status, (void)kind, (void)place;
    remove(path);
    return 0;
}

static void remove_tree(const char *path) {
    enum { MOST_OPEN = 8 };
    if (path[0])
        nftw(path, remove_one, MOST_OPEN, FTW_DEPTH | FTW_PHYS);
}

/* Removes what daemons that are gone have left. */
static void sweep(const char *folder) {
    DIR *all = opendir(folder);
    char path[GS_IMAGE_PATH];
    int process;
    for (struct dirent *entry; all && (entry = readdir(all));) {
        if (sscanf(entry->d_name, "work-%d-", &process) != 1 || kill(process, 0) == 0 || errno != ESRCH)
            continue;
        if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < sizeof path)
            remove_tree(path);
    }
    if (all)
        closedir(all);
}

/* Finds the image that was used longest ago. False: all together take no more room than they may. */
static bool find_stale(const char *folder, char *path, size_t size) {
    DIR *all = opendir(folder);
    struct stat status;
    struct timespec oldest = {.tv_sec = 0};
    uint64_t bytes = 0;
    path[0] = '\0';
    for (struct dirent *entry; all && (entry = readdir(all));) {
        const char *end = strrchr(entry->d_name, '.');
        if (!end || strcmp(end, ".image") != 0 || fstatat(dirfd(all), entry->d_name, &status, 0) != 0)
            continue;
        bytes += (uint64_t)status.st_size;
        bool is_older = status.st_mtim.tv_sec < oldest.tv_sec ||
                        (status.st_mtim.tv_sec == oldest.tv_sec && status.st_mtim.tv_nsec < oldest.tv_nsec);
        if (path[0] && !is_older)
            continue;
        oldest = status.st_mtim;
        if ((size_t)snprintf(path, size, "%s/%s", folder, entry->d_name) >= size)
            path[0] = '\0';
    }
    if (all)
        closedir(all);
    return path[0] && bytes > GS_IMAGE_CACHE_BYTES;
}

static void drop_stale(const char *folder) {
    char path[GS_IMAGE_PATH];
    while (find_stale(folder, path, sizeof path))
        if (unlink(path) != 0)
            return;
}

static gs_code make_scratch(gs_compilation *compilation, gs_error *error) {
    sweep(compilation->folder);
    drop_stale(compilation->folder);
    snprintf(compilation->scratch, sizeof compilation->scratch, "%s/work-%d-XXXXXX", compilation->folder,
             (int)getpid());
    if (!mkdtemp(compilation->scratch)) {
        gs_fail_system(error, "make the folder", compilation->scratch);
        compilation->scratch[0] = '\0';
        return GS_E_IO;
    }
    snprintf(compilation->made, sizeof compilation->made, "%s/image", compilation->scratch);
    return GS_OK;
}

/* ---- the compiler ---- */

static int write_request(const gs_image_request *request, uint32_t seconds) {
    gs_text text = {0};
    gs_compiler_request head = {.size = request->size,
                                .kernel_count = request->kernel_count,
                                .option_count = request->option_count,
                                .architecture = request->architecture,
                                .has_marks = request->has_marks,
                                .seconds = seconds};
    gs_text_put(&text, (const char *)&head, sizeof head);
    gs_text_put(&text, request->name, strlen(request->name) + 1);
    gs_text_put(&text, request->text, request->size);
    gs_text_put(&text, "", 1);
    for (size_t i = 0; i < request->kernel_count; i++)
        gs_text_put(&text, request->kernels[i], strlen(request->kernels[i]) + 1);
    for (size_t i = 0; i < request->option_count; i++)
        gs_text_put(&text, request->options[i], strlen(request->options[i]) + 1);
    int file = text.failed ? -1 : memfd_create("gridsmith-source", MFD_CLOEXEC);
    if (file >= 0 && write(file, text.data, text.count) != (ssize_t)text.count) {
        close(file);
        file = -1;
    }
    gs_text_free(&text);
    return file;
}

/* The environment as it is, but for TMPDIR. The caller frees the list. */
static const char **make_environment(const char *temporary) {
    size_t count = 0, kept = 0;
    while (environ[count])
        count++;
    const char **list = calloc(count + 2, sizeof *list);
    for (size_t i = 0; list && i < count; i++)
        if (strncmp(environ[i], "TMPDIR=", 7) != 0)
            list[kept++] = environ[i];
    if (list)
        list[kept] = temporary;
    return list;
}

static gs_code spawn_compiler(gs_compilation *compilation, const char *program, int request, int answer,
                              gs_error *error) {
    char temporary[GS_IMAGE_PATH];
    const char *words[] = {GS_COMPILER_PROCESS, compilation->made, NULL};
    snprintf(temporary, sizeof temporary, "TMPDIR=%s", compilation->scratch);
    const char **environment = make_environment(temporary);
    gs_process_options process = {.program = program,
                                  .words = words,
                                  .fds = {request, answer},
                                  .fd_count = 2,
                                  .environment = environment,
                                  .has_own_group = true};
    gs_code code = environment ? gs_process_start(&process, &compilation->process, error) : gs_fail_memory(error);
    free(environment);
    if (code == GS_OK) {
        compilation->fd = (int)syscall(SYS_pidfd_open, compilation->process, 0);
        if (compilation->fd < 0)
            code = gs_fail_system(error, "watch", "the compiler");
        else
            fcntl(compilation->fd, F_SETFD, FD_CLOEXEC);
    }
    return code;
}

static gs_code start_compiler(gs_compilation *compilation, const gs_image_request *request, gs_error *error) {
    gs_code code = make_scratch(compilation, error);
    if (code != GS_OK)
        return code;
    int request_file = write_request(request, compilation->seconds),
        answer = memfd_create("gridsmith-answer", MFD_CLOEXEC);
    void *shared = MAP_FAILED;
    if (request_file >= 0 && answer >= 0 && ftruncate(answer, sizeof *compilation->answer) == 0)
        shared = mmap(NULL, sizeof *compilation->answer, PROT_READ | PROT_WRITE, MAP_SHARED, answer, 0);
    if (shared != MAP_FAILED) {
        compilation->answer = shared;
        code = spawn_compiler(compilation, request->program, request_file, answer, error);
    } else {
        code = gs_fail_memory(error);
    }
    if (request_file >= 0)
        close(request_file);
    if (answer >= 0)
        close(answer);
    return code;
}

/* ---- compilations ---- */

static gs_code check_request(const gs_image_request *request, gs_error *error) {
    enum { MOST_OPTIONS = 32 };
    if (request->kernel_count > GS_IMAGE_KERNELS || request->option_count > MOST_OPTIONS)
        return gs_fail(error, GS_E_USAGE, "at most %d kernels and %d options can be requested", GS_IMAGE_KERNELS,
                       MOST_OPTIONS);
    for (size_t i = 0; i < request->option_count; i++)
        if (strncmp(request->options[i], "-D", 2) != 0)
            return gs_fail(error, GS_E_USAGE, "options begin with -D, not as \"%.40s\"", request->options[i]);
    return GS_OK;
}

gs_compilation *gs_image_start(const gs_image_request *request, gs_error *error) {
    gs_compilation *compilation = calloc(1, sizeof *compilation);
    if (!compilation) {
        gs_fail_memory(error);
        return NULL;
    }
    compilation->fd = -1;
    compilation->seconds = request->seconds ? request->seconds : 120;
    snprintf(compilation->name, sizeof compilation->name, "%s", request->name);
    gs_code code = check_request(request, error);
    if (code == GS_OK)
        code = find_folder(compilation, request->folder, error);
    if (code == GS_OK) {
        hash_request(compilation, request);
        compilation->image = open_image(compilation, NULL);
        if (compilation->image) {
            compilation->image->was_cached = true;
            compilation->fd = eventfd(1, EFD_CLOEXEC);
            return compilation;
        }
        code = start_compiler(compilation, request, error);
    }
    if (code == GS_OK)
        return compilation;
    gs_image_cancel(compilation);
    return NULL;
}

int gs_image_fd(const gs_compilation *compilation) {
    return compilation->fd;
}

/* Waits for the compiler, and puts its image into place. */
static gs_code take_image(gs_compilation *compilation, gs_error *error) {
    int status = 0;
    while (waitpid(compilation->process, &status, 0) < 0 && errno == EINTR)
        ;
    compilation->process = 0;
    if (!compilation->answer->is_done)
        return gs_fail(error, GS_E_KERNEL,
                       WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                           ? "%s: the compiler was stopped: it may take %u seconds"
                           : "%s: the compiler crashed",
                       compilation->name, compilation->seconds);
    if (compilation->answer->code != GS_OK) {
        if (error)
            *error = compilation->answer->error;
        return compilation->answer->code;
    }
    if (rename(compilation->made, compilation->path) != 0)
        return gs_fail_system(error, "write", compilation->path);
    compilation->image = open_image(compilation, error);
    if (!compilation->image)
        return GS_E_IO;
    return GS_OK;
}

gs_image *gs_image_finish(gs_compilation *compilation, gs_error *error) {
    if (!compilation->image)
        take_image(compilation, error);
    gs_image *image = compilation->image;
    compilation->image = NULL;
    gs_image_cancel(compilation);
    return image;
}

void gs_image_cancel(gs_compilation *compilation) {
    if (!compilation)
        return;
    if (compilation->process > 0) {
        kill(-compilation->process, SIGKILL);
        while (waitpid(compilation->process, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (compilation->fd >= 0)
        close(compilation->fd);
    if (compilation->answer)
        munmap(compilation->answer, sizeof *compilation->answer);
    remove_tree(compilation->scratch);
    gs_image_free(compilation->image);
    free(compilation);
}

int gs_image_find(const gs_image *image, const char *kernel) {
    for (size_t i = 0; i < image->kernel_count; i++)
        if (strcmp(image->kernels[i].name, kernel) == 0)
            return (int)i;
    return -1;
}

void gs_image_free(gs_image *image) {
    free(image);
}
