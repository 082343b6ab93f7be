/*
 * fuzz_pack.c: any lines as a pack whose digest is right: the digest only finds damage, so everything behind it must be
 * checked, too.
 */
#include "lab/calibrate/calibrate.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const char *bytes, size_t size);

/* The last line: how many lines there are, and their digest. */
static void put_end(gs_text *text) {
    unsigned char digest[32];
    char hex[65];
    gs_digest hash;
    int64_t lines = 0;
    for (size_t i = 0; i < text->count; i++)
        lines += text->data[i] == '\n';
    gs_digest_begin(&hash);
    gs_digest_add(&hash, text->data, text->count);
    gs_digest_end(&hash, digest);
    gs_digest_hex(digest, hex);
    gs_text_add(text, "{\"end\":%lld,\"sha256\":\"%s\"}\n", (long long)lines, hex);
}

static void read_pack(const char *path, const gs_text *text, bool is_part) {
    gs_error error = {.code = GS_OK};
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    fwrite(text->data, 1, text->count, file);
    fclose(file);
    gs_gpu_pack *pack = gs_pack_read(path, is_part, &error);
    if (!pack && (error.code == GS_OK || !error.message[0]))
        abort();
    gs_pack_free(pack);
}

int LLVMFuzzerTestOneInput(const char *bytes, size_t size) {
    char path[60];
    gs_text text = {0};
    snprintf(path, sizeof path, "/tmp/gridsmith-fuzz-pack-%d", (int)getpid());
    gs_text_put(&text, bytes, size);
    if (text.count && text.data[text.count - 1] != '\n')
        gs_text_put(&text, "\n", 1);
    read_pack(path, &text, true);
    put_end(&text);
    read_pack(path, &text, false);
    unlink(path);
    gs_text_free(&text);
    return 0;
}
