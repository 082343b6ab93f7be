/*
 * settings.h: the settings of the mechanisms by number, and which of them a run cannot tell apart; for fit.c, which
 * tries them all, agree.c, which plays them, and propose.c, which finds runs that tell the remaining ones apart.
 */
#ifndef GS_SETTINGS_H
#define GS_SETTINGS_H

#include "calibrate.h"

/* How many values of a switch can be tried on a GPU. Some need a list in its description. */
int gs_setting_values(const gs_gpu *gpu, const gs_mechanism *mechanism);

/* How many settings there are, and each by its number. */
size_t gs_setting_count(const gs_gpu *gpu);
gs_mechanisms gs_setting_at(const gs_gpu *gpu, size_t number);

/* The contents of a run decide which switches can matter to it: its kind is a set of bits, less than GS_KINDS. The
   beginning of a run has a kind too. It is GS_KIND_LATER if it has more than the first launch; every whole run counts
   as such. */
enum { GS_KIND_TIMED = 1, GS_KIND_LOCAL = 2, GS_KIND_ENDS = 4, GS_KIND_LATER = 8, GS_KINDS = 16 };

unsigned gs_kind_of(const gs_run *run);

/* As gs_agrees. `*kind` becomes the kind of the part of the recording played until it differed: all settings alike to a
   run of this kind differ, too. */
gs_code gs_agrees_until(const gs_gpu *gpu, const gs_run *recorded, bool block_by_block, size_t *differs, unsigned *kind,
                        gs_error *error);

/* The setting with all switches that cannot matter to a run of this kind at their first value. */
gs_mechanisms gs_what_matters(gs_mechanisms setting, unsigned kind, bool block_by_block);

/* Settings that runs cannot tell apart. `first[kind][i]` is the first setting of a list that agrees with a run of this
   kind if and only if the i-th one does. */
typedef struct gs_alike {
    uint32_t *first[GS_KINDS];
} gs_alike;

/* The caller clears it, even after an error. */
gs_code gs_alike_init(gs_alike *alike, const gs_gpu *gpu, const gs_mechanisms *settings, size_t count,
                      bool block_by_block, gs_error *error);
void gs_alike_clear(gs_alike *alike);

/* A run on which some of these settings differ, drawn by `seed`, into `*decider`; NULL: none was found. */
gs_code gs_propose(const gs_gpu *gpu, const gs_mechanisms *settings, size_t count, uint64_t seed, gs_run **decider,
                   gs_error *error);

#endif
