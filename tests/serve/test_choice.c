/*
 * test_choice.c: what requests lose beside other work, and whether a command uses MPS the next time it is started.
 */
#include "test.h"

#include "sharing/serve/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { US = 1000, MS = 1000000, NO_MPS = 0, MPS = 1 };

/* ---- what requests lose ---- */

static void add_requests(gs_tenant_page *page, double ms, uint32_t count, bool are_alone) {
    unsigned bucket = gs_tenant_bucket((uint64_t)(ms * MS));
    atomic_fetch_add(&page->requests, count);
    atomic_fetch_add(&page->request_times[bucket], count);
    atomic_fetch_add(&page->beside_times[bucket], are_alone ? 0 : count);
    for (uint32_t i = 0; are_alone && i < count; i++)
        atomic_store(&page->alone_ns[atomic_fetch_add(&page->alone, 1) % GS_TENANT_ALONE], (uint64_t)(ms * MS));
}

static int compare(const void *one, const void *other) {
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

struct literal_requests {
    double median_us, slow_us;
};

/* The longest without the slower half, and without the slowest hundredth: at least one is left out. Sorts them. */
static struct literal_requests literal_of(double *us, size_t count) {
    size_t half = 0, hundredth = 0;
    while (2 * half < count)
        half++;
    while (100 * hundredth < count)
        hundredth++;
    qsort(us, count, sizeof *us, compare);
    return count < 2 ? (struct literal_requests){0}
                     : (struct literal_requests){us[count - half - 1], us[count - hundredth - 1]};
}

static struct literal_requests draw_requests(gs_random *random, gs_tenant_page *page, size_t count, bool are_alone) {
    double *us = malloc(count * sizeof *us), most = (double)gs_random_from(random, 2000, 3900);
    for (size_t i = 0; i < count; i++) {
        double ms = (double)gs_random_from(random, 2000, (int64_t)most) / 1000;
        add_requests(page, ms, 1, are_alone);
        us[i] = (double)gs_tenant_bucket_ns(gs_tenant_bucket((uint64_t)(ms * MS))) / US;
    }
    size_t first = are_alone && count > GS_TENANT_ALONE ? count - GS_TENANT_ALONE : 0; /* the last ones count */
    struct literal_requests drawn = literal_of(us + first, count - first);
    free(us);
    return drawn;
}

/* Requests that were counted before are those beside another program. */
TEST(requests_are_compared_with_those_alone) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 36), 0);
    for (int i = 0; i < 100; i++) {
        gs_tenant_page *page = calloc(1, sizeof *page);
        uint32_t before[GS_TENANT_TIMES];
        draw_requests(&random, page, (size_t)gs_random_from(&random, 0, 300), false);
        gs_stretch_count(page, before);
        size_t alone = (size_t)gs_random_from(&random, 25, 100), beside = (size_t)gs_random_from(&random, 90, 400);
        struct literal_requests before_us = draw_requests(&random, page, alone, true),
                                after_us = draw_requests(&random, page, beside, false);
        double tolerated = (double)gs_random_from(&random, 0, 2) / 10, wanted = 0;
        if (alone < 30 || beside < 100)
            wanted = -1;
        else if (after_us.slow_us >= before_us.slow_us * (1 + tolerated) || tolerated <= 0)
            wanted = fmax(after_us.slow_us - before_us.slow_us, 0) / 2 +
                     fmax(after_us.median_us - before_us.median_us, 0) / 2;
        double found = gs_stretch_lost_us(page, before, tolerated);
        if (fabs(found - wanted) > 1e-6)
            fail_msg("case %d: %.17g, not %.17g", i, found, wanted);
        free(page);
    }
}

/* What loads a model are many short copies and some long ones. A pause of the host makes one request in a hundred slow.
 */
TEST(requests_that_load_a_model_do_not_count) {
    static const uint32_t before[GS_TENANT_TIMES] = {0};
    gs_tenant_page *page = calloc(1, sizeof *page);
    add_requests(page, 0.02, 300, true);
    add_requests(page, 50, 20, true);
    add_requests(page, 1, 29, true);
    add_requests(page, 1.5, 198, false);
    add_requests(page, 80, 2, false);
    assert_true(gs_stretch_lost_us(page, before, 0) < 0); /* 29 are too few */
    add_requests(page, 1, 1, true);
    assert_true(fabs(gs_stretch_lost_us(page, before, 0) - 491.520) < 1e-6);
    add_requests(page, 80, 20, false); /* that is no pause of the host */
    assert_true(gs_stretch_lost_us(page, before, 0) > 10000);
    free(page);
}

/* The first requests of a program are slow: the last 64 count. */
TEST(first_requests_do_not_count) {
    static const uint32_t before[GS_TENANT_TIMES] = {0};
    gs_tenant_page *page = calloc(1, sizeof *page);
    add_requests(page, 1.9, 200, true);
    add_requests(page, 1, 64, true);
    add_requests(page, 1.5, 100, false);
    assert_true(fabs(gs_stretch_lost_us(page, before, 0) - 491.520) < 1e-6);
    add_requests(page, 1.9, 4, true);
    assert_true(fabs(gs_stretch_lost_us(page, before, 0) - 491.520 / 2) < 1e-6); /* of the median only */
    free(page);
}

/* One pause of the host, alone or beside work, is no duration of requests: of 64 it is the slowest hundredth. */
TEST(the_slowest_request_alone_does_not_count) {
    static const uint32_t before[GS_TENANT_TIMES] = {0};
    gs_tenant_page *page = calloc(1, sizeof *page);
    add_requests(page, 1, 63, true);
    add_requests(page, 1.9, 1, true);
    add_requests(page, 1.5, 99, false);
    add_requests(page, 9, 1, false);
    assert_true(fabs(gs_stretch_lost_us(page, before, 0.2) - 491.520) < 1e-6);
    free(page);
}

/* A way by which one request in twenty is slow is better than one by which all are. */
TEST(the_median_counts_as_much_as_slow_requests) {
    static const uint32_t before[GS_TENANT_TIMES] = {0};
    gs_tenant_page *page = calloc(1, sizeof *page);
    add_requests(page, 1, 64, true);
    add_requests(page, 1, 95, false);
    add_requests(page, 1.5, 5, false);
    assert_true(fabs(gs_stretch_lost_us(page, before, 0.2) - 491.520 / 2) < 1e-6);
    free(page);
}

/* ---- which way is taken ---- */

TEST(the_way_with_which_requests_lose_less_is_taken) {
    static const struct {
        double mps_us, slices_us, kernels_us;
        bool has_mps;
        const char *why;
    } cases[] = {
        {-1, -1, 0, 1, "about 0.00 ms beside it under MPS (not measured), about 0.15 ms by time slices (not measured)"},
        {0, -1, 5000, 1, "0.00 ms beside it under MPS, about 0.15 ms by time slices (not measured)"},
        {-1, -1, 166, 1, NULL}, /* what can be lost to its kernels */
        {-1, -1, 168, 0,
         "about 0.17 ms beside it under MPS (not measured), about 0.15 ms by time slices (not measured)"},
        {166, -1, 0, 1, NULL}, /* time slices cost one switch */
        {168, -1, 0, 0, NULL},
        {166, -1, 5000, 1, NULL}, /* what was measured counts, if anything was */
        {2010, -1, 0, 0, "2.01 ms beside it under MPS, about 0.15 ms by time slices (not measured)"},
        {90, 240, 0, 1, "0.09 ms beside it under MPS, 0.24 ms by time slices"},
        {2800, 1800, 0, 0, "2.80 ms beside it under MPS, 1.80 ms by time slices"},
        {1000, 910, 0, 1, NULL}, /* it must be better by a tenth, because MPS keeps more work */
        {1000, 890, 0, 0, NULL},
        {0, 0, 0, 1, NULL},
        {-1, 300, 1000, 0, NULL},
        {-1, 950, 1000, 1, NULL},
    };
    char why[GS_TENANT_REASON];
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_command_profile command = GS_UNKNOWN_COMMAND(1);
        command.kernels_us = cases[i].kernels_us;
        command.lost_us[MPS] = cases[i].mps_us;
        command.lost_us[NO_MPS] = cases[i].slices_us;
        gs_choice_why(&command, why, sizeof why);
        if (gs_choice_has_mps(&command) != cases[i].has_mps)
            fail_msg("case %zu: %s", i, why);
        if (cases[i].why && strcmp(why + strlen("requests lose "), cases[i].why) != 0)
            fail_msg("case %zu: %s", i, why);
        command.is_sliced = true;
        assert_false(gs_choice_has_mps(&command));
        gs_choice_why(&command, why, sizeof why);
        assert_string_equal(why, "as its neighbors do");
    }
}

/* ---- what is learned ---- */

static gs_tenants tenants;

static int begin(void **state) {
    gs_error error;
    (void)state;
    tenants = (gs_tenants){.profiles = gs_profile_store_open(NULL, "any", 4, &error)};
    return tenants.profiles ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    gs_tenants_close(&tenants);
    gs_profile_store_close(tenants.profiles);
    return 0;
}

/* As if nothing had been learned. */
static void begin_again(void) {
    end(NULL);
    begin(NULL);
}

static gs_tenant *start(uint64_t command, bool is_latency, bool has_mps) {
    gs_tenant_options options = {.weight = 100, .command = command, .has_mps = has_mps, .is_latency = is_latency};
    gs_error error;
    int fd;
    gs_tenant *tenant = gs_tenant_open(&tenants, &options, &fd, &error);
    assert_non_null(tenant);
    close(fd);
    return tenant;
}

enum { SERVER = 1, WORK = 2, OTHER = 3, WORK_MS = 150 };

/* A server that was alone for some time: its requests take 2 ms. */
static gs_tenant *start_server(bool has_mps) {
    gs_tenant *server = start(SERVER, true, has_mps);
    add_requests(server->page, 2, 40, true);
    return server;
}

/* A best-effort program that has worked. */
static gs_tenant *start_work(uint64_t command, bool has_mps) {
    gs_tenant *work = start(command, false, has_mps);
    atomic_store(&work->page->work_ns, WORK_MS * MS);
    return work;
}

/* One that works while requests take this long; then it ends. */
static void work_beside(gs_tenant *server, bool has_mps, double ms, uint32_t requests) {
    gs_tenant *work = start_work(WORK, has_mps);
    add_requests(server->page, ms, requests, false);
    gs_tenant_close(work);
}

static const double *lost(void) {
    const gs_command_profile *command = gs_profile_store_command(tenants.profiles, WORK);
    assert_non_null(command);
    return command->lost_us;
}

static bool has_mps_next(uint64_t key) {
    const gs_command_profile *command = gs_profile_store_command(tenants.profiles, key);
    assert_non_null(command);
    return gs_choice_has_mps(command);
}

static bool is_about(double us, double wanted) {
    return fabs(us - wanted) <= 0.04 * wanted;
}

/* Time slices turn out to be better or worse than MPS. */
TEST_WITH(the_second_way_is_kept_if_it_was_better, begin, end) {
    for (int is_better = 0; is_better < 2; is_better++) {
        gs_tenant *server = start_server(true);
        work_beside(server, true, 6, 110);
        assert_true(is_about(lost()[MPS], 4000) && lost()[NO_MPS] < 0);
        assert_false(has_mps_next(WORK));
        work_beside(server, false, is_better ? 3 : 7, 110);
        assert_true(is_about(lost()[NO_MPS], is_better ? 1000 : 5000));
        assert_int_equal(has_mps_next(WORK), !is_better);
        begin_again();
    }
}

/* Requests whose p99 is a fifth longer or less under MPS lose nothing; time slices have no such allowance. */
TEST_WITH(a_fifth_longer_is_not_long, begin, end) {
    gs_tenant *server = start_server(true);
    work_beside(server, true, 2.35, 110);
    assert_true(lost()[MPS] == 0);
    work_beside(server, true, 2.5, 110);
    assert_true(lost()[MPS] > 0);
    work_beside(server, false, 2.35, 110);
    assert_true(lost()[NO_MPS] > 0);
}

/* A run of which nothing can be told: too few requests, no work, a server without MPS, another program beside it. */
TEST_WITH(runs_that_tell_nothing_are_not_learned, begin, end) {
    gs_tenant *server = start_server(true), *second;
    work_beside(server, true, 6, 99);
    assert_true(lost()[MPS] < 0);
    work_beside(server, true, 6, 99); /* each run by itself */
    assert_true(lost()[MPS] < 0);
    gs_tenant *idle = start(WORK, false, true);
    add_requests(server->page, 6, 110, false);
    gs_tenant_close(idle);
    assert_true(lost()[MPS] < 0);
    server->options.has_mps = false;
    work_beside(server, true, 6, 110);
    assert_true(lost()[MPS] < 0);
    work_beside(server, false, 3, 110); /* that are time slices, as they will be */
    assert_true(is_about(lost()[NO_MPS], 1000));
    server->options.has_mps = true;
    second = start(OTHER, false, true);
    work_beside(server, true, 6, 110); /* the other one has not worked */
    assert_true(is_about(lost()[MPS], 4000));
    atomic_store(&second->page->work_ns, WORK_MS * MS);
    work_beside(server, true, 9, 110);
    assert_true(lost()[MPS] < 0 && lost()[NO_MPS] < 0); /* it begins again */
    gs_tenant_close(second);
    assert_true(gs_profile_store_command(tenants.profiles, OTHER)->lost_us[MPS] < 0);
}

/* How long its graphs take is not known. */
TEST_WITH(programs_of_new_graphs_are_learned, begin, end) {
    gs_tenant *server = start_server(true);
    for (int graphs = 99; graphs <= 100; graphs++) {
        gs_tenant *work = start(WORK, false, true);
        atomic_store(&work->page->graphs, (uint64_t)graphs);
        add_requests(server->page, 6, 110, false);
        gs_tenant_close(work);
        assert_int_equal(gs_profile_store_command(tenants.profiles, WORK) != NULL, graphs == 100);
    }
    assert_true(is_about(lost()[MPS], 4000));
}

/* Programs come and go beside a server that stays. Those that do not work change nothing. */
TEST_WITH(requests_of_earlier_programs_do_not_count, begin, end) {
    gs_tenant *server = start_server(true), *idle = start(OTHER, false, true);
    add_requests(server->page, 9, 300, false);
    work_beside(server, true, 3, 110);
    assert_true(is_about(lost()[MPS], 1000));
    gs_tenant *work = start_work(WORK, true);
    add_requests(server->page, 5, 110, false);
    gs_tenant_close(idle);
    idle = start(OTHER, false, true);
    gs_tenant_close(work);
    assert_true(is_about(lost()[MPS], 2000)); /* 1000 and 3000 */
    work = start_work(WORK, true);
    idle->options.command = 0;
    gs_tenant_close(idle);
    idle = start(OTHER, false, true); /* it comes beside one that works, and works when that one has gone */
    add_requests(server->page, 9, 300, false);
    gs_tenant_close(work);
    atomic_store(&idle->page->work_ns, WORK_MS * MS);
    add_requests(server->page, 3, 110, false);
    gs_tenant_close(idle);
    assert_true(is_about(gs_profile_store_command(tenants.profiles, OTHER)->lost_us[MPS], 1000));
}

/* A server that ends tells nothing of a program that has not worked yet. */
TEST_WITH(programs_that_did_not_work_yet_are_not_measured, begin, end) {
    gs_tenant *server = start_server(true), *idle = start(OTHER, false, true), *work = start_work(WORK, true);
    add_requests(server->page, 9, 300, false);
    gs_tenant_close(server);
    gs_tenant_close(work);
    server = start_server(true);
    atomic_store(&idle->page->work_ns, WORK_MS * MS);
    add_requests(server->page, 3, 110, false);
    gs_tenant_close(idle);
    assert_true(is_about(gs_profile_store_command(tenants.profiles, OTHER)->lost_us[MPS], 1000));
}

/* Where requests are not measured by time slices, MPS is tried again, too: if it was measured, and if it never was. */
TEST_WITH(ways_are_forgotten_also_if_nothing_is_measured, begin, end) {
    static const int runs[2] = {101, 57}; /* from 4 ms, or 1 ms, to 0.17 ms */
    for (int i = 0; i < 2; i++) {
        gs_tenant *server = start_server(true), *work = start_work(WORK, true);
        atomic_store(&work->page->late_ns, WORK_MS * MS / 2);
        atomic_store(&work->page->stop_ns, MS);
        add_requests(server->page, 6, i ? 1 : 110, false);
        gs_tenant_close(work);
        for (int run = 0; run < runs[i]; run++) {
            assert_false(has_mps_next(WORK));
            work_beside(server, false, 2, 1);
        }
        assert_true(has_mps_next(WORK));
        begin_again();
    }
}

/* Of two servers, the one that loses more. */
TEST_WITH(all_servers_count, begin, end) {
    gs_tenant *servers[2] = {start_server(true), start_server(true)};
    for (int i = 0; i < 2; i++) {
        add_requests(servers[!i]->page, 3, 110, false);
        work_beside(servers[i], true, 5, 110);
        assert_true(is_about(lost()[MPS], 3000));
    }
    gs_tenant *work = start_work(OTHER, true);
    add_requests(servers[0]->page, 7, 110, false);
    gs_tenant_close(servers[0]); /* it ends first */
    gs_tenant_close(work);
    assert_true(is_about(gs_profile_store_command(tenants.profiles, OTHER)->lost_us[MPS], 5000));
}

/* The other way is tried again, the sooner the less it was worse. */
TEST_WITH(what_was_measured_is_forgotten_slowly, begin, end) {
    static const struct {
        double mps_ms, slices_ms;
        int runs; /* with the better way, until the other one is tried */
    } cases[] = {{6, 3.9, 20}, {12, 2.4, 98}, {2.5, 5, 60}};
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_tenant *server = start_server(true);
        work_beside(server, true, cases[i].mps_ms, 110);
        work_beside(server, false, cases[i].slices_ms, 110);
        bool has_mps = has_mps_next(WORK);
        int runs = 0;
        while (runs < 200 && has_mps_next(WORK) == has_mps) {
            work_beside(server, has_mps, has_mps ? cases[i].mps_ms : cases[i].slices_ms, 110);
            runs++;
        }
        assert_int_equal(runs, cases[i].runs);
        begin_again();
    }
}

/* New measurements outweigh old ones. */
TEST_WITH(measurements_of_a_way_are_averaged, begin, end) {
    gs_tenant *server = start_server(true);
    work_beside(server, true, 6, 110);
    work_beside(server, true, 4, 110);
    assert_true(is_about(lost()[MPS], 3000));
    work_beside(server, true, 4, 110);
    assert_true(is_about(lost()[MPS], 2500));
}

/* A server that is started before its neighbor does as it. */
TEST_WITH(servers_do_as_their_neighbors_will, begin, end) {
    gs_tenant *server = start_server(true);
    work_beside(server, true, 6, 110);
    gs_tenant_close(server);
    assert_false(has_mps_next(SERVER));
    server = start_server(false);
    gs_tenant *work = start_work(WORK, false);
    add_requests(server->page, 9, 110, false);
    gs_tenant_close(server); /* before it, with what was measured so far */
    assert_true(has_mps_next(SERVER));
    gs_tenant_close(work);
    assert_true(has_mps_next(WORK));
}

TEST_MAIN(NULL, NULL)
