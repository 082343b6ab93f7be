/*
 * subject_text.c: the PTX of a kernel in a form, of the zoo or of a user's file.
 */
#include "subject.h"

static gs_code make_zoo(gs_subject *subject, gs_error *error) {
    const gs_zoo_kernel *kernel = gs_zoo_find(subject->source.name);
    const gs_zoo_size *size = kernel ? gs_zoo_size_find(kernel, subject->source.size) : NULL;
    if (!size)
        return gs_fail(error, GS_E_USAGE, "there is no kernel %s of size %s in the zoo", subject->source.name,
                       subject->source.size);
    return gs_zoo_instance_make(&subject->instance, kernel, size, error);
}

gs_code gs_subject_make_instance(gs_subject *subject, gs_error *error) {
    return make_zoo(subject, error);
}

gs_code gs_subject_make_text(gs_subject *subject, size_t kind, int32_t form, uint32_t registers, gs_zoo_part *part,
                             gs_error *error) {
    gs_zoo_form wanted = {.form = form < 0 ? GS_FORM_ORIGINAL : GS_FORM_CONFINED, .max_registers = registers};
    if (form > 0)
        return gs_fail(error, GS_E_REFUSED, "there is no such form");
    return gs_zoo_part_make(part, &subject->instance, kind, &wanted, 0, error);
}
