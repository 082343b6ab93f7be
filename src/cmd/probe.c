/*
 * probe.c: gridsmith probe: measures a GPU and writes its description, all measurements as a pack, or how long its
 * instructions take.
 *
 * The description goes to a file or to standard output. A report of the measurements goes to standard error, so that
 * users can judge their certainty. A pack is for sending measurements to others: `gridsmith adopt` makes a description
 * from it.
 */
#include "cmd.h"
#include "survey_report.h"

#include <string.h>
#include <time.h>

enum { MOST_RUNS = 20000, MOST_SECONDS = 86400, DEFAULT_TRIALS = 20 };

struct options {
    const char *device, *name, *out, *pack;
    int64_t runs, held_out, seconds, seed, trials;
    bool has_uuid, latency, dry_run;
};

static const gs_option option_table[] = {
    GS_TEXT(struct options, "device", device, "DEVICE",
            "cuda[:N] or model:GPU[,MECHANISM=VALUE]...[,skip=SM] (default with --pack: cuda)"),
    GS_FLAG(struct options, "latency", latency,
            "measure how long instructions take, alone and under load, for 'gridsmith bound --latencies'"),
    GS_INT(struct options, "trials", trials, "N", 1, MOST_RUNS,
           "with --latency: how often each time is measured; the longest counts (default 20)"),
    GS_TEXT(struct options, "pack", pack, "FILE",
            "write all measurements to FILE, for 'gridsmith adopt'; the same command resumes after a stop (default "
            "without --device: gpu.gspack)"),
    GS_FLAG(struct options, "dry-run", dry_run, "say what would be done for a pack, and end"),
    GS_FLAG(struct options, "uuid", has_uuid, "put the UUID of the GPU into the pack"),
    GS_INT(struct options, "held-out", held_out, "N", 0, MOST_RUNS,
           "number of further runs in a pack, which test the description (default 520)"),
    GS_INT(struct options, "seconds", seconds, "N", 1, MOST_SECONDS,
           "begin no more runs of a pack after N seconds (default 540)"),
    GS_TEXT(struct options, "name", name, "NAME",
            "name of the GPU in the description (default: its model, and the start of its UUID)"),
    GS_INT_RENAMED(struct options, "count", "runs", runs, "N", 1, MOST_RUNS,
                   "number of random runs to record (default 400)"),
    GS_INT(struct options, "seed", seed, "N", 0, INT64_MAX, "seed of the random numbers (default 1)"),
    GS_OUTPUT(struct options, out, "write the description to FILE (default: standard output)"),
};

static gs_code print_report(const gs_survey *survey, gs_error *error) {
    gs_text text = gs_text_for_people(stderr);
    gs_code code = gs_put_survey(&text, survey, error);
    return gs_print_text(&text, code, error);
}

/* ---- the command ---- */

static gs_code write_description(gs_output *output, const gs_gpu *gpu, gs_error *error) {
    gs_text text = {.sink = output->file};
    gs_gpu_text(gpu, &text);
    gs_text_put(&text, "\n", 1);
    return gs_output_end(output, gs_print_text(&text, GS_OK, error), error);
}

static void write_today(char date[16]) {
    time_t now = time(NULL);
    struct tm parts;
    date[0] = '\0';
    if (localtime_r(&now, &parts))
        strftime(date, 16, "%Y-%m-%d", &parts);
}

static gs_code measure_gpu(const struct options *options, gs_device *device, gs_survey *survey, gs_error *error) {
    gs_progress progress;
    char date[16];
    write_today(date);
    gs_survey_options request = {.name = options->name,
                                 .date = date[0] ? date : NULL,
                                 .runs = options->runs,
                                 .seed = (uint64_t)options->seed,
                                 .progress = gs_show_step,
                                 .user = &progress};
    gs_progress_start(&progress, "measuring");
    gs_code code = gs_survey_run(device, &request, survey, error);
    gs_progress_end(&progress);
    return code;
}

/* The file is opened first, because measuring takes minutes. */
static int probe_device(const struct options *options) {
    gs_survey survey = {0};
    gs_output output = {0};
    gs_error error = {.code = GS_OK};
    gs_device *device = gs_device_open(options->device, &error);
    gs_code code = device ? gs_output_open(&output, options->out, &error) : error.code;
    if (code == GS_OK)
        code = measure_gpu(options, device, &survey, &error);
    if (code == GS_OK)
        code = write_description(&output, survey.gpu, &error);
    if (code != GS_OK)
        gs_output_drop(&output);
    if (code == GS_OK)
        code = print_report(&survey, &error);
    gs_score total = gs_scores_total(&survey.scores);
    int status = code != GS_OK ? gs_report(&error) : total.runs_exact == total.runs ? 0 : 1;
    gs_survey_clear(&survey);
    gs_device_close(device);
    return status;
}

/* ---- latencies ---- */

static void show_row(void *user, int64_t done, int64_t total) {
    gs_progress_say(user, "%lld of %lld instructions", (long long)done, (long long)total);
}

static void put_machine(gs_text *text, const gs_machine *machine) {
    gs_text_add(
        text,
        "%s\n%lld MHz; a launch %lld ns, %lld beside others, %lld if they write, a block %lld cycles; a line of "
        "%lld bytes %lld cycles, %lld the first time, %lld at a jump; %lld bytes of code are kept; a line of constants "
        "%lld the first time\n",
        machine->found, (long long)machine->clock_mhz, (long long)machine->launch_ns,
        (long long)machine->loaded_launch_ns, (long long)machine->written_launch_ns, (long long)machine->block_cycles,
        (long long)machine->line_bytes, (long long)machine->fetch_cycles, (long long)machine->cold_fetch_cycles,
        (long long)machine->jump_cycles, (long long)machine->code_bytes, (long long)machine->cold_constant_cycles);
    gs_text_add(text, "%-18s %9s %9s %13s  %s\n", "class", "latency", "loaded", "transactions",
                "cycles of each unit for a transaction");
    for (size_t i = 0; i < machine->classes.count; i++) {
        const gs_machine_class *row = &machine->classes.data[i];
        gs_text_add(text, "%-18s %9lld %9lld %13lld ", row->name, (long long)row->latency_cycles,
                    (long long)row->loaded_cycles, (long long)row->transactions);
        for (size_t unit = 0; unit < machine->units.count; unit++)
            if (row->held_millicycles[unit])
                gs_text_add(text, " %s %.3f", machine->units.data[unit].name,
                            (double)row->held_millicycles[unit] / 1000);
        gs_text_add(text, "\n");
    }
}

static gs_code write_machine(gs_output *output, const gs_machine *machine, gs_error *error) {
    gs_text text = {.sink = output->file}, table = {.sink = stderr};
    gs_machine_text(machine, &text);
    gs_text_put(&text, "\n", 1);
    gs_code code = gs_output_end(output, gs_print_text(&text, GS_OK, error), error);
    if (code == GS_OK)
        put_machine(&table, machine);
    return gs_print_text(&table, code, error);
}

static int time_device(const struct options *options) {
    gs_machine *machine = NULL;
    gs_output output = {0};
    gs_progress progress;
    gs_error error = {.code = GS_OK};
    char date[16];
    write_today(date);
    gs_latency_options request = {.date = date[0] ? date : NULL,
                                  .trials = (int)(options->trials ? options->trials : DEFAULT_TRIALS),
                                  .progress = show_row,
                                  .user = &progress};
    gs_device *device = gs_device_open(options->device, &error);
    gs_code code = device ? gs_output_open(&output, options->out, &error) : error.code;
    if (code == GS_OK) {
        gs_progress_start(&progress, "measuring");
        code = gs_measure_machine(device, &request, &machine, &error);
        gs_progress_end(&progress);
    }
    if (code == GS_OK)
        code = write_machine(&output, machine, &error);
    else
        gs_output_drop(&output);
    gs_machine_free(machine);
    gs_device_close(device);
    return code == GS_OK ? 0 : gs_report(&error);
}

/* ---- packs ---- */

static void say_contents(const struct options *options, const gs_device *device, const gs_packed *packed) {
    const gs_gpu *gpu = packed->survey.gpu;
    fprintf(
        stderr,
        "%s: %lld runs, %lld of them held out, %lld KB\n\n"
        "It contains:\n"
        "  - the model of the GPU (%s, %d SMs) and its limits%s%s\n"
        "  - the version of gridsmith (%s), and today's date\n"
        "  - for each run: the probe kernels that were launched, and on which SM and when each of their blocks ran%s\n"
        "It contains no %sname of a machine, user, file or program. Nothing was sent anywhere.\n"
        "View it with 'gunzip -c %s | less'. CONTRIBUTING.md explains how to send it.\n",
        options->pack, (long long)packed->runs, (long long)packed->held_out, (long long)packed->bytes / 1000,
        gpu->title ? gpu->title : gpu->name, gpu->sms, device->driver[0] ? ", the version of its driver: " : "",
        device->driver, GS_VERSION,
        options->has_uuid && device->uuid[0] ? "\n  - the UUID of the GPU, because of --uuid" : "",
        options->has_uuid ? "" : "UUID, and no ", options->pack);
}

static void say_intention(const struct options *options, const gs_device *device) {
    const gs_gpu *gpu = device->gpu;
    gs_text text = gs_text_for_people(stderr);
    gs_text_add(&text, "%s, %d SMs%s\n", gpu->title ? gpu->title : gpu->name, gpu->sms,
                gpu->assumed ? "; this GPU was never measured" : "");
    gs_text_add(&text, "What will be done:\n");
    gs_text_add(
        &text,
        "  - small kernels run on this GPU, and note on which SM each of their blocks is, and when: for at most about "
        "%lld minutes, in about %lld runs\n",
        (long long)gs_divide_up(options->seconds + 60, 60), (long long)(options->runs + options->held_out));
    gs_text_add(&text,
                "  - the measurements go to %s, and until it is complete to %s.part: after Ctrl-C, the same command "
                "continues\n",
                options->pack, options->pack);
    gs_text_add(&text, "  - nothing else is written, nothing is sent, no settings of the GPU change, and root is not "
                       "needed\nOther programs on this GPU disturb the measurement: stop them first.\n\n");
    gs_error error;
    gs_print_text(&text, GS_OK, &error);
}

static gs_code make_pack(const struct options *options, gs_device *device, gs_packed *packed, gs_error *error) {
    gs_progress progress;
    char date[16];
    write_today(date);
    gs_pack_options request = {.path = options->pack,
                               .name = options->name,
                               .date = date[0] ? date : NULL,
                               .has_uuid = options->has_uuid,
                               .runs = options->runs,
                               .held_out = options->held_out,
                               .seed = (uint64_t)options->seed,
                               .seconds = options->seconds,
                               .progress = gs_show_step,
                               .user = &progress};
    gs_progress_start(&progress, "measuring");
    gs_code code = gs_pack_make(device, &request, packed, error);
    gs_progress_end(&progress);
    return code;
}

static int pack_device(const struct options *options) {
    gs_packed packed = {0};
    gs_error error = {.code = GS_OK};
    gs_code code = gs_pack_check_absent(options->pack, &error);
    gs_device *device = code == GS_OK ? gs_device_open(options->device ? options->device : "cuda", &error) : NULL;
    if (device)
        say_intention(options, device);
    if (device && options->dry_run) {
        gs_device_close(device);
        return 0;
    }
    code = device ? make_pack(options, device, &packed, &error) : error.code;
    if (code == GS_OK)
        code = print_report(&packed.survey, &error);
    if (code == GS_OK) {
        fprintf(stderr, "\n");
        say_contents(options, device, &packed);
    }
    gs_packed_clear(&packed);
    gs_device_close(device);
    return code == GS_OK ? 0 : gs_report(&error);
}

/* ---- the command line ---- */

static int check_usage(const gs_command *command, const struct options *options) {
    if (options->name && !gs_is_gpu_name(options->name))
        return gs_usage(command, "--name takes letters, digits, '-' and '_', not \"%.60s\"", options->name);
    if (options->device && strncmp(options->device, "replay", 6) == 0)
        return gs_usage(command, "recordings cannot be measured, because probe chooses its runs: use 'gridsmith fit' "
                                 "for recordings");
    if (options->pack && options->out)
        return gs_usage(command, "--pack writes no description: 'gridsmith adopt' makes one, so leave out --output");
    if (options->pack && (!options->pack[0] || strcmp(options->pack, "-") == 0))
        return gs_usage(command, "--pack takes the name of a file");
    if (options->latency && (options->pack || options->name))
        return gs_usage(command, "--latency writes latencies, not a description: leave out --%s",
                        options->pack ? "pack" : "name");
    if (!options->latency && options->trials)
        return gs_usage(command, "--trials goes with --latency");
    if (!options->pack && options->has_uuid)
        return gs_usage(command, "--uuid needs --pack; a description always has the UUID");
    if (!options->pack && options->dry_run)
        return gs_usage(command, "--dry-run needs --pack");
    return 0;
}

static int run_probe(const gs_command *command, void *given, const gs_words *words) {
    struct options *options = given;
    (void)words;
    if (!options->device && !options->pack)
        options->pack = options->out || options->latency ? NULL : "gpu.gspack";
    if (!options->device && !options->pack)
        return gs_usage(command, "--device DEVICE is needed for a description");
    int status = check_usage(command, options);
    if (status)
        return status;
    return options->latency ? time_device(options) : options->pack ? pack_device(options) : probe_device(options);
}

const gs_command gs_command_probe = {
    .name = "probe",
    .summary = "Measure a GPU and write its description: tie order, GPCs, mechanisms.",
    .no_shard = "a description belongs to one GPU, and each step depends on the results of earlier steps: there are no "
                "shards",
    .usage = "[--pack FILE] [options] | [--latency] --device DEVICE [options]",
    .details =
        "Without options, the GPU of this machine is measured, for at most ten minutes, into gpu.gspack, from "
        "which\nothers can make a description (CONTRIBUTING.md). It says first what it will do.\n\nThe description is "
        "valid for this one GPU: others of its model may lack other SMs.\nExit code 0: the description agrees with "
        "every recorded run; 1: not with all, but it is written; 3: no GPU.\n\n  gridsmith probe\n  gridsmith probe "
        "--device cuda -o mine.json\n  gridsmith fuzz --device cuda --gpu ./mine.json\n  gridsmith probe --pack "
        "gpu.gspack --dry-run\n  gridsmith probe --latency --device cuda -o latencies.json\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &(const struct options){.runs = 400, .held_out = 520, .seconds = 540, .seed = 1},
    .run = run_probe,
};
