/*
 * submission.c: the folder of a campaign in shards, and its description, campaign.json (gridsmith.submission/1).
 */
#include "campaign.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCHEMA "gridsmith.submission/1"

const char *const gs_scheduler_names[GS_SCHEDULERS] = {"local", "slurm", "kubernetes", "parallel"};

/* ---- the command ---- */

/* An option may be followed by its value: --output=FILE, -oFILE. */
static bool has_word(const char *const *arguments, size_t count, const char *word) {
    size_t length = strlen(word);
    bool is_letter = word[0] == '-' && word[1] != '-';
    for (size_t i = 0; i < count; i++)
        if (strncmp(arguments[i], word, length) == 0 &&
            (is_letter || !arguments[i][length] || arguments[i][length] == '='))
            return true;
    return false;
}

/* The argument that makes a command a list of independent runs. */
static const struct {
    const char *command, *word, *mistake;
} sharded[] = {
    {"fuzz", NULL, NULL},
    {"record", NULL, NULL},
    {"bound", "--measure", "'bound' needs --measure to be a list of runs"},
    {"zoo", "bench", "only 'zoo bench' is a list of runs"},
};

/* The device that the arguments name, or "". */
static const char *device_of(const char *const *arguments, size_t count) {
    static const char *const options[] = {"--device", "--measure", "--on"};
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < GS_COUNT(options); k++) {
            size_t length = strlen(options[k]);
            if (strncmp(arguments[i], options[k], length) != 0)
                continue;
            if (arguments[i][length] == '=')
                return arguments[i] + length + 1;
            if (!arguments[i][length] && i + 1 < count)
                return arguments[i + 1];
        }
    return "";
}

/* Each shard gets one GPU, the first one that it sees. */
static gs_code check_device(const char *device, gs_error *error) {
    if (strncmp(device, "cuda:", 5) != 0 || device[5] == '0')
        return GS_OK;
    return gs_fail(error, GS_E_USAGE, "write cuda, not %.40s: the campaign chooses the GPU of each shard", device);
}

gs_code gs_check_sharded(const char *const *arguments, size_t count, gs_error *error) {
    static const char *const own[] = {"--shard", "--output", "-o", "--out", "--resume"};
    static const char *const files[] = {"--html", "--index"};
    size_t row = 0;
    while (count && row < GS_COUNT(sharded) && strcmp(sharded[row].command, arguments[0]) != 0)
        row++;
    if (!count || row == GS_COUNT(sharded))
        return gs_fail(error, GS_E_USAGE, "give a command that is a list of runs: fuzz, record, bound or zoo%s%.40s%s",
                       count ? ", not \"" : "", count ? arguments[0] : "", count ? "\"" : "");
    if (sharded[row].word && !has_word(arguments, count, sharded[row].word))
        return gs_fail(error, GS_E_USAGE, "%s", sharded[row].mistake);
    for (size_t i = 0; i < GS_COUNT(own); i++)
        if (has_word(arguments, count, own[i]))
            return gs_fail(error, GS_E_USAGE, "leave out %s: the campaign gives it to each shard", own[i]);
    for (size_t i = 0; i < GS_COUNT(files); i++)
        if (has_word(arguments, count, files[i]))
            return gs_fail(error, GS_E_USAGE, "leave out %s: it applies to the whole campaign, not to a shard",
                           files[i]);
    return check_device(device_of(arguments, count), error);
}

bool gs_submission_needs_gpu(const gs_submission *submission) {
    const char *const *arguments = (const char *const *)submission->arguments.data;
    return strncmp(device_of(arguments, submission->arguments.count), "cuda", 4) == 0;
}

/* ---- writing ---- */

static void put_description(gs_text *text, const gs_submission *submission) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, SCHEMA);
    gs_write_string(&writer, "version", GS_VERSION);
    gs_write_string(&writer, "on", gs_scheduler_names[submission->on]);
    gs_write_int(&writer, "shards", submission->shards);
    gs_write_optional(&writer, "folder", submission->start);
    gs_write_array(&writer, "arguments");
    for (size_t i = 0; i < submission->arguments.count; i++)
        gs_write_string(&writer, NULL, submission->arguments.data[i]);
    gs_write_end(&writer);
    gs_write_array(&writer, "jobs");
    for (size_t i = 0; i < submission->jobs.count; i++)
        gs_write_int(&writer, NULL, submission->jobs.data[i]);
    gs_write_end(&writer);
    gs_write_finish(&writer);
}

static gs_code write_description(const gs_submission *submission, gs_error *error) {
    gs_text path = {0}, text = {0};
    gs_output output;
    gs_text_add(&path, "%s/campaign.json", submission->path);
    put_description(&text, submission);
    gs_code code = path.failed || text.failed ? gs_fail_memory(error) : gs_output_open(&output, path.data, error);
    if (code == GS_OK) {
        fwrite(text.data, 1, text.count, output.file);
        code = gs_output_keep(&output, error);
    }
    gs_text_free(&path);
    gs_text_free(&text);
    return code;
}

gs_code gs_submission_make(const gs_submission *submission, gs_error *error) {
    static const char *const folders[] = {"", "/shards", "/logs"};
    gs_text path = {0};
    gs_code code = GS_OK;
    gs_text_add(&path, "%s/campaign.json", submission->path);
    if (!path.failed && access(path.data, F_OK) == 0)
        code = gs_fail(error, GS_E_USAGE, "%.200s has a campaign already: 'gridsmith campaign resume' continues it",
                       submission->path);
    for (size_t i = 0; i < GS_COUNT(folders) && code == GS_OK; i++) {
        gs_text_clear(&path);
        gs_text_add(&path, "%s%s", submission->path, folders[i]);
        if (path.failed)
            code = gs_fail_memory(error);
        else if (mkdir(path.data, 0777) != 0 && errno != EEXIST)
            code = gs_fail_system(error, "make the folder", path.data);
    }
    gs_text_free(&path);
    return code == GS_OK ? write_description(submission, error) : code;
}

/* Whether a folder of the campaign has no files. */
static bool is_empty_folder(const gs_submission *submission, const char *name) {
    gs_text path = {0};
    size_t files = 0;
    gs_text_add(&path, "%s/%s", submission->path, name);
    DIR *folder = path.failed ? NULL : opendir(path.data);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        files += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    bool is_empty = folder && !files;
    if (folder)
        closedir(folder);
    gs_text_free(&path);
    return is_empty;
}

void gs_submission_discard(const gs_submission *submission) {
    if (is_empty_folder(submission, "shards") && is_empty_folder(submission, "logs"))
        gs_folder_remove(submission->path);
}

gs_code gs_submission_add_job(gs_submission *submission, int64_t job, gs_error *error) {
    if (!GS_PUSH(&submission->jobs, job))
        return gs_fail_memory(error);
    return write_description(submission, error);
}

/* ---- reading ---- */

static const gs_field fields[] = {
    {"schema", GS_FIELD_OTHER, true, 0, 0, 0},
    {"version", GS_FIELD_OTHER, true, 0, 0, 0},
    {"on", GS_FIELD_OTHER, true, 0, 0, 0},
    {"shards", GS_FIELD_INT64, true, offsetof(gs_submission, shards), 1, GS_MOST_SHARDS},
    {"folder", GS_FIELD_NAME, false, offsetof(gs_submission, start), 0, 0},
    {"arguments", GS_FIELD_OTHER, true, 0, 0, 0},
    {"jobs", GS_FIELD_OTHER, true, 0, 0, 0},
};

/* Only the version that made the folder plays it: another one could write different files. */
static gs_code read_version(const gs_json *json, const gs_step *root, gs_error *error) {
    gs_step version = gs_step_key(root, "version");
    const char *text = json_string_value(version.value);
    if (text && strcmp(text, GS_VERSION) == 0)
        return GS_OK;
    return gs_json_fail(json, &version, false, error, "submitted with version %.40s of gridsmith; this is version %s",
                        text ? text : "(none)", GS_VERSION);
}

static gs_code read_scheduler(const gs_json *json, const gs_step *root, gs_submission *submission, gs_error *error) {
    gs_step on = gs_step_key(root, "on");
    const char *name = json_string_value(on.value);
    for (int i = 0; i < GS_SCHEDULERS && name; i++)
        if (strcmp(gs_scheduler_names[i], name) == 0) {
            submission->on = (gs_scheduler)i;
            return GS_OK;
        }
    return gs_json_fail(json, &on, false, error, "\"on\" must be local, slurm, kubernetes or parallel");
}

static gs_code read_arguments(const gs_json *json, const gs_step *root, gs_submission *submission, gs_error *error) {
    gs_step list = gs_step_key(root, "arguments");
    size_t count = json_array_size(list.value);
    if (!GS_RESERVE(&submission->arguments, count + 1))
        return gs_fail_memory(error);
    for (size_t i = 0; i < count; i++) {
        gs_step word = gs_step_index(&list, i);
        const char *text = json_string_value(word.value);
        if (!text)
            return gs_json_fail(json, &word, false, error, "an argument must be a string");
        if (!(submission->arguments.data[i] = strdup(text)))
            return gs_fail_memory(error);
        submission->arguments.count++;
    }
    submission->arguments.data[count] = NULL;
    gs_error mistake;
    if (gs_check_sharded((const char *const *)submission->arguments.data, count, &mistake) != GS_OK)
        return gs_json_fail(json, &list, false, error, "%s", mistake.message);
    return GS_OK;
}

static gs_code read_jobs(const gs_json *json, const gs_step *root, gs_submission *submission, gs_error *error) {
    gs_step list = gs_step_key(root, "jobs");
    size_t count = json_array_size(list.value);
    gs_code code = GS_RESERVE(&submission->jobs, count + 1) ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        gs_step job = gs_step_index(&list, i);
        code = gs_json_int(json, &job, 1, INT64_MAX, &submission->jobs.data[i], error);
        submission->jobs.count += code == GS_OK;
    }
    return code;
}

static gs_code read_description(const gs_json *json, gs_submission *submission, gs_error *error) {
    gs_step root = gs_step_root(json);
    gs_code code = gs_json_schema(json, &root, SCHEMA, error);
    if (code == GS_OK)
        code = gs_json_object(json, &root, fields, GS_COUNT(fields), submission, error);
    if (code == GS_OK)
        code = read_version(json, &root, error);
    if (code == GS_OK)
        code = read_scheduler(json, &root, submission, error);
    if (code == GS_OK)
        code = read_arguments(json, &root, submission, error);
    return code == GS_OK ? read_jobs(json, &root, submission, error) : code;
}

gs_code gs_submission_read(const char *path, gs_submission *submission, gs_error *error) {
    gs_text file = {0};
    gs_json json = {0};
    *submission = (gs_submission){.path = realpath(path, NULL)};
    if (!submission->path)
        return gs_fail_read(error, path);
    gs_text_add(&file, "%s/campaign.json", path);
    if (file.failed)
        return gs_fail_memory(error);
    gs_input *input = gs_input_open(file.data, error);
    gs_code code = input ? gs_json_next(input, &json, error) : error->code;
    if (code == GS_OK && !json.root)
        code = gs_fail(error, GS_E_FORMAT, "%.200s is empty", file.data);
    if (code == GS_OK)
        code = read_description(&json, submission, error);
    if (code == GS_OK)
        code = gs_json_end(input, error);
    gs_json_free(&json);
    gs_input_close(input);
    gs_text_free(&file);
    return code;
}

void gs_submission_clear(gs_submission *submission) {
    for (size_t i = 0; i < submission->arguments.count; i++)
        free(submission->arguments.data[i]);
    free(submission->arguments.data);
    free(submission->jobs.data);
    free(submission->start);
    free(submission->path);
    *submission = (gs_submission){0};
}
