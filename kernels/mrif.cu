// mrif.cu: the vector F^H d of a magnetic-resonance image: for each voxel the sum of all samples, each turned by the
// angle between the voxel and the place of the sample in k-space.

__global__ void mrif(const float4 *__restrict__ samples, const float *__restrict__ imaginary, int count,
                     const float *x, const float *y, const float *z, float *sum_real, float *sum_imaginary, int voxels) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= voxels)
        return;
    const float at_x = x[i], at_y = y[i], at_z = z[i];
    float real = 0, imag = 0;
    for (int k = 0; k < count; k++) {
        const float4 sample = samples[k]; // its place, and the real part of its value
        float sine, cosine;
        sincosf(6.2831853f * (sample.x * at_x + sample.y * at_y + sample.z * at_z), &sine, &cosine);
        real += sample.w * cosine - imaginary[k] * sine;
        imag += imaginary[k] * cosine + sample.w * sine;
    }
    sum_real[i] = real;
    sum_imaginary[i] = imag;
}
