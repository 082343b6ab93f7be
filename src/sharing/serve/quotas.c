/*
 * quotas.c: limits of each resource for a client, a process, a user and all clients together.
 *
 * Each client has an account, and so have its process, its user and the daemon. What a client takes is counted in all
 * four, and refused if one of them would exceed its limit. The limits are one table: a row per limited resource, a
 * column per kind of account. A process may have only a part, and some of the rest is reserved for processes that have
 * little.
 *
 * A refusal names the limit. It does not end the client, which may free something and retry.
 */
#include "server.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define EIGHTHS(part) (UINT64_MAX - 8 + (part)) /* a part of the total instead of a number */

/* The total: a number, or the capacity of the machine or the device. */
enum source { COUNTED, DEVICE_MEMORY, HOST_MEMORY, DESCRIPTORS };

static const struct row {
    const char *key, *words;
    enum source source;
    uint64_t most[GS_ACCOUNTS]; /* of a client, a process, a user, all */
} rows[GS_QUOTAS] = {
    [GS_QUOTA_CLIENTS] = {"clients", "clients", COUNTED, {1, 64, GS_SESSIONS, GS_SESSIONS}},
    [GS_QUOTA_MEMORY] = {"memory_bytes",
                         "bytes of device memory",
                         DEVICE_MEMORY,
                         {EIGHTHS(7), EIGHTHS(7), EIGHTHS(8), EIGHTHS(8)}},
    [GS_QUOTA_ALLOCATIONS] = {"allocations", "allocations of device memory", COUNTED, {16384, 16384, 65536, 65536}},
    [GS_QUOTA_SHARED] = {"shared_bytes",
                         "bytes of shared host memory",
                         HOST_MEMORY,
                         {EIGHTHS(4), EIGHTHS(4), EIGHTHS(7), EIGHTHS(7)}},
    [GS_QUOTA_REGIONS] = {"regions", "regions of shared host memory", COUNTED, {1023, 2048, 8192, 8192}},
    [GS_QUOTA_MODULES] = {"modules", "modules", COUNTED, {256, 256, 1024, 1024}},
    [GS_QUOTA_ACTIONS] = {"actions",
                          "commands in progress",
                          COUNTED,
                          {GS_SESSION_ACTIONS, GS_MOST_ACTIONS, GS_MOST_ACTIONS, GS_MOST_ACTIONS}},
    [GS_QUOTA_DESCRIPTORS] = {"descriptors",
                              "descriptors of the daemon",
                              DESCRIPTORS,
                              {1 + GS_WIRE_FILES, EIGHTHS(4), EIGHTHS(8), EIGHTHS(8)}},
};

static const char *const holders[GS_ACCOUNTS] = {"a client", "a process", "a user", "all clients together"};

/* ---- totals ---- */

static uint64_t physical_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes : (uint64_t)1 << 30;
}

/* Descriptors for clients: without those for the daemon itself, compilers and scrapers. */
static uint64_t descriptors_for_clients(void) {
    enum { OWN = 40, LEAST = 8, MOST = 1 << 20 };
    struct rlimit limit;
    uint64_t all = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? gs_min_u64(limit.rlim_cur, MOST) : LEAST + OWN;
    return all > LEAST + OWN ? all - OWN : LEAST;
}

static uint64_t limit_of(uint64_t most, uint64_t sum) {
    uint64_t part = most - EIGHTHS(0);
    return most < EIGHTHS(0) ? most : sum / 8 * part + sum % 8 * part / 8;
}

void gs_quotas_open(gs_quotas *quotas, const gs_quotas_options *options, uint64_t device_bytes) {
    const uint64_t sums[] = {
        [DEVICE_MEMORY] = device_bytes, [HOST_MEMORY] = physical_bytes(), [DESCRIPTORS] = descriptors_for_clients()};
    *quotas = (gs_quotas){.all = {.kind = GS_ACCOUNT_ALL}};
    for (int kind = 0; kind < GS_ACCOUNTS; kind++)
        for (int i = 0; i < GS_QUOTAS; i++)
            quotas->most[kind][i] = limit_of(rows[i].most[kind], sums[rows[i].source]);
    for (int kind = 0; kind <= GS_ACCOUNT_PROCESS; kind++) {
        if (options->client_memory_bytes)
            quotas->most[kind][GS_QUOTA_MEMORY] = options->client_memory_bytes;
        if (options->client_shared_bytes)
            quotas->most[kind][GS_QUOTA_SHARED] = options->client_shared_bytes;
    }
}

void gs_quotas_close(gs_quotas *quotas) {
    for (gs_account *account; (account = quotas->first);) {
        quotas->first = account->next;
        free(account);
    }
}

const char *gs_quota_key(enum gs_quota quota) {
    return rows[quota].key;
}

/* ---- accounts ---- */

/* Adds a holder to the account of a process or a user; NULL: out of memory. */
static gs_account *take_account(gs_quotas *quotas, enum gs_account_kind kind, int64_t id, gs_account *above) {
    gs_account *account = quotas->first;
    while (account && (account->kind != kind || account->id != id || account->above != above))
        account = account->next;
    if (!account) {
        account = calloc(1, sizeof *account);
        if (!account)
            return NULL;
        *account = (gs_account){.kind = kind, .id = id, .above = above, .next = quotas->first};
        quotas->first = account;
    }
    account->holders++;
    return account;
}

static void leave_account(gs_quotas *quotas, gs_account *account) {
    gs_account **at = &quotas->first;
    if (--account->holders)
        return;
    while (*at != account)
        at = &(*at)->next;
    *at = account->next;
    free(account);
}

/* The account of a process holds that of its user. */
gs_account *gs_account_take(gs_quotas *quotas, int32_t process, uint32_t user) {
    gs_account *of_user = take_account(quotas, GS_ACCOUNT_USER, user, &quotas->all);
    gs_account *account = of_user ? take_account(quotas, GS_ACCOUNT_PROCESS, process, of_user) : NULL;
    if (of_user && (!account || account->holders > 1))
        leave_account(quotas, of_user);
    return account;
}

void gs_account_leave(gs_quotas *quotas, gs_account *account) {
    gs_account *of_user = account->above;
    bool is_last = account->holders == 1;
    leave_account(quotas, account);
    if (is_last)
        leave_account(quotas, of_user);
}

/* ---- counting ---- */

/* An eighth of the limit of a user, and of all, is reserved for processes that have little: less than a sixteenth of a
   process's limit. So a few greedy processes leave something for the others. */
static uint64_t most_of(const gs_quotas *quotas, const gs_account *account, enum gs_quota quota, bool is_little) {
    uint64_t most = quotas->most[account->kind][quota];
    return account->kind <= GS_ACCOUNT_PROCESS || is_little ? most : most - most / 8;
}

static bool has_little(const gs_quotas *quotas, const gs_account *account, enum gs_quota quota, uint64_t amount) {
    while (account && account->kind != GS_ACCOUNT_PROCESS)
        account = account->above;
    uint64_t little = quotas->most[GS_ACCOUNT_PROCESS][quota] / 16;
    return !account || (amount <= little && account->used[quota] <= little - amount);
}

/* `most` is the limit, or what is left of it without the reserve. Connections beyond the limit, which only get an
   answer, are not in use. */
static void write_refusal(const gs_quotas *quotas, const gs_account *account, enum gs_quota quota, uint64_t amount,
                          uint64_t most, char *message) {
    uint64_t limit = quotas->most[account->kind][quota];
    char reserve[100] = "";
    if (most < limit)
        snprintf(reserve, sizeof reserve, ", the last %llu of them reserved for processes that use few",
                 (unsigned long long)(limit - most));
    snprintf(message, GS_WIRE_MESSAGE, "%s may have at most %llu %s%s: %llu are in use, %llu more were requested",
             holders[account->kind], (unsigned long long)limit, rows[quota].words, reserve,
             (unsigned long long)gs_min_u64(account->used[quota], limit), (unsigned long long)amount);
}

bool gs_quotas_allow(const gs_quotas *quotas, const gs_account *account, enum gs_quota quota, uint64_t amount,
                     char *message) {
    bool is_little = has_little(quotas, account, quota, amount);
    for (; account; account = account->above) {
        uint64_t most = most_of(quotas, account, quota, is_little), used = account->used[quota];
        if (amount <= most && used <= most - amount)
            continue;
        write_refusal(quotas, account, quota, amount, most, message);
        return false;
    }
    return true;
}

void gs_account_add(gs_account *account, enum gs_quota quota, uint64_t amount) {
    for (; account; account = account->above)
        account->used[quota] += amount;
}

void gs_account_subtract(gs_account *account, enum gs_quota quota, uint64_t amount) {
    for (; account; account = account->above)
        account->used[quota] -= amount;
}
