/*
 * test_json_writer.c: the JSON writer writes valid JSON with the values of the caller.
 */
#include "test.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void assert_written(gs_text *text, const char *wanted) {
    assert_false(text->failed);
    assert_string_equal(text->data, wanted);
    gs_text_clear(text);
}

TEST(commas_and_brackets_stand_where_they_must) {
    gs_text text = {0};
    gs_writer writer = gs_writer_to(&text);
    gs_write_document(&writer, "gridsmith.test/1");
    gs_write_array(&writer, "empty");
    gs_write_end(&writer);
    gs_write_object(&writer, "nothing");
    gs_write_end(&writer);
    gs_write_array(&writer, "rows");
    for (int row = 0; row < 3; row++) {
        gs_write_array(&writer, NULL);
        for (int i = 0; i < row; i++)
            gs_write_int(&writer, NULL, i);
        gs_write_end(&writer);
    }
    gs_write_object(&writer, NULL);
    gs_write_bool(&writer, "yes", true);
    gs_write_bool(&writer, "no", false);
    gs_write_end(&writer);
    gs_write_null(&writer, NULL);
    gs_write_null(&writer, NULL);
    gs_write_int(&writer, NULL, 7);
    gs_write_end(&writer);
    gs_write_raw(&writer, "raw", "{\"a\": 1}");
    gs_write_null(&writer, "last");
    gs_write_finish(&writer);
    assert_written(&text, "{\"schema\":\"gridsmith.test/1\",\"empty\":[],\"nothing\":{},\"rows\":[[],[0],[0,1],"
                          "{\"yes\":true,\"no\":false},null,null,7],\"raw\":{\"a\": 1},\"last\":null}\n");
    gs_text_free(&text);
}

TEST(lines_follow_each_other) {
    gs_text text = {0};
    gs_writer writer = gs_writer_to(&text);
    gs_write_document(&writer, "gridsmith.test/1");
    gs_write_array(&writer, "open");
    gs_write_object(&writer, NULL);
    gs_write_finish(&writer);
    gs_write_object(&writer, NULL);
    gs_write_int(&writer, "line", 2);
    gs_write_finish(&writer);
    gs_write_string(&writer, NULL, "line 3");
    gs_write_finish(&writer);
    assert_written(&text, "{\"schema\":\"gridsmith.test/1\",\"open\":[{}]}\n{\"line\":2}\n\"line 3\"\n");
    gs_text_free(&text);
}

TEST(strings_and_keys_are_escaped) {
    static const struct {
        const char *string, *wanted;
    } cases[] = {
        {"", "\"\""},
        {"a \"b\" \\ /", "\"a \\\"b\\\" \\\\ /\""},
        {"\n\t\x01\x1f\x7f", "\"\\u000a\\u0009\\u0001\\u001f\\u007f\""},
        {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\""},
        {"a\x80z", "\"a\\ufffdz\""},                                          /* a continuation byte alone */
        {"\xc3", "\"\\ufffd\""},                                              /* ends too early */
        {"\xe2\x82z", "\"\\ufffd\\ufffdz\""},                                 /* likewise */
        {"\xc0\xaf", "\"\\ufffd\\ufffd\""},                                   /* longer than needed */
        {"\xe0\x9f\xbf", "\"\\ufffd\\ufffd\\ufffd\""},                        /* likewise */
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},                        /* half of a pair of UTF-16 */
        {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},             /* above the last character */
        {"\xff\xfe\"", "\"\\ufffd\\ufffd\\\"\""},                             /* never in UTF-8 */
        {"\xf4\x8f\xbf\xbf\xee\x80\x80", "\"\xf4\x8f\xbf\xbf\xee\x80\x80\""}, /* the last, and one after the pairs */
    };
    gs_text text = {0}, wanted = {0};
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_writer writer = gs_writer_to(&text);
        gs_write_string(&writer, NULL, cases[i].string);
        assert_written(&text, cases[i].wanted);
        writer = gs_writer_to(&text);
        gs_write_object(&writer, NULL);
        gs_write_string(&writer, cases[i].string, NULL);
        gs_write_end(&writer);
        gs_text_add(&wanted, "{%s:null}", cases[i].wanted);
        assert_written(&text, wanted.data);
        gs_text_clear(&wanted);
    }
    gs_text_free(&wanted);
    gs_text_free(&text);
}

TEST(numbers_are_exact) {
    gs_text text = {0};
    gs_writer writer = gs_writer_to(&text);
    gs_write_array(&writer, NULL);
    for (int round = 0; round < 2; round++) {
        gs_write_int(&writer, NULL, INT64_MIN);
        gs_write_int(&writer, NULL, INT64_MAX);
        gs_write_int(&writer, NULL, 0);
        gs_write_int(&writer, NULL, -10);
        gs_write_uint(&writer, NULL, UINT64_MAX);
        gs_write_uint(&writer, NULL, (uint64_t)INT64_MAX + 1);
        gs_write_uint(&writer, NULL, 0);
    }
    gs_write_end(&writer);
    assert_written(&text, "[-9223372036854775808,9223372036854775807,0,-10,18446744073709551615,9223372036854775808,0,"
                          "-9223372036854775808,9223372036854775807,0,-10,18446744073709551615,9223372036854775808,0]");
    writer = gs_writer_to(&text);
    gs_write_object(&writer, NULL);
    gs_write_int(&writer, "int", INT64_MIN);
    gs_write_uint(&writer, "uint", UINT64_MAX);
    gs_write_end(&writer);
    assert_written(&text, "{\"int\":-9223372036854775808,\"uint\":18446744073709551615}");
    gs_text_free(&text);
}

TEST(what_json_cannot_say_is_null) {
    gs_text text = {0};
    gs_writer writer = gs_writer_to(&text);
    gs_write_array(&writer, NULL);
    gs_write_real(&writer, NULL, NAN, 3);
    gs_write_real(&writer, NULL, INFINITY, 3);
    gs_write_real(&writer, NULL, -INFINITY, 0);
    gs_write_real(&writer, NULL, 1.0005, 2);
    gs_write_real(&writer, NULL, -2.5, 0);
    gs_write_real(&writer, NULL, 1e22, 1);
    gs_write_object(&writer, NULL);
    gs_write_real(&writer, "nan", NAN, 3);
    gs_write_string(&writer, "string", NULL);
    gs_write_finish(&writer);
    assert_written(&text, "[null,null,null,1.00,-2,10000000000000000000000.0,{\"nan\":null,\"string\":null}]\n");
    gs_text_free(&text);
}

TEST(microseconds_have_the_decimals_they_need) {
    gs_text text = {0};
    gs_writer writer = gs_writer_to(&text);
    gs_write_array(&writer, NULL);
    static const int64_t times[] = {0, 1, 10, 100, 1000, 1500, 1050, 1005, 20000, -500, -1001, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < GS_COUNT(times); i++)
        gs_write_us(&writer, NULL, times[i]);
    gs_write_end(&writer);
    assert_written(&text, "[0,0.001,0.01,0.1,1,1.5,1.05,1.005,20,-0.5,-1.001,9223372036854775.807,"
                          "-9223372036854775.808]");
    gs_text_free(&text);
}

/* ---- mistakes ---- */

static void nest(gs_writer *writer, int depth) {
    for (int i = 0; i < depth; i++)
        gs_write_array(writer, NULL);
}

TEST(too_deep_a_document_fails) {
    gs_text text = {0};
    gs_writer writer = gs_writer_to(&text);
    nest(&writer, GS_JSON_DEPTH);
    assert_false(text.failed);
    gs_write_finish(&writer);
    assert_written(&text, "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]\n");
    writer = gs_writer_to(&text);
    nest(&writer, GS_JSON_DEPTH + 1);
    assert_true(text.failed);
    gs_write_finish(&writer);
    gs_text_free(&text);
}

/* Each of these calls would produce invalid JSON. */
static void a_member_without_a_key(gs_writer *writer) {
    gs_write_object(writer, NULL);
    gs_write_int(writer, NULL, 1);
}

static void a_second_member_without_a_key(gs_writer *writer) {
    gs_write_object(writer, NULL);
    gs_write_int(writer, "a", 1);
    gs_write_int(writer, NULL, 1);
}

static void a_key_in_an_array(gs_writer *writer) {
    gs_write_array(writer, NULL);
    gs_write_int(writer, NULL, 1);
    gs_write_string(writer, "a", "b");
}

static void a_key_outside(gs_writer *writer) {
    gs_write_object(writer, "a");
}

static void two_values_outside(gs_writer *writer) {
    gs_write_object(writer, NULL);
    gs_write_end(writer);
    gs_write_null(writer, NULL);
}

static void an_end_too_many(gs_writer *writer) {
    gs_write_array(writer, NULL);
    gs_write_end(writer);
    gs_write_end(writer);
}

TEST(mistakes_fail) {
    static void (*const mistakes[])(gs_writer *) = {a_member_without_a_key, a_second_member_without_a_key,
                                                    a_key_in_an_array,      a_key_outside,
                                                    two_values_outside,     an_end_too_many};
    for (size_t i = 0; i < GS_COUNT(mistakes); i++) {
        gs_text text = {0};
        gs_writer writer = gs_writer_to(&text);
        mistakes[i](&writer);
        if (!text.failed)
            fail_msg("mistake %zu was written: %s", i, text.data);
        gs_text_free(&text);
    }
}

/* ---- random documents: jansson builds one from the same choices, and reads the other back ---- */

struct pair {
    gs_random random;
    gs_writer writer;
};

static const char *random_string(gs_random *random, char *string, size_t size) {
    static const char *const parts[] = {"a", "\"", "\\", "\n", "\x7f", "\xc3\xa4", "\xf0\x9f\x98\x80", "{", ",", ":"};
    string[0] = '\0';
    for (int64_t i = gs_random_from(random, 0, 6); i > 0 && strlen(string) + 5 < size; i--)
        strcat(string, parts[gs_random_from(random, 0, GS_COUNT(parts) - 1)]);
    return string;
}

static json_t *random_value(struct pair *pair, const char *key);

static json_t *random_array(struct pair *pair, const char *key) {
    json_t *array = json_array();
    gs_write_array(&pair->writer, key);
    for (int64_t i = gs_random_from(&pair->random, 0, 5); i > 0; i--)
        json_array_append_new(array, random_value(pair, NULL));
    gs_write_end(&pair->writer);
    return array;
}

static json_t *random_object(struct pair *pair, const char *key) {
    json_t *object = json_object();
    gs_write_object(&pair->writer, key);
    for (int64_t i = gs_random_from(&pair->random, 0, 5); i > 0; i--) {
        char name[48], part[32];
        snprintf(name, sizeof name, "%s%" PRId64, random_string(&pair->random, part, sizeof part), i);
        json_object_set_new(object, name, random_value(pair, name));
    }
    gs_write_end(&pair->writer);
    return object;
}

static json_t *random_number(struct pair *pair, const char *key) {
    int64_t number = (int64_t)gs_random_next(&pair->random) >> gs_random_from(&pair->random, 0, 63);
    if (gs_random_chance(&pair->random, 60)) {
        gs_write_int(&pair->writer, key, number);
        return json_integer(number);
    }
    if (gs_random_chance(&pair->random, 50) && number >= 0) {
        gs_write_uint(&pair->writer, key, (uint64_t)number);
        return json_integer(number);
    }
    double real = (double)(number % 1000000000) / 1000;
    gs_write_real(&pair->writer, key, real, 3);
    return json_real(real);
}

static json_t *random_value(struct pair *pair, const char *key) {
    char string[32];
    bool is_deep = pair->writer.depth >= GS_JSON_DEPTH;
    switch (gs_random_from(&pair->random, is_deep ? 2 : 0, 7)) {
    case 0:
        return random_array(pair, key);
    case 1:
        return random_object(pair, key);
    case 2:
        gs_write_string(&pair->writer, key, random_string(&pair->random, string, sizeof string));
        return json_string(string);
    case 3:
        gs_write_bool(&pair->writer, key, true);
        return json_true();
    case 4:
        gs_write_bool(&pair->writer, key, false);
        return json_false();
    case 5:
        gs_write_null(&pair->writer, key);
        return json_null();
    default:
        return random_number(pair, key);
    }
}

/* Equal, with the members in the same order, and without white space. */
static void compare(const gs_text *text, const json_t *wanted, uint64_t seed, uint64_t index) {
    json_error_t problem;
    json_t *read = json_loads(text->data, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &problem);
    if (text->failed || !read)
        fail_msg("seed %" PRIu64 " index %" PRIu64 ": %s: %s", seed, index, problem.text, text->data);
    char *one = json_dumps(read, JSON_ENCODE_ANY), *two = json_dumps(wanted, JSON_ENCODE_ANY);
    if (!json_equal(read, wanted) || strcmp(one, two) != 0)
        fail_msg("seed %" PRIu64 " index %" PRIu64 ": %s, not %s", seed, index, one, two);
    assert_null(strpbrk(text->data, " \n\t\r"));
    free(one);
    free(two);
    json_decref(read);
}

TEST(random_documents_are_read_back) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1);
    gs_text text = {0};
    int deepest = 0;
    for (uint64_t index = 0; index < 20000; index++) {
        struct pair pair = {.random = gs_random_at(seed, index), .writer = gs_writer_to(&text)};
        json_t *wanted = random_value(&pair, NULL);
        assert_int_equal(pair.writer.depth, 0);
        compare(&text, wanted, seed, index);
        for (const char *at = text.data; *at; at++)
            deepest = *at == '[' && strspn(at, "[{") > (size_t)deepest ? (int)strspn(at, "[{") : deepest;
        json_decref(wanted);
        gs_text_clear(&text);
    }
    assert_true(deepest >= 4);
    gs_text_free(&text);
}

/* ---- long documents ---- */

static void write_long(gs_text *text) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.test/1");
    gs_write_array(&writer, "numbers");
    for (int64_t i = 0; i < 2000000; i++)
        gs_write_int(&writer, NULL, i);
    gs_write_finish(&writer);
    assert_false(text->failed);
}

TEST(long_documents_are_streamed) {
    FILE *file = tmpfile();
    gs_text whole = {0}, streamed = {.sink = file};
    write_long(&whole);
    write_long(&streamed);
    assert_true(whole.count > 14000000);
    assert_true(streamed.capacity < 4000000);
    gs_text_flush(&streamed);
    char *read = malloc(whole.count + 1);
    rewind(file);
    assert_int_equal(fread(read, 1, whole.count + 1, file), whole.count);
    assert_memory_equal(read, whole.data, whole.count);
    free(read);
    fclose(file);
    gs_text_free(&whole);
    gs_text_free(&streamed);
}

TEST_MAIN(NULL, NULL)
