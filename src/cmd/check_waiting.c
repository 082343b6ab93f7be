/*
 * check_waiting.c: which kernels of a recorded program wait for other blocks, and which of these may run at the same
 * time, for `gridsmith check --waiting`.
 *
 * A kernel waits if it was launched as cooperative, if its name is that of a collective, if it is named by the user, or
 * if its machine code has a loop that does nothing but read memory.
 */
#define _GNU_SOURCE
#include "check_waiting.h"
#include "kernels/sass/sass.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { MOST_CODE = 1 << 30, STEP = 8 };

/* ---- machine code ---- */

static gs_sass_code code_in_file(const char *bytes, size_t size, int architecture, const char *kernel) {
    gs_sass_code found = gs_sass_code_of(bytes, size, architecture, kernel, ZSTD_decompress);
    for (size_t at = 0; at + STEP < size && found == GS_SASS_CODE_UNKNOWN;) {
        size_t whole = 0;
        bool begins = gs_fatbin_begins(bytes + at, size - at, &whole) && whole;
        if (begins)
            found = gs_sass_code_of(bytes + at, whole, architecture, kernel, ZSTD_decompress);
        at += begins ? (whole + STEP - 1) / STEP * STEP : STEP;
    }
    return found;
}

static gs_code mark_by_code(const gs_run *run, const char *file, int architecture, bool *waits, gs_error *error) {
    gs_names seen = {0};
    char *bytes = NULL;
    size_t size = 0;
    gs_code code = gs_input_all(file, MOST_CODE, &bytes, &size, error);
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++) {
        size_t first = gs_names_add(&seen, run->launches.data[i].kernel, i);
        if (first == SIZE_MAX)
            code = gs_fail_memory(error);
        else if (first < i)
            waits[i] = waits[i] || waits[first];
        else
            waits[i] =
                waits[i] || code_in_file(bytes, size, architecture, run->launches.data[i].kernel) == GS_SASS_CODE_WAITS;
    }
    gs_names_free(&seen);
    free(bytes);
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

static int architecture_of(const gs_gpu *gpu) {
    char *end;
    long major = gpu->compute_capability ? strtol(gpu->compute_capability, &end, 10) : 0;
    return major ? (int)(10 * major + (*end == '.' ? strtol(end + 1, NULL, 10) : 0)) : 0;
}

gs_code gs_waiting_mark(const gs_run *run, const gs_gpu *gpu, const char *patterns, const gs_words *files, bool *waits,
                        gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < run->launches.count; i++) {
        const gs_launch *launch = &run->launches.data[i];
        waits[i] = (launch->issue.facts && launch->issue.facts->is_cooperative == 1) || is_collective(launch->kernel) ||
                   (patterns && gs_run_matches(launch->kernel, patterns));
    }
    for (size_t i = 0; i < files->count && code == GS_OK; i++)
        code = mark_by_code(run, files->data[i], architecture_of(gpu), waits, error);
    return code;
}

/* ---- questions ---- */

/* Each kernel and shape alone. */
static gs_code add_single(const gs_run *run, const bool *waits, gs_waiting *waiting, gs_error *error) {
    for (size_t i = 0; i < run->launches.count; i++) {
        const gs_launch *launch = &run->launches.data[i];
        bool is_new = waits[i];
        for (size_t k = 0; k < waiting->count && is_new; k++) {
            const gs_launch *other = &run->launches.data[waiting->data[k]];
            is_new = strcmp(other->kernel, launch->kernel) != 0 || other->blocks != launch->blocks ||
                     other->cluster != launch->cluster ||
                     memcmp(&other->shape, &launch->shape, sizeof launch->shape) != 0;
        }
        if (is_new && !GS_PUSH(waiting, i))
            return gs_fail_memory(error);
    }
    return GS_OK;
}

gs_code gs_waiting_find(const gs_run *run, const bool *waits, gs_waiting *waiting, gs_error *error) {
    *waiting = (gs_waiting){0};
    gs_code code = add_single(run, waits, waiting, error);
    return code == GS_OK ? gs_concurrent_find(run, waits, &waiting->pairs, error) : code;
}

void gs_waiting_clear(gs_waiting *waiting) {
    gs_concurrent_clear(&waiting->pairs);
    free(waiting->data);
    *waiting = (gs_waiting){0};
}
