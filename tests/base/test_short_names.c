/*
 * test_short_names.c: kernels that differ have names that differ, and the names are short.
 */
#include "test.h"

#include "base/base.h"

#include <stdio.h>
#include <string.h>

static const char *const kernels[] = {
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int, "
    "at::native::FillFunctor<float>, std::array<char*, 1ul>)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::Half>, std::array<char*, 3ul> "
    ">(int, at::native::CUDAFunctor_add<c10::Half>, std::array<char*, 3ul>)",
    "_Z6reduceILi256EEvPfi",
    "_Z6reduceILi512EEvPfi",
    "_ZN2ns4onlyIiLi7EEEvv",
    "nvjet_sm90_hsh_64x32_64x16_2x4_h_bz_bias_TNT",
    "(anonymous namespace)::plain(int*, float)",
    "copy(int*)",
    "copy(float*)",
    "void run<a::f(int)::{lambda()#3}::operator()() const::{lambda(float)#1}>(int)",
    "void run<a::f(int)::{lambda()#3}::operator()() const::{lambda(float)#2}>(int)",
    "void "
    "cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_simt_sgemm_128x32_8x5_nn_align1::Params)",
    "</script> = 1</script>",
    "broken<(",
    "",
};

static const char *const briefs[] = {"vectorized_elementwise_kernel<FillFunctor<float>>",
                                     "vectorized_elementwise_kernel<CUDAFunctor_add<Half>>",
                                     "reduce<256>",
                                     "reduce<512>",
                                     "only",
                                     "nvjet_sm90_hsh_64x32_64x16_2x4_h_bz_bias_TNT",
                                     "plain",
                                     "copy",
                                     "copy#2",
                                     "run<f::{lambda#3}::{lambda#1}>",
                                     "run<f::{lambda#3}::{lambda#2}>",
                                     "Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>",
                                     "</script> = 1</script>",
                                     "broken<(",
                                     ""};

TEST(kernels_have_names_that_tell_them_apart) {
    gs_short_names names = {0};
    gs_error error;
    for (size_t i = 0; i < GS_COUNT(kernels); i++)
        assert_int_equal(gs_short_names_add(&names, kernels[i], &error), GS_OK);
    assert_int_equal(gs_short_names_add(&names, kernels[0], &error), GS_OK);
    assert_int_equal(gs_short_names_make(&names, &error), GS_OK);
    for (size_t i = 0; i < GS_COUNT(kernels); i++)
        assert_string_equal(gs_short_name(&names, kernels[i]), briefs[i]);
    assert_string_equal(gs_short_name(&names, "another"), "another");
    gs_short_names_clear(&names);
}

/* Names made of few parts, so that many share identifiers and arguments: no two short names may be equal. */
TEST(random_names_stay_different) {
    static const char *const parts[] = {"a",
                                        "b::",
                                        "<",
                                        ">",
                                        ", ",
                                        "(",
                                        ")",
                                        "{lambda()#1}",
                                        " const",
                                        "4",
                                        "\xc3\xa9",
                                        "::operator()() const",
                                        "long_identifier_that_fills_the_name",
                                        "void "};
    static char texts[300][400];
    gs_error error;
    for (uint64_t round = 0; round < 40; round++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 7), round);
        gs_short_names names = {0};
        gs_names taken = {0};
        for (size_t i = 0; i < GS_COUNT(texts); i++) {
            texts[i][0] = 0;
            for (int64_t part = gs_random_from(&random, 1, 9); part > 0; part--)
                strcat(texts[i], parts[gs_random_from(&random, 0, GS_COUNT(parts) - 1)]);
            assert_int_equal(gs_short_names_add(&names, texts[i], &error), GS_OK);
        }
        assert_int_equal(gs_short_names_make(&names, &error), GS_OK);
        for (size_t i = 0; i < names.count; i++) {
            size_t own = gs_names_find(&names.by_name, texts[i]);
            const char *brief = gs_short_name(&names, texts[i]);
            assert_true(strlen(brief) <= GS_SHORT_NAME);
            assert_true(gs_is_printable(brief));
            assert_int_equal(gs_names_add(&taken, brief, own), own);
        }
        gs_names_free(&taken);
        gs_short_names_clear(&names);
    }
}

TEST_MAIN(NULL, NULL)
