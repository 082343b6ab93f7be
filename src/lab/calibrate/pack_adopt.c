/*
 * pack_adopt.c: the description of a GPU from a pack.
 *
 * The survey is repeated on the pack (pack_tape.c). Its random runs, and those recorded to decide between settings, are
 * fitted all at once. The held-out part is not fitted: it tests the description.
 */
#include "pack_tape.h"

#include <stdlib.h>

/* The runs to fit. The caller frees the list, but not the runs. */
static gs_run **list_recordings(const gs_gpu_pack *pack, size_t *count, gs_error *error) {
    gs_run **runs = calloc(pack->items.count + 1, sizeof *runs);
    *count = 0;
    for (size_t i = 0; runs && i < pack->items.count; i++) {
        const gs_pack_item *item = &pack->items.data[i];
        if (item->run && item->run->class_name && !item->is_held_out)
            runs[(*count)++] = item->run;
    }
    if (!runs)
        gs_fail_memory(error);
    return runs;
}

static gs_code test_run(const gs_gpu *gpu, const gs_run *run, gs_adoption *adoption, gs_error *error) {
    gs_run *predicted = gs_predict_recorded(gpu, run, error);
    gs_code code = GS_OK;
    if (predicted)
        code = gs_scores_add(&adoption->held_out, run, predicted, NULL, error);
    else if (error->code == GS_E_UNSUPPORTED)
        adoption->uncovered++;
    else
        code = error->code;
    gs_run_free(predicted);
    return code;
}

static gs_code test_held_out(const gs_gpu_pack *pack, const gs_survey_options *options, gs_adoption *adoption,
                             gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < pack->items.count && code == GS_OK; i++) {
        const gs_pack_item *item = &pack->items.data[i];
        if (options->progress && item->is_held_out)
            options->progress(options->user, "held-out runs", (int64_t)i, (int64_t)pack->items.count);
        if (item->is_held_out && item->run)
            code = test_run(adoption->survey.gpu, item->run, adoption, error);
    }
    return code;
}

gs_code gs_pack_adopt(const gs_gpu_pack *pack, const char *name, const gs_survey_options *options,
                      gs_adoption *adoption, gs_error *error) {
    gs_survey_options request = *options;
    gs_tape tape;
    *adoption = (gs_adoption){0};
    gs_run **recordings = list_recordings(pack, &request.recording_count, error);
    if (!recordings)
        return GS_E_MEMORY;
    gs_tape_init(&tape, pack, NULL);
    request.name = name;
    request.date = pack->date;
    request.seed = (uint64_t)pack->seed;
    request.recordings = recordings;
    gs_code code = request.recording_count ? gs_survey_run(&tape.device, &request, &adoption->survey, error)
                                           : gs_fail(error, GS_E_FORMAT, "the pack has no runs to fit");
    if (code == GS_OK)
        code = test_held_out(pack, options, adoption, error);
    gs_tape_clear(&tape);
    free(recordings);
    return code;
}

void gs_adoption_clear(gs_adoption *adoption) {
    gs_survey_clear(&adoption->survey);
    gs_scores_free(&adoption->held_out);
    *adoption = (gs_adoption){0};
}
