// everything.cu: one of everything that `gridsmith trace` records: streams, events, the default stream, copies, memsets,
// clusters, cooperative and programmatic launches, graphs (captured, made by hand, within another), a green context.
//
//   nvcc -arch=sm_90 -std=c++17 -o everything corpus/everything.cu -lcuda
//   gridsmith trace -o everything.jsonl -- ./everything [COUNT [crash|exit]]
//
// COUNT more kernels are launched at the end.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        auto code = (call);                                                                                            \
        if (code) {                                                                                                    \
            printf("%s: %d at line %d\n", #call, (int)code, __LINE__);                                                 \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

__global__ void spin(int cycles, int *out) {
    long long began = clock64();
    while (clock64() - began < cycles)
        ;
    if (out)
        out[0] = 1;
}

__global__ void local_user(int *out, int n) {
    int a[64];
    for (int i = 0; i < 64; i++)
        a[i] = i * n;
    out[threadIdx.x] = a[n % 64] + a[(n * 7) % 64];
}

__global__ void dyn(int *out) {
    extern __shared__ int shared[];
    shared[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = shared[threadIdx.x];
}

__global__ void stat(int *out) {
    __shared__ int shared[2048];
    shared[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = shared[threadIdx.x ^ 1];
}

__global__ void pdl(int *out) {
    cudaGridDependencySynchronize();
    out[threadIdx.x] = 1;
    cudaTriggerProgrammaticLaunchCompletion();
}

__global__ void __cluster_dims__(2, 1, 1) clustered(int *out) {
    out[threadIdx.x] = 2;
}

__global__ void coop(int *out) {
    cooperative_groups::this_grid().sync();
    out[0] = 3;
}

static int launches;
static int *device_memory, *host_memory;
static cudaStream_t a, b, c;
static cudaEvent_t e, f;

static void launched(int count) {
    CHECK(cudaGetLastError());
    launches += count;
}

static void launch_with(cudaLaunchAttribute attribute, void (*kernel)(int *)) {
    cudaLaunchConfig_t config = {};
    config.gridDim = 8;
    config.blockDim = 128;
    config.stream = a;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, kernel, device_memory));
}

static cudaLaunchAttribute early() {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    return attribute;
}

static void streams_and_events() {
    CHECK(cudaMemcpy(device_memory, host_memory, 4096, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(device_memory, 0, 4096));
    spin<<<4, 64>>>(20000, device_memory);
    spin<<<3, 96, 0, a>>>(20000, device_memory);
    CHECK(cudaEventRecord(e, a));
    CHECK(cudaStreamWaitEvent(b, e, 0));
    stat<<<2, 128, 0, b>>>(device_memory); // after that of a
    CHECK(cudaMemcpyAsync(device_memory, host_memory, 1000, cudaMemcpyHostToDevice, b));
    CHECK(cudaMemsetAsync(device_memory, 1, 77, b));
    CHECK(cudaMemcpyAsync(host_memory, device_memory, 64, cudaMemcpyDeviceToHost, b));
    spin<<<1, 32, 0, c>>>(20000, device_memory); // waits for the default stream
    spin<<<1, 32>>>(20000, device_memory);       // waits for c
    launched(5);
}

static void attributes() {
    CHECK(cudaFuncSetAttribute(dyn, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000));
    CHECK(cudaFuncSetAttribute(dyn, cudaFuncAttributePreferredSharedMemoryCarveout, 75));
    dyn<<<5, 256, 90000, a>>>(device_memory);
    local_user<<<1, 64, 0, a>>>(device_memory, 1);
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = 4;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    launch_with(cluster, stat);
    launch_with(early(), pdl);
    launch_with(early(), pdl);
    clustered<<<4, 64, 0, b>>>(device_memory);
    void *arguments[] = {&device_memory};
    CHECK(cudaLaunchCooperativeKernel((void *)coop, dim3(4), dim3(64), arguments, 0, b));
    launched(7);
    CHECK(cudaDeviceSynchronize());
}

static cudaGraphExec_t end_capture() {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamEndCapture(a, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return exec;
}

static void captured_graph() {
    CHECK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    spin<<<1, 32, 0, a>>>(5000, device_memory);
    CHECK(cudaEventRecord(e, a));
    CHECK(cudaStreamWaitEvent(b, e, 0));
    spin<<<2, 32, 0, a>>>(5000, device_memory);
    spin<<<3, 32, 0, b>>>(5000, device_memory);
    CHECK(cudaMemsetAsync(device_memory, 0, 64, b));
    CHECK(cudaEventRecord(f, b));
    CHECK(cudaStreamWaitEvent(a, f, 0));
    spin<<<4, 32, 0, a>>>(5000, device_memory);
    cudaGraphExec_t exec = end_capture();
    for (int i = 0; i < 3; i++)
        CHECK(cudaGraphLaunch(exec, a));
    CHECK(cudaEventRecord(e, a));
    CHECK(cudaStreamWaitEvent(b, e, 0));
    spin<<<1, 64, 0, b>>>(1000, device_memory);
    spin<<<1, 64, 0, a>>>(1000, device_memory);
    launched(3 * 4 + 2);
    CHECK(cudaDeviceSynchronize());
}

static void graph_within_a_graph() {
    cudaGraph_t outer, inner;
    cudaGraphNode_t first, second, before, child, empty, after;
    cudaGraphExec_t exec;
    int cycles = 1000;
    void *arguments[] = {&cycles, &device_memory};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)spin;
    kernel.gridDim = 1;
    kernel.blockDim = 32;
    kernel.kernelParams = arguments;
    CHECK(cudaGraphCreate(&outer, 0));
    CHECK(cudaGraphCreate(&inner, 0));
    CHECK(cudaGraphAddKernelNode(&first, inner, 0, 0, &kernel));
    CHECK(cudaGraphAddKernelNode(&second, inner, &first, 1, &kernel));
    CHECK(cudaGraphAddKernelNode(&before, outer, 0, 0, &kernel));
    CHECK(cudaGraphAddChildGraphNode(&child, outer, &before, 1, inner));
    CHECK(cudaGraphAddEmptyNode(&empty, outer, &child, 1));
    CHECK(cudaGraphAddKernelNode(&after, outer, &empty, 1, &kernel));
    CHECK(cudaGraphInstantiate(&exec, outer, 0));
    CHECK(cudaGraphLaunch(exec, b));
    launched(4);
}

static void programmatic_graph() {
    CHECK(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    pdl<<<1, 32, 0, a>>>(device_memory);
    launch_with(early(), pdl);
    launch_with(early(), pdl);
    CHECK(cudaGraphLaunch(end_capture(), a));
    launched(3);
    CHECK(cudaDeviceSynchronize());
}

static void green_context() {
    CUdevice device;
    CUdevResource all, part;
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUstream stream;
    unsigned parts = 1;
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuDevSmResourceSplitByCount(&part, &parts, &all, NULL, 0, 16));
    CHECK(cuDevResourceGenerateDesc(&description, &part, 1));
    CHECK(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    spin<<<4, 64, 0, stream>>>(1000, device_memory);
    launched(1);
    CHECK(cudaStreamSynchronize(stream));
}

int main(int argc, char **argv) {
    int lowest, highest;
    CHECK(cudaMalloc(&device_memory, 1 << 20));
    CHECK(cudaMallocHost(&host_memory, 1 << 20));
    CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    CHECK(cudaStreamCreateWithPriority(&a, cudaStreamNonBlocking, highest));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK(cudaStreamCreate(&c));
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    CHECK(cudaEventCreate(&f));
    streams_and_events();
    attributes();
    captured_graph();
    graph_within_a_graph();
    programmatic_graph();
    green_context();
    CHECK(cudaStreamDestroy(c));
    CHECK(cudaEventDestroy(e));
    printf("launched %d kernels\n", launches);
    for (int i = 0; argc > 1 && i < atoi(argv[1]); i++)
        spin<<<1, 32, 0, a>>>(0, (int *)0);
    CHECK(cudaDeviceSynchronize());
    if (argc > 2 && strcmp(argv[2], "crash") == 0)
        *(volatile int *)8 = 1;
    if (argc > 2 && strcmp(argv[2], "exit") == 0)
        _Exit(5);
}
