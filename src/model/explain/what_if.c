/*
 * what_if.c: what-ifs as words: "graph,streams=2" is two changes that are made together.
 */
#include "explain.h"

#include <stdlib.h>

/* A whole number up to the end of the text. */
static bool read_number(const char *text, long least, long most, int32_t *number) {
    char *end;
    long value = strtol(text, &end, 10);
    *number = (int32_t)value;
    return *text && !*end && value >= least && value <= most;
}

static gs_code read_patterns(gs_program_change *change, const char *text, size_t length, gs_error *error) {
    if (!length || length >= sizeof change->patterns)
        return gs_fail(error, GS_E_USAGE,
                       "\"%.60s\": give patterns of kernels of 1 to %zu letters, such as *nccl*+copy", change->words,
                       sizeof change->patterns - 1);
    memcpy(change->patterns, text, length);
    change->patterns[length] = 0;
    return GS_OK;
}

static gs_code read_host(gs_program_change *change, const char *value, gs_error *error) {
    char *end;
    if (strcmp(value, "never-late") == 0)
        return GS_OK;
    change->factor = strtod(value, &end);
    if (end == value || strcmp(end, "x") != 0 || !(change->factor >= 0.01 && change->factor <= 1000))
        return gs_fail(error, GS_E_USAGE, "host=%.40s: give never-late, or how many times as fast, such as 2x", value);
    return GS_OK;
}

static gs_code read_streams(gs_program_change *change, const char *value, gs_error *error) {
    if (read_number(value, 1, 128, &change->number))
        return GS_OK;
    if (*value && !value[strspn(value, "+-0123456789")])
        return gs_fail(error, GS_E_USAGE, "streams=%.40s: give 1 to 128 streams, or patterns of kernels", value);
    change->number = 0;
    return read_patterns(change, value, strlen(value), error);
}

/* PATTERNS:VALUE */
static gs_code read_order(gs_program_change *change, const char *value, gs_error *error) {
    const char *colon = strrchr(value, ':');
    if (!colon || strcmp(colon, ":first") != 0)
        return gs_fail(error, GS_E_USAGE, "order=%.60s: give PATTERN:first, such as order=*nccl*:first", value);
    return read_patterns(change, value, (size_t)(colon - value), error);
}

static gs_code read_numbered(gs_program_change *change, const char *value, long least, long most, const char *example,
                             gs_error *error) {
    const char *colon = strrchr(value, ':');
    bool is_read = colon && read_number(colon + 1, least, most, &change->number);
    if (!is_read && colon && colon[1] && !colon[1 + strspn(colon + 1, "+-0123456789")])
        return gs_fail(error, GS_E_USAGE, "%.80s: the number must be %ld to %ld", change->words, least, most);
    if (!is_read)
        return gs_fail(error, GS_E_USAGE, "%.80s: give PATTERN:NUMBER, such as %s", change->words, example);
    return read_patterns(change, value, (size_t)(colon - value), error);
}

static gs_code read_priority(gs_program_change *change, const char *value, gs_error *error) {
    return read_numbered(change, value, -100, 100, "priority=*nccl*:-1", error);
}

static gs_code read_sms(gs_program_change *change, const char *value, gs_error *error) {
    if (strchr(value, ':'))
        return read_numbered(change, value, 1, GS_MAX_SMS, "sms=*nccl*:16", error);
    bool is_read = read_number(value, 1, GS_MAX_SMS, &change->number);
    return is_read ? GS_OK : gs_fail(error, GS_E_USAGE, "sms=%.40s: give a number of SMs", value);
}

static gs_code read_blocks(gs_program_change *change, const char *value, gs_error *error) {
    const char *colon = strrchr(value, ':');
    if (colon && strcmp(colon, ":full") == 0)
        return read_patterns(change, value, (size_t)(colon - value), error);
    return read_numbered(change, value, 1, INT32_MAX, "blocks=*gemm*:116 or blocks=*gemm*:full", error);
}

static gs_code read_registers(gs_program_change *change, const char *value, gs_error *error) {
    return read_numbered(change, value, 1, 255, "registers=*gemm*:64", error);
}

static gs_code read_carveout(gs_program_change *change, const char *value, gs_error *error) {
    return read_numbered(change, value, 0, 100, "carveout=*copy*:100", error);
}

static gs_code read_gpu(gs_program_change *change, const char *value, gs_error *error) {
    return read_patterns(change, value, strlen(value), error);
}

/* A change by its name; `read` NULL: it has no value. */
static const struct {
    const char *name;
    gs_program_change_kind kind;
    gs_code (*read)(gs_program_change *, const char *value, gs_error *);
} changes[] = {{"graph", GS_CHANGE_GRAPH, NULL},
               {"host", GS_CHANGE_HOST, read_host},
               {"streams", GS_CHANGE_STREAMS, read_streams},
               {"order", GS_CHANGE_ORDER, read_order},
               {"priority", GS_CHANGE_PRIORITY, read_priority},
               {"sms", GS_CHANGE_SMS, read_sms},
               {"blocks", GS_CHANGE_BLOCKS, read_blocks},
               {"registers", GS_CHANGE_REGISTERS, read_registers},
               {"carveout", GS_CHANGE_CARVEOUT, read_carveout},
               {"gpu", GS_CHANGE_GPU, read_gpu}};

static gs_code read_change(gs_program_change *change, gs_error *error) {
    size_t length = strcspn(change->words, "=");
    const char *value = change->words[length] ? change->words + length + 1 : NULL;
    char name[40];
    snprintf(name, sizeof name, "%.*s", (int)gs_min_u64(length, sizeof name - 1), change->words);
    gs_similar similar = {.word = name};
    for (size_t i = 0; i < GS_COUNT(changes); i++) {
        gs_similar_try(&similar, changes[i].name);
        if (strcmp(changes[i].name, name) != 0)
            continue;
        change->kind = changes[i].kind;
        if (!changes[i].read == !value)
            return value ? changes[i].read(change, value, error) : GS_OK;
        return gs_fail(error, GS_E_USAGE, value ? "%s takes no value" : "%s needs a value", name);
    }
    return gs_fail(error, GS_E_USAGE,
                   "unknown change \"%.60s\"%s; use graph, host, streams, order, priority, sms, blocks, registers, "
                   "carveout and gpu",
                   change->words, gs_similar_words(&similar));
}

/* Whether the last change contradicts one before it: only what is chosen by patterns can be changed several times, and
   SMs are divided once. */
static gs_code check_once(const gs_what_if *what_if, gs_error *error) {
    const gs_program_change *last = &what_if->changes[what_if->count - 1];
    bool is_single = last->kind == GS_CHANGE_SMS || last->kind == GS_CHANGE_GPU;
    for (const gs_program_change *change = what_if->changes; change < last; change++)
        if (change->kind == last->kind && (is_single || (!*change->patterns && !*last->patterns)))
            return gs_fail(error, GS_E_USAGE, "%.60s and %.60s exclude each other", change->words, last->words);
    return GS_OK;
}

gs_code gs_what_if_read(const char *words, gs_what_if *what_if, gs_error *error) {
    gs_code code = GS_OK;
    *what_if = (gs_what_if){0};
    while (code == GS_OK) {
        size_t length = strcspn(words, ",");
        gs_program_change *change = &what_if->changes[what_if->count];
        if (what_if->count == GS_WHAT_IF_CHANGES)
            return gs_fail(error, GS_E_USAGE, "at most %d changes can be made together", GS_WHAT_IF_CHANGES);
        if (length >= sizeof change->words)
            return gs_fail(error, GS_E_USAGE, "the change \"%.40s...\" is too long", words);
        memcpy(change->words, words, length);
        code = read_change(change, error);
        what_if->count++;
        if (code == GS_OK)
            code = check_once(what_if, error);
        if (!words[length])
            break;
        words += length + 1;
    }
    return code;
}

const char *gs_what_if_gpu(const gs_what_if *what_if) {
    for (size_t i = 0; i < what_if->count; i++)
        if (what_if->changes[i].kind == GS_CHANGE_GPU)
            return what_if->changes[i].patterns;
    return NULL;
}
