// Numbers that look like strings, names or operators.
__global__ void trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int big = 1'000'000, hex = 0xF, octal = 017;
    const double real = 1e+3, point = .5e-1, hexreal = 0x1p+4;
    out[i] = in[i] % 10 + big % 7 + hex + octal + (int)real + (int)(point * 100) + (int)hexreal + (1 ? 2 : 3);
}
