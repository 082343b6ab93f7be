/*
 * test_random_programs.c: programs of `gridsmith run` come, write numbers and leave, at random, on two GPUs. What the
 * daemon publishes, clears, refuses and learns is compared with a literal version: the rules of
 * src/sharing/serve/tenants.c and choice.c, over a plain list of programs, the newest first. The numbers are drawn on
 * both sides of each limit.
 */
#define _GNU_SOURCE
#include "test.h"

#include "sharing/serve/server.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 12, GPUS = 2, COMMANDS = 4, STEPS = 120, MS = 1000000 };

/* What a program wrote into its page. */
struct numbers {
    uint64_t work_ns, late_ns, stop_ns;
};

/* What is known of a command. */
struct command {
    bool is_known, is_sliced;
    double kernels_us;
};

struct program {
    gs_tenant *tenant;
    gs_tenant_options options;
    uint32_t slot;
    struct numbers numbers;
    bool met_mps, met_slices, met_work;
};

/* What a slot of the board has. */
struct slot {
    bool is_used, has_flag;
    uint64_t since_ns, busy_until_ns;
};

static struct literal {
    struct program programs[MOST]; /* the newest first */
    size_t count;
    struct slot slots[GPUS][2][GS_BOARD_SLOTS]; /* of best-effort programs, and of latency programs */
    struct command commands[COMMANDS + 1];
} literal;

static gs_tenants tenants;

/* ---- what is learned ---- */

static bool has_worked(const struct program *program) {
    return program->numbers.work_ns >= 100 * MS;
}

/* What is known of a program if it ends now. No requests are measured here: tests/serve/test_choice.c does that. */
static struct command learned(const struct program *program) {
    const struct numbers *numbers = &program->numbers;
    struct command command = literal.commands[program->options.command];
    command.is_known = true;
    command.is_sliced = false;
    if (program->options.is_latency)
        return (struct command){.is_known = true, .is_sliced = !program->met_mps};
    if (program->met_work)
        return (struct command){.is_known = true};
    if (!program->options.has_mps)
        command.kernels_us = command.kernels_us * 31 / 32;
    else if (numbers->late_ns * 100 > numbers->work_ns)
        command.kernels_us = (double)numbers->stop_ns / 1000;
    else
        command.kernels_us = 0;
    return command;
}

/* Time slices cost a request 0.15 ms, and nine tenths of what MPS costs are less than that. */
static bool takes_mps(const struct command *command) {
    return !command->is_sliced && command->kernels_us * 9 <= 1500;
}

static bool should_use_mps(const struct program *program) {
    if (!program->options.command || !has_worked(program))
        return program->options.has_mps;
    struct command command = learned(program);
    return takes_mps(&command);
}

static void meet(struct program *one, struct program *other) {
    if (one->options.is_latency && other->options.is_latency)
        return;
    if (!one->options.is_latency && !other->options.is_latency) {
        bool both = has_worked(one) && has_worked(other);
        one->met_work |= both;
        other->met_work |= both;
        return;
    }
    struct program *latency = one->options.is_latency ? one : other;
    struct program *best_effort = one->options.is_latency ? other : one;
    if (should_use_mps(best_effort))
        latency->met_mps = true;
    else
        latency->met_slices = true;
}

/* ---- programs ---- */

static int gpu_of(const struct program *program) {
    return program->options.gpu[3];
}

static struct slot *slot_of(const struct program *program) {
    return program->slot < GS_BOARD_SLOTS ? &literal.slots[gpu_of(program)][program->options.is_latency][program->slot]
                                          : NULL;
}

static gs_tenant_options draw_options(gs_random *random) {
    gs_tenant_options options = {.process = (int32_t)gs_random_from(random, 0, 5),
                                 .weight = gs_random_from(random, 0, 2) ? 100 : 50,
                                 .command = (uint64_t)gs_random_from(random, 0, COMMANDS),
                                 .has_mps = gs_random_from(random, 0, 1),
                                 .hold_ns = (uint64_t)gs_random_from(random, 1, 1000) * MS,
                                 .is_latency = gs_random_from(random, 0, 1)};
    options.gpu[3] = (unsigned char)gs_random_from(random, 0, GPUS - 1);
    return options;
}

static void expect_sealed(const gs_tenant_group *group) {
    assert_int_equal(fcntl(group->board_fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    assert_int_equal(fcntl(group->notice_fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | 0x10);
}

static void expect_refusal(const gs_tenant_options *options, const gs_error *error) {
    char wanted[100];
    snprintf(wanted, sizeof wanted, "process %d is connected already, and a process needs one connection",
             options->process);
    assert_int_equal(error->code, GS_E_FULL);
    assert_string_equal(error->message, wanted);
}

/* A program comes. A process may have two connections, unless its number is not known. */
static void come(gs_random *random) {
    gs_tenant_options options = draw_options(random);
    gs_error error;
    int fd, same = 0;
    if (literal.count == MOST)
        return;
    for (size_t i = 0; i < literal.count; i++)
        same += options.process && literal.programs[i].options.process == options.process;
    gs_tenant *tenant = gs_tenant_open(&tenants, &options, &fd, &error);
    assert_int_equal(tenant != NULL, same < 2);
    if (!tenant) {
        expect_refusal(&options, &error);
        return;
    }
    close(fd);
    expect_sealed(tenant->group);
    struct program program = {.tenant = tenant, .options = options};
    while (slot_of(&program)->is_used)
        program.slot++;
    assert_int_equal(tenant->slot, program.slot);
    assert_int_equal(tenant->page->slot, program.slot);
    slot_of(&program)->is_used = true;
    memmove(literal.programs + 1, literal.programs, literal.count++ * sizeof program);
    literal.programs[0] = program;
}

static void learn(const struct program *program) {
    bool can_tell = program->options.is_latency ? program->met_mps || program->met_slices : has_worked(program);
    if (program->options.command && can_tell)
        literal.commands[program->options.command] = learned(program);
}

/* What free slots have is cleared when a program of their GPU leaves. */
static void clear_slots(int gpu) {
    for (int is_latency = 0; is_latency < 2; is_latency++)
        for (uint32_t i = 0; i < GS_BOARD_SLOTS; i++)
            if (!literal.slots[gpu][is_latency][i].is_used)
                literal.slots[gpu][is_latency][i] = (struct slot){0};
}

static void leave(size_t which) {
    struct program gone = literal.programs[which];
    for (size_t i = 0; i < literal.count; i++)
        if (i != which && gpu_of(&literal.programs[i]) == gpu_of(&gone))
            meet(&gone, &literal.programs[i]);
    learn(&gone);
    slot_of(&gone)->is_used = false;
    clear_slots(gpu_of(&gone));
    memmove(literal.programs + which, literal.programs + which + 1, (--literal.count - which) * sizeof gone);
    gs_tenant_close(gone.tenant);
}

/* ---- what programs write ---- */

static void draw_numbers(gs_random *random, struct numbers *numbers) {
    static const uint64_t works[] = {0, 100 * MS - 1, 100 * MS, 1000 * MS};
    uint64_t work = works[gs_random_from(random, 0, 3)];
    const uint64_t lates[] = {0, work / 100, work / 100 + 1, work / 2, work, 2 * work};
    static const uint64_t stops[] = {0, 160000, 170000, 5000000};
    *numbers = (struct numbers){.work_ns = work,
                                .late_ns = lates[gs_random_from(random, 0, 5)],
                                .stop_ns = stops[gs_random_from(random, 0, 3)]};
}

static void write_page(struct program *program, gs_random *random) {
    gs_tenant_page *page = program->tenant->page;
    const struct numbers *numbers = &program->numbers;
    draw_numbers(random, &program->numbers);
    atomic_store(&page->work_ns, numbers->work_ns);
    atomic_store(&page->late_ns, numbers->late_ns);
    atomic_store(&page->stop_ns, numbers->stop_ns);
}

/* Any slot of the board, also one that belongs to no program. */
static void write_board(const struct program *program, gs_random *random) {
    gs_board *board = program->tenant->group->board;
    uint32_t i = (uint32_t)gs_random_from(random, 0, 4);
    struct slot *latency = &literal.slots[gpu_of(program)][1][i];
    uint64_t number = (uint64_t)gs_random_from(random, 1, 1000);
    gs_board_raise(board, 1u << i);
    atomic_store(&board->slots[i].since_ns, number);
    atomic_store(&board->shares[i].busy_until_ns, number);
    latency->has_flag = true;
    latency->since_ns = number;
    literal.slots[gpu_of(program)][0][i].busy_until_ns = number;
}

/* ---- comparing ---- */

static void expect_slots(const gs_tenant_group *group, int gpu) {
    const gs_board *board = group->board;
    uint32_t flags = 0, used[2] = {0};
    for (uint32_t i = 0; i < GS_BOARD_SLOTS; i++) {
        const struct slot *latency = &literal.slots[gpu][1][i], *share = &literal.slots[gpu][0][i];
        flags |= (uint32_t)latency->has_flag << i;
        used[1] |= (uint32_t)latency->is_used << i;
        used[0] |= (uint32_t)share->is_used << i;
        assert_int_equal(atomic_load(&board->slots[i].since_ns), latency->since_ns);
        assert_int_equal(atomic_load(&board->shares[i].busy_until_ns), share->busy_until_ns);
    }
    assert_int_equal(atomic_load(&board->flags), flags);
    assert_int_equal(atomic_load(&group->notice->slots), used[1]);
    assert_int_equal(atomic_load(&group->notice->shares), used[0]);
}

static void expect_notice(const gs_tenant_group *group, int gpu) {
    const gs_notice *notice = group->notice;
    uint32_t latency = 0, best_effort = 0, sliced = 0, weights = 0;
    for (size_t i = 0; i < literal.count; i++) {
        const struct program *program = &literal.programs[i];
        const gs_tenant_options *options = &program->options;
        if (gpu_of(program) != gpu)
            continue;
        if (options->is_latency)
            assert_int_equal(atomic_load(&notice->hold_ns[program->slot]), options->hold_ns);
        latency += options->is_latency;
        best_effort += !options->is_latency;
        sliced += !options->is_latency && !options->has_mps;
        weights += options->is_latency ? 0 : options->weight;
    }
    assert_int_equal(atomic_load(&notice->latency), latency);
    assert_int_equal(atomic_load(&notice->best_effort), best_effort);
    assert_int_equal(atomic_load(&notice->sliced), sliced);
    assert_int_equal(atomic_load(&notice->weights), weights);
    expect_slots(group, gpu);
}

static void expect_groups(void) {
    bool has_programs[GPUS] = {false};
    size_t groups = 0, wanted = 0;
    for (size_t i = 0; i < literal.count; i++)
        has_programs[gpu_of(&literal.programs[i])] = true;
    for (int gpu = 0; gpu < GPUS; gpu++)
        wanted += has_programs[gpu];
    for (const gs_tenant_group *group = tenants.groups; group; group = group->next) {
        groups++;
        assert_true(has_programs[group->gpu[3]]);
        expect_notice(group, group->gpu[3]);
    }
    assert_int_equal(groups, wanted);
}

static void put_command(gs_text *text, uint64_t key, const struct command *command) {
    gs_text_add(text, "{\"command\":\"%016llx\",\"next\":\"%s\",\"why\":\"", (unsigned long long)key,
                takes_mps(command) ? "MPS" : "time slices");
    if (command->is_sliced)
        gs_text_add(text, "as its neighbors do\"}");
    else
        gs_text_add(text,
                    "requests lose about %.2f ms beside it under MPS (not measured), about 0.15 ms by time slices "
                    "(not measured)\"}",
                    command->kernels_us / 1000);
}

/* The status shows all commands that were learned. */
static void expect_commands(void) {
    gs_text text = {0}, wanted = {0};
    gs_writer writer = gs_writer_to(&text);
    size_t learned_count = 0, shown = 0;
    gs_write_object(&writer, NULL);
    gs_tenants_json(&tenants, &writer);
    gs_write_end(&writer);
    for (uint64_t key = 1; key <= COMMANDS; key++) {
        if (!literal.commands[key].is_known)
            continue;
        learned_count++;
        gs_text_clear(&wanted);
        put_command(&wanted, key, &literal.commands[key]);
        if (!strstr(text.data, wanted.data))
            fail_msg("%s is not in %s", wanted.data, text.data);
    }
    for (const char *at = text.data; (at = strstr(at, "{\"command\"")); at++)
        shown++;
    assert_int_equal(shown, learned_count);
    gs_text_free(&text);
    gs_text_free(&wanted);
}

static void play_programs(uint64_t index) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 31), index);
    gs_error error;
    literal = (struct literal){0};
    tenants = (gs_tenants){.profiles = gs_profile_store_open(NULL, "any", 4, &error)};
    assert_non_null(tenants.profiles);
    for (int step = 0; step < STEPS; step++) {
        int64_t what = gs_random_from(&random, 0, 5);
        size_t which = literal.count ? (size_t)gs_random_from(&random, 0, (int64_t)literal.count - 1) : 0;
        if (what < 2 || !literal.count)
            come(&random);
        else if (what == 2)
            leave(which);
        else if (what == 3)
            write_board(&literal.programs[which], &random);
        else
            write_page(&literal.programs[which], &random);
        expect_groups();
        expect_commands();
    }
    while (literal.count)
        leave(0);
    expect_groups();
    expect_commands();
    gs_profile_store_close(tenants.profiles);
}

TEST(programs_are_told_and_learned_as_the_rules_say) {
    for (uint64_t index = 0; index < 60; index++)
        play_programs(index);
}

TEST_MAIN(NULL, NULL)
