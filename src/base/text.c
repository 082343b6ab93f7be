/*
 * text.c: growable arrays, text that grows, and names.
 *
 * When an allocation fails, a text sets `failed` and ignores what is added later. So code that builds long texts need
 * not check after every word; the user of the text checks once, at the end. A text with a sink is written out a
 * megabyte at a time, so a document of any length is built in the same way and takes little memory.
 */
#include "base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* AddressSanitizer is told which elements of an array were never reserved, so that it sees who reads them. */
#ifdef __SANITIZE_ADDRESS__ /* gcc */
#    include <sanitizer/asan_interface.h>
#elif defined __has_feature /* clang */
#    if __has_feature(address_sanitizer)
#        include <sanitizer/asan_interface.h>
#    endif
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#    define ASAN_POISON_MEMORY_REGION(address, bytes)   ((void)(address), (void)(bytes))
#    define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

bool gs_array_reserve(void **data, size_t count, size_t *capacity, size_t more, size_t size) {
    if (more > SIZE_MAX / size - count)
        return false;
    if (count + more <= *capacity) {
        if (more)
            ASAN_UNPOISON_MEMORY_REGION((char *)*data + count * size, more * size);
        return true;
    }
    size_t wanted = *capacity ? *capacity : 8;
    while (wanted < count + more)
        wanted = wanted > SIZE_MAX / size / 2 ? count + more : wanted * 2;
    void *grown = realloc(*data, wanted * size);
    if (!grown)
        return false;
    ASAN_POISON_MEMORY_REGION((char *)grown + (count + more) * size, (wanted - count - more) * size);
    *data = grown;
    *capacity = wanted;
    return true;
}

void gs_text_flush(gs_text *text) {
    if (text->sink && text->count &&
        !(text->columns ? text->write_folded(text) : fwrite(text->data, 1, text->count, text->sink) == text->count))
        text->failed = true;
    gs_text_clear(text);
}

void gs_text_put(gs_text *text, const char *bytes, size_t count) {
    enum { LONG_TEXT = 1 << 20 };
    if (text->sink && text->count > LONG_TEXT)
        gs_text_flush(text);
    if (text->failed || !GS_RESERVE(text, count + 1)) {
        text->failed = true;
        return;
    }
    if (count) /* else there may be no bytes at all */
        memcpy(text->data + text->count, bytes, count);
    text->count += count;
    text->data[text->count] = '\0';
}

void gs_text_add(gs_text *text, const char *format, ...) {
    char small[512];
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(small, sizeof small, format, arguments);
    if (length < 0 || text->failed || !GS_RESERVE(text, (size_t)length + 1)) {
        text->failed = true;
    } else if ((size_t)length < sizeof small) {
        gs_text_put(text, small, (size_t)length);
    } else {
        vsnprintf(text->data + text->count, (size_t)length + 1, format, again);
        text->count += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

/* Faster than printf. */
void gs_text_put_int(gs_text *text, int64_t value) {
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (value < 0)
        digits[--at] = '-';
    gs_text_put(text, digits + at, sizeof digits - at);
}

void gs_text_put_grouped(gs_text *text, int64_t value) {
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%lld", (long long)value);
    for (int i = 0; i < count; i++) {
        gs_text_put(text, &digits[i], 1);
        int left = count - 1 - i;
        if (left && left % 3 == 0 && digits[i] != '-')
            gs_text_put(text, ",", 1);
    }
}

/* The length of the UTF-8 character at `at`, or 0: not valid UTF-8. */
static size_t utf8_length(const unsigned char *at) {
    size_t length = at[0] < 0x80                    ? 1
                    : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
                    : at[0] >> 4 == 14              ? 3
                    : at[0] >> 3 == 30              ? 4
                                                    : 0;
    for (size_t i = 1; i < length; i++)
        if (at[i] >> 6 != 2)
            return 0;
    bool is_overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool is_outside = (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf4 && at[1] > 0x8f) || at[0] > 0xf4;
    return is_overlong || is_outside ? 0 : length;
}

/* The length of the prefix that needs no escapes in JSON. */
static size_t count_plain(const char *string) {
    size_t plain = 0;
    for (;;) {
        unsigned char c = (unsigned char)string[plain];
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f)
            return plain;
        size_t length = utf8_length((const unsigned char *)string + plain);
        if (!length)
            return plain;
        plain += length;
    }
}

void gs_text_put_json(gs_text *text, const char *string) {
    gs_text_put(text, "\"", 1);
    for (;; string++) {
        size_t plain = count_plain(string);
        gs_text_put(text, string, plain);
        string += plain;
        unsigned char c = (unsigned char)*string;
        if (!c)
            break;
        if (c == '"' || c == '\\')
            gs_text_add(text, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            gs_text_add(text, "\\u%04x", c);
        else
            gs_text_add(text, "\\ufffd");
    }
    gs_text_put(text, "\"", 1);
}

/* The C1 controls, U+0080 to U+009F, are 0xc2 and a byte below 0xa0. */
static bool is_control(const unsigned char *at) {
    return at[0] < 0x20 || at[0] == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);
}

void gs_make_printable(char *string) {
    for (size_t length; *string; string += length) {
        const unsigned char *at = (const unsigned char *)string;
        bool is_harmful = is_control(at) || !utf8_length(at);
        length = gs_max_u64(utf8_length(at), 1);
        if (is_harmful)
            memset(string, '?', length);
    }
}

bool gs_is_printable(const char *string) {
    for (const unsigned char *at = (const unsigned char *)string; *at; at += utf8_length(at))
        if (is_control(at) || !utf8_length(at))
            return false;
    return true;
}

/* XML allows no control characters, not even escaped: they become a replacement character. */
void gs_text_put_xml(gs_text *text, const char *string) {
    for (; *string; string++) {
        unsigned char c = (unsigned char)*string;
        if (c == '&' || c == '<' || c == '>' || c == '"' || c == '\'')
            gs_text_add(text, "&#%d;", c);
        else if (c < 0x20 || c == 0x7f)
            gs_text_add(text, "\xef\xbf\xbd");
        else
            gs_text_put(text, string, 1);
    }
}

/* How many numbers from the first on are equally far apart; at least 1. */
static size_t count_regular(const int32_t *numbers, size_t count) {
    size_t regular = gs_min_u64(count, 2);
    while (regular >= 2 && regular < count && numbers[regular] - numbers[regular - 1] == numbers[1] - numbers[0])
        regular++;
    return regular;
}

/* One part of a list. Returns how many numbers it stands for. */
static size_t put_part(gs_text *text, const int32_t *numbers, size_t count) {
    size_t regular = count_regular(numbers, count);
    int32_t step = regular > 1 ? numbers[1] - numbers[0] : 0, last = numbers[regular - 1];
    gs_text_put_int(text, numbers[0]);
    if (regular > 1 && step == 0)
        gs_text_add(text, " x%zu", regular);
    else if (regular >= 3 && step == 1)
        gs_text_add(text, "-%d", last);
    else if (regular >= 4)
        gs_text_add(text, ", %d, .. %d", numbers[1], last);
    else
        return 1;
    return regular;
}

void gs_text_put_numbers(gs_text *text, const int32_t *numbers, size_t count, int parts) {
    for (size_t at = 0; at < count; parts--) {
        if (at)
            gs_text_put(text, ", ", 2);
        if (parts == 0) {
            gs_text_add(text, "and %zu more", count - at);
            return;
        }
        at += put_part(text, numbers + at, count - at);
    }
}

/* How many numbers from the first on are equally far apart. All but the last are runs of one number. */
static size_t count_regular_runs(const gs_number_run *runs, size_t count) {
    size_t regular = gs_min_u64(count, 2);
    while (regular >= 2 && regular < count && runs[regular - 1].count == 1 &&
           runs[regular].number - runs[regular - 1].number == runs[1].number - runs[0].number)
        regular++;
    return regular;
}

/* One part of a list of runs; the first run has `left` numbers left. Returns how many numbers the part stands for. */
static int64_t put_part_of_runs(gs_text *text, const gs_number_run *runs, size_t count, int64_t left) {
    gs_text_put_int(text, runs[0].number);
    if (left > 1) {
        gs_text_add(text, " x%lld", (long long)left);
        return left;
    }
    size_t regular = count_regular_runs(runs, count);
    int32_t last = runs[regular - 1].number;
    if (regular >= 3 && runs[1].number - runs[0].number == 1)
        gs_text_add(text, "-%d", last);
    else if (regular >= 4)
        gs_text_add(text, ", %d, .. %d", runs[1].number, last);
    else
        return 1;
    return (int64_t)regular;
}

void gs_text_put_runs(gs_text *text, const gs_number_run *runs, size_t count, int64_t total, int parts) {
    int64_t done = 0, used = 0; /* used: of the first run that is left */
    for (size_t at = 0; at < count; parts--) {
        if (done)
            gs_text_put(text, ", ", 2);
        if (parts == 0)
            break;
        int64_t put = put_part_of_runs(text, runs + at, count - at, runs[at].count - used);
        done += put;
        for (used += put; at < count && used >= runs[at].count; at++)
            used -= runs[at].count;
    }
    if (done < total)
        gs_text_add(text, "and %lld more", (long long)(total - done));
}

void gs_text_clear(gs_text *text) {
    text->count = 0;
    if (text->data)
        text->data[0] = '\0';
}

void gs_text_free(gs_text *text) {
    free(text->data);
    *text = (gs_text){0};
}

/* The slot that holds `name`, or the free one where it would go. `capacity` is a power of two, and some slot is always
   free. */
static struct gs_name *slot_of(const gs_names *names, const char *name) {
    size_t at = gs_hash(0, name, strlen(name)) & (names->capacity - 1);
    while (names->slots[at].name && strcmp(names->slots[at].name, name) != 0)
        at = (at + 1) & (names->capacity - 1);
    return &names->slots[at];
}

static bool names_grow(gs_names *names) {
    gs_names grown = {.capacity = names->capacity ? names->capacity * 2 : 32, .count = names->count};
    grown.slots = calloc(grown.capacity, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    for (size_t i = 0; i < names->capacity; i++)
        if (names->slots[i].name)
            *slot_of(&grown, names->slots[i].name) = names->slots[i];
    free(names->slots);
    *names = grown;
    return true;
}

size_t gs_names_add(gs_names *names, const char *name, size_t number) {
    if (names->count * 2 >= names->capacity && !names_grow(names))
        return SIZE_MAX;
    struct gs_name *slot = slot_of(names, name);
    if (!slot->name) {
        *slot = (struct gs_name){name, number};
        names->count++;
    }
    return slot->number;
}

size_t gs_names_find(const gs_names *names, const char *name) {
    if (!names->capacity)
        return SIZE_MAX;
    const struct gs_name *slot = slot_of(names, name);
    return slot->name ? slot->number : SIZE_MAX;
}

bool gs_names_copy(gs_names *to, const gs_names *from) {
    if (to->capacity != from->capacity) {
        gs_names_free(to);
        to->slots = calloc(from->capacity, sizeof *to->slots);
        if (!to->slots && from->capacity)
            return false;
        to->capacity = from->capacity;
    }
    if (from->capacity)
        memcpy(to->slots, from->slots, from->capacity * sizeof *to->slots);
    to->count = from->count;
    return true;
}

void gs_names_free(gs_names *names) {
    free(names->slots);
    *names = (gs_names){0};
}

bool gs_parse_bytes(const char *text, int64_t *bytes) {
    static const char units[] = "KMGT", small_units[] = "kmgt";
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *bytes = strtoll(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL, *small = *end ? strchr(small_units, *end) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : small ? 10 * (int)(small - small_units + 1) : 0;
    const char *rest = end + (shift > 0);
    bool is_end = !*rest || (shift && (strcmp(rest, "B") == 0 || strcmp(rest, "iB") == 0));
    if (errno || !is_end || *bytes > INT64_MAX >> shift)
        return false;
    *bytes <<= shift;
    return true;
}
