/*
 * share.h: one GPU for many processes: the daemon, its clients, and the processes that it starts.
 */
#ifndef GS_SHARE_H
#define GS_SHARE_H

#include "base/base.h"

/* ---- processes that the daemon starts: hidden subcommands of the program ---- */

#define GS_DEVICE_PROCESS   "device-process"
#define GS_COMPILER_PROCESS "compiler-process"

/* Both are told by descriptors that they inherit, and are of no use to people. They return an exit code. */
int gs_device_process(int argc, char **argv);
int gs_compiler_process(int argc, char **argv);

#endif
