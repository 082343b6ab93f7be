/*
 * shrink.c: finds the smallest run on which a device and the model still differ.
 *
 * Delta debugging: a step makes the run simpler, and is kept if device and model still differ. The passes are repeated
 * until none of them keeps a step:
 *
 *   drop_rest          removes all events after the first launch that differs
 *   drop_groups        removes halves of the events, quarters, ... single launches with their exits, single exits
 *   merge_neighbors    makes one launch of two, with the blocks of both
 *   reduce_numbers     reduces each number of each launch, by a table
 *
 * A real device is not deterministic, and a difference that does not repeat would mislead the search. So a step is kept
 * only if the difference occurs twice in a row, the second time with long waits. Numbers can depend on each other, so a
 * later round may reduce what an earlier one could not.
 *
 * A number is made round before it is made small: with 64 threads and 65 bytes a reader sees that the 65 matters.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { PLAYS_OF_A_STEP = 2, MOST_SMS_IN_WORDS = 8 };

struct search {
    gs_device *device;
    const gs_gpu *model;
    int64_t most_plays;
    gs_run *script; /* the smallest so far: launches and exits, without observations */
    gs_shrunk *shrunk;
};

/* ---- playing on the device and the model ---- */

struct answers {
    gs_run *seen, *predicted;
    bool differ;
};

static void answers_free(struct answers *answers) {
    gs_run_free(answers->seen);
    gs_run_free(answers->predicted);
}

static gs_code play_once(struct search *search, const gs_run *script, bool patient, struct answers *answers,
                         gs_error *error) {
    gs_play_options options = {.expected = answers->predicted, .patient = patient};
    gs_score score = {0};
    gs_run_free(answers->seen);
    answers->seen = gs_device_play(search->device, script, &options, error);
    search->shrunk->played++;
    if (!answers->seen)
        return error->code;
    gs_code code = gs_score_add(&score, answers->seen, answers->predicted, error);
    answers->differ = code == GS_OK && score.runs_exact == 0;
    return code;
}

static gs_code play_both(struct search *search, const gs_run *script, struct answers *answers, gs_error *error) {
    answers->predicted = gs_predict(search->model, script, NULL, error);
    if (!answers->predicted)
        return error->code;
    gs_code code = play_once(search, script, false, answers, error);
    return code == GS_OK && answers->differ ? play_once(search, script, true, answers, error) : code;
}

static bool is_spent(const struct search *search) {
    return search->shrunk->played + PLAYS_OF_A_STEP > search->most_plays;
}

/* ---- one step ---- */

/* False: no launches, blocks that do not form whole clusters, or more blocks than a grid can have. */
static bool is_playable(const gs_run *script) {
    for (size_t i = 0; i < script->launches.count; i++) {
        const gs_launch *launch = &script->launches.data[i];
        if (launch->blocks % launch->cluster || launch->blocks > INT32_MAX)
            return false;
    }
    return script->launches.count > 0;
}

/* Whether the model or the device cannot play such a run: then the step is not kept. */
static bool is_refusal(gs_code code) {
    return code == GS_E_NO_FIT || code == GS_E_UNSUPPORTED || code == GS_E_USAGE;
}

static void adopt_smaller(struct search *search, gs_run *script, const struct answers *answers) {
    gs_shrunk *shrunk = search->shrunk;
    gs_run_free(search->script);
    gs_run_free(shrunk->seen);
    gs_run_free(shrunk->predicted);
    search->script = script;
    shrunk->seen = answers->seen;
    shrunk->predicted = answers->predicted;
    shrunk->kept++;
}

/* Takes ownership of `script`; NULL: out of memory. */
static gs_code try_step(struct search *search, gs_run *script, bool *kept, gs_error *error) {
    gs_error problem = {.code = GS_OK};
    struct answers answers = {0};
    *kept = false;
    if (!script)
        return gs_fail_memory(error);
    gs_code code = is_playable(script) && !is_spent(search) ? play_both(search, script, &answers, &problem) : GS_OK;
    if (code == GS_OK && answers.differ) {
        adopt_smaller(search, script, &answers);
        *kept = true;
        return GS_OK;
    }
    answers_free(&answers);
    gs_run_free(script);
    if (code == GS_OK || is_refusal(code))
        return GS_OK;
    if (error)
        *error = problem;
    return code;
}

/* ---- fewer events ---- */

static gs_code copy_heading(gs_run *to, const gs_run *from, gs_error *error) {
    to->has_id = from->has_id;
    to->id = from->id;
    to->gpu = from->gpu ? strdup(from->gpu) : NULL;
    to->class_name = from->class_name ? strdup(from->class_name) : NULL;
    bool copied = (to->gpu || !from->gpu) && (to->class_name || !from->class_name);
    return copied ? GS_OK : gs_fail_memory(error);
}

/* `numbers`: by launch of `from`, its number in `to`; SIZE_MAX: not copied. */
static gs_code copy_event(gs_run *to, const gs_run *from, const gs_event *event, size_t *numbers, gs_error *error) {
    size_t *number = &numbers[event->launch];
    if (event->op == GS_LAUNCH) {
        *number = to->launches.count;
        return gs_run_copy_launch(to, &from->launches.data[event->launch], error);
    }
    bool wanted = event->op == GS_EXIT && *number != SIZE_MAX;
    return !wanted || gs_run_add_event(to, GS_EXIT, *number, error) ? GS_OK : GS_E_MEMORY;
}

/* A copy of the launches and exits of a run without the events from `first` to before `end`, and without the exits of
   launches that are not copied. */
static gs_run *copy_without(const gs_run *run, size_t first, size_t end, gs_error *error) {
    gs_run *copy = gs_run_new(error);
    size_t *numbers = malloc((run->launches.count + 1) * sizeof *numbers);
    gs_code code = copy && numbers ? copy_heading(copy, run, error) : gs_fail_memory(error);
    for (size_t i = 0; numbers && i < run->launches.count; i++)
        numbers[i] = SIZE_MAX;
    for (size_t i = 0; i < run->events.count && code == GS_OK; i++)
        if (i < first || i >= end)
            code = copy_event(copy, run, &run->events.data[i], numbers, error);
    free(numbers);
    if (code == GS_OK)
        return copy;
    gs_run_free(copy);
    return NULL;
}

/* Blocks of a launch on each SM; those that wait at [0]. */
struct counts {
    int64_t *data;
    size_t count, capacity;
};

static bool count_blocks(const gs_run *run, size_t launch, struct counts *counts) {
    const gs_launch *what = &run->launches.data[launch];
    for (int64_t block = 0; block < what->blocks; block++) {
        size_t at = (size_t)(gs_seen_sm(run->events.data[what->event].seen, block) + 1);
        if (at >= counts->count) {
            size_t more = at + 1 - counts->count;
            if (!GS_RESERVE(counts, more))
                return false;
            memset(counts->data + counts->count, 0, more * sizeof *counts->data);
            counts->count += more;
        }
        counts->data[at]++;
    }
    return true;
}

static int64_t count_at(const struct counts *counts, size_t at) {
    return at < counts->count ? counts->data[at] : 0;
}

/* The blocks of one launch on the device and in the model. */
struct both {
    struct counts seen, predicted;
};

static void both_free(struct both *both) {
    free(both->seen.data);
    free(both->predicted.data);
}

static size_t both_end(const struct both *both) {
    return gs_max_u64(both->seen.count, both->predicted.count);
}

static bool both_differ(const struct both *both, size_t at) {
    return count_at(&both->seen, at) != count_at(&both->predicted, at);
}

static gs_code both_of(const gs_shrunk *shrunk, size_t launch, struct both *both, gs_error *error) {
    *both = (struct both){0};
    if (count_blocks(shrunk->seen, launch, &both->seen) && count_blocks(shrunk->predicted, launch, &both->predicted))
        return GS_OK;
    both_free(both);
    return gs_fail_memory(error);
}

static gs_code launch_differs(const gs_shrunk *shrunk, size_t launch, bool *differs, gs_error *error) {
    struct both both;
    gs_code code = both_of(shrunk, launch, &both, error);
    *differs = false;
    if (code != GS_OK)
        return code;
    for (size_t at = 0; at < both_end(&both); at++)
        *differs = *differs || both_differ(&both, at);
    both_free(&both);
    return GS_OK;
}

static gs_code find_launch(gs_shrunk *shrunk, gs_error *error) {
    bool differs = false;
    gs_code code = GS_OK;
    for (size_t i = 0; i < shrunk->seen->launches.count && code == GS_OK && !differs; i++) {
        code = launch_differs(shrunk, i, &differs, error);
        shrunk->launch = i;
    }
    return code;
}

static gs_code drop_rest(struct search *search, gs_error *error) {
    bool kept;
    gs_code code = find_launch(search->shrunk, error);
    size_t first = code == GS_OK ? search->script->launches.data[search->shrunk->launch].event + 1 : SIZE_MAX;
    if (first >= search->script->events.count)
        return code;
    return try_step(search, copy_without(search->script, first, SIZE_MAX, error), &kept, error);
}

/* Later events are dropped first: they explain less. */
static gs_code drop_groups(struct search *search, gs_error *error) {
    gs_code code = GS_OK;
    bool kept;
    for (size_t size = search->script->events.count / 2; size > 0 && code == GS_OK; size /= 2)
        for (size_t end = search->script->events.count; end > 0 && code == GS_OK && !is_spent(search);) {
            size_t first = end > size ? end - size : 0;
            code = try_step(search, copy_without(search->script, first, end, error), &kept, error);
            end = gs_min_u64(first, search->script->events.count);
        }
    return code;
}

/* The run without one launch, whose blocks are added to the launch before or after it. */
static gs_run *merged_launches(const gs_run *script, size_t goes, size_t stays, gs_error *error) {
    size_t event = script->launches.data[goes].event;
    gs_run *copy = copy_without(script, event, event + 1, error);
    if (copy)
        copy->launches.data[stays < goes ? stays : stays - 1].blocks += script->launches.data[goes].blocks;
    return copy;
}

static gs_code merge_neighbors(struct search *search, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 1; i < search->script->launches.count && code == GS_OK && !is_spent(search);) {
        bool kept;
        code = try_step(search, merged_launches(search->script, i - 1, i, error), &kept, error);
        if (code == GS_OK && !kept)
            code = try_step(search, merged_launches(search->script, i, i - 1, error), &kept, error);
        i += !kept;
    }
    return code;
}

/* ---- smaller numbers ---- */

/* Local memory and registers are limited to values for which the probe has a kernel; -1 past the last. */
static int64_t local_bytes_choice(size_t number) {
    return number ? gs_generated_local_bytes(number - 1) : 0;
}

static int64_t registers_choice(size_t number) {
    int32_t registers = gs_generated_registers(number);
    return registers ? registers : -1;
}

typedef enum number_type { INT32, INT64, NAME } number_type; /* a name counts as 1, no name as 0 */

struct number {
    size_t offset; /* in gs_launch */
    number_type type;
    int64_t least;                     /* the least value; 0 or GS_NO_CARVEOUT often means: the key is absent */
    int64_t unit;                      /* its multiples are round */
    int64_t (*choice)(size_t ordinal); /* the possible values, ascending; the number is then an ordinal */
};

/* Numbers whose least value removes a whole feature from the run come first. */
static const struct number numbers[] = {
    {offsetof(gs_launch, stream), NAME, 0, 1, NULL},
    {offsetof(gs_launch, priority), INT32, 0, 1, NULL},
    {offsetof(gs_launch, cluster), INT32, 1, 1, NULL},
    {offsetof(gs_launch, shape.carveout_percent), INT32, GS_NO_CARVEOUT, 10, NULL},
    {offsetof(gs_launch, duration_ns), INT64, 0, 10000, NULL},
    {offsetof(gs_launch, shape.local_bytes), INT64, 0, 1, local_bytes_choice},
    {offsetof(gs_launch, shape.shared_bytes), INT64, 0, 1024, NULL},
    {offsetof(gs_launch, blocks), INT64, 1, 1, NULL},
    {offsetof(gs_launch, shape.registers), INT32, 0, 1, registers_choice},
    {offsetof(gs_launch, shape.threads), INT32, 1, 32, NULL},
};

static int64_t read_number(const struct number *number, const gs_launch *launch) {
    const void *at = (const char *)launch + number->offset;
    int64_t value = number->type == INT32   ? *(const int32_t *)at
                    : number->type == INT64 ? *(const int64_t *)at
                                            : *(char *const *)at != NULL;
    if (!number->choice)
        return value;
    size_t ordinal = 0;
    while (number->choice(ordinal) >= 0 && number->choice(ordinal) < value)
        ordinal++;
    return (int64_t)ordinal;
}

static void write_number(const struct number *number, gs_launch *launch, int64_t value) {
    void *at = (char *)launch + number->offset;
    if (number->choice)
        value = number->choice((size_t)value);
    if (number->type == INT32)
        *(int32_t *)at = (int32_t)value;
    else if (number->type == INT64)
        *(int64_t *)at = value;
    else
        *(char **)at = NULL; /* the string belongs to the run */
}

static bool is_round(const struct number *number, int64_t value) {
    return value == number->least || value % number->unit == 0;
}

static bool is_simpler(const struct number *number, int64_t value, int64_t than) {
    if (is_round(number, value) != is_round(number, than))
        return is_round(number, value);
    return llabs(value - number->least) < llabs(than - number->least);
}

/* The ways to make a number simpler, in the order in which they are tried. Each is tried with strides that are halved:
   down to the least value, half of the way, a quarter, ... the next value below. */
enum { ROUND_DOWN, ROUND_UP, AS_IT_IS, WAYS };
enum { STRIDES = 63, TURNS = WAYS * STRIDES };

static bool candidate_value(const struct number *number, int64_t value, int turn, int64_t *chosen) {
    int64_t unit = number->unit, stride = llabs(value - number->least) >> turn % STRIDES;
    int64_t below = value > number->least ? value - stride : value + stride;
    switch (turn / STRIDES) {
    case ROUND_DOWN:
        *chosen = turn ? below / unit * unit : number->least;
        break;
    case ROUND_UP:
        *chosen = (value / unit + 1) * unit;
        break;
    default:
        *chosen = below;
    }
    if (value > number->least && *chosen < number->least)
        *chosen = number->least;
    return is_simpler(number, *chosen, value);
}

static gs_run *with_number(const gs_run *script, size_t launch, const struct number *number, int64_t value,
                           gs_error *error) {
    gs_run *copy = gs_run_copy(script, error);
    if (copy)
        write_number(number, &copy->launches.data[launch], value);
    return copy;
}

static gs_code reduce_number(struct search *search, size_t launch, const struct number *number, gs_error *error) {
    gs_code code = GS_OK;
    int64_t tried = INT64_MIN; /* several short strides can give the same round number */
    for (int turn = 0; turn < TURNS && code == GS_OK && !is_spent(search);) {
        int64_t value = read_number(number, &search->script->launches.data[launch]), chosen;
        bool kept = false;
        if (candidate_value(number, value, turn, &chosen) && chosen != tried) {
            code = try_step(search, with_number(search->script, launch, number, chosen, error), &kept, error);
            tried = chosen;
        }
        turn += !kept;
    }
    return code;
}

static gs_code reduce_numbers(struct search *search, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < GS_COUNT(numbers); i++)
        for (size_t launch = search->script->launches.count; launch-- > 0 && code == GS_OK;)
            code = reduce_number(search, launch, &numbers[i], error);
    return code;
}

/* ---- describing the difference ---- */

static void put_bytes(gs_text *text, int64_t bytes) {
    if (bytes % 1024)
        gs_text_add(text, "%lld bytes", (long long)bytes);
    else
        gs_text_add(text, "%lld KB", (long long)(bytes / 1024));
}

static void put_partitions(gs_text *text, const char *what, const int32_t *values, int32_t partitions, int32_t unit) {
    gs_text_add(text, "%s", what);
    for (int32_t p = 0; p < partitions; p++)
        gs_text_add(text, "%s%d", p ? ", " : "", values[p] * unit);
}

static void put_shared(gs_text *text, const gs_state *state, const gs_sm *sm) {
    const gs_gpu *gpu = state->gpu;
    const gs_group *group = &state->groups[sm->group];
    const char *owner = gpu->mechanisms.shared_scope == GS_SCOPE_TPC ? "TPC" : "SM";
    gs_text_add(text, "    shared memory: ");
    if (!group->residents) {
        gs_text_add(text, "the %s is idle and takes any configuration\n", owner);
        return;
    }
    put_bytes(text, (int64_t)sm->shared_free * gpu->limits.shared_granularity_bytes);
    gs_text_add(text,
                gpu->mechanisms.shared_allocation == GS_SPACE_CONTIGUOUS ? " free in one piece, the %s is set to "
                                                                         : " free, the %s is set to ",
                owner);
    put_bytes(text, group->config_bytes);
    gs_text_add(text, "\n");
}

static void put_sm(gs_text *text, const gs_state *state, int32_t number) {
    const gs_limits *limits = &state->gpu->limits;
    if (number >= state->gpu->sms) {
        gs_text_add(text, "    the model has no such SM\n");
        return;
    }
    const gs_sm *sm = &state->sms[number];
    gs_text_add(text, "    %d of %d block slots free, the next warp goes to partition %d\n", sm->block_slots,
                limits->blocks_per_sm, sm->pointer);
    put_partitions(text, "    free in each partition: warp slots ", sm->warp_slots, limits->partitions_per_sm, 1);
    put_partitions(text, "; registers ", sm->registers, limits->partitions_per_sm, limits->register_granularity);
    gs_text_add(text, "\n");
    put_shared(text, state, sm);
}

static const char *plural_ending(int64_t count) {
    return count == 1 ? "" : "s";
}

static void put_sms(gs_text *text, const gs_state *state, const struct both *both, const char *kernel) {
    int32_t different = 0;
    for (size_t at = 1; at < both_end(both); at++) {
        if (!both_differ(both, at) || ++different > MOST_SMS_IN_WORDS)
            continue;
        int64_t seen = count_at(&both->seen, at), predicted = count_at(&both->predicted, at);
        gs_text_add(text, "SM %zu: the device has %lld block%s of %s, the model %lld. Just before, in the model:\n",
                    at - 1, (long long)seen, plural_ending(seen), kernel, (long long)predicted);
        put_sm(text, state, (int32_t)at - 1);
    }
    if (different > MOST_SMS_IN_WORDS)
        gs_text_add(text, "and %d more SM%s\n", different - MOST_SMS_IN_WORDS,
                    plural_ending(different - MOST_SMS_IN_WORDS));
}

static void put_launch(gs_text *text, const gs_state *state, const struct both *both, const gs_launch *launch) {
    gs_text_add(text, "%s is the first kernel that differs.", launch->kernel);
    if (both_differ(both, 0))
        gs_text_add(text, " %lld of its %lld blocks wait on the device, and %lld in the model.",
                    (long long)count_at(&both->seen, 0), (long long)launch->blocks,
                    (long long)count_at(&both->predicted, 0));
    if (launch->shape.local_bytes)
        gs_text_add(text, " It needs %lld bytes of local memory a thread, and the model is set up for %lld.",
                    (long long)launch->shape.local_bytes, (long long)state->local_bytes);
    gs_text_add(text, "\n");
}

static gs_code play_up_to(gs_engine *engine, const gs_run *run, size_t end, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < end && code == GS_OK; i++) {
        const gs_event *event = &run->events.data[i];
        if (event->op == GS_LAUNCH)
            code = gs_engine_launch(engine, event->launch, error);
        else if (event->op == GS_EXIT)
            code = gs_engine_exit(engine, event->launch, error);
    }
    return code;
}

/* Plays the launch itself, to find why it waits in the model. */
static gs_code put_why(gs_text *text, gs_engine *engine, const gs_run *run, size_t launch, gs_error *error) {
    size_t other;
    gs_code code = gs_engine_launch(engine, launch, error);
    if (code != GS_OK || gs_engine_hold(engine, launch, &other) == GS_HOLD_NONE)
        return code;
    gs_text_add(text, "In the model ");
    gs_why(engine, run, launch, text);
    gs_text_add(text, "\n");
    return GS_OK;
}

static gs_code describe_shrunk(const gs_gpu *model, gs_shrunk *shrunk, gs_error *error) {
    const gs_run *run = shrunk->predicted;
    gs_engine_hooks hooks = {0};
    struct both both;
    gs_code code = both_of(shrunk, shrunk->launch, &both, error);
    if (code != GS_OK)
        return code;
    const gs_launch *launch = &run->launches.data[shrunk->launch];
    gs_engine *engine = gs_engine_new(model, run, &hooks, error);
    code = engine ? play_up_to(engine, run, launch->event, error) : GS_E_MEMORY;
    if (code == GS_OK) {
        const gs_state *state = gs_dispatcher_state(gs_engine_dispatcher(engine));
        put_launch(&shrunk->state, state, &both, launch);
        if (gs_run_is_timed(run))
            gs_text_add(&shrunk->state, "The following is the state at its launch, not when later blocks start.\n");
        put_sms(&shrunk->state, state, &both, launch->kernel);
        code = put_why(&shrunk->state, engine, run, shrunk->launch, error);
    }
    gs_engine_free(engine);
    both_free(&both);
    return code == GS_OK && shrunk->state.failed ? gs_fail_memory(error) : code;
}

/* ---- shrinking ---- */

/* Plays the run unchanged. */
static gs_code begin_search(struct search *search, const gs_run *run, gs_error *error) {
    gs_error problem = {.code = GS_OK};
    struct answers answers = {0};
    if (is_spent(search))
        return gs_fail(error, GS_E_USAGE, "shrinking needs at least %d plays", PLAYS_OF_A_STEP);
    search->script = copy_without(run, 0, 0, error);
    if (!search->script)
        return GS_E_MEMORY;
    gs_code code = play_both(search, search->script, &answers, &problem);
    search->shrunk->predicted = answers.predicted;
    search->shrunk->seen = answers.seen;
    if (code == GS_OK && !answers.differ)
        return gs_fail(error, GS_E_USAGE, "device and model agree on this run");
    if (code != GS_OK && error)
        *error = problem;
    return code;
}

gs_code gs_shrink(gs_device *device, const gs_gpu *model, const gs_run *run, int64_t most_plays, gs_shrunk *shrunk,
                  gs_error *error) {
    static gs_code (*const passes[])(struct search *, gs_error *) = {drop_rest, drop_groups, merge_neighbors,
                                                                     reduce_numbers};
    *shrunk = (gs_shrunk){0};
    struct search search = {.device = device, .model = model, .most_plays = most_plays, .shrunk = shrunk};
    gs_code code = begin_search(&search, run, error);
    for (int64_t kept = -1; code == GS_OK && kept < shrunk->kept;) {
        kept = shrunk->kept;
        for (size_t i = 0; i < GS_COUNT(passes) && code == GS_OK; i++)
            code = passes[i](&search, error);
    }
    gs_run_free(search.script);
    if (code == GS_OK)
        code = find_launch(shrunk, error);
    return code == GS_OK ? describe_shrunk(model, shrunk, error) : code;
}

void gs_shrunk_clear(gs_shrunk *shrunk) {
    gs_run_free(shrunk->seen);
    gs_run_free(shrunk->predicted);
    gs_text_free(&shrunk->state);
    *shrunk = (gs_shrunk){0};
}
