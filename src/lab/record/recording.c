/*
 * recording.c: `gridsmith trace`: runs a program with the recorder in it, and reports the result.
 *
 * The recorder gets its settings from the environment, which all processes of the program inherit. Each process
 * that uses CUDA writes its own recording and keeps a gs_trace_status in a temporary folder, which is read when the
 * program has ended: it exists even if the process was killed.
 */
#define _GNU_SOURCE
#include "kernels/front/front.h"
#include "model/gpu/gpu.h"
#include "record.h"
#include "recorder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = GS_TRACE_PATH };

/* ---- the library ---- */

/* In the folder of the program (in a build tree), or where it is installed. */
static gs_code find_library(char *path, size_t size, gs_error *error) {
    static const char *const places[] = {"", "../" GRIDSMITH_LIBDIR "/gridsmith/", "lib/"};
    char program[PATH], candidate[PATH + 64];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0)
        return gs_fail_system(error, "read", "/proc/self/exe");
    program[length] = '\0';
    *(strrchr(program, '/') + 1) = '\0';
    for (size_t i = 0; i < GS_COUNT(places); i++) {
        snprintf(candidate, sizeof candidate, "%s%s" GS_TRACE_LIBRARY, program, places[i]);
        if (access(candidate, R_OK) == 0) {
            snprintf(path, size, "%s", candidate);
            return GS_OK;
        }
    }
    return gs_fail(error, GS_E_IO, "cannot find %s beside the program or in its library folder", GS_TRACE_LIBRARY);
}

/* ---- the environment of the program ---- */

static gs_code absolute_path(const char *path, char *into, size_t size, gs_error *error) {
    char folder[PATH];
    if (path[0] != '/' && !getcwd(folder, sizeof folder))
        return gs_fail_system(error, "find", "the current folder");
    int length = snprintf(into, size, "%s%s%s", path[0] == '/' ? "" : folder, path[0] == '/' ? "" : "/", path);
    return length < (int)size ? GS_OK : gs_fail(error, GS_E_USAGE, "the name of the output is too long");
}

/* The recorder names the description of the GPU in the recording, but cannot read descriptions. */
static gs_code set_gpus(gs_error *error) {
    gs_text text = {0};
    for (size_t i = 0; gs_gpu_builtin(i); i++) {
        gs_gpu *gpu = gs_gpu_open(gs_gpu_builtin(i), NULL);
        if (gpu && gpu->title)
            gs_text_add(&text, "%s %d %s\n", gpu->name, gpu->sms, gpu->title);
        gs_gpu_free(gpu);
    }
    bool set = !text.failed && text.data && setenv(GS_TRACE_GPUS, text.data, 1) == 0;
    gs_text_free(&text);
    return set ? GS_OK : gs_fail_memory(error);
}

/* ---- CUPTI, or the library in front of the driver ---- */

static bool has_match(const char *folder, const char *pattern) {
    char path[PATH + 128];
    glob_t found;
    snprintf(path, sizeof path, "%s%s", folder, pattern);
    bool has = glob(path, GLOB_NOSORT, NULL, &found) == 0;
    globfree(&found);
    return has;
}

/* The folders of a Python whose packages include CUPTI: above its program, or of an environment. */
static bool has_package(const char *program) {
    static const char pattern[] = "/lib/python3*/site-packages/nvidia/*/lib/libcupti.so.1[23]";
    const char *folders[] = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX")}, *path = getenv("PATH");
    char folder[PATH];
    for (size_t i = 0; i < GS_COUNT(folders); i++)
        if (folders[i] && folders[i][0] && has_match(folders[i], pattern))
            return true;
    if (strchr(program, '/')) {
        snprintf(folder, sizeof folder, "%.*s/..", (int)(strrchr(program, '/') - program), program);
        return has_match(folder, pattern);
    }
    for (size_t length; path && *path; path += length + (path[length] == ':')) {
        length = strcspn(path, ":");
        snprintf(folder, sizeof folder, "%.*s/%s", (int)length, path, program);
        if (access(folder, X_OK) != 0)
            continue;
        snprintf(folder, sizeof folder, "%.*s/..", (int)length, path);
        return has_match(folder, pattern);
    }
    return false;
}

/* Whether the program will probably find CUPTI. The recorder itself decides. */
static bool has_cupti(const gs_trace_options *options, const char *program) {
    char problem[PATH];
    cupti_api api;
    return options->cupti || has_package(program) || gs_cupti_open(&api, NULL, problem, sizeof problem);
}

static gs_code put_front(gs_error *error) {
    static const char *const places[] = {"front", "../" GRIDSMITH_LIBDIR "/gridsmith/front"};
    char folder[PATH];
    if (!gs_front_find(places, GS_COUNT(places), folder, sizeof folder))
        return gs_fail(error, GS_E_IO, "cannot find front/libcuda.so.1 beside the program or in its library folder");
    return gs_front_place(folder) ? GS_OK : gs_fail_memory(error);
}

static gs_code set_through(const gs_trace_options *options, const char *program, gs_error *error) {
    static const char *const words[] = {"any", "cupti", "driver"};
    gs_trace_through through =
        options->through == GS_TRACE_ANY && has_cupti(options, program) ? GS_TRACE_BY_CUPTI : options->through;
    char library[PATH + 64];
    gs_code code = through == GS_TRACE_BY_CUPTI ? GS_OK : put_front(error);
    if (code == GS_OK && through != GS_TRACE_BY_DRIVER)
        code = find_library(library, sizeof library, error);
    if (code != GS_OK)
        return code;
    bool set = setenv(GS_TRACE_THROUGH, words[through], 1) == 0;
    if (through != GS_TRACE_BY_DRIVER)
        set =
            set && setenv("CUDA_INJECTION64_PATH", library, 1) == 0 && setenv("NVTX_INJECTION64_PATH", library, 1) == 0;
    if (options->cupti)
        set = set && setenv(GS_TRACE_CUPTI, options->cupti, 1) == 0;
    return set ? GS_OK : gs_fail_memory(error);
}

static gs_code set_environment(const gs_trace_options *options, const char *program, const char *folder,
                               gs_error *error) {
    char output[PATH], limit[24], here[PATH];
    gs_code code = set_through(options, program, error);
    if (code == GS_OK)
        code = absolute_path(options->output, output, sizeof output, error);
    if (code == GS_OK)
        code = set_gpus(error);
    if (code != GS_OK)
        return code;
    snprintf(limit, sizeof limit, "%lld", (long long)options->limit_bytes);
    const char *started_in = getcwd(here, sizeof here) ? here : "";
    bool set = setenv(GS_TRACE_OUTPUT, output, 1) == 0 && setenv(GS_TRACE_FOLDER, started_in, 1) == 0 &&
               setenv(GS_TRACE_STATUS, folder, 1) == 0 && setenv(GS_TRACE_LIMIT, limit, 1) == 0 &&
               setenv(GS_TRACE_KEEP, options->keep_newest ? "newest" : "oldest", 1) == 0;
    return set ? GS_OK : gs_fail_memory(error);
}

/* An existing recording is replaced. Only regular files are removed. */
static gs_code remove_old(const char *path, gs_error *error) {
    struct stat found;
    char older[PATH + 16];
    gs_record_file_older(path, older, sizeof older);
    if (stat(path, &found) == 0 && !S_ISREG(found.st_mode))
        return gs_fail(error, GS_E_USAGE, "\"%s\" is not a regular file: a recording needs one", path);
    if ((unlink(path) != 0 && errno != ENOENT) || (unlink(older) != 0 && errno != ENOENT))
        return gs_fail_system(error, "replace", path);
    return GS_OK;
}

/* Fails early rather than while the program runs. */
static gs_code check_writable(const char *path, gs_error *error) {
    char folder[PATH];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    return access(folder, W_OK) == 0 ? GS_OK : gs_fail_system(error, "write", path);
}

/* ---- running ---- */

static pid_t child;

static void pass_on(int signal) {
    if (child > 0)
        kill(child, signal);
}

/* Like a shell: signals of the terminal go to the program, and this process waits for it. */
static int wait_for_program(void) {
    static const int ignored[] = {SIGINT, SIGQUIT}, passed[] = {SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = SIG_IGN};
    for (size_t i = 0; i < GS_COUNT(ignored); i++)
        sigaction(ignored[i], &action, NULL);
    action.sa_handler = pass_on;
    for (size_t i = 0; i < GS_COUNT(passed); i++)
        sigaction(passed[i], &action, NULL);
    return gs_process_wait(child);
}

static gs_code run_program(char *const *words, int *exit_status, gs_error *error) {
    enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 };
    int failed = gs_process_try(&(gs_process_options){.words = (const char *const *)words}, &child);
    if (failed) {
        *exit_status = failed == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
        return gs_fail(error, GS_E_IO, "cannot start \"%s\": %s", words[0], strerror(failed));
    }
    *exit_status = gs_process_exit_code(wait_for_program());
    return GS_OK;
}

/* ---- joining the halves of a recording limited to the newest lines ---- */

/* Copies a file without its first line. */
static bool append_events(FILE *from, FILE *to) {
    char bytes[1 << 16];
    size_t count;
    int byte;
    while ((byte = getc(from)) != EOF && byte != '\n')
        continue;
    while ((count = fread(bytes, 1, sizeof bytes, from)) > 0)
        if (fwrite(bytes, 1, count, to) != count)
            return false;
    return !ferror(from);
}

static bool append_header(FILE *from, FILE *to) {
    int byte = 0;
    while (byte != '\n' && (byte = getc(from)) != EOF)
        putc(byte, to);
    rewind(from);
    return byte == '\n';
}

static gs_code join_halves(const char *path, gs_error *error) {
    char older[PATH + 16];
    gs_output output;
    gs_record_file_older(path, older, sizeof older);
    FILE *first = fopen(older, "r");
    if (!first)
        return errno == ENOENT ? GS_OK : gs_fail_system(error, "read", older);
    FILE *second = fopen(path, "r");
    gs_code code = second ? gs_output_open(&output, path, error) : gs_fail_system(error, "read", path);
    if (code == GS_OK) {
        bool joined = append_header(first, output.file) && append_events(first, output.file) &&
                      append_events(second, output.file);
        if (joined)
            code = gs_output_keep(&output, error);
        else
            gs_output_drop(&output);
        if (joined && code == GS_OK)
            unlink(older);
        else if (!joined)
            code = gs_fail_system(error, "join the halves of", path);
    }
    fclose(first);
    if (second)
        fclose(second);
    return code;
}

/* ---- the result ---- */

static bool read_status(const char *folder, const char *name, gs_trace_status *status) {
    char path[PATH + 300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool done =
        file >= 0 && read(file, status, sizeof *status) == (ssize_t)sizeof *status && status->magic == GS_TRACE_MAGIC;
    if (file >= 0)
        close(file);
    unlink(path);
    status->path[sizeof status->path - 1] = '\0';
    return done;
}

static gs_code add_process(gs_trace_summary *summary, const gs_trace_status *status, gs_error *error) {
    if (!GS_RESERVE(summary, 1))
        return gs_fail_memory(error);
    gs_trace_process *process = &summary->data[summary->count];
    *process = (gs_trace_process){.process = status->process,
                                  .kernels = (int64_t)status->kernels,
                                  .graph_kernels = (int64_t)status->graph_kernels,
                                  .copies = (int64_t)status->copies,
                                  .memsets = (int64_t)status->memsets,
                                  .streams = (int64_t)status->streams,
                                  .gpus = __builtin_popcountll(status->devices),
                                  .unknown = (int64_t)status->unknown,
                                  .dropped = (int64_t)status->dropped,
                                  .skipped = (int64_t)status->skipped,
                                  .failed = (int64_t)status->failed,
                                  .silent = (int64_t)status->silent,
                                  .duration_ns = status->last_ns - status->first_ns,
                                  .has_ended = status->has_ended != 0,
                                  .has_times = status->cupti_version != 0,
                                  .path = strdup(status->path)};
    if (!process->path)
        return gs_fail_memory(error);
    summary->count++;
    return process->path[0] ? join_halves(process->path, error) : GS_OK;
}

static int by_process(const void *a, const void *b) {
    int64_t first = ((const gs_trace_process *)a)->process, second = ((const gs_trace_process *)b)->process;
    return GS_COMPARE(first, second);
}

static gs_code collect_parts(const char *folder, gs_trace_summary *summary, gs_error *error) {
    DIR *files = opendir(folder);
    gs_code code = files ? GS_OK : gs_fail_system(error, "read", folder);
    gs_trace_status *status = malloc(sizeof *status);
    for (struct dirent *entry; status && code == GS_OK && (entry = readdir(files));)
        if (entry->d_name[0] != '.' && read_status(folder, entry->d_name, status))
            code = add_process(summary, status, error);
    if (files)
        closedir(files);
    free(status);
    if (summary->count)
        qsort(summary->data, summary->count, sizeof *summary->data, by_process);
    return code;
}

gs_code gs_trace_program(const gs_trace_options *options, char *const *words, gs_trace_summary *summary,
                         gs_error *error) {
    gs_code code = check_writable(options->output, error);
    if (code == GS_OK)
        code = remove_old(options->output, error);
    char *folder = code == GS_OK ? gs_folder_make_in(NULL, "gridsmith-trace", error) : NULL;
    if (!folder)
        return error->code;
    code = set_environment(options, words[0], folder, error);
    if (code == GS_OK)
        code = run_program(words, &summary->exit_status, error);
    if (code == GS_OK)
        code = collect_parts(folder, summary, error);
    gs_folder_remove(folder);
    free(folder);
    return code;
}

void gs_trace_summary_clear(gs_trace_summary *summary) {
    for (size_t i = 0; i < summary->count; i++)
        free(summary->data[i].path);
    free(summary->data);
    *summary = (gs_trace_summary){0};
}
