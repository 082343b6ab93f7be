/*
 * test_shares.c: how best-effort programs share what is left (src/sharing/gate/gate_share.h), on a model of a GPU.
 *
 * The model plays programs in steps of 5 us. A program launches kernels from a host that runs ahead of the GPU as far
 * as a queue allows, and waits for the GPU now and then. Beside others a program does only a part of the work that it
 * would do alone, and that part differs: short kernels wait for the blocks of long ones. Its kernels then seem to be
 * longer, which is how times are learned wrongly.
 */
#include "test.h"

#include "sharing/gate/gate_pace.h"
#include "sharing/gate/gate_share.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEP_NS = 5000,
    MS = 1000000,
    QUEUE = 1024,
    LOOK_NS = 160000,   /* how often a program that waits looks, */
    MOST_NS = 100 * MS, /* and how long it waits before a launch, at most */
    PROGRAMS = 3,
    COLLECT_EVERY = 16
};

/* What is in the queue of a program. */
struct item {
    uint64_t left_ns, began_ns;
    uint64_t others;      /* of a sample; GS_SHARE_CROWDED as well */
    uint32_t number;      /* written when it is done; 0: none */
    uint32_t copy_number; /* written when it begins; 0: none */
    bool is_copy, is_sample;
};

struct model_program {
    /* what it is */
    uint64_t kernel_ns, cpu_ns, think_ns, copy_ns; /* a launch takes the host `cpu_ns`; a copy comes before each step */
    double crowded;                                /* the part of its work that it does beside others */
    int step;                                      /* launches between two synchronizations */
    uint32_t weight;
    uint64_t begins_ns;
    /* what it does */
    gs_gate_share share;
    gs_gate_pace pace;
    gs_pace_kernel *kernel;
    struct item queue[QUEUE];
    int first, count, launched;
    bool synchronizes;
    uint64_t host_ns, waits_since_ns, collected;
    struct item samples[QUEUE]; /* done, not collected yet; `left_ns` is the measured time */
    int sample_count;
    uint64_t work_ns, held_in_vain_ns;
};

struct model {
    gs_board *board;
    gs_notice notice;
    struct model_program *programs;
    int count;
    uint64_t now_ns;
};

static struct item *head_of(struct model_program *program) {
    return program->count ? &program->queue[program->first] : NULL;
}

/* Whether it uses SMs now. */
static bool is_active(struct model_program *program) {
    struct item *head = head_of(program);
    return head && !head->is_copy;
}

static bool others_are_active(const struct model *model, const struct model_program *program) {
    for (int i = 0; i < model->count; i++)
        if (&model->programs[i] != program && is_active(&model->programs[i]))
            return true;
    return false;
}

/* ---- the GPU ---- */

static void play_gpu(struct model *model, struct model_program *program, bool is_crowded) {
    struct item *head = head_of(program);
    gs_board_share *own = &model->board->shares[program->share.slot];
    double rate = is_crowded && head && !head->is_copy ? program->crowded : 1, left = STEP_NS * rate;
    for (; head && left > 0; head = head_of(program)) {
        if (!head->began_ns) {
            head->began_ns = model->now_ns + STEP_NS - (uint64_t)(left / rate);
            if (head->copy_number)
                own->done[0] = head->copy_number;
        }
        uint64_t done = left < (double)head->left_ns ? (uint64_t)left : head->left_ns;
        program->work_ns += head->is_copy ? 0 : done;
        head->left_ns -= done;
        left -= (double)done;
        if (head->left_ns)
            return;
        if (head->number)
            own->done[0] = head->number;
        if (head->is_sample && program->sample_count < QUEUE) {
            head->left_ns = model->now_ns + STEP_NS - (uint64_t)(left / rate) - head->began_ns;
            program->samples[program->sample_count++] = *head;
        }
        program->first = (program->first + 1) % QUEUE;
        program->count--;
    }
}

/* ---- the host: what gate_wait.c does ---- */

static void collect(struct model *model, struct model_program *program) {
    uint64_t others = gs_share_others(&program->share, model->now_ns);
    for (int i = 0; i < program->sample_count; i++)
        gs_pace_learn(program->kernel, (int64_t)program->samples[i].left_ns,
                      others != GS_SHARE_CROWDED && others == program->samples[i].others);
    program->sample_count = 0;
}

static void launch(struct model *model, struct model_program *program, bool is_copy) {
    struct item item = {.left_ns = is_copy ? program->copy_ns : program->kernel_ns, .is_copy = is_copy};
    gs_pace_step step = {.expected_ns = 2000, .is_timed = true};
    if (++program->collected % COLLECT_EVERY == 0 || program->share.quiet_until_ns)
        collect(model, program);
    if (!is_copy)
        step = gs_pace_launch(&program->pace, program, 1, 0);
    program->kernel = step.kernel ? step.kernel : program->kernel;
    item.is_sample = step.wants_sample;
    item.others = gs_share_others(&program->share, model->now_ns);
    gs_share_charge(&program->share, (uint64_t)step.expected_ns, step.is_timed, model->now_ns);
    bool has_number = is_copy ? gs_share_has_others(&program->share, model->now_ns)
                              : gs_share_wants_number(&program->share, model->now_ns);
    if (has_number && is_copy) {
        item.copy_number = gs_share_take_number(&program->share, 0, true);
        gs_share_send_number(&program->share, 0, item.copy_number, model->now_ns);
    }
    if (has_number) {
        item.number = gs_share_take_number(&program->share, 0, false);
        gs_share_send_number(&program->share, 0, item.number, model->now_ns);
    }
    program->queue[(program->first + program->count++) % QUEUE] = item;
    program->launched++;
    program->waits_since_ns = 0;
    program->host_ns = model->now_ns + program->cpu_ns;
}

/* Before it waits: others see when what it has launched is done. */
static void number_last(struct model *model, struct model_program *program) {
    if (!program->count || !program->share.unnumbered_ns)
        return;
    struct item *last = &program->queue[(program->first + program->count - 1) % QUEUE];
    last->number = gs_share_take_number(&program->share, 0, false);
    gs_share_send_number(&program->share, 0, last->number, model->now_ns);
}

static void play_host(struct model *model, struct model_program *program) {
    uint64_t now = model->now_ns;
    if (program->waits_since_ns && !is_active(program) && !others_are_active(model, program))
        program->held_in_vain_ns += STEP_NS;
    if (now < program->host_ns || now < program->begins_ns || program->count == QUEUE)
        return;
    if (program->launched == program->step) { /* it waits for the GPU */
        if (!program->synchronizes)
            gs_share_synchronizes(&program->share, now);
        program->synchronizes = true;
        if (program->count)
            return;
        program->synchronizes = false;
        gs_share_synchronized(&program->share, now);
        program->launched = 0;
        program->host_ns = now + program->think_ns;
        return;
    }
    if (gs_share_must_wait(&program->share, now)) {
        if (!program->waits_since_ns)
            number_last(model, program);
        program->waits_since_ns = program->waits_since_ns ? program->waits_since_ns : now;
        gs_share_wait(&program->share, now);
        program->host_ns = now + LOOK_NS;
        if (now - program->waits_since_ns < MOST_NS)
            return;
        gs_share_forgive(&program->share, now);
    }
    launch(model, program, program->copy_ns && !program->launched);
}

static void play_model(struct model *model, uint64_t until_ns) {
    for (; model->now_ns < until_ns; model->now_ns += STEP_NS) {
        bool is_crowded[PROGRAMS];
        for (int i = 0; i < model->count; i++)
            play_host(model, &model->programs[i]);
        for (int i = 0; i < model->count; i++)
            is_crowded[i] = others_are_active(model, &model->programs[i]);
        for (int i = 0; i < model->count; i++)
            play_gpu(model, &model->programs[i], is_crowded[i]);
    }
}

static struct model open_model(struct model_program *programs, int count) {
    struct model model = {.board = aligned_alloc(64, sizeof *model.board), .programs = programs, .count = count};
    memset((void *)model.board, 0, sizeof *model.board);
    model.now_ns = MS;
    for (int i = 0; i < count; i++) {
        model.notice.shares |= (uint32_t)1 << (3 * i);
        model.notice.weights += programs[i].weight;
    }
    for (int i = 0; i < count; i++) {
        programs[i].share =
            (gs_gate_share){.board = model.board, .slot = (uint32_t)(3 * i), .weight = programs[i].weight};
        programs[i].pace.ahead_ns = 50000;
        programs[i].pace.is_shared = true;
    }
    return model;
}

/* Plays it for some seconds after all have learned their times. `shares`: the part of the time that each has worked. */
static void measure_shares(struct model_program *programs, int count, double *shares) {
    enum { LEARN_NS = 2000 * MS };
    const uint64_t seconds = 3, second_ns = 1000 * MS;
    struct model model = open_model(programs, count);
    for (int i = 0; i < count; i++)
        programs[i].share.notice = &model.notice;
    play_model(&model, LEARN_NS);
    for (int i = 0; i < count; i++)
        programs[i].work_ns = programs[i].held_in_vain_ns = 0;
    play_model(&model, LEARN_NS + seconds * second_ns);
    for (int i = 0; i < count; i++)
        shares[i] = (double)programs[i].work_ns / (double)(seconds * second_ns);
    free((void *)model.board);
}

static struct model_program *new_programs(int count) {
    struct model_program *programs = calloc((size_t)count, sizeof *programs);
    assert_non_null(programs);
    return programs;
}

/* ---- tests ---- */

/* Long kernels and short ones, which get little beside them. */
static const struct model_program
    long_kernels = {.kernel_ns = 200000, .cpu_ns = 5000, .crowded = 0.65, .step = 4000},
    short_kernels = {.kernel_ns = 15000, .cpu_ns = 5000, .crowded = 0.3, .step = 4000},
    starved = {.kernel_ns = 15000, .cpu_ns = 5000, .crowded = 0.1, .step = 4000},
    usual = {.kernel_ns = 50000, .cpu_ns = 5000, .crowded = 0.55, .step = 3000},
    huge = {.kernel_ns = 3000000, .cpu_ns = 5000, .crowded = 0.3, .step = 20},
    copying = {.kernel_ns = 20000, .cpu_ns = 5000, .crowded = 0.3, .step = 1000, .copy_ns = 5 * MS},
    /* of which the GPU is idle for most of the time, even alone */
    slow_host = {.kernel_ns = 20000, .cpu_ns = 200000, .crowded = 0.3, .step = 3000},
    impatient = {.kernel_ns = 20000, .cpu_ns = 5000, .crowded = 0.3, .step = 50, .think_ns = 200000};

static struct model_program with_weight(const struct model_program *kind, uint32_t weight) {
    struct model_program program = *kind;
    program.weight = weight;
    return program;
}

/* Programs that always have work get time by their weights, however little one of them gets beside the other. */
TEST(time_is_shared_by_weight) {
    static const struct model_program *const pairs[][2] = {{&long_kernels, &short_kernels},
                                                           {&long_kernels, &starved},
                                                           {&usual, &usual},
                                                           {&usual, &huge},
                                                           {&usual, &copying}};
    struct model_program *programs = new_programs(PROGRAMS);
    for (size_t i = 0; i < GS_COUNT(pairs); i += test_is_brief() ? 2 : 1)
        for (uint32_t weight = test_is_brief() ? 200 : 50; weight <= 200; weight *= 2) {
            double shares[PROGRAMS], wanted = weight / 100.0;
            for (int k = 0; k < 2; k++)
                programs[k] = with_weight(pairs[i][k], k ? 100 : weight);
            measure_shares(programs, 2, shares);
            if (fabs(shares[0] / shares[1] / wanted - 1) > 0.12)
                fail_msg("pair %zu, weight %u: %.3f and %.3f", i, weight, shares[0], shares[1]);
            for (int k = 0; k < 2; k++)
                assert_in_range(programs[k].held_in_vain_ns, 0, 30 * MS); /* 1% */
        }
    for (int k = 0; k < PROGRAMS; k++)
        programs[k] = with_weight((const struct model_program *[]){&usual, &short_kernels, &huge}[k], k ? 100 : 200);
    double shares[PROGRAMS];
    measure_shares(programs, PROGRAMS, shares);
    assert_in_range((int)(100 * shares[0] / shares[1]), 180, 220);
    assert_in_range((int)(100 * shares[2] / shares[1]), 90, 110);
    free(programs);
}

/* Beside a program that leaves most of the GPU, another one gets the rest, and neither loses. */
TEST(who_needs_little_delays_no_one) {
    struct model_program *programs = new_programs(2);
    double shares[2];
    programs[0] = with_weight(&usual, 100);
    programs[0].crowded = 0.8;
    programs[1] = with_weight(&slow_host, 100);
    measure_shares(programs, 2, shares);
    assert_true(shares[0] > 0.9 && shares[1] > 0.09);
    programs[0] = with_weight(&usual, 100);
    programs[1] = with_weight(&impatient, 100); /* it has work for two thirds of the time */
    measure_shares(programs, 2, shares);
    assert_true(shares[0] > 0.5 && shares[1] > 0.25);
    programs[0] = with_weight(&usual, 100);
    programs[1] = (struct model_program){.weight = 100, .begins_ns = UINT64_MAX}; /* it never launches */
    measure_shares(programs, 2, shares);
    assert_true(shares[0] > 0.99 && shares[1] == 0);
    free(programs);
}

/* Of two programs, the GPU is never left idle because one of them waits, and both get their part of the time, however
   long their kernels and however fast their hosts are. */
TEST(random_programs_share_well) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 0);
    int64_t runs = (int64_t)test_number("GRIDSMITH_RUNS", 20000) / (test_is_brief() ? 1000 : 100);
    struct model_program *programs = new_programs(2);
    for (int64_t run = 0; run < runs; run++) {
        double shares[2], total = 0;
        for (int i = 0; i < 2; i++) {
            int64_t kernel_ns = 5000 * gs_random_from(&random, 1, 20) * gs_random_from(&random, 1, 20);
            programs[i] = (struct model_program){
                .kernel_ns = (uint64_t)kernel_ns,
                .cpu_ns = 5000,
                .crowded = (double)gs_random_from(&random, 10, 45) / 100,
                .step = (int)gs_random_from(&random, 50 * MS / kernel_ns, 300 * MS / kernel_ns) + 1,
                .weight = (uint32_t)gs_random_from(&random, 50, 200)};
        }
        measure_shares(programs, 2, shares);
        double wanted = (double)programs[0].weight / programs[1].weight;
        for (int i = 0; i < 2; i++) {
            total += shares[i];
            assert_in_range(programs[i].held_in_vain_ns, 0, 60 * MS);
        }
        assert_true(fabs(log(shares[0] / shares[1] / wanted)) <= 0.3);
        assert_true(total >= programs[0].crowded + programs[1].crowded - 0.05);
    }
    free(programs);
}

/* The decision, literally, from all that the board says. */
static bool must_wait_literally(const gs_gate_share *share, uint64_t now) {
    const gs_board *board = share->board;
    bool is_ahead = false, is_quiet = false;
    for (uint32_t slot = 0; slot < GS_BOARD_SLOTS; slot++) {
        const gs_board_share *other = &board->shares[slot];
        bool is_busy = other->busy_until_ns > now;
        for (int lane = 0; lane < GS_SHARE_LANES; lane++)
            if (other->sent[lane] != other->done[lane] && other->done[lane] % 2 == 0)
                is_busy = true;
        bool has_work = (is_busy && other->expires_ns > now) || other->waits_until_ns > now;
        if (slot == share->slot || !(share->notice->shares >> slot & 1) || !has_work)
            continue;
        is_ahead |= share->pass_ns > other->pass_ns && share->pass_ns - other->pass_ns > 10 * MS;
        is_quiet |= other->quiet_until_ns > now && other->quiet_until_ns <= now + 300 * MS;
    }
    return is_ahead || is_quiet;
}

TEST(decisions_are_those_of_the_board) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 1);
    gs_board *board = aligned_alloc(64, sizeof *board);
    int waits = 0;
    for (int run = 0; run < 20000; run++) {
        const uint64_t now = (uint64_t)1000 * MS;
        gs_notice notice = {.shares = (uint32_t)gs_random_from(&random, 0, UINT32_MAX)};
        gs_gate_share share = {.board = board, .notice = &notice, .slot = (uint32_t)gs_random_from(&random, 0, 31)};
        memset((void *)board, 0, sizeof *board);
        for (int i = 0; i < 3; i++) {
            gs_board_share *other = &board->shares[gs_random_from(&random, 0, 31)];
            uint64_t *times[] = {(void *)&other->busy_until_ns, (void *)&other->waits_until_ns,
                                 (void *)&other->quiet_until_ns, (void *)&other->expires_ns};
            for (size_t k = 0; k < GS_COUNT(times); k++)
                *times[k] = gs_random_from(&random, 0, 1) ? (uint64_t)gs_random_from(&random, 0, 2000) * MS : 0;
            other->sent[gs_random_from(&random, 0, 3)] = (uint32_t)gs_random_from(&random, 0, 3);
            other->done[gs_random_from(&random, 0, 3)] = (uint32_t)gs_random_from(&random, 0, 3);
            other->pass_ns = (uint64_t)gs_random_from(&random, 0, 40) * MS;
        }
        share.weight = 100;
        share.pass_ns = (uint64_t)gs_random_from(&random, 0, 40) * MS;
        bool expected = must_wait_literally(&share, now);
        assert_int_equal(gs_share_must_wait(&share, now), expected);
        waits += expected;
    }
    assert_in_range(waits, 1000, 19000); /* both happen */
    free((void *)board);
}

/* One that has stopped is soon forgotten; and what an intruder writes holds nobody for long. */
TEST(nobody_waits_long_for_one_that_has_stopped) {
    struct model_program *programs = new_programs(2);
    programs[0] = with_weight(&usual, 100);
    programs[1] = with_weight(&starved, 100);
    struct model model = open_model(programs, 2);
    for (int i = 0; i < 2; i++)
        programs[i].share.notice = &model.notice;
    play_model(&model, (uint64_t)1000 * MS);
    programs[1].begins_ns = UINT64_MAX;
    play_model(&model, (uint64_t)1200 * MS);
    uint64_t before = programs[0].work_ns;
    play_model(&model, (uint64_t)1300 * MS);
    assert_true(programs[0].work_ns - before > 99 * MS);
    gs_board_share *stopped = &model.board->shares[programs[1].share.slot];
    *stopped = (gs_board_share){.done = {8}, .sent = {10}, .quiet_until_ns = UINT64_MAX, .expires_ns = UINT64_MAX};
    before = programs[0].work_ns;
    play_model(&model, (uint64_t)2300 * MS);
    assert_true(programs[0].work_ns - before >= 9 * programs[0].kernel_ns); /* a launch goes through every 0.1 s */
    free((void *)model.board);
    free(programs);
}

TEST_MAIN(NULL, NULL)
