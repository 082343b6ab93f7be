/*
 * ptx_variables.c: reads the declarations of variables, parameters and registers. See ptx.h.
 */
#include "ptx_parser.h"

#include <stdlib.h>

#define X(name, word, bytes) {"." word, bytes},
static const struct {
    const char *word;
    uint32_t bytes;
} types[] = {{"", 0}, GS_PTX_TYPES(X)};
#undef X

uint32_t gs_ptx_type_bytes(gs_ptx_type type) {
    return types[type].bytes;
}

const char *gs_ptx_type_name(gs_ptx_type type) {
    return type == GS_PTX_NO_TYPE ? "" : types[type].word + 1;
}

/* ---- steps ---- */

gs_code gs_ptx_parse_fail(gs_ptx_parser *parser, uint32_t token, const char *message) {
    if (token >= parser->module->tokens.count)
        return gs_ptx_fail(parser->module, token, parser->error, GS_E_SYNTAX, "the module ends here; %s", message);
    return gs_ptx_fail(parser->module, token, parser->error, GS_E_SYNTAX, "%s", message);
}

gs_code gs_ptx_expect(gs_ptx_parser *parser, char mark) {
    char message[40];
    if (gs_ptx_punct(parser->module, parser->at) == mark) {
        parser->at++;
        return GS_OK;
    }
    snprintf(message, sizeof message, "expected '%c'", mark);
    return gs_ptx_parse_fail(parser, parser->at, message);
}

gs_code gs_ptx_skip_brackets(gs_ptx_parser *parser) {
    uint32_t open = parser->at;
    size_t depth = 0;
    do {
        char mark = gs_ptx_punct(parser->module, parser->at);
        if (parser->at >= parser->module->tokens.count)
            return gs_ptx_parse_fail(parser, open, "this bracket is not closed");
        depth += mark == '(' || mark == '[' || mark == '{';
        depth -= mark == ')' || mark == ']' || mark == '}';
        parser->at++;
    } while (depth);
    return GS_OK;
}

/* ---- variables ---- */

static const struct {
    const char *word;
    gs_ptx_space space;
} spaces[] = {{".reg", GS_PTX_REG},       {".global", GS_PTX_GLOBAL}, {".const", GS_PTX_CONST},
              {".shared", GS_PTX_SHARED}, {".local", GS_PTX_LOCAL},   {".param", GS_PTX_PARAM},
              {".tex", GS_PTX_TEX}};

static bool take_space(gs_ptx_parser *parser, uint8_t *space) {
    for (size_t i = 0; i < GS_COUNT(spaces); i++)
        if (gs_ptx_take(parser, spaces[i].word)) {
            *space = (uint8_t)spaces[i].space;
            return true;
        }
    return false;
}

static bool take_type(gs_ptx_parser *parser, uint8_t *type) {
    for (size_t i = 1; i < GS_COUNT(types); i++)
        if (gs_ptx_take(parser, types[i].word)) {
            *type = (uint8_t)i;
            return true;
        }
    return false;
}

/* Reads the directives between the space and the name: alignment, vector, type, and the target of a pointer. */
static gs_code parse_specifiers(gs_ptx_parser *parser, gs_ptx_variable *variable) {
    gs_code code = GS_OK;
    uint8_t pointed;
    bool is_pointer = false;
    while (code == GS_OK && gs_ptx_is_kind(parser, GS_PTX_DIRECTIVE)) {
        if (gs_ptx_take(parser, ".align")) {
            uint32_t align = (uint32_t)gs_ptx_take_number(parser);
            variable->align = is_pointer ? variable->align : align;
        } else if (gs_ptx_take(parser, ".ptr")) {
            is_pointer = true;
        } else if (gs_ptx_take(parser, ".v2") || gs_ptx_take(parser, ".v4") || gs_ptx_take(parser, ".v8")) {
            variable->lanes = (uint8_t)(parser->module->text[parser->module->tokens.data[parser->at - 1].at + 2] - '0');
        } else if (is_pointer && take_space(parser, &pointed)) {
            continue;
        } else if (!take_type(parser, &variable->type)) {
            parser->at++;
            if (gs_ptx_punct_at(parser) == '(')
                code = gs_ptx_skip_brackets(parser);
        }
    }
    return code;
}

static gs_code parse_dimensions(gs_ptx_parser *parser, gs_ptx_variable *variable) {
    uint64_t bytes = (uint64_t)variable->lanes * types[variable->type].bytes;
    while (gs_ptx_punct_at(parser) == '[') {
        parser->at++;
        variable->is_array = true;
        if (gs_ptx_punct_at(parser) == ']')
            variable->has_no_size = true;
        else if (__builtin_mul_overflow(bytes, gs_ptx_take_number(parser), &bytes))
            return gs_ptx_parse_fail(parser, parser->at - 1, "the array exceeds the address space");
        while (parser->at < parser->module->tokens.count && gs_ptx_punct_at(parser) != ']')
            parser->at++;
        gs_code code = gs_ptx_expect(parser, ']');
        if (code != GS_OK)
            return code;
    }
    variable->bytes = variable->has_no_size ? 0 : bytes;
    return GS_OK;
}

static gs_code skip_initializer(gs_ptx_parser *parser, gs_ptx_variable *variable) {
    gs_code code = GS_OK;
    if (gs_ptx_punct_at(parser) != '=')
        return GS_OK;
    variable->initializer = ++parser->at;
    while (code == GS_OK && parser->at < parser->module->tokens.count && gs_ptx_punct_at(parser) != ',' &&
           gs_ptx_punct_at(parser) != ';') {
        if (gs_ptx_punct_at(parser) == '{' || gs_ptx_punct_at(parser) == '(')
            code = gs_ptx_skip_brackets(parser);
        else
            parser->at++;
    }
    return code;
}

/* Gives registers their numbers: `%r<12>` has twelve. */
static gs_code number_registers(gs_ptx_parser *parser, gs_ptx_variable *variable, bool *is_numbered) {
    gs_ptx_module *module = parser->module;
    enum { MOST_REGISTERS = 1 << 22 };
    uint64_t count = 1;
    *is_numbered = gs_ptx_punct_at(parser) == '<';
    if (*is_numbered) {
        parser->at++;
        count = gs_ptx_take_number(parser);
        gs_code code = gs_ptx_expect(parser, '>');
        if (code != GS_OK)
            return code;
    }
    if (parser->function == GS_PTX_NONE)
        return gs_ptx_parse_fail(parser, variable->name, "registers belong to a function: declare them in its braces");
    if (count > MOST_REGISTERS)
        return gs_ptx_parse_fail(parser, variable->name, "too many registers");
    if (!GS_RESERVE(&module->register_types, count))
        return gs_fail_memory(parser->error);
    variable->register_first = (uint32_t)module->register_types.count - module->register_bases.data[parser->function];
    variable->register_count = (uint32_t)count;
    if (count)
        memset(module->register_types.data + module->register_types.count, variable->type, count);
    module->register_types.count += count;
    return GS_OK;
}

/* One name of a declaration. */
static gs_code parse_declarator(gs_ptx_parser *parser, gs_ptx_variable *variable) {
    gs_ptx_module *module = parser->module;
    bool is_numbered = false;
    gs_code code = GS_OK;
    variable->name = parser->at;
    if (!gs_ptx_is_kind(parser, GS_PTX_WORD))
        return gs_ptx_parse_fail(parser, parser->at, "expected a name");
    parser->at++;
    if (variable->space == GS_PTX_REG)
        code = number_registers(parser, variable, &is_numbered);
    if (code == GS_OK)
        code = parse_dimensions(parser, variable);
    if (code == GS_OK)
        code = skip_initializer(parser, variable);
    if (code != GS_OK)
        return code;
    variable->last = parser->at - 1;
    variable->align = variable->align ? variable->align : types[variable->type].bytes * variable->lanes;
    if (!GS_RESERVE(&module->variables, 1))
        return gs_fail_memory(parser->error);
    module->variables.data[module->variables.count++] = *variable;
    gs_ptx_note_memory(parser, (uint32_t)module->variables.count - 1);
    return gs_ptx_make_visible(parser, (uint32_t)module->variables.count - 1, is_numbered)
               ? GS_OK
               : gs_fail_memory(parser->error);
}

gs_code gs_ptx_parse_variables(gs_ptx_parser *parser, bool is_parameter) {
    gs_ptx_variable variable = {.first = parser->at,
                                .lanes = 1,
                                .initializer = GS_PTX_NONE,
                                .function = parser->function,
                                .depth = parser->depth};
    while (gs_ptx_is(parser, ".visible") || gs_ptx_is(parser, ".extern") || gs_ptx_is(parser, ".weak") ||
           gs_ptx_is(parser, ".common"))
        variable.is_extern = variable.is_extern || gs_ptx_is(parser, ".extern"), parser->at++;
    if (!take_space(parser, &variable.space))
        return gs_ptx_parse_fail(parser, parser->at, "expected a state space, such as .reg or .param");
    gs_code code = parse_specifiers(parser, &variable);
    for (;;) {
        gs_ptx_variable one = variable;
        if (code == GS_OK)
            code = parse_declarator(parser, &one);
        if (code != GS_OK || is_parameter || gs_ptx_punct_at(parser) != ',')
            return code;
        parser->at++;
    }
}
