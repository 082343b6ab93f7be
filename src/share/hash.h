/*
 * hash.h: SHA-256, for names of files and for knowing a broken one. See hash.c.
 */
#ifndef GS_HASH_H
#define GS_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct gs_hash {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
} gs_hash;

void gs_hash_begin(gs_hash *hash);
void gs_hash_add(gs_hash *hash, const void *bytes, size_t count);
/* A text with its length, so that "ab" and "c" is not "a" and "bc". */
void gs_hash_add_text(gs_hash *hash, const char *text);
void gs_hash_end(gs_hash *hash, unsigned char digest[32]);
void gs_hash_hex(const unsigned char digest[32], char text[65]);

#endif
