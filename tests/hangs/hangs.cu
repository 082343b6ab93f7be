/*
 * hangs.cu: a program for each cause of a hang, small, and with the word `fixed` the same program after a fix.
 *
 *   nvcc -arch=native -lineinfo -o hangs hangs.cu -lcuda
 *   ./hangs barrier          hangs
 *   ./hangs barrier fixed    ends
 *
 * The names are in the table at the end, in the order of docs/watch.md. A kernel that waits reads a flag that another
 * kernel, the host or another process sets. The sizes are for a GPU with 228 KB of shared memory an SM.
 */
#include <cuda.h>
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
            fprintf(stderr, "hangs.cu:%d: %s\n", __LINE__, cudaGetErrorString(failed));                                \
            exit(3);                                                                                                   \
        }                                                                                                              \
    } while (0)

static bool is_fixed;
static int sms;

__device__ volatile unsigned arrived, arrived_too, go, never;

/* ---- kernels ---- */

/* A barrier of all blocks, made by hand. */
__global__ void grid_barrier(unsigned blocks) {
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd((unsigned *)&arrived, 1);
        while (arrived < blocks)
            ;
    }
    __syncthreads();
}

__global__ void other_barrier(unsigned blocks) {
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd((unsigned *)&arrived_too, 1);
        while (arrived_too < blocks)
            ;
        go = 1;
    }
    __syncthreads();
}

__global__ void wait_for_go(void) {
    while (!go)
        ;
}

__global__ void set_go(void) {
    go = 1;
}

/* Nothing else uses it, so that with lazy loading its first launch loads it. */
__device__ unsigned table_of_late[1 << 20];
__global__ void late_kernel(void) {
    table_of_late[threadIdx.x] = 1;
    __threadfence();
    go = 1;
}

__global__ void plain_work(float *data) {
    data[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

__global__ void uses_local(float *data, int n) {
    float kept[2048];
    for (int i = 0; i < 2048; i++)
        kept[i] = data[(i * n) & 31];
    for (int i = 0; i < n; i++)
        data[threadIdx.x & 31] += kept[(i * 7 + threadIdx.x) & 2047];
    go = 1;
}

__global__ void primary(void) {
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
    while (!go)
        ;
}

__global__ void dependent(void) {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

/* A collective of two ranks: it ends when both have come to it. */
__global__ void ncclDevKernel_AllReduce(volatile unsigned *counters, int rank) {
    counters[rank] = 1;
    __threadfence_system();
    while (!counters[1 - rank])
        ;
}

__global__ void ncclDevKernel_AllGather(volatile unsigned *counters, int rank) {
    counters[2 + rank] = 1;
    __threadfence_system();
    while (!counters[2 + 1 - rank])
        ;
}

__global__ void fill_heap(size_t bytes, int tries) {
    void *got = NULL;
    for (int i = 0; !got && i != tries; i++)
        got = malloc(bytes);
    if (got)
        *(volatile char *)got = 1;
}

__global__ void missed_barrier(int wanted) {
    if (threadIdx.x < 32)
        asm volatile("bar.sync 1, %0;" ::"r"(wanted));
    __syncthreads();
}

template <bool FOREVER> __global__ void endless(unsigned *out) {
    unsigned x = threadIdx.x;
    do
        asm volatile("mad.lo.u32 %0, %0, 1664525, 1013904223;" : "+r"(x));
    while (FOREVER);
    out[threadIdx.x] = x;
}

/* So that the kernel launched before has its SMs first. Kernels of two streams that wait for the GPU may start in any
   order, as they do when other programs use it. */
static void let_start(void) {
    usleep(100000);
}

/* ---- 1: more blocks than are resident together ---- */

static void barrier(void) {
    int blocks = is_fixed ? 2 * sms : 2 * sms + 8;
    grid_barrier<<<blocks, 1024>>>(blocks);
    CHECK(cudaDeviceSynchronize());
}

/* ---- 2: two kernels that need each other's SMs ---- */

static void two_kernels(void) {
    const int bytes = 200 << 10;
    cudaStream_t one, two;
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    CHECK(cudaFuncSetAttribute(wait_for_go, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    CHECK(cudaFuncSetAttribute(other_barrier, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    int second = is_fixed ? 32 : 64;
    wait_for_go<<<sms - 32, 128, bytes, one>>>();
    let_start();
    other_barrier<<<second, 128, bytes, two>>>(second);
    CHECK(cudaDeviceSynchronize());
}

/* ---- 3: collectives in another order on another rank ---- */

static void play_rank(int rank, volatile unsigned *shared) {
    unsigned *counters;
    cudaStream_t stream;
    CHECK(cudaHostRegister((void *)shared, 4096, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&counters, (void *)shared, 0));
    CHECK(cudaStreamCreate(&stream));
    if (rank == 0 || is_fixed) {
        ncclDevKernel_AllReduce<<<1, 32, 0, stream>>>(counters, rank);
        ncclDevKernel_AllGather<<<1, 32, 0, stream>>>(counters, rank);
    } else {
        ncclDevKernel_AllGather<<<1, 32, 0, stream>>>(counters, rank);
        ncclDevKernel_AllReduce<<<1, 32, 0, stream>>>(counters, rank);
    }
    CHECK(cudaStreamSynchronize(stream));
}

/* Before CUDA starts: a process for each rank. */
static void ranks(void) {
    void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[2];
    for (int rank = 0; rank < 2; rank++)
        if ((children[rank] = fork()) == 0) {
            setenv("RANK", rank ? "1" : "0", 1);
            setenv("WORLD_SIZE", "2", 1);
            play_rank(rank, (volatile unsigned *)shared);
            exit(0);
        }
    for (int rank = 0; rank < 2; rank++)
        waitpid(children[rank], NULL, 0);
}

/* ---- 4: lazy loading ---- */

static void lazy(void) {
    cudaStream_t one, two;
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    cudaFuncAttributes attributes;
    if (is_fixed)
        CHECK(cudaFuncGetAttributes(&attributes, late_kernel));
    wait_for_go<<<1, 32, 0, one>>>();
    late_kernel<<<1, 32, 0, two>>>();
    CHECK(cudaDeviceSynchronize());
}

/* ---- 5: a call that waits for the whole GPU ---- */

static void free_memory(void) {
    void *data;
    cudaStream_t one, two;
    CHECK(cudaMalloc(&data, 1 << 20));
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, set_go));
    wait_for_go<<<1, 32, 0, one>>>();
    if (!is_fixed)
        CHECK(cudaFree(data));
    set_go<<<1, 1, 0, two>>>();
    CHECK(cudaDeviceSynchronize());
}

static void local_memory(void) {
    float *data;
    cudaStream_t one, two;
    CHECK(cudaMalloc(&data, 1 << 20));
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, uses_local));
    if (is_fixed)
        CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 16384));
    wait_for_go<<<1, 32, 0, one>>>();
    uses_local<<<1, 32, 0, two>>>(data, 1);
    CHECK(cudaDeviceSynchronize());
}

/* ---- 6: more streams than connections ---- */

static void connections(void) {
    cudaStream_t one, two;
    float *data;
    CHECK(cudaMalloc(&data, 1 << 20));
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, set_go));
    CHECK(cudaFuncGetAttributes(&attributes, plain_work));
    wait_for_go<<<1, 32, 0, one>>>();
    plain_work<<<1, 32, 0, one>>>(data);
    set_go<<<1, 1, 0, two>>>();
    CHECK(cudaDeviceSynchronize());
}

/* ---- 7: a shared-memory configuration ---- */

static void configuration(void) {
    cudaStream_t one, two;
    const int bytes = 100 << 10;
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    CHECK(cudaFuncSetAttribute(wait_for_go, cudaFuncAttributePreferredSharedMemoryCarveout, is_fixed ? 100 : 0));
    CHECK(cudaFuncSetAttribute(other_barrier, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    wait_for_go<<<sms, 128, 0, one>>>();
    let_start();
    other_barrier<<<sms, 128, bytes, two>>>(sms);
    CHECK(cudaDeviceSynchronize());
}

/* ---- 8: dependents of a programmatic launch ---- */

static void programmatic(void) {
    cudaStream_t one, two;
    const int bytes = 200 << 10;
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    CHECK(cudaFuncSetAttribute(dependent, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    CHECK(cudaFuncSetAttribute(other_barrier, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(is_fixed ? sms / 2 : 4 * sms);
    config.blockDim = dim3(128);
    config.dynamicSmemBytes = bytes;
    config.stream = one;
    config.attrs = &early;
    config.numAttrs = 1;
    primary<<<1, 32, 0, one>>>();
    CHECK(cudaLaunchKernelEx(&config, dependent));
    let_start();
    other_barrier<<<4, 128, bytes, two>>>(4);
    CHECK(cudaDeviceSynchronize());
}

/* ---- 9: a host function that waits ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void take_lock(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
}

static void host_lock(void) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    pthread_mutex_lock(&lock);
    CHECK(cudaLaunchHostFunc(stream, take_lock, NULL));
    if (is_fixed)
        pthread_mutex_unlock(&lock);
    CHECK(cudaStreamSynchronize(stream));
}

/* ---- 10: waits that nothing ends ---- */

static void wait_value(void) {
    CUdeviceptr word;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc((void **)&word, 4));
    CHECK(cudaMemset((void *)word, 0, 4));
    cuStreamWaitValue32(stream, word, is_fixed ? 0 : 1, CU_STREAM_WAIT_VALUE_EQ);
    set_go<<<1, 1, 0, stream>>>();
    CHECK(cudaStreamSynchronize(stream));
}

static void circle(void) {
    CUdeviceptr words;
    cudaStream_t one, two;
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&words, 8));
    CHECK(cudaMemset((void *)words, 0, 8));
    CHECK(cudaDeviceSynchronize());
    if (is_fixed)
        cuStreamWriteValue32(two, words, 1, 0);
    cuStreamWaitValue32(one, words, 1, CU_STREAM_WAIT_VALUE_EQ);
    cuStreamWriteValue32(one, words + 4, 1, 0);
    cuStreamWaitValue32(two, words + 4, 1, CU_STREAM_WAIT_VALUE_EQ);
    cuStreamWriteValue32(two, words, 1, 0);
    CHECK(cudaDeviceSynchronize());
}

/* ---- 11: a full device heap ---- */

static void heap(void) {
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 8 << 20));
    fill_heap<<<64, 32>>>(is_fixed ? 1 << 10 : 1 << 20, -1);
    CHECK(cudaDeviceSynchronize());
}

/* ---- 12: kernels that never end ---- */

static void block_barrier(void) {
    missed_barrier<<<4, 128>>>(is_fixed ? 32 : 64);
    CHECK(cudaDeviceSynchronize());
}

static void endless_loop(void) {
    unsigned *out;
    CHECK(cudaMalloc(&out, 4096));
    if (is_fixed)
        endless<false><<<4, 128>>>(out);
    else
        endless<true><<<4, 128>>>(out);
    CHECK(cudaDeviceSynchronize());
}

static void lost_flag(void) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (is_fixed)
        set_go<<<1, 1, 0, stream>>>();
    wait_for_go<<<8, 64, 0, stream>>>();
    CHECK(cudaStreamSynchronize(stream));
}

/* ---- the table ---- */

static const struct {
    const char *name;
    void (*play)(void);
} hangs[] = {
    {"barrier", barrier},
    {"two-kernels", two_kernels},
    {"ranks", ranks},
    {"lazy", lazy},
    {"free", free_memory},
    {"local", local_memory},
    {"connections", connections},
    {"configuration", configuration},
    {"programmatic", programmatic},
    {"host-lock", host_lock},
    {"wait-value", wait_value},
    {"circle", circle},
    {"heap", heap},
    {"block-barrier", block_barrier},
    {"endless", endless_loop},
    {"lost-flag", lost_flag},
};

int main(int count, char **words) {
    is_fixed = count > 2 && strcmp(words[2], "fixed") == 0;
    if (count > 1 && strcmp(words[1], "connections") == 0)
        setenv("CUDA_DEVICE_MAX_CONNECTIONS", is_fixed ? "8" : "1", 1);
    bool starts_ranks = count > 1 && strcmp(words[1], "ranks") == 0;
    if (!starts_ranks)
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
