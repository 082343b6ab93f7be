/*
 * prelude.c: the CUDA code that is added to a reshaped kernel.
 *
 * A reshaped kernel keeps its body, word for word, as a lambda that is called for one block of the original grid after
 * the other, so that a `return` in it ends that block only. Around it, variables named blockIdx and gridDim hide those
 * of CUDA. The parts below are placed in front of the source, each one only if it is needed.
 *
 * The block loop must not change what the compiler makes of the body: see gs_never().
 *
 * The first thread of a worker block takes tasks of several blocks from a queue and stores them in shared memory, so
 * that a thread needs a single register for its position while the body runs. Worker blocks take tasks from a queue,
 * because with a fixed share each some would be done long before the others. All threads wait for each other when they
 * have a new task; between two blocks of a task only if they use the same shared memory, or have barriers in the body.
 *
 * If threads return early and others continue to barriers, every barrier of the body becomes gs_sync: a thread that has
 * returned takes part in the barriers of the others until all have returned, and then the block is done.
 */
#include "prelude.h"

#include <string.h>

/* clang-format off */
static const char worker_part[] =
    "#ifndef GRIDSMITH_WORKER\n"
    "#define GRIDSMITH_WORKER\n"
    "// A task: consecutive blocks that a worker block has taken from the queue.\n"
    "struct __align__(16) gs_batch {\n"
    "    unsigned gs_x, gs_y, gs_z; // the first block, but with gs_after added to gs_x\n"
    "    unsigned gs_after;         // how many blocks follow the first; 0xffffffff: there is no task\n"
    "    unsigned gs_count, gs_end; // how many blocks there are, and the number after the last one\n"
    "    unsigned gs_since;         // the clock when the task was taken\n"
    "    float gs_pace;             // estimated cycles of a block, see gs_pace_after\n"
    "};\n"
    "// What the threads of a worker block share. Two tasks alternate: the one being written was read before the last barrier.\n"
    "struct gs_worker {\n"
    "    gs_batch gs_batches[2];\n"
    "    unsigned gs_by_x, gs_by_y; // for gs_divide\n"
    "};\n"
    "__device__ __forceinline__ gs_batch gs_no_batch() { return gs_batch{0, 0, 0, 0xffffffffu, 0, 0, 0, 0}; }\n"
    "__device__ __forceinline__ bool gs_is_first() { return threadIdx.x + threadIdx.y + threadIdx.z == 0; }\n"
    "// Returns false, but the compiler cannot know: a second entry into the block loop keeps it from recognizing a loop and\n"
    "// moving parts of the body out of it. ptxas does know, and removes the entry.\n"
    "__device__ __forceinline__ bool gs_never() {\n"
    "    unsigned never = 0;\n"
    "#ifndef GRIDSMITH_HOST\n"
    "    asm(\"mov.u32 %0, 0;\" : \"=r\"(never));\n"
    "#endif\n"
    "    return never != 0;\n"
    "}\n"
    "template <class gs_parameter_type> __device__ __forceinline__ unsigned gs_blocks(const gs_parameter_type &parameter) {\n"
    "    return parameter.gs_x * parameter.gs_y * parameter.gs_z;\n"
    "}\n"
    "// An atomic addition by the first thread. Its index is 0, but the compiler cannot know that all lanes would add to the\n"
    "// same word: it would then combine the additions of a warp, and wait for the result there.\n"
    "__device__ __forceinline__ unsigned long long gs_add(unsigned long long *word, unsigned long long count) {\n"
    "    return atomicAdd(&word[threadIdx.x], count);\n"
    "}\n"
    "// a / b for a < 2^31, given 0xffffffff / b.\n"
    "__device__ __forceinline__ unsigned gs_divide(unsigned a, unsigned b, unsigned inverse) {\n"
    "    const unsigned about = __umulhi(a, inverse);\n"
    "    return a - about * b >= b ? about + 1 : about;\n"
    "}\n"
    "// The block at a position whose x may be beyond the end of its row.\n"
    "template <class gs_parameter_type>\n"
    "__device__ __forceinline__ uint3 gs_wrap(const gs_parameter_type &parameter, const gs_worker &worker, uint3 at) {\n"
    "    if (at.x >= parameter.gs_x) {\n"
    "        const unsigned rows = gs_divide(at.x, parameter.gs_x, worker.gs_by_x);\n"
    "        at.x -= rows * parameter.gs_x;\n"
    "        at.y += rows;\n"
    "        if (at.y >= parameter.gs_y) {\n"
    "            const unsigned planes = gs_divide(at.y, parameter.gs_y, worker.gs_by_y);\n"
    "            at.y -= planes * parameter.gs_y;\n"
    "            at.z += planes;\n"
    "        }\n"
    "    }\n"
    "    return at;\n"
    "}\n"
    "// The task of `count` blocks from number `first` on, or of fewer at the end of the grid.\n"
    "template <class gs_parameter_type>\n"
    "__device__ __forceinline__ gs_batch gs_batch_at(const gs_parameter_type &parameter, const gs_worker &worker, unsigned first,\n"
    "                                              unsigned count, float pace) {\n"
    "    const unsigned blocks = gs_blocks(parameter), left = first < blocks ? blocks - first : 0;\n"
    "    const uint3 at = gs_wrap(parameter, worker, make_uint3(first, 0, 0));\n"
    "    count = left < count ? left : count;\n"
    "    return gs_batch{at.x + count - 1, at.y, at.z, count - 1, count, first + count, (unsigned)clock(), pace};\n"
    "}\n";

static const char share_part[] = /* continues worker_part */
    "// Estimates the cycles of a block from the last task, which took `cycles`. Slow blocks are often followed by slow ones,\n"
    "// so a higher estimate from before is only halved with each task.\n"
    "__device__ __forceinline__ float gs_pace_after(const gs_batch &last, unsigned cycles) {\n"
    "    return fmaxf(__fdividef((float)(cycles | 1), (float)last.gs_count), last.gs_pace / 2);\n"
    "}\n"
    "// How many blocks the next task has. A task should last 32768 cycles, so that the queue costs little; near the end of\n"
    "// the grid less, so that all worker blocks end together, but at least 4096. At most twice as many blocks as the last\n"
    "// task, because slow blocks may follow quick ones.\n"
    "template <class gs_parameter_type>\n"
    "__device__ __forceinline__ unsigned gs_share(const gs_parameter_type &parameter, const gs_batch &last, float pace) {\n"
    "    const float rest = (float)(gs_blocks(parameter) - last.gs_end), workers = (float)gridDim.x;\n"
    "    const unsigned cap = parameter.gs_task ? parameter.gs_task : GRIDSMITH_TASK, twice = 2 * last.gs_count;\n"
    "    const float by_time = __fdividef(32768.0f, pace);\n"
    "    const float count = fmaxf(fminf(__fdividef(rest, 1.5f * workers), by_time), by_time / 8);\n"
    "    return (unsigned)fmaxf(fminf(count, (float)(twice < cap ? twice : cap)), 1.0f);\n"
    "}\n";

static const char loop_part[] = /* continues worker_part */
    "// The position of a worker block: twice the number of blocks of its task after the current one, plus the index of the task.\n"
    "__device__ __forceinline__ unsigned gs_enter(const gs_worker &worker, unsigned turn) {\n"
    "    const unsigned after = worker.gs_batches[turn].gs_after;\n"
    "    return after == 0xffffffffu ? after : after * 2 + turn;\n"
    "}\n"
    "template <class gs_parameter_type>\n"
    "__device__ __forceinline__ uint3 gs_block_at(const gs_parameter_type &parameter, const gs_worker &worker, unsigned place) {\n"
    "    const gs_batch &task = worker.gs_batches[place & 1];\n"
    "    const uint3 at = gs_wrap(parameter, worker, make_uint3(task.gs_x - (place >> 1), task.gs_y, task.gs_z));\n"
    "#ifndef GRIDSMITH_HOST\n"
    "    __builtin_assume(at.x < 0x7fffffffu && at.y < 65536 && at.z < 65536); // as for blockIdx\n"
    "#endif\n"
    "    return at;\n"
    "}\n"
    "// The first thread takes the next task only when it is needed, because another worker block may need one sooner.\n"
    "template <class gs_parameter_type>\n"
    "__device__ __forceinline__ void gs_prepare_task(const gs_parameter_type &parameter, gs_worker &worker, unsigned turn) {\n"
    "    if (gs_is_first()) {\n"
    "        const gs_batch last = worker.gs_batches[turn];\n"
    "        worker.gs_batches[turn ^ 1] = gs_take(parameter, worker, last, (unsigned)clock() - last.gs_since);\n"
    "    }\n"
    "}\n"
    "template <class gs_parameter_type>\n"
    "__device__ __forceinline__ unsigned gs_advance(const gs_parameter_type &parameter, gs_worker &worker, unsigned place) {\n"
    "    if (place <= 1)\n"
    "        gs_prepare_task(parameter, worker, place);\n"
    "    __syncthreads();\n"
    "    return place <= 1 ? gs_enter(worker, place ^ 1) : place - 2;\n"
    "}\n"
    "// The same for threads that share nothing: each warp goes on to the next block of the task by itself.\n"
    "template <class gs_parameter_type>\n"
    "__device__ __forceinline__ unsigned gs_advance_warp(const gs_parameter_type &parameter, gs_worker &worker, unsigned place) {\n"
    "    __syncwarp();\n"
    "    if (place > 1)\n"
    "        return place - 2;\n"
    "    gs_prepare_task(parameter, worker, place);\n"
    "    __syncthreads();\n"
    "    return gs_enter(worker, place ^ 1);\n"
    "}\n"
    "template <class gs_parameter_type>\n"
    "__device__ __forceinline__ unsigned gs_begin(const gs_parameter_type &parameter, gs_worker &worker) {\n"
    "    if (gs_is_first()) {\n"
    "        worker.gs_by_x = 0xffffffffu / parameter.gs_x;\n"
    "        worker.gs_by_y = 0xffffffffu / parameter.gs_y;\n"
    "        worker.gs_batches[0] = gs_first(parameter, worker);\n"
    "    }\n"
    "    __syncthreads();\n"
    "    return gs_enter(worker, 0);\n"
    "}\n"
    "#endif\n";

static const char persistent_part[] =
    "#ifndef GRIDSMITH_PERSISTENT\n"
    "#define GRIDSMITH_PERSISTENT\n"
    "// The last parameter. Launch any number of blocks in x: these are the worker blocks.\n"
    "struct gs_persistent {\n"
    "    unsigned gs_x, gs_y, gs_z;    // the grid of the original kernel\n"
    "    unsigned gs_task;             // the most blocks in a task; 0: GRIDSMITH_TASK\n"
    "    unsigned *gs_marks;           // with GRIDSMITH_MARKS: counts how often each block ran\n"
    "    unsigned long long *gs_queue; // 0 before the first launch; the last worker block resets it to 0\n"
    "    __device__ dim3 gs_grid() const { return dim3(gs_x, gs_y, gs_z); }\n"
    "};\n"
    "// The first block of a worker block is the one with its own number. The queue has the others.\n"
    "__device__ __forceinline__ gs_batch gs_first(const gs_persistent &parameter, const gs_worker &worker) {\n"
    "    return gs_batch_at(parameter, worker, blockIdx.x, 1, 0);\n"
    "}\n"
    "// The lower half of the queue is the number of blocks taken from it, the upper half the number of blocks done. A worker\n"
    "// block adds the blocks that it has done when it takes the next task. The last addition makes the count complete.\n"
    "__device__ __forceinline__ gs_batch gs_take(const gs_persistent &parameter, const gs_worker &worker, const gs_batch &last,\n"
    "                                           unsigned cycles) {\n"
    "    if (gs_blocks(parameter) <= gridDim.x)\n"
    "        return gs_no_batch();\n"
    "    const float pace = gs_pace_after(last, cycles);\n"
    "    const unsigned count = gs_share(parameter, last, pace);\n"
    "    const unsigned long long queue = gs_add(parameter.gs_queue, (unsigned long long)last.gs_count << 32 | count);\n"
    "    if ((unsigned)(queue >> 32) + last.gs_count == gs_blocks(parameter))\n"
    "        *parameter.gs_queue = 0;\n"
    "    return gs_batch_at(parameter, worker, gridDim.x + (unsigned)queue, count, pace);\n"
    "}\n"
    "#endif\n";

static const char confined_part[] =
    "#ifndef GRIDSMITH_CONFINED\n"
    "#define GRIDSMITH_CONFINED\n"
    "// The last parameter. Launch enough blocks in x to fill the GPU: those on SMs that the mask does not allow leave at once.\n"
    "// Launch again, with the same *gs_next, until it has reached the number of blocks of the grid.\n"
    "struct gs_confined {\n"
    "    unsigned gs_x, gs_y, gs_z;         // the grid of the original kernel\n"
    "    unsigned gs_task;                  // the most blocks in a task; 0: GRIDSMITH_TASK\n"
    "    unsigned *gs_marks;                // with GRIDSMITH_MARKS: counts how often each block ran\n"
    "    unsigned long long *gs_next;       // the first block that is not taken; 0 before the first launch\n"
    "    const volatile unsigned *gs_stop;  // not 0: leave after the current task, or one short task later\n"
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
    "struct gs_signals {\n"
    "    unsigned gs_stop, gs_sms, gs_bit;\n"
    "    __device__ bool gs_may_stay() const { return !gs_stop && gs_sms >> gs_bit & 1; }\n"
    "};\n"
    "__device__ __forceinline__ gs_signals gs_read_signals(const gs_confined &parameter) {\n"
    "    const unsigned sm = gs_sm();\n"
    "    const unsigned sms = parameter.gs_sms ? parameter.gs_sms[sm / 32] : 0xffffffffu;\n"
    "    return gs_signals{parameter.gs_stop ? *parameter.gs_stop : 0, sms, sm % 32};\n"
    "}\n"
    "__device__ __forceinline__ gs_batch gs_first(const gs_confined &parameter, const gs_worker &worker) {\n"
    "    return gs_read_signals(parameter).gs_may_stay()\n"
    "               ? gs_batch_at(parameter, worker, (unsigned)gs_add(parameter.gs_next, 1), 1, 0)\n"
    "               : gs_no_batch();\n"
    "}\n"
    "// A worker block takes the next task while it reads whether it may stay, because both take a while. If it may not, it\n"
    "// leaves after that task, which has gs_count 0. If tasks are long, it also reads before it takes one.\n"
    "__device__ __forceinline__ gs_batch gs_take(const gs_confined &parameter, const gs_worker &worker, const gs_batch &last,\n"
    "                                           unsigned cycles) {\n"
    "    if (!last.gs_count || (cycles > 65536 && !gs_read_signals(parameter).gs_may_stay()))\n"
    "        return gs_no_batch();\n"
    "    const gs_signals signals = gs_read_signals(parameter);\n"
    "    const float pace = gs_pace_after(last, cycles);\n"
    "    const unsigned count = gs_share(parameter, last, pace);\n"
    "    gs_batch taken = gs_batch_at(parameter, worker, (unsigned)gs_add(parameter.gs_next, count), count, pace);\n"
    "    taken.gs_count = signals.gs_may_stay() ? taken.gs_count : 0;\n"
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
    "#define GRIDSMITH_MARK(parameter) gs_mark((parameter).gs_marks, blockIdx, gridDim);\n"
    "#else\n"
    "#define GRIDSMITH_MARK(parameter)\n"
    "#endif\n"
    "#endif\n";

static const char block_part[] =
    "#ifndef GRIDSMITH_BLOCK\n"
    "#define GRIDSMITH_BLOCK\n"
    "// The block and the grid, for functions that the kernel calls.\n"
    "struct gs_block_and_grid {\n"
    "    uint3 gs_block, gs_grid;\n"
    "};\n"
    "static __shared__ gs_block_and_grid gs_here;\n"
    "__device__ __forceinline__ void gs_publish_block(uint3 block, dim3 grid) {\n"
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
    "// The lanes of each warp that have not returned. Warp operations must not wait for the others.\n"
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
    "// All lanes that have not returned call this. Those that leave are removed from the masks.\n"
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

static const char barrier_part[] =
    "#ifndef GRIDSMITH_SYNC\n"
    "#define GRIDSMITH_SYNC\n"
    "// Threads that returned early take part in the barriers of the others, until all have returned. Lanes of one warp call\n"
    "// this from different places, so it must not be the aligned barrier, nor a reducing one: a warp that arrives in parts\n"
    "// may read the result of the next reduction.\n"
    "static __shared__ unsigned gs_gone; // threads that have returned from the current block\n"
    "__device__ __forceinline__ void gs_wait() {\n"
    "#ifdef GRIDSMITH_HOST\n"
    "    __syncthreads();\n"
    "#else\n"
    "    asm volatile(\"barrier.sync 0;\" ::: \"memory\");\n"
    "#endif\n"
    "}\n";

static const char counted_part[] =
    "// A barrier; returns whether all threads have returned. Between the two waits no thread returns, so all read the same.\n"
    "__device__ __forceinline__ bool gs_sync_all() {\n"
    "    gs_wait();\n"
    "    const bool all = *(volatile unsigned *)&gs_gone == blockDim.x * blockDim.y * blockDim.z;\n"
    "    gs_wait();\n"
    "    return all;\n"
    "}\n"
    "__device__ __forceinline__ void gs_sync() { gs_sync_all(); }\n"
    "__device__ __forceinline__ void gs_prepare() {\n"
    "    if (gs_is_first())\n"
    "        gs_gone = 0;\n"
    "}\n";

static const char voting_part[] =
    "static __shared__ unsigned gs_yes;\n"
    "// A barrier; returns whether all threads have returned. Between the first two waits all read the same, and between the\n"
    "// last two gs_yes is reset for the next barrier.\n"
    "__device__ __forceinline__ bool gs_sync_all() {\n"
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
    "    while (!gs_sync_all())\n"
    "        ;\n"
    "    gs_prepare();\n"
    "    __syncwarp(); // what follows is an aligned barrier\n"
    "}\n"
    "#endif\n";
/* clang-format on */

const char *gs_parameter_type(enum gs_form form) {
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
    put(into, loop_part);
    put(into, plan->form == GS_FORM_CONFINED ? confined_part : persistent_part);
    put(into, marks_part);
    if (plan->publishes_block)
        put(into, block_part);
    if (plan->counts_lanes)
        put(into, lanes_part);
    if (plan->barrier == GS_BARRIER_COUNTED || plan->barrier == GS_BARRIER_VOTING) {
        put(into, barrier_part);
        put(into, plan->barrier == GS_BARRIER_COUNTED ? counted_part : voting_part);
        put(into, end_part);
    }
    put(into, "#line 1 ");
    gs_text_put_json(into, file);
    put(into, "\n");
}

void gs_put_head(gs_text *into, const gs_plan *plan) {
    if (plan->barrier != GS_BARRIER_PLAIN)
        put(into, " gs_prepare();");
    put(into, " __shared__ gs_worker gs_ours; unsigned gs_place = gs_begin(gs_parameter, gs_ours); "
              "if (gs_never()) goto gs_on; while (gs_place != 0xffffffffu) { { const uint3 blockIdx = "
              "gs_block_at(gs_parameter, gs_ours, gs_place); "
              "const dim3 gridDim = gs_parameter.gs_grid(); GRIDSMITH_MARK(gs_parameter)");
    if (plan->publishes_block)
        put(into, " gs_publish_block(blockIdx, gridDim);");
    if (plan->counts_lanes)
        put(into, " gs_wake();");
    put(into, " [&] {");
}

void gs_put_tail(gs_text *into, const gs_plan *plan) {
    put(into, "}();");
    if (plan->barrier != GS_BARRIER_PLAIN)
        put(into, " gs_end_block();");
    gs_text_add(into, " } gs_on: gs_place = %s(gs_parameter, gs_ours, gs_place); } ",
                plan->warps_are_independent ? "gs_advance_warp" : "gs_advance");
}
