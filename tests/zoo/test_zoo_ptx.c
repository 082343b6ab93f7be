/*
 * test_zoo_ptx.c: the PTX of the zoo's kernels computes on the CPU what the references in plain C compute.
 *
 * The PTX is what nvcc made of kernels/NAME.cu: kernels/ptx/NAME.ptx.gz. Each kernel is one module.
 *
 * GRIDSMITH_ON=cuda compares the CPU with a GPU: where a kernel gives the same in any order on the CPU, its results
 * must be the same byte for byte, unless it has approximate or matrix instructions.
 */
#include "test.h"

#include "kernels/zoo/zoo.h"
#include "ptx_exact.h"
#include "ptx_unfused.h"
#include "ulps.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KERNELS = 22 };

static struct {
    gs_executor *executor;
    gs_zoo_part parts[KERNELS];
    char *texts[KERNELS];
} all;

static void die(const char *name, const gs_error *error) {
    char words[1200];
    fail_msg("%s: %s", name, gs_error_text(error, words, sizeof words));
}

/* The name after `.entry`: there is one in each file. */
static void read_entry(const char *text, char *name, size_t size) {
    const char *at = strstr(text, ".entry ");
    assert_non_null(at);
    at += strlen(".entry ");
    snprintf(name, size, "%.*s", (int)strcspn(at, "( \n"), at);
}

/* The file of a kernel: the one whose source its first launch uses. */
static char *path_of(const gs_zoo_kernel *kernel, char *path, size_t size) {
    snprintf(path, size, "kernels/ptx/%s.ptx.gz", kernel->name);
    return path;
}

static void compile(size_t number) {
    char path[100];
    const char *name;
    size_t size;
    gs_error error;
    gs_zoo_part *part = &all.parts[number];
    path_of(gs_zoo_at(number), path, sizeof path);
    assert_int_equal(gs_input_all(test_path(path), 1 << 22, &all.texts[number], &size, &error), GS_OK);
    read_entry(all.texts[number], part->name, sizeof part->name);
    name = part->name;
    gs_build build = {.name = path, .text = all.texts[number], .size = size, .kernels = &name, .kernel_count = 1};
    part->program = all.executor->ops->compile(all.executor, &build, &error);
    if (!part->program)
        die(path, &error);
    for (int i = 0; i < 3; i++)
        part->divide_block[i] = part->multiply_grid[i] = 1;
    part->divide_shared = 1;
}

static bool has_ptx(void) {
    char path[100];
    return access(test_path(path_of(gs_zoo_at(0), path, sizeof path)), R_OK) == 0;
}

static int set_up(void **state) {
    gs_error error;
    (void)state;
    all.executor = gs_executor_host(&error);
    assert_non_null(all.executor);
    for (size_t i = 0; i < KERNELS && has_ptx(); i++)
        compile(i);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (size_t i = 0; i < KERNELS; i++)
        free(all.texts[i]);
    gs_executor_close(all.executor);
    return 0;
}

static void play(size_t number, const char *size, gs_zoo_form form) {
    const gs_zoo_kernel *kernel = gs_zoo_at(number);
    gs_zoo_instance instance;
    gs_zoo_part parts[GS_ZOO_KINDS];
    gs_zoo_result result;
    gs_error error;
    form.seconds = 120;
    if (gs_zoo_instance_make(&instance, kernel, gs_zoo_size_find(kernel, size), &error) != GS_OK)
        die(kernel->name, &error);
    for (size_t kind = 0; kind < instance.kind_count; kind++)
        for (size_t i = 0; i < KERNELS; i++)
            if (strcmp(gs_zoo_at(i)->name, instance.kinds[kind].source) == 0)
                parts[kind] = all.parts[i];
    if (gs_zoo_play(&instance, parts, all.executor, &form, &result, &error) != GS_OK)
        die(kernel->name, &error);
    if (!result.is_right)
        fail_msg("%s, %s: %s", kernel->name, size, result.reason.message);
    if (test_number("GRIDSMITH_TIMES", 0))
        print_message("%-14s %-6s %8.1f ms\n", kernel->name, size, (double)result.elapsed_ns / 1e6);
    gs_zoo_instance_free(&instance);
}

TEST(every_kernel_is_right) {
    static const char *const sizes[] = {"tiny", "odd", "small"};
    if (!has_ptx() || getenv("GRIDSMITH_ON")) {
        print_message("skipped: kernels/ptx is not there, or a GPU is compared\n");
        skip();
    }
    for (size_t i = 0; i < KERNELS; i++)
        for (size_t k = 0; k < GS_COUNT(sizes); k++)
            play(i, sizes[k], (gs_zoo_form){.form = GS_FORM_ORIGINAL});
}

TEST(no_kernel_depends_on_the_order) {
    if (!has_ptx() || getenv("GRIDSMITH_ON"))
        skip();
    for (size_t i = 0; i < KERNELS; i++) {
        play(i, "odd", (gs_zoo_form){.form = GS_FORM_ORIGINAL, .backwards = true});
        for (uint64_t seed = 1; seed <= 3; seed++)
            play(i, "odd", (gs_zoo_form){.form = GS_FORM_ORIGINAL, .shuffled = true, .seed = seed});
    }
}

/* ---- the CPU and a GPU ---- */

struct outcome {
    void *buffers[GS_ZOO_BUFFERS];
};

static size_t bytes_of(const gs_zoo_buffer *buffer) {
    return buffer->count * gs_scalar_bytes(buffer->type);
}

static size_t number_of(const char *source) {
    for (size_t i = 0; i < KERNELS; i++)
        if (strcmp(gs_zoo_at(i)->name, source) == 0)
            return i;
    fail_msg("there is no %s", source);
    return 0;
}

static void run_launch(const gs_zoo_instance *instance, const gs_zoo_launch *launch, gs_executor *executor,
                       void *const *programs, uint64_t order, struct outcome *outcome) {
    gs_work work = {.seconds = 60, .seed = order, .shuffled = order != 0};
    gs_error error;
    size_t number = number_of(instance->kinds[launch->kind].source);
    for (size_t i = 0; i < instance->buffer_count; i++)
        gs_work_buffer(&work, outcome->buffers[i], bytes_of(&instance->buffers[i]));
    gs_work_call(&work, all.parts[number].name, launch->grid, launch->block, launch->shared_bytes);
    for (uint32_t i = 0; i < launch->arguments; i++)
        if (launch->list[i].buffer >= 0)
            gs_work_pass_buffer(&work, launch->list[i].buffer);
        else
            gs_work_pass(&work, launch->list[i].value, launch->list[i].bytes);
    if (executor->ops->run(programs[number], &work, &error) != GS_OK)
        die(instance->kernel->name, &error);
    gs_work_free(&work);
}

static struct outcome run_all(const gs_zoo_instance *instance, gs_executor *executor, void *const *programs,
                              uint64_t order) {
    struct outcome outcome = {0};
    for (size_t i = 0; i < instance->buffer_count; i++) {
        size_t bytes = bytes_of(&instance->buffers[i]);
        assert_non_null(outcome.buffers[i] = malloc(bytes ? bytes : 1));
        memcpy(outcome.buffers[i], instance->buffers[i].data, bytes);
    }
    for (size_t i = 0; i < instance->launches.count; i++)
        run_launch(instance, &instance->launches.data[i], executor, programs, order, &outcome);
    return outcome;
}

static void free_outcome(struct outcome *outcome) {
    for (size_t i = 0; i < GS_ZOO_BUFFERS; i++)
        free(outcome->buffers[i]);
}

/* The largest distance of two numbers. */
static uint64_t distance(const gs_zoo_instance *instance, const struct outcome *a, const struct outcome *b) {
    static const int fraction_bits[GS_SCALARS] = {
        [GS_FLOAT32] = 23, [GS_FLOAT64] = 52, [GS_FLOAT16] = 10, [GS_BFLOAT16] = 7};
    uint64_t most = 0;
    for (size_t i = 0; i < instance->buffer_count; i++) {
        gs_scalar type = instance->buffers[i].type;
        uint32_t bytes = (uint32_t)gs_scalar_bytes(type);
        for (size_t k = 0; k < instance->buffers[i].count && !instance->buffers[i].is_scratch; k++) {
            uint64_t ulps = ulps_apart(bytes, fraction_bits[type], (const char *)a->buffers[i] + k * bytes,
                                       (const char *)b->buffers[i] + k * bytes);
            most = ulps > most ? ulps : most;
        }
    }
    return most;
}

/* Whether a kernel of the instance has a word in its text. */
static bool has_word(const gs_zoo_instance *instance, const char *word) {
    bool has_word = false;
    for (size_t i = 0; i < instance->launches.count; i++)
        has_word = has_word ||
                   strstr(all.texts[number_of(instance->kinds[instance->launches.data[i].kind].source)], word) != NULL;
    return has_word;
}

/* Kernels unchanged, or with exact instructions in place of approximate ones (ptx_exact.h), for the CPU and a GPU. */
struct programs {
    bool is_exact;
    void *here[KERNELS], *there[KERNELS];
};

/* False: it should be the same, and is not. Sums of products by matrix instructions have an order of their own. */
static bool compare_with_gpu(size_t number, const char *size, gs_executor *gpu, const struct programs *programs) {
    const gs_zoo_kernel *kernel = gs_zoo_at(number);
    gs_zoo_instance instance;
    gs_error error;
    if (gs_zoo_instance_make(&instance, kernel, gs_zoo_size_find(kernel, size), &error) != GS_OK)
        die(kernel->name, &error);
    struct outcome cpu = run_all(&instance, all.executor, programs->here, 0),
                   other = run_all(&instance, all.executor, programs->here, 5);
    struct outcome device = run_all(&instance, gpu, programs->there, 0);
    uint64_t orders = distance(&instance, &cpu, &other), ulps = distance(&instance, &cpu, &device);
    bool is_inexact = has_word(&instance, "mma.") || (!programs->is_exact && has_word(&instance, ".approx."));
    print_message("%-14s %-6s %s%s%s%s, %llu ulps\n", kernel->name, size, ulps ? "differs" : "same",
                  programs->is_exact ? " with exact instructions" : "", is_inexact ? ", inexact" : "",
                  orders ? ", depends on the order" : "", (unsigned long long)ulps);
    free_outcome(&cpu);
    free_outcome(&other);
    free_outcome(&device);
    gs_zoo_instance_free(&instance);
    return !ulps || orders || is_inexact;
}

/* The changed text of a kernel: `for_gpu` without fused products, `is_exact` without approximate instructions. */
static gs_text changed(const char *text, bool is_exact, bool for_gpu) {
    gs_ptx_module module, exact;
    gs_error error;
    if (gs_ptx_read(&module, "zoo.ptx", text, strlen(text), &error) != GS_OK)
        fail_msg("%s", error.message);
    gs_text result = {0};
    if (is_exact)
        result = ptx_exact(&module);
    else
        gs_text_put(&result, text, strlen(text));
    gs_ptx_free(&module);
    if (!for_gpu)
        return result;
    if (gs_ptx_read(&exact, "zoo.ptx", result.data, result.count, &error) != GS_OK)
        fail_msg("%s", error.message);
    gs_text unfused = ptx_unfused(&exact, GS_PTX_NONE);
    gs_ptx_free(&exact);
    gs_text_free(&result);
    return unfused;
}

static void *compile_changed(gs_executor *executor, size_t number, bool is_exact, bool for_gpu) {
    gs_error error;
    const char *name = all.parts[number].name;
    gs_text text = changed(all.texts[number], is_exact, for_gpu);
    gs_build build = {
        .name = gs_zoo_at(number)->name, .text = text.data, .size = text.count, .kernels = &name, .kernel_count = 1};
    void *program = executor->ops->compile(executor, &build, &error);
    if (!program)
        die(name, &error);
    gs_text_free(&text);
    return program;
}

static int compare_all(gs_executor *gpu, bool is_exact) {
    static const char *const sizes[] = {"tiny", "odd", "small"};
    struct programs programs = {.is_exact = is_exact};
    int wrong = 0;
    for (size_t i = 0; i < KERNELS; i++) {
        programs.here[i] = is_exact ? compile_changed(all.executor, i, true, false) : all.parts[i].program;
        programs.there[i] = compile_changed(gpu, i, is_exact, true);
    }
    for (size_t i = 0; i < KERNELS; i++)
        for (size_t k = 0; k < GS_COUNT(sizes); k++)
            if (!is_exact || strstr(all.texts[i], ".approx."))
                wrong += !compare_with_gpu(i, sizes[k], gpu, &programs);
    return wrong;
}

TEST(the_gpu_computes_the_same) {
    const char *on = getenv("GRIDSMITH_ON");
    gs_error error;
    if (!on || !has_ptx())
        skip();
    gs_executor *gpu = gs_executor_open(on, &error);
    if (!gpu)
        fail_msg("%s", error.message);
    int wrong = compare_all(gpu, false) + compare_all(gpu, true);
    gs_executor_close(gpu);
    assert_int_equal(wrong, 0);
}

TEST_MAIN(set_up, tear_down)
