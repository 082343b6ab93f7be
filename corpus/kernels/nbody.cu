// nbody.cu: accelerations of n bodies (x, y, z, mass), tiles of 128 bodies in shared memory; n a multiple of 128.

extern "C" __global__ void nbody(const float4 *bodies, float4 *acceleration, int n) {
    __shared__ float4 tile[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    float4 me = bodies[i];
    float ax = 0, ay = 0, az = 0;
    for (int first = 0; first < n; first += 128) {
        tile[threadIdx.x] = bodies[first + threadIdx.x];
        __syncthreads();
#pragma unroll 16
        for (int j = 0; j < 128; j++) {
            float4 other = tile[j];
            float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float f = other.w * inverse * inverse * inverse;
            ax += dx * f;
            ay += dy * f;
            az += dz * f;
        }
        __syncthreads();
    }
    acceleration[i] = make_float4(ax, ay, az, 0);
}
