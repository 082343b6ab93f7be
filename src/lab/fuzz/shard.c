/*
 * shard.c: a campaign in parts that can be played anywhere, and the header of its files.
 *
 * Shard I of N has the runs from count * (I - 1) / N up to count * I / N, so each run is in exactly one shard, and the
 * shards in order are the campaign. The first line of a file is a campaign header (gridsmith.campaign/1): the settings,
 * the shard, and the GPU that played it. A campaign that is resumed on another GPU adds another header. Readers of runs
 * skip headers. Each other line is a run, and begins with its schema and its number. The kind of run depends on the
 * command: a recording, a measured sample, a kernel of the zoo.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

/* count * number / of, without overflow. */
static int64_t part_start(int64_t count, int64_t number, int64_t of) {
    return count / of * number + count % of * number / of;
}

int64_t gs_shard_begin(const gs_shard *shard, int64_t count) {
    return shard->of ? part_start(count, shard->number - 1, shard->of) : 0;
}

int64_t gs_shard_count(const gs_shard *shard, int64_t count) {
    return shard->of ? part_start(count, shard->number, shard->of) - gs_shard_begin(shard, count) : count;
}

bool gs_shard_parse(const char *text, gs_shard *shard) {
    char *end;
    shard->number = strtoll(text, &end, 10);
    if (end == text || *end != '/' || text[0] < '0' || text[0] > '9' || end[1] < '0' || end[1] > '9')
        return false;
    shard->of = strtoll(end + 1, &end, 10);
    return !*end && shard->of >= 1 && shard->of <= GS_MOST_SHARDS && shard->number >= 1 && shard->number <= shard->of;
}

void gs_shard_name(const gs_shard *shard, const char *what, char *name, size_t size) {
    int digits = snprintf(NULL, 0, "%lld", (long long)shard->of);
    snprintf(name, size, "%s-shard%0*lldof%lld.jsonl", what, digits, (long long)shard->number, (long long)shard->of);
}

/* ---- the line ---- */

/* "cuda:3,sms=64" is "cuda,sms=64": it does not matter which of several equal GPUs plays a shard. */
static void write_device(gs_writer *writer, const char *device) {
    char name[400];
    const char *rest = device;
    if (strncmp(device, "cuda", 4) == 0) {
        rest += 4 + (device[4] == ':');
        rest += strspn(rest, "0123456789");
        snprintf(name, sizeof name, "cuda%s", rest);
    } else {
        snprintf(name, sizeof name, "%s", device);
    }
    gs_write_string(writer, "device", name);
}

/* The digest of a description: all limits, lists and mechanisms, but not the GPU on which it was measured. */
static void write_description(gs_writer *writer, const gs_gpu *gpu) {
    unsigned char digest[32];
    char hex[65];
    gs_text text = {0};
    gs_digest hash;
    gs_gpu any = *gpu;
    any.uuid = NULL;
    gs_gpu_text(&any, &text);
    gs_digest_begin(&hash);
    gs_digest_add(&hash, text.data ? text.data : "", text.count);
    gs_digest_end(&hash, digest);
    gs_digest_hex(digest, hex);
    gs_text_free(&text);
    gs_write_string(writer, "gpu", gpu->name);
    gs_write_string(writer, "description", hex);
}

void gs_campaign_line_begin(gs_writer *writer, const gs_campaign_about *about) {
    gs_write_document(writer, GS_CAMPAIGN_SCHEMA);
    gs_write_string(writer, "version", GS_VERSION);
    gs_write_string(writer, "command", about->command);
}

void gs_campaign_line_end(gs_writer *writer, const gs_campaign_about *about) {
    write_device(writer, about->device);
    write_description(writer, about->gpu);
    gs_write_int(writer, "count", about->count);
    gs_write_array(writer, "shard");
    gs_write_int(writer, NULL, gs_max(about->shard.number, 1));
    gs_write_int(writer, NULL, gs_max(about->shard.of, 1));
    gs_write_end(writer);
    gs_write_array(writer, "gpus");
    if (about->uuid[0]) {
        gs_write_object(writer, NULL);
        gs_write_string(writer, "uuid", about->uuid);
        gs_write_string(writer, "driver", about->driver);
        gs_write_end(writer);
    }
    gs_write_end(writer);
    gs_write_finish(writer);
}

void gs_campaign_line(const gs_campaign_options *options, const gs_device *device, const char *device_name,
                      gs_text *line) {
    gs_writer writer = gs_writer_to(line);
    gs_campaign_about about = {.command = "fuzz",
                               .device = device_name,
                               .gpu = device->gpu,
                               .uuid = device->uuid,
                               .driver = device->driver,
                               .count = options->count,
                               .shard = options->shard};
    gs_campaign_line_begin(&writer, &about);
    gs_write_uint(&writer, "seed", options->seed);
    gs_write_array(&writer, "classes");
    for (size_t i = 0; options->classes[i]; i++)
        gs_write_string(&writer, NULL, options->classes[i]);
    gs_write_end(&writer);
    gs_write_int(&writer, "patient_every", options->patient_every);
    gs_campaign_line_end(&writer, &about);
}

bool gs_is_campaign_line(const char *line, size_t count) {
    static const char begin[] = "{\"schema\":\"" GS_CAMPAIGN_SCHEMA "\"";
    return count >= sizeof begin - 1 && memcmp(line, begin, sizeof begin - 1) == 0;
}

/* The length of a line before a top-level key. Strings cannot contain `,"key":`, because their quotes are
   escaped. */
static size_t length_before(const char *line, const char *key) {
    char wanted[40];
    snprintf(wanted, sizeof wanted, ",\"%s\":", key);
    const char *found = strstr(line, wanted);
    return found ? (size_t)(found - line) : strlen(line);
}

bool gs_campaign_line_same(const char *one, const char *two, const char *until) {
    size_t length = length_before(one, until);
    return length == length_before(two, until) && memcmp(one, two, length) == 0;
}

static void copy_value(const json_t *value, char *text, size_t size) {
    char *words = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    snprintf(text, size, "%s", words ? words : "not given");
    free(words);
}

void gs_campaign_line_differ(const char *one, const char *two, gs_campaign_difference *difference) {
    json_t *first = json_loads(one, 0, NULL), *second = json_loads(two, 0, NULL), *value;
    const char *key;
    snprintf(difference->key, sizeof difference->key, "settings");
    copy_value(NULL, difference->one, sizeof difference->one);
    copy_value(NULL, difference->two, sizeof difference->two);
    json_object_foreach(second, key, value) {
        json_t *other = json_object_get(first, key);
        if (strcmp(key, "gpus") == 0 || json_equal(value, other))
            continue;
        snprintf(difference->key, sizeof difference->key, "%s", key);
        copy_value(other, difference->one, sizeof difference->one);
        copy_value(value, difference->two, sizeof difference->two);
        break;
    }
    json_decref(first);
    json_decref(second);
}

/* ---- the runs after it ---- */

const char *gs_campaign_run_begin(const char *command) {
    static const struct {
        const char *command, *begin;
    } commands[] = {
        {"fuzz", "{\"schema\":\"gridsmith.run/1\",\"id\":"},
        {"record", "{\"schema\":\"gridsmith.run/1\",\"id\":"},
        {"bound", "{\"schema\":\"gridsmith.measured/1\",\"id\":"},
        {"zoo-bench", "{\"schema\":\"gridsmith.zoo-bench-kernel/1\",\"id\":"},
    };
    for (size_t i = 0; i < GS_COUNT(commands) && command; i++)
        if (strcmp(commands[i].command, command) == 0)
            return commands[i].begin;
    return NULL;
}

bool gs_is_campaign_run(const char *begin, int64_t number, const char *line, size_t count) {
    char wanted[120];
    int length = snprintf(wanted, sizeof wanted, "%s%lld,", begin, (long long)number);
    return count >= (size_t)length && memcmp(line, wanted, (size_t)length) == 0;
}

/* ---- reading the line ---- */

/* Whether the line has the values read from it in their places, exactly as written. */
static bool is_as_written(const char *line, size_t count, const gs_campaign_read *read) {
    char wanted[100];
    snprintf(wanted, sizeof wanted, ",\"count\":%lld,\"shard\":[%lld,%lld],\"gpus\":[", (long long)read->count,
             (long long)read->shard.number, (long long)read->shard.of);
    return memmem(line, count, wanted, strlen(wanted)) && line[count - 1] == '\n';
}

bool gs_campaign_line_read(const char *line, size_t count, gs_campaign_read *read) {
    json_t *root = gs_is_campaign_line(line, count) ? json_loadb(line, count, JSON_REJECT_DUPLICATES, NULL) : NULL;
    json_t *shard = json_object_get(root, "shard");
    read->count = json_integer_value(json_object_get(root, "count"));
    read->shard.number = json_integer_value(json_array_get(shard, 0));
    read->shard.of = json_integer_value(json_array_get(shard, 1));
    read->begin = gs_campaign_run_begin(json_string_value(json_object_get(root, "command")));
    bool is_read = root && read->begin && read->count > 0 && read->shard.of > 0 && read->shard.of <= GS_MOST_SHARDS &&
                   read->shard.number > 0 && read->shard.number <= read->shard.of && is_as_written(line, count, read);
    json_decref(root);
    return is_read;
}
