/*
 * test_body_bound.c: no compiled kernel ends later than its bound.
 *
 * Random small bodies with branches, loops, barriers and scoreboards, on random machines, are compared with the latest
 * end over all walks and schedules. That search is compared with trying every schedule.
 */
#include "test.h"

#include "body_case.h"

#include <stdlib.h>
#include <string.h>

static gs_error error;

/* ---- random machines, bodies and GPUs ---- */

static const char *const class_names[] = {"plain", "pipe", "shared", "memory", "barrier"};
enum { PLAIN, PIPE, SHARED, MEMORY, BARRIER, CLASSES };

static gs_machine *random_machine(gs_random *random) {
    gs_machine *machine = calloc(1, sizeof *machine);
    static const gs_unit_scope scopes[] = {GS_UNIT_OF_PARTITION, GS_UNIT_OF_SM, GS_UNIT_OF_GPU};
    machine->clock_mhz = 1000;
    machine->line_bytes = 128;
    machine->code_bytes = 1 << 20;
    for (int i = 0; i < 3; i++)
        assert_true(GS_PUSH(&machine->units, (gs_machine_unit){strdup(class_names[PIPE + i]), scopes[i]}));
    for (int i = 0; i < CLASSES; i++) {
        gs_machine_class row = {.name = strdup(class_names[i]), .transactions = 1};
        row.latency_cycles = gs_random_from(random, 1, 5);
        row.loaded_cycles = row.latency_cycles + 100000;
        if (i >= PIPE && i <= MEMORY)
            row.held_millicycles[i - PIPE] = 1000 * gs_random_from(random, 1, 3);
        assert_true(GS_PUSH(&machine->classes, row));
    }
    return machine;
}

static void add_instruction(gs_random *random, gs_body *body, int class_number) {
    gs_body_part *part = gs_body_open(body, GS_PART_INSTRUCTION, (uint32_t)(16 * body->parts.count), 0);
    part->class_number = class_number < 0 ? (int32_t)gs_random_from(random, PLAIN, MEMORY) : class_number;
    part->stall = (uint8_t)gs_random_from(random, 0, 3);
    if (gs_random_chance(random, 60))
        part->result = (uint8_t)gs_random_from(random, 0, CASE_SCOREBOARDS - 1);
    if (gs_random_chance(random, 15))
        part->reads = (uint8_t)gs_random_from(random, 0, CASE_SCOREBOARDS - 1);
    if (gs_random_chance(random, 50))
        part->waits = (uint8_t)gs_random_from(random, 0, (1 << CASE_SCOREBOARDS) - 1);
}

static void add_instructions(gs_random *random, gs_body *body, int64_t most) {
    for (int64_t i = gs_random_from(random, 0, most); i > 0; i--)
        add_instruction(random, body, -1);
}

static void add_barrier(gs_random *random, gs_body *body) {
    gs_body_open(body, GS_PART_BARRIER, 0, 0);
    add_instruction(random, body, BARRIER);
}

static void add_part(gs_random *random, gs_body *body, int depth, bool has_barriers);

static void add_parts(gs_random *random, gs_body *body, int depth, bool has_barriers) {
    for (int64_t i = gs_random_from(random, 1, 2); i > 0; i--)
        add_part(random, body, depth, has_barriers);
}

static void add_branch(gs_random *random, gs_body *body, int depth, bool has_barriers) {
    size_t branch = body->parts.count;
    bool is_uniform = has_barriers || gs_random_chance(random, 50);
    gs_body_open(body, GS_PART_BRANCH, 0, 0)->is_uniform = is_uniform;
    for (int i = 0; i < 2; i++) {
        size_t side = body->parts.count;
        gs_body_open(body, GS_PART_SIDE, 0, 0);
        if (is_uniform && gs_random_chance(random, 60))
            add_parts(random, body, depth + 1, has_barriers);
        else
            add_instructions(random, body, 2);
        gs_body_close(body, side);
    }
    gs_body_close(body, branch);
}

static void add_part(gs_random *random, gs_body *body, int depth, bool has_barriers) {
    int64_t kind = gs_random_from(random, 0, 9);
    if (kind == 0 && has_barriers) {
        add_barrier(random, body);
    } else if (kind <= 2 && depth < 2) {
        add_branch(random, body, depth, has_barriers);
    } else if (kind <= 4 && depth < 2) {
        size_t loop = body->parts.count;
        gs_body_part *part = gs_body_open(body, GS_PART_LOOP, 0, 0);
        part->times = gs_random_from(random, 0, 3);
        part->source = gs_random_chance(random, 20) ? GS_ROUNDS_OF_GROUPS : GS_ROUNDS_OF_CODE;
        add_parts(random, body, depth + 1, has_barriers);
        gs_body_close(body, loop);
    } else {
        add_instruction(random, body, -1);
    }
}

static gs_body random_body(gs_random *random) {
    gs_body body = {0};
    for (int i = 0; i < CLASSES; i++)
        assert_int_equal(gs_body_class(&body, class_names[i]), i);
    bool has_barriers = gs_random_chance(random, 50);
    for (int64_t i = gs_random_from(random, 1, 3); i > 0; i--)
        add_part(random, &body, 0, has_barriers);
    add_instruction(random, &body, PLAIN); /* the exit */
    assert_true(gs_body_is_sound(&body));
    return body;
}

/* A GPU with one SM. */
static gs_gpu *one_sm(const body_case *given) {
    gs_text text = {0};
    gs_text_add(
        &text,
        "{\"schema\": \"gridsmith.gpu/1\", \"name\": \"one\", \"topology\": {\"sms\": 1, \"sms_per_tpc\": 1}, "
        "\"limits\": {\"blocks_per_sm\": %d, \"threads_per_sm\": 2048, \"threads_per_block\": 1024, "
        "\"warp_threads\": 32, \"partitions_per_sm\": %d, \"registers_per_sm\": 65536, \"registers_per_thread\": "
        "255, \"register_granularity\": 256, \"shared_per_block_bytes\": 1024, \"shared_granularity_bytes\": "
        "128, \"shared_reserved_bytes\": 0, \"shared_configurations_bytes\": [0, 1024]}, \"mechanisms\": "
        "{\"extra_step\": \"no\"}}",
        given->slots, given->partitions);
    gs_input *input = gs_input_memory("one", text.data, text.count, &error);
    gs_gpu *gpu = gs_gpu_read(input, &error);
    assert_non_null(gpu);
    gs_input_close(input);
    gs_text_free(&text);
    return gpu;
}

struct drawn {
    gs_machine *machine;
    gs_body body;
    body_case given;
    gs_latency_kind kind; /* the situation: of each two the first */
};

static void say_beside(const struct drawn *drawn) {
    drawn->machine->sms = 1;
    for (int i = 0; i < CLASSES; i++)
        drawn->machine->classes.data[i].beside_cycles = drawn->machine->classes.data[i].latency_cycles;
}

/* Accesses to memory that may be slow, whose latencies contain what delays they have. */
static void draw_slow(gs_random *random, struct drawn *drawn) {
    drawn->kind = (gs_latency_kind)(2 * gs_random_from(random, GS_LATENCY_ALONE / 2, GS_LATENCY_LOADED / 2));
    drawn->given.slow_cycles = (int)gs_random_from(random, 1, 6);
    drawn->given.slow_most = (int)gs_random_from(random, 1, 2);
    drawn->machine->classes.data[MEMORY].held_millicycles[MEMORY - PIPE] = 0;
    drawn->machine->kept_bytes = 1;
    drawn->body.is_kept = drawn->kind == GS_LATENCY_KEPT;
    if (drawn->kind >= GS_LATENCY_BESIDE)
        say_beside(drawn);
    for (int i = 0; i < CLASSES && drawn->kind == GS_LATENCY_LOADED; i++)
        drawn->machine->classes.data[i].loaded_cycles = drawn->machine->classes.data[i].latency_cycles;
}

/* Latencies contain what others delay; the unit of the GPU serves this kernel on the one SM. */
static void draw_beside(struct drawn *drawn) {
    drawn->kind = GS_LATENCY_BESIDE;
    say_beside(drawn);
}

/* What the machine says of slow accesses, in the situation of the case only. */
static void say_slow(const struct drawn *drawn) {
    gs_machine_class *row = &drawn->machine->classes.data[MEMORY];
    int64_t usual = row->latency_cycles, longest = usual + drawn->given.slow_cycles;
    int64_t burst = (int64_t)drawn->given.slow_cycles * drawn->given.slow_most;
    if (drawn->kind == GS_LATENCY_ALONE) {
        row->latency_cycles = longest, row->alone_repeated_cycles = usual, row->alone_burst_cycles = burst;
    } else if (drawn->kind == GS_LATENCY_KEPT) {
        row->latency_cycles = row->loaded_cycles, row->kept_cycles = longest;
        row->kept_repeated_cycles = usual, row->kept_burst_cycles = burst;
    } else if (drawn->kind == GS_LATENCY_BESIDE) {
        row->beside_cycles = longest, row->beside_repeated_cycles = usual, row->beside_burst_cycles = burst;
    } else {
        row->beside_cycles = 0;
        row->loaded_cycles = longest, row->repeated_cycles = usual, row->burst_cycles = burst;
    }
}

static void draw_case(struct drawn *drawn, uint64_t index) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), index);
    drawn->machine = random_machine(&random);
    drawn->body = random_body(&random);
    body_case *given = &drawn->given;
    *given = (body_case){.machine = drawn->machine, .body = &drawn->body};
    drawn->kind = GS_LATENCY_ALONE;
    given->partitions = (int)gs_random_from(&random, 1, CASE_PARTITIONS);
    given->warps = (int)gs_random_from(&random, 1, 3);
    given->slots = (int)gs_random_from(&random, 1, gs_min(2, 4 / given->warps));
    given->blocks = (int)gs_random_from(&random, 1, given->slots + gs_random_chance(&random, 40));
    given->barrier_rounds = gs_random_chance(&random, 70) ? 3 : (int)gs_random_from(&random, 0, 3);
    given->barrier_side = (int)gs_random_from(&random, 0, 1);
    given->early = gs_random_chance(&random, 25);
    if (gs_random_chance(&random, 30))
        draw_slow(&random, drawn);
    else if (gs_random_chance(&random, 20))
        draw_beside(drawn);
}

static void case_clear(struct drawn *drawn) {
    gs_machine_free(drawn->machine);
    gs_body_clear(&drawn->body);
}

static int64_t bound_of(const struct drawn *drawn) {
    gs_gpu *gpu = one_sm(&drawn->given);
    gs_shape shape = gs_shape_of(32 * drawn->given.warps, 16, 0);
    gs_body_bound bound;
    bool is_beside = drawn->kind >= GS_LATENCY_BESIDE;
    if (drawn->given.slow_most)
        say_slow(drawn);
    assert_int_equal(
        gs_bound_body(gpu, drawn->machine, &drawn->body, &shape, drawn->given.blocks, is_beside, &bound, &error),
        GS_OK);
    assert_true(bound.cycles < 100000); /* the kind is one of the situation */
    assert_int_equal(bound.at_once, drawn->given.blocks <= drawn->given.slots);
    gs_gpu_free(gpu);
    return bound.cycles;
}

/* ---- tests ---- */

TEST(no_body_ends_after_its_bound) {
    int64_t wanted = (int64_t)test_number("GRIDSMITH_RUNS", 100000) / 10, compared = 0, exact = 0;
    double sum = 0, most = 0;
    for (uint64_t index = 0; compared < wanted; index++) {
        struct drawn drawn;
        draw_case(&drawn, index);
        int64_t worst = body_worst(&drawn.given), bound = bound_of(&drawn);
        case_clear(&drawn);
        if (worst <= 0)
            continue;
        if (worst > bound)
            fail_msg("case %llu ends after %lld cycles, its bound is %lld", (unsigned long long)index, (long long)worst,
                     (long long)bound);
        double quotient = (double)bound / (double)worst;
        sum += quotient;
        most = quotient > most ? quotient : most;
        exact += bound == worst;
        compared++;
    }
    print_message("%lld bodies: bound / worst case %.3f in the mean, at most %.3f, 1 for %lld\n", (long long)compared,
                  sum / (double)compared, most, (long long)exact);
}

TEST(the_worst_case_is_that_of_trying_everything) {
    int64_t wanted = (int64_t)test_number("GRIDSMITH_RUNS", 100000) / 200, compared = 0;
    for (uint64_t index = 0; compared < wanted; index++) {
        struct drawn drawn;
        draw_case(&drawn, index);
        int64_t literal = literal_body_worst(&drawn.given), worst = literal < 0 ? 0 : body_worst(&drawn.given);
        case_clear(&drawn);
        if (literal <= 0 || worst < 0)
            continue;
        if (literal != worst)
            fail_msg("case %llu ends after %lld cycles, the search found %lld", (unsigned long long)index,
                     (long long)literal, (long long)worst);
        compared++;
    }
}

/* ---- machines ---- */

static gs_machine *machine_of(const char *text) {
    gs_input *input = gs_input_memory("machine", text, strlen(text), &error);
    gs_machine *machine = gs_machine_input(input, &error);
    gs_input_close(input);
    return machine;
}

TEST(machines_are_written_as_they_are_read) {
    gs_text once = {0}, twice = {0}, gpu_once = {0}, gpu_twice = {0};
    gs_machine *machine = gs_machine_open(test_path("tests/bound/machine.json"), &error);
    assert_non_null(machine);
    gs_machine_text(machine, &once);
    gs_machine *again = machine_of(once.data);
    assert_non_null(again);
    gs_machine_text(again, &twice);
    assert_string_equal(once.data, twice.data);
    gs_gpu *gpu = gs_gpu_open("rtx3090", &error);
    assert_null(gpu->machine);
    assert_int_equal(gs_fail_no_machine(gpu, &error), GS_E_UNSUPPORTED);
    assert_non_null(
        strstr(error.message, "the latencies of rtx3090 are not known: measure them (gridsmith probe --latency"));
    gpu->machine = again;
    gs_gpu_text(gpu, &gpu_once);
    gs_gpu *copy = gs_gpu_copy(gpu, &error);
    assert_non_null(copy);
    gs_gpu_text(copy, &gpu_twice);
    assert_string_equal(gpu_once.data, gpu_twice.data);
    gs_gpu_free(copy);
    gs_gpu_free(gpu);
    gs_machine_free(machine);
    gs_text_free(&once);
    gs_text_free(&twice);
    gs_text_free(&gpu_once);
    gs_text_free(&gpu_twice);
}

#define MACHINE(units, classes)                                                                                        \
    "{\"schema\": \"gridsmith.machine/1\", \"found\": \"here\", \"clock_mhz\": 1000, \"line_bytes\": 128, "            \
    "\"code_bytes\": 1024, \"fetch_cycles\": 7, \"cold_fetch_cycles\": 100, \"block_cycles\": 50, \"launch_ns\": "     \
    "5000, "                                                                                                           \
    "\"units\": [" units "], \"classes\": [" classes "]}"
#define UNIT(name, scope) "{\"name\": \"" name "\", \"scope\": \"" scope "\"}"
#define ROW(name, latency, loaded, transactions, held)                                                                 \
    "{\"name\": \"" name "\", \"latency_cycles\": " latency ", \"loaded_cycles\": " loaded                             \
    ", \"transactions\": " transactions ", \"held_millicycles\": {" held "}}"

TEST(mistakes_in_machines_are_told) {
    static const struct {
        const char *text, *words;
    } mistakes[] = {
        {"{}", "schema"},
        {"", "holds no latencies"},
        {MACHINE("", ROW("a", "1", "1", "1", "")), "must be a list of 1 to 16"},
        {MACHINE(UNIT("u", "board"), ROW("a", "1", "1", "1", "")), "must be partition, sm or gpu"},
        {MACHINE(UNIT("u", "sm") "," UNIT("u", "gpu"), ROW("a", "1", "1", "1", "")), "unit \"u\" is listed twice"},
        {MACHINE(UNIT("u", "sm"), ROW("a", "1", "1", "1", "\"v\": 5")), "\"v\" is not one of the units"},
        {MACHINE(UNIT("u", "sm"), ROW("a", "9", "8", "1", "")), "must be at least \"latency_cycles\""},
        {MACHINE(UNIT("u", "sm"), ROW("a", "1", "1", "1", "") "," ROW("a", "1", "1", "1", "")),
         "class \"a\" is listed twice"},
        {MACHINE(UNIT("u", "sm"), ROW("a", "1", "1", "0", "")), "transactions"},
        {MACHINE(UNIT("u", "sm"), ROW("a", "1", "1", "1", "")) "{}", "but more follows"},
    };
    for (size_t i = 0; i < GS_COUNT(mistakes); i++) {
        assert_null(machine_of(mistakes[i].text));
        if (!strstr(error.message, mistakes[i].words))
            fail_msg("mistake %zu: %s", i, error.message);
    }
}

static int64_t path_of(const gs_machine *machine, const gs_body *body) {
    gs_demand demand;
    assert_int_equal(gs_demand_of(machine, body, GS_LATENCY_ALONE, false, &demand, &error), GS_OK);
    return demand.path_cycles;
}

/* A store is done when a fence behind it is, unless a load can follow. */
TEST(stores_that_nobody_loads_are_done_as_before_a_fence) {
    gs_machine *machine = machine_of(
        MACHINE(UNIT("dram", "gpu"),
                ROW("global_load", "400", "900", "1", "\"dram\": 10") "," ROW(
                    "fence", "600", "900", "1",
                    "\"dram\": 10") ","
                                    "{\"name\": \"global_store\", \"latency_cycles\": 5000, \"loaded_cycles\": 5000, "
                                    "\"read_cycles\": 300, \"loaded_read_cycles\": 700, \"transactions\": 1, "
                                    "\"held_millicycles\": {\"dram\": 10}}"));
    gs_body body = {0};
    assert_non_null(machine);
    assert_int_equal(gs_body_class(&body, "global_load_wide"), 0); /* for which the machine has no row, nor for near */
    assert_int_equal(gs_body_class(&body, "global_store"), 1);
    gs_body_open(&body, GS_PART_LOOP, 0, 0)->times = 1;
    gs_body_open(&body, GS_PART_INSTRUCTION, 0, 0)->class_number = 0;
    body.parts.data[0].end = 1; /* the load is behind the loop, which is empty */
    gs_body_open(&body, GS_PART_INSTRUCTION, 16, 0)->class_number = 1;
    assert_int_equal(path_of(machine, &body), 7 + 1 + 600);
    body.parts.data[0].end = 3; /* both are in the loop: in its next round a load follows */
    assert_int_equal(path_of(machine, &body), 7 + 1 + 5000);
    body.parts.data[0].end = 1;
    body.parts.data[1].class_number = 1;
    body.parts.data[2].class_number = 0;
    assert_int_equal(path_of(machine, &body), 7 + 5000);
    gs_body_clear(&body);
    gs_machine_free(machine);
}

/* A machine that has no class for some instructions has that of the name without its end. */
TEST(instructions_without_a_class_have_the_more_general_one) {
    gs_body body = {0};
    gs_machine *general = machine_of(MACHINE(UNIT("pipe", "partition"), ROW("fma", "9", "9", "1", "\"pipe\": 2000")));
    gs_machine *both = machine_of(
        MACHINE(UNIT("pipe", "partition"),
                ROW("fma", "9", "9", "1", "\"pipe\": 2000") "," ROW("fma_float", "4", "4", "1", "\"pipe\": 1000")));
    assert_non_null(general);
    assert_non_null(both);
    gs_body_open(&body, GS_PART_INSTRUCTION, 0, 0)->class_number = gs_body_class(&body, "fma_float");
    assert_int_equal(path_of(general, &body) - path_of(both, &body), 9 - 4);
    gs_body_clear(&body);
    gs_machine_free(general);
    gs_machine_free(both);
}

/* A load, an instruction that waits for it, and a barrier, in a loop, summed by hand. */
TEST(the_parts_of_a_bound_are_those_of_the_body) {
    gs_machine *machine =
        machine_of(MACHINE(UNIT("port", "sm") "," UNIT("dram", "gpu") "," UNIT("pipe", "partition"),
                           ROW("load", "400", "900", "4", "\"port\": 1500, \"dram\": 10") "," ROW(
                               "add", "4", "4", "1", "\"pipe\": 2000") "," ROW("barrier", "20", "20", "1", "")));
    gs_body body = {0};
    assert_non_null(machine);
    assert_int_equal(gs_body_class(&body, "load"), 0);
    assert_int_equal(gs_body_class(&body, "add"), 1);
    assert_int_equal(gs_body_class(&body, "barrier"), 2);
    gs_body_open(&body, GS_PART_LOOP, 0, 0)->times = 10;
    gs_body_part *part = gs_body_open(&body, GS_PART_INSTRUCTION, 0, 0);
    part->class_number = 0, part->stall = 2, part->result = 3;
    part = gs_body_open(&body, GS_PART_INSTRUCTION, 16, 0);
    part->class_number = 1, part->stall = 4, part->waits = 1 << 3;
    gs_body_open(&body, GS_PART_BARRIER, 32, 0);
    part = gs_body_open(&body, GS_PART_INSTRUCTION, 32, 0);
    part->class_number = 2, part->stall = 1;
    gs_body_close(&body, 0);
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    gs_shape shape = gs_shape_of(256, 32, 0);
    gs_body_bound bound;
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 132, false, &bound, &error), GS_OK);
    /* in a round: a line 7, the load 400, the addition 4, a pipe after the barrier 1, the barrier 20 */
    assert_int_equal(bound.path_cycles, 10 * (7 + 400 + 4 + 1 + 20));
    assert_true(bound.at_once && bound.kind == GS_LATENCY_ALONE);
    assert_int_equal(bound.most_on_sm, 1);
    /* two warps in a partition: the other's 10 x (1 + 2 + 1) cycles, and one more for each addition of its own */
    assert_int_equal(bound.issue_cycles, 10 * 4 + 10);
    assert_int_equal(bound.unit_cycles[0], 8 * 10 * 4 * 3 / 2);
    assert_int_equal(bound.unit_cycles[1], 132 * 8 * 10 * 4 / 100 + 1);
    assert_int_equal(bound.fetch_cycles, 100);
    assert_int_equal(bound.block_cycles, 50);
    assert_int_equal(bound.cycles, bound.path_cycles + 50 + 480 + 423 + 50 + 100);
    assert_int_equal(bound.nanoseconds, bound.cycles + 5000);
    /* a call and its return: two jumps */
    machine->jump_cycles = 3;
    body.parts.data[1].is_call = true;
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 132, false, &bound, &error), GS_OK);
    assert_int_equal(bound.path_cycles, 10 * (7 + 3 + 2 * (7 + 3) + 400 + 4 + 1 + 20));
    body.parts.data[1].is_call = false;
    machine->jump_cycles = 0;
    /* another block on the SM, of which all 8 warps can be met, because the chain moves at barriers */
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 264, false, &bound, &error), GS_OK);
    assert_int_equal(bound.most_on_sm, 2);
    assert_int_equal(bound.issue_cycles, 9 * 10 * 4 + 10);
    /* groups of threads can be interleaved: each instruction waits for the one before */
    body.parts.data[0].source = GS_ROUNDS_OF_GROUPS;
    body.parts.data[2].waits = 0;
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 132, false, &bound, &error), GS_OK);
    assert_int_equal(bound.path_cycles, 10 * (7 + 400 + 4 + 1 + 20));
    body.parts.data[0].source = GS_ROUNDS_OF_CODE;
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 132, false, &bound, &error), GS_OK);
    assert_int_equal(bound.path_cycles, 9 * (7 + 2 + 4 + 1 + 20) + 7 + 400); /* only the last load is waited for */
    body.parts.data[2].waits = 1 << 3;
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 132, true, &bound, &error), GS_OK);
    assert_int_equal(bound.kind, GS_LATENCY_LOADED);
    assert_int_equal(bound.path_cycles, 10 * (7 + 900 + 4 + 1 + 20));
    assert_int_equal(bound.unit_cycles[1], 132 * 8 * 10 * 4 / 100 + 1); /* what the kernel itself has under way */
    assert_int_equal(gs_body_class(&body, "texture"), 3);
    body.parts.data[1].class_number = 3;
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 132, true, &bound, &error), GS_E_REFUSED);
    assert_non_null(strstr(error.message, "the latencies have no class \"texture\""));
    gs_body_clear(&body);
    gs_machine_free(machine);
    gs_gpu_free(gpu);
}

/* Loads that the L2 keeps, and loads that are repeated under load, in a loop. */
TEST(kept_and_repeated_latencies_count_where_they_hold) {
    gs_machine *machine = machine_of(MACHINE(
        UNIT("dram", "gpu"),
        "{\"name\": \"global_load\", \"latency_cycles\": 400, \"loaded_cycles\": 900, \"repeated_cycles\": 500, "
        "\"burst_cycles\": 700, \"kept_cycles\": 250, \"kept_millicycles\": 100, \"transactions\": 1, "
        "\"held_millicycles\": {\"dram\": 1000}}"));
    gs_body body = {.memory_bytes = 100};
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    gs_shape shape = gs_shape_of(32, 32, 0);
    gs_body_bound bound;
    assert_non_null(machine);
    assert_int_equal(gs_body_class(&body, "global_load"), 0);
    gs_body_open(&body, GS_PART_LOOP, 0, 0)->times = 10;
    gs_body_part *part = gs_body_open(&body, GS_PART_INSTRUCTION, 0, 0);
    part->result = 0, part->waits = 1;
    gs_body_close(&body, 0);
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 1, true, &bound, &error), GS_OK);
    assert_int_equal(bound.kind, GS_LATENCY_REPEATED);
    assert_int_equal(bound.path_cycles, 10 * (7 + 500));
    assert_int_equal(bound.burst_cycles, 700);
    assert_int_equal(bound.cycles, 10 * (7 + 500) + 700 + 10 * 132 + 50 + 100);
    body.parts.data[0].times = 1; /* one load: the longest is less than the repeated one and the burst */
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 1, true, &bound, &error), GS_OK);
    assert_int_equal(bound.kind, GS_LATENCY_LOADED);
    body.parts.data[0].times = 10;
    body.is_kept = true; /* but the machine does not say how much the L2 keeps */
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 1, false, &bound, &error), GS_OK);
    assert_int_equal(bound.kind, GS_LATENCY_ALONE);
    assert_int_equal(bound.path_cycles, 10 * (7 + 400));
    assert_int_equal(bound.unit_cycles[0], 10);
    machine->kept_bytes = 100;
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 1, false, &bound, &error), GS_OK);
    assert_int_equal(bound.kind, GS_LATENCY_KEPT);
    assert_int_equal(bound.path_cycles, 10 * (7 + 250));
    assert_int_equal(bound.unit_cycles[0], 1);
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 1, true, &bound, &error), GS_OK);
    assert_int_equal(bound.kind, GS_LATENCY_REPEATED); /* beside others the L2 keeps nothing */
    body.memory_bytes = 101;
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 1, false, &bound, &error), GS_OK);
    assert_int_equal(bound.kind, GS_LATENCY_ALONE);
    gs_machine_class *row = &machine->classes.data[0];
    row->alone_repeated_cycles = 300, row->alone_burst_cycles = 200;
    row->kept_repeated_cycles = 150, row->kept_burst_cycles = 100;
    machine->sms = 132;
    row->beside_cycles = 600, row->beside_repeated_cycles = 350, row->beside_burst_cycles = 400;
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 1, false, &bound, &error), GS_OK);
    assert_int_equal(bound.kind, GS_LATENCY_ALONE_REPEATED);
    assert_int_equal(bound.cycles, 10 * (7 + 300) + 200 + 10 + 50 + 100);
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 1, true, &bound, &error), GS_OK);
    assert_int_equal(bound.kind, GS_LATENCY_BESIDE_REPEATED); /* with the work of the kernel itself on the memory */
    assert_int_equal(bound.cycles, 10 * (7 + 350) + 400 + 10 * 132 + 50 + 100);
    body.others_write = true;
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 1, true, &bound, &error), GS_E_REFUSED);
    assert_non_null(strstr(error.message, "beside others that write were not measured"));
    row->written_cycles = 2000; /* more than under load, but that is a load of others that read */
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 1, true, &bound, &error), GS_OK);
    assert_int_equal(bound.kind, GS_LATENCY_BESIDE);
    assert_int_equal(bound.cycles, 10 * (7 + 2000) + 10 * 132 + 50 + 100);
    body.memory_bytes = 100;
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 1, false, &bound, &error), GS_OK);
    assert_int_equal(bound.kind, GS_LATENCY_KEPT_REPEATED);
    assert_int_equal(bound.cycles, 10 * (7 + 150) + 100 + 1 + 50 + 100);
    gs_body_open(&body, GS_PART_BARRIER, 0, 0); /* at which the slowest of 32 warps arrives last */
    shape = gs_shape_of(1024, 32, 0);
    assert_int_equal(gs_bound_body(gpu, machine, &body, &shape, 1, false, &bound, &error), GS_OK);
    assert_int_equal(bound.kind, GS_LATENCY_KEPT);
    gs_body_clear(&body);
    gs_machine_free(machine);
    gs_gpu_free(gpu);
}

TEST_MAIN(NULL, NULL)
