/*
 * test_shrink.c: a run on which a device and the model differ becomes a small one on which they still differ, with an
 * explanation.
 *
 * The devices are models with an artificial fault. Whether a small run cannot be made smaller is checked here in the
 * most obvious way, without the table of shrink.c: each event is left out, and each number is made smaller.
 */
#include "test.h"

#include "lab/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { PLENTY = 100000 };

static gs_device *open_device(const char *name) {
    gs_error error = {.code = GS_OK};
    gs_device *device = gs_device_open(name, &error);
    if (!device)
        fail_msg("%s: %s", name, error.message);
    return device;
}

static gs_gpu *open_gpu(const char *name) {
    gs_gpu *gpu = gs_gpu_open(name, NULL);
    assert_non_null(gpu);
    return gpu;
}

/* A run that cannot be played does not differ. */
static bool differs(gs_device *device, const gs_gpu *model, const gs_run *run) {
    gs_error error;
    gs_score score = {0};
    gs_run *predicted = gs_predict(model, run, NULL, &error);
    gs_run *seen = predicted ? gs_device_play(device, run, NULL, &error) : NULL;
    if (seen)
        assert_int_equal(gs_score_add(&score, seen, predicted, &error), GS_OK);
    gs_run_free(seen);
    gs_run_free(predicted);
    return seen && score.runs_exact == 0;
}

/* A random run of at least `launches` on which they differ; the search continues after *index. */
static gs_run *draw_difference(gs_device *device, const gs_gpu *model, const char *class_name, size_t launches,
                               uint64_t *index) {
    gs_bounds bounds = gs_device_bounds(device);
    for (uint64_t end = *index + 1000; *index < end;) {
        gs_run *run = gs_generate(&bounds, class_name, test_number("GRIDSMITH_SEED", 1), (*index)++, NULL);
        assert_non_null(run);
        if (run->launches.count >= launches && differs(device, model, run))
            return run;
        gs_run_free(run);
    }
    fail_msg("no run of class %s differs", class_name);
    return NULL;
}

static gs_shrunk shrink(gs_device *device, const gs_gpu *model, const gs_run *run, int64_t most_plays) {
    gs_shrunk shrunk;
    gs_error error = {.code = GS_OK};
    if (gs_shrink(device, model, run, most_plays, &shrunk, &error) != GS_OK)
        fail_msg("%s", error.message);
    return shrunk;
}

/* ---- no single step makes it smaller ---- */

static void assert_no_step(gs_device *device, const gs_gpu *model, const gs_run *run, const char *step, int64_t value) {
    gs_text text = {0};
    if (!differs(device, model, run))
        return;
    gs_run_text(run, &text);
    fail_msg("%s %lld would have been a step further: %s", step, (long long)value, text.data);
}

static void assert_no_event_to_spare(gs_device *device, const gs_gpu *model, const gs_run *run) {
    for (size_t skipped = 0; skipped < run->events.count; skipped++) {
        gs_run *rest = gs_run_new(NULL);
        size_t *numbers = calloc(run->launches.count, sizeof *numbers);
        const gs_event *gone = &run->events.data[skipped];
        for (size_t i = 0; i < run->events.count; i++) {
            const gs_event *event = &run->events.data[i];
            if (i == skipped || event->op == GS_OBSERVE || (gone->op == GS_LAUNCH && event->launch == gone->launch))
                continue;
            if (event->op == GS_LAUNCH) {
                numbers[event->launch] = rest->launches.count;
                assert_int_equal(gs_run_copy_launch(rest, &run->launches.data[event->launch], NULL), GS_OK);
            } else {
                assert_non_null(gs_run_add_event(rest, GS_EXIT, numbers[event->launch], NULL));
            }
        }
        if (gone->op != GS_OBSERVE && rest->launches.count)
            assert_no_step(device, model, rest, "without event", (int64_t)skipped);
        free(numbers);
        gs_run_free(rest);
    }
}

static int64_t next_below(int64_t value, int64_t unit) {
    return (value - 1) / unit * unit;
}

typedef void setter(gs_launch *launch, int64_t value);

static void assert_no_value(gs_device *device, const gs_gpu *model, const gs_run *run, size_t launch, const char *name,
                            int64_t value, setter *set) {
    gs_run *smaller = gs_run_copy(run, NULL);
    set(&smaller->launches.data[launch], value);
    assert_no_step(device, model, smaller, name, value);
    gs_run_free(smaller);
}

/* Tries the smallest value, the middle, and the next lower round number. */
static void assert_is_least(gs_device *device, const gs_gpu *model, const gs_run *run, size_t launch, const char *name,
                            int64_t value, int64_t least, int64_t unit, setter *set) {
    int64_t below[] = {least, (value - (value - least) / 2) / unit * unit, next_below(value, unit)};
    for (size_t i = 0; i < GS_COUNT(below); i++)
        if (below[i] >= least && below[i] < value)
            assert_no_value(device, model, run, launch, name, below[i], set);
}

static void set_blocks(gs_launch *launch, int64_t value) {
    launch->blocks = value;
}

static void set_threads(gs_launch *launch, int64_t value) {
    launch->shape.threads = (int32_t)value;
}

static void set_registers(gs_launch *launch, int64_t value) {
    launch->shape.registers = (int32_t)value;
}

static void set_shared_bytes(gs_launch *launch, int64_t value) {
    launch->shape.shared_bytes = value;
}

static void set_local_bytes(gs_launch *launch, int64_t value) {
    launch->shape.local_bytes = value;
}

static void set_duration(gs_launch *launch, int64_t value) {
    launch->duration_ns = value;
}

static void set_urgency(gs_launch *launch, int64_t value) {
    launch->priority = (int32_t)-value;
}

/* The same for registers, which come from a list. */
static void assert_registers_are_least(gs_device *device, const gs_gpu *model, const gs_run *run, size_t launch) {
    size_t at = 0;
    while (gs_generated_registers(at) < run->launches.data[launch].shape.registers)
        at++;
    size_t below[] = {0, at - at / 2, at - 1};
    for (size_t i = 0; i < GS_COUNT(below); i++)
        if (below[i] < at)
            assert_no_value(device, model, run, launch, "registers", gs_generated_registers(below[i]), set_registers);
}

static bool is_generated(const gs_shape *shape) {
    bool registers = false, local_bytes = shape->local_bytes == 0;
    for (size_t i = 0; gs_generated_registers(i); i++)
        registers = registers || shape->registers == gs_generated_registers(i);
    for (size_t i = 0; gs_generated_local_bytes(i) >= 0; i++)
        local_bytes = local_bytes || shape->local_bytes == gs_generated_local_bytes(i);
    return registers && local_bytes;
}

static void assert_smallest(gs_device *device, const gs_gpu *model, const gs_run *run) {
    assert_no_event_to_spare(device, model, run);
    for (size_t i = 0; i < run->launches.count; i++) {
        const gs_launch *launch = &run->launches.data[i];
        assert_true(is_generated(&launch->shape));
        assert_is_least(device, model, run, i, "blocks", launch->blocks, 1, 1, set_blocks);
        assert_is_least(device, model, run, i, "threads", launch->shape.threads, 1, 32, set_threads);
        assert_registers_are_least(device, model, run, i);
        assert_is_least(device, model, run, i, "shared_bytes", launch->shape.shared_bytes, 0, 1024, set_shared_bytes);
        assert_is_least(device, model, run, i, "local_bytes", launch->shape.local_bytes, 0, 4096, set_local_bytes);
        assert_is_least(device, model, run, i, "duration_ns", launch->duration_ns, 0, 10000, set_duration);
        assert_is_least(device, model, run, i, "priority", -launch->priority, 0, 1, set_urgency);
    }
}

/* ---- tests ---- */

static void assert_same_run(const gs_run *one, const gs_run *two) {
    gs_text first = {0}, second = {0};
    gs_run_text(one, &first);
    gs_run_text(two, &second);
    assert_string_equal(first.data, second.data);
    gs_text_free(&first);
    gs_text_free(&second);
}

/* The fault of a device, the random runs in which it shows, and the most launches to which they may shrink. */
struct planted {
    const char *quirk, *class_name;
    size_t from, to;
};

static void shrink_planted(const struct planted *planted, int times) {
    char name[100];
    snprintf(name, sizeof name, "model:rtx3090,%s", planted->quirk);
    gs_device *device = open_device(name);
    gs_gpu *model = open_gpu("rtx3090");
    uint64_t index = 0;
    for (int i = 0; i < times; i++) {
        gs_run *run = draw_difference(device, model, planted->class_name, planted->from, &index);
        gs_shrunk shrunk = shrink(device, model, run, PLENTY), again = shrink(device, model, run, PLENTY);
        print_message("%s, %s run %llu: %zu launches to %zu, %lld plays\n", planted->quirk, planted->class_name,
                      (unsigned long long)index - 1, run->launches.count, shrunk.seen->launches.count,
                      (long long)shrunk.played);
        assert_true(differs(device, model, shrunk.seen));
        assert_true(shrunk.seen->launches.count <= planted->to);
        if (!gs_run_is_timed(shrunk.seen)) /* a later launch can change which blocks still wait */
            assert_int_equal(shrunk.launch, shrunk.seen->launches.count - 1);
        assert_smallest(device, model, shrunk.seen);
        assert_same_run(shrunk.seen, again.seen);
        assert_same_run(shrunk.predicted, again.predicted);
        assert_string_equal(shrunk.state.data, again.state.data);
        gs_shrunk_clear(&shrunk);
        gs_shrunk_clear(&again);
        gs_run_free(run);
    }
    gs_gpu_free(model);
    gs_device_close(device);
}

TEST(an_sm_that_gets_no_blocks_is_found) {
    const struct planted planted[] = {
        {"skip=5", "small", 20, 2}, {"skip=5", "plain", 16, 2}, {"skip=5", "exits", 20, 2}};
    for (size_t i = 0; i < GS_COUNT(planted); i++)
        shrink_planted(&planted[i], 5);
}

/* The bounds allow for other seeds. Mechanism 2.2 shows only if a third kernel follows two others. */
TEST(each_mechanism_shrinks_to_few_launches) {
    const struct planted planted[] = {
        {"warp_placement=free", "small", 20, 5},
        {"warp_placement=free", "plain", 12, 5},
        {"shared_scope=sm", "shared", 12, 2},
        {"shared_scope=sm", "small", 20, 2},
        {"extra_step=no", "plain", 12, 8},
        {"tie_order=ascending", "small", 20, 1},
        {"tie_order=ascending", "plain", 12, 1},
        {"placement=round-robin", "shared", 12, 3},
        {"shared_given=largest", "shared", 12, 2},
        {"local_growth_waits=no", "local", 12, 2},
        {"shared_allocation=counted", "timed", 12, 7},
        {"queue=overtaking", "timed", 12, 5},
    };
    int runs = test_number("GRIDSMITH_RUNS", 100000) < 10000 ? 1 : 3;
    for (size_t i = 0; i < GS_COUNT(planted); i += test_is_brief() ? 4 : 1)
        shrink_planted(&planted[i], runs);
}

/* The whole answer for one case: 44 blocks reach SM 5 in the order of ties, 0, 2, .. 80, 1, 3, 5. */
TEST(the_answer_names_the_sm_and_its_state) {
    gs_device *device = open_device("model:rtx3090,skip=5");
    gs_gpu *model = open_gpu("rtx3090");
    gs_run *run = test_run_file("scenarios/case-4.1.json");
    gs_shrunk shrunk = shrink(device, model, run, PLENTY);
    const gs_launch *launch = &shrunk.seen->launches.data[0];
    assert_int_equal(shrunk.seen->launches.count, 1);
    assert_int_equal(shrunk.launch, 0);
    assert_int_equal(launch->blocks, 44);
    assert_int_equal(launch->shape.threads, 1);
    assert_int_equal(launch->shape.registers, 24);
    assert_int_equal(launch->shape.shared_bytes, 0);
    gs_text wanted = {0};
    gs_text_add(&wanted, "%s is the first kernel that differs.\n", launch->kernel);
    for (int sm = 5; sm <= 7; sm += 2)
        gs_text_add(&wanted,
                    "SM %d: the device has %d block%s of %s, the model %d. Just before, in the model:\n"
                    "    16 of 16 block slots free, the next warp goes to partition 0\n"
                    "    free in each partition: warp slots 12, 12, 12, 12; registers 16384, 16384, 16384, 16384\n"
                    "    shared memory: the TPC is idle and takes any configuration\n",
                    sm, sm == 7, sm == 7 ? "" : "s", launch->kernel, sm == 5);
    assert_string_equal(shrunk.state.data, wanted.data);
    gs_text_free(&wanted);
    gs_shrunk_clear(&shrunk);
    gs_run_free(run);
    gs_gpu_free(model);
    gs_device_close(device);
}

TEST(what_has_an_amount_of_its_own_is_dropped_or_made_round) {
    gs_device *device = open_device("model:rtx3090,skip=0");
    gs_gpu *model = open_gpu("rtx3090");
    gs_run *run =
        test_run_of("{\"schema\":\"gridsmith.run/1\",\"events\":[{\"op\":\"launch\",\"kernel\":\"k\","
                    "\"blocks\":77,\"threads\":333,\"registers\":45,\"shared_bytes\":7777,\"local_bytes\":300,"
                    "\"priority\":-3,\"carveout_percent\":37,\"stream\":4,\"duration_us\":12.345}]}");
    gs_shrunk shrunk = shrink(device, model, run, PLENTY);
    gs_text text = {0};
    gs_run_text(shrunk.seen, &text);
    assert_string_equal(text.data,
                        "{\"schema\":\"gridsmith.run/1\",\"gpu\":\"rtx3090\",\"events\":[{\"op\":\"launch\",\"kernel\":"
                        "\"k\",\"blocks\":1,\"threads\":1,\"registers\":24,\"shared_bytes\":0,\"placed\":[2]}]}");
    gs_text_free(&text);
    gs_shrunk_clear(&shrunk);
    gs_run_free(run);
    gs_gpu_free(model);
    gs_device_close(device);
}

TEST(agreement_is_said) {
    gs_device *device = open_device("model:rtx3090");
    gs_gpu *model = open_gpu("rtx3090");
    gs_run *run = test_run_file("scenarios/case-2.1.json");
    gs_shrunk shrunk;
    gs_error error;
    assert_int_equal(gs_shrink(device, model, run, PLENTY, &shrunk, &error), GS_E_USAGE);
    assert_string_equal(error.message, "device and model agree on this run");
    assert_int_equal(shrunk.played, 1);
    assert_non_null(shrunk.seen);
    gs_shrunk_clear(&shrunk);
    assert_int_equal(gs_shrink(device, model, run, 1, &shrunk, NULL), GS_E_USAGE);
    assert_null(shrunk.seen);
    gs_shrunk_clear(&shrunk);
    gs_run_free(run);
    gs_gpu_free(model);
    gs_device_close(device);
}

TEST(the_device_is_not_played_more_than_allowed) {
    gs_device *device = open_device("model:rtx3090,skip=5");
    gs_gpu *model = open_gpu("rtx3090");
    uint64_t index = 0;
    gs_run *run = draw_difference(device, model, "small", 20, &index);
    for (int64_t most = 2; most < 100; most++) {
        gs_shrunk shrunk = shrink(device, model, run, most);
        assert_true(shrunk.played <= most);
        assert_true(differs(device, model, shrunk.seen));
        assert_non_null(shrunk.state.data);
        gs_shrunk_clear(&shrunk);
    }
    gs_run_free(run);
    gs_gpu_free(model);
    gs_device_close(device);
}

/* ---- a device that does not repeat itself ---- */

struct flaky {
    gs_device *quirky, *plain;
    int64_t patient, patient_from; /* plays with long waits, and from which on they show nothing */
};

static gs_run *play_flaky(gs_device *device, const gs_run *script, const gs_play_options *options, gs_error *error) {
    struct flaky *flaky = device->inside;
    assert_non_null(options->expected);
    bool shows = !options->patient || flaky->patient++ < flaky->patient_from;
    return gs_device_play(shows ? flaky->quirky : flaky->plain, script, options, error);
}

TEST(a_difference_that_does_not_repeat_is_not_believed) {
    static const gs_device_ops ops = {.name = "flaky", .play = play_flaky};
    struct flaky flaky = {.quirky = open_device("model:rtx3090,skip=5"), .plain = open_device("model:rtx3090")};
    gs_device device = {.ops = &ops, .gpu = flaky.plain->gpu, .clusters = 1, .inside = &flaky};
    gs_gpu *model = open_gpu("rtx3090");
    gs_run *run = test_run_file("scenarios/case-4.1.json");
    gs_shrunk shrunk;
    assert_int_equal(gs_shrink(&device, model, run, PLENTY, &shrunk, NULL), GS_E_USAGE);
    assert_int_equal(shrunk.played, 2);
    gs_shrunk_clear(&shrunk);
    flaky.patient = 0;
    flaky.patient_from = 1;
    shrunk = shrink(&device, model, run, PLENTY);
    assert_int_equal(shrunk.kept, 0);
    assert_int_equal(shrunk.seen->launches.count, run->launches.count);
    gs_shrunk_clear(&shrunk);
    gs_run_free(run);
    gs_gpu_free(model);
    gs_device_close(flaky.quirky);
    gs_device_close(flaky.plain);
}

/* A recording can only play the runs it contains: nothing shrinks, but the difference is described. */
TEST(a_recording_is_described_as_it_is) {
    char path[] = "/tmp/gridsmith-shrink-XXXXXX", name[64];
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    FILE *file = fdopen(descriptor, "w");
    gs_device *quirky = open_device("model:rtx3090,skip=5");
    gs_run *run = test_run_file("scenarios/case-2.1.json"), *recorded = gs_device_play(quirky, run, NULL, NULL);
    assert_int_equal(gs_run_write(recorded, file, NULL), GS_OK);
    assert_int_equal(fclose(file), 0);
    snprintf(name, sizeof name, "replay:%s", path);
    gs_device *replay = open_device(name);
    gs_gpu *model = open_gpu("rtx3090");
    gs_shrunk shrunk = shrink(replay, model, run, PLENTY);
    assert_int_equal(shrunk.kept, 0);
    assert_same_run(shrunk.seen, recorded);
    assert_non_null(strstr(shrunk.state.data, "SM 5: the device has 0 blocks of k1, the model "));
    gs_shrunk_clear(&shrunk);
    gs_gpu_free(model);
    gs_device_close(replay);
    gs_device_close(quirky);
    gs_run_free(recorded);
    gs_run_free(run);
    remove(path);
}

TEST_MAIN(NULL, NULL)
