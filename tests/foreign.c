/*
 * foreign.c: reshapes CUDA code of other projects: how much of it is accepted, why the rest is refused, and whether the
 * results compile.
 *
 *   foreign FOLDER...
 *
 * Searches the files of the folders for kernels and makes each one persistent and confined. Headers that cannot be read
 * are left out, because most of these files are parts of a library: only the code of the file is judged. If NVRTC is
 * installed, it compiles the device code of a file (kernels, device functions, macros) alone, and if that works,
 * everything that was made from it must compile too. Exit code 1: an output cannot be read or does not compile.
 */
#include "reshape/kernels.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct tally {
    size_t files, unreadable, kernels, accepted, compiled, broken, not_alone;
    struct reason {
        char words[200];
        size_t count;
    } reasons[100];
    size_t reason_count;
    bool has_nvrtc;
};

static void count_reason(struct tally *tally, const char *words) {
    size_t i = 0;
    while (i < tally->reason_count && strcmp(tally->reasons[i].words, words) != 0)
        i++;
    if (i == GS_COUNT(tally->reasons))
        return;
    if (i == tally->reason_count)
        snprintf(tally->reasons[tally->reason_count++].words, sizeof tally->reasons[0].words, "%.199s", words);
    tally->reasons[i].count++;
}

/* ---- the device code of a file ---- */

static bool is_device_code(const gs_source *source, gs_span span) {
    bool is_device = false;
    for (uint32_t i = span.first; i < span.end; i++) {
        is_device |= gs_token_is(source, i, "__device__") || gs_token_is(source, i, "__global__");
        if (source->tokens.data[i].mark == '{' && !is_device && source->tokens.data[i].scope != GS_SCOPE_CLASS)
            return false;
    }
    return is_device;
}

static void put_span(const gs_source *source, gs_span span, gs_text *into) {
    const gs_token *first = &source->tokens.data[span.first], *last = &source->tokens.data[span.end - 1];
    gs_text_put(into, source->text + first->at, last->at + last->length - first->at);
    gs_text_put(into, "\n", 1);
}

static int by_place(const void *a, const void *b) {
    const gs_span *first = a, *second = b;
    return first->first < second->first ? -1 : first->first > second->first;
}

/* The first token of the definition of a kernel: its template, or extern "C". */
static uint32_t start_of(const gs_source *source, uint32_t token) {
    while (token > 0) {
        const gs_token *before = &source->tokens.data[token - 1];
        if (before->mark == ';' || before->mark == '{' || before->mark == '}' || before->directive != GS_NO_TOKEN)
            break;
        token--;
    }
    return token;
}

static void put_device_code(const gs_code_map *map, gs_text *into) {
    gs_span *spans = calloc(map->units.count + map->kernels.count + 1, sizeof *spans);
    size_t count = 0;
    for (size_t i = 0; spans && i < map->units.count; i++) {
        const gs_code_unit *unit = &map->units.data[i];
        if (unit->is_macro)
            spans[count++] = (gs_span){unit->name - 2, unit->span.end};
        else if (is_device_code(map->source, unit->span))
            spans[count++] = unit->span;
    }
    for (size_t i = 0; spans && i < map->kernels.count; i++)
        if (map->kernels.data[i].body != GS_NO_TOKEN)
            spans[count++] = (gs_span){start_of(map->source, map->kernels.data[i].global),
                                       gs_kernel_span(map, &map->kernels.data[i]).end};
    if (count)
        qsort(spans, count, sizeof *spans, by_place);
    uint32_t end = 0;
    for (size_t i = 0; i < count; i++)
        if (spans[i].first >= end && spans[i].first < spans[i].end) { /* not if it is inside another one */
            put_span(map->source, spans[i], into);
            if (map->source->tokens.data[spans[i].first].scope == GS_SCOPE_CLASS)
                gs_text_put(into, ";", 1);
            end = spans[i].end;
        }
    free(spans);
}

/* ---- trying ---- */

static bool compiles(const char *text, size_t size, gs_error *error) {
    gs_build build = {.name = "foreign.cu", .text = text, .size = size};
    return gs_cubin_costs(&build, 90, NULL, error) == GS_OK;
}

static void try_kernel(struct tally *tally, const gs_source *source, const char *file, const char *kernel,
                       enum gs_form form, bool alone) {
    gs_reshape_options options = {.form = form};
    gs_text output = {0};
    gs_error error;
    gs_source again;
    gs_code code = gs_reshape(source, kernel, &options, &output, &error);
    tally->kernels++;
    if (code != GS_OK) {
        count_reason(tally, error.message);
    } else {
        tally->accepted++;
        bool is_readable = gs_source_read(&again, "output", output.data, output.count, &error) == GS_OK;
        if (is_readable)
            gs_source_free(&again);
        bool is_right = is_readable && (!alone || compiles(output.data, output.count, &error));
        tally->compiled += is_right && alone;
        if (!is_right) {
            tally->broken++;
            printf("BROKEN %s, %s as %s: %s\n", file, kernel, gs_form_name(form), error.message);
        }
    }
    gs_text_free(&output);
}

/* Each kernel of the device code, by name, in both forms. */
static void try_code(struct tally *tally, const char *file, const gs_text *text) {
    gs_source source;
    gs_code_map map;
    gs_error error;
    if (gs_source_read(&source, file, text->data, text->count, &error) != GS_OK)
        return;
    bool alone = tally->has_nvrtc && compiles(text->data, text->count, &error);
    if (gs_map_read(&map, &source, &error) == GS_OK) {
        for (size_t i = 0; i < map.kernels.count; i++) {
            const gs_token *name = &source.tokens.data[map.kernels.data[i].name];
            char kernel[200];
            snprintf(kernel, sizeof kernel, "%.*s", (int)name->length, source.text + name->at);
            if (map.kernels.data[i].body == GS_NO_TOKEN)
                continue;
            tally->not_alone += !alone;
            try_kernel(tally, &source, file, kernel, GS_FORM_PERSISTENT, alone);
            try_kernel(tally, &source, file, kernel, GS_FORM_CONFINED, alone);
        }
        gs_map_free(&map);
    }
    gs_source_free(&source);
}

static void try_file(struct tally *tally, const char *path) {
    char *text = NULL;
    size_t size;
    gs_error error;
    gs_source source;
    gs_code_map map;
    if (gs_input_all(path, 8 << 20, &text, &size, &error) != GS_OK || !strstr(text, "__global__")) {
        free(text);
        return;
    }
    tally->files++;
    if (gs_source_read(&source, path, text, size, &error) != GS_OK) {
        tally->unreadable++;
    } else {
        if (gs_map_read(&map, &source, &error) == GS_OK) {
            gs_text code = {0};
            put_device_code(&map, &code);
            if (code.count)
                try_code(tally, path, &code);
            gs_text_free(&code);
            gs_map_free(&map);
        }
        gs_source_free(&source);
    }
    free(text);
}

static bool is_source(const char *name) {
    static const char *const ends[] = {".cu", ".cuh", ".h", ".hpp", ".inl"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < GS_COUNT(ends); i++)
        if (strcmp(dot, ends[i]) == 0)
            return true;
    return false;
}

static void try_folder(struct tally *tally, const char *path, int depth) {
    DIR *folder = depth < 20 ? opendir(path) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char name[2000];
        struct stat status;
        if (entry->d_name[0] == '.' || snprintf(name, sizeof name, "%s/%s", path, entry->d_name) >= (int)sizeof name ||
            lstat(name, &status) != 0)
            continue;
        if (S_ISDIR(status.st_mode))
            try_folder(tally, name, depth + 1);
        else if (S_ISREG(status.st_mode) && is_source(name))
            try_file(tally, name);
    }
    if (folder)
        closedir(folder);
}

int main(int argc, char **argv) {
    static struct tally tally;
    static const char nothing[] = "__global__ void nothing() {}\n";
    gs_error error;
    tally.has_nvrtc = compiles(nothing, sizeof nothing - 1, &error);
    for (int i = 1; i < argc; i++)
        try_folder(&tally, argv[i], 0);
    printf("%zu files with kernels, %zu of them with brackets that do not match\n", tally.files, tally.unreadable);
    printf("%zu reshapings tried (each kernel as persistent and as confined), %zu accepted: %.1f%%\n", tally.kernels,
           tally.accepted, tally.kernels ? 100.0 * (double)tally.accepted / (double)tally.kernels : 0.0);
    printf("%zu of those compiled by NVRTC, %zu broken; %zu kernels are in code that does not compile by itself\n",
           tally.compiled, tally.broken, tally.not_alone);
    for (size_t i = 0; i < tally.reason_count; i++)
        printf("  refused %zu times: %s\n", tally.reasons[i].count, tally.reasons[i].words);
    return tally.broken != 0;
}
