/*
 * fine.cu: programs that do not hang, for `gridsmith watch` to say nothing about. Each takes about three seconds.
 *
 *   nvcc -arch=native -lineinfo -o fine fine.cu -lcuda
 *   gridsmith watch --after 1s -- ./fine long
 *
 * The names are in the table at the end.
 */
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t failed = (call);                                                                                   \
        if (failed != cudaSuccess) {                                                                                   \
            fprintf(stderr, "fine.cu:%d: %s\n", __LINE__, cudaGetErrorString(failed));                                 \
            exit(3);                                                                                                   \
        }                                                                                                              \
    } while (0)

static int sms;
static double start;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static bool goes_on(void) {
    return now() - start < 3;
}

__device__ unsigned next_task, arrived[64], done_blocks[4096];

__global__ void work(float *data, int rounds) {
    float x = data[threadIdx.x];
    for (int i = 0; i < rounds; i++)
        x = x * 1.0001f + 0.5f;
    data[threadIdx.x] = x;
}

/* Each block takes tasks until there are none. */
__global__ void take_tasks(float *data, unsigned tasks) {
    __shared__ unsigned task;
    for (;;) {
        if (threadIdx.x == 0)
            task = atomicAdd(&next_task, 1);
        __syncthreads();
        unsigned mine = task;
        __syncthreads();
        if (mine >= tasks)
            return;
        float x = data[threadIdx.x];
        for (int i = 0; i < 100000; i++)
            x = x * 1.0001f + 0.5f;
        data[threadIdx.x] = x;
    }
}

/* Serves requests that the host puts into its memory, until the request is 0. */
__global__ void serve_requests(volatile unsigned *request, volatile unsigned *answer) {
    unsigned last = 0;
    for (;;) {
        unsigned wanted = *request;
        if (wanted == 0xffffffff)
            return;
        if (wanted != last) {
            *answer = last = wanted;
            __threadfence_system();
        }
    }
}

__global__ void meet(int rounds) {
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    for (int i = 0; i < rounds; i++)
        grid.sync();
}

/* Each block waits for the one before it. */
__global__ void chain(unsigned round) {
    if (threadIdx.x == 0) {
        while (blockIdx.x && *(volatile unsigned *)&done_blocks[blockIdx.x - 1] < round)
            ;
        __threadfence();
        *(volatile unsigned *)&done_blocks[blockIdx.x] = round;
    }
}

__global__ void print_line(int i) {
    if (threadIdx.x == 0 && i % 1000 == 0)
        printf("%d\n", i);
}

static float *new_data(void) {
    float *data;
    CHECK(cudaMalloc(&data, 1 << 20));
    CHECK(cudaMemset(data, 0, 1 << 20));
    CHECK(cudaDeviceSynchronize());
    return data;
}

static cudaStream_t new_stream(void) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

/* ---- long kernels ---- */

static void long_kernel(void) {
    work<<<1, 32>>>(new_data(), 1000000000);
    CHECK(cudaDeviceSynchronize());
}

static void long_waves(void) {
    work<<<40 * sms, 1024>>>(new_data(), 10000000);
    CHECK(cudaDeviceSynchronize());
}

static void long_tasks(void) {
    take_tasks<<<sms, 128>>>(new_data(), sms * 6000);
    CHECK(cudaDeviceSynchronize());
}

static void long_meetings(void) {
    int rounds = 1200000;
    void *arguments[] = {&rounds};
    CHECK(cudaLaunchCooperativeKernel((void *)meet, sms, 128, arguments));
    CHECK(cudaDeviceSynchronize());
}

static void long_behind_long(void) {
    cudaStream_t one = new_stream(), two = new_stream();
    float *data = new_data();
    work<<<20 * sms, 1024, 0, one>>>(data, 8000000);
    work<<<20 * sms, 1024, 0, two>>>(data, 8000000);
    CHECK(cudaDeviceSynchronize());
}

/* ---- servers ---- */

static void idle_server(void) {
    float *data = new_data();
    work<<<1, 32>>>(data, 100);
    CHECK(cudaDeviceSynchronize());
    sleep(3);
}

static void mailbox(bool pauses) {
    unsigned *words;
    cudaStream_t stream = new_stream();
    CHECK(cudaHostAlloc(&words, 4096, cudaHostAllocMapped));
    memset(words, 0, 4096);
    serve_requests<<<1, 1, 0, stream>>>(words, words + 64);
    for (unsigned i = 1; goes_on(); i++) {
        *(volatile unsigned *)words = i;
        while (*(volatile unsigned *)(words + 64) != i)
            ;
        usleep(pauses ? 1500000 : 1000);
    }
    *(volatile unsigned *)words = 0xffffffff;
    CHECK(cudaStreamSynchronize(stream));
}

static void busy_mailbox(void) {
    mailbox(false);
}

static void quiet_mailbox(void) {
    mailbox(true);
}

/* ---- many short things ---- */

static void short_kernels(void) {
    for (float *data = new_data(); goes_on();) {
        work<<<sms, 128>>>(data, 1000);
        CHECK(cudaDeviceSynchronize());
    }
}

static void deep_queue(void) {
    for (float *data = new_data(); goes_on();)
        work<<<sms, 128>>>(data, 10000);
    CHECK(cudaDeviceSynchronize());
}

static void chains(void) {
    for (unsigned round = 1; goes_on(); round++)
        chain<<<4096, 32>>>(round);
    CHECK(cudaDeviceSynchronize());
}

static void graphs(void) {
    cudaStream_t stream = new_stream();
    float *data = new_data();
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 20; i++)
        work<<<sms, 128, 0, stream>>>(data, 1000);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    while (goes_on()) {
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
    }
}

static void events(void) {
    cudaStream_t one = new_stream(), two = new_stream();
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (float *data = new_data(); goes_on();) {
        work<<<8, 128, 0, one>>>(data, 1000);
        CHECK(cudaEventRecord(event, one));
        CHECK(cudaStreamWaitEvent(two, event, 0));
        work<<<8, 128, 0, two>>>(data, 1000);
        CHECK(cudaEventRecord(event, two));
        CHECK(cudaStreamWaitEvent(one, event, 0));
        while (cudaEventQuery(event) == cudaErrorNotReady)
            ;
    }
}

static void nap(void *unused) {
    (void)unused;
    usleep(300000);
}

static void host_functions(void) {
    for (cudaStream_t stream = new_stream(); goes_on();) {
        CHECK(cudaLaunchHostFunc(stream, nap, NULL));
        CHECK(cudaStreamSynchronize(stream));
    }
}

static void pools(void) {
    for (cudaStream_t stream = new_stream(); goes_on();) {
        void *memory;
        CHECK(cudaMallocAsync(&memory, 1 << 20, stream));
        CHECK(cudaFreeAsync(memory, stream));
        CHECK(cudaStreamSynchronize(stream));
    }
}

static void allocations(void) {
    while (goes_on()) {
        void *memory;
        CHECK(cudaMalloc(&memory, 1 << 26));
        CHECK(cudaFree(memory));
    }
}

static void values(void) {
    unsigned *word;
    CHECK(cudaHostAlloc(&word, 4, cudaHostAllocMapped));
    cudaStream_t stream = new_stream();
    for (unsigned i = 1; goes_on(); i++) {
        cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)word, i, CU_STREAM_WAIT_VALUE_EQ);
        usleep(200000);
        *(volatile unsigned *)word = i;
        CHECK(cudaStreamSynchronize(stream));
    }
}

static void prints(void) {
    for (int i = 0; goes_on(); i++) {
        print_line<<<1, 32>>>(i);
        CHECK(cudaDeviceSynchronize());
    }
}

static void many_streams(void) {
    cudaStream_t streams[40];
    float *data = new_data();
    for (int i = 0; i < 40; i++)
        streams[i] = new_stream();
    while (goes_on()) {
        for (int i = 0; i < 40; i++)
            work<<<4, 128, 0, streams[i]>>>(data, 10000);
        CHECK(cudaDeviceSynchronize());
    }
}

static void *launch_often(void *data) {
    while (goes_on()) {
        work<<<4, 128, 0, cudaStreamPerThread>>>((float *)data, 1000);
        CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    }
    return NULL;
}

static void threads(void) {
    pthread_t made[8];
    float *data = new_data();
    for (int i = 0; i < 8; i++)
        pthread_create(&made[i], NULL, launch_often, data);
    for (int i = 0; i < 8; i++)
        pthread_join(made[i], NULL);
}

/* Another process stops this one for a while, as a debugger does at a breakpoint. */
static void breakpoint(void) {
    pid_t own = getpid();
    float *data = new_data();
    if (fork() == 0) {
        usleep(300000);
        kill(own, SIGSTOP);
        sleep(2);
        kill(own, SIGCONT);
        _exit(0);
    }
    while (goes_on()) {
        work<<<1, 32>>>(data, 10000000);
        CHECK(cudaDeviceSynchronize());
    }
    wait(NULL);
}

/* ---- the table ---- */

static const struct {
    const char *name;
    void (*play)(void);
} programs[] = {
    {"long", long_kernel},
    {"waves", long_waves},
    {"tasks", long_tasks},
    {"meetings", long_meetings},
    {"two-long", long_behind_long},
    {"idle", idle_server},
    {"mailbox", busy_mailbox},
    {"quiet-mailbox", quiet_mailbox},
    {"short", short_kernels},
    {"deep", deep_queue},
    {"chains", chains},
    {"graphs", graphs},
    {"events", events},
    {"host", host_functions},
    {"pools", pools},
    {"allocations", allocations},
    {"values", values},
    {"prints", prints},
    {"streams", many_streams},
    {"threads", threads},
    {"breakpoint", breakpoint},
};

int main(int count, char **words) {
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    start = now();
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (count > 1 && strcmp(words[1], programs[i].name) == 0) {
            programs[i].play();
            fprintf(stderr, "%s took %.1f s\n", words[1], now() - start);
            return 0;
        }
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        printf("%s\n", programs[i].name);
    return 2;
}
