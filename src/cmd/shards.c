/*
 * shards.c: the options --shard, --output and --resume, common to all commands that play a list of runs, and
 * their file. src/lab/fuzz/shard.c explains shards and the first line of their files.
 */
#include "cmd.h"
#include "lab/fuzz/fuzz.h"

#include <string.h>
#include <unistd.h>

int gs_check_shard(const gs_command *command, const gs_shard_choice *choice, gs_shard *shard) {
    *shard = (gs_shard){1, 1};
    if (choice->resume && !choice->out)
        return gs_usage(command, "--resume needs the file to continue: --output FILE");
    if (choice->shard && !choice->out)
        return gs_usage(command, "--shard needs the folder for its file: --output DIR");
    if (choice->out && strcmp(choice->out, "-") == 0)
        return gs_usage(command, "--output takes the name of a file: standard output has the report");
    size_t length = choice->out ? strlen(choice->out) : 0;
    if (length > 3 && strcmp(choice->out + length - 3, ".gz") == 0)
        return gs_usage(command, "runs are appended to %.200s as they are played, uncompressed: leave out .gz",
                        choice->out);
    if (choice->shard && !gs_shard_parse(choice->shard, shard))
        return gs_usage(command, "--shard takes I/N, such as 3/64, not \"%.40s\"", choice->shard);
    return 0;
}

gs_journal *gs_open_shard(const gs_shard_choice *choice, const gs_campaign_about *about, const char *what,
                          const gs_text *line, gs_text *path, gs_error *error) {
    char name[120];
    gs_text own = {0};
    gs_journal *journal = NULL;
    path = path ? path : &own;
    gs_shard_name(&about->shard, what, name, sizeof name);
    gs_text_add(path, "%s%s%s", choice->out, choice->shard ? "/" : "", choice->shard ? name : "");
    gs_journal_options options = {.path = path->data,
                                  .command = about->command,
                                  .line = line->data,
                                  .first = gs_shard_begin(&about->shard, about->count),
                                  .most = gs_shard_count(&about->shard, about->count),
                                  .resume = choice->resume};
    if (line->failed || path->failed)
        gs_fail_memory(error);
    else if (choice->shard && access(choice->out, F_OK) != 0)
        gs_fail(error, GS_E_USAGE, "%.200s: no such folder; with --shard, --output names the folder of the shards",
                choice->out);
    else
        journal = gs_journal_open(&options, error);
    gs_text_free(&own);
    return journal;
}

void gs_say_shard(const gs_command *command, const gs_campaign_about *about, int64_t there) {
    int64_t runs = gs_shard_count(&about->shard, about->count);
    fprintf(stderr, "gridsmith %s: %lld run%s", command->name, (long long)runs, runs == 1 ? "" : "s");
    if (there)
        fprintf(stderr, ", %lld of them already in the file", (long long)there);
    fprintf(stderr, "\n");
}
