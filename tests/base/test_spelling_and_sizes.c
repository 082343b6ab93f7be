/*
 * test_spelling_and_sizes.c: words of a command line: misspelled names, and sizes.
 */
#include "test.h"

#include "base/base.h"

#include <string.h>

/* The distance as it is defined, one letter at a time. */
static size_t literal_distance(const char *a, const char *b) {
    if (!*a || !*b)
        return strlen(a) + strlen(b);
    size_t least = gs_min(literal_distance(a + 1, b), literal_distance(a, b + 1)) + 1;
    least = gs_min(least, literal_distance(a + 1, b + 1) + (*a != *b));
    if (a[1] && a[0] == b[1] && a[1] == b[0])
        least = gs_min(least, literal_distance(a + 2, b + 2) + 1);
    return least;
}

static void random_word(gs_random *random, char *word) {
    int length = (int)gs_random_from(random, 0, 6);
    for (int i = 0; i < length; i++)
        word[i] = (char)('a' + gs_random_from(random, 0, 2));
    word[length] = '\0';
}

TEST(distance_is_the_fewest_changes) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 0);
    for (uint64_t i = 0; i < test_number("GRIDSMITH_RUNS", 100000) / 10; i++) {
        char a[8], b[8];
        random_word(&random, a);
        random_word(&random, b);
        if (gs_word_distance(a, b) != literal_distance(a, b))
            fail_msg("run %llu: \"%s\" and \"%s\": %zu, not %zu", (unsigned long long)i, a, b, gs_word_distance(a, b),
                     literal_distance(a, b));
    }
}

static const char *suggestion(gs_similar *similar) {
    static const char *const names[] = {"predict", "probe", "a100", "h200", "h100-sxm", "zoo", "record", "replay"};
    for (size_t i = 0; i < GS_COUNT(names); i++)
        gs_similar_try(similar, names[i]);
    return gs_similar_words(similar);
}

TEST(mistakes_are_recognized) {
    static const struct {
        const char *word, *words;
    } rows[] = {{"prdict", " (did you mean \"predict\"?)"},
                {"pobre", " (did you mean \"probe\"?)"},
                {"H200", " (did you mean \"h200\"?)"},
                {"rpelay", " (did you mean \"replay\"?)"},
                {"H100", " (did you mean \"h100-sxm\"?)"},
                {"sxm", " (did you mean \"h100-sxm\"?)"},
                {"h1", ""},
                {"xyz", ""},
                {"", ""},
                {"recorder", " (did you mean \"record\"?)"}};
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_similar similar = {.word = rows[i].word};
        assert_string_equal(suggestion(&similar), rows[i].words);
    }
    char word[1000];
    memset(word, 'x', sizeof word);
    word[sizeof word - 1] = '\0';
    gs_similar similar = {.word = word};
    assert_string_equal(suggestion(&similar), "");
}

TEST(sizes_have_units) {
    static const struct {
        const char *text;
        int64_t bytes; /* -1: not a size */
    } rows[] = {{"0", 0},
                {"4096", 4096},
                {"200K", 204800},
                {"200k", 204800},
                {"3m", 3145728},
                {"2G", (int64_t)2 << 30},
                {"1T", (int64_t)1 << 40},
                {"9223372036854775807", INT64_MAX},
                {"9223372036854775808", -1},
                {"8388608T", -1},
                {"", -1},
                {"K", -1},
                {"-1", -1},
                {" 1", -1},
                {"200KB", 204800},
                {"200KiB", 204800},
                {"16GB", (int64_t)16 << 30},
                {"200B", -1},
                {"1KBs", -1},
                {"1Ki", -1},
                {"1.5K", -1},
                {"1 K", -1}};
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        int64_t bytes = -1;
        bool is_size = gs_parse_bytes(rows[i].text, &bytes);
        if (is_size != (rows[i].bytes >= 0) || (is_size && bytes != rows[i].bytes))
            fail_msg("\"%s\": %d, %lld", rows[i].text, is_size, (long long)bytes);
    }
}

TEST_MAIN(NULL, NULL)
