/*
 * compiler_output.c: resources of kernels in the output of "cuobjdump --dump-resource-usage" and of "ptxas -v".
 *
 * Both are meant to be read by users. cuobjdump prints two relevant lines, after one with the architecture:
 *
 *     arch = sm_90
 *      Function _Z5scalePf:
 *       REG:32 STACK:0 SHARED:1024 LOCAL:0 CONSTANT[0]:568 TEXTURE:0 SURFACE:0 SAMPLER:0
 *
 * and ptxas these, with other lines between them:
 *
 *     ptxas info    : Compiling entry function '_Z5scalePf' for 'sm_90'
 *         0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
 *     ptxas info    : Used 32 registers, used 1 barriers, 512 bytes smem, 372 bytes cmem[0]
 *
 * From compute capability 9.0 on, cuobjdump counts the 1 KiB that the runtime reserves as shared memory of the kernel;
 * a run does not. Local memory is the stack and the "local" bytes of the compilers' output.
 */
#include "collect.h"

#include <stdlib.h>

enum { RESERVED_BYTES = 1024, RESERVED_FROM = 90 };

/* The current kernel. */
struct reading {
    gs_kernel_list *kernels;
    gs_kernel_entry kernel;
    gs_text architecture; /* the last one named by cuobjdump */
    gs_error *error;
};

static gs_code finish_kernel(struct reading *reading) {
    if (!reading->kernel.name)
        return GS_OK;
    if (!GS_PUSH(reading->kernels, reading->kernel))
        return gs_fail_memory(reading->error);
    reading->kernel = (gs_kernel_entry){0};
    return GS_OK;
}

static void forget_kernel(struct reading *reading) {
    free(reading->kernel.name);
    free(reading->kernel.architecture);
    reading->kernel = (gs_kernel_entry){0};
}

static gs_code begin_kernel(struct reading *reading, const char *name, size_t length, const char *architecture,
                            size_t architecture_length) {
    forget_kernel(reading);
    if (!length)
        return GS_OK;
    reading->kernel.name = strndup(name, length);
    reading->kernel.architecture = strndup(architecture, architecture_length);
    if (!reading->kernel.name || !reading->kernel.architecture)
        return gs_fail_memory(reading->error);
    gs_make_printable(reading->kernel.name);
    gs_make_printable(reading->kernel.architecture);
    return GS_OK;
}

static int64_t limited_number(const char *digits) {
    return gs_max(0, gs_min(strtoll(digits, NULL, 10), (int64_t)1 << 40));
}

/* ---- cuobjdump ---- */

/* The number after "KEY:" in a line; 0: no such key. */
static int64_t number_of(const char *line, const char *key) {
    size_t length = strlen(key);
    for (const char *at = line; (at = strstr(at, key)); at += length)
        if ((at == line || at[-1] == ' ') && at[length] == ':')
            return limited_number(at + length + 1);
    return 0;
}

static bool has_reserved(const char *architecture) {
    return strncmp(architecture, "sm_", 3) == 0 && strtol(architecture + 3, NULL, 10) >= RESERVED_FROM;
}

static gs_code read_cuobjdump_line(struct reading *reading, const char *line) {
    static const char arch[] = "arch = ", function[] = "Function ";
    const char *name = line + strspn(line, " \t");
    if (strncmp(name, arch, sizeof arch - 1) == 0) {
        gs_text_clear(&reading->architecture);
        gs_text_add(&reading->architecture, "%.*s", (int)strcspn(name + sizeof arch - 1, " \t\r"),
                    name + sizeof arch - 1);
        return reading->architecture.failed ? gs_fail_memory(reading->error) : GS_OK;
    }
    if (strncmp(name, function, sizeof function - 1) == 0) {
        name += sizeof function - 1;
        const char *known = reading->architecture.count ? reading->architecture.data : "";
        return begin_kernel(reading, name, strcspn(name, ":\r"), known, strlen(known));
    }
    if (strncmp(name, "REG:", 4) != 0 || !reading->kernel.name)
        return GS_OK;
    gs_kernel_entry *kernel = &reading->kernel;
    kernel->registers = (int32_t)gs_min(number_of(line, "REG"), 65536);
    kernel->shared_bytes = number_of(line, "SHARED");
    kernel->local_bytes = gs_min(number_of(line, "STACK") + number_of(line, "LOCAL"), (int64_t)1 << 40);
    kernel->stack_is_unknown = strstr(line, " STACK:UNKNOWN") != NULL;
    if (has_reserved(kernel->architecture))
        kernel->shared_bytes = gs_max(0, kernel->shared_bytes - RESERVED_BYTES);
    return finish_kernel(reading);
}

/* ---- ptxas ---- */

/* The number before `words` in a line; 0: not found. */
static int64_t number_before(const char *line, const char *words) {
    const char *at = strstr(line, words);
    if (!at)
        return 0;
    while (at > line && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return limited_number(at);
}

static gs_code read_ptxas_line(struct reading *reading, const char *line) {
    static const char compiling[] = "Compiling entry function '", target[] = "' for '";
    const char *name = strstr(line, compiling);
    if (name) {
        name += sizeof compiling - 1;
        const char *end = strstr(name, target);
        if (!end)
            return GS_OK;
        const char *architecture = end + sizeof target - 1;
        return begin_kernel(reading, name, (size_t)(end - name), architecture, strcspn(architecture, "'"));
    }
    gs_kernel_entry *kernel = &reading->kernel;
    if (!kernel->name)
        return GS_OK;
    kernel->local_bytes = gs_max(kernel->local_bytes, number_before(line, " bytes stack frame"));
    const char *used = strstr(line, "Used ");
    if (!used || !strstr(used, " registers"))
        return GS_OK;
    kernel->registers = (int32_t)gs_min(number_before(used, " registers"), 65536);
    kernel->shared_bytes = number_before(used, " bytes smem");
    kernel->local_bytes = gs_max(kernel->local_bytes, number_before(used, " bytes cumulative stack size"));
    kernel->local_bytes = gs_max(kernel->local_bytes, number_before(used, " bytes lmem"));
    return finish_kernel(reading);
}

/* ---- files ---- */

static gs_code read_line(struct reading *reading, const char *bytes, size_t length) {
    char *line = strndup(bytes, length);
    if (!line)
        return gs_fail_memory(reading->error);
    gs_code code = read_ptxas_line(reading, line);
    if (code == GS_OK)
        code = read_cuobjdump_line(reading, line);
    free(line);
    return code;
}

gs_code gs_import_resources(gs_input *input, gs_kernel_list *kernels, gs_error *error) {
    struct reading reading = {.kernels = kernels, .error = error};
    gs_code code = GS_OK;
    const char *line;
    bool is_last = false;
    size_t length;
    while (code == GS_OK && !is_last && (length = gs_input_line(input, &line, &is_last)) != SIZE_MAX) {
        code = read_line(&reading, line, length);
        gs_input_take(input, length + !is_last);
    }
    size_t left;
    if (code == GS_OK)
        code = gs_input_more(input, &line, &left, error);
    if (code == GS_OK && left)
        code = gs_input_fail(input, error, GS_E_FORMAT, "not a trace: a line has more than 60,000 bytes");
    forget_kernel(&reading);
    gs_text_free(&reading.architecture);
    return code;
}

/* ---- architectures ---- */

/* Which code a GPU takes if it can run several: the greatest. 180 for sm_90, 181 for sm_90a; 0: not known. */
static int rank_of(const gs_kernel_entry *kernel) {
    char *end;
    if (strncmp(kernel->architecture, "sm_", 3) != 0)
        return 0;
    int number = (int)gs_max(0, gs_min(strtol(kernel->architecture + 3, &end, 10), 10000));
    return 2 * number + (*end != '\0');
}

/* A GPU runs code for its major version, up to its minor one; code with a letter only if it is for this GPU. What does
   not name its architecture counts as code for it. */
static bool can_run(int architecture, const gs_kernel_entry *kernel) {
    int number = rank_of(kernel) / 2;
    bool is_older = number / 10 == architecture / 10 && number < architecture && rank_of(kernel) % 2 == 0;
    return !number || number == architecture || is_older;
}

/* For each kernel that the GPU can run, the first of its name in `first`, and for those in `best` the greatest rank. */
static gs_code find_best(const gs_kernel_list *kernels, int architecture, size_t *first, int *best, gs_error *error) {
    gs_names names = {0};
    gs_code code = GS_OK;
    for (size_t i = 0; i < kernels->count && code == GS_OK; i++) {
        if (!can_run(architecture, &kernels->data[i]))
            continue;
        first[i] = gs_names_add(&names, kernels->data[i].name, i);
        if (first[i] == SIZE_MAX)
            code = gs_fail_memory(error);
        else
            best[first[i]] = (int)gs_max(best[first[i]], rank_of(&kernels->data[i]));
    }
    gs_names_free(&names);
    return code;
}

gs_code gs_kernels_keep(gs_kernel_list *kernels, int architecture, size_t *removed, gs_error *error) {
    size_t *first = malloc((kernels->count + 1) * sizeof *first), kept = 0;
    int *best = calloc(kernels->count + 1, sizeof *best);
    gs_code code = first && best ? find_best(kernels, architecture, first, best, error) : gs_fail_memory(error);
    for (size_t i = 0; i < kernels->count && code == GS_OK; i++) {
        gs_kernel_entry kernel = kernels->data[i];
        if (can_run(architecture, &kernel) && rank_of(&kernel) == best[first[i]]) {
            kernels->data[kept++] = kernel;
            continue;
        }
        free(kernel.name);
        free(kernel.architecture);
    }
    free(first);
    free(best);
    if (code != GS_OK)
        return code;
    *removed = kernels->count - kept;
    kernels->count = kept;
    return GS_OK;
}

/* ---- as a run ---- */

/* A run is for one GPU: a kernel is in it for one architecture. */
static gs_code check_architecture(const gs_kernel_list *kernels, size_t kernel, gs_names *names, gs_error *error) {
    const gs_kernel_entry *one = &kernels->data[kernel];
    size_t first = gs_names_add(names, one->name, kernel);
    if (first == SIZE_MAX)
        return gs_fail_memory(error);
    if (strcmp(kernels->data[first].architecture, one->architecture) == 0)
        return GS_OK;
    return gs_fail(error, GS_E_USAGE, "kernel \"%.60s\" has code for %.20s and %.20s: choose the GPU with --gpu NAME",
                   one->name,
                   *kernels->data[first].architecture ? kernels->data[first].architecture : "no architecture",
                   *one->architecture ? one->architecture : "no architecture");
}

gs_run *gs_kernels_run(const gs_kernel_list *kernels, const gs_import_options *options, size_t *left_out,
                       gs_error *error) {
    gs_run *run = gs_run_new(error);
    gs_code code = run ? GS_OK : GS_E_MEMORY;
    gs_names names = {0};
    *left_out = 0;
    for (size_t i = 0; i < kernels->count && code == GS_OK; i++) {
        const gs_kernel_entry *kernel = &kernels->data[i];
        gs_launch launch = gs_launch_default();
        char id[24];
        snprintf(id, sizeof id, "%zu", i + 1);
        launch.kernel = kernel->name; /* it is copied, as the id is */
        launch.issue.id = id;
        launch.issue.id_is_number = true;
        launch.shape.registers = (int32_t)gs_max(kernel->registers, 1);
        launch.shape.shared_bytes = kernel->shared_bytes;
        launch.shape.local_bytes = kernel->local_bytes;
        code = gs_supply_launch(options, &launch, error);
        bool is_known = launch.blocks && launch.shape.threads;
        *left_out += !is_known;
        if (code == GS_OK && is_known)
            code = check_architecture(kernels, i, &names, error);
        if (code == GS_OK && is_known)
            code = gs_run_copy_launch(run, &launch, error);
    }
    gs_names_free(&names);
    if (code == GS_OK && run->launches.count)
        return run;
    if (code == GS_OK && error)
        error->code = GS_OK;
    gs_run_free(run);
    return NULL;
}
