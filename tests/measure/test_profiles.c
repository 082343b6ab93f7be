/*
 * test_profiles.c: the profile of a kernel: its curve, its class, its form, its key.
 *
 * GRIDSMITH_RUNS is how many random cases are played, GRIDSMITH_SEED where they start.
 */
#include "decide_support.h"

#include <math.h>

TEST(the_curve_is_what_was_measured) {
    gs_profile profile = {.key = 1, .sms = 100, .blocks = 1000};
    assert_int_equal(gs_profile_duration_ns(&profile), 0);
    plan_expect_near(gs_profile_share(&profile, 50), 0.5, 1e-9);
    gs_profile_ran(&profile, false, profile.blocks, 1000);
    assert_int_equal(gs_profile_duration_ns(&profile), 1000);
    plan_expect_near(gs_profile_share(&profile, 25), 0.25, 1e-9);
    gs_profile_rate(&profile, 50, 900, 1000);
    gs_profile_rate(&profile, 100, 990, 1000); /* confined costs 1% */
    plan_expect_near(gs_profile_share(&profile, 100), 0.99, 1e-9);
    plan_expect_near(gs_profile_share(&profile, 50), 0.9, 1e-9);
    plan_expect_near(gs_profile_share(&profile, 75), 0.945, 1e-9);
    plan_expect_near(gs_profile_share(&profile, 25), 0.45, 1e-9);
    plan_expect_near(gs_profile_share(&profile, 0), 0, 1e-9);
    plan_expect_near(gs_profile_share(&profile, 1000), 0.99, 1e-9);
}

TEST(impossible_measurements_are_ignored) {
    gs_profile profile = {.key = 1, .sms = 100, .blocks = 1000}, before = profile;
    gs_profile_ran(&profile, false, profile.blocks, 0);
    gs_profile_ran(&profile, false, 0, 10);
    gs_profile_rate(&profile, 0, 10, 10);
    gs_profile_rate(&profile, 101, 10, 10);
    gs_profile_rate(&profile, 10, 0, 10);
    gs_profile_rate(&profile, 10, 10, 0);
    assert_memory_equal(&profile, &before, sizeof profile);
}

TEST(a_disturbed_sample_changes_nothing) {
    gs_profile profile = {.key = 1, .sms = 100, .blocks = 1000};
    for (int i = 0; i < 7; i++)
        gs_profile_rate(&profile, 100, 1000, i == 3 ? 100000 : 1000);
    plan_expect_near(profile.alone, 1, 1e-9);
    for (int i = 0; i < 7; i++) /* but a change that lasts is seen */
        gs_profile_rate(&profile, 100, 500, 1000);
    plan_expect_near(profile.alone, 0.5, 1e-9);
}

TEST(noise_does_not_make_fewer_sms_faster) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 1);
    for (int i = 0; i < plan_rounds(2000); i++) {
        gs_profile profile = {.key = 1, .sms = SMS, .blocks = 1000};
        for (int j = 0; j < 40; j++)
            gs_profile_rate(&profile, (int32_t)gs_random_from(&random, 1, SMS),
                            (uint64_t)gs_random_from(&random, 1, 1000), 1000);
        if (gs_random_chance(&random, 50))
            gs_profile_ran(&profile, false, profile.blocks, (uint64_t)gs_random_from(&random, 100, 100000));
        for (int32_t sms = 1; sms <= SMS; sms++)
            assert_true(gs_profile_share(&profile, sms) >= gs_profile_share(&profile, sms - 1) - 1e-12);
        assert_true(gs_profile_share(&profile, SMS) <= 1 + 1e-12);
        assert_in_range(profile.point_count, 1, GS_PROFILE_POINTS);
        gs_profile_wanted(&profile, 4);
    }
}

/* Weighted isotonic regression, as its definition has it: the largest, over all beginnings, of the smallest mean. */
static double literal_rate(const gs_profile *profile, int32_t at) {
    double largest = 0;
    for (int32_t first = 0; first <= at; first++) {
        double smallest = INFINITY;
        for (int32_t last = at; last < profile->point_count; last++) {
            double sum = 0, weights = 0;
            for (int32_t i = first; i <= last; i++) {
                sum += gs_samples_median(&profile->points[i].rate) * gs_samples_kept(&profile->points[i].rate);
                weights += gs_samples_kept(&profile->points[i].rate);
            }
            smallest = fmin(smallest, sum / weights);
        }
        largest = fmax(largest, smallest);
    }
    return largest;
}

/* Where measurements contradict each other, those that were repeated count for more. */
TEST(a_rate_measured_often_counts_for_more) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 3);
    for (int i = 0; i < plan_rounds(20000); i++) {
        gs_profile profile = {.key = 1, .sms = SMS, .blocks = 1000};
        for (int64_t points = gs_random_from(&random, 1, 6); points > 0; points--) {
            int32_t sms = (int32_t)gs_random_from(&random, 1, SMS);
            for (int64_t samples = gs_random_from(&random, 1, GS_PROFILE_SAMPLES); samples > 0; samples--)
                gs_profile_rate(&profile, sms, (uint64_t)gs_random_from(&random, 100, 1000), 1000);
        }
        for (int32_t at = 0; at < profile.point_count; at++)
            plan_expect_near(gs_profile_share(&profile, profile.points[at].sms) * profile.alone,
                             literal_rate(&profile, at), 1e-9);
    }
}

/* For example the rate of a launch with few blocks. */
TEST(a_rate_that_stops_growing_needs_no_more_sms) {
    gs_profile profile = {.key = 1, .sms = SMS, .blocks = 40};
    gs_profile_ran(&profile, false, profile.blocks, 1000);
    gs_profile_rate(&profile, 20, profile.blocks, 1000);
    plan_expect_near(gs_profile_share(&profile, 20), 1, 1e-9);
    plan_expect_near(gs_profile_share(&profile, 10), 0.5, 1e-9);
    plan_expect_near(gs_profile_share(&profile, 100), 1, 1e-9);
}

/* A curve that was not measured on all SMs goes on in proportion. */
TEST(more_sms_than_were_measured_do_more) {
    gs_profile profile = {.key = 1, .sms = SMS, .blocks = 1000};
    gs_profile_rate(&profile, 33, 1000, 1000);
    plan_expect_near(profile.alone, 4, 1e-9);
    plan_expect_near(gs_profile_share(&profile, 33), 0.25, 1e-9);
    plan_expect_near(gs_profile_share(&profile, 99), 0.75, 1e-9);
}

/* Measuring as gs_profile_wanted requests, with some noise, must find any curve in a few steps. */
TEST(measuring_what_is_wanted_finds_the_curve) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 2);
    int most = 0, all = 0, count = plan_rounds(2000);
    double worst = 0;
    for (int i = 0; i < count; i++) {
        double knee = plan_random(&random, 0.05, 1), bend = plan_random(&random, 1, 4);
        bool is_smooth = gs_random_chance(&random, 50);
        gs_profile profile = {.key = 1, .sms = SMS, .blocks = 1000000};
        int steps = 0;
        gs_profile_ran(&profile, false, profile.blocks, 1000000);
        for (int32_t sms; (sms = gs_profile_wanted(&profile, 4)) > 0; steps++) {
            double x = (double)sms / SMS, truth = is_smooth ? 1 - pow(1 - x, bend) : plan_true_share(knee, sms);
            assert_true(steps < 100);
            gs_profile_rate(&profile, sms, (uint64_t)(1e6 * truth * plan_random(&random, 0.99, 1.01)), 1000000);
        }
        for (int32_t sms = 4; sms <= SMS; sms += 4) {
            double x = (double)sms / SMS, truth = is_smooth ? 1 - pow(1 - x, bend) : plan_true_share(knee, sms);
            worst = fmax(worst, fabs(gs_profile_share(&profile, sms) - truth));
        }
        all += steps;
        most = steps > most ? steps : most;
    }
    print_message("curves found in %.1f steps, %d at most; off by %.3f at most\n", (double)all / count, most, worst);
    assert_true(worst < 0.12);
    assert_true(most <= GS_PROFILE_POINTS * 3);
}

/* Of a kernel that has nine tenths of its rate on `knee` SMs. */
TEST(classes_follow_the_curve) {
    static const struct {
        int32_t knee;
        enum gs_level memory, compute;
    } kinds[] = {{40, GS_LEVEL_HIGH, GS_LEVEL_LOW},      {79, GS_LEVEL_HIGH, GS_LEVEL_LOW},       /* 0.598 of the SMs */
                 {80, GS_LEVEL_MEDIUM, GS_LEVEL_MEDIUM}, {105, GS_LEVEL_MEDIUM, GS_LEVEL_MEDIUM}, /* 0.795 */
                 {106, GS_LEVEL_LOW, GS_LEVEL_MEDIUM},   {112, GS_LEVEL_LOW, GS_LEVEL_MEDIUM},    /* 0.848 */
                 {113, GS_LEVEL_LOW, GS_LEVEL_HIGH},     {119, GS_LEVEL_LOW, GS_LEVEL_HIGH}};
    for (size_t i = 0; i < GS_COUNT(kinds); i++) {
        gs_profile profile = {.key = 1, .sms = SMS, .blocks = 1000};
        gs_profile_rate(&profile, SMS, 1000000, 1000000);
        gs_profile_rate(&profile, kinds[i].knee, 900001, 1000000);
        assert_int_equal(gs_profile_memory(&profile), i == 0 ? GS_LEVEL_HIGH : GS_LEVEL_UNKNOWN);
        gs_profile_rate(&profile, 33, 33 * 900000 / (uint64_t)kinds[i].knee, 1000000);
        assert_int_equal(gs_profile_memory(&profile), kinds[i].memory);
        assert_int_equal(gs_profile_compute(&profile), kinds[i].compute);
    }
    gs_profile fresh = {.key = 1, .sms = SMS, .blocks = 10};
    gs_profile_rate(&fresh, SMS, 10, 10);
    assert_int_equal(gs_profile_memory(&fresh), GS_LEVEL_UNKNOWN);
    assert_int_equal(gs_profile_compute(&fresh), GS_LEVEL_UNKNOWN);
    assert_string_equal(gs_level_name(GS_LEVEL_MEDIUM), "medium");
}

TEST(keys_tell_launches_apart) {
    uint32_t one[3] = {1, 2, 3}, other[3] = {1, 3, 2};
    uint64_t key = gs_profile_key(7, "k", 6, one, 0);
    assert_true(key == gs_profile_key(7, "k", 6, one, 0) && key != 0);
    assert_true(key != gs_profile_key(8, "k", 6, one, 0));
    assert_true(key != gs_profile_key(7, "kk", 6, one, 0));
    assert_true(key != gs_profile_key(7, "k", 8, one, 0));
    assert_true(key != gs_profile_key(7, "k", 6, other, 0));
    assert_true(key != gs_profile_key(7, "k", 6, one, 1));
}

/* ---- the forms of a kernel ---- */

/* A kernel whose launches differ, such as layers of one grid and different depths, on a GPU whose clock changes and
   where other things hold launches up. */
struct played {
    double loop; /* how long the block loop takes, relative to the original */
    double depths[8];
    int period, ahead; /* launches that repeat; those that are handed over before one of them is measured */
    double noise, clock;
    int held_up_percent;
};

enum { MOST_AHEAD = 80 };

static double take_ns(const struct played *played, gs_random *random, int launch, bool is_block_loop) {
    double ns = 100000 * played->depths[launch % played->period] * (is_block_loop ? played->loop : 1);
    ns *= 1 + played->noise * (plan_random(random, -1, 1) + plan_random(random, -1, 1));
    ns *= 1 + (played->clock - 1) * fmin(1, launch / 500.0);
    return gs_random_chance(random, played->held_up_percent) ? ns * plan_random(random, 1, 10) : ns;
}

/* What a comparison should come to, from all of its times: literally. */
struct times {
    double logs[2][4096]; /* original, block loop */
    int counts[2];
};

static double mean_of(const struct times *times, int form) {
    double sum = 0;
    for (int i = 0; i < times->counts[form]; i++)
        sum += times->logs[form][i];
    return sum / times->counts[form];
}

static double error_of(const struct times *times, int form) {
    double sum = 0, mean = mean_of(times, form), count = times->counts[form];
    for (int i = 0; i < times->counts[form]; i++)
        sum += (times->logs[form][i] - mean) * (times->logs[form][i] - mean);
    return sqrt(sum / (count - 1) / count);
}

/* 1: the block loop is faster by 5% for certain; -1: it is not; 0: more launches are needed. */
static int judge(const struct times *times) {
    int least = times->counts[0] < times->counts[1] ? times->counts[0] : times->counts[1];
    if (least < 8)
        return 0;
    double gain = mean_of(times, 0) - mean_of(times, 1) - log(1.05);
    double error = sqrt(pow(error_of(times, 0), 2) + pow(error_of(times, 1), 2));
    return gain > 4 * error ? 1 : gain < -4 * error || least >= 64 ? -1 : 0;
}

/* Launches it until its forms were compared. Those that were handed over before do not count. */
static int play_comparison(gs_profile *profile, const struct played *played, gs_random *random) {
    static struct times times;
    bool forms[MOST_AHEAD + 1] = {false}, was = profile->prefers_block_loop;
    int launches = 0, in_flight = played->ahead + 1, verdict = 0;
    memset(times.counts, 0, sizeof times.counts);
    for (int i = 0; i < in_flight; i++)
        forms[i] = was;
    profile->until_compared = 1; /* the next launch is the last before the comparison */
    gs_profile_ran(profile, was, profile->blocks, 100000);
    for (; !verdict; launches++) {
        int at = launches % in_flight;
        bool next = was != gs_profile_takes_other(profile), form = forms[at];
        forms[at] = next;
        uint64_t ns = (uint64_t)take_ns(played, random, launches, form);
        bool is_compared = gs_profile_is_comparing(profile) && (form != was || times.counts[!was]);
        gs_profile_ran(profile, form, profile->blocks, ns);
        if (is_compared)
            times.logs[form][times.counts[form]++] = log((double)ns);
        verdict = judge(&times);
        assert_int_equal(profile->until_compared != 0, verdict != 0);
    }
    assert_int_equal(profile->prefers_block_loop, verdict == 1);
    return launches;
}

TEST(a_block_loop_is_preferred_where_it_is_faster) {
    gs_profile profile = {.key = 1, .sms = 100, .blocks = 1000};
    gs_random random = gs_random_at(1, 0);
    struct played played = {.loop = 1 / 3.0, .depths = {1}, .period = 1, .clock = 1};
    assert_true(play_comparison(&profile, &played, &random) < 60);
    assert_true(profile.prefers_block_loop);
    for (int i = 0; i < 4096; i++) {
        assert_false(gs_profile_takes_other(&profile));
        gs_profile_ran(&profile, true, 1000, 30000);
    }
    plan_expect_near(profile.alone, 1000 / 30000.0, 1e-9);
    assert_true(gs_profile_is_comparing(&profile)); /* again */
    played.loop = 0.97;                             /* a gain of 3% is not enough */
    play_comparison(&profile, &played, &random);
    assert_false(profile.prefers_block_loop);
}

static struct played draw_played(gs_random *random) {
    struct played played = {.period = (int)gs_random_from(random, 1, 8),
                            .ahead = (int)gs_random_from(random, 0, MOST_AHEAD),
                            .noise = plan_random(random, 0, 0.05),
                            .clock = plan_random(random, 0.8, 1.25),
                            .held_up_percent = (int)gs_random_from(random, 0, 5)};
    double deep = gs_random_chance(random, 30) ? 1 : plan_random(random, 1, 8);
    for (int i = 0; i < played.period; i++)
        played.depths[i] = gs_random_chance(random, 50) ? deep : plan_random(random, 1, deep);
    return played;
}

/* Block loops of most kernels cost up to 10% (docs/reports/forms.md), or gain little. Whichever depths alternate, in
   however long a row launches are handed over, such a kernel hardly ever gets a block loop, and keeps it only until the
   next comparison. One that gains much gets one. */
TEST(a_wrong_form_is_rare_and_does_not_last) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), count = test_number("GRIDSMITH_RUNS", 100000) / 5;
    uint64_t wrong = 0, twice = 0, missed = 0, launches = 0;
    for (uint64_t i = 0; i < count; i++) {
        gs_random random = gs_random_at(seed, i);
        gs_profile profile = {.key = gs_random_next(&random), .sms = 100, .blocks = 1000};
        struct played played = draw_played(&random);
        played.loop = plan_random(&random, 0.97, 1.2);
        launches += (uint64_t)play_comparison(&profile, &played, &random);
        bool is_wrong = profile.prefers_block_loop;
        play_comparison(&profile, &played, &random);
        wrong += is_wrong;
        twice += is_wrong && profile.prefers_block_loop;
        played.loop = plan_random(&random, 0.1, 0.4);
        play_comparison(&profile, &played, &random);
        missed += !profile.prefers_block_loop;
    }
    print_message("of %llu kernels %llu got a wrong block loop, %llu twice, %llu missed one; %.1f launches each\n",
                  (unsigned long long)count, (unsigned long long)wrong, (unsigned long long)twice,
                  (unsigned long long)missed, (double)launches / (double)count);
    assert_true(wrong <= 1 + count / 1000 && twice == 0 && missed <= 1 + count / 100);
}

TEST(grids_that_are_alike_share_a_profile) {
    static const uint64_t classes[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
    for (uint64_t blocks = 1, at = 0; blocks <= 32; blocks++) {
        at += at + 1 < GS_COUNT(classes) && classes[at + 1] <= blocks;
        assert_int_equal(gs_profile_blocks(blocks), classes[at]);
    }
    assert_true(gs_profile_blocks(UINT64_MAX) == 3ull << 62);
    gs_profile profile = {.key = 1, .sms = 100, .blocks = 1024};
    gs_profile_ran(&profile, false, 1280, 1000);
    plan_expect_near(profile.alone, 1.28, 1e-9);
    assert_int_equal(gs_profile_duration_ns(&profile), 800);
}

TEST_MAIN(NULL, NULL)
