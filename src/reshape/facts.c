/*
 * facts.c: what a kernel uses, and what makes it unsafe to reshape.
 *
 * words.c has the tables of words and instructions that are unsafe. This file determines where to search for them: in
 * the kernel, in everything that it reaches, in macros that insert a `return` into it, and in the headers of the file
 * (includes.c).
 */
#include "kernels.h"

#include <stdlib.h>
#include <string.h>

/* ---- returns ---- */

/* if (int x = f()), if (int x = f(); x): a declaration, not a plain condition. */
static bool declares(const gs_source *source, uint32_t open) {
    uint32_t close = gs_token_at(source, open)->match;
    for (uint32_t i = open + 1; i < close; i++)
        if (gs_token_at(source, i)->mark == ';')
            return true;
    return gs_token_at(source, open + 1)->kind == GS_TOKEN_NAME &&
           gs_token_at(source, open + 2)->kind == GS_TOKEN_NAME && !gs_is_operator_word(source, open + 1);
}

uint32_t gs_guard_of(const gs_source *source, uint32_t body, uint32_t token) {
    uint32_t before = token - 1;
    bool braced = gs_token_at(source, before)->mark == '{';
    uint32_t holder = gs_token_at(source, token)->within;
    if (braced) {
        holder = gs_token_at(source, before)->within;
        uint32_t last = token + 2; /* return ; } */
        if (!gs_token_is(source, token + 1, ";") || last != gs_token_at(source, before)->match)
            return GS_NO_TOKEN;
        before--;
    } else if (!gs_token_is(source, token + 1, ";")) {
        return GS_NO_TOKEN;
    }
    if (holder != body || gs_token_at(source, before)->mark != ')')
        return GS_NO_TOKEN;
    uint32_t open = gs_token_at(source, before)->match, after = token + (braced ? 3 : 2);
    if (!gs_token_is(source, open - 1, "if") || gs_token_is(source, after, "else"))
        return GS_NO_TOKEN;
    if (declares(source, open))
        return GS_NO_TOKEN;
    /* Not the body of a loop or of another if without braces. */
    char mark = gs_token_at(source, open - 2)->mark;
    return mark == ';' || mark == '{' || mark == '}' ? open : GS_NO_TOKEN;
}

/* The body of a lambda: [...] {, [...] (...) {, [...] (...) mutable -> type {. */
static bool is_lambda(const gs_source *source, uint32_t brace) {
    for (uint32_t i = brace; i-- > 0;) {
        const gs_token *token = gs_token_at(source, i);
        if (token->mark == ']')
            return true;
        if (token->mark == ')' && token->match != GS_NO_TOKEN && token->match > 0) {
            if (gs_token_at(source, token->match - 1)->mark == ']')
                return true;
            if (!gs_is_attribute(source, token->match - 1))
                return false;
            i = token->match;
        } else if (token->kind != GS_TOKEN_NAME && token->mark != 'A' && token->mark != 'S' && token->mark != '*' &&
                   token->mark != '&' && token->mark != '<' && token->mark != '>' && token->mark != ',') {
            return false;
        }
    }
    return false;
}

static bool is_in_lambda(const gs_source *source, uint32_t body, uint32_t token) {
    for (uint32_t at = gs_token_at(source, token)->within; at != body && at != GS_NO_TOKEN;
         at = gs_token_at(source, at)->within)
        if (is_lambda(source, at))
            return true;
    return false;
}

static void note(uint32_t *fact, uint32_t token) {
    if (*fact == GS_NO_TOKEN)
        *fact = token;
}

static void find_returns(const gs_source *source, const gs_kernel_found *kernel, gs_facts *facts) {
    uint32_t end = gs_token_at(source, kernel->body)->match;
    for (uint32_t i = kernel->body + 1; i < end; i++) {
        if (!gs_token_is(source, i, "return") || gs_token_at(source, i)->directive != GS_NO_TOKEN ||
            is_in_lambda(source, kernel->body, i))
            continue;
        char before = gs_token_at(source, i - 1)->mark;
        bool is_last = gs_token_is(source, i + 1, ";") && i + 2 == end &&
                       gs_token_at(source, i)->within == kernel->body &&
                       (before == ';' || before == '}' || before == '{');
        if (is_last)
            continue;
        note(&facts->early_return, i);
        if (gs_guard_of(source, kernel->body, i) == GS_NO_TOKEN)
            note(&facts->nested_return, i);
    }
}

/* A macro in the text of the kernel may contain a return from the kernel. */
static gs_code find_returns_of_macros(const gs_code_map *map, const gs_kernel_found *kernel, gs_facts *facts,
                                      gs_error *error) {
    bool *uses = calloc(map->units.count + 1, sizeof *uses);
    gs_code code = uses ? gs_facts_reach(map, kernel, true, uses, error) : gs_fail_memory(error);
    for (uint32_t i = 0; i < map->units.count && code == GS_OK; i++)
        for (uint32_t k = map->units.data[i].span.first; uses[i] && k < map->units.data[i].span.end; k++)
            if (gs_token_is(map->source, k, "return")) {
                note(&facts->early_return, k);
                note(&facts->nested_return, k);
            }
    free(uses);
    return code;
}

/* ---- assembly ---- */

static gs_code check_assembly(const gs_source *source, uint32_t open, gs_facts *facts, gs_error *error) {
    gs_text text = {0};
    uint32_t end = gs_token_at(source, open)->match, odd = GS_NO_TOKEN;
    gs_code code = GS_OK;
    for (uint32_t i = open + 1; i < end && gs_token_at(source, i)->mark != ':' && gs_token_at(source, i)->mark != 'S';
         i++) {
        const gs_token *token = gs_token_at(source, i);
        if (token->kind == GS_TOKEN_STRING && token->length >= 2)
            gs_text_put(&text, source->text + token->at + 1, token->length - 2);
        else
            note(&odd, i);
    }
    if (odd != GS_NO_TOKEN)
        code = gs_source_fail(source, odd, error, GS_E_REFUSED,
                              "a macro generates the text of this assembly, which cannot be checked");
    for (const gs_instruction *known = gs_instructions; known->text && code == GS_OK && text.data; known++)
        if (strstr(text.data, known->text)) {
            if (known->reason)
                code = gs_source_fail(source, open, error, GS_E_REFUSED, "%s (\"%s\" in assembly)", known->reason,
                                      known->text);
            else
                note(&facts->opaque_barrier, open);
        }
    if (code == GS_OK && text.failed)
        code = gs_fail_memory(error);
    gs_text_free(&text);
    return code;
}

static bool is_assembly(const gs_source *source, uint32_t token) {
    return gs_token_is(source, token, "asm") || gs_token_is(source, token, "__asm__") ||
           gs_token_is(source, token, "__asm");
}

/* asm volatile ("..." : ...). Brackets in macros are not matched, so assembly in macros is refused. */
static gs_code check_asm_word(const gs_source *source, uint32_t token, gs_facts *facts, gs_error *error) {
    uint32_t open = token + 1;
    if (!is_assembly(source, token))
        return GS_OK;
    if (gs_token_at(source, token)->directive != GS_NO_TOKEN)
        return gs_source_fail(source, token, error, GS_E_REFUSED, "assembly in a macro cannot be checked");
    while (gs_token_is(source, open, "volatile") || gs_token_is(source, open, "__volatile__"))
        open++;
    if (!gs_opens(source, open))
        return gs_source_fail(source, token, error, GS_E_REFUSED, "this assembly cannot be checked");
    return check_assembly(source, open, facts, error);
}

/* ---- facts of a span ---- */

/* `<<<`: three adjacent marks. */
static bool is_launch(const gs_source *source, uint32_t token) {
    if (token + 2 >= source->tokens.count)
        return false;
    const gs_token *at = gs_token_at(source, token);
    return at[0].mark == '<' && at[1].mark == '<' && at[2].mark == '<' && at[1].at == at[0].at + 1 &&
           at[2].at == at[1].at + 1;
}

/* Refuses `while (... gridDim ...) ;`, which waits for all blocks. */
static gs_code check_spin(const gs_source *source, uint32_t token, gs_error *error) {
    if (!gs_token_is(source, token, "while") || !gs_opens(source, token + 1))
        return GS_OK;
    uint32_t close = gs_token_at(source, token + 1)->match;
    bool is_empty =
        close != GS_NO_TOKEN && (gs_token_is(source, close + 1, ";") ||
                                 (gs_token_is(source, close + 1, "{") && gs_token_is(source, close + 2, "}")));
    for (uint32_t i = token + 2; is_empty && i < close; i++)
        if (gs_token_is(source, i, "gridDim"))
            return gs_source_fail(source, token, error, GS_E_REFUSED, "%s", gs_reason_whole_grid);
    return GS_OK;
}

static gs_code check_token(const gs_source *source, uint32_t i, gs_facts *facts, gs_error *error) {
    const char *reason = NULL;
    if (is_launch(source, i))
        return gs_source_fail(source, i, error, GS_E_REFUSED, "%s", gs_reason_launches);
    if (gs_token_at(source, i)->mark == 'P')
        return gs_source_fail(source, i, error, GS_E_REFUSED, "names built with ## cannot be determined");
    if (gs_token_at(source, i)->kind != GS_TOKEN_NAME)
        return GS_OK;
    switch (gs_word_use_of(source, i, &reason)) {
    case GS_WORD_BARRIER:
        note(&facts->barrier, i);
        break;
    case GS_WORD_VOTING:
        note(&facts->barrier, i);
        note(&facts->voting, i);
        break;
    case GS_WORD_OPAQUE_BARRIER:
        note(&facts->opaque_barrier, i);
        break;
    case GS_WORD_WARP:
        note(&facts->warp, i);
        break;
    case GS_WORD_OPAQUE_WARP:
        note(&facts->warp, i);
        note(&facts->opaque_warp, i);
        break;
    case GS_WORD_REFUSED:
        return gs_source_fail(source, i, error, GS_E_REFUSED, "%s", reason);
    case GS_WORD_BLOCK:
        if (i > 0 && gs_token_at(source, i - 1)->kind == GS_TOKEN_NAME && !gs_is_operator_word(source, i - 1) &&
            gs_token_at(source, i)->directive == GS_NO_TOKEN)
            return gs_source_fail(source, i, error, GS_E_REFUSED, "a declaration of this name may hide that of CUDA");
        break;
    case GS_WORD_PLAIN:
        break;
    }
    gs_code code = check_asm_word(source, i, facts, error);
    return code == GS_OK ? check_spin(source, i, error) : code;
}

static gs_code check_span(const gs_source *source, gs_span span, gs_facts *facts, gs_error *error) {
    gs_code code = GS_OK;
    for (uint32_t i = span.first; i < span.end && code == GS_OK; i++)
        code = check_token(source, i, facts, error);
    return code;
}

/* ---- the file around the kernel ---- */

/* Names that reshaping relies on must have the meaning that CUDA gives them. */
static gs_code check_macro_names(const gs_code_map *map, gs_error *error) {
    static const char *const names[] = {"threadIdx", "blockDim", "__global__", "__device__", "warpSize",
                                        "return",    "if",       "for",        "while",      "asm"};
    const gs_source *source = map->source;
    for (uint32_t i = 0; i + 2 < source->tokens.count; i++) {
        if (gs_token_at(source, i)->directive != i ||
            (!gs_token_is(source, i + 1, "define") && !gs_token_is(source, i + 1, "undef")))
            continue;
        const char *reason = NULL;
        bool is_reserved = gs_word_use_of(source, i + 2, &reason) != GS_WORD_PLAIN;
        for (size_t k = 0; k < GS_COUNT(names); k++)
            is_reserved |= gs_token_is(source, i + 2, names[k]);
        if (is_reserved)
            return gs_source_fail(source, i + 2, error, GS_E_REFUSED, "this macro redefines a name of CUDA");
    }
    return GS_OK;
}

/* Searches for shared memory and assembly everywhere except in other kernels. */
static void find_sharing(const gs_code_map *map, const gs_kernel_found *kernel, gs_facts *facts) {
    const gs_source *source = map->source;
    for (uint32_t i = 0; i < source->tokens.count; i++) {
        const char first = source->text[gs_token_at(source, i)->at]; /* a quick test for most tokens */
        if ((first != '_' && first != 'a') || (!gs_token_is(source, i, "__shared__") && !is_assembly(source, i)))
            continue;
        const gs_kernel_found *within = gs_map_kernel_at(map, i);
        if (!within || within == kernel)
            note(&facts->shares, i);
    }
}

/* ---- the facts ---- */

static gs_code check_parameters(const gs_source *source, const gs_kernel_found *kernel, gs_error *error) {
    uint32_t end = gs_token_at(source, kernel->open)->match;
    for (uint32_t i = kernel->open + 1; i < end; i++) {
        if (gs_token_is(source, i, ".") && gs_token_is(source, i + 1, ".") && gs_token_is(source, i + 2, "."))
            return gs_source_fail(source, i, error, GS_E_REFUSED,
                                  "a parameter pack leaves no place for one more parameter");
        if (gs_token_is(source, i, "gs_persistent") || gs_token_is(source, i, "gs_confined"))
            return gs_source_fail(source, i, error, GS_E_REFUSED, "this kernel is reshaped already");
    }
    return GS_OK;
}

/* Attributes are between __global__ and the name: a cluster, or the third argument of __launch_bounds__. */
static gs_code check_attributes(const gs_source *source, const gs_kernel_found *kernel, gs_error *error) {
    for (uint32_t i = kernel->global; i < kernel->name; i++) {
        const char *reason = NULL;
        if (gs_word_use_of(source, i, &reason) == GS_WORD_REFUSED)
            return gs_source_fail(source, i, error, GS_E_REFUSED, "%s", reason);
        if (!gs_token_is(source, i, "__launch_bounds__") || !gs_opens(source, i + 1))
            continue;
        int commas = 0;
        for (uint32_t k = i + 2; k < gs_token_at(source, i + 1)->match; k++) {
            commas += gs_token_at(source, k)->mark == ',';
            if (gs_opens(source, k))
                k = gs_token_at(source, k)->match;
        }
        if (commas >= 2)
            return gs_source_fail(source, i, error, GS_E_REFUSED, "%s", gs_reason_clusters);
    }
    return GS_OK;
}

static gs_code check_units(const gs_code_map *map, gs_facts *facts, gs_error *error) {
    gs_code code = GS_OK;
    for (uint32_t i = 0; i < map->units.count && code == GS_OK; i++)
        if (facts->uses[i])
            code = check_span(map->source, map->units.data[i].span, facts, error);
    return code;
}

gs_code gs_facts_find(const gs_code_map *map, const gs_kernel_found *kernel, const char *folder, gs_facts *facts,
                      gs_error *error) {
    const gs_source *source = map->source;
    *facts = (gs_facts){GS_NO_TOKEN, GS_NO_TOKEN, GS_NO_TOKEN, GS_NO_TOKEN, GS_NO_TOKEN,
                        GS_NO_TOKEN, GS_NO_TOKEN, GS_NO_TOKEN, NULL};
    facts->uses = calloc(map->units.count + 1, sizeof *facts->uses);
    gs_code code = facts->uses ? gs_facts_reach(map, kernel, false, facts->uses, error) : gs_fail_memory(error);
    if (code == GS_OK)
        code = check_parameters(source, kernel, error);
    if (code == GS_OK)
        code = check_attributes(source, kernel, error);
    if (code == GS_OK)
        code = check_span(source, gs_kernel_span(map, kernel), facts, error);
    if (code == GS_OK)
        code = check_units(map, facts, error);
    if (code == GS_OK)
        code = check_macro_names(map, error);
    if (code == GS_OK)
        code = gs_check_includes(source, folder, facts, error);
    if (code == GS_OK)
        code = find_returns_of_macros(map, kernel, facts, error);
    find_returns(source, kernel, facts);
    find_sharing(map, kernel, facts);
    return code;
}
