/*
 * test_access_conditions.c: transactions of an input are those of an instruction only under the conditions of
 * docs/bounds.md, Theorem 13: a case for each.
 *
 * Those on the machine code are looked at with rows as the run on the CPU gives them, some of which it would not give.
 * Those on the PTX are looked at in the rows that a run gives.
 */
#include "test.h"

#include "ignored_parts.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/cuda.h"
#include "kernels/flow/flow.h"
#include "launch_text.h"

#include <stdlib.h>

enum {
    IN_FUNCTION = 4,
    FIRST = 10,
    MOST_ROWS = 3,
    MOST_LINES = 60,
    ELEMENTS = 4096,
    ROUNDS = 9
}; /* lines: of a load in a function, and the
first one of a body */

/* Lanes load the number of an element, whose address is in %b then. */
static const char head[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".func (.param .b32 o) f(.param .b64 p) { .reg .b64 %p; .reg .b32 %o; ld.param.u64 %p, [p]; "
    "ld.global.u32 %o, [%p]; st.param.b32 [o], %o; ret; } .global .align 16 .b8 other[256];\n"
    ".visible .entry k(.param .u64 buffer, .param .u32 rounds)\n{\n"
    ".reg .pred %p<5>; .reg .b32 %r<9>; .reg .b64 %a, %b, %d, %x<5>; .shared .align 16 .b8 here[256];\n"
    "ld.param.u64 %a, [buffer]; cvta.to.global.u64 %a, %a; ld.param.u32 %r8, [rounds]; mov.u32 %r1, %tid.x;\n"
    "mul.wide.u32 %d, %r1, 4; add.u64 %b, %a, %d; ld.global.u32 %r2, [%b]; and.b32 %r2, %r2, 31; "
    "mul.wide.u32 %d, %r2, 4; add.u64 %b, %a, %d;\n";
static const char tail[] = "st.volatile.global.u32 [%a], %r3;\nret; }\n";

static void put_kernel(gs_text *text, const char *body) {
    gs_text_add(text, "%s%s%s", head, body, tail);
}

/* ---- conditions on the machine code ---- */

/* The loads of each line: how many, and the transactions of the last one. */
struct loads {
    int count[MOST_LINES], transactions[MOST_LINES];
};

static bool keep_load(void *user, const gs_flow_step *step) {
    struct loads *loads = user;
    if (strstr(step->class_name, "_load") && step->line < MOST_LINES) {
        loads->count[step->line]++;
        loads->transactions[step->line] = step->transactions;
    }
    return true;
}

/* Instructions that become NOPs: threads stay apart, or loads that ptxas adds to a copy are not there. */
enum { NONE, BSYNC = 0x941, LDS = 0x984 };

static void drop(gs_sass_image *image, uint64_t instruction) {
    enum { NUMBER = 0xfff, NOP = 0x918, ALWAYS = 0x7000 };
    gs_sass_section *section = (gs_sass_section *)gs_sass_find(image, ".text.", "k");
    bool is_found = false;
    for (size_t at = 0; at < section->bytes.count; at += 16) {
        uint64_t other = NOP | ALWAYS;
        if ((gs_sass_long(&section->bytes, at) & NUMBER) != instruction)
            continue;
        memcpy(section->bytes.data + at, &other, sizeof other);
        is_found = true;
    }
    assert_true(is_found);
}

/* Walks a kernel with rows; those without a line are none. */
static struct loads walk(const char *body, gs_flow_rounds *rows, uint64_t dropped) {
    gs_error error = {.code = GS_OK};
    gs_text text = {0};
    gs_cubin cubin = {0};
    gs_sass_image image = {0};
    struct loads loads = {0};
    char *file = NULL;
    unsigned char parameters[12] = {[8] = ROUNDS};
    bool is_known[12] = {[8] = true, true, true, true};
    gs_flow_launch launch = {{4, 1, 1}, {32, 1, 1}, parameters, is_known, sizeof parameters};
    gs_flow_visitor visitor = {&loads, ignore_open, ignore_close, keep_load};
    size_t count = 0;
    put_kernel(&text, body);
    while (count < MOST_ROWS && rows[count].at)
        count++;
    gs_build build = {.name = "k", .text = text.data, .size = text.count, .with_lines = true};
    if (gs_cubin_make(&build, 90, &cubin, &error) != GS_OK)
        fail_msg("%s, line %ld", error.message, error.line);
    assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
    if (dropped)
        drop(&image, dropped);
    if (gs_flow_walk(&image, "k", &launch, rows, count, &visitor, &file, &error) != GS_OK)
        fail_msg("%s", error.message);
    free(file);
    gs_sass_free(&image);
    gs_cubin_free(&cubin);
    gs_text_free(&text);
    return loads;
}

#define LOAD "ld.global.u32 %r3, [%b];"
#define ROW(width, count, ...)                                                                                         \
    { .place = GS_FLOW_ACCESS_LINE, .bytes = width, .rounds = count, __VA_ARGS__ }
#define LOOP(line, begin, end, loops)                                                                                  \
    { .place = GS_FLOW_BRANCH_LINE, .rounds = ROUNDS, .at = line, .first = begin, .last = end, .depth = loops }
#define LOOP_BEGIN "mov.u32 %r4, 0;\nL: .pragma \"nounroll\";\n"
#define NEXT_ROUND                                                                                                     \
    "add.u32 %r3, %r3, %r4; and.b32 %r3, %r3, 31; mul.wide.u32 %d, %r3, 4; add.u64 %b, %a, %d; add.u32 %r4, %r4, 1; "  \
    "setp.lt.u32 %p1, %r4, %r8;\n"
#define LOOP_END       NEXT_ROUND "@%p1 bra L;\n"
#define PLACE_OF_ROUND "mul.wide.u32 %d, %r4, 128; add.u64 %b, %a, %d; "
/* Threads leave a loop one group after another. */
#define GROUPS                                                                                                         \
    "mov.u32 %r3, 0;\n"                                                                                                \
    "G: activemask.b32 %r6; st.volatile.global.u32 [%a+4], %r6; add.u32 %r3, %r3, 8; setp.le.u32 %p2, %r3, %r1;\n"     \
    "@%p2 bra G;\n"

/* The first row is that of the load; its number counts, or does not. */
static const struct machine_case {
    const char *what, *body;
    gs_flow_rounds rows[MOST_ROWS];
    bool counts;
    uint64_t dropped;
} machine_cases[] = {
    {"one instruction of one access", LOAD "\n", {ROW(4, 5, .at = FIRST)}, true, NONE},
    {"a number that is not known", LOAD "\n", {ROW(4, -1, .at = FIRST)}, false, NONE},
    {"another width", LOAD "\n", {ROW(8, 5, .at = FIRST)}, false, NONE},
    {"a store", LOAD "\n", {ROW(4, 5, .at = FIRST, .is_store = true)}, false, NONE},
    {"shared memory", LOAD "\n", {ROW(4, 5, .at = FIRST, .is_shared = true)}, false, NONE},
    {"another one without an instruction",
     LOAD "\n",
     {ROW(4, 5, .at = FIRST), ROW(4, 5, .at = FIRST + 1)},
     false,
     NONE},
    {"another width without one", LOAD "\n", {ROW(4, 5, .at = FIRST), ROW(8, 5, .at = FIRST + 1)}, true, NONE},
    {"two accesses, one instruction", LOAD "\n", {ROW(4, 5, .at = FIRST), ROW(4, 5, .at = FIRST)}, false, NONE},
    {"a store in the line", LOAD " st.volatile.global.u32 [%a+8], %r1;\n", {ROW(4, 5, .at = FIRST)}, false, NONE},
    {"a load in the line",
     LOAD " ld.global.u32 %r6, [%b+64]; add.u32 %r3, %r3, %r6;\n",
     {ROW(4, 5, .at = FIRST)},
     false,
     NONE},
    {"an atomic operation in the line",
     LOAD " red.global.add.u32 [%a+8], %r1;\n",
     {ROW(4, 5, .at = FIRST)},
     false,
     NONE},
    {"a copy in the line",
     LOAD " cp.async.cg.shared.global [here], [%b], 16; cp.async.wait_all;\n",
     {ROW(4, 5, .at = FIRST)},
     false,
     LDS},
    {"a texture in the line",
     LOAD " tex.1d.v4.s32.s32 {%r4, %r5, %r6, %r7}, [%a, {%r3}]; add.u32 %r3, %r3, %r4;\n",
     {ROW(4, 5, .at = FIRST)},
     false,
     NONE},
    {"a place that is known better", "ld.global.u32 %r3, [%a+4];\n", {ROW(4, 5, .at = FIRST)}, false, NONE},
    {"a loop that the access is not in", LOAD "\n", {ROW(4, 5, .at = FIRST, .depth = 1)}, false, NONE},
    {"a loop",
     LOOP_BEGIN LOAD "\n" LOOP_END,
     {ROW(4, 5, .at = FIRST + 2, .depth = 1), LOOP(FIRST + 4, FIRST + 1, FIRST + 4, 1)},
     true,
     NONE},
    {"a loop of which there is no row",
     LOOP_BEGIN LOAD "\n" LOOP_END,
     {ROW(4, 5, .at = FIRST + 2, .depth = 1)},
     false,
     NONE},
    {"a loop that another line closes",
     LOOP_BEGIN LOAD "\n" LOOP_END,
     {ROW(4, 5, .at = FIRST + 2, .depth = 1), LOOP(FIRST + 5, FIRST + 1, FIRST + 5, 1)},
     false,
     NONE},
    {"a loop that begins behind the access",
     LOOP_BEGIN LOAD "\n" LOOP_END,
     {ROW(4, 5, .at = FIRST + 2, .depth = 1), LOOP(FIRST + 4, FIRST + 3, FIRST + 4, 1)},
     false,
     NONE},
    {"a loop that ends in front of the access",
     LOOP_BEGIN LOAD "\n" LOOP_END,
     {ROW(4, 5, .at = FIRST + 2, .depth = 1), LOOP(FIRST + 4, FIRST + 1, FIRST + 1, 1)},
     false,
     NONE},
    {"a loop of another depth",
     LOOP_BEGIN LOAD "\n" LOOP_END,
     {ROW(4, 5, .at = FIRST + 2, .depth = 1), LOOP(FIRST + 4, FIRST + 1, FIRST + 4, 0)},
     false,
     NONE},
    {"a loop that lines do not name",
     LOOP_BEGIN LOAD "\n" LOOP_END,
     {ROW(4, 5, .at = FIRST + 2, .depth = 1),
      {.place = GS_FLOW_BRANCH_LINE, .rounds = -1, .at = FIRST + 4, .first = FIRST + 1, .last = FIRST + 4, .depth = 1}},
     false,
     NONE},
    {"two loops that may be this one",
     LOOP_BEGIN LOAD "\n" LOOP_END,
     {ROW(4, 5, .at = FIRST + 2, .depth = 1), LOOP(FIRST + 4, FIRST + 1, FIRST + 4, 1),
      LOOP(FIRST + 4, FIRST + 1, FIRST + 4, 1)},
     false,
     NONE},
    {"a loop of which another one has the line, too",
     LOOP_BEGIN LOAD "\n" NEXT_ROUND "@%p1 bra L; M: .pragma \"nounroll\"; st.volatile.global.u32 [%a+4], %r4; "
                     "add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 99; @%p1 bra M;\n",
     {ROW(4, 5, .at = FIRST + 2, .depth = 1), LOOP(FIRST + 4, FIRST + 1, FIRST + 4, 1)},
     false,
     NONE},
    {"threads that came together", GROUPS LOAD "\n", {ROW(4, 5, .at = FIRST + 3)}, true, NONE},
    {"threads that stayed apart", GROUPS LOAD "\n", {ROW(4, 5, .at = FIRST + 3)}, false, BSYNC},
    {"lanes that meet in different rounds",
     LOOP_BEGIN "setp.ne.u32 %p2, %r4, %r1;\n@%p2 bra N;\nbar.warp.sync -1; " LOAD "\nN:\n" LOOP_END,
     {ROW(4, 5, .at = FIRST + 4, .depth = 1), LOOP(FIRST + 7, FIRST + 1, FIRST + 7, 1)},
     false,
     NONE},
    {"a lane in each round",
     LOOP_BEGIN "setp.ne.u32 %p2, %r4, %r1;\n@%p2 bra N;\n" LOAD "\nN:\n" LOOP_END,
     {ROW(4, 5, .at = FIRST + 4, .depth = 1), LOOP(FIRST + 7, FIRST + 1, FIRST + 7, 1)},
     true,
     NONE},
    {"a function",
     "{ .param .b64 p; .param .b32 o; st.param.b64 [p], %b; call (o), f, (p); ld.param.b32 %r3, [o]; }\n",
     {ROW(4, 5, .at = IN_FUNCTION)},
     false,
     NONE},
    {"a loop less", LOOP_BEGIN LOAD "\n" LOOP_END, {ROW(4, 5, .at = FIRST + 2)}, false, NONE},
};

TEST(the_number_of_an_access_is_that_of_its_instruction_alone) {
    char path[1000];
    if (!gs_assembler_find(path, sizeof path))
        skip();
    for (size_t i = 0; i < GS_COUNT(machine_cases); i++) {
        const struct machine_case *now = &machine_cases[i];
        gs_flow_rounds rows[MOST_ROWS];
        memcpy(rows, now->rows, sizeof rows);
        struct loads loads = walk(now->body, rows, now->dropped);
        if (rows[0].is_used != now->counts || (loads.transactions[rows[0].at] == 5) != now->counts)
            fail_msg("%s: %d transactions", now->what, loads.transactions[rows[0].at]);
    }
}

/* Each lane loads in another round, from one place in each. Where lanes wait for each other in front of that, the load
   is one of all rounds. */
TEST(lanes_that_meet_in_different_rounds_load_from_different_places) {
    static const char *const bodies[] = {
        LOOP_BEGIN "setp.ne.u32 %p2, %r4, %r1;\n@%p2 bra N;\n" PLACE_OF_ROUND LOAD "\nN:\n" LOOP_END,
        LOOP_BEGIN "setp.ne.u32 %p2, %r4, %r1;\n@%p2 bra N;\nbar.warp.sync -1; " PLACE_OF_ROUND LOAD "\nN:\n" LOOP_END,
        LOOP_BEGIN "bar.warp.sync -1;\n\n" PLACE_OF_ROUND LOAD "\nN:\n" LOOP_END};
    static const int transactions[] = {1, 0, 1};
    char path[1000];
    if (!gs_assembler_find(path, sizeof path))
        skip();
    for (size_t i = 0; i < GS_COUNT(bodies); i++) {
        gs_flow_rounds none = {.at = 0};
        struct loads loads = walk(bodies[i], &none, NONE);
        assert_int_equal(loads.transactions[FIRST + 4], transactions[i]);
    }
}

/* ---- conditions on the PTX ---- */

/* In the row of a line; or there is no row, or no number in it. */
enum { NO_ROW = -2, NOT_KNOWN = -1 };

static int64_t count_line(const char *body, uint32_t line) {
    gs_error error = {.code = GS_OK};
    gs_loop_rounds_list list = {0};
    gs_text text = {0};
    int64_t found = NO_ROW;
    char launch_text[300];
    snprintf(launch_text, sizeof launch_text,
             "{\"schema\":\"gridsmith.launch/1\",\"grid\":[1,1,1],\"block\":[32,1,1],\"shared_bytes\":0,\"arguments\":["
             "{\"buffer\":\"int32\",\"count\":%d,\"fill\":\"index\"},{\"uint32\":%d}]}",
             ELEMENTS, ROUNDS);
    gs_launch_file *launch = launch_of_text(launch_text);
    put_kernel(&text, body);
    if (gs_count_rounds("k", text.data, text.count, "k", launch, 60, &list, &error) != GS_OK)
        fail_msg("%s, line %ld", error.message, error.line);
    for (size_t i = 0; i < list.count; i++)
        if (list.data[i].is_access && list.data[i].line == line)
            found = list.data[i].is_known ? list.data[i].rounds : NOT_KNOWN;
    gs_launch_free(launch);
    gs_text_free(&text);
    free(list.data);
    return found;
}

/* Lanes access 32 places beside each other, which are in 5 sectors at most. */
static const struct {
    const char *what, *body;
    int64_t counted;
    uint32_t line; /* of the body */
} ptx_cases[] = {
    {"one access", LOAD "\n", 5, 0},
    {"an access that no lane executes", "setp.eq.u32 %p1, %r1, 99;\n@%p1 " LOAD "\n", NOT_KNOWN, 1},
    {"16 lanes, in 3 sectors, and 16 that come past the access", "setp.lt.u32 %p1, %r1, 16;\n@%p1 " LOAD "\n", 19, 1},
    {"16 lanes that come past a branch", "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra E;\n" LOAD "\nE:\n", 19, 2},
    {"16 lanes that end", "setp.lt.u32 %p1, %r1, 16;\n@%p1 ret;\n" LOAD "\n", 19, 2},
    {"16 lanes, in 2 sectors of 8 bytes each, and 8 of each half that come past",
     "shr.u32 %r6, %r1, 3; and.b32 %r6, %r6, 1; setp.eq.u32 %p1, %r6, 1;\n@%p1 ld.global.b64 %x2, [%a];\n", 18, 1},
    {"a line that no thread comes to", "setp.ne.u32 %p1, %r1, 99;\n@%p1 bra E;\n" LOAD "\nE:\n", NO_ROW, 2},
    {"two accesses in a line", LOAD " st.global.u32 [%b], %r1;\n", NOT_KNOWN, 0},
    {"an access in two lines", "ld.global.u32 %r3,\n[%b];\n", NOT_KNOWN, 0},
    {"behind an access in two lines", "ld.global.u32 %r5,\n[%b]; " LOAD "\n", NOT_KNOWN, 1},
    {"in front of an access in two lines", LOAD " ld.global.u32 %r5,\n[%b];\n", NOT_KNOWN, 0},
    {"a parameter", "ld.param.u32 %r3, [rounds];\n", NO_ROW, 0},
    {"memory of a space that is not known", "ld.u32 %r3, [%b];\n", NO_ROW, 0},
    {"an atomic operation", "atom.global.add.u32 %r3, [%b], 1;\n", NO_ROW, 0},
    {"as many sectors as lanes", "mul.wide.u32 %d, %r1, 128; add.u64 %b, %a, %d;\n" LOAD "\n", NOT_KNOWN, 1},
    {"less than 4 bytes of shared memory", "ld.shared.u8 %r3, [here];\n", NOT_KNOWN, 0},
    {"shared memory", "ld.shared.u32 %r3, [here];\n", 1, 0},
    {"a place in one of two buffers",
     "mov.u64 %x1, other; setp.lt.u32 %p1, %r1, 16; selp.b64 %b, %x1, %b, %p1;\n" LOAD "\n", NOT_KNOWN, 1},
    {"a place that a GPU may compute otherwise",
     "atom.global.add.u32 %r5, [%a+256], 1; and.b32 %r5, %r5, 31; mul.wide.u32 %d, %r5, 4; add.u64 %b, %a, %d;\n" LOAD
     "\n",
     NOT_KNOWN, 1},
    {"a condition that a GPU may compute otherwise",
     "atom.global.add.u32 %r5, [%a+256], 1; setp.ne.u32 %p1, %r5, 99;\n@%p1 ld.global.u32 %r6, [%b];\n", NOT_KNOWN, 1},
    {"more than 16 bytes", "ld.global.v8.b32 {%r2, %r3, %r4, %r5, %r6, %r7, %r1, %r8}, [%a];\n", NO_ROW, 0},
    {"a loop", LOOP_BEGIN LOAD "\n" LOOP_END, 5, 2},
    {"a round to which no lane comes past a branch",
     LOOP_BEGIN "setp.eq.u32 %p2, %r4, 3;\n@%p2 bra N;\n" LOAD "\nN:\n" LOOP_END, NOT_KNOWN, 4},
    {"a loop that 4 lanes are in", "setp.ge.u32 %p2, %r1, 4;\n@%p2 bra E;\n" LOOP_BEGIN LOAD "\n" LOOP_END "E:\n", 2,
     4},
    {"a loop that is entered elsewhere",
     "mov.u32 %r4, 0; bra M;\nL: add.u32 %r4, %r4, 1;\nM:\n" LOAD "\nsetp.lt.u32 %p1, %r4, %r8;\n@%p1 bra L;\n",
     NOT_KNOWN, 3},
    {"a table of branches", LOAD "\nT: .branchtargets E; mov.u32 %r5, 0; brx.idx %r5, T;\nE:\n", NOT_KNOWN, 0},
};

TEST(the_run_says_the_number_of_an_access_alone) {
    for (size_t i = 0; i < GS_COUNT(ptx_cases); i++) {
        int64_t counted = count_line(ptx_cases[i].body, FIRST + ptx_cases[i].line);
        if (counted != ptx_cases[i].counted)
            fail_msg("%s: %lld, not %lld", ptx_cases[i].what, (long long)counted, (long long)ptx_cases[i].counted);
    }
}

/* ptxas makes one instruction of a load that one lane executes and one of two copies of a load of the same places, and
   gives it the line of the first. */
TEST(an_instruction_that_is_two_accesses_counts_all_lanes) {
    static const char body[] =
        "mul.wide.u32 %x2, %r2, 128; add.u64 %x1, %a, %x2; setp.ne.u32 %p1, %r2, 1; mov.u32 %r6, 0;\n"
        "@%p1 bra N;\nld.global.nc.u32 %r6, [%x1];\nN: mov.u32 %r4, 0; mov.u32 %r3, 0;\n"
        "L: mul.wide.u32 %d, %r4, 4096; add.u64 %x3, %x1, %d;\nld.global.nc.u32 %r5, [%x3];\n"
        "add.u32 %r3, %r3, %r5; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 2;\n@%p2 bra L;\n"
        "add.u32 %r3, %r3, %r6;\n";
    enum { CONDITIONAL = FIRST + 2 };
    gs_flow_rounds rows[MOST_ROWS] = {ROW(4, count_line(body, CONDITIONAL), .at = CONDITIONAL)};
    char path[1000];
    if (!gs_assembler_find(path, sizeof path))
        skip();
    struct loads loads = walk(body, rows, NONE);
    assert_int_equal(loads.count[CONDITIONAL], 1);
    assert_int_equal(loads.transactions[CONDITIONAL], 0); /* the most of its class */
}

/* ptxas takes the line of an instruction from a marker. */
TEST(a_line_marker_is_refused) {
    static const char text[] = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
                               "/*\n# 7 */ ret;\n  # 39 \"k.ptx\"\n}\n";
    static const char launch_text[] = "{\"schema\":\"gridsmith.launch/1\",\"grid\":[1,1,1],\"block\":[32,1,1],"
                                      "\"shared_bytes\":0,\"arguments\":[{\"buffer\":\"int32\",\"count\":8}]}";
    gs_error error = {.code = GS_OK};
    gs_loop_rounds_list list = {0};
    gs_launch_file *launch = launch_of_text(launch_text);
    assert_int_equal(gs_count_rounds("k", text, strlen(text), "k", launch, 60, &list, &error), GS_E_REFUSED);
    assert_int_equal(error.line, 7);
    assert_int_equal(error.column, 3);
    gs_launch_free(launch);
    free(list.data);
}

TEST_MAIN(NULL, NULL)
