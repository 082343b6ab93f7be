/*
 * ptx_form.c: makes the persistent or confined form of a kernel: a second entry, with the text of the original and a
 * block loop around its body. See ptx_loop.h.
 *
 * Only the necessary parts of the body are changed: %ctaid and %nctaid are those of the current block, a return goes to
 * the next block, and barriers and masks are changed as ptx_examine.c and ptx_lanes.c decide.
 */
#include "ptx_facts.h"

#include <stdlib.h>

enum { MANY_REGISTERS = 64 };

/* ---- the body ---- */

/* %ctaid.y becomes %gs_y. For %nctaid.y the grid is loaded before the statement. */
static void replace_specials(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement,
                             const gs_ptx_operand *operand, gs_edits *edits) {
    const gs_ptx_module *module = kernel->module;
    size_t at = gs_ptx_token_begin(module, operand->first), length = gs_ptx_token_end(module, operand->last) - at;
    if (operand->kind == GS_PTX_SPECIAL && operand->value == GS_PTX_CTAID) {
        gs_edits_add(edits, at, length, "%%gs_%c", operand->part);
        gs_ptx_widen_move(module, statement, edits);
    } else if (gs_ptx_reads_shared_size(operand) && kernel->loop.is_behind) {
        gs_edits_add(edits, gs_ptx_token_begin(module, statement->first), 0,
                     "ld.param.u32 %%gs_grid3, [gs_job+%u];\n\t", gs_block_loop_shared_at(&kernel->loop));
        gs_edits_add(edits, at, length, "%%gs_grid3");
        gs_ptx_widen_move(module, statement, edits);
    } else if (operand->kind == GS_PTX_SPECIAL && operand->value == GS_PTX_NCTAID) {
        int number = operand->part - 'x';
        gs_edits_add(edits, gs_ptx_token_begin(module, statement->first), 0,
                     "ld.param.u32 %%gs_grid%d, [gs_job+%d];\n\t", number, 4 * number);
        gs_edits_add(edits, at, length, "%%gs_grid%d", number);
        gs_ptx_widen_move(module, statement, edits);
    }
    for (uint32_t i = 0; i < operand->count; i++)
        replace_specials(kernel, statement, &module->operands.data[operand->children + i], edits);
}

static void replace_return(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_edits *edits) {
    size_t at = gs_ptx_token_begin(kernel->module, statement->word),
           end = gs_ptx_token_end(kernel->module, statement->last);
    gs_edits_add(edits, at, end - at, "bra $gs_next;");
}

/* The text of a guard, with the blank behind it. */
static int guard_length(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    return (int)(gs_ptx_token_begin(module, statement->word) - gs_ptx_token_begin(module, statement->first));
}

/* Puts an instruction behind a statement, with its guard. */
static void put_guarded(const gs_ptx_module *module, const gs_ptx_statement *statement, const char *text,
                        gs_edits *edits) {
    gs_edits_add(edits, gs_ptx_token_end(module, statement->last), 0, "\n\t%.*s%s;", guard_length(module, statement),
                 module->text + gs_ptx_token_begin(module, statement->first), text);
}

/* Adds the votes of a barrier to the counter of this interval, before it. "And" counts votes against. */
static void add_votes(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_edits *edits) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_operand *vote = &module->operands.data[statement->operands + 2];
    const gs_ptx_token *predicate = &module->tokens.data[vote->last];
    const char *text = module->text, *added = GS_PTX_VOTES_AT;
    size_t at = gs_ptx_token_begin(module, statement->first);
    bool is_negated = vote->is_negated != gs_ptx_has(module, statement, "and");
    if (vote->kind == GS_PTX_INTEGER)
        gs_edits_add(edits, at, 0, "%.*sred.shared.add.u32 [%s], %d;\n\t", guard_length(module, statement), text + at,
                     added, (vote->bits != 0) != is_negated);
    else if (statement->guard == GS_PTX_NONE)
        gs_edits_add(edits, at, 0, "@%s%.*s red.shared.add.u32 [%s], 1;\n\t", is_negated ? "!" : "",
                     (int)predicate->length, text + predicate->at, added);
    else
        gs_edits_add(edits, at, 0, "selp.u32 %%gs_votes, %d, %d, %.*s;\n\t%.*sred.shared.add.u32 [%s], %%gs_votes;\n\t",
                     !is_negated, is_negated, (int)predicate->length, text + predicate->at,
                     guard_length(module, statement), text + at, added);
}

/* If exited threads wait, a barrier is not aligned, and ends an interval. Barriers that vote count the votes in shared
   memory: threads of a warp that are at different places cannot vote in one barrier. The result of a vote is how much
   the counter has grown since this thread read it last. It is written last, because it may be in the guard. */
static void replace_barrier(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_edits *edits) {
    const gs_ptx_module *module = kernel->module;
    size_t word = gs_ptx_token_begin(module, statement->word), end = gs_ptx_token_end(module, statement->last);
    bool is_vote = gs_ptx_row(statement)->result == GS_PTX_OF_BARRIER;
    bool is_all = gs_ptx_has(module, statement, "and"), is_any = gs_ptx_has(module, statement, "or");
    if (!kernel->loop.exited_threads_wait || statement->count != (is_vote ? 3 : 1))
        return;
    if (is_vote)
        add_votes(kernel, statement, edits);
    gs_edits_add(edits, word, end - word, "barrier.sync %u;", kernel->loop.barrier);
    if (is_vote)
        put_guarded(module, statement, "ld.volatile.shared.u32 %gs_votes, [" GS_PTX_VOTES_AT "]", edits);
    else if (kernel->loop.has_votes)
        put_guarded(module, statement, "mov.u32 %gs_votes, %gs_seen", edits);
    if (kernel->loop.has_votes) {
        put_guarded(module, statement, "sub.u32 %gs_grown, %gs_votes, %gs_seen", edits);
        put_guarded(module, statement, "mov.u32 %gs_seen, %gs_last", edits);
        put_guarded(module, statement, "mov.u32 %gs_last, %gs_votes", edits);
    }
    put_guarded(module, statement, "xor.b32 %gs_phase, %gs_phase, 4", edits);
    if (is_vote) {
        const gs_ptx_token *result = &module->tokens.data[module->operands.data[statement->operands].first];
        char text[GS_PTX_SYMBOL_MOST];
        snprintf(text, sizeof text, "%s %.*s, %%gs_grown%s",
                 is_all   ? "setp.eq.u32"
                 : is_any ? "setp.ne.u32"
                          : "mov.u32",
                 (int)result->length, module->text + result->at, is_all || is_any ? ", 0" : "");
        put_guarded(module, statement, text, edits);
    }
}

/* %gs_p7: it is true, and so is the guard of the statement. */
static void add_guard(const gs_ptx_module *module, const gs_ptx_statement *statement, gs_edits *edits) {
    const gs_ptx_token *guard = &module->tokens.data[statement->first + 1 + statement->guard_is_negated];
    if (statement->guard != GS_PTX_NONE)
        gs_edits_add(edits, gs_ptx_token_begin(module, statement->first), 0,
                     statement->guard_is_negated ? "not.pred %%gs_p6, %.*s;\n\tand.pred %%gs_p7, %%gs_p7, %%gs_p6;\n\t"
                                                 : "and.pred %%gs_p7, %%gs_p7, %.*s;\n\t",
                     (int)guard->length, module->text + guard->at);
}

/* The first lane counts its warp before it comes to a barrier that may be left with arrivals. */
static void count_arrivals(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_edits *edits) {
    const gs_ptx_module *module = kernel->module;
    bool is_vote = gs_ptx_row(statement)->result == GS_PTX_OF_BARRIER;
    const gs_ptx_operand *id = &module->operands.data[statement->operands + is_vote];
    size_t at = gs_ptx_token_begin(module, statement->first);
    if (statement->count <= (is_vote ? 3u : 1u) || id->kind != GS_PTX_INTEGER ||
        !(kernel->loop.arrivals >> id->bits & 1))
        return;
    gs_edits_add(edits, at, 0, "mov.u32 %%gs_r9, %%laneid;\n\tsetp.eq.u32 %%gs_p7, %%gs_r9, 0;\n\t");
    add_guard(module, statement, edits);
    gs_edits_add(edits, at, 0,
                 "and.b32 %%gs_r9, %%gs_place, 0x7ff80;\n\t@%%gs_p7 red.shared.add.u32 [%%gs_r9+%u], 32;\n\t",
                 gs_block_loop_arrivals_at(&kernel->loop, (uint32_t)id->bits));
}

/* Invalidates the mbarrier that the block before has left. */
static void replace_mbarrier(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_edits *edits) {
    const gs_ptx_module *module = kernel->module;
    if (!gs_ptx_has(module, statement, "init") || !statement->count)
        return;
    const gs_ptx_operand *address = &module->operands.data[statement->operands];
    size_t at = gs_ptx_token_begin(module, address->first), length = gs_ptx_token_end(module, address->last) - at;
    gs_edits_add(edits, gs_ptx_token_begin(module, statement->first), 0, "setp.ne.u32 %%gs_p7, %%gs_again, 0;\n\t");
    add_guard(module, statement, edits);
    gs_edits_add(edits, gs_ptx_token_begin(module, statement->first), 0, "@%%gs_p7 mbarrier.inval.shared.b64 %.*s;\n\t",
                 (int)length, module->text + at);
}

static void replace_instruction(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_edits *edits) {
    const gs_ptx_module *module = kernel->module;
    size_t at = gs_ptx_token_begin(module, statement->first), end = gs_ptx_token_end(module, statement->last);
    for (uint32_t i = 0; i < statement->count; i++)
        replace_specials(kernel, statement, &module->operands.data[statement->operands + i], edits);
    if (statement->opcode == GS_PTX_RETURN || statement->opcode == GS_PTX_EXIT)
        replace_return(kernel, statement, edits);
    else if (statement->opcode == GS_PTX_CALL)
        gs_ptx_replace_call(kernel, statement, edits);
    else if (statement->opcode == GS_PTX_BARRIER && kernel->loop.arrivals)
        count_arrivals(kernel, statement, edits);
    else if (statement->opcode == GS_PTX_BARRIER)
        replace_barrier(kernel, statement, edits);
    else if (statement->opcode == GS_PTX_MBARRIER && kernel->loop.has_mbarriers)
        replace_mbarrier(kernel, statement, edits);
    else if (statement->opcode == GS_PTX_DEPENDENT && gs_ptx_has(module, statement, "launch_dependents"))
        gs_edits_add(edits, at, end - at, "{ }"); /* dependents are launched when the kernel ends */
}

static gs_code change_body(const gs_ptx_kernel *kernel, gs_edits *edits, gs_error *error) {
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = &kernel->module->statements.data[function->statements + i];
        if (statement->kind == GS_PTX_INSTRUCTION)
            replace_instruction(kernel, statement, edits);
    }
    uint32_t masks;
    return kernel->has_warp_steps ? gs_ptx_add_lanes(kernel, edits, &masks, error) : GS_OK;
}

/* ---- the entry ---- */

/* Whether the source limits the registers. */
static bool has_limit(const gs_ptx_module *module, const gs_ptx_function *function) {
    for (uint32_t i = function->name; i < function->open; i++)
        if (gs_ptx_token_is(module, i, ".maxnreg"))
            return true;
    return false;
}

static void change_head(const gs_ptx_kernel *kernel, uint32_t max_registers, gs_edits *edits) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[kernel->function];
    gs_text parameter = {0};
    gs_edits_add(edits, gs_ptx_token_end(module, function->name), 0, "__%s", gs_form_name(kernel->loop.form));
    bool has_list = function->parameter_close != GS_PTX_NONE;
    gs_text_add(&parameter, "%s", !has_list ? "(\n" : function->parameter_count ? ",\n" : "\n");
    gs_block_loop_parameter(&parameter, &kernel->loop);
    gs_text_add(&parameter, "%s", has_list ? "\n" : "\n)");
    size_t at =
        has_list ? gs_ptx_token_begin(module, function->parameter_close) : gs_ptx_token_end(module, function->name);
    gs_edits_put(edits, at, 0, parameter.data ? parameter.data : "", parameter.count);
    edits->failed = edits->failed || parameter.failed;
    gs_text_free(&parameter);
    if (max_registers && !has_limit(module, function))
        gs_edits_add(edits, gs_ptx_token_begin(module, function->open), 0, ".maxnreg %u\n", max_registers);
}

/* Finds the parts of %ctaid that an operand reads. */
static void find_reads(const gs_ptx_module *module, const gs_ptx_operand *operand, bool *reads) {
    if (operand->kind == GS_PTX_SPECIAL && operand->value == GS_PTX_CTAID && operand->part >= 'x' &&
        operand->part <= 'z')
        reads[operand->part - 'x'] = true;
    for (uint32_t i = 0; i < operand->count; i++)
        find_reads(module, &module->operands.data[operand->children + i], reads);
}

static void examine_reads(gs_ptx_kernel *kernel, uint32_t max_registers) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[kernel->function];
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = &module->statements.data[function->statements + i];
        for (uint32_t k = 0; statement->kind == GS_PTX_INSTRUCTION && k < statement->count; k++)
            find_reads(module, &module->operands.data[statement->operands + k], kernel->loop.reads_block);
    }
    bool has_redux = strncmp(module->target, "sm_", 3) == 0 && atoi(module->target + 3) >= 80;
    kernel->loop.is_uniform = has_redux && max_registers > MANY_REGISTERS;
}

/* The place after the declarations at the beginning of the body. */
static size_t begin_of_body(const gs_ptx_kernel *kernel) {
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    const gs_ptx_statement *statements = &kernel->module->statements.data[function->statements];
    uint32_t last = 0; /* the brace */
    while (last + 1 < function->statement_count && statements[last + 1].kind == GS_PTX_DECLARATION)
        last++;
    return gs_ptx_token_end(kernel->module, statements[last].last);
}

static void add_loop(const gs_ptx_kernel *kernel, gs_edits *edits) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[kernel->function];
    gs_text begin = {0}, end = {0};
    gs_block_loop_begin(&begin, &kernel->loop);
    gs_block_loop_end(&end, &kernel->loop);
    edits->failed = edits->failed || begin.failed || end.failed;
    if (!edits->failed) {
        gs_edits_put(edits, begin_of_body(kernel), 0, begin.data, begin.count);
        gs_edits_put(edits, gs_ptx_token_begin(module, function->close), 0, end.data, end.count);
    }
    gs_text_free(&begin);
    gs_text_free(&end);
}

const char *gs_ptx_form_misfit(const gs_ptx_form *form, const uint32_t grid[3], const uint32_t block[3]) {
    if (form->needs_whole_rows && block[0] % 32)
        return "its form needs blocks that are a multiple of 32 threads wide";
    if (form->needs_one_row && grid[1] * (uint64_t)grid[2] > 1)
        return "its form needs a grid of one row";
    if (form->needs_one_layer && grid[2] > 1)
        return "its form needs a grid of one layer: its z must be 1";
    if ((uint64_t)grid[0] * grid[1] * grid[2] <= form->most_blocks)
        return NULL;
    return form->most_blocks == GS_JOB_BLOCKS ? "its form may have at most 2^30 blocks"
                                              : "the grid is too large: an index by which it waits may wrap around "
                                                "(most_blocks of reshape --list --json)";
}

gs_code gs_ptx_reshape(const gs_ptx_module *module, uint32_t function, const gs_ptx_options *options, gs_text *into,
                       gs_ptx_form *form, gs_error *error) {
    gs_ptx_kernel kernel = {.module = module, .function = function};
    gs_edits edits = {0};
    gs_code code = gs_ptx_kernel_examine(&kernel, options, error);
    if (code == GS_OK && form)
        *form = (gs_ptx_form){.needs_whole_rows = kernel.loop.needs_whole_rows,
                              .needs_one_row = kernel.loop.needs_one_row,
                              .needs_one_layer = kernel.loop.needs_one_layer,
                              .most_blocks = kernel.loop.most_blocks,
                              .needs_queue = kernel.loop.is_ordered,
                              .takes_single = kernel.loop.takes_single,
                              .needs_shared = kernel.loop.is_behind ? GS_JOB_SHARED : 0,
                              .exited_threads_wait = kernel.loop.exited_threads_wait,
                              .reduces_masks = kernel.has_warp_steps,
                              .warps_are_independent = kernel.loop.warps_are_independent};
    if (code == GS_OK && into) {
        const gs_ptx_function *found = &module->functions.data[function];
        char name[GS_PTX_SYMBOL_MOST];
        gs_text ours = {0};
        gs_text_add(&ours, "%s" GS_LOOP_NAMES "ours",
                    gs_ptx_form_symbol(module, function, options->form, name, sizeof name));
        kernel.loop.ours = ours.failed ? "" : ours.data;
        examine_reads(&kernel, options->max_registers);
        change_head(&kernel, options->max_registers, &edits);
        add_loop(&kernel, &edits);
        code = change_body(&kernel, &edits, error);
        gs_text_add(into, "\n");
        gs_block_loop_declare(into, &kernel.loop);
        if (code == GS_OK)
            code = gs_ptx_put_copies(&kernel, into, error);
        if (code == GS_OK) {
            gs_text_add(into, "\n");
            bool is_done = gs_edits_apply(&edits, module->text, gs_ptx_token_begin(module, found->first),
                                          gs_ptx_token_end(module, found->last), into);
            gs_text_add(into, "\n");
            code = is_done && !into->failed && !ours.failed ? GS_OK : gs_fail_memory(error);
        }
        gs_text_free(&ours);
    }
    gs_edits_free(&edits);
    gs_ptx_kernel_free(&kernel);
    return code;
}
