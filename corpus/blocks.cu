/* blocks.cu: when do blocks run inside the interval that CUPTI gives for a launch? Prints, for each launch, its scenario and
   the first and last start and end of its blocks by %globaltimer. The launches are in the order of the recording. */
#include <cstdio>
#include <cuda_runtime.h>

enum { MOST_BLOCKS = 4096, MOST_LAUNCHES = 2000, BIG = 200 * 1024 };

struct times { unsigned long long start, end; };
static times *buffer;
static int launches;
static struct { const char *scenario; const char *name; int blocks; } made[MOST_LAUNCHES];
static const char *scenario;

__device__ unsigned long long now() { unsigned long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }

__global__ void spin(unsigned long long ns, times *out) {
    unsigned long long t0 = now();
    while (now() - t0 < ns) ;
    if (threadIdx.x == 0) out[blockIdx.x] = times{t0, now()};
}

static void launch(const char *name, cudaStream_t s, int blocks, double us, int shared) {
    made[launches].scenario = scenario; made[launches].name = name; made[launches].blocks = blocks;
    spin<<<blocks, 128, shared, s>>>((unsigned long long)(us * 1000), buffer + (size_t)MOST_BLOCKS * launches++);
}

int main() {
    cudaStream_t s[8], high; cudaEvent_t event; int low, top;
    cudaDeviceGetStreamPriorityRange(&low, &top);
    cudaMalloc(&buffer, sizeof(times) * MOST_BLOCKS * MOST_LAUNCHES);
    for (int i = 0; i < 8; i++) cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking);
    cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, top);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaFuncSetAttribute(spin, cudaFuncAttributeMaxDynamicSharedMemorySize, BIG);
    char *host, *device; size_t bytes = 16 << 20;
    cudaMallocHost(&host, bytes); cudaMalloc(&device, bytes);
    scenario = "warm"; launch("w", s[0], 132, 10, BIG); launch("w", s[0], 1, 10, 0); cudaDeviceSynchronize();
    cudaGraph_t graph; cudaGraphExec_t exec; cudaEvent_t fork, join;
    cudaEventCreateWithFlags(&fork, cudaEventDisableTiming); cudaEventCreateWithFlags(&join, cudaEventDisableTiming);
    for (int r = 0; r < 6; r++) {
        scenario = "null"; launch("a", s[0], 1, 0, 0); cudaDeviceSynchronize();
        scenario = "one10"; launch("a", s[0], 1, 10, 0); cudaDeviceSynchronize();
        scenario = "big10"; launch("a", s[0], 132, 10, BIG); cudaDeviceSynchronize();
        scenario = "waves10x5"; launch("a", s[0], 1320, 5, BIG); cudaDeviceSynchronize();
        scenario = "waves10x1"; launch("a", s[0], 1320, 1, BIG); cudaDeviceSynchronize();
        scenario = "chain"; for (int i = 0; i < 8; i++) launch("a", s[0], 1, i ? 5 : 60, 0); cudaDeviceSynchronize();
        scenario = "chainbig"; for (int i = 0; i < 8; i++) launch("a", s[0], 132, i ? 5 : 60, BIG); cudaDeviceSynchronize();
        scenario = "chainmix"; for (int i = 0; i < 8; i++) launch("a", s[0], 132, i ? 5 : 60, i % 2 ? BIG : 0); cudaDeviceSynchronize();
        scenario = "blocked"; launch("A", s[0], 132, 100, BIG); launch("B", s[1], 132, 10, BIG); cudaDeviceSynchronize();
        scenario = "beside"; launch("A", s[0], 132, 100, BIG); launch("B", s[1], 1, 10, 0); cudaDeviceSynchronize();
        scenario = "queue"; launch("A", s[0], 1320, 20, BIG); launch("B", s[1], 132, 10, BIG); cudaDeviceSynchronize();
        scenario = "urgent"; launch("A", s[0], 1320, 20, BIG); launch("B", high, 132, 10, BIG); cudaDeviceSynchronize();
        scenario = "partly"; launch("A", s[0], 130, 100, BIG); launch("B", s[1], 132, 10, BIG); cudaDeviceSynchronize();
        scenario = "behind"; launch("A", s[0], 132, 100, BIG); launch("B", s[1], 132, 10, BIG); launch("C", s[2], 1, 5, 0); cudaDeviceSynchronize();
        scenario = "config"; launch("A", s[0], 132, 100, 0); launch("B", s[1], 132, 10, BIG); launch("C", s[2], 1, 5, 0); cudaDeviceSynchronize();
        scenario = "event"; launch("A", s[0], 1, 60, 0); cudaEventRecord(event, s[0]); cudaStreamWaitEvent(s[1], event, 0);
        launch("B", s[1], 1, 10, 0); launch("C", s[1], 1, 10, 0); cudaDeviceSynchronize();
        scenario = "copy"; launch("A", s[0], 132, 100, BIG); cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, s[1]);
        launch("B", s[1], 1, 10, 0); cudaDeviceSynchronize();
        scenario = "many"; for (int i = 0; i < 8; i++) launch("a", s[i], 1, 30, 0); cudaDeviceSynchronize();
        scenario = "manychain"; for (int j = 0; j < 6; j++) for (int i = 0; i < 8; i++) launch("a", s[i], 16, j ? 7 : 100 - 4 * i, 0); cudaDeviceSynchronize();
    }
    scenario = "graph"; /* the kernels of a captured launch write to the same slots in each replay, so there is one */
    cudaStreamBeginCapture(s[0], cudaStreamCaptureModeThreadLocal);
    launch("root", s[0], 8, 10, 0); cudaEventRecord(fork, s[0]); cudaStreamWaitEvent(s[1], fork, 0);
    for (int i = 0; i < 4; i++) { launch("left", s[0], 8, 5, 0); launch("right", s[1], 8, 7, 0); }
    cudaEventRecord(join, s[1]); cudaStreamWaitEvent(s[0], join, 0); launch("last", s[0], 8, 5, 0);
    cudaStreamEndCapture(s[0], &graph); cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphLaunch(exec, s[0]); cudaDeviceSynchronize();
    times *copy = new times[MOST_BLOCKS];
    for (int i = 0; i < launches; i++) {
        cudaMemcpy(copy, buffer + (size_t)MOST_BLOCKS * i, sizeof(times) * made[i].blocks, cudaMemcpyDeviceToHost);
        unsigned long long s0 = ~0ull, s1 = 0, e0 = ~0ull, e1 = 0;
        for (int b = 0; b < made[i].blocks; b++) {
            if (copy[b].start < s0) s0 = copy[b].start;
            if (copy[b].start > s1) s1 = copy[b].start;
            if (copy[b].end < e0) e0 = copy[b].end;
            if (copy[b].end > e1) e1 = copy[b].end;
        }
        printf("%d %s %s %d %llu %llu %llu %llu\n", i, made[i].scenario, made[i].name, made[i].blocks, s0, s1, e0, e1);
    }
    fprintf(stderr, "%s\n", cudaGetErrorString(cudaGetLastError()));
}
