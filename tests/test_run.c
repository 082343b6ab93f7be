/*
 * test_run.c: runs are read as the format says, and errors are refused with their place and reason.
 */
#include "test.h"

#include "sched/sched.h"

#include <stdlib.h>
#include <string.h>

#define LAUNCH(rest)                                                                                                   \
    "{\"op\":\"launch\",\"kernel\":\"k\",\"blocks\":2,\"threads\":32,\"registers\":16,\"shared_bytes\":0" rest "}"
#define RUN(events) "{\"schema\":\"gridsmith.run/1\",\"events\":[" events "]}"

static void a_run_is_written_as_it_was_read(void **state) {
    (void)state;
    static const char *const texts[] = {
        RUN(""),
        RUN(LAUNCH("")),
        "{\"schema\":\"gridsmith.run/1\",\"id\":-9223372036854775807,\"gpu\":\"g\",\"class\":\"c \\\"d\\\"\\\\\","
        "\"events\":[]}",
        RUN(LAUNCH(",\"local_bytes\":8,\"cluster\":2,\"priority\":-5,\"carveout_percent\":0,\"stream\":7,"
                   "\"duration_us\":1.5,\"placed\":[3,null],\"warp_slots\":[[1,2],null],\"start_ns\":[5,null],"
                   "\"end_ns\":[null,null]") ",{\"op\":\"exit\",\"kernel\":\"k\"},{\"op\":\"observe\",\"kernel\":\"k\","
                                             "\"placed\":[3,1]}"),
        RUN(LAUNCH(",\"stream\":\"copy\",\"duration_us\":1000000,\"placed\":[null,4]")),
        RUN(LAUNCH(",\"duration_us\":0.001")),
    };
    for (size_t i = 0; i < GS_COUNT(texts); i++) {
        gs_run *run = test_run_of(texts[i]);
        gs_text text = {0};
        gs_run_text(run, &text);
        assert_string_equal(text.data, texts[i]);
        gs_text_free(&text);
        gs_run_free(run);
    }
}

static void defaults_and_white_space_do_not_matter(void **state) {
    (void)state;
    gs_run *run = test_run_of("\n {\"events\" : [\n" LAUNCH(
        ",\"cluster\":1,\"local_bytes\":0,\"priority\":0") "] ,\"schema\":\"gridsmith.run/1\"}");
    gs_text text = {0};
    gs_run_text(run, &text);
    assert_string_equal(text.data, RUN(LAUNCH("")));
    gs_text_free(&text);
    gs_run_free(run);
}

/* Wrong texts, the place of the error, and the message. */
static const struct {
    const char *text;
    long line, column;
    const char *words;
} wrong[] = {
    {"[]", 1, 1, "expected an object with \"schema\": \"gridsmith.run/1\", not an array"},
    {"7", 1, 1, "expected an object with \"schema\": \"gridsmith.run/1\", not a number"},
    {"{}", 1, 1, "\"schema\": \"gridsmith.run/1\" is missing"},
    {"{\"schema\":\"gridsmith.gpu/1\"}", 1, 11, "\"schema\" must be \"gridsmith.run/1\", not \"gridsmith.gpu/1\""},
    {"{\"schema\":\"gridsmith.run/1\"}", 1, 1, "\"events\" is missing"},
    {"{\"schema\":\"gridsmith.run/1\",\"events\":{}}", 1, 38, "\"events\" must be a list"},
    {"{\"schema\":\"gridsmith.run/1\",\n \"evnts\":[],\"events\":[]}", 2, 2,
     "unknown key \"evnts\"; known here: schema, id, gpu, class, events"},
    {RUN("3"), 1, 39, "an event needs an \"op\""},
    {RUN("{\"op\":\"start\"}"), 1, 45, "an event needs an \"op\": \"launch\", \"exit\" or \"observe\""},
    {RUN("\n{\"op\":\"launch\",\"kernel\":\"k\",\"blocks\":0,\"threads\":32,\"registers\":16,\"shared_bytes\":0}"), 2,
     38, "\"blocks\" must be from 1 to 2147483647, not 0"},
    {RUN("{\"op\":\"launch\",\"kernel\":\"k\",\"blocks\":-1,\"threads\":32,\"registers\":16,\"shared_bytes\":0}"), 1,
     76, "\"blocks\" must be from 1 to 2147483647, not -1"},
    {RUN("{\"op\":\"launch\",\"kernel\":\"k\",\"blocks\":1,\"threads\":0,\"registers\":16,\"shared_bytes\":0}"), 1, 88,
     "\"threads\" must be from 1 to 65536, not 0"},
    {RUN("{\"op\":\"launch\",\"kernel\":\"k\",\"blocks\":1,\"threads\":32,\"registers\":0,\"shared_bytes\":0}"), 1, 103,
     "\"registers\" must be from 1 to 65536, not 0"},
    {RUN("{\"op\":\"launch\",\"kernel\":\"k\",\"blocks\":1,\"threads\":32,\"registers\":16,\"shared_bytes\":-1}"), 1,
     121, "\"shared_bytes\" must be from 0 to 1099511627776, not -1"},
    {RUN("{\"op\":\"launch\",\"kernel\":\"k\",\"blocks\":9223372036854775808}"), 1, 0, "too big integer"},
    {RUN("{\"op\":\"launch\",\"kernel\":\"k\",\"blocks\":1.0,\"threads\":32,\"registers\":16,\"shared_bytes\":0}"), 1,
     76, "\"blocks\" must be a whole number from 1 to 2147483647, not a fraction"},
    {RUN("{\"op\":\"launch\",\"kernel\":\"k\",\"blocks\":\"1\",\"threads\":32,\"registers\":16,\"shared_bytes\":0}"), 1,
     76, "not a string"},
    {RUN("{\"op\":\"launch\",\"blocks\":1,\"threads\":32,\"registers\":16,\"shared_bytes\":0}"), 1, 39,
     "\"kernel\" is missing"},
    {RUN("{\"op\":\"launch\",\"kernel\":\"\",\"blocks\":1,\"threads\":32,\"registers\":16,\"shared_bytes\":0}"), 1, 63,
     "\"kernel\" must not be empty"},
    {RUN("{\"op\":\"launch\",\"kernel\":5,\"blocks\":1,\"threads\":32,\"registers\":16,\"shared_bytes\":0}"), 1, 63,
     "\"kernel\" must be a string, not a number"},
    {RUN(LAUNCH("") ",\n" LAUNCH("")), 2, 25, "kernel \"k\" is launched twice; names must be unique"},
    {RUN(LAUNCH(",\"cluster\":4")), 1, 0, "\"blocks\" must be a multiple of \"cluster\", which is 4"},
    {RUN(LAUNCH(",\"duration_us\":0")), 1, 0, "\"duration_us\" must be from 0.001 to 1e+12 microseconds"},
    {RUN(LAUNCH(",\"duration_us\":1e300")), 1, 0, "\"duration_us\" must be from 0.001"},
    {RUN(LAUNCH(",\"carveout_percent\":101")), 1, 0, "\"carveout_percent\" must be from 0 to 100, not 101"},
    {RUN(LAUNCH(",\"stream\":1.5")), 1, 0, "\"stream\" must be a whole number or a name"},
    {RUN(LAUNCH(",\"Blocks\":1")), 1, 0, "unknown key \"Blocks\""},
    {RUN(LAUNCH(",\"blocks\":1")), 1, 0, "duplicate object key"},
    {RUN(LAUNCH(",\"placed\":[1]")), 1, 0, "\"placed\" has 1 entries, but the kernel has 2 blocks"},
    {RUN(LAUNCH(",\"placed\":[1,-1]")), 1, 0, "\"placed\" must be from 0 to 32767, not -1"},
    {RUN(LAUNCH(",\"placed\":3")), 1, 0, "\"placed\" must be a list with an entry for each block"},
    {RUN(LAUNCH(",\"warp_slots\":[[],null]")), 1, 0, "\"warp_slots\" must hold null or a list of slots for a block"},
    {RUN(LAUNCH(",\"start_ns\":[1,\"x\"]")), 1, 0, "\"start_ns\" must be a whole number"},
    {RUN("{\"op\":\"exit\",\"kernel\":\"k\"}"), 1, 61, "kernel \"k\" was not launched before this"},
    {RUN(LAUNCH("") ",{\"op\":\"exit\",\"kernel\":\"k\"},{\"op\":\"exit\",\"kernel\":\"k\"}"), 1, 0,
     "kernel \"k\" has exited already"},
    {RUN(LAUNCH("") ",{\"op\":\"exit\",\"kernel\":\"k\",\"blocks\":2}"), 1, 0,
     "unknown key \"blocks\"; known here: op, kernel"},
    {RUN("{\"op\":\"observe\",\"kernel\":\"k\"}"), 1, 0, "was not launched before this"},
    {"{\"schema\":", 1, 11, "the file ends in the middle of a JSON value"},
    {"{\"schema\":\"gridsmith.run/1\",\"events\":[}", 0, 0, "the file ends in the middle of a JSON value"},
    {"[[[[[[[[[[[[[[[[[[", 1, 17, "brackets are nested too deep"},
    {"\xef\xbb\xbf{}", 1, 0, "not valid JSON"},
    {"nul", 1, 0, "not valid JSON"},
    {"{\"schema\":\"gridsmith.run/1\",,}", 1, 0, "not valid JSON"},
};

static void what_is_wrong_is_refused_with_its_place(void **state) {
    (void)state;
    for (size_t i = 0; i < GS_COUNT(wrong); i++) {
        gs_error error = test_run_error(wrong[i].text);
        if (!strstr(error.message, wrong[i].words) || (wrong[i].line && error.line != wrong[i].line) ||
            (wrong[i].column && error.column != wrong[i].column))
            fail_msg("%s\ngave %ld:%ld: %s\nnot  %ld:%ld: %s", wrong[i].text, error.line, error.column, error.message,
                     wrong[i].line, wrong[i].column, wrong[i].words);
        assert_int_equal(gs_code_exit(error.code), 2);
        assert_null(strchr(error.message, '\n'));
        assert_true(error.line >= 1 && error.column >= 1);
    }
}

/* Names from a file cannot break the line of an error message. */
static void control_characters_do_not_reach_the_terminal(void **state) {
    (void)state;
    gs_error error = test_run_error("{\"schema\":\"gridsmith.run/1\",\"a\\n\\u001b[31mb\":1,\"events\":[]}");
    for (const char *c = error.message; *c; c++)
        assert_true((unsigned char)*c >= 0x20);
}

/* An error that only a GPU can find has its place too. */
static void a_kernel_that_never_fits_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *shape, *words;
    } rows[] = {
        {"\"threads\":1025,\"registers\":32,\"shared_bytes\":0",
         "threads of a block: 1025 requested, at most 1024 possible"},
        {"\"threads\":32,\"registers\":256,\"shared_bytes\":0",
         "registers of a thread: 256 requested, at most 255 possible"},
        {"\"threads\":1024,\"registers\":255,\"shared_bytes\":0", "one block needs more registers than an SM has"},
        {"\"threads\":32,\"registers\":32,\"shared_bytes\":101377",
         "bytes of shared memory of a block: 101377 requested, at most 101376 possible"},
        {"\"threads\":32,\"registers\":32,\"shared_bytes\":0,\"cluster\":2", "launches clusters of 2 blocks"},
    };
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_text text = {0};
        gs_text_add(&text, RUN("\n{\"op\":\"launch\",\"kernel\":\"big\",\"blocks\":2,%s}"), rows[i].shape);
        gs_run *run = test_run_of(text.data);
        gs_error error;
        assert_null(gs_predict(gpu, run, NULL, &error));
        assert_int_equal(gs_code_exit(error.code), 2);
        assert_int_equal(error.line, 2);
        assert_int_equal(error.column, 1);
        if (!strstr(error.message, rows[i].words) || !strstr(error.message, "\"big\""))
            fail_msg("%s", error.message);
        gs_run_free(run);
        gs_text_free(&text);
    }
    gs_gpu_free(gpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_written_as_it_was_read),
        cmocka_unit_test(defaults_and_white_space_do_not_matter),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_place),
        cmocka_unit_test(control_characters_do_not_reach_the_terminal),
        cmocka_unit_test(a_kernel_that_never_fits_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
