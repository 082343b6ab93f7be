/*
 * places.cu: where in the shared memory of an SM blocks lie. The data of corpus/h200-places.jsonl.gz were made with it:
 *
 *   nvcc -O2 -arch=sm_90 -o places tests/gpu/places.cu && ./places 4000 7 | gzip -9 -n >places.jsonl.gz
 *
 * Shared memory is not cleared between blocks. One block an SM first fills it with stamps, each its own address. The
 * blocks of a random run then read before they write, which is never, and so see where they are. All kernels have a
 * block on every SM and ask for the largest configuration, so the 132 SMs go through the same, and should say the same.
 *
 * A line a run: {"run":0,"ev":[{"k":0,"kb":12,"seen":132,"at":0},{"x":0}, ...]}: kernel 0 is launched with 12 KB a block
 * and lies at byte 0 on all SMs; it exits. `at` is a list where SMs differ. The run ends with a kernel that has not
 * started everywhere within half a millisecond.
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

enum { SMS = 132, KERNELS = 40, LARGEST = 232448, RESERVED = 1024, WORDS = 16 + 2 * SMS, UNSEEN = 1 << 20, EVENTS = 70 };

static void check(cudaError_t error) {
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s\n", cudaGetErrorString(error));
    exit(1);
}

extern __shared__ unsigned shared[];

__global__ void stamp(unsigned salt) {
    for (int i = threadIdx.x; i < LARGEST / 4; i += blockDim.x)
        shared[i] = salt | (RESERVED + 4 * i);
    __syncthreads();
    if (shared[threadIdx.x] == 1)
        printf("!"); /* so that the stamps are not thrown away */
}

/* Says its SM and where it lies, and waits. Word 3 of a kilobyte is looked at: the runtime writes into the first ones. */
__global__ void look(volatile unsigned *stop, volatile unsigned *report, int kilobytes, unsigned salt) {
    if (threadIdx.x == 0) {
        unsigned sm, word;
        int at = -1;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        for (int i = 0; i < kilobytes && at < 0; i++) {
            word = ((volatile unsigned *)shared)[i * 256 + 3];
            if ((word & 0xfffc0000u) == salt)
                at = (int)(word & 0x3ffff) - 12 - RESERVED * (i + 1);
        }
        asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(word) : "r"(12));
        if (at < 0 && (word & 0xfffc0000u) == salt)
            at = (int)(word & 0x3ffff) - 12;
        report[blockIdx.x * 2 + 1] = (unsigned)(at + UNSEEN);
        __threadfence_system();
        report[blockIdx.x * 2] = sm + 1;
        while (!*stop)
            __nanosleep(200);
    }
    __syncthreads();
}

static double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static int wait_for_blocks(volatile unsigned *report) {
    double began = seconds();
    int seen = 0;
    while (seen < SMS && seconds() - began < 0.0005) {
        seen = 0;
        for (int i = 0; i < SMS; i++)
            seen += report[i * 2] != 0;
    }
    return seen;
}

static void print_places(volatile unsigned *report) {
    int at[SMS];
    bool same = true;
    for (int i = 0; i < SMS; i++)
        at[i] = -1;
    for (int i = 0; i < SMS; i++)
        if (report[i * 2])
            at[report[i * 2] - 1] = (int)report[i * 2 + 1] - UNSEEN;
    for (int i = 1; i < SMS; i++)
        same = same && at[i] == at[0];
    printf("%s%d", same ? "" : "[", at[0]);
    for (int i = 1; i < SMS && !same; i++)
        printf(",%d", at[i]);
    printf("%s}", same ? "" : "]");
}

int main(int count, char **arguments) {
    int runs = count > 1 ? atoi(arguments[1]) : 100;
    unsigned *memory, *on_device;
    cudaStream_t streams[KERNELS];
    srand(count > 2 ? atoi(arguments[2]) : 1);
    check(cudaFuncSetAttribute(stamp, cudaFuncAttributeMaxDynamicSharedMemorySize, LARGEST));
    check(cudaFuncSetAttribute(look, cudaFuncAttributeMaxDynamicSharedMemorySize, LARGEST));
    check(cudaFuncSetAttribute(stamp, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    check(cudaFuncSetAttribute(look, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    check(cudaHostAlloc(&memory, KERNELS * WORDS * 4, cudaHostAllocMapped));
    check(cudaHostGetDevicePointer(&on_device, memory, 0));
    for (cudaStream_t &stream : streams)
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int run = 0; run < runs; run++) {
        unsigned salt = (0x1000u | (run & 0xfff)) << 18;
        std::vector<int> alive;
        int launched = 0, style = rand() % 3, seen = SMS;
        memset(memory, 0, KERNELS * WORDS * 4);
        stamp<<<SMS, 256, LARGEST>>>(salt);
        check(cudaDeviceSynchronize());
        printf("{\"run\":%d,\"ev\":[", run);
        for (int event = 0; event < EVENTS && launched < KERNELS && seen == SMS; event++) {
            printf(event ? "," : "");
            if (alive.size() > 1 && rand() % 100 < 35 + 10 * (style > 0)) {
                int which = rand() % alive.size(), kernel = alive[which];
                alive.erase(alive.begin() + which);
                ((volatile unsigned *)memory)[kernel * WORDS] = 1;
                check(cudaStreamSynchronize(streams[kernel]));
                printf("{\"x\":%d}", kernel);
                continue;
            }
            int kilobytes = rand() % 100 < 15 ? 0 : 1 + rand() % (style == 2 ? 24 : rand() % 2 ? 16 : 60);
            unsigned *stop = on_device + launched * WORDS;
            volatile unsigned *report = memory + launched * WORDS + 16;
            look<<<SMS, 32, kilobytes * 1024, streams[launched]>>>(stop, stop + 16, kilobytes, salt);
            check(cudaGetLastError());
            seen = wait_for_blocks(report);
            printf("{\"k\":%d,\"kb\":%d,\"seen\":%d,\"at\":", launched, kilobytes, seen);
            print_places(report);
            alive.push_back(launched++);
        }
        for (int kernel = 0; kernel < launched; kernel++)
            ((volatile unsigned *)memory)[kernel * WORDS] = 1;
        check(cudaDeviceSynchronize());
        puts("]}");
    }
    return 0;
}
