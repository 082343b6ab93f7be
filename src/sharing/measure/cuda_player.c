/*
 * cuda_player.c: kernels alone and together on a GPU, measured.
 *
 * A reshaped kernel is launched in its confined form, with a number of workers per SM, and a mask of SMs where they are
 * split. Each launch has a counter of its own, which is set before the measurement, so that launches need no copies in
 * between. If only a part of the blocks is to run, the counter begins behind the others.
 *
 * Two kernels are launched alternately on two streams; the leader is first, because it sets the shared-memory
 * configuration. Times are those of the host, from the first launch until a stream has
 * nothing left to do. So that the launches themselves do not matter, all of it is repeated until it takes LONG_US at
 * least, and of SAMPLES such measurements the median counts. Before it is measured, a form is compared with the kernel
 * as written, and two kernels are run together once for their results.
 */
#include "cuda_player.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 3 };
static const double LONG_US = 4000;

struct played {
    gs_subject *subject;
    const gs_subject_program *program;
    const gs_measure_side *side;
    gs_app_stream *stream;
    gs_control control;    /* for all launches, each of which has a counter of its own behind it */
    uint32_t passes, next; /* passes: repetitions of all launches; the next launch */
};

/* ---- launching ---- */

static uint64_t blocks_of(const gs_zoo_launch *launch, const gs_zoo_part *part) {
    uint64_t blocks = 1;
    for (int i = 0; i < 3; i++)
        blocks *= (uint64_t)launch->grid[i] * part->multiply_grid[i];
    return blocks;
}

static size_t launches_of(const struct played *played) {
    return played->subject->instance.launches.count * played->passes;
}

/* The words of the control, with the mask; then a counter for each launch. */
static gs_code send_control(gs_bench *bench, struct played *played, int stream, gs_error *error) {
    size_t count = launches_of(played), bytes = sizeof(gs_control_words) + count * GS_CONTROL_LINE;
    gs_app_stream *to = played->stream;
    gs_control_words *words = calloc(1, bytes);
    gs_code code = words ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK && bench->control_bytes[stream] < bytes) {
        code = to->ops->allocate(to, bytes, &bench->control[stream], error);
        bench->control_bytes[stream] = code == GS_OK ? bytes : 0;
    }
    played->control = gs_control_at(bench->control[stream], NULL, false);
    for (int32_t i = 0; i < played->side->sms && code == GS_OK; i++) {
        int32_t sm = stream ? bench->gpu.sms - 1 - i : i;
        words->mask[sm / 32] |= 1u << sm % 32;
    }
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        const gs_zoo_launch *launch =
            &played->subject->instance.launches.data[i % played->subject->instance.launches.count];
        uint64_t blocks = blocks_of(launch, &played->program->parts[launch->kind]);
        uint64_t skipped = blocks * (uint64_t)(100 - played->side->percent) / 100;
        memcpy((unsigned char *)(words + 1) + i * GS_CONTROL_LINE, &skipped, sizeof skipped);
    }
    if (code == GS_OK)
        code = to->ops->copy_in(to, bench->control[stream], words, bytes, error);
    free(words);
    return code;
}

static void add_control(gs_bench *bench, const struct played *played, const gs_zoo_launch *launch,
                        const gs_zoo_part *part, gs_app_launch *call, gs_job_argument *last) {
    gs_control control = played->control;
    control.next += sizeof(gs_control_words) + (uint64_t)played->next * GS_CONTROL_LINE;
    control.mask = played->side->sms ? control.mask : 0;
    gs_confined_parameter grid = gs_control_grid(&control, call->grid, call->shared_bytes, 0, 0);
    int32_t per_sm = gs_subject_workers(played->subject, played->program, launch->kind, played->side->workers);
    uint64_t workers = (uint64_t)per_sm * (uint64_t)bench->gpu.sms;
    *last = (gs_job_argument){.buffer = -1, .bytes = sizeof grid};
    memcpy(last->value, &grid, sizeof grid);
    call->argument_count++;
    if (!played->side->sms)
        workers = gs_min_u64(workers, blocks_of(launch, part));
    call->grid[0] = (uint32_t)workers;
    call->grid[1] = call->grid[2] = 1;
}

static gs_code launch_next(gs_bench *bench, struct played *played, gs_error *error) {
    const gs_zoo_instance *instance = &played->subject->instance;
    const gs_zoo_launch *launch = &instance->launches.data[played->next % instance->launches.count];
    const gs_zoo_part *part = &played->program->parts[launch->kind];
    gs_job_argument arguments[GS_COUNT(launch->list) + 1];
    memcpy(arguments, launch->list, launch->arguments * sizeof *arguments);
    gs_app_launch call = {.module = (uintptr_t)part->program,
                          .shared_bytes = launch->shared_bytes / part->divide_shared,
                          .arguments = arguments,
                          .argument_count = launch->arguments,
                          .buffers = played->subject->memory};
    for (int i = 0; i < 3; i++) {
        call.grid[i] = launch->grid[i] * part->multiply_grid[i];
        call.block[i] = launch->block[i] / part->divide_block[i];
    }
    if (played->program->form >= 0)
        add_control(bench, played, launch, part, &call, &arguments[launch->arguments]);
    bool is_first = played->next++ % instance->launches.count == 0;
    if (is_first && instance->kernel && instance->kernel->changes_inputs) { /* it would have less to do */
        gs_code code = gs_subject_restore(played->subject, &bench->gpu, played->stream, error);
        if (code != GS_OK)
            return code;
    }
    return call.grid[0] && call.grid[1] && call.grid[2] ? played->stream->ops->launch(played->stream, &call, error)
                                                        : GS_OK;
}

/* Launches in turn, so that neither stream runs out of work. */
static gs_code launch_all(gs_bench *bench, struct played *played, int count, gs_error *error) {
    gs_code code = GS_OK;
    while (code == GS_OK) {
        struct played *least = NULL;
        double done = 1;
        for (int i = 0; i < count; i++) {
            double part = (double)played[i].next / (double)launches_of(&played[i]);
            if (part < done) {
                done = part;
                least = &played[i];
            }
        }
        if (!least)
            break;
        code = launch_next(bench, least, error);
    }
    return code;
}

static gs_code wait_for_all(struct played *played, int count, int64_t began_ns, double *side_us, gs_error *error) {
    bool is_done[2] = {false, count < 2};
    gs_code code = GS_OK;
    while (code == GS_OK && !(is_done[0] && is_done[1]))
        for (int i = 0; i < count && code == GS_OK; i++) {
            if (is_done[i])
                continue;
            code = played[i].stream->ops->poll(played[i].stream, &is_done[i], error);
            side_us[i] = (double)(gs_now_ns() - began_ns) / 1e3;
        }
    return code;
}

/* Plays one or two kernels, each `side->repeats` times `times` times. */
static gs_code play(gs_bench *bench, struct played *played, int count, uint32_t times, double *side_us,
                    gs_error *error) {
    gs_code code = GS_OK;
    for (int i = 0; i < count && code == GS_OK; i++) {
        int stream = played[i].stream == bench->gpu.streams[1];
        played[i].passes = (uint32_t)played[i].side->repeats * times;
        played[i].next = 0;
        if (played[i].program->form >= 0)
            code = send_control(bench, &played[i], stream, error);
    }
    int64_t began_ns = gs_now_ns();
    if (code == GS_OK)
        code = launch_all(bench, played, count, error);
    return code == GS_OK ? wait_for_all(played, count, began_ns, side_us, error) : code;
}

/* ---- results ---- */

static gs_code play_written(void *inside, gs_subject *subject, gs_error *error) {
    gs_bench *bench = inside;
    const gs_measure_side once = {.repeats = 1, .percent = 100};
    struct played played = {.subject = subject,
                            .program = gs_subject_program_of(subject, &bench->gpu, -1, 0, error),
                            .side = &once,
                            .stream = bench->gpu.streams[0]};
    double side_us[2];
    return played.program ? play(bench, &played, 1, 1, side_us, error) : error->code;
}

/* Runs them once on their inputs, and compares the results. */
static gs_code check_results(gs_bench *bench, struct played *played, int count, gs_error *error) {
    gs_measure_side once[2];
    struct played copies[2];
    double side_us[2];
    gs_code code = GS_OK;
    for (int i = 0; i < count && code == GS_OK; i++) {
        once[i] = *played[i].side;
        once[i].repeats = 1;
        once[i].percent = 100;
        copies[i] = played[i];
        copies[i].side = &once[i];
        code = gs_subject_restore(played[i].subject, &bench->gpu, NULL, error);
    }
    if (code == GS_OK)
        code = play(bench, copies, count, 1, side_us, error);
    for (int i = 0; i < count && code == GS_OK; i++)
        code = gs_subject_check(played[i].subject, &bench->gpu, error);
    return code;
}

/* ---- measuring ---- */

static int by_size(const void *a, const void *b) {
    const double first = *(const double *)a, second = *(const double *)b;
    return first < second ? -1 : first > second;
}

static double median(const double *values) {
    double sorted[SAMPLES];
    memcpy(sorted, values, sizeof sorted);
    qsort(sorted, SAMPLES, sizeof *sorted, by_size);
    return sorted[SAMPLES / 2];
}

static gs_code take_samples(gs_bench *bench, struct played *played, int count, gs_measure_result *measured,
                            gs_error *error) {
    double all[SAMPLES], sides[2][SAMPLES], side_us[2] = {0, 0};
    gs_code code = play(bench, played, count, 1, side_us, error); /* also warms up */
    uint32_t times = (uint32_t)fmax(1, ceil(LONG_US / fmax(side_us[0], side_us[1])));
    for (int i = 0; i < SAMPLES && code == GS_OK; i++) {
        code = play(bench, played, count, times, side_us, error);
        for (int k = 0; k < 2; k++)
            sides[k][i] = side_us[k] / times;
        all[i] = fmax(sides[0][i], count > 1 ? sides[1][i] : 0);
    }
    if (code != GS_OK)
        return code;
    measured->us = median(all);
    for (int k = 0; k < count; k++)
        measured->side_us[k] = median(sides[k]);
    return GS_OK;
}

static gs_code prepare(gs_bench *bench, const gs_measure_side *side, int stream, struct played *played,
                       gs_error *error) {
    if (side->kernel < 0 || (size_t)side->kernel >= bench->count || side->percent < 1 || side->percent > 100 ||
        side->repeats < 1)
        return gs_fail(error, GS_E_USAGE, "this cannot be measured");
    *played =
        (struct played){.subject = &bench->subjects[side->kernel], .side = side, .stream = bench->gpu.streams[stream]};
    gs_code code = gs_subject_send(played->subject, &bench->gpu, play_written, bench, error);
    if (code != GS_OK)
        return code;
    gs_subject_program *program =
        gs_subject_program_of(played->subject, &bench->gpu, side->workers ? side->form : -1, side->registers, error);
    played->program = program;
    if (!program)
        return error->code;
    if (program->problem[0])
        return gs_fail(error, GS_E_KERNEL, "%s", program->problem);
    if (program->is_checked || program->form < 0)
        return GS_OK;
    code = check_results(bench, played, 1, error);
    program->is_checked = code == GS_OK;
    return code;
}

gs_code gs_bench_measure(gs_bench *bench, const gs_measurement *measurement, gs_measure_result *measured,
                         gs_error *error) {
    int count = measurement->measure >= GS_MEASURE_SERIAL ? 2 : 1;
    struct played played[2];
    gs_code code = GS_OK;
    *measured = (gs_measure_result){.us = 0};
    for (int i = 0; i < count && code == GS_OK; i++)
        code = prepare(bench, &measurement->sides[i], i, &played[i], error);
    if (code != GS_OK)
        return code;
    bool is_turned = measurement->measure == GS_MEASURE_INTRA_SM && measurement->leader == 1;
    if (is_turned) {
        struct played other = played[0];
        played[0] = played[1];
        played[1] = other;
    }
    if (count > 1 && measurement->measure != GS_MEASURE_SERIAL)
        code = check_results(bench, played, count, error);
    if (code == GS_OK)
        code = take_samples(bench, played, count, measured, error);
    if (is_turned) {
        double other = measured->side_us[0];
        measured->side_us[0] = measured->side_us[1];
        measured->side_us[1] = other;
    }
    return code;
}

/* ---- opening ---- */

gs_code gs_bench_open(gs_bench *bench, const char *rest, const gs_kernel_source *sources, size_t count,
                      gs_error *error) {
    *bench = (gs_bench){.subjects = calloc(count + 1, sizeof *bench->subjects), .count = count};
    gs_code code = bench->subjects ? gs_bench_gpu_open(&bench->gpu, rest, error) : gs_fail_memory(error);
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        gs_subject *subject = &bench->subjects[i];
        subject->source = sources[i];
        if (sources[i].kind == GS_SOURCE_BLACK_BOX || sources[i].kind == GS_SOURCE_MODEL) {
            subject->given = sources[i].given;
            continue;
        }
        gs_error problem = {.code = GS_OK};
        code = gs_subject_open(subject, &bench->gpu, &problem);
        if (code == GS_E_MEMORY || code == GS_E_NO_GPU || code == GS_E_IO)
            *error = problem;
        else if (code != GS_OK) {
            char words[1200];
            snprintf(subject->given.problem, sizeof subject->given.problem, "%.*s",
                     (int)sizeof subject->given.problem - 1, gs_error_text(&problem, words, sizeof words));
            code = GS_OK;
        }
    }
    return code;
}
