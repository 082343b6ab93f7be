/*
 * test_ptx_container.c: the PTX in files of all kinds is found; damaged files are refused.
 *
 * The files of tests/fuzz/corpus/container were made by nvcc (scripts/containers.sh); the test reads them, cuts them
 * off at every byte and flips their bits. Files that nvcc does not make are written here, byte by byte. If cuobjdump
 * and nvcc are on this machine, cuobjdump must find the same PTX.
 */
#include "test.h"

#include "kernels/ptx/ptx_input.h"

#include <elf.h>
#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

static const char small_ptx[] = "// a comment\n/* another */ .version 7.0\n.target sm_80, debug\n.address_size 64\n";

/* ---- helpers ---- */

struct file {
    char *bytes;
    size_t size;
};

static struct file read_corpus(const char *name) {
    char path[300];
    struct file file;
    snprintf(path, sizeof path, "tests/fuzz/corpus/container/%s", name);
    gs_error error = {.code = GS_OK};
    assert_int_equal(gs_input_all(test_path(path), 1 << 20, &file.bytes, &file.size, &error), GS_OK);
    return file;
}

static gs_ptx_texts find(const char *bytes, size_t size) {
    gs_ptx_texts texts;
    gs_error error = {.code = GS_OK};
    if (gs_ptx_find("file", bytes, size, &texts, &error) != GS_OK)
        fail_msg("%s", error.message);
    return texts;
}

static gs_ptx_texts find_corpus(const char *name) {
    struct file file = read_corpus(name);
    gs_ptx_texts texts = find(file.bytes, file.size);
    free(file.bytes);
    return texts;
}

static void expect_error(const char *bytes, size_t size, const char *message) {
    gs_ptx_texts texts;
    gs_error error = {.code = GS_OK};
    assert_int_equal(gs_ptx_find("some/file", bytes, size, &texts, &error), GS_E_FORMAT);
    assert_string_equal(error.message, message);
    assert_string_equal(error.file, "some/file");
    assert_int_equal(texts.count, 0);
}

static void put(gs_text *text, uint64_t value, size_t bytes) {
    char little[8];
    for (size_t i = 0; i < bytes; i++)
        little[i] = (char)(value >> 8 * i);
    gs_text_put(text, little, bytes);
}

static void pad(gs_text *text, size_t to) {
    while (text->count % to)
        put(text, 0, 1);
}

enum { RAW = 0, OLD = 0x1000, LZ4 = 0x2000, ZSTANDARD = 0x8000 };

/* A fatbin with one PTX entry of these bytes. */
static void put_fatbin(gs_text *text, const char *bytes, size_t size, uint64_t flags, uint64_t expanded_size) {
    gs_text entry = {0};
    put(&entry, 1, 2);
    put(&entry, 0x101, 2);
    put(&entry, 64, 4);
    put(&entry, (size + 7) / 8 * 8, 8);
    put(&entry, flags ? size : 0, 4);
    put(&entry, 0, 8);
    put(&entry, 80, 4);
    put(&entry, 0, 8);
    put(&entry, flags | 0x11, 8);
    put(&entry, 0, 8);
    put(&entry, expanded_size, 8);
    gs_text_put(&entry, bytes, size);
    pad(&entry, 8);
    put(text, 0xBA55ED50, 4);
    put(text, 1, 2);
    put(text, 16, 2);
    put(text, entry.count, 8);
    gs_text_put(text, entry.data, entry.count);
    gs_text_free(&entry);
}

static void expect_fatbin_error(const char *bytes, size_t size, uint64_t flags, uint64_t expanded, const char *words) {
    gs_text text = {0};
    put_fatbin(&text, bytes, size, flags, expanded);
    expect_error(text.data, text.count, words);
    gs_text_free(&text);
}

/* An ELF file with one section of this name and contents. */
static void put_elf(gs_text *text, const char *section, uint16_t machine, const char *bytes, size_t size) {
    char names[64] = "";
    size_t length = strlen(section) + 2, names_at = sizeof(Elf64_Ehdr), contents_at = names_at + (length + 7) / 8 * 8,
           sections_at = contents_at + (size + 7) / 8 * 8;
    memcpy(names + 1, section, length - 1);
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = ET_REL,
                         .e_machine = machine,
                         .e_shoff = sections_at,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = 3,
                         .e_shstrndx = 1};
    Elf64_Shdr sections[3] = {
        {0},
        {.sh_type = SHT_STRTAB, .sh_offset = names_at, .sh_size = length},
        {.sh_type = SHT_PROGBITS, .sh_name = 1, .sh_offset = contents_at, .sh_size = size},
    };
    gs_text elf = {0};
    gs_text_put(&elf, (const char *)&header, sizeof header);
    gs_text_put(&elf, names, length);
    pad(&elf, 8);
    gs_text_put(&elf, bytes, size);
    pad(&elf, 8);
    gs_text_put(&elf, (const char *)sections, sizeof sections);
    gs_text_put(text, elf.data, elf.count);
    gs_text_free(&elf);
}

/* ---- files of nvcc ---- */

TEST(every_compression_of_nvcc_is_read) {
    static const char *const names[] = {"none.fatbin", "speed.fatbin", "size.fatbin", "add.o"};
    gs_ptx_texts expected = find_corpus(names[0]);
    assert_int_equal(expected.count, 2);
    assert_string_equal(expected.data[0].target, "sm_80");
    assert_string_equal(expected.data[1].target, "sm_90");
    assert_int_equal(expected.data[1].architecture, 90);
    assert_non_null(strstr(expected.data[0].text, ".visible .entry _Z3addPfPKfi("));
    for (size_t i = 1; i < GS_COUNT(names); i++) {
        gs_ptx_texts texts = find_corpus(names[i]);
        assert_int_equal(texts.count, 2);
        assert_int_equal(texts.groups, 1);
        for (size_t k = 0; k < 2; k++) {
            assert_string_equal(texts.data[k].text, expected.data[k].text);
            assert_string_equal(texts.data[k].target, expected.data[k].target);
            assert_int_equal(texts.data[k].size, expected.data[k].size);
        }
        gs_ptx_texts_free(&texts);
    }
    gs_ptx_texts_free(&expected);
}

TEST(plain_ptx_is_read_as_it_is) {
    struct file file = read_corpus("add80.ptx");
    gs_ptx_texts texts = find(file.bytes, file.size);
    assert_int_equal(texts.count, 1);
    assert_int_equal(texts.data[0].size, file.size);
    assert_string_equal(texts.data[0].text, file.bytes);
    gs_ptx_texts_free(&texts);
    free(file.bytes);
    static const char *const heads[] = {small_ptx, ".version 8.3 .target sm_80 .address_size 64 .entry k() { ret; }",
                                        ".version 8.3/* a *//* b */.target sm_80// c\n",
                                        ".version 8.3 // .target sm_90\n\t.target\nsm_80"};
    for (size_t i = 0; i < GS_COUNT(heads); i++) {
        texts = find(heads[i], strlen(heads[i]));
        assert_string_equal(texts.data[0].target, "sm_80");
        gs_ptx_texts_free(&texts);
    }
}

TEST(static_libraries_name_their_members) {
    gs_ptx_texts texts = find_corpus("library.a");
    assert_int_equal(texts.count, 4);
    assert_int_equal(texts.groups, 2);
    assert_string_equal(texts.data[1].name, "add.o");
    assert_false(texts.data[1].is_relocatable);
    assert_string_equal(texts.data[2].name, "scale.o");
    assert_true(texts.data[2].is_relocatable);
    assert_int_equal(texts.data[2].group, 1);
    assert_non_null(strstr(texts.data[2].text, "scale"));
    gs_ptx_texts_free(&texts);
}

TEST(names_and_options_of_a_fatbin_are_kept) {
    gs_ptx_texts texts = find_corpus("named.fatbin");
    assert_int_equal(texts.count, 1);
    assert_string_equal(texts.data[0].name, "add.cu");
    assert_string_equal(texts.data[0].options, "--maxrregcount=32 ");
    gs_ptx_texts_free(&texts);
}

TEST(machine_code_is_no_ptx) {
    struct file file = read_corpus("add.cubin");
    expect_error(file.bytes, file.size, "this cubin has machine code only, no PTX");
    free(file.bytes);
    file = read_corpus("machine.fatbin");
    expect_error(file.bytes, file.size, "this file has machine code only (images: 1), no PTX");
    free(file.bytes);
}

/* ---- files written here ---- */

TEST(fatbins_follow_each_other) {
    gs_text text = {0};
    put_fatbin(&text, small_ptx, sizeof small_ptx, RAW, 0);
    put(&text, 0, 8);
    put_fatbin(&text, small_ptx, sizeof small_ptx, RAW, 0);
    gs_ptx_texts texts = find(text.data, text.count);
    assert_int_equal(texts.count, 2);
    assert_int_equal(texts.groups, 2);
    assert_int_equal(texts.data[1].group, 1);
    gs_ptx_texts_free(&texts);
    gs_text_put(&text, "something else ", 16);
    char words[100];
    snprintf(words, sizeof words, "expected a fatbin at byte %zu", text.count - 16);
    expect_error(text.data, text.count, words);
    gs_text_free(&text);
}

TEST(sections_of_both_processors_are_read) {
    static const char *const names[] = {".nv_fatbin", "__nv_relfatbin", ".rodata"};
    static const uint16_t machines[] = {EM_X86_64, EM_AARCH64};
    gs_text fatbin = {0};
    put_fatbin(&fatbin, small_ptx, sizeof small_ptx, RAW, 0);
    for (size_t i = 0; i < GS_COUNT(names); i++)
        for (size_t k = 0; k < GS_COUNT(machines); k++) {
            gs_text text = {0};
            put_elf(&text, names[i], machines[k], fatbin.data, fatbin.count);
            gs_ptx_texts texts = find(text.data, text.count);
            assert_int_equal(texts.count, 1);
            assert_string_equal(texts.data[0].text, small_ptx);
            assert_int_equal(texts.data[0].is_relocatable, i == 1);
            assert_memory_equal(text.data + texts.data[0].offset, small_ptx, sizeof small_ptx);
            gs_ptx_texts_free(&texts);
            gs_text_free(&text);
        }
    gs_text_free(&fatbin);
}

TEST(what_has_no_ptx_is_refused) {
    static const char nothing[] = "the file is neither PTX nor a file that contains PTX";
    expect_error("", 0, nothing);
    expect_error("int main(void) {}", 17, nothing);
    expect_error("// .version 7.0", 15, nothing);
    gs_text text = {0};
    put_elf(&text, ".text", EM_X86_64, "code", 4);
    expect_error(text.data, text.count, nothing);
    text.data[EI_CLASS] = ELFCLASS32;
    expect_error(text.data, text.count, "only 64-bit little-endian ELF files are read");
    gs_text_free(&text);
    expect_error(".version 7.0\n", 13, "the PTX at byte 0 has no .target");
    expect_error("!<thin>\n", 8, "a thin static library contains only the names of its objects; give a regular one");
    expect_error("!<arch>\nshort", 13, "the static library is truncated or damaged at byte 8");
}

TEST(damaged_compression_is_refused) {
    static const char damaged[] = "the compressed PTX at byte 16 is damaged";
    char packed[400];
    size_t size = ZSTD_compress(packed, sizeof packed, small_ptx, sizeof small_ptx, 3);
    gs_text text = {0};
    put_fatbin(&text, packed, size, ZSTANDARD, sizeof small_ptx);
    gs_ptx_texts texts = find(text.data, text.count);
    assert_string_equal(texts.data[0].text, small_ptx);
    gs_ptx_texts_free(&texts);
    gs_text_free(&text);
    expect_fatbin_error(packed, size, ZSTANDARD, sizeof small_ptx + 1, damaged);
    expect_fatbin_error(packed, size, ZSTANDARD, sizeof small_ptx - 1, damaged);
    expect_fatbin_error(packed, size / 2, ZSTANDARD, sizeof small_ptx, damaged);
    expect_fatbin_error(packed, size, LZ4, sizeof small_ptx, damaged);
    expect_fatbin_error(packed, size, ZSTANDARD, GS_PTX_TEXT_MOST + 1, "the PTX at byte 16 has more than 64 MiB");
    expect_fatbin_error(packed, size, OLD, sizeof small_ptx,
                        "the PTX at byte 16 has an unknown compression (flags 0x1011)");
    expect_fatbin_error("text that is no PTX", 20, RAW, 0, "the PTX at byte 80 does not begin with .version");
}

/* Cut off at every byte: an error, or fewer texts; never texts that differ. */
TEST(truncated_files_are_refused) {
    static const char *const names[] = {"none.fatbin", "speed.fatbin", "size.fatbin", "add.o", "library.a"};
    for (size_t i = 0; i < GS_COUNT(names); i++) {
        struct file file = read_corpus(names[i]);
        for (size_t size = 0; size < file.size; size++) {
            char *cut = malloc(size + 1); /* in memory of its own, so that reading past its end is detected */
            gs_ptx_texts texts;
            gs_error error = {.code = GS_OK};
            memcpy(cut, file.bytes, size);
            if (gs_ptx_find("cut", cut, size, &texts, &error) == GS_OK) {
                assert_true(strcmp(names[i], "library.a") == 0 && texts.count < 4 && texts.count % 2 == 0);
                gs_ptx_texts_free(&texts);
            } else {
                assert_true(error.message[0]);
            }
            free(cut);
        }
        free(file.bytes);
    }
}

TEST(flipped_bits_do_no_harm) {
    static const char *const names[] = {"speed.fatbin", "size.fatbin", "library.a"};
    for (size_t i = 0; i < GS_COUNT(names); i++) {
        struct file file = read_corpus(names[i]);
        for (size_t bit = 0; bit < file.size * 8; bit += 3) {
            gs_ptx_texts texts;
            file.bytes[bit / 8] ^= (char)(1 << bit % 8);
            if (gs_ptx_find("flipped", file.bytes, file.size, &texts, NULL) == GS_OK)
                gs_ptx_texts_free(&texts);
            file.bytes[bit / 8] ^= (char)(1 << bit % 8);
        }
        free(file.bytes);
    }
}

/* ---- choosing ---- */

TEST(the_best_text_is_the_highest_that_runs) {
    gs_ptx_text list[] = {
        {.target = "sm_75", .architecture = 75},   {.target = "sm_90", .architecture = 90},
        {.target = "sm_90a", .architecture = 90},  {.target = "sm_100f", .architecture = 100},
        {.target = "sm_120", .architecture = 120}, {.target = "sm_50", .architecture = 50, .group = 1}};
    gs_ptx_texts texts = {.data = list, .count = GS_COUNT(list), .groups = 2};
    static const struct {
        int capability;
        const char *target;
    } cases[] = {{70, NULL},       {75, "sm_75"},    {89, "sm_75"},  {90, "sm_90a"},  {95, "sm_90"},  {99, "sm_90"},
                 {100, "sm_100f"}, {103, "sm_100f"}, {110, "sm_90"}, {120, "sm_120"}, {121, "sm_120"}};
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        const gs_ptx_text *best = gs_ptx_texts_best(&texts, 0, cases[i].capability);
        assert_int_equal(best != NULL, cases[i].target != NULL);
        if (best)
            assert_string_equal(best->target, cases[i].target);
    }
    assert_string_equal(gs_ptx_texts_best(&texts, 1, 90)->target, "sm_50");
    assert_false(gs_ptx_target_suits("compute_80", 90));
}

/* ---- NVIDIA's tool as an oracle ---- */

static const char compile_all[] =
    "cd \"$0\" && printf '%%s\\n' 'template <int N> __global__ void k(float *p) { p[threadIdx.x] *= N; }' "
    "'template __global__ void k<3>(float *);' >k.cu && for mode in none size speed balance default; do "
    "nvcc --compress-mode=$mode -gencode arch=compute_80,code=compute_80 -gencode "
    "arch=compute_90,code=[sm_90,compute_90] "
    "-%s -o file.$mode k.cu && mkdir -p out.$mode && (cd out.$mode && cuobjdump -xptx all ../file.$mode >list) || "
    "exit; "
    "done 2>/dev/null";

static void compare_with_cuobjdump(const char *folder, const char *mode) {
    gs_ptx_texts texts;
    gs_error error = {.code = GS_OK};
    gs_text path = {0};
    gs_text_add(&path, "%s/file.%s", folder, mode);
    assert_int_equal(gs_ptx_find_in_file(path.data, &texts, &error), GS_OK);
    assert_int_equal(texts.count, 2);
    for (size_t i = 0; i < texts.count; i++) {
        char *bytes;
        size_t size;
        gs_text_clear(&path);
        gs_text_add(&path, "%s/out.%s/file.%zu.%s.ptx", folder, mode, i + 1, texts.data[i].target);
        assert_int_equal(gs_input_all(path.data, 1 << 20, &bytes, &size, &error), GS_OK);
        assert_int_equal(size, texts.data[i].size);
        assert_string_equal(bytes, texts.data[i].text);
        free(bytes);
    }
    gs_ptx_texts_free(&texts);
    gs_text_free(&path);
}

TEST(cuobjdump_finds_the_same) {
    static const char *const modes[] = {"none", "size", "speed", "balance", "default"}, *const kinds[] = {"fatbin",
                                                                                                          "c"};
    if (system("command -v cuobjdump nvcc >/dev/null") != 0)
        skip();
    char *folder = gs_folder_make(NULL), script[1000], command[1200];
    assert_non_null(folder);
    for (size_t kind = 0; kind < GS_COUNT(kinds); kind++) {
        snprintf(script, sizeof script, compile_all, kinds[kind]);
        assert_int_equal(setenv("GRIDSMITH_SCRIPT", script, 1), 0);
        snprintf(command, sizeof command, "sh -c \"$GRIDSMITH_SCRIPT\" %s", folder);
        assert_int_equal(system(command), 0);
        for (size_t i = 0; i < GS_COUNT(modes); i++)
            compare_with_cuobjdump(folder, modes[i]);
    }
    gs_folder_remove(folder);
    free(folder);
}

TEST_MAIN(NULL, NULL)
