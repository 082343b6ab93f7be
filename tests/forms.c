/*
 * forms.c: many small kernels in all forms, run on the CPU and compared.
 *
 * All kernels are in three modules, one for each form, and each kernel is in a namespace of its own: so the C++
 * compiler runs three times, not two hundred times. GRIDSMITH_ON=cuda runs them on a GPU.
 */
#include "test.h"

#include "forms.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_KERNELS = 400 };

static const formed *at(const formed *first, size_t stride, size_t index) {
    return (const formed *)(const void *)((const char *)first + index * stride);
}

/* All kernels in one source, each in a namespace. Macros that one defines are undefined for the next. */
void forms_put_all(const formed *first, size_t stride, size_t count, int form, gs_text *into) {
    static const char *const guards[] = {"WORKER", "PERSISTENT", "CONFINED", "MARK", "BLOCK", "LANES", "SYNC"};
    for (size_t i = 0; i < count; i++) {
        const formed *it = at(first, stride, i);
        if (it->is_left_out)
            continue;
        gs_text_add(into, "namespace %s {\n", it->name);
        gs_text_put(into, it->text[form].data, it->text[form].count);
        gs_text_add(into, "\n}\n");
        for (size_t k = 0; k < GS_COUNT(guards); k++)
            gs_text_add(into, "#undef GRIDSMITH_%s\n", guards[k]);
    }
}

/* extern "C" kernels have their plain name in every namespace. */
static void name_in_module(const formed *it, const char *kernel, char *into, size_t size) {
    snprintf(into, size, "%.79s::%.99s", it->name, kernel);
}

struct modules {
    gs_executor *executor;
    void *modules[FORMS];
    char names[MOST_KERNELS][200];
    const char *kernels[MOST_KERNELS];
    size_t count;
};

static const char *where(void) {
    const char *on = getenv("GRIDSMITH_ON");
    return on && on[0] ? on : "host";
}

/* The GPU of the pretended driver is a CPU. */
bool forms_run_on_cuda(void) {
    return strncmp(where(), "cuda", 4) == 0 && !getenv("GRIDSMITH_FAKE");
}

static void compile_all(struct modules *all, const formed *first, size_t stride, size_t count) {
    char folder[300];
    const char *options[] = {"-DGRIDSMITH_MARKS", "-O0", folder};
    gs_error error;
    snprintf(folder, sizeof folder, "-I%s", test_path("tests/traps"));
    all->executor = gs_executor_open(where(), &error);
    if (!all->executor)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < count; i++) {
        const formed *it = at(first, stride, i);
        for (int k = 0; k < (it->other[0] ? 2 : 1) && !it->is_left_out; k++) {
            assert_true(all->count < MOST_KERNELS);
            all->kernels[all->count] = all->names[all->count];
            name_in_module(it, k ? it->other : it->kernel, all->names[all->count], 200);
            all->count++;
        }
    }
    for (int form = 0; form < FORMS; form++) {
        gs_text text = {0};
        forms_put_all(first, stride, count, form, &text);
        gs_build build = {.name = "forms",
                          .text = text.data,
                          .size = text.count,
                          .kernels = all->kernels,
                          .kernel_count = all->count,
                          .options = options,
                          .option_count = GS_COUNT(options)};
        all->modules[form] = all->executor->ops->compile(all->executor, &build, &error);
        if (!all->modules[form])
            fail_msg("%s", error.message);
        gs_text_free(&text);
    }
}

static void run_form(const formed *it, const char *kernel, gs_verify_run *reshaped, int form, enum gs_form as) {
    gs_error error;
    name_in_module(it, kernel, reshaped->variant->kernel, sizeof reshaped->variant->kernel);
    reshaped->variant->form = as;
    if (gs_verify_run_execute(reshaped, &error) != GS_OK)
        fail_msg("%s, %s in the %s module: %s:%ld: %s", it->name, kernel, gs_form_name(form), error.file, error.line,
                 error.message);
}

static void compare(const formed *it, const gs_verify_run *original, const gs_verify_run *reshaped, enum gs_form form) {
    gs_error reason;
    size_t argument, element;
    if (!gs_verify_runs_agree(original, reshaped, 0, &reason, &argument, &element))
        fail_msg("%s as %s, %u worker blocks, %u stops: %s", it->name, gs_form_name(form), reshaped->options->workers,
                 reshaped->options->stops, reason.message);
    for (uint64_t i = 0; i < reshaped->blocks && reshaped->marks; i++)
        if (reshaped->marks[i] != 1)
            fail_msg("%s as %s: block %llu ran %u times", it->name, gs_form_name(form), (unsigned long long)i,
                     reshaped->marks[i]);
}

static void check_one(const struct modules *all, const formed *it) {
    static const struct {
        int form;
        uint32_t workers, task_blocks, stops;
    } ways[] = {{GS_FORM_PERSISTENT, 1, 0, 0}, {GS_FORM_PERSISTENT, 5, 0, 0}, {GS_FORM_PERSISTENT, 200, 0, 0},
                {GS_FORM_CONFINED, 3, 1, 0},   {GS_FORM_CONFINED, 0, 2, 4},   {GS_FORM_CONFINED, 0, 10, 2}};
    gs_verify_options plain = {.seconds = 60};
    gs_variant variants[2] = {gs_variant_original(it->launch, ""), gs_variant_original(it->launch, "")};
    gs_verify_run original = {.executor = all->executor,
                              .launch = it->launch,
                              .options = &plain,
                              .variant = &variants[0],
                              .module = all->modules[GS_FORM_ORIGINAL]};
    gs_verify_run reshaped = original;
    reshaped.variant = &variants[1];
    run_form(it, it->kernel, &original, GS_FORM_ORIGINAL, GS_FORM_ORIGINAL);
    for (size_t i = 0; i < GS_COUNT(ways); i++) {
        gs_verify_options options = {.seconds = 60,
                                     .workers = ways[i].workers,
                                     .task_blocks = ways[i].task_blocks,
                                     .stops = ways[i].stops,
                                     .seed = i};
        reshaped.options = &options;
        reshaped.backwards = i % 2;
        reshaped.module = all->modules[ways[i].form];
        run_form(it, it->kernel, &reshaped, ways[i].form, (enum gs_form)ways[i].form);
        compare(it, &original, &reshaped, (enum gs_form)ways[i].form);
    }
    reshaped.options = &plain;
    for (int form = GS_FORM_PERSISTENT; form < FORMS && it->other[0]; form++) {
        run_form(it, it->other, &original, GS_FORM_ORIGINAL, GS_FORM_ORIGINAL);
        reshaped.module = all->modules[form];
        run_form(it, it->other, &reshaped, form, GS_FORM_ORIGINAL);
        compare(it, &original, &reshaped, GS_FORM_ORIGINAL);
    }
    gs_verify_run_free(&original);
    gs_verify_run_free(&reshaped);
}

void forms_check(const formed *first, size_t stride, size_t count) {
    static struct modules all;
    all = (struct modules){.count = 0};
    compile_all(&all, first, stride, count);
    for (size_t i = 0; i < count; i++)
        if (!at(first, stride, i)->is_left_out)
            check_one(&all, at(first, stride, i));
    gs_executor_close(all.executor);
}

void forms_free(formed *it) {
    gs_launch_free(it->launch);
    for (int form = 0; form < FORMS; form++)
        gs_text_free(&it->text[form]);
}
