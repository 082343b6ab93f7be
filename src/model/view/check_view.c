/*
 * check_view.c: the answer of gridsmith check, for people and for programs.
 *
 * People read it from top to bottom: the kernels, whether all of them fit and in which order, what is in the way, and
 * what would help.
 */
#include "view.h"

#include <string.h>

enum { MOST_KERNELS = 8, MOST_FIXES = 12 }; /* the most that are listed for people */

/* ---- kernels ---- */

static bool is_cooperative(const gs_launch *launch) {
    return launch->issue.facts && launch->issue.facts->is_cooperative == 1;
}

static void put_kernel(gs_text *text, const gs_launch *launch, int width) {
    gs_text_add(text, "  %-*s  ", width, launch->kernel);
    gs_text_put_grouped(text, launch->blocks);
    gs_text_add(text, " block%s of %d thread%s, %d registers", launch->blocks == 1 ? "" : "s", launch->shape.threads,
                launch->shape.threads == 1 ? "" : "s", launch->shape.registers);
    if (launch->shape.shared_bytes) {
        gs_text_add(text, ", ");
        gs_text_put_grouped(text, launch->shape.shared_bytes);
        gs_text_add(text, " bytes of shared memory");
    }
    if (launch->cluster > 1)
        gs_text_add(text, ", clusters of %d", launch->cluster);
    if (launch->shape.carveout_percent != GS_NO_CARVEOUT)
        gs_text_add(text, ", carve-out %d%%", launch->shape.carveout_percent);
    if (launch->shape.local_bytes) {
        gs_text_add(text, ", ");
        gs_text_put_grouped(text, launch->shape.local_bytes);
        gs_text_add(text, " bytes of local memory");
    }
    if (is_cooperative(launch))
        gs_text_add(text, ", cooperative");
    gs_text_add(text, "\n");
}

static void put_kernels(gs_text *text, const gs_run *run) {
    int width = 0;
    if (run->launches.count > MOST_KERNELS)
        return;
    for (size_t i = 0; i < run->launches.count; i++)
        width = (int)gs_max(width, (int64_t)gs_min((int64_t)strlen(run->launches.data[i].kernel), 40));
    for (size_t i = 0; i < run->launches.count; i++)
        put_kernel(text, &run->launches.data[i], width);
}

static void put_heading(gs_text *text, const gs_gpu *gpu, const gs_run *run) {
    int64_t blocks = 0;
    for (size_t i = 0; i < run->launches.count; i++)
        blocks += run->launches.data[i].blocks;
    if (run->has_id)
        gs_text_add(text, "run %lld, ", (long long)run->id);
    gs_text_add(text, "%s, %d SM%s: %zu kernel%s, %lld block%s\n", gpu->name, gpu->sms, gpu->sms == 1 ? "" : "s",
                run->launches.count, run->launches.count == 1 ? "" : "s", (long long)blocks, blocks == 1 ? "" : "s");
    gs_gpu_put_assumed(gpu, text);
    put_kernels(text, run);
}

/* ---- assumptions ---- */

/* Whether the question is about one of several launch orders: then other values are tried in this order only. */
static bool is_of_this_order(const gs_check_answer *answer) {
    return !answer->every_order && !answer->check.order_is_fixed && answer->run->launches.count > 1;
}

/* Registers, or bytes of memory, for which the answer is the same. */
static void put_range(gs_text *text, const gs_check_answer *answer, const gs_assumed *assumed) {
    if (assumed->is_tried && is_of_this_order(answer))
        gs_text_add(text, "in this order ");
    if (!assumed->is_tried) {
        gs_text_add(text, "other values were not all tried");
    } else if (!assumed->decides && assumed->is_capped) {
        gs_text_add(text, "the answer holds up to %lld, with more a block%s cannot run", (long long)assumed->most,
                    assumed->kernels > 1 ? " of one of them" : "");
    } else if (!assumed->decides) {
        gs_text_add(text, "any other value gives the same answer");
    } else if (assumed->kind == GS_ASSUMED_REGISTERS) {
        gs_text_add(text, "the answer holds from %lld to %lld%s", (long long)assumed->least, (long long)assumed->most,
                    assumed->kernels > 2 ? " for one of them" : "");
    } else if (assumed->most) {
        gs_text_add(text, "the answer holds up to ");
        gs_text_put_grouped(text, assumed->most);
        gs_text_add(text, " bytes%s", assumed->kernels > 1 ? " for one of them" : "");
    } else {
        gs_text_add(text, "1 byte%s gives another answer", assumed->kernels > 1 ? " for one of them" : "");
    }
}

static void put_assumptions(gs_text *text, const gs_check_answer *answer) {
    for (size_t i = 0; i < answer->assumptions.count; i++) {
        const gs_assumed *assumed = &answer->assumptions.data[i];
        gs_text_add(text, "assumed: ");
        gs_run_put_assumed_kind(answer->run, assumed->kind, text);
        gs_text_add(text, "; ");
        put_range(text, answer, assumed);
        gs_text_add(text, " (give %c)\n", gs_assumed_letter(assumed->kind));
    }
}

/* "if nccl has at most 64 registers a thread: ": the registers decide the answer. */
static void put_condition(gs_text *text, const gs_check_answer *answer) {
    const gs_assumed *assumed = &answer->assumptions.data[0];
    gs_text_add(text, "not known; if ");
    gs_run_put_assumed_kernels(answer->run, assumed->kind, text);
    gs_text_add(text, assumed->kernels > 2 ? " have " : assumed->kernels > 1 ? " each have " : " has ");
    if (assumed->kernels > 2)
        gs_text_add(text, "%lld", (long long)assumed->value);
    else if (assumed->least > GS_LEAST_ASSUMED_REGISTERS)
        gs_text_add(text, "from %lld to %lld", (long long)assumed->least, (long long)assumed->most);
    else
        gs_text_add(text, "at most %lld", (long long)assumed->most);
    gs_text_add(text, " registers a thread: ");
}

/* ---- orders ---- */

static void put_order(gs_text *text, const gs_run *run, const gs_order *order) {
    for (size_t i = 0; i < order->count; i++)
        gs_text_add(text, "%s%s", i ? ", then " : "", run->launches.data[order->data[i]].kernel);
}

/* "if k2 is launched first": the orders that work. False: no rule describes them. */
static bool put_rule(gs_text *text, const gs_run *run, const gs_orders *orders) {
    const gs_launch *launches = run->launches.data;
    const char *kernel = run->launches.count ? launches[orders->launch].kernel : "";
    switch (orders->rule) {
    case GS_ORDERS_FIRST:
        gs_text_add(text, "if %s is launched first", kernel);
        return true;
    case GS_ORDERS_LAST:
        gs_text_add(text, "if %s is launched last", kernel);
        return true;
    case GS_ORDERS_BEFORE:
        gs_text_add(text, "if %s is launched before %s", kernel, launches[orders->other].kernel);
        return true;
    case GS_ORDERS_SOME:
        gs_text_add(text, "in %zu of %zu launch orders", orders->working, orders->tried);
        return true;
    default:
        return false;
    }
}

static void put_no(gs_text *text, const gs_check_answer *answer) {
    const gs_check *check = &answer->check;
    const gs_launch *launches = answer->run->launches.data;
    if (check->smallest.order.count == 1)
        gs_text_add(text, "no, not even %s alone", launches[check->smallest.order.data[0]].kernel);
    else if (check->order_is_fixed)
        gs_text_add(text, "no");
    else if (check->none_works || answer->orders.rule == GS_ORDERS_NONE)
        gs_text_add(text, "no, in no launch order");
    else
        gs_text_add(text, "no, not in this launch order");
    if (check->works.count || answer->orders.working) {
        gs_text_add(text, "; yes, ");
        if (!put_rule(text, answer->run, &answer->orders))
            gs_text_add(text, "in another");
    }
}

/* Under a condition, nothing is said of other orders: other values were tried in this one. */
static void put_together(gs_text *text, const gs_check_answer *answer) {
    const gs_check *check = &answer->check;
    gs_text_style(text,
                  check->in_this_order == GS_ANSWER_YES && !answer->is_conditional ? GS_STYLE_GOOD : GS_STYLE_BAD);
    gs_text_add(text, "together: ");
    if (answer->is_conditional)
        put_condition(text, answer);
    if (check->in_this_order != GS_ANSWER_YES) {
        put_no(text, answer);
    } else if (check->order_is_fixed) {
        gs_text_add(text, "yes, in the order of the file");
    } else if (answer->is_conditional && is_of_this_order(answer)) {
        gs_text_add(text, "yes, in this launch order");
    } else if (check->in_any_order == GS_ANSWER_YES) {
        gs_text_add(text, "yes, in every launch order");
    } else {
        bool not_always = check->in_any_order == GS_ANSWER_NO;
        gs_text_add(text, "yes, in this launch order%s", not_always ? ", but not in every one: only " : "");
        if (not_always && !put_rule(text, answer->run, &answer->orders))
            gs_text_add(text, "in some");
    }
    gs_text_style(text, GS_STYLE_PLAIN);
    gs_text_add(text, "\n");
}

/* ---- conflicts ---- */

static void put_conflict(gs_text *text, const gs_conflict *conflict) {
    gs_text_add(text, "  %s\n", conflict->why.data);
    if (conflict->numbers.count)
        gs_text_add(text, "  %s\n", conflict->numbers.data);
}

static bool same_text(const gs_text *a, const gs_text *b) {
    return a->count == b->count && memcmp(a->data, b->data, a->count) == 0;
}

/* A cooperative launch of more blocks than fit fails at once; any other launch waits forever. */
static void put_alone(gs_text *text, const gs_run *run, const gs_conflict *smallest) {
    const gs_launch *launch = &run->launches.data[smallest->order.data[0]];
    bool is_green = run->green_contexts.count && launch->issue.facts && launch->issue.facts->green_context >= 0;
    gs_text_add(text, "  an empty %s takes ", is_green ? "green context" : "GPU");
    gs_text_put_grouped(text, smallest->room);
    gs_text_add(text, " block%s of %s: %s (cudaErrorCooperativeLaunchTooLarge)\n", smallest->room == 1 ? "" : "s",
                launch->kernel,
                is_cooperative(launch) ? "its cooperative launch fails" : "a cooperative launch of more fails");
}

static void put_smallest(gs_text *text, const gs_run *run, const gs_check *check) {
    const gs_conflict *smallest = &check->smallest;
    if (!smallest->order.count)
        return;
    if (smallest->order.count > 1 || run->launches.count > 1) {
        gs_text_add(text, check->is_least ? "  the fewest kernels that fail: " : "  a minimal set that fails: ");
        put_order(text, run, &smallest->order);
        gs_text_add(text, "\n");
    }
    if (!check->here.why.count || !same_text(&smallest->why, &check->here.why))
        put_conflict(text, smallest);
    if (smallest->order.count == 1)
        put_alone(text, run, smallest);
}

static void put_any_order(gs_text *text, const gs_run *run, const gs_check *check) {
    if (check->order_is_fixed)
        gs_text_add(text, "in any order:  not searched, because exits or dependencies in the file fix its order\n");
    else if (check->in_any_order == GS_ANSWER_YES)
        gs_text_add(text, "in any order:  yes\n");
    else if (check->in_any_order == GS_ANSWER_NO)
        gs_text_add(text, "in any order:  no\n");
    else
        gs_text_add(text,
                    "in any order:  not known: any %zu of the kernels fit in every order, and for more the budget ran "
                    "out (--budget)\n",
                    check->searched);
    put_smallest(text, run, check);
    if (check->works.count) {
        gs_text_add(text, "an order that works: ");
        put_order(text, run, &check->works);
        gs_text_add(text, "\n");
    } else if (check->none_works && run->launches.count > 1) {
        gs_text_add(text, "no order works\n");
    }
}

/* ---- fixes ---- */

static void put_fix(gs_text *text, const gs_check_answer *answer, const gs_fix *fix) {
    gs_text_add(text, "  %-9s  ", gs_fix_kind_name(fix->changes[0].kind));
    for (size_t i = 0; i < fix->count; i++) {
        gs_text_add(text, "%s", i ? ", and " : "");
        gs_change_text(answer->gpu, answer->run, fix, i, text);
    }
    gs_text_add(text, "\n");
}

/* Puts all fixes if there are few, otherwise the smallest of each kind. The fixes are sorted. */
static void put_fix_list(gs_text *text, const gs_check_answer *answer) {
    const gs_fixes *fixes = &answer->fixes;
    bool all = fixes->count <= MOST_FIXES;
    size_t left_out = 0;
    for (size_t i = 0; i < fixes->count; i++) {
        bool is_smallest = !i || fixes->data[i].changes[0].kind != fixes->data[i - 1].changes[0].kind;
        if (all || is_smallest)
            put_fix(text, answer, &fixes->data[i]);
        else
            left_out++;
    }
    if (left_out)
        gs_text_add(text, "  and %zu more of these kinds (--json)\n", left_out);
}

static void put_unfinished(gs_text *text, const gs_fixes *fixes) {
    const char *separator = "the budget ran out (--budget) in the search for: ";
    for (int kind = 0; kind < GS_FIX_KINDS; kind++)
        if (fixes->unfinished >> kind & 1) {
            gs_text_add(text, "%s%s", separator, gs_fix_kind_name(kind));
            separator = ", ";
        }
    if (fixes->unfinished)
        gs_text_add(text, "\n");
}

/* What was searched, and no more: other kinds of fixes, which the user left out, and what the budget did not reach may
   be enough. */
static void put_no_single(gs_text *text, const gs_check_answer *answer) {
    const gs_fixes *fixes = &answer->fixes;
    const char *kinds = answer->all_kinds ? "" : " of these kinds";
    bool has_pair = fixes->count, all_pairs = fixes->combinations_finished;
    if (!fixes->unfinished && !has_pair && all_pairs) {
        gs_text_add(text, "no change%s, and no combination of two changes, is enough\n", kinds);
        return;
    }
    gs_text_add(text,
                fixes->unfinished ? "no single change%s that is enough was found within the budget"
                                  : "no single change%s is enough",
                kinds);
    if (has_pair)
        gs_text_add(text, "; the smallest combination of two changes %sis:\n",
                    all_pairs ? "" : "that was found within the budget (--budget) ");
    else
        gs_text_add(text, ", and no combination of two changes %s\n",
                    all_pairs ? "is enough" : "was found within the budget (--budget)");
}

static void put_fixes(gs_text *text, const gs_check_answer *answer) {
    const gs_fixes *fixes = &answer->fixes;
    if (answer->too_many)
        gs_text_add(text, "fixes are not searched, because too many kernels are in the conflict\n");
    if (!answer->has_fixes)
        return;
    if (fixes->count && fixes->data[0].count == 1)
        gs_text_add(text, "fixes, each of which is enough%s:\n", answer->every_order ? " in every launch order" : "");
    else
        put_no_single(text, answer);
    put_fix_list(text, answer);
    put_unfinished(text, fixes);
}

void gs_put_check(const gs_check_answer *answer, gs_text *text) {
    const gs_check *check = &answer->check;
    put_heading(text, answer->gpu, answer->run);
    put_assumptions(text, answer);
    put_together(text, answer);
    if (check->in_this_order == GS_ANSWER_YES) {
        gs_text_add(text, "in this order: yes, no block waits\n");
    } else {
        gs_text_add(text, "in this order: no\n");
        put_conflict(text, &check->here);
    }
    put_any_order(text, answer->run, check);
    put_fixes(text, answer);
}

/* ---- for programs ---- */

static void write_order(gs_writer *writer, const char *key, const gs_run *run, const gs_order *order) {
    gs_write_array(writer, key);
    for (size_t i = 0; i < order->count; i++)
        gs_write_string(writer, NULL, run->launches.data[order->data[i]].kernel);
    gs_write_end(writer);
}

static void write_conflict(gs_writer *writer, const char *key, const gs_run *run, const gs_conflict *conflict) {
    if (!conflict->order.count) {
        gs_write_null(writer, key);
        return;
    }
    gs_write_object(writer, key);
    write_order(writer, "kernels", run, &conflict->order);
    gs_write_int(writer, "waiting_blocks", conflict->waiting);
    gs_write_string(writer, "why", conflict->why.data);
    gs_write_string(writer, "numbers", conflict->numbers.count ? conflict->numbers.data : NULL);
    gs_write_end(writer);
}

static void write_answer(gs_writer *writer, const char *key, gs_answer answer) {
    if (answer == GS_ANSWER_UNKNOWN)
        gs_write_null(writer, key);
    else
        gs_write_bool(writer, key, answer == GS_ANSWER_YES);
}

static const char *const rule_names[] = {
    [GS_ORDERS_UNKNOWN] = NULL, [GS_ORDERS_ALL] = "all",       [GS_ORDERS_NONE] = "none", [GS_ORDERS_FIRST] = "first",
    [GS_ORDERS_LAST] = "last",  [GS_ORDERS_BEFORE] = "before", [GS_ORDERS_SOME] = "some",
};

static void write_orders(gs_writer *writer, const gs_run *run, const gs_orders *orders) {
    if (orders->rule == GS_ORDERS_UNKNOWN) {
        gs_write_null(writer, "orders");
        return;
    }
    bool has_kernel =
        orders->rule == GS_ORDERS_FIRST || orders->rule == GS_ORDERS_LAST || orders->rule == GS_ORDERS_BEFORE;
    gs_write_object(writer, "orders");
    gs_write_uint(writer, "tried", orders->tried);
    gs_write_uint(writer, "working", orders->working);
    gs_write_string(writer, "rule", rule_names[orders->rule]);
    gs_write_string(writer, "kernel", has_kernel ? run->launches.data[orders->launch].kernel : NULL);
    gs_write_string(writer, "other",
                    orders->rule == GS_ORDERS_BEFORE ? run->launches.data[orders->other].kernel : NULL);
    gs_write_end(writer);
}

static void write_change(gs_writer *writer, const gs_check_answer *answer, const gs_fix *fix, size_t number) {
    const gs_change *change = &fix->changes[number];
    gs_text words = {0};
    gs_change_text(answer->gpu, answer->run, fix, number, &words);
    gs_write_object(writer, NULL);
    gs_write_string(writer, "kind", gs_fix_kind_name(change->kind));
    gs_write_string(writer, "kernel",
                    change->launch == SIZE_MAX ? NULL : answer->run->launches.data[change->launch].kernel);
    gs_write_int(writer, "from", change->from);
    gs_write_int(writer, "to", change->to);
    write_answer(writer, "is_limit", change->is_limit);
    gs_write_string(writer, "words", words.data ? words.data : "");
    gs_write_end(writer);
    gs_text_free(&words);
}

static void write_fix(gs_writer *writer, const gs_check_answer *answer, const gs_fix *fix) {
    gs_write_object(writer, NULL);
    gs_write_real(writer, "cost", (double)fix->cost / 1e6, 6);
    gs_write_array(writer, "changes");
    for (size_t i = 0; i < fix->count; i++)
        write_change(writer, answer, fix, i);
    gs_write_end(writer);
    if (fix->order.count)
        write_order(writer, "order", answer->run, &fix->order);
    else
        gs_write_null(writer, "order");
    gs_write_end(writer);
}

static void write_fixes(gs_writer *writer, const gs_check_answer *answer) {
    gs_write_array(writer, "fixes");
    for (size_t i = 0; i < answer->fixes.count; i++)
        write_fix(writer, answer, &answer->fixes.data[i]);
    gs_write_end(writer);
    gs_write_array(writer, "fixes_unfinished");
    for (int kind = 0; kind < GS_FIX_KINDS; kind++)
        if (answer->fixes.unfinished >> kind & 1)
            gs_write_string(writer, NULL, gs_fix_kind_name(kind));
    if (answer->fixes.combinations_searched && !answer->fixes.combinations_finished)
        gs_write_string(writer, NULL, "pairs");
    gs_write_end(writer);
}

/* With `least` and `most` only if other values were tried. */
static void write_assumptions(gs_writer *writer, const gs_check_answer *answer) {
    static const char *const names[] = {"registers", "shared_bytes", "local_bytes"};
    const gs_run *run = answer->run;
    gs_write_array(writer, "assumptions");
    for (size_t i = 0; i < answer->assumptions.count; i++) {
        const gs_assumed *assumed = &answer->assumptions.data[i];
        gs_write_object(writer, NULL);
        gs_write_string(writer, "what", names[assumed->kind]);
        gs_write_array(writer, "kernels");
        for (size_t j = 0; j < run->launches.count; j++)
            if (run->launches.data[j].assumed >> assumed->kind & 1)
                gs_write_string(writer, NULL, run->launches.data[j].kernel);
        gs_write_end(writer);
        gs_write_int(writer, "value", assumed->value);
        if (assumed->is_tried && (assumed->decides || assumed->is_capped)) {
            gs_write_int(writer, "least", assumed->least);
            gs_write_int(writer, "most", assumed->most);
        }
        if (assumed->is_tried)
            gs_write_bool(writer, "decides", assumed->decides);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

void gs_put_check_json(const gs_check_answer *answer, gs_text *text) {
    gs_writer writer = gs_writer_to(text);
    const gs_run *run = answer->run;
    const gs_check *check = &answer->check;
    gs_write_document(&writer, "gridsmith.check/2");
    if (run->has_id)
        gs_write_int(&writer, "id", run->id);
    gs_write_string(&writer, "gpu", answer->gpu->name);
    gs_write_int(&writer, "sms", answer->gpu->sms);
    gs_write_optional(&writer, "assumed", answer->gpu->assumed);
    gs_write_bool(&writer, "works", answer->works);
    write_answer(&writer, "in_this_order", check->in_this_order);
    write_answer(&writer, "in_any_order", check->order_is_fixed ? GS_ANSWER_UNKNOWN : check->in_any_order);
    write_conflict(&writer, "conflict", run, &check->here);
    write_conflict(&writer, "smallest", run, &check->smallest);
    gs_write_bool(&writer, "smallest_is_least", check->is_least);
    if (check->works.count || check->none_works)
        write_order(&writer, "working_order", run, &check->works);
    else
        gs_write_null(&writer, "working_order");
    write_orders(&writer, run, &answer->orders);
    write_assumptions(&writer, answer);
    write_fixes(&writer, answer);
    gs_write_finish(&writer);
}
