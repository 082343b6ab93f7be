/*
 * test_plan_readings.c: what is read from plans and files of tasks, what is said of those that are not right, and what
 * a simulation makes of them, is as before (tests/decide/readings.txt). So are the accounts of clients that come, run
 * and leave at random.
 *
 * A plan and tasks have one mistake, or another value, at a random place.
 */
#include "answers.h"
#include "decide_support.h"
#include "spoiled.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void add_number(gs_text *text, double value) {
    gs_text_add(text, " %.9g", value);
}

/* ---- plans ---- */

static void put_shape(gs_text *text, const gs_shape *shape) {
    gs_text_add(text, " %d %d %lld %lld", shape->threads, shape->registers, (long long)shape->shared_bytes,
                (long long)shape->local_bytes);
}

static void put_kernel(gs_text *text, const gs_table_kernel *kernel) {
    static const int64_t blocks[] = {1, 64, 1000, 100000};
    gs_text_add(text, "%s %lld %d %d %d", kernel->name, (long long)kernel->blocks, kernel->workers, kernel->has_model,
                kernel->is_black_box);
    put_shape(text, &kernel->shape);
    add_number(text, kernel->alone_us);
    add_number(text, kernel->one_block_us);
    for (size_t i = 0; i < GS_COUNT(blocks); i++) {
        gs_forecast forecast = gs_table_kernel_us(kernel, blocks[i], i % 2 ? 0.5 : 1);
        add_number(text, forecast.value);
        gs_text_add(text, " %d", (int)forecast.doubt);
    }
    gs_text_add(text, "\n");
}

static void put_pair(gs_text *text, const gs_table_pair *pair) {
    gs_pair_rates rates = {0, 0, 0, 0};
    double residual = 0;
    gs_text_add(text, "%d %d %d %d %d %d %d %d %d %d", pair->first, pair->second, (int)pair->option,
                pair->first_workers, pair->second_workers, pair->first_sms, pair->is_reshaped, pair->has_model,
                pair->has_few, gs_table_pair_rates(pair, &rates, &residual));
    put_shape(text, &pair->shapes[0]);
    put_shape(text, &pair->shapes[1]);
    const double all[] = {pair->first_us, pair->second_us,   pair->together_us,  rates.first,
                          rates.second,   rates.first_alone, rates.second_alone, residual};
    for (size_t i = 0; i < GS_COUNT(all); i++)
        add_number(text, all[i]);
    gs_text_add(text, "\n");
}

static void put_table(gs_text *text, const gs_plan_table *table) {
    gs_text_add(text, "%s %d\n", table->gpu ? table->gpu : "-", table->sms);
    for (size_t i = 0; i < table->kernels.count; i++)
        put_kernel(text, &table->kernels.data[i]);
    for (size_t i = 0; i < table->pairs.count; i++)
        put_pair(text, &table->pairs.data[i]);
}

static gs_code read_plan(const gs_text *from, gs_plan_table *table, gs_error *error) {
    gs_input *input = gs_input_memory("plan", from->data, from->count, error);
    assert_non_null(input);
    gs_code code = gs_plan_table_read(input, table, error);
    gs_input_close(input);
    return code;
}

/* ---- tasks ---- */

static void put_tasks(gs_text *text, const gs_task_list *tasks) {
    for (size_t i = 0; i < tasks->count; i++) {
        const gs_listed_task *task = &tasks->data[i];
        gs_text_add(text, "%s %lld %d", task->name, (long long)task->repeat, task->is_network);
        add_number(text, task->at_us);
        for (size_t k = 0; k < task->launches.count; k++) {
            const gs_listed_launch *launch = &task->launches.data[k];
            gs_text_add(text, " %d:%lld:%zu:%zu:%d", launch->kernel, (long long)launch->blocks, launch->after,
                        launch->after_count, launch->is_recorded);
            add_number(text, launch->work);
        }
        for (size_t k = 0; k < task->after.count; k++)
            gs_text_add(text, " %zu", task->after.data[k]);
        gs_text_add(text, "\n");
    }
}

static void put_simulation(gs_text *text, const gs_simulation *result) {
    gs_text_add(text, "%llu %llu %llu %d", (unsigned long long)result->launches, (unsigned long long)result->shared,
                (unsigned long long)result->doubtful, (int)result->doubt);
    const double all[] = {result->end_us, result->alone_us, result->longest_wait_us};
    for (size_t i = 0; i < GS_COUNT(all); i++)
        add_number(text, all[i]);
    for (size_t i = 0; i < result->task_count; i++) {
        gs_text_add(text, " %llu", (unsigned long long)result->tasks[i].done);
        add_number(text, result->tasks[i].alone_us);
        add_number(text, result->tasks[i].mean_us);
        add_number(text, result->tasks[i].longest_us);
    }
}

static bool is_small(const gs_task_list *tasks) {
    double launches = 0;
    for (size_t i = 0; i < tasks->count; i++)
        launches += (double)tasks->data[i].launches.count * (double)tasks->data[i].repeat;
    return launches < 300;
}

static uint64_t hash_simulation(gs_plan_table *table, const gs_task_list *tasks, const gs_gpu *gpu, uint64_t index) {
    gs_simulation_options options = {.gpu = gpu,
                                     .recorded_on = gpu,
                                     .together = 1 + (int32_t)(index % 4),
                                     .noise = index % 3 ? 0 : 0.1,
                                     .seed = index,
                                     .unknown = index % 5 ? 1 : 1.1,
                                     .for_us = index % 7 ? 0 : 5000,
                                     .patience_us = index % 2 ? 0 : 400};
    gs_error error = {.code = GS_OK};
    gs_simulation result;
    gs_text text = {0};
    gs_code code = gs_plan_table_divide(table, gpu, &error);
    if (code == GS_OK && (code = gs_simulate(table, tasks, &options, &result, &error)) == GS_OK) {
        put_simulation(&text, &result);
        gs_simulation_clear(&result);
    }
    uint64_t hash = answers_add_text(spoiled_error(0, &error), &text);
    gs_text_free(&text);
    return hash;
}

/* What is read of tasks, and made of them. */
static uint64_t hash_tasks(const gs_text *from, gs_plan_table *table, const gs_gpu *gpu, uint64_t index) {
    gs_network_options options = gs_network_defaults();
    gs_task_list tasks = {0};
    gs_error error = {.code = GS_OK};
    gs_text text = {0};
    gs_input *input = gs_input_memory("tasks", from->data, from->count, &error);
    assert_non_null(input);
    options.batch = index % 2 ? 2 : 32;
    uint64_t hash = answers_add(0, gs_task_list_read(&tasks, input, &options, table, &error));
    if (error.code == GS_OK && index % 4 == 0)
        hash = answers_add(hash, gs_task_list_add_network(&tasks, "vgg16", &options, table, 1, &error));
    if (error.code == GS_OK && index % 3 == 0)
        hash = answers_add(hash, gs_task_list_add_kernel(&tasks, (int32_t)(index % 5), table, 3, &error));
    hash = spoiled_error(hash, &error);
    put_tasks(&text, &tasks);
    hash = answers_add_text(hash, &text);
    if (error.code == GS_OK && is_small(&tasks))
        hash = answers_add(hash, (int64_t)hash_simulation(table, &tasks, gpu, index));
    gs_task_list_clear(&tasks);
    gs_text_free(&text);
    return hash;
}

static const char some_tasks[] =
    "{\"schema\": \"gridsmith.task/1\", \"task\": \"one\", \"repeat\": 2, \"at_us\": 100, \"kernels\": [{\"kernel\": "
    "\"lbm\"}, {\"kernel\": \"fft\", \"blocks\": 500, \"work\": 0.5}, {\"kernel\": \"bfs\", \"after\": [0]}, "
    "{\"kernel\": \"cp\", \"after\": [1, 2]}, {\"kernel\": \"tgemm\", \"blocks\": 64, \"after\": []}]}\n"
    "{\"schema\": \"gridsmith.task/1\", \"task\": \"two\", \"kernels\": [{\"kernel\": \"tgemm\", \"blocks\": 100}, "
    "{\"kernel\": \"lbm\", \"blocks\": 1000}]}\n"
    "{\"schema\": \"gridsmith.network/1\", \"network\": \"small\", \"repeat\": 2, \"layers\": [{\"layer\": \"a\", "
    "\"in\": 3, \"out\": 64, \"height\": 7, \"width\": 7, \"stride\": 2, \"size\": 32}, {\"layer\": \"b\", \"in\": 64, "
    "\"out\": 128, \"size\": 16}, {\"layer\": \"c\", \"in\": 128, \"out\": 128, \"height\": 3, \"width\": 3, "
    "\"groups\": 32, \"size\": 16}]}\n";

/* A recording of kernels of the plan. */
static const char a_recording[] =
    "{\"schema\": \"gridsmith.run/1\", \"gpu\": \"h200\", \"events\": [{\"op\": \"launch\", \"id\": 0, \"kernel\": "
    "\"bfs\", \"blocks\": 400, \"threads\": 512, \"registers\": 28, \"shared_bytes\": 8208, \"stream\": 1, \"at_us\": "
    "0, "
    "\"start_us\": 2, \"end_us\": 30}, {\"op\": \"launch\", \"id\": 1, \"kernel\": \"cp\", \"blocks\": 400, "
    "\"threads\": 128, \"registers\": 32, \"shared_bytes\": 0, \"stream\": 2, \"at_us\": 1, \"after\": [0]}, "
    "{\"op\": \"launch\", \"id\": 2, \"kernel\": \"cutcp\", \"blocks\": 300, \"threads\": 256, \"registers\": 32, "
    "\"shared_bytes\": 4112, \"stream\": 1, \"at_us\": 2}, {\"op\": \"launch\", \"id\": 3, \"kernel\": \"bfs\", "
    "\"blocks\": 4, \"threads\": 512, \"registers\": 28, \"shared_bytes\": 8208, \"at_us\": 3}]}";

static gs_text read_example(void) {
    char *bytes = NULL;
    size_t count = 0;
    gs_text text = {0};
    assert_int_equal(gs_input_all(test_path("examples/plan-invented.json"), 1 << 20, &bytes, &count, NULL), GS_OK);
    gs_text_put(&text, bytes, count);
    free(bytes);
    return text;
}

/* ---- tests ---- */

static uint64_t hash_plan(const gs_text *from, const gs_gpu *gpu, const gs_text *tasks, uint64_t index) {
    gs_plan_table table = {0};
    gs_error error = {.code = GS_OK};
    gs_text text = {0};
    uint64_t hash = answers_add(0, read_plan(from, &table, &error));
    hash = spoiled_error(hash, &error);
    if (error.code == GS_OK) {
        gs_planned planned;
        put_table(&text, &table);
        hash = answers_add_text(hash, &text);
        assert_true(gs_planned_init(&planned, &table, index % 2 ? gpu : NULL));
        for (size_t i = 0; i < planned.count; i++) {
            const gs_planned_pair *pair = &planned.data[i];
            gs_text_clear(&text);
            gs_text_add(&text, "%s %s %d %d %d", pair->names[0], pair->names[1], pair->workers[0], pair->workers[1],
                        pair->first_sms);
            for (int k = 0; k < 2; k++) {
                add_number(&text, pair->shares[k]);
                add_number(&text, pair->after[k]);
                add_number(&text, pair->alone_ns[k]);
                add_number(&text, gs_planned_after(&planned, pair->names[k], pair->workers[k]));
            }
            hash = answers_add_text(hash, &text);
        }
        hash = answers_add(answers_add(hash, (int64_t)planned.count), (int64_t)planned.sharing);
        gs_planned_clear(&planned);
        if (index % 4 == 0)
            hash = answers_add(hash, (int64_t)hash_tasks(tasks, &table, gpu, index));
    }
    gs_text_free(&text);
    gs_plan_table_clear(&table);
    return hash;
}

static void plans_are_read_as_before(const gs_gpu *gpu, const gs_text *plan) {
    enum { CASES = 400, BRIEF_CASES = 120 };
    gs_text tasks = {0};
    gs_text_add(&tasks, "%s", some_tasks);
    answers_begin("plans");
    for (uint64_t i = 0; i < (test_is_brief() ? BRIEF_CASES : CASES); i++) {
        gs_random random = gs_random_at(23, i);
        gs_text text = spoiled(&random, plan->data, plan->count);
        answers_expect(hash_plan(i ? &text : plan, gpu, &tasks, i));
        gs_text_free(&text);
    }
    answers_end();
    gs_text_free(&tasks);
}

static void tasks_are_read_as_before(const gs_gpu *gpu, const gs_text *plan) {
    enum { CASES = 600, BRIEF_CASES = 200 };
    gs_plan_table table = {0};
    gs_error error = {.code = GS_OK};
    assert_int_equal(read_plan(plan, &table, &error), GS_OK);
    answers_begin("tasks");
    for (uint64_t i = 0; i < (test_is_brief() ? BRIEF_CASES : CASES); i++) {
        gs_random random = gs_random_at(24, i);
        const char *from = i % 5 ? some_tasks : a_recording;
        gs_text text = {0};
        if (i < 10)
            gs_text_add(&text, "%s", from);
        else
            text = spoiled(&random, from, strlen(from));
        answers_expect(hash_tasks(&text, &table, gpu, i));
        gs_text_free(&text);
    }
    answers_end();
    gs_plan_table_clear(&table);
}

/* Clients come, are charged, and leave. */
static uint64_t hash_accounts(uint64_t index) {
    enum { CLIENTS = 4, STEPS = 40 };
    gs_random random = gs_random_at(25, index);
    gs_fairness fairness = {.sms = 1 + (int32_t)gs_random_from(&random, 0, 131),
                            .slice_ns = gs_random_from(&random, 1, 10) * 1000000};
    gs_fair_client clients[CLIENTS] = {{.weight = 0}};
    bool is_there[CLIENTS] = {false};
    uint64_t now_ns = 1000, hash = 0;
    for (int i = 0; i < CLIENTS; i++)
        clients[i].weight = (uint32_t)gs_random_from(&random, 1, 4);
    for (int step = 0; step < STEPS; step++) {
        int at = (int)gs_random_from(&random, 0, CLIENTS - 1);
        gs_fair_client *client = &clients[at];
        uint64_t served = (uint64_t)gs_random_from(&random, 0, 20000000) * (uint64_t)fairness.sms;
        double least = INFINITY;
        now_ns += (uint64_t)gs_random_from(&random, 0, gs_random_chance(&random, 10) ? 200000000 : 5000000);
        for (int i = 0; i < CLIENTS; i++)
            least = is_there[i] && i != at && gs_fair_had(&clients[i]) < least ? gs_fair_had(&clients[i]) : least;
        if (!is_there[at])
            gs_fair_join(&fairness, client, least, now_ns);
        else if (gs_random_chance(&random, 20))
            gs_fair_leave(&fairness, client, now_ns);
        else if (gs_random_chance(&random, 50))
            gs_fair_charge(&fairness, client, served);
        else
            gs_fair_charge_beside(&fairness, client, served,
                                  (uint64_t)gs_random_from(&random, 0, 30000000) * (uint64_t)fairness.sms);
        is_there[at] = !is_there[at] || !client->left_ns || client->left_ns != now_ns;
        fairness.present = (size_t)gs_random_from(&random, 0, 50);
        fairness.lead_ns = gs_random_chance(&random, 50) ? 0 : gs_random_from(&random, 0, 20000000);
        fairness.least_had = least == INFINITY ? gs_fair_had(client) : least;
        client->has_slice = gs_random_chance(&random, 50);
        client->turn_since_ns = now_ns - (uint64_t)gs_random_from(&random, 0, (int64_t)gs_min_u64(now_ns, 20000000));
        gs_fair_note_lead(&fairness, client);
        const int64_t all[] = {(int64_t)client->had,
                               (int64_t)client->spare,
                               client->lets_pass,
                               (int64_t)fairness.share,
                               (int64_t)fairness.weight,
                               (int64_t)fairness.clients,
                               (int64_t)fairness.left_had,
                               gs_fair_slice_ns(&fairness),
                               gs_fair_is_alone(&fairness, client, now_ns),
                               gs_fair_is_ahead(&fairness, client, now_ns),
                               gs_fair_patience_ns(&fairness, client, now_ns)};
        hash = gs_hash(hash, all, sizeof all);
    }
    return hash;
}

static void accounts_are_as_before(void) {
    enum { CASES = 500 };
    answers_begin("accounts");
    for (uint64_t i = 0; i < CASES; i++)
        answers_expect(hash_accounts(i));
    answers_end();
}

TEST(all_is_as_before) {
    if (!answers_are_rounded_alike())
        skip();
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_text plan = read_example();
    answers_open("tests/decide/readings.txt");
    plans_are_read_as_before(gpu, &plan);
    tasks_are_read_as_before(gpu, &plan);
    accounts_are_as_before();
    answers_close();
    gs_text_free(&plan);
    gs_gpu_free(gpu);
}

/* ---- limits ---- */

/* The plan with one word in the place of another. */
static gs_plan_table changed_plan(const char *from, const char *by) {
    gs_text plan = read_example(), text = {0};
    gs_plan_table table = {0};
    gs_error error = {.code = GS_OK};
    const char *at = plan.data;
    for (const char *found; (found = strstr(at, from)); at = found + strlen(from)) {
        gs_text_put(&text, at, (size_t)(found - at));
        gs_text_put(&text, by, strlen(by));
    }
    gs_text_put(&text, at, strlen(at));
    if (read_plan(&text, &table, &error) != GS_OK)
        fail_msg("%ld: %s", error.line, error.message);
    gs_text_free(&plan);
    gs_text_free(&text);
    return table;
}

TEST(plans_have_as_many_kernels_as_are_read) {
    enum { MOST = 4096 };
    for (int count = MOST; count <= MOST + 1; count++) {
        gs_text text = {0};
        gs_plan_table table = {0};
        gs_error error = {.code = GS_OK};
        gs_text_add(&text, "{\"schema\": \"gridsmith.plan/1\", \"pairs\": [], \"kernels\": [");
        for (int i = 0; i < count; i++)
            gs_text_add(&text, "%s{\"name\": \"k%d\", \"blocks\": 1, \"alone_us\": 5}", i ? ", " : "", i);
        gs_text_add(&text, "]}");
        assert_int_equal(read_plan(&text, &table, &error), count == MOST ? GS_OK : GS_E_FORMAT);
        assert_true(count == MOST || strstr(error.message, "at most 4096 kernels"));
        gs_plan_table_clear(&table);
        gs_text_free(&text);
    }
}

/* Of a long name as much is kept as profiles have. */
TEST(long_names_of_a_plan_are_cut) {
    char name[GS_PROFILE_NAME + 40], wanted[GS_PROFILE_NAME];
    size_t cut = 0;
    memset(name, 'z', sizeof name);
    name[sizeof name - 1] = '\0';
    memset(wanted, 'z', sizeof wanted);
    wanted[sizeof wanted - 1] = '\0';
    gs_plan_table table = changed_plan("tgemm", name);
    gs_planned planned;
    assert_true(gs_planned_init(&planned, &table, NULL));
    for (size_t i = 0; i < planned.count; i++)
        for (int k = 0; k < 2; k++)
            if (planned.data[i].names[k][0] == 'z') {
                assert_string_equal(planned.data[i].names[k], wanted);
                cut++;
            }
    assert_true(cut > 0);
    gs_planned_clear(&planned);
    gs_plan_table_clear(&table);
}

/* Launches of black boxes that take less than a microsecond take as long as when they were recorded, too. */
TEST(short_launches_of_black_boxes_are_as_recorded) {
    static const char text[] =
        "{\"schema\": \"gridsmith.run/1\", \"gpu\": \"h200\", \"events\": [{\"op\": \"launch\", \"id\": 0, \"kernel\": "
        "\"bfs\", \"blocks\": 1, \"threads\": 512, \"registers\": 28, \"shared_bytes\": 8208, \"at_us\": 0, "
        "\"start_us\": 2, \"end_us\": 2.4}]}";
    gs_plan_table table = changed_plan("\"whole\"", "\"black box\"");
    for (size_t i = 0; i < table.kernels.count; i++)
        table.kernels.data[i].model.base = 0.1;
    gs_network_options options = gs_network_defaults();
    gs_task_list tasks = {0};
    gs_error error = {.code = GS_OK};
    gs_input *input = gs_input_memory("tasks", text, strlen(text), &error);
    if (gs_task_list_read(&tasks, input, &options, &table, &error) != GS_OK)
        fail_msg("%s", error.message);
    assert_true(tasks.data[0].launches.data[0].is_recorded);
    gs_task_list_clear(&tasks);
    gs_plan_table_clear(&table);
}

TEST_MAIN(NULL, NULL)
