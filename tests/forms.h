/* forms.h: many small kernels in all forms, run on the CPU and compared. See forms.c. */
#ifndef GS_FORMS_H
#define GS_FORMS_H

#include "reshape/variant.h"

enum { FORMS = 3 }; /* original, persistent, confined */

typedef struct formed {
    char name[80];                /* of the namespace it gets */
    char kernel[100], other[100]; /* other: a kernel beside it that must do what it did, or "" */
    gs_text text[FORMS];
    gs_launch_file *launch;
    bool is_left_out;
} formed;

/* Runs each one, where it is not left out, in many ways; fails the test where something differs. The list is of structs
   of `stride` bytes that begin with a `formed`. */
void forms_check(const formed *first, size_t stride, size_t count);
/* All of them as one source. */
void forms_put_all(const formed *first, size_t stride, size_t count, int form, gs_text *into);
/* Whether kernels run on a GPU: GRIDSMITH_ON=cuda. */
bool forms_run_on_cuda(void);
void forms_free(formed *it);

#endif
