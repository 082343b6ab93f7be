/*
 * test_image.c: compiled kernels and their dependencies: which files a source includes, when an image is out of date,
 * what compilers may not do, which folders are trusted.
 *
 * The C++ compiler itself is an oracle: with -M it lists what it has read. GRIDSMITH_PROGRAM is the program whose
 * hidden subcommand compiles.
 */
#define _GNU_SOURCE
#include "test.h"

#include "kernels/cpu/cpu.h"
#include "sharing/image/cache.h"
#include "sharing/image/image.h"
#include "sharing/image/image_file.h"
#include "sharing/image/include_scan.h"
#include "sharing/image/include_search.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *folder;

static char *in_folder(const char *name) {
    static char paths[8][200];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *format, ...) {
    char command[4000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    assert_int_equal(system(command), 0);
}

static int set_up(void **state) {
    (void)state;
    folder = gs_folder_make(NULL);
    return folder ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    gs_folder_remove(folder);
    free(folder);
    return 0;
}

/* ---- the names that a text includes ---- */

static void write_include(void *context, const gs_include *include) {
    static const char *const kinds[] = {"", "next ", "macro ", "computed", "question"};
    bool has_name = include->kind < GS_INCLUDE_COMPUTED;
    if (include->kind == GS_INCLUDE_DEFINE)
        return;
    gs_text_add(context, "%ld:%s%s%.*s%s;", include->line, kinds[include->kind],
                !has_name            ? ""
                : include->is_quoted ? "\""
                                     : "<",
                has_name ? (int)include->length : 0, include->name,
                !has_name            ? ""
                : include->is_quoted ? "\""
                                     : ">");
}

static void expect_names(const char *text, const char *wanted) {
    gs_text found = {0};
    gs_text_add(&found, "%s", "");
    assert_true(gs_include_scan(text, strlen(text), write_include, &found));
    if (strcmp(found.data, wanted) != 0)
        print_message("in: %s\n", text);
    assert_string_equal(found.data, wanted);
    gs_text_free(&found);
}

TEST(included_names_are_found) {
    expect_names("#include \"a.h\"\n#include <b.h>\n", "1:\"a.h\";2:<b.h>;");
    expect_names("int x; // #include \"a.h\"\n * #include <b.h>\nint y; #include <c.h>\n", "");
    expect_names("  #  include/**/\"a.h\"", "1:\"a.h\";");
    expect_names("/* x */ # /* y */ include /* z\n */ <a.h>", "1:<a.h>;");
    expect_names("char *s = \"/*\";\n#include <a.h>\nchar *t = \"*/\";", "2:<a.h>;");
    expect_names("const char *s = R\"x(\n/* )x\";\n#include <a.h>\n", "3:<a.h>;");
    expect_names("#inc\\\nlude \"a\\\n.h\"\n#include <b.h>", "1:\"a.h\";4:<b.h>;");
    expect_names("#include \\\r\n \"a.h\"\r\n#include <b.h>\r\n", "1:\"a.h\";3:<b.h>;");
    expect_names("%:include <a.h>\n%: include_next <b.h>", "1:<a.h>;2:next <b.h>;");
    expect_names("#import <a.h>\n#embed \"b.bin\"\n#included <c.h>\n#if 0\n#include <d.h>\n#endif\n",
                 "1:<a.h>;2:\"b.bin\";5:<d.h>;");
    expect_names("#if __has_include(<a.h>) && defined(__has_include) && __has_include_next ( \"b.h\" )\n",
                 "1:<a.h>;1:next \"b.h\";");
    expect_names("#define A \"a.h\"\n#define B <b.h>\n#include A\n#define HAS(x) __has_include(x)\n"
                 "#define HAS2 __has_include\n#ifdef __has_include\n#endif\n",
                 "1:macro \"a.h\";2:macro <b.h>;3:computed;4:question;5:question;");
    expect_names("\xef\xbb\xbf#include <a.h>\n#include \"b.h\n#include <c.h\n#include\n#", "1:<a.h>;");
    expect_names("x \\ \n#include <a.h>\n", "2:<a.h>;"); /* for a compiler that does not join lines here */
    expect_names("#include <a\\ \n.h>\n", "1:<a.h>;");   /* for one that does */
}

static void expect_expansion(const char *macros, const char *text, const char *wanted) {
    char *lines[8], copy[500];
    gs_include_names definitions = {.data = lines};
    gs_text name = {0};
    bool is_quoted = false;
    snprintf(copy, sizeof copy, "%s", macros);
    for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n"))
        lines[definitions.count++] = line;
    bool is_name = gs_include_expand(&definitions, text, &name, &is_quoted);
    assert_int_equal(is_name, wanted != NULL);
    if (wanted) {
        assert_int_equal(is_quoted, wanted[0] == '"');
        assert_int_equal(name.count, strlen(wanted) - 2);
        assert_memory_equal(name.data, wanted + 1, name.count);
    }
    gs_text_free(&name);
}

TEST(names_that_macros_put_together_are_known) {
#define TEXTS "TEXT_(x) #x\nTEXT(x) TEXT_(x)\n"
    expect_expansion("A \"a.h\"", "A", "\"a.h\"");
    expect_expansion("A B\nB <b.h>", "A // so", "<b.h>");
    expect_expansion(TEXTS, "TEXT(/some/file.h)", "\"/some/file.h\"");
    expect_expansion(TEXTS "FOLDER /some/where", "TEXT( FOLDER/file.h )", "\"/some/where/file.h\"");
    expect_expansion(TEXTS "FOLDER /some/where", "TEXT_(FOLDER/file.h)", "\"FOLDER/file.h\"");
    expect_expansion(TEXTS "NAME(a, b) a ## _ ## b.h\nFOLDER /x", "TEXT(FOLDER/NAME(one, two))", "\"/x/one_two.h\"");
    expect_expansion("A \"old.h\"\nA \"new.h\"", "A", "\"new.h\"");
    expect_expansion("A A", "A", NULL);
    expect_expansion("A(x) A(x x) A(x x)\n", "A(b)", NULL);
    expect_expansion("A(x #x", "A(1)", NULL);
    expect_expansion("A(x) #x", "A(1", NULL);
    expect_expansion("A(x) #x", "A(1, 2)", NULL);
    expect_expansion("", "\"a.h", NULL);
    expect_expansion("A ##", "A", NULL);
#undef TEXTS
}

TEST(unstable_texts_are_known) {
    static const char *const unstable[] = {"int x = f(__TIME__);", "__DATE__", "(__TIMESTAMP__"};
    static const char *const stable[] = {"", "int THE__TIME__;", "__DATE__2", "asm(\"nop\")"};
    for (size_t i = 0; i < GS_COUNT(unstable); i++)
        assert_true(gs_include_is_unstable(unstable[i], strlen(unstable[i])));
    for (size_t i = 0; i < GS_COUNT(stable); i++)
        assert_false(gs_include_is_unstable(stable[i], strlen(stable[i])));
}

/* ---- the oracle: the compiler reads exactly the files that were found ---- */

static void free_dependencies(gs_dependencies *all) {
    for (size_t i = 0; i < all->count; i++)
        free(all->data[i].path);
    for (size_t i = 0; i < all->search.count; i++)
        free(all->search.data[i]);
    gs_include_names *const lists[] = {&all->macro_names, &all->definitions, &all->computed};
    for (size_t k = 0; k < GS_COUNT(lists); k++) {
        for (size_t i = 0; i < lists[k]->count; i++)
            free(lists[k]->data[i]);
        free(lists[k]->data);
    }
    free(all->data);
    free(all->search.data);
    gs_names_free(&all->names);
}

static bool is_found(const gs_dependencies *all, const char *path) {
    char real[PATH_MAX], other[PATH_MAX];
    assert_non_null(realpath(path, real));
    for (size_t i = 0; i < all->count; i++)
        if (all->data[i].dependency.kind == GS_DEPENDENCY_FILE && realpath(all->data[i].path, other) &&
            strcmp(real, other) == 0)
            return true;
    return false;
}

/* Compares with the list that `compiler -M` writes: "module.o: FILE FILE \", with spaces escaped. */
static size_t compare_lists(const gs_dependencies *all, const char *list, const char *itself) {
    char *text, path[PATH_MAX];
    size_t size, files = 0, length = 0;
    assert_int_equal(gs_input_all(list, 1 << 24, &text, &size, NULL), GS_OK);
    for (const char *at = strchr(text, ':') + 1;; at++) {
        bool is_escaped = *at == '\\' && at[1] == ' ';
        if (*at && (is_escaped || !strchr(" \\\n", *at))) {
            path[length++] = is_escaped ? *++at : *at;
            continue;
        }
        path[length] = '\0';
        if (length && strcmp(path, itself) != 0) {
            if (!is_found(all, path))
                fail_msg("the compiler reads %s, but it was not found", path);
            files++;
        }
        length = 0;
        if (!*at)
            break;
    }
    free(text);
    return files;
}

/* Headers of CUDA that sources include, in the folder of the host runtime. */
static void write_headers(const gs_host *host) {
    static const char *const names[] = {"cuda_runtime.h", "cuda_fp16.h", "mma.h"};
    for (size_t i = 0; i < GS_COUNT(names); i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", gs_host_folder(host), names[i]);
        write_text(path, "\n");
    }
}

/* The source behind headers of C++, in the folder of the host runtime. */
static void expect_all_found(const char *compiler, const char *name, const char *text, const char *options) {
    gs_error error = {.code = GS_OK};
    gs_dependencies all = {0};
    gs_readable readable = {0};
    char source[PATH_MAX];
    gs_host *host = gs_host_open(&error);
    assert_non_null(host);
    snprintf(source, sizeof source, "%s/oracle.cpp", gs_host_folder(host));
    gs_text whole = {0};
    gs_text_add(&whole, "#include <random>\n#include \"gridsmith_run.h\"\n%s", text);
    write_headers(host);
    write_text(source, whole.data);
    if (gs_include_search_compiler(&all, &readable, compiler, "c++", gs_host_folder(host), &error) != GS_OK ||
        gs_dependencies_add_text(&all, name, whole.data, whole.count, gs_host_folder(host), &error) != GS_OK)
        fail_msg("%s", error.message);
    run("%s -x c++ -std=c++17 %s -I%s -M -MF %s -w %s", compiler, options, gs_host_folder(host), in_folder("list"),
        source);
    size_t files = compare_lists(&all, in_folder("list"), source);
    assert_true(files > 20);
    assert_true(gs_dependencies_hold(&all));
    for (size_t i = 0; i < readable.count; i++)
        free(readable.data[i]);
    free(readable.data);
    gs_text_free(&whole);
    free_dependencies(&all);
    gs_host_close(host);
}

static const char *const compilers[] = {"g++", "clang++"};

static bool has_compiler(const char *name) {
    char command[100];
    snprintf(command, sizeof command, "command -v %s >/dev/null", name);
    return system(command) == 0;
}

TEST(all_that_compilers_read_is_found) {
    char nasty[4000];
    run("mkdir -p '%s/a b' %s/c", folder, folder);
    write_text(in_folder("a b/one.h"), "#include \"../c/two.h\"\n");
    write_text(in_folder("c/two.h"), "#pragma once\n%:inc\\\nlude \"three.h\" // end\n");
    write_text(in_folder("c/three.h"), "/* */ /* \n*/ #include <limits.h>\n#include <math.h>\n");
    write_text(in_folder("c/four.h"), "#if __has_include(\"five.h\")\n#include \"five.h\"\n#endif\n");
    write_text(in_folder("c/five.h"), "#include_next <float.h>\n");
    snprintf(nasty, sizeof nasty,
             "#include \"%s/a b/one.h\"\n#define NAME \"%s/c/four.h\"\n#include NAME\n#include <vector>\n"
             "#include <cuda_runtime.h>\n#ifdef X\n#include <map>\n#endif\n#include <random>\n",
             folder, folder);
    for (size_t i = 0; i < GS_COUNT(compilers); i++) {
        if (!has_compiler(compilers[i]))
            continue;
        expect_all_found(compilers[i], "nasty.cu", nasty, "");
        expect_all_found(compilers[i], "nasty.cu", nasty, "-DX");
        expect_all_found(compilers[i], "run.c", "#include \"gridsmith_run.c\"\n", "-fpermissive");
    }
}

TEST(all_that_kernels_of_the_zoo_read_is_found) {
    glob_t files;
    assert_int_equal(glob(test_path("kernels/*.cu"), 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        char *text;
        size_t size;
        assert_int_equal(gs_input_all(files.gl_pathv[i], 1 << 20, &text, &size, NULL), GS_OK);
        expect_all_found("c++", files.gl_pathv[i], text, "");
        free(text);
    }
    globfree(&files);
}

/* ---- whether files are as they were ---- */

/* The file that a text includes from a folder of the system, if its dependencies were searched this long after the file
   was written. */
static gs_dependencies dependencies_after(int64_t ns) {
    struct timespec now;
    gs_dependencies all = {0};
    const char *text = "#include <known.h>\n";
    clock_gettime(CLOCK_REALTIME, &now);
    all.began_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + ns;
    assert_true(GS_RESERVE(&all.search, 1));
    all.search.data[all.search.count++] = strdup(in_folder("system"));
    write_text(in_folder("system/known.h"), "#define KNOWN 1\n");
    assert_int_equal(gs_dependencies_add_text(&all, "known.cu", text, strlen(text), folder, NULL), GS_OK);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.data[0].dependency.kind, GS_DEPENDENCY_FILE);
    return all;
}

TEST(headers_of_the_system_are_known_by_their_times) {
    run("mkdir -p %s", in_folder("system"));
    for (int is_settled = 0; is_settled < 2; is_settled++) {
        gs_dependencies all = dependencies_after(is_settled ? 3000000000 : 0);
        const gs_dependency *dependency = &all.data[0].dependency;
        assert_int_equal(dependency->has_times, is_settled);
        assert_int_equal(dependency->has_digest, !is_settled);
        assert_true(gs_dependencies_hold(&all));
        write_text(in_folder("system/known.h"), "#define KNOWN 2\n"); /* as many bytes, at the same time */
        assert_false(gs_dependencies_hold(&all));
        write_text(in_folder("system/known.h"), "#define KNOWN 1\n");
        assert_int_equal(gs_dependencies_hold(&all), !is_settled);
        free_dependencies(&all);
    }
}

/* ---- images ---- */

static gs_image *make(const char *text, const char *option, const gs_compiler_limits *limits, gs_error *error) {
    gs_image_source source = {
        .name = "test.cu", .text = text, .size = strlen(text), .options = {option}, .option_count = option != NULL};
    gs_image_request request = {.architecture = 0};
    if (limits)
        request.limits = *limits;
    *error = (gs_error){.code = GS_OK};
    return gs_image_make(in_folder("cache"), &source, &request, error);
}

static void expect_image(const char *text, const char *option, bool was_cached, bool is_kept) {
    gs_error error;
    gs_image *image = make(text, option, NULL, &error);
    if (!image)
        fail_msg("%s:%ld: %s", error.file, error.line, error.message);
    assert_int_equal(image->was_cached, was_cached);
    assert_int_equal(image->is_kept, is_kept);
    gs_image_free(image);
}

TEST(images_depend_on_what_they_include) {
    char text[500], macro[500];
    run("mkdir -p %s/inner", folder);
    write_text(in_folder("value.h"), "#include \"inner/value.h\"\n");
    write_text(in_folder("inner/value.h"), "#define VALUE 1\n#if __has_include(\"other.h\")\n#endif\n");
    snprintf(text, sizeof text, "#include \"%s\"\n__global__ void one(int *at) { at[0] = VALUE; }\n",
             in_folder("value.h"));
    expect_image(text, NULL, false, true);
    expect_image(text, NULL, true, true);
    write_text(in_folder("inner/value.h"), "#define VALUE 2\n#if __has_include(\"other.h\")\n#endif\n");
    expect_image(text, NULL, false, true);
    expect_image(text, NULL, true, true);
    run("touch %s", in_folder("inner/value.h")); /* the same contents */
    expect_image(text, NULL, true, true);
    write_text(in_folder("inner/other.h"), "\n"); /* it was looked for */
    expect_image(text, NULL, false, true);
    expect_image(text, NULL, true, true);
    assert_int_equal(unlink(in_folder("inner/other.h")), 0);
    expect_image(text, NULL, false, true);
    snprintf(macro, sizeof macro, "-DHEADER=\"%s\"", in_folder("value.h"));
    expect_image("#include HEADER\n__global__ void one(int *at) { at[0] = VALUE; }\n", macro, false, false);
    expect_image("#include HEADER\n__global__ void one(int *at) { at[0] = VALUE; }\n", macro, false, false);
    expect_image("__global__ void one(int *at) { at[0] = __TIME__[0]; }\n", NULL, false, false);
}

/* A file that changes while the compiler runs. On a busy machine the other process may change nothing in that time:
   then it is compiled again. */
TEST(images_of_files_that_change_meanwhile_are_not_kept) {
    enum { MOST_TRIES = 50 };
    char text[500];
    gs_error error;
    snprintf(text, sizeof text, "#include \"%s\"\n__global__ void one(int *at) { at[0] = VALUE; }\n",
             in_folder("moving.h"));
    write_text(in_folder("moving.h"), "#define VALUE 0\n");
    pid_t changer = fork();
    if (changer == 0)
        for (int i = 1;; i++) {
            char line[40];
            snprintf(line, sizeof line, "#define VALUE %d\n", i);
            FILE *file = fopen(in_folder("moving.h"), "r+");
            fputs(line, file);
            fclose(file);
            usleep(2000);
        }
    bool is_kept = true;
    for (int i = 0; i < MOST_TRIES && is_kept; i++) {
        gs_image *image = make(text, NULL, NULL, &error);
        assert_non_null(image);
        is_kept = image->is_kept;
        gs_image_free(image);
    }
    kill(changer, SIGKILL);
    waitpid(changer, NULL, 0);
    assert_false(is_kept);
}

TEST(another_compiler_compiles_again) {
    static const char text[] = "__global__ void one(int *at) { at[0] = 1; }\n";
    char real[PATH_MAX];
    run("ln -sf $(command -v cc) %s", in_folder("first-cc"));
    run("printf '#!/bin/sh\nexec cc \"$@\"\n' > %s; chmod +x %s", in_folder("my-cc"), in_folder("my-cc"));
    assert_non_null(realpath(in_folder("first-cc"), real));
    setenv("CC", in_folder("my-cc"), 1);
    expect_image(text, NULL, false, true);
    expect_image(text, NULL, true, true);
    run("echo '# changed' >> %s", in_folder("my-cc"));
    expect_image(text, NULL, false, true);
    setenv("CC", in_folder("first-cc"), 1);
    expect_image(text, NULL, false, true);
    unsetenv("CC");
}

/* PTX, an object, a fatbin that is compressed, a library: all of them have the kernel `add`. */
TEST(images_are_made_of_files_with_ptx) {
    static const char *const names[] = {"add90.ptx", "add.o", "size.fatbin", "library.a"};
    gs_error error = {.code = GS_OK};
    char path[100], *bytes;
    size_t size;
    for (size_t i = 0; i <= GS_COUNT(names); i++) {
        const char *name = i < GS_COUNT(names) ? names[i] : "add.cubin";
        snprintf(path, sizeof path, "tests/fuzz/corpus/container/%s", name);
        assert_int_equal(gs_input_all(test_path(path), 1 << 20, &bytes, &size, NULL), GS_OK);
        gs_image_source source = {.name = name, .text = bytes, .size = size, .kernels = {"add"}, .kernel_count = 1};
        gs_image *image = gs_image_make(in_folder("cache"), &source, &(gs_image_request){.architecture = 0}, &error);
        if (i < GS_COUNT(names)) {
            if (!image)
                fail_msg("%s: %s", name, error.message);
            assert_int_equal(image->kernel_count, 1);
            assert_string_equal(image->kernels[0].name, "add");
            assert_true(image->kernels[0].can_be_confined);
            gs_image_free(image);
        } else {
            assert_null(image);
            assert_non_null(strstr(error.message, "this cubin has machine code only"));
        }
        free(bytes);
    }
}

/* ---- products ---- */

static gs_image *make_product(const char *text, int architecture, gs_error *error) {
    gs_image_source source = {.name = "p", .text = text, .size = strlen(text)};
    return gs_image_make(in_folder("cache"), &source, &(gs_image_request){.architecture = architecture}, error);
}

static void expect_product(int architecture, size_t parts, uint64_t device_bytes) {
    static const char text[] = " {\"schema\": \"gridsmith.product/1\", \"rows\": 5, \"columns\": 7, \"depth\": 9,"
                               " \"b_transposed\": true}\n";
    const gs_product product = {.rows = 5, .columns = 7, .depth = 9, .is_b_transposed = true};
    gs_error error;
    for (int again = 0; again < 2; again++) {
        gs_image *image = make_product(text, architecture, &error);
        if (!image)
            fail_msg("%s", error.message);
        gs_image_file file;
        assert_int_equal(gs_image_map(image->fd, &file, &error), GS_OK);
        assert_int_equal(image->was_cached, again);
        assert_int_equal(image->kernel_count, 1);
        assert_string_equal(image->kernels[0].name, "product");
        assert_false(image->kernels[0].can_be_confined);
        assert_string_equal(image->kernels[0].refusal, "a product of cuBLAS has no other form");
        assert_memory_equal(&file.kernels[0].product, &product, sizeof product);
        assert_int_equal(file.part_count, parts);
        assert_true(device_bytes ? image->device_bytes == device_bytes : image->device_bytes > 0);
        gs_image_unmap(&file);
        gs_image_free(image);
    }
}

/* On a GPU an image has the numbers alone and the size of the workspace, on the CPU a kernel besides. */
TEST(products_are_images) {
    expect_product(0, 1, 0);
    expect_product(80, 0, 4 << 20);
    expect_product(90, 0, 32 << 20);
}

TEST(products_that_cannot_be_are_refused) {
#define START "{\"schema\": \"gridsmith.product/1\", "
    static const struct {
        const char *text, *words;
        long column;
    } rows[] = {
        {"{", "the text ends in the middle of a JSON value", 2},
        {"{\"rows\": 1}", "\"schema\": \"gridsmith.product/1\" is missing", 1},
        {"{\"schema\": \"gridsmith.product/2\"}", "gridsmith.product/1", 12},
        {START "\"rows\": 1, \"columns\": 1}", "\"depth\" is missing", 1},
        {START "\"rows\": 0, \"columns\": 1, \"depth\": 1}", "\"rows\" must be from 1 to 16777216, not 0", 43},
        {START "\"rows\": -1, \"columns\": 1, \"depth\": 1}", "\"rows\" must be from 1 to 16777216, not -1", 43},
        {START "\"rows\": 1, \"columns\": 4294967297, \"depth\": 1}", "16777216, not 4294967297", 57},
        {START "\"rows\": 65536, \"columns\": 65536, \"depth\": 1}",
         "C has 17179869184 bytes: a matrix may have at most 4294967296", 1},
        {START "\"rows\": 65536, \"columns\": 1, \"depth\": 65536}",
         "A has 8589934592 bytes: a matrix may have at most 4294967296", 1},
        {START "\"rows\": 1, \"columns\": 1, \"depth\": 1, \"alpha\": 2}", "unknown key \"alpha\"", 0},
        {START "\"rows\": 1, \"columns\": 1, \"depth\": 1, \"bfloat16\": 1}", "\"bfloat16\" must be", 0},
        {START "\"rows\": 1, \"columns\": 1, \"depth\": 1} {}", "", 0},
    };
#undef START
    for (size_t i = 0; i < GS_COUNT(rows); i++)
        for (int architecture = 0; architecture <= 90; architecture += 90) {
            gs_error error = {.code = GS_OK};
            gs_image *image = make_product(rows[i].text, architecture, &error);
            bool is_right = !image && strstr(error.message, rows[i].words) &&
                            (!rows[i].column || error.column == rows[i].column) && error.line == 1 &&
                            strcmp(error.file, "p") == 0 && (error.code == GS_E_FORMAT || error.code == GS_E_SYNTAX);
            if (!is_right)
                fail_msg("row %zu: code %d, %s:%ld:%ld: %s", i, error.code, error.file, error.line, error.column,
                         error.message);
        }
}

/* ---- what sources may not do ---- */

static void expect_refusal(const char *text, const gs_compiler_limits *limits, const char *words) {
    gs_error error;
    gs_image *image = make(text, NULL, limits, &error);
    if (image)
        fail_msg("it was compiled; expected: %s", words);
    if (!strstr(error.message, words))
        print_message("%s\n", error.message);
    assert_int_equal(error.code, GS_E_KERNEL);
    assert_non_null(strstr(error.message, words));
}

TEST(only_plain_files_are_included) {
    char text[500];
    gs_error error;
    expect_refusal("\n#include \"/dev/zero\"\n__global__ void one() {}\n", NULL, "/dev/zero is not a regular file");
    assert_null(make("\n#include \"/dev/zero\"\n__global__ void one() {}\n", NULL, NULL, &error));
    assert_int_equal(error.line, 2);
    assert_string_equal(error.file, "test.cu");
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    snprintf(text, sizeof text, "#include \"%s\"\n", in_folder("fifo"));
    expect_refusal(text, NULL, "is not a regular file");
    run("truncate -s 17M %s", in_folder("large.h"));
    snprintf(text, sizeof text, "#include \"%s\"\n", in_folder("large.h"));
    expect_refusal(text, NULL, "exceeds the limit of 16 MB");
}

TEST(number_and_size_of_included_files_are_limited) {
    gs_text many = {0}, large = {0};
    run("mkdir %s && cd %s && seq 0 %d | xargs touch && truncate -s %dM l0 l1 l2 l3 l4 l5 l6 l7 l8 l9 la lb lc ld le "
        "lf lg",
        in_folder("many"), in_folder("many"), GS_INCLUDES, GS_INCLUDE_MB);
    for (int i = 0; i <= GS_INCLUDES; i++)
        gs_text_add(&many, "#include \"%s/%d\"\n", in_folder("many"), i);
    for (const char *last = "0123456789abcdefg"; *last; last++)
        gs_text_add(&large, "#include \"%s/l%c\"\n", in_folder("many"), *last);
    expect_refusal(many.data, NULL, "exceeds the limit of 8192 included files");
    if (!test_is_brief()) /* with a sanitizer it takes a minute to read so much */
        expect_refusal(large.data, NULL, "the source includes more than 256 MB");
    free(many.data);
    free(large.data);
}

/* A source that compilers do not finish. */
static gs_text make_bomb(void) {
    gs_text bomb = {0};
    gs_text_add(&bomb, "#define A0 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1\n");
    for (int i = 1; i < 8; i++)
        gs_text_add(&bomb, "#define A%d A%d,A%d,A%d,A%d,A%d,A%d,A%d,A%d,A%d,A%d\n", i, i - 1, i - 1, i - 1, i - 1,
                    i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    gs_text_add(&bomb, "__device__ int x[] = {A7};\n__global__ void one(int *at) { at[0] = x[0]; }\n");
    assert_false(bomb.failed);
    return bomb;
}

/* Whether a compiler that may not start another process could. They are counted now and then: on a busy machine it may
   have ended by then. */
static bool can_start_processes(int number) {
    char text[100];
    gs_error error;
    snprintf(text, sizeof text, "__global__ void one(int *at) { at[0] = %d; }\n", number);
    gs_image *image = make(text, NULL, &(gs_compiler_limits){.processes = 1}, &error);
    bool is_made = image;
    if (!is_made)
        assert_non_null(strstr(error.message, "the compiler started more than 1 processes"));
    gs_image_free(image);
    return is_made;
}

TEST(compilers_are_limited) {
    gs_text bomb = make_bomb();
    expect_refusal(bomb.data, &(gs_compiler_limits){.memory_mb = 150}, "the compiler needed more than 150 MB");
    expect_refusal(bomb.data, &(gs_compiler_limits){.seconds = 1}, "the compiler took longer than 1 s");
    gs_text_free(&bomb);
    expect_refusal("__device__ int x[1 << 20] = {1};\n__global__ void one(int *at) { at[0] = x[at[0]]++; }\n",
                   &(gs_compiler_limits){.output_mb = 1}, "the compiler wrote more than 1 MB");
    for (int i = 0; can_start_processes(i); i++)
        assert_true(i < 20);
}

/* The compiler says its own value, and fails. */
static void expect_priority(bool has_others, long wanted) {
    static const char text[] = "__global__ void one(int *at) { at[0] = 1; }\n";
    gs_image_source source = {.name = "test.cu", .text = text, .size = strlen(text)};
    gs_image_request request = {.architecture = 0, .has_others = has_others};
    gs_error error = {.code = GS_OK};
    char words[40];
    snprintf(words, sizeof words, "runs at %ld, no more", wanted);
    assert_null(gs_image_make(in_folder("cache"), &source, &request, &error));
    if (!strstr(error.message, words))
        fail_msg("%s; expected: %s", error.message, words);
}

TEST(compilers_leave_the_cores_to_others) {
    int mine = getpriority(PRIO_PROCESS, 0);
    write_text(in_folder("nice-cc"), "#!/bin/sh\ncase \" $* \" in *\" -E \"*) exec cc \"$@\"; esac\n"
                                     "echo runs at $(nice), no more >&2; exit 1\n");
    assert_int_equal(chmod(in_folder("nice-cc"), 0700), 0);
    setenv("CC", in_folder("nice-cc"), 1);
    expect_priority(false, mine);
    expect_priority(true, (long)gs_min(mine + GS_COMPILER_NICE, 19));
    unsetenv("CC");
}

static bool has_landlock(void) {
    return syscall(444 /* landlock_create_ruleset */, NULL, 0, 1) > 0;
}

/* The name of a file that macros put together is found, but not each. */
TEST(compilers_see_only_what_was_found) {
    char text[500];
    if (!has_landlock()) {
        print_message("skipped: this kernel has no Landlock\n");
        skip();
    }
    write_text(in_folder("secret"), "#define VALUE 1\n");
    static const char made[] = "#define STRING(x) #x\n#define NAME(x) STRING(x)\n#include NAME(%s)\n"
                               "__global__ void one(int *at) { at[0] = 1; }\n";
    snprintf(text, sizeof text, made, in_folder("secret"));
    expect_image(text, NULL, false, false);
    static const char hidden[] = "#define STRING(x) #x\n#define NAME(...) STRING(__VA_ARGS__)\n#include NAME(%s)\n"
                                 "__global__ void one(int *at) { at[0] = 1; }\n"; /* variadic: it is not known */
    snprintf(text, sizeof text, hidden, in_folder("secret"));
    expect_refusal(text, NULL, "says");
    snprintf(text, sizeof text, made, "/usr/include/stdc-predef.h");
    expect_image(text, NULL, false, false);
}

/* ---- jobs ---- */

static gs_image_job *new_job(const char *text) {
    gs_image_source source = {.name = "test.cu", .text = text, .size = strlen(text)};
    gs_image_request request = {.architecture = 0};
    assert_int_equal(gs_image_pack(&source, &request, NULL), GS_OK);
    gs_image_job *job = gs_image_job_new(&request, NULL);
    assert_non_null(job);
    return job;
}

static gs_image_job *wait_job(gs_images *images) {
    struct pollfd ready = {.fd = gs_images_fd(images), .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 120000), 1);
    gs_image_job *job = gs_images_take(images);
    assert_non_null(job);
    return job;
}

/* The number of folders of compilers in the cache: one for each that works. */
static size_t count_scratch(void) {
    glob_t found;
    int failed = glob(in_folder("cache/work-*"), 0, NULL, &found);
    size_t count = failed ? 0 : found.gl_pathc;
    if (!failed)
        globfree(&found);
    return count;
}

TEST(stopped_compilers_leave_nothing) {
    gs_error error;
    gs_images *images = gs_images_open(in_folder("cache"), &error);
    assert_non_null(images);
    gs_text bomb = make_bomb();
    gs_image_job *job = new_job(bomb.data);
    gs_text_free(&bomb);
    gs_images_find(images, job);
    assert_ptr_equal(wait_job(images), job);
    assert_true(job->must_compile);
    gs_images_compile(images, job);
    TEST_WAIT(count_scratch());
    gs_image_job_stop(job);
    assert_ptr_equal(wait_job(images), job);
    assert_null(job->image);
    assert_int_not_equal(job->error.code, GS_OK);
    assert_int_equal(count_scratch(), 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    gs_images_drop(images, job);
    job = new_job("__global__ void two(int *at) { at[0] = 2; }\n");
    gs_images_compile(images, job);
    gs_images_close(images); /* also while something is under way */
    assert_int_equal(count_scratch(), 0);
}

/* ---- who is trusted ---- */

static void expect_trust(const char *path, const char *words) {
    gs_error error = {.code = GS_OK};
    gs_code code = gs_check_trusted_path(path, &error);
    if (words && !strstr(error.message, words))
        print_message("%s: %s\n", path, error.message);
    assert_int_equal(code, words ? GS_E_USAGE : GS_OK);
    if (words)
        assert_non_null(strstr(error.message, words));
}

TEST(folders_that_others_can_write_are_refused) {
    run("mkdir -p %s/safe/below %s/open/below", folder, folder);
    expect_trust("/", NULL);
    expect_trust("/usr/include", NULL);
    expect_trust(in_folder("safe/below"), NULL); /* although all users can write to /tmp */
    expect_trust(in_folder("safe/below/../not/there"), NULL);
    expect_trust("/tmp", "/tmp can be written by others (mode 1777");
    expect_trust("/tmp/gridsmith-not-there", "others could make /tmp/gridsmith-not-there");
    assert_int_equal(chmod(in_folder("open"), 0770), 0);
    expect_trust(in_folder("open"), "open can be written by others (mode 0770");
    expect_trust(in_folder("open/below"), "open can be written by others (mode 0770");
    assert_int_equal(chmod(in_folder("open"), 0777), 0);
    expect_trust(in_folder("open/below/cache"), "open can be written by others (mode 0777");
    assert_int_equal(symlink("open/below", in_folder("link")), 0);
    expect_trust(in_folder("link"), "open can be written by others");
    assert_int_equal(symlink(in_folder("safe"), in_folder("open/out")), 0);
    expect_trust(in_folder("open/out"), "open can be written by others"); /* they could replace the link */
    assert_int_equal(chmod(in_folder("open"), 01777), 0);
    expect_trust(in_folder("open/below"), NULL);
    expect_trust(in_folder("open/out/below"), NULL);
    expect_trust(in_folder("open/none"), "others could make");
    assert_int_equal(symlink("circle", in_folder("circle")), 0);
    expect_trust(in_folder("circle"), "too many symbolic links");
}

TEST(files_of_others_are_refused) {
    enum { SOMEBODY = 12345 };
    gs_error error;
    if (geteuid() != 0) {
        print_message("skipped: only root can give files to others\n");
        skip();
    }
    run("mkdir -p %s/theirs/below; touch %s/theirs/below/file", folder, folder);
    assert_int_equal(chown(in_folder("theirs"), SOMEBODY, SOMEBODY), 0);
    expect_trust(in_folder("theirs/below"), "theirs belongs to user 12345");
    assert_int_equal(chown(in_folder("theirs"), 0, 0), 0);
    assert_int_equal(chown(in_folder("theirs/below/file"), SOMEBODY, SOMEBODY), 0);
    expect_trust(in_folder("theirs/below/file"), "file belongs to user 12345");
    assert_int_equal(symlink("theirs", in_folder("their-link")), 0);
    assert_int_equal(lchown(in_folder("their-link"), SOMEBODY, SOMEBODY), 0);
    expect_trust(in_folder("their-link/below"), "their-link belongs to user 12345");
    assert_int_equal(chown(in_folder("theirs/below"), SOMEBODY, SOMEBODY), 0);
    assert_null(gs_cache_open(in_folder("theirs/below"), &error));
    assert_int_equal(error.code, GS_E_USAGE);
}

/* An image that another user has put there, or that others can write, is not used. */
TEST(images_of_others_are_not_used) {
    static const char text[] = "__global__ void planted(int *at) { at[0] = 1; }\n";
    gs_error error;
    char path[300];
    gs_image *image = make(text, NULL, NULL, &error);
    assert_non_null(image);
    snprintf(path, sizeof path, "%s/%s.image", in_folder("cache"), image->key);
    gs_image_free(image);
    expect_image(text, NULL, true, true);
    assert_int_equal(chmod(path, 0622), 0);
    expect_image(text, NULL, false, true);
    run("mv %s %s; ln -s %s %s", path, in_folder("elsewhere"), in_folder("elsewhere"), path);
    expect_image(text, NULL, false, true);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        expect_image(text, NULL, false, true);
    }
    expect_image(text, NULL, true, true);
}

int main(int argc, char **argv) {
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return TEST_ALL(set_up, tear_down);
}
