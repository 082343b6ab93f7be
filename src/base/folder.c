/*
 * folder.c: folders for temporary files: made, written to, read and removed with all that is in them.
 */
#define _GNU_SOURCE
#include "base.h"

#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>

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
    return gs_folder_make_in(NULL, "gridsmith", error);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status, (void)kind, (void)place;
    remove(path);
    return 0;
}

void gs_folder_remove(const char *folder) {
    enum { MOST_OPEN = 16 };
    nftw(folder, remove_entry, MOST_OPEN, FTW_DEPTH | FTW_PHYS);
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
