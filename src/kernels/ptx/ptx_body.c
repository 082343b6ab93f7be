/*
 * ptx_body.c: reads the body of a function: labels, declarations, instructions and their operands. See ptx.h.
 *
 * Braces inside a body open a scope for names; compilers put them around calls and inline assembly. Statements are one
 * flat list, with GS_PTX_OPEN and GS_PTX_CLOSE for the braces.
 */
#include "ptx_parser.h"

#include <stdlib.h>

/* ---- operands ---- */

static gs_code parse_operand(gs_ptx_parser *parser, gs_ptx_operand *operand, int depth);

/* Operands inside brackets. They are collected first, because the children of an operand stand side by side. */
static gs_code parse_children(gs_ptx_parser *parser, gs_ptx_operand *operand, char close, int depth) {
    enum { MOST_CHILDREN = 256, DEEPEST = 4 };
    gs_ptx_module *module = parser->module;
    gs_ptx_operand *children = NULL;
    size_t count = 0, capacity = 0;
    gs_code code = depth < DEEPEST ? GS_OK : gs_ptx_parse_fail(parser, parser->at, "brackets are nested too deep here");
    while (code == GS_OK && gs_ptx_punct_at(parser) != close) {
        if (count == MOST_CHILDREN)
            code = gs_ptx_parse_fail(parser, parser->at, "too many operands");
        else if (!gs_array_reserve((void **)&children, count, &capacity, 1, sizeof *children))
            code = gs_fail_memory(parser->error);
        if (code == GS_OK)
            code = parse_operand(parser, &children[count], depth + 1);
        count += code == GS_OK;
        if (code == GS_OK && gs_ptx_punct_at(parser) == ',')
            parser->at++;
        else if (code == GS_OK && gs_ptx_punct_at(parser) != close)
            code = gs_ptx_parse_fail(parser, parser->at, "expected ',' or a closing bracket");
    }
    if (code == GS_OK && !GS_RESERVE(&module->operands, count))
        code = gs_fail_memory(parser->error);
    if (code == GS_OK) {
        operand->children = (uint32_t)module->operands.count;
        operand->count = (uint32_t)count;
        if (count)
            memcpy(module->operands.data + module->operands.count, children, count * sizeof *children);
        module->operands.count += count;
        code = gs_ptx_expect(parser, close);
    }
    free(children);
    return code;
}

#define X(name, word, scope) word,
static const char *const specials[] = {GS_PTX_SPECIALS(X)};
#undef X

/* %tid.x, %envreg3, %pm0_64: the letters up to the first digit or dot decide; the digits of clock64 belong to it. */
static uint32_t special_of(const char *name, size_t length) {
    const char *dot = memchr(name, '.', length);
    length = dot ? (size_t)(dot - name) : length;
    for (uint32_t i = 0; i < GS_PTX_SPECIAL_COUNT; i++)
        if (strlen(specials[i]) + 1 == length && memcmp(name + 1, specials[i], length - 1) == 0)
            return i;
    if (length > 7 && memcmp(name, "%envreg", 7) == 0)
        return GS_PTX_ENVREG;
    return length > 3 && memcmp(name, "%pm", 3) == 0 ? GS_PTX_PM : GS_PTX_NONE;
}

/* `+ 4`, `+-4`, `- 4` or `+ 4*3` after a name. */
static void parse_offset(gs_ptx_parser *parser, gs_ptx_operand *operand) {
    uint32_t start = parser->at;
    if (gs_ptx_punct_at(parser) != '+' && gs_ptx_punct_at(parser) != '-')
        return;
    parser->at += gs_ptx_punct_at(parser) == '+';
    if (!gs_ptx_take_constant(parser, &operand->bits))
        parser->at = start;
}

static void parse_word(gs_ptx_parser *parser, gs_ptx_operand *operand) {
    const gs_ptx_module *module = parser->module;
    const gs_ptx_token *token = &module->tokens.data[parser->at];
    const char *name = module->text + token->at;
    uint32_t variable = gs_ptx_look_up(parser, parser->at, &operand->value, &operand->part);
    if (variable != GS_PTX_NONE && module->variables.data[variable].space == GS_PTX_REG) {
        operand->kind = GS_PTX_REGISTER;
    } else if (variable == GS_PTX_NONE && name[0] == '%') {
        operand->kind = GS_PTX_SPECIAL;
        operand->value = special_of(name, token->length);
    } else {
        operand->kind = GS_PTX_SYMBOL;
        operand->value = variable;
    }
    parser->at++;
    if (operand->kind == GS_PTX_SYMBOL)
        parse_offset(parser, operand);
}

static gs_code parse_number(gs_ptx_parser *parser, gs_ptx_operand *operand) {
    gs_ptx_operand_kind kind;
    bool is_negative = gs_ptx_punct_at(parser) == '-';
    uint32_t number = parser->at + is_negative;
    if (!gs_ptx_number(parser->module, number, &kind, &operand->bits))
        return gs_ptx_parse_fail(parser, number, "this is not a number");
    operand->kind = (uint8_t)kind;
    if (is_negative)
        operand->bits = kind == GS_PTX_INTEGER ? -operand->bits : operand->bits ^ (uint64_t)1 << 63;
    parser->at = number + 1;
    return GS_OK;
}

static bool is_one_of(char mark, const char *marks) {
    return mark && strchr(marks, mark);
}

/* Any other operand, up to the next comma or the end. */
static gs_code skip_operand(gs_ptx_parser *parser, gs_ptx_operand *operand) {
    gs_code code = GS_OK;
    uint32_t start = parser->at;
    operand->kind = GS_PTX_OTHER;
    while (code == GS_OK && parser->at < parser->module->tokens.count && !is_one_of(gs_ptx_punct_at(parser), ",;]})")) {
        if (is_one_of(gs_ptx_punct_at(parser), "([{"))
            code = gs_ptx_skip_brackets(parser);
        else
            parser->at++;
    }
    return code == GS_OK && parser->at == start ? gs_ptx_parse_fail(parser, start, "expected an operand") : code;
}

/* %p1|%p2: combines the operand that was read with the next one. */
static gs_code parse_pair(gs_ptx_parser *parser, gs_ptx_operand *operand) {
    gs_ptx_module *module = parser->module;
    gs_ptx_operand pair = {.kind = GS_PTX_PAIR, .first = operand->first, .count = 2}, second = {0};
    parser->at++;
    second.first = parser->at;
    if (!gs_ptx_is_kind(parser, GS_PTX_WORD))
        return gs_ptx_parse_fail(parser, parser->at, "expected a register");
    operand->last = parser->at - 2;
    parse_word(parser, &second);
    second.last = parser->at - 1;
    if (!GS_RESERVE(&module->operands, 2))
        return gs_fail_memory(parser->error);
    pair.children = (uint32_t)module->operands.count;
    module->operands.data[module->operands.count++] = *operand;
    module->operands.data[module->operands.count++] = second;
    *operand = pair;
    return GS_OK;
}

static gs_code parse_address(gs_ptx_parser *parser, gs_ptx_operand *operand, int depth) {
    operand->kind = GS_PTX_ADDRESS;
    parser->at++;
    return parse_children(parser, operand, ']', depth);
}

/* WARP_SZ is a number. */
static bool is_name(const gs_ptx_parser *parser, uint32_t token) {
    return token < parser->module->tokens.count && parser->module->tokens.data[token].kind == GS_PTX_WORD &&
           !gs_ptx_token_is(parser->module, token, "WARP_SZ");
}

static gs_code parse_operand(gs_ptx_parser *parser, gs_ptx_operand *operand, int depth) {
    gs_code code = GS_OK;
    *operand = (gs_ptx_operand){.first = parser->at, .value = GS_PTX_NONE};
    if (gs_ptx_punct_at(parser) == '!' && is_name(parser, parser->at + 1)) {
        operand->is_negated = true;
        parser->at++;
    }
    char mark = gs_ptx_punct_at(parser);
    bool is_list = mark == '(' && parser->is_call && depth == 0;
    if (!is_name(parser, parser->at) && !is_list && gs_ptx_take_constant(parser, &operand->bits)) {
        operand->kind = GS_PTX_INTEGER;
    } else if (gs_ptx_is_kind(parser, GS_PTX_WORD)) {
        parse_word(parser, operand);
        if (operand->kind == GS_PTX_REGISTER)
            parse_offset(parser, operand);
        if (gs_ptx_punct_at(parser) == '|')
            code = parse_pair(parser, operand);
        else if (gs_ptx_punct_at(parser) == '[') /* an element of an array: tab[3] */
            code = skip_operand(parser, operand);
    } else if (gs_ptx_is_kind(parser, GS_PTX_NUMBER) || mark == '-') {
        code = parse_number(parser, operand);
        if (code == GS_OK && is_one_of(gs_ptx_punct_at(parser), "+-*/%<>=&|^?")) /* an expression of real numbers */
            code = skip_operand(parser, operand);
    } else if (mark == '[') {
        code = parse_address(parser, operand, depth);
    } else if (mark == '{' || mark == '(') {
        operand->kind = mark == '{' ? GS_PTX_VECTOR : GS_PTX_LIST;
        parser->at++;
        code = parse_children(parser, operand, mark == '{' ? '}' : ')', depth);
    } else {
        code = skip_operand(parser, operand);
    }
    operand->last = parser->at - 1;
    return code;
}

/* ---- reads and writes ---- */

static void set_access(gs_ptx_module *module, gs_ptx_operand *operand, uint8_t access) {
    operand->access = access;
    for (uint32_t i = 0; i < operand->count; i++)
        set_access(module, &module->operands.data[operand->children + i],
                   operand->kind == GS_PTX_ADDRESS ? GS_PTX_READ : access);
}

/* call (returned), function, (arguments): the first list is written if a name follows it. */
static void set_call_access(gs_ptx_module *module, const gs_ptx_statement *statement) {
    gs_ptx_operand *operands = module->operands.data + statement->operands;
    for (uint32_t i = 0; i < statement->count; i++) {
        bool is_returned = i == 0 && statement->count > 1 && operands[0].kind == GS_PTX_LIST;
        set_access(module, &operands[i], is_returned ? GS_PTX_WRITE : GS_PTX_READ);
    }
}

static void set_accesses(gs_ptx_module *module, const gs_ptx_statement *statement, const char *letters) {
    size_t last = strlen(letters) - 1;
    for (uint32_t i = 0; i < statement->count; i++) {
        char letter = letters[gs_min_u64(i, last)];
        set_access(module, &module->operands.data[statement->operands + i],
                   letter == 'w'   ? GS_PTX_WRITE
                   : letter == 'm' ? GS_PTX_READ | GS_PTX_WRITE
                                   : GS_PTX_READ);
    }
}

/* ---- statements ---- */

static gs_code add_statement(gs_ptx_parser *parser, gs_ptx_statement *statement) {
    statement->last = parser->at - 1;
    if (!GS_RESERVE(&parser->module->statements, 1))
        return gs_fail_memory(parser->error);
    parser->module->statements.data[parser->module->statements.count++] = *statement;
    return GS_OK;
}

static gs_code parse_guard(gs_ptx_parser *parser, gs_ptx_statement *statement) {
    uint8_t part;
    if (gs_ptx_punct_at(parser) != '@')
        return GS_OK;
    parser->at++;
    if (gs_ptx_punct_at(parser) == '!') {
        statement->guard_is_negated = true;
        parser->at++;
    }
    if (!gs_ptx_is_kind(parser, GS_PTX_WORD))
        return gs_ptx_parse_fail(parser, parser->at, "expected a predicate");
    uint32_t variable = gs_ptx_look_up(parser, parser->at, &statement->guard, &part);
    if (variable == GS_PTX_NONE || parser->module->variables.data[variable].space != GS_PTX_REG)
        return gs_ptx_parse_fail(parser, parser->at, "undeclared predicate");
    parser->at++;
    return GS_OK;
}

/* The operands, up to `;`. Like children they are collected first. */
static gs_code parse_operands(gs_ptx_parser *parser, gs_ptx_statement *statement) {
    enum { MOST_OPERANDS = 64 };
    gs_ptx_module *module = parser->module;
    gs_ptx_operand operands[MOST_OPERANDS];
    gs_code code = GS_OK;
    uint32_t count = 0;
    while (code == GS_OK && gs_ptx_punct_at(parser) != ';') {
        if (count == MOST_OPERANDS)
            return gs_ptx_parse_fail(parser, parser->at, "this instruction has too many operands");
        code = parse_operand(parser, &operands[count++], 0);
        if (code == GS_OK && gs_ptx_punct_at(parser) == ',')
            parser->at++;
        else if (code == GS_OK && gs_ptx_punct_at(parser) != ';')
            code = gs_ptx_parse_fail(parser, parser->at, "expected ',' or ';'");
    }
    if (code == GS_OK && !GS_RESERVE(&module->operands, count))
        code = gs_fail_memory(parser->error);
    if (code != GS_OK)
        return code;
    statement->operands = (uint32_t)module->operands.count;
    statement->count = count;
    if (count)
        memcpy(module->operands.data + module->operands.count, operands, count * sizeof *operands);
    module->operands.count += count;
    return GS_OK;
}

static gs_code parse_instruction(gs_ptx_parser *parser) {
    gs_ptx_module *module = parser->module;
    gs_ptx_statement statement = {.kind = GS_PTX_INSTRUCTION, .first = parser->at, .guard = GS_PTX_NONE};
    gs_code code = parse_guard(parser, &statement);
    if (code == GS_OK && !gs_ptx_is_kind(parser, GS_PTX_WORD))
        code = gs_ptx_parse_fail(parser, parser->at, "expected an instruction");
    if (code != GS_OK)
        return code;
    statement.word = parser->at++;
    const gs_ptx_token *word = &module->tokens.data[statement.word];
    statement.row = gs_ptx_opcode_find(module->text + word->at, word->length);
    const gs_ptx_opcode *opcode = gs_ptx_row(&statement);
    statement.opcode = (uint8_t)opcode->class;
    parser->is_call = opcode->class == GS_PTX_CALL;
    code = parse_operands(parser, &statement);
    if (code != GS_OK)
        return code;
    if (opcode->class == GS_PTX_CALL)
        set_call_access(module, &statement);
    else
        set_accesses(module, &statement, opcode->operands);
    parser->at++; /* the `;` */
    return add_statement(parser, &statement);
}

static bool is_declaration(const gs_ptx_parser *parser) {
    static const char *const words[] = {".reg", ".local", ".shared", ".param", ".global", ".const"};
    for (size_t i = 0; i < GS_COUNT(words); i++)
        if (gs_ptx_token_is(parser->module, parser->at, words[i]))
            return true;
    return false;
}

static gs_code parse_declaration(gs_ptx_parser *parser) {
    gs_ptx_statement statement = {.kind = GS_PTX_DECLARATION,
                                  .first = parser->at,
                                  .guard = GS_PTX_NONE,
                                  .operands = (uint32_t)parser->module->variables.count};
    gs_code code = gs_ptx_parse_variables(parser, false);
    statement.count = (uint32_t)parser->module->variables.count - statement.operands;
    if (code == GS_OK)
        code = gs_ptx_expect(parser, ';');
    return code == GS_OK ? add_statement(parser, &statement) : code;
}

/* .loc ends with its line, everything else with a `;`. */
static gs_code parse_note(gs_ptx_parser *parser) {
    gs_ptx_module *module = parser->module;
    gs_ptx_statement statement = {.kind = GS_PTX_NOTE, .first = parser->at, .word = parser->at, .guard = GS_PTX_NONE};
    bool is_line = gs_ptx_token_is(module, parser->at, ".loc") || gs_ptx_token_is(module, parser->at, ".file");
    do
        parser->at++;
    while (parser->at < module->tokens.count &&
           (is_line ? !module->tokens.data[parser->at].begins_line : gs_ptx_punct_at(parser) != ';'));
    gs_code code = is_line ? GS_OK : gs_ptx_expect(parser, ';');
    return code == GS_OK ? add_statement(parser, &statement) : code;
}

static bool is_label(const gs_ptx_parser *parser) {
    return gs_ptx_is_kind(parser, GS_PTX_WORD) && gs_ptx_punct(parser->module, parser->at + 1) == ':';
}

static gs_code parse_statement(gs_ptx_parser *parser) {
    gs_ptx_statement statement = {.kind = GS_PTX_LABEL, .first = parser->at, .word = parser->at, .guard = GS_PTX_NONE};
    if (is_label(parser)) {
        parser->at += 2;
        return add_statement(parser, &statement);
    }
    if (is_declaration(parser))
        return parse_declaration(parser);
    if (gs_ptx_is_kind(parser, GS_PTX_DIRECTIVE))
        return parse_note(parser);
    if (gs_ptx_punct_at(parser) == ';') { /* an empty statement */
        statement.kind = GS_PTX_NOTE;
        parser->at++;
        return add_statement(parser, &statement);
    }
    return parse_instruction(parser);
}

gs_code gs_ptx_parse_body(gs_ptx_parser *parser, gs_ptx_function *function) {
    size_t names[GS_PTX_DEEPEST + 1];
    gs_code code = GS_OK;
    function->open = parser->at;
    parser->depth = 0;
    do {
        gs_ptx_statement brace = {.first = parser->at, .word = parser->at, .guard = GS_PTX_NONE};
        if (parser->at >= parser->module->tokens.count)
            return gs_ptx_parse_fail(parser, parser->at, "expected '}'");
        if (gs_ptx_punct_at(parser) == '{') {
            if (parser->depth == GS_PTX_DEEPEST)
                return gs_ptx_parse_fail(parser, parser->at, "braces are nested too deep here");
            names[parser->depth++] = parser->names.count;
            brace.kind = GS_PTX_OPEN;
        } else if (gs_ptx_punct_at(parser) == '}') {
            gs_ptx_leave_scope(parser, names[--parser->depth]);
            brace.kind = GS_PTX_CLOSE;
        } else {
            code = parse_statement(parser);
            continue;
        }
        parser->at++;
        code = add_statement(parser, &brace);
    } while (code == GS_OK && parser->depth);
    function->close = parser->at - 1;
    return code;
}

/* ---- questions ---- */

bool gs_ptx_is_listed(const char *list, const char *word, size_t length) {
    for (const char *at = list; length && *at; at++) { /* `at` is the beginning of a word; this runs very often */
        if (*at == *word && strncmp(at, word, length) == 0 && (at[length] == ' ' || !at[length]))
            return true;
        while (*at && *at != ' ')
            at++;
        if (!*at)
            return false;
    }
    return false;
}

bool gs_ptx_has(const gs_ptx_module *module, const gs_ptx_statement *statement, const char *suffixes) {
    const gs_ptx_token *word = &module->tokens.data[statement->word];
    const char *at = module->text + word->at, *end = at + word->length;
    while ((at = memchr(at, '.', (size_t)(end - at)))) {
        at++;
        const char *next = memchr(at, '.', (size_t)(end - at));
        if (gs_ptx_is_listed(suffixes, at, (size_t)((next ? next : end) - at)))
            return true;
    }
    return false;
}
