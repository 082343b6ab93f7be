/*
 * test_simulate.c: plans without a GPU: the networks are the published ones, plans and tasks are read, kernels fit
 * together if the GPU places them so, and simulations are right where they can be computed by hand.
 */
#include "decide_support.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>

static gs_plan_table table_of(const char *text) {
    gs_plan_table table = {0};
    gs_error error = {.code = GS_OK};
    gs_input *input = gs_input_memory("plan", text, strlen(text), &error);
    if (!input || gs_plan_table_read(input, &table, &error) != GS_OK)
        fail_msg("%ld:%ld: %s", error.line, error.column, error.message);
    gs_input_close(input);
    return table;
}

static gs_plan_table example_table(void) {
    gs_plan_table table = {0};
    gs_error error = {.code = GS_OK};
    gs_input *input = gs_input_open(test_path("examples/plan-invented.json"), &error);
    if (!input || gs_plan_table_read(input, &table, &error) != GS_OK)
        fail_msg("%ld:%ld: %s", error.line, error.column, error.message);
    gs_input_close(input);
    return table;
}

static gs_gpu *gpu_of(const char *name) {
    gs_gpu *gpu = gs_gpu_open(name, NULL);
    assert_non_null(gpu);
    return gpu;
}

/* ---- networks ---- */

enum norms { BIASES, NORM_AFTER, NORM_BEFORE };

/* Parameters as torchvision counts them (Inception-v3 without its auxiliary classifier), and multiplications of one
   image in millions, as its documentation rounds them. */
static const struct published {
    const char *name;
    enum norms norms;
    int64_t parameters;
    double gigas;
} published[] = {
    {"densenet121", NORM_BEFORE, 7978856, 2.83}, {"inception_v3", NORM_AFTER, 23834568, 5.71},
    {"resnet50", NORM_AFTER, 25557032, 4.09},    {"resnext50", NORM_AFTER, 25028904, 4.23},
    {"vgg16", BIASES, 138357544, 15.47},
};

static int64_t weights_of(const gs_layer *layer) {
    return (int64_t)layer->out * (layer->in / layer->groups) * layer->height * layer->width;
}

/* Two numbers for each channel that is normalized: those that come out of a convolution, or, in DenseNet, those that go
   into one, and those of the first and the last layer. The last layer has biases. */
static int64_t parameters_of(const gs_network *network, enum norms norms) {
    int64_t sum = 0;
    for (size_t i = 0; i < network->layers.count; i++) {
        const gs_layer *layer = &network->layers.data[i];
        bool is_last = i + 1 == network->layers.count;
        sum += weights_of(layer);
        if (norms == BIASES || is_last)
            sum += layer->out;
        else if (norms == NORM_AFTER || i == 0)
            sum += 2 * layer->out;
        else
            sum += 2 * layer->in;
        if (norms == NORM_BEFORE && is_last)
            sum += 2 * layer->in;
    }
    return sum;
}

static gs_network network_of(const char *name) {
    gs_network network;
    gs_error error = {.code = GS_OK};
    if (gs_network_open(name, &network, &error) != GS_OK)
        fail_msg("%s:%ld:%ld: %s", name, error.line, error.column, error.message);
    return network;
}

TEST(networks_are_the_published_ones) {
    gs_error error;
    for (size_t i = 0; i < GS_COUNT(published); i++) {
        gs_network network = network_of(published[i].name);
        double multiplications = 0;
        assert_string_equal(gs_network_at(i), published[i].name);
        assert_string_equal(network.name, published[i].name);
        assert_int_equal(parameters_of(&network, published[i].norms), published[i].parameters);
        for (size_t k = 0; k < network.layers.count; k++) {
            const gs_layer *layer = &network.layers.data[k];
            multiplications += (double)weights_of(layer) * layer->size * layer->size;
        }
        plan_expect_near(multiplications / 1e9, published[i].gigas, 0.0051);
        gs_network_free(&network);
    }
    assert_null(gs_network_at(GS_COUNT(published)));
    assert_false(gs_network_exists("resnet"));
    assert_int_equal(gs_network_open("resnet", &(gs_network){0}, &error), GS_E_USAGE);
}

/* The tiles of a matrix product: those of one group, once for each group. */
static void expect_blocks(const gs_layer *layer, const gs_network_options *options, const gs_listed_launch *launch) {
    int64_t rows = 0, columns = 0, places = (int64_t)options->batch * layer->size * layer->size;
    while (rows * options->rows < layer->out / layer->groups)
        rows++;
    while (columns * options->columns < places)
        columns++;
    assert_int_equal(launch->blocks, rows * columns * layer->groups);
}

/* The product of a layer has as many multiplications as the layer, and tiles that cover it. */
TEST(networks_become_launches) {
    gs_plan_table table = example_table();
    gs_network_options options = gs_network_defaults();
    int32_t gemm = gs_plan_table_find(&table, "tgemm"), im2col = gs_plan_table_find(&table, "im2col");
    assert_true(options.rows == 64 && options.columns == 64 && options.depth == 2048 && options.batch == 32);
    for (size_t n = 0; gs_network_at(n); n++) {
        gs_network network = network_of(gs_network_at(n));
        gs_task_list tasks = {0};
        size_t at = 0;
        assert_int_equal(gs_task_list_add_network(&tasks, network.name, &options, &table, 1, NULL), GS_OK);
        const gs_listed_task *task = &tasks.data[0];
        assert_true(task->is_network);
        for (size_t i = 0; i < network.layers.count; i++) {
            const gs_layer *layer = &network.layers.data[i];
            if (layer->height * layer->width * layer->stride > 1)
                assert_int_equal(task->launches.data[at++].kernel, im2col);
            const gs_listed_launch *launch = &task->launches.data[at++];
            assert_int_equal(launch->kernel, gemm);
            double covered = (double)launch->blocks * 64 * 64 * launch->work * 2048;
            double needed = (double)weights_of(layer) * layer->size * layer->size * options.batch;
            assert_true(covered >= needed * (1 - 1e-12));
            expect_blocks(layer, &options, launch);
        }
        assert_int_equal(at, task->launches.count);
        for (size_t i = 1; i < at; i++) { /* a chain */
            assert_int_equal(task->launches.data[i].after_count, 1);
            assert_int_equal(task->after.data[task->launches.data[i].after], i - 1);
        }
        gs_task_list_clear(&tasks);
        gs_network_free(&network);
    }
    gs_error error;
    gs_task_list tasks = {0};
    options.gemm = "none";
    assert_int_equal(gs_task_list_add_network(&tasks, "vgg16", &options, &table, 1, &error), GS_E_USAGE);
    gs_task_list_clear(&tasks);
    gs_plan_table_clear(&table);
}

/* Each kernel of a table comes first once. */
TEST(the_order_of_kernels_in_a_table_does_not_matter) {
    gs_plan_table table = example_table();
    gs_network_options options = gs_network_defaults();
    gs_task_list usual = {0};
    assert_int_equal(gs_task_list_add_network(&usual, "resnet50", &options, &table, 1, NULL), GS_OK);
    const gs_listed_task *wanted = &usual.data[0];
    char names[300][40];
    assert_in_range(wanted->launches.count, 1, GS_COUNT(names));
    for (size_t i = 0; i < wanted->launches.count; i++)
        snprintf(names[i], sizeof names[i], "%s", table.kernels.data[wanted->launches.data[i].kernel].name);
    for (size_t turn = 0; turn < table.kernels.count; turn++) {
        gs_task_list tasks = {0};
        gs_table_kernel first = table.kernels.data[0];
        memmove(table.kernels.data, table.kernels.data + 1, (table.kernels.count - 1) * sizeof first);
        table.kernels.data[table.kernels.count - 1] = first;
        assert_int_equal(gs_task_list_add_network(&tasks, "resnet50", &options, &table, 1, NULL), GS_OK);
        assert_int_equal(tasks.data[0].launches.count, wanted->launches.count);
        for (size_t i = 0; i < wanted->launches.count; i++) {
            const gs_listed_launch *launch = &tasks.data[0].launches.data[i];
            assert_string_equal(table.kernels.data[launch->kernel].name, names[i]);
            assert_int_equal(launch->blocks, wanted->launches.data[i].blocks);
            plan_expect_near(launch->work, wanted->launches.data[i].work, 0);
        }
        gs_task_list_clear(&tasks);
    }
    gs_task_list_clear(&usual);
    gs_plan_table_clear(&table);
}

/* ---- plans ---- */

static const char *const small_plan =
    "{\"format\": \"gridsmith.plan/1\", \"gpu\": \"h200\", \"more\": [1], \"kernels\": ["
    "{\"name\": \"a\", \"form\": \"whole\", \"blocks\": 1056, \"block_threads\": 256, \"registers\": 32, "
    "\"shared_bytes\": 0,"
    " \"workers_per_sm\": 8, \"alone_us\": 100, \"model\": {\"base_us\": 0, \"per_block_us\": 0.0946969696969697,"
    " \"min_blocks\": 100, \"max_blocks\": 100000, \"residual\": 0.01}},"
    "{\"name\": \"b\", \"blocks\": 2000, \"block_threads\": 128, \"registers\": 32, \"shared_bytes\": 0, "
    "\"workers_per_sm\": 4,"
    " \"alone_us\": 60},"
    "{\"name\": \"b\", \"form\": \"half\", \"blocks\": 4000, \"block_threads\": 64, \"registers\": 32, \"alone_us\": "
    "50},"
    "{\"name\": \"broken\", \"form\": \"whole\", \"blocks\": 1, \"alone_us\": null},"
    "{\"name\": \"c\", \"blocks\": 132, \"block_threads\": 1024, \"registers\": 64, \"workers_per_sm\": 1, "
    "\"alone_us\": 40}],"
    "\"pairs\": ["
    "{\"first\": \"a\", \"second\": \"b\", \"option\": \"inside\", \"first_workers_per_sm\": 4, "
    "\"second_workers_per_sm\": 8,"
    " \"turns_us\": 150, \"together_us\": 125, \"gain\": 0.1667, \"reason\": \"\", \"points\": []},"
    "{\"first\": \"a\", \"second\": \"c\", \"option\": \"turns\", \"reason\": \"nothing to gain\", "
    "\"first_sms\": 40, \"second_workers_per_sm\": 1, \"first_us\": 90},"
    "{\"first\": \"a\", \"second\": \"broken\", \"option\": \"split\", \"together_us\": 3}]}";

TEST(waves_of_a_plan_are_counted) {
    gs_plan_table table = table_of("{\"schema\": \"gridsmith.plan/1\", \"gpu\": \"h200\", \"pairs\": [], \"kernels\": "
                                   "[{\"name\": \"a\", \"blocks\": "
                                   "264, \"block_threads\": 256, \"registers\": 32, \"workers_per_sm\": 1, "
                                   "\"alone_us\": 100, \"model\": {\"base_us\": 0, "
                                   "\"per_block_us\": 0.5, \"min_blocks\": 132, \"max_blocks\": 264, \"residual\": "
                                   "0.01, \"wave_blocks\": 132}}]}");
    plan_expect_near(gs_table_kernel_us(&table.kernels.data[0], 1, 1).value, 66, 1e-9);
    plan_expect_near(gs_table_kernel_us(&table.kernels.data[0], 133, 1).value, 132, 1e-9);
    plan_expect_near(gs_table_kernel_us(&table.kernels.data[0], 133, 0.75).value, 99, 1e-9);
    assert_int_equal(gs_table_kernel_us(&table.kernels.data[0], 264, 1).doubt, GS_DOUBT_NONE);
    gs_plan_table_clear(&table);
}

TEST(a_plan_is_read) {
    gs_plan_table table = table_of(small_plan);
    gs_pair_rates rates;
    double residual;
    assert_string_equal(table.gpu, "h200");
    assert_int_equal(table.kernels.count, 3);
    assert_int_equal(gs_plan_table_find(&table, "b"), 1);
    assert_int_equal(gs_plan_table_find(&table, "broken"), -1);
    plan_expect_near(table.kernels.data[1].alone_us, 50, 0); /* the faster form */
    assert_int_equal(table.kernels.data[1].shape.threads, 64);
    assert_int_equal(table.pairs.count, 2);
    const gs_table_pair *inside = &table.pairs.data[0], *turns = &table.pairs.data[1];
    assert_true(inside->first == 0 && inside->second == 1 && turns->first == 0 && turns->second == 2);
    assert_true(inside->first_workers == 4 && inside->second_workers == 8 && inside->first_sms == 0);
    assert_true(turns->first_workers == 0 && turns->second_workers == 1 && turns->first_sms == 40);
    plan_expect_near(inside->together_us, 125, 0);
    plan_expect_near(inside->first_us, 100, 0); /* alone, unless the pair says otherwise */
    plan_expect_near(inside->second_us, 50, 0);
    plan_expect_near(turns->first_us, 90, 0);
    plan_expect_near(turns->second_us, 40, 0);
    assert_true(gs_table_pair_rates(&table.pairs.data[0], &rates, &residual));
    plan_expect_near(rates.first, 0.8, 1e-12);
    plan_expect_near(rates.second, 0.4, 1e-12);
    assert_false(gs_table_pair_rates(&table.pairs.data[1], &rates, &residual));
    gs_forecast forecast = gs_table_kernel_us(&table.kernels.data[0], 2112, 1);
    plan_expect_near(forecast.value, 200, 1e-9);
    assert_int_equal(forecast.doubt, GS_DOUBT_NONE);
    assert_int_equal(gs_table_kernel_us(&table.kernels.data[0], 200000, 1).doubt, GS_DOUBT_OUTSIDE);
    plan_expect_near(gs_table_kernel_us(&table.kernels.data[0], 1056, 3).value, 300, 1e-9);
    assert_int_equal(gs_table_kernel_us(&table.kernels.data[1], 4000, 1).doubt, GS_DOUBT_NONE);
    plan_expect_near(gs_table_kernel_us(&table.kernels.data[1], 2000, 1).value, 25, 1e-9);
    forecast = gs_table_kernel_us(&table.kernels.data[1], 2000, 1);
    assert_int_equal(forecast.doubt, GS_DOUBT_FEW);
    /* 1,056 blocks of 256 threads are one wave on an H200: no launch is shorter than a block. */
    gs_gpu *gpu = gpu_of("h200");
    gs_error error = {.code = GS_OK};
    assert_int_equal(gs_plan_table_divide(&table, gpu, &error), GS_OK);
    plan_expect_near(table.kernels.data[0].one_block_us, 100, 1e-9);
    plan_expect_near(gs_table_kernel_us(&table.kernels.data[0], 500, 1).value, 100, 1e-9);
    gs_gpu_free(gpu);
    gs_plan_table_clear(&table);
}

/* How long both take, divided by the duration of the first: the second has `ratio` times its work. */
static double together_for(const gs_pair_rates *rates, double ratio) {
    double first = 1 / rates->first, second = ratio / rates->second;
    if (first < second)
        return first + (ratio - first * rates->second) / rates->second_alone;
    return second + (1 - second * rates->first) / rates->first_alone;
}

/* A plan with the durations of a pair at this many ratios, the first kernel alone 100 us. */
static gs_plan_table table_of_points(const gs_pair_rates *rates, int count) {
    gs_text text = {0};
    gs_text_add(&text, "{\"format\": \"gridsmith.plan/1\", \"gpu\": \"h200\", \"kernels\": ["
                       "{\"name\": \"a\", \"blocks\": 1, \"alone_us\": 100}, {\"name\": \"b\", \"blocks\": 1, "
                       "\"alone_us\": 80}], \"pairs\": "
                       "[{\"first\": \"a\", \"second\": \"b\", \"option\": \"split\", \"first_sms\": 66, "
                       "\"together_us\": 160, \"points\": [");
    for (int i = 0; i < count; i++)
        gs_text_add(&text, "%s{\"ratio\": %.17g, \"us\": %.17g}", i ? ", " : "", 3.0 * (i + 0.5) / count,
                    100 * together_for(rates, 3.0 * (i + 0.5) / count));
    gs_text_add(&text, "]}]}");
    gs_plan_table table = table_of(text.data);
    gs_text_free(&text);
    return table;
}

/* Of many points all four rates are found; of few, those side by side, if each is as fast as alone afterwards; of one
   measurement, the speeds at which both end together. */
TEST(points_of_a_plan_become_rates) {
    gs_pair_rates rates;
    double residual;
    const gs_pair_rates slower_after = {0.7, 0.6, 0.8, 0.9}, as_alone = {0.7, 0.6, 1, 1};
    gs_plan_table many = table_of_points(&slower_after, 10), few = table_of_points(&as_alone, 3),
                  none = table_of_points(&as_alone, 0);
    assert_true(many.pairs.data[0].has_model);
    assert_true(gs_table_pair_rates(&many.pairs.data[0], &rates, &residual));
    plan_expect_near(rates.first, 0.7, 1e-3);
    plan_expect_near(rates.second, 0.6, 1e-3);
    plan_expect_near(rates.first_alone, 0.8, 1e-3);
    plan_expect_near(rates.second_alone, 0.9, 1e-3);
    assert_true(residual < 1e-3);
    assert_true(few.pairs.data[0].has_few && !few.pairs.data[0].has_model);
    assert_true(gs_table_pair_rates(&few.pairs.data[0], &rates, &residual));
    plan_expect_near(rates.first, 0.7, 1e-3);
    plan_expect_near(rates.second, 0.6, 1e-3);
    plan_expect_near(rates.first_alone, 1, 1e-12);
    assert_false(none.pairs.data[0].has_few || none.pairs.data[0].has_model);
    assert_true(gs_table_pair_rates(&none.pairs.data[0], &rates, &residual));
    plan_expect_near(rates.first, 100.0 / 160, 1e-9);
    plan_expect_near(rates.second, 80.0 / 160, 1e-9);
    plan_expect_near(residual, 0, 0);
    const gs_table_pair brief = {.option = GS_TABLE_SPLIT, .first_us = 0.6, .second_us = 0.5, .together_us = 0.8},
                        unknown = {.option = GS_TABLE_SPLIT, .first_us = 0.6};
    assert_true(gs_table_pair_rates(&brief, &rates, &residual));
    plan_expect_near(rates.first, 0.75, 1e-9);
    assert_false(gs_table_pair_rates(&unknown, &rates, &residual));
    gs_plan_table_clear(&many);
    gs_plan_table_clear(&few);
    gs_plan_table_clear(&none);
}

/* Returns the column of the error. */
static long expect_plan_words(const char *text, size_t count, const char *words) {
    gs_plan_table table;
    gs_error error = {.code = GS_OK};
    gs_input *input = gs_input_memory("plan", text, count, &error);
    gs_code code = gs_plan_table_read(input, &table, &error);
    if (gs_code_exit(code) != 2 || !strstr(error.message, words) || error.line != 1)
        fail_msg("%ld:%ld: \"%s\", not \"%s\"", error.line, error.column, error.message, words);
    gs_plan_table_clear(&table);
    gs_input_close(input);
    return error.column;
}

static void expect_plan_error(const char *text, long column, const char *words) {
    assert_int_equal(expect_plan_words(text, strlen(text), words), column);
}

TEST(mistakes_in_plans_are_named) {
    expect_plan_error("", 1, "the file is empty");
    expect_plan_error("{}", 1, "not a plan");
    expect_plan_error("{\"format\": \"gridsmith.plan/2\"}", 12, "not a plan");
    expect_plan_error("{\"format\": \"gridsmith.plan/1\", \"kernels\": 3}", 43, "must be a list");
    expect_plan_error("{\"format\": \"gridsmith.plan/1\", \"kernels\": [3], \"pairs\": []}", 44, "must be an object");
    expect_plan_error("{\"format\": \"gridsmith.plan/1\", \"kernels\": [{\"name\": \"\"}], \"pairs\": []}", 53,
                      "must be a name");
    expect_plan_error(
        "{\"format\": \"gridsmith.plan/1\", \"kernels\": [{\"name\": \"a\", \"alone_us\": -1}], \"pairs\": []}", 70,
        "must be a number from 1e-06");
    expect_plan_error("{\"format\": \"gridsmith.plan/1\", \"kernels\": [{\"name\": \"a\", \"blocks\": 1, \"alone_us\": "
                      "1}], \"pairs\": "
                      "[{\"first\": \"a\", \"second\": \"a\", \"option\": \"on\"}]}",
                      138, "must be turns, inside or split");
}

/* Each number of a plan is read as it is, up to its limit; the next one is refused. */
TEST(numbers_of_a_plan_have_limits) {
    enum { KERNEL, MODEL, PAIR, POINT, OBJECTS };
    static const char *const begins[OBJECTS] = {
        "{\"schema\": \"gridsmith.plan/1\", \"kernels\": [{\"name\": \"a\"", ", \"model\": {\"more\": 1",
        "}}], \"pairs\": [{\"first\": \"a\", \"second\": \"a\", \"option\": \"split\"", ", \"points\": [{\"more\": 1"};
    static const char *const usual[OBJECTS][8] = {
        {"alone_us", "blocks", "block_threads", "registers"},
        {"base_us", "per_block_us", "min_blocks", "max_blocks", "residual", "wave_blocks"},
        {"first_sms"},
        {"ratio", "us"}};
    static const struct {
        int where;
        const char *key, *most, *more;
    } numbers[] = {
        {KERNEL, "blocks", "4611686018427387903", "4611686018427387904"},
        {KERNEL, "block_threads", "65536", "65537"},
        {KERNEL, "registers", "65536", "65537"},
        {KERNEL, "shared_bytes", "16777216", "16777217"},
        {KERNEL, "workers_per_sm", "64", "65"},
        {KERNEL, "alone_us", "1e12", "1.1e12"},
        {MODEL, "base_us", "-1e12", "-1.1e12"},
        {MODEL, "base_us", "1e12", "1.1e12"},
        {MODEL, "per_block_us", "0", "-1"},
        {MODEL, "residual", "1e12", "1.1e12"},
        {PAIR, "first_workers_per_sm", "64", "65"},
        {PAIR, "second_workers_per_sm", "0", "-1"},
        {PAIR, "first_registers", "65536", "65537"},
        {PAIR, "second_block_threads", "65536", "65537"},
        {PAIR, "together_us", "0", "-1"},
        {PAIR, "first_us", "1e-6", "0"},
        {PAIR, "second_us", "1e12", "1.1e12"},
        {POINT, "ratio", "1e6", "1.1e6"},
        {PAIR, "first_sms", "1", "0"},
        {POINT, "us", "1e12", "1.1e12"},
    };
    for (size_t i = 0; i < GS_COUNT(numbers); i++)
        for (int is_more = 0; is_more < 2; is_more++) {
            gs_plan_table table;
            gs_error error = {.code = GS_OK};
            gs_text text = {0};
            const char *value = is_more ? numbers[i].more : numbers[i].most;
            for (int where = 0; where < OBJECTS; where++) {
                bool is_here = numbers[i].where == where;
                gs_text_add(&text, "%s", begins[where]);
                for (size_t k = 0; usual[where][k]; k++)
                    if (!is_here || strcmp(usual[where][k], numbers[i].key) != 0)
                        gs_text_add(&text, ", \"%s\": 1", usual[where][k]);
                if (is_here)
                    gs_text_add(&text, ", \"%s\": %s", numbers[i].key, value);
            }
            gs_text_add(&text, "}]}]}");
            gs_input *input = gs_input_memory("plan", text.data, text.count, &error);
            if ((gs_plan_table_read(input, &table, &error) != GS_OK) != is_more)
                fail_msg("%s of %s: %s", numbers[i].key, value, error.message);
            if (is_more)
                assert_non_null(strstr(error.message, numbers[i].key));
            else
                assert_int_equal(table.pairs.count, 1);
            gs_plan_table_clear(&table);
            gs_input_close(input);
            gs_text_free(&text);
        }
}

/* Replaces the first occurrence. */
static gs_text replaced(const char *text, const char *what, const char *with) {
    gs_text changed = {0};
    const char *at = strstr(text, what);
    if (!at)
        fail_msg("%s is not in the plan", what);
    gs_text_add(&changed, "%.*s%s%s", (int)(at - text), text, with, at + strlen(what));
    return changed;
}

/* What was damaged, or written by hand with a mistake, does not become another plan. */
TEST(damaged_plans_are_refused) {
    static const struct {
        const char *what, *with, *words;
    } changes[] = {
        {"\"gpu\": \"h200\"", "\"gpu\": 7", "\"gpu\" must be a name"},
        {", \"blocks\": 2000", "", "\"blocks\" is missing"},
        {"\"blocks\": 2000", "\"blocks\": 0", "\"blocks\" must be from 1"},
        {"\"blocks\": 2000", "\"blocks\": \"2000\"", "\"blocks\" must be a whole number"},
        {", \"alone_us\": null", "", "\"alone_us\" is missing"},
        {"\"alone_us\": 60", "\"alone_us\": -60", "\"alone_us\" must be a number from 1e-06"},
        {"\"alone_us\": 60", "\"alone_us\": \"60\"", "\"alone_us\" must be a number from 1e-06"},
        {"\"form\": \"half\"", "\"form\": \"hal\"", "\"form\" must be whole, half, quarter or black box"},
        {"\"form\": \"half\"", "\"form\": 2", "\"form\" must be whole"},
        {"\"name\": \"c\"", "\"name\": \"a\", \"form\": \"whole\"", "the plan has the kernel \"a\" twice"},
        {"\"name\": \"c\"", "\"name\": \"b\"", "the plan has the kernel \"b\" twice"},
        {"\"registers\": 32, ", "", "\"registers\" is missing"},
        {"\"block_threads\": 256, \"registers\": 32, ", "",
         "the plan does not say how many threads a block of \"a\" has"},
        {"\"first_workers_per_sm\": 4", "\"first_workers_per_sm\": 0", "must be from 1"},
        {"\"model\": {", "\"model\": 3, \"was\": {", "\"model\" must be an object or null"},
        {"\"per_block_us\": 0.0946969696969697,", "", "\"per_block_us\" is missing"},
        {"\"max_blocks\": 100000", "\"max_blocks\": 10", "\"max_blocks\" must be a number from 100"},
        {"\"first_workers_per_sm\": 4, ", "", "\"first_workers_per_sm\" is missing"},
        {"\"option\": \"inside\"", "\"option\": \"split\"", "\"first_sms\" is missing"},
        {"\"option\": \"inside\", ", "", "\"option\" is missing"},
        {"\"option\": \"inside\"", "\"option\": true", "\"option\" must be turns, inside or split"},
        {"\"together_us\": 125", "\"together_us\": [125]", "\"together_us\" must be a number"},
        {"\"points\": []", "\"points\": {}", "\"points\" must be a list of at most"},
        {"\"points\": []", "\"points\": [1]", "a point must be an object"},
        {"\"points\": []", "\"points\": [{\"us\": 3}]", "\"ratio\" is missing"},
        {"\"points\": []", "\"points\": [{\"ratio\": 1, \"us\": -3}]", "\"us\" must be a number from"},
        {"\"first\": \"a\"", "\"first\": \"d\"", "the plan has no kernel \"d\""},
        {"\"second\": \"c\"", "\"second\": \"b\"", "the plan has the pair \"a\" and \"b\" twice"},
        {"\"first\": \"a\", \"second\": \"c\"", "\"first\": \"b\", \"second\": \"a\"",
         "the plan has the pair \"b\" and \"a\" twice"},
        {"\"together_us\": 3}]}", "\"together_us\": 3}]} {}", "but more follows"},
    };
    for (size_t i = 0; i < GS_COUNT(changes); i++) {
        gs_text text = replaced(small_plan, changes[i].what, changes[i].with);
        expect_plan_words(text.data, text.count, changes[i].words);
        gs_text_free(&text);
    }
    for (size_t i = 0; i < strlen(small_plan); i++)
        expect_plan_words(small_plan, i, i ? "the text ends" : "the file is empty");
}

/* What the plan lists without a duration is known to be there. */
TEST(a_kernel_without_a_duration_is_of_the_plan) {
    gs_plan_table table = table_of(small_plan);
    assert_true(gs_plan_table_is_unmeasured(&table, "broken"));
    assert_false(gs_plan_table_is_unmeasured(&table, "a"));
    assert_false(gs_plan_table_is_unmeasured(&table, "none"));
    gs_plan_table_clear(&table);
}

/* Of several forms of a kernel the fastest counts, in whatever order they come. */
TEST(the_fastest_form_of_a_kernel_counts) {
    static const int times[][3] = {{30, 20, 40}, {20, 30, 40}, {40, 30, 20}};
    static const char *const forms[] = {"whole", "half", "quarter"};
    for (size_t i = 0; i < GS_COUNT(times); i++) {
        gs_text text = {0};
        gs_text_add(&text, "{\"schema\": \"gridsmith.plan/1\", \"pairs\": [], \"kernels\": [");
        for (int k = 0; k < 3; k++)
            gs_text_add(&text, "%s{\"name\": \"a\", \"form\": \"%s\", \"alone_us\": %d, \"blocks\": %d}", k ? ", " : "",
                        forms[k], times[i][k], times[i][k] * 2);
        gs_text_add(&text, "]}");
        gs_plan_table table = table_of(text.data);
        assert_int_equal(table.kernels.count, 1);
        assert_string_equal(table.kernels.data[0].name, "a");
        assert_true(table.kernels.data[0].alone_us == 20 && table.kernels.data[0].blocks == 40);
        gs_plan_table_clear(&table);
        gs_text_free(&text);
    }
}

/* ---- fitting together ---- */

/* If only counts matter, workers fit as in Equation 9. */
TEST(fits_as_the_counts_say) {
    gs_gpu *gpu = gpu_of("h200"); /* 2,048 threads, 65,536 registers, 32 blocks */
    gs_shape wide = gs_shape_of(256, 32, 0), heavy = gs_shape_of(256, 64, 0), large = gs_shape_of(1024, 64, 0);
    int32_t four = 4, two = 2, nine = 9, one = 1;
    assert_int_equal(gs_fits_beside(gpu, &wide, &four, 1, &wide, 99), 4);
    assert_int_equal(gs_fits_beside(gpu, &wide, &four, 1, &wide, 3), 3);
    assert_int_equal(gs_fits_beside(gpu, &heavy, &two, 1, &heavy, 99), 2);
    assert_int_equal(gs_fits_beside(gpu, &wide, &nine, 1, &wide, 99), 0);
    assert_int_equal(gs_fits_beside(gpu, &large, &one, 1, &large, 99), 0);
    assert_int_equal(gs_fits_beside(gpu, NULL, NULL, 0, &wide, 99), 8);
    gs_shape three[] = {wide, heavy};
    int32_t workers[] = {2, 2};
    assert_int_equal(gs_fits_beside(gpu, three, workers, 2, &wide, 99), 2);
    gs_gpu_free(gpu);
}

/* Waves are those of the occupancy, for a launch that fills whole waves; more blocks never take less time. */
TEST(waves_are_counted) {
    for (int round = 0; round < plan_rounds(200); round++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 21), (uint64_t)round);
        gs_gpu *gpu = random_gpu(&random, 0);
        gs_shape shape = random_shape(&random, gpu);
        gs_occupancy occupancy;
        gs_error error;
        gs_occupancy_of(gpu, &shape, &occupancy, &error);
        int64_t wave = (int64_t)occupancy.blocks * gpu->sms, waves = gs_random_from(&random, 1, 20);
        plan_expect_near(gs_waves_on(gpu, "kernel", &shape, wave * waves, &error), (double)waves, 1e-9);
        plan_expect_near(gs_waves_on(gpu, "kernel", &shape, wave * waves + 1, &error), (double)waves + 1, 1e-9);
        gs_gpu_free(gpu);
    }
    gs_gpu *gpu = gpu_of("h200");
    gs_shape never = gs_shape_of(1024, 255, 0);
    gs_error error = {.code = GS_OK};
    plan_expect_near(gs_waves_on(gpu, "kernel", &never, 10, &error), 0, 0);
    assert_int_equal(error.code, GS_E_NO_FIT);
    gs_gpu_free(gpu);
}

/* ---- tasks ---- */

static gs_simulation play(const gs_plan_table *table, const gs_task_list *tasks, const gs_simulation_options *options);

static gs_code read_tasks(const char *text, const gs_plan_table *table, gs_task_list *tasks, gs_error *error) {
    gs_network_options options = gs_network_defaults();
    gs_input *input = gs_input_memory("tasks", text, strlen(text), error);
    options.gemm = "a";
    return gs_task_list_read(tasks, input, &options, table, error);
}

TEST(tasks_are_read) {
    gs_plan_table table = table_of(small_plan);
    gs_task_list tasks = {0};
    gs_error error = {.code = GS_OK};
    const char *text =
        "{\"schema\": \"gridsmith.task/1\", \"task\": \"one\", \"kernels\": [{\"kernel\": \"a\"}, {\"kernel\": \"b\", "
        "\"blocks\": 7, \"work\": 0.5}, {\"kernel\": \"c\", \"after\": [0, 1]}, {\"kernel\": \"c\", \"after\": []}]}\n"
        "{\"schema\": \"gridsmith.task/1\", \"task\": \"two\", \"repeat\": 3, \"at_us\": 2.5, \"kernels\": "
        "[{\"kernel\": \"c\"}]}\n";
    assert_int_equal(read_tasks(text, &table, &tasks, &error), GS_OK);
    assert_int_equal(tasks.count, 2);
    const gs_listed_task *task = &tasks.data[0];
    assert_int_equal(task->launches.count, 4);
    assert_int_equal(task->launches.data[0].blocks, 1056);
    assert_int_equal(task->launches.data[0].after_count, 0);
    assert_int_equal(task->launches.data[1].after_count, 1);
    assert_int_equal(task->launches.data[2].after_count, 2);
    assert_int_equal(task->launches.data[3].after_count, 0);
    assert_int_equal(tasks.data[1].repeat, 3);
    plan_expect_near(tasks.data[1].at_us, 2.5, 0);
    gs_task_list_clear(&tasks);
    static const char *const wrong[][3] = {
        {"{\"schema\": \"gridsmith.task/1\", \"task\": \"x\", \"kernels\": [{\"kernel\": \"z\"}]}", "no kernel \"z\"",
         "\"z\""},
        {"{\"schema\": \"gridsmith.task/1\", \"task\": \"x\", \"kernels\": []}", "must be a list", "[]"},
        {"{\"schema\": \"gridsmith.task/1\", \"task\": \"x\", \"kernels\": [{\"kernel\": \"a\", \"after\": [0]}]}",
         "the first kernel cannot have", "0]"},
        {"{\"schema\": \"gridsmith.task/1\", \"task\": \"x\", \"kernels\": [{\"kernel\": \"a\"}, {\"kernel\": \"a\", "
         "\"after\": [1]}]}",
         "from 0 to 0", "1]}"},
        {"{\"schema\": \"gridsmith.task/1\", \"task\": \"x\", \"kernels\": [{\"kernel\": \"a\", \"work\": 0}]}",
         "\"work\" must be", "0}]"},
        {"{\"schema\": \"gridsmith.task/1\", \"task\": \"x\", \"kernels\": [{\"kernel\": \"a\", \"block\": 1}]}",
         "block", "\"block\""},
        {"{\"task\": \"x\"}", "schema", "{"},
    };
    for (size_t i = 0; i < GS_COUNT(wrong); i++) {
        assert_int_equal(read_tasks(wrong[i][0], &table, &tasks, &error), GS_E_FORMAT);
        if (!strstr(error.message, wrong[i][1]) || error.column != strstr(wrong[i][0], wrong[i][2]) - wrong[i][0] + 1)
            fail_msg("%ld: %s", error.column, error.message);
        gs_task_list_clear(&tasks);
    }
    gs_plan_table_clear(&table);
}

/* A recording: launches wait for those before them in their streams, and for those that they waited for. */
TEST(a_recording_is_a_task) {
    gs_plan_table table = table_of(
        "{\"schema\": \"gridsmith.plan/1\", \"gpu\": \"h200\", \"pairs\": [], \"kernels\": ["
        "{\"name\": \"a\", \"form\": \"black box\", \"blocks\": 132, \"block_threads\": 256, \"registers\": 32, "
        "\"shared_bytes\": "
        "0, \"workers_per_sm\": 1, \"alone_us\": 300},"
        "{\"name\": \"a#2\", \"form\": \"black box\", \"blocks\": 132, \"block_threads\": 128, \"registers\": 32, "
        "\"shared_bytes\": 0, \"workers_per_sm\": 1, \"alone_us\": 500}]}");
    static const char head[] = "{\"schema\":\"gridsmith.run/1\",\"gpu\":\"h200\",\"events\":\"follow\"}\n";
    static const char *const shapes[] = {
        "\"kernel\":\"a\",\"blocks\":132,\"threads\":256,\"registers\":32,\"shared_bytes\":0",
        "\"kernel\":\"a\",\"blocks\":132,\"threads\":128,\"registers\":32,\"shared_bytes\":0"};
    static const struct {
        int shape, stream;
        const char *more;
    } launches[] = {{0, 7, ""}, {1, 8, ""}, {1, 7, ",\"start_us\":1000,\"end_us\":2000"}, {0, 8, ",\"after\":[3]"}};
    gs_text text = {0};
    gs_task_list tasks = {0};
    gs_error error = {.code = GS_OK};
    gs_text_add(&text, "%s", head);
    for (size_t i = 0; i < GS_COUNT(launches); i++)
        gs_text_add(&text, "{\"op\":\"launch\",\"id\":%zu,%s,\"stream\":%d,\"at_us\":%zu%s}\n", i + 1,
                    shapes[launches[i].shape], launches[i].stream, i, launches[i].more);
    if (read_tasks(text.data, &table, &tasks, &error) != GS_OK)
        fail_msg("%ld:%ld: %s", error.line, error.column, error.message);
    assert_int_equal(tasks.count, 1);
    const gs_listed_task *task = &tasks.data[0];
    assert_string_equal(task->name, "tasks");
    assert_int_equal(task->launches.count, 4);
    static const size_t after[] = {0, 1, 2}, first[] = {0, 0, 0, 1}, count[] = {0, 0, 1, 2};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(task->launches.data[i].kernel, launches[i].shape);
        assert_int_equal(task->launches.data[i].blocks, 132);
        assert_int_equal(task->launches.data[i].after, first[i]);
        assert_int_equal(task->launches.data[i].after_count, count[i]);
    }
    assert_memory_equal(task->after.data, after, sizeof after);
    gs_gpu *gpu = gpu_of("h200");
    gs_simulation_options options = {.gpu = gpu, .recorded_on = gpu, .together = 2, .unknown = 2};
    gs_simulation result = play(&table, &tasks, &options);
    plan_expect_near(result.end_us, 300 + 500 + 1000 + 300, 10); /* black boxes share no SMs */
    assert_int_equal(result.doubtful, 0);
    assert_int_equal(result.shared, 0);
    gs_simulation_clear(&result);
    gs_task_list_clear(&tasks);
    table.kernels.data[1].shape.registers++;
    assert_int_equal(read_tasks(text.data, &table, &tasks, &error), GS_E_USAGE);
    assert_non_null(strstr(error.message, "tasks, launch 1: the plan has no kernel \"a\" of this shape"));
    gs_task_list_clear(&tasks);
    assert_int_equal(read_tasks(head, &table, &tasks, &error), GS_E_USAGE);
    gs_task_list_clear(&tasks);
    gs_text_free(&text);
    gs_gpu_free(gpu);
    gs_plan_table_clear(&table);
}

/* A network of one's own, between tasks. */
TEST(networks_are_read) {
    gs_plan_table table = table_of(small_plan);
    gs_task_list tasks = {0};
    gs_error error = {.code = GS_OK};
    const char *text =
        "{\"schema\": \"gridsmith.task/1\", \"task\": \"one\", \"kernels\": [{\"kernel\": \"b\"}]}\n"
        "{\"schema\": \"gridsmith.network/1\", \"network\": \"mine\", \"repeat\": 2, \"layers\": [{\"layer\": "
        "\"first\", \"in\": 64, \"out\": 128, \"size\": 16},\n{\"layer\": \"last\", \"in\": 4096, \"out\": 10, "
        "\"groups\": 2}]}\n";
    assert_int_equal(read_tasks(text, &table, &tasks, &error), GS_OK);
    assert_int_equal(tasks.count, 2);
    assert_false(tasks.data[0].is_network);
    const gs_listed_task *mine = &tasks.data[1];
    assert_string_equal(mine->name, "mine");
    assert_true(mine->is_network);
    assert_int_equal(mine->repeat, 2);
    assert_int_equal(mine->launches.count, 2);
    assert_int_equal(mine->launches.data[0].blocks, 2 * 16 * 16 * 32 / 64);
    plan_expect_near(mine->launches.data[0].work, 64.0 / 2048, 0);
    assert_int_equal(mine->launches.data[1].blocks, 2);
    plan_expect_near(mine->launches.data[1].work, 1, 0);
    gs_task_list_clear(&tasks);
    gs_plan_table_clear(&table);
}

TEST(a_wrong_network_is_refused_with_its_place) {
    static const struct {
        const char *layers, *message;
        const char *place; /* where the text has this; NULL: not a mistake of one place */
    } wrong[] = {
        {"[]", "\"layers\" must be a list of 1 to 65536 layers", "[]"},
        {"[{\"layer\": \"x\", \"in\": 0, \"out\": 1}]", "from 1 to 1048576", "0,"},
        {"[{\"layer\": \"x\", \"in\": 1}]", "\"out\" is missing", "{\"layer"},
        {"[{\"layer\": \"x\", \"in\": 1, \"out\": 1, \"depth\": 1}]", "depth", "\"depth"},
        {"[{\"layer\": \"x\", \"in\": 6, \"out\": 4, \"groups\": 4}]", "must divide 6 channels in and 4 out", "4}]"},
        {"[{\"layer\": \"x\", \"in\": 1048576, \"out\": 1, \"height\": 1024, \"width\": 1024, \"size\": 65536}]",
         "the layer x of y has more than 9007199254740991 blocks", NULL},
    };
    gs_plan_table table = table_of(small_plan);
    for (size_t i = 0; i < GS_COUNT(wrong); i++) {
        gs_task_list tasks = {0};
        gs_error error = {.code = GS_OK};
        char text[400];
        snprintf(text, sizeof text, "{\"schema\": \"gridsmith.network/1\", \"network\": \"y\", \"layers\": %s}",
                 wrong[i].layers);
        assert_int_equal(read_tasks(text, &table, &tasks, &error), wrong[i].place ? GS_E_FORMAT : GS_E_USAGE);
        long column = wrong[i].place ? strstr(text, wrong[i].place) - text + 1 : 0;
        if (!strstr(error.message, wrong[i].message) || error.column != column)
            fail_msg("%ld: %s", error.column, error.message);
        gs_task_list_clear(&tasks);
    }
    gs_plan_table_clear(&table);
}

/* ---- simulations ---- */

/* The small plan, ten times as slow: kernels below 100 us never share SMs. */
static gs_plan_table slow_table(void) {
    gs_plan_table table = table_of(small_plan);
    for (size_t i = 0; i < table.kernels.count; i++) {
        table.kernels.data[i].alone_us *= 10;
        table.kernels.data[i].model.slope *= 10;
    }
    for (size_t i = 0; i < table.pairs.count; i++) {
        table.pairs.data[i].first_us *= 10;
        table.pairs.data[i].second_us *= 10;
        table.pairs.data[i].together_us *= 10;
    }
    return table;
}

static gs_simulation play(const gs_plan_table *table, const gs_task_list *tasks, const gs_simulation_options *options) {
    gs_simulation result;
    gs_error error = {.code = GS_OK};
    if (gs_simulate(table, tasks, options, &result, &error) != GS_OK)
        fail_msg("%s", error.message);
    return result;
}

/* a takes 1000 us, b 500 us, both together 1250 us, a and c in sequence 1400 us. */
TEST(simulations_by_hand) {
    gs_plan_table table = slow_table();
    gs_gpu *gpu = gpu_of("h200");
    gs_task_list tasks = {0};
    gs_simulation_options options = {.gpu = gpu, .recorded_on = gpu, .together = 1, .unknown = 1};
    for (int32_t kernel = 0; kernel < 2; kernel++)
        assert_int_equal(gs_task_list_add_kernel(&tasks, kernel, &table, 1, NULL), GS_OK);
    gs_simulation result = play(&table, &tasks, &options);
    plan_expect_near(result.end_us, 1500, 1e-9);
    plan_expect_near(result.alone_us, 1500, 1e-9);
    assert_int_equal(result.launches, 2);
    assert_int_equal(result.shared, 0);
    plan_expect_near(result.longest_wait_us, 1000, 1e-9);
    plan_expect_near(result.tasks[1].mean_us, 1500, 1e-9);
    gs_simulation_clear(&result);
    options.together = 2;
    result = play(&table, &tasks, &options);
    plan_expect_near(result.end_us, 1250, 1e-9);
    assert_int_equal(result.shared, 2);
    gs_simulation_clear(&result);
    /* With c there is nothing to gain. */
    assert_int_equal(gs_task_list_add_kernel(&tasks, 2, &table, 2, NULL), GS_OK);
    result = play(&table, &tasks, &options);
    plan_expect_near(result.end_us, 1250 + 2 * 400, 1e-9);
    assert_int_equal(result.tasks[2].done, 2);
    gs_simulation_clear(&result);
    /* Until a time: tasks start again as long as it has not passed. */
    options.for_us = 10000;
    options.patience_us = 2000;
    result = play(&table, &tasks, &options);
    assert_true(result.end_us >= 10000 && result.end_us < 14000);
    assert_true(result.tasks[0].done > 3 && result.tasks[1].done > 3 && result.tasks[2].done >= 2);
    gs_simulation_clear(&result);
    gs_task_list_clear(&tasks);
    gs_gpu_free(gpu);
    gs_plan_table_clear(&table);
}

/* A task that ends when the time is over does not start again. */
TEST(tasks_start_again_until_a_time) {
    gs_plan_table table = slow_table();
    gs_gpu *gpu = gpu_of("h200");
    gs_task_list tasks = {0};
    assert_int_equal(gs_task_list_add_kernel(&tasks, 0, &table, 1, NULL), GS_OK);
    for (int64_t times = 1; times <= 4; times++) {
        gs_simulation_options options = {
            .gpu = gpu, .recorded_on = gpu, .together = 1, .unknown = 1, .for_us = (double)times * 1000};
        gs_simulation result = play(&table, &tasks, &options);
        assert_int_equal(result.tasks[0].done, times);
        plan_expect_near(result.end_us, options.for_us, 1e-9);
        gs_simulation_clear(&result);
    }
    gs_task_list_clear(&tasks);
    gs_gpu_free(gpu);
    gs_plan_table_clear(&table);
}

/* Each launch differs from the table by at most so much, in both directions, and by nearly so much at times. */
TEST(noise_is_at_most_what_was_asked_for) {
    gs_plan_table table = slow_table();
    gs_gpu *gpu = gpu_of("h200");
    gs_task_list tasks = {0};
    double least = INFINITY, most = 0;
    assert_int_equal(gs_task_list_add_kernel(&tasks, 0, &table, 1, NULL), GS_OK);
    for (uint64_t seed = 0; seed < 200; seed++) {
        gs_simulation_options options = {
            .gpu = gpu, .recorded_on = gpu, .together = 1, .unknown = 1, .noise = 0.1, .seed = seed};
        gs_simulation result = play(&table, &tasks, &options);
        least = fmin(least, result.end_us);
        most = fmax(most, result.end_us);
        gs_simulation_clear(&result);
    }
    assert_true(least >= 900 && least < 910);
    assert_true(most <= 1100 && most > 1090);
    gs_task_list_clear(&tasks);
    gs_gpu_free(gpu);
    gs_plan_table_clear(&table);
}

/* The GPU is idle until the first task comes, and between the two. */
TEST(tasks_come_to_an_idle_gpu) {
    gs_plan_table table = table_of(small_plan);
    gs_gpu *gpu = gpu_of("h200");
    for (int32_t first = 0; first < 2; first++) { /* the one that comes first is listed first, or last */
        gs_task_list tasks = {0};
        gs_simulation_options options = {.gpu = gpu, .recorded_on = gpu, .together = 2, .unknown = 1};
        for (int32_t kernel = 0; kernel < 2; kernel++) {
            assert_int_equal(gs_task_list_add_kernel(&tasks, kernel, &table, 1, NULL), GS_OK);
            tasks.data[kernel].at_us = kernel == first ? 50 : 300;
        }
        gs_simulation result = play(&table, &tasks, &options);
        plan_expect_near(result.end_us, first ? 400 : 350, 1e-9);
        plan_expect_near(result.tasks[0].mean_us, 100, 1e-9);
        plan_expect_near(result.tasks[1].mean_us, 50, 1e-9);
        plan_expect_near(result.longest_wait_us, 0, 1e-9);
        gs_simulation_clear(&result);
        gs_task_list_clear(&tasks);
    }
    gs_gpu_free(gpu);
    gs_plan_table_clear(&table);
}

/* On a GPU with half of the SMs the waves double; a pair that does not fit there is not a pair. */
TEST(simulations_of_another_gpu) {
    gs_plan_table table = slow_table();
    gs_error error;
    gs_gpu *gpu = gpu_of("h200"), *half = gs_gpu_part(gpu, 66, &error), *small = gs_gpu_part(gpu, 132, &error);
    gs_task_list tasks = {0};
    assert_true(half && small);
    small->limits.threads_per_sm = 1024; /* 4 x 256 threads fill an SM */
    small->warps_per_partition = 8;
    gs_simulation_options options = {.gpu = half, .recorded_on = gpu, .together = 1, .unknown = 1};
    assert_int_equal(gs_task_list_add_kernel(&tasks, 0, &table, 1, NULL), GS_OK);
    gs_simulation result = play(&table, &tasks, &options);
    plan_expect_near(result.end_us, 2000, 1e-9);
    gs_simulation_clear(&result);
    assert_int_equal(gs_task_list_add_kernel(&tasks, 1, &table, 1, NULL), GS_OK);
    options.gpu = small;
    options.together = 2;
    result = play(&table, &tasks, &options);
    assert_int_equal(result.shared, 0);
    gs_simulation_clear(&result);
    options.gpu = gpu;
    result = play(&table, &tasks, &options);
    assert_int_equal(result.shared, 2);
    gs_simulation_clear(&result);
    options.gpu = small; /* of 128 threads, where the first kernel has 256 */
    small->limits.threads_per_sm = 128;
    small->warps_per_partition = 1;
    assert_int_equal(gs_simulate(&table, &tasks, &options, &result, &error), GS_E_NO_FIT);
    gs_simulation_clear(&result);
    gs_task_list_clear(&tasks);
    gs_gpu_free(gpu);
    gs_gpu_free(half);
    gs_gpu_free(small);
    gs_plan_table_clear(&table);
}

static void add_named(gs_task_list *tasks, const gs_plan_table *table, const char *name, int64_t repeat) {
    gs_network_options options = gs_network_defaults();
    gs_code code = gs_network_exists(name)
                       ? gs_task_list_add_network(tasks, name, &options, table, repeat, NULL)
                       : gs_task_list_add_kernel(tasks, gs_plan_table_find(table, name), table, repeat, NULL);
    assert_int_equal(code, GS_OK);
}

static const char *const zoo_tasks[] = {"bfs",  "cp",  "cutcp",  "fft",   "histo", "img",   "lbm",  "mrif",
                                        "mriq", "pns", "regtil", "sgemm", "spmv",  "stenc", "tpacf"};

static double improvement(const gs_plan_table *table, const gs_task_list *tasks, gs_simulation_options options) {
    options.together = 1;
    gs_simulation order = play(table, tasks, &options);
    options.together = 2;
    gs_simulation pairs = play(table, tasks, &options);
    double gain = order.end_us / pairs.end_us - 1;
    assert_int_equal(order.launches, pairs.launches);
    gs_simulation_clear(&order);
    gs_simulation_clear(&pairs);
    return gain;
}

/* As in sections 7.3 and 7.6 of ISPA: each network with each task of the zoo, and 5, 10 and 15 tasks with all networks.
   The plan is invented: nothing is claimed but that no mix is slower than in order. */
TEST(networks_beside_zoo_tasks) {
    gs_plan_table table = example_table();
    gs_gpu *gpu = gpu_of("h200");
    gs_error error;
    gs_simulation_options options = {.gpu = gpu, .recorded_on = gpu, .unknown = 1, .noise = 0.02, .seed = 3};
    double sum = 0, best = 0;
    assert_int_equal(gs_plan_table_divide(&table, gpu, &error), GS_OK);
    for (size_t n = 0; gs_network_at(n); n++)
        for (size_t k = 0; k < GS_COUNT(zoo_tasks); k++) {
            gs_task_list tasks = {0};
            add_named(&tasks, &table, gs_network_at(n), 1);
            add_named(&tasks, &table, zoo_tasks[k], 12);
            double gain = improvement(&table, &tasks, options);
            if (gain < -0.01)
                fail_msg("%s with %s: %g", gs_network_at(n), zoo_tasks[k], gain);
            sum += gain;
            best = fmax(best, gain);
            gs_task_list_clear(&tasks);
        }
    print_message("75 pairs of an invented plan: %+.1f%% on average, %+.1f%% at most\n", 100 * sum / 75, 100 * best);
    for (size_t count = 5; count <= 15; count += 5) {
        gs_task_list tasks = {0};
        for (size_t n = 0; gs_network_at(n); n++)
            add_named(&tasks, &table, gs_network_at(n), 1);
        for (size_t k = 0; k < count; k++)
            add_named(&tasks, &table, zoo_tasks[k], 5);
        assert_true(improvement(&table, &tasks, options) > -0.01);
        gs_task_list_clear(&tasks);
    }
    gs_gpu_free(gpu);
    gs_plan_table_clear(&table);
}

/* Kernels that differ only in how many workers they need. The plan has the first two in sequence, and not the third. */
static gs_plan_table table_without_a_pair(void) {
    static const struct {
        const char *name;
        int workers;
    } kernels[] = {{"a", 4}, {"b", 4}, {"new", 8}};
    gs_text text = {0};
    gs_text_add(&text,
                "{\"format\": \"gridsmith.plan/1\", \"gpu\": \"h200\", \"pairs\": [{\"first\": \"a\", \"second\": "
                "\"b\", \"option\": \"turns\"}], \"kernels\": [");
    for (size_t i = 0; i < GS_COUNT(kernels); i++)
        gs_text_add(&text,
                    "%s{\"name\": \"%s\", \"blocks\": 1056, \"block_threads\": 256, \"registers\": 32, "
                    "\"workers_per_sm\": %d, \"alone_us\": 200}",
                    i ? ", " : "", kernels[i].name, kernels[i].workers);
    gs_text_add(&text, "]}");
    gs_plan_table table = table_of(text.data);
    gs_text_free(&text);
    return table;
}

/* A pair that the plan lacks is tried, and kept where that gains. */
TEST(kernels_that_the_plan_does_not_pair) {
    gs_plan_table table = table_without_a_pair();
    gs_gpu *gpu = gpu_of("h200");
    gs_task_list tasks = {0};
    add_named(&tasks, &table, "a", 30000);
    add_named(&tasks, &table, "new", 30000);
    gs_simulation_options options = {.gpu = gpu, .recorded_on = gpu, .together = 2, .unknown = 1.5};
    gs_simulation result = play(&table, &tasks, &options);
    assert_true(result.shared > 20000 && result.end_us < 0.9 * result.alone_us);
    gs_simulation_clear(&result);
    static const double losing[] = {0.6, 0.95};
    for (size_t i = 0; i < GS_COUNT(losing); i++) {
        options.unknown = losing[i];
        result = play(&table, &tasks, &options);
        assert_true(result.shared > 0 && result.end_us < 1.005 * result.alone_us);
        gs_simulation_clear(&result);
    }
    gs_task_list_clear(&tasks);
    gs_gpu_free(gpu);
    gs_plan_table_clear(&table);
}

/* Kernels of 256 or more threads and two workers per SM; each pair takes 110 us for 200 us of work. */
static gs_plan_table table_of_pairs(int kernels, int threads) {
    gs_text text = {0};
    gs_text_add(&text, "{\"format\": \"gridsmith.plan/1\", \"gpu\": \"h200\", \"kernels\": [");
    for (int i = 0; i < kernels; i++)
        gs_text_add(&text,
                    "%s{\"name\": \"k%d\", \"blocks\": 1056, \"block_threads\": %d, \"registers\": 32, "
                    "\"workers_per_sm\": 2, \"alone_us\": 100}",
                    i ? ", " : "", i, threads);
    gs_text_add(&text, "], \"pairs\": [");
    for (int a = 0; a < kernels; a++)
        for (int b = a + 1; b < kernels; b++)
            gs_text_add(&text,
                        "%s{\"first\": \"k%d\", \"second\": \"k%d\", \"option\": \"inside\", \"together_us\": 110, "
                        "\"first_workers_per_sm\": 2, \"second_workers_per_sm\": 2}",
                        b > 1 ? ", " : "", a, b);
    gs_text_add(&text, "]}");
    gs_plan_table table = table_of(text.data);
    gs_text_free(&text);
    return table;
}

/* One task repeats, and others come meanwhile: each waits for the launch that runs, and no longer. */
TEST(tasks_come_while_others_repeat) {
    gs_plan_table table = table_of_pairs(3, 512);
    gs_gpu *gpu = gpu_of("h200");
    gs_task_list tasks = {0};
    gs_simulation_options options = {.gpu = gpu, .recorded_on = gpu, .together = 1, .unknown = 1};
    assert_int_equal(gs_task_list_add_kernel(&tasks, 0, &table, 20, NULL), GS_OK);
    assert_int_equal(gs_task_list_add_kernel(&tasks, 1, &table, 1, NULL), GS_OK);
    assert_int_equal(gs_task_list_add_kernel(&tasks, 2, &table, 1, NULL), GS_OK);
    tasks.data[1].at_us = 250;
    tasks.data[2].at_us = 5000; /* long after the others have ended */
    gs_simulation result = play(&table, &tasks, &options);
    assert_int_equal(result.tasks[0].done, 20);
    assert_int_equal(result.tasks[1].done, 1);
    assert_int_equal(result.tasks[2].done, 1);
    assert_int_equal(result.launches, 22);
    plan_expect_near(result.tasks[0].mean_us, 105, 1e-9); /* one of 20 waits for 100 us */
    plan_expect_near(result.tasks[0].longest_us, 200, 1e-9);
    plan_expect_near(result.tasks[1].mean_us, 150, 1e-9);
    plan_expect_near(result.tasks[2].mean_us, 100, 1e-9);
    plan_expect_near(result.longest_wait_us, 100, 1e-9);
    plan_expect_near(result.end_us, 5100, 1e-9);
    gs_simulation_clear(&result);
    gs_task_list_clear(&tasks);
    gs_gpu_free(gpu);
    gs_plan_table_clear(&table);
}

/* Kernels that take so long, and how fast two of them are side by side, by their speeds alone. */
struct mix {
    double alone_us[4];
    struct mix_pair {
        int first, second;
        double rates[2];
        int first_sms; /* 0: the same SMs */
    } pairs[6];
};

static void put_pair(gs_text *text, const struct mix *mix, const struct mix_pair *pair) {
    double us = fmax(mix->alone_us[pair->first], mix->alone_us[pair->second]); /* of all launches of each */
    gs_text_add(text,
                "{\"first\": \"k%d\", \"second\": \"k%d\", \"option\": \"%s\", \"first_us\": %g, "
                "\"second_us\": %g, ",
                pair->first, pair->second, pair->first_sms ? "split" : "inside", us, us);
    if (pair->first_sms)
        gs_text_add(text, "\"first_sms\": %d", pair->first_sms);
    else
        gs_text_add(text, "\"first_workers_per_sm\": 4, \"second_workers_per_sm\": 4");
    gs_text_add(text, ", \"points\": [");
    for (int i = 1; i <= 10; i++)
        gs_text_add(text, "%s{\"ratio\": %g, \"us\": %.12g}", i > 1 ? ", " : "", i * 0.2,
                    us * together_for(&(gs_pair_rates){pair->rates[0], pair->rates[1], 1, 1}, i * 0.2));
    gs_text_add(text, "]}");
}

static gs_plan_table table_of_mix(const struct mix *mix) {
    gs_text text = {0};
    gs_text_add(&text, "{\"format\": \"gridsmith.plan/1\", \"gpu\": \"h200\", \"kernels\": [");
    for (int i = 0; i < 4 && mix->alone_us[i] > 0; i++)
        gs_text_add(&text,
                    "%s{\"name\": \"k%d\", \"blocks\": 16384, \"block_threads\": 128, \"registers\": 32, "
                    "\"workers_per_sm\": 8, \"alone_us\": %g}",
                    i ? ", " : "", i, mix->alone_us[i]);
    gs_text_add(&text, "], \"pairs\": [");
    for (size_t i = 0; i < GS_COUNT(mix->pairs) && mix->pairs[i].rates[0] > 0; i++) {
        gs_text_add(&text, i ? ", " : "");
        put_pair(&text, mix, &mix->pairs[i]);
    }
    gs_text_add(&text, "]}");
    gs_plan_table table = table_of(text.data);
    gs_text_free(&text);
    return table;
}

/* Plays the kernels of a mix as clients that always have a launch. Returns the throughput, and the least part of the
   time that one has, by an equal one. */
static double play_mix(const struct mix *mix, const gs_gpu *gpu, double for_ms, double *least) {
    gs_plan_table table = table_of_mix(mix);
    gs_task_list tasks = {0};
    gs_simulation_options options = {
        .gpu = gpu, .recorded_on = gpu, .together = 2, .unknown = 1, .for_us = for_ms * 1000};
    for (size_t k = 0; k < table.kernels.count; k++)
        assert_int_equal(gs_task_list_add_kernel(&tasks, (int32_t)k, &table, 1, NULL), GS_OK);
    gs_simulation result = play(&table, &tasks, &options);
    *least = INFINITY;
    for (size_t k = 0; k < result.task_count; k++)
        *least =
            fmin(*least, (double)result.tasks[k].done * result.tasks[k].alone_us * (double)tasks.count / result.end_us);
    double throughput = result.alone_us / result.end_us;
    gs_simulation_clear(&result);
    gs_task_list_clear(&tasks);
    gs_plan_table_clear(&table);
    return throughput;
}

/* Clients that always have a launch are of equal weight. Some may have more by their pairs, but each has nearly its
   part of the time, as without pairs, and together they have no less. */
TEST(nobody_is_starved_by_pairs_of_others) {
    static const struct {
        struct mix mix;
        double least; /* part */
    } rows[] = {
        {{{12000, 1000, 12000, 1000}, {{0, 2, {0.75, 0.75}, 0}, {1, 2, {0.65, 0.65}, 0}}}, 0.8},
        {{{400, 400, 6500}, {{0, 2, {0.575, 0.575}, 0}, {1, 2, {0.575, 0.575}, 0}}},
         1}, /* the third gains beside both */
        {{{90, 150, 150, 5000}, {{1, 3, {0.55, 0.55}, 0}}}, 0.9},
        {{{12000, 50, 50}, {{0}}}, 0.97},
        {{{50000, 20000, 5, 5}, {{0}}}, 0.95},
        {{{6500, 6500, 160, 1650}, {{0, 2, {0.625, 0.625}, 0}, {1, 2, {0.625, 0.625}, 0}}},
         0.9}, /* equal partners of a short one */
        {{{300, 300, 100, 1500}, {{0, 2, {0.9, 0.9}, 0}, {1, 2, {0.9, 0.9}, 0}}}, 1},
        {{{100, 1000, 1000, 300}, {{0, 1, {0.545, 0.545}, 0}, {0, 2, {0.545, 0.545}, 0}}},
         0.95}, /* the gain pays for few stops */
        {{{2000, 2000, 2000, 2000}, {{0, 1, {0.625, 0.625}, 0}, {0, 2, {0.625, 0.625}, 0}, {0, 3, {0.625, 0.625}, 0}}},
         1},                                                       /* three wait, and pay for a partner of them */
        {{{12000, 12000, 12000}, {{0, 1, {0.97, 0.97}, 4}}}, 1.4}, /* few SMs are no little service */
        {{{1000, 1000, 1000}, {{0, 1, {0.97, 0.97}, 32}}}, 1.2},
        {{{12000, 12000, 12000}, {{0, 1, {0.97, 0.97}, 4}, {0, 2, {0.97, 0.97}, 4}}},
         1.4}, /* the first always runs beside another */
        {{{4700, 257, 1094, 577}, {{0, 1, {0.67, 0.69}, 0}, {0, 2, {0.59, 0.69}, 96}}},
         0.95}, /* the first has workers beside one, and SMs of its own beside another */
        {{{124, 1270, 814, 814}, {{0, 2, {0.97, 0.97}, 68}, {0, 3, {0.97, 0.97}, 68}}}, 1}, /* equals that are split */
    };
    gs_gpu *gpu = gpu_of("h200");
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        double part;
        assert_true(play_mix(&rows[i].mix, gpu, 5000, &part) > 0.99);
        if (part < rows[i].least)
            fail_msg("row %zu: a task has %.3f of its part", i, part);
    }
    gs_gpu_free(gpu);
}

/* A pair that gains less than it costs to stop one of the two afterwards is not formed. */
TEST(pairs_pay_for_stops) {
    static const char *const words = "{\"schema\": \"gridsmith.task/1\", \"task\": \"x\", \"kernels\": [{\"kernel\": "
                                     "\"k0\"}]}\n{\"schema\": \"gridsmith.task/1\", \"task\": \"y\", \"kernels\": "
                                     "[{\"kernel\": \"k1\", \"work\": 0.6}, {\"kernel\": \"k1\"}]}";
    gs_plan_table table =
        table_of_mix(&(struct mix){.alone_us = {1980.4, 115.6}, .pairs = {{0, 1, {0.526, 0.526}, 0}}});
    gs_gpu *gpu = gpu_of("h200");
    gs_task_list tasks = {0};
    gs_error error = {.code = GS_OK};
    assert_int_equal(read_tasks(words, &table, &tasks, &error), GS_OK);
    gs_simulation_options options = {.gpu = gpu, .recorded_on = gpu, .together = 2, .unknown = 1, .for_us = 1000000};
    gs_simulation result = play(&table, &tasks, &options);
    if (result.alone_us < 0.995 * result.end_us)
        fail_msg("%.3f of the throughput in sequence", result.alone_us / result.end_us);
    gs_simulation_clear(&result);
    gs_task_list_clear(&tasks);
    gs_plan_table_clear(&table);
    gs_gpu_free(gpu);
}

/* Kernels at drawn rates on SMs of their own: what is gained is not taken from one of them. */
TEST(nobody_is_starved_by_drawn_pairs) {
    static const int sms[] = {4, 16, 33, 66, 99, 116, 128};
    static const double us[] = {124, 300, 1000, 3000, 12000};
    enum { ALL = 132 };
    size_t mixes = (size_t)test_number("GRIDSMITH_RUNS", 100000) / 5000 + 1, under = 0;
    gs_random random = gs_random_at((uint64_t)test_number("GRIDSMITH_SEED", 5), 0);
    gs_gpu *gpu = gpu_of("h200");
    double sum = 0, worst = INFINITY;
    for (size_t n = 0; n < mixes; n++) {
        struct mix mix = {.alone_us = {0}};
        int count = (int)gs_random_from(&random, 2, 4), pairs = 0;
        for (int i = 0; i < count; i++)
            mix.alone_us[i] = us[gs_random_from(&random, 0, 4)];
        for (int a = 0; a < count; a++)
            for (int b = a + 1; b < count; b++) {
                int first = sms[gs_random_from(&random, 0, 6)];
                double one = plan_random(&random, fmax(0.25, 0.9 * first / ALL), 1);
                double other = plan_random(&random, fmax(0.25, 0.9 * (ALL - first) / ALL), 1);
                double inside = plan_random(&random, 0.5, 0.8);
                int kind = (int)gs_random_from(&random, 0, 9);
                if (kind < 3)
                    mix.pairs[pairs++] = (struct mix_pair){a, b, {inside, inside}, 0};
                else if (kind < 7)
                    mix.pairs[pairs++] = (struct mix_pair){a, b, {one, other}, first};
            }
        double part;
        sum += play_mix(&mix, gpu, 2000, &part);
        worst = fmin(worst, part);
        under += part < 0.9;
        if (part < 0.8)
            fail_msg("mix %zu: a task has %.3f of its part", n, part);
    }
    printf("%zu drawn mixes: %.3f of the throughput in sequence; least part %.3f, below 0.9 in %zu\n", mixes,
           sum / (double)mixes, worst, under);
    gs_gpu_free(gpu);
}

/* Whatever the plan says, two that do less together than in sequence are measured, and do not go on: also if neither
   would ever run alone, and if one of them has less than its share and they are interrupted again and again. */
TEST(a_pair_that_disappoints_is_given_up) {
    enum { SEEDS = 20 };
    static const struct {
        struct mix mix;
        double for_ms, least; /* of the throughput in sequence */
    } rows[] = {{{{3000, 400}, {{0, 1, {0.86, 0.33}, 0}}}, 2000, 0.98},
                {{{3000, 1000, 120}, {{0, 1, {0.6, 0.6}, 0}}}, 6000, 0.95}}; /* while a third waits */
    gs_gpu *gpu = gpu_of("h200");
    for (size_t row = 0; row < GS_COUNT(rows); row++) {
        gs_plan_table table = table_of_mix(&rows[row].mix);
        gs_task_list tasks = {0};
        for (size_t k = 0; k < table.kernels.count; k++)
            assert_int_equal(gs_task_list_add_kernel(&tasks, (int32_t)k, &table, 1, NULL), GS_OK);
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            gs_simulation_options options = {.gpu = gpu,
                                             .recorded_on = gpu,
                                             .together = 2,
                                             .unknown = 1,
                                             .for_us = rows[row].for_ms * 1000,
                                             .noise = 0.5,
                                             .seed = seed};
            gs_simulation result = play(&table, &tasks, &options);
            if (result.alone_us < rows[row].least * result.end_us)
                fail_msg("row %zu, seed %d: %.3f of the throughput in sequence", row, (int)seed,
                         result.alone_us / result.end_us);
            gs_simulation_clear(&result);
        }
        gs_task_list_clear(&tasks);
        gs_plan_table_clear(&table);
    }
    gs_gpu_free(gpu);
}

/* A kernel has workers beside one kernel, and SMs of its own beside another. It is not stopped for one of them, and
   then again for the other, before anything was done. */
TEST(two_ways_to_run_a_kernel_do_not_undo_each_other) {
    static const char *const plan =
        "{\"schema\": \"gridsmith.plan/1\", \"gpu\": \"h200\", \"kernels\": ["
        "{\"name\": \"k0\", \"blocks\": 17952, \"block_threads\": 128, \"registers\": 32, \"workers_per_sm\": 8, "
        "\"alone_us\": 1582.2}, "
        "{\"name\": \"k1\", \"blocks\": 23232, \"block_threads\": 128, \"registers\": 32, \"workers_per_sm\": 8, "
        "\"alone_us\": 51.5}, "
        "{\"name\": \"k2\", \"blocks\": 26400, \"block_threads\": 128, \"registers\": 32, \"workers_per_sm\": 8, "
        "\"alone_us\": 559.4}, "
        "{\"name\": \"k5\", \"blocks\": 10560, \"block_threads\": 128, \"registers\": 32, \"workers_per_sm\": 8, "
        "\"alone_us\": 164.1}], "
        "\"pairs\": ["
        "{\"first\": \"k0\", \"second\": \"k2\", \"option\": \"split\", \"first_us\": 1582.2, \"together_us\": "
        "3020.4, \"points\": [{\"ratio\": 0.1, \"us\": 1717.79}, {\"ratio\": 0.3, \"us\": 1988.98}, {\"ratio\": "
        "0.6, \"us\": 2395.77}, {\"ratio\": 1, \"us\": 2938.15}, {\"ratio\": 1.5, \"us\": 3616.12}, {\"ratio\": "
        "2, \"us\": 4294.09}, {\"ratio\": 3, \"us\": 5650.04}], \"first_sms\": 4, \"second_us\": 1678.2}, "
        "{\"first\": \"k2\", \"second\": \"k5\", \"option\": \"inside\", \"first_us\": 559.4, \"together_us\": "
        "864.0, \"first_workers_per_sm\": 4, \"second_workers_per_sm\": 4, \"second_us\": 492.3}]}";
    static const char *const text =
        "{\"schema\": \"gridsmith.task/1\", \"task\": \"a\", \"kernels\": [{\"kernel\": \"k0\"}]}\n"
        "{\"schema\": \"gridsmith.task/1\", \"task\": \"b\", \"kernels\": [{\"kernel\": \"k1\"}]}\n"
        "{\"schema\": \"gridsmith.task/1\", \"task\": \"c\", \"kernels\": [{\"kernel\": \"k5\"}, {\"kernel\": "
        "\"k2\"}]}\n"
        "{\"schema\": \"gridsmith.task/1\", \"task\": \"d\", \"kernels\": [{\"kernel\": \"k2\"}]}\n";
    gs_error error = {.code = GS_OK};
    gs_gpu *gpu = gpu_of("h200");
    gs_plan_table table = table_of(plan);
    gs_task_list tasks = {0};
    gs_simulation_options options = {.gpu = gpu, .recorded_on = gpu, .together = 2, .unknown = 1, .for_us = 2e6};
    assert_int_equal(read_tasks(text, &table, &tasks, &error), GS_OK);
    gs_simulation result = play(&table, &tasks, &options);
    if (result.alone_us < result.end_us)
        fail_msg("%.3f of the throughput in sequence", result.alone_us / result.end_us);
    gs_simulation_clear(&result);
    gs_task_list_clear(&tasks);
    gs_plan_table_clear(&table);
    gs_gpu_free(gpu);
}

/* Tried are pairs that the plan lacks, if it has the shapes of both and they fit. */
TEST(what_is_not_tried_in_a_simulation) {
    static const char *const plan =
        "{\"format\": \"gridsmith.plan/1\", \"gpu\": \"h200\", \"kernels\": ["
        "{\"name\": \"a\", \"blocks\": 132, \"block_threads\": 256, \"registers\": 32, "
        "\"workers_per_sm\": 4, \"alone_us\": 200},"
        "{\"name\": \"b\", \"blocks\": 132, \"block_threads\": 256, \"registers\": 32, "
        "\"workers_per_sm\": 4, \"alone_us\": 200},"
        "{\"name\": \"c\", \"blocks\": 132, \"block_threads\": 256, \"registers\": 32, "
        "\"workers_per_sm\": 4, \"alone_us\": 200},"
        "{\"name\": \"d\", \"blocks\": 132, \"block_threads\": 256, \"registers\": 32, "
        "\"workers_per_sm\": 4, \"alone_us\": 200},"
        "{\"name\": \"small\", \"blocks\": 132, \"block_threads\": 256, \"registers\": 32, "
        "\"workers_per_sm\": 4, \"alone_us\": 200},"
        "{\"name\": \"idle\", \"blocks\": 132, \"block_threads\": 256, \"registers\": 32, \"alone_us\": 200},"
        "{\"name\": \"alone\", \"blocks\": 132, \"block_threads\": 256, \"registers\": 32, \"alone_us\": 200},"
        "{\"name\": \"unknown\", \"blocks\": 132, \"alone_us\": 200},"
        "{\"name\": \"large\", \"blocks\": 132, \"block_threads\": 1024, \"registers\": "
        "64, \"workers_per_sm\": 1, \"alone_us\": 200}],"
        "\"pairs\": [{\"first\": \"a\", \"second\": \"b\", \"option\": \"turns\", \"together_us\": 400},"
        "{\"first\": \"c\", \"second\": \"d\", \"option\": \"turns\", \"together_us\": 400},"
        "{\"first\": \"idle\", \"second\": \"d\", \"option\": \"turns\", \"together_us\": 400}]}";
    static const struct {
        const char *one, *other;
        bool is_tried;
    } rows[] = {{"a", "small", true}, {"small", "c", true},   {"a", "large", false},     {"a", "d", true},
                {"a", "b", false},    {"d", "c", false},      {"small", "large", false}, {"a", "unknown", false},
                {"idle", "d", false}, {"idle", "small", true}};
    gs_plan_table table = table_of(plan);
    gs_gpu *gpu = gpu_of("h200");
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_task_list tasks = {0};
        add_named(&tasks, &table, rows[i].one, 15000);
        add_named(&tasks, &table, rows[i].other, 15000);
        gs_simulation_options options = {.gpu = gpu, .recorded_on = gpu, .together = 2, .unknown = 1.5};
        gs_simulation result = play(&table, &tasks, &options);
        if ((result.shared > 0) != rows[i].is_tried)
            fail_msg("%s beside %s: %zu shared", rows[i].one, rows[i].other, (size_t)result.shared);
        gs_simulation_clear(&result);
        gs_task_list_clear(&tasks);
    }
    gs_gpu_free(gpu);
    gs_plan_table_clear(&table);
}

TEST_MAIN(NULL, NULL)
