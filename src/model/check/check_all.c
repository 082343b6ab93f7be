/*
 * check_all.c: whether kernels are resident together, in which orders, under which assumptions, and what would help:
 * the complete answer of `gridsmith check` and of the library.
 */
#include "check.h"

enum { MOST_CHANGED = 32 }; /* with more kernels, only those of the smallest conflict are changed */

static gs_code find_fixes(const gs_fix_options *options, gs_check_answer *answer, gs_error *error) {
    bool many = answer->run->launches.count > MOST_CHANGED;
    gs_fix_options fix = *options;
    fix.among = many ? &answer->check.smallest.order : NULL;
    fix.known_order = &answer->check.works;
    if (answer->works || answer->is_conditional || !fix.kinds)
        return GS_OK;
    answer->too_many = many && answer->check.smallest.order.count > MOST_CHANGED;
    if (answer->too_many)
        return GS_OK;
    answer->has_fixes = true;
    answer->all_kinds = fix.kinds == (1u << GS_FIX_KINDS) - 1;
    return gs_fix_run(answer->gpu, answer->run, &fix, &answer->fixes, error);
}

gs_code gs_check_all(const gs_gpu *gpu, const gs_run *run, const gs_fix_options *options, gs_check_answer *answer,
                     gs_error *error) {
    *answer = (gs_check_answer){.gpu = gpu, .run = run};
    const gs_check *check = &answer->check;
    gs_code code = gs_check_run(gpu, run, options->budget, options->progress, &answer->check, error);
    if (code == GS_OK)
        code = gs_orders_that_work(gpu, run, &answer->orders, error);
    answer->every_order = options->every_order && !check->order_is_fixed;
    answer->works = (answer->every_order ? check->in_any_order : check->in_this_order) == GS_ANSWER_YES;
    gs_assumed_question question = {answer->every_order, answer->works, options->budget};
    if (code == GS_OK)
        code = gs_assumed_find(gpu, run, &question, &answer->assumptions, error);
    answer->is_conditional = answer->works && gs_assumed_decide(&answer->assumptions);
    answer->works = answer->works && !answer->is_conditional;
    return code == GS_OK ? find_fixes(options, answer, error) : code;
}

void gs_check_answer_clear(gs_check_answer *answer) {
    gs_check_clear(&answer->check);
    gs_fixes_clear(&answer->fixes);
}
