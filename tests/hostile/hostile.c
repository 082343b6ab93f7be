/*
 * hostile.c: attacks on a daemon, and honest clients beside them that must not notice.
 *
 *   hostile --seconds 600              all attacks one by one, mixed and all at once, and a table
 *   hostile --only NAME --seconds 10   one attack
 *   hostile --all --seconds 60         all at once
 *   hostile --suite                    what the test suite runs: a mixture that visits every quick attack
 *   hostile --list                     the names
 *   hostile --device cuda ...          on a GPU; --with OPTION gives the daemon one more option
 *
 * A run has phases. In each, eight honest clients work, and their waiting times are counted for that phase. A second
 * daemon is left in peace, with clients of its own: what they wait for in the same phase is due to the machine. An
 * attack fails the run if an honest client is ended, gets a wrong result or hangs, if the daemon or the worker ends, or
 * if something is left behind. Without --suite it also fails if an honest client waits more than 100 ms longer than the
 * clients of the other daemon, and than without an attack. When all attack at once that is only printed: each attacker
 * has a right to its share, and a share among so many is small. Each mixture of three has a phase of its own.
 *
 * With --suite a phase lasts until each of its attackers has attacked and each honest client has worked, however long
 * that takes on this machine. Otherwise it lasts for its share of --seconds.
 *
 * Attackers have a low priority (nice): the question is what the daemon does, not how a processor is shared.
 */
#define _GNU_SOURCE
#include "hostile.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef GRIDSMITH_PROGRAM
#    define GRIDSMITH_PROGRAM "gridsmith"
#endif

enum {
    WARM_UP, /* phases */
    BASELINE,
    FIRST_ATTACK,
    TOGETHER = 3, /* attacks of a mixture */
    MOST_MIXTURES = 20,
    MOST_ATTACKS = TIMES_PHASES - FIRST_ATTACK - MOST_MIXTURES - 1, /* behind them: mixtures, all at once */
    NICE = 10,
    WATCH_MS = 20,
    HANG_SECONDS = 60, /* a busy machine takes some; these cost time only where a test would fail */
    SETTLE_SECONDS = 120,
    LIMIT_MS = 100,
    SUITE_SECONDS = 600, /* a phase of the suite that lasts longer hangs */
    HONEST_ROUNDS = 4,   /* of each honest client in a phase of the suite */
    SLACK_DESCRIPTORS = 8,
    SLACK_MAPPINGS = 100,
    SLACK_KIB = 32 << 10,
    GIVEN_BACK_MS = 60000 /* memory is given back a part at a time */
};

struct options {
    double seconds;
    uint64_t seed;
    size_t honest, control;
    bool is_suite, all_at_once;
    const char *only, *program, *device;
    const char *with[8]; /* options of the daemon, up to a NULL */
    const char *without; /* names with commas between them, or NULL */
};

struct both {
    struct footprint daemon, worker;
};

struct run {
    struct options options;
    struct board *board;
    char folder[64];
    struct stage stage, control;
    uint64_t random;
    uint32_t mixed, all;              /* phases: the first mixture, all at once */
    char mixtures[MOST_MIXTURES][80]; /* what they consist of */
    struct both before, after, at_end[TIMES_PHASES];
    int64_t lasted_ns[TIMES_PHASES];
    int failures;
};

static void fail(struct run *run, const char *what, const char *which) {
    run->failures++;
    printf("FAILED: %s%s%s\n", which, which[0] ? ": " : "", what);
    fflush(stdout);
}

static uint64_t next_random(struct run *run, uint64_t most) {
    struct attacker dice = {.random = run->random};
    uint64_t value = attacker_random(&dice, most);
    run->random = dice.random;
    return value;
}

static struct both look(const struct stage *stage) {
    return (struct both){watch_process(stage->daemon), watch_process(stage->worker)};
}

/* ---- one attack ---- */

static pid_t start_attack(struct run *run, const struct stage *stage, size_t number, double seconds) {
    uint64_t seed = next_random(run, UINT64_MAX) | 1;
    struct attacker me = {.socket = stage->socket,
                          .folder = run->folder,
                          .metrics_port = stage->metrics_port,
                          .daemon = stage->daemon,
                          .worker = stage->worker,
                          .random = seed,
                          .until_ns = hostile_now_ns() + (int64_t)(seconds * 1e9),
                          .is_over = &run->board->is_over,
                          .tally = &run->board->tallies[FIRST_ATTACK + number]};
    fflush(stdout);
    pid_t process = fork();
    if (process != 0)
        return process;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpriority(PRIO_PROCESS, 0, NICE);
    signal(SIGIO, SIG_IGN); /* it holds leases, and others open those files */
    while (attacker_has_time(&me)) {
        atomic_fetch_add(&me.tally->begun, 1);
        hostile_attacks[number].once(&me);
        atomic_fetch_add(&me.tally->rounds, 1);
    }
    _exit(0);
}

/* Ends it with all that it started. */
static void end_attack(struct run *run, const struct stage *stage, pid_t process, size_t number) {
    int status = 0;
    for (int i = 0; i < 300 && waitpid(process, &status, WNOHANG) == 0; i++)
        hostile_sleep_ms(10); /* a group exists as long as one of its processes is not waited for */
    kill(-process, SIGKILL);
    while (waitpid(-process, NULL, 0) > 0) /* its children are now those of the kit */
        ;
    kill(stage->daemon, SIGCONT);
    if (stage->worker > 0)
        kill(stage->worker, SIGCONT);
    if (WIFSIGNALED(status))
        fail(run, strsignal(WTERMSIG(status)), hostile_attacks[number].name);
    struct tally *tally = &run->board->tallies[FIRST_ATTACK + number];
    if (atomic_load(&tally->is_broken) == 1) {
        atomic_store(&tally->is_broken, 2);
        fail(run, tally->note, hostile_attacks[number].name);
    }
}

/* ---- what must hold meanwhile ---- */

static void check_hangs(struct run *run, struct stage *stage, const char *name) {
    for (size_t i = 0; i < stage->honest_count; i++) {
        struct honest_state *state = &run->board->honest[stage->side][i];
        int64_t since = atomic_load(&state->since_ns);
        uint32_t operation = atomic_load(&state->operation);
        int64_t most_ns = (int64_t)HANG_SECONDS * (operation == HONEST_COMPILE ? 6 : 1) * 1000000000;
        if (!since || since == state->reported_ns || hostile_now_ns() - since <= most_ns)
            continue;
        char line[100];
        snprintf(line, sizeof line, "honest client %zu waits for %s", i, honest_names[operation]);
        fail(run, line, name);
        state->reported_ns = since;
    }
}

/* Honest clients that ended are reported and started again; the first in words, the others of the phase as a count. */
static void check_honest(struct run *run, struct stage *stage, const char *name) {
    size_t ended = 0;
    char line[400];
    for (size_t i = 0; i < stage->honest_count; i++) {
        int status;
        if (waitpid(stage->honest[i], &status, WNOHANG) != stage->honest[i])
            continue;
        if (ended++ == 0)
            snprintf(line, sizeof line, "honest client %zu: %s", i, run->board->honest[stage->side][i].message);
        stage_restart_honest(stage, i);
    }
    if (ended)
        fail(run, line, name);
    if (ended > 1)
        printf("        and %zu more honest clients\n", ended - 1);
}

static bool is_daemon_alive(const struct stage *stage) {
    char state = watch_state(stage->daemon);
    return state && state != 'Z';
}

/* Waits for the end of a phase. False: the daemon is gone. */
static bool watch_until(struct run *run, struct stage *stage, int64_t until_ns, const char *name) {
    while (hostile_now_ns() < until_ns) {
        hostile_sleep_ms(WATCH_MS);
        check_honest(run, stage, name);
        check_hangs(run, stage, name);
        if (!is_daemon_alive(stage)) {
            fail(run, "the daemon is gone", name);
            return false;
        }
    }
    return true;
}

/* Rounds of the honest clients in this phase. */
static uint64_t honest_rounds(const struct run *run, const struct stage *stage) {
    return atomic_load(&run->board->times[stage->side][atomic_load(&run->board->phase)].rounds);
}

/* Waits until each honest client has worked for a while: then its source is compiled. False: it does not work. */
static bool watch_rounds(struct run *run, struct stage *stage, const char *name) {
    enum { ROUNDS = 10, PATIENCE_MS = 240000 };
    uint64_t wanted = honest_rounds(run, stage) + ROUNDS * stage->honest_count;
    for (int ms = 0; ms < PATIENCE_MS && honest_rounds(run, stage) < wanted; ms += WATCH_MS)
        watch_until(run, stage, hostile_now_ns() + WATCH_MS * 1000000, name);
    return honest_rounds(run, stage) >= wanted;
}

/* How often an attack was tried to its end; or begun, where there are so many at once that few get to their end. */
static uint64_t attack_rounds(const struct run *run, size_t number, bool is_crowd) {
    const struct tally *tally = &run->board->tallies[FIRST_ATTACK + number];
    return atomic_load(is_crowd ? &tally->begun : &tally->rounds);
}

static bool have_attacked(const struct run *run, const size_t *attacks, size_t count, const uint64_t *before) {
    for (size_t i = 0; i < count; i++)
        if (attack_rounds(run, attacks[i], count > TOGETHER) == before[i])
            return false;
    return true;
}

/* A phase of the suite: every attack once more than `before`, and meanwhile some rounds of each honest client. They
   need not get anywhere where errors are expected (`may_fail`), nor among all attackers at once. False: the daemon is
   gone. */
static bool watch_attacks(struct run *run, struct stage *stage, const size_t *attacks, size_t count,
                          const uint64_t *before, const char *name) {
    bool may_starve = stage->may_fail || count > TOGETHER;
    uint64_t wanted = honest_rounds(run, stage) + (may_starve ? 0 : HONEST_ROUNDS * stage->honest_count);
    int64_t until_ns = hostile_now_ns() + (int64_t)SUITE_SECONDS * 1000000000;
    while (!have_attacked(run, attacks, count, before) || honest_rounds(run, stage) < wanted) {
        if (!watch_until(run, stage, hostile_now_ns() + WATCH_MS * 1000000, name))
            return false;
        if (hostile_now_ns() < until_ns)
            continue;
        fail(run, "an attack or an honest client does not go on", name);
        return true;
    }
    return true;
}

/* ---- phases ---- */

static bool is_left_out(const struct run *run, const char *name) {
    size_t length = strlen(name);
    const char *at = run->options.without;
    while (at && strncmp(at, name, length) != 0)
        at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    return at && (at[length] == ',' || !at[length]);
}

static bool may_run(const struct run *run, size_t number, bool is_mixed) {
    unsigned flags = hostile_attacks[number].flags;
    if (is_left_out(run, hostile_attacks[number].name) || flags & ATTACK_ALONE ||
        (run->options.is_suite && flags & ATTACK_HEAVY) ||
        (flags & ATTACK_ON_CPU && strcmp(run->options.device, "host") != 0))
        return false;
    return run->options.is_suite || !is_mixed || !(flags & (ATTACK_DELAYS | ATTACK_CROWDS));
}

/* A worker that was restarted is reported once. */
static void follow_worker(struct run *run, struct stage *stage, const char *name) {
    pid_t worker = 0;
    if (!stage_status(stage, NULL, NULL, &worker) || worker == stage->worker)
        return;
    if (!stage->may_fail)
        fail(run, "the worker was restarted", name);
    stage->worker = worker;
}

/* Runs some attacks at once. False: the daemon is gone. */
static bool play(struct run *run, struct stage *stage, uint32_t phase, const size_t *attacks, size_t count,
                 double seconds) {
    pid_t processes[MOST_ATTACKS];
    uint64_t before[MOST_ATTACKS];
    const char *name = count == 1 ? hostile_attacks[attacks[0]].name : count ? "several attacks" : "no attack";
    int64_t began = hostile_now_ns();
    atomic_store(&run->board->phase, phase);
    atomic_store(&run->board->is_over, 0);
    for (size_t i = 0; i < count; i++) {
        before[i] = attack_rounds(run, attacks[i], count > TOGETHER);
        processes[i] = start_attack(run, stage, attacks[i], run->options.is_suite ? 2 * SUITE_SECONDS : seconds);
    }
    bool is_alive = run->options.is_suite ? watch_attacks(run, stage, attacks, count, before, name)
                                          : watch_until(run, stage, began + (int64_t)(seconds * 1e9), name);
    atomic_store(&run->board->is_over, 1);
    for (size_t i = 0; i < count; i++)
        end_attack(run, stage, processes[i], attacks[i]);
    run->lasted_ns[phase] += hostile_now_ns() - began;
    run->at_end[phase] = look(stage);
    if (is_alive)
        follow_worker(run, stage, name);
    return is_alive;
}

static size_t choose(struct run *run, size_t *attacks, bool is_mixed) {
    size_t count = 0;
    for (size_t i = 0; i < hostile_attack_count; i++)
        if (may_run(run, i, is_mixed))
            attacks[count++] = i;
    for (size_t i = count; i > 1; i--) {
        size_t other = next_random(run, i), kept = attacks[other];
        attacks[other] = attacks[i - 1];
        attacks[i - 1] = kept;
    }
    return count;
}

static void name_mixture(char *name, size_t size, const size_t *attacks, size_t count) {
    size_t at = 0;
    for (size_t i = 0; i < count && at < size; i++)
        at += (size_t)snprintf(name + at, size - at, "%s%s", i ? ", " : "", hostile_attacks[attacks[i]].name);
}

/* Every attack once, three at a time, in random order. */
static bool play_mixed(struct run *run, double seconds) {
    size_t attacks[MOST_ATTACKS], count = choose(run, attacks, true), turns = (count + TOGETHER - 1) / TOGETHER;
    for (size_t i = 0; i < turns; i++) {
        const size_t *some = attacks + i * TOGETHER;
        size_t number = count - i * TOGETHER < TOGETHER ? count - i * TOGETHER : TOGETHER;
        name_mixture(run->mixtures[i], sizeof run->mixtures[i], some, number);
        if (!play(run, &run->stage, run->mixed + (uint32_t)i, some, number, seconds / (double)turns))
            return false;
    }
    return true;
}

static bool play_all(struct run *run, double seconds) {
    size_t attacks[MOST_ATTACKS], count = choose(run, attacks, true);
    return play(run, &run->stage, run->all, attacks, count, seconds);
}

/* One after the other, each with the clients of the one before it gone. */
static bool play_singly(struct run *run, double seconds) {
    size_t attacks[MOST_ATTACKS], count = choose(run, attacks, false);
    for (size_t i = 0; i < count; i++) {
        if (!play(run, &run->stage, (uint32_t)(FIRST_ATTACK + attacks[i]), &attacks[i], 1, seconds / (double)count))
            return false;
        if (!stage_settle(&run->stage, (long)run->options.honest, SETTLE_SECONDS))
            fail(run, "clients or compilers stay", hostile_attacks[attacks[i]].name);
        run->at_end[FIRST_ATTACK + attacks[i]] = look(&run->stage);
    }
    return true;
}

/* ---- daemons that have little ---- */

static size_t find_attack(const char *name) {
    size_t i = 0;
    while (i < hostile_attack_count && strcmp(hostile_attacks[i].name, name) != 0)
        i++;
    return i;
}

/* Limits the memory of the daemon to what it has and a little more; `after` false: as it was. */
static void squeeze_memory(const struct stage *stage, bool is_squeezed) {
    enum { MORE = 16 << 20 };
    char path[40];
    unsigned long long pages = 0;
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    snprintf(path, sizeof path, "/proc/%d/statm", (int)stage->daemon);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%llu", &pages) == 1 && is_squeezed)
        limit.rlim_cur = pages * (uint64_t)sysconf(_SC_PAGESIZE) + MORE;
    if (file)
        fclose(file);
    prlimit(stage->daemon, RLIMIT_AS, &limit, NULL);
}

/* Puts the kernels of the attackers into the cache. */
static void warm_cache(struct run *run, const struct stage *stage) {
    struct attacker me = {.socket = stage->socket,
                          .random = 1,
                          .until_ns = hostile_now_ns() + (int64_t)120 * 1000000000,
                          .tally = &run->board->tallies[WARM_UP]};
    struct raw raw;
    if (raw_open_ready(&me, &raw, NULL))
        raw_close(&me, &raw);
    else
        fail(run, "the kernels of the attackers cannot be loaded", "");
}

struct squeeze {
    const char *name;
    const char *const *more; /* options of the daemon */
    const char *const *attacks;
    uint64_t descriptors;
    bool has_little_memory, may_restart;
};

/* How long honest clients needed to work again after an error that was expected. */
static void print_recovery(const struct run *run, const char *name) {
    uint64_t most = atomic_load(&run->board->times[0][WARM_UP].most_ns[HONEST_AGAIN]);
    if (most)
        printf("%s: the honest clients worked again after %.0f ms at most\n", name, (double)most / 1e6);
}

/* Where the daemon has little, requests are refused. But it stays, and works when the attackers are gone. */
static void play_squeezed(struct run *run, const struct squeeze *squeeze, double seconds) {
    enum { FEW = 2 };
    size_t honest = run->options.only ? run->options.honest : FEW;
    struct stage stage = {.board = run->board};
    struct stage_options options = {.program = run->options.program,
                                    .device = run->options.device,
                                    .more = squeeze->more,
                                    .descriptors = squeeze->descriptors};
    char folder[80];
    size_t count = 0;
    long restarts = 0;
    while (squeeze->attacks[count])
        count++;
    snprintf(folder, sizeof folder, "%s/q", run->folder);
    if (!stage_open(&stage, folder, &options)) {
        fail(run, "the daemon does not start", squeeze->name);
        return;
    }
    warm_cache(run, &stage);
    stage_start_honest(&stage, honest, true);
    watch_rounds(run, &stage, squeeze->name);
    if (squeeze->has_little_memory)
        squeeze_memory(&stage, true);
    for (size_t i = 0; i < count; i++) {
        size_t attack = find_attack(squeeze->attacks[i]);
        if (!is_left_out(run, squeeze->attacks[i]))
            play(run, &stage, WARM_UP, &attack, 1, seconds / (double)count);
    }
    if (squeeze->has_little_memory)
        squeeze_memory(&stage, false);
    watch_rounds(run, &stage, squeeze->name); /* a worker that could not be started is tried again each second */
    if (!stage_stop_honest(&stage))
        fail(run, "an honest client got a wrong result or hangs", squeeze->name);
    if (!stage_settle(&stage, 0, SETTLE_SECONDS))
        fail(run, "clients or compilers stay", squeeze->name);
    stage_start_honest(&stage, honest, squeeze->may_restart); /* a machine that stalls is enough for a short limit */
    bool is_working = watch_rounds(run, &stage, squeeze->name);
    if (!stage_stop_honest(&stage) || !is_working)
        fail(run, "it does not work after the attack", squeeze->name);
    if (!stage_status(&stage, NULL, &restarts, NULL) || (restarts > 0 && !squeeze->may_restart))
        fail(run, "the worker was restarted", squeeze->name);
    printf("%s: %ld restarts of the worker\n", squeeze->name, restarts);
    print_recovery(run, squeeze->name);
    if (!stage_close(&stage))
        fail(run, "the daemon does not stop cleanly", squeeze->name);
}

static void play_all_squeezed(struct run *run, double seconds) {
    static const char *const short_limit[] = {"--limit", "0.3", NULL};
    static const char *const kernels[] = {"kernel_endless", "kernel_faults", "kernel_scribbles", "worker_killed", NULL};
    static const char *const openers[] = {"connect_silent",
                                          "sessions_idle",
                                          "every_descriptor",
                                          "regions_many",
                                          "file_without_command",
                                          "connect_close",
                                          NULL};
    static const char *const eaters[] = {"sessions_idle", "launch_flood", "allocations_tiny", "all_in_flight", NULL};
    static const struct squeeze squeezes[] = {
        {.name = "kernels that fail", .more = short_limit, .attacks = kernels, .may_restart = true},
        {.name = "64 descriptors", .attacks = openers, .descriptors = 64},
        {.name = "little memory", .attacks = eaters, .has_little_memory = true}};
    for (size_t i = 0; i < HOSTILE_COUNT(squeezes); i++)
        if (!squeezes[i].has_little_memory || !HOSTILE_IS_SANITIZED) /* sanitizers end without memory */
            play_squeezed(run, &squeezes[i], seconds / (double)HOSTILE_COUNT(squeezes));
}

/* ---- the report ---- */

static double ms(uint64_t ns) {
    return (double)ns / 1e6;
}

static void print_codes(const char *what, const _Atomic uint64_t *counts, char *text, size_t size) {
    static const char *const names[] = {"ok",     "no-daemon", "refused", "lost",    "reset",
                                        "kernel", "source",    "memory",  "invalid", "system"};
    int at = snprintf(text, size, "%s", what);
    for (int i = 0; i < GS_CLIENT_CODES && at < (int)size; i++)
        if (atomic_load(&counts[i]))
            at += snprintf(text + at, size - (size_t)at, " %s %llu", names[i],
                           (unsigned long long)atomic_load(&counts[i]));
}

static void print_phase(const struct run *run, uint32_t phase, const char *name) {
    const struct times *mine = &run->board->times[0][phase], *theirs = &run->board->times[1][phase];
    const struct both *end = &run->at_end[phase];
    enum honest_operation worst = HONEST_OPEN;
    uint64_t most = times_most_ns(mine, &worst);
    if (!atomic_load(&mine->count))
        return;
    printf("%-22s %7llu %7llu %7.2f %7.1f %7.1f %8.1f %-11s %7.1f %8.0f %6llu %5llu %6llu %5llu\n", name,
           (unsigned long long)atomic_load(&run->board->tallies[phase].rounds),
           (unsigned long long)atomic_load(&mine->rounds), ms(times_percentile_ns(mine, 0.5)),
           ms(times_percentile_ns(mine, 0.99)), ms(times_percentile_ns(mine, 0.999)), ms(most), honest_names[worst],
           ms(times_most_ns(theirs, NULL)), ms(atomic_load(&mine->most_ns[HONEST_COMPILE])),
           (unsigned long long)end->daemon.resident_kib / 1024, (unsigned long long)end->daemon.descriptors,
           (unsigned long long)end->worker.resident_kib / 1024, (unsigned long long)end->worker.descriptors);
}

static void print_waits(const struct run *run) {
    printf("\nwaits of the honest clients in ms; MB and descriptors of the daemon and the worker at the end\n");
    printf("%-22s %7s %7s %7s %7s %7s %8s %-11s %7s %8s %6s %5s %6s %5s\n", "", "attacks", "rounds", "p50", "p99",
           "p99.9", "worst", "of", "control", "compile", "MB", "fds", "MB", "fds");
    print_phase(run, BASELINE, "no attack");
    for (size_t i = 0; i < hostile_attack_count; i++)
        print_phase(run, (uint32_t)(FIRST_ATTACK + i), hostile_attacks[i].name);
    for (uint32_t i = 0; i < MOST_MIXTURES; i++) {
        char name[24];
        snprintf(name, sizeof name, "mixture %u", i + 1);
        print_phase(run, run->mixed + i, name);
    }
    print_phase(run, run->all, "all at once");
    for (uint32_t i = 0; i < MOST_MIXTURES && run->mixtures[i][0]; i++)
        printf("mixture %u: %s\n", i + 1, run->mixtures[i]);
}

static void print_answers(const struct run *run) {
    printf("\nwhat the daemon answered\n");
    for (size_t i = 0; i < hostile_attack_count; i++) {
        const struct tally *tally = &run->board->tallies[FIRST_ATTACK + i];
        char ends[200], replies[200];
        if (!atomic_load(&tally->rounds))
            continue;
        print_codes("ended:", tally->ends, ends, sizeof ends);
        print_codes("replies:", tally->replies, replies, sizeof replies);
        printf("%-22s %6llu rounds, %llu sessions, %llu refused, %llu not connected; %s; %s\n", hostile_attacks[i].name,
               (unsigned long long)atomic_load(&tally->rounds), (unsigned long long)atomic_load(&tally->opened),
               (unsigned long long)atomic_load(&tally->refused), (unsigned long long)atomic_load(&tally->unconnected),
               ends, replies);
    }
}

static void print_footprint(const char *name, const struct footprint *before, const struct footprint *after) {
    printf("%-8s before: %llu MB, %llu descriptors, %llu mappings; after: %llu MB, %llu descriptors, %llu mappings; "
           "%.1f s "
           "of CPU\n",
           name, (unsigned long long)before->resident_kib / 1024, (unsigned long long)before->descriptors,
           (unsigned long long)before->mappings, (unsigned long long)after->resident_kib / 1024,
           (unsigned long long)after->descriptors, (unsigned long long)after->mappings,
           (double)(after->cpu_ms - before->cpu_ms) / 1000);
}

/* ---- the verdict ---- */

static uint64_t most_of(const struct run *run, int side, uint32_t phase, unsigned flags) {
    const struct times *times = &run->board->times[side][phase];
    return flags & ATTACK_CROWDS ? times_most_inside_ns(times) : times_most_ns(times, NULL);
}

static void check_phase(struct run *run, uint32_t phase, unsigned flags, const char *name) {
    uint64_t alone = most_of(run, 0, BASELINE, flags), control = most_of(run, 1, phase, flags),
             most = most_of(run, 0, phase, flags);
    uint64_t least = alone > control ? alone : control;
    char line[120];
    if (most <= least + (uint64_t)LIMIT_MS * 1000000)
        return;
    snprintf(line, sizeof line,
             "an honest client waited %.0f ms; %.0f ms without the attack, %.0f ms at the other daemon", ms(most),
             ms(alone), ms(control));
    fail(run, line, name);
}

static void check_waits(struct run *run) {
    for (size_t i = 0; i < hostile_attack_count; i++)
        if (!(hostile_attacks[i].flags & ATTACK_DELAYS))
            check_phase(run, (uint32_t)(FIRST_ATTACK + i), hostile_attacks[i].flags, hostile_attacks[i].name);
    for (uint32_t i = 0; i < MOST_MIXTURES; i++)
        check_phase(run, run->mixed + i, 0, run->mixtures[i]);
}

/* What is left; NULL: nothing. */
static const char *find_leak(const struct footprint *before, const struct footprint *after) {
    if (after->descriptors > before->descriptors + SLACK_DESCRIPTORS)
        return "descriptors are left open";
    if (after->mappings > before->mappings + SLACK_MAPPINGS && !HOSTILE_IS_SANITIZED)
        return "mappings are left";
    if (after->resident_kib > before->resident_kib + SLACK_KIB && !HOSTILE_IS_SANITIZED)
        return "memory is left";
    return NULL;
}

static void check_leaks(struct run *run) {
    const char *of_daemon = NULL, *of_worker = NULL;
    for (int ms = 0; ms < GIVEN_BACK_MS; ms += 100) {
        run->after = look(&run->stage);
        of_daemon = find_leak(&run->before.daemon, &run->after.daemon);
        of_worker = find_leak(&run->before.worker, &run->after.worker);
        if (!of_daemon && !of_worker)
            return;
        hostile_sleep_ms(100);
    }
    if (of_daemon)
        fail(run, of_daemon, "the daemon");
    if (of_worker)
        fail(run, of_worker, "the worker");
}

/* Compilers that were killed with their parent are children of the kit now. What is dead, or dies soon, is not left
   behind. */
static void check_left_processes(struct run *run) {
    enum { DYING_MS = 30000 };
    pid_t children[16];
    size_t count = 1;
    for (int ms = 0; ms < DYING_MS && count; ms += 50) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        count = watch_children(getpid(), children, HOSTILE_COUNT(children));
        if (count)
            hostile_sleep_ms(50);
    }
    for (size_t i = 0; i < count && i < HOSTILE_COUNT(children); i++) {
        char line[120], name[64];
        watch_name(children[i], name, sizeof name);
        snprintf(line, sizeof line, "process %d (%s, state %c) is left", (int)children[i], name,
                 watch_state(children[i]));
        fail(run, line, "");
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
}

/* ---- a run ---- */

static bool open_stages(struct run *run) {
    struct stage_options options = {
        .program = run->options.program, .device = run->options.device, .more = run->options.with};
    char folder[80];
    run->stage = (struct stage){.board = run->board};
    run->control = (struct stage){.board = run->board, .side = 1};
    snprintf(folder, sizeof folder, "%s/a", run->folder);
    bool is_open = stage_open(&run->stage, folder, &options);
    snprintf(folder, sizeof folder, "%s/b", run->folder);
    return is_open && (!run->options.control || stage_open(&run->control, folder, &options));
}

/* What the daemon has when only honest clients have been there. */
static void warm_up(struct run *run) {
    atomic_store(&run->board->phase, WARM_UP);
    warm_cache(run, &run->stage);
    stage_start_honest(&run->stage, run->options.honest, false);
    watch_rounds(run, &run->stage, "warm-up");
    if (!stage_stop_honest(&run->stage) || !stage_settle(&run->stage, 0, 60))
        fail(run, "honest clients fail without any attack", "");
    run->before = look(&run->stage);
}

static void play_phases(struct run *run) {
    double seconds = run->options.seconds;
    size_t only = run->options.only ? find_attack(run->options.only) : 0;
    if (!play(run, &run->stage, BASELINE, NULL, 0, seconds * (run->options.only ? 0.25 : 0.1)))
        return;
    if (run->options.only)
        play(run, &run->stage, (uint32_t)(FIRST_ATTACK + only), &only, 1, seconds * 0.75);
    else if (run->options.all_at_once)
        play_all(run, seconds * 0.9);
    else if ((run->options.is_suite || play_singly(run, seconds * 0.6)) &&
             play_mixed(run, seconds * (run->options.is_suite ? 0.5 : 0.1)))
        play_all(run, seconds * 0.1);
}

static void finish(struct run *run) {
    long restarts = -1;
    atomic_store(&run->board->phase, WARM_UP);
    if (!stage_settle(&run->stage, (long)run->options.honest, SETTLE_SECONDS))
        fail(run, "clients or compilers stay", "");
    bool is_good = stage_stop_honest(&run->stage), is_control_good = stage_stop_honest(&run->control);
    if (!is_good || !is_control_good)
        fail(run, "an honest client failed", is_good ? "the other daemon" : "");
    if (!stage_settle(&run->stage, 0, 60))
        fail(run, "clients stay", "");
    check_leaks(run);
    if (!stage_status(&run->stage, NULL, &restarts, NULL) || restarts != 0)
        fail(run, "the worker was restarted", "at the end");
    if (!stage_close(&run->stage))
        fail(run, "the daemon does not stop cleanly", "");
    if (run->options.control && !stage_close(&run->control))
        fail(run, "the other daemon does not stop cleanly", "");
}

static void report(struct run *run) {
    print_waits(run);
    print_answers(run);
    printf("\n");
    print_footprint("daemon", &run->before.daemon, &run->after.daemon);
    print_footprint("worker", &run->before.worker, &run->after.worker);
    if (!run->options.is_suite)
        check_waits(run);
}

static bool only_needs_own_daemon(const struct run *run) {
    return run->options.only && hostile_attacks[find_attack(run->options.only)].flags & ATTACK_ALONE;
}

static void play_run(struct run *run) {
    if (only_needs_own_daemon(run)) {
        static const char *const short_limit[] = {"--limit", "0.3", NULL}, *const on_gpu[] = {"--limit", "3", NULL};
        const char *const attacks[] = {run->options.only, NULL};
        bool is_on_cpu = strcmp(run->options.device, "host") == 0; /* a GPU takes longer to load a module */
        play_squeezed(run,
                      &(struct squeeze){"kernels that fail", is_on_cpu ? short_limit : on_gpu, attacks, 0, false, true},
                      run->options.seconds);
        return;
    }
    if (!open_stages(run)) {
        fail(run, "a daemon does not start", "");
        return;
    }
    warm_up(run);
    stage_start_honest(&run->stage, run->options.honest, false);
    stage_start_honest(&run->control, run->options.control, false);
    watch_rounds(run, &run->stage, "warm-up");
    watch_rounds(run, &run->control, "warm-up");
    play_phases(run);
    finish(run);
    report(run);
    if (!run->options.only && !run->options.all_at_once)
        play_all_squeezed(run, run->options.seconds * 0.1);
}

/* ---- the command ---- */

static void print_list(void) {
    for (size_t i = 0; i < hostile_attack_count; i++)
        printf("%-22s %s\n", hostile_attacks[i].name, hostile_attacks[i].shows);
}

static bool read_options(struct options *options, int argc, char **argv) {
    static const struct option names[] = {{"seconds", required_argument, NULL, 's'},
                                          {"seed", required_argument, NULL, 'r'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"all", no_argument, NULL, 'a'},
                                          {"suite", no_argument, NULL, 'u'},
                                          {"honest", required_argument, NULL, 'h'},
                                          {"control", required_argument, NULL, 'c'},
                                          {"program", required_argument, NULL, 'p'},
                                          {"without", required_argument, NULL, 'w'},
                                          {"list", no_argument, NULL, 'l'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"with", required_argument, NULL, 'x'},
                                          {NULL, 0, NULL, 0}};
    size_t with = 0;
    for (int choice; (choice = getopt_long(argc, argv, "", names, NULL)) != -1;)
        switch (choice) {
        case 's':
            options->seconds = strtod(optarg, NULL);
            break;
        case 'r':
            options->seed = strtoull(optarg, NULL, 10);
            break;
        case 'o':
            options->only = optarg;
            break;
        case 'a':
            options->all_at_once = true;
            break;
        case 'u':
            options->is_suite = true;
            break;
        case 'h':
            options->honest = strtoul(optarg, NULL, 10);
            break;
        case 'c':
            options->control = strtoul(optarg, NULL, 10);
            break;
        case 'p':
            options->program = optarg;
            break;
        case 'w':
            options->without = optarg;
            break;
        case 'd':
            options->device = optarg;
            break;
        case 'x':
            if (with + 1 < HOSTILE_COUNT(options->with))
                options->with[with++] = optarg;
            break;
        case 'l':
            print_list();
            exit(0);
        default:
            return false;
        }
    return optind == argc && options->seconds > 0 && options->honest <= HONEST_MOST &&
           options->control <= HONEST_MOST && (!options->only || find_attack(options->only) < hostile_attack_count);
}

static bool make_place(struct run *run) {
    const char *temporary = getenv("TMPDIR");
    snprintf(run->folder, sizeof run->folder, "%.40s/hostile-XXXXXX", temporary ? temporary : "/tmp");
    run->board = mmap(NULL, sizeof *run->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return run->board != MAP_FAILED && mkdtemp(run->folder);
}

static void remove_place(const struct run *run) {
    char command[100];
    if (run->failures || getenv("GRIDSMITH_KEEP")) {
        printf("logs are in %s\n", run->folder);
        return;
    }
    snprintf(command, sizeof command, "rm -rf '%s'", run->folder);
    if (system(command) != 0)
        printf("%s cannot be removed\n", run->folder);
}

int main(int argc, char **argv) {
    struct run run = {
        .options = {.seconds = 60, .honest = 8, .control = 4, .program = GRIDSMITH_PROGRAM, .device = "host"},
        .mixed = (uint32_t)(FIRST_ATTACK + hostile_attack_count),
        .all = (uint32_t)(FIRST_ATTACK + hostile_attack_count + MOST_MIXTURES)};
    run.options.seed = (uint64_t)hostile_now_ns() % 1000000;
    if (!read_options(&run.options, argc, argv)) {
        fprintf(stderr, "usage: hostile [--seconds S] [--only NAME | --all | --suite] [--without NAME,...] [--seed N]\n"
                        "               [--honest N] [--control N] [--program GRIDSMITH] [--device host|cuda]\n"
                        "               [--with OPTION]... [--list]\n");
        return 2;
    }
    if (!make_place(&run)) {
        fprintf(stderr, "there is no place for the daemons\n");
        return 2;
    }
    run.random = run.options.seed * 0x9e3779b97f4a7c15u | 1;
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    printf("seed %llu, %g seconds, %zu honest clients, %zu at the other daemon\n", (unsigned long long)run.options.seed,
           run.options.seconds, run.options.honest, run.options.control);
    play_run(&run);
    check_left_processes(&run);
    printf("%d failures\n", run.failures);
    remove_place(&run);
    return run.failures ? 1 : 0;
}
