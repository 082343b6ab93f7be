/*
 * dependencies.c: the files that the image of a source depends on.
 *
 * They are found before the compiler runs, by reading (include_scan.c): each name is searched in the compiler's
 * folders, and the files found are read the same way. Every file gets a digest, except system headers that were not
 * changed recently: hashing all of them would take longer than everything else, and installing other headers changes
 * their times. Every path where no file was found is a dependency, too: a file that appears there would be included
 * instead. If a name exists in several folders, all are taken, because #include_next, and compilers of C and C++ with
 * different folders, read later ones.
 *
 * Checking an image need not read each file: if its times and inode are the same, so is the file, unless it was changed
 * shortly before its digest was made. Otherwise it is read, and the digest decides.
 */
#define _GNU_SOURCE
#include "dependencies.h"

#include "image.h"
#include "include_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PLACES = 1 << 16 /* files, and paths without one */, MOST_MACRO_NAMES = 1 << 14, MOST_MACRO_BYTES = 4096 };
static const int64_t settled_ns = 2000000000; /* a file changed less than this long ago may change unnoticed */

static int64_t in_ns(struct timespec time) {
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* ---- files ---- */

/* The result of reading a file. */
enum reading { READ_DONE, READ_ABSENT, READ_NOT_A_FILE, READ_TOO_LARGE, READ_NO_MEMORY };

static char *read_fd(int fd, size_t most, size_t *size, enum reading *result) {
    gs_text text = {0};
    char chunk[65536];
    ssize_t got;
    while ((got = read(fd, chunk, sizeof chunk)) > 0 || (got < 0 && errno == EINTR)) {
        if (got > 0)
            gs_text_put(&text, chunk, (size_t)got);
        if (text.failed || text.count > most)
            break;
    }
    gs_text_put(&text, "", 1); /* never NULL */
    *size = text.failed ? 0 : text.count - 1;
    *result = text.failed ? READ_NO_MEMORY : *size > most ? READ_TOO_LARGE : got < 0 ? READ_NOT_A_FILE : READ_DONE;
    if (*result != READ_DONE) {
        gs_text_free(&text);
        return NULL;
    }
    return text.data;
}

/* Reads a file as compilers do: a folder is not a file. Only plain files are opened: opening a device may have effects.
 */
static char *read_file(const char *path, struct stat *status, size_t *size, enum reading *result) {
    *result = READ_ABSENT;
    if (stat(path, status) != 0 || S_ISDIR(status->st_mode))
        return NULL;
    *result = READ_NOT_A_FILE;
    if (!S_ISREG(status->st_mode))
        return NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *result = fd < 0 ? READ_ABSENT : READ_NOT_A_FILE;
    char *text = fd >= 0 && fstat(fd, status) == 0 && S_ISREG(status->st_mode)
                     ? read_fd(fd, (size_t)GS_INCLUDE_MB << 20, size, result)
                     : NULL;
    gs_close_fd(&fd);
    return text;
}

static void digest_of(const char *text, size_t size, unsigned char digest[32]) {
    gs_digest hash;
    gs_digest_begin(&hash);
    gs_digest_add(&hash, text, size);
    gs_digest_end(&hash, digest);
}

static void set_times(gs_dependency *dependency, const struct stat *status) {
    dependency->device = status->st_dev;
    dependency->inode = status->st_ino;
    dependency->bytes = (uint64_t)status->st_size;
    dependency->modified_ns = in_ns(status->st_mtim);
    dependency->changed_ns = in_ns(status->st_ctim);
}

/* ---- whether an image is up to date ---- */

static bool has_same_times(const gs_dependency *dependency, const struct stat *status) {
    return dependency->has_times && dependency->device == status->st_dev && dependency->inode == status->st_ino &&
           dependency->bytes == (uint64_t)status->st_size && dependency->modified_ns == in_ns(status->st_mtim) &&
           dependency->changed_ns == in_ns(status->st_ctim);
}

static bool has_same_contents(const gs_dependency *dependency, const char *path) {
    struct stat status;
    enum reading result;
    size_t size;
    unsigned char digest[32];
    char *text = dependency->has_digest ? read_file(path, &status, &size, &result) : NULL;
    if (!text)
        return false;
    digest_of(text, size, digest);
    free(text);
    return memcmp(digest, dependency->digest, sizeof digest) == 0;
}

bool gs_dependency_holds(const gs_dependency *dependency, const char *path) {
    struct stat status;
    bool is_there = stat(path, &status) == 0 && !S_ISDIR(status.st_mode);
    if (dependency->kind == GS_DEPENDENCY_ABSENT || !is_there)
        return dependency->kind == GS_DEPENDENCY_ABSENT && !is_there;
    if (dependency->kind == GS_DEPENDENCY_TOOL)
        return dependency->bytes == (uint64_t)status.st_size && dependency->modified_ns == in_ns(status.st_mtim);
    return has_same_times(dependency, &status) || has_same_contents(dependency, path);
}

bool gs_dependencies_hold(const gs_dependencies *all) {
    for (size_t i = 0; i < all->count; i++)
        if (!all->data[i].is_own && !gs_dependency_holds(&all->data[i].dependency, all->data[i].path))
            return false;
    return true;
}

/* ---- finding them ---- */

/* A text whose includes are searched. */
struct including {
    gs_dependencies *all;
    const char *file, *folder;
    bool is_system; /* it is a header of the compiler or the system */
    gs_code code;
    gs_error *error;
};

static bool is_beneath(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || folder[length ? length - 1 : 0] == '/');
}

static bool is_system(const gs_dependencies *all, const char *path) {
    bool is_found = is_beneath(path, "/usr");
    for (size_t i = 0; i < all->search.count && !is_found; i++)
        is_found = is_beneath(path, all->search.data[i]);
    return is_found;
}

static gs_code refuse_include(const struct including *from, const gs_include *include, const char *format, int number) {
    char words[100];
    snprintf(words, sizeof words, format, number);
    gs_fail(from->error, GS_E_KERNEL, "%.*s %s", (int)gs_min_u64(include->length, 200), include->name, words);
    if (from->error) {
        snprintf(from->error->file, sizeof from->error->file, "%s", from->file);
        from->error->line = include->line;
        from->error->column = 1;
    }
    return GS_E_KERNEL;
}

/* Adds a path that was not checked yet. NULL: out of memory, or too many paths. */
static gs_found *add_place(gs_dependencies *all, const char *path) {
    char *kept = all->count < MOST_PLACES && GS_RESERVE(all, 1) ? strdup(path) : NULL;
    if (!kept || gs_names_add(&all->names, kept, all->count) == SIZE_MAX) {
        free(kept);
        return NULL;
    }
    all->data[all->count] = (gs_found){.path = kept,
                                       .dependency.kind = GS_DEPENDENCY_ABSENT,
                                       .is_own = all->own && is_beneath(path, all->own),
                                       .is_system = is_system(all, path)};
    return &all->data[all->count++];
}

static void note_now(gs_dependencies *all) {
    struct timespec now;
    if (all->began_ns)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    all->began_ns = in_ns(now);
}

/* Checks one path. True: there is a file. */
static bool look_at(struct including *from, const gs_include *include, const char *path) {
    gs_dependencies *all = from->all;
    size_t known = gs_names_find(&all->names, path);
    if (known != SIZE_MAX)
        return all->data[known].dependency.kind == GS_DEPENDENCY_FILE;
    struct stat status;
    if (stat(path, &status) != 0 || S_ISDIR(status.st_mode)) {
        if (!add_place(all, path))
            from->code = all->count < MOST_PLACES
                             ? gs_fail_memory(from->error)
                             : refuse_include(from, include, "exceeds the limit of %d names", MOST_PLACES);
        return false;
    }
    if (!S_ISREG(status.st_mode)) {
        from->code = refuse_include(from, include, "is not a regular file", 0);
        return false;
    }
    if ((uint64_t)status.st_size > (uint64_t)GS_INCLUDE_MB << 20) {
        from->code = refuse_include(from, include, "exceeds the limit of %d MB for an included file", GS_INCLUDE_MB);
        return false;
    }
    if (++all->files > GS_INCLUDES) {
        from->code = refuse_include(from, include, "exceeds the limit of %d included files", GS_INCLUDES);
        return false;
    }
    gs_found *found = add_place(all, path);
    if (!found)
        from->code = gs_fail_memory(from->error);
    else
        found->dependency.kind = GS_DEPENDENCY_FILE;
    return found != NULL;
}

/* Searches the folder of the includer, if there is one, and those of the compiler. Paths after the first file matter
   only if there is a file, too, or for #include_next. */
static void look_for(struct including *from, const gs_include *include) {
    char path[4096];
    const gs_include_search *search = &from->all->search;
    bool is_found = false, is_absolute = include->length && include->name[0] == '/';
    int length = (int)gs_min_u64(include->length, sizeof path);
    for (size_t i = include->is_quoted ? 0 : 1; i <= search->count && from->code == GS_OK; i++) {
        const char *folder = i ? search->data[i - 1] : from->folder;
        struct stat status;
        if ((!folder && !is_absolute) || (size_t)snprintf(path, sizeof path, "%s%s%.*s", is_absolute ? "" : folder,
                                                          is_absolute ? "" : "/", length, include->name) >= sizeof path)
            continue;
        if (!is_found || include->kind == GS_INCLUDE_NEXT || stat(path, &status) == 0)
            is_found = look_at(from, include, path) || is_found;
        if (is_absolute)
            return;
    }
}

static void note_text(gs_include_names *names, const gs_include *include) {
    bool may_add = names->count < MOST_MACRO_NAMES && include->length < MOST_MACRO_BYTES && GS_RESERVE(names, 1);
    char *name = may_add ? strndup(include->name, include->length) : NULL;
    if (name)
        names->data[names->count++] = name;
}

static void name_found(void *context, const gs_include *include) {
    struct including *from = context;
    if (from->code != GS_OK)
        return;
    gs_dependencies *all = from->all;
    if (include->kind == GS_INCLUDE_COMPUTED || (include->kind == GS_INCLUDE_QUESTION && !from->is_system))
        all->is_incomplete = true;
    if (include->kind == GS_INCLUDE_COMPUTED)
        note_text(&all->computed, include);
    else if (include->kind == GS_INCLUDE_MACRO)
        note_text(&all->macro_names, include);
    else if (include->kind == GS_INCLUDE_DEFINE && !from->is_system)
        note_text(&all->definitions, include);
    else if (include->kind <= GS_INCLUDE_NEXT && include->length)
        look_for(from, include);
}

static gs_code scan_text(gs_dependencies *all, const char *name, bool is_system, const char *text, size_t size,
                         const char *folder, gs_error *error) {
    struct including from = {.all = all, .file = name, .folder = folder, .is_system = is_system, .error = error};
    if (!gs_include_scan(text, size, name_found, &from) && from.code == GS_OK)
        return gs_fail_memory(error);
    return from.code;
}

/* Reads a file: its times, its digest, and its includes. */
static gs_code read_found(gs_dependencies *all, size_t number, gs_error *error) {
    struct stat status;
    enum reading result;
    size_t size = 0;
    char *path = all->data[number].path, folder[4096];
    char *text = read_file(path, &status, &size, &result);
    if (!text && result == READ_NO_MEMORY)
        return gs_fail_memory(error);
    if (!text && result == READ_TOO_LARGE)
        return gs_fail(error, GS_E_KERNEL, "%.250s exceeds the limit of %d MB for an included file", path,
                       GS_INCLUDE_MB);
    if (!text) { /* the compiler cannot read it, either */
        all->data[number].dependency.kind = GS_DEPENDENCY_ABSENT;
        all->is_incomplete = true;
        return GS_OK;
    }
    gs_found *found = &all->data[number];
    set_times(&found->dependency, &status);
    found->dependency.has_times =
        all->began_ns - gs_max(found->dependency.modified_ns, found->dependency.changed_ns) > settled_ns;
    found->dependency.has_digest = !found->dependency.has_times || !found->is_system;
    if (found->dependency.has_digest)
        digest_of(text, size, found->dependency.digest);
    all->bytes += size;
    if (!found->is_own && !found->is_system && gs_include_is_unstable(text, size))
        all->is_incomplete = true;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    gs_code code = scan_text(all, path, found->is_system, text, size, folder, error);
    free(text);
    if (code == GS_OK && all->bytes > (uint64_t)GS_INCLUDES_MB << 20)
        code = gs_fail(error, GS_E_KERNEL, "the source includes more than %d MB", GS_INCLUDES_MB);
    return code;
}

static gs_code read_all_found(gs_dependencies *all, size_t from, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = from; i < all->count && code == GS_OK; i++)
        if (all->data[i].dependency.kind == GS_DEPENDENCY_FILE)
            code = read_found(all, i, error);
    return code;
}

/* Includes whose name macros put together. */
static gs_code find_computed(gs_dependencies *all, const char *file, const char *folder, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < all->computed.count && code == GS_OK; i++) {
        struct including from = {.all = all, .file = file, .folder = folder, .error = error};
        gs_text name = {0};
        gs_include include = {.kind = GS_INCLUDE_PLAIN};
        size_t before = all->count;
        if (gs_include_expand(&all->definitions, all->computed.data[i], &name, &include.is_quoted) && name.count) {
            include.name = name.data;
            include.length = name.count;
            look_for(&from, &include);
            code = from.code == GS_OK ? read_all_found(all, before, error) : from.code;
        }
        gs_text_free(&name);
    }
    return code;
}

/* Includes whose name is a macro: it may be any string of any macro. Reading those files may add macros. */
static gs_code find_macro_names(gs_dependencies *all, const char *file, const char *folder, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; all->is_incomplete && i < all->macro_names.count && code == GS_OK; i++) {
        const char *name = all->macro_names.data[i];
        struct including from = {.all = all, .file = file, .folder = folder, .error = error};
        gs_include include = {.name = name, .length = strlen(name), .is_quoted = true};
        size_t before = all->count;
        struct stat status;
        if (name[0] != '/' || stat(name, &status) != 0 || !S_ISREG(status.st_mode))
            continue; /* it may read anything in its own folders */
        look_for(&from, &include);
        code = from.code == GS_OK ? read_all_found(all, before, error) : from.code;
    }
    return code;
}

gs_code gs_dependencies_add_text(gs_dependencies *all, const char *name, const char *text, size_t size,
                                 const char *folder, gs_error *error) {
    size_t before = all->count;
    note_now(all);
    if (gs_include_is_unstable(text, size))
        all->is_incomplete = true;
    gs_code code = scan_text(all, name, false, text, size, folder, error);
    if (code == GS_OK)
        code = read_all_found(all, before, error);
    if (code == GS_OK)
        code = find_computed(all, name, folder, error);
    return code == GS_OK ? find_macro_names(all, name, folder, error) : code;
}

gs_code gs_dependencies_add_option(gs_dependencies *all, const char *option, gs_error *error) {
    gs_text text = {0};
    struct including from = {.all = all, .file = option, .error = error};
    gs_text_add(&text, "#define %s\n", option + strspn(option, "-D"));
    if (gs_include_is_unstable(option, strlen(option)))
        all->is_incomplete = true;
    bool is_good = !text.failed && gs_include_scan(text.data, text.count, name_found, &from);
    gs_text_free(&text);
    return is_good ? from.code : gs_fail_memory(error);
}

gs_code gs_dependencies_add_tool(gs_dependencies *all, const char *path, gs_error *error) {
    struct stat status;
    if (stat(path, &status) != 0)
        return gs_fail_system(error, "look at", path);
    if (gs_names_find(&all->names, path) != SIZE_MAX)
        return GS_OK;
    gs_found *found = add_place(all, path);
    if (!found)
        return gs_fail_memory(error);
    found->is_own = false;
    found->dependency.kind = GS_DEPENDENCY_TOOL;
    set_times(&found->dependency, &status);
    return GS_OK;
}
