/*
 * test_reported_hangs.c: hangs that people reported in public. docs/check.md has the source of each, and what was
 * assumed.
 *
 * The answer must be the one that the reporter saw, and among the fixes must be the one that helped, or a limit that
 * allows it.
 */
#include "test.h"

#include "model/check/check.h"

#include <string.h>

struct hang {
    const char *name;
    int32_t sms; /* 0: of the GPU in the file */
    bool works, in_every_order;
    int64_t waiting; /* blocks of the first kernel that waits */
    const char *fix; /* a fix for this launch order; NULL: none is needed */
    const char *fix_in_every_order;
};

static const struct hang hangs[] = {
    {"deepep-496", 0, false, false, 12, "nccl with at most 4 blocks (leaves 128 SMs free)",
     "nccl with at most 4 blocks (leaves 128 SMs free)"},
    {"vllm-32860", 0, false, false, 4, "nccl with at most 60 blocks (leaves 72 SMs free)",
     "nccl with at most 60 blocks (leaves 72 SMs free)"},
    {"vllm-32860-combine", 0, false, false, 4, "nccl with at most 4 blocks (leaves 128 SMs free)",
     "nccl with at most 4 blocks (leaves 128 SMs free)"},
    {"deepep-77", 78, false, false, 18, "dispatch with at most 78 blocks", "dispatch with at most 78 blocks"},
    {"sglang-6056", 78, false, false, 8, "dispatch with at most 78 blocks", "dispatch with at most 78 blocks"},
    {"deepep-389", 78, false, false, 12, "launch nccl first", "layout with at most 54 blocks"},
    {"deepep-389", 132, true, true, 0, NULL, NULL},
    {"flashmoe-3", 78, false, false, 108, "forward with at most 156 blocks", "forward with at most 156 blocks"},
    {"flashmoe-3", 132, true, true, 0, NULL, NULL},
    {"mirage-761", 148, false, false, 12, "launch workers first", "schedulers with at most 4 blocks"},
    {"mirage-775", 148, false, false, 60, "launch workers first", "schedulers with at most 20 blocks"},
    {"cub-369", 56, false, false, 16, "foobar with at most 112 blocks", "foobar with at most 112 blocks"},
    {"nccl-455", 0, false, false, 20, "nccl with at most 108 blocks", "nccl with at most 108 blocks"},
    {"nccl-522", 0, false, false, 16, "recv with at most 16 blocks (leaves 64 SMs free)",
     "recv with at most 16 blocks (leaves 64 SMs free)"},
    {"cutlass-2108", 0, false, false, 16, "gemm with at most 116 blocks (leaves 16 SMs free)",
     "gemm with at most 108 blocks (leaves 24 SMs free)"},
    {"vllm-41834", 48, false, false, 1, "topk with at most 48 blocks", "topk with at most 48 blocks"},
    {"b12x-282", 188, false, false, 1, "moe with at most 187 blocks (leaves 1 SM free)",
     "moe with at most 187 blocks (leaves 1 SM free)"},
    {"nccl-2031", 0, true, true, 0, NULL, NULL},
};

static gs_run *open_hang(const struct hang *hang, gs_gpu **gpu) {
    char file[100];
    snprintf(file, sizeof file, "scenarios/hangs/%s.json", hang->name);
    gs_run *run = test_run_file(file);
    *gpu = gs_gpu_open(run->gpu, NULL);
    assert_non_null(*gpu);
    if (hang->sms && hang->sms != (*gpu)->sms) {
        gs_gpu *part = gs_gpu_part(*gpu, hang->sms, NULL);
        gs_gpu_free(*gpu);
        *gpu = part;
        assert_non_null(part);
    }
    return run;
}

static void expect_fix(const struct hang *hang, const gs_gpu *gpu, const gs_run *run, bool every_order,
                       const char *wanted) {
    gs_fix_options options = {.kinds = (1 << GS_FIX_KINDS) - 1, .every_order = every_order, .budget = 100000};
    gs_fixes fixes;
    gs_text all = {0};
    bool found = false;
    assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
    assert_int_equal(fixes.unfinished, 0);
    for (size_t i = 0; i < fixes.count && !found; i++) {
        gs_text words = {0};
        gs_change_text(gpu, run, &fixes.data[i], 0, &words);
        found = strcmp(words.data, wanted) == 0;
        gs_text_add(&all, "%s\n", words.data);
        gs_text_free(&words);
    }
    if (!found)
        fail_msg("%s%s: no \"%s\" among\n%s", hang->name, every_order ? " in every order" : "", wanted,
                 all.data ? all.data : "none");
    gs_text_free(&all);
    gs_fixes_clear(&fixes);
}

TEST(hangs_are_found_and_fixed) {
    for (size_t i = 0; i < GS_COUNT(hangs); i += test_is_brief() ? 3 : 1) {
        gs_gpu *gpu;
        gs_run *run = open_hang(&hangs[i], &gpu);
        gs_check check;
        assert_int_equal(gs_check_run(gpu, run, 100000, NULL, &check, NULL), GS_OK);
        if ((check.in_this_order == GS_ANSWER_YES) != hangs[i].works ||
            (check.in_any_order == GS_ANSWER_YES) != hangs[i].in_every_order || check.here.waiting != hangs[i].waiting)
            fail_msg("%s: in this order %d, in any %d, %lld blocks wait", hangs[i].name, check.in_this_order,
                     check.in_any_order, (long long)check.here.waiting);
        if (hangs[i].fix)
            expect_fix(&hangs[i], gpu, run, false, hangs[i].fix);
        if (hangs[i].fix_in_every_order)
            expect_fix(&hangs[i], gpu, run, true, hangs[i].fix_in_every_order);
        gs_check_clear(&check);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
}

/* The changes of the maintainers, after which all kernels fit. */
TEST(what_the_maintainers_did_helps) {
    static const struct {
        const char *name;
        int32_t sms;
        size_t launch;
        int64_t blocks; /* of that launch, after the fix */
        bool in_every_order;
    } rows[] = {
        {"vllm-32860", 0, 0, 8, true},    /* NCCL_MAX_CTAS=8 */
        {"deepep-389", 78, 0, 10, true},  /* 32 experts a block */
        {"flashmoe-3", 78, 0, 156, true}, /* the number of SMs is queried */
        {"sglang-6056", 78, 0, 64, true}, /* four warp groups a block on 78 SMs */
        {"mirage-775", 148, 0, 20, true}, /* four schedulers a block */
        {"cub-369", 56, 0, 56, true},     /* the change of the reporter */
        {"nccl-522", 0, 2, 1, true},      /* one channel */
        {"b12x-282", 188, 0, 186, true},  /* two SMs are reserved */
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_gpu *gpu;
        gs_run *run = open_hang(&(struct hang){.name = rows[i].name, .sms = rows[i].sms}, &gpu);
        gs_check check;
        run->launches.data[rows[i].launch].blocks = rows[i].blocks;
        assert_int_equal(gs_check_run(gpu, run, 100000, NULL, &check, NULL), GS_OK);
        if (check.in_this_order != GS_ANSWER_YES || (check.in_any_order == GS_ANSWER_YES) != rows[i].in_every_order)
            fail_msg("%s with %lld blocks: in this order %d, in any %d", rows[i].name, (long long)rows[i].blocks,
                     check.in_this_order, check.in_any_order);
        gs_check_clear(&check);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
}

TEST_MAIN(NULL, NULL)
