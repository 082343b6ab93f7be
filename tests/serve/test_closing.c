/*
 * test_closing.c: descriptors of clients are closed by threads, by the rules at the beginning of
 * src/sharing/serve/closing.c, which are written out here over a plain list of descriptors.
 *
 * close() of a descriptor does not return before the test lets it, as with a file system that does not respond, and the
 * clock is played. So it is known when the threads can do nothing more, and which descriptors they then close.
 *
 * GRIDSMITH_RUNS is how many steps are played, GRIDSMITH_SEED where they start.
 */
#define _GNU_SOURCE
#include "test.h"

#include "sharing/serve/server.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    MS = 1000000,
    FAMILIES = 3,
    PROCESSES = 18, /* a third of them in each family */
    MOST = 4,
    THREADS = 32,
    MOST_OF_FAMILY = THREADS / 2,
    PATIENCE_MS = 50,
    FIRST_FD = 200, /* numbers that nothing else has */
    GIVEN = 400,
    STEPS = 500,
};

/* ---- the clock, processes and close() ---- */

static int64_t now_ns;

int64_t __wrap_gs_now_ns(void);
int64_t __wrap_gs_now_ns(void) {
    return now_ns;
}

int64_t __wrap_gs_family_of(gs_families *families, const char *proc, int32_t process, uint32_t user);
int64_t __wrap_gs_family_of(gs_families *families, const char *proc, int32_t process, uint32_t user) {
    (void)families, (void)proc, (void)user;
    return 1 + process % FAMILIES;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t may_return = PTHREAD_COND_INITIALIZER;
static bool is_begun[GIVEN], is_let[GIVEN]; /* close() was called, and may return */

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) {
    if (fd < FIRST_FD || fd >= FIRST_FD + GIVEN)
        return __real_close(fd);
    pthread_mutex_lock(&mutex);
    is_begun[fd - FIRST_FD] = true;
    while (!is_let[fd - FIRST_FD])
        pthread_cond_wait(&may_return, &mutex);
    pthread_mutex_unlock(&mutex);
    return 0;
}

/* ---- the rules ---- */

static struct given {
    enum { WAITS, IS_CLOSED, IS_DONE, IS_COLLECTED } state; /* IS_CLOSED: by a thread, which close() holds up */
    int process;
    int64_t since_ns;
} given[GIVEN];
static size_t given_count, threads;

static size_t count(bool (*fits)(const struct given *, int), int number) {
    size_t found = 0;
    for (size_t i = 0; i < given_count; i++)
        found += fits(&given[i], number);
    return found;
}

static bool is_busy(const struct given *one, int number) {
    (void)number;
    return one->state == IS_CLOSED;
}

static bool is_busy_for_process(const struct given *one, int process) {
    return one->state == IS_CLOSED && one->process == process;
}

static bool is_busy_for_family(const struct given *one, int process) {
    return one->state == IS_CLOSED && one->process % FAMILIES == process % FAMILIES;
}

static bool is_of_process(const struct given *one, int process) {
    return one->state != IS_COLLECTED && one->process == process;
}

static bool is_counted(const struct given *one, int number) {
    (void)number;
    return one->state != IS_COLLECTED;
}

/* The first that may be closed; NULL: none. */
static struct given *first_waiting(void) {
    for (size_t i = 0; i < given_count; i++)
        if (given[i].state == WAITS && count(is_busy_for_process, given[i].process) < MOST &&
            count(is_busy_for_family, given[i].process) < MOST_OF_FAMILY)
            return &given[i];
    return NULL;
}

static void use_threads(void) {
    struct given *next;
    while (count(is_busy, 0) < threads && (next = first_waiting()))
        next->state = IS_CLOSED;
}

/* ---- the threads ---- */

static gs_closing closing;
static gs_quotas quotas;
static gs_account *accounts[PROCESSES];

/* All threads that have nothing to close sleep, so whatever they may close has begun. */
static bool has_begun(void) {
    bool is_right = true;
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < given_count; i++)
        is_right = is_right && is_begun[i] == (given[i].state != WAITS);
    pthread_mutex_unlock(&mutex);
    return is_right;
}

static bool is_finished(size_t number) {
    bool is_found = false;
    pthread_mutex_lock(&closing.mutex);
    for (int process = 0; process < PROCESSES; process++)
        is_found = is_found || accounts[process]->closing_now != count(is_busy_for_process, process);
    pthread_mutex_unlock(&closing.mutex);
    return !is_found && given[number].state == IS_DONE;
}

static void settle(void) {
    use_threads();
    TEST_WAIT(has_begun());
    assert_int_equal(closing.thread_count, threads);
    assert_int_equal(closing.count, count(is_counted, 0));
    for (int process = 0; process < PROCESSES; process++) {
        size_t of_process = count(is_of_process, process);
        assert_int_equal(accounts[process]->used[GS_QUOTA_DESCRIPTORS], of_process);
        assert_int_equal(gs_closing_is_behind(accounts[process]), of_process >= MOST);
    }
}

/* ---- steps ---- */

static void give(gs_random *random) {
    if (given_count == GIVEN)
        return;
    int process = (int)gs_random_from(random, 0, PROCESSES - 1);
    given[given_count] = (struct given){WAITS, process, now_ns};
    threads = gs_max_u64(threads, 1);
    gs_closing_give(&closing, FIRST_FD + (int)given_count++, accounts[process]);
}

static void let_return(size_t number) {
    given[number].state = IS_DONE;
    use_threads();
    pthread_mutex_lock(&mutex);
    is_let[number] = true;
    pthread_cond_broadcast(&may_return);
    pthread_mutex_unlock(&mutex);
    TEST_WAIT(is_finished(number));
}

static void let_one_return(gs_random *random) {
    size_t busy = count(is_busy, 0);
    if (!busy)
        return;
    int64_t left = gs_random_from(random, 0, (int64_t)busy - 1);
    for (size_t i = 0; i < given_count; i++)
        if (given[i].state == IS_CLOSED && left-- == 0)
            let_return(i);
}

static void collect(void) {
    const struct given *first = first_waiting();
    if (first && now_ns - first->since_ns > (int64_t)PATIENCE_MS * MS && threads < THREADS)
        threads++;
    for (size_t i = 0; i < given_count; i++)
        if (given[i].state == IS_DONE)
            given[i].state = IS_COLLECTED;
    gs_closing_collect(&closing, &quotas);
}

static void play_step(gs_random *random, int percent_given) {
    static const int64_t passes_ms[] = {1, 10, PATIENCE_MS, PATIENCE_MS, 200};
    int64_t what = gs_random_from(random, 0, 99);
    if (what < percent_given)
        give(random);
    else if (what < 60)
        let_one_return(random);
    else if (what < 75)
        now_ns += passes_ms[gs_random_from(random, 0, GS_COUNT(passes_ms) - 1)] * MS;
    else
        collect();
    settle();
}

static void let_all_return(void) {
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < GIVEN; i++)
        is_let[i] = true;
    pthread_cond_broadcast(&may_return);
    pthread_mutex_unlock(&mutex);
}

/* ---- tests ---- */

static void play_daemon(gs_random *random) {
    int percent_given = (int)gs_random_from(random, 20, 45);
    closing = (gs_closing){.count = 0};
    gs_quotas_open(&quotas, &(gs_quotas_options){0}, 1 << 20);
    for (int32_t process = 0; process < PROCESSES; process++)
        assert_non_null(accounts[process] = gs_account_take(&quotas, process, 7));
    given_count = threads = 0;
    for (size_t i = 0; i < GIVEN; i++)
        is_begun[i] = is_let[i] = false;
    for (int step = 0; step < STEPS; step++)
        play_step(random, percent_given);
    let_all_return();
    assert_true(gs_closing_close(&closing, &quotas));
    for (size_t i = 0; i < given_count; i++)
        assert_true(is_begun[i]);
    assert_int_equal(closing.count, 0);
    for (int process = 0; process < PROCESSES; process++) {
        assert_int_equal(accounts[process]->used[GS_QUOTA_DESCRIPTORS], 0);
        assert_int_equal(accounts[process]->closing, 0);
        gs_account_leave(&quotas, accounts[process]);
    }
    assert_null(quotas.first);
    gs_quotas_close(&quotas);
}

TEST(descriptors_are_closed_by_the_rules) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), rounds = test_number("GRIDSMITH_RUNS", 100000) / 5000 + 1;
    for (uint64_t i = 0; i < rounds; i++) {
        gs_random random = gs_random_at(seed, i);
        play_daemon(&random);
    }
}

TEST_MAIN(NULL, NULL)
