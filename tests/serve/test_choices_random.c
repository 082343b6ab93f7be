/*
 * test_choices_random.c: what is learned of commands, against a literal model: programs come, work and go in random
 * order, and the model keeps each request and reads docs/run.md, "With and without MPS", word by word. And how often a
 * command has the way with which requests lose more, if each run measures something else.
 */
#include "test.h"

#include "sharing/serve/server.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { MS = 1000000, COMMANDS = 3, SERVERS = 2, PROGRAMS = 4, REQUESTS = 20000, BY_HAND = 0 };

/* ---- what the model knows ---- */

struct literal_command {
    double lost_us[2], kernels_us; /* by time slices and under MPS */
    bool is_known;
};

struct request {
    double us;
    bool is_alone;
    int moment; /* how many programs had come and gone before */
};

struct program {
    gs_tenant *tenant; /* NULL: this place is free */
    bool is_latency, has_mps, works, saw_others, saw_mps, saw_slices;
    int command, moment, stop_us;
    double lost_us;
    struct request *requests;
    int count;
};

static struct {
    gs_tenants tenants;
    gs_random random;
    struct literal_command commands[COMMANDS + 1];
    bool servers[SERVERS + 1], are_sliced[SERVERS + 1];
    struct program programs[PROGRAMS];
    int order[PROGRAMS]; /* of coming */
    int connected, measured, moment,
        quiet; /* the last moment at which no program worked beside the one that came or went */
} model;

static int draw(int least, int most) {
    return (int)gs_random_from(&model.random, least, most);
}

/* ---- the documents, read literally ---- */

static int compare(const void *one, const void *other) {
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

/* The longest without the slowest of this part, in percent, rounded up. They are sorted. */
static double longest_us(const double *us, int count, int percent) {
    int slowest = 0;
    while (100 * slowest < count * percent)
        slowest++;
    return us[count - slowest - 1];
}

/* "It takes 30 requests alone and 100 beside this run of the command. What requests lose is the mean of what p99 and
   the median lose. Under MPS it counts as nothing if p99 is less than a fifth longer." -1: not measured. */
static double literal_lost_us(const struct program *server, bool has_mps) {
    double *alone = malloc(REQUESTS * sizeof *alone), *beside = malloc(REQUESTS * sizeof *beside), lost = -1;
    int alone_count = 0, beside_count = 0;
    for (int i = 0; i < server->count; i++) {
        const struct request *request = &server->requests[i];
        if (request->is_alone)
            alone[alone_count++ % GS_TENANT_ALONE] = request->us;
        else if (request->moment >= model.quiet)
            beside[beside_count++] = request->us;
    }
    alone_count = alone_count < GS_TENANT_ALONE ? alone_count : GS_TENANT_ALONE;
    if (alone_count >= 30 && beside_count >= 100) {
        qsort(alone, (size_t)alone_count, sizeof *alone, compare);
        qsort(beside, (size_t)beside_count, sizeof *beside, compare);
        double slow = longest_us(alone, alone_count, 1), slow_lost = longest_us(beside, beside_count, 1) - slow,
               median_lost = longest_us(beside, beside_count, 50) - longest_us(alone, alone_count, 50);
        lost = (fmax(slow_lost, 0) + fmax(median_lost, 0)) / 2;
        if (has_mps && slow_lost < slow / 5)
            lost = 0;
    }
    free(alone);
    free(beside);
    return lost;
}

/* "The next start takes time slices if requests lose at most nine tenths of what they lose under MPS." */
static bool literal_has_mps(const struct literal_command *command) {
    double mps = command->lost_us[1], slices = command->lost_us[0];
    if (mps < 0)
        mps = command->kernels_us;
    if (slices < 0)
        slices = 150;
    return slices >= 0.9 * mps;
}

static const struct literal_command nothing = {.lost_us = {-1, -1}};

/* What is known if the program ends now. */
static struct literal_command literal_learn(const struct program *program) {
    struct literal_command command = model.commands[program->command];
    bool way = program->has_mps;
    if (!command.is_known || program->saw_others)
        command = nothing;
    command.is_known = true;
    if (program->saw_others) /* "what is known of each of them is dropped" */
        return command;
    double *lost = command.lost_us, now = program->lost_us;
    if (now >= 0 && lost[way] >= 0)
        lost[way] = fmin((lost[way] + now) / 2, 2 * lost[way] + 150); /* "it at most doubles" */
    else if (now >= 0)
        lost[way] = now;
    if (lost[!way] >= 0) /* "each run with one way lets what is known of the other count 3% less" */
        lost[!way] -= lost[!way] / 32;
    command.kernels_us = way ? program->stop_us : command.kernels_us - command.kernels_us / 32;
    return command;
}

static void literal_meet(struct program *one, struct program *other) {
    if (one->is_latency && other->is_latency)
        return;
    if (!one->is_latency && !other->is_latency) {
        one->saw_others |= one->works && other->works;
        other->saw_others |= one->works && other->works;
        return;
    }
    struct program *server = one->is_latency ? one : other, *work = one->is_latency ? other : one;
    double lost = literal_lost_us(server, work->has_mps);
    if (work->works && (server->has_mps || !work->has_mps))
        work->lost_us = fmax(work->lost_us, lost);
    struct literal_command next = literal_learn(work);
    bool will_use_mps = work->works && work->command != BY_HAND ? literal_has_mps(&next) : work->has_mps;
    server->saw_mps |= will_use_mps;
    server->saw_slices |= !will_use_mps;
}

/* ---- what happens ---- */

static bool works_beside(const struct program *program) {
    for (int i = 0; i < PROGRAMS; i++)
        if (model.programs[i].tenant && &model.programs[i] != program && !model.programs[i].is_latency &&
            model.programs[i].works)
            return true;
    return false;
}

static void note_moment(const struct program *program) {
    model.moment++;
    if (!works_beside(program))
        model.quiet = model.moment;
}

static void come(struct program *program) {
    struct request *requests = program->requests;
    gs_error error;
    int fd;
    *program = (struct program){.is_latency = program == model.programs || draw(0, 5) == 0,
                                .has_mps = draw(0, 2) > 0,
                                .lost_us = -1,
                                .requests = requests};
    program->command = program->is_latency ? draw(1, SERVERS) : draw(BY_HAND - 1, COMMANDS);
    program->command = program->command < BY_HAND ? 1 : program->command;
    program->stop_us = (int[]){0, 300, 3000, 900}[program->command];
    uint64_t key = (uint64_t)program->command + (program->is_latency ? 100 : 0);
    program->tenant = gs_tenant_open(&model.tenants,
                                     &(gs_tenant_options){.weight = 100,
                                                          .command = program->command == BY_HAND ? 0 : key,
                                                          .has_mps = program->has_mps,
                                                          .is_latency = program->is_latency},
                                     &fd, &error);
    assert_non_null(program->tenant);
    close(fd);
    model.order[model.connected++] = (int)(program - model.programs);
    note_moment(program);
    program->moment = model.moment;
}

static void begin_to_work(struct program *program) {
    gs_tenant_page *page = program->tenant->page;
    program->works = true;
    atomic_store(&page->work_ns, 200 * MS);
    atomic_store(&page->late_ns, program->stop_us ? 100 * MS : 0);
    atomic_store(&page->stop_ns, (uint64_t)program->stop_us * 1000);
}

static void do_requests(struct program *server) {
    bool is_alone = !works_beside(server);
    int count = draw(1, 3) == 1 ? draw(1, 40) : draw(90, 200), most = is_alone ? 2900 : draw(2100, 9000);
    for (int i = 0; i < count && server->count < REQUESTS; i++) {
        uint64_t ns = (uint64_t)draw(2000, most) * 1000;
        unsigned bucket = gs_tenant_bucket(ns);
        gs_tenant_page *page = server->tenant->page;
        atomic_fetch_add(&page->requests, 1);
        if (is_alone)
            atomic_store(&page->alone_ns[atomic_fetch_add(&page->alone, 1) % GS_TENANT_ALONE], ns);
        else
            atomic_fetch_add(&page->beside_times[bucket], 1);
        server->requests[server->count++] =
            (struct request){(double)gs_tenant_bucket_ns(bucket) / 1000, is_alone, model.moment};
    }
}

static void go(struct program *program) {
    for (int i = model.connected - 1; i >= 0; i--) /* the last one that came is first */
        if (&model.programs[model.order[i]] != program)
            literal_meet(program, &model.programs[model.order[i]]);
    if (program->is_latency && (program->saw_mps || program->saw_slices)) {
        model.servers[program->command] = true;
        model.are_sliced[program->command] = !program->saw_mps;
    } else if (!program->is_latency && program->works && program->command != BY_HAND) {
        model.commands[program->command] = literal_learn(program);
        model.measured += !program->saw_others && program->lost_us > 0;
    }
    gs_tenant_close(program->tenant);
    int at = 0;
    while (model.order[at] != program - model.programs)
        at++;
    model.connected--;
    for (; at < model.connected; at++)
        model.order[at] = model.order[at + 1];
    program->tenant = NULL;
    note_moment(program);
}

static void check_commands(int moment) {
    for (int i = 1; i <= COMMANDS; i++) {
        const struct literal_command *wanted = &model.commands[i];
        const gs_command_profile *found = gs_profile_store_command(model.tenants.profiles, (uint64_t)i);
        if (wanted->is_known != (found != NULL))
            fail_msg("moment %d: command %d is %sknown", moment, i, found ? "" : "not ");
        for (int way = 0; found && way < 2; way++)
            if (fabs(found->lost_us[way] - wanted->lost_us[way]) > 1e-6 &&
                (found->lost_us[way] >= 0 || wanted->lost_us[way] >= 0))
                fail_msg("moment %d, command %d, MPS %d: %g, not %g", moment, i, way, found->lost_us[way],
                         wanted->lost_us[way]);
        if (found)
            assert_int_equal(gs_choice_has_mps(found), literal_has_mps(wanted));
    }
    for (int i = 1; i <= SERVERS; i++) {
        const gs_command_profile *found = gs_profile_store_command(model.tenants.profiles, 100 + (uint64_t)i);
        assert_int_equal(found != NULL, model.servers[i]);
        if (found)
            assert_int_equal(gs_choice_has_mps(found), !model.are_sliced[i]);
    }
}

/* Often there is one server, and one program that works. */
static void step(void) {
    struct program *program = &model.programs[draw(0, PROGRAMS - 1)];
    bool may_come = model.connected < 2 || draw(0, 30) == 0;
    if (!program->tenant && may_come)
        come(program);
    else if (program->tenant && draw(0, program->is_latency ? 30 : 8) == 0)
        go(program);
    else if (program->tenant && program->is_latency)
        do_requests(program);
    else if (program->tenant && draw(0, works_beside(program) ? 20 : 3) == 0)
        begin_to_work(program);
}

static void begin(int seed) {
    gs_error error;
    model.random = gs_random_at(test_number("GRIDSMITH_SEED", 36), (uint64_t)seed);
    model.tenants = (gs_tenants){.profiles = gs_profile_store_open(NULL, "any", 4, &error)};
    assert_non_null(model.tenants.profiles);
    model.connected = model.moment = model.quiet = 0;
    for (int i = 0; i <= COMMANDS; i++)
        model.commands[i] = nothing;
    for (int i = 0; i <= SERVERS; i++)
        model.servers[i] = model.are_sliced[i] = false;
}

static void end(void) {
    gs_tenants_close(&model.tenants);
    gs_profile_store_close(model.tenants.profiles);
    for (int i = 0; i < PROGRAMS; i++)
        model.programs[i].tenant = NULL;
}

TEST(runs_in_any_order_are_learned_as_documented) {
    for (int i = 0; i < PROGRAMS; i++)
        model.programs[i].requests = malloc(REQUESTS * sizeof *model.programs[i].requests);
    for (int i = 0; i < (int)test_number("GRIDSMITH_RUNS", 4000) / 100; i++) {
        begin(i);
        for (int j = 0; j < 500; j++) {
            step();
            check_commands(j);
        }
        end();
    }
    assert_true(model.measured > (int)test_number("GRIDSMITH_RUNS", 4000) / 100);
    for (int i = 0; i < PROGRAMS; i++)
        free(model.programs[i].requests);
}

/* ---- how often the worse way is taken ---- */

/* A run of the command with this way, beside requests that lose so much. */
static void run_once(struct program *server, bool has_mps, double lost_us) {
    struct program work = {.is_latency = false};
    gs_error error;
    int fd;
    work.tenant = gs_tenant_open(&model.tenants, &(gs_tenant_options){.weight = 100, .command = 1, .has_mps = has_mps},
                                 &fd, &error);
    assert_non_null(work.tenant);
    close(fd);
    begin_to_work(&work);
    atomic_fetch_add(&server->tenant->page->beside_times[gs_tenant_bucket((uint64_t)((2000 + lost_us) * 1000))], 110);
    gs_tenant_close(work.tenant);
}

static bool has_mps_next(void) {
    const gs_command_profile *command = gs_profile_store_command(model.tenants.profiles, 1);
    return !command || gs_choice_has_mps(command);
}

/* From a 7th to 7 times as much: e^-2 to e^2. */
static double draw_factor(double most) {
    return exp(most * draw(-1000, 1000) / 1000);
}

/* What requests lose differs from run to run, and in one of 20 something else makes them ten times as slow. Of a
   hundred runs, those with a way that is clearly worse. */
static int count_worse(int seed) {
    double lost_us[2] = {600 * draw_factor(1.5)};
    int worse = 0;
    begin(seed);
    lost_us[1] = lost_us[0] * draw_factor(2);
    struct program *server = &model.programs[0];
    server->requests = NULL;
    come(server);
    server->tenant->options.has_mps = true;
    for (int i = 0; i < GS_TENANT_ALONE; i++)
        atomic_store(&server->tenant->page->alone_ns[atomic_fetch_add(&server->tenant->page->alone, 1)], 2 * MS);
    for (int i = 0; i < 100; i++) {
        bool has_mps = has_mps_next();
        worse += lost_us[has_mps] > 1.5 * lost_us[!has_mps] + 400; /* less than a fifth of 2 ms is nothing */
        run_once(server, has_mps, lost_us[has_mps] * draw_factor(0.4) * (draw(1, 20) == 1 ? 10 : 1));
    }
    end();
    return worse;
}

TEST(the_worse_way_is_rare) {
    enum { COMMANDS_TRIED = 100, MOST_PERCENT = 10 };
    int worse = 0;
    for (int i = 0; i < COMMANDS_TRIED; i++)
        worse += count_worse(i);
    if (worse > COMMANDS_TRIED * MOST_PERCENT)
        fail_msg("%d of %d runs", worse, 100 * COMMANDS_TRIED);
}

TEST_MAIN(NULL, NULL)
