/*
 * gate_table.c: the table that the exported functions jump through. It is filled when the library is loaded, before
 * anybody can call them, so a jump is one instruction that reads the table and never looks anything up.
 *
 * gate.cmake generates gate_symbols.c: the names, the table, and the jumps. A jump leaves all registers and the stack
 * as they are, so nothing needs to be known about arguments.
 */
#include "gate.h"

#include "gate_table.h"

/* In place of a function that the driver does not have. */
static int not_found(void) {
    return GS_CUDA_NOT_FOUND;
}

static int no_driver(void) {
    return GS_CUDA_NO_DEVICE;
}

static gs_gate_function *choose(const char *name, gs_gate_function *missing) {
    gs_gate_function *hook = gs_gate_hook(name);
    if (hook)
        return hook;
    gs_gate_function *real = gs_gate_driver_symbol(name);
    return real ? real : missing;
}

__attribute__((constructor)) static void fill_table(void) {
    gs_gate_link_configure();
    bool has_driver = gs_gate_driver_open();
    if (!has_driver)
        gs_gate_say("there is no NVIDIA driver: libcuda.so.1 was not found behind this library");
    gs_gate_function *missing = (gs_gate_function *)(has_driver ? not_found : no_driver);
    for (size_t i = 0; i < gs_gate_symbol_count; i++)
        gs_gate_table[i] = choose(gs_gate_symbols[i], missing);
}
