/*
 * ptx_texts.c: the PTX modules of a file: collected, and chosen for a GPU.
 *
 * A fatbin has the same module for several architectures. PTX is portable upwards: PTX for sm_80 runs on every later
 * GPU. There are two exceptions. A target that ends in `a` (sm_90a) uses instructions of that one architecture. A
 * target that ends in `f` (sm_100f) uses instructions of a family: the architectures of the same generation from there
 * on.
 */
#include "ptx_input.h"

#include <stdarg.h>
#include <stdlib.h>

gs_code gs_ptx_search_fail(const gs_ptx_search *search, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    gs_fail_list(search->error, GS_E_FORMAT, format, arguments);
    va_end(arguments);
    if (search->error)
        snprintf(search->error->file, sizeof search->error->file, "%s", search->name);
    return GS_E_FORMAT;
}

/* ---- the head of a text ---- */

/* Skips blanks and comments. A comment without an end reaches to the end of the text. */
static size_t skip_blanks(const char *text, size_t size, size_t at) {
    while (at < size) {
        if (text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r')) {
            at++;
        } else if (size - at >= 2 && text[at] == '/' && text[at + 1] == '/') {
            const char *end = memchr(text + at, '\n', size - at);
            at = end ? (size_t)(end - text) : size;
        } else if (size - at >= 2 && text[at] == '/' && text[at + 1] == '*') {
            for (at += 2; at < size && !(text[at] == '*' && at + 1 < size && text[at + 1] == '/'); at++)
                ;
            at = gs_min_u64(at + 2, size);
        } else {
            break;
        }
    }
    return at;
}

static bool text_begins(const char *text, size_t size, size_t at, const char *word) {
    size_t length = strlen(word);
    return size - at > length && memcmp(text + at, word, length) == 0;
}

bool gs_ptx_looks_like(const char *text, size_t size) {
    return text_begins(text, size, skip_blanks(text, size, 0), ".version");
}

static size_t skip_word(const char *text, size_t size, size_t at) {
    while (at < size && text[at] != ' ' && !(text[at] >= '\t' && text[at] <= '\r') && text[at] != '/')
        at++;
    return at < size && text[at] == '/' && skip_blanks(text, size, at) == at ? at + 1 : at;
}

/* Reads "sm_90a" after ".target". */
static bool read_target(gs_ptx_text *text) {
    size_t at = skip_blanks(text->text, text->size, 0);
    while (at < text->size && !text_begins(text->text, text->size, at, ".target"))
        at = skip_blanks(text->text, text->size, skip_word(text->text, text->size, at));
    if (at >= text->size)
        return false;
    const char *word = text->text + skip_blanks(text->text, text->size, at + strlen(".target"));
    size_t length = strspn(word, "abcdefghijklmnopqrstuvwxyz_0123456789");
    if (length <= 3 || length >= sizeof text->target || strncmp(word, "sm_", 3) != 0)
        return false;
    memcpy(text->target, word, length);
    text->target[length] = '\0';
    text->architecture = atoi(text->target + 3);
    return text->architecture > 0;
}

/* ---- the list ---- */

static void free_text(gs_ptx_text *text) {
    free(text->text);
    free(text->name);
    free(text->options);
}

gs_code gs_ptx_texts_add(const gs_ptx_search *search, const gs_ptx_text *text) {
    gs_ptx_texts *texts = search->texts;
    gs_ptx_text added = *text;
    gs_code code = GS_OK;
    added.size = strlen(added.text);
    if (!gs_ptx_looks_like(added.text, added.size))
        code = gs_ptx_search_fail(search, "the PTX at byte %zu does not begin with .version", added.offset);
    else if (!read_target(&added))
        code = gs_ptx_search_fail(search, "the PTX at byte %zu has no .target", added.offset);
    else if (added.size > GS_PTX_TEXTS_MOST - texts->bytes)
        code = gs_ptx_search_fail(search, "the PTX of this file exceeds %zu MiB in total", GS_PTX_TEXTS_MOST >> 20);
    else if (!GS_RESERVE(texts, 1))
        code = gs_fail_memory(search->error);
    if (code != GS_OK) {
        free_text(&added);
        return code;
    }
    texts->bytes += added.size;
    texts->data[texts->count++] = added;
    return GS_OK;
}

void gs_ptx_texts_free(gs_ptx_texts *texts) {
    if (!texts)
        return;
    for (size_t i = 0; i < texts->count; i++)
        free_text(&texts->data[i]);
    free(texts->data);
    *texts = (gs_ptx_texts){0};
}

/* ---- choosing ---- */

bool gs_ptx_target_suits(const char *target, int capability) {
    if (strncmp(target, "sm_", 3) != 0)
        return false;
    char *end;
    long architecture = strtol(target + 3, &end, 10);
    if (*end == 'a')
        return architecture == capability;
    return architecture <= capability && (*end != 'f' || architecture / 10 == capability / 10);
}

/* Of two texts for the same architecture, prefers the one with more instructions: sm_90a before sm_90. */
static bool is_better(const gs_ptx_text *text, const gs_ptx_text *best) {
    if (!best || text->architecture != best->architecture)
        return !best || text->architecture > best->architecture;
    return strlen(text->target) > strlen(best->target);
}

static const gs_ptx_text *find_best(const gs_ptx_texts *texts, size_t group, int capability, bool any) {
    const gs_ptx_text *best = NULL;
    for (size_t i = 0; i < texts->count; i++) {
        const gs_ptx_text *text = &texts->data[i];
        bool suits = any || gs_ptx_target_suits(text->target, capability);
        if (text->group == group && suits && is_better(text, best))
            best = text;
    }
    return best;
}

const gs_ptx_text *gs_ptx_texts_best(const gs_ptx_texts *texts, size_t group, int capability) {
    const gs_ptx_text *best = find_best(texts, group, capability, false);
    return best || capability != GS_PTX_EVERY ? best : find_best(texts, group, capability, true);
}
