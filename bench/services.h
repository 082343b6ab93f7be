/* services.h: children with time limits, and what runs beside them, for share.c. See services.c. */
#ifndef GS_BENCH_SERVICES_H
#define GS_BENCH_SERVICES_H

#include "base/base.h"

#include <sys/types.h>

/* ---- children: programs that read lines and write lines ---- */

typedef struct child {
    pid_t pid;   /* 0: there is none */
    int in, out; /* what it reads, and what it writes */
    char buffer[8192], line[4096];
    size_t count; /* in the buffer */
} child;

/* What is different for a child: names and values by turns, a value NULL: not set. It ends in a NULL. */
typedef const char *const *environment;

/* False, with a line on standard error: it could not be started. */
bool child_start(child *started, const char *const *arguments, environment changes);
/* The next line that it writes, without its end. NULL: it ended, or `seconds` passed, or somebody interrupted. */
const char *child_line(child *from, double seconds);
bool child_tell(child *to, const char *words);
/* Lets it end by itself, or kills it after `seconds`. Its exit code, or -1. */
int child_end(child *ended, double seconds);
void child_kill(child *killed); /* none is fine */

/* ---- services: what runs while applications are measured ---- */

struct services {
    char program[512]; /* gridsmith */
    char folder[64];   /* for sockets and logs; goes when all is closed */
    char pipes[96], logs[96], socket[96];
    const char *list[3][8]; /* environments: plain, under MPS, of the daemon and its clients */
    child mps, daemon;
};

/* Finds gridsmith, beside `self` where `program` is NULL, and makes a folder. False, with a line: it cannot. */
bool services_open(struct services *services, const char *program, const char *self);
/* Start MPS or the daemon, and wait until they listen. False: why. */
bool services_start_mps(struct services *services, char *why, size_t size);
bool services_start_daemon(struct services *services, char *why, size_t size);
/* Removes what the daemon has compiled. */
bool services_forget_images(const struct services *services);
environment services_environment(const struct services *services, bool under_mps, bool served);
/* Stops what was started, and removes the folder. */
void services_close(struct services *services);

/* Whether SIGINT, SIGTERM or SIGHUP came. */
bool services_interrupted(void);

#endif
