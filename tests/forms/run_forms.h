/* run_forms.h: many small kernels in all forms, run on the CPU and compared. See run_forms.c. */
#ifndef TEST_FORMS_H
#define TEST_FORMS_H

#include "kernels/cpu/variant.h"

typedef struct formed {
    char name[80];    /* of its namespace */
    char kernel[100]; /* in the source */
    gs_text text;     /* CUDA C */
    gs_launch_file *launch;
    bool is_left_out; /* it is ignored */

    char symbol[GS_JOB_NAME]; /* set by forms_compile */
    gs_error refusal;         /* set by forms_make; GS_OK: it has both forms */
    gs_ptx_form made;         /* how */
} formed;

/* The lists of these functions have structs of `stride` bytes that begin with a `formed`. Failures fail the test. */

/* Appends all sources, each in a namespace of its own. */
void forms_put_all(const formed *first, size_t stride, size_t count, gs_text *into);
/* Compiles all sources, once, by clang if it is installed; appends the PTX. `folder` has the headers that they include.
 */
void forms_compile(formed *first, size_t stride, size_t count, const char *folder, gs_text *ptx);
/* Makes both forms of each kernel of a PTX text, and appends them to it. */
void forms_make(formed *first, size_t stride, size_t count, gs_text *ptx);
/* Runs each kernel that has its forms in many ways: all must compute the same. */
void forms_check(const formed *first, size_t stride, size_t count, const gs_text *ptx);
/* Whether NVIDIA's assembler must take the kernels: GRIDSMITH_ON=cuda, where they run on a GPU, or ptxas. */
bool forms_are_assembled(void);
void forms_free(formed *it);

#endif
