/*
 * test_bound.c: no work ends later than its bound.
 *
 * The figures of the finishing-time paper are compared cycle by cycle; the search with trying every schedule; the
 * proven bound with the search; runs of blocks, played cycle by cycle with adversarial schedulers, with their bound;
 * and runs with everything that a run can have, played by the engine, with theirs.
 */
#include "test.h"

#include "literal_bound.h"
#include "model/bound/bound.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

static gs_error error;

static gs_program *paper(int64_t repetitions, gs_flat *flat) {
    gs_program *program = gs_program_paper(repetitions, &error);
    assert_non_null(program);
    assert_int_equal(gs_flat_make(flat, program, &error), GS_OK);
    return program;
}

static gs_program *program_from(const char *text) {
    gs_input *input = gs_input_memory("test", text, strlen(text), &error);
    error = (gs_error){.code = GS_OK};
    gs_program *program = gs_program_input(input, &error);
    gs_input_close(input);
    return program;
}

/* ---- the figures ---- */

/* Plays and compares with rows of letters, a dot where a warp waits. */
static void assert_figure(int64_t repetitions, gs_order_rule rule, int64_t cycles, const char *const *rows) {
    gs_flat flat;
    gs_program *program = paper(repetitions, &flat);
    gs_schedule schedule;
    assert_int_equal(gs_schedule_play(&flat, 4, rule, true, &schedule, &error), GS_OK);
    assert_int_equal(schedule.cycles, cycles);
    for (int64_t warp = 0; warp < 4; warp++) {
        char row[64] = "";
        memset(row, '.', (size_t)cycles);
        for (int32_t i = 0; i < flat.instructions; i++)
            row[schedule.issued[warp * flat.instructions + i] - 1] = flat.letter[i];
        for (size_t at = (size_t)cycles; at && row[at - 1] == '.'; at--)
            row[at - 1] = '\0';
        assert_string_equal(row, rows[warp]);
    }
    gs_schedule_clear(&schedule);
    gs_flat_clear(&flat);
    gs_program_free(program);
}

TEST(figures_come_out_cycle_by_cycle) {
    static const char *const figure_3a[] = {"CLLCS", "C..L.LCS", ".C....L.LCS", ".C.......L.LCS"};
    static const char *const figure_3b[] = {"CL...LC..S", "C.L...LC..S", ".C.L...LC..S", ".C..L...LC..S"};
    /* The paper has no picture of these two: they follow from the rule of Figure 3(a) and fairness, and end where the
       text says, 8 cycles later for each repetition. */
    static const char *const figure_4[] = {"CLLC.....LLCS", "C..LLC.....L.LCS", ".C...LLC......L.LCS",
                                           ".C.....LLC.......L.LCS"};
    static const char *const figure_5[] = {"CLLC.....LLC.....LLCS", "C..LLC.....LLC.....L.LCS",
                                           ".C...LLC.....LLC......L.LCS", ".C.....LLC.....LLC.......L.LCS"};
    assert_figure(1, GS_WARP_BY_WARP, 14, figure_3a);
    assert_figure(1, GS_ROUND_ROBIN_WARPS, 13, figure_3b);
    assert_figure(2, GS_WARP_BY_WARP, 22, figure_4);
    assert_figure(3, GS_WARP_BY_WARP, 30, figure_5);
}

TEST(the_formula_is_the_papers) {
    static const int64_t warps[] = {0, 4, 3, 4, 1};
    int64_t cycles;
    assert_int_equal(gs_formula_cycles(4, 1, &cycles, &error), GS_OK);
    assert_int_equal(cycles, 14);
    assert_int_equal(gs_formula_cycles(4, 3, &cycles, &error), GS_OK);
    assert_int_equal(cycles, 30);
    assert_int_equal(gs_formula_kernel(warps, GS_COUNT(warps), 2, &cycles, &error), GS_OK);
    assert_int_equal(cycles, 22);
    assert_int_equal(gs_formula_cycles(INT64_MAX / 4, 9, &cycles, &error), GS_E_UNSUPPORTED);
}

/* ---- a schedule is what it claims to be ---- */

static void assert_schedule(const gs_flat *flat, const gs_schedule *schedule, bool fair) {
    literal_warps warps = {.flat = flat, .count = schedule->warps, .fair = fair};
    int64_t last = 0;
    for (int32_t cycle = 1; cycle <= schedule->cycles; cycle++) {
        uint64_t selected = 0;
        for (int64_t i = 0; i < warps.count; i++)
            if (warps.done[i] < flat->instructions && schedule->issued[i * flat->instructions + warps.done[i]] == cycle)
                selected |= UINT64_C(1) << i;
        assert_true(literal_may_select(&warps, selected, cycle));
        literal_select(&warps, selected, cycle);
    }
    for (int64_t i = 0; i < warps.count; i++) {
        assert_int_equal(warps.done[i], flat->instructions);
        int64_t end = warps.issue[i] + literal_latency(flat, flat->instructions - 1) - 1;
        last = end > last ? end : last;
    }
    assert_int_equal(last, schedule->cycles);
}

/* ---- every schedule, literally ---- */

static void assert_search(const gs_flat *flat, int64_t warps, bool fair, bool literally) {
    gs_search_options options = {.fair = fair};
    gs_worst worst;
    assert_int_equal(gs_search(flat, warps, &options, &worst, &error), GS_OK);
    assert_true(worst.exact);
    assert_int_equal(worst.cycles, worst.schedule.cycles);
    assert_schedule(flat, &worst.schedule, fair);
    literal_warps start = {.flat = flat, .count = warps, .fair = fair};
    if (literally)
        assert_int_equal(worst.cycles, literal_worst(&start, 1));
    gs_worst_clear(&worst);
}

TEST(the_search_finds_what_trying_everything_finds) {
    int64_t tried = 0, wanted = test_number("GRIDSMITH_RUNS", 100000) / 200;
    uint64_t seed = test_number("GRIDSMITH_SEED", 11);
    for (uint64_t i = 0; tried < wanted; i++) {
        int64_t warps;
        gs_flat flat;
        gs_program *program = gs_random_program(seed, i, &warps, &error);
        assert_non_null(program);
        assert_int_equal(gs_flat_make(&flat, program, &error), GS_OK);
        bool small = warps > 1 && flat.instructions * warps <= 13 && warps <= 4;
        tried += small;
        for (int fair = 0; fair < 2; fair++)
            if (small || i % 8 == 0)
                assert_search(&flat, warps, fair, small);
        gs_flat_clear(&flat);
        gs_program_free(program);
    }
}

/* ---- the formula against the worst case ---- */

TEST(what_the_formula_is_worth_up_to_12_warps_and_8_repetitions) {
    gs_bound_options options = {.search = true};
    for (int64_t warps = 1; warps <= 12; warps++)
        for (int64_t repeat = 1; repeat <= 8; repeat++) {
            gs_bound bound;
            gs_program *program = gs_program_paper(repeat, &error);
            assert_int_equal(gs_bound_of(program, warps, &options, &bound, &error), GS_OK);
            int64_t memory = warps * (2 * repeat + 1);
            assert_int_equal(bound.formula_cycles, memory + 2);
            assert_int_equal(bound.exact_fair_cycles, warps == 1 ? 3 * repeat + 2 : memory + 2);
            assert_int_equal(bound.exact_cycles, warps == 2 ? memory + 1 + (repeat + 1) / 2 : memory + 1 + repeat);
            assert_int_equal(bound.proven_cycles, memory + 1 + repeat);
            gs_program_free(program);
        }
}

/* The text of the paper lets two warps be selected in a cycle, its figures three. With two the formula is too small
   even for one repetition. */
TEST(two_a_cycle_are_slower_than_the_figures) {
    gs_bound_options options = {.search = true};
    gs_bound bound;
    gs_program *program = gs_program_paper(1, &error);
    program->issue = 2;
    assert_int_equal(gs_bound_of(program, 4, &options, &bound, &error), GS_OK);
    assert_int_equal(bound.formula_cycles, 14);
    assert_int_equal(bound.exact_cycles, 15);
    gs_program_free(program);
}

/* ---- proven bounds ---- */

TEST(no_random_program_ends_after_its_proven_bound) {
    int64_t count = test_number("GRIDSMITH_RUNS", 100000) / 10;
    gs_compared compared = {0};
    if (gs_compare(test_number("GRIDSMITH_SEED", 12), 0, count, &compared, &error) != GS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(compared.programs, count);
    print_message("%lld programs, mean %.3f, most %.3f\n", (long long)count, compared.sum / (double)count,
                  compared.worst);
    if (compared.below)
        fail_msg("the bound of program %lld is too small", (long long)compared.first_below);
}

/* Programs of the shape of Theorem 3 are rare among random ones. */
TEST(programs_with_one_bottleneck_end_by_theorem_3) {
    int64_t count = test_number("GRIDSMITH_RUNS", 100000) / 100, exact = 0;
    for (int64_t i = 0; i < count; i++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 13), (uint64_t)i);
        gs_text text = {0};
        gs_text_add(&text, "{\"schema\":\"gridsmith.program/1\",\"sm\":{\"issue\":9,\"units\":[");
        gs_text_add(&text,
                    "{\"name\":\"m\",\"warps\":1},{\"name\":\"a\",\"warps\":%d},{\"name\":\"b\",\"warps\":%d}]},",
                    (int)gs_random_from(&random, 1, 3), (int)gs_random_from(&random, 1, 3));
        gs_text_add(&text, "\"program\":[");
        for (int64_t left = gs_random_from(&random, 1, 4); left; left--) {
            if (gs_random_chance(&random, 60))
                gs_text_add(&text, "{\"unit\":\"%s\"},", gs_random_chance(&random, 50) ? "a" : "b");
            gs_text_add(&text, "{\"unit\":\"m\"}%s", left > 1 ? "," : "]}");
        }
        gs_program *program = program_from(text.data);
        assert_non_null(program);
        assert_true(gs_proven_bottleneck(program) >= 0);
        int64_t warps = gs_random_from(&random, 1, 5);
        gs_bound bound;
        gs_bound_options options = {.search = true};
        assert_int_equal(gs_bound_of(program, warps, &options, &bound, &error), GS_OK);
        assert_true(bound.exact_cycles <= bound.proven_cycles);
        exact += bound.exact_cycles == bound.proven_cycles;
        gs_program_free(program);
        gs_text_free(&text);
    }
    assert_true(exact > count / 2);
}

TEST(bounds_are_known_at_any_size) {
    gs_bound bound;
    gs_program *program = gs_program_paper(1000000000, &error);
    gs_bound_options options = {.search = true};
    assert_int_equal(gs_bound_of(program, 64, &options, &bound, &error), GS_OK);
    assert_int_equal(bound.formula_cycles, INT64_C(128000000066));
    assert_int_equal(bound.proven_cycles, INT64_C(129000000065));
    assert_int_equal(bound.exact_cycles, GS_NOT_KNOWN);
    assert_int_equal(gs_bound_of(program, INT64_C(1000000000000), NULL, &bound, &error), GS_E_UNSUPPORTED);
    assert_int_equal(gs_bound_of(program, 0, NULL, &bound, &error), GS_E_USAGE);
    gs_program_free(program);
    assert_null(gs_program_paper(0, &error));
}

TEST(a_search_stops_at_its_memory) {
    gs_flat flat;
    gs_program *program = paper(8, &flat);
    program->issue = 2;
    gs_search_options options = {.memory_bytes = 1 << 20};
    gs_worst worst;
    assert_int_equal(gs_search(&flat, 12, &options, &worst, &error), GS_OK);
    assert_false(worst.exact);
    assert_non_null(strstr(worst.stopped, " 1 MB"));
    assert_schedule(&flat, &worst.schedule, false);
    gs_worst_clear(&worst);
    gs_flat_clear(&flat);
    gs_program_free(program);
}

/* ---- anomalies ---- */

/* Cases that a search found: a change that reduces work makes the worst case later. */
TEST(kept_anomalies_are_anomalies) {
    static const char *const pairs[] = {"faster-unit", "shorter-program", "more-places"};
    for (size_t i = 0; i < GS_COUNT(pairs); i++) {
        int64_t cycles[2];
        for (int after = 0; after < 2; after++) {
            char path[200];
            snprintf(path, sizeof path, GRIDSMITH_SOURCE "/scenarios/bound/%s-%s.json", pairs[i],
                     after ? "after" : "before");
            gs_program *program = gs_program_open(path, &error);
            assert_non_null(program);
            gs_bound_options options = {.search = true};
            gs_bound bound;
            assert_int_equal(gs_bound_of(program, program->warps, &options, &bound, &error), GS_OK);
            cycles[after] = bound.exact_cycles;
            gs_program_free(program);
        }
        assert_true(cycles[1] > cycles[0]);
    }
}

/* ---- programs in files ---- */

#define SM "\"sm\":{\"issue\":2,\"units\":[{\"name\":\"alu\",\"warps\":2,\"cycles\":2},{\"name\":\"m\",\"warps\":1}]}"

static void assert_refused(const char *text, const char *words) {
    assert_null(program_from(text));
    if (!strstr(error.message, words))
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
}

TEST(mistakes_in_programs_are_told) {
    static const char head[] = "{\"schema\":\"gridsmith.program/1\"," SM ",\"program\":";
    static const struct {
        const char *program, *words;
    } wrong[] = {{"[]}", "not empty"},
                 {"[{\"unit\":\"fpu\"}]}", "\"fpu\" is not"},
                 {"[{\"unit\":\"alu\",\"latency\":1}]}", "at least the 2 cycles"},
                 {"[{\"repeat\":0,\"body\":[{\"unit\":\"m\"}]}]}", "a program must end"},
                 {"[{\"repeat\":null,\"body\":[{\"unit\":\"m\"}]}]}", "a program must end"},
                 {"[{\"repeat\":2}]}", "\"body\" is missing"},
                 {"[{\"repeat\":2,\"body\":[]}]}", "not empty"},
                 {"[{\"unit\":\"m\",\"letter\":\"xy\"}]}", "one visible ASCII character"},
                 {"[{\"unit\":\"m\"}]} {}", "but more follows"},
                 {"[3]}", "must be an object"}};
    char text[600];
    for (size_t i = 0; i < GS_COUNT(wrong); i++) {
        snprintf(text, sizeof text, "%s%s", head, wrong[i].program);
        assert_refused(text, wrong[i].words);
    }
    assert_refused("{\"schema\":\"gridsmith.program/1\",\"sm\":{\"issue\":1,\"units\":[]},\"program\":[]}", "1 to 16");
    assert_refused("{\"schema\":\"gridsmith.program/1\",\"sm\":{\"issue\":1,\"units\":[{\"name\":\"a\",\"warps\":0}]},"
                   "\"program\":[{\"unit\":\"a\"}]}",
                   "from 1 to");
    assert_refused("", "no program");
}

TEST(programs_are_written_as_they_are_read) {
    for (uint64_t i = 0; i < 200; i++) {
        int64_t warps;
        gs_program *program = gs_random_program(5, i, &warps, &error), *again;
        gs_text once = {0}, twice = {0};
        gs_program_text(program, &once);
        assert_non_null(again = program_from(once.data));
        gs_program_text(again, &twice);
        assert_string_equal(once.data, twice.data);
        gs_program_free(program);
        gs_program_free(again);
        gs_text_free(&once);
        gs_text_free(&twice);
    }
}

static void remove_spaces(char *text) {
    char *to = text;
    for (; *text; text++)
        if (*text != ' ')
            *to++ = *text;
    *to = '\0';
}

/* The file has spaces between its tokens; the written text has none. */
TEST(measurements_are_read_in_any_spacing) {
    const char *path = test_path("corpus/h200-bounds.jsonl.gz");
    gs_measured measured = {0};
    gs_text text = {0};
    char *file;
    size_t size;
    assert_int_equal(gs_input_all(path, 10000000, &file, &size, &error), GS_OK);
    assert_int_equal(gs_measured_read(path, &measured, &error), GS_OK);
    gs_measured_text(&measured, &text);
    assert_null(strchr(text.data, ' '));
    assert_non_null(strchr(file, ' '));
    remove_spaces(file);
    assert_string_equal(text.data, file);
    gs_measured again = {0};
    gs_input *input = gs_input_memory("again", text.data, text.count, &error);
    assert_int_equal(gs_measured_input(input, &again, &error), GS_OK);
    assert_int_equal(again.samples.count, measured.samples.count);
    gs_input_close(input);
    gs_measured_clear(&again);
    gs_measured_clear(&measured);
    gs_text_free(&text);
    free(file);
}

/* Sub-blocks: before the first repetition, each round of an innermost one, after the last. */
TEST(sub_blocks_are_the_rounds_of_innermost_repetitions) {
    gs_program *program =
        program_from("{\"schema\":\"gridsmith.program/1\"," SM ",\"program\":[{\"unit\":\"m\"},{\"repeat\":2,\"body\":["
                     "{\"unit\":\"m\"},{\"repeat\":2,\"body\":[{\"unit\":\"alu\"},{\"unit\":\"m\"}]}]},{\"unit\":"
                     "\"m\"}]}");
    static const int32_t expected[] = {0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3};
    gs_flat flat;
    assert_non_null(program);
    assert_int_equal(gs_flat_make(&flat, program, &error), GS_OK);
    assert_int_equal(flat.instructions, GS_COUNT(expected));
    assert_memory_equal(flat.sub_block, expected, sizeof expected);
    gs_flat_clear(&flat);
    gs_program_free(program);
}

/* ---- runs: blocks played cycle by cycle ---- */

enum { MOST_ON_GPU = 400 };

struct player {
    const gs_gpu *gpu;
    const gs_run *run;
    gs_flat *flats; /* by launch */
    gs_dispatcher *dispatcher;
    gs_random random;
    int adversary; /* 0: random order, 1: youngest first, 2: oldest first */
    int64_t next_launch, next_block, time, last_end;
    struct resident {
        int64_t launch;
        int handle, sm;
        int32_t warps, running;
        int32_t done[32];
        int64_t issue[32];
    } blocks[MOST_ON_GPU];
    size_t block_count;
};

static void start_blocks(struct player *player) {
    while (player->next_launch < (int64_t)player->run->launches.count) {
        const gs_launch *launch = &player->run->launches.data[player->next_launch];
        int kernel = gs_dispatcher_kernel(player->dispatcher, &launch->shape, NULL);
        int sm = gs_dispatcher_next(player->dispatcher, kernel);
        if (sm == GS_WAIT)
            return;
        assert_true(player->block_count < MOST_ON_GPU);
        struct resident *block = &player->blocks[player->block_count++];
        *block = (struct resident){.launch = player->next_launch,
                                   .handle = gs_dispatcher_place(player->dispatcher, kernel, sm),
                                   .sm = sm,
                                   .warps = (launch->shape.threads + 31) / 32};
        block->running = block->warps;
        if (++player->next_block == launch->blocks) {
            player->next_block = 0;
            player->next_launch++;
        }
    }
}

/* One cycle of one SM: warps in some order, each selected if there is a place. */
static void play_sm(struct player *player, int sm) {
    const gs_program *program = player->flats[0].program;
    int64_t places[GS_MOST_UNITS], issue = program->issue;
    size_t order[MOST_ON_GPU], count = 0;
    for (size_t unit = 0; unit < program->units.count; unit++)
        places[unit] = program->units.data[unit].warps;
    for (size_t i = 0; i < player->block_count; i++) {
        struct resident *block = &player->blocks[i];
        const gs_flat *flat = &player->flats[block->launch];
        if (block->sm != sm)
            continue;
        size_t at = player->adversary == 2   ? count
                    : player->adversary == 1 ? 0
                                             : (size_t)gs_random_from(&player->random, 0, (int64_t)count);
        memmove(order + at + 1, order + at, (count++ - at) * sizeof *order);
        order[at] = i;
        for (int32_t warp = 0; warp < block->warps; warp++)
            if (block->done[warp]) {
                int16_t unit = flat->unit[block->done[warp] - 1];
                places[unit] -= player->time < block->issue[warp] + program->units.data[unit].cycles;
            }
    }
    for (size_t i = 0; i < count; i++) {
        struct resident *block = &player->blocks[order[i]];
        const gs_flat *flat = &player->flats[block->launch];
        for (int32_t warp = 0; warp < block->warps && issue; warp++) {
            int32_t done = block->done[warp];
            if (done == flat->instructions || !places[flat->unit[done]] ||
                (done && player->time < block->issue[warp] + literal_latency(flat, done - 1)))
                continue;
            places[flat->unit[done]]--;
            issue--;
            block->issue[warp] = player->time;
            block->done[warp]++;
        }
    }
}

static void end_blocks(struct player *player) {
    for (size_t i = 0; i < player->block_count;) {
        struct resident *block = &player->blocks[i];
        const gs_flat *flat = &player->flats[block->launch];
        bool ended = true;
        for (int32_t warp = 0; warp < block->warps; warp++)
            ended = ended && block->done[warp] == flat->instructions &&
                    player->time >= block->issue[warp] + literal_latency(flat, flat->instructions - 1) - 1;
        if (!ended) {
            i++;
            continue;
        }
        gs_dispatcher_release(player->dispatcher, block->handle);
        memmove(block, block + 1, (--player->block_count - i) * sizeof *block);
    }
}

static int64_t play_run(struct player *player) {
    player->dispatcher = gs_dispatcher_new(player->gpu, NULL);
    player->time = player->next_launch = player->next_block = 0;
    player->block_count = 0;
    start_blocks(player);
    while (player->block_count) {
        player->time++;
        for (int sm = 0; sm < player->gpu->sms; sm++)
            play_sm(player, sm);
        end_blocks(player);
        start_blocks(player);
    }
    gs_dispatcher_free(player->dispatcher);
    return player->time;
}

/* One or two kernels of a few blocks each, on a GPU of a few SMs. */
static gs_run *random_kernels(gs_random *random) {
    gs_run *run = gs_run_new(&error);
    int64_t count = gs_random_from(random, 1, 2);
    for (int64_t i = 0; i < count; i++) {
        gs_launch launch = numbered_launch(i);
        launch.blocks = gs_random_from(random, 1, 12);
        launch.shape = gs_shape_of((int32_t)gs_random_from(random, 1, 12) * 32, 128,
                                   gs_random_chance(random, 40) ? gs_random_from(random, 1, 50) * 1000 : 0);
        assert_int_equal(gs_run_add_launch(run, &launch, &error), GS_OK);
    }
    return run;
}

static gs_program *small_program(gs_random *random, const gs_program *sm) {
    for (;;) {
        int64_t warps;
        gs_program *program = gs_random_program(21, gs_random_next(random), &warps, &error);
        if (!sm || gs_program_same_sm(program, sm))
            return program;
        gs_program_free(program);
    }
}

TEST(no_run_ends_after_its_bound) {
    int64_t count = test_number("GRIDSMITH_RUNS", 100000) / 250, at_once = 0;
    double quotients = 0;
    for (int64_t i = 0; i < count; i++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 14), (uint64_t)i);
        gs_gpu *gpu = gs_gpu_open("rtx3090", &error);
        gpu->sms = (int32_t)gs_random_from(&random, 1, 3);
        gs_run *run = random_kernels(&random);
        gs_program *programs[2] = {small_program(&random, NULL), NULL};
        programs[1] = small_program(&random, programs[0]);
        gs_flat flats[2];
        gs_run_bound bound;
        for (int j = 0; j < 2; j++)
            assert_int_equal(gs_flat_make(&flats[j], programs[j], &error), GS_OK);
        if (gs_bound_run(gpu, run, (const gs_program *const *)programs, &bound, &error) != GS_OK)
            fail_msg("run %lld: %s", (long long)i, error.message);
        struct player player = {.gpu = gpu, .run = run, .flats = flats, .random = random};
        int64_t latest = 0;
        for (player.adversary = 0; player.adversary < 3; player.adversary++) {
            int64_t end = play_run(&player);
            latest = end > latest ? end : latest;
        }
        if (latest > bound.cycles)
            fail_msg("run %lld ends at %lld, after its bound %lld", (long long)i, (long long)latest,
                     (long long)bound.cycles);
        at_once += bound.at_once;
        quotients += (double)bound.cycles / (double)latest;
        gs_run_bound_clear(&bound);
        for (int j = 0; j < 2; j++) {
            gs_flat_clear(&flats[j]);
            gs_program_free(programs[j]);
        }
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("%lld runs, %lld of them at once, bound / end %.2f in the mean\n", (long long)count,
                  (long long)at_once, quotients / (double)count);
}

/* ---- runs with everything that a run can have, played by the engine ---- */

/* What is drawn, and whether there is a bound of it. */
enum feature {
    ONE_KERNEL,
    KERNELS,
    ONE_STREAM,
    CLUSTERS,
    GREEN,
    GREEN_CONTEXTS,
    COOPERATIVE,
    CARVEOUTS,
    LOCAL_MEMORY,
    AT_ONE_TIME,
    IN_WAVES,
    AFTER,
    COPIES,
    TIMES,
    PRIORITIES,
    GRAPH,
    CONNECTIONS,
    STREAMS,
    EXITS,
    FEATURES
};

static const bool has_bound[FEATURES] = {
    [ONE_KERNEL] = true,   [KERNELS] = true,        [ONE_STREAM] = true,  [CLUSTERS] = true,
    [GREEN] = true,        [GREEN_CONTEXTS] = true, [COOPERATIVE] = true, [CARVEOUTS] = true,
    [LOCAL_MEMORY] = true, [AT_ONE_TIME] = true,    [IN_WAVES] = true};

struct drawn {
    gs_run *run;
    uint32_t features; /* a bit for each */
};

static bool draw_feature(gs_random *random, struct drawn *drawn, enum feature feature, int percent) {
    bool has = gs_random_chance(random, percent);
    drawn->features |= (uint32_t)has << feature;
    return has;
}

/* A launch with a part of the features. Blocks take at most `latency` ns. */
static void draw_launch(gs_random *random, const gs_gpu *gpu, struct drawn *drawn, uint32_t plain, int64_t latency) {
    gs_run *run = drawn->run;
    gs_launch launch = numbered_launch((int64_t)run->launches.count);
    gs_launch_facts facts = gs_launch_facts_none();
    launch.shape = random_shape(random, gpu);
    launch.blocks = gs_random_from(random, 1, gpu->sms * (gs_random_chance(random, 50) ? 12 : 1));
    random_cluster(random, gpu, &launch);
    drawn->features |= (uint32_t)(launch.cluster > 1) << CLUSTERS;
    drawn->features |= (uint32_t)(launch.shape.carveout_percent != GS_NO_CARVEOUT) << CARVEOUTS;
    drawn->features |= (uint32_t)(launch.shape.local_bytes > 0) << LOCAL_MEMORY;
    facts.is_cooperative = draw_feature(random, drawn, COOPERATIVE, 15);
    if (run->green_contexts.count && (drawn->features >> GREEN_CONTEXTS & 1))
        facts.green_context = gs_random_from(random, 0, 1);
    else if (run->green_contexts.count)
        facts.green_context = 0;
    if (!plain && draw_feature(random, drawn, GRAPH, 5))
        facts.graph = 0;
    launch.issue.facts = &facts;
    if (drawn->features >> AT_ONE_TIME & 1)
        launch.issue.at_ns = 5;
    if (!plain && run->launches.count && draw_feature(random, drawn, TIMES, 5))
        launch.issue.at_ns = 6;
    if (!plain && run->launches.count && draw_feature(random, drawn, PRIORITIES, 5))
        launch.priority = -1;
    uint32_t in_stream = 1u << ONE_STREAM | (run->launches.count < 2 ? 1u << STREAMS : 0);
    if (drawn->features & in_stream)
        launch.stream = strdup("0");
    launch.duration_ns = gs_random_from(random, 1, latency);
    launch.spread_ns = gs_random_from(random, 0, latency - launch.duration_ns);
    assert_int_equal(gs_run_add_launch(run, &launch, &error), GS_OK);
    size_t number = run->launches.count - 1;
    if (!plain && number && draw_feature(random, drawn, AFTER, 5)) {
        gs_edge edge = {.when = (uint8_t)gs_random_from(random, GS_AT_END, GS_AT_START)};
        assert_int_equal(gs_run_add_edge(run, &run->launches.data[number].issue, edge, &error), GS_OK);
    }
}

static struct drawn draw_run(gs_random *random, const gs_gpu *gpu, const int64_t *latencies, size_t most) {
    struct drawn drawn = {.run = gs_run_new(&error)};
    bool plain = gs_random_chance(random, 80);
    int64_t count = gs_random_from(random, 1, (int64_t)most);
    drawn.features = 1u << (count > 1 ? KERNELS : ONE_KERNEL);
    draw_feature(random, &drawn, AT_ONE_TIME, 10);
    if (count > 1)
        draw_feature(random, &drawn, ONE_STREAM, 30);
    if (draw_feature(random, &drawn, GREEN, 20)) {
        random_green_contexts(random, gpu, &drawn.run->green_contexts);
        draw_feature(random, &drawn, GREEN_CONTEXTS, count > 1 ? 30 : 0);
    }
    bool has_own_streams = count > 2 && !(drawn.features >> ONE_STREAM & 1);
    if (!plain && has_own_streams && draw_feature(random, &drawn, CONNECTIONS, 10))
        drawn.run->connections = 1;
    if (!plain && has_own_streams)
        draw_feature(random, &drawn, STREAMS, 10);
    for (int64_t i = 0; i < count; i++)
        draw_launch(random, gpu, &drawn, plain, latencies[i]);
    gs_copy copy = {.bytes = 1, .duration_ns = 100, .issue = gs_issue_none()};
    if (!plain && draw_feature(random, &drawn, COPIES, 10))
        assert_int_equal(gs_run_add_copy(drawn.run, &copy, &error), GS_OK);
    if (!plain && draw_feature(random, &drawn, EXITS, 10))
        assert_int_equal(gs_run_add_exit(drawn.run, 0, &error), GS_OK);
    return drawn;
}

/* A GPU that is described, or one of a few SMs with any mechanisms. */
static gs_gpu *draw_gpu(gs_random *random) {
    static const char *const names[] = {"h200", "rtx3090", "a100", "b200", "v100", "orin"};
    if (gs_random_chance(random, 60))
        return random_gpu(random, gs_random_chance(random, 50) ? 30 : 0);
    return gs_gpu_open(names[gs_random_from(random, 0, (int64_t)GS_COUNT(names) - 1)], &error);
}

struct played {
    int64_t blocks, end_ns;
};

static bool note_end(void *user, size_t launch, int64_t block, int64_t now_ns) {
    struct played *played = user;
    (void)launch, (void)block;
    played->blocks++;
    played->end_ns = gs_max(played->end_ns, now_ns);
    return true;
}

/* Fails unless all blocks end, and not after the bound. */
static void assert_ends(int64_t number, const gs_gpu *gpu, const gs_run *run, const gs_run_bound *bound) {
    struct played played = {0};
    gs_engine_hooks hooks = {.user = &played, .ended = note_end};
    gs_engine *engine = gs_engine_new(gpu, run, &hooks, &error);
    int64_t blocks = 0, from_ns = gs_max(run->launches.data[0].issue.at_ns, 0);
    assert_non_null(engine);
    for (size_t i = 0; i < run->launches.count; i++) {
        assert_int_equal(gs_engine_launch(engine, i, &error), GS_OK);
        blocks += run->launches.data[i].blocks;
    }
    assert_int_equal(gs_engine_finish(engine, &error), GS_OK);
    gs_engine_free(engine);
    if (played.blocks == blocks && played.end_ns - from_ns <= bound->cycles)
        return;
    gs_text text = {0};
    gs_run_text(run, &text);
    fail_msg("run %lld on %s, %d SMs: %lld of %lld blocks end, by %lld; bound %lld\n%s", (long long)number, gpu->name,
             gpu->sms, (long long)played.blocks, (long long)blocks, (long long)(played.end_ns - from_ns),
             (long long)bound->cycles, text.data);
}

TEST(no_run_ends_after_its_bound_whatever_it_has) {
    enum { MOST = 4 };
    int64_t count = test_number("GRIDSMITH_RUNS", 100000) / 5, accepted[FEATURES] = {0}, with[FEATURES] = {0};
    for (int64_t i = 0; i < count; i++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 15), (uint64_t)i);
        gs_gpu *gpu = draw_gpu(&random);
        int64_t latencies[MOST];
        gs_program *programs[MOST];
        for (int j = 0; j < MOST; j++) {
            char text[256];
            latencies[j] = gs_random_from(&random, 1, 64);
            snprintf(text, sizeof text,
                     "{\"schema\":\"gridsmith.program/1\",\"sm\":{\"issue\":1000000,\"units\":[{\"name\":\"u\","
                     "\"warps\":1000000}]},\"program\":[{\"unit\":\"u\",\"latency\":%lld}]}",
                     (long long)latencies[j]);
            programs[j] = program_from(text);
            assert_non_null(programs[j]);
        }
        struct drawn drawn = draw_run(&random, gpu, latencies, MOST);
        gs_run_bound bound;
        bool has = gs_bound_run(gpu, drawn.run, (const gs_program *const *)programs, &bound, &error) == GS_OK;
        if (has) {
            drawn.features |= (uint32_t)!bound.at_once << IN_WAVES;
            assert_ends(i, gpu, drawn.run, &bound);
            gs_run_bound_clear(&bound);
        }
        for (int j = 0; j < FEATURES; j++) {
            with[j] += drawn.features >> j & 1;
            accepted[j] += has && (drawn.features >> j & 1);
        }
        gs_run_free(drawn.run);
        gs_gpu_free(gpu);
        for (int j = 0; j < MOST; j++)
            gs_program_free(programs[j]);
    }
    for (int j = 0; j < FEATURES && count >= 400; j++)
        if (!with[j] || (accepted[j] > 0) != has_bound[j])
            fail_msg("feature %d: %lld runs, %lld with a bound", j, (long long)with[j], (long long)accepted[j]);
    print_message("%lld runs, %lld with a bound\n", (long long)count,
                  (long long)(accepted[ONE_KERNEL] + accepted[KERNELS]));
}

TEST(the_task_waits_for_all_three_phases) {
    gs_task task = {.before_ns = 1000, .copy_in_ns = 200, .clock_mhz = 1500, .copy_out_ns = 30, .after_ns = 4};
    int64_t gpu_ns, response_ns;
    assert_int_equal(gs_response_ns(&task, 100, &gpu_ns, &response_ns, &error), GS_OK);
    assert_int_equal(gpu_ns, 67);
    assert_int_equal(response_ns, 1301);
}

TEST_MAIN(NULL, NULL)
