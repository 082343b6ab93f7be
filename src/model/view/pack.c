/*
 * pack.c: bytes, compressed by deflate, as base64, which cannot contain the end tag of its element.
 */
#include "html.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Four characters for up to three bytes. */
static void put_three(const unsigned char *bytes, size_t count, char *out) {
    uint32_t value = (uint32_t)bytes[0] << 16 | (count > 1 ? (uint32_t)bytes[1] << 8 : 0) | (count > 2 ? bytes[2] : 0);
    out[0] = digits[value >> 18];
    out[1] = digits[value >> 12 & 63];
    out[2] = count > 1 ? digits[value >> 6 & 63] : '=';
    out[3] = count > 2 ? digits[value & 63] : '=';
}

/* Up to two bytes wait for the next call. */
static void put_base64(gs_pack *pack, const unsigned char *bytes, size_t count) {
    char out[4096];
    size_t filled = 0;
    for (size_t i = 0; i < count; i++) {
        pack->left[pack->left_count++] = bytes[i];
        if (pack->left_count < 3)
            continue;
        put_three(pack->left, 3, out + filled);
        pack->left_count = 0;
        filled += 4;
        if (filled == sizeof out) {
            gs_text_put(pack->text, out, filled);
            filled = 0;
        }
    }
    gs_text_put(pack->text, out, filled);
}

static void run_deflate(gs_pack *pack, int flush) {
    unsigned char out[32768];
    do {
        pack->stream.next_out = out;
        pack->stream.avail_out = sizeof out;
        if (deflate(&pack->stream, flush) == Z_STREAM_ERROR)
            pack->failed = true;
        put_base64(pack, out, sizeof out - pack->stream.avail_out);
    } while (!pack->failed && !pack->stream.avail_out);
}

void gs_pack_begin(gs_pack *pack, gs_text *text) {
    *pack = (gs_pack){.text = text};
    pack->failed = deflateInit(&pack->stream, 5) != Z_OK;
}

void gs_pack_add(gs_pack *pack, const void *bytes, size_t count) {
    enum { MOST = 1 << 30 };
    const unsigned char *at = bytes;
    pack->bytes += count;
    for (size_t part; count && !pack->failed; count -= part, at += part) {
        part = gs_min_u64(count, MOST);
        pack->stream.next_in = (unsigned char *)(uintptr_t)at;
        pack->stream.avail_in = (unsigned)part;
        run_deflate(pack, Z_NO_FLUSH);
    }
}

void gs_pack_align(gs_pack *pack) {
    static const unsigned char zeros[8];
    gs_pack_add(pack, zeros, (8 - pack->bytes % 8) % 8);
}

void gs_pack_end(gs_pack *pack) {
    char out[4];
    if (!pack->failed)
        run_deflate(pack, Z_FINISH);
    deflateEnd(&pack->stream);
    if (pack->left_count) {
        put_three(pack->left, pack->left_count, out);
        gs_text_put(pack->text, out, sizeof out);
    }
    pack->text->failed = pack->text->failed || pack->failed;
}
