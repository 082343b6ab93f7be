/*
 * head.c: the JSON of a scene in its HTML page (schema gridsmith.view/1): names, colors, the GPU, the shapes of
 * launches, and the sentences about waits.
 *
 * The page puts names into the sentences of src/model/view/waits_view.c: for each reason and each lack there is a
 * sentence in which {} stands for the other launch.
 */
#include "html.h"

#include <stdlib.h>

enum { MOST_LETTERS = 400, MOST_SENTENCES = 4000 }; /* limits of a name, and of the sentences of an event */

/* A string that is cut after `most` bytes, but not within a UTF-8 character. */
static void write_cut(gs_writer *writer, const char *key, const char *string, size_t most) {
    size_t length = strlen(string);
    gs_text text = {0};
    if (length <= most) {
        gs_write_string(writer, key, string);
        return;
    }
    for (length = most; length > 0 && ((unsigned char)string[length] & 0xc0) == 0x80;)
        length--;
    gs_text_put(&text, string, length);
    gs_text_add(&text, "...");
    gs_write_string(writer, key, text.data ? text.data : "");
    writer->text->failed = writer->text->failed || text.failed;
    gs_text_free(&text);
}

static void write_gpu(gs_writer *writer, const gs_gpu *gpu) {
    gs_write_object(writer, "gpu");
    gs_write_string(writer, "name", gpu->name);
    gs_write_string(writer, "title", gpu->title ? gpu->title : gpu->name);
    gs_write_int(writer, "sms", gpu->sms);
    gs_write_int(writer, "sms_per_tpc", gpu->sms_per_tpc);
    gs_write_int(writer, "block_slots", gpu->limits.blocks_per_sm);
    gs_write_int(writer, "warps", (int64_t)gpu->warps_per_partition * gpu->limits.partitions_per_sm);
    gs_write_int(writer, "registers", gpu->limits.registers_per_sm);
    gs_write_int(writer, "shared_bytes", gpu->largest_config_bytes);
    gs_write_bool(writer, "most_room", gpu->mechanisms.placement == GS_PLACEMENT_MOST_ROOM);
    gs_write_end(writer);
}

static void write_groups(gs_writer *writer, const gs_scene *scene) {
    gs_write_array(writer, "groups");
    for (size_t i = 0; i < scene->groups.count; i++) {
        const gs_scene_group *group = &scene->groups.data[i];
        gs_write_object(writer, NULL);
        gs_write_string(writer, "name", group->name);
        gs_write_array(writer, "sms");
        for (int32_t j = 0; j < group->count; j++)
            gs_write_int(writer, NULL, scene->sms[group->first + j]);
        gs_write_end(writer);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

/* The whole name of a kernel, as its author wrote it. */
static void write_full(gs_writer *writer, const char *name) {
    char *readable = gs_demangle(name, 0);
    write_cut(writer, "full", readable ? readable : name, MOST_LETTERS);
    free(readable);
}

static void write_functions(gs_writer *writer, const gs_scene *scene) {
    gs_write_array(writer, "functions");
    for (size_t i = 0; i < scene->functions.count; i++) {
        gs_write_object(writer, NULL);
        const char *name = scene->functions.data[i].name,
                   *full = scene->names ? gs_long_name(scene->names, name) : name;
        write_cut(writer, "name", name, MOST_LETTERS);
        if (strcmp(name, full) != 0)
            write_full(writer, full);
        gs_write_uint(writer, "color", scene->functions.data[i].color);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void write_limit(gs_writer *writer, const char *key, int32_t blocks) {
    if (blocks == GS_NO_LIMIT)
        gs_write_null(writer, key);
    else
        gs_write_int(writer, key, blocks);
}

static void write_shape(gs_writer *writer, const gs_gpu *gpu, const gs_launch *launch) {
    gs_share share = gs_share_of(gpu, &launch->shape);
    gs_occupancy occupancy;
    gs_error error;
    gs_occupancy_of(gpu, &launch->shape, &occupancy, &error);
    gs_write_object(writer, NULL);
    gs_write_int(writer, "threads", launch->shape.threads);
    gs_write_int(writer, "registers", launch->shape.registers);
    gs_write_int(writer, "shared_bytes", launch->shape.shared_bytes);
    gs_write_int(writer, "local_bytes", launch->shape.local_bytes);
    gs_write_int(writer, "cluster", launch->cluster);
    gs_write_int(writer, "block_warps", share.warps);
    gs_write_int(writer, "block_registers", share.registers);
    gs_write_int(writer, "block_shared_bytes", share.shared_bytes);
    gs_write_real(writer, "share", share.most, 6);
    gs_write_int(writer, "blocks_per_sm", occupancy.blocks);
    write_limit(writer, "by_blocks", occupancy.by_blocks);
    write_limit(writer, "by_warps", occupancy.by_warps);
    write_limit(writer, "by_registers", occupancy.by_registers);
    write_limit(writer, "by_shared", occupancy.by_shared);
    gs_write_end(writer);
}

static void write_shapes(gs_writer *writer, const gs_scene *scene) {
    gs_write_array(writer, "shapes");
    for (size_t i = 0; i < scene->shapes.count; i++)
        write_shape(writer, scene->gpu, &scene->run->launches.data[scene->shapes.data[i]]);
    gs_write_end(writer);
}

static void write_streams(gs_writer *writer, const gs_scene *scene) {
    gs_write_array(writer, "streams");
    for (size_t i = 0; i < scene->streams.count; i++)
        write_cut(writer, NULL, scene->streams.data[i].data ? scene->streams.data[i].data : "", MOST_LETTERS);
    gs_write_end(writer);
}

static void write_ids(gs_writer *writer, const gs_scene *scene) {
    bool has_ids = false;
    for (size_t i = 0; i < scene->run->launches.count; i++)
        has_ids = has_ids || scene->run->launches.data[i].issue.id;
    if (!has_ids)
        return;
    gs_write_array(writer, "ids");
    for (size_t i = 0; i < scene->run->launches.count; i++) {
        const char *id = scene->run->launches.data[i].issue.id;
        write_cut(writer, NULL, id ? id : "", 40);
    }
    gs_write_end(writer);
}

static void write_copies(gs_writer *writer, const gs_run *run) {
    gs_write_array(writer, "copies");
    for (size_t i = 0; i < run->copies.count; i++) {
        const char *kind = gs_copy_kind_name((gs_copy_kind)run->copies.data[i].kind);
        gs_write_array(writer, NULL);
        gs_write_string(writer, NULL, run->copies.data[i].is_memset ? "memset" : kind ? kind : "copy");
        gs_write_int(writer, NULL, run->copies.data[i].bytes);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

enum { MOST_RANGES = 5000 };

/* The named ranges: name, from, to. */
static void write_ranges(gs_writer *writer, const gs_scene *scene) {
    const gs_named_ranges *ranges = &scene->run->ranges;
    gs_write_array(writer, "ranges");
    for (size_t i = 0; i < ranges->count && i < MOST_RANGES && scene->is_timed; i++) {
        gs_write_array(writer, NULL);
        write_cut(writer, NULL, ranges->data[i].name, MOST_LETTERS);
        gs_write_int(writer, NULL, gs_scene_time(scene, ranges->data[i].from_ns));
        gs_write_int(writer, NULL, gs_scene_time(scene, ranges->data[i].to_ns));
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

/* A sentence for each reason, and where it matters for each lack. */
static void write_words(gs_writer *writer) {
    gs_write_array(writer, "reasons");
    for (gs_reason reason = 0; reason < GS_REASONS; reason++) {
        gs_write_object(writer, NULL);
        gs_write_string(writer, "name", gs_reason_name(reason));
        gs_write_array(writer, "words");
        for (gs_lack lack = GS_LACK_NONE; lack <= GS_LACK_CLUSTER; lack++) {
            gs_text text = {0};
            gs_put_wait(&text, reason, lack, "{}");
            gs_write_string(writer, NULL, text.data ? text.data : "");
            gs_text_free(&text);
        }
        gs_write_end(writer);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void write_texts(gs_writer *writer, const gs_scene *scene) {
    gs_write_array(writer, "texts");
    for (size_t i = 0; i < scene->texts.count; i++)
        write_cut(writer, NULL, scene->texts.data[i], MOST_SENTENCES);
    gs_write_end(writer);
}

/* For runs without times: the event of each column, and why blocks wait in it. */
static void write_columns_of_run(gs_writer *writer, const gs_run *run) {
    gs_write_array(writer, "columns");
    for (size_t i = 0; i < run->events.count; i++) {
        const gs_event *event = &run->events.data[i];
        if (event->op == GS_OBSERVE)
            continue;
        gs_write_object(writer, NULL);
        gs_write_string(writer, "op", gs_op_name(event->op));
        gs_write_uint(writer, "launch", event->launch);
        if (event->why)
            write_cut(writer, "why", event->why, MOST_SENTENCES);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void write_compared(gs_writer *writer, const gs_scene *scene) {
    if (!scene->layers[0].differs)
        return;
    gs_write_object(writer, "compared");
    gs_write_int(writer, "blocks", scene->blocks_compared);
    gs_write_int(writer, "blocks_elsewhere", scene->blocks_elsewhere);
    gs_write_int(writer, "counts_differ", scene->counts_differ);
    gs_write_end(writer);
}

void gs_write_head(gs_writer *writer, const gs_scene *scene, const char *title) {
    gs_write_string(writer, "title", title);
    gs_write_bool(writer, "timed", scene->is_timed);
    gs_write_int(writer, "from", scene->from);
    gs_write_int(writer, "to", scene->to);
    gs_write_uint(writer, "launches", scene->run->launches.count);
    gs_write_uint(writer, "blocks", scene->layers[0].stays.count);
    gs_write_bool(writer, "predicted", scene->played);
    gs_write_optional(writer, "row_word", scene->row_word);
    gs_write_optional(writer, "time_word", scene->time_word);
    write_gpu(writer, scene->gpu);
    write_groups(writer, scene);
    write_functions(writer, scene);
    write_shapes(writer, scene);
    write_streams(writer, scene);
    write_ids(writer, scene);
    write_copies(writer, scene->run);
    write_ranges(writer, scene);
    write_words(writer);
    write_texts(writer, scene);
    write_compared(writer, scene);
    if (!scene->is_timed)
        write_columns_of_run(writer, scene->run);
}
