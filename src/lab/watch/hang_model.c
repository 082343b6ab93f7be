/*
 * hang_model.c: the kernels at the heads of streams on the model of the GPU: are all their blocks resident together,
 * and if not, what would help?
 *
 * If the first kernel that waits is in a green context, only those of that context are played, on as many SMs.
 */
#include "hang_rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KERNELS = 12, BUDGET = 20000 };

/* The local memory that a kernel still needs: what a launch before had stays set up. */
static int32_t local_bytes_of(const gs_hang *hang, const gs_watch_function *function) {
    for (size_t i = 0; function && i < GS_WATCH_FUNCTIONS; i++) {
        const gs_watch_function *other = &hang->page->functions[i];
        if (other->local_bytes >= function->local_bytes && atomic_load(&other->launches) > (other == function))
            return 0;
    }
    return function ? (int32_t)gs_max(0, function->local_bytes) : 0;
}

static gs_code add_launch(gs_run *run, const gs_hang *hang, const gs_hang_kernel *kernel, gs_error *error) {
    const gs_watch_function *function = kernel->function;
    char word[200];
    int64_t shared = kernel->operation->shared_bytes + (int64_t)(function ? function->static_shared_bytes : 0);
    snprintf(word, sizeof word, "kernel=%" PRId64 "x%" PRId64 ",r%d,s%" PRId64 ",l%d", kernel->blocks, kernel->threads,
             function ? (int)gs_max(1, function->registers) : 32, shared, local_bytes_of(hang, function));
    gs_launch launch;
    gs_code code = gs_launch_of_word(word, &launch, error);
    if (code != GS_OK)
        return code;
    int32_t compiled = function ? function->cluster : 1;
    launch.cluster = (int32_t)gs_max(1, gs_max(compiled, kernel->operation->cluster));
    launch.priority = hang->page->streams[kernel->stream].priority;
    if (function && function->carveout_percent >= 0 && function->carveout_percent <= 100)
        launch.shape.carveout_percent = function->carveout_percent;
    gs_launch_facts facts = gs_launch_facts_none();
    facts.is_cooperative = kernel->operation->is_cooperative ? 1 : facts.is_cooperative;
    launch.issue.facts = &facts;
    free(launch.kernel);
    launch.kernel = kernel->name; /* gs_run_copy_launch copies it */
    return gs_run_copy_launch(run, &launch, error);
}

/* The stream of the first kernel that waits, if it is in a green context; else NULL. */
static const gs_watch_stream *green_stream(gs_hang *hang) {
    const gs_hang_kernel *waiting = gs_hang_first_waiting(hang);
    const gs_watch_stream *stream = waiting ? &hang->page->streams[waiting->stream] : NULL;
    return stream && stream->green ? stream : NULL;
}

static void choose_gpu(gs_hang *hang, gs_hang_fit *fit) {
    const gs_watch_stream *green = green_stream(hang);
    gs_error none = {.code = GS_OK};
    if (green && hang->gpu)
        fit->part = gs_gpu_part(hang->gpu, green->sms, &none);
    fit->gpu = fit->part ? fit->part : hang->gpu;
}

static gs_code fill_run(gs_hang *hang, gs_hang_fit *fit, gs_error *error) {
    const gs_watch_stream *green = green_stream(hang);
    gs_code code = GS_OK;
    size_t count = 0;
    for (size_t i = 0; i < hang->kernels.count && code == GS_OK && count < MOST_KERNELS; i++) {
        const gs_hang_kernel *kernel = &hang->kernels.data[i];
        /* Without a dump, a programmatic launch behind the head may have started as well. */
        bool is_there = kernel->is_head || kernel->grid != GS_DUMP_NONE || kernel->operation->is_programmatic;
        if (green && hang->page->streams[kernel->stream].green != green->green)
            continue;
        if (!is_there || !kernel->function || !atomic_load(&kernel->function->is_known))
            continue;
        fit->kernels[count++] = i;
        code = add_launch(fit->run, hang, kernel, error);
    }
    return code;
}

static gs_code start_fit(gs_hang *hang, gs_hang_fit *fit, gs_error *error) {
    *fit = (gs_hang_fit){.kernels = calloc(MOST_KERNELS, sizeof *fit->kernels), .run = gs_run_new(error)};
    choose_gpu(hang, fit);
    return fit->kernels && fit->run ? GS_OK : gs_fail_memory(error);
}

/* Plays the run. */
static gs_code check_fit(gs_hang *hang, gs_hang_fit *fit, gs_error *error) {
    gs_error unknown = {.code = GS_OK};
    if (!fit->run->launches.count || gs_run_name_apart(fit->run, error) != GS_OK)
        return GS_OK;
    gs_fix_options options = {.kinds = (1u << GS_FIX_KINDS) - 1, .budget = BUDGET};
    /* What the model refuses leaves the answer open. */
    fit->is_known = gs_check_all(fit->gpu, fit->run, &options, &fit->answer, &unknown) == GS_OK;
    fit->fits = fit->is_known && fit->answer.check.in_this_order == GS_ANSWER_YES;
    if (fit->is_known && !fit->fits && fit->answer.check.here.order.count) {
        size_t last = fit->answer.check.here.order.data[fit->answer.check.here.order.count - 1];
        gs_hang_kernel *kernel = &hang->kernels.data[fit->kernels[last]];
        if (!hang->has_dump)
            kernel->never_started = fit->answer.check.here.waiting;
    }
    return GS_OK;
}

gs_code gs_hang_check(gs_hang *hang, gs_hang_fit *fit, gs_error *error) {
    gs_code code = start_fit(hang, fit, error);
    if (code == GS_OK && fit->gpu)
        code = fill_run(hang, fit, error);
    return code == GS_OK ? check_fit(hang, fit, error) : code;
}

gs_code gs_hang_check_pair(gs_hang *hang, gs_hang_fit *fit, size_t one, size_t other, gs_error *error) {
    const size_t both[] = {one, other};
    gs_code code = start_fit(hang, fit, error);
    for (size_t i = 0; i < GS_COUNT(both) && code == GS_OK && fit->gpu; i++) {
        fit->kernels[i] = both[i];
        code = add_launch(fit->run, hang, &hang->kernels.data[both[i]], error);
    }
    return code == GS_OK ? check_fit(hang, fit, error) : code;
}

void gs_hang_fit_free(gs_hang_fit *fit) {
    gs_check_answer_clear(&fit->answer);
    gs_run_free(fit->run);
    gs_gpu_free(fit->part);
    free(fit->kernels);
    *fit = (gs_hang_fit){0};
}
