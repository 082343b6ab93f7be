/*
 * json_scan.c: see json_scan.h.
 *
 * Most of a trace is skipped: calls of Python functions, operators, flows. So skipping must be fast. It looks only at
 * quotes and brackets, and does not check otherwise whether the skipped text is valid JSON.
 */
#include "json_scan.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

gs_scan gs_scan_of(gs_input *input, gs_error *error) {
    return (gs_scan){.input = input, .error = error};
}

void gs_scan_free(gs_scan *scan) {
    gs_text_free(&scan->string);
}

/* ---- bytes ---- */

/* Advances the input to the current position. */
static void sync_input(gs_scan *scan) {
    gs_input_take(scan->input, (size_t)(scan->at - scan->first));
    scan->first = scan->at;
}

bool gs_scan_fail(gs_scan *scan, gs_code code, const char *format, ...) {
    char message[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (scan->code != GS_OK)
        return false;
    sync_input(scan);
    scan->code = gs_input_fail(scan->input, scan->error, code, "%s", message);
    return false;
}

/* Makes at least one byte available. False: the file has ended, or there was an error. */
static bool refill_buffer(gs_scan *scan) {
    size_t count;
    if (scan->code != GS_OK)
        return false;
    sync_input(scan);
    scan->code = gs_input_more(scan->input, &scan->first, &count, scan->error);
    scan->at = scan->first;
    scan->end = scan->first + (scan->code == GS_OK ? count : 0);
    return scan->at < scan->end;
}

static bool has_byte(gs_scan *scan) {
    return scan->at < scan->end || refill_buffer(scan);
}

static bool fail_end(gs_scan *scan) {
    return gs_scan_fail(scan, GS_E_SYNTAX, "the file is cut short: it ends in the middle of a JSON value");
}

static bool skip_space(gs_scan *scan) {
    while (has_byte(scan)) {
        char byte = *scan->at;
        if (byte != ' ' && byte != '\n' && byte != '\r' && byte != '\t')
            return true;
        scan->at++;
    }
    return false;
}

bool gs_scan_has_ended(gs_scan *scan) {
    return !skip_space(scan) && scan->code == GS_OK;
}

char gs_scan_peek(gs_scan *scan) {
    return skip_space(scan) && scan->code == GS_OK ? *scan->at : 0;
}

static bool expect_character(gs_scan *scan, char wanted, const char *what) {
    if (!skip_space(scan))
        return fail_end(scan);
    if (*scan->at != wanted)
        return gs_scan_fail(scan, GS_E_SYNTAX, "not valid JSON: %s expected", what);
    scan->at++;
    return true;
}

/* ---- objects and lists ---- */

bool gs_scan_enter(gs_scan *scan, char bracket) {
    if (!expect_character(scan, bracket, bracket == '{' ? "an object" : "a list"))
        return false;
    if (++scan->depth > GS_SCAN_DEPTH)
        return gs_scan_fail(scan, GS_E_SYNTAX, "brackets are nested too deep");
    scan->is_first = true;
    return true;
}

/* Whether a member follows; consumes the comma before it, or the bracket after the last. */
static bool has_member(gs_scan *scan, char closes) {
    if (!skip_space(scan))
        return fail_end(scan);
    bool was_first = scan->is_first;
    scan->is_first = false;
    if (*scan->at == closes) {
        scan->at++;
        scan->depth--;
        return false;
    }
    return was_first || expect_character(scan, ',', "a comma or a closing bracket");
}

bool gs_scan_next(gs_scan *scan) {
    return scan->code == GS_OK && has_member(scan, ']');
}

bool gs_scan_key(gs_scan *scan) {
    return scan->code == GS_OK && has_member(scan, '}') && gs_scan_string(scan) &&
           expect_character(scan, ':', "a colon");
}

/* ---- strings ---- */

static bool take_byte(gs_scan *scan, char *byte) {
    if (!has_byte(scan))
        return fail_end(scan);
    *byte = *scan->at++;
    return true;
}

static void keep_bytes(gs_scan *scan, const char *bytes, size_t count) {
    if (scan->string.count < GS_SCAN_STRING)
        gs_text_put(&scan->string, bytes, count);
}

/* A code point as UTF-8; an invalid one becomes a question mark. */
static void put_code(gs_scan *scan, unsigned code) {
    char bytes[4];
    size_t count = 0;
    if (code < 0x80)
        bytes[count++] = (char)(code < 0x20 ? '?' : code);
    else if (code < 0x800)
        bytes[count++] = (char)(0xc0 | code >> 6);
    else if (code < 0x10000)
        bytes[count++] = (char)(0xe0 | code >> 12);
    else
        bytes[count++] = (char)(0xf0 | code >> 18);
    if (code >= 0x10000)
        bytes[count++] = (char)(0x80 | (code >> 12 & 0x3f));
    if (code >= 0x800)
        bytes[count++] = (char)(0x80 | (code >> 6 & 0x3f));
    if (code >= 0x80)
        bytes[count++] = (char)(0x80 | (code & 0x3f));
    keep_bytes(scan, bytes, count);
}

static bool take_hex(gs_scan *scan, unsigned *code) {
    *code = 0;
    for (int i = 0; i < 4; i++) {
        char byte = 0;
        if (!take_byte(scan, &byte))
            return false;
        unsigned digit = byte >= '0' && byte <= '9'   ? (unsigned)(byte - '0')
                         : byte >= 'a' && byte <= 'f' ? (unsigned)(byte - 'a' + 10)
                         : byte >= 'A' && byte <= 'F' ? (unsigned)(byte - 'A' + 10)
                                                      : 16;
        if (digit == 16)
            return gs_scan_fail(scan, GS_E_SYNTAX, "not valid JSON: four hexadecimal digits expected");
        *code = *code << 4 | digit;
    }
    return true;
}

/* The second half of a surrogate pair. */
static bool take_second_half(gs_scan *scan, unsigned *code) {
    unsigned low;
    char slash = 0, u = 0;
    if (!take_byte(scan, &slash) || !take_byte(scan, &u))
        return false;
    if (slash != '\\' || u != 'u')
        return gs_scan_fail(scan, GS_E_SYNTAX, "not valid JSON: the second half of an escaped character expected");
    if (!take_hex(scan, &low))
        return false;
    *code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00) : '?';
    return true;
}

static bool take_escape(gs_scan *scan) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/     ";
    char byte = 0;
    unsigned code;
    if (!take_byte(scan, &byte))
        return false;
    const char *known = byte ? strchr(from, byte) : NULL;
    if (known) {
        keep_bytes(scan, &to[known - from], 1);
        return true;
    }
    if (byte != 'u')
        return gs_scan_fail(scan, GS_E_SYNTAX, "not valid JSON: unknown escape in a string");
    if (!take_hex(scan, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00 && !take_second_half(scan, &code))
        return false;
    put_code(scan, code >= 0xd800 && code < 0xe000 ? '?' : code);
    return true;
}

/* The bytes up to a quote, a backslash, a NUL, or the end of the available bytes. */
static const char *plain_end(const gs_scan *scan) {
    const char *at = scan->at;
    while (at < scan->end && *at && *at != '"' && *at != '\\')
        at++;
    return at;
}

bool gs_scan_string(gs_scan *scan) {
    if (!expect_character(scan, '"', "a string"))
        return false;
    gs_text_clear(&scan->string);
    keep_bytes(scan, "", 0);
    for (;;) {
        if (!has_byte(scan))
            return fail_end(scan);
        const char *plain = plain_end(scan);
        keep_bytes(scan, scan->at, (size_t)(plain - scan->at));
        scan->at = plain;
        if (plain == scan->end)
            continue;
        scan->at++;
        if (*plain == '"')
            break;
        if (!*plain)
            keep_bytes(scan, "?", 1);
        else if (!take_escape(scan))
            return false;
    }
    if (scan->string.failed && scan->code == GS_OK)
        scan->code = gs_fail_memory(scan->error);
    return scan->code == GS_OK;
}

bool gs_scan_is(const gs_scan *scan, const char *word) {
    return strcmp(scan->string.data, word) == 0;
}

/* ---- numbers ---- */

enum { NUMBER_LENGTH = 64 };

/* The text of a number, which may cross the end of the available bytes. */
static bool take_number(gs_scan *scan, char *number) {
    size_t count = 0;
    if (!skip_space(scan))
        return fail_end(scan);
    while (has_byte(scan) && *scan->at && strchr("+-.0123456789eE", *scan->at) && count < NUMBER_LENGTH - 1)
        number[count++] = *scan->at++;
    number[count] = '\0';
    if (!count && scan->code == GS_OK)
        return gs_scan_fail(scan, GS_E_FORMAT, "a number expected");
    return scan->code == GS_OK;
}

static int64_t to_int(double value) {
    return value >= 9e18 ? INT64_MAX : value <= -9e18 ? INT64_MIN : isnan(value) ? 0 : (int64_t)value;
}

bool gs_scan_any_int(gs_scan *scan, int64_t *value) {
    char number[NUMBER_LENGTH], *end;
    if (!take_number(scan, number))
        return false;
    *value = strtoll(number, &end, 10); /* clamped to the limits */
    if (*end == '.' || *end == 'e' || *end == 'E')
        *value = to_int(strtod(number, &end));
    return *end ? gs_scan_fail(scan, GS_E_SYNTAX, "not valid JSON: a number expected") : true;
}

bool gs_scan_int_within(gs_scan *scan, int64_t least, int64_t most, int64_t *value) {
    char number[NUMBER_LENGTH], *end;
    if (!take_number(scan, number))
        return false;
    errno = 0;
    *value = strtoll(number, &end, 10);
    bool is_in_range = !errno, is_whole = true;
    if (*end == '.' || *end == 'e' || *end == 'E') {
        double real = strtod(number, &end);
        is_in_range = fabs(real) < 9e18;
        is_whole = !is_in_range || real == floor(real);
        *value = to_int(real);
    }
    if (*end)
        return gs_scan_fail(scan, GS_E_SYNTAX, "not valid JSON: a number expected");
    if (!is_whole)
        return gs_scan_fail(scan, GS_E_FORMAT, "\"%.60s\" is %s: not a whole number", scan->string.data, number);
    if (!is_in_range || *value < least || *value > most)
        return gs_scan_fail(scan, GS_E_FORMAT, "\"%.60s\" is %s: out of range", scan->string.data, number);
    return true;
}

bool gs_scan_int(gs_scan *scan, int64_t *value) {
    return gs_scan_int_within(scan, INT64_MIN, INT64_MAX, value);
}

/* A double has too few digits for nanoseconds since 1970, so the digits are taken one by one. */
bool gs_scan_us(gs_scan *scan, int64_t *nanoseconds) {
    char number[NUMBER_LENGTH], *end;
    if (!take_number(scan, number))
        return false;
    errno = 0;
    int64_t whole = strtoll(number, &end, 10);
    if (errno || whole > INT64_MAX / 1000 || whole < INT64_MIN / 1000 || strpbrk(number, "eE")) {
        *nanoseconds = to_int(strtod(number, &end) * 1000);
        return *end ? gs_scan_fail(scan, GS_E_SYNTAX, "not valid JSON: a number expected") : true;
    }
    int64_t decimals = 0, scale = 1000;
    if (*end == '.')
        for (end++; *end >= '0' && *end <= '9'; end++)
            if (scale > 1) {
                decimals = decimals * 10 + (*end - '0');
                scale /= 10;
            }
    *nanoseconds = whole * 1000 + (*number == '-' ? -decimals : decimals) * scale;
    return *end ? gs_scan_fail(scan, GS_E_SYNTAX, "not valid JSON: a number expected") : true;
}

/* ---- skipping ---- */

/* After the opening quote. */
static bool skip_string(gs_scan *scan) {
    for (;;) {
        if (!has_byte(scan))
            return fail_end(scan);
        scan->at = plain_end(scan);
        if (scan->at == scan->end)
            continue;
        char byte = *scan->at++;
        if (byte == '"')
            return true;
        if (!take_byte(scan, &byte))
            return false;
    }
}

/* Skips until `depth` open brackets are closed. */
static bool skip_brackets(gs_scan *scan, int depth) {
    while (depth) {
        if (!has_byte(scan))
            return fail_end(scan);
        char byte = *scan->at++;
        if (byte == '{' || byte == '[')
            depth++;
        else if (byte == '}' || byte == ']')
            depth--;
        else if (byte == '"' && !skip_string(scan))
            return false;
    }
    return true;
}

static bool skip_word(gs_scan *scan) {
    size_t count = 0;
    for (; has_byte(scan) && *scan->at && strchr("+-.0123456789eEtrufalsnINity", *scan->at); scan->at++)
        count++;
    return count ? scan->code == GS_OK : gs_scan_fail(scan, GS_E_SYNTAX, "not valid JSON: a value expected");
}

bool gs_scan_skip(gs_scan *scan) {
    char byte = gs_scan_peek(scan);
    if (!byte)
        return fail_end(scan);
    if (byte == '"') {
        scan->at++;
        return skip_string(scan);
    }
    if (byte != '{' && byte != '[')
        return skip_word(scan);
    scan->at++;
    return skip_brackets(scan, 1);
}

bool gs_scan_leave(gs_scan *scan) {
    scan->depth--;
    scan->is_first = false;
    return scan->code == GS_OK && skip_brackets(scan, 1);
}
