/*
 * fuzz_gpu.c: any bytes as a description of a GPU, or as latencies. What is accepted is written and read again, and
 * blocks are placed on it until it is full and freed until it is empty.
 */
#include "fuzz.h"

#include "model/engine/engine.h"

#include <string.h>

static gs_gpu *read_one(const char *bytes, size_t count) {
    gs_error error;
    gs_input *input = gs_input_memory("fuzz", bytes, count, NULL);
    gs_gpu *gpu = gs_gpu_read(input, &error);
    gs_input_close(input);
    return gpu;
}

static void write_and_read(const gs_gpu *gpu) {
    gs_text once = {0}, twice = {0};
    gs_gpu_text(gpu, &once);
    gs_gpu *again = read_one(once.data, once.count);
    require(again != NULL);
    gs_gpu_text(again, &twice);
    require(strcmp(once.data, twice.data) == 0);
    gs_gpu_free(again);
    gs_text_free(&once);
    gs_text_free(&twice);
}

static void fill_and_empty(const gs_gpu *gpu) {
    static const gs_shape shapes[] = {
        {32, 16, 0, 0, GS_NO_CARVEOUT}, {96, 40, 1000, 0, GS_NO_CARVEOUT}, {128, 64, 3000, 8, 50}, {1, 255, 0, 0, 0}};
    enum { MOST = 3000 };
    gs_dispatcher *dispatcher = gs_dispatcher_new(gpu, NULL);
    int blocks[MOST], count = 0;
    for (size_t i = 0; i < GS_COUNT(shapes); i++) {
        int kernel = gs_dispatcher_kernel(dispatcher, &shapes[i], NULL), sm;
        while (count < MOST && (sm = gs_dispatcher_next(dispatcher, kernel)) != GS_WAIT)
            require((blocks[count++] = gs_dispatcher_place(dispatcher, kernel, sm)) >= 0);
        for (int j = count / 2; j < count; j++)
            gs_dispatcher_release(dispatcher, blocks[j]);
        count /= 2;
    }
    while (count)
        gs_dispatcher_release(dispatcher, blocks[--count]);
    require(gs_dispatcher_resident_all(dispatcher) == 0);
    gs_dispatcher_free(dispatcher);
}

static gs_machine *read_machine(const char *bytes, size_t count) {
    gs_error error;
    gs_input *input = gs_input_memory("fuzz", bytes, count, NULL);
    gs_machine *machine = gs_machine_input(input, &error);
    gs_input_close(input);
    return machine;
}

static void try_machine(const char *bytes, size_t count) {
    gs_machine *machine = read_machine(bytes, count);
    gs_text text = {0};
    if (!machine)
        return;
    gs_machine_text(machine, &text);
    gs_machine *again = read_machine(text.data, text.count);
    require(again != NULL && again->classes.count == machine->classes.count);
    gs_machine_free(again);
    gs_machine_free(machine);
    gs_text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    try_machine((const char *)bytes, count);
    gs_gpu *gpu = read_one((const char *)bytes, count);
    if (!gpu)
        return 0;
    write_and_read(gpu);
    if (gpu->sms <= 200)
        fill_and_empty(gpu);
    gs_gpu_free(gpu);
    return 0;
}
