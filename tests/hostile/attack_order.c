/*
 * attack_order.c: attacks on the order of commands and files, and on what is reused while it is in use.
 */
#define _GNU_SOURCE
#include "hostile.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 4096 };

/* A session must be ended with INVALID. */
static void must_end(struct attacker *me, struct raw *raw, const char *what) {
    raw_wait_end(me, raw, HOSTILE_PATIENCE_MS);
    uint32_t code = raw_end_code(raw);
    if (attacker_has_time(me) && code != GS_CLIENT_INVALID)
        attacker_blames(me, "%s: the end code is %u (%.80s)", what, code, raw->page->end_message);
    raw_close(me, raw);
}

/* ---- files ---- */

void command_without_file(struct attacker *me) {
    const gs_wire_share share = {.head = {.command = GS_WIRE_SHARE}, .region = 1, .bytes = BYTES};
    const gs_wire_load load = {.head = {.command = GS_WIRE_LOAD}, .module = 1, .kernels = 1, .bytes = BYTES};
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    if (attacker_random(me, 2))
        raw_put(&raw, &share, sizeof share);
    else
        raw_put(&raw, &load, sizeof load);
    must_end(me, &raw, "a command without its file");
}

void file_without_command(struct attacker *me) {
    struct raw raw;
    uint64_t count = 1 + attacker_random(me, 8);
    if (!raw_open(me, &raw))
        return;
    int fd = raw_memory(BYTES, RAW_SEALED);
    for (uint64_t i = 0; i < count; i++)
        raw_send_file(&raw, fd);
    close(fd);
    if (count > GS_WIRE_FILES) {
        must_end(me, &raw, "more than 4 files");
        return;
    }
    raw_wait_end(me, &raw, 3);
    raw_close(me, &raw);
}

/* The same descriptor for a region and a source, a file too many between them, files in the wrong order. */
void file_for_another(struct attacker *me) {
    gs_wire_load load;
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    int memory = raw_memory(BYTES, RAW_SEALED), source = raw_kernels(&load);
    const gs_wire_share share = {.head = {.command = GS_WIRE_SHARE},
                                 .region = 1,
                                 .ticket = 1,
                                 .bytes = attacker_random(me, 2) ? BYTES : BYTES + 8};
    const int order[][2] = {{memory, source}, {source, memory}, {memory, memory}, {source, source}};
    const int *sent = order[attacker_random(me, HOSTILE_COUNT(order))];
    raw_send_file(&raw, sent[0]);
    raw_send_file(&raw, sent[1]);
    load.module = 1;
    load.ticket = 2;
    load.reply = 1;
    raw_put(&raw, &share, sizeof share);
    raw_put(&raw, &load, sizeof load);
    close(memory);
    close(source);
    raw_wait_end(me, &raw, 30);
    raw_close(me, &raw);
}

/* ---- handles ---- */

/* Every kind of handle is freed and used again at once, behind launches that still use the old one. All of it is
   allowed, so the session must not end. */
void handles_reused(struct attacker *me) {
    enum { TURNS = 6, LAUNCHES = 150 };
    gs_wire_load load;
    struct raw raw;
    if (!raw_open_ready(me, &raw, NULL))
        return;
    int memory = raw_memory(BYTES, RAW_SEALED), source = raw_kernels(&load);
    for (uint32_t turn = 0; turn < TURNS && attacker_has_time(me) && !raw_end_code(&raw); turn++) {
        const gs_wire_copy copy = {
            .head = {.command = GS_WIRE_COPY_IN, .stream = turn}, .memory = 1, .region = 1, .bytes = BYTES};
        if (raw_share(me, &raw, 1, memory, BYTES) != GS_CLIENT_OK)
            break;
        for (uint32_t i = 0; i < LAUNCHES; i++) {
            const struct raw_launch launch = raw_launch(i % 4, KERNEL_SPIN, 4, 200);
            raw_put_wait(me, &raw, &launch, sizeof launch);
        }
        raw_put_wait(me, &raw, &copy, sizeof copy);
        raw_free(me, &raw, GS_WIRE_UNSHARE, 1);
        raw_free(me, &raw, GS_WIRE_UNLOAD, 1);
        raw_free(me, &raw, GS_WIRE_FREE, 1);
        if (raw_allocate(me, &raw, 1, BYTES) != GS_CLIENT_OK || raw_load(me, &raw, 1, source, &load) != GS_CLIENT_OK)
            break;
    }
    if (raw_end_code(&raw) == GS_CLIENT_INVALID)
        attacker_blames(me, "handles used again: %.100s", raw.page->end_message);
    close(memory);
    close(source);
    raw_close(me, &raw);
}

/* ---- much at once ---- */

static void fill_ring(struct attacker *me, struct raw *raw) {
    for (uint32_t i = 0; i < 3000 && attacker_has_time(me); i++) {
        const struct raw_launch launch = raw_launch(i % 32, KERNEL_TOUCH, 1, i);
        const gs_wire_fill fill = {.head = {.command = GS_WIRE_FILL, .stream = i % 32}, .memory = 1, .bytes = BYTES};
        const gs_wire_record event = {.head = {.command = GS_WIRE_EVENT, .stream = i % 32}, .event = i % 1024};
        if (!raw_put(raw, &launch, sizeof launch) || !raw_put(raw, &fill, sizeof fill) ||
            !raw_put(raw, &event, sizeof event))
            break;
    }
}

void all_in_flight(struct attacker *me) {
    struct raw raw;
    gs_wire_load load;
    if (!raw_open_ready(me, &raw, NULL))
        return;
    for (uint32_t i = 0; i < 8; i++) {
        const struct raw_launch launch = raw_launch(i, KERNEL_SPIN, 64, 20000);
        raw_put(&raw, &launch, sizeof launch);
    }
    fill_ring(me, &raw);
    int memory = raw_memory(BYTES, RAW_SEALED), source = raw_kernels(&load);
    for (int i = 0; i < GS_WIRE_FILES; i++)
        raw_send_file(&raw, i % 2 ? memory : source);
    atomic_store(&raw.page->client_sleeps, 1);
    raw_ring(&raw);
    hostile_sleep_ms((long)attacker_random(me, 5));
    close(memory);
    close(source);
    raw_close(me, &raw);
}

/* Small numbers where handles, streams, slots and sizes stand, and now and then a large one. */
void random_commands(struct attacker *me) {
    enum { COMMANDS = 40, WORDS = 24 };
#define SIZE(name, type) sizeof(type),
    static const uint32_t sizes[] = {GS_WIRE_COMMANDS(SIZE)};
#undef SIZE
    struct raw raw;
    if (!raw_open_ready(me, &raw, NULL))
        return;
    for (int i = 0; i < COMMANDS && attacker_has_time(me) && !raw_end_code(&raw); i++) {
        alignas(8) uint32_t words[WORDS] = {0};
        uint32_t command = (uint32_t)attacker_random(me, GS_WIRE_COMMAND_COUNT);
        for (size_t k = 2; k < WORDS; k++)
            words[k] = (uint32_t)attacker_random(me, attacker_random(me, 20) ? 3 : UINT32_MAX);
        words[0] = command;
        words[1] = (uint32_t)attacker_random(me, 4);
        uint32_t bytes = sizes[command] < sizeof words ? sizes[command] : (uint32_t)sizeof words;
        raw_put(&raw, words, bytes + (attacker_random(me, 30) ? 0 : 8));
    }
    raw_wait_end(me, &raw, 5);
    raw_close(me, &raw);
}

/* A process that is killed with everything open. */
void sudden_exit(struct attacker *me) {
    pid_t child = fork();
    if (child == 0) {
        struct raw raw;
        if (raw_open_ready(me, &raw, NULL)) {
            fill_ring(me, &raw);
            raw_wait_end(me, &raw, 100);
        }
        _exit(0);
    }
    hostile_sleep_ms((long)attacker_random(me, 30));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}
