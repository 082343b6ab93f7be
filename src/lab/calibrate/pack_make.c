/*
 * pack_make.c: measures a GPU and writes all observations to a file, the pack.
 *
 * First comes the survey of `gridsmith probe`: the pack is the tape on which it plays (pack_tape.c). Then random runs
 * of every class follow for the held-out part. Each line is written to PATH.part as soon as its run is done. When all
 * are complete, they become the pack, compressed, and PATH.part is removed.
 *
 * The UUID of the GPU is in the pack only if the user wants it there. So that PATH.part is continued only on the same
 * GPU, its first line has a digest of the UUID, which does not go into the pack.
 */
#include "pack_tape.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct session {
    gs_device *device;
    const gs_pack_options *options;
    gs_packed *packed;
    gs_gpu_pack *pack; /* the contents of PATH.part */
    gs_tape tape;
    char *part; /* the name of PATH.part */
    gs_text head;
    int64_t begin_ns;
};

static void report_step(const struct session *session, const char *step, int64_t done, int64_t total) {
    if (session->options->progress)
        session->options->progress(session->options->user, step, done, total);
}

static double seconds_since(const struct session *session) {
    return (double)(gs_now_ns() - session->begin_ns) / 1e9;
}

/* ---- the first line ---- */

static void hash_uuid(const char *uuid, char hex[65]) {
    unsigned char digest[32];
    gs_digest hash;
    gs_digest_begin(&hash);
    gs_digest_add_text(&hash, "gridsmith pack");
    gs_digest_add_text(&hash, uuid);
    gs_digest_end(&hash, digest);
    gs_digest_hex(digest, hex);
}

/* `is_part`: with the digest of the UUID. The description is that of the device, without a UUID. */
static void put_head(const struct session *session, bool is_part, gs_text *line) {
    const gs_device *device = session->device;
    const gs_pack_options *options = session->options;
    gs_writer writer = gs_writer_to(line);
    gs_text text = {0};
    char same[65];
    gs_gpu gpu = *device->gpu;
    gpu.uuid = NULL;
    gs_gpu_text(&gpu, &text);
    gs_write_document(&writer, GS_PACK_SCHEMA);
    gs_write_string(&writer, "version", GS_VERSION);
    gs_write_string(&writer, "device", device->ops->name);
    if (device->driver[0])
        gs_write_string(&writer, "driver", device->driver);
    if (device->uuid[0] && options->has_uuid)
        gs_write_string(&writer, "uuid", device->uuid);
    gs_write_optional(&writer, "name", options->name);
    gs_write_int(&writer, "clusters", device->clusters);
    gs_write_uint(&writer, "seed", options->seed);
    gs_write_int(&writer, "runs", options->runs);
    gs_write_int(&writer, "held_out", options->held_out);
    gs_write_raw(&writer, "gpu", text.data ? text.data : "null");
    if (is_part) {
        hash_uuid(device->uuid, same);
        gs_write_string(&writer, "same_gpu", same);
    }
    gs_write_finish(&writer);
    line->failed |= text.failed;
    gs_text_free(&text);
}

/* ---- PATH.part ---- */

gs_code gs_pack_check_absent(const char *path, gs_error *error) {
    struct stat status;
    if (lstat(path, &status) == 0)
        return gs_fail(error, GS_E_USAGE, "%.200s exists already: name another file", path);
    return GS_OK;
}

static gs_code open_part(struct session *session, gs_error *error) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat status;
    int file = session->tape.file = open(session->part, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file < 0 || fstat(file, &status) != 0)
        return gs_fail_system(error, "write", session->part);
    if (!S_ISREG(status.st_mode))
        return gs_fail(error, GS_E_USAGE, "%.200s is not a plain file", session->part);
    if (fcntl(file, F_SETLK, &lock) != 0)
        return gs_fail(error, GS_E_USAGE, "%.200s is being written by another process", session->part);
    return GS_OK;
}

static gs_code check_same(const struct session *session, gs_error *error) {
    char *bytes = NULL;
    size_t count = 0;
    gs_code code = gs_input_all(session->part, (size_t)1 << 30, &bytes, &count, error);
    if (code == GS_OK && (count < session->head.count || memcmp(bytes, session->head.data, session->head.count) != 0))
        code = gs_fail(error, GS_E_USAGE,
                       "%.200s was made on another GPU, or with other settings or another version: remove it, or name "
                       "another file",
                       session->part);
    free(bytes);
    return code;
}

/* A lock belongs to the process, and closing any descriptor of the file releases it. So PATH.part is read first. */
static gs_code read_part(struct session *session, gs_error *error) {
    struct stat status;
    if (stat(session->part, &status) != 0 || !status.st_size)
        return GS_OK;
    gs_code code = check_same(session, error);
    if (code != GS_OK)
        return code;
    session->pack = gs_pack_read(session->part, true, error);
    return session->pack ? GS_OK : error->code;
}

/* A pack without runs. */
static gs_code begin_pack(struct session *session, gs_error *error) {
    gs_gpu_pack *pack = session->pack = calloc(1, sizeof *pack);
    if (!pack)
        return gs_fail_memory(error);
    pack->clusters = session->device->clusters;
    pack->version = strdup(GS_VERSION);
    pack->driver = session->device->driver[0] ? strdup(session->device->driver) : NULL;
    pack->uuid = session->options->has_uuid && session->device->uuid[0] ? strdup(session->device->uuid) : NULL;
    pack->gpu = gs_gpu_copy(session->device->gpu, error);
    return pack->gpu && pack->version ? GS_OK : gs_fail_memory(error);
}

static gs_code begin_file(struct session *session, gs_error *error) {
    size_t whole = session->pack->whole_bytes;
    if (ftruncate(session->tape.file, (off_t)whole) != 0)
        return gs_fail_system(error, "write", session->part);
    if (whole)
        return GS_OK;
    gs_text line = session->head;
    line.count--; /* its newline */
    return gs_tape_add_line(&session->tape, &line, error);
}

static gs_code open_session(struct session *session, gs_error *error) {
    put_head(session, true, &session->head);
    gs_code code = session->head.failed ? gs_fail_memory(error) : gs_pack_check_absent(session->options->path, error);
    if (code == GS_OK)
        code = read_part(session, error);
    if (code == GS_OK && !session->pack)
        code = begin_pack(session, error);
    if (code != GS_OK)
        return code;
    gs_tape_init(&session->tape, session->pack, session->device);
    session->tape.has_classes = true;
    session->tape.path = session->part;
    code = open_part(session, error);
    return code == GS_OK ? begin_file(session, error) : code;
}

/* ---- the survey ---- */

/* While runs come from the tape, they give the progress of the survey. */
static bool survey_is_late(void *user) {
    const struct session *session = user;
    const gs_gpu_pack *pack = session->pack;
    if (session->tape.at < pack->items.count)
        return pack->items.data[session->tape.at].is_held_out;
    return pack->has_held_out || seconds_since(session) > (double)session->options->seconds / 2;
}

static void survey_progress(void *user, const char *step, int64_t done, int64_t total) {
    report_step(user, step, done, total);
}

static gs_code make_survey(struct session *session, gs_error *error) {
    gs_survey_options request = {.name = session->options->name,
                                 .date = session->options->date,
                                 .runs = session->options->runs,
                                 .seed = session->options->seed,
                                 .is_late = survey_is_late,
                                 .progress = survey_progress,
                                 .user = session};
    return gs_survey_run(&session->tape.device, &request, &session->packed->survey, error);
}

/* ---- the held-out part ---- */

static gs_code mark_held_out(struct session *session, gs_error *error) {
    gs_text line = {0};
    if (session->pack->has_held_out)
        return GS_OK;
    gs_text_add(&line, "{\"part\":\"held_out\"}");
    gs_code code = gs_tape_add_line(&session->tape, &line, error);
    gs_text_free(&line);
    return code;
}

/* The generator may draw a kernel that never fits. */
static bool can_fit(const struct session *session, const gs_run *script) {
    gs_error error = {.code = GS_OK};
    gs_run *predicted = gs_predict(session->packed->survey.gpu, script, NULL, &error);
    gs_run_free(predicted);
    return predicted || error.code != GS_E_NO_FIT;
}

static bool is_failure(gs_code code) {
    return code == GS_E_IO || code == GS_E_MEMORY || code == GS_E_FORMAT;
}

/* Plays one run. After a refusal, no further run of that class is tried. */
static gs_code play_one(struct session *session, const char *class_name, uint64_t index, bool *is_refused,
                        gs_error *error) {
    static const gs_play_options patient = {.patient = true};
    gs_bounds bounds = gs_device_bounds(session->device);
    gs_run *script = gs_generate(&bounds, class_name, session->options->seed + 1, index, error), *run = NULL;
    bool can = script && can_fit(session, script);
    if (can)
        run = gs_device_play(&session->tape.device, script, &patient, error);
    gs_run_free(script);
    gs_run_free(run);
    session->packed->held_out += run != NULL;
    *is_refused = can && !run;
    if (!script || (can && !run && is_failure(error->code)))
        return error->code;
    *error = (gs_error){.code = GS_OK};
    return GS_OK;
}

static gs_code play_held_out(struct session *session, gs_error *error) {
    enum { MOST_CLASSES = 32 };
    bool refuses[MOST_CLASSES] = {false};
    const char *names[MOST_CLASSES];
    size_t classes = 0;
    const char *name;
    for (size_t i = 0; (name = gs_class_name(i)) && classes < MOST_CLASSES; i++)
        if (!gs_class_needs_contexts(name) && !gs_class_has_copies(name))
            names[classes++] = name;
    gs_code code = mark_held_out(session, error);
    for (uint64_t i = 0; (int64_t)i < session->options->held_out && code == GS_OK; i++) {
        bool is_on_tape = session->tape.at < session->pack->items.count;
        if (!is_on_tape && seconds_since(session) > (double)session->options->seconds)
            break;
        report_step(session, "held-out runs", (int64_t)i, session->options->held_out);
        if (!refuses[i % classes])
            code = play_one(session, names[i % classes], i, &refuses[i % classes], error);
    }
    return code;
}

/* ---- the pack ---- */

static void put_end(const struct session *session, gs_text *text) {
    unsigned char digest[32];
    char hex[65];
    gs_digest hash;
    int64_t lines = 0;
    for (size_t i = 0; i < text->count; i++)
        lines += text->data[i] == '\n';
    gs_digest_begin(&hash);
    gs_digest_add(&hash, text->data, text->count);
    gs_digest_end(&hash, digest);
    gs_digest_hex(digest, hex);
    gs_text_add(text, "{\"end\":%lld,", (long long)lines);
    if (session->options->date)
        gs_text_add(text, "\"date\":\"%s\",", session->options->date);
    gs_text_add(text, "\"sha256\":\"%s\"}\n", hex);
}

/* The lines of PATH.part with another first line. Reading it releases its lock, but it is complete by now. */
static gs_code write_pack(struct session *session, gs_error *error) {
    gs_text text = {0};
    char *bytes = NULL;
    size_t count = 0;
    struct stat status;
    report_step(session, "writing the pack", 0, 0);
    gs_code code = gs_input_all(session->part, (size_t)1 << 30, &bytes, &count, error);
    if (code == GS_OK) {
        put_head(session, false, &text);
        gs_text_put(&text, bytes + session->head.count, count - session->head.count);
        put_end(session, &text);
        code =
            text.failed ? gs_fail_memory(error) : gs_output_gzip(session->options->path, text.data, text.count, error);
    }
    if (code == GS_OK && stat(session->options->path, &status) == 0)
        session->packed->bytes = status.st_size;
    if (code == GS_OK)
        unlink(session->part);
    gs_text_free(&text);
    free(bytes);
    return code;
}

static void count_runs(struct session *session) {
    gs_packed *packed = session->packed;
    for (size_t i = 0; i < session->pack->items.count; i++) {
        packed->from_part += session->pack->items.data[i].run != NULL;
        packed->refused += session->pack->items.data[i].run == NULL;
    }
    packed->runs = packed->from_part + session->tape.added;
    packed->refused += session->tape.refused;
}

gs_code gs_pack_make(gs_device *device, const gs_pack_options *options, gs_packed *packed, gs_error *error) {
    static gs_code (*const steps[])(struct session *, gs_error *) = {open_session, make_survey, play_held_out,
                                                                     write_pack};
    struct session session = {
        .device = device, .options = options, .packed = packed, .begin_ns = gs_now_ns(), .tape.file = -1};
    gs_text part = {0};
    *packed = (gs_packed){0};
    gs_text_add(&part, "%s.part", options->path);
    session.part = part.data;
    gs_code code = part.failed ? gs_fail_memory(error) : GS_OK;
    for (size_t i = 0; i < GS_COUNT(steps) && code == GS_OK; i++)
        code = steps[i](&session, error);
    if (session.pack)
        count_runs(&session);
    gs_tape_clear(&session.tape);
    gs_pack_free(session.pack);
    gs_text_free(&session.head);
    gs_text_free(&part);
    return code;
}

void gs_packed_clear(gs_packed *packed) {
    gs_survey_clear(&packed->survey);
    *packed = (gs_packed){0};
}
