/*
 * gate_keeper.h: the kernel of gate_keeper.c.
 */
#ifndef GS_GATE_KEEPER_H
#define GS_GATE_KEEPER_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#define GS_KEEPER_NAME "gridsmith_keep"

/* Its parameters: the addresses of the flags and of the words on the device (64 bits each), its bit of the flags and
   its number (32 bits each), its patience and how long it may run, both in ns (64 bits each). */
extern const char gs_keeper_image[];

/* What a keeper reads, 16 bytes at a time, and writes. */
typedef struct gs_keeper_words {
    alignas(16) _Atomic uint32_t beats; /* signs of life of the program */
    _Atomic uint32_t waits;             /* its threads that wait for a stream or an event: it is alive meanwhile */
    _Atomic uint32_t ended;             /* keepers up to this number must end; */
    _Atomic uint32_t done;              /* the last one that has ended */
} gs_keeper_words;

#endif
