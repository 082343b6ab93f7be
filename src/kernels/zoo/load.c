/*
 * load.c: a task as an application: memory is allocated and filled once, then the launches run again and again,
 * without a wait for each of them.
 *
 * Steps of one kernel and size on one track use one instance. All tracks of a repetition begin when the one before has
 * ended. A round is a number of repetitions of the task. In the last one, the buffers that an instance changes are
 * restored before its last step, so that its results can be compared. If launches change their own inputs, the inputs
 * are restored before each step.
 *
 * The host runs ahead of the GPU by about 50 ms, then waits. The number of launches that take this long is computed
 * from the last round that was longer; before that it is 1,024.
 */
#include "resident.h"

#include <stdlib.h>
#include <string.h>

enum { FEW_AHEAD = 8, MOST_AHEAD = 1024, AHEAD_NS = 50000000 };

/* ---- rounds ---- */

static gs_code order_tracks(gs_zoo_load *load, uint32_t before, uint32_t after, gs_error *error) {
    return load->pace.stream->ops->order(load->pace.stream, before, after, error);
}

static gs_code run_step(gs_zoo_load *load, size_t number, bool is_last, gs_error *error) {
    const gs_zoo_place *place = &load->places[number];
    gs_zoo_resident *resident = &load->residents.data[place->resident];
    bool restores = resident->instance.kernel->changes_inputs || (is_last && place->is_last);
    gs_code code = GS_OK;
    load->pace.track = place->track;
    for (uint32_t i = 0; i < load->tracks && code == GS_OK; i++)
        if (place->waits >> i & 1)
            code = order_tracks(load, i, place->track, error);
    if (code == GS_OK && restores)
        code = gs_zoo_resident_restore(resident, &load->pace, error);
    return code == GS_OK ? gs_zoo_resident_run(resident, &load->pace, error) : code;
}

/* Runs all steps of the task once. */
static gs_code run_task(gs_zoo_load *load, bool is_last, gs_error *error) {
    gs_code code = GS_OK;
    for (uint32_t i = 1; i < load->tracks && code == GS_OK; i++)
        code = order_tracks(load, 0, i, error);
    for (size_t i = 0; i < load->task->steps.count && code == GS_OK; i++)
        code = run_step(load, i, is_last, error);
    for (uint32_t i = 1; i < load->tracks && code == GS_OK; i++)
        code = order_tracks(load, i, 0, error);
    return code;
}

static void set_ahead(gs_zoo_load *load, const gs_zoo_round *round) {
    int64_t ahead = AHEAD_NS / ((round->ended_ns - round->began_ns) / round->launches + 1);
    load->pace.ahead = (uint32_t)gs_max(FEW_AHEAD, gs_min(ahead, MOST_AHEAD));
}

gs_code gs_zoo_load_round(gs_zoo_load *load, uint32_t repeat, gs_zoo_round *round, gs_error *error) {
    gs_code code = GS_OK;
    load->pace.launches = 0;
    *round = (gs_zoo_round){.began_ns = gs_now_ns()};
    for (uint32_t i = 0; i < repeat && code == GS_OK; i++)
        code = run_task(load, i + 1 == repeat, error);
    if (code == GS_OK)
        code = gs_zoo_pace_wait(&load->pace, error);
    round->ended_ns = gs_now_ns();
    round->launches = load->pace.launches;
    if (code == GS_OK && round->launches && round->ended_ns - round->began_ns > AHEAD_NS)
        set_ahead(load, round);
    return code;
}

gs_code gs_zoo_load_repeat(gs_zoo_load *load, int64_t wanted_ns, uint32_t *repeat, gs_error *error) {
    enum { MOST = 1 << 24 };
    int64_t elapsed_ns = 1;
    gs_zoo_round round;
    gs_code code = GS_OK;
    for (*repeat = 1; code == GS_OK; *repeat = (uint32_t)gs_min(*repeat * (wanted_ns / elapsed_ns + 1), MOST)) {
        code = gs_zoo_load_round(load, *repeat, &round, error);
        elapsed_ns = round.ended_ns - round.began_ns + 1;
        if (elapsed_ns > wanted_ns / 2 || *repeat == MOST)
            break;
    }
    *repeat = (uint32_t)((double)wanted_ns * *repeat / (double)elapsed_ns + 0.5);
    *repeat = *repeat ? *repeat : 1;
    return code;
}

gs_code gs_zoo_load_check(gs_zoo_load *load, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < load->residents.count && code == GS_OK; i++)
        code = gs_zoo_resident_check(&load->residents.data[i], load->pace.stream, error);
    return code;
}

/* ---- setting up ---- */

/* The resident of this kernel and, if `n` is not NULL, of this size and track; or the number of residents. */
static size_t find_resident(const gs_zoo_load *load, const gs_zoo_kernel *kernel, const int32_t *n, uint32_t track) {
    size_t at = 0;
    for (; at < load->residents.count; at++) {
        const gs_zoo_resident *resident = &load->residents.data[at];
        const gs_zoo_instance *instance = &resident->instance;
        bool is_same = !n || (resident->track == track && memcmp(instance->size->n, n, sizeof instance->size->n) == 0);
        if (instance->kernel == kernel && is_same)
            break;
    }
    return at;
}

static gs_code add_resident(gs_zoo_load *load, const gs_zoo_step *step, uint32_t track, gs_error *error) {
    size_t same = find_resident(load, step->kernel, NULL, 0);
    if (!GS_RESERVE(&load->residents, 1))
        return gs_fail_memory(error);
    gs_zoo_resident *added = &load->residents.data[load->residents.count];
    gs_code code = same < load->residents.count
                       ? gs_zoo_resident_make_again(added, &load->residents.data[same], &step->size, &load->pace, error)
                       : gs_zoo_resident_make(added, step->kernel, &step->size, &load->pace, error);
    added->track = track;
    load->residents.count++;
    load->compile_ns += added->compile_ns;
    return code;
}

static void count_launches(gs_zoo_load *load, const gs_zoo_instance *instance) {
    load->launches += instance->launches.count;
    for (size_t i = 0; i < instance->launches.count; i++) {
        const uint32_t *grid = instance->launches.data[i].grid;
        load->blocks += (uint64_t)grid[0] * grid[1] * grid[2];
    }
}

/* A resident for each kernel and size on each track. */
static gs_code place_steps(gs_zoo_load *load, gs_error *error) {
    const gs_zoo_task *task = load->task;
    load->places = calloc(task->steps.count, sizeof *load->places);
    gs_code code = load->places ? GS_OK : gs_fail_memory(error);
    load->tracks = code == GS_OK ? gs_zoo_task_place(task, load->places) : 0;
    for (size_t i = 0; i < task->steps.count && code == GS_OK; i++) {
        const gs_zoo_step *step = &task->steps.data[i];
        size_t resident = find_resident(load, step->kernel, step->size.n, load->places[i].track);
        if (resident == load->residents.count)
            code = add_resident(load, step, load->places[i].track, error);
        load->places[i].resident = resident;
        if (code == GS_OK)
            count_launches(load, &load->residents.data[resident].instance);
    }
    for (size_t i = 0; i < task->steps.count && code == GS_OK; i++)
        load->residents.data[load->places[i].resident].last_step = i;
    for (size_t i = 0; i < task->steps.count && code == GS_OK; i++)
        load->places[i].is_last = load->residents.data[load->places[i].resident].last_step == i;
    return code;
}

/* Runs the first pass, and one more to measure it. */
static gs_code warm_up(gs_zoo_load *load, gs_error *error) {
    gs_zoo_round round = {.began_ns = 0};
    gs_code code = gs_zoo_load_round(load, 1, &round, error);
    for (size_t i = 0; i < load->residents.count && code == GS_OK; i++)
        if (gs_zoo_size_is_large(load->residents.data[i].instance.size))
            code = gs_zoo_resident_keep(&load->residents.data[i], load->pace.stream, error);
    if (code == GS_OK)
        code = gs_zoo_load_round(load, 1, &round, error);
    load->pass_ns = round.ended_ns - round.began_ns;
    return code;
}

gs_code gs_zoo_load_open(gs_zoo_load *load, const gs_zoo_task *task, gs_app_stream *stream, gs_error *error) {
    int64_t began_ns = gs_now_ns();
    *load = (gs_zoo_load){.task = task, .pace = {.stream = stream, .ahead = MOST_AHEAD}};
    gs_code code = place_steps(load, error);
    if (code == GS_OK)
        code = warm_up(load, error);
    load->setup_ns = gs_now_ns() - began_ns;
    return code;
}

void gs_zoo_load_close(gs_zoo_load *load) {
    for (size_t i = 0; i < load->residents.count; i++)
        gs_zoo_instance_free(&load->residents.data[i].instance);
    free(load->residents.data);
    free(load->places);
    *load = (gs_zoo_load){.task = NULL};
}

/* ---- the cost of a launch ---- */

static gs_code launch_and_wait(gs_app_stream *stream, const gs_app_launch *call, uint32_t count, int64_t *times_ns,
                               gs_error *error) {
    gs_code code = GS_OK;
    for (uint32_t i = 0; i < count && code == GS_OK; i++) {
        int64_t began_ns = gs_now_ns();
        code = stream->ops->launch(stream, call, error);
        if (code == GS_OK)
            code = stream->ops->wait(stream, error);
        times_ns[i] = gs_now_ns() - began_ns;
    }
    qsort(times_ns, count, sizeof *times_ns, gs_compare_int64);
    return code;
}

static gs_code launch_many(gs_app_stream *stream, const gs_app_launch *call, uint32_t count, int64_t *elapsed_ns,
                           gs_error *error) {
    int64_t began_ns = gs_now_ns();
    gs_code code = GS_OK;
    for (uint32_t i = 0; i < count && code == GS_OK; i++)
        code = stream->ops->launch(stream, call, error);
    if (code == GS_OK)
        code = stream->ops->wait(stream, error);
    *elapsed_ns = gs_now_ns() - began_ns;
    return code;
}

gs_code gs_zoo_launch_cost(gs_app_stream *stream, uint32_t count, gs_zoo_launch_times *times, gs_error *error) {
    static const char text[] =
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() {\n\tret;\n}\n";
    const char *kernels[] = {"nothing"};
    gs_build build = {
        .name = "nothing.ptx", .text = text, .size = sizeof text - 1, .kernels = kernels, .kernel_count = 1};
    gs_app_launch call = {.grid = {1, 1, 1}, .block = {32, 1, 1}};
    int64_t *waited_ns = calloc(count, sizeof *waited_ns), elapsed_ns = 0;
    gs_code code = waited_ns ? stream->ops->load(stream, &build, &call.module, error) : gs_fail_memory(error);
    if (code == GS_OK)
        code = launch_many(stream, &call, count, &elapsed_ns, error); /* to warm up */
    if (code == GS_OK)
        code = launch_and_wait(stream, &call, count, waited_ns, error);
    if (code == GS_OK)
        code = launch_many(stream, &call, count, &elapsed_ns, error);
    if (code == GS_OK)
        *times = (gs_zoo_launch_times){.waited_ns = waited_ns[count / 2],
                                       .waited_most_ns = waited_ns[count - 1 - count / 100],
                                       .pipelined_ns = (double)elapsed_ns / count};
    free(waited_ns);
    return code;
}
