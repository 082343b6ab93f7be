/*
 * beside.cu: one of several processes that launch kernels on one GPU at given times, and what became of their blocks.
 *
 *   beside NAME BEGIN CASE...     BEGIN: seconds since 1970; each case is AT_MS,BLOCKS,THREADS,SHARED,RUN_US,SPREAD_US
 *
 * A case is a launch, AT_MS milliseconds after BEGIN, of blocks that run for RUN_US and up to SPREAD_US longer by the
 * clock of the GPU. A block looks at the clock and at its SM all the time. If the clock jumps, the block did not run
 * meanwhile: another process had the GPU. So this shows slices of time, whether blocks come back to the SM on which
 * they were, and, with MPS, which blocks of which process start when.
 *
 * Output, a line for each block: the name, the case, the block, its SM, start and end in ns of the GPU's clock, the
 * cycles of its SM's counter at both times, how often its SM was another one after a pause, and each pause as
 * start+length@SM.
 */
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

enum { MOST_PAUSES = 16, PAUSE_NS = 20000 };

struct note {
    uint64_t start_ns, end_ns, start_cycles, end_cycles;
    uint32_t sm, moves, pauses;
    struct {
        uint64_t from_ns, to_ns;
        uint32_t sm;
    } pause[MOST_PAUSES];
};

struct launch {
    double at_ms, run_us, spread_us;
    int blocks, threads, shared;
};

static void check(cudaError_t code, const char *what) {
    if (code == cudaSuccess)
        return;
    fprintf(stderr, "beside: %s: %s\n", what, cudaGetErrorString(code));
    exit(3);
}

__device__ static uint64_t gpu_clock() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

__device__ static uint64_t sm_cycles() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now));
    return now;
}

__device__ static uint32_t sm_now() {
    uint32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

__global__ void watch(note *notes, uint64_t run_ns, uint64_t spread_ns) {
    note *mine = &notes[blockIdx.x];
    if (threadIdx.x == 0) {
        uint64_t last = gpu_clock(), until = last + run_ns + blockIdx.x * 40503ull % 65536 * spread_ns / 65536;
        uint32_t sm = sm_now(), pauses = 0, moves = 0;
        mine->start_ns = last;
        mine->start_cycles = sm_cycles();
        mine->sm = sm;
        while (last < until) {
            uint64_t now = gpu_clock();
            uint32_t here = sm_now();
            moves += here != sm;
            if (now - last > PAUSE_NS) {
                if (pauses < MOST_PAUSES) {
                    mine->pause[pauses].from_ns = last;
                    mine->pause[pauses].to_ns = now;
                    mine->pause[pauses].sm = here;
                }
                pauses++;
            }
            sm = here;
            last = now;
        }
        mine->moves = moves;
        mine->pauses = pauses;
        mine->end_cycles = sm_cycles();
        mine->end_ns = gpu_clock();
    }
    __syncthreads();
}

static double now_s() {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void print_notes(const char *name, int number, const std::vector<note> &notes) {
    for (size_t i = 0; i < notes.size(); i++) {
        const note &n = notes[i];
        printf("%s %d %zu %u %llu %llu %llu %llu %u", name, number, i, n.sm, (unsigned long long)n.start_ns,
               (unsigned long long)n.end_ns, (unsigned long long)n.start_cycles, (unsigned long long)n.end_cycles,
               n.moves);
        for (uint32_t j = 0; j < n.pauses && j < MOST_PAUSES; j++)
            printf(" %llu+%llu@%u", (unsigned long long)n.pause[j].from_ns,
                   (unsigned long long)(n.pause[j].to_ns - n.pause[j].from_ns), n.pause[j].sm);
        printf("\n");
    }
}

int main(int count, char **words) {
    std::vector<launch> launches;
    std::vector<note *> notes;
    std::vector<cudaStream_t> streams;
    for (int i = 3; i < count; i++) {
        launch l;
        if (sscanf(words[i], "%lf,%d,%d,%d,%lf,%lf", &l.at_ms, &l.blocks, &l.threads, &l.shared, &l.run_us,
                   &l.spread_us) != 6) {
            fprintf(stderr, "beside: not a case: %s\n", words[i]);
            return 2;
        }
        launches.push_back(l);
    }
    if (launches.empty()) {
        fprintf(stderr, "usage: beside NAME BEGIN AT_MS,BLOCKS,THREADS,SHARED,RUN_US,SPREAD_US ...\n");
        return 2;
    }
    double begin = atof(words[2]);
    check(cudaFuncSetAttribute(watch, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448), "shared memory");
    for (const launch &l : launches) {
        note *memory;
        cudaStream_t stream;
        check(cudaMalloc(&memory, (size_t)l.blocks * sizeof(note)), "memory");
        check(cudaMemset(memory, 0, (size_t)l.blocks * sizeof(note)), "memory");
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
        notes.push_back(memory);
        streams.push_back(stream);
    }
    watch<<<1, 32, 0, streams[0]>>>(notes[0], 1000, 0);
    check(cudaDeviceSynchronize(), "the first launch");
    if (now_s() > begin)
        fprintf(stderr, "beside: %s was ready %.3f s too late\n", words[1], now_s() - begin);
    for (size_t i = 0; i < launches.size(); i++) {
        const launch &l = launches[i];
        while (now_s() < begin + l.at_ms * 1e-3)
            ;
        watch<<<l.blocks, l.threads, l.shared, streams[i]>>>(notes[i], (uint64_t)(l.run_us * 1000),
                                                             (uint64_t)(l.spread_us * 1000));
        check(cudaGetLastError(), "a launch");
    }
    check(cudaDeviceSynchronize(), "the end");
    for (size_t i = 0; i < launches.size(); i++) {
        std::vector<note> seen((size_t)launches[i].blocks);
        check(cudaMemcpy(seen.data(), notes[i], seen.size() * sizeof(note), cudaMemcpyDeviceToHost), "notes");
        print_notes(words[1], (int)i, seen);
    }
    return 0;
}
