/*
 * wait.pml: the threads of a client and the daemon: is every waiting thread notified?
 *
 * Modelled, one step for each access to shared memory: the ring of commands (src/sharing/client/ring.c) between a client of two
 * threads and the daemon; the page (src/sharing/client/wire.h): `done` of each stream, `client_sleeps`, `end_code`; waiting as in
 * src/sharing/client/link.c (gs_link_wait, sleep_once, sleep_on_socket: one thread sleeps on the bell and wakes the others), also for room
 * in the ring, with the client's lock held; the daemon's sleep as in src/sharing/serve/serving.c and daemon.c. One thread
 * gives FIRST commands, the other one, each to a stream of its own, and then waits for the last of them. The daemon has what it took done in any
 * order of streams. It may end the client at any time (its end code), or be killed before any step.
 *
 * Left out: spinning before sleep (it could only hide a lost wake-up), what commands mean (session.pml), replies (they
 * are told in the same way as `done`).
 *
 * Checked: each thread ends, with its commands done, or with an end code, or with the loss of the daemon, and for no other
 * reason; neither a thread nor the daemon sleeps forever while there is something for it (a deadlock); under weak
 * fairness both threads end (ltl ends).
 *
 * Mutations that must be detected: BROKEN_FENCE (the daemon looks whether the client sleeps before `done` can be seen),
 * BROKEN_NAP (the thread that polls does not wake the other), BROKEN_LATE (a thread looks, and then says that it
 * sleeps), BROKEN_END (the daemon does not ring for an end code).
 */
#ifndef FIRST
#define FIRST 2
#endif
#define THREADS 2
#define ROOM 1

/* Shared memory. */
byte written, taken, slot;
bool reader_sleeps, writer_waits;
byte done[THREADS];
bool client_sleeps, has_end_code;
bool daemon_bell, client_bell;
bool is_killed; /* the daemon: its end of the socket is closed */

inline ring_if_wished(wish, bell) {
    if
    :: wish -> d_step { if :: wish -> wish = false; bell = true :: else fi }
    :: else
    fi
}

/* ---- the client ---- */

byte lock_owner, sleep_owner; /* mutexes: 0: free */
byte put_at, put_seen;      /* under the lock */
bool somebody_polls;        /* under `sleep_lock` */
bool waits_on_woken[THREADS];
bool is_lost;
bool has_ended[THREADS];

#define HAS_ROOM (put_at + 1 - put_seen <= ROOM)

inline lock(mutex) {
    atomic { mutex == 0 -> mutex = me + 1 }
}

/* is_met: of a wish for room (least == 0), or for a number of `done`. */
inline look() {
    if
    :: least -> met = done[me] >= least
    :: else ->
        writer_waits = true;
        d_step { put_seen = taken; met = HAS_ROOM };
        if
        :: met -> writer_waits = false
        :: else
        fi
    fi
}

inline look_and_end() {
    look();
    if
    :: met
    :: else -> met = has_end_code || is_lost
    fi
}

inline sleep_once() {
    lock(sleep_owner);
    if
    :: somebody_polls ->
        look_and_end();
        if
        :: met -> sleep_owner = 0
        :: else -> /* pthread_cond_wait */
            d_step { waits_on_woken[me] = true; sleep_owner = 0 };
            atomic { !waits_on_woken[me] && sleep_owner == 0 -> met = false }
        fi
    :: else ->
#ifdef BROKEN_LATE
        d_step { somebody_polls = true; sleep_owner = 0 };
        look_and_end();
        client_sleeps = true;
#else
        d_step { somebody_polls = true; client_sleeps = true; sleep_owner = 0 };
        look_and_end();
#endif
        if
        :: met
        :: else -> /* poll: the bell, or the socket */
            if
            :: client_bell -> client_bell = false
            :: !client_bell && is_killed -> is_lost = true
            fi
        fi;
        d_step {
            sleep_owner == 0;
            met = false;
            somebody_polls = false;
#ifndef BROKEN_NAP
            waits_on_woken[0] = false;
            waits_on_woken[1] = false
#endif
        }
    fi
}

/* wait_for; `met`: the condition holds; otherwise there is an end code, or the daemon is gone. */
inline wait_for() {
    do
    :: look();
        if
        :: met -> break
        :: else
        fi;
        if
        :: has_end_code || is_lost ->
            look();
            break
        :: else
        fi;
        sleep_once()
    od
}

proctype Thread(byte me) {
    byte given, least;
    byte commands = (me == 0 -> FIRST : 1);
    bool met, fits;
    do
    :: given == commands -> break
    :: else ->
        lock(lock_owner);
        do
        :: has_end_code || is_lost -> break
        :: else ->
            d_step {
                if
                :: HAS_ROOM
                :: else -> put_seen = taken
                fi;
                fits = HAS_ROOM
            };
            if
            :: fits ->
                d_step { slot = me + 1; put_at++; written = put_at };
                ring_if_wished(reader_sleeps, daemon_bell);
                break
            :: else ->
                least = 0;
                wait_for()
            fi
        od;
        lock_owner = 0;
        if
        :: fits -> d_step { given++; fits = false; met = false }
        :: else -> goto ended
        fi
    od;
    least = commands;
    wait_for();
ended:
    assert(has_end_code || is_lost || done[me] == commands);
    assert(!is_lost || is_killed);
    has_ended[me] = true
}

/* ---- the daemon ---- */

inline tell_done(stream) {
#ifdef BROKEN_FENCE
    ring_if_wished(client_sleeps, client_bell);
    d_step { had[stream]--; done[stream]++ }
#else
    d_step { had[stream]--; done[stream]++ };
    ring_if_wished(client_sleeps, client_bell)
#endif
}

proctype Daemon() {
    byte take_at;
    byte had[THREADS]; /* commands that have not happened */
    bool sleeps;
    {
        skip;
working:
        if
        :: take_at != written -> /* gs_session_take */
            d_step { had[slot - 1]++; take_at++; taken = take_at };
            ring_if_wished(writer_waits, client_bell);
            goto working
        :: had[0] -> tell_done(0); goto working /* an event of the worker */
        :: had[1] -> tell_done(1); goto working
#ifdef END
        :: has_end_code = true; /* gs_session_end: it takes no commands any more */
#ifndef BROKEN_END
            ring_if_wished(client_sleeps, client_bell);
#endif
            goto end_over
#endif
        :: take_at == written -> /* gs_server_sleep */
            reader_sleeps = true;
            sleeps = take_at == written;
            if
            :: sleeps
            :: else -> reader_sleeps = false; goto working
            fi
        fi;
        sleeps = false;
end_asleep:
        if
        :: daemon_bell -> daemon_bell = false; goto working
        :: had[0] -> tell_done(0); goto working
        :: had[1] -> tell_done(1); goto working
        fi;
end_over:
        false
    }
#ifdef KILL
    unless { is_killed }
#endif
}

proctype Killer() {
    if
    :: is_killed = true
    :: true
    fi
}

init {
    atomic {
        run Daemon();
        run Thread(0);
        run Thread(1);
#ifdef KILL
        run Killer();
#endif
        skip
    }
}

#ifdef ENDS
ltl ends { eventually (has_ended[0] && has_ended[1]) }
#endif
