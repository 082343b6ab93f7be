/*
 * ptx_numbers.h: runs single instructions of PTX on many numbers. For tests.
 *
 * One kernel has all instructions. Each of its threads takes three numbers of 64 bits: A, B and C, their lower halves
 * a, b and c, their lowest 16 bits ha, hb and hc, and the lowest bit of C as the predicate q. Every pair of the numbers
 * in ptx_numbers.c is tried, with a third that depends on both. An instruction writes D (64 bits), w (32), h (16) or p.
 */
#ifndef GS_PTX_NUMBERS_H
#define GS_PTX_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

enum { PTX_NUMBERS = 70, PTX_THREADS = PTX_NUMBERS * PTX_NUMBERS };

struct ptx_row {
    const char *code;
    char width; /* which register it writes: 'd' D, 'w' w, 'h' h, 'p' p */
};

/* The three numbers of a thread. */
void ptx_numbers_at(size_t thread, uint64_t numbers[3]);
/* Runs the rows on "host" or "cuda". The result of row r in thread t is at r * PTX_THREADS + t; the caller frees it. */
uint64_t *ptx_numbers_run(const char *on, const struct ptx_row *rows, size_t count);

#endif
