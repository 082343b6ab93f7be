/*
 * test_gate.c: `gridsmith run`, with real programs and a real daemon on the fake driver (tests/fake):
 * classes, captures, threads, fork and exec, limits, and everybody killed or stopped at the worst moment.
 *
 * Nothing depends on how fast the machine is: a program that must wait is never seen to go on, however long it takes,
 * and one that must go on is waited for.
 */
#define _GNU_SOURCE
#include "test.h"

#include "kernels/cpu/cpu.h"
#include "sharing/client/client.h"
#include "sharing/gate/gate_chain.h"
#include "sharing/gate/gate_cut.h"
#include "sharing/gate/gate_gap.h"
#include "sharing/gate/gate_hold.h"
#include "sharing/gate/gate_keeper.h"
#include "sharing/gate/gate_pace.h"
#include "sharing/gate/gate_request.h"
#include "sharing/gate/gate_share.h"
#include "sharing/serve/server.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <jansson.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_READY = 600, OUT_OF_MEMORY = 2, NO_DEVICE = 100, NOT_FOUND = 500, GIVE_UP_MS = 120000, NS_PER_MS = 1000000 };

/* What the driver got from a program. */
enum { WAITS, LAUNCHES, QUERIES, WRITES, GRAPH_WAITS, STOPS, KEEPERS, COUNTS };

static char *folder, socket_path[64], errors_path[64];
static pid_t the_daemon; /* 0: not running */

/* ---- processes ---- */

struct program {
    pid_t process;
    FILE *to, *from;
};

static void wait_ms(int ms) {
    usleep((useconds_t)ms * 1000);
}

static uint64_t now_ms(void) {
    return (uint64_t)gs_now_ns() / NS_PER_MS;
}

static bool is_serving(void) {
    char *json = NULL;
    gs_code code = gs_status_request(socket_path, &json, NULL);
    free(json);
    return code == GS_OK;
}

/* The MPS of a machine with a GPU is left alone. */
static void start_daemon(const char *option) {
    bool has_mps = option && strcmp(option, "--mps") == 0;
    const char *const words[] = {GRIDSMITH_PROGRAM,
                                 "serve",
                                 "--device",
                                 "host",
                                 "--sms",
                                 "2",
                                 "--socket",
                                 socket_path,
                                 "--profiles",
                                 "",
                                 "--cache",
                                 folder,
                                 has_mps ? option : "--no-mps",
                                 has_mps ? NULL : option,
                                 NULL};
    const gs_process_options options = {.words = words, .output = "/dev/null", .end_signal = SIGKILL};
    assert_int_equal(gs_process_try(&options, &the_daemon), 0);
    TEST_WAIT(is_serving());
}

/* The last programs that tests have started: one that fails leaves some. */
static pid_t started[64];
static size_t started_count;

static void end_process(pid_t process, int signal) {
    kill(process, signal);
    TEST_WAIT(waitpid(process, NULL, WNOHANG) == process);
}

/* Starts a program that is told what to do. */
static struct program start_command(const char *const *argv) {
    int input[2], output[2];
    assert_int_equal(pipe2(input, O_CLOEXEC), 0);
    assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    int errors = open(errors_path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    const gs_process_options options = {
        .words = argv, .input_fd = input[0], .output_fd = output[1], .errors_fd = errors, .end_signal = SIGKILL};
    struct program made;
    assert_int_equal(gs_process_try(&options, &made.process), 0);
    started[started_count++ % GS_COUNT(started)] = made.process;
    close(errors);
    close(input[0]);
    close(output[1]);
    made.to = fdopen(input[1], "w");
    made.from = fdopen(output[0], "r");
    setvbuf(made.from, NULL, _IONBF, 0); /* what was not read yet can be polled for */
    return made;
}

/* Runs a program behind the gate. `words` are the options of `gridsmith run`; `argument` is the program's, or NULL. */
static struct program start_program(const char *const *words, const char *argument) {
    const char *argv[16] = {GRIDSMITH_PROGRAM, "run", "--socket", socket_path};
    size_t count = 4;
    while (*words)
        argv[count++] = *words++;
    argv[count++] = "--";
    argv[count++] = GATED_PROGRAM;
    argv[count] = argument;
    return start_command(argv);
}

#define PROGRAM(...) start_program((const char *const[]){__VA_ARGS__, NULL}, NULL)

static void tell(const struct program *program, const char *command) {
    fprintf(program->to, "%s\n", command);
    fflush(program->to);
}

/* Reads the answer to a command. */
static void read_answer(const struct program *program, const char *command, char *line, int size) {
    struct pollfd answer = {.fd = fileno(program->from), .events = POLLIN};
    if (poll(&answer, 1, GIVE_UP_MS) != 1)
        fail_msg("waited in vain for the answer to: %s", command);
    line[0] = '\0';
    assert_non_null(fgets(line, size, program->from));
}

static void ask_line(const struct program *program, const char *command, char *line, int size) {
    tell(program, command);
    read_answer(program, command, line, size);
}

/* What a command returns. */
static int ask(const struct program *program, const char *command) {
    char line[200];
    ask_line(program, command, line, sizeof line);
    return atoi(line);
}

static void ask_counts(const struct program *program, unsigned long long *counts) {
    char line[200], *at = line;
    ask_line(program, "counts", line, sizeof line);
    for (int i = 0; i < COUNTS; i++)
        counts[i] = strtoull(at, &at, 10);
    assert_string_equal(at, " \n");
}

static void stop_program(struct program *program) {
    int status = -1;
    fclose(program->to);
    fclose(program->from);
    TEST_WAIT(waitpid(program->process, &status, WNOHANG) == program->process);
    assert_int_equal(status, 0);
}

static void kill_program(struct program *program) {
    end_process(program->process, SIGKILL);
    fclose(program->to);
    fclose(program->from);
}

/* ---- looking ---- */

/* How often the programs have said something on standard error. */
static int count_errors(const char *words) {
    char text[8192];
    FILE *file = fopen(errors_path, "r");
    size_t count = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[count] = '\0';
    if (file)
        fclose(file);
    int times = 0;
    for (const char *at = text; (at = strstr(at, words)); at++)
        times++;
    return times;
}

static bool errors_say(const char *words) {
    return count_errors(words) > 0;
}

static bool status_says(const char *words) {
    char *json = NULL;
    assert_int_equal(gs_status_request(socket_path, &json, NULL), GS_OK);
    bool is_there = strstr(json, words);
    free(json);
    return is_there;
}

/* What the status says of a program. The caller releases it. */
static json_t *value_of(const struct program *program, const char *key) {
    char *json = NULL;
    json_t *found = NULL, *each;
    size_t i;
    assert_int_equal(gs_status_request(socket_path, &json, NULL), GS_OK);
    json_t *status = json_loads(json, 0, NULL);
    json_array_foreach(json_object_get(status, "programs"), i, each) {
        if (json_integer_value(json_object_get(each, "process")) == program->process)
            found = json_incref(json_object_get(each, key));
    }
    json_decref(status);
    free(json);
    return found;
}

static double number_of(const struct program *program, const char *key) {
    json_t *value = value_of(program, key);
    double found = value ? json_number_value(value) : -1;
    json_decref(value);
    return found;
}

/* The same of the requests of a latency program. */
static double request_number(const struct program *program, const char *key) {
    json_t *requests = value_of(program, "requests");
    double found = json_number_value(json_object_get(requests, key));
    json_decref(requests);
    return found;
}

/* A latency program has a request. */
static bool has_work(const struct program *program) {
    json_t *value = value_of(program, "has_work");
    bool is_true = json_is_true(value);
    assert_non_null(value);
    json_decref(value);
    return is_true;
}

/* The work of stream 1 is done sooner or later. */
static void assert_goes_on(const struct program *program) {
    TEST_WAIT(ask(program, "query 1") != NOT_READY);
    assert_int_equal(ask(program, "query 1"), 0);
}

/* It is not done while `holder`, a latency program, has work, however often one looks. It holds others for a limited
   time
   (--hold, at most 10 s): if the machine is so busy that this time is over, there is nothing to see. */
static void assert_waits(const struct program *program, const struct program *holder) {
    for (int i = 0; i < 10; i++) {
        bool is_done = ask(program, "query 1") != NOT_READY;
        if (!has_work(holder))
            return;
        assert_false(is_done);
    }
}

/* What a command prints about the daemon. */
static void read_table(const char *command, char *text, size_t size) {
    char line[300];
    snprintf(line, sizeof line, "%s %s --socket %s", GRIDSMITH_PROGRAM, command, socket_path);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    text[fread(text, 1, size - 1, pipe)] = '\0';
    assert_int_equal(pclose(pipe), 0);
}

static void read_top(char *text, size_t size) {
    read_table("top --every 50", text, size);
}

/* Tests share a daemon, unless they end it or leave nonsense in what it shares with programs. */
static int setup(void **state) {
    (void)state;
    unlink(errors_path);
    if (the_daemon)
        TEST_WAIT(status_says("\"programs\":[]"));
    else
        start_daemon(NULL);
    return 0;
}

/* Else all tests after a failed one would wait for its programs. */
static int end_programs(void **state) {
    (void)state;
    for (size_t i = 0; i < GS_COUNT(started); i++)
        if (started[i] && waitpid(started[i], NULL, WNOHANG) == 0)
            end_process(started[i], SIGKILL);
    memset(started, 0, sizeof started);
    return 0;
}

static int end_daemon(void **state) {
    end_programs(state);
    if (the_daemon > 0)
        end_process(the_daemon, SIGTERM);
    the_daemon = 0;
    return 0;
}

#define DAEMON_TEST(name)     TEST_WITH(name, setup, end_programs)
#define OWN_DAEMON_TEST(name) TEST_WITH(name, setup, end_daemon)

/* ---- classes ---- */

static void check_waiting(const char *argument) {
    struct program latency = start_program((const char *const[]){"--latency", "--hold=10000", NULL}, argument),
                   training = start_program((const char *const[]){"--best-effort", NULL}, argument);
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    TEST_WAIT(status_says("\"class\":\"best-effort\""));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(&latency, "launch 10 1"), 0); /* a request begins; nobody waits for its end yet */
        assert_int_equal(ask(&training, i == 1 ? "launch_ex 10 1" : "launch 10 1 5"), 0);
        assert_waits(&training, &latency);
        assert_int_equal(ask(&latency, "sync 1"), 0);
        assert_goes_on(&training);
    }
    stop_program(&latency);
    stop_program(&training);
}

DAEMON_TEST(best_effort_waits_while_a_latency_program_has_work) {
    check_waiting(NULL);
}

DAEMON_TEST(functions_by_exported_names_are_gated_too) {
    check_waiting("exports");
}

/* Many scripts open it by its name for linking, "libcuda.so". */
DAEMON_TEST(driver_may_be_opened_by_its_short_name) {
    check_waiting("short");
}

/* Each way to learn that work is done ends the request. */
DAEMON_TEST(every_synchronization_ends_the_request) {
    static const char *const ways[][3] = {{"launch 10 1", "sync 1", NULL},
                                          {"launch 10 1", "sync_all", NULL},
                                          {"launch_ex 10 2", "sync 2", NULL},
                                          {"own 10", "sync_all", NULL}};
    struct program latency = PROGRAM("--latency", "--hold=10000");
    assert_int_equal(ask(&latency, "start"), 0);
    for (size_t i = 0; i < GS_COUNT(ways); i++) {
        assert_int_equal(ask(&latency, ways[i][0]), 0);
        assert_true(has_work(&latency));
        assert_int_equal(ask(&latency, ways[i][1]), 0);
        assert_false(has_work(&latency));
    }
    assert_int_equal(ask(&latency, "launch 10 1"), 0);
    assert_int_equal(ask(&latency, "record 1"), 0);
    assert_int_equal(ask(&latency, "wait"), 0);
    assert_false(has_work(&latency));
    assert_int_equal(ask(&latency, "launch 10 1"), 0);
    assert_goes_on(&latency); /* by cuStreamQuery */
    assert_false(has_work(&latency));
    stop_program(&latency);
}

DAEMON_TEST(request_lasts_until_all_its_streams_are_done) {
    struct program latency = PROGRAM("--latency", "--hold=10000");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&latency, "launch 10 1"), 0);
    assert_int_equal(ask(&latency, "launch 60000000 2"), 0); /* for a minute */
    assert_int_equal(ask(&latency, "sync 1"), 0);
    assert_true(has_work(&latency));
    assert_int_equal(ask(&latency, "launch 10 3"), 0);
    assert_int_equal(ask(&latency, "sync 3"), 0);
    assert_true(has_work(&latency));
    assert_int_equal(ask(&latency, "leave 2"), 0);
    assert_false(has_work(&latency));
    stop_program(&latency);
}

/* Starts a program with a deadline of 5 ms, and makes 5 requests of 3 kernels of 20 ms each. */
static struct program make_late_requests(void) {
    struct program latency = PROGRAM("--latency", "--deadline", "5ms");
    assert_int_equal(ask(&latency, "start"), 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ask(&latency, "launch 20000 1 3"), 0);
        assert_int_equal(ask(&latency, "sync 1"), 0);
    }
    return latency;
}

/* A launch that comes late, to an idle stream, begins another request: on a busy machine it is tried again. */
DAEMON_TEST(requests_are_counted_and_timed) {
    struct program latency = make_late_requests();
    char text[4000];
    for (int tries = 0; tries < 20 && !status_says("\"requests\":{\"count\":5,"); tries++) {
        stop_program(&latency);
        TEST_WAIT(status_says("\"programs\":[]"));
        latency = make_late_requests();
    }
    assert_true(status_says("\"requests\":{\"count\":5,"));
    assert_true(status_says("\"launches\":15,"));
    assert_false(status_says("\"p50_us\":0.0,\"p99_us\":0.0,\"p999_us\":0.0"));
    assert_true(status_says("\"deadline_us\":5000,\"late\":5}")); /* each request takes at least 20 ms */
    read_top(text, sizeof text);
    assert_non_null(strstr(text, "  deadline 5.00 ms, 5 later\n"));
    stop_program(&latency);
}

static void do_requests(const struct program *program, const char *launch, int count) {
    for (int i = 0; i < count; i++) {
        assert_int_equal(ask(program, launch), 0);
        assert_int_equal(ask(program, "sync 1"), 0);
    }
}

/* Five requests of at least 0.2 s, and then as many short ones as push them out of what the status calls recent. */
DAEMON_TEST(percentiles_are_of_recent_requests) {
    enum { REQUESTS = GS_TENANT_WINDOWS * GS_TENANT_WINDOW_REQUESTS };
    struct program latency = PROGRAM("--latency");
    assert_int_equal(ask(&latency, "start"), 0);
    do_requests(&latency, "launch 200000 1", 5);
    assert_true(request_number(&latency, "p50_us") >= 200000);
    do_requests(&latency, "launch 1 1", REQUESTS);
    assert_true(request_number(&latency, "p50_us") < 200000);
    assert_true(request_number(&latency, "mean_us") * (REQUESTS + 5) >= 5 * 200000);
    stop_program(&latency);
}

DAEMON_TEST(latency_streams_have_the_highest_priority) {
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    assert_int_equal(ask(&latency, "priority"), -5);
    assert_int_equal(ask(&training, "priority"), 0);
    stop_program(&latency);
    stop_program(&training);
}

DAEMON_TEST(nobody_waits_where_there_is_no_latency_program) {
    unsigned long long counts[COUNTS];
    struct program training = PROGRAM("--best-effort");
    assert_int_equal(ask(&training, "start"), 0);
    assert_int_equal(ask(&training, "launch 10 1 100"), 0);
    assert_int_equal(ask(&training, "sync 1"), 0);
    ask_counts(&training, counts);
    assert_int_equal(counts[WAITS], 0);
    assert_int_equal(counts[LAUNCHES], 100);
    stop_program(&training);
}

OWN_DAEMON_TEST(programs_beyond_the_slots_run_without) {
    struct program programs[GS_BOARD_SLOTS + 1];
    for (size_t i = 0; i < GS_COUNT(programs); i++) {
        programs[i] = PROGRAM("--latency");
        assert_int_equal(ask(&programs[i], "start"), 0);
    }
    assert_true(errors_say("a GPU has at most 32 latency programs, and 32 are connected: running without the daemon"));
    for (size_t i = 0; i < GS_COUNT(programs); i++) {
        assert_int_equal(ask(&programs[i], "launch 10 1"), 0);
        assert_int_equal(ask(&programs[i], "sync 1"), 0);
        stop_program(&programs[i]);
    }
}

/* ---- programs that never synchronize ---- */

/* It is found out, and then its requests end when the GPU has done its work. */
DAEMON_TEST(program_that_never_synchronizes_holds_nobody) {
    unsigned long long counts[COUNTS];
    struct program latency = PROGRAM("--latency", "--hold", "10000"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    for (int i = 0; i < GIVE_UP_MS / 50 && !(i > 4 && !has_work(&latency)); i++) {
        assert_int_equal(ask(&latency, "launch 10 1 2"), 0);
        assert_int_equal(ask(&latency, "launch 10 2"), 0);
        wait_ms(50);
    }
    TEST_WAIT(!has_work(&latency));
    assert_int_equal(ask(&training, "launch 10 1 3"), 0);
    assert_goes_on(&training);
    ask_counts(&latency, counts);
    unsigned long long writes = 0;
    for (int i = 0; i < GIVE_UP_MS / 20 && counts[WRITES] != writes;
         i++) { /* one that waits for work is as others are */
        writes = counts[WRITES];
        assert_int_equal(ask(&latency, "launch 20000 1"), 0);
        assert_int_equal(ask(&latency, "sync 1"), 0);
        ask_counts(&latency, counts);
    }
    assert_true(writes > 0);
    assert_int_equal(counts[WRITES], writes);
    stop_program(&latency);
    stop_program(&training);
}

/* An eager program on a slow host: its streams are idle several times in a request. */
static void do_request_with_pauses(const struct program *latency) {
    enum { PAUSES = 5 };
    for (int i = 0; i < PAUSES; i++, wait_ms(2))
        assert_int_equal(ask(latency, "launch 10 1"), 0);
    assert_int_equal(ask(latency, "launch 10 1"), 0);
    assert_int_equal(ask(latency, "sync 1"), 0);
}

DAEMON_TEST(pauses_in_requests_are_no_silence) {
    enum { REQUESTS = 10 };
    unsigned long long before[COUNTS], after[COUNTS];
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    for (int i = 0; i < REQUESTS; i++)
        do_request_with_pauses(&latency);
    ask_counts(&latency, before);
    for (int i = 0; i < REQUESTS; i++)
        do_request_with_pauses(&latency);
    ask_counts(&latency, after);
    assert_int_equal(after[WRITES], before[WRITES]);
    stop_program(&latency);
    stop_program(&training);
}

DAEMON_TEST(stream_that_is_destroyed_holds_nobody) {
    struct program latency = PROGRAM("--latency", "--hold", "10000");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&latency, "launch 10 1"), 0);
    assert_true(has_work(&latency));
    assert_int_equal(ask(&latency, "leave 1"), 0);
    assert_false(has_work(&latency));
    stop_program(&latency);
}

/* ---- announced requests ---- */

/* After some requests that begin with an event, an event announces the next one. On a busy machine launches may have
   been late. */
static void announce(const struct program *latency) {
    bool is_announced = false;
    for (int i = 0; i < GIVE_UP_MS / 10 && !is_announced; i++) {
        assert_int_equal(ask(latency, "measure 50"), 0);
        assert_int_equal(ask(latency, "record 1"), 0);
        is_announced = has_work(latency);
    }
    assert_true(is_announced);
}

DAEMON_TEST(announcement_ends_when_no_launch_follows) {
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort"); /* it is looked at more often */
    assert_int_equal(ask(&training, "start"), 0);
    assert_int_equal(ask(&latency, "start"), 0);
    for (int i = 0; i < 2; i++) {
        announce(&latency);
        if (i == 0) { /* the flag is removed, and the program itself finds out that nothing has followed */
            TEST_WAIT(!has_work(&latency));
            wait_ms(200);
        }
        assert_int_equal(ask(&latency, "sync 1"), 0);
        assert_false(has_work(&latency));
        int announced = (int)request_number(&latency, "announced");
        assert_true(announced > 0);
        assert_int_equal(ask(&latency, "measure 1"), 0); /* such events are not trusted any more */
        assert_int_equal((int)request_number(&latency, "announced"), announced);
    }
    stop_program(&latency);
    stop_program(&training);
}

/* ---- a run inside another ---- */

static void read_variable(const struct program *program, const char *name, char *line, int size) {
    char command[100];
    snprintf(command, sizeof command, "environment %s", name);
    ask_line(program, command, line, size);
}

/* The limit of memory of the outer run can be lowered, not lifted. */
DAEMON_TEST(run_inside_another_keeps_its_memory) {
    static const char *const inner[] = {"--memory=2G", "--memory=512M"}, *const wanted[] = {"1073741824\n",
                                                                                            "536870912\n"};
    char line[200];
    for (size_t i = 0; i < GS_COUNT(inner); i++) {
        struct program program =
            PROGRAM("--best-effort", "--memory=1G", GRIDSMITH_PROGRAM, "run", "--latency", inner[i]);
        read_variable(&program, "GRIDSMITH_MEMORY", line, sizeof line);
        assert_string_equal(line, wanted[i]);
        assert_int_equal(ask(&program, "start"), 0);
        stop_program(&program);
    }
}

/* A limit that is none, which is ignored, does not lower another. */
DAEMON_TEST(nonsense_does_not_replace_a_limit_of_memory) {
    static const char *const outer[] = {"GRIDSMITH_MEMORY=1M", "GRIDSMITH_MEMORY=1000", "GRIDSMITH_MEMORY=1048577x"};
    char line[200];
    for (size_t i = 0; i < GS_COUNT(outer); i++) {
        struct program program =
            PROGRAM("--best-effort", "env", outer[i], GRIDSMITH_PROGRAM, "run", "--latency", "--memory=2G");
        read_variable(&program, "GRIDSMITH_MEMORY", line, sizeof line);
        assert_string_equal(line, "2147483648\n");
        stop_program(&program);
    }
}

/* The first word that is no option is the program: what follows is its own. */
DAEMON_TEST(run_inside_another_replaces_it) {
    struct program latency =
        PROGRAM("--best-effort", "--slice=300", "--weight=7", "--memory=1G", GRIDSMITH_PROGRAM, "run", "--latency");
    char line[200];
    read_variable(&latency, "GRIDSMITH_WEIGHT", line, sizeof line);
    assert_string_equal(line, "\n");
    read_variable(&latency, "GRIDSMITH_SLICE_US", line, sizeof line);
    assert_string_equal(line, "20000\n"); /* that of latency programs */
    read_variable(&latency, "GRIDSMITH_MEMORY", line, sizeof line);
    assert_string_equal(line, "1073741824\n");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_true(status_says("\"class\":\"latency\""));
    assert_int_equal((int)number_of(&latency, "weight"), 100);
    stop_program(&latency);
}

DAEMON_TEST(program_may_change_its_folder) {
    const char *const words[] = {"sh",
                                 "-c",
                                 "cd \"$0\" && exec \"$@\"",
                                 folder,
                                 GRIDSMITH_PROGRAM,
                                 "run",
                                 "--best-effort",
                                 "--socket",
                                 strrchr(socket_path, '/') + 1,
                                 "sh",
                                 "-c",
                                 "cd / && exec \"$0\"",
                                 GATED_PROGRAM,
                                 NULL};
    struct program program = start_command(words);
    assert_int_equal(ask(&program, "start"), 0);
    assert_true(status_says("\"class\":\"best-effort\""));
    stop_program(&program);
}

/* ---- weights ---- */

/* A program of a tenth of the weight waits for one that has work for some seconds. */
DAEMON_TEST(programs_share_by_their_weights) {
    struct program small = PROGRAM("--best-effort", "--weight", "10"), large = PROGRAM("--best-effort");
    assert_int_equal(ask(&small, "start"), 0);
    assert_int_equal(ask(&large, "start"), 0);
    assert_int_equal((int)number_of(&small, "weight"), 10);
    for (int round = 0; round < 3; round++) { /* times are learned */
        assert_int_equal(ask(&small, "launch 2000 1 20"), 0);
        assert_int_equal(ask(&small, "sync 1"), 0);
        assert_int_equal(ask(&large, "launch 2000 1 20"), 0);
        assert_int_equal(ask(&large, "sync 1"), 0);
    }
    double before = number_of(&small, "share_waits");
    tell(&large, "launch 2000 1 1000");
    for (int round = 0; round < 100 && number_of(&small, "share_waits") <= before; round++) {
        assert_int_equal(ask(&small, "launch 2000 1 4"), 0);
        assert_int_equal(ask(&small, "sync 1"), 0); /* it goes on nevertheless, a little at a time */
    }
    assert_true(number_of(&small, "share_waits") > before);
    kill_program(&large);
    stop_program(&small);
}

/* ---- caps ---- */

static uint64_t launch_capped(gs_gate_cap *cap, uint64_t *now, uint64_t until, uint64_t kernel_ns) {
    uint64_t work_ns = 0;
    for (; *now < until; *now += 10000) {
        if (gs_cap_wait_ns(cap, *now))
            continue;
        gs_cap_charge(cap, kernel_ns, *now);
        work_ns += kernel_ns;
    }
    return work_ns;
}

/* In any time t: the cap of t and 2 ms, and one launch. */
TEST(cap_limits_the_share_of_time) {
    enum { SECOND = 1000000000 };
    gs_gate_cap cap = {.percent = 30};
    uint64_t now = 1000;
    assert_in_range(launch_capped(&cap, &now, (uint64_t)10 * SECOND, 1000000), 2999000000, 3002000000);
    now += (uint64_t)100 * SECOND; /* idle time is no credit */
    assert_in_range(launch_capped(&cap, &now, now + SECOND, 100000), 299000000, 301000000);
    now += SECOND;
    assert_int_equal(gs_cap_wait_ns(&cap, now), 0);
    gs_cap_charge(&cap, SECOND / 10 * 3, now); /* a launch is not divided: the next one waits */
    assert_int_equal(gs_cap_wait_ns(&cap, now), SECOND - 2000000);
}

/* It is at least as slow as its cap demands, however fast or slow the machine is. */
DAEMON_TEST(program_has_no_more_than_its_cap) {
    enum { LAUNCHES_OF_2_MS = 50, LEAST_MS = LAUNCHES_OF_2_MS * 2 * 100 / 20 - 2 };
    struct program program = PROGRAM("--best-effort", "--most", "20%"), free_program = PROGRAM("--best-effort");
    char text[4000];
    assert_int_equal(ask(&program, "start"), 0);
    assert_int_equal(ask(&free_program, "start"), 0);
    uint64_t begun_ms = now_ms();
    for (int i = 0; i < LAUNCHES_OF_2_MS; i++) {
        assert_int_equal(ask(&program, "launch 2000 1"), 0);
        assert_int_equal(ask(&program, "sync 1"), 0);
    }
    assert_int_equal(ask(&program, "launch 2000 1"), 0); /* when those before it are paid for */
    assert_true(now_ms() - begun_ms + 1 >= LEAST_MS);
    assert_true(number_of(&program, "share_waits") > 0);
    assert_int_equal((int)number_of(&program, "most_percent"), 20);
    read_top(text, sizeof text);
    assert_non_null(strstr(text, "  at most 20%\n"));
    assert_int_equal(ask(&free_program, "launch 2000 1 50"), 0);
    assert_int_equal(ask(&free_program, "sync 1"), 0);
    assert_int_equal((int)number_of(&free_program, "share_waits"), 0);
    stop_program(&program);
    stop_program(&free_program);
}

DAEMON_TEST(caps_that_make_no_sense_are_refused) {
    static const char *const wrong[] = {"--most=0",    "--most=101%", "--most=-5",
                                        "--most=30%%", "--most=all",  "--most=+30"};
    for (size_t i = 0; i <= GS_COUNT(wrong); i++) {
        struct program program =
            i < GS_COUNT(wrong) ? PROGRAM("--best-effort", wrong[i]) : PROGRAM("--latency", "--most=30");
        fclose(program.to);
        fclose(program.from);
        assert_int_equal(gs_process_exit_code(gs_process_wait(program.process)), 2);
    }
    assert_int_equal(count_errors("--most takes a percentage from 1 to 100, such as 30%"), GS_COUNT(wrong));
    assert_int_equal(count_errors("--most is for best-effort programs"), 1);
}

/* ---- long kernels ---- */

DAEMON_TEST(long_kernels_are_named) {
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    for (int i = 0; i < 8; i++) { /* samples are collected at every 16th launch */
        assert_int_equal(ask(&training, "launch 1 1 10"), 0);
        assert_int_equal(ask(&training, "launch 20000 1"), 0);
        assert_int_equal(ask(&training, "launch 1 1 10"), 0);
        assert_int_equal(ask(&training, "sync 1"), 0);
    }
    assert_true(status_says("\"long_kernels\":[{\"name\":\"kernel_20000\",\"us\":20000.0}]"));
    stop_program(&latency);
    stop_program(&training);
}

/* ---- long kernels that can be stopped ---- */

static void load_steps(const struct program *program) {
    char command[400];
    snprintf(command, sizeof command, "load %s", test_path("tests/cases/steps.cubin"));
    assert_int_equal(ask(program, command), 0);
}

/* A program with a long kernel, which is learned while there is nobody to wait for but an idle latency program. */
static struct program start_steps_of(const char *command) {
    struct program training = PROGRAM("--best-effort", "--guard");
    assert_int_equal(ask(&training, "start"), 0);
    load_steps(&training);
    for (int i = 0; i < 6; i++) { /* samples are collected at every 16th launch */
        assert_int_equal(ask(&training, command), 0);
        assert_int_equal(ask(&training, "launch 1 1 16"), 0);
        assert_int_equal(ask(&training, "sync 1"), 0);
    }
    return training;
}

static struct program start_steps(void) {
    return start_steps_of("steps 1600 1 1");
}

struct runs {
    unsigned least, most;
    unsigned long long sum;
};

static struct runs ask_runs(const struct program *program) {
    char line[100];
    struct runs runs;
    ask_line(program, "runs 1600", line, sizeof line);
    assert_int_equal(sscanf(line, "%u %u %llu", &runs.least, &runs.most, &runs.sum), 3);
    return runs;
}

static unsigned long long count_stops(const struct program *program) {
    unsigned long long counts[COUNTS];
    ask_counts(program, counts);
    return counts[STOPS];
}

/* Whether another of its kernels has stopped. Those that ended, or wait before their first block, do not. */
static bool has_stopped(const struct program *program, unsigned long long before) {
    for (int ms = 0; ms < 2000; ms++, wait_ms(1))
        if (count_stops(program) > before)
            return true;
    return false;
}

/* What has run, when no block runs any more: those that had begun go on for a while. */
static struct runs runs_at_rest(const struct program *program) {
    struct runs before, now = ask_runs(program);
    for (int ms = 0; ms == 0 || now.sum != before.sum; ms += 50) {
        if (ms == GIVE_UP_MS)
            fail_msg("waited in vain for blocks to rest");
        before = now;
        wait_ms(50);
        now = ask_runs(program);
    }
    return now;
}

/* Gives a command some times, which makes `launches` launches, and has the latency program come in their midst. Returns
   whether a kernel was stopped; then nothing runs until the latency program ends. In any case each block runs once. */
static bool stop_and_go_on(const struct program *training, struct program *latency, const char *command, int times,
                           unsigned launches) {
    struct runs before = ask_runs(training);
    unsigned long long stops = count_stops(training);
    assert_int_equal(before.least, before.most);
    for (int i = 0; i < times; i++)
        assert_int_equal(ask(training, command), 0);
    TEST_WAIT(ask_runs(training).sum >= before.sum + 160);
    assert_int_equal(ask(latency, "launch 100000000 1"), 0);
    bool is_stopped = has_stopped(training, stops);
    if (is_stopped) {
        struct runs stopped = runs_at_rest(training);
        assert_true(stopped.sum < before.sum + launches * 1600 || !has_work(latency));
    }
    stop_program(latency);
    assert_int_equal(ask(training, "sync 1"), 0);
    struct runs after = ask_runs(training);
    assert_true(after.least == before.least + launches && after.most == before.most + launches);
    return is_stopped;
}

/* A machine that is busy may come too late, so it is tried again. */
static void assert_stops_and_goes_on(const struct program *training, struct program *latency, const char *command,
                                     int times, unsigned launches) {
    for (int tries = 0; !stop_and_go_on(training, latency, command, times, launches); tries++) {
        assert_true(tries < 20);
        *latency = PROGRAM("--latency", "--hold=10000");
        assert_int_equal(ask(latency, "start"), 0);
    }
}

DAEMON_TEST(long_kernels_are_stopped_by_requests) {
    struct program latency = PROGRAM("--latency", "--hold=10000");
    assert_int_equal(ask(&latency, "start"), 0);
    struct program training = start_steps();
    struct runs before = ask_runs(&training);
    assert_true(before.least == 6 && before.most == 6);
    assert_stops_and_goes_on(&training, &latency, "steps 1600 1 100", 1, 100);
    assert_true(status_says("\"guarded_kernels\":1,\"unguarded_kernels\":0"));
    assert_int_equal(ask(&training, "unload"), 0);
    stop_program(&training);
}

/* It has a twin, which is never launched. */
DAEMON_TEST(kernels_of_one_wave_do_not_count_as_guarded) {
    struct program latency = PROGRAM("--latency");
    assert_int_equal(ask(&latency, "start"), 0);
    struct program training = start_steps_of("steps 8 1 1");
    assert_true(status_says("\"why\":\"it has fewer than two waves of blocks (8 blocks, "));
    assert_true(status_says("\"guarded\":0,\"guarded_kernels\":0,\"unguarded_kernels\":1"));
    stop_program(&latency);
    stop_program(&training);
}

/* Whether the work of two streams is done; if not, there is another request. */
static bool is_done_beside_requests(const struct program *training, const struct program *latency) {
    if (ask(training, "query 2") != NOT_READY && ask(training, "query 1") != NOT_READY)
        return true;
    assert_int_equal(ask(latency, "launch 1000 1"), 0);
    assert_int_equal(ask(latency, "sync 1"), 0);
    return false;
}

/* Many requests, in two streams, with streams that come and go. */
DAEMON_TEST(kernels_that_are_stopped_often_run_once) {
    struct program latency = PROGRAM("--latency");
    assert_int_equal(ask(&latency, "start"), 0);
    struct program training = start_steps();
    unsigned launches = 6;
    for (int round = 0; round < 3 || !count_stops(&training); round++, launches += 8) {
        assert_true(round < 100); /* requests may come too late, but not always */
        assert_int_equal(ask(&training, "steps 1600 1 4"), 0);
        assert_int_equal(ask(&training, "steps 1600 2 4"), 0);
        TEST_WAIT(is_done_beside_requests(&training, &latency));
        if (round == 1)
            assert_int_equal(ask(&training, "leave 3"), 0);
    }
    struct runs runs = ask_runs(&training);
    assert_true(runs.least == launches && runs.most == launches);
    stop_program(&latency);
    stop_program(&training);
}

/* Worked out by hand: an H200 runs 1,056 blocks of 256 threads at a time. */
TEST(chains_are_for_kernels_that_stop_sooner_than_they_end) {
    const double rare = 0, often = 1e-7; /* a request every 10 ms */
    const double little = 0.03;          /* of the kernel's time may be lost */
    static const struct {
        gs_chain_kernel kernel;
        uint32_t launches, mask;
    } cases[] = {
        {{5000000, 10560, 1056, rare, little, 1}, 2, 7},      /* blocks of 500 us: 8 begin in 4 us */
        {{5000000, 105600, 1056, rare, little, 1}, 0, 0},     /* of 50 us: a launch that finds nothing left costs 5%, */
        {{5000000, 105600, 1056, rare, 0.1, 1}, 2, 63},       /* unless it may cost more */
        {{5000000, 10560, 1056, often, little, 1}, 5, 7},     /* half a request is expected: 2 + ceil(2.27) */
        {{50000000, 10560, 1056, often, little, 1}, 13, 0},   /* five: 2 + ceil(10.6) */
        {{500000000, 1056000, 1056, often, little, 1}, 6, 7}, /* 50: as many as cost 3% */
        {{200000, 10560, 1056, often, little, 1}, 0, 0},      /* 30 us of 200, */
        {{200000, 10560, 1056, often, 0.25, 1}, 2, 127},      /* where they may be lost; blocks of 20 us */
        {{400000, 100000, 1056, often, 0.35, 1}, 0, 0},       /* of 4 us: 0.24 ms until all have come and gone */
        {{5000000, 1056, 1056, rare, little, 1}, 0, 0},       /* one wave */
        {{5000000, 2112, 1056, rare, little, 1}, 0, 0},       /* two: hardly sooner at its end */
        {{3000000, 4000000, 1056, rare, little, 1}, 0, 0},    /* 9.5 ms until all blocks have come and gone */
        {{5000000, 10560, 0, rare, little, 1}, 0, 0},         /* not known how many run at a time */
        {{200000000, 4194305, 1056, rare, 0.1, 1}, 2, 63},    /* of 50 us, however many there are, */
        {{200000000, 1398101, 1056, rare, 0.1, 3}, 2, 15},    /* but in clusters */
        {{200000000, 1398102, 1056, rare, 0.1, 3}, 0, 0},     /* there may be 4,194,304 blocks */
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_chain_plan plan = gs_chain_plan_of(&cases[i].kernel);
        assert_int_equal(plan.launches, cases[i].launches);
        assert_int_equal(plan.mask, cases[i].mask);
        assert_true(!plan.launches || (plan.first == 1056 && plan.stop_ns * 2 <= cases[i].kernel.expected_ns));
        assert_true((double)plan.cost_ns <= cases[i].kernel.most_cost * (double)cases[i].kernel.expected_ns);
    }
}

/* More than 3% is for kernels that would hold up requests for long, out of a tenth of the work, which is not saved up.
 */
TEST(guards_cost_a_part_of_the_recent_work) {
    gs_chain_budget budget = {0};
    const uint64_t ms = NS_PER_MS;
    double cost_ns = 0;
    assert_true(gs_chain_most_cost(&budget, 0, (int64_t)ms) == 0.03);
    assert_true(gs_chain_most_cost(&budget, 1000 * ms, (int64_t)ms / 10) == 0.03); /* short */
    assert_true(gs_chain_most_cost(&budget, 1000 * ms, (int64_t)ms) == 0.35);
    for (uint64_t i = 1; i <= 1000; i++) {
        double part = gs_chain_most_cost(&budget, (1000 + i) * ms, (int64_t)ms);
        budget.left_ns -= part * (double)ms;
        cost_ns += part * (double)ms;
    }
    assert_true(cost_ns > 0.1 * 1000 * (double)ms && cost_ns < (0.1 * 1000 + 20.1) * (double)ms);
}

/* ---- streams of requests ---- */

enum { US = 1000 };

enum { SWITCH_US = 300, WORK_US = 100 }; /* what a request loses in a gap, without MPS and with it */

/* Plays requests of some duration with a gap after each. Returns the last hold, in us. */
static uint64_t play_gaps(gs_gate_gap *gap, uint64_t *now, int count, uint64_t request_us, uint64_t gap_us,
                          uint64_t lost_us) {
    uint64_t hold = 0;
    for (int i = 0; i < count; i++) {
        gs_gap_begin(gap, *now);
        *now += request_us * US;
        hold = gs_gap_end(gap, *now, request_us * US, lost_us * US);
        *now += gap_us * US;
    }
    return hold / US;
}

/* Gaps are told apart by lengths of 10, 14, 20, 28, 40, 56 us and so on. */
TEST(gaps_are_held_if_the_next_request_is_near) {
    uint64_t now = 1;
    gs_gate_gap tokens = {0}, pauses = {0}, dense = {0}, chance = {0};
    assert_int_equal(play_gaps(&tokens, &now, 15, 800, 50, SWITCH_US), 0); /* not sure yet */
    assert_int_equal(play_gaps(&tokens, &now, 60, 800, 50, SWITCH_US), 56);
    assert_int_equal(play_gaps(&tokens, &now, 1, 800, 50, WORK_US), 56);
    assert_int_equal(play_gaps(&tokens, &now, 1, 800, 50, 50), 0);           /* it costs more than it saves */
    assert_int_equal(play_gaps(&pauses, &now, 100, 800, 400, SWITCH_US), 0); /* not short */
    assert_int_equal(play_gaps(&dense, &now, 100, 100, 60, SWITCH_US), 0);   /* too much of the time would be lost */
    for (int i = 0; i < 100; i++)
        assert_int_equal(play_gaps(&chance, &now, 1, 800, i % 3 ? 2000 : 100, SWITCH_US), 0); /* mostly not */
}

/* Short tokens, with a pause behind each stream that is sometimes as short as a gap may be, or a host that is late. */
TEST(pauses_between_streams_do_not_end_holding) {
    gs_random random = gs_random_at(9110, 0);
    gs_gate_gap gap = {0};
    uint64_t now = 1;
    play_gaps(&gap, &now, 60, 50, 12, SWITCH_US);
    for (int stream = 0; stream < 1000; stream++) {
        for (int token = 0; token < 10; token++)
            assert_int_equal(play_gaps(&gap, &now, 1, 50, 12, SWITCH_US), 14);
        play_gaps(&gap, &now, 1, 50, gs_random_chance(&random, 20) ? 250 : 1500, SWITCH_US);
    }
}

/* A host that is sometimes late: its longer gaps are held, too, where a request would lose more in them. */
TEST(gaps_are_held_longer_beside_longer_kernels) {
    const int lost_us[] = {WORK_US, 600};
    const uint64_t holds[] = {14, 79};
    for (size_t i = 0; i < GS_COUNT(holds); i++) {
        gs_gate_gap gap = {0};
        uint64_t now = 1;
        for (int stream = 0; stream < 40; stream++) {
            play_gaps(&gap, &now, 60, 400, 12, (uint64_t)lost_us[i]);
            play_gaps(&gap, &now, 1, 400, 70, (uint64_t)lost_us[i]);
            play_gaps(&gap, &now, 1, 400, 3000, (uint64_t)lost_us[i]);
        }
        assert_int_equal(play_gaps(&gap, &now, 1, 400, 12, (uint64_t)lost_us[i]), holds[i]);
    }
}

/* A stream of requests is held, and at its end others go on. */
DAEMON_TEST(streams_of_requests_hold_others_until_they_end) {
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    for (int i = 0; i < GIVE_UP_MS / 200 && status_says("\"held\":0,"); i++)
        assert_int_equal(ask(&latency, "tokens 20000 1 10"), 0);
    assert_false(status_says("\"held\":0,"));
    assert_int_equal(ask(&training, "launch 10 1 3"), 0);
    assert_int_equal(ask(&training, "sync 1"), 0);
    TEST_WAIT(!has_work(&latency));
    stop_program(&latency);
    stop_program(&training);
}

/* ---- top and metrics ---- */

static struct sockaddr_in address_of(int port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* A port that nobody uses. */
static int find_port(void) {
    struct sockaddr_in where = address_of(0);
    socklen_t size = sizeof where;
    int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(socket_fd, (struct sockaddr *)&where, sizeof where), 0);
    assert_int_equal(getsockname(socket_fd, (struct sockaddr *)&where, &size), 0);
    close(socket_fd);
    return ntohs(where.sin_port);
}

static void read_metrics(int port, char *text, size_t size) {
    static const char question[] = "GET /metrics HTTP/1.1\r\n\r\n";
    struct sockaddr_in where = address_of(port);
    int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
    size_t count = 0;
    assert_int_equal(connect(socket_fd, (struct sockaddr *)&where, sizeof where), 0);
    assert_int_equal(send(socket_fd, question, sizeof question - 1, 0), sizeof question - 1);
    for (ssize_t got; (got = recv(socket_fd, text + count, size - 1 - count, 0)) > 0;)
        count += (size_t)got;
    text[count] = '\0';
    close(socket_fd);
}

/* A row for each program, with what it may allocate, and its metrics. */
OWN_DAEMON_TEST(top_and_metrics_show_programs) {
    char option[40], text[20000], wanted[120];
    int port = find_port();
    end_process(the_daemon, SIGTERM);
    snprintf(option, sizeof option, "--metrics=127.0.0.1:%d", port);
    start_daemon(option);
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort", "--memory=64M", "--weight=7");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(&latency, "launch 10 1"), 0); /* a second one could be late, and a request of its own */
        assert_int_equal(ask(&latency, "sync 1"), 0);
    }
    assert_int_equal(ask(&training, "alloc 1048576"), 0);
    read_top(text, sizeof text);
    snprintf(wanted, sizeof wanted, "%8d %-20.20s %-11s", latency.process, "gated_program", "latency");
    assert_non_null(strstr(text, wanted));
    assert_non_null(strstr(text, "  1 of 64 MiB  weight 7\n"));
    read_metrics(port, text, sizeof text);
    static const char *const rows[][2] = {{"launches_total", "} 3\n"},
                                          {"requests_total", "} 3\n"},
                                          {"request_seconds", ",quantile=\"0.99\"} "},
                                          {"request_seconds_count", "} 3\n"}};
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        snprintf(wanted, sizeof wanted, "\ngridsmith_program_%s{class=\"latency\",process=\"%d\",number=\"1\"%s",
                 rows[i][0], latency.process, rows[i][1]);
        if (!strstr(text, wanted))
            fail_msg("%s is not in %s", wanted, text);
    }
    snprintf(wanted, sizeof wanted,
             "\ngridsmith_program_memory_bytes{class=\"best-effort\",process=\"%d\",number=\"2\"} 1048576\n",
             training.process);
    assert_non_null(strstr(text, wanted));
    stop_program(&latency);
    stop_program(&training);
}

/* The daemon is older than the program: a rate since it was started would be lower. */
DAEMON_TEST(rates_are_since_the_program_connected) {
    enum { LAUNCHES_MADE = 1000 };
    char text[20000];
    double printed = 0;
    wait_ms(1000);
    struct program training = PROGRAM("--best-effort");
    assert_int_equal(ask(&training, "start"), 0);
    assert_int_equal(ask(&training, "launch 1 1 1000"), 0);
    double opened_ns = number_of(&training, "opened_ns"), before_ns = (double)gs_now_ns();
    read_table("status", text, sizeof text);
    double after_ns = (double)gs_now_ns();
    const char *row = strstr(text, " best-effort ");
    assert_non_null(row);
    assert_int_equal(sscanf(row, " best-effort slices %lf", &printed), 1);
    assert_true(printed > LAUNCHES_MADE / (after_ns - opened_ns) * 1e9 - 0.1);
    assert_true(printed < LAUNCHES_MADE / (before_ns - opened_ns) * 1e9 + 0.1);
    stop_program(&training);
}

/* ---- several GPUs ---- */

static struct program start_on(const char *gpu, bool is_latency) {
    setenv("GRIDSMITH_FAKE", "three-gpus", 1);
    setenv("CUDA_VISIBLE_DEVICES", gpu, 1);
    struct program program = is_latency ? PROGRAM("--latency", "--hold=10000") : PROGRAM("--best-effort");
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("GRIDSMITH_FAKE");
    assert_int_equal(ask(&program, "start"), 0);
    return program;
}

/* A request holds only programs of its own GPU. */
DAEMON_TEST(programs_of_other_gpus_are_not_held) {
    struct program latency = start_on("1", true), same = start_on("1", false), other = start_on("2", false);
    assert_int_equal(ask(&latency, "launch 100000000 1"), 0);
    assert_int_equal(ask(&same, "launch 10 1"), 0);
    assert_int_equal(ask(&other, "launch 10 1"), 0);
    assert_waits(&same, &latency);
    assert_goes_on(&other);
    assert_true(status_says("\"gpu\":\"02020202020202020202020202020202\""));
    stop_program(&latency);
    assert_goes_on(&same);
    stop_program(&same);
    stop_program(&other);
}

/* ---- captures ---- */

/* Nothing is put into a stream that captures, and nothing is asked that would end the capture. */
DAEMON_TEST(captures_are_never_disturbed) {
    struct program latency = PROGRAM("--latency", "--hold=10000"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(&training, "launch 10 1 40"), 0); /* samples are under way */
        assert_int_equal(ask(&training, "capture 10 2 20"), 0);
        assert_int_equal(ask(&latency, "capture 10 2 20"), 0);
        assert_int_equal(ask(&latency, "sync 7"), 0);
        assert_false(has_work(&latency)); /* what is captured is no work */
        assert_int_equal(ask(&training, "graph 1"), 0);
        assert_goes_on(&training);
    }
    assert_int_equal(ask(&latency, "graph 1"), 0);
    assert_int_equal(ask(&training, "graph 1"), 0);
    assert_waits(&training, &latency);
    assert_int_equal(ask(&latency, "sync 1"), 0);
    assert_goes_on(&training);
    assert_int_equal(ask(&training, "destroy"), 0);
    stop_program(&latency);
    stop_program(&training);
}

/* ---- long graphs ---- */

/* Launches a graph until its time is known, or some more times. Returns how many waits the graphs had. */
static unsigned long long launch_graphs(const struct program *program, int times, bool may_wait) {
    unsigned long long counts[COUNTS] = {0};
    for (int i = 0; i < times && !(may_wait && counts[GRAPH_WAITS]); i++) {
        assert_int_equal(ask(program, "graph 1"), 0);
        assert_int_equal(ask(program, "sync 1"), 0);
        ask_counts(program, counts);
    }
    return counts[GRAPH_WAITS];
}

DAEMON_TEST(long_graphs_wait_in_their_midst) {
    struct program latency = PROGRAM("--latency", "--hold=10000"),
                   training = PROGRAM("--best-effort", "--ahead", "5000");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    assert_int_equal(ask(&training, "capture 1000 2 20"), 0);
    assert_int_equal(launch_graphs(&training, 100, true), 3); /* 20 ms in pieces of 5 */
    assert_true(status_says("\"longest_us\":0.0"));
    assert_true(status_says("\"long_kernels\":[]"));
    assert_int_equal(launch_graphs(&training, 1, false), 6);
    assert_int_equal(ask(&latency, "launch 10 1"), 0); /* held in its midst, or before it has begun */
    assert_int_equal(ask(&training, "graph 1"), 0);
    assert_waits(&training, &latency);
    assert_int_equal(ask(&latency, "sync 1"), 0);
    assert_goes_on(&training);
    assert_int_equal(ask(&training, "change"), 0); /* the original is launched again */
    assert_int_equal(launch_graphs(&training, 40, false), 9);
    assert_true(
        status_says("\"long_kernels\":[{\"name\":\"a graph\",\"us\":20000.0,\"why\":\"the program changes it\""));
    assert_int_equal(ask(&training, "destroy"), 0);
    stop_program(&latency);
    stop_program(&training);
}

/* While it is not known how long the nodes take, launches that run ahead are whole: users are told nothing of them. */
DAEMON_TEST(graphs_that_will_be_divided_are_not_called_long) {
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort", "--ahead", "5000");
    unsigned long long counts[COUNTS] = {0};
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    assert_int_equal(ask(&training, "capture 1000 2 20"), 0);
    for (int i = 0; i < 40 && !counts[GRAPH_WAITS]; i++) {
        for (int ahead = 0; ahead < 4; ahead++)
            assert_int_equal(ask(&training, "graph 1"), 0);
        assert_int_equal(ask(&training, "sync 1"), 0);
        ask_counts(&training, counts);
    }
    assert_int_not_equal(counts[GRAPH_WAITS], 0);
    assert_true(status_says("\"long_kernels\":[]") && !status_says("\"name\":\"a graph\""));
    assert_false(status_says("\"stop_us\":20000.0"));
    TEST_WAIT(!status_says("\"longest_us\":20000.0"));
    stop_program(&latency);
    stop_program(&training);
}

/* Frameworks change a graph before each launch: its time is learned all the same, and it is work. */
DAEMON_TEST(graphs_that_change_are_timed) {
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort", "--ahead", "5000");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    assert_int_equal(ask(&training, "capture 1000 2 20"), 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ask(&training, "change"), 0);
        assert_int_equal(ask(&training, "graph 1"), 0);
        assert_int_equal(ask(&training, "sync 1"), 0);
    }
    assert_true(number_of(&training, "work_ns") >= 10 * 20e6);
    assert_true(status_says("\"name\":\"a graph\",\"us\":20000.0,\"why\":\"the program changes it\""));
    stop_program(&latency);
    stop_program(&training);
}

/* Kernels of a graph, too: one that is long stops in its midst, and each block runs once. */
DAEMON_TEST(long_kernels_of_graphs_are_stopped) {
    struct program latency = PROGRAM("--latency", "--hold=10000"), training = PROGRAM("--best-effort", "--guard");
    unsigned launches = 0;
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    load_steps(&training);
    assert_int_equal(ask(&training, "keep 1600 1 3"), 0);
    for (; launches < 100 && !launch_graphs(&training, 1, false); launches++)
        continue;
    assert_true(launches < 100);
    assert_true(status_says("\"guarded_kernels\":1,\"unguarded_kernels\":0"));
    struct runs before = ask_runs(&training);
    assert_int_equal(before.least, 3 * (launches + 1));
    assert_stops_and_goes_on(&training, &latency, "graph 1", 20, 60);
    assert_int_equal(ask(&training, "again 10 2 5"), 0); /* what was made for the old one is freed within a capture */
    assert_int_equal(ask(&training, "graph 1"), 0);
    assert_int_equal(ask(&training, "destroy"), 0);
    stop_program(&training);
}

/* Where clusters may have one of two sizes, a block may be in another one in each launch of a chain. */
DAEMON_TEST(kernels_of_graphs_with_preferred_clusters_run_to_their_end) {
    unsigned launches = 0;
    setenv("GRIDSMITH_FAKE", "preferred", 1);
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort", "--guard");
    unsetenv("GRIDSMITH_FAKE");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    load_steps(&training);
    assert_int_equal(ask(&training, "keep 1600 1 3"), 0);
    for (; launches < 100 && !launch_graphs(&training, 1, false); launches++)
        continue;
    assert_true(launches < 100);                        /* it is divided, */
    assert_false(status_says("\"guarded_kernels\":1,")); /* but between its kernels only */
    stop_program(&training);
}

/* Pieces of 2.5 MB: as long as a copy from the host takes in 50 us. */
DAEMON_TEST(big_copies_have_waits_in_them) {
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&training, "start"), 0);
    assert_int_equal(ask(&training, "copy 12000000"), 0);
    assert_true(status_says("\"waits\":0,"));
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "copy 12000000"), 0);
    assert_true(status_says("\"waits\":9,")); /* one before, and 4 in each direction */
    assert_int_equal(ask(&training, "copy 2000001"), 0);
    assert_true(status_says("\"waits\":9,"));
    stop_program(&latency);
    stop_program(&training);
}

DAEMON_TEST(graphs_that_cannot_be_divided_are_launched_whole) {
    static const struct {
        const char *fake, *graph, *why;
    } cases[] = {
        {"no-graph-waits", "capture 1000 2 20", "the driver refuses waits in it"},
        {"no-clones", "capture 1000 2 20", "it cannot be copied, like all with memory or conditional nodes"},
        {"", "capture 20000 2 1", "it has too few nodes to wait between"},
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        char wanted[200];
        setenv("GRIDSMITH_FAKE", cases[i].fake, 1);
        struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort", "--ahead", "5000");
        unsetenv("GRIDSMITH_FAKE");
        assert_int_equal(ask(&latency, "start"), 0);
        assert_int_equal(ask(&training, "start"), 0);
        assert_int_equal(ask(&training, cases[i].graph), 0);
        assert_int_equal(launch_graphs(&training, 40, false), 0);
        snprintf(wanted, sizeof wanted, "\"name\":\"a graph\",\"us\":20000.0,\"why\":\"%s\"", cases[i].why);
        if (!status_says(wanted))
            fail_msg("the status does not say \"%s\"", cases[i].why);
        stop_program(&latency);
        stop_program(&training);
    }
}

/* A chain can be cut anywhere; where two ways run side by side, only behind the node that they meet in. */
TEST(graphs_are_cut_where_one_node_separates_them) {
    const uint32_t chain_from[] = {4, 3, 2, 1}, chain_to[] = {3, 2, 1, 0};
    const uint32_t from[] = {0, 1, 1, 2, 3, 4, 5}, to[] = {1, 2, 3, 4, 4, 5, 6}, wild[] = {0, 9};
    const int64_t same[] = {10, 10, 10, 10, 10, 10, 10};
    uint32_t cuts[8];
    gs_cut_graph chain = {.nodes = 5, .edges = 4, .from = chain_from, .to = chain_to, .ns = same};
    assert_int_equal(gs_cut_graph_find(&chain, 20, cuts), 2);
    assert_int_equal(cuts[0], 3);
    assert_int_equal(cuts[1], 1);
    assert_int_equal(gs_cut_graph_find(&chain, 50, cuts), 0);
    chain.ns = (const int64_t[]){10, 1, 1, 60, 10}; /* 4 and 3, then the rest */
    assert_int_equal(gs_cut_graph_find(&chain, 30, cuts), 2);
    assert_int_equal(cuts[0], 4);
    assert_int_equal(cuts[1], 3);
    gs_cut_graph diamond = {.nodes = 7, .edges = 7, .from = from, .to = to, .ns = same};
    assert_int_equal(gs_cut_graph_find(&diamond, 10, cuts), 4);
    assert_int_equal(cuts[0] * 1000 + cuts[1] * 100 + cuts[2] * 10 + cuts[3], 145);
    assert_int_equal(gs_cut_graph_find(&diamond, 50, cuts), 1);
    assert_int_equal(cuts[0], 4);
    gs_cut_graph two_chains = {
        .nodes = 4, .edges = 2, .from = (const uint32_t[]){0, 2}, .to = (const uint32_t[]){1, 3}, .ns = same};
    assert_int_equal(gs_cut_graph_find(&two_chains, 10, cuts), 0);
    gs_cut_graph circle = {
        .nodes = 2, .edges = 2, .from = (const uint32_t[]){0, 1}, .to = (const uint32_t[]){1, 0}, .ns = same};
    assert_int_equal(gs_cut_graph_find(&circle, 10, cuts), SIZE_MAX);
    gs_cut_graph wrong = {.nodes = 2, .edges = 2, .from = wild, .to = wild, .ns = same};
    assert_int_equal(gs_cut_graph_find(&wrong, 10, cuts), SIZE_MAX);
}

/* ---- time slices ---- */

static void wait_for_slice(const struct program *program, int slice_us) {
    TEST_WAIT(ask(program, "slice") == slice_us);
}

/* Short slices are for one best-effort program beside latency programs. A slice that is refused leaves the driver's. */
DAEMON_TEST(time_slices_are_set_while_they_help) {
    struct program training = PROGRAM("--best-effort", "--slice", "300"), other;
    assert_int_equal(ask(&training, "start"), 0);
    wait_for_slice(&training, 2048);
    struct program latency = PROGRAM("--latency", "--slice", "20000");
    assert_int_equal(ask(&latency, "start"), 0);
    wait_for_slice(&latency, 20000);
    wait_for_slice(&training, 300);
    TEST_WAIT(status_says("\"slice_us\":300,"));
    other = PROGRAM("--best-effort", "--slice", "2");
    assert_int_equal(ask(&other, "start"), 0);
    wait_for_slice(&training, 2048);
    stop_program(&training);
    wait_ms(100);
    wait_for_slice(&other, 2048);
    stop_program(&latency);
    stop_program(&other);
}

/* ---- threads, fork, exec ---- */

DAEMON_TEST(threads_launch_beside_requests) {
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort");
    char line[40];
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    tell(&training, "threads 4");
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ask(&latency, "launch 100 1 4"), 0);
        assert_int_equal(ask(&latency, "sync 1"), 0);
    }
    assert_int_equal(ask(&latency, "threads 4"), 0);
    assert_false(has_work(&latency));
    read_answer(&training, "threads 4", line, sizeof line);
    assert_int_equal(atoi(line), 0);
    stop_program(&latency);
    stop_program(&training);
}

/* The child of a program that has a connection gets one of its own, and leaves that of its parent alone. */
DAEMON_TEST(children_are_programs_of_their_own) {
    struct program latency = PROGRAM("--latency", "--hold=10000"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    tell(&training, "fork");
    assert_int_equal(ask(&training, "start"), 0); /* the child answers */
    assert_int_equal(ask(&latency, "launch 10 1"), 0);
    assert_int_equal(ask(&training, "launch 10 1"), 0);
    assert_waits(&training, &latency);
    assert_int_equal(ask(&latency, "sync 1"), 0);
    assert_goes_on(&training);
    assert_int_equal(ask(&training, "quit"), 0); /* and then the parent */
    assert_int_equal(ask(&latency, "launch 10 1"), 0);
    assert_int_equal(ask(&training, "launch 10 1"), 0);
    assert_waits(&training, &latency);
    assert_int_equal(ask(&latency, "sync 1"), 0);
    assert_goes_on(&training);
    stop_program(&latency);
    stop_program(&training);
}

/* ---- faults ---- */

static void pair_in_a_request(struct program *latency, struct program *training, const char *hold) {
    *latency = hold ? PROGRAM("--latency", "--hold", hold) : PROGRAM("--latency");
    *training = PROGRAM("--best-effort");
    assert_int_equal(ask(latency, "start"), 0);
    assert_int_equal(ask(training, "start"), 0);
    assert_int_equal(ask(latency, "launch 10 1"), 0);
    assert_int_equal(ask(training, "launch 10 1 3"), 0);
}

DAEMON_TEST(latency_program_that_is_killed_holds_nobody) {
    struct program latency, training;
    pair_in_a_request(&latency, &training, "10000");
    assert_waits(&training, &latency);
    kill_program(&latency);
    assert_goes_on(&training);
    assert_int_equal(ask(&training, "launch 10 1 3"), 0);
    assert_goes_on(&training);
    stop_program(&training);
}

DAEMON_TEST(latency_program_that_is_stopped_holds_nobody_for_long) {
    struct program latency, training;
    pair_in_a_request(&latency, &training, "200");
    kill(latency.process, SIGSTOP);
    assert_goes_on(&training);
    assert_int_equal(ask(&training, "launch 10 1 3"), 0);
    assert_goes_on(&training);
    kill(latency.process, SIGCONT);
    assert_int_equal(ask(&latency, "sync 1"), 0);
    assert_int_equal(ask(&latency, "launch 10 1"), 0); /* it can hold others again */
    assert_int_equal(ask(&training, "launch 10 1 3"), 0);
    assert_goes_on(&training); /* for 200 ms */
    stop_program(&latency);
    stop_program(&training);
}

DAEMON_TEST(best_effort_program_that_is_killed_leaves_nothing) {
    struct program latency, training;
    pair_in_a_request(&latency, &training, NULL);
    kill_program(&training);
    assert_int_equal(ask(&latency, "sync 1"), 0);
    TEST_WAIT(!status_says("best-effort"));
    stop_program(&latency);
    TEST_WAIT(status_says("\"programs\":[]"));
}

OWN_DAEMON_TEST(killed_daemon_lets_everybody_go_on) {
    struct program latency, training;
    pair_in_a_request(&latency, &training, "10000");
    assert_waits(&training, &latency);
    end_process(the_daemon, SIGKILL);
    the_daemon = 0;
    assert_goes_on(&training);
    TEST_WAIT(count_errors("the connection to the daemon has ended: going on without it") == 2); /* each says it once */
    assert_int_equal(ask(&latency, "sync 1"), 0);
    assert_int_equal(ask(&latency, "launch 10 1"), 0);
    assert_int_equal(ask(&training, "launch 10 1 3"), 0);
    assert_goes_on(&training);
    assert_int_equal(ask(&latency, "sync 1"), 0);
    stop_program(&latency);
    stop_program(&training);
}

/* As programs do that become daemons. */
DAEMON_TEST(program_that_closes_its_descriptors_is_told) {
    struct program latency = PROGRAM("--latency");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&latency, "close"), 0);
    TEST_WAIT(count_errors("the connection to the daemon has ended") == 1);
    TEST_WAIT(status_says("\"programs\":[]"));
    assert_int_equal(ask(&latency, "launch 10 1"), 0);
    assert_int_equal(ask(&latency, "sync 1"), 0);
    stop_program(&latency);
}

OWN_DAEMON_TEST(program_runs_without_a_daemon) {
    unsigned long long counts[COUNTS];
    end_daemon(NULL);
    for (int i = 0; i < 2; i++) {
        struct program program = i ? PROGRAM("--latency") : PROGRAM("--best-effort");
        assert_int_equal(ask(&program, "start"), 0);
        assert_int_equal(ask(&program, "start"), 0);
        assert_int_equal(ask(&program, "launch 10 1 3"), 0);
        assert_int_equal(ask(&program, "sync 1"), 0);
        assert_int_equal(ask(&program, "capture 10 2 4"), 0);
        ask_counts(&program, counts);
        assert_int_equal(counts[WAITS], 0);
        assert_int_equal(counts[LAUNCHES], 4);
        stop_program(&program);
        assert_int_equal(count_errors("running without it"), i + 1);
    }
    assert_false(errors_say("--most has no effect"));
    struct program capped = PROGRAM("--best-effort", "--most=30%");
    assert_int_equal(ask(&capped, "start"), 0);
    stop_program(&capped);
    assert_int_equal(count_errors("gridsmith run: --most has no effect: no daemon answers\n"), 1);
    assert_int_equal(count_errors("running without it"), 3);
    struct program silent = PROGRAM("--latency", "true"); /* it never uses CUDA */
    fclose(silent.to);
    fclose(silent.from);
    assert_int_equal(gs_process_exit_code(gs_process_wait(silent.process)), 0);
    assert_int_equal(count_errors("running without it"), 4);
    /* Without `gridsmith run`, the library says it. */
    struct program inner = PROGRAM("--latency", "env", "-u", "GRIDSMITH_NO_DAEMON");
    assert_int_equal(ask(&inner, "start"), 0);
    stop_program(&inner);
    assert_int_equal(count_errors("running without it"), 6);
}

/* Variables that `gridsmith run` would not set. */
DAEMON_TEST(nonsense_in_the_environment_is_reported_and_ignored) {
    static const char *const variables[][3] = {
        {"GRIDSMITH_WEIGHT", "0", "1 to 1000"},        {"GRIDSMITH_HOLD_MS", "-1", "1 to 10000"},
        {"GRIDSMITH_AHEAD_US", "1e3", "1 to 1000000"}, {"GRIDSMITH_SLICE_US", "1000001", "1 to 1000000"},
        {"GRIDSMITH_MEMORY", "16G", "1048576 to "},    {"GRIDSMITH_DEADLINE_US", " 5", "1 to 3600000000"}};
    char wanted[120];
    for (size_t i = 0; i < GS_COUNT(variables); i++)
        setenv(variables[i][0], variables[i][1], 1);
    struct program program = PROGRAM("--best-effort", "--slice=300"); /* an option replaces a variable */
    for (size_t i = 0; i < GS_COUNT(variables); i++)
        unsetenv(variables[i][0]);
    assert_int_equal(ask(&program, "start"), 0);
    assert_int_equal((int)number_of(&program, "weight"), 100);
    assert_int_equal(ask(&program, "alloc 1000000"), 0);
    for (size_t i = 0; i < GS_COUNT(variables); i++) {
        snprintf(wanted, sizeof wanted, "%s is \"%s\", not a number from %s", variables[i][0], variables[i][1],
                 variables[i][2]);
        assert_int_equal(count_errors(wanted), strcmp(variables[i][0], "GRIDSMITH_SLICE_US") != 0);
    }
    stop_program(&program);
}

/* One process cannot take the slots of all. */
DAEMON_TEST(process_that_connects_often_is_refused) {
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = GS_WIRE_LATENCY};
    gs_wire_welcome welcome;
    int sockets[GS_BOARD_SLOTS], fds[3], accepted = 0;
    char wanted[100];
    snprintf(wanted, sizeof wanted, "process %d is connected already", getpid());
    for (size_t i = 0; i < GS_COUNT(sockets); i++) {
        hello.kind = i % 2 ? GS_WIRE_LATENCY : GS_WIRE_BEST_EFFORT;
        sockets[i] = gs_wire_connect(socket_path, &hello);
        bool is_accepted = gs_wire_answer(sockets[i], &welcome, fds, GS_COUNT(fds)) == GS_CLIENT_OK;
        assert_true(is_accepted || strstr(gs_client_message(), wanted));
        for (size_t file = 0; is_accepted && file < GS_COUNT(fds); file++)
            close(fds[file]);
        accepted += is_accepted;
    }
    assert_int_equal(accepted, 2);
    struct program latency = PROGRAM("--latency");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_false(has_work(&latency)); /* it is connected */
    stop_program(&latency);
    for (size_t i = 0; i < GS_COUNT(sockets); i++)
        close(sockets[i]);
}

DAEMON_TEST(driver_whose_streams_cannot_wait_is_ungated) {
    setenv("GRIDSMITH_FAKE", "no-waits", 1);
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort");
    unsetenv("GRIDSMITH_FAKE");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    assert_int_equal(ask(&latency, "launch 10 1"), 0);
    assert_int_equal(ask(&training, "launch 10 1 3"), 0);
    assert_goes_on(&training);
    assert_true(status_says("\"is_ungated\":true"));
    assert_true(errors_say("cuStreamWaitValue32 failed with CUDA error 801"));
    stop_program(&latency);
    stop_program(&training);
}

/* Whether the library finds a driver that nobody names. */
static bool has_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    if (driver)
        dlclose(driver);
    return driver || access("/usr/local/cuda/compat/libcuda.so.1", F_OK) == 0;
}

DAEMON_TEST(driver_that_is_missing_or_old_is_an_error_of_cuda) {
    struct program program = PROGRAM("--latency");
    char before[1024];
    assert_int_equal(ask(&program, "missing"), NOT_FOUND);
    stop_program(&program);
    if (has_driver())
        return;
    snprintf(before, sizeof before, "%s", getenv("GRIDSMITH_DRIVER"));
    setenv("GRIDSMITH_DRIVER", "/nowhere/libcuda.so.1", 1);
    program = start_program((const char *const[]){"--latency", NULL}, "exports");
    setenv("GRIDSMITH_DRIVER", before, 1);
    assert_int_equal(ask(&program, "start"), NO_DEVICE);
    assert_true(errors_say("no NVIDIA driver: no other libcuda.so.1 was found"));
    stop_program(&program);
}

/* Starts a program in the folder above, by a run inside another, without the variable that names the driver. */
static struct program start_nested(const char *above, const char *libraries) {
    static const char nested[] = "cd \"$0/..\" && LD_LIBRARY_PATH=$1 exec \"$2\" run --latency \"$2\" run "
                                 "--best-effort sh -c 'cd / && exec \"$0\"' \"$3\"";
    const char *const words[] = {"env", "-u",      "GRIDSMITH_DRIVER", "sh",          "-c", nested,
                                 above, libraries, GRIDSMITH_PROGRAM,  GATED_PROGRAM, NULL};
    return start_command(words);
}

/* The system looks in such folders, too. */
DAEMON_TEST(driver_may_be_in_a_relative_folder) {
    char folder_of_driver[1024], line[1200], wanted[1200];
    assert_non_null(getenv("GRIDSMITH_DRIVER"));
    snprintf(wanted, sizeof wanted, "%s\n", getenv("GRIDSMITH_DRIVER"));
    snprintf(folder_of_driver, sizeof folder_of_driver, "%s", getenv("GRIDSMITH_DRIVER"));
    *strrchr(folder_of_driver, '/') = '\0';
    struct program program = start_nested(folder_of_driver, strrchr(folder_of_driver, '/') + 1);
    assert_int_equal(ask(&program, "start"), 0);
    read_variable(&program, "GRIDSMITH_DRIVER", line, sizeof line);
    assert_string_equal(line, wanted);
    stop_program(&program);
    if (has_driver())
        return;
    program = start_nested(folder_of_driver, ""); /* the library in front is not taken for a driver */
    read_variable(&program, "GRIDSMITH_DRIVER", line, sizeof line);
    assert_string_equal(line, "\n");
    stop_program(&program);
}

/* ---- hostile programs ---- */

/* A latency program that does what it likes with the memory that it shares. */
struct intruder {
    int socket;
    gs_board *board;
    gs_tenant_page *page;
    const gs_notice *notice;
};

/* Nothing that a program tries changes what the daemon says. */
static const gs_notice *map_notice(int fd) {
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int opened = open(path, O_RDWR | O_CLOEXEC);
    assert_true(mmap(NULL, sizeof(gs_notice), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    assert_true(mmap(NULL, sizeof(gs_notice), PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0) == MAP_FAILED);
    assert_int_not_equal(pwrite(opened, "", 1, 0), 1);
    assert_int_not_equal(ftruncate(fd, 0), 0);
    assert_int_not_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, sizeof(gs_notice)), 0);
    void *memory = mmap(NULL, sizeof(gs_notice), PROT_READ, MAP_SHARED, fd, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_not_equal(mprotect(memory, sizeof(gs_notice), PROT_READ | PROT_WRITE), 0);
    assert_int_not_equal(madvise(memory, sizeof(gs_notice), MADV_REMOVE), 0);
    close(opened);
    return memory;
}

static struct intruder intrude_as(enum gs_wire_kind kind) {
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = kind, .name = "\"\033[2J"};
    hello.has_mps = kind == GS_WIRE_LATENCY;
    gs_wire_welcome welcome;
    int fds[3];
    struct intruder intruder = {.socket = gs_wire_connect(socket_path, &hello)};
    assert_int_equal(gs_wire_answer(intruder.socket, &welcome, fds, 3), GS_CLIENT_OK);
    intruder.board = mmap(NULL, sizeof *intruder.board, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    intruder.page = mmap(NULL, sizeof *intruder.page, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    assert_true(intruder.board != MAP_FAILED && intruder.page != MAP_FAILED);
    assert_int_not_equal(ftruncate(fds[0], 0), 0); /* sealed */
    assert_int_not_equal(ftruncate(fds[1], 0), 0);
    intruder.notice = map_notice(fds[2]);
    for (size_t i = 0; i < GS_COUNT(fds); i++)
        close(fds[i]);
    return intruder;
}

static struct intruder intrude(void) {
    return intrude_as(GS_WIRE_LATENCY);
}

static void leave(struct intruder *intruder) {
    munmap(intruder->board, sizeof *intruder->board);
    munmap(intruder->page, sizeof *intruder->page);
    munmap((void *)(uintptr_t)intruder->notice, sizeof *intruder->notice);
    close(intruder->socket);
}

static void check_status(void) {
    char *json = NULL;
    assert_int_equal(gs_status_request(socket_path, &json, NULL), GS_OK);
    json_error_t wrong;
    json_t *status = json_loads(json, 0, &wrong);
    if (!status)
        fail_msg("%s: %.100s", wrong.text, json + gs_max(0, wrong.position - 60));
    json_decref(status);
    free(json);
}

/* Marks of a slot that says nothing, and of requests that never end. */
OWN_DAEMON_TEST(marks_of_a_hostile_program_expire) {
    struct program training = PROGRAM("--best-effort");
    assert_int_equal(ask(&training, "start"), 0);
    struct intruder intruder = intrude();
    for (uint64_t way = 0; way < 2; way++) {
        gs_board_raise(intruder.board, UINT32_MAX);
        assert_int_equal(ask(&training, "launch 10 1 3"), 0);
        for (int i = 0; i < GIVE_UP_MS / 5 && ask(&training, "query 1") == NOT_READY; i++) {
            intruder.board->slots[5].since_ns += way;
            intruder.board->slots[5].hold_ns = way * 500000000;
            wait_ms(5);
        }
        assert_int_equal(ask(&training, "query 1"), 0);
    }
    leave(&intruder);
    stop_program(&training);
}

/* When flags that are looked at every 20 ms expire. `every_ms`: a new request has each so often; 0: never. */
static uint64_t expires_after_ms(gs_gate_holds *holds, gs_hold_look *look, uint64_t every_ms) {
    enum { LOOK_MS = 20, START_MS = 7, GIVE_UP_AFTER_MS = 100000 };
    *holds = (gs_gate_holds){0};
    for (uint64_t ms = 0; ms < GIVE_UP_AFTER_MS; ms += LOOK_MS) {
        look->now_ns = (START_MS + ms) * NS_PER_MS;
        for (size_t i = 0; i < GS_BOARD_SLOTS; i++)
            look->since_ns[i] = every_ms ? 1 + ms / every_ms : UINT64_MAX;
        if (gs_holds_expire(holds, look) == look->flags)
            return ms;
    }
    return UINT64_MAX;
}

/* The same for one flag, of a program that declared `most_ms` and wants to hold others for `hold_ns`. */
static uint64_t flag_expires_after_ms(uint64_t most_ms, uint64_t hold_ns, uint64_t every_ms) {
    gs_gate_holds holds;
    gs_hold_look look = {.flags = 1 << 9, .slots = 1 << 9};
    look.most_ns[9] = most_ms * NS_PER_MS;
    look.hold_ns[9] = hold_ns;
    return expires_after_ms(&holds, &look, every_ms);
}

TEST(marks_expire_however_long_a_program_wants_to_hold_others) {
    assert_int_equal(flag_expires_after_ms(1000, 0, 0), 20);
    assert_int_equal(flag_expires_after_ms(1000, 100000000, 0), 120);
    assert_int_equal(flag_expires_after_ms(1000, UINT64_MAX, 0), 1020); /* for ever */
    assert_int_equal(flag_expires_after_ms(10000, UINT64_MAX, 0), 10020);
    assert_int_equal(flag_expires_after_ms(100, UINT64_MAX, 0), 120);
    assert_int_equal(flag_expires_after_ms(100, 100000000, 60), 1020); /* requests without a pause */
    assert_int_equal(flag_expires_after_ms(2000, 2000000000, 60), 2020);
    assert_int_equal(flag_expires_after_ms(10000, UINT64_MAX, 60), 10020);
}

TEST(marks_of_no_program_expire_at_once) {
    gs_gate_holds holds = {0};
    gs_hold_look look = {.flags = 0xf0, .slots = 0x1f, .now_ns = 1};
    look.hold_ns[4] = look.most_ns[4] = look.hold_ns[5] = look.most_ns[5] = UINT64_MAX;
    assert_int_equal(gs_holds_expire(&holds, &look), 0xe0);
}

/* Programs that hold others in turn, each for less than its limit: there is a moment without a flag each second. */
TEST(programs_that_hold_others_in_turn_let_some_work_through) {
    enum { LOOK_MS = 20, LAST_MS = 10000, SLOTS = 3, TURN_MS = 100 };
    gs_gate_holds holds = {0};
    gs_hold_look look = {.slots = (1 << SLOTS) - 1};
    uint64_t clear_ms = 0, longest_ms = 0;
    for (size_t i = 0; i < SLOTS; i++)
        look.hold_ns[i] = look.most_ns[i] = (uint64_t)500 * NS_PER_MS;
    for (uint64_t ms = 0; ms < LAST_MS; ms += LOOK_MS) {
        look.now_ns = (1 + ms) * NS_PER_MS;
        look.flags = (uint32_t)1 << ms / TURN_MS % SLOTS;
        look.since_ns[ms / TURN_MS % SLOTS] = 1 + ms / TURN_MS;
        clear_ms = gs_holds_expire(&holds, &look) == look.flags ? ms : clear_ms;
        longest_ms = gs_max_u64(longest_ms, ms - clear_ms);
    }
    assert_int_equal(longest_ms, 1020);
}

/* Writes all flags, or something to the whole board. */
static void write_board(gs_board *board, int way, gs_random *random) {
    unsigned char *bytes = (void *)board;
    if (way == 0)
        gs_board_raise(board, UINT32_MAX);
    for (size_t i = 0; i < sizeof *board && way; i++)
        bytes[i] = way == 1 ? 255 : way == 2 ? 0 : (unsigned char)gs_random_from(random, 0, 255);
}

/* An intruder writes again and again, and is killed. The time until best-effort work is done is printed: docs/run.md
   promises a limit. Afterwards everything works. */
OWN_DAEMON_TEST(intruder_that_ends_delays_others_for_a_limited_time) {
    enum { WAYS = 4, ROUNDS = 100 };
    static const char *const ways[WAYS] = {"all flags", "ones", "zeros", "nonsense"};
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 0);
    struct program latency = PROGRAM("--latency", "--hold=10000"), training = PROGRAM("--best-effort"),
                   usual = PROGRAM("--latency");
    assert_int_equal(ask(&usual, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    for (int way = 0; way < WAYS; way++) {
        struct intruder intruder = intrude();
        write_board(intruder.board, way, &random);
        assert_int_equal(ask(&training, "launch 10 1 100"), 0);
        for (int i = 0; i < ROUNDS; i++, wait_ms(1))
            write_board(intruder.board, way, &random);
        leave(&intruder);
        uint64_t left_ms = now_ms();
        assert_goes_on(&training);
        print_message("%s: done %llu ms after the intruder\n", ways[way], (unsigned long long)(now_ms() - left_ms));
    }
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&latency, "launch 10 1"), 0);
    assert_int_equal(ask(&training, "launch 10 1 5"), 0);
    assert_waits(&training, &latency);
    assert_int_equal(ask(&latency, "sync 1"), 0);
    assert_goes_on(&training);
    stop_program(&latency);
    stop_program(&training);
    stop_program(&usual);
}

/* Which slots belong to programs, and how long these may hold others: what they declared, within limits. */
DAEMON_TEST(notice_has_what_programs_declare) {
    gs_wire_hello hello = {
        .magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = GS_WIRE_LATENCY, .hold_ms = UINT32_MAX};
    gs_wire_welcome welcome;
    int fds[3];
    struct program brief = PROGRAM("--latency", "--hold=200"), training = PROGRAM("--best-effort", "--weight=7");
    assert_int_equal(ask(&brief, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    struct intruder usual = intrude();
    int greedy = gs_wire_connect(socket_path, &hello);
    assert_int_equal(gs_wire_answer(greedy, &welcome, fds, GS_COUNT(fds)), GS_CLIENT_OK);
    for (size_t i = 0; i < GS_COUNT(fds); i++)
        close(fds[i]);
    static const uint64_t holds_ms[] = {200, 1000, 10000};
    for (size_t i = 0; i < GS_COUNT(holds_ms); i++)
        assert_int_equal(atomic_load(&usual.notice->hold_ns[i]), holds_ms[i] * NS_PER_MS);
    assert_int_equal(atomic_load(&usual.notice->slots), 7);
    assert_int_equal(atomic_load(&usual.notice->shares), 1);
    assert_int_equal(atomic_load(&usual.notice->latency), 3);
    assert_int_equal(atomic_load(&usual.notice->best_effort), 1);
    assert_int_equal(atomic_load(&usual.notice->weights), 7);
    close(greedy);
    stop_program(&brief);
    TEST_WAIT(atomic_load(&usual.notice->slots) == 2);
    leave(&usual);
    stop_program(&training);
}

/* Streams still have waits when the last latency program has ended, and then flags are set. */
OWN_DAEMON_TEST(marks_expire_where_no_latency_program_is_left) {
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    struct intruder intruder = intrude_as(GS_WIRE_BEST_EFFORT);
    assert_int_equal(ask(&training, "launch 500000 1 2"), 0);
    stop_program(&latency);
    TEST_WAIT(!atomic_load(&intruder.notice->slots));
    wait_ms(50); /* the daemon clears flags */
    gs_board_raise(intruder.board, UINT32_MAX);
    assert_goes_on(&training);
    leave(&intruder);
    stop_program(&training);
}

/* An intruder says that all best-effort programs have work, and ends. */
OWN_DAEMON_TEST(shares_that_others_write_over_are_repaired) {
    struct program small = PROGRAM("--best-effort", "--weight", "10"), large = PROGRAM("--best-effort");
    assert_int_equal(ask(&small, "start"), 0);
    assert_int_equal(ask(&large, "start"), 0);
    for (int i = 0; i < 3; i++) { /* times are learned */
        assert_int_equal(ask(&small, "launch 2000 1 20"), 0);
        assert_int_equal(ask(&small, "sync 1"), 0);
    }
    struct intruder intruder = intrude();
    for (size_t i = 0; i < GS_BOARD_SLOTS; i++) {
        gs_board_share *share = &intruder.board->shares[i];
        share->busy_until_ns = share->waits_until_ns = share->quiet_until_ns = share->expires_ns = UINT64_MAX;
        for (int lane = 0; lane < GS_SHARE_LANES; lane++)
            share->done[lane] = 12344;
    }
    leave(&intruder);
    double before = -1, waits = 0;
    for (int i = 0; i < GIVE_UP_MS / 100 && waits != before; i++) {
        before = number_of(&small, "share_waits");
        assert_int_equal(ask(&small, "launch 2000 1 4"), 0);
        assert_int_equal(ask(&small, "sync 1"), 0);
        waits = number_of(&small, "share_waits");
        wait_ms(20);
    }
    assert_true(waits == before);
    stop_program(&small);
    stop_program(&large);
}

/* The GPU says how far it is, also for streams of several threads, and all of it is done in the end. */
DAEMON_TEST(others_see_what_the_gpu_has_done) {
    struct program one = PROGRAM("--best-effort"), other = PROGRAM("--best-effort");
    unsigned long long before[COUNTS], after[COUNTS];
    assert_int_equal(ask(&one, "start"), 0);
    assert_int_equal(ask(&other, "start"), 0);
    struct intruder reader = intrude_as(GS_WIRE_BEST_EFFORT);
    assert_int_equal(ask(&one, "launch 2000 1 20"), 0);
    assert_int_equal(ask(&one, "sync 1"), 0);
    ask_counts(&one, before);
    for (int round = 0; round < 2; round++) { /* its times are learned */
        assert_int_equal(ask(&other, "launch 2000 1 20"), 0);
        assert_int_equal(ask(&other, "sync 1"), 0);
    }
    tell(&other, "launch 2000 1 1000");
    for (int round = 0; round < 100; round++) {
        assert_int_equal(ask(&one, "launch 2000 1 4"), 0);
        assert_int_equal(ask(&one, "launch 2000 2 4"), 0);
        ask_counts(&one, after);
        if (after[WRITES] > before[WRITES] + 8)
            break;
    }
    assert_true(after[WRITES] > before[WRITES] + 8);
    assert_int_equal(ask(&one, "sync 1"), 0);
    assert_int_equal(ask(&one, "sync 2"), 0);
    for (uint32_t lane = 0; lane < GS_SHARE_LANES; lane++)
        TEST_WAIT(atomic_load(&reader.board->shares[0].sent[lane]) == atomic_load(&reader.board->shares[0].done[lane]));
    leave(&reader);
    kill_program(&other);
    stop_program(&one);
}

OWN_DAEMON_TEST(nonsense_in_shared_memory_harms_nobody) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 0);
    struct intruder intruder = intrude();
    for (int round = 0; round < 200; round++) {
        unsigned char *parts[] = {(void *)intruder.board, (void *)intruder.page};
        size_t sizes[] = {sizeof *intruder.board, sizeof *intruder.page};
        int part = round % 2;
        for (size_t i = 0; i < sizes[part]; i++)
            parts[part][i] = round % 3 ? (unsigned char)gs_random_from(&random, 0, 255) : 255;
        if (round % 10 == 0)
            check_status();
    }
    send(intruder.socket, "what?", 5, MSG_NOSIGNAL); /* a program says nothing after its hello */
    TEST_WAIT(status_says("\"programs\":[]"));
    leave(&intruder);
}

/* ---- other users ---- */

enum { NOBODY = 65534 };

/* What the daemon says to a process of another user that is in this group. */
static int hello_as_other(gid_t group, enum gs_wire_kind kind) {
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = kind};
    gs_wire_welcome welcome;
    int fds[3], status = -1;
    pid_t other = fork();
    if (other == 0) {
        if (setgroups(1, &group) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
            _exit(255);
        int fd = gs_wire_connect(socket_path, &hello);
        _exit(fd < 0 ? GS_CLIENT_NO_DAEMON : gs_wire_answer(fd, &welcome, fds, GS_COUNT(fds)));
    }
    assert_int_equal(waitpid(other, &status, 0), other);
    return gs_process_exit_code(status);
}

/* A group that is neither that of root nor that of nobody. */
static struct group *find_group(void) {
    struct group *group;
    setgrent();
    while ((group = getgrent()) && (group->gr_gid == 0 || group->gr_gid == NOBODY))
        ;
    return group;
}

/* They can run programs and see the status. Clients, whose kernels run in one process, are those of one user only. */
OWN_DAEMON_TEST(members_of_the_group_may_run_programs) {
    static const enum gs_wire_kind kinds[] = {GS_WIRE_STATUS, GS_WIRE_LATENCY, GS_WIRE_BEST_EFFORT};
    struct stat socket_file;
    const struct group *group = find_group();
    char option[100];
    if (geteuid() != 0 || !group)
        skip(); /* another user is needed */
    gid_t member = group->gr_gid;
    chmod(folder, 0711);
    assert_int_equal(hello_as_other(member, GS_WIRE_BEST_EFFORT), GS_CLIENT_NO_DAEMON); /* the socket is the user's */
    end_daemon(NULL);
    snprintf(option, sizeof option, "--group=%s", group->gr_name);
    start_daemon(option);
    assert_int_equal(stat(socket_path, &socket_file), 0);
    assert_int_equal(socket_file.st_mode & 0777, 0660);
    assert_int_equal(socket_file.st_gid, member);
    for (size_t i = 0; i < GS_COUNT(kinds); i++) {
        assert_int_equal(hello_as_other(member, kinds[i]), GS_CLIENT_OK);
        assert_int_equal(hello_as_other(NOBODY, kinds[i]), GS_CLIENT_NO_DAEMON);
    }
    assert_int_equal(hello_as_other(member, GS_WIRE_HELLO), GS_CLIENT_REFUSED);
    chmod(socket_path, 0666); /* whatever the mode of the socket is */
    assert_int_equal(hello_as_other(NOBODY, GS_WIRE_BEST_EFFORT), GS_CLIENT_REFUSED);
    chmod(folder, 0700);
}

/* ---- containers ---- */

static const char container[] = GRIDSMITH_SOURCE "/tests/gate/container.sh";

/* What a container is given: the program, the library, the driver, and the folder of the daemon's socket. The fake
   driver plays a GPU whose description is built in. */
struct image {
    char root[100], command[300], library[300], program[300], driver[1100], socket[200];
};

static struct image make_image(const char *name, const char *socket_folder) {
    struct image image;
    snprintf(image.root, sizeof image.root, "%s/%s", folder, name);
    snprintf(image.command, sizeof image.command, "%s:/opt/gridsmith", GRIDSMITH_PROGRAM);
    snprintf(image.library, sizeof image.library, "%.*s/gate:/opt/gate",
             (int)(strrchr(GRIDSMITH_PROGRAM, '/') - GRIDSMITH_PROGRAM), GRIDSMITH_PROGRAM);
    snprintf(image.program, sizeof image.program, "%s:/opt/program", GATED_PROGRAM);
    snprintf(image.driver, sizeof image.driver, "%s:/opt/driver/libcuda.so.1", getenv("GRIDSMITH_DRIVER"));
    snprintf(image.socket, sizeof image.socket, "%s:/run/gridsmith", socket_folder);
    mkdir(image.root, 0700);
    return image;
}

/* Runs a program in a container. Its environment says what `gridsmith run` would. */
static struct program start_in_container(const struct image *image, const char *class) {
    char variable[60];
    snprintf(variable, sizeof variable, "GRIDSMITH_CLASS=%s", class);
    const char *const words[] = {"sh",
                                 container,
                                 image->root,
                                 image->library,
                                 image->program,
                                 image->driver,
                                 image->socket,
                                 "--",
                                 "env",
                                 "GRIDSMITH_SOCKET=/run/gridsmith/sock",
                                 "GRIDSMITH_DRIVER=/opt/driver/libcuda.so.1",
                                 "GRIDSMITH_FAKE=h200",
                                 "LD_LIBRARY_PATH=/opt/gate",
                                 variable,
                                 "/opt/program",
                                 NULL};
    return start_command(words);
}

/* The same, with `gridsmith run` in the container. */
static struct program run_in_container(const struct image *image, const char *class) {
    const char *const words[] = {"sh",
                                 container,
                                 image->root,
                                 image->command,
                                 image->library,
                                 image->program,
                                 image->driver,
                                 image->socket,
                                 "--",
                                 "env",
                                 "GRIDSMITH_DRIVER=/opt/driver/libcuda.so.1",
                                 "GRIDSMITH_FAKE=h200",
                                 "/opt/gridsmith",
                                 "run",
                                 class,
                                 "--hold=10000",
                                 "--socket=/run/gridsmith/sock",
                                 "--",
                                 "/opt/program",
                                 NULL};
    return start_command(words);
}

static bool has_containers(const struct image *image) {
    const char *const words[] = {"sh", container, image->root, "--", "true", NULL};
    pid_t process;
    return gs_process_try(&(gs_process_options){.words = words, .errors = "/dev/null"}, &process) == 0 &&
           gs_process_exit_code(gs_process_wait(process)) == 0;
}

/* The id of the only program of a class, as the daemon sees it. */
static pid_t process_of(const char *class) {
    char *json = NULL;
    json_t *each;
    size_t i;
    pid_t found = -1;
    assert_int_equal(gs_status_request(socket_path, &json, NULL), GS_OK);
    json_t *status = json_loads(json, 0, NULL);
    json_array_foreach(json_object_get(status, "programs"), i, each) {
        if (strcmp(json_string_value(json_object_get(each, "class")), class) == 0)
            found = (pid_t)json_integer_value(json_object_get(each, "process"));
    }
    json_decref(status);
    free(json);
    return found;
}

/* A latency program and a best-effort program, each in a container with the socket of a daemon outside, wait for each
   other as programs on one machine do. */
DAEMON_TEST(programs_in_containers_wait_for_each_other) {
    struct image serving = make_image("serving", folder), training_image = make_image("training", folder);
    if (!has_containers(&serving))
        skip(); /* this machine does not allow namespaces */
    struct program latency = run_in_container(&serving, "--latency"),
                   training = start_in_container(&training_image, "best-effort");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    struct program holder = {.process = process_of("latency")};
    assert_true(holder.process > 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(&latency, "launch 10 1"), 0);
        assert_true(has_work(&holder));
        assert_int_equal(ask(&training, "launch 10 1 5"), 0);
        assert_waits(&training, &holder);
        assert_int_equal(ask(&latency, "sync 1"), 0);
        assert_goes_on(&training);
    }
    stop_program(&latency);
    stop_program(&training);
}

/* No daemon has the socket any more. */
static void wait_for_lock(void) {
    char path[80];
    snprintf(path, sizeof path, "%s.lock", socket_path);
    int lock = open(path, O_RDWR | O_CLOEXEC);
    TEST_WAIT(flock(lock, LOCK_EX | LOCK_NB) == 0);
    close(lock);
}

/* The daemon in a container of its own does not see the processes of others: they have no number there. */
OWN_DAEMON_TEST(daemon_in_a_container_serves_programs_of_others) {
    struct image serving = make_image("daemon", folder), others[4];
    struct program programs[GS_COUNT(others)];
    end_daemon(NULL);
    if (!has_containers(&serving))
        skip();
    const char *const words[] = {"sh",
                                 container,
                                 serving.root,
                                 serving.command,
                                 serving.socket,
                                 "--",
                                 "/opt/gridsmith",
                                 "serve",
                                 "--device",
                                 "host",
                                 "--no-mps",
                                 "--profiles",
                                 "",
                                 "--cache",
                                 "/tmp/cache",
                                 "--socket",
                                 "/run/gridsmith/sock",
                                 NULL};
    const gs_process_options options = {.words = words, .output = "/dev/null", .end_signal = SIGKILL};
    assert_int_equal(gs_process_try(&options, &the_daemon), 0);
    TEST_WAIT(is_serving());
    for (size_t i = 0; i < GS_COUNT(others); i++) {
        char name[20];
        snprintf(name, sizeof name, "other%zu", i);
        others[i] = make_image(name, folder);
        programs[i] = i ? start_in_container(&others[i], "best-effort") : run_in_container(&others[i], "--latency");
        assert_int_equal(ask(&programs[i], "start"), 0);
    }
    assert_int_equal(process_of("best-effort"), 0);
    struct program holder = {.process = 0};
    assert_int_equal(ask(&programs[0], "launch 10 1"), 0);
    for (size_t i = 1; i < GS_COUNT(others); i++)
        assert_int_equal(ask(&programs[i], "launch 10 1 5"), 0);
    for (size_t i = 1; i < GS_COUNT(others); i++)
        assert_waits(&programs[i], &holder);
    assert_int_equal(ask(&programs[0], "sync 1"), 0);
    for (size_t i = 0; i < GS_COUNT(others); i++) {
        assert_goes_on(&programs[i]);
        stop_program(&programs[i]);
    }
    assert_false(errors_say("running without"));
    end_process(the_daemon, SIGKILL); /* unshare ignores SIGTERM; what it has started is killed with it, soon */
    the_daemon = 0;
    wait_for_lock();
}

/* ---- many programs that come and go ---- */

static void act_at_random(gs_random *random, struct program *program) {
    static const char *const commands[] = {
        "launch 10 1 20", "launch 300 2",   "sync 1",    "sync 2", "sync_all", "threads 2",      "record 1", "wait",
        "query 2",        "capture 10 3 4", "alloc 100", "own 10", "counts",   "launch_ex 10 1", "measure 5"};
    static const int signals[] = {SIGSTOP, SIGCONT, SIGCONT, SIGKILL};
    if (gs_random_chance(random, 70))
        tell(program, commands[gs_random_from(random, 0, GS_COUNT(commands) - 1)]);
    else
        kill(program->process, signals[gs_random_from(random, 0, GS_COUNT(signals) - 1)]);
}

static struct program start_at_random(gs_random *random) {
    struct program program = gs_random_chance(random, 50) ? PROGRAM("--latency", "--hold", "50")
                                                          : PROGRAM("--best-effort", "--memory", "1G");
    fcntl(fileno(program.to), F_SETFL, O_NONBLOCK); /* it may be stopped, and never read */
    tell(&program, "start");
    return program;
}

/* How many descriptors a process has; `names` gets what they are. */
static size_t list_descriptors(pid_t process, char *names, size_t size) {
    char path[300], target[200];
    size_t count = 0, used = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", process);
    DIR *listing = opendir(path);
    for (struct dirent *entry; listing && (entry = readdir(listing)); count++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%s", process, entry->d_name);
        ssize_t length = readlink(path, target, sizeof target);
        if (length > 0 && used < size)
            used += (size_t)snprintf(names + used, size - used, "%s=%.*s ", entry->d_name, (int)length, target);
    }
    if (listing)
        closedir(listing);
    return count;
}

OWN_DAEMON_TEST(programs_that_come_and_go_leave_nothing) {
    enum { AT_ONCE = 6 };
    uint64_t rounds = test_number("GRIDSMITH_RUNS", 100000) / 1000;
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 0);
    struct program programs[AT_ONCE];
    static char at_first[10000], at_last[10000];
    struct intruder first = intrude(); /* makes the board, which stays */
    size_t before = list_descriptors(the_daemon, at_first, sizeof at_first), after = SIZE_MAX;
    for (int i = 0; i < AT_ONCE; i++)
        programs[i] = start_at_random(&random);
    for (uint64_t round = 0; round < rounds; round++) {
        size_t at = (size_t)gs_random_from(&random, 0, AT_ONCE - 1);
        for (int i = 0; i < 8; i++)
            act_at_random(&random, &programs[gs_random_from(&random, 0, AT_ONCE - 1)]);
        wait_ms(
            (int)gs_random_from(&random, 0, 40)); /* some are killed before they have begun, some in the midst of it */
        kill_program(&programs[at]);
        programs[at] = start_at_random(&random);
    }
    for (int i = 0; i < AT_ONCE; i++)
        kill_program(&programs[i]);
    for (int i = 0; i < GIVE_UP_MS / 10 && after > before; i++, wait_ms(10))
        after = list_descriptors(the_daemon, at_last, sizeof at_last);
    if (!after || after > before)
        fail_msg("%s became %s", at_first, at_last);
    leave(&first);
    check_waiting(NULL); /* and everything works */
}

/* ---- MPS ---- */

/* NVIDIA's control program, as a script that writes down what it is told. */
static void make_control(const char *text) {
    char path[100];
    snprintf(path, sizeof path, "%s/nvidia-cuda-mps-control", folder);
    FILE *file = fopen(path, "w");
    fprintf(file, "#!/bin/sh\n%s\n", text);
    fclose(file);
    chmod(path, 0700);
}

static const char obedient[] = "if [ \"$1\" = -d ]; then touch \"$CUDA_MPS_PIPE_DIRECTORY/control\"; "
                               "else read word; i=0; while [ -e \"${0%/*}/busy\" ] && [ $i -lt 2400 ]; do "
                               "sleep 0.05; i=$((i + 1)); done; "
                               "echo \"$word\" >> \"${0%/*}/told\"; fi";

static bool is_told_to_quit(void) {
    char path[100], line[20] = "";
    snprintf(path, sizeof path, "%s/told", folder);
    FILE *file = fopen(path, "r");
    bool is_quit = file && fgets(line, sizeof line, file) && strcmp(line, "quit\n") == 0;
    if (file)
        fclose(file);
    return is_quit && unlink(path) == 0;
}

/* The folder that the status names, and whether it is still there. */
static void read_mps_folder(char *path, size_t size) {
    char *json = NULL;
    assert_int_equal(gs_status_request(socket_path, &json, NULL), GS_OK);
    json_t *status = json_loads(json, 0, NULL);
    snprintf(path, size, "%s", json_string_value(json_object_get(status, "mps_folder")));
    json_decref(status);
    free(json);
}

/* What looks like an MPS to programs, and a daemon that knows no command. */
static void begin_with_mps(void) {
    char mps[100], control[120];
    snprintf(mps, sizeof mps, "%s/mps", folder);
    snprintf(control, sizeof control, "%s/control", mps);
    mkdir(mps, 0700);
    assert_int_equal(close(open(control, O_CREAT | O_WRONLY, 0600)), 0);
    end_daemon(NULL);
    start_daemon(NULL);
    setenv("CUDA_MPS_PIPE_DIRECTORY", mps, 1);
}

/* A server with a stream of requests holds its gaps by this. Of 1 ms, a request would wait for more than 0.15 ms. */
OWN_DAEMON_TEST(long_kernels_tell_what_requests_lose) {
    begin_with_mps();
    struct intruder latency = intrude();
    struct program training = PROGRAM("--best-effort");
    const _Atomic uint64_t *lost_ns = &latency.board->shares[0].lost_ns;
    assert_int_equal(ask(&training, "start"), 0);
    assert_int_equal(atomic_load(&latency.board->shares[0].works_until_ns), 0);
    do_requests(&training, "launch 1000 1 20", 20);
    TEST_WAIT(atomic_load(lost_ns) / 1000 == 850);
    assert_true(atomic_load(&latency.board->shares[0].works_until_ns) > 0);
    stop_program(&training);
    TEST_WAIT(atomic_load(lost_ns) == 0);
    leave(&latency);
    unsetenv("CUDA_MPS_PIPE_DIRECTORY");
}

static void add_requests(gs_tenant_page *page, uint64_t ns, uint32_t count, bool are_alone) {
    atomic_fetch_add(&page->requests, count);
    atomic_fetch_add(&page->request_times[gs_tenant_bucket(ns)], count);
    atomic_fetch_add(&page->recent_times[0][gs_tenant_bucket(ns)], count);
    atomic_fetch_add(&page->beside_times[gs_tenant_bucket(ns)], are_alone ? 0 : count);
    for (uint32_t i = 0; are_alone && i < count; i++)
        atomic_store(&page->alone_ns[atomic_fetch_add(&page->alone, 1) % GS_TENANT_ALONE], ns);
}

/* Runs a program that works while so many more requests take so long, and what `run` says of it. */
static void work_beside(const struct intruder *latency, double ms, uint32_t requests, const char *words) {
    struct program training = PROGRAM("--best-effort");
    assert_int_equal(ask(&training, "start"), 0);
    if (!errors_say(words))
        fail_msg("\"%s\" was not said", words);
    do_requests(&training, "launch 1000 1 20", 20);
    add_requests(latency->page, (uint64_t)(ms * NS_PER_MS), requests, false);
    stop_program(&training);
    TEST_WAIT(!status_says("\"class\":\"best-effort\""));
}

/* Kernels that cannot be stopped hold up requests, or leave room for them. */
OWN_DAEMON_TEST(programs_that_delay_no_request_keep_mps) {
    for (int are_late = 0; are_late < 2; are_late++) {
        begin_with_mps();
        struct intruder latency = intrude();
        add_requests(latency.page, NS_PER_MS, 40, true);
        work_beside(&latency, are_late ? 1.5 : 1.15, 110, "by MPS: the daemon does not know this command yet");
        assert_true(
            status_says(are_late ? "\"mps_us\":491.5,\"next\":\"time slices\"" : "\"mps_us\":0.0,\"next\":\"MPS\""));
        work_beside(&latency, 1, 1,
                    are_late ? "by time slices: requests lose 0.49 ms beside it under MPS, about 0.15 ms by time"
                             : "by MPS: requests lose 0.00 ms beside it under MPS, about 0.15 ms by time slices (not");
        leave(&latency);
    }
    unsetenv("CUDA_MPS_PIPE_DIRECTORY");
}

/* Time slices are tried, and kept if requests lose less. */
OWN_DAEMON_TEST(better_way_is_kept) {
    for (int are_better = 0; are_better < 2; are_better++) {
        begin_with_mps();
        struct intruder latency = intrude();
        add_requests(latency.page, 2 * NS_PER_MS, 40, true);
        work_beside(&latency, 6, 110, "by MPS: the daemon does not know this command yet");
        work_beside(&latency, are_better ? 3 : 7, 110,
                    "by time slices: requests lose 4.00 ms beside it under MPS, about 0.15 ms by time slices (not");
        work_beside(&latency, 2, 1,
                    are_better ? "by time slices: requests lose 3.87 ms beside it under MPS, 0.98 ms by time slices"
                               : "by MPS: requests lose 3.87 ms beside it under MPS, 5.05 ms by time slices");
        leave(&latency);
    }
    unsetenv("CUDA_MPS_PIPE_DIRECTORY");
}

/* Whoever looks at slow requests sees whether another start would help. */
OWN_DAEMON_TEST(slow_ways_are_shown) {
    static const struct {
        double mps_ms, slices_ms; /* what requests take beside it */
        bool has_mps;
        const char *said;
    } cases[] = {
        {6, 7, true,
         "requests lose 3.87 ms beside it under MPS, 5.05 ms by time slices; WARNING: both ways are slow\n"},
        {6, 2, false, "requests lose 3.87 ms beside it under MPS, 0.00 ms by time slices\n"},
        {2, 2, true, NULL},
    };
    char text[4000];
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        begin_with_mps();
        struct intruder latency = intrude();
        add_requests(latency.page, 2 * NS_PER_MS, 40, true);
        work_beside(&latency, cases[i].mps_ms, 110, "by MPS");
        if (cases[i].mps_ms > 2)
            work_beside(&latency, cases[i].slices_ms, 110, "by time slices");
        struct program training = PROGRAM("--best-effort");
        assert_int_equal(ask(&training, "start"), 0);
        do_requests(&training, "launch 1000 1 20", 20);
        add_requests(latency.page, (uint64_t)(cases[i].mps_ms * NS_PER_MS), 110, false);
        read_top(text, sizeof text);
        assert_non_null(strstr(text, cases[i].has_mps ? " best-effort MPS  " : " best-effort slices "));
        bool is_said = strstr(text, cases[i].said ? cases[i].said : "beside it under MPS");
        if (is_said != (cases[i].said != NULL) || is_said != (strstr(text, "  requests lose 4.") != NULL))
            fail_msg("case %zu: %s", i, text);
        stop_program(&training);
        leave(&latency);
    }
    unsetenv("CUDA_MPS_PIPE_DIRECTORY");
}

/* It launches much, and waits for it: requests are beside it all the time. */
DAEMON_TEST(programs_work_until_their_launches_are_done) {
    struct intruder latency = intrude();
    struct program training = PROGRAM("--best-effort");
    const _Atomic uint64_t *until_ns = &latency.board->shares[0].works_until_ns;
    assert_int_equal(ask(&training, "start"), 0);
    do_requests(&training, "launch 20000 1", 10);
    assert_int_equal(ask(&training, "launch 20000 1 30"), 0);
    usleep(400000);
    assert_true(atomic_load(until_ns) > (uint64_t)gs_now_ns());
    assert_int_equal(ask(&training, "sync 1"), 0);
    TEST_WAIT(atomic_load(until_ns) < (uint64_t)gs_now_ns());
    stop_program(&training);
    leave(&latency);
}

/* A program that is connected, and does not work, is no neighbor. */
OWN_DAEMON_TEST(requests_beside_work_are_compared_with_those_alone) {
    struct program latency = PROGRAM("--latency");
    struct intruder training = intrude_as(GS_WIRE_BEST_EFFORT);
    assert_int_equal(ask(&latency, "start"), 0);
    do_requests(&latency, "launch 10000 1", 40);
    atomic_store(&training.board->shares[0].works_until_ns, UINT64_MAX);
    do_requests(&latency, "launch 40000 1", 90);
    assert_false(status_says("\"lost_us\":")); /* too few to tell */
    do_requests(&latency, "launch 40000 1", 20);
    assert_true(request_number(&latency, "lost_us") > 0);
    stop_program(&latency);
    leave(&training);
}

/* What was learned of a command decides how it is run the next time. */
OWN_DAEMON_TEST(programs_with_long_kernels_get_time_slices) {
    char text[4000];
    begin_with_mps();
    struct program latency = PROGRAM("--latency", "--deadline=500us"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    do_requests(&training, "launch 1000 1 20", 20);
    assert_true(status_says("\"sharing\":\"MPS\"") && !status_says("\"sharing\":\"time slices\""));
    assert_true(status_says("\"why\":\"its machine code is not known\""));
    assert_true(status_says("\"stop_us\":1000.0"));
    read_top(text, sizeof text);
    assert_non_null(strstr(text, "1000.0 us at a time: kernel_1000; not stopped: its machine code is not known; "
                                 "WARNING: breaks the deadline of "));
    assert_non_null(strstr(text, "  deadline 0.50 ms, 0 later, up to 1.00 ms beside the longest kernels\n"));
    stop_program(&training);
    TEST_WAIT(status_says("\"next\":\"time slices\""));
    training = PROGRAM("--best-effort");
    assert_int_equal(ask(&training, "start"), 0);
    assert_true(
        errors_say("by time slices: requests lose about 1.00 ms beside it under MPS (not measured), about 0.15"));
    assert_true(status_says("\"sharing\":\"time slices\",\"sharing_why\":\"requests lose about 1.00 ms"));
    stop_program(&training);
    training = PROGRAM("--best-effort", "--mps");
    assert_int_equal(ask(&training, "start"), 0);
    TEST_WAIT(!status_says("\"sharing\":\"time slices\""));
    assert_true(status_says("\"sharing_why\":\"--mps\""));
    struct program second = PROGRAM("--best-effort"); /* as the first */
    assert_int_equal(ask(&second, "start"), 0);
    assert_false(status_says("\"sharing\":\"time slices\""));
    assert_true(status_says("\"sharing_why\":\"other best-effort programs use it\""));
    stop_program(&second);
    stop_program(&training);
    stop_program(&latency);
    unsetenv("CUDA_MPS_PIPE_DIRECTORY");
}

/* The key by which the daemon remembers a command that begins so. */
static void read_key(const char *const *words, char *key, int size) {
    struct program program = start_program(words, NULL);
    read_variable(&program, "GRIDSMITH_COMMAND", key, size);
    stop_program(&program);
}

DAEMON_TEST(commands_are_remembered_without_their_numbers) {
    static const struct {
        const char *one[6], *other[6];
        bool is_same;
    } pairs[] = {{{"--best-effort", "nice", "--adjustment=0"}, {"--best-effort", "nice", "--adjustment=1"}, true},
                 {{"--best-effort", "nice", "-n", "0"}, {"--best-effort", "nice", "-n", "1"}, true},
                 {{"--best-effort", "nice", "-n", "0"}, {"--best-effort", "nice", "--adjustment=0"}, false},
                 {{"--best-effort", "nice", "-n", "0"}, {"--latency", "nice", "-n", "0"}, false},
                 {{"--best-effort", "env", "-u", "-1.5e-3"}, {"--best-effort", "env", "-u", "7"}, true},
                 {{"--best-effort", "env", "-u", "1x"}, {"--best-effort", "env", "-u", "2x"}, false},
                 {{"--best-effort", "env", "-u", "1"}, {"--best-effort", "env", "-u", "#"}, false},
                 {{"--best-effort", "env", "-u", "nan"}, {"--best-effort", "env", "-u", "inf"}, false}};
    char keys[2][40];
    for (size_t i = 0; i < GS_COUNT(pairs); i++) {
        read_key(pairs[i].one, keys[0], sizeof keys[0]);
        read_key(pairs[i].other, keys[1], sizeof keys[1]);
        if ((strcmp(keys[0], keys[1]) == 0) != pairs[i].is_same)
            fail_msg("pair %zu: %s and %s", i, keys[0], keys[1]);
    }
}

static size_t count_programs(void) {
    char *json = NULL;
    size_t count = 0;
    assert_int_equal(gs_status_request(socket_path, &json, NULL), GS_OK);
    for (const char *at = json; (at = strstr(at, "\"class\":")); at++)
        count++;
    free(json);
    return count;
}

/* Does requests until most of them are a stream. On a busy machine some come late. */
static void do_stream(const struct program *latency) {
    for (int i = 0; i < 100 && request_number(latency, "eager_percent") < 50; i++)
        assert_int_equal(ask(latency, "tokens 2000 1 50"), 0);
    assert_true(request_number(latency, "eager_percent") >= 50);
}

/* With pauses, in which others get the GPU. */
static void do_requests_apart(const struct program *latency, const char *launch, int count) {
    for (int i = 0; i < count; i++, wait_ms(2))
        do_requests(latency, launch, 1);
}

/* Runs a latency program with such requests, or a stream of them, beside kernels of 1 ms, and what they share the GPU
 * by. */
static void run_both(const char *request, int requests, const char *sharing) {
    char words[100];
    size_t programs = count_programs();
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    if (request)
        do_requests_apart(&latency, request, requests);
    else
        do_stream(&latency);
    do_requests(&training, "launch 1000 1 20", 20);
    const char *const both[] = {"MPS", "time slices"};
    for (size_t i = 0; i < GS_COUNT(both); i++) {
        snprintf(words, sizeof words, "\"sharing\":\"%s\"", both[i]);
        assert_int_equal(status_says(words), strcmp(both[i], sharing) == 0);
    }
    stop_program(&training);
    stop_program(&latency);
    TEST_WAIT(count_programs() <= programs);
}

/* Both programs choose the same the next time, whoever ends first. */
OWN_DAEMON_TEST(latency_programs_share_as_their_neighbors_will) {
    begin_with_mps();
    run_both("launch 10 1", 5, "MPS");
    run_both("launch 10 1", 5, "time slices");
    assert_true(errors_say("by time slices: as its neighbors do"));
    assert_true(errors_say("by MPS: the daemon does not know this command yet"));
    run_both("launch 5000 1 20", 2, "time slices");
    run_both("launch 5000 1 20", 2, "time slices"); /* requests of many launches have keepers */
    begin_with_mps();
    run_both("launch 5000 1 20", 2, "MPS");
    run_both("launch 5000 1 20", 2, "time slices");
    begin_with_mps();
    run_both(NULL, 0, "MPS");
    run_both(NULL, 0, "time slices"); /* and so have streams */
    begin_with_mps();
    struct program other = PROGRAM("--best-effort", "--mps");
    assert_int_equal(ask(&other, "start"), 0);
    run_both("launch 10 1", 5, "MPS");
    stop_program(&other);
    TEST_WAIT(status_says("\"programs\":[]"));
    struct program training = PROGRAM("--best-effort");
    assert_int_equal(ask(&training, "start"), 0);
    assert_true(status_says("\"sharing\":\"time slices\"")); /* the other one has not worked */
    stop_program(&training);
    begin_with_mps();
    other = PROGRAM("--best-effort", "--mps");
    assert_int_equal(ask(&other, "start"), 0);
    struct program latency = PROGRAM("--latency");
    assert_int_equal(ask(&latency, "start"), 0);
    do_requests(&other, "launch 1000 1 20", 20);
    stop_program(&latency);
    TEST_WAIT(count_programs() <= 1);
    run_both("launch 10 1", 5, "MPS");
    stop_program(&other);
    TEST_WAIT(status_says("\"programs\":[]"));
    run_both("launch 10 1", 5, "MPS");
    unsetenv("CUDA_MPS_PIPE_DIRECTORY");
}

/* Copies that load a model, and requests that warm it up, come one after the other. The requests that follow do not. */
OWN_DAEMON_TEST(a_server_that_has_loaded_its_model_has_no_stream) {
    enum { REQUESTS = 40 };
    begin_with_mps();
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    assert_int_equal(ask(&latency, "tokens 2000 1 100"), 0);
    do_stream(&latency);
    do_requests_apart(&latency, "launch 10 1", REQUESTS);
    assert_true(request_number(&latency, "eager_percent") < 50);
    do_requests(&training, "launch 1000 1 20", 20);
    stop_program(&latency);
    stop_program(&training);
    TEST_WAIT(status_says("\"programs\":[]"));
    run_both("launch 10 1", 5, "time slices");
    unsetenv("CUDA_MPS_PIPE_DIRECTORY");
}

/* Requests of many launches stay such if the host pauses in their midst. */
DAEMON_TEST(pauses_do_not_make_requests_short) {
    enum { REQUESTS = 4, PARTS = 3 };
    struct program latency = PROGRAM("--latency");
    assert_int_equal(ask(&latency, "start"), 0);
    for (int i = 0; i < REQUESTS; i++) {
        for (int part = 0; part < PARTS; part++, wait_ms(2))
            assert_int_equal(ask(&latency, "launch 10 1 7"), 0);
        assert_int_equal(ask(&latency, "sync 1"), 0);
    }
    assert_int_equal((int)request_number(&latency, "eager_percent"), 100);
    stop_program(&latency);
}

/* MPS quits when the daemon ends or is killed. Programs learn its folder. */
OWN_DAEMON_TEST(mps_begins_and_ends_with_the_daemon) {
    char path[300], before[1000], mps[120], busy[100], line[200];
    static const int signals[] = {SIGTERM, SIGKILL};
    end_daemon(NULL);
    snprintf(before, sizeof before, "%s", getenv("PATH"));
    snprintf(path, sizeof path, "%s:/bin:/usr/bin", folder);
    snprintf(busy, sizeof busy, "%s/busy", folder);
    setenv("PATH", path, 1);
    make_control(obedient);
    for (size_t i = 0; i < GS_COUNT(signals); i++) {
        start_daemon("--mps");
        read_mps_folder(mps, sizeof mps);
        assert_int_equal(access(mps, F_OK), 0);
        struct program program = PROGRAM("--best-effort", "--sms", "50%");
        ask_line(&program, "environment CUDA_MPS_PIPE_DIRECTORY", line, sizeof line);
        assert_int_equal(strncmp(line, mps, strlen(mps)), 0);
        ask_line(&program, "environment CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", line, sizeof line);
        assert_string_equal(line, "50.00\n");
        ask_line(&program, "environment CUDA_MPS_CLIENT_PRIORITY", line, sizeof line);
        assert_string_equal(line, "1\n");
        stop_program(&program);
        program = PROGRAM("--best-effort", "--sms", "1"); /* of how many, only a daemon on the GPU knows */
        ask_line(&program, "environment CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", line, sizeof line);
        assert_string_equal(line, "\n");
        stop_program(&program);
        assert_int_equal(count_errors("gridsmith run: --sms has no effect: no daemon on the GPU says how many it has; "
                                      "give a part, such as 50%\n"),
                         (int)i + 1);
        close(open(busy, O_CREAT | O_WRONLY, 0600)); /* programs use MPS */
        end_process(the_daemon, signals[i]);
        start_daemon(NULL); /* meanwhile another daemon can be started */
        end_process(the_daemon, SIGTERM);
        the_daemon = 0;
        assert_int_equal(access(mps, F_OK), 0);
        unlink(busy);
        TEST_WAIT(access(mps, F_OK) != 0);
        assert_true(is_told_to_quit());
    }
    make_control("exit 1");
    const char *const words[] = {GRIDSMITH_PROGRAM, "serve",    "--device",  "host",
                                 "--mps",           "--socket", socket_path, NULL};
    assert_int_equal(gs_process_try(&(gs_process_options){.words = words, .output = "/dev/null"}, &the_daemon), 0);
    assert_int_equal(gs_process_exit_code(gs_process_wait(the_daemon)), 3);
    the_daemon = 0;
    setenv("PATH", before, 1);
    snprintf(path, sizeof path, "%s/nvidia-cuda-mps-control", folder);
    unlink(path);
}

/* Nobody answers at its pipe any more: programs work, and the daemon ends and leaves nothing. */
OWN_DAEMON_TEST(mps_that_has_died_is_not_waited_for) {
    char path[300], before[1000], mps[120];
    end_daemon(NULL);
    snprintf(before, sizeof before, "%s", getenv("PATH"));
    snprintf(path, sizeof path, "%s:/bin:/usr/bin", folder);
    setenv("PATH", path, 1);
    make_control("[ \"$1\" = -d ]");
    start_daemon("--mps");
    read_mps_folder(mps, sizeof mps);
    assert_int_equal(access(mps, F_OK), 0);
    check_waiting(NULL);
    end_process(the_daemon, SIGTERM);
    the_daemon = 0;
    TEST_WAIT(access(mps, F_OK) != 0);
    setenv("PATH", before, 1);
    snprintf(path, sizeof path, "%s/nvidia-cuda-mps-control", folder);
    unlink(path);
}

/* ---- keepers ---- */

static int count_keepers(const struct program *latency) {
    return (int)request_number(latency, "keepers");
}

/* How many of the fake driver run now. */
static int running_keepers(const struct program *latency) {
    unsigned long long counts[COUNTS];
    ask_counts(latency, counts);
    return (int)counts[KEEPERS];
}

/* With keepers that end only when they are told to, among others. */
static struct program start_latency(const char *fake, const char *hold) {
    setenv("GRIDSMITH_FAKE", fake, 1);
    struct program latency = PROGRAM("--latency", hold);
    unsetenv("GRIDSMITH_FAKE");
    assert_int_equal(ask(&latency, "start"), 0);
    return latency;
}

/* Others learn of work within some time. */
static void do_work(const struct program *training) {
    do_requests(training, "launch 1000 1 20", 1);
    wait_ms(10);
}

#define EAGER "launch 10 1 20"

/* A request beside work, which has a keeper. */
static void begin_kept(const struct program *latency, const struct program *training, const char *request) {
    int before = count_keepers(latency);
    for (int i = 0; i < GIVE_UP_MS / 10 && count_keepers(latency) == before; i++) {
        assert_int_equal(ask(latency, "sync 1"), 0);
        do_work(training);
        assert_int_equal(ask(latency, request), 0);
    }
    assert_true(count_keepers(latency) > before);
}

static void begin_kept_request(const struct program *latency, const struct program *training) {
    begin_kept(latency, training, EAGER);
}

DAEMON_TEST(keepers_are_for_requests_beside_time_slices) {
    struct program latency = PROGRAM("--latency"), training;
    assert_int_equal(ask(&latency, "start"), 0);
    do_requests(&latency, EAGER, 5);
    training = PROGRAM("--best-effort");
    assert_int_equal(ask(&training, "start"), 0);
    TEST_WAIT(status_says("\"class\":\"best-effort\""));
    do_requests(&latency, EAGER, 5);
    assert_int_equal(count_keepers(&latency), 0);
    begin_kept_request(&latency, &training);
    stop_program(&latency);
    stop_program(&training);
}

/* However often it is tried. */
static void check_no_keepers(const char *request) {
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    for (int i = 0; i < 20; i++) {
        do_work(&training);
        do_requests_apart(&latency, request, 1);
    }
    assert_int_equal(count_keepers(&latency), 0);
    stop_program(&latency);
    stop_program(&training);
}

OWN_DAEMON_TEST(keepers_are_not_needed_under_mps) {
    begin_with_mps();
    check_no_keepers(EAGER);
    unsetenv("CUDA_MPS_PIPE_DIRECTORY");
}

DAEMON_TEST(requests_of_few_launches_have_no_keepers) {
    check_no_keepers("launch 10 1 2");
}

DAEMON_TEST(keepers_can_be_switched_off) {
    setenv("GRIDSMITH_KEEPERS", "0", 1);
    check_no_keepers(EAGER);
    unsetenv("GRIDSMITH_KEEPERS");
}

/* A keeper ends when its program seems to do nothing for 0.5 ms. With sanitizers, beside other tests, it may seem so.
 */
static void skip_if_slow(void) {
    if (test_is_brief())
        skip();
}

DAEMON_TEST(keepers_run_until_the_request_ends) {
    skip_if_slow();
    struct program latency = start_latency("patient", "--hold=10000"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&training, "start"), 0);
    for (int i = 0; i < 3; i++) {
        begin_kept_request(&latency, &training);
        for (int looks = 0; looks < 10; looks++) /* on a busy machine a second one may stand behind the first */
            assert_true(running_keepers(&latency) > 0);
        assert_int_equal(ask(&latency, "sync 1"), 0);
        TEST_WAIT(running_keepers(&latency) == 0);
    }
    stop_program(&latency);
    stop_program(&training);
}

/* A keeper is work of the context, too: a call that waits for all of it would wait for the keeper. */
DAEMON_TEST(keepers_delay_nobody_who_waits_for_everything) {
    skip_if_slow();
    struct program latency = start_latency("patient", "--hold=10000"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&training, "start"), 0);
    for (int i = 0; i < 3; i++) {
        begin_kept_request(&latency, &training);
        assert_int_equal(ask(&latency, "sync_all"), 0);
        assert_int_equal(running_keepers(&latency), 0);
    }
    stop_program(&latency);
    stop_program(&training);
}

/* Others clear its flag. */
DAEMON_TEST(keepers_of_a_program_that_is_stopped_end) {
    skip_if_slow();
    struct program latency = start_latency("patient", "--hold=50"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&training, "start"), 0);
    begin_kept_request(&latency, &training);
    kill(latency.process, SIGSTOP);
    assert_int_equal(ask(&training, "launch 10 1"), 0);
    assert_goes_on(&training);
    kill(latency.process, SIGCONT);
    TEST_WAIT(running_keepers(&latency) == 0);
    stop_program(&latency);
    stop_program(&training);
}

/* All blocks of such a kernel must run at a time, and a keeper may have the place of one. */
DAEMON_TEST(programs_with_cooperative_kernels_have_no_keepers) {
    skip_if_slow();
    struct program latency = start_latency("patient", "--hold=10000"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&training, "start"), 0);
    begin_kept_request(&latency, &training);
    begin_kept(&latency, &training, "launch 500000 1"); /* the request goes on for some time */
    int before = count_keepers(&latency);
    TEST_WAIT(running_keepers(&latency) > 0);
    stop_program(&training); /* it would clear the flag at last */
    assert_int_equal(ask(&latency, "whole 10 2"), 0);
    TEST_WAIT(running_keepers(&latency) == 0);
    training = PROGRAM("--best-effort");
    assert_int_equal(ask(&training, "start"), 0);
    for (int i = 0; i < 10; i++) {
        do_work(&training);
        do_requests(&latency, EAGER, 1);
    }
    assert_int_equal(count_keepers(&latency), before);
    stop_program(&latency);
    stop_program(&training);
}

/* One alone would keep the program itself from the GPU. */
DAEMON_TEST(keepers_are_launched_in_pairs_or_not_at_all) {
    skip_if_slow();
    struct program latency = start_latency("patient,unpaired", "--hold=10000"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&training, "start"), 0);
    begin_kept_request(&latency, &training);
    TEST_WAIT(running_keepers(&latency) == 0); /* though the request has not ended */
    for (int i = 0; i < 10; i++) {
        do_work(&training);
        do_requests(&latency, EAGER, 1);
    }
    assert_int_equal(count_keepers(&latency), 1);
    stop_program(&latency);
    stop_program(&training);
}

/* With a keeper for each token the GPU would switch in each gap. On a busy machine some come late. */
DAEMON_TEST(keepers_stay_over_the_gaps_of_a_stream) {
    enum { TOKENS = 50, TRIES = 100 };
    struct program latency = PROGRAM("--latency"), training = PROGRAM("--best-effort");
    int keepers = TOKENS;
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    begin_kept_request(&latency, &training);
    for (int i = 0; i < TRIES && !(keepers > 0 && keepers < TOKENS / 2); i++) {
        do_work(&training);
        keepers = -count_keepers(&latency);
        assert_int_equal(ask(&latency, "tokens 2000 1 50"), 0);
        keepers += count_keepers(&latency);
    }
    assert_true(keepers > 0 && keepers < TOKENS / 2);
    stop_program(&latency);
    stop_program(&training);
}

/* ---- the kernel of keepers, on the CPU ---- */

struct kept {
    int (*launch)(int, const uint32_t *, const uint32_t *, size_t, uint32_t, void **);
    _Atomic uint32_t flags;
    gs_keeper_words words;
    uint64_t patience_ns, most_ns;
    uint32_t bit, number;
    pthread_t thread;
    _Atomic bool has_ended;
};

static void *run_keeper(void *argument) {
    struct kept *kept = argument;
    _Atomic uint32_t *flags = &kept->flags;
    gs_keeper_words *words = &kept->words;
    void *values[] = {&flags, &words, &kept->bit, &kept->number, &kept->patience_ns, &kept->most_ns};
    const uint32_t one[3] = {1, 1, 1};
    assert_int_equal(kept->launch(0, one, one, 0, 1, values), 0);
    kept->has_ended = true;
    return NULL;
}

static void start_keeper(struct kept *kept) {
    kept->has_ended = false;
    kept->words.done = 0;
    assert_int_equal(pthread_create(&kept->thread, NULL, run_keeper, kept), 0);
}

static void await_keeper(struct kept *kept) {
    TEST_WAIT(kept->has_ended);
    pthread_join(kept->thread, NULL);
    assert_int_equal(kept->words.done, kept->number);
}

static void assert_keeper_stays(const struct kept *kept) {
    for (int i = 0; i < 20; i++, wait_ms(1))
        assert_false(kept->has_ended);
}

static void check_ends(struct kept *kept) {
    kept->words.ended = kept->number - 1;
    start_keeper(kept);
    assert_keeper_stays(kept);
    kept->flags = 3; /* of other programs */
    await_keeper(kept);
    kept->flags = 4;
    start_keeper(kept);
    assert_keeper_stays(kept);
    kept->words.ended = kept->number;
    await_keeper(kept);
    kept->words.ended = kept->number - 1;
    kept->words.waits = 1;
    kept->patience_ns = 1;
    start_keeper(kept);
    assert_keeper_stays(kept);
    kept->words.waits = 0;
    await_keeper(kept);
    kept->words.waits = 1;
    kept->most_ns = 1000000;
    start_keeper(kept);
    await_keeper(kept);
    kept->bit = 0;
    kept->most_ns = kept->patience_ns = UINT64_MAX;
    start_keeper(kept);
    await_keeper(kept);
}

TEST(keepers_end_when_they_must) {
    const gs_build build = {
        .name = "keeper", .text = gs_keeper_image, .size = strlen(gs_keeper_image), .as_library = true};
    struct kept kept = {.flags = 4, .bit = 4, .number = UINT32_MAX, .patience_ns = UINT64_MAX, .most_ns = UINT64_MAX};
    char path[300];
    gs_host *host = gs_host_open(NULL);
    gs_module *made = host ? gs_host_compile(host, &build, NULL) : NULL;
    assert_true(made && gs_module_wait(made, NULL) == GS_OK);
    void *library = dlopen(gs_module_path(made, path, sizeof path), RTLD_NOW | RTLD_LOCAL),
         *launch = dlsym(library, "gs_host_launch");
    memcpy(&kept.launch, &launch, sizeof launch);
    check_ends(&kept);
    dlclose(library);
    gs_host_close(host);
}

/* ---- memory ---- */

DAEMON_TEST(memory_beyond_the_limit_is_out_of_memory) {
    struct program program = PROGRAM("--best-effort", "--memory", "1M");
    char line[200];
    assert_int_equal(ask(&program, "start"), 0);
    assert_int_equal(ask(&program, "alloc 1048577"), OUT_OF_MEMORY);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ask(&program, "alloc 262144"), 0);
    assert_int_equal(ask(&program, "alloc 1"), OUT_OF_MEMORY);
    ask_line(&program, "memory", line, sizeof line);
    assert_string_equal(line, "0 1048576 1048576\n");
    assert_true(status_says("\"memory_bytes\":1048576,\"memory_limit_bytes\":1048576"));
    assert_int_equal(ask(&program, "free 1"), 0); /* allocation 0 failed */
    assert_int_equal(ask(&program, "alloc 262144"), 0);
    assert_int_equal(ask(&program, "alloc 1"), OUT_OF_MEMORY);
    stop_program(&program);
}

/* They wait for a request that goes on, but only once: what follows must not wait for as long again. */
DAEMON_TEST(memory_is_not_mapped_while_a_request_runs) {
    struct program latency = PROGRAM("--latency", "--hold=10000"), training = PROGRAM("--best-effort");
    assert_int_equal(ask(&latency, "start"), 0);
    assert_int_equal(ask(&training, "start"), 0);
    assert_int_equal(ask(&training, "alloc 4096"), 0);
    assert_int_equal((int)number_of(&training, "memory_waits"), 0);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(ask(&latency, "launch 10 1"), 0);
        assert_int_equal(ask(&training, i == 1 ? "alloc 4096" : "free 0"), 0);
        assert_int_equal(ask(&training, "alloc 4096"), 0);
        assert_int_equal((int)number_of(&training, "memory_waits"), i);
        assert_int_equal((int)number_of(&latency, "memory_waits"), 0);
        assert_int_equal(ask(&latency, "sync 1"), 0);
    }
    assert_int_equal(ask(&training, "alloc 4096"), 0);
    assert_int_equal((int)number_of(&training, "memory_waits"), 2);
    assert_int_equal((int)number_of(&training, "memory_bytes"), 0); /* counted with a limit only */
    stop_program(&latency);
    stop_program(&training);
}

/* ---- where streams wait ---- */

TEST(waits_are_as_far_apart_as_work_allows) {
    gs_gate_pace *pace = calloc(1, sizeof *pace);
    const unsigned shape[6] = {1, 1, 1, 32, 1, 1};
    uint64_t key = gs_pace_key("kernel", shape);
    int stream = 0;
    pace->ahead_ns = 50000;
    gs_pace_step step = gs_pace_launch(pace, &stream, key, 0);
    assert_true(step.must_wait && step.wants_sample);
    assert_true(gs_pace_launch(pace, &stream, key, 0).must_wait); /* it is not known yet */
    for (int i = 0; i < 4; i++)
        gs_pace_learn(step.kernel, 10000, true);
    assert_true(gs_pace_launch(pace, &stream, key, 0).must_wait);
    for (int i = 0; i < 4; i++) { /* five of 10 us each go between two waits */
        step = gs_pace_launch(pace, &stream, key, 0);
        assert_false(step.must_wait || step.wants_sample);
        assert_int_equal(step.expected_ns, 10000);
    }
    assert_true(gs_pace_launch(pace, &stream, key, 0).must_wait);
    assert_true(gs_pace_launch(pace, &pace, key, 0).must_wait); /* another stream */
    assert_false(gs_pace_copy(pace, &pace, 1000, 0).must_wait);
    assert_true(gs_pace_copy(pace, &pace, 100000000, 0).must_wait);
    gs_pace_forget(pace, key);
    assert_true(gs_pace_launch(pace, &stream, key, 0).wants_sample);
    free(pace);
}

/* What stands behind a wait that has not passed needs no wait of its own, within the allowed work. */
TEST(streams_wait_once_for_a_request) {
    gs_gate_pace *pace = calloc(1, sizeof *pace);
    int stream = 0;
    pace->ahead_ns = 50000;
    gs_pace_step step = gs_pace_launch(pace, &stream, 1, 0);
    for (int i = 0; i < 4; i++)
        gs_pace_learn(step.kernel, 10000, true);
    assert_true(gs_pace_launch(pace, &stream, 1, 0).must_wait);
    assert_false(gs_pace_launch(pace, &stream, 1, 0).must_wait);
    assert_true(gs_pace_launch(pace, &stream, 1, 7).must_wait); /* a request has begun */
    for (int i = 0; i < 4; i++)
        assert_false(gs_pace_launch(pace, &stream, 1, 7).must_wait);
    assert_true(gs_pace_launch(pace, &stream, 1, 7).must_wait);  /* 50 us of work are behind the last wait */
    assert_true(gs_pace_launch(pace, &stream, 1, 8).must_wait);  /* another request: the waits so far may have passed */
    assert_false(gs_pace_launch(pace, &stream, 1, 0).must_wait); /* it has ended */
    assert_true(gs_pace_launch(pace, &stream, 1, 9).must_wait);
    free(pace);
}

/* What a first launch loads, and what runs beside it, does not count; what takes longer for good does. */
TEST(shortest_samples_count) {
    gs_pace_kernel kernel = {.key = 1};
    gs_pace_learn(&kernel, 5000000, true);
    gs_pace_learn(&kernel, 20000, true);
    gs_pace_learn(&kernel, 90000, true);
    gs_pace_learn(&kernel, 30000, true);
    assert_int_equal(kernel.expected_ns, 20000);
    for (int i = 0; i < 100; i++) /* other best-effort programs may be the reason */
        gs_pace_learn(&kernel, 80000, false);
    assert_int_equal(kernel.expected_ns, 20000);
    for (int i = 0; i < 100; i++)
        gs_pace_learn(&kernel, 80000, true);
    assert_in_range(kernel.expected_ns, 79000, 80000);
}

/* More kernels and streams than there is space for: others share an entry, and nothing is written elsewhere. */
TEST(tables_may_be_full) {
    gs_gate_pace *pace = calloc(1, sizeof *pace);
    for (uintptr_t i = 1; i < 20000; i++) {
        gs_pace_step step = gs_pace_launch(pace, (void *)(i * 64), gs_pace_key((void *)(i * 16), NULL), 0);
        gs_pace_learn(step.kernel, (int64_t)i, true);
        assert_true(step.must_wait);
    }
    free(pace);
}

TEST(request_knows_its_streams_and_events) {
    gs_request *request = calloc(1, sizeof *request);
    int a = 0, b = 0, event = 0;
    assert_true(gs_request_launch(request, &a, 1));
    assert_false(gs_request_launch(request, &b, 1));
    uint64_t number = gs_request_now(request);
    assert_false(gs_request_launch(request, &a, 1)); /* by another thread, during the synchronization */
    assert_false(gs_request_stream_done(request, &a, number));
    assert_false(gs_request_stream_done(request, &b, number));
    assert_false(gs_request_record(request, &event, &a, 1));
    assert_false(gs_request_launch(request, &a, 1));
    assert_false(gs_request_event_done(request, &event)); /* a launch came behind it */
    assert_false(gs_request_record(request, &event, &a, 1));
    assert_true(gs_request_event_done(request, &event));
    assert_false(gs_request_event_done(request, &event));
    assert_false(gs_request_all_done(request, 1000));
    for (uintptr_t i = 1; i < 100; i++)
        assert_int_equal(gs_request_launch(request, (void *)(i * 64), 1), i == 1);
    assert_true(gs_request_all_done(request, gs_request_now(request)));
    free(request);
}

/* One request that is measured by events: the first of them is recorded `before_ns` before the launch. */
static bool measure_request(gs_request *request, uint64_t *now_ns, uint64_t before_ns) {
    int stream = 0, event = 0;
    bool is_announced = gs_request_record(request, &event, &stream, *now_ns);
    *now_ns += before_ns;
    assert_true(gs_request_launch(request, &stream, *now_ns));
    assert_false(gs_request_record(request, &event, &stream, *now_ns)); /* there is work: it announces nothing */
    assert_true(gs_request_all_done(request, gs_request_now(request)));
    *now_ns += 5000000;
    return is_announced;
}

/* One that is late costs some trust, several cost all of it. */
TEST(events_announce_requests_if_launches_nearly_always_follow) {
    enum { TRUSTED_AFTER = 20, MOST_TRUST = 40, LATE = 3, SOON_NS = 30000, LATE_NS = 300000 };
    gs_request *request = calloc(1, sizeof *request);
    uint64_t now_ns = 1000;
    int stream = 0, event = 0;
    for (int i = 0; i < TRUSTED_AFTER; i++)
        assert_false(measure_request(request, &now_ns, SOON_NS));
    assert_true(measure_request(request, &now_ns, SOON_NS));
    assert_true(measure_request(request, &now_ns, LATE_NS)); /* this one was announced too early */
    assert_false(measure_request(request, &now_ns, SOON_NS));
    for (int i = 0; i < 2 * MOST_TRUST; i++)
        measure_request(request, &now_ns, SOON_NS);
    for (int i = 0; i < LATE; i++)
        assert_true(measure_request(request, &now_ns, LATE_NS));
    assert_false(measure_request(request, &now_ns, SOON_NS));
    for (int i = 0; i < TRUSTED_AFTER; i++)
        measure_request(request, &now_ns, SOON_NS);
    assert_true(gs_request_record(request, &event, &stream, now_ns)); /* nothing follows it */
    gs_request_wait(request);
    assert_false(measure_request(request, &now_ns, SOON_NS));
    free(request);
}

TEST(times_are_found_again) {
    for (uint64_t ns = 1; ns < (uint64_t)1 << 35; ns += 1 + ns / 7) {
        unsigned bucket = gs_tenant_bucket(ns);
        assert_in_range(bucket, 0, GS_TENANT_TIMES - 1);
        assert_true(gs_tenant_bucket_ns(bucket) >= ns);
        assert_true(!bucket || gs_tenant_bucket_ns(bucket - 1) < ns);
    }
}

/* With an argument: only the tests whose names match it. */
int main(int argc, char **argv) {
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (!(folder = gs_folder_make_in("/tmp", "gridsmith-gate", NULL)))
        return 1;
    signal(SIGPIPE, SIG_IGN);
    snprintf(socket_path, sizeof socket_path, "%s/sock", folder);
    snprintf(errors_path, sizeof errors_path, "%s/errors", folder);
    int failed = TEST_ALL(NULL, end_daemon);
    gs_folder_remove(folder);
    free(folder);
    return failed;
}
