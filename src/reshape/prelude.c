/*
 * prelude.c: the code that a reshaped kernel brings along.
 *
 * A reshaped kernel keeps its body, word for word, as a lambda that is called for one block of the original grid after
 * the other, so that a `return` in it ends that block and nothing else. Around it, variables called blockIdx and
 * gridDim hide CUDA's. What is below stands in front of the source; each piece only where it is needed.
 *
 * The loop must not change what the compiler makes of the body: see gs_never().
 *
 * The first thread of a worker takes tasks of some blocks from a queue and leaves them in shared memory, so that a
 * thread needs a single register for where it is while the body runs. A queue, and not blocks dealt out beforehand:
 * workers do not all get on equally fast, and some would be done long before the others. All threads meet when they
 * have a new task; between two blocks of a task only where they use the same shared memory, or meet in the body.
 *
 * Where threads return early and others go on to barriers, every barrier of the body becomes a meeting (gs_sync): who
 * has returned goes on meeting the others until all have returned, and then the block is over.
 */
#include "prelude.h"

#include <string.h>

/* clang-format off */
static const char worker_part[] =
    "#ifndef GRIDSMITH_WORKER\n"
    "#define GRIDSMITH_WORKER\n"
    "// A task: blocks that a worker has taken, one after the other.\n"
    "struct __align__(16) gs_batch {\n"
    "    unsigned gs_x, gs_y, gs_z; // the first, but gs_x has gs_after added\n"
    "    unsigned gs_after;         // how many come after it; 0xffffffff: there are none\n"
    "    unsigned gs_count, gs_end; // how many there are, and the number of the one behind the last\n"
    "    unsigned gs_since;         // the clock when it was taken\n"
    "    float gs_pace;             // the cycles that a block took before, or longer ones a while ago\n"
    "};\n"
    "// What the threads of a worker share. Two tasks by turns: the one that is written was read before the last barrier.\n"
    "struct gs_worker {\n"
    "    gs_batch gs_batches[2];\n"
    "    unsigned gs_by_x, gs_by_y; // for gs_divide\n"
    "};\n"
    "__device__ __forceinline__ gs_batch gs_no_batch() { return gs_batch{0, 0, 0, 0xffffffffu, 0, 0, 0, 0}; }\n"
    "__device__ __forceinline__ bool gs_is_first() { return threadIdx.x + threadIdx.y + threadIdx.z == 0; }\n"
    "// False, but the compiler must not know: a second way into the loop over the blocks keeps it from seeing a loop, which\n"
    "// it would move parts of the body out of. ptxas knows, and drops it.\n"
    "__device__ __forceinline__ bool gs_never() {\n"
    "    unsigned never = 0;\n"
    "#ifndef GRIDSMITH_HOST\n"
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
    "// a / b for a < 2^31, given 0xffffffff / b.\n"
    "__device__ __forceinline__ unsigned gs_divide(unsigned a, unsigned b, unsigned inverse) {\n"
    "    const unsigned about = __umulhi(a, inverse);\n"
    "    return a - about * b >= b ? about + 1 : about;\n"
    "}\n"
    "// A block whose gs_x may be behind the end of its row.\n"
    "template <class gs_told_type>\n"
    "__device__ __forceinline__ uint3 gs_wrap(const gs_told_type &told, const gs_worker &worker, uint3 at) {\n"
    "    if (at.x >= told.gs_x) {\n"
    "        const unsigned rows = gs_divide(at.x, told.gs_x, worker.gs_by_x);\n"
    "        at.x -= rows * told.gs_x;\n"
    "        at.y += rows;\n"
    "        if (at.y >= told.gs_y) {\n"
    "            const unsigned planes = gs_divide(at.y, told.gs_y, worker.gs_by_y);\n"
    "            at.y -= planes * told.gs_y;\n"
    "            at.z += planes;\n"
    "        }\n"
    "    }\n"
    "    return at;\n"
    "}\n"
    "// `count` blocks from number `first` on, as far as there are.\n"
    "template <class gs_told_type>\n"
    "__device__ __forceinline__ gs_batch gs_batch_at(const gs_told_type &told, const gs_worker &worker, unsigned first,\n"
    "                                              unsigned count, float pace) {\n"
    "    const unsigned blocks = gs_blocks(told), left = first < blocks ? blocks - first : 0;\n"
    "    const uint3 at = gs_wrap(told, worker, make_uint3(first, 0, 0));\n"
    "    count = left < count ? left : count;\n"
    "    return gs_batch{at.x + count - 1, at.y, at.z, count - 1, count, first + count, (unsigned)clock(), pace};\n"
    "}\n";

static const char share_part[] = /* goes on where the one before ends */
    "// The cycles that a block takes, after a task that took so many. Where some blocks take long, others will: so that is\n"
    "// forgotten by half with each task.\n"
    "__device__ __forceinline__ float gs_pace_after(const gs_batch &last, unsigned cycles) {\n"
    "    return fmaxf(__fdividef((float)(cycles | 1), (float)last.gs_count), last.gs_pace / 2);\n"
    "}\n"
    "// How many blocks to take next. They should take 32768 cycles, so that the queue costs little; near the end of the\n"
    "// grid less, so that all workers end together, but not under 4096. At most twice as many as the last time, because\n"
    "// nobody knows what those that follow quick ones are like.\n"
    "template <class gs_told_type>\n"
    "__device__ __forceinline__ unsigned gs_share(const gs_told_type &told, const gs_batch &last, float pace) {\n"
    "    const float rest = (float)(gs_blocks(told) - last.gs_end), workers = (float)gridDim.x;\n"
    "    const unsigned cap = told.gs_task ? told.gs_task : GRIDSMITH_TASK, twice = 2 * last.gs_count;\n"
    "    const float by_time = __fdividef(32768.0f, pace);\n"
    "    const float count = fmaxf(fminf(__fdividef(rest, 1.5f * workers), by_time), by_time / 8);\n"
    "    return (unsigned)fmaxf(fminf(count, (float)(twice < cap ? twice : cap)), 1.0f);\n"
    "}\n";

static const char walk_part[] = /* goes on where the one before ends */
    "// Where a worker is: twice the blocks of its task that come after the one at hand, and which of the two tasks it is.\n"
    "__device__ __forceinline__ unsigned gs_enter(const gs_worker &worker, unsigned turn) {\n"
    "    const unsigned after = worker.gs_batches[turn].gs_after;\n"
    "    return after == 0xffffffffu ? after : after * 2 + turn;\n"
    "}\n"
    "template <class gs_told_type>\n"
    "__device__ __forceinline__ uint3 gs_block_at(const gs_told_type &told, const gs_worker &worker, unsigned place) {\n"
    "    const gs_batch &task = worker.gs_batches[place & 1];\n"
    "    const uint3 at = gs_wrap(told, worker, make_uint3(task.gs_x - (place >> 1), task.gs_y, task.gs_z));\n"
    "#ifndef GRIDSMITH_HOST\n"
    "    __builtin_assume(at.x < 0x7fffffffu && at.y < 65536 && at.z < 65536); // as of blockIdx\n"
    "#endif\n"
    "    return at;\n"
    "}\n"
    "// The first thread takes the next task when it needs one, and not before, as somebody else may be there sooner.\n"
    "template <class gs_told_type>\n"
    "__device__ __forceinline__ void gs_prepare_task(const gs_told_type &told, gs_worker &worker, unsigned turn) {\n"
    "    if (gs_is_first()) {\n"
    "        const gs_batch last = worker.gs_batches[turn];\n"
    "        worker.gs_batches[turn ^ 1] = gs_take(told, worker, last, (unsigned)clock() - last.gs_since);\n"
    "    }\n"
    "}\n"
    "template <class gs_told_type>\n"
    "__device__ __forceinline__ unsigned gs_go_on(const gs_told_type &told, gs_worker &worker, unsigned place) {\n"
    "    if (place <= 1)\n"
    "        gs_prepare_task(told, worker, place);\n"
    "    __syncthreads();\n"
    "    return place <= 1 ? gs_enter(worker, place ^ 1) : place - 2;\n"
    "}\n"
    "// The same where the threads of a block do not meet: warps go on to the next block of the task by themselves.\n"
    "template <class gs_told_type>\n"
    "__device__ __forceinline__ unsigned gs_run_on(const gs_told_type &told, gs_worker &worker, unsigned place) {\n"
    "    __syncwarp();\n"
    "    if (place > 1)\n"
    "        return place - 2;\n"
    "    gs_prepare_task(told, worker, place);\n"
    "    __syncthreads();\n"
    "    return gs_enter(worker, place ^ 1);\n"
    "}\n"
    "template <class gs_told_type>\n"
    "__device__ __forceinline__ unsigned gs_begin(const gs_told_type &told, gs_worker &worker) {\n"
    "    if (gs_is_first()) {\n"
    "        worker.gs_by_x = 0xffffffffu / told.gs_x;\n"
    "        worker.gs_by_y = 0xffffffffu / told.gs_y;\n"
    "        worker.gs_batches[0] = gs_first(told, worker);\n"
    "    }\n"
    "    __syncthreads();\n"
    "    return gs_enter(worker, 0);\n"
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
    "__device__ __forceinline__ gs_batch gs_first(const gs_persistent &told, const gs_worker &worker) {\n"
    "    return gs_batch_at(told, worker, blockIdx.x, 1, 0);\n"
    "}\n"
    "// The queue has how many blocks were taken from it, and in its upper half how many of all are done: workers say\n"
    "// so when they ask for the next task. When all are done nobody asks any more.\n"
    "__device__ __forceinline__ gs_batch gs_take(const gs_persistent &told, const gs_worker &worker, const gs_batch "
    "&last,\n"
    "                                           unsigned cycles) {\n"
    "    if (gs_blocks(told) <= gridDim.x)\n"
    "        return gs_no_batch();\n"
    "    const float pace = gs_pace_after(last, cycles);\n"
    "    const unsigned count = gs_share(told, last, pace);\n"
    "    const unsigned long long queue = gs_add(told.gs_queue, (unsigned long long)last.gs_count << 32 | count);\n"
    "    if ((unsigned)(queue >> 32) + last.gs_count == gs_blocks(told))\n"
    "        *told.gs_queue = 0;\n"
    "    return gs_batch_at(told, worker, gridDim.x + (unsigned)queue, count, pace);\n"
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
    "__device__ __forceinline__ gs_batch gs_first(const gs_confined &told, const gs_worker &worker) {\n"
    "    return gs_look(told).gs_may_stay() ? gs_batch_at(told, worker, (unsigned)gs_add(told.gs_next, 1), 1, 0) : "
    "gs_no_batch();\n"
    "}\n"
    "// A worker takes the next task while it looks whether it may stay, as either takes a while; if not, it leaves\n"
    "// after that task, which has gs_count 0. Where tasks are long it looks before, too.\n"
    "__device__ __forceinline__ gs_batch gs_take(const gs_confined &told, const gs_worker &worker, const gs_batch "
    "&last,\n"
    "                                           unsigned cycles) {\n"
    "    if (!last.gs_count || (cycles > 65536 && !gs_look(told).gs_may_stay()))\n"
    "        return gs_no_batch();\n"
    "    const gs_orders orders = gs_look(told);\n"
    "    const float pace = gs_pace_after(last, cycles);\n"
    "    const unsigned count = gs_share(told, last, pace);\n"
    "    gs_batch taken = gs_batch_at(told, worker, (unsigned)gs_add(told.gs_next, count), count, pace);\n"
    "    taken.gs_count = orders.gs_may_stay() ? taken.gs_count : 0;\n"
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
    put(into, worker_part);
    put(into, share_part);
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
        " __shared__ gs_worker gs_ours; unsigned gs_place = gs_begin(gs_told, gs_ours); if (gs_never()) goto gs_on; "
        "while (gs_place != 0xffffffffu) { { const uint3 blockIdx = gs_block_at(gs_told, gs_ours, gs_place); "
        "const dim3 gridDim = gs_told.gs_grid(); GRIDSMITH_MARK(gs_told)");
    if (plan->tells_block)
        put(into, " gs_tell(blockIdx, gridDim);");
    if (plan->counts_lanes)
        put(into, " gs_wake();");
    put(into, " [&] {");
}

void gs_put_tail(gs_text *into, const gs_plan *plan) {
    put(into, "}();");
    if (plan->meeting != GS_MEET_PLAIN)
        put(into, " gs_end_block();");
    gs_text_add(into, " } gs_on: gs_place = %s(gs_told, gs_ours, gs_place); } ",
                plan->runs_on ? "gs_run_on" : "gs_go_on");
}
