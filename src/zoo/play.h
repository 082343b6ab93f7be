/* play.h: a instance's launches done, once or several times over; for this room alone. See play.c. */
#ifndef GS_ZOO_PLAY_H
#define GS_ZOO_PLAY_H

#include "zoo_kernels.h"

typedef struct gs_zoo_turn {
    gs_zoo_instance *instance;
    const gs_zoo_part *parts;
    gs_executor *executor;
    const gs_zoo_form *form;
    uint32_t repeat;            /* all launches so many times over; 0: once */
    uint64_t *elapsed_ns;       /* of each time, or NULL */
    void *data[GS_ZOO_BUFFERS]; /* copies of the inputs, and then what came out */
    uint64_t total_ns;
    uint32_t launches;
} gs_zoo_turn;

/* Copies the inputs and runs. The caller frees the turn, also where it fails. */
gs_code gs_zoo_turn_run(gs_zoo_turn *turn, gs_error *error);
void gs_zoo_turn_free(gs_zoo_turn *turn);

/* Whether `data` is what the instance wants of a buffer; `*reason` has the first difference. */
bool gs_zoo_buffer_is_right(const gs_zoo_instance *instance, size_t number, const void *data, gs_error *reason);
/* Whether what came out is what the instance wants; `*reason` has the first difference. */
bool gs_zoo_turn_is_right(const gs_zoo_turn *turn, gs_error *reason);
/* What came out is what is wanted from now on. */
void gs_zoo_turn_keep(gs_zoo_turn *turn);

/* All kinds of a instance made and compiled. On failure those made are freed. */
gs_code gs_zoo_parts_make(gs_zoo_part *parts, const gs_zoo_instance *instance, gs_executor *executor,
                          const gs_zoo_form *form, gs_error *error);

#endif
