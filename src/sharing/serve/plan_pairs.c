/*
 * plan_pairs.c: which kernels may share SMs: the pairs of `serve --plan`, and others that fit.
 *
 * A plan is made for one GPU. On another one its pairs are not used: blocks may not fit together, and durations differ.
 * The emulated GPU takes any plan, so that the decisions of a plan can be tried without its GPU.
 * Which kernels fit is known only for GPUs with a description.
 */
#include "server.h"

#include "model/gpu/gpu.h"

static bool is_of_this_gpu(const gs_server *server, const gs_plan_table *table) {
    if (!server->facts.is_gpu || !table->gpu)
        return true;
    gs_gpu *gpu = gs_gpu_open(table->gpu, NULL);
    bool is_same = gpu && gs_gpu_is_called(gpu, server->facts.name, server->facts.sms);
    gs_gpu_free(gpu);
    return is_same;
}

static void log_line(const gs_server *server, const char *line) {
    if (server->options.say)
        server->options.say(server->options.context, line);
}

static void say_pairs(const gs_server *server, const gs_plan_table *table, bool is_same) {
    char line[300];
    if (is_same && !server->facts.is_gpu && table->gpu)
        snprintf(line, sizeof line, "%zu pair%s of the plan may share SMs; it was made for %.60s, not for this CPU",
                 server->planned.sharing, server->planned.sharing == 1 ? "" : "s", table->gpu);
    else if (is_same)
        snprintf(line, sizeof line, "%zu pair%s of the plan may share SMs", server->planned.sharing,
                 server->planned.sharing == 1 ? "" : "s");
    else
        snprintf(line, sizeof line, "the plan was made for %.60s; this GPU is %.90s: the plan is not used", table->gpu,
                 server->facts.name);
    log_line(server, line);
}

gs_code gs_server_read_plan(gs_server *server, const char *path, gs_error *error) {
    gs_plan_table table;
    if (!path)
        return GS_OK;
    gs_input *input = gs_input_open(path, error);
    if (!input)
        return error->code;
    gs_code code = gs_plan_table_read(input, &table, error);
    bool is_same = code == GS_OK && is_of_this_gpu(server, &table);
    if (is_same && !gs_planned_init(&server->planned, &table, NULL))
        code = gs_fail_memory(error);
    if (code == GS_OK)
        say_pairs(server, &table, is_same);
    server->plan.planned = server->planned.count > 0 ? &server->planned : NULL;
    gs_plan_table_clear(&table);
    gs_input_close(input);
    return code;
}

gs_code gs_server_try_inside(gs_server *server, gs_error *error) {
    gs_gpu *gpu = server->options.tries_intra_sm ? gs_gpu_open_called(server->facts.name, server->facts.sms) : NULL;
    gs_code code = gpu ? gs_profile_store_predict(server->profiles, gpu, error) : GS_OK;
    if (server->options.tries_intra_sm && !gpu && server->facts.is_gpu)
        log_line(server, "this GPU has no description: only pairs of a plan may share SMs");
    server->plan.tries_intra_sm = gpu && code == GS_OK;
    gs_gpu_free(gpu);
    return code;
}
