// refuse: 2:1: the comment that begins here does not end
/* __global__ void trap(int *out) {
}
