/*
 * attack_floods.c: more connections, sessions, requests, memory and work than anybody needs.
 *
 * Some of these are allowed as often as the daemon allows them. The question is what they cost the others.
 */
#define _GNU_SOURCE
#include "hostile.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Descriptors for the many connections of this process. */
static void allow_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void hold(struct attacker *me, int ms) {
    for (int i = 0; i < ms && attacker_has_time(me); i += 5)
        hostile_sleep_ms(5);
}

/* ---- connections ---- */

void connect_silent(struct attacker *me) {
    enum { COUNT = 1024, HELD_MS = 300 };
    static int sockets[COUNT];
    int count = 0;
    allow_descriptors();
    while (count < COUNT && attacker_has_time(me) && (sockets[count] = raw_connect(me)) >= 0)
        count++;
    hold(me, HELD_MS);
    while (count)
        close(sockets[--count]);
}

void half_hello(struct attacker *me) {
    gs_wire_hello hello = raw_hello("half");
    char bytes[400] = {0};
    int socket = raw_connect(me);
    if (socket < 0)
        return;
    switch (attacker_random(me, 5)) {
    case 0:
        hello.magic++;
        break;
    case 1:
        hello.version = (uint32_t)attacker_random(me, 10) + 3;
        break;
    case 2:
        hello.kind = (uint32_t)attacker_random(me, UINT32_MAX);
        break;
    case 3:
        hello.weight = UINT32_MAX;
        hello.priority = INT32_MIN;
        hello.most_sms = UINT32_MAX;
        memset(hello.name, '\x9b', sizeof hello.name);
        break;
    default:
        break;
    }
    memcpy(bytes, &hello, sizeof hello);
    raw_send(socket, bytes, attacker_random(me, 2) ? sizeof hello : attacker_random(me, sizeof bytes), NULL, 0);
    if (attacker_random(me, 2))
        hostile_sleep_ms(1);
    close(socket);
}

void sessions_idle(struct attacker *me) {
    enum { COUNT = 300, HELD_MS = 300 };
    static struct raw raws[COUNT];
    int count = 0;
    allow_descriptors();
    while (count < COUNT && attacker_has_time(me) && raw_open(me, &raws[count]))
        count++;
    hold(me, HELD_MS);
    while (count)
        raw_close(me, &raws[--count]);
}

void connect_close(struct attacker *me) {
    for (int i = 0; i < 100 && attacker_has_time(me); i++) {
        int socket = raw_connect(me);
        if (socket >= 0)
            close(socket);
    }
}

void status_unread(struct attacker *me) {
    enum { COUNT = 64 };
    int sockets[COUNT], count = 0;
    gs_wire_hello hello = raw_hello("");
    hello.kind = GS_WIRE_STATUS;
    while (count < COUNT && attacker_has_time(me) && (sockets[count] = raw_connect(me)) >= 0)
        raw_send(sockets[count++], &hello, sizeof hello, NULL, 0);
    while (count)
        close(sockets[--count]);
}

/* ---- memory ---- */

/* The replies are not waited for: slot 0 has the last one. */
void allocations_tiny(struct attacker *me) {
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    for (uint32_t i = 1; i < GS_WIRE_MEMORIES - 1; i++) {
        const gs_wire_allocate command = {
            .head = {.command = GS_WIRE_ALLOCATE}, .reply = i % 64, .ticket = i, .memory = i, .bytes = 1};
        if (!raw_put_wait(me, &raw, &command, sizeof command))
            break;
    }
    hold(me, 100);
    raw_close(me, &raw);
}

void regions_many(struct attacker *me) {
    struct raw raw;
    uint64_t bytes = (uint64_t)1 << (16 + attacker_random(me, 25));
    if (!raw_open(me, &raw))
        return;
    for (uint32_t i = 1; i < GS_WIRE_REGIONS && attacker_has_time(me); i++) {
        int fd = raw_memory(bytes, RAW_SEALED);
        gs_client_code code = raw_share(me, &raw, i, fd, bytes);
        close(fd);
        if (code != GS_CLIENT_OK)
            break;
    }
    hold(me, 100);
    raw_close(me, &raw);
}

/* ---- work ---- */

void event_flood(struct attacker *me) {
    enum { EVENTS = 200000 };
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    for (uint32_t i = 0; i < EVENTS; i++) {
        const gs_wire_record event = {.head = {.command = GS_WIRE_EVENT, .stream = i % 32}, .event = i % 1024};
        if (!raw_put_wait(me, &raw, &event, sizeof event))
            break;
    }
    raw_close(me, &raw);
}

static void flood_launches(struct attacker *me, const gs_wire_hello *hello) {
    enum { LAUNCHES = 20000 };
    struct raw raw;
    if (!raw_open_ready(me, &raw, hello))
        return;
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        const struct raw_launch launch = raw_launch(i % 32, KERNEL_TOUCH, 1, i);
        if (!raw_put_wait(me, &raw, &launch, sizeof launch))
            break;
    }
    raw_close(me, &raw);
}

void launch_flood(struct attacker *me) {
    flood_launches(me, NULL);
}

void priority_flood(struct attacker *me) {
    gs_wire_hello hello = raw_hello("urgent");
    hello.priority = 10;
    hello.weight = 1000;
    flood_launches(me, &hello);
}

/* Each arrival and each end is a decision. The kernels take a few milliseconds and can be confined. */
void resize_flood(struct attacker *me) {
    enum { COUNT = 4 };
    struct raw raws[COUNT];
    int count = 0;
    while (count < COUNT && raw_open_ready(me, &raws[count], NULL))
        count++;
    for (uint32_t i = 0; i < 40 && attacker_has_time(me) && count; i++) {
        const struct raw_launch launch = raw_launch(i % 8, KERNEL_SPIN, 64, 20000);
        raw_put(&raws[attacker_random(me, (uint64_t)count)], &launch, sizeof launch);
        hostile_sleep_ms(1);
    }
    while (count)
        raw_close(me, &raws[--count]);
}

/* What the daemon keeps for each action must be free again when they are gone. */
void actions_many(struct attacker *me) {
    enum { COUNT = 48, EVENTS = 511, TURNS = 100000 };
    static struct raw raws[COUNT];
    int count = 0;
    while (count < COUNT && raw_open_ready(me, &raws[count], NULL))
        count++;
    for (int i = 0; i < count && attacker_has_time(me); i++) {
        const struct raw_launch launch = raw_launch(0, KERNEL_SPIN, 1, TURNS);
        raw_put(&raws[i], &launch, sizeof launch);
        for (uint32_t event = 0; event < EVENTS; event++) {
            const gs_wire_record record = {.head = {.command = GS_WIRE_EVENT}, .event = event % GS_CLIENT_EVENTS};
            raw_put(&raws[i], &record, sizeof record);
        }
    }
    hold(me, 50);
    while (count)
        raw_close(me, &raws[--count]);
}

void shapes_many(struct attacker *me) {
    enum { LAUNCHES = 400 };
    struct raw raw;
    if (!raw_open_ready(me, &raw, NULL))
        return;
    for (uint32_t i = 0; i < LAUNCHES && attacker_has_time(me); i++) {
        struct raw_launch launch = raw_launch(i % GS_CLIENT_STREAMS, KERNEL_TOUCH, 1, 1);
        launch.launch.shared_bytes = attacker_random(me, 40000);
        launch.launch.block[0] = 1 + (uint32_t)attacker_random(me, 32);
        launch.launch.grid[0] = 1 + (uint32_t)attacker_random(me, 8);
        raw_put_wait(me, &raw, &launch, sizeof launch);
    }
    raw_close(me, &raw);
}

enum { LARGE = 256 << 20 };

void copy_flood(struct attacker *me) {
    enum { COPIES = 8 };
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    int fd = raw_memory(LARGE, RAW_SEALED);
    if (fd >= 0 && raw_allocate(me, &raw, 1, LARGE) == GS_CLIENT_OK &&
        raw_share(me, &raw, 1, fd, LARGE) == GS_CLIENT_OK) {
        for (uint32_t i = 0; i < COPIES; i++) {
            const gs_wire_copy copy = {.head = {.command = i % 2 ? GS_WIRE_COPY_IN : GS_WIRE_COPY_OUT, .stream = i},
                                       .memory = 1,
                                       .region = 1,
                                       .bytes = LARGE};
            raw_put(&raw, &copy, sizeof copy);
        }
        raw_wait_done(me, &raw, COPIES - 1, 2 + COPIES);
    }
    if (fd >= 0)
        close(fd);
    raw_close(me, &raw);
}

void fill_flood(struct attacker *me) {
    enum { FILLS = 8 };
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    if (raw_allocate(me, &raw, 1, LARGE) == GS_CLIENT_OK) {
        for (uint32_t i = 0; i < FILLS; i++) {
            const gs_wire_fill fill = {
                .head = {.command = GS_WIRE_FILL, .stream = i}, .memory = 1, .value = i, .bytes = LARGE};
            raw_put(&raw, &fill, sizeof fill);
        }
        raw_wait_done(me, &raw, FILLS - 1, 1 + FILLS);
    }
    raw_close(me, &raw);
}

void load_flood(struct attacker *me) {
    gs_wire_load load;
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    int source = raw_kernels(&load);
    for (int i = 0; i < 50 && attacker_has_time(me); i++) {
        if (raw_load(me, &raw, 1, source, &load) != GS_CLIENT_OK)
            break;
        raw_free(me, &raw, GS_WIRE_UNLOAD, 1);
    }
    close(source);
    raw_close(me, &raw);
}
