// compiled.cu: two kernels for tests of `gridsmith import`. cuobjdump-library.txt and cuobjdump-cubin.txt are the output of
// cuobjdump --dump-resource-usage (CUDA 13.0) of a library for sm_80 and sm_90, and of a cubin for sm_100.
__device__ float buffer[10];

template <class T> __global__ void __launch_bounds__(256) axpy(T *a, T *b) {
    __shared__ T s[128];
    s[threadIdx.x & 127] = b[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = s[(threadIdx.x * 7) & 127];
}

__global__ void spill(float *a, int n) {
    float x[100];
    for (int i = 0; i < n; i++)
        x[(i * 7) % 100] = a[i];
    a[0] = x[n % 100];
}

template __global__ void axpy<float>(float *, float *);
