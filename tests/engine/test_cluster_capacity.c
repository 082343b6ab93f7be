/*
 * test_cluster_capacity.c: an empty H200 takes as many clusters as its driver reports.
 */
#include "test.h"

#include "model/engine/engine.h"

static const int32_t sizes[] = {2, 4, 8, 16};

/* The results of cudaOccupancyMaxActiveClusters on an H200, for a kernel of at most 24 registers per thread. */
static const struct {
    int32_t threads, shared_bytes;
    int64_t clusters[GS_COUNT(sizes)];
} answers[] = {{32, 0, {528, 248, 124, 58}},      {32, 2000, {528, 248, 124, 58}},  {32, 9000, {528, 248, 124, 58}},
               {32, 30000, {462, 216, 107, 49}},  {32, 60000, {198, 92, 45, 21}},   {32, 100000, {132, 62, 30, 14}},
               {32, 120000, {66, 30, 15, 7}},     {32, 200000, {66, 30, 15, 7}},    {32, 232448, {66, 30, 15, 7}},
               {64, 0, {528, 248, 124, 58}},      {64, 2000, {528, 248, 124, 58}},  {64, 9000, {528, 248, 124, 58}},
               {64, 30000, {462, 216, 107, 49}},  {64, 60000, {198, 92, 45, 21}},   {64, 100000, {132, 62, 30, 14}},
               {64, 120000, {66, 30, 15, 7}},     {64, 200000, {66, 30, 15, 7}},    {64, 232448, {66, 30, 15, 7}},
               {128, 0, {528, 248, 124, 58}},     {128, 2000, {528, 248, 124, 58}}, {128, 9000, {528, 248, 124, 58}},
               {128, 30000, {462, 216, 107, 49}}, {128, 60000, {198, 92, 45, 21}},  {128, 100000, {132, 62, 30, 14}},
               {128, 120000, {66, 30, 15, 7}},    {128, 200000, {66, 30, 15, 7}},   {128, 232448, {66, 30, 15, 7}},
               {256, 0, {528, 248, 124, 58}},     {256, 2000, {528, 248, 124, 58}}, {256, 9000, {528, 248, 124, 58}},
               {256, 30000, {462, 216, 107, 49}}, {256, 60000, {198, 92, 45, 21}},  {256, 100000, {132, 62, 30, 14}},
               {256, 120000, {66, 30, 15, 7}},    {256, 200000, {66, 30, 15, 7}},   {256, 232448, {66, 30, 15, 7}},
               {512, 0, {264, 124, 62, 28}},      {512, 2000, {264, 124, 62, 28}},  {512, 9000, {264, 124, 62, 28}},
               {512, 30000, {264, 124, 62, 28}},  {512, 60000, {198, 92, 45, 21}},  {512, 100000, {132, 62, 30, 14}},
               {512, 120000, {66, 30, 15, 7}},    {512, 200000, {66, 30, 15, 7}},   {512, 232448, {66, 30, 15, 7}},
               {1024, 0, {132, 62, 30, 14}},      {1024, 2000, {132, 62, 30, 14}},  {1024, 9000, {132, 62, 30, 14}},
               {1024, 30000, {132, 62, 30, 14}},  {1024, 60000, {132, 62, 30, 14}}, {1024, 100000, {132, 62, 30, 14}},
               {1024, 120000, {66, 30, 15, 7}},   {1024, 200000, {66, 30, 15, 7}},  {1024, 232448, {66, 30, 15, 7}}};

TEST(as_many_clusters_fit_as_the_driver_says) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    assert_non_null(gpu);
    for (size_t i = 0; i < GS_COUNT(answers); i++)
        for (size_t j = 0; j < GS_COUNT(sizes); j++) {
            gs_shape shape = {.threads = answers[i].threads,
                              .registers = 24,
                              .shared_bytes = answers[i].shared_bytes,
                              .carveout_percent = GS_NO_CARVEOUT};
            gs_error error;
            int64_t most = gs_clusters_most(gpu, &shape, sizes[j], &error);
            if (most != answers[i].clusters[j])
                fail_msg("%d threads, %d bytes: %lld clusters of %d, not %lld", answers[i].threads,
                         answers[i].shared_bytes, (long long)most, sizes[j], (long long)answers[i].clusters[j]);
        }
    gs_gpu_free(gpu);
}

TEST(a_gpu_without_clusters_says_so) {
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_shape shape = {.threads = 32, .registers = 24, .carveout_percent = GS_NO_CARVEOUT};
    gs_error error;
    assert_int_equal(gs_clusters_most(gpu, &shape, 2, &error), -1);
    assert_string_equal(error.message, "the description of rtx3090 does not say where clusters go");
    gs_gpu_free(gpu);
}

TEST_MAIN(NULL, NULL)
