/*
 * test_sm_masks.c: sets of SMs.
 *
 * GRIDSMITH_RUNS is how many random cases are played, GRIDSMITH_SEED where they start.
 */
#include "decide_support.h"

#include <string.h>

TEST(masks_move_as_few_as_can_be) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 6);
    for (int round = 0; round < plan_rounds(3000); round++) {
        int32_t sms = (int32_t)gs_random_from(&random, 1, 6), wanted[3], left = sms;
        gs_mask masks[3] = {{{0}}}, had[3];
        for (int32_t sm = 0; sm < sms; sm++) {
            int64_t user = gs_random_from(&random, 0, 3);
            if (user < 3)
                masks[user].words[0] |= 1u << sm;
        }
        for (int i = 0; i < 3; i++) {
            wanted[i] = (int32_t)gs_random_from(&random, 0, left);
            left -= wanted[i];
        }
        memcpy(had, masks, sizeof had);
        assert_int_equal(gs_decide_masks(sms, 3, wanted, masks), literal_moves(sms, 3, wanted, had));
        for (int i = 0; i < 3; i++)
            assert_int_equal(gs_mask_count(&masks[i]), wanted[i]);
        assert_int_equal(masks[0].words[0] & masks[1].words[0], 0);
        assert_int_equal((masks[0].words[0] | masks[1].words[0]) & masks[2].words[0], 0);
        assert_int_equal((masks[0].words[0] | masks[1].words[0] | masks[2].words[0]) >> sms, 0);
    }
}

TEST(masks_of_a_large_gpu) {
    gs_mask masks[2] = {{{0}}};
    assert_int_equal(gs_decide_masks(132, 2, (int32_t[]){132, 0}, masks), 132);
    assert_true(gs_mask_has(&masks[0], 131) && !gs_mask_has(&masks[0], 132));
    assert_int_equal(gs_decide_masks(132, 2, (int32_t[]){80, 52}, masks), 52);
    assert_int_equal(gs_decide_masks(132, 2, (int32_t[]){80, 52}, masks), 0);
    assert_int_equal(gs_decide_masks(132, 2, (int32_t[]){81, 51}, masks), 1);
    gs_mask before[2];
    memcpy(before, masks, sizeof before);
    assert_int_equal(gs_decide_masks(132, 2, (int32_t[]){81, 52}, masks), -1);
    assert_memory_equal(before, masks, sizeof before);
    assert_int_equal(gs_decide_masks(132, 2, (int32_t[]){0, 0}, masks), 0);
    assert_int_equal(gs_mask_count(&masks[0]) + gs_mask_count(&masks[1]), 0);
}

TEST_MAIN(NULL, NULL)
