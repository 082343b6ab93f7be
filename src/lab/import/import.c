/*
 * import.c: reads a trace of any kind as runs or kernels.
 *
 * The first bytes show the kind: SQLite databases have a signature, JSON begins with a bracket, and the rest is the
 * output of a compiler, or unknown.
 */
#include "collect.h"

#include <stdio.h>
#include <stdlib.h>

typedef enum file_kind { KIND_TEXT, KIND_JSON, KIND_SQLITE } file_kind;

static gs_code find_kind(gs_input *input, file_kind *kind, gs_error *error) {
    static const char signature[] = "SQLite format 3";
    const char *bytes;
    size_t count, at = 0;
    gs_code code = gs_input_more(input, &bytes, &count, error);
    while (at < count && strchr(" \t\r\n", bytes[at]) && bytes[at])
        at++;
    *kind = KIND_TEXT;
    if (count >= sizeof signature && memcmp(bytes, signature, sizeof signature) == 0)
        *kind = KIND_SQLITE;
    else if (at < count && (bytes[at] == '{' || bytes[at] == '['))
        *kind = KIND_JSON;
    return code;
}

/* ---- notes ---- */

static void put_lacks(gs_text *notes, const char *file, const gs_collection *collection) {
    gs_text_add(notes, "%s: a trace of the %s lacks ", file, collection->recorder);
    for (const char *at = collection->lacks; *at; at++)
        gs_text_put(notes, *at == ' ' ? ", " : at, *at == ' ' ? 2 : 1);
    gs_text_add(notes, "; supply them with --set or --with\n");
}

static void add_notes(const gs_collection *collection, const gs_import_options *options, const char *path,
                      gs_text *notes) {
    const char *file = gs_input_name(path);
    if (!options->with && !options->setting_count)
        put_lacks(notes, file, collection);
    if (!collection->has_waits && collection->streams.count > 1)
        gs_text_add(notes, "%s: the trace has no waits between streams%s\n", file,
                    strncmp(collection->recorder, "Nsight", 6) == 0
                        ? ""
                        : "; profile with enable_cuda_sync_events to get them");
    if (collection->unnamed_waits)
        gs_text_add(notes, "%s: %zu waits of streams have no event; they are left out\n", file,
                    collection->unnamed_waits);
    if (collection->without_call)
        gs_text_add(notes, "%s: %zu launches have no call in the trace; they get the time of the previous call\n", file,
                    collection->without_call);
    if (collection->whole_graphs)
        gs_text_add(notes,
                    "%s: %zu launches of CUDA graphs are in the trace without their kernels; profile with "
                    "--cuda-graph-trace=node to get them\n",
                    file, collection->whole_graphs);
    if (collection->without_registers)
        gs_text_add(notes, "%s: %zu launches have no register count; 1 is assumed\n", file,
                    collection->without_registers);
}

/* ---- runs ---- */

static gs_code finish_runs(gs_collection *collection, const gs_import_options *options, const char *path,
                           gs_imported *imported, gs_error *error) {
    size_t first = imported->count;
    gs_code code = gs_collect_runs(collection, options->device, imported, error);
    if (code != GS_OK)
        return code;
    size_t launches = 0;
    for (size_t i = first; i < imported->count; i++)
        launches += imported->data[i]->launches.count;
    if (!launches && options->device != GS_NOT_GIVEN)
        return gs_fail(error, GS_E_USAGE, "%s: no kernel ran on GPU %lld", gs_input_name(path),
                       (long long)options->device);
    if (!launches)
        return gs_fail(error, GS_E_FORMAT, "%s: the trace has no kernels on a GPU", gs_input_name(path));
    add_notes(collection, options, path, &imported->notes);
    for (size_t i = first; i < imported->count && code == GS_OK; i++)
        code = gs_supply(options, imported->data[i], &imported->notes, error);
    return code;
}

static gs_code import_json(gs_input *input, const gs_import_options *options, const char *path, gs_imported *imported,
                           gs_error *error) {
    gs_collection collection = {.lacks = "cluster carveout_percent local_bytes"};
    gs_code code = gs_import_kineto(input, &collection, error);
    if (!collection.has_priorities)
        collection.lacks = "cluster carveout_percent local_bytes priority";
    if (code == GS_OK)
        code = finish_runs(&collection, options, path, imported, error);
    gs_collection_free(&collection);
    return code;
}

static gs_code import_sqlite(const gs_import_options *options, const char *path, gs_imported *imported,
                             gs_error *error) {
    gs_collection collection = {.lacks = "cluster carveout_percent priority"};
    if (strcmp(path, "-") == 0)
        return gs_fail(error, GS_E_USAGE, "a database cannot be read from standard input: give its file");
    gs_code code = gs_import_nsys(path, &collection, error);
    if (code == GS_OK)
        code = finish_runs(&collection, options, path, imported, error);
    gs_collection_free(&collection);
    return code;
}

/* ---- kernels ---- */

/* For a cubin, cuobjdump does not print the architecture. */
static void note_reserved(const gs_kernel_list *kernels, size_t first, const char *path, gs_text *notes) {
    enum { RESERVED_BYTES = 1024 };
    size_t unsure = 0;
    for (size_t i = first; i < kernels->count; i++)
        unsure += !kernels->data[i].architecture[0] && kernels->data[i].shared_bytes >= RESERVED_BYTES;
    if (unsure)
        gs_text_add(
            notes,
            "%s: the architecture of %zu kernels is not in the file; if it is sm_90 or later, their shared memory "
            "contains 1,024 bytes that the runtime reserves\n",
            gs_input_name(path), unsure);
}

static gs_code import_text(gs_input *input, const char *path, gs_imported *imported, gs_error *error) {
    size_t before = imported->kernels.count;
    gs_code code = gs_import_resources(input, &imported->kernels, error);
    if (code == GS_OK && imported->kernels.count == before)
        code = gs_fail(error, GS_E_FORMAT,
                       "%s: not a trace: expected one of the PyTorch profiler (JSON), a database of Nsight Systems "
                       "(SQLite), or the output of cuobjdump --dump-resource-usage or ptxas -v",
                       gs_input_name(path));
    if (code == GS_OK)
        note_reserved(&imported->kernels, before, path, &imported->notes);
    return code;
}

/* Reads an input, which may be NULL after an error, and closes it. */
static gs_code import_input(gs_input *input, const gs_import_options *options, const char *path, gs_imported *imported,
                            gs_error *error) {
    file_kind kind = KIND_TEXT;
    gs_code code = input ? find_kind(input, &kind, error) : error->code;
    if (code == GS_OK && kind == KIND_JSON)
        code = import_json(input, options, path, imported, error);
    else if (code == GS_OK && kind == KIND_SQLITE)
        code = import_sqlite(options, path, imported, error);
    else if (code == GS_OK)
        code = import_text(input, path, imported, error);
    gs_input_close(input);
    if (code == GS_OK && imported->notes.failed)
        code = gs_fail_memory(error);
    return code;
}

gs_code gs_import(const char *path, const gs_import_options *options, gs_imported *imported, gs_error *error) {
    gs_error ignored;
    error = error ? error : &ignored;
    *error = (gs_error){.code = GS_OK};
    return import_input(gs_input_open(path, error), options, path, imported, error);
}

gs_code gs_import_bytes(const char *name, const char *bytes, size_t count, const gs_import_options *options,
                        gs_imported *imported, gs_error *error) {
    gs_error ignored;
    error = error ? error : &ignored;
    *error = (gs_error){.code = GS_OK};
    return import_input(gs_input_memory(name, bytes, count, error), options, name, imported, error);
}

void gs_imported_free(gs_imported *imported) {
    for (size_t i = 0; i < imported->count; i++)
        gs_run_free(imported->data[i]);
    for (size_t i = 0; i < imported->kernels.count; i++) {
        free(imported->kernels.data[i].name);
        free(imported->kernels.data[i].architecture);
    }
    free(imported->kernels.data);
    free(imported->data);
    gs_text_free(&imported->notes);
    *imported = (gs_imported){0};
}
