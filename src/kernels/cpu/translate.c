/*
 * translate.c: translates a .cu file to C++ for the CPU.
 *
 * Almost nothing changes, because gridsmith_cuda.h defines the keywords of CUDA. Shared memory does:
 *
 *   __shared__ float tile[32][33], sum;
 *       becomes a struct with these members, and references to the members of the struct of the current block
 *   extern __shared__ float all[];
 *       becomes a pointer to the dynamic shared memory of the current block
 *
 * In this way each array has bounds that AddressSanitizer knows. Shared variables outside of functions stay
 * thread-local variables. #line keeps the lines of the .cu in messages.
 */
#include "cpu.h"

#include <string.h>

/* A declaration with __shared__ in it: its tokens, from the first to before the `;`. */
struct declaration {
    size_t first, end;
    bool is_extern, is_outside; /* outside of functions */
};

static bool ends_statement(const gs_token *token) {
    return token->punctuation == ';' || token->punctuation == '{' || token->punctuation == '}' ||
           token->punctuation == ':' || token->directive != GS_NO_TOKEN;
}

/* False: the declaration cannot be parsed; the word is left to gridsmith_cuda.h. */
static bool find_declaration(const gs_source *source, size_t shared, struct declaration *found) {
    const gs_token *tokens = source->tokens.data;
    size_t first = shared, end = shared;
    while (first > 0 && !ends_statement(&tokens[first - 1]) && tokens[first - 1].punctuation != ')')
        first--;
    while (end < source->tokens.count && tokens[end].punctuation != ';') {
        if (tokens[end].directive != GS_NO_TOKEN || tokens[end].punctuation == '}' || tokens[end].punctuation == ')' ||
            tokens[end].punctuation == ']')
            return false;
        end = gs_token_after(source, end);
    }
    *found = (struct declaration){.first = first, .end = end, .is_outside = gs_token_is_outside(source, shared)};
    for (size_t i = first; i < end; i++)
        found->is_extern |= gs_token_is(source, i, "extern");
    return end < source->tokens.count;
}

/* The name in a declarator: the last name before `[`, `=`, `,` or the end that is not in brackets. */
static size_t declared_name(const gs_source *source, size_t from, size_t end, size_t *next) {
    const gs_token *tokens = source->tokens.data;
    size_t name = GS_NO_TOKEN, i = from;
    int angles = 0;
    bool named = false;
    for (; i < end && (tokens[i].punctuation != ',' || angles > 0); i = gs_token_after(source, i)) {
        angles += tokens[i].punctuation == '<' && !named ? 1 : tokens[i].punctuation == '>' && angles > 0 ? -1 : 0;
        named |= tokens[i].punctuation == '[' || tokens[i].punctuation == '=';
        if (tokens[i].kind == GS_TOKEN_NAME && !named && angles == 0)
            name = i;
    }
    *next = i + 1;
    return name;
}

static void put_tokens(const gs_source *source, size_t from, size_t end, gs_text *into) {
    for (size_t i = from; i < end; i++) {
        bool is_dropped = gs_token_is(source, i, "__shared__") || gs_token_is(source, i, "extern") ||
                          gs_token_is(source, i, "static");
        if (!is_dropped) {
            gs_text_put(into, source->text + source->tokens.data[i].at, source->tokens.data[i].length);
            gs_text_put(into, " ", 1);
        }
    }
}

static void put_name(const gs_source *source, size_t name, gs_text *into) {
    gs_text_put(into, source->text + source->tokens.data[name].at, source->tokens.data[name].length);
}

static bool put_dynamic(const gs_source *source, const struct declaration *found, gs_text *into) {
    size_t next, name = declared_name(source, found->first, found->end, &next);
    if (name == GS_NO_TOKEN || name + 1 >= found->end || source->tokens.data[name + 1].punctuation != '[')
        return false;
    size_t rest = gs_token_after(source, name + 1);
    gs_text type = {0}, bounds = {0};
    put_tokens(source, found->first, name, &type);
    put_tokens(source, rest, found->end, &bounds);
    gs_text_put(&type, "", 0);
    gs_text_put(&bounds, "", 0);
    if (found->is_outside) {
        gs_text_add(into, "static const gs_dynamic_array<%s> ", type.data ? type.data : "");
        put_name(source, name, into);
    } else {
        gs_text_add(into, "typedef %s gs_element_%zu%s; gs_element_%zu *const ", type.data ? type.data : "", name,
                    bounds.data ? bounds.data : "", name);
        put_name(source, name, into);
        gs_text_add(into, " = static_cast<gs_element_%zu *>(gs_host_dynamic())", name);
    }
    gs_text_free(&type);
    gs_text_free(&bounds);
    return true;
}

static bool put_static(const gs_source *source, const struct declaration *found, gs_text *into) {
    gs_text_add(into, "struct gs_shared_%zu { ", found->first);
    put_tokens(source, found->first, found->end, into);
    gs_text_add(into, "; }");
    for (size_t at = found->first; at < found->end;) {
        size_t name = declared_name(source, at, found->end, &at);
        if (name == GS_NO_TOKEN)
            return false;
        gs_text_add(into, "; auto &");
        put_name(source, name, into);
        gs_text_add(into, " = gs_shared<gs_shared_%zu>().", found->first);
        put_name(source, name, into);
    }
    return true;
}

static void count_lines(const gs_source *source, size_t from, size_t to, gs_text *into) {
    for (size_t i = from; i < to; i++)
        if (source->text[i] == '\n')
            gs_text_put(into, "\n", 1);
}

static void translate_shared(const gs_source *source, size_t shared, gs_edits *edits) {
    struct declaration found;
    gs_text text = {0};
    if (!find_declaration(source, shared, &found))
        return;
    const gs_token *tokens = source->tokens.data;
    bool done = false;
    if (found.is_extern)
        done = put_dynamic(source, &found, &text);
    else if (!found.is_outside)
        done = put_static(source, &found, &text);
    else if (shared > 0 && gs_token_is(source, shared - 1, "static"))
        gs_edits_add(edits, tokens[shared - 1].at, tokens[shared - 1].length, "%s", "");
    size_t from = tokens[found.first].at, to = tokens[found.end].at;
    if (done) {
        count_lines(source, from, to, &text);
        edits->failed |= text.failed;
        gs_edits_add(edits, from, to - from, "%s", text.data ? text.data : "");
    }
    gs_text_free(&text);
}

gs_code gs_host_translate(const gs_build *build, gs_text *into, gs_error *error) {
    gs_source source;
    gs_edits edits = {0};
    gs_code code = gs_source_read(&source, build->name, build->text, build->size, error);
    if (code != GS_OK)
        return code;
    for (size_t i = 0; i < source.tokens.count; i++)
        if (source.tokens.data[i].directive == GS_NO_TOKEN && gs_token_is(&source, i, "__shared__"))
            translate_shared(&source, i, &edits);
    gs_text_add(into, "#include \"gridsmith_cuda.h\"\n#line 1 ");
    gs_text_put_json(into, build->name);
    gs_text_add(into, "\n");
    bool done = gs_edits_apply(&edits, source.text, 0, source.size, into);
    gs_text_add(into, "\n#line 1 \"the table of kernels\"\nextern \"C\" const gs_kernel gs_kernels[] = {\n");
    for (size_t i = 0; i < build->kernel_count; i++) {
        gs_text_add(into, "    GS_KERNEL(");
        gs_text_put_json(into, build->kernels[i]);
        gs_text_add(into, ", %s),\n", build->kernels[i]);
    }
    gs_text_add(into, "};\nextern \"C\" const int gs_kernel_count = %zu;\n", build->kernel_count);
    gs_edits_free(&edits);
    gs_source_free(&source);
    return done && !into->failed ? GS_OK : gs_fail_memory(error);
}
