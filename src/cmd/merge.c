/*
 * merge.c: gridsmith merge: merges the shards of a campaign into one file.
 */
#include "cmd.h"
#include "lab/campaign/campaign.h"

struct options {
    const char *output;
};

static const gs_option option_table[] = {
    GS_OPTION_ROW(struct options, "output", output, TEXT, const char *, "FILE", "write the campaign to FILE",
                  .letter = 'o', .required = true),
};

int gs_merge_paths(const gs_command *command, const char *const *paths, size_t count, const char *output) {
    gs_error error = {.code = GS_OK};
    gs_merged merged;
    int status = 0;
    if (gs_merge(paths, count, output, &merged, &error) != GS_OK) {
        status = gs_report(&error);
    } else if (merged.complaints.count) {
        fputs(merged.complaints.data, stdout);
        status = 1;
    } else {
        fprintf(stderr, "gridsmith %s: %lld run%s of %lld shard%s in %s\n", command->name, (long long)merged.runs,
                merged.runs == 1 ? "" : "s", (long long)merged.shards, merged.shards == 1 ? "" : "s", output);
    }
    gs_text_free(&merged.complaints);
    return status;
}

static int run_merge(const gs_command *command, void *given, const gs_words *paths) {
    const struct options *options = given;
    return gs_merge_paths(command, paths->data, paths->count, options->output);
}

const gs_command gs_command_merge = {
    .name = "merge",
    .summary = "Merge the shards of a campaign into the file that one process would have written.",
    .usage = "-o FILE DIR|FILE...",
    .details = "Exit code 1: shards are missing, incomplete, duplicate or of another campaign; each is named, and\n"
               "nothing is written.\n\n"
               "  for i in 1 2 3 4; do gridsmith fuzz --device cuda:$((i - 1)) --shard $i/4 -o shards & done; wait\n"
               "  gridsmith merge -o campaign.jsonl shards\n",
    GS_OPTION_TABLE(struct options, option_table),
    .words = {1, SIZE_MAX, "give the folder of the shards, or their files"},
    .run = run_merge,
};
