/*
 * run_forms.c: many small kernels in all forms, run on the CPU and compared.
 *
 * All kernels are one source, each in a namespace of its own, which clang compiles to PTX. Their forms follow in the
 * same text. So each compiler runs once, not two hundred times. GRIDSMITH_ON=cuda runs them on a GPU.
 * GRIDSMITH_ON=ptxas runs nothing: NVIDIA's assembler must take them, originals too, if it is installed. It leaks, so
 * this is not done under sanitizers.
 */
#include "test.h"

#include "kernels/ptx/ptx_input.h"
#include "run_forms.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_KERNELS = 200, FORMS = 3 /* original, persistent, confined */ };

static formed *at(const formed *first, size_t stride, size_t index) {
    return (formed *)(uintptr_t)((const char *)first + index * stride);
}

/* ---- making ---- */

void forms_put_all(const formed *first, size_t stride, size_t count, gs_text *into) {
    for (size_t i = 0; i < count; i++) {
        const formed *it = at(first, stride, i);
        if (it->is_left_out)
            continue;
        gs_text_add(into, "namespace %s {\n#line 1 \"%s\"\n", it->name, it->name);
        gs_text_put(into, it->text.data, it->text.count);
        gs_text_add(into, "\n}\n");
    }
}

/* The symbols of extern "C" have no namespaces. */
static const char *name_for_compiler(const formed *it, char *into, size_t size) {
    snprintf(into, size, "%s::%s", it->name, it->kernel);
    return strncmp(it->kernel, "extern_c_", 9) == 0 ? it->kernel : into;
}

/* A machine with a GPU may have no clang. */
static const char *compiler(void) {
    char path[1000];
    return gs_ptx_clang(path, sizeof path) ? "clang" : NULL;
}

void forms_compile(formed *first, size_t stride, size_t count, const char *folder, gs_text *ptx) {
    static char names[MOST_KERNELS][GS_JOB_NAME];
    const char *kernels[MOST_KERNELS];
    gs_text text = {0}, file = {0};
    gs_ptx_compiled compiled;
    gs_error error;
    size_t kernel_count = 0;
    forms_put_all(first, stride, count, &text);
    gs_text_add(&file, "%s/forms.cu", folder);
    for (size_t i = 0; i < count; i++)
        if (!at(first, stride, i)->is_left_out) {
            assert_true(kernel_count < MOST_KERNELS);
            kernels[kernel_count] = name_for_compiler(at(first, stride, i), names[kernel_count], sizeof names[0]);
            kernel_count++;
        }
    gs_ptx_source_request request = {.file = file.data,
                                     .text = text.data,
                                     .size = text.count,
                                     .kernels = kernels,
                                     .kernel_count = kernel_count,
                                     .architecture = 80,
                                     .compiler = compiler()};
    if (gs_ptx_from_source(&request, &compiled, &error) != GS_OK)
        fail_msg("%s:%ld: %s", error.file, error.line, error.message);
    for (size_t i = 0, k = 0; i < count; i++)
        if (!at(first, stride, i)->is_left_out)
            snprintf(at(first, stride, i)->symbol, sizeof first->symbol, "%s", compiled.symbols[k++]);
    gs_text_put(ptx, compiled.text, compiled.size);
    gs_ptx_compiled_free(&compiled);
    gs_text_free(&text);
    gs_text_free(&file);
}

static void make_one(formed *it, const gs_ptx_module *module, gs_text *into) {
    int64_t function = gs_ptx_find_function(module, it->symbol);
    size_t before = into->count;
    assert_true(function >= 0);
    it->refusal = (gs_error){.code = GS_OK};
    for (int form = GS_FORM_PERSISTENT; form < FORMS; form++) {
        gs_ptx_options options = {.form = (enum gs_form)form, .counts_blocks = true};
        gs_code code = gs_ptx_reshape(module, (uint32_t)function, &options, into, &it->made, &it->refusal);
        if (code != GS_OK && code != GS_E_REFUSED)
            fail_msg("%s: %s", it->name, it->refusal.message);
        assert_true(form == GS_FORM_PERSISTENT || (code == GS_OK) == (before != into->count));
    }
}

void forms_make(formed *first, size_t stride, size_t count, gs_text *ptx) {
    gs_ptx_module module;
    gs_text forms = {0};
    gs_error error;
    if (gs_ptx_read(&module, "forms.ptx", ptx->data, ptx->count, &error) != GS_OK)
        fail_msg("%ld: %s", error.line, error.message);
    for (size_t i = 0; i < count; i++)
        if (!at(first, stride, i)->is_left_out)
            make_one(at(first, stride, i), &module, &forms);
    gs_ptx_free(&module);
    if (forms.count)
        gs_text_put(ptx, forms.data, forms.count);
    gs_text_free(&forms);
}

/* ---- running ---- */

static const char *where(void) {
    const char *on = getenv("GRIDSMITH_ON");
    return on && on[0] ? on : "host";
}

static bool only_assembles(void) {
    return strcmp(where(), "ptxas") == 0;
}

/* The GPU of the fake driver is a CPU. */
bool forms_are_assembled(void) {
    return only_assembles() || (strncmp(where(), "cuda", 4) == 0 && !getenv("GRIDSMITH_FAKE"));
}

/* A form with masks may be launched only with rows of whole warps. */
static bool runs(const formed *it) {
    return !it->is_left_out && it->refusal.code == GS_OK &&
           (!it->made.needs_whole_rows || it->launch->block[0] % 32 == 0);
}

static void name_form(const formed *it, enum gs_form form, char *into, size_t size) {
    if (form == GS_FORM_ORIGINAL)
        snprintf(into, size, "%s", it->symbol);
    else
        assert_true((size_t)snprintf(into, size, "%s__%s", it->symbol, gs_form_name(form)) < size);
}

/* The kernels of one text that are called. */
struct kernels {
    char names[FORMS * MOST_KERNELS][GS_JOB_NAME];
    const char *list[FORMS * MOST_KERNELS];
    size_t count;
};

static char *next_name(struct kernels *kernels) {
    assert_true(kernels->count < GS_COUNT(kernels->names));
    kernels->list[kernels->count] = kernels->names[kernels->count];
    return kernels->names[kernels->count++];
}

static void *compile(gs_executor *executor, const char *name, const gs_text *text, const struct kernels *kernels) {
    char folder[300];
    const char *options[] = {"-Og", folder}; /* for kernels from PTX it is compiled sooner than -O0 */
    gs_error error;
    snprintf(folder, sizeof folder, "-I%s", test_path("tests/traps"));
    gs_build build = {.name = name,
                      .text = text->data,
                      .size = text->count,
                      .kernels = kernels->list,
                      .kernel_count = kernels->count,
                      .options = options,
                      .option_count = GS_COUNT(options)};
    void *module = executor->ops->compile(executor, &build, &error);
    if (!module)
        fail_msg("%s:%ld: %s", name, error.line, error.message);
    return module;
}

static void *compile_forms(gs_executor *executor, const formed *first, size_t stride, size_t count,
                           const gs_text *ptx) {
    static struct kernels kernels;
    kernels.count = 0;
    for (size_t i = 0; i < count; i++)
        for (int form = 0; form < FORMS && runs(at(first, stride, i)); form++)
            name_form(at(first, stride, i), (enum gs_form)form, next_name(&kernels), GS_JOB_NAME);
    return compile(executor, "forms.ptx", ptx, &kernels);
}

static void run_form(const formed *it, gs_verify_run *run, enum gs_form form) {
    gs_error error;
    run->variant->form = form;
    run->variant->needs_queue = it->made.needs_queue;
    if (gs_verify_run_execute(run, &error) != GS_OK)
        fail_msg("%s as %s: %s:%ld: %s", it->name, gs_form_name(form), error.file, error.line, error.message);
}

static void compare(const formed *it, const gs_verify_run *original, const gs_verify_run *reshaped, enum gs_form form) {
    gs_error reason;
    size_t argument, element;
    if (!gs_verify_runs_agree(original, reshaped, 0, &reason, &argument, &element))
        fail_msg("%s as %s, %u worker blocks, %u stops: %s", it->name, gs_form_name(form), reshaped->options->workers,
                 reshaped->options->stops, reason.message);
    for (uint64_t i = 0; i < reshaped->blocks && reshaped->counts; i++)
        if (reshaped->counts[i] != 1)
            fail_msg("%s as %s: block %llu ran %u times", it->name, gs_form_name(form), (unsigned long long)i,
                     reshaped->counts[i]);
}

static void check_one(const formed *it, gs_executor *executor, void *module) {
    static const struct {
        enum gs_form form;
        uint32_t workers, task_blocks, stops;
    } ways[] = {{GS_FORM_PERSISTENT, 1, 0, 0}, {GS_FORM_PERSISTENT, 5, 0, 0}, {GS_FORM_PERSISTENT, 200, 0, 0},
                {GS_FORM_CONFINED, 3, 1, 0},   {GS_FORM_CONFINED, 0, 2, 4},   {GS_FORM_CONFINED, 0, 10, 2}};
    gs_verify_options plain = {.seconds = 60};
    gs_variant variants[2] = {gs_variant_original(it->launch, ""), gs_variant_original(it->launch, "")};
    gs_verify_run original = {
        .executor = executor, .launch = it->launch, .options = &plain, .variant = &variants[0], .module = module};
    gs_verify_run reshaped = original;
    reshaped.variant = &variants[1];
    name_form(it, GS_FORM_ORIGINAL, variants[0].kernel, sizeof variants[0].kernel);
    run_form(it, &original, GS_FORM_ORIGINAL);
    for (size_t i = 0; i < GS_COUNT(ways); i++) {
        gs_verify_options options = {.seconds = 60,
                                     .workers = ways[i].workers,
                                     .task_blocks = ways[i].task_blocks,
                                     .stops = ways[i].stops,
                                     .seed = i};
        reshaped.options = &options;
        reshaped.backwards = i % 2;
        name_form(it, ways[i].form, variants[1].kernel, sizeof variants[1].kernel);
        run_form(it, &reshaped, ways[i].form);
        compare(it, &original, &reshaped, ways[i].form);
    }
    gs_verify_run_free(&original);
    gs_verify_run_free(&reshaped);
}

static void assemble(const gs_text *ptx) {
    gs_build build = {.name = "forms.ptx", .text = ptx->data, .size = ptx->count};
    gs_error error;
    gs_code code = gs_cubin_costs(&build, 90, NULL, &error);
    if (code == GS_E_NO_GPU) {
        print_message("skipped: %s\n", error.message);
        skip();
    }
    if (code != GS_OK)
        fail_msg("forms.ptx:%ld: %s", error.line, error.message);
}

void forms_check(const formed *first, size_t stride, size_t count, const gs_text *ptx) {
    gs_error error;
    if (only_assembles()) {
        assemble(ptx);
        return;
    }
    gs_executor *executor = gs_executor_open(where(), &error);
    if (!executor)
        fail_msg("%s", error.message);
    void *module = compile_forms(executor, first, stride, count, ptx);
    for (size_t i = 0; i < count; i++) {
        if (!runs(at(first, stride, i)))
            continue;
        if (forms_are_assembled()) /* so that one sees what a GPU hangs at */
            print_message("%s\n", at(first, stride, i)->name);
        check_one(at(first, stride, i), executor, module);
    }
    gs_executor_close(executor);
}

void forms_free(formed *it) {
    gs_launch_free(it->launch);
    gs_text_free(&it->text);
}
