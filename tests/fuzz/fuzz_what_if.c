/*
 * fuzz_what_if.c: any text as the changes of a what-if and as names of kernels: what is read is within its limits, and
 * names that differ have short names that differ.
 */
#include "model/explain/explain.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void shorten(char *text) {
    gs_short_names names = {0};
    gs_names taken = {0};
    gs_error error;
    char *rest = text;
    for (char *name = strtok_r(text, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest))
        if (gs_short_names_add(&names, name, &error) != GS_OK)
            abort();
    if (gs_short_names_make(&names, &error) != GS_OK)
        abort();
    for (size_t i = 0; i < names.by_name.capacity; i++) {
        const char *name = names.by_name.slots[i].name;
        const char *brief = name ? gs_short_name(&names, name) : NULL;
        if (brief && (strlen(brief) > GS_SHORT_NAME || gs_names_add(&taken, brief, i) != i))
            abort();
    }
    gs_names_free(&taken);
    gs_short_names_clear(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    gs_what_if what_if;
    gs_error error = {0};
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (gs_what_if_read(text, &what_if, &error) == GS_OK && (!what_if.count || what_if.count > GS_WHAT_IF_CHANGES))
        abort();
    shorten(text);
    free(text);
    return 0;
}
