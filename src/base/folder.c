/*
 * folder.c: folders for temporary files: made, written to, read and removed with all that is in them.
 *
 * A signal that ends the program removes those of gs_folder_make (interrupt.c). So gs_folder_remove may run in a
 * handler of signals: it only makes system calls, and reads folders without opendir, which allocates.
 */
#define _GNU_SOURCE
#include "interrupt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

char *gs_folder_make_in(const char *where, const char *name, gs_error *error) {
    const char *temporary = getenv("TMPDIR");
    gs_text path = {0};
    gs_text_add(&path, "%s/%s-XXXXXX", where ? where : temporary && temporary[0] ? temporary : "/tmp", name);
    if (!path.failed && mkdtemp(path.data))
        return path.data;
    if (path.failed)
        gs_fail_memory(error);
    else
        gs_fail_system(error, "make the folder", path.data);
    gs_text_free(&path);
    return NULL;
}

char *gs_folder_make(gs_error *error) {
    char *folder = gs_folder_make_in(NULL, "gridsmith", error);
    if (folder)
        gs_interrupt_add_folder(folder, gs_folder_remove);
    return folder;
}

static void remove_at(int parent, const char *name);

static void empty_folder(int folder) {
    _Alignas(struct dirent64) char entries[4096];
    long count;
    while ((count = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0)
        for (long at = 0; at < count;) {
            const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                remove_at(folder, entry->d_name);
            at += entry->d_reclen;
        }
}

/* Removes a file, or a folder with all that is in it. A process that was started may put files there meanwhile. */
static void remove_at(int parent, const char *name) {
    enum { MOST_TRIES = 10 };
    if (unlinkat(parent, name, 0) == 0)
        return;
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (folder < 0)
            return;
        empty_folder(folder);
        close(folder);
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || (errno != ENOTEMPTY && errno != EEXIST))
            return;
    }
}

void gs_folder_remove(const char *folder) {
    remove_at(AT_FDCWD, folder);
    gs_interrupt_drop_folder(folder);
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
