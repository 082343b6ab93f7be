/*
 * test_launch_word.c: kernels on the command line are read correctly, and error messages name the word and the correct
 * form.
 */
#include "test.h"

#include <string.h>

TEST(words_are_read_as_meant) {
    static const struct {
        const char *word, *kernel;
        int64_t blocks;
        gs_shape shape;
        int32_t cluster, priority;
        const char *stream;
    } rows[] = {
        {"mega=132x256,r168,s200K", "mega", 132, {256, 168, 204800, 0, GS_NO_CARVEOUT}, 1, 0, NULL},
        {"nccl=16x512", "nccl", 16, {512, 32, 0, 0, GS_NO_CARVEOUT}, 1, 0, NULL},
        {"a=8x32,l2k,c4,p-3,carveout=50", "a", 8, {32, 32, 0, 2048, 50}, 4, -3, NULL},
        {"a=8x32,registers=64,shared=1M,local=16,cluster=2,priority=1",
         "a",
         8,
         {32, 64, 1048576, 16, GS_NO_CARVEOUT},
         2,
         1,
         NULL},
        {"a=8x256x2,regs=96,smem=200KB,local=1KiB", "a", 8, {512, 96, 204800, 1024, GS_NO_CARVEOUT}, 1, 0, NULL},
        {"a=8x4x8x2", "a", 8, {64, 32, 0, 0, GS_NO_CARVEOUT}, 1, 0, NULL},
        {"void k<int>(x)=1x1,s0,stream=copy 1", "void k<int>(x)", 1, {1, 32, 0, 0, GS_NO_CARVEOUT}, 1, 0, "copy 1"},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_launch launch;
        gs_error error;
        assert_true(gs_is_launch_word(rows[i].word));
        if (gs_launch_of_word(rows[i].word, &launch, &error) != GS_OK)
            fail_msg("%s: %s", rows[i].word, error.message);
        assert_string_equal(launch.kernel, rows[i].kernel);
        assert_int_equal(launch.blocks, rows[i].blocks);
        assert_memory_equal(&launch.shape, &rows[i].shape, sizeof launch.shape);
        assert_int_equal(launch.cluster, rows[i].cluster);
        assert_int_equal(launch.priority, rows[i].priority);
        assert_int_equal(launch.stream != NULL, rows[i].stream != NULL);
        if (launch.stream)
            assert_string_equal(launch.stream, rows[i].stream);
        gs_launch_clear(&launch);
    }
}

#define USES                                                                                                           \
    "use registers=96 (or r96), shared=200KB (s200K), local=1KB (l1K), cluster=2 (c2), priority=-1 (p-1), "            \
    "carveout=50 or stream=NAME"

TEST(mistakes_name_the_part) {
    static const struct {
        const char *word, *message;
    } rows[] = {
        {"me\033[2Jga=1x32", "\"me?[2Jga=1x32\": names must not contain control characters"},
        {"a=1x1,r8,registers=16", "\"a=1x1,r8,registers=16\": \"registers=16\" was given before"},
        {"a=1x1,stream=1,stream=2", "\"a=1x1,stream=1,stream=2\": \"stream=2\" was given before"},
        {"mega=132", "\"mega=132\": give BLOCKSxTHREADS after the name, as mega=132x256, not \"132\""},
        {"mega=0x32", "\"mega=0x32\": \"0\" gives the number of blocks, a whole number from 1 to 2147483647"},
        {"mega=1x", "\"mega=1x\": \"\" gives threads of a block, a whole number from 1 to 65536, as 256 or 32x8"},
        {"mega=1x2x2x2x2",
         "\"mega=1x2x2x2x2\": \"2x2x2x2\" gives threads of a block, a whole number from 1 to 65536, as 256 or 32x8"},
        {"mega=1x65536x65536",
         "\"mega=1x65536x65536\": \"65536x65536\" gives threads of a block, a whole number from 1 to 65536, as 256 or "
         "32x8"},
        {"mega=1x32x",
         "\"mega=1x32x\": \"32x\" gives threads of a block, a whole number from 1 to 65536, as 256 or 32x8"},
        {"a=1x1,r8,regs=16", "\"a=1x1,r8,regs=16\": \"regs=16\" was given before"},
        {"mega=1x32,r", "\"mega=1x32,r\": unknown part \"r\"; " USES},
        {"mega=1x32,q7", "\"mega=1x32,q7\": unknown part \"q7\"; " USES},
        {"mega=1x32,r9K",
         "\"mega=1x32,r9K\": \"r9K\" gives registers of a thread, a whole number from 1 to 65536, as r96 or regs=96"},
        {"mega=1x32,s-1",
         "\"mega=1x32,s-1\": \"s-1\" gives bytes of shared memory of a block, a whole number from 0 to "
         "1099511627776, as s200K or shared=200KB"},
        {"mega=1x32,s9223372036854775807K",
         "\"mega=1x32,s9223372036854775807K\": \"s9223372036854775807K\" gives bytes of shared memory of a block, a "
         "whole number from 0 to 1099511627776, as s200K or shared=200KB"},
        {"mega=1x32,carveout=101",
         "\"mega=1x32,carveout=101\": \"carveout=101\" gives the carve-out in percent, a whole "
         "number from 0 to 100, as carveout=50"},
        {"mega=3x32,c2", "\"mega=3x32,c2\": 3 blocks are not a multiple of the cluster size 2"},
        {"mega=1x32,stream=", "\"mega=1x32,stream=\": \"stream=\" needs a name, as stream=1"},
        {"mega=1x32,", "\"mega=1x32,\": unknown part \"\"; " USES},
        {"mega", "\"mega\" is not a kernel: use NAME=BLOCKSxTHREADS[,registers=N][,shared=BYTES]..."},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_launch launch;
        gs_error error;
        assert_int_equal(gs_launch_of_word(rows[i].word, &launch, &error), GS_E_USAGE);
        assert_string_equal(error.message, rows[i].message);
    }
}

TEST(files_are_not_kernels) {
    static const char *const files[] = {"run.json", "-", "a/b=1x1.json", "=1x1", ""};
    for (size_t i = 0; i < GS_COUNT(files); i++)
        assert_false(gs_is_launch_word(files[i]));
}

TEST_MAIN(NULL, NULL)
