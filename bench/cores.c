/*
 * cores.c: the time that threads ran on cores, and the time that they waited for one.
 *
 * Linux counts for each thread how long it ran, and how long it was ready to run without a core
 * (/proc/PID/task/TID/schedstat). The worker names its threads, so that the SMs and the copies of a CPU that stands in
 * for a GPU are counted apart from the loop that serves the daemon.
 */
#include "cores.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

static cores_group *find_group(cores *all, const char *name) {
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->groups[i].name, name) == 0)
            return &all->groups[i];
    if (all->count == CORES_GROUPS)
        return &all->groups[CORES_GROUPS - 1];
    cores_group *group = &all->groups[all->count++];
    snprintf(group->name, sizeof group->name, "%s", name);
    return group;
}

static void add_thread(cores *all, const char *role, const char *folder, const char *thread, int sign) {
    char path[400], name[CORES_NAME] = "", whole[CORES_NAME];
    double ran = 0, waited = 0;
    snprintf(path, sizeof path, "%s/%s/comm", folder, thread);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%23[^\n]", name) != 1)
        name[0] = 0;
    if (file)
        fclose(file);
    snprintf(path, sizeof path, "%s/%s/schedstat", folder, thread);
    file = fopen(path, "r");
    if (file && fscanf(file, "%lf %lf", &ran, &waited) != 2)
        ran = waited = 0;
    if (file)
        fclose(file);
    snprintf(whole, sizeof whole, "%.8s %.12s", role, name);
    cores_group *group = find_group(all, whole);
    group->ran_ns += sign * ran;
    group->waited_ns += sign * waited;
}

void cores_add(cores *all, const char *role, pid_t process, int sign) {
    char folder[40];
    snprintf(folder, sizeof folder, "/proc/%d/task", (int)process);
    DIR *threads = opendir(folder);
    for (struct dirent *entry; threads && (entry = readdir(threads));)
        if (entry->d_name[0] != '.')
            add_thread(all, role, folder, entry->d_name, sign);
    if (threads)
        closedir(threads);
}
