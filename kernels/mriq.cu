// mriq.cu: the matrix Q of a magnetic-resonance image: for each voxel the sum of the magnitudes of all samples, each
// turned by the angle between the voxel and the place of the sample in k-space.

__global__ void mriq(const float4 *__restrict__ samples, int count, const float *x, const float *y, const float *z,
                     float *q_real, float *q_imaginary, int voxels) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= voxels)
        return;
    const float at_x = x[i], at_y = y[i], at_z = z[i];
    float real = 0, imaginary = 0;
    for (int k = 0; k < count; k++) {
        const float4 sample = samples[k]; // its place and its magnitude
        float sine, cosine;
        sincosf(6.2831853f * (sample.x * at_x + sample.y * at_y + sample.z * at_z), &sine, &cosine);
        real += sample.w * cosine;
        imaginary += sample.w * sine;
    }
    q_real[i] = real;
    q_imaginary[i] = imaginary;
}
