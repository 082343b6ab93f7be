/*
 * launch_cost.cu: what a launch costs on the host: the median and the least of 21 rounds of 1,000 launches of an empty
 * kernel.
 *
 *   nvcc -arch=native -O2 -o launch_cost launch_cost.cu
 *   ./launch_cost; gridsmith watch -- ./launch_cost; gridsmith trace --through driver -o cost.jsonl -- ./launch_cost
 */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

__global__ void nothing() {
}

int main() {
    enum { ROUNDS = 21, LAUNCHES = 1000 };
    std::vector<double> times;
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    for (int round = 0; round < ROUNDS + 2; round++) {
        auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < LAUNCHES; i++)
            nothing<<<1, 32, 0, stream>>>();
        auto end = std::chrono::steady_clock::now();
        if (cudaStreamSynchronize(stream) != cudaSuccess)
            return 1;
        if (round >= 2) /* the first ones load the kernel and fill caches */
            times.push_back(std::chrono::duration<double, std::nano>(end - start).count() / LAUNCHES);
    }
    std::sort(times.begin(), times.end());
    printf("a launch takes %.0f ns, at least %.0f ns\n", times[ROUNDS / 2], times[0]);
    return 0;
}
