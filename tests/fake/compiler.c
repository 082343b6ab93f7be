/*
 * compiler.c: libnvrtc.so.13 of the pretended driver.
 *
 * It reads of a source only the lines that make kernels of the probe, and lists them. How many registers come out is
 * told by the driver, as with the real ones. A source without them is compiled for the CPU.
 */
#include "pretended.h"
#include "reshape/reshape.h"

NVRTC_SYMBOLS(PRETENDED_CALL)

enum { INVALID_INPUT = 3, COMPILATION = 6, MOST_KERNELS = 256 };

struct nvrtc_program {
    char *source, *name;
    gs_text image;
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

/* The bytes of the shared library that the host made, behind the line that says so. */
static int take_library(nvrtc_program program, gs_program *made) {
    char path[300], *bytes = NULL;
    size_t count;
    gs_error error;
    if (gs_program_wait(made, &error) != GS_OK) {
        snprintf(program->words, sizeof program->words, "%.100s(%ld): error: %.250s", error.file, error.line,
                 error.message);
        return complain(program, program->words);
    }
    gs_program_path(made, path, sizeof path);
    if (gs_input_all(path, (size_t)64 << 20, &bytes, &count, &error) != GS_OK)
        return 1;
    gs_text_add(&program->image, "%s%zu\n", PRETENDED_LIBRARY, count);
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
    gs_program *made = host ? gs_host_compile(host, &build, NULL) : NULL;
    int failed = made ? take_library(program, made) : complain(program, "error: the source cannot be read");
    gs_host_close(host);
    return failed;
}

int nvrtcCompileProgram(nvrtc_program program, int option_count, const char *const *options) {
    static const char start[] = "extern \"C\" __global__ void probe_";
    size_t number;
    int live, local;
    if (is_pretended("compile-fails"))
        return complain(program, "probe.cu(1): error: this is pretended");
    if (option_count < 1 || strncmp(options[0], "--gpu-architecture=sm_", 22) != 0)
        return complain(program, "error: for which architecture?");
    if (!strstr(program->source, start))
        return compile_library(program, option_count, options);
    gs_text_add(&program->image, "%s", PRETENDED_IMAGE);
    for (const char *at = program->source; (at = strstr(at, start)); at++) {
        if (sscanf(at + sizeof start - 1, "%zu(arguments told) { probe<%d, %d>(told); }", &number, &live, &local) != 3)
            return complain(program, "error: a kernel that is not the probe");
        gs_text_add(&program->image, "%zu %d %d\n", number, live, local);
    }
    return program->image.failed ? 1 : 0;
}

int nvrtcAddNameExpression(nvrtc_program program, const char *name) {
    if (program->kernel_count == MOST_KERNELS)
        return INVALID_INPUT;
    program->kernels[program->kernel_count++] = strdup(name);
    return 0;
}

int nvrtcGetLoweredName(nvrtc_program program, const char *name, const char **lowered) {
    (void)program;
    *lowered = name;
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

int nvrtcDestroyProgram(nvrtc_program *program) {
    free((*program)->source);
    free((*program)->name);
    for (size_t i = 0; i < (*program)->kernel_count; i++)
        free((*program)->kernels[i]);
    gs_text_free(&(*program)->image);
    free(*program);
    *program = NULL;
    return 0;
}
