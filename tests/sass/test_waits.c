/*
 * test_waits.c: machine code and PTX tell which kernels wait for memory, and machine code what a warp at an instruction
 * waits for.
 *
 * The kernels are those of waits.cu, as nvcc and ptxas compile them, for three architectures.
 */
#include "test.h"

#include "kernels/ptx/ptx.h"
#include "kernels/sass/sass.h"

#include <stdlib.h>

static void read_cubin(int architecture, gs_sass_image *image) {
    gs_error error = {.code = GS_OK};
    char file[80], *bytes = NULL;
    size_t count = 0;
    snprintf(file, sizeof file, "tests/fuzz/corpus/cubin/waits%d.cubin", architecture);
    assert_int_equal(gs_input_all(test_path(file), 1 << 20, &bytes, &count, &error), GS_OK);
    assert_int_equal(gs_sass_read(image, bytes, count, &error), GS_OK);
    free(bytes);
}

static const gs_text *code_of(const gs_sass_image *image, const char *kernel) {
    const gs_sass_section *section = gs_sass_find(image, ".text.", kernel);
    assert_non_null(section);
    return &section->bytes;
}

/* Whether a warp of a kernel can be at an instruction that waits in this way. */
static bool has_wait(const gs_text *code, int architecture, gs_sass_wait_kind kind, gs_sass_wait *wait) {
    for (size_t at = 0; at < code->count; at += 16) {
        *wait = gs_sass_wait_at(code->data, code->count, architecture, at);
        if (wait->kind == kind)
            return true;
    }
    return false;
}

static const int architectures[] = {80, 90, 100};

static const char *const waiting[] = {"waits_for_value",  "waits_to_acquire", "waits_by_adding", "waits_by_exchange",
                                      "waits_for_lock",   "waits_for_grid",   "waits_by_block",  "waits_by_block_for",
                                      "waits_at_barrier", "waits_in_turn",    "waits_and_tells"};
static const struct {
    const char *name;
    unsigned code;
} others[] = {
    {"runs_sum", GS_SASS_CODE_LOOPS},
    {"runs_search", GS_SASS_CODE_LOOPS},
    {"runs_tasks", GS_SASS_CODE_LOOPS | GS_SASS_CODE_AT_BARRIERS | GS_SASS_CODE_READS},
    {"runs_sort", GS_SASS_CODE_LOOPS | GS_SASS_CODE_AT_BARRIERS | GS_SASS_CODE_READS},
    {"runs_until", GS_SASS_CODE_LOOPS | GS_SASS_CODE_READS},
    {"runs_update", GS_SASS_CODE_LOOPS | GS_SASS_CODE_READS},
    {"runs_along", GS_SASS_CODE_LOOPS | GS_SASS_CODE_READS},
    {"at_barrier", GS_SASS_CODE_AT_BARRIERS},
    {"in_shared", GS_SASS_CODE_LOOPS | GS_SASS_CODE_POLLS_SHARED},
    {"in_malloc", GS_SASS_CODE_LOOPS | GS_SASS_CODE_CALLS | GS_SASS_CODE_RETRIES},
    {"endless", GS_SASS_CODE_LOOPS | GS_SASS_CODE_ENDLESS},
    {"read_once", GS_SASS_CODE_LOOPS | GS_SASS_CODE_ENDLESS},
};

/* Who may end the waits of kernels. */
static const struct {
    const char *name;
    unsigned code;
} released[] = {
    {"waits_for_value", 0},
    {"waits_to_acquire", 0},
    {"waits_by_adding", 0},
    {"waits_at_barrier", GS_SASS_CODE_WRITES_IT | GS_SASS_CODE_TELLS},
    {"waits_in_turn", GS_SASS_CODE_TELLS},
    {"waits_and_tells", GS_SASS_CODE_TELLS},
};

TEST(finds_kernels_that_wait) {
    for (size_t i = 0; i < GS_COUNT(architectures); i++) {
        gs_sass_image image;
        size_t at;
        read_cubin(architectures[i], &image);
        for (size_t k = 0; k < GS_COUNT(waiting); k++) {
            const gs_text *code = code_of(&image, waiting[k]);
            gs_sass_wait wait;
            if (!(gs_sass_code_in(code->data, code->count, architectures[i], &at) & GS_SASS_CODE_WAITS))
                fail_msg("sm_%d: %s does not wait", architectures[i], waiting[k]);
            assert_true(has_wait(code, architectures[i], GS_SASS_POLLS, &wait));
            assert_true(wait.is_global && wait.base != 255);
        }
        for (size_t k = 0; k < GS_COUNT(others); k++) {
            const gs_text *code = code_of(&image, others[k].name);
            unsigned found = gs_sass_code_in(code->data, code->count, architectures[i], &at);
            if (found != (others[k].code | GS_SASS_CODE_KNOWN))
                fail_msg("sm_%d: %s has code %x", architectures[i], others[k].name, found);
        }
        gs_sass_free(&image);
    }
}

TEST(knows_who_may_end_a_wait) {
    for (size_t i = 0; i < GS_COUNT(architectures); i++) {
        gs_sass_image image;
        size_t at;
        read_cubin(architectures[i], &image);
        for (size_t k = 0; k < GS_COUNT(released); k++) {
            const gs_text *code = code_of(&image, released[k].name);
            unsigned found = gs_sass_code_in(code->data, code->count, architectures[i], &at) &
                             (GS_SASS_CODE_WRITES_IT | GS_SASS_CODE_TELLS);
            if (found != released[k].code)
                fail_msg("sm_%d: %s has code %x", architectures[i], released[k].name, found);
        }
        gs_sass_free(&image);
    }
}

static void read_ptx(gs_ptx_module *module, char **text) {
    gs_error error = {.code = GS_OK};
    size_t size = 0;
    assert_int_equal(gs_input_all(test_path("tests/fuzz/corpus/ptx/waits"), 1 << 20, text, &size, &error), GS_OK);
    assert_int_equal(gs_ptx_read(module, "waits", *text, size, &error), GS_OK);
}

/* The instruction in which a kernel waits; "": none. */
static void wait_in_ptx(const gs_ptx_module *module, const char *kernel, char *word, size_t size) {
    gs_error error = {.code = GS_OK};
    uint32_t statement;
    assert_int_equal(gs_ptx_waits_for_memory(module, gs_ptx_find_entry(module, kernel), &statement, &error), GS_OK);
    word[0] = '\0';
    if (statement != GS_PTX_NONE)
        gs_ptx_token_text(module, module->statements.data[statement].word, word, size);
}

TEST(finds_the_same_in_ptx) {
    static const char *const words[] = {"ld.volatile.global.u64", "ld.acquire.gpu.u32",  "atom.global.add.u32",
                                        "atom.global.exch.b32",   "atom.global.cas.b32", "ld.acquire.gpu.u32",
                                        "ld.volatile.global.u32", "atom.global.add.u32", "ld.volatile.global.u32",
                                        "ld.volatile.global.u32", "ld.acquire.gpu.u32"};
    gs_ptx_module module;
    char *text = NULL, word[64];
    read_ptx(&module, &text);
    for (size_t i = 0; i < GS_COUNT(waiting); i++) {
        wait_in_ptx(&module, waiting[i], word, sizeof word);
        if (strcmp(word, words[i]) != 0)
            fail_msg("%s waits in \"%s\", not in %s", waiting[i], word, words[i]);
    }
    for (size_t i = 0; i < GS_COUNT(others); i++) {
        wait_in_ptx(&module, others[i].name, word, sizeof word);
        if (word[0])
            fail_msg("%s waits in %s", others[i].name, word);
    }
    gs_ptx_free(&module);
    free(text);
}

TEST(knows_other_waits) {
    gs_sass_wait wait;
    for (size_t i = 0; i < GS_COUNT(architectures); i++) {
        gs_sass_image image;
        int architecture = architectures[i];
        read_cubin(architecture, &image);
        assert_true(has_wait(code_of(&image, "at_barrier"), architecture, GS_SASS_AT_BARRIER, &wait));
        assert_int_equal(wait.barrier, 1);
        assert_true(has_wait(code_of(&image, "in_malloc"), architecture, GS_SASS_POLLS, &wait));
        assert_true(wait.calls && !wait.is_global);
        assert_true(has_wait(code_of(&image, "endless"), architecture, GS_SASS_ENDLESS, &wait));
        assert_int_equal(wait.read, 16); /* not the branch behind the end of the code */
        assert_false(has_wait(code_of(&image, "runs_sum"), architecture, GS_SASS_POLLS, &wait));
        if (architecture >= 90) {
            assert_true(has_wait(code_of(&image, "at_cluster"), architecture, GS_SASS_AT_CLUSTER, &wait));
            assert_true(has_wait(code_of(&image, "at_dependency"), architecture, GS_SASS_AT_DEPENDENCY, &wait));
            assert_true(has_wait(code_of(&image, "at_mbarrier"), architecture, GS_SASS_AT_MBARRIER, &wait));
        }
        gs_sass_free(&image);
    }
}

TEST_MAIN(NULL, NULL)
