/*
 * form_names.c: the names of the forms of a kernel.
 */
#include "forms.h"

#include <string.h>

static const char *const names[GS_FORMS] = {"original", "persistent", "confined", "elastic", "registers"};

const char *gs_form_name(enum gs_form form) {
    return names[form];
}

bool gs_form_find(const char *name, enum gs_form *form) {
    for (int i = GS_FORM_PERSISTENT; i < GS_FORMS; i++)
        if (strcmp(name, names[i]) == 0) {
            *form = (enum gs_form)i;
            return true;
        }
    return false;
}
