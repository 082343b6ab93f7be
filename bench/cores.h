/* cores.h: the time that threads ran on cores, and waited for one; for fairness.c. See cores.c. */
#ifndef GS_BENCH_CORES_H
#define GS_BENCH_CORES_H

#include <stdint.h>
#include <sys/types.h>

enum { CORES_GROUPS = 16, CORES_NAME = 24 };

/* Threads with the same name in processes of the same role. */
typedef struct cores_group {
    char name[CORES_NAME];
    double ran_ns, waited_ns; /* on a core; ready to run, but without one */
} cores_group;

typedef struct cores {
    cores_group groups[CORES_GROUPS];
    int count;
} cores;

/* Adds the threads of a process; `sign` is 1 at the end of the measured time, and -1 at its beginning. */
void cores_add(cores *all, const char *role, pid_t process, int sign);

#endif
