/*
 * recovery.c: how long a client disturbs others whose kernel faults, never ends or writes everywhere, or that takes all
 * device memory.
 *
 *   bench/recovery PROGRAM [OPTION...]
 *
 * PROGRAM is gridsmith; the options go to its `serve` (--device cuda --limit 1 --mps). Three honest clients of the
 * daemon work, and two programs of `gridsmith run` beside them, a latency and a best-effort one; they are this program
 * again. Then the bad clients come, one after the other. Each time all must work again before the next one comes. A
 * client that gets an error opens again, and a program starts again. A row for each bad client, with the errors of the
 * honest clients, the latency program and the best-effort program, and in seconds:
 *
 *   again   from an error to the end of the next round, at most
 *   round   the longest round without an error
 *
 * The exit code is 1 if a result is wrong, or somebody does not work again.
 */
#define _GNU_SOURCE
#include "floods.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CLIENT, LATENCY, BEST_EFFORT, KINDS };
enum { NOBODY, MEMORY, FAULT, ENDLESS, SCRIBBLE, AFTERWARDS, PHASES };
enum { HONEST = 3, NUMBERS = 4000, THREADS = 128, BLOCKS = 132, TURNS = 5000 };

static const char *const phases[PHASES] = {"nobody",     "takes all memory",  "faults",
                                           "never ends", "writes everywhere", "afterwards"};

/* In a file that all processes map. */
struct page {
    _Atomic int phase, ends, starting, failing; /* the latter: how many do not work yet, and not any more */
    struct {
        _Atomic uint64_t rounds, errors, wrong, again_ns, round_ns;
    } seen[PHASES][KINDS];
    struct {
        int64_t since_ns; /* 0: it works */
        int phase;
    } failed[KINDS];        /* programs */
    char said[PHASES][200]; /* what the bad client was told */
};

static struct page *page;

static void give_up(const char *what, const char *why) {
    fprintf(stderr, "recovery: %s: %s\n", what, why);
    exit(1);
}

static void map_page(const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof *page) != 0)
        give_up("page", path);
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED)
        give_up("page", "out of memory");
    close(file);
}

/* Others may raise it at the same time. */
static void raise_to(_Atomic uint64_t *most, int64_t value) {
    uint64_t before = *most;
    while (before < (uint64_t)value && !atomic_compare_exchange_weak(most, &before, (uint64_t)value))
        ;
}

/* ---- clients ---- */

static const char text[] = "__global__ void scale(int *out, int n) {\n"
                           "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                           "    if (i < n) out[i] = i * 3;\n"
                           "}\n"
                           "__global__ void fault(int *out, int n) { out[n - (1ll << 40)] = 1; }\n"
                           "__global__ void endless(volatile int *out, int n) { while (out[0] != n + 1) out[1] = 1; }\n"
                           "__global__ void scribble(int *out, int n) {\n"
                           "    unsigned long long x = threadIdx.x * 2654435761ull + blockIdx.x + 1;\n"
                           "    for (;;) {\n"
                           "        x = x * 6364136223846793005ull + 1442695040888963407ull;\n"
                           "        *(volatile int *)(x >> 17 & ~3ull) = n;\n"
                           "    }\n"
                           "}\n";
static const char *const names[] = {"scale", "fault", "endless", "scribble"};

struct session {
    gs_client *client;
    uint32_t module;
    gs_client_memory memory;
};

static gs_client_code open_session(struct session *session, const char *socket, const char *name) {
    gs_client_options options = {.socket = socket, .name = name};
    gs_client_source source = {.name = "recovery.cu", .text = text, .kernels = names, .kernel_count = 4};
    gs_client_code code = gs_client_open(&options, &session->client);
    if (code == GS_CLIENT_OK)
        code = gs_client_load(session->client, &source, &session->module);
    if (code == GS_CLIENT_OK)
        code = gs_client_malloc(session->client, NUMBERS * sizeof(int), &session->memory);
    return code;
}

static void close_session(struct session *session) {
    gs_client_close(session->client);
    session->client = NULL;
}

static gs_client_code launch_kernel(const struct session *session, uint32_t kernel) {
    int count = NUMBERS;
    gs_client_argument arguments[] = {GS_CLIENT_AT(session->memory), GS_CLIENT_VALUE(count)};
    gs_client_launch launch = {.module = session->module,
                               .kernel = kernel,
                               .grid = {BLOCKS},
                               .block = {THREADS},
                               .arguments = arguments,
                               .argument_count = 2};
    return gs_client_start(session->client, 0, &launch);
}

static gs_client_code play_round(struct session *session, const char *socket, uint64_t *wrong) {
    static int numbers[NUMBERS];
    gs_client_code code = session->client ? GS_CLIENT_OK : open_session(session, socket, "honest");
    if (code == GS_CLIENT_OK)
        code = launch_kernel(session, 0);
    if (code == GS_CLIENT_OK)
        code = gs_client_copy_out(session->client, 0, numbers, session->memory, sizeof numbers);
    if (code == GS_CLIENT_OK)
        code = gs_client_wait(session->client, 0);
    for (int i = 0; code == GS_CLIENT_OK && i < NUMBERS; i++)
        *wrong += numbers[i] != i * 3;
    return code;
}

static void be_honest(const char *socket) {
    struct session session = {.client = NULL};
    int64_t failed_ns = 0;
    int failed_in = 0;
    bool has_worked = false;
    while (!page->ends) {
        int phase = page->phase;
        uint64_t wrong = 0;
        int64_t start_ns = gs_now_ns();
        bool is_new = !session.client;
        gs_client_code code = play_round(&session, socket, &wrong);
        page->seen[phase][CLIENT].rounds += code == GS_CLIENT_OK;
        page->seen[phase][CLIENT].wrong += wrong;
        page->seen[phase][CLIENT].errors += code != GS_CLIENT_OK;
        if (code != GS_CLIENT_OK) {
            if (!failed_ns) {
                failed_ns = gs_now_ns();
                failed_in = phase;
                page->failing++;
            }
            close_session(&session);
        } else if (failed_ns) {
            raise_to(&page->seen[failed_in][CLIENT].again_ns, gs_now_ns() - failed_ns);
            failed_ns = 0;
            page->failing--;
        } else if (!is_new) {
            raise_to(&page->seen[phase][CLIENT].round_ns, gs_now_ns() - start_ns);
        }
        if (code == GS_CLIENT_OK && !has_worked) {
            has_worked = true;
            page->starting--;
        }
        flood_sleep(0.001);
    }
    close_session(&session);
}

/* Does what the phase says, and notes what it is told. */
static void be_bad(const char *socket, int phase) {
    static const uint32_t kernels[PHASES] = {[FAULT] = 1, [ENDLESS] = 2, [SCRIBBLE] = 3};
    struct session session = {.client = NULL};
    gs_client_memory memory;
    gs_client_code code = open_session(&session, socket, "bad");
    size_t bytes = (size_t)1 << 40, taken = 0;
    for (; code == GS_CLIENT_OK && phase == MEMORY && bytes >= 4096; bytes /= 2)
        while (gs_client_malloc(session.client, bytes, &memory) == GS_CLIENT_OK)
            taken += bytes;
    if (phase == MEMORY) {
        snprintf(page->said[phase], sizeof *page->said, "%zu MiB, then: %s", taken >> 20, gs_client_message());
        flood_sleep(1);
    } else {
        if (code == GS_CLIENT_OK)
            code = launch_kernel(&session, kernels[phase]);
        if (code == GS_CLIENT_OK)
            code = gs_client_wait(session.client, 0);
        snprintf(page->said[phase], sizeof *page->said, "%s", code ? gs_client_message() : "no error");
    }
    close_session(&session);
}

/* ---- programs of `gridsmith run` ---- */

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry work(.param .u64 out, .param .u32 turns)\n{\n"
    "    .reg .pred %p<2>;\n    .reg .b32 %r<7>;\n    .reg .b64 %d<5>;\n"
    "    ld.param.u64 %d1, [out];\n    ld.param.u32 %r1, [turns];\n"
    "    mov.u32 %r2, %ctaid.x;\n    mov.u32 %r3, %ntid.x;\n    mov.u32 %r4, %tid.x;\n"
    "    mad.lo.s32 %r5, %r2, %r3, %r4;\n    mov.u32 %r6, %r5;\n"
    "again:\n    mad.lo.s32 %r6, %r6, 1664525, 1013904223;\n    add.s32 %r1, %r1, -1;\n"
    "    setp.ne.s32 %p1, %r1, 0;\n    @%p1 bra again;\n"
    "    cvta.to.global.u64 %d2, %d1;\n    mul.wide.u32 %d3, %r5, 4;\n    add.s64 %d4, %d2, %d3;\n"
    "    st.global.u32 [%d4], %r6;\n    ret;\n}\n";

#define CALLS(X)                                                                                                       \
    X(cuInit, (unsigned))                                                                                              \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                                        \
    X(cuCtxSetCurrent, (void *))                                                                                       \
    X(cuModuleLoadData, (void **, const void *))                                                                       \
    X(cuModuleGetFunction, (void **, void *, const char *))                                                            \
    X(cuMemAlloc_v2, (uint64_t *, size_t))                                                                             \
    X(cuStreamSynchronize, (void *))                                                                                   \
    X(cuMemcpyDtoHAsync_v2, (void *, uint64_t, size_t, void *))                                                        \
    X(cuLaunchKernel,                                                                                                  \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))

#define POINTER(name, arguments) int(*name) arguments;
static struct { CALLS(POINTER) } cuda;

static int program_kind;
static char **program_words;

static void check(int code) {
    if (!code)
        return;
    int phase = page->phase;
    page->seen[phase][program_kind].errors++;
    if (!page->failed[program_kind].since_ns) {
        fprintf(stderr, "recovery: %s: the driver failed: %d\n", program_words[3], code);
        page->failed[program_kind].since_ns = gs_now_ns();
        page->failed[program_kind].phase = phase;
        page->failing++;
    }
    flood_sleep(0.02);
    if (page->ends)
        exit(1);
    execv("/proc/self/exe", program_words);
    give_up(program_words[3], "it cannot start again");
}

static void note_round(int phase, int64_t start_ns, bool is_first) {
    int64_t now_ns = gs_now_ns(), since_ns = page->failed[program_kind].since_ns;
    page->seen[phase][program_kind].rounds++;
    if (since_ns) {
        raise_to(&page->seen[page->failed[program_kind].phase][program_kind].again_ns, now_ns - since_ns);
        page->failed[program_kind].since_ns = 0;
        page->failing--;
    } else if (is_first) {
        page->starting--;
    } else {
        raise_to(&page->seen[phase][program_kind].round_ns, now_ns - start_ns);
    }
}

static void *start_cuda(uint64_t *memory) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *found, *context, *module, *function;
    if (!driver)
        give_up("a program of run", dlerror());
#define FIND(name, arguments)                                                                                          \
    found = dlsym(driver, #name);                                                                                      \
    memcpy(&cuda.name, &found, sizeof found);
    CALLS(FIND)
    check(cuda.cuInit(0));
    check(cuda.cuDevicePrimaryCtxRetain(&context, 0));
    check(cuda.cuCtxSetCurrent(context));
    check(cuda.cuModuleLoadData(&module, ptx));
    check(cuda.cuModuleGetFunction(&function, module, "work"));
    check(cuda.cuMemAlloc_v2(memory, BLOCKS * THREADS * 4));
    return function;
}

static int work_beside(void) {
    static uint32_t numbers[BLOCKS * THREADS];
    uint64_t memory;
    void *function = start_cuda(&memory);
    int turns = TURNS;
    uint32_t expected = 1;
    for (int i = 0; i < turns; i++)
        expected = expected * 1664525u + 1013904223u;
    for (int64_t rounds = 0; !page->ends; rounds++) {
        int phase = page->phase;
        int64_t start_ns = gs_now_ns();
        void *values[] = {&memory, &turns};
        check(cuda.cuLaunchKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, values, NULL));
        check(cuda.cuMemcpyDtoHAsync_v2(numbers, memory, sizeof numbers, NULL));
        check(cuda.cuStreamSynchronize(NULL));
        page->seen[phase][program_kind].wrong += numbers[1] != expected;
        note_round(phase, start_ns, rounds == 0);
        memset(numbers, 0, sizeof numbers);
        flood_sleep(0.001);
    }
    return 0;
}

static pid_t start_beside(const char *program, const char *socket, const char *path, int kind) {
    char own[1024];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = '\0';
    const char *class = kind == LATENCY ? "latency" : "best-effort";
    const char *option = kind == LATENCY ? "--latency" : "--best-effort";
    const char *const words[] = {program, "run", "--socket", socket, option, "--", own, "--program", path, class, NULL};
    pid_t process = 0;
    const gs_process_options options = {.words = words, .errors_fd = STDERR_FILENO, .end_signal = SIGKILL};
    return gs_process_try(&options, &process) ? 0 : process;
}

/* ---- the table ---- */

/* Waits until everybody works, for so long at most. */
static bool wait_for_all(_Atomic int *who, double seconds) {
    for (int i = 0; i < seconds * 100 && *who; i++)
        flood_sleep(0.01);
    return !*who;
}

static bool play_phase(const char *socket, int phase) {
    page->phase = phase;
    pid_t bad = phase == NOBODY || phase == AFTERWARDS ? -1 : flood_fork();
    if (bad == 0) {
        be_bad(socket, phase);
        _exit(0);
    }
    int status;
    if (bad > 0 && !gs_process_wait_until(bad, gs_now_ns() + 20 * (int64_t)1000000000, &status)) {
        flood_end(bad, SIGKILL);
        snprintf(page->said[phase], sizeof *page->said, "no answer for 20 s");
    }
    flood_sleep(1);
    return wait_for_all(&page->failing, 20);
}

static bool print_phase(int phase, bool work) {
    uint64_t wrong = 0;
    printf("%-18s", phases[phase]);
    for (int i = 0; i < KINDS; i++) {
        wrong += page->seen[phase][i].wrong;
        printf(" %6llu %7.3f %7.3f |", (unsigned long long)page->seen[phase][i].errors,
               (double)page->seen[phase][i].again_ns / 1e9, (double)page->seen[phase][i].round_ns / 1e9);
    }
    printf(" %s%s%s\n", page->said[phase], wrong ? "; WRONG RESULTS" : "",
           work ? "" : "; SOMEBODY DOES NOT WORK AGAIN");
    fflush(stdout);
    return !wrong && work;
}

static pid_t start_daemon(const char *program, const char *folder, const char *socket, char **more) {
    const char *words[64] = {program, "serve", "--socket", socket, "--cache", folder, "--profiles", ""};
    for (int i = 8; i < 63 && *more; i++)
        words[i] = *more++;
    pid_t process;
    char *json = NULL;
    const gs_process_options options = {.words = words, .errors_fd = STDERR_FILENO, .end_signal = SIGTERM};
    if (gs_process_try(&options, &process) != 0)
        return 0;
    int status;
    for (int i = 0; i < 2000 && !json && !gs_process_wait_until(process, 0, &status); i++)
        if (gs_status_request(socket, &json, NULL) != GS_OK)
            flood_sleep(0.01);
    bool is_there = json != NULL;
    free(json);
    return is_there ? process : 0;
}

int main(int argc, char **argv) {
    enum { MEMBERS = HONEST + 2 };
    if (argc == 4 && strcmp(argv[1], "--program") == 0) {
        map_page(argv[2]);
        program_words = argv;
        program_kind = strcmp(argv[3], "latency") == 0 ? LATENCY : BEST_EFFORT;
        return work_beside();
    }
    char *folder = gs_folder_make_in("/tmp", "gridsmith-recovery", NULL), socket[80], path[80];
    if (argc < 2 || !folder)
        give_up("usage", "bench/recovery PROGRAM [OPTION...]");
    snprintf(socket, sizeof socket, "%s/socket", folder);
    snprintf(path, sizeof path, "%s/page", folder);
    map_page(path);
    pid_t daemon = start_daemon(argv[1], folder, socket, argv + 2), members[MEMBERS];
    if (!daemon)
        give_up("daemon", "it does not answer");
    page->starting = MEMBERS;
    for (int i = 0; i < HONEST; i++)
        if ((members[i] = flood_fork()) == 0) {
            be_honest(socket);
            _exit(0);
        }
    for (int i = 0; i < 2; i++)
        members[HONEST + i] = start_beside(argv[1], socket, path, i ? BEST_EFFORT : LATENCY);
    bool is_well = wait_for_all(&page->starting, 30);
    if (!is_well)
        fprintf(stderr, "recovery: %d of %d do not work after 30 s\n", page->starting, MEMBERS);
    memset(page->seen, 0, sizeof page->seen);
    printf("%-18s %-24s %-24s %-24s\n%-18s", "", "     clients", "     latency program", "     best-effort program",
           "a client that");
    for (int i = 0; i < KINDS; i++)
        printf(" %6s %7s %7s |", "errors", "again s", "round s");
    printf(" it was told\n");
    for (int i = 0; i < PHASES; i++)
        is_well = print_phase(i, play_phase(socket, i)) && is_well;
    page->ends = 1;
    for (int i = 0; i < MEMBERS; i++) {
        int status = 1;
        if (!gs_process_wait_until(members[i], gs_now_ns() + 5 * (int64_t)1000000000, &status))
            flood_end(members[i], SIGKILL);
        is_well = is_well && status == 0;
    }
    flood_end(daemon, SIGTERM);
    gs_folder_remove(folder);
    free(folder);
    return is_well ? 0 : 1;
}
