/*
 * account.c: how much of a span of time the GPU was busy, and what it waited for in the rest.
 *
 * Busy is when a kernel runs. The rest is divided: first what a copy or memset takes. In what is left nothing runs, and
 * it ends when some operation starts, the next one. While the host had not issued that, or it was on its way to the
 * GPU, the host was late. Then it is ready, and what passes until it starts is a gap: usually a microsecond. What
 * takes longer than the usual gap and SLACK_NS has a reason that is not in the recording: an event of another GPU, a
 * host function, another program.
 *
 * All times are whole nanoseconds, so that the parts add up exactly.
 */
#include "explain.h"

#include <stdlib.h>

enum { SLACK_NS = 10000, WHOLE = 1 << 20 }; /* WHOLE: the whole GPU, as a share */

const char *gs_idle_name(gs_idle idle) {
    static const char *const names[] = {"copies", "host", "gaps", "other"};
    return names[idle];
}

/* ---- spans of operations ---- */

struct span {
    int64_t from_ns, to_ns;
    size_t operation;
};

struct spans {
    struct span *data; /* sorted by start */
    size_t count;
};

GS_ORDER_THEN(compare_spans, struct span, from_ns, operation)

/* The operations with these numbers that were measured. */
static gs_code list_spans(const gs_run *run, size_t first, size_t last, struct spans *spans, gs_error *error) {
    *spans = (struct spans){.data = malloc((last - first + 1) * sizeof *spans->data)};
    if (!spans->data)
        return gs_fail_memory(error);
    for (size_t i = first; i < last; i++) {
        const gs_issue *issue = gs_run_issue(run, i);
        if (gs_measured_ns(issue))
            spans->data[spans->count++] = (struct span){issue->start_ns, issue->end_ns, i};
    }
    qsort(spans->data, spans->count, sizeof *spans->data, compare_spans);
    return GS_OK;
}

/* ---- the rest, divided ---- */

struct division {
    const gs_run *run;
    const gs_pace *pace;
    const gs_freed *freed;
    struct spans copies, all;
    size_t copy, next; /* the first that can matter later; times only grow */
    gs_time_account *account;
};

/* Nothing runs from `from_ns` to `to_ns`, when an operation starts or the span ends. */
static void divide_nothing(struct division *division, int64_t from_ns, int64_t to_ns) {
    int64_t *idle = division->account->idle_ns;
    while (division->next < division->all.count && division->all.data[division->next].from_ns <= from_ns)
        division->next++;
    if (division->next == division->all.count) { /* the host issued nothing more */
        idle[GS_IDLE_HOST] += to_ns - from_ns;
        return;
    }
    size_t operation = division->all.data[division->next].operation;
    const gs_issue *issue = gs_run_issue(division->run, operation);
    const gs_freed *freed = &division->freed[operation];
    bool is_issued = issue->at_ns != GS_NO_TIME;
    int64_t arrived_ns = is_issued ? issue->at_ns + division->pace->latency_ns : INT64_MIN;
    bool is_late = is_issued && (freed->freed_ns == GS_NO_TIME || arrived_ns > freed->freed_ns);
    int64_t late_until = gs_max(from_ns, gs_min(to_ns, arrived_ns));
    int64_t ready_ns = gs_max(arrived_ns, freed->ready_ns);
    int64_t slack_until = ready_ns > INT64_MIN ? ready_ns + SLACK_NS : from_ns + SLACK_NS;
    int64_t gap_until = gs_max(late_until, gs_min(to_ns, slack_until));
    idle[GS_IDLE_HOST] += late_until - from_ns;
    idle[is_late ? GS_IDLE_HOST : GS_IDLE_GAP] += gap_until - late_until;
    idle[GS_IDLE_OTHER] += to_ns - gap_until;
}

/* No kernel runs from `from_ns` to `to_ns`. */
static void divide_rest(struct division *division, int64_t from_ns, int64_t to_ns) {
    while (from_ns < to_ns) {
        const struct spans *copies = &division->copies;
        while (division->copy < copies->count && copies->data[division->copy].to_ns <= from_ns)
            division->copy++;
        int64_t copied_to = from_ns, copy_from = to_ns;
        for (size_t i = division->copy; i < copies->count && copies->data[i].from_ns < to_ns && copied_to < to_ns;
             i++) {
            if (copies->data[i].from_ns > copied_to) {
                copy_from = copies->data[i].from_ns;
                break;
            }
            copied_to = gs_max(copied_to, gs_min(to_ns, copies->data[i].to_ns));
        }
        division->account->idle_ns[GS_IDLE_COPY] += copied_to - from_ns;
        if (copied_to < copy_from)
            divide_nothing(division, copied_to, copy_from);
        from_ns = copy_from;
    }
}

/* ---- busy ---- */

/* The part of the time that a kernel takes alone, if so much of it is within the span. */
static int64_t alone_within(const struct span *kernel, int64_t alone_ns, int64_t within_ns) {
    return (int64_t)((double)alone_ns * (double)within_ns / (double)(kernel->to_ns - kernel->from_ns));
}

static gs_code divide_span(struct division *division, const struct spans *kernels, const gs_part *part,
                           const gs_timeline *played) {
    int64_t until_ns = part->from_ns;
    for (size_t i = 0; i < kernels->count && kernels->data[i].from_ns < part->to_ns; i++) {
        int64_t from_ns = gs_max(part->from_ns, kernels->data[i].from_ns);
        int64_t to_ns = gs_min(part->to_ns, kernels->data[i].to_ns);
        if (to_ns <= from_ns)
            continue;
        division->account->kernel_ns += to_ns - from_ns;
        division->account->alone_ns +=
            alone_within(&kernels->data[i], played->operations[kernels->data[i].operation].alone_ns, to_ns - from_ns);
        if (from_ns > until_ns)
            divide_rest(division, until_ns, from_ns);
        division->account->busy_ns += gs_max(0, to_ns - gs_max(from_ns, until_ns));
        until_ns = gs_max(until_ns, to_ns);
    }
    if (until_ns < part->to_ns)
        divide_rest(division, until_ns, part->to_ns);
    return GS_OK;
}

/* A kernel takes more of the GPU from then on, or less. */
struct step {
    int64_t at_ns, share;
};

GS_ORDER(compare_steps, struct step, at_ns)

/* How much of the SMs is taken while kernels run. The last wave of a kernel is not full, so on average over its waves.
 */
static gs_code fill_account(const struct spans *kernels, const gs_part *part, const gs_timeline *played,
                            gs_time_account *account, gs_error *error) {
    struct step *steps = malloc(2 * (kernels->count + 1) * sizeof *steps);
    size_t count = 0;
    double filled = 0;
    int64_t share = 0;
    if (!steps)
        return gs_fail_memory(error);
    for (size_t i = 0; i < kernels->count; i++) {
        const gs_operation *operation = &played->operations[kernels->data[i].operation];
        int64_t own = (int64_t)(operation->share / (double)gs_max(1, operation->waves) * WHOLE);
        int64_t from_ns = gs_max(part->from_ns, kernels->data[i].from_ns);
        int64_t to_ns = gs_min(part->to_ns, kernels->data[i].to_ns);
        if (from_ns >= to_ns)
            continue;
        steps[count++] = (struct step){from_ns, own};
        steps[count++] = (struct step){to_ns, -own};
    }
    qsort(steps, count, sizeof *steps, compare_steps);
    for (size_t i = 0; i + 1 < count; i++) {
        share += steps[i].share;
        filled += (double)gs_min(share, WHOLE) / WHOLE * (double)(steps[i + 1].at_ns - steps[i].at_ns);
    }
    account->filled = account->busy_ns ? filled / (double)account->busy_ns : 0;
    free(steps);
    return GS_OK;
}

static void count_operations(const gs_run *run, const gs_sequence *order, const gs_part *part,
                             const gs_timeline *played, gs_time_account *account) {
    for (size_t i = part->first; i < part->last; i++) {
        size_t operation = order->data[i];
        if (operation < run->launches.count) {
            account->launches++;
            account->small += played->operations[operation].share < 1;
        } else if (run->copies.data[operation - run->launches.count].is_memset)
            account->memsets++;
        else
            account->copies++;
    }
}

gs_code gs_time_account_of(const gs_run *run, const gs_sequence *order, const gs_part *part, const gs_timeline *played,
                           gs_time_account *account, gs_error *error) {
    struct spans kernels = {0};
    struct division division = {.run = run, .pace = &played->pace, .account = account};
    *account = (gs_time_account){.span_ns = part->to_ns - part->from_ns};
    gs_freed *freed = gs_freed_times(run, &played->pace, error);
    division.freed = freed;
    gs_code code = freed ? list_spans(run, 0, run->launches.count, &kernels, error) : GS_E_MEMORY;
    if (code == GS_OK)
        code = list_spans(run, run->launches.count, order->count, &division.copies, error);
    if (code == GS_OK)
        code = list_spans(run, 0, order->count, &division.all, error);
    if (code == GS_OK)
        code = divide_span(&division, &kernels, part, played);
    if (code == GS_OK)
        code = fill_account(&kernels, part, played, account, error);
    if (code == GS_OK)
        count_operations(run, order, part, played, account);
    free(kernels.data);
    free(division.copies.data);
    free(division.all.data);
    free(freed);
    return code;
}
