/*
 * reported.cu: hangs that people reported in public, rebuilt small from their description, for one GPU with 228 KB of
 * shared memory an SM. With the word `fixed`, the same program with what helped.
 *
 *   nvcc -arch=native -lineinfo -o reported reported.cu
 *   ./reported mirage-775          hangs
 *   ./reported mirage-775 fixed    ends
 *
 * The names are in the table at the end; docs/watch.md has the threads, and the cause that `gridsmith watch` should
 * name.
 */
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t failed = (call);                                                                                   \
        if (failed != cudaSuccess) {                                                                                   \
            fprintf(stderr, "reported.cu:%d: %s\n", __LINE__, cudaGetErrorString(failed));                             \
            exit(3);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { WHOLE_SM = 200 << 10 }; /* so much shared memory that an SM has one such block */

static bool is_fixed;
static int sms;

static cudaStream_t new_stream(void) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

/* So that the kernel launched before has its SMs first. Kernels of two streams that wait for the GPU may start in any
   order, as they do when other programs use it. */
static void let_start(void) {
    usleep(100000);
}

/* ---- mirage #775: schedulers on SMs that workers need ---- */

__device__ volatile unsigned workers_here, tasks_done;

/* Gives out tasks when all workers are there, and waits until they are done. */
__global__ void scheduler(unsigned workers) {
    if (threadIdx.x % 32 != 0)
        return;
    while (workers_here < workers)
        ;
    while (tasks_done < workers)
        ;
}

__global__ void worker(unsigned workers) {
    if (threadIdx.x != 0)
        return;
    atomicAdd((unsigned *)&workers_here, 1);
    while (workers_here < workers)
        ;
    atomicAdd((unsigned *)&tasks_done, 1);
}

/* Each scheduler block is on an SM of its own. Four schedulers a block leave SMs for the workers. */
static void mirage_775(void) {
    const unsigned workers = sms - 20, schedulers = 80;
    cudaStream_t one = new_stream(), two = new_stream();
    CHECK(cudaFuncSetAttribute(worker, cudaFuncAttributeMaxDynamicSharedMemorySize, WHOLE_SM));
    CHECK(cudaFuncSetAttribute(worker, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    CHECK(cudaFuncSetAttribute(scheduler, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    CHECK(cudaFuncSetAttribute(scheduler, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
    scheduler<<<is_fixed ? schedulers / 4 : schedulers, is_fixed ? 128 : 32, 64 << 10, one>>>(workers);
    let_start();
    worker<<<workers, 256, WHOLE_SM, two>>>(workers);
    CHECK(cudaDeviceSynchronize());
}

/* ---- DeepEP #496: a collective and a cooperative dispatch, in another order on the other rank ---- */

/* Waits until all blocks of both ranks are there. */
__device__ void meet(volatile unsigned *counters, int rank, unsigned blocks) {
    if (threadIdx.x != 0)
        return;
    atomicAdd_system((unsigned *)&counters[rank], 1);
    while (counters[rank] < blocks || counters[1 - rank] < blocks)
        ;
}

__global__ void ncclDevKernel_AllReduce(volatile unsigned *counters, int rank) {
    meet(counters, rank, gridDim.x);
}

__global__ void dispatch(volatile unsigned *counters, int rank) {
    cooperative_groups::this_grid().sync();
    meet(counters + 2, rank, gridDim.x);
}

static void play_rank(int rank, void *shared) {
    unsigned *counters;
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaHostRegister(shared, 4096, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&counters, shared, 0));
    CHECK(cudaFuncSetAttribute(dispatch, cudaFuncAttributeMaxDynamicSharedMemorySize, WHOLE_SM));
    CHECK(cudaFuncSetAttribute(ncclDevKernel_AllReduce, cudaFuncAttributeMaxDynamicSharedMemorySize, WHOLE_SM));
    cudaStream_t one = new_stream(), two = new_stream();
    void *arguments[] = {&counters, &rank};
    bool nccl_first = rank == 0 || is_fixed;
    if (nccl_first)
        ncclDevKernel_AllReduce<<<16, 640, WHOLE_SM, one>>>(counters, rank);
    let_start();
    CHECK(cudaLaunchCooperativeKernel((void *)dispatch, dim3(sms - 4), dim3(1024), arguments, WHOLE_SM, two));
    let_start();
    if (!nccl_first)
        ncclDevKernel_AllReduce<<<16, 640, WHOLE_SM, one>>>(counters, rank);
    CHECK(cudaDeviceSynchronize());
}

/* Before CUDA starts: a process for each rank. */
static void deepep_496(void) {
    void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[2];
    for (int rank = 0; rank < 2; rank++)
        if ((children[rank] = fork()) == 0) {
            setenv("RANK", rank ? "1" : "0", 1);
            setenv("WORLD_SIZE", "2", 1);
            play_rank(rank, shared);
            exit(0);
        }
    for (int rank = 0; rank < 2; rank++)
        waitpid(children[rank], NULL, 0);
}

/* ---- TensorRT-LLM #15855, LMCache #2952, numba-cuda #317: host functions that need the interpreter's lock ---- */

static pthread_mutex_t interpreter = PTHREAD_MUTEX_INITIALIZER;

static void run_python(void *unused) {
    (void)unused;
    pthread_mutex_lock(&interpreter);
    pthread_mutex_unlock(&interpreter);
}

/* The thread that launches holds the lock, and waits: for the stream, or when the driver takes no more host functions.
 */
static void interpreter_lock(void) {
    enum { LAUNCHES = 20000 };
    cudaStream_t stream = new_stream();
    pthread_mutex_lock(&interpreter);
    for (int i = 0; i < LAUNCHES; i++) {
        if (is_fixed)
            pthread_mutex_unlock(&interpreter);
        CHECK(cudaLaunchHostFunc(stream, run_python, NULL));
        if (is_fixed)
            pthread_mutex_lock(&interpreter);
    }
    if (is_fixed)
        pthread_mutex_unlock(&interpreter);
    CHECK(cudaStreamSynchronize(stream));
}

/* ---- lorax #149: blocks that come to a grid barrier a different number of times ---- */

__global__ void shrink(const int *steps, float *sums, bool pads, int most) {
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    int mine = steps[blockIdx.x];
    for (int i = 0; i < mine; i++) {
        sums[blockIdx.x] += i;
        grid.sync();
    }
    for (int i = mine; pads && i < most; i++)
        grid.sync();
}

static void lorax_149(void) {
    enum { BLOCKS = 16, MOST = 8 };
    int lengths[BLOCKS], *steps, most = MOST;
    float *sums;
    for (int i = 0; i < BLOCKS; i++)
        lengths[i] = i == 3 ? MOST : 5;
    CHECK(cudaMalloc(&steps, sizeof lengths));
    CHECK(cudaMalloc(&sums, BLOCKS * sizeof *sums));
    CHECK(cudaMemcpy(steps, lengths, sizeof lengths, cudaMemcpyHostToDevice));
    void *arguments[] = {&steps, &sums, &is_fixed, &most};
    CHECK(cudaLaunchCooperativeKernel((void *)shrink, dim3(BLOCKS), dim3(128), arguments, 0, 0));
    CHECK(cudaDeviceSynchronize());
}

/* ---- the table ---- */

static const struct {
    const char *name;
    void (*play)(void);
} hangs[] = {
    {"mirage-775", mirage_775},
    {"deepep-496", deepep_496},
    {"interpreter-lock", interpreter_lock},
    {"lorax-149", lorax_149},
};

int main(int count, char **words) {
    is_fixed = count > 2 && strcmp(words[2], "fixed") == 0;
    bool starts_ranks = count > 1 && strcmp(words[1], "deepep-496") == 0;
    if (count > 1 && !starts_ranks)
        CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    for (size_t i = 0; i < sizeof hangs / sizeof *hangs; i++)
        if (count > 1 && strcmp(words[1], hangs[i].name) == 0) {
            hangs[i].play();
            printf("%s ended\n", words[1]);
            return 0;
        }
    for (size_t i = 0; i < sizeof hangs / sizeof *hangs; i++)
        printf("%s\n", hangs[i].name);
    return 2;
}
