/*
 * test_fatbins.c: the cubin that the driver takes is found in what a program gives it, and a copy of it uses the
 * variables of the first one.
 *
 * The files of tests/fuzz/corpus/cubin were made by nvcc (scripts/cubins.sh); the test reads them, cuts them off at
 * every byte and flips their bits. Where ptxas is installed, it makes modules that must be refused, for each
 * architecture.
 */
#include "test.h"

#include "guard_maker.h"

#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

static const int architectures[] = {80, 86, 89, 90, 100, 103, 120};

struct file {
    char *bytes;
    size_t size;
};

static struct file read_path(const char *path) {
    struct file file;
    gs_error error = {.code = GS_OK};
    if (gs_input_all(path, 1 << 22, &file.bytes, &file.size, &error) != GS_OK)
        fail_msg("%s", error.message);
    return file;
}

static struct file read_corpus(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "tests/fuzz/corpus/cubin/%s", name);
    return read_path(test_path(path));
}

/* ---- fatbins ---- */

/* The cubin with a kernel must have another one, too, which tells what it was compiled for. NULL: none is found, and
   the error says that. */
static void expect_cubin(const char *name, int architecture, const char *kernel, gs_expand *zstd, const char *other) {
    struct file file = read_corpus(name);
    gs_text cubin = {0};
    gs_sass_image image;
    gs_error error = {.code = GS_OK};
    gs_code code = gs_fatbin_find_cubin(file.bytes, file.size, architecture, kernel, zstd, &cubin, &error);
    if (strncmp(other, "only", 4) == 0) {
        assert_int_equal(code, GS_OK);
        assert_int_equal(gs_sass_read(&image, cubin.data, cubin.count, &error), GS_OK);
        assert_non_null(gs_sass_find(&image, ".text.", kernel));
        assert_non_null(gs_sass_find(&image, ".text.", other));
        gs_sass_free(&image);
    } else {
        assert_int_equal(code, GS_E_REFUSED);
        assert_string_equal(error.message, other);
        assert_int_equal(cubin.count, 0);
    }
    gs_text_free(&cubin);
    free(file.bytes);
}

TEST(the_cubin_of_the_driver_is_found) {
    static const char *const names[] = {"speed.fatbin", "size.fatbin"};
    for (size_t i = 0; i < GS_COUNT(names); i++) {
        expect_cubin(names[i], 90, "count", ZSTD_decompress, "only_90a");
        expect_cubin(names[i], 90, "only_90", ZSTD_decompress, "only_90");
        expect_cubin(names[i], 80, "count", ZSTD_decompress, "only_80");
        expect_cubin(names[i], 89, "count", ZSTD_decompress, "only_80");
        expect_cubin(names[i], 90, "only_80", ZSTD_decompress, "no cubin for sm_90 has the kernel only_80");
        expect_cubin(names[i], 100, "count", ZSTD_decompress, "no cubin for sm_100 has the kernel count");
        expect_cubin(names[i], 75, "count", ZSTD_decompress, "no cubin for sm_75 has the kernel count");
    }
    expect_cubin("speed.fatbin", 90, "count", NULL, "only_90a");
    expect_cubin("size.fatbin", 90, "count", NULL,
                 "the cubin at byte 16 is compressed by Zstandard, which is not installed");
    expect_cubin("count90.cubin", 90, "count", NULL, "only_90");
    expect_cubin("count90.cubin", 90, "absent", NULL, "no cubin for sm_90 has the kernel absent");
    expect_cubin("count90.cubin", 80, "count", NULL, "the cubin is for sm_90, not for sm_80");
    expect_cubin("count80.cubin", 86, "count", NULL, "only_80");
    expect_cubin("count100.cubin", 100, "count", NULL, "only_80");
    expect_cubin("count100.cubin", 103, "count", NULL, "the driver may translate the cubin for sm_100 to sm_103");
}

/* An entry without compression, as gs_fatbin_entry_at reads it. */
static void put_number(gs_text *text, uint64_t value, size_t count) {
    for (; count > 0; count--, value >>= 8)
        gs_text_put(text, (char[]){(char)value}, 1);
}

static void put_entry(gs_text *text, uint32_t kind, uint32_t architecture, uint64_t flags, const struct file *file) {
    put_number(text, kind, 2);
    put_number(text, 0x101, 2);
    put_number(text, 64, 4);
    put_number(text, file->size, 8);
    put_number(text, 0, 12);
    put_number(text, architecture, 4);
    put_number(text, 0, 8);
    put_number(text, flags | 0x11, 8);
    put_number(text, 0, 16);
    gs_text_put(text, file->bytes, file->size);
}

/* Which of two entries with the same kernel is taken: 1, 2, or 0 for none. All have the cubin for sm_100; the second
   one has a byte more. */
static int choose(uint32_t first, uint64_t flags, uint32_t second, uint64_t other_flags, int gpu) {
    struct file file = read_corpus("count100.cubin");
    size_t size = file.size;
    gs_text text = {0}, cubin = {0};
    gs_error error;
    for (size_t i = 0; i < 2; i++) {
        file.size = size + i; /* a NUL is behind it */
        put_entry(&text, GS_FATBIN_CUBIN, i ? second : first, i ? other_flags : flags, &file);
    }
    gs_text fatbin = {0};
    put_number(&fatbin, 0xBA55ED50, 4);
    put_number(&fatbin, 1, 2);
    put_number(&fatbin, 16, 2);
    put_number(&fatbin, text.count, 8);
    gs_text_put(&fatbin, text.data, text.count);
    gs_code code = gs_fatbin_find_cubin(fatbin.data, fatbin.count, gpu, "count", NULL, &cubin, &error);
    int chosen = code == GS_OK ? 1 + (cubin.count > size) : 0;
    gs_text_free(&text);
    gs_text_free(&fatbin);
    gs_text_free(&cubin);
    free(file.bytes);
    return chosen;
}

TEST(cubins_for_one_gpu_come_first) {
    enum { PLAIN = 0, ONE = 0x1100000, FAMILY = 0x1200000 };
    assert_int_equal(choose(100, PLAIN, 100, ONE, 100), 2);
    assert_int_equal(choose(100, ONE, 100, FAMILY, 100), 1);
    assert_int_equal(choose(100, PLAIN, 100, FAMILY, 100), 2);
    assert_int_equal(choose(100, PLAIN, 100, PLAIN, 100), 1);
    assert_int_equal(choose(103, PLAIN, 100, PLAIN, 100), 2);
    assert_int_equal(choose(103, ONE, 120, ONE, 100), 0);
}

TEST(sizes_of_images_are_known) {
    static const char *const names[] = {"speed.fatbin", "size.fatbin", "count80.cubin", "count90.cubin",
                                        "count100.cubin"};
    for (size_t i = 0; i < GS_COUNT(names); i++) {
        struct file file = read_corpus(names[i]);
        struct {
            uint32_t magic, version;
            const void *inside, *more;
        } wrapper = {0x466243b1, 1, file.bytes, NULL};
        assert_int_equal(gs_fatbin_bytes(file.bytes), file.size);
        assert_ptr_equal(gs_fatbin_unwrap(file.bytes), file.bytes);
        assert_ptr_equal(gs_fatbin_unwrap(&wrapper), file.bytes);
        free(file.bytes);
    }
    assert_int_equal(gs_fatbin_bytes("// PTX\n.version 8.8\n"), 0);
}

TEST(matches_of_lz4_repeat_and_overlap) {
    unsigned char into[64];
    /* "ab", then 20 bytes from a distance of 2, then "c". */
    static const unsigned char packed[] = {0x2f, 'a', 'b', 2, 0, 1, 0x10, 'c'};
    assert_true(gs_fatbin_lz4(packed, sizeof packed, into, 23));
    assert_memory_equal(into, "abababababababababababc", 23);
    assert_false(gs_fatbin_lz4(packed, sizeof packed, into, 22));
    assert_false(gs_fatbin_lz4(packed, sizeof packed, into, 24));
    static const unsigned char too_far[] = {0x2f, 'a', 'b', 3, 0, 1, 0x10, 'c'},
                               zero[] = {0x2f, 'a', 'b', 0, 0, 1, 0x10, 'c'}, endless[] = {0xf0, 255, 255, 255};
    assert_false(gs_fatbin_lz4(too_far, sizeof too_far, into, 23));
    assert_false(gs_fatbin_lz4(zero, sizeof zero, into, 23));
    assert_false(gs_fatbin_lz4(endless, sizeof endless, into, 64));
}

/* ---- cubins ---- */

/* The bytes that a program header covers; 0 of them behind the last one. */
static struct file segment_of(const char *bytes, size_t number) {
    uint64_t at, size, begins;
    uint16_t count;
    memcpy(&begins, bytes + 32, 8);
    memcpy(&count, bytes + 56, 2);
    if (number >= count)
        return (struct file){NULL, 0};
    memcpy(&at, bytes + begins + 56 * number + 8, 8);
    memcpy(&size, bytes + begins + 56 * number + 32, 8);
    return (struct file){(char *)bytes + at, size};
}

/* Reads a cubin and writes it, with more bytes in front of what is in memory. */
static gs_text write_longer(const char *bytes, size_t size, size_t more) {
    static const char zeros[1024];
    gs_sass_image image;
    gs_text written = {0};
    gs_error error;
    assert_int_equal(gs_sass_read(&image, bytes, size, &error), GS_OK);
    gs_text_put(&gs_sass_find(&image, ".debug_frame", "")->bytes, zeros, more);
    assert_int_equal(gs_sass_write(&image, &written, &error), GS_OK);
    gs_sass_free(&image);
    return written;
}

TEST(program_headers_follow_what_they_cover) {
    static const char *const names[] = {"count80.cubin", "count90.cubin", "count100.cubin"};
    for (size_t i = 0; i < GS_COUNT(names); i++) {
        struct file file = read_corpus(names[i]), old;
        gs_text first = write_longer(file.bytes, file.size, 0), longer = write_longer(first.data, first.count, 1024);
        uint64_t begins;
        size_t number = 0;
        memcpy(&begins, first.data + 32, 8);
        assert_int_equal(longer.count, first.count + 1024);
        for (; (old = segment_of(first.data, number)).size; number++) {
            struct file now = segment_of(longer.data, number);
            assert_int_equal(now.size, old.size);
            assert_int_equal(now.bytes - longer.data, old.bytes - first.data + 1024);
            if (old.bytes != first.data + begins)
                assert_memory_equal(now.bytes, old.bytes, old.size);
        }
        assert_true(number > 3);
        gs_text_free(&first);
        gs_text_free(&longer);
        free(file.bytes);
    }
}

/* In objects that are not linked, variables that begin as zeros and shared memory have types of their own. */
TEST(memory_without_values_takes_no_space) {
    static const uint32_t types[] = {8, 0x70000007, 0x7000000a};
    const uint64_t large = 1 << 24;
    struct file file = read_corpus("count90.cubin");
    for (size_t i = 0; i < GS_COUNT(types); i++) {
        gs_text cubin = {0}, written = {0};
        gs_sass_image image;
        gs_error error = {.code = GS_OK};
        gs_text_put(&cubin, file.bytes, file.size);
        assert_int_equal(gs_sass_read(&image, cubin.data, cubin.count, &error), GS_OK);
        size_t number = (size_t)(gs_sass_find(&image, ".nv.global", "") - image.sections.data);
        size_t head = gs_sass_long(&cubin, 40) + number * 64;
        gs_sass_free(&image);
        gs_sass_put_word(&cubin, head + 4, types[i]);
        gs_sass_put_long(&cubin, head + 32, large);
        if (gs_sass_read(&image, cubin.data, cubin.count, &error) != GS_OK)
            fail_msg("type %x: %s", types[i], error.message);
        assert_int_equal(gs_sass_write(&image, &written, &error), GS_OK);
        gs_sass_free(&image);
        assert_true(written.count <= cubin.count);
        assert_int_equal(gs_sass_read(&image, written.data, written.count, &error), GS_OK);
        assert_int_equal(image.sections.data[number].type, types[i]);
        assert_int_equal(image.sections.data[number].size, large);
        gs_sass_free(&image);
        gs_text_free(&cubin);
        gs_text_free(&written);
    }
    free(file.bytes);
}

/* ---- variables ---- */

/* A first copy of a module, which has the variables in `names`, each in spaces, at addresses made of their names. */
static uint64_t address_of(const char *name) {
    return UINT64_C(0x700000000000) | gs_hash(0, name, strlen(name)) >> 40 << 8;
}

static bool find_in_names(void *names, const char *name, uint64_t size, uint64_t *address) {
    char word[100];
    snprintf(word, sizeof word, " %s ", name);
    *address = address_of(name);
    return size > 0 && strstr(names, word);
}

/* How many relocations of the table are left, and how many numbers are in it that are the address of a name. */
static void count_table(const gs_sass_image *image, const char *names, size_t *left, size_t *numbers) {
    const gs_sass_section *table = gs_sass_find(image, ".nv.constant4", "");
    const gs_sass_section *relocations = gs_sass_find(image, ".rela", ".nv.constant4");
    char list[200], *rest = list;
    *left = *numbers = 0;
    snprintf(list, sizeof list, "%s", names);
    if (!relocations)
        relocations = gs_sass_find(image, ".rel", ".nv.constant4");
    assert_true(table && relocations);
    *left = relocations->bytes.count / gs_sass_relocation_bytes(relocations);
    for (const char *name; (name = strtok_r(rest, " ", &rest));)
        for (size_t at = 0; at < table->bytes.count; at += 8)
            *numbers += gs_sass_long(&table->bytes, at) == address_of(name);
}

/* Shares the variables in `names`; the rest of the table must be as before. */
static void expect_shared(const char *bytes, size_t size, const char *names, size_t left, size_t shared) {
    gs_sass_image image, again;
    gs_guarded_list list = {0};
    gs_text written = {0};
    gs_error error = {.code = GS_OK};
    size_t count, numbers;
    assert_int_equal(gs_sass_read(&image, bytes, size, &error), GS_OK);
    count_table(&image, names, &count, &numbers);
    assert_int_equal(count, left + shared);
    assert_int_equal(numbers, 0);
    if (gs_sass_share_variables(&image, NULL, find_in_names, (void *)names, &error) != GS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(gs_sass_guard(&image, &list, &error), GS_OK);
    assert_int_equal(gs_sass_write(&image, &written, &error), GS_OK);
    assert_int_equal(gs_sass_read(&again, written.data, written.count, &error), GS_OK);
    count_table(&again, names, &count, &numbers);
    assert_int_equal(count, left);
    assert_int_equal(numbers, shared);
    gs_sass_free(&image);
    gs_sass_free(&again);
    gs_text_free(&written);
    free(list.data);
}

static void expect_refusal(const char *bytes, size_t size, const char *names, const char *words) {
    gs_sass_image image;
    gs_error error = {.code = GS_OK};
    assert_int_equal(gs_sass_read(&image, bytes, size, &error), GS_OK);
    assert_int_equal(gs_sass_share_variables(&image, NULL, find_in_names, (void *)names, &error), GS_E_REFUSED);
    assert_string_equal(error.message, words);
    gs_sass_free(&image);
}

TEST(a_copy_uses_the_variables_of_the_first) {
    static const char *const names[] = {"count80.cubin", "count90.cubin", "count100.cubin"};
    for (size_t i = 0; i < GS_COUNT(names); i++) {
        struct file file = read_corpus(names[i]);
        expect_shared(file.bytes, file.size, " counter sums pointer ", 2, 3); /* $str and vprintf are left */
        expect_shared(file.bytes, file.size, " counter $str sums pointer vprintf ", 1, 4);
        expect_refusal(file.bytes, file.size, " sums pointer ", "variable not found: counter");
        free(file.bytes);
    }
}

/* ---- modules of ptxas ---- */

static bool has_ptxas(char *path, size_t size) {
    return gs_assembler_find(path, size);
}

static gs_text module_text(int architecture, const char *variables, const char *body) {
    gs_text text = {0};
    gs_text_add(&text, ".version 8.8\n.target sm_%d\n.address_size 64\n%s\n", architecture, variables);
    gs_text_add(&text,
                ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %%r<9>; .reg .b64 %%d<9>; .reg .f32 %%f<9>;\n"
                "ld.param.u64 %%d1, [out];\nmov.u32 %%r1, %%tid.x;\nmov.u32 %%r2, 1;\n%s\nst.global.u32 [%%d1], %%r2;\n"
                "ret;\n}\n",
                body);
    return text;
}

static void refuse_module(int architecture, const char *variables, const char *body, const char *names,
                          const char *words) {
    gs_text text = module_text(architecture, variables, body);
    gs_cubin cubin = assemble(&text, architecture, "k");
    expect_refusal(cubin.image, cubin.bytes, names, words);
    gs_cubin_free(&cubin);
    gs_text_free(&text);
}

static void share_module(int architecture, const char *variables, const char *body, const char *names, size_t left,
                         size_t shared) {
    gs_text text = module_text(architecture, variables, body);
    gs_cubin cubin = assemble(&text, architecture, "k");
    expect_shared(cubin.image, cubin.bytes, names, left, shared);
    gs_cubin_free(&cubin);
    gs_text_free(&text);
}

static const char counter[] = ".global .align 4 .u32 counter;",
                  add_counter[] = "atom.global.add.u32 %r2, [counter], 1;";

TEST(modules_with_other_memory_are_refused) {
    char path[1000];
    if (!has_ptxas(path, sizeof path))
        skip();
    for (size_t i = 0; i < GS_COUNT(architectures); i++) {
        int a = architectures[i];
        share_module(a, counter, add_counter, " counter ", 0, 1);
        share_module(a, ".global .align 1 .b8 __unnamed_7[4] = {1,2,3,4};", "ld.global.u8 %r2, [__unnamed_7+1];",
                     " counter ", 1, 0);
        share_module(a, ".global .align 4 .b8 __cudart_some[4] = {1,2,3,4};", "ld.global.u32 %r2, [__cudart_some];",
                     " counter ", 1, 0);
        /* A variable of a program with the name of a string, which the driver does not know. */
        refuse_module(a, ".global .align 4 .u32 $str$1;", "atom.global.add.u32 %r2, [$str$1], 1;", " counter ",
                      "variable not found: $str$1");
        refuse_module(a, ".global .align 4 .u32 $string = 5;", "atom.global.add.u32 %r2, [$string], 1;", " counter ",
                      "variable not found: $string");
        refuse_module(a, ".global .align 4 .u32 counter; .global .align 8 .u64 __unnamed_1[1] = {generic(counter)};",
                      "ld.global.u64 %d2, [__unnamed_1]; ld.u32 %r2, [%d2];", " counter ",
                      "a value has the address of another variable: __unnamed_1");
        share_module(a, ".global .align 4 .u32 counter; .global .align 8 .u64 pointer[1] = {generic(counter)};",
                     "ld.global.u64 %d2, [pointer]; ld.u32 %r2, [%d2];", " pointer counter ", 0, 2);
        refuse_module(a, ".global .texref picture;", "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [picture, {%r1}];",
                      " picture ", "a symbol is neither variable nor function: picture");
        refuse_module(a, ".global .align 4 .b8 counter[16777220];", add_counter, " counter ",
                      "its variables have more than 16 MiB");
    }
}

struct bank {
    const gs_sass_image *image;
    const char *known;    /* constants that are found */
    uint64_t apart_bytes; /* how much farther those of 8 bytes are than they should be */
};

static bool find_in_bank(void *context, const char *name, uint64_t size, uint64_t *address) {
    const struct bank *bank = context;
    for (size_t i = 0; i < bank->image->symbols.count; i++) {
        const gs_sass_symbol *symbol = &bank->image->symbols.data[i];
        if (strcmp(gs_sass_symbol_name(bank->image, symbol), name) == 0)
            *address = 0x7000 + symbol->value + (size == 8 ? bank->apart_bytes : 0);
    }
    return strstr(bank->known, name);
}

TEST(constants_of_a_module_are_found) {
    static const struct {
        const char *known, *words;
        uint64_t apart_bytes;
    } cases[] = {{"small wide", NULL, 0},
                 {"wide", "constant not found: small", 0},
                 {"small wide", "a constant is at another offset than the others: ", 256}};
    char path[1000];
    if (!has_ptxas(path, sizeof path))
        skip();
    for (size_t i = 0; i < GS_COUNT(architectures) * GS_COUNT(cases); i++) {
        int architecture = architectures[i / GS_COUNT(cases)];
        const char *words = cases[i % GS_COUNT(cases)].words;
        gs_text text = module_text(
            architecture, ".visible .const .align 4 .u32 small = 7; .visible .const .align 8 .u64 wide;",
            "ld.const.u32 %r2, [small]; ld.const.u64 %d2, [wide]; cvt.u32.u64 %r3, %d2; add.u32 %r2, %r2, %r3;");
        gs_cubin cubin = assemble(&text, architecture, "k");
        gs_sass_image image;
        gs_sass_constants constants;
        gs_error error = {.code = GS_OK};
        assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
        struct bank bank = {&image, cases[i % GS_COUNT(cases)].known, cases[i % GS_COUNT(cases)].apart_bytes};
        assert_int_equal(gs_sass_find_constants(&image, find_in_bank, &bank, &constants, &error),
                         words ? GS_E_REFUSED : GS_OK);
        if (words)
            assert_memory_equal(error.message, words, strlen(words));
        else
            assert_true(constants.address == 0x7000 && constants.end - constants.begin == 16 && constants.name);
        gs_sass_free(&image);
        gs_cubin_free(&cubin);
        gs_text_free(&text);
    }
}

/* Has a module assembled with line numbers, or for linking, and links it, as nvcc -lineinfo and -rdc=true do. */
static struct file make_module(const char *ptxas, int architecture, bool is_linked, const char *variables,
                               const char *body) {
    char folder[] = "/tmp/gridsmith-fatbins-XXXXXX", command[4000], path[100];
    gs_text text = module_text(architecture, variables, body);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/k.ptx", folder);
    FILE *file = fopen(path, "w");
    assert_true(file && fwrite(text.data, 1, text.count, file) == text.count && fclose(file) == 0);
    if (is_linked)
        snprintf(command, sizeof command,
                 "cd %s && %s -c -arch=sm_%d k.ptx -o k.o && %.*snvlink -arch=sm_%d k.o -o k.cubin", folder, ptxas,
                 architecture, (int)(strlen(ptxas) - strlen("ptxas")), ptxas, architecture);
    else
        snprintf(command, sizeof command, "cd %s && %s -lineinfo -arch=sm_%d k.ptx -o k.cubin", folder, ptxas,
                 architecture);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof path, "%s/k.cubin", folder);
    struct file linked = read_path(path);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    gs_text_free(&text);
    return linked;
}

static void refuse_linked(const char *ptxas, int architecture, const char *variables, const char *body,
                          const char *words) {
    struct file file = make_module(ptxas, architecture, true, variables, body);
    expect_refusal(file.bytes, file.size, " counter ", words);
    free(file.bytes);
}

TEST(addresses_in_linked_code_are_refused) {
    static const char function[] = ".func (.param .u32 r) f(.param .u32 n)\n{ .reg .b32 %r<3>; ld.param.u32 %r1, [n];\n"
                                   "add.u32 %r2, %r1, 5; st.param.u32 [r], %r2; ret; }";
    static const char call[] = "{ .param .u32 n; .param .u32 r; st.param.u32 [n], %r1;\n"
                               "call (r), f, (n); ld.param.u32 %r2, [r]; }";
    char path[1000], nvlink[1100];
    if (!has_ptxas(path, sizeof path))
        skip();
    snprintf(nvlink, sizeof nvlink, "%.*snvlink", (int)(strlen(path) - strlen("ptxas")), path);
    if (access(nvlink, X_OK) != 0)
        skip();
    for (size_t i = 0; i < GS_COUNT(architectures); i++) {
        int a = architectures[i];
        refuse_linked(path, a, counter, add_counter, "its code has the address of a variable or function: counter");
        refuse_linked(path, a, function, "mov.u64 %d2, f; st.global.u64 [%d1+8], %d2;",
                      "its code has the address of a variable or function: f");
        struct file file = make_module(path, a, true, counter, add_counter);
        gs_sass_image image;
        gs_error refusal = {.code = GS_OK};
        assert_int_equal(gs_sass_read(&image, file.bytes, file.size, &refusal), GS_OK);
        assert_int_equal(gs_sass_share_variables(&image, "k", find_in_names, " counter ", &refusal), GS_E_REFUSED);
        assert_int_equal(gs_sass_share_variables(&image, "other", find_in_names, " counter ", &refusal), GS_OK);
        gs_sass_free(&image);
        free(file.bytes);
        file = make_module(path, a, true, function, call);
        gs_error error = {.code = GS_OK};
        assert_int_equal(gs_sass_read(&image, file.bytes, file.size, &error), GS_OK);
        if (gs_sass_share_variables(&image, NULL, find_in_names, " ", &error) != GS_OK)
            fail_msg("sm_%d: %s", a, error.message);
        gs_sass_free(&image);
        free(file.bytes);
    }
}

/* Relocations of a table of jumps with a wrong number of their symbols, which are places in the code of the kernel or
   something else. */
static gs_code share_jumps(gs_sass_image *image, uint64_t place, uint32_t symbol, gs_error *error) {
    gs_sass_section *jumps = gs_sass_find(image, ".rela.nv.constant2.", "k");
    const char relocation[24] = {0};
    assert_non_null(jumps);
    jumps->link = 1;
    if (place) {
        gs_text_put(&jumps->bytes, relocation, sizeof relocation);
        gs_sass_put_long(&jumps->bytes, 8, (uint64_t)symbol << 32 | 2);
        gs_sass_put_long(&jumps->bytes, 16, place);
    }
    gs_code code = gs_sass_share_variables(image, "k", find_in_names, " ", error);
    jumps->bytes.count = 0;
    return code;
}

TEST(tables_of_jumps_are_those_of_the_kernel) {
    static const char body[] = "t: .branchtargets a, b, c, d, e; rem.u32 %r3, %r1, 5; brx.idx %r3, t;\n"
                               "a: add.u32 %r2, %r2, 5; bra e; b: mul.lo.u32 %r2, %r2, %r1; bra e;\n"
                               "c: xor.b32 %r2, %r2, 77; bra e; d: popc.b32 %r2, %r1; e:";
    char path[1000];
    if (!has_ptxas(path, sizeof path))
        skip();
    gs_text text = module_text(90, "", body);
    gs_cubin cubin = assemble(&text, 90, "k");
    gs_sass_image image;
    gs_error error = {.code = GS_OK};
    uint32_t kernel = 0;
    assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
    for (uint32_t i = 0; i < image.symbols.count; i++)
        kernel = gs_sass_is_kernel(&image.symbols.data[i]) ? i : kernel;
    assert_int_equal(share_jumps(&image, 0, 0, &error), GS_OK); /* there are none */
    assert_int_equal(share_jumps(&image, 32, kernel, &error), GS_OK);
    assert_int_equal(share_jumps(&image, 33, kernel, &error), GS_E_REFUSED);
    assert_int_equal(share_jumps(&image, 1 << 20, kernel, &error), GS_E_REFUSED);
    assert_int_equal(share_jumps(&image, 32, kernel - 1, &error), GS_E_REFUSED);
    gs_sass_free(&image);
    gs_cubin_free(&cubin);
    gs_text_free(&text);
}

static uint32_t line_of(const gs_sass_image *image, uint64_t address) {
    char *file = NULL;
    uint32_t line = 0;
    gs_sass_line(image, address, &file, &line);
    free(file);
    return line;
}

/* Where the frames of an image say that the code of their kernel begins. */
static uint64_t begin_of_frames(const gs_sass_image *image) {
    const gs_sass_section *frames = gs_sass_find(image, ".debug_frame", ""),
                          *with = gs_sass_find(image, ".rela.debug_frame", ""),
                          *without = gs_sass_find(image, ".rel.debug_frame", "");
    assert_true(frames && !with != !without);
    return with ? gs_sass_long(&with->bytes, 16) : gs_sass_long(&frames->bytes, gs_sass_long(&without->bytes, 0));
}

TEST(lines_and_frames_move_with_the_code) {
    char path[1000];
    if (!has_ptxas(path, sizeof path))
        skip();
    for (size_t i = 0; i < GS_COUNT(architectures); i++) {
        struct file file =
            make_module(path, architectures[i], false, ".file 1 \"k.cu\"", ".loc 1 2 3\nadd.u32 %r2, %r2, %r1;");
        uint64_t moved = 16 * gs_guard_find(architectures[i])->count, lines = 0;
        gs_sass_image image, guarded;
        gs_guarded_list list = {0};
        gs_error error;
        assert_int_equal(gs_sass_read(&image, file.bytes, file.size, &error), GS_OK);
        assert_int_equal(gs_sass_read(&guarded, file.bytes, file.size, &error), GS_OK);
        assert_non_null(gs_sass_find(&image, ".nv_debug_line_sass", ""));
        assert_int_equal(gs_sass_guard(&guarded, &list, &error), GS_OK);
        assert_int_equal(list.count, 1);
        assert_null(list.data[0].refused);
        for (uint64_t at = 0; at < moved; at += 16)
            assert_int_equal(line_of(&guarded, at), 0);
        for (uint64_t at = 0; at < 512; at += 16) {
            assert_int_equal(line_of(&guarded, moved + at), line_of(&image, at));
            lines += line_of(&image, at) == 2;
        }
        assert_true(lines);
        assert_int_equal(begin_of_frames(&image), 0);
        assert_int_equal(begin_of_frames(&guarded), moved);
        gs_sass_free(&image);
        gs_sass_free(&guarded);
        free(list.data);
        free(file.bytes);
    }
}

TEST(kernels_whose_address_is_taken_are_refused) {
    static const char other[] = ".visible .entry other()\n{\nret;\n}";
    char path[1000];
    if (!has_ptxas(path, sizeof path))
        skip();
    for (size_t i = 0; i < GS_COUNT(architectures); i++) {
        gs_text text = module_text(architectures[i], other, "mov.u64 %d2, other; st.global.u64 [%d1+8], %d2;");
        gs_cubin cubin = assemble(&text, architectures[i], "k");
        gs_sass_image image;
        gs_guarded_list list = {0};
        gs_error error;
        assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
        assert_int_equal(gs_sass_guard(&image, &list, &error), GS_OK);
        assert_int_equal(list.count, 2);
        for (size_t k = 0; k < list.count; k++)
            assert_string_equal(list.data[k].refused ? list.data[k].refused : "",
                                strcmp(list.data[k].kernel, "other") == 0 ? "its address is taken" : "");
        gs_sass_free(&image);
        gs_cubin_free(&cubin);
        gs_text_free(&text);
        free(list.data);
    }
}

/* ---- damage ---- */

/* Does all that is done with a cubin, or with the cubin in a fatbin. */
static void use_image(const char *bytes, size_t size) {
    gs_text cubin = {0}, written = {0};
    gs_sass_image image = {0};
    gs_guarded_list list = {0};
    if (gs_fatbin_find_cubin(bytes, size, 90, "count", ZSTD_decompress, &cubin, NULL) == GS_OK &&
        gs_sass_read(&image, cubin.data, cubin.count, NULL) == GS_OK) {
        gs_sass_share_variables(&image, NULL, find_in_names, " counter sums pointer ", NULL);
        if (gs_sass_guard(&image, &list, NULL) == GS_OK)
            assert_int_equal(gs_sass_write(&image, &written, NULL), GS_OK);
    }
    gs_sass_free(&image);
    gs_text_free(&cubin);
    gs_text_free(&written);
    free(list.data);
}

TEST(damaged_images_do_no_harm) {
    static const char *const names[] = {"speed.fatbin", "size.fatbin", "count90.cubin"};
    size_t step = test_is_brief() ? 5 : 1;
    for (size_t i = 0; i < GS_COUNT(names); i++) {
        struct file file = read_corpus(names[i]);
        for (size_t size = 0; size < file.size; size += step) {
            char *cut = malloc(size + 1); /* so that AddressSanitizer sees reads past its end */
            memcpy(cut + 1, file.bytes, size);
            use_image(cut + 1, size);
            free(cut);
        }
        for (size_t at = 0; at < file.size; at += step)
            for (unsigned k = 0; k < 3; k++) {
                char old = file.bytes[at];
                file.bytes[at] = (char)(k == 2 ? 0xff : old ^ 1 << (k * 5 + at) % 8);
                use_image(file.bytes, file.size);
                file.bytes[at] = old;
            }
        free(file.bytes);
    }
}

/* Puts a number into a cubin, which must be refused then. */
static void expect_damage(const struct file *file, size_t at, size_t bytes, uint32_t value, const char *words) {
    char *copy = malloc(file->size);
    gs_sass_image image;
    gs_error error = {.code = GS_OK};
    assert_true(at + bytes <= file->size);
    memcpy(copy, file->bytes, file->size);
    memcpy(copy + at, &value, bytes);
    assert_int_equal(gs_sass_read(&image, copy, file->size, &error), GS_E_SYNTAX);
    assert_string_equal(error.message, words);
    gs_sass_free(&image);
    free(copy);
}

TEST(damaged_numbers_are_refused) {
    enum { HEADERS_AT = 40, HEADER_BYTES_AT = 58, INFO_AT = 44 };
    static const char *const names[] = {"count80.cubin", "count90.cubin", "count100.cubin"};
    for (size_t i = 0; i < GS_COUNT(names); i++) {
        struct file file = read_corpus(names[i]);
        gs_sass_image image;
        uint64_t headers;
        size_t relocations = 0;
        assert_int_equal(gs_sass_read(&image, file.bytes, file.size, NULL), GS_OK);
        memcpy(&headers, file.bytes + HEADERS_AT, sizeof headers);
        expect_damage(&file, HEADER_BYTES_AT, 2, 320,
                      "this is not a whole cubin: headers of sections have an impossible size");
        const gs_sass_section *symbols = &image.sections.data[image.symbol_table];
        expect_damage(&file, symbols->first_at + 24, 4, 1 << 20, "this is not a whole cubin: a symbol has no name");
        for (size_t k = 0; k < image.sections.count; k++) {
            if (!gs_sass_has_relocations(&image.sections.data[k]))
                continue;
            relocations++;
            expect_damage(&file, headers + 64 * k + INFO_AT, 4, UINT32_MAX,
                          "this is not a whole cubin: there are relocations of no section");
            expect_damage(&file, headers + 64 * k + INFO_AT, 4, (uint32_t)image.sections.count,
                          "this is not a whole cubin: there are relocations of no section");
        }
        assert_true(relocations);
        gs_sass_free(&image);
        free(file.bytes);
    }
}

TEST_MAIN(NULL, NULL)
