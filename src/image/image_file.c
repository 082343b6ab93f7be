/*
 * image_file.c: the file of an image: a head with a hash of all that follows, the kernels, the parts, the bytes of the
 * parts. See image.h.
 *
 * A file is written under another name and renamed, so a broken one is rare: a full disk, a crash of the machine. It is
 * noticed by its hash, and compiled again.
 */
#include "image_file.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 512 << 20 };

struct head {
    char magic[8];
    uint32_t kernel_bytes; /* of one, so that a file of another build is noticed */
    uint32_t unused;
    uint64_t kernels, parts, bytes; /* how many; of the file */
    unsigned char hash[32];         /* of what follows */
};

static const char magic[8] = "gsimage1";

static void hash_rest(const char *bytes, size_t size, unsigned char digest[32]) {
    gs_digest hash;
    gs_digest_begin(&hash);
    gs_digest_add(&hash, bytes + sizeof(struct head), size - sizeof(struct head));
    gs_digest_end(&hash, digest);
}

/* Whether all is in its place. What the hash covers was written by us, and is looked at after it. */
static bool is_whole(gs_image_file *file) {
    struct head head;
    unsigned char digest[32];
    if (file->size < sizeof head)
        return false;
    memcpy(&head, file->bytes, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0 || head.kernel_bytes != sizeof(gs_image_stored) ||
        head.bytes != file->size || head.kernels > GS_IMAGE_KERNELS || head.parts > 3 * GS_IMAGE_KERNELS + 1)
        return false;
    hash_rest(file->bytes, file->size, digest);
    size_t parts_at = sizeof head + head.kernels * sizeof(gs_image_stored);
    size_t bytes_at = parts_at + head.parts * sizeof *file->parts;
    if (memcmp(digest, head.hash, sizeof digest) != 0 || bytes_at > file->size)
        return false;
    file->kernel_count = head.kernels;
    file->part_count = head.parts;
    file->kernels = (const gs_image_stored *)(const void *)(file->bytes + sizeof head);
    file->parts = (const struct gs_image_part *)(const void *)(file->bytes + parts_at);
    bool is_inside = true;
    for (size_t i = 0; i < file->part_count; i++)
        is_inside =
            is_inside && file->parts[i].at <= file->size && file->parts[i].bytes <= file->size - file->parts[i].at;
    return is_inside;
}

gs_code gs_image_read(const char *path, gs_image_file *file, gs_error *error) {
    *file = (gs_image_file){0};
    gs_code code = gs_input_all(path, MOST_BYTES, &file->bytes, &file->size, error);
    if (code == GS_OK && !is_whole(file))
        code = gs_fail(error, GS_E_FORMAT, "%.150s is broken", path);
    if (code != GS_OK)
        gs_image_file_free(file);
    return code;
}

void gs_image_file_free(gs_image_file *file) {
    free(file->bytes);
    *file = (gs_image_file){0};
}

gs_code gs_image_write(const char *path, const gs_image_made *made, gs_error *error) {
    gs_text text = {0};
    struct head head = {
        .kernel_bytes = sizeof(gs_image_stored), .kernels = made->kernel_count, .parts = made->part_count};
    memcpy(head.magic, magic, sizeof magic);
    gs_text_put(&text, (const char *)&head, sizeof head);
    gs_text_put(&text, (const char *)made->kernels, made->kernel_count * sizeof *made->kernels);
    uint64_t at = text.count + made->part_count * sizeof(struct gs_image_part);
    for (size_t i = 0; i < made->part_count; i++) {
        struct gs_image_part part = {.at = at, .bytes = made->parts[i].count};
        gs_text_put(&text, (const char *)&part, sizeof part);
        at += part.bytes;
    }
    for (size_t i = 0; i < made->part_count; i++)
        gs_text_put(&text, made->parts[i].data, made->parts[i].count);
    if (!text.failed) {
        head.bytes = text.count;
        hash_rest(text.data, text.count, head.hash);
        memcpy(text.data, &head, sizeof head);
    }
    FILE *file = text.failed ? NULL : fopen(path, "wb");
    bool is_written = file && fwrite(text.data, 1, text.count, file) == text.count;
    is_written = file && fclose(file) == 0 && is_written;
    gs_code code = is_written ? GS_OK : text.failed ? gs_fail_memory(error) : gs_fail_system(error, "write", path);
    gs_text_free(&text);
    return code;
}
