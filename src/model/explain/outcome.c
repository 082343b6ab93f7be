/*
 * outcome.c: a changed program, played: how long its steps take.
 *
 * A few steps are played, and the time of a step is taken between the ends of two of them, so that it does not contain
 * how the first one begins. Where kernels of different steps mix, steps do not end one after the other: then fewer
 * steps are played, too, and the time of a step is what the others add to that.
 *
 * The engine knows when blocks run, not how they slow each other down. If kernels ran side by side in the recording, it
 * shows how: the step takes longer than it is played with the times of kernels alone, and that is taken as the same
 * part of the time that is saved by running side by side. If not, and a change lets kernels run side by side, the time
 * is an interval. Its lower end is what was played. At its upper end they lose two thirds of what they can
 * (side_by_side.c), or of what is saved if that is less: so much was lost at most in nearly all what-ifs that were
 * measured (docs/explain.md). Pairs of kernels that were measured make it narrower.
 *
 * What another order or priority gains depends on which blocks run on which SM side by side: if kernels slow each other
 * down in the recording, nothing may be gained, and the interval goes up to the time without the change.
 *
 * With fewer SMs, a launch that fills the GPU takes between as long as with all, if memory limits it, and as many more
 * waves as it has. The same holds for other numbers of blocks: each takes longer or shorter, or the launch takes as
 * long as before. Kernels that are as large as the GPU have waves of their own inside, which a recording does not show.
 */
#include "change.h"

#include <stdlib.h>

enum { MOST_STEPS = 8, FEW_STEPS = 4, MOST_OPERATIONS = 40000, MOST_BLOCKS = 4000000, MOST_ROUNDS = 16 };

/* ---- one play ---- */

struct played {
    int64_t step_ns, all_ns; /* of a step, and of all that are played */
    gs_side_by_side beside;  /* in a step */
};

/* What is played over and over. */
struct player {
    const gs_recorded_program *program;
    const gs_gpu *gpu;
    gs_plan *plan;
    size_t *numbers; /* by number in the plan: its operation in the run */
    int64_t *ends_ns;
    struct played played, unscheduled;
    gs_stuck stuck;
};

/* The time of a step: between the ends of two steps. Where kernels of a step run beside those of others, work of later
   steps delays early ones: then at least their share in the time of all, if there are too few for play_mixed. Of few
   steps, it is the time from the beginning of the first to that of the one after them, `next_ns`. */
static int64_t step_time(const gs_plan *plan, const int64_t *ends_ns, int64_t first_ns, int64_t next_ns) {
    int64_t ends[MOST_STEPS] = {0}, all_ns = 0;
    size_t steps = plan->steps;
    for (size_t i = 0; i < plan->count; i++) {
        size_t step = gs_min_u64(plan->data[i].step, MOST_STEPS - 1);
        ends[step] = gs_max(ends[step], ends_ns[i]);
        all_ns = gs_max(all_ns, ends_ns[i]);
    }
    int64_t mean_ns = (all_ns - first_ns) / (int64_t)gs_max_u64(1, steps);
    if (steps < 2 || (steps < 3 && !plan->has_next))
        return mean_ns;
    size_t from = plan->has_next ? 0 : gs_plan_timed_from(plan);
    int64_t later_ns = (ends[steps - 1] - ends[from]) / (int64_t)(steps - 1 - from);
    if (plan->has_next) {
        int64_t begins_ns = (next_ns - first_ns) / (int64_t)(steps - 1);
        later_ns = plan->is_beside ? gs_max(later_ns, begins_ns) : begins_ns;
    }
    return plan->is_mixed ? gs_max(mean_ns, later_ns) : later_ns;
}

static gs_code note_played(struct player *player, const gs_run *run, const gs_timeline *by_engine,
                           const gs_timeline *timeline, struct played *played, gs_error *error) {
    int64_t first_ns = INT64_MAX, next_ns = INT64_MAX;
    for (size_t i = 0; i < player->plan->count; i++) {
        const gs_course *course = &timeline->operations[player->numbers[i]].course;
        player->ends_ns[i] = course->end_ns;
        if (course->start_ns != GS_NO_TIME)
            first_ns = gs_min(first_ns, course->start_ns);
        if (course->start_ns != GS_NO_TIME && player->plan->data[i].step + 1 == player->plan->steps)
            next_ns = gs_min(next_ns, course->start_ns);
    }
    played->step_ns = step_time(player->plan, player->ends_ns, first_ns, next_ns);
    played->all_ns = 0;
    for (size_t i = 0; i < player->plan->count; i++)
        played->all_ns = gs_max(played->all_ns, player->ends_ns[i] - first_ns);
    gs_side_by_side all;
    const gs_plan *plan = player->plan;
    int32_t sms = plan->sms && !plan->is_parted ? plan->sms : player->gpu->sms;
    gs_code code = gs_side_by_side_of(player->program, run, by_engine, timeline, sms, &all, error);
    int64_t steps = (int64_t)gs_max_u64(1, player->plan->steps);
    played->beside =
        (gs_side_by_side){all.saved_ns / steps, all.known_ns / steps, all.lost_ns / steps, all.risk_ns / steps};
    return code;
}

static bool is_same_kernel(const gs_launch *launch, const gs_launch *other) {
    return strcmp(launch->kernel, other->kernel) == 0 && launch->cluster == other->cluster;
}

/* Whether a launch of a run ends that has the GPU, or its green context, to itself. */
static gs_code play_alone(const struct player *player, const gs_run *run, size_t number, bool *ends, gs_error *error) {
    gs_launch launch = run->launches.data[number];
    gs_timeline timeline = {0};
    gs_run *alone = gs_run_new(error);
    launch.issue.after_count = 0;
    gs_code code = alone ? gs_run_copy_launch(alone, &launch, error) : GS_E_MEMORY;
    if (code == GS_OK && !gs_green_copy(&alone->green_contexts, &run->green_contexts))
        code = gs_fail_memory(error);
    if (code == GS_OK)
        code =
            gs_timeline_play(player->gpu, player->program->recorded_on, alone, player->program->pace, &timeline, error);
    if (code == GS_OK)
        *ends = timeline.operations[0].course.end_ns != GS_NO_TIME;
    gs_timeline_clear(&timeline);
    gs_run_free(alone);
    return code;
}

/* The number in the plan of a launch that had its turn, and never ends, even alone: others that have not ended wait for
   it or are behind it. If there is none, the first launch that never ends; SIZE_MAX: all end. */
static gs_code find_stuck(const struct player *player, const gs_run *run, const gs_timeline *timeline, size_t *found,
                          gs_error *error) {
    gs_code code = GS_OK;
    *found = SIZE_MAX;
    for (size_t i = 0; i < player->plan->count && code == GS_OK; i++) {
        size_t number = player->numbers[i];
        const gs_course *course = &timeline->operations[number].course;
        bool ends = true;
        if (number >= run->launches.count || course->end_ns != GS_NO_TIME)
            continue;
        if (course->served_ns != GS_NO_TIME)
            code = play_alone(player, run, number, &ends, error);
        if (*found == SIZE_MAX || !ends)
            *found = i;
        if (!ends)
            break;
    }
    return code;
}

/* Notes which launches of a step never start. */
static gs_code note_stuck(struct player *player, const gs_run *run, const gs_timeline *timeline, gs_error *error) {
    const gs_plan *plan = player->plan;
    size_t first;
    gs_code code = find_stuck(player, run, timeline, &first, error);
    if (code != GS_OK || first == SIZE_MAX)
        return code;
    const gs_launch *launch = &run->launches.data[player->numbers[first]];
    const char *recorded = player->program->run->launches.data[plan->data[first].operation].kernel;
    player->stuck = (gs_stuck){.kernel = gs_short_name(player->program->names, recorded), .cluster = launch->cluster};
    for (size_t i = 0; i < plan->count; i++) {
        size_t number = player->numbers[i];
        if (plan->data[i].step != plan->data[first].step || timeline->operations[number].course.end_ns != GS_NO_TIME)
            continue;
        bool is_same = number < run->launches.count && is_same_kernel(&run->launches.data[number], launch);
        *(is_same ? &player->stuck.launches : &player->stuck.behind) += 1;
    }
    return GS_OK;
}

void gs_put_stuck(gs_text *text, const gs_stuck *stuck) {
    gs_text_add(text, "%lld launch%s of a step never start%s: %.120s", (long long)stuck->launches,
                stuck->launches == 1 ? "" : "es", stuck->launches == 1 ? "s" : "", stuck->kernel);
    if (stuck->cluster > 1)
        gs_text_add(text, " (clusters of %d blocks)", stuck->cluster);
    if (stuck->behind)
        gs_text_add(text, "; what waits for that never ends");
}

/* Plays the plan once, by the null model and by the engine, whose ends are kept. */
static gs_code play_once(struct player *player, gs_error *error) {
    const gs_recorded_program *program = player->program;
    gs_timeline timeline = {0}, unscheduled = {0};
    gs_pace pace;
    gs_run *run = gs_plan_run(program, player->plan, player->numbers, error);
    gs_code code = run ? gs_pace_of(run, &pace, error) : GS_E_MEMORY;
    if (code == GS_OK)
        code = gs_timeline_play(player->gpu, program->recorded_on, run, &pace, &timeline, error);
    if (code == GS_OK)
        code = note_stuck(player, run, &timeline, error);
    bool has_times = code == GS_OK && !player->stuck.kernel;
    if (has_times)
        code = gs_timeline_unscheduled(run, &timeline, false, &unscheduled, error);
    if (has_times && code == GS_OK)
        code = note_played(player, run, &timeline, &unscheduled, &player->unscheduled, error);
    if (has_times && code == GS_OK)
        code = note_played(player, run, &timeline, &timeline, &player->played, error);
    gs_timeline_clear(&timeline);
    gs_timeline_clear(&unscheduled);
    gs_run_free(run);
    return code;
}

/* Plays the plan until the host goes on when the GPU has ended what it waits for, or that hardly matters any more. */
static gs_code play_plan(struct player *player, gs_error *error) {
    bool has_moved = true;
    int64_t before_ns = 0;
    int same = 0; /* rounds in a row in which the time hardly changed */
    gs_plan *plan = player->plan;
    player->numbers = malloc((plan->count + 1) * sizeof *player->numbers);
    player->ends_ns = malloc((plan->count + 1) * sizeof *player->ends_ns);
    gs_code code = player->numbers && player->ends_ns ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK)
        gs_plan_issue(plan, NULL, &has_moved);
    for (int round = 0; code == GS_OK && (has_moved || !round) && round < MOST_ROUNDS; round++) {
        code = play_once(player, error);
        if (player->stuck.kernel)
            break;
        if (code == GS_OK)
            gs_plan_issue(plan, player->ends_ns, &has_moved);
        same = llabs(player->played.step_ns - before_ns) > before_ns / 1000 ? 0 : same + 1;
        has_moved = has_moved && same < 3;
        before_ns = player->played.step_ns;
    }
    free(player->numbers);
    free(player->ends_ns);
    return code;
}

/* Plays steps of which kernels mix. Those of two streams are in turn, so as many are added to both. */
static gs_code play_mixed(struct player *player, gs_error *error) {
    gs_plan *plan = player->plan;
    size_t steps = plan->steps, added = (steps / 2 + 1) / 2 * 2, operations = plan->count;
    gs_code code = play_plan(player, error);
    if (code != GS_OK || player->stuck.kernel || !plan->is_mixed || plan->has_next || steps < 3)
        return code;
    struct player fewer = {.program = player->program, .gpu = player->gpu, .plan = plan};
    plan->steps -= added;
    plan->count = operations / steps * plan->steps;
    code = play_plan(&fewer, error);
    plan->steps = steps;
    plan->count = operations;
    player->played.step_ns = (player->played.all_ns - fewer.played.all_ns) / (int64_t)added;
    player->unscheduled.step_ns = (player->unscheduled.all_ns - fewer.unscheduled.all_ns) / (int64_t)added;
    return code;
}

/* ---- an outcome ---- */

static size_t steps_to_play(const gs_recorded_program *program) {
    const gs_part *part = program->part;
    size_t period = gs_max_u64(1, part->period);
    int64_t blocks = 1;
    for (size_t i = part->first; i < part->first + part->period; i++)
        if (program->order->data[i] < program->run->launches.count)
            blocks += program->run->launches.data[program->order->data[i]].blocks;
    size_t most = gs_min_u64(MOST_OPERATIONS / period, (uint64_t)(MOST_BLOCKS / gs_min(blocks, MOST_BLOCKS)));
    return gs_max_u64(FEW_STEPS, gs_min_u64(MOST_STEPS, most));
}

/* A host that waits for the GPU is played once for each time that it waits. */
static bool takes_long(const gs_plan *plan) {
    bool is_slow = false;
    for (size_t i = 0; i < plan->count && !is_slow; i++)
        is_slow = plan->data[i].waits_for_all;
    return is_slow && plan->steps > FEW_STEPS;
}

/* The same steps are played whatever is changed in them, so that nothing but the change makes a difference. */
static gs_code plan_steps(const gs_recorded_program *program, gs_plan *plan, gs_error *error) {
    gs_code code = gs_plan_of(program, steps_to_play(program), plan, error);
    if (code != GS_OK || !takes_long(plan))
        return code;
    gs_plan_clear(plan);
    return gs_plan_of(program, FEW_STEPS, plan, error);
}

static gs_code make_plan(const gs_recorded_program *program, const gs_what_if *what_if, gs_plan *plan,
                         gs_error *error) {
    gs_code code = plan_steps(program, plan, error);
    if (code != GS_OK)
        return code;
    plan->gpu = what_if ? what_if->gpu : NULL;
    for (size_t i = 0; what_if && i < what_if->count && code == GS_OK; i++)
        code = gs_plan_change(program, &what_if->changes[i], plan, error);
    if (code != GS_OK)
        gs_plan_clear(plan);
    return code;
}

/* The time of a step, with what kernels lose that run side by side as they did in `base`. */
static int64_t time_with_loss(const gs_outcome *base, const struct played *played) {
    bool is_known = base && base->loss >= 0;
    return played->step_ns + (is_known ? (int64_t)(base->loss * (double)played->beside.saved_ns) : 0);
}

/* What kernels may do to each other that the recording does not show: nothing, or as much as they can, at most so much
   that nothing is saved. Of measured pairs it is known. */
static void widen_outcome(const gs_outcome *base, const gs_plan *plan, const gs_side_by_side *beside,
                          gs_outcome *outcome) {
    if (base->loss < 0 && plan->is_beside) {
        int64_t saved_ns = gs_max(0, outcome->saved_ns - base->saved_ns), known_ns = gs_min(saved_ns, beside->known_ns);
        int64_t lost_ns =
            known_ns ? (int64_t)((double)beside->lost_ns / (double)beside->known_ns * (double)known_ns) : 0;
        outcome->least_ns += lost_ns;
        outcome->most_ns += lost_ns + gs_min(saved_ns - known_ns, beside->risk_ns) * 2 / 3;
    }
    if (plan->is_reordered && base->loss > 0)
        outcome->most_ns = gs_max(outcome->most_ns, base->most_ns);
}

void gs_outcome_learn(gs_outcome *base, int64_t step_ns) {
    enum { MOST_LOSS = 2 }; /* more is not explained by it */
    if (base->saved_ns * 50 < base->least_ns)
        return;
    double loss = (double)(step_ns - base->least_ns) / (double)base->saved_ns;
    base->loss = loss < 0 ? 0 : loss > MOST_LOSS ? MOST_LOSS : loss;
    base->least_ns += (int64_t)(base->loss * (double)base->saved_ns);
    base->most_ns = base->least_ns;
}

gs_code gs_try(const gs_recorded_program *program, const gs_what_if *what_if, const gs_outcome *base,
               gs_outcome *outcome, gs_error *error) {
    const gs_gpu *gpu = what_if && what_if->gpu ? what_if->gpu : program->gpu;
    gs_plan plan;
    *outcome = (gs_outcome){0};
    gs_code code = make_plan(program, what_if, &plan, error);
    if (code != GS_OK)
        return code;
    struct player player = {.program = program, .gpu = gpu, .plan = &plan}, wide = player;
    code = play_mixed(&player, error);
    int64_t step_ns = time_with_loss(base, &player.played);
    *outcome = (gs_outcome){.least_ns = step_ns,
                            .most_ns = step_ns,
                            .saved_ns = player.played.beside.saved_ns,
                            .loss = -1,
                            .unscheduled_ns = player.unscheduled.step_ns,
                            .unscheduled_saved_ns = player.unscheduled.beside.saved_ns};
    if (code == GS_OK && !player.stuck.kernel && (plan.sms || plan.has_blocks)) {
        bool has_fewer = plan.sms && !plan.is_parted && !plan.has_blocks;
        plan.sms = 0;
        plan.keeps_times = true;
        code = play_mixed(&wide, error);
        int64_t other_ns = time_with_loss(base, &wide.played);
        step_ns = has_fewer ? gs_max(step_ns, other_ns) : step_ns; /* fewer SMs are never faster */
        outcome->least_ns = gs_min(step_ns, other_ns);
        outcome->most_ns = gs_max(step_ns, other_ns);
    }
    outcome->foreign = gs_plan_foreign(program, &plan);
    if (code == GS_OK && base)
        widen_outcome(base, &plan, &player.played.beside, outcome);
    if (player.stuck.kernel || wide.stuck.kernel)
        *outcome = (gs_outcome){
            .loss = -1, .foreign = outcome->foreign, .stuck = player.stuck.kernel ? player.stuck : wide.stuck};
    gs_plan_clear(&plan);
    return code;
}

static gs_code refuse_stuck(const gs_what_if *what_if, const gs_stuck *stuck, gs_error *error) {
    gs_text text = {0};
    for (size_t i = 0; i < what_if->count; i++)
        gs_text_add(&text, "%s%.40s%s", i ? "," : "", what_if->changes[i].words, i + 1 < what_if->count ? "" : ": ");
    gs_put_stuck(&text, stuck);
    gs_code code = text.failed ? gs_fail_memory(error) : gs_fail(error, GS_E_USAGE, "%s", text.data);
    gs_text_free(&text);
    return code;
}

gs_run *gs_changed_run(const gs_recorded_program *program, const gs_what_if *what_if, gs_error *error) {
    gs_plan plan;
    gs_run *run = NULL;
    if (make_plan(program, what_if, &plan, error) != GS_OK)
        return NULL;
    struct player player = {.program = program, .gpu = what_if->gpu ? what_if->gpu : program->gpu, .plan = &plan};
    gs_code code = play_plan(&player, error);
    if (code == GS_OK && player.stuck.kernel)
        code = refuse_stuck(what_if, &player.stuck, error);
    for (size_t last = plan.steps - 1; plan.has_next && plan.count && plan.data[plan.count - 1].step == last;)
        plan.count--;
    if (code == GS_OK)
        run = gs_plan_run(program, &plan, NULL, error);
    gs_plan_clear(&plan);
    return run;
}
