/*
 * subject.h: a kernel with its inputs on a GPU, in all the forms that were asked for. For this room only.
 *
 *   subject.c       inputs on the GPU, results compared there
 *   subject_text.c  the PTX of a form, of the zoo or of a user's file
 */
#ifndef GS_SUBJECT_H
#define GS_SUBJECT_H

#include "measure.h"

/* ---- the GPU (bench_gpu.c) ---- */

/* What compiles, and two streams of the same context. */
typedef struct gs_bench_gpu {
    gs_executor *executor;
    gs_app_stream *streams[2];
    int32_t sms;
    char name[96];   /* as the driver says */
    uintptr_t tools; /* the module with the kernels below */
    uint64_t counter;
} gs_bench_gpu;

gs_code gs_bench_gpu_open(gs_bench_gpu *gpu, const char *rest, gs_error *error);
/* Copies memory on the GPU; compares it: how many words differ. Both wait. */
gs_code gs_bench_copy(gs_bench_gpu *gpu, uint64_t to, uint64_t from, size_t bytes, gs_error *error);
gs_code gs_bench_copy_later(gs_bench_gpu *gpu, gs_app_stream *stream, uint64_t to, uint64_t from, size_t bytes,
                            gs_error *error); /* does not wait */
gs_code gs_bench_differ(gs_bench_gpu *gpu, uint64_t a, uint64_t b, size_t bytes, uint64_t *words, gs_error *error);

/* ---- subjects ---- */

/* A form that was compiled: a module for each kind of launch. */
typedef struct gs_subject_program {
    int32_t form;      /* -1: as written */
    int32_t registers; /* the limit that was asked for */
    bool is_checked;   /* it has computed the right results alone */
    gs_zoo_part parts[GS_ZOO_KINDS];
    char problem[GS_SEARCH_WORDS]; /* why it cannot run; "": it can */
} gs_subject_program;

typedef struct gs_subject {
    gs_kernel_source source;
    gs_pair_search_kernel given;
    gs_zoo_instance instance;
    gs_ptx_file file; /* of a user's kernel */
    gs_ptx_place place;
    bool is_sent;
    bool is_changed[GS_ZOO_BUFFERS], is_unsteady[GS_ZOO_BUFFERS];
    uint64_t memory[GS_ZOO_BUFFERS], saved[GS_ZOO_BUFFERS], expected[GS_ZOO_BUFFERS];
    struct {
        gs_subject_program **data;
        size_t count, capacity;
    } programs;
} gs_subject;

/* Opens the source and compiles it: `subject->given` is set then. A kernel that does not compile has a problem, and is
   no error. */
gs_code gs_subject_open(gs_subject *subject, gs_bench_gpu *gpu, gs_error *error);
/* The inputs are on the GPU from then on, and the results of the kernel as written are known. `play` runs all launches
   of a subject once, as written. */
typedef gs_code gs_subject_play(void *inside, gs_subject *subject, gs_error *error);
gs_code gs_subject_send(gs_subject *subject, gs_bench_gpu *gpu, gs_subject_play *play, void *inside, gs_error *error);
/* The inputs again; on a stream, without waiting, or at once (`stream` is NULL). */
gs_code gs_subject_restore(gs_subject *subject, gs_bench_gpu *gpu, gs_app_stream *stream, gs_error *error);
/* GS_E_KERNEL: the results are not those of the kernel as written. */
gs_code gs_subject_check(gs_subject *subject, gs_bench_gpu *gpu, gs_error *error);
/* The program of a form, compiled where it was not. NULL: out of memory. */
gs_subject_program *gs_subject_program_of(gs_subject *subject, gs_bench_gpu *gpu, int32_t form, int32_t registers,
                                          gs_error *error);

/* How many workers per SM launches of a kind have, if the main one has `workers`. */
int32_t gs_subject_workers(const gs_subject *subject, const gs_subject_program *program, size_t kind, int32_t workers);

/* ---- texts (subject_text.c) ---- */

/* Makes the instance of the source: that of the zoo, or one of a launch file. */
gs_code gs_subject_make_instance(gs_subject *subject, gs_error *error);
/* The PTX of a kind in a form. GS_E_REFUSED, GS_E_KERNEL: there is none. */
gs_code gs_subject_make_text(gs_subject *subject, size_t kind, int32_t form, uint32_t registers, gs_zoo_part *part,
                             gs_error *error);

#endif
