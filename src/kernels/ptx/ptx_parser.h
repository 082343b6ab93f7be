/*
 * ptx_parser.h: shared by the files of the PTX reader. Other rooms include ptx.h.
 *
 * The parser goes over the tokens once. Names of variables and registers are looked up in a table of the visible names:
 * a hash whose newest entries come first, so that leaving a scope removes its entries.
 */
#ifndef GS_PTX_PARSER_H
#define GS_PTX_PARSER_H

#include "ptx.h"

/* A name that is visible; chained from the newest to the oldest of its bucket. */
struct visible {
    uint32_t variable, next, bucket;
    bool is_numbered; /* declared as %r<12>: names %r0 to %r11 */
};

enum { GS_PTX_BUCKETS = 4096 };

typedef struct gs_ptx_parser {
    gs_ptx_module *module;
    gs_error *error;
    uint32_t at;       /* the next token */
    uint32_t function; /* GS_PTX_NONE: outside */
    uint32_t depth;    /* of braces within the function */
    bool is_call;      /* the instruction that is read: brackets are lists of operands */
    GS_PTX_LIST_OF(struct visible) names;
    uint32_t buckets[GS_PTX_BUCKETS]; /* the newest name, plus 1; 0: none */
} gs_ptx_parser;

gs_code gs_ptx_tokenize(gs_ptx_module *module, gs_error *error);

/* ---- the next token ---- */

static inline bool gs_ptx_is(const gs_ptx_parser *parser, const char *word) {
    return gs_ptx_token_is(parser->module, parser->at, word);
}

/* Skips the next token if it is this word. */
static inline bool gs_ptx_take(gs_ptx_parser *parser, const char *word) {
    bool is_it = gs_ptx_is(parser, word);
    parser->at += is_it;
    return is_it;
}

static inline char gs_ptx_punct_at(const gs_ptx_parser *parser) {
    return gs_ptx_punct(parser->module, parser->at);
}

static inline bool gs_ptx_is_kind(const gs_ptx_parser *parser, gs_ptx_token_kind kind) {
    return parser->at < parser->module->tokens.count && parser->module->tokens.data[parser->at].kind == kind;
}

/* Reads the whole number at the next token and skips it; 0 if it is not a number. */
uint64_t gs_ptx_take_number(gs_ptx_parser *parser);

/* Reads the constant expression at the next token up to the end of the operand (ptx_constants.c). False: it is not one,
   and stays. */
bool gs_ptx_take_constant(gs_ptx_parser *parser, uint64_t *bits);

/* Fails at the next token, or at `token`. */
gs_code gs_ptx_parse_fail(gs_ptx_parser *parser, uint32_t token, const char *message);
/* Skips the next token, which must be this punctuation. */
gs_code gs_ptx_expect(gs_ptx_parser *parser, char mark);
/* Skips to the token after the bracket that closes the one at `at`. */
gs_code gs_ptx_skip_brackets(gs_ptx_parser *parser);

/* Reads the declarations of variables from `at` up to `end`, which is `;`, or `,` or `)` in a list of parameters. Adds
   them to the module and makes them visible. */
gs_code gs_ptx_parse_variables(gs_ptx_parser *parser, bool is_parameter);

/* The body of a function, from `{` to `}`. */
gs_code gs_ptx_parse_body(gs_ptx_parser *parser, gs_ptx_function *function);

/* Looks up the name at a token. Returns its variable, or GS_PTX_NONE. For registers `number` gets the register of the
   function, and `part` the letter after its dot. */
uint32_t gs_ptx_look_up(gs_ptx_parser *parser, uint32_t token, uint32_t *number, uint8_t *part);
/* Says of which variable a new one is the memory, before its name is made visible. */
void gs_ptx_note_memory(gs_ptx_parser *parser, uint32_t variable);
bool gs_ptx_make_visible(gs_ptx_parser *parser, uint32_t variable, bool is_numbered);
void gs_ptx_leave_scope(gs_ptx_parser *parser, size_t names); /* keeps the oldest `names` */

#endif
