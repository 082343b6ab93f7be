/*
 * simulate.c: tasks played by the decisions of the daemon, in simulated time.
 *
 * Each task is a client. Its launches that are ready are contenders, the oldest ones as in the daemon, and gs_decide
 * says which of them run, where and in what shape. Durations differ from those of the table by `noise`. The ones alone
 * are known, because the daemon measures a kernel before that has a partner. Of pairs the table is known, and what is
 * measured becomes known as in the daemon (window.c). Launches that run together progress at rates, so the next event
 * is the end of one of them, the arrival of a task, or the time at which the decision is to be made again. For another
 * GPU than that of the table, durations are scaled by the numbers of waves on the two, as computed by the engine.
 *
 * A launch that is stopped goes on later: what the stop costs is added to its work. Launches that run whole follow each
 * other on the GPU without a gap.
 */
#include "decide.h"

#include <math.h>
#include <stdlib.h>

/* A launch of a task. */
struct planned {
    gs_profile *profile;
    double expected_us, true_us;
    size_t followers; /* the first of the launches that wait for it, in `edges` of its task */
};

/* A launch that is ready or runs. Its place in the list of its task is its stream. */
struct active {
    bool is_used;
    size_t task, index;
    gs_contender contender;
    double left_us, since_left_us;             /* of its duration alone: now, and when it began to wait, or to run */
    double counted_us;                         /* of what is done, as of the last count */
    double after;                              /* its rate with its workers, when its neighbor has ended */
    double ready_us;                           /* when it became ready, */
    double since_us;                           /* and when it began to wait, or to run */
    uint64_t start;                            /* order of starting */
    bool has_begun, had_neighbors, is_counted; /* is_counted: among those beside others */
};

enum { ACTIVE = 4 }; /* of a task, at a time */

struct player_task {
    struct planned *launches;
    size_t *edges;            /* launches, by those that they wait for */
    size_t *waits_for;        /* by launch: launches that have not ended */
    size_t *ready;            /* launches in the order in which they became ready, */
    size_t first_ready, last; /* from the first that is not active */
    gs_fair_client fair;
    size_t active; /* launches */
    bool is_there; /* it has joined the others */
    uint64_t begun;
    size_t left; /* launches of this time */
    double began_us, sum_us;
};

/* How fast a kernel is beside another, and with the same workers after that has ended. */
struct truth {
    double rate, after;
    bool is_split; /* each on its own SMs */
};

struct player {
    const gs_plan_table *table;
    const gs_task_list *tasks;
    const gs_simulation_options *options;
    gs_simulation *result;
    gs_random random;
    gs_decide_options plan;
    gs_planned planned;
    gs_profile_store *store;
    gs_window window;
    gs_fairness fairness;
    gs_mixing mixing;
    struct truth *truth; /* kernels x kernels */
    struct player_task *states;
    struct active *active;    /* ACTIVE for each task */
    struct active **order;    /* those that are used, as of the last decision: all that run are among them */
    gs_contender *contenders; /* the same */
    gs_decided_place *places; /* the same */
    struct active **running;  /* those of them that run, in the same order */
    double *rates;            /* of these */
    size_t used_count, running_count;
    size_t begun; /* tasks that have arrived */
    uint64_t arrivals, starts;
    double now_us, look_us;
};

/* At most as many as a number of the decision holds. */
static uint64_t ns_of(double us) {
    return (uint64_t)fmin(fmax(us * 1000 + 0.5, 0), 9e18);
}

static size_t places_of(const struct player *player) {
    return player->tasks->count * ACTIVE;
}

/* ---- durations ---- */

static double noise_factor(struct player *player) {
    return 1 + player->options->noise * ((double)gs_random_from(&player->random, -1000000, 1000000) / 1e6);
}

/* How much longer a launch takes on the simulated GPU. */
static gs_code scale_of(const struct player *player, const gs_table_kernel *kernel, int64_t blocks, double *scale,
                        gs_error *error) {
    const gs_simulation_options *options = player->options;
    *scale = 1;
    if (options->gpu == options->recorded_on)
        return GS_OK;
    if (kernel->shape.threads == 0)
        return gs_fail(error, GS_E_USAGE, "the plan has no block_threads, registers or shared_bytes for %.60s",
                       kernel->name);
    double here = gs_waves_on(options->gpu, kernel->name, &kernel->shape, blocks, error);
    double there = here > 0 ? gs_waves_on(options->recorded_on, kernel->name, &kernel->shape, blocks, error) : 0;
    if (there <= 0)
        return error->code;
    *scale = here / there;
    return GS_OK;
}

/* Launches of a kernel with about as many blocks share a profile, as in the daemon, if their blocks do as much. */
static gs_code find_profile(struct player *player, const gs_listed_launch *launch, struct planned *into,
                            gs_error *error) {
    const gs_table_kernel *kernel = &player->table->kernels.data[launch->kernel];
    uint64_t blocks = gs_profile_blocks((uint64_t)launch->blocks);
    uint64_t key = gs_profile_key(gs_hash(0, &launch->work, sizeof launch->work), kernel->name, blocks,
                                  (uint32_t[3]){(uint32_t)kernel->shape.threads, 1, 1}, 0);
    into->profile = gs_profile_store_get(player->store, key, kernel->name, blocks);
    if (!into->profile)
        return gs_fail(error, GS_E_USAGE, "the tasks have too many different launches");
    into->profile->worker = kernel->shape;
    gs_profile_ran(into->profile, false, (uint64_t)launch->blocks, gs_max_u64(ns_of(into->true_us), 1));
    return GS_OK;
}

static gs_code plan_launch(struct player *player, const gs_listed_launch *launch, struct planned *into,
                           gs_error *error) {
    const gs_table_kernel *kernel = &player->table->kernels.data[launch->kernel];
    gs_forecast forecast = gs_table_kernel_us(kernel, launch->blocks, launch->work);
    double scale;
    gs_code code = scale_of(player, kernel, launch->blocks, &scale, error);
    if (forecast.doubt != GS_DOUBT_NONE && !launch->is_recorded) {
        player->result->doubtful++;
        player->result->doubt = forecast.doubt;
    }
    into->expected_us = fmax(forecast.value * scale, 1e-3); /* a model may say less than nothing */
    into->true_us = into->expected_us * noise_factor(player);
    return code == GS_OK ? find_profile(player, launch, into, error) : code;
}

/* Sorts the launches of a task by those that they wait for. */
static void find_followers(const gs_listed_task *task, struct player_task *state) {
    size_t *at = state->ready; /* not in use yet */
    for (size_t i = 0; i < task->after.count; i++)
        state->launches[task->after.data[i] + 1].followers++;
    for (size_t i = 0; i < task->launches.count; i++) {
        state->launches[i + 1].followers += state->launches[i].followers;
        at[i] = state->launches[i].followers;
    }
    for (size_t i = 0; i < task->launches.count; i++) {
        const gs_listed_launch *launch = &task->launches.data[i];
        for (size_t k = 0; k < launch->after_count; k++)
            state->edges[at[task->after.data[launch->after + k]]++] = i;
    }
}

static gs_code plan_task(struct player *player, size_t number, gs_error *error) {
    const gs_listed_task *task = &player->tasks->data[number];
    struct player_task *state = &player->states[number];
    size_t count = task->launches.count;
    gs_code code = GS_OK;
    state->fair.weight = 1;
    state->launches = calloc(count + 1, sizeof *state->launches);
    state->edges = calloc(task->after.count + 1, sizeof *state->edges);
    state->waits_for = calloc(count + 1, sizeof *state->waits_for);
    state->ready = calloc(count + 1, sizeof *state->ready);
    if (!state->launches || !state->edges || !state->waits_for || !state->ready)
        return gs_fail_memory(error);
    find_followers(task, state);
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        code = plan_launch(player, &task->launches.data[i], &state->launches[i], error);
        player->result->tasks[number].alone_us += state->launches[i].true_us;
    }
    return code;
}

/* ---- pairs ---- */

static struct truth *truth_of(const struct player *player, int32_t kernel, int32_t other) {
    return &player->truth[(size_t)kernel * player->table->kernels.count + (size_t)other];
}

static void set_truth(struct player *player, const gs_table_pair *pair, gs_pair_rates rates) {
    double off = noise_factor(player);
    bool is_split = pair->option == GS_TABLE_SPLIT;
    *truth_of(player, pair->second, pair->first) =
        (struct truth){fmin(rates.second / off, rates.second_alone), rates.second_alone, is_split};
    *truth_of(player, pair->first, pair->second) =
        (struct truth){fmin(rates.first / off, rates.first_alone), rates.first_alone, is_split};
}

static gs_code add_pairs(struct player *player, gs_error *error) {
    const gs_plan_table *table = player->table;
    gs_pair_rates rates;
    double residual;
    for (size_t i = 0; i < table->kernels.count * table->kernels.count; i++)
        player->truth[i] = (struct truth){.rate = player->options->unknown / 2, .after = 1};
    for (size_t i = 0; i < table->pairs.count; i++)
        if (gs_table_pair_rates(&table->pairs.data[i], &rates, &residual))
            set_truth(player, &table->pairs.data[i], rates);
    if (!gs_planned_init(&player->planned, table, player->options->gpu))
        return gs_fail_memory(error);
    player->plan.planned = &player->planned;
    return gs_profile_store_predict(player->store, player->options->gpu, error);
}

/* ---- ready launches ---- */

static const gs_listed_launch *listed(const struct player *player, const struct active *active) {
    return &player->tasks->data[active->task].launches.data[active->index];
}

static const struct planned *planned_of(const struct player *player, const struct active *active) {
    return &player->states[active->task].launches[active->index];
}

static double least_had(const struct player *player, const struct player_task *except) {
    double least = INFINITY;
    for (size_t i = 0; i < player->tasks->count; i++)
        if (&player->states[i] != except && player->states[i].active > 0)
            least = fmin(least, gs_fair_had(&player->states[i].fair));
    return least;
}

/* A launch takes a free place. It has the SMs of the one before it there if that was the same kernel and has just
   ended. */
static void enter_place(struct player *player, size_t task, struct active *place) {
    struct player_task *state = &player->states[task];
    size_t index = state->ready[state->first_ready++];
    const struct planned *launch = &state->launches[index];
    const gs_listed_launch *listed_launch = &player->tasks->data[task].launches.data[index];
    bool can_confine = !player->table->kernels.data[listed_launch->kernel].is_black_box;
    bool keeps = place->contender.profile == launch->profile && place->since_us == player->now_us &&
                 place->contender.how == GS_DECIDE_CONFINED;
    state->active++;
    if (!state->is_there)
        gs_fair_join(&player->fairness, &state->fair, least_had(player, state), ns_of(player->now_us));
    state->is_there = true;
    place->contender = (gs_contender){.profile = launch->profile,
                                      .state = GS_CONTENDER_WAITS,
                                      .client = (uint32_t)task,
                                      .arrival = player->arrivals++,
                                      .fair = &state->fair,
                                      .stream = (uint64_t)(place - player->active) + 1,
                                      .can_confine = can_confine,
                                      .can_share = can_confine,
                                      .how = keeps ? GS_DECIDE_CONFINED : GS_DECIDE_WAIT,
                                      .sms = keeps ? place->contender.sms : 0};
    *place = (struct active){.is_used = true,
                             .task = task,
                             .index = index,
                             .contender = place->contender,
                             .left_us = launch->true_us,
                             .since_left_us = launch->true_us,
                             .after = 1,
                             .ready_us = player->now_us,
                             .since_us = player->now_us};
}

/* The launch that follows when this one ends; SIZE_MAX: none. */
static size_t follower_of(const struct player_task *state, size_t index) {
    for (size_t i = state->launches[index].followers; i < state->launches[index + 1].followers; i++)
        if (state->waits_for[state->edges[i]] == 1)
            return state->edges[i];
    return SIZE_MAX;
}

static void look_ahead(const struct player_task *state, struct active *active) {
    size_t index = active->index;
    for (int i = 0; i < GS_DECIDE_COMING; i++) {
        index = index < SIZE_MAX ? follower_of(state, index) : index;
        active->contender.coming[i] = index < SIZE_MAX ? state->launches[index].profile : NULL;
    }
}

/* What comes behind its launches changes only here. */
static void enter_places(struct player *player, size_t task) {
    struct player_task *state = &player->states[task];
    struct active *places = &player->active[task * ACTIVE];
    for (size_t i = 0; i < ACTIVE && state->first_ready < state->last; i++)
        if (!places[i].is_used)
            enter_place(player, task, &places[i]);
    for (size_t i = 0; i < ACTIVE; i++)
        if (places[i].is_used)
            look_ahead(state, &places[i]);
}

static void begin_task(struct player *player, size_t number) {
    const gs_listed_task *task = &player->tasks->data[number];
    struct player_task *state = &player->states[number];
    player->begun += state->begun == 0;
    state->begun++;
    state->left = task->launches.count;
    state->began_us = player->now_us;
    state->first_ready = state->last = 0;
    for (size_t i = 0; i < task->launches.count; i++) {
        state->waits_for[i] = task->launches.data[i].after_count;
        if (state->waits_for[i] == 0)
            state->ready[state->last++] = i;
    }
    enter_places(player, number);
}

/* Whether a task has to run once more. */
static bool runs_again(const struct player *player, size_t number) {
    const struct player_task *state = &player->states[number];
    if (player->options->for_us > 0)
        return player->now_us < player->options->for_us;
    return state->begun < (uint64_t)player->tasks->data[number].repeat;
}

static double next_arrival(const struct player *player) {
    double next = INFINITY;
    for (size_t i = 0; i < player->tasks->count && player->begun < player->tasks->count; i++)
        if (player->states[i].begun == 0)
            next = fmin(next, player->tasks->data[i].at_us);
    return next;
}

static void begin_arrived(struct player *player) {
    for (size_t i = 0; i < player->tasks->count && player->begun < player->tasks->count; i++)
        if (player->states[i].begun == 0 && player->tasks->data[i].at_us <= player->now_us)
            begin_task(player, i);
}

/* ---- the GPU ---- */

static bool is_running(const struct active *active) {
    return active->is_used && active->contender.state == GS_CONTENDER_RUNS;
}

/* How a launch is beside another; NULL: they do not run as a pair. */
static const struct truth *beside(const struct player *player, const struct active *active,
                                  const struct active *other) {
    const gs_contender *a = &active->contender, *b = &other->contender;
    if (active == other || !is_running(other) || a->how != GS_DECIDE_CONFINED || b->how != GS_DECIDE_CONFINED ||
        (a->workers > 0) != (b->workers > 0))
        return NULL;
    const struct truth *truth = truth_of(player, listed(player, active)->kernel, listed(player, other)->kernel);
    return truth->is_split == (a->workers == 0) ? truth : NULL;
}

/* Whether an earlier launch that runs whole has the same SMs. */
static bool is_queued(const struct player *player, const struct active *active) {
    for (size_t i = 0; i < player->running_count && active->contender.how == GS_DECIDE_WHOLE; i++) {
        const struct active *other = player->running[i];
        if (other->contender.how == GS_DECIDE_WHOLE && other->start < active->start)
            return true;
    }
    return false;
}

/* The SMs on which no launch is confined. One that runs whole has them all, and not only those reserved for it. */
static int32_t free_sms(const struct player *player) {
    int32_t sms = player->plan.sms;
    for (size_t i = 0; i < player->running_count; i++)
        if (player->running[i]->contender.how == GS_DECIDE_CONFINED)
            sms -= player->running[i]->contender.sms;
    return (int32_t)gs_max(sms, 0);
}

/* How fast a launch progresses; 1: as alone on all SMs. */
static double rate_of(const struct player *player, const struct active *active) {
    const gs_contender *contender = &active->contender;
    if (is_queued(player, active))
        return 0;
    if (contender->how == GS_DECIDE_WHOLE)
        return (double)free_sms(player) / player->plan.sms;
    for (size_t i = 0; i < player->running_count; i++) {
        const struct truth *truth = beside(player, active, player->running[i]);
        if (truth)
            return truth->rate;
    }
    return contender->workers > 0 ? active->after : (double)contender->sms / player->plan.sms;
}

/* One that was stopped before it did much has more left than its whole duration. */
static uint64_t blocks_done(const struct player *player, const struct active *active, double us) {
    return (uint64_t)((double)listed(player, active)->blocks * fmax(us, 0) / planned_of(player, active)->true_us);
}

/* Advances the time, and counts what was done. */
static void pass_time(struct player *player, double us) {
    for (size_t i = 0; i < player->running_count; i++) {
        struct active *active = player->running[i];
        if (player->rates[i] <= 0)
            continue;
        active->left_us = fmax(active->left_us - us * player->rates[i], 0);
        double done_us = planned_of(player, active)->true_us - active->left_us;
        uint64_t before = blocks_done(player, active, active->counted_us), now = blocks_done(player, active, done_us);
        gs_window_count(&player->window, active->contender.stream, active->contender.profile, now - before);
        active->counted_us = fmax(active->counted_us, done_us);
    }
    player->now_us += us;
}

/* A kernel whose neighbor has ended goes on with its workers. */
static void leave_neighbors(struct player *player, const struct active *ended) {
    for (size_t i = 0; i < player->used_count; i++) {
        struct active *active = player->order[i];
        const struct truth *truth = is_running(active) ? beside(player, active, ended) : NULL;
        if (truth)
            active->after = truth->after;
    }
}

/* ---- following decisions ---- */

/* The service of a running launch, since it began or was resized: what it has done, as it would take alone. */
static uint64_t served_by(const struct player *player, const struct active *active) {
    bool has_begun = is_running(active) && active->has_begun;
    return has_begun ? ns_of(active->since_left_us - active->left_us) * (uint64_t)player->plan.sms : 0;
}

static void charge(struct player *player, const struct active *active) {
    gs_fair_charge(&player->fairness, active->contender.fair, served_by(player, active));
}

/* With its running launches. */
static uint64_t served_to(const struct player *player, size_t task) {
    uint64_t served = player->states[task].fair.had;
    for (size_t i = 0; i < ACTIVE; i++)
        served += served_by(player, &player->active[task * ACTIVE + i]);
    return served;
}

/* What it had until now is charged by the SMs that it had. */
static void resize_launch(struct player *player, struct active *active) {
    charge(player, active);
    active->left_us += (double)player->plan.resize_ns / 1000;
    active->had_neighbors = true; /* it is not measured */
    active->since_us = player->now_us;
    active->since_left_us = active->left_us;
}

static void stop_launch(struct player *player, struct active *active) {
    leave_neighbors(player, active);
    resize_launch(player, active);
    active->contender.state = GS_CONTENDER_WAITS;
    active->contender.how = GS_DECIDE_WAIT;
    active->contender.sms = active->contender.workers = 0;
}

static void start_launch(struct player *player, struct active *active, const gs_decided_place *place) {
    active->contender.waited_ns = (int64_t)ns_of(player->now_us - active->since_us);
    active->contender.state = GS_CONTENDER_RUNS;
    active->contender.workers = place->workers;
    active->since_us = player->now_us;
    active->start = player->starts++;
    bool is_beside = place->sms < player->plan.sms || place->workers > 0;
    player->result->shared += is_beside && !active->is_counted;
    active->is_counted |= is_beside;
}

/* Returns whether a launch was stopped. */
static bool follow_place(struct player *player, struct active *active, const gs_decided_place *place) {
    gs_contender *contender = &active->contender;
    bool ran = contender->state == GS_CONTENDER_RUNS;
    if (ran && place->how == GS_DECIDE_WAIT) {
        stop_launch(player, active);
        return true;
    }
    if (ran && place->sms != contender->sms)
        resize_launch(player, active);
    contender->how = place->how;
    contender->sms = place->sms;
    if (!ran && place->how != GS_DECIDE_WAIT)
        start_launch(player, active, place);
    return false;
}

/* What the decision is told about a launch. */
static void describe_launch(struct player *player, struct active *active) {
    gs_contender *told = &player->contenders[player->used_count];
    *told = active->contender;
    told->blocks_left = (uint64_t)listed(player, active)->blocks -
                        blocks_done(player, active, planned_of(player, active)->true_us - active->left_us);
    told->served = served_to(player, active->task);
    told->ahead_ns = is_running(active) ? (int64_t)ns_of(active->left_us) : 0;
    if (is_running(active))
        told->running_ns = (int64_t)(ns_of(player->now_us) - told->fair->turn_since_ns);
    else
        told->waited_ns = (int64_t)ns_of(player->now_us - active->since_us);
    player->order[player->used_count++] = active;
}

/* Returns how many launches there are. */
static size_t describe(struct player *player) {
    player->used_count = 0;
    for (size_t task = 0; task < player->tasks->count; task++)
        for (size_t i = 0, left = player->states[task].active; i < ACTIVE && left > 0; i++)
            if (player->active[task * ACTIVE + i].is_used) {
                describe_launch(player, &player->active[task * ACTIVE + i]);
                left--;
            }
    size_t count = player->used_count;
    player->fairness.present = 0;
    for (size_t i = 0; i < player->tasks->count; i++)
        player->fairness.present += player->states[i].active > 0;
    player->fairness.least_had = least_had(player, NULL);
    for (size_t i = 0; i < count; i++) {
        gs_fair_note_lead(&player->fairness, player->contenders[i].fair);
        player->contenders[i].lets_pass = player->contenders[i].fair->lets_pass;
    }
    return count;
}

static void find_running(struct player *player) {
    player->running_count = 0;
    for (size_t i = 0; i < player->used_count; i++)
        if (is_running(player->order[i]))
            player->running[player->running_count++] = player->order[i];
}

/* Launches whose turn on the GPU has come. */
static void note_begun(struct player *player) {
    size_t running = 0;
    find_running(player);
    for (size_t i = 0; i < player->running_count; i++) {
        player->rates[i] = rate_of(player, player->running[i]);
        running += player->rates[i] > 0;
    }
    for (size_t i = 0; i < player->running_count; i++) {
        struct active *active = player->running[i];
        if (player->rates[i] <= 0)
            continue;
        active->had_neighbors |= running > 1;
        if (active->has_begun)
            continue;
        active->has_begun = true;
        player->result->launches++;
        player->result->alone_us += planned_of(player, active)->true_us;
        player->result->longest_wait_us = fmax(player->result->longest_wait_us, player->now_us - active->ready_us);
        active->since_us = player->now_us;
    }
}

/* A launch that must run in another way is stopped first, and the next decision starts it. */
static void decide_all(struct player *player) {
    enum { MOST_STOPS = 8 };
    uint64_t now_ns = ns_of(player->now_us);
    bool is_stopped = true;
    for (int i = 0; i < MOST_STOPS && is_stopped; i++) {
        size_t count = describe(player);
        gs_decide_options options = player->plan;
        options.slice_ns = gs_fair_slice_ns(&player->fairness);
        gs_decide_adapt(&options, player->contenders, count);
        player->fairness.lead_ns = options.lead_ns;
        gs_window_end_probe(&player->window, player->store, now_ns);
        gs_decision decision = gs_decide(&options, player->store, player->contenders, count, player->places);
        gs_mixing_follow(&player->mixing, &options, player->contenders, count, player->places, now_ns);
        gs_window_follow(&player->window, player->store, &options, player->contenders, player->places, count, now_ns);
        gs_fair_note_turns(player->contenders, player->places, count, now_ns);
        player->look_us =
            decision.look_again_ns < INT64_MAX ? player->now_us + (double)decision.look_again_ns / 1000 : INFINITY;
        is_stopped = false;
        for (int32_t turn = 0; turn < GS_DECIDE_TOGETHER; turn++)
            for (size_t k = 0; k < count; k++)
                is_stopped |=
                    player->places[k].turn == turn && follow_place(player, player->order[k], &player->places[k]);
    }
    note_begun(player);
}

/* ---- playing ---- */

static void release_followers(struct player *player, size_t task, size_t index) {
    struct player_task *state = &player->states[task];
    for (size_t i = state->launches[index].followers; i < state->launches[index + 1].followers; i++)
        if (--state->waits_for[state->edges[i]] == 0)
            state->ready[state->last++] = state->edges[i];
}

static void end_task(struct player *player, size_t number) {
    gs_simulated_task *task = &player->result->tasks[number];
    struct player_task *state = &player->states[number];
    task->done++;
    state->sum_us += player->now_us - state->began_us;
    task->longest_us = fmax(task->longest_us, player->now_us - state->began_us);
    task->mean_us = state->sum_us / (double)task->done;
    if (runs_again(player, number))
        begin_task(player, number);
}

/* What a launch alone on the GPU tells about its kernel. */
static void learn(const struct player *player, const struct active *active) {
    const gs_contender *contender = &active->contender;
    uint64_t blocks = (uint64_t)listed(player, active)->blocks, ns = ns_of(player->now_us - active->since_us);
    gs_profile *profile = planned_of(player, active)->profile;
    if (active->had_neighbors || contender->workers > 0 || ns == 0)
        return;
    if (contender->how == GS_DECIDE_WHOLE)
        gs_profile_ran(profile, false, blocks, ns);
    else
        gs_profile_rate(profile, contender->sms, blocks, ns);
}

static void end_launch(struct player *player, struct active *ended) {
    size_t task = ended->task;
    struct player_task *state = &player->states[task];
    charge(player, ended);
    learn(player, ended);
    gs_mixing_ran(&player->mixing, (uint32_t)task, ended->contender.how == GS_DECIDE_WHOLE,
                  gs_profile_duration_ns(planned_of(player, ended)->profile), ns_of(player->now_us),
                  ns_of(player->now_us));
    leave_neighbors(player, ended);
    ended->is_used = false;
    ended->since_us = player->now_us;
    player->result->end_us = player->now_us;
    release_followers(player, task, ended->index);
    state->active--;
    if (--state->left == 0)
        end_task(player, task);
    else
        enter_places(player, task);
    state->is_there = state->active > 0;
    if (!state->is_there)
        gs_fair_leave(&player->fairness, &state->fair, ns_of(player->now_us));
}

/* Advances to the next event. */
static void play_step(struct player *player) {
    double next = fmin(next_arrival(player), player->look_us) - player->now_us;
    for (size_t i = 0; i < player->running_count; i++)
        if (player->rates[i] > 0)
            next = fmin(next, player->running[i]->left_us / player->rates[i]);
    pass_time(player, fmax(next, 0));
    for (size_t i = 0; i < player->running_count; i++)
        if (player->rates[i] > 0 && player->running[i]->left_us <= 1e-9)
            end_launch(player, player->running[i]);
    begin_arrived(player);
    decide_all(player);
}

/* ---- the whole ---- */

/* Not at each step: the clock takes as long as a short step. */
static void show_progress(const struct player *player, uint64_t step) {
    enum { STEPS = 64 };
    if (step % STEPS == 0)
        gs_progress_say(player->options->progress, "%llu launches in %.3f ms, at most %d at a time",
                        (unsigned long long)player->result->launches, player->now_us / 1000, player->options->together);
}

static gs_decide_options plan_of(const gs_simulation_options *options) {
    gs_decide_options plan = gs_decide_defaults(options->gpu->sms);
    plan.most_together = options->together;
    plan.patience_ns = options->patience_us > 0 ? (int64_t)ns_of(options->patience_us) : plan.patience_ns;
    plan.probes = false; /* the table has no curves */
    plan.tries_intra_sm = options->together > 1;
    return plan;
}

static gs_code player_init(struct player *player, gs_error *error) {
    const gs_simulation_options *options = player->options;
    size_t kernels = player->table->kernels.count, tasks = player->tasks->count, places = places_of(player);
    gs_code code = GS_OK;
    player->plan = plan_of(options);
    player->fairness = (gs_fairness){.sms = player->plan.sms, .slice_ns = player->plan.slice_ns};
    player->random = gs_random_at(options->seed, 0);
    player->store = gs_profile_store_open(NULL, gs_gpu_name(options->gpu), options->gpu->sms, error);
    if (!player->store)
        return error->code;
    player->truth = calloc(kernels * kernels + 1, sizeof *player->truth);
    player->states = calloc(tasks + 1, sizeof *player->states);
    player->active = calloc(places + 1, sizeof *player->active);
    player->order = calloc(places + 1, sizeof *player->order);
    player->contenders = calloc(places + 1, sizeof *player->contenders);
    player->places = calloc(places + 1, sizeof *player->places);
    player->running = calloc(places + 1, sizeof *player->running);
    player->rates = calloc(places + 1, sizeof *player->rates);
    player->result->tasks = calloc(tasks + 1, sizeof *player->result->tasks);
    player->result->task_count = tasks;
    if (!player->truth || !player->states || !player->active || !player->order || !player->contenders ||
        !player->places || !player->running || !player->rates || !player->result->tasks)
        return gs_fail_memory(error);
    code = add_pairs(player, error);
    for (size_t i = 0; i < tasks && code == GS_OK; i++)
        code = plan_task(player, i, error);
    return code;
}

static void player_free(struct player *player) {
    for (size_t i = 0; player->states && i < player->tasks->count; i++) {
        free(player->states[i].launches);
        free(player->states[i].edges);
        free(player->states[i].waits_for);
        free(player->states[i].ready);
    }
    gs_planned_clear(&player->planned);
    gs_profile_store_close(player->store);
    free(player->truth);
    free(player->states);
    free(player->active);
    free(player->order);
    free(player->contenders);
    free(player->places);
    free(player->running);
    free(player->rates);
}

gs_code gs_simulate(const gs_plan_table *table, const gs_task_list *tasks, const gs_simulation_options *options,
                    gs_simulation *result, gs_error *error) {
    struct player player = {.table = table, .tasks = tasks, .options = options, .result = result, .look_us = INFINITY};
    memset(result, 0, sizeof *result);
    gs_code code = player_init(&player, error);
    for (uint64_t step = 1; code == GS_OK && (player.fairness.clients > 0 || isfinite(next_arrival(&player))); step++) {
        play_step(&player);
        show_progress(&player, step);
    }
    player_free(&player);
    return code;
}

void gs_simulation_clear(gs_simulation *result) {
    free(result->tasks);
    memset(result, 0, sizeof *result);
}
