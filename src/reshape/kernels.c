/*
 * kernels.c: the kernels, functions and macros of a source, and which of them a kernel can reach.
 *
 * Only a compiler knows what a name refers to, so names are compared as text: code that contains `f` reaches every
 * function, class and macro named `f`, and all code reaches operators. This finds too much rather than too little,
 * which is safe.
 */
#include "kernels.h"

#include <stdlib.h>
#include <string.h>

/* Words that precede a ( without being a function. */
bool gs_is_attribute(const gs_source *source, uint32_t token) {
    static const char *const words[] = {"__launch_bounds__", "__cluster_dims__", "__maxnreg__",      "__attribute__",
                                        "__align__",         "alignas",          "decltype",         "noexcept",
                                        "__block_size__",    "sizeof",           "__declspec",       "throw",
                                        "requires",          "explicit",         "__builtin_align__"};
    for (size_t i = 0; i < GS_COUNT(words); i++)
        if (gs_token_is(source, token, words[i]))
            return true;
    return false;
}

bool gs_is_operator_word(const gs_source *source, uint32_t token) {
    static const char *const words[] = {"return", "else",      "case", "sizeof", "throw",  "new",     "delete",
                                        "do",     "and",       "or",   "not",    "xor",    "bitand",  "bitor",
                                        "compl",  "co_return", "goto", "typeid", "not_eq", "alignof", "co_yield"};
    for (size_t i = 0; i < GS_COUNT(words); i++)
        if (gs_token_is(source, token, words[i]))
            return true;
    return false;
}

bool gs_opens(const gs_source *source, uint32_t token) {
    return gs_token_is(source, token, "(") && gs_token_at(source, token)->match != GS_NO_TOKEN;
}

/* ---- kernels ---- */

/* The token before the template arguments of an explicit specialization: back from `>` to its `<`. */
static uint32_t before_angles(const gs_source *source, uint32_t close) {
    int depth = 0;
    for (uint32_t i = close + 1; i-- > 0;) {
        char mark = gs_token_at(source, i)->mark;
        depth += mark == '>' ? 1 : mark == '<' ? -1 : 0;
        if (mark == ';' || mark == '{' || mark == '}')
            break;
        if (depth == 0)
            return i ? i - 1 : GS_NO_TOKEN;
    }
    return GS_NO_TOKEN;
}

/* Parses `__global__ ... NAME ( ... )`. False: it is not a kernel that can be parsed. */
static bool parse_kernel(const gs_source *source, uint32_t global, gs_kernel_found *found) {
    uint32_t count = (uint32_t)source->tokens.count;
    for (uint32_t i = global + 1; i < count; i++) {
        const gs_token *token = gs_token_at(source, i);
        if (token->directive != GS_NO_TOKEN)
            continue;
        if (token->mark == ';' || token->mark == '{' || token->mark == '}')
            return false;
        if (token->mark != '(')
            continue;
        uint32_t name = i - 1;
        if (gs_token_at(source, name)->mark == '>')
            name = before_angles(source, name);
        bool is_name = name != GS_NO_TOKEN && gs_token_at(source, name)->kind == GS_TOKEN_NAME;
        if (!is_name || gs_is_attribute(source, name)) {
            i = token->match;
            continue;
        }
        uint32_t after = token->match + 1;
        while (after < count && gs_token_at(source, after)->directive != GS_NO_TOKEN)
            after++;
        if (after >= count)
            return false;
        char mark = gs_token_at(source, after)->mark;
        *found =
            (gs_kernel_found){.global = global, .name = name, .open = i, .body = mark == '{' ? after : GS_NO_TOKEN};
        return mark == '{' || mark == ';';
    }
    return false;
}

static gs_code find_kernels(gs_code_map *map, gs_error *error) {
    for (uint32_t i = 0; i < map->source->tokens.count; i++) {
        gs_kernel_found found;
        if (gs_token_at(map->source, i)->directive != GS_NO_TOKEN || !gs_token_is(map->source, i, "__global__") ||
            !parse_kernel(map->source, i, &found))
            continue;
        if (!GS_RESERVE(&map->kernels, 1))
            return gs_fail_memory(error);
        map->kernels.data[map->kernels.count++] = found;
    }
    return GS_OK;
}

gs_span gs_kernel_span(const gs_code_map *map, const gs_kernel_found *kernel) {
    return (gs_span){kernel->open, gs_token_at(map->source, kernel->body)->match + 1};
}

const gs_kernel_found *gs_map_kernel_at(const gs_code_map *map, uint32_t token) {
    size_t low = 0, high = map->kernels.count; /* the last kernel that begins at or before the token */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (map->kernels.data[middle].global <= token)
            low = middle + 1;
        else
            high = middle;
    }
    const gs_kernel_found *kernel = low ? &map->kernels.data[low - 1] : NULL;
    return kernel && kernel->body != GS_NO_TOKEN && token < gs_kernel_span(map, kernel).end ? kernel : NULL;
}

/* ---- units ---- */

static gs_code add_unit(gs_code_map *map, uint32_t name, uint32_t first, uint32_t end, bool is_macro, gs_error *error) {
    if (!GS_RESERVE(&map->units, 1))
        return gs_fail_memory(error);
    map->units.data[map->units.count++] =
        (gs_code_unit){.name = name, .span = {first, end}, .next = GS_NO_TOKEN, .is_macro = is_macro};
    return GS_OK;
}

/* The first token of the statement that ends with the brace at `brace`. */
static uint32_t statement_start(const gs_source *source, uint32_t brace) {
    uint32_t i = brace;
    while (i > 0) {
        const gs_token *token = gs_token_at(source, i - 1);
        if (token->directive == GS_NO_TOKEN && (token->mark == ';' || token->mark == '{' || token->mark == '}'))
            break;
        i = (token->mark == ')' || token->mark == ']') && token->match != GS_NO_TOKEN ? token->match : i - 1;
    }
    return i;
}

/* The name that the statement from `start` to the brace defines; GS_NO_TOKEN: an operator, or unknown. */
static uint32_t defined_name(const gs_source *source, uint32_t start, uint32_t brace) {
    bool is_class = gs_token_at(source, brace)->scope == GS_SCOPE_CLASS;
    uint32_t last = GS_NO_TOKEN;
    for (uint32_t i = start; i < brace; i++) {
        const gs_token *token = gs_token_at(source, i);
        if (token->directive != GS_NO_TOKEN)
            continue;
        if (gs_token_is(source, i, "operator"))
            return GS_NO_TOKEN;
        bool follows = i > start && gs_token_at(source, i - 1)->kind == GS_TOKEN_NAME;
        if (!is_class && (token->mark == '(' || token->mark == '=') && follows && !gs_is_attribute(source, i - 1))
            return i - 1;
        if (is_class && token->mark == ':' && last != GS_NO_TOKEN)
            return last;
        if (token->kind == GS_TOKEN_NAME && !gs_is_attribute(source, i))
            last = i;
        if (token->mark == '(' || token->mark == '[')
            i = token->match;
    }
    return last;
}

static gs_code find_functions(gs_code_map *map, gs_error *error) {
    const gs_source *source = map->source;
    for (uint32_t i = 0; i < source->tokens.count; i++) {
        const gs_token *token = gs_token_at(source, i);
        if (token->mark != '{' || token->directive != GS_NO_TOKEN || token->scope == GS_SCOPE_NAMESPACE)
            continue;
        uint32_t start = statement_start(source, i);
        const gs_kernel_found *kernel = gs_map_kernel_at(map, i);
        if (!kernel) {
            gs_code code = add_unit(map, defined_name(source, start, i), start, token->match + 1, false, error);
            if (code != GS_OK)
                return code;
        }
        if (token->scope == GS_SCOPE_CODE || kernel)
            i = token->match; /* what is inside belongs to the unit; the functions of a class are units too */
    }
    return GS_OK;
}

static gs_code find_macros(gs_code_map *map, gs_error *error) {
    const gs_source *source = map->source;
    gs_code code = GS_OK;
    for (uint32_t i = 0; i + 2 < source->tokens.count && code == GS_OK; i++) {
        if (gs_token_at(source, i)->directive != i || !gs_token_is(source, i + 1, "define"))
            continue;
        uint32_t end = i + 2;
        while (end < source->tokens.count && gs_token_at(source, end)->directive == i)
            end++;
        if (end > i + 2)
            code = add_unit(map, i + 2, i + 3, end, true, error);
    }
    return code;
}

static bool same_text(const gs_source *source, uint32_t a, uint32_t b) {
    const gs_token *first = gs_token_at(source, a), *second = gs_token_at(source, b);
    return first->length == second->length &&
           memcmp(source->text + first->at, source->text + second->at, first->length) == 0;
}

/* The slot of a name in the hash table: the one that has it, or the free one where it would be inserted. */
static size_t slot_of(const gs_code_map *map, uint32_t token) {
    const gs_token *name = gs_token_at(map->source, token);
    size_t slot = gs_hash(0, map->source->text + name->at, name->length) & (map->by_name_size - 1);
    while (map->by_name[slot] != GS_NO_TOKEN &&
           !same_text(map->source, map->units.data[map->by_name[slot]].name, token))
        slot = (slot + 1) & (map->by_name_size - 1);
    return slot;
}

uint32_t gs_map_find(const gs_code_map *map, uint32_t token) {
    return map->by_name[slot_of(map, token)];
}

static gs_code index_units(gs_code_map *map, gs_error *error) {
    map->by_name_size = 16;
    while (map->by_name_size < 2 * map->units.count + 2)
        map->by_name_size *= 2;
    map->by_name = malloc(map->by_name_size * sizeof *map->by_name);
    if (!map->by_name)
        return gs_fail_memory(error);
    memset(map->by_name, 0xff, map->by_name_size * sizeof *map->by_name);
    for (uint32_t i = 0; i < map->units.count; i++) {
        gs_code_unit *unit = &map->units.data[i];
        if (unit->name == GS_NO_TOKEN)
            continue;
        size_t slot = slot_of(map, unit->name);
        unit->next = map->by_name[slot];
        map->by_name[slot] = i;
    }
    return GS_OK;
}

gs_code gs_map_read(gs_code_map *map, const gs_source *source, gs_error *error) {
    *map = (gs_code_map){.source = source};
    gs_code code = find_kernels(map, error);
    if (code == GS_OK)
        code = find_functions(map, error);
    if (code == GS_OK)
        code = find_macros(map, error);
    if (code == GS_OK)
        code = index_units(map, error);
    if (code != GS_OK)
        gs_map_free(map);
    return code;
}

void gs_map_free(gs_code_map *map) {
    free(map->kernels.data);
    free(map->units.data);
    free(map->by_name);
    *map = (gs_code_map){0};
}

/* ---- reaching ---- */

struct search {
    const gs_code_map *map;
    bool *uses;
    uint32_t *waiting;
    size_t count;
    bool macros_only; /* only macros, whose text the preprocessor inserts into the code */
};

static void reach_unit(struct search *search, uint32_t unit) {
    if (search->uses[unit] || (search->macros_only && !search->map->units.data[unit].is_macro))
        return;
    search->uses[unit] = true;
    search->waiting[search->count++] = unit;
}

static void reach_from(struct search *search, gs_span span) {
    const gs_code_map *map = search->map;
    for (uint32_t i = span.first; i < span.end; i++)
        if (gs_token_at(map->source, i)->kind == GS_TOKEN_NAME)
            for (uint32_t unit = gs_map_find(map, i); unit != GS_NO_TOKEN; unit = map->units.data[unit].next)
                reach_unit(search, unit);
}

static gs_code reach(const gs_code_map *map, gs_span from, bool macros_only, bool *uses, gs_error *error) {
    struct search search = {.map = map, .uses = uses, .macros_only = macros_only};
    search.waiting = malloc((map->units.count + 1) * sizeof *search.waiting);
    if (!search.waiting)
        return gs_fail_memory(error);
    memset(uses, 0, map->units.count * sizeof *uses);
    for (uint32_t i = 0; i < map->units.count && !macros_only; i++)
        if (map->units.data[i].name == GS_NO_TOKEN)
            reach_unit(&search, i);
    reach_from(&search, from);
    while (search.count)
        reach_from(&search, map->units.data[search.waiting[--search.count]].span);
    free(search.waiting);
    return GS_OK;
}

gs_code gs_facts_reach(const gs_code_map *map, const gs_kernel_found *kernel, bool macros_only, bool *uses,
                       gs_error *error) {
    return reach(map, gs_kernel_span(map, kernel), macros_only, uses, error);
}
