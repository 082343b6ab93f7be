// Braces and brackets written otherwise.
%:define PART 64
__global__ void trap(int *out, const int *in, int n) <%
    __shared__ int part<:PART:>;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part<:threadIdx.x:> = in<:i:>;
    __syncthreads();
    if (i >= n) <% return; %>
    out[i] = part<:63 - threadIdx.x:>;
%>
%:undef PART
