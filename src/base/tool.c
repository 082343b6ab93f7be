/*
 * tool.c: runs a compiler in a folder of its own, for a limited time.
 *
 * A compiler starts further programs, and each leaves temporary files if it is killed. So the tool leads a process
 * group, which is killed as a whole, and TMPDIR is the folder, which is removed as a whole.
 */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <sys/wait.h>

static int start_tool(const gs_tool *tool, pid_t *process) {
    gs_text log = {0}, temporary = {0};
    gs_text_add(&log, "%s/log", tool->folder);
    gs_text_add(&temporary, "TMPDIR=%s", tool->folder);
    const char *const changes[] = {temporary.data, NULL};
    const gs_process_options options = {.words = tool->words,
                                        .changes = changes,
                                        .input = "/dev/null",
                                        .output = log.data,
                                        .has_own_group = !tool->stays_in_group};
    int failed = log.failed || temporary.failed ? ENOMEM : gs_process_try(&options, process);
    gs_text_free(&log);
    gs_text_free(&temporary);
    return failed;
}

gs_tool_end gs_tool_run(gs_tool *tool) {
    pid_t process = 0;
    int status = 0, failed = start_tool(tool, &process);
    if (failed)
        return failed == ENOENT || failed == EACCES ? GS_TOOL_NOT_FOUND : GS_TOOL_FAILED;
    if (!gs_process_wait_until(process, gs_now_ns() + (int64_t)tool->seconds * 1000000000, &status)) {
        gs_process_kill(process, !tool->stays_in_group);
        return GS_TOOL_LATE;
    }
    if (status == -1)
        return GS_TOOL_FAILED;
    tool->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return status == 0                                       ? GS_TOOL_DONE
           : WIFEXITED(status) && WEXITSTATUS(status) == 127 ? GS_TOOL_NOT_FOUND
                                                             : GS_TOOL_FAILED;
}
