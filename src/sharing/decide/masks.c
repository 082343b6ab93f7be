/*
 * masks.c: turns numbers of SMs into sets of SMs.
 *
 * When an SM changes its user, the workers of one kernel must leave it and those of another enter it, so few SMs
 * should. Each user keeps as many of its SMs as it wants, the lowest first, and gets the rest from SMs that no user
 * kept. No other choice moves fewer: a user that grows by n SMs needs n new ones in any case.
 */
#include "decide.h"

int32_t gs_mask_count(const gs_mask *mask) {
    int32_t count = 0;
    for (size_t i = 0; i < GS_MASK_WORDS; i++)
        count += __builtin_popcount(mask->words[i]);
    return count;
}

/* Moves the lowest SMs of `from` that are free to `to`, at most `most`. Returns how many. */
static int32_t take_sms(gs_mask *to, const gs_mask *from, gs_mask *free_sms, int32_t most) {
    int32_t taken = 0;
    for (size_t i = 0; i < GS_MASK_WORDS && taken < most; i++) {
        uint32_t available = from->words[i] & free_sms->words[i];
        for (; available && taken < most; taken++) {
            uint32_t lowest = available & -available;
            to->words[i] |= lowest;
            free_sms->words[i] &= ~lowest;
            available &= ~lowest;
        }
    }
    return taken;
}

gs_mask gs_mask_all(int32_t sms) {
    gs_mask all = {{0}};
    for (int32_t i = 0; i < sms; i++)
        all.words[i / 32] |= 1u << (i % 32);
    return all;
}

static bool is_too_much(int32_t sms, size_t count, const int32_t *wanted) {
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += gs_max(wanted[i], 0);
    return sum > sms || sms > GS_JOB_SMS;
}

int32_t gs_decide_masks(int32_t sms, size_t count, const int32_t *wanted, gs_mask *masks) {
    if (is_too_much(sms, count, wanted))
        return -1;
    gs_mask free_sms = gs_mask_all(sms);
    for (size_t i = 0; i < count; i++) {
        gs_mask had = masks[i];
        masks[i] = (gs_mask){{0}};
        take_sms(&masks[i], &had, &free_sms, wanted[i]);
    }
    int32_t moved = 0;
    for (size_t i = 0; i < count; i++)
        moved += take_sms(&masks[i], &free_sms, &free_sms, wanted[i] - gs_mask_count(&masks[i]));
    return moved;
}
