/*
 * sources.c: the two kinds of devices that need no GPU: recordings and the model.
 */
#include "device.h"

#include <stdlib.h>
#include <string.h>

/* ---- the model ---- */

static gs_run *model_play(gs_device *device, const gs_run *run, const gs_play_options *options, gs_error *error) {
    (void)options;
    return gs_predict(device->gpu, run, NULL, error);
}

enum { PARTS = 4 };

/* Four parts of whole TPCs, each with a fifth of the SMs; the other SMs are in none. */
static gs_code model_split(gs_device *device, gs_error *error) {
    int32_t sms = device->gpu->sms / (PARTS + 1) / 2 * 2;
    gs_green_contexts *contexts = &device->contexts;
    if (sms < 2)
        return gs_fail(error, GS_E_USAGE, "a GPU with %d SMs is too small for green contexts", device->gpu->sms);
    contexts->sms = calloc((size_t)PARTS * (size_t)sms, sizeof *contexts->sms);
    contexts->ends = calloc(PARTS, sizeof *contexts->ends);
    if (!contexts->sms || !contexts->ends)
        return gs_fail_memory(error);
    for (int32_t i = 0; i < PARTS * sms; i++)
        contexts->sms[i] = (int16_t)i;
    for (int32_t i = 0; i < PARTS; i++)
        contexts->ends[i] = (i + 1) * sms;
    contexts->count = PARTS;
    return GS_OK;
}

static const gs_device_ops model_ops = {.name = "model", .play = model_play, .split = model_split};

/* One "mechanism=value" or "skip=SM". */
static gs_code model_set(gs_gpu *gpu, char *setting, gs_error *error) {
    char *value = strchr(setting, '='), *end;
    if (!value)
        return gs_fail(error, GS_E_USAGE, "model: \"%.60s\" is not MECHANISM=VALUE", setting);
    *value++ = '\0';
    if (strcmp(setting, "skip") != 0)
        return gs_gpu_set(gpu, setting, value, error);
    long sm = strtol(value, &end, 10);
    if (*end || end == value || sm < 0 || sm >= gpu->sms)
        return gs_fail(error, GS_E_USAGE, "model: skip must be an SM from 0 to %d", gpu->sms - 1);
    gpu->skipped_sm = (int32_t)sm + 1;
    return GS_OK;
}

/* The largest power of two that fits a group of SMs, but at most 8, as on a real GPU. */
static int32_t portable_cluster(const gs_gpu *gpu) {
    const gs_sm_groups *groups = &gpu->grants.groups;
    int32_t most = 1, size = 1;
    for (int32_t i = 0; gs_gpu_has_clusters(gpu) && i < groups->count; i++)
        most = (int32_t)gs_max(most, groups->ends[i] - (i ? groups->ends[i - 1] : 0));
    while (2 * size <= gs_min(most, 8))
        size *= 2;
    return size;
}

gs_device *gs_device_open_model(const char *rest, gs_error *error) {
    char *words = strdup(rest[0] ? rest : "rtx3090"), *saved = NULL;
    if (!words) {
        gs_fail_memory(error);
        return NULL;
    }
    char *word = strtok_r(words, ",", &saved);
    gs_gpu *gpu = gs_gpu_open(word ? word : "", error);
    gs_code code = gpu ? GS_OK : GS_E_USAGE;
    while (code == GS_OK && (word = strtok_r(NULL, ",", &saved)))
        code = model_set(gpu, word, error);
    free(words);
    gs_device *device = code == GS_OK ? gs_device_new(&model_ops, gpu, NULL, error) : NULL;
    if (!device)
        gs_gpu_free(gpu);
    else
        device->clusters = portable_cluster(gpu);
    return device;
}

/* ---- recordings ---- */

/* Recordings, found by the text of their launches and exits. */
struct recordings {
    gs_run **runs;
    char **texts;
    size_t count, runs_capacity, texts_capacity;
    gs_names by_text;
};

/* The launches and exits of a run as text, without its id, its class and what was seen. */
static char *text_of(const gs_run *run, gs_error *error) {
    gs_run *bare = gs_run_new(error);
    gs_text text = {0};
    gs_code code = bare ? GS_OK : GS_E_MEMORY;
    for (size_t i = 0; i < run->events.count && code == GS_OK; i++) {
        const gs_event *event = &run->events.data[i];
        if (event->op == GS_LAUNCH)
            code = gs_run_copy_launch(bare, &run->launches.data[event->launch], error);
        else if (event->op == GS_EXIT && !gs_run_add_event(bare, GS_EXIT, event->launch, error))
            code = GS_E_MEMORY;
    }
    if (code == GS_OK)
        gs_run_text(bare, &text);
    gs_run_free(bare);
    return text.failed ? NULL : text.data;
}

static void replay_close(gs_device *device) {
    struct recordings *recordings = device->inside;
    for (size_t i = 0; i < recordings->count; i++) {
        gs_run_free(recordings->runs[i]);
        free(recordings->texts[i]);
    }
    free(recordings->runs);
    free(recordings->texts);
    gs_names_free(&recordings->by_text);
    free(recordings);
}

static gs_run *replay_play(gs_device *device, const gs_run *run, const gs_play_options *options, gs_error *error) {
    (void)options;
    const struct recordings *recordings = device->inside;
    char *text = text_of(run, error);
    size_t number = text ? gs_names_find(&recordings->by_text, text) : SIZE_MAX;
    free(text);
    if (number == SIZE_MAX) {
        gs_fail(error, GS_E_USAGE, "this run is not among the recordings");
        return NULL;
    }
    return gs_run_copy(recordings->runs[number], error);
}

static const gs_device_ops replay_ops = {.name = "replay", .play = replay_play, .close = replay_close};

static gs_code add_recording(struct recordings *recordings, gs_run *run, gs_error *error) {
    char *text = text_of(run, error);
    if (!text ||
        !gs_array_reserve((void **)&recordings->runs, recordings->count, &recordings->runs_capacity, 1,
                          sizeof *recordings->runs) ||
        !gs_array_reserve((void **)&recordings->texts, recordings->count, &recordings->texts_capacity, 1,
                          sizeof *recordings->texts) ||
        gs_names_add(&recordings->by_text, text, recordings->count) == SIZE_MAX) {
        free(text);
        gs_run_free(run);
        return gs_fail_memory(error);
    }
    recordings->runs[recordings->count] = run;
    recordings->texts[recordings->count++] = text;
    return GS_OK;
}

static gs_code read_recordings(struct recordings *recordings, const char *path, gs_error *error) {
    gs_runs *runs = gs_runs_open(path, error);
    gs_code code = runs ? GS_OK : GS_E_IO;
    gs_error end = {.code = GS_OK};
    gs_run *run;
    while (code == GS_OK && (run = gs_runs_next(runs, &end)))
        code = add_recording(recordings, run, error);
    if (code == GS_OK && end.code != GS_OK) {
        code = end.code;
        if (error)
            *error = end;
    }
    if (code == GS_OK && !recordings->count)
        code = gs_fail(error, GS_E_USAGE, "%s has no run", path);
    gs_runs_close(runs);
    return code;
}

gs_device *gs_device_open_replay(const char *rest, gs_error *error) {
    struct recordings *recordings = calloc(1, sizeof *recordings);
    gs_device *device = recordings ? gs_device_new(&replay_ops, NULL, recordings, error) : NULL;
    if (!device) {
        free(recordings);
        gs_fail_memory(error);
        return NULL;
    }
    gs_code code = read_recordings(recordings, rest, error);
    if (code == GS_OK && !recordings->runs[0]->gpu)
        code = gs_fail(error, GS_E_USAGE, "%s does not say on which GPU it was recorded", rest);
    if (code == GS_OK)
        device->gpu = gs_gpu_open(recordings->runs[0]->gpu, error);
    if (device->gpu)
        return device;
    gs_device_close(device);
    return NULL;
}
