/*
 * compilation.c: one compiler process: starts it, watches it, kills it if it exceeds a limit, and reads its result.
 *
 * The caller's thread waits until the process has ended. It periodically sums up the resources of all processes of the
 * group. An ended process is not reaped before its group was killed: until then its number cannot be that of another
 * group.
 */
#define _GNU_SOURCE
#include "cache.h"
#include "image_file.h"
#include "sandbox.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_MS = 50, LOOK_AT_MOST = 20 /* measuring may take at most 1/20 of the time */ };

struct compilation {
    const gs_cache *cache;
    const gs_image_request *request;
    gs_compiler_limits limits;
    char key[65];
    char scratch[GS_CACHE_PATH + 100];
    gs_compiler_shared *shared;
    pid_t process;
    int fd, stop; /* of the process; of the caller */
};

/* ---- starting it ---- */

static gs_compiler_limits limits_of(const gs_image_request *request) {
    const gs_compiler_limits *given = &request->limits;
    return (gs_compiler_limits){.seconds = given->seconds ? given->seconds : GS_COMPILER_SECONDS,
                                .memory_mb = given->memory_mb ? given->memory_mb : GS_COMPILER_MEMORY_MB,
                                .output_mb = given->output_mb ? given->output_mb : GS_COMPILER_OUTPUT_MB,
                                .processes = given->processes ? given->processes : GS_COMPILER_PROCESSES};
}

static gs_code start_compiler(struct compilation *compilation, int shared, gs_error *error) {
    char temporary[sizeof compilation->scratch + 10];
    const char *program = compilation->request->program;
    const char *words[] = {"gridsmith", GS_COMPILER_PROCESS, compilation->scratch, NULL};
    /* A folder for temporary files, and nothing that makes compilers speak another language or keep files elsewhere. */
    const char *changes[] = {temporary, "LC_ALL=C", "LANGUAGE", "CCACHE_DISABLE=1", NULL};
    snprintf(temporary, sizeof temporary, "TMPDIR=%s", compilation->scratch);
    gs_process_options process = {.program = program ? program : gs_program_own(),
                                  .words = words,
                                  .fds = {compilation->request->source, shared},
                                  .fd_count = 2,
                                  .changes = changes,
                                  .has_own_group = true,
                                  .end_signal = SIGTERM};
    gs_code code = gs_process_start(&process, &compilation->process, error);
    if (code != GS_OK)
        return code;
    compilation->fd = (int)syscall(SYS_pidfd_open, compilation->process, 0);
    return compilation->fd >= 0 ? GS_OK : gs_fail_system(error, "watch", "the compiler");
}

static gs_code start(struct compilation *compilation, gs_error *error) {
    const gs_image_request *request = compilation->request;
    int fd = memfd_create("gridsmith-compiler", MFD_CLOEXEC);
    void *memory = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof *compilation->shared) == 0)
        memory = mmap(NULL, sizeof *compilation->shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    gs_code code = memory == MAP_FAILED ? gs_fail_memory(error) : GS_OK;
    if (code == GS_OK) {
        compilation->shared = memory;
        *compilation->shared = (gs_compiler_shared){.bytes = request->bytes,
                                                    .option_count = request->option_count,
                                                    .kernel_count = request->kernel_count,
                                                    .architecture = request->architecture,
                                                    .counts_blocks = request->counts_blocks,
                                                    .has_others = request->has_others,
                                                    .limits = compilation->limits};
        code = start_compiler(compilation, fd, error);
    }
    gs_close_fd(&fd);
    return code;
}

/* ---- watching it ---- */

/* The limit of seconds is one of CPU time (sandbox.c). A compiler has a low priority: on a busy machine it takes
 * longer. */
static gs_code check_limits(const struct compilation *compilation, int64_t began, gs_error *error) {
    const gs_compiler_limits *limits = &compilation->limits;
    uint64_t bytes;
    uint32_t processes;
    if (gs_now_ns() - began > (int64_t)limits->seconds * GS_COMPILER_WAITS * 1000000000)
        return gs_fail(error, GS_E_KERNEL, "the compiler took longer than %u s", limits->seconds);
    if (!gs_sandbox_measure(compilation->process, &bytes, &processes))
        return GS_OK;
    if (bytes > (uint64_t)limits->memory_mb << 20)
        return gs_fail(error, GS_E_KERNEL, "the compiler needed more than %u MB", limits->memory_mb);
    if (processes > limits->processes)
        return gs_fail(error, GS_E_KERNEL, "the compiler started more than %u processes", limits->processes);
    return GS_OK;
}

/* Waits until the process has ended, must stop, or exceeds a limit. */
static gs_code watch(const struct compilation *compilation, gs_error *error) {
    struct pollfd watched[] = {{.fd = compilation->fd, .events = POLLIN}, {.fd = compilation->stop, .events = POLLIN}};
    int64_t began = gs_now_ns(), wait_ms = LOOK_MS;
    for (;;) {
        int ready = poll(watched, GS_COUNT(watched), (int)wait_ms);
        if (ready > 0 && watched[1].revents)
            return gs_fail(error, GS_E_IO, "the compiler was stopped");
        if (ready > 0 && watched[0].revents)
            return GS_OK;
        int64_t measured = gs_now_ns();
        gs_code code = check_limits(compilation, began, error);
        if (code != GS_OK)
            return code;
        wait_ms = gs_max(LOOK_MS, (gs_now_ns() - measured) * LOOK_AT_MOST / 1000000);
    }
}

/* Kills all remaining processes. Returns the exit status of the first one. */
static int end(struct compilation *compilation) {
    int status = 0;
    if (compilation->process <= 0)
        return 0;
    status = gs_process_kill(compilation->process, true);
    compilation->process = 0;
    return status;
}

static gs_code take_answer(const gs_compiler_shared *shared, int status, const gs_compiler_limits *limits,
                           gs_error *error) {
    if (!shared->is_done && WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        return gs_fail(error, GS_E_KERNEL, "the compiler took longer than %u s", limits->seconds);
    if (!shared->is_done && WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ)
        return gs_fail(error, GS_E_KERNEL, "the compiler wrote more than %u MB", limits->output_mb);
    if (!shared->is_done)
        return gs_fail(error, GS_E_KERNEL, "the compiler crashed");
    if (shared->code == GS_OK)
        return GS_OK;
    gs_error answer = shared->error; /* a copy: a hostile source may have made the process write anything there */
    answer.file[sizeof answer.file - 1] = answer.message[sizeof answer.message - 1] = '\0';
    answer.code = shared->code > GS_OK && shared->code < GS_CODES ? shared->code : GS_E_KERNEL;
    if (error)
        *error = answer;
    return answer.code;
}

/* ---- all of it ---- */

static gs_image *compile(struct compilation *compilation, gs_error *error) {
    gs_code code = gs_cache_key(compilation->request, compilation->key, error);
    if (code == GS_OK)
        code = gs_cache_scratch(compilation->cache, compilation->scratch, sizeof compilation->scratch, error);
    if (code == GS_OK)
        code = start(compilation, error);
    if (code == GS_OK)
        code = watch(compilation, error);
    int status = end(compilation);
    if (code == GS_OK)
        code = take_answer(compilation->shared, status, &compilation->limits, error);
    return code == GS_OK ? gs_cache_install(compilation->cache, compilation->scratch, compilation->key,
                                            compilation->shared->is_stable, error)
                         : NULL;
}

gs_image *gs_cache_compile(const gs_cache *cache, const gs_image_request *request, int stop, gs_error *error) {
    struct compilation compilation = {
        .cache = cache, .request = request, .limits = limits_of(request), .fd = -1, .stop = stop};
    gs_image *image = compile(&compilation, error);
    gs_close_fd(&compilation.fd);
    if (compilation.shared)
        munmap(compilation.shared, sizeof *compilation.shared);
    gs_folder_remove(compilation.scratch);
    return image;
}

gs_image *gs_image_make(const char *folder, const gs_image_source *source, const gs_image_request *request,
                        gs_error *error) {
    gs_image_request packed = *request;
    gs_error found = {.code = GS_OK};
    gs_cache *cache = gs_cache_open(folder, &found);
    gs_code code = cache ? gs_image_pack(source, &packed, &found) : found.code;
    gs_image *image = NULL;
    if (code == GS_OK) {
        image = gs_cache_find(cache, &packed, &found);
        if (!image && found.code == GS_OK)
            image = gs_cache_compile(cache, &packed, -1, &found);
        close(packed.source);
    }
    gs_cache_close(cache);
    if (!image && error)
        *error = found;
    return image;
}
