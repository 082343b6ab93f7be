/* builtin_networks.h: the networks of networks/, compiled into the program (the build makes networks.c). For this room
   only. */
#ifndef GS_BUILTIN_NETWORKS_H
#define GS_BUILTIN_NETWORKS_H

#include "simulate.h"

extern const gs_embedded_files gs_builtin_networks;

#endif
