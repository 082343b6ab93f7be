/*
 * ptxas_options.c: the words for ptxas among the options that users write for nvcc.
 *
 * nvcc gives some of its options to ptxas, in ptxas's words, and what follows -Xptxas as it is. The same is done here
 * for PTX of any compiler. Options that only matter once code is linked are refused: the registers of a kernel are then
 * those of all that it calls.
 */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

enum how { AS_IT_IS, WITH_VALUE, REFUSED_IF_TRUE, REFUSED };

#define AFTER_LINKING "registers are known only when the code is linked; give the linked program, or leave it out"

static const struct option {
    const char *name;
    enum how how;
    const char *words; /* separated by commas; with a value: what stands before it; or why it is refused */
} table[] = {{"-Xptxas", WITH_VALUE, ""},
             {"--ptxas-options", WITH_VALUE, ""},
             {"-maxrregcount", WITH_VALUE, "-maxrregcount="},
             {"--maxrregcount", WITH_VALUE, "-maxrregcount="},
             {"-Ofc", WITH_VALUE, "--Ofast-compile="},
             {"--Ofast-compile", WITH_VALUE, "--Ofast-compile="},
             {"-G", AS_IT_IS, "-g,--dont-merge-basicblocks,--return-at-end"},
             {"--device-debug", AS_IT_IS, "-g,--dont-merge-basicblocks,--return-at-end"},
             {"-rdc", REFUSED_IF_TRUE, AFTER_LINKING},
             {"--relocatable-device-code", REFUSED_IF_TRUE, AFTER_LINKING},
             {"-dc", REFUSED, AFTER_LINKING},
             {"--device-c", REFUSED, AFTER_LINKING},
             {"-dlto", REFUSED, AFTER_LINKING},
             {"--dlink-time-opt", REFUSED, AFTER_LINKING},
             {"-ewp", REFUSED, AFTER_LINKING},
             {"--extensible-whole-program", REFUSED, AFTER_LINKING},
             {"-dopt", REFUSED, "give -G or -lineinfo alone"},
             {"--dopt", REFUSED, "give -G or -lineinfo alone"}};

/* The row of an option, and where its value begins in the word; NULL: in the next word. */
static const struct option *find_option(const char *word, const char **value) {
    for (size_t i = 0; i < GS_COUNT(table); i++) {
        size_t length = strlen(table[i].name);
        if (strncmp(word, table[i].name, length) != 0 || (word[length] && word[length] != '='))
            continue;
        *value = word[length] ? word + length + 1 : NULL;
        return &table[i];
    }
    return NULL;
}

/* Adds the parts of a list with commas. */
static bool add_parts(gs_ptxas_words *words, const char *list) {
    while (*list) {
        size_t length = strcspn(list, ",");
        char *part = length ? strndup(list, length) : NULL;
        if (length && (!part || !GS_PUSH(words, part))) {
            free(part);
            return false;
        }
        list += length + (list[length] == ',');
    }
    return true;
}

static gs_code add_option(gs_ptxas_words *words, const struct option *option, const char *value, gs_error *error) {
    bool is_true = option->how == REFUSED_IF_TRUE && strcmp(value, "true") == 0;
    if (option->how == REFUSED || is_true)
        return gs_fail(error, GS_E_USAGE, "%s%s: %s", option->name, is_true ? "=true" : "", option->words);
    if (option->how == REFUSED_IF_TRUE)
        return GS_OK;
    gs_text text = {0};
    gs_text_add(&text, "%s%s", option->words, option->how == AS_IT_IS ? "" : value);
    bool is_done = !text.failed && add_parts(words, text.data);
    gs_text_free(&text);
    return is_done ? GS_OK : gs_fail_memory(error);
}

gs_code gs_ptxas_words_of(gs_ptxas_words *words, const char *const *options, size_t count, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        const char *value = NULL;
        const struct option *option = find_option(options[i], &value);
        if (!option)
            continue;
        bool has_value = option->how == WITH_VALUE || option->how == REFUSED_IF_TRUE;
        if (has_value && !value)
            value = ++i < count ? options[i] : NULL;
        code = has_value && !value ? gs_fail(error, GS_E_USAGE, "%s needs a value", option->name)
                                   : add_option(words, option, value, error);
    }
    return code;
}

void gs_ptxas_words_free(gs_ptxas_words *words) {
    for (size_t i = 0; i < words->count; i++)
        free(words->data[i]);
    free(words->data);
    *words = (gs_ptxas_words){0};
}
