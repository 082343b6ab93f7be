/*
 * test_pack.c: packs of planted GPUs become descriptions that predict fresh runs; a pack that was interrupted
 * continues; damaged and foreign files are refused.
 */
#include "test.h"

#include "lab/calibrate/calibrate.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FRESH = 120, HELD_OUT = 39 };

/* ---- a device of the test's own: a model that may refuse clusters, and may fail after some plays ---- */

struct planted {
    int64_t plays, fails_after; /* 0: it never fails */
    int32_t largest;            /* cluster that it takes */
};

/* The blocks of clusters go where single blocks would. */
static gs_run *play_singly(const gs_gpu *gpu, const gs_run *script, gs_error *error) {
    gs_run *single = gs_run_copy(script, error);
    assert_non_null(single);
    for (size_t i = 0; i < single->launches.count; i++)
        single->launches.data[i].cluster = 1;
    gs_run *seen = gs_predict(gpu, single, NULL, error);
    for (size_t i = 0; seen && i < seen->launches.count; i++)
        seen->launches.data[i].cluster = script->launches.data[i].cluster;
    gs_run_free(single);
    return seen;
}

static gs_run *planted_play(gs_device *device, const gs_run *script, const gs_play_options *options, gs_error *error) {
    struct planted *planted = device->inside;
    (void)options;
    if (planted->fails_after && ++planted->plays > planted->fails_after) {
        gs_fail(error, GS_E_IO, "the GPU was unplugged");
        return NULL;
    }
    for (size_t i = 0; i < script->launches.count; i++)
        if (script->launches.data[i].cluster > planted->largest) {
            gs_fail(error, GS_E_NO_GPU, "launching: invalid cluster size");
            return NULL;
        }
    return play_singly(device->gpu, script, error);
}

static const gs_device_ops planted_ops = {.name = "model", .play = planted_play};

static gs_gpu *plant(uint64_t index, int32_t sms) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 40), index);
    gs_gpu *gpu = random_gpu(&random, 50);
    random_no_grants(gpu);
    gpu->sms = sms;
    free(gpu->listed_order);
    gpu->listed_order = NULL;
    if (gpu->mechanisms.tie_order == GS_TIES_LISTED)
        gpu->mechanisms.tie_order = GS_TIES_ASCENDING;
    return gpu;
}

/* ---- files ---- */

static char *folder;

static int make_folder(void **state) {
    (void)state;
    folder = gs_folder_make(NULL);
    return folder ? 0 : 1;
}

static int remove_folder(void **state) {
    (void)state;
    gs_folder_remove(folder);
    free(folder);
    return 0;
}

/* The name of a file in the folder, valid until the call after the next. */
static const char *path_of(const char *name) {
    static char paths[2][200];
    static int turn;
    turn = 1 - turn;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", folder, name);
    return paths[turn];
}

static void read_bytes(const char *path, char **bytes, size_t *count) {
    assert_int_equal(gs_input_all(path, (size_t)1 << 30, bytes, count, NULL), GS_OK);
}

static void write_bytes(const char *path, const char *bytes, size_t count) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static gs_code make(gs_device *device, const char *path, int64_t runs, gs_packed *packed, gs_error *error) {
    gs_pack_options options = {
        .path = path, .date = "2026-11-16", .runs = runs, .held_out = HELD_OUT, .seed = 5, .seconds = 100000};
    *error = (gs_error){.code = GS_OK};
    return gs_pack_make(device, &options, packed, error);
}

static gs_gpu_pack *read_pack(const char *path) {
    gs_error error = {.code = GS_OK};
    gs_gpu_pack *pack = gs_pack_read(path, false, &error);
    if (!pack)
        fail_msg("%s", error.message);
    return pack;
}

/* ---- planted GPUs ---- */

static void pack_and_adopt(uint64_t index) {
    static const int32_t sizes[] = {6, 3, 11, 1, 24};
    gs_gpu *gpu = plant(index, sizes[index % GS_COUNT(sizes)]);
    struct planted planted = {.largest = 1};
    gs_device device = {.ops = &planted_ops, .gpu = gpu, .clusters = 1, .inside = &planted};
    gs_packed packed;
    gs_adoption adoption;
    gs_error error;
    gs_survey_options options = {0};
    const char *path = path_of("planted.gspack");
    unlink(path);
    if (make(&device, path, 100, &packed, &error) != GS_OK)
        fail_msg("index %d: %s", (int)index, error.message);
    gs_gpu_pack *pack = read_pack(path);
    assert_true(pack->is_complete);
    assert_null(pack->uuid);
    if (gs_pack_adopt(pack, "adopted", &options, &adoption, &error) != GS_OK)
        fail_msg("index %d: %s", (int)index, error.message);
    gs_score held_out = gs_scores_total(&adoption.held_out);
    print_message("index %d: %s, %d SMs: %lld of %lld fitted, %lld of %lld held out, %zu settings left\n", (int)index,
                  gpu->name, gpu->sms, (long long)adoption.survey.fit.best, (long long)adoption.survey.fit.recordings,
                  (long long)held_out.runs_exact, (long long)held_out.runs, adoption.survey.fit.setting_count);
    assert_string_equal(adoption.survey.gpu->name, "adopted");
    assert_int_equal(adoption.survey.fit.best, packed.survey.fit.best);
    assert_int_equal(adoption.survey.fit.recordings, packed.survey.fit.recordings);
    assert_memory_equal(&adoption.survey.gpu->mechanisms, &packed.survey.gpu->mechanisms, sizeof(gs_mechanisms));
    assert_int_equal(held_out.runs_exact, held_out.runs);
    assert_int_equal(held_out.runs + adoption.uncovered, packed.held_out);
    assert_true(held_out.runs > 0);
    test_predicts_fresh_runs(adoption.survey.gpu, gpu, 4711, FRESH);
    gs_adoption_clear(&adoption);
    gs_pack_free(pack);
    gs_packed_clear(&packed);
    gs_gpu_free(gpu);
}

TEST(planted_gpus_are_adopted_from_their_packs) {
    uint64_t plants = test_number("GRIDSMITH_RUNS", 100000) / 100000;
    if (!plants)
        skip(); /* half a minute under a sanitizer, of code that the test packs runs, too */
    for (uint64_t i = 0; i < plants; i++)
        pack_and_adopt(i);
}

/* Runs of this class have most launches. */
TEST(random_runs_have_no_more_launches_than_packs) {
    size_t most = 0;
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    assert_non_null(gpu);
    gs_bounds bounds = gs_bounds_of(gpu, 1);
    for (uint64_t index = 0; index < 400; index++) {
        gs_run *run = gs_generate(&bounds, "streams", 1, index, NULL);
        assert_non_null(run);
        most = run->launches.count > most ? run->launches.count : most;
        gs_run_free(run);
    }
    assert_in_range(most, GS_DEVICE_LAUNCHES / 2 + 1, GS_DEVICE_LAUNCHES);
    gs_gpu_free(gpu);
}

/* ---- interrupted ---- */

/* An H200 that refuses the clusters of 16 that the survey requests. */
static gs_gpu *plant_h200(void) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    assert_non_null(gpu);
    gs_gpu *part = gs_gpu_part(gpu, 8, NULL);
    gs_gpu_free(gpu);
    return part;
}

static void assert_same_file(const char *one, const char *two) {
    size_t counts[2];
    char *bytes[2];
    read_bytes(one, &bytes[0], &counts[0]);
    read_bytes(two, &bytes[1], &counts[1]);
    assert_int_equal(counts[0], counts[1]);
    assert_memory_equal(bytes[0], bytes[1], counts[0]);
    free(bytes[0]);
    free(bytes[1]);
}

/* Cuts the last bytes off, as a kill in the middle of a write does. */
static void tear(const char *path, off_t bytes) {
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(truncate(path, status.st_size > bytes ? status.st_size - bytes : 0), 0);
}

TEST(an_interrupted_pack_continues) {
    gs_gpu *gpu = plant_h200();
    struct planted planted = {.largest = 1};
    gs_device device = {.ops = &planted_ops, .gpu = gpu, .clusters = 2, .inside = &planted, .uuid = "GPU-1234"};
    gs_packed packed;
    gs_error error;
    int64_t stops = 0, step = test_number("GRIDSMITH_RUNS", 100000) < 100000 ? 20 : 7;
    assert_int_equal(make(&device, path_of("whole.gspack"), 20, &packed, &error), GS_E_NO_GPU); /* no clusters at all */
    gs_packed_clear(&packed);
    unlink(path_of("whole.gspack.part"));
    planted.largest = 2;
    if (make(&device, path_of("whole.gspack"), 20, &packed, &error) != GS_OK)
        fail_msg("%s", error.message);
    assert_true(packed.refused >= 1);
    int64_t runs = packed.runs;
    gs_packed_clear(&packed);
    for (gs_code code = GS_E_IO; code == GS_E_IO; stops++) {
        planted.plays = 0;
        planted.fails_after = 1 + stops * step;
        code = make(&device, path_of("cut.gspack"), 20, &packed, &error);
        assert_true(code == GS_OK || code == GS_E_IO);
        if (code == GS_OK)
            assert_int_equal(packed.runs, runs);
        gs_packed_clear(&packed);
        if (code == GS_E_IO && stops % 2)
            tear(path_of("cut.gspack.part"), 40);
    }
    assert_true(stops > 3);
    assert_same_file(path_of("whole.gspack"), path_of("cut.gspack"));
    assert_int_equal(access(path_of("cut.gspack.part"), F_OK), -1);
    gs_gpu_free(gpu);
}

TEST(a_pack_is_continued_on_the_same_gpu_only) {
    gs_gpu *gpu = plant_h200();
    struct planted planted = {.largest = 1, .fails_after = 3};
    gs_device device = {.ops = &planted_ops, .gpu = gpu, .clusters = 1, .inside = &planted, .uuid = "GPU-1234"};
    gs_packed packed;
    gs_error error;
    assert_int_equal(make(&device, path_of("same.gspack"), 20, &packed, &error), GS_E_IO);
    gs_packed_clear(&packed);
    size_t count;
    char *bytes;
    read_bytes(path_of("same.gspack.part"), &bytes, &count);
    assert_null(strstr(bytes, "GPU-1234"));
    free(bytes);
    snprintf(device.uuid, sizeof device.uuid, "GPU-5678");
    assert_int_equal(make(&device, path_of("same.gspack"), 20, &packed, &error), GS_E_USAGE);
    assert_non_null(strstr(error.message, "was made on another GPU"));
    gs_packed_clear(&packed);
    assert_int_equal(make(&device, path_of("whole.gspack"), 20, &packed, &error), GS_E_USAGE);
    assert_non_null(strstr(error.message, "exists already"));
    gs_packed_clear(&packed);
    gs_gpu_free(gpu);
}

/* ---- data about the owner of a pack ---- */

TEST(the_uuid_is_in_a_pack_only_if_wanted) {
    if (test_number("GRIDSMITH_RUNS", 100000) < 100000)
        skip(); /* a sanitizer sees this code in the others */
    gs_gpu *gpu = plant_h200();
    struct planted planted = {.largest = 1};
    gs_device device = {.ops = &planted_ops, .gpu = gpu, .clusters = 1, .inside = &planted, .uuid = "GPU-1234"};
    for (int wanted = 0; wanted < 2; wanted++) {
        gs_pack_options options = {
            .path = path_of("uuid.gspack"), .runs = 2, .held_out = 2, .seconds = 1000, .has_uuid = wanted};
        gs_packed packed;
        gs_error error = {.code = GS_OK};
        size_t count;
        assert_int_equal(gs_pack_make(&device, &options, &packed, &error), GS_OK);
        char *bytes;
        read_bytes(options.path, &bytes, &count);
        assert_int_equal(strstr(bytes, "1234") != NULL, wanted);
        assert_null(strstr(bytes, "same_gpu"));
        gs_gpu_pack *pack = read_pack(options.path);
        assert_int_equal(pack->uuid != NULL, wanted);
        gs_pack_free(pack);
        free(bytes);
        gs_packed_clear(&packed);
        unlink(options.path);
    }
    gs_gpu_free(gpu);
}

/* ---- other files ---- */

/* Replaces the first occurrence. */
static char *edited(const char *bytes, const char *from, const char *to) {
    const char *at = strstr(bytes, from);
    gs_text text = {0};
    assert_non_null(at);
    gs_text_put(&text, bytes, (size_t)(at - bytes));
    gs_text_put(&text, to, strlen(to));
    gs_text_put(&text, at + strlen(from), strlen(at + strlen(from)));
    assert_false(text.failed);
    return text.data;
}

/* Writes the lines of a pack with a new digest, as a forger would. */
static void write_sealed(const char *path, const char *lines) {
    const char *end = strstr(lines, "{\"end\":");
    unsigned char digest[32];
    char hex[65];
    gs_digest hash;
    gs_text text = {0};
    int64_t count = 0;
    assert_non_null(end);
    gs_text_put(&text, lines, (size_t)(end - lines));
    for (size_t i = 0; i < text.count; i++)
        count += text.data[i] == '\n';
    gs_digest_begin(&hash);
    gs_digest_add(&hash, text.data, text.count);
    gs_digest_end(&hash, digest);
    gs_digest_hex(digest, hex);
    gs_text_add(&text, "{\"end\":%lld,\"sha256\":\"%s\"}\n", (long long)count, hex);
    write_bytes(path, text.data, text.count);
    gs_text_free(&text);
}

static void assert_refused(const char *path, const char *words) {
    gs_error error = {.code = GS_OK};
    gs_gpu_pack *pack = gs_pack_read(path, false, &error);
    if (pack) {
        gs_adoption adoption;
        gs_survey_options options = {0};
        assert_int_not_equal(gs_pack_adopt(pack, "x", &options, &adoption, &error), GS_OK);
        gs_adoption_clear(&adoption);
        gs_pack_free(pack);
    }
    if (!strstr(error.message, words))
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
    assert_null(strchr(error.message, '\n'));
    assert_int_equal(gs_code_exit(error.code), 2);
}

TEST(files_that_are_no_packs_are_refused) {
    static const struct {
        const char *from, *to, *words;
    } lies[] = {
        {"gridsmith.pack/1", "gridsmith.pack/2", "made by a newer program: it has the format gridsmith.pack/2"},
        {"gridsmith.pack/1", "gridsmith.run/1", "not a pack, but gridsmith.run/1"},
        {"\"clusters\":", "\"clutter\":", "clutter"},
        {"\"sms\":8", "\"sms\":100000", "\"sms\" must be"},
        {"\"placed\":[0]", "\"placed\":[8]", "on an SM that the GPU lacks"},
        {"\"blocks\":1,", "\"blocks\":1000000000,", ""},
        {"\"class\":\"plain\"", "\"class\":\"plane\"", "a class of gridsmith fuzz"},
        {"\"class\":\"plain\"", "\"class\":\"pl\\u001bain\"", "must not contain control characters"},
        {"{\"part\":\"held_out\"}", "{\"part\":\"other\"}", "not a line of a pack"},
        {"{\"part\":\"held_out\"}", "[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]", ""},
        {"{\"part\":\"held_out\"}", "nonsense", ""},
        {"\"threads\":1024", "\"threads\":992", "its runs differ from those with which this program measures a GPU"},
    };
    size_t count;
    const char *path = path_of("lie.gspack");
    char *bytes;
    read_bytes(path_of("whole.gspack"), &bytes, &count);
    for (size_t i = 0; i < GS_COUNT(lies); i++) {
        char *lie = edited(bytes, lies[i].from, lies[i].to);
        write_bytes(path, lie, strlen(lie));
        assert_refused(path, "");
        write_sealed(path, lie);
        assert_refused(path, lies[i].words);
        free(lie);
    }
    free(bytes);
}

TEST(damaged_packs_are_refused) {
    size_t count;
    const char *path = path_of("damaged.gspack");
    char *bytes;
    read_bytes(path_of("whole.gspack"), &bytes, &count);
    gs_random random = gs_random_at(3, 3);
    for (int i = 0; i < (test_is_brief() ? 12 : 60); i++) {
        size_t length = (size_t)gs_random_from(&random, 0, (int64_t)count - 1);
        write_bytes(path, bytes, length);
        assert_refused(path, length ? "" : "not a complete pack");
        size_t at = (size_t)gs_random_from(&random, 0, (int64_t)count - 2);
        char kept = bytes[at];
        bytes[at] = (char)(kept ^ (1 << gs_random_from(&random, 0, 6)));
        write_bytes(path, bytes, count);
        assert_refused(path, "");
        bytes[at] = kept;
    }
    gs_text twice = {0};
    gs_text_put(&twice, bytes, count);
    gs_text_put(&twice, bytes, count);
    write_bytes(path, twice.data, twice.count);
    assert_refused(path, "there is data after its end");
    gs_text_free(&twice);
    free(bytes);
    assert_refused(path_of("absent.gspack"), "cannot read");
}

TEST_MAIN(make_folder, remove_folder)
