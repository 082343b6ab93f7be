/*
 * facts.c: all that the analyses of a kernel know. See facts.h.
 */
#include "facts.h"

#include "answers.h"
#include "kernels/forms/forms.h"
#include "kernels/forms/ptx_wait_facts.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ACCESSES = 10, MOST_GIVEN = 6 };

/* A statement that accesses memory, with its address as a sum: exactly, at most and at least. */
struct access {
    const gs_ptx_statement *statement;
    const gs_ptx_operand *address;
    gs_linear sums[3];
    gs_linear_origin origin;
    int64_t bytes;
};

struct facts {
    uint64_t hash;
    gs_ptx_module module;
    gs_ptx_kernel kernel;
    gs_ptx_loop loop;
    struct access accesses[MOST_ACCESSES];
    int access_count;
};

static void add(struct facts *facts, int64_t value) {
    facts->hash = answers_add(facts->hash, value);
}

static const gs_ptx_function *function_of(const struct facts *facts) {
    return &facts->module.functions.data[facts->kernel.function];
}

/* ---- operands ---- */

static void add_sum(struct facts *facts, const gs_linear *sum) {
    add(facts, sum->is_known);
    if (!sum->is_known)
        return;
    int64_t is = gs_linear_is_number(sum) | gs_linear_is_positive(sum) << 1 | gs_linear_is_same_everywhere(sum) << 2 |
                 gs_linear_is_same_in_thread(sum) << 3;
    add(facts, is);
    add(facts, sum->lost);
    add(facts, (int64_t)sum->step);
    add(facts, sum->number);
    add(facts, (int64_t)gs_linear_most(sum, 1 << 16));
    for (int i = 0; i < sum->count; i++) {
        facts->hash = gs_hash(facts->hash, sum->terms[i].factors, sizeof sum->terms[i].factors);
        add(facts, sum->terms[i].times);
    }
}

static void add_operand(struct facts *facts, uint32_t statement, const gs_ptx_operand *operand) {
    uint64_t low, high;
    for (int side = GS_LINEAR_EXACT; side <= GS_LINEAR_AT_LEAST; side++) {
        gs_linear sum = gs_linear_value(&facts->kernel, operand, (gs_linear_side)side);
        add_sum(facts, &sum);
    }
    bool has_range = gs_ptx_range(&facts->kernel, statement, operand, &low, &high);
    add(facts, has_range);
    if (has_range)
        facts->hash = answers_add(answers_add(facts->hash, (int64_t)low), (int64_t)high);
    if (operand->kind == GS_PTX_REGISTER)
        add(facts, gs_ptx_original(&facts->kernel, operand) - facts->module.operands.data);
}

/* ---- accesses ---- */

static void add_origin(struct facts *facts, const gs_linear_origin *origin) {
    const gs_ptx_kernel *kernel = &facts->kernel;
    add(facts, origin->is_unknown);
    if (!origin->is_unknown)
        facts->hash = gs_hash(facts->hash, origin->symbols, (size_t)origin->count * sizeof origin->symbols[0]);
    add(facts, gs_linear_is_of_variables(origin));
    add(facts, gs_linear_is_private(kernel, origin));
    add(facts, gs_linear_may_be_private(kernel, origin));
}

static void note_access(struct facts *facts, const gs_ptx_statement *statement) {
    const gs_ptx_kernel *kernel = &facts->kernel;
    const gs_ptx_operand *read = gs_ptx_address_of(kernel, statement, false),
                         *written = gs_ptx_address_of(kernel, statement, true);
    if ((!read && !written) || facts->access_count == MOST_ACCESSES)
        return;
    struct access *access = &facts->accesses[facts->access_count++];
    *access = (struct access){
        .statement = statement, .address = read ? read : written, .bytes = gs_ptx_bytes_of(kernel, statement)};
    for (int side = GS_LINEAR_EXACT; side <= GS_LINEAR_AT_LEAST; side++) {
        access->sums[side] = gs_linear_value(kernel, access->address, (gs_linear_side)side);
        add_sum(facts, &access->sums[side]);
    }
    access->origin = gs_linear_origin_of(kernel, access->address);
    add_origin(facts, &access->origin);
    add(facts, access->bytes);
    add(facts, gs_ptx_element_bytes(kernel, statement));
    add(facts, gs_ptx_end_of_store(kernel, statement));
    add(facts, gs_ptx_sign_added(kernel, statement));
    add(facts, gs_ptx_only_reads(kernel, statement));
    add(facts, gs_ptx_has_whole_registers(kernel, statement));
}

static void add_pair(struct facts *facts, const struct access *one, const struct access *other) {
    static const gs_linear_sizes usual[] = {{4, 4, 64, 4}, {8, 4, 0, UINT64_MAX}, {1, 1, 1024, 1}};
    add(facts, gs_linear_is_equal(&one->sums[0], &other->sums[0]));
    add(facts, gs_linear_share_origin(&one->origin, &other->origin));
    add(facts, gs_linear_are_apart(&facts->kernel, one->address, one->bytes, other->address, other->bytes));
    for (size_t i = 0; i < GS_COUNT(usual); i++) {
        uint32_t most = 0;
        add(facts, gs_linear_order_of(&one->sums[1], &other->sums[2], usual[i], NULL, 0, &most));
        add(facts, most);
    }
    add(facts, gs_ptx_may_meet(&facts->loop, one->statement, other->statement));
    add(facts, gs_ptx_is_same_word(&facts->loop, one->statement, other->statement));
}

/* ---- loops ---- */

static void add_replays(struct facts *facts, const gs_ptx_statement *read) {
    static const gs_ptx_fact results[] = {{GS_FACT_IS, 0},    {GS_FACT_IS, 1},    {GS_FACT_IS_NOT, 0}, {GS_FACT_SET, 1},
                                          {GS_FACT_CLEAR, 1}, {GS_FACT_SAME, 0},  {GS_FACT_OTHER, 0},  {GS_FACT_ANY, 0},
                                          {GS_FACT_LARGE, 1}, {GS_FACT_SMALL, 1}, {GS_FACT_MIXED, 0}};
    const gs_ptx_loop *loop = &facts->loop;
    const gs_ptx_operand *result = gs_ptx_operand_at(&facts->kernel, read, 0);
    for (size_t i = 0; i < GS_COUNT(results); i++) {
        gs_ptx_given given = {read, results[i]};
        int64_t ways = gs_ptx_may_return(loop, read, &given, 1, NULL) |
                       gs_ptx_may_leave(loop, read, &given, 1, NULL) << 1 |
                       gs_ptx_may_run_again(loop, read, &given, 1) << 2 | gs_ptx_may_run(loop, read, &given, 1) << 3;
        if (result && result->kind == GS_PTX_REGISTER)
            ways |= gs_ptx_may_return(loop, read, &given, 1, result) << 4;
        add(facts, ways);
    }
}

static void add_poll(struct facts *facts, const gs_ptx_statement *read) {
    gs_ptx_poll poll = {.loop = &facts->loop, .read = read};
    uint32_t at = GS_PTX_NONE;
    bool is_safe = gs_ptx_poll_is_safe(&poll);
    add(facts, is_safe);
    add(facts, poll.awaits_lower | poll.awaits_begun << 1 | poll.awaits_outside << 2);
    if (is_safe)
        facts->hash = answers_add(answers_add(facts->hash, poll.order), poll.most_blocks);
    else
        add(facts, poll.in_way ? (int64_t)gs_ptx_number_of(&facts->kernel, poll.in_way) : -1);
    for (const gs_ptx_statement *write; (write = gs_ptx_next_writer(&facts->loop, read, &at));)
        add(facts, gs_ptx_number_of(&facts->kernel, write));
}

static void add_statement_of_loop(struct facts *facts, uint32_t number) {
    const gs_ptx_statement *statement = gs_ptx_statement_at(&facts->kernel, number);
    const gs_ptx_loop *loop = &facts->loop;
    if (statement->kind != GS_PTX_INSTRUCTION)
        return;
    add(facts, gs_ptx_runs_always(loop, statement) | gs_ptx_reads_anew(loop, statement) << 1 |
                   gs_ptx_reads_changing(loop, statement) << 2);
    for (uint32_t i = 0; i < statement->count; i++) {
        const gs_ptx_operand *operand = gs_ptx_operand_at(&facts->kernel, statement, i);
        add(facts, gs_ptx_is_steady(loop, operand) | gs_ptx_is_kept(loop, operand) << 1);
    }
}

/* All registers and statements count as those on which the end of the loop depends. */
static void add_loop(struct facts *facts, uint32_t head) {
    gs_ptx_loop *loop = &facts->loop;
    const gs_ptx_flow *flow = &facts->kernel.flow;
    gs_error error = {.code = GS_OK};
    int given = 0;
    add(facts, head);
    if (gs_ptx_loop_decide(loop, &error) != GS_OK)
        return;
    memset(loop->wanted, true, function_of(facts)->register_count);
    memset(loop->wanted_statements, true, function_of(facts)->statement_count);
    add(facts, loop->joins | loop->synchronizes << 1 | gs_ptx_loop_counts(loop) << 2);
    for (size_t i = 0; i < loop->decisions.count; i++)
        add(facts, loop->decisions.data[i]);
    for (uint32_t b = 0; b < flow->blocks.count; b++) {
        add(facts, loop->within[b] | gs_ptx_loop_ends_at(loop, b) << 1);
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *statement = gs_ptx_statement_at(&facts->kernel, i);
            add_statement_of_loop(facts, i);
            if (!gs_ptx_reads_changing(loop, statement) || given++ >= MOST_GIVEN)
                continue;
            add_replays(facts, statement);
            add_poll(facts, statement);
        }
    }
    for (int i = 0; i < facts->access_count; i++)
        for (int k = 0; k < facts->access_count; k++)
            add(facts, gs_ptx_is_same_word_within(loop, facts->accesses[i].statement, facts->accesses[k].statement));
}

static void add_loops(struct facts *facts) {
    const gs_ptx_flow *flow = &facts->kernel.flow;
    bool *is_head = calloc(flow->blocks.count + 1, sizeof *is_head);
    assert_non_null(is_head);
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = 0; i < gs_ptx_successor_count(flow, b); i++)
            if (gs_ptx_leads_back(&facts->loop, b, gs_ptx_successor(flow, b, i)))
                is_head[gs_ptx_successor(flow, b, i)] = true;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        if (is_head[b] && gs_ptx_loop_collect(&facts->loop, b))
            add_loop(facts, b);
    free(is_head);
}

/* ---- kernels ---- */

static void add_kernel(struct facts *facts) {
    const gs_ptx_function *function = function_of(facts);
    gs_error error = {.code = GS_OK};
    for (uint32_t i = function->statements; i < function->statements + function->statement_count; i++) {
        const gs_ptx_statement *statement = gs_ptx_statement_at(&facts->kernel, i);
        if (statement->kind != GS_PTX_INSTRUCTION)
            continue;
        add(facts, gs_ptx_scope_at(&facts->kernel, i));
        for (uint32_t k = 0; k < statement->count; k++)
            add_operand(facts, i, gs_ptx_operand_at(&facts->kernel, statement, k));
        note_access(facts, statement);
    }
    if (gs_ptx_loop_init(&facts->loop, &facts->kernel, &error) == GS_OK) {
        for (int i = 0; i < facts->access_count; i++) {
            const gs_ptx_access *access = gs_ptx_access_of(&facts->loop, facts->accesses[i].statement);
            add(facts, access->reads | access->writes << 8);
            facts->hash = answers_add(answers_add(facts->hash, access->place), access->offset);
            add(facts, access->end);
            for (int k = 0; k < facts->access_count; k++)
                add_pair(facts, &facts->accesses[i], &facts->accesses[k]);
        }
        add_loops(facts);
    }
    gs_ptx_loop_free(&facts->loop);
}

/* The forms, with options that are not the usual ones. */
static void add_forms(struct facts *facts, uint32_t function) {
    for (int form = GS_FORM_PERSISTENT; form <= GS_FORM_CONFINED; form++) {
        gs_ptx_options options = {
            .form = (enum gs_form)form, .task_blocks = 3, .max_registers = 40, .counts_blocks = true};
        gs_error error = {.code = GS_OK};
        gs_ptx_form made = {.needs_shared = 0};
        gs_text into = {0};
        if (gs_ptx_reshape(&facts->module, function, &options, &into, &made, &error) == GS_OK) {
            facts->hash = answers_add_text(facts->hash, &into);
            add(facts, made.most_blocks);
            add(facts, made.takes_single | made.needs_queue << 1);
        } else {
            facts->hash = gs_hash(facts->hash, error.message, strlen(error.message));
        }
        gs_text_free(&into);
    }
}

static void add_entry(struct facts *facts, uint32_t function) {
    gs_error error = {.code = GS_OK};
    gs_ptx_options options = {.form = GS_FORM_PERSISTENT, .looks_back = true};
    add_forms(facts, function);
    facts->kernel = (gs_ptx_kernel){.module = &facts->module, .function = function};
    if (gs_ptx_kernel_examine(&facts->kernel, &options, &error) == GS_OK)
        add_kernel(facts);
    else
        facts->hash = gs_hash(facts->hash + (uint64_t)error.line, error.message, strlen(error.message));
    gs_ptx_kernel_free(&facts->kernel);
}

uint64_t facts_of(const gs_text *text, const char *symbol) {
    struct facts *facts = calloc(1, sizeof *facts);
    assert_non_null(facts);
    if (gs_ptx_read(&facts->module, "k.ptx", text->data, text->count, NULL) == GS_OK) {
        int function = gs_ptx_find_function(&facts->module, symbol);
        if (function >= 0 && facts->module.functions.data[function].is_defined)
            add_entry(facts, (uint32_t)function);
        gs_ptx_free(&facts->module);
    }
    uint64_t hash = facts->hash;
    free(facts);
    return hash;
}
