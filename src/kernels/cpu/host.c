/*
 * host.c: compiles kernels with the system's compilers and runs them on the CPU.
 *
 * gs_host is a temporary folder. It gets the files of src/kernels/cpu/runtime/ once, and the runtime, which this
 * program has in compiled form; for the address sanitizer it is compiled with the first module that wants it. A module
 * is PTX, translated to C, and the runtime, linked. A CUDA source becomes PTX first, by the compilers of
 * src/kernels/ptx. C compilers run side by side: gs_host_compile starts them, and the caller that needs the module
 * waits for it.
 *
 * Each work runs in a process of its own. It is written to a file that the process maps
 * (src/kernels/cuda/gridsmith_job.h), and read back when the process has ended.
 */
#include "cpu.h"
#include "host_runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_OPTIONS = 64, LOG_BYTES = 4000 };

/* A process that was started. Its output goes to a file. */
struct process {
    pid_t id; /* 0: none, or it was waited for */
    bool was_started;
    int status;
};

/* The kinds of modules, and the options with which each is compiled and linked. */
enum kind { PLAIN, SANITIZED, LIBRARY, KINDS };

/* Symbols that several libraries in one process have in common, such as templates, are hidden: each library has its
   own. Calls that check memory, in place of code, are compiled in a third of the time. */
static const char *const kind_options[KINDS][4] = {
    {NULL},
    {"-O1", "-fsanitize=address", "-fno-omit-frame-pointer", "--param=asan-instrumentation-with-call-threshold=0"},
    {"-fPIC", "-fvisibility=hidden", "-DGRIDSMITH_LIBRARY", "-shared"}};

/* The parts of the runtime. Directed rounding must not be optimized away. */
enum { RUN, PTX, ACCESSES, MATRIX, PARTS };
static const char *const part_sources[PARTS] = {"gridsmith_run.c", "gridsmith_ptx.c", "gridsmith_accesses.c",
                                                "gridsmith_matrix.c"};
static const char *const part_objects[PARTS] = {"run%d.o", "ptx%d.o", "accesses%d.o", "matrix%d.o"};
static const char *const part_logs[PARTS] = {"run%d.log", "ptx%d.log", "accesses%d.log", "matrix%d.log"};

struct gs_host {
    char *folder;
    const char *compiler;
    int modules;
    struct process runtime[KINDS][PARTS];
    gs_module *first;
};

struct gs_module {
    gs_host *host;
    gs_module *next;
    int number;
    char *name; /* of the source or the PTX */
    enum kind kind;
    struct process compiling;
    gs_code code; /* valid if is_ready */
    gs_error error;
    bool is_ready;
};

/* ---- files and processes ---- */

static char *path_in(const gs_host *host, const char *format, int number) {
    char name[64];
    gs_text text = {0};
    snprintf(name, sizeof name, format, number);
    gs_text_add(&text, "%s/%s", host->folder, name);
    return text.data;
}

static gs_code start_process(struct process *process, const char *const *arguments, const char *log, gs_error *error) {
    const gs_process_options options = {.words = arguments, .input = "/dev/null", .output = log, .end_signal = SIGTERM};
    gs_code code = gs_process_start(&options, &process->id, error);
    process->was_started = code == GS_OK;
    return code;
}

/* The exit status; 128 plus the signal if a signal ended the process. */
static int wait_for(struct process *process) {
    if (process->id)
        process->status = gs_process_exit_code(gs_process_wait(process->id));
    process->id = 0;
    return process->status;
}

/* The most useful line of a log: the first that contains `word`, or else the first. */
static void read_log(const char *path, const char *word, char *line, size_t size) {
    char log[LOG_BYTES + 1] = "";
    FILE *file = path ? fopen(path, "rb") : NULL;
    size_t count = file ? fread(log, 1, LOG_BYTES, file) : 0;
    if (file)
        fclose(file);
    log[count] = '\0';
    char *at = strstr(log, word);
    while (at && at > log && at[-1] != '\n')
        at--;
    at = at ? at : log;
    at[strcspn(at, "\n")] = '\0';
    snprintf(line, size, "%s", at);
}

/* ---- the folder ---- */

static size_t add_kind(const char **arguments, size_t count, enum kind kind) {
    for (size_t i = 0; i < GS_COUNT(kind_options[kind]) && kind_options[kind][i]; i++)
        arguments[count++] = kind_options[kind][i];
    return count;
}

static const gs_embedded_file *find_object(enum kind kind, int part) {
    char name[64];
    snprintf(name, sizeof name, part_objects[part], (int)kind);
    return gs_embedded_find(&gs_host_objects, name);
}

static gs_code write_part(gs_host *host, enum kind kind, int part, const gs_embedded_file *object, gs_error *error) {
    host->runtime[kind][part].was_started = true;
    return gs_folder_write(host->folder, object->name, object->bytes, object->count, error);
}

static gs_code compile_part(gs_host *host, enum kind kind, int part, gs_error *error) {
    char *source = path_in(host, part_sources[part], 0), *object = path_in(host, part_objects[part], kind),
         *log = path_in(host, part_logs[part], kind);
    const char *arguments[20] = {host->compiler,   "-x", "c", "-std=gnu17", "-O2", "-g1", "-w", "-ffp-contract=off",
                                 "-frounding-math"};
    size_t count = add_kind(arguments, 9, kind);
    arguments[count++] = "-c";
    arguments[count++] = "-o";
    arguments[count++] = object;
    arguments[count++] = source;
    gs_code code = source && object && log ? start_process(&host->runtime[kind][part], arguments, log, error)
                                           : gs_fail_memory(error);
    free(source);
    free(object);
    free(log);
    return code;
}

/* Gets the parts of the runtime that a module needs and that are not there yet. */
static gs_code start_runtime(const gs_module *module, gs_error *error) {
    gs_host *host = module->host;
    gs_code code = GS_OK;
    for (int part = 0; part < PARTS && code == GS_OK; part++) {
        const struct process *process = &host->runtime[module->kind][part];
        const gs_embedded_file *object = find_object(module->kind, part);
        if (process->id || process->was_started)
            continue;
        code = object ? write_part(host, module->kind, part, object, error)
                      : compile_part(host, module->kind, part, error);
    }
    return code;
}

static gs_code write_host_runtime(const gs_host *host, gs_error *error) {
    gs_code code = GS_OK;
    const gs_embedded_file *files = gs_host_runtime_files.data;
    for (size_t i = 0; i < gs_host_runtime_files.count && code == GS_OK; i++)
        code = gs_folder_write(host->folder, files[i].name, files[i].bytes, files[i].count, error);
    return code;
}

gs_host *gs_host_open(gs_error *error) {
    const char *compiler = getenv("CC");
    gs_host *host = calloc(1, sizeof *host);
    if (!host) {
        gs_fail_memory(error);
        return NULL;
    }
    host->compiler = compiler && compiler[0] ? compiler : "cc";
    host->folder = gs_folder_make(error);
    if (host->folder && write_host_runtime(host, error) == GS_OK)
        return host;
    gs_host_close(host);
    return NULL;
}

const char *gs_host_folder(const gs_host *host) {
    return host->folder;
}

const char *gs_host_compiler(const gs_host *host) {
    return host->compiler;
}

void gs_host_close(gs_host *host) {
    if (!host)
        return;
    for (int kind = 0; kind < KINDS; kind++)
        for (int part = 0; part < PARTS; part++)
            wait_for(&host->runtime[kind][part]);
    for (gs_module *module = host->first, *next; module; module = next) {
        next = module->next;
        wait_for(&module->compiling);
        free(module->name);
        free(module);
    }
    if (host->folder)
        gs_folder_remove(host->folder);
    free(host->folder);
    free(host);
}

/* ---- compiling ---- */

/* Starts the C compiler. The options of the build are for it. */
static gs_code start_compiler(gs_module *module, const gs_build *build, gs_error *error) {
    /* Products and sums are not fused: fusing saves a rounding, and whether the compiler fuses depends on the code
       around. */
    static const char *const fixed[] = {
        "-x",      "c", "-std=gnu17", "-O1", "-g0", "-w", "-pthread", "-ffp-contract=off", "-fno-strict-aliasing",
        "-fwrapv", "-c"};
    const gs_host *host = module->host;
    char *source = path_in(host, "module%d.c", module->number), *log = path_in(host, "module%d.log", module->number),
         *object = path_in(host, "module%d.o", module->number);
    const char *arguments[MOST_OPTIONS + GS_COUNT(fixed) + 12];
    size_t count = 0;
    arguments[count++] = host->compiler;
    for (size_t i = 0; i < GS_COUNT(fixed); i++)
        arguments[count++] = fixed[i];
    for (size_t i = 0; i < build->option_count && i < MOST_OPTIONS; i++)
        arguments[count++] = build->options[i];
    count = add_kind(arguments, count, module->kind);
    if (module->kind == SANITIZED)
        arguments[count++] = "-g1";
    arguments[count++] = "-I";
    arguments[count++] = host->folder;
    arguments[count++] = "-o";
    arguments[count++] = object;
    arguments[count++] = source;
    arguments[count] = NULL;
    gs_text text = {0};
    gs_code code = source && log && object ? gs_host_translate_ptx(build, &text, error) : gs_fail_memory(error);
    if (code == GS_OK)
        code = gs_folder_write(host->folder, strrchr(source, '/') + 1, text.data, text.count, error);
    if (code == GS_OK)
        code = start_process(&module->compiling, arguments, log, error);
    gs_text_free(&text);
    free(source);
    free(log);
    free(object);
    return code;
}

/* A source: its kernels keep their names. Its options are for the compiler that makes PTX of it. */
static gs_code compile_source(gs_module *module, const gs_build *build, gs_error *error) {
    enum { ARCHITECTURE = 80 }; /* every compiler of CUDA knows it, and the CPU runs any */
    gs_ptx_source_request request = {.file = build->name,
                                     .text = build->text,
                                     .size = build->size,
                                     .kernels = build->kernels,
                                     .kernel_count = build->kernel_count,
                                     .options = build->options,
                                     .option_count = build->option_count,
                                     .architecture = ARCHITECTURE,
                                     .is_watched = build->is_watched};
    gs_ptx_compiled compiled;
    gs_text name = {0};
    gs_code code = gs_ptx_from_source(&request, &compiled, error);
    if (code != GS_OK)
        return code;
    gs_text_add(&name, "the PTX of %s", build->name);
    gs_build ptx = {.name = name.data,
                    .text = compiled.text,
                    .size = compiled.size,
                    .kernels = (const char *const *)compiled.symbols,
                    .kernel_count = compiled.count,
                    .known_as = build->kernels,
                    .address_sanitizer = build->address_sanitizer};
    code = name.failed ? gs_fail_memory(error) : start_compiler(module, &ptx, error);
    gs_text_free(&name);
    gs_ptx_compiled_free(&compiled);
    return code;
}

gs_module *gs_host_compile(gs_host *host, const gs_build *build, gs_error *error) {
    gs_module *module = calloc(1, sizeof *module);
    char *name = strdup(build->name);
    if (!module || !name) {
        free(module);
        free(name);
        gs_fail_memory(error);
        return NULL;
    }
    *module = (gs_module){.host = host,
                          .next = host->first,
                          .number = host->modules++,
                          .name = name,
                          .kind = build->as_library          ? LIBRARY
                                  : build->address_sanitizer ? SANITIZED
                                                             : PLAIN};
    host->first = module;
    gs_code code = gs_build_is_ptx(build) ? start_compiler(module, build, error) : compile_source(module, build, error);
    return code == GS_OK && start_runtime(module, error) == GS_OK ? module : NULL;
}

/* Turns "FILE:LINE:COLUMN: error: TEXT" of a compiler into an error with that place. */
static gs_code compiler_failed(const gs_module *module, gs_error *error) {
    char line[300], *log = path_in(module->host, "module%d.log", module->number);
    read_log(log, "error:", line, sizeof line);
    free(log);
    const char *message = strstr(line, "error:");
    size_t length = strlen(module->name);
    gs_fail(error, GS_E_KERNEL, "the C compiler says: %s", message ? message : line);
    if (error && message && strncmp(line, module->name, length) == 0 && line[length] == ':') {
        snprintf(error->file, sizeof error->file, "%s", module->name);
        sscanf(line + length, ":%ld:%ld", &error->line, &error->column);
    }
    return GS_E_KERNEL;
}

static gs_code link_module(gs_module *module, gs_error *error) {
    gs_host *host = module->host;
    char *object = path_in(host, "module%d.o", module->number), *log = path_in(host, "module%d.log", module->number),
         *output = path_in(host, "module%d", module->number), line[300], *parts[PARTS];
    const char *arguments[20] = {host->compiler, "-pthread", "-o", output, object};
    size_t count = 5;
    bool has_memory = object && log && output;
    for (int part = 0; part < PARTS; part++) {
        parts[part] = path_in(host, part_objects[part], module->kind);
        has_memory = has_memory && parts[part];
        arguments[count++] = parts[part];
    }
    arguments[count++] = "-lm";
    add_kind(arguments, count, module->kind);
    struct process process = {0};
    gs_code code = has_memory ? start_process(&process, arguments, log, error) : gs_fail_memory(error);
    if (code == GS_OK && wait_for(&process) != 0) {
        read_log(log, "undefined", line, sizeof line);
        code = gs_fail(error, GS_E_KERNEL, "%s: the linker says: %s", module->name, line);
    }
    free(object);
    free(log);
    free(output);
    for (int part = 0; part < PARTS; part++)
        free(parts[part]);
    return code;
}

static bool runtime_is_compiled(const gs_module *module) {
    bool is_compiled = true;
    for (int part = 0; part < PARTS; part++)
        is_compiled = wait_for(&module->host->runtime[module->kind][part]) == 0 && is_compiled;
    return is_compiled;
}

gs_code gs_module_wait(gs_module *module, gs_error *error) {
    if (!module->is_ready) {
        module->is_ready = true;
        if (wait_for(&module->compiling) != 0)
            module->code = compiler_failed(module, &module->error);
        else if (!runtime_is_compiled(module))
            module->code =
                gs_fail(&module->error, GS_E_IO, "%s cannot compile the host runtime", module->host->compiler);
        else
            module->code = link_module(module, &module->error);
    }
    if (error && module->code != GS_OK)
        *error = module->error;
    return module->code;
}

const char *gs_module_path(gs_module *module, char *path, size_t size) {
    snprintf(path, size, "%s/module%d", module->host->folder, module->number);
    return path;
}

/* ---- running ---- */

static size_t round_up(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static size_t job_bytes(const gs_work *work) {
    size_t bytes =
        round_up(sizeof(gs_job) + work->calls.count * sizeof(gs_job_call) +
                 work->buffers.count * sizeof(gs_job_buffer) + work->arguments.count * sizeof(gs_job_argument));
    for (size_t i = 0; i < work->buffers.count; i++)
        bytes += round_up(work->buffers.data[i].bytes);
    return bytes;
}

static void fill_job(gs_job *job, const gs_work *work, size_t bytes) {
    *job = (gs_job){.magic = GS_JOB_MAGIC,
                    .size = sizeof *job,
                    .calls = (uint32_t)work->calls.count,
                    .buffers = (uint32_t)work->buffers.count,
                    .arguments = (uint32_t)work->arguments.count,
                    .threads = work->threads,
                    .sms = work->sms,
                    .backwards = work->backwards,
                    .shuffled = work->shuffled,
                    .seconds = work->seconds,
                    .seed = work->seed,
                    .file_bytes = bytes};
    if (work->calls.count)
        memcpy(gs_job_calls(job), work->calls.data, work->calls.count * sizeof(gs_job_call));
    if (work->arguments.count)
        memcpy(gs_job_arguments(job), work->arguments.data, work->arguments.count * sizeof(gs_job_argument));
    size_t at = bytes;
    for (size_t i = work->buffers.count; i-- > 0;) {
        const struct gs_work_buffer *buffer = &work->buffers.data[i];
        at -= round_up(buffer->bytes);
        gs_job_buffers(job)[i] = (gs_job_buffer){.offset = at, .bytes = buffer->bytes};
        if (buffer->bytes)
            memcpy((char *)job + at, buffer->data, buffer->bytes);
    }
}

static void read_back(gs_job *job, gs_work *work) {
    if (work->calls.count)
        memcpy(work->calls.data, gs_job_calls(job), work->calls.count * sizeof(gs_job_call));
    for (size_t i = 0; i < work->buffers.count && !work->discards_results; i++)
        if (work->buffers.data[i].bytes)
            memcpy(work->buffers.data[i].data, (char *)job + gs_job_buffers(job)[i].offset,
                   work->buffers.data[i].bytes);
}

/* The error message: that of the process, of AddressSanitizer, or the signal that ended the process. */
static gs_code run_failed(const gs_module *module, const gs_job *job, int status, const char *log, gs_error *error) {
    char line[300];
    if (job->status == GS_JOB_WRONG)
        return gs_fail(error, GS_E_USAGE, "%.*s", (int)sizeof job->message, job->message);
    if (job->status == GS_JOB_FAILED)
        return gs_fail(error, GS_E_KERNEL, "%.*s", (int)sizeof job->message, job->message);
    read_log(log, "ERROR: AddressSanitizer", line, sizeof line);
    const char *report = strstr(line, "AddressSanitizer");
    char place[300] = "";
    if (report)
        read_log(log, module->name, place, sizeof place);
    const char *frame = report ? strstr(place, " in ") : NULL;
    return gs_fail(error, GS_E_KERNEL, "%s%s%s",
                   report    ? report
                   : line[0] ? line
                             : "the kernel ended its process",
                   frame ? frame : "", report || status < 128 ? "" : " (by a signal)");
}

static gs_code run_job(gs_module *module, gs_job *job, const char *path, gs_work *work, gs_error *error) {
    char *binary = path_in(module->host, "module%d", module->number),
         *log = path_in(module->host, "module%d.out", module->number);
    const char *arguments[] = {binary, path, NULL};
    struct process process = {0};
    gs_code code = binary && log ? start_process(&process, arguments, log, error) : gs_fail_memory(error);
    if (code == GS_OK) {
        int status = wait_for(&process);
        if (status == 0 && job->status == GS_JOB_DONE)
            read_back(job, work);
        else
            code = run_failed(module, job, status, log, error);
    }
    free(binary);
    free(log);
    return code;
}

gs_code gs_module_run(gs_module *module, gs_work *work, gs_error *error) {
    gs_code code = gs_module_wait(module, error);
    if (code != GS_OK || work->failed)
        return code != GS_OK ? code : gs_fail_memory(error);
    size_t bytes = job_bytes(work);
    char *path = path_in(module->host, "job%d", module->number);
    int file = path ? open(path, O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0) {
        code = gs_fail_system(error, "write", path ? path : "a job");
    } else {
        gs_job *job = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (job == MAP_FAILED) {
            code = gs_fail_memory(error);
        } else {
            fill_job(job, work, bytes);
            code = run_job(module, job, path, work, error);
            munmap(job, bytes);
        }
    }
    if (file >= 0)
        close(file);
    if (path)
        unlink(path);
    free(path);
    return code;
}

/* ---- as an executor ---- */

static void *executor_compile(gs_executor *executor, const gs_build *build, gs_error *error) {
    return gs_host_compile(executor->inside, build, error);
}

static gs_code executor_run(void *module, gs_work *work, gs_error *error) {
    return gs_module_run(module, work, error);
}

static gs_code executor_cost(void *module, const char *kernel, const uint32_t block[3], size_t shared_bytes,
                             gs_cost *cost, gs_error *error) {
    (void)module, (void)kernel, (void)block, (void)shared_bytes, (void)error;
    *cost = (gs_cost){0};
    return GS_OK;
}

static void executor_close(gs_executor *executor) {
    gs_host_close(executor->inside);
    free(executor);
}

gs_executor *gs_executor_host(gs_error *error) {
    static const gs_executor_ops ops = {.name = "host",
                                        .compile = executor_compile,
                                        .run = executor_run,
                                        .cost = executor_cost,
                                        .close = executor_close};
    gs_executor *executor = calloc(1, sizeof *executor);
    gs_host *host = executor ? gs_host_open(error) : NULL;
    if (!host) {
        if (!executor)
            gs_fail_memory(error);
        free(executor);
        return NULL;
    }
    *executor = (gs_executor){.ops = &ops, .inside = host};
    return executor;
}

gs_executor *gs_executor_open(const char *name, gs_error *error) {
    if (strcmp(name, "host") == 0)
        return gs_executor_host(error);
    if (gs_cuda_is_device(name))
        return gs_executor_cuda(name[4] ? name + 5 : "", error);
    gs_fail(error, GS_E_USAGE, "unknown device \"%.40s\"; it must be host, cuda or cuda:N", name);
    return NULL;
}
