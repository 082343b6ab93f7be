/*
 * edits.c: changes to a text, collected first and applied at once. See base.h.
 */
#include "base.h"

#include <stdarg.h>
#include <stdlib.h>

void gs_edits_put(gs_edits *edits, size_t at, size_t removed, const char *bytes, size_t count) {
    if (!GS_RESERVE(edits, 1)) {
        edits->failed = true;
        return;
    }
    edits->data[edits->count++] =
        (struct gs_edit){.at = at, .removed = removed, .first = edits->text.count, .count = count};
    gs_text_put(&edits->text, bytes, count);
}

void gs_edits_add(gs_edits *edits, size_t at, size_t removed, const char *format, ...) {
    char small[512], *text = small;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(small, sizeof small, format, arguments);
    if (length >= (int)sizeof small && (text = malloc((size_t)length + 1)))
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(arguments);
    if (length < 0 || !text)
        edits->failed = true;
    else
        gs_edits_put(edits, at, removed, text, (size_t)length);
    if (text != small)
        free(text);
}

/* The texts of one place are in `text` in the order in which they were added, so `first` gives their order. */
GS_ORDER_THEN(by_place, struct gs_edit, at, first)

bool gs_edits_apply(gs_edits *edits, const char *text, size_t from, size_t to, gs_text *into) {
    size_t at = from;
    if (edits->count)
        qsort(edits->data, edits->count, sizeof *edits->data, by_place);
    for (size_t i = 0; i < edits->count; i++) {
        const struct gs_edit *edit = &edits->data[i];
        if (edit->at > at)
            gs_text_put(into, text + at, edit->at - at);
        gs_text_put(into, edits->text.data + edit->first, edit->count);
        at = gs_max_u64(at, edit->at + edit->removed);
    }
    if (to > at)
        gs_text_put(into, text + at, to - at);
    return !edits->failed && !edits->text.failed && !into->failed;
}

void gs_edits_free(gs_edits *edits) {
    free(edits->data);
    gs_text_free(&edits->text);
    *edits = (gs_edits){0};
}
