/*
 * test_ptx_zoo.c: the PTX of the zoo's kernels computes on the CPU what the references in plain C compute.
 *
 * The PTX is what nvcc made of kernels/NAME.cu: kernels/ptx/NAME.ptx. Each kernel is one module.
 */
#include "test.h"

#include "zoo/zoo.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KERNELS = 21 };

static struct {
    gs_executor *executor;
    gs_zoo_part parts[KERNELS];
    char *texts[KERNELS];
} all;

static void die(const char *name, const gs_error *error) {
    char words[1200];
    fail_msg("%s: %s", name, gs_error_text(error, words, sizeof words));
}

/* The name behind `.entry`: there is one in each file. */
static void read_entry(const char *text, char *name, size_t size) {
    const char *at = strstr(text, ".entry ");
    assert_non_null(at);
    at += strlen(".entry ");
    snprintf(name, size, "%.*s", (int)strcspn(at, "( \n"), at);
}

/* The file of a kernel: the one whose source its first launch uses. */
static char *path_of(const gs_zoo_kernel *kernel, char *path, size_t size) {
    snprintf(path, size, "kernels/ptx/%s.ptx", kernel->name);
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

static void every_kernel_is_right(void **state) {
    static const char *const sizes[] = {"tiny", "odd", "small"};
    (void)state;
    if (!has_ptx()) {
        print_message("skipped: kernels/ptx is not there\n");
        skip();
    }
    for (size_t i = 0; i < KERNELS; i++)
        for (size_t k = 0; k < GS_COUNT(sizes); k++)
            play(i, sizes[k], (gs_zoo_form){.form = GS_FORM_ORIGINAL});
}

static void no_kernel_depends_on_the_order(void **state) {
    (void)state;
    if (!has_ptx())
        skip();
    for (size_t i = 0; i < KERNELS; i++) {
        play(i, "odd", (gs_zoo_form){.form = GS_FORM_ORIGINAL, .backwards = true});
        for (uint64_t seed = 1; seed <= 3; seed++)
            play(i, "odd", (gs_zoo_form){.form = GS_FORM_ORIGINAL, .shuffled = true, .seed = seed});
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_is_right),
        cmocka_unit_test(no_kernel_depends_on_the_order),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
