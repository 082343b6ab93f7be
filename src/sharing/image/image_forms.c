/*
 * image_forms.c: the forms of all kernels of a source: each as written, and confined if possible.
 *
 * A client sends CUDA C++, PTX, or a file that contains PTX. All of these become PTX modules. The confined forms follow
 * the original kernels in the text of their module, so that each module is compiled once: for a GPU by ptxas, or by the
 * driver when it loads the image; for the CPU via C. A product of cuBLAS has its original only, and on a GPU no code.
 *
 * A confined kernel may use more registers than the original, so that fewer blocks fit on an SM. Then its module is
 * assembled again, limited to the registers of the original.
 */
#include "image_forms.h"

#include <stdlib.h>
#include <string.h>

/* Kernels on the CPU are compiled for this architecture, which every compiler of CUDA knows. */
enum { HOST_ARCHITECTURE = 80 };

/* A PTX module, and its compiled form. */
struct part {
    gs_ptx_module module;
    gs_ptx_entries entries;
    gs_text text;      /* the module, and the forms of its kernels */
    bool is_needed;    /* a requested kernel is in it */
    gs_module *loaded; /* on the CPU, */
    gs_cubin cubin;    /* or for a GPU; empty: the driver compiles the text */
};

/* A requested kernel. */
struct kernel {
    char symbol[GS_IMAGE_SYMBOL];
    struct part *part;
    uint32_t function;
    uint32_t max_registers; /* of its confined form */
};

struct forms {
    const gs_forms_request *request;
    gs_image_made *made;
    gs_ptx_compiled compiled;
    gs_ptx_texts texts;
    struct part *parts;
    size_t part_count;
    struct kernel kernels[GS_IMAGE_KERNELS];
    char names[GS_IMAGE_KERNELS][GS_JOB_NAME];
};

/* ---- PTX ---- */

static gs_code add_part(struct forms *forms, const char *text, size_t size, gs_error *error) {
    struct part *part = &forms->parts[forms->part_count++];
    gs_code code = gs_ptx_read(&part->module, forms->request->source->name, text, size, error);
    if (code == GS_OK && !gs_ptx_entries_list(text, &part->entries))
        code = gs_fail_memory(error);
    return code;
}

static gs_code compile_source(struct forms *forms, gs_error *error) {
    const gs_image_source *source = forms->request->source;
    int architecture = forms->request->architecture;
    gs_ptx_source_request request = {.file = source->name,
                                     .text = source->text,
                                     .size = source->size,
                                     .kernels = source->kernels,
                                     .kernel_count = source->kernel_count,
                                     .options = source->options,
                                     .option_count = source->option_count,
                                     .architecture = architecture ? architecture : HOST_ARCHITECTURE,
                                     .compiler = forms->request->compiler,
                                     .is_watched = true};
    gs_code code = gs_ptx_from_source(&request, &forms->compiled, error);
    forms->parts = calloc(1, sizeof *forms->parts);
    if (code == GS_OK)
        code =
            forms->parts ? add_part(forms, forms->compiled.text, forms->compiled.size, error) : gs_fail_memory(error);
    return code;
}

/* For each module of the file, the text that suits the GPU best. */
static gs_code find_modules(struct forms *forms, gs_error *error) {
    const gs_image_source *source = forms->request->source;
    int architecture = forms->request->architecture ? forms->request->architecture : GS_PTX_EVERY;
    gs_code code = gs_ptx_find(source->name, source->text, source->size, &forms->texts, error);
    if (code != GS_OK)
        return code;
    if (source->option_count)
        return gs_fail(error, GS_E_USAGE, "%s is PTX: options apply only to CUDA sources", source->name);
    forms->parts = calloc(forms->texts.groups + 1, sizeof *forms->parts);
    if (!forms->parts)
        return gs_fail_memory(error);
    for (size_t group = 0; group < forms->texts.groups && code == GS_OK; group++) {
        const gs_ptx_text *text = gs_ptx_texts_best(&forms->texts, group, architecture);
        if (text)
            code = add_part(forms, text->text, text->size, error);
    }
    if (code == GS_OK && !forms->part_count)
        code = gs_fail(error, GS_E_KERNEL, "%s has no PTX for sm_%d or lower", source->name, architecture);
    return code;
}

/* ---- kernels ---- */

/* A kernel has the requested name; if none was requested, its demangled name, or else its symbol. */
static gs_code name_kernels(struct forms *forms, gs_error *error) {
    gs_image_source *source = forms->request->source;
    size_t count = source->kernel_count;
    for (size_t i = 0; i < count; i++)
        snprintf(forms->names[i], GS_JOB_NAME, "%s", source->kernels[i]);
    for (size_t p = 0; p < forms->part_count && !source->kernel_count; p++)
        for (size_t i = 0; i < forms->parts[p].entries.count; i++, count++) {
            char *plain = gs_demangle(forms->parts[p].entries.data[i], GS_NAME_ALONE);
            bool is_plain = plain && strlen(plain) < GS_JOB_NAME && !strchr(plain, '<');
            if (count < GS_IMAGE_KERNELS)
                snprintf(forms->names[count], GS_JOB_NAME, "%s", is_plain ? plain : forms->parts[p].entries.data[i]);
            free(plain);
        }
    if (!count || count > GS_IMAGE_KERNELS)
        return gs_fail(error, GS_E_KERNEL,
                       count ? "%s has more than %d kernels: name the kernels to compile"
                             : "%s has only template kernels: name the instances to compile",
                       source->name, GS_IMAGE_KERNELS);
    for (size_t i = 0; i < count; i++) {
        source->kernels[i] = forms->names[i];
        memcpy(forms->made->kernels[i].kernel.name, forms->names[i], GS_JOB_NAME);
    }
    forms->made->kernel_count = source->kernel_count = count;
    return GS_OK;
}

/* Finds kernel number `number`. The compiler gives its symbol, if this kernel was requested. */
static gs_code find_kernel(struct forms *forms, size_t number, gs_error *error) {
    const char *name = forms->request->source->kernels[number];
    bool is_known = number < forms->compiled.count;
    struct kernel *kernel = &forms->kernels[number];
    for (size_t p = 0; p < forms->part_count; p++) {
        struct part *part = &forms->parts[p];
        int found = gs_ptx_entries_find(&part->entries, is_known ? forms->compiled.symbols[number] : name);
        if (found == -2)
            return gs_fail(error, GS_E_KERNEL, "%s has more than one kernel %.100s", forms->request->source->name,
                           name);
        if (found < 0)
            continue;
        if (strlen(part->entries.data[found]) >= GS_IMAGE_SYMBOL - sizeof "__confined")
            return gs_fail(error, GS_E_USAGE, "the name of a kernel is too long");
        snprintf(kernel->symbol, sizeof kernel->symbol, "%s", part->entries.data[found]);
        kernel->part = part;
        part->is_needed = true;
        kernel->function = gs_ptx_find_entry(&part->module, kernel->symbol);
        return kernel->function != GS_PTX_NONE
                   ? GS_OK
                   : gs_fail(error, GS_E_KERNEL, "the kernel %.100s is declared but not defined", kernel->symbol);
    }
    return gs_fail(error, GS_E_KERNEL, "%s has no kernel %.100s", forms->request->source->name, name);
}

/* ---- forms ---- */

/* A kernel that is a product, on the CPU as on a GPU. */
static void set_product(gs_image_stored *stored, const gs_product *product) {
    stored->product = *product;
    snprintf(stored->kernel.refusal, sizeof stored->kernel.refusal, "a product of cuBLAS has no other form");
}

/* Appends the confined form of a kernel to its module, if possible. A refusal is not an error. */
static gs_code add_confined(struct forms *forms, size_t number, gs_error *error) {
    const struct kernel *kernel = &forms->kernels[number];
    gs_image_kernel *stored = &forms->made->kernels[number].kernel;
    gs_error reason = {.code = GS_OK};
    gs_ptx_options options = {.form = GS_FORM_CONFINED,
                              .max_registers = kernel->max_registers,
                              .counts_blocks = forms->request->counts_blocks};
    size_t before = kernel->part->text.count;
    gs_code code =
        gs_ptx_reshape(&kernel->part->module, kernel->function, &options, &kernel->part->text, &stored->form, &reason);
    if (code == GS_E_MEMORY)
        return gs_fail_memory(error);
    stored->can_be_confined = code == GS_OK;
    if (code != GS_OK) {
        kernel->part->text.count = before;
        snprintf(stored->refusal, sizeof stored->refusal, "line %ld of the PTX: %.150s", reason.line, reason.message);
    }
    return GS_OK;
}

static gs_code write_texts(struct forms *forms, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t p = 0; p < forms->part_count; p++) {
        struct part *part = &forms->parts[p];
        part->text.count = 0;
        gs_text_put(&part->text, part->module.text, part->module.size);
    }
    for (size_t i = 0; i < forms->made->kernel_count && code == GS_OK; i++)
        if (forms->request->product)
            set_product(&forms->made->kernels[i], forms->request->product);
        else
            code = add_confined(forms, i, error);
    for (size_t p = 0; p < forms->part_count && code == GS_OK; p++)
        if (forms->parts[p].text.failed)
            code = gs_fail_memory(error);
    return code;
}

/* ---- compiling ---- */

/* Finds the original and, if there is one, the confined form of each kernel of a part. */
struct symbols {
    char texts[2 * GS_IMAGE_KERNELS][GS_IMAGE_SYMBOL];
    const char *list[2 * GS_IMAGE_KERNELS];
    size_t count;
};

static void list_symbols(const struct forms *forms, const struct part *part, struct symbols *symbols) {
    symbols->count = 0;
    for (size_t i = 0; i < forms->made->kernel_count; i++) {
        const struct kernel *kernel = &forms->kernels[i];
        for (int is_confined = 0; kernel->part == part && is_confined < 2; is_confined++) {
            if (is_confined && !forms->made->kernels[i].kernel.can_be_confined)
                continue;
            symbols->list[symbols->count] = symbols->texts[symbols->count];
            snprintf(symbols->texts[symbols->count++], GS_IMAGE_SYMBOL, "%s%s", kernel->symbol,
                     is_confined ? "__confined" : "");
        }
    }
}

static gs_code compile_part(struct forms *forms, struct part *part, gs_error *error) {
    struct symbols *symbols = calloc(1, sizeof *symbols);
    if (!symbols)
        return gs_fail_memory(error);
    list_symbols(forms, part, symbols);
    gs_build build = {.name = forms->request->source->name,
                      .text = part->text.data,
                      .size = part->text.count,
                      .kernels = symbols->list,
                      .kernel_count = symbols->count,
                      .as_library = true,
                      .is_watched = true};
    if (!forms->request->architecture) {
        part->loaded = gs_host_compile(forms->request->host, &build, error);
        return part->loaded ? GS_OK : error->code;
    }
    gs_cubin_free(&part->cubin);
    gs_code code = gs_cubin_make(&build, forms->request->architecture, &part->cubin, error);
    return code == GS_E_NO_GPU ? GS_OK : code;
}

/* Writes the texts of all parts, and compiles those that are needed. */
static gs_code compile_parts(struct forms *forms, gs_error *error) {
    gs_code code = write_texts(forms, error);
    for (size_t p = 0; p < forms->part_count && code == GS_OK; p++)
        if (forms->parts[p].is_needed)
            code = compile_part(forms, &forms->parts[p], error);
    for (size_t p = 0; p < forms->part_count && code == GS_OK; p++)
        if (forms->parts[p].loaded)
            code = gs_module_wait(forms->parts[p].loaded, error);
    return code;
}

static int32_t registers_of(const struct part *part, const char *symbol, const char *ending) {
    size_t length = strlen(symbol);
    for (size_t i = 0; i < part->cubin.count; i++)
        if (strncmp(part->cubin.symbols[i], symbol, length) == 0 &&
            strcmp(part->cubin.symbols[i] + length, ending) == 0)
            return part->cubin.costs[i].registers;
    return 0;
}

/* Limits the registers of confined kernels that use more than their originals. True: there are some. */
static bool limit_registers(struct forms *forms) {
    bool has_limits = false;
    for (size_t i = 0; i < forms->made->kernel_count; i++) {
        struct kernel *kernel = &forms->kernels[i];
        int32_t confined = registers_of(kernel->part, kernel->symbol, "__confined");
        if (confined)
            kernel->max_registers = gs_register_limit(registers_of(kernel->part, kernel->symbol, ""), confined);
        has_limits = has_limits || kernel->max_registers;
    }
    return has_limits;
}

/* A function of the source may need more registers than the limit: then no limit is used. */
static gs_code compile_limited(struct forms *forms, gs_error *error) {
    gs_code code = compile_parts(forms, error);
    if (code != GS_E_KERNEL)
        return code;
    for (size_t i = 0; i < forms->made->kernel_count; i++)
        forms->kernels[i].max_registers = 0;
    return compile_parts(forms, error);
}

/* ---- the image ---- */

/* The variables of a module, which it has as long as it is loaded. */
static uint64_t variable_bytes(const gs_ptx_module *module) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < module->variables.count; i++) {
        const gs_ptx_variable *variable = &module->variables.data[i];
        bool is_kept = variable->space == GS_PTX_GLOBAL || variable->space == GS_PTX_CONST;
        if (is_kept && !variable->is_extern)
            bytes += gs_min_u64(variable->bytes, UINT64_MAX - bytes);
    }
    return bytes;
}

static gs_code keep_part(gs_image_made *made, const struct part *part, gs_error *error) {
    char path[400], *bytes = NULL;
    size_t count = 0;
    gs_text *kept = &made->parts[made->part_count++];
    gs_code code = GS_OK;
    if (part->loaded)
        code = gs_input_all(gs_module_path(part->loaded, path, sizeof path), (size_t)GS_IMAGE_MB << 20, &bytes, &count,
                            error);
    if (part->loaded && code == GS_OK)
        gs_text_put(kept, bytes, count);
    else if (part->cubin.image)
        gs_text_put(kept, part->cubin.image, part->cubin.bytes);
    else
        gs_text_put(kept, part->text.data, part->text.count + 1); /* the driver needs its NUL */
    free(bytes);
    uint64_t variables = variable_bytes(&part->module), most = UINT64_MAX / 2 - made->device_bytes;
    made->device_bytes += gs_min_u64(kept->count + gs_min_u64(variables, UINT64_MAX / 2), most);
    return code != GS_OK ? code : kept->failed ? gs_fail_memory(error) : GS_OK;
}

static void set_entries(struct forms *forms, const struct part *part, uint32_t number) {
    for (size_t i = 0; i < forms->made->kernel_count; i++) {
        gs_image_stored *stored = &forms->made->kernels[i];
        const struct kernel *kernel = &forms->kernels[i];
        if (kernel->part != part)
            continue;
        stored->original.part = number;
        stored->confined.part = stored->kernel.can_be_confined ? number : GS_IMAGE_NO_PART;
        snprintf(stored->original.symbol, GS_IMAGE_SYMBOL, "%s", kernel->symbol);
        snprintf(stored->confined.symbol, GS_IMAGE_SYMBOL, "%.*s__confined", GS_IMAGE_SYMBOL - 20, kernel->symbol);
    }
}

static gs_code keep_parts(struct forms *forms, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t p = 0; p < forms->part_count && code == GS_OK; p++)
        if (forms->parts[p].is_needed) {
            set_entries(forms, &forms->parts[p], (uint32_t)forms->made->part_count);
            code = keep_part(forms->made, &forms->parts[p], error);
        }
    return code;
}

/* On a GPU cuBLAS has the code. */
static void make_product(const gs_forms_request *request, gs_image_made *made) {
    gs_image_stored *stored = &made->kernels[made->kernel_count++];
    set_product(stored, request->product);
    snprintf(stored->kernel.name, sizeof stored->kernel.name, "%s", GS_PRODUCT_KERNEL);
    stored->original.part = stored->confined.part = GS_IMAGE_NO_PART;
    made->device_bytes = gs_blas_workspace_bytes(request->architecture);
}

gs_code gs_forms_compile(const gs_forms_request *request, gs_image_made *made, gs_error *error) {
    if (request->product && request->architecture) {
        make_product(request, made);
        return GS_OK;
    }
    struct forms *forms = calloc(1, sizeof *forms);
    if (!forms)
        return gs_fail_memory(error);
    forms->request = request;
    forms->made = made;
    gs_code code = gs_ptx_is_source(request->source->text, request->source->size) ? compile_source(forms, error)
                                                                                  : find_modules(forms, error);
    if (code == GS_OK)
        code = name_kernels(forms, error);
    for (size_t i = 0; i < made->kernel_count && code == GS_OK; i++)
        code = find_kernel(forms, i, error);
    if (code == GS_OK)
        code = compile_parts(forms, error);
    if (code == GS_OK && limit_registers(forms))
        code = compile_limited(forms, error);
    return code == GS_OK ? keep_parts(forms, error) : code;
}
