/*
 * attack_kernels.c: kernels that take the worker with them, and processes that are stopped for moments.
 *
 * A kernel that faults or never ends resets other clients. docs/share.md says so. These run against a daemon of their
 * own, without honest clients, whose limit for kernels is short.
 */
#include "hostile.h"

#include <signal.h>

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
