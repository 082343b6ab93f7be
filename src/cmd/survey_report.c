/*
 * survey_report.c: a report of the measurements of a GPU, so that users can judge their certainty.
 */
#include "survey_report.h"
#include "model/view/view.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS = 12 };

static gs_code put_order(gs_text *text, const gs_survey *survey, gs_error *error) {
    const gs_gpu *gpu = survey->gpu;
    int tie_order = gpu->mechanisms.tie_order;
    const char *const *names = gs_mechanism_find("tie_order")->values;
    int16_t *order = calloc((size_t)gpu->sms, sizeof *order);
    int32_t *numbers = calloc((size_t)gpu->sms, sizeof *numbers);
    if (order && numbers) {
        gs_gpu_tie_order(gpu, order);
        for (int32_t i = 0; i < gpu->sms; i++)
            numbers[i] = order[i];
        gs_text_add(text, "tie order   %s: SMs ", names[tie_order]);
        gs_text_put_numbers(text, numbers, (size_t)gpu->sms, PARTS);
        gs_text_add(text, "; %d of %d measurements alike\n", survey->order_alike, survey->order_plays);
    }
    bool has_memory = order && numbers;
    free(order);
    free(numbers);
    if (survey->unseen_sms)
        gs_text_add(text, "            the last %d of these never got their own block\n", survey->unseen_sms);
    if (tie_order != survey->tie_order)
        gs_text_add(text, "            single blocks went %s, but the random runs agree better with this\n",
                    names[survey->tie_order]);
    return has_memory ? GS_OK : gs_fail_memory(error);
}

static void put_gpcs(gs_text *text, const gs_survey *survey) {
    const gs_sm_groups *lists = &survey->gpu->gpc_sms;
    if (!survey->pairs) {
        gs_text_add(text, "GPCs        not measured: no cluster was seen\n");
        return;
    }
    for (int32_t i = 0, at = 0; i < lists->count; at = lists->ends[i++]) {
        gs_text_add(text, i ? "           " : "GPCs       ");
        for (int32_t k = at; k < lists->ends[i]; k++)
            gs_text_add(text, " %d", lists->sms[k]);
        gs_text_add(text, "\n");
    }
    gs_text_add(text, "TPCs        %lld of %lld clusters of two were on SMs 2k and 2k+1\n",
                (long long)survey->neighbors, (long long)survey->pairs);
}

static void put_grants(gs_text *text, const gs_survey *survey) {
    const gs_grants *grants = &survey->gpu->grants;
    if (!survey->grants.groups) {
        gs_text_add(text, "numbers     blocks are numbered as they are placed\n");
        return;
    }
    gs_text_add(text, "numbers     by %d groups of SMs, %d of them first; %d grants between rounds\n",
                survey->grants.groups, grants->first, grants->between_rounds);
    if (survey->grants.unexplained)
        gs_text_add(text, "            not explained: launches that end with one of %d SMs\n",
                    survey->grants.unexplained);
    if (survey->grants.open)
        gs_text_add(text, "            not decided: launches that end with one of %d SMs\n", survey->grants.open);
    if (grants->cluster_blocks_per_sm)
        gs_text_add(text, "clusters    an SM takes at most %d blocks of clusters\n", grants->cluster_blocks_per_sm);
}

static void put_mechanisms(gs_text *text, const gs_survey *survey) {
    const gs_fit *fit = &survey->fit;
    gs_mechanisms mechanisms = survey->gpu->mechanisms;
    gs_text_add(text, "mechanisms  %lld of %lld runs agree", (long long)fit->best, (long long)fit->recordings);
    if (survey->deciders)
        gs_text_add(text, "; %d recorded to tell settings apart", survey->deciders);
    gs_text_add(text, "\n");
    for (size_t i = 0; i < fit->values.count; i++) {
        const gs_fit_value *value = &fit->values.data[i];
        if (*gs_mechanism_value(&mechanisms, value->mechanism) == value->value)
            gs_text_add(text, "  %-19s %-12s %s%s\n", value->mechanism->name, value->mechanism->values[value->value],
                        gs_fit_verdict(fit, value), gs_fit_is_by_block(value->mechanism) ? ", block by block" : "");
    }
}

gs_code gs_put_survey(gs_text *text, const gs_survey *survey, gs_error *error) {
    const gs_gpu *gpu = survey->gpu;
    gs_text_add(text, "%s, %d SMs%s%s\n", gpu->title ? gpu->title : gpu->name, gpu->sms, gpu->uuid ? ", " : "",
                gpu->uuid ? gpu->uuid : "");
    gs_code code = put_order(text, survey, error);
    put_gpcs(text, survey);
    put_grants(text, survey);
    put_mechanisms(text, survey);
    gs_text_add(text, "not measured: how many kernels run at a time; signals and memory nodes of CUDA graphs\n");
    gs_text_add(text, "\n");
    gs_put_scores(text, &survey->scores);
    return code;
}

bool gs_is_gpu_name(const char *name) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    return name[0] && strlen(name) <= 60 && !name[strspn(name, allowed)];
}
