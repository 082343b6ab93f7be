/*
 * includes.c: checks the headers of a source that is to be reshaped.
 *
 * Only the file itself is changed, so a header must not contain anything that would have to change: a block number, a
 * barrier, a macro that returns. The headers of CUDA and of the standard library are known; others are read and
 * checked.
 */
#include "kernels.h"

#include <stdlib.h>
#include <string.h>

/* Headers without barriers, block numbers or shared memory, or with names that words.c lists. */
static bool is_known_header(const char *name) {
    static const char *const known[] = {
        "cuda*",
        "mma.h",
        "math*",
        "device_*",
        "vector_*",
        "std*",
        "float.h",
        "limits*",
        "string.h",
        "assert.h",
        "cassert",
        "cmath",
        "climits",
        "cfloat",
        "cstd*",
        "curand*",
        "cooperative_groups*",
        "nv/target",
        "type_traits",
        "utility",
        "iostream",
        "vector",
        "string",
        "algorithm",
        "chrono",
        "sm_*",
        "builtin_types.h",
        "host_*",
        "driver_types.h",
        "time.h",
        "sys/*",
        "unistd.h",
        "memory",
        "tuple",
        "array",
        "functional",
        "numeric",
        "random",
        "complex*",
        "cstring",
        "iomanip",
        "fstream",
        "sstream",
        "map",
        "set",
        "errno.h",
        "crt/*",
        "helper_*",
    };
    for (size_t i = 0; i < GS_COUNT(known); i++)
        if (gs_is_word(name, strlen(name), known[i]))
            return strncmp(name, "cuda/barrier", 12) != 0 && strncmp(name, "cuda/pipeline", 13) != 0;
    return false;
}

static gs_code scan_header(const char *path, int depth, char *found, size_t size, gs_error *error);

static void folder_of(const char *path, char *folder, size_t size) {
    const char *slash = strrchr(path, '/');
    snprintf(folder, size, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
}

/* Copies the name out of "x.h" or <x.h>. */
static bool include_name(const gs_source *source, uint32_t token, char *name, size_t size) {
    const gs_token *found = gs_token_at(source, token);
    const char *text = source->text + found->at,
               *close = found->length > 2 ? memchr(text + 1, text[0] == '<' ? '>' : '"', found->length - 1) : NULL;
    if (!close || (text[0] != '<' && text[0] != '"') || (size_t)(close - text) > size)
        return false;
    snprintf(name, size, "%.*s", (int)(close - text - 1), text + 1);
    return true;
}

/* Stores the first unsafe word of a header, or of one that it includes, in `found`; "" if there is none. */
static gs_code scan_tokens(const gs_source *source, const char *folder, int depth, char *found, size_t size,
                           gs_error *error) {
    for (uint32_t i = 0; i < source->tokens.count && !found[0]; i++) {
        const char *reason = NULL;
        const gs_token *token = gs_token_at(source, i);
        char name[256];
        if (gs_word_use_of(source, i, &reason) != GS_WORD_PLAIN || gs_token_is(source, i, "asm"))
            snprintf(found, size, "%.*s", (int)token->length, source->text + token->at);
        else if (token->directive != GS_NO_TOKEN && gs_token_is(source, i, "return"))
            snprintf(found, size, "return in a macro");
        else if (token->directive == i && gs_token_is(source, i + 1, "include") &&
                 include_name(source, i + 2, name, sizeof name) && !is_known_header(name)) {
            char path[800];
            snprintf(path, sizeof path, "%s/%s", folder, name);
            gs_code code = scan_header(path, depth + 1, found, size, error);
            if (code != GS_OK)
                return code;
        }
    }
    return GS_OK;
}

static gs_code scan_header(const char *path, int depth, char *found, size_t size, gs_error *error) {
    enum { DEEPEST = 8, LARGEST = 4 << 20 };
    char *text = NULL, folder[500];
    size_t count;
    gs_source header;
    gs_code code = depth > DEEPEST ? GS_E_USAGE : gs_input_all(path, LARGEST, &text, &count, error);
    if (code == GS_OK)
        code = gs_source_read(&header, path, text, count, error);
    if (code == GS_OK) {
        folder_of(path, folder, sizeof folder);
        code = scan_tokens(&header, folder, depth, found, size, error);
        gs_source_free(&header);
    }
    free(text);
    return code;
}

static gs_code check_include(const gs_source *source, uint32_t token, const char *folder, gs_facts *facts,
                             gs_error *error) {
    char name[256], path[800], found[100] = "";
    if (!include_name(source, token, name, sizeof name))
        return gs_source_fail(source, token, error, GS_E_REFUSED, "the name of this header cannot be determined");
    if (is_known_header(name))
        return GS_OK;
    if (strncmp(name, "cub/", 4) == 0 || strncmp(name, "thrust/", 7) == 0 || strncmp(name, "cutlass/", 8) == 0) {
        facts->opaque_barrier = facts->warp = facts->opaque_warp = facts->shares = token;
        return GS_OK;
    }
    snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", name);
    gs_error inner;
    if (!folder || scan_header(path, 0, found, sizeof found, &inner) != GS_OK)
        return gs_source_fail(source, token, error, GS_E_REFUSED, "%.100s cannot be read, so it cannot be checked",
                              name);
    if (found[0])
        return gs_source_fail(source, token, error, GS_E_REFUSED,
                              "%.100s contains \"%s\"; only code in the file itself can be reshaped", name, found);
    facts->shares = token; /* the header was not searched for it */
    return GS_OK;
}

gs_code gs_check_includes(const gs_source *source, const char *folder, gs_facts *facts, gs_error *error) {
    gs_code code = GS_OK;
    for (uint32_t i = 0; i + 2 < source->tokens.count && code == GS_OK; i++)
        if (gs_token_at(source, i)->directive == i && gs_token_is(source, i + 1, "include"))
            code = check_include(source, i + 2, folder, facts, error);
    return code;
}
