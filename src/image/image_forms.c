/*
 * image_forms.c: the forms of all kernels of a source: each as it was written, and confined where that can be.
 *
 * The original and each confined form are sources of their own, compiled side by side, a few at a time. A confined
 * kernel may take more registers than the original, so that fewer blocks fit on an SM. Then it is compiled once more,
 * with as many registers as the original has.
 */
#include "image_forms.h"

#include "builder.h"

#include <stdlib.h>
#include <string.h>

/* One source on its way: the original with all kernels, or a confined one. */
struct form {
    bool is_started;
    gs_text text;
    gs_build build;
    gs_module *module;  /* on the CPU */
    gs_builder builder; /* for a GPU, */
    gs_nvrtc_built built;
};

struct forms {
    const gs_forms_request *request;
    gs_source source;
    gs_image_made *made;
    char names[GS_IMAGE_KERNELS][GS_JOB_NAME];
    const char *options[GS_IMAGE_OPTIONS + 1]; /* of confined kernels: the request's, and to count blocks */
    struct form original, confined[GS_IMAGE_KERNELS], limited[GS_IMAGE_KERNELS];
};

/* ---- one form ---- */

static gs_code start_form(struct forms *forms, struct form *form, gs_error *error) {
    form->is_started = true;
    if (forms->request->architecture)
        return gs_builder_start(&form->builder, &form->build, forms->request->architecture, error);
    form->build.as_library = true;
    form->module = gs_host_compile(forms->request->host, &form->build, error);
    return form->module ? GS_OK : error->code;
}

static gs_code wait_form(struct form *form, gs_error *error) {
    if (form->module)
        return gs_module_wait(form->module, error);
    return form->builder.process ? gs_builder_finish(&form->builder, &form->built, error) : GS_OK;
}

/* Starts those of a list that have something to build, a few at a time, and waits for all. */
static gs_code build_all(struct forms *forms, struct form **list, size_t count, bool may_fail, gs_error *error) {
    gs_code code = GS_OK;
    size_t waited = 0;
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        for (; code == GS_OK && i - waited >= GS_COMPILER_BUILDS; waited++)
            code = wait_form(list[waited], error);
        code = code == GS_E_KERNEL && may_fail ? GS_OK : code;
        if (code == GS_OK)
            code = start_form(forms, list[i], error);
    }
    for (; waited < count && (code == GS_OK || (code == GS_E_KERNEL && may_fail)); waited++)
        code = wait_form(list[waited], error);
    return code == GS_E_KERNEL && may_fail ? GS_OK : code;
}

/* ---- the kernels ---- */

static gs_code find_kernels(struct forms *forms, gs_error *error) {
    gs_image_source *source = forms->request->source;
    size_t count = source->kernel_count;
    for (size_t i = 0; i < count; i++)
        snprintf(forms->names[i], GS_JOB_NAME, "%s", source->kernels[i]);
    if (!count) {
        count = gs_source_kernels(&forms->source, forms->names, GS_IMAGE_KERNELS, error);
        if (count == SIZE_MAX)
            return GS_E_USAGE;
        if (!count || count > GS_IMAGE_KERNELS)
            return gs_fail(error, GS_E_USAGE,
                           count ? "%s has more than %d kernels: name those that are needed"
                                 : "%s has no kernels that are not templates: name what is needed",
                           source->name, GS_IMAGE_KERNELS);
    }
    forms->made->kernel_count = source->kernel_count = count;
    for (size_t i = 0; i < count; i++) {
        source->kernels[i] = forms->names[i];
        memcpy(forms->made->kernels[i].kernel.name, forms->names[i], GS_JOB_NAME);
    }
    return GS_OK;
}

static void describe_original(struct forms *forms) {
    const gs_image_source *source = forms->request->source;
    forms->original.build = (gs_build){.name = source->name,
                                       .text = source->text,
                                       .size = source->size,
                                       .kernels = source->kernels,
                                       .kernel_count = source->kernel_count,
                                       .options = source->options,
                                       .option_count = source->option_count};
}

/* Reshapes a kernel, where that can be. That it cannot be is no error. */
static gs_code describe_confined(struct forms *forms, size_t number, gs_error *error) {
    const gs_image_source *source = forms->request->source;
    gs_image_kernel *kernel = &forms->made->kernels[number].kernel;
    struct form *form = &forms->confined[number];
    gs_error reason = {.code = GS_OK};
    gs_reshape_options options = {.form = GS_FORM_CONFINED, .is_alone = true};
    gs_code code = gs_reshape(&forms->source, source->kernels[number], &options, &form->text, &reason);
    if (code == GS_E_MEMORY)
        return gs_fail_memory(error);
    kernel->can_be_confined = code == GS_OK;
    if (code != GS_OK) {
        snprintf(kernel->refusal, sizeof kernel->refusal, "%s:%ld: %.150s", "line", reason.line, reason.message);
        return GS_OK;
    }
    form->build = forms->original.build;
    form->build.text = form->text.data;
    form->build.size = form->text.count;
    form->build.kernels = &source->kernels[number];
    form->build.kernel_count = 1;
    form->build.options = forms->options;
    form->build.option_count = source->option_count + forms->request->has_marks;
    return GS_OK;
}

static gs_code build_forms(struct forms *forms, gs_error *error) {
    struct form *list[GS_IMAGE_KERNELS + 1] = {&forms->original};
    size_t count = 1;
    describe_original(forms);
    for (size_t i = 0; i < forms->made->kernel_count; i++) {
        gs_code code = describe_confined(forms, i, error);
        if (code != GS_OK)
            return code;
        if (forms->made->kernels[i].kernel.can_be_confined)
            list[count++] = &forms->confined[i];
    }
    return build_all(forms, list, count, false, error);
}

/* For a GPU: compiles confined forms once more with a limit of registers, where that is needed. A function of the
   source may need more registers than the limit: then it stays without one. */
static gs_code build_limited(struct forms *forms, gs_error *error) {
    struct form *list[GS_IMAGE_KERNELS];
    size_t count = 0;
    for (size_t i = 0; i < forms->made->kernel_count; i++) {
        const struct form *confined = &forms->confined[i];
        uint32_t limit = confined->built.count ? gs_register_limit(forms->original.built.costs[i].registers,
                                                                   confined->built.costs[0].registers)
                                               : 0;
        if (!limit)
            continue;
        forms->limited[i].build = confined->build;
        forms->limited[i].build.max_registers = limit;
        list[count++] = &forms->limited[i];
    }
    gs_code code = build_all(forms, list, count, true, error);
    for (size_t i = 0; i < forms->made->kernel_count && code == GS_OK; i++)
        if (forms->limited[i].built.count)
            forms->confined[i].built = forms->limited[i].built;
    return code;
}

/* ---- the image ---- */

static gs_code add_part(gs_image_made *made, const char *bytes, size_t count, gs_error *error) {
    gs_text *part = &made->parts[made->part_count++];
    gs_text_put(part, bytes, count);
    return part->failed ? gs_fail_memory(error) : GS_OK;
}

static gs_code add_form(gs_image_made *made, const struct form *form, gs_error *error) {
    char path[400], *bytes = NULL;
    size_t count = 0;
    if (!form->module)
        return add_part(made, form->built.image, form->built.bytes, error);
    gs_code code =
        gs_input_all(gs_module_path(form->module, path, sizeof path), (size_t)GS_IMAGE_MB << 20, &bytes, &count, error);
    if (code == GS_OK)
        code = add_part(made, bytes, count, error);
    free(bytes);
    return code;
}

/* Says in `entry` where kernel number `number` of the form is. */
static gs_code set_entry(const struct form *form, uint32_t part, size_t number, gs_image_entry *entry,
                         gs_error *error) {
    const char *symbol = form->module ? form->build.kernels[number] : form->built.symbols[number];
    if (strlen(symbol) >= sizeof entry->symbol)
        return gs_fail(error, GS_E_USAGE, "the name of a kernel is too long");
    entry->part = part;
    snprintf(entry->symbol, sizeof entry->symbol, "%s", symbol);
    return GS_OK;
}

static gs_code collect_kernel(struct forms *forms, size_t number, gs_error *error) {
    gs_image_made *made = forms->made;
    gs_image_stored *stored = &made->kernels[number];
    stored->confined.part = GS_IMAGE_NO_PART;
    gs_code code = set_entry(&forms->original, 0, number, &stored->original, error);
    if (code != GS_OK || !stored->kernel.can_be_confined)
        return code;
    code = add_form(made, &forms->confined[number], error);
    return code == GS_OK
               ? set_entry(&forms->confined[number], (uint32_t)made->part_count - 1, 0, &stored->confined, error)
               : code;
}

gs_code gs_forms_compile(const gs_forms_request *request, gs_image_made *made, char *library, size_t size,
                         gs_error *error) {
    struct forms *forms = calloc(1, sizeof *forms);
    gs_image_source *source = request->source;
    if (!forms)
        return gs_fail_memory(error);
    forms->request = request;
    forms->made = made;
    memcpy(forms->options, source->options, source->option_count * sizeof *forms->options);
    forms->options[source->option_count] = "-DGRIDSMITH_MARKS";
    gs_code code = gs_source_read(&forms->source, source->name, source->text, source->size, error);
    if (code == GS_OK)
        code = find_kernels(forms, error);
    if (code == GS_OK)
        code = build_forms(forms, error);
    if (code == GS_OK && request->architecture)
        code = build_limited(forms, error);
    if (code == GS_OK)
        code = add_form(made, &forms->original, error);
    for (size_t i = 0; i < made->kernel_count && code == GS_OK; i++)
        code = collect_kernel(forms, i, error);
    snprintf(library, size, "%s", forms->original.built.library);
    return code;
}
