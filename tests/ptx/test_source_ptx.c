/*
 * test_source_ptx.c: CUDA sources become PTX, with each compiler on this machine; mistakes are reported with their
 * place; no files are left behind.
 *
 * Compilers that are not on this machine are skipped. The common behavior is also tested with programs that pose as
 * clang++: shell scripts in a folder that comes first in PATH.
 */
#include "test.h"

#include "kernels/ptx/ptx_input.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder;

static const char *const compilers[] = {"nvcc", "nvrtc", "clang"};

/* The C++ library inside of NVRTC keeps memory from when it is loaded until the process ends; that is no leak of ours.
 */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:_dl_init\n";
}

/* ---- helpers ---- */

static gs_ptx_source_request request_of(const char *text, const char *compiler) {
    return (gs_ptx_source_request){
        .file = "some/kernel.cu", .text = text, .size = strlen(text), .architecture = 80, .compiler = compiler};
}

/* Compiles. False: this machine does not have the compiler. */
static bool compile(const gs_ptx_source_request *request, gs_ptx_compiled *compiled) {
    gs_error error = {.code = GS_OK};
    gs_code code = gs_ptx_from_source(request, compiled, &error);
    if (code == GS_E_UNSUPPORTED)
        return false;
    if (code != GS_OK)
        fail_msg("%s: %s:%ld: %s", request->compiler ? request->compiler : "any", error.file, error.line,
                 error.message);
    return true;
}

static void expect_error(const gs_ptx_source_request *request, gs_error *error) {
    gs_ptx_compiled compiled;
    *error = (gs_error){.code = GS_OK};
    assert_int_not_equal(gs_ptx_from_source(request, &compiled, error), GS_OK);
    assert_null(compiled.text);
}

/* Files in the folder that this test gives to compilers for their temporary files. */
static int files_left(void) {
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "%s/tmp", folder);
    DIR *list = opendir(path);
    for (struct dirent *entry; (entry = readdir(list));)
        count += entry->d_name[0] != '.';
    closedir(list);
    return count;
}

static void write_file(const char *name, const char *text, int mode) {
    char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, (mode_t)mode);
}

static int make_folder(void **state) {
    (void)state;
    char path[64];
    if (!(folder = gs_folder_make_in("/tmp", "gridsmith-source", NULL)))
        return -1;
    snprintf(path, sizeof path, "%s/tmp", folder);
    unsetenv("GRIDSMITH_COMPILER");
    return mkdir(path, 0700) || setenv("TMPDIR", path, 1);
}

static int remove_folder(void **state) {
    (void)state;
    gs_folder_remove(folder);
    free(folder);
    return unsetenv("TMPDIR");
}

/* ---- every compiler ---- */

TEST(instances_of_templates_have_their_symbols) {
    static const char text[] =
        "template <typename T, unsigned N> __global__ void scale(T *p) { p[threadIdx.x] *= N; }\n"
        "namespace ns { __global__ void add(float *p) { p[blockIdx.x] += SHIFT; } }\n"
        "extern \"C\" __global__ void plain(int *p) { *p = 1; }\n";
    static const char *const kernels[] = {"scale<float, 4>", "ns::add", "plain", "scale<unsigned, 8>"},
                             *const options[] = {"-D", "SHIFT=3", "-arch=sm_52", "-O3"};
    for (size_t i = 0; i < GS_COUNT(compilers); i++) {
        gs_ptx_compiled compiled;
        gs_ptx_source_request request = request_of(text, compilers[i]);
        request.kernels = kernels;
        request.kernel_count = strcmp(compilers[i], "nvrtc") == 0 ? 2 : GS_COUNT(kernels);
        request.options = options;
        request.option_count = GS_COUNT(options);
        if (!compile(&request, &compiled))
            continue;
        assert_string_equal(compiled.compiler, compilers[i]);
        assert_int_equal(compiled.architecture, 80);
        assert_non_null(strstr(compiled.text, ".target sm_80"));
        assert_string_equal(compiled.symbols[0], "_Z5scaleIfLj4EEvPT_");
        assert_string_equal(compiled.symbols[1], "_ZN2ns3addEPf");
        if (compiled.count > 2) {
            assert_string_equal(compiled.symbols[2], "plain");
            assert_string_equal(compiled.symbols[3], "_Z5scaleIjLj8EEvPT_");
        }
        for (size_t k = 0; k < compiled.count; k++)
            assert_non_null(strstr(compiled.text, compiled.symbols[k]));
        gs_ptx_compiled_free(&compiled);
        assert_int_equal(files_left(), 0);
    }
}

TEST(a_mistake_has_its_file_and_line) {
    static const char text[] = "__global__ void k(float *p) {\n    p[0] = 1;\n    q[0] = 2;\n}\n";
    for (size_t i = 0; i < GS_COUNT(compilers); i++) {
        gs_error error;
        gs_ptx_source_request request = request_of(text, compilers[i]);
        expect_error(&request, &error);
        if (error.code == GS_E_UNSUPPORTED)
            continue;
        assert_int_equal(error.code, GS_E_KERNEL);
        assert_string_equal(error.file, "some/kernel.cu");
        assert_int_equal(error.line, 3);
        assert_non_null(strstr(error.message, " says: error: "));
        assert_non_null(strstr(error.message, "q"));
        assert_int_equal(files_left(), 0);
    }
}

TEST(files_beside_the_source_are_included) {
    char path[100];
    write_file("beside.h", "#define VALUE 5\n", 0600);
    snprintf(path, sizeof path, "%s/kernel.cu", folder);
    for (size_t i = 0; i < GS_COUNT(compilers); i++) {
        gs_ptx_compiled compiled;
        gs_ptx_source_request request =
            request_of("#include \"beside.h\"\n__global__ void k(int *p) { *p = VALUE; }\n", compilers[i]);
        request.file = path;
        if (compile(&request, &compiled))
            gs_ptx_compiled_free(&compiled);
    }
}

TEST(a_missing_kernel_is_named) {
    static const char *const missing[] = {"nothing"}, *const no_instance[] = {"nothing<4>"};
    for (size_t i = 0; i < GS_COUNT(compilers); i++)
        for (int is_template = 0; is_template < 2; is_template++) {
            gs_error error;
            gs_ptx_source_request request = request_of("__global__ void k(int *p) { *p = 1; }\n", compilers[i]);
            request.kernels = is_template ? no_instance : missing;
            request.kernel_count = 1;
            expect_error(&request, &error);
            if (error.code == GS_E_UNSUPPORTED)
                continue;
            assert_int_equal(error.code, GS_E_KERNEL);
            assert_string_equal(error.file, "some/kernel.cu");
            assert_non_null(strstr(error.message, "no kernel nothing"));
        }
}

TEST(host_code_is_no_obstacle_for_nvcc) {
    gs_ptx_compiled compiled;
    gs_ptx_source_request request =
        request_of("#include <cstdio>\n#include <iostream>\n#include <cuda_runtime.h>\n"
                   "template <int N> __global__ void k(float *p) { p[0] = N; }\n"
                   "int main() { float *p; cudaMalloc(&p, 4); k<3><<<1, 1>>>(p); std::cout << 1; return 0; }\n",
                   "nvcc");
    if (!compile(&request, &compiled))
        skip();
    assert_non_null(strstr(compiled.text, "_Z1kILi3EEvPf"));
    gs_ptx_compiled_free(&compiled);
}

/* Everything that src/kernels/ptx/gridsmith_device.h defines is at least compiled by the kernels of the zoo. */
TEST(clang_compiles_the_kernels_without_cuda) {
    static const char *const names[] = {"bfs", "black_scholes", "conv", "fft", "mriq", "stenc", "tgemm", "tpacf"};
    for (size_t i = 0; i < GS_COUNT(names); i++) {
        char file[60], *text;
        size_t size;
        gs_ptx_compiled compiled;
        snprintf(file, sizeof file, "kernels/%s.cu", names[i]);
        assert_int_equal(gs_input_all(test_path(file), 1 << 20, &text, &size, NULL), GS_OK);
        gs_ptx_source_request request = request_of(text, "clang");
        bool is_there = compile(&request, &compiled);
        free(text);
        if (!is_there)
            skip();
        assert_non_null(strstr(compiled.text, ".entry"));
        assert_null(strstr(compiled.text, ".extern .func"));
        gs_ptx_compiled_free(&compiled);
    }
}

/* ---- the PTX that is kept in the repository ---- */

/* The name after "__global__ void", and perhaps "__launch_bounds__(...)", or "". */
static void kernel_name(const char *text, char *name, size_t size) {
    static const char word[] = "__global__ void ", bounds[] = "__launch_bounds__";
    const char *at = strstr(text, word);
    at = at ? at + strlen(word) : "";
    if (strncmp(at, bounds, strlen(bounds)) == 0 && strchr(at, ')'))
        at = strchr(at, ')') + 1;
    at += strspn(at, " \n");
    snprintf(name, size, "%.*s", (int)strcspn(at, "("), at);
}

TEST(every_kernel_of_the_zoo_is_kept_as_ptx) {
    DIR *list = opendir(test_path("kernels"));
    size_t kernels = 0;
    for (struct dirent *entry; (entry = readdir(list));) {
        char file[300], name[80], *text;
        size_t size, length = strlen(entry->d_name);
        gs_ptx_texts texts;
        gs_ptx_entries entries;
        if (length < 4 || strcmp(entry->d_name + length - 3, ".cu") != 0)
            continue;
        snprintf(file, sizeof file, "kernels/%s", entry->d_name);
        assert_int_equal(gs_input_all(test_path(file), 1 << 20, &text, &size, NULL), GS_OK);
        kernel_name(text, name, sizeof name);
        free(text);
        snprintf(file, sizeof file, "kernels/ptx/%.*s.ptx.gz", (int)length - 3, entry->d_name);
        assert_int_equal(gs_ptx_find_in_file(test_path(file), &texts, NULL), GS_OK);
        assert_string_equal(texts.data[0].target, strcmp(name, "wgemm") == 0 ? "sm_90a" : "sm_80");
        assert_true(gs_ptx_entries_list(texts.data[0].text, &entries));
        assert_int_equal(gs_ptx_entries_find(&entries, name), 0);
        gs_ptx_entries_free(&entries);
        gs_ptx_texts_free(&texts);
        kernels++;
    }
    closedir(list);
    assert_true(kernels >= 24);
}

/* ---- programs that pose as clang++ ---- */

static char *saved_path;

static int pose(void **state) {
    (void)state;
    gs_text path = {0};
    saved_path = strdup(getenv("PATH"));
    gs_text_add(&path, "%s:%s", folder, saved_path);
    setenv("PATH", path.data, 1);
    gs_text_free(&path);
    return 0;
}

static int stop_posing(void **state) {
    (void)state;
    char path[64];
    setenv("PATH", saved_path, 1);
    free(saved_path);
    snprintf(path, sizeof path, "%s/clang++", folder);
    return unlink(path);
}

TEST_WITH(a_compiler_that_hangs_is_ended, pose, stop_posing) {
    gs_error error;
    gs_ptx_source_request request = request_of("", "clang");
    write_file("clang++",
               "#!/bin/sh\necho left >$TMPDIR/left.o\nmkdir $TMPDIR/more\necho left >$TMPDIR/more/file\n"
               "sleep 1000 & sleep 1000\n",
               0700);
    request.seconds = 1;
    expect_error(&request, &error);
    assert_string_equal(error.message, "clang did not finish within 1 seconds");
    assert_int_equal(files_left(), 0);
}

TEST_WITH(clang_gets_an_architecture_that_it_knows, pose, stop_posing) {
    gs_ptx_compiled compiled;
    gs_ptx_source_request request = request_of("", "clang");
    write_file(
        "clang++",
        "#!/bin/sh\nfor word; do case $word in --cuda-gpu-arch=sm_80) known=1;; */out.ptx) out=$word;; esac; done\n"
        "[ -n \"$known\" ] || { echo 'error: unsupported CUDA gpu architecture: sm_86' && exit 1; }\n"
        "echo '.version 7.0 .target sm_80 .entry k()' >$out\n",
        0700);
    request.architecture = 90;
    assert_true(compile(&request, &compiled));
    assert_int_equal(compiled.architecture, 80);
    gs_ptx_compiled_free(&compiled);
}

TEST_WITH(only_words_for_clang_reach_clang, pose, stop_posing) {
    static const char *const options[] = {"-Xcompiler",      "-fopenmp", "-gencode", "arch=compute_80,code=sm_80",
                                          "-DN=1",           "-I",       "some dir", "-lineinfo",
                                          "--use_fast_math", "-o",       "x.ptx"};
    gs_ptx_compiled compiled;
    gs_ptx_source_request request = request_of("", "clang");
    write_file("clang++",
               "#!/bin/sh\nfor word; do case $word in */out.ptx) out=$word;; esac; done\n"
               "{ echo '.version 7.0 .target sm_80'; for word; do echo \"[$word]\"; done; } >$out\n",
               0700);
    request.options = options;
    request.option_count = GS_COUNT(options);
    assert_true(compile(&request, &compiled));
    assert_non_null(strstr(compiled.text, "[-DN=1]\n[-Isome dir]\n[-ffast-math]\n[-o]\n"));
    assert_null(strstr(compiled.text, "fopenmp"));
    assert_null(strstr(compiled.text, "code=sm"));
    assert_null(strstr(compiled.text, "x.ptx"));
    gs_ptx_compiled_free(&compiled);
}

/* ---- which compiler ---- */

TEST(compilers_are_chosen_by_name) {
    gs_error error;
    gs_ptx_source_request request = request_of("", "icc");
    expect_error(&request, &error);
    assert_int_equal(error.code, GS_E_USAGE);
    assert_string_equal(error.message, "unknown compiler \"icc\"; it must be nvcc, nvrtc or clang");
    request.compiler = NULL;
    setenv("GRIDSMITH_COMPILER", "gcc", 1);
    expect_error(&request, &error);
    assert_string_equal(error.message, "unknown compiler \"gcc\"; it must be nvcc, nvrtc or clang");
    unsetenv("GRIDSMITH_COMPILER");
}

TEST(all_compilers_are_tried) {
    gs_error error;
    gs_ptx_source_request request = request_of("no CUDA\n", NULL);
    expect_error(&request, &error);
    if (error.code == GS_E_UNSUPPORTED)
        skip();
    assert_non_null(strstr(error.message, " (tried: "));
    assert_string_equal(error.file, "some/kernel.cu");
    assert_int_equal(error.line, 1);
    assert_int_equal(files_left(), 0);
}

/* ---- names ---- */

TEST(names_find_their_entries) {
    static const char ptx[] = ".visible .entry _Z1kILi4EEvPf(\n.entry _Z1kILj5EEvPf(.weak .entry plain()\n"
                              ".visible .entry _Z1tIjEvPT_()";
    static const struct {
        const char *name;
        int number;
    } cases[] = {{"k<4>", 0},
                 {"k< 4 >", 0},
                 {"k<5>", 1},
                 {"k<5u>", 1},
                 {"plain", 2},
                 {"t<unsigned>", 3},
                 {"t<unsigned int>", 3},
                 {"t", 3},
                 {"t<T>", -1},
                 {"k", -2},
                 {"other", -1},
                 {"_Z1kILi4EEvPf", 0},
                 {"k<6>", -1},
                 {"", -1},
                 {"k<4>(float*)", 0},
                 {"k<4>(float *)", 0},
                 {"void k<4>(float*)", 0},
                 {"k<4>(int*)", -1}};
    gs_ptx_entries entries;
    assert_true(gs_ptx_entries_list(ptx, &entries));
    assert_int_equal(entries.count, 4);
    for (size_t i = 0; i < GS_COUNT(cases); i++)
        if (gs_ptx_entries_find(&entries, cases[i].name) != cases[i].number)
            fail_msg("%s is %d", cases[i].name, gs_ptx_entries_find(&entries, cases[i].name));
    gs_ptx_entries_free(&entries);
}

/* clang moves no load of a shared variable across a barrier. */
TEST(barriers_order_shared_memory) {
    static const char *const barriers[][2] = {{"__syncthreads()", "bar.sync"},
                                              {"n += __syncthreads_count(n)", "bar.red.popc"},
                                              {"n += __syncthreads_or(n)", "bar.red.or"},
                                              {"__syncwarp()", "bar.warp.sync"},
                                              {"__threadfence_block()", "membar"}};
    for (size_t i = 0; i < GS_COUNT(barriers); i++) {
        gs_text text = {0};
        gs_ptx_compiled compiled;
        gs_text_add(&text,
                    "__global__ void k(int *out, const int *in, int n) {\n"
                    "    __shared__ int first;\n    if (threadIdx.x == 0)\n        first = in[blockIdx.x];\n"
                    "    %s;\n    out[threadIdx.x] = first + n;\n}\n",
                    barriers[i][0]);
        gs_ptx_source_request request = request_of(text.data, "clang");
        if (!compile(&request, &compiled))
            skip();
        const char *barrier = strstr(compiled.text, barriers[i][1]);
        if (!barrier || !strstr(barrier, "ld.shared"))
            fail_msg("%s: the load is before it:\n%s", barriers[i][0], compiled.text);
        gs_ptx_compiled_free(&compiled);
        gs_text_free(&text);
    }
}

TEST_MAIN(make_folder, remove_folder)
