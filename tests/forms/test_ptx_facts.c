/*
 * test_ptx_facts.c: what is known of the kernels of PTX files (facts.h), and of those that differ from them in one or
 * two statements, is as before (tests/forms/facts/files.txt): kernels with calls, pointers, shared variables,
 * warp operations and barriers, which are written in many ways.
 */
#include "answers.h"
#include "facts.h"
#include "kernels/forms/forms.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ENTRIES = 5 };

static const char *const files[] = {
    "tests/traps/active_in_both_branches.ptx",
    "tests/traps/array_element.ptx",
    "tests/traps/block_by_pointer.ptx",
    "tests/traps/block_of_cooperative_groups.ptx",
    "tests/traps/device_launch.ptx",
    "tests/traps/grid_sync.ptx",
    "tests/traps/lock_and_look_back.ptx",
    "tests/traps/malloc_by_pointer.ptx",
    "tests/traps/reshaped_already.ptx",
    "tests/traps/return_and_guarded_votes.ptx",
    "tests/traps/return_before_group_barrier.ptx",
    "tests/traps/shared_in_copied_function.ptx",
    "tests/traps/shared_size_by_pointer.ptx",
    "tests/fuzz/corpus/ptx/kernel",
    "tests/fuzz/corpus/ptx/waits",
    "tests/flow/cases.ptx",
};

static gs_text read_text(const char *path) {
    char *bytes = NULL;
    size_t count = 0;
    gs_text text = {0};
    gs_error error = {.code = GS_OK};
    if (gs_input_all(test_path(path), 1 << 20, &bytes, &count, &error) != GS_OK)
        fail_msg("%s: %s", path, error.message);
    gs_text_put(&text, bytes, count);
    free(bytes);
    return text;
}

/* The first names of kernels in a text; how many there are. */
static int find_entries(const gs_text *text, char names[MOST_ENTRIES][80]) {
    static const char word[] = ".entry ";
    int count = 0;
    for (const char *at = text->data; count < MOST_ENTRIES && (at = strstr(at, word)); count++) {
        at += strlen(word);
        snprintf(names[count], sizeof names[count], "%.*s", (int)strcspn(at, " (\n\t"), at);
    }
    return count;
}

/* Where the statement at a random place begins and ends, semicolons included. */
static void find_statement(gs_random *random, const gs_text *text, size_t *from, size_t *to) {
    const char *body = strchr(text->data, '{'), *end = text->data + text->count;
    const char *at = body + gs_random_from(random, 1, (int64_t)(end - body) - 1);
    while (at > body + 1 && !strchr(";{}:", at[-1]))
        at--;
    const char *behind = at + strcspn(at, ";{}");
    *from = (size_t)(at - text->data);
    *to = (size_t)(behind - text->data) + (*behind == ';');
}

/* A statement is left out, comes twice, or comes earlier; or a number in it is another one. */
static gs_text with_change(gs_random *random, const gs_text *text) {
    gs_text into = {0};
    size_t from, to, earlier, ends;
    int64_t how = gs_random_from(random, 0, 4);
    find_statement(random, text, &from, &to);
    find_statement(random, text, &earlier, &ends);
    const char *declared = strstr(text->data + from, ".reg"); /* registers stay in their function */
    bool can_move = earlier < from && !(declared && declared < text->data + to);
    if (how == 0 && can_move) {
        gs_text_put(&into, text->data, earlier);
        gs_text_put(&into, text->data + from, to - from);
        gs_text_put(&into, text->data + earlier, from - earlier);
    } else {
        gs_text_put(&into, text->data, from);
        for (size_t i = from; how >= 2 && i < to; i++) {
            bool is_number = strchr("0123456789", text->data[i]) && strchr(" ,+[", text->data[i - 1]);
            if (is_number)
                gs_text_add(&into, "%d", (int)gs_random_from(random, 0, how == 2 ? 4 : 64));
            else
                gs_text_put(&into, text->data + i, 1);
        }
        if (how == 1)
            for (int i = 0; i < 2; i++)
                gs_text_put(&into, text->data + from, to - from);
    }
    gs_text_put(&into, text->data + to, text->count - to);
    return into;
}

static uint64_t facts_of_all(const gs_text *text, char names[MOST_ENTRIES][80], int count) {
    uint64_t hash = 0;
    for (int i = 0; i < count; i++)
        hash = answers_add(hash, (int64_t)facts_of(text, names[i]));
    return hash;
}

TEST(what_is_known_of_files_is_as_before) {
    enum { CHANGES = 120, BRIEF_CHANGES = 20 };
    answers_open("tests/forms/facts/files.txt");
    for (size_t i = 0; i < GS_COUNT(files); i++) {
        char names[MOST_ENTRIES][80];
        gs_text text = read_text(files[i]);
        int count = find_entries(&text, names);
        assert_true(count > 0);
        answers_begin(strrchr(files[i], '/') + 1);
        answers_expect(facts_of_all(&text, names, count));
        for (uint64_t k = 0; k < (test_is_brief() ? BRIEF_CHANGES : CHANGES); k++) {
            gs_random random = gs_random_at(71 + i, k);
            gs_text other = with_change(&random, &text);
            if (k % 3 == 2) {
                gs_text again = with_change(&random, &other);
                gs_text_free(&other);
                other = again;
            }
            answers_expect(facts_of_all(&other, names, count));
            gs_text_free(&other);
        }
        answers_end();
        gs_text_free(&text);
    }
    answers_close();
}

TEST_MAIN(NULL, NULL)
