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

/* Of each duration a hundred, sorted: the mean of those from 95% to 99%. */
static double literal_slow_us(const double *us, size_t count) {
    double *all = malloc(100 * count * sizeof *all), sum = 0;
    for (size_t i = 0; i < 100 * count; i++)
        all[i] = us[i / 100];
    qsort(all, 100 * count, sizeof *all, compare);
    for (size_t i = 95 * count; i < 99 * count; i++)
        sum += all[i];
    free(all);
    return sum / (double)(4 * count);
}

static double draw_requests(gs_random *random, gs_tenant_page *page, size_t count, bool are_alone) {
    double *us = malloc(count * sizeof *us), most = (double)gs_random_from(random, 2000, 3900);
    for (size_t i = 0; i < count; i++) {
        double ms = (double)gs_random_from(random, 2000, (int64_t)most) / 1000;
        add_requests(page, ms, 1, are_alone);
        us[i] = (double)gs_tenant_bucket_ns(gs_tenant_bucket((uint64_t)(ms * MS))) / US;
    }
    size_t first = are_alone && count > GS_TENANT_ALONE ? count - GS_TENANT_ALONE : 0; /* the last ones count */
    double slow = literal_slow_us(us + first, count - first);
    free(us);
    return slow;
}

/* Requests that were counted before are those beside another program. */
TEST(slow_requests_are_compared_with_slow_ones_alone) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 36), 0);
    for (int i = 0; i < 100; i++) {
        gs_tenant_page *page = calloc(1, sizeof *page);
        uint32_t before[GS_TENANT_TIMES];
        draw_requests(&random, page, (size_t)gs_random_from(&random, 0, 300), false);
        gs_stretch_count(page, before);
        size_t alone = (size_t)gs_random_from(&random, 25, 100), beside = (size_t)gs_random_from(&random, 90, 400);
        double alone_us = draw_requests(&random, page, alone, true),
               lost_us = draw_requests(&random, page, beside, false) - alone_us;
        double tolerated = (double)gs_random_from(&random, 0, 2) / 10;
        double wanted = alone < 30 || beside < 100 ? -1 : lost_us > alone_us * tolerated ? lost_us : 0;
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
    assert_true(gs_stretch_lost_us(page, before, 0) == 0);
    free(page);
}

/* ---- which way is taken ---- */

TEST(the_way_with_which_requests_lose_less_is_taken) {
    static const struct {
        double mps_us, slices_us, kernels_us;
        bool have_many, has_mps;
        const char *why;
    } cases[] = {
        {-1, -1, 0, 0, 1,
         "about 0.00 ms beside it under MPS (not measured), about 0.20 ms by time slices (not measured)"},
        {0, -1, 5000, 0, 1, "0.00 ms beside it under MPS, about 0.20 ms by time slices (not measured)"},
        {-1, -1, 266, 0, 1, NULL}, /* what can be lost to its kernels */
        {-1, -1, 268, 0, 0,
         "about 0.27 ms beside it under MPS (not measured), about 0.20 ms by time slices (not measured)"},
        {-1, -1, 5000, 1, 0, NULL},
        {266, -1, 0, 0, 1, NULL}, /* time slices cost one switch */
        {268, -1, 0, 0, 0, NULL},
        {266, -1, 5000, 1, 1, NULL}, /* what was measured counts, if anything was */
        {2010, -1, 0, 1, 0, "2.01 ms beside it under MPS, about 0.20 ms by time slices (not measured)"},
        {90, 240, 0, 0, 1, "0.09 ms beside it under MPS, 0.24 ms by time slices"},
        {2800, 1800, 0, 1, 0, "2.80 ms beside it under MPS, 1.80 ms by time slices"},
        {1000, 760, 0, 0, 1, NULL}, /* it must be better by a quarter, because MPS keeps more work */
        {1000, 740, 0, 0, 0, NULL},
        {0, 0, 0, 0, 1, NULL},
        {-1, 300, 1000, 0, 0, NULL},
        {-1, 800, 1000, 0, 1, NULL},
    };
    char why[GS_TENANT_REASON];
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_command_profile command = GS_UNKNOWN_COMMAND(1);
        command.kernels_us = cases[i].kernels_us;
        command.lost_us[cases[i].have_many][MPS] = cases[i].mps_us;
        command.lost_us[cases[i].have_many][NO_MPS] = cases[i].slices_us;
        gs_choice_why(&command, cases[i].have_many, why, sizeof why);
        if (gs_choice_has_mps(&command, cases[i].have_many) != cases[i].has_mps)
            fail_msg("case %zu: %s", i, why);
        if (cases[i].why && strcmp(why + strlen("requests lose "), cases[i].why) != 0)
            fail_msg("case %zu: %s", i, why);
        command.is_sliced = true;
        assert_false(gs_choice_has_mps(&command, cases[i].have_many));
        gs_choice_why(&command, cases[i].have_many, why, sizeof why);
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
static gs_tenant *start_server(bool has_mps, bool have_many) {
    gs_tenant *server = start(SERVER, true, has_mps);
    add_requests(server->page, 2, 40, true);
    atomic_store(&server->page->eager_permille, have_many ? 1000 : 0);
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

static const double *lost(bool have_many) {
    const gs_command_profile *command = gs_profile_store_command(tenants.profiles, WORK);
    assert_non_null(command);
    return command->lost_us[have_many];
}

static bool has_mps_next(uint64_t key, bool have_many) {
    const gs_command_profile *command = gs_profile_store_command(tenants.profiles, key);
    assert_non_null(command);
    return gs_choice_has_mps(command, have_many);
}

static bool is_about(double us, double wanted) {
    return fabs(us - wanted) <= 0.04 * wanted;
}

/* Time slices turn out to be better or worse than MPS, for requests of each kind. What is known of one kind says
   nothing of the other. */
TEST_WITH(the_second_way_is_kept_if_it_was_better, begin, end) {
    for (int many = 0; many < 2; many++) {
        for (int is_better = 0; is_better < 2; is_better++) {
            gs_tenant *server = start_server(true, many);
            work_beside(server, true, 6, 110);
            assert_true(is_about(lost(many)[MPS], 4000));
            assert_true(lost(many)[NO_MPS] < 0 && lost(!many)[MPS] < 0);
            assert_false(has_mps_next(WORK, many));
            assert_true(has_mps_next(WORK, !many));
            work_beside(server, false, is_better ? 3 : 7, 110);
            assert_true(is_about(lost(many)[NO_MPS], is_better ? 1000 : 5000));
            assert_int_equal(has_mps_next(WORK, many), !is_better);
            begin_again();
        }
    }
}

/* Requests that take a tenth longer or less under MPS lose nothing; time slices have no such allowance. */
TEST_WITH(a_tenth_longer_is_not_long, begin, end) {
    gs_tenant *server = start_server(true, false);
    work_beside(server, true, 2.15, 110);
    assert_true(lost(false)[MPS] == 0);
    work_beside(server, true, 2.3, 110);
    assert_true(lost(false)[MPS] > 0);
    work_beside(server, false, 2.15, 110);
    assert_true(lost(false)[NO_MPS] > 0);
}

/* A run of which nothing can be told: too few requests, no work, a server without MPS, another program beside it. */
TEST_WITH(runs_that_tell_nothing_are_not_learned, begin, end) {
    gs_tenant *server = start_server(true, false), *second;
    work_beside(server, true, 6, 99);
    assert_true(lost(false)[MPS] < 0);
    work_beside(server, true, 6, 99); /* each run by itself */
    assert_true(lost(false)[MPS] < 0);
    gs_tenant *idle = start(WORK, false, true);
    add_requests(server->page, 6, 110, false);
    gs_tenant_close(idle);
    assert_true(lost(false)[MPS] < 0);
    server->options.has_mps = false;
    work_beside(server, true, 6, 110);
    assert_true(lost(false)[MPS] < 0);
    work_beside(server, false, 3, 110); /* that are time slices, as they will be */
    assert_true(is_about(lost(false)[NO_MPS], 1000));
    server->options.has_mps = true;
    second = start(OTHER, false, true);
    work_beside(server, true, 6, 110); /* the other one has not worked */
    assert_true(is_about(lost(false)[MPS], 4000));
    atomic_store(&second->page->work_ns, WORK_MS * MS);
    work_beside(server, true, 9, 110);
    assert_true(lost(false)[MPS] < 0 && lost(false)[NO_MPS] < 0); /* it begins again */
    gs_tenant_close(second);
    assert_true(gs_profile_store_command(tenants.profiles, OTHER)->lost_us[false][MPS] < 0);
}

/* How long its graphs take is not known. */
TEST_WITH(programs_of_new_graphs_are_learned, begin, end) {
    gs_tenant *server = start_server(true, false);
    for (int graphs = 99; graphs <= 100; graphs++) {
        gs_tenant *work = start(WORK, false, true);
        atomic_store(&work->page->graphs, (uint64_t)graphs);
        add_requests(server->page, 6, 110, false);
        gs_tenant_close(work);
        assert_int_equal(gs_profile_store_command(tenants.profiles, WORK) != NULL, graphs == 100);
    }
    assert_true(is_about(lost(false)[MPS], 4000));
}

/* Programs come and go beside a server that stays. Those that do not work change nothing. */
TEST_WITH(requests_of_earlier_programs_do_not_count, begin, end) {
    gs_tenant *server = start_server(true, false), *idle = start(OTHER, false, true);
    add_requests(server->page, 9, 300, false);
    work_beside(server, true, 3, 110);
    assert_true(is_about(lost(false)[MPS], 1000));
    gs_tenant *work = start_work(WORK, true);
    add_requests(server->page, 5, 110, false);
    gs_tenant_close(idle);
    idle = start(OTHER, false, true);
    gs_tenant_close(work);
    assert_true(is_about(lost(false)[MPS], 2000)); /* 1000 and 3000 */
    work = start_work(WORK, true);
    idle->options.command = 0;
    gs_tenant_close(idle);
    idle = start(OTHER, false, true); /* it comes beside one that works, and works when that one has gone */
    add_requests(server->page, 9, 300, false);
    gs_tenant_close(work);
    atomic_store(&idle->page->work_ns, WORK_MS * MS);
    add_requests(server->page, 3, 110, false);
    gs_tenant_close(idle);
    assert_true(is_about(gs_profile_store_command(tenants.profiles, OTHER)->lost_us[false][MPS], 1000));
}

/* A server that ends tells nothing of a program that has not worked yet. */
TEST_WITH(programs_that_did_not_work_yet_are_not_measured, begin, end) {
    gs_tenant *server = start_server(true, false), *idle = start(OTHER, false, true), *work = start_work(WORK, true);
    add_requests(server->page, 9, 300, false);
    gs_tenant_close(server);
    gs_tenant_close(work);
    server = start_server(true, false);
    atomic_store(&idle->page->work_ns, WORK_MS * MS);
    add_requests(server->page, 3, 110, false);
    gs_tenant_close(idle);
    assert_true(is_about(gs_profile_store_command(tenants.profiles, OTHER)->lost_us[false][MPS], 1000));
}

/* Where requests are not measured by time slices, MPS is tried again, too: if it was measured, and if it never was. */
TEST_WITH(ways_are_forgotten_also_if_nothing_is_measured, begin, end) {
    static const int runs[2] = {86, 42}; /* from 4 ms, or 1 ms, to 0.27 ms */
    for (int i = 0; i < 2; i++) {
        gs_tenant *server = start_server(true, false), *work = start_work(WORK, true);
        atomic_store(&work->page->late_ns, WORK_MS * MS / 2);
        atomic_store(&work->page->stop_ns, MS);
        add_requests(server->page, 6, i ? 1 : 110, false);
        gs_tenant_close(work);
        for (int run = 0; run < runs[i]; run++) {
            assert_false(has_mps_next(WORK, false));
            work_beside(server, false, 2, 1);
        }
        assert_true(has_mps_next(WORK, false));
        begin_again();
    }
}

/* Of two servers, the one that loses more. */
TEST_WITH(all_servers_count, begin, end) {
    gs_tenant *servers[2] = {start_server(true, false), start_server(true, false)};
    for (int i = 0; i < 2; i++) {
        add_requests(servers[!i]->page, 3, 110, false);
        work_beside(servers[i], true, 5, 110);
        assert_true(is_about(lost(false)[MPS], 3000));
    }
    gs_tenant *work = start_work(OTHER, true);
    add_requests(servers[0]->page, 7, 110, false);
    gs_tenant_close(servers[0]); /* it ends first */
    gs_tenant_close(work);
    assert_true(is_about(gs_profile_store_command(tenants.profiles, OTHER)->lost_us[false][MPS], 5000));
}

/* The other way is tried again, the sooner the less it was worse. */
TEST_WITH(what_was_measured_is_forgotten_slowly, begin, end) {
    static const struct {
        double mps_ms, slices_ms;
        int runs; /* with the better way, until the other one is tried */
    } cases[] = {{6, 3.9, 14}, {12, 2.4, 92}, {2.3, 5, 80}};
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_tenant *server = start_server(true, false);
        work_beside(server, true, cases[i].mps_ms, 110);
        work_beside(server, false, cases[i].slices_ms, 110);
        bool has_mps = has_mps_next(WORK, false);
        int runs = 0;
        while (runs < 200 && has_mps_next(WORK, false) == has_mps) {
            work_beside(server, has_mps, has_mps ? cases[i].mps_ms : cases[i].slices_ms, 110);
            runs++;
        }
        assert_int_equal(runs, cases[i].runs);
        begin_again();
    }
}

/* New measurements outweigh old ones. */
TEST_WITH(measurements_of_a_way_are_averaged, begin, end) {
    gs_tenant *server = start_server(true, false);
    work_beside(server, true, 6, 110);
    work_beside(server, true, 4, 110);
    assert_true(is_about(lost(false)[MPS], 3000));
    work_beside(server, true, 4, 110);
    assert_true(is_about(lost(false)[MPS], 2500));
}

/* A server that is started before its neighbor does as it. */
TEST_WITH(servers_do_as_their_neighbors_will, begin, end) {
    gs_tenant *server = start_server(true, false);
    work_beside(server, true, 6, 110);
    gs_tenant_close(server);
    assert_false(has_mps_next(SERVER, false));
    server = start_server(false, false);
    gs_tenant *work = start_work(WORK, false);
    add_requests(server->page, 9, 110, false);
    gs_tenant_close(server); /* before it, with what was measured so far */
    assert_true(has_mps_next(SERVER, false));
    gs_tenant_close(work);
    assert_true(has_mps_next(WORK, false));
}

TEST_MAIN(NULL, NULL)
