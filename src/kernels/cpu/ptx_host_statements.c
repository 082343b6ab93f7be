/*
 * ptx_host_statements.c: the statements of a function, and which file translates which instruction. See ptx_host.h.
 *
 * Each statement is on the same line as in the PTX, so that the C compiler's messages and its debug information name
 * lines of the PTX. A #line replaces many empty lines.
 */
#include "ptx_host.h"

#include <stdlib.h>

/* ---- instructions ---- */

/* The translators of instructions: by name, otherwise by class. */
static const struct {
    const char *name;
    gs_ptx_translate *translate;
} by_name[] = {{"mov", gs_ptx_translate_mov},
               {"cvt", gs_ptx_translate_cvt},
               {"cvta", gs_ptx_translate_cvta},
               {"isspacep", gs_ptx_translate_isspacep},
               {"setp", gs_ptx_translate_setp},
               {"set", gs_ptx_translate_set},
               {"selp", gs_ptx_translate_selp},
               {"slct", gs_ptx_translate_slct},
               {"lop3", gs_ptx_translate_lop3},
               {"shfl", gs_ptx_translate_shfl},
               {"vote", gs_ptx_translate_vote},
               {"match", gs_ptx_translate_match},
               {"redux", gs_ptx_translate_redux},
               {"elect", gs_ptx_translate_elect},
               {"activemask", gs_ptx_translate_activemask},
               {"mma", gs_ptx_translate_mma},
               {"wmma", gs_ptx_translate_wmma},
               {"wgmma", gs_ptx_translate_wgmma},
               {"ldmatrix", gs_ptx_translate_ldmatrix},
               {"stmatrix", gs_ptx_translate_ldmatrix},
               {"movmatrix", gs_ptx_translate_movmatrix},
               {"red", gs_ptx_translate_atom},
               {"atom", gs_ptx_translate_atom},
               {"createpolicy", gs_ptx_translate_nothing},
               {"gs_access", gs_ptx_translate_access},
               {"gs_present", gs_ptx_translate_access}};

static gs_ptx_translate *const by_class[] = {
    [GS_PTX_COMPUTE] = gs_ptx_translate_compute,
    [GS_PTX_LOAD] = gs_ptx_translate_ld,
    [GS_PTX_STORE] = gs_ptx_translate_st,
    [GS_PTX_FENCE] = gs_ptx_translate_fence,
    [GS_PTX_BRANCH] = gs_ptx_translate_branch,
    [GS_PTX_BRANCH_TABLE] = gs_ptx_translate_branch_table,
    [GS_PTX_CALL] = gs_ptx_translate_call,
    [GS_PTX_RETURN] = gs_ptx_translate_return,
    [GS_PTX_EXIT] = gs_ptx_translate_exit,
    [GS_PTX_TRAP] = gs_ptx_translate_trap,
    [GS_PTX_BARRIER] = gs_ptx_translate_barrier,
    [GS_PTX_BARRIER_WARP] = gs_ptx_translate_barrier_warp,
    [GS_PTX_BARRIER_CLUSTER] = gs_ptx_translate_barrier_cluster,
    [GS_PTX_ASYNC_COPY] = gs_ptx_translate_async,
    [GS_PTX_BULK_COPY] = gs_ptx_translate_async,
    [GS_PTX_MBARRIER] = gs_ptx_translate_mbarrier,
    [GS_PTX_DEPENDENT] = gs_ptx_translate_nothing,
    [GS_PTX_CLUSTER] = gs_ptx_translate_mapa,
    [GS_PTX_REGISTERS] = gs_ptx_translate_nothing,
    [GS_PTX_STACK] = gs_ptx_translate_alloca,
    [GS_PTX_MISC] = gs_ptx_translate_sleep,
};

static gs_ptx_translate *find_translation(const gs_ptx_instruction *instruction) {
    uint8_t class = instruction->statement->opcode;
    for (size_t i = 0; i < GS_COUNT(by_name); i++)
        if (strcmp(by_name[i].name, instruction->words[0]) == 0 && class != GS_PTX_BULK_COPY)
            return by_name[i].translate;
    if (class == GS_PTX_COMPUTE && instruction->words[0][0] == 'v' && instruction->words[0][1])
        return gs_ptx_translate_video;
    return class < GS_COUNT(by_class) ? by_class[class] : NULL;
}

/* Splits the opcode into words. False: too long. */
static bool split_opcode(const gs_ptx_module *module, gs_ptx_instruction *instruction) {
    const gs_ptx_token *word = &module->tokens.data[instruction->statement->word];
    if (word->length >= sizeof instruction->text)
        return false;
    memcpy(instruction->text, module->text + word->at, word->length);
    instruction->text[word->length] = '\0';
    for (char *at = instruction->text; at;) {
        if (instruction->count == GS_PTX_MOST_WORDS)
            return false;
        instruction->words[instruction->count++] = at;
        at = strchr(at, '.');
        if (at)
            *at++ = '\0';
    }
    return true;
}

static void put_guard(gs_ptx_host *host, const gs_ptx_statement *statement) {
    gs_ptx_operand guard = {.kind = GS_PTX_REGISTER,
                            .value = statement->guard,
                            .first = statement->first,
                            .is_negated = statement->guard_is_negated};
    if (statement->guard == GS_PTX_NONE)
        return;
    if (gs_ptx_operand_type(host, &guard) != GS_PTX_PRED)
        gs_ptx_host_refuse(host, statement->first, "this guard is not a predicate");
    gs_ptx_put(host, "if (%s) ", gs_ptx_value(host, &guard, GS_PTX_PRED).text);
}

static void translate_instruction(gs_ptx_host *host, uint32_t number) {
    const gs_ptx_module *module = host->module;
    const gs_ptx_statement *statement = &module->statements.data[number];
    gs_ptx_instruction instruction = {.statement = statement,
                                      .number = number,
                                      .line = host->line,
                                      .operands = statement->count ? module->operands.data + statement->operands : NULL,
                                      .operand_count = statement->count};
    gs_ptx_translate *translate = split_opcode(module, &instruction) ? find_translation(&instruction) : NULL;
    put_guard(host, statement);
    if (translate) {
        gs_ptx_put(host, statement->guard == GS_PTX_NONE ? "" : "{ ");
        translate(host, &instruction);
        gs_ptx_put(host, statement->guard == GS_PTX_NONE ? "" : " }");
    } else {
        instruction.words[0] = instruction.text;
        gs_ptx_host_refuse_instruction(host, &instruction);
    }
}

/* ---- statements ---- */

/* Advances to the line of a token. */
static void go_to_line(gs_ptx_host *host, uint32_t token) {
    enum { MOST_EMPTY = 12 };
    const gs_ptx_module *module = host->module;
    for (; host->at < module->tokens.data[token].at; host->at++)
        host->line += module->text[host->at] == '\n';
    if (host->line > host->out_line && host->line - host->out_line <= MOST_EMPTY) {
        gs_text_put(host->into, "\n\n\n\n\n\n\n\n\n\n\n\n", host->line - host->out_line);
    } else if (host->line != host->out_line) {
        gs_ptx_put(host, "\n#line %u\n", host->line);
    } else {
        gs_ptx_put(host, " ");
    }
    host->out_line = host->line;
}

/* Labels, with the braces around them. */
static void collect_labels(gs_ptx_host *host) {
    const gs_ptx_module *module = host->module;
    const gs_ptx_function *function = &module->functions.data[host->function];
    uint32_t end = function->statements + function->statement_count, opens[80], depth = 0;
    host->labels.count = 0;
    for (uint32_t i = function->statements; i < end; i++) {
        uint8_t kind = module->statements.data[i].kind;
        if (kind == GS_PTX_OPEN && depth < GS_COUNT(opens))
            opens[depth++] = i;
        if (kind == GS_PTX_CLOSE && depth) {
            depth--;
            for (size_t k = 0; k < host->labels.count; k++)
                if (host->labels.data[k].open == opens[depth])
                    host->labels.data[k].close = i;
        }
        if (kind == GS_PTX_LABEL) {
            if (!GS_RESERVE(&host->labels, 1)) {
                host->code = host->code == GS_OK ? gs_fail_memory(host->error) : host->code;
                return;
            }
            host->labels.data[host->labels.count++] =
                (gs_ptx_label){.statement = i, .open = depth ? opens[depth - 1] : function->statements, .close = end};
        }
    }
}

void gs_ptx_translate_statements(gs_ptx_host *host) {
    const gs_ptx_module *module = host->module;
    const gs_ptx_function *function = &module->functions.data[host->function];
    uint32_t end = function->statements + function->statement_count;
    collect_labels(host);
    for (uint32_t i = function->statements; i < end && host->code == GS_OK; i++) {
        const gs_ptx_statement *statement = &module->statements.data[i];
        if (statement->kind != GS_PTX_INSTRUCTION && statement->kind != GS_PTX_LABEL)
            continue;
        go_to_line(host, statement->first);
        if (statement->kind == GS_PTX_LABEL)
            gs_ptx_put(host, "L%u:;", i);
        else
            translate_instruction(host, i);
    }
}
