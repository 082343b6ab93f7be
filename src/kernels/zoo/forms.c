/*
 * forms.c: reshapes and compiles the kernels of an instance, and determines their cost.
 *
 * The kernels are compiled into the library, as CUDA C and as PTX, which is compressed until it is asked for. A part is
 * one kernel in one form. An instance that calls two kernels has two parts, each with a program of its own.
 */
#include "zoo_kernels.h"

#include <string.h>

/* Appends the PTX of a source. */
static gs_code expand_ptx(const char *source, gs_text *text, gs_error *error) {
    char name[100];
    snprintf(name, sizeof name, "%s.ptx.gz", source);
    const gs_embedded_file *file = gs_embedded_find(&gs_zoo_files, name);
    return file ? gs_gunzip(file->bytes, file->count, GS_PTX_TEXT_MOST, text, error)
                : gs_fail(error, GS_E_USAGE, "there is no %s.ptx in the zoo", source);
}

/* ---- reshaping ---- */

static gs_code make_elastic(gs_zoo_part *part, const gs_source *source, const gs_zoo_launch *launch, uint32_t factor,
                            uint32_t guess, gs_error *error) {
    gs_variant variant = {.shared_bytes = launch->shared_bytes};
    memcpy(variant.kernel, part->name, sizeof variant.kernel);
    memcpy(variant.grid, launch->grid, sizeof variant.grid);
    memcpy(variant.block, launch->block, sizeof variant.block);
    if (!gs_elastic_guess(source, factor, guess, &variant))
        return gs_fail(error, GS_E_REFUSED, "no such elastic guess");
    part->text = variant.text;
    memcpy(part->name, variant.kernel, sizeof part->name);
    memcpy(part->words, variant.words, sizeof part->words);
    for (int i = 0; i < 3; i++) {
        part->divide_block[i] = launch->block[i] / variant.block[i];
        part->multiply_grid[i] = variant.grid[i] / launch->grid[i];
    }
    part->divide_shared = variant.shared_bytes ? (uint32_t)(launch->shared_bytes / variant.shared_bytes) : 1;
    return GS_OK;
}

static gs_code make_from_source(gs_zoo_part *part, const gs_zoo_instance *instance, size_t kind,
                                const gs_zoo_form *form, uint32_t guess, gs_error *error) {
    const gs_zoo_kind *requested = &instance->kinds[kind];
    gs_source source;
    char name[100];
    if (gs_zoo_find(requested->source)->is_assembly)
        return gs_fail(error, GS_E_REFUSED, "%s.cu has inline assembly, whose constants cannot be guessed",
                       requested->source);
    snprintf(name, sizeof name, "%s.cu", requested->source);
    snprintf(part->name, sizeof part->name, "%s", requested->kernel);
    const gs_embedded_file *file = gs_embedded_find(&gs_zoo_files, name);
    gs_code code = file ? gs_source_read(&source, name, file->bytes, file->count, error)
                        : gs_fail(error, GS_E_USAGE, "there is no %s in the zoo", name);
    if (code != GS_OK)
        return code;
    code = make_elastic(part, &source, gs_zoo_launch_first(instance, kind), form->factor, guess, error);
    gs_source_free(&source);
    return code;
}

/* Reads the PTX of a kernel into `text`, which the module keeps, and finds the kernel there. The caller frees the text,
   and the module if the code is GS_OK. */
static gs_code read_ptx(const gs_zoo_kind *kind, gs_text *text, gs_ptx_module *module, uint32_t *function,
                        gs_error *error) {
    gs_code code = expand_ptx(kind->source, text, error);
    if (code == GS_OK)
        code = gs_ptx_read(module, kind->source, text->data, text->count, error);
    if (code != GS_OK)
        return code;
    gs_ptx_entries entries = {0};
    int number = gs_ptx_entries_list(text->data, &entries) ? gs_ptx_entries_find(&entries, kind->kernel) : -1;
    *function = number >= 0 ? gs_ptx_find_entry(module, entries.data[number]) : GS_PTX_NONE;
    gs_ptx_entries_free(&entries);
    if (*function != GS_PTX_NONE)
        return GS_OK;
    gs_ptx_free(module);
    return gs_fail(error, GS_E_USAGE, "%s.ptx has no kernel %s", kind->source, kind->kernel);
}

static gs_code make_from_ptx(gs_zoo_part *part, const gs_zoo_kind *kind, const gs_zoo_form *form, gs_error *error) {
    gs_ptx_options options = {
        .form = form->form, .counts_blocks = form->counts_blocks, .max_registers = form->max_registers};
    gs_ptx_form made = {.needs_queue = false};
    gs_text text = {0};
    gs_ptx_module module;
    uint32_t function;
    gs_code code = read_ptx(kind, &text, &module, &function, error);
    if (code != GS_OK) {
        gs_text_free(&text);
        return code;
    }
    gs_text_put(&part->text, module.text, module.size);
    gs_ptx_token_text(&module, module.functions.data[function].name, part->name, sizeof part->name);
    if (form->form == GS_FORM_PERSISTENT || form->form == GS_FORM_CONFINED) {
        code = gs_ptx_reshape(&module, function, &options, &part->text, &made, error);
        part->needs_queue = made.needs_queue;
        gs_ptx_form_symbol(&module, function, form->form, part->name, sizeof part->name);
    }
    gs_ptx_free(&module);
    gs_text_free(&text);
    return code;
}

/* The PTX of a user's file, which may also be a source. */
static gs_code read_file(const gs_zoo_kind *kind, gs_text *text, char *symbol, gs_error *error) {
    enum { ARCHITECTURE = 90 };
    gs_ptx_file_request request = {
        .path = kind->source, .kernel = kind->kernel, .architecture = gs_cuda_architecture(ARCHITECTURE)};
    gs_ptx_file file;
    gs_ptx_place place;
    gs_code code = gs_ptx_file_open(&file, &request, error);
    if (code != GS_OK)
        return code;
    code = gs_ptx_file_find(&file, kind->kernel, &place, error);
    if (code == GS_OK) {
        gs_text_put(text, place.module->text, place.module->size);
        gs_ptx_token_text(place.module, place.module->functions.data[place.function].name, symbol, GS_JOB_NAME);
    }
    gs_ptx_file_free(&file);
    return code;
}

gs_code gs_zoo_ptx(const gs_zoo_kind *kind, gs_text *text, char *symbol, gs_error *error) {
    gs_ptx_module module;
    uint32_t function;
    if (kind->ptx) {
        gs_text_put(text, kind->ptx, strlen(kind->ptx));
        snprintf(symbol, GS_JOB_NAME, "%s", kind->symbol);
        return GS_OK;
    }
    if (kind->is_file)
        return read_file(kind, text, symbol, error);
    gs_code code = read_ptx(kind, text, &module, &function, error);
    if (code != GS_OK)
        return code;
    gs_ptx_token_text(&module, module.functions.data[function].name, symbol, GS_JOB_NAME);
    gs_ptx_free(&module);
    return GS_OK;
}

gs_code gs_zoo_part_make(gs_zoo_part *part, const gs_zoo_instance *instance, size_t kind, const gs_zoo_form *form,
                         uint32_t guess, gs_error *error) {
    *part = (gs_zoo_part){.divide_block = {1, 1, 1}, .multiply_grid = {1, 1, 1}, .divide_shared = 1};
    part->max_registers = form->max_registers;
    gs_code code = form->form == GS_FORM_ELASTIC ? make_from_source(part, instance, kind, form, guess, error)
                                                 : make_from_ptx(part, &instance->kinds[kind], form, error);
    if (code == GS_OK && part->text.failed)
        code = gs_fail_memory(error);
    if (code != GS_OK)
        gs_zoo_part_free(part);
    return code;
}

void gs_zoo_part_free(gs_zoo_part *part) {
    gs_text_free(&part->text);
    *part = (gs_zoo_part){.program = NULL}; /* the executor owns the program */
}

/* ---- compiling ---- */

/* `list` must outlive the build. */
static gs_build build_of(const gs_zoo_part *part, const char *file, const char **list) {
    list[0] = part->name;
    return (gs_build){.name = file,
                      .text = part->text.data,
                      .size = part->text.count,
                      .kernels = list,
                      .kernel_count = 1,
                      .max_registers = part->max_registers};
}

gs_code gs_zoo_part_compile(gs_zoo_part *part, gs_executor *executor, const char *file, gs_error *error) {
    const char *list[1];
    gs_build build = build_of(part, file, list);
    part->program = executor->ops->compile(executor, &build, error);
    return part->program ? GS_OK : error->code;
}

gs_code gs_zoo_part_cost(gs_zoo_part *part, gs_executor *executor, int architecture, const gs_zoo_instance *instance,
                         size_t kind, gs_error *error) {
    const gs_zoo_launch *launch = gs_zoo_launch_first(instance, kind);
    const char *list[1];
    uint32_t block[3];
    for (int i = 0; i < 3; i++)
        block[i] = launch->block[i] / part->divide_block[i];
    size_t shared_bytes = launch->shared_bytes / part->divide_shared;
    gs_code code = executor->ops->cost(part->program, part->name, block, shared_bytes, &part->cost, error);
    if (code != GS_OK || part->cost.registers)
        return code;
    gs_build build = build_of(part, instance->kinds[kind].source, list);
    code = gs_cubin_costs(&build, architecture, &part->cost, error);
    if (code != GS_OK)
        part->cost = (gs_cost){0};
    return code == GS_E_NO_GPU ? GS_OK : code;
}
