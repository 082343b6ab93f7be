/*
 * test_access_counts.c: the transactions that the runtime counts for the accesses of a kernel, against those of
 * literal_accesses.h.
 *
 * Random blocks have warps whose lanes run one after another up to a barrier, as on the CPU, and then on. Most lanes do
 * the same; some leave accesses out, are in another round, or come a second time. In front of some accesses all lanes
 * that come to the round are told. Places have steps between lanes, some
 * are random. There are few patterns and room for few, so that in some blocks they are too many.
 */
#define _GNU_SOURCE
#include "test.h"

#define PATTERNS 300
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic" /* the runtime is compiled as GNU C */
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wtype-limits"
#include "kernels/cpu/runtime/gridsmith_accesses.c"
#pragma GCC diagnostic pop
#include "literal_accesses.h"

enum { ACCESSES = 8, MOST_WARPS = 4, MOST_STEPS = 12, MOST_WILD = 30 };

struct access {
    uint32_t bytes, is_shared, is_told, row; /* row: the lanes of a row, which have a step */
    uint64_t first, step, row_step;
};

struct step {
    uint32_t access;
    uint64_t rounds, at;
};

struct block {
    gs_random random;
    struct access accesses[ACCESSES];
    struct step steps[MOST_STEPS];
    uint32_t step_count, warps, wild; /* wild: of 1,000 times, a lane does something else */
    gs_ptx_thread threads[MOST_WARPS][LANES];
    uint32_t fast[ACCESSES], slow[ACCESSES];
};

static uint32_t draw(struct block *block, uint32_t below) {
    return (uint32_t)(gs_random_next(&block->random) % below);
}

static void make_access(struct block *block, struct access *access) {
    static const uint32_t rows[] = {32, 32, 16, 8, 3};
    *access = (struct access){.bytes = 1u << (draw(block, 3) ? 2 : draw(block, WIDTHS)),
                              .is_shared = !draw(block, 3),
                              .is_told = !draw(block, 3)};
    access->row = rows[draw(block, GS_COUNT(rows))];
    access->step = draw(block, 4) * access->bytes;
    access->row_step = draw(block, 40) * access->bytes;
    access->first = (access->is_shared ? 16 : 1u << 20) + draw(block, 4096) * access->bytes;
}

static uint64_t place_of(struct block *block, const struct access *access, const struct step *step, uint32_t lane) {
    bool is_wild = draw(block, 1000) < block->wild;
    return access->first + step->at * access->bytes +
           (is_wild ? draw(block, 3000) * access->bytes
                    : lane % access->row * access->step + lane / access->row * access->row_step);
}

static void tell(struct block *block, gs_ptx_thread *thread, const struct step *step) {
    const struct access *access = &block->accesses[step->access];
    ptx_present(thread, &block->fast[step->access], access->is_shared, access->bytes, step->rounds);
    literal_present(thread, &block->slow[step->access], access->is_shared, access->bytes, step->rounds);
}

static void execute(struct block *block, gs_ptx_thread *thread, const struct step *step) {
    uint32_t number = step->access;
    const struct access *access = &block->accesses[number];
    uint64_t place = place_of(block, access, step, thread->lane), rounds = step->rounds;
    rounds += draw(block, 1000) < block->wild;
    ptx_access(thread, &block->fast[number], access->is_shared, access->bytes, place, rounds);
    literal_access(thread, &block->slow[number], access->is_shared, access->bytes, place, rounds);
}

/* The accesses up to a barrier: of some rounds of a loop, or of none. */
static void run_part(struct block *block, uint64_t part) {
    block->step_count = 1 + draw(block, MOST_STEPS);
    for (uint32_t i = 0; i < block->step_count; i++)
        block->steps[i] = (struct step){i % ACCESSES, (part * MOST_STEPS + i / ACCESSES) << 8, draw(block, 3) * part};
    for (uint32_t warp = 0; warp < block->warps; warp++)
        for (uint32_t lane = 0; lane < LANES; lane++)
            for (uint32_t i = 0; i < block->step_count; i++) {
                uint32_t times = draw(block, 1000) >= block->wild ? 1 : 2 * draw(block, 2);
                if (block->accesses[block->steps[i].access].is_told)
                    tell(block, &block->threads[warp][lane], &block->steps[i]);
                while (times--)
                    execute(block, &block->threads[warp][lane], &block->steps[i]);
            }
}

static void run_block(struct block *block) {
    static const uint32_t often[] = {0, 0, 1, MOST_WILD};
    uint32_t parts = 1 + draw(block, 4);
    block->wild = often[draw(block, GS_COUNT(often))];
    for (uint32_t warp = 0; warp < block->warps; warp++)
        for (uint32_t lane = 0; lane < LANES; lane++)
            block->threads[warp][lane] = (gs_ptx_thread){.warp = warp, .lane = lane};
    for (uint32_t part = 0; part < parts; part++)
        run_part(block, part);
    gs_host_block_ended();
    literal_block_ended();
}

struct totals {
    int64_t known, unknown, full, lists;
};

static void check_blocks(uint64_t seed, uint64_t index, struct totals *totals) {
    static struct block block;
    block = (struct block){.random = gs_random_at(seed, index)};
    block.warps = 1 + draw(&block, MOST_WARPS);
    for (uint32_t i = 0; i < ACCESSES; i++)
        make_access(&block, &block.accesses[i]);
    for (uint32_t i = 1 + draw(&block, 3); i; i--) {
        run_block(&block);
        totals->full += counts->pattern_count == BEGUN_PATTERNS;
        totals->lists += counts->lists[0].lanes != 0;
        counts->lists[0].lanes = 0;
        for (uint32_t j = 0; j < ACCESSES; j++)
            if (block.fast[j] != block.slow[j])
                fail_msg("blocks %llu, access %u: %u, not %u", (unsigned long long)index, j, block.fast[j],
                         block.slow[j]);
    }
    for (uint32_t i = 0; i < ACCESSES; i++) {
        totals->known += block.slow[i] && block.slow[i] < NOT_KNOWN;
        totals->unknown += block.slow[i] >= NOT_KNOWN;
    }
}

TEST(counted_transactions_are_those_of_a_literal_count) {
    struct totals totals = {0};
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), runs = test_number("GRIDSMITH_RUNS", 100000) / 100 + 10;
    for (uint64_t i = 0; i < runs; i++)
        check_blocks(seed, i, &totals);
    printf("%lld accesses with a known number, %lld without; %lld blocks with too many patterns, %lld with lists\n",
           (long long)totals.known, (long long)totals.unknown, (long long)totals.full, (long long)totals.lists);
    assert_true(totals.known && totals.unknown && totals.full && totals.lists);
}

/* One lane in more rounds than there are groups for: what comes then is not known, and the others are. */
TEST(groups_for_too_many_rounds_are_as_those_of_a_literal_count) {
    gs_ptx_thread thread = {.lane = 3};
    uint32_t fast[2] = {0}, slow[2] = {0};
    for (uint64_t i = 0; i <= MOST_GROUPS; i++) {
        uint32_t number = i + 5 > MOST_GROUPS;
        ptx_access(&thread, &fast[number], 0, 4, 4096 + 4 * i, i);
        literal_access(&thread, &slow[number], 0, 4, 4096 + 4 * i, i);
    }
    gs_host_block_ended();
    literal_block_ended();
    assert_int_equal(slow[0], 1);
    assert_int_equal(slow[1], NOT_KNOWN);
    assert_memory_equal(fast, slow, sizeof fast);
}

TEST_MAIN(NULL, NULL)
