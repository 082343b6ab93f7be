/*
 * image_source.c: a source as clients send it: one block of memory with its name, the options, the kernels and the
 * text.
 */
#define _GNU_SOURCE
#include "image.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* A string that ends with a NUL; `*at` is advanced past it. */
static const char *next_string(const char *bytes, size_t size, size_t *at) {
    const char *text = bytes + *at, *end = *at < size ? memchr(text, '\0', size - *at) : NULL;
    if (!end)
        return NULL;
    *at = (size_t)(end - bytes) + 1;
    return text;
}

static bool unpack_strings(const char *bytes, size_t size, size_t *at, uint32_t count, const char **strings) {
    for (uint32_t i = 0; i < count; i++)
        if (!(strings[i] = next_string(bytes, size, at)))
            return false;
    return true;
}

static gs_code check_strings(const gs_image_source *source, gs_error *error) {
    for (size_t i = 0; i < source->kernel_count; i++)
        if (strlen(source->kernels[i]) >= GS_JOB_NAME)
            return gs_fail(error, GS_E_USAGE, "the name of a kernel is too long");
    for (size_t i = 0; i < source->option_count; i++)
        if (strncmp(source->options[i], "-D", 2) != 0)
            return gs_fail(error, GS_E_USAGE, "an option must begin with -D, not \"%.40s\"", source->options[i]);
    return GS_OK;
}

gs_code gs_image_unpack(const char *bytes, size_t size, uint32_t options, uint32_t kernels, gs_image_source *source,
                        gs_error *error) {
    size_t at = 0;
    *source = (gs_image_source){.option_count = options, .kernel_count = kernels};
    if (options > GS_IMAGE_OPTIONS || kernels > GS_IMAGE_KERNELS)
        return gs_fail(error, GS_E_USAGE, "at most %d kernels and %d options can be requested", GS_IMAGE_KERNELS,
                       GS_IMAGE_OPTIONS);
    if (!(source->name = next_string(bytes, size, &at)) ||
        !unpack_strings(bytes, size, &at, options, source->options) ||
        !unpack_strings(bytes, size, &at, kernels, source->kernels))
        return gs_fail(error, GS_E_USAGE, "a file of %zu bytes is not a source", size);
    source->text = bytes + at;
    source->size = size - at;
    return check_strings(source, error);
}

static bool write_all(int fd, const char *bytes, size_t count) {
    while (count) {
        ssize_t wrote = write(fd, bytes, count);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        bytes += wrote;
        count -= (size_t)wrote;
    }
    return true;
}

gs_code gs_image_pack(const gs_image_source *source, gs_image_request *request, gs_error *error) {
    gs_text text = {0};
    gs_text_put(&text, source->name, strlen(source->name) + 1);
    for (size_t i = 0; i < source->option_count; i++)
        gs_text_put(&text, source->options[i], strlen(source->options[i]) + 1);
    for (size_t i = 0; i < source->kernel_count; i++)
        gs_text_put(&text, source->kernels[i], strlen(source->kernels[i]) + 1);
    gs_text_put(&text, source->text, source->size);
    request->source = text.failed ? -1 : memfd_create("gridsmith-source", MFD_CLOEXEC);
    request->bytes = text.count;
    request->option_count = (uint32_t)source->option_count;
    request->kernel_count = (uint32_t)source->kernel_count;
    bool is_packed = request->source >= 0 && write_all(request->source, text.data, text.count);
    gs_text_free(&text);
    if (is_packed)
        return GS_OK;
    gs_close_fd(&request->source);
    return gs_fail_system(error, "make", "memory for a source");
}
