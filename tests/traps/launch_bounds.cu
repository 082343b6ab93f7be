// Attributes before and after void.
enum { THREADS = 64 };
static __global__ __launch_bounds__(THREADS, (1 + 1)) void trap(int *__restrict__ out, const int *__restrict__ in, const int n) {
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        out[i] = in[i];
}
