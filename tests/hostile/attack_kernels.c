/*
 * attack_kernels.c: kernels that take the worker with them or want too much memory, and processes that are stopped for
 * moments.
 *
 * A kernel that faults or never ends resets other clients. docs/share.md says so. These run against a daemon of their
 * own, without honest clients, whose limit for kernels is short.
 */
#include "hostile.h"

#include <signal.h>
#include <unistd.h>

static void launch_and_wait(struct attacker *me, enum hostile_kernel kernel) {
    struct raw raw;
    if (!raw_open_ready(me, &raw, NULL))
        return;
    const struct raw_launch launch = raw_launch(0, kernel, 1, 1);
    raw_put(&raw, &launch, sizeof launch);
    raw_wait_end(me, &raw, HOSTILE_PATIENCE_MS);
    uint32_t code = raw_end_code(&raw);
    if (attacker_has_time(me) && code != GS_CLIENT_KERNEL && code != GS_CLIENT_RESET)
        attacker_blames(me, "kernel %d: the end code is %u", (int)kernel, code);
    raw_close(me, &raw);
}

void kernel_endless(struct attacker *me) {
    launch_and_wait(me, KERNEL_ENDLESS);
}

void kernel_faults(struct attacker *me) {
    static const enum hostile_kernel kernels[] = {KERNEL_FAULT, KERNEL_DEEP, KERNEL_DIVIDE};
    launch_and_wait(me, kernels[attacker_random(me, HOSTILE_COUNT(kernels))]);
}

void kernel_scribbles(struct attacker *me) {
    launch_and_wait(me, KERNEL_SCRIBBLE);
}

/* The daemon starts another one. */
void worker_killed(struct attacker *me) {
    struct raw raw;
    bool is_busy = attacker_random(me, 2) && raw_open_ready(me, &raw, NULL);
    if (is_busy) {
        const struct raw_launch launch = raw_launch(0, KERNEL_SPIN, 1000, 1000000);
        raw_put(&raw, &launch, sizeof launch);
        hostile_sleep_ms((long)attacker_random(me, 20));
    }
    pid_t worker = watch_worker(me->daemon);
    if (worker > 0)
        kill(worker, SIGKILL);
    if (is_busy) {
        raw_wait_end(me, &raw, HOSTILE_PATIENCE_MS);
        if (attacker_has_time(me) && raw_end_code(&raw) != GS_CLIENT_RESET && raw_end_code(&raw) != GS_CLIENT_KERNEL)
            attacker_blames(me, "the worker was killed: the end code is %u", raw_end_code(&raw));
        raw_close(me, &raw);
    }
    hostile_sleep_ms(500 + (long)attacker_random(me, 1000));
}

/* ---- memory ---- */

void memory_all(struct attacker *me) {
    struct raw raw;
    uint32_t memory = 1;
    if (!raw_open(me, &raw))
        return;
    for (uint64_t bytes = (uint64_t)1 << 40; bytes >= 4096 && attacker_has_time(me); bytes /= 2)
        while (memory < 1000 && raw_allocate(me, &raw, memory, bytes) == GS_CLIENT_OK)
            memory++;
    hostile_sleep_ms((long)attacker_random(me, 100));
    raw_close(me, &raw);
}

/* With what the kernel and its confined form have, the sum is small again. */
void shared_wraps(struct attacker *me) {
    struct raw raw;
    if (!raw_open_ready(me, &raw, NULL))
        return;
    struct raw_launch launch = raw_launch(0, KERNEL_TOUCH, 1, 1);
    launch.launch.shared_bytes = UINT64_MAX - attacker_random(me, 200);
    raw_put(&raw, &launch, sizeof launch);
    if (raw_wait_done(me, &raw, 0, 3) && raw.page->streams[0].code != GS_CLIENT_INVALID)
        attacker_blames(me, "a launch with %llu bytes of shared memory gets code %u",
                        (unsigned long long)launch.launch.shared_bytes, raw.page->streams[0].code);
    raw_close(me, &raw);
}

/* More than the device has: 1 GiB, on 4 SMs. */
void kernel_large(struct attacker *me) {
    static const char variables[] =
        "#define A(n) __device__ char a##n[50 << 20], b##n[50 << 20], c##n[50 << 20], d##n[50 << 20];\n"
        "#define U(n) a##n[turns] + b##n[turns] + c##n[turns] + d##n[turns]\n"
        "A(1) A(2) A(3) A(4) A(5)\n"
        "__global__ void large(int *out, int turns) { out[0] = U(1) + U(2) + U(3) + U(4) + U(5); }\n",
                      arrays[] = "__global__ void large(int *out, int turns) {\n"
                                 "    volatile char bytes[400000];\n"
                                 "    for (int i = 0; i < 400000; i += 4096) bytes[i] = (char)turns;\n"
                                 "    out[0] = bytes[turns];\n"
                                 "}\n";
    static const char *const names[] = {"large"};
    struct raw raw;
    gs_wire_load load;
    if (!raw_open(me, &raw))
        return;
    int source = raw_source("variables.cu", variables, sizeof variables - 1, NULL, 0, names, 1, &load);
    gs_client_code code = raw_load(me, &raw, 1, source, &load);
    if (attacker_has_time(me) && code != GS_CLIENT_MEMORY)
        attacker_blames(me, "a module of 1000 MiB is loaded: %s (%.100s)", gs_client_meaning(code),
                        raw.page->replies[0].message);
    close(source);
    source = raw_source("arrays.cu", arrays, sizeof arrays - 1, NULL, 0, names, 1, &load);
    if (raw_load(me, &raw, 2, source, &load) == GS_CLIENT_OK && raw_allocate(me, &raw, 1, 4096) == GS_CLIENT_OK) {
        struct raw_launch launch = raw_launch(0, 0, 8, 1);
        launch.launch.module = 2;
        launch.launch.block[0] = 1024;
        raw_put(&raw, &launch, sizeof launch);
        if (raw_wait_done(me, &raw, 0, 4) && raw.page->streams[0].code != GS_CLIENT_MEMORY)
            attacker_blames(me, "a launch with 1600 MiB of local variables gets code %u", raw.page->streams[0].code);
    }
    close(source);
    raw_close(me, &raw);
}

/* ---- stopping ---- */

/* Always continued, also where the attacker is killed: its parent does it then. */
static void stop_for_a_moment(struct attacker *me, pid_t process) {
    if (process <= 0)
        return;
    kill(process, SIGSTOP);
    hostile_sleep_ms(1 + (long)attacker_random(me, 40));
    kill(process, SIGCONT);
    hostile_sleep_ms((long)attacker_random(me, 100));
}

void daemon_stopped(struct attacker *me) {
    stop_for_a_moment(me, me->daemon);
}

void worker_stopped(struct attacker *me) {
    stop_for_a_moment(me, me->worker);
}
