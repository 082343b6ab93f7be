/*
 * gate_driver.c: the functions of the real driver that hooks need.
 */
#include "gate.h"

gs_gate_calls gs_gate_real;

void gs_front_ready(bool has_driver) {
    gs_gate_link_configure();
#define RESOLVE(name, arguments) gs_front_find_real(#name, &gs_gate_real.name);
    GS_GATE_CALLS(RESOLVE)
#undef RESOLVE
    if (has_driver)
        gs_gate_slice_install(gs_front_driver_handle());
    else
        gs_gate_say("no NVIDIA driver: no other libcuda.so.1 was found");
}
