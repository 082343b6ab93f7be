/*
 * gridsmith_job.h: the last parameter of a reshaped kernel, and the job file of a process that runs kernels on the CPU.
 *
 * A reshaped kernel gets one of two structs by value as its last parameter, after its own. The PTX of the form reads
 * them (src/kernels/forms/ptx_loop.c).
 *
 * Kernels run on the CPU in a process of their own, so that a kernel that crashes ends only that process. The library
 * writes a job into a file. The process maps the file, runs the calls in order, and writes the buffers, the times and
 * an error message back into it. Both the library and the process are compiled with this header.
 */
#ifndef GRIDSMITH_JOB_H
#define GRIDSMITH_JOB_H

#include <stdint.h>

enum {
    GS_JOB_MAGIC = 0x47534a34,
    GS_JOB_NAME = 4096,
    GS_JOB_VALUE = 256, /* the largest argument by value */
    GS_JOB_MESSAGE = 900,
    GS_JOB_SMS = 1024,       /* the most SMs that a mask can name */
    GS_JOB_BLOCKS = 1 << 30, /* the most blocks of a grid that is reshaped */
    GS_JOB_TASK = 1 << 10,   /* the most blocks of a task */
    GS_JOB_SHARED = 288      /* bytes of dynamic shared memory that some forms need besides that of the kernel */
};

/* ---- the last parameter of a reshaped kernel ---- */

/* `persistent`: the grid of the original kernel, of at most GS_JOB_BLOCKS blocks. The blocks of the launch are the
   worker blocks. */
typedef struct gs_persistent_parameter {
    uint32_t grid_x, grid_y, grid_z;
    uint32_t task_blocks;
    uint64_t counts;         /* uint32_t *: how often each block ran, for forms that count it; else 0 */
    uint64_t queue;          /* uint64_t *: 0 before the first launch and after each */
    uint32_t shared, unused; /* for forms that need GS_JOB_SHARED: the dynamic shared memory without it */
} gs_persistent_parameter;

/* `confined`: also the addresses of the queue, the stop word and the mask. The queue has the blocks from `first` on. Of
   those in front, worker block i begins with block i, whatever the stop word and the mask say: in the first launch of a
   kernel `given` and `first` may be the number of worker blocks; in its later launches `given` is 0. Both are always 0
   for kernels that need the queue (gs_ptx_form). */
typedef struct gs_confined_parameter {
    uint32_t grid_x, grid_y, grid_z;
    uint32_t given; /* beside the grid, because a worker block needs them first */
    uint64_t counts;
    uint64_t next; /* uint64_t *: blocks taken from the queue; all are taken when `first` and it reach the grid */
    uint64_t stop; /* const uint32_t *: not 0: worker blocks leave, see docs/reshape.md */
    uint64_t sms;  /* const uint32_t *: bit i % 32 of word i / 32: worker blocks may run on SM i; NULL: on all SMs */
    uint32_t task_blocks, first;
    uint32_t shared, unused; /* as above */
} gs_confined_parameter;

/* ---- the job ---- */

enum gs_form { GS_FORM_ORIGINAL, GS_FORM_PERSISTENT, GS_FORM_CONFINED, GS_FORM_ELASTIC, GS_FORM_REGISTERS, GS_FORMS };

/* An argument of a kernel: a value, or a buffer, which exists as long as the job. */
typedef struct gs_job_argument {
    int32_t buffer; /* number of the buffer, or -1: */
    uint32_t bytes; /* the size of `value` */
    unsigned char value[GS_JOB_VALUE];
} gs_job_argument;

/* One call of a kernel. `grid` is that of the original; a reshaped kernel is launched with `workers` worker blocks (0:
   twice the number of SMs). */
typedef struct gs_job_call {
    char kernel[GS_JOB_NAME];
    uint32_t form; /* enum gs_form */
    uint32_t grid[3], block[3];
    uint64_t shared_bytes;
    uint32_t workers, task_blocks;
    uint32_t stops;        /* confined: how often the kernel is stopped and launched again; */
    uint32_t gives_first;  /* not 0: its worker blocks may begin with the block of their number */
    uint64_t first_blocks; /* original: how many blocks run, from the first on; 0: all */
    int32_t counts;        /* number of the buffer that counts how often each block ran, or -1 */
    uint32_t arguments;    /* the number of arguments, */
    uint32_t first;        /* and the index of the first in the list of the job */
    uint64_t elapsed_ns;   /* result: of all launches of the call */
    uint32_t launches;     /* result */
} gs_job_call;

typedef struct gs_job_buffer {
    uint64_t offset, bytes; /* in the file */
} gs_job_buffer;

enum gs_job_status { GS_JOB_UNTOUCHED, GS_JOB_DONE, GS_JOB_FAILED, GS_JOB_WRONG };

typedef struct gs_job {
    uint32_t magic, size; /* of this struct, so that a program that was built with another version fails */
    uint32_t calls, buffers, arguments;
    uint32_t threads;    /* of the CPU; 0: one per core */
    uint32_t sms;        /* simulated SMs; blocks go to them in turn */
    uint32_t backwards;  /* threads of a block run in reverse order, to find kernels that depend on the order */
    uint32_t seconds;    /* time limit of the job; 0: none */
    uint32_t shuffled;   /* blocks, and the threads of a block, run in random order */
    uint64_t seed;       /* of the random moments of stops, of random masks, and of the order */
    uint64_t file_bytes; /* calls, buffers and arguments follow the struct in this order, then the data of buffers */
    uint32_t status;     /* result: enum gs_job_status; DONE, FAILED (the kernel) or WRONG (the call) */
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
