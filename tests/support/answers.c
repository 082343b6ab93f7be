/*
 * answers.c: answers of today, compared with earlier ones. See answers.h.
 *
 * A line is a name, a blank, and three characters for each case.
 */
#include "answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 3 };

static struct {
    FILE *file;
    char path[100], name[60], line[1 << 16];
    int number;         /* of the line */
    const char *wanted; /* what is left of it */
    uint64_t cases;     /* of the line so far */
} opened;

static bool is_written(void) {
    return test_number("GRIDSMITH_WRITE", 0) != 0;
}

void answers_open(const char *file) {
    snprintf(opened.path, sizeof opened.path, "%s", file);
    opened.file = fopen(test_path(file), is_written() ? "w" : "r");
    opened.number = 0;
    assert_non_null(opened.file);
}

void answers_begin(const char *name) {
    size_t length = strlen(name);
    snprintf(opened.name, sizeof opened.name, "%s", name);
    opened.number++;
    opened.cases = 0;
    if (is_written())
        fprintf(opened.file, "%s ", name);
    else if (!fgets(opened.line, sizeof opened.line, opened.file) || strncmp(opened.line, name, length) != 0 ||
             opened.line[length] != ' ')
        fail_msg("%s:%d: \"%s\" is expected here", opened.path, opened.number, name);
    opened.wanted = opened.line + length + 1;
}

void answers_expect(uint64_t hash) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-+";
    char found[DIGITS + 1] = "";
    hash ^= hash >> 32;
    for (int i = 0; i < DIGITS; i++, hash /= 64)
        found[i] = digits[hash % 64];
    if (is_written())
        fputs(found, opened.file);
    else if (strncmp(found, opened.wanted, DIGITS) != 0)
        fail_msg("%s:%d: the answer to case %llu of \"%s\" is another one", opened.path, opened.number,
                 (unsigned long long)opened.cases, opened.name);
    opened.wanted += DIGITS;
    opened.cases++;
}

void answers_end(void) {
    if (is_written())
        fputc('\n', opened.file);
    else if (test_number("GRIDSMITH_RUNS", 100000) >= 10000 && *opened.wanted != '\n')
        fail_msg("%s:%d: more cases are expected of \"%s\"", opened.path, opened.number, opened.name);
}

void answers_close(void) {
    if (!is_written())
        assert_int_equal(fgetc(opened.file), EOF);
    fclose(opened.file);
}

bool answers_are_rounded_alike(void) {
#if !defined __x86_64__ && defined __clang__ /* products and sums are rounded at once */
    return false;
#else
    return true;
#endif
}

uint64_t answers_add(uint64_t hash, int64_t value) {
    return gs_hash(hash, &value, sizeof value);
}

uint64_t answers_add_list(uint64_t hash, const size_t *data, size_t count) {
    hash = answers_add(hash, (int64_t)count);
    for (size_t i = 0; i < count; i++)
        hash = answers_add(hash, (int64_t)data[i]);
    return hash;
}

uint64_t answers_add_text(uint64_t hash, const gs_text *text) {
    hash = answers_add(hash, (int64_t)text->count);
    return text->count ? gs_hash(hash, text->data, text->count) : hash;
}
