/*
 * missing.c: what a trace does not say of its work.
 *
 * Without times, a stream, a grid and a block there is no run: the trace is refused, and the message has the name of
 * the field in the tool's own words. For other fields something is assumed. They are counted, and a note says for how
 * many launches what is assumed. A field of launches that the user can supply is listed in `lacks` of the run; once it
 * is supplied for all launches, the note is left out.
 */
#include "collect.h"

#include <stdlib.h>

typedef enum field_user { OF_ALL, OF_LAUNCHES, OF_COPIES } field_user;

static const struct field {
    const char *meaning; /* of a field that is needed: what is not known without it */
    const char *assumed; /* of another: the assumption */
    const char *key;     /* of a run, as `lacks` names it, or NULL */
    field_user user;
} fields[GS_TRACE_FIELDS] = {
    [GS_TRACE_START] = {.meaning = "when it started"},
    [GS_TRACE_END] = {.meaning = "when it ended"},
    [GS_TRACE_STREAM] = {.meaning = "its stream"},
    [GS_TRACE_GRID] = {.meaning = "its number of blocks", .user = OF_LAUNCHES},
    [GS_TRACE_BLOCK] = {.meaning = "its number of threads", .user = OF_LAUNCHES},
    [GS_TRACE_REGISTERS] = {.assumed = "1 register a thread is assumed; supply registers with --set",
                            .key = "registers",
                            .user = OF_LAUNCHES},
    [GS_TRACE_SHARED] = {.assumed = "no shared memory is assumed; supply shared_bytes with --set",
                         .key = "shared_bytes",
                         .user = OF_LAUNCHES},
    [GS_TRACE_LOCAL] = {.assumed = "no local memory is assumed; supply local_bytes with --set",
                        .key = "local_bytes",
                        .user = OF_LAUNCHES},
    [GS_TRACE_PRIORITY] = {.assumed = "priority 0 is assumed; supply priority with --set",
                           .key = "priority",
                           .user = OF_LAUNCHES},
    [GS_TRACE_CORRELATION] = {.assumed = "their calls are not known"},
    [GS_TRACE_DEVICE] = {.assumed = "GPU 0 is assumed"},
    [GS_TRACE_NAME] = {.assumed = "they are called \"unnamed\"", .user = OF_LAUNCHES},
    [GS_TRACE_KIND] = {.assumed = "the direction is not known", .user = OF_COPIES},
    [GS_TRACE_CONTEXT] = {.assumed = "streams of a GPU with the same number are assumed to be one"},
    [GS_TRACE_PROCESS] = {.assumed = "all work is assumed to be of one process"},
    [GS_TRACE_BYTES] = {.assumed = "0 bytes are assumed", .user = OF_COPIES},
};

static bool is_used(const struct field *field, gs_traced_op op) {
    return field->user == OF_ALL || (field->user == OF_LAUNCHES) == (op == GS_TRACED_LAUNCH);
}

static gs_code refuse_without(const gs_traced_what *what, const char *name, const char *meaning, gs_error *error) {
    if (what->op == GS_TRACED_LAUNCH)
        return gs_fail(error, GS_E_FORMAT, "kernel \"%.60s\" has no \"%s\" in the trace: %s", what->name, name,
                       meaning);
    return gs_fail(error, GS_E_FORMAT, "a %s has no \"%s\" in the trace: %s",
                   what->op == GS_TRACED_COPY ? "copy" : "memset", name, meaning);
}

gs_code gs_check_fields(gs_collection *collection, const gs_traced_what *what, gs_trace_fields given, gs_error *error) {
    if (what->registers == 0)
        given &= ~(1u << GS_TRACE_REGISTERS);
    for (int i = 0; i < GS_TRACE_FIELDS; i++) {
        if (given >> i & 1 || !is_used(&fields[i], what->op))
            continue;
        if (fields[i].meaning)
            return refuse_without(what, collection->field_names[i], fields[i].meaning, error);
        collection->missing[i]++;
    }
    return GS_OK;
}

static bool has_no_call(const gs_collection *collection) {
    return collection->traced.count && collection->without_call == collection->traced.count;
}

char *gs_lacking_keys(const gs_collection *collection) {
    gs_text keys = {0};
    gs_text_add(&keys, "%s", collection->lacks);
    for (int i = 0; i < GS_TRACE_FIELDS; i++)
        if (collection->missing[i] && fields[i].key)
            gs_text_add(&keys, " %s", fields[i].key);
    if (has_no_call(collection))
        gs_text_add(&keys, " at_us");
    char *copy = keys.failed ? NULL : strdup(keys.data);
    gs_text_free(&keys);
    return copy;
}

/* Whether a list of words has this one. */
static bool has_word(const char *list, const char *word) {
    size_t wanted = strlen(word);
    for (size_t length; (length = strcspn(list, " ")); list += length + (list[length] == ' '))
        if (length == wanted && memcmp(list, word, length) == 0)
            return true;
    return false;
}

static bool is_supplied(gs_run *const *runs, size_t count, const char *key) {
    for (size_t i = 0; i < count; i++)
        if (runs[i]->origin.lacks && has_word(runs[i]->origin.lacks, key))
            return false;
    return true;
}

void gs_put_lacking(const gs_collection *collection, gs_run *const *runs, size_t count, const char *file,
                    gs_text *notes) {
    size_t lacking = 0;
    const char *list = collection->lacks;
    for (size_t length; (length = strcspn(list, " ")); list += length + (list[length] == ' ')) {
        char key[GS_LONGEST_KEY];
        snprintf(key, sizeof key, "%.*s", (int)length, list);
        if (is_supplied(runs, count, key))
            continue;
        if (!lacking++)
            gs_text_add(notes, "%s: a trace of the %s lacks ", file, collection->recorder);
        gs_text_add(notes, "%s%s", lacking > 1 ? ", " : "", key);
    }
    if (lacking)
        gs_text_add(notes, "; 'gridsmith import' supplies them with --set or --with\n");
}

static const char *work_words(field_user user, size_t count) {
    static const char *const words[][2] = {
        {"launch or copy", "launches and copies"}, {"launch", "launches"}, {"copy", "copies"}};
    return words[user][count != 1];
}

void gs_put_missing(const gs_collection *collection, gs_run *const *runs, size_t count, const char *file,
                    gs_text *notes) {
    for (int i = 0; i < GS_TRACE_FIELDS; i++) {
        size_t missing = collection->missing[i];
        if (missing && !(fields[i].key && is_supplied(runs, count, fields[i].key)))
            gs_text_add(notes, "%s: %zu %s without \"%s\": %s\n", file, missing, work_words(fields[i].user, missing),
                        collection->field_names[i], fields[i].assumed);
    }
    size_t lost = collection->without_call;
    if (has_no_call(collection))
        gs_text_add(notes,
                    "%s: the trace has no host call of any launch: each is assumed to be issued when the first of its "
                    "stream starts\n",
                    file);
    else if (lost)
        gs_text_add(notes,
                    "%s: %zu %s without a call in the trace: assumed to be issued with the one before it in its "
                    "stream, or, for the first, with the next\n",
                    file, lost, work_words(OF_ALL, lost));
    if (lost && collection->calls_without_id)
        gs_text_add(notes, "%s: %zu call%s of the host without \"%s\"\n", file, collection->calls_without_id,
                    collection->calls_without_id == 1 ? "" : "s", collection->field_names[GS_TRACE_CORRELATION]);
}
