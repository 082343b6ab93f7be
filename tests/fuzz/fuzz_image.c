/*
 * fuzz_image.c: texts whose includes are looked for, and files that should be images.
 *
 * Nothing may be read outside the text or the file. A text that is read in two halves, at the end of a line that no
 * backslash joins to the next, has the same names as the whole. A file that is accepted by its hash can be mapped.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include "sharing/image/image_file.h"
#include "sharing/image/include_scan.h"

#include <sys/mman.h>
#include <unistd.h>

static void must(bool holds) {
    if (!holds)
        abort();
}

static void count(void *context, const gs_include *include) {
    size_t *names = context;
    for (size_t i = 0; i < include->length; i++)
        must(include->name[i] != '\n');
    must(include->line > 0);
    ++*names;
}

static size_t count_names(const char *text, size_t size) {
    size_t names = 0;
    char *copy = malloc(size ? size : 1); /* so that the sanitizer sees its end */
    must(copy != NULL);
    memcpy(copy, text, size);
    must(gs_include_scan(copy, size, count, &names));
    gs_include_is_unstable(copy, size);
    free(copy);
    return names;
}

static void scan(const char *text, size_t size) {
    size_t all = count_names(text, size);
    const char *end = memchr(text, '\n', size);
    /* A comment, a joined line or the mark at the start of a file can change what a later line means. */
    bool is_simple = end != NULL;
    for (size_t i = 0; i < size; i++)
        is_simple = is_simple && !strchr("\\*\r\xef", text[i]);
    if (is_simple)
        must(all ==
             count_names(text, (size_t)(end + 1 - text)) + count_names(end + 1, size - (size_t)(end + 1 - text)));
}

static void read_image(const uint8_t *data, size_t size) {
    gs_image_front front;
    gs_image_file file;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    bool is_good = gs_image_verify(fd, &front, NULL) == GS_OK;
    for (size_t i = 0; is_good && i < front.dependency_count; i++)
        must(strlen(front.paths + front.dependencies[i].path) < size);
    gs_image_front_free(&front);
    bool is_mapped = gs_image_map(fd, &file, NULL) == GS_OK;
    must(is_mapped || !is_good);
    gs_image_unmap(&file);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { ENOUGH = 4096 };
    size = gs_min_u64(size, ENOUGH);
    if (size)
        scan((const char *)data, size);
    read_image(data, size);
    return 0;
}
