/*
 * assembler.c: PTX to machine code by ptxas, a program of the CUDA toolkit, which needs no GPU. Without it, the driver
 * of a GPU compiles PTX when it loads it.
 *
 * nvJitLink, the library, is not used: it assembles kernels so that they can be linked, which makes some of them slower
 * by half.
 */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECONDS = 300, LOG_MOST = 1 << 22 };
#define CUBIN_MOST ((size_t)256 << 20)

bool gs_assembler_find(char *path, size_t size) {
    const char *wish = getenv("GRIDSMITH_PTXAS");
    if (wish)
        return wish[0] && gs_program_find(wish, path, size);
    bool fits = (size_t)snprintf(path, size, "%s/bin/ptxas", gs_cuda_toolkit()) < size;
    return (fits && access(path, X_OK) == 0) || gs_program_find("ptxas", path, size);
}

/* ---- what ptxas says ---- */

/* The number right before the first `words` after `from`. */
static int number_before(const char *from, const char *words) {
    const char *at = from ? strstr(from, words) : NULL;
    while (at && at > from && (at[-1] == ' ' || (at[-1] >= '0' && at[-1] <= '9')))
        at--;
    return at ? atoi(at) : 0;
}

/* ptxas writes "Compiling entry function 'NAME'", then its spills and registers. */
gs_cost gs_ptxas_cost(const char *log, const char *symbol) {
    gs_text wanted = {0};
    gs_cost cost = {0};
    gs_text_add(&wanted, "entry function '%s'", symbol);
    const char *at = log && wanted.data ? strstr(log, wanted.data) : NULL;
    const char *used = at ? strstr(at, "Used ") : NULL;
    if (used) {
        cost.local_bytes = number_before(at, " bytes stack frame");
        cost.spill_stores = number_before(at, " bytes spill stores");
        cost.spill_loads = number_before(at, " bytes spill loads");
        cost.registers = atoi(used + strlen("Used "));
        const char *end = strchr(used, '\n'), *shared = strstr(used, " bytes smem");
        if (shared && (!end || shared < end))
            cost.shared_bytes = number_before(used, " bytes smem");
    }
    gs_text_free(&wanted);
    return cost;
}

/* ---- assembling ---- */

/* The first error. ptxas writes "ptxas FILE, line 12; error   : message" or "ptxas fatal   : message", perhaps behind
   warnings, and last that it was aborted due to errors. */
static const char *find_error(const char *log) {
    const char *error = strstr(log, "error "), *fatal = strstr(log, "fatal ");
    const char *line = error && (!fatal || error < fatal) ? error : fatal;
    while (line && line > log && line[-1] != '\n')
        line--;
    return line ? line : log[0] ? log : "no reason given";
}

static gs_code fail(const char *log, const gs_build *build, gs_error *error) {
    const char *words = find_error(log), *end = words + strcspn(words, "\n");
    const char *place = strstr(words, ", line "), *message = strstr(words, " : ");
    message = message && message < end ? message + strlen(" : ") : words;
    gs_fail(error, GS_E_KERNEL, "ptxas says: %.*s", (int)(end - message), message);
    if (error && place && place < end) {
        snprintf(error->file, sizeof error->file, "%s", build->name);
        error->line = strtol(place + strlen(", line "), NULL, 10);
        error->column = 1;
    }
    return GS_E_KERNEL;
}

static gs_code keep(const char *folder, const char *log, const gs_build *build, gs_cubin *cubin, gs_error *error) {
    gs_text path = {0};
    gs_text_add(&path, "%s/out.cubin", folder);
    gs_code code =
        path.failed ? gs_fail_memory(error) : gs_input_all(path.data, CUBIN_MOST, &cubin->image, &cubin->bytes, error);
    gs_text_free(&path);
    cubin->symbols = calloc(build->kernel_count + 1, sizeof *cubin->symbols);
    cubin->costs = calloc(build->kernel_count + 1, sizeof *cubin->costs);
    if (code == GS_OK && (!cubin->symbols || !cubin->costs))
        code = gs_fail_memory(error);
    for (size_t i = 0; i < build->kernel_count && code == GS_OK; i++) {
        cubin->symbols[i] = strdup(build->kernels[i]);
        cubin->costs[i] = gs_ptxas_cost(log, build->kernels[i]);
        code = cubin->symbols[i] ? GS_OK : gs_fail_memory(error);
        cubin->count += code == GS_OK;
    }
    return code;
}

/* PTX with the target sm_90a is for this architecture only, and ptxas wants to hear that again: "a". Else "". */
static const char *suffix_of(const gs_build *build, int architecture) {
    char target[40];
    int length = snprintf(target, sizeof target, ".target sm_%d", architecture);
    for (size_t at = 0; at + (size_t)length < build->size; at++) {
        bool begins = at == 0 || build->text[at - 1] == '\n';
        if (begins && memcmp(build->text + at, target, (size_t)length) == 0)
            return build->text[at + (size_t)length] == 'a' ? "a" : "";
    }
    return "";
}

static gs_code run_ptxas(const char *const *words, const char *folder, const gs_build *build, gs_cubin *cubin,
                         gs_error *error) {
    gs_tool tool = {.words = words, .folder = folder, .seconds = SECONDS, .stays_in_group = build->is_watched};
    gs_tool_end end = gs_tool_run(&tool);
    char *log = gs_folder_read(folder, "log", LOG_MOST);
    gs_code code = end == GS_TOOL_DONE   ? keep(folder, log ? log : "", build, cubin, error)
                   : end == GS_TOOL_LATE ? gs_fail(error, GS_E_KERNEL, "ptxas was not done after %d seconds", SECONDS)
                   : tool.signal         ? gs_fail(error, GS_E_KERNEL, "ptxas crashed: %s", strsignal(tool.signal))
                                         : fail(log ? log : "", build, error);
    free(log);
    return code;
}

static gs_code assemble_in(const char *folder, const char *program, const gs_build *build, int architecture,
                           gs_cubin *cubin, gs_error *error) {
    char target[40], limit[40];
    gs_text input = {0}, output = {0};
    gs_text_add(&input, "%s/in.ptx", folder);
    gs_text_add(&output, "%s/out.cubin", folder);
    snprintf(target, sizeof target, "-arch=sm_%d%s", architecture, suffix_of(build, architecture));
    snprintf(limit, sizeof limit, "-maxrregcount=%u", build->max_registers);
    /* Those of the caller come first: of an option that is there twice, ptxas takes the last. */
    const char *fixed[] = {target,
                           "-v",
                           "-o",
                           output.data,
                           input.data,
                           build->max_registers ? limit : NULL,
                           build->with_lines ? "-lineinfo" : NULL};
    const char **words = calloc(build->ptxas_option_count + GS_COUNT(fixed) + 2, sizeof *words);
    gs_code code = input.failed || output.failed || !words
                       ? gs_fail_memory(error)
                       : gs_folder_write(folder, "in.ptx", build->text, build->size, error);
    if (code == GS_OK) {
        size_t count = 0;
        words[count++] = program;
        for (size_t i = 0; i < build->ptxas_option_count; i++)
            words[count++] = build->ptxas_options[i];
        for (size_t i = 0; i < GS_COUNT(fixed); i++)
            if (fixed[i])
                words[count++] = fixed[i];
        code = run_ptxas(words, folder, build, cubin, error);
    }
    free(words);
    gs_text_free(&input);
    gs_text_free(&output);
    return code;
}

gs_code gs_assemble(const gs_build *build, int architecture, gs_cubin *cubin, gs_error *error) {
    char program[1000];
    if (!gs_assembler_find(program, sizeof program))
        return gs_fail(error, GS_E_NO_GPU, "NVIDIA's assembler was not found (ptxas of the CUDA toolkit)");
    char *folder = gs_folder_make(error);
    if (!folder)
        return error ? error->code : GS_E_IO;
    gs_code code = assemble_in(folder, program, build, architecture, cubin, error);
    gs_folder_remove(folder);
    free(folder);
    return code;
}
