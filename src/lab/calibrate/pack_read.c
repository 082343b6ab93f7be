/*
 * pack_read.c: reads packs. They are untrusted, so everything in them is checked.
 *
 * A pack is lines of JSON, compressed by gzip: first the settings and the GPU (gridsmith.pack/1), then
 *
 *   {"schema":"gridsmith.run/1",...}   a run as observed
 *   {"refused":"..."}                  a run that the GPU refused, with the error
 *   {"part":"held_out"}                the following runs are not for fitting
 *   {"end":N,"sha256":"..."}           the last line: the number of lines before it, and their digest
 *
 * A pack that is still being made is not compressed and has no last line.
 */
#include "calibrate.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 28, MOST_BLOCKS = 1 << 21, MOST_RUNS = 100000 };

struct reader {
    gs_gpu_pack *pack;
    const char *path;
    const char *bytes;
    size_t count, at; /* `at`: the next line */
    long line;
    bool is_part;
};

static const gs_field head_fields[] = {
    {"schema", GS_FIELD_OTHER, true, 0, 0, 0},
    {"version", GS_FIELD_NAME, true, offsetof(gs_gpu_pack, version), 0, 0},
    {"device", GS_FIELD_NAME, true, offsetof(gs_gpu_pack, device), 0, 0},
    {"driver", GS_FIELD_NAME, false, offsetof(gs_gpu_pack, driver), 0, 0},
    {"uuid", GS_FIELD_NAME, false, offsetof(gs_gpu_pack, uuid), 0, 0},
    {"name", GS_FIELD_NAME, false, offsetof(gs_gpu_pack, name), 0, 0},
    {"clusters", GS_FIELD_INT32, true, offsetof(gs_gpu_pack, clusters), 1, 64},
    {"seed", GS_FIELD_INT64, true, offsetof(gs_gpu_pack, seed), 0, INT64_MAX},
    {"runs", GS_FIELD_INT64, true, offsetof(gs_gpu_pack, runs), 1, MOST_RUNS},
    {"held_out", GS_FIELD_INT64, true, offsetof(gs_gpu_pack, held_out), 0, MOST_RUNS},
    {"gpu", GS_FIELD_OTHER, true, 0, 0, 0},
    {"same_gpu", GS_FIELD_OTHER, false, 0, 0, 0},
};

/* ---- lines ---- */

/* An error about the latest line. */
static gs_code fail_line(const struct reader *reader, gs_error *error, const char *message) {
    gs_fail(error, GS_E_FORMAT, "%s", message);
    snprintf(error->file, sizeof error->file, "%s", reader->path);
    error->line = reader->line;
    error->column = 1;
    return GS_E_FORMAT;
}

/* The next line as JSON. Positions of its errors are relative to the file. */
static gs_code parse_line(const struct reader *reader, const char *line, size_t length, gs_json *json,
                          gs_error *error) {
    gs_input *input = gs_input_memory(reader->path, line, length, error);
    if (!input)
        return error->code;
    gs_code code = gs_json_next(input, json, error);
    gs_input_close(input);
    json->line = reader->line;
    if (code == GS_E_SYNTAX)
        error->line = reader->line;
    if (code == GS_OK && !json_is_object(json->root))
        code = fail_line(reader, error, "a line of a pack must be a JSON object");
    return code;
}

/* ---- the first line ---- */

static gs_code check_schema(const struct reader *reader, const gs_json *json, gs_error *error) {
    static const char kind[] = "gridsmith.pack/";
    const char *schema = json_string_value(json_object_get(json->root, "schema"));
    char message[200];
    if (schema && strcmp(schema, GS_PACK_SCHEMA) == 0)
        return GS_OK;
    if (schema && strncmp(schema, kind, sizeof kind - 1) == 0)
        snprintf(
            message, sizeof message,
            "this pack was made by a newer program: it has the format %.40s, and this program reads " GS_PACK_SCHEMA,
            schema);
    else
        snprintf(message, sizeof message, "not a pack, but %.60s", schema ? schema : "something else");
    gs_make_printable(message);
    return fail_line(reader, error, message);
}

static gs_code read_gpu(struct reader *reader, const gs_json *json, gs_error *error) {
    char *text = json_dumps(json_object_get(json->root, "gpu"), JSON_COMPACT | JSON_PRESERVE_ORDER);
    gs_input *input = text ? gs_input_memory(reader->path, text, strlen(text), error) : NULL;
    if (!text)
        fail_line(reader, error, "the description of the GPU is not an object");
    reader->pack->gpu = input ? gs_gpu_read(input, error) : NULL;
    gs_input_close(input);
    free(text);
    if (reader->pack->gpu)
        return GS_OK;
    error->line = reader->line;
    return error->code;
}

/* Untrusted text may be shown on a terminal. */
static void make_texts_printable(gs_gpu_pack *pack) {
    gs_gpu *gpu = pack->gpu;
    char *const texts[] = {pack->version,     pack->device, pack->driver, pack->uuid,
                           pack->name,        gpu->name,    gpu->title,   gpu->uuid,
                           gpu->architecture, gpu->source,  gpu->assumed, gpu->compute_capability};
    for (size_t i = 0; i < GS_COUNT(texts); i++)
        if (texts[i])
            gs_make_printable(texts[i]);
}

static gs_code read_head(struct reader *reader, const gs_json *json, gs_error *error) {
    gs_step root = gs_step_root(json);
    gs_code code = check_schema(reader, json, error);
    if (code == GS_OK)
        code = gs_json_object(json, &root, head_fields, GS_COUNT(head_fields), reader->pack, error);
    if (code == GS_OK)
        code = read_gpu(reader, json, error);
    if (code == GS_OK)
        make_texts_printable(reader->pack);
    return code;
}

/* ---- runs ---- */

static gs_code add_item(struct reader *reader, gs_pack_item item, gs_error *error) {
    gs_gpu_pack *pack = reader->pack;
    item.is_held_out = pack->has_held_out;
    if (pack->items.count < MOST_RUNS && (item.run || item.refused) && GS_PUSH(&pack->items, item))
        return GS_OK;
    gs_run_free(item.run);
    free(item.refused);
    return pack->items.count < MOST_RUNS ? gs_fail_memory(error)
                                         : fail_line(reader, error, "a pack may have at most 100000 runs");
}

static bool is_on_gpu(const gs_seen *seen, int32_t sms) {
    for (size_t i = 0; i < seen->placed.count; i++)
        if (seen->placed.data[i] != GS_WAIT && (seen->placed.data[i] < 0 || seen->placed.data[i] >= sms))
            return false;
    return true;
}

static bool is_known_class(const char *name) {
    for (size_t i = 0; name && gs_class_name(i); i++)
        if (strcmp(gs_class_name(i), name) == 0)
            return true;
    return !name;
}

/* Rejects runs that no probe records: they could take too long to predict, or name SMs that do not exist. */
static gs_code check_run(const struct reader *reader, const gs_run *run, gs_error *error) {
    int64_t blocks = 0;
    if (!is_known_class(run->class_name))
        return fail_line(reader, error, "a run of a pack must have a class of gridsmith fuzz, or none");
    if (run->launches.count < 1 || run->launches.count > GS_DEVICE_LAUNCHES)
        return fail_line(reader, error, "a run of a pack must have 1 to 256 launches");
    for (size_t i = 0; i < run->launches.count; i++)
        blocks += gs_min(run->launches.data[i].blocks, MOST_BLOCKS + 1);
    if (blocks > MOST_BLOCKS)
        return fail_line(reader, error, "a run of a pack may have at most 2097152 blocks");
    for (size_t i = 0; i < run->events.count; i++)
        if (!is_on_gpu(run->events.data[i].seen, reader->pack->gpu->sms))
            return fail_line(reader, error, "a block is on an SM that the GPU lacks");
    return gs_run_is_recorded(run, error);
}

static gs_code read_one(struct reader *reader, gs_json *json, gs_error *error) {
    gs_run *run = gs_run_read(json, error);
    if (!run)
        return error->code;
    gs_code code = check_run(reader, run, error);
    if (code == GS_OK)
        return add_item(reader, (gs_pack_item){.run = run}, error);
    gs_run_free(run);
    return code;
}

/* ---- other lines ---- */

static gs_code read_refused(struct reader *reader, const json_t *value, gs_error *error) {
    char *message = strdup(json_string_value(value));
    if (message)
        gs_make_printable(message);
    return add_item(reader, (gs_pack_item){.refused = message}, error);
}

static gs_code read_end(struct reader *reader, const gs_json *json, size_t begin, gs_error *error) {
    gs_gpu_pack *pack = reader->pack;
    const char *wanted = json_string_value(json_object_get(json->root, "sha256"));
    const char *date = json_string_value(json_object_get(json->root, "date"));
    unsigned char digest[32];
    gs_digest hash;
    gs_digest_begin(&hash);
    gs_digest_add(&hash, reader->bytes, begin);
    gs_digest_end(&hash, digest);
    gs_digest_hex(digest, pack->digest);
    if (!wanted || strcmp(wanted, pack->digest) != 0 ||
        json_integer_value(json_object_get(json->root, "end")) != reader->line - 1)
        return fail_line(reader, error, "the pack is damaged: its lines do not match the digest in its last line");
    pack->date = date && strlen(date) == 10 && !date[strspn(date, "0123456789-")] ? strdup(date) : NULL;
    pack->is_complete = true;
    return GS_OK;
}

static gs_code read_line(struct reader *reader, gs_json *json, size_t begin, gs_error *error) {
    const json_t *part = json_object_get(json->root, "part"), *refused = json_object_get(json->root, "refused");
    if (reader->line == 1)
        return read_head(reader, json, error);
    if (json_object_get(json->root, "schema"))
        return read_one(reader, json, error);
    if (json_is_string(refused))
        return read_refused(reader, refused, error);
    if (json_is_string(part) && strcmp(json_string_value(part), "held_out") == 0 && !reader->pack->has_held_out) {
        reader->pack->has_held_out = true;
        return GS_OK;
    }
    if (json_object_get(json->root, "end") && !reader->is_part)
        return read_end(reader, json, begin, error);
    return fail_line(reader, error, "not a line of a pack");
}

/* ---- the file ---- */

static gs_code read_lines(struct reader *reader, gs_error *error) {
    gs_code code = GS_OK;
    while (code == GS_OK && reader->at < reader->count && !reader->pack->is_complete) {
        const char *line = reader->bytes + reader->at, *end = memchr(line, '\n', reader->count - reader->at);
        size_t begin = reader->at;
        gs_json json = {0};
        if (!end)
            break;
        reader->line++;
        code = parse_line(reader, line, (size_t)(end - line), &json, error);
        if (code == GS_OK)
            code = read_line(reader, &json, begin, error);
        gs_json_free(&json);
        reader->at = begin + (size_t)(end - line) + 1;
    }
    reader->pack->whole_bytes = reader->at;
    return code;
}

static gs_code check_end(const struct reader *reader, gs_error *error) {
    if (reader->is_part)
        return reader->line ? GS_OK : fail_line(reader, error, "not the beginning of a pack");
    if (!reader->pack->is_complete)
        return gs_fail(error, GS_E_FORMAT, "%.200s is not a complete pack: its end is missing", reader->path);
    if (reader->at < reader->count)
        return gs_fail(error, GS_E_FORMAT, "%.200s is not a pack: there is data after its end", reader->path);
    return GS_OK;
}

gs_gpu_pack *gs_pack_read(const char *path, bool is_part, gs_error *error) {
    struct reader reader = {.path = gs_input_name(path), .is_part = is_part, .pack = calloc(1, sizeof(gs_gpu_pack))};
    char *bytes = NULL;
    gs_code code = reader.pack ? gs_input_all(path, MOST_BYTES, &bytes, &reader.count, error) : gs_fail_memory(error);
    reader.bytes = bytes;
    if (code == GS_OK)
        code = read_lines(&reader, error);
    if (code == GS_OK)
        code = check_end(&reader, error);
    free(bytes);
    if (code == GS_OK)
        return reader.pack;
    gs_pack_free(reader.pack);
    return NULL;
}

void gs_pack_free(gs_gpu_pack *pack) {
    if (!pack)
        return;
    for (size_t i = 0; i < pack->items.count; i++) {
        gs_run_free(pack->items.data[i].run);
        free(pack->items.data[i].refused);
    }
    free(pack->items.data);
    gs_gpu_free(pack->gpu);
    free(pack->version);
    free(pack->device);
    free(pack->driver);
    free(pack->uuid);
    free(pack->name);
    free(pack->date);
    free(pack);
}
