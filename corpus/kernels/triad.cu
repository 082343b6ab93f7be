// triad.cu: a[i] = b[i] + s * c[i] (STREAM), doubles, one element per thread.

extern "C" __global__ void triad(double *a, const double *b, const double *c, double s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] = b[i] + s * c[i];
}
