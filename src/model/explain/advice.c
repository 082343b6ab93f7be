/*
 * advice.c: the changes that would help, the largest gain first.
 *
 * Each is a what-if that was played. A change that needs to know whether
 * operations are independent says so: a recording does not. What gains less than a hundredth is left out.
 */
#include "advice.h"

#include <stdlib.h>

static gs_code add_advice(struct gs_adviser *adviser, const gs_advice *advice, gs_error *error) {
    int64_t now_ns = adviser->base->least_ns, gained_ns = now_ns - (advice->least_ns + advice->most_ns) / 2;
    if (gained_ns * 100 < now_ns)
        return GS_OK;
    return GS_PUSH(adviser->advices, *advice) ? GS_OK : gs_fail_memory(error);
}

/* Whether a what-if gains more than one that was tried before, and that is a part of it. */
static bool gains_more(const struct gs_adviser *adviser, const gs_advice *advice) {
    for (size_t i = 0; i < adviser->advices->count; i++) {
        const gs_advice *other = &adviser->advices->data[i];
        int64_t ns = advice->least_ns + advice->most_ns, other_ns = other->least_ns + other->most_ns;
        if (strncmp(advice->words, other->words, strlen(other->words)) == 0 && ns + ns / 50 > other_ns)
            return false;
    }
    return true;
}

/* Plays a what-if, and adds it if it helps. */
static gs_code advise(struct gs_adviser *adviser, const char *words, const char *sentence, gs_error *error) {
    gs_what_if what_if;
    gs_outcome outcome;
    gs_code code = gs_what_if_read(words, &what_if, error);
    if (code == GS_OK)
        code = gs_try(adviser->program, &what_if, adviser->base, &outcome, error);
    if (code != GS_OK || outcome.stuck.kernel)
        return code;
    gs_advice advice = {.least_ns = outcome.least_ns, .most_ns = outcome.most_ns};
    snprintf(advice.words, sizeof advice.words, "%s", words);
    snprintf(advice.sentence, sizeof advice.sentence, "%s", sentence);
    return gains_more(adviser, &advice) ? add_advice(adviser, &advice, error) : GS_OK;
}

/* ---- what there is in the program ---- */

struct traits {
    bool has_copies, has_streams;
    size_t alone; /* operations that a call of their own issues */
};

static struct traits traits_of(const gs_recorded_program *program) {
    struct traits traits = {0};
    const gs_run *run = program->run;
    const char *first = NULL;
    int64_t before_ns = GS_NO_TIME;
    for (size_t i = program->part->first; i < program->part->last; i++) {
        size_t operation = program->order->data[i];
        bool is_launch = operation < run->launches.count;
        const gs_copy *copy = is_launch ? NULL : &run->copies.data[operation - run->launches.count];
        const char *stream = is_launch ? run->launches.data[operation].stream : copy->stream;
        const gs_issue *issue = gs_run_issue(run, operation);
        traits.has_copies = traits.has_copies || (copy && !copy->is_memset);
        traits.has_streams = traits.has_streams || (first && stream && strcmp(first, stream) != 0);
        traits.alone += issue->at_ns != before_ns && !gs_issue_is_node(issue);
        first = first ? first : stream;
        before_ns = issue->at_ns;
    }
    return traits;
}

/* ---- kernels ---- */

/* "*name*" for patterns, of the identifier of a short name. */
static void put_pattern(const char *name, char *pattern, size_t size) {
    snprintf(pattern, size, "*%.*s*", (int)gs_min_u64(strcspn(name, "<#.+,:[]*?"), 100), name);
}

/* Of several streams, the kernel that waited longest for others to be served first, or for SMs. */
static const gs_kernel_row *longest_waiting(const gs_kernel_rows *rows) {
    const gs_kernel_row *found = NULL;
    for (size_t i = 0; i < rows->count; i++) {
        const gs_kernel_row *row = &rows->data[i];
        bool is_held =
            row->reason == GS_REASON_QUEUE || row->reason == GS_REASON_HEADROOM || row->reason == GS_REASON_REST;
        if (is_held && row->wait_ns && (!found || row->wait_ns > found->wait_ns))
            found = row;
    }
    return found;
}

/* Words and sentence of a what-if that is tried. */
struct trial {
    char words[240], sentence[400];
};

static gs_code advise_trial(struct gs_adviser *adviser, const struct trial *trial, gs_error *error) {
    return advise(adviser, trial->words, trial->sentence, error);
}

static gs_code advise_before_others(struct gs_adviser *adviser, const gs_kernel_row *row, gs_error *error) {
    char pattern[120];
    struct trial trial;
    put_pattern(row->name, pattern, sizeof pattern);
    snprintf(trial.words, sizeof trial.words, "priority=%s:-1", pattern);
    snprintf(trial.sentence, sizeof trial.sentence,
             "launch %s on a stream of higher priority: it waits for others to leave SMs", row->name);
    gs_code code = advise_trial(adviser, &trial, error);
    snprintf(trial.words, sizeof trial.words, "order=%s:first", pattern);
    snprintf(trial.sentence, sizeof trial.sentence, "launch %s as soon as what it waits for is launched", row->name);
    return code == GS_OK ? advise_trial(adviser, &trial, error) : code;
}

/* Fewer registers, or another carve-out, where blocks that wait lack that beside those of another kernel. */
static gs_code advise_resources(struct gs_adviser *adviser, const gs_kernel_row *row, const gs_launch *holder,
                                gs_error *error) {
    char pattern[120];
    struct trial trial;
    const char *name = gs_short_name(adviser->program->names, holder->kernel);
    put_pattern(name, pattern, sizeof pattern);
    if (row->lack == GS_LACK_REGISTERS && holder->shape.registers > 64) {
        int32_t fewer = holder->shape.registers * 3 / 4 / 8 * 8;
        snprintf(trial.words, sizeof trial.words, "registers=%s:%d", pattern, fewer);
        snprintf(
            trial.sentence, sizeof trial.sentence,
            "compile %s for %d registers a thread (__launch_bounds__), if it then is not slower: %s lacks registers "
            "beside it",
            name, fewer, row->name);
        return advise_trial(adviser, &trial, error);
    }
    if (row->lack == GS_LACK_CONFIG || row->lack == GS_LACK_SHARED) {
        snprintf(trial.words, sizeof trial.words, "carveout=%s:100", pattern);
        snprintf(trial.sentence, sizeof trial.sentence,
                 "give %s a carve-out of 100%%, if it does not need the cache: %s lacks shared memory beside it", name,
                 row->name);
        return advise_trial(adviser, &trial, error);
    }
    return GS_OK;
}

/* How much of the GPU a launch takes; more than 1: it has several waves. */
static double share_of(const gs_recorded_program *program, const gs_launch *launch) {
    int64_t capacity;
    gs_code code = gs_launch_capacity(program->recorded_on, launch, &capacity, NULL);
    return code == GS_OK ? (double)launch->blocks / (double)capacity : 0;
}

/* A launch of a kernel in the part. */
static const gs_launch *launch_of(const gs_recorded_program *program, const char *kernel) {
    for (size_t i = program->part->first; i < program->part->last; i++) {
        size_t operation = program->order->data[i];
        if (operation < program->run->launches.count && program->run->launches.data[operation].kernel == kernel)
            return &program->run->launches.data[operation];
    }
    return NULL;
}

/* SMs for a small kernel beside one that is as large as the GPU, whichever waits for the other: fewer blocks of the
   large one, or a green context. */
static gs_code advise_margin(struct gs_adviser *adviser, const gs_launch *one, const gs_launch *other,
                             gs_error *error) {
    const gs_recorded_program *program = adviser->program;
    const gs_launch *large = share_of(program, one) > share_of(program, other) ? one : other;
    const gs_launch *small = large == one ? other : one;
    double share = share_of(program, large), least = share_of(program, small);
    if (share < 0.9 || share > 1 || least > 0.5 || least <= 0)
        return GS_OK;
    const char *name = gs_short_name(program->names, large->kernel);
    const char *own = gs_short_name(program->names, small->kernel);
    int32_t all = program->recorded_on->sms, margin = ((int32_t)(least * all + 0.999) + 7) / 8 * 8;
    long long blocks = (long long)((double)large->blocks / share / all) * (all - margin);
    char pattern[120];
    struct trial trial;
    put_pattern(name, pattern, sizeof pattern);
    snprintf(trial.words, sizeof trial.words, "blocks=%s:%lld", pattern, blocks);
    snprintf(trial.sentence, sizeof trial.sentence, "launch %s with %lld blocks (sm_margin), which leaves %d SMs to %s",
             name, blocks, margin, own);
    gs_code code = advise_trial(adviser, &trial, error);
    put_pattern(own, pattern, sizeof pattern);
    snprintf(trial.words, sizeof trial.words, "sms=%s:%d", pattern, margin);
    snprintf(trial.sentence, sizeof trial.sentence, "give %s a green context of %d SMs, and all else the others", own,
             margin);
    return code == GS_OK ? advise_trial(adviser, &trial, error) : code;
}

/* Half the blocks of collectives, where these run beside kernels that wait for SMs. */
static gs_code advise_collectives(struct gs_adviser *adviser, gs_error *error) {
    for (size_t i = 0; i < adviser->rows->count; i++) {
        const gs_kernel_row *row = &adviser->rows->data[i];
        if (!strstr(row->kernel, "nccl") || row->most_blocks < 4)
            continue;
        struct trial trial;
        snprintf(trial.words, sizeof trial.words, "blocks=*nccl*:%lld", (long long)row->most_blocks / 2);
        snprintf(
            trial.sentence, sizeof trial.sentence,
            "give collectives %lld blocks instead of up to %lld (NCCL_MAX_CTAS), if the links and not the SMs limit "
            "them",
            (long long)row->most_blocks / 2, (long long)row->most_blocks);
        return advise_trial(adviser, &trial, error);
    }
    return GS_OK;
}

/* The launch that holds what a kernel waits for; if its own blocks hold most of that, one of the kernel that takes most
   time on another stream. NULL: there is none. */
static const gs_launch *holder_of(const struct gs_adviser *adviser, const gs_kernel_row *row, const gs_launch *own) {
    const gs_run *run = adviser->program->run;
    if (row->behind < run->launches.count && run->launches.data[row->behind].kernel != own->kernel)
        return &run->launches.data[row->behind];
    for (size_t i = 0; i < adviser->rows->count; i++) {
        const gs_launch *other = launch_of(adviser->program, adviser->rows->data[i].kernel);
        if (other && other->kernel != own->kernel && other->stream != own->stream)
            return other;
    }
    return NULL;
}

static gs_code advise_waiting(struct gs_adviser *adviser, gs_error *error) {
    const gs_kernel_row *row = longest_waiting(adviser->rows);
    if (!row)
        return GS_OK;
    const gs_launch *own = launch_of(adviser->program, row->kernel);
    const gs_launch *holder = own ? holder_of(adviser, row, own) : NULL;
    gs_code code = advise_before_others(adviser, row, error);
    if (code == GS_OK && holder)
        code = advise_resources(adviser, row, holder, error);
    if (code == GS_OK && holder)
        code = advise_margin(adviser, own, holder, error);
    return code == GS_OK ? advise_collectives(adviser, error) : code;
}

/* The kernel that loses most in its last wave, of those that have more than one. */
static gs_code advise_tail(struct gs_adviser *adviser, gs_error *error) {
    const gs_kernel_row *most = NULL;
    char pattern[120];
    struct trial trial;
    for (size_t i = 0; i < adviser->rows->count; i++) {
        const gs_kernel_row *row = &adviser->rows->data[i];
        if (row->waves > 1 && (!most || row->tail * (double)row->ns > most->tail * (double)most->ns))
            most = row;
    }
    double steps = (double)gs_max_u64(1, gs_part_steps(adviser->program->part));
    if (!most || most->tail * (double)most->ns / steps * 100 < (double)adviser->base->least_ns)
        return GS_OK;
    put_pattern(most->name, pattern, sizeof pattern);
    snprintf(trial.words, sizeof trial.words, "blocks=%s:full", pattern);
    snprintf(trial.sentence, sizeof trial.sentence,
             "give %s a grid that ends with a full wave: %.0f%% of its SM time is lost in the last of %.1f waves",
             most->name, most->tail * 100, most->waves);
    return advise_trial(adviser, &trial, error);
}

/* ---- all ---- */

static int compare_advices(const void *first, const void *second) {
    const gs_advice *a = first, *b = second;
    int order = GS_COMPARE(a->least_ns + a->most_ns, b->least_ns + b->most_ns);
    return order ? order : strcmp(a->words, b->words);
}

/* Steps that repeat can be graphs, or run at the same time. */
static gs_code advise_steps(struct gs_adviser *adviser, const struct traits *traits, gs_error *error) {
    size_t steps = gs_part_steps(adviser->program->part);
    char sentence[400];
    gs_code code = GS_OK;
    bool has_calls = traits->alone >= 2 * steps; /* that a graph saves */
    if (steps && has_calls) {
        snprintf(sentence, sizeof sentence, "make each step a CUDA graph: one call instead of %zu",
                 traits->alone / steps);
        code = advise(adviser, "graph", sentence, error);
    }
    bool can_turn = steps && !adviser->program->part->is_inside; /* layers depend on each other */
    if (code == GS_OK && can_turn)
        code = advise(adviser, "streams=2", "run two steps at a time on two streams, if they are independent", error);
    if (code == GS_OK && can_turn && has_calls)
        code = advise(adviser, "graph,streams=2",
                      "make each step a CUDA graph, and run two at a time, if they are independent", error);
    return code;
}

gs_code gs_advise(struct gs_adviser *adviser, gs_error *error) {
    struct traits traits = traits_of(adviser->program);
    gs_code code = advise_steps(adviser, &traits, error);
    if (code == GS_OK)
        code = advise(adviser, "host=never-late",
                      "let the host issue launches before the GPU has finished the last ones", error);
    if (code == GS_OK && traits.has_copies)
        code = advise(adviser, "streams=copy", "copy on a stream of its own, beside the kernels of the step before",
                      error);
    if (code == GS_OK && traits.has_streams)
        code = advise(adviser, "streams=1", "run all on one stream: side by side, kernels slow each other down", error);
    if (code == GS_OK && traits.has_streams)
        code = advise_waiting(adviser, error);
    if (code == GS_OK)
        code = advise_tail(adviser, error);
    if (code == GS_OK && adviser->advices->count)
        qsort(adviser->advices->data, adviser->advices->count, sizeof *adviser->advices->data, compare_advices);
    return code;
}
