/*
 * ptx_names.c: resolves names and numbers. See ptx_parser.h.
 *
 * `.reg .b32 %r<12>;` declares %r0 to %r11. A name is therefore looked up unchanged and without its digits, and the
 * declaration of the innermost braces is taken. The part after a dot is not looked up: "%v1.x" is a part of the vector
 * %v1.
 */
#include "ptx_parser.h"

#include <stdlib.h>

static uint32_t bucket_of(const char *name, size_t length) {
    return (uint32_t)(gs_hash(0, name, length) % GS_PTX_BUCKETS);
}

bool gs_ptx_make_visible(gs_ptx_parser *parser, uint32_t variable, bool is_numbered) {
    const gs_ptx_module *module = parser->module;
    const gs_ptx_token *token = &module->tokens.data[module->variables.data[variable].name];
    if (!GS_RESERVE(&parser->names, 1))
        return false;
    uint32_t bucket = bucket_of(module->text + token->at, token->length);
    parser->names.data[parser->names.count++] =
        (struct visible){variable, parser->buckets[bucket], bucket, is_numbered};
    parser->buckets[bucket] = (uint32_t)parser->names.count;
    return true;
}

void gs_ptx_leave_scope(gs_ptx_parser *parser, size_t names) {
    while (parser->names.count > names) {
        const struct visible *name = &parser->names.data[--parser->names.count];
        parser->buckets[name->bucket] = name->next;
    }
}

/* The newest declaration of a name; `number` is that behind the name if it is a numbered one, which must have it. */
static const struct visible *find(const gs_ptx_parser *parser, const char *name, size_t length, bool is_numbered,
                                  uint32_t number) {
    const gs_ptx_module *module = parser->module;
    for (uint32_t at = parser->buckets[bucket_of(name, length)]; at; at = parser->names.data[at - 1].next) {
        const struct visible *visible = &parser->names.data[at - 1];
        const gs_ptx_variable *variable = &module->variables.data[visible->variable];
        const gs_ptx_token *token = &module->tokens.data[variable->name];
        if (visible->is_numbered == is_numbered && token->length == length &&
            memcmp(module->text + token->at, name, length) == 0 && (!is_numbered || number < variable->register_count))
            return visible;
    }
    return NULL;
}

/* All dynamic shared memory of a kernel begins at one address, or at the next multiple of a larger alignment (ptxas of
   CUDA 13.0), whatever it is called. A variable may be declared as external before it is defined. */
void gs_ptx_note_memory(gs_ptx_parser *parser, uint32_t variable) {
    gs_ptx_module *module = parser->module;
    gs_ptx_variable *added = &module->variables.data[variable];
    const gs_ptx_token *name = &module->tokens.data[added->name];
    const struct visible *same =
        added->space == GS_PTX_REG ? NULL : find(parser, module->text + name->at, name->length, false, 0);
    added->memory = variable;
    if (added->space == GS_PTX_SHARED && (added->is_extern || added->has_no_size)) {
        module->dynamic = module->dynamic ? module->dynamic : variable + 1;
        added->memory = module->dynamic - 1;
        added->is_elsewhere = added->align != module->variables.data[added->memory].align || !added->has_no_size;
    } else if (same && added->function == GS_PTX_NONE && added->space == module->variables.data[same->variable].space &&
               added->space != GS_PTX_PARAM) {
        added->memory = module->variables.data[same->variable].memory;
    }
}

/* The number at the end of a name; UINT32_MAX: not the number of a register. */
static uint32_t number_behind(const char *digits, size_t length) {
    uint32_t number = 0;
    if (!length || length > 8 || (digits[0] == '0' && length > 1))
        return UINT32_MAX;
    for (size_t i = 0; i < length; i++)
        number = number * 10 + (uint32_t)(digits[i] - '0');
    return number;
}

/* The parts of a vector have two names each: x and r, y and g, z and b, w and a. */
static uint8_t part_of(char letter) {
    static const char colors[] = "rgba", parts[] = "xyzw";
    const char *color = strchr(colors, letter);
    return (uint8_t)(color && *color ? parts[color - colors] : letter);
}

uint32_t gs_ptx_look_up(gs_ptx_parser *parser, uint32_t token, uint32_t *number, uint8_t *part) {
    const gs_ptx_module *module = parser->module;
    const char *name = module->text + module->tokens.data[token].at;
    size_t length = module->tokens.data[token].length;
    const char *dot = memchr(name, '.', length);
    *part = 0;
    if (dot) {
        *part = dot + 2 == name + length ? part_of(dot[1]) : 0;
        length = (size_t)(dot - name);
    }
    const struct visible *newest = find(parser, name, length, false, 0);
    uint32_t behind = 0;
    size_t stem = length;
    while (stem > 1 && name[stem - 1] >= '0' && name[stem - 1] <= '9')
        stem--;
    for (; stem < length; stem++) { /* "%f16_2": the stem may end in digits */
        uint32_t tail = number_behind(name + stem, length - stem);
        const struct visible *visible = find(parser, name, stem, true, tail);
        behind = visible && (!newest || visible > newest) ? tail : behind;
        newest = visible && (!newest || visible > newest) ? visible : newest;
    }
    if (!newest)
        return GS_PTX_NONE;
    *number = module->variables.data[newest->variable].register_first + behind;
    return newest->variable;
}

/* ---- numbers ---- */

static bool all_hex(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!memchr("0123456789abcdefABCDEF", text[i], 22))
            return false;
    return true;
}

bool gs_ptx_number(const gs_ptx_module *module, uint32_t token, gs_ptx_operand_kind *kind, uint64_t *bits) {
    enum { LONGEST = 60 };
    char text[LONGEST + 4], *end;
    const gs_ptx_token *found = &module->tokens.data[token];
    if (token >= module->tokens.count || found->kind != GS_PTX_NUMBER || found->length > LONGEST)
        return false;
    gs_ptx_token_text(module, token, text, sizeof text);
    bool is_exact = text[0] == '0' && text[1] && strchr("fFdD", text[1]);
    if (is_exact && all_hex(text + 2, found->length - 2)) {
        *kind = strchr("fF", text[1]) ? GS_PTX_FLOAT32 : GS_PTX_FLOAT64;
        *bits = strtoull(text + 2, NULL, 16);
        return found->length == (*kind == GS_PTX_FLOAT32 ? 10 : 18);
    }
    *kind = GS_PTX_INTEGER;
    if (text[0] == '0' && (text[1] == 'b' || text[1] == 'B'))
        *bits = strtoull(text + 2, &end, 2);
    else
        *bits = strtoull(text, &end, 0);
    if (*end == 'U' && !end[1])
        return true;
    if (!*end)
        return true;
    double value = strtod(text, &end);
    *kind = GS_PTX_FLOAT64;
    memcpy(bits, &value, sizeof value);
    return !*end;
}

uint64_t gs_ptx_take_number(gs_ptx_parser *parser) {
    gs_ptx_operand_kind kind;
    uint64_t bits;
    if (!gs_ptx_number(parser->module, parser->at, &kind, &bits) || kind != GS_PTX_INTEGER)
        return 0;
    parser->at++;
    return bits;
}
