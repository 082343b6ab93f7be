/*
 * fuzz_demangle.c: any text as a C++ symbol.
 *
 * There is always a name, with any flags, and it is not longer than the reader's memory allows.
 */
#include "ptx/ptx_input.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *symbol = malloc(size + 3);
    if (!symbol)
        return 0;
    memcpy(symbol, "_Z", 2);
    memcpy(symbol + 2, data, size);
    symbol[size + 2] = '\0';
    for (unsigned flags = 0; flags < 4; flags++) {
        char *name = gs_ptx_demangle(symbol, flags);
        if (!name || strlen(name) > (1 << 16) + size)
            abort();
        free(name);
    }
    free(symbol);
    return 0;
}
