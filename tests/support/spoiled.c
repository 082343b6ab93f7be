/*
 * spoiled.c: texts of JSON with one mistake. See spoiled.h.
 */
#include "spoiled.h"

#include "answers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *const values[] = {"-1",
                                     "0",
                                     "1",
                                     "2",
                                     "3",
                                     "7",
                                     "32",
                                     "1024",
                                     "65535",
                                     "65536",
                                     "4294967296",
                                     "9223372036854775807",
                                     "9223372036854775808",
                                     "1.5",
                                     "-0.25",
                                     "1e3",
                                     "null",
                                     "true",
                                     "false",
                                     "\"\"",
                                     "\"x\"",
                                     "\"0\"",
                                     "\"k0\"",
                                     "\"a\\u00e4\"",
                                     "[]",
                                     "{}",
                                     "[0]",
                                     "[null]",
                                     "[1, null]",
                                     "[-2]",
                                     "{\"x\": 1}"};

/* A string, a number, a word, or one character. */
struct token {
    size_t at, count;
};

static struct token *find_tokens(const char *text, size_t count, size_t *found) {
    struct token *tokens = calloc(count + 1, sizeof *tokens);
    assert_non_null(tokens);
    *found = 0;
    for (size_t i = 0, from; i < count;) {
        from = i++;
        if (isspace((unsigned char)text[from]))
            continue;
        if (text[from] == '"') {
            while (i < count && text[i] != '"')
                i += text[i] == '\\' ? 2 : 1;
            i = gs_min_u64(i + 1, count);
        } else if (!strchr("{}[],:", text[from])) {
            while (i < count && !strchr("{}[],: \n\t\"", text[i]))
                i++;
        }
        tokens[(*found)++] = (struct token){from, i - from};
    }
    return tokens;
}

static bool is_key(const char *text, const struct token *tokens, size_t count, size_t i) {
    return text[tokens[i].at] == '"' && i + 1 < count && text[tokens[i + 1].at] == ':';
}

/* What a token becomes. A number is often one more or less, or another number of the text. */
static void put_other(gs_random *random, const char *text, const struct token *tokens, size_t count, size_t i,
                      gs_text *into) {
    const char *at = text + tokens[i].at;
    size_t other = (size_t)gs_random_from(random, 0, (int64_t)count - 1);
    int64_t how = gs_random_from(random, 0, 9);
    bool takes_other = is_key(text, tokens, count, i) == is_key(text, tokens, count, other) &&
                       !strchr("{}[],:", text[tokens[other].at]);
    if (strchr("{}[],:", *at)) {
        gs_text_add(into, "%s", how < 5 ? "" : ((const char *[]){"{", "}", "[", "]", ","})[how - 5]);
    } else if (is_key(text, tokens, count, i)) {
        if (takes_other)
            gs_text_put(into, text + tokens[other].at, tokens[other].count);
        else
            gs_text_add(into, "\"other\"");
    } else if (how < 3 && (isdigit((unsigned char)*at) || *at == '-')) {
        gs_text_add(into, "%lld", (long long)((uint64_t)strtoll(at, NULL, 10) + (how ? 1 : UINT64_MAX)));
    } else if (how < 6 && takes_other) {
        gs_text_put(into, text + tokens[other].at, tokens[other].count);
    } else {
        gs_text_add(into, "%s", values[gs_random_from(random, 0, (int64_t)GS_COUNT(values) - 1)]);
    }
}

gs_text spoiled(gs_random *random, const char *text, size_t count) {
    size_t found;
    struct token *tokens = find_tokens(text, count, &found);
    gs_text into = {0};
    size_t i = (size_t)gs_random_from(random, 0, (int64_t)found - 1);
    for (int more = 0; more < 3 && strchr("{}[],:", text[tokens[i].at]); more++) /* rather a key or a value */
        i = (size_t)gs_random_from(random, 0, (int64_t)found - 1);
    bool is_cut = gs_random_chance(random, 2);
    gs_text_put(&into, text, tokens[i].at);
    if (!is_cut) {
        put_other(random, text, tokens, found, i, &into);
        gs_text_put(&into, text + tokens[i].at + tokens[i].count, count - tokens[i].at - tokens[i].count);
    }
    free(tokens);
    return into;
}

uint64_t spoiled_error(uint64_t hash, const gs_error *error) {
    hash = answers_add(answers_add(answers_add(hash, error->code), error->line), error->column);
    hash = gs_hash(hash, error->message, strlen(error->message));
    return answers_add(gs_hash(hash, error->excerpt, strlen(error->excerpt)), error->excerpt[0] ? error->caret : 0);
}
