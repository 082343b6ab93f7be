/*
 * ptx_compilers.c: compiles CUDA to PTX with nvcc, NVRTC or clang.
 *
 * nvcc compiles whole programs, with host code. NVRTC and clang read sources that have kernels only. clang needs no
 * CUDA at all: it gets src/kernels/ptx/gridsmith_device.h instead of NVIDIA's headers, and empty files in place of
 * those that kernels include.
 *
 * Users write options as for nvcc. Options that another compiler does not know, and options for the host, are dropped,
 * as the table says. NVRTC runs in this process, so it has no time limit.
 */
#include "ptx_compilers.h"

#include "kernels/cuda/cuda.h"

#include <libgen.h>
#include <stdlib.h>
#include <unistd.h>

enum { NVCC = 1, NVRTC = 2, CLANG = 4, ALL = 7, MOST_WORDS = 250, DEFAULT_SECONDS = 300, LOG_MOST = 1 << 22 };

/* ---- words of a command ---- */

struct words {
    const char *list[MOST_WORDS + 1];
    size_t count;
    char *made[MOST_WORDS];
    size_t made_count;
};

static void add_word(struct words *words, const char *word) {
    if (word && words->count < MOST_WORDS)
        words->list[words->count++] = word;
}

/* Adds two words joined. */
static void add_joined(struct words *words, const char *first, const char *second) {
    gs_text text = {0};
    gs_text_add(&text, "%s%s", first, second);
    if (!text.failed && words->count < MOST_WORDS)
        add_word(words, words->made[words->made_count++] = text.data);
    else
        gs_text_free(&text);
}

static void free_words(struct words *words) {
    for (size_t i = 0; i < words->made_count; i++)
        free(words->made[i]);
}

/* ---- options of users ---- */

static const struct rule {
    const char *start;
    unsigned dropped_by;
    bool has_value; /* in the next word, unless the option has a '=' */
} rules[] = {{"-arch", ALL, true},
             {"--gpu-architecture", ALL, true},
             {"-gencode", ALL, true},
             {"--generate-code", ALL, true},
             {"-code", ALL, true},
             {"-o", ALL, true},
             {"-ptx", ALL, false},
             {"-c", ALL, false},
             {"-S", ALL, false},
             {"-Xcompiler", NVRTC | CLANG, true},
             {"-ccbin", NVRTC | CLANG, true},
             {"-Xptxas", NVRTC | CLANG, true},
             {"--ptxas-options", NVRTC | CLANG, true},
             {"-Ofc", CLANG, true},
             {"--Ofast-compile", CLANG, true},
             {"-O", NVRTC, false},
             {"-W", NVRTC, false},
             {"-f", NVRTC, false},
             {"-g", NVRTC, false},
             {"-l", NVRTC | CLANG, false},
             {"-L", NVRTC | CLANG, false},
             {"--expt", NVRTC | CLANG, false},
             {"-expt", NVRTC | CLANG, false},
             {"--extended-lambda", CLANG, false},
             {"--maxrregcount", CLANG, true},
             {"-maxrregcount", CLANG, true},
             {"-rdc", CLANG, true},
             {"-lineinfo", CLANG, false},
             {"--generate-line-info", CLANG, false},
             {"--use_fast_math", CLANG, false},
             {"-use_fast_math", CLANG, false}};

/* The row of an option: short ones, such as -c, must be the whole word. */
static const struct rule *rule_of(const char *option) {
    for (size_t i = 0; i < GS_COUNT(rules); i++) {
        size_t length = strlen(rules[i].start);
        bool is_whole = length == 2 && strchr("ocS", rules[i].start[1]);
        if (strncmp(option, rules[i].start, length) == 0 && (!is_whole || !option[length]))
            return &rules[i];
    }
    return NULL;
}

static void add_options(struct words *words, const gs_ptx_source_request *request, unsigned compiler) {
    for (size_t i = 0; i < request->option_count; i++) {
        const char *option = request->options[i],
                   *next = i + 1 < request->option_count ? request->options[i + 1] : NULL;
        const struct rule *rule = rule_of(option);
        if (compiler == CLANG && strstr(option, "use_fast_math"))
            add_word(words, "-ffast-math");
        if (rule && rule->dropped_by & compiler) {
            i += rule->has_value && !strchr(option, '=');
        } else if (next && strlen(option) == 2 && strchr("IDU", option[1]) && option[0] == '-') {
            add_joined(words, option, next); /* NVRTC wants an option in one word */
            i++;
        } else {
            add_word(words, option);
        }
    }
}

/* Adds the folder of the source, where #include "..." is searched. NVRTC searches there by itself. */
static void add_folder(struct words *words, const gs_ptx_source_request *request, const char *option) {
    char *path = strdup(request->file);
    if (path)
        add_joined(words, option, dirname(path));
    free(path);
}

/* ---- messages of compilers ---- */

/* The place in "FILE(LINE): error" and "FILE:LINE:COLUMN: error". */
static void read_place(const char *line, const char *words, gs_error *error) {
    for (const char *at = line; at < words; at++) {
        long row = 0, column = 0;
        if ((sscanf(at, "(%ld):", &row) == 1 || sscanf(at, ":%ld:%ld:", &row, &column) >= 1) && row > 0) {
            snprintf(error->file, sizeof error->file, "%.*s", (int)(at - line), line);
            error->line = row;
            error->column = column ? column : 1;
            return;
        }
    }
}

/* The first error of a log, or its first line. */
static void read_message(const char *compiler, const char *log, gs_error *error) {
    const char *words = strstr(log, "error:"), *fatal = strstr(log, "error :");
    words = words ? words : fatal ? fatal : strstr(log, "error");
    const char *line = words ? words : log;
    while (line > log && line[-1] != '\n')
        line--;
    words = words ? words : line;
    gs_fail(error, GS_E_KERNEL, "%s says: %.*s", compiler, (int)strcspn(words, "\n"), log[0] ? words : "(no output)");
    if (error)
        read_place(line, words, error);
}

/* ---- nvcc and clang: commands ---- */

/* Writes the text as "source.cu". Its first line sets the name that errors show. */
static gs_code write_source(const char *folder, const gs_ptx_source_request *request, const char *text,
                            gs_error *error) {
    gs_text source = {0};
    gs_text_add(&source, "#line 1 \"");
    for (const char *at = request->file; *at; at++)
        gs_text_add(&source, *at == '"' || *at == '\\' ? "\\%c" : "%c", *at);
    gs_text_add(&source, "\"\n");
    gs_text_put(&source, text, strlen(text));
    gs_code code =
        source.failed ? gs_fail_memory(error) : gs_folder_write(folder, "source.cu", source.data, source.count, error);
    gs_text_free(&source);
    return code;
}

static gs_ptx_attempt run_compiler(const char *compiler, struct words *words, const char *folder,
                                   const gs_ptx_source_request *request, gs_ptx_compiled *compiled, gs_error *error) {
    gs_tool tool = {.words = words->list,
                    .folder = folder,
                    .seconds = request->seconds ? request->seconds : DEFAULT_SECONDS,
                    .stays_in_group = request->is_watched};
    gs_tool_end end = gs_tool_run(&tool);
    if (end == GS_TOOL_NOT_FOUND)
        return GS_PTX_NO_COMPILER;
    char *log = gs_folder_read(folder, "log", LOG_MOST);
    if (end == GS_TOOL_DONE)
        compiled->text = gs_folder_read(folder, "out.ptx", GS_PTX_TEXT_MOST);
    if (end == GS_TOOL_LATE)
        gs_fail(error, GS_E_KERNEL, "%s did not finish within %d seconds", compiler, tool.seconds);
    else if (tool.signal)
        gs_fail(error, GS_E_KERNEL, "%s crashed: %s", compiler, strsignal(tool.signal));
    else if (!compiled->text)
        read_message(compiler, log ? log : "", error);
    free(log);
    return compiled->text ? GS_PTX_COMPILED : GS_PTX_REFUSED;
}

/* The words after the options: the source and the result. */
static void add_files(struct words *words, const char *folder) {
    add_word(words, "-o");
    add_joined(words, folder, "/out.ptx");
    add_joined(words, folder, "/source.cu");
}

/* The nvcc of the toolkit in the environment, else the one in PATH. */
static const char *find_nvcc(char *path, size_t size) {
    static const char *const roots[] = {"CUDA_PATH", "CUDA_HOME"};
    for (size_t i = 0; i < GS_COUNT(roots); i++) {
        const char *root = getenv(roots[i]);
        snprintf(path, size, "%s/bin/nvcc", root ? root : "");
        if (root && root[0] && access(path, X_OK) == 0)
            return path;
    }
    return "nvcc";
}

static gs_ptx_attempt nvcc_in_folder(const char *folder, const char *program, const gs_ptx_source_request *request,
                                     gs_ptx_compiled *compiled, gs_error *error) {
    struct words words = {.count = 0};
    char architecture[40];
    snprintf(architecture, sizeof architecture, "-arch=compute_%d", request->architecture);
    add_word(&words, program);
    add_word(&words, "-ptx");
    add_word(&words, architecture);
    add_folder(&words, request, "-I");
    add_options(&words, request, NVCC);
    add_files(&words, folder);
    gs_ptx_attempt attempt = run_compiler("nvcc", &words, folder, request, compiled, error);
    compiled->architecture = request->architecture;
    free_words(&words);
    return attempt;
}

static gs_ptx_attempt compile_by_nvcc(const gs_ptx_source_request *request, const char *text, gs_ptx_compiled *compiled,
                                      gs_error *error) {
    char *folder = gs_folder_make(error), path[500];
    gs_ptx_attempt attempt = GS_PTX_REFUSED;
    if (!folder)
        return attempt;
    if (write_source(folder, request, text, error) == GS_OK) {
        attempt = nvcc_in_folder(folder, find_nvcc(path, sizeof path), request, compiled, error);
        if (attempt == GS_PTX_NO_COMPILER && access("/usr/local/cuda/bin/nvcc", X_OK) == 0)
            attempt = nvcc_in_folder(folder, "/usr/local/cuda/bin/nvcc", request, compiled, error);
    }
    gs_folder_remove(folder);
    free(folder);
    return attempt;
}

/* ---- clang ---- */

/* Architectures that versions of clang know, and the version of PTX that each needs. clang 14 knows 86. */
static const struct target {
    int architecture;
    const char *feature;
} targets[] = {{120, "+ptx87"}, {100, "+ptx86"}, {90, "+ptx78"}, {89, "+ptx78"}, {86, "+ptx71"},
               {80, "+ptx70"},  {75, "+ptx63"},  {70, "+ptx63"}, {60, "+ptx63"}, {50, "+ptx63"}};

/* The files that kernels include and that gridsmith_device.h replaces are empty. */
gs_code gs_ptx_clang_headers(const char *folder, gs_error *error) {
    static const char *const others[] = {
        "cuda_runtime.h",    "cuda.h", "cuda_fp16.h", "math_constants.h", "device_launch_parameters.h", "mma.h",
        "cuda_runtime_api.h"};
    gs_code code = GS_OK;
    for (size_t i = 0; i < gs_device_headers.count && code == GS_OK; i++)
        code = gs_folder_write(folder, gs_device_headers.data[i].name, gs_device_headers.data[i].bytes,
                               gs_device_headers.data[i].count, error);
    for (size_t i = 0; i < GS_COUNT(others) && code == GS_OK; i++)
        code = gs_folder_write(folder, others[i], "", 0, error);
    return code;
}

static gs_ptx_attempt clang_for(const char *program, const struct target *target, const char *folder,
                                const gs_ptx_source_request *request, gs_ptx_compiled *compiled, gs_error *error) {
    static const char *const fixed[] = {"-x",
                                        "cuda",
                                        "--cuda-device-only",
                                        "-S",
                                        "-O2",
                                        "-w",
                                        "-nocudainc",
                                        "-nocudalib",
                                        "--cuda-path=/nonexistent",
                                        "-Xclang",
                                        "-target-feature",
                                        "-Xclang"};
    struct words words = {.count = 0};
    char architecture[40];
    snprintf(architecture, sizeof architecture, "--cuda-gpu-arch=sm_%d", target->architecture);
    add_word(&words, program);
    for (size_t i = 0; i < GS_COUNT(fixed); i++)
        add_word(&words, fixed[i]);
    add_word(&words, target->feature);
    add_word(&words, architecture);
    add_word(&words, "-std=c++17");
    add_joined(&words, "-I", folder);
    add_word(&words, "-include");
    add_word(&words, "gridsmith_device.h");
    add_folder(&words, request, "-iquote");
    add_options(&words, request, CLANG);
    add_files(&words, folder);
    gs_ptx_attempt attempt = run_compiler("clang", &words, folder, request, compiled, error);
    compiled->architecture = target->architecture;
    free_words(&words);
    return attempt;
}

/* The highest architecture up to the requested one that this clang knows. */
static gs_ptx_attempt clang_in_folder(const char *program, const char *folder, const gs_ptx_source_request *request,
                                      gs_ptx_compiled *compiled, gs_error *error) {
    gs_ptx_attempt attempt = GS_PTX_REFUSED;
    gs_error reason = {.code = GS_OK};
    gs_fail(&reason, GS_E_UNSUPPORTED, "clang supports no architecture up to sm_%d", request->architecture);
    for (size_t i = 0; i < GS_COUNT(targets); i++) {
        if (targets[i].architecture > request->architecture)
            continue;
        attempt = clang_for(program, &targets[i], folder, request, compiled, &reason);
        if (attempt != GS_PTX_REFUSED || !(strstr(reason.message, "unsupported CUDA gpu arch") ||
                                           strstr(reason.message, "not a recognized feature")))
            break;
    }
    if (error && attempt == GS_PTX_REFUSED)
        *error = reason;
    return attempt;
}

bool gs_ptx_clang(char *path, size_t size) {
    static const char *const programs[] = {"clang++",    "clang++-20", "clang++-19", "clang++-18",
                                           "clang++-17", "clang++-16", "clang++-15", "clang++-14"};
    for (size_t i = 0; i < GS_COUNT(programs); i++)
        if (gs_program_find(programs[i], path, size))
            return true;
    return false;
}

/* clang makes no PTX with what CUDA's debugger needs; its own -G is another option. */
static bool wants_debugging(const gs_ptx_source_request *request) {
    for (size_t i = 0; i < request->option_count; i++)
        if (strcmp(request->options[i], "-G") == 0 || strcmp(request->options[i], "--device-debug") == 0)
            return true;
    return false;
}

static gs_ptx_attempt compile_by_clang(const gs_ptx_source_request *request, const char *text,
                                       gs_ptx_compiled *compiled, gs_error *error) {
    char program[1000];
    if (!gs_ptx_clang(program, sizeof program))
        return GS_PTX_NO_COMPILER;
    if (wants_debugging(request)) {
        gs_fail(error, GS_E_UNSUPPORTED, "-G is for nvcc and NVRTC, not for clang");
        return GS_PTX_REFUSED;
    }
    char *folder = gs_folder_make(error);
    gs_ptx_attempt attempt = GS_PTX_REFUSED;
    if (!folder)
        return attempt;
    if (write_source(folder, request, text, error) == GS_OK && gs_ptx_clang_headers(folder, error) == GS_OK)
        attempt = clang_in_folder(program, folder, request, compiled, error);
    gs_folder_remove(folder);
    free(folder);
    return attempt;
}

/* ---- NVRTC ---- */

/* The symbols of the requested kernels, which NVRTC knows exactly. */
static bool keep_symbols(const cu_api *api, nvrtc_program program, const gs_ptx_source_request *request,
                         gs_ptx_compiled *compiled) {
    compiled->symbols = calloc(request->kernel_count + 1, sizeof *compiled->symbols);
    for (size_t i = 0; compiled->symbols && i < request->kernel_count; i++) {
        const char *lowered = NULL;
        if (api->lowered_name(program, request->kernels[i], &lowered) != 0 || !lowered)
            return false;
        compiled->symbols[i] = strdup(lowered);
        if (!compiled->symbols[i])
            return false;
        compiled->count++;
    }
    return compiled->symbols != NULL;
}

static gs_ptx_attempt nvrtc_with(const cu_api *api, const gs_ptx_source_request *request, const char *text,
                                 struct words *words, gs_ptx_compiled *compiled, gs_error *error) {
    nvrtc_source source = {.file = request->file,
                           .text = text,
                           .kernels = request->kernels,
                           .kernel_count = request->kernel_count,
                           .options = words->list,
                           .option_count = (int)words->count};
    nvrtc_program program;
    char *log = NULL;
    gs_code code = gs_nvrtc_compile(api, &source, &program, &log, error);
    if (code == GS_OK) {
        code = gs_nvrtc_ptx(api, program, &compiled->text, error);
        if (code == GS_OK && !keep_symbols(api, program, request, compiled)) {
            code = gs_fail(error, GS_E_USAGE, "NVRTC does not report the symbols of the kernels");
            gs_ptx_compiled_free(compiled);
        }
        api->program_free(&program);
    } else if (code == GS_E_KERNEL) {
        read_message("NVRTC", log ? log : "", error);
    }
    free(log);
    compiled->architecture = request->architecture;
    return code == GS_OK ? GS_PTX_COMPILED : GS_PTX_REFUSED;
}

static gs_ptx_attempt compile_by_nvrtc(const gs_ptx_source_request *request, const char *text,
                                       gs_ptx_compiled *compiled, gs_error *error) {
    char includes[2][300];
    size_t include_count = gs_nvrtc_folders(includes);
    struct words words = {.count = 0};
    char architecture[40];
    cu_api api;
    if (gs_nvrtc_open(&api, NULL) != GS_OK)
        return GS_PTX_NO_COMPILER;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=compute_%d", request->architecture);
    add_word(&words, architecture);
    add_options(&words, request, NVRTC);
    for (size_t i = 0; i < include_count; i++)
        add_joined(&words, "-I", includes[i]);
    gs_ptx_attempt attempt = nvrtc_with(&api, request, text, &words, compiled, error);
    free_words(&words);
    gs_cuda_close(&api);
    return attempt;
}

const gs_ptx_compiler gs_ptx_compilers[] = {
    {"nvcc", compile_by_nvcc, false}, {"nvrtc", compile_by_nvrtc, true}, {"clang", compile_by_clang, false}};
const size_t gs_ptx_compiler_count = GS_COUNT(gs_ptx_compilers);
