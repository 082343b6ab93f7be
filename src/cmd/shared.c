/*
 * shared.c: helpers of several commands: errors on standard error, text on standard output, progress, CUDA sources, and
 * the choice of a GPU.
 */
#include "cmd.h"
#include "kernels/cpu/cpu.h"
#include "lab/device/device.h"
#include "model/timeline/timeline.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- errors and text ---- */

int gs_report(const gs_error *error) {
    char text[sizeof error->message + sizeof error->file + 64];
    fprintf(stderr, "%sgridsmith:%s %s\n", gs_style_code(stderr, GS_STYLE_BAD), gs_style_code(stderr, GS_STYLE_PLAIN),
            gs_error_text(error, text, sizeof text));
    if (error->excerpt[0] && isatty(STDERR_FILENO))
        fprintf(stderr, "  %s\n  %*s^\n", error->excerpt, error->caret, "");
    return gs_code_exit(error->code);
}

int gs_report_memory(void) {
    gs_error error;
    gs_fail_memory(&error);
    return gs_report(&error);
}

gs_code gs_fail_no_run(const char *path, size_t runs, int64_t wanted, gs_error *error) {
    if (!runs)
        return gs_fail(error, GS_E_USAGE, "%s has no run", gs_input_name(path));
    return gs_fail(error, GS_E_USAGE, "%s has %zu run%s: there is no run %lld", gs_input_name(path), runs,
                   runs == 1 ? "" : "s", (long long)wanted);
}

void gs_print_lines(const char *command, const gs_text *lines) {
    const char *line = lines->count ? lines->data : "";
    for (size_t length; (length = strcspn(line, "\n")); line += length + (line[length] == '\n'))
        fprintf(stderr, "gridsmith %s: %.*s\n", command, (int)length, line);
}

void gs_say_device(const char *command, const gs_run *run) {
    size_t left_out = run->waits_left_out;
    if (!run->is_of_several)
        return;
    fprintf(stderr, "gridsmith %s: the recording has several GPUs, each a run; this is GPU %lld", command,
            (long long)run->origin.device);
    if (left_out)
        fprintf(stderr, ", without %zu wait%s for work of others", left_out, left_out == 1 ? "" : "s");
    fprintf(stderr, "\n");
}

gs_code gs_print_text(gs_text *text, gs_code code, gs_error *error) {
    gs_text_flush(text);
    bool is_out_of_memory = text->failed && !ferror(text->sink);
    fflush(text->sink);
    gs_text_free(text);
    return code == GS_OK && is_out_of_memory ? gs_fail_memory(error) : code;
}

gs_code gs_write_campaign_page(const char *path, const gs_campaign_page *page, gs_text *report, gs_error *error) {
    gs_output output;
    gs_code code = gs_output_open(&output, path, error);
    if (code == GS_OK) {
        gs_text text = {.sink = output.file};
        gs_put_campaign_page(&text, page, report);
        code = gs_output_end(&output, gs_print_text(&text, GS_OK, error), error);
    }
    gs_text_free(report);
    return code;
}

/* ---- progress ---- */

void gs_show_step(void *user, const char *step, int64_t done, int64_t total) {
    gs_progress *progress = user;
    if (total)
        gs_progress_say(progress, "%s, %lld of %lld", step, (long long)done, (long long)total);
    else
        gs_progress_say(progress, "%s", step);
}

/* ---- sources ---- */

int gs_read_source(const char *path, char **text, gs_source *source, gs_error *error) {
    size_t count;
    gs_code code = gs_input_all(path, (size_t)64 << 20, text, &count, error);
    if (code == GS_OK && !gs_ptx_is_source(*text, count))
        code = gs_fail(error, GS_E_USAGE, "%s: elastic needs CUDA source", gs_input_name(path));
    if (code == GS_OK)
        code = gs_source_read(source, gs_input_name(path), *text, count, error);
    return code == GS_OK ? 0 : gs_report(error);
}

/* ---- GPUs ---- */

static gs_code apply_setting(gs_gpu *gpu, const char *setting, gs_error *error) {
    char name[64];
    size_t length = strcspn(setting, "=");
    if (!setting[length] || length >= sizeof name)
        return gs_fail(error, GS_E_USAGE, "--set takes MECHANISM=VALUE, not \"%.60s\"", setting);
    memcpy(name, setting, length);
    name[length] = '\0';
    return gs_gpu_set(gpu, name, setting + length + 1, error);
}

/* The built-in GPU that a run names. */
static gs_gpu *open_gpu_of(const gs_run *run, gs_error *error) {
    gs_step root = {0}, gpu = {.up = &root, .key = "gpu"};
    if (!run->gpu) {
        gs_json_fail(&run->source, &root, false, error,
                     "the run names no GPU: use --gpu NAME (see 'gridsmith gpus'), or add \"gpu\" to the run");
        return NULL;
    }
    if (gs_gpu_builtin_name(run->gpu))
        return gs_gpu_open(run->gpu, error);
    gs_json_fail(&run->source, &gpu, false, error,
                 "no built-in GPU is called \"%.60s\": see 'gridsmith gpus', or use --gpu FILE", run->gpu);
    return NULL;
}

gs_code gs_apply_choice(const gs_gpu_choice *choice, gs_gpu *gpu, gs_error *error) {
    gs_code code = choice->policy ? gs_gpu_use(gpu, choice->policy, error) : GS_OK;
    for (size_t i = 0; i < choice->settings.count && code == GS_OK; i++)
        code = apply_setting(gpu, choice->settings.data[i], error);
    return code;
}

/* The GPU with the number of SMs of --sms. Frees `gpu`. */
static gs_gpu *resize_gpu(gs_gpu *gpu, int64_t sms, gs_error *error) {
    gs_gpu *part = gs_gpu_part(gpu, (int32_t)sms, error);
    gs_gpu_free(gpu);
    return part;
}

/* cuda or cuda:N: the GPU of this machine, by its built-in description, or by what the driver says. */
static bool is_device(const char *name) {
    return strncmp(name, "cuda", 4) == 0 && (!name[4] || name[4] == ':');
}

static gs_gpu *open_device_gpu(const char *name, gs_error *error) {
    gs_device *device = gs_device_open(name, error);
    gs_gpu *gpu = device ? gs_gpu_copy(device->gpu, error) : NULL;
    gs_device_close(device);
    return gpu;
}

static gs_gpu *open_choice(const gs_gpu_choice *choice, const gs_run *run, gs_error *error) {
    if (choice->like && choice->name) {
        gs_fail(error, GS_E_USAGE, "--gpu and --like exclude each other");
        return NULL;
    }
    if (choice->name && is_device(choice->name))
        return open_device_gpu(choice->name, error);
    if (choice->like || choice->name || !run)
        return gs_gpu_open(choice->like ? choice->like : choice->name, error);
    return open_gpu_of(run, error);
}

gs_gpu *gs_choose_gpu(const gs_gpu_choice *choice, const gs_run *run, gs_error *error) {
    gs_gpu *gpu = open_choice(choice, run, error);
    if (gpu && choice->sms)
        gpu = resize_gpu(gpu, choice->sms, error);
    if (!gpu)
        return NULL;
    gs_code code = choice->like ? gs_gpu_assume_like(gpu, error) : GS_OK;
    if (code == GS_OK && gs_apply_choice(choice, gpu, error) == GS_OK)
        return gpu;
    gs_gpu_free(gpu);
    return NULL;
}

const gs_gpu *gs_gpu_for(gs_gpu_of_runs *kept, const gs_gpu_choice *choice, const gs_run *run, gs_error *error) {
    const char *wanted = choice->like ? choice->like : choice->name ? choice->name : run->gpu;
    if (kept->gpu && wanted && kept->name && strcmp(kept->name, wanted) == 0)
        return kept->gpu;
    gs_gpu_of_runs_clear(kept);
    kept->name = wanted ? strdup(wanted) : NULL;
    kept->gpu = gs_choose_gpu(choice, run, error);
    return kept->gpu;
}

const gs_gpu *gs_recorded_gpu_for(gs_gpu_of_runs *kept, const gs_run *run) {
    if (!run->gpu || !(gs_run_is_timed(run) || gs_run_is_program(run)))
        return kept->gpu;
    if (!kept->recorded_name || strcmp(kept->recorded_name, run->gpu) != 0) {
        gs_gpu_free(kept->recorded_on);
        free(kept->recorded_name);
        kept->recorded_name = strdup(run->gpu);
        kept->recorded_on = gs_gpu_recorded_on(kept->gpu, run);
    }
    return kept->recorded_on ? kept->recorded_on : kept->gpu;
}

void gs_gpu_of_runs_clear(gs_gpu_of_runs *kept) {
    gs_gpu_free(kept->gpu);
    gs_gpu_free(kept->recorded_on);
    free(kept->name);
    free(kept->recorded_name);
    *kept = (gs_gpu_of_runs){0};
}

/* ---- pictures ---- */

/* A program with too many blocks to draw: only its launches. */
static gs_run *play_to_draw(const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run, gs_played *played,
                            gs_error *error) {
    gs_code code = gs_timeline_play(gpu, recorded_on, run, NULL, &played->timeline, error);
    return code == GS_OK ? gs_run_copy(run, error) : NULL;
}

static int64_t count_blocks(const gs_run *run) {
    int64_t blocks = 0;
    for (size_t i = 0; i < run->launches.count; i++)
        blocks += run->launches.data[i].blocks;
    return blocks;
}

gs_run *gs_predict_to_draw(gs_view *view, const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run,
                           gs_predict_options *request, gs_played *played, gs_error *error) {
    enum { MOST_EXPLAINED = 1000, MOST_DRAWN = 20000000 };
    int64_t blocks = count_blocks(run);
    request->explain = run->events.count <= MOST_EXPLAINED;
    view->measured = run;
    view->played = played;
    if (blocks > MOST_DRAWN && !request->follow && gs_run_is_program(run))
        return play_to_draw(gpu, recorded_on, run, played, error);
    if (blocks <= MOST_DRAWN)
        return gs_predict_played(gpu, recorded_on, run, request, played, error);
    gs_fail(error, GS_E_USAGE, "the run has %lld blocks: at most %d can be drawn; the table has no limit",
            (long long)blocks, MOST_DRAWN);
    return NULL;
}
