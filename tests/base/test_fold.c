/*
 * test_fold.c: tables and help can be read on a terminal of 80 columns, and pipes get lines as they are.
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>

static void check_fold(const char *lines, int columns, const char *wanted) {
    gs_text text = {0};
    gs_text_fold(&text, lines, strlen(lines), columns);
    assert_false(text.failed);
    assert_string_equal(text.count ? text.data : "", wanted);
    gs_text_free(&text);
}

TEST(long_lines_are_broken_at_spaces) {
    check_fold("", 20, "");
    check_fold("\n\n", 20, "\n\n");
    check_fold("exactly twenty wide.\n", 20, "exactly twenty wide.\n");
    check_fold("exactly twenty wide.. no\n", 20, "exactly twenty\n  wide.. no\n");
    check_fold("    a line with a margin of four\n", 20, "    a line with a\n      margin of four\n");
    check_fold("no newline at the very end", 20, "no newline at the\n  very end");
    check_fold("one-word-that-is-wider-than-the-terminal and more\n", 20,
               "one-word-that-is-wider-than-the-terminal\n  and more\n");
    check_fold("trailing spaces are        \n", 20, "trailing spaces are\n");
}

TEST(the_last_column_stays_a_column) {
    check_fold("  --top N  show the N longest waits of all\n", 30,
               "  --top N  show the N longest\n           waits of all\n");
    /* A row of numbers is broken between its columns, and the next lines of all rows begin alike. */
    check_fold("  1  launch  k1      82      64  0, 2, .. 80, 1, 3\n", 36,
               "  1  launch  k1      82      64\n        0, 2, .. 80, 1, 3\n");
    check_fold(" 10  launch  k1      82      64  0, 2, .. 80, 1, 3\n", 36,
               " 10  launch  k1      82      64\n        0, 2, .. 80, 1, 3\n");
}

TEST(colors_and_letters_take_the_columns_that_are_seen) {
    check_fold("\033[31mred red\033[0m red red red\n", 20, "\033[31mred red\033[0m red red red\n");
    check_fold(
        "\u00e4\u00e4\u00e4\u00e4 \u00e4\u00e4\u00e4\u00e4 \u00e4\u00e4\u00e4\u00e4 \u00e4\u00e4\u00e4\u00e4!\n", 20,
        "\u00e4\u00e4\u00e4\u00e4 \u00e4\u00e4\u00e4\u00e4 \u00e4\u00e4\u00e4\u00e4 \u00e4\u00e4\u00e4\u00e4!\n");
    check_fold("\033[3", 20, "\033[3");
}

/* No line that has a place to break is too wide, and no word is lost, whatever the text. */
TEST(random_lines_fit) {
    for (uint64_t i = 0; i < 2000; i++) {
        gs_random random = gs_random_at(7, i);
        char line[400];
        size_t count = (size_t)gs_random_from(&random, 0, sizeof line - 1);
        for (size_t k = 0; k < count; k++)
            line[k] = "abc  \n"[gs_random_from(&random, 0, 5)];
        line[count] = '\0';
        int columns = (int)gs_random_from(&random, 20, 100);
        gs_text text = {0};
        gs_text_fold(&text, line, count, columns);
        const char *in = line, *out = text.count ? text.data : "";
        for (;; in++, out++) {
            in += strspn(in, " \n");
            out += strspn(out, " \n");
            if (*in != *out)
                fail_msg("index %llu: \"%s\" became \"%s\"", (unsigned long long)i, line, text.data);
            if (!*in)
                break;
        }
        for (const char *at = text.count ? text.data : ""; *at; at += strcspn(at, "\n"), at += *at == '\n') {
            size_t length = strcspn(at, "\n"), margin = strspn(at, " "), word = margin + strcspn(at + margin, " \n");
            if (length > (size_t)columns && word < length && word + strspn(at + word, " ") < length)
                fail_msg("index %llu: a line of %zu columns, of %d: \"%.*s\"", (unsigned long long)i, length, columns,
                         (int)length, at);
        }
        gs_text_free(&text);
    }
}

TEST(only_terminals_have_columns) {
    FILE *file = tmpfile();
    assert_non_null(file);
    unsetenv("COLUMNS");
    assert_int_equal(gs_columns(file), 0);
    setenv("COLUMNS", "72", 1);
    assert_int_equal(gs_columns(file), 72);
    setenv("COLUMNS", "3", 1);
    assert_int_equal(gs_columns(file), 0);
    setenv("COLUMNS", "30", 1);
    gs_text text = gs_text_for_people(file);
    gs_text_add(&text, "this sentence is wider than thirty columns\n");
    gs_text_flush(&text);
    gs_writer writer = gs_writer_to(&text);
    gs_write_document(&writer, "a schema that is wider than thirty columns");
    gs_write_finish(&writer);
    gs_text_flush(&text);
    gs_text_free(&text);
    char seen[200] = "";
    rewind(file);
    seen[fread(seen, 1, sizeof seen - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(seen, "this sentence is wider than\n  thirty columns\n"
                              "{\"schema\":\"a schema that is wider than thirty columns\"}\n");
}

TEST(files_named_gz_are_compressed) {
    gs_error error = {.code = GS_OK};
    char *folder = gs_folder_make(&error), path[600];
    assert_non_null(folder);
    snprintf(path, sizeof path, "%s/x.json.gz", folder);
    gs_output output;
    assert_int_equal(gs_output_open(&output, path, &error), GS_OK);
    for (int i = 0; i < 100000; i++)
        fprintf(output.file, "line %d\n", i);
    assert_int_equal(gs_output_keep(&output, &error), GS_OK);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fgetc(file), 0x1f);
    assert_int_equal(fgetc(file), 0x8b);
    fclose(file);
    char *bytes = NULL;
    size_t count = 0;
    assert_int_equal(gs_input_all(path, 10 << 20, &bytes, &count, &error), GS_OK);
    assert_int_equal(count, 1088890);
    assert_string_equal(bytes + count - 11, "line 99999\n");
    free(bytes);
    /* What is dropped leaves no file. */
    snprintf(path, sizeof path, "%s/y.json.gz", folder);
    assert_int_equal(gs_output_open(&output, path, &error), GS_OK);
    gs_output_drop(&output);
    assert_int_equal(gs_input_all(path, 100, &bytes, &count, &error), GS_E_USAGE);
    free(bytes);
    gs_folder_remove(folder);
    free(folder);
}

TEST_MAIN(NULL, NULL)
