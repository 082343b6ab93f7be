// mandelbrot.cu: iterations until |z| > 2 for each pixel. Blocks differ much in how long they take.

extern "C" __global__ void mandelbrot(int *counts, int width, int height, float left, float top, float step, int most) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    float cr = left + x * step, ci = top + y * step;
    float zr = 0, zi = 0;
    int i = 0;
    for (; i < most; i++) {
        float rr = zr * zr, ii = zi * zi;
        if (rr + ii > 4)
            break;
        zi = 2 * zr * zi + ci;
        zr = rr - ii + cr;
    }
    counts[(size_t)y * width + x] = i;
}
