/*
 * front_table.c: the table that the exported functions jump through. It is filled when the library is loaded, before
 * any of them can be called, so a jump is one instruction that reads the table, without a lookup.
 *
 * front.cmake generates front_symbols.c: the names, the table, and the jumps. A jump leaves all registers and the stack
 * unchanged, so it does not depend on the arguments.
 */
#include "front_table.h"
#include "front_hooks.h"

/* In place of a function that the driver does not have. */
static int not_found(void) {
    return GS_CUDA_NOT_FOUND;
}

static int no_driver(void) {
    return GS_CUDA_NO_DEVICE;
}

static gs_front_function *choose_function(const char *name, gs_front_function *missing) {
    gs_front_function *hook = gs_front_hooks_find(name);
    if (hook)
        return hook;
    gs_front_function *real = gs_front_driver_symbol(name);
    return real ? real : missing;
}

__attribute__((constructor)) static void fill_table(void) {
    bool has_driver = gs_front_driver_open();
    gs_front_hooks_resolve();
    gs_front_ready(has_driver);
    gs_front_function *missing = (gs_front_function *)(has_driver ? not_found : no_driver);
    for (size_t i = 0; i < gs_front_symbol_count; i++)
        gs_front_table[i] = choose_function(gs_front_symbols[i], missing);
}
