/*
 * watch.c: what /proc says about the daemon and the worker, and what they left behind.
 */
#define _GNU_SOURCE
#include "hostile.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *open_proc(pid_t process, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)process, name);
    return fopen(path, "re");
}

size_t watch_entries(const char *folder, const char *prefix) {
    DIR *all = opendir(folder);
    size_t count = 0;
    for (struct dirent *entry; all && (entry = readdir(all));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                 strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    if (all)
        closedir(all);
    return count;
}

static uint64_t count_lines(FILE *file) {
    uint64_t lines = 0;
    for (int c; file && (c = getc(file)) != EOF;)
        lines += c == '\n';
    if (file)
        fclose(file);
    return lines;
}

/* The fields behind the name, which may have spaces and parentheses itself. */
static bool read_stat(pid_t process, char *state, int *parent, uint64_t *ticks) {
    char text[1024];
    unsigned long user = 0, system = 0;
    FILE *file = open_proc(process, "stat");
    if (!file)
        return false;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *behind = strrchr(text, ')');
    int found =
        behind ? sscanf(behind + 2, "%c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", state, parent, &user, &system)
               : 0;
    *ticks = user + system;
    return found == 4;
}

struct footprint watch_process(pid_t process) {
    struct footprint found = {0};
    char path[64], state;
    unsigned long long resident = 0;
    int parent;
    uint64_t ticks = 0;
    FILE *file = process > 0 ? open_proc(process, "statm") : NULL;
    if (!file)
        return found;
    if (fscanf(file, "%*u %llu", &resident) == 1)
        found.resident_kib = resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
    fclose(file);
    snprintf(path, sizeof path, "/proc/%d/fd", (int)process);
    found.descriptors = watch_entries(path, "");
    found.mappings = count_lines(open_proc(process, "maps"));
    if (read_stat(process, &state, &parent, &ticks))
        found.cpu_ms = ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
    return found;
}

char watch_state(pid_t process) {
    char state;
    int parent;
    uint64_t ticks;
    return read_stat(process, &state, &parent, &ticks) ? state : 0;
}

void watch_name(pid_t process, char *name, size_t size) {
    FILE *file = open_proc(process, "comm");
    if (!file || !fgets(name, (int)size, file))
        snprintf(name, size, "?");
    name[strcspn(name, "\n")] = '\0';
    if (file)
        fclose(file);
}

size_t watch_children(pid_t process, pid_t *children, size_t most) {
    DIR *all = opendir("/proc");
    size_t count = 0;
    for (struct dirent *entry; all && (entry = readdir(all));) {
        char state;
        int parent = 0;
        uint64_t ticks;
        pid_t candidate = (pid_t)strtol(entry->d_name, NULL, 10);
        if (candidate <= 0 || !read_stat(candidate, &state, &parent, &ticks) || parent != process)
            continue;
        if (count < most)
            children[count] = candidate;
        count++;
    }
    if (all)
        closedir(all);
    return count;
}

pid_t watch_worker(pid_t daemon) {
    enum { MOST = 64 };
    pid_t children[MOST];
    size_t count = watch_children(daemon, children, MOST);
    for (size_t i = 0; i < count && i < MOST; i++) {
        char words[4096] = "";
        FILE *file = open_proc(children[i], "cmdline");
        size_t bytes = file ? fread(words, 1, sizeof words - 1, file) : 0;
        if (file)
            fclose(file);
        if (memmem(words, bytes, "worker-process", strlen("worker-process")))
            return children[i];
    }
    return 0;
}
