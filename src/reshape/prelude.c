/*
 * prelude.c: the code that a reshaped kernel brings along.
 *
 * A reshaped kernel keeps its body, word for word, as a lambda that is called for one block of the original grid after
 * the other, so that a `return` in it ends that block and nothing else. Around it, variables called blockIdx and
 * gridDim hide CUDA's. What is below stands in front of the source; each piece only where it is needed.
 *
 * All threads of a worker agree on the block: in `persistent` each computes it, in `confined` the first thread takes a
 * task from the queue and leaves it in one of two slots, by turns. A slot is written again only after a barrier that
 * everybody reached after reading it.
 *
 * Where threads return early and others go on to barriers, every barrier becomes a vote (gs_meet): who is still in the
 * body says "not done", who has returned says "done" again and again, and when all say so the block is over.
 */
#include "prelude.h"

#include <string.h>

static const char persistent_part[] =
    "#ifndef GRIDSMITH_PERSISTENT\n"
    "#define GRIDSMITH_PERSISTENT\n"
    "// The last parameter: the grid of the original kernel. Launch any number of blocks in x: they are its workers.\n"
    "struct gs_persistent {\n"
    "    unsigned gs_x, gs_y, gs_z, gs_unused;\n"
    "    unsigned *gs_marks; // with GRIDSMITH_MARKS: counts how often each block ran\n"
    "    __device__ dim3 gs_grid() const { return dim3(gs_x, gs_y, gs_z); }\n"
    "};\n"
    "// The blocks of one worker: its own number, and then so many further on as there are workers.\n"
    "struct gs_walk {\n"
    "    unsigned gs_x, gs_y, gs_z, gs_dx, gs_dy, gs_dz;\n"
    "    __device__ gs_walk(const gs_persistent &told, unsigned worker, unsigned workers) {\n"
    "        gs_x = worker % told.gs_x, gs_y = worker / told.gs_x % told.gs_y, gs_z = worker / told.gs_x / told.gs_y;\n"
    "        gs_dx = workers % told.gs_x, gs_dy = workers / told.gs_x % told.gs_y, gs_dz = workers / told.gs_x / "
    "told.gs_y;\n"
    "    }\n"
    "    __device__ bool gs_more(const gs_persistent &told) const { return gs_z < told.gs_z; }\n"
    "    __device__ void gs_next(const gs_persistent &told) {\n"
    "        gs_x += gs_dx;\n"
    "        bool over = gs_x >= told.gs_x;\n"
    "        gs_x -= over ? told.gs_x : 0, gs_y += gs_dy + over;\n"
    "        over = gs_y >= told.gs_y;\n"
    "        gs_y -= over ? told.gs_y : 0, gs_z += gs_dz + over;\n"
    "    }\n"
    "    __device__ uint3 gs_block() const { return make_uint3(gs_x, gs_y, gs_z); }\n"
    "};\n"
    "#endif\n";

static const char confined_part[] =
    "#ifndef GRIDSMITH_CONFINED\n"
    "#define GRIDSMITH_CONFINED\n"
    "// The last parameter. Launch enough blocks in x to fill the GPU: those on SMs that are not allowed leave at "
    "once.\n"
    "// Launch again, with the same *gs_next, until it has reached the number of blocks of the grid.\n"
    "struct gs_confined {\n"
    "    unsigned gs_x, gs_y, gs_z;         // the grid of the original kernel\n"
    "    unsigned gs_task;                  // so many blocks are taken at a time; 0: GRIDSMITH_TASK\n"
    "    unsigned *gs_marks;                // with GRIDSMITH_MARKS: counts how often each block ran\n"
    "    unsigned long long *gs_next;       // the first block that nobody has taken; 0 before the first launch\n"
    "    const volatile unsigned *gs_stop;  // not 0: leave after the task at hand\n"
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
    "struct gs_taken {\n"
    "    unsigned gs_x, gs_y, gs_z, gs_count;\n"
    "};\n"
    "__device__ __forceinline__ gs_taken gs_take(const gs_confined &told) {\n"
    "    gs_taken taken = {0, 0, 0, 0};\n"
    "    const unsigned long long blocks = (unsigned long long)told.gs_x * told.gs_y * told.gs_z;\n"
    "    const unsigned sm = gs_sm();\n"
    "    if ((told.gs_sms && !(told.gs_sms[sm / 32] >> sm % 32 & 1)) || (told.gs_stop && *told.gs_stop))\n"
    "        return taken;\n"
    "    const unsigned task = told.gs_task ? told.gs_task : GRIDSMITH_TASK;\n"
    "    const unsigned long long first = atomicAdd(told.gs_next, (unsigned long long)task);\n"
    "    if (first >= blocks)\n"
    "        return taken;\n"
    "    taken.gs_count = blocks - first < task ? (unsigned)(blocks - first) : task;\n"
    "    if (blocks == told.gs_x) { // no division where the grid has one dimension\n"
    "        taken.gs_x = (unsigned)first;\n"
    "    } else {\n"
    "        taken.gs_x = (unsigned)(first % told.gs_x);\n"
    "        taken.gs_y = (unsigned)(first / told.gs_x % told.gs_y);\n"
    "        taken.gs_z = (unsigned)(first / told.gs_x / told.gs_y);\n"
    "    }\n"
    "    return taken;\n"
    "}\n"
    "// One worker: takes a task, does its blocks in order, takes the next.\n"
    "struct gs_tasks {\n"
    "    gs_taken gs_at;\n"
    "    unsigned gs_turn;\n"
    "    __device__ gs_tasks() : gs_turn(0) {}\n"
    "    __device__ bool gs_pull(const gs_confined &told, gs_taken *slots) {\n"
    "        if (threadIdx.x + threadIdx.y + threadIdx.z == 0)\n"
    "            slots[gs_turn] = gs_take(told);\n"
    "        __syncthreads();\n"
    "        gs_at = slots[gs_turn];\n"
    "        gs_turn ^= 1;\n"
    "        return gs_at.gs_count != 0;\n"
    "    }\n"
    "    __device__ bool gs_more() const { return gs_at.gs_count != 0; }\n"
    "    __device__ void gs_next(const gs_confined &told) {\n"
    "        gs_at.gs_count--;\n"
    "        bool over = ++gs_at.gs_x == told.gs_x;\n"
    "        gs_at.gs_x = over ? 0 : gs_at.gs_x, gs_at.gs_y += over;\n"
    "        over = gs_at.gs_y == told.gs_y;\n"
    "        gs_at.gs_y = over ? 0 : gs_at.gs_y, gs_at.gs_z += over;\n"
    "    }\n"
    "    __device__ uint3 gs_block() const { return make_uint3(gs_at.gs_x, gs_at.gs_y, gs_at.gs_z); }\n"
    "};\n"
    "#endif\n";

static const char marks_part[] =
    "#ifndef GRIDSMITH_MARK\n"
    "#ifdef GRIDSMITH_MARKS\n"
    "__device__ __forceinline__ void gs_mark(unsigned *marks, uint3 block, dim3 grid) {\n"
    "    if (marks && threadIdx.x + threadIdx.y + threadIdx.z == 0)\n"
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
                                 "    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {\n"
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

static const char meet_part[] = "#ifndef GRIDSMITH_SYNC\n"
                                "#define GRIDSMITH_SYNC\n"
                                "// A barrier of the body is a vote: threads that returned say that they are done, "
                                "until all are. Lanes of one warp\n"
                                "// may come here from different places, so the barrier must not be the aligned one.\n"
                                "__device__ __forceinline__ int gs_meet(int done) {\n"
                                "#ifdef GRIDSMITH_HOST\n"
                                "    return __syncthreads_and(done);\n"
                                "#else\n"
                                "    int all;\n"
                                "    asm volatile(\"{ .reg .pred p, q; setp.ne.s32 p, %1, 0; barrier.red.and.pred q, "
                                "0, p; selp.s32 %0, 1, 0, q; }\"\n"
                                "                 : \"=r\"(all) : \"r\"(done) : \"memory\");\n"
                                "    return all;\n"
                                "#endif\n"
                                "}\n";

static const char votes_part[] = "__device__ __forceinline__ void gs_sync() { gs_meet(0); }\n"
                                 "__device__ __forceinline__ void gs_end_block() {\n"
                                 "    while (!gs_meet(1))\n"
                                 "        ;\n"
                                 "}\n"
                                 "#endif\n";

static const char rounds_part[] =
    "// After that vote comes a second one, of those that are not done.\n"
    "__device__ __forceinline__ int gs_count(int yes) {\n"
    "#ifdef GRIDSMITH_HOST\n"
    "    return __syncthreads_count(yes);\n"
    "#else\n"
    "    int count;\n"
    "    asm volatile(\"{ .reg .pred p; setp.ne.s32 p, %1, 0; barrier.red.popc.u32 %0, 0, p; }\"\n"
    "                 : \"=r\"(count) : \"r\"(yes) : \"memory\");\n"
    "    return count;\n"
    "#endif\n"
    "}\n"
    "__device__ __forceinline__ int gs_sync_count(int yes) {\n"
    "    gs_meet(0);\n"
    "    return gs_count(yes);\n"
    "}\n"
    "__device__ __forceinline__ void gs_sync() { gs_sync_count(0); }\n"
    "__device__ __forceinline__ int gs_sync_or(int yes) { return gs_sync_count(yes) != 0; }\n"
    "__device__ __forceinline__ int gs_sync_and(int yes) { return gs_sync_count(!yes) == 0; }\n"
    "__device__ __forceinline__ void gs_end_block() {\n"
    "    while (!gs_meet(1))\n"
    "        gs_count(0);\n"
    "}\n"
    "#endif\n";

const char *gs_told_type(enum gs_form form) {
    return form == GS_FORM_CONFINED ? "gs_confined" : "gs_persistent";
}

static void put(gs_text *into, const char *text) {
    gs_text_put(into, text, strlen(text));
}

void gs_put_prelude(gs_text *into, const char *file, const char *kernel, const gs_plan *plan) {
    gs_text_add(into, "// %s, made %s by gridsmith; docs/reshape.md says how it is launched.\n", kernel,
                plan->form == GS_FORM_CONFINED ? "confined" : "persistent");
    if (plan->form == GS_FORM_CONFINED)
        gs_text_add(into, "#ifndef GRIDSMITH_TASK\n#define GRIDSMITH_TASK %u\n#endif\n",
                    plan->task_blocks ? plan->task_blocks : 10);
    put(into, plan->form == GS_FORM_CONFINED ? confined_part : persistent_part);
    put(into, marks_part);
    if (plan->tells_block)
        put(into, block_part);
    if (plan->counts_lanes)
        put(into, lanes_part);
    if (plan->meeting == GS_MEET_VOTES || plan->meeting == GS_MEET_ROUNDS) {
        put(into, meet_part);
        put(into, plan->meeting == GS_MEET_VOTES ? votes_part : rounds_part);
    }
    put(into, "#line 1 ");
    gs_text_put_json(into, file);
    put(into, "\n");
}

void gs_put_head(gs_text *into, const gs_plan *plan) {
    if (plan->form == GS_FORM_CONFINED)
        put(into, " __shared__ gs_taken gs_slots[2]; for (gs_tasks gs_at; gs_at.gs_pull(gs_told, gs_slots);) for (; "
                  "gs_at.gs_more(); gs_at.gs_next(gs_told)) {");
    else
        put(into,
            " for (gs_walk gs_at(gs_told, blockIdx.x, gridDim.x); gs_at.gs_more(gs_told); gs_at.gs_next(gs_told)) {");
    put(into,
        " const uint3 blockIdx = gs_at.gs_block(); const dim3 gridDim = gs_told.gs_grid(); GRIDSMITH_MARK(gs_told)");
    if (plan->tells_block)
        put(into, " gs_tell(blockIdx, gridDim);");
    if (plan->counts_lanes)
        put(into, " gs_wake();");
    put(into, " [&] {");
}

void gs_put_tail(gs_text *into, const gs_plan *plan) {
    static const char *const ends[GS_MEETINGS] = {"", " __syncthreads();", " gs_end_block();", " gs_end_block();"};
    put(into, "}();");
    put(into, ends[plan->meeting]);
    put(into, " } ");
}
