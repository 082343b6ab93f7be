/*
 * side.c: a kernel on the GPU, in its forms, for bench/pairs; and the GPU itself.
 *
 * A side is prepared without a GPU: its inputs are made and its forms compiled, each with the register limit that it
 * should have (gs_register_limit). A pass launches all kernels of the instance once. If these change their own inputs,
 * the inputs are restored first, by copies on the same stream.
 *
 * Each confined launch of a round has a counter of its own; side_arm clears them before the round.
 */
#include "pairs.h"

#include <stdlib.h>
#include <string.h>

enum { COUNTERS_AT = sizeof(gs_control_words), COUNTERS_BYTES = GS_CONTROL_LINE * PAIR_QUEUES };

const unit_row pair_units[PAIR_UNITS] = {
    [UNIT_TENSOR] = {"tensor", "tensor cores, FLOP", 989e12},
    [UNIT_FMA] = {"FMA", "FP32 units, operations", 132.0 * 128 * 1.98e9},
    [UNIT_ISSUE] = {"issue", "instructions of threads", 132.0 * 128 * 1.98e9},
    [UNIT_DRAM] = {"DRAM", "device memory, bytes", 4.8e12},
};

/* ---- the card ---- */

bool card_check(const pair_card *card, int code, const char *what) {
    gs_error error;
    if (gs_cuda_check(&card->api, code, what, &error) == GS_OK)
        return true;
    fprintf(stderr, "pairs: %s\n", error.message);
    return false;
}

/* differ(a, b, words, count): each thread compares every n-th word. */
static const char differ_text[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry differ(.param .u64 a, .param .u64 b, .param .u64 words, .param .u64 count) {\n"
    "\t.reg .pred %p;\n\t.reg .b32 %x, %y, %t;\n\t.reg .b64 %a, %b, %i, %n, %step, %at, %count;\n"
    "\tld.param.u64 %a, [a];\n\tld.param.u64 %b, [b];\n\tld.param.u64 %n, [words];\n\tld.param.u64 %count, [count];\n"
    "\tmov.u32 %t, %tid.x;\n\tmov.u32 %x, %ctaid.x;\n\tmov.u32 %y, %ntid.x;\n\tmad.lo.u32 %t, %x, %y, %t;\n"
    "\tcvt.u64.u32 %i, %t;\n\tmov.u32 %x, %nctaid.x;\n\tmul.lo.u32 %x, %x, %y;\n\tcvt.u64.u32 %step, %x;\n"
    "$again:\n\tsetp.ge.u64 %p, %i, %n;\n\t@%p ret;\n"
    "\tshl.b64 %at, %i, 2;\n\tadd.u64 %at, %at, %a;\n\tld.global.u32 %x, [%at];\n"
    "\tshl.b64 %at, %i, 2;\n\tadd.u64 %at, %at, %b;\n\tld.global.u32 %y, [%at];\n"
    "\tsetp.ne.u32 %p, %x, %y;\n\t@%p red.global.add.u32 [%count], 1;\n"
    "\tadd.u64 %i, %i, %step;\n\tbra $again;\n}\n";

static bool load_comparison(pair_card *card) {
    const char *list[] = {"differ"};
    gs_build build = {
        .name = "differ.ptx", .text = differ_text, .size = sizeof differ_text - 1, .kernels = list, .kernel_count = 1};
    gs_cubin cubin;
    gs_error error;
    const cu_api *api = &card->api;
    if (gs_cubin_make(&build, card->architecture, &cubin, &error) != GS_OK) {
        fprintf(stderr, "pairs: %s\n", error.message);
        return false;
    }
    int failed = gs_modules_load(&card->comparison, api, cubin.image);
    failed = failed ? failed : gs_cuda_kernel_find(api, card->comparison.data[0], "differ", &card->differ);
    failed = failed ? failed : api->alloc(&card->differing, 4);
    failed = failed ? failed : api->event_new(&card->began, 0);
    gs_cubin_free(&cubin);
    return card_check(card, failed, "loading the comparison");
}

bool card_open(pair_card *opened) {
    gs_error error;
    int major = 0, minor = 0;
    *opened = (pair_card){.sms = 0};
    if (gs_cuda_open(&opened->api, &error) != GS_OK ||
        gs_cuda_open_gpu(&opened->api, "", &opened->device, &opened->has_context, &error) != GS_OK) {
        fprintf(stderr, "pairs: %s\n", error.message);
        return false;
    }
    opened->api.device_attribute(&opened->sms, CU_DEVICE_SMS, opened->device);
    opened->api.device_attribute(&major, CU_DEVICE_MAJOR, opened->device);
    opened->api.device_attribute(&minor, CU_DEVICE_MINOR, opened->device);
    opened->architecture = major * 10 + minor;
    opened->gpu = gs_gpu_open("h200", &error);
    return opened->gpu && load_comparison(opened);
}

void card_close(pair_card *closed) {
    gs_modules_unload(&closed->comparison, &closed->api);
    if (closed->differing)
        closed->api.free(closed->differing);
    if (closed->began)
        closed->api.event_free(closed->began);
    if (closed->has_context)
        closed->api.context_release(closed->device);
    gs_gpu_free(closed->gpu);
}

uint32_t card_fit(const pair_card *card, const gs_shape *shape, const gs_shape *other, uint32_t blocks) {
    gs_dispatcher *dispatcher = gs_dispatcher_new(card->gpu, NULL);
    int kernel = dispatcher ? gs_dispatcher_kernel(dispatcher, shape, NULL) : -1, room = 0;
    int beside = kernel >= 0 && blocks ? gs_dispatcher_kernel(dispatcher, other, NULL) : -1;
    for (uint32_t i = 0; i < blocks && beside >= 0; i++)
        gs_dispatcher_place(dispatcher, beside, 0);
    while (kernel >= 0 && gs_dispatcher_room(dispatcher, kernel, 0) > 0 &&
           gs_dispatcher_place(dispatcher, kernel, 0) >= 0)
        room++;
    gs_dispatcher_free(dispatcher);
    return (uint32_t)room;
}

/* ---- compiling ---- */

static bool fail(pair_side *side, const char *words) {
    snprintf(side->why, sizeof side->why, "%.290s", words);
    side->failed = true;
    return false;
}

static const gs_zoo_launch *launch_of(const pair_side *side, size_t kind) {
    for (size_t i = 0; i < side->instance.launches.count; i++)
        if (side->instance.launches.data[i].kind == kind)
            return &side->instance.launches.data[i];
    return NULL;
}

/* Reads the PTX of a kernel into `text`, which the module keeps and the caller frees. */
static bool read_module(const pair_side *side, size_t kind, gs_text *text, gs_ptx_module *module, uint32_t *function,
                        gs_error *error) {
    const gs_zoo_kind *wanted = &side->instance.kinds[kind];
    char symbol[GS_JOB_NAME];
    snprintf(symbol, sizeof symbol, "%s", wanted->kernel);
    if (side->text)
        gs_text_add(text, "%s", side->text);
    else if (gs_zoo_ptx(wanted, text, symbol, error) != GS_OK)
        return false;
    if (gs_ptx_read(module, wanted->source, text->data, text->count, error) != GS_OK)
        return false;
    *function = gs_ptx_find_entry(module, symbol);
    return *function != GS_PTX_NONE;
}

static bool compile_with(pair_side *side, size_t kind, enum gs_form form, uint32_t limit, int architecture) {
    gs_ptx_module module;
    uint32_t function;
    gs_text read = {0}, text = {0};
    gs_error error = {.code = GS_OK};
    char symbol[GS_JOB_NAME];
    const char *list[] = {symbol};
    gs_ptx_options options = {.form = form, .max_registers = limit};
    if (!read_module(side, kind, &read, &module, &function, &error)) {
        gs_text_free(&read);
        return fail(side, error.message);
    }
    gs_text_put(&text, module.text, module.size);
    gs_ptx_token_text(&module, module.functions.data[function].name, symbol, sizeof symbol);
    gs_code code = GS_OK;
    if (form != GS_FORM_ORIGINAL) {
        code = gs_ptx_reshape(&module, function, &options, &text, NULL, &error);
        gs_ptx_form_symbol(&module, function, form, symbol, sizeof symbol);
    }
    gs_build build = {.name = side->name,
                      .text = text.data,
                      .size = text.count,
                      .kernels = list,
                      .kernel_count = 1,
                      .max_registers = limit};
    gs_cubin *cubin = &side->cubins[form][kind];
    gs_cubin_free(cubin);
    if (code == GS_OK)
        code = gs_cubin_make(&build, architecture, cubin, &error);
    gs_ptx_free(&module);
    gs_text_free(&read);
    gs_text_free(&text);
    if (code != GS_OK)
        return fail(side, error.message);
    side->forms[form][kind] = (side_kernel){.cost = cubin->costs[0], .limit = limit};
    return true;
}

static bool compile(pair_side *side, size_t kind, enum gs_form form, int architecture) {
    if (!compile_with(side, kind, form, 0, architecture))
        return false;
    uint32_t limit = form == GS_FORM_ORIGINAL ? 0
                                              : gs_register_limit(side->forms[GS_FORM_ORIGINAL][kind].cost.registers,
                                                                  side->forms[form][kind].cost.registers);
    return !limit || compile_with(side, kind, form, limit, architecture);
}

/* Finds the buffers that change: those that the reference changes at the small size. */
static bool find_changed(pair_side *side, gs_error *error) {
    gs_zoo_instance small;
    if (side->text)
        return true;
    if (gs_zoo_instance_make(&small, side->kernel, gs_zoo_size_find(side->kernel, "small"), error) != GS_OK)
        return false;
    for (size_t i = 0; i < small.buffer_count; i++) {
        const gs_zoo_buffer *buffer = &small.buffers[i];
        size_t bytes = buffer->count * gs_scalar_bytes(buffer->type);
        side->is_changed[i] = buffer->is_scratch || memcmp(buffer->data, buffer->expected, bytes) != 0;
    }
    gs_zoo_instance_free(&small);
    return true;
}

void side_prepare(pair_side *side, int architecture) {
    gs_error error = {.code = GS_OK};
    if (!side->kernel)
        return;
    if (gs_zoo_instance_make(&side->instance, side->kernel, &side->size, &error) != GS_OK ||
        !find_changed(side, &error)) {
        fail(side, error.message);
        return;
    }
    for (size_t kind = 0; kind < side->instance.kind_count; kind++)
        for (int form = GS_FORM_ORIGINAL; form < (side->has_forms ? PAIR_FORMS : 1) && !side->failed; form++)
            compile(side, kind, (enum gs_form)form, architecture);
}

/* ---- loading ---- */

static size_t bytes_of(const pair_side *side, size_t number) {
    const gs_zoo_buffer *buffer = &side->instance.buffers[number];
    return buffer->count * gs_scalar_bytes(buffer->type) + 16;
}

static bool load_buffers(pair_side *side, pair_card *card) {
    const cu_api *api = &card->api;
    int failed = api->alloc(&side->control, COUNTERS_AT + COUNTERS_BYTES);
    failed = failed ? failed : api->set_bytes(side->control, 0, COUNTERS_AT + COUNTERS_BYTES);
    for (size_t i = 0; i < side->instance.buffer_count && !failed; i++) {
        const gs_zoo_buffer *buffer = &side->instance.buffers[i];
        size_t bytes = buffer->count * gs_scalar_bytes(buffer->type);
        failed = api->alloc(&side->memory[i], bytes_of(side, i));
        failed = failed ? failed : api->copy_in_later(side->memory[i], buffer->data, bytes, side->stream);
        if (!failed && side->is_changed[i])
            failed = api->alloc(&side->saved[i], bytes_of(side, i));
        if (!failed && side->is_changed[i])
            failed = card->api.copy_later(side->saved[i], side->memory[i], bytes, side->stream);
    }
    failed = failed ? failed : api->stream_wait(side->stream);
    return card_check(card, failed, "sending buffers");
}

static bool load_kernels(pair_side *side, pair_card *card) {
    const cu_api *api = &card->api;
    int failed = 0;
    for (int form = 0; form < (side->has_forms ? PAIR_FORMS : 1); form++)
        for (size_t kind = 0; kind < side->instance.kind_count && !failed; kind++) {
            side_kernel *kernel = &side->forms[form][kind];
            size_t shared_bytes = launch_of(side, kind)->shared_bytes;
            const gs_cubin *cubin = &side->cubins[form][kind];
            failed = gs_modules_load(&kernel->modules, api, cubin->image);
            if (!failed)
                failed = gs_cuda_kernel_find(api, kernel->modules.data[0], cubin->symbols[0], &kernel->kernel);
            if (!failed && form != GS_FORM_ORIGINAL)
                gs_cuda_kernel_is_form(api, &kernel->kernel,
                                       form == GS_FORM_CONFINED ? sizeof(gs_confined_parameter)
                                                                : sizeof(gs_persistent_parameter));
            if (!failed)
                failed = gs_cuda_kernel_allow_shared(api, &kernel->kernel, shared_bytes);
        }
    return card_check(card, failed, side->name);
}

/* ---- cuBLAS ---- */

enum { BLAS_SIDE = 4096 };

static bool check_blas(gs_code code, const gs_error *error) {
    if (code != GS_OK)
        fprintf(stderr, "pairs: %s\n", error->message);
    return code == GS_OK;
}

bool side_open_blas(pair_side *side, const char *library) {
    gs_error error;
    if (side->kernel || (side->blas = gs_blas_open(library, &error)))
        return true;
    return fail(side, error.message);
}

bool side_use_blas(pair_side *side) {
    gs_error error;
    return !side->blas || check_blas(gs_blas_use(side->blas, side_stream(side), 0, 0, &error), &error);
}

/* As wgemm computes it: C = A B^T. */
static bool multiply_blas(const pair_side *side) {
    const gs_product product = {
        .rows = BLAS_SIDE, .columns = BLAS_SIDE, .depth = BLAS_SIDE, .is_b_transposed = true, .is_bfloat16 = true};
    gs_error error;
    return check_blas(gs_blas_multiply(side->blas, &product, side->memory, &error), &error);
}

/* The factors are random; cuBLAS has no other buffers. */
static bool load_blas(pair_side *side, pair_card *card) {
    const size_t count = (size_t)BLAS_SIDE * BLAS_SIDE;
    uint16_t *numbers = malloc(count * sizeof *numbers);
    int failed = numbers ? 0 : CU_ERROR_MEMORY;
    for (size_t i = 0; i < count && numbers; i++)
        numbers[i] = (uint16_t)(0x3f00 + (i * 2654435761u >> 24 & 0xff) + (i % 7 ? 0x8000 : 0));
    for (int i = 0; i < 2 && !failed; i++) {
        failed = card->api.alloc(&side->memory[i], count * sizeof *numbers);
        failed = failed ? failed : card->api.copy_in_later(side->memory[i], numbers, count * 2, side->stream);
    }
    failed = failed ? failed : card->api.alloc(&side->memory[2], count * 4);
    failed = failed ? failed : card->api.stream_wait(side->stream);
    free(numbers);
    return card_check(card, failed, "sending the matrices") && side_use_blas(side);
}

bool side_load(pair_side *side, pair_card *card) {
    if (side->failed)
        return false;
    int failed = card->api.stream_new(&side->stream, CU_STREAM_NON_BLOCKING, 0);
    failed = failed ? failed : card->api.event_new(&side->ended, 0);
    bool is_good = card_check(card, failed, "making a stream");
    if (is_good && !side->kernel)
        is_good = load_blas(side, card);
    else if (is_good)
        is_good = load_buffers(side, card) && load_kernels(side, card);
    side->is_ready = is_good;
    return is_good;
}

/* Frees the memory of a side on the GPU. */
static void unload(pair_side *side, const pair_card *card) {
    const cu_api *api = &card->api;
    if (side->control)
        api->free(side->control);
    for (size_t i = 0; i < GS_ZOO_BUFFERS; i++) {
        if (side->memory[i])
            api->free(side->memory[i]);
        if (side->saved[i])
            api->free(side->saved[i]);
        if (side->kept[i])
            api->free(side->kept[i]);
    }
    for (int form = 0; form < PAIR_FORMS; form++)
        for (size_t kind = 0; kind < GS_ZOO_KINDS; kind++)
            gs_modules_unload(&side->forms[form][kind].modules, api);
    if (side->stream)
        api->stream_free(side->stream);
    if (side->ended)
        api->event_free(side->ended);
}

void side_free(pair_side *side, const pair_card *card) {
    unload(side, card);
    for (int form = 0; form < PAIR_FORMS; form++)
        for (size_t kind = 0; kind < GS_ZOO_KINDS; kind++)
            gs_cubin_free(&side->cubins[form][kind]);
    gs_zoo_instance_free(&side->instance);
    gs_blas_close(side->blas);
}

/* ---- launching ---- */

cu_stream side_stream(const pair_side *side) {
    return side->part ? side->part : side->stream;
}

gs_shape side_shape(const pair_side *side, enum gs_form form, size_t kind) {
    const gs_zoo_launch *launch = launch_of(side, kind);
    const gs_cost *cost = &side->forms[form][kind].cost;
    return gs_shape_of((int32_t)(launch->block[0] * launch->block[1] * launch->block[2]), cost->registers,
                       cost->shared_bytes + (int64_t)launch->shared_bytes);
}

bool side_arm(pair_side *side, pair_card *card, const pair_way *way) {
    uint32_t mask[PAIR_MASK_WORDS] = {0};
    side->launched = 0;
    if (way->form != GS_FORM_CONFINED || !side->kernel)
        return true;
    for (int i = way->first_sm; i < way->first_sm + way->sms; i++)
        mask[i / 32] |= 1u << i % 32;
    gs_control control = gs_control_at(side->control, NULL, false);
    int failed = card->api.copy_in_later(control.mask, mask, sizeof mask, side->stream);
    failed = failed ? failed : card->api.set_bytes_later(side->control + COUNTERS_AT, 0, COUNTERS_BYTES, side->stream);
    failed = failed ? failed : card->api.stream_wait(side->stream);
    return card_check(card, failed, "preparing queues");
}

/* The shared-memory configuration of an SM is set when it is idle, as the next kernel requests. */
static int set_carveout(const pair_card *card, side_kernel *kernel, bool has_carveout) {
    enum { ALL = 100, AS_NEEDED = -1 };
    return gs_cuda_kernel_carve(&card->api, &kernel->kernel, has_carveout ? ALL : AS_NEEDED);
}

static int launch_form(pair_side *side, const pair_card *card, const gs_zoo_launch *launch, const pair_way *way) {
    side_kernel *kernel = &side->forms[way->form][launch->kind];
    uint32_t blocks = launch->grid[0] * launch->grid[1] * launch->grid[2];
    gs_control control = gs_control_at(side->control, NULL, false);
    gs_persistent_parameter persistent = gs_control_persistent(&control, launch->grid, launch->shared_bytes, 0, 0);
    gs_confined_parameter confined;
    void *arguments[GS_COUNT(launch->list) + 1];
    cu_call call = {.grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                    .block = {launch->block[0], launch->block[1], launch->block[2]},
                    .shared_bytes = launch->shared_bytes,
                    .stream = side_stream(side)};
    gs_cuda_point(arguments, launch->list, launch->arguments, side->memory);
    if (way->form != GS_FORM_ORIGINAL) {
        bool is_confined = way->form == GS_FORM_CONFINED;
        control.next = side->control + COUNTERS_AT + GS_CONTROL_LINE * (uint64_t)(side->launched++ % PAIR_QUEUES);
        control.stop = 0;
        confined = gs_control_grid(&control, launch->grid, launch->shared_bytes, 0, 0);
        arguments[launch->arguments] = is_confined ? (void *)&confined : (void *)&persistent;
        uint32_t workers = way->workers[launch->kind] * (uint32_t)card->sms;
        call.grid[0] = is_confined ? workers : (uint32_t)gs_min(workers, blocks);
        call.grid[1] = call.grid[2] = 1;
    }
    int failed = set_carveout(card, kernel, way->has_carveout);
    return !failed && blocks ? gs_cuda_launch(&card->api, &kernel->kernel, &call, arguments) : failed;
}

bool side_restore(pair_side *side, pair_card *card) {
    int failed = 0;
    for (size_t i = 0; i < side->instance.buffer_count && !failed; i++)
        if (side->is_changed[i])
            failed = card->api.copy_later(side->memory[i], side->saved[i], bytes_of(side, i) - 16, side_stream(side));
    return card_check(card, failed, "restoring buffers");
}

bool side_pass(pair_side *side, pair_card *card, const pair_way *way) {
    int failed = 0;
    if (!side->kernel)
        return multiply_blas(side);
    if (side->kernel->changes_inputs && !side_restore(side, card))
        return false;
    for (size_t i = 0; i < side->instance.launches.count && !failed; i++)
        failed = launch_form(side, card, &side->instance.launches.data[i], way);
    return card_check(card, failed, side->name);
}

bool side_is_complete(const pair_side *side, pair_card *card, const pair_way *way) {
    static uint64_t counters[COUNTERS_BYTES / sizeof(uint64_t)];
    if (way->form != GS_FORM_CONFINED || !side->kernel || !side->launched)
        return true;
    uint32_t count = (uint32_t)gs_min(side->launched, PAIR_QUEUES);
    if (!card_check(card, card->api.copy_out(counters, side->control + COUNTERS_AT, count * GS_CONTROL_LINE),
                    "reading counters"))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *grid = side->instance.launches.data[i % side->instance.launches.count].grid;
        if (counters[i * GS_CONTROL_LINE / sizeof *counters] < (uint64_t)grid[0] * grid[1] * grid[2])
            return false;
    }
    return true;
}

/* ---- results ---- */

static bool is_result(const pair_side *side, size_t number) {
    return side->is_changed[number] && !side->instance.buffers[number].is_scratch;
}

static bool fetch(pair_card *card, cu_pointer from, size_t bytes, void **data) {
    *data = malloc(bytes + 1);
    return *data && card_check(card, card->api.copy_out(*data, from, bytes), "fetching results");
}

/* With the tolerance of the kernel, on the CPU. */
static bool is_close(const pair_side *side, pair_card *card, size_t number) {
    const gs_zoo_buffer *buffer = &side->instance.buffers[number];
    size_t bytes = bytes_of(side, number) - 16;
    void *right = NULL, *found = NULL;
    bool is_close =
        fetch(card, side->kept[number], bytes, &right) && fetch(card, side->memory[number], bytes, &found) &&
        gs_scalars_differ(buffer->type, right, found, buffer->count, side->kernel->tolerance) == buffer->count;
    free(right);
    free(found);
    return is_close;
}

static bool is_same(const pair_side *side, pair_card *card, size_t number) {
    const cu_api *api = &card->api;
    uint64_t words = (bytes_of(side, number) - 16) / 4;
    uint32_t differing = 1;
    void *arguments[] = {(void *)(uintptr_t)&side->memory[number], (void *)(uintptr_t)&side->kept[number], &words,
                         &card->differing};
    const cu_call call = {.grid = {1024, 1, 1}, .block = {256, 1, 1}, .stream = side->stream};
    int failed = api->set_bytes_later(card->differing, 0, 4, side->stream);
    failed = failed ? failed : gs_cuda_launch(api, &card->differ, &call, arguments);
    failed = failed ? failed : api->stream_wait(side->stream);
    failed = failed ? failed : api->copy_out(&differing, card->differing, sizeof differing);
    return card_check(card, failed, "comparing results") && !differing;
}

bool side_keep(pair_side *side, pair_card *card) {
    int failed = 0;
    for (size_t i = 0; i < side->instance.buffer_count && !failed; i++) {
        if (!is_result(side, i))
            continue;
        failed = card->api.alloc(&side->kept[i], bytes_of(side, i));
        failed = failed ? failed
                        : card->api.copy_later(side->kept[i], side->memory[i], bytes_of(side, i) - 16, side->stream);
        failed = failed ? failed : card->api.stream_wait(side->stream);
    }
    return card_check(card, failed, "keeping results");
}

bool side_is_right(pair_side *side, pair_card *card) {
    bool is_right = true;
    for (size_t i = 0; i < side->instance.buffer_count && is_right; i++)
        is_right = !is_result(side, i) || is_same(side, card, i) || is_close(side, card, i);
    return is_right;
}
