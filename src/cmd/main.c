/*
 * main.c: finds the subcommand and runs it. Each is one file beside this one.
 */
#include "cmd.h"
#include "plan_verbs.h"
#include "sharing/image/image.h"
#include "sharing/measure/measure.h"
#include "sharing/serve/serve.h"
#include "sharing/worker/worker.h"

#include <signal.h>
#include <string.h>

/* In the order of the groups below. */
const gs_command *const gs_commands[] = {
    &gs_command_predict,  &gs_command_explain, &gs_command_check,     &gs_command_occupancy, &gs_command_bound,
    &gs_command_gpus,     &gs_command_reshape, &gs_command_verify,    &gs_command_guard,     &gs_command_zoo,
    &gs_command_trace,    &gs_command_watch,   &gs_command_import,    &gs_command_record,    &gs_command_replay,
    &gs_command_fuzz,     &gs_command_shrink,  &gs_command_fit,       &gs_command_probe,     &gs_command_adopt,
    &gs_command_campaign, &gs_command_merge,   &gs_command_plan,      &gs_command_serve,     &gs_command_run_program,
    &gs_command_status,   &gs_command_top,     &gs_command_completion};
const size_t gs_command_count = GS_COUNT(gs_commands);

/* The help has a group of commands for each wing of the source: model, kernels, lab, sharing. The last one is the
 * shell's. */
typedef struct command_group {
    const char *title, *purpose;
    const gs_command *first;
} command_group;

static const command_group groups[] = {
    {"Predict and explain", "what would happen on a GPU; needs none", &gs_command_predict},
    {"Reshape kernels", "so that they can share SMs; on the CPU or a GPU", &gs_command_reshape},
    {"Record and measure", "what a GPU really does, compared with the model", &gs_command_trace},
    {"Share a GPU", "several programs at the same time", &gs_command_plan},
    {"Shells", "", &gs_command_completion}};

static void put_group_title(gs_text *text, const gs_command *command) {
    for (size_t i = 0; i < GS_COUNT(groups); i++)
        if (groups[i].first == command)
            gs_text_add(text, "\n%s%s%s\n", groups[i].title, *groups[i].purpose ? ": " : "", groups[i].purpose);
}

static void print_overview(FILE *file) {
    gs_text text = gs_text_folded(file, gs_help_columns(file));
    gs_text_add(&text, "usage: gridsmith COMMAND [options] [FILE...]\n\n"
                       "A workbench for the NVIDIA thread-block scheduler: where blocks run, what they\n"
                       "wait for, and how kernels and programs share a GPU.\n\n"
                       "An example that needs no GPU and no file:\n"
                       "  gridsmith predict --explain --gpu h200 a=264x256,r128,s100K b=132x1024,r32\n");
    for (size_t i = 0; i < gs_command_count; i++) {
        put_group_title(&text, gs_commands[i]);
        gs_text_add(&text, "  %-11s  %s\n", gs_commands[i]->name, gs_commands[i]->summary);
    }
    gs_text_add(&text, "\nSee also 'gridsmith COMMAND --help' and 'man gridsmith'.\n"
                       "Exit codes: 0 done, 1 the answer is no, 2 bad usage or input, 3 no GPU, 4 the system "
                       "failed.\n");
    gs_text_flush(&text);
    gs_text_free(&text);
}

static const gs_command *find_command(const char *name) {
    for (size_t i = 0; i < gs_command_count; i++)
        if (strcmp(gs_commands[i]->name, name) == 0)
            return gs_commands[i];
    return NULL;
}

static int report_unknown_option(const char *word) {
    static const char *const options[] = {"--help", "--version"};
    char name[40];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    gs_similar similar = {.word = name};
    for (size_t i = 0; i < GS_COUNT(options); i++) {
        if (strcmp(name, options[i]) == 0) {
            fprintf(stderr, "gridsmith: %s takes no value; see 'gridsmith --help'\n", name);
            return gs_code_exit(GS_E_USAGE);
        }
        gs_similar_try(&similar, options[i]);
    }
    fprintf(stderr, "gridsmith: unknown option %.60s%s; options of a command stand after its name\n", word,
            gs_similar_words(&similar));
    return gs_code_exit(GS_E_USAGE);
}

static int report_unknown_command(const char *name) {
    gs_similar similar = {.word = name};
    if (name[0] == '-')
        return report_unknown_option(name);
    for (size_t i = 0; i < gs_command_count; i++)
        gs_similar_try(&similar, gs_commands[i]->name);
    fprintf(stderr, "gridsmith: unknown command \"%.60s\"%s; 'gridsmith --help' lists all commands\n", name,
            gs_similar_words(&similar));
    return gs_code_exit(GS_E_USAGE);
}

static int print_command_help(const char *name) {
    const gs_command *command = name ? find_command(name) : NULL;
    if (name && !command)
        return report_unknown_command(name);
    if (command)
        gs_print_help(command, stdout);
    else
        print_overview(stdout);
    return 0;
}

static int dispatch_command(int argc, char **argv) {
    if (argc < 2) {
        print_overview(stderr);
        return gs_code_exit(GS_E_USAGE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
        return print_command_help(argc > 2 ? argv[2] : NULL);
    if (strcmp(argv[1], "--version") == 0) {
        printf("gridsmith %s\n", GS_VERSION);
        return 0;
    }
    if (strcmp(argv[1], GS_WORKER_PROCESS) == 0)
        return gs_worker_process(argc - 1, argv + 1);
    if (strcmp(argv[1], GS_COMPILER_PROCESS) == 0)
        return gs_compiler_process(argc - 1, argv + 1);
    if (strcmp(argv[1], GS_PLAYER_PROCESS) == 0)
        return gs_player_process(argc - 1, argv + 1);
    if (strcmp(argv[1], GS_MPS_PROCESS) == 0)
        return gs_mps_process(argc - 1, argv + 1);
    if (strcmp(argv[1], "plan") == 0)
        for (int i = 2; i < argc; i++)
            if (strcmp(argv[i], "--simulate") == 0 || strcmp(argv[i], "--play") == 0)
                return gs_cmd_plan_simulate(argc - 1, argv + 1);
    const gs_command *command = find_command(argv[1]);
    return command ? gs_command_run(command, argc - 1, argv + 1) : report_unknown_command(argv[1]);
}

/* Commands do not check their writes to standard output; this function does. */
/* A process that was started with SIGCHLD ignored could not wait for compilers and workers. */
int main(int argc, char **argv) {
    signal(SIGCHLD, SIG_DFL);
    int status = dispatch_command(argc, argv);
    gs_error error;
    bool has_arrived = gs_flush(stdout), is_said = status == gs_code_exit(GS_E_IO);
    if (has_arrived || is_said)
        return status;
    gs_fail_system(&error, "write", "standard output");
    return gs_report(&error); /* the output is lost, whatever the result */
}
