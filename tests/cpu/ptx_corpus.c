/*
 * ptx_corpus.c: translates and compiles PTX files for the CPU, and reports those that fail.
 *
 *   ptx_corpus [-c] FILE...
 *
 * Prints a line for each file: "ok", the milliseconds of reading and translating, those of compiling, and the name; or
 * the reason. With -c it prints the C of the files instead. scripts/ptx_corpus.sh runs it on a folder. If a module as a
 * whole is refused, its kernels are tried one by one.
 */
#include "kernels/cpu/cpu.h"

#include <stdlib.h>

enum { MOST_BYTES = 64 << 20, MOST_KERNELS = 256 };

static struct { size_t files, files_done, kernels, kernels_done; } counts;

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The names after `.entry`. */
static size_t find_kernels(const char *text, char (*names)[GS_JOB_NAME]) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, ".entry ")) && count < MOST_KERNELS; count++) {
        at += strlen(".entry ");
        snprintf(names[count], GS_JOB_NAME, "%.*s", (int)strcspn(at, "( \n\t"), at);
    }
    return count;
}

static gs_code compile(gs_host *host, const gs_build *build, gs_error *error) {
    gs_module *module = gs_host_compile(host, build, error);
    return module ? gs_module_wait(module, error) : error->code;
}

static void try_each(gs_host *host, gs_build build, char (*names)[GS_JOB_NAME], size_t count) {
    for (size_t i = 0; i < count; i++) {
        const char *name = names[i];
        gs_error error = {.code = GS_OK};
        char words[1200];
        build.kernels = &name;
        build.kernel_count = 1;
        if (compile(host, &build, &error) == GS_OK)
            counts.kernels_done++;
        else
            printf("  %s: %s\n", name, gs_error_text(&error, words, sizeof words));
    }
}

static void try_file(gs_host *host, const char *path, bool only_translates) {
    static char names[MOST_KERNELS][GS_JOB_NAME];
    gs_error error = {.code = GS_OK};
    char *text, words[1200];
    size_t size;
    if (gs_input_all(path, MOST_BYTES, &text, &size, &error) != GS_OK) {
        fprintf(stderr, "%s\n", gs_error_text(&error, words, sizeof words));
        exit(2);
    }
    gs_build build = {.name = last_part(path), .text = text, .size = size};
    gs_text c = {0};
    size_t kernels = find_kernels(text, names);
    int64_t began = gs_now_ns();
    gs_code code = gs_host_translate_ptx(&build, &c, &error);
    int64_t translated = gs_now_ns();
    if (only_translates && code == GS_OK)
        fwrite(c.data, 1, c.count, stdout);
    if (!only_translates && code == GS_OK)
        code = compile(host, &build, &error);
    counts.files++;
    counts.kernels += kernels;
    if (code == GS_OK) {
        counts.files_done++;
        counts.kernels_done += kernels;
    }
    if (code == GS_OK && !only_translates)
        printf("ok %6.1f ms %8.1f ms  %s\n", (double)(translated - began) / 1e6,
               (double)(gs_now_ns() - translated) / 1e6, build.name);
    else if (code != GS_OK)
        printf("%s\n", gs_error_text(&error, words, sizeof words));
    if (code != GS_OK && !only_translates)
        try_each(host, build, names, kernels);
    gs_text_free(&c);
    free(text);
}

int main(int argc, char **argv) {
    gs_error error;
    bool only_translates = argc > 1 && strcmp(argv[1], "-c") == 0;
    gs_host *host = gs_host_open(&error);
    if (!host) {
        fprintf(stderr, "%s\n", error.message);
        return 2;
    }
    for (int i = 1 + only_translates; i < argc; i++)
        try_file(host, argv[i], only_translates);
    gs_host_close(host);
    if (!only_translates)
        printf("%zu of %zu files and %zu of %zu kernels run on the CPU\n", counts.files_done, counts.files,
               counts.kernels_done, counts.kernels);
    return 0;
}
