/*
 * parts.c: streams that use a part of the SMs, for bench/pairs. They keep a library that cannot be reshaped on some
 * SMs.
 *
 * A part is a green context (CUDA 12.4) with one stream. Kernels and memory of the ordinary context can be used on it.
 * The driver rounds the number of SMs. Parts live until the program ends.
 */
#include "pairs.h"

#include <stdio.h>

bool parts_make(const pair_card *card, int sms, cu_stream *first, cu_stream *others) {
    gs_error error = {.code = GS_OK};
    if (gs_cuda_green_two(&card->api, card->device, sms, first, others, &error) == GS_OK)
        return true;
    fprintf(stderr, "pairs: %s\n", error.message);
    return false;
}
