/*
 * similar.c: suggests the existing name that is most similar to a misspelled one.
 *
 * The distance of two words is the number of letters that must be added, removed, replaced or swapped with the next one
 * to turn one into the other (optimal string alignment). Case does not matter. A name is suggested if its distance is
 * at most a third of the word's length. A name that begins or ends with the word is nearer than any
 * other.
 */
#include "base.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 64 };

static bool is_same(char a, char b) {
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

size_t gs_word_distance(const char *a, const char *b) {
    size_t a_length = strlen(a), b_length = strlen(b), rows[3][LONGEST + 1];
    if (a_length > LONGEST || b_length > LONGEST)
        return SIZE_MAX;
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        last[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        now[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t replaced = last[j - 1] + !is_same(a[i - 1], b[j - 1]);
            now[j] = gs_min(replaced, gs_min(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) && is_same(a[i - 2], b[j - 1]))
                now[j] = gs_min(now[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = now;
        now = oldest;
    }
    return last[b_length];
}

/* Words of two letters are too short for a suggestion. */
static bool has_at_an_end(const char *name, const char *word) {
    size_t length = strlen(word), all = strlen(name);
    if (length < 3 || length > all)
        return false;
    return strncasecmp(name, word, length) == 0 || strcasecmp(name + all - length, word) == 0;
}

void gs_similar_try(gs_similar *similar, const char *name) {
    size_t most = (strlen(similar->word) + 2) / 3;
    size_t distance = has_at_an_end(name, similar->word) ? 0 : gs_word_distance(similar->word, name);
    if (distance > most || (similar->name && distance >= similar->distance))
        return;
    similar->name = name;
    similar->distance = distance;
}

const char *gs_similar_words(gs_similar *similar) {
    similar->words[0] = '\0';
    if (similar->name)
        snprintf(similar->words, sizeof similar->words, " (did you mean \"%s\"?)", similar->name);
    return similar->words;
}
