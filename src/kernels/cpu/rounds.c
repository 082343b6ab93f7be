/*
 * rounds.c: how many rounds the loops of a PTX kernel have for the input of a launch, and which of its lines no thread
 * comes to, counted on the CPU.
 *
 * A branch to a label before it makes a loop. Each such label gets a counter: set to 0 where the code in front of the
 * label runs into it, and added to behind the label. The largest count of all threads is kept in memory that an added
 * parameter points to. Where a branch from elsewhere leads into a loop, its counter goes on from the last time; then
 * the count is larger than the rounds.
 *
 * Machine code has lines only, and compilers join loops and copy branches. So a loop has lines, from its label to its
 * branch back, and a depth: the number of loops that it is in, with itself. Its rounds are known where these say which
 * loop it is: it has one branch back, which has a line for itself; no other loop begins at its label, or has only a
 * part of its statements; and no statement from elsewhere is in its first or last line.
 *
 * A piece of the code begins at a label, and behind what may leave the code: a branch, a call, a return. Each thread
 * that comes to it sets its mark, in the words behind the counters. In front of a branch each thread sets one of two
 * marks, for the way that it goes.
 *
 * The GPU goes the same ways if the conditions of branches do not depend on what it may compute otherwise;
 * rounds_exact.c refuses the others.
 */
#include "rounds.h"
#include "launch.h"

#include <stdlib.h>

/* The label before statement `branch` that it leads to; GS_PTX_NONE: it leads forward. */
static uint32_t label_before(const struct gs_counting *counting, uint32_t branch) {
    for (uint32_t i = 0; i < branch; i++)
        if (gs_counting_leads_to(counting, branch, i))
            return i;
    return GS_PTX_NONE;
}

static gs_code find_loops(struct gs_counting *counting) {
    uint32_t count = counting->function->statement_count;
    counting->labels = calloc(count + 1, sizeof *counting->labels);
    counting->counter_of = calloc(count + 1, sizeof *counting->counter_of);
    counting->branches = calloc(count + 1, sizeof *counting->branches);
    if (!counting->labels || !counting->counter_of || !counting->branches)
        return gs_fail_memory(counting->error);
    for (uint32_t i = 0; i < count; i++) {
        const gs_ptx_statement *statement = gs_counting_statement(counting, i);
        bool is_branch = statement->kind == GS_PTX_INSTRUCTION && statement->opcode == GS_PTX_BRANCH;
        uint32_t label = is_branch && statement->count ? label_before(counting, i) : GS_PTX_NONE;
        if (label == GS_PTX_NONE)
            continue;
        size_t counter = 0;
        while (counter < counting->labels_count && counting->labels[counter] != label)
            counter++;
        if (counter == counting->labels_count)
            counting->labels[counting->labels_count++] = label;
        counting->counter_of[counting->list->count] = (uint32_t)counter;
        counting->branches[counting->list->count] = i;
        if (!GS_PUSH(counting->list, (gs_loop_rounds){0}))
            return gs_fail_memory(counting->error);
        counting->loops = counting->list->count;
    }
    return GS_OK;
}

static bool may_leave(const gs_ptx_statement *statement) {
    return statement->kind == GS_PTX_INSTRUCTION && statement->opcode >= GS_PTX_BRANCH &&
           statement->opcode <= GS_PTX_EXIT;
}

static gs_code find_pieces(struct gs_counting *counting) {
    uint32_t count = counting->function->statement_count;
    counting->piece_of = calloc(count + 1, sizeof *counting->piece_of);
    if (!counting->piece_of)
        return gs_fail_memory(counting->error);
    for (uint32_t i = 0; i < count; i++) {
        bool begins = gs_counting_statement(counting, i)->kind == GS_PTX_LABEL ||
                      (i && may_leave(gs_counting_statement(counting, i - 1)));
        counting->pieces += begins;
        counting->piece_of[i] = (uint32_t)counting->pieces;
    }
    counting->pieces++;
    return GS_OK;
}

static bool is_conditional(const gs_ptx_statement *statement) {
    return statement->kind == GS_PTX_INSTRUCTION && statement->opcode == GS_PTX_BRANCH &&
           statement->guard != GS_PTX_NONE;
}

/* Sets a word to 1, where there is a condition only if that holds. The word is read first: threads on several cores
   that write it all the time would keep each other waiting. */
static void add_mark(gs_edits *edits, size_t at, size_t word, const char *condition) {
    gs_edits_add(edits, at, 0,
                 "\nld.global.u32 %%gs_rounds_seen, [%%gs_rounds_at+%zu];\n"
                 "setp.eq%s.u32 %%gs_rounds_is_new, %%gs_rounds_seen, 0%s%s;\n"
                 "@%%gs_rounds_is_new st.global.u32 [%%gs_rounds_at+%zu], %%gs_rounds_one;\n",
                 4 * word, condition ? ".and" : "", condition ? ", " : "", condition ? condition : "", 4 * word);
}

/* Marks of the way that a thread goes at a branch. */
static void add_way_marks(const struct gs_counting *counting, gs_edits *edits, uint32_t number) {
    const gs_ptx_module *module = counting->module;
    const gs_ptx_statement *statement = gs_counting_statement(counting, number);
    char condition[GS_PTX_SYMBOL_MOST + 1] = "!";
    size_t at = module->tokens.data[statement->first].at, word = gs_counting_ways_at(counting, number);
    gs_ptx_token_text(module, statement->first + 1 + statement->guard_is_negated, condition + 1, GS_PTX_SYMBOL_MOST);
    add_mark(edits, at, word, condition + 1);
    add_mark(edits, at, word + 1, condition);
}

/* Behind a label; if that is the name of a table of branches, behind the table. */
static size_t behind_label(const struct gs_counting *counting, uint32_t number) {
    const gs_ptx_module *module = counting->module;
    uint32_t table = gs_ptx_table_of(module, counting->function->statements + number);
    const gs_ptx_statement *last =
        table == GS_PTX_NONE ? gs_counting_statement(counting, number) : &module->statements.data[table];
    return gs_ptx_token_end(module, last->last);
}

/* Marks at the begin of each piece, and at branches. */
static void add_marks(const struct gs_counting *counting, gs_edits *edits) {
    const gs_ptx_module *module = counting->module;
    for (uint32_t i = 1; i < counting->function->statement_count; i++) {
        const gs_ptx_statement *statement = gs_counting_statement(counting, i);
        bool is_label = statement->kind == GS_PTX_LABEL;
        if (counting->piece_of[i] != counting->piece_of[i - 1])
            add_mark(edits, is_label ? behind_label(counting, i) : module->tokens.data[statement->first].at,
                     counting->labels_count + counting->piece_of[i], NULL);
        if (is_conditional(statement))
            add_way_marks(counting, edits, i);
    }
}

/* The text with counters. */
static bool add_counters(const struct gs_counting *counting, gs_text *text) {
    const gs_ptx_module *module = counting->module;
    const gs_ptx_function *function = counting->function;
    gs_edits edits = {0};
    gs_edits_add(&edits, module->tokens.data[function->parameter_close].at, 0, "%s.param .u64 gs_rounds",
                 function->parameter_count ? ", " : "");
    gs_edits_add(&edits, gs_ptx_token_end(module, function->open), 0,
                 "\n.reg .b64 %%gs_rounds_at;\n.reg .b32 %%gs_rounds_one, %%gs_rounds_seen;\n"
                 ".reg .b32 %%gs_rounds_<%zu>;\n.reg .pred %%gs_rounds_is_new;\n"
                 "ld.param.u64 %%gs_rounds_at, [gs_rounds];\ncvta.to.global.u64 %%gs_rounds_at, %%gs_rounds_at;\n"
                 "mov.u32 %%gs_rounds_one, 1;\n",
                 counting->labels_count + 1);
    for (size_t i = 0; i < counting->labels_count; i++)
        gs_edits_add(&edits, gs_ptx_token_end(module, function->open), 0, "mov.u32 %%gs_rounds_%zu, 0;\n", i);
    gs_accesses_add_present(counting, &edits, gs_ptx_token_end(module, function->open), GS_PTX_NONE);
    for (uint32_t i = 0; i < function->statement_count; i++)
        for (size_t counter = 0; counter < counting->labels_count; counter++) {
            const gs_ptx_statement *label = gs_counting_statement(counting, i);
            if (counting->labels[counter] != i)
                continue;
            gs_edits_add(&edits, module->tokens.data[label->first].at, 0, "\nmov.u32 %%gs_rounds_%zu, 0;\n", counter);
            gs_edits_add(&edits, gs_ptx_token_end(module, label->last), 0,
                         "\nadd.u32 %%gs_rounds_%zu, %%gs_rounds_%zu, 1;\n"
                         "ld.global.u32 %%gs_rounds_seen, [%%gs_rounds_at+%zu];\n"
                         "setp.lt.u32 %%gs_rounds_is_new, %%gs_rounds_seen, %%gs_rounds_%zu;\n"
                         "@%%gs_rounds_is_new red.global.max.u32 [%%gs_rounds_at+%zu], %%gs_rounds_%zu;\n",
                         counter, counter, counter * 4, counter, counter * 4, counter);
            gs_accesses_add_present(counting, &edits, gs_ptx_token_end(module, label->last), i);
        }
    add_marks(counting, &edits);
    gs_accesses_add(counting, &edits);
    bool is_applied = gs_edits_apply(&edits, module->text, 0, module->size, text);
    gs_edits_free(&edits);
    return is_applied && !text->failed;
}

/* ---- the run ---- */

static gs_code add_arguments(const gs_launch_file *launch, gs_work *work, void **buffers, gs_error *error) {
    for (size_t i = 0; i < launch->arguments.count; i++) {
        const gs_launch_argument *argument = &launch->arguments.data[i];
        size_t bytes = (size_t)argument->count * gs_scalar_bytes(argument->type);
        if (!argument->is_buffer) {
            gs_work_pass(work, argument->value, gs_scalar_bytes(argument->type));
            continue;
        }
        buffers[i] = malloc(bytes + 1);
        if (!buffers[i])
            return gs_fail_memory(error);
        gs_launch_fill(argument, buffers[i]);
        gs_work_pass_buffer(work, gs_work_buffer(work, buffers[i], bytes));
    }
    return GS_OK;
}

static bool is_instruction(const struct gs_counting *counting, uint32_t statement) {
    return gs_counting_statement(counting, statement)->kind == GS_PTX_INSTRUCTION;
}

/* Whether no other loop begins at the label of this one: all others are around it, in it, or apart. */
static bool is_apart(const struct gs_counting *counting, size_t row) {
    uint32_t label = counting->labels[counting->counter_of[row]], branch = counting->branches[row];
    for (size_t i = 0; i < counting->list->count; i++) {
        uint32_t other = counting->labels[counting->counter_of[i]], end = counting->branches[i];
        uint32_t between = other < label ? other : label, to = other < label ? label : other;
        while (between < to && !is_instruction(counting, between))
            between++;
        bool is_same_place = between == to;
        bool is_split = other < label ? label < end && end < branch : other < branch && branch < end;
        if (i != row && (is_same_place || is_split))
            return false;
    }
    return true;
}

/* Whether its lines say which loop it is. */
static bool is_clear(const struct gs_counting *counting, size_t row, const uint32_t *lines) {
    const gs_loop_rounds *loop = &counting->list->data[row];
    uint32_t count = counting->function->statement_count;
    uint32_t label = counting->labels[counting->counter_of[row]], branch = counting->branches[row];
    for (uint32_t i = 0; i < count; i++) {
        bool is_within = i >= label && i <= branch;
        bool has_line = lines[i] <= loop->line && lines[count + i] >= loop->line;
        bool has_first = lines[i] <= loop->first && lines[count + i] >= loop->first;
        if (gs_counting_statement(counting, i)->opcode == GS_PTX_BRANCH_TABLE && is_instruction(counting, i))
            return false;
        if (is_instruction(counting, i) && ((!is_within && (has_line || has_first)) ||
                                            (i != branch && has_line && may_leave(gs_counting_statement(counting, i)))))
            return false;
    }
    return lines[count + branch] == loop->line && is_apart(counting, row);
}

static gs_code keep_rounds(const struct gs_counting *counting, const uint32_t *counts) {
    gs_loop_rounds_list *list = counting->list;
    uint32_t count = counting->function->statement_count, *lines = gs_counting_lines(counting);
    for (size_t i = 0; lines && i < list->count; i++) {
        list->data[i].line = lines[counting->branches[i]];
        list->data[i].first = lines[counting->labels[counting->counter_of[i]]];
        list->data[i].last = lines[count + counting->branches[i]];
    }
    for (size_t i = 0; lines && i < list->count; i++) {
        uint32_t label = counting->labels[counting->counter_of[i]], branch = counting->branches[i];
        list->data[i].is_known = is_clear(counting, i, lines);
        list->data[i].rounds = (int64_t)counts[counting->counter_of[i]] +
                               gs_counting_is_entered(counting, label, branch, label + 1); /* behind its label */
        for (size_t j = 0; j < list->count; j++)
            list->data[i].depth +=
                counting->labels[counting->counter_of[j]] <= label && counting->branches[j] >= branch;
    }
    gs_code code = lines ? GS_OK : gs_fail_memory(counting->error);
    free(lines);
    return code;
}

/* Lines that have statements, of pieces only that no thread came to. A statement that is in several lines, as a call,
 * has all of them. */
static gs_code keep_never(const struct gs_counting *counting, const uint32_t *marks) {
    uint32_t count = counting->function->statement_count, *lines = gs_counting_lines(counting);
    uint32_t most = 0, last = 0;
    gs_code code = lines ? GS_OK : gs_fail_memory(counting->error);
    for (uint32_t i = 0; lines && i < count; i++)
        most = lines[count + i] > most ? lines[count + i] : most;
    bool *is_passed = calloc((size_t)most + 1, 1);
    if (code == GS_OK && !is_passed)
        code = gs_fail_memory(counting->error);
    for (uint32_t i = 0; code == GS_OK && i < count; i++)
        for (uint32_t line = lines[i]; line <= lines[count + i]; line++)
            is_passed[line] = is_passed[line] || !counting->piece_of[i] || marks[counting->piece_of[i]];
    for (uint32_t i = 0; code == GS_OK && i < count; i++)
        for (uint32_t line = lines[i]; line <= lines[count + i]; line++) {
            bool is_new = line > last;
            last = is_new ? line : last;
            if (is_new && !is_passed[line] &&
                !GS_PUSH(counting->list, (gs_loop_rounds){.line = line, .is_never = true}))
                code = gs_fail_memory(counting->error);
        }
    free(is_passed);
    free(lines);
    return code;
}

/* Lines of branches of which none was left both ways. */
static gs_code keep_one_way(const struct gs_counting *counting, const uint32_t *counts) {
    uint32_t count = counting->function->statement_count, *lines = gs_counting_lines(counting), last = 0;
    gs_code code = lines ? GS_OK : gs_fail_memory(counting->error);
    for (uint32_t i = 0; code == GS_OK && i < count; i++) {
        if (!is_conditional(gs_counting_statement(counting, i)) || lines[i] == last)
            continue;
        bool is_one_way = true;
        last = lines[i];
        for (uint32_t j = i; j < count && lines[j] == last; j++)
            is_one_way = is_one_way &&
                         !(is_conditional(gs_counting_statement(counting, j)) &&
                           counts[gs_counting_ways_at(counting, j)] && counts[gs_counting_ways_at(counting, j) + 1]);
        if (is_one_way && !GS_PUSH(counting->list, (gs_loop_rounds){.line = last, .is_one_way = true}))
            code = gs_fail_memory(counting->error);
    }
    free(lines);
    return code;
}

/* Only what threads come to on the CPU counts: up to the first branch that may go another way, a GPU comes to the same.
 */
static gs_code check_exact(struct gs_counting *counting, const gs_launch_file *launch, const uint32_t *marks) {
    uint32_t count = counting->function->statement_count;
    counting->is_passed = calloc((size_t)count + 1, sizeof *counting->is_passed);
    counting->is_placed = calloc((size_t)count + 1, sizeof *counting->is_placed);
    if (!counting->is_passed || !counting->is_placed)
        return gs_fail_memory(counting->error);
    for (uint32_t i = 0; i < count; i++)
        counting->is_passed[i] = !counting->piece_of[i] || marks[counting->piece_of[i]];
    return gs_rounds_check_exact(counting, launch);
}

/* A run that takes too long is no mistake of the user: the kernel has no bound. */
static gs_code fail_run(const char *symbol, gs_error *error) {
    gs_error reason = *error;
    bool is_timeout = strncmp(reason.message, "timeout", strlen("timeout")) == 0;
    return gs_fail(error, is_timeout ? GS_E_REFUSED : reason.code,
                   "the run of %.100s on the CPU, for its input: %.300s", symbol, reason.message);
}

static gs_code run_counted(struct gs_counting *counting, const gs_launch_file *launch, const char *symbol,
                           uint32_t seconds, gs_text *text) {
    const char *kernels[] = {symbol};
    gs_build build = {
        .name = counting->module->name, .text = text->data, .size = text->count, .kernels = kernels, .kernel_count = 1};
    size_t words = gs_counting_accesses_at(counting) + counting->function->statement_count;
    uint32_t *counts = calloc(words + 1, sizeof *counts);
    void **buffers = calloc(launch->arguments.count + 1, sizeof *buffers);
    gs_executor *executor = counts && buffers ? gs_executor_host(counting->error) : NULL;
    void *module = executor ? executor->ops->compile(executor, &build, counting->error) : NULL;
    gs_work work = {.seconds = seconds};
    gs_code code = module ? GS_OK : counts && buffers ? counting->error->code : gs_fail_memory(counting->error);
    if (code == GS_OK) {
        gs_work_call(&work, symbol, launch->grid, launch->block, (size_t)launch->shared_bytes)->counts = -1;
        code = add_arguments(launch, &work, buffers, counting->error);
        gs_work_pass_buffer(&work, gs_work_buffer(&work, counts, words * sizeof *counts));
    }
    if (code == GS_OK)
        code = executor->ops->run(module, &work, counting->error) == GS_OK ? GS_OK : fail_run(symbol, counting->error);
    if (code == GS_OK)
        code = check_exact(counting, launch, counts + counting->labels_count);
    if (code == GS_OK)
        code = keep_rounds(counting, counts);
    if (code == GS_OK)
        code = keep_never(counting, counts + counting->labels_count);
    if (code == GS_OK)
        code = keep_one_way(counting, counts);
    if (code == GS_OK)
        code = gs_accesses_keep(counting, counts);
    gs_work_free(&work);
    gs_executor_close(executor);
    for (size_t i = 0; buffers && i < launch->arguments.count; i++)
        free(buffers[i]);
    free(buffers);
    free(counts);
    return code;
}

/* What ptxas says of lines must be about those of the text. */
static gs_code check_lines(const gs_ptx_module *module, gs_error *error) {
    if (module->marker_at == SIZE_MAX)
        return GS_OK;
    gs_ptx_fail(module, GS_PTX_NONE, error, GS_E_REFUSED,
                "a line marker gives lines other numbers, so that the run on the CPU does not say which are meant");
    gs_error_place(error, module->text, module->size, module->marker_at, 1, 1);
    return GS_E_REFUSED;
}

gs_code gs_count_rounds(const char *name, const char *text, size_t size, const char *symbol,
                        const gs_launch_file *launch, uint32_t seconds, gs_loop_rounds_list *list, gs_error *error) {
    gs_ptx_module module = {0};
    gs_text counted = {0};
    struct gs_counting counting = {.module = &module, .list = list, .error = error};
    gs_code code = gs_ptx_read(&module, name, text, size, error);
    if (code == GS_OK)
        code = check_lines(&module, error);
    uint32_t entry = code == GS_OK ? gs_ptx_find_entry(&module, symbol) : GS_PTX_NONE;
    if (code == GS_OK && (entry == GS_PTX_NONE || module.functions.data[entry].parameter_close == GS_PTX_NONE))
        code = gs_fail(error, GS_E_USAGE, "the PTX has no kernel %s with parameters", symbol);
    if (code == GS_OK) {
        counting.function = &module.functions.data[entry];
        code = find_loops(&counting);
    }
    if (code == GS_OK)
        code = find_pieces(&counting);
    if (code == GS_OK && !add_counters(&counting, &counted))
        code = gs_fail_memory(error);
    if (code == GS_OK)
        code = run_counted(&counting, launch, symbol, seconds, &counted);
    gs_text_free(&counted);
    free(counting.labels);
    free(counting.counter_of);
    free(counting.branches);
    free(counting.piece_of);
    free(counting.is_passed);
    free(counting.is_placed);
    gs_ptx_free(&module);
    return code;
}
