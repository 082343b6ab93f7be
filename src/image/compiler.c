/*
 * compiler.c: the compiler process: one request in, one image out. See image.h.
 *
 * The original and each confined form are sources of their own, compiled side by side. A confined kernel may take more
 * registers than the original, so that fewer blocks fit on an SM. Then it is compiled once more, with as many registers
 * as the original has.
 *
 * Everything that is written goes into the folder TMPDIR, which the daemon has made and will remove. A compiler that
 * takes too long is ended by an alarm, with all processes of its group.
 */
#define _GNU_SOURCE
#include "builder.h"
#include "image_file.h"
#include "reshape/reshape.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_OPTIONS = 32 };

/* A request, as pointers into the file. */
struct request {
    gs_compiler_request head;
    const char *name, *text;
    char names[GS_IMAGE_KERNELS][GS_JOB_NAME];
    const char *kernels[GS_IMAGE_KERNELS];
    size_t kernel_count;
    const char *options[MOST_OPTIONS + 1];
    size_t option_count;
};

/* ---- reading the request ---- */

static const char *next_text(const char **at, const char *end) {
    const char *text = *at, *stop = text < end ? memchr(text, '\0', (size_t)(end - text)) : NULL;
    *at = stop ? stop + 1 : end;
    return stop ? text : NULL;
}

static gs_code read_request(struct request *request, char *bytes, size_t size, gs_error *error) {
    const char *at = bytes + sizeof request->head, *end = bytes + size;
    if (size < sizeof request->head)
        return gs_fail(error, GS_E_USAGE, "the request is too short");
    memcpy(&request->head, bytes, sizeof request->head);
    request->name = next_text(&at, end);
    request->text = at;
    if (!request->name || request->head.size >= (size_t)(end - at) || request->head.kernel_count > GS_IMAGE_KERNELS ||
        request->head.option_count > MOST_OPTIONS)
        return gs_fail(error, GS_E_USAGE, "the request is malformed");
    at += request->head.size + 1;
    for (; request->kernel_count < request->head.kernel_count; request->kernel_count++) {
        const char *name = next_text(&at, end);
        if (!name || strlen(name) >= GS_JOB_NAME)
            return gs_fail(error, GS_E_USAGE, "the name of a kernel is too long");
        snprintf(request->names[request->kernel_count], GS_JOB_NAME, "%s", name);
    }
    for (; request->option_count < request->head.option_count; request->option_count++) {
        const char *option = next_text(&at, end);
        if (!option || strncmp(option, "-D", 2) != 0)
            return gs_fail(error, GS_E_USAGE, "options begin with -D, not as \"%.40s\"", option ? option : "");
        request->options[request->option_count] = option;
    }
    return GS_OK;
}

static gs_code find_kernels(struct request *request, const gs_source *source, gs_error *error) {
    if (!request->kernel_count) {
        size_t count = gs_source_kernels(source, request->names, GS_IMAGE_KERNELS, error);
        if (count == SIZE_MAX)
            return GS_E_USAGE;
        if (!count || count > GS_IMAGE_KERNELS)
            return gs_fail(error, GS_E_USAGE,
                           count ? "%s has more than %d kernels: name those that are needed"
                                 : "%s has no kernels that are not templates: name what is needed",
                           source->name, GS_IMAGE_KERNELS);
        request->kernel_count = count;
    }
    for (size_t i = 0; i < request->kernel_count; i++)
        request->kernels[i] = request->names[i];
    return GS_OK;
}

/* ---- compiling ---- */

/* One source on its way: the original with all kernels, or a confined one. */
struct form {
    gs_text text;
    gs_build build;
    gs_module *module;  /* on the CPU */
    gs_builder builder; /* for a GPU, */
    gs_nvrtc_built built;
};

struct compilation {
    struct request *request;
    gs_source source;
    gs_image_made *made;
    gs_host *host;
    const char *options[MOST_OPTIONS + 1]; /* of confined kernels: the request's, and to count blocks */
    struct form original, confined[GS_IMAGE_KERNELS], limited[GS_IMAGE_KERNELS];
};

static gs_code start_form(struct compilation *compilation, struct form *form, gs_error *error) {
    if (compilation->request->head.architecture)
        return gs_builder_start(&form->builder, &form->build, compilation->request->head.architecture, error);
    form->build.as_library = true;
    form->module = gs_host_compile(compilation->host, &form->build, error);
    return form->module ? GS_OK : error->code;
}

/* For a GPU: waits for it. */
static gs_code wait_form(struct form *form, gs_error *error) {
    return form->builder.process ? gs_builder_finish(&form->builder, &form->built, error) : GS_OK;
}

static gs_code add_part(gs_image_made *made, const char *bytes, size_t count, gs_error *error) {
    gs_text *part = &made->parts[made->part_count++];
    gs_text_put(part, bytes, count);
    return part->failed ? gs_fail_memory(error) : GS_OK;
}

static gs_code add_module(gs_image_made *made, gs_module *module, gs_error *error) {
    char path[400], *bytes = NULL;
    size_t count = 0;
    gs_code code = gs_module_wait(module, error);
    if (code == GS_OK)
        code = gs_input_all(gs_module_path(module, path, sizeof path), (size_t)128 << 20, &bytes, &count, error);
    if (code == GS_OK)
        code = add_part(made, bytes, count, error);
    free(bytes);
    return code;
}

/* Adds the part of a form, and says in `entry` where kernel number `number` of it is. */
static gs_code add_entry(const struct form *form, uint32_t part, size_t number, gs_image_entry *entry,
                         gs_error *error) {
    const char *symbol = form->module ? form->build.kernels[number] : form->built.symbols[number];
    if (strlen(symbol) >= sizeof entry->symbol)
        return gs_fail(error, GS_E_USAGE, "the name of a kernel is too long");
    entry->part = part;
    snprintf(entry->symbol, sizeof entry->symbol, "%s", symbol);
    return GS_OK;
}

static gs_code finish_form(struct compilation *compilation, struct form *form, gs_error *error) {
    return form->module ? add_module(compilation->made, form->module, error)
                        : add_part(compilation->made, form->built.image, form->built.bytes, error);
}

static gs_code compile_original(struct compilation *compilation, gs_error *error) {
    struct request *request = compilation->request;
    compilation->original.build = (gs_build){.name = request->name,
                                             .text = request->text,
                                             .size = request->head.size,
                                             .kernels = request->kernels,
                                             .kernel_count = request->kernel_count,
                                             .options = request->options,
                                             .option_count = request->option_count};
    return start_form(compilation, &compilation->original, error);
}

/* Starts compiling a confined form, where there can be one. That there cannot be one is no error. */
static gs_code compile_confined(struct compilation *compilation, size_t number, gs_error *error) {
    struct request *request = compilation->request;
    gs_image_kernel *kernel = &compilation->made->kernels[number].kernel;
    struct form *form = &compilation->confined[number];
    gs_error reason = {.code = GS_OK};
    gs_reshape_options options = {.form = GS_FORM_CONFINED, .is_alone = true};
    gs_code code = gs_reshape(&compilation->source, request->names[number], &options, &form->text, &reason);
    if (code == GS_E_MEMORY)
        return gs_fail_memory(error);
    kernel->can_be_confined = code == GS_OK;
    if (code != GS_OK) {
        snprintf(kernel->refusal, sizeof kernel->refusal, "%s:%ld: %.150s", "line", reason.line, reason.message);
        return GS_OK;
    }
    form->build = compilation->original.build;
    form->build.text = form->text.data;
    form->build.size = form->text.count;
    form->build.kernels = &request->kernels[number];
    form->build.kernel_count = 1;
    form->build.options = compilation->options;
    form->build.option_count = request->option_count + request->head.has_marks;
    return start_form(compilation, form, error);
}

/* For a GPU: compiles it once more with a limit of registers, where that is needed. */
static gs_code limit_confined(struct compilation *compilation, size_t number, gs_error *error) {
    const struct form *confined = &compilation->confined[number];
    uint32_t limit = confined->built.count ? gs_register_limit(compilation->original.built.costs[number].registers,
                                                               confined->built.costs[0].registers)
                                           : 0;
    if (!limit)
        return GS_OK;
    compilation->limited[number].build = confined->build;
    compilation->limited[number].build.max_registers = limit;
    return start_form(compilation, &compilation->limited[number], error);
}

/* A function of the source may need more registers than the limit: then it stays without one. */
static gs_code take_limited(struct compilation *compilation, size_t number, gs_error *error) {
    struct form *confined = &compilation->confined[number], *limited = &compilation->limited[number];
    gs_code code = wait_form(limited, error);
    if (code == GS_OK && limited->built.count) {
        gs_nvrtc_built_free(&confined->built);
        confined->built = limited->built;
        limited->built = (gs_nvrtc_built){0};
    }
    return code == GS_E_KERNEL ? GS_OK : code;
}

static gs_code collect_kernel(struct compilation *compilation, size_t number, gs_error *error) {
    gs_image_made *made = compilation->made;
    gs_image_stored *stored = &made->kernels[number];
    struct form *confined = &compilation->confined[number];
    stored->confined.part = GS_IMAGE_NO_PART;
    gs_code code = add_entry(&compilation->original, 0, number, &stored->original, error);
    if (code == GS_OK && stored->kernel.can_be_confined) {
        code = finish_form(compilation, confined, error);
        if (code == GS_OK)
            code = add_entry(confined, (uint32_t)made->part_count - 1, 0, &stored->confined, error);
    }
    return code;
}

static gs_code compile_all(struct compilation *compilation, gs_error *error) {
    struct request *request = compilation->request;
    compilation->made->kernel_count = request->kernel_count;
    memcpy(compilation->options, request->options, request->option_count * sizeof *compilation->options);
    compilation->options[request->option_count] = "-DGRIDSMITH_MARKS";
    gs_code code = compile_original(compilation, error);
    for (size_t i = 0; i < request->kernel_count && code == GS_OK; i++) {
        memcpy(compilation->made->kernels[i].kernel.name, request->names[i], GS_JOB_NAME);
        code = compile_confined(compilation, i, error);
    }
    if (code == GS_OK)
        code = wait_form(&compilation->original, error);
    for (size_t i = 0; i < request->kernel_count && code == GS_OK; i++) {
        code = wait_form(&compilation->confined[i], error);
        if (code == GS_OK)
            code = limit_confined(compilation, i, error);
    }
    for (size_t i = 0; i < request->kernel_count && code == GS_OK; i++)
        code = take_limited(compilation, i, error);
    if (code == GS_OK)
        code = finish_form(compilation, &compilation->original, error);
    for (size_t i = 0; i < request->kernel_count && code == GS_OK; i++)
        code = collect_kernel(compilation, i, error);
    return code;
}

static gs_code compile_request(struct request *request, const char *path, gs_error *error) {
    struct compilation *compilation = calloc(1, sizeof *compilation);
    gs_image_made *made = calloc(1, sizeof *made);
    if (!compilation || !made)
        return gs_fail_memory(error);
    compilation->request = request;
    compilation->made = made;
    gs_code code = gs_source_read(&compilation->source, request->name, request->text, request->head.size, error);
    if (code == GS_OK)
        code = find_kernels(request, &compilation->source, error);
    if (code == GS_OK && !request->head.architecture) {
        compilation->host = gs_host_open(error);
        code = compilation->host ? GS_OK : error->code;
    }
    if (code == GS_OK)
        code = compile_all(compilation, error);
    if (code == GS_OK)
        code = gs_image_write(path, made, error);
    return code; /* the process ends here: nothing is freed, and the daemon removes the folder */
}

/* ---- the process ---- */

static void end_group(int number) {
    (void)number;
    kill(0, SIGKILL);
}

/* No core files of compilers. */
static void set_limits(uint32_t seconds) {
    struct rlimit none = {0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGALRM, end_group);
    alarm(seconds);
}

int gs_compiler_process(int argc, char **argv) {
    enum { PARENT = 1, PATH, WORDS };
    static struct request request;
    gs_error error = {.code = GS_OK};
    struct stat status;
    signal(SIGTERM, end_group);
    if (argc != WORDS || !gs_process_follow(argv[PARENT], SIGTERM) || fstat(GS_COMPILER_REQUEST, &status) != 0)
        return gs_code_exit(GS_E_USAGE);
    char *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, GS_COMPILER_REQUEST, 0);
    gs_compiler_answer *answer = mmap(NULL, sizeof *answer, PROT_READ | PROT_WRITE, MAP_SHARED, GS_COMPILER_ANSWER, 0);
    if (bytes == MAP_FAILED || answer == MAP_FAILED)
        return gs_code_exit(GS_E_MEMORY);
    gs_code code = read_request(&request, bytes, (size_t)status.st_size, &error);
    set_limits(request.head.seconds);
    if (code == GS_OK)
        code = compile_request(&request, argv[PATH], &error);
    answer->code = code;
    answer->error = error;
    answer->is_done = 1;
    _exit(gs_code_exit(code));
}
