/*
 * digest.c: SHA-256 as FIPS 180-4 describes it.
 *
 * The constants are the first 32 bits of the fractional parts of the square roots (state) and cube roots (rounds) of
 * the first primes.
 */
#include "base.h"

#include <stdio.h>
#include <string.h>

static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void gs_digest_begin(gs_digest *hash) {
    *hash = (gs_digest){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

static uint32_t rotate_right(uint32_t word, int by) {
    return word >> by | word << (32 - by);
}

static void take_words(uint32_t *words, const unsigned char *block) {
    for (int i = 0; i < 16; i++)
        words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
                   block[4 * i + 3];
}

/* The word of a round from the 16 before it, which are kept in a ring buffer. */
static uint32_t next_word(uint32_t *words, int round) {
    uint32_t x = words[(round + 1) % 16], y = words[(round + 14) % 16];
    if (round >= 16)
        words[round % 16] += (rotate_right(x, 7) ^ rotate_right(x, 18) ^ x >> 3) + words[(round + 9) % 16] +
                             (rotate_right(y, 17) ^ rotate_right(y, 19) ^ y >> 10);
    return words[round % 16];
}

static void digest_block(gs_digest *hash, const unsigned char *block) {
    uint32_t words[16], *state = hash->state;
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6],
             h = state[7];
    take_words(words, block);
    for (int i = 0; i < 64; i++) {
        uint32_t choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
        uint32_t first = h + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) + choice + rounds[i] +
                         next_word(words, i);
        uint32_t second = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) + majority;
        h = g, g = f, f = e, e = d + first;
        d = c, c = b, b = a, a = first + second;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void gs_digest_add(gs_digest *hash, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    size_t used = hash->bytes % 64;
    hash->bytes += count;
    if (used) {
        size_t first = gs_min_u64(count, 64 - used);
        memcpy(hash->block + used, at, first);
        at += first, count -= first;
        if (used + first < 64)
            return;
        digest_block(hash, hash->block);
    }
    for (; count >= 64; at += 64, count -= 64)
        digest_block(hash, at);
    if (count)
        memcpy(hash->block, at, count);
}

void gs_digest_add_text(gs_digest *hash, const char *text) {
    uint64_t length = strlen(text);
    gs_digest_add(hash, &length, sizeof length);
    gs_digest_add(hash, text, length);
}

void gs_digest_end(gs_digest *hash, unsigned char digest[32]) {
    static const unsigned char padding[64] = {0x80};
    unsigned char length[8];
    uint64_t bits = hash->bytes * 8;
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    gs_digest_add(hash, padding, 1 + (119 - hash->bytes % 64) % 64);
    gs_digest_add(hash, length, sizeof length);
    for (int i = 0; i < 32; i++)
        digest[i] = (unsigned char)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void gs_digest_hex(const unsigned char digest[32], char text[65]) {
    for (int i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}
