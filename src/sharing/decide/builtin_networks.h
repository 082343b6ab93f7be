/* builtin_networks.h: the networks of networks/, compiled into the program (the build makes networks.c). For this room
   only. */
#ifndef GS_BUILTIN_NETWORKS_H
#define GS_BUILTIN_NETWORKS_H

#include "simulate.h"

typedef struct gs_builtin_network {
    const char *name;
    const unsigned char *bytes;
    size_t count;
} gs_builtin_network;

extern const gs_builtin_network gs_builtin_networks[];
extern const size_t gs_builtin_network_count;

#endif
