/* floods.h: clients that use as much as they can, each of one kind; for fairness.c and churn.c. See floods.c. */
#ifndef GS_BENCH_FLOODS_H
#define GS_BENCH_FLOODS_H

#include "sharing/client/client.h"

#include <gridsmith/client.h>

typedef struct flood {
    const char *name;
    void (*run)(const char *socket); /* never returns */
} flood;

extern const flood floods[];
extern const size_t flood_count;

/* ---- honest clients, and functions for all clients ---- */

/* Kernels of the source that flood_load loads: `work(int *out, int turns)` and `empty(int *out)`. */
enum { FLOOD_WORK, FLOOD_EMPTY };

/* A client; waits while it is refused. */
gs_client *flood_client(const char *socket, const char *name);
gs_client_code flood_load(gs_client *client, int number, uint32_t *module); /* each number is another source */
gs_client_code flood_launch(gs_client *client, uint32_t stream, uint32_t module, gs_client_memory memory, int turns);

/* ---- processes ---- */

/* Starts a daemon on the CPU with a folder for its files, and waits until it answers. 0: no answer. */
pid_t flood_daemon(const char *program, const char *folder, const char *socket);
/* Starts a child that ends with its parent; returns 0 in the child. */
pid_t flood_fork(void);
void flood_end(pid_t process, int signal);
void flood_sleep(double seconds);

#endif
