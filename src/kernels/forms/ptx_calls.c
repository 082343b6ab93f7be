/*
 * ptx_calls.c: the functions that a kernel calls.
 *
 * A function is unchanged, unless it reads the number of the block or the size of the grid. Then the form calls a copy
 * of it, which reads them from shared memory, where each thread stores them when it begins a block. Functions that call
 * a copied function are copied, too. A function that may be called through a pointer cannot be copied: that is each
 * whose name stands elsewhere than in declarations and calls, and each that other modules may name.
 *
 * A function may wait for other threads if all of them reach the wait: the threads of the block a barrier, the lanes of
 * a warp a shuffle. That holds if all calls on the way are uniform (ptx_uniform.c); one through a pointer is, if all
 * have the same pointer. The parameters of a function are assumed to differ in each thread.
 */
#include "ptx_facts.h"

#include <stdlib.h>

/* Functions of CUDA that neither depend on the block nor wait for others. */
static const char *const harmless_functions[] = {
    "vprintf", "malloc", "free", "__assertfail", "__nv_aligned_device_malloc", "cudaGraphSetConditional"};

/* The state of a function: the worst scope with which it is called, whether it may be called through a pointer, and
   what it or a function that it calls reads that a form replaces. */
struct visit {
    bool is_made, is_pointer;
    uint8_t scope; /* gs_ptx_scope */
    uint32_t root; /* the function of the pointer: itself, or one that calls it */
    const char *reads;
};

/* A walk over calls. */
struct reach {
    gs_ptx_kernel *kernel;
    gs_ptx_barriers *barriers;
    gs_error *error;
    const gs_ptx_statement *call; /* of the kernel, for errors */
    struct visit *visits;         /* of each function */
    bool *taken;                  /* functions to which there may be pointers; NULL: not looked for yet */
    bool is_pointer;              /* it is called through a pointer, */
    uint32_t root;                /* which is of this function */
};

static gs_code look_at_function(struct reach *reach, uint32_t number, gs_ptx_scope scope);

/* Whether other modules may name a function: it has `.visible`, `.weak` or `.extern` before `.func`. */
static bool is_public(const gs_ptx_module *module, uint32_t function) {
    uint32_t at = module->functions.data[function].name;
    while (at > 0 && !gs_ptx_token_is(module, at, ".func"))
        at--;
    return at == 0 || module->tokens.data[at - 1].kind == GS_PTX_DIRECTIVE;
}

/* Marks tokens by which functions are declared and called. */
static void mark_plain_uses(const gs_ptx_module *module, bool *is_plain) {
    for (uint32_t f = 0; f < module->functions.count; f++) {
        const gs_ptx_function *function = &module->functions.data[f];
        is_plain[function->name] = true;
        for (uint32_t i = function->statements; i < function->statements + function->statement_count; i++) {
            const gs_ptx_statement *statement = &module->statements.data[i];
            uint32_t operand;
            if (statement->kind == GS_PTX_INSTRUCTION && statement->opcode == GS_PTX_CALL &&
                gs_ptx_called_function(module, statement, &operand) >= 0)
                is_plain[module->operands.data[statement->operands + operand].first] = true;
        }
    }
}

/* By the first letter of a word: a bit for each length that names of functions have. Most words are none of these. */
static uint64_t *lengths_of(const gs_ptx_module *module, const gs_ptx_token *word, uint64_t lengths[256]) {
    return &lengths[(unsigned char)module->text[word->at]];
}

static uint64_t length_bit(const gs_ptx_token *word) {
    return 1ull << (word->length & 63);
}

/* Sets reach->taken. False: out of memory. */
static bool find_taken(struct reach *reach) {
    const gs_ptx_module *module = reach->kernel->module;
    bool *is_plain = calloc(module->tokens.count + 1, sizeof *is_plain);
    uint64_t lengths[256] = {0};
    reach->taken = calloc(module->functions.count + 1, sizeof *reach->taken);
    if (is_plain && reach->taken) {
        mark_plain_uses(module, is_plain);
        char name[GS_PTX_SYMBOL_MOST];
        for (uint32_t f = 0; f < module->functions.count; f++) {
            const gs_ptx_token *word = &module->tokens.data[module->functions.data[f].name];
            gs_ptx_token_text(module, module->functions.data[f].name, name, sizeof name);
            bool is_of_others = !module->functions.data[f].is_defined && gs_ptx_find_function(module, name) == (int)f;
            reach->taken[f] = is_of_others || is_public(module, f);
            *lengths_of(module, word, lengths) |= length_bit(word);
        }
        for (uint32_t i = 0; i < module->tokens.count; i++) {
            const gs_ptx_token *word = &module->tokens.data[i];
            bool may_be =
                word->kind == GS_PTX_WORD && !is_plain[i] && *lengths_of(module, word, lengths) & length_bit(word);
            int function = may_be ? gs_ptx_find_function(module, gs_ptx_token_text(module, i, name, sizeof name)) : -1;
            if (function >= 0)
                reach->taken[function] = true;
        }
    }
    free(is_plain);
    return is_plain && reach->taken;
}

/* A call through a pointer may reach any function of the module to which there may be one. */
static gs_code look_at_all(struct reach *reach, gs_ptx_scope scope) {
    gs_code code = reach->taken || find_taken(reach) ? GS_OK : gs_fail_memory(reach->error);
    bool was_pointer = reach->is_pointer;
    uint32_t was_root = reach->root;
    reach->is_pointer = true;
    for (uint32_t i = 0; i < reach->kernel->module->functions.count && code == GS_OK; i++)
        if (!reach->kernel->module->functions.data[i].is_entry && reach->taken[i]) {
            reach->root = i;
            code = look_at_function(reach, i, scope);
        }
    reach->is_pointer = was_pointer;
    reach->root = was_root;
    return code;
}

static gs_code look_at_call(struct reach *reach, const gs_ptx_statement *statement, gs_ptx_scope scope) {
    const gs_ptx_module *module = reach->kernel->module;
    uint32_t operand;
    int function = gs_ptx_called_function(module, statement, &operand);
    if (function >= 0)
        return look_at_function(reach, (uint32_t)function, scope);
    const gs_ptx_operand *operands = module->operands.data + statement->operands;
    bool is_pointer = operand >= statement->count || operands[operand].kind != GS_PTX_SYMBOL;
    return is_pointer ? look_at_all(reach, scope)
                      : gs_ptx_refuse(reach->kernel, reach->call, reach->error, "it calls an undeclared function");
}

/* What an operand reads that a form replaces, in words; NULL: nothing. */
static const char *replaced_in(const gs_ptx_module *module, const gs_ptx_operand *operand) {
    const char *found = NULL;
    if (operand->kind == GS_PTX_SPECIAL && operand->value == GS_PTX_CTAID)
        return "the number of the block";
    if (operand->kind == GS_PTX_SPECIAL && operand->value == GS_PTX_NCTAID)
        return "the size of the grid";
    if (gs_ptx_reads_shared_size(operand))
        return "the size of dynamic shared memory";
    for (uint32_t i = 0; i < operand->count && !found; i++)
        found = replaced_in(module, &module->operands.data[operand->children + i]);
    return found;
}

static const char *replaced_by(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    const char *found = NULL;
    for (uint32_t i = 0; statement->kind == GS_PTX_INSTRUCTION && i < statement->count && !found; i++)
        found = replaced_in(module, &module->operands.data[statement->operands + i]);
    return found;
}

/* The name of a function for a message; of a long one, the beginning and the end. */
enum { SHORT_NAME = 200 };
static void short_name(const gs_ptx_module *module, uint32_t function, char into[SHORT_NAME]) {
    const gs_ptx_token *name = &module->tokens.data[module->functions.data[function].name];
    const char *text = module->text + name->at;
    int part = SHORT_NAME / 2 - 4, length = (int)name->length;
    if (length < SHORT_NAME)
        snprintf(into, SHORT_NAME, "%.*s", length, text);
    else
        snprintf(into, SHORT_NAME, "%.*s...%.*s", part, text, part, text + length - part);
}

/* Refuses a call of a function, directly or through the pointer of one that calls it. */
static gs_code refuse_function(const struct reach *reach, uint32_t number, bool is_pointer, const char *verb,
                               const char *reason) {
    char name[SHORT_NAME], root[SHORT_NAME];
    uint32_t pointed = reach->visits[number].root;
    short_name(reach->kernel->module, number, name);
    short_name(reach->kernel->module, pointed, root);
    if (!is_pointer)
        return gs_ptx_refuse(reach->kernel, reach->call, reach->error, "it calls %s, %s%s", name, verb, reason);
    if (pointed == number)
        return gs_ptx_refuse(reach->kernel, reach->call, reach->error, "it may call %s through a pointer, %s%s", name,
                             verb, reason);
    return gs_ptx_refuse(reach->kernel, reach->call, reach->error,
                         "it may call %s through a pointer, which calls %s, %s%s", root, name, verb, reason);
}

static gs_code refuse_call(const struct reach *reach, uint32_t number, const char *reason) {
    return refuse_function(reach, number, reach->is_pointer, "", reason);
}

static gs_code refuse_pointer(const struct reach *reach, uint32_t number) {
    return refuse_function(reach, number, true, "which reads ", reach->visits[number].reads);
}

/* A statement of a function, which threads within `scope` execute together. */
static gs_code look_into_function(struct reach *reach, uint32_t number, const gs_ptx_statement *statement,
                                  gs_ptx_scope scope) {
    gs_ptx_kernel *kernel = reach->kernel;
    gs_code code = gs_ptx_check_statement(kernel, statement, reach->error);
    if (code != GS_OK || statement->kind != GS_PTX_INSTRUCTION)
        return code;
    const char *reads = replaced_by(kernel->module, statement);
    if (reads) {
        reach->visits[number].reads = reads;
        if (reach->is_pointer)
            return refuse_pointer(reach, number);
        kernel->is_copied[number] = true;
    }
    switch (statement->opcode) {
    case GS_PTX_BARRIER:
        if (scope != GS_PTX_SAME_BLOCK)
            return refuse_call(reach, number, "which has a barrier that some threads may not reach");
        reach->barriers->called = reach->call;
        return gs_ptx_look_at_barrier(kernel, statement, scope, reach->barriers, reach->error);
    case GS_PTX_EXIT:
        return refuse_call(reach, number, "which ends threads");
    case GS_PTX_SHUFFLE:
    case GS_PTX_BARRIER_WARP:
        return scope != GS_PTX_SAME_THREAD
                   ? GS_OK
                   : refuse_call(reach, number, "in which lanes wait for others that may not come");
    case GS_PTX_MBARRIER:
        return gs_ptx_has(kernel->module, statement, "init")
                   ? refuse_call(reach, number, "which initializes an mbarrier")
                   : GS_OK;
    case GS_PTX_ASYNC_COPY:
        kernel->loop.has_async_copies = true;
        return GS_OK;
    case GS_PTX_BULK_COPY:
        kernel->loop.has_bulk_copies = true;
        return GS_OK;
    case GS_PTX_WARPGROUP:
        kernel->loop.has_group_products = true;
        return GS_OK;
    case GS_PTX_CALL:
        return look_at_call(reach, statement, scope);
    default:
        return GS_OK;
    }
}

/* Whether a statement depends on which threads reach it. */
static bool needs_scope(const gs_ptx_statement *statement) {
    return statement->kind == GS_PTX_INSTRUCTION &&
           (statement->opcode == GS_PTX_BARRIER || statement->opcode == GS_PTX_CALL || gs_ptx_is_warp_step(statement));
}

/* The body of a function, for which the flow is made only if it is needed. */
static gs_code look_at_statements(struct reach *reach, uint32_t number, gs_ptx_scope scope) {
    const gs_ptx_module *module = reach->kernel->module;
    const gs_ptx_function *function = &module->functions.data[number];
    gs_ptx_flow flow = {0};
    gs_ptx_uniform uniform = {0};
    gs_code code = GS_OK;
    for (uint32_t i = 0; i < function->statement_count && code == GS_OK; i++) {
        const gs_ptx_statement *statement = &module->statements.data[function->statements + i];
        gs_ptx_scope here = scope;
        if (needs_scope(statement) && !uniform.runs) {
            code = gs_ptx_flow_make(&flow, module, number, reach->error);
            if (code == GS_OK)
                code = gs_ptx_uniform_make(&uniform, &flow, reach->kernel->has_whole_rows, reach->error);
            if (code != GS_OK)
                break;
        }
        if (needs_scope(statement))
            here = (gs_ptx_scope)gs_max(gs_max(scope, uniform.runs[gs_ptx_flow_block(&flow, function->statements + i)]),
                                        uniform.guards[i]);
        code = look_into_function(reach, number, statement, here);
    }
    gs_ptx_uniform_free(&uniform);
    gs_ptx_flow_free(&flow);
    return code;
}

/* The definition of a function, if there is one. */
static uint32_t definition_of(const gs_ptx_module *module, uint32_t number) {
    char name[GS_PTX_SYMBOL_MOST];
    return (uint32_t)gs_ptx_find_function(
        module, gs_ptx_token_text(module, module->functions.data[number].name, name, sizeof name));
}

static gs_code look_at_function(struct reach *reach, uint32_t number, gs_ptx_scope scope) {
    const gs_ptx_module *module = reach->kernel->module;
    char name[GS_PTX_SYMBOL_MOST];
    gs_ptx_token_text(module, module->functions.data[number].name, name, sizeof name);
    number = definition_of(module, number);
    const gs_ptx_function *function = &module->functions.data[number];
    struct visit *visit = &reach->visits[number];
    if (visit->is_made && visit->scope >= scope && visit->is_pointer >= reach->is_pointer)
        return GS_OK;
    *visit = (struct visit){.is_made = true,
                            .is_pointer = visit->is_pointer || reach->is_pointer,
                            .scope = (uint8_t)gs_max(visit->scope, scope),
                            .root = reach->is_pointer ? definition_of(module, reach->root) : visit->root,
                            .reads = visit->reads};
    for (size_t i = 0; !function->is_defined && i < GS_COUNT(harmless_functions); i++)
        if (strcmp(name, harmless_functions[i]) == 0)
            return GS_OK;
    if (!function->is_defined)
        return refuse_call(reach, number, "whose code is not in the module");
    reach->kernel->is_called[number] = true;
    reach->kernel->has_shared = true; /* it may use variables of the module */
    return look_at_statements(reach, number, scope);
}

/* ---- which functions are copied ---- */

/* A copied function that a function calls; -1: none. */
static int copied_of(const gs_ptx_kernel *kernel, const gs_ptx_function *function) {
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = &kernel->module->statements.data[function->statements + i];
        uint32_t operand;
        int called = statement->kind == GS_PTX_INSTRUCTION && statement->opcode == GS_PTX_CALL
                         ? gs_ptx_called_function(kernel->module, statement, &operand)
                         : -1;
        if (called >= 0 && kernel->is_copied[called])
            return called;
    }
    return -1;
}

/* Functions that call a copied function are copied, too. */
static gs_code spread_copies(struct reach *reach) {
    gs_ptx_kernel *kernel = reach->kernel;
    gs_code code = GS_OK;
    for (bool is_new = true; is_new;) {
        is_new = false;
        for (uint32_t i = 0; i < kernel->module->functions.count; i++) {
            const gs_ptx_function *function = &kernel->module->functions.data[i];
            int copied = reach->visits[i].is_made && !kernel->is_copied[i] ? copied_of(kernel, function) : -1;
            if (copied < 0)
                continue;
            kernel->is_copied[i] = is_new = true;
            reach->visits[i].reads = reach->visits[copied].reads;
        }
    }
    for (uint32_t i = 0; i < kernel->module->functions.count && code == GS_OK; i++) {
        if (!kernel->is_copied[i])
            continue;
        kernel->loop.stores_block = true;
        reach->call = &kernel->module->statements.data[kernel->module->functions.data[i].statements];
        code = reach->visits[i].is_pointer ? refuse_pointer(reach, i) : gs_ptx_check_names(kernel, i, reach->error);
    }
    return code;
}

gs_code gs_ptx_check_calls(gs_ptx_kernel *kernel, gs_ptx_barriers *barriers, gs_error *error) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[kernel->function];
    free(kernel->is_called);
    free(kernel->is_copied);
    kernel->is_called = calloc(module->functions.count + 1, sizeof(bool));
    kernel->is_copied = calloc(module->functions.count + 1, sizeof(bool));
    struct reach reach = {.visits = calloc(module->functions.count + 1, sizeof(struct visit)),
                          .kernel = kernel,
                          .barriers = barriers,
                          .error = error};
    gs_code code = reach.visits && kernel->is_called && kernel->is_copied ? GS_OK : gs_fail_memory(error);
    kernel->loop.stores_block = false;
    for (uint32_t i = 0; i < function->statement_count && code == GS_OK; i++) {
        reach.call = &module->statements.data[function->statements + i];
        if (reach.call->kind == GS_PTX_INSTRUCTION && reach.call->opcode == GS_PTX_CALL)
            code = look_at_call(&reach, reach.call, gs_ptx_scope_at(kernel, function->statements + i));
    }
    if (code == GS_OK)
        code = spread_copies(&reach);
    free(reach.visits);
    free(reach.taken);
    return code;
}
