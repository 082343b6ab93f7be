/*
 * watch.c: gridsmith watch: runs a program, and says why it hangs.
 *
 * The exit status is that of the program, so that `watch` can precede a command in a script; 1 if it was ended because
 * it hangs.
 */
#include "lab/watch/watch.h"
#include "cmd.h"

#include <stdlib.h>
#include <string.h>

struct options {
    const char *after, *folder, *join;
    int64_t now, rank;
    bool aborts;
};

static const struct options defaults = {.after = "30s", .rank = -1};

static const gs_option option_table[] = {
    GS_TEXT(struct options, "after", after, "TIME", "no progress for this long is a hang: 500ms, 30s (default), 5m"),
    GS_FLAG(
        struct options, "abort", aborts,
        "when a wait is reported, read the state of the GPU, and end the program, which cannot use the GPU afterwards"),
    GS_OPTION_ROW(struct options, "output", folder, TEXT, const char *, "FOLDER",
                  "write reports as text, JSON and a page into this folder", .letter = 'o'),
    GS_INT(struct options, "rank", rank, "N", 0, 1000000,
           "the rank of the program (default: from RANK, OMPI_COMM_WORLD_RANK, PMI_RANK or SLURM_PROCID)"),
    GS_INT(struct options, "now", now, "PID", 1, INT32_MAX,
           "print a report, now, of a process that 'gridsmith watch' runs; with --abort also of its GPU"),
    GS_TEXT(struct options, "join", join, "FOLDER", "put the reports of several ranks together"),
};

/* A time with its unit, in nanoseconds. False: not a time. */
static bool parse_time(const char *text, int64_t *ns) {
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
    char *end;
    double number = strtod(text, &end);
    for (size_t i = 0; i < GS_COUNT(units); i++)
        if (end != text && strcmp(end, units[i].unit) == 0 && number > 0 && number * units[i].ns < 1e18) {
            *ns = (int64_t)(number * units[i].ns);
            return *ns >= 1000000;
        }
    return false;
}

static int join_reports(const char *folder) {
    gs_text text = gs_text_for_people(stdout);
    gs_error error = {.code = GS_OK};
    bool is_hang = false;
    gs_code code = gs_watch_join(folder, &text, &is_hang, &error);
    code = gs_print_text(&text, code, &error);
    return code == GS_OK ? is_hang : gs_report(&error);
}

static int run_watch(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    gs_watch_options request = {.aborts = options->aborts, .rank = options->rank, .folder = options->folder};
    gs_error error = {.code = GS_OK};
    int status = 0;
    if (!!options->now + !!options->join + !!words->count != 1)
        return gs_usage(command, "give a program to run, --now PID, or --join FOLDER");
    if (!parse_time(options->after, &request.after_ns))
        return gs_usage(command, "--after takes a time such as 500ms, 30s or 5m, not \"%.40s\"", options->after);
    if (options->join)
        return join_reports(options->join);
    if (options->now)
        return gs_watch_now(options->now, options->aborts, &error) == GS_OK ? 0 : gs_report(&error);
    gs_code code = gs_watch_program(&request, (char *const *)(uintptr_t)words->data, &status, &error);
    if (code != GS_OK)
        status = gs_report(&error) && status ? status : gs_code_exit(code);
    return status;
}

const gs_command gs_command_watch = {
    .name = "watch",
    .summary = "Run a CUDA program, and say why it hangs.",
    .usage = "[--after TIME] [--abort] [--rank N] [-o FOLDER] [--] PROGRAM [ARGUMENT...] | --now PID [--abort] | "
             "--join FOLDER",
    .details =
        "The exit status is that of the program; 1 if it was ended because it hangs. SIGQUIT (Ctrl-\\) asks for\n"
        "a report at once.\n\n"
        "  gridsmith watch -- python train.py\n"
        "  gridsmith watch --after 60s --abort -o reports -- ./app\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &defaults,
    .words = {0, SIZE_MAX, "give a program to run"},
    .takes_program = true,
    .run = run_watch,
};
