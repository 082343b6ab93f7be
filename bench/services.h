/* services.h: child processes with time limits, and the services that run beside them, for share.c. See services.c. */
#ifndef GS_BENCH_SERVICES_H
#define GS_BENCH_SERVICES_H

#include "base/base.h"

#include <sys/types.h>

/* ---- children: programs that read and write lines ---- */

enum { CHILD_LINE = 1 << 17 }; /* the status of a daemon with many clients is one line */

typedef struct child {
    pid_t pid;   /* 0: not running */
    int in, out; /* its standard input and output */
    char buffer[CHILD_LINE], line[CHILD_LINE];
    size_t count; /* in the buffer */
} child;

/* Changes to the environment of a child: "NAME=value", or "NAME" that is not set; a NULL at the end. */
typedef const char *const *environment;

/* False: it could not be started; a line on standard error says why. */
bool child_start(child *started, const char *const *arguments, environment changes);
/* The next line that it writes, without the line end. NULL: it has ended, `seconds` have passed, or this program was
   interrupted. */
const char *child_line(child *from, double seconds);
bool child_write(child *to, const char *text);
void child_end_input(child *to); /* it reads no more */
/* Waits until it ends, or kills it after `seconds`. Returns its exit code, or -1. */
int child_end(child *ended, double seconds);
void child_kill(child *killed); /* may be called if it is not running */

/* ---- services: programs that run while applications are measured ---- */

/* The service whose client a child is. There can be several daemons, each of which learns for itself. */
enum services_of {
    SERVICES_NONE,
    SERVICES_MPS,
    SERVICES_DAEMON,
    SERVICES_DAEMON_2,
    SERVICES_DAEMON_3,
    SERVICES_PLANNED,
    SERVICES_COUNT
};

struct services {
    char program[512]; /* gridsmith */
    const char *other; /* the program of the second and third daemon; NULL: the same */
    char *folder;      /* for sockets and logs; services_close removes it */
    char pipes[96], logs[96], sockets[SERVICES_COUNT][96];
    char variables[SERVICES_COUNT][3][128];
    const char *list[SERVICES_COUNT][4]; /* environments: those variables */
    child mps, daemons[SERVICES_COUNT];
};

/* Finds gridsmith, next to `self` if `program` is NULL, and makes a folder. False: failed; a line on standard error
   says why. */
bool services_open(struct services *services, const char *program, const char *self);
/* Starts MPS, and waits until it listens. False: failed, see `why`. */
bool services_start_mps(struct services *services, char *why, size_t size);
/* Starts a daemon, which knows nothing. `of` is SERVICES_DAEMON or later; `plan` is for SERVICES_PLANNED. */
bool services_start_daemon(struct services *services, enum services_of of, const char *plan, char *why, size_t size);
/* Waits until it listens. */
bool services_await_daemon(struct services *services, enum services_of of, char *why, size_t size);
/* Stops a daemon. If `keep` is not NULL, the file with what it has learned is moved there. */
void services_stop_daemon(struct services *services, enum services_of of, const char *keep);
/* Removes the images that the daemon has compiled. */
bool services_remove_images(const struct services *services);
environment services_environment(const struct services *services, enum services_of of);
/* Stops the services, and removes the folder. */
void services_close(struct services *services);

/* Whether this program got SIGINT, SIGTERM or SIGHUP. */
bool services_interrupted(void);

#endif
