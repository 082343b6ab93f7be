/*
 * simulate.c: tasks played with the online scheduler, in simulated time.
 *
 * A kind of the queue is a kernel of the table. The queue expects the durations of the table; the simulated ones differ
 * from it by `noise`. Launches that run together progress at rates (partners.c), so the next event is always the end of
 * one of them, or the arrival of a task. For another GPU than that of the table, durations are scaled by the numbers of
 * waves on the two, as computed by the engine.
 */
#include "simulate.h"

#include <math.h>
#include <stdlib.h>

/* A launch of a task, as it is added to the queue each time the task runs. */
struct planned {
    double expected_us, true_us;
};

struct running {
    size_t handle;
    size_t task, index;
    gs_runner runner;
};

/* Cached answers of which three and four kernels fit. */
struct fit_cache {
    struct fit_answer {
        uint64_t key;
        bool fits;
    } * data;
    size_t count, capacity;
};

struct player {
    const gs_plan_table *table;
    const gs_task_list *tasks;
    const gs_simulation_options *options;
    gs_simulation *result;
    gs_random random;
    gs_queue *queue;
    gs_partners truth;
    struct planned **planned;  /* by task, by launch */
    gs_queue_launch *launches; /* for adding a task */
    struct player_task {
        uint64_t begun;
        size_t left; /* launches of this time */
        double began_us, sum_us;
    } * states;
    struct running running[GS_QUEUE_TOGETHER];
    size_t running_count;
    size_t begun; /* tasks that have arrived */
    double now_us;
    struct fit_cache fits;
};

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
    double here = gs_waves_on(options->gpu, &kernel->shape, blocks, error);
    double there = here > 0 ? gs_waves_on(options->recorded_on, &kernel->shape, blocks, error) : 0;
    if (there <= 0)
        return error->code;
    *scale = here / there;
    return GS_OK;
}

/* Networks have many launches of one shape: the scale is the same for the same kernel and number of blocks. */
static gs_code plan_launch(struct player *player, const gs_listed_task *task, size_t index, struct planned *into,
                           gs_error *error) {
    const gs_listed_launch *launch = &task->launches.data[index];
    const gs_table_kernel *kernel = &player->table->kernels.data[launch->kernel];
    gs_forecast forecast = gs_table_kernel_us(kernel, launch->blocks, launch->work);
    double scale;
    gs_code code = scale_of(player, kernel, launch->blocks, &scale, error);
    if (forecast.doubt != GS_DOUBT_NONE) {
        player->result->doubtful++;
        player->result->doubt = forecast.doubt;
    }
    into->expected_us = forecast.value * scale;
    into->true_us = into->expected_us * noise_factor(player);
    return code;
}

static gs_code plan_tasks(struct player *player, gs_error *error) {
    size_t most = 0;
    gs_code code = GS_OK;
    for (size_t i = 0; i < player->tasks->count && code == GS_OK; i++) {
        const gs_listed_task *task = &player->tasks->data[i];
        size_t count = task->launches.count;
        most = gs_max_u64(most, count);
        player->planned[i] = calloc(count + 1, sizeof *player->planned[i]);
        if (!player->planned[i])
            return gs_fail_memory(error);
        for (size_t k = 0; k < count && code == GS_OK; k++) {
            code = plan_launch(player, task, k, &player->planned[i][k], error);
            player->result->tasks[i].alone_us += player->planned[i][k].true_us;
        }
    }
    player->launches = calloc(most + 1, sizeof *player->launches);
    return code != GS_OK || player->launches ? code : gs_fail_memory(error);
}

/* ---- pairs ---- */

/* Whether the plan's workers of a pair are resident together on the simulated GPU, whichever is launched first.
 */
static bool pair_fits(const struct player *player, const gs_table_pair *pair) {
    const gs_gpu *gpu = player->options->gpu;
    const int32_t workers[2] = {pair->first_workers, pair->second_workers};
    if (pair->option != GS_TABLE_INTRA_SM || workers[0] == 0 || workers[1] == 0)
        return true;
    for (int i = 0; i < 2; i++)
        if (gs_fits_beside(gpu, &pair->shapes[i], &workers[i], 1, &pair->shapes[!i], workers[!i]) == workers[!i])
            return true;
    return false;
}

static void add_pair(struct player *player, const gs_table_pair *pair) {
    gs_pair_rates rates;
    double residual;
    if (!gs_table_pair_rates(pair, &rates, &residual) || !pair_fits(player, pair))
        return;
    gs_queue_pair(player->queue, pair->first, pair->second, &rates, residual, pair->first_workers,
                  pair->second_workers);
    double off = noise_factor(player);
    rates.first = fmin(rates.first / off, rates.first_alone);
    rates.second = fmin(rates.second / off, rates.second_alone);
    gs_partners_set(&player->truth, pair->first, pair->second, &rates, 0, pair->first_workers, pair->second_workers);
}

static bool is_first(const gs_plan_table *table, int32_t kernel) {
    for (size_t i = 0; i < table->pairs.count; i++)
        if (table->pairs.data[i].first == kernel)
            return true;
    return false;
}

static bool is_second(const gs_plan_table *table, int32_t kernel) {
    for (size_t i = 0; i < table->pairs.count; i++)
        if (table->pairs.data[i].second == kernel)
            return true;
    return false;
}

/* A kernel without a pair in the plan, beside one that is the first of a pair: they are tried if they fit. */
static void add_unknown(struct player *player, int32_t first, int32_t second) {
    const gs_table_kernel *a = &player->table->kernels.data[first], *b = &player->table->kernels.data[second];
    if (a->workers == 0 || b->workers == 0 || a->shape.threads == 0 || b->shape.threads == 0)
        return;
    int32_t workers = gs_fits_beside(player->options->gpu, &a->shape, &a->workers, 1, &b->shape, b->workers);
    if (workers <= 0)
        return;
    double half = player->options->unknown / 2;
    gs_pair_rates truth = {half, half, 1, 1};
    gs_queue_pair_fits(player->queue, first, second, a->workers, workers);
    gs_partners_set(&player->truth, first, second, &truth, 0, a->workers, workers);
}

static void add_pairs(struct player *player) {
    const gs_plan_table *table = player->table;
    int32_t count = (int32_t)table->kernels.count;
    for (size_t i = 0; i < table->pairs.count; i++)
        add_pair(player, &table->pairs.data[i]);
    for (int32_t a = 0; a < count; a++)
        for (int32_t b = 0; b < count && is_first(table, a); b++)
            if (!is_first(table, b) && !is_second(table, b))
                add_unknown(player, a, b);
}

/* The queue asks whether three and more fit. */
static bool ask_engine(struct player *player, const int32_t *kinds, const int32_t *workers, size_t count) {
    gs_shape shapes[GS_QUEUE_TOGETHER];
    for (size_t i = 0; i < count; i++) {
        shapes[i] = player->table->kernels.data[kinds[i]].shape;
        if (shapes[i].threads == 0 || workers[i] == 0)
            return false;
    }
    return gs_fits_beside(player->options->gpu, shapes, workers, count - 1, &shapes[count - 1], workers[count - 1]) ==
           workers[count - 1];
}

static bool do_fit(void *user, const int32_t *kinds, const int32_t *workers, size_t count) {
    struct player *player = user;
    struct fit_cache *cache = &player->fits;
    uint64_t key = gs_hash(gs_hash(0, kinds, count * sizeof *kinds), workers, count * sizeof *workers);
    for (size_t i = 0; i < cache->count; i++)
        if (cache->data[i].key == key)
            return cache->data[i].fits;
    bool fits = ask_engine(player, kinds, workers, count);
    if (GS_RESERVE(cache, 1))
        cache->data[cache->count++] = (struct fit_answer){key, fits};
    return fits;
}

/* ---- playing ---- */

static uint64_t user_of(size_t task, size_t index) {
    return (uint64_t)task << 32 | index;
}

static gs_code begin_task(struct player *player, size_t number, gs_error *error) {
    const gs_listed_task *task = &player->tasks->data[number];
    struct player_task *state = &player->states[number];
    for (size_t i = 0; i < task->launches.count; i++)
        player->launches[i] =
            (gs_queue_launch){.kind = task->launches.data[i].kernel,
                              .alone_us = player->planned[number][i].expected_us,
                              .user = user_of(number, i),
                              .after = task->after.data ? task->after.data + task->launches.data[i].after : NULL,
                              .after_count = task->launches.data[i].after_count};
    player->begun += state->begun == 0;
    state->begun++;
    state->left = task->launches.count;
    state->began_us = player->now_us;
    return gs_queue_add(player->queue, player->launches, task->launches.count, player->now_us) ? GS_OK
                                                                                               : gs_fail_memory(error);
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

static gs_code begin_arrived(struct player *player, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < player->tasks->count && code == GS_OK; i++)
        if (player->states[i].begun == 0 && player->tasks->data[i].at_us <= player->now_us)
            code = begin_task(player, i, error);
    return code;
}

static void start_launches(struct player *player) {
    gs_queue_start starts[GS_QUEUE_TOGETHER];
    size_t count = gs_queue_next(player->queue, player->now_us, starts);
    for (size_t i = 0; i < count; i++) {
        size_t task = starts[i].user >> 32, index = starts[i].user & UINT32_MAX;
        player->running[player->running_count++] = (struct running){
            .handle = starts[i].launch,
            .task = task,
            .index = index,
            .runner = {.kind = starts[i].kind, .left_us = player->planned[task][index].true_us, .rate = 1}};
        player->result->launches++;
        player->result->alone_us += player->planned[task][index].true_us;
        player->result->longest_wait_us = fmax(player->result->longest_wait_us, starts[i].waited_us);
    }
    player->result->shared += player->running_count > 1 ? count : 0;
}

static gs_code end_launch(struct player *player, size_t at, gs_error *error) {
    struct running ended = player->running[at];
    struct player_task *state = &player->states[ended.task];
    gs_simulated_task *task = &player->result->tasks[ended.task];
    player->running[at] = player->running[--player->running_count];
    for (size_t i = 0; i < player->running_count; i++)
        player->running[i].runner.rate =
            gs_partner_of(&player->truth, player->running[i].runner.kind, ended.runner.kind)->rate_after;
    gs_queue_end(player->queue, ended.handle, player->now_us);
    player->result->end_us = player->now_us;
    if (--state->left > 0)
        return GS_OK;
    task->done++;
    state->sum_us += player->now_us - state->began_us;
    task->longest_us = fmax(task->longest_us, player->now_us - state->began_us);
    task->mean_us = state->sum_us / (double)task->done;
    return runs_again(player, ended.task) ? begin_task(player, ended.task, error) : GS_OK;
}

/* Advances to the next end or arrival. */
static gs_code play_step(struct player *player, gs_error *error) {
    gs_runner runners[GS_QUEUE_TOGETHER];
    double rates[GS_QUEUE_TOGETHER], next = next_arrival(player) - player->now_us;
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < player->running_count; i++)
        runners[i] = player->running[i].runner;
    gs_partners_rates(&player->truth, runners, player->running_count, rates);
    for (size_t i = 0; i < player->running_count; i++)
        if (runners[i].left_us / rates[i] < next) {
            next = runners[i].left_us / rates[i];
            first = i;
        }
    for (size_t i = 0; i < player->running_count; i++)
        player->running[i].runner.left_us = fmax(runners[i].left_us - next * rates[i], 0);
    player->now_us += next;
    gs_code code = first != SIZE_MAX ? end_launch(player, first, error) : begin_arrived(player, error);
    if (code == GS_OK)
        start_launches(player);
    return code;
}

/* ---- the whole ---- */

/* Not at each step: the clock takes as long as a short step. */
static void show_progress(const struct player *player, uint64_t step) {
    enum { STEPS = 64 };
    if (step % STEPS == 0)
        gs_progress_say(player->options->progress, "%llu launches in %.3f ms, at most %d at a time",
                        (unsigned long long)player->result->launches, player->now_us / 1000, player->options->together);
}

static gs_code player_init(struct player *player, gs_error *error) {
    const gs_simulation_options *options = player->options;
    gs_queue_options queue = gs_queue_defaults();
    size_t kinds = player->table->kernels.count, tasks = player->tasks->count;
    queue.most_together = options->together;
    queue.patience_us = options->patience_us > 0 ? options->patience_us : queue.patience_us;
    queue.fits = do_fit;
    queue.user = player;
    player->random = gs_random_at(options->seed, 0);
    player->queue = gs_queue_new(&queue, kinds);
    player->planned = calloc(tasks + 1, sizeof *player->planned);
    player->states = calloc(tasks + 1, sizeof *player->states);
    player->result->tasks = calloc(tasks + 1, sizeof *player->result->tasks);
    player->result->task_count = tasks;
    if (!player->queue || !player->planned || !player->states || !player->result->tasks ||
        !gs_partners_init(&player->truth, kinds))
        return gs_fail_memory(error);
    add_pairs(player);
    return plan_tasks(player, error);
}

static void player_free(struct player *player) {
    for (size_t i = 0; player->planned && i < player->tasks->count; i++)
        free(player->planned[i]);
    free(player->planned);
    free(player->launches);
    free(player->states);
    free(player->fits.data);
    gs_partners_free(&player->truth);
    gs_queue_free(player->queue);
}

gs_code gs_simulate(const gs_plan_table *table, const gs_task_list *tasks, const gs_simulation_options *options,
                    gs_simulation *result, gs_error *error) {
    struct player player = {.table = table, .tasks = tasks, .options = options, .result = result};
    memset(result, 0, sizeof *result);
    gs_code code = player_init(&player, error);
    for (uint64_t step = 1; code == GS_OK && (player.running_count > 0 || isfinite(next_arrival(&player))); step++) {
        code = play_step(&player, error);
        show_progress(&player, step);
    }
    player_free(&player);
    return code;
}

void gs_simulation_clear(gs_simulation *result) {
    free(result->tasks);
    memset(result, 0, sizeof *result);
}
