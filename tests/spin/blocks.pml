/*
 * blocks.pml: a launch whose worker blocks all stay: is each block done once, although worker blocks leave before the
 * queue is empty?
 *
 * Modelled: a grid of BLOCKS blocks and WORKERS worker blocks (src/kernels/forms/ptx_loop.c). Each begins with the block of its
 * number, and then takes tasks of 1 or 2 blocks from the queue: one atomic addition. If blocks are short, it leaves
 * after a task that has one of the last WORKERS blocks; if they are long, it asks again. Both are tried for each task.
 *
 * Checked: no block is done twice; when all worker blocks have left each was done.
 *
 * Mutations that must be detected: BROKEN_LAST (it leaves one block too early).
 */
#ifndef BLOCKS
#define BLOCKS 8
#endif
#ifndef WORKERS
#define WORKERS 3
#endif
#ifdef BROKEN_LAST
#define MOST_LEFT WORKERS
#else
#define MOST_LEFT (WORKERS - 1)
#endif

byte did[BLOCKS];
byte next; /* blocks taken from the queue, which begins with block WORKERS */
byte workers = WORKERS;

inline do_blocks() {
    do
    :: first < after -> d_step { did[first]++; assert(did[first] == 1); first++ }
    :: else -> break
    od
}

proctype Worker(byte first) {
    byte after = first + 1, count;
    do_blocks();
    do
    :: after < BLOCKS ->
        select(count : 1 .. 2);
        d_step {
            first = WORKERS + next;
            next = next + count;
            after = (first + count < BLOCKS -> first + count : BLOCKS);
            count = 0
        };
        do_blocks()
    :: after > WORKERS && BLOCKS - after <= MOST_LEFT -> break
    od;
    workers--
}

init {
    byte i;
    atomic {
        do
        :: i < WORKERS -> run Worker(i); i++
        :: else -> break
        od;
        i = 0
    };
    workers == 0;
    do
    :: i < BLOCKS -> assert(did[i] == 1); i++
    :: else -> break
    od
}
