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

/* The GPU of a run has a description of its name, but other SMs: as a slice of a GPU has. */
static void put_other_sms(const gs_collection *collection, const gs_run *run, const char *file, gs_text *notes) {
    gs_gpu *described = run->gpu && run->origin.gpu_name ? gs_gpu_open(run->gpu, NULL) : NULL;
    for (size_t i = 0; i < collection->gpus.count && described; i++) {
        const gs_traced_gpu *gpu = &collection->gpus.data[i];
        if (gpu->device != run->origin.device || strcmp(gpu->name, run->origin.gpu_name) != 0 || gpu->sms < 1 ||
            gpu->sms == described->sms)
            continue;
        gs_text_add(notes, "%s: GPU %lld (%s) has %d SM%s in the trace, and %d in the description %s: predict with ",
                    file, (long long)gpu->device, gpu->name, gpu->sms, gpu->sms == 1 ? "" : "s", described->sms,
                    described->name);
        gs_text_add(notes, "--sms %d\n", gpu->sms);
        break;
    }
    gs_gpu_free(described);
}

/* The trace does not name the GPU of a run. */
static void put_nameless_gpu(const gs_run *run, const char *file, gs_text *notes) {
    if (!run->gpu && !run->origin.gpu_name)
        gs_text_add(notes, "%s: the trace does not say what GPU %lld is: predict with --gpu\n", file,
                    (long long)run->origin.device);
}

static void put_nearest(const gs_traced_gpu *gpu, const gs_gpu *nearest, const char *file, gs_text *notes) {
    gs_text_add(notes, "%s: no description of GPU %lld (%s); the nearest is %s: predict with --gpu %s", file,
                (long long)gpu->device, gpu->name, nearest->name, nearest->name);
    if (gpu->sms > 0 && gpu->sms != nearest->sms)
        gs_text_add(notes, " --sms %d", gpu->sms);
    gs_text_add(notes, "\n");
}

/* The GPU of a run, if it has a name, but no description. */
static void put_unknown_gpu(const gs_collection *collection, const gs_run *run, const char *file, gs_text *notes) {
    for (size_t i = 0; i < collection->gpus.count && run->origin.gpu_name && !run->gpu; i++) {
        const gs_traced_gpu *gpu = &collection->gpus.data[i];
        gs_gpu *nearest = gpu->device == run->origin.device ? gs_nearest_gpu(gpu) : NULL;
        if (!nearest)
            continue;
        if (strncmp(gpu->name, "AMD", 3) == 0)
            gs_text_add(notes, "%s: GPU %lld (%s) is not an NVIDIA GPU: no description is near\n", file,
                        (long long)gpu->device, run->origin.gpu_name);
        else
            put_nearest(gpu, nearest, file, notes);
        gs_gpu_free(nearest);
        return;
    }
}

static void put_left_out(gs_text *notes, const char *file, size_t count, const char *why) {
    if (count)
        gs_text_add(notes, "%s: %zu wait%s between streams %s left out: %s\n", file, count, count == 1 ? "" : "s",
                    count == 1 ? "is" : "are", why);
}

/* Whether a GPU of the runs has several streams. */
static bool has_several_streams(const gs_collection *collection, int64_t device) {
    for (size_t i = 0; i < collection->streams.count; i++)
        for (size_t k = 0; k < i; k++)
            if (collection->streams.data[k].device == collection->streams.data[i].device &&
                (device == GS_NOT_GIVEN || device == collection->streams.data[i].device))
                return true;
    return false;
}

static void add_notes(const gs_collection *collection, int64_t device, const char *path, gs_text *notes) {
    const char *file = gs_input_name(path);
    if (!collection->has_waits && has_several_streams(collection, device))
        gs_text_add(notes, "%s: the trace has no waits between streams%s\n", file,
                    strncmp(collection->recorder, "Nsight", 6) == 0
                        ? ""
                        : "; profile with enable_cuda_sync_events to get them");
    put_left_out(notes, file, collection->unnamed_waits, "the trace does not say what waits for what");
    put_left_out(notes, file, collection->lost_waits, "their calls, or those of the events, are not in the trace");
    put_left_out(notes, file, collection->waits_between_gpus, "they are between GPUs");
    if (collection->whole_graphs)
        gs_text_add(notes,
                    "%s: the kernels of %zu launch%s of CUDA graphs are not in the trace; profile with "
                    "--cuda-graph-trace=node to get them\n",
                    file, collection->whole_graphs, collection->whole_graphs == 1 ? "" : "es");
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
    for (size_t i = first; i < imported->count && code == GS_OK; i++)
        code = gs_supply(options, imported->data[i], &imported->notes, error);
    gs_put_lacking(collection, imported->data + first, imported->count - first, gs_input_name(path), &imported->notes);
    add_notes(collection, options->device, path, &imported->notes);
    for (size_t i = first; i < imported->count; i++) {
        put_unknown_gpu(collection, imported->data[i], gs_input_name(path), &imported->notes);
        put_nameless_gpu(imported->data[i], gs_input_name(path), &imported->notes);
        put_other_sms(collection, imported->data[i], gs_input_name(path), &imported->notes);
    }
    gs_put_missing(collection, imported->data + first, imported->count - first, gs_input_name(path), &imported->notes);
    return code;
}

static size_t count_launches(const gs_collection *collection) {
    size_t launches = 0;
    for (size_t i = 0; i < collection->traced.count; i++)
        launches += collection->traced.data[i].what->op == GS_TRACED_LAUNCH;
    return launches;
}

/* Older versions of the profiler know no priority: then no launch has one. */
static gs_code import_json(gs_input *input, const gs_import_options *options, const char *path, gs_imported *imported,
                           gs_error *error) {
    gs_collection collection = {.lacks = "cluster carveout_percent local_bytes"};
    gs_code code = gs_import_kineto(input, &collection, error);
    size_t length = strlen(error->message);
    if (code == GS_E_FORMAT && options->needs_run && !collection.traced.count)
        snprintf(error->message + length, sizeof error->message - length,
                 "; a recording of 'gridsmith trace' begins with \"schema\"");
    if (code == GS_OK && collection.missing[GS_TRACE_PRIORITY] == count_launches(&collection)) {
        collection.lacks = "cluster carveout_percent local_bytes priority";
        collection.missing[GS_TRACE_PRIORITY] = 0;
    }
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

/* The stack of a recursive kernel is not known to the compiler. */
static void note_stacks(const gs_kernel_list *kernels, size_t first, const char *path, gs_text *notes) {
    size_t unknown = 0;
    for (size_t i = first; i < kernels->count; i++)
        unknown += kernels->data[i].stack_is_unknown;
    if (unknown)
        gs_text_add(notes,
                    "%s: %zu kernel%s with an unknown stack: no local memory is assumed for %s; supply local_bytes "
                    "with --set\n",
                    gs_input_name(path), unknown, unknown == 1 ? "" : "s", unknown == 1 ? "it" : "them");
}

/* For a cubin, cuobjdump does not print the architecture. */
static void note_reserved(const gs_kernel_list *kernels, size_t first, const char *path, gs_text *notes) {
    enum { RESERVED_BYTES = 1024 };
    size_t unsure = 0;
    for (size_t i = first; i < kernels->count; i++)
        unsure += !kernels->data[i].architecture[0] && kernels->data[i].shared_bytes >= RESERVED_BYTES;
    if (unsure)
        gs_text_add(
            notes,
            "%s: the architecture of %zu kernel%s is not in the file; if it is sm_90 or later, %s shared memory "
            "contains 1,024 bytes that the runtime reserves\n",
            gs_input_name(path), unsure, unsure == 1 ? "" : "s", unsure == 1 ? "its" : "their");
}

static gs_code import_text(gs_input *input, const gs_import_options *options, const char *path, gs_imported *imported,
                           gs_error *error) {
    size_t before = imported->kernels.count, count;
    const char *bytes, *other;
    gs_code code = gs_input_more(input, &bytes, &count, error);
    if (code == GS_OK && (other = gs_other_file(path, bytes, count)))
        return gs_fail(error, GS_E_FORMAT, "%s: %s", gs_input_name(path), other);
    if (code == GS_OK && options->needs_run)
        return gs_fail(error, GS_E_FORMAT,
                       "%s: expected a recording of 'gridsmith trace', a trace of the PyTorch profiler (JSON), or a "
                       "database of Nsight Systems (SQLite)",
                       gs_input_name(path));
    if (code == GS_OK)
        code = gs_import_resources(input, &imported->kernels, error);
    if (code == GS_OK && imported->kernels.count == before)
        code = gs_fail(error, GS_E_FORMAT,
                       "%s: not a trace: expected one of the PyTorch profiler (JSON), a database of Nsight Systems "
                       "(SQLite), or the output of cuobjdump --dump-resource-usage or ptxas -v",
                       gs_input_name(path));
    for (size_t i = before; i < imported->kernels.count && code == GS_OK; i++)
        code = gs_supply_kernel(options, &imported->kernels.data[i], error);
    if (code == GS_OK) {
        note_reserved(&imported->kernels, before, path, &imported->notes);
        note_stacks(&imported->kernels, before, path, &imported->notes);
    }
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
        code = import_text(input, options, path, imported, error);
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

gs_code gs_import_finish(const gs_import_options *options, const gs_imported *imported, gs_error *error) {
    gs_error ignored;
    return gs_check_patterns(options, imported, error ? error : &ignored);
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
