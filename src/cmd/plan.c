/*
 * plan.c: gridsmith plan: which kernels share, and for how long.
 */
#include "cmd.h"
#include "plan_verbs.h"

typedef struct plan_options {
    bool simulate;
} plan_options;

static const gs_option option_table[] = {
    GS_FLAG(plan_options, "simulate", simulate, "play tasks with a plan, without a GPU"),
};

static int run(const gs_command *command, void *given, const gs_words *words) {
    (void)given;
    (void)words;
    return gs_usage(command, "say --simulate");
}

const gs_command gs_command_plan = {
    .name = "plan",
    .summary = "Which kernels share the GPU, and for how long: plans tried without a GPU.",
    .usage = "--simulate PLAN --tasks LIST [options]",
    .options = option_table,
    .option_count = GS_COUNT(option_table),
    .options_size = sizeof(plan_options),
    .words = {0, SIZE_MAX, NULL},
    .run = run,
};
