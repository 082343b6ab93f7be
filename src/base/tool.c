/*
 * tool.c: runs a compiler in a folder of its own, for a limited time.
 *
 * A compiler starts further programs, and each leaves temporary files if it is killed. So the tool leads a process
 * group, which is killed as a whole, and TMPDIR is the folder, which is removed as a whole.
 */
#define _GNU_SOURCE
#include "base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* ---- the folder ---- */

char *gs_folder_make(gs_error *error) {
    const char *temporary = getenv("TMPDIR");
    gs_text name = {0};
    gs_text_add(&name, "%s/gridsmith-XXXXXX", temporary && temporary[0] ? temporary : "/tmp");
    if (!name.failed && mkdtemp(name.data))
        return name.data;
    if (name.failed)
        gs_fail_memory(error);
    else
        gs_fail_system(error, "make the folder", name.data);
    gs_text_free(&name);
    return NULL;
}

/* Removes what is in an open folder; folders in it may have files, but no deeper folders than `depth`. */
static void empty(int folder, int depth) {
    DIR *list = fdopendir(folder);
    struct dirent *entry;
    while (list && (entry = readdir(list))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(list), entry->d_name, 0) == 0 || depth == 0)
            continue;
        int inside = openat(dirfd(list), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inside >= 0)
            empty(inside, depth - 1);
        unlinkat(dirfd(list), entry->d_name, AT_REMOVEDIR);
    }
    if (list)
        closedir(list);
    else
        close(folder);
}

void gs_folder_remove(const char *folder) {
    int opened = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (opened >= 0)
        empty(opened, 8);
    rmdir(folder);
}

gs_code gs_folder_write(const char *folder, const char *name, const char *bytes, size_t count, gs_error *error) {
    gs_text path = {0};
    gs_text_add(&path, "%s/%s", folder, name);
    FILE *file = path.failed ? NULL : fopen(path.data, "wbe");
    bool is_written = file && fwrite(bytes, 1, count, file) == count;
    is_written = file && fclose(file) == 0 && is_written;
    gs_code code = is_written ? GS_OK : path.failed ? gs_fail_memory(error) : gs_fail_system(error, "write", path.data);
    gs_text_free(&path);
    return code;
}

char *gs_folder_read(const char *folder, const char *name, size_t most) {
    gs_text path = {0};
    char *bytes = NULL;
    size_t count;
    gs_text_add(&path, "%s/%s", folder, name);
    if (!path.failed)
        gs_input_all(path.data, most, &bytes, &count, NULL);
    gs_text_free(&path);
    return bytes;
}

/* ---- the process ---- */

/* The environment, with TMPDIR set to the folder. The caller frees the list and its first word. */
static char **make_environment(const char *folder) {
    size_t count = 0, kept = 1;
    while (environ[count])
        count++;
    char **list = calloc(count + 2, sizeof *list);
    gs_text temporary = {0};
    gs_text_add(&temporary, "TMPDIR=%s", folder);
    if (!list || temporary.failed) {
        free(list);
        gs_text_free(&temporary);
        return NULL;
    }
    list[0] = temporary.data;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "TMPDIR=", 7) != 0)
            list[kept++] = environ[i];
    return list;
}

static int start(const gs_tool *tool, const char *log, pid_t *process) {
    char **environment = make_environment(tool->folder);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (!environment)
        return ENOMEM;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, tool->stays_in_group ? 0 : POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    int failed = posix_spawnp(process, tool->words[0], &actions, &attributes, (char *const *)(uintptr_t)tool->words,
                              environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    free(environment[0]);
    free(environment);
    return failed;
}

/* Waits, and looks every few milliseconds whether it is too late. */
static gs_tool_end wait_for(pid_t process, gs_tool *tool) {
    const struct timespec pause = {.tv_nsec = 5000000};
    int64_t deadline = gs_now_ns() + (int64_t)tool->seconds * 1000000000;
    bool is_late = false;
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(process, &status, is_late ? 0 : WNOHANG)) != process) {
        if (ended < 0 && errno != EINTR)
            return GS_TOOL_FAILED;
        if (!is_late && gs_now_ns() > deadline) {
            is_late = true;
            kill(tool->stays_in_group ? process : -process, SIGKILL);
        }
        if (!is_late)
            nanosleep(&pause, NULL);
    }
    if (is_late)
        return GS_TOOL_LATE;
    tool->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0     ? GS_TOOL_DONE
           : WIFEXITED(status) && WEXITSTATUS(status) == 127 ? GS_TOOL_NOT_FOUND
                                                             : GS_TOOL_FAILED;
}

gs_tool_end gs_tool_run(gs_tool *tool) {
    gs_text log = {0};
    pid_t process = 0;
    gs_text_add(&log, "%s/log", tool->folder);
    int failed = log.failed ? ENOMEM : start(tool, log.data, &process);
    gs_text_free(&log);
    if (failed)
        return failed == ENOENT || failed == EACCES ? GS_TOOL_NOT_FOUND : GS_TOOL_FAILED;
    return wait_for(process, tool);
}
