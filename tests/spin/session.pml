/*
 * session.pml: clients, the daemon and the worker: if any of them dies, is every command of a living client still done
 * once, or its client told why not?
 *
 * Modelled: two clients, each with memory (asked for through the ring) or a module (a file and its command, one step here: file.pml) that it then uses
 * in a launch and a copy behind it, waits for, and frees or leaves. The daemon's loop as in src/sharing/serve/daemon.c and
 * serving.c (events, commands, decisions, a look after the worker, sweeping, sleep), sessions and resources as in session.c
 * (named, users, life; what ends a client). Launches wait for a decision, run whole or confined, are stopped and go on.
 * The worker executes its orders in order, may be lost before any step, with or without a kernel at fault; kernels may
 * never end; restarting it may fail at first. The first client may be killed or fall silent before any step; what it
 * then has not read is of no consequence to others.
 *
 * Left out: the order of files and commands (file.pml), rings and bells (ring.pml and wait.pml: here they are channels, and the daemon sleeps until one has
 * something), blocks (run.pml), what commands say and clients that lie (tests and fuzzing), memory that runs out, time: a
 * timer rings only where it will find something, a kernel that does not end or a device that is to be tried again.
 *
 * Checked, by assertions: a wait that ends well ends after the launch and the copy have happened, each once; resources are
 * used, released and forgotten only while they are there, in the worker that has them; no event of a process that
 * is gone is seen; who had something in a worker that was lost has an end code. When nothing moves anymore: living
 * clients have ended, and nothing is left of the others, in the daemon or the device.
 *
 * Mutations that must be detected: BROKEN_FREE (a resource goes when its client does, though it is in use),
 * BROKEN_STALE (events of a lost process stay), BROKEN_SETTLE (what a lost process had is told as done), BROKEN_DECIDE
 * (the daemon sleeps though there is something to decide), BROKEN_DOWN (a module that is asked for while there is no
 * worker is not refused).
 */
#define CLIENTS 2
#ifndef LOSSES
#define LOSSES 1 /* of workers, at most */
#endif

mtype = { ALLOCATE, LAUNCH, COPY, FREE };              /* commands; and orders, with */
mtype = { CONFINE };                                   /* nowhere: stop */
mtype = { ALLOCATED, RAN, STOPPED, COPIED };           /* events; STOPPED: RAN with fewer blocks than there are */
mtype = { NOTHING, WAITS, ISSUED, DONE };              /* actions */
mtype = { OPEN, CLOSED, SWEPT };                       /* sessions; CLOSED: the client is gone, actions are not */
mtype = { NO_END, RESET, KERNEL, GONE };              /* end codes */
mtype = { NO_REPLY, GRANTED, REFUSED };                /* replies */
mtype = { IDLE, WHOLE, CONFINED, STUCK };              /* kernels on the device */

/* ---- between client and daemon ---- */

chan commands[CLIENTS] = [1] of { mtype };
bool file[CLIENTS]; /* a message with a file is in the socket */
bool hung_up[CLIENTS];
mtype reply[CLIENTS] = NO_REPLY;
mtype end_code[CLIENTS] = NO_END;
byte done[CLIENTS];
bool has_ended[CLIENTS];

/* ---- between daemon and device ---- */

chan orders = [8] of { mtype, byte };
chan events = [6] of { mtype, byte, byte };
bool is_alive = true;
byte culprit = CLIENTS; /* whose kernel it was; CLIENTS: no kernel */
byte losses;

/* ---- on the device ---- */

bool memory[CLIENTS];
mtype kernel[CLIENTS] = IDLE;
bool copy_waits[CLIENTS];
byte device_life = 1;
byte ran[CLIENTS], copied[CLIENTS]; /* what has happened, for the checks */

/* ---- in the daemon ---- */

mtype session[CLIENTS] = OPEN;
bool exists[CLIENTS], is_named[CLIENTS], is_ready[CLIENTS]; /* the resource of each client */
byte users[CLIENTS], life[CLIENTS];
mtype making[CLIENTS] = NOTHING, launch[CLIENTS] = NOTHING, copy[CLIENTS] = NOTHING; /* actions */
bool is_confined[CLIENTS], is_stopping[CLIENTS], has_begun[CLIENTS];
byte running;
byte worker_life = 1;
bool must_decide, must_sweep, is_down, has_failed; /* to start a worker, once */

/* ---- clients ---- */

/* Before any step the first client may be killed, or do nothing ever again. */
inline step() {
    if
    :: true
    :: me == 0 -> goto killed
    :: me == 0 -> goto silent
    fi
}

inline give_command(what) {
    step();
    if
    :: commands[me]!what
    :: end_code[me] != NO_END -> goto over
    fi
}

proctype Client(byte me) {
    step();
    if
    :: me == 0 -> give_command(ALLOCATE)
    :: else -> file[me] = true
    fi;
    step();
    (reply[me] != NO_REPLY || end_code[me] != NO_END);
    if
    :: reply[me] == GRANTED
    :: else -> goto over
    fi;
    give_command(LAUNCH);
    give_command(COPY);
    step();
    (done[me] == 2 || end_code[me] != NO_END);
    if
    :: done[me] == 2 -> assert(ran[me] == 1 && copied[me] == 1)
    :: else -> goto over
    fi;
    if
    :: me == 1 -> give_command(FREE)
    :: true
    fi;
over:
killed:
    atomic { has_ended[me] = true; hung_up[me] = true; goto gone };
silent:
    has_ended[me] = true;
gone:
    skip
}

/* ---- the worker ---- */

inline tell(what, whose) {
    assert(nfull(events));
    events!what, whose, device_life
}

inline obey() {
    if
    :: orders?ALLOCATE, c -> assert(!memory[c]); memory[c] = true; tell(ALLOCATED, c)
    :: orders?FREE, c ->
        assert(memory[c] && kernel[c] == IDLE && !copy_waits[c]);
        memory[c] = false
    :: orders?LAUNCH, c ->
        assert(memory[c] && kernel[c] == IDLE);
        if
        :: is_confined[c] -> kernel[c] = CONFINED
        :: else -> kernel[c] = WHOLE
        fi
    :: orders?COPY, c -> assert(memory[c]); copy_waits[c] = true
    :: orders?CONFINE, c ->
        if
        :: kernel[c] == CONFINED -> kernel[c] = IDLE; tell(STOPPED, c)
        :: else
        fi
    fi
}

inline advance_device(c) {
    if
    :: kernel[c] != IDLE && kernel[c] != STUCK ->
        if
        :: kernel[c] = IDLE; ran[c]++; assert(ran[c] == 1); tell(RAN, c)
        :: losses < LOSSES -> kernel[c] = STUCK; losses++
        fi
    :: kernel[c] == IDLE && copy_waits[c] -> copy_waits[c] = false; copied[c]++; assert(copied[c] == 1); tell(COPIED, c)
    fi
}

proctype Device() {
    byte c;
end_idle:
    do
    :: atomic { is_alive && len(orders) -> obey(); c = 0 }
    :: atomic { is_alive && (kernel[0] == WHOLE || kernel[0] == CONFINED || (kernel[0] == IDLE && copy_waits[0])) -> advance_device(0) }
    :: atomic { is_alive && (kernel[1] == WHOLE || kernel[1] == CONFINED || (kernel[1] == IDLE && copy_waits[1])) -> advance_device(1) }
    :: atomic {
            is_alive && losses < LOSSES ->
            losses++;
            is_alive = false;
            if
            :: kernel[0] != IDLE -> culprit = 0
            :: kernel[1] != IDLE -> culprit = 1
            :: true
            fi
        }
    od
}

/* ---- the daemon; all of it is one thread's, and each step touches at most one resource that others touch too ---- */

inline give(order, whose) {
    if
    :: is_down
    :: else -> assert(nfull(orders)); orders!order, whose
    fi
}

inline release(c) {
    if
#ifdef BROKEN_FREE
    :: exists[c] && !is_named[c] ->
#else
    :: exists[c] && !is_named[c] && users[c] == 0 ->
#endif
        if
        :: life[c] == worker_life -> give(FREE, c)
        :: else
        fi;
        exists[c] = false;
        is_ready[c] = false;
        life[c] = 0
    :: else
    fi
}

inline forget(c) {
    is_named[c] = false;
    release(c)
}

inline settle(c) {
    number = 0;
    if
    :: launch[c] == DONE -> launch[c] = NOTHING; number = 1; users[c]--
    :: else
    fi;
    if
    :: launch[c] == NOTHING && copy[c] == DONE -> copy[c] = NOTHING; number = 2; users[c]--
    :: else
    fi;
    release(c);
    if
#ifdef BROKEN_SETTLE
    :: number && session[c] == OPEN -> done[c] = number
#else
    :: number && session[c] == OPEN && end_code[c] == NO_END -> done[c] = number
#endif
    :: else
    fi;
    if
    :: session[c] == CLOSED -> must_sweep = true
    :: else
    fi;
    number = 0
}

inline advance(c) {
    if
    :: copy[c] == WAITS && (launch[c] == NOTHING || launch[c] == DONE || (launch[c] == ISSUED && !is_confined[c])) ->
        copy[c] = ISSUED;
        give(COPY, c)
    :: else
    fi;
    settle(c)
}

inline end_session(c, code) {
    if
    :: end_code[c] == NO_END ->
        end_code[c] = code;
        is_named[c] = false;
        do
        :: launch[c] == WAITS -> launch[c] = NOTHING; users[c]--
        :: copy[c] == WAITS -> copy[c] = NOTHING; users[c]--
        :: else -> break
        od;
        release(c);
        if
        :: launch[c] == ISSUED && is_confined[c] && !is_stopping[c] -> is_stopping[c] = true; give(CONFINE, c)
        :: else
        fi;
        settle(c);
        must_decide = true
    :: else
    fi
}

inline make_resource(c) {
    exists[c] = true;
    is_named[c] = true;
    users[c] = 1;
    making[c] = ISSUED;
    give(ALLOCATE, c)
}

#define HAS_THINGS(c) (is_named[c] || making[c] != NOTHING || launch[c] != NOTHING || copy[c] != NOTHING)

inline abandon_one(c) {
    if
    :: making[c] == ISSUED ->
        making[c] = NOTHING;
        reply[c] = REFUSED;
        users[c]--
    :: else
    fi;
    if
    :: launch[c] == ISSUED -> launch[c] = DONE
    :: else
    fi;
    if
    :: copy[c] == ISSUED -> copy[c] = DONE
    :: else
    fi;
    is_confined[c] = false;
    is_stopping[c] = false;
    settle(c)
}

/* Ends the client whose kernel it was, if any, and all others that have something there. */
inline reset_everybody() {
    c = 0;
    do
    :: c < CLIENTS ->
        if
        :: HAS_THINGS(c) -> end_session(c, (c == whose && launch[c] == ISSUED -> KERNEL : RESET))
        :: else
        fi;
        assert(!exists[c] || !memory[c] || end_code[c] != NO_END);
        c++
    :: else -> break
    od;
    worker_life++;
    c = 0;
    do
    :: c < CLIENTS -> abandon_one(c); c++
    :: else -> break
    od;
    c = 0;
    whose = 0;
    running = 0;
    must_decide = true
}

/* gs_worker_restart: kills what is left, and begins with new rings. */
inline restart() {
    is_alive = false;
    do
    :: orders?_, _
    :: len(orders) == 0 -> break
    od;
#ifndef BROKEN_STALE
    do
    :: events?_, _, _
    :: len(events) == 0 -> break
    od;
#endif
    memory[0] = false;
    memory[1] = false;
    kernel[0] = IDLE;
    kernel[1] = IDLE;
    copy_waits[0] = false;
    copy_waits[1] = false;
    culprit = CLIENTS;
    device_life = worker_life;
    is_down = false;
    is_alive = true
}

inline take_event() {
    events?what, c, of_life;
    assert(of_life == worker_life);
    if
    :: what == ALLOCATED ->
        assert(making[c] == ISSUED);
        making[c] = NOTHING;
        life[c] = worker_life;
        is_ready[c] = true;
        if
        :: session[c] == OPEN -> reply[c] = GRANTED
        :: else
        fi;
        users[c]--
    :: what == RAN || what == STOPPED ->
        assert(launch[c] == ISSUED);
        running--;
        is_confined[c] = false;
        is_stopping[c] = false;
        if
        :: what == STOPPED && end_code[c] == NO_END -> launch[c] = WAITS
        :: else -> launch[c] = DONE
        fi;
        must_decide = true
    :: what == COPIED ->
        assert(copy[c] == ISSUED);
        copy[c] = DONE
    fi;
    advance(c);
    c = 0;
    what = NOTHING;
    of_life = 0
}

/* What libuv sees: connections that have said something, or have ended. */
inline look_at_sockets(c) {
    if
    :: file[c] && session[c] == OPEN && end_code[c] == NO_END ->
        file[c] = false;
        if
#ifndef BROKEN_DOWN
        :: is_down -> reply[c] = REFUSED
#endif
        :: else -> make_resource(c)
        fi
    :: else
    fi;
    if
    :: hung_up[c] && session[c] == OPEN ->
        end_session(c, GONE);
        session[c] = CLOSED;
        must_sweep = true
    :: else
    fi
}

inline take_command(c) {
    if
    :: !is_down && session[c] == OPEN && end_code[c] == NO_END && len(commands[c]) ->
        has_found = true;
        if
        :: commands[c]?ALLOCATE -> make_resource(c)
        :: commands[c]?LAUNCH -> assert(is_ready[c]); users[c]++; launch[c] = WAITS; must_decide = true
        :: commands[c]?COPY -> assert(is_ready[c]); users[c]++; copy[c] = WAITS; advance(c)
        :: commands[c]?FREE -> forget(c)
        fi
    :: else
    fi
}

inline start(c) {
    if
    :: !has_begun[c] -> is_confined[c] = false
    :: is_confined[c] = true
    fi;
    launch[c] = ISSUED;
    running++;
    give(LAUNCH, c);
    advance(c)
}

/* A launch that waits runs alone, or beside the other, or the other gives way, once, or it waits for its end. */
inline decide_one(c, other) {
    if
    :: launch[c] == WAITS && !is_down ->
        if
        :: true -> start(c)
        :: running -> skip
        :: running && launch[other] == ISSUED && is_confined[other] && !is_stopping[other] && !has_begun[other] ->
            has_begun[other] = true;
            is_stopping[other] = true;
            give(CONFINE, other)
        fi
    :: else
    fi
}

inline sweep_one(c) {
    if
    :: session[c] == CLOSED && making[c] == NOTHING && launch[c] == NOTHING && copy[c] == NOTHING ->
        assert(!exists[c] && users[c] == 0);
        session[c] = SWEPT
    :: else
    fi
}

#define SOMETHING(c) \
    (session[c] == OPEN && (hung_up[c] || (end_code[c] == NO_END && (file[c] || (len(commands[c]) && !is_down)))))

#define IS_LOST (!is_alive && !is_down)

/* The parts of a turn of the loop. What happens at more than one of them is written once, and goes on with `next`. */
#define EVENTS 0
#define LOOKED 1

proctype Daemon() {
    byte c, of_life, number, whose, next;
    bool has_found;
    mtype what = NOTHING;
working:
    atomic { has_found = false; next = EVENTS };
take_events:
    if
    :: atomic { len(events) && !is_down -> has_found = true; goto happening }
    :: len(events) == 0 || is_down
    fi;
    atomic {
        do
        :: c < CLIENTS -> take_command(c); c++
        :: else -> break
        od;
        c = 0;
        if
        :: must_decide -> must_decide = false; do :: c < CLIENTS -> decide_one(c, (1 - c)); c++ :: else -> break od; c = 0
        :: else
        fi
    };
    atomic {
        if
        :: len(events) || IS_LOST -> next = LOOKED; goto happening /* gs_worker_poll, every 20 ms */
        :: true
        fi
    };
looked:
    atomic {
        next = EVENTS;
        if
        :: must_sweep -> must_sweep = false; do :: c < CLIENTS -> sweep_one(c); c++ :: else -> break od; c = 0
        :: else
        fi;
        if
        :: has_found -> goto working
        :: else
        fi;
        /* gs_server_sleep */
        if
        :: len(events) || IS_LOST -> goto happening
        :: else
        fi;
        if
#ifndef BROKEN_DECIDE
        :: must_decide || must_sweep -> goto working
#endif
        :: else
        fi
    };
end_asleep:
    if
    :: SOMETHING(0)
    :: SOMETHING(1) -> c = 1
    :: len(events) || IS_LOST -> goto working
    :: is_alive && kernel[0] == STUCK && launch[0] == ISSUED -> whose = 0; goto losing /* it ran too long */
    :: is_alive && kernel[1] == STUCK && launch[1] == ISSUED -> whose = 1; goto losing
    :: is_down -> goto trying
    fi;
    atomic { look_at_sockets(c); c = 0; goto working };
happening:
    atomic {
        if
        :: len(events) -> take_event()
        :: len(events) == 0 && IS_LOST -> whose = culprit; goto losing
        :: else
        fi;
        if
        :: next == LOOKED -> goto looked
        :: else -> goto take_events
        fi
    };
trying: /* check_worker, without a worker: no client has anything there */
    atomic { assert(!HAS_THINGS(0) && !HAS_THINGS(1)); restart(); goto working };
losing:
    atomic {
        reset_everybody();
        restart();
        if
        :: true
        :: losses == LOSSES && !has_failed -> has_failed = true; is_down = true; is_alive = false
        fi;
        if
        :: next == LOOKED -> next = EVENTS; goto looked
        :: else -> goto working
        fi
    }
}

/* Checked when nothing moves anymore. */
proctype Checks() {
    byte c;
    timeout;
    do
    :: c < CLIENTS ->
        assert(has_ended[c]);
        assert(!hung_up[c] || (session[c] == SWEPT && !exists[c] && !memory[c] && kernel[c] == IDLE));
        c++
    :: else -> break
    od;
    assert(is_alive && len(orders) == 0 && len(events) == 0 && running == 0)
}

init {
    atomic {
        run Client(0);
        run Client(1);
        run Device();
        run Daemon();
        run Checks()
    }
}

#ifdef ENDS
ltl ends { eventually (has_ended[0] && has_ended[1]) }
#endif
