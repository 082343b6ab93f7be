/*
 * image_file.c: the file of an image: a head with a hash of all that follows, the kernels, the list of parts, the
 * dependencies and their paths, the bytes of the parts. See image.h.
 *
 * A file is written under another name and renamed, so a broken one is rare: after a full disk, or a crash of the
 * machine. Its hash reveals it, and the source is compiled again. A thread of the daemon checks the hash and then hands
 * the open file to the worker, which need not check again.
 */
#include "image_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGNMENT = 64, MOST_DEPENDENCIES = 1 << 17, MOST_PATHS = 16 << 20, CHUNK = 1 << 20 };

struct head {
    char magic[8];
    uint32_t kernel_bytes, dependency_bytes; /* of one, to detect a file of another build */
    uint64_t kernels, parts, dependencies;   /* how many */
    uint64_t path_bytes, bytes;              /* of all paths; of the file */
    uint64_t device_bytes;                   /* see gs_image */
    unsigned char hash[32];                  /* of `device_bytes` and of what follows */
};

static const char magic[8] = "gsimage4";

static size_t parts_at(const struct head *head) {
    return sizeof *head + head->kernels * sizeof(gs_image_stored);
}

static size_t dependencies_at(const struct head *head) {
    return parts_at(head) + head->parts * sizeof(struct gs_image_part);
}

static size_t paths_at(const struct head *head) {
    return dependencies_at(head) + head->dependencies * sizeof(gs_dependency);
}

static size_t front_bytes(const struct head *head) {
    return paths_at(head) + head->path_bytes;
}

static gs_code fail_broken(gs_error *error) {
    return gs_fail(error, GS_E_FORMAT, "the image is broken");
}

/* ---- reading ---- */

static bool read_at(int fd, void *into, size_t count, size_t at) {
    for (char *to = into; count;) {
        ssize_t got = pread(fd, to, count, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        at += (size_t)got;
        count -= (size_t)got;
    }
    return true;
}

static bool is_sane(const struct head *head, uint64_t size) {
    return memcmp(head->magic, magic, sizeof magic) == 0 && head->kernel_bytes == sizeof(gs_image_stored) &&
           head->dependency_bytes == sizeof(gs_dependency) && head->bytes == size &&
           size <= (uint64_t)GS_IMAGE_MB << 20 && head->kernels <= GS_IMAGE_KERNELS &&
           head->parts <= 3 * GS_IMAGE_KERNELS + 1 && head->dependencies <= MOST_DEPENDENCIES &&
           head->path_bytes <= MOST_PATHS && front_bytes(head) <= size;
}

static bool read_head(int fd, struct head *head) {
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= (off_t)sizeof *head &&
           read_at(fd, head, sizeof *head, 0) && is_sane(head, (uint64_t)status.st_size);
}

bool gs_image_digest(gs_digest *hash, int fd, uint64_t at, uint64_t end) {
    char *chunk = malloc(CHUNK);
    while (chunk && at < end) {
        size_t count = gs_min_u64(CHUNK, end - at);
        if (!read_at(fd, chunk, count, at))
            break;
        gs_digest_add(hash, chunk, count);
        at += count;
    }
    free(chunk);
    return at == end;
}

static bool has_hash(int fd, const struct head *head) {
    gs_digest hash;
    unsigned char digest[32];
    gs_digest_begin(&hash);
    gs_digest_add(&hash, &head->device_bytes, sizeof head->device_bytes);
    bool is_read = gs_image_digest(&hash, fd, sizeof *head, head->bytes);
    gs_digest_end(&hash, digest);
    return is_read && memcmp(digest, head->hash, sizeof digest) == 0;
}

static bool are_parts_inside(const struct gs_image_part *parts, const struct head *head) {
    for (size_t i = 0; i < head->parts; i++)
        if (parts[i].at > head->bytes || parts[i].bytes > head->bytes - parts[i].at)
            return false;
    return true;
}

static bool are_names_whole(const gs_image_stored *kernels, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const gs_image_stored *stored = &kernels[i];
        if (!memchr(stored->kernel.name, '\0', sizeof stored->kernel.name) ||
            !memchr(stored->kernel.refusal, '\0', sizeof stored->kernel.refusal) ||
            !memchr(stored->original.symbol, '\0', sizeof stored->original.symbol) ||
            !memchr(stored->confined.symbol, '\0', sizeof stored->confined.symbol))
            return false;
    }
    return true;
}

static bool are_paths_inside(const gs_image_front *front, const struct head *head) {
    if (head->path_bytes && front->paths[head->path_bytes - 1] != '\0')
        return false;
    for (size_t i = 0; i < front->dependency_count; i++)
        if (front->dependencies[i].path >= head->path_bytes)
            return false;
    return true;
}

static bool is_front_sound(gs_image_front *front, const struct head *head) {
    const struct gs_image_part *parts = (const struct gs_image_part *)(const void *)(front->bytes + parts_at(head));
    front->kernels = (const gs_image_stored *)(const void *)(front->bytes + sizeof *head);
    front->kernel_count = head->kernels;
    front->device_bytes = head->device_bytes;
    front->dependencies = (const gs_dependency *)(const void *)(front->bytes + dependencies_at(head));
    front->dependency_count = head->dependencies;
    front->paths = front->bytes + paths_at(head);
    return are_parts_inside(parts, head) && are_names_whole(front->kernels, front->kernel_count) &&
           are_paths_inside(front, head);
}

gs_code gs_image_verify(int fd, gs_image_front *front, gs_error *error) {
    struct head head;
    *front = (gs_image_front){0};
    if (!read_head(fd, &head))
        return fail_broken(error);
    front->bytes = malloc(front_bytes(&head) + 1);
    if (!front->bytes)
        return gs_fail_memory(error);
    if (read_at(fd, front->bytes, front_bytes(&head), 0) && is_front_sound(front, &head) && has_hash(fd, &head))
        return GS_OK;
    gs_image_front_free(front);
    return fail_broken(error);
}

void gs_image_front_free(gs_image_front *front) {
    free(front->bytes);
    *front = (gs_image_front){0};
}

/* ---- for the worker ---- */

gs_code gs_image_map(int fd, gs_image_file *file, gs_error *error) {
    struct head head;
    *file = (gs_image_file){0};
    if (!read_head(fd, &head))
        return fail_broken(error);
    void *bytes = mmap(NULL, head.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return gs_fail_system(error, "map", "an image");
    *file = (gs_image_file){.bytes = bytes,
                            .size = head.bytes,
                            .kernels = (const gs_image_stored *)(const void *)((char *)bytes + sizeof head),
                            .kernel_count = head.kernels,
                            .part_count = head.parts,
                            .device_bytes = head.device_bytes};
    file->parts = (const struct gs_image_part *)(const void *)(file->bytes + parts_at(&head));
    if (are_parts_inside(file->parts, &head) && are_names_whole(file->kernels, file->kernel_count))
        return GS_OK;
    gs_image_unmap(file);
    return fail_broken(error);
}

void gs_image_unmap(gs_image_file *file) {
    if (file->bytes)
        munmap(file->bytes, file->size);
    *file = (gs_image_file){0};
}

/* ---- writing ---- */

static void pad_to_8(gs_text *text) {
    static const char zeros[ALIGNMENT] = {0};
    gs_text_put(text, zeros, (ALIGNMENT - text->count % ALIGNMENT) % ALIGNMENT);
}

static uint64_t round_up(uint64_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void put_dependencies(gs_text *text, const gs_dependencies *all) {
    uint32_t at = 0;
    for (size_t i = 0; i < all->count; i++) {
        gs_dependency dependency = all->data[i].dependency;
        if (all->data[i].is_own)
            continue;
        dependency.path = at;
        at += (uint32_t)strlen(all->data[i].path) + 1;
        gs_text_put(text, (const char *)&dependency, sizeof dependency);
    }
    for (size_t i = 0; i < all->count; i++)
        if (!all->data[i].is_own)
            gs_text_put(text, all->data[i].path, strlen(all->data[i].path) + 1);
}

static void put_parts(gs_text *text, const gs_image_made *made, const struct head *head) {
    uint64_t at = round_up(front_bytes(head));
    for (size_t i = 0; i < made->part_count; i++) {
        struct gs_image_part part = {.at = at, .bytes = made->parts[i].count};
        gs_text_put(text, (const char *)&part, sizeof part);
        at += round_up(part.bytes);
    }
}

static struct head make_head(const gs_image_made *made, const gs_dependencies *all) {
    struct head head = {.kernel_bytes = sizeof(gs_image_stored),
                        .dependency_bytes = sizeof(gs_dependency),
                        .kernels = made->kernel_count,
                        .parts = made->part_count,
                        .device_bytes = made->device_bytes};
    memcpy(head.magic, magic, sizeof magic);
    for (size_t i = 0; i < all->count; i++) {
        head.dependencies += !all->data[i].is_own;
        head.path_bytes += all->data[i].is_own ? 0 : strlen(all->data[i].path) + 1;
    }
    return head;
}

static void put_image(gs_text *text, const gs_image_made *made, const gs_dependencies *all) {
    struct head head = make_head(made, all);
    gs_digest hash;
    gs_text_put(text, (const char *)&head, sizeof head);
    gs_text_put(text, (const char *)made->kernels, made->kernel_count * sizeof *made->kernels);
    put_parts(text, made, &head);
    put_dependencies(text, all);
    for (size_t i = 0; i < made->part_count; i++) {
        pad_to_8(text);
        gs_text_put(text, made->parts[i].data, made->parts[i].count);
    }
    pad_to_8(text);
    if (text->failed)
        return;
    head.bytes = text->count;
    gs_digest_begin(&hash);
    gs_digest_add(&hash, &head.device_bytes, sizeof head.device_bytes);
    gs_digest_add(&hash, text->data + sizeof head, text->count - sizeof head);
    gs_digest_end(&hash, head.hash);
    memcpy(text->data, &head, sizeof head);
}

gs_code gs_image_write(const char *path, const gs_image_made *made, const gs_dependencies *dependencies,
                       uint32_t most_mb, gs_error *error) {
    gs_text text = {0};
    put_image(&text, made, dependencies);
    if (!text.failed && text.count > (uint64_t)most_mb << 20) {
        gs_text_free(&text);
        return gs_fail(error, GS_E_KERNEL, "the compiler wrote more than %u MB", most_mb);
    }
    FILE *file = text.failed ? NULL : fopen(path, "wb");
    bool is_written = file && fchmod(fileno(file), 0600) == 0 && fwrite(text.data, 1, text.count, file) == text.count;
    is_written = file && fclose(file) == 0 && is_written;
    gs_code code = is_written ? GS_OK : text.failed ? gs_fail_memory(error) : gs_fail_system(error, "write", path);
    gs_text_free(&text);
    return code;
}
