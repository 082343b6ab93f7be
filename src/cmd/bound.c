/*
 * bound.c: gridsmith bound: upper bounds of the finishing time of work on the GPU.
 *
 * One command with several modes, each a row in `modes`: the warps of one SM, the formula on a grid, random programs,
 * anomalies, a whole run, a request beside other work (bound_beside.c), a compiled kernel (bound_kernel.c), a real GPU,
 * and the measurements of one.
 */
#include "bound_beside.h"
#include "bound_kernel.h"

#include "lab/calibrate/calibrate.h"
#include "model/view/view.h"

#include <stdlib.h>
#include <string.h>

struct options {
    gs_gpu_choice gpu;
    gs_shard_choice keep;
    int64_t warps, repeat, issue, memory_mb, count, seed;
    gs_task task;
    bool json, csv, svg, html, fair, no_search, grid, random, anomalies, instructions, input, cached, writers;
    const char *run, *measure, *measured, *launch, *kernel, *latencies, *beside, *range;
    int64_t ahead_us, every_us;
    bool no_guard;
    gs_words programs; /* "KERNEL=FILE" */
    gs_words unstopped;
    gs_words loops; /* "LINE=ROUNDS" */
};

#define MOST ((int64_t)1000000000000)

static const gs_option option_table[] = {
    GS_INT(struct options, "warps", warps, "N", 1, MOST,
           "warps on the SM (default: those of the program file; the paper's program has none)"),
    GS_INT(struct options, "repeat", repeat, "N", 1, MOST,
           "the paper's program: how often the sub-block is repeated (default 1)"),
    GS_INT(struct options, "issue", issue, "N", 1, 1000000,
           "warps that may be selected in a cycle (default: those of the SM)"),
    GS_FLAG(struct options, "fair", fair, "show the worst schedule in which earlier sub-blocks go first"),
    GS_FLAG(struct options, "no-search", no_search, "no exact worst case: closed forms only"),
    GS_INT(struct options, "memory", memory_mb, "MB", 1, 1 << 20,
           "the most memory that the search may use (default 2000)"),
    GS_FLAG(struct options, "grid", grid, "the formula and the exact worst case up to --warps (12) and --repeat (8)"),
    GS_FLAG(struct options, "random", random, "compare proven bounds and exact worst cases of --count random programs"),
    GS_FLAG(struct options, "anomalies", anomalies,
            "find changes that should help but do not, in --count random programs"),
    GS_TEXT(struct options, "run", run, "FILE",
            "the bound of a run (gridsmith.run/1), from the placement of its blocks"),
    GS_LIST(struct options, "program", programs, "KERNEL=FILE", "with --run: the program of a kernel; may be repeated"),
    GS_TEXT(struct options, "beside", beside, "FILE",
            "with --run, both recordings: bound a request of the first beside the work of this one"),
    GS_TEXT(struct options, "range", range, "NAME",
            "with --beside: a request is an NVTX range with this name (default: a step that repeats)"),
    GS_INT(struct options, "ahead", ahead_us, "US", 1, 1000000,
           "with --beside: best-effort work between two waits (default 50)"),
    GS_INT(struct options, "every", every_us, "US", 1, MOST,
           "with --beside: the least time from one request to the next (default: that of the recording)"),
    GS_FLAG(struct options, "no-guard", no_guard, "with --beside: long kernels do not stop between their blocks"),
    GS_LIST(struct options, "unstopped", unstopped, "PATTERN",
            "with --beside: kernels that do not stop, such as those that 'gridsmith status' names; may be repeated"),
    GS_TEXT(struct options, "launch", launch, "FILE",
            "the bound of a compiled kernel: its grid, block and arguments (gridsmith.launch/1)"),
    GS_TEXT(struct options, "kernel", kernel, "NAME", "with --launch: the kernel, where the file has several"),
    GS_LIST(struct options, "loop", loops, "LINE=ROUNDS",
            "with --launch: the most rounds of the body of the loop in a line, or at 0xOFFSET; its test counts once "
            "more; may be repeated"),
    GS_TEXT(struct options, "latencies", latencies, "FILE",
            "with --launch or --beside: how long instructions take (gridsmith.machine/1; default: those of the GPU)"),
    GS_FLAG(struct options, "input", input,
            "with --launch: take the rounds of loops, and the code that is reached, from a run with the input of the "
            "launch on the CPU; needs PTX"),
    GS_FLAG(struct options, "writers", writers,
            "with --launch: assume that programs beside it write memory (default: they read it)"),
    GS_FLAG(struct options, "cached", cached,
            "with --launch: assume that the kernel accesses only the buffers of the launch, and that the L2 has them "
            "when it starts; ignored if they exceed what the L2 keeps"),
    GS_FLAG(struct options, "instructions", instructions,
            "with --launch: only count the instructions of a warp; needs no latencies"),
    GS_INT(struct options, "clock-mhz", task.clock_mhz, "N", 1, 1000000,
           "with --run: the GPU's lowest clock, for the response time"),
    GS_INT(struct options, "before-ns", task.before_ns, "N", 0, MOST,
           "with --clock-mhz: the CPU's work before (phase 1)"),
    GS_INT(struct options, "copy-in-ns", task.copy_in_ns, "N", 0, MOST,
           "with --clock-mhz: copying to the GPU (phase 1)"),
    GS_INT(struct options, "copy-out-ns", task.copy_out_ns, "N", 0, MOST, "with --clock-mhz: copying back (phase 3)"),
    GS_INT(struct options, "after-ns", task.after_ns, "N", 0, MOST, "with --clock-mhz: the CPU's work after (phase 3)"),
    GS_TEXT(struct options, "measure", measure, "DEVICE",
            "measure a GPU, cuda[:N]: its latencies, and --count random configurations"),
    GS_TEXT(struct options, "measured", measured, "FILE",
            "show the output of --measure, as a table or with --svg as a picture"),
    GS_SHARD_OPTIONS(struct options, keep, "write to FILE instead of standard output; with --measure as a campaign"),
    GS_INT(struct options, "count", count, "N", 1, 100000000,
           "how many random programs (100000), or configurations (1000)"),
    GS_INT(struct options, "seed", seed, "N", 0, INT64_MAX, "seed of the random numbers (default 1)"),
    GS_GPU_OPTIONS(struct options, gpu),
    GS_FLAG(struct options, "json", json, "write JSON"),
    GS_FLAG(struct options, "csv", csv, "with --launch: write the lines of the kernel as CSV"),
    GS_FLAG(struct options, "svg", svg, "draw the worst schedule, or the measurements"),
    GS_FLAG(struct options, "html", html, "the same as a page, with the bounds"),
};

/* A question, and its answer. */
struct bound {
    const gs_command *command;
    const struct options *options;
    gs_shard shard;   /* with --measure */
    const char *file; /* a program, or NULL */
    int64_t count;    /* of random programs or configurations */
    bool is_no;       /* a bound was broken */
};

/* Whether measurements are appended to a file as they are made. */
static bool measures_campaign(const struct options *options) {
    return options->measure && (options->keep.out || options->keep.shard || options->keep.resume);
}

/* The columns of the terminal that the answer is for; 0: it goes to a file or a program. */
static int columns_of(const struct options *options) {
    return options->keep.out ? 0 : gs_columns(stdout);
}

/* ---- the warps of one SM ---- */

static gs_program *open_program(struct bound *bound, int64_t repeat, gs_error *error) {
    gs_program *program = bound->file ? gs_program_open(bound->file, error) : gs_program_paper(repeat, error);
    if (program && bound->options->issue)
        program->issue = bound->options->issue;
    return program;
}

static void show_search(void *user, int64_t states, int64_t bytes) {
    gs_progress_say(user, "%.1f million states, %lld MB", (double)states / 1e6, (long long)(bytes >> 20));
}

/* Both worst cases. The schedule to show, with or without --fair, is kept in `worst`. */
static gs_code find_worst(struct bound *bound, const gs_flat *flat, int64_t warps, gs_bound *found, gs_worst *worst,
                          gs_error *error) {
    gs_progress progress;
    gs_code code = GS_OK;
    gs_progress_start(&progress, "searching");
    for (int fair = 0; fair < 2 && code == GS_OK; fair++) {
        gs_search_options search = {
            .fair = fair, .memory_bytes = bound->options->memory_mb << 20, .progress = show_search, .user = &progress};
        gs_worst other;
        code = gs_search(flat, warps, &search, &other, error);
        if (code == GS_OK && other.exact)
            *(fair ? &found->exact_fair_cycles : &found->exact_cycles) = other.cycles;
        if (code == GS_OK && fair == bound->options->fair)
            *worst = other;
        else
            gs_worst_clear(&other);
    }
    gs_progress_end(&progress);
    return code;
}

static void put_stopped(gs_text *text, const gs_worst *worst) {
    if (worst->stopped[0])
        gs_text_add(text, "%s\n", worst->stopped);
    if (worst->stopped[0] && worst->cycles)
        gs_text_add(text, "found a schedule of %lld cycles\n", (long long)worst->cycles);
}

static void put_words(struct bound *bound, int64_t warps, const gs_bound *found, const gs_worst *worst, gs_text *text) {
    if (bound->file)
        gs_text_add(text, "%s, %lld warp%s: cycles until all have ended\n", bound->file, (long long)warps,
                    warps == 1 ? "" : "s");
    else
        gs_text_add(text, "C (L L C)x%lld S, %lld warp%s: cycles until all have ended\n",
                    (long long)(bound->options->repeat ? bound->options->repeat : 1), (long long)warps,
                    warps == 1 ? "" : "s");
    gs_put_bound(text, found);
    put_stopped(text, worst);
}

static gs_code put_page(struct bound *bound, int64_t warps, const gs_bound *found, const gs_worst *worst,
                        const gs_flat *flat, gs_text *text, gs_error *error) {
    gs_text report = {0};
    put_words(bound, warps, found, worst, &report);
    gs_code code =
        report.failed ? gs_fail_memory(error) : gs_put_schedule_html(text, &worst->schedule, flat, &report, error);
    gs_text_free(&report);
    return code;
}

static void put_answer(struct bound *bound, int64_t warps, const gs_bound *found, const gs_worst *worst,
                       const gs_flat *flat, gs_text *text) {
    enum { WIDEST = 60, MOST_ROWS = 32 };
    if (bound->options->json) {
        gs_put_bound_json(text, found);
        if (worst->stopped[0])
            fprintf(stderr, "gridsmith bound: %s\n", worst->stopped);
        return;
    }
    if (bound->options->svg) {
        gs_put_schedule_svg(text, &worst->schedule, flat);
        return;
    }
    put_words(bound, warps, found, worst, text);
    if (!worst->schedule.issued || worst->schedule.cycles > WIDEST || warps > MOST_ROWS)
        return;
    gs_text_add(text, "%s%s:\n", worst->exact ? "a worst schedule" : "a long schedule",
                bound->options->fair ? " in which earlier sub-blocks go first" : "");
    gs_schedule_text(&worst->schedule, flat, columns_of(bound->options), text);
}

static gs_code answer_warps(struct bound *bound, gs_text *text, gs_error *error) {
    gs_program *program = open_program(bound, bound->options->repeat ? bound->options->repeat : 1, error);
    if (!program)
        return error->code;
    int64_t warps = bound->options->warps ? bound->options->warps : program->warps;
    gs_bound found;
    gs_flat flat = {0};
    gs_worst worst = {0};
    gs_code code = warps ? gs_bound_of(program, warps, NULL, &found, error)
                         : gs_fail(error, GS_E_USAGE, "%s has no number of warps: use --warps N",
                                   bound->file ? bound->file : "the command line");
    if (code == GS_OK && !bound->options->no_search) {
        code = gs_flat_make(&flat, program, error);
        if (code == GS_E_UNSUPPORTED) {
            snprintf(worst.stopped, sizeof worst.stopped, "no search: %.140s", error->message);
            code = GS_OK;
        } else if (code == GS_OK) {
            code = find_worst(bound, &flat, warps, &found, &worst, error);
        }
    }
    if (code == GS_OK && (bound->options->svg || bound->options->html) && !worst.schedule.issued)
        code = gs_fail(error, GS_E_UNSUPPORTED, "no schedule to draw: %s",
                       worst.stopped[0] ? worst.stopped : "it was not searched for");
    if (code == GS_OK && bound->options->html)
        code = put_page(bound, warps, &found, &worst, &flat, text, error);
    else if (code == GS_OK)
        put_answer(bound, warps, &found, &worst, &flat, text);
    gs_worst_clear(&worst);
    gs_flat_clear(&flat);
    gs_program_free(program);
    return code;
}

/* ---- the grid ---- */

static gs_code fill_cell(struct bound *bound, int64_t warps, int64_t repeat, gs_bound *cell, gs_error *error) {
    gs_program *program = open_program(bound, repeat, error);
    gs_bound_options search = {.search = true, .memory_bytes = bound->options->memory_mb << 20};
    gs_code code = program ? gs_bound_of(program, warps, &search, cell, error) : error->code;
    gs_program_free(program);
    return code;
}

/* The smallest case, with several warps if possible, in which the formula is too small; -1: none. */
static int64_t find_example(const gs_bound *cells, int64_t warps, int64_t repeat, bool fair) {
    int64_t example = -1;
    for (int64_t i = warps * repeat - 1; i >= 0; i--) {
        int64_t exact = fair ? cells[i].exact_fair_cycles : cells[i].exact_cycles;
        bool is_single = i < repeat;
        if (exact > cells[i].formula_cycles && (!is_single || example < repeat))
            example = i;
    }
    return example;
}

/* A schedule that takes longer than the formula says. */
static gs_code put_example(struct bound *bound, const gs_bound *cells, int64_t warps, int64_t repeat, bool fair,
                           gs_text *text, gs_error *error) {
    int64_t example = find_example(cells, warps, repeat, fair);
    if (example < 0)
        return GS_OK;
    gs_flat flat = {0};
    gs_worst worst = {0};
    gs_search_options search = {.fair = fair, .memory_bytes = bound->options->memory_mb << 20};
    gs_program *program = open_program(bound, example % repeat + 1, error);
    gs_code code = program ? gs_flat_make(&flat, program, error) : error->code;
    if (code == GS_OK)
        code = gs_search(&flat, example / repeat + 1, &search, &worst, error);
    if (code == GS_OK) {
        gs_text_add(text, "for %lld warp%s and %lld repetition%s the formula says %lld; this takes %lld:\n",
                    (long long)(example / repeat + 1), example / repeat ? "s" : "", (long long)(example % repeat + 1),
                    example % repeat ? "s" : "", (long long)cells[example].formula_cycles, (long long)worst.cycles);
        gs_schedule_text(&worst.schedule, &flat, columns_of(bound->options), text);
    }
    gs_worst_clear(&worst);
    gs_flat_clear(&flat);
    gs_program_free(program);
    return code;
}

static gs_code answer_grid(struct bound *bound, gs_text *text, gs_error *error) {
    enum { MOST_CELLS = 4096 };
    int64_t warps = bound->options->warps ? bound->options->warps : 12,
            repeat = bound->options->repeat ? bound->options->repeat : 8;
    if (warps > GS_SEARCH_WARPS || repeat > MOST_CELLS || warps * repeat > MOST_CELLS)
        return gs_fail(error, GS_E_USAGE, "a grid may have at most %d warps and %d cells", GS_SEARCH_WARPS, MOST_CELLS);
    gs_bound *cells = calloc((size_t)(warps * repeat), sizeof *cells);
    gs_code code = cells ? GS_OK : gs_fail_memory(error);
    gs_progress progress;
    gs_progress_start(&progress, "searching");
    for (int64_t i = 0; i < warps * repeat && code == GS_OK; i++) {
        code = fill_cell(bound, i / repeat + 1, i % repeat + 1, &cells[i], error);
        gs_progress_say(&progress, "%lld of %lld", (long long)i, (long long)(warps * repeat));
    }
    gs_progress_end(&progress);
    if (code == GS_OK && bound->options->json) {
        gs_put_grid_json(text, cells, warps, repeat);
    } else if (code == GS_OK) {
        gs_text_add(text, "the paper's formula minus the exact worst case, in cycles: below 0 it is too small\n");
        for (int fair = 1; fair >= 0 && code == GS_OK; fair--) {
            gs_put_grid(text, cells, warps, repeat, fair);
            code = put_example(bound, cells, warps, repeat, fair, text, error);
        }
    }
    free(cells);
    return code;
}

/* ---- random programs ---- */

static gs_code answer_random(struct bound *bound, gs_text *text, gs_error *error) {
    enum { STEP = 500 };
    gs_compared compared = {0};
    gs_code code = GS_OK;
    gs_progress progress;
    gs_progress_start(&progress, "comparing");
    for (int64_t from = 0; from < bound->count && code == GS_OK; from += STEP) {
        code = gs_compare((uint64_t)bound->options->seed, from, gs_min(STEP, bound->count - from), &compared, error);
        gs_progress_say(&progress, "%lld of %lld programs", (long long)from, (long long)bound->count);
    }
    gs_progress_end(&progress);
    if (code == GS_OK)
        gs_put_compared(text, &compared);
    bound->is_no = compared.below > 0;
    if (code == GS_OK && compared.below)
        gs_text_add(text, "the bound is wrong for program %lld of seed %lld\n", (long long)compared.first_below,
                    (long long)bound->options->seed);
    return code;
}

struct found {
    int64_t count;
    gs_anomaly first;
};

static void put_anomaly(gs_text *text, const gs_anomaly *anomaly) {
    gs_text_add(text, "\n%s: %lld cycles become %lld\n", gs_relief_words(anomaly->relief),
                (long long)anomaly->cycles_before, (long long)anomaly->cycles_after);
    gs_program_text(anomaly->before, text);
    gs_text_add(text, "\n");
    gs_program_text(anomaly->after, text);
    gs_text_add(text, "\n");
}

static void look_for_anomalies(struct bound *bound, bool one_order, struct found *found) {
    gs_progress progress;
    gs_progress_start(&progress, "looking");
    for (int64_t i = 0; i < bound->count; i++) {
        int64_t warps;
        gs_anomaly anomaly;
        gs_program *program = gs_random_program((uint64_t)bound->options->seed, (uint64_t)i, &warps, NULL);
        if (program && gs_find_anomaly(program, warps, one_order, &anomaly)) {
            struct found *of = &found[anomaly.relief];
            if (!of->count++)
                of->first = anomaly;
            else
                gs_anomaly_clear(&anomaly);
        }
        gs_program_free(program);
        gs_progress_say(&progress, "%lld of %lld programs", (long long)i, (long long)bound->count);
    }
    gs_progress_end(&progress);
}

static gs_code answer_anomalies(struct bound *bound, gs_text *text, gs_error *error) {
    (void)error;
    struct found found[2][GS_RELIEFS] = {0};
    for (int one_order = 0; one_order < 2; one_order++)
        look_for_anomalies(bound, one_order, found[one_order]);
    gs_text_add(text, "of %lld programs, those ending later with   in the worst case    warp by warp\n",
                (long long)bound->count);
    for (gs_relief relief = 0; relief < GS_RELIEFS; relief++)
        gs_text_add(text, "%-44s %16lld %15lld\n", gs_relief_words(relief), (long long)found[0][relief].count,
                    (long long)found[1][relief].count);
    for (size_t i = 0; i < 2 * GS_RELIEFS; i++) {
        struct found *of = &found[i / GS_RELIEFS][i % GS_RELIEFS];
        if (of->count && i < GS_RELIEFS)
            put_anomaly(text, &of->first);
        if (of->count)
            gs_anomaly_clear(&of->first);
    }
    return GS_OK;
}

/* ---- a run ---- */

/* The program of one kernel: its own, the one for all, or the paper's. The caller frees it. */
static gs_program *program_of(struct bound *bound, const char *kernel, gs_error *error) {
    size_t length = strlen(kernel);
    for (size_t i = 0; i < bound->options->programs.count; i++) {
        const char *word = bound->options->programs.data[i];
        if (strncmp(word, kernel, length) == 0 && word[length] == '=')
            return gs_program_open(word + length + 1, error);
    }
    return open_program(bound, bound->options->repeat ? bound->options->repeat : 1, error);
}

static gs_code check_program_options(struct bound *bound, const gs_run *run, gs_error *error) {
    for (size_t i = 0; i < bound->options->programs.count; i++) {
        const char *word = bound->options->programs.data[i];
        size_t length = strcspn(word, "="), known = 0;
        for (size_t j = 0; j < run->launches.count; j++)
            known += strlen(run->launches.data[j].kernel) == length &&
                     strncmp(run->launches.data[j].kernel, word, length) == 0;
        if (!word[length] || !known)
            return gs_fail(error, GS_E_USAGE, "--program takes KERNEL=FILE for a kernel of the run, not \"%.60s\"",
                           word);
    }
    return GS_OK;
}

static gs_code put_run(struct bound *bound, const gs_gpu *gpu, const gs_run *run, const gs_run_bound *found,
                       gs_text *text, gs_error *error) {
    int64_t gpu_ns = 0, response_ns = 0;
    bool has_task = bound->options->task.clock_mhz > 0;
    gs_code code =
        has_task ? gs_response_ns(&bound->options->task, found->cycles, &gpu_ns, &response_ns, error) : GS_OK;
    if (code != GS_OK)
        return code;
    if (bound->options->json) {
        gs_put_run_bound_json(text, gpu, run, found, has_task ? &gpu_ns : NULL, &response_ns);
        return GS_OK;
    }
    gs_put_run_bound(text, gpu, run, found);
    if (has_task)
        gs_text_add(
            text,
            "response time: %lld ns = %lld before + %lld copy in + %lld on the GPU at %lld MHz + %lld copy out + "
            "%lld after\n",
            (long long)response_ns, (long long)bound->options->task.before_ns,
            (long long)bound->options->task.copy_in_ns, (long long)gpu_ns, (long long)bound->options->task.clock_mhz,
            (long long)bound->options->task.copy_out_ns, (long long)bound->options->task.after_ns);
    return GS_OK;
}

static gs_code bound_one_run(struct bound *bound, const gs_run *run, gs_text *text, gs_error *error) {
    gs_gpu *gpu = gs_choose_gpu(&bound->options->gpu, run, error);
    if (!gpu)
        return error->code;
    gs_program **programs = calloc(run->launches.count + 1, sizeof *programs);
    gs_code code = programs ? check_program_options(bound, run, error) : gs_fail_memory(error);
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++)
        if (!(programs[i] = program_of(bound, run->launches.data[i].kernel, error)))
            code = error->code;
    gs_run_bound found = {0};
    if (code == GS_OK)
        code = gs_bound_run(gpu, run, (const gs_program *const *)programs, &found, error);
    if (code == GS_OK)
        code = put_run(bound, gpu, run, &found, text, error);
    gs_run_bound_clear(&found);
    for (size_t i = 0; programs && i < run->launches.count; i++)
        gs_program_free(programs[i]);
    free(programs);
    gs_gpu_free(gpu);
    return code;
}

static gs_code answer_run(struct bound *bound, gs_text *text, gs_error *error) {
    const struct options *options = bound->options;
    gs_beside_question question = {.gpu = &options->gpu,
                                   .request = options->run,
                                   .work = options->beside,
                                   .latencies = options->latencies,
                                   .range = options->range,
                                   .unstopped = options->unstopped.data,
                                   .ahead_us = options->ahead_us,
                                   .every_us = options->every_us,
                                   .no_guard = options->no_guard,
                                   .json = options->json};
    if (options->beside)
        return gs_answer_beside(&question, text, error);
    gs_runs *runs = gs_runs_open(bound->options->run, error);
    gs_run *run;
    gs_code code = runs ? GS_OK : error->code;
    size_t count = 0;
    for (; code == GS_OK && (run = gs_runs_next(runs, error)); count++) {
        code = bound_one_run(bound, run, text, error);
        gs_run_free(run);
    }
    gs_runs_close(runs);
    if (code == GS_OK && error->code == GS_OK && !count)
        gs_fail(error, GS_E_USAGE, "%s has no run", gs_input_name(bound->options->run));
    return code == GS_OK ? error->code : code;
}

/* ---- a compiled kernel ---- */

static gs_code answer_kernel(struct bound *bound, gs_text *text, gs_error *error) {
    const struct options *options = bound->options;
    gs_kernel_question question = {.gpu = &options->gpu,
                                   .file = bound->file,
                                   .kernel = options->kernel,
                                   .launch = options->launch,
                                   .latencies = options->latencies,
                                   .loops = &options->loops,
                                   .json = options->json,
                                   .csv = options->csv,
                                   .html = options->html,
                                   .instructions = options->instructions,
                                   .input = options->input,
                                   .cached = options->cached,
                                   .writers = options->writers};
    return gs_answer_kernel(&question, text, error);
}

/* ---- a real GPU ---- */

static void show_measuring(void *user, int64_t done, int64_t total) {
    gs_progress_say(user, "%lld of %lld", (long long)done, (long long)total);
}

/* Opens the file of a campaign. */
static gs_journal *open_journal(struct bound *bound, const gs_device *device, const gs_measure_options *request,
                                gs_campaign_about *about, gs_text *path, gs_error *error) {
    gs_text line = {0};
    gs_writer writer = gs_writer_to(&line);
    char what[40];
    *about = (gs_campaign_about){.command = "bound",
                                 .device = bound->options->measure,
                                 .gpu = device->gpu,
                                 .uuid = device->uuid,
                                 .driver = device->driver,
                                 .count = gs_measure_runs(request->count),
                                 .shard = request->shard};
    snprintf(what, sizeof what, "bound-seed%llu", (unsigned long long)request->seed);
    gs_campaign_line_begin(&writer, about);
    gs_write_uint(&writer, "seed", request->seed);
    gs_campaign_line_end(&writer, about);
    gs_journal *journal = gs_open_shard(&bound->options->keep, about, what, &line, path, error);
    gs_text_free(&line);
    return journal;
}

/* Measures into the file of a campaign. The whole file is read back; a single shard has no bounds. */
static gs_code measure_campaign(struct bound *bound, gs_device *device, gs_measure_options *request,
                                gs_measured *measured, gs_error *error) {
    gs_campaign_about about;
    gs_text path = {0};
    request->shard = bound->shard;
    request->journal = open_journal(bound, device, request, &about, &path, error);
    gs_code code = request->journal ? gs_measure(device, request, measured, error) : error->code;
    if (code == GS_OK)
        gs_say_shard(bound->command, &about, gs_journal_runs(request->journal));
    if (code == GS_OK && bound->shard.of == 1)
        code = gs_measured_read(path.data, measured, error);
    gs_journal_close(request->journal);
    gs_text_free(&path);
    return code;
}

static gs_code answer_measure(struct bound *bound, gs_text *text, gs_error *error) {
    gs_progress progress;
    gs_measured measured = {0};
    gs_device *device = gs_device_open(bound->options->measure, error);
    if (!device)
        return error->code;
    gs_progress_start(&progress, "measuring");
    gs_measure_options request = {.count = gs_min(bound->count, 100000),
                                  .seed = (uint64_t)bound->options->seed,
                                  .progress = show_measuring,
                                  .user = &progress};
    gs_code code = measures_campaign(bound->options) ? measure_campaign(bound, device, &request, &measured, error)
                                                     : gs_measure(device, &request, &measured, error);
    gs_progress_end(&progress);
    gs_device_close(device);
    if (code != GS_OK || !measured.gpu)
        return code;
    gs_text table = gs_text_for_people(stderr);
    if (!measures_campaign(bound->options))
        gs_measured_text(&measured, text);
    bound->is_no = gs_put_measured(&table, &measured) > 0;
    gs_text_flush(&table);
    gs_text_free(&table);
    gs_measured_clear(&measured);
    return GS_OK;
}

static int64_t put_measured_page(gs_text *text, const gs_measured *measured) {
    gs_text picture = {0}, report = {0};
    gs_put_measured_svg(&picture, measured);
    int64_t late = gs_put_measured(&report, measured);
    gs_put_picture_html(text, "Measured times and their bounds", &picture, &report);
    text->failed = text->failed || picture.failed || report.failed;
    gs_text_free(&picture);
    gs_text_free(&report);
    return late;
}

static gs_code answer_measured(struct bound *bound, gs_text *text, gs_error *error) {
    gs_measured measured;
    gs_code code = gs_measured_read(bound->options->measured, &measured, error);
    if (code != GS_OK)
        return code;
    if (bound->options->svg)
        gs_put_measured_svg(text, &measured);
    else if (bound->options->html)
        bound->is_no = put_measured_page(text, &measured) > 0;
    else
        bound->is_no = gs_put_measured(text, &measured) > 0;
    gs_measured_clear(&measured);
    return GS_OK;
}

/* ---- the command ---- */

struct mode {
    const char *name;
    bool is_chosen;
    gs_code (*answer)(struct bound *bound, gs_text *text, gs_error *error);
};

/* The mode of the command line; NULL: several. */
static const struct mode *choose_mode(const struct mode *modes, size_t count) {
    const struct mode *chosen = NULL;
    for (size_t i = 0; i < count; i++)
        if (modes[i].is_chosen && chosen)
            return NULL;
        else if (modes[i].is_chosen)
            chosen = &modes[i];
    return chosen ? chosen : &modes[0];
}

static gs_code write_answer(const struct options *options, const gs_text *text, gs_error *error) {
    bool is_document = options->json || options->csv || options->svg || options->html || options->measure;
    const char *path = measures_campaign(options) ? NULL : options->keep.out;
    return is_document ? gs_output_text(path, text, error) : gs_output_for_people(path, text, error);
}

static gs_code answer_bound(struct bound *bound, const struct mode *mode, gs_error *error) {
    gs_text text = {0};
    gs_code code = mode->answer(bound, &text, error);
    if (code == GS_OK)
        code = write_answer(bound->options, &text, error);
    gs_text_free(&text);
    return code;
}

static int check_kernel_usage(const gs_command *command, const struct options *options, const char *file) {
    bool has_more = options->kernel || options->loops.count || options->instructions || options->csv ||
                    options->input || options->cached || options->writers;
    if (!options->launch && has_more)
        return gs_usage(command, "--kernel, --loop, --instructions, --input, --cached, --writers and --csv go with "
                                 "--launch");
    if (options->latencies && !options->launch && !options->beside)
        return gs_usage(command, "--latencies goes with --launch or --beside");
    if (options->launch && !file)
        return gs_usage(command, "--launch needs the file of a kernel: a cubin, a fatbin, a program or PTX");
    if (options->launch && !options->gpu.name && !options->gpu.like)
        return gs_usage(command, "--gpu NAME|FILE is needed: --launch does not name the GPU");
    if (options->launch && (options->warps || options->repeat || options->issue))
        return gs_usage(command,
                        "--warps, --repeat and --issue do not go with --launch: the kernel and the GPU set them");
    if (options->launch && (options->fair || options->no_search || options->memory_mb))
        return gs_usage(command,
                        "--fair, --no-search and --memory do not go with --launch: it searches for no schedule");
    if (options->json && options->csv)
        return gs_usage(command, "--json and --csv exclude each other");
    return 0;
}

static int check_beside_usage(const gs_command *command, const struct options *options, const char *file) {
    if (options->beside && !options->run)
        return gs_usage(command, "--beside needs --run FILE, a recording of the requests alone");
    if (!options->beside &&
        (options->ahead_us || options->every_us || options->no_guard || options->range || options->unstopped.count))
        return gs_usage(command, "--ahead, --every, --no-guard, --unstopped and --range go with --beside");
    if (options->beside && (file || options->programs.count || options->repeat || options->task.clock_mhz))
        return gs_usage(command, "--beside takes times from recordings: it does not go with programs and --clock-mhz");
    return 0;
}

static int check_usage(const gs_command *command, const struct options *options, const struct mode *mode, bool is_plain,
                       const char *file) {
    int beside_status = check_beside_usage(command, options, file);
    if (beside_status)
        return beside_status;
    if (options->launch || options->kernel || options->loops.count || options->latencies || options->instructions ||
        options->csv || options->input || options->cached || options->writers) {
        int status = check_kernel_usage(command, options, file);
        if (status)
            return status;
    }
    if (file && options->grid)
        return gs_usage(command, "--grid applies only to the paper's program");
    if (file && options->repeat)
        return gs_usage(command, "give one program, or --repeat for the paper's");
    if (!options->run && (options->programs.count || options->task.clock_mhz))
        return gs_usage(command, "--program and --clock-mhz go with --run; a program alone is given as a file");
    if (options->run && options->warps)
        return gs_usage(command, "--warps does not go with --run: the run says how many warps an SM has");
    const gs_task *task = &options->task;
    if (!task->clock_mhz && (task->before_ns || task->copy_in_ns || task->copy_out_ns || task->after_ns))
        return gs_usage(command, "the times of the task around a run need --clock-mhz");
    if (is_plain && !file && !options->warps)
        return gs_usage(command, options->repeat
                                     ? "the paper's program needs --warps N, the number of warps on the SM"
                                     : "give a program, or --warps N (and --repeat N) for the paper's program");
    bool is_drawn = is_plain || options->measured || (options->launch && options->html && !options->instructions);
    if ((options->svg || options->html) && (!is_drawn || options->json || options->csv))
        return gs_usage(command, "%s, and excludes --json and --csv",
                        options->svg ? "--svg draws a schedule or measurements"
                                     : "--html shows a schedule, measurements or the bound of a kernel");
    if (options->svg && options->html)
        return gs_usage(command, "--svg and --html exclude each other");
    const gs_gpu_choice *gpu = &options->gpu;
    bool has_gpu = gpu->name || gpu->like || gpu->sms || gpu->policy || gpu->settings.count;
    if (has_gpu && !options->run && !options->launch)
        return gs_usage(command, "--gpu, --like, --sms, --policy and --set go with --run and --launch");
    if (options->json && (options->random || options->anomalies || options->measure || options->measured))
        return gs_usage(command, "--json does not go with %s", mode->name);
    if ((options->keep.resume || options->keep.shard) && !options->measure)
        return gs_usage(command, "--resume and --shard go with --measure");
    return 0;
}

static int run_bound(const gs_command *command, void *given, const gs_words *files) {
    const struct options *options = given;
    struct mode modes[] = {{"the warps of an SM", false, answer_warps},
                           {"--grid", options->grid, answer_grid},
                           {"--random", options->random, answer_random},
                           {"--anomalies", options->anomalies, answer_anomalies},
                           {"--run", options->run != NULL, answer_run},
                           {"--launch", options->launch != NULL, answer_kernel},
                           {"--measure", options->measure != NULL, answer_measure},
                           {"--measured", options->measured != NULL, answer_measured}};
    const struct mode *mode = choose_mode(modes, GS_COUNT(modes));
    struct bound bound = {.command = command,
                          .options = options,
                          .file = files->count ? files->data[0] : NULL,
                          .count = options->count     ? options->count
                                   : options->measure ? 1000
                                                      : 100000};
    gs_error error = {.code = GS_OK};
    if (!mode)
        return gs_usage(command,
                        "--grid, --random, --anomalies, --run, --launch, --measure and --measured exclude each other");
    int status = check_usage(command, options, mode, mode == &modes[0], bound.file);
    if (status == 0 && measures_campaign(options))
        status = gs_check_shard(command, &options->keep, &bound.shard);
    if (status)
        return status;
    return answer_bound(&bound, mode, &error) == GS_OK ? bound.is_no : gs_report(&error);
}

const gs_command gs_command_bound = {
    .name = "bound",
    .summary = "Bound the finishing time of the work of an SM, of a kernel, or of a whole run.",
    .usage = "[options] [PROGRAM | KERNEL --launch FILE]",
    .details =
        "PROGRAM is the program of a warp (gridsmith.program/1); - is standard input. The default is the program of "
        "the\nfinishing-time paper, C (L L C)+ S.\n\n"
        "  gridsmith bound --warps 4 --repeat 3\n"
        "  gridsmith bound --grid\n"
        "  gridsmith bound --run scenarios/waves.json --repeat 100\n"
        "  gridsmith bound --run request.jsonl --beside work.jsonl --latencies latencies.json\n"
        "  gridsmith bound kernel.cubin --launch launch.json --gpu h200\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &(const struct options){.seed = 1},
    .words = {0, 1, "give one program, or --repeat for the paper's"},
    .run = run_bound,
};
