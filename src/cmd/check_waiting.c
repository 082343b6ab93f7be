/*
 * check_waiting.c: which kernels of a recorded program wait for other blocks, and which of these may run at the same
 * time, for `gridsmith check --waiting`.
 *
 * A kernel waits if it was launched as cooperative, if its name is that of a collective, if it is named by the user, or
 * if its machine code, or without that its PTX, has a loop that does nothing but read memory.
 */
#define _GNU_SOURCE
#include "check_waiting.h"
#include "kernels/ptx/ptx.h"
#include "kernels/sass/sass.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { MOST_CODE = 1 << 30, STEP = 8 };

/* ---- code ---- */

/* A file with machine code, PTX or both. */
struct code_file {
    const char *name;
    char *bytes;
    size_t size;
    gs_ptx_texts texts;
};

/* A file that has no PTX may have machine code; any other file has neither. */
static gs_code open_code(struct code_file *file, gs_error *error) {
    static const char elf[] = "\177ELF", library[] = "!<arch>";
    gs_error none = {.code = GS_OK};
    size_t whole;
    gs_code code = gs_input_all(file->name, MOST_CODE, &file->bytes, &file->size, error);
    if (code != GS_OK || gs_ptx_find(gs_input_name(file->name), file->bytes, file->size, &file->texts, &none) == GS_OK)
        return code;
    bool may_have_code = gs_fatbin_begins(file->bytes, file->size, &whole) ||
                         (file->size > sizeof elf && memcmp(file->bytes, elf, sizeof elf - 1) == 0) ||
                         (file->size > sizeof library && memcmp(file->bytes, library, sizeof library - 1) == 0);
    if (may_have_code && none.code == GS_E_FORMAT)
        return GS_OK;
    *error = none;
    return error->code;
}

static void close_code(struct code_file *file) {
    gs_ptx_texts_free(&file->texts);
    free(file->bytes);
}

static unsigned find_in_machine_code(const struct code_file *file, int architecture, const char *kernel, size_t *at) {
    unsigned found = gs_sass_code_of(file->bytes, file->size, architecture, kernel, ZSTD_decompress, at);
    for (size_t i = 0; i + STEP < file->size && !found;) {
        size_t whole = 0;
        bool begins = gs_fatbin_begins(file->bytes + i, file->size - i, &whole) && whole;
        if (begins)
            found = gs_sass_code_of(file->bytes + i, whole, architecture, kernel, ZSTD_decompress, at);
        i += begins ? (whole + STEP - 1) / STEP * STEP : STEP;
    }
    return found;
}

static size_t line_of(const gs_ptx_module *module, uint32_t statement) {
    size_t line = 1, end = module->tokens.data[module->statements.data[statement].first].at;
    for (size_t i = 0; i < end; i++)
        line += module->text[i] == '\n';
    return line;
}

/* Looks for a kernel in a PTX text, and sets the line in which it waits, or leaves it at 0. */
static gs_code look_in_text(const struct code_file *file, const gs_ptx_text *text, const char *kernel, size_t *line,
                            gs_error *error) {
    gs_ptx_module module;
    uint32_t statement = GS_PTX_NONE;
    if (!memmem(text->text, text->size, kernel, strlen(kernel)))
        return GS_OK;
    gs_code code = gs_ptx_read(&module, gs_input_name(file->name), text->text, text->size, error);
    if (code != GS_OK)
        return code;
    uint32_t function = gs_ptx_find_entry(&module, kernel);
    if (function != GS_PTX_NONE)
        code = gs_ptx_waits_for_memory(&module, function, &statement, error);
    if (statement != GS_PTX_NONE)
        *line = line_of(&module, statement);
    gs_ptx_free(&module);
    return code;
}

/* The machine code decides where there is some: it is what runs. */
static gs_code look_in_code(const struct code_file *file, int architecture, const char *kernel, gs_waiting_reason *wait,
                            gs_error *error) {
    gs_code code = GS_OK;
    unsigned found = find_in_machine_code(file, architecture, kernel, &wait->at);
    wait->why = found & GS_SASS_CODE_WAITS ? GS_WAITS_IN_CODE : GS_WAITS_NOT;
    wait->file = file->name;
    for (size_t group = 0; group < file->texts.groups && !found && code == GS_OK; group++) {
        const gs_ptx_text *text =
            gs_ptx_texts_best(&file->texts, group, architecture ? architecture : (int)GS_PTX_EVERY);
        size_t line = 0;
        if (text && !wait->why)
            code = look_in_text(file, text, kernel, &line, error);
        if (line)
            *wait = (gs_waiting_reason){GS_WAITS_IN_PTX, file->name, line};
    }
    return code;
}

static gs_code mark_by_code(const gs_run *run, const char *name, int architecture, gs_waiting_reason *waits,
                            gs_error *error) {
    gs_names seen = {0};
    struct code_file file = {.name = name};
    gs_code code = open_code(&file, error);
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++) {
        const char *kernel = run->launches.data[i].kernel;
        size_t first = gs_names_add(&seen, kernel, i);
        if (first == SIZE_MAX)
            code = gs_fail_memory(error);
        else if (!waits[i].why && first < i)
            waits[i] = waits[first];
        else if (!waits[i].why)
            code = look_in_code(&file, architecture, kernel, &waits[i], error);
    }
    gs_names_free(&seen);
    close_code(&file);
    return code;
}

/* ---- marks ---- */

static bool is_collective(const char *kernel) {
    static const char *const words[] = {"nccl",       "nvshmem",        "allreduce",     "all_reduce", "allgather",
                                        "all_gather", "reduce_scatter", "reducescatter", "alltoall",   "all_to_all"};
    for (size_t i = 0; i < GS_COUNT(words); i++)
        if (strcasestr(kernel, words[i]))
            return true;
    return false;
}

gs_code gs_waiting_mark(const gs_run *run, const gs_gpu *gpu, const char *patterns, const gs_words *files,
                        gs_waiting_reason *waits, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < run->launches.count; i++) {
        const gs_launch *launch = &run->launches.data[i];
        if (launch->issue.facts && launch->issue.facts->is_cooperative == 1)
            waits[i].why = GS_WAITS_COOPERATIVE;
        else if (is_collective(launch->kernel))
            waits[i].why = GS_WAITS_COLLECTIVE;
        else if (patterns && gs_run_matches(launch->kernel, patterns))
            waits[i].why = GS_WAITS_NAMED;
    }
    for (size_t i = 0; i < files->count && code == GS_OK; i++)
        code = mark_by_code(run, files->data[i], gs_gpu_architecture(gpu), waits, error);
    return code;
}

/* ---- questions ---- */

/* Each kernel and shape alone. */
static gs_code add_single(const gs_run *run, const gs_waiting_reason *waits, gs_waiting *waiting, gs_error *error) {
    for (size_t i = 0; i < run->launches.count; i++) {
        const gs_launch *launch = &run->launches.data[i];
        bool is_new = waits[i].why;
        for (size_t k = 0; k < waiting->count && is_new; k++) {
            const gs_launch *other = &run->launches.data[waiting->data[k]];
            is_new = strcmp(other->kernel, launch->kernel) != 0 || other->blocks != launch->blocks ||
                     other->cluster != launch->cluster || !gs_shape_equal(&other->shape, &launch->shape);
        }
        if (is_new && !GS_PUSH(waiting, i))
            return gs_fail_memory(error);
    }
    return GS_OK;
}

gs_code gs_waiting_find(const gs_run *run, const gs_waiting_reason *waits, gs_waiting *waiting, gs_error *error) {
    *waiting = (gs_waiting){0};
    bool *is_waiting = calloc(run->launches.count + 1, sizeof *is_waiting);
    gs_code code = is_waiting ? add_single(run, waits, waiting, error) : gs_fail_memory(error);
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++)
        is_waiting[i] = waits[i].why;
    if (code == GS_OK)
        code = gs_concurrent_find(run, is_waiting, &waiting->pairs, error);
    free(is_waiting);
    return code;
}

void gs_waiting_clear(gs_waiting *waiting) {
    gs_concurrent_clear(&waiting->pairs);
    free(waiting->data);
    *waiting = (gs_waiting){0};
}

/* ---- reasons ---- */

void gs_put_waiting_reason(gs_text *text, const gs_waiting_reason *wait) {
    const char *file = wait->file ? gs_input_name(wait->file) : "";
    switch (wait->why) {
    case GS_WAITS_NOT:
        break;
    case GS_WAITS_COOPERATIVE:
        gs_text_add(text, "is launched as cooperative");
        break;
    case GS_WAITS_COLLECTIVE:
        gs_text_add(text, "has the name of a collective");
        break;
    case GS_WAITS_NAMED:
        gs_text_add(text, "is named by --kernels");
        break;
    case GS_WAITS_IN_CODE:
        gs_text_add(text, "reads memory until it has changed, at byte 0x%zx of its machine code in %s", wait->at, file);
        break;
    case GS_WAITS_IN_PTX:
        gs_text_add(text, "reads memory until it has changed, in line %zu of its PTX in %s", wait->at, file);
        break;
    }
}
