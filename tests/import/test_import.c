/*
 * test_import.c: traces of other tools become the runs of their programs, and faults of a trace are reported.
 */
#include "test.h"

#include "lab/import/import.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const gs_import_options all = {.device = GS_NOT_GIVEN};

/* ---- helpers ---- */

/* In the traces and the lines of this file ' stands for ". */
static void put_quotes(char *text, size_t count) {
    for (size_t i = 0; i < count; i++)
        text[i] = text[i] == '\'' ? '"' : text[i];
}

static char *quoted(const char *text) {
    char *copy = strdup(text);
    put_quotes(copy, strlen(copy));
    return copy;
}

static gs_code import_quoted(const char *text, const gs_import_options *options, gs_imported *imported,
                             gs_error *error) {
    char *trace = quoted(text);
    gs_code code = gs_import_bytes("trace", trace, strlen(trace), options, imported, error);
    free(trace);
    return code;
}

static gs_imported import_text(const char *text, const gs_import_options *options) {
    gs_imported imported = {0};
    gs_error error;
    if (import_quoted(text, options, &imported, &error) != GS_OK)
        fail_msg("%s:%ld:%ld: %s\n%s", error.file, error.line, error.column, error.message, text);
    return imported;
}

static gs_error import_error(const char *text, const gs_import_options *options) {
    gs_imported imported = {0};
    gs_error error;
    if (import_quoted(text, options, &imported, &error) == GS_OK)
        fail_msg("this trace should have been refused: %s", text);
    gs_imported_free(&imported);
    return error;
}

/* All runs as lines; the written text can be read back, and is the same then. */
static gs_text lines_of(const gs_imported *imported) {
    gs_text text = {0}, again = {0};
    for (size_t i = 0; i < imported->count; i++)
        gs_run_lines(imported->data[i], &text);
    gs_error error = {.code = GS_OK};
    gs_runs *runs = gs_runs_memory("lines", text.data, text.count, &error);
    gs_run *run;
    while ((run = gs_runs_next(runs, &error))) {
        gs_run_lines(run, &again);
        gs_run_free(run);
    }
    if (error.code != GS_OK)
        fail_msg("%ld:%ld: %s", error.line, error.column, error.message);
    assert_string_equal(text.data, again.data);
    gs_runs_close(runs);
    gs_text_free(&again);
    return text;
}

static void assert_lines(gs_imported *imported, const char *wanted) {
    gs_text lines = lines_of(imported);
    char *quoted_lines = quoted(wanted);
    assert_string_equal(lines.data, quoted_lines);
    free(quoted_lines);
    gs_text_free(&lines);
    gs_imported_free(imported);
}

/* ---- the PyTorch profiler ---- */

#define KERNEL(name, device, stream, correlation, ts, dur)                                                             \
    "{'ph':'X','cat':'kernel','name':'" name "','pid':0,'tid':7,'ts':" ts ",'dur':" dur                                \
    ",'args':{'External id':17,'device':" device ",'context':1,'stream':" stream ",'correlation':" correlation         \
    ",'registers per thread':32,'shared memory':16,'blocks per SM':0.5,"                                               \
    "'grid':[2,3,1],'block':[64,1,1],'est. achieved occupancy %':0}}"
#define CALL(name, correlation, ts)                                                                                    \
    "{'ph':'X','cat':'cuda_runtime','name':'" name "','ts':" ts ",'dur':1,'args':{'cbid':1,'correlation':" correlation \
    "}}"
/* Between two events of a list. */
#define AND ","
#define END "{'op':'end'}\n"
#define LAUNCHED(id, name, rest)                                                                                       \
    "{'op':'launch','id':" id ",'kernel':'" name "','blocks':6,'threads':64,'registers':32,'shared_bytes':16," rest    \
    "}\n"
#define SIZES           "'grid':[2,3,1],'block':[64,1,1],'device':0,'context':1"
#define HEAD(gpu, more) "{'schema':'gridsmith.run/1'," gpu "'recorder':'PyTorch profiler'," more
#define LACKS           "'lacks':['cluster','carveout_percent','local_bytes','priority'],'events':'follow'}\n"

/* The trace of a real program: every number of kernels and of copies, their streams, times and order. */
TEST(a_real_trace_is_imported) {
    gs_imported imported = {0};
    gs_error error;
    assert_int_equal(gs_import(test_path("corpus/pytorch-two-streams.json.gz"), &all, &imported, &error), GS_OK);
    assert_int_equal(imported.count, 1);
    const gs_run *run = imported.data[0];
    assert_string_equal(run->gpu, "h200");
    assert_string_equal(run->origin.gpu_name, "NVIDIA H200");
    assert_int_equal(run->origin.start_unix_ns, 1790857026000000000 + 3926193060998049);
    assert_int_equal(run->launches.count, 116);
    assert_int_equal(run->copies.count, 14);
    size_t by_stream[3] = {0}, in_graph = 0;
    for (size_t i = 0; i < run->launches.count; i++) {
        const gs_launch *launch = &run->launches.data[i];
        const char *stream = launch->stream;
        by_stream[strcmp(stream, "7") == 0 ? 0 : strcmp(stream, "13") == 0 ? 1 : 2]++;
        assert_true(launch->issue.start_ns >= launch->issue.at_ns && launch->issue.end_ns > launch->issue.start_ns);
        assert_true(!i || launch->issue.at_ns >= run->launches.data[i - 1].issue.at_ns);
        in_graph += launch->issue.at_ns == 3926193067654979 - 3926193060998049;
    }
    assert_int_equal(by_stream[0], 36);
    assert_int_equal(by_stream[1], 72);
    assert_int_equal(by_stream[2], 8);
    assert_int_equal(in_graph, 36);
    const gs_launch *first = &run->launches.data[0];
    assert_string_equal(first->kernel, "nvjet_sm90_hsh_96x64_64x10_1x2_h_bz_bias_TNN");
    assert_int_equal(first->blocks, 128);
    assert_int_equal(first->shape.threads, 384);
    assert_int_equal(first->shape.shared_bytes, 221508);
    assert_int_equal(first->issue.start_ns, 3926193061046340 - 3926193060998049);
    assert_int_equal(first->issue.end_ns - first->issue.start_ns, 4928);
    gs_text lines = lines_of(&imported);
    gs_text_free(&lines);
    gs_imported_free(&imported);
}

/* Kernels before their calls, two GPUs, copies of each kind, a key after "args", values that are not numbers. */
TEST(events_may_come_in_any_order) {
    gs_text text = {0};
    gs_text_add(
        &text,
        "{'deviceProperties':[{'id':0,'name':'NVIDIA A100-SXM4-80GB','numSms':108},{'numSms':7,'id':1,'name':'NVIDIA "
        "GeForce RTX 3095'}],'traceEvents':[\n%s,%s,%s,%s,",
        KERNEL("b<2>(x)", "0", "7", "5", "110.5", "2.25"), CALL("cudaLaunchKernel", "5", "102.001"),
        KERNEL("a", "0", "8", "4", "105", "1"), KERNEL("c", "1", "7", "6", "120", "1"));
    gs_text_add(&text, "{'args':{'stream':7,'device':0,'context':1,'bytes':64,'correlation':9,'grid':null,'priority':'"
                       "x','Input':[{'a':'\\']}'}]},'name':'Memcpy HtoD (Pageable -> "
                       "Device)','ts':1e2,'dur':1.5,'cat':'gpu_memcpy'},{'cat':'cpu_op','name':'x'},5,");
    gs_text_add(&text, "%s,%s,%s],'baseTimeNanoseconds':1000}", CALL("cudaLaunchKernel", "4", "101"),
                CALL("cudaMemcpyAsync", "9", "99"), CALL("cuLaunchKernel", "6", "103"));
    gs_imported imported = import_text(text.data, &all);
    assert_lines(
        &imported, HEAD("'gpu':'a100',", "'gpu_name':'NVIDIA A100-SXM4-80GB','device':0,'start_unix_ns':100000,") LACKS
        "{'op':'copy','id':1,'kind':'host_to_device','bytes':64,'stream':7,'at_us':0,'start_us':1,'end_us':2.5,'device'"
        ":0,'context':1}\n" LAUNCHED("2", "a", "'stream':8,'at_us':2,'start_us':6,'end_us':7," SIZES) LAUNCHED(
            "3", "b<2>(x)", "'stream':7,'at_us':3.001,'start_us':11.5,'end_us':13.75," SIZES)
            END HEAD("", "'gpu_name':'NVIDIA GeForce RTX 3095','device':1,'start_unix_ns':100000,") LACKS LAUNCHED(
                "1", "c",
                "'stream':7,'at_us':4,'start_us':21,'end_us':22,'grid':[2,3,1],'block':[64,1,1],'device':1,'context':1")
                END);
    gs_import_options second = {.device = 1};
    imported = import_text(text.data, &second);
    assert_int_equal(imported.count, 1);
    assert_int_equal(imported.data[0]->launches.count, 1);
    assert_int_equal(imported.data[0]->origin.device, 1);
    gs_imported_free(&imported);
    gs_text_free(&text);
}

/* Ranges that the program named. One that ended before all work is left out, one that began before it is cut. */
TEST(named_ranges_are_imported) {
#define NAMED(name, ts, dur) "{'cat':'user_annotation','name':'" name "','ts':" ts ",'dur':" dur "},"
    gs_imported imported = import_text(
        "[" NAMED("step#1", "90", "20") NAMED("early", "90", "5") NAMED("in\\n", "101", "1") NAMED("", "101", "1")
            KERNEL("a", "0", "7", "4", "105", "1") AND CALL("cudaLaunchKernel", "4", "100") "]",
        &all);
    assert_lines(&imported,
                 HEAD("", "'device':0,'start_unix_ns':100000,") LACKS LAUNCHED(
                     "1", "a",
                     "'stream':7,'at_us':0,'start_us':5,'end_us':6," SIZES) "{'op':'range','name':'step#1','from_us':0,"
                                                                            "'to_us':10}\n{'op':'range','name':'in "
                                                                            "','from_us':1,'to_us':2}\n{'op':'end'}\n");
}

/* A list without an object around it, a launch without a call, escapes in a name. */
TEST(a_launch_without_a_call_follows_its_stream) {
    gs_imported imported = import_text(
        "[" KERNEL("a", "0", "7", "1", "10", "1") AND KERNEL("\\u00e9\\\"\\ud83d\\ude00", "0", "7", "2", "12", "1")
            AND KERNEL("c", "0", "7", "3", "14", "1") AND CALL("l", "1", "5") AND CALL("l", "3", "4") "]",
        &all);
    assert_non_null(strstr(imported.notes.data, "1 launch or copy without a call in the trace"));
    assert_lines(&imported, HEAD("", "'device':0,'start_unix_ns':5000,")
                                LACKS LAUNCHED("1", "a", "'stream':7,'at_us':0,'start_us':5,'end_us':6," SIZES)
                                    LAUNCHED("2", "\xc3\xa9\\\"\xf0\x9f\x98\x80",
                                             "'stream':7,'at_us':0,'start_us':7,'end_us':8," SIZES)
                                        LAUNCHED("3", "c", "'stream':7,'at_us':0,'start_us':9,'end_us':10," SIZES) END);
}

/* Work at the beginning of a stream that has no call was issued before the next, whose call is known. */
TEST(calls_keep_their_times_behind_work_without_one) {
    gs_imported imported =
        import_text("[" KERNEL("a", "0", "7", "1", "20", "10") AND KERNEL("b", "0", "7", "2", "31", "2")
                        AND KERNEL("c", "0", "8", "3", "5", "2") AND CALL("l", "2", "1") AND CALL("l", "3", "2") "]",
                    &all);
    assert_lines(&imported, HEAD("", "'device':0,'start_unix_ns':1000,")
                                LACKS LAUNCHED("1", "a", "'stream':7,'at_us':0,'start_us':19,'end_us':29," SIZES)
                                    LAUNCHED("2", "b", "'stream':7,'at_us':0,'start_us':30,'end_us':32," SIZES)
                                        LAUNCHED("3", "c", "'stream':8,'at_us':1,'start_us':4,'end_us':6," SIZES) END);
}

/* A stream that waits for an event waits for the last work before the record. */
TEST(waits_become_edges) {
    gs_imported imported = import_text(
        "[" KERNEL("a", "0", "7", "1", "10", "9") AND KERNEL("b", "0", "7", "4", "30", "1")
            AND KERNEL("c", "0", "8", "6", "40", "1") AND CALL("l", "1", "1") AND CALL("cudaEventRecord", "2", "2")
                AND CALL("l", "4", "4") AND CALL("cudaStreamWaitEvent", "5", "5") AND CALL("l", "6", "6") AND
        "{'cat':'cuda_sync','name':'Stream Wait "
        "Event','ts':5,'args':{'wait_on_stream':7,'wait_on_cuda_event_record_corr_id':2,'wait_on_cuda_event_id':1,'"
        "stream':8,'correlation':5,'device':0,'context':1}}]",
        &all);
    const gs_run *run = imported.data[0];
    assert_int_equal(run->launches.data[1].issue.after_count, 0);
    assert_int_equal(run->launches.data[2].issue.after_count, 1);
    assert_int_equal(run->edges.data[run->launches.data[2].issue.after].number, 0);
    assert_null(strstr(imported.notes.data, "which streams wait"));
    gs_imported_free(&imported);
}

/* A wait that cannot become an edge is counted: its call, that of the record, or its numbers are not there. */
TEST(waits_that_are_left_out_are_counted) {
    static const struct {
        const char *records, *numbers, *words;
    } rows[] = {
        {"2", "'wait_on_stream':7,'stream':8,'correlation':5,'wait_on_cuda_event_record_corr_id':2", NULL},
        {"3", "'wait_on_stream':7,'stream':8,'correlation':5,'wait_on_cuda_event_record_corr_id':2", "calls"},
        {"2", "'wait_on_stream':7,'stream':8,'correlation':9,'wait_on_cuda_event_record_corr_id':2", "calls"},
        {"2", "'wait_on_stream':7,'correlation':5,'wait_on_cuda_event_record_corr_id':2", "what waits for what"},
        {"2", "'wait_on_stream':7,'stream':8,'wait_on_cuda_event_record_corr_id':2", "what waits for what"},
        {"2", "'wait_on_stream':4294967295,'stream':8,'correlation':5,'wait_on_cuda_event_record_corr_id':4294967295",
         "what waits for what"},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_text text = {0};
        gs_text_add(&text, "[%s,%s", KERNEL("a", "0", "7", "1", "10", "9"), KERNEL("c", "0", "8", "6", "40", "1"));
        gs_text_add(&text,
                    "," CALL("l", "1", "1") AND CALL("r", "%s", "2") AND CALL("w", "5", "5") AND CALL("l", "6", "6") AND
                    "{'cat':'cuda_sync','name':'Stream Wait Event','ts':5,'args':{'device':0,'context':1,%s}}]",
                    rows[i].records, rows[i].numbers);
        gs_imported imported = import_text(text.data, &all);
        const char *said = strstr(imported.notes.data, "1 wait between streams is left out: ");
        if (!said != !rows[i].words || (said && !strstr(said, rows[i].words)))
            fail_msg("row %zu: %s", i, imported.notes.data);
        assert_int_equal(imported.data[0]->edges.count, !rows[i].words);
        gs_imported_free(&imported);
        gs_text_free(&text);
    }
}

static const struct {
    const char *text;
    long line, column;
    const char *words;
} wrong[] = {
    {"", 0, 0, "not a trace: expected one of the PyTorch profiler"},
    {"hello\n", 0, 0, "not a trace"},
    {"{'a':1}", 1, 8, "not a trace of the PyTorch profiler: \"traceEvents\" is missing"},
    {"{'schema':'gridsmith.run/1','events':[]}", 1, 28, "a file of Gridsmith needs no import"},
    {"{'schema':'1.0.2-chakra.0.0.4','nodes':[]}", 1, 0, "not a trace of the PyTorch profiler"},
    {"{'traceEvents':[]}", 0, 0, "the trace has no kernels on a GPU"},
    {"[" CALL("l", "1", "1") "]", 0, 0, "the trace has no kernels on a GPU"},
    {"{'traceEvents':[{'cat':'cpu_op'", 1, 32, "the file is cut short"},
    {"{'traceEvents':[{'cat':'kernel','name':'ab", 0, 0, "the file is cut short"},
    {"{'traceEvents':[\n{'cat':'kernel'}", 2, 17, "kernel \"unnamed\" has no \"ts\" in the trace: when it started"},
    {"{'traceEvents':[{'cat':'cpu_op'}", 0, 0, "the file is cut short"},
    {"{'traceEvents':7}", 1, 16, "not valid JSON: a list expected"},
    {"{'traceEvents':[{'cat' 'kernel'}]}", 1, 24, "not valid JSON: a colon expected"},
    {"{'traceEvents':[{'cat':'a\\q'}]}", 0, 0, "unknown escape"},
    {"{'traceEvents':[{'ts':1x}]}", 1, 24, "a comma or a closing bracket expected"},
    {"{'traceEvents':[{'ts':1-2}]}", 0, 0, "a number expected"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[0,1,1],'block':[1,1,1]}}]", 1, 95,
     "kernel \"k\" has an impossible size: a grid of 0 x 1 x 1"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[2147483647,2147483647,9],'block':[1,1,1]}}"
     "]",
     0, 0, "has an impossible size"},
    {"[" KERNEL("a", "0", "7", "1", "1", "1") AND KERNEL("a", "0", "7", "1", "1e15", "1") "]", 0, 0,
     "more than eleven days apart"},
    {"[" KERNEL("a", "0", "7", "1", "1", "-5") "]", 0, 0, "kernel \"a\" ends before it starts"},
    {"[{'cat':'gpu_memset','name':'m','ts':1,'dur':-1,'args':{'stream':7}}]", 0, 0, "a memset ends before it starts"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[1,1,1],'block':[1,1,1],'shared "
     "memory':-1}}]",
     0, 0, "kernel \"k\" has a negative amount of shared memory"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[1,1,1],'block':[1,1,1],'grid':[1.5,1,1]}}]",
     0, 0, "\"grid\" is 1.5: not a whole number"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[1,1,1],'block':[1,1,1],'grid':[4294967298,"
     "1,1]}}]",
     0, 0, "\"grid\" is 4294967298: out of range"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[1,1,1],'block':[1,1,1],'block':[1,1,1e30]}}"
     "]",
     0, 0, "\"block\" is 1e30: out of range"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[1,1,1],'block':[1,1,1],'stream':2.7}}]", 0,
     0, "\"stream\" is 2.7: not a whole number"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[1,1,1],'block':[1,1,1],'stream':"
     "9223372036854775808}}]",
     0, 0, "\"stream\" is 9223372036854775808: out of range"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[1,1,1],'block':[1,1,1],'registers per "
     "thread':32.5}}]",
     0, 0, "\"registers per thread\" is 32.5: not a whole number"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[1,1,1],'block':[1,1,1],'registers per "
     "thread':4294967328}}]",
     0, 0, "\"registers per thread\" is 4294967328: out of range"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[1,1,1],'block':[1,1,1],'shared "
     "memory':1e20}}]",
     0, 0, "\"shared memory\" is 1e20: out of range"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[1,1,1],'block':[1,1,1],'correlation':"
     "4294967296}}]",
     0, 0, "\"correlation\" is 4294967296: out of range"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[1,1,1],'block':[1,1,1],'device':4294967296}"
     "}]",
     0, 0, "\"device\" is 4294967296: out of range"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[1,1,1],'block':[1,1,1],'registers per "
     "thread':-3}}]",
     0, 0, "kernel \"k\" has -3 registers a thread, which is impossible"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[1,1,1],'block':[1,1,1],'shared "
     "memory':2199023255552}}]",
     0, 0, "kernel \"k\" has more than 2^40 bytes of shared memory"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[1,1,1],'block':[1,1,1],'priority':70000}}]",
     0, 0, "kernel \"k\" has priority 70000, which is impossible"},
    {"[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'grid':[1,1,1],'block':[1,1,1],'device':-2}}]", 0,
     0, "GPU -2 is not possible"},
    {"[" KERNEL("a", "0", "7", "1", "1", "1") "] x", 0, 0, "more text after the end of the trace"},
};

TEST(what_is_wrong_with_a_trace_is_said) {
    for (size_t i = 0; i < GS_COUNT(wrong); i++) {
        gs_error error = import_error(wrong[i].text, &all);
        if (!strstr(error.message, wrong[i].words) || (wrong[i].line && error.line != wrong[i].line) ||
            (wrong[i].column && error.column != wrong[i].column))
            fail_msg("%s\ngave %ld:%ld: %s\nnot  %ld:%ld: %s", wrong[i].text, error.line, error.column, error.message,
                     wrong[i].line, wrong[i].column, wrong[i].words);
        assert_int_equal(gs_code_exit(error.code), 2);
    }
    gs_import_options third = {.device = 3};
    gs_error error = import_error("[" KERNEL("a", "0", "7", "1", "1", "1") "]", &third);
    assert_non_null(strstr(error.message, "no kernel ran on GPU 3"));
}

/* Any beginning of a trace is refused, but for the whole. */
TEST(every_cut_is_found) {
    static const char text[] = "{'traceEvents':[" KERNEL("a\\u0041", "0", "7", "1", "1.5", "1") AND CALL("l", "1", "1")
        AND "{'cat':'x','args':{'y':['\\\\']}}]}";
    for (size_t i = 0; i < strlen(text); i++) {
        char *part = strndup(text, i);
        gs_error error = import_error(part, &all);
        assert_int_equal(gs_code_exit(error.code), 2);
        free(part);
    }
    gs_imported imported = import_text(text, &all);
    assert_string_equal(imported.data[0]->launches.data[0].kernel, "aA");
    gs_imported_free(&imported);
}

/* ---- Nsight Systems ---- */

/* Makes a database of the statements and imports it. */
static gs_code import_sql(const char *sql, gs_imported *imported, gs_error *error) {
    char path[] = "/tmp/gridsmith-import-XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    close(descriptor);
    sqlite3 *sqlite = NULL;
    assert_int_equal(sqlite3_open(path, &sqlite), SQLITE_OK);
    char *problem = NULL;
    sqlite3_exec(sqlite, "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;", NULL, NULL, NULL);
    if (sqlite3_exec(sqlite, sql, NULL, NULL, &problem) != SQLITE_OK)
        fail_msg("%s", problem);
    sqlite3_close(sqlite);
    gs_code code = gs_import(path, &all, imported, error);
    unlink(path);
    return code;
}

#define STRINGS                                                                                                        \
    "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);"                                            \
    "INSERT INTO StringIds VALUES (1, 'void add<float>(float*)'), (2, 'scale');"
#define GPUS                                                                                                           \
    "CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT, smCount INTEGER);"                             \
    "INSERT INTO TARGET_INFO_GPU VALUES (1, 0, 'NVIDIA H200', 132);"
/* Two threads of process 77: its number is in bits 24 to 47. */
#define PID "1291845632"
#define TID "1291845637"

static const char new_export[] = STRINGS GPUS
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, "
    "greenContextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, "
    "shortName INTEGER, mangledName INTEGER, launchType INTEGER, registersPerThread INTEGER, gridX INTEGER, "
    "gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER, "
    "dynamicSharedMemory INTEGER, localMemoryPerThread INTEGER, gridId INTEGER, sharedMemoryExecuted INTEGER, "
    "graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES "
    "(5000, 7500, 0, 1, NULL, 7, 11, " PID ", 1, 2, 2, 0, 32, 4, 2, 1, 128, 1, 1, 512, 1024, 16, 1, 8192, NULL, 0),"
    "(9000, 9500, 0, 1, 3, 13, 14, " PID ", 2, 2, 2, 1, 40, 8, 1, 1, 32, 2, 1, 0, 0, 0, 2, NULL, 55, 0);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, "
    "streamId "
    "INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (2000, 3000, 0, 1, 7, 10, " PID ", 4096, 1);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, "
    "streamId "
    "INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (9600, 9700, 0, 1, 13, 15, " PID ", 64);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, correlationId INTEGER, globalTid INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 1100, 10, " TID "), (1200, 1300, 11, " TID "), (1400, 1450, "
    "12, " TID "), (1500, 1550, 13, " TID "), (1600, 1650, 14, " TID "), (1700, 1750, 15, " TID "), (1, 2, 11, 99);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER, contextId "
    "INTEGER, "
    "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER, eventId INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (1500, 1500, 0, 1, 13, 13, " PID ", 2, 70), "
    "(1800, 1900, 0, 1, 13, 16, " PID ", 3, 0);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId "
    "INTEGER, globalPid INTEGER, eventId INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 1, 7, 12, " PID ", 70), (0, 1, 7, 9, " PID ", 70), "
    "(0, 1, 7, 12, " PID ", 71);"
    "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);"
    "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1790857026000000000);";

TEST(a_database_of_nsight_systems_is_imported) {
    gs_imported imported = {0};
    gs_error error;
    if (import_sql(new_export, &imported, &error) != GS_OK)
        fail_msg("%s", error.message);
    assert_lines(
        &imported,
        "{'schema':'gridsmith.run/1','gpu':'h200','recorder':'Nsight Systems profiler','gpu_name':'NVIDIA "
        "H200','device':0,'start_unix_ns':1790857026000001000,'lacks':['cluster','carveout_percent','priority'],'"
        "events':'follow'}\n{'op':'copy','id':1,'kind':'host_to_device','bytes':4096,'stream':7,'at_us':0,'start_us':1,"
        "'end_us':2,'device':0,'process':77,'context':1}\n{'op':'launch','id':2,'kernel':'void "
        "add<float>(float*)','blocks':8,'threads':128,'registers':32,'shared_bytes':1536,'local_bytes':16,'stream':7,'"
        "at_us':0.2,'start_us':4,'end_us':6.5,'grid':[4,2,1],'block':[128,1,1],'static_shared_bytes':512,'shared_"
        "config_bytes':8192,'device':0,'process':77,'context':1}\n{'op':'launch','id':3,'kernel':'scale','blocks':8,'"
        "threads':64,'registers':40,'shared_bytes':0,'stream':13,'at_us':0.6,'after':[2],'start_us':8,'end_us':8.5,'"
        "grid':[8,1,1],'block':[32,2,1],'cooperative':true,'static_shared_bytes':0,'device':0,'process':77,'context':1,"
        "'green_context':3,'node':55}\n{'op':'memset','id':4,'bytes':64,'stream':13,'at_us':0.7,'start_us':8.6,'end_us'"
        ":8.7,'device':0,'process':77,'context':1}\n{'op':'end'}\n");
}

/* Ranges have a text, or the id of one; marks and domains have no end or no name. */
TEST(ranges_of_nsight_systems_are_imported) {
    static const char ranges[] =
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER);INSERT "
        "INTO NVTX_EVENTS VALUES (1000, 3000, 59, 'forward', NULL), (2000, 4000, 60, NULL, 2), (2000, NULL, 34, "
        "'mark', NULL), (NULL, NULL, 75, 'domain', NULL), (2000, 2500, 59, NULL, NULL);";
    gs_imported imported = {0};
    gs_error error;
    gs_text sql = {0};
    gs_text_add(&sql, "%s%s", new_export, ranges);
    assert_int_equal(import_sql(sql.data, &imported, &error), GS_OK);
    const gs_named_ranges *found = &imported.data[0]->ranges;
    assert_int_equal(found->count, 2);
    assert_string_equal(found->data[0].name, "forward");
    assert_int_equal(found->data[0].from_ns, 0);
    assert_int_equal(found->data[0].to_ns, 2000);
    assert_string_equal(found->data[1].name, "scale");
    assert_int_equal(found->data[1].to_ns, 3000);
    gs_text_free(&sql);
    gs_imported_free(&imported);
}

/* Columns and tables come and go between versions. */
TEST(an_old_export_has_fewer_columns) {
    gs_imported imported = {0};
    gs_error error;
    assert_int_equal(import_sql("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId "
                                "INT, name TEXT, registersPerThread INT, gridX INT, gridY INT, gridZ INT, blockX INT, "
                                "blockY INT, blockZ INT);INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 30, 0, 7, "
                                "'k', 0, 1, 1, 1, 32, 1, 1);CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, "
                                "end INT);INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1, 2), (3, 4);",
                                &imported, &error),
                     GS_OK);
    assert_non_null(
        strstr(imported.notes.data, "1 launch without \"registersPerThread\": 1 register a thread is assumed"));
    assert_non_null(
        strstr(imported.notes.data, "1 launch without \"localMemoryPerThread\": no local memory is assumed"));
    assert_non_null(strstr(imported.notes.data, ": the trace does not say what GPU 0 is: predict with --gpu\n"));
    assert_non_null(strstr(imported.notes.data, "the kernels of 2 launches of CUDA graphs are not in the trace"));
    assert_lines(&imported, "{'schema':'gridsmith.run/1','recorder':'Nsight Systems "
                            "profiler','device':0,'lacks':['cluster','carveout_percent','priority','registers','shared_"
                            "bytes','local_bytes','at_us'],'events':'follow'}\n{'op':'launch','id':1,'kernel':'k','"
                            "blocks':1,'threads':32,'registers':1,'shared_bytes':0,'stream':7,'at_us':0,'start_us':0,'"
                            "end_us':0.02,'grid':[1,1,1],'block':[32,1,1],'device':0}\n{'op':'end'}\n");
}

TEST(databases_that_are_no_traces_are_refused) {
    static const struct {
        const char *sql, *words;
    } rows[] = {
        {"CREATE TABLE a (b);", "not a database of Nsight Systems: it has no table CUPTI_ACTIVITY_KIND_KERNEL"},
        {STRINGS GPUS, "the trace has no kernels on a GPU"},
        {STRINGS GPUS "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end);", "the trace has no kernel"},
        {STRINGS
         "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2);",
         "kernel \"unnamed\" has no \"streamId\" in the trace"},
        {STRINGS "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM nowhere;",
         "CUPTI_ACTIVITY_KIND_KERNEL is not an ordinary table"},
        {STRINGS "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT "
                 "start + 1 FROM n) SELECT start, start + 1 AS end FROM n;",
         "CUPTI_ACTIVITY_KIND_KERNEL is not an ordinary table"},
        {"CREATE VIEW StringIds AS SELECT 1 AS id, 'a' AS value;", "StringIds is not an ordinary table"},
        {"CREATE VIRTUAL TABLE StringIds USING rtree(id, low, high);", "StringIds is not an ordinary table"},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_imported imported = {0};
        gs_error error;
        assert_int_not_equal(import_sql(rows[i].sql, &imported, &error), GS_OK);
        if (!strstr(error.message, rows[i].words))
            fail_msg("%s\ngave %s\nnot  %s", rows[i].sql, error.message, rows[i].words);
        assert_int_equal(gs_code_exit(error.code), 2);
        gs_imported_free(&imported);
    }
}

/* 400 waits for 400 equal records. */
TEST(rows_that_a_file_cannot_hold_are_refused) {
#define TIMES_400 " FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 400) SELECT i FROM n);"
    static const char more[] =
        "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION SELECT 1500, 1500, 0, 1, 13, 13, " PID ", 2, 70" TIMES_400
        "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT SELECT 0, 1, 7, 12, " PID ", 70" TIMES_400;
#undef TIMES_400
    gs_text sql = {0};
    gs_imported imported = {0};
    gs_error error;
    gs_text_add(&sql, "%s%s", new_export, more);
    assert_int_equal(import_sql(sql.data, &imported, &error), GS_E_FORMAT);
    assert_non_null(strstr(error.message, "cannot hold all rows of CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"));
    gs_imported_free(&imported);
    gs_text_free(&sql);
}

/* ---- compilers ---- */

static const char ptxas_output[] =
    "ptxas info    : 40 bytes gmem\nptxas info    : Compiling entry function '_Z4axpyIfEvPT_S1_' for 'sm_90'\nptxas "
    "info    : Function properties for _Z4axpyIfEvPT_S1_\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill "
    "loads\nptxas info    : Used 12 registers, used 1 barriers, 512 bytes smem\nptxas info    : Compile time = 13.985 "
    "ms\nptxas info    : Compiling entry function '_Z5spillPfi' for 'sm_90'\nptxas info    : Function properties for "
    "_Z5spillPfi\n    400 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used 21 "
    "registers, used 0 barriers, 400 bytes cumulative stack size\n";

static const char cuobjdump_output[] =
    "\nFatbin elf code:\n================\narch = sm_80\ncode version = [1,7]\n\nResource usage:\n Common:\n  "
    "GLOBAL:0\n Function _Z4axpyIfEvPT_S1_:\n  REG:12 STACK:0 SHARED:512 LOCAL:0 CONSTANT[0]:368 TEXTURE:0 SURFACE:0 "
    "SAMPLER:0\n\nFatbin elf code:\n================\narch = sm_90\n\nResource usage:\n Common:\n  GLOBAL:0\n Function "
    "_Z4axpyIfEvPT_S1_:\r\n  REG:14 STACK:32 SHARED:1536 LOCAL:8 CONSTANT[0]:568 TEXTURE:0 SURFACE:0 SAMPLER:0\r\n";

/* Names that are not UTF-8, and lines without one. */
TEST(names_become_printable) {
    gs_imported imported = import_text("arch = sm_80\n Function a\xff\x1b:\n  REG:8\n Function :\n  REG:8\n", &all);
    assert_int_equal(imported.kernels.count, 1);
    assert_string_equal(imported.kernels.data[0].name, "a??");
    gs_imported_free(&imported);
    imported = import_text("[" KERNEL("b\xc3", "0", "7", "1", "1", "1") "]", &all);
    assert_string_equal(imported.data[0]->launches.data[0].kernel, "b?");
    gs_imported_free(&imported);
    char trace[] = "[" KERNEL("\x01@", "0", "7", "1", "1", "1") "]";
    put_quotes(trace, sizeof trace);
    *strchr(trace, '\x01') = '\0';
    gs_error error;
    assert_int_equal(gs_import_bytes("trace", trace, sizeof trace - 1, &all, &imported, &error), GS_OK);
    assert_string_equal(imported.data[0]->launches.data[0].kernel, "?@");
    gs_imported_free(&imported);
}

TEST(kernels_of_compilers_are_listed) {
    static const gs_kernel_entry wanted[] = {{(char *)"_Z4axpyIfEvPT_S1_", (char *)"sm_90", 12, 512, 0, false},
                                             {(char *)"_Z5spillPfi", (char *)"sm_90", 21, 0, 400, false},
                                             {(char *)"_Z4axpyIfEvPT_S1_", (char *)"sm_80", 12, 512, 0, false},
                                             {(char *)"_Z4axpyIfEvPT_S1_", (char *)"sm_90", 14, 512, 40, false}};
    gs_imported imported = {0};
    gs_error error;
    assert_int_equal(gs_import_bytes("ptxas", ptxas_output, strlen(ptxas_output), &all, &imported, &error), GS_OK);
    assert_int_equal(gs_import_bytes("more", cuobjdump_output, strlen(cuobjdump_output), &all, &imported, &error),
                     GS_OK);
    assert_int_equal(imported.kernels.count, GS_COUNT(wanted));
    for (size_t i = 0; i < GS_COUNT(wanted); i++) {
        const gs_kernel_entry *found = &imported.kernels.data[i];
        assert_string_equal(found->name, wanted[i].name);
        assert_string_equal(found->architecture, wanted[i].architecture);
        assert_int_equal(found->registers, wanted[i].registers);
        assert_int_equal(found->shared_bytes, wanted[i].shared_bytes);
        assert_int_equal(found->local_bytes, wanted[i].local_bytes);
    }
    static const char *const settings[] = {"*spill*:blocks=3,threads=64"};
    gs_import_options options = {.device = GS_NOT_GIVEN, .settings = settings, .setting_count = 1};
    size_t left_out;
    gs_run *run = gs_kernels_run(&imported.kernels, &options, &left_out, &error);
    assert_non_null(run);
    assert_int_equal(left_out, 3);
    assert_int_equal(run->launches.count, 1);
    assert_string_equal(run->launches.data[0].kernel, "_Z5spillPfi");
    assert_int_equal(run->launches.data[0].shape.local_bytes, 400);
    gs_run_free(run);
    assert_null(gs_kernels_run(&imported.kernels, &all, &left_out, &error));
    assert_int_equal(error.code, GS_OK);
    gs_imported_free(&imported);
}

/* PyTorch 2.11 writes waits for events without saying where the events were recorded (corpus/waits.py). */
TEST(waits_that_name_nothing_are_counted) {
    gs_imported imported = {0};
    gs_error error;
    assert_int_equal(gs_import(test_path("corpus/pytorch-sync.json.gz"), &all, &imported, &error), GS_OK);
    assert_int_equal(imported.count, 1);
    assert_int_equal(imported.data[0]->launches.count, 15);
    assert_int_equal(imported.data[0]->copies.count, 6);
    assert_int_equal(imported.data[0]->edges.count, 0);
    assert_non_null(strstr(imported.notes.data,
                           "6 waits between streams are left out: the trace does not say what waits for what"));
    gs_imported_free(&imported);
}

/* The output of cuobjdump for tests/cases/compiled.cu. */
TEST(real_output_of_cuobjdump_is_read) {
    static const gs_kernel_entry wanted[] = {{(char *)"_Z4axpyIfEvPT_S1_", (char *)"sm_80", 12, 512, 0, false},
                                             {(char *)"_Z5spillPfi", (char *)"sm_80", 19, 0, 400, false},
                                             {(char *)"_Z4axpyIfEvPT_S1_", (char *)"sm_90", 12, 512, 0, false},
                                             {(char *)"_Z5spillPfi", (char *)"sm_90", 21, 0, 400, false},
                                             {(char *)"_Z4axpyIfEvPT_S1_", (char *)"", 12, 1536, 0, false},
                                             {(char *)"_Z5spillPfi", (char *)"", 21, 0, 400, false}};
    gs_imported imported = {0};
    gs_error error;
    assert_int_equal(gs_import(test_path("tests/cases/cuobjdump-library.txt"), &all, &imported, &error), GS_OK);
    assert_int_equal(imported.notes.count, 0);
    assert_int_equal(gs_import(test_path("tests/cases/cuobjdump-cubin.txt"), &all, &imported, &error), GS_OK);
    assert_non_null(strstr(imported.notes.data, "the architecture of 1 kernel is not in the file"));
    assert_int_equal(imported.kernels.count, GS_COUNT(wanted));
    for (size_t i = 0; i < GS_COUNT(wanted); i++) {
        const gs_kernel_entry *found = &imported.kernels.data[i];
        assert_string_equal(found->name, wanted[i].name);
        assert_string_equal(found->architecture, wanted[i].architecture);
        assert_int_equal(found->registers, wanted[i].registers);
        assert_int_equal(found->shared_bytes, wanted[i].shared_bytes);
        assert_int_equal(found->local_bytes, wanted[i].local_bytes);
    }
    gs_imported_free(&imported);
}

/* ---- data that the user supplies ---- */

TEST(names_of_cublas_have_clusters) {
    gs_import_options options = {.device = GS_NOT_GIVEN};
    gs_imported imported = import_text("[" KERNEL("nvjet_sm90_hsh_64x32_64x16_2x1_h_bz", "0", "7", "1", "1", "1")
                                           AND KERNEL("nvjet_sm90_hsh_64x32_64x16_4x1_h_bz", "0", "7", "1", "3", "1")
                                               AND CALL("l", "1", "0") "]",
                                       &options);
    const gs_launch *launches = imported.data[0]->launches.data;
    assert_int_equal(launches[0].blocks, 6);
    assert_int_equal(launches[0].cluster, 2);
    assert_int_equal(launches[1].cluster, 1); /* 4 does not divide the blocks */
    gs_imported_free(&imported);
}

TEST(settings_supply_what_a_trace_lacks) {
    static const char *const settings[] = {"at::gemm*:cluster=2,carveout_percent=100", "*:local_bytes=8",
                                           "at::gem<x>:cluster=5"};
    gs_import_options options = {.device = GS_NOT_GIVEN, .settings = settings, .setting_count = 3};
    gs_error error;
    gs_imported imported = import_text("[" KERNEL("at::gemm<x>", "0", "7", "1", "1", "1")
                                           AND KERNEL("other", "0", "7", "1", "3", "1") AND CALL("l", "1", "0") "]",
                                       &options);
    const gs_launch *launches = imported.data[0]->launches.data;
    assert_int_equal(launches[0].cluster, 2);
    assert_int_equal(launches[0].shape.carveout_percent, 100);
    assert_int_equal(launches[0].shape.local_bytes, 8);
    assert_int_equal(launches[1].cluster, 1);
    assert_int_equal(launches[1].shape.local_bytes, 8);
    assert_string_equal(imported.data[0]->origin.lacks, "cluster carveout_percent priority");
    assert_int_equal(gs_code_exit(gs_import_finish(&options, &imported, &error)), 2);
    assert_string_equal(
        error.message,
        "--set 'at::gem<x>:cluster=5': no kernel matches \"at::gem<x>\" (did you mean \"at::gemm<x>\"?)");
    options.setting_count = 2;
    assert_int_equal(gs_import_finish(&options, &imported, &error), GS_OK);
    gs_imported_free(&imported);
    static const struct {
        const char *setting, *words;
    } mistakes[] = {
        {"cluster=2", "expected PATTERN:KEY=VALUE"},
        {"x:", "expected PATTERN:KEY=VALUE"},
        {":cluster=2", "expected PATTERN:KEY=VALUE"},
        {"x:cluster", "expected PATTERN:KEY=VALUE"},
        {"x:cluster=2x", "expected PATTERN:KEY=VALUE"},
        {"x:cluster=", "expected PATTERN:KEY=VALUE"},
        {"x:clusters=2", "\"clusters\" is not a numeric key of a launch"},
        {"x:grid=2", "\"grid\" is not a numeric key of a launch"},
        {"x:cluster=0", "\"cluster\" must be from 1 to 4096, not 0"},
        {"k:cluster=4", "clusters of 4 blocks do not divide the 6 blocks of kernel \"k\""},
    };
    for (size_t i = 0; i < GS_COUNT(mistakes); i++) {
        gs_import_options wrong_options = {
            .device = GS_NOT_GIVEN, .settings = &mistakes[i].setting, .setting_count = 1};
        error = import_error("[" KERNEL("k", "0", "7", "1", "1", "1") "]", &wrong_options);
        if (!strstr(error.message, mistakes[i].words))
            fail_msg("%s gave %s, not %s", mistakes[i].setting, error.message, mistakes[i].words);
        assert_int_equal(gs_code_exit(error.code), 2);
    }
}

/* Names in recordings may be mangled, those of traces are not. */
TEST(a_recording_supplies_what_a_trace_lacks) {
    static char recording[] =
        "{'schema':'gridsmith.run/1','device':1,'events':[]}\n{'schema':'gridsmith.run/"
        "1','device':0,'events':[{'op':'launch','id':1,'kernel':'_ZN2at6native12_GLOBAL__N_14gemmIfEEvPT_','blocks':6,'"
        "threads':64,'registers':32,'shared_bytes':16,'cluster':2,'carveout_percent':50,'local_bytes':4},{'op':'launch'"
        ",'id':2,'kernel':'plain','blocks':6,'threads':64,'registers':32,'shared_bytes':16,'cluster':3},{'op':'launch',"
        "'id':3,'kernel':'other','blocks':5,'threads':64,'registers':32,'shared_bytes':16,'cluster':5}]}";
    char path[] = "/tmp/gridsmith-import-XXXXXX";
    int descriptor = mkstemp(path);
    put_quotes(recording, strlen(recording));
    assert_int_equal(write(descriptor, recording, strlen(recording)), strlen(recording));
    close(descriptor);
    gs_import_options options = {.device = GS_NOT_GIVEN, .with = path};
    gs_imported imported = import_text("[" KERNEL("void at::native::(anonymous namespace)::gemm<float>(float*)", "0",
                                                  "7", "1", "1", "1") AND KERNEL("plain", "0", "7", "1", "3", "1")
                                           AND KERNEL("other", "0", "7", "1", "5", "1") AND CALL("l", "1", "0") "]",
                                       &options);
    const gs_launch *launches = imported.data[0]->launches.data;
    assert_int_equal(launches[0].cluster, 2);
    assert_int_equal(launches[0].shape.carveout_percent, 50);
    assert_int_equal(launches[0].shape.local_bytes, 4);
    assert_int_equal(launches[1].cluster, 3);
    assert_int_equal(launches[2].cluster, 1);
    assert_non_null(strstr(imported.notes.data, "2 of 3 launches are supplied from"));
    assert_string_equal(imported.data[0]->origin.lacks, "cluster carveout_percent local_bytes priority");
    gs_imported_free(&imported);
    imported = import_text("[" KERNEL("plain", "0", "7", "1", "3", "1") AND CALL("l", "1", "0") "]", &options);
    gs_text lines = lines_of(&imported);
    assert_null(strstr(lines.data, "lacks"));
    gs_text_free(&lines);
    gs_imported_free(&imported);
    unlink(path);
    gs_error error = import_error("[" KERNEL("k", "0", "7", "1", "1", "1") "]", &options);
    assert_int_equal(gs_code_exit(error.code), 2);
}

/* ---- fields that are missing ---- */

/* A field of a trace: what its absence leads to. */
static const struct {
    const char *kineto, *kineto_value, *nsys; /* its names, and a value */
    bool is_needed;
    bool is_argument, is_of_copies;
} traced_fields[] = {
    {"ts", "10", "start", true, false, false},
    {"dur", "5", "end", true, false, false},
    {"stream", "7", "streamId", true, true, false},
    {"grid", "[2,3,1]", "gridY", true, true, false},
    {"block", "[64,1,1]", "blockX", true, true, false},
    {"registers per thread", "32", "registersPerThread", false, true, false},
    {"shared memory", "16", "dynamicSharedMemory", false, true, false},
    {"correlation", "5", "correlationId", false, true, false},
    {"device", "0", "deviceId", false, true, false},
    {"name", "\"k\"", "demangledName", false, false, false},
    {"bytes", "64", "bytes", false, true, true},
    {"context", "1", "contextId", false, true, false},
};

/* An event of the PyTorch profiler; field `dropped` is left out, or null. The keys are in a random order. */
static void put_kineto_event(gs_text *text, gs_random *random, bool is_copy, size_t dropped, bool is_null) {
    size_t order[GS_COUNT(traced_fields)];
    for (size_t i = 0; i < GS_COUNT(order); i++) {
        size_t at = (size_t)gs_random_from(random, 0, (int64_t)i);
        order[i] = order[at];
        order[at] = i;
    }
    for (int arguments = 0; arguments < 2; arguments++) {
        gs_text_add(text, arguments ? ",\"args\":{\"graph id\":0" : "{\"cat\":\"%s\"",
                    is_copy ? "gpu_memcpy" : "kernel");
        for (size_t i = 0; i < GS_COUNT(order); i++) {
            size_t field = order[i];
            bool is_left_out = field == dropped && !is_null;
            if (traced_fields[field].is_argument == (bool)arguments && !is_left_out)
                gs_text_add(text, ",\"%s\":%s", traced_fields[field].kineto,
                            field == dropped ? "null" : traced_fields[field].kineto_value);
        }
    }
    gs_text_add(text, "}}");
}

/* The same as rows of databases of Nsight Systems: without the column, or with NULL in it. */
static void put_nsys_tables(gs_text *text, bool is_copy, size_t dropped, bool is_null) {
    static const char columns[] =
        "start,end,deviceId,contextId,streamId,correlationId,demangledName,registersPerThread,gridX,gridY,gridZ,blockX,"
        "blockY,blockZ,staticSharedMemory,dynamicSharedMemory";
    static const char values[] = "10,15,0,1,7,5,'k',32,2,3,1,64,1,1,0,16";
    gs_text_add(
        text,
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (%s); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (%s);CREATE TABLE "
        "CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, contextId, streamId, correlationId, bytes,copyKind); INSERT "
        "INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (20, 25, 0, 1, 7, 6, 64, 1);CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME "
        "(start, correlationId);INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 5), (2, 6);",
        columns, values);
    gs_text_add(text,
                is_null ? "UPDATE CUPTI_ACTIVITY_KIND_%s SET \"%s\" = NULL;"
                        : "ALTER TABLE CUPTI_ACTIVITY_KIND_%s DROP COLUMN \"%s\";",
                is_copy ? "MEMCPY" : "KERNEL", traced_fields[dropped].nsys);
}

/* The message or the notes name the field; a run without what it needs is refused. */
static void assert_named(gs_code code, const gs_imported *imported, const gs_error *error, bool is_needed,
                         const char *field, const char *trace) {
    const char *words = code == GS_OK ? imported->notes.data : error->message;
    if ((code == GS_E_FORMAT) != is_needed || (code == GS_OK) == is_needed || !words || !strstr(words, field))
        fail_msg("without %s: code %d: %s\n%s", field, (int)code, words ? words : "nothing", trace);
}

TEST(a_field_that_is_missing_is_named) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 0);
    for (size_t i = 0; i < GS_COUNT(traced_fields) * 8; i++) {
        size_t dropped = i / 8;
        bool is_null = i & 1, is_copy = traced_fields[dropped].is_of_copies || (i & 2 && dropped < 3);
        gs_imported imported = {0};
        gs_error error = {.code = GS_OK};
        gs_text text = {0};
        if (i & 4) {
            put_nsys_tables(&text, is_copy, dropped, is_null);
            gs_code code = import_sql(text.data, &imported, &error);
            assert_named(code, &imported, &error, traced_fields[dropped].is_needed, traced_fields[dropped].nsys,
                         text.data);
        } else {
            gs_text_add(&text, "%s", "[" CALL("l", "5", "1") AND KERNEL("other", "0", "7", "5", "1", "1") ",");
            put_kineto_event(&text, &random, is_copy, dropped, is_null);
            gs_text_add(&text, "]");
            gs_code code = import_quoted(text.data, &all, &imported, &error);
            assert_named(code, &imported, &error, traced_fields[dropped].is_needed, traced_fields[dropped].kineto,
                         text.data);
        }
        gs_imported_free(&imported);
        gs_text_free(&text);
    }
}

/* Notes on registers and shared memory are not given once they are supplied; calls without a time are refused. */
TEST(what_is_supplied_is_not_missing) {
    static const char text[] =
        "[{'cat':'kernel','name':'k','ts':1,'dur':1,'args':{'stream':7,'device':0,'grid':[2,1,1],'block':[32,1,1],'"
        "correlation':1}},{'cat':'cuda_runtime','name':'l','ts':0,'args':{}}]";
    gs_imported imported = import_text(text, &all);
    assert_non_null(strstr(imported.notes.data, "1 launch without \"registers per thread\""));
    assert_non_null(strstr(imported.notes.data, "1 launch without \"shared memory\""));
    assert_non_null(strstr(imported.notes.data, "the trace has no host call of any launch"));
    assert_non_null(strstr(imported.notes.data, "1 call of the host without \"correlation\""));
    assert_string_equal(imported.data[0]->origin.lacks,
                        "cluster carveout_percent local_bytes priority registers shared_bytes at_us");
    gs_imported_free(&imported);
    static const char *const settings[] = {"k:registers=40,shared_bytes=512"};
    gs_import_options options = {.device = GS_NOT_GIVEN, .settings = settings, .setting_count = 1};
    imported = import_text(text, &options);
    assert_null(strstr(imported.notes.data, "registers per thread"));
    assert_null(strstr(imported.notes.data, "shared memory"));
    assert_string_equal(imported.data[0]->origin.lacks, "cluster carveout_percent local_bytes priority at_us");
    gs_imported_free(&imported);
    gs_error error = import_error("[{'cat':'cuda_driver','name':'cuLaunch','args':{'correlation':4}}]", &all);
    assert_non_null(strstr(error.message, "call \"cuLaunch\" has no \"ts\" in the trace"));
}

/* A GPU without a description: the compute capability counts first, then limits, then SMs. */
TEST(the_nearest_description_is_named) {
    static const struct {
        const char *properties, *nearest;
    } rows[] = {
        {"'name':'NVIDIA GeForce RTX 3091','numSms':82,'computeMajor':8,'computeMinor':6", "rtx3090"},
        {"'name':'NVIDIA A41','numSms':71,'computeMajor':8,'computeMinor':6", "a10"},
        {"'name':'NVIDIA RTX 6000 Ada','numSms':141,'computeMajor':8,'computeMinor':9", "l40s"},
        {"'name':'NVIDIA X','numSms':115,'computeMajor':9,'computeMinor':0", "h100-pcie"},
        {"'name':'NVIDIA H300','numSms':132,'computeMajor':9,'computeMinor':0", "h200"},
        {"'name':'NVIDIA B310','numSms':156,'computeMajor':10,'computeMinor':3", "gb300"},
        {"'name':'NVIDIA Y','numSms':16", "orin"},
        {"'name':'NVIDIA "
         "Z','numSms':90,'computeMajor':8,'computeMinor':1,'maxThreadsPerMultiprocessor':2048,'"
         "sharedMemPerMultiprocessor':167936",
         "a100"},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_text text = {0};
        char wanted[64];
        gs_text_add(&text, "{'deviceProperties':[{'id':0,%s}],'traceEvents':[%s]}", rows[i].properties,
                    KERNEL("k", "0", "7", "1", "1", "1"));
        gs_imported imported = import_text(text.data, &all);
        snprintf(wanted, sizeof wanted, "; the nearest is %s: predict with --gpu", rows[i].nearest);
        if (!strstr(imported.notes.data, wanted))
            fail_msg("%s: not %s: %s", rows[i].properties, rows[i].nearest, imported.notes.data);
        assert_null(imported.data[0]->gpu);
        gs_imported_free(&imported);
        gs_text_free(&text);
    }
}

/* A slice of a GPU has its name, but fewer SMs. A trace may also not name the GPU. */
TEST(other_sms_and_nameless_gpus_are_said) {
    static const struct {
        const char *properties, *words;
    } rows[] = {
        {"{'id':0,'name':'NVIDIA H200','numSms':16}", "trace: GPU 0 (NVIDIA H200) has 16 SMs in the trace, and 132 in "
                                                      "the description h200: predict with --sms 16\n"},
        {"{'id':0,'name':'NVIDIA H200','numSms':132}", NULL},
        {"{'id':0,'name':'NVIDIA H200'}", NULL},
        {"{'id':1,'name':'NVIDIA H200','numSms':132}",
         "trace: the trace does not say what GPU 0 is: predict with --gpu\n"},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_text text = {0};
        gs_text_add(&text, "{'deviceProperties':[%s],'traceEvents':[%s]}", rows[i].properties,
                    KERNEL("k", "0", "7", "1", "1", "1"));
        gs_imported imported = import_text(text.data, &all);
        if (rows[i].words ? !strstr(imported.notes.data, rows[i].words) : !!strstr(imported.notes.data, "predict with"))
            fail_msg("%s: %s", rows[i].properties, imported.notes.data);
        gs_imported_free(&imported);
        gs_text_free(&text);
    }
}

/* A database with negative shared memory, or an end before the start, is refused. */
TEST(negative_numbers_of_databases_are_refused) {
    static const struct {
        const char *change, *words;
    } rows[] = {
        {"dynamicSharedMemory = -1", "kernel \"scale\" has a negative amount of shared memory"},
        {"staticSharedMemory = -8", "kernel \"scale\" has a negative amount of shared memory"},
        {"end = 8999", "kernel \"scale\" ends before it starts"},
        {"localMemoryPerThread = -1", "kernel \"scale\" has a negative amount of local memory"},
        {"registersPerThread = 70000", "kernel \"scale\" has 70000 registers a thread, which is impossible"},
        {"registersPerThread = -3", "kernel \"scale\" has -3 registers a thread, which is impossible"},
        {"dynamicSharedMemory = 1 << 41",
         "kernel \"scale\" has more than 2^40 bytes of shared memory, which is impossible"},
        {"localMemoryPerThread = 1 << 41",
         "kernel \"scale\" has more than 2^40 bytes of local memory, which is impossible"},
        {"deviceId = -2", "GPU -2 is not possible: GPUs are counted from 0"},
        {"end = 'abc'", "kernel \"scale\" has no \"end\" in the trace: when it ended"},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_imported imported = {0};
        gs_error error = {.code = GS_OK};
        gs_text sql = {0};
        gs_text_add(&sql, "%s UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET %s WHERE start = 9000;", new_export,
                    rows[i].change);
        assert_int_equal(import_sql(sql.data, &imported, &error), GS_E_FORMAT);
        assert_string_equal(error.message, rows[i].words);
        gs_imported_free(&imported);
        gs_text_free(&sql);
    }
}

/* A number that is not whole, or too large, would become another. */
TEST(numbers_that_would_change_are_refused) {
    static const struct {
        const char *change, *words;
    } rows[] = {
        {"gridX = 1 << 40", "\"gridX\" of 1099511627776: out of range"},
        {"gridX = 4294967298", "\"gridX\" of 4294967298: out of range"},
        {"gridY = 1.5", "\"gridY\" of 1.5: not a whole number"},
        {"blockX = 4294967328", "\"blockX\" of 4294967328: out of range"},
        {"registersPerThread = 4294967328", "\"registersPerThread\" of 4294967328: out of range"},
        {"registersPerThread = 32.25", "\"registersPerThread\" of 32.25: not a whole number"},
        {"dynamicSharedMemory = 1e300", "\"dynamicSharedMemory\" of 1.0e+300: out of range"},
        {"localMemoryPerThread = 0.5", "\"localMemoryPerThread\" of 0.5: not a whole number"},
        {"streamId = 7.5", "\"streamId\" of 7.5: not a whole number"},
        {"deviceId = 4294967296", "\"deviceId\" of 4294967296: out of range"},
        {"correlationId = 4294967307", "\"correlationId\" of 4294967307: out of range"},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_imported imported = {0};
        gs_error error = {.code = GS_OK};
        gs_text sql = {0}, wanted = {0};
        gs_text_add(&sql, "%s UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET %s WHERE start = 9000;", new_export,
                    rows[i].change);
        gs_text_add(&wanted, ": CUPTI_ACTIVITY_KIND_KERNEL has a %s", rows[i].words);
        gs_code code = import_sql(sql.data, &imported, &error);
        if (code != GS_E_FORMAT || !strstr(error.message, wanted.data))
            fail_msg("%s: code %d: %s", rows[i].change, (int)code, error.message);
        gs_imported_free(&imported);
        gs_text_free(&sql);
        gs_text_free(&wanted);
    }
}

TEST(streams_with_large_numbers_stay_distinct) {
    gs_imported imported = {0};
    gs_error error;
    gs_text sql = {0};
    gs_text_add(&sql,
                "%s UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = 4294967296 + streamId;UPDATE "
                "CUPTI_ACTIVITY_KIND_KERNEL SET streamId = 9223372036854775807 WHERE start = 9000;",
                new_export);
    assert_int_equal(import_sql(sql.data, &imported, &error), GS_OK);
    assert_string_equal(imported.data[0]->launches.data[0].stream, "4294967303");
    assert_string_equal(imported.data[0]->launches.data[1].stream, "9223372036854775807");
    gs_text lines = lines_of(&imported);
    gs_text_free(&lines);
    gs_imported_free(&imported);
    gs_text_free(&sql);
    imported = import_text("[" KERNEL("a", "0", "4294967303", "1", "10", "9")
                               AND KERNEL("b", "0", "4294967304", "2", "12", "9") "]",
                           &all);
    assert_string_equal(imported.data[0]->launches.data[0].stream, "4294967303");
    assert_string_equal(imported.data[0]->launches.data[1].stream, "4294967304");
    gs_imported_free(&imported);
}

/* Tools write -1 where there is no GPU. */
TEST(a_launch_of_no_gpu_is_said) {
    gs_imported imported = import_text("[" KERNEL("a", "-1", "7", "1", "10", "9") "]", &all);
    assert_non_null(strstr(imported.notes.data, "1 launch or copy without \"device\": GPU 0 is assumed"));
    assert_int_equal(imported.data[0]->origin.device, 0);
    gs_imported_free(&imported);
}

/* Kernels without a context or a process stay in the streams of the copies. */
TEST(work_without_a_context_stays_in_its_stream) {
    static const struct {
        const char *column, *words;
    } rows[] = {
        {"contextId",
         "2 launches and copies without \"contextId\": streams of a GPU with the same number are assumed to be one\n"},
        {"globalPid", "2 launches and copies without \"globalPid\": all work is assumed to be of one process\n"},
    };
    for (size_t i = 0; i < 2 * GS_COUNT(rows); i++) {
        gs_imported imported = {0};
        gs_error error = {.code = GS_OK};
        gs_text sql = {0};
        gs_text_add(&sql,
                    i & 1 ? "%s UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET %s = NULL;"
                          : "%s ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN %s;",
                    new_export, rows[i / 2].column);
        if (import_sql(sql.data, &imported, &error) != GS_OK)
            fail_msg("%s", error.message);
        const gs_run *run = imported.data[0];
        assert_string_equal(run->copies.data[0].stream, "7");
        assert_string_equal(run->launches.data[0].stream, "7");
        assert_string_equal(run->launches.data[1].stream, "13");
        assert_string_equal(run->copies.data[1].stream, "13");
        if (i / 2 == 0)
            assert_int_equal(run->edges.count, 1);
        if (!strstr(imported.notes.data, rows[i / 2].words))
            fail_msg("%s", imported.notes.data);
        gs_text lines = lines_of(&imported);
        gs_text_free(&lines);
        gs_imported_free(&imported);
        gs_text_free(&sql);
    }
}

/* The name of a copy says between which memories it copies; a memset needs none. */
TEST(a_copy_without_its_kind_is_said) {
    static const char rest[] = "'ts':3,'dur':1,'args':{'device':0,'context':1,'stream':7,'bytes':64}}]";
    static const char words[] = "1 copy without \"name\": the direction is not known\n";
    for (int i = 0; i < 2; i++) {
        gs_text text = {0};
        gs_text_add(&text, "[%s,{'cat':'%s',%s", KERNEL("a", "0", "7", "1", "1", "1"), i ? "gpu_memset" : "gpu_memcpy",
                    rest);
        gs_imported imported = import_text(text.data, &all);
        if ((strstr(imported.notes.data, words) == NULL) != i)
            fail_msg("%s", imported.notes.data);
        gs_imported_free(&imported);
        gs_text_free(&text);
    }
    gs_imported imported = {0};
    gs_error error = {.code = GS_OK};
    gs_text sql = {0};
    gs_text_add(&sql, "%s UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = NULL;", new_export);
    assert_int_equal(import_sql(sql.data, &imported, &error), GS_OK);
    assert_non_null(strstr(imported.notes.data, "1 copy without \"copyKind\": the direction is not known"));
    gs_imported_free(&imported);
    gs_text_free(&sql);
}

/* A change to the new export, and what is said of it. */
TEST(what_databases_lack_is_said) {
    static const struct {
        const char *change, *kernel, *words;
    } rows[] = {
        {"", "void add<float>(float*)", NULL},
        {"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 9;", "scale", NULL},
        {"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 9, shortName = 9;", "unnamed",
         "2 launches without \"demangledName\": they are called \"unnamed\""},
        {"DELETE FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT;", "void add<float>(float*)",
         "1 wait between streams is left out: their calls, or those of the events, are not in the trace"},
        {"DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId = 12;", "void add<float>(float*)",
         "1 wait between streams is left out: their calls, or those of the events, are not in the trace"},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_imported imported = {0};
        gs_error error = {.code = GS_OK};
        gs_text sql = {0};
        gs_text_add(&sql, "%s%s", new_export, rows[i].change);
        assert_int_equal(import_sql(sql.data, &imported, &error), GS_OK);
        assert_string_equal(imported.data[0]->launches.data[0].kernel, rows[i].kernel);
        if (rows[i].words ? !strstr(imported.notes.data, rows[i].words)
                          : strstr(imported.notes.data, "unnamed") || strstr(imported.notes.data, "left out"))
            fail_msg("%s: %s", rows[i].change, imported.notes.data);
        gs_imported_free(&imported);
        gs_text_free(&sql);
    }
}

/* SQLite itself would read what is left of the last page. */
TEST(a_database_that_is_cut_is_refused) {
    char path[] = "/tmp/gridsmith-import-XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    sqlite3 *sqlite = NULL;
    assert_int_equal(sqlite3_open(path, &sqlite), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sqlite, new_export, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(sqlite);
    off_t size = lseek(descriptor, 0, SEEK_END);
    for (off_t cut = 1; cut <= 4000; cut += 1333) {
        gs_imported imported = {0};
        gs_error error = {.code = GS_OK};
        assert_int_equal(ftruncate(descriptor, size - cut), 0);
        assert_int_equal(gs_import(path, &all, &imported, &error), GS_E_FORMAT);
        assert_non_null(strstr(error.message, "the file is cut short"));
        gs_imported_free(&imported);
    }
    close(descriptor);
    unlink(path);
}

/* cuobjdump says UNKNOWN of kernels that call themselves. */
TEST(an_unknown_stack_is_said) {
    gs_imported imported = import_text("arch = sm_80\n Function a:\n  REG:8 STACK:UNKNOWN SHARED:0 LOCAL:0\n", &all);
    assert_non_null(strstr(imported.notes.data, "1 kernel with an unknown stack: no local memory is assumed"));
    gs_imported_free(&imported);
}

/* A setting changes the list of kernels, and says what the compiler does not know. */
TEST(a_stack_that_is_supplied_is_known) {
    static const char *const settings[] = {"a:local_bytes=64,registers=9"};
    const gs_import_options options = {.device = GS_NOT_GIVEN, .settings = settings, .setting_count = 1};
    gs_imported imported = import_text("arch = sm_80\n Function a:\n  REG:8 STACK:UNKNOWN SHARED:5 LOCAL:0\n Function "
                                       "b:\n  REG:8 STACK:UNKNOWN SHARED:5 LOCAL:0\n",
                                       &options);
    assert_int_equal(imported.kernels.data[0].local_bytes, 64);
    assert_int_equal(imported.kernels.data[0].registers, 9);
    assert_int_equal(imported.kernels.data[0].shared_bytes, 5);
    assert_int_equal(imported.kernels.data[1].local_bytes, 0);
    assert_non_null(strstr(imported.notes.data, "1 kernel with an unknown stack: no local memory is assumed for it"));
    gs_imported_free(&imported);
}

#define CODE(arch, name, registers)                                                                                    \
    "arch = " arch "\n Function " name ":\n  REG:" registers " STACK:0 SHARED:0 LOCAL:0\n"

/* The registers of the kernels that a GPU takes, as text. */
static void put_kept(gs_text *kept, const char *text, int architecture) {
    gs_imported imported = import_text(text, &all);
    size_t removed, before = imported.kernels.count;
    assert_int_equal(gs_kernels_keep(&imported.kernels, architecture, &removed, NULL), GS_OK);
    assert_int_equal(removed, before - imported.kernels.count);
    gs_text_clear(kept);
    for (size_t i = 0; i < imported.kernels.count; i++)
        gs_text_add(kept, "%s%d", i ? " " : "", imported.kernels.data[i].registers);
    gs_imported_free(&imported);
}

TEST(a_gpu_takes_the_newest_code_that_it_can_run) {
    static const char text[] = CODE("sm_80", "a", "1") CODE("sm_90", "a", "2") CODE("sm_86", "a", "3")
        CODE("sm_90a", "b", "4") CODE("sm_90", "b", "5") CODE("sm_80", "c", "6") CODE("compute_80", "d", "7");
    static const struct {
        int architecture;
        const char *kept;
    } cases[] = {{90, "2 4 7"}, {80, "1 6 7"}, {86, "3 6 7"}, {89, "3 6 7"}, {75, "7"}, {100, "7"}};
    gs_text kept = {0};
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        put_kept(&kept, text, cases[i].architecture);
        assert_string_equal(kept.data, cases[i].kept);
    }
    gs_text_free(&kept);
    gs_imported imported = import_text(text, &all);
    static const char *const settings[] = {"a:blocks=1,threads=32"};
    const gs_import_options options = {.device = GS_NOT_GIVEN, .settings = settings, .setting_count = 1};
    gs_error error;
    size_t left_out;
    assert_null(gs_kernels_run(&imported.kernels, &options, &left_out, &error));
    assert_string_equal(error.message, "kernel \"a\" has code for sm_80 and sm_90: choose the GPU with --gpu NAME");
    gs_imported_free(&imported);
}

/* The same kernel with a priority. */
#define URGENT                                                                                                         \
    "{'ph':'X','cat':'kernel','name':'b','ts':5,'dur':1,'args':{'device':0,'context':1,"                               \
    "'stream':7,"                                                                                                      \
    "'correlation':2,'registers per thread':32,'shared "                                                               \
    "memory':0,'grid':[2,3,1],'block':[64,1,1],'priority':-1}}"

TEST(priorities_of_some_launches_are_lacking) {
    static const char some[] = "[" KERNEL("a", "0", "7", "1", "1", "1") AND URGENT "," CALL("l", "2", "0") "]";
    static const char every[] = "[" URGENT "," CALL("l", "2", "0") "]";
    static const char *const settings[] = {"*:priority=2"};
    const gs_import_options supplied = {.device = GS_NOT_GIVEN, .settings = settings, .setting_count = 1};
    gs_imported imported = import_text(some, &all);
    assert_string_equal(imported.data[0]->origin.lacks, "cluster carveout_percent local_bytes priority");
    assert_non_null(strstr(imported.notes.data, "1 launch without \"priority\": priority 0 is assumed"));
    gs_imported_free(&imported);
    imported = import_text(some, &supplied);
    assert_string_equal(imported.data[0]->origin.lacks, "cluster carveout_percent local_bytes");
    assert_null(strstr(imported.notes.data, "without \"priority\""));
    gs_imported_free(&imported);
    imported = import_text(every, &all);
    assert_string_equal(imported.data[0]->origin.lacks, "cluster carveout_percent local_bytes");
    assert_null(strstr(imported.notes.data, "priority"));
    gs_imported_free(&imported);
}

TEST(streams_of_different_gpus_need_no_waits) {
    static const char one_each[] =
        "[" KERNEL("a", "0", "7", "1", "1", "1") AND KERNEL("b", "1", "8", "2", "1", "1") "]";
    static const char two[] = "[" KERNEL("a", "0", "7", "1", "1", "1") AND KERNEL("b", "1", "7", "2", "1", "1")
        AND KERNEL("b", "1", "8", "3", "1", "1") "]";
    const gs_import_options first = {.device = 0}, second = {.device = 1};
    const struct {
        const char *text;
        const gs_import_options *options;
        bool is_said;
    } cases[] = {{one_each, &all, false}, {two, &all, true}, {two, &first, false}, {two, &second, true}};
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_imported imported = import_text(cases[i].text, cases[i].options);
        assert_int_equal(strstr(imported.notes.data, "no waits between streams") != NULL, cases[i].is_said);
        gs_imported_free(&imported);
    }
}

/* What is lacking is said, except what --set or --with supplies for all launches. */
TEST(what_a_trace_lacks_is_said_until_it_is_supplied) {
    static const struct {
        const char *setting, *words;
    } rows[] = {
        {"a:blocks=7", "lacks cluster, carveout_percent, local_bytes, priority; 'gridsmith import' supplies"},
        {"a:cluster=2", "lacks cluster, carveout_percent, local_bytes, priority; 'gridsmith import' supplies"},
        {"*:cluster=2,priority=0", "lacks carveout_percent, local_bytes; 'gridsmith import' supplies"},
        {"*:cluster=2,priority=0,carveout_percent=5,local_bytes=0", NULL},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_import_options options = {.device = GS_NOT_GIVEN, .settings = &rows[i].setting, .setting_count = 1};
        gs_imported imported = import_text("[" KERNEL("a", "0", "7", "1", "1", "1")
                                               AND KERNEL("b", "0", "7", "1", "3", "1") AND CALL("l", "1", "0") "]",
                                           &options);
        const char *notes = imported.notes.count ? imported.notes.data : "";
        if (rows[i].words ? !strstr(notes, rows[i].words) : !!strstr(notes, "lacks"))
            fail_msg("%s: %s", rows[i].setting, notes);
        gs_imported_free(&imported);
    }
}

TEST_MAIN(NULL, NULL)
