// fft.cu: Fourier transforms of many rows of POINTS complex numbers. A block has a row in shared memory and goes through
// it by Stockham's radix-2 steps, from one half of its memory to the other: no bit reversal is needed.

constexpr int POINTS = 512;

__global__ void fft(const float2 *in, float2 *out) {
    __shared__ float2 halves[2][POINTS];
    for (int i = threadIdx.x; i < POINTS; i += blockDim.x)
        halves[0][i] = in[blockIdx.x * POINTS + i];
    __syncthreads();
    int from = 0;
    for (int done = 1; done < POINTS; done *= 2, from ^= 1) {
        for (int i = threadIdx.x; i < POINTS / 2; i += blockDim.x) {
            const int within = i % done;
            const float2 a = halves[from][i], b = halves[from][i + POINTS / 2];
            float sine, cosine;
            sincospif(-(float)within / done, &sine, &cosine);
            const float real = b.x * cosine - b.y * sine, imaginary = b.x * sine + b.y * cosine;
            const int at = 2 * i - within;
            halves[from ^ 1][at] = make_float2(a.x + real, a.y + imaginary);
            halves[from ^ 1][at + done] = make_float2(a.x - real, a.y - imaginary);
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < POINTS; i += blockDim.x)
        out[blockIdx.x * POINTS + i] = halves[from][i];
}
