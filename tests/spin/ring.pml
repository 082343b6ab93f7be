/*
 * ring.pml: the rings between the daemon and the worker, and their bells: is any wake-up lost?
 *
 * Modelled, one step for each access to shared memory: src/sharing/client/ring.c (put, wants_space, take, sleep, wake: positions
 * and wishes are sequentially consistent there, as they are here), the daemon's side as in src/sharing/worker/worker.c (backlog,
 * flush, peek, poll) and the worker as in src/sharing/worker/loop.c (orders, slow threads, events that find no
 * room, sleep). A bell is an eventfd; only whether it was rung matters. The worker may be killed before any step.
 *
 * Left out: bytes (a record is one number, a ring has room for ROOM of them), positions that go around 2^64, a hostile
 * other side (tests do that), time (spinning, sleeps that end by themselves: they could only hide a lost wake-up).
 *
 * Checked: records come out once, in order and whole; no process sleeps forever while there is something for it (each
 * such state is a deadlock, an invalid end state); the daemon ends with all events or with the loss of the device, and
 * has then taken all records that were put before it.
 *
 * Mutations that must be detected: BROKEN_WAKE (looks for a record, then says that it sleeps), BROKEN_ORDER (looks
 * whether the reader sleeps before the record is there: what a missing fence does), BROKEN_SILENCE (silences the bell
 * after saying that it sleeps), BROKEN_FLUSH (does not try the backlog again after silencing a bell that may have rung
 * for room), BROKEN_ROOM (does not look for room again after wishing for it).
 */
#ifndef ORDERS
#define ORDERS 3
#endif
#define EVENTS ((ORDERS + 1) / 2) /* the first order is answered, the second (memory is released, say) is not, ... */
#define ROOM 1

#define TO_DEVICE 0 /* rings */
#define TO_DAEMON 1
#define DAEMON 0 /* bells */
#define DEVICE 1

/* Shared memory. */
byte written[2], taken[2];
bool reader_sleeps[2], writer_waits[2];
byte slots[2];
bool bell[2];
bool has_hung_up; /* the worker was killed */

/* A wish is fulfilled once. */
inline ring_if_wished(wish, whose) {
    if
    :: wish -> d_step { if :: wish -> wish = false; bell[whose] = true :: else fi }
    :: else
    fi
}

/* Each process writes one ring and reads the other, and has as its own: `put_at` and `take_at`, its positions, and
   `put_seen` and `take_seen`, the other side's as last seen. */
#define HAS_ROOM (put_at + 1 - put_seen <= ROOM)

/* gs_ring_put; `fits`: it went in. */
inline put(ring, whose, value, fits) {
    d_step {
        if
        :: HAS_ROOM
        :: else -> put_seen = taken[ring]
        fi;
        fits = HAS_ROOM
    };
    if
    :: fits ->
#ifdef BROKEN_ORDER
        ring_if_wished(reader_sleeps[ring], whose);
#endif
        d_step { slots[ring] = value; put_at++; written[ring] = put_at };
#ifndef BROKEN_ORDER
        ring_if_wished(reader_sleeps[ring], whose)
#endif
    :: else
    fi
}

/* gs_ring_wants_space. */
inline wants_space(ring, fits) {
    writer_waits[ring] = true;
#ifdef BROKEN_ROOM
    fits = false;
#else
    d_step { put_seen = taken[ring]; fits = HAS_ROOM };
#endif
    if
    :: fits -> writer_waits[ring] = false
    :: else
    fi
}

/* gs_ring_take; 0: there is nothing. */
inline take(ring, whose, value) {
    d_step {
        value = 0;
        if
        :: take_seen == take_at -> take_seen = written[ring]
        :: else
        fi
    };
    if
    :: take_seen != take_at ->
        d_step { value = slots[ring]; take_at++; taken[ring] = take_at };
        ring_if_wished(writer_waits[ring], whose)
    :: else
    fi
}

/* gs_ring_sleep. */
inline sleep(ring, sleeps) {
#ifndef BROKEN_WAKE
    reader_sleeps[ring] = true;
#endif
    sleeps = take_seen == take_at && written[ring] == take_at;
#ifdef BROKEN_WAKE
    reader_sleeps[ring] = true;
#endif
    if
    :: sleeps
    :: else -> reader_sleeps[ring] = false
    fi
}

/* ---- the daemon: worker.c ---- */

inline flush() {
    do
    :: backlog == 0 -> break
    :: else ->
        put(TO_DEVICE, DEVICE, given - backlog + 1, fits);
        if
        :: fits -> backlog--
        :: else ->
            wants_space(TO_DEVICE, fits);
            if
            :: fits
            :: else -> break
            fi
        fi
    od
}

/* gs_worker_peek: sets `value` to an event, or 0. */
inline peek() {
    flush();
    take(TO_DAEMON, DEVICE, value)
}

proctype Daemon() {
    byte put_at, put_seen, take_at, take_seen;
    byte given;   /* orders, by the daemon's clients */
    byte backlog; /* of them, not in the ring yet */
    byte events;  /* that came */
    byte value;
    bool fits, sleeps;
working:
    if
    :: given < ORDERS -> /* a client asks for something */
        d_step { given++; backlog++ };
        flush();
        goto working
    :: peek();
        if
        :: value -> goto event
        :: else
        fi
    fi;
    if
    :: has_hung_up -> /* what was put there before is taken first */
        peek();
        if
        :: value -> goto event
        :: else -> goto lost
        fi
    :: else
    fi;
#ifdef BROKEN_SILENCE
    sleep(TO_DAEMON, sleeps);
    bell[DAEMON] = false;
#else
    bell[DAEMON] = false;
    sleep(TO_DAEMON, sleeps);
#endif
    if
    :: !sleeps -> goto working
    :: else
    fi;
#ifndef BROKEN_FLUSH
    flush();
#endif
    if
    :: given < ORDERS -> goto working
    :: bell[DAEMON] || has_hung_up -> goto working
    :: events == EVENTS ->
end_all_came:
        has_hung_up -> goto working
    fi;
event:
    atomic { assert(value == events + 1); events++; value = 0; fits = false; sleeps = false };
    goto working;
lost:
    assert(written[TO_DAEMON] == take_at)
}

/* ---- the worker: loop.c ---- */

chan chores = [ORDERS] of { byte };
byte chores_done; /* the slow thread's list of what is done, under its lock */

inline send_unsent() {
    do
    :: unsent == 0 -> break
    :: else ->
        put(TO_DAEMON, DAEMON, told - unsent + 1, fits);
        if
        :: fits -> unsent--
        :: else ->
            wants_space(TO_DAEMON, fits);
            if
            :: fits
            :: else -> break
            fi
        fi
    od
}

inline tell() {
    d_step { told++; unsent++; any = true };
    send_unsent()
}

proctype Device() {
    byte put_at, put_seen, take_at, take_seen;
    byte told;   /* events so far */
    byte unsent; /* of them, those that found no room */
    byte value, expected = 1;
    bool fits, sleeps, any;
    {
        do
        :: any = false;
            take(TO_DEVICE, DAEMON, value);
            if
            :: value ->
                d_step { assert(value == expected); expected++; any = true; value = value % 2 };
                if
                :: value -> chores!1 /* memory, modules: a slow thread does it */
                :: value -> tell()   /* the rest */
                :: else
                fi
            :: else
            fi;
            do
            :: d_step { chores_done -> chores_done-- }; tell()
            :: else -> break
            od;
            send_unsent();
            if
            :: any
            :: else ->
                sleep(TO_DEVICE, sleeps);
                if
                :: sleeps ->
end_asleep: /* an end only if it is one for the daemon too */
                    bell[DEVICE];
                    bell[DEVICE] = false;
                    d_step { reader_sleeps[TO_DEVICE] = false; sleeps = false; fits = false }
                :: else
                fi
            fi
        od
    }
#ifdef KILL
    unless { has_hung_up }
#endif
}

proctype Slow_thread() {
    {
        skip;
end_idle:
        chores?_;
        chores_done++;
        bell[DEVICE] = true;
        goto end_idle
    }
#ifdef KILL
    unless { has_hung_up }
#endif
}

proctype Killer() {
    if
    :: has_hung_up = true
    :: true
    fi
}

init {
    atomic {
        run Daemon();
        run Device();
        run Slow_thread();
#ifdef KILL
        run Killer();
#endif
        skip
    }
}
