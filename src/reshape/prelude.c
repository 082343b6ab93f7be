/*
 * prelude.c: the code that a reshaped kernel brings along.
 *
 * A reshaped kernel keeps its body, word for word, as a lambda that is called for one block of the original grid after
 * the other, so that a `return` in it ends that block and nothing else. Around it, variables called blockIdx and
 * gridDim hide CUDA's. What is below stands in front of the source; each piece only where it is needed.
 *
 * The loop must not change what the compiler makes of the body: see gs_never().
 *
 * The first thread of a worker takes tasks of some blocks from a queue and leaves the block at hand in one of two
 * slots, by turns, so that nobody needs registers for it while the body runs. A queue, and not blocks dealt out
 * beforehand: workers do not all get on equally fast, and some would be done long before the others. The barrier that
 * makes the next slot known is also the one between two blocks that use the same shared memory.
 *
 * Where threads return early and others go on to barriers, every barrier of the body becomes a meeting (gs_sync): who
 * has returned goes on meeting the others until all have returned, and then the block is over.
 */
#include "prelude.h"

#include <string.h>

/* clang-format off */
static const char slots_part[] =
    "#ifndef GRIDSMITH_SLOTS\n"
    "#define GRIDSMITH_SLOTS\n"
    "// The block that a worker is at, how many blocks of its task come after it, how many the task had, and since when.\n"
    "struct __align__(16) gs_slot {\n"
    "    unsigned gs_x, gs_y, gs_z, gs_after, gs_taken, gs_since;\n"
    "    __device__ bool gs_is_block() const { return gs_after != 0xffffffffu; }\n"
    "    __device__ uint3 gs_block() const {\n"
    "        const uint3 at = make_uint3(gs_x, gs_y, gs_z);\n"
    "#ifndef GRIDSMITH_HOST\n"
    "        __builtin_assume(at.x < 0x7fffffffu && at.y < 65536 && at.z < 65536); // as of blockIdx\n"
    "#endif\n"
    "        return at;\n"
    "    }\n"
    "};\n"
    "__device__ __forceinline__ gs_slot gs_no_slot() { return gs_slot{0, 0, 0, 0xffffffffu, 0, 0}; }\n"
    "__device__ __forceinline__ bool gs_is_first() { return threadIdx.x + threadIdx.y + threadIdx.z == 0; }\n"
    "// False, but the compiler must not know: a second way into the loop over the blocks keeps it from seeing a loop, which\n"
    "// it would move parts of the body out of. ptxas knows, and drops it. With GRIDSMITH_LOOP it sees the loop.\n"
    "__device__ __forceinline__ bool gs_never() {\n"
    "    unsigned never = 0;\n"
    "#if !defined(GRIDSMITH_HOST) && !defined(GRIDSMITH_LOOP)\n"
    "    asm(\"mov.u32 %0, 0;\" : \"=r\"(never));\n"
    "#endif\n"
    "    return never != 0;\n"
    "}\n"
    "template <class gs_told_type> __device__ __forceinline__ unsigned gs_blocks(const gs_told_type &told) {\n"
    "    return told.gs_x * told.gs_y * told.gs_z;\n"
    "}\n"
    "// What the first thread alone adds. It is number 0, but the compiler does not see that all lanes would add to the same\n"
    "// word: it would let them meet before and after it, and wait for the result there.\n"
    "__device__ __forceinline__ unsigned long long gs_add(unsigned long long *word, unsigned long long count) {\n"
    "    return atomicAdd(&word[threadIdx.x], count);\n"
    "}\n"
    "// a / b for a < 2^31, given 0xffffffff / b: that does not wait for a.\n"
    "__device__ __forceinline__ unsigned gs_divide(unsigned a, unsigned b, unsigned inverse) {\n"
    "    const unsigned about = __umulhi(a, inverse);\n"
    "    return a - about * b >= b ? about + 1 : about;\n"
    "}\n"
    "// The slot of a task: `count` blocks from number `first` on, as far as there are; of none it is gs_no_slot().\n"
    "template <class gs_told_type>\n"
    "__device__ __forceinline__ gs_slot gs_slot_at(const gs_told_type &told, unsigned first, unsigned count) {\n"
    "    const unsigned blocks = gs_blocks(told), by_x = 0xffffffffu / told.gs_x, by_y = 0xffffffffu / told.gs_y;\n"
    "    const unsigned y = gs_divide(first, told.gs_x, by_x), z = gs_divide(y, told.gs_y, by_y);\n"
    "    const unsigned left = first < blocks ? blocks - first : 0;\n"
    "    count = left < count ? left : count;\n"
    "    return gs_slot{first - y * told.gs_x, y - z * told.gs_y, z, count - 1, count, (unsigned)clock()};\n"
    "}\n"
    "// How many blocks to take after the one of a slot, whose task took so many cycles. A task should take 32768, so that\n"
    "// the queue costs little; near the end of the grid less, so that all workers end together, but not under 4096.\n"
    "template <class gs_told_type>\n"
    "__device__ __forceinline__ unsigned gs_share(const gs_told_type &told, const gs_slot &at, unsigned cycles) {\n"
    "    const unsigned rest = gs_blocks(told) - (at.gs_z * told.gs_y + at.gs_y) * told.gs_x - at.gs_x;\n"
    "    const float most = (float)(told.gs_task ? told.gs_task : GRIDSMITH_TASK);\n"
    "    float count = __fdividef((float)rest, (float)(2 * gridDim.x));\n"
    "    if (cycles) {\n"
    "        const float by_time = __fdividef(32768.0f * (float)at.gs_taken, (float)cycles);\n"
    "        count = fmaxf(fminf(count, by_time), by_time / 8);\n"
    "    }\n"
    "    return (unsigned)fmaxf(fminf(count, most), 1.0f);\n"
    "}\n";

static const char walk_part[] = /* goes on where the one before ends */
    "// The first thread of a worker goes ahead and the others read what it wrote: the next block of a task before it does\n"
    "// its part of the last one, a new task when it needs one, as somebody else may be there sooner. Two slots by turns:\n"
    "// the one that is written was read before the last barrier.\n"
    "template <class gs_told_type>\n"
    "__device__ __forceinline__ void gs_look_ahead(const gs_told_type &told, gs_slot *slots, unsigned turn) {\n"
    "    if (gs_is_first()) {\n"
    "        gs_slot at = slots[turn];\n"
    "        if (at.gs_after-- && ++at.gs_x == told.gs_x) {\n"
    "            at.gs_x = 0;\n"
    "            if (++at.gs_y == told.gs_y)\n"
    "                at.gs_y = 0, at.gs_z++;\n"
    "        }\n"
    "        slots[turn ^ 1] = at;\n"
    "    }\n"
    "}\n"
    "template <class gs_told_type>\n"
    "__device__ __forceinline__ unsigned gs_go_on(const gs_told_type &told, gs_slot *slots, unsigned turn) {\n"
    "    if (gs_is_first() && !slots[turn ^ 1].gs_is_block())\n"
    "        slots[turn ^ 1] = gs_take(told, slots[turn], (unsigned)clock() - slots[turn].gs_since);\n"
    "    __syncthreads();\n"
    "    return turn ^ 1;\n"
    "}\n"
    "template <class gs_told_type> __device__ __forceinline__ unsigned gs_begin(const gs_told_type &told, gs_slot *slots) {\n"
    "    if (gs_is_first())\n"
    "        slots[0] = gs_first(told);\n"
    "    __syncthreads();\n"
    "    return 0;\n"
    "}\n"
    "#endif\n";
/* clang-format on */

static const char persistent_part[] =
    "#ifndef GRIDSMITH_PERSISTENT\n"
    "#define GRIDSMITH_PERSISTENT\n"
    "// The last parameter. Launch any number of blocks in x: they are the workers.\n"
    "struct gs_persistent {\n"
    "    unsigned gs_x, gs_y, gs_z;    // the grid of the original kernel\n"
    "    unsigned gs_task;             // so many blocks are taken at a time, fewer near the end; 0: GRIDSMITH_TASK\n"
    "    unsigned *gs_marks;           // with GRIDSMITH_MARKS: counts how often each block ran\n"
    "    unsigned long long *gs_queue; // 0 before the first launch; the last worker leaves it so\n"
    "    __device__ dim3 gs_grid() const { return dim3(gs_x, gs_y, gs_z); }\n"
    "};\n"
    "// The first block of a worker is the one with its own number; the queue has those after.\n"
    "__device__ __forceinline__ gs_slot gs_first(const gs_persistent &told) {\n"
    "    return gs_slot_at(told, blockIdx.x, 1);\n"
    "}\n"
    "// The queue has how many blocks were taken from it, and in its upper half how many of all are done: workers say\n"
    "// so when they ask for the next task. When all are done nobody asks any more.\n"
    "__device__ __forceinline__ gs_slot gs_take(const gs_persistent &told, const gs_slot &at, unsigned cycles) {\n"
    "    if (gs_blocks(told) <= gridDim.x)\n"
    "        return gs_no_slot();\n"
    "    const unsigned count = gs_share(told, at, cycles);\n"
    "    const unsigned long long queue = gs_add(told.gs_queue, (unsigned long long)at.gs_taken << 32 | count);\n"
    "    if ((unsigned)(queue >> 32) + at.gs_taken == gs_blocks(told))\n"
    "        *told.gs_queue = 0;\n"
    "    return gs_slot_at(told, gridDim.x + (unsigned)queue, count);\n"
    "}\n"
    "#endif\n";

static const char confined_part[] =
    "#ifndef GRIDSMITH_CONFINED\n"
    "#define GRIDSMITH_CONFINED\n"
    "// The last parameter. Launch enough blocks in x to fill the GPU: those on SMs that are not allowed leave at "
    "once.\n"
    "// Launch again, with the same *gs_next, until it has reached the number of blocks of the grid.\n"
    "struct gs_confined {\n"
    "    unsigned gs_x, gs_y, gs_z;         // the grid of the original kernel\n"
    "    unsigned gs_task;                  // so many blocks are taken at a time, fewer near the end; 0: "
    "GRIDSMITH_TASK\n"
    "    unsigned *gs_marks;                // with GRIDSMITH_MARKS: counts how often each block ran\n"
    "    unsigned long long *gs_next;       // the first block that nobody has taken; 0 before the first launch\n"
    "    const volatile unsigned *gs_stop;  // not 0: leave after the task at hand, or a short one after it\n"
    "    const volatile unsigned *gs_sms;   // bit i % 32 of word i / 32: SM i is allowed; NULL: all are\n"
    "    __device__ dim3 gs_grid() const { return dim3(gs_x, gs_y, gs_z); }\n"
    "};\n"
    "__device__ __forceinline__ unsigned gs_sm() {\n"
    "#ifdef GRIDSMITH_HOST\n"
    "    return gs_host_sm();\n"
    "#else\n"
    "    unsigned sm;\n"
    "    asm volatile(\"mov.u32 %0, %%smid;\" : \"=r\"(sm));\n"
    "    return sm;\n"
    "#endif\n"
    "}\n"
    "struct gs_orders {\n"
    "    unsigned gs_stop, gs_sms, gs_bit;\n"
    "    __device__ bool gs_may_stay() const { return !gs_stop && gs_sms >> gs_bit & 1; }\n"
    "};\n"
    "__device__ __forceinline__ gs_orders gs_look(const gs_confined &told) {\n"
    "    const unsigned sm = gs_sm();\n"
    "    const unsigned sms = told.gs_sms ? told.gs_sms[sm / 32] : 0xffffffffu;\n"
    "    return gs_orders{told.gs_stop ? *told.gs_stop : 0, sms, sm % 32};\n"
    "}\n"
    "__device__ __forceinline__ gs_slot gs_first(const gs_confined &told) {\n"
    "    return gs_look(told).gs_may_stay() ? gs_slot_at(told, (unsigned)gs_add(told.gs_next, 1), 1) : gs_no_slot();\n"
    "}\n"
    "// A worker takes the next task while it looks whether it may stay, as either takes a while; if not, it leaves\n"
    "// after that task, which has gs_taken 0. Where tasks are long it looks before, too.\n"
    "__device__ __forceinline__ gs_slot gs_take(const gs_confined &told, const gs_slot &at, unsigned cycles) {\n"
    "    if (!at.gs_taken || (cycles > 65536 && !gs_look(told).gs_may_stay()))\n"
    "        return gs_no_slot();\n"
    "    const gs_orders orders = gs_look(told);\n"
    "    const unsigned count = gs_share(told, at, cycles);\n"
    "    gs_slot taken = gs_slot_at(told, (unsigned)gs_add(told.gs_next, count), count);\n"
    "    taken.gs_taken = orders.gs_may_stay() ? taken.gs_taken : 0;\n"
    "    return taken;\n"
    "}\n"
    "#endif\n";

static const char marks_part[] =
    "#ifndef GRIDSMITH_MARK\n"
    "#ifdef GRIDSMITH_MARKS\n"
    "__device__ __forceinline__ void gs_mark(unsigned *marks, uint3 block, dim3 grid) {\n"
    "    if (marks && gs_is_first())\n"
    "        atomicAdd(&marks[((size_t)block.z * grid.y + block.y) * grid.x + block.x], 1u);\n"
    "}\n"
    "#define GRIDSMITH_MARK(told) gs_mark((told).gs_marks, blockIdx, gridDim);\n"
    "#else\n"
    "#define GRIDSMITH_MARK(told)\n"
    "#endif\n"
    "#endif\n";

static const char block_part[] = "#ifndef GRIDSMITH_BLOCK\n"
                                 "#define GRIDSMITH_BLOCK\n"
                                 "// The block and the grid, for functions that the kernel calls.\n"
                                 "struct gs_block_and_grid {\n"
                                 "    uint3 gs_block, gs_grid;\n"
                                 "};\n"
                                 "static __shared__ gs_block_and_grid gs_here;\n"
                                 "__device__ __forceinline__ void gs_tell(uint3 block, dim3 grid) {\n"
                                 "    if (gs_is_first()) {\n"
                                 "        gs_here.gs_block = block;\n"
                                 "        gs_here.gs_grid = make_uint3(grid.x, grid.y, grid.z);\n"
                                 "    }\n"
                                 "    __syncthreads();\n"
                                 "}\n"
                                 "#endif\n";

static const char lanes_part[] =
    "#ifndef GRIDSMITH_LANES\n"
    "#define GRIDSMITH_LANES\n"
    "// The lanes of each warp that have not returned. Those that have would be waited for in vain.\n"
    "static __shared__ unsigned gs_awake[32];\n"
    "__device__ __forceinline__ unsigned gs_thread() {\n"
    "    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;\n"
    "}\n"
    "__device__ __forceinline__ void gs_wake() {\n"
    "    __syncwarp();\n"
    "    if (gs_thread() % 32 == 0)\n"
    "        gs_awake[gs_thread() / 32] = 0xffffffffu;\n"
    "    __syncwarp();\n"
    "}\n"
    "__device__ __forceinline__ unsigned gs_lanes(unsigned mask) {\n"
    "    return mask & gs_awake[gs_thread() / 32];\n"
    "}\n"
    "// All lanes that have not returned come here; those that leave are left out from now on.\n"
    "__device__ __forceinline__ bool gs_leaves(bool leaves) {\n"
    "    const unsigned warp = gs_thread() / 32, lane = gs_thread() % 32, awake = gs_awake[warp];\n"
    "    const unsigned stay = __ballot_sync(awake, !leaves);\n"
    "    __syncwarp(awake);\n"
    "    if (lane == (unsigned)__ffs((int)awake) - 1)\n"
    "        gs_awake[warp] = stay;\n"
    "    __syncwarp(awake);\n"
    "    return leaves;\n"
    "}\n"
    "#endif\n";

/* clang-format off */
static const char meet_part[] =
    "#ifndef GRIDSMITH_SYNC\n"
    "#define GRIDSMITH_SYNC\n"
    "// Threads that returned early take part in the barriers of the others, until all have returned. Lanes of one warp come\n"
    "// here from different places, so this must not be the aligned barrier, nor one that reduces: a warp that arrives in\n"
    "// pieces may read what the next reduction makes of it.\n"
    "static __shared__ unsigned gs_gone; // threads that have returned from the block at hand\n"
    "__device__ __forceinline__ void gs_wait() {\n"
    "#ifdef GRIDSMITH_HOST\n"
    "    __syncthreads();\n"
    "#else\n"
    "    asm volatile(\"barrier.sync 0;\" ::: \"memory\");\n"
    "#endif\n"
    "}\n";

static const char votes_part[] =
    "// Between the two waits nobody returns, and all see the same.\n"
    "__device__ __forceinline__ bool gs_meet() {\n"
    "    gs_wait();\n"
    "    const bool all = *(volatile unsigned *)&gs_gone == blockDim.x * blockDim.y * blockDim.z;\n"
    "    gs_wait();\n"
    "    return all;\n"
    "}\n"
    "__device__ __forceinline__ void gs_sync() { gs_meet(); }\n"
    "__device__ __forceinline__ void gs_prepare() {\n"
    "    if (gs_is_first())\n"
    "        gs_gone = 0;\n"
    "}\n";

static const char rounds_part[] =
    "static __shared__ unsigned gs_yes;\n"
    "// Between the first two waits all see the same, and between the last two it is made ready for the next time.\n"
    "__device__ __forceinline__ bool gs_meet() {\n"
    "    gs_wait();\n"
    "    const bool all = *(volatile unsigned *)&gs_gone == blockDim.x * blockDim.y * blockDim.z;\n"
    "    gs_wait();\n"
    "    if (gs_is_first())\n"
    "        gs_yes = 0;\n"
    "    gs_wait();\n"
    "    return all;\n"
    "}\n"
    "__device__ __forceinline__ int gs_sync_count(int yes) {\n"
    "    if (yes)\n"
    "        atomicAdd(&gs_yes, 1u);\n"
    "    gs_wait();\n"
    "    const int count = (int)*(volatile unsigned *)&gs_yes;\n"
    "    gs_wait();\n"
    "    if (gs_is_first())\n"
    "        gs_yes = 0;\n"
    "    gs_wait();\n"
    "    return count;\n"
    "}\n"
    "__device__ __forceinline__ void gs_sync() { gs_sync_count(0); }\n"
    "__device__ __forceinline__ int gs_sync_or(int yes) { return gs_sync_count(yes) != 0; }\n"
    "__device__ __forceinline__ int gs_sync_and(int yes) { return gs_sync_count(!yes) == 0; }\n"
    "__device__ __forceinline__ void gs_prepare() {\n"
    "    if (gs_is_first())\n"
    "        gs_gone = gs_yes = 0;\n"
    "}\n";

static const char end_part[] =
    "__device__ __forceinline__ void gs_end_block() {\n"
    "    atomicAdd(&gs_gone, 1u);\n"
    "    while (!gs_meet())\n"
    "        ;\n"
    "    gs_prepare();\n"
    "    __syncwarp(); // what follows is an aligned barrier\n"
    "}\n"
    "#endif\n";
/* clang-format on */

const char *gs_told_type(enum gs_form form) {
    return form == GS_FORM_CONFINED ? "gs_confined" : "gs_persistent";
}

static void put(gs_text *into, const char *text) {
    gs_text_put(into, text, strlen(text));
}

void gs_put_prelude(gs_text *into, const char *file, const char *kernel, const gs_plan *plan) {
    gs_text_add(into, "// %s, made %s by gridsmith; docs/reshape.md says how it is launched.\n", kernel,
                plan->form == GS_FORM_CONFINED ? "confined" : "persistent");
    gs_text_add(into, "#ifndef GRIDSMITH_TASK\n#define GRIDSMITH_TASK %u\n#endif\n",
                plan->task_blocks ? plan->task_blocks : 10);
    put(into, slots_part);
    put(into, walk_part);
    put(into, plan->form == GS_FORM_CONFINED ? confined_part : persistent_part);
    put(into, marks_part);
    if (plan->tells_block)
        put(into, block_part);
    if (plan->counts_lanes)
        put(into, lanes_part);
    if (plan->meeting == GS_MEET_VOTES || plan->meeting == GS_MEET_ROUNDS) {
        put(into, meet_part);
        put(into, plan->meeting == GS_MEET_VOTES ? votes_part : rounds_part);
        put(into, end_part);
    }
    put(into, "#line 1 ");
    gs_text_put_json(into, file);
    put(into, "\n");
}

void gs_put_head(gs_text *into, const gs_plan *plan) {
    if (plan->meeting != GS_MEET_PLAIN)
        put(into, " gs_prepare();");
    put(into,
        " __shared__ gs_slot gs_slots[2]; unsigned gs_turn = gs_begin(gs_told, gs_slots); if (gs_never()) goto gs_on; "
        "while (true) { { const gs_slot gs_at = gs_slots[gs_turn]; if (!gs_at.gs_is_block()) break; "
        "const uint3 blockIdx = gs_at.gs_block(); const dim3 gridDim = gs_told.gs_grid(); GRIDSMITH_MARK(gs_told)");
    if (plan->tells_block)
        put(into, " gs_tell(blockIdx, gridDim);");
    if (plan->counts_lanes)
        put(into, " gs_wake();");
    put(into, " gs_look_ahead(gs_told, gs_slots, gs_turn); [&] {");
}

void gs_put_tail(gs_text *into, const gs_plan *plan) {
    put(into, "}();");
    if (plan->meeting != GS_MEET_PLAIN)
        put(into, " gs_end_block();");
    put(into, " } gs_on: gs_turn = gs_go_on(gs_told, gs_slots, gs_turn); } ");
}
