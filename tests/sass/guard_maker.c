/*
 * guard_maker.c: makes the guard of an architecture from src/kernels/sass/guard.ptx with ptxas.
 *
 * ptxas compiles the guard as a kernel. Its code is cut behind the last exit in front of the store that shows where the
 * kernel is to begin. What depends on the offset of the guard's parameter is found by compiling it again with other
 * parameters in front. What it notes of the guard in its records is kept. Behind the guard an instruction waits for all
 * scoreboards; it, and those that fill the guard up to a multiple of 128 bytes, are made of the instructions with which
 * ptxas fills up the end of a kernel.
 */
#include "test.h"

#include "guard_maker.h"
#include "kernels/cuda/cuda.h"

#include <stdlib.h>

enum {
    EXIT = 0x94d,
    BRANCH = 0x947,
    NOTHING = 0x918,
    OPCODE = 0xfff,
    ALWAYS = 7,
    LINE = 8 /* instructions in 128 bytes */
};

/* In the upper half of an instruction: which scoreboards it waits for. */
static const uint64_t wait_for_all = UINT64_C(0x3f) << 52;

static void replace_all(gs_text *text, const char *from, const char *to) {
    gs_text changed = {0};
    for (const char *at = text->data; *at;) {
        bool is_here = strncmp(at, from, strlen(from)) == 0;
        gs_text_put(&changed, is_here ? to : at, is_here ? strlen(to) : 1);
        at += is_here ? strlen(from) : 1;
    }
    gs_text_free(text);
    *text = changed;
}

static gs_text guard_text(int architecture, uint32_t padding) {
    gs_text text = {0};
    char words[100] = "", *file;
    size_t size;
    gs_error error;
    if (padding)
        snprintf(words, sizeof words, ".param .align 8 .b8 before[%u],", padding);
    assert_int_equal(gs_input_all(test_path("src/kernels/sass/guard.ptx"), 1 << 20, &file, &size, &error), GS_OK);
    gs_text_add(&text, ".version 8.8\n.target sm_%d\n.address_size 64\n", architecture);
    gs_text_put(&text, file, size);
    free(file);
    replace_all(&text, "PADDING", words);
    replace_all(&text, "%CLUSTERid", architecture >= 90 ? "%clusterid" : "%ctaid");
    replace_all(&text, "%nCLUSTERid", architecture >= 90 ? "%nclusterid" : "%nctaid");
    return text;
}

gs_cubin assemble(const gs_text *text, int architecture, const char *kernel) {
    gs_build build = {
        .name = "kernel.ptx", .text = text->data, .size = text->count, .kernels = &kernel, .kernel_count = 1};
    gs_cubin cubin;
    gs_error error;
    if (gs_cubin_make(&build, architecture, &cubin, &error) != GS_OK)
        fail_msg("sm_%d: %s", architecture, error.message);
    return cubin;
}

/* The code of the guard as a kernel. Returns its instructions, and how many registers it has. */
static uint32_t compile_guard(int architecture, uint32_t padding, uint64_t *code, uint32_t *base) {
    gs_text text = guard_text(architecture, padding);
    gs_cubin cubin = assemble(&text, architecture, "gs_guard");
    gs_sass_image image;
    gs_error error;
    assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
    assert_int_equal(gs_sass_architecture(&image), architecture);
    const gs_sass_section *section = gs_sass_find(&image, ".text.", "gs_guard");
    assert_true(section && section->bytes.count / 16 <= MOST_GUARD);
    for (size_t i = 0; i < section->bytes.count / 8; i++)
        code[i] = gs_sass_long(&section->bytes, 8 * i);
    uint32_t count = (uint32_t)(section->bytes.count / 16);
    *base = (uint32_t)gs_sass_find(&image, ".nv.constant0.", "gs_guard")->bytes.count - padding -
            (uint32_t)sizeof(gs_guard_parameter);
    gs_sass_free(&image);
    gs_cubin_free(&cubin);
    gs_text_free(&text);
    return count;
}

/* What ptxas notes of the part of its kernel that becomes the guard. */
static void take_notes(int architecture, uint32_t cut, gs_guard *guard) {
    gs_text text = guard_text(architecture, 0);
    gs_cubin cubin = assemble(&text, architecture, "gs_guard");
    gs_sass_image image;
    gs_sass_records records;
    gs_error error;
    assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
    assert_int_equal(gs_sass_records_read(&records, &gs_sass_find(&image, ".nv.info.", "gs_guard")->bytes, &error),
                     GS_OK);
    for (size_t i = 0; i < records.count; i++) {
        const gs_sass_record *record = &records.data[i];
        bool is_places =
            record->code == GS_SASS_EXITS || record->code == GS_SASS_SHUFFLES || record->code == GS_SASS_WARP_WIDE;
        bool is_other =
            record->code == GS_SASS_BLOCK_Z || record->code == GS_SASS_STACK || record->code == GS_SASS_SHUFFLE_MASKS;
        for (uint32_t at = 0; (is_places || is_other) && (at < record->count || !at); at += 4) {
            uint32_t word = record->count ? gs_sass_word(&records.bytes, record->at + at) : 0;
            if (is_places && word >= 16 * cut)
                continue;
            assert_true(guard->note_count < GS_GUARD_NOTES);
            guard->notes[guard->note_count].format = record->format;
            guard->notes[guard->note_count].code = record->code;
            guard->notes[guard->note_count++].word = word;
        }
    }
    gs_sass_records_free(&records);
    gs_sass_free(&image);
    gs_cubin_free(&cubin);
    gs_text_free(&text);
}

static uint32_t count_registers(int architecture) {
    gs_text text = guard_text(architecture, 0);
    gs_cubin cubin = assemble(&text, architecture, "gs_guard");
    uint32_t registers = (uint32_t)cubin.costs[0].registers;
    gs_cubin_free(&cubin);
    gs_text_free(&text);
    return registers;
}

static bool is_exit(uint64_t low) {
    return (low & OPCODE) == EXIT;
}

/* The instruction that a branch goes to. */
static uint64_t target_of(int architecture, const uint64_t *code, uint32_t i) {
    uint64_t low = code[2 * i], bytes = architecture >= 90 ? ((low >> 16 & 0xff) | low >> 34 << 8) * 4 : low >> 32;
    return i + 1 + bytes / 16;
}

/* The number of instructions in front of the place where the kernel begins. */
static uint32_t find_cut(int architecture, const uint64_t *code, uint32_t count) {
    uint32_t store = 0, cut = 0;
    while (store < count && code[2 * store] >> 32 != 0xdeadbeef)
        store++;
    assert_true(store < count);
    for (uint32_t i = 0; i < store; i++)
        cut = is_exit(code[2 * i]) ? i + 1 : cut;
    assert_true(cut && (code[2 * (cut - 1)] >> 12 & 7) != ALWAYS); /* those that run go on */
    assert_true(store - cut < 5);                                  /* only the store is between them */
    for (uint32_t i = 0; i < cut; i++)
        assert_true((code[2 * i] & OPCODE) != BRANCH || target_of(architecture, code, i) <= cut);
    return cut;
}

/* The stack pointer, which the first instruction loads, is the kernel's to load. */
static void leave_out_stack(uint64_t *code, const uint64_t *nothing) {
    bool is_stack = (code[0] >> 16 & 0xff) == 1;
    if (is_stack) {
        code[0] = nothing[0];
        code[1] = (nothing[1] & ~(UINT64_MAX >> 23 << 41)) | (code[1] >> 41 << 41); /* it waits as that one does */
    }
}

void make_guard(int architecture, struct made_guard *made) {
    static const uint32_t paddings[] = {8, 16, 256, 1024, 4096};
    static uint64_t code[2 * MOST_GUARD], other[2 * MOST_GUARD];
    uint32_t base, count = compile_guard(architecture, 0, code, &made->guard.parameter_base);
    uint32_t cut = find_cut(architecture, code, count);
    const uint64_t *nothing = &code[2 * (count - 1)];
    made->guard = (gs_guard){.architecture = architecture,
                             .parameter_base = made->guard.parameter_base,
                             .registers = count_registers(architecture),
                             .code = made->code};
    assert_int_equal(nothing[0] & OPCODE, NOTHING);
    for (size_t k = 0; k < GS_COUNT(paddings); k++) {
        uint32_t sites = 0;
        assert_int_equal(compile_guard(architecture, paddings[k], other, &base), count);
        assert_int_equal(base, made->guard.parameter_base);
        for (uint32_t i = 0; i < cut; i++) {
            assert_true(code[2 * i + 1] == other[2 * i + 1]);
            if (code[2 * i] == other[2 * i])
                continue;
            uint8_t shift = 0;
            while (code[2 * i] + ((uint64_t)paddings[k] << shift) != other[2 * i])
                assert_true(++shift < 64);
            assert_true(sites < GS_GUARD_SITES);
            assert_true(!k || (made->guard.sites[sites].instruction == i && made->guard.sites[sites].shift == shift));
            made->guard.sites[sites].instruction = (uint8_t)i;
            made->guard.sites[sites++].shift = shift;
        }
        assert_true(sites && (!k || sites == made->guard.site_count));
        made->guard.site_count = sites;
    }
    take_notes(architecture, cut, &made->guard);
    leave_out_stack(code, nothing);
    memcpy(made->code, code, 16 * cut);
    for (made->guard.count = cut; made->guard.count == cut || made->guard.count % LINE; made->guard.count++) {
        made->code[2 * made->guard.count] = nothing[0];
        made->code[2 * made->guard.count + 1] = nothing[1] | (made->guard.count == cut ? wait_for_all : 0);
    }
}
