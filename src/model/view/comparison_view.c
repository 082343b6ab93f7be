/*
 * comparison_view.c: the prediction of a program beside its measurement, for people and as gridsmith.compare/2.
 */
#include "view.h"

#include <math.h>
#include <stdlib.h>

enum {
    PEOPLE_SEE = 20, /* rows, unless they ask for more */
    LEAST_NS = 1000  /* sums that are shorter are not shown */
};

/* ---- launches whose overlaps differ ---- */

struct differing {
    uint32_t count, launch; /* count: of the overlaps that differ */
};

GS_ORDER_DOWN_THEN(compare_differing, struct differing, count, launch)

static struct differing *find_differing(const gs_comparison *comparison, size_t *count) {
    size_t launches = comparison->run->launches.count;
    struct differing *found = malloc((launches + 1) * sizeof *found);
    *count = 0;
    for (size_t i = 0; found && i < launches; i++) {
        const gs_launch_compared *one = &comparison->compared->data[i];
        uint32_t differ = one->measured + one->predicted - 2 * one->both;
        if (differ)
            found[(*count)++] = (struct differing){differ, (uint32_t)i};
    }
    if (found)
        qsort(found, *count, sizeof *found, compare_differing);
    return found;
}

static size_t shown_count(size_t count, int64_t top) {
    return top ? gs_min_u64(count, (uint64_t)top) : count;
}

/* ---- for people ---- */

/* A row of the table; `measured` NULL: the models only. */
static void put_beside(gs_text *text, const char *what, const int64_t *measured, int64_t predicted, int64_t unscheduled,
                       bool is_time) {
    const int64_t numbers[] = {measured ? *measured : 0, predicted, unscheduled};
    gs_text_add(text, "%-34s", what);
    for (size_t i = 0; i < GS_COUNT(numbers); i++)
        if (i == 0 && !measured)
            gs_text_add(text, " %13s", "");
        else if (is_time)
            gs_text_add(text, " %13.3f", (double)numbers[i] / 1000);
        else
            gs_text_add(text, " %13lld", (long long)numbers[i]);
    gs_text_add(text, "\n");
}

static void put_percents(gs_text *text, const char *what, double predicted, double unscheduled) {
    const double percents[] = {predicted, unscheduled};
    gs_text_add(text, "%-34s %13s", what, "");
    for (size_t i = 0; i < GS_COUNT(percents); i++)
        if (isnan(percents[i]))
            gs_text_add(text, " %13s", "-");
        else
            gs_text_add(text, " %12.2f%%", percents[i]);
    gs_text_add(text, "\n");
}

static void put_overlaps(gs_text *text, const gs_overlaps *predicted, const gs_overlaps *unscheduled) {
    put_beside(text, "  overlaps of two launches", &predicted->measured, predicted->predicted, unscheduled->predicted,
               false);
    if (!predicted->measured && !predicted->predicted && !unscheduled->predicted) {
        gs_text_add(text, "  no launches overlap: nothing to compare\n");
        return;
    }
    put_beside(text, "  in the measurement and the model", NULL, predicted->both, unscheduled->both, false);
    put_percents(text, "  in percent of those in either", gs_overlap_percent(predicted),
                 gs_overlap_percent(unscheduled));
    put_percents(text, "  the same by their time", gs_overlap_time_percent(predicted),
                 gs_overlap_time_percent(unscheduled));
}

static void put_starts(gs_text *text, const gs_program_compared *compared) {
    int64_t limit_us = 1;
    for (size_t i = 0; i < GS_COUNT(compared->predicted.starts_within_ns); i++, limit_us *= 10) {
        char what[80];
        snprintf(what, sizeof what, "  of %lld, start within %lld us", (long long)compared->launches,
                 (long long)limit_us);
        put_beside(text, what, NULL, compared->predicted.starts_within_ns[i], compared->unscheduled.starts_within_ns[i],
                   false);
    }
}

/* The measurement beside the prediction and the null model. */
static void put_numbers(gs_text *text, const gs_program_compared *compared) {
    const gs_side_compared *predicted = &compared->predicted, *unscheduled = &compared->unscheduled;
    gs_text_add(text, "\n%-34s %13s %13s %13s\n", "", "measured", "predicted", "no scheduler");
    put_beside(text, "end of the last launch, us", &compared->measured_end_ns, predicted->end_ns, unscheduled->end_ns,
               true);
    put_beside(text, "while any launch runs, us", &compared->measured_busy_ns, predicted->busy_ns, unscheduled->busy_ns,
               true);
    gs_text_add(text, "played from the start\n");
    put_overlaps(text, &predicted->from_start, &unscheduled->from_start);
    gs_text_add(text, "each launch ready as in the recording\n");
    put_overlaps(text, &predicted->pairs, &unscheduled->pairs);
    put_starts(text, compared);
    if (compared->configs)
        gs_text_add(text, "shared-memory configuration         %lld of %lld launch%s as recorded\n",
                    (long long)compared->configs_same, (long long)compared->configs,
                    compared->configs == 1 ? "" : "es");
    gs_text_add(text, "no scheduler: each launch starts as soon as its stream, events and host allow, and runs as "
                      "alone\n");
}

/* Puts the longest waits for the host, or all other waits. Waits for streams and overheads are in the table only: there
   is one between any two neighbors. */
static void put_sums(gs_text *text, const gs_comparison *comparison, bool for_host) {
    const gs_wait_sums *sums = comparison->sums;
    int64_t most = comparison->top ? comparison->top : PEOPLE_SEE, shown = 0;
    for (size_t i = 0; i < sums->count && shown < most; i++) {
        gs_reason reason = sums->data[i].reason;
        if (sums->data[i].ns < LEAST_NS || reason == GS_REASON_STREAM || reason == GS_REASON_OVERHEAD ||
            (reason == GS_REASON_HOST) != for_host)
            continue;
        gs_text_add(text, shown++ ? "" : "\n");
        gs_put_wait_sum(text, &sums->data[i]);
        gs_text_add(text, "\n");
    }
}

static void put_waits(gs_text *text, const gs_comparison *comparison) {
    static const char *const words[] = {"the host launched late",
                                        "an earlier one in stream or graph",
                                        "an event",
                                        "launch overhead",
                                        "a copy engine",
                                        "the head of the queue",
                                        "headroom on the SMs",
                                        "headroom for the other blocks"};
    const gs_wait_sums *sums = comparison->sums;
    gs_text_add(text, "\n%-34s %13s %13s\n", "predicted waits for", "us", "launches");
    for (int i = 0; i < GS_REASONS; i++)
        if (sums->launches[i])
            gs_text_add(text, "%-34s %13.3f %13lld\n", words[i], (double)sums->ns[i] / 1000,
                        (long long)sums->launches[i]);
    put_sums(text, comparison, false);
    put_sums(text, comparison, true);
}

static void put_operation(gs_text *text, const gs_run *run, size_t launch) {
    const gs_issue *issue = &run->launches.data[launch].issue;
    gs_put_name(text, run->launches.data[launch].kernel);
    if (issue->id)
        gs_text_add(text, " (%s)", issue->id);
}

static void put_differing(gs_text *text, const gs_comparison *comparison, size_t launch) {
    const gs_launch_compared *one = &comparison->compared->data[launch];
    bool is_measured = one->only_measured != SIZE_MAX;
    size_t other = is_measured ? one->only_measured : one->only_predicted;
    put_operation(text, comparison->run, launch);
    gs_text_add(text, is_measured ? " overlapped " : " is predicted to overlap ");
    put_operation(text, comparison->run, other);
    gs_text_add(text, is_measured ? ", not in the prediction: " : ", and did not: ");
    gs_put_difference(text, comparison, launch, other, is_measured);
    gs_text_add(text, "\n");
}

/* For people. */
static gs_code put_comparison(gs_text *text, const gs_comparison *comparison, gs_error *error) {
    size_t count;
    struct differing *differing = find_differing(comparison, &count);
    if (!differing)
        return gs_fail_memory(error);
    gs_put_program_title(text, comparison->gpu, comparison->run, comparison->played);
    put_numbers(text, comparison->compared);
    put_waits(text, comparison);
    if (count)
        gs_text_add(text, "\n%zu launch%s other launches than measured:\n", count,
                    count == 1 ? " overlaps" : "es overlap");
    for (size_t i = 0; i < shown_count(count, comparison->top ? comparison->top : PEOPLE_SEE); i++)
        put_differing(text, comparison, differing[i].launch);
    free(differing);
    return GS_OK;
}

/* ---- gridsmith.compare/2 ---- */

static void write_overlaps(gs_writer *writer, const char *key, const gs_overlaps *pairs) {
    gs_write_object(writer, key);
    gs_write_int(writer, "possible", pairs->possible);
    gs_write_int(writer, "measured", pairs->measured);
    gs_write_int(writer, "predicted", pairs->predicted);
    gs_write_int(writer, "in_both", pairs->both);
    gs_write_int(writer, "differ_briefly", pairs->brief);
    gs_write_real(writer, "agreement_percent", gs_overlap_percent(pairs), 2);
    gs_write_real(writer, "time_agreement_percent", gs_overlap_time_percent(pairs), 2);
    gs_write_end(writer);
}

static void write_side(gs_writer *writer, const char *key, const gs_side_compared *side) {
    static const char *const keys[] = {"1", "10", "100", "1000"};
    gs_write_object(writer, key);
    gs_write_us(writer, "end_us", side->end_ns);
    gs_write_us(writer, "busy_us", side->busy_ns);
    write_overlaps(writer, "overlaps", &side->pairs);
    write_overlaps(writer, "overlaps_from_start", &side->from_start);
    gs_write_object(writer, "starts_within_us");
    for (size_t i = 0; i < GS_COUNT(keys); i++)
        gs_write_int(writer, keys[i], side->starts_within_ns[i]);
    gs_write_end(writer);
    gs_write_end(writer);
}

static void write_numbers(gs_writer *writer, const gs_program_compared *compared) {
    gs_write_object(writer, "measured");
    gs_write_us(writer, "end_us", compared->measured_end_ns);
    gs_write_us(writer, "busy_us", compared->measured_busy_ns);
    gs_write_int(writer, "overlaps", compared->predicted.pairs.measured);
    gs_write_end(writer);
    write_side(writer, "predicted", &compared->predicted);
    write_side(writer, "no_scheduler", &compared->unscheduled);
    gs_write_int(writer, "shared_configs_recorded", compared->configs);
    gs_write_int(writer, "shared_configs_same", compared->configs_same);
}

static void write_waits(gs_writer *writer, const gs_comparison *comparison) {
    const gs_wait_sums *sums = comparison->sums;
    gs_write_array(writer, "waits_by_reason");
    for (int i = 0; i < GS_REASONS; i++) {
        gs_write_object(writer, NULL);
        gs_write_string(writer, "for", gs_reason_name((gs_reason)i));
        gs_write_us(writer, "us", sums->ns[i]);
        gs_write_int(writer, "launches", sums->launches[i]);
        gs_write_end(writer);
    }
    gs_write_end(writer);
    gs_write_array(writer, "waits");
    for (size_t i = 0; i < shown_count(sums->count, comparison->top); i++) {
        const gs_wait_sum *sum = &sums->data[i];
        gs_text sentence = {0};
        gs_put_wait_sum(&sentence, sum);
        gs_write_object(writer, NULL);
        gs_write_string(writer, "kernel", sum->kernel);
        gs_write_string(writer, "for", gs_reason_name(sum->reason));
        if (sum->lack)
            gs_write_string(writer, "resource", gs_lack_name(sum->lack));
        gs_write_optional(writer, "of", sum->behind);
        gs_write_us(writer, "us", sum->ns);
        gs_write_int(writer, "launches", sum->launches);
        gs_write_string(writer, "text", sentence.data);
        gs_write_end(writer);
        gs_text_free(&sentence);
    }
    gs_write_end(writer);
}

static void write_ids(gs_writer *writer, const gs_run *run, const char *key, size_t launch) {
    if (launch == SIZE_MAX)
        return;
    const gs_launch *which = &run->launches.data[launch];
    gs_write_string(writer, key, which->issue.id ? which->issue.id : which->kernel);
}

static void write_differing(gs_writer *writer, const gs_comparison *comparison, size_t launch) {
    const gs_launch_compared *one = &comparison->compared->data[launch];
    bool is_measured = one->only_measured != SIZE_MAX;
    gs_text sentence = {0};
    gs_put_difference(&sentence, comparison, launch, is_measured ? one->only_measured : one->only_predicted,
                      is_measured);
    gs_write_object(writer, NULL);
    write_ids(writer, comparison->run, "id", launch);
    gs_write_string(writer, "kernel", comparison->run->launches.data[launch].kernel);
    gs_write_int(writer, "overlaps_measured", one->measured);
    gs_write_int(writer, "overlaps_predicted", one->predicted);
    gs_write_int(writer, "overlaps_in_both", one->both);
    write_ids(writer, comparison->run, "only_measured_with", one->only_measured);
    write_ids(writer, comparison->run, "only_predicted_with", one->only_predicted);
    gs_write_string(writer, "text", sentence.data);
    gs_write_end(writer);
    gs_text_free(&sentence);
}

/* As gridsmith.compare/2. */
static gs_code put_comparison_json(gs_text *text, const gs_comparison *comparison, gs_error *error) {
    size_t count;
    struct differing *differing = find_differing(comparison, &count);
    if (!differing)
        return gs_fail_memory(error);
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.compare/2");
    gs_write_string(&writer, "gpu", comparison->gpu->name);
    gs_write_optional(&writer, "assumed", comparison->gpu->assumed);
    gs_write_optional(&writer, "recorded_on", comparison->run->gpu);
    gs_write_int(&writer, "launches", comparison->compared->launches);
    gs_write_pace(&writer, &comparison->timeline->pace);
    write_numbers(&writer, comparison->compared);
    write_waits(&writer, comparison);
    gs_write_array(&writer, "differences");
    for (size_t i = 0; i < shown_count(count, comparison->top); i++)
        write_differing(&writer, comparison, differing[i].launch);
    gs_write_end(&writer);
    gs_write_finish(&writer);
    free(differing);
    return GS_OK;
}

/* ---- from a timeline to its comparison ---- */

gs_code gs_put_program_compared(gs_text *text, const gs_gpu *gpu, const gs_run *run, const gs_timeline *played,
                                int64_t top, bool is_json, gs_error *error) {
    gs_wait_sums sums = {0};
    gs_program_compared compared = {0};
    gs_timeline followed = {0};
    gs_code code = gs_timeline_follow(gpu, run, played, &followed, error);
    if (code == GS_OK)
        code = gs_wait_sums_of(run, played, &sums, error);
    if (code == GS_OK)
        code = gs_program_compare(run, played, &followed, &compared, error);
    if (code == GS_OK && run->launches.count && !compared.launches)
        code = gs_fail(error, GS_E_USAGE, "the run has no measurement: no launch has both start_us and end_us");
    gs_comparison comparison = {gpu, run, played, &followed, &sums, &compared, top};
    if (code == GS_OK)
        code = (is_json ? put_comparison_json : put_comparison)(text, &comparison, error);
    gs_timeline_clear(&followed);
    gs_wait_sums_clear(&sums);
    gs_program_compared_clear(&compared);
    return code;
}
