// dct8x8.cu: 8 x 8 discrete cosine transform and quantization; a thread has a whole 8 x 8 block of pixels in registers.
// gridDim.x * 64 * 8 is the width of the image, gridDim.y * 8 its height.

__device__ __forceinline__ void dct8(float &a, float &b, float &c, float &d, float &e, float &f, float &g, float &h) {
    float s0 = a + h, s1 = b + g, s2 = c + f, s3 = d + e;
    float d0 = a - h, d1 = b - g, d2 = c - f, d3 = d - e;
    float p0 = s0 + s3, p1 = s1 + s2, m0 = s0 - s3, m1 = s1 - s2;
    a = 0.35355339f * (p0 + p1);
    e = 0.35355339f * (p0 - p1);
    c = 0.46193977f * m0 + 0.19134172f * m1;
    g = 0.19134172f * m0 - 0.46193977f * m1;
    b = 0.49039264f * d0 + 0.41573481f * d1 + 0.27778512f * d2 + 0.09754516f * d3;
    d = 0.41573481f * d0 - 0.09754516f * d1 - 0.49039264f * d2 - 0.27778512f * d3;
    f = 0.27778512f * d0 - 0.49039264f * d1 + 0.09754516f * d2 + 0.41573481f * d3;
    h = 0.09754516f * d0 - 0.27778512f * d1 + 0.41573481f * d2 - 0.49039264f * d3;
}

extern "C" __global__ void dct8x8(const float4 *image, float4 *out, float quantum) {
    int pitch = gridDim.x * 64 * 2;
    size_t at = (size_t)blockIdx.y * 8 * pitch + (blockIdx.x * 64 + threadIdx.x) * 2;
    float v[8][8];
#pragma unroll
    for (int y = 0; y < 8; y++) {
        float4 l = image[at + y * pitch], r = image[at + y * pitch + 1];
        v[y][0] = l.x, v[y][1] = l.y, v[y][2] = l.z, v[y][3] = l.w;
        v[y][4] = r.x, v[y][5] = r.y, v[y][6] = r.z, v[y][7] = r.w;
    }
#pragma unroll
    for (int y = 0; y < 8; y++)
        dct8(v[y][0], v[y][1], v[y][2], v[y][3], v[y][4], v[y][5], v[y][6], v[y][7]);
#pragma unroll
    for (int x = 0; x < 8; x++)
        dct8(v[0][x], v[1][x], v[2][x], v[3][x], v[4][x], v[5][x], v[6][x], v[7][x]);
#pragma unroll
    for (int y = 0; y < 8; y++) {
#pragma unroll
        for (int x = 0; x < 8; x++)
            v[y][x] = rintf(v[y][x] * quantum);
        out[at + y * pitch] = make_float4(v[y][0], v[y][1], v[y][2], v[y][3]);
        out[at + y * pitch + 1] = make_float4(v[y][4], v[y][5], v[y][6], v[y][7]);
    }
}
