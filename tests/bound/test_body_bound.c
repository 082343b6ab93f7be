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
};

static void draw_case(struct drawn *drawn, uint64_t index) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), index);
    drawn->machine = random_machine(&random);
    drawn->body = random_body(&random);
    body_case *given = &drawn->given;
    *given = (body_case){.machine = drawn->machine, .body = &drawn->body};
    given->partitions = (int)gs_random_from(&random, 1, CASE_PARTITIONS);
    given->warps = (int)gs_random_from(&random, 1, 3);
    given->slots = (int)gs_random_from(&random, 1, gs_min(2, 4 / given->warps));
    given->blocks = (int)gs_random_from(&random, 1, given->slots + gs_random_chance(&random, 40));
    given->barrier_rounds = gs_random_chance(&random, 70) ? 3 : (int)gs_random_from(&random, 0, 3);
    given->barrier_side = (int)gs_random_from(&random, 0, 1);
    given->early = gs_random_chance(&random, 25);
}

static void case_clear(struct drawn *drawn) {
    gs_machine_free(drawn->machine);
    gs_body_clear(&drawn->body);
}

static int64_t bound_of(const struct drawn *drawn) {
    gs_gpu *gpu = one_sm(&drawn->given);
    gs_shape shape = gs_shape_of(32 * drawn->given.warps, 16, 0);
    gs_body_bound bound;
    assert_int_equal(
        gs_bound_body(gpu, drawn->machine, &drawn->body, &shape, drawn->given.blocks, false, &bound, &error), GS_OK);
    assert_int_equal(bound.at_once, drawn->given.blocks <= drawn->given.slots);
    gs_gpu_free(gpu);
    return bound.cycles;
}

/* ---- tests ---- */

static void no_body_ends_after_its_bound(void **state) {
    (void)state;
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

static void the_worst_case_is_that_of_trying_everything(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worst_case_is_that_of_trying_everything),
        cmocka_unit_test(no_body_ends_after_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
