/*
 * explain_view.c: what limits a program, and what would help: one screen for people, and gridsmith.explain/1.
 */
#include "view.h"

#include <stdlib.h>

static double percent(int64_t part, int64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* ---- the headline ---- */

/* What takes most of the time, and the word for it. */
static void put_verdict(gs_text *text, const gs_time_account *account) {
    double busy = percent(account->busy_ns, account->span_ns);
    gs_idle most = GS_IDLE_COPY;
    for (gs_idle idle = 0; idle < GS_IDLES; idle++)
        if (account->idle_ns[idle] > account->idle_ns[most])
            most = idle;
    static const char *const words[] = {"copy-bound", "host-bound", "held up by launch gaps",
                                        "held up by something that is not recorded"};
    gs_text_style(text, GS_STYLE_HEADING);
    if (account->busy_ns >= account->idle_ns[most] && account->filled >= 0.6)
        gs_text_add(text, "GPU-bound: the GPU works %.0f%% of the time, with %.0f%% of its SMs", busy,
                    account->filled * 100);
    else if (account->busy_ns >= account->idle_ns[most])
        gs_text_add(text, "bound by small kernels: the GPU works %.0f%% of the time, but with %.0f%% of its SMs", busy,
                    account->filled * 100);
    else
        gs_text_add(text, "%s: the GPU works %.*f%% of the time", words[most], busy < 10 ? 1 : 0, busy);
    gs_text_style(text, GS_STYLE_PLAIN);
    gs_text_add(text, "\n");
}

static void put_account_row(gs_text *text, const char *name, int64_t ns, const gs_time_account *account,
                            int64_t steps) {
    gs_text_add(text, "  %-10s %5.1f%%  ", name, percent(ns, account->span_ns));
    gs_put_duration(text, ns / steps);
}

static void put_account(gs_text *text, const gs_explained *explained) {
    const gs_time_account *account = &explained->account;
    static const char *const names[] = {"copies", "host late", "gaps", "other"};
    static const char *const meanings[] = {
        "only a copy or memset ran", "the next launch had not been issued, or had not reached the GPU",
        "from one operation to the next", "the next operation waited for something that is not recorded"};
    int64_t steps = (int64_t)gs_max_u64(1, gs_part_steps(&explained->part));
    put_account_row(text, "busy", account->busy_ns, account, steps);
    gs_text_add(text, "; blocks take %.0f%% of the SMs; %lld of %lld launches do not fill the GPU\n",
                account->filled * 100, (long long)(account->small / steps), (long long)(account->launches / steps));
    for (gs_idle idle = 0; idle < GS_IDLES; idle++)
        if (account->idle_ns[idle] * 1000 >= account->span_ns) {
            put_account_row(text, names[idle], account->idle_ns[idle], account, steps);
            gs_text_add(text, "; %s\n", meanings[idle]);
        }
}

/* "1 step", "2 steps". */
static void put_count(gs_text *text, size_t count, const char *noun) {
    gs_text_add(text, "%zu %s%s", count, noun, count == 1 ? "" : "s");
}

static const char *parts_words(gs_parts_by parts_by) {
    static const char *const words[] = {"named ranges begin this far apart (--range every=1: each part is a step)",
                                        "the host pauses longer after them (--range every=1: each part is a step)",
                                        "by --range"};
    return words[parts_by];
}

/* `range`: NULL if none was chosen. */
static void put_part(gs_text *text, const gs_explained *explained, const char *range) {
    const gs_part *part = &explained->part;
    size_t steps = gs_part_steps(part);
    if (steps) {
        put_count(text, steps, "step");
        gs_text_add(text, " of ");
        put_count(text, part->period, "operation");
        gs_text_add(text, ", ");
        gs_put_duration(text, explained->recorded_ns);
        gs_text_add(text, "%s; ", steps == 1 ? "" : " each");
        put_count(text, part->first, "operation");
        gs_text_add(text, " before and %zu after %s are left out (--range all)\n", explained->order.count - part->last,
                    steps == 1 ? "it" : "them");
        if (part->equal_parts > 1)
            gs_text_add(text, "a step is %zu equal parts: %s \n", part->equal_parts, parts_words(part->parts_by));
        if (part->is_inside)
            gs_text_add(text, "several of these steps are in one ProfilerStep: as parts of it, such as layers, they "
                              "may depend on each other\n");
    } else {
        size_t count = part->last - part->first;
        if (part->range)
            gs_text_add(text, "%.100s (%zu of %zu such ranges): ", part->name, part->range, part->ranges);
        put_count(text, count, "operation");
        gs_text_add(text, ", ");
        gs_put_duration(text, explained->account.span_ns);
        bool is_found = !range && !part->range; /* all, because nothing else was found */
        gs_text_add(text, is_found ? "; no steps that repeat were found\n" : "\n");
    }
}

/* ---- kernels ---- */

static const char *limit_name(unsigned limits) {
    static const char *const names[] = {"blocks", "warps", "registers", "shared"};
    for (size_t i = 0; i < GS_COUNT(names); i++)
        if (limits >> i & 1)
            return names[i];
    return "";
}

static const char *reason_words(gs_reason reason) {
    static const char *const words[] = {"host",        "stream",        "other stream", "gap",
                                        "copy engine", "behind others", "SMs",          "SMs for its rest"};
    return words[reason];
}

static void put_blocks(char *blocks, size_t size, const gs_kernel_row *row) {
    if (row->least_blocks == row->most_blocks)
        snprintf(blocks, size, "%lld", (long long)row->least_blocks);
    else
        snprintf(blocks, size, "%lld-%lld", (long long)row->least_blocks, (long long)row->most_blocks);
}

/* On a narrow terminal, names and waits have a line of their own. */
static bool is_narrow(const gs_text *text) {
    enum { WIDTH = 130 };
    return text->columns && text->columns < WIDTH;
}

static void put_wait(gs_text *text, const gs_kernel_row *row) {
    char wait[40] = "";
    if (row->wait_ns)
        snprintf(wait, sizeof wait, "%3.0f%% %s", percent(row->waits, row->launches), reason_words(row->reason));
    if (is_narrow(text))
        gs_text_add(text, "\n    %s%s%s\n", row->name, *wait ? "  " : "", wait);
    else
        gs_text_add(text, "%-21s %s\n", wait, row->name);
}

static void put_kernel(gs_text *text, const gs_kernel_row *row, const gs_explained *explained, int64_t steps) {
    char blocks[48], tail[16] = "-";
    put_blocks(blocks, sizeof blocks, row);
    if (row->waves >= 1)
        snprintf(tail, sizeof tail, "%.0f%%", row->tail * 100);
    gs_text_add(text, "%8.*f %10.1f %8.1f %5.1f%%  %13s %6.2f %5s %4.0f%% %-9s ", row->launches % steps ? 1 : 0,
                (double)row->launches / (double)steps, (double)row->ns / 1000 / (double)steps,
                (double)row->whole_ns / 1000 / (double)row->launches, percent(row->ns, explained->account.kernel_ns),
                blocks, row->waves, tail, row->occupancy * 100, limit_name(row->limits));
    put_wait(text, row);
}

static void put_kernels(gs_text *text, const gs_explained *explained, int64_t top) {
    const gs_kernel_rows *rows = &explained->kernels;
    int64_t steps = (int64_t)gs_max_u64(1, gs_part_steps(&explained->part)), rest_ns = 0;
    size_t shown = top ? gs_min_u64(rows->count, (uint64_t)top) : rows->count;
    gs_text_style(text, GS_STYLE_HEADING);
    gs_text_add(text, "\nlaunches         us     mean  share         blocks  waves tail  occupancy%s",
                is_narrow(text) ? "\n    kernel  waited for\n" : "      waited for           kernel\n");
    gs_text_style(text, GS_STYLE_PLAIN);
    for (size_t i = 0; i < shown; i++)
        put_kernel(text, &rows->data[i], explained, steps);
    for (size_t i = shown; i < rows->count; i++)
        rest_ns += rows->data[i].ns;
    if (shown < rows->count)
        gs_text_add(text, "%19.1f %14.1f%%  of %zu more kernels\n", (double)rest_ns / 1000 / (double)steps,
                    percent(rest_ns, explained->account.kernel_ns), rows->count - shown);
}

/* ---- named ranges ---- */

enum { SHOWN_RANGES = 6 };

static void put_ranges(gs_text *text, const gs_explained *explained) {
    const gs_range_rows *rows = &explained->ranges;
    double steps = (double)gs_max_u64(1, gs_part_steps(&explained->part));
    if (!rows->count)
        return;
    gs_text_style(text, GS_STYLE_HEADING);
    gs_text_add(text, "\n  ranges   launches     GPU us  share  range\n");
    gs_text_style(text, GS_STYLE_PLAIN);
    for (size_t i = 0; i < rows->count && i < SHOWN_RANGES; i++) {
        const gs_range_row *row = &rows->data[i];
        gs_text_add(text, "%8lld %10.0f %10.1f %5.1f%%  %s\n", (long long)row->ranges, (double)row->launches / steps,
                    (double)row->kernel_ns / 1000 / steps, percent(row->kernel_ns, explained->account.kernel_ns),
                    row->name);
    }
    if (rows->count > SHOWN_RANGES)
        gs_text_add(text, "%8s and %zu more names (--range nvtx=NAME)\n", "", rows->count - SHOWN_RANGES);
}

/* ---- overlap, what if, advice ---- */

static void put_overlap(gs_text *text, const gs_explained *explained) {
    const gs_overlap_account *overlap = &explained->overlap;
    gs_text_add(text, "\nside by side: kernels save ");
    gs_put_duration(text, overlap->achieved_ns);
    gs_text_add(text, "; with a host that is never late ");
    gs_put_duration(text, overlap->by_resources_ns);
    gs_text_add(text, ", with SMs without end ");
    gs_put_duration(text, overlap->by_dependencies_ns);
    gs_text_add(text, "\n");
}

static void put_times(gs_text *text, int64_t least_ns, int64_t most_ns, int64_t now_ns) {
    gs_text times = {0};
    gs_put_duration(&times, least_ns);
    if (most_ns > least_ns + least_ns / 100) {
        gs_text_add(&times, " to ");
        gs_put_duration(&times, most_ns);
    }
    int64_t middle_ns = (least_ns + most_ns) / 2;
    gs_text_add(text, "  %-22s %+4.0f%%  ", times.data ? times.data : "",
                percent(middle_ns - now_ns, gs_max(1, now_ns)));
    text->failed = text->failed || times.failed;
    gs_text_free(&times);
}

static void put_outcome(gs_text *text, const gs_outcome *outcome, int64_t now_ns) {
    if (outcome->stuck.kernel)
        gs_text_add(text, "  %-22s        ", "no end");
    else
        put_times(text, outcome->least_ns, outcome->most_ns, now_ns);
}

static void put_what_ifs(gs_text *text, const gs_explained *explained, const gs_explain_options *options) {
    for (size_t i = 0; i < explained->outcome_count; i++) {
        const gs_outcome *outcome = &explained->outcomes[i];
        const gs_what_if *what_if = &options->what_ifs[i];
        put_outcome(text, outcome, explained->played_ns);
        for (size_t j = 0; j < what_if->count; j++)
            gs_text_add(text, "%s%s", j ? "," : "", what_if->changes[j].words);
        if (outcome->foreign)
            gs_text_add(text, "; %lld launch%s of a step %s of kernels that this GPU cannot run",
                        (long long)outcome->foreign, outcome->foreign == 1 ? "" : "es",
                        outcome->foreign == 1 ? "is" : "are");
        if (outcome->stuck.kernel) {
            gs_text_add(text, ": ");
            gs_put_stuck(text, &outcome->stuck);
        }
        gs_text_add(text, "\n");
    }
}

static void put_advice(gs_text *text, const gs_explained *explained, const gs_explain_options *options) {
    const gs_advices *advices = &explained->advices;
    const char *what = gs_part_steps(&explained->part) ? "a step" : "the part";
    if (!explained->outcome_count && !options->has_advice)
        return;
    gs_text_style(text, GS_STYLE_HEADING);
    gs_text_add(text, "\n%s takes ", what);
    gs_put_duration(text, explained->step_ns);
    gs_text_add(text, " (recorded: ");
    gs_put_duration(text, explained->recorded_ns);
    gs_text_add(text, ", played: ");
    gs_put_duration(text, explained->played_ns);
    bool is_same = llabs(explained->played_ns - explained->step_ns) * 100 <= explained->step_ns;
    gs_text_add(text, "); %s%s\n", explained->outcome_count ? "what if" : "what would help",
                is_same ? "" : ", against the played time");
    gs_text_style(text, GS_STYLE_PLAIN);
    put_what_ifs(text, explained, options);
    for (size_t i = 0; i < advices->count; i++) {
        const gs_advice *advice = &advices->data[i];
        put_times(text, advice->least_ns, advice->most_ns, explained->played_ns);
        gs_text_add(text, "%s", advice->sentence);
        if (*advice->words)
            gs_text_add(text, "  [%s]", advice->words);
        gs_text_add(text, "\n");
    }
    if (explained->is_unlike)
        gs_text_add(text,
                    "  the model plays other steps than were recorded, so no change can be judged: steps may differ, "
                    "streams may drift apart, or the program may wait for something that is not recorded\n");
    else if (options->has_advice && !advices->count)
        gs_text_add(text, "  none of the changes that are tried gains a hundredth\n");
}

void gs_put_explained(gs_text *text, const gs_gpu *gpu, const gs_run *run, const gs_explained *explained,
                      const gs_explain_options *options, int64_t top, bool advice_first) {
    const gs_gpu *recorded_on = explained->recorded_on;
    gs_text_add(text, "%s, %d SM%s", recorded_on->name, recorded_on->sms, recorded_on->sms == 1 ? "" : "s");
    if (run->origin.program)
        gs_text_add(text, ": %.100s", run->origin.program);
    gs_text_add(text, "\n");
    if (gpu != recorded_on)
        gs_text_add(text, "played on %s, %d SM%s; all else is as recorded\n", gpu->name, gpu->sms,
                    gpu->sms == 1 ? "" : "s");
    gs_gpu_put_assumed(gpu, text);
    for (size_t i = 0; i < options->what_if_count; i++)
        if (options->what_ifs[i].gpu)
            gs_gpu_put_assumed(options->what_ifs[i].gpu, text);
    put_part(text, explained, options->range);
    gs_text_add(text, "\n");
    put_verdict(text, &explained->account);
    put_account(text, explained);
    if (advice_first)
        put_advice(text, explained, options);
    put_kernels(text, explained, top);
    put_ranges(text, explained);
    put_overlap(text, explained);
    if (!advice_first)
        put_advice(text, explained, options);
}

/* ---- JSON ---- */

static void write_account(gs_writer *writer, const gs_time_account *account) {
    gs_write_object(writer, "account");
    gs_write_us(writer, "span_us", account->span_ns);
    gs_write_us(writer, "busy_us", account->busy_ns);
    gs_write_object(writer, "idle_us");
    for (gs_idle idle = 0; idle < GS_IDLES; idle++)
        gs_write_us(writer, gs_idle_name(idle), account->idle_ns[idle]);
    gs_write_end(writer);
    gs_write_us(writer, "kernel_us", account->kernel_ns);
    gs_write_real(writer, "filled", account->filled, 4);
    gs_write_int(writer, "launches", account->launches);
    gs_write_int(writer, "small_launches", account->small);
    gs_write_int(writer, "copies", account->copies);
    gs_write_int(writer, "memsets", account->memsets);
    gs_write_end(writer);
}

static void write_kernel(gs_writer *writer, const gs_kernel_row *row) {
    gs_write_object(writer, NULL);
    gs_write_string(writer, "name", row->name);
    gs_write_string(writer, "kernel", row->kernel);
    gs_write_int(writer, "launches", row->launches);
    gs_write_us(writer, "total_us", row->ns);
    gs_write_int(writer, "least_blocks", row->least_blocks);
    gs_write_int(writer, "most_blocks", row->most_blocks);
    gs_write_real(writer, "waves", row->waves, 4);
    gs_write_real(writer, "tail", row->tail, 4);
    gs_write_real(writer, "occupancy", row->occupancy, 4);
    gs_write_string(writer, "limit", limit_name(row->limits));
    gs_write_int(writer, "waits", row->waits);
    if (row->wait_ns) {
        gs_write_us(writer, "wait_us", row->wait_ns);
        gs_write_string(writer, "wait", gs_reason_name(row->reason));
    }
    gs_write_end(writer);
}

void gs_put_explained_csv(gs_text *text, const gs_explained *explained) {
    gs_text_add(
        text, "name,kernel,launches,total_us,least_blocks,most_blocks,waves,tail,occupancy,limit,waits,wait_us,wait\n");
    for (size_t i = 0; i < explained->kernels.count; i++) {
        const gs_kernel_row *row = &explained->kernels.data[i];
        gs_put_csv_name(text, row->name);
        gs_text_add(text, ",");
        gs_put_csv_name(text, row->kernel);
        gs_text_add(text, ",%lld,%.3f,%lld,%lld,%.4f,%.4f,%.4f,%s,%lld,%.3f,%s\n", (long long)row->launches,
                    (double)row->ns / 1e3, (long long)row->least_blocks, (long long)row->most_blocks, row->waves,
                    row->tail, row->occupancy, limit_name(row->limits), (long long)row->waits,
                    (double)row->wait_ns / 1e3, row->wait_ns ? gs_reason_name(row->reason) : "");
    }
}

static void write_ranges(gs_writer *writer, const gs_range_rows *rows) {
    gs_write_array(writer, "ranges");
    for (size_t i = 0; i < rows->count; i++) {
        gs_write_object(writer, NULL);
        gs_write_string(writer, "name", rows->data[i].name);
        gs_write_int(writer, "ranges", rows->data[i].ranges);
        gs_write_int(writer, "launches", rows->data[i].launches);
        gs_write_us(writer, "host_us", rows->data[i].host_ns);
        gs_write_us(writer, "kernel_us", rows->data[i].kernel_ns);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void write_interval(gs_writer *writer, int64_t least_ns, int64_t most_ns) {
    gs_write_us(writer, "least_us", least_ns);
    gs_write_us(writer, "most_us", most_ns);
}

static void write_outcome(gs_writer *writer, const gs_outcome *outcome) {
    const gs_stuck *stuck = &outcome->stuck;
    if (stuck->kernel) {
        gs_write_object(writer, "never_starts");
        gs_write_string(writer, "name", stuck->kernel);
        gs_write_int(writer, "launches", stuck->launches);
        gs_write_int(writer, "cluster", stuck->cluster);
        gs_write_int(writer, "behind", stuck->behind);
        gs_write_end(writer);
    } else {
        write_interval(writer, outcome->least_ns, outcome->most_ns);
        gs_write_us(writer, "unscheduled_us", outcome->unscheduled_ns);
    }
    gs_write_int(writer, "foreign_launches", outcome->foreign);
}

static void write_what_ifs(gs_writer *writer, const gs_explained *explained, const gs_explain_options *options) {
    gs_write_array(writer, "what_if");
    for (size_t i = 0; i < explained->outcome_count; i++) {
        gs_text words = {0};
        for (size_t j = 0; j < options->what_ifs[i].count; j++)
            gs_text_add(&words, "%s%s", j ? "," : "", options->what_ifs[i].changes[j].words);
        gs_write_object(writer, NULL);
        gs_write_string(writer, "change", words.data);
        gs_write_optional(writer, "assumed", options->what_ifs[i].gpu ? options->what_ifs[i].gpu->assumed : NULL);
        write_outcome(writer, &explained->outcomes[i]);
        gs_write_end(writer);
        gs_text_free(&words);
    }
    gs_write_end(writer);
    gs_write_array(writer, "advice");
    for (size_t i = 0; i < explained->advices.count; i++) {
        const gs_advice *advice = &explained->advices.data[i];
        gs_write_object(writer, NULL);
        gs_write_optional(writer, "change", *advice->words ? advice->words : NULL);
        gs_write_string(writer, "sentence", advice->sentence);
        write_interval(writer, advice->least_ns, advice->most_ns);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

void gs_put_explained_json(gs_text *text, const gs_gpu *gpu, const gs_explained *explained,
                           const gs_explain_options *options) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.explain/1");
    gs_write_string(&writer, "gpu", gpu->name);
    gs_write_optional(&writer, "assumed", gpu->assumed);
    gs_write_uint(&writer, "operations", explained->order.count);
    gs_write_object(&writer, "part");
    gs_write_uint(&writer, "first", explained->part.first);
    gs_write_uint(&writer, "last", explained->part.last - 1);
    gs_write_uint(&writer, "steps", gs_part_steps(&explained->part));
    gs_write_uint(&writer, "period", explained->part.period);
    gs_write_uint(&writer, "equal_parts", gs_max_u64(1, explained->part.equal_parts));
    gs_write_us(&writer, "from_us", explained->part.from_ns);
    gs_write_us(&writer, "to_us", explained->part.to_ns);
    gs_write_end(&writer);
    gs_write_us(&writer, "recorded_us", explained->recorded_ns);
    gs_write_us(&writer, "step_us", explained->step_ns);
    gs_write_us(&writer, "played_us", explained->played_ns);
    write_account(&writer, &explained->account);
    gs_write_array(&writer, "kernels");
    for (size_t i = 0; i < explained->kernels.count; i++)
        write_kernel(&writer, &explained->kernels.data[i]);
    gs_write_end(&writer);
    write_ranges(&writer, &explained->ranges);
    gs_write_object(&writer, "overlap");
    gs_write_us(&writer, "achieved_us", explained->overlap.achieved_ns);
    gs_write_us(&writer, "by_resources_us", explained->overlap.by_resources_ns);
    gs_write_us(&writer, "by_dependencies_us", explained->overlap.by_dependencies_ns);
    gs_write_end(&writer);
    write_what_ifs(&writer, explained, options);
    gs_write_finish(&writer);
}
