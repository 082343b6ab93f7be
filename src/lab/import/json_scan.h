/*
 * json_scan.h: JSON of any length, read value by value.
 *
 * A trace of a gigabyte is one JSON object, so it cannot be held as a value. The caller walks through it: enters an
 * object, takes one key after the other, and reads or skips the value of each. It needs memory only for the last
 * string. The first error is kept in `code`; from then on every function fails.
 */
#ifndef GS_JSON_SCAN_H
#define GS_JSON_SCAN_H

#include "base/base.h"

enum { GS_SCAN_DEPTH = 64, GS_SCAN_STRING = 1 << 16 };

typedef struct gs_scan {
    gs_input *input;
    const char *first, *at, *end; /* the available bytes; those before `at` are read */
    gs_text string;               /* the last string or key, as UTF-8 */
    gs_error *error;
    gs_code code;
    int depth;
    bool is_first; /* no member of the current object or list has been read */
} gs_scan;

gs_scan gs_scan_of(gs_input *input, gs_error *error);
void gs_scan_free(gs_scan *scan);

/* The first byte of the next value, which is not consumed: one of { [ " t f n - 0..9. 0: none, or an error. */
char gs_scan_peek(gs_scan *scan);

/* Enters an object or a list. False: the value is not one, which is an error. */
bool gs_scan_enter(gs_scan *scan, char bracket);
/* Reads the next key of the current object into `string`. False: the object has ended, and was left. */
bool gs_scan_key(gs_scan *scan);
/* Whether the current list has another value. False: it was left. */
bool gs_scan_next(gs_scan *scan);

/* Reads a string. A string longer than GS_SCAN_STRING is truncated. */
bool gs_scan_string(gs_scan *scan);
/* A whole number of 64 bits, the value of the key that was read last; another number is an error that names the key. */
bool gs_scan_int(gs_scan *scan, int64_t *value);
/* The same for a number from `least` to `most`. */
bool gs_scan_int_within(gs_scan *scan, int64_t least, int64_t most, int64_t *value);
/* The whole part of any number; numbers out of range are clamped. */
bool gs_scan_any_int(gs_scan *scan, int64_t *value);
/* Microseconds with decimals, into nanoseconds. */
bool gs_scan_us(gs_scan *scan, int64_t *nanoseconds);
/* Skips any value. */
bool gs_scan_skip(gs_scan *scan);

/* Leaves the current object or list, skipping its rest. */
bool gs_scan_leave(gs_scan *scan);

/* Whether only white space is left. */
bool gs_scan_has_ended(gs_scan *scan);

bool gs_scan_is(const gs_scan *scan, const char *word);

/* An error at the current position. Returns false. */
bool gs_scan_fail(gs_scan *scan, gs_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
