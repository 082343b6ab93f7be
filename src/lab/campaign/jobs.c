/*
 * jobs.c: input for schedulers to play the shards of a campaign: a job script for Slurm, a manifest for Kubernetes, a
 * script for GNU parallel. Each starts `gridsmith campaign play` with the number of a shard, and restarts it when it
 * fails or is preempted, except with exit code 2: then the command line is wrong.
 */
#include "campaign.h"

#include <ctype.h>
#include <string.h>

enum { MOST_STARTS = 10 }; /* of a shard */

/* A shell word in quotes. */
static void put_word(gs_text *text, const char *word) {
    gs_text_put(text, "'", 1);
    for (; *word; word++)
        if (*word == '\'')
            gs_text_put(text, "'\\''", 4);
        else
            gs_text_put(text, word, 1);
    gs_text_put(text, "'", 1);
}

static void put_play(gs_text *text, const char *program, const char *folder, const char *number) {
    put_word(text, program);
    gs_text_add(text, " campaign play ");
    put_word(text, folder);
    gs_text_add(text, " %s", number);
}

const char *gs_job_file(gs_scheduler on) {
    static const char *const names[GS_SCHEDULERS] = {
        [GS_ON_SLURM] = "slurm.sh", [GS_ON_KUBERNETES] = "kubernetes.yaml", [GS_ON_PARALLEL] = "parallel.sh"};
    return names[on];
}

/* ---- Slurm ---- */

static void put_directive(gs_text *text, const char *option, const char *value) {
    if (value)
        gs_text_add(text, "#SBATCH --%s=%s\n", option, value);
}

/* A task that fails asks Slurm to queue it again; Slurm itself does so after a preemption and a failed node. */
void gs_put_slurm_script(gs_text *text, const gs_submission *submission, const gs_job_options *options) {
    const char *name = strrchr(submission->path, '/');
    gs_text_add(text, "#!/bin/sh\n#SBATCH --job-name=\"%s\"\n", name && name[1] ? name + 1 : "gridsmith");
    gs_text_add(text, "#SBATCH --array=1-%lld", (long long)submission->shards);
    gs_text_add(text, options->jobs ? "%%%lld\n" : "\n", (long long)options->jobs);
    gs_text_add(text, "#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --output=\"%s/logs/shard%%a.log\"\n",
                submission->path);
    put_directive(text, "gres", options->gres);
    put_directive(text, "time", options->time);
    put_directive(text, "partition", options->partition);
    put_directive(text, "signal", options->time ? "B:TERM@30" : NULL);
    put_play(text, options->program, submission->path, "\"$SLURM_ARRAY_TASK_ID\" &\n");
    gs_text_add(
        text,
        "shard=$!\n"
        "# Before the time limit: the shard stops after its current run.\n"
        "trap 'kill -TERM $shard' TERM\n"
        "wait $shard\n"
        "status=$?\n"
        "while kill -0 $shard 2>/dev/null; do\n"
        "    wait $shard\n"
        "    status=$?\n"
        "done\n"
        "# Exit code 2 is a wrong command line. Any other failure is queued again and resumes, unless the user has\n"
        "# canceled it, or Slurm itself queues it again.\n"
        "if [ $status = 0 ] || [ $status = 2 ] || [ \"${SLURM_RESTART_COUNT:-0}\" -ge %d ]; then\n"
        "    exit $status\n"
        "fi\n"
        "task=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\n"
        "[ \"$(squeue --noheader --job \"$task\" --format=%%T)\" = RUNNING ] || exit $status\n"
        "exec scontrol requeue \"$task\"\n",
        MOST_STARTS - 1);
}

/* ---- Kubernetes ---- */

/* The name of an object: lower-case letters, digits and dashes, not more than 63. */
static void put_object_name(gs_text *text, const char *path) {
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    gs_text_add(text, "gridsmith-");
    for (int i = 0; i < 40 && name[i]; i++)
        gs_text_add(text, "%c", isalnum((unsigned char)name[i]) ? tolower((unsigned char)name[i]) : '-');
    gs_text_add(text, "-shards\n");
}

/* Preempted pods do not count as failed. The shard's number is the index of its pod, from 0. */
void gs_put_kubernetes_job(gs_text *text, const gs_submission *submission, const gs_job_options *options) {
    const char *name = strrchr(submission->path, '/');
    gs_text_add(text, "# kubectl apply -f kubernetes.yaml\n"
                      "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: ");
    put_object_name(text, submission->path);
    gs_text_add(text,
                "spec:\n  completionMode: Indexed\n  completions: %lld\n  parallelism: %lld\n  backoffLimit: %lld\n",
                (long long)submission->shards, (long long)(options->jobs ? options->jobs : submission->shards),
                (long long)submission->shards * (MOST_STARTS - 1));
    gs_text_add(
        text, "  podFailurePolicy:\n    rules:\n"
              "    - action: Ignore\n      onPodConditions:\n      - type: DisruptionTarget\n        status: \"True\"\n"
              "    - action: FailJob\n      onExitCodes:\n        containerName: shard\n        operator: In\n"
              "        values: [2]\n"
              "  template:\n    spec:\n      restartPolicy: Never\n      containers:\n      - name: shard\n"
              "        image: ");
    gs_text_put_json(text, options->image);
    gs_text_add(text, "\n        command:\n        - /bin/sh\n        - -c\n        - exec ");
    gs_text_add(text, "\"$0\" campaign play /campaign \"$((JOB_COMPLETION_INDEX + 1))\"\n        - ");
    gs_text_put_json(text, options->program);
    if (gs_submission_needs_gpu(submission))
        gs_text_add(text, "\n        resources:\n          limits:\n            nvidia.com/gpu: 1");
    gs_text_add(text, "\n        volumeMounts:\n        - name: campaign\n          mountPath: /campaign\n"
                      "          subPath: ");
    gs_text_put_json(text, name && name[1] ? name + 1 : submission->path);
    gs_text_add(text,
                "\n      volumes:\n      - name: campaign\n        persistentVolumeClaim:\n          claimName: ");
    gs_text_put_json(text, options->claim);
    gs_text_add(text, "\n");
}

/* ---- GNU parallel ---- */

/* parallel runs its arguments as a shell command for each number; {%} is the number of a free job slot, from 1. */
void gs_put_parallel_script(gs_text *text, const gs_submission *submission, const gs_job_options *options) {
    gs_text command = {0};
    if (gs_submission_needs_gpu(submission))
        gs_text_add(&command, "CUDA_VISIBLE_DEVICES=$(({%%} - 1)) ");
    put_play(&command, options->program, submission->path, "{} >>");
    put_word(&command, submission->path);
    gs_text_add(&command, "/logs/shard{}.log 2>&1");
    gs_text_add(text, "#!/bin/sh\nseq 1 %lld | parallel", (long long)submission->shards);
    if (options->jobs)
        gs_text_add(text, " --jobs %lld", (long long)options->jobs);
    gs_text_add(text, " --retries %d ", MOST_STARTS);
    put_word(text, command.data ? command.data : "");
    gs_text_add(text, "\n");
    text->failed = text->failed || command.failed;
    gs_text_free(&command);
}
