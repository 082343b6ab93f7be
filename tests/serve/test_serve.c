/*
 * test_serve.c: a real daemon and real clients, each in a process of its own, on the CPU backend.
 *
 * Everything has a deadline: an alarm kills a client, or the test, that hangs, and the test fails. Clients are made by
 * fork() and return their result as exit code; errors are printed to standard error.
 */
#define _GNU_SOURCE
#include "test.h"

#include "kernels/zoo/zoo.h"
#include "sharing/client/client.h"
#include "sharing/image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Time limits of clients and tests. Nothing takes nearly as long, but a machine can be very busy.
 */
enum { DEADLINE_SECONDS = 480, TEST_SECONDS = 600, PATIENCE_MS = 120000 };

static char *folder;
static char socket_path[64];

static const char source_text[] =
    "__global__ void fill(int *out, int n, int value) {\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) out[i] = value + i;\n"
    "}\n"
    "__global__ void add(int *out, const int *in, int n) {\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) out[i] += in[i];\n"
    "}\n"
    "__global__ void slow(int *out, int turns) {\n"
    "    unsigned x = blockIdx.x;\n"
    "    for (int i = 0; i < turns; i++) x = x * 1664525u + 1013904223u;\n"
    "    if (threadIdx.x == 0) out[blockIdx.x] = (int)(x | 1);\n"
    "}\n"
    "__global__ void chain(int *out, int value, int turns) {\n"
    "    volatile unsigned x = 0;\n"
    "    for (int i = 0; i < turns; i++) x = x + 1;\n"
    "    if (threadIdx.x == 0) out[blockIdx.x] = 3 * out[blockIdx.x] + value;\n"
    "}\n"
    "__global__ void endless(volatile int *out) { while (out[0] == 0) out[1] = 1; }\n"
    "__global__ void fault(int *out) { int *nowhere = out - (1ull << 40); nowhere[threadIdx.x] = 1; }\n";
enum { FILL, ADD, SLOW, CHAIN, ENDLESS, FAULT };
static const char *const kernels[] = {"fill", "add", "slow", "chain", "endless", "fault"};

/* ---- daemons ---- */

static void sleep_ms(long ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static bool is_serving(void) {
    char *json = NULL;
    gs_code code = gs_status_request(socket_path, &json, NULL);
    free(json);
    return code == GS_OK;
}

static pid_t the_daemon; /* 0: not running */
static bool must_have_few_descriptors;
static bool must_not_leak; /* the search for leaks takes seconds, so only one daemon is checked */

/* Starts a daemon with more options, up to a NULL, and waits until it answers. */
static pid_t start_daemon(const char *const *more) {
    const char *arguments[32] = {GRIDSMITH_PROGRAM, "serve",   "--device",      "host",       "--no-mps", "--socket",
                                 socket_path,       "--cache", GRIDSMITH_CACHE, "--profiles", ""};
    size_t count = 11;
    while (more && *more)
        arguments[count++] = *more++;
    pid_t process = fork();
    assert_true(process >= 0);
    the_daemon = process;
    if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("ASAN_OPTIONS", must_not_leak ? "detect_leaks=1" : "detect_leaks=0", 1);
        if (must_have_few_descriptors)
            setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 64, .rlim_max = 64});
        int log = open("daemon.log", O_CREAT | O_WRONLY | O_APPEND, 0600);
        dup2(log, STDERR_FILENO);
        dup2(log, STDOUT_FILENO);
        execv(arguments[0], (char **)arguments);
        _exit(127);
    }
    TEST_WAIT(is_serving());
    return process;
}

#define SHORT_LIMIT "3" /* seconds that a kernel may run; on a busy machine a short kernel can take one */
#define DAEMON(...) start_daemon((const char *const[]){__VA_ARGS__, NULL})

static int wait_process(pid_t process) {
    int status = -1;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* Ends the daemon that a failed test left behind. The next test has as much time again. */
static int clean(void **state) {
    (void)state;
    alarm(TEST_SECONDS);
    if (the_daemon > 0) {
        kill(the_daemon, SIGKILL);
        wait_process(the_daemon);
        the_daemon = 0;
    }
    return 0;
}

#define DAEMON_TEST(name) TEST_WITH(name, NULL, clean)

/* Stops the daemon, as a service manager does, or as a user does at a terminal. It must exit with 0 and remove its
 * socket, and the lock beside it. */
static void stop_daemon(pid_t process) {
    static int stopped;
    char lock[sizeof socket_path + 8];
    snprintf(lock, sizeof lock, "%s.lock", socket_path);
    assert_int_equal(access(lock, F_OK), 0);
    kill(process, stopped++ % 2 ? SIGINT : SIGTERM);
    the_daemon = 0;
    assert_int_equal(wait_process(process), 0);
    assert_int_equal(access(socket_path, F_OK), -1);
    assert_int_equal(access(lock, F_OK), -1);
}

/* Whether the log of the daemons has a line with these words. Removes the log. */
static bool log_has(const char *words) {
    char line[1000];
    bool found = false;
    FILE *log = fopen("daemon.log", "r");
    assert_non_null(log);
    while (fgets(line, sizeof line, log))
        found = found || strstr(line, words);
    fclose(log);
    assert_int_equal(unlink("daemon.log"), 0);
    return found;
}

/* The status of the daemon. The caller releases it. */
static json_t *read_status(void) {
    char *text = NULL;
    gs_error error;
    if (gs_status_request(socket_path, &text, &error) != GS_OK)
        fail_msg("%s", error.message);
    json_t *status = json_loads(text, 0, NULL);
    assert_non_null(status);
    free(text);
    return status;
}

/* A number in the status of the daemon, e.g. "device.restarts"; of an array: its length. */
static double status_number(const char *path) {
    char name[64];
    json_t *root = read_status(), *at = root;
    for (const char *rest = path; rest; rest = strchr(rest, '.') ? strchr(rest, '.') + 1 : NULL) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(rest, "."), rest);
        at = json_object_get(at, name);
    }
    double value = json_is_array(at) ? (double)json_array_size(at) : json_number_value(at);
    json_decref(root);
    return value;
}

static void wait_status(const char *path, double wanted) {
    for (int i = 0; i < PATIENCE_MS; i += 10, sleep_ms(10))
        if (status_number(path) == wanted)
            return;
    fail_msg("%s is %g, not %g", path, status_number(path), wanted);
}

/* ---- processes that have nothing to do ---- */

/* The clock ticks that a process has had, or -1 if it does not sleep. */
static long ticks_asleep(pid_t process) {
    char path[40], state = '\0';
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    int found = fscanf(file, "%*d (%*[^)]) %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &state, &user, &system);
    fclose(file);
    assert_int_equal(found, 3);
    return state == 'S' ? (long)(user + system) : -1;
}

/* Waits until a process sleeps, and does not wake up to work, as often as one looks. One that spins never does. */
static void wait_asleep(pid_t process) {
    enum { LOOKS = 20 };
    long before = -1;
    for (int ms = 0, asleep = 0; asleep < LOOKS; ms += 10, sleep_ms(10)) {
        long ticks = ticks_asleep(process);
        asleep = ticks >= 0 && ticks == before ? asleep + 1 : 0;
        before = ticks;
        assert_true(ms < PATIENCE_MS);
    }
}

/* ---- clients ---- */

static int client_fails(const char *what) {
    fprintf(stderr, "client %d: %s: %s\n", (int)getpid(), what, gs_client_message());
    return 1;
}

static gs_client *client_open(void) {
    gs_client *client = NULL;
    gs_client_options options = {.socket = socket_path, .name = "test"};
    if (gs_client_open(&options, &client) != GS_CLIENT_OK)
        client_fails("open");
    return client;
}

static gs_client_code client_load(gs_client *client, uint32_t *module) {
    gs_client_source source = {
        .name = "test.cu", .text = source_text, .kernels = kernels, .kernel_count = GS_COUNT(kernels)};
    return gs_client_load(client, &source, module);
}

static gs_client_code client_start(gs_client *client, uint32_t stream, uint32_t module, uint32_t kernel,
                                   uint32_t blocks, const gs_client_argument *arguments, uint32_t count) {
    gs_client_launch launch = {
        .module = module,
        .kernel = kernel,
        .grid = {blocks},
        .block = {kernel == SLOW || kernel == CHAIN || kernel == ENDLESS || kernel == FAULT ? 1u : 32u},
        .arguments = arguments,
        .argument_count = count};
    return gs_client_start(client, stream, &launch);
}

/* Fills, adds and compares on two streams, with shared host memory for one and ordinary memory for the other. */
static int client_computes(gs_client *client, uint32_t module, int n, int value) {
    gs_client_memory a, b;
    int *shared, *plain = malloc((size_t)n * sizeof *plain), five = 5, wrong = 0;
    if (gs_client_malloc(client, (size_t)n * 4, &a) || gs_client_malloc(client, (size_t)n * 4, &b) ||
        gs_client_host_malloc(client, (size_t)n * 4, (void **)&shared))
        return client_fails("malloc");
    for (int i = 0; i < n; i++)
        shared[i] = plain[i] = i * 3;
    gs_client_argument fill[] = {GS_CLIENT_AT(a), GS_CLIENT_VALUE(n), GS_CLIENT_VALUE(value)};
    gs_client_argument refill[] = {GS_CLIENT_AT(b), GS_CLIENT_VALUE(n), GS_CLIENT_VALUE(five)};
    gs_client_argument add[] = {GS_CLIENT_AT(a), GS_CLIENT_AT(b), GS_CLIENT_VALUE(n)};
    uint32_t blocks = ((uint32_t)n + 31) / 32;
    if (client_start(client, 0, module, FILL, blocks, fill, 3) ||
        client_start(client, 1, module, FILL, blocks, refill, 3) || gs_client_wait(client, 1) ||
        client_start(client, 0, module, ADD, blocks, add, 3) || gs_client_wait(client, 0) ||
        gs_client_copy_in(client, 1, b, shared, (size_t)n * 4) || gs_client_wait(client, 1) ||
        client_start(client, 0, module, ADD, blocks, add, 3) ||
        gs_client_copy_out(client, 0, plain, a, (size_t)n * 4) ||
        gs_client_copy_out(client, 0, shared, a, (size_t)n * 4) || gs_client_wait_all(client))
        return client_fails("work");
    for (int i = 0; i < n && !wrong; i++)
        if (plain[i] != value + i + 5 + i + 3 * i || shared[i] != plain[i]) {
            fprintf(stderr, "element %d is %d and %d\n", i, plain[i], shared[i]);
            wrong = 1;
        }
    if (gs_client_free(client, a) || gs_client_free(client, b) || gs_client_host_free(client, shared))
        wrong = client_fails("free");
    free(plain);
    return wrong;
}

static int client_works(int serial) {
    gs_client *client = client_open();
    uint32_t module;
    if (!client)
        return 1;
    if (client_load(client, &module))
        return client_fails("load");
    int wrong = 0;
    for (int i = 0; i < serial && !wrong; i++)
        wrong = client_computes(client, module, 1 + (i * 977 + (int)getpid() * 131) % 3000, i);
    gs_client_close(client);
    return wrong;
}

/* Starts a child whose exit code is what `does` returns. */
static pid_t spawn(int (*does)(int), int argument) {
    pid_t process = fork();
    if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = 1; i < 32; i++)
            signal(i, SIG_DFL); /* a crash of a client must not look like one of the test */
        alarm(DEADLINE_SECONDS);
        _exit(does(argument));
    }
    assert_true(process > 0);
    return process;
}

static uint64_t scaled(uint64_t most) {
    uint64_t runs = test_number("GRIDSMITH_RUNS", 100000);
    return gs_max_u64(most * runs / 100000, gs_min_u64(most, 2));
}

/* ---- right results ---- */

DAEMON_TEST(many_clients_get_right_results) {
    pid_t daemon = DAEMON("--sms", "6", "--marks", "--shuffle", "200"), clients[64];
    size_t count = gs_max_u64(scaled(64), 8);
    for (size_t i = 0; i < count; i++)
        clients[i] = spawn(client_works, 3);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(wait_process(clients[i]), 0);
    wait_status("clients", 0);
    stop_daemon(daemon);
}

/* Whether all kernels of the zoo are tested. Under sanitizers, where compiling takes long, only four are. */
static bool is_whole_zoo(void) {
    return test_number("GRIDSMITH_RUNS", 100000) >= 100000;
}

/* Runs a kernel of the zoo as an application. */
static int client_runs_zoo(int number) {
    static const char *const names[] = {"sgemm", "histo", "transpose", "bfs"};
    const gs_zoo_kernel *kernel = is_whole_zoo() ? gs_zoo_at((size_t)number) : gs_zoo_find(names[number % 4]);
    gs_error error = {.code = GS_OK};
    gs_zoo_instance instance = {0};
    gs_zoo_part parts[GS_ZOO_KINDS] = {{.program = NULL}};
    gs_zoo_form form = {.form = GS_FORM_ORIGINAL, .seconds = 60};
    gs_zoo_result result = {0};
    setenv("GRIDSMITH_SOCKET", socket_path, 1);
    gs_executor *executor = gs_executor_remote(NULL, &error);
    gs_code code =
        executor ? gs_zoo_instance_make(&instance, kernel, gs_zoo_size_find(kernel, "odd"), &error) : error.code;
    for (int i = 0; i < 3 && code == GS_OK; i++) {
        code = gs_zoo_run(&instance, executor, &form, parts, &result, &error);
        if (code == GS_OK && !result.is_right)
            code = gs_fail(&error, GS_E_KERNEL, "%s", result.reason.message);
    }
    if (code != GS_OK)
        fprintf(stderr, "%s: %s\n", kernel->name, error.message);
    gs_zoo_instance_free(&instance);
    for (size_t i = 0; i < GS_ZOO_KINDS; i++)
        gs_zoo_part_free(&parts[i]);
    gs_executor_close(executor);
    return code != GS_OK;
}

DAEMON_TEST(zoo_kernels_are_right_while_sms_change) {
    pid_t daemon = DAEMON("--sms", "8", "--marks", "--shuffle", "100"), clients[32];
    size_t count = 4;
    while (is_whole_zoo() && count < 32 && gs_zoo_at(count))
        count++;
    for (size_t i = 0; i < count; i++)
        clients[i] = spawn(client_runs_zoo, (int)i);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(wait_process(clients[i]), 0);
    stop_daemon(daemon);
}

/* A kernel of many blocks that is resized all the time: each block must run exactly once, which the counts prove. */
static int client_is_resized(int serial) {
    gs_client *client = client_open();
    uint32_t module;
    enum { BLOCKS = 600 };
    static int out[BLOCKS];
    gs_client_memory memory;
    int spins = 2000;
    if (!client || client_load(client, &module) || gs_client_malloc(client, sizeof out, &memory))
        return client_fails("start");
    gs_client_argument arguments[] = {GS_CLIENT_AT(memory), GS_CLIENT_VALUE(spins)};
    for (int i = 0; i < serial && access("enough", F_OK) != 0; i++) {
        if (gs_client_fill(client, 0, memory, 0, sizeof out) ||
            client_start(client, 0, module, SLOW, BLOCKS, arguments, 2) ||
            gs_client_copy_out(client, 0, out, memory, sizeof out))
            return client_fails("run");
        for (int k = 0; k < BLOCKS; k++)
            if (out[k] == 0)
                return fprintf(stderr, "block %d did not run\n", k);
    }
    gs_client_close(client);
    return 0;
}

/* Runs three clients while SMs change all the time, until `counted`, a number of the status, is at least `wanted`. */
static void resize_clients(int (*does)(int), const char *counted, double wanted) {
    pid_t daemon = DAEMON("--sms", "8", "--marks", "--shuffle", "50"), clients[3];
    for (int i = 0; i < 3; i++)
        clients[i] = spawn(does, 1000000);
    TEST_WAIT(status_number(counted) >= wanted && status_number("resizes") >= wanted);
    close(open("enough", O_CREAT | O_WRONLY, 0600));
    for (int i = 0; i < 3; i++)
        assert_int_equal(wait_process(clients[i]), 0);
    unlink("enough");
    printf("resizes: %.0f, %s: %.0f\n", status_number("resizes"), counted, status_number(counted));
    stop_daemon(daemon);
}

DAEMON_TEST(every_block_runs_once_over_many_resizes) {
    resize_clients(client_is_resized, "resizes", (double)scaled(5000));
}

/* Launches in a row, each of which needs the results of the one before it in every block. */
static int client_is_resized_in_a_row(int serial) {
    gs_client *client = client_open();
    uint32_t module;
    enum { BLOCKS = 100, ROW = 12 };
    static int out[BLOCKS];
    gs_client_memory memory;
    int spins = 1000, expected = 0;
    if (!client || client_load(client, &module) || gs_client_malloc(client, sizeof out, &memory))
        return client_fails("start");
    for (int k = 0; k < ROW; k++)
        expected = 3 * expected + k;
    for (int i = 0; i < serial && access("enough", F_OK) != 0; i++) {
        if (gs_client_fill(client, 0, memory, 0, sizeof out))
            return client_fails("fill");
        for (int k = 0; k < ROW; k++) {
            gs_client_argument arguments[] = {GS_CLIENT_AT(memory), GS_CLIENT_VALUE(k), GS_CLIENT_VALUE(spins)};
            if (client_start(client, 0, module, CHAIN, BLOCKS, arguments, 3))
                return client_fails("run");
        }
        if (gs_client_copy_out(client, 0, out, memory, sizeof out))
            return client_fails("copy");
        for (int k = 0; k < BLOCKS; k++)
            if (out[k] != expected)
                return fprintf(stderr, "block %d has %d, not %d\n", k, out[k], expected), 1;
    }
    gs_client_close(client);
    return 0;
}

/* Launches that share SMs are handed to the worker before their predecessor has ended, and that one may be stopped. */
DAEMON_TEST(launches_in_a_row_keep_their_order) {
    resize_clients(client_is_resized_in_a_row, "launches_inside", (double)scaled(2000));
}

/* The same with the decisions of the plan: measured on fewer SMs, in sequence, while other clients load their sources.
 */
DAEMON_TEST(planned_kernels_all_end) {
    must_not_leak = true;
    pid_t daemon = DAEMON("--sms", "8", "--marks"), clients[4];
    must_not_leak = false;
    for (int i = 0; i < 4; i++)
        clients[i] = spawn(i < 3 ? client_is_resized : client_works, (int)scaled(20));
    for (int i = 0; i < 4; i++)
        assert_int_equal(wait_process(clients[i]), 0);
    stop_daemon(daemon);
}

/* A thread of a client, with a stream of its own. */
struct thread {
    pthread_t id;
    gs_client *client;
    uint32_t module, stream;
    int wrong;
};

static void *thread_works(void *of) {
    struct thread *thread = of;
    enum { N = 500 };
    int out[N], n = N, value = (int)thread->stream * 1000;
    gs_client_memory memory;
    if (gs_client_malloc(thread->client, sizeof out, &memory)) {
        thread->wrong = client_fails("malloc");
        return NULL;
    }
    gs_client_argument arguments[] = {GS_CLIENT_AT(memory), GS_CLIENT_VALUE(n), GS_CLIENT_VALUE(value)};
    for (int turn = 0; turn < 20 && !thread->wrong; turn++, value++) {
        int64_t ns = -1;
        if (gs_client_event(thread->client, thread->stream, thread->stream * 2) ||
            client_start(thread->client, thread->stream, thread->module, FILL, (N + 31) / 32, arguments, 3) ||
            gs_client_event(thread->client, thread->stream, thread->stream * 2 + 1) ||
            gs_client_copy_out(thread->client, thread->stream, out, memory, sizeof out) ||
            gs_client_elapsed(thread->client, thread->stream * 2, thread->stream * 2 + 1, &ns))
            thread->wrong = client_fails("work");
        for (int i = 0; i < N && !thread->wrong; i++)
            thread->wrong = out[i] != value + i || ns < 0;
    }
    gs_client_free(thread->client, memory);
    return NULL;
}

DAEMON_TEST(threads_share_a_client) {
    pid_t daemon = DAEMON("--sms", "4");
    struct thread threads[8];
    gs_client *client = client_open();
    uint32_t module;
    assert_non_null(client);
    assert_int_equal(client_load(client, &module), GS_CLIENT_OK);
    for (uint32_t i = 0; i < 8; i++) {
        threads[i] = (struct thread){.client = client, .module = module, .stream = i};
        assert_int_equal(pthread_create(&threads[i].id, NULL, thread_works, &threads[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i].id, NULL);
        assert_int_equal(threads[i].wrong, 0);
    }
    gs_client_close(client);
    stop_daemon(daemon);
}

/* Copies that are handed over in pieces, on several streams at once, from ordinary and from shared memory. */
static int client_copies_much(int serial) {
    enum { STREAMS = 4, WORDS = 900001 };
    gs_client *client = client_open();
    gs_client_memory memories[STREAMS];
    uint32_t *shared[STREAMS], *plain = malloc(WORDS * sizeof *plain);
    size_t bytes = WORDS * sizeof *plain;
    if (!client || !plain)
        return 1;
    for (int i = 0; i < STREAMS; i++)
        if (gs_client_malloc(client, bytes, &memories[i]) || gs_client_host_malloc(client, bytes, (void **)&shared[i]))
            return client_fails("malloc");
    for (int turn = 0; turn < serial; turn++) {
        for (uint32_t i = 0; i < STREAMS; i++) {
            for (uint32_t k = 0; k < WORDS; k++)
                shared[i][k] = (k + i) * 2654435761u + (uint32_t)turn;
            if (gs_client_fill(client, i, memories[i], 0xa5, bytes) ||
                gs_client_copy_in(client, i, memories[i] + 8, shared[i] + 2, bytes - 16))
                return client_fails("copy in");
        }
        for (uint32_t i = 0; i < STREAMS; i++) {
            if (gs_client_copy_out(client, i, plain, memories[i], bytes))
                return client_fails("copy out");
            for (uint32_t k = 0; k < WORDS; k++)
                if (plain[k] != (k < 2 || k >= WORDS - 2 ? 0xa5a5a5a5 : shared[i][k]))
                    return fprintf(stderr, "word %u of stream %u is wrong\n", k, i);
        }
    }
    gs_client_close(client);
    free(plain);
    return 0;
}

DAEMON_TEST(large_copies_arrive_whole) {
    pid_t daemon = DAEMON("--sms", "4"), clients[3];
    for (int i = 0; i < 3; i++)
        clients[i] = spawn(client_copies_much, (int)scaled(6));
    for (int i = 0; i < 3; i++)
        assert_int_equal(wait_process(clients[i]), 0);
    stop_daemon(daemon);
}

/* ---- clients and daemons that end ---- */

DAEMON_TEST(killed_clients_leave_nothing) {
    pid_t daemon = DAEMON("--sms", "4", "--marks", "--shuffle", "300");
    pid_t steady = spawn(client_works, (int)scaled(40));
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 7), 0);
    for (uint64_t i = 0; i < scaled(30); i++) {
        static int (*const ways[])(int) = {client_is_resized, client_works, client_copies_much};
        pid_t victim = spawn(ways[gs_random_from(&random, 0, 2)], 1000);
        sleep_ms(gs_random_from(&random, 0, 60));
        kill(victim, SIGKILL);
        wait_process(victim);
    }
    assert_int_equal(wait_process(steady), 0);
    wait_status("clients", 0);
    wait_status("limits.all.clients.used", 0);
    wait_status("limits.all.memory_bytes.used", 0);
    wait_status("limits.all.actions.used", 0);
    assert_int_equal(wait_process(spawn(client_works, 2)), 0);
    assert_true(status_number("device.restarts") == 0);
    stop_daemon(daemon);
}

/* Requests long copies on all streams, and is killed. */
static int client_dies_copying(int unused) {
    enum { BYTES = 64 << 20 };
    gs_client *client = client_open();
    gs_client_memory memory;
    void *shared;
    (void)unused;
    if (!client || gs_client_malloc(client, BYTES, &memory) || gs_client_host_malloc(client, BYTES, &shared))
        return client_fails("malloc");
    for (uint32_t i = 0; i < GS_CLIENT_STREAMS; i++)
        if (gs_client_copy_in(client, i, memory, shared, BYTES))
            return client_fails("copy_in");
    while (status_number("limits.all.actions.used") < GS_CLIENT_STREAMS)
        sleep_ms(1);
    raise(SIGKILL);
    return 0;
}

DAEMON_TEST(copies_of_killed_clients_end) {
    pid_t daemon = DAEMON("--sms", "4");
    for (int i = 0; i < 5; i++)
        assert_int_equal(WTERMSIG(wait_process(spawn(client_dies_copying, 0))), SIGKILL);
    wait_status("limits.all.clients.used", 0);
    wait_status("limits.all.memory_bytes.used", 0);
    stop_daemon(daemon);
}

/* Works until an error, which becomes the exit code. */
static int client_until_error(int serial) {
    gs_client *client = client_open();
    uint32_t module;
    gs_client_memory memory;
    int spins = 500;
    gs_client_code code = client ? client_load(client, &module) : GS_CLIENT_CODES;
    if (code == GS_CLIENT_OK)
        code = gs_client_malloc(client, 400, &memory);
    gs_client_argument arguments[] = {GS_CLIENT_AT(memory), GS_CLIENT_VALUE(spins)};
    for (int i = 0; i < serial && code == GS_CLIENT_OK; i++) {
        code = client_start(client, 0, module, SLOW, 100, arguments, 2);
        if (code == GS_CLIENT_OK)
            code = gs_client_wait(client, 0);
    }
    gs_client_code again = client ? gs_client_malloc(client, 100, &memory) : code; /* the error is permanent */
    gs_client_close(client);
    return again == code ? (int)code : 100;
}

static int device_process(void) {
    return (int)status_number("device.process");
}

DAEMON_TEST(killed_daemon_is_an_error_and_not_a_hang) {
    test_inherit_orphans();
    pid_t clients[3], daemon = DAEMON("--sms", "4");
    for (int i = 0; i < 3; i++)
        clients[i] = spawn(client_until_error, 1000000);
    wait_status("clients", 3);
    TEST_WAIT(status_number("launches") >= 10);
    int device = device_process();
    kill(daemon, SIGKILL);
    wait_process(daemon);
    for (int i = 0; i < 3; i++)
        assert_int_equal(WEXITSTATUS(wait_process(clients[i])), GS_CLIENT_LOST);
    assert_true(test_orphan_ends(device));
    daemon = DAEMON("--sms", "4");
    assert_int_equal(wait_process(spawn(client_works, 2)), 0);
    stop_daemon(daemon);
}

DAEMON_TEST(stopped_daemon_tells_its_clients) {
    pid_t daemon = DAEMON("--sms", "4"), client = spawn(client_until_error, 1000000);
    TEST_WAIT(status_number("launches") >= 10);
    stop_daemon(daemon);
    assert_int_equal(WEXITSTATUS(wait_process(client)), GS_CLIENT_LOST);
}

DAEMON_TEST(one_daemon_at_a_socket) {
    pid_t daemon = DAEMON("--sms", "4");
    pid_t second = fork();
    if (second == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDERR_FILENO);
        execl(GRIDSMITH_PROGRAM, GRIDSMITH_PROGRAM, "serve", "--device", "host", "--no-mps", "--socket", socket_path,
              NULL);
        _exit(127);
    }
    assert_int_equal(WEXITSTATUS(wait_process(second)), 4);
    assert_true(is_serving());
    stop_daemon(daemon);
}

/* ---- kernels that fail ---- */

/* The failed commands of the clients of this process, as the daemon counts them. */
static int errors_of_this_process(void) {
    char *text = NULL;
    size_t i;
    json_t *client, *root = gs_status_request(socket_path, &text, NULL) == GS_OK ? json_loads(text, 0, NULL) : NULL;
    int errors = 0;
    json_array_foreach(json_object_get(root, "clients"), i, client) {
        if (json_integer_value(json_object_get(client, "process")) == getpid())
            errors += (int)json_integer_value(json_object_get(client, "errors"));
    }
    json_decref(root);
    free(text);
    return errors;
}

static int client_launches_bad(int kernel) {
    gs_client *client = client_open();
    uint32_t module;
    gs_client_memory memory;
    if (!client || client_load(client, &module) || gs_client_malloc(client, 400, &memory))
        return client_fails("start");
    gs_client_argument arguments[] = {GS_CLIENT_AT(memory)};
    if (client_start(client, 0, module, (uint32_t)kernel, 1, arguments, 1))
        return client_fails("launch");
    gs_client_code code = gs_client_wait(client, 0);
    fprintf(stderr, "as it should: %s\n", gs_client_message());
    if (errors_of_this_process() != 1 || gs_client_wait(client, 0) != code || gs_client_free(client, memory) != code ||
        gs_client_wait(client, GS_CLIENT_STREAMS) != GS_CLIENT_INVALID)
        return client_fails("calls after the failure");
    gs_client_close(client);
    return (int)code;
}

static void bad_kernel(int kernel) {
    pid_t daemon = kernel == ENDLESS ? DAEMON("--sms", "4", "--limit", SHORT_LIMIT) : DAEMON("--sms", "4");
    pid_t innocent = spawn(client_until_error, 1000000);
    TEST_WAIT(status_number("launches") >= 10);
    pid_t guilty = spawn(client_launches_bad, kernel);
    assert_int_equal(WEXITSTATUS(wait_process(guilty)), GS_CLIENT_KERNEL);
    assert_int_equal(WEXITSTATUS(wait_process(innocent)), GS_CLIENT_RESET);
    assert_true(status_number("device.restarts") == 1);
    assert_int_equal(wait_process(spawn(client_works, 2)), 0);
    stop_daemon(daemon);
}

DAEMON_TEST(kernel_that_faults_is_its_clients_error) {
    bad_kernel(FAULT);
}

DAEMON_TEST(kernel_that_never_ends_is_stopped) {
    unlink("daemon.log");
    bad_kernel(ENDLESS);
    assert_true(log_has(": test: it ran longer than the limit of " SHORT_LIMIT " s: the worker was restarted\n"));
}

DAEMON_TEST(wrong_calls_are_reported_and_change_nothing) {
    pid_t daemon = DAEMON("--sms", "4", "--memory", "8");
    gs_client *client = client_open();
    uint32_t module;
    gs_client_memory memory, more;
    char bytes[64] = {0};
    static const char *const none[] = {"nothing"};
    gs_client_source bad = {.text = "__global__ void nothing() { this is wrong }", .kernels = none, .kernel_count = 1};
    assert_non_null(client);
    assert_int_equal(client_load(client, &module), GS_CLIENT_OK);
    assert_int_equal(gs_client_load(client, &bad, &module), GS_CLIENT_SOURCE);
    assert_true(strlen(gs_client_message()) > 10);
    assert_int_equal(gs_client_malloc(client, 4 << 20, &memory), GS_CLIENT_OK);
    assert_int_equal(gs_client_malloc(client, 16 << 20, &more), GS_CLIENT_MEMORY);
    assert_int_equal(gs_client_malloc(client, 0, &more), GS_CLIENT_INVALID);
    assert_int_equal(gs_client_malloc(client, (size_t)1 << 40, &more), GS_CLIENT_MEMORY);
    assert_int_equal(gs_client_malloc(client, SIZE_MAX, &more), GS_CLIENT_MEMORY);
    assert_int_equal(gs_client_copy_in(client, 0, memory + (4 << 20) - 10, bytes, 11), GS_CLIENT_INVALID);
    assert_int_equal(gs_client_copy_in(client, 32, memory, bytes, 1), GS_CLIENT_INVALID);
    assert_int_equal(gs_client_free(client, memory + 1), GS_CLIENT_INVALID);
    assert_int_equal(gs_client_event_wait(client, 3), GS_CLIENT_INVALID);
    assert_int_equal(client_start(client, 0, module + 7, FILL, 1, NULL, 0), GS_CLIENT_INVALID);
    assert_int_equal(gs_client_free(client, memory), GS_CLIENT_OK);
    assert_int_equal(gs_client_malloc(client, 6 << 20, &memory), GS_CLIENT_OK); /* freed memory is free */
    /* A launch with too few arguments is an error of the stream; the client can continue. */
    assert_int_equal(client_load(client, &module), GS_CLIENT_OK);
    assert_int_equal(client_start(client, 3, module, FILL, 1, NULL, 0), GS_CLIENT_OK);
    assert_int_not_equal(gs_client_wait(client, 3), GS_CLIENT_OK);
    assert_int_equal(client_computes(client, module, 700, 4), 0);
    gs_client_close(client);
    stop_daemon(daemon);
}

/* Of 8 MiB a client may have 7, so each finds what the one before it had. */
DAEMON_TEST(closing_frees_before_the_next_client) {
    enum { TIMES = 40 };
    pid_t daemon = DAEMON("--sms", "4", "--memory", "8");
    for (int i = 0; i < TIMES; i++) {
        gs_client *client = client_open();
        gs_client_memory memory;
        assert_non_null(client);
        assert_int_equal(gs_client_malloc(client, 6 << 20, &memory), GS_CLIENT_OK);
        assert_int_equal(gs_client_fill(client, 0, memory, 1, 6 << 20), GS_CLIENT_OK);
        gs_client_close(client);
        assert_int_equal((int)status_number("limits.all.memory_bytes.used"), 0);
    }
    /* A child that closes what it inherited ends nothing. */
    gs_client *client = client_open();
    assert_non_null(client);
    pid_t child = fork();
    if (child == 0) {
        gs_client_close(client);
        _exit(0);
    }
    assert_int_equal(wait_process(child), 0);
    uint32_t module;
    assert_int_equal(client_load(client, &module), GS_CLIENT_OK);
    assert_int_equal(client_computes(client, module, 700, 4), 0);
    gs_client_close(client);
    stop_daemon(daemon);
}

/* What a launch of this shape gets: at once, or when its stream is waited for. Then the client must go on. */
static void expect_wrong_launch(gs_client *client, gs_client_launch launch) {
    gs_client_code code = gs_client_start(client, 2, &launch);
    if (code == GS_CLIENT_OK)
        code = gs_client_wait(client, 2);
    if (code != GS_CLIENT_INVALID)
        fail_msg("code %d for a grid of %u, %u, %u, blocks of %u, %u, %u, and %zu bytes: %s", code, launch.grid[0],
                 launch.grid[1], launch.grid[2], launch.block[0], launch.block[1], launch.block[2], launch.shared_bytes,
                 gs_client_message());
    assert_int_equal(client_computes(client, launch.module, 10, 4), 0);
}

DAEMON_TEST(launches_that_cannot_begin_are_wrong_calls) {
    pid_t daemon = DAEMON("--sms", "4");
    gs_client *client = client_open();
    uint32_t module;
    gs_client_memory memory;
    int value = 0;
    assert_non_null(client);
    assert_int_equal(client_load(client, &module), GS_CLIENT_OK);
    assert_int_equal(gs_client_malloc(client, 4096, &memory), GS_CLIENT_OK);
    const gs_client_argument arguments[] = {GS_CLIENT_AT(memory), GS_CLIENT_VALUE(value), GS_CLIENT_VALUE(value)};
    static const struct {
        uint32_t grid[3], block[3];
        size_t shared_bytes;
    } wrong[] = {{{1}, {1025}, 0},
                 {{1}, {1024, 2}, 0},
                 {{1}, {1, 1025}, 0},
                 {{1}, {1, 1, 65}, 0},
                 {{1}, {UINT32_MAX}, 0},
                 {{1}, {65536, 65536, 64}, 0},
                 {{UINT32_MAX}, {1}, 0},
                 {{1, 65536}, {1}, 0},
                 {{1, 1, 65536}, {1}, 0},
                 {{1 << 30, 65535, 2}, {1}, 0},
                 {{1}, {1}, (size_t)1 << 30},
                 {{1}, {1}, (size_t)1 << 63},
                 {{1}, {1}, SIZE_MAX - 143}, /* wraps around with the shared memory of a confined form */
                 {{1}, {1}, SIZE_MAX}};
    for (size_t i = 0; i < GS_COUNT(wrong); i++) {
        gs_client_launch launch = {.module = module,
                                   .kernel = FILL,
                                   .shared_bytes = wrong[i].shared_bytes,
                                   .arguments = arguments,
                                   .argument_count = GS_COUNT(arguments)};
        memcpy(launch.grid, wrong[i].grid, sizeof launch.grid);
        memcpy(launch.block, wrong[i].block, sizeof launch.block);
        expect_wrong_launch(client, launch);
    }
    gs_client_close(client);
    stop_daemon(daemon);
}

DAEMON_TEST(sources_that_fail_have_the_right_code) {
    pid_t daemon = DAEMON("--sms", "4");
    gs_client *client = client_open();
    static const char good[] = "__global__ void k(int *at) { at[0] = 1; }\n";
    static const char product[] = "{\"schema\": \"gridsmith.product/1\", \"rows\": 2, \"columns\": 3, \"depth\": 4}";
    static const struct {
        const char *text, *kernel, *option;
        uint32_t count;
        gs_client_code code;
        const char *words;
    } rows[] = {
        {good, "absent", NULL, 1, GS_CLIENT_SOURCE, "absent"},
        {"", "k", NULL, 1, GS_CLIENT_SOURCE, "k"},
        {".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k( { ", "k", NULL, 1, GS_CLIENT_SOURCE, ""},
        {".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }", "l", NULL, 1, GS_CLIENT_SOURCE,
         "has no kernel l"},
        {good, "k", "-o/nowhere", 1, GS_CLIENT_INVALID, "an option must begin with -D, not \"-o/nowhere\""},
        {good, "k", NULL, 65, GS_CLIENT_INVALID, "at most 64 kernels and 32 options can be requested"},
        {good, "k", NULL, 0, GS_CLIENT_INVALID, "a source needs the name of at least one kernel"},
        {good, "k", "-DA=1", 1, GS_CLIENT_OK, NULL},
        {product, "product", NULL, 1, GS_CLIENT_OK, NULL},
        {product, "k", NULL, 1, GS_CLIENT_SOURCE, "has one kernel, \"product\", not \"k\""},
        {product, "product", "-DA=1", 1, GS_CLIENT_INVALID, "options apply only to CUDA sources"},
        {"{\"schema\": \"gridsmith.product/1\", \"rows\": 0}", "product", NULL, 1, GS_CLIENT_SOURCE,
         "source.cu:1:43: \"rows\" must be from 1 to 16777216, not 0"},
    };
    assert_non_null(client);
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        const char *names[65];
        uint32_t module;
        for (size_t n = 0; n < GS_COUNT(names); n++)
            names[n] = rows[i].kernel;
        gs_client_source source = {.text = rows[i].text,
                                   .kernels = names,
                                   .kernel_count = rows[i].count,
                                   .options = &rows[i].option,
                                   .option_count = rows[i].option ? 1 : 0};
        gs_client_code code = gs_client_load(client, &source, &module);
        if (code != rows[i].code || (rows[i].words && !strstr(gs_client_message(), rows[i].words)))
            fail_msg("row %zu: code %d: %s", i, code, gs_client_message());
    }
    gs_client_close(client);
    stop_daemon(daemon);
}

static gs_client_code start_product(gs_client *client, uint32_t module, gs_client_memory a, gs_client_memory b,
                                    gs_client_memory c) {
    const gs_client_argument arguments[] = {GS_CLIENT_AT(a), GS_CLIENT_AT(b), GS_CLIENT_AT(c)};
    gs_client_launch launch = {.module = module, .grid = {1000000, 1, 1}, .block = {256, 1, 1}, .arguments = arguments};
    launch.argument_count = GS_COUNT(arguments);
    gs_client_code code = gs_client_start(client, 0, &launch);
    return code == GS_CLIENT_OK ? gs_client_wait(client, 0) : code;
}

/* 2 x 4 by 4 x 3 bfloat16; a number I is exactly the upper half of a float. */
DAEMON_TEST(products_run_like_kernels) {
    enum { ROWS = 2, COLUMNS = 3, DEPTH = 4, BYTES = 784 };
    pid_t daemon = DAEMON("--sms", "4");
    gs_client *client = client_open();
    static const char *const name = "product";
    gs_client_source source = {.text = "{\"schema\": \"gridsmith.product/1\", \"rows\": 2, \"columns\": 3, "
                                       "\"depth\": 4, \"b_transposed\": true, \"bfloat16\": true}",
                               .kernels = &name,
                               .kernel_count = 1};
    uint16_t factors[BYTES / 2] = {0};
    float c[ROWS * COLUMNS];
    uint32_t module;
    gs_client_memory memory;
    for (int i = 0; i < BYTES / 2; i++) {
        float value = (float)(i % 7 - 3);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        factors[i] = (uint16_t)(bits >> 16);
    }
    assert_non_null(client);
    assert_int_equal(gs_client_load(client, &source, &module), GS_CLIENT_OK);
    assert_int_equal(gs_client_malloc(client, BYTES, &memory), GS_CLIENT_OK);
    assert_int_equal(gs_client_copy_in(client, 0, memory, factors, BYTES), GS_CLIENT_OK);
    assert_int_equal(start_product(client, module, memory, memory + 256, memory + 512), GS_CLIENT_OK);
    assert_int_equal(gs_client_copy_out(client, 0, c, memory + 512, sizeof c), GS_CLIENT_OK);
    for (int at = 0; at < ROWS * COLUMNS; at++) {
        float sum = 0;
        for (int k = 0; k < DEPTH; k++)
            sum += (float)((at / COLUMNS * DEPTH + k) % 7 - 3) * (float)((128 + at % COLUMNS * DEPTH + k) % 7 - 3);
        assert_true(c[at] == sum);
    }
    assert_int_equal(start_product(client, module, memory, memory + 256, memory + 500), GS_CLIENT_INVALID);
    assert_string_equal(gs_client_message(), "argument 3 of a product must be at a multiple of 256 bytes");
    assert_int_equal(start_product(client, module, memory, memory + 256, memory + 768), GS_CLIENT_INVALID);
    assert_string_equal(gs_client_message(), "argument 3 of the product needs 24 bytes, its memory has 16");
    gs_client_close(client);
    setenv("GRIDSMITH_SOCKET", socket_path, 1);
    assert_int_equal(system("'" GRIDSMITH_PROGRAM "' zoo load tgemm/cublas:2 resnet50/cublas:1 --size odd --rounds 2 "
                            "--on serve >zoo.log 2>&1 && [ $(grep -c ' right$' zoo.log) = 2 ]"),
                     0);
    unsetenv("GRIDSMITH_SOCKET");
    stop_daemon(daemon);
}

/* Of several commands that fail, the first is reported; after that, the next one that fails. */
DAEMON_TEST(the_first_error_of_a_stream_stays) {
    pid_t daemon = DAEMON("--sms", "4");
    gs_client *client = client_open();
    uint32_t module;
    int64_t wide = 0;
    gs_client_argument one[] = {GS_CLIENT_VALUE(wide)};
    assert_non_null(client);
    assert_int_equal(client_load(client, &module), GS_CLIENT_OK);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(client_start(client, 3, module, FILL, 1, NULL, 0), GS_CLIENT_OK);
        assert_int_equal(client_start(client, 3, module, FILL, 1, one, 1), GS_CLIENT_OK);
        assert_int_equal(client_start(client, 3, module, FILL, 1, one, 1), GS_CLIENT_OK);
        assert_int_equal(gs_client_wait(client, 3), GS_CLIENT_INVALID);
        assert_string_equal(gs_client_message(), "the kernel has 3 parameters, but 0 arguments were given");
        assert_int_equal(gs_client_wait(client, 3), GS_CLIENT_OK);
    }
    assert_int_equal(client_start(client, 3, module, FILL, 1, one, 1), GS_CLIENT_OK);
    assert_int_equal(gs_client_wait(client, 3), GS_CLIENT_INVALID);
    assert_string_equal(gs_client_message(), "the kernel has 3 parameters, but 1 arguments were given");
    gs_client_close(client);
    stop_daemon(daemon);
}

/* ---- clients that send nothing, too much, or nonsense ---- */

static int raw_connect(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* A client that writes to its ring directly. */
struct raw {
    int socket, page_fd;
    gs_wire_page *page;
    gs_ring ring;
};

static struct raw raw_open_as(uint32_t weight, int32_t priority) {
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC,
                           .version = GS_WIRE_VERSION,
                           .kind = GS_WIRE_HELLO,
                           .weight = weight,
                           .priority = priority};
    gs_wire_welcome welcome;
    struct raw raw = {.socket = gs_wire_connect(socket_path, &hello)};
    assert_true(raw.socket >= 0);
    assert_int_equal(gs_wire_answer(raw.socket, &welcome, &raw.page_fd, 1), GS_CLIENT_OK);
    raw.page = mmap(NULL, gs_wire_page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, raw.page_fd, 0);
    assert_ptr_not_equal(raw.page, MAP_FAILED);
    gs_ring_attach_socket(&raw.ring, raw.page + 1, GS_WIRE_RING_BYTES, raw.socket);
    return raw;
}

static struct raw raw_open(void) {
    return raw_open_as(100, 0);
}

static void raw_close(struct raw *raw) {
    munmap(raw->page, gs_wire_page_bytes());
    close(raw->page_fd);
    close(raw->socket);
}

static void wait_end(struct raw *raw) {
    TEST_WAIT(atomic_load(&raw->page->end_code) != 0);
    assert_int_equal(atomic_load(&raw->page->end_code), GS_CLIENT_INVALID);
}

/* The client library refuses what is out of range; a client that does without it gets the nearest. */
DAEMON_TEST(weights_and_priorities_have_limits) {
    static const struct {
        uint32_t weight, its_weight;
        int32_t priority, its_priority;
    } cases[] = {{0, 1, 11, 10},        {1, 1, -11, -10},       {1000, 1000, 10, 10}, {1001, 1000, -10, -10},
                 {7, 7, INT32_MAX, 10}, {8, 8, INT32_MIN, -10}, {9, 9, 3, 3}};
    pid_t daemon = DAEMON("--sms", "4");
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        struct raw raw = raw_open_as(cases[i].weight, cases[i].priority);
        json_t *root = read_status(), *client = json_array_get(json_object_get(root, "clients"), 0);
        assert_int_equal(json_integer_value(json_object_get(client, "weight")), cases[i].its_weight);
        assert_int_equal(json_integer_value(json_object_get(client, "priority")), cases[i].its_priority);
        json_decref(root);
        raw_close(&raw);
        wait_status("clients", 0);
    }
    stop_daemon(daemon);
}

DAEMON_TEST(nonsense_ends_only_the_client_that_sends_it) {
    pid_t daemon = DAEMON("--sms", "4"), honest = spawn(client_works, (int)scaled(30));
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 7), 1);
    int silent = raw_connect(), wordy = raw_connect();
    char text[3000];
    memset(text, 'x', sizeof text);
    assert_true(send(wordy, text, sizeof text, MSG_NOSIGNAL) > 0);
    for (uint64_t i = 0; i < scaled(40); i++) {
        struct raw raw = raw_open();
        union {
            uint32_t words[64];
            gs_wire_copy copy;
            gs_wire_launch launch;
            gs_wire_free forget;
        } record;
        for (size_t k = 0; k < GS_COUNT(record.words); k++)
            record.words[k] = (uint32_t)gs_random_next(&random) & (gs_random_chance(&random, 70) ? 7 : UINT32_MAX);
        record.words[0] = (uint32_t)gs_random_from(&random, 0, GS_WIRE_COMMAND_COUNT);
        if (record.words[0] == GS_WIRE_ALLOCATE || record.words[0] == GS_WIRE_EVENT)
            record.words[1] = 1000; /* without this, these commands could be valid */
        if (gs_random_chance(&random, 20))
            memset(raw.page + 1, 0xff, 4096); /* the ring itself */
        else
            gs_ring_put(&raw.ring, &record, (uint32_t)gs_random_from(&random, 1, 30) * 8);
        gs_bell_ring_socket(raw.socket);
        wait_end(&raw);
        raw_close(&raw);
    }
    assert_int_equal(wait_process(honest), 0);
    close(silent);
    close(wordy);
    wait_status("clients", 0);
    stop_daemon(daemon);
}

/* ---- honest clients under load ---- */

/* More launches than the daemon takes at a time, then everything that needs a file. */
static int client_loads_behind_launches(int unused) {
    enum { LAUNCHES = 600, BYTES = 4096 };
    gs_client *client = client_open();
    gs_client_memory memory;
    uint32_t module, other;
    int serial = 20000;
    char *shared, plain[BYTES];
    (void)unused;
    if (!client || client_load(client, &module) || gs_client_malloc(client, BYTES, &memory))
        return client_fails("open");
    gs_client_argument slow[] = {GS_CLIENT_AT(memory), GS_CLIENT_VALUE(serial)};
    for (int i = 0; i < LAUNCHES; i++)
        if (client_start(client, 0, module, SLOW, 64, slow, 2))
            return client_fails("launch");
    while (status_number("launches") < 1)
        sleep_ms(5);
    if (gs_client_copy_out(client, 0, plain, memory, sizeof plain))
        return client_fails("copy_out");
    for (int i = 0; i < LAUNCHES; i++)
        if (client_start(client, (uint32_t)i % 4, module, SLOW, 64, slow, 2))
            return client_fails("launch");
    if (gs_client_host_malloc(client, BYTES, (void **)&shared) || client_load(client, &other))
        return client_fails("host_malloc or load");
    if (gs_client_wait_all(client))
        return client_fails("wait");
    gs_client_close(client);
    return 0;
}

/* A handle is used again right after it was freed, behind launches that the daemon has not taken. */
static int client_reuses_handles(int unused) {
    enum { TURNS = 30, LAUNCHES = 300, BYTES = 4096 };
    int turns = test_is_brief() ? TURNS / 6 : TURNS;
    gs_client *client = client_open();
    gs_client_memory memory;
    uint32_t module;
    int serial = 2000;
    (void)unused;
    if (!client || client_load(client, &module) || gs_client_malloc(client, BYTES, &memory))
        return client_fails("open");
    gs_client_argument slow[] = {GS_CLIENT_AT(memory), GS_CLIENT_VALUE(serial)};
    for (int i = 0; i < turns; i++) {
        void *shared;
        uint32_t other;
        if (client_load(client, &other) || gs_client_host_malloc(client, BYTES, &shared))
            return client_fails("load or host_malloc");
        for (int k = 0; k < LAUNCHES && i % 3 == 0; k++)
            if (client_start(client, 1, module, SLOW, 8, slow, 2))
                return client_fails("launch");
        if (gs_client_unload(client, other) || gs_client_host_free(client, shared))
            return client_fails("unload or host_free");
    }
    if (gs_client_wait_all(client))
        return client_fails("wait");
    gs_client_close(client);
    return 0;
}

DAEMON_TEST(files_stay_in_the_order_of_commands) {
    pid_t daemon = DAEMON("--sms", "4"), clients[6];
    for (size_t i = 0; i < GS_COUNT(clients); i++)
        clients[i] = spawn(i % 2 ? client_reuses_handles : client_loads_behind_launches, 0);
    for (size_t i = 0; i < GS_COUNT(clients); i++)
        assert_int_equal(wait_process(clients[i]), 0);
    stop_daemon(daemon);
}

/* ---- clients that would block the daemon ---- */

/* Makes every descriptor that it shares with the daemon blocking, never reads, and wants to be rung all the time. */
static int client_blocks(int unused) {
    struct raw raw = raw_open();
    gs_wire_record record = {.head = {.command = GS_WIRE_EVENT}};
    (void)unused;
    fcntl(raw.socket, F_SETFL, fcntl(raw.socket, F_GETFL) & ~O_NONBLOCK);
    fcntl(raw.page_fd, F_SETFL, fcntl(raw.page_fd, F_GETFL) & ~O_NONBLOCK);
    for (int i = 0; i < 200000; i++) {
        atomic_store(&raw.page->client_sleeps, 1);
        gs_ring_put(&raw.ring, &record, sizeof record);
    }
    pause();
    return 0;
}

DAEMON_TEST(nobody_can_block_the_daemon) {
    pid_t daemon = DAEMON("--sms", "4"), hostile = spawn(client_blocks, 0);
    wait_status("clients", 1);
    wait_asleep(hostile);
    assert_int_equal(wait_process(spawn(client_works, 3)), 0);
    wait_status("clients", 1);
    stop_daemon(daemon); /* while it is connected */
    kill(hostile, SIGKILL);
    wait_process(hostile);
}

/* Sends a file, and a command that does not go with it. */
static void expect_file_end(int fd, const void *command, uint32_t bytes, const char *message) {
    struct raw raw = raw_open();
    const char byte = GS_WIRE_FILE;
    if (fd >= 0)
        assert_int_equal(gs_descriptors_send(raw.socket, &byte, 1, &fd, 1, 0), 1);
    assert_int_equal(gs_ring_put(&raw.ring, command, bytes), GS_RING_DONE);
    wait_end(&raw);
    assert_string_equal(raw.page->end_message, message);
    raw_close(&raw);
}

DAEMON_TEST(wrong_files_are_named) {
    pid_t daemon = DAEMON("--sms", "4");
    gs_wire_share share = {.head = {.command = GS_WIRE_SHARE}, .region = 1, .bytes = 4096};
    gs_wire_load load = {.head = {.command = GS_WIRE_LOAD}, .module = 1, .kernels = 1, .bytes = 4096};
    int ends[2], loose = memfd_create("test", MFD_CLOEXEC), sealed = memfd_create("test", MFD_ALLOW_SEALING),
                 constant = memfd_create("test", MFD_ALLOW_SEALING);
    char path[40];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(ftruncate(loose, 4096) | ftruncate(sealed, 4096), 0);
    assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    const int others[] = {ends[0], ends[1], loose, open("/dev/zero", O_RDWR), open("/", O_RDONLY | O_DIRECTORY)};
    expect_file_end(-1, &share, sizeof share, "a command without its file, or with reply slot 0");
    for (size_t i = 0; i < GS_COUNT(others); i++) {
        expect_file_end(others[i], &share, sizeof share, "a file is not sealed memory of 4096 bytes");
        expect_file_end(others[i], &load, sizeof load, "a file is not sealed memory of 4096 bytes");
        close(others[i]);
    }
    expect_file_end(sealed, &load, sizeof load, "a file is not sealed memory of 4096 bytes"); /* it can be written */
    assert_int_equal(ftruncate(constant, 4096), 0);
    assert_int_equal(fcntl(constant, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL), 0);
    expect_file_end(constant, &share, sizeof share, "host memory to share must be writable");
    snprintf(path, sizeof path, "/proc/self/fd/%d", sealed);
    int reading = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(reading >= 0);
    expect_file_end(reading, &share, sizeof share, "host memory to share must be writable");
    close(reading);
    load.kernels = 0;
    expect_file_end(constant, &load, sizeof load, "a file of 4096 bytes is not a source");
    close(constant);
    share.region = GS_WIRE_REGIONS;
    expect_file_end(sealed, &share, sizeof share, "region handle 1024 is out of range");
    share.region = 1;
    share.bytes = 4095;
    expect_file_end(sealed, &share, sizeof share, "a file is not sealed memory of 4095 bytes");
    int empty = memfd_create("test", MFD_ALLOW_SEALING);
    assert_int_equal(fcntl(empty, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    share.bytes = 0;
    expect_file_end(empty, &share, sizeof share, "a file is not sealed memory of 0 bytes");
    close(empty);
    struct raw raw = raw_open();
    const char byte = GS_WIRE_FILE;
    for (int i = 0; i <= GS_WIRE_FILES; i++)
        assert_int_equal(gs_descriptors_send(raw.socket, &byte, 1, &sealed, 1, 0), 1);
    wait_end(&raw);
    assert_string_equal(raw.page->end_message, "more than 4 files were sent without a command");
    raw_close(&raw);
    close(sealed);
    stop_daemon(daemon);
}

/* Sends one command, and expects the client to be ended with this message. */
static void expect_end(const void *command, uint32_t bytes, const char *message) {
    struct raw raw = raw_open();
    assert_int_equal(gs_ring_put(&raw.ring, command, bytes), GS_RING_DONE);
    wait_end(&raw);
    assert_string_equal(raw.page->end_message, message);
    raw_close(&raw);
}

DAEMON_TEST(wrong_commands_are_named) {
    pid_t daemon = DAEMON("--sms", "4");
    gs_wire_head unknown = {.command = 17}, elsewhere = {.command = GS_WIRE_EVENT, .stream = 32};
    gs_wire_free missing = {.head = {.command = GS_WIRE_FREE}, .handle = 9};
    gs_wire_allocate far = {.head = {.command = GS_WIRE_ALLOCATE}, .memory = GS_WIRE_MEMORIES, .bytes = 1};
    gs_wire_record event = {.head = {.command = GS_WIRE_EVENT}, .event = GS_CLIENT_EVENTS};
    expect_end(&unknown, sizeof unknown, "unknown command 17");
    expect_end(&elsewhere, sizeof elsewhere, "stream 32 is out of range");
    expect_end(&missing, sizeof missing, "cannot free unknown memory handle 9");
    expect_end(&missing, sizeof missing - 8, "invalid size of command 3: 8 bytes");
    expect_end(&far, sizeof far, "memory handle 65536 is out of range");
    expect_end(&event, sizeof event, "event 1024 is out of range");
    stop_daemon(daemon);
}

/* Sends as fast as it can, reads nothing, and rings all bells. */
static int client_floods(int unused) {
    (void)unused;
    struct raw raw = raw_open();
    gs_wire_record record = {.head = {.command = GS_WIRE_EVENT}};
    while (raw.page) {
        gs_ring_put(&raw.ring, &record, sizeof record);
        gs_bell_ring_socket(raw.socket);
        atomic_store(&raw.page->client_sleeps, 1);
    }
    return 0;
}

DAEMON_TEST(flooding_client_is_only_one_of_many) {
    pid_t daemon = DAEMON("--sms", "4"), flood = spawn(client_floods, 0);
    assert_int_equal(wait_process(spawn(client_works, 3)), 0);
    kill(flood, SIGKILL);
    wait_process(flood);
    stop_daemon(daemon);
}

/* ---- floods: limits, and the share of others ---- */

/* Waits for the message of a refusal, and for the end of the connection. Returns whether the message has these words.
 */
static bool is_refused(int fd, const char *words) {
    gs_wire_welcome refusal = {0}, nothing;
    assert_int_equal(recv(fd, &refusal, sizeof refusal, 0), sizeof refusal);
    assert_int_equal(refusal.code, GS_CLIENT_REFUSED);
    assert_true(recv(fd, &nothing, sizeof nothing, 0) <= 0);
    return strstr(refusal.message, words);
}

/* As many connections as this process may have, or more than the daemon may. */
static size_t connect_silently(int *fds, size_t most) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    size_t count = gs_min_u64(most, limit.rlim_cur - 50);
    for (size_t i = 0; i < count; i++)
        fds[i] = raw_connect();
    return count;
}

static void close_all(const int *fds, size_t count) {
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

/* The same, until the first one has no place any more. On a busy machine it may be refused before that, for its age. */
static size_t connect_too_many(int *fds, size_t most) {
    size_t count = connect_silently(fds, most);
    for (int tries = 0; !is_refused(fds[0], "too many connections without a hello"); tries++) {
        assert_true(tries < 20);
        close_all(fds, count);
        count = connect_silently(fds, most);
    }
    return count;
}

DAEMON_TEST(silent_connections_lock_nobody_out) {
    static int silent[1500];
    pid_t daemon = DAEMON("--sms", "4");
    size_t count = connect_too_many(silent, GS_COUNT(silent));
    assert_true(is_serving());
    assert_int_equal(wait_process(spawn(client_works, 1)), 0);
    gs_client *client = client_open(); /* of the same process */
    assert_non_null(client);
    gs_client_close(client);
    assert_true(is_refused(silent[count - 1], "no hello within 5 s"));
    close_all(silent, count);
    stop_daemon(daemon);
}

/* Opens clients until one is refused. The exit code is how many there are, if the refusal names the limit. */
static int client_opens_many(int unused) {
    enum { MOST = 250 };
    gs_client *clients[MOST];
    gs_client_options options = {.socket = socket_path, .name = "many"};
    int count = 0;
    (void)unused;
    while (count < MOST && gs_client_open(&options, &clients[count]) == GS_CLIENT_OK)
        count++;
    if (count < MOST && !strstr(gs_client_message(), "a process may have at most 64 clients"))
        return 255;
    for (int i = 0; i < 3 * count && count < MOST; i++) { /* a closed client leaves its place at once */
        gs_client_close(clients[i % count]);
        if (gs_client_open(&options, &clients[i % count]) != GS_CLIENT_OK)
            return client_fails("opening again");
    }
    while (access("opened", F_OK) != 0)
        sleep_ms(10);
    return count;
}

DAEMON_TEST(clients_of_one_process_leave_places_for_others) {
    pid_t daemon = DAEMON("--sms", "4"), many = spawn(client_opens_many, 0);
    wait_status("clients", 64);
    assert_int_equal(wait_process(spawn(client_works, 1)), 0);
    close(open("opened", O_CREAT | O_WRONLY, 0600));
    assert_int_equal(WEXITSTATUS(wait_process(many)), 64);
    unlink("opened");
    stop_daemon(daemon);
}

/* Has children open clients, which send their sockets and end. Keeps the sockets until it is told to end. */
static int client_collects_clients(int children) {
    enum { EACH = 60 };
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC, .version = GS_WIRE_VERSION, .kind = GS_WIRE_HELLO, .weight = 100};
    gs_wire_welcome welcome;
    struct rlimit limit;
    int ends[2], fd, page;
    char byte;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 98;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < children; i++) {
        pid_t child = fork();
        for (int k = 0; child == 0 && k < EACH; k++) {
            fd = gs_wire_connect(socket_path, &hello);
            gs_wire_answer(fd, &welcome, &page, 1); /* the last ones are refused */
            gs_descriptors_send(ends[1], "s", 1, &fd, 1, 0);
        }
        if (child == 0)
            _exit(0);
        for (int k = 0; k < EACH && gs_descriptors_receive(ends[0], &byte, 1, &fd, 1, 0) == 1; k++)
            ;
        wait_process(child);
    }
    close(open("collected", O_CREAT | O_WRONLY, 0600));
    pause();
    return 0;
}

/* 1020 connections of 17 children that have ended: their places are free. */
DAEMON_TEST(clients_end_with_the_process_that_opened_them) {
    pid_t daemon = DAEMON("--sms", "4"), collector = spawn(client_collects_clients, 17);
    TEST_WAIT(access("collected", F_OK) == 0);
    unlink("collected");
    wait_status("clients", 0);
    assert_int_equal(wait_process(spawn(client_works, 1)), 0);
    kill(collector, SIGKILL);
    wait_process(collector);
    stop_daemon(daemon);
}

/* Host memory is limited for each client and for all; requests beyond are refused, and the client continues. */
DAEMON_TEST(shared_host_memory_is_limited) {
    enum { MIB = 1 << 20 };
    pid_t daemon = DAEMON("--sms", "4", "--client-host-memory", "64");
    gs_client *client = client_open();
    void *first, *second, *third;
    uint32_t module;
    assert_non_null(client);
    assert_int_equal(gs_client_host_malloc(client, (size_t)1 << 27, &first), GS_CLIENT_MEMORY);
    assert_string_equal(gs_client_message(),
                        "a client may have at most 67108864 bytes of shared host memory: 0 are in use, "
                        "134217728 more were requested");
    assert_int_equal(gs_client_host_malloc(client, 40 * MIB, &first), GS_CLIENT_OK);
    assert_int_equal(gs_client_host_malloc(client, 24 * MIB, &second), GS_CLIENT_OK);
    assert_int_equal(gs_client_host_malloc(client, 1, &third), GS_CLIENT_MEMORY);
    assert_int_equal(gs_client_host_free(client, second), GS_CLIENT_OK);
    assert_int_equal(client_load(client, &module), GS_CLIENT_OK);
    assert_int_equal(client_computes(client, module, 700, 4), 0);
    assert_true(status_number("limits.all.shared_bytes.used") >= 40 * MIB);
    gs_client_close(client);
    wait_status("limits.all.shared_bytes.used", 0);
    stop_daemon(daemon);
}

/* Linux counts the descriptors that processes of a user have put into sockets, and takes no more than RLIMIT_NOFILE of
   them; root may have more. */
static int client_without_references(int unused) {
    enum { LIMIT = 64, AT_ONCE = 16 };
    gs_client *client = client_open();
    struct rlimit limit, low;
    int fds[AT_ONCE], ends[2];
    void *memory;
    (void)unused;
    getrlimit(RLIMIT_NOFILE, &limit);
    low = (struct rlimit){LIMIT, limit.rlim_max};
    if (!client || socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0 || (getuid() == 0 && setuid(65534) != 0) ||
        setrlimit(RLIMIT_NOFILE, &low) != 0)
        return 98;
    for (int i = 0; i < AT_ONCE; i++)
        fds[i] = ends[0];
    while (gs_descriptors_send(ends[0], "x", 1, fds, AT_ONCE, MSG_DONTWAIT) == 1)
        ;
    if (errno != ETOOMANYREFS || gs_client_host_malloc(client, 4096, &memory) != GS_CLIENT_SYSTEM ||
        !strstr(gs_client_message(), "cannot send a file to the daemon"))
        return client_fails("it was sent");
    close(ends[0]);
    close(ends[1]);
    setrlimit(RLIMIT_NOFILE, &limit); /* other processes of the user may have some in sockets, too */
    for (int i = 0; i < PATIENCE_MS && gs_client_host_malloc(client, 4096, &memory) == GS_CLIENT_SYSTEM; i += 50)
        sleep_ms(50); /* they refer to each other, and are freed by a thread of the system */
    return gs_client_host_malloc(client, 4096, &memory) == GS_CLIENT_OK ? 0 : client_fails("host_malloc");
}

DAEMON_TEST(file_that_cannot_be_sent_is_an_error_and_not_the_end) {
    pid_t daemon = DAEMON("--sms", "4");
    assert_int_equal(wait_process(spawn(client_without_references, 0)), 0);
    stop_daemon(daemon);
}

/* Sparse files would fill the address space of the worker if they were not counted. */
static int client_shares_much(int number) {
    gs_client *client = client_open();
    void *memory;
    char name[20];
    snprintf(name, sizeof name, "shared%d", number);
    if (!client)
        return 1;
    for (size_t bytes = (size_t)1 << 46; bytes >= 4096; bytes /= 2)
        while (gs_client_host_malloc(client, bytes, &memory) == GS_CLIENT_OK)
            ;
    close(open(name, O_CREAT | O_WRONLY, 0600));
    pause();
    return 0;
}

static void wait_file(const char *name, int number) {
    char path[20];
    snprintf(path, sizeof path, "%s%d", name, number);
    TEST_WAIT(access(path, F_OK) == 0);
    unlink(path);
}

DAEMON_TEST(sparse_memory_is_not_missed_by_others) {
    pid_t daemon = DAEMON("--sms", "4"), floods[3];
    for (int i = 0; i < 3; i++)
        floods[i] = spawn(client_shares_much, i);
    for (int i = 0; i < 3; i++)
        wait_file("shared", i);
    assert_int_equal(wait_process(spawn(client_works, 2)), 0);
    for (int i = 0; i < 3; i++) {
        kill(floods[i], SIGKILL);
        wait_process(floods[i]);
    }
    stop_daemon(daemon);
}

/* Device memory of a client is limited too. */
DAEMON_TEST(device_memory_is_limited) {
    enum { MIB = 1 << 20 };
    pid_t daemon = DAEMON("--sms", "4", "--memory", "16", "--client-memory", "8");
    gs_client *client = client_open(), *other = NULL;
    gs_client_memory memory;
    assert_non_null(client);
    assert_int_equal(gs_client_malloc(client, 6 * MIB, &memory), GS_CLIENT_OK);
    assert_int_equal(gs_client_malloc(client, 3 * MIB, &memory), GS_CLIENT_MEMORY);
    assert_string_equal(gs_client_message(),
                        "a client may have at most 8388608 bytes of device memory: 6291456 are in use, "
                        "3145728 more were requested");
    other = client_open();
    assert_non_null(other); /* of the same process */
    assert_int_equal(gs_client_malloc(other, 3 * MIB, &memory), GS_CLIENT_MEMORY);
    assert_string_equal(gs_client_message(),
                        "a process may have at most 8388608 bytes of device memory: 6291456 are in use, "
                        "3145728 more were requested");
    assert_int_equal(gs_client_malloc(other, 2 * MIB, &memory), GS_CLIENT_OK);
    gs_client_close(client);
    gs_client_close(other);
    stop_daemon(daemon);
}

static const char large_text[] = "__device__ char kept[3 << 20];\n"
                                 "__global__ void arrays(int *out, int n) {\n"
                                 "    volatile char bytes[100000];\n"
                                 "    for (int i = 0; i < n; i++) bytes[(i * 64 + threadIdx.x) % 100000] = (char)i;\n"
                                 "    if (threadIdx.x == 0) out[blockIdx.x] = bytes[0] + kept[n];\n"
                                 "}\n"
                                 "__device__ __noinline__ int dive(volatile int *out, int n) {\n"
                                 "    volatile int bytes[250];\n"
                                 "    for (int i = 0; i < 250; i++) bytes[i] = n;\n"
                                 "    return n ? dive(out, n - 1) + bytes[n % 250] : out[0];\n"
                                 "}\n"
                                 "__global__ void dives(int *out, int n) { out[1 + threadIdx.x] = dive(out, n); }\n"
                                 "__global__ void asks(int *out, int n) {\n"
                                 "    char *bytes = (char *)malloc((size_t)n);\n"
                                 "    out[0] = bytes ? 1 : 2;\n"
                                 "    if (bytes) bytes[n - 1] = 1;\n"
                                 "    free(bytes);\n"
                                 "}\n";
enum { ARRAYS, DIVES, ASKS };

/* Launches a kernel of `large_text`. Its client continues, and gets the first numbers of the memory. */
static gs_client_code launch_large(gs_client *client, uint32_t module, uint32_t kernel, uint32_t threads, int n,
                                   int *numbers, size_t count) {
    gs_client_memory memory;
    assert_int_equal(gs_client_malloc(client, 8192, &memory), GS_CLIENT_OK);
    gs_client_argument arguments[] = {GS_CLIENT_AT(memory), GS_CLIENT_VALUE(n)};
    gs_client_launch launch = {.module = module,
                               .kernel = kernel,
                               .grid = {64},
                               .block = {threads},
                               .arguments = arguments,
                               .argument_count = 2};
    assert_int_equal(gs_client_start(client, 0, &launch), GS_CLIENT_OK);
    gs_client_code code = gs_client_wait(client, 0);
    if (code == GS_CLIENT_OK)
        code = gs_client_copy_out(client, 0, numbers, memory, count * sizeof *numbers);
    if (code != GS_CLIENT_KERNEL)
        assert_int_equal(gs_client_free(client, memory), GS_CLIENT_OK);
    return code;
}

/* The most memory that the worker has had. */
static double worker_peak_bytes(void) {
    char path[40], line[200];
    double kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)status_number("device.process"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtod(line + 6, NULL);
    fclose(file);
    return kib * 1024;
}

/* What kernels take for themselves: variables of modules, local variables, stacks, malloc. Each is counted, and limited
   before it is touched. */
DAEMON_TEST(memory_that_kernels_take_is_limited) {
    enum { MIB = 1 << 20, SMS = 4, STACKS = SMS * 16, CALLS = 150 };
    static const char *const names[] = {"arrays", "dives", "asks"};
    pid_t daemon = DAEMON("--sms", "4", "--memory", "64", "--client-memory", "16");
    gs_client *client = client_open();
    gs_client_source source = {
        .name = "large.cu", .text = large_text, .kernels = names, .kernel_count = GS_COUNT(names)};
    uint32_t modules[2];
    int numbers[33];
    assert_non_null(client);
    assert_int_equal(gs_client_load(client, &source, &modules[0]), GS_CLIENT_OK);
    assert_true(status_number("limits.all.memory_bytes.used") > 3 * MIB);
    for (int i = 0; i < 6 && gs_client_load(client, &source, &modules[1]) == GS_CLIENT_OK; i++)
        ;
    assert_non_null(strstr(gs_client_message(), "a client may have at most 16777216 bytes of device memory"));
    assert_int_equal(launch_large(client, modules[0], ARRAYS, 1024, 2000, numbers, 1), GS_CLIENT_MEMORY);
    assert_non_null(strstr(gs_client_message(), "the local memory of a kernel needs"));
    assert_int_equal(launch_large(client, modules[0], ARRAYS, 32, 2000, numbers, 1), GS_CLIENT_OK);
    assert_int_equal(launch_large(client, modules[0], DIVES, 32, CALLS, numbers, 33), GS_CLIENT_OK);
    assert_int_equal(numbers[32], CALLS * (CALLS + 1) / 2);
    assert_int_equal(launch_large(client, modules[0], ASKS, 1, MIB, numbers, 1), GS_CLIENT_OK);
    assert_int_equal(numbers[0], 1);
    assert_int_equal(launch_large(client, modules[0], ASKS, 1, 9 * MIB, numbers, 1), GS_CLIENT_OK);
    assert_int_equal(numbers[0], 2);
    wait_status("device.kernel_bytes", 0);
    assert_true(worker_peak_bytes() < (32 + 64 + STACKS + (is_whole_zoo() ? 0 : 1024)) * (double)MIB);
    assert_int_equal(launch_large(client, modules[0], DIVES, 1024, CALLS, numbers, 1), GS_CLIENT_KERNEL);
    gs_client_close(client);
    stop_daemon(daemon);
}

/* Allocates single bytes until that is refused. */
static int client_allocates_bytes(int number) {
    gs_client *client = client_open();
    gs_client_memory memory;
    char name[20];
    int count = 0;
    if (!client)
        return 1;
    while (count < 70000 && gs_client_malloc(client, 1, &memory) == GS_CLIENT_OK)
        count++;
    bool is_named = strstr(gs_client_message(), " may have ") && strstr(gs_client_message(), " allocations of ");
    if (!is_named)
        return client_fails("the limit has no name");
    snprintf(name, sizeof name, "bytes%d", number);
    close(open(name, O_CREAT | O_WRONLY, 0600));
    pause();
    return 0;
}

DAEMON_TEST(many_small_allocations_harm_nobody) {
    enum { FLOODS = 4, EACH = 16384 };
    if (test_is_brief())
        skip(); /* so many that a sanitizer takes half a minute */
    pid_t daemon = DAEMON("--sms", "4"), floods[FLOODS];
    for (int i = 0; i < FLOODS; i++)
        floods[i] = spawn(client_allocates_bytes, i);
    for (int i = 0; i < FLOODS; i++)
        wait_file("bytes", i);
    assert_true(status_number("limits.all.allocations.used") == FLOODS * EACH / 8 * 7); /* the rest is kept */
    assert_int_equal(wait_process(spawn(client_works, 3)), 0);
    assert_true(status_number("device.restarts") == 0);
    for (int i = 0; i < FLOODS; i++) {
        kill(floods[i], SIGKILL);
        wait_process(floods[i]);
    }
    wait_status("limits.all.allocations.used", 0);
    assert_int_equal(wait_process(spawn(client_works, 1)), 0);
    stop_daemon(daemon);
}

/* Shares memory again and again. Refusals are fine, the end of the session is not. */
static int client_shares_often(int serial) {
    gs_client *client = NULL;
    gs_client_options options = {.socket = socket_path, .name = "often"};
    void *memory;
    int refused = 0;
    while (gs_client_open(&options, &client) != GS_CLIENT_OK)
        sleep_ms(20);
    for (int i = 0; i < serial; i++) {
        gs_client_code code = gs_client_host_malloc(client, 4096, &memory);
        if (code == GS_CLIENT_OK)
            code = gs_client_host_free(client, memory);
        else
            refused += code == GS_CLIENT_SYSTEM && strstr(gs_client_message(), "no descriptors left");
        if (code != GS_CLIENT_OK && code != GS_CLIENT_SYSTEM)
            return client_fails("host_malloc");
    }
    gs_client_close(client);
    return refused > serial;
}

/* With few descriptors clients are told to try again. The daemon does not spin, and its status is there. */
DAEMON_TEST(few_descriptors_are_enough_for_an_answer) {
    enum { CLIENTS = 40 };
    pid_t clients[CLIENTS], daemon;
    static int silent[200];
    must_have_few_descriptors = true;
    daemon = DAEMON("--sms", "4");
    must_have_few_descriptors = false;
    size_t count = connect_silently(silent, GS_COUNT(silent));
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = spawn(client_shares_often, 50);
    TEST_WAIT(is_serving()); /* it may say "try again": it waits 2 ms for a request when it has no descriptors left */
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(wait_process(clients[i]), 0);
    wait_asleep(daemon);
    close_all(silent, count);
    assert_int_equal(wait_process(spawn(client_works, 1)), 0);
    stop_daemon(daemon);
}

/* Connects as many clients as it may, says so, and keeps them until the file "opened" is there. */
static int client_holds_descriptors(int number) {
    enum { MOST = 100 };
    gs_client *clients[MOST];
    gs_client_options options = {.socket = socket_path, .name = "many"};
    const char *words = NULL;
    char name[20];
    for (int count = 0; count < MOST && !words;)
        if (gs_client_open(&options, &clients[count]) == GS_CLIENT_OK)
            count++;
        else if (!(words = strstr(gs_client_message(), "may have at most ")))
            sleep_ms(10); /* "try again" */
    unsigned long long limit, used;
    if (!words || sscanf(words, "may have at most %llu descriptors of the daemon", &limit) != 1 ||
        sscanf(strchr(words, ':'), ": %llu are in use, 1 more", &used) != 1 || used > limit)
        return client_fails("opening");
    snprintf(name, sizeof name, "held%d", number);
    close(open(name, O_CREAT | O_WRONLY, 0600));
    while (access("opened", F_OK) != 0)
        sleep_ms(10);
    return 0;
}

DAEMON_TEST(status_needs_no_free_descriptor) {
    enum { PROCESSES = 3, REQUESTS = 60 };
    pid_t holders[PROCESSES];
    static int silent[30];
    must_have_few_descriptors = true;
    pid_t daemon = DAEMON("--sms", "4");
    must_have_few_descriptors = false;
    for (int i = 0; i < PROCESSES; i++)
        holders[i] = spawn(client_holds_descriptors, i);
    for (int i = 0; i < PROCESSES; i++)
        wait_file("held", i);
    size_t count = connect_silently(silent, GS_COUNT(silent));
    int answered = 0;
    for (int i = 0; i < REQUESTS; i++)
        answered += is_serving();
    assert_int_equal(answered, REQUESTS);
    close(open("opened", O_CREAT | O_WRONLY, 0600));
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(wait_process(holders[i]), 0);
    unlink("opened");
    close_all(silent, count);
    stop_daemon(daemon);
}

/* What a client gets from a worker that was stopped while it was idle. */
static int client_meets_stopped_worker(int what) {
    gs_client *client = client_open();
    gs_client_memory memory = 0;
    uint32_t module;
    if (!client || gs_client_malloc(client, 100, &memory))
        return client_fails("start");
    kill(device_process(), SIGSTOP);
    gs_client_code code = what == 0   ? gs_client_malloc(client, 100, &memory)
                          : what == 1 ? client_load(client, &module)
                                      : gs_client_fill(client, 0, memory, 1, 100);
    if (code == GS_CLIENT_OK)
        code = gs_client_wait(client, 0);
    fprintf(stderr, "as it should: %s\n", gs_client_message());
    gs_client_close(client);
    return (int)code;
}

DAEMON_TEST(worker_that_is_stopped_is_replaced) {
    unlink("daemon.log");
    pid_t daemon = DAEMON("--sms", "4", "--limit", SHORT_LIMIT);
    for (int what = 0; what < 3; what++) {
        assert_int_equal(WEXITSTATUS(wait_process(spawn(client_meets_stopped_worker, what))), GS_CLIENT_RESET);
        assert_true(status_number("device.restarts") == what + 1);
        assert_int_equal(wait_process(spawn(client_works, 1)), 0);
    }
    stop_daemon(daemon);
    assert_true(log_has(": the worker was lost: the worker was restarted\n"));
}

/* A worker that hangs is not the fault of the kernel that runs. */
static int client_runs_in_stopped_worker(int unused) {
    gs_client *client = client_open();
    uint32_t module;
    gs_client_memory memory;
    int spins = 1 << 20;
    (void)unused;
    if (!client || client_load(client, &module) || gs_client_malloc(client, 4000, &memory))
        return client_fails("start");
    gs_client_argument arguments[] = {GS_CLIENT_AT(memory), GS_CLIENT_VALUE(spins)};
    kill(device_process(), SIGSTOP);
    if (client_start(client, 0, module, SLOW, 100, arguments, 2))
        return client_fails("launch");
    gs_client_code code = gs_client_wait(client, 0);
    gs_client_close(client);
    return (int)code;
}

DAEMON_TEST(hanging_worker_is_not_a_kernels_fault) {
    pid_t daemon = DAEMON("--sms", "4", "--limit", SHORT_LIMIT);
    assert_int_equal(WEXITSTATUS(wait_process(spawn(client_runs_in_stopped_worker, 0))), GS_CLIENT_RESET);
    assert_int_equal(wait_process(spawn(client_works, 1)), 0);
    stop_daemon(daemon);
}

static int client_of_another_user(int unused) {
    gs_client *client;
    gs_client_options options = {.socket = socket_path};
    (void)unused;
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 99;
    gs_client_code code = gs_client_open(&options, &client);
    if (code == GS_CLIENT_NO_DAEMON && !strstr(gs_client_message(), "belongs to another user"))
        return 98;
    return (int)code;
}

DAEMON_TEST(other_users_are_refused) {
    if (getuid() != 0) {
        print_message("only root can become another user\n");
        skip();
    }
    pid_t daemon = DAEMON("--sms", "4");
    int code = WEXITSTATUS(wait_process(spawn(client_of_another_user, 0)));
    assert_int_equal(code, GS_CLIENT_NO_DAEMON); /* by the mode of the socket */
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(chmod(socket_path, 0666), 0);
    code = WEXITSTATUS(wait_process(spawn(client_of_another_user, 0)));
    assert_int_equal(code, GS_CLIENT_REFUSED); /* by SO_PEERCRED */
    stop_daemon(daemon);
}

/* Without XDG_RUNTIME_DIR, the socket is in a folder in /tmp. Others can make one of that name first. */
TEST(socket_folder_of_others_is_refused) {
    char path[100], folder_path[100];
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("GRIDSMITH_SOCKET");
    assert_true(gs_wire_socket(NULL, path, sizeof path));
    snprintf(folder_path, sizeof folder_path, "/tmp/gridsmith-%u", (unsigned)geteuid());
    assert_memory_equal(path, folder_path, strlen(folder_path));
    if (access(folder_path, F_OK) == 0) {
        print_message("%s exists\n", folder_path);
        skip();
    }
    assert_true(gs_wire_can_trust(path, false));
    assert_int_equal(access(folder_path, F_OK), -1); /* only a daemon makes it */
    assert_true(gs_wire_can_trust(path, true));
    assert_int_equal(chmod(folder_path, 0711), 0);
    assert_false(gs_wire_can_trust(path, true));
    assert_false(gs_wire_can_trust(path, false));
    assert_int_equal(rmdir(folder_path), 0);
    assert_int_equal(symlink("/", folder_path), 0);
    assert_false(gs_wire_can_trust(path, true));
    assert_int_equal(unlink(folder_path), 0);
}

/* ---- status, metrics and files ---- */

DAEMON_TEST(status_has_the_time_of_the_request) {
    pid_t daemon = DAEMON("--sms", "4");
    int64_t opened_ns = 0;
    for (int i = 0; i < 2; i++) {
        wait_asleep(daemon);
        int64_t before = gs_now_ns();
        json_t *status = read_status();
        int64_t after = gs_now_ns(), told = json_integer_value(json_object_get(status, "time_ns")),
                uptime = json_integer_value(json_object_get(status, "uptime_ns"));
        json_decref(status);
        assert_true(told >= before && told <= after);
        assert_true(i == 0 || told - uptime == opened_ns);
        opened_ns = told - uptime;
    }
    stop_daemon(daemon);
}

/* Two clients of this process have one name. No series comes twice. */
static void expect_unique_series(const char *text) {
    static char series[400][160];
    size_t count = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (*line == '#' || strncmp(line, "gridsmith_", 10) != 0)
            continue;
        assert_true(count < GS_COUNT(series));
        snprintf(series[count], sizeof series[count], "%.*s", (int)strcspn(line, " "), line);
        for (size_t i = 0; i < count; i++)
            if (strcmp(series[i], series[count]) == 0)
                fail_msg("%s comes twice", series[i]);
        count++;
    }
    assert_true(count > 20);
}

/* Also while as many connections as there may be say nothing. */
DAEMON_TEST(prometheus_is_answered) {
    char address[32], text[20000];
    int port = 20000 + (int)getpid() % 20000, listener = socket(AF_INET, SOCK_STREAM, 0), silent[40], floods[16];
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    pid_t daemon = DAEMON("--sms", "4", "--metrics", address);
    struct sockaddr_in where = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (size_t i = 0; i < GS_COUNT(silent); i++) {
        silent[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(silent[i], (struct sockaddr *)&where, sizeof where), 0);
    }
    static const char unfinished[] = "GET /metrics HTTP/1.1\r\n";
    for (size_t i = 0; i < GS_COUNT(silent); i += 2) /* some are closed meanwhile */
        send(silent[i], unfinished, sizeof unfinished - 1, MSG_NOSIGNAL);
    gs_client *client = client_open(), *other = client_open();
    assert_true(client && other);
    static const char question[] = "GET /metrics HTTP/1.1\r\n\r\n";
    kill(daemon, SIGSTOP); /* it will accept a request, and as many connections as it may have, at once */
    assert_int_equal(connect(listener, (struct sockaddr *)&where, sizeof where), 0);
    assert_int_equal(send(listener, question, sizeof question - 1, 0), sizeof question - 1);
    for (size_t i = 0; i < GS_COUNT(floods); i++) {
        floods[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(floods[i], (struct sockaddr *)&where, sizeof where), 0);
    }
    kill(daemon, SIGCONT);
    size_t count = 0;
    for (ssize_t got; (got = recv(listener, text + count, sizeof text - 1 - count, 0)) > 0;)
        count += (size_t)got;
    text[count] = '\0';
    close(listener);
    close_all(silent, GS_COUNT(silent));
    close_all(floods, GS_COUNT(floods));
    assert_non_null(strstr(text, "HTTP/1.0 200 OK"));
    assert_non_null(strstr(text, "\ngridsmith_clients 2\n"));
    assert_non_null(strstr(text, "\ngridsmith_client_launches_total{client=\"test\",process=\""));
    expect_unique_series(text);
    gs_client_close(client);
    gs_client_close(other);
    stop_daemon(daemon);
}

/* Runs a command of the program on the socket. */
static void command_output(const char *command, char *text, size_t size) {
    char line[300];
    snprintf(line, sizeof line, "%s %s --socket %s", GRIDSMITH_PROGRAM, command, socket_path);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    text[fread(text, 1, size - 1, pipe)] = '\0';
    assert_int_equal(pclose(pipe), 0);
}

static void command_says(const char *command, const char *wanted) {
    char text[8000];
    command_output(command, text, sizeof text);
    if (!strstr(text, wanted))
        fail_msg("%s says: %s", command, text);
}

#define E_ACUTE_9  "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
#define E_ACUTE_10 E_ACUTE_9 "\xc3\xa9"

DAEMON_TEST(status_and_top_list_the_clients) {
    pid_t daemon = DAEMON("--sms", "4");
    gs_client *client = client_open();
    assert_non_null(client);
    command_says("status", " test ");
    command_says("status --json", "\"clients\":[{\"name\":\"test\",");
    command_says("status --limits", "clients                       1                1   100%");
    gs_client_memory memory;
    for (int i = 0; i < 15000; i++)
        assert_int_equal(gs_client_malloc(client, 1, &memory), GS_CLIENT_OK);
    command_says("status", "idle (allocations 92%)");
    command_says("top --every 50", "idle (allocations 92%)");
    command_says("status --json", "\"allocations\":{\"used\":15000,\"limit\":16384}");
    command_says("top --every 50", "the CPU, emulating a GPU of 4 SMs, up ");
    gs_client_close(client);
    gs_client *odd = NULL; /* its name has no characters that could harm a terminal */
    gs_client_options options = {.socket = socket_path, .name = "a\x1b[31m\n\x80\xc2\x9b\xc3\xa9"};
    assert_int_equal(gs_client_open(&options, &odd), GS_CLIENT_OK);
    command_says("status", "a?[31m????\xc3\xa9");
    gs_client_close(odd);
    options.name = E_ACUTE_10 "e" E_ACUTE_10; /* a name that is too long is cut between characters */
    assert_int_equal(gs_client_open(&options, &odd), GS_CLIENT_OK);
    command_says("status", " " E_ACUTE_10 "e" E_ACUTE_9 "    100 ");
    gs_client_close(odd);
    stop_daemon(daemon);
}

/* Two clients of one process may have the same name. */
DAEMON_TEST(rates_are_of_the_same_client) {
    pid_t daemon = DAEMON("--sms", "4");
    gs_client *clients[2];
    gs_client_memory memory;
    char text[8000];
    for (int i = 0; i < 2; i++)
        assert_non_null(clients[i] = client_open());
    assert_int_equal(gs_client_malloc(clients[0], 1 << 20, &memory), GS_CLIENT_OK);
    assert_int_equal(gs_client_fill(clients[0], 0, memory, 1, 1 << 20), GS_CLIENT_OK);
    assert_int_equal(gs_client_wait(clients[0], 0), GS_CLIENT_OK);
    command_output("top --every 50", text, sizeof text);
    const char *first = strstr(text, " test ");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, " test "));
    assert_null(strchr(first, '-')); /* no rate is negative */
    for (int i = 0; i < 2; i++)
        gs_client_close(clients[i]);
    stop_daemon(daemon);
}

/* A daemon that gets its socket from systemd uses it, says so, and does not remove it. */
DAEMON_TEST(socket_of_systemd_is_used) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 8), 0);
    pid_t daemon = fork();
    if (daemon == 0) {
        char process[16];
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(listener, 3);
        snprintf(process, sizeof process, "%d", (int)getpid());
        setenv("LISTEN_PID", process, 1);
        setenv("LISTEN_FDS", "1", 1);
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
        if (freopen("daemon.log", "a", stderr))
            execl(GRIDSMITH_PROGRAM, GRIDSMITH_PROGRAM, "serve", "--device", "host", "--no-mps", "--profiles", "",
                  NULL);
        _exit(127);
    }
    the_daemon = daemon;
    close(listener);
    assert_true(is_serving()); /* a client that connects before the daemon is ready waits */
    kill(daemon, SIGTERM);
    the_daemon = 0;
    assert_int_equal(wait_process(daemon), 0);
    assert_int_equal(unlink(socket_path), 0);
    assert_true(log_has(" at the socket of systemd"));
}

DAEMON_TEST(plan_of_a_gpu_is_used_and_named) {
    FILE *plan = fopen("h200.plan", "w");
    assert_non_null(plan);
    fputs("{\"schema\":\"gridsmith.plan/1\",\"gpu\":\"h200\",\"kernels\":[],\"pairs\":[]}", plan);
    fclose(plan);
    pid_t daemon = DAEMON("--sms", "4", "--plan", "h200.plan");
    assert_true(log_has("0 pairs of the plan may share SMs; it was made for h200, not for this CPU"));
    stop_daemon(daemon);
}

/* A cache that cannot be written, as on a full disk: loading a source is an error, and everything else works. */
DAEMON_TEST(cache_that_cannot_be_written_is_an_error) {
    pid_t daemon = DAEMON("--sms", "4", "--cache", "/proc/none");
    gs_client *client = client_open();
    uint32_t module;
    gs_client_memory memory;
    assert_non_null(client);
    assert_true(log_has(": no kernel can be loaded"));
    assert_int_equal(client_load(client, &module), GS_CLIENT_SYSTEM);
    assert_int_equal(gs_client_malloc(client, 100, &memory), GS_CLIENT_OK);
    assert_int_equal(gs_client_fill(client, 0, memory, 7, 100), GS_CLIENT_OK);
    assert_int_equal(gs_client_wait_all(client), GS_CLIENT_OK);
    gs_client_close(client);
    stop_daemon(daemon);
}

/* ---- compiling under load ---- */

/* A C compiler that waits forever with kernels called slow. */
static pid_t start_slow_daemon(void) {
    char path[100];
    snprintf(path, sizeof path, "%s/slow-cc", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("#!/bin/sh\nfor word; do case $word in *.c) grep -q slow \"$word\" && sleep 1000 ;; esac; done\n"
          "exec cc \"$@\"\n",
          file);
    fclose(file);
    assert_int_equal(chmod(path, 0700), 0);
    setenv("CC", path, 1);
    pid_t daemon = DAEMON("--sms", "4", "--cache", "cache");
    unsetenv("CC");
    return daemon;
}

/* Sends a file and its load, and waits until the daemon has taken both: only a few files may wait at the socket. Closes
   the file. */
static void raw_send_load(struct raw *raw, const gs_wire_load *load, int fd) {
    const char byte = GS_WIRE_FILE;
    gs_wire_record record = {.head = {.command = GS_WIRE_EVENT}, .event = load->module};
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL), 0);
    assert_int_equal(gs_descriptors_send(raw->socket, &byte, 1, &fd, 1, 0), 1);
    assert_int_equal(gs_ring_put(&raw->ring, load, sizeof *load), GS_RING_DONE);
    assert_int_equal(gs_ring_put(&raw->ring, &record, sizeof record), GS_RING_DONE);
    gs_bell_ring_socket(raw->socket);
    close(fd);
    TEST_WAIT(atomic_load(&raw->page->events[load->module].command));
}

/* Sends a source without waiting for its reply. */
static void raw_load(struct raw *raw, uint32_t number, const char *text, size_t bytes) {
    static const char head[] = "raw.cu\0slow";
    gs_wire_load load = {.head = {.command = GS_WIRE_LOAD},
                         .module = number + 1,
                         .kernels = 1,
                         .bytes = bytes,
                         .reply = number % GS_WIRE_REPLIES,
                         .ticket = 1 + number / GS_WIRE_REPLIES};
    int fd = memfd_create("test", MFD_ALLOW_SEALING);
    assert_true(write(fd, head, sizeof head) == sizeof head && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    raw_send_load(raw, &load, fd);
}

static const char *raw_reply(struct raw *raw, uint32_t number, gs_client_code wanted) {
    const struct gs_wire_reply *reply = &raw->page->replies[number % GS_WIRE_REPLIES];
    TEST_WAIT(atomic_load(&reply->ticket) == 1 + number / GS_WIRE_REPLIES);
    if (reply->code != wanted)
        print_message("%s\n", reply->message);
    assert_int_equal(reply->code, wanted);
    return reply->message;
}

static const char slow_text[] = "__global__ void slow(int *at) { at[0] = 1; }\n";

static size_t slow_bytes(void) {
    return sizeof "raw.cu\0slow" + strlen(slow_text);
}

/* A launch of a module that is loaded, its arguments behind it. */
struct wrong_launch {
    gs_wire_launch launch;
    gs_wire_argument argument;
    unsigned char value[GS_CLIENT_VALUE_BYTES + 8];
};

static void expect_launch_ends(const struct wrong_launch *wrong, size_t behind, const char *message) {
    struct raw raw = raw_open();
    raw_load(&raw, 0, slow_text, slow_bytes());
    raw_reply(&raw, 0, GS_CLIENT_OK);
    assert_int_equal(gs_ring_put(&raw.ring, wrong, (uint32_t)(sizeof wrong->launch + behind)), GS_RING_DONE);
    gs_bell_ring_socket(raw.socket);
    wait_end(&raw);
    assert_string_equal(raw.page->end_message, message);
    raw_close(&raw);
}

DAEMON_TEST(wrong_launches_are_named) {
    enum { HEAD = sizeof(gs_wire_argument), MOST = GS_CLIENT_VALUE_BYTES };
    const struct wrong_launch plain = {
        .launch = {.head = {.command = GS_WIRE_LAUNCH}, .module = 1, .grid = {1, 1, 1}, .block = {1, 1, 1}}};
    struct wrong_launch wrong = plain;
    pid_t daemon = DAEMON("--sms", "4");
    wrong.launch.kernel = 1;
    expect_launch_ends(&wrong, 0, "unknown kernel 1 with 0 arguments in module handle 1");
    wrong = plain;
    wrong.launch.arguments = GS_CLIENT_ARGUMENTS + 1;
    expect_launch_ends(&wrong, 0, "unknown kernel 0 with 65 arguments in module handle 1");
    wrong = plain;
    wrong.launch.grid[1] = 0;
    expect_launch_ends(&wrong, 0, "invalid launch: grid (1, 0, 1), blocks of (1, 1, 1)");
    wrong = plain;
    wrong.launch.block[2] = 1025;
    expect_launch_ends(&wrong, 0, "invalid launch: grid (1, 1, 1), blocks of (1, 1, 1025)");
    wrong.launch.block[2] = 3;
    wrong.launch.block[0] = 342;
    expect_launch_ends(&wrong, 0, "a block may have at most 1024 threads, not 1026");
    wrong = plain;
    wrong.launch.grid[0] = wrong.launch.grid[1] = wrong.launch.grid[2] = INT32_MAX;
    expect_launch_ends(&wrong, 0, "a launch has too many blocks");
    wrong = plain;
    expect_launch_ends(&wrong, HEAD, "a launch has more arguments than declared");
    wrong.launch.arguments = 1;
    expect_launch_ends(&wrong, 0, "a launch has fewer arguments than declared");
    expect_launch_ends(&wrong, HEAD + 8, "invalid argument size of 0 bytes");
    wrong.argument.bytes = MOST + 1;
    expect_launch_ends(&wrong, HEAD + MOST + 8, "invalid argument size of 257 bytes");
    wrong.argument.bytes = 9;
    expect_launch_ends(&wrong, HEAD + 8, "invalid argument size of 9 bytes");
    wrong.argument = (gs_wire_argument){.memory = 5, .bytes = 8};
    expect_launch_ends(&wrong, HEAD + 8, "an argument in memory handle 5 is out of bounds");
    stop_daemon(daemon);
}

/* The largest argument that there may be. */
DAEMON_TEST(arguments_may_have_256_bytes) {
    static const char *const names[] = {"last"};
    gs_client_source source = {.name = "large.cu",
                               .text = "struct large { int words[64]; };\n"
                                       "__global__ void last(int *at, large in) { at[0] = in.words[63]; }\n",
                               .kernels = names,
                               .kernel_count = 1};
    struct {
        int words[GS_CLIENT_VALUE_BYTES / sizeof(int)];
    } large = {.words[GS_CLIENT_VALUE_BYTES / sizeof(int) - 1] = 4711};
    uint32_t module;
    gs_client_memory memory;
    int found = 0;
    pid_t daemon = DAEMON("--sms", "4");
    gs_client *client = client_open();
    assert_non_null(client);
    assert_int_equal(gs_client_load(client, &source, &module), GS_CLIENT_OK);
    assert_int_equal(gs_client_malloc(client, sizeof found, &memory), GS_CLIENT_OK);
    gs_client_argument arguments[] = {GS_CLIENT_AT(memory), GS_CLIENT_VALUE(large)};
    gs_client_launch launch = {
        .module = module, .grid = {1}, .block = {1}, .arguments = arguments, .argument_count = 2};
    assert_int_equal(gs_client_start(client, 0, &launch), GS_CLIENT_OK);
    assert_int_equal(gs_client_copy_out(client, 0, &found, memory, sizeof found), GS_CLIENT_OK);
    assert_int_equal(found, 4711);
    gs_client_close(client);
    stop_daemon(daemon);
}

static int client_loads_something_new(int value) {
    char text[100];
    uint32_t module, again;
    snprintf(text, sizeof text, "__global__ void one(int *at) { at[0] = %d; }\n", value);
    static const char *const names[] = {"one"};
    gs_client_source source = {.name = "new.cu", .text = text, .kernels = names, .kernel_count = 1};
    gs_client *client = client_open();
    if (!client || gs_client_load(client, &source, &module) || gs_client_load(client, &source, &again))
        return client_fails("load");
    gs_client_close(client);
    return 0;
}

/* Whether a compiler process of a source of this test waits forever. */
static bool is_compiler_left(void) {
    char command[200];
    snprintf(command, sizeof command, "pgrep -f '%s/[s]low-c' >/dev/null", folder);
    return system(command) == 0;
}

DAEMON_TEST(slow_sources_delay_only_their_client) {
    pid_t daemon = start_slow_daemon();
    struct raw raw = raw_open();
    for (uint32_t i = 0; i < 20; i++)
        raw_load(&raw, i, slow_text, slow_bytes());
    wait_status("compiling", GS_COMPILERS - 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(wait_process(spawn(client_loads_something_new, i)), 0);
    assert_true(is_compiler_left());
    raw_close(&raw);
    wait_status("clients", 0);
    wait_status("compiling", 0); /* its compilers are killed, and waiting sources are dropped */
    assert_false(is_compiler_left());
    stop_daemon(daemon);
}

DAEMON_TEST(sources_on_their_way_are_limited) {
    pid_t daemon = start_slow_daemon();
    struct raw raw = raw_open(), large = raw_open();
    for (uint32_t i = 0; i < GS_SESSION_SOURCES; i++)
        raw_load(&raw, i, slow_text, slow_bytes());
    raw_load(&raw, GS_SESSION_SOURCES, slow_text, slow_bytes());
    assert_string_equal(raw_reply(&raw, GS_SESSION_SOURCES, GS_CLIENT_SYSTEM),
                        "a client may have at most 64 sources in progress");
    assert_int_equal(status_number("limits.all.sources.used"), GS_SESSION_SOURCES);
    assert_int_equal(status_number("limits.all.source_bytes.limit"), (int64_t)GS_SOURCES_MB << 20);
    raw_close(&raw);
    wait_status("compiling", 0);
    for (uint32_t i = 0; i < GS_COMPILERS; i++)
        raw_load(&large, i, slow_text, slow_bytes());
    wait_status("compiling", GS_COMPILERS - 1);
    for (uint32_t i = 0; i < 4; i++)
        raw_load(&large, GS_COMPILERS + i, slow_text, GS_WIRE_SOURCE_BYTES);
    assert_string_equal(raw_reply(&large, GS_COMPILERS + 3, GS_CLIENT_SYSTEM),
                        "a client's sources in progress may have at most 64 MB together");
    assert_int_equal(atomic_load(&large.page->end_code), 0);
    raw_close(&large);
    stop_daemon(daemon);
}

/* 16 clients have all that there may be; a further one may send one source, and no second. */
DAEMON_TEST(sources_of_all_clients_are_limited) {
    enum { EACH = 4, CLIENTS = (GS_SOURCES_MB << 20) / (EACH * GS_WIRE_SOURCE_BYTES) };
    pid_t daemon = start_slow_daemon();
    struct raw raws[CLIENTS + 1];
    for (size_t i = 0; i < GS_COUNT(raws); i++)
        raws[i] = raw_open();
    for (uint32_t i = 0; i < CLIENTS * EACH; i++)
        raw_load(&raws[i / EACH], i % EACH, slow_text, GS_WIRE_SOURCE_BYTES);
    TEST_WAIT(status_number("limits.all.source_bytes.used") == (int64_t)GS_SOURCES_MB << 20);
    for (uint32_t i = 0; i < 2; i++)
        raw_load(&raws[CLIENTS], i, slow_text, slow_bytes());
    assert_string_equal(raw_reply(&raws[CLIENTS], 1, GS_CLIENT_SYSTEM),
                        "the daemon may have at most 1024 sources of 1024 MB in progress: try again later");
    for (size_t i = 0; i < GS_COUNT(raws); i++)
        raw_close(&raws[i]);
    stop_daemon(daemon);
}

DAEMON_TEST(sources_have_a_size) {
    pid_t daemon = DAEMON("--sms", "4");
    gs_client *client = client_open();
    char *text = calloc(1, GS_WIRE_SOURCE_BYTES + 1);
    uint32_t module;
    assert_non_null(client);
    assert_non_null(text);
    const gs_client_source source = {
        .text = text, .size = GS_WIRE_SOURCE_BYTES + 1, .kernels = kernels, .kernel_count = 1};
    assert_int_equal(gs_client_load(client, &source, &module), GS_CLIENT_INVALID);
    assert_string_equal(gs_client_message(), "a source may have at most 16777216 bytes");
    free(text);
    gs_client_close(client);
    stop_daemon(daemon);
}

/* An invalid source, and one with an include that cannot be resolved: a reply, and the client continues. */
DAEMON_TEST(wrong_sources_are_answered) {
    pid_t daemon = DAEMON("--sms", "4");
    struct raw raw = raw_open();
    gs_wire_load load = {.head = {.command = GS_WIRE_LOAD}, .module = 1, .kernels = 60, .bytes = 300, .ticket = 1};
    char letters[300];
    int fd = memfd_create("test", MFD_ALLOW_SEALING);
    memset(letters, 'a', sizeof letters);
    assert_int_equal(write(fd, letters, sizeof letters), sizeof letters);
    raw_send_load(&raw, &load, fd);
    assert_string_equal(raw_reply(&raw, 0, GS_CLIENT_INVALID), "a file of 300 bytes is not a source");
    raw_load(&raw, 1, "#include \"/dev/zero\"\n", 100);
    assert_string_equal(raw_reply(&raw, 1, GS_CLIENT_SOURCE), "raw.cu:1:1: /dev/zero is not a regular file");
    assert_int_equal(atomic_load(&raw.page->end_code), 0);
    assert_int_equal(status_number("limits.all.sources.used"), 0);
    assert_int_equal(status_number("limits.all.source_bytes.used"), 0);
    raw_close(&raw);
    stop_daemon(daemon);
}

/* The client library sends no such launch. A grid of 2^64 blocks must not count as empty. */
DAEMON_TEST(wrong_shapes_end_a_client) {
    static const struct {
        uint32_t grid[3], block[3];
        const char *words;
    } rows[] = {{{65536, 1 << 30, 1 << 18}, {32, 1, 1}, "a launch has too many blocks"},
                {{1, 1, 1}, {1024, 2, 1}, "a block may have at most 1024 threads, not 2048"},
                {{1, 0, 1}, {1, 1, 1}, "invalid launch: grid (1, 0, 1), blocks of (1, 1, 1)"}};
    pid_t daemon = DAEMON("--sms", "4");
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        struct raw raw = raw_open();
        gs_wire_launch launch = {.head = {.command = GS_WIRE_LAUNCH}, .module = 1};
        raw_load(&raw, 0, slow_text, slow_bytes());
        raw_reply(&raw, 0, GS_CLIENT_OK);
        memcpy(launch.grid, rows[i].grid, sizeof launch.grid);
        memcpy(launch.block, rows[i].block, sizeof launch.block);
        assert_int_equal(gs_ring_put(&raw.ring, &launch, sizeof launch), GS_RING_DONE);
        wait_end(&raw);
        assert_string_equal(raw.page->end_message, rows[i].words);
        raw_close(&raw);
    }
    stop_daemon(daemon);
}

/* Runs a daemon that must refuse to start. */
static void expect_no_start(const char *option, const char *path, const char *words) {
    char command[600], line[400] = "";
    snprintf(command, sizeof command, "timeout 60 %s serve --device host --no-mps --socket %s %s %s 2>&1; echo $?",
             GRIDSMITH_PROGRAM, socket_path, option, path);
    FILE *pipe = popen(command, "r");
    int exit_code = -1;
    assert_non_null(pipe);
    assert_non_null(fgets(line, sizeof line, pipe));
    assert_int_equal(fscanf(pipe, "%d", &exit_code), 1);
    pclose(pipe);
    if (!strstr(line, words))
        print_message("%s\n", line);
    assert_non_null(strstr(line, words));
    assert_int_equal(exit_code, 2);
}

DAEMON_TEST(folders_of_others_are_refused) {
    assert_int_equal(mkdir("common", 0700) | chmod("common", 0777), 0);
    expect_no_start("--cache", "common", "common can be written by others (mode 0777");
    expect_no_start("--cache", "common/below", "common can be written by others (mode 0777");
    expect_no_start("--cache own --profiles", "common/profiles", "common can be written by others (mode 0777");
    close(open("own/profiles", O_CREAT | O_WRONLY, 0600));
    assert_int_equal(chmod("own/profiles", 0666), 0);
    expect_no_start("--cache own --profiles", "own/profiles", "profiles can be written by others (mode 0666");
}

static int count_profiles(const char *path) {
    sqlite3 *file = NULL;
    sqlite3_stmt *statement = NULL;
    int count = -1;
    if (sqlite3_open_v2(path, &file, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(file, "SELECT count(*) FROM profiles", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        count = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(file);
    return count;
}

/* Profiles are in the file soon after they were measured, even if the daemon is killed then. */
DAEMON_TEST(profiles_are_written_when_it_is_quiet) {
    pid_t daemon = DAEMON("--sms", "4", "--profiles", "profiles");
    assert_int_equal(wait_process(spawn(client_works, 3)), 0);
    TEST_WAIT(count_profiles("profiles") > 0);
    kill(daemon, SIGKILL);
    the_daemon = 0;
    wait_process(daemon);
    assert_true(count_profiles("profiles") > 0);
    daemon = DAEMON("--sms", "4", "--profiles", "profiles");
    assert_int_equal(wait_process(spawn(client_works, 3)), 0);
    stop_daemon(daemon);
}

/* A damaged file of profiles is reported, and the daemon works without it. */
DAEMON_TEST(damaged_profiles_are_reported) {
    FILE *file = fopen("damaged", "w");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++)
        fputs("this is no database ", file);
    assert_int_equal(fclose(file), 0);
    unlink("daemon.log");
    pid_t daemon = DAEMON("--sms", "4", "--profiles", "damaged");
    assert_int_equal(wait_process(spawn(client_works, 2)), 0);
    stop_daemon(daemon);
    assert_true(log_has("profiles are not saved: "));
    daemon = DAEMON("--sms", "4", "--profiles", "sound");
    stop_daemon(daemon);
    assert_false(log_has("profiles are not saved: "));
}

/* The size of a process, from /proc. */
static uint64_t bytes_of(pid_t process) {
    char path[40];
    unsigned long long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)process);
    FILE *file = fopen(path, "r");
    assert_true(file && fscanf(file, "%llu", &pages) == 1);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Requests everything for which a daemon allocates memory. Exit code 2: a request was refused. */
static int client_requests_much(int number) {
    enum { LAUNCHES = 600 };
    gs_client *client = NULL;
    gs_client_options options = {.socket = socket_path, .name = "test"};
    char text[100];
    uint32_t module = 0;
    gs_client_memory memory = {0};
    int blocks = 64, one = 1;
    snprintf(text, sizeof text, "__global__ void kernel(int *a) { a[blockIdx.x] = %d; }\n", number);
    gs_client_source source = {.name = "a.cu", .text = text};
    bool is_refused = gs_client_open(&options, &client) != GS_CLIENT_OK;
    is_refused = is_refused || client_load(client, &module) != GS_CLIENT_OK;
    for (int i = 0; i < 100 && !is_refused; i++)
        is_refused = gs_client_malloc(client, 100000, &memory) != GS_CLIENT_OK;
    gs_client_argument fill[] = {GS_CLIENT_AT(memory), GS_CLIENT_VALUE(blocks), GS_CLIENT_VALUE(one)};
    for (uint32_t i = 0; i < LAUNCHES && !is_refused; i++)
        is_refused = client_start(client, i % GS_CLIENT_STREAMS, module, FILL, 2, fill, 3) != GS_CLIENT_OK;
    is_refused = is_refused || gs_client_wait_all(client) != GS_CLIENT_OK;
    is_refused = is_refused || gs_client_load(client, &source, &module) != GS_CLIENT_OK;
    if (client)
        gs_client_close(client);
    return is_refused ? 2 : 0;
}

/* The daemon has no more memory than it uses, or a little more: requests are refused, nothing hangs, and when there is
   memory again everything works. */
DAEMON_TEST(host_memory_that_runs_out_is_reported) {
    enum { CLIENTS = 12 };
    static const uint64_t more[] = {0, 1 << 18, 1 << 20, 1 << 22, 1 << 23};
    if (!is_whole_zoo()) /* a sanitizer ends a process that runs out of memory */
        skip();
    pid_t daemon = DAEMON("--sms", "4"), clients[CLIENTS];
    struct rlimit before;
    int refused = 0;
    assert_int_equal(wait_process(spawn(client_works, 1)), 0);
    assert_int_equal(prlimit(daemon, RLIMIT_AS, NULL, &before), 0);
    for (size_t i = 0; i < GS_COUNT(more); i++) {
        struct rlimit less = {.rlim_cur = bytes_of(daemon) + more[i], .rlim_max = before.rlim_max};
        assert_int_equal(prlimit(daemon, RLIMIT_AS, &less, NULL), 0);
        for (int k = 0; k < CLIENTS; k++)
            clients[k] = spawn(client_requests_much, (int)i * CLIENTS + k);
        for (int k = 0; k < CLIENTS; k++) {
            int status = wait_process(clients[k]);
            assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2));
            refused += WEXITSTATUS(status) == 2;
        }
        assert_int_equal(prlimit(daemon, RLIMIT_AS, &before, NULL), 0);
        assert_int_equal(wait_process(spawn(client_works, 2)), 0);
    }
    print_message("%d of %d clients were refused, because there was no memory\n", refused,
                  (int)(CLIENTS * GS_COUNT(more)));
    assert_true(refused > 0);
    wait_status("clients", 0);
    stop_daemon(daemon);
}

static int setup(void **state) {
    (void)state;
    folder = gs_folder_make_in("/tmp", "gridsmith-share", NULL);
    if (!folder || chdir(folder) != 0)
        return -1;
    snprintf(socket_path, sizeof socket_path, "%s/s", folder);
    mkdir(GRIDSMITH_CACHE, 0700);
    alarm(TEST_SECONDS);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    if (!getenv("GRIDSMITH_KEEP"))
        gs_folder_remove(folder);
    free(folder);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return TEST_ALL(setup, teardown);
}
