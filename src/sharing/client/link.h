/*
 * link.h: a client's end of the link to the daemon, for client.c. See link.c.
 */
#ifndef GS_CLIENT_LINK_H
#define GS_CLIENT_LINK_H

#include "wire.h"

#include <pthread.h>

enum { GS_LINK_CHUNKS = 8 }; /* staging memory for copies of memory that is not shared */

/* A handle of memory, a region or a module. */
struct gs_link_slot {
    bool is_used;
    uint64_t bytes; /* of a module: how many kernels */
    unsigned char *address;
};

struct gs_link_table {
    struct gs_link_slot *slots;
    uint32_t count, most, hint;
};

struct gs_link_use {
    uint32_t stream;
    uint64_t command;
};

struct gs_client {
    int socket;
    pid_t process; /* that opened it */
    gs_wire_page *page;
    gs_client_facts facts;

    pthread_mutex_t lock;
    gs_ring ring;
    uint64_t commands;                   /* written so far */
    uint64_t last[GS_CLIENT_STREAMS];    /* the last command of each stream */
    uint64_t recorded[GS_CLIENT_EVENTS]; /* the last command that recorded it; 0: none */
    uint32_t errors[GS_CLIENT_STREAMS];  /* returned to the caller */
    struct gs_link_table memories, regions, modules;
    uint64_t replies; /* bit i: slot i is in use */
    uint32_t tickets;
    pthread_cond_t reply_free;
    uint32_t files; /* files sent whose commands have no reply yet */
    pthread_cond_t file_taken;

    struct {
        pthread_mutex_t lock;
        uint32_t region;
        unsigned char *memory;
        struct gs_link_use uses[GS_LINK_CHUNKS];
        uint32_t next;
    } staging;

    pthread_mutex_t sleep_lock;
    pthread_cond_t woken;
    bool is_polling;
    _Atomic bool is_lost;
    _Atomic uint32_t spin_ns;
};

/* ---- errors: for gs_client_message ---- */

__attribute__((format(printf, 2, 3))) gs_client_code gs_link_fail(gs_client_code code, const char *format, ...);
gs_client_code gs_link_fail_system(const char *what);
/* A message that the daemon wrote; it need not end with a NUL. */
gs_client_code gs_link_fail_message(uint32_t code, const char *text);
/* Why the daemon ended this client, or OK. */
gs_client_code gs_link_end_code(gs_client *client);

/* ---- waiting ---- */

/* What a thread waits for: a counter that reaches a number, a ticket, or space in the ring. */
struct gs_link_condition {
    const _Atomic uint64_t *counter;
    uint64_t least;
    const _Atomic uint32_t *ticket;
    uint32_t wanted;
    gs_ring *ring;
    uint32_t room;
};

gs_client_code gs_link_wait(gs_client *client, const struct gs_link_condition *condition);

/* ---- under the lock ---- */

/* A free handle; 0: none is left, or out of memory. */
uint32_t gs_link_add(struct gs_link_table *table, uint64_t bytes);
struct gs_link_slot *gs_link_find(const struct gs_link_table *table, uint32_t handle);
void gs_link_remove(struct gs_link_table *table, uint32_t handle);

/* Writes a command. Waits while the ring is full; the daemon always drains it. */
gs_client_code gs_link_put(gs_client *client, const void *command, size_t bytes);
/* The same for a command of a stream. */
gs_client_code gs_link_put_stream(gs_client *client, const void *command, size_t bytes);
/* A command that needs a file: sends it first. Waits while too many files are in flight; gs_link_file_taken must be
   called when the command has its reply, even if this fails. */
gs_client_code gs_link_put_file(gs_client *client, const void *command, size_t bytes, int fd);
void gs_link_file_taken(gs_client *client);
gs_client_code gs_link_check_stream(uint32_t stream);

/* A slot for the daemon's reply to a command, and the ticket to put into it. Waiting for it is done without the lock.
 */
uint32_t gs_link_reply_take(gs_client *client, uint32_t *ticket);
gs_client_code gs_link_reply_wait(gs_client *client, uint32_t slot, uint32_t ticket);
void gs_link_reply_give(gs_client *client, uint32_t slot);

#endif
