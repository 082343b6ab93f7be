/*
 * ptx_speed.c: the speed of reading and reshaping PTX, and the memory that this takes.
 *
 *   kernels   a module of 10,000 lines with many kernels: all of them in both forms
 *   kernel    the same with a single kernel: branches, loops, barriers, shuffles, 20,000 registers
 *   memory    a module of 1 MB, of either kind, in a process of its own
 *
 * Times are those of the CPU, the best of several rounds.
 */
#include "kernels/forms/forms.h"
#include "random_ptx.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const gs_error *error) {
    fprintf(stderr, "bench_ptx: %ld: %s\n", error->line, error->message);
    exit(4);
}

static size_t lines_of(const gs_text *text) {
    size_t lines = 0;
    for (size_t i = 0; i < text->count; i++)
        lines += text->data[i] == '\n';
    return lines;
}

/* ---- modules ---- */

typedef bool is_enough(const gs_text *text);

static bool has_10000_lines(const gs_text *text) {
    return lines_of(text) >= 10000;
}

static bool has_1_mb(const gs_text *text) {
    return text->count >= 1000000;
}

static void put_kernels(gs_text *text, is_enough *enough) {
    gs_text_add(text, "%s", random_ptx_head);
    for (uint64_t i = 0; !enough(text); i++) {
        gs_random random = gs_random_at(1, i);
        char name[40];
        random_ptx_kernel kernel = {.name = name, .grid = {8, 1, 1}, .block = {128, 1, 1}};
        snprintf(name, sizeof name, "k%llu", (unsigned long long)i);
        random_ptx_put(text, &kernel, &random);
    }
}

/* A part of the body: a load, arithmetic, a branch that depends on data, a loop, a shuffle, a barrier. */
static void put_part(gs_text *text, int i) {
    gs_text_add(text, "    ld.global.u32 %%r%d, [%%rd1+%d];\n    add.s32 %%r%d, %%r%d, %%r%d;\n", 10 + 2 * i, 4 * i,
                11 + 2 * i, 10 + 2 * i, 9 + 2 * i);
    gs_text_add(text, "    setp.gt.s32 %%p%d, %%r%d, 100;\n    @%%p%d bra $over%d;\n    xor.b32 %%r%d, %%r%d, %%r2;\n",
                i + 1, 10 + 2 * i, i + 1, i, 11 + 2 * i, 10 + 2 * i);
    gs_text_add(text, "$over%d:\n    st.global.u32 [%%rd1+%d], %%r%d;\n", i, 4 * i, 11 + 2 * i);
    if (i % 5 == 0)
        gs_text_add(text, "    shfl.sync.bfly.b32 %%r%d, %%r%d, 1, 31, -1;\n    bar.sync 0;\n", 11 + 2 * i, 11 + 2 * i);
    if (i % 7 == 0)
        gs_text_add(
            text,
            "$loop%d:\n    add.s32 %%r%d, %%r%d, -1;\n    setp.gt.s32 %%p%d, %%r%d, 0;\n    @%%p%d bra $loop%d;\n", i,
            10 + 2 * i, 10 + 2 * i, i + 1, 10 + 2 * i, i + 1, i);
}

static void put_kernel(gs_text *text, is_enough *enough) {
    gs_text_add(text,
                ".version 8.0\n.target sm_90\n.address_size 64\n\n.visible .entry long(.param .u64 out) {\n"
                "    .reg .pred %%p<40000>;\n    .reg .b32 %%r<80000>;\n    .reg .b64 %%rd<4>;\n"
                "    .shared .align 4 .b8 tile[1024];\n    ld.param.u64 %%rd1, [out];\n    mov.u32 %%r1, %%ctaid.x;\n"
                "    mov.u32 %%r2, %%tid.x;\n    add.s32 %%r9, %%r1, %%r2;\n");
    for (int i = 0; !enough(text); i++)
        put_part(text, i);
    gs_text_add(text, "    ret;\n}\n");
}

/* ---- measuring ---- */

/* The time of the CPU, on which other load of the machine has little effect. */
static int64_t cpu_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Reads the module and makes both forms of all its kernels. Returns how many forms were made. */
static size_t reshape_all(const gs_text *text) {
    gs_ptx_module module;
    gs_error error;
    gs_text forms = {0};
    size_t made = 0;
    if (gs_ptx_read(&module, "bench.ptx", text->data, text->count, &error) != GS_OK)
        fail(&error);
    for (size_t i = 0; i < module.functions.count; i++)
        for (int form = GS_FORM_PERSISTENT; form <= GS_FORM_CONFINED; form++) {
            gs_ptx_options options = {.form = (enum gs_form)form};
            gs_code code = gs_ptx_reshape(&module, (uint32_t)i, &options, &forms, NULL, &error);
            if (code != GS_OK && code != GS_E_REFUSED)
                fail(&error);
            made += code == GS_OK;
        }
    gs_ptx_free(&module);
    gs_text_free(&forms);
    return made;
}

static void measure_speed(const char *what, void (*put)(gs_text *, is_enough *)) {
    enum { ROUNDS = 20 };
    gs_text text = {0};
    int64_t best = INT64_MAX;
    size_t made = 0;
    put(&text, has_10000_lines);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t began = cpu_now_ns();
        made = reshape_all(&text);
        best = gs_min(best, cpu_now_ns() - began);
    }
    printf("%s of %zu lines read and reshaped in %.1f ms: %zu forms\n", what, lines_of(&text), (double)best / 1e6,
           made);
    gs_text_free(&text);
}

/* The process of the measurement writes its line itself. */
static void measure_memory(const char *what, void (*put)(gs_text *, is_enough *)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct rusage usage;
        gs_text text = {0};
        put(&text, has_1_mb);
        reshape_all(&text);
        gs_text_free(&text);
        getrusage(RUSAGE_SELF, &usage);
        printf("%s of 1 MB reshaped in %.0f MB, with the program and the text\n", what, (double)usage.ru_maxrss / 1024);
        fflush(stdout);
        _exit(0);
    }
    if (child < 0 || waitpid(child, NULL, 0) < 0)
        exit(4);
}

int main(void) {
    measure_speed("a module with many kernels", put_kernels);
    measure_speed("a module with one kernel", put_kernel);
    measure_memory("a module with many kernels", put_kernels);
    measure_memory("a module with one kernel", put_kernel);
    return 0;
}
