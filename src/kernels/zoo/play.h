/* play.h: runs the launches of an instance, once or several times, for this room only. See play.c. */
#ifndef GS_ZOO_PLAY_H
#define GS_ZOO_PLAY_H

#include "zoo_kernels.h"

typedef struct gs_zoo_pass {
    gs_zoo_instance *instance;
    const gs_zoo_part *parts;
    gs_executor *executor;
    const gs_zoo_form *form;
    uint32_t repeat;      /* how often all launches run; 0: once */
    uint64_t *elapsed_ns; /* of each repetition, or NULL */
    uint64_t kept_as;     /* runs with the same number may reuse the buffers of the previous run unchanged; or 0 */
    void *data[GS_ZOO_BUFFERS]; /* copies of the inputs, and after the run the results */
    uint64_t total_ns;
    uint32_t launches;
} gs_zoo_pass;

/* Copies the inputs and runs the launches. The caller frees the pass, also after an error. */
gs_code gs_zoo_pass_run(gs_zoo_pass *pass, gs_error *error);
void gs_zoo_pass_free(gs_zoo_pass *pass);

/* Whether `data` is the expected result of a buffer; if not, `*reason` has the first difference. */
bool gs_zoo_buffer_is_right(const gs_zoo_instance *instance, size_t number, const void *data, gs_error *reason);
/* Whether all results are as expected; if not, `*reason` has the first difference. */
bool gs_zoo_pass_is_right(const gs_zoo_pass *pass, gs_error *reason);
/* The results become the expected results of the instance. */
void gs_zoo_pass_keep(gs_zoo_pass *pass);

/* Finds the tracks of all steps; returns how many tracks there are. */
uint32_t gs_zoo_task_place(const gs_zoo_task *task, gs_zoo_place *places);

#endif
