/*
 * compiler.c: libnvrtc.so.13 of the fake driver.
 *
 * It reads only the lines of a source that define timed kernels, and lists them. A source without such lines is
 * compiled for the CPU; or to PTX, by clang, if that is what is asked for.
 */
#include "fake.h"
#include "kernels/cpu/cpu.h"

NVRTC_SYMBOLS(FAKE_CALL)

enum { INVALID_INPUT = 3, COMPILATION = 6, MOST_KERNELS = 256 };

struct nvrtc_program {
    char *source, *name;
    gs_text image;
    gs_ptx_compiled ptx;
    const char *log;
    char words[400];
    char *kernels[MOST_KERNELS];
    size_t kernel_count;
};

int nvrtcCreateProgram(nvrtc_program *program, const char *source, const char *name, int headers,
                       const char *const *header_sources, const char *const *header_names) {
    (void)header_sources, (void)header_names;
    if (headers)
        return INVALID_INPUT;
    *program = calloc(1, sizeof **program);
    if (!*program)
        return 1;
    (*program)->source = strdup(source);
    (*program)->name = strdup(name);
    (*program)->log = "";
    return 0;
}

static int complain(nvrtc_program program, const char *words) {
    program->log = words;
    return COMPILATION;
}

/* Copies the shared library that the host made, after the line FAKE_LIBRARY. */
static int take_library(nvrtc_program program, gs_module *made) {
    char path[300], *bytes = NULL;
    size_t count;
    gs_error error;
    if (gs_module_wait(made, &error) != GS_OK) {
        snprintf(program->words, sizeof program->words, "%.100s(%ld): error: %.250s", error.file, error.line,
                 error.message);
        return complain(program, program->words);
    }
    gs_module_path(made, path, sizeof path);
    if (gs_input_all(path, (size_t)64 << 20, &bytes, &count, &error) != GS_OK)
        return 1;
    gs_text_clear(&program->image);
    gs_text_add(&program->image, "%s%zu\n", FAKE_LIBRARY, count);
    gs_text_put(&program->image, bytes, count);
    free(bytes);
    return program->image.failed;
}

static int compile_library(nvrtc_program program, int option_count, const char *const *options) {
    const char *kept[64];
    gs_build build = {.name = program->name,
                      .text = program->source,
                      .size = strlen(program->source),
                      .kernels = (const char *const *)program->kernels,
                      .kernel_count = program->kernel_count,
                      .options = kept,
                      .as_library = true};
    for (int i = 0; i < option_count && build.option_count < 64; i++)
        if (strncmp(options[i], "-D", 2) == 0)
            kept[build.option_count++] = options[i];
    gs_host *host = gs_host_open(NULL);
    gs_module *made = host ? gs_host_compile(host, &build, NULL) : NULL;
    int failed = made ? take_library(program, made) : complain(program, "error: the source cannot be read");
    gs_host_close(host);
    return failed;
}

/* Lists the timed kernels. False: there is one that is not as expected. */
static bool list_kernels(nvrtc_program program) {
    static const char start[] = "extern \"C\" __global__ void timed_";
    size_t number;
    int body, count, end;
    for (const char *at = program->source; (at = strstr(at, start)); at++) {
        end = 0;
        if (sscanf(at + sizeof start - 1, "%zu(timed_arguments arguments) { timed<%d, %d>(arguments); }%n", &number,
                   &body, &count, &end) != 3 ||
            !end)
            return false;
        gs_text_add(&program->image, "timed %zu %d %d\n", number, body, count);
    }
    return true;
}

static int compile_ptx(nvrtc_program program, int option_count, const char *const *options) {
    gs_error error;
    gs_ptx_source_request request = {.file = program->name,
                                     .text = program->source,
                                     .size = strlen(program->source),
                                     .kernels = (const char *const *)program->kernels,
                                     .kernel_count = program->kernel_count,
                                     .options = options + 1,
                                     .option_count = (size_t)option_count - 1,
                                     .architecture = 80,
                                     .compiler = "clang",
                                     .is_watched = true};
    if (gs_ptx_from_source(&request, &program->ptx, &error) == GS_OK)
        return 0;
    snprintf(program->words, sizeof program->words, "%.100s(%ld): %.280s", error.file, error.line, error.message);
    return complain(program, program->words);
}

int nvrtcCompileProgram(nvrtc_program program, int option_count, const char *const *options) {
    if (fake_has("compile-fails"))
        return complain(program, "timed.cu(1): error: this is fake");
    if (option_count && strncmp(options[0], "--gpu-architecture=compute_", 27) == 0)
        return compile_ptx(program, option_count, options);
    if (option_count < 1 || strncmp(options[0], "--gpu-architecture=sm_", 22) != 0)
        return complain(program, "error: for which architecture?");
    gs_text_add(&program->image, "%s", FAKE_IMAGE);
    if (!list_kernels(program))
        return complain(program, "error: a timed kernel that is not as expected");
    if (program->image.failed)
        return 1;
    return program->image.count > strlen(FAKE_IMAGE) ? 0 : compile_library(program, option_count, options);
}

int nvrtcAddNameExpression(nvrtc_program program, const char *name) {
    if (program->kernel_count == MOST_KERNELS)
        return INVALID_INPUT;
    program->kernels[program->kernel_count++] = strdup(name);
    return 0;
}

int nvrtcGetLoweredName(nvrtc_program program, const char *name, const char **lowered) {
    *lowered = name;
    for (size_t i = 0; i < program->ptx.count; i++)
        if (strcmp(program->kernels[i], name) == 0)
            *lowered = program->ptx.symbols[i];
    return 0;
}

int nvrtcGetProgramLogSize(nvrtc_program program, size_t *size) {
    *size = strlen(program->log) + 1;
    return 0;
}

int nvrtcGetProgramLog(nvrtc_program program, char *log) {
    strcpy(log, program->log);
    return 0;
}

int nvrtcGetCUBINSize(nvrtc_program program, size_t *size) {
    *size = program->image.count + 1;
    return 0;
}

int nvrtcGetCUBIN(nvrtc_program program, char *image) {
    memcpy(image, program->image.data, program->image.count + 1);
    return 0;
}

int nvrtcGetPTXSize(nvrtc_program program, size_t *size) {
    *size = program->ptx.text ? program->ptx.size + 1 : 0;
    return 0;
}

int nvrtcGetPTX(nvrtc_program program, char *ptx) {
    if (!program->ptx.text)
        return INVALID_INPUT;
    memcpy(ptx, program->ptx.text, program->ptx.size + 1);
    return 0;
}

int nvrtcDestroyProgram(nvrtc_program *program) {
    free((*program)->source);
    free((*program)->name);
    for (size_t i = 0; i < (*program)->kernel_count; i++)
        free((*program)->kernels[i]);
    gs_text_free(&(*program)->image);
    gs_ptx_compiled_free(&(*program)->ptx);
    free(*program);
    *program = NULL;
    return 0;
}
