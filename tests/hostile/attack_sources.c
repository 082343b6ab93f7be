/*
 * attack_sources.c: attacks on the compiler: sources that are large, slow or malformed, and what they may read.
 *
 * Loads here are not waited for longer than needed: a client that leaves must take its sources with it.
 */
#define _GNU_SOURCE
#include "hostile.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const kernel[] = {"k"};
static const char body[] = "\n__global__ void k(int *a) { a[0] = 1; }\n";

/* Sends a load without waiting for its reply. */
static bool send_load(struct attacker *me, struct raw *raw, uint32_t module, int source, const gs_wire_load *load) {
    gs_wire_load command = *load;
    command.module = module;
    command.reply = module % 64;
    command.ticket = ++raw->tickets;
    raw_send_file(raw, source);
    return raw_put_wait(me, raw, &command, sizeof command);
}

/* Sends a text as a source, waits a while, and leaves. */
static void send_text(struct attacker *me, const char *text, int ms) {
    gs_wire_load load;
    struct raw raw;
    int source = raw_source("hostile.cu", text, strlen(text), NULL, 0, kernel, 1, &load);
    if (source >= 0 && raw_open(me, &raw)) {
        send_load(me, &raw, 1, source, &load);
        raw_wait_end(me, &raw, ms);
        raw_close(me, &raw);
    }
    if (source >= 0)
        close(source);
}

/* ---- large ---- */

/* One file for all of them; each is hashed, and each is another module. */
void sources_large(struct attacker *me) {
    enum { COUNT = 200, MARGIN = 64 };
    size_t size = GS_WIRE_SOURCE_BYTES - MARGIN;
    char *text = malloc(size);
    gs_wire_load load;
    struct raw raw;
    if (!text)
        return;
    memset(text, ' ', size);
    snprintf(text, 100, "// %llu", (unsigned long long)attacker_random(me, UINT64_MAX));
    memcpy(text + size - sizeof body, body, sizeof body - 1);
    int source = raw_source("large.cu", text, size, NULL, 0, kernel, 1, &load);
    free(text);
    if (source >= 0 && raw_open(me, &raw)) {
        for (uint32_t i = 1; i <= COUNT && attacker_has_time(me) && !raw_end_code(&raw); i++) {
            send_load(me, &raw, i, source, &load);
            for (int k = 0; k < 100 && atomic_load(raw.read) != raw.position && attacker_has_time(me); k++)
                hostile_sleep_ms(1); /* at most 4 files may be on their way */
        }
        raw_wait_end(me, &raw, 100);
        raw_close(me, &raw);
    }
    if (source >= 0)
        close(source);
}

/* ---- slow ---- */

/* Each macro is the one before it ten times. */
static void macro_bomb(char *text, size_t size, uint64_t salt) {
    int at = snprintf(text, size, "// %llu\n#define A0 +1\n", (unsigned long long)salt);
    for (int i = 1; i < 10; i++)
        at += snprintf(text + at, size - (size_t)at, "#define A%d A%d A%d A%d A%d A%d A%d A%d A%d A%d A%d\n", i, i - 1,
                       i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    snprintf(text + at, size - (size_t)at, "__global__ void k(int *a) { a[0] = 0 A9; }\n");
}

static void template_bomb(char *text, size_t size, uint64_t salt) {
    snprintf(
        text, size,
        "// %llu\ntemplate <int n, int m> struct f { static const int v = f<n - 1, m>::v + f<n - 1, m + 1>::v; };\n"
        "template <int m> struct f<0, m> { static const int v = 1; };\n"
        "__global__ void k(int *a) { a[0] = f<800, 0>::v; }\n",
        (unsigned long long)salt);
}

void sources_slow(struct attacker *me) {
    static char text[8000];
    if (attacker_random(me, 2))
        macro_bomb(text, sizeof text, attacker_random(me, UINT64_MAX));
    else
        template_bomb(text, sizeof text, attacker_random(me, UINT64_MAX));
    send_text(me, text, 200);
}

/* ---- what a source reads ---- */

void sources_devices(struct attacker *me) {
    static const char *const files[] = {"/dev/zero",      "/dev/urandom", "/dev/tty", "/proc/kmsg",
                                        "/proc/self/mem", "fifo",         "huge",     "folder"};
    char text[600], path[200];
    const char *file = files[attacker_random(me, HOSTILE_COUNT(files))];
    snprintf(path, sizeof path, "%s%s%s", file[0] == '/' ? "" : me->folder, file[0] == '/' ? "" : "/", file);
    if (strcmp(file, "fifo") == 0)
        mkfifo(path, 0600);
    if (strcmp(file, "folder") == 0)
        mkdir(path, 0700);
    if (strcmp(file, "huge") == 0) {
        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        if (fd < 0 || ftruncate(fd, (off_t)1 << 36) != 0)
            return;
        close(fd);
    }
    snprintf(text, sizeof text, "// %llu\n#include \"%s\"%s", (unsigned long long)attacker_random(me, UINT64_MAX), path,
             body);
    send_text(me, text, 300);
}

/* ---- names ---- */

void source_names(struct attacker *me) {
    char touch[4][300];
    snprintf(touch[0], sizeof touch[0], "-DX=$(touch %s/owned)", me->folder);
    snprintf(touch[1], sizeof touch[1], "-DX;touch %s/owned", me->folder);
    snprintf(touch[2], sizeof touch[2], "-DX\n-o%s/owned", me->folder);
    snprintf(touch[3], sizeof touch[3], "%s/owned", me->folder);
    const char *const options[] = {touch[0], touch[1], touch[2], "-D",           "-D-o",           "-DX=\"'`\\",
                                   "-o",     "-I/",    "",       "@/etc/passwd", "-D@/etc/passwd", "--help"};
    const char *const names[] = {touch[3], "../../../../owned", "", "-", "-o", "a\nb.cu", "\x1b[31m.cu", "/dev/zero"};
    const char *const kernels[] = {"k", "", "k;k", "k<", "k<1>", "../k", "\"", "\\", "main", "k\n", "int"};
    const char *chosen[] = {options[attacker_random(me, HOSTILE_COUNT(options))],
                            options[attacker_random(me, HOSTILE_COUNT(options))]};
    gs_wire_load load;
    struct raw raw;
    char path[200];
    int source =
        raw_source(names[attacker_random(me, HOSTILE_COUNT(names))], body, sizeof body - 1, chosen,
                   (uint32_t)attacker_random(me, 3), &kernels[attacker_random(me, HOSTILE_COUNT(kernels))], 1, &load);
    if (source >= 0 && raw_open(me, &raw)) {
        raw_load(me, &raw, 1, source, &load);
        raw_close(me, &raw);
    }
    if (source >= 0)
        close(source);
    snprintf(path, sizeof path, "%s/owned", me->folder);
    if (access(path, F_OK) == 0)
        attacker_blames(me, "a name or an option of a source made a file");
}

void source_malformed(struct attacker *me) {
    static const uint32_t counts[] = {0, 1, 2, 16, 64, 65, 1000, UINT32_MAX};
    char bytes[512];
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    size_t size = 1 + attacker_random(me, sizeof bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = attacker_random(me, 4) ? (char)attacker_random(me, 256) : '\0';
    int fd = raw_memory(0, 0);
    const gs_wire_load load = {.head = {.command = GS_WIRE_LOAD},
                               .options = counts[attacker_random(me, HOSTILE_COUNT(counts))],
                               .kernels = counts[attacker_random(me, HOSTILE_COUNT(counts))],
                               .bytes = size};
    int seals = RAW_SEALED | (attacker_random(me, 2) ? F_SEAL_WRITE : 0);
    if (fd >= 0 && write(fd, bytes, size) == (ssize_t)size && fcntl(fd, F_ADD_SEALS, seals) == 0)
        send_load(me, &raw, 1, fd, &load);
    raw_wait_end(me, &raw, 10);
    raw_close(me, &raw);
    if (fd >= 0)
        close(fd);
}

/* Its size would be 8 bytes, or none. */
void source_arrays(struct attacker *me) {
    static const char *const arrays[] = {".global .b64 x[2305843009213693953];",
                                         ".shared .v4 .f32 x[1152921504606846977];",
                                         ".const .b8 x[4294967296][4294967296];"};
    static const char *const names[] = {"f"};
    char text[200];
    struct raw raw;
    gs_wire_load load;
    if (!raw_open(me, &raw))
        return;
    int size = snprintf(text, sizeof text, ".version 7.0\n.target sm_80\n.address_size 64\n%s\n.entry f() { ret; }\n",
                        arrays[attacker_random(me, HOSTILE_COUNT(arrays))]);
    int source = raw_source("arrays.ptx", text, (size_t)size, NULL, 0, names, 1, &load);
    gs_client_code code = raw_load(me, &raw, 1, source, &load);
    if (attacker_has_time(me) && code != GS_CLIENT_SOURCE)
        attacker_blames(me, "PTX with an array of more than 2^64 bytes: %s", gs_client_meaning(code));
    raw_close(me, &raw);
    if (source >= 0)
        close(source);
}

/* ---- headers that change, and with names that macros put together ---- */

static bool write_header(const char *path, unsigned value) {
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    fprintf(file, "#define VALUE %u\n", value);
    return fclose(file) == 0;
}

/* Loads the source, runs it, and returns what it wrote; 0: it could not. */
static uint32_t value_of(struct attacker *me, struct raw *raw, int region, const char *text, uint32_t module) {
    gs_wire_load load;
    uint32_t value = 0;
    int source = raw_source("header.cu", text, strlen(text), NULL, 0, kernel, 1, &load);
    gs_client_code code = source >= 0 ? raw_load(me, raw, module, source, &load) : GS_CLIENT_SYSTEM;
    if (source >= 0)
        close(source);
    if (code != GS_CLIENT_OK)
        return 0;
    struct raw_launch launch = raw_launch(0, KERNEL_TOUCH, 1, 0);
    launch.launch.module = module;
    launch.launch.arguments = 1;
    const gs_wire_copy copy = {.head = {.command = GS_WIRE_COPY_OUT}, .memory = 1, .region = 1, .bytes = 4096};
    raw_put(raw, &launch, sizeof launch - sizeof launch.arguments[1]);
    raw_put(raw, &copy, sizeof copy);
    bool is_done = raw_wait_done(me, raw, 0, 2 + 3 * (uint64_t)module); /* two commands before, three for each module */
    return is_done && pread(region, &value, sizeof value, 0) == sizeof value ? value : 0;
}

void source_header(struct attacker *me) {
    char path[200], text[500];
    struct raw raw = {.page = NULL};
    snprintf(path, sizeof path, "%s/header-%d.h", me->folder, (int)getpid());
    snprintf(text, sizeof text, "// %llu\n#include \"%s\"\n__global__ void k(int *a) { a[0] = VALUE; }\n",
             (unsigned long long)attacker_random(me, UINT64_MAX), path);
    int region = raw_memory(4096, RAW_SEALED);
    if (region >= 0 && raw_open(me, &raw) && raw_allocate(me, &raw, 1, 4096) == GS_CLIENT_OK &&
        raw_share(me, &raw, 1, region, 4096) == GS_CLIENT_OK && write_header(path, 17)) {
        uint32_t before = value_of(me, &raw, region, text, 1);
        write_header(path, 1042);
        uint32_t after = value_of(me, &raw, region, text, 2);
        if (before == 17 && after && after != 1042)
            attacker_blames(me, "a changed header was not seen: the kernel has the value %u", after);
    }
    if (raw.page)
        raw_close(me, &raw);
    if (region >= 0)
        close(region);
    unlink(path);
}

/* Honest code of this kind compiles: the name is known only to a compiler that expands macros. */
void source_computed(struct attacker *me) {
    char path[200], text[700];
    struct raw raw = {.page = NULL};
    snprintf(path, sizeof path, "%s/computed-%d.h", me->folder, (int)getpid());
    snprintf(text, sizeof text,
             "// %llu\n#define TEXT_OF(x) #x\n#define NAME_OF(x) TEXT_OF(x.h)\n#include NAME_OF(%.*s)\n"
             "__global__ void k(int *a) { a[0] = VALUE; }\n",
             (unsigned long long)attacker_random(me, UINT64_MAX), (int)strlen(path) - 2, path);
    int region = raw_memory(4096, RAW_SEALED);
    if (region >= 0 && raw_open(me, &raw) && raw_allocate(me, &raw, 1, 4096) == GS_CLIENT_OK &&
        raw_share(me, &raw, 1, region, 4096) == GS_CLIENT_OK && write_header(path, 29)) {
        uint64_t refused = atomic_load(&me->tally->replies[GS_CLIENT_SOURCE]);
        uint32_t value = value_of(me, &raw, region, text, 1);
        if (value ? value != 29 : atomic_load(&me->tally->replies[GS_CLIENT_SOURCE]) > refused)
            attacker_blames(me, "a header whose name macros put together was not found, or is another one: %u", value);
    }
    if (raw.page)
        raw_close(me, &raw);
    if (region >= 0)
        close(region);
    unlink(path);
}
