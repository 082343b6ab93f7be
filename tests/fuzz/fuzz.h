/* fuzz.h: what the fuzz targets have in common. */
#ifndef GS_FUZZ_TARGET_H
#define GS_FUZZ_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* What libFuzzer calls with an input. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Ends the program, so that libFuzzer keeps the input, if something does not hold. */
static inline void check_holds(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "does not hold: %s\n", what);
        abort();
    }
}
#define require(holds) check_holds(holds, #holds)

#endif
