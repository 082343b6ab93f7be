/* builtin.h: the descriptions of gpus/, compiled into the library. The build makes builtin.c from the files. */
#ifndef GS_BUILTIN_H
#define GS_BUILTIN_H

#include "base/base.h"

extern const gs_embedded_files gs_builtin_gpus;

#endif
