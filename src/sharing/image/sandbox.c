/*
 * sandbox.c: restrictions of a compiler process: resource limits, files (Landlock), system calls (seccomp).
 *
 * Compilers are large programs that read untrusted input. A source can make them use unlimited memory, or exploit a bug
 * in them and run arbitrary code. So a compiler gets only what it needs. Landlock restricts which files it can open
 * (Linux 5.13), TCP (6.7), and signals and abstract sockets (6.12). A system call filter forbids all sockets, and
 * leaving the process group by which the daemon kills the compiler.
 *
 * Neither needs privileges. Features that the kernel lacks are left out. The constants of Landlock are repeated here,
 * because <linux/landlock.h> may be older than the kernel.
 *
 * Memory. RLIMIT_DATA bounds one process, but a compiler has several. So the daemon sums them up periodically
 * (gs_sandbox_measure), and kills them all if they use too much. The limit of each process is twice as high, for growth
 * between two measurements.
 */
#define _GNU_SOURCE
#include "sandbox.h"

#include "kernels/cuda/cuda.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- limits ---- */

static void set_limit(int resource, uint64_t value) {
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0)
        return;
    limit.rlim_max = gs_min_u64(limit.rlim_max, value);
    limit.rlim_cur = limit.rlim_max;
    setrlimit((__rlimit_resource_t)resource, &limit);
}

/* Memory that this process already uses, which is much with sanitizers. */
static uint64_t data_bytes(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*u %*u %*u %*u %*u %lu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* SIGXCPU, which compilers report; SIGKILL follows. */
static void limit_cpu_seconds(uint64_t seconds) {
    struct rlimit limit;
    set_limit(RLIMIT_CPU, seconds + 5);
    if (getrlimit(RLIMIT_CPU, &limit) == 0) {
        limit.rlim_cur = gs_min_u64(limit.rlim_cur, seconds);
        setrlimit(RLIMIT_CPU, &limit);
    }
}

void gs_sandbox_limit(const gs_compiler_limits *limits) {
    enum { MOST_FILES = 256 };
    set_limit(RLIMIT_CORE, 0);
    set_limit(RLIMIT_NOFILE, MOST_FILES);
    limit_cpu_seconds(limits->seconds);
    set_limit(RLIMIT_FSIZE, (uint64_t)limits->output_mb << 20);
    set_limit(RLIMIT_DATA, data_bytes() + ((uint64_t)limits->memory_mb << 21));
}

/* A compiler needs a core for half a second or more. Threads of the daemon, the worker and the clients need one for
   some microseconds, very often, and must not wait each time for a compiler's time slice to end. A thread that never
   sleeps gets nine times the share of the compiler. */
void gs_sandbox_lower_priority(void) {
    if (nice(GS_COMPILER_NICE) == -1)
        errno = 0; /* a failure is harmless */
}

/* ---- readable files ---- */

bool gs_readable_add(gs_readable *readable, const char *path) {
    if (!path[0] || access(path, F_OK) != 0)
        return true;
    char *kept = GS_RESERVE(readable, 1) ? strdup(path) : NULL;
    if (kept)
        readable->data[readable->count++] = kept;
    return kept != NULL;
}

static bool add_list(gs_readable *readable, const char *list) {
    char path[4096];
    bool is_good = true;
    for (; list && *list && is_good; list += strcspn(list, ":"), list += *list == ':') {
        snprintf(path, sizeof path, "%.*s", (int)gs_min_u64(strcspn(list, ":"), sizeof path - 1), list);
        if (path[0] == '/' && path[1])
            is_good = gs_readable_add(readable, path);
    }
    return is_good;
}

bool gs_readable_add_system(gs_readable *readable) {
    static const char *const paths[] = {"/usr",
                                        "/lib",
                                        "/lib32",
                                        "/lib64",
                                        "/bin",
                                        "/sbin",
                                        "/opt",
                                        "/nix/store",
                                        "/gnu/store",
                                        "/etc/ld.so.cache",
                                        "/etc/ld.so.preload",
                                        "/etc/alternatives",
                                        "/proc/meminfo",
                                        "/proc/cpuinfo",
                                        "/proc/sys/vm/overcommit_memory",
                                        "/sys/devices/system/cpu",
                                        "/dev/urandom"};
    bool is_good = gs_readable_add(readable, gs_cuda_toolkit()) && add_list(readable, getenv("LD_LIBRARY_PATH"));
    for (size_t i = 0; i < GS_COUNT(paths) && is_good; i++)
        is_good = gs_readable_add(readable, paths[i]);
    return is_good;
}

/* ---- Landlock ---- */

enum {
    ACCESS_EXECUTE = 1 << 0,
    ACCESS_WRITE_FILE = 1 << 1,
    ACCESS_READ_FILE = 1 << 2,
    ACCESS_READ_FOLDER = 1 << 3,
    ACCESS_ALL = (1 << 13) - 1,      /* of version 1 */
    ACCESS_MOVE = 1 << 13,           /* version 2 */
    ACCESS_TRUNCATE = 1 << 14,       /* version 3 */
    ACCESS_NETWORK = 3,              /* version 4: bind and connect, TCP */
    ACCESS_CONTROL_DEVICE = 1 << 15, /* version 5 */
    SCOPE_ALL = 3,                   /* version 6: abstract sockets, signals */
    RULE_PATH = 1,
    ASK_VERSION = 1
};

#ifndef SYS_landlock_create_ruleset
#    define SYS_landlock_create_ruleset 444
#    define SYS_landlock_add_rule       445
#    define SYS_landlock_restrict_self  446
#endif

struct ruleset {
    uint64_t files, network, scope;
};

struct path_rule {
    uint64_t access;
    int32_t folder;
} __attribute__((packed));

static struct ruleset every_right(int version) {
    struct ruleset rules = {.files = ACCESS_ALL};
    rules.files |= version >= 2 ? ACCESS_MOVE : 0;
    rules.files |= version >= 3 ? ACCESS_TRUNCATE : 0;
    rules.files |= version >= 5 ? ACCESS_CONTROL_DEVICE : 0;
    rules.network = version >= 4 ? ACCESS_NETWORK : 0;
    rules.scope = version >= 6 ? SCOPE_ALL : 0;
    return rules;
}

/* A path that no longer exists needs no rule. */
static bool allow_path(int rules, const char *path, uint64_t access) {
    struct stat status;
    struct path_rule rule = {.folder = open(path, O_PATH | O_CLOEXEC)};
    if (rule.folder < 0)
        return true;
    bool is_folder = fstat(rule.folder, &status) == 0 && S_ISDIR(status.st_mode);
    rule.access = is_folder ? access
                            : access & (ACCESS_EXECUTE | ACCESS_WRITE_FILE | ACCESS_READ_FILE | ACCESS_TRUNCATE |
                                        ACCESS_CONTROL_DEVICE);
    bool is_allowed = syscall(SYS_landlock_add_rule, rules, RULE_PATH, &rule, 0) == 0;
    close(rule.folder);
    return is_allowed;
}

static bool allow_all(int rules, const struct ruleset *handled, const gs_readable *readable, const char *scratch) {
    bool is_good =
        allow_path(rules, scratch, handled->files & ~(uint64_t)ACCESS_CONTROL_DEVICE) &&
        allow_path(rules, "/dev/null", handled->files & (ACCESS_READ_FILE | ACCESS_WRITE_FILE | ACCESS_TRUNCATE));
    for (size_t i = 0; i < readable->count && is_good; i++)
        is_good = allow_path(rules, readable->data[i], ACCESS_EXECUTE | ACCESS_READ_FILE | ACCESS_READ_FOLDER);
    return is_good;
}

static gs_code restrict_files(const gs_readable *readable, const char *scratch, gs_error *error) {
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);
    if (version < 1)
        return GS_OK; /* the kernel lacks Landlock */
    struct ruleset handled = every_right((int)version);
    size_t size = version >= 6 ? sizeof handled : version >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
    int rules = (int)syscall(SYS_landlock_create_ruleset, &handled, size, 0);
    if (rules < 0)
        return gs_fail_system(error, "restrict", "the compiler");
    bool is_done = allow_all(rules, &handled, readable, scratch) && syscall(SYS_landlock_restrict_self, rules, 0) == 0;
    gs_code code = is_done ? GS_OK : gs_fail_system(error, "restrict", "the compiler");
    close(rules);
    return code;
}

/* ---- system calls ---- */

#if defined(__x86_64__)
#    define THIS_MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#    define THIS_MACHINE AUDIT_ARCH_AARCH64
#endif

/* A filter is a program for a small virtual machine: load the number, compare, jump, return. */
static gs_code restrict_calls(gs_error *error) {
#ifdef THIS_MACHINE
    enum { REFUSED = SECCOMP_RET_ERRNO | EACCES };
    static const uint32_t forbidden[] = {SYS_socket,  SYS_setsid, SYS_setpgid,          SYS_ptrace,
                                         SYS_unshare, SYS_setns,  SYS_process_vm_readv, SYS_process_vm_writev,
                                         425 /* io_uring_setup */};
    struct sock_filter code[5 + 2 * GS_COUNT(forbidden) + 1] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_MACHINE, 1, 0), BPF_STMT(BPF_RET | BPF_K, REFUSED),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    size_t count = 4;
    code[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 2 * GS_COUNT(forbidden) - 1, 0);
    for (size_t i = 0; i < GS_COUNT(forbidden); i++) {
        code[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[i], 0, 1);
        code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, REFUSED);
    }
    code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = (unsigned short)count, .filter = code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 && errno != EINVAL && errno != ENOSYS)
        return gs_fail_system(error, "restrict", "the compiler");
#endif
    (void)error;
    return GS_OK;
}

gs_code gs_sandbox_enter(const gs_readable *readable, const char *scratch, gs_error *error) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return gs_fail_system(error, "restrict", "the compiler");
    gs_code code = restrict_files(readable, scratch, error);
    return code == GS_OK ? restrict_calls(error) : code;
}

/* ---- resources of a process group ---- */

static bool read_line(const char *format, pid_t process, char *line, size_t size) {
    char path[60];
    snprintf(path, sizeof path, format, (int)process);
    FILE *file = fopen(path, "re");
    bool is_read = file && fgets(line, (int)size, file);
    if (file)
        fclose(file);
    return is_read;
}

static uint64_t private_bytes(pid_t process) {
    char line[200];
    unsigned long resident = 0, shared = 0;
    if (!read_line("/proc/%d/statm", process, line, sizeof line) ||
        sscanf(line, "%*u %lu %lu", &resident, &shared) != 2 || shared > resident)
        return 0;
    return (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* No file of a process outside of the group is read, whatever its user: /proc/PROCESS/stat can wait for a process, and
   it waits forever for one that holds a file of a file system that does not answer. */
bool gs_sandbox_measure(pid_t group, uint64_t *bytes, uint32_t *processes) {
    DIR *all = opendir("/proc");
    *bytes = 0;
    *processes = 0;
    for (struct dirent *entry; all && (entry = readdir(all));) {
        pid_t process = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atoi(entry->d_name) : 0;
        if (!process || getpgid(process) != group)
            continue;
        *bytes += private_bytes(process);
        ++*processes;
    }
    if (all)
        closedir(all);
    return *processes > 0;
}
