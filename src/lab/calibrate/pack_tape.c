/*
 * pack_tape.c: a device that returns the runs of a pack, and records new ones.
 *
 * The survey plays one run after the other on a device, and each run depends only on earlier observations. So a survey
 * repeated on a tape plays the same runs and gets the same observations. That is how a pack becomes a description on
 * another machine, and how an interrupted pack continues: the survey starts from its beginning, and the GPU plays only
 * what is not on the tape.
 *
 * A GPU may refuse a run, as some do with large clusters, and the survey continues. Such a run is on the tape with its
 * error. An error that ends the survey is not: the run is retried when the pack is continued.
 */
#include "pack_tape.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- writing ---- */

static bool write_all(int file, const char *bytes, size_t count) {
    while (count) {
        ssize_t written = write(file, bytes, count);
        if (written < 0 && errno != EINTR)
            return false;
        bytes += gs_max(written, 0);
        count -= (size_t)gs_max(written, 0);
    }
    return true;
}

gs_code gs_tape_add_line(gs_tape *tape, const gs_text *line, gs_error *error) {
    off_t before = lseek(tape->file, 0, SEEK_END);
    if (line->failed)
        return gs_fail_memory(error);
    if (before >= 0 && write_all(tape->file, line->data, line->count) && write_all(tape->file, "\n", 1))
        return GS_OK;
    gs_code code = gs_fail_system(error, "write", tape->path);
    if (before >= 0 && ftruncate(tape->file, before) != 0)
        return code; /* an incomplete line is cut off when the pack is continued */
    return code;
}

static gs_code add_pending(gs_tape *tape, gs_error *error) {
    gs_text line = {0};
    if (!tape->pending)
        return GS_OK;
    gs_text_add(&line, "{\"refused\":");
    gs_text_put_json(&line, tape->pending);
    gs_text_add(&line, "}");
    gs_code code = gs_tape_add_line(tape, &line, error);
    gs_text_free(&line);
    free(tape->pending);
    tape->pending = NULL;
    tape->refused++;
    return code;
}

static gs_code add_run(gs_tape *tape, const gs_run *run, gs_error *error) {
    gs_text line = {0};
    gs_run_text(run, &line);
    gs_code code = add_pending(tape, error);
    if (code == GS_OK)
        code = gs_tape_add_line(tape, &line, error);
    gs_text_free(&line);
    tape->added += code == GS_OK;
    return code;
}

/* ---- playing ---- */

static bool replace_text(char **text, const char *with) {
    free(*text);
    *text = with ? strdup(with) : NULL;
    return !with || *text;
}

/* Plays a run on the underlying device, and adds it with its number and its class. */
static gs_run *play_new(gs_tape *tape, const gs_run *script, const gs_play_options *options, gs_error *error) {
    gs_run *run = gs_device_play(tape->under, script, options, error);
    if (!run) {
        replace_text(&tape->pending, error->message);
        return NULL;
    }
    run->has_id = script->has_id;
    run->id = script->id;
    gs_code code = replace_text(&run->class_name, script->class_name) && replace_text(&run->gpu, tape->device.gpu->name)
                       ? GS_OK
                       : gs_fail_memory(error);
    if (code == GS_OK && !gs_is_recording_of(run, script))
        code = gs_fail(error, GS_E_FORMAT, "the device played a different run");
    if (code == GS_OK)
        code = add_run(tape, run, error);
    if (code == GS_OK)
        return run;
    gs_run_free(run);
    return NULL;
}

/* The next item of the pack, or NULL. */
static const gs_pack_item *next_item(gs_tape *tape) {
    while (tape->at < tape->pack->items.count) {
        const gs_pack_item *item = &tape->pack->items.data[tape->at++];
        if (tape->has_classes || (!item->is_held_out && !(item->run && item->run->class_name)))
            return item;
    }
    return NULL;
}

static gs_run *tape_play(gs_device *device, const gs_run *script, const gs_play_options *options, gs_error *error) {
    gs_tape *tape = device->inside;
    const gs_pack_item *item = next_item(tape);
    if (!item && tape->under)
        return play_new(tape, script, options, error);
    if (item && item->run && gs_is_recording_of(item->run, script))
        return gs_run_copy(item->run, error);
    if (item && !item->run)
        gs_fail(error, GS_E_NO_GPU, "%s", item->refused);
    else
        gs_fail(
            error, GS_E_FORMAT,
            "its runs differ from those with which this program measures a GPU: it was made by version %.20s, and this "
            "is %s",
            tape->pack->version, GS_VERSION);
    return NULL;
}

static const gs_device_ops tape_ops = {.name = "pack", .play = tape_play};

void gs_tape_init(gs_tape *tape, const gs_gpu_pack *pack, gs_device *under) {
    *tape = (gs_tape){.pack = pack, .under = under, .file = -1};
    tape->device = (gs_device){.ops = &tape_ops, .gpu = pack->gpu, .clusters = pack->clusters, .inside = tape};
    snprintf(tape->device.uuid, sizeof tape->device.uuid, "%s", pack->uuid ? pack->uuid : "");
    snprintf(tape->device.driver, sizeof tape->device.driver, "%s", pack->driver ? pack->driver : "");
}

void gs_tape_clear(gs_tape *tape) {
    free(tape->pending);
    if (tape->file >= 0)
        close(tape->file);
    tape->pending = NULL;
    tape->file = -1;
}
