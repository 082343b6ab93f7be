/*
 * subject_text.c: a kernel named by a user, as an instance with inputs; and its PTX in each form.
 *
 * A user's kernel and its launch file become an instance like those of the zoo, with one launch. Halves and quarters of
 * blocks are made from sources (gs_elastic_guess), for the zoo with a guess known to be right. They are compiled to
 * PTX, which is reshaped like the rest.
 */
#include "subject.h"

enum { ARCHITECTURE = 90 };

/* ---- instances ---- */

static gs_code make_zoo(gs_subject *subject, gs_error *error) {
    const gs_zoo_kernel *kernel = gs_zoo_find(subject->source.zoo);
    const gs_zoo_size *size = kernel ? gs_zoo_size_find(kernel, subject->source.size) : NULL;
    if (!size)
        return gs_fail(error, GS_E_USAGE, "the zoo has no kernel %s of size %s", subject->source.zoo,
                       subject->source.size);
    return gs_zoo_instance_make(&subject->instance, kernel, size, error);
}

static gs_code make_from_file(gs_subject *subject, gs_error *error) {
    const gs_kernel_source *source = &subject->source;
    gs_launch_file *launch = gs_launch_open(source->launch, error);
    if (!launch)
        return error->code;
    subject->instance = (gs_zoo_instance){0};
    gs_code code = gs_zoo_launch_add_file(&subject->instance, source->file, source->kernel, launch, true, error);
    gs_launch_free(launch);
    gs_ptx_file_request request = {.path = source->file,
                                   .kernel = source->kernel[0] ? source->kernel : NULL,
                                   .architecture = gs_cuda_architecture(ARCHITECTURE)};
    if (code == GS_OK)
        code = gs_ptx_file_open(&subject->file, &request, error);
    if (code != GS_OK)
        return code;
    return gs_ptx_file_find(&subject->file, source->kernel, &subject->place, error);
}

gs_code gs_subject_make_instance(gs_subject *subject, gs_error *error) {
    return subject->source.kind == GS_SOURCE_FILE ? make_from_file(subject, error) : make_zoo(subject, error);
}

/* ---- texts ---- */

/* The PTX of the kernel, as written or confined. */
static gs_code put_form(const gs_ptx_place *place, bool is_confined, uint32_t registers, gs_zoo_part *part,
                        gs_error *error) {
    const gs_ptx_module *module = place->module;
    gs_ptx_options options = {.form = GS_FORM_CONFINED, .max_registers = registers};
    gs_text_put(&part->text, module->text, module->size);
    part->max_registers = registers;
    if (!is_confined) {
        gs_ptx_token_text(module, module->functions.data[place->function].name, part->name, sizeof part->name);
        return part->text.failed ? gs_fail_memory(error) : GS_OK;
    }
    gs_ptx_form_symbol(module, place->function, GS_FORM_CONFINED, part->name, sizeof part->name);
    gs_code code = gs_ptx_reshape(module, place->function, &options, &part->text, NULL, error);
    return code == GS_OK && part->text.failed ? gs_fail_memory(error) : code;
}

/* A half or a quarter of the threads, of a kernel of the zoo. `part` has the changes of its launches. */
static gs_code make_elastic(gs_subject *subject, size_t kind, uint32_t factor, uint32_t registers, gs_zoo_part *part,
                            gs_error *error) {
    const gs_zoo_kind *requested = &subject->instance.kinds[kind];
    const gs_zoo_kernel *owner = gs_zoo_find(requested->source);
    gs_zoo_form form = {.form = GS_FORM_ELASTIC, .factor = factor};
    gs_zoo_part made;
    bool is_possible = owner && !owner->is_assembly;
    gs_code code = is_possible
                       ? gs_zoo_part_make(&made, &subject->instance, kind, &form, owner->elastic[factor / 4], error)
                       : gs_fail(error, GS_E_REFUSED, "%s has no elastic form", requested->kernel);
    if (code != GS_OK)
        return code;
    const char *kernels[] = {made.name};
    gs_ptx_source_request request = {.file = "elastic.cu",
                                     .text = made.text.data,
                                     .size = made.text.count,
                                     .kernels = kernels,
                                     .kernel_count = 1,
                                     .architecture = ARCHITECTURE,
                                     .compiler = "nvrtc"};
    gs_ptx_compiled compiled;
    gs_ptx_module module;
    memcpy(part->divide_block, made.divide_block, sizeof part->divide_block);
    memcpy(part->multiply_grid, made.multiply_grid, sizeof part->multiply_grid);
    part->divide_shared = made.divide_shared;
    code = gs_ptx_from_source(&request, &compiled, error);
    gs_zoo_part_free(&made);
    if (code != GS_OK)
        return code;
    code = gs_ptx_read(&module, "elastic.ptx", compiled.text, compiled.size, error);
    if (code == GS_OK) {
        gs_ptx_place place = {&module, gs_ptx_find_entry(&module, compiled.symbols[0])};
        code = put_form(&place, true, registers, part, error);
        gs_ptx_free(&module);
    }
    gs_ptx_compiled_free(&compiled);
    return code;
}

gs_code gs_subject_make_text(gs_subject *subject, size_t kind, int32_t form, uint32_t registers, gs_zoo_part *part,
                             gs_error *error) {
    gs_zoo_form wanted = {.form = form < 0 ? GS_FORM_ORIGINAL : GS_FORM_CONFINED, .max_registers = registers};
    bool is_file = subject->source.kind == GS_SOURCE_FILE;
    *part = (gs_zoo_part){.divide_block = {1, 1, 1}, .multiply_grid = {1, 1, 1}, .divide_shared = 1};
    if (form > 0 && (is_file || !subject->source.is_elastic))
        return gs_fail(error, GS_E_REFUSED, "it has no elastic form");
    if (form > 0)
        return make_elastic(subject, kind, 1u << form, registers, part, error);
    if (is_file)
        return put_form(&subject->place, form == 0, registers, part, error);
    return gs_zoo_part_make(part, &subject->instance, kind, &wanted, 0, error);
}
