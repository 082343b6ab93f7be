/*
 * test_client_threads.c: several threads of one process use one client at once, in every way that the library offers:
 * memory, host memory, copies, fills, launches, loads, events and waits, on streams of their own and on one that all
 * share. The results must be right; with the preset tsan, no access may race.
 */
#define _GNU_SOURCE
#include "test.h"

#include "sharing/client/client.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, N = 512, SHARED_STREAM = 31 };

static const char source_text[] = "__global__ void fill(int *out, int n, int value) {\n"
                                  "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                  "    if (i < n) out[i] = value + i;\n"
                                  "}\n";
static const char *const kernels[] = {"fill"};

struct thread {
    pthread_t id;
    gs_client *client;
    uint32_t number, module;
    gs_random random;
    const char *failed; /* what failed; NULL: nothing */
    char message[300];
};

static char *folder, socket_path[64];

/* ---- the work of a thread ---- */

static gs_client_code load(gs_client *client, uint32_t *module) {
    gs_client_source source = {.name = "threads.cu", .text = source_text, .kernels = kernels, .kernel_count = 1};
    return gs_client_load(client, &source, module);
}

static bool fails(struct thread *thread, const char *what) {
    thread->failed = what;
    snprintf(thread->message, sizeof thread->message, "%s", gs_client_message());
    return false;
}

static bool start_fill(struct thread *thread, uint32_t module, uint32_t stream, gs_client_memory memory, int value) {
    int n = N;
    gs_client_argument arguments[] = {GS_CLIENT_AT(memory), GS_CLIENT_VALUE(n), GS_CLIENT_VALUE(value)};
    gs_client_launch launch = {
        .module = module, .grid = {N / 32}, .block = {32}, .arguments = arguments, .argument_count = 3};
    return gs_client_start(thread->client, stream, &launch) == GS_CLIENT_OK || fails(thread, "start");
}

static bool is_filled(struct thread *thread, const int *values, int value) {
    for (int i = 0; i < N; i++)
        if (values[i] != value + i)
            return fails(thread, "compare");
    return true;
}

/* Launches into memory of its own, and copies the result out to host memory: ordinary memory or shared. */
static bool compute(struct thread *thread, uint32_t stream) {
    gs_client *client = thread->client;
    int plain[N], *shared = NULL, value = (int)gs_random_from(&thread->random, 1, 1000);
    bool is_shared = gs_random_chance(&thread->random, 50);
    gs_client_memory memory;
    if (gs_client_malloc(client, sizeof plain, &memory) ||
        (is_shared && gs_client_host_malloc(client, sizeof plain, (void **)&shared)))
        return fails(thread, "malloc");
    bool is_good = start_fill(thread, thread->module, stream, memory, value);
    if (is_good && (gs_client_copy_out(client, stream, is_shared ? shared : plain, memory, sizeof plain) ||
                    gs_client_wait(client, stream)))
        is_good = fails(thread, "copy");
    is_good = is_good && is_filled(thread, is_shared ? shared : plain, value);
    if (gs_client_free(client, memory) || gs_client_host_free(client, shared))
        is_good = fails(thread, "free");
    return is_good;
}

static bool load_and_run(struct thread *thread, uint32_t stream) {
    gs_client_memory memory;
    uint32_t module;
    if (load(thread->client, &module) || gs_client_malloc(thread->client, N * sizeof(int), &memory))
        return fails(thread, "load");
    bool is_good = start_fill(thread, module, stream, memory, 1);
    if (gs_client_unload(thread->client, module) || gs_client_free(thread->client, memory))
        is_good = fails(thread, "unload");
    return is_good;
}

static bool measure(struct thread *thread, uint32_t stream) {
    uint32_t event = thread->number * 2;
    int64_t ns = -1;
    if (gs_client_event(thread->client, stream, event) || gs_client_event(thread->client, stream, event + 1) ||
        gs_client_elapsed(thread->client, event, event + 1, &ns))
        return fails(thread, "event");
    return ns >= 0 || fails(thread, "elapsed");
}

static bool fill_and_wait(struct thread *thread, uint32_t stream) {
    unsigned char bytes[100], value = (unsigned char)gs_random_from(&thread->random, 1, 200);
    gs_client_memory memory;
    if (gs_client_malloc(thread->client, sizeof bytes, &memory) ||
        gs_client_fill(thread->client, stream, memory, value, sizeof bytes) ||
        gs_client_copy_out(thread->client, stream, bytes, memory, sizeof bytes) ||
        gs_client_copy_in(thread->client, stream, memory, bytes, sizeof bytes) || gs_client_wait_all(thread->client) ||
        gs_client_free(thread->client, memory))
        return fails(thread, "fill");
    return bytes[0] == value || fails(thread, "compare");
}

static void *run_thread(void *argument) {
    static bool (*const ways[])(struct thread *, uint32_t) = {compute, compute, load_and_run, measure, fill_and_wait};
    struct thread *thread = argument;
    uint64_t turns = gs_max_u64(test_number("GRIDSMITH_RUNS", 100000) / 2500, 4);
    for (uint64_t i = 0; i < turns && !thread->failed; i++) {
        uint32_t stream = gs_random_chance(&thread->random, 30) ? SHARED_STREAM : thread->number;
        ways[gs_random_from(&thread->random, 0, GS_COUNT(ways) - 1)](thread, stream);
    }
    return NULL;
}

/* ---- the test ---- */

static bool is_serving(void) {
    char *json = NULL;
    gs_code code = gs_status_request(socket_path, &json, NULL);
    free(json);
    return code == GS_OK;
}

static pid_t start_daemon(void) {
    char cache[80];
    snprintf(cache, sizeof cache, "%s/cache", folder);
    const char *const words[] = {GRIDSMITH_PROGRAM, "serve",     "--device",   "host", "--no-mps", "--sms", "4",
                                 "--socket",        socket_path, "--profiles", "",     "--cache",  cache,   NULL};
    pid_t process;
    assert_int_equal(gs_process_try(&(gs_process_options){.words = words, .end_signal = SIGKILL}, &process), 0);
    TEST_WAIT(is_serving());
    return process;
}

TEST(threads_use_one_client_at_once) {
    pid_t daemon = start_daemon();
    static struct thread threads[THREADS];
    gs_client_options options = {.socket = socket_path};
    gs_client *client;
    uint32_t module;
    assert_int_equal(gs_client_open(&options, &client), GS_CLIENT_OK);
    assert_int_equal(load(client, &module), GS_CLIENT_OK);
    for (uint32_t i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.client = client,
                                     .number = i,
                                     .module = module,
                                     .random = gs_random_at(test_number("GRIDSMITH_SEED", 1), i)};
        assert_int_equal(pthread_create(&threads[i].id, NULL, run_thread, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i].id, NULL);
    for (int i = 0; i < THREADS; i++)
        if (threads[i].failed)
            fail_msg("thread %d: %s: %s", i, threads[i].failed, threads[i].message);
    gs_client_close(client);
    kill(daemon, SIGTERM);
    int status;
    assert_int_equal(waitpid(daemon, &status, 0), daemon);
    assert_int_equal(status, 0);
}

/* The daemon dies while threads wait: each of them gets an error, and none hangs. */
TEST(threads_learn_that_the_daemon_is_gone) {
    pid_t daemon = start_daemon();
    static struct thread threads[THREADS];
    gs_client_options options = {.socket = socket_path};
    gs_client *client;
    uint32_t module;
    assert_int_equal(gs_client_open(&options, &client), GS_CLIENT_OK);
    assert_int_equal(load(client, &module), GS_CLIENT_OK);
    kill(daemon, SIGSTOP);
    for (uint32_t i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.client = client, .number = i, .module = module, .random = gs_random_at(1, i)};
        assert_int_equal(pthread_create(&threads[i].id, NULL, run_thread, &threads[i]), 0);
    }
    kill(daemon, SIGKILL);
    assert_int_equal(waitpid(daemon, NULL, 0), daemon);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i].id, NULL);
        assert_non_null(threads[i].failed);
        assert_string_equal(threads[i].message, gs_client_meaning(GS_CLIENT_LOST));
    }
    gs_client_close(client);
    unlink(socket_path);
}

static int set_up(void **state) {
    (void)state;
    folder = gs_folder_make_in("/tmp", "gridsmith-threads", NULL);
    snprintf(socket_path, sizeof socket_path, "%s/s", folder ? folder : "");
    return folder ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    gs_folder_remove(folder);
    free(folder);
    return 0;
}

TEST_MAIN(set_up, tear_down)
