/*
 * plain_runtime.cu: a program on the CUDA runtime alone, for frameworks.py: plain_runtime SECONDS
 *
 * Threads add numbers on streams of their own, by launches, copies and a captured graph. Then the context is destroyed, and
 * the same is done in another one. A child is forked before CUDA is started, and executes this program. Exits with 0 if all
 * sums are right.
 */
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

enum { THREADS = 3, COUNT = 1 << 16, STEPS = 20 };

static __global__ void add(int *values, int more) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < COUNT)
        values[at] += more;
}

static void check(cudaError_t error, const char *what) {
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    _exit(1);
}

#define CHECK(call) check(call, #call)

static void launch_steps(int *values, cudaStream_t stream) {
    for (int i = 0; i < STEPS; i++)
        add<<<COUNT / 256, 256, 0, stream>>>(values, i);
}

static cudaGraphExec_t capture(int *values, cudaStream_t stream) {
    cudaGraph_t graph;
    cudaGraphExec_t made;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    launch_steps(values, stream);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&made, graph, 0));
    return made;
}

static void work(double seconds) {
    int *values, sum = 0, wanted = 0;
    std::vector<int> host(COUNT);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&values, COUNT * sizeof *values));
    CHECK(cudaMemsetAsync(values, 0, COUNT * sizeof *values, stream));
    cudaGraphExec_t graph = capture(values, stream);
    for (time_t end = time(NULL) + (time_t)seconds; time(NULL) < end; usleep(1000)) {
        launch_steps(values, stream);
        CHECK(cudaGraphLaunch(graph, stream));
        wanted += 2 * (STEPS * (STEPS - 1) / 2);
        CHECK(cudaMemcpyAsync(host.data(), values, COUNT * sizeof *values, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int value : host)
            sum |= value ^ wanted;
    }
    if (sum) {
        fprintf(stderr, "a sum is wrong\n");
        _exit(1);
    }
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    pid_t child = seconds > 1 ? fork() : -1;
    if (child == 0)
        execl("/proc/self/exe", argv[0], "1", (char *)NULL);
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++)
        threads.emplace_back(work, seconds);
    for (std::thread &thread : threads)
        thread.join();
    CHECK(cudaDeviceReset());
    work(1);
    int status = 0;
    if (child > 0)
        waitpid(child, &status, 0);
    return status != 0;
}
