/*
 * test_quotas.c: the limits of src/sharing/serve/quotas.c, row by row, what is reserved for whom, and which processes
 * are a family.
 */
#define _GNU_SOURCE
#include "test.h"

#include "sharing/serve/server.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20 };
#define DEVICE_BYTES ((uint64_t)64 * MIB + 5)

/* The accounts of a client, from itself to all. */
struct accounts {
    gs_quotas quotas;
    gs_account chain[GS_ACCOUNTS];
};

static void open_accounts(struct accounts *accounts) {
    gs_quotas_open(&accounts->quotas, &(gs_quotas_options){0}, DEVICE_BYTES);
    for (int kind = 0; kind < GS_ACCOUNTS; kind++)
        accounts->chain[kind] = (gs_account){.kind = (enum gs_account_kind)kind,
                                             .above = kind < GS_ACCOUNT_ALL ? &accounts->chain[kind + 1] : NULL};
}

static uint64_t host_bytes(uint64_t eighths) {
    uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return bytes / 8 * eighths + bytes % 8 * eighths / 8;
}

static uint64_t descriptors(uint64_t eighths) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    uint64_t all = gs_min_u64(limit.rlim_cur, 1 << 20) - 40;
    return all / 8 * eighths + all % 8 * eighths / 8;
}

/* One more than the limit is refused, and the refusal names it. */
static void expect_limit(enum gs_quota quota, enum gs_account_kind kind, uint64_t limit, const char *words) {
    static const char *const holders[] = {"a client", "a process", "a family of processes", "a user",
                                          "all clients together"};
    struct accounts accounts;
    char message[GS_WIRE_MESSAGE], wanted[GS_WIRE_MESSAGE];
    open_accounts(&accounts);
    accounts.chain[kind].used[quota] = limit - 1;
    assert_true(gs_quotas_allow(&accounts.quotas, accounts.chain, quota, 1, message) || kind == GS_ACCOUNT_FAMILY);
    accounts.chain[kind].used[quota] = limit;
    assert_false(gs_quotas_allow(&accounts.quotas, accounts.chain, quota, 1, message));
    snprintf(wanted, sizeof wanted, "%s may have at most %llu %s: %llu are in use, 1 more were requested",
             holders[kind], (unsigned long long)limit, words, (unsigned long long)limit);
    assert_string_equal(message, wanted);
}

TEST(every_limit_holds_and_is_named) {
    const struct {
        enum gs_quota quota;
        const char *key, *words;
        uint64_t most[GS_ACCOUNTS];
    } rows[] = {
        {GS_QUOTA_CLIENTS, "clients", "clients", {1, 64, 1024, 1024, 1024}},
        {GS_QUOTA_MEMORY,
         "memory_bytes",
         "bytes of device memory",
         {DEVICE_BYTES * 7 / 8, DEVICE_BYTES * 7 / 8, DEVICE_BYTES, DEVICE_BYTES, DEVICE_BYTES}},
        {GS_QUOTA_ALLOCATIONS, "allocations", "allocations of device memory", {16384, 16384, 65536, 65536, 65536}},
        {GS_QUOTA_SHARED,
         "shared_bytes",
         "bytes of shared host memory",
         {host_bytes(4), host_bytes(4), host_bytes(7), host_bytes(7), host_bytes(7)}},
        {GS_QUOTA_REGIONS, "regions", "regions of shared host memory", {1023, 2048, 8192, 8192, 8192}},
        {GS_QUOTA_MODULES, "modules", "modules", {256, 256, 1024, 1024, 1024}},
        {GS_QUOTA_ACTIONS, "actions", "commands in progress", {512, 65536, 65536, 65536, 65536}},
        {GS_QUOTA_DESCRIPTORS,
         "descriptors",
         "descriptors of the daemon",
         {5, descriptors(4), descriptors(8), descriptors(8), descriptors(8)}},
    };
    assert_int_equal(GS_COUNT(rows), GS_QUOTAS);
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        assert_string_equal(gs_quota_key(rows[i].quota), rows[i].key);
        for (int kind = 0; kind < GS_ACCOUNTS; kind++)
            expect_limit(rows[i].quota, (enum gs_account_kind)kind, rows[i].most[kind], rows[i].words);
    }
}

/* How many clients there are when the next is refused. */
static uint64_t clients_until_refused(uint64_t of_process, uint64_t of_family) {
    struct accounts accounts;
    char message[GS_WIRE_MESSAGE];
    open_accounts(&accounts);
    accounts.chain[GS_ACCOUNT_PROCESS].used[GS_QUOTA_CLIENTS] = of_process;
    accounts.chain[GS_ACCOUNT_FAMILY].used[GS_QUOTA_CLIENTS] = of_family;
    uint64_t *all = &accounts.chain[GS_ACCOUNT_ALL].used[GS_QUOTA_CLIENTS];
    while (gs_quotas_allow(&accounts.quotas, accounts.chain, GS_QUOTA_CLIENTS, 1, message))
        ++*all;
    return *all;
}

TEST(something_is_left_for_those_who_have_little) {
    assert_int_equal(clients_until_refused(3, 63), 1024);
    assert_int_equal(clients_until_refused(3, 64), 960); /* one of a large family */
    assert_int_equal(clients_until_refused(4, 63), 896); /* a large process */
}

/* Accounts of processes live as long as somebody uses them, and hold those above them. */
TEST(accounts_are_shared_and_freed) {
    gs_quotas quotas;
    gs_quotas_open(&quotas, &(gs_quotas_options){0}, DEVICE_BYTES);
    gs_account *own = gs_account_take(&quotas, getpid(), getuid());
    gs_account *same = gs_account_take(&quotas, getpid(), getuid());
    gs_account *unknown = gs_account_take(&quotas, 0, getuid());
    assert_ptr_equal(own, same);
    assert_ptr_not_equal(own->above, unknown->above);
    assert_int_equal(unknown->above->id, 0);
    assert_ptr_equal(own->above->above, unknown->above->above);
    gs_account_leave(&quotas, own);
    gs_account_leave(&quotas, unknown);
    assert_int_equal(same->above->kind, GS_ACCOUNT_FAMILY);
    assert_int_equal(same->above->above->id, getuid());
    gs_account_leave(&quotas, same);
    assert_null(quotas.first);
}

/* ---- families ---- */

static char *proc;

static void write_process(int process, int parent, unsigned user, const char *control_group) {
    char path[200];
    snprintf(path, sizeof path, "%s/%d", proc, process);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/%d/status", proc, process);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "Name:\tan (odd) name\nState:\tS (sleeping)\nPid:\t%d\nPPid:\t%d\nUid:\t%u\t%u\t%u\t%u\n", process,
            parent, user, user, user, user);
    fclose(file);
    if (!control_group)
        return;
    snprintf(path, sizeof path, "%s/%d/cgroup", proc, process);
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%d::/%s\n", process % 2, control_group);
    fclose(file);
}

/* Nothing is known before. */
static int64_t family_of(int32_t process, uint32_t user) {
    gs_families families = {0};
    return gs_family_of(&families, proc, process, user);
}

/* A login of user 7: sshd (100, of root), its shell (101), what that started (102), its children (103, 104). Another
   login (201, 202). Processes whose parents have ended (301, 302), and one of another login (303). */
TEST(families_are_what_descends_from_one_process) {
    proc = gs_folder_make_in("/tmp", "gridsmith-family", NULL);
    assert_non_null(proc);
    write_process(100, 1, 0, "system");
    write_process(101, 100, 7, "one");
    write_process(102, 101, 7, "one");
    write_process(103, 102, 7, "one");
    write_process(104, 102, 7, "one");
    write_process(201, 100, 7, "two");
    write_process(202, 201, 7, "two");
    write_process(301, 1, 7, "one");
    write_process(302, 301, 7, "one");
    write_process(303, 1, 7, "two");
    write_process(304, 1, 7, "three");
    write_process(401, 402, 7, "circle");
    write_process(402, 401, 7, "circle");
    write_process(501, 1, 7, NULL); /* machines without control groups */
    write_process(502, 1, 7, NULL);
    assert_int_equal(family_of(103, 7), 101);
    assert_int_equal(family_of(104, 7), 101);
    assert_int_equal(family_of(101, 7), 101);
    assert_int_equal(family_of(202, 7), 201);
    assert_true(family_of(301, 7) < 0);
    assert_int_equal(family_of(302, 7), family_of(301, 7));
    assert_int_not_equal(family_of(303, 7), family_of(301, 7));
    assert_int_equal(family_of(999, 7), 0); /* it has ended */
    assert_int_equal(family_of(0, 7), 0);   /* of another PID namespace */
    assert_true(family_of(401, 7) < 0);
    int64_t without = family_of(501, 7);
    assert_true(without < 0);
    for (int32_t other = 301; other <= 304; other++) { /* whatever was read before */
        assert_int_not_equal(family_of(other, 7), without);
        assert_int_equal(family_of(501, 7), without);
        assert_int_not_equal(family_of(other, 7), without);
        assert_int_equal(family_of(502, 7), without);
    }
    gs_families families = {0}; /* what is known does not change an answer */
    for (int times = 0; times < 2; times++) {
        assert_int_equal(gs_family_of(&families, proc, 101, 7), 101);
        assert_int_equal(gs_family_of(&families, proc, 201, 7), 201); /* of the same parent, which is not of the user */
        assert_int_equal(gs_family_of(&families, proc, 103, 7), 101);
        assert_int_equal(gs_family_of(&families, proc, 104, 7), 101);
        assert_int_equal(gs_family_of(&families, proc, 303, 7), family_of(303, 7));
        assert_int_equal(gs_family_of(&families, proc, 301, 7), family_of(301, 7));
    }
    gs_folder_remove(proc);
    free(proc);
}

TEST(ended_processes_are_known) {
    siginfo_t info;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_true(child > 0);
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_true(gs_process_has_ended(child, 0)); /* it has not been waited for */
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(gs_process_has_ended(child, 0));
    assert_false(gs_process_has_ended(getpid(), gs_process_serial(getpid())));
    assert_false(gs_process_has_ended(0, 0));
}

/* An account of an earlier process with the id of this one. */
TEST(ids_of_ended_processes_can_be_used_again) {
    gs_quotas quotas;
    gs_quotas_open(&quotas, &(gs_quotas_options){0}, DEVICE_BYTES);
    gs_account *earlier = gs_account_take(&quotas, getpid(), getuid());
    assert_true(earlier->serial > 0);
    assert_int_equal(earlier->serial, gs_process_serial(getpid()));
    earlier->serial--;
    assert_true(gs_process_has_ended(getpid(), earlier->serial));
    gs_account *own = gs_account_take(&quotas, getpid(), getuid());
    assert_ptr_not_equal(own, earlier);
    assert_ptr_equal(own->above, earlier->above);
    assert_false(gs_process_has_ended(getpid(), own->serial));
    gs_account_leave(&quotas, earlier);
    gs_account_leave(&quotas, own);
    assert_null(quotas.first);
}

TEST_MAIN(NULL, NULL)
