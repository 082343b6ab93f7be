/*
 * test_worker.c: the worker, its images and its ring, as the daemon uses them.
 *
 * Everything runs on the CPU backend, or on the device in GRIDSMITH_ON ("cuda"). GRIDSMITH_PROGRAM is the program whose
 * hidden subcommands are started. GRIDSMITH_RUNS / 100 is how often masks change, GRIDSMITH_PAUSE_US the pause between
 * two changes. GRIDSMITH_ROUNDS is the work of a block: 1000 on a CPU, a million on a GPU.
 */
#define _GNU_SOURCE
#include "test.h"

#include "kernels/cpu/half.h"
#include "sharing/worker/host_memory.h"
#include "sharing/worker/worker.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *device_name(void) {
    const char *on = getenv("GRIDSMITH_ON");
    return on ? on : "host";
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__has_feature)
static const bool is_sanitized = true; /* or clang, which is used with sanitizers only */
#else
static const bool is_sanitized = false;
#endif

static bool is_host(void) {
    return strcmp(device_name(), "host") == 0;
}

/* ---- a worker with one module, two allocations of memory and one region ---- */

enum { MODULE = 7, COUNTS = 1, FLAG = 2, REGION = 5, QUEUE = 1, OTHER_QUEUE = 2, MOST_BLOCKS = 1 << 16 };
enum { COUNT, FAULT, ENDLESS, STUBBORN, FOLLOW };

struct fixture {
    char *folder;
    gs_worker *worker;
    gs_image *image;
    uint32_t *shared; /* the region */
    int fd;
    uint64_t tag;
};

static gs_worker_report next_report(struct fixture *f) {
    enum { PATIENCE_MS = 60000 };
    gs_worker_report report;
    while (!gs_worker_poll(f->worker, &report)) {
        struct pollfd ready = {.fd = gs_worker_fd(f->worker), .events = POLLIN};
        if (poll(&ready, 1, PATIENCE_MS) <= 0)
            fail_msg("no report after %d ms", PATIENCE_MS);
    }
    return report;
}

static void expect(struct fixture *f, uint32_t kind, uint64_t tag, gs_code code) {
    gs_worker_report report = next_report(f);
    if (report.code != code)
        print_message("%s\n", report.message);
    assert_int_equal(report.kind, kind);
    assert_int_equal(report.tag, tag);
    assert_int_equal(report.code, code);
}

/* Creates the resources that are needed after each start: the module, the memory and the region. */
static void create_resources(struct fixture *f) {
    assert_int_equal(gs_worker_load(f->worker, 1, MODULE, f->image), GS_OK);
    expect(f, GS_REPORT_LOADED, 1, GS_OK);
    assert_int_equal(gs_worker_allocate(f->worker, 2, COUNTS, MOST_BLOCKS * sizeof(uint32_t)), GS_OK);
    expect(f, GS_REPORT_ALLOCATED, 2, GS_OK);
    assert_int_equal(gs_worker_allocate(f->worker, 3, FLAG, sizeof(uint32_t)), GS_OK);
    expect(f, GS_REPORT_ALLOCATED, 3, GS_OK);
    assert_int_equal(gs_worker_share(f->worker, REGION, f->fd, MOST_BLOCKS * sizeof(uint32_t)), GS_OK);
}

/* The source, also on another machine than the build machine: then from the current folder. */
static char *read_source(size_t *size) {
    static const char file[] = "tests/kernels/share.cu";
    char *text;
    const char *path = access(test_path(file), R_OK) == 0 ? test_path(file) : file;
    assert_int_equal(gs_input_all(path, 1 << 20, &text, size, NULL), GS_OK);
    return text;
}

static gs_image *compile(const char *folder, int32_t architecture, const char *option, gs_error *error) {
    size_t size;
    char *text = read_source(&size);
    gs_image_source source = {
        .name = "share.cu", .text = text, .size = size, .options = {option}, .option_count = option != NULL};
    gs_image_request request = {.architecture = architecture, .counts_blocks = true};
    gs_image *image = gs_image_make(folder, &source, &request, error);
    free(text);
    return image;
}

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    gs_error error = {.code = GS_OK};
    f->folder = gs_folder_make(NULL);
    assert_non_null(f->folder);
    gs_worker_options options = {.device = device_name(), .memory_bytes = 64 << 20, .checks_counts = true};
    f->worker = gs_worker_open(&options, &error);
    if (!f->worker)
        fail_msg("%s", error.message);
    f->image = compile(f->folder, gs_worker_facts_of(f->worker)->architecture, NULL, &error);
    if (!f->image)
        fail_msg("%s", error.message);
    f->fd = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(f->fd, MOST_BLOCKS * sizeof(uint32_t)), 0);
    f->shared = mmap(NULL, MOST_BLOCKS * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
    f->tag = 100;
    create_resources(f);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    gs_worker_close(f->worker);
    gs_image_free(f->image);
    munmap(f->shared, MOST_BLOCKS * sizeof(uint32_t));
    close(f->fd);
    gs_folder_remove(f->folder);
    free(f->folder);
    free(f);
    return 0;
}

/* ---- memory of the process ---- */

static size_t resident_kib(const struct fixture *f) {
    char path[40];
    unsigned long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)gs_worker_facts_of(f->worker)->process);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %lu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* All of them are on their way at once, and the last one stays: their memory is in the middle of the heap. */
TEST(memory_of_many_requests_is_given_back) {
    enum { MANY = 40000, FIRST = 1000, PATIENCE_MS = 120000, SLACK_KIB = 4 << 10 };
    struct fixture *f = *state;
    gs_worker_report report;
    if (is_sanitized || !is_host())
        skip(); /* sanitizers keep what was freed */
    size_t before = resident_kib(f);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(gs_worker_allocate(f->worker, 1000 + i, FIRST + i, 1), GS_OK);
    for (uint32_t i = 0; i < MANY; i++)
        expect(f, GS_REPORT_ALLOCATED, 1000 + i, GS_OK);
    for (uint32_t i = 0; i < MANY - 1; i++)
        gs_worker_release(f->worker, FIRST + i);
    for (int i = 0; i < PATIENCE_MS && resident_kib(f) > before + SLACK_KIB; i++) {
        assert_false(gs_worker_poll(f->worker, &report)); /* sends what waits */
        usleep(1000);
    }
    assert_true(resident_kib(f) <= before + SLACK_KIB);
    gs_worker_release(f->worker, FIRST + MANY - 1);
}

/* ---- requests ---- */

static void mask_of(uint32_t *mask, int first, int end) {
    memset(mask, 0, GS_WORKER_MASK_WORDS * sizeof *mask);
    for (int i = first; i < end; i++)
        mask[i / 32] |= 1u << i % 32;
}

/* Adds memory, and a value if `value` is not NULL, as arguments. */
static void pass(gs_worker_launch *launch, uint32_t memory, const void *value, uint32_t bytes) {
    if (memory)
        assert_true(gs_launch_add_memory(launch, memory, 0));
    if (value)
        assert_true(gs_launch_add_value(launch, value, bytes));
}

static uint64_t start_count(struct fixture *f, uint32_t queue, uint32_t blocks, int rounds, const uint32_t *mask,
                            uint64_t first_block) {
    int32_t value = rounds;
    gs_worker_launch launch = {.request = {.queue = queue, .handle = MODULE},
                               .kernel = COUNT,
                               .form = mask ? GS_LAUNCH_CONFINED : GS_LAUNCH_ORIGINAL,
                               .grid = {blocks / 2, 2, 1},
                               .block = {64, 1, 1},
                               .first_block = first_block,
                               .task_blocks = 3};
    pass(&launch, COUNTS, &value, sizeof value);
    if (mask)
        memcpy(launch.mask, mask, sizeof launch.mask);
    assert_int_equal(gs_worker_start(f->worker, ++f->tag, &launch), GS_OK);
    return f->tag;
}

static void copy_counts(struct fixture *f, bool in, uint32_t blocks) {
    assert_int_equal(gs_worker_copy(f->worker, ++f->tag, QUEUE, in, COUNTS, 0, REGION, 0, blocks * sizeof(uint32_t)),
                     GS_OK);
    expect(f, GS_REPORT_COPIED, f->tag, GS_OK);
}

static void clear_counts(struct fixture *f) {
    assert_int_equal(gs_worker_fill(f->worker, ++f->tag, QUEUE, COUNTS, 0, MOST_BLOCKS * sizeof(uint32_t), 0), GS_OK);
    expect(f, GS_REPORT_COPIED, f->tag, GS_OK);
}

static void expect_counts(struct fixture *f, uint32_t blocks, uint32_t wanted) {
    copy_counts(f, false, MOST_BLOCKS);
    for (uint32_t i = 0; i < MOST_BLOCKS; i++)
        if (f->shared[i] != (i < blocks ? wanted : 0))
            fail_msg("block %u ran %u times", i, f->shared[i]);
}

/* ---- tests ---- */

TEST(test_memory_keeps_what_is_copied) {
    struct fixture *f = *state;
    expect_counts(f, 0, 0); /* new memory is zero */
    for (uint32_t i = 0; i < MOST_BLOCKS; i++)
        f->shared[i] = i * 2654435761u;
    copy_counts(f, true, MOST_BLOCKS);
    memset(f->shared, 0, MOST_BLOCKS * sizeof(uint32_t));
    copy_counts(f, false, MOST_BLOCKS);
    for (uint32_t i = 0; i < MOST_BLOCKS; i++)
        assert_int_equal(f->shared[i], i * 2654435761u);
    clear_counts(f);
}

TEST(test_nothing_is_touched_outside) {
    struct fixture *f = *state;
    uint64_t bytes = MOST_BLOCKS * sizeof(uint32_t);
    const struct {
        uint32_t memory, region;
        uint64_t at, region_at, bytes;
    } wrong[] = {
        {COUNTS, REGION, 1, 0, bytes},          {COUNTS, REGION, 0, 1, bytes}, {COUNTS, REGION, UINT64_MAX, 0, 2},
        {COUNTS, REGION, 0, UINT64_MAX - 3, 8}, {COUNTS, 77, 0, 0, 4},         {77, REGION, 0, 0, 4},
        {COUNTS, REGION, 8, 8, UINT64_MAX - 4}};
    for (size_t i = 0; i < GS_COUNT(wrong); i++) {
        gs_worker_copy(f->worker, ++f->tag, QUEUE, true, wrong[i].memory, wrong[i].at, wrong[i].region,
                       wrong[i].region_at, wrong[i].bytes);
        expect(f, GS_REPORT_COPIED, f->tag, GS_E_USAGE);
    }
    expect_counts(f, 0, 0);
}

TEST(test_no_memory_is_an_answer) {
    struct fixture *f = *state;
    gs_worker_allocate(f->worker, ++f->tag, 50, (uint64_t)1 << 50);
    expect(f, GS_REPORT_ALLOCATED, f->tag, GS_E_FULL);
    gs_worker_copy(f->worker, ++f->tag, QUEUE, true, 50, 0, REGION, 0, 4);
    expect(f, GS_REPORT_COPIED, f->tag, GS_E_USAGE);
    for (int i = 0; i < 20; i++) { /* released memory can be allocated again */
        gs_worker_allocate(f->worker, ++f->tag, 51, 48 << 20);
        expect(f, GS_REPORT_ALLOCATED, f->tag, GS_OK);
        gs_worker_release(f->worker, 51);
    }
}

/* Host memory that the system cannot provide, as on a full disk: here because the file was cut off. */
TEST(test_host_memory_that_is_missing_is_an_error) {
    enum { GONE = 60, BYTES = 1 << 20 };
    struct fixture *f = *state;
    if (!is_host()) /* a driver finds out when it pins the memory */
        skip();
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    assert_int_equal(gs_worker_share(f->worker, GONE, fd, BYTES), GS_OK);
    gs_worker_copy(f->worker, ++f->tag, QUEUE, true, COUNTS, 0, GONE, 0, 4);
    expect(f, GS_REPORT_COPIED, f->tag, GS_OK);
    assert_int_equal(ftruncate(fd, 0), 0);
    for (int in = 0; in < 2; in++) {
        gs_worker_copy(f->worker, ++f->tag, QUEUE, in, COUNTS, 0, GONE, BYTES / 2, 4);
        expect(f, GS_REPORT_COPIED, f->tag, GS_E_IO);
    }
    gs_worker_unshare(f->worker, GONE);
    close(fd);
    start_count(f, QUEUE, 64, 10, NULL, 0); /* everything else goes on */
    expect(f, GS_REPORT_RAN, f->tag, GS_OK);
    clear_counts(f);
}

static int count_mappings(int process) {
    char path[40];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", process);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (int c; (c = getc(file)) != EOF;)
        count += c == '\n';
    fclose(file);
    return count;
}

static uint64_t bytes_of_piece(uint32_t number) {
    static const uint32_t bytes[] = {1, 64, 65, 4096, 5000, 1};
    return bytes[number % GS_COUNT(bytes)];
}

/* Allocates pieces that are zero, and writes to them. */
static void allocate_pieces(struct fixture *f, uint32_t first, uint32_t step, uint32_t count) {
    for (uint32_t i = first; i < count; i += step) {
        uint64_t bytes = bytes_of_piece(i);
        gs_worker_allocate(f->worker, ++f->tag, 1000 + i, bytes);
        expect(f, GS_REPORT_ALLOCATED, f->tag, GS_OK);
        f->shared[0] = UINT32_MAX;
        gs_worker_copy(f->worker, ++f->tag, QUEUE, false, 1000 + i, bytes - 1, REGION, 0, 1);
        expect(f, GS_REPORT_COPIED, f->tag, GS_OK);
        assert_int_equal(f->shared[0], UINT32_MAX << 8); /* the last byte was zero */
        gs_worker_fill(f->worker, ++f->tag, QUEUE, 1000 + i, 0, bytes, (uint8_t)i);
        expect(f, GS_REPORT_COPIED, f->tag, GS_OK);
    }
}

static void release_pieces(struct fixture *f, uint32_t first, uint32_t step, uint32_t count) {
    for (uint32_t i = first; i < count; i += step)
        gs_worker_release(f->worker, 1000 + i);
}

/* Many pieces of memory: each has its own bytes, and the process does not run out of mappings. */
TEST(test_many_pieces_of_memory_need_few_mappings) {
    enum { PIECES = 9000 };
    struct fixture *f = *state;
    int process = gs_worker_facts_of(f->worker)->process;
    if (!is_host())
        skip();
    allocate_pieces(f, 0, 1, PIECES);
    assert_true(count_mappings(process) < 6000);
    release_pieces(f, 0, 2, PIECES);
    allocate_pieces(f, 0, 2, PIECES);
    for (uint32_t i = 0; i < PIECES; i++) {
        gs_worker_copy(f->worker, ++f->tag, QUEUE, false, 1000 + i, 0, REGION, 0, 1);
        expect(f, GS_REPORT_COPIED, f->tag, GS_OK);
        assert_int_equal(*(uint8_t *)f->shared, (uint8_t)i);
    }
    release_pieces(f, 0, 1, PIECES);
    gs_worker_allocate(f->worker, ++f->tag, 999, 60 << 20); /* all of it is free again */
    expect(f, GS_REPORT_ALLOCATED, f->tag, GS_OK);
    gs_worker_release(f->worker, 999);
    assert_true(count_mappings(process) < 500);
}

TEST(test_whole_runs_follow_each_other) {
    enum { RUNS = 200, BLOCKS = 64 };
    struct fixture *f = *state;
    uint64_t first = f->tag + 1, ended_ns = 0;
    for (int i = 0; i < RUNS; i++)
        start_count(f, QUEUE, BLOCKS, 10, NULL, 0);
    for (int i = 0; i < RUNS; i++) {
        gs_worker_report report = next_report(f);
        assert_int_equal(report.kind, GS_REPORT_RAN);
        assert_int_equal(report.code, GS_OK);
        assert_int_equal(report.tag, first + (uint64_t)i);
        assert_int_equal(report.blocks_done, BLOCKS);
        assert_true(ended_ns <= report.began_ns && report.began_ns < report.ended_ns); /* runs do not overlap */
        ended_ns = report.ended_ns;
    }
    expect_counts(f, BLOCKS, RUNS);
    clear_counts(f);
}

/* Launches in all forms one after the other: each block of each of them runs once. */
TEST(test_block_loops_do_each_block_once) {
    static const enum gs_launch_form forms[] = {GS_LAUNCH_ORIGINAL, GS_LAUNCH_BLOCK_LOOP, GS_LAUNCH_CONFINED};
    enum { RUNS = 30, BLOCKS = 2000 };
    struct fixture *f = *state;
    int32_t rounds = 10;
    uint32_t mask[GS_WORKER_MASK_WORDS];
    mask_of(mask, 0, gs_worker_facts_of(f->worker)->sms);
    for (uint32_t i = 0; i < RUNS; i++) {
        gs_worker_launch launch = {.request = {.queue = QUEUE, .handle = MODULE},
                                   .kernel = COUNT,
                                   .form = forms[i % GS_COUNT(forms)],
                                   .grid = {BLOCKS / 2, 2, 1},
                                   .block = {64, 1, 1},
                                   .task_blocks = i};
        pass(&launch, COUNTS, &rounds, sizeof rounds);
        memcpy(launch.mask, mask, sizeof mask);
        assert_int_equal(gs_worker_start(f->worker, ++f->tag, &launch), GS_OK);
    }
    for (uint64_t i = 1; i <= RUNS; i++)
        expect(f, GS_REPORT_RAN, f->tag - RUNS + i, GS_OK);
    expect_counts(f, BLOCKS, RUNS);
    clear_counts(f);
}

/* Blocks that wait for others all come from the queue, in all forms: a launch that gave them to its worker blocks would
   fail. */
TEST(test_blocks_that_wait_come_from_the_queue) {
    enum { BLOCKS = 100 };
    struct fixture *f = *state;
    assert_true(f->image->kernels[FOLLOW].form.needs_queue);
    assert_false(f->image->kernels[COUNT].form.needs_queue);
    for (int form = GS_LAUNCH_ORIGINAL; form <= GS_LAUNCH_CONFINED; form++) {
        gs_worker_launch launch = {.request = {.queue = QUEUE, .handle = MODULE},
                                   .kernel = FOLLOW,
                                   .form = (uint32_t)form,
                                   .grid = {BLOCKS, 1, 1},
                                   .block = {32, 1, 1}};
        pass(&launch, COUNTS, NULL, 0);
        mask_of(launch.mask, 0, gs_worker_facts_of(f->worker)->sms);
        assert_int_equal(gs_worker_start(f->worker, ++f->tag, &launch), GS_OK);
        expect(f, GS_REPORT_RAN, f->tag, GS_OK);
        expect_counts(f, BLOCKS, 1);
        clear_counts(f);
    }
}

/* A launch on all SMs with one worker on each. */
static uint64_t start_sharing(struct fixture *f, uint32_t queue, uint32_t blocks, int rounds, uint64_t first_block) {
    int32_t value = rounds;
    gs_worker_launch launch = {.request = {.queue = queue, .handle = MODULE},
                               .kernel = COUNT,
                               .form = GS_LAUNCH_CONFINED,
                               .grid = {blocks, 1, 1},
                               .block = {64, 1, 1},
                               .task_blocks = 1,
                               .workers = 1,
                               .first_block = first_block};
    pass(&launch, COUNTS, &value, sizeof value);
    memset(launch.mask, 0xff, sizeof launch.mask); /* bits of SMs that do not exist change nothing */
    assert_int_equal(gs_worker_start(f->worker, ++f->tag, &launch), GS_OK);
    return f->tag;
}

/* Two launches that share all SMs: no more workers are sent after the first ones. */
TEST(test_few_workers_are_sent_once) {
    enum { BLOCKS = 2000 };
    struct fixture *f = *state;
    start_sharing(f, QUEUE, BLOCKS, 100, 0);
    start_sharing(f, OTHER_QUEUE, BLOCKS, 100, 0);
    for (uint32_t i = 0; i < 2; i++) {
        gs_worker_report report = next_report(f);
        assert_int_equal(report.kind, GS_REPORT_RAN);
        assert_int_equal(report.code, GS_OK);
        assert_int_equal(report.blocks_done, BLOCKS);
        assert_int_equal(report.launches, 1);
        assert_true(is_host() ? report.cost.registers == 0 : report.cost.registers > 0); /* so that partners can fit */
    }
    expect_counts(f, BLOCKS, 2);
    clear_counts(f);
}

/* The second of two such launches of a queue is on the device before the first has ended. Both are stopped, the second
   first: it must not have begun unless the first is complete. Then both go on. */
TEST(test_followers_begin_after_the_first_is_complete) {
    enum { BLOCKS = 3000 };
    struct fixture *f = *state;
    int rounds = (int)test_number("GRIDSMITH_ROUNDS", is_host() ? 1000 : 100000), begun = 0, stopped = 0;
    uint32_t none[GS_WORKER_MASK_WORDS] = {0}, runs = 0;
    gs_random random = gs_random_at(11, 0);
    for (; runs < 10; runs++) {
        uint64_t at[2] = {0, 0};
        while (at[1] < BLOCKS) {
            uint64_t tags[2];
            for (int i = at[0] >= BLOCKS; i < 2; i++)
                tags[i] = start_sharing(f, QUEUE, BLOCKS, rounds, at[i]);
            usleep((useconds_t)gs_random_from(&random, 0, 3000));
            for (int i = runs % 2 ? 0 : 2000; i < 2000 && gs_worker_progress(f->worker, tags[1]) <= at[1]; i++)
                usleep(50);
            bool is_stopped = gs_random_from(&random, 0, 3) > 0;
            for (int i = 1; i >= (at[0] >= BLOCKS) && is_stopped; i--)
                gs_worker_confine(f->worker, tags[i], none);
            for (int i = at[0] >= BLOCKS; i < 2; i++) {
                gs_worker_report report = next_report(f);
                if (report.code != GS_OK)
                    fail_msg("%s", report.message);
                assert_int_equal(report.tag, tags[i]);
                at[i] = report.blocks_done;
            }
            begun += at[1] > 0 && at[1] < BLOCKS;
            stopped += at[0] < BLOCKS;
            assert_true(at[0] == BLOCKS || at[1] == 0);
        }
    }
    print_message("the first was stopped %d times, the second %d times after it had begun\n", stopped, begun);
    expect_counts(f, BLOCKS, 2 * runs);
    clear_counts(f);
}

/* Launches whose report is deferred, followed by operations of all kinds or by none: everything is reported. */
TEST(test_deferred_reports_come) {
    enum { OPERATIONS = 400, BLOCKS = 64, THREADS = 64, TOO_MANY = 2048 };
    enum { WHOLE, LOOPED, CONFINED, COPY, WRONG, KINDS } kinds[OPERATIONS];
    struct fixture *f = *state;
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 9);
    int32_t rounds = 10;
    uint64_t first = f->tag + 1, runs = 0;
    for (int i = 0; i < OPERATIONS; i++) {
        bool is_usual = i == OPERATIONS - 1 || gs_random_chance(&random, 70);
        kinds[i] = is_usual ? WHOLE : (int)gs_random_from(&random, WHOLE, KINDS - 1);
        gs_worker_launch launch = {.request = {.queue = QUEUE, .handle = MODULE},
                                   .kernel = COUNT,
                                   .form = kinds[i] == LOOPED     ? GS_LAUNCH_BLOCK_LOOP
                                           : kinds[i] == CONFINED ? GS_LAUNCH_CONFINED
                                                                  : GS_LAUNCH_ORIGINAL,
                                   .defer_report = i == OPERATIONS - 1 || gs_random_chance(&random, 80),
                                   .grid = {BLOCKS / 2, 2, 1},
                                   .block = {kinds[i] == WRONG ? TOO_MANY : THREADS, 1, 1}};
        pass(&launch, COUNTS, &rounds, sizeof rounds);
        mask_of(launch.mask, 0, gs_worker_facts_of(f->worker)->sms);
        gs_code code = kinds[i] == COPY ? gs_worker_copy(f->worker, ++f->tag, QUEUE, false, COUNTS, 0, REGION, 0, 4)
                                        : gs_worker_start(f->worker, ++f->tag, &launch);
        assert_int_equal(code, GS_OK);
        runs += kinds[i] != COPY && kinds[i] != WRONG;
        if (gs_random_chance(&random, 10))
            usleep((useconds_t)gs_random_from(&random, 1, 100));
    }
    uint64_t tags = 0;
    for (int i = 0; i < OPERATIONS; i++) {
        gs_worker_report report = next_report(f);
        assert_true(report.tag >= first && report.tag <= f->tag);
        assert_int_equal(report.code, kinds[report.tag - first] == WRONG ? GS_E_USAGE : GS_OK);
        tags += report.tag;
    }
    assert_int_equal(tags, OPERATIONS * (first + f->tag) / 2);
    expect_counts(f, BLOCKS, (uint32_t)runs);
    clear_counts(f);
}

TEST(test_wrong_launches_are_refused) {
    struct fixture *f = *state;
    int64_t value = 0;
    gs_worker_launch right = {
        .request = {.queue = QUEUE, .handle = MODULE}, .kernel = COUNT, .grid = {2, 1, 1}, .block = {32, 1, 1}};
    gs_worker_launch wrong[7] = {right, right, right, right, right, right, right};
    for (size_t i = 0; i < GS_COUNT(wrong); i++) /* 0: the size of an argument; 1: one is missing */
        pass(&wrong[i], COUNTS, i == 1 ? NULL : &value, i == 0 ? 8 : 4);
    wrong[2].block[0] = 2048;
    wrong[3].kernel = 9;
    wrong[4].request.handle = 99;
    wrong[5].argument_count = 1; /* the list has more, */
    wrong[6].argument_count = 3; /* and fewer */
    for (size_t i = 0; i < GS_COUNT(wrong); i++) {
        assert_int_equal(gs_worker_start(f->worker, ++f->tag, &wrong[i]), GS_OK);
        expect(f, GS_REPORT_RAN, f->tag, GS_E_USAGE);
    }
    gs_worker_launch stubborn = {.request = {.queue = QUEUE, .handle = MODULE},
                                 .kernel = STUBBORN,
                                 .form = GS_LAUNCH_CONFINED,
                                 .grid = {1, 1, 1},
                                 .block = {32, 1, 1}};
    pass(&stubborn, COUNTS, NULL, 0);
    assert_false(f->image->kernels[STUBBORN].can_be_confined);
    assert_true(strlen(f->image->kernels[STUBBORN].refusal) > 10);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gs_worker_start(f->worker, ++f->tag, &stubborn), GS_OK);
        expect(f, GS_REPORT_RAN, f->tag, GS_E_USAGE);
        stubborn.form = GS_LAUNCH_BLOCK_LOOP;
    }
    expect_counts(f, 0, 0);
}

/* ---- products of cuBLAS: plain kernels on the CPU ---- */

enum { PRODUCT = 60, ROWS = 5, COLUMNS = 7, DEPTH = 9, B_AT = 256, C_AT = 4096, C_STEP = 1024 };

static const gs_product plain_product = {.rows = ROWS, .columns = COLUMNS, .depth = DEPTH};

static gs_worker_report try_to_load(struct fixture *f, const gs_product *product) {
    gs_text text = {0};
    gs_error error = {.code = GS_OK};
    gs_product_write(product, &text);
    gs_image_source source = {.name = "product", .text = text.data, .size = text.count};
    gs_image_request request = {.architecture = gs_worker_facts_of(f->worker)->architecture, .counts_blocks = true};
    gs_image *image = gs_image_make(f->folder, &source, &request, &error);
    if (!image)
        fail_msg("%s", error.message);
    assert_int_equal(gs_worker_load(f->worker, ++f->tag, PRODUCT, image), GS_OK);
    gs_image_free(image);
    gs_text_free(&text);
    gs_worker_report report = next_report(f);
    assert_int_equal(report.kind, GS_REPORT_LOADED);
    return report;
}

static void load_product(struct fixture *f, const gs_product *product) {
    gs_worker_report report = try_to_load(f, product);
    if (report.code != GS_OK)
        fail_msg("%s", report.message);
}

/* The same values for each kind of number: small integers, of which all sums are exact. */
static int a_at(int row, int k) {
    return (row * 3 + k * 5) % 11 - 5;
}

static int b_at(int k, int column) {
    return (k * 7 + column * 2) % 13 - 6;
}

static uint16_t number_of(const gs_product *product, int value) {
    float real = (float)value;
    return product->is_bfloat16 ? gs_bfloat_of(real) : gs_half_of(real);
}

static void write_factors(struct fixture *f, const gs_product *product) {
    uint16_t *a = (uint16_t *)(void *)f->shared, *b = a + B_AT / 2;
    memset(f->shared, 0xff, 2 * C_AT);
    for (int k = 0; k < DEPTH; k++) {
        for (int row = 0; row < ROWS; row++)
            a[row * DEPTH + k] = number_of(product, a_at(row, k));
        for (int column = 0; column < COLUMNS; column++)
            b[product->is_b_transposed ? column * DEPTH + k : k * COLUMNS + column] =
                number_of(product, b_at(k, column));
    }
    gs_worker_copy(f->worker, ++f->tag, QUEUE, true, COUNTS, 0, REGION, 0, (uint64_t)2 * C_AT);
    expect(f, GS_REPORT_COPIED, f->tag, GS_OK);
}

static void expect_products(struct fixture *f, int count) {
    gs_worker_copy(f->worker, ++f->tag, QUEUE, false, COUNTS, 0, REGION, 0, (uint64_t)C_AT + count * C_STEP);
    expect(f, GS_REPORT_COPIED, f->tag, GS_OK);
    for (int i = 0; i < count; i++) {
        const float *c = (const float *)(const void *)f->shared + (C_AT + i * C_STEP) / 4;
        for (int at = 0; at < ROWS * COLUMNS; at++) {
            int sum = 0;
            for (int k = 0; k < DEPTH; k++)
                sum += a_at(at / COLUMNS, k) * b_at(k, at % COLUMNS);
            assert_true(c[at] == (float)sum);
        }
    }
    clear_counts(f);
}

static gs_worker_launch launch_of_product(uint32_t queue, int number) {
    gs_worker_launch launch = {.request = {.queue = queue, .handle = PRODUCT}, .grid = {3, 2, 1}, .block = {4, 2, 1}};
    gs_launch_add_memory(&launch, COUNTS, 0);
    gs_launch_add_memory(&launch, COUNTS, B_AT);
    gs_launch_add_memory(&launch, COUNTS, (uint64_t)C_AT + number * C_STEP);
    return launch;
}

TEST(test_products_are_right) {
    struct fixture *f = *state;
    for (int kind = 0; kind < 4; kind++) {
        gs_product product = plain_product;
        product.is_b_transposed = kind % 2;
        product.is_bfloat16 = kind / 2;
        load_product(f, &product);
        write_factors(f, &product);
        for (int i = 0; i < 3; i++) {
            gs_worker_launch launch = launch_of_product(QUEUE, i);
            launch.defer_report = i < 2;
            gs_worker_start(f->worker, ++f->tag, &launch);
        }
        for (int i = 2; i >= 0; i--)
            expect(f, GS_REPORT_RAN, f->tag - (uint64_t)i, GS_OK);
        expect_products(f, 3);
        gs_worker_unload(f->worker, PRODUCT);
    }
}

/* The fake cuBLAS sees it, as products take long there. */
TEST(test_products_on_two_queues_do_not_use_one_workspace_at_a_time) {
    enum { LAUNCHES = 6 };
    struct fixture *f = *state;
    gs_error error;
    if (is_host())
        skip();
    setenv("GRIDSMITH_FAKE", "slow-blas", 1);
    assert_int_equal(gs_worker_restart(f->worker, &error), GS_OK);
    unsetenv("GRIDSMITH_FAKE");
    create_resources(f);
    load_product(f, &plain_product);
    for (int round = 0; round < 2; round++) {
        write_factors(f, &plain_product);
        for (int i = 0; i < LAUNCHES; i++) {
            gs_worker_launch launch = launch_of_product(i % 3 ? QUEUE : OTHER_QUEUE, i);
            gs_worker_start(f->worker, ++f->tag, &launch);
        }
        for (int i = 0; i < LAUNCHES; i++) {
            gs_worker_report report = next_report(f);
            assert_int_equal(report.kind, GS_REPORT_RAN);
            assert_int_equal(report.code, GS_OK);
        }
        expect_products(f, LAUNCHES);
    }
    gs_worker_unload(f->worker, PRODUCT);
    assert_int_equal(gs_worker_restart(f->worker, &error), GS_OK);
    create_resources(f);
}

static void expect_refused_product(struct fixture *f, gs_worker_launch *launch, const char *words) {
    gs_worker_start(f->worker, ++f->tag, launch);
    gs_worker_report report = next_report(f);
    assert_int_equal(report.kind, GS_REPORT_RAN);
    assert_int_equal(report.code, GS_E_USAGE);
    assert_string_equal(report.message, words);
}

TEST(test_products_stay_in_their_memory) {
    struct fixture *f = *state;
    const uint64_t address = 4096;
    gs_worker_launch launch = launch_of_product(QUEUE, 0);
    load_product(f, &plain_product);
    launch.form = GS_LAUNCH_CONFINED;
    expect_refused_product(f, &launch, "this kernel cannot be confined");
    launch = (gs_worker_launch){.request = {.queue = QUEUE, .handle = PRODUCT}, .grid = {1, 1, 1}, .block = {1, 1, 1}};
    gs_launch_add_memory(&launch, COUNTS, 0);
    gs_launch_add_memory(&launch, COUNTS, B_AT);
    expect_refused_product(f, &launch, "the kernel has 3 parameters, but 2 arguments were given");
    gs_worker_launch raw = launch, odd = launch;
    gs_launch_add_memory(&launch, FLAG, 0);
    expect_refused_product(f, &launch, "argument 3 of the product needs 140 bytes, its memory has 4");
    gs_launch_add_value(&raw, &address, sizeof address);
    expect_refused_product(f, &raw, "argument 3 of a product must be memory");
    gs_launch_add_memory(&odd, COUNTS, C_AT + 4);
    expect_refused_product(f, &odd, "argument 3 of a product must be at a multiple of 256 bytes");
    gs_worker_launch last = launch_of_product(QUEUE, 0);
    last.argument_count = last.argument_bytes = 0;
    for (int i = 0; i < 3; i++)
        gs_launch_add_memory(&last, COUNTS, MOST_BLOCKS * sizeof(uint32_t) - 256);
    gs_worker_start(f->worker, ++f->tag, &last);
    expect(f, GS_REPORT_RAN, f->tag, GS_OK);
    gs_worker_unload(f->worker, PRODUCT);
    clear_counts(f);
}

/* Restarts the worker with another fake driver, and loads a product. */
static void expect_no_product(struct fixture *f, const char *words) {
    gs_error error;
    assert_int_equal(gs_worker_restart(f->worker, &error), GS_OK);
    create_resources(f);
    for (int i = 0; i < 2; i++) {
        gs_worker_report report = try_to_load(f, &plain_product);
        assert_int_equal(report.code, GS_E_IO);
        if (!strstr(report.message, words))
            fail_msg("%s", report.message);
    }
    start_count(f, QUEUE, 64, 10, NULL, 0); /* everything else goes on */
    expect(f, GS_REPORT_RAN, f->tag, GS_OK);
    clear_counts(f);
}

TEST(test_a_library_that_does_not_work_is_an_error) {
    struct fixture *f = *state;
    gs_error error;
    const char *libraries = getenv("LD_LIBRARY_PATH");
    if (is_host() || !libraries || !strstr(libraries, "/fake/"))
        skip();
    char *before = strdup(libraries), *driver, *alone;
    setenv("GRIDSMITH_FAKE", "blas-fails", 1);
    expect_no_product(f, "cuBLAS: starting failed: CUBLAS_STATUS_NOT_INITIALIZED (1)");
    unsetenv("GRIDSMITH_FAKE");
    assert_true(asprintf(&driver, "%s/libcuda.so.1", before) > 0);
    assert_true(asprintf(&alone, "%s/libcuda.so.1", f->folder) > 0);
    assert_int_equal(symlink(driver, alone), 0);
    setenv("LD_LIBRARY_PATH", f->folder, 1);
    expect_no_product(f, "cuBLAS"); /* "was not found", or a real one is installed that has no GPU */
    setenv("LD_LIBRARY_PATH", before, 1);
    assert_int_equal(gs_worker_restart(f->worker, &error), GS_OK);
    create_resources(f);
    load_product(f, &plain_product);
    gs_worker_unload(f->worker, PRODUCT);
    free(before);
    free(driver);
    free(alone);
}

/* The mask changes while the kernel runs. The counts that the worker checks, and those that the test checks, must all
   be 1. */
TEST(test_runs_with_changing_masks_do_each_block_once) {
    struct fixture *f = *state;
    uint64_t remasks = test_number("GRIDSMITH_RUNS", 100000) / 100, pause_us = test_number("GRIDSMITH_PAUSE_US", 100),
             done = 0;
    int sms = gs_worker_facts_of(f->worker)->sms;
    uint32_t runs = 0;
    gs_random random = gs_random_at(7, 0);
    while (done < remasks) {
        uint32_t mask[GS_WORKER_MASK_WORDS];
        mask_of(mask, 0, sms);
        uint64_t tag = start_count(f, QUEUE, MOST_BLOCKS, 200, mask, 0);
        gs_worker_report report;
        while (!gs_worker_poll(f->worker, &report)) {
            int first = (int)gs_random_from(&random, 0, sms - 1);
            mask_of(mask, first, (int)gs_random_from(&random, first + 1, sms));
            if (done++ < remasks)
                gs_worker_confine(f->worker, tag, mask);
            usleep((useconds_t)pause_us);
        }
        if (report.code != GS_OK)
            fail_msg("%s", report.message);
        assert_int_equal(report.tag, tag);
        assert_int_equal(report.blocks_done, MOST_BLOCKS);
        runs++;
    }
    expect_counts(f, MOST_BLOCKS, runs);
    clear_counts(f);
}

/* Lets a run that has done `at` blocks go on, until it has done some more, and stops it. Returns the blocks done. */
static uint64_t go_on_and_stop(struct fixture *f, uint32_t blocks, uint64_t at) {
    int rounds = (int)test_number("GRIDSMITH_ROUNDS", is_host() ? 1000 : 1000000); /* long enough to be stopped */
    uint32_t mask[GS_WORKER_MASK_WORDS], none[GS_WORKER_MASK_WORDS] = {0};
    gs_worker_report report;
    mask_of(mask, 0, gs_worker_facts_of(f->worker)->sms);
    uint64_t tag = start_count(f, QUEUE, blocks, rounds, mask, at);
    bool has_ended = false;
    while (!has_ended && gs_worker_progress(f->worker, tag) < at + blocks / 20) {
        usleep(50);
        has_ended = gs_worker_poll(f->worker, &report);
    }
    if (!has_ended) {
        gs_worker_confine(f->worker, tag, none);
        report = next_report(f);
    }
    if (report.code != GS_OK)
        fail_msg("%s", report.message);
    assert_true(report.blocks_done >= at);
    return report.blocks_done;
}

/* A run that is stopped again and again continues where it was. On a machine that is too busy to stop it in time it is
   run again, until it was stopped some times. */
TEST(test_stopped_runs_resume) {
    enum { BLOCKS = 20000 };
    struct fixture *f = *state;
    uint32_t none[GS_WORKER_MASK_WORDS] = {0}, runs = 0;
    for (int stops = 0, wanted = is_host() ? 10 : 2; stops < wanted; runs++)
        for (uint64_t at = 0; at < BLOCKS; stops += at < BLOCKS)
            at = go_on_and_stop(f, BLOCKS, at);
    expect_counts(f, BLOCKS, runs);
    clear_counts(f);
    uint64_t tag = start_count(f, QUEUE, BLOCKS, 1000, none, 5); /* without any SMs */
    gs_worker_report report = next_report(f);
    assert_int_equal(report.tag, tag);
    assert_int_equal(report.blocks_done, 5);
    expect_counts(f, 0, 0);
}

/* An endless kernel on some SMs does not keep another kernel from running on the others. A restart stops it. */
TEST(test_disjoint_runs_do_not_wait_for_each_other) {
    struct fixture *f = *state;
    int sms = gs_worker_facts_of(f->worker)->sms;
    uint32_t mask[GS_WORKER_MASK_WORDS];
    gs_worker_launch endless = {.request = {.queue = OTHER_QUEUE, .handle = MODULE},
                                .kernel = ENDLESS,
                                .form = GS_LAUNCH_CONFINED,
                                .grid = {1000, 1, 1},
                                .block = {64, 1, 1},
                                .task_blocks = 1};
    pass(&endless, FLAG, NULL, 0);
    mask_of(endless.mask, 0, sms / 2);
    assert_int_equal(gs_worker_start(f->worker, ++f->tag, &endless), GS_OK);
    mask_of(mask, sms / 2, sms);
    for (int i = 0; i < 5; i++) {
        uint64_t tag = start_count(f, QUEUE, 2000, 100, mask, 0);
        expect(f, GS_REPORT_RAN, tag, GS_OK);
    }
    uint64_t tag = start_count(f, QUEUE, 200, 100, NULL, 0); /* whole, on the other SMs */
    expect(f, GS_REPORT_RAN, tag, GS_OK);
    gs_error error;
    assert_int_equal(gs_worker_restart(f->worker, &error), GS_OK);
    create_resources(f);
    tag = start_count(f, QUEUE, 200, 100, NULL, 0);
    expect(f, GS_REPORT_RAN, tag, GS_OK);
    expect_counts(f, 200, 1);
    clear_counts(f);
}

TEST(test_a_fault_is_reported_and_can_be_restarted) {
    struct fixture *f = *state;
    const uint64_t nowhere = 0;
    gs_worker_launch fault = {
        .request = {.queue = QUEUE, .handle = MODULE}, .kernel = FAULT, .grid = {4, 1, 1}, .block = {32, 1, 1}};
    pass(&fault, 0, &nowhere, sizeof nowhere);
    gs_error error;
    for (int i = 0; i < 2; i++) {
        fault.form = i == 1 ? GS_LAUNCH_CONFINED : GS_LAUNCH_ORIGINAL;
        mask_of(fault.mask, 0, 1);
        assert_int_equal(gs_worker_start(f->worker, ++f->tag, &fault), GS_OK);
        gs_worker_report report = next_report(f);
        assert_int_equal(report.kind, GS_REPORT_LOST);
        assert_int_equal(report.code, GS_E_KERNEL);
        assert_int_equal(report.tag, f->tag);
        assert_non_null(strstr(report.message, is_host() ? "of fault" : "CUDA error 700"));
        assert_false(gs_worker_poll(f->worker, &report));
        assert_int_equal(gs_worker_restart(f->worker, &error), GS_OK);
        create_resources(f);
    }
    expect_counts(f, 0, 0);
}

TEST(test_a_process_that_is_killed_is_reported) {
    struct fixture *f = *state;
    gs_error error;
    kill(gs_worker_facts_of(f->worker)->process, SIGKILL);
    gs_worker_report report = next_report(f);
    assert_int_equal(report.kind, GS_REPORT_LOST);
    assert_int_equal(report.tag, GS_NO_TAG);
    assert_non_null(strstr(report.message, "signal 9"));
    assert_int_equal(gs_worker_allocate(f->worker, 1, 1, 1), GS_OK); /* it is ignored */
    assert_false(gs_worker_poll(f->worker, &report));
    assert_int_equal(gs_worker_restart(f->worker, &error), GS_OK);
    create_resources(f);
}

/* The fake driver plays it. */
TEST(test_mps_that_has_died_is_reported) {
    enum { MPS_RPC_FAILURE = 806, PIECE = 60 };
    struct fixture *f = *state;
    gs_error error;
    if (is_host())
        skip();
    setenv("GRIDSMITH_FAKE", "mps-dies", 1);
    assert_int_equal(gs_worker_restart(f->worker, &error), GS_OK);
    unsetenv("GRIDSMITH_FAKE");
    assert_int_equal(gs_worker_allocate(f->worker, ++f->tag, PIECE, MPS_RPC_FAILURE), GS_OK);
    gs_worker_report report = next_report(f);
    assert_int_equal(report.kind, GS_REPORT_ALLOCATED);
    bool is_fake = report.code != GS_OK; /* with a real driver MPS works */
    if (is_fake) {
        report = next_report(f);
        assert_int_equal(report.kind, GS_REPORT_LOST);
        assert_int_equal(report.tag, GS_NO_TAG);
        assert_non_null(strstr(report.message, "CUDA error 806"));
    }
    assert_int_equal(gs_worker_restart(f->worker, &error), GS_OK);
    create_resources(f);
}

/* A worker ends when its daemon is killed. */
TEST(test_nothing_outlives_the_daemon) {
    int ends[2];
    int32_t process = 0;
    assert_int_equal(pipe(ends), 0);
    test_inherit_orphans();
    pid_t daemon = fork();
    if (daemon == 0) {
        gs_worker_options options = {.device = device_name()};
        gs_worker *worker = gs_worker_open(&options, NULL);
        process = worker ? gs_worker_facts_of(worker)->process : 0;
        if (write(ends[1], &process, sizeof process) < 0)
            _exit(1);
        pause();
    }
    assert_int_equal(read(ends[0], &process, sizeof process), sizeof process);
    assert_true(process > 0);
    kill(daemon, SIGKILL);
    assert_int_equal(waitpid(daemon, NULL, 0), daemon);
    assert_true(test_orphan_ends(process));
    close(ends[0]);
    close(ends[1]);
}

/* ---- cores ---- */

static bool is_sm(int process, const char *thread) {
    char path[64], name[16] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/comm", process, thread);
    FILE *file = fopen(path, "r");
    bool is = file && fgets(name, sizeof name, file) && strcmp(name, "SM\n") == 0;
    if (file)
        fclose(file);
    return is;
}

/* The threads of the CPU backend give way, but are neither of the idle class nor real-time; the first core is for
   others. */
static void check_sm(int thread, const cpu_set_t *all, int32_t sms) {
    cpu_set_t mine, lacks;
    int nice = getpriority(PRIO_PROCESS, 0), first = 0;
    assert_int_equal(sched_getscheduler(thread), SCHED_OTHER);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)thread), nice + 3 < 19 ? nice + 3 : 19);
    assert_int_equal(sched_getaffinity(thread, sizeof mine, &mine), 0);
    CPU_XOR(&lacks, &mine, all);
    while (!CPU_ISSET(first, all))
        first++;
    bool leaves = CPU_COUNT(all) > 1 && CPU_COUNT(all) <= sms;
    assert_int_equal(CPU_COUNT(&lacks), leaves);
    assert_int_equal(CPU_ISSET(first, &lacks) != 0, leaves);
}

/* Checks the threads that play SMs, and counts them: they are named when they have given way. */
static int32_t check_sms(const gs_worker_facts *facts, const cpu_set_t *all) {
    char path[40];
    int32_t found = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)facts->process);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (is_sm(facts->process, entry->d_name)) {
            check_sm(atoi(entry->d_name), all, facts->sms);
            found++;
        }
    closedir(folder);
    return found;
}

TEST(test_sms_give_way_to_what_serves_them) {
    const struct fixture *f = *state;
    const gs_worker_facts *facts = gs_worker_facts_of(f->worker);
    cpu_set_t all;
    if (!is_host() || sched_getscheduler(0) != SCHED_OTHER)
        skip();
    assert_int_equal(sched_getaffinity(facts->process, sizeof all, &all), 0);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)facts->process), getpriority(PRIO_PROCESS, 0));
    TEST_WAIT(check_sms(facts, &all) == facts->sms);
}

TEST(test_no_such_device_is_an_error) {
    gs_error error;
    gs_worker_options options = {.device = "host", .sms = 100000};
    assert_null(gs_worker_open(&options, &error));
    assert_non_null(strstr(error.message, "1 to 256 SMs"));
    options = (gs_worker_options){.device = "cuda:77"};
    assert_null(gs_worker_open(&options, &error));
    assert_int_equal(error.code, GS_E_NO_GPU);
    options = (gs_worker_options){.device = "host", .program = "/nowhere/gridsmith"};
    assert_null(gs_worker_open(&options, &error));
    assert_non_null(strstr(error.message, "/nowhere/gridsmith"));
}

/* ---- images ---- */

TEST(test_images_are_kept) {
    struct fixture *f = *state;
    gs_error error;
    int32_t architecture = gs_worker_facts_of(f->worker)->architecture;
    assert_false(f->image->was_cached);
    assert_int_equal(f->image->kernel_count, 5);
    assert_string_equal(f->image->kernels[ENDLESS].name, "endless");
    gs_image *again = compile(f->folder, architecture, NULL, &error);
    assert_true(again->was_cached);
    assert_string_equal(again->key, f->image->key);
    assert_memory_equal(again->kernels, f->image->kernels, 4 * sizeof(gs_image_kernel));
    gs_image_free(again);
}

static const char *image_path(const char *folder, const gs_image *image) {
    static char path[300];
    snprintf(path, sizeof path, "%s/%s.image", folder, image->key);
    return path;
}

TEST(test_broken_images_are_compiled_again) {
    struct fixture *f = *state;
    gs_error error;
    char folder[100];
    snprintf(folder, sizeof folder, "%s/made/where/needed", f->folder);
    static const char text[] = "__global__ void one(int *at) { at[blockIdx.x] = VALUE; }";
    for (int i = 0; i < 4; i++) {
        gs_image_source source = {.name = "one.cu",
                                  .text = text,
                                  .size = strlen(text),
                                  .options = {i == 2 ? "-DVALUE=2" : "-DVALUE=1"},
                                  .option_count = 1};
        gs_image_request request = {.architecture = gs_worker_facts_of(f->worker)->architecture};
        gs_image *image = gs_image_make(folder, &source, &request, &error);
        if (!image)
            fail_msg("%s", error.message);
        /* 0: new; 1: cached, then truncated; 2: another option; 3: truncated, so new */
        assert_int_equal(image->was_cached, i == 1);
        assert_string_equal(image->kernels[0].name, "one");
        if (i == 1)
            assert_int_equal(truncate(image_path(folder, image), 3000), 0);
        gs_image_free(image);
    }
}

/* Makes a sparse file in the cache that was last used at the time `used`. */
static void put_image(const char *path, off_t bytes, time_t used) {
    const struct timespec times[2] = {{.tv_sec = used}, {.tv_sec = used}};
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0 && ftruncate(fd, bytes) == 0 && futimens(fd, times) == 0);
    close(fd);
}

TEST(test_images_used_longest_ago_make_room) {
    struct fixture *f = *state;
    gs_error error;
    char folder[100], paths[3][120];
    snprintf(folder, sizeof folder, "%s/full", f->folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%d.image", folder, i);
        put_image(paths[i], GS_IMAGE_CACHE_BYTES / 3 + 1000, 1000 + (i + 2) % 3); /* 1 is the oldest, then 2, then 0 */
    }
    gs_image *image = compile(folder, gs_worker_facts_of(f->worker)->architecture, NULL, &error);
    if (!image)
        fail_msg("%s", error.message);
    assert_int_equal(access(image_path(folder, image), R_OK), 0);
    assert_int_equal(access(paths[0], F_OK), 0);
    assert_int_equal(access(paths[1], F_OK), -1);
    assert_int_equal(access(paths[2], F_OK), 0);
    gs_image_free(image);
}

TEST(test_compile_errors_are_reported) {
    struct fixture *f = *state;
    gs_error error;
    static const char text[] = "__global__ void one(int *at) {\n    at[0] = nothing;\n}";
    gs_image_source source = {.name = "one.cu", .text = text, .size = strlen(text)};
    gs_image_request request = {.architecture = gs_worker_facts_of(f->worker)->architecture};
    assert_null(gs_image_make(f->folder, &source, &request, &error));
    assert_int_equal(error.code, GS_E_KERNEL);
    assert_int_equal(error.line, 2);
    source.options[0] = source.kernels[0] = "-fplugin=evil.so";
    source.option_count = 1;
    assert_null(gs_image_make(f->folder, &source, &request, &error));
    assert_int_equal(error.code, GS_E_USAGE);
    source.option_count = 0;
    source.size = 0;
    assert_null(gs_image_make(f->folder, &source, &request, &error));
    assert_int_equal(error.code, GS_E_KERNEL);
}

/* ---- NVIDIA's compiler, if it is installed ---- */

/* A kernel with many registers, whose confined form is limited to those of the original, one with few registers, and
   one that cannot be confined: all of them in one part. */
static void test_nvrtc_makes_images(void **state) {
    static const char text[] =
        "__global__ void many(float *at) {\n    float value[80];\n"
        "    for (int i = 0; i < 80; i++)\n        value[i] = at[i * 1000 + threadIdx.x];\n    __syncthreads();\n"
        "    for (int i = 0; i < 80; i++)\n        at[(79 - i) * 1000 + threadIdx.x] = value[i] * value[79 - i];\n}\n"
        "__global__ void few(int *at) { at[blockIdx.x] = 1; }\n"
        "__global__ void odd(int *at) { long id; asm(\"mov.u64 %0, %%gridid;\" : \"=l\"(id)); at[0] = id; }\n";
    char *folder = gs_folder_make(NULL);
    const gs_image_source source = {.name = "three.cu", .text = text, .size = strlen(text)};
    const gs_image_request request = {.architecture = 90};
    gs_error error = {.code = GS_OK};
    gs_image_file file;
    (void)state;
    gs_image *image = gs_image_make(folder, &source, &request, &error);
    if (!image && error.code == GS_E_NO_GPU) {
        print_message("skipped: %s\n", error.message);
        gs_folder_remove(folder);
        free(folder);
        skip();
    }
    if (!image || gs_image_map(image->fd, &file, &error) != GS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(file.kernel_count, 3);
    assert_int_equal(file.part_count, 1);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(file.kernels[i].kernel.can_be_confined, i < 2);
        assert_int_equal(file.kernels[i].original.part, 0);
        assert_int_equal(file.kernels[i].confined.part, i < 2 ? 0 : GS_IMAGE_NO_PART);
    }
    gs_image_unmap(&file);
    unlink(image_path(folder, image));
    gs_image_free(image);
    assert_int_equal(rmdir(folder), 0);
    free(folder);
}

/* ---- memory of the CPU backend ---- */

static bool is_mapped(uint64_t address) {
    unsigned char page;
    return mincore((void *)(uintptr_t)address, 1, &page) == 0;
}

static uint64_t unused_bytes(gs_host_memory *memory) {
    pthread_mutex_lock(&memory->mutex);
    uint64_t bytes = memory->unused_bytes;
    pthread_mutex_unlock(&memory->mutex);
    return bytes;
}

/* First without its thread: memory that is to be unmapped stays until an allocation needs the space. */
TEST(test_freeing_a_large_piece_takes_no_time) {
    enum { MIB = 1 << 20, ALL = 64 * MIB, LARGE = 40 * MIB };
    static gs_host_memory memory; /* the thread never ends */
    static _Atomic uint64_t shown;
    uint64_t large, small, other;
    pthread_t thread;
    gs_host_memory_open(&memory, ALL, &shown);
    assert_int_equal(gs_host_memory_allocate(&memory, LARGE, &large, NULL), GS_OK);
    memset((void *)(uintptr_t)large, 1, LARGE);
    gs_host_memory_free(&memory, large, LARGE);
    assert_int_equal(memory.used_bytes, 0);
    assert_true(is_mapped(large));
    assert_int_equal(gs_host_memory_allocate(&memory, MIB, &small, NULL), GS_OK);
    assert_true(memory.unused_bytes > LARGE);
    assert_int_equal(gs_host_memory_allocate(&memory, LARGE, &other, NULL), GS_OK);
    assert_int_equal(memory.unused_bytes, 0);
    assert_int_equal(*(const char *)(uintptr_t)other, 0);
    gs_host_memory_free(&memory, small, MIB);
    assert_int_equal(memory.unused_bytes, 0); /* small ones are unmapped at once */
    gs_host_memory_free(&memory, other, LARGE);
    assert_int_equal(pthread_create(&thread, NULL, gs_host_memory_unmap_unused, &memory), 0);
    pthread_detach(thread);
    TEST_WAIT(unused_bytes(&memory) == 0);
}

/* Launches use the same local memory; the largest counts, until the last has ended. */
TEST(test_memory_of_kernels_is_counted_before_it_is_touched) {
    enum { MIB = 1 << 20, ALL = 64 * MIB };
    gs_host_memory memory;
    _Atomic uint64_t shown = 0;
    gs_error error;
    uint64_t address;
    gs_host_memory_open(&memory, ALL, &shown);
    assert_int_equal(gs_host_memory_take(&memory, 4 * MIB, "a module", &error), GS_OK);
    assert_int_equal(gs_host_memory_begin_launch(&memory, 20 * MIB, &error), GS_OK);
    assert_int_equal(gs_host_memory_begin_launch(&memory, 40 * MIB, &error), GS_OK);
    assert_int_equal(gs_host_memory_begin_launch(&memory, 8 * MIB, &error), GS_OK);
    assert_int_equal(memory.used_bytes, 44 * MIB);
    assert_int_equal(shown, 40 * MIB);
    assert_int_equal(gs_host_memory_begin_launch(&memory, 61 * MIB, &error), GS_E_FULL);
    assert_string_equal(
        error.message,
        "out of device memory: the local memory of a kernel needs 22020096 bytes, and 20971520 are left");
    assert_true(gs_host_memory_extend(&memory, false, 20 * MIB));
    assert_false(gs_host_memory_extend(&memory, false, 1));
    assert_int_equal(gs_host_memory_allocate(&memory, 1, &address, &error), GS_E_FULL);
    assert_true(gs_host_memory_extend(&memory, true, 8 * MIB)); /* the heap of kernels is their own */
    assert_false(gs_host_memory_extend(&memory, true, 1));
    assert_int_equal(shown, 68 * MIB);
    gs_host_memory_shrink(&memory, false, 20 * MIB);
    gs_host_memory_shrink(&memory, true, 8 * MIB);
    gs_host_memory_end_launch(&memory, 40 * MIB);
    gs_host_memory_end_launch(&memory, 20 * MIB);
    assert_int_equal(shown, 40 * MIB);
    gs_host_memory_end_launch(&memory, 8 * MIB);
    assert_int_equal(shown, 0);
    gs_host_memory_give(&memory, 4 * MIB);
    assert_int_equal(memory.used_bytes, 0);
}

/* `test_worker nvrtc` is a separate test: it needs no device, and NVRTC leaks. Another word is the name of a test. */
int main(int argc, char **argv) {
    const struct CMUnitTest nvrtc[] = {cmocka_unit_test(test_nvrtc_makes_images)};
    if (argc > 1 && strcmp(argv[1], GS_WORKER_PROCESS) == 0) {
        fprintf(stderr, "test_worker: set GRIDSMITH_PROGRAM to gridsmith\n"); /* or it would start itself forever */
        return 2;
    }
    if (argc > 1 && strcmp(argv[1], "nvrtc") != 0)
        cmocka_set_test_filter(argv[1]);
    return argc > 1 && strcmp(argv[1], "nvrtc") == 0 ? cmocka_run_group_tests(nvrtc, NULL, NULL)
                                                     : TEST_ALL(set_up, tear_down);
}
