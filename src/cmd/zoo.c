/*
 * zoo.c: gridsmith zoo: its options, its verbs, and the list of the kernels of kernels/.
 *
 * A verb selects the action; `verbs` at the end is the table of them. 'run' and 'bench' are in
 * zoo_run.c, 'load' and 'launch' in zoo_load.c.
 */
#include "kernels/zoo/zoo.h"
#include "zoo_verbs.h"

static const gs_option option_table[] = {
    GS_TEXT(gs_zoo_options, "as", form, "FORM",
            "run: persistent, confined, elastic or registers (default: as written)"),
    GS_TEXT_RENAMED(gs_zoo_options, "device", "on", on, "host|cuda|serve",
                    "where to run: the CPU, a GPU or a daemon (default host; load and launch: cuda)"),
    GS_TEXT(gs_zoo_options, "size", size, "NAME",
            "tiny, odd, small or large; load also has 'load' (default: depends on the verb and the device)"),
    GS_INT(gs_zoo_options, "factor", factor, "N", 2, 4,
           "elastic: 2 for half of the threads, 4 for a quarter (default: both)"),
    GS_INT(gs_zoo_options, "registers", registers, "N", 16, 255,
           "registers: the most registers that a thread may use (default 32)"),
    GS_INT(gs_zoo_options, "workers", workers, "N", 1, INT32_MAX,
           "worker blocks of a persistent or confined kernel (default: as many as fit)"),
    GS_INT(gs_zoo_options, "task", task, "N", 1, GS_JOB_TASK,
           "the most blocks that a worker block takes at a time (default 10)"),
    GS_INT(gs_zoo_options, "stops", stops, "N", 0, 1000000,
           "confined: stop each launch N times, at random moments; it continues on other SMs"),
    GS_INT(gs_zoo_options, "seed", seed, "N", 0, INT64_MAX, "seed of the random moments (default 0)"),
    GS_INT(gs_zoo_options, "seconds", seconds, "N", 1, 100000,
           "a kernel that runs longer has failed; load and launch: time for all of it (default 60)"),
    GS_INT(gs_zoo_options, "repeat", repeat, "N", 1, 1 << 24,
           "bench: how often each form is timed (default 25); load: repetitions per round; launch: launches (default "
           "10000)"),
    GS_INT(gs_zoo_options, "ms", ms, "N", 1, 1000000,
           "load: without --repeat, as many repetitions as take N milliseconds (default 500)"),
    GS_INT(gs_zoo_options, "rounds", rounds, "N", 1, 1000000, "load: number of rounds (default 1)"),
    GS_FLAG(gs_zoo_options, "wait", wait,
            "load: start each round when a line arrives on standard input; it may name applications: NUMBER[:REPEAT]"),
    GS_FLAG(gs_zoo_options, "unlimited", unlimited, "bench: do not limit registers to keep the original's occupancy"),
    GS_SHARD_OPTIONS(gs_zoo_options, keep, "bench: keep the measurements in FILE as a campaign"),
    GS_TEXT(gs_zoo_options, "measured", measured, "FILE",
            "bench: run nothing, show the measurements kept in FILE by -o"),
    GS_TEXT(gs_zoo_options, "gpu", gpu, "NAME|FILE",
            "the GPU for occupancy and, if kernels run on the CPU, for registers (default h200)"),
    GS_FLAG(gs_zoo_options, "json", json, "write gridsmith.zoo/1, zoo-bench/1, zoo-list/1, zoo-load/1 or zoo-launch/1"),
};

/* ---- list ---- */

static int numbers_of(const gs_zoo_size *size) {
    int count = GS_ZOO_NUMBERS;
    while (count > 1 && size->n[count - 1] == 0)
        count--;
    return count;
}

/* The sizes in order; the one for loads, if any, is the last. NULL: no more. */
static const gs_zoo_size *size_at(const gs_zoo_kernel *kernel, size_t number) {
    if (number < GS_ZOO_SIZES)
        return &kernel->sizes[number];
    return number == GS_ZOO_SIZES && kernel->load.name ? &kernel->load : NULL;
}

static int list_json(void) {
    gs_text text = {.sink = stdout};
    gs_writer writer = gs_writer_to(&text);
    gs_error error;
    gs_write_document(&writer, "gridsmith.zoo-list/1");
    gs_write_array(&writer, "kernels");
    for (size_t i = 0; gs_zoo_at(i); i++) {
        const gs_zoo_kernel *kernel = gs_zoo_at(i);
        gs_write_object(&writer, NULL);
        gs_write_string(&writer, "kernel", kernel->name);
        gs_write_string(&writer, "summary", kernel->summary);
        gs_write_string(&writer, "numbers", kernel->numbers);
        gs_write_object(&writer, "sizes");
        for (size_t k = 0; size_at(kernel, k); k++) {
            gs_write_array(&writer, size_at(kernel, k)->name);
            for (int n = 0; n < numbers_of(size_at(kernel, k)); n++)
                gs_write_int(&writer, NULL, size_at(kernel, k)->n[n]);
            gs_write_end(&writer);
        }
        gs_write_end(&writer);
        gs_write_end(&writer);
    }
    gs_write_finish(&writer);
    return gs_print_text(&text, GS_OK, &error) == GS_OK ? 0 : gs_report(&error);
}

static int list_words(void) {
    gs_text text = gs_text_for_people(stdout);
    gs_error error;
    for (size_t i = 0; gs_zoo_at(i); i++) {
        const gs_zoo_kernel *kernel = gs_zoo_at(i);
        gs_text_add(&text, "%-14s %s\n               %s:", kernel->name, kernel->summary, kernel->numbers);
        for (size_t k = 0; size_at(kernel, k); k++) {
            const gs_zoo_size *size = size_at(kernel, k);
            gs_text_add(&text, "%s %s ", k ? "," : "", size->name);
            for (int n = 0; n < numbers_of(size); n++)
                gs_text_add(&text, n ? "x%d" : "%d", size->n[n]);
        }
        gs_text_add(&text, "\n");
    }
    return gs_print_text(&text, GS_OK, &error) == GS_OK ? 0 : gs_report(&error);
}

static int list_verb(const gs_command *command, void *given, const gs_words *words) {
    const gs_zoo_options *options = given;
    (void)command;
    (void)words;
    return options->json ? list_json() : list_words();
}

/* ---- the command ---- */

static const gs_verb verbs[] = {
    {.name = "list", .usage = "[--json]", .options = "json", .run = list_verb},
    {.name = "run",
     .usage = "NAME... [options]",
     .options = "as device size factor registers workers task stops seed seconds gpu json",
     .words = {1, SIZE_MAX, "give the names of kernels, or 'all'"},
     .run = gs_zoo_run_verb},
    {.name = "bench",
     .usage = "[NAME...] [options]",
     .options = "device size workers task stops seed seconds repeat unlimited shard output resume measured gpu json",
     .words = {0, SIZE_MAX, NULL},
     .run = gs_zoo_bench_verb},
    {.name = "load",
     .usage = "NAME[/cublas][:REPEAT]|FILE[/cublas]... [options]",
     .options = "device size seconds repeat ms rounds wait json",
     .words = {1, GS_ZOO_APPLICATIONS, "give 1 to 32 names of kernels or networks, or files of tasks"},
     .run = gs_zoo_load_verb},
    {.name = "launch", .usage = "[options]", .options = "device seconds repeat json", .run = gs_zoo_launch_verb},
};

const gs_command gs_command_zoo = {
    .name = "zoo",
    .summary = "List, run, check and measure example kernels (the zoo) in all their forms.",
    .details =
        "run     runs kernels at several sizes, as they are or reshaped, and compares the results with a plain-C "
        "reference (large sizes: with the original)\n"
        "bench   times the original, the persistent and the confined form, alternately\n"
        "load    launches kernels, networks and the tasks of files (gridsmith.task/1) repeatedly, as applications do, "
        "and "
        "prints the duration of each round; each has a thread, and with --device cuda:0,sms=M a part of the GPU\n"
        "launch  prints the cost of launching an empty kernel\n\n"
        "For run and bench the name 'all' stands for all kernels. Exit code 1: some result is wrong.\n\n"
        "  gridsmith zoo run sgemm --as confined --stops 3\n"
        "  gridsmith zoo bench --device cuda\n"
        "  gridsmith zoo load sgemm transpose --device cuda:0,sms=64 --rounds 5\n",
    GS_OPTION_TABLE(gs_zoo_options, option_table),
    .defaults = &(const gs_zoo_options){.seconds = 60, .ms = 500, .rounds = 1, .registers = 32},
    .verbs = verbs,
    .verb_count = GS_COUNT(verbs),
};
