/*
 * include_search.c: the include folders of compilers.
 *
 * Compilers print with -v the programs that they start, and the list of folders. That also covers variables such as
 * CPATH. NVRTC has only the folders that it is given.
 */
#define _GNU_SOURCE
#include "include_search.h"

#include "kernels/cuda/cuda.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static gs_code add_folder(gs_include_search *search, const char *path, gs_error *error) {
    char *kept = GS_RESERVE(search, 1) ? strdup(path) : NULL;
    if (!kept)
        return gs_fail_memory(error);
    search->data[search->count++] = kept;
    return GS_OK;
}

/* ---- compilers ---- */

/* A program may be a link to another one, which needs the files around it: bin/../lib. */
static gs_code add_program(gs_dependencies *all, gs_readable *readable, const char *path, gs_error *error) {
    char real[PATH_MAX];
    gs_code code = gs_dependencies_add_tool(all, path, error);
    if (code != GS_OK || !realpath(path, real))
        return code;
    code = gs_dependencies_add_tool(all, real, error);
    bool is_good = gs_readable_add(readable, path) && gs_readable_add(readable, real);
    char *slash = strrchr(real, '/');
    *slash = '\0';
    slash = strrchr(real, '/');
    if (slash && strcmp(slash, "/bin") == 0 && slash > real) {
        const char *home = getenv("HOME");
        *slash = '\0';
        if (!home || strcmp(real, home) != 0)
            is_good = is_good && gs_readable_add(readable, real);
    }
    return code != GS_OK ? code : is_good ? GS_OK : gs_fail_memory(error);
}

static gs_code ask(const char *compiler, const char *language, const char *log, gs_error *error) {
    const char *words[] = {
        compiler, "-x", language, "-E", "-v", "/dev/null", "-nocudainc", "-nocudalib", "--cuda-device-only", NULL};
    if (strcmp(language, "cuda") != 0)
        words[6] = NULL;
    const gs_process_options options = {.words = words, .input = "/dev/null", .output = "/dev/null", .errors = log};
    pid_t process;
    gs_code code = gs_process_start(&options, &process, error);
    if (code != GS_OK)
        return code;
    return gs_process_wait(process) == 0
               ? GS_OK
               : gs_fail(error, GS_E_IO, "%s does not work: it cannot preprocess an empty file", compiler);
}

/* A line before the list that begins with a path is a started program. */
static gs_code take_program(gs_dependencies *all, gs_readable *readable, char *line, gs_error *error) {
    line += strspn(line, " \"");
    line[strcspn(line, " \"")] = '\0';
    return line[0] == '/' && access(line, X_OK) == 0 ? add_program(all, readable, line, error) : GS_OK;
}

static gs_code take_folder(gs_dependencies *all, char *line, gs_error *error) {
    char *note = strstr(line, " (framework");
    if (note)
        *note = '\0';
    return add_folder(&all->search, line + 1, error);
}

static gs_code read_answer(gs_dependencies *all, gs_readable *readable, char *text, gs_error *error) {
    bool is_list = false;
    gs_code code = GS_OK;
    for (char *line = text, *next; *line && code == GS_OK; line = next) {
        size_t length = strcspn(line, "\n");
        next = line + length + (line[length] == '\n');
        line[length] = '\0';
        if (strncmp(line, "#include ", 9) == 0)
            is_list = true;
        else if (strncmp(line, "End of search", 13) == 0)
            is_list = false;
        else if (line[0] == ' ' && line[1])
            code = is_list ? take_folder(all, line, error) : take_program(all, readable, line, error);
    }
    return code;
}

/* Adds the compiler itself, its programs, and its folders. */
static gs_code add_compiler(gs_dependencies *all, gs_readable *readable, const char *compiler, const char *language,
                            const char *folder, gs_error *error) {
    enum { LONGEST = 1 << 20 };
    char program[PATH_MAX], log[PATH_MAX], *text = NULL;
    size_t size;
    if (!gs_program_find(compiler, program, sizeof program))
        return gs_fail(error, GS_E_IO, "cannot start %s: it was not found", compiler);
    snprintf(log, sizeof log, "%s/search.log", folder);
    gs_code code = add_program(all, readable, program, error);
    if (code == GS_OK)
        code = ask(compiler, language, log, error);
    if (code == GS_OK)
        code = gs_input_all(log, LONGEST, &text, &size, error);
    if (code == GS_OK)
        code = read_answer(all, readable, text, error);
    free(text);
    return code;
}

gs_code gs_include_search_compiler(gs_dependencies *all, gs_readable *readable, const char *compiler,
                                   const char *language, const char *folder, gs_error *error) {
    gs_code code = add_folder(&all->search, folder, error);
    if (code == GS_OK)
        code = add_compiler(all, readable, compiler, language, folder, error);
    if (code == GS_OK && all->search.count < 2)
        code = gs_fail(error, GS_E_IO, "%s -v does not list its include folders", compiler);
    return code;
}

gs_code gs_include_search_tool(gs_dependencies *all, gs_readable *readable, const char *compiler, const char *folder,
                               gs_error *error) {
    size_t before = all->search.count;
    gs_code code = add_compiler(all, readable, compiler, "c", folder, error);
    while (all->search.count > before)
        free(all->search.data[--all->search.count]);
    return code;
}

/* ---- NVRTC ---- */

gs_code gs_include_search_nvrtc(gs_dependencies *all, gs_error *error) {
    char folders[2][300];
    size_t count = gs_nvrtc_folders(folders);
    gs_code code = GS_OK;
    for (size_t i = 0; i < count && code == GS_OK; i++)
        code = add_folder(&all->search, folders[i], error);
    return code;
}
