/*
 * change.c: the changes of what-ifs, made in a plan.
 *
 *   graph               the operations of a step are issued by one call
 *   host=2x             the host takes half as long from one operation to the next; never-late: no time at all
 *   streams=N           steps are on N streams in turn, each stream of the program N times; 1: all on one stream
 *   streams=PATTERN     what matches is on a stream of its own. It does not wait for what was before it in its stream.
 *                       What comes after the last that matches in a step waits for it
 *   order=PATTERN:first what matches is issued directly after the last operation that it waits for
 *   priority=PATTERN:N  what matches is launched with this priority
 *   sms=N               all launches are in a green context of N SMs
 *   sms=PATTERN:N       what matches is, and all else is in one of the other SMs
 *   blocks=PATTERN:N    what matches has N blocks for the same work; full: as many as fill whole waves
 *   registers=PATTERN:N, carveout=PATTERN:N
 *
 * A recording does not show whether operations are independent. A change to other streams assumes that they are.
 */
#include "change.h"

#include <fnmatch.h>
#include <stdlib.h>

/* ---- the plan of what was recorded ---- */

enum { LONG_GAP_NS = 20000 }; /* a host that waits for the GPU does so at least so long */

static const char *stream_of(const gs_run *run, size_t operation) {
    return operation < run->launches.count ? run->launches.data[operation].stream
                                           : run->copies.data[operation - run->launches.count].stream;
}

/* Where the host issued nothing while the GPU finished all that it had, and went on soon after that: it waited for it.
   If the GPU had finished early in that time, the host had other things to do. */
static void plan_host(const gs_run *run, gs_plan *plan) {
    int64_t end_ns = GS_NO_TIME, before_ns = GS_NO_TIME;
    for (size_t i = 0; i < plan->count; i++) {
        gs_issue_planned *planned = &plan->data[i];
        const gs_issue *issue = gs_run_issue(run, planned->operation);
        bool is_known = issue->at_ns != GS_NO_TIME && before_ns != GS_NO_TIME;
        planned->gap_ns = is_known ? gs_max(0, issue->at_ns - before_ns) : 0;
        planned->is_with_last = is_known && issue->at_ns == before_ns && i && planned->operation < run->launches.count;
        planned->waits_for_all =
            is_known && end_ns != GS_NO_TIME && end_ns <= issue->at_ns && end_ns - before_ns >= LONG_GAP_NS;
        planned->slack_ns = planned->waits_for_all ? issue->at_ns - end_ns : 0;
        planned->waits_for_all = planned->waits_for_all && planned->slack_ns < planned->gap_ns / 2;
        if (issue->at_ns != GS_NO_TIME)
            before_ns = issue->at_ns;
        if (gs_measured_ns(issue))
            end_ns = gs_max(end_ns, issue->end_ns);
    }
}

/* A part that is not steps begins where the GPU may still have had work: what the host issued before its first start
   was there in time. */
static void plan_backlog(const gs_recorded_program *program, gs_plan *plan) {
    const gs_issue *first = plan->count ? gs_run_issue(program->run, plan->data[0].operation) : NULL;
    if (!first || first->at_ns == GS_NO_TIME || !gs_measured_ns(first))
        return;
    int64_t backlog_ns = gs_max(0, first->start_ns - first->at_ns - program->pace->latency_ns);
    for (size_t i = 1; i < plan->count && backlog_ns; i++) {
        int64_t taken_ns = gs_min(backlog_ns, plan->data[i].gap_ns);
        plan->data[i].gap_ns -= taken_ns;
        backlog_ns -= taken_ns;
    }
}

/* A program waits at the same place of each step. What is seen in few steps only was the recorder, or chance. */
static void forget_rare_waits(gs_plan *plan, size_t period) {
    for (size_t phase = 0; phase < period; phase++) {
        size_t waits = 0;
        for (size_t i = phase; i < plan->count; i += period)
            waits += plan->data[i].waits_for_all;
        for (size_t i = phase; i < plan->count && 2 * waits + 1 < plan->steps; i += period)
            plan->data[i].waits_for_all = false;
    }
}

/* What the host did before the operation at one place of all steps of a part. */
struct pause {
    int64_t gap_ns, slack_ns, count; /* sums of as many */
    bool has_waited;                 /* in the plan */
    bool goes_on;                    /* in some step, while the GPU still has work: then it does not wait here */
};

/* The pause between two steps is also that after the last one. */
static void sum_pauses(const gs_recorded_program *program, struct pause *pauses) {
    const gs_part *part = program->part;
    int64_t end_ns = GS_NO_TIME, before_ns = GS_NO_TIME;
    size_t last = gs_min_u64(part->last + 1, program->order->count);
    for (size_t place = part->first; place < last; place++) {
        const gs_issue *issue = gs_run_issue(program->run, program->order->data[place]);
        struct pause *pause = &pauses[(place - part->first) % part->period];
        if (issue->at_ns != GS_NO_TIME && before_ns != GS_NO_TIME) {
            pause->gap_ns += gs_max(0, issue->at_ns - before_ns);
            pause->slack_ns += end_ns != GS_NO_TIME ? gs_max(0, issue->at_ns - end_ns) : 0;
            pause->goes_on = pause->goes_on || (end_ns != GS_NO_TIME && issue->at_ns < end_ns);
            pause->count++;
        }
        if (issue->at_ns != GS_NO_TIME)
            before_ns = issue->at_ns;
        if (gs_measured_ns(issue))
            end_ns = gs_max(end_ns, issue->end_ns);
    }
}

/* A host that waits at a place never goes on there while the GPU has work: where it does in some step, it waits in
   none. If the host is the limit, what it lost in one step counts the same in whichever step that was: it takes as long
   as on average at the same place of each step, and waits there in each step or in none. */
static gs_code even_host(const gs_recorded_program *program, gs_plan *plan, gs_error *error) {
    size_t period = program->part->period;
    struct pause *pauses = calloc(period + 1, sizeof *pauses);
    if (!pauses)
        return gs_fail_memory(error);
    if (period)
        sum_pauses(program, pauses);
    for (size_t i = 0; i < plan->count && period; i++) {
        struct pause *pause = &pauses[i % period];
        plan->data[i].waits_for_all = plan->data[i].waits_for_all && !pause->goes_on && !program->never_waits;
        pause->has_waited = pause->has_waited || plan->data[i].waits_for_all;
    }
    for (size_t i = 1; i < plan->count && period && program->is_host_bound; i++) {
        const struct pause *pause = &pauses[i % period];
        if (!pause->count)
            continue;
        plan->data[i].gap_ns = pause->gap_ns / pause->count;
        plan->data[i].slack_ns = pause->slack_ns / pause->count;
        plan->data[i].waits_for_all = pause->has_waited;
    }
    free(pauses);
    return GS_OK;
}

static void change_host(gs_plan *plan, double factor) {
    plan->is_never_late = factor == 0;
    for (size_t i = 0; i < plan->count && factor > 0; i++) {
        plan->data[i].gap_ns = (int64_t)((double)plan->data[i].gap_ns / factor);
        plan->data[i].slack_ns = (int64_t)((double)plan->data[i].slack_ns / factor);
    }
}

/* A recorder slows the host down. A step cannot take less time than the host needs for it, so the host is at least as
   much faster without a recorder as makes that true. If the host is the limit, a step takes as long as the host. */
static void adjust_host(const gs_recorded_program *program, gs_plan *plan) {
    int64_t host_ns = 0;
    bool has_waited = false;
    size_t from = plan->steps < 3 ? 0 : gs_plan_timed_from(plan);
    for (size_t i = 0; i < plan->count; i++) {
        host_ns += plan->data[i].step > from ? plan->data[i].gap_ns : 0;
        has_waited = has_waited || plan->data[i].waits_for_all;
    }
    host_ns /= (int64_t)gs_max_u64(1, gs_max_u64(plan->steps, from + 2) - 1 - from);
    bool is_limit = program->is_host_bound && !has_waited;
    if (program->step_ns && host_ns > 0 && (is_limit || host_ns > program->step_ns))
        change_host(plan, (double)host_ns / (double)program->step_ns);
}

/* When a step began: the host issued its first operation. */
static int64_t step_began(const gs_recorded_program *program, size_t step) {
    size_t place = program->part->first + step * program->part->period;
    return gs_run_issue(program->run, program->order->data[place])->at_ns;
}

/* The first of `count` steps that took the host about as long as all steps do on average, from the second to the last
   of them: the time of a step is taken there. If the host is not the limit, those that took it least: what it lost in
   others was made up by work that the GPU still had, which a part begins without. */
static size_t choose_steps(const gs_recorded_program *program, size_t count) {
    size_t steps = gs_part_steps(program->part), best = 0;
    double least = -1, mean_ns = 0;
    if (count + 1 >= steps || step_began(program, 0) == GS_NO_TIME)
        return 0;
    mean_ns = (double)(step_began(program, steps - 1) - step_began(program, 0)) / (double)(steps - 1);
    for (size_t i = 0; i + count < steps; i++) {
        double differs = (double)(step_began(program, i + count - 1) - step_began(program, i + 1));
        differs -= program->is_host_bound ? mean_ns * (double)(count - 2) : 0;
        differs = differs < 0 ? -differs : differs;
        if (least < 0 || differs < least) {
            least = differs;
            best = i;
        }
    }
    return best;
}

/* Whether the step after the part is played, too, because there are too few to take the time of a step between their
   ends. Two of different length do not show how long a step takes. */
static bool needs_next(const gs_recorded_program *program) {
    enum { FEWEST_STEPS = 3 };
    const gs_part *part = program->part;
    size_t steps = gs_part_steps(part);
    int64_t starts[FEWEST_STEPS] = {0};
    if (!steps || steps >= FEWEST_STEPS || part->last + part->period > program->order->count)
        return false;
    for (size_t i = 0; i <= steps; i++) {
        const gs_issue *issue = gs_run_issue(program->run, program->order->data[part->first + i * part->period]);
        if (!gs_measured_ns(issue))
            return false;
        starts[i] = issue->start_ns;
    }
    int64_t one_ns = starts[1] - starts[0], other_ns = steps > 1 ? starts[2] - starts[1] : one_ns;
    return 4 * llabs(one_ns - other_ns) <= gs_max(one_ns, other_ns);
}

gs_code gs_plan_of(const gs_recorded_program *program, size_t most_steps, gs_plan *plan, gs_error *error) {
    const gs_part *part = program->part;
    const gs_run *run = program->run;
    size_t count = part->last - part->first, first = part->first;
    if (part->period && count > most_steps * part->period) {
        count = most_steps * part->period;
        first += choose_steps(program, most_steps) * part->period;
    }
    bool has_next = needs_next(program);
    count += has_next ? part->period : 0;
    *plan = (gs_plan){.count = count, .steps = part->period ? count / part->period : 1, .has_next = has_next};
    plan->data = calloc(count + 1, sizeof *plan->data);
    if (!plan->data)
        return gs_fail_memory(error);
    for (size_t i = 0; i < count; i++) {
        size_t operation = program->order->data[first + i];
        plan->data[i] = (gs_issue_planned){.operation = operation,
                                           .step = part->period ? i / part->period : 0,
                                           .stream = stream_of(run, operation),
                                           .blocks = -1,
                                           .carveout_percent = -1,
                                           .joins = SIZE_MAX};
        if (operation < run->launches.count)
            plan->data[i].priority = run->launches.data[operation].priority;
    }
    plan_host(run, plan);
    if (!part->period)
        plan_backlog(program, plan);
    forget_rare_waits(plan, part->period);
    gs_code code = even_host(program, plan, error);
    if (code == GS_OK)
        adjust_host(program, plan);
    else
        gs_plan_clear(plan);
    return code;
}

void gs_plan_clear(gs_plan *plan) {
    free(plan->data);
    gs_strings_free(&plan->strings);
    *plan = (gs_plan){0};
}

/* ---- patterns ---- */

static bool matches_one(const gs_recorded_program *program, size_t operation, const char *pattern) {
    const gs_run *run = program->run;
    if (operation >= run->launches.count) {
        bool is_memset = run->copies.data[operation - run->launches.count].is_memset;
        return strcmp(pattern, is_memset ? "memset" : "copy") == 0;
    }
    const char *kernel = run->launches.data[operation].kernel;
    const char *brief = program->names ? gs_short_name(program->names, kernel) : kernel;
    return fnmatch(pattern, kernel, 0) == 0 || fnmatch(pattern, brief, 0) == 0;
}

static bool matches_any(const gs_recorded_program *program, size_t operation, const char *patterns) {
    char pattern[sizeof((gs_program_change *)0)->patterns];
    for (const char *at = patterns;; at++) {
        size_t length = strcspn(at, "+");
        memcpy(pattern, at, length);
        pattern[length] = 0;
        if (matches_one(program, operation, pattern))
            return true;
        at += length;
        if (!*at)
            return false;
    }
}

static gs_code choose_planned(const gs_recorded_program *program, const gs_program_change *change, gs_plan *plan,
                              gs_error *error) {
    size_t chosen = 0;
    for (size_t i = 0; i < plan->count; i++) {
        plan->data[i].is_chosen = matches_any(program, plan->data[i].operation, change->patterns);
        chosen += plan->data[i].is_chosen;
    }
    if (chosen)
        return GS_OK;
    return gs_fail(error, GS_E_USAGE, "\"%.100s\": nothing in the part of the recording matches %.60s", change->words,
                   change->patterns);
}

/* ---- the changes ---- */

static void make_graphs(gs_plan *plan) {
    for (size_t i = 0; i < plan->count; i++) {
        bool is_first = !i || plan->data[i].step != plan->data[i - 1].step;
        plan->makes_graphs = plan->makes_graphs || (!is_first && !plan->data[i].is_with_last);
        plan->data[i].is_with_last = !is_first;
        if (!is_first)
            plan->data[i].waits_for_all = false;
    }
}

/* What it costs the host to use another stream, and to make one stream wait for another: in PyTorch, on the machine of
   bench/explain. A C++ program pays a tenth. */
enum { OTHER_STREAM_NS = 30000, WAIT_NS = 15000 };

/* The host takes longer for an operation; a graph that the operation is a node of was made before. */
static void delay_host(gs_issue_planned *planned, int64_t ns) {
    if (!planned->is_with_last)
        planned->gap_ns += ns;
}

/* What the host need not do where all is on one stream: it took that much longer before an operation of another stream
   than the one before it, but not more than the usual time longer than before half of all operations. */
static gs_code spare_host(gs_plan *plan, gs_error *error) {
    enum { SWITCH_NS = OTHER_STREAM_NS / 2 + WAIT_NS }; /* there, and back */
    int64_t *gaps = malloc((plan->count + 1) * sizeof *gaps);
    if (!gaps)
        return gs_fail_memory(error);
    for (size_t i = 0; i < plan->count; i++)
        gaps[i] = plan->data[i].gap_ns;
    qsort(gaps, plan->count, sizeof *gaps, gs_compare_int64);
    int64_t usual_ns = gaps[plan->count / 2];
    free(gaps);
    for (size_t i = 1; i < plan->count; i++) {
        const char *before = plan->data[i - 1].stream, *stream = plan->data[i].stream;
        if (before && stream && strcmp(before, stream) != 0 && !plan->data[i].is_with_last)
            plan->data[i].gap_ns -= gs_min(SWITCH_NS, gs_max(0, plan->data[i].gap_ns - usual_ns));
    }
    return GS_OK;
}

/* Streams without a name are streams of their own, and stay so unless all operations go to one stream. */
static gs_code turn_streams(gs_plan *plan, int32_t number, gs_error *error) {
    gs_text name = {0};
    if (number == 1 && plan->count && spare_host(plan, error) != GS_OK)
        return GS_E_MEMORY;
    for (size_t i = 0; i < plan->count; i++) {
        gs_issue_planned *planned = &plan->data[i];
        if (number > 1 && !planned->stream)
            continue;
        if (number == 1)
            gs_text_add(&name, "one");
        else
            gs_text_add(&name, "%s turn %zu", planned->stream, planned->step % (size_t)number);
        planned->stream = name.failed ? NULL : gs_strings_add(&plan->strings, name.data, name.count);
        gs_text_clear(&name);
        if (number > 1 && i && planned->step != plan->data[i - 1].step)
            delay_host(planned, OTHER_STREAM_NS);
        if (!planned->stream) {
            gs_text_free(&name);
            return gs_fail_memory(error);
        }
    }
    plan->is_beside = plan->is_mixed = number > 1;
    gs_text_free(&name);
    return GS_OK;
}

/* What comes after the last that was chosen in a step, in the stream that it was in, waits for it. */
static void join_last(gs_plan *plan, size_t last, const char *stream) {
    for (size_t i = last + 1; i < plan->count && plan->data[i].step == plan->data[last].step; i++)
        if (stream && plan->data[i].stream && strcmp(plan->data[i].stream, stream) == 0) {
            plan->data[i].joins = last;
            delay_host(&plan->data[i], WAIT_NS);
            return;
        }
}

static gs_code part_streams(const gs_run *run, gs_plan *plan, gs_error *error) {
    const char *side = gs_strings_add(&plan->strings, "side", 4);
    if (!side)
        return gs_fail_memory(error);
    bool has_later = false; /* one that was chosen follows in the step */
    for (size_t i = plan->count; i-- > 0;) {
        gs_issue_planned *planned = &plan->data[i];
        if (i + 1 < plan->count && plan->data[i + 1].step != planned->step)
            has_later = false;
        if (!planned->is_chosen)
            continue;
        const char *stream = planned->stream;
        planned->stream = side;
        plan->is_mixed = plan->is_mixed || planned->operation < run->launches.count; /* copies take no SMs */
        if (!i || !plan->data[i - 1].is_chosen)
            delay_host(planned, OTHER_STREAM_NS + WAIT_NS);
        if (!has_later)
            join_last(plan, i, stream);
        has_later = true;
    }
    plan->is_beside = true;
    return GS_OK;
}

/* Whether one operation of the plan waits for another that is before it. */
static bool waits_for(const gs_run *run, const gs_issue_planned *one, const gs_issue_planned *other) {
    if (one->stream && other->stream && strcmp(one->stream, other->stream) == 0)
        return true;
    const gs_issue *issue = gs_run_issue(run, one->operation);
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++)
        if (gs_run_operation(run, &run->edges.data[i]) == other->operation)
            return true;
    return false;
}

static void put_first(const gs_run *run, gs_plan *plan) {
    for (size_t i = 0; i < plan->count; i++) {
        if (!plan->data[i].is_chosen)
            continue;
        gs_issue_planned moved = plan->data[i];
        size_t to = i;
        while (to && plan->data[to - 1].step == moved.step && !waits_for(run, &moved, &plan->data[to - 1]))
            to--;
        memmove(&plan->data[to + 1], &plan->data[to], (i - to) * sizeof *plan->data);
        plan->data[to] = moved;
    }
}

/* Sets a number of what was chosen. */
static void set_chosen(gs_plan *plan, gs_program_change_kind kind, int32_t number) {
    for (size_t i = 0; i < plan->count; i++) {
        gs_issue_planned *planned = &plan->data[i];
        if (!planned->is_chosen)
            continue;
        switch (kind) {
        case GS_CHANGE_PRIORITY:
            planned->priority = number;
            break;
        case GS_CHANGE_BLOCKS:
            planned->blocks = number;
            break;
        case GS_CHANGE_REGISTERS:
            planned->registers = number;
            break;
        case GS_CHANGE_CARVEOUT:
            planned->carveout_percent = number;
            break;
        default:
            planned->is_apart = true;
        }
    }
}

static gs_code change_sms(const gs_recorded_program *program, const gs_program_change *change, gs_plan *plan,
                          gs_error *error) {
    int32_t all = (plan->gpu ? plan->gpu : program->gpu)->sms, most = all - (*change->patterns ? 1 : 0);
    if (change->number > most)
        return gs_fail(error, GS_E_USAGE, "%.60s: the GPU has %d SMs", change->words, all);
    plan->sms = change->number < all ? change->number : 0;
    plan->is_parted = *change->patterns;
    set_chosen(plan, change->kind, 0);
    return GS_OK;
}

gs_code gs_plan_change(const gs_recorded_program *program, const gs_program_change *change, gs_plan *plan,
                       gs_error *error) {
    gs_code code = GS_OK;
    if (*change->patterns && change->kind != GS_CHANGE_GPU)
        code = choose_planned(program, change, plan, error);
    if (code != GS_OK)
        return code;
    switch (change->kind) {
    case GS_CHANGE_GRAPH:
        make_graphs(plan);
        break;
    case GS_CHANGE_HOST:
        change_host(plan, change->factor);
        break;
    case GS_CHANGE_STREAMS:
        return change->number ? turn_streams(plan, change->number, error) : part_streams(program->run, plan, error);
    case GS_CHANGE_ORDER:
        put_first(program->run, plan);
        plan->is_reordered = true;
        break;
    case GS_CHANGE_PRIORITY:
        plan->is_reordered = true;
        set_chosen(plan, change->kind, change->number);
        break;
    case GS_CHANGE_BLOCKS:
        plan->has_blocks = true;
        set_chosen(plan, change->kind, change->number);
        break;
    case GS_CHANGE_REGISTERS:
    case GS_CHANGE_CARVEOUT:
        set_chosen(plan, change->kind, change->number);
        break;
    case GS_CHANGE_SMS:
        return change_sms(program, change, plan, error);
    default:
        break;
    }
    return GS_OK;
}
