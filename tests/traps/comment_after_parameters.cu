// Comments between the parameters and the body.
__global__ void trap(int *out, const int *in,
                     int n // how many
) // the body
{ // begins
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i]; // and ends
    // here
}
