/*
 * gridsmith_job.h: what a program that runs kernels is told, and what it answers.
 *
 * Kernels run on the CPU in a process of their own, so that a crash of theirs is only theirs. The library writes a job
 * into a file, the process maps that file, runs the calls in order and writes the buffers, the times and what went
 * wrong back into it. This file is compiled into both.
 *
 * The second half is how a reshaped kernel is called: its last parameter, after the kernel's own, is one of these
 * structs by value. OUT.cu has the same structs in CUDA's words (src/reshape/prelude.c).
 */
#ifndef GRIDSMITH_JOB_H
#define GRIDSMITH_JOB_H

#include <stdint.h>

enum {
    GS_JOB_MAGIC = 0x47534a33,
    GS_JOB_NAME = 256,
    GS_JOB_VALUE = 256, /* the largest argument by value */
    GS_JOB_MESSAGE = 900,
    GS_JOB_SMS = 1024,       /* the most SMs that a mask can name */
    GS_JOB_BLOCKS = 1 << 30, /* the most blocks of a grid that is reshaped */
    GS_JOB_TASK = 1 << 10    /* the most of them taken at a time */
};

/* ---- the last parameter of a reshaped kernel ---- */

/* `persistent`: the grid of the original, which has at most GS_JOB_BLOCKS; the workers are the blocks of the launch. */
typedef struct gs_persistent_parameter {
    uint32_t grid_x, grid_y, grid_z;
    uint32_t task_blocks;
    uint64_t marks; /* uint32_t *: how often each block ran, for builds with GRIDSMITH_MARKS; else 0 */
    uint64_t queue; /* uint64_t *: 0 before the first launch and after each */
} gs_persistent_parameter;

/* `confined`: besides, where the queue, the stop word and the mask are. */
typedef struct gs_confined_parameter {
    uint32_t grid_x, grid_y, grid_z;
    uint32_t task_blocks;
    uint64_t marks;
    uint64_t next; /* uint64_t *: the first block that nobody has taken; all are taken when it reaches the end */
    uint64_t stop; /* const uint32_t *: not 0: workers leave, as docs/reshape.md says */
    uint64_t sms;  /* const uint32_t *: bit i of word i / 32: workers may stay on SM i; NULL: on all */
} gs_confined_parameter;

/* ---- the job ---- */

enum gs_form { GS_FORM_ORIGINAL, GS_FORM_PERSISTENT, GS_FORM_CONFINED, GS_FORM_ELASTIC, GS_FORM_REGISTERS, GS_FORMS };

/* An argument of a kernel: a value, or a buffer that lives as long as the job. */
typedef struct gs_job_argument {
    int32_t buffer; /* number of the buffer, or -1: */
    uint32_t bytes; /* the size of `value` */
    unsigned char value[GS_JOB_VALUE];
} gs_job_argument;

/* One launch. `grid` is the original's; a reshaped kernel is launched with `workers` blocks (0: twice the SMs). */
typedef struct gs_job_call {
    char kernel[GS_JOB_NAME];
    uint32_t form; /* enum gs_form */
    uint32_t grid[3], block[3];
    uint64_t shared_bytes;
    uint32_t workers, task_blocks;
    uint32_t stops;         /* confined: so many times the kernel is told to leave, and is launched again */
    uint64_t first_blocks;  /* only so many blocks of an original kernel run; 0: all */
    int32_t marks;          /* number of the buffer that counts how often each block ran, or -1 */
    uint32_t arguments;     /* how many, */
    uint32_t first;         /* and the first of them in the job's list */
    uint64_t elapsed_ns;    /* answer: all launches of it together */
    uint32_t launches;      /* answer */
    uint32_t blocks_worked; /* answer: workers that were not turned away */
} gs_job_call;

typedef struct gs_job_buffer {
    uint64_t offset, bytes; /* in the file */
} gs_job_buffer;

enum gs_job_status { GS_JOB_UNTOUCHED, GS_JOB_DONE, GS_JOB_FAILED, GS_JOB_WRONG };

typedef struct gs_job {
    uint32_t magic, size; /* of this struct, so that a stale program notices */
    uint32_t calls, buffers, arguments;
    uint32_t threads;   /* of the CPU; 0: as many as there are cores */
    uint32_t sms;       /* that are pretended; blocks go to them in turn */
    uint32_t backwards; /* threads of a block run in reverse order: shows kernels that depend on it */
    uint32_t seconds;   /* it is given up after so long; 0: never */
    uint32_t unused;
    uint64_t seed;       /* of where stops fall and which SMs are allowed */
    uint64_t file_bytes; /* calls, buffers and arguments follow the struct in this order, then the bytes of buffers */
    uint32_t status;     /* answer: enum gs_job_status; DONE, FAILED (the kernel) or WRONG (the call) */
    char message[GS_JOB_MESSAGE];
} gs_job;

static inline gs_job_call *gs_job_calls(gs_job *job) {
    return (gs_job_call *)(job + 1);
}

static inline gs_job_buffer *gs_job_buffers(gs_job *job) {
    return (gs_job_buffer *)(gs_job_calls(job) + job->calls);
}

static inline gs_job_argument *gs_job_arguments(gs_job *job) {
    return (gs_job_argument *)(gs_job_buffers(job) + job->buffers);
}

#endif
