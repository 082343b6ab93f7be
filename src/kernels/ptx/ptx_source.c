/*
 * ptx_source.c: CUDA C++ to PTX, by the first compiler that can do it.
 *
 * nvcc comes first because it reads whole programs, then NVRTC, then clang, which needs no CUDA. If all refuse, the
 * error is that of the first one, which accepts most. Templates become kernels only where they are used, so a line
 * after the source uses each requested instance. The symbol of a requested kernel is then searched among the kernels of
 * the PTX.
 */
#include "ptx_compilers.h"

#include <stdlib.h>

/* The file name of the lines after the source in errors, and the name that NVRTC uses for its own lines. */
#define NAMES_FILE  "requested kernels"
#define NVRTC_NAMES "__nv_name_map"

void gs_ptx_compiled_free(gs_ptx_compiled *compiled) {
    for (size_t i = 0; i < compiled->count; i++)
        free(compiled->symbols[i]);
    free(compiled->symbols);
    free(compiled->text);
    *compiled = (gs_ptx_compiled){0};
}

/* The source, and for each instance of a template a line that uses it. */
static char *text_with_instances(const gs_ptx_source_request *request, bool has_names) {
    gs_text text = {0};
    gs_text_put(&text, request->text, request->size);
    for (size_t i = 0; i < request->kernel_count && !has_names; i++)
        if (strchr(request->kernels[i], '<'))
            gs_text_add(&text, "\n#line %zu \"" NAMES_FILE "\"\nstatic auto *const gridsmith_kernel_%zu = &%s;", i + 1,
                        i, request->kernels[i]);
    gs_text_put(&text, "\n", 1);
    if (text.failed)
        gs_text_free(&text);
    return text.data;
}

/* Whether the source was compiled with a use of this instance. Its arguments may be written differently, such as 1 <<
   3. */
static int find_instance(const gs_ptx_entries *entries, const char *kernel) {
    int number = gs_ptx_entries_find(entries, kernel);
    const char *arguments = strchr(kernel, '<');
    char *name = number == -1 && arguments ? strndup(kernel, (size_t)(arguments - kernel)) : NULL;
    if (name)
        number = gs_ptx_entries_find(entries, name);
    free(name);
    return number;
}

static gs_code no_kernel(const gs_ptx_source_request *request, const gs_ptx_entries *entries, const char *kernel,
                         bool are_several, gs_error *error) {
    gs_text list = {0};
    for (size_t i = 0; i < entries->count && i < 8; i++) {
        char *name = gs_demangle(entries->data[i], GS_NAME_ALONE);
        gs_text_add(&list, "%s%s", i ? ", " : "", name ? name : "");
        free(name);
    }
    gs_fail(error, GS_E_KERNEL, "%s kernel %.80s; the kernels are: %.250s", are_several ? "more than one" : "no",
            kernel, entries->count ? list.data : "none");
    if (error)
        snprintf(error->file, sizeof error->file, "%s", request->file);
    gs_text_free(&list);
    return GS_E_KERNEL;
}

static gs_code find_symbols(const gs_ptx_source_request *request, gs_ptx_compiled *compiled, gs_error *error) {
    gs_ptx_entries entries;
    gs_code code = GS_OK;
    compiled->symbols = calloc(request->kernel_count + 1, sizeof *compiled->symbols);
    if (!compiled->symbols || !gs_ptx_entries_list(compiled->text, &entries))
        return gs_fail_memory(error);
    for (size_t i = 0; i < request->kernel_count && code == GS_OK; i++) {
        int number = find_instance(&entries, request->kernels[i]);
        if (number < 0)
            code = no_kernel(request, &entries, request->kernels[i], number == -2, error);
        else if (!(compiled->symbols[compiled->count++] = strdup(entries.data[number])))
            code = gs_fail_memory(error);
    }
    gs_ptx_entries_free(&entries);
    return code;
}

/* An error in a line that uses an instance is about the kernel of that line. NVRTC does not name the kernel. */
static void name_the_kernel(const gs_ptx_source_request *request, gs_error *error) {
    bool is_ours = strcmp(error->file, NAMES_FILE) == 0, is_known = request->kernel_count == 1;
    size_t number = is_ours && error->line > 0 ? (size_t)error->line - 1 : 0;
    if ((!is_ours && strcmp(error->file, NVRTC_NAMES) != 0) || number >= request->kernel_count)
        return;
    char reason[200];
    snprintf(reason, sizeof reason, "%.199s", error->message);
    gs_fail(error, GS_E_KERNEL, "no kernel %.80s: %s", is_ours || is_known ? request->kernels[number] : "of this name",
            reason);
    snprintf(error->file, sizeof error->file, "%s", request->file);
}

static gs_ptx_attempt try_compiler(const gs_ptx_compiler *compiler, const gs_ptx_source_request *request,
                                   gs_ptx_compiled *compiled, gs_error *error) {
    char *text = text_with_instances(request, compiler->has_names);
    gs_ptx_attempt attempt = GS_PTX_REFUSED;
    if (text)
        attempt = compiler->compile(request, text, compiled, error);
    else
        gs_fail_memory(error);
    free(text);
    if (attempt == GS_PTX_COMPILED) {
        compiled->compiler = compiler->name;
        compiled->size = strlen(compiled->text);
        if (!compiler->has_names && find_symbols(request, compiled, error) != GS_OK) {
            gs_ptx_compiled_free(compiled);
            return GS_PTX_REFUSED;
        }
    } else if (attempt == GS_PTX_REFUSED) {
        name_the_kernel(request, error);
    }
    return attempt;
}

static const gs_ptx_compiler *find_compiler(const char *name) {
    for (size_t i = 0; i < gs_ptx_compiler_count; i++)
        if (strcmp(gs_ptx_compilers[i].name, name) == 0)
            return &gs_ptx_compilers[i];
    return NULL;
}

/* Compiles with the compiler that was requested. */
static gs_code compile_by(const char *name, const gs_ptx_source_request *request, gs_ptx_compiled *compiled,
                          gs_error *error) {
    const gs_ptx_compiler *compiler = find_compiler(name);
    if (!compiler)
        return gs_fail(error, GS_E_USAGE, "unknown compiler \"%.40s\"; it must be nvcc, nvrtc or clang", name);
    gs_ptx_attempt attempt = try_compiler(compiler, request, compiled, error);
    if (attempt == GS_PTX_NO_COMPILER)
        return gs_fail(error, GS_E_UNSUPPORTED, "the compiler %s was not found", name);
    return attempt == GS_PTX_COMPILED ? GS_OK : error->code;
}

static gs_code compile_by_any(const gs_ptx_source_request *request, gs_ptx_compiled *compiled, gs_error *error) {
    gs_error first = {.code = GS_OK};
    gs_text tried = {0};
    gs_ptx_attempt attempt = GS_PTX_NO_COMPILER;
    for (size_t i = 0; i < gs_ptx_compiler_count && attempt != GS_PTX_COMPILED; i++) {
        gs_error reason = {.code = GS_OK};
        attempt = try_compiler(&gs_ptx_compilers[i], request, compiled, &reason);
        if (attempt == GS_PTX_REFUSED) {
            first = first.code == GS_OK ? reason : first;
            gs_text_add(&tried, "%s%s", tried.count ? ", " : "", gs_ptx_compilers[i].name);
        }
    }
    if (attempt != GS_PTX_COMPILED && first.code == GS_OK) {
        gs_fail(&first, GS_E_UNSUPPORTED,
                "no compiler for CUDA sources was found: nvcc, NVRTC (libnvrtc.so) or clang++");
    } else if (attempt != GS_PTX_COMPILED && tried.count) {
        size_t length = strlen(first.message);
        snprintf(first.message + length, sizeof first.message - length, " (tried: %s)", tried.data);
    }
    gs_text_free(&tried);
    if (attempt == GS_PTX_COMPILED)
        return GS_OK;
    *error = first;
    return first.code;
}

gs_code gs_ptx_from_source(const gs_ptx_source_request *request, gs_ptx_compiled *compiled, gs_error *error) {
    const char *wish = getenv("GRIDSMITH_COMPILER"), *name = request->compiler ? request->compiler : wish;
    gs_error ignored;
    error = error ? error : &ignored;
    *compiled = (gs_ptx_compiled){0};
    return name && name[0] ? compile_by(name, request, compiled, error) : compile_by_any(request, compiled, error);
}
