/*
 * merge.c: merges the files of a campaign's shards into the file that a single process would have written.
 *
 * Each file is checked first: its campaign, its shard, and whether its runs are complete and in order. The runs are
 * copied, shard by shard, only if no shard is missing, duplicate or foreign. The first line lists the GPUs of all
 * shards. A file is read through one buffer of fixed size, whatever the length of its lines. Only the number and the
 * end of each run are checked; readers of the runs check the rest.
 */
#include "campaign.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 1 << 20, MOST_GPUS = 10000 }; /* lines up to the length of the buffer are passed whole */

struct part {
    char *path, *name; /* of the file; for messages */
    char *line;        /* its campaign header */
    const char *begin; /* of the line of a run */
    gs_shard shard;
    int64_t count; /* runs of the whole campaign */
};

struct parts {
    struct part *data;
    size_t count, capacity;
    char *buffer;
    json_t *gpus; /* of all parts, without duplicates */
    gs_merged *merged;
};

#define COMPLAIN(parts, ...) gs_text_add(&(parts)->merged->complaints, __VA_ARGS__)

/* ---- the lines of a file ---- */

/* A line, or a piece of one that is longer than the buffer. */
struct piece {
    const char *bytes;
    size_t count;
    bool begins, ends; /* ends: with a newline */
};

/* Returns false to stop. */
typedef bool piece_function(void *user, const struct piece *piece);

/* Passes on the complete lines in the buffer, and the piece of a line that fills it. Returns the size of the rest,
   which is moved to the front; SIZE_MAX: stopped. */
static size_t pass_lines(char *buffer, size_t count, bool *begins, piece_function *function, void *user) {
    size_t at = 0;
    while (at < count) {
        const char *newline = memchr(buffer + at, '\n', count - at);
        if (!newline && (at || count < BUFFER))
            break;
        size_t length = newline ? (size_t)(newline - buffer) + 1 - at : count;
        if (!function(user, &(struct piece){buffer + at, length, *begins, newline != NULL}))
            return SIZE_MAX;
        *begins = newline != NULL;
        at += length;
    }
    memmove(buffer, buffer + at, count - at);
    return count - at;
}

static gs_code read_lines(const char *path, int file, char *buffer, piece_function *function, void *user,
                          gs_error *error) {
    size_t left = 0;
    bool begins = true;
    ssize_t more;
    while ((more = read(file, buffer + left, BUFFER - left)) != 0) {
        if (more < 0 && errno != EINTR)
            return gs_fail_system(error, "read", path);
        left = pass_lines(buffer, left + (size_t)gs_max(more, 0), &begins, function, user);
        if (left == SIZE_MAX)
            return GS_OK;
    }
    if (left)
        function(user, &(struct piece){buffer, left, begins, false});
    return GS_OK;
}

/* ---- checking a file ---- */

struct look {
    struct parts *parts;
    struct part *part;
    int64_t lines, runs, first, wanted;
};

/* Adds GPUs that are not listed yet. False: implausibly many, so it would take too long. */
static bool add_gpus(struct parts *parts, const json_t *gpus) {
    size_t i, k;
    json_t *gpu, *known;
    if (json_array_size(gpus) > MOST_GPUS)
        return false;
    json_array_foreach(gpus, i, gpu) {
        bool is_known = false;
        json_array_foreach(parts->gpus, k, known) {
            is_known |= json_equal(known, gpu);
        }
        if (!is_known)
            json_array_append(parts->gpus, gpu);
    }
    return json_array_size(parts->gpus) <= MOST_GPUS;
}

/* Adds the GPUs of a campaign header. */
static bool add_gpus_of(struct parts *parts, const struct piece *piece) {
    json_t *root = json_loadb(piece->bytes, piece->count, 0, NULL);
    bool are_added = add_gpus(parts, json_object_get(root, "gpus"));
    json_decref(root);
    return are_added;
}

/* Reads the first line of a file: its shard. False: it is not the file of a shard. */
static bool read_first(struct look *look, const struct piece *piece) {
    struct part *part = look->part;
    gs_campaign_read read;
    if (!gs_campaign_line_read(piece->bytes, piece->count, &read))
        return false;
    part->line = strndup(piece->bytes, piece->count);
    part->count = read.count;
    part->shard = read.shard;
    part->begin = read.begin;
    look->first = gs_shard_begin(&part->shard, part->count);
    look->wanted = gs_shard_count(&part->shard, part->count);
    return part->line && add_gpus_of(look->parts, piece);
}

/* Why the first line is not one that this version writes. */
static void complain_of_first(struct look *look, const struct piece *piece) {
    static const char family[] = "{\"schema\":\"gridsmith.campaign/";
    static const char torn[] = "{\"schema\":\"" GS_CAMPAIGN_SCHEMA "\"";
    bool is_torn = !piece->ends && memcmp(piece->bytes, torn, gs_min_u64(piece->count, sizeof torn - 1)) == 0;
    bool is_newer = piece->count > sizeof family && memcmp(piece->bytes, family, sizeof family - 1) == 0 &&
                    !gs_is_campaign_line(piece->bytes, piece->count);
    COMPLAIN(look->parts, "%s: %s\n", look->part->name,
             is_torn    ? "incomplete, no runs: play it with --resume"
             : is_newer ? "written by a newer version of gridsmith"
                        : "not the file of a campaign");
}

/* A campaign header inside a file: another GPU played the runs after it. */
static bool read_more(struct look *look, const struct piece *piece) {
    gs_campaign_read read;
    char *line = gs_campaign_line_read(piece->bytes, piece->count, &read) ? strndup(piece->bytes, piece->count) : NULL;
    bool is_same = line && gs_campaign_line_same(look->part->line, line, "gpus") && add_gpus_of(look->parts, piece);
    free(line);
    return is_same;
}

static bool is_next_run(const struct look *look, const struct piece *piece) {
    return look->runs < look->wanted &&
           gs_is_campaign_run(look->part->begin, look->first + look->runs, piece->bytes, piece->count);
}

/* Checks the beginning of a line. An incomplete last line is no complaint while runs are missing: --resume continues
   there. */
static bool begin_line(struct look *look, const struct piece *piece) {
    look->lines++;
    if (look->lines == 1) {
        if (read_first(look, piece))
            return true;
        complain_of_first(look, piece);
        return false;
    }
    bool is_about = gs_is_campaign_line(piece->bytes, piece->count);
    bool is_torn = !piece->ends && piece->count < BUFFER && look->runs < look->wanted;
    if (is_torn || (is_about ? read_more(look, piece) : is_next_run(look, piece)))
        return true;
    COMPLAIN(look->parts, "%s: line %lld is not the next run of this shard\n", look->part->name,
             (long long)look->lines);
    return false;
}

static bool look_at_piece(void *user, const struct piece *piece) {
    struct look *look = user;
    if (piece->begins && !begin_line(look, piece))
        return false;
    if (!piece->ends || look->lines == 1 || (piece->begins && gs_is_campaign_line(piece->bytes, piece->count)))
        return true;
    look->runs++;
    if (piece->count >= 2 && piece->bytes[piece->count - 2] == '}')
        return true;
    COMPLAIN(look->parts, "%s: line %lld is damaged\n", look->part->name, (long long)look->lines);
    look->runs = look->wanted;
    return false;
}

static void look_at_end(struct look *look) {
    const struct part *part = look->part;
    if (!look->lines)
        COMPLAIN(look->parts, "%s: empty: play it with --resume\n", part->name);
    else if (part->line && look->runs < look->wanted)
        COMPLAIN(look->parts, "%s: incomplete, %lld of %lld runs: play it with --resume\n", part->name,
                 (long long)look->runs, (long long)look->wanted);
    look->parts->merged->runs += look->runs;
}

/* Opens a plain file; other files could block, or be endless. */
static int open_plain(const char *path, bool *is_plain) {
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *is_plain = file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    return file;
}

/* Checks a file. Errors in it are complaints. */
static gs_code look_at(struct parts *parts, struct part *part, gs_error *error) {
    struct look look = {.parts = parts, .part = part};
    size_t before = parts->merged->complaints.count;
    bool is_plain;
    int file = open_plain(part->path, &is_plain);
    if (file < 0)
        return gs_fail_system(error, "read", part->path);
    gs_code code = GS_OK;
    if (is_plain)
        code = read_lines(part->path, file, parts->buffer, look_at_piece, &look, error);
    else
        COMPLAIN(parts, "%s: not a plain file\n", part->name);
    if (code == GS_OK && parts->merged->complaints.count == before)
        look_at_end(&look);
    close(file);
    return code;
}

static gs_code add_file(struct parts *parts, const char *path, gs_error *error) {
    if (!GS_RESERVE(parts, 1))
        return gs_fail_memory(error);
    struct part *part = &parts->data[parts->count];
    *part = (struct part){.path = strdup(path), .name = strdup(path)};
    parts->count++;
    if (!part->path || !part->name)
        return gs_fail_memory(error);
    gs_make_printable(part->name);
    return look_at(parts, part, error);
}

/* ---- the files of folders ---- */

static int is_shard_name(const struct dirent *entry) {
    const char *end = strrchr(entry->d_name, '.');
    return strstr(entry->d_name, "-shard") && end && strcmp(end, ".jsonl") == 0;
}

static gs_code add_folder(struct parts *parts, const char *folder, gs_error *error) {
    struct dirent **names;
    char path[4200];
    gs_code code = GS_OK;
    int count = scandir(folder, &names, is_shard_name, alphasort);
    if (count < 0)
        return gs_fail_system(error, "read", folder);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (code == GS_OK)
            code = add_file(parts, path, error);
        free(names[i]);
    }
    free(names);
    if (code == GS_OK && !count)
        COMPLAIN(parts, "%s: no shard in this folder\n", folder);
    return code;
}

static gs_code add_path(struct parts *parts, const char *path, gs_error *error) {
    struct stat status;
    if (stat(path, &status) != 0)
        return gs_fail_read(error, path);
    return S_ISDIR(status.st_mode) ? add_folder(parts, path, error) : add_file(parts, path, error);
}

/* ---- checking all files together ---- */

GS_ORDER(compare_parts, struct part, shard.number)

static void complain_of_missing(struct parts *parts, int64_t first, int64_t last, int64_t of) {
    if (first == last)
        COMPLAIN(parts, "shard %lld of %lld is missing\n", (long long)first, (long long)of);
    else if (first < last)
        COMPLAIN(parts, "shards %lld to %lld of %lld are missing\n", (long long)first, (long long)last, (long long)of);
}

/* Whether a part is of the same campaign as the first, with the same number of shards. */
static bool is_related(struct parts *parts, const struct part *part) {
    const struct part *first = &parts->data[0];
    gs_campaign_difference difference;
    if (part->shard.of != first->shard.of) {
        COMPLAIN(parts, "%s: one of %lld shards, but %s is one of %lld\n", part->name, (long long)part->shard.of,
                 first->name, (long long)first->shard.of);
        return false;
    }
    if (gs_campaign_line_same(first->line, part->line, "shard"))
        return true;
    gs_campaign_line_differ(first->line, part->line, &difference);
    COMPLAIN(parts, "%s: of another campaign than %s: \"%s\" is %s, not %s\n", part->name, first->name, difference.key,
             difference.two, difference.one);
    return false;
}

static void check_together(struct parts *parts) {
    qsort(parts->data, parts->count, sizeof *parts->data, compare_parts);
    int64_t next = 1, of = parts->data[0].shard.of;
    for (size_t i = 0; i < parts->count; i++) {
        const struct part *part = &parts->data[i];
        if (!is_related(parts, part))
            continue;
        complain_of_missing(parts, next, part->shard.number - 1, of);
        if (next > part->shard.number)
            COMPLAIN(parts, "%s: duplicate of shard %lld\n", part->name, (long long)part->shard.number);
        next = part->shard.number + 1;
    }
    complain_of_missing(parts, next, of, of);
}

/* ---- writing ---- */

/* The first line of the merged file: that of a shard, with the GPUs of all. */
static gs_code write_line(const struct parts *parts, FILE *file, gs_error *error) {
    const char *line = parts->data[0].line, *shard = strstr(line, ",\"shard\":[");
    char *gpus = json_dumps(parts->gpus, JSON_COMPACT);
    if (!gpus)
        return gs_fail_memory(error);
    fprintf(file, "%.*s,\"shard\":[1,1],\"gpus\":%s}\n", (int)(shard - line), line, gpus);
    free(gpus);
    return GS_OK;
}

struct copy {
    FILE *output;
    bool is_skipping; /* a campaign header */
    int64_t runs;     /* copied */
};

static bool copy_piece(void *user, const struct piece *piece) {
    struct copy *copy = user;
    if (piece->begins)
        copy->is_skipping = gs_is_campaign_line(piece->bytes, piece->count);
    if (copy->is_skipping)
        return true;
    copy->runs += piece->ends;
    return fwrite(piece->bytes, 1, piece->count, copy->output) == piece->count;
}

static gs_code copy_runs(const struct parts *parts, const struct part *part, FILE *output, gs_error *error) {
    struct copy copy = {.output = output};
    bool is_plain;
    int file = open_plain(part->path, &is_plain);
    if (file < 0)
        return gs_fail_system(error, "read", part->path);
    gs_code code = read_lines(part->path, file, parts->buffer, copy_piece, &copy, error);
    close(file);
    if (code == GS_OK && !ferror(output) && copy.runs != gs_shard_count(&part->shard, part->count))
        code = gs_fail(error, GS_E_IO, "%.200s was changed while it was read", part->path);
    return code;
}

static gs_code write_all(const struct parts *parts, const char *path, gs_error *error) {
    gs_output output;
    gs_code code = gs_output_open(&output, path, error);
    if (code != GS_OK)
        return code;
    code = write_line(parts, output.file, error);
    for (size_t i = 0; i < parts->count && code == GS_OK; i++)
        code = copy_runs(parts, &parts->data[i], output.file, error);
    if (code == GS_OK)
        return gs_output_keep(&output, error);
    gs_output_drop(&output);
    return code;
}

static void free_parts(struct parts *parts) {
    for (size_t i = 0; i < parts->count; i++) {
        free(parts->data[i].path);
        free(parts->data[i].name);
        free(parts->data[i].line);
    }
    free(parts->data);
    free(parts->buffer);
    json_decref(parts->gpus);
}

gs_code gs_merge(const char *const *paths, size_t count, const char *output, gs_merged *merged, gs_error *error) {
    struct parts parts = {.gpus = json_array(), .buffer = malloc(BUFFER), .merged = merged};
    *merged = (gs_merged){0};
    gs_code code = parts.gpus && parts.buffer ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; i < count && code == GS_OK; i++)
        code = add_path(&parts, paths[i], error);
    merged->shards = (int64_t)parts.count;
    if (code == GS_OK && !merged->complaints.count && parts.count)
        check_together(&parts);
    if (code == GS_OK && !merged->complaints.count)
        code = write_all(&parts, output, error);
    free_parts(&parts);
    return code;
}
