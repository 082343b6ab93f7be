/*
 * ptx_host_flow.c: branches, calls, barriers, and collective operations of warps. See ptx_host.h.
 */
#include "ptx_host.h"

#include <stdlib.h>

/* ---- branches ---- */

static bool tokens_are_equal(const gs_ptx_module *module, uint32_t a, uint32_t b) {
    const gs_ptx_token *first = &module->tokens.data[a], *second = &module->tokens.data[b];
    return first->length == second->length &&
           memcmp(module->text + first->at, module->text + second->at, first->length) == 0;
}

/* The statement of the label that a token names, seen from a statement: that of the innermost braces. */
static uint32_t find_label(gs_ptx_host *host, uint32_t token, uint32_t from) {
    const gs_ptx_module *module = host->module;
    uint32_t found = GS_PTX_NONE, open = 0;
    for (size_t i = 0; i < host->labels.count; i++) {
        const gs_ptx_label *label = &host->labels.data[i];
        if (label->open <= from && from <= label->close && (found == GS_PTX_NONE || label->open >= open) &&
            tokens_are_equal(module, module->statements.data[label->statement].word, token)) {
            found = label->statement;
            open = label->open;
        }
    }
    if (found == GS_PTX_NONE)
        gs_ptx_host_refuse(host, token, "unknown label");
    return found;
}

static void put_jump(gs_ptx_host *host, uint32_t token, uint32_t from) {
    uint32_t label = find_label(host, token, from);
    gs_ptx_put(host, label <= from ? "{ ptx_jump_back(t); goto L%u; }" : "goto L%u;", label);
}

void gs_ptx_translate_branch(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    if (!gs_ptx_wants(host, instruction, 1, 1))
        return;
    put_jump(host, instruction->operands[0].first, instruction->number);
}

void gs_ptx_translate_branch_table(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    const gs_ptx_module *module = host->module;
    if (!gs_ptx_wants(host, instruction, 2, 2))
        return;
    uint32_t label = find_label(host, instruction->operands[1].first, instruction->number);
    uint32_t targets = label == GS_PTX_NONE ? GS_PTX_NONE : gs_ptx_table_of(module, label), number = 0;
    if (targets == GS_PTX_NONE) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    const gs_ptx_statement *list = &module->statements.data[targets];
    gs_ptx_put(host, "ptx_jump_back(t); switch (%s) {", gs_ptx_value(host, &instruction->operands[0], GS_PTX_U32).text);
    for (uint32_t token = list->word + 1; token < list->last; token++)
        if (module->tokens.data[token].kind == GS_PTX_WORD)
            gs_ptx_put(host, " case %u: goto L%u;", number++, find_label(host, token, targets));
    gs_ptx_put(host, " default: ptx_trap(t, %u); }", instruction->line);
}

void gs_ptx_translate_return(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    (void)instruction;
    gs_ptx_put(host, "goto done;");
}

void gs_ptx_translate_exit(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    (void)instruction;
    gs_ptx_put(host, host->module->functions.data[host->function].is_entry ? "goto done;" : "gs_host_exit();");
}

void gs_ptx_translate_trap(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    gs_ptx_put(host, "ptx_trap(t, %u);", instruction->line);
}

/* ---- calls ---- */

/* Functions that every CUDA program has. */
static const struct {
    const char *name, *c;
} known_functions[] = {{"vprintf", "ptx_call_vprintf"},
                       {"__assertfail", "ptx_call_assertfail"},
                       {"malloc", "ptx_call_malloc"},
                       {"free", "ptx_call_free"}};

/* An element of `io`: the address of a parameter, or of a copy of a register. Results are copied back afterwards. */
static void put_io(gs_ptx_host *host, const gs_ptx_operand *operand, bool is_result, uint32_t number) {
    if (operand->kind == GS_PTX_SYMBOL && operand->value != GS_PTX_NONE &&
        host->module->variables.data[operand->value].space == GS_PTX_PARAM)
        gs_ptx_put(host, "(void *)%s", gs_ptx_variable_address(host, operand->value, operand->bits).text);
    else if (is_result)
        gs_ptx_put(host, "&result%u", number);
    else
        gs_ptx_put(host, "&(uint64_t){%s}", gs_ptx_value(host, operand, GS_PTX_U64).text);
}

static bool is_copied(const gs_ptx_operand *operand) {
    return operand->kind == GS_PTX_REGISTER;
}

static void put_callee(gs_ptx_host *host, const gs_ptx_operand *callee) {
    char name[GS_PTX_NAME];
    if (callee->kind == GS_PTX_REGISTER) {
        gs_ptx_put(host, "((gs_ptx_function_call *)(uintptr_t)%s)", gs_ptx_value(host, callee, GS_PTX_U64).text);
        return;
    }
    gs_ptx_token_text(host->module, callee->first, name, sizeof name);
    int function = gs_ptx_find_function(host->module, name);
    if (function >= 0 && host->module->functions.data[function].is_defined) {
        gs_ptx_put(host, "f%d", function);
        return;
    }
    for (size_t i = 0; i < GS_COUNT(known_functions); i++)
        if (strcmp(known_functions[i].name, name) == 0) {
            gs_ptx_put(host, "%s", known_functions[i].c);
            return;
        }
    gs_ptx_host_refuse(host, callee->first, "the function %.100s is not defined in this module", name);
}

/* call (results), function, (arguments), prototype */
void gs_ptx_translate_call(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    const gs_ptx_operand *operands = instruction->operands, *results = NULL, *callee, *arguments = NULL;
    uint32_t at = 0, count = 0;
    if (!gs_ptx_wants(host, instruction, 1, 4))
        return;
    if (operands[0].kind == GS_PTX_LIST && instruction->operand_count > 1)
        results = &operands[at++];
    callee = &operands[at++];
    if (at < instruction->operand_count && operands[at].kind == GS_PTX_LIST)
        arguments = &operands[at];
    if (callee->kind != GS_PTX_REGISTER && callee->kind != GS_PTX_SYMBOL) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    gs_ptx_put(host, "{");
    for (uint32_t i = 0; results && i < results->count; i++)
        if (is_copied(gs_ptx_element(host, results, i)))
            gs_ptx_put(host, " uint64_t result%u;", i);
    gs_ptx_put(host, " void *io[] = {");
    for (uint32_t i = 0; results && i < results->count; i++) {
        put_io(host, gs_ptx_element(host, results, i), true, i);
        gs_ptx_put(host, ", ");
        count++;
    }
    for (uint32_t i = 0; arguments && i < arguments->count; i++) {
        put_io(host, gs_ptx_element(host, arguments, i), false, i);
        gs_ptx_put(host, ", ");
        count++;
    }
    gs_ptx_put(host, count ? "}; " : "0}; ");
    put_callee(host, callee);
    gs_ptx_put(host, "(t, io);");
    for (uint32_t i = 0; results && i < results->count; i++)
        if (is_copied(gs_ptx_element(host, results, i)))
            gs_ptx_put(host, " %sresult%u;", gs_ptx_target(host, gs_ptx_element(host, results, i)).text, i);
    gs_ptx_put(host, " }");
}

/* ---- barriers ---- */

/* bar.sync a{, b}; bar.arrive a, b; bar.red.popc.u32 d, a{, b}, c; bar.red.and.pred p, a{, b}, c */
void gs_ptx_translate_barrier(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    static const struct {
        const char *word, *kind;
    } kinds[] = {{"sync", "GS_WAIT_BAR"},
                 {"arrive", "GS_WAIT_BARRIER_ARRIVE"},
                 {"popc", "GS_WAIT_BAR_POPC"},
                 {"and", "GS_WAIT_BAR_AND"},
                 {"or", "GS_WAIT_BAR_OR"}};
    const gs_ptx_operand *operands = instruction->operands;
    const char *kind = NULL;
    bool reduces = gs_ptx_word(instruction, "red");
    /* bar is barrier.aligned: all threads of a warp execute the same one. Votes need that too: on an H200, lanes of a
       warp that vote in one barrier at different places get wrong results, such as -1 of barrier.red.popc. */
    bool is_aligned = strcmp(instruction->words[0], "bar") == 0 || gs_ptx_word(instruction, "aligned");
    for (size_t i = 0; i < GS_COUNT(kinds); i++)
        if (gs_ptx_word(instruction, kinds[i].word))
            kind = kinds[i].kind;
    if (!kind) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    if (!gs_ptx_wants(host, instruction, reduces ? 3 : 1, reduces ? 4 : 2))
        return;
    uint32_t first = reduces, last = instruction->operand_count - reduces;
    gs_ptx_put(host, "%sptx_bar(t, %s, %s, %s, ", reduces ? gs_ptx_target(host, &operands[0]).text : "(void)", kind,
               is_aligned || reduces ? "GS_SCOPE_OF_WARP" : "GS_SCOPE_OF_THREAD",
               gs_ptx_value(host, &operands[first], GS_PTX_U32).text);
    gs_ptx_put(host, "%s, ", last > first + 1 ? gs_ptx_value(host, &operands[first + 1], GS_PTX_U32).text : "0");
    gs_ptx_put(host, "%s, %u)%s;", reduces ? gs_ptx_value(host, &operands[last], GS_PTX_PRED).text : "0",
               instruction->line, reduces && gs_ptx_word(instruction, "pred") ? " != 0" : "");
}

void gs_ptx_translate_barrier_warp(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    if (gs_ptx_wants(host, instruction, 1, 1))
        gs_ptx_put(host, "ptx_bar_warp(t, %s, %u);", gs_ptx_value(host, &instruction->operands[0], GS_PTX_U32).text,
                   instruction->line);
}

/* A cluster is one block. Its barrier is a barrier of the block. */
void gs_ptx_translate_barrier_cluster(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    if (gs_ptx_word(instruction, "arrive"))
        gs_ptx_put(host, ";");
    else
        gs_ptx_put(host, "(void)ptx_bar(t, GS_WAIT_BAR, GS_SCOPE_OF_THREAD, GS_BARRIERS - 1, 0, 0, %u);",
                   instruction->line);
}

void gs_ptx_translate_fence(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    (void)instruction;
    gs_ptx_put(host, "ptx_fence();");
}

void gs_ptx_translate_sleep(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    if (strcmp(instruction->words[0], "nanosleep") == 0)
        gs_ptx_put(host, "gs_host_yield();");
    else
        gs_ptx_put(host, ";"); /* prefetch, pmevent and others */
}

void gs_ptx_translate_nothing(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    (void)instruction;
    gs_ptx_put(host, ";");
}

/* ---- warps ---- */

static bool is_sync(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    if (gs_ptx_word(instruction, "sync"))
        return true;
    gs_ptx_host_refuse_instruction(host, instruction);
    return false;
}

/* The two targets of d|p; the second may be absent. */
static gs_ptx_c first_target(gs_ptx_host *host, const gs_ptx_operand *operand) {
    return gs_ptx_target(host, operand->kind == GS_PTX_PAIR ? gs_ptx_element(host, operand, 0) : operand);
}

static void put_second(gs_ptx_host *host, const gs_ptx_operand *operand) {
    if (operand->kind == GS_PTX_PAIR)
        gs_ptx_put(host, " %sflag;", gs_ptx_target(host, gs_ptx_element(host, operand, 1)).text);
}

void gs_ptx_translate_shfl(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    static const struct {
        const char *word, *mode;
    } modes[] = {{"up", "PTX_SHFL_UP"}, {"down", "PTX_SHFL_DOWN"}, {"bfly", "PTX_SHFL_BFLY"}, {"idx", "PTX_SHFL_IDX"}};
    const gs_ptx_operand *operands = instruction->operands;
    const char *mode = NULL;
    for (size_t i = 0; i < GS_COUNT(modes); i++)
        if (gs_ptx_word(instruction, modes[i].word))
            mode = modes[i].mode;
    if (!is_sync(host, instruction) || !gs_ptx_wants(host, instruction, 5, 5) || !mode) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    gs_ptx_put(host, "{ uint8_t flag; %sptx_shfl(t, %s", first_target(host, &operands[0]).text, mode);
    for (uint32_t i = 1; i <= 4; i++)
        gs_ptx_put(host, ", %s", gs_ptx_value(host, &operands[i], GS_PTX_B32).text);
    gs_ptx_put(host, ", &flag, %u);", instruction->line);
    put_second(host, &operands[0]);
    gs_ptx_put(host, " }");
}

void gs_ptx_translate_vote(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    static const char *const modes[] = {"ballot", "all", "any", "uni"};
    const char *mode = NULL;
    for (size_t i = 0; i < GS_COUNT(modes); i++)
        if (gs_ptx_word(instruction, modes[i]))
            mode = modes[i];
    if (!is_sync(host, instruction) || !gs_ptx_wants(host, instruction, 3, 3) || !mode)
        gs_ptx_host_refuse_instruction(host, instruction);
    else
        gs_ptx_put(host, "%sptx_vote_%s(t, %s, %s, %u);", gs_ptx_target(host, &instruction->operands[0]).text, mode,
                   gs_ptx_value(host, &instruction->operands[1], GS_PTX_PRED).text,
                   gs_ptx_value(host, &instruction->operands[2], GS_PTX_B32).text, instruction->line);
}

void gs_ptx_translate_match(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    const gs_ptx_operand *operands = instruction->operands;
    gs_ptx_type type = gs_ptx_nth_type(instruction, 0);
    bool is_all = gs_ptx_word(instruction, "all");
    if (!is_sync(host, instruction) || !gs_ptx_wants(host, instruction, 3, 3))
        return;
    gs_ptx_c value = gs_ptx_value(host, &operands[1], type), mask = gs_ptx_value(host, &operands[2], GS_PTX_B32);
    gs_ptx_put(host, "{ uint8_t flag = 0; %sptx_match_%s(t, (%s)%s, %s, %s%u);", first_target(host, &operands[0]).text,
               is_all ? "all" : "any", gs_ptx_bits_type(type), value.text, mask.text, is_all ? "&flag, " : "",
               instruction->line);
    put_second(host, &operands[0]);
    gs_ptx_put(host, " }");
}

void gs_ptx_translate_redux(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    static const char known[] =
        "add_u32 add_s32 min_u32 min_s32 max_u32 max_s32 and_b32 or_b32 xor_b32 min_f32 max_f32 "
        "min_NaN_f32 max_NaN_f32";
    char name[64] = "";
    size_t length = 0;
    if (!is_sync(host, instruction) || !gs_ptx_wants(host, instruction, 3, 3))
        return;
    for (uint32_t i = 1; i < instruction->count; i++)
        if (strcmp(instruction->words[i], "sync") != 0 && length < sizeof name)
            length +=
                (size_t)snprintf(name + length, sizeof name - length, "%s%s", length ? "_" : "", instruction->words[i]);
    if (!gs_ptx_listed(known, name))
        gs_ptx_host_refuse_instruction(host, instruction);
    else
        gs_ptx_put(host, "%sptx_redux(t, ptx_redux_%s, %s, %s, %u);",
                   gs_ptx_target(host, &instruction->operands[0]).text, name,
                   gs_ptx_value(host, &instruction->operands[1], GS_PTX_B32).text,
                   gs_ptx_value(host, &instruction->operands[2], GS_PTX_B32).text, instruction->line);
}

void gs_ptx_translate_elect(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    if (!is_sync(host, instruction) || !gs_ptx_wants(host, instruction, 2, 2))
        return;
    gs_ptx_put(host, "{ uint8_t flag; %sptx_elect(t, %s, &flag, %u);",
               first_target(host, &instruction->operands[0]).text,
               gs_ptx_value(host, &instruction->operands[1], GS_PTX_B32).text, instruction->line);
    put_second(host, &instruction->operands[0]);
    gs_ptx_put(host, " }");
}

void gs_ptx_translate_activemask(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    if (gs_ptx_wants(host, instruction, 1, 1))
        gs_ptx_put(host, "%sptx_activemask(t, %u, %u);", gs_ptx_target(host, &instruction->operands[0]).text,
                   instruction->line, instruction->number);
}
