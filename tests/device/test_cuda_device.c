/*
 * test_cuda_device.c: the CUDA device records the placements of a GPU, and reports the fault of an unusable GPU.
 *
 * The driver is fake (tests/fake, found by LD_LIBRARY_PATH): a GPU that places blocks as the model does, so that every
 * difference is an error of the recording. GRIDSMITH_FAKE selects its behavior.
 */
#include "test.h"

#include "kernels/zoo/zoo.h"
#include "lab/device/probe.h"
#include "lab/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gs_device *open_fake(const char *words, const char *name) {
    gs_error error;
    setenv("GRIDSMITH_FAKE", words, 1);
    gs_device *device = gs_device_open(name, &error);
    if (!device)
        fail_msg("%s, %s: %s", words, name, error.message);
    return device;
}

static gs_run *play(gs_device *device, const gs_run *instance, const gs_play_options *options) {
    gs_error error;
    gs_run *recorded = gs_device_play(device, instance, options, &error);
    if (!recorded)
        fail_msg("%s", error.message);
    return recorded;
}

/* ---- opening ---- */

TEST(an_unknown_gpu_is_described_by_its_driver) {
    gs_device *device = open_fake("small", "cuda");
    gs_gpu *wanted = gs_gpu_open(test_path("tests/fake/small.json"), NULL);
    gs_text one = {0}, two = {0};
    assert_non_null(wanted);
    gs_gpu_text(device->gpu, &one);
    gs_gpu_text(wanted, &two);
    assert_string_equal(one.data, two.data);
    assert_int_equal(device->clusters, 1);
    gs_text_free(&one);
    gs_text_free(&two);
    gs_gpu_free(wanted);
    gs_device_close(device);
}

TEST(a_known_gpu_is_recognised) {
    gs_device *device = open_fake("h200", "cuda:0");
    assert_string_equal(device->gpu->name, "h200");
    assert_int_equal(device->gpu->sms, 132);
    assert_int_equal(device->clusters, 8);
    gs_device_close(device);
}

static int registers_of(const cu_api *api, gs_probe *probe, int32_t registers, int64_t local_bytes) {
    cu_kernel *kernel;
    gs_error error;
    int found = 0, local = 0;
    if (gs_probe_find(probe, registers, local_bytes, 0, &kernel, &error) != GS_OK)
        fail_msg("%d registers: %s", registers, error.message);
    assert_int_equal(api->function_get(&found, 4, kernel->function), 0);
    assert_int_equal(api->function_get(&local, 3, kernel->function), 0);
    assert_int_equal(local, local_bytes);
    return found;
}

TEST(kernels_have_exactly_the_registers_requested) {
    cu_api api;
    cu_context context;
    gs_probe probe;
    cu_kernel *kernel;
    gs_error error;
    setenv("GRIDSMITH_FAKE", "h200", 1);
    assert_int_equal(gs_cuda_open(&api, &error), GS_OK);
    assert_int_equal(api.init(0), 0);
    assert_int_equal(api.context_retain(&context, 0), 0);
    assert_int_equal(api.context_set(context), 0);
    assert_int_equal(gs_probe_open(&probe, &api, 90, 232448, &error), GS_OK);
    assert_int_equal(probe.kernels.count, 30);
    for (size_t i = 0; gs_generated_registers(i); i++) {
        int32_t registers = gs_generated_registers(i);
        assert_int_equal(registers_of(&api, &probe, registers, 0), registers);
        for (size_t j = 0; gs_generated_local_bytes(j) >= 0; j++)
            assert_int_equal(registers_of(&api, &probe, registers, gs_generated_local_bytes(j)), registers);
    }
    assert_int_equal(probe.kernels.count, 120);
    assert_int_equal(gs_probe_find(&probe, 23, 0, 0, &kernel, &error), GS_E_USAGE);
    assert_int_equal(gs_probe_find(&probe, 32, 1 << 20, 0, &kernel, &error), GS_E_USAGE);
    assert_int_equal(gs_probe_find(&probe, 32, 3, 0, &kernel, &error), GS_E_NO_GPU);
    assert_string_equal(error.message,
                        "the compiler gives no probe kernel with exactly 32 registers and 3 bytes of local "
                        "memory");
    gs_probe_close(&probe);
    assert_int_equal(api.context_release(0), 0);
    gs_cuda_close(&api);
}

/* Assembles PTX with NVIDIA's ptxas, and returns its output. */
static char *assemble(const char *ptxas, const char *folder, const gs_text *ptx, int architecture) {
    char option[32], path[200];
    const char *words[] = {ptxas, "-v", option, path, "-o", "/dev/null", NULL};
    gs_tool tool = {.words = words, .folder = folder, .seconds = 300};
    gs_error error;
    snprintf(option, sizeof option, "-arch=sm_%d", architecture);
    snprintf(path, sizeof path, "%s/probe.ptx", folder);
    assert_int_equal(gs_folder_write(folder, "probe.ptx", ptx->data, ptx->count, &error), GS_OK);
    gs_tool_end end = gs_tool_run(&tool);
    char *log = gs_folder_read(folder, "log", (size_t)1 << 20);
    if (end != GS_TOOL_DONE)
        fail_msg("sm_%d: %s", architecture, log ? log : "no log");
    assert_non_null(log);
    return log;
}

/* Each wanted count is used by one kernel, and nothing is spilled. */
static void check_assembled(const char *log, int architecture) {
    bool used[256] = {false};
    size_t kernels = 0, without_spills = 0;
    for (const char *at = log; (at = strstr(at, "Used ")); at++, kernels++)
        used[atoi(at + 5) & 255] = true;
    for (const char *at = log; (at = strstr(at, " 0 bytes spill stores")); at++)
        without_spills++;
    assert_int_equal(kernels, 30);
    assert_int_equal(without_spills, 30);
    for (size_t i = 0; gs_generated_registers(i); i++)
        if (!used[gs_generated_registers(i)])
            fail_msg("sm_%d: no kernel has %d registers", architecture, gs_generated_registers(i));
}

/* On GPUs that are not available here, the first guess is right as well. */
TEST(the_probe_is_exact_on_every_architecture) {
    static const int architectures[] = {75, 80, 86, 89, 90, 100, 120};
    bool is_long = test_number("GRIDSMITH_RUNS", 100000) > 100000;
    char ptxas[300];
    snprintf(ptxas, sizeof ptxas, "%s/bin/ptxas", gs_cuda_toolkit());
    if (access(ptxas, X_OK) != 0)
        skip(); /* no CUDA toolkit */
    char *folder = gs_folder_make(NULL);
    assert_non_null(folder);
    for (size_t i = 0; i < GS_COUNT(architectures); i += is_long ? 1 : 3)
        for (int64_t local = 0; local <= (is_long ? 1024 : 0); local += 1024) {
            gs_text ptx = {0};
            assert_true(gs_probe_text(&ptx, architectures[i], local));
            char *log = assemble(ptxas, folder, &ptx, architectures[i]);
            check_assembled(log, architectures[i]);
            free(log);
            gs_text_free(&ptx);
        }
    gs_folder_remove(folder);
    free(folder);
}

/* ---- recordings ---- */

/* The observations of a launch are complete: each started block has as many different warp slots as it has warps. */
static void check_slots(const gs_gpu *gpu, const gs_launch *launch, const gs_seen *seen) {
    size_t warps = (size_t)gs_divide_up(launch->shape.threads, gpu->limits.warp_threads), begin = 0;
    assert_true(seen->has_placed && seen->has_warp_slots);
    assert_int_equal(seen->placed.count, launch->blocks);
    for (size_t i = 0; i < seen->placed.count; i++) {
        size_t end = seen->warp_slots.ends[i];
        uint64_t slots = 0;
        assert_int_equal(end - begin, seen->placed.data[i] == GS_WAIT ? 0 : warps);
        for (size_t at = begin; at < end; at++) {
            assert_in_range(seen->warp_slots.slots[at], 0, gpu->limits.threads_per_sm / gpu->limits.warp_threads - 1);
            slots |= UINT64_C(1) << seen->warp_slots.slots[at];
        }
        assert_int_equal(__builtin_popcountll(slots), end - begin);
        begin = end;
    }
}

/* The text of a recording is a run. */
static void check_text(const gs_run *recorded) {
    gs_text text = {0}, again = {0};
    gs_run_text(recorded, &text);
    gs_run *read = test_run_of(text.data);
    gs_run_text(read, &again);
    assert_string_equal(text.data, again.data);
    gs_run_free(read);
    gs_text_free(&text);
    gs_text_free(&again);
}

/* Records a random run and compares it with its prediction. */
static gs_score record_and_score(gs_device *device, const char *class_name, uint64_t index, bool patient) {
    gs_error error;
    gs_bounds bounds = gs_device_bounds(device);
    gs_run *instance = gs_generate(&bounds, class_name, 1, index, &error);
    gs_run *predicted = instance ? gs_predict(device->gpu, instance, NULL, &error) : NULL;
    assert_non_null(predicted);
    gs_play_options options = {.expected = predicted, .patient = patient};
    gs_run *recorded = play(device, instance, &options);
    gs_score score = {0};
    assert_int_equal(gs_score_add(&score, recorded, predicted, &error), GS_OK);
    assert_int_equal(recorded->launches.count, instance->launches.count);
    assert_string_equal(recorded->class_name, class_name);
    assert_string_equal(recorded->gpu, device->gpu->name);
    assert_int_equal(recorded->id, index);
    for (size_t i = 0; i < recorded->events.count; i++)
        if (recorded->events.data[i].op != GS_EXIT)
            check_slots(device->gpu, &recorded->launches.data[recorded->events.data[i].launch],
                        recorded->events.data[i].seen);
    check_text(recorded);
    gs_run_free(recorded);
    gs_run_free(predicted);
    gs_run_free(instance);
    return score;
}

TEST(recordings_show_what_the_gpu_did) {
    static const char *const gpus[] = {"small", "h200"};
    static const char *const classes[] = {"plain", "shared", "small", "exits", "priority", "local"};
    for (size_t g = 0; g < GS_COUNT(gpus); g++) {
        gs_device *device = open_fake(gpus[g], "cuda");
        assert_int_equal(gs_gpu_set(device->gpu, "numbering", "as-placed", NULL), GS_OK); /* as in gpu.c */
        gs_score all = {0};
        for (size_t i = 0; i < GS_COUNT(classes); i++)
            for (uint64_t index = 0; index < (g ? 4 : 20); index++) {
                gs_score score = record_and_score(device, classes[i], index, false);
                if (!score.runs_exact || score.blocks_exact != score.blocks)
                    fail_msg("%s, class %s, seed 1, index %d: %lld of %lld launches are exact", gpus[g], classes[i],
                             (int)index, (long long)score.launches_exact, (long long)score.launches);
                all.runs++;
                all.launches += score.launches;
                all.blocks += score.blocks;
            }
        print_message("%s: %lld runs, %lld launches, %lld blocks\n", gpus[g], (long long)all.runs,
                      (long long)all.launches, (long long)all.blocks);
        gs_device_close(device);
    }
}

/* The fake driver has green contexts, but does not confine kernels to them: the device finds all SMs in each. */
TEST(launches_in_green_contexts_are_recorded) {
    gs_device *device = open_fake("h200", "cuda");
    assert_int_equal(gs_gpu_set(device->gpu, "numbering", "as-placed", NULL), GS_OK); /* as in gpu.c */
    assert_int_equal(gs_device_split(device, NULL), GS_OK);
    assert_int_equal(device->contexts.count, 4);
    for (int32_t i = 0; i < 4; i++)
        assert_int_equal(device->contexts.ends[i], 132 * (i + 1));
    device->gpu->join = (gs_join){0}; /* as in gpu.c */
    for (uint64_t index = 0; index < 8; index++) {
        gs_score score = record_and_score(device, index % 2 ? "confined" : "green", index / 2, false);
        assert_int_equal(score.runs_exact, 1);
        assert_int_equal(score.blocks_exact, score.blocks);
    }
    gs_device_close(device);
}

/* A busy machine can be slower than any time limit, so each run is tried several times. */
TEST(blocks_that_start_late_are_waited_for) {
    gs_device *device = open_fake("small,late", "cuda");
    for (uint64_t index = 0; index < 10; index++) {
        int tries = 0;
        while (!record_and_score(device, index % 2 ? "exits" : "shared", index, true).runs_exact)
            assert_true(++tries < 300);
    }
    gs_device_close(device);
}

/* The SM of a block arrives before the slots of its warps. */
TEST(the_rest_of_a_report_is_waited_for) {
    gs_device *device = open_fake("small,torn", "cuda");
    for (uint64_t index = 0; index < 12; index++)
        record_and_score(device, index % 2 ? "exits" : "shared", index, false);
    gs_device_close(device);
}

/* ---- durations ---- */

/* The time of a warp on its slot. */
struct stay {
    int32_t sm, slot;
    int64_t start_ns, end_ns;
};

static int compare_stays(const void *a, const void *b) {
    const struct stay *one = a, *two = b;
    if (one->sm != two->sm)
        return one->sm - two->sm;
    if (one->slot != two->slot)
        return one->slot - two->slot;
    return (one->start_ns > two->start_ns) - (one->start_ns < two->start_ns);
}

/* All blocks have run for their duration, and no two warps were on one slot at the same time. */
static void check_times(const gs_gpu *gpu, const gs_run *run) {
    struct {
        struct stay *data;
        size_t count, capacity;
    } stays = {0};
    for (size_t i = 0; i < run->launches.count; i++) {
        const gs_launch *launch = &run->launches.data[i];
        const gs_seen *seen = run->events.data[launch->event].seen;
        assert_true(seen->has_start && seen->has_end);
        check_slots(gpu, launch, seen);
        for (int64_t block = 0; block < launch->blocks; block++) {
            struct stay stay = {gs_seen_sm(seen, block), 0, gs_seen_time(&seen->start_ns, block),
                                gs_seen_time(&seen->end_ns, block)};
            assert_in_range(stay.sm, 0, gpu->sms - 1);
            assert_true(stay.start_ns > 0 && stay.end_ns >= stay.start_ns + launch->duration_ns);
            for (size_t at = block ? seen->warp_slots.ends[block - 1] : 0; at < seen->warp_slots.ends[block]; at++) {
                stay.slot = seen->warp_slots.slots[at];
                assert_true(GS_RESERVE(&stays, 1));
                stays.data[stays.count++] = stay;
            }
        }
    }
    qsort(stays.data, stays.count, sizeof *stays.data, compare_stays);
    for (size_t i = 1; i < stays.count; i++)
        if (stays.data[i - 1].sm == stays.data[i].sm && stays.data[i - 1].slot == stays.data[i].slot)
            assert_true(stays.data[i - 1].end_ns <= stays.data[i].start_ns);
    free(stays.data);
}

TEST(timed_runs_have_times) {
    gs_device *device = open_fake("small", "cuda");
    gs_bounds bounds = gs_device_bounds(device);
    gs_error error;
    for (uint64_t index = 0; index < 10; index++) {
        gs_run *instance = gs_generate(&bounds, "timed", 1, index, &error);
        gs_run *predicted = instance ? gs_predict(device->gpu, instance, NULL, &error) : NULL;
        assert_non_null(predicted);
        gs_run *recorded = play(device, instance, NULL);
        check_times(device->gpu, recorded);
        /* Later launches depend on the speed of the host; the first one finds an idle GPU. */
        const gs_seen *one = recorded->events.data[0].seen, *two = predicted->events.data[0].seen;
        for (int64_t block = 0; block < instance->launches.data[0].blocks; block++)
            assert_int_equal(gs_seen_sm(one, block), gs_seen_sm(two, block));
        gs_run_free(recorded);
        gs_run_free(predicted);
        gs_run_free(instance);
    }
    gs_device_close(device);
}

/* Plays a run given as text and returns the recording. */
static gs_run *play_text(gs_device *device, const char *text) {
    gs_run *instance = test_run_of(text);
    gs_run *recorded = play(device, instance, NULL);
    gs_run_free(instance);
    return recorded;
}

#define RUN(events) "{\"schema\":\"gridsmith.run/1\",\"events\":[" events "]}"
#define KERNEL_SHARING(name, blocks, shared, more)                                                                     \
    "{\"op\":\"launch\",\"kernel\":\"" name "\",\"blocks\":" blocks ",\"threads\":1024,\"registers\":32,"              \
    "\"shared_bytes\":" shared more "}"
#define KERNEL(name, blocks, more) KERNEL_SHARING(name, blocks, "0", more)
#define EXIT(name)                 "{\"op\":\"exit\",\"kernel\":\"" name "\"}"

static const gs_seen *seen_of(const gs_run *run, size_t launch) {
    return run->events.data[run->launches.data[launch].event].seen;
}

/* At the exit of a kernel with a duration the host waits for all its blocks, also for those that have not started. */
TEST(an_exit_waits_for_a_timed_kernel) {
    gs_device *device = open_fake("small", "cuda");
    gs_run *run = play_text(device, RUN(KERNEL("a", "25", ",\"duration_us\":2000") "," EXIT("a") "," KERNEL(
                                        "b", "10", ",\"duration_us\":100")));
    int64_t last_end = 0;
    check_times(device->gpu, run);
    for (int64_t i = 0; i < 25; i++) {
        int64_t end_ns = gs_seen_time(&seen_of(run, 0)->end_ns, i);
        last_end = end_ns > last_end ? end_ns : last_end;
    }
    for (int64_t i = 0; i < 10; i++)
        assert_true(gs_seen_time(&seen_of(run, 1)->start_ns, i) >= last_end);
    gs_run_free(run);
    gs_device_close(device);
}

/* A kernel without a duration stays until the end of the run, and launches that wait for it are recorded as waiting. */
TEST(kernels_with_and_without_durations_mix) {
    gs_device *device = open_fake("small", "cuda");
    for (int i = 0; i < 2; i++) {
        gs_run *run =
            play_text(device, RUN(KERNEL("timed", "5", ",\"duration_us\":500") "," KERNEL("endless", "10", "")));
        assert_int_equal(gs_seen_started(seen_of(run, 0)), 5);
        assert_int_equal(gs_seen_started(seen_of(run, 1)), 10);
        assert_true(gs_seen_time(&seen_of(run, 0)->end_ns, 4) != GS_NO_TIME);
        assert_true(gs_seen_time(&seen_of(run, 1)->end_ns, 9) == GS_NO_TIME);
        gs_run_free(run);
        run = play_text(device, RUN(KERNEL("endless", "10", "") "," KERNEL("timed", "5", ",\"duration_us\":500")));
        assert_int_equal(gs_seen_started(seen_of(run, 0)), 10);
        assert_int_equal(gs_seen_started(seen_of(run, 1)), 0);
        gs_run_free(run);
    }
    gs_device_close(device);
}

TEST(a_stream_keeps_its_order) {
    gs_device *device = open_fake("small", "cuda");
    gs_run *run = play_text(device, RUN(KERNEL("other", "1", "") "," KERNEL("first", "1", ",\"stream\":7") "," KERNEL(
                                        "second", "1", ",\"stream\":7") "," EXIT("first")));
    assert_int_equal(gs_seen_started(seen_of(run, 0)), 1);
    assert_int_equal(gs_seen_started(seen_of(run, 1)), 1);
    assert_int_equal(gs_seen_started(seen_of(run, 2)), 0);
    assert_int_equal(run->events.count, 5);
    assert_int_equal(run->events.data[4].op, GS_OBSERVE);
    assert_int_equal(run->events.data[4].launch, 2);
    assert_int_equal(gs_seen_started(run->events.data[4].seen), 1);
    gs_run_free(run);
    gs_device_close(device);
}

/* ---- errors ---- */

TEST(an_unusable_gpu_is_said_to_be_so) {
    static const struct {
        const char *words, *device, *message;
    } cases[] = {
        {"init-fails", "cuda", "starting CUDA: no CUDA-capable device is detected (CUDA error 100)"},
        {"no-device", "cuda", "there is no GPU \"0\": CUDA sees 0"},
        {"small", "cuda:1", "there is no GPU \"1\": CUDA sees 1"},
        {"small", "cuda:7,sms=8", "there is no GPU \"7,sms=8\": CUDA sees 1"},
        {"compile-fails", "cuda", "compiling the probe: a PTX JIT compilation failed (CUDA error 218)"},
        {"coarse", "cuda", "the compiler gives no probe kernel with exactly 24 registers and 0 bytes of local memory"},
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_error error = {.code = GS_OK};
        setenv("GRIDSMITH_FAKE", cases[i].words, 1);
        assert_null(gs_device_open(cases[i].device, &error));
        assert_int_equal(error.code, GS_E_NO_GPU);
        assert_string_equal(error.message, cases[i].message);
        assert_int_equal(gs_code_exit(error.code), 3);
    }
}

/* Plays a run that must fail, and returns the error. */
static gs_error play_wrong(gs_device *device, const gs_run *instance) {
    gs_error error = {.code = GS_OK};
    assert_null(gs_device_play(device, instance, NULL, &error));
    return error;
}

TEST(a_run_that_cannot_be_recorded_is_refused) {
    gs_device *device = open_fake("small", "cuda");
    static const struct {
        const char *text;
        gs_code code;
        const char *message;
    } cases[] = {
        {RUN(KERNEL("a", "10000000", "")), GS_E_USAGE, "the run has more blocks than can report to the host"},
        {RUN(KERNEL("a", "1", ",\"local_bytes\":100000")), GS_E_USAGE,
         "the probe has kernels of 24 to 255 registers and up to 64 KB of local memory a thread, not of 32 registers "
         "and 100000 bytes"},
        {RUN(KERNEL("a", "1", "") "," KERNEL_SHARING("b", "1", "200000", "")), GS_E_NO_GPU,
         "launching: invalid argument (CUDA error 1)"},
    };
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        gs_run *instance = test_run_of(cases[i].text);
        gs_error error = play_wrong(device, instance);
        assert_int_equal(error.code, cases[i].code);
        assert_string_equal(error.message, cases[i].message);
        gs_run_free(instance);
    }
    gs_text text = {0};
    for (int i = 0; i < 257; i++)
        gs_text_add(
            &text,
            "%s{\"op\":\"launch\",\"kernel\":\"k%d\",\"blocks\":1,\"threads\":32,\"registers\":32,\"shared_bytes\":0}",
            i ? "," : "{\"schema\":\"gridsmith.run/1\",\"events\":[", i);
    gs_text_add(&text, "]}");
    gs_run *instance = test_run_of(text.data);
    assert_string_equal(play_wrong(device, instance).message, "a run on a GPU has at most 256 launches");
    gs_run_free(instance);
    gs_text_free(&text);
    instance = test_run_of("{\"schema\":\"gridsmith.run/1\",\"connections\":3,\"events\":[]}");
    assert_string_equal(play_wrong(device, instance).message,
                        "the run has 3 connections, but this program has 32: set CUDA_DEVICE_MAX_CONNECTIONS=3");
    gs_run_free(instance);
    assert_true(record_and_score(device, "exits", 0, false).runs_exact);
    gs_device_close(device);
}

TEST(a_launch_that_fails_ends_its_run_only) {
    gs_device *device = open_fake("small,launch-fails", "cuda");
    gs_run *instance = test_run_of(RUN(KERNEL("a", "4", "") "," KERNEL("b", "4", "") "," KERNEL("c", "4", "")));
    gs_error error = play_wrong(device, instance);
    assert_int_equal(error.code, GS_E_NO_FIT);
    assert_string_equal(error.message, "launching: too many resources requested for launch (CUDA error 701)");
    assert_true(record_and_score(device, "exits", 0, false).runs_exact);
    gs_run_free(instance);
    gs_device_close(device);
}

/* Growing local memory blocks the launch until the GPU is idle, and it becomes idle only after a stop. */
TEST(a_launch_that_blocks_the_host_is_freed) {
    gs_device *device = open_fake("small,blocks-host", "cuda");
    int64_t begin_ns = gs_now_ns();
    gs_run *run = play_text(device, RUN(KERNEL("a", "4", "") "," KERNEL("b", "4", ",\"local_bytes\":4096") "," KERNEL(
                                        "c", "4", "") "," EXIT("a")));
    int64_t took_ns = gs_now_ns() - begin_ns;
    assert_true(took_ns > 150000000 && took_ns < INT64_C(120000000000));
    assert_int_equal(gs_seen_started(seen_of(run, 0)), 4);
    assert_true(seen_of(run, 1)->has_placed);
    assert_int_equal(gs_seen_started(seen_of(run, 1)), 0);
    assert_false(seen_of(run, 2)->has_placed);
    assert_int_equal(run->events.count, 4);
    gs_run_free(run);

    static const char *const classes[] = {"local", "exits", NULL};
    gs_campaign_options options = {.classes = classes, .count = 8, .seed = 2};
    gs_campaign campaign;
    gs_error error;
    if (gs_campaign_run(device, device->gpu, &options, &campaign, &error) != GS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(campaign.played, 8);
    assert_int_equal(campaign.mismatches, 0);
    gs_campaign_clear(&campaign);
    gs_device_close(device);
}

TEST(a_stuck_gpu_does_not_hang_the_host) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {RUN(KERNEL("a", "4", "")), "the GPU is stuck: not all blocks of \"a\" have run"},
        {RUN(KERNEL("a", "4", "") "," EXIT("a")), "the GPU is stuck: a kernel does not stop"},
        {RUN(KERNEL("a", "4", ",\"duration_us\":10")), "the GPU is stuck: not all blocks of \"a\" have run"},
    };
    for (size_t i = 0; i < (test_is_brief() ? 1 : GS_COUNT(cases)); i++) { /* each takes seconds */
        gs_device *device = open_fake("small,stuck", "cuda");
        gs_run *instance = test_run_of(cases[i].text);
        int64_t begin_ns = gs_now_ns();
        gs_error error = play_wrong(device, instance);
        assert_true(gs_now_ns() - begin_ns < INT64_C(10000000000));
        assert_int_equal(error.code, GS_E_NO_GPU);
        assert_string_equal(error.message, cases[i].message);
        gs_run_free(instance);
        gs_device_close(device);
    }
}

/* ---- applications ---- */

/* At a large size the results of the first pass are expected, because there is no reference. */
TEST(a_load_notices_what_is_wrong) {
    static const gs_zoo_size size = {"large", {64, 48, 16}};
    static const float wrong = 1e6f;
    gs_zoo_task task = {.name = NULL};
    gs_zoo_load load;
    gs_zoo_round round;
    gs_error error;
    setenv("GRIDSMITH_FAKE", "small", 1);
    gs_app_stream *stream = gs_app_stream_cuda("", &error);
    assert_non_null(stream);
    assert_int_equal(stream->ops->enter(stream, &error), GS_OK);
    assert_true(gs_zoo_task_add(&task, gs_zoo_find("sgemm"), &size));
    if (gs_zoo_load_open(&load, &task, stream, &error) != GS_OK)
        fail_msg("%s", error.message);
    const gs_zoo_resident *resident = &load.residents.data[0];
    assert_false(resident->is_changed[0] || resident->is_changed[1]);
    assert_true(resident->is_changed[2]);
    assert_int_equal(gs_zoo_load_round(&load, 3, &round, &error), GS_OK);
    assert_int_equal(round.launches, 3 + 1); /* C is restored before the last pass */
    assert_true(round.ended_ns > round.began_ns);
    assert_int_equal(gs_zoo_load_check(&load, &error), GS_OK);
    assert_int_equal(
        stream->ops->copy_in(stream, resident->memory[2] + 100 * sizeof wrong, &wrong, sizeof wrong, &error), GS_OK);
    assert_int_equal(gs_zoo_load_check(&load, &error), GS_E_KERNEL);
    assert_non_null(strstr(error.message, "buffer 3, element 100: "));
    assert_non_null(strstr(error.message, "got 1000000"));
    assert_int_equal(gs_zoo_load_round(&load, 1, &round, &error), GS_OK);
    assert_int_equal(gs_zoo_load_check(&load, &error), GS_OK);
    gs_zoo_load_close(&load);
    gs_zoo_task_free(&task);
    gs_app_stream_close(stream);
}

/* Track 1 counts, which takes a while, and track 0 copies what it has counted. */
TEST(a_track_waits_for_another) {
    enum { NUMBERS = 10000000, ROUNDS = 5 };
    static const char text[] =
        ".version 7.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry count(.param .u64 at) {\n"
        "\t.reg .pred %more;\n\t.reg .b32 %value, %left;\n\t.reg .b64 %at;\n"
        "\tld.param.u64 %at, [at];\n\tcvta.to.global.u64 %at, %at;\n\tmov.u32 %left, 10000000;\n"
        "again:\n\tld.global.u32 %value, [%at];\n\tadd.u32 %value, %value, 1;\n\tst.global.u32 [%at], %value;\n"
        "\tsub.u32 %left, %left, 1;\n\tsetp.ne.u32 %more, %left, 0;\n\t@%more bra again;\n\tret;\n}\n"
        ".visible .entry copy(.param .u64 to, .param .u64 from) {\n"
        "\t.reg .b32 %value;\n\t.reg .b64 %to, %from;\n"
        "\tld.param.u64 %to, [to];\n\tld.param.u64 %from, [from];\n"
        "\tcvta.to.global.u64 %to, %to;\n\tcvta.to.global.u64 %from, %from;\n"
        "\tld.global.u32 %value, [%from];\n\tst.global.u32 [%to], %value;\n\tret;\n}\n";
    const char *kernels[] = {"count", "copy"};
    const gs_build build = {
        .name = "tracks.ptx", .text = text, .size = sizeof text - 1, .kernels = kernels, .kernel_count = 2};
    gs_job_argument arguments[] = {{.buffer = 0}, {.buffer = 1}};
    uint64_t buffers[2];
    gs_error error;
    setenv("GRIDSMITH_FAKE", "small", 1);
    gs_app_stream *stream = gs_app_stream_cuda("", &error);
    assert_non_null(stream);
    const gs_app_stream_ops *ops = stream->ops;
    gs_app_launch call = {.track = 1,
                          .grid = {1, 1, 1},
                          .block = {1, 1, 1},
                          .arguments = arguments + 1,
                          .argument_count = 1,
                          .buffers = buffers};
    assert_int_equal(ops->enter(stream, &error), GS_OK);
    if (ops->load(stream, &build, &call.module, &error) != GS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(ops->allocate(stream, sizeof(uint32_t), &buffers[0], &error), GS_OK);
    assert_int_equal(ops->allocate(stream, sizeof(uint32_t), &buffers[1], &error), GS_OK);
    gs_app_launch copy = call;
    copy.track = 0, copy.kernel = 1, copy.arguments = arguments, copy.argument_count = 2;
    for (uint32_t round = 1, found; round <= ROUNDS; round++) {
        assert_int_equal(ops->launch(stream, &call, &error), GS_OK);
        assert_int_equal(ops->order(stream, 1, 0, &error), GS_OK);
        assert_int_equal(ops->launch(stream, &copy, &error), GS_OK);
        assert_int_equal(ops->copy_out(stream, &found, buffers[0], sizeof found, &error), GS_OK);
        assert_int_equal(found, round * NUMBERS);
    }
    gs_app_stream_close(stream);
}

/* The device waits for a GPU for milliseconds, and for the driver for 0.2 s. On a machine that stands still for longer
   a recording is not complete, so after a failure all is tried again. */
int main(int argc, char **argv) {
    (void)argc;
    enum { MOST_TRIES = 4 };
    int failed = TEST_ALL(NULL, NULL);
    char tries[20];
    snprintf(tries, sizeof tries, "%d", (int)test_number("GRIDSMITH_TRIES", 1) + 1);
    if (failed && atoi(tries) <= MOST_TRIES && setenv("GRIDSMITH_TRIES", tries, 1) == 0)
        execv("/proc/self/exe", argv);
    return failed;
}
