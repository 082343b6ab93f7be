// black_scholes.cu: the prices of European call and put options, by the formula of Black and Scholes.

__global__ void black_scholes(const float *price, const float *strike, const float *years, float *call, float *put,
                              float rate, float volatility, int options) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= options)
        return;
    const float spread = volatility * sqrtf(years[i]);
    const float d1 = (logf(price[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) / spread;
    const float later = strike[i] * expf(-rate * years[i]);
    const float worth = price[i] * normcdff(d1) - later * normcdff(d1 - spread);
    call[i] = worth;
    put[i] = worth + later - price[i];
}
