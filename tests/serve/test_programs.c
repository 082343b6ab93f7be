/*
 * test_programs.c: what the daemon says of the programs of `gridsmith run`, and what it writes to their board.
 *
 * What it says of random programs is compared with tests/serve/programs.txt, a number for each case. A change of that
 * text should be one that was meant: with GRIDSMITH_WRITE=1 the file is written anew.
 */
#include "test.h"

#include "sharing/serve/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gs_tenant *open_program(gs_tenants *tenants, const char *name, bool is_latency, uint32_t weight) {
    gs_tenant_options options = {.process = 40 + (int32_t)tenants->opened, .weight = weight, .is_latency = is_latency};
    snprintf(options.name, sizeof options.name, "%s", name);
    gs_error error;
    int fd;
    gs_tenant *tenant = gs_tenant_open(tenants, &options, &fd, &error);
    if (tenant)
        close(fd);
    else
        assert_int_equal(error.code, GS_E_FULL);
    return tenant;
}

static void expect_board(const gs_tenants *tenants, uint32_t latency, uint32_t best_effort, uint32_t weights) {
    assert_int_equal(atomic_load(&tenants->groups->notice->latency), latency);
    assert_int_equal(atomic_load(&tenants->groups->notice->best_effort), best_effort);
    assert_int_equal(atomic_load(&tenants->groups->notice->weights), weights);
}

TEST(the_board_counts_programs) {
    gs_tenants tenants = {0};
    gs_tenant *server = open_program(&tenants, "server", true, 100);
    expect_board(&tenants, 1, 0, 0);
    gs_tenant *one = open_program(&tenants, "one", false, 100);
    expect_board(&tenants, 1, 1, 100);
    gs_tenant *two = open_program(&tenants, "two", false, 100);
    expect_board(&tenants, 1, 2, 200);
    gs_tenant *light = open_program(&tenants, "light", false, 50);
    expect_board(&tenants, 1, 3, 250);
    gs_tenant_close(one);
    expect_board(&tenants, 1, 2, 150);
    gs_tenant_close(two);
    expect_board(&tenants, 1, 1, 50);
    gs_tenant_close(server);
    expect_board(&tenants, 0, 1, 50);
    gs_tenant_close(light);
    assert_null(tenants.groups);
    assert_null(tenants.first);
}

/* Each class has 32 slots. Without one, a latency program is refused, and a best-effort program runs. */
TEST(programs_have_slots_of_their_own) {
    gs_tenants tenants = {0};
    gs_tenant *programs[2][GS_BOARD_SLOTS + 1];
    for (int is_latency = 0; is_latency < 2; is_latency++) {
        for (uint32_t i = 0; i < GS_BOARD_SLOTS; i++) {
            programs[is_latency][i] = open_program(&tenants, "k", is_latency, 100);
            assert_int_equal(programs[is_latency][i]->slot, i);
            assert_int_equal(programs[is_latency][i]->page->slot, i);
        }
        programs[is_latency][GS_BOARD_SLOTS] = open_program(&tenants, "k", is_latency, 100);
    }
    assert_null(programs[1][GS_BOARD_SLOTS]);
    assert_int_equal(programs[0][GS_BOARD_SLOTS]->slot, GS_BOARD_SLOTS);
    expect_board(&tenants, GS_BOARD_SLOTS, GS_BOARD_SLOTS + 1, 100 * (GS_BOARD_SLOTS + 1));
    gs_tenant_close(programs[0][GS_BOARD_SLOTS]);
    /* the slot of one that has ended is given again; nothing of it is left */
    gs_board *board = tenants.groups->board;
    for (uint32_t i = 4; i < 6; i++) {
        gs_board_raise(board, 1u << i);
        atomic_store(&board->slots[i].since_ns, 9);
        atomic_store(&board->shares[i].busy_until_ns, 9);
        atomic_store(&board->shares[i].expires_ns, 9);
        atomic_store(&board->shares[i].done[3], 9);
    }
    gs_tenant_close(programs[1][5]);
    assert_int_equal(atomic_load(&board->flags), 1u << 4);
    assert_true(!atomic_load(&board->slots[5].since_ns) && atomic_load(&board->slots[4].since_ns) == 9);
    assert_int_equal(atomic_load(&board->shares[5].busy_until_ns), 9);
    gs_tenant_close(programs[0][5]);
    assert_int_equal(atomic_load(&board->shares[5].busy_until_ns), 0);
    assert_int_equal(atomic_load(&board->shares[5].expires_ns), 0);
    assert_int_equal(atomic_load(&board->shares[5].done[3]), 0); /* the next program begins there */
    assert_int_equal(atomic_load(&board->shares[4].busy_until_ns), 9);
    assert_int_equal(open_program(&tenants, "k", true, 100)->slot, 5);
    assert_null(open_program(&tenants, "k", true, 100));
    assert_int_equal(open_program(&tenants, "k", false, 100)->slot, 5);
    gs_tenants_close(&tenants);
    assert_null(tenants.groups);
}

/* Programs of different GPUs do not see each other. */
TEST(each_gpu_has_a_board) {
    gs_tenants tenants = {0};
    gs_error error;
    gs_tenant *programs[66];
    int fd;
    for (size_t i = 0; i < 66; i++) {
        gs_tenant_options options = {.process = 40 + (int32_t)i, .weight = 100, .is_latency = i < 2};
        options.gpu[7] = (unsigned char)(i % 65);
        programs[i] = gs_tenant_open(&tenants, &options, &fd, &error);
        assert_true((programs[i] != NULL) == (i != 64)); /* 64 GPUs are served */
        if (programs[i])
            close(fd);
    }
    assert_string_equal(error.message, "a daemon serves programs of at most 64 GPUs");
    assert_ptr_equal(programs[0]->group, programs[65]->group);
    assert_ptr_not_equal(programs[0]->group, programs[1]->group);
    assert_int_equal(programs[0]->slot + programs[1]->slot, 0);
    const gs_notice *notice = programs[0]->group->notice, *other = programs[1]->group->notice;
    assert_int_equal(atomic_load(&notice->latency) * 10 + atomic_load(&notice->best_effort), 11);
    assert_int_equal(atomic_load(&other->latency) * 10 + atomic_load(&other->best_effort), 10);
    gs_tenant_close(programs[0]);
    assert_int_equal(atomic_load(&notice->latency) * 10 + atomic_load(&notice->best_effort), 1);
    gs_tenants_close(&tenants);
    assert_null(tenants.groups);
}

/* A latency program with 1,000 recent requests, which are in both windows: 500 of a millisecond, 490 of two, 9 of eight
 * and one of 60. */
static void fill_page(gs_tenant_page *page) {
    static const struct {
        uint32_t count;
        uint64_t ms;
    } times[] = {{500, 1}, {490, 2}, {9, 8}, {1, 60}};
    for (size_t i = 0; i < GS_COUNT(times); i++) {
        unsigned bucket = gs_tenant_bucket(times[i].ms * 1000000);
        atomic_store(&page->request_times[bucket], times[i].count);
        atomic_store(&page->recent_times[i % GS_TENANT_WINDOWS][bucket], times[i].count);
    }
    atomic_fetch_add(&page->request_times[GS_TENANT_TIMES - 1], 200); /* warm-up, not among the recent ones */
    atomic_store(&page->requests, 1200);
    atomic_store(&page->announced, 7);
    atomic_store(&page->keepers, 3);
    atomic_store(&page->eager_permille, 625);
    atomic_store(&page->request_ns, 1612000000);
    atomic_store(&page->launches, 5);
    atomic_store(&page->copies, 3);
    atomic_store(&page->memory_limit, 4096);
}

/* Times are those of their bucket: at most a 32nd longer. */
TEST(reports_tell_of_programs) {
    gs_tenants tenants = {0};
    gs_text text = {0};
    gs_tenants_metrics(&tenants, &text);
    assert_int_equal(text.count, 0);
    gs_tenant *server = open_program(&tenants, "server", true, 100),
              *batch = open_program(&tenants, "batch", false, 30);
    fill_page(server->page);
    server->options.deadline_us = 5000;
    server->opened_ns = 11, batch->opened_ns = 12;
    atomic_store(&tenants.groups->board->slots[0].since_ns, 1);
    gs_tenant_page *page = batch->page;
    _Atomic uint64_t *counts[] = {&page->graphs,      &page->waits,    &page->work_ns,      &page->longest_ns,
                                  &page->share_waits, &page->slice_us, &page->memory_bytes, &page->is_ungated};
    for (size_t i = 0; i < GS_COUNT(counts); i++)
        atomic_store(counts[i], (i + 1) * 1000);
    atomic_store(&page->copies, UINT64_MAX); /* a program may write anything */
    snprintf(page->kernels[1].name, GS_TENANT_NAME, "_Z4gemmPf");
    atomic_store(&page->kernels[1].ns, 2500);
    snprintf(page->kernels[3].name, GS_TENANT_NAME, "a\nb");
    atomic_store(&page->kernels[3].ns, 100);
    gs_writer writer = gs_writer_to(&text);
    gs_write_object(&writer, NULL);
    gs_tenants_json(&tenants, &writer);
    gs_write_end(&writer);
    assert_string_equal(
        text.data,
        "{\"programs\":[{\"name\":\"batch\",\"process\":41,\"opened_ns\":12,\"gpu\":"
        "\"00000000000000000000000000000000\",\"class\":\"best-effort\",\"sharing\":"
        "\"time slices\",\"weight\":30,"
        "\"most_percent\":0,"
        "\"has_work\":false,\"is_ungated\":true,\"launches\":0,\"graphs\":1000,\"copies\":9223372036854775807,"
        "\"waits\":2000,\"work_ns\":3000,\"late_ns\":0,\"longest_us\":4.0,\"stop_us\":0.0,\"share_waits\":5000,"
        "\"memory_waits\":0,"
        "\"guarded\":0,\"guarded_"
        "kernels\":0,"
        "\"unguarded_kernels\":0,\"slice_us\":6000,"
        "\"long_kernels\":[{\"name\":\"gemm\",\"us\":2.5},{\"name\":\"a?b\",\"us\":0.1}],\"memory_bytes\":7000,"
        "\"memory_limit_bytes\":0},{\"name\":\"server\",\"process\":40,\"opened_ns\":11,\"gpu\":"
        "\"00000000000000000000000000000000\",\"class\":\"latency\","
        "\"sharing\":\"time slices\","
        "\"weight\":100,\"most_percent\":0,\"has_work\":true,\"is_ungated\":false,\"launches\":5,\"graphs\":0,"
        "\"copies\":3,\"waits\":0,"
        "\"work_ns\":0,\"late_ns\":0,\"longest_us\":0.0,\"stop_us\":0.0,\"share_waits\":0,\"memory_waits\":0,"
        "\"guarded\":0,\"guarded_"
        "kernels\":0,"
        "\"unguarded_kernels\":"
        "0,\"slice_us\":0,\"long_kernels\":[],\"memory_bytes\":0,"
        "\"memory_limit_bytes\":4096,\"requests\":{\"count\":1200,\"announced\":7,\"held\":0,\"keepers\":3,"
        "\"eager_percent\":62.5,"
        "\"mean_us\":1343.3,"
        "\"p50_us\":1015.8,\"p99_us\":2031.6,\"p999_us\":8126.5,\"deadline_us\":5000,\"late\":210}}],\"commands\":[]}");
    gs_text_clear(&text);
    gs_tenants_metrics(&tenants, &text);
    static const char *const lines[] = {
        "gridsmith_program_work_seconds_total{class=\"best-effort\",process=\"41\",number=\"2\"} "
        "3.0000000000000001e-06",
        "gridsmith_program_launches_total{class=\"latency\",process=\"40\",number=\"1\"} 5",
        "gridsmith_program_request_seconds{class=\"latency\",process=\"40\",number=\"1\",quantile=\"0.5\"} 0.001015807",
        "gridsmith_program_request_seconds{class=\"latency\",process=\"40\",number=\"1\",quantile=\"0.99\"} "
        "0.002031615",
        "gridsmith_program_request_seconds{class=\"latency\",process=\"40\",number=\"1\",quantile=\"0.999\"} "
        "0.008126463",
        "gridsmith_program_request_seconds_sum{class=\"latency\",process=\"40\",number=\"1\"} 1.6120000000000001",
        "gridsmith_program_request_seconds_count{class=\"latency\",process=\"40\",number=\"1\"} 1200",
    };
    for (size_t i = 0; i < GS_COUNT(lines); i++)
        if (!strstr(text.data, lines[i]))
            fail_msg("%s\nis not in\n%s", lines[i], text.data);
    assert_null(strstr(text.data, "request_seconds{class=\"best-effort\""));
    gs_text_free(&text);
    gs_tenants_close(&tenants);
}

/* A program may fill its page to the last byte: all but that are shown. */
TEST(texts_of_a_page_have_an_end) {
    gs_tenants tenants = {0};
    gs_text found = {0}, wanted = {0};
    gs_tenant_kernel *kernel = &open_program(&tenants, "batch", false, 30)->page->kernels[0];
    memset(kernel->name, 'n', sizeof kernel->name);
    memset(kernel->reason, 'r', sizeof kernel->reason);
    atomic_store(&kernel->ns, 1000);
    gs_writer writer = gs_writer_to(&found);
    gs_write_object(&writer, NULL);
    gs_tenants_json(&tenants, &writer);
    gs_write_end(&writer);
    gs_text_add(&wanted, "{\"name\":\"%.*s\",\"us\":1.0,\"why\":\"%.*s\"}", GS_TENANT_NAME - 1, kernel->name,
                GS_TENANT_REASON - 1, kernel->reason);
    if (!strstr(found.data, wanted.data))
        fail_msg("%s\nis not in\n%s", wanted.data, found.data);
    gs_text_free(&found);
    gs_text_free(&wanted);
    gs_tenants_close(&tenants);
}

static int compare_times(const void *one, const void *two) {
    return GS_COMPARE(*(const uint64_t *)one, *(const uint64_t *)two);
}

/* That of the request below which so many are, as the longest time of its bucket. */
static double percentile_us(const uint64_t *sorted, size_t count, double percent) {
    size_t rank = (size_t)ceil((double)count * percent / 100 - 1e-9);
    return (double)gs_tenant_bucket_ns(gs_tenant_bucket(sorted[rank - 1])) / 1e3;
}

/* Requests that take nanoseconds, or hours, count too. */
TEST(percentiles_are_those_of_the_requests) {
    enum { MOST = 300, DEADLINE_US = 5000 };
    for (uint64_t index = 0; index < 300; index++) {
        gs_random random = gs_random_at(14, index);
        gs_tenants tenants = {0};
        gs_tenant *server = open_program(&tenants, "server", true, 100);
        uint64_t times[MOST], late = 0;
        size_t count = (size_t)gs_random_from(&random, 1, MOST);
        int64_t longest = (int64_t)1 << gs_random_from(&random, 1, 45);
        server->options.deadline_us = DEADLINE_US;
        for (size_t i = 0; i < count; i++) {
            times[i] = (uint64_t)gs_random_from(&random, 0, longest);
            atomic_fetch_add(&server->page->request_times[gs_tenant_bucket(times[i])], 1);
            atomic_fetch_add(&server->page->recent_times[i % GS_TENANT_WINDOWS][gs_tenant_bucket(times[i])], 1);
            late += gs_tenant_bucket(times[i]) > gs_tenant_bucket(DEADLINE_US * 1000);
        }
        qsort(times, count, sizeof times[0], compare_times);
        gs_text found = {0}, wanted = {0};
        gs_writer writer = gs_writer_to(&found);
        gs_write_object(&writer, NULL);
        gs_tenants_json(&tenants, &writer);
        gs_write_end(&writer);
        gs_text_add(&wanted, "\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"deadline_us\":%d,\"late\":%llu}",
                    percentile_us(times, count, 50), percentile_us(times, count, 99), percentile_us(times, count, 99.9),
                    DEADLINE_US, (unsigned long long)late);
        if (!strstr(found.data, wanted.data))
            fail_msg("%s\nis not in\n%s", wanted.data, found.data);
        gs_text_free(&found);
        gs_text_free(&wanted);
        gs_tenants_close(&tenants);
    }
}

/* ---- random programs ---- */

/* A number of any size, also one that is larger than JSON readers accept. */
static uint64_t any_number(gs_random *random) {
    return gs_random_next(random) >> gs_random_from(random, 0, 63);
}

/* Text that fills `size` bytes, or a name of C++. */
static void any_text(gs_random *random, char *text, size_t size) {
    static const char *const names[] = {"", "plain", "_Z6kernelIfLi3EEvPT_i", "a \"b\"\\", "tab\tand\x01"};
    int64_t which = gs_random_from(random, 0, GS_COUNT(names));
    if (which == GS_COUNT(names))
        memset(text, 'x', size);
    else
        snprintf(text, size, "%s", names[which]);
}

static void write_any_page(gs_random *random, gs_tenant_page *page) {
    _Atomic uint64_t *const numbers[] = {
        &page->launches,          &page->graphs,         &page->copies,       &page->waits,
        &page->work_ns,           &page->late_ns,        &page->memory_bytes, &page->is_ungated,
        &page->longest_ns,        &page->stop_ns,        &page->memory_limit, &page->share_waits,
        &page->memory_waits,      &page->slice_us,       &page->guarded,      &page->guarded_kernels,
        &page->unguarded_kernels, &page->requests,       &page->announced,    &page->held,
        &page->request_ns,        &page->eager_permille, &page->keepers};
    for (size_t i = 0; i < GS_COUNT(numbers); i++)
        atomic_store(numbers[i], gs_random_from(random, 0, 4) ? any_number(random) : 0);
    any_text(random, page->why, sizeof page->why);
    for (int i = 0; i < GS_TENANT_KERNELS; i++) {
        atomic_store(&page->kernels[i].ns, gs_random_from(random, 0, 2) ? any_number(random) : 0);
        any_text(random, page->kernels[i].name, sizeof page->kernels[i].name);
        any_text(random, page->kernels[i].reason, sizeof page->kernels[i].reason);
    }
    for (int64_t i = gs_random_from(random, 0, 50); i > 0; i--) {
        int64_t time = gs_random_from(random, 0, GS_TENANT_TIMES - 1);
        uint32_t count = (uint32_t)gs_random_from(random, 1, 1000);
        atomic_fetch_add(&page->request_times[time], count);
        atomic_fetch_add(&page->beside_times[time], count / 2);
        atomic_store(&page->alone_ns[atomic_fetch_add(&page->alone, 1) % GS_TENANT_ALONE],
                     gs_tenant_bucket_ns((unsigned)time));
        atomic_fetch_add(&page->recent_times[gs_random_from(random, 0, GS_TENANT_WINDOWS - 1)][time], count / 3);
    }
}

static void open_any_program(gs_random *random, gs_tenants *tenants, uint64_t number) {
    gs_tenant_options options = {.process = 1000 + (int32_t)number,
                                 .weight = (uint32_t)gs_random_from(random, 1, 1000),
                                 .most_percent = (uint32_t)gs_random_from(random, 0, 100),
                                 .deadline_us = (uint32_t)gs_random_from(random, 0, 1) * 5000,
                                 .command = (uint64_t)gs_random_from(random, 0, 3),
                                 .has_mps = gs_random_from(random, 0, 1),
                                 .is_latency = gs_random_from(random, 0, 1)};
    gs_error error;
    int fd;
    any_text(random, options.name, sizeof options.name - 1);
    for (int i = 0; i < GS_WIRE_GPU; i++)
        options.gpu[i] = (unsigned char)(gs_random_from(random, 0, 1) * i * 17);
    gs_tenant *tenant = gs_tenant_open(tenants, &options, &fd, &error);
    assert_non_null(tenant);
    close(fd);
    tenant->opened_ns = number * 1000000007;
    write_any_page(random, tenant->page);
    if (options.is_latency)
        atomic_store(&tenant->group->board->slots[tenant->slot].since_ns, (uint64_t)gs_random_from(random, 0, 1));
}

/* The status and the metrics, as a number. */
static uint64_t number_of_texts(const gs_tenants *tenants) {
    gs_text text = {0};
    gs_writer writer = gs_writer_to(&text);
    gs_write_object(&writer, NULL);
    gs_tenants_json(tenants, &writer);
    gs_write_end(&writer);
    gs_tenants_metrics(tenants, &text);
    uint64_t number = gs_hash(0, text.data, text.count);
    gs_text_free(&text);
    return number;
}

/* Some programs come, and some of them leave, so that something is known of their commands. */
static uint64_t play_programs(uint64_t index) {
    gs_random random = gs_random_at(37, index);
    gs_error error;
    gs_tenants tenants = {.profiles = gs_profile_store_open(NULL, "any", 4, &error)};
    assert_non_null(tenants.profiles);
    for (uint64_t i = 0; i < 8; i++)
        open_any_program(&random, &tenants, i);
    uint64_t number = number_of_texts(&tenants);
    for (int i = 0; i < 4; i++)
        gs_tenant_close(i % 2 ? tenants.first : tenants.first->next);
    number ^= 3 * number_of_texts(&tenants);
    gs_tenants_close(&tenants);
    number ^= 5 * number_of_texts(&tenants);
    gs_profile_store_close(tenants.profiles);
    return number;
}

TEST(random_programs_are_told_as_before) {
    enum { CASES = 60 };
    bool is_written = test_number("GRIDSMITH_WRITE", 0) != 0;
    FILE *file = fopen(test_path("tests/serve/programs.txt"), is_written ? "w" : "r");
    assert_non_null(file);
    for (uint64_t i = 0; i < CASES; i++) {
        unsigned long long wanted = 0, found = play_programs(i);
        if (is_written)
            fprintf(file, "%016llx\n", found);
        else
            assert_int_equal(fscanf(file, "%llx", &wanted), 1);
        if (!is_written && found != wanted)
            fail_msg("programs.txt:%d: the daemon says something else", (int)i + 1);
    }
    fclose(file);
}

TEST_MAIN(NULL, NULL)
