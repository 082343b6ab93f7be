/*
 * test_run.c: runs are read as the format specifies, and errors are reported with their place and reason.
 */
#include "test.h"

#include "model/run/event_fields.h"
#include "model/timeline/timeline.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define LAUNCH(rest)                                                                                                   \
    "{\"op\":\"launch\",\"kernel\":\"k\",\"blocks\":2,\"threads\":32,\"registers\":16,\"shared_bytes\":0" rest "}"
#define WITH_ID(id, rest)                                                                                              \
    "{\"op\":\"launch\",\"id\":" id                                                                                    \
    ",\"kernel\":\"k\",\"blocks\":2,\"threads\":32,\"registers\":16,\"shared_bytes\":0" rest "}"
/* Between two events of a list, and between two lines. */
#define AND         ","
#define THEN        "\n"
#define HEAD        "{\"schema\":\"gridsmith.run/1\",\"events\":\"follow\"}\n"
#define RUN(events) "{\"schema\":\"gridsmith.run/1\",\"events\":[" events "]}"

TEST(a_run_is_written_as_it_was_read) {
    static const char *const texts[] = {
        RUN(""),
        RUN(LAUNCH("")),
        "{\"schema\":\"gridsmith.run/1\",\"id\":-9223372036854775807,\"gpu\":\"g\",\"class\":\"c "
        "\\\"d\\\"\\\\\",\"events\":[]}",
        RUN(LAUNCH(
            ",\"local_bytes\":8,\"cluster\":2,\"priority\":-5,\"carveout_percent\":0,\"stream\":7,\"duration_us\":1.5,"
            "\"placed\":[3,null],\"warp_slots\":[[1,2],null],\"start_ns\":[5,null],\"end_ns\":[null,null]") AND
            "{\"op\":\"exit\",\"kernel\":\"k\"},{\"op\":\"observe\",\"kernel\":\"k\",\"placed\":[3,1]}"),
        RUN(LAUNCH(",\"stream\":\"copy\",\"duration_us\":1000000,\"placed\":[null,4]")),
        RUN(LAUNCH(",\"duration_us\":0.001")),
        RUN(WITH_ID("7", "") AND WITH_ID("\"x\"", ",\"at_us\":0,\"after\":[7]") AND
            "{\"op\":\"exit\",\"id\":7},{\"op\":\"observe\",\"id\":\"x\",\"placed\":[3,1]}"),
        RUN(LAUNCH("") AND WITH_ID(
            "7", ",\"stream\":0,\"at_us\":12.345,\"after\":[\"k\",{\"id\":\"k\",\"when\":\"trigger\"},{\"id\":\"k\","
                 "\"when\":\"start\"}],\"start_us\":20,\"end_us\":20.5,\"grid\":[2,1,1],\"block\":[8,4,1],\"cluster_"
                 "shape\":[1,1,1],\"cooperative\":true,\"static_shared_bytes\":0,\"shared_config_bytes\":102400,"
                 "\"device\":0,\"process\":77,\"context\":1,\"green_context\":2,\"graph\":3,\"node\":4")),
        RUN("{\"op\":\"copy\",\"id\":1,\"kind\":\"host_to_device\",\"bytes\":4096,\"stream\":7,\"duration_us\":2,\"at_"
            "us\":1,\"start_us\":3,\"end_us\":5,\"device\":0,\"context\":1}" AND WITH_ID("2", ",\"after\":[1]") AND
            "{\"op\":\"memset\",\"bytes\":0,\"after\":[1,2]},{\"op\":\"end\",\"at_us\":9,\"lost\":3}"),
        RUN(LAUNCH(",\"at_us\":1") AND
            "{\"op\":\"range\",\"name\":\"forward "
            "\\\"1\\\"\",\"from_us\":0.5,\"to_us\":2},{\"op\":\"range\",\"name\":\"step\",\"from_us\":0,\"to_us\":0}"),
        "{\"schema\":\"gridsmith.run/1\",\"program\":\"./a b\",\"recorder\":\"r\",\"gpu_name\":\"NVIDIA "
        "H200\",\"device\":1,\"process\":5,\"start_unix_ns\":1790857026000000000,\"lacks\":[\"cluster\",\"local_"
        "bytes\"],\"events\":[]}",
    };
    for (size_t i = 0; i < GS_COUNT(texts); i++) {
        gs_run *run = test_run_of(texts[i]);
        gs_text text = {0};
        gs_run_text(run, &text);
        assert_string_equal(text.data, texts[i]);
        gs_text_free(&text);
        gs_run *copy = gs_run_copy(run, NULL);
        gs_run_free(run);
        gs_run_text(copy, &text);
        assert_string_equal(text.data, texts[i]);
        gs_text_free(&text);
        gs_run_free(copy);
    }
}

/* What files do not hold is copied, too. */
TEST(a_copy_has_the_pace) {
    gs_run *run = test_run_of(RUN(LAUNCH("")));
    run->has_pace = true;
    for (size_t i = 0; i < GS_COUNT(run->pace_ns); i++)
        run->pace_ns[i] = 100 + (int64_t)i;
    gs_run *copy = gs_run_copy(run, NULL);
    assert_true(copy->has_pace);
    assert_memory_equal(copy->pace_ns, run->pace_ns, sizeof run->pace_ns);
    gs_run_free(copy);
    gs_run_free(run);
}

TEST(defaults_and_white_space_do_not_matter) {
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
     "unknown key \"evnts\" (did you mean \"events\"?)"},
    {RUN("3"), 1, 39, "an event needs an \"op\""},
    {RUN("{\"op\":\"start\"}"), 1, 45,
     "an event needs an \"op\": \"launch\", \"exit\", \"observe\", \"copy\", \"memset\", \"range\" or \"end\""},
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
    {RUN("{\"op\":\"range\",\"name\":\"a\",\"from_us\":3,\"to_us\":2}"), 1, 84,
     "\"to_us\" must not be before \"from_us\""},
    {RUN("{\"op\":\"range\",\"name\":\"a\",\"from_us\":3}"), 1, 0, "\"to_us\" is missing"},
    {RUN(LAUNCH(",\"why\":7")), 1, 0, "\"why\" must be a list of sentences"},
    {RUN(LAUNCH(",\"why\":[\"a\",7]")), 1, 0, "\"why\" must be a list of sentences"},
    {RUN("{\"op\":\"exit\",\"kernel\":\"k\"}"), 1, 61, "no earlier launch without an \"id\" has the kernel \"k\""},
    {RUN(LAUNCH("") AND "{\"op\":\"exit\",\"kernel\":\"k\"},{\"op\":\"exit\",\"kernel\":\"k\"}"), 1, 0,
     "kernel \"k\" has already exited"},
    {RUN(LAUNCH("") AND "{\"op\":\"exit\",\"kernel\":\"k\",\"blocks\":2}"), 1, 0,
     "unknown key \"blocks\"; known here: op, kernel"},
    {RUN("{\"op\":\"observe\",\"kernel\":\"k\"}"), 1, 0, "no earlier launch without an \"id\" has"},
    {RUN(WITH_ID("7", "") AND WITH_ID("\"7\"", "")), 1, 0, "id \"7\" is used twice"},
    {RUN(LAUNCH("") AND WITH_ID("\"k\"", "")), 1, 0, "id \"k\" is used twice"},
    {RUN(WITH_ID("1.5", "")), 1, 0, "\"id\" must be a whole number or a name"},
    {RUN(WITH_ID("\"\"", "")), 1, 0, "\"id\" must be a whole number or a name"},
    {RUN(WITH_ID("7", "") AND "{\"op\":\"exit\",\"kernel\":\"k\"}"), 1, 0,
     "no earlier launch without an \"id\" has the kernel \"k\""},
    {RUN(WITH_ID("7", "") AND "{\"op\":\"exit\",\"kernel\":\"7\"}"), 1, 0,
     "no earlier launch without an \"id\" has the kernel \"7\""},
    {RUN(LAUNCH("") AND "{\"op\":\"exit\",\"id\":\"k\"}"), 1, 0, "no earlier launch has the id \"k\""},
    {RUN(LAUNCH("") AND "{\"op\":\"exit\",\"kernel\":7}"), 1, 0, "\"kernel\" must be a string"},
    {RUN(LAUNCH("") AND "{\"op\":\"exit\",\"id\":1.5}"), 1, 0, "\"id\" must be a whole number or a name"},
    {RUN(LAUNCH("") AND "{\"op\":\"exit\"}"), 1, 0, "an event needs the \"id\" of a launch, or its \"kernel\""},
    {RUN(LAUNCH("") ",\n" WITH_ID("7", ",\"after\":[8]")), 2, 1,
     "\"after\" names \"8\", but no launch or copy has this id"},
    {RUN("\n" WITH_ID("7", ",\"after\":[8]") AND WITH_ID("8", "")), 2, 1,
     "names \"8\", which is not issued before this"},
    {RUN(WITH_ID("7", ",\"after\":8")), 1, 0, "\"after\" must be a list of ids"},
    {RUN(WITH_ID("7", ",\"after\":[1.5]")), 1, 0, "\"after\" must hold ids, or objects"},
    {RUN(WITH_ID("7", ",\"after\":[{\"id\":7,\"when\":\"now\"}]")), 1, 0,
     "\"when\" must be \"end\", \"trigger\" or \"start\""},
    {RUN(WITH_ID("7", ",\"grid\":[1,2]")), 1, 0, "\"grid\" must be a list of three whole numbers"},
    {RUN(WITH_ID("7", ",\"cooperative\":1")), 1, 0, "\"cooperative\" must be true or false"},
    {RUN(WITH_ID("7", ",\"at_us\":-1")), 1, 0, "\"at_us\" must be from 0 to 1e+12 microseconds"},
    {RUN("{\"op\":\"copy\",\"bytes\":1,\"kind\":\"up\"}"), 1, 0, "\"kind\" must be \"host_to_device\""},
    {RUN("{\"op\":\"memset\",\"bytes\":1,\"kind\":\"host_to_device\"}"), 1, 0, "unknown key \"kind\""},
    {RUN("{\"op\":\"end\"}" AND LAUNCH("")), 1, 0, "the run has an event after its \"end\""},
    {RUN(WITH_ID("7", ",\"at_us\":2") AND WITH_ID("8", ",\"at_us\":1") AND "{\"op\":\"exit\",\"id\":7}"), 0, 0,
     "\"at_us\" must not decrease in a run with exits or observations"},
    {HEAD WITH_ID("7", "") THEN WITH_ID("7", "") "\n", 3, 21, "id \"7\" is used twice"},
    {HEAD WITH_ID("7", "") THEN WITH_ID("8", ",\"Grid\":1") "\n", 3, 92, "unknown key \"Grid\""},
    {HEAD WITH_ID("7", "") THEN WITH_ID("8", ",\"after\":[9]") THEN "{\"op\":\"end\"}\n", 3, 1, "names \"9\""},
    {HEAD WITH_ID("7", ",\"start_us\":2,\"end_us\":2") THEN WITH_ID("8", ",\"start_us\":2,\"end_us\":1.999"), 3, 1,
     "it ends before it starts: \"end_us\" is less than \"start_us\""},
    {RUN("{\"op\":\"memset\",\"bytes\":1,\"start_us\":2,\"end_us\":0}"), 1, 0, "it ends before it starts"},
    {HEAD "{\"op\":\"launch\"\n" WITH_ID("8", "") "\n", 2, 15, "the text ends in the middle of a JSON value"},
    {HEAD WITH_ID("7", "") " " WITH_ID("8", ""), 2, 93, "each event must be on a line of its own"},
    {"{\"schema\":", 1, 11, "the text ends in the middle of a JSON value"},
    {"{\"schema\":\"gridsmith.run/1\",\"events\":[}", 0, 0, "the text ends in the middle of a JSON value"},
    {"[[[[[[[[[[[[[[[[[[", 1, 17, "brackets are nested too deep"},
    {"\xef\xbb\xbf{}", 1, 0, "not valid JSON"},
    {"nul", 1, 0, "not valid JSON"},
    {"{\"schema\":\"gridsmith.run/1\",,}", 1, 0, "not valid JSON"},
};

/* The place of a message about a key: its value, or an element of it; of a key that is not known: the key. */
static void expect_place_of_key(const char *text, const gs_error *error) {
    char key[64], wanted[80];
    const char *place = text, *found = NULL;
    for (long line = 1; line < error->line; line++)
        place = strchr(place, '\n') + 1;
    place += error->column - 1;
    if (sscanf(error->message, "unknown key \"%60[^\"]\"", key) == 1) {
        snprintf(wanted, sizeof wanted, "\"%s\"", key);
        found = strncmp(place, wanted, strlen(wanted)) == 0 ? place : NULL;
    } else if (sscanf(error->message, "\"%60[^\"]\" must %1[bh]", key, wanted) == 2) {
        snprintf(wanted, sizeof wanted, "\"%s\":", key);
        for (const char *at = strstr(text, wanted); at && at < place; at = strstr(at + 1, wanted))
            found = at + strlen(wanted);
        if (found > place || (found && memchr(found, ':', (size_t)(place - found))))
            found = NULL;
    } else
        return;
    if (!found)
        fail_msg("%s\ngave %ld:%ld: %s", text, error->line, error->column, error->message);
}

TEST(what_is_wrong_is_refused_with_its_place) {
    for (size_t i = 0; i < GS_COUNT(wrong); i++) {
        gs_error error = test_run_error(wrong[i].text);
        if (!strstr(error.message, wrong[i].words) || (wrong[i].line && error.line != wrong[i].line) ||
            (wrong[i].column && error.column != wrong[i].column))
            fail_msg("%s\ngave %ld:%ld: %s\nnot  %ld:%ld: %s", wrong[i].text, error.line, error.column, error.message,
                     wrong[i].line, wrong[i].column, wrong[i].words);
        if (error.line)
            expect_place_of_key(wrong[i].text, &error);
        assert_int_equal(gs_code_exit(error.code), 2);
        assert_null(strchr(error.message, '\n'));
        assert_true(!wrong[i].line || (error.line >= 1 && error.column >= 1));
    }
}

/* ---- runs whose events follow, a line each ---- */

/* The run of a text as one line, and freed. */
static gs_text text_of(const char *text) {
    gs_run *run = test_run_of(text);
    gs_text one = {0};
    gs_run_text(run, &one);
    gs_run_free(run);
    return one;
}

static void assert_same_run(const char *text, const char *wanted) {
    gs_text found = text_of(text), other = text_of(wanted);
    assert_string_equal(found.data, other.data);
    gs_text_free(&found);
    gs_text_free(&other);
}

/* Each line is read as it would be in a list, by the fast reader or, where a line is unusual, by the other. */
TEST(events_may_follow_a_run) {
    static const char *const events[] = {
        WITH_ID("7", ""),
        WITH_ID("-7", ",\"stream\":-1,\"priority\":-5,\"local_bytes\":16,\"carveout_percent\":50,\"cluster\":2"),
        WITH_ID("\"a b\"", ",\"stream\":\"copy\",\"at_us\":0.001"),
        WITH_ID("\"\\u00e9\"", ",\"at_us\":1e3"),
        WITH_ID("\"\xc3\xa8\"", " , \"grid\" : [ 1 , 2 , 3 ] "),
        WITH_ID("0", ",\"at_us\":123456.7,\"start_us\":123456.75,\"end_us\":123456.789,\"after\":[7,\"a b\",-7]"),
        WITH_ID("1", ",\"at_us\":0.0004,\"after\":[{\"id\":0,\"when\":\"trigger\"}]"),
        WITH_ID("2", ",\"grid\":[2,1,1],\"block\":[8,4,1],\"cooperative\":false,\"graph\":1,\"node\":0,\"after\":[]"),
        WITH_ID("9223372036854775807", ",\"placed\":[3,null]"),
        LAUNCH(""),
        "{\"op\":\"copy\",\"id\":\"c\",\"kind\":\"peer_to_peer\",\"bytes\":5,\"after\":[\"k\"]}",
        "{\"bytes\":5,\"op\":\"memset\",\"stream\":\"\"}",
        "{\"op\":\"observe\",\"id\":7}",
        "{\"op\":\"exit\",\"kernel\":\"k\"}",
        "{\"op\":\"end\",\"at_us\":7}",
    };
    gs_text list = {0}, lines = {0};
    gs_text_add(&list, "{\"schema\":\"gridsmith.run/1\",\"events\":[");
    gs_text_add(&lines, "%s", HEAD);
    for (size_t i = 0; i < GS_COUNT(events); i++) {
        gs_text_add(&list, "%s%s", i ? "," : "", events[i]);
        gs_text_add(&lines, "%s\n", events[i]);
    }
    gs_text_add(&list, "]}");
    assert_same_run(lines.data, list.data);
    gs_run *run = test_run_of(list.data);
    gs_text_clear(&lines);
    gs_run_lines(run, &lines);
    assert_same_run(lines.data, list.data);
    gs_run_free(run);
    gs_text_free(&list);
    gs_text_free(&lines);
}

/* Whether the fast reader reads a line; if it does not, the run stays as it was. */
static bool is_read_fast(const char *line) {
    gs_run *run = gs_run_new(NULL);
    gs_wanted wanted = {0};
    bool is_read;
    assert_int_equal(gs_run_read_line(run, line, strlen(line), 0, &wanted, &is_read, NULL), GS_OK);
    assert_int_equal(run->launches.count + run->copies.count, is_read);
    if (!is_read)
        assert_int_equal(wanted.count + run->edges.count, 0);
    free(wanted.data);
    gs_run_free(run);
    return is_read;
}

/* A recording has a million usual lines: they must not all go to the slow reader. What they say is the same for both.
 */
TEST(usual_lines_are_read_fast) {
#define MEMSET(rest) "{\"op\":\"memset\",\"bytes\":1" rest "}"
#define COPY(rest)   "{\"op\":\"copy\",\"bytes\":1" rest "}"
    static const char *const fast[] = {
        LAUNCH(""),
        " {\t\"op\" :\"launch\",\"shared_bytes\":0,\"registers\":16, \"threads\":32,\"blocks\":2,\"kernel\":\"k\"} \r",
        LAUNCH(",\"local_bytes\":1099511627776,\"cluster\":2,\"priority\":-1000,\"carveout_percent\":0"),
        LAUNCH(",\"cluster\":1,\"priority\":1000,\"carveout_percent\":100,\"node\":0"),
        LAUNCH(",\"at_us\":0,\"duration_us\":0.001,\"spread_us\":1.5,\"start_us\":12.25,\"end_us\":1000000000000"),
        LAUNCH(",\"grid\":[1,1,2147483647],\"block\":[ 32 , 1,1 "
               "],\"cluster_shape\":[1,1,1],\"device\":999999999999999999"),
        LAUNCH(",\"stream\":-123456789012345678"),
        LAUNCH(",\"stream\":0"),
        LAUNCH(",\"stream\":\" ~\""),
        WITH_ID("7", ",\"after\":[]"),
        MEMSET(",\"stream\":7,\"graph\":1"),
        COPY(",\"kind\":\"host_to_device\""),
        COPY(",\"kind\":\"device_to_host\",\"id\":\"c\""),
        COPY(",\"kind\":\"peer_to_peer\",\"after\":[]"),
    };
    static const char *const slow[] = {
        LAUNCH(",\"priority\":-1001"),
        LAUNCH(",\"priority\":1001"),
        LAUNCH(",\"cluster\":3"),
        LAUNCH(",\"cooperative\":true"),
        LAUNCH(",\"unknown\":1"),
        LAUNCH(",\"blocks\":2"),
        LAUNCH("") "x",
        LAUNCH("}"),
        LAUNCH(",\"kernel\":\"k\""),
        LAUNCH(",\"at_us\":1."),
        LAUNCH(",\"at_us\":1.0001"),
        LAUNCH(",\"at_us\":1e3"),
        LAUNCH(",\"at_us\":1.5e3"),
        LAUNCH(",\"at_us\":01"),
        LAUNCH(",\"at_us\":-1"),
        LAUNCH(",\"at_us\":1000000000000.001"),
        LAUNCH(",\"duration_us\":0"),
        LAUNCH(",\"device\":1e3"),
        LAUNCH(",\"device\":1.0"),
        LAUNCH(",\"device\":1000000000000000000"),
        LAUNCH(",\"stream\":-0"),
        LAUNCH(",\"stream\":-"),
        LAUNCH(",\"stream\":00"),
        LAUNCH(",\"stream\":\"\""),
        LAUNCH(",\"stream\":\"\x7f\""),
        LAUNCH(",\"stream\":\"\x1f\""),
        LAUNCH(",\"stream\":\"\\u0041\""),
        LAUNCH(",\"grid\":[1,1]"),
        LAUNCH(",\"grid\":[1,1,1,1]"),
        LAUNCH(",\"grid\":[1 1,1]"),
        LAUNCH(",\"grid\":[0,1,1]"),
        LAUNCH(",\"grid\":[1,1,2147483648]"),
        LAUNCH(",\"grid\":1"),
        LAUNCH(",\"after\":[\"\"]"),
        LAUNCH(",\"after\":[-0]"),
        LAUNCH(",\"after\":[1,]"),
        LAUNCH(",\"after\":[1 2]"),
        LAUNCH(",\"after\":1"),
        LAUNCH(",\"after\":[{\"id\":1}]"),
        LAUNCH(",\"placed\":[1,2]"),
        LAUNCH(",\"kind\":\"host_to_device\""),
        MEMSET(",\"kind\":\"host_to_device\""),
        COPY(",\"kind\":\"up\""),
        COPY(",\"kind\":1"),
        COPY(",\"kernel\":\"k\""),
        "{\"op\":\"copy\"}",
        "{\"op\":\"launch\",\"kernel\":\"k\"}",
        "{\"op\":\"exit\",\"kernel\":\"k\"}",
        "{\"kernel\":\"k\"}",
        "{\"op\":\"launch\"",
        "{\"op\"",
        "",
    };
    for (size_t i = 0; i < GS_COUNT(fast); i++) {
        gs_text list = {0}, lines = {0};
        gs_text_add(&list, RUN("%s"), fast[i]);
        gs_text_add(&lines, HEAD "%s\n", fast[i]);
        assert_same_run(lines.data, list.data);
        gs_text_free(&list);
        gs_text_free(&lines);
        if (!is_read_fast(fast[i]))
            fail_msg("not read: %s", fast[i]);
    }
    for (size_t i = 0; i < GS_COUNT(slow); i++)
        if (is_read_fast(slow[i]))
            fail_msg("read: %s", slow[i]);
}

/* A number of a launch by its key, as `import --set` gives it. */
TEST(numbers_of_a_launch_are_set_by_key) {
    gs_launch launch = gs_launch_default();
    gs_error error;
    static const char *const others[] = {"op",          "id",     "kernel",        "stream", "duration_us", "grid",
                                         "cooperative", "device", "green_context", "node",   "nothing",     ""};
    for (size_t i = 0; i < GS_COUNT(others); i++) {
        assert_int_equal(gs_launch_set(&launch, others[i], 1, &error), GS_E_USAGE);
        assert_non_null(strstr(error.message, "is not a numeric key of a launch"));
    }
    const struct {
        const char *key;
        int64_t least, most;
        const int32_t *small;
        const int64_t *large;
    } numbers[] = {
        {"blocks", 1, INT32_MAX, NULL, &launch.blocks},
        {"threads", 1, 65536, &launch.shape.threads, NULL},
        {"registers", 1, 65536, &launch.shape.registers, NULL},
        {"shared_bytes", 0, (int64_t)1 << 40, NULL, &launch.shape.shared_bytes},
        {"local_bytes", 0, (int64_t)1 << 40, NULL, &launch.shape.local_bytes},
        {"cluster", 1, 4096, &launch.cluster, NULL},
        {"priority", -1000, 1000, &launch.priority, NULL},
        {"carveout_percent", 0, 100, &launch.shape.carveout_percent, NULL},
    };
    for (size_t i = 0; i < GS_COUNT(numbers); i++) {
        const int64_t ends[] = {numbers[i].least, numbers[i].most};
        for (size_t j = 0; j < 2; j++) {
            assert_int_equal(gs_launch_set(&launch, numbers[i].key, ends[j], &error), GS_OK);
            assert_int_equal(numbers[i].small ? *numbers[i].small : *numbers[i].large, ends[j]);
        }
        assert_int_equal(gs_launch_set(&launch, numbers[i].key, numbers[i].least - 1, &error), GS_E_USAGE);
        assert_int_equal(gs_launch_set(&launch, numbers[i].key, numbers[i].most + 1, &error), GS_E_USAGE);
        assert_int_equal(numbers[i].small ? *numbers[i].small : *numbers[i].large, ends[1]);
    }
}

/* Several runs may stand in one file, in either form. */
TEST(the_next_run_ends_the_events_of_the_one_before) {
    static const char text[] =
        HEAD WITH_ID("1", "") THEN HEAD HEAD WITH_ID("1", "") THEN WITH_ID("2", "") THEN RUN("") "\n";
    static const size_t launches[] = {1, 0, 2, 0};
    gs_error error = {.code = GS_OK};
    gs_runs *runs = gs_runs_memory("text", text, strlen(text), &error);
    for (size_t i = 0; i < GS_COUNT(launches); i++) {
        gs_run *run = gs_runs_next(runs, &error);
        assert_non_null(run);
        assert_int_equal(run->launches.count, launches[i]);
        assert_int_equal(run->is_followed, i < 3);
        gs_run_free(run);
    }
    assert_null(gs_runs_next(runs, &error));
    assert_int_equal(error.code, GS_OK);
    gs_runs_close(runs);
}

/* Reads all runs of a text, and joins them again, a line each. */
static char *read_all(const char *text, gs_error *error) {
    gs_text all = {0};
    gs_runs *runs = gs_runs_memory("text", text, strlen(text), error);
    for (gs_run *run; (run = gs_runs_next(runs, error)); gs_run_free(run)) {
        gs_run_text(run, &all);
        gs_text_add(&all, " %d %zu\n", run->is_of_several, run->waits_left_out);
    }
    gs_runs_close(runs);
    return all.data;
}

#define SMALL_COPY(id, rest) "{\"op\":\"copy\",\"id\":" id ",\"bytes\":8" rest "}"
#define PART(device, events)                                                                                           \
    "{\"schema\":\"gridsmith.run/1\",\"gpu\":\"h200\",\"device\":" device ",\"events\":[" events "]}"

TEST(a_recording_of_several_gpus_is_a_run_for_each) {
    /* The launches of GPU 1 come first, and 4 waits for 1 of the same GPU, for 2 of the other, and for a copy. */
    static const char text[] =
        PART("1", WITH_ID("1", ",\"device\":1,\"placed\":[4,5]") AND WITH_ID("2", ",\"device\":0")
                      AND SMALL_COPY("3", ",\"after\":[1,2],\"device\":1")
                          AND WITH_ID("4", ",\"after\":[1,2,3],\"device\":1") AND
             "{\"op\":\"exit\",\"id\":2},{\"op\":\"observe\",\"id\":4,\"placed\":[1,null]},{\"op\":\"exit\",\"id\":4}");
    static const char parts[] = PART("0", WITH_ID("2", ",\"device\":0") AND "{\"op\":\"exit\",\"id\":2}") " 1 0\n" PART(
        "1", WITH_ID("1", ",\"device\":1,\"placed\":[4,5]") AND SMALL_COPY("3", ",\"after\":[1],\"device\":1")
                 AND WITH_ID("4", ",\"after\":[1,3],\"device\":1") AND
        "{\"op\":\"observe\",\"id\":4,\"placed\":[1,null]},{\"op\":\"exit\",\"id\":4}") " 1 2\n";
    gs_error error = {.code = GS_OK};
    char *read = read_all(text, &error);
    assert_int_equal(error.code, GS_OK);
    assert_string_equal(read, parts);
    free(read);
    static const char one[] = RUN(WITH_ID("1", ",\"device\":3") AND WITH_ID("2", "")),
                      one_read[] = RUN(WITH_ID("1", ",\"device\":3") AND WITH_ID("2", "")) " 0 0\n";
    read = read_all(one, &error);
    assert_string_equal(read, one_read);
    free(read);
    assert_null(
        read_all(RUN(WITH_ID("1", ",\"device\":3") AND WITH_ID("2", ",\"device\":0") AND SMALL_COPY("7", "")), &error));
    assert_string_equal(error.message, "\"device\" is missing: the run has the work of 2 GPUs");
    assert_int_equal(error.line, 1);
    assert_true(error.column > 200);
}

/* Each GPU is a pass over the run, so there is a limit. */
TEST(a_run_of_very_many_gpus_is_refused) {
    gs_text text = {0};
    gs_error error = {.code = GS_OK};
    gs_text_add(&text, HEAD);
    for (int i = 0; i < 65; i++)
        gs_text_add(&text, SMALL_COPY("%d", ",\"device\":%d") "\n", i, 3 * i);
    assert_null(read_all(text.data, &error));
    assert_string_equal(error.message, "a run has the work of more than 64 GPUs (\"device\")");
    gs_text_free(&text);
}

/* A program that is killed leaves a file without an end, perhaps with a part of a line, perhaps without a launch that
   others wait for. */
TEST(a_recording_that_was_cut_off_is_read) {
    gs_run *run =
        test_run_of(HEAD WITH_ID("1", "") THEN WITH_ID("2", ",\"after\":[0,1]") THEN "{\"op\":\"launch\",\"id");
    assert_int_equal(run->launches.count, 2);
    assert_true(run->is_cut && !run->has_ended);
    assert_int_equal(run->launches.data[1].issue.after_count, 1);
    assert_int_equal(run->edges.data[run->launches.data[1].issue.after].number, 0);
    gs_run_free(run);
    static const char cut[] = HEAD "{\"op\":";
    gs_error error = {.code = GS_OK};
    gs_runs *runs = gs_runs_memory("text", cut, strlen(cut), &error);
    run = gs_runs_next(runs, &error);
    assert_true(run && run->is_cut);
    assert_int_equal(error.code, GS_OK);
    gs_run_free(run);
    gs_runs_close(runs);
    run = test_run_of(HEAD WITH_ID("1", "") THEN "{\"op\":\"end\",\"lost\":2}\n");
    assert_true(!run->is_cut && run->has_ended);
    assert_int_equal(run->lost, 2);
    gs_run_free(run);
}

/* Recorders write a launch when it is reported; the run has launches in the order in which the host issued them. */
TEST(launches_are_put_in_the_order_of_the_host) {
    assert_same_run(HEAD WITH_ID("3", ",\"at_us\":5,\"after\":[1,\"c\"]") THEN WITH_ID("4", ",\"at_us\":5") THEN
                    "{\"op\":\"memset\",\"bytes\":1,\"at_us\":9,\"after\":[4]}\n{\"op\":\"copy\",\"id\":\"c\","
                    "\"bytes\":1,\"at_us\":2}" THEN WITH_ID("1", ",\"at_us\":1"),
                    RUN(WITH_ID("1", ",\"at_us\":1") AND
                        "{\"op\":\"copy\",\"id\":\"c\",\"bytes\":1,\"at_us\":2}" AND WITH_ID(
                            "3", ",\"at_us\":5,\"after\":[1,\"c\"]") AND WITH_ID("4", ",\"at_us\":5") AND
                        "{\"op\":\"memset\",\"bytes\":1,\"at_us\":9,\"after\":[4]}"));
    assert_same_run(HEAD "{\"op\":\"copy\",\"bytes\":1,\"at_us\":9}\n{\"op\":\"copy\",\"bytes\":2,\"at_us\":2}\n",
                    RUN("{\"op\":\"copy\",\"bytes\":2,\"at_us\":2},{\"op\":\"copy\",\"bytes\":1,\"at_us\":9}"));
}

static void expect_no_runs(gs_runs *runs) {
    gs_error error = {.code = GS_OK};
    assert_non_null(runs);
    assert_null(gs_runs_next(runs, &error));
    assert_int_equal(error.code, GS_OK);
    gs_runs_close(runs);
}

/* A small file of many blanks is not read to its end. */
TEST(blanks_do_not_take_for_ever) {
    enum { MIB = 1 << 20, COUNT = 24 };
    static char blanks[MIB];
    char path[] = "/tmp/gridsmith-run-XXXXXX";
    gs_error error = {.code = GS_OK};
    gzFile file = gzdopen(mkstemp(path), "wb1");
    assert_non_null(file);
    memset(blanks, ' ', sizeof blanks);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(gzwrite(file, blanks, MIB), MIB);
    assert_int_equal(gzclose(file), Z_OK);
    gs_runs *runs = gs_runs_open(path, &error);
    assert_non_null(runs);
    assert_null(gs_runs_next(runs, &error));
    assert_int_equal(error.code, GS_E_FORMAT);
    assert_non_null(strstr(error.message, "more than 100 times as long as its compressed bytes"));
    gs_runs_close(runs);
    unlink(path);
}

TEST(empty_files_have_no_runs) {
    char path[] = "/tmp/gridsmith-run-XXXXXX";
    gs_error error;
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    expect_no_runs(gs_runs_open(path, &error));
    gzFile file = gzdopen(descriptor, "wb");
    assert_non_null(file);
    assert_int_equal(gzclose(file), Z_OK); /* the header of a compressed file, and nothing */
    expect_no_runs(gs_runs_open(path, &error));
    expect_no_runs(gs_runs_memory("nothing", NULL, 0, &error));
    unlink(path);
}

/* Names, streams and facts are stored once, however many launches have them. */
TEST(launches_share_what_is_equal) {
    gs_run *run = test_run_of(HEAD WITH_ID("1", ",\"stream\":5,\"graph\":1") THEN WITH_ID(
        "2", ",\"stream\":5,\"graph\":1") THEN WITH_ID("3", ",\"stream\":\"5\",\"graph\":2") "\n");
    const gs_launch *launches = run->launches.data;
    assert_ptr_equal(launches[0].kernel, launches[2].kernel);
    assert_ptr_equal(launches[0].stream, launches[2].stream);
    assert_ptr_equal(launches[0].issue.facts, launches[1].issue.facts);
    assert_int_equal(launches[2].issue.facts->graph, 2);
    gs_run_free(run);
}

/* A launch that a GPU does not take is reported with its line. */
TEST(a_launch_that_never_fits_is_refused_with_its_line) {
    gs_run *run = test_run_of(HEAD WITH_ID("2", ",\"at_us\":2,\"cluster\":2") THEN WITH_ID("1", ",\"at_us\":1") "\n");
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_error error;
    assert_null(gs_predict(gpu, run, NULL, &error));
    assert_int_equal(error.line, 2);
    assert_string_equal(error.file, "text");
    gs_gpu_free(gpu);
    gs_run_free(run);
}

/* A prediction keeps ids, times, edges and copies. */
TEST(a_prediction_keeps_what_was_recorded) {
    static const char text[] = RUN("{\"op\":\"copy\",\"id\":1,\"bytes\":1,\"at_us\":0}" AND WITH_ID(
        "2", ",\"at_us\":1,\"after\":[1]") AND WITH_ID("3", ",\"at_us\":1,\"after\":[2],\"device\":0"));
    gs_run *run = test_run_of(text);
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_run *predicted = gs_predict(gpu, run, NULL, NULL), *copy = gs_run_copy(predicted, NULL);
    gs_text found = {0};
    gs_run_text(copy, &found);
    assert_string_equal(
        found.data,
        "{\"schema\":\"gridsmith.run/"
        "1\",\"gpu\":\"rtx3090\",\"events\":[{\"op\":\"copy\",\"id\":1,\"bytes\":1,\"at_us\":0}" AND WITH_ID(
            "2", ",\"at_us\":1,\"after\":[1],\"placed\":[0,2]")
            AND WITH_ID("3", ",\"at_us\":1,\"after\":[2],\"device\":0,\"placed\":[null,null]") "]}");
    gs_text_free(&found);
    gs_run_free(copy);
    gs_run_free(predicted);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

/* Names of files and from files cannot break the line of an error message. */
TEST(control_characters_do_not_reach_the_terminal) {
    gs_error error = test_run_error("{\"schema\":\"gridsmith.run/1\",\"a\\n\\u001b[31mb\":1,\"events\":[]}");
    char text[1024];
    snprintf(error.file, sizeof error.file, "a\n\033[31m.json");
    gs_error_text(&error, text, sizeof text);
    for (const char *c = text; *c; c++)
        assert_true((unsigned char)*c >= 0x20);
}

/* Tables show the names of a run unchanged. */
TEST(names_with_control_characters_are_refused) {
    static const char *const rows[] = {"\"kernel\":\"a\\u001b[31m\"", "\"kernel\":\"a\\nb\"",
                                       "\"kernel\":\"a\xc2\x9b\"", "\"kernel\":\"a\",\"stream\":\"\\u007f\"",
                                       "\"kernel\":\"a\",\"id\":\"\\t\""};
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_text text = {0};
        gs_text_add(&text,
                    RUN("{\"op\":\"launch\",%s,\"blocks\":1,\"threads\":32,\"registers\":32,\"shared_bytes\":0}"),
                    rows[i]);
        gs_error error = test_run_error(text.data);
        assert_non_null(strstr(error.message, "must not contain control characters"));
        gs_text_free(&text);
    }
}

/* An error that only a GPU can find has its place too. */
TEST(a_kernel_that_never_fits_is_refused) {
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
        assert_int_equal(gs_code_exit(error.code), error.code == GS_E_UNSUPPORTED ? 2 : 1);
        assert_int_equal(error.line, 2);
        assert_int_equal(error.column, 1);
        if (!strstr(error.message, rows[i].words) || !strstr(error.message, "\"big\""))
            fail_msg("%s", error.message);
        gs_run_free(run);
        gs_text_free(&text);
    }
    gs_gpu_free(gpu);
}

/* The run of the selected kernels, as text. */
static void expect_selected(const gs_run *run, const char *patterns, const char *wanted) {
    gs_error error = {.code = GS_OK};
    gs_run *selected = gs_run_select(run, patterns, &error);
    gs_text found = {0};
    for (size_t i = 0; selected && i < selected->launches.count; i++) {
        const gs_launch *launch = &selected->launches.data[i];
        assert_null(launch->stream);
        gs_text_add(&found, "%s%.20s %lld", i ? ", " : "", launch->kernel, (long long)launch->blocks);
    }
    if (!selected)
        gs_text_add(&found, "%s", error.message);
    assert_string_equal(found.data, wanted);
    gs_text_free(&found);
    gs_run_free(selected);
}

/* Each shape of a kernel once, with the most blocks of its launches. */
TEST(kernels_are_selected_by_name) {
    enum { LONG = 300 };
    gs_run *run = gs_run_new(NULL);
    char name[LONG + 1] = "long", pattern[LONG + 5];
    static const struct {
        const char *kernel;
        int64_t blocks;
        int32_t threads;
    } rows[] = {{"gemm", 4, 32}, {"sum", 2, 32}, {"gemm", 9, 32}, {"gemm", 7, 64}, {"gemm", 3, 32}, {"gem", 1, 32}};
    expect_selected(run, "*", "no kernel matches \"*\"; the kernels are none");
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_launch launch = gs_launch_default();
        launch.kernel = (char *)rows[i].kernel;
        launch.stream = (char *)"7";
        launch.blocks = rows[i].blocks;
        launch.shape = gs_shape_of(rows[i].threads, 32, 0);
        launch.issue.id = (char *[]){"1", "2", "3", "4", "5", "6"}[i];
        assert_int_equal(gs_run_copy_launch(run, &launch, NULL), GS_OK);
    }
    expect_selected(run, "*", "gemm 9, sum 2, gemm#2 7, gem 1");
    expect_selected(run, "s*,gem", "sum 2, gem 1");
    expect_selected(run, "g?m", "gem 1");
    expect_selected(run, "x,y*", "no kernel matches \"x,y*\"; the kernels are gemm, sum, gem");
    memset(name + 4, 'x', LONG - 4);
    for (int i = 0; i < 4; i++) {
        gs_launch launch = gs_launch_default();
        name[LONG - 1] = (char)('a' + i);
        launch.kernel = name;
        launch.blocks = 10 + i;
        launch.shape = gs_shape_of(32, 32, 0);
        assert_int_equal(gs_run_copy_launch(run, &launch, NULL), GS_OK);
    }
    snprintf(pattern, sizeof pattern, "sum,%s", name);
    expect_selected(run, pattern, "sum 2, longxxxxxxxxxxxxxxxx 13");
    expect_selected(run, "none",
                    "no kernel matches \"none\"; the kernels are gemm, sum, gem, "
                    "longxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, longxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, ...");
    gs_run_free(run);
}

/* In any range of blocks, nearly all of the spread occurs, and evenly. */
TEST(durations_are_spread_evenly) {
    enum { BASE = 5000, SPREAD = 640000, RANGE = 64 };
    const gs_launch launch = {.duration_ns = BASE, .spread_ns = SPREAD};
    for (int64_t first = 0; first < 4000000; first = first * 3 + 17) {
        int in_quarter[4] = {0};
        int64_t least = INT64_MAX, most = 0;
        for (int64_t block = first; block < first + RANGE; block++) {
            int64_t more = gs_block_duration(&launch, block) - BASE;
            assert_in_range(more, 0, SPREAD - 1);
            assert_int_equal(gs_block_duration(&launch, block + GS_SPREAD_BLOCKS) - BASE, more);
            in_quarter[more * 4 / SPREAD]++;
            least = gs_min(least, more);
            most = gs_max(most, more);
        }
        assert_true(least < SPREAD / 20 && most > SPREAD / 20 * 19);
        for (int i = 0; i < 4; i++)
            assert_in_range(in_quarter[i], RANGE / 4 - 2, RANGE / 4 + 2);
    }
}

/* Of launches that are picked, those are marked that are like the one before in everything that can be changed. */
TEST(picked_launches_that_are_alike_are_marked) {
    gs_launch launches[8];
    size_t order[2 * GS_COUNT(launches)];
    gs_run *run = gs_run_new(NULL);
    for (size_t i = 0; i < GS_COUNT(launches); i++) {
        launches[i] = gs_launch_default();
        launches[i].kernel = (char *)"a";
        launches[i].blocks = 8;
        launches[i].shape = gs_shape_of(64, 32, 1024);
        order[2 * i] = 0; /* each beside the first */
        order[2 * i + 1] = i;
    }
    launches[1].kernel = (char *)"b";
    launches[2].blocks = 4;
    launches[3].cluster = 2;
    launches[4].shape.threads = 96;
    launches[5].shape.registers = 40;
    launches[6].shape.shared_bytes = 0;
    launches[7].shape.local_bytes = 16;
    for (size_t i = 0; i < GS_COUNT(launches); i++)
        assert_int_equal(gs_run_copy_launch(run, &launches[i], NULL), GS_OK);
    gs_run *picked = gs_run_pick(run, order, GS_COUNT(order), NULL);
    assert_non_null(picked);
    for (size_t i = 0; i < GS_COUNT(order); i++)
        assert_int_equal(picked->launches.data[i].is_again, i == 1 || i == 2);
    gs_run_free(picked);
    gs_run_free(run);
}

TEST_MAIN(NULL, NULL)
