/*
 * run.pml: a confined run: is each block done once, however often its SMs change?
 *
 * Modelled: a grid of BLOCKS blocks, taken by workers TASK at a time from a counter (src/kernels/forms/ptx_loop.c: taking a task
 * is one atomic addition; a worker looks at the mask before its first one, and leaves where its SM is not allowed; later it
 * looks while it takes, shortly before or after, and leaves when that task is done, or it looks before). The device
 * process as in src/sharing/worker/confined.c: workers are sent in flights, one for each of two SMs, also beside those that
 * are there (a mask that grew); when all have left with blocks undone and a mask that is not empty it sends more; with an
 * empty mask, or none undone, it tells how far the run came. The daemon as in src/sharing/serve (scheduler.c, completion.c): it gives new masks
 * up to CHANGES times, an empty one to stop the run, and starts a stopped run again where it had come to.
 *
 * Left out: time (when more workers are sent), what is around a run (session.pml), the loss of the device: a run that is
 * lost is not resumed (session.pml).
 *
 * Checked: no block is done twice; when the run has ended for the daemon each was done; it does end (ltl ends, under weak
 * fairness, and no deadlock).
 *
 * Mutations that must be detected: BROKEN_RESUME (the progress is reported while workers are still at their tasks,
 * which they may have taken since), BROKEN_TASK (a worker looks while it takes a task, and leaves it), BROKEN_LAND
 * (workers that have all left are not sent again).
 */
#ifndef BLOCKS
#define BLOCKS 4
#endif
#ifndef CHANGES
#define CHANGES 2
#endif
#define TASK 2
#define SMS 2
#define FLIGHTS 2
#define ALL 3 /* a mask: both SMs */

byte did[BLOCKS];
byte next;              /* the counter */
byte mask;              /* as workers see it */
byte workers;           /* that have not left */
byte flights;           /* that have come; a flight that has left is not told from one that has not */
chan orders = [3] of { bool, byte, byte }; /* start?, mask, first block */
chan ran = [1] of { byte };
bool has_ended;

#define IS_ALLOWED ((mask >> sm) & 1)

inline take() {
    d_step { first = next; next = next + TASK }
}

proctype Worker(byte sm) {
    byte first, i;
    bool stays;
    if
    :: IS_ALLOWED -> take(); stays = true
    :: else -> first = BLOCKS
    fi;
    do
    :: first >= BLOCKS -> break
    :: else ->
#ifdef BROKEN_TASK
        if
        :: stays
        :: else -> break
        fi;
#endif
        i = first;
        do
        :: i < first + TASK && i < BLOCKS -> d_step { did[i]++; assert(did[i] == 1); i++ }
        :: else -> break
        od;
        atomic { first = 0; i = 0 };
        if
        :: !stays -> break
        :: stays -> stays = IS_ALLOWED; take()
        :: stays -> take(); stays = IS_ALLOWED
        :: stays && !IS_ALLOWED -> break
        fi
    od;
    workers--
}

inline send_workers() {
    atomic {
        workers = workers + SMS;
        run Worker(0);
        run Worker(1)
    }
}

proctype Device() {
    bool is_start, is_running;
    byte given, first;
    do
    :: atomic {
            orders?is_start, given, first ->
            if
            :: is_start ->
                assert(!is_running);
                is_running = true;
                next = first;
                mask = given;
                if
                :: mask -> send_workers()
                :: else
                fi
            :: !is_start && is_running ->
                if /* it grew: more workers, beside those that are there */
                :: (given & ~mask & ALL) && workers <= SMS * (FLIGHTS - 1) -> mask = given; send_workers()
                :: else -> mask = given
                fi
            :: else /* of a run that has ended */
            fi;
            given = 0;
            first = 0
        }
    :: atomic {
            is_running && workers == 0 -> /* land */
            if
            :: next >= BLOCKS || mask == 0 -> is_running = false; ran!(next < BLOCKS -> next : BLOCKS)
#ifndef BROKEN_LAND
            :: else -> send_workers()
#endif
            fi
        }
#ifdef BROKEN_RESUME
    :: atomic { is_running && mask == 0 -> is_running = false; ran!(next < BLOCKS -> next : BLOCKS) }
#endif
    :: has_ended -> break
    od
}

proctype Daemon() {
    byte changes, done, given;
    bool is_stopping;
start:
    atomic {
        is_stopping = false;
        select(given : 1 .. ALL);
        orders!true, given, done
    };
    do
    :: atomic {
            changes < CHANGES && !is_stopping && nfull(orders) ->
            select(given : 0 .. ALL);
            is_stopping = given == 0;
            changes++;
            orders!false, given, 0;
            given = 0
        }
    :: ran?done ->
        if
        :: done < BLOCKS -> assert(is_stopping); goto start
        :: else -> break
        fi
    od;
    done = 0;
    do
    :: done < BLOCKS -> assert(did[done] == 1); done++
    :: else -> break
    od;
    has_ended = true
}

init {
    atomic {
        run Daemon();
        run Device()
    }
}

#ifdef ENDS
ltl ends { eventually has_ended }
#endif
