/*
 * fuzz_demangle.c: any text as a C++ symbol, as PTX with kernels, and as the name of one of them.
 *
 * There is always a name, with any flags, and it is not longer than the reader's memory allows. A kernel is found by
 * its symbol.
 */
#include "fuzz.h"

#include "kernels/ptx/ptx_input.h"

static void find_entries(const char *text) {
    gs_ptx_entries entries;
    if (!gs_ptx_entries_list(text, &entries))
        return;
    gs_ptx_entries_find(&entries, text);
    if (entries.count && gs_ptx_entries_find(&entries, entries.data[0]) != 0)
        abort();
    gs_ptx_entries_free(&entries);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *symbol = malloc(size + 3);
    if (!symbol)
        return 0;
    memcpy(symbol, "_Z", 2);
    memcpy(symbol + 2, data, size);
    symbol[size + 2] = '\0';
    for (unsigned flags = 0; flags < 4; flags++) {
        char *name = gs_demangle(symbol, flags);
        if (!name || strlen(name) > (1 << 16) + size)
            abort();
        free(name);
    }
    gs_symbol identifiers = {.text = symbol};
    while (gs_symbol_next(&identifiers))
        if (identifiers.name < symbol || identifiers.name + identifiers.length > symbol + size + 2)
            abort();
    find_entries(symbol + 2);
    free(symbol);
    return 0;
}
