/*
 * test_gpu.c: descriptions are read and written back, bad ones are refused, and occupancy agrees with NVIDIA's.
 *
 * The occupancy is compared with cuda_occupancy.h of the CUDA toolkit, which needs no GPU. Without a toolkit that test
 * is skipped.
 */
#include "test.h"

#include "model/gpu/gpu.h"
#include "model/gpu/siblings.h"
#include "random.h"

#ifdef GRIDSMITH_CUDA
#    pragma GCC diagnostic push
#    pragma GCC diagnostic ignored "-Wconversion"
#    pragma GCC diagnostic ignored "-Wshadow"
#    pragma GCC diagnostic ignored "-Wunused-function"
#    include <cuda_occupancy.h>
#    pragma GCC diagnostic pop
#endif

#include <ctype.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

static gs_gpu *read_gpu(const char *text, gs_error *error) {
    gs_input *input = gs_input_memory("text", text, strlen(text), error);
    gs_gpu *gpu = gs_gpu_read(input, error);
    gs_input_close(input);
    return gpu;
}

TEST(descriptions_are_written_as_they_were_read) {
    size_t count = 0;
    for (; gs_gpu_builtin(count); count++) {
        gs_error error;
        gs_gpu *gpu = gs_gpu_open(gs_gpu_builtin(count), &error);
        if (!gpu)
            fail_msg("%s: %s", gs_gpu_builtin(count), error.message);
        assert_string_equal(gpu->name, gs_gpu_builtin(count));
        gs_text once = {0}, twice = {0};
        gs_gpu_text(gpu, &once);
        gs_gpu *again = read_gpu(once.data, &error);
        assert_non_null(again);
        gs_gpu_text(again, &twice);
        assert_string_equal(once.data, twice.data);
        gs_text_free(&once);
        gs_text_free(&twice);
        gs_gpu_free(again);
        gs_gpu_free(gpu);
    }
    glob_t files;
    assert_int_equal(glob(test_path("gpus/*.json"), 0, NULL, &files), 0);
    assert_int_equal(count, files.gl_pathc + gs_sibling_count);
    globfree(&files);
}

#define LIMITS                                                                                                         \
    "\"limits\":{\"blocks_per_sm\":2,\"threads_per_sm\":64,\"threads_per_block\":64,\"warp_threads\":32,"              \
    "\"partitions_per_sm\":1,\"registers_per_sm\":1024,\"registers_per_thread\":64,\"register_granularity\":256,"      \
    "\"shared_per_block_bytes\":512,\"shared_granularity_bytes\":128,\"shared_reserved_bytes\":0,"                     \
    "\"shared_configurations_bytes\":[512,1024]}"
#define GPU(topology, limits, mechanisms)                                                                              \
    "{\"schema\":\"gridsmith.gpu/1\",\"name\":\"g\",\"topology\":{\"sms\":2," topology "}," limits                     \
    ",\"mechanisms\":{" mechanisms "}}"
#define TPC "\"sms_per_tpc\":1"
#define GRANTS(value)                                                                                                  \
    "{\"schema\":\"gridsmith.gpu/1\",\"name\":\"g\",\"topology\":{\"sms\":2," TPC "}," LIMITS ",\"grants\":" value "}"
#define CLUSTERS(first, others, clusters)                                                                              \
    "{\"schema\":\"gridsmith.gpu/1\",\"name\":\"g\",\"topology\":{\"sms\":4,\"sms_per_tpc\":2}," LIMITS                \
    ",\"grants\":{\"first\":" first ",\"others\":" others ",\"between_rounds\":8,\"before_cut\":[1,1,1,1]," clusters   \
    "}}"

#define MEMORY(value)                                                                                                  \
    "{\"schema\":\"gridsmith.gpu/1\",\"name\":\"g\",\"topology\":{\"sms\":2," TPC "}," LIMITS                          \
    ",\"graph_memory\":" value "}"
#define KERNEL(more) "{\"threads\":32,\"registers\":16,\"least_bytes\":1,\"block_bytes\":64" more "}"

/* Descriptions with a mistake, and words of the error. */
static const struct {
    const char *text, *words;
} bad_descriptions[] = {
    {"", "the description of the GPU is empty"},
    {"{\"schema\":\"gridsmith.run/1\"}", "\"schema\" must be \"gridsmith.gpu/1\""},
    {GPU("", LIMITS, ""), "not valid JSON"},
    {GPU("\"gpcs\":1", LIMITS, ""), "\"sms_per_tpc\" is missing"},
    {GPU(TPC, "\"limits\":{}", ""), "\"blocks_per_sm\" is missing"},
    {GPU(TPC, "\"limits\":3", ""), "limits must be an object"},
    {GPU(TPC, LIMITS, "\"placement\":\"best\""), "placement cannot be \"best\"; it can be: most-room, round-robin"},
    {GPU(TPC, LIMITS, "\"place\":\"most-room\""), "unknown mechanism \"place\""},
    {GPU(TPC, LIMITS, "\"placement\":1"), "\"placement\" must be a string"},
    {GPU(TPC, LIMITS, "\"tie_order\":\"listed\""), "tie_order cannot be \"listed\"; it can be: even-odd, ascending"},
    {GPU(TPC, LIMITS, "\"tie_order\":[0]"), "a tie order must name each of the 2 SMs once"},
    {GPU(TPC, LIMITS, "\"tie_order\":[0,0]"), "SM 0 occurs twice in the tie order"},
    {GPU(TPC, LIMITS, "\"tie_order\":[0,2]"), "\"tie_order\" must be from 0 to 1, not 2"},
    {GPU(TPC ",\"gpc_sms\":7", LIMITS, ""), "\"gpc_sms\" must be a list of 1 to 2 lists of SMs"},
    {GPU(TPC ",\"gpc_sms\":[]", LIMITS, ""), "\"gpc_sms\" must be a list of 1 to 2 lists of SMs"},
    {GPU(TPC ",\"gpc_sms\":[0]", LIMITS, ""), "a group must be a list of its SMs"},
    {GPU(TPC ",\"gpc_sms\":[[0],[]]", LIMITS, ""), "a group must be a list of its SMs"},
    {GPU(TPC ",\"gpc_sms\":[[0,2]]", LIMITS, ""), "\"gpc_sms\" must be from 0 to 1, not 2"},
    {GPU(TPC ",\"gpc_sms\":[[0],[1,0]]", LIMITS, ""), "SM 0 occurs twice in the groups"},
    {GRANTS("7"), "grants must be an object"},
    {MEMORY("7"), "graph_memory must be an object"},
    {MEMORY("{\"memset\":" KERNEL("") "}"), "\"copy\" is missing"},
    {MEMORY("{\"memset\":" KERNEL("") ",\"copy\":7}"), "copy must be an object"},
    {MEMORY("{\"memset\":" KERNEL(",\"large_bytes\":9") ",\"copy\":" KERNEL("") "}"),
     "\"large_bytes\" and \"large_block_bytes\" must be given together"},
    {MEMORY("{\"memset\":{\"threads\":65536,\"registers\":1,\"least_bytes\":1,\"block_bytes\":1},\"copy\":" KERNEL(
         "") "}"),
     "the blocks of \"memset\" do not fit on this GPU"},
    {GRANTS("{\"first\":[],\"others\":[[0]],\"between_rounds\":8,\"before_cut\":[1,1]}"),
     "\"first\" and \"others\" must have each of the 2 SMs, in at most 64 groups"},
    {GRANTS("{\"first\":[],\"others\":[],\"between_rounds\":8,\"before_cut\":[1,1]}"),
     "\"others\" must be a list of 1 to 2 lists of SMs"},
    {GRANTS("{\"first\":[],\"others\":[[1,0]],\"between_rounds\":8,\"before_cut\":[1,1]}"),
     "a group has at most 64 SMs, in ascending order"},
    {GRANTS("{\"first\":[[0]],\"others\":[[0,1]],\"between_rounds\":8,\"before_cut\":[1,1]}"),
     "SM 0 occurs twice in the groups"},
    {GRANTS("{\"first\":[[0]],\"others\":[[1]],\"between_rounds\":8,\"before_cut\":[1]}"),
     "\"before_cut\" must have a number for each of the 2 SMs"},
    {CLUSTERS("[[0,1]]", "[[2,3]]", "\"cluster_first\":[[0,1]]"),
     "\"cluster_first\" and \"cluster_blocks_per_sm\" must be given together: one is missing"},
    {CLUSTERS("[[0,1]]", "[[2,3]]", "\"cluster_blocks_per_sm\":8"),
     "\"cluster_first\" and \"cluster_blocks_per_sm\" must be given together: one is missing"},
    {CLUSTERS("[[0,1]]", "[[2,3]]", "\"cluster_first\":[[0,1]],\"cluster_blocks_per_sm\":65"),
     "\"cluster_blocks_per_sm\" must be from 1 to 64, not 65"},
    {CLUSTERS("[[0,1]]", "[[2,3]]", "\"cluster_first\":7,\"cluster_blocks_per_sm\":8"),
     "\"cluster_first\" must be a list of 0 to 4 lists of SMs"},
    {CLUSTERS("[[0,1]]", "[[2,3]]", "\"cluster_first\":[[2,3]],\"cluster_blocks_per_sm\":8"),
     "\"cluster_first\" must have the SMs of \"first\" in the same order"},
    {CLUSTERS("[[0,1]]", "[[2,3]]", "\"cluster_first\":[],\"cluster_blocks_per_sm\":8"),
     "\"cluster_first\" must have the SMs of \"first\" in the same order"},
    {CLUSTERS("[[0],[1]]", "[[2,3]]", "\"cluster_first\":[[0,1]],\"cluster_blocks_per_sm\":8"),
     "\"cluster_first\" must have the SMs of \"first\" in the same order"},
    {CLUSTERS("[[0,1]]", "[[2,3]]", "\"cluster_first\":[[0],[1]],\"cluster_blocks_per_sm\":8"),
     "groups of clusters must be whole TPCs of 2 SMs"},
    {CLUSTERS("[]", "[[0,1,2],[3]]", "\"cluster_first\":[],\"cluster_blocks_per_sm\":8"),
     "groups of clusters must be whole TPCs of 2 SMs"},
    {GPU(TPC ",\"gpcs\":1,\"gpc_sms\":[[0],[1]]", LIMITS, ""), "\"gpc_sms\" has 2 GPCs, but \"gpcs\" is 1"},
    {GPU(TPC, LIMITS, "") "{}", "but more follows"},
};

TEST(bad_descriptions_are_refused) {
    for (size_t i = 0; i < GS_COUNT(bad_descriptions); i++) {
        const char *text = bad_descriptions[i].text, *words = bad_descriptions[i].words;
        gs_error error;
        gs_gpu *gpu = read_gpu(text, &error);
        if (gpu || !strstr(error.message, words))
            fail_msg("%s\ngave %s\nnot  %s", text, gpu ? "no error" : error.message, words);
        assert_int_equal(gs_code_exit(error.code), 2);
    }
}

/* The descriptions above have no other mistake. */
TEST(the_same_without_a_mistake_is_read) {
    gs_error error;
    gs_gpu *good = read_gpu(GPU(TPC, LIMITS, "\"tie_order\":[1,0]"), &error);
    if (!good)
        fail_msg("%s", error.message);
    gs_gpu_free(good);
}

static void replace(char *text, const char *what, const char *with) {
    char *at = strstr(text, what);
    assert_non_null(at);
    char rest[2000];
    snprintf(rest, sizeof rest, "%s", at + strlen(what));
    strcpy(at, with);
    strcat(at, rest);
}

/* Columns count from 1: the second 0 of the lists. */
TEST(a_mistake_in_the_gpcs_has_its_place) {
    static const char text[] = GPU(TPC ",\"gpc_sms\":[[0],[1,0]]", LIMITS, "");
    gs_error error;
    assert_null(read_gpu(text, &error));
    assert_int_equal(error.line, 1);
    assert_int_equal(error.column, strstr(text, "[1,0]") - text + 4);
}

TEST(the_sms_of_gpcs_and_a_uuid_are_written_back) {
    char text[2000] = GPU(TPC ",\"gpc_sms\":[[1],[0]]", LIMITS, "");
    gs_error error;
    gs_text written = {0};
    replace(text, "\"name\":\"g\"", "\"name\":\"g\",\"uuid\":\"GPU-0\"");
    gs_gpu *gpu = read_gpu(text, &error);
    assert_non_null(gpu);
    gs_gpu *copy = gs_gpu_copy(gpu, &error);
    assert_non_null(copy);
    gs_gpu_text(copy, &written);
    assert_non_null(strstr(written.data, "\"uuid\":\"GPU-0\""));
    assert_non_null(strstr(written.data, "\"gpcs\":2,\"gpc_sms\":[[1],[0]]}"));
    gs_text_free(&written);
    gs_gpu_free(copy);
    gs_gpu_free(gpu);
}

TEST(limits_that_do_not_fit_together_are_refused) {
    static const struct {
        const char *what, *with, *words;
    } rows[] = {
        {"\"threads_per_sm\":64", "\"threads_per_sm\":65", "whole warps for each of the 1 partitions"},
        {"\"threads_per_sm\":64", "\"threads_per_sm\":31", "whole warps"},
        {"\"partitions_per_sm\":1", "\"partitions_per_sm\":8", "whole warps"},
        {"\"registers_per_sm\":1024", "\"registers_per_sm\":255", "registers_per_sm over partitions_per_sm"},
        {"[512,1024]", "[]", "must be a list of 1 to 16 sizes"},
        {"[512,1024]", "[1024,512]", "shared-memory configurations must ascend"},
        {"[512,1024]", "[512,1000]", "must be a multiple of 128 bytes"},
        {"[512,1024]", "[512,8388608000]", "\"shared_configurations_bytes\" must be from 0 to"},
        {"[512,1024]", "[512,16777216]", "over 65535 times the granularity"},
        {"\"blocks_per_sm\":2", "\"blocks_per_sm\":65", "\"blocks_per_sm\" must be from 1 to 64, not 65"},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        char text[2000] = GPU(TPC, LIMITS, "");
        replace(text, rows[i].what, rows[i].with);
        gs_error error;
        gs_gpu *gpu = read_gpu(text, &error);
        if (gpu || !strstr(error.message, rows[i].words))
            fail_msg("%s gave %s", rows[i].with, gpu ? "no error" : error.message);
    }
}

TEST(an_unknown_gpu_is_named_with_the_nearest_one) {
    gs_error error;
    assert_null(gs_gpu_open("gtx480", &error));
    assert_string_equal(error.message,
                        "no GPU is called \"gtx480\" (did you mean \"rtx4080\"?); 'gridsmith gpus' lists "
                        "the known ones; or give the path of a description");
}

TEST(names_do_not_depend_on_case_and_separators) {
    static const struct {
        const char *given, *name;
    } rows[] = {{"H200", "h200"},
                {"RTX 4090", "rtx4090"},
                {"TitanXP", "titan-xp"},
                {"h100_sxm", "h100-sxm"},
                {"H100 PCIe", "h100-pcie"},
                {"rtx-4090 ", "rtx4090"},
                {"h2000", NULL},
                {"h20 0", "h200"},
                {"", NULL},
                {"h", NULL}};
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        const char *name = gs_gpu_builtin_name(rows[i].given);
        if (!name != !rows[i].name || (name && strcmp(name, rows[i].name) != 0))
            fail_msg("\"%s\" is %s", rows[i].given, name ? name : "unknown");
    }
    gs_gpu *gpu = gs_gpu_open("RTX 5090", NULL);
    assert_string_equal(gpu->name, "rtx5090");
    gs_gpu_free(gpu);
}

/* Names of GPUs by the driver, with the number of SMs. */
TEST(a_gpu_is_known_by_the_name_that_the_driver_has) {
    static const struct {
        const char *driver_name;
        int32_t sms;
        const char *name;
    } rows[] = {{"NVIDIA H100 80GB HBM3", 132, "h100-sxm"},
                {"NVIDIA H100 PCIe", 114, "h100-pcie"},
                {"NVIDIA GH200 480GB", 132, "gh200"},
                {"NVIDIA A10", 72, "a10"},
                {"NVIDIA A100-SXM4-80GB", 108, "a100"},
                {"NVIDIA L40S", 142, "l40s"},
                {"NVIDIA H20", 78, "h20"},
                {"NVIDIA H200 NVL", 132, "h200"},
                {"NVIDIA H100 80GB HBM3", 66, NULL},
                {"NVIDIA H100 NVL", 132, "h100-nvl"},
                {"NVIDIA GeForce RTX 4070 Ti SUPER", 66, "rtx4070ti-super"},
                {"Tesla T4", 40, "t4"},
                {"NVIDIA RTX A6000", 84, "a6000"},
                {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 188, "rtx-pro-6000"},
                {"Orin", 16, "orin"}};
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_gpu *gpu = gs_gpu_open_called(rows[i].driver_name, rows[i].sms);
        assert_string_equal(gpu ? gpu->name : "", rows[i].name ? rows[i].name : "");
        gs_gpu_free(gpu);
    }
}

TEST(only_measured_gpus_assume_nothing) {
    for (size_t i = 0; gs_gpu_builtin(i); i++) {
        gs_gpu *gpu = gs_gpu_open(gs_gpu_builtin(i), NULL);
        bool is_measured = strcmp(gpu->name, "h200") == 0 || strcmp(gpu->name, "rtx3090") == 0;
        gs_text line = {0};
        gs_gpu_put_assumed(gpu, &line);
        assert_int_equal(line.count == 0, is_measured);
        if (!is_measured)
            assert_non_null(strstr(line.data, ": limits from the specification, mechanisms assumed\n"));
        gs_text_free(&line);
        gs_gpu_free(gpu);
    }
}

TEST(a_gpu_like_another_says_so) {
    gs_error error;
    gs_gpu *h200 = gs_gpu_open("h200", NULL), *part = gs_gpu_part(h200, 114, &error);
    assert_int_equal(gs_gpu_assume_like(part, &error), GS_OK);
    gs_gpu *copy = gs_gpu_copy(part, &error);
    assert_string_equal(copy->name, "like-h200");
    assert_string_equal(copy->assumed, "limits and mechanisms of h200, assumed for a GPU with 114 SMs");
    assert_int_equal(copy->sms, 114);
    assert_int_equal(copy->mechanisms.shared_allocation, GS_SPACE_RING);
    assert_false(gs_gpu_has_clusters(copy));
    gs_gpu_free(copy);
    gs_gpu_free(part);
    gs_gpu_free(h200);
}

/* Section II-C: 512 threads, 32 registers, 32 KB: three blocks, limited by warps and by shared memory. */
TEST(occupancy_is_that_of_section_ii_c) {
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_shape shape = {.threads = 512, .registers = 32, .shared_bytes = 32768, .carveout_percent = GS_NO_CARVEOUT};
    gs_occupancy occupancy;
    gs_occupancy_of(gpu, &shape, &occupancy, NULL);
    assert_int_equal(occupancy.blocks, 3);
    assert_int_equal(occupancy.limits, GS_LIMIT_WARPS | GS_LIMIT_SHARED);
    assert_int_equal(occupancy.by_blocks, 16);
    assert_int_equal(occupancy.by_warps, 3);
    assert_int_equal(occupancy.by_registers, 4);
    assert_int_equal(occupancy.by_shared, 3);
    assert_int_equal(occupancy.shared_config_bytes, 102400);
    gs_gpu_free(gpu);
}

#ifdef GRIDSMITH_CUDA
static cudaOccDeviceProp properties_of(const gs_gpu *gpu) {
    const gs_limits *limits = &gpu->limits;
    cudaOccDeviceProp properties = {0};
    assert_int_equal(sscanf(gpu->compute_capability, "%d.%d", &properties.computeMajor, &properties.computeMinor), 2);
    properties.maxThreadsPerBlock = limits->threads_per_block;
    properties.maxThreadsPerMultiprocessor = limits->threads_per_sm;
    properties.regsPerBlock = properties.regsPerMultiprocessor = limits->registers_per_sm;
    properties.warpSize = limits->warp_threads;
    properties.sharedMemPerBlock = 49152;
    properties.sharedMemPerBlockOptin = (size_t)limits->shared_per_block_bytes;
    properties.sharedMemPerMultiprocessor = (size_t)gpu->largest_config_bytes;
    properties.reservedSharedMemPerBlock = (size_t)limits->shared_reserved_bytes;
    properties.numSms = gpu->sms;
    return properties;
}

/* Whether an idle SM is given more than the carve-out, which the toolkit does not know. */
static bool is_given_more(const gs_gpu *gpu, const gs_shape *shape, const gs_occupancy *found) {
    int64_t wanted = (int64_t)gpu->largest_config_bytes * shape->carveout_percent / 100;
    return shape->carveout_percent != GS_NO_CARVEOUT && gpu->mechanisms.shared_given == GS_GIVEN_GENEROUS &&
           found->shared_config_bytes > gs_gpu_config_for(gpu, gs_max(wanted, found->shared_block_bytes));
}

static void compare_with_toolkit(const gs_gpu *gpu, const gs_shape *shape, uint64_t index) {
    cudaOccDeviceProp properties = properties_of(gpu);
    cudaOccFuncAttributes attributes = {0};
    attributes.maxThreadsPerBlock = 65536;
    attributes.numRegs = shape->registers;
    attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    attributes.maxDynamicSharedSizeBytes = (size_t)gpu->limits.shared_per_block_bytes;
    attributes.numBlockBarriers = 1;
    cudaOccDeviceState toolkit_state = {0};
    toolkit_state.carveoutConfig = shape->carveout_percent;
    cudaOccResult wanted;
    gs_occupancy found;
    assert_int_equal(cudaOccMaxActiveBlocksPerMultiprocessor(&wanted, &properties, &attributes, &toolkit_state,
                                                             shape->threads, (size_t)shape->shared_bytes),
                     CUDA_OCC_SUCCESS);
    gs_occupancy_of(gpu, shape, &found, NULL);
    unsigned limits = (found.limits & GS_LIMIT_BLOCKS ? OCC_LIMIT_BLOCKS : 0u) |
                      (found.limits & GS_LIMIT_WARPS ? OCC_LIMIT_WARPS : 0u) |
                      (found.limits & GS_LIMIT_REGISTERS ? OCC_LIMIT_REGISTERS : 0u) |
                      (found.limits & GS_LIMIT_SHARED ? OCC_LIMIT_SHARED_MEMORY : 0u);
    unsigned compared = OCC_LIMIT_BLOCKS | OCC_LIMIT_WARPS | OCC_LIMIT_REGISTERS | OCC_LIMIT_SHARED_MEMORY;
    if (is_given_more(gpu, shape, &found) && found.blocks >= wanted.activeBlocksPerMultiprocessor)
        return;
    if (found.blocks != wanted.activeBlocksPerMultiprocessor ||
        (found.blocks && limits != (wanted.limitingFactors & compared)))
        fail_msg("index %llu on %s: %d threads, %d registers, %lld bytes, carve-out %d: %d blocks (limits %x), the "
                 "toolkit says %d (%x)",
                 (unsigned long long)index, gpu->name, shape->threads, shape->registers, (long long)shape->shared_bytes,
                 shape->carveout_percent, found.blocks, limits, wanted.activeBlocksPerMultiprocessor,
                 wanted.limitingFactors);
}

TEST(occupancy_is_that_of_the_cuda_toolkit) {
    for (size_t i = 0; gs_gpu_builtin(i); i++) {
        gs_gpu *gpu = gs_gpu_open(gs_gpu_builtin(i), NULL);
        for (uint64_t index = 0; index < test_number("GRIDSMITH_RUNS", 100000); index++) {
            gs_random random = gs_random_at(3 + i, index);
            gs_shape shape = {.threads = (int32_t)gs_random_from(&random, 1, 1056),
                              .registers = (int32_t)gs_random_from(&random, 1, 255),
                              .shared_bytes =
                                  gs_random_chance(&random, 20)
                                      ? 0
                                      : gs_random_from(&random, 0, gpu->limits.shared_per_block_bytes + 2048),
                              .carveout_percent = GS_NO_CARVEOUT};
            if (gs_random_chance(&random, 30))
                shape.carveout_percent = (int32_t)gs_random_from(&random, 0, 100);
            compare_with_toolkit(gpu, &shape, index);
        }
        gs_gpu_free(gpu);
    }
}
#else
TEST(occupancy_is_that_of_the_cuda_toolkit) {
    print_message("skipped: there is no CUDA toolkit here, so no cuda_occupancy.h to compare with\n");
    skip();
}
#endif

/* docs/model.md and docs/hopper.md, "Carve-outs", written out. An idle SM takes the blocks of the occupancy. */
static void assert_carve_out(const gs_gpu *gpu, gs_shape plain, int32_t percent, int64_t *too_small) {
    gs_shape shape = plain;
    gs_occupancy found, without;
    gs_need need, uncarved;
    shape.carveout_percent = percent;
    gs_occupancy_of(gpu, &shape, &found, NULL);
    gs_occupancy_of(gpu, &plain, &without, NULL);
    assert_int_equal(gs_need_of(gpu, &shape, &need, NULL), GS_OK);
    assert_int_equal(gs_need_of(gpu, &plain, &uncarved, NULL), GS_OK);
    int64_t own = plain.shared_bytes, block = own + 1024, wanted = gpu->largest_config_bytes * (int64_t)percent / 100;
    int64_t asked = gs_gpu_config_for(gpu, gs_max(wanted, block)), given = asked, needed = asked;
    if (gpu->mechanisms.shared_given == GS_GIVEN_GENEROUS) {
        given = gs_max(asked, own ? gs_gpu_config_for(gpu, wanted / own * block) : uncarved.given_bytes);
        needed = gs_gpu_config_for(gpu, gs_min(without.blocks, asked / block) * block);
    }
    assert_int_equal(need.config_bytes, needed);
    assert_int_equal(need.given_bytes, given);
    assert_int_equal(found.by_shared, given / block);
    assert_int_equal(found.shared_config_bytes, given);
    gs_dispatcher *dispatcher = gs_dispatcher_new(gpu, NULL);
    int kernel = gs_dispatcher_kernel(dispatcher, &shape, NULL);
    assert_int_equal(gs_dispatcher_room(dispatcher, kernel, 0), found.blocks);
    assert_int_equal(need.blocks_per_sm, found.blocks);
    gs_dispatcher_free(dispatcher);
    *too_small += wanted < block && without.shared_config_bytes != asked;
}

TEST(carve_outs_are_those_of_the_documents) {
    static const char *const names[] = {"rtx3090", "h200"};
    for (size_t i = 0; i < GS_COUNT(names); i++) {
        gs_gpu *gpu = gs_gpu_open(names[i], NULL);
        int64_t too_small = 0;
        for (int32_t percent = 0; percent <= 100; percent++)
            for (int64_t shared = 0; shared <= gpu->limits.shared_per_block_bytes; shared += 2048)
                assert_carve_out(gpu, gs_shape_of(64, 32, shared), percent, &too_small);
        assert_true(too_small > 100);
        gs_gpu_free(gpu);
    }
}

/* The dispatcher updates rooms incrementally. They must be equal to those computed from the state. */
TEST(a_dispatcher_never_forgets_a_change) {
    enum { KERNELS = 20, STEPS = 400 };
    for (uint64_t index = 0; index < test_number("GRIDSMITH_RUNS", 100000) / 500; index++) {
        gs_random random = gs_random_at(17, index);
        gs_gpu *gpu = random_gpu(&random, 30);
        gs_dispatcher *dispatcher = gs_dispatcher_new(gpu, NULL);
        int kernels[KERNELS], blocks[STEPS], count = 0;
        for (int i = 0; i < KERNELS; i++) {
            gs_shape shape = random_shape(&random, gpu);
            kernels[i] = gs_dispatcher_kernel(dispatcher, &shape, NULL);
            assert_int_equal(gs_dispatcher_kernel(dispatcher, &shape, NULL), kernels[i]);
        }
        for (int step = 0; step < STEPS; step++) {
            int kernel = kernels[gs_random_from(&random, 0, KERNELS - 1)];
            int sm = gs_dispatcher_next(dispatcher, kernel), most = 0;
            for (int i = 0; i < gpu->sms; i++)
                if (gs_dispatcher_room(dispatcher, kernel, i) > most)
                    most = gs_dispatcher_room(dispatcher, kernel, i);
            assert_int_equal(sm == GS_WAIT, most == 0);
            if (sm != GS_WAIT && gpu->mechanisms.placement == GS_PLACEMENT_MOST_ROOM)
                assert_int_equal(gs_dispatcher_room(dispatcher, kernel, sm), most);
            if (sm != GS_WAIT && gs_random_chance(&random, 70))
                blocks[count++] = gs_dispatcher_place(dispatcher, kernel, sm);
            else if (count)
                gs_dispatcher_release(dispatcher, blocks[--count]);
            assert_int_equal(gs_dispatcher_resident_all(dispatcher), count);
        }
        while (count)
            gs_dispatcher_release(dispatcher, blocks[--count]);
        for (int i = 0; i < gpu->sms; i++)
            assert_int_equal(gs_dispatcher_resident(dispatcher, i), 0);
        gs_dispatcher_free(dispatcher);
        gs_gpu_free(gpu);
    }
}

/* A name with its letters in any case, and with other separators. */
static void put_disguised(gs_text *text, gs_random *random, const char *name) {
    static const char separators[] = " -_";
    for (; *name; name++) {
        char letter = strchr(separators, *name) ? separators[gs_random_from(random, 0, 2)] : *name;
        letter = (char)(gs_random_chance(random, 50) ? tolower((unsigned char)letter) : toupper((unsigned char)letter));
        gs_text_put(text, &letter, 1);
    }
}

static bool has_title(const char *name, const char *title) {
    gs_gpu *gpu = gs_gpu_open(name, NULL);
    bool has = strcmp(gpu->title, title) == 0;
    gs_gpu_free(gpu);
    return has;
}

/* Whether a board of a GPU has a description of its own, as "H100 PCIe" does. */
static bool is_board_of(const char *name, const gs_gpu *gpu) {
    gs_gpu *board = gs_gpu_open(name, NULL);
    bool is = strncmp(board->title, gpu->title, strlen(gpu->title)) == 0;
    gs_gpu_free(board);
    return is;
}

/* A GPU opens by its name and by its title, as the driver reports it, with words for the board; with other words it is
   another GPU. */
TEST(names_of_the_driver_are_names) {
    static const char *const boards[] = {"", " NVL", "-SXM4-80GB", " 80GB HBM3", "-PCIE-40GB", " 141GB HBM3e"};
    static const char *const others[] = {" Ti", " SUPER", " Laptop GPU", " MIG 1g.18gb", "-SXM-64GB", "X", " D"};
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 7);
    int tries = test_number("GRIDSMITH_RUNS", 100000) < 10000 ? 1 : 12;
    for (size_t i = 0; gs_gpu_builtin(i); i += test_is_brief() ? 5 : 1)
        for (int k = 0; k < tries; k++) {
            gs_gpu *gpu = gs_gpu_open(gs_gpu_builtin(i), NULL);
            bool has_maker = strncmp(gpu->title, "NVIDIA ", 7) == 0, is_short = gs_random_chance(&random, 30);
            const char *bare = is_short ? gpu->name : gpu->title + (has_maker && gs_random_chance(&random, 40) ? 7 : 0);
            const char *board = is_short ? "" : boards[gs_random_from(&random, 0, GS_COUNT(boards) - 1)];
            gs_text name = {0}, other = {0};
            put_disguised(&name, &random, bare);
            put_disguised(&name, &random, board);
            const char *found = gs_gpu_builtin_name(name.data);
            if (!found || (strcmp(found, gpu->name) != 0 && !is_board_of(found, gpu)))
                fail_msg("\"%s\" is %s, not %s", name.data, found ? found : "nothing", gpu->name);
            gs_text_add(&other, "%s%s", gpu->title, others[gs_random_from(&random, 0, GS_COUNT(others) - 1)]);
            found = gs_gpu_builtin_name(other.data);
            if (found && !has_title(found, other.data))
                fail_msg("\"%s\" is taken to be %s", other.data, found);
            gs_text_free(&name);
            gs_text_free(&other);
            gs_gpu_free(gpu);
        }
    gs_error error;
    assert_null(gs_gpu_open("NVIDIA H2OO", &error));
    assert_non_null(strstr(error.message, "(did you mean \"h20\"?)"));
}

/* A simulator's own limits, on the mechanisms of a described GPU; what is not given stays. */
TEST(a_simulator_gives_its_own_limits) {
    gs_gpu_limits limits = {
        .sms = 80, .blocks_per_sm = 8, .threads_per_sm = 1024, .registers_per_sm = 32768, .shared_per_sm_bytes = 49152};
    gs_gpu *gpu = gs_gpu_new("h200", &limits, NULL), *like = gs_gpu_open("h200", NULL);
    assert_int_equal(gs_gpu_sms(gpu), 80);
    assert_string_equal(gs_gpu_name(gpu), "like-h200");
    assert_int_equal(gpu->limits.configs, 5); /* 0, 8, 16, 32 and 48 KB */
    assert_int_equal(gpu->largest_config_bytes, 49152);
    assert_int_equal(gpu->limits.shared_per_block_bytes, 48128);
    assert_int_equal(gpu->limits.threads_per_block, 1024);
    assert_int_equal(gpu->mechanisms.shared_allocation, like->mechanisms.shared_allocation);
    gs_occupancy occupancy;
    gs_shape shape = gs_shape_of(64, 32, 4096);
    gs_occupancy_of(gpu, &shape, &occupancy, NULL);
    assert_int_equal(occupancy.by_blocks, 8);
    assert_int_equal(occupancy.by_warps, 16);
    assert_int_equal(occupancy.by_registers, 16);
    assert_int_equal(occupancy.by_shared, 9);
    gs_gpu_free(gpu);
    gpu = gs_gpu_new("h200", &(gs_gpu_limits){.shared_per_block_bytes = 1024}, NULL);
    assert_int_equal(gs_gpu_turns(gpu), gs_gpu_turns(like)); /* with all its SMs it has its topology */
    assert_int_equal(gpu->limits.shared_per_block_bytes, 1024);
    assert_int_equal(gpu->largest_config_bytes, like->largest_config_bytes);
    gs_gpu_free(gpu);
    gs_gpu_free(like);
}

TEST(limits_that_no_sm_has_are_refused) {
    static const struct {
        gs_gpu_limits limits;
        const char *message;
    } cases[] = {
        {{.sms = 5000}, "a GPU has 1 to 4096 SMs, not 5000"},
        {{.sms = -1}, "a GPU has 1 to 4096 SMs, not -1"},
        {{.threads_per_sm = 1000}, "threads_per_sm must be 1 to 64 whole warps for each of the 4 partitions"},
        {{.blocks_per_sm = 65}, "\"blocks_per_sm\" must be from 1 to 64, not 65"},
        {{.shared_per_sm_bytes = 100}, "a configuration must be a multiple of 128 bytes"},
    };
    gs_error error;
    for (size_t i = 0; i < GS_COUNT(cases); i++) {
        assert_null(gs_gpu_new("rtx3090", &cases[i].limits, &error));
        assert_string_equal(error.message, cases[i].message);
    }
    assert_null(gs_gpu_new("h201", &(gs_gpu_limits){.sms = 1}, &error));
    assert_int_equal(error.code, GS_E_USAGE);
}

TEST_MAIN(NULL, NULL)
