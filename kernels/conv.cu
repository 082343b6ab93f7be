// conv.cu: the first half of a convolution: im2col writes, for each weight of a filter, a row with the pixels that it
// is multiplied with. The product of the filters with that matrix, which tgemm.cu computes, is the convolution.

#include <cuda_fp16.h>

__global__ void im2col(const half *image, half *matrix, int channels, int height, int width, int side) {
    const int place = blockIdx.x * blockDim.x + threadIdx.x, weight = blockIdx.y;
    if (place >= height * width)
        return;
    const int channel = weight / (side * side), dy = weight / side % side - side / 2, dx = weight % side - side / 2;
    const int y = place / width + dy, x = place % width + dx;
    const bool is_inside = y >= 0 && x >= 0 && y < height && x < width;
    matrix[(size_t)weight * height * width + place] =
        is_inside ? image[(channel * height + y) * width + x] : half(0.0f);
}
