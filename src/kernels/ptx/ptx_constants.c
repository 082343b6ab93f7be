/*
 * ptx_constants.c: constant expressions of whole numbers: `1+1`, `(1<<4)|3`, `[s+4*3]`. See ptx.h.
 *
 * The operators and their order are those of C. A value has 64 bits, and is signed unless it is written with a U, does
 * not fit, or comes from an operation with an unsigned one. `~` and `%` make unsigned numbers, and `?:` has the type of
 * what it chooses: this is what ptxas computes; the manual says less. Real numbers have no expressions here.
 */
#include "ptx_parser.h"

enum { DEEPEST = 32 };

struct value {
    uint64_t bits;
    bool is_unsigned;
};

/* The operators with two operands; a greater order binds more. */
static const struct operation {
    char marks[3];
    int order;
} operations[] = {{"||", 1}, {"&&", 2}, {"<<", 8}, {">>", 8}, {"<=", 7}, {">=", 7}, {"==", 6}, {"!=", 6}, {"|", 3},
                  {"^", 4},  {"&", 5},  {"<", 7},  {">", 7},  {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10}};

static bool take_conditional(gs_ptx_parser *parser, struct value *value, int depth);

/* The operator at the next token, or NULL. */
static const struct operation *operation_at(const gs_ptx_parser *parser) {
    char mark = gs_ptx_punct_at(parser), next = gs_ptx_punct(parser->module, parser->at + 1);
    for (size_t i = 0; mark && i < GS_COUNT(operations); i++)
        if (operations[i].marks[0] == mark && (!operations[i].marks[1] || operations[i].marks[1] == next))
            return &operations[i];
    return NULL;
}

/* False: a division by 0. */
static bool divide(struct value one, struct value other, bool is_unsigned, bool is_rest, uint64_t *bits) {
    bool is_lowest = one.bits == (uint64_t)INT64_MIN && other.bits == UINT64_MAX && !is_unsigned;
    if (!other.bits)
        return false;
    if (is_lowest) /* the quotient does not fit */
        *bits = is_rest ? 0 : one.bits;
    else if (is_unsigned)
        *bits = is_rest ? one.bits % other.bits : one.bits / other.bits;
    else
        *bits = (uint64_t)(is_rest ? (int64_t)one.bits % (int64_t)other.bits : (int64_t)one.bits / (int64_t)other.bits);
    return true;
}

/* Of the count, ptxas takes 6 bits. */
static uint64_t shift(struct value one, uint64_t by, bool is_left) {
    bool is_negative = !one.is_unsigned && one.bits >> 63;
    if (is_left)
        return one.bits << (by & 63);
    return is_negative ? ~(~one.bits >> (by & 63)) : one.bits >> (by & 63);
}

/* -1, 0 or 1. */
static int compare(struct value one, struct value other, bool is_unsigned) {
    uint64_t top = is_unsigned ? 0 : (uint64_t)1 << 63, a = one.bits ^ top, b = other.bits ^ top;
    return a < b ? -1 : a > b;
}

/* False: it has no value. */
static bool combine(const char *marks, struct value one, struct value other, struct value *result) {
    bool is_unsigned = one.is_unsigned || other.is_unsigned, is_double = marks[1] != '\0';
    int order = compare(one, other, is_unsigned);
    *result = (struct value){.is_unsigned = is_unsigned};
    switch (marks[0]) {
    case '+':
        result->bits = one.bits + other.bits;
        return true;
    case '-':
        result->bits = one.bits - other.bits;
        return true;
    case '*':
        result->bits = one.bits * other.bits;
        return true;
    case '/':
        return divide(one, other, is_unsigned, false, &result->bits);
    case '%':
        result->is_unsigned = true;
        return divide(one, other, true, true, &result->bits);
    case '^':
        result->bits = one.bits ^ other.bits;
        return true;
    case '&':
        *result = is_double ? (struct value){one.bits && other.bits, false}
                            : (struct value){one.bits & other.bits, is_unsigned};
        return true;
    case '|':
        *result = is_double ? (struct value){one.bits || other.bits, false}
                            : (struct value){one.bits | other.bits, is_unsigned};
        return true;
    case '=':
        *result = (struct value){order == 0, false};
        return true;
    case '!':
        *result = (struct value){order != 0, false};
        return true;
    default:
        break;
    }
    bool is_less = marks[0] == '<', is_shift = marks[1] == marks[0];
    if (is_shift)
        *result = (struct value){shift(one, other.bits, is_less), one.is_unsigned};
    else
        *result = (struct value){(is_less ? order < 0 : order > 0) || (is_double && order == 0), false};
    return true;
}

static bool take_literal(gs_ptx_parser *parser, struct value *value) {
    gs_ptx_operand_kind kind;
    if (gs_ptx_take(parser, "WARP_SZ")) {
        *value = (struct value){32, false};
        return true;
    }
    if (!gs_ptx_number(parser->module, parser->at, &kind, &value->bits) || kind != GS_PTX_INTEGER)
        return false;
    const gs_ptx_token *token = &parser->module->tokens.data[parser->at++];
    value->is_unsigned = value->bits >> 63 || parser->module->text[token->at + token->length - 1] == 'U';
    return true;
}

/* A number, brackets, or `(.u64)` or a sign in front of one. */
static bool take_unary(gs_ptx_parser *parser, struct value *value, int depth) {
    char mark = gs_ptx_punct_at(parser);
    if (depth == DEEPEST)
        return false;
    if (!mark || !strchr("+-~!(", mark))
        return take_literal(parser, value);
    parser->at++;
    bool is_signed = mark == '(' && gs_ptx_is(parser, ".s64"), is_cast = is_signed || gs_ptx_is(parser, ".u64");
    if (mark == '(' && !is_cast)
        return take_conditional(parser, value, depth + 1) && gs_ptx_punct_at(parser) == ')' && ++parser->at;
    if (is_cast && gs_ptx_punct(parser->module, ++parser->at) != ')')
        return false;
    parser->at += is_cast;
    if (!take_unary(parser, value, depth + 1))
        return false;
    if (is_cast)
        value->is_unsigned = !is_signed;
    else if (mark == '-')
        value->bits = -value->bits;
    else if (mark == '~')
        *value = (struct value){~value->bits, true};
    else if (mark == '!')
        *value = (struct value){!value->bits, false};
    return true;
}

/* Operators of this order and above. */
static bool take_binary(gs_ptx_parser *parser, struct value *value, int order, int depth) {
    const struct operation *operation;
    if (depth == DEEPEST || !take_unary(parser, value, depth))
        return false;
    while ((operation = operation_at(parser)) && operation->order >= order) {
        struct value other;
        parser->at += operation->marks[1] ? 2 : 1;
        if (!take_binary(parser, &other, operation->order + 1, depth + 1) ||
            !combine(operation->marks, *value, other, value))
            return false;
    }
    return true;
}

static bool take_conditional(gs_ptx_parser *parser, struct value *value, int depth) {
    struct value one, other;
    if (!take_binary(parser, value, 1, depth))
        return false;
    if (gs_ptx_punct_at(parser) != '?')
        return true;
    parser->at++;
    if (!take_conditional(parser, &one, depth + 1) || gs_ptx_punct_at(parser) != ':')
        return false;
    parser->at++;
    if (!take_conditional(parser, &other, depth + 1))
        return false;
    *value = value->bits ? one : other;
    return true;
}

bool gs_ptx_take_constant(gs_ptx_parser *parser, uint64_t *bits) {
    struct value value;
    uint32_t start = parser->at;
    bool is_whole = take_conditional(parser, &value, 0);
    char mark = gs_ptx_punct_at(parser);
    if (is_whole && mark && strchr(",;]})", mark)) {
        *bits = value.bits;
        return true;
    }
    parser->at = start;
    return false;
}
