/* forms.h: many small kernels in all forms, run on the CPU and compared. See forms.c. */
#ifndef GS_FORMS_H
#define GS_FORMS_H

#include "reshape/variant.h"

enum { FORMS = 3 }; /* original, persistent, confined */

typedef struct formed {
    char name[80];                /* of its namespace */
    char kernel[100], other[100]; /* other: another kernel of the file, which must not change, or "" */
    gs_text text[FORMS];
    gs_launch_file *launch;
    bool is_left_out;
} formed;

/* Runs each kernel that is not left out in many ways; fails the test if something differs. The list has structs of
   `stride` bytes that begin with a `formed`. */
void forms_check(const formed *first, size_t stride, size_t count);
/* Appends all kernels as one source. */
void forms_put_all(const formed *first, size_t stride, size_t count, int form, gs_text *into);
/* Whether kernels run on a GPU: GRIDSMITH_ON=cuda. */
bool forms_run_on_cuda(void);
void forms_free(formed *it);

#endif
