/*
 * explained.c: what limits a recorded program, and what would help: the parts of the answer, one after the other.
 */
#include "advice.h"
#include "explain.h"

#include <stdlib.h>

static gs_code make_names(const gs_run *run, gs_short_names *names, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++)
        code = gs_short_names_add(names, run->launches.data[i].kernel, error);
    return code == GS_OK ? gs_short_names_make(names, error) : code;
}

static gs_code check_measured(const gs_run *run, gs_error *error) {
    for (size_t i = 0; i < run->launches.count; i++)
        if (gs_measured_ns(&run->launches.data[i].issue))
            return GS_OK;
    return gs_fail(
        error, GS_E_USAGE,
        "nothing to explain: no launch has start_us and a later end_us; record a program with 'gridsmith trace' "
        "through CUPTI");
}

/* What is taken from the recording as it is. */
static gs_code look_at_recording(const gs_recorded_program *program, gs_explained *explained, int64_t **alone,
                                 gs_error *error) {
    gs_timeline prepared = {0}, followed = {0};
    const gs_run *run = program->run;
    gs_code code = gs_timeline_prepare(program->recorded_on, run, program->pace, &prepared, error);
    if (code == GS_OK)
        code = gs_timeline_follow(program->recorded_on, run, &prepared, &followed, error);
    if (code == GS_OK)
        code = gs_time_account_of(run, program->order, program->part, &prepared, &explained->account, error);
    if (code == GS_OK)
        code = gs_kernel_rows_of(program->recorded_on, run, program->order, program->part, &followed, &explained->names,
                                 &explained->kernels, error);
    if (code == GS_OK)
        code = gs_range_rows_of(run, program->order, program->part, &explained->ranges, error);
    if (code == GS_OK) {
        *alone = gs_alone_times(run, &prepared, program->freed, error);
        code = *alone ? GS_OK : GS_E_MEMORY;
    }
    gs_timeline_clear(&prepared);
    gs_timeline_clear(&followed);
    return code;
}

/* The program as it was recorded. A host that the recorder slows down is late at the same places of each step, as if it
   waited for the GPU there. If a step with these waits takes longer than it does without a recorder, and without them
   it does not, they are none. */
static gs_code try_waits(gs_recorded_program *program, gs_outcome *base, gs_error *error) {
    gs_outcome other;
    gs_code code = gs_try(program, NULL, NULL, base, error);
    int64_t most_ns = program->step_ns + program->step_ns / 10;
    if (code != GS_OK || !program->step_ns || base->least_ns <= most_ns)
        return code;
    program->never_waits = true;
    code = gs_try(program, NULL, NULL, &other, error);
    program->never_waits = code == GS_OK && other.least_ns <= most_ns;
    if (program->never_waits)
        *base = other;
    return code;
}

/* The program without a change. Where the GPU is the limit, and a step without a recorder takes another time than it is
   played in, the clock of the GPU was another: kernels take as much longer or shorter as the step. */
static gs_code try_base(gs_recorded_program *program, gs_outcome *base, gs_error *error) {
    gs_code code = try_waits(program, base, error);
    bool is_alone = base->saved_ns * 50 < base->least_ns;
    double slower = base->least_ns > 0 ? (double)program->step_ns / (double)base->least_ns : 0;
    bool is_elsewhere = program->gpu != program->recorded_on;
    if (code != GS_OK || is_elsewhere || program->is_host_bound || !is_alone || slower < 0.8 || slower > 1.25)
        return code;
    program->slower = slower;
    return gs_try(program, NULL, NULL, base, error);
}

/* Launches that never start do not when the host is never late either. */
static gs_code refuse_stuck(const gs_gpu *gpu, const gs_stuck *stuck, gs_error *error) {
    gs_text text = {0};
    gs_put_stuck(&text, stuck);
    gs_code code = text.failed ? gs_fail_memory(error)
                               : gs_fail(error, GS_E_USAGE, "the program cannot be played on %s, %d SMs: %s", gpu->name,
                                         gpu->sms, text.data);
    gs_text_free(&text);
    return code;
}

static gs_code try_all(gs_recorded_program *program, const gs_explain_options *options, gs_explained *explained,
                       gs_error *error) {
    gs_what_if never_late;
    gs_outcome base, ahead;
    gs_code code = try_base(program, &base, error);
    if (code == GS_OK)
        code = gs_what_if_read("host=never-late", &never_late, error);
    if (code == GS_OK)
        code = gs_try(program, &never_late, &base, &ahead, error);
    if (code == GS_OK && ahead.stuck.kernel)
        code = refuse_stuck(program->gpu, &ahead.stuck, error);
    if (code != GS_OK)
        return code;
    const gs_time_account *account = &explained->account;
    int64_t steps = (int64_t)gs_max_u64(1, gs_part_steps(program->part));
    bool is_elsewhere = program->gpu != program->recorded_on; /* then the recording does not show how long it takes */
    if (!is_elsewhere)
        gs_outcome_learn(&base, explained->step_ns);
    explained->played_ns = base.least_ns;
    explained->is_unlike = !is_elsewhere && llabs(base.least_ns - explained->step_ns) > explained->step_ns / 4;
    explained->loss = base.loss;
    explained->overlap = (gs_overlap_account){gs_max(0, account->alone_ns - account->busy_ns) / steps,
                                              ahead.unscheduled_saved_ns, ahead.saved_ns};
    explained->outcomes = calloc(options->what_if_count + 1, sizeof *explained->outcomes);
    if (!explained->outcomes)
        return gs_fail_memory(error);
    for (size_t i = 0; i < options->what_if_count && code == GS_OK; i++)
        code = gs_try(program, &options->what_ifs[i], &base, &explained->outcomes[explained->outcome_count++], error);
    struct gs_adviser adviser = {program, &base, &explained->kernels, &explained->advices};
    bool has_advice = options->has_advice && !explained->is_unlike;
    return code == GS_OK && has_advice ? gs_advise(&adviser, error) : code;
}

static gs_code choose_part(const gs_run *run, const char *range, gs_sequence *order, gs_part *part, gs_error *error) {
    gs_code code = check_measured(run, error);
    if (code == GS_OK)
        code = gs_sequence_of(run, order, error);
    if (code == GS_OK)
        code = range ? gs_part_read(run, order, range, part, error) : gs_part_find(run, order, part, error);
    if (code == GS_OK && part->from_ns == GS_NO_TIME)
        code = gs_fail(error, GS_E_USAGE, "nothing to explain: no operation of the range has start_us and end_us");
    return code;
}

gs_run *gs_changed_part(const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run, const char *range,
                        const gs_what_if *what_if, gs_error *error) {
    gs_sequence order = {0};
    gs_part part;
    gs_pace pace;
    gs_short_names names = {0};
    gs_freed *freed = NULL;
    gs_run *changed = NULL;
    gs_recorded_program program = {.gpu = gpu,
                                   .recorded_on = recorded_on,
                                   .run = run,
                                   .order = &order,
                                   .part = &part,
                                   .pace = &pace,
                                   .names = &names};
    if (choose_part(run, range, &order, &part, error) == GS_OK && gs_pace_of(run, &pace, error) == GS_OK &&
        make_names(run, &names, error) == GS_OK)
        program.freed = freed = gs_freed_times(run, &pace, error);
    if (freed)
        changed = gs_changed_run(&program, what_if, error);
    free(freed);
    gs_short_names_clear(&names);
    gs_sequence_clear(&order);
    return changed;
}

gs_code gs_explain(const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run, const gs_explain_options *options,
                   gs_explained *explained, gs_error *error) {
    *explained = (gs_explained){.recorded_on = recorded_on};
    int64_t *alone = NULL;
    gs_freed *freed = NULL;
    gs_recorded_program program = {.gpu = gpu,
                                   .recorded_on = recorded_on,
                                   .run = run,
                                   .order = &explained->order,
                                   .part = &explained->part,
                                   .pace = &explained->pace,
                                   .names = &explained->names,
                                   .pairs = options->pairs,
                                   .step_ns = options->step_ns};
    gs_code code = choose_part(run, options->range, &explained->order, &explained->part, error);
    if (code == GS_OK)
        code = gs_pace_of(run, &explained->pace, error);
    if (code == GS_OK)
        code = make_names(run, &explained->names, error);
    if (code == GS_OK) {
        program.freed = freed = gs_freed_times(run, &explained->pace, error);
        code = freed ? GS_OK : GS_E_MEMORY;
    }
    if (code == GS_OK)
        code = look_at_recording(&program, explained, &alone, error);
    if (code == GS_OK) {
        int64_t steps = (int64_t)gs_max_u64(1, gs_part_steps(&explained->part));
        explained->recorded_ns = explained->account.span_ns / steps;
        explained->step_ns = options->step_ns ? options->step_ns : explained->recorded_ns;
        program.alone = alone;
        program.is_host_bound = 5 * explained->account.idle_ns[GS_IDLE_HOST] > explained->account.span_ns;
        code = try_all(&program, options, explained, error);
    }
    free(alone);
    free(freed);
    if (code != GS_OK)
        gs_explained_clear(explained);
    return code;
}

void gs_explained_clear(gs_explained *explained) {
    gs_sequence_clear(&explained->order);
    gs_short_names_clear(&explained->names);
    free(explained->kernels.data);
    free(explained->ranges.data);
    gs_strings_free(&explained->ranges.names);
    free(explained->advices.data);
    free(explained->outcomes);
    *explained = (gs_explained){0};
}
