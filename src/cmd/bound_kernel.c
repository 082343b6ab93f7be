/*
 * bound_kernel.c: gridsmith bound KERNEL --launch FILE: when a compiled kernel is done, at the latest.
 *
 * The kernel is machine code: a cubin, or one in a fatbin or a program; PTX is assembled by ptxas. Which parameters are
 * known is said by the launch: values are, addresses of buffers are not. The walk through the code (kernels/flow)
 * becomes a body of the model (model/bound), whose bound is shown.
 */
#include "bound_kernel.h"

#include "kernels/cpu/cpu.h"
#include "kernels/flow/flow.h"
#include "kernels/ptx/ptx.h"
#include "model/view/view.h"

#include <stdlib.h>

enum { MOST_PARAMETERS = 32764 };
#define MOST_FILE ((size_t)1 << 30)

struct kernel {
    const gs_kernel_question *question;
    gs_sass_image image;
    bool has_image;
    int architecture;
    const char *symbol; /* points into the image */
    gs_launch_file *launch;
    gs_launch_outline outline;
    unsigned char parameters[MOST_PARAMETERS];
    bool is_known[MOST_PARAMETERS];
    size_t parameter_bytes;
    struct {
        gs_flow_rounds *data;
        size_t count, capacity;
    } rounds;
    gs_body body;
    struct {
        size_t *data, count, capacity;
    } open; /* parts */
    gs_shape shape;
    char *text;       /* the file, ending in 0, */
    size_t text_size; /* and its bytes */
    bool is_ptx;
    size_t counted; /* of `rounds`: those of the input, which are first */
    bool is_for_input;
};

/* ---- the code ---- */

static bool is_kernel(const gs_sass_symbol *symbol) {
    return gs_sass_type(symbol) == GS_SASS_FUNCTION && symbol->other & GS_SASS_ENTRY;
}

/* Whether a symbol is the kernel that the user names, by its symbol, or as the source does. */
static bool is_named(const char *symbol, const char *name) {
    char *readable = gs_demangle(symbol, 0);
    size_t length = strlen(name);
    bool is_same = strcmp(symbol, name) == 0 ||
                   (readable && strncmp(readable, name, length) == 0 && (!readable[length] || readable[length] == '('));
    free(readable);
    return is_same;
}

/* The kernels of an image that may be meant; `found` gets the first. */
static size_t count_kernels(const gs_sass_image *image, const char *name, const char **found) {
    size_t count = 0;
    for (size_t i = 0; i < image->symbols.count; i++) {
        const gs_sass_symbol *symbol = &image->symbols.data[i];
        const char *own = gs_sass_symbol_name(image, symbol);
        if (is_kernel(symbol) && (!name || is_named(own, name)) && !count++)
            *found = own;
    }
    return count;
}

/* Takes the first cubin for the GPU that has the kernel. */
static gs_code take_cubin(void *context, const char *bytes, size_t size, gs_error *error) {
    struct kernel *kernel = context;
    gs_sass_image image = {0};
    const char *found;
    if (kernel->has_image)
        return GS_OK;
    gs_code code = gs_sass_read(&image, bytes, size, error);
    bool fits = code == GS_OK && gs_sass_architecture(&image) == kernel->architecture &&
                count_kernels(&image, kernel->question->kernel, &found);
    if (fits) {
        kernel->image = image;
        kernel->has_image = true;
    } else {
        gs_sass_free(&image);
    }
    return code;
}

static gs_code assemble_text(struct kernel *kernel, const gs_build *build, gs_error *error) {
    gs_cubin cubin = {0};
    gs_code code = gs_cubin_make(build, kernel->architecture, &cubin, error);
    if (code == GS_OK)
        code = take_cubin(kernel, cubin.image, cubin.bytes, error);
    gs_cubin_free(&cubin);
    return code;
}

/* Rounds are counted by lines of the PTX, so those of the source are dropped: .loc and .file become blanks. */
static void drop_source_lines(char *text, size_t size) {
    for (size_t begin = 0; begin < size;) {
        size_t word = begin, end = begin;
        while (end < size && text[end] != '\n')
            end++;
        while (word < end && (text[word] == ' ' || text[word] == '\t'))
            word++;
        if ((end - word > 5 && strncmp(text + word, ".loc", 4) == 0 &&
             (text[word + 4] == ' ' || text[word + 4] == '\t')) ||
            (end - word > 6 && strncmp(text + word, ".file", 5) == 0))
            memset(text + word, ' ', end - word);
        begin = end + 1;
    }
}

static gs_code read_code(struct kernel *kernel, gs_error *error) {
    const gs_kernel_question *question = kernel->question;
    char *bytes = NULL;
    size_t size = 0;
    gs_code code = gs_input_all(question->file, MOST_FILE, &bytes, &size, error);
    gs_build build = {.name = gs_input_name(question->file), .text = bytes, .size = size, .with_lines = true};
    bool is_ptx = code == GS_OK && gs_build_is_ptx(&build);
    if (code == GS_OK && question->input && !is_ptx)
        code = gs_fail(error, GS_E_USAGE, "--input runs the kernel on the CPU: give the PTX itself (a .ptx file)");
    if (code == GS_OK && question->input)
        drop_source_lines(bytes, size);
    if (code == GS_OK)
        code = is_ptx ? assemble_text(kernel, &build, error)
                      : gs_ptx_cubins_of_file(question->file, take_cubin, kernel, error);
    kernel->text = bytes;
    kernel->text_size = size;
    kernel->is_ptx = is_ptx;
    if (code != GS_OK || kernel->has_image)
        return code;
    return gs_fail(error, GS_E_USAGE, "%s has no %s%s for sm_%d", gs_input_name(question->file),
                   question->kernel ? "kernel " : "kernel", question->kernel ? question->kernel : "",
                   kernel->architecture);
}

static gs_code choose_kernel(struct kernel *kernel, gs_error *error) {
    const char *name = kernel->question->kernel;
    size_t count = count_kernels(&kernel->image, name, &kernel->symbol);
    if (count == 1)
        return GS_OK;
    return gs_fail(error, GS_E_USAGE, "%s has %zu kernels%s%s; --kernel NAME names one, such as %s",
                   gs_input_name(kernel->question->file), count, name ? " called " : "", name ? name : "",
                   kernel->symbol);
}

/* ---- what the launch gives ---- */

/* The memory of the buffers of the launch, in whole pages, and of the variables of the module. */
static int64_t count_memory(const struct kernel *kernel) {
    enum { PAGE = 2 << 20 };
    int64_t bytes = 0;
    for (size_t i = 0; i < kernel->outline.arguments; i++) {
        gs_launch_part part = gs_launch_part_at(kernel->launch, i);
        if (part.is_buffer)
            bytes += gs_divide_up((int64_t)(part.count * gs_scalar_bytes(part.type)), PAGE) * PAGE;
    }
    for (size_t i = 0; i < kernel->image.sections.count; i++) {
        const gs_sass_section *section = &kernel->image.sections.data[i];
        if (strncmp(section->name, ".nv.global", strlen(".nv.global")) == 0)
            bytes += gs_divide_up((int64_t)(section->has_bytes ? section->bytes.count : section->size), PAGE) * PAGE;
    }
    return bytes;
}

/* Whether a number may be an address: then what the kernel accesses there is not known. A smaller one is believed
   to be none. */
static bool may_be_address(const gs_launch_part *part) {
    enum { LEAST_BITS = 32 };
    uint64_t value = 0;
    if (part->is_buffer || part->type != GS_INT64)
        return false;
    memcpy(&value, part->value, sizeof value);
    return value >> LEAST_BITS && value >> LEAST_BITS != UINT64_MAX >> LEAST_BITS;
}

static gs_code put_argument(struct kernel *kernel, size_t number, size_t offset, size_t size, gs_error *error) {
    enum { ADDRESS_BYTES = 8 };
    gs_launch_part part = gs_launch_part_at(kernel->launch, number);
    size_t bytes = part.is_buffer ? ADDRESS_BYTES : gs_scalar_bytes(part.type);
    if (bytes != size || offset + size > MOST_PARAMETERS)
        return gs_fail(error, GS_E_USAGE, "argument %zu of the launch has %zu bytes, that of the kernel %zu", number,
                       bytes, size);
    if (may_be_address(&part) && !kernel->question->instructions)
        return gs_fail(error, GS_E_REFUSED,
                       "no bound is known: argument %zu may be an address; as a buffer its size is known", number);
    for (size_t i = 0; i < size && !part.is_buffer; i++) {
        kernel->parameters[offset + i] = part.value[i];
        kernel->is_known[offset + i] = true;
    }
    kernel->parameter_bytes = offset + size > kernel->parameter_bytes ? offset + size : kernel->parameter_bytes;
    return GS_OK;
}

/* The parameters, as the cubin lists them: number and offset, then the size. */
static gs_code read_parameters(struct kernel *kernel, const gs_sass_records *records, gs_error *error) {
    enum { SIZE_BIT = 18 };
    gs_code code = GS_OK;
    size_t count = 0;
    for (size_t i = 0; i < records->count && code == GS_OK; i++) {
        const gs_sass_record *record = &records->data[i];
        bool is_large = record->code == GS_SASS_LARGE_PARAMETER;
        if ((record->code != GS_SASS_PARAMETER && !is_large) || record->count < 12)
            continue;
        uint32_t place = gs_sass_word(&records->bytes, record->at + 4);
        uint32_t size = gs_sass_word(&records->bytes, record->at + 8);
        count++;
        if ((place & 0xffff) < kernel->outline.arguments)
            code = put_argument(kernel, place & 0xffff, place >> 16, is_large ? size : size >> SIZE_BIT, error);
    }
    if (code == GS_OK && count != kernel->outline.arguments)
        code = gs_fail(error, GS_E_USAGE, "the kernel has %zu parameters, the launch %zu arguments", count,
                       kernel->outline.arguments);
    return code;
}

static int32_t registers_of(const struct kernel *kernel, const gs_sass_records *all) {
    for (size_t i = 0; i < all->count; i++) {
        const gs_sass_record *record = &all->data[i];
        if (record->code != GS_SASS_REGISTERS || record->count < 8)
            continue;
        uint32_t symbol = gs_sass_word(&all->bytes, record->at);
        if (symbol < kernel->image.symbols.count &&
            strcmp(gs_sass_symbol_name(&kernel->image, &kernel->image.symbols.data[symbol]), kernel->symbol) == 0)
            return (int32_t)gs_sass_word(&all->bytes, record->at + 4);
    }
    return 0;
}

static gs_code read_shape(struct kernel *kernel, gs_error *error) {
    const gs_sass_section *about = gs_sass_find(&kernel->image, ".nv.info", "");
    const gs_sass_section *own = gs_sass_find(&kernel->image, ".nv.info.", kernel->symbol);
    const gs_sass_section *shared = gs_sass_find(&kernel->image, ".nv.shared.", kernel->symbol);
    const uint32_t *block = kernel->outline.block;
    gs_sass_records all = {0}, records = {0};
    gs_code code = about && own ? gs_sass_records_read(&all, &about->bytes, error)
                                : gs_fail(error, GS_E_USAGE, "the cubin does not describe %s", kernel->symbol);
    if (code == GS_OK)
        code = gs_sass_records_read(&records, &own->bytes, error);
    if (code == GS_OK)
        code = gs_sass_check_block(&records, kernel->symbol, block, error);
    if (code == GS_OK)
        code = read_parameters(kernel, &records, error);
    kernel->shape = (gs_shape){.threads = (int32_t)(block[0] * block[1] * block[2]),
                               .registers = registers_of(kernel, &all),
                               .shared_bytes = (int64_t)kernel->outline.shared_bytes,
                               .carveout_percent = GS_NO_CARVEOUT};
    if (shared)
        kernel->shape.shared_bytes += (int64_t)(shared->has_bytes ? shared->bytes.count : shared->size);
    if (code == GS_OK && gs_sass_records_find(&records, GS_SASS_CLUSTER))
        code = gs_fail(error, GS_E_REFUSED, "no bound is known: %s has clusters of blocks", kernel->symbol);
    if (code == GS_OK && !kernel->shape.registers)
        code = gs_fail(error, GS_E_USAGE, "the cubin does not say how many registers %s has", kernel->symbol);
    gs_sass_records_free(&all);
    gs_sass_records_free(&records);
    return code;
}

static gs_code read_rounds(struct kernel *kernel, gs_error *error) {
    for (size_t i = 0; i < kernel->question->loops->count; i++) {
        const char *word = kernel->question->loops->data[i];
        char *middle, *end;
        bool is_offset = word[0] == '0' && word[1] == 'x';
        unsigned long at = strtoul(word, &middle, is_offset ? 16 : 10);
        long long rounds = *middle == '=' ? strtoll(middle + 1, &end, 10) : -1;
        if (word[0] < '0' || word[0] > '9' || *middle != '=' || end == middle + 1 || *end || rounds < 0 ||
            at > UINT32_MAX || (!at && !is_offset))
            return gs_fail(error, GS_E_USAGE, "--loop takes LINE=ROUNDS or 0xOFFSET=ROUNDS, not \"%.60s\"", word);
        if (!GS_PUSH(&kernel->rounds, (gs_flow_rounds){.place = is_offset ? GS_FLOW_OFFSET : GS_FLOW_LINE,
                                                       .at = (uint32_t)at,
                                                       .rounds = rounds}))
            return gs_fail_memory(error);
    }
    return GS_OK;
}

static gs_code count_rounds(struct kernel *kernel, gs_error *error) {
    enum { SECONDS = 60 };
    gs_loop_rounds_list list = {0};
    gs_code code = gs_count_rounds(gs_input_name(kernel->question->file), kernel->text, kernel->text_size,
                                   kernel->symbol, kernel->launch, SECONDS, &list, error);
    for (size_t i = 0; i < list.count && code == GS_OK; i++) {
        const gs_loop_rounds *row = &list.data[i];
        gs_flow_rounds given = {.place = row->is_never     ? GS_FLOW_NEVER_LINE
                                         : row->is_one_way ? GS_FLOW_ONE_WAY_LINE
                                         : row->is_access  ? GS_FLOW_ACCESS_LINE
                                                           : GS_FLOW_BRANCH_LINE,
                                .at = row->line,
                                .first = row->first,
                                .last = row->last,
                                .depth = row->depth,
                                .bytes = row->bytes,
                                .is_store = row->is_store,
                                .is_shared = row->is_shared,
                                .rounds = row->is_known ? row->rounds : -1};
        if (!GS_PUSH(&kernel->rounds, given))
            code = gs_fail_memory(error);
    }
    free(list.data);
    return code;
}

/* ---- the walk ---- */

static bool open_part(void *user, gs_flow_kind kind, uint32_t offset, uint32_t line, bool is_uniform, int64_t times,
                      gs_flow_source source) {
    static const gs_rounds_source sources[] = {[GS_FLOW_OF_CODE] = GS_ROUNDS_OF_CODE,
                                               [GS_FLOW_GIVEN] = GS_ROUNDS_GIVEN,
                                               [GS_FLOW_OF_BRANCH_LINE] = GS_ROUNDS_OF_INPUT};
    static const gs_body_part_kind kinds[] = {[GS_FLOW_BRANCH] = GS_PART_BRANCH,
                                              [GS_FLOW_SIDE] = GS_PART_SIDE,
                                              [GS_FLOW_LOOP] = GS_PART_LOOP,
                                              [GS_FLOW_GROUPS] = GS_PART_LOOP};
    struct kernel *kernel = user;
    gs_body_part *part = gs_body_open(&kernel->body, kinds[kind], offset, line);
    if (!part || !GS_PUSH(&kernel->open, kernel->body.parts.count - 1))
        return false;
    part->is_uniform = is_uniform;
    part->times = times;
    part->source = kind == GS_FLOW_GROUPS ? GS_ROUNDS_OF_GROUPS : sources[source];
    kernel->is_for_input = kernel->is_for_input || part->source == GS_ROUNDS_OF_INPUT;
    return true;
}

static bool close_part(void *user) {
    struct kernel *kernel = user;
    gs_body_close(&kernel->body, kernel->open.data[--kernel->open.count]);
    return true;
}

static bool add_step(void *user, const gs_flow_step *step) {
    struct kernel *kernel = user;
    if (step->is_barrier && !gs_body_open(&kernel->body, GS_PART_BARRIER, step->offset, step->line))
        return false;
    int32_t class_number = gs_body_class(&kernel->body, step->class_name);
    gs_body_part *part = gs_body_open(&kernel->body, GS_PART_INSTRUCTION, step->offset, step->line);
    if (!part || class_number < 0)
        return false;
    part->class_number = class_number;
    part->stall = step->stall;
    part->result = step->result;
    part->reads = step->reads;
    part->waits = step->waits;
    part->transactions = step->transactions;
    part->constant = step->constant;
    part->is_call = step->is_call;
    return true;
}

/* All that the kernel may read of constant memory: every bank of the module but the parameters of other kernels. */
static void count_constants(struct kernel *kernel) {
    static const char bank[] = ".nv.constant", parameters[] = ".nv.constant0.";
    for (size_t i = 0; i < kernel->image.sections.count; i++) {
        const gs_sass_section *section = &kernel->image.sections.data[i];
        bool is_bank = strncmp(section->name, bank, strlen(bank)) == 0;
        bool is_other = strncmp(section->name, parameters, strlen(parameters)) == 0 &&
                        strcmp(section->name + strlen(parameters), kernel->symbol) != 0;
        if (!is_bank || is_other)
            continue;
        kernel->body.constant_bytes += (int64_t)(section->has_bytes ? section->bytes.count : section->size);
        kernel->body.constant_banks++;
    }
}

static gs_code walk_kernel(struct kernel *kernel, gs_error *error) {
    gs_flow_launch launch = {
        .parameters = kernel->parameters, .is_known = kernel->is_known, .bytes = kernel->parameter_bytes};
    gs_flow_visitor visitor = {kernel, open_part, close_part, add_step};
    for (int i = 0; i < 3; i++) {
        launch.grid[i] = kernel->outline.grid[i];
        launch.block[i] = kernel->outline.block[i];
    }
    kernel->body.kernel = strdup(kernel->symbol);
    gs_code code = kernel->body.kernel ? gs_flow_walk(&kernel->image, kernel->symbol, &launch, kernel->rounds.data,
                                                      kernel->rounds.count, &visitor, &kernel->body.file, error)
                                       : gs_fail_memory(error);
    for (size_t i = 0; i < kernel->rounds.count && code == GS_OK; i++)
        if (i >= kernel->counted && !kernel->rounds.data[i].is_used)
            code = gs_fail(error, GS_E_USAGE, "no loop begins at \"%s\" of --loop",
                           kernel->question->loops->data[i - kernel->counted]);
        else if (kernel->rounds.data[i].place > GS_FLOW_BRANCH_LINE && kernel->rounds.data[i].is_used)
            kernel->is_for_input = true;
    if (code == GS_OK && !gs_body_is_sound(&kernel->body))
        code = gs_fail(error, GS_E_REFUSED, "branches and loops are nested too deep");
    return code;
}

/* ---- the answer ---- */

static gs_code find_bounds(gs_body_answer *answer, gs_error *error) {
    gs_code code = GS_OK;
    if (answer->machine)
        code = gs_bound_body(answer->gpu, answer->machine, answer->body, &answer->shape, answer->blocks, false,
                             &answer->bound, error);
    if (code == GS_OK && answer->machine)
        code = gs_bound_body(answer->gpu, answer->machine, answer->body, &answer->shape, answer->blocks, true,
                             &answer->beside, error);
    if (code == GS_OK)
        code = gs_body_share(answer->gpu, answer->machine, answer->body, &answer->shape, answer->blocks, &answer->bound,
                             &answer->shares, error);
    return code;
}

static gs_code answer_body(struct kernel *kernel, const gs_gpu *gpu, const gs_machine *machine, gs_text *text,
                           gs_error *error) {
    const gs_kernel_question *question = kernel->question;
    const uint32_t *grid = kernel->outline.grid;
    int64_t *of_class = calloc(kernel->body.classes.count + 1, sizeof *of_class);
    gs_body_answer answer = {.gpu = gpu,
                             .machine = machine,
                             .body = &kernel->body,
                             .shape = kernel->shape,
                             .blocks = (int64_t)grid[0] * grid[1] * grid[2],
                             .of_class = of_class,
                             .is_for_input = kernel->is_for_input,
                             .source = kernel->is_ptx && !kernel->body.file ? kernel->text : NULL};
    gs_code code = of_class ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK && !gs_body_most(&kernel->body, of_class))
        code = gs_body_fail_large(&kernel->body, error);
    if (code == GS_OK)
        code = find_bounds(&answer, error);
    if (code == GS_OK)
        (question->json   ? gs_put_body_bound_json
         : question->csv  ? gs_put_body_bound_csv
         : question->html ? gs_put_body_bound_html
                          : gs_put_body_bound)(text, &answer);
    gs_body_shares_clear(&answer.shares);
    free(of_class);
    return code;
}

static gs_code answer_on(struct kernel *kernel, const gs_gpu *gpu, gs_text *text, gs_error *error) {
    const gs_kernel_question *question = kernel->question;
    gs_machine *opened = question->latencies ? gs_machine_open(question->latencies, error) : NULL;
    const gs_machine *machine = question->instructions ? NULL : opened ? opened : gpu->machine;
    gs_code code = question->latencies && !opened ? error->code : GS_OK;
    if (code == GS_OK && !machine && !question->instructions)
        code = gs_fail_no_machine(gpu, error);
    kernel->architecture = gs_gpu_architecture(gpu);
    if (code == GS_OK)
        code = read_code(kernel, error);
    if (code == GS_OK)
        code = choose_kernel(kernel, error);
    if (code == GS_OK)
        code = read_shape(kernel, error);
    if (code == GS_OK && question->input)
        code = count_rounds(kernel, error);
    kernel->counted = kernel->rounds.count;
    if (code == GS_OK)
        code = read_rounds(kernel, error);
    if (code == GS_OK)
        code = walk_kernel(kernel, error);
    kernel->body.is_kept = question->cached;
    kernel->body.others_write = question->writers;
    kernel->body.memory_bytes = count_memory(kernel);
    count_constants(kernel);
    if (code == GS_OK)
        code = answer_body(kernel, gpu, machine, text, error);
    gs_machine_free(opened);
    return code;
}

/* A launch without blocks can be verified, but has no bound. */
static gs_code check_grid(const gs_kernel_question *question, const gs_launch_outline *outline, gs_error *error) {
    const uint32_t *grid = outline->grid;
    if (grid[0] && grid[1] && grid[2])
        return GS_OK;
    return gs_fail(error, GS_E_USAGE,
                   "%s: a grid has 1 to 2147483647 blocks in x, and 1 to 65535 in y and in z, not %u x %u x %u",
                   question->launch, grid[0], grid[1], grid[2]);
}

gs_code gs_answer_kernel(const gs_kernel_question *question, gs_text *text, gs_error *error) {
    struct kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel)
        return gs_fail_memory(error);
    kernel->question = question;
    kernel->launch = gs_launch_open(question->launch, error);
    gs_gpu *gpu = kernel->launch ? gs_choose_gpu(question->gpu, NULL, error) : NULL;
    gs_code code = gpu ? GS_OK : error->code;
    if (code == GS_OK) {
        kernel->outline = gs_launch_outline_of(kernel->launch);
        code = check_grid(question, &kernel->outline, error);
    }
    if (code == GS_OK)
        code = answer_on(kernel, gpu, text, error);
    gs_gpu_free(gpu);
    gs_launch_free(kernel->launch);
    gs_body_clear(&kernel->body);
    free(kernel->open.data);
    free(kernel->rounds.data);
    free(kernel->text);
    gs_sass_free(&kernel->image);
    free(kernel);
    return code;
}
