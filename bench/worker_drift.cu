/*
 * worker_drift.cu: on which SMs the worker blocks of two kernels run that share all SMs, launch after launch.
 *
 *   nvcc -O2 -o worker_drift worker_drift.cu && ./worker_drift
 *
 * Like tgemm and spmv of a plan with 5 + 1 blocks per SM: 660 blocks of which 6 fit on an empty SM, and 132 of which 8
 * do; 5 + 1 fit together. Blocks only wait. All launches are queued at once on two streams. For each launch it prints
 * on how many SMs it had blocks, and how many SMs had how many: 92x5 are 92 SMs with 5. The numbers are for an H200.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
__device__ uint64_t now() {
    uint64_t t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}
__global__ void work(uint32_t *sms, uint64_t *times, uint32_t ns, uint32_t spread) {
    extern __shared__ char space[];
    uint32_t sm;
    asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
    uint64_t began = now();
    uint64_t until = began + ns + (uint64_t)spread * (blockIdx.x * 40503u % 65536u) / 65536u;
    if (threadIdx.x == 0) {
        sms[blockIdx.x] = sm;
        times[2 * blockIdx.x] = began;
        space[0] = 1;
    }
    while (now() < until)
        ;
    if (threadIdx.x == 0)
        times[2 * blockIdx.x + 1] = now();
}
int main() {
    enum { A = 8, B = 110, MOST = 1024 };
    const int shared[2] = {36 << 10, 27 << 10}, blocks[2] = {660, 132}, threads[2] = {128, 256}, counts[2] = {A, B};
    const uint32_t ns[2] = {8000000, 500000}, spread[2] = {300000, 60000};
    cudaStream_t streams[2];
    uint32_t *sms;
    uint64_t *times;
    cudaMallocManaged(&sms, (A + B) * MOST * 4);
    cudaMallocManaged(&times, (A + B) * MOST * 16);
    cudaFuncSetAttribute(work, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10);
    for (int i = 0; i < 2; i++)
        cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking);
    cudaMemset(sms, 0, 4);
    cudaDeviceSynchronize();
    for (int i = 0; i < A; i++)
        work<<<blocks[0], threads[0], shared[0], streams[0]>>>(sms + i * MOST, times + 2 * i * MOST, ns[0], spread[0]);
    for (int i = 0; i < B; i++)
        work<<<blocks[1], threads[1], shared[1], streams[1]>>>(sms + (A + i) * MOST, times + 2 * (A + i) * MOST, ns[1],
                                                               spread[1]);
    int rc = cudaDeviceSynchronize();
    fprintf(stderr, "rc %d\n", rc);
    for (int k = 0, at = 0; k < 2; k++)
        for (int i = 0; i < counts[k]; i++, at++) {
            std::vector<int> of(256), histogram(64);
            uint64_t first = ~0ull, last = 0;
            for (int b = 0; b < blocks[k]; b++) {
                of[sms[at * MOST + b]]++;
                first = times[2 * (at * MOST + b)] < first ? times[2 * (at * MOST + b)] : first;
                last = times[2 * (at * MOST + b) + 1] > last ? times[2 * (at * MOST + b) + 1] : last;
            }
            int used = 0;
            for (int n : of) {
                used += n > 0;
                if (n > 0)
                    histogram[n]++;
            }
            printf("%s %d began_us %.1f took_us %.1f sms %d:", k ? "small" : "large", i, (first - times[0]) / 1e3,
                   (last - first) / 1e3, used);
            for (int n = 1; n < 64; n++)
                if (histogram[n])
                    printf(" %dx%d", histogram[n], n);
            printf("\n");
        }
    return rc;
}
