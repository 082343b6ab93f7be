/*
 * rewrite.c: makes a kernel persistent or confined.
 *
 * First the facts of every definition of the kernel are collected (facts.c), and one plan is made for all of them. Then
 * the edits: the last parameter, the block loop around the body, and if the plan needs it the barriers, the masks of
 * warp operations and the guards that return. Functions outside of the kernel that use blockIdx or gridDim read them
 * from shared memory. Other kernels that call such functions get a line that writes them there, or lose their bodies if
 * only one kernel is to be compiled.
 */
#include "kernels.h"
#include "prelude.h"

#include <stdlib.h>
#include <string.h>

struct rewrite {
    const gs_source *source;
    gs_code_map map;
    const gs_reshape_options *options;
    char name[GS_JOB_NAME]; /* of the kernel, without namespaces and template arguments */
    gs_plan plan;
    bool *uses;      /* units that the kernel reaches */
    bool *in_helper; /* macros that functions outside of kernels use */
    bool *changed;   /* tokens in units that were changed */
    gs_edits edits;
};

static const gs_token *token_at(const struct rewrite *rewrite, uint32_t token) {
    return &rewrite->source->tokens.data[token];
}

static void replace(struct rewrite *rewrite, uint32_t token, const char *text) {
    gs_edits_add(&rewrite->edits, token_at(rewrite, token)->at, token_at(rewrite, token)->length, "%s", text);
}

static void insert_after(struct rewrite *rewrite, uint32_t token, const char *text) {
    gs_edits_add(&rewrite->edits, token_at(rewrite, token)->at + token_at(rewrite, token)->length, 0, "%s", text);
}

static bool is_named(const struct rewrite *rewrite, const gs_kernel_found *kernel) {
    return gs_token_is(rewrite->source, kernel->name, rewrite->name);
}

/* ---- the plan ---- */

static gs_code plan_returns(struct rewrite *rewrite, const gs_facts *facts, gs_error *error) {
    const gs_source *source = rewrite->source;
    gs_plan *plan = &rewrite->plan;
    if (facts->early_return == GS_NO_TOKEN)
        return GS_OK;
    if (facts->opaque_barrier != GS_NO_TOKEN)
        return gs_source_fail(source, facts->early_return, error, GS_E_REFUSED,
                              "a thread may return here while others go on to a barrier that cannot be changed");
    if (facts->opaque_warp != GS_NO_TOKEN || (facts->warp != GS_NO_TOKEN && facts->nested_return != GS_NO_TOKEN))
        return gs_source_fail(source, facts->opaque_warp != GS_NO_TOKEN ? facts->early_return : facts->nested_return,
                              error, GS_E_REFUSED,
                              "a thread may return here while others of its warp go on to a warp operation, "
                              "which would wait for it");
    plan->counts_lanes |= facts->warp != GS_NO_TOKEN;
    if (facts->voting != GS_NO_TOKEN)
        plan->barrier = GS_BARRIER_VOTING;
    else if (facts->barrier != GS_NO_TOKEN && plan->barrier != GS_BARRIER_VOTING)
        plan->barrier = GS_BARRIER_COUNTED;
    return GS_OK;
}

static gs_code plan_definition(struct rewrite *rewrite, const gs_kernel_found *kernel, gs_error *error) {
    gs_facts facts;
    gs_code code = gs_facts_find(&rewrite->map, kernel, rewrite->options->folder, &facts, error);
    if (code == GS_OK)
        code = plan_returns(rewrite, &facts, error);
    rewrite->plan.warps_are_independent &=
        facts.barrier == GS_NO_TOKEN && facts.opaque_barrier == GS_NO_TOKEN && facts.shares == GS_NO_TOKEN;
    for (size_t i = 0; facts.uses && i < rewrite->map.units.count; i++)
        rewrite->uses[i] |= facts.uses[i];
    free(facts.uses);
    return code;
}

/* Refuses a file that launches the kernel, because those launches lack the last parameter. */
static gs_code check_launches(const struct rewrite *rewrite, gs_error *error) {
    const gs_source *source = rewrite->source;
    for (uint32_t i = 0; i + 3 < source->tokens.count; i++) {
        const gs_token *at = token_at(rewrite, i);
        bool is_launch = at[1].mark == '<' && at[2].mark == '<' && at[3].mark == '<' && at[2].at == at[1].at + 1 &&
                         at[3].at == at[2].at + 1;
        uint32_t name = i;
        if (!is_launch)
            continue;
        if (at[0].mark == '>')
            for (int depth = 0; name > 0; name--) {
                depth += token_at(rewrite, name)->mark == '>' ? 1 : token_at(rewrite, name)->mark == '<' ? -1 : 0;
                if (depth == 0)
                    break;
            }
        if (gs_token_is(source, name, rewrite->name) || (name > 0 && gs_token_is(source, name - 1, rewrite->name)))
            return gs_source_fail(source, i, error, GS_E_REFUSED,
                                  "the file launches the kernel itself, without the added parameter");
    }
    return GS_OK;
}

static gs_code fail_unknown(const struct rewrite *rewrite, gs_error *error) {
    gs_text list = {0};
    uint32_t hidden = GS_NO_TOKEN;
    for (size_t i = 0; i < rewrite->map.kernels.count; i++) {
        const gs_kernel_found *kernel = &rewrite->map.kernels.data[i];
        if (kernel->body != GS_NO_TOKEN)
            gs_text_add(&list, "%s%.*s", list.count ? ", " : "", (int)token_at(rewrite, kernel->name)->length,
                        rewrite->source->text + token_at(rewrite, kernel->name)->at);
    }
    for (uint32_t i = 0; i < rewrite->source->tokens.count && hidden == GS_NO_TOKEN; i++)
        if (token_at(rewrite, i)->directive != GS_NO_TOKEN && gs_token_is(rewrite->source, i, "__global__"))
            hidden = i;
    gs_code code = GS_E_USAGE;
    if (hidden != GS_NO_TOKEN)
        code = gs_source_fail(rewrite->source, hidden, error, GS_E_REFUSED,
                              "no kernel %.100s was found, and this macro hides __global__", rewrite->name);
    else
        gs_fail(error, code, "%s has no kernel %.100s; it has: %.200s", rewrite->source->name, rewrite->name,
                list.count ? list.data : "none");
    gs_text_free(&list);
    return code;
}

/* Extracts the name of a kernel: that of "ns::name<arguments>" is "name". */
static bool take_name(struct rewrite *rewrite, const char *kernel) {
    size_t end = strcspn(kernel, "< "), start = end;
    while (start > 0 && kernel[start - 1] != ':')
        start--;
    if (end == start || end - start >= sizeof rewrite->name)
        return false;
    snprintf(rewrite->name, sizeof rewrite->name, "%.*s", (int)(end - start), kernel + start);
    return true;
}

static gs_code make_plan(struct rewrite *rewrite, gs_error *error) {
    gs_code code = GS_OK;
    bool any = false;
    for (size_t i = 0; i < rewrite->map.kernels.count && code == GS_OK; i++) {
        const gs_kernel_found *kernel = &rewrite->map.kernels.data[i];
        if (kernel->body != GS_NO_TOKEN && is_named(rewrite, kernel)) {
            any = true;
            code = plan_definition(rewrite, kernel, error);
        }
    }
    if (code == GS_OK && !any)
        code = fail_unknown(rewrite, error);
    return code == GS_OK ? check_launches(rewrite, error) : code;
}

/* ---- functions outside of the kernel ---- */

static bool is_block_word(const struct rewrite *rewrite, uint32_t token) {
    const char *reason;
    if (gs_word_use_of(rewrite->source, token, &reason) != GS_WORD_BLOCK || token == 0)
        return false;
    char before = token_at(rewrite, token - 1)->mark;
    bool is_qualified = before == 'S' && token > 1 && token_at(rewrite, token - 2)->kind == GS_TOKEN_NAME &&
                        !gs_is_operator_word(rewrite->source, token - 2);
    return before != '.' && before != 'A' && !is_qualified;
}

/* Finds the macros that the tokens name. Returns whether there are new ones. */
static bool find_macros_in(struct rewrite *rewrite, gs_span span) {
    const gs_code_map *map = &rewrite->map;
    bool any = false;
    for (uint32_t i = span.first; i < span.end; i++) {
        if (token_at(rewrite, i)->kind != GS_TOKEN_NAME)
            continue;
        for (uint32_t unit = gs_map_find(map, i); unit != GS_NO_TOKEN; unit = map->units.data[unit].next)
            if (map->units.data[unit].is_macro && !rewrite->in_helper[unit])
                any = rewrite->in_helper[unit] = true;
    }
    return any;
}

/* Finds the macros whose text ends up in functions outside of kernels. */
static void find_macros_in_helpers(struct rewrite *rewrite) {
    gs_code_map *map = &rewrite->map;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < map->units.count; i++) {
            if (rewrite->uses[i] && (!map->units.data[i].is_macro || rewrite->in_helper[i]))
                changed |= find_macros_in(rewrite, map->units.data[i].span);
        }
    }
}

/* Removes the :: of ::blockIdx, which would bypass the variable of the block loop. */
static void drop_global_scope(struct rewrite *rewrite, uint32_t token) {
    if (token_at(rewrite, token - 1)->mark == 'S')
        replace(rewrite, token - 1, "");
}

static void change_block_word(struct rewrite *rewrite, uint32_t token) {
    drop_global_scope(rewrite, token);
    replace(rewrite, token, gs_token_is(rewrite->source, token, "blockIdx") ? "gs_here.gs_block" : "gs_here.gs_grid");
    rewrite->plan.publishes_block = true;
    rewrite->plan.warps_are_independent = false;
    rewrite->changed[token] = true;
}

static void change_barrier(struct rewrite *rewrite, uint32_t token) {
    static const char *const pairs[][2] = {{"__syncthreads", "gs_sync"},
                                           {"__syncthreads_count", "gs_sync_count"},
                                           {"__syncthreads_or", "gs_sync_or"},
                                           {"__syncthreads_and", "gs_sync_and"}};
    for (size_t i = 0; i < GS_COUNT(pairs); i++)
        if (gs_token_is(rewrite->source, token, pairs[i][0]))
            replace(rewrite, token, pairs[i][1]);
    rewrite->changed[token] = true;
}

/* __shfl_sync(MASK, ...) becomes __shfl_sync(gs_lanes(MASK), ...). */
static gs_code change_mask(struct rewrite *rewrite, uint32_t token, gs_error *error) {
    uint32_t open = token + 1;
    if (!gs_opens(rewrite->source, open) || token_at(rewrite, token)->directive != GS_NO_TOKEN)
        return gs_source_fail(rewrite->source, token, error, GS_E_REFUSED,
                              "threads return early, and the mask of this warp operation cannot be determined");
    uint32_t close = token_at(rewrite, open)->match, end = open + 1;
    while (end < close && token_at(rewrite, end)->mark != ',')
        end = (uint32_t)gs_token_after(rewrite->source, end);
    if (end == open + 1) {
        insert_after(rewrite, open, "gs_lanes(0xffffffffu)");
    } else {
        insert_after(rewrite, open, "gs_lanes(");
        insert_after(rewrite, end - 1, ")");
    }
    rewrite->changed[token] = true;
    return GS_OK;
}

/* Changes what must change wherever the kernel can get to: barriers and masks. */
static gs_code change_word(struct rewrite *rewrite, uint32_t token, gs_error *error) {
    const char *reason;
    bool changes_barriers = rewrite->plan.barrier == GS_BARRIER_COUNTED || rewrite->plan.barrier == GS_BARRIER_VOTING;
    gs_word_use use = gs_word_use_of(rewrite->source, token, &reason);
    if (changes_barriers && (use == GS_WORD_BARRIER || use == GS_WORD_VOTING))
        change_barrier(rewrite, token);
    if (rewrite->plan.counts_lanes && use == GS_WORD_WARP)
        return change_mask(rewrite, token, error);
    return GS_OK;
}

static gs_code change_unit(struct rewrite *rewrite, const gs_code_unit *unit, bool is_helper, gs_error *error) {
    gs_code code = GS_OK;
    for (uint32_t i = unit->span.first; i < unit->span.end && code == GS_OK; i++) {
        if (rewrite->changed[i] || (i > unit->span.first && gs_map_kernel_at(&rewrite->map, i)))
            continue; /* a function in a class is a unit too */
        if (is_helper && is_block_word(rewrite, i))
            change_block_word(rewrite, i);
        else
            code = change_word(rewrite, i, error);
    }
    return code;
}

static gs_code change_units(struct rewrite *rewrite, gs_error *error) {
    gs_code code = GS_OK;
    find_macros_in_helpers(rewrite);
    for (uint32_t i = 0; i < rewrite->map.units.count && code == GS_OK; i++) {
        const gs_code_unit *unit = &rewrite->map.units.data[i];
        if (rewrite->uses[i])
            code = change_unit(rewrite, unit, !unit->is_macro || rewrite->in_helper[i], error);
    }
    for (uint32_t i = 0; i < rewrite->source->tokens.count && rewrite->plan.publishes_block && code == GS_OK; i++)
        if (token_at(rewrite, i)->directive != GS_NO_TOKEN && gs_token_is(rewrite->source, i, "__global__"))
            code = gs_source_fail(rewrite->source, i, error, GS_E_REFUSED,
                                  "functions use blockIdx, and kernels hidden by a macro may call them too");
    return code;
}

/* ---- kernels ---- */

/* Adds the last parameter, with a default value if the one before it has one. */
static void add_parameter(struct rewrite *rewrite, uint32_t open) {
    uint32_t close = token_at(rewrite, open)->match;
    const char *type = gs_parameter_type(rewrite->plan.form);
    char text[100];
    bool has_default = false, is_void = close == open + 2 && gs_token_is(rewrite->source, open + 1, "void");
    for (uint32_t i = open + 1; i < close; i++)
        has_default |= token_at(rewrite, i)->mark == '=';
    bool is_empty = close == open + 1 || is_void;
    snprintf(text, sizeof text, "%sconst %s gs_parameter%s%s%s", is_empty ? "" : ", ", type, has_default ? " = " : "",
             has_default ? type : "", has_default ? "()" : "");
    if (is_void)
        replace(rewrite, open + 1, text);
    else
        insert_after(rewrite, close - 1, text);
}

static gs_code change_body(struct rewrite *rewrite, const gs_kernel_found *kernel, gs_error *error) {
    uint32_t end = token_at(rewrite, kernel->body)->match;
    gs_text head = {0}, tail = {0};
    gs_code code = GS_OK;
    gs_put_head(&head, &rewrite->plan);
    gs_put_tail(&tail, &rewrite->plan);
    if (head.failed || tail.failed)
        code = gs_fail_memory(error);
    else
        insert_after(rewrite, kernel->body, head.data);
    for (uint32_t i = kernel->body + 1; i < end && code == GS_OK; i++) {
        if (is_block_word(rewrite, i))
            drop_global_scope(rewrite, i);
        code = change_word(rewrite, i, error);
        uint32_t guard = rewrite->plan.counts_lanes && gs_token_is(rewrite->source, i, "return")
                             ? gs_guard_of(rewrite->source, kernel->body, i)
                             : GS_NO_TOKEN;
        if (guard != GS_NO_TOKEN) {
            insert_after(rewrite, guard, "gs_leaves(");
            gs_edits_add(&rewrite->edits, token_at(rewrite, token_at(rewrite, guard)->match)->at, 0, ")");
        }
    }
    if (code == GS_OK)
        gs_edits_add(&rewrite->edits, token_at(rewrite, end)->at, 0, "%s", tail.data);
    gs_text_free(&head);
    gs_text_free(&tail);
    return code;
}

/* A kernel that calls a changed function must publish its block and activate its lanes. */
static gs_code change_other(struct rewrite *rewrite, const gs_kernel_found *kernel, bool *uses, gs_error *error) {
    gs_code code = gs_facts_reach(&rewrite->map, kernel, false, uses, error);
    bool reaches = false;
    for (uint32_t i = 0; i < rewrite->map.units.count && code == GS_OK; i++)
        for (uint32_t k = rewrite->map.units.data[i].span.first; uses[i] && k < rewrite->map.units.data[i].span.end;
             k++)
            reaches |= rewrite->changed[k];
    if (reaches && rewrite->plan.publishes_block)
        insert_after(rewrite, kernel->body, " gs_publish_block(blockIdx, gridDim);");
    if (reaches && rewrite->plan.counts_lanes)
        insert_after(rewrite, kernel->body, " gs_wake();");
    return code;
}

/* Removes the body of a kernel, unless something in it was changed or it has directives. */
static void drop_body(struct rewrite *rewrite, const gs_kernel_found *kernel) {
    uint32_t end = token_at(rewrite, kernel->body)->match;
    size_t from = token_at(rewrite, kernel->body)->at + 1;
    for (uint32_t i = kernel->body; i < end; i++)
        if (rewrite->changed[i] || token_at(rewrite, i)->directive != GS_NO_TOKEN)
            return;
    gs_edits_add(&rewrite->edits, from, token_at(rewrite, end)->at - from, "%s", "");
}

static gs_code change_kernels(struct rewrite *rewrite, gs_error *error) {
    bool *uses = calloc(rewrite->map.units.count + 1, sizeof *uses);
    bool needs_others = rewrite->plan.publishes_block || rewrite->plan.counts_lanes;
    gs_code code = uses ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; i < rewrite->map.kernels.count && code == GS_OK; i++) {
        const gs_kernel_found *kernel = &rewrite->map.kernels.data[i];
        if (is_named(rewrite, kernel)) {
            add_parameter(rewrite, kernel->open);
            if (kernel->body != GS_NO_TOKEN)
                code = change_body(rewrite, kernel, error);
        } else if (kernel->body != GS_NO_TOKEN && rewrite->options->is_alone) {
            drop_body(rewrite, kernel);
        } else if (kernel->body != GS_NO_TOKEN && needs_others) {
            code = change_other(rewrite, kernel, uses, error);
        }
    }
    free(uses);
    return code;
}

/* ---- all of it ---- */

static gs_code rewrite_all(struct rewrite *rewrite, const char *kernel, gs_text *into, gs_error *error) {
    size_t units = rewrite->map.units.count + 1;
    rewrite->uses = calloc(units, sizeof *rewrite->uses);
    rewrite->in_helper = calloc(units, sizeof *rewrite->in_helper);
    rewrite->changed = calloc(rewrite->source->tokens.count + 1, sizeof *rewrite->changed);
    if (!rewrite->uses || !rewrite->in_helper || !rewrite->changed)
        return gs_fail_memory(error);
    gs_code code = make_plan(rewrite, error);
    if (code == GS_OK)
        code = change_units(rewrite, error);
    if (code == GS_OK)
        code = change_kernels(rewrite, error);
    if (code != GS_OK)
        return code;
    gs_put_prelude(into, rewrite->source->name, kernel, &rewrite->plan);
    return gs_edits_apply(&rewrite->edits, rewrite->source->text, 0, rewrite->source->size, into)
               ? GS_OK
               : gs_fail_memory(error);
}

gs_code gs_reshape(const gs_source *source, const char *kernel, const gs_reshape_options *options, gs_text *into,
                   gs_error *error) {
    struct rewrite rewrite = {
        .source = source,
        .options = options,
        .plan = {.form = options->form, .task_blocks = options->task_blocks, .warps_are_independent = true}};
    if (!take_name(&rewrite, kernel))
        return gs_fail(error, GS_E_USAGE, "\"%.100s\" is not the name of a kernel", kernel);
    gs_code code = gs_map_read(&rewrite.map, source, error);
    if (code == GS_OK)
        code = rewrite_all(&rewrite, kernel, into, error);
    free(rewrite.uses);
    free(rewrite.in_helper);
    free(rewrite.changed);
    gs_edits_free(&rewrite.edits);
    gs_map_free(&rewrite.map);
    return code;
}
