/*
 * ptx_file.c: the kernels of a file as PTX, whatever the file is: PTX, something that contains PTX, or a CUDA source,
 * which is compiled.
 */
#include "reshape.h"

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

/* Of each group the text that suits the GPU best. */
static gs_code find_modules(gs_ptx_file *file, const gs_ptx_file_request *request, gs_error *error) {
    char name[600];
    gs_code code = gs_ptx_find_in_file(request->path, &file->texts, error);
    for (size_t group = 0; code == GS_OK && group < file->texts.groups; group++) {
        const gs_ptx_text *text = gs_ptx_texts_best(&file->texts, group, request->architecture);
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
    else if (request->option_count)
        code = gs_fail(error, GS_E_USAGE, "options for a compiler are for CUDA sources, and %s is none", request->path);
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

static bool is_named(const gs_ptx_module *module, const gs_ptx_function *function, const char *name) {
    char symbol[GS_PTX_SYMBOL_MOST];
    gs_ptx_token_text(module, function->name, symbol, sizeof symbol);
    if (strcmp(symbol, name) == 0)
        return true;
    static const unsigned ways[] = {GS_PTX_NAME_ALONE, 0, GS_PTX_NAME_RETURN};
    for (size_t i = 0; i < GS_COUNT(ways); i++) {
        char *plain = gs_ptx_demangle(symbol, ways[i]);
        size_t length = plain ? strcspn(plain, "<(") : 0;
        bool is_it = plain && (strcmp(plain, name) == 0 || (strlen(name) == length && !strncmp(plain, name, length)));
        free(plain);
        if (is_it)
            return true;
    }
    return false;
}

gs_code gs_ptx_file_find(const gs_ptx_file *file, const char *kernel, gs_ptx_place *place, gs_error *error) {
    const char *wanted = file->symbol[0] ? file->symbol : kernel;
    size_t found = 0;
    for (size_t m = 0; m < file->count; m++)
        for (uint32_t i = 0; i < file->data[m].module.functions.count; i++) {
            const gs_ptx_module *module = &file->data[m].module;
            const gs_ptx_function *function = &module->functions.data[i];
            if (!function->is_entry || !function->is_defined || !is_named(module, function, wanted))
                continue;
            if (gs_ptx_token_is(module, function->name, wanted)) { /* its symbol: there is no doubt */
                *place = (gs_ptx_place){module, i};
                return GS_OK;
            }
            if (found++ == 0)
                *place = (gs_ptx_place){module, i};
        }
    if (found == 1)
        return GS_OK;
    return gs_fail(error, GS_E_USAGE,
                   found ? "%s means %zu kernels of the file; 'gridsmith reshape --list' shows their names"
                         : "the file has no kernel %s; 'gridsmith reshape --list' shows what it has",
                   kernel, found);
}

/* ---- a list of all kernels ---- */

static void list_form(gs_writer *writer, const gs_ptx_place *place, gs_ptx_options options, enum gs_form form,
                      gs_ptx_list_counts *counts) {
    gs_ptx_form made = {.has_ghosts = false};
    gs_error error = {.code = GS_OK};
    char words[sizeof error.message + sizeof error.file + 64];
    options.form = form;
    gs_code code = gs_ptx_reshape(place->module, place->function, &options, NULL, &made, &error);
    gs_write_object(writer, gs_form_name(form));
    gs_write_bool(writer, "accepted", code == GS_OK);
    if (code == GS_OK) {
        gs_write_bool(writer, "needs_whole_rows", made.needs_whole_rows);
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
    char *name = gs_ptx_demangle(symbol, 0);
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
