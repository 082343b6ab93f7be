/*
 * sass_lz4.c: expands a block of LZ4, the output of nvcc --compress-mode=speed.
 *
 * A block is a list of sequences. A sequence is a token, literals, and a match: bytes that were already written, given
 * by their distance. The token has two lengths of four bits; 15 means that more bytes follow, and each byte 255 that
 * yet another follows. The last sequence ends after its literals. A match may overlap its own output: a distance of 1
 * repeats a byte.
 *
 * The input is not trusted: each read and each write is checked.
 */
#include "sass.h"

enum { LONG_LENGTH = 15, MORE = 255, SHORTEST_MATCH = 4 };

struct reader {
    const unsigned char *at, *end;
};

/* Reads a length that begins with four bits of the token. A length above `most` means a damaged file, so sums cannot
   overflow. */
static bool read_length(struct reader *from, size_t bits, size_t most, size_t *length) {
    *length = bits;
    if (bits < LONG_LENGTH)
        return bits <= most;
    unsigned char more;
    do {
        if (from->at == from->end)
            return false;
        more = *from->at++;
        *length += more;
        if (*length > most)
            return false;
    } while (more == MORE);
    return true;
}

bool gs_fatbin_lz4(const unsigned char *from, size_t size, unsigned char *into, size_t into_size) {
    struct reader in = {from, from + size};
    size_t count = 0, length;
    while (in.at < in.end) {
        unsigned token = *in.at++;
        if (!read_length(&in, token >> 4, into_size - count, &length) || length > (size_t)(in.end - in.at))
            return false;
        memcpy(into + count, in.at, length);
        in.at += length;
        count += length;
        if (in.at == in.end)
            return count == into_size;
        if (in.end - in.at < 2)
            return false;
        size_t distance = in.at[0] | (size_t)in.at[1] << 8;
        in.at += 2;
        if (!read_length(&in, token & 15, into_size, &length))
            return false;
        length += SHORTEST_MATCH;
        if (!distance || distance > count || length > into_size - count)
            return false;
        for (size_t end = count + length; count < end; count++)
            into[count] = into[count - distance];
    }
    return false;
}
