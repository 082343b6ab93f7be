/*
 * quotas.c: limits of each resource for a client, a process, a family of processes, a user and all clients together.
 *
 * Each client has an account, and so have its process, its family, its user and the daemon. What a client takes is
 * counted in all of them, and refused if one of them would exceed its limit. The limits are one table: a row per
 * limited resource, a column per kind of account. A process may have only a part. Some of the rest is reserved for
 * processes that have little, and some of that for families that have little.
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
    uint64_t most[GS_ACCOUNTS]; /* of a client, a process, a family, a user, all */
} rows[GS_QUOTAS] = {
    [GS_QUOTA_CLIENTS] = {"clients", "clients", COUNTED, {1, 64, GS_SESSIONS, GS_SESSIONS, GS_SESSIONS}},
    [GS_QUOTA_MEMORY] = {"memory_bytes",
                         "bytes of device memory",
                         DEVICE_MEMORY,
                         {EIGHTHS(7), EIGHTHS(7), EIGHTHS(8), EIGHTHS(8), EIGHTHS(8)}},
    [GS_QUOTA_ALLOCATIONS] = {"allocations",
                              "allocations of device memory",
                              COUNTED,
                              {16384, 16384, 65536, 65536, 65536}},
    [GS_QUOTA_SHARED] = {"shared_bytes",
                         "bytes of shared host memory",
                         HOST_MEMORY,
                         {EIGHTHS(4), EIGHTHS(4), EIGHTHS(7), EIGHTHS(7), EIGHTHS(7)}},
    [GS_QUOTA_REGIONS] = {"regions", "regions of shared host memory", COUNTED, {1023, 2048, 8192, 8192, 8192}},
    [GS_QUOTA_MODULES] = {"modules", "modules", COUNTED, {256, 256, 1024, 1024, 1024}},
    [GS_QUOTA_ACTIONS] = {"actions",
                          "commands in progress",
                          COUNTED,
                          {GS_SESSION_ACTIONS, GS_MOST_ACTIONS, GS_MOST_ACTIONS, GS_MOST_ACTIONS, GS_MOST_ACTIONS}},
    [GS_QUOTA_DESCRIPTORS] = {"descriptors",
                              "descriptors of the daemon",
                              DESCRIPTORS,
                              {1 + GS_WIRE_FILES, EIGHTHS(4), EIGHTHS(8), EIGHTHS(8), EIGHTHS(8)}},
};

static const char *const holders[GS_ACCOUNTS] = {"a client", "a process", "a family of processes", "a user",
                                                 "all clients together"};

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

static void leave_account(gs_quotas *quotas, gs_account *account) {
    gs_account **at = &quotas->first, *above = account->above;
    if (account->kind == GS_ACCOUNT_ALL || --account->holders)
        return;
    while (*at != account)
        at = &(*at)->next;
    *at = account->next;
    free(account);
    leave_account(quotas, above);
}

static bool is_account_of(const gs_account *account, enum gs_account_kind kind, int64_t id, int64_t serial) {
    return account->kind == kind && account->id == id && !gs_process_is_another(account->serial, serial);
}

/* Adds a holder to an account, which holds the one above it; NULL: out of memory. */
static gs_account *take_account(gs_quotas *quotas, enum gs_account_kind kind, int64_t id, int64_t serial,
                                gs_account *above) {
    gs_account *account = quotas->first;
    while (account && !(is_account_of(account, kind, id, serial) && account->above == above))
        account = account->next;
    if (!account) {
        account = calloc(1, sizeof *account);
        if (!account)
            return NULL;
        *account = (gs_account){.kind = kind, .id = id, .serial = serial, .above = above, .next = quotas->first};
        quotas->first = account;
        above->holders++;
    }
    account->holders++;
    return account;
}

/* NULL: it has no connection. */
static gs_account *find_process(const gs_quotas *quotas, int32_t process, int64_t serial, uint32_t user) {
    gs_account *account = quotas->first;
    while (account &&
           !(is_account_of(account, GS_ACCOUNT_PROCESS, process, serial) && account->above->above->id == user))
        account = account->next;
    return account;
}

gs_account *gs_account_take(gs_quotas *quotas, int32_t process, uint32_t user) {
    int64_t serial = gs_process_serial(process);
    gs_account *known = find_process(quotas, process, serial, user);
    if (known) {
        known->holders++;
        return known;
    }
    gs_account *of_user = take_account(quotas, GS_ACCOUNT_USER, user, 0, &quotas->all);
    if (!of_user)
        return NULL;
    int64_t id = gs_family_of(&quotas->families, "/proc", process, user);
    gs_account *family = take_account(quotas, GS_ACCOUNT_FAMILY, id, 0, of_user);
    gs_account *account = family ? take_account(quotas, GS_ACCOUNT_PROCESS, process, serial, family) : NULL;
    if (family)
        leave_account(quotas, family);
    leave_account(quotas, of_user);
    return account;
}

void gs_account_leave(gs_quotas *quotas, gs_account *account) {
    leave_account(quotas, account);
}

/* ---- counting ---- */

/* Whether the account of this kind has at most a sixteenth of its limit, with `amount` more. */
static bool has_little(const gs_quotas *quotas, const gs_account *account, enum gs_account_kind kind,
                       enum gs_quota quota, uint64_t amount) {
    while (account && account->kind != kind)
        account = account->above;
    uint64_t little = quotas->most[kind][quota] / 16;
    return !account || (amount <= little && account->used[quota] <= little - amount);
}

/* The part of the limit of a user, and of all, that this account may not have: an eighth is reserved for processes that
   have little, and half of that for families that have little. So a few greedy processes leave something for the
   others, and a family with many processes leaves something for other families. */
static unsigned reserved_part(const gs_quotas *quotas, const gs_account *account, enum gs_quota quota,
                              uint64_t amount) {
    enum { NONE = 0, SIXTEENTH = 16, EIGHTH = 8 };
    if (!has_little(quotas, account, GS_ACCOUNT_PROCESS, quota, amount))
        return EIGHTH;
    return has_little(quotas, account, GS_ACCOUNT_FAMILY, quota, amount) ? NONE : SIXTEENTH;
}

/* `most` is the limit, or what is left of it without the reserve. Connections beyond the limit, which only get an
   answer, are not in use. */
static void write_refusal(const gs_quotas *quotas, const gs_account *account, enum gs_quota quota, uint64_t amount,
                          uint64_t most, char *message) {
    uint64_t limit = quotas->most[account->kind][quota];
    char reserve[100] = "";
    if (most < limit)
        snprintf(reserve, sizeof reserve, ", the last %llu of them reserved for %s that use few",
                 (unsigned long long)(limit - most), limit - most < limit / 8 ? "families of processes" : "processes");
    snprintf(message, GS_WIRE_MESSAGE, "%s may have at most %llu %s%s: %llu are in use, %llu more were requested",
             holders[account->kind], (unsigned long long)limit, rows[quota].words, reserve,
             (unsigned long long)gs_min_u64(account->used[quota], limit), (unsigned long long)amount);
}

bool gs_quotas_allow(const gs_quotas *quotas, const gs_account *account, enum gs_quota quota, uint64_t amount,
                     char *message) {
    unsigned part = reserved_part(quotas, account, quota, amount);
    for (; account && amount; account = account->above) {
        uint64_t limit = quotas->most[account->kind][quota], used = account->used[quota];
        uint64_t most = account->kind >= GS_ACCOUNT_USER && part ? limit - limit / part : limit;
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
