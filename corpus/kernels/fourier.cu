// fourier.cu: a sum of 128 sines and cosines at each point (special function unit).

extern "C" __global__ void fourier(const float *points, const float *frequencies, const float2 *amplitudes, float *out, int n) {
    __shared__ float4 wave[128];
    for (int i = threadIdx.x; i < 128; i += blockDim.x)
        wave[i] = make_float4(frequencies[i] * 3, amplitudes[i].x, amplitudes[i].y, 0);
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = points[i], sum = 0;
#pragma unroll 8
    for (int k = 0; k < 128; k++) {
        float4 w = wave[k];
        float phase = w.x * x;
        sum += w.y * __sinf(phase) + w.z * __cosf(phase);
    }
    out[i] = sum;
}
