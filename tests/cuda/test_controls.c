/*
 * test_controls.c: kernels are launched, moved, stopped and continued with the calls of the driver that this needs, and
 * no other; and a grid that is continued runs each of its blocks once.
 */
#include "test.h"

#include "kernels/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

/* ---- a driver that writes its calls down ---- */

enum { MEMORY = 0x10000, MEMORY_BYTES = 4096, STATIC_SHARED = 8 << 10, MOST_SHARED = 200 << 10 };

static struct {
    char calls[1000];
    unsigned char memory[MEMORY_BYTES]; /* of the GPU, from MEMORY on */
    int busy;                           /* queries until a stream is done */
} driver;

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...) {
    size_t used = strlen(driver.calls);
    va_list list;
    va_start(list, format);
    vsnprintf(driver.calls + used, sizeof driver.calls - used, format, list);
    va_end(list);
}

/* The calls since the last time. */
static const char *calls(void) {
    static char last[sizeof driver.calls];
    memcpy(last, driver.calls, sizeof last);
    driver.calls[0] = '\0';
    return last;
}

static int copy_in_later(cu_pointer to, const void *from, size_t bytes, cu_stream stream) {
    note("in+%d:%zu;", (int)(to - MEMORY), bytes);
    memcpy(driver.memory + (to - MEMORY), from, bytes);
    return stream == NULL;
}

static int copy_out_later(void *to, cu_pointer from, size_t bytes, cu_stream stream) {
    note("out+%d:%zu;", (int)(from - MEMORY), bytes);
    memcpy(to, driver.memory + (from - MEMORY), bytes);
    return stream == NULL;
}

static int write_word(cu_stream stream, cu_pointer to, unsigned value, unsigned flags) {
    note("word+%d=%u;", (int)(to - MEMORY), value);
    memcpy(driver.memory + (to - MEMORY), &value, sizeof value);
    return stream == NULL || flags;
}

static int module_function(cu_function *function, cu_module module, const char *name) {
    *function = (cu_function)(uintptr_t)name;
    return module != NULL;
}

static int function_get(int *value, int number, cu_function function) {
    *value = number == CU_FUNCTION_REGISTERS ? 40 : number == CU_FUNCTION_LOCAL_BYTES ? 16 : STATIC_SHARED;
    return !function;
}

static int function_set(cu_function function, int number, int value) {
    note("set%d=%d;", number, value);
    return !function || (number == CU_FUNCTION_MAX_SHARED && value > MOST_SHARED);
}

static int occupancy(int *blocks, cu_function function, int threads, size_t shared_bytes) {
    note("fit:%d,%zu;", threads, shared_bytes);
    *blocks = 2048 / threads;
    return !function;
}

static int note_launch(const cu_launch *call, cu_function function, void **arguments, void **extra) {
    note("%s(%u,%u,%u)(%u,%u,%u)+%u", (const char *)(uintptr_t)function, call->grid_x, call->grid_y, call->grid_z,
         call->block_x, call->block_y, call->block_z, call->shared_bytes);
    for (unsigned i = 0; i < call->attribute_count; i++)
        note(",%d=%d", call->attributes[i].id, call->attributes[i].value.flag);
    note(";");
    return extra || !arguments;
}

static int stream_query(cu_stream stream) {
    return !stream ? 1 : driver.busy-- > 0 ? CU_ERROR_NOT_READY : 0;
}

static const cu_api api = {.copy_in_later = copy_in_later,
                           .copy_out_later = copy_out_later,
                           .write_word = write_word,
                           .module_function = module_function,
                           .function_get = function_get,
                           .function_set = function_set,
                           .occupancy = occupancy,
                           .launch = note_launch,
                           .stream_query = stream_query};

static cu_stream a_stream(void) {
    return (cu_stream)(void *)&driver;
}

static int forget_calls(void **state) {
    (void)state;
    memset(&driver, 0, sizeof driver);
    return 0;
}

/* ---- kernels ---- */

TEST_WITH(a_launch_that_needs_nothing_is_one_call, forget_calls, NULL) {
    cu_kernel kernel;
    void *arguments[] = {&kernel};
    assert_int_equal(gs_cuda_kernel_find(&api, NULL, "scale", &kernel), 0);
    assert_int_equal(kernel.registers, 40);
    assert_int_equal(kernel.local_bytes, 16);
    assert_int_equal(kernel.shared_bytes, STATIC_SHARED);
    const cu_call call = {.grid = {7, 2, 1}, .block = {64, 1, 2}, .shared_bytes = 1000, .stream = a_stream()};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gs_cuda_launch(&api, &kernel, &call, arguments), 0);
        assert_string_equal(calls(), "scale(7,2,1)(64,1,2)+1000;");
    }
}

/* A block has 48 KB without asking, of which the kernel itself uses 8 KB here. */
TEST_WITH(shared_memory_is_asked_for_once_and_counts_that_of_the_kernel, forget_calls, NULL) {
    cu_kernel kernel;
    void *arguments[] = {&kernel};
    cu_call call = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .shared_bytes = 40 << 10, .stream = a_stream()};
    assert_int_equal(gs_cuda_kernel_find(&api, NULL, "k", &kernel), 0);
    assert_int_equal(gs_cuda_launch(&api, &kernel, &call, arguments), 0);
    assert_string_equal(calls(), "k(1,1,1)(32,1,1)+40960;");
    call.shared_bytes++;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gs_cuda_launch(&api, &kernel, &call, arguments), 0);
        assert_string_equal(calls(), i ? "k(1,1,1)(32,1,1)+40961;" : "set8=40961;k(1,1,1)(32,1,1)+40961;");
    }
    call.shared_bytes = MOST_SHARED + 1;
    assert_int_not_equal(gs_cuda_launch(&api, &kernel, &call, arguments), 0);
    assert_string_equal(calls(), "set8=204801;");
    call.shared_bytes = 40961;
    assert_int_equal(gs_cuda_launch(&api, &kernel, &call, arguments), 0);
    assert_string_equal(calls(), "k(1,1,1)(32,1,1)+40961;");
}

TEST_WITH(attributes_are_those_of_the_launch, forget_calls, NULL) {
    cu_kernel kernel;
    void *arguments[] = {&kernel};
    cu_call call = {.grid = {32, 1, 1},
                    .block = {32, 1, 1},
                    .stream = a_stream(),
                    .has_priority = true,
                    .cluster = 8,
                    .is_programmatic = true,
                    .is_cooperative = true};
    assert_int_equal(gs_cuda_kernel_find(&api, NULL, "k", &kernel), 0);
    assert_int_equal(gs_cuda_launch(&api, &kernel, &call, arguments), 0);
    assert_string_equal(calls(), "k(32,1,1)(32,1,1)+0,8=0,4=8,6=1,2=1;");
    call = (cu_call){.grid = {32, 1, 1}, .block = {32, 1, 1}, .stream = a_stream(), .cluster = 16};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gs_cuda_launch(&api, &kernel, &call, arguments), 0);
        assert_string_equal(calls(), i ? "k(32,1,1)(32,1,1)+0,4=16;" : "set14=1;k(32,1,1)(32,1,1)+0,4=16;");
    }
}

TEST_WITH(a_kernel_remembers_how_many_blocks_fit, forget_calls, NULL) {
    cu_kernel kernel, none = {.function = NULL};
    assert_int_equal(gs_cuda_kernel_find(&api, NULL, "k", &kernel), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gs_cuda_kernel_fit(&api, &kernel, 256, 50000), 8);
        assert_string_equal(calls(), i ? "" : "set8=50000;fit:256,50000;");
    }
    assert_int_equal(gs_cuda_kernel_fit(&api, &kernel, 512, 0), 4);
    assert_string_equal(calls(), "fit:512,0;");
    assert_int_equal(gs_cuda_kernel_fit(&api, &kernel, 512, MOST_SHARED + 1), 0);
    assert_int_equal(gs_cuda_kernel_fit(&api, &none, 32, 0), 0);
    assert_string_equal(calls(), "set8=204801;");
}

TEST_WITH(a_carveout_is_set_when_it_changes, forget_calls, NULL) {
    cu_kernel kernel;
    const int percents[] = {-1, -1, 50, 50, -1};
    assert_int_equal(gs_cuda_kernel_find(&api, NULL, "k", &kernel), 0);
    for (size_t i = 0; i < GS_COUNT(percents); i++)
        assert_int_equal(gs_cuda_kernel_carve(&api, &kernel, percents[i]), 0);
    assert_string_equal(calls(), "set9=-1;set9=50;set9=-1;");
}

TEST_WITH(waiting_ends_with_the_work_its_failure_or_the_deadline, forget_calls, NULL) {
    driver.busy = 3;
    assert_int_equal(gs_cuda_wait_until(&api, a_stream(), 0), 0);
    assert_int_equal(driver.busy, -1);
    assert_int_equal(gs_cuda_wait_until(&api, NULL, 0), 1);
    driver.busy = INT32_MAX;
    assert_int_equal(gs_cuda_wait_until(&api, a_stream(), gs_now_ns() + 1000000), CU_ERROR_NOT_READY);
}

/* ---- controls ---- */

TEST_WITH(a_control_on_the_gpu_is_changed_by_copies, forget_calls, NULL) {
    static gs_control_words words;
    const gs_control_words *on_gpu = (const gs_control_words *)(const void *)driver.memory;
    const uint32_t mask[GS_JOB_SMS / 32] = {[0] = 5, [31] = 7}, other[GS_JOB_SMS / 32] = {[1] = 9};
    const uint64_t taken = 23;
    gs_control control = gs_control_at(MEMORY, &words, false);
    assert_int_equal(gs_control_clear(&control, &api, a_stream()), 0);
    assert_string_equal(calls(), "in+0:512;");
    assert_int_equal(gs_control_begin(&control, 17, mask, &api, a_stream()), 0);
    assert_string_equal(calls(), "in+0:384;");
    assert_int_equal(on_gpu->next, 17);
    assert_memory_equal(on_gpu->mask, mask, sizeof mask);
    assert_int_equal(gs_control_confine(&control, other, &api, a_stream()), 0);
    assert_string_equal(calls(), "in+128:128;");
    assert_memory_equal(on_gpu->mask, other, sizeof other);
    assert_int_equal(gs_control_stop(&control, &api, a_stream()), 0);
    assert_string_equal(calls(), "word+256=1;");
    memcpy(driver.memory, &taken, sizeof taken);
    assert_int_equal(gs_control_next(&control), 17);
    assert_int_equal(gs_control_fetch(&control, &api, a_stream()), 0);
    assert_string_equal(calls(), "out+0:8;");
    assert_int_equal(gs_control_next(&control), 23);
    assert_int_equal(gs_control_begin(&control, 23, mask, &api, a_stream()), 0);
    assert_int_equal(on_gpu->stop, 0);
    control.stop = 0;
    calls();
    assert_int_equal(gs_control_begin(&control, 23, mask, &api, a_stream()), 0);
    assert_string_equal(calls(), "in+0:256;");
}

TEST_WITH(a_mapped_control_needs_no_driver, forget_calls, NULL) {
    static gs_control_words words;
    const uint32_t mask[GS_JOB_SMS / 32] = {[3] = 1}, none[GS_JOB_SMS / 32] = {0};
    gs_control control = gs_control_at((uint64_t)(uintptr_t)&words, &words, true);
    words.stop = 1;
    assert_int_equal(gs_control_begin(&control, 5, mask, NULL, NULL), 0);
    assert_int_equal(words.stop, 0);
    assert_int_equal(*(const uint64_t *)(uintptr_t)control.next, 5);
    assert_memory_equal((const void *)(uintptr_t)control.mask, mask, sizeof mask);
    assert_int_equal(gs_control_stop(&control, NULL, NULL), 0);
    assert_int_equal(*(const uint32_t *)(uintptr_t)control.stop, 1);
    assert_int_equal(gs_control_confine(&control, none, NULL, NULL), 0);
    assert_memory_equal(words.mask, none, sizeof none);
    words.next = 9;
    assert_int_equal(gs_control_fetch(&control, NULL, NULL), 0);
    assert_int_equal(gs_control_next(&control), 9);
    assert_int_equal(gs_control_clear(&control, NULL, NULL), 0);
    assert_int_equal(words.next + words.stop, 0);
}

/* ---- grids ---- */

enum { MOST_BLOCKS = 60 };

/* Plays one launch of a confined kernel by what gridsmith_job.h says, until a random moment. */
static void play_launch(const gs_confined_parameter *grid, uint32_t workers, gs_random *random, uint32_t *counts) {
    uint64_t *next = (uint64_t *)(uintptr_t)grid->next, blocks = (uint64_t)grid->grid_x * grid->grid_y * grid->grid_z;
    for (uint32_t i = 0; i < workers && i < grid->given && i < blocks; i++)
        counts[i]++;
    for (int64_t tasks = gs_random_from(random, 0, 9); tasks > 0 && grid->first + *next < blocks; tasks--) {
        uint64_t from = grid->first + *next;
        *next += grid->task_blocks;
        for (uint64_t i = from; i < from + grid->task_blocks && i < blocks; i++)
            counts[i]++;
    }
}

TEST_WITH(a_grid_that_is_continued_runs_each_block_once, forget_calls, NULL) {
    static gs_control_words words;
    const uint32_t mask[GS_JOB_SMS / 32] = {1};
    gs_control control = gs_control_at((uint64_t)(uintptr_t)&words, &words, true);
    uint64_t runs = test_number("GRIDSMITH_RUNS", 100000) / 20;
    for (uint64_t run = 0; run < runs; run++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), run);
        uint32_t counts[MOST_BLOCKS] = {0}, workers = (uint32_t)gs_random_from(&random, 1, 8);
        const uint32_t shape[3] = {(uint32_t)gs_random_from(&random, 1, 5), (uint32_t)gs_random_from(&random, 1, 4),
                                   (uint32_t)gs_random_from(&random, 1, 3)};
        uint64_t blocks = (uint64_t)shape[0] * shape[1] * shape[2], next = 0;
        gs_confined_parameter grid = gs_control_grid(&control, shape, 0, (uint32_t)gs_random_from(&random, 1, 4), 0);
        gs_grid_give(&grid, (uint32_t)gs_random_from(&random, 0, gs_min(workers, (int64_t)blocks)));
        for (int launches = 0; !gs_grid_is_finished(&grid, next); launches++) {
            assert_true(launches < 1000);
            gs_control_begin(&control, next, mask, NULL, NULL);
            play_launch(&grid, workers, &random, counts);
            gs_grid_continue(&grid);
            next = gs_control_next(&control);
            uint64_t ran = 0;
            for (uint64_t i = 0; i < blocks; i++)
                ran += counts[i];
            assert_int_equal(gs_grid_taken(&grid, next), ran);
        }
        for (uint64_t i = 0; i < blocks; i++)
            assert_int_equal(counts[i], 1);
    }
}

TEST_WITH(the_last_argument_names_the_words_that_a_control_has, forget_calls, NULL) {
    const uint32_t shape[3] = {4, 3, 2};
    gs_control control = gs_control_at(MEMORY, NULL, false), counter = {.next = 77};
    gs_confined_parameter grid = gs_control_grid(&control, shape, 500, 6, 99);
    gs_confined_parameter expected = {4, 3, 2, 0, 99, MEMORY, MEMORY + 256, MEMORY + 128, 6, 0, 500, 0};
    assert_memory_equal(&grid, &expected, sizeof grid);
    gs_persistent_parameter persistent = gs_control_persistent(&control, shape, 700, 6, 99);
    gs_persistent_parameter also = {4, 3, 2, 6, 99, MEMORY + 384, 700, 0};
    assert_memory_equal(&persistent, &also, sizeof persistent);
    grid = gs_control_grid(&counter, shape, 0, 1, 0);
    gs_grid_give(&grid, 24);
    expected = (gs_confined_parameter){4, 3, 2, 24, 0, 77, 0, 0, 1, 24, 0, 0};
    assert_memory_equal(&grid, &expected, sizeof grid);
    assert_false(gs_grid_is_finished(&grid, 0));
    gs_grid_continue(&grid);
    assert_true(gs_grid_is_finished(&grid, 0));
}

TEST_MAIN(NULL, NULL)
