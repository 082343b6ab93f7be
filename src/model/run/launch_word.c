/*
 * launch_word.c: a launch as one word of a command line: mega=132x256,r168,s200K.
 *
 * NAME=BLOCKSxTHREADS, and then parts, separated by commas. Threads may have up to three dimensions (132x32x8). A part
 * is a letter and a number (r168), or a name and a value (registers=168, regs=168). The table below has them all. An
 * error quotes the wrong part, and says what would be right.
 */
#include "run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PART = 200 };

/* One part of the word, as the table describes it. */
struct part {
    char letter;                   /* 0: only the name is allowed */
    const char *name, *other_name; /* the other one, or NULL, means the same */
    const char *example;
    const char *what;
    size_t offset;
    bool is_long, is_size; /* int64_t, not int32_t; may end in K or M */
    int64_t least, most;
    uint8_t assumed; /* the bit of `assumed` if it is left out, or 0 */
};

#define INT32(field) offsetof(gs_launch, field), false, false
#define SIZE(field)  offsetof(gs_launch, field), true, true

static const struct part parts[] = {
    {'r', "registers", "regs", "r96 or regs=96", "registers of a thread", INT32(shape.registers), 1, 65536,
     1 << GS_ASSUMED_REGISTERS},
    {'s', "shared", "smem", "s200K or shared=200KB", "bytes of shared memory of a block", SIZE(shape.shared_bytes), 0,
     (int64_t)1 << 40, 1 << GS_ASSUMED_SHARED},
    {'l', "local", NULL, "l1K or local=1KB", "bytes of local memory of a thread", SIZE(shape.local_bytes), 0,
     (int64_t)1 << 40, 1 << GS_ASSUMED_LOCAL},
    {'c', "cluster", NULL, "c2 or cluster=2", "blocks of a cluster", INT32(cluster), 1, 4096, 0},
    {'p', "priority", NULL, "p-1 or priority=-1", "the priority", INT32(priority), -1000, 1000, 0},
    {0, "carveout", NULL, "carveout=50", "the carve-out in percent", INT32(shape.carveout_percent), 0, 100, 0},
};

static const struct part blocks_part = {
    0, "blocks", NULL, NULL, "the number of blocks", offsetof(gs_launch, blocks), true, false, 1, INT32_MAX, 0};
static const struct part threads_part = {0, "threads", NULL, "256 or 32x8", "threads of a block", INT32(shape.threads),
                                         1, 65536,     0};

/* Reads a whole number, or a size. False: it is neither. */
static bool parse_number(const char *text, bool is_size, int64_t *number) {
    char *end;
    if (is_size)
        return gs_parse_bytes(text, number);
    errno = 0;
    *number = strtoll(text, &end, 10);
    return !errno && end != text && !*end && strchr("-0123456789", text[0]);
}

static gs_code store_number(const char *word, const struct part *part, const char *text, const char *value,
                            gs_launch *launch, gs_error *error) {
    int64_t number;
    if (!parse_number(value, part->is_size, &number) || number < part->least || number > part->most)
        return gs_fail(error, GS_E_USAGE, "\"%.80s\": \"%.40s\" gives %s, a whole number from %lld to %lld%s%s", word,
                       text, part->what, (long long)part->least, (long long)part->most, part->example ? ", as " : "",
                       part->example ? part->example : "");
    if (part->is_long)
        *(int64_t *)((char *)launch + part->offset) = number;
    else
        *(int32_t *)((char *)launch + part->offset) = (int32_t)number;
    launch->assumed &= (uint8_t)~part->assumed;
    return GS_OK;
}

static gs_code fail_unknown(const char *word, const char *text, gs_error *error) {
    return gs_fail(
        error, GS_E_USAGE,
        "\"%.80s\": unknown part \"%.40s\"; use registers=96 (or r96), shared=200KB (s200K), local=1KB (l1K), "
        "cluster=2 (c2), priority=-1 (p-1), carveout=50 or stream=NAME",
        word, text);
}

static gs_code store_stream(gs_launch *launch, const char *word, const char *name, gs_error *error) {
    if (!*name)
        return gs_fail(error, GS_E_USAGE, "\"%.80s\": \"stream=\" needs a name, as stream=1", word);
    free(launch->stream);
    launch->stream = strdup(name);
    return launch->stream ? GS_OK : gs_fail_memory(error);
}

static bool has_name(const struct part *part, const char *text, size_t length) {
    const char *const names[] = {part->name, part->other_name};
    for (size_t i = 0; i < GS_COUNT(names); i++)
        if (names[i] && strlen(names[i]) == length && strncmp(names[i], text, length) == 0)
            return true;
    return false;
}

/* The part of a text, by its number, and where its number begins; GS_COUNT(parts): there is none. */
static size_t find_part(const char *text, const char **digits) {
    size_t name = strcspn(text, "="), i = 0;
    *digits = text + (text[name] ? name + 1 : 1);
    for (; i < GS_COUNT(parts); i++) {
        if (text[name] && has_name(&parts[i], text, name))
            break;
        if (!text[name] && parts[i].letter && parts[i].letter == text[0] && strchr("-0123456789", text[1]) && text[1])
            break;
    }
    return i;
}

/* `*given`: a bit for each part so far, the last one for the stream. */
static gs_code store_part(const char *word, const char *text, gs_launch *launch, unsigned *given, gs_error *error) {
    bool is_stream = strncmp(text, "stream=", 7) == 0;
    const char *digits;
    size_t part = is_stream ? GS_COUNT(parts) : find_part(text, &digits);
    if (part == GS_COUNT(parts) && !is_stream)
        return fail_unknown(word, text, error);
    if (*given >> part & 1)
        return gs_fail(error, GS_E_USAGE, "\"%.80s\": \"%.40s\" was given before", word, text);
    *given |= 1u << part;
    return is_stream ? store_stream(launch, word, text + 7, error)
                     : store_number(word, &parts[part], text, digits, launch, error);
}

/* Threads of a block in up to three dimensions, 256 or 32x8; other text is left for store_number to refuse. */
static void multiply_dimensions(const char *text, char *product, size_t size) {
    int64_t threads = 1, dimension;
    int dimensions = 0;
    snprintf(product, size, "%s", text);
    for (const char *at = text; at && dimensions < 3; dimensions++) {
        char number[12];
        size_t length = strcspn(at, "x");
        snprintf(number, sizeof number, "%.*s", (int)length, at);
        if (length >= sizeof number || !parse_number(number, false, &dimension) || dimension < 1 ||
            dimension > threads_part.most)
            return;
        threads *= dimension;
        at = at[length] ? at + length + 1 : NULL;
        if (!at)
            snprintf(product, size, "%lld", (long long)threads);
    }
}

/* BLOCKSxTHREADS */
static gs_code store_grid(const char *word, char *text, gs_launch *launch, gs_error *error) {
    char *threads = strchr(text, 'x');
    if (!threads)
        return gs_fail(error, GS_E_USAGE,
                       "\"%.80s\": give BLOCKSxTHREADS after the name, as %.*s=132x256, not \"%.40s\"", word,
                       (int)strcspn(word, "="), word, text);
    *threads++ = '\0';
    char product[MOST_PART];
    multiply_dimensions(threads, product, sizeof product);
    gs_code code = store_number(word, &blocks_part, text, text, launch, error);
    return code == GS_OK ? store_number(word, &threads_part, threads, product, launch, error) : code;
}

static gs_code parse_word(const char *word, gs_launch *launch, gs_error *error) {
    size_t name = strcspn(word, "=");
    launch->kernel = strndup(word, name);
    launch->shape.registers = GS_WORD_REGISTERS;
    launch->assumed = (1 << GS_ASSUMED_KINDS) - 1;
    if (!launch->kernel)
        return gs_fail_memory(error);
    const char *at = word + name;
    gs_code code = GS_OK;
    unsigned given = 0;
    for (bool is_first = true; *at && code == GS_OK; is_first = false) {
        char text[MOST_PART];
        size_t length = strcspn(++at, ",");
        if (length >= sizeof text)
            return gs_fail(error, GS_E_USAGE, "\"%.80s\": a part has at most %d characters", word, MOST_PART - 1);
        memcpy(text, at, length);
        text[length] = '\0';
        code = is_first ? store_grid(word, text, launch, error) : store_part(word, text, launch, &given, error);
        at += length;
    }
    if (code == GS_OK && launch->blocks % launch->cluster)
        return gs_fail(error, GS_E_USAGE, "\"%.80s\": %lld blocks are not a multiple of the cluster size %d", word,
                       (long long)launch->blocks, launch->cluster);
    return code;
}

bool gs_is_launch_word(const char *word) {
    size_t name = strcspn(word, "=/");
    return name && word[name] == '=';
}

gs_code gs_launch_of_word(const char *word, gs_launch *launch, gs_error *error) {
    *launch = gs_launch_default();
    gs_code code = GS_OK;
    if (!gs_is_printable(word))
        code = gs_fail(error, GS_E_USAGE, "\"%.80s\": names must not contain control characters", word);
    else if (!gs_is_launch_word(word))
        code = gs_fail(error, GS_E_USAGE,
                       "\"%.80s\" is not a kernel: use NAME=BLOCKSxTHREADS[,registers=N][,shared=BYTES]...", word);
    else
        code = parse_word(word, launch, error);
    if (code != GS_OK)
        gs_launch_clear(launch);
    return code;
}

/* ---- what was left out ---- */

char gs_assumed_letter(gs_assumed_kind kind) {
    return "rsl"[kind];
}

void gs_run_put_assumed_kernels(const gs_run *run, gs_assumed_kind kind, gs_text *text) {
    size_t count = 0, put = 0;
    for (size_t i = 0; i < run->launches.count; i++)
        count += run->launches.data[i].assumed >> kind & 1;
    for (size_t i = 0; i < run->launches.count; i++)
        if (run->launches.data[i].assumed >> kind & 1) {
            gs_text_add(text, "%s%s", !put ? "" : put + 1 == count ? " and " : ", ", run->launches.data[i].kernel);
            put++;
        }
}

void gs_run_put_assumed_kind(const gs_run *run, gs_assumed_kind kind, gs_text *text) {
    if (kind == GS_ASSUMED_REGISTERS)
        gs_text_add(text, "%d registers a thread for ", GS_WORD_REGISTERS);
    else
        gs_text_add(text, "no %s memory for ", kind == GS_ASSUMED_SHARED ? "shared" : "local");
    gs_run_put_assumed_kernels(run, kind, text);
}

void gs_run_put_assumed(const gs_run *run, gs_text *text) {
    uint8_t assumed = 0;
    for (size_t i = 0; i < run->launches.count; i++)
        assumed |= run->launches.data[i].assumed;
    for (gs_assumed_kind kind = 0; kind < GS_ASSUMED_KINDS; kind++)
        if (assumed >> kind & 1) {
            gs_text_add(text, "assumed: ");
            gs_run_put_assumed_kind(run, kind, text);
            gs_text_add(text, " (give %c)\n", gs_assumed_letter(kind));
        }
}
