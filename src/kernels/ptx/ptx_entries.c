/*
 * ptx_entries.c: the kernels of a PTX text, and finding one by name.
 *
 * People write reduce<256>, or with its parameters and its return type; the symbol is _Z6reduceILi256EEvPfi. Names are
 * compared without blanks, without the suffixes of numbers (4u is 4) and with the short names of types made long
 * (unsigned is unsigned int). If that finds nothing, a name without its template arguments is enough, if exactly one
 * kernel has it.
 */
#include "ptx_input.h"

#include <ctype.h>
#include <stdlib.h>

/* ---- the list ---- */

static bool is_symbol_letter(char letter) {
    return isalnum((unsigned char)letter) || letter == '_' || letter == '$' || letter == '%';
}

bool gs_ptx_entries_list(const char *text, gs_ptx_entries *entries) {
    static const char word[] = ".entry";
    *entries = (gs_ptx_entries){0};
    for (const char *at = text; (at = strstr(at, word));) {
        at += sizeof word - 1;
        const char *name = at + strspn(at, " \t\r\n"), *end = name;
        while (is_symbol_letter(*end))
            end++;
        if (name == at || end == name)
            continue;
        char *symbol = strndup(name, (size_t)(end - name));
        if (!symbol || !GS_RESERVE(entries, 1)) {
            free(symbol);
            gs_ptx_entries_free(entries);
            return false;
        }
        entries->data[entries->count++] = symbol;
        at = end;
    }
    return true;
}

void gs_ptx_entries_free(gs_ptx_entries *entries) {
    for (size_t i = 0; i < entries->count; i++)
        free(entries->data[i]);
    free(entries->data);
    *entries = (gs_ptx_entries){0};
}

/* ---- names that are compared ---- */

static bool ends_in_number(const gs_text *text) {
    size_t at = text->count;
    while (at > 0 && isdigit((unsigned char)text->data[at - 1]))
        at--;
    return at < text->count && (at == 0 || !(isalpha((unsigned char)text->data[at - 1]) || text->data[at - 1] == '_'));
}

/* "unsigned" alone becomes "unsigned int". */
static bool is_short_unsigned(const char *word) {
    if (strncmp(word, "unsigned", 8) != 0 || is_symbol_letter(word[8]))
        return false;
    word += 8 + strspn(word + 8, " ");
    return strncmp(word, "int", 3) != 0 && strncmp(word, "char", 4) != 0 && strncmp(word, "short", 5) != 0 &&
           strncmp(word, "long", 4) != 0 && strncmp(word, "__int128", 8) != 0;
}

/* A name in the form in which names are compared. The caller frees it. */
static char *plain_name(const char *name) {
    gs_text text = {0};
    gs_text_put(&text, "", 0);
    for (const char *at = name; *at && !text.failed; at++) {
        bool begins_word = at == name || !is_symbol_letter(at[-1]);
        if (*at == ' ' || (strchr("uUlL", *at) && ends_in_number(&text)))
            continue;
        if (begins_word && is_short_unsigned(at)) {
            gs_text_add(&text, "unsignedint");
            at += 7;
        } else {
            gs_text_put(&text, at, 1);
        }
    }
    if (text.failed)
        gs_text_free(&text);
    return text.data;
}

/* The ways to write a name. `is_short`: without template arguments. */
static const struct way {
    unsigned options; /* of gs_demangle */
    bool is_short;
} ways[] = {{GS_NAME_ALONE, false}, {0, false}, {GS_NAME_RETURN, false}, {GS_NAME_ALONE, true}};

static bool is_named(const char *symbol, const char *wanted, const struct way *way) {
    char *name = gs_demangle(symbol, way->options), *plain = name ? plain_name(name) : NULL;
    if (plain && way->is_short)
        plain[strcspn(plain, "<")] = 0;
    bool is_it = plain && strcmp(plain, wanted) == 0;
    free(plain);
    free(name);
    return is_it;
}

/* Counts the matching names; `*number` is the first of them. */
static int count_names(const gs_ptx_entries *entries, const char *wanted, const struct way *way, int *number) {
    int found = 0;
    for (size_t i = 0; i < entries->count; i++)
        if (is_named(entries->data[i], wanted, way) && found++ == 0)
            *number = (int)i;
    return found;
}

int gs_ptx_entries_find(const gs_ptx_entries *entries, const char *name) {
    for (size_t i = 0; i < entries->count; i++)
        if (strcmp(entries->data[i], name) == 0)
            return (int)i;
    char *wanted = plain_name(name);
    int found = 0, number = -1;
    for (size_t i = 0; i < GS_COUNT(ways) && wanted && !found; i++)
        found = count_names(entries, wanted, &ways[i], &number);
    free(wanted);
    return found > 1 ? -2 : number;
}
