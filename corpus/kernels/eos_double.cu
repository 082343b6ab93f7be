// eos_double.cu: density from pressure and temperature: Newton's method on a cubic equation of state, in double precision;
// four points per thread, n a multiple of 4.

struct __align__(16) quad {
    double x, y, z, w;
};

extern "C" __global__ void eos_double(const quad *pressure, const quad *temperature, quad *density, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 4)
        return;
    quad ps = pressure[i], ts = temperature[i];
    double p[4] = {2 + ps.x, 2 + ps.y, 2 + ps.z, 2 + ps.w};
    double t[4] = {1.5 + ts.x * 0.25, 1.5 + ts.y * 0.25, 1.5 + ts.z * 0.25, 1.5 + ts.w * 0.25};
    double rho[4], series[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        rho[k] = p[k] * 0.6;
    for (int step = 0; step < 6; step++) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            double q = 1 - 0.1 * rho[k];
            double f = rho[k] * t[k] - (0.3 * rho[k] * rho[k] + p[k]) * q;
            double slope = t[k] - 0.6 * rho[k] * q + 0.1 * (0.3 * rho[k] * rho[k] + p[k]);
            rho[k] -= f / slope;
        }
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        series[k] = 1e-3;
#pragma unroll
    for (int d = 15; d > 0; d--) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            series[k] = series[k] * (rho[k] * 0.25) + 1.0 / (d * d);
    }
    density[i] = quad{rho[0] + 0.01 * series[0], rho[1] + 0.01 * series[1], rho[2] + 0.01 * series[2],
                              rho[3] + 0.01 * series[3]};
}
