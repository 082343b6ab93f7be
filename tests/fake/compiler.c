/*
 * compiler.c: libnvrtc.so.13 of the pretended driver.
 *
 * It reads of a source only the lines that make kernels of the probe, and lists them. How many registers come out is
 * told by the driver, as with the real ones.
 */
#include "pretended.h"

NVRTC_SYMBOLS(PRETENDED_CALL)

enum { INVALID_INPUT = 3, COMPILATION = 6 };

struct nvrtc_program {
    char *source;
    gs_text image;
    const char *log;
};

int nvrtcCreateProgram(nvrtc_program *program, const char *source, const char *name, int headers,
                       const char *const *header_sources, const char *const *header_names) {
    (void)name, (void)header_sources, (void)header_names;
    if (headers)
        return INVALID_INPUT;
    *program = calloc(1, sizeof **program);
    if (!*program)
        return 1;
    (*program)->source = strdup(source);
    (*program)->log = "";
    return 0;
}

static int complain(nvrtc_program program, const char *words) {
    program->log = words;
    return COMPILATION;
}

int nvrtcCompileProgram(nvrtc_program program, int option_count, const char *const *options) {
    static const char start[] = "extern \"C\" __global__ void probe_";
    size_t number;
    int live, local;
    if (is_pretended("compile-fails"))
        return complain(program, "probe.cu(1): error: this is pretended");
    if (option_count != 1 || strncmp(options[0], "--gpu-architecture=sm_", 22) != 0)
        return complain(program, "error: for which architecture?");
    gs_text_add(&program->image, "%s", PRETENDED_IMAGE);
    for (const char *at = program->source; (at = strstr(at, start)); at++) {
        if (sscanf(at + sizeof start - 1, "%zu(arguments told) { probe<%d, %d>(told); }", &number, &live, &local) != 3)
            return complain(program, "error: a kernel that is not the probe");
        gs_text_add(&program->image, "%zu %d %d\n", number, live, local);
    }
    return program->image.failed ? 1 : 0;
}

int nvrtcAddNameExpression(nvrtc_program program, const char *name) {
    (void)program, (void)name;
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
    gs_text_free(&(*program)->image);
    free(*program);
    *program = NULL;
    return 0;
}
