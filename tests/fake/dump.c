/*
 * dump.c: dumps of the GPU on demand: GRIDSMITH_FAKE_DUMP is copied when something is written to the pipe, as the
 * driver writes a dump; with `slow-dump` it pauses after the first part. %p in the names of the pipe and of the dump is
 * the number of the process.
 */
#define _GNU_SOURCE
#include "fake.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void put_process(const char *name, char *path, size_t size) {
    const char *at = strstr(name, "%p");
    if (at)
        snprintf(path, size, "%.*s%d%s", (int)(at - name), name, getpid(), at + 2);
    else
        snprintf(path, size, "%s", name);
}

static void copy_file(const char *from, const char *to) {
    char bytes[1 << 16];
    FILE *in = fopen(from, "rb"), *out = in ? fopen(to, "wb") : NULL;
    for (size_t count; out && (count = fread(bytes, 1, sizeof bytes, in)) > 0;) {
        fwrite(bytes, 1, count, out);
        fflush(out);
        if (fake_has("slow-dump") && ftell(in) == (long)sizeof bytes)
            sleep(1);
    }
    if (out)
        fclose(out);
    if (in)
        fclose(in);
}

static void *serve_dumps(void *unused) {
    const char *dump = getenv("GRIDSMITH_FAKE_DUMP"), *to = getenv("CUDA_COREDUMP_FILE");
    char pipe[1024], path[1024], byte;
    (void)unused;
    put_process(getenv("CUDA_COREDUMP_PIPE"), pipe, sizeof pipe);
    put_process(to, path, sizeof path);
    int file = mkfifo(pipe, 0600) == 0 ? open(pipe, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0 && read(file, &byte, 1) == 1)
        copy_file(dump, path);
    return NULL;
}

void fake_offer_dumps(void) {
    pthread_t thread;
    if (getenv("GRIDSMITH_FAKE_DUMP") && getenv("CUDA_COREDUMP_PIPE") && getenv("CUDA_COREDUMP_FILE") &&
        pthread_create(&thread, NULL, serve_dumps, NULL) == 0) {
        pthread_setname_np(thread, FAKE_THREAD_NAME);
        pthread_detach(thread);
    }
}
