/*
 * file.pml: files through the socket and commands through the ring: is an honest client ever ended?
 *
 * Modelled: a client that shares host memory, frees it, and shares again under the same handle, with launches between,
 * as in src/sharing/client/client.c (a file is sent, then its command is put into the ring); the daemon as in src/sharing/serve/file.c
 * and command.c: it takes commands in the order of the ring, while it has fewer actions than it may have; it reads files
 * from the socket whenever libuv says so, or when a command needs one; launches end at any time.
 *
 * Left out: rings and bells (ring.pml, wait.pml), several threads of a client (they send and put under one lock), what
 * the files hold.
 *
 * Checked, by assertions: a command finds its own file; the handle is free when it is shared; a freed handle exists.
 *
 * Mutations that must be detected: BROKEN_ORDER (the message with the file is itself the request, and overtakes
 * commands of the ring), BROKEN_FULL (the same, and it is refused while the daemon has as many actions as it may have),
 * BROKEN_LATE (the command is put before the file is sent).
 */
#define ROUNDS  3
#define ACTIONS 2 /* that the daemon may have */
#define FILES   2 /* that a client may have sent */

mtype = { LAUNCH, SHARE, FREE };

chan ring = [3] of { mtype, byte };  /* a command, and the number of its file */
chan socket = [FILES] of { byte };   /* files, by number */
chan received = [FILES] of { byte }; /* by the daemon */
bool has_reply;
byte actions;
bool is_shared; /* the handle names something */

proctype Client() {
    byte round, launches;
    do
    :: round == ROUNDS -> break
    :: else ->
        round++;
        launches = 0;
        do
        :: launches < 2 -> ring!LAUNCH, 0; launches++
        :: break
        od;
#if defined(BROKEN_LATE)
        ring!SHARE, round;
        socket!round;
#elif defined(BROKEN_ORDER) || defined(BROKEN_FULL)
        socket!round;
#else
        socket!round;
        ring!SHARE, round;
#endif
        has_reply;
        has_reply = false;
        ring!FREE, 0
    od
}

inline share() {
    assert(!is_shared);
    is_shared = true;
    has_reply = true
}

/* The next file that came, or the next one at the socket. */
inline take_file() {
    if
    :: received?file
    :: empty(received) && nempty(socket) -> socket?file
    :: empty(received) && empty(socket) -> assert(false)
    fi
}

active proctype Daemon() {
    byte file, number;
end:
    do
    :: atomic { actions < ACTIONS && ring?[LAUNCH, _] -> ring?LAUNCH, _; actions++ }
    :: atomic { actions < ACTIONS && ring?[FREE, _] -> ring?FREE, _; assert(is_shared); is_shared = false }
    :: atomic {
        actions < ACTIONS && ring?[SHARE, _] -> ring?SHARE, number;
        take_file();
        assert(file == number);
        share()
       }
#if defined(BROKEN_FULL)
    :: atomic { socket?file -> assert(actions < ACTIONS); if :: is_shared -> skip :: else -> share() fi }
#elif defined(BROKEN_ORDER)
    :: atomic { socket?file -> share() }
#else
    :: atomic { nempty(socket) && nfull(received) -> socket?file; received!file }
#endif
    od
}

active proctype Worker() {
end:
    do
    :: atomic { actions > 0 -> actions-- }
    od
}

init {
    run Client()
}
