/*
 * ptx_file.c: the kernels of a file as PTX. The file is PTX, contains PTX, or is a CUDA source, which is compiled.
 */
#include "forms.h"

#include <limits.h>
#include <stdlib.h>

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static bool is_source(const char *path) {
    static const char *const ends[] = {".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp"};
    for (size_t i = 0; i < GS_COUNT(ends); i++)
        if (ends_with(path, ends[i]))
            return true;
    return false;
}

/* Reads a text as the next module. `name` is copied. */
static gs_code add_module(gs_ptx_file *file, const char *name, const char *text, size_t size, gs_error *error) {
    if (!GS_RESERVE(file, 1))
        return gs_fail_memory(error);
    struct gs_ptx_file_module *added = &file->data[file->count];
    *added = (struct gs_ptx_file_module){.name = strdup(name)};
    if (!added->name)
        return gs_fail_memory(error);
    gs_code code = gs_ptx_read(&added->module, added->name, text, size, error);
    if (code == GS_OK)
        file->count++;
    else
        free(added->name);
    return code;
}

static gs_code compile_source(gs_ptx_file *file, const gs_ptx_file_request *request, gs_error *error) {
    char *text = NULL, name[600];
    size_t size = 0;
    bool has_instance = request->kernel && strchr(request->kernel, '<');
    gs_code code = gs_input_all(request->path, (size_t)64 << 20, &text, &size, error);
    gs_ptx_source_request source = {.file = gs_input_name(request->path),
                                    .text = text,
                                    .size = size,
                                    .kernels = &request->kernel,
                                    .kernel_count = has_instance,
                                    .options = request->options,
                                    .option_count = request->option_count,
                                    .architecture = request->architecture,
                                    .compiler = request->compiler};
    if (code == GS_OK)
        code = gs_ptx_from_source(&source, &file->compiled, error);
    free(text);
    if (code != GS_OK)
        return code;
    if (has_instance)
        snprintf(file->symbol, sizeof file->symbol, "%s", file->compiled.symbols[0]);
    snprintf(name, sizeof name, "%s (PTX of %s)", gs_input_name(request->path), file->compiled.compiler);
    return add_module(file, name, file->compiled.text, file->compiled.size, error);
}

/* Reads the best text for the GPU of each group. */
static gs_code find_modules(gs_ptx_file *file, const gs_ptx_file_request *request, gs_error *error) {
    char name[600];
    gs_code code = gs_ptx_find_in_file(request->path, &file->texts, error);
    for (size_t group = 0; code == GS_OK && group < file->texts.groups; group++) {
        const gs_ptx_text *text = gs_ptx_texts_best(&file->texts, group, request->architecture);
        if (!text && request->takes_newer)
            text = gs_ptx_texts_best(&file->texts, group, INT_MAX);
        if (!text)
            continue;
        bool is_all = text->offset == 0 && file->texts.count == 1;
        snprintf(name, sizeof name, is_all ? "%s" : "%s (PTX at byte %zu)", gs_input_name(request->path), text->offset);
        code = add_module(file, name, text->text, text->size, error);
    }
    if (code == GS_OK && !file->count)
        code = gs_fail(error, GS_E_USAGE, "%s has no PTX for sm_%d or lower", request->path, request->architecture);
    return code;
}

gs_code gs_ptx_file_open(gs_ptx_file *file, const gs_ptx_file_request *request, gs_error *error) {
    *file = (gs_ptx_file){.count = 0};
    gs_code code = GS_OK;
    if (is_source(request->path))
        code = compile_source(file, request, error);
    else if (request->option_count || request->compiler)
        code = gs_fail(error, GS_E_USAGE, "%s a CUDA source, but %s is not one",
                       request->compiler ? "--compiler needs" : "compiler options need", request->path);
    else
        code = find_modules(file, request, error);
    if (code != GS_OK)
        gs_ptx_file_free(file);
    return code;
}

void gs_ptx_file_free(gs_ptx_file *file) {
    for (size_t i = 0; i < file->count; i++) {
        gs_ptx_free(&file->data[i].module);
        free(file->data[i].name);
    }
    free(file->data);
    gs_ptx_texts_free(&file->texts);
    gs_ptx_compiled_free(&file->compiled);
    *file = (gs_ptx_file){.count = 0};
}

/* ---- finding a kernel ---- */

/* All kernels of the file: their symbols, and where they are. */
struct kernels {
    gs_ptx_entries entries;
    GS_PTX_LIST_OF(gs_ptx_place) places;
};

static bool add_kernel(struct kernels *kernels, const gs_ptx_module *module, uint32_t function) {
    char symbol[GS_PTX_SYMBOL_MOST];
    if (!GS_RESERVE(&kernels->entries, 1) || !GS_RESERVE(&kernels->places, 1))
        return false;
    gs_ptx_token_text(module, module->functions.data[function].name, symbol, sizeof symbol);
    char *copy = strdup(symbol);
    if (!copy)
        return false;
    kernels->entries.data[kernels->entries.count++] = copy;
    kernels->places.data[kernels->places.count++] = (gs_ptx_place){module, function};
    return true;
}

static bool collect_kernels(const gs_ptx_file *file, struct kernels *kernels) {
    for (size_t m = 0; m < file->count; m++)
        for (uint32_t i = 0; i < file->data[m].module.functions.count; i++) {
            const gs_ptx_function *function = &file->data[m].module.functions.data[i];
            if (function->is_entry && function->is_defined && !add_kernel(kernels, &file->data[m].module, i))
                return false;
        }
    return true;
}

/* Fails because a kernel was not found. A template has a kernel in the PTX only if the source uses it. */
static gs_code fail_kernel(const gs_ptx_file *file, const gs_ptx_entries *entries, const char *kernel, bool is_several,
                           gs_error *error) {
    if (is_several)
        return gs_fail(error, GS_E_USAGE,
                       "%s matches several kernels of the file; 'gridsmith reshape --list' shows their names", kernel);
    bool may_be_template = file->compiled.text && !strchr(kernel, '<');
    gs_similar similar = {.word = kernel};
    for (size_t i = 0; i < entries->count; i++)
        gs_similar_try(&similar, entries->data[i]);
    return gs_fail(error, GS_E_USAGE, "the file has no kernel %s%s%s; 'gridsmith reshape --list' shows its kernels",
                   kernel, gs_similar_words(&similar),
                   may_be_template ? " (of a template, name an instance, such as 'reduce<256>')" : "");
}

gs_code gs_ptx_file_find(const gs_ptx_file *file, const char *kernel, gs_ptx_place *place, gs_error *error) {
    struct kernels kernels = {.entries = {.count = 0}};
    gs_code code = collect_kernels(file, &kernels) ? GS_OK : gs_fail_memory(error);
    int number = code == GS_OK ? gs_ptx_entries_find(&kernels.entries, file->symbol[0] ? file->symbol : kernel) : -1;
    if (number >= 0)
        *place = kernels.places.data[number];
    else if (code == GS_OK)
        code = fail_kernel(file, &kernels.entries, kernel, number == -2, error);
    gs_ptx_entries_free(&kernels.entries);
    free(kernels.places.data);
    return code;
}

/* ---- a list of all kernels ---- */

static void list_form(gs_writer *writer, const gs_ptx_place *place, gs_ptx_options options, enum gs_form form,
                      gs_ptx_list_counts *counts) {
    gs_ptx_form made = {.exited_threads_wait = false};
    gs_error error = {.code = GS_OK};
    char words[sizeof error.message + sizeof error.file + 64];
    options.form = form;
    gs_code code = gs_ptx_reshape(place->module, place->function, &options, NULL, &made, &error);
    gs_write_object(writer, gs_form_name(form));
    gs_write_bool(writer, "accepted", code == GS_OK);
    if (code == GS_OK) {
        gs_write_bool(writer, "needs_whole_rows", made.needs_whole_rows);
        gs_write_bool(writer, "needs_one_row", made.needs_one_row);
        gs_write_bool(writer, "needs_one_layer", made.needs_one_layer);
        gs_write_bool(writer, "needs_queue", made.needs_queue);
        gs_write_int(writer, "most_blocks", made.most_blocks);
        gs_write_int(writer, "needs_shared", made.needs_shared);
    } else {
        gs_write_string(writer, "reason", gs_error_text(&error, words, sizeof words));
        gs_write_int(writer, "line", error.line);
        gs_write_int(writer, "column", error.column);
    }
    gs_write_end(writer);
    counts->accepted[form] += code == GS_OK;
}

static void list_kernel(gs_writer *writer, const gs_ptx_place *place, const gs_ptx_options *options,
                        gs_ptx_list_counts *counts) {
    const gs_ptx_function *function = &place->module->functions.data[place->function];
    char symbol[GS_PTX_SYMBOL_MOST];
    gs_ptx_token_text(place->module, function->name, symbol, sizeof symbol);
    char *name = gs_demangle(symbol, 0);
    counts->kernels++;
    gs_write_object(writer, NULL);
    gs_write_string(writer, "kernel", symbol);
    gs_write_string(writer, "name", name ? name : symbol);
    gs_write_string(writer, "module", place->module->name);
    list_form(writer, place, *options, GS_FORM_PERSISTENT, counts);
    list_form(writer, place, *options, GS_FORM_CONFINED, counts);
    gs_write_end(writer);
    free(name);
}

gs_code gs_ptx_file_list(const gs_ptx_file *file, const char *path, const gs_ptx_options *options, gs_text *into,
                         gs_ptx_list_counts *counts, gs_error *error) {
    gs_writer writer = gs_writer_to(into);
    *counts = (gs_ptx_list_counts){.kernels = 0};
    gs_write_document(&writer, "gridsmith.reshape/2");
    gs_write_string(&writer, "file", path);
    gs_write_array(&writer, "kernels");
    for (size_t m = 0; m < file->count; m++)
        for (uint32_t i = 0; i < file->data[m].module.functions.count; i++) {
            const gs_ptx_place place = {&file->data[m].module, i};
            const gs_ptx_function *function = &place.module->functions.data[i];
            if (function->is_entry && function->is_defined)
                list_kernel(&writer, &place, options, counts);
        }
    gs_write_finish(&writer);
    return into->failed ? gs_fail_memory(error) : GS_OK;
}
