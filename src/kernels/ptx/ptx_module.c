/*
 * ptx_module.c: reads a module: its directives and functions. See ptx.h.
 *
 * Directives without a meaning here (.file, .section, attributes) are skipped; they stay in the text.
 */
#include "ptx_parser.h"

#include <stdlib.h>

enum { NEWEST_VERSION = 90, LARGEST = 256 << 20 };

/* ---- functions ---- */

/* `( .param .b32 a, .param .b64 b )`, or nothing. */
static gs_code parse_parameters(gs_ptx_parser *parser, uint32_t *first, uint32_t *count) {
    gs_code code = GS_OK;
    *first = (uint32_t)parser->module->variables.count;
    *count = 0;
    if (gs_ptx_punct_at(parser) != '(')
        return GS_OK;
    parser->at++;
    while (code == GS_OK && gs_ptx_punct_at(parser) != ')') {
        if (gs_ptx_punct_at(parser) == '.' || gs_ptx_is(parser, "...")) { /* a variable list of arguments */
            parser->at++;
            continue;
        }
        code = gs_ptx_parse_variables(parser, true);
        if (code == GS_OK && gs_ptx_punct_at(parser) == ',')
            code = gs_ptx_punct(parser->module, ++parser->at) == ')'
                       ? gs_ptx_parse_fail(parser, parser->at, "expected another parameter after the ','")
                       : GS_OK;
        else if (code == GS_OK && gs_ptx_punct_at(parser) != ')')
            code = gs_ptx_parse_fail(parser, parser->at, "expected ',' or ')'");
    }
    *count = (uint32_t)parser->module->variables.count - *first;
    return code == GS_OK ? gs_ptx_expect(parser, ')') : code;
}

static void take_numbers(gs_ptx_parser *parser, uint32_t numbers[3]) {
    for (int i = 0; i < 3; i++)
        numbers[i] = 1;
    for (int i = 0; i < 3; i++) {
        numbers[i] = (uint32_t)gs_ptx_take_number(parser);
        if (gs_ptx_punct_at(parser) != ',')
            return;
        parser->at++;
    }
}

/* The directives between the parameters and the body. */
static void parse_limits(gs_ptx_parser *parser, gs_ptx_limits *limits) {
    while (parser->at < parser->module->tokens.count && gs_ptx_punct_at(parser) != '{' &&
           gs_ptx_punct_at(parser) != ';') {
        if (gs_ptx_take(parser, ".maxntid")) {
            take_numbers(parser, limits->max_threads);
        } else if (gs_ptx_take(parser, ".reqntid")) {
            take_numbers(parser, limits->required_threads);
        } else if (gs_ptx_take(parser, ".reqnctapercluster")) {
            take_numbers(parser, limits->cluster);
            limits->has_cluster_words = true;
        } else if (gs_ptx_take(parser, ".minnctapersm")) {
            limits->min_blocks = (uint32_t)gs_ptx_take_number(parser);
        } else if (gs_ptx_take(parser, ".maxnreg")) {
            limits->max_registers = (uint32_t)gs_ptx_take_number(parser);
        } else {
            /* .maxclusterrank only limits clusters that a launch may ask for */
            limits->has_cluster_words = limits->has_cluster_words || gs_ptx_is(parser, ".explicitcluster") ||
                                        gs_ptx_is(parser, ".blocksareclusters");
            bool is_pragma = gs_ptx_is(parser, ".pragma");
            parser->at++;
            if (is_pragma && gs_ptx_is_kind(parser, GS_PTX_STRING))
                parser->at += gs_ptx_punct(parser->module, parser->at + 1) == ';' ? 2 : 1;
        }
    }
}

static gs_code parse_head(gs_ptx_parser *parser, gs_ptx_function *function) {
    gs_code code = GS_OK;
    parser->at++; /* .func or .entry */
    while (code == GS_OK && gs_ptx_is_kind(parser, GS_PTX_DIRECTIVE)) {
        parser->at++;
        if (gs_ptx_punct_at(parser) == '(')
            code = gs_ptx_skip_brackets(parser);
    }
    if (code == GS_OK)
        code = parse_parameters(parser, &function->returns, &function->return_count);
    if (code != GS_OK)
        return code;
    if (!gs_ptx_is_kind(parser, GS_PTX_WORD))
        return gs_ptx_parse_fail(parser, parser->at, "expected the name of a function");
    function->name = parser->at++;
    bool has_list = gs_ptx_punct_at(parser) == '(';
    code = parse_parameters(parser, &function->parameters, &function->parameter_count);
    function->parameter_close = has_list ? parser->at - 1 : GS_PTX_NONE;
    if (code == GS_OK)
        parse_limits(parser, &function->limits);
    return code;
}

static gs_code parse_function(gs_ptx_parser *parser, uint32_t first, bool is_extern, bool is_weak) {
    gs_ptx_module *module = parser->module;
    gs_ptx_function function = {.is_entry = gs_ptx_is(parser, ".entry"),
                                .is_extern = is_extern,
                                .is_weak = is_weak,
                                .first = first,
                                .open = GS_PTX_NONE,
                                .close = GS_PTX_NONE};
    size_t names = parser->names.count;
    if (!GS_RESERVE(&module->functions, 1) || !GS_RESERVE(&module->register_bases, 1))
        return gs_fail_memory(parser->error);
    parser->function = (uint32_t)module->functions.count;
    module->register_bases.data[module->register_bases.count++] = (uint32_t)module->register_types.count;
    gs_code code = parse_head(parser, &function);
    function.statements = (uint32_t)module->statements.count;
    if (code == GS_OK && gs_ptx_punct_at(parser) == '{') {
        function.is_defined = true;
        code = gs_ptx_parse_body(parser, &function);
    } else if (code == GS_OK) {
        code = gs_ptx_expect(parser, ';');
    }
    function.statement_count = (uint32_t)module->statements.count - function.statements;
    function.register_count = (uint32_t)module->register_types.count - module->register_bases.data[parser->function];
    function.last = parser->at - 1;
    module->functions.data[module->functions.count++] = function;
    parser->function = GS_PTX_NONE;
    gs_ptx_leave_scope(parser, names);
    return code;
}

/* ---- the module ---- */

static void skip_line(gs_ptx_parser *parser) {
    do
        parser->at++;
    while (parser->at < parser->module->tokens.count && !parser->module->tokens.data[parser->at].begins_line);
}

static gs_code skip_statement(gs_ptx_parser *parser) {
    gs_code code = GS_OK;
    while (code == GS_OK && parser->at < parser->module->tokens.count && gs_ptx_punct_at(parser) != ';') {
        if (gs_ptx_punct_at(parser) == '{' || gs_ptx_punct_at(parser) == '(')
            code = gs_ptx_skip_brackets(parser);
        else
            parser->at++;
    }
    return code == GS_OK ? gs_ptx_expect(parser, ';') : code;
}

static gs_code parse_alias(gs_ptx_parser *parser) {
    gs_ptx_module *module = parser->module;
    uint32_t name = parser->at + 1, function = parser->at + 3;
    if (gs_ptx_punct(module, name + 1) != ',' || function >= module->tokens.count ||
        module->tokens.data[name].kind != GS_PTX_WORD || module->tokens.data[function].kind != GS_PTX_WORD)
        return gs_ptx_parse_fail(parser, name, "expected two names");
    if (!GS_RESERVE(&module->aliases, 1))
        return gs_fail_memory(parser->error);
    module->aliases.data[module->aliases.count++] = (gs_ptx_alias){name, function};
    return skip_statement(parser);
}

static gs_code parse_item(gs_ptx_parser *parser) {
    uint32_t first = parser->at;
    bool is_extern = false, is_weak = false;
    if (gs_ptx_is(parser, ".file") || gs_ptx_punct_at(parser) == '@') {
        skip_line(parser);
        return GS_OK;
    }
    if (gs_ptx_take(parser, ".section")) {
        while (parser->at < parser->module->tokens.count && gs_ptx_punct_at(parser) != '{')
            parser->at++;
        return gs_ptx_skip_brackets(parser);
    }
    if (gs_ptx_is(parser, ".alias"))
        return parse_alias(parser);
    if (gs_ptx_is(parser, ".pragma"))
        return skip_statement(parser);
    for (;; parser->at++) {
        is_extern = is_extern || gs_ptx_is(parser, ".extern");
        is_weak = is_weak || gs_ptx_is(parser, ".weak");
        if (!gs_ptx_is(parser, ".visible") && !gs_ptx_is(parser, ".extern") && !gs_ptx_is(parser, ".weak") &&
            !gs_ptx_is(parser, ".common"))
            break;
    }
    if (gs_ptx_is(parser, ".func") || gs_ptx_is(parser, ".entry"))
        return parse_function(parser, first, is_extern, is_weak);
    parser->at = first;
    if (!gs_ptx_is_kind(parser, GS_PTX_DIRECTIVE))
        return gs_ptx_parse_fail(parser, parser->at, "expected a variable or a function");
    gs_code code = gs_ptx_parse_variables(parser, false);
    return code == GS_OK ? gs_ptx_expect(parser, ';') : code;
}

/* ".version 9.0", ".target sm_90, debug" and ".address_size 64", in this order. */
static gs_code parse_first_lines(gs_ptx_parser *parser) {
    gs_ptx_module *module = parser->module;
    char number[16] = "";
    int major = 0, minor = 0;
    if (!gs_ptx_take(parser, ".version"))
        return gs_ptx_parse_fail(parser, parser->at, "not PTX: expected .version");
    if (gs_ptx_is_kind(parser, GS_PTX_NUMBER))
        gs_ptx_token_text(module, parser->at, number, sizeof number);
    if (sscanf(number, "%d.%d", &major, &minor) != 2 || minor > 9)
        return gs_ptx_parse_fail(parser, parser->at, "expected a version, such as 9.0");
    module->version = major * 10 + minor;
    if (module->version > NEWEST_VERSION)
        return gs_ptx_fail(module, parser->at, parser->error, GS_E_SYNTAX,
                           "PTX %s is not supported; the newest supported version is %d.%d", number,
                           NEWEST_VERSION / 10, NEWEST_VERSION % 10);
    parser->at++;
    if (!gs_ptx_take(parser, ".target") || !gs_ptx_is_kind(parser, GS_PTX_WORD))
        return gs_ptx_parse_fail(parser, parser->at, "expected .target and a GPU, such as sm_90");
    gs_ptx_token_text(module, parser->at++, module->target, sizeof module->target);
    while (gs_ptx_punct_at(parser) == ',')
        parser->at += 2;
    module->address_bits = 32;
    if (gs_ptx_take(parser, ".address_size"))
        module->address_bits = (int)gs_ptx_take_number(parser);
    return GS_OK;
}

/* Allocates all lists, so that a pointer to the first of zero operands is valid. */
static bool make_lists(gs_ptx_module *module) {
    return GS_RESERVE(&module->variables, 1) && GS_RESERVE(&module->functions, 1) && GS_RESERVE(&module->aliases, 1) &&
           GS_RESERVE(&module->statements, 1) && GS_RESERVE(&module->operands, 1) &&
           GS_RESERVE(&module->register_types, 1) && GS_RESERVE(&module->register_bases, 1);
}

gs_code gs_ptx_read(gs_ptx_module *module, const char *name, const char *text, size_t size, gs_error *error) {
    *module = (gs_ptx_module){.name = name, .text = text, .size = size};
    if (size > LARGEST)
        return gs_fail(error, GS_E_USAGE, "%s has more than %d MB", name, LARGEST >> 20);
    gs_ptx_parser *parser = calloc(1, sizeof *parser);
    gs_code code = parser && make_lists(module) ? gs_ptx_tokenize(module, error) : gs_fail_memory(error);
    if (code == GS_OK) {
        parser->module = module;
        parser->error = error;
        parser->function = GS_PTX_NONE;
        code = parse_first_lines(parser);
        while (code == GS_OK && parser->at < module->tokens.count)
            code = parse_item(parser);
    }
    if (parser)
        free(parser->names.data);
    free(parser);
    if (code != GS_OK)
        gs_ptx_free(module);
    return code;
}

void gs_ptx_free(gs_ptx_module *module) {
    free(module->tokens.data);
    free(module->variables.data);
    free(module->functions.data);
    free(module->aliases.data);
    free(module->statements.data);
    free(module->operands.data);
    free(module->register_types.data);
    free(module->register_bases.data);
    *module = (gs_ptx_module){.name = NULL};
}

/* ---- questions ---- */

/* The defined function of which a declared one is an alias; or `found`. */
static int find_aliased(const gs_ptx_module *module, const char *name, int found) {
    for (size_t i = 0; i < module->aliases.count; i++) {
        const gs_ptx_token *target = &module->tokens.data[module->aliases.data[i].function];
        if (!gs_ptx_token_is(module, module->aliases.data[i].name, name))
            continue;
        for (size_t k = 0; k < module->functions.count; k++) {
            const gs_ptx_token *other = &module->tokens.data[module->functions.data[k].name];
            if (module->functions.data[k].is_defined && other->length == target->length &&
                memcmp(module->text + other->at, module->text + target->at, other->length) == 0)
                return (int)k;
        }
    }
    return found;
}

int gs_ptx_find_function(const gs_ptx_module *module, const char *name) {
    int found = -1;
    for (size_t i = 0; i < module->functions.count; i++)
        if (gs_ptx_token_is(module, module->functions.data[i].name, name) &&
            (found < 0 || module->functions.data[i].is_defined))
            found = (int)i;
    return found >= 0 && !module->functions.data[found].is_defined ? find_aliased(module, name, found) : found;
}

int gs_ptx_called_function(const gs_ptx_module *module, const gs_ptx_statement *statement, uint32_t *operand) {
    const gs_ptx_operand *operands = module->operands.data + statement->operands;
    char name[GS_PTX_SYMBOL_MOST];
    *operand = statement->count > 1 && operands[0].kind == GS_PTX_LIST ? 1 : 0;
    if (*operand >= statement->count || operands[*operand].kind != GS_PTX_SYMBOL)
        return -1;
    gs_ptx_token_text(module, operands[*operand].first, name, sizeof name);
    return gs_ptx_find_function(module, name);
}

gs_ptx_type gs_ptx_register_type(const gs_ptx_module *module, uint32_t function, uint32_t number) {
    return module->register_types.data[module->register_bases.data[function] + number];
}

uint32_t gs_ptx_find_entry(const gs_ptx_module *module, const char *symbol) {
    for (uint32_t i = 0; i < module->functions.count; i++) {
        const gs_ptx_function *function = &module->functions.data[i];
        if (function->is_entry && function->is_defined && gs_ptx_token_is(module, function->name, symbol))
            return i;
    }
    return GS_PTX_NONE;
}
