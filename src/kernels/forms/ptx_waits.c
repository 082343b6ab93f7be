/*
 * ptx_waits.c: finds loops that wait for other blocks.
 *
 * A kernel whose blocks wait for each other may need all of them on the GPU at the same time, as a barrier of the whole
 * grid does. A reshaped kernel has fewer worker blocks than the grid has blocks, and would wait forever. So each read
 * of global memory that decides whether a loop goes on, called a poll, must be of a kind that is known to be safe
 * (ptx_progress.c); all others are refused, also if the loop has a limit: then its result would depend on which
 * blocks were there.
 *
 * Values that the end of a loop depends on are called wanted: registers, values in shared and local memory, parameters
 * and results of functions, and the conditions of branches that decide whether these are written. Of a register that is
 * written just before, in the same basic block, only that value counts: compilers reuse registers. A read that makes a
 * wanted value is a poll, if it is one that is done anew each time: an atomic operation, or a volatile, relaxed or
 * acquire load, or one past the first cache; and any read in a loop that synchronizes: it has an acquire or a fence, or
 * a wait for other threads of the block, where the kernel has one of these. Other reads count only if they read the
 * same place in each iteration, and the loop does not write it: `while (*flag == 0);`. There a plain load of what
 * another block writes meanwhile is a data race, and programs that have none do not wait in such a way.
 *
 * A loop may also forward what it reads to a thread that waits in another loop, and that ends the first one in turn:
 * `while (!done) ready = *flag;` beside `while (!ready); done = 1;`. So what is written in one loop is wanted there, if
 * another loop waits for it; so are barriers that only some iterations come to. Loops that end whatever others write
 * forward nothing for long, unless they stop early when others write something.
 */
#include "ptx_wait_facts.h"

#include <stdlib.h>
#include <string.h>

struct search {
    gs_ptx_loop loop;
    bool in_function; /* in a function that the kernel calls, not in the kernel itself */
    bool has_strong;  /* has loads that are never moved out of a loop */
    bool has_changed;
    bool is_ordered;                                 /* blocks wait for lower ones; */
    bool awaits_lower, awaits_begun, awaits_outside; /* see gs_ptx_poll */
    gs_linear_order order;
    uint32_t most_blocks; /* of a grid in which these proofs hold */
    uint32_t proofs;      /* how many polls were examined */
    bool may_forward;     /* a loop reads global memory anew, and writes memory or comes to a barrier */
    bool *awaited;        /* statements: they write what a loop waits for; */
    bool all_awaited;     /* all that write memory may do so: functions wait, or this is one */
    bool forwards;        /* what the loop forwards is wanted, too */
    bool has_more;        /* more statements are awaited than before */
};

/* A kernel with more polls is refused: each takes time. */
enum { MOST_PROOFS = 200, MOST_WORDS = 64 };

enum { OF_BLOCK = GS_PTX_IN_SHARED | GS_PTX_IN_LOCAL };

/* ---- wanted values ---- */

static void want_statement(struct search *search, const gs_ptx_statement *statement) {
    bool *is_wanted = &search->loop.wanted_statements[gs_ptx_place_of(&search->loop, statement)];
    search->has_changed = search->has_changed || !*is_wanted;
    *is_wanted = true;
}

static bool writes_whole(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, uint32_t number) {
    const gs_ptx_operand *result = gs_ptx_operand_at(kernel, statement, 0);
    return statement->guard == GS_PTX_NONE && result->kind == GS_PTX_REGISTER && result->value == number &&
           result->access == GS_PTX_WRITE && !result->part;
}

/* The statement of the same block that wrote the register that `user` reads; NULL: there may be several. */
static const gs_ptx_statement *writer_before(const gs_ptx_kernel *kernel, uint32_t number,
                                             const gs_ptx_statement *user) {
    uint32_t at = gs_ptx_number_of(kernel, user), last = GS_PTX_NONE;
    uint32_t first = kernel->flow.blocks.data[gs_ptx_flow_block(&kernel->flow, at)].first;
    for (uint32_t i = kernel->writer_first[number]; i < kernel->writer_first[number + 1]; i++)
        if (kernel->writers[i] >= first && kernel->writers[i] < at &&
            (last == GS_PTX_NONE || kernel->writers[i] > last))
            last = kernel->writers[i];
    const gs_ptx_statement *writer = last == GS_PTX_NONE ? NULL : gs_ptx_statement_at(kernel, last);
    return writer && writes_whole(kernel, writer, number) ? writer : NULL;
}

/* A register that `user` reads. */
static void want_register(struct search *search, uint32_t number, const gs_ptx_statement *user) {
    if (number == GS_PTX_NONE || search->loop.wanted[number])
        return;
    const gs_ptx_statement *writer = writer_before(search->loop.kernel, number, user);
    if (writer)
        want_statement(search, writer);
    else
        search->loop.wanted[number] = search->has_changed = true;
}

static void want_operand(struct search *search, const gs_ptx_operand *operand, const gs_ptx_statement *user) {
    const gs_ptx_module *module = search->loop.kernel->module;
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_READ)
        want_register(search, operand->value, user);
    for (uint32_t i = 0; i < operand->count; i++)
        want_operand(search, &module->operands.data[operand->children + i], user);
}

static bool operand_writes(const gs_ptx_loop *loop, const gs_ptx_operand *operand) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE && loop->wanted[operand->value])
        return true;
    for (uint32_t i = 0; i < operand->count; i++)
        if (operand_writes(loop, &loop->kernel->module->operands.data[operand->children + i]))
            return true;
    return false;
}

/* Whether a statement writes shared or local memory that is wanted. */
static bool writes_wanted_memory(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    const gs_ptx_access *access = gs_ptx_access_of(loop, statement);
    const uint32_t least = 4; /* bytes of a wanted word */
    if (!loop->wants_memory || !(access->writes & OF_BLOCK))
        return false;
    if (loop->wants_unknown || access->place == GS_PTX_NONE || loop->wanted_places[access->place])
        return true;
    for (size_t i = 0; i < loop->words.count; i++) {
        uint32_t offset = (uint32_t)loop->words.data[i];
        int64_t bytes = gs_ptx_bytes_of(loop->kernel, statement);
        bool is_met = access->offset == GS_PTX_NONE
                          ? access->end > offset
                          : access->offset < (uint64_t)offset + least && offset < access->offset + bytes;
        if (loop->words.data[i] >> 32 == access->place && is_met)
            return true;
    }
    return false;
}

/* Whether a statement writes something that is wanted. */
static bool writes_wanted(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    const gs_ptx_access *access = gs_ptx_access_of(loop, statement);
    if (statement->kind != GS_PTX_INSTRUCTION)
        return false;
    if (writes_wanted_memory(loop, statement) || loop->wanted_statements[gs_ptx_place_of(loop, statement)])
        return true;
    if (loop->wants_carry && gs_ptx_has(loop->kernel->module, statement, "cc"))
        return true;
    if (loop->wants_results && access->writes & GS_PTX_IN_PARAM)
        return true;
    for (uint32_t i = 0; i < statement->count; i++)
        if (operand_writes(loop, gs_ptx_operand_at(loop->kernel, statement, i)))
            return true;
    return false;
}

/* Adds the values that the branch at the end of a block depends on. */
static void want_condition(struct search *search, uint32_t number) {
    const gs_ptx_kernel *kernel = search->loop.kernel;
    const gs_ptx_block *block = &kernel->flow.blocks.data[number];
    const gs_ptx_statement *last = gs_ptx_statement_at(kernel, block->last);
    want_register(search, last->guard, last);
    if (block->target_count)
        want_operand(search, &kernel->module->operands.data[last->operands], last);
}

/* Adds the branches of the loop that decide about a block. `reached` has those that were added. */
static void want_branches(struct search *search, uint32_t block) {
    const gs_ptx_loop *loop = &search->loop;
    for (uint32_t i = loop->decision_first[block]; i < loop->decision_first[block + 1]; i++) {
        uint32_t branch = loop->decisions.data[i];
        if (loop->reached[branch])
            continue;
        loop->reached[branch] = true;
        want_condition(search, branch);
    }
}

static void want_place(struct search *search, const gs_ptx_statement *statement) {
    gs_ptx_loop *loop = &search->loop;
    const gs_ptx_access *access = gs_ptx_access_of(loop, statement);
    int64_t bytes = gs_ptx_bytes_of(loop->kernel, statement);
    bool is_word = access->place != GS_PTX_NONE && access->offset != GS_PTX_NONE && bytes <= 128;
    for (int64_t i = 0; is_word && i < bytes; i += 4) {
        uint64_t word = (uint64_t)access->place << 32 | (uint32_t)(access->offset + i);
        bool is_new = true;
        for (size_t k = 0; k < loop->words.count; k++)
            is_new = is_new && loop->words.data[k] != word;
        is_word = !is_new || (loop->words.count < MOST_WORDS && GS_PUSH(&loop->words, word));
        search->has_changed = search->has_changed || is_new;
    }
    bool *place = access->place == GS_PTX_NONE ? &loop->wants_unknown : &loop->wanted_places[access->place];
    search->has_changed = search->has_changed || (!is_word && !*place);
    *place = *place || !is_word;
    loop->wants_memory = true;
}

/* Adds the writes of the loop from which a read of global memory may have its value. */
static void want_writes(struct search *search, const gs_ptx_statement *read) {
    gs_ptx_loop *loop = &search->loop;
    const gs_ptx_flow *flow = &loop->kernel->flow;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *statement = gs_ptx_statement_at(loop->kernel, i);
            bool is_wanted = loop->wanted_statements[gs_ptx_place_of(loop, statement)];
            if (!is_wanted && statement != read && gs_ptx_may_meet(loop, read, statement))
                want_statement(search, statement);
        }
}

/* Whether a statement reads a parameter of the kernel, which does not change, and not the result of a call. */
static bool reads_own_parameter(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    const gs_ptx_operand *address = gs_ptx_address_of(kernel, statement, false);
    const gs_ptx_operand *named =
        address && address->count == 1 ? &kernel->module->operands.data[address->children] : NULL;
    return named && named->kind == GS_PTX_SYMBOL && named->value >= function->parameters &&
           named->value - function->parameters < function->parameter_count;
}

/* Adds what a statement that writes a wanted value depends on, its addresses included: they decide what is read. */
static void want_inputs(struct search *search, const gs_ptx_statement *statement, uint32_t block) {
    gs_ptx_loop *loop = &search->loop;
    const gs_ptx_access *access = gs_ptx_access_of(loop, statement);
    if (!writes_wanted(loop, statement))
        return;
    want_register(search, statement->guard, statement);
    want_branches(search, block);
    if (access->reads & OF_BLOCK)
        want_place(search, statement);
    if (access->reads & GS_PTX_IN_PARAM && !loop->wants_results && !reads_own_parameter(loop->kernel, statement))
        loop->wants_results = search->has_changed = true;
    if (gs_ptx_math_of(statement) == GS_PTX_MATH_CARRY && !loop->wants_carry)
        loop->wants_carry = search->has_changed = true;
    if (gs_ptx_reads_changing(loop, statement))
        want_writes(search, statement);
    for (uint32_t i = 0; i < statement->count; i++)
        want_operand(search, gs_ptx_operand_at(loop->kernel, statement, i), statement);
}

static void forget_wanted(gs_ptx_loop *loop) {
    const gs_ptx_kernel *kernel = loop->kernel;
    memset(loop->wanted, 0, kernel->module->functions.data[kernel->function].register_count);
    memset(loop->wanted_places, 0, kernel->module->variables.count);
    memset(loop->wanted_statements, 0, kernel->module->functions.data[kernel->function].statement_count);
    memset(loop->reached, 0, kernel->flow.blocks.count);
    loop->words.count = 0;
    loop->wants_memory = loop->wants_unknown = loop->wants_results = loop->wants_carry = false;
}

/* Whether other threads may wait for a statement: for what it writes, or at a barrier. */
static bool is_awaited(const struct search *search, const gs_ptx_statement *statement) {
    const gs_ptx_loop *loop = &search->loop;
    if (statement->kind != GS_PTX_INSTRUCTION)
        return false;
    if (statement->opcode == GS_PTX_BARRIER || gs_ptx_is_warp_step(statement))
        return true;
    return search->awaited[gs_ptx_place_of(loop, statement)] ||
           (search->all_awaited && gs_ptx_access_of(loop, statement)->writes & (GS_PTX_IN_SHARED | GS_PTX_IN_GLOBAL));
}

/* Adds what the loop forwards. Lanes that exchange values are at one place: only who comes there matters. */
static void want_forwarded(struct search *search) {
    const gs_ptx_loop *loop = &search->loop;
    const gs_ptx_flow *flow = &loop->kernel->flow;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *statement = gs_ptx_statement_at(loop->kernel, i);
            if (!is_awaited(search, statement))
                continue;
            want_register(search, statement->guard, statement);
            want_branches(search, b);
            if (!gs_ptx_is_warp_step(statement))
                want_statement(search, statement);
        }
}

/* Finds everything that the ends of the loop depend on. */
static void want_ends(struct search *search) {
    const gs_ptx_loop *loop = &search->loop;
    const gs_ptx_flow *flow = &loop->kernel->flow;
    forget_wanted(&search->loop);
    if (search->forwards)
        want_forwarded(search);
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        if (loop->within[b] && gs_ptx_loop_ends_at(loop, b)) {
            want_condition(search, b);
            want_branches(search, b);
        }
    do {
        search->has_changed = false;
        for (uint32_t b = 0; b < flow->blocks.count; b++)
            for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++)
                if (gs_ptx_statement_at(loop->kernel, i)->kind == GS_PTX_INSTRUCTION)
                    want_inputs(search, gs_ptx_statement_at(loop->kernel, i), b);
    } while (search->has_changed);
}

/* ---- polls ---- */

/* Whether the loop itself may write the word that a statement reads. */
static bool is_written_within(const gs_ptx_loop *loop, const gs_ptx_statement *read) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++)
            if (gs_ptx_may_meet(loop, read, gs_ptx_statement_at(loop->kernel, i)))
                return true;
    return false;
}

/* Whether a plain read reads the same place in each iteration. A call does, if the loop gives it the same values. */
static bool is_at_one_place(const gs_ptx_loop *loop, const gs_ptx_statement *read) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    const gs_ptx_operand *address = gs_ptx_address_of(loop->kernel, read, false);
    if (address)
        return gs_ptx_is_steady(loop, address);
    for (uint32_t i = 0; i < read->count; i++)
        if (!gs_ptx_is_steady(loop, gs_ptx_operand_at(loop->kernel, read, i)))
            return false;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *statement = gs_ptx_statement_at(loop->kernel, i);
            bool is_given = statement->opcode == GS_PTX_STORE && read->opcode == GS_PTX_CALL &&
                            gs_ptx_access_of(loop, statement)->writes & GS_PTX_IN_PARAM;
            for (uint32_t k = 1; is_given && k < statement->count; k++) /* behind the parameter */
                if (!gs_ptx_is_steady(loop, gs_ptx_operand_at(loop->kernel, statement, k)))
                    return false;
        }
    return true;
}

/* Whether functions that the kernel calls read global memory, or have atomic operations on it. */
static bool called_read(const gs_ptx_kernel *kernel, bool by_atomics) {
    for (uint32_t f = 0; f < kernel->module->functions.count; f++) {
        const gs_ptx_function *function = &kernel->module->functions.data[f];
        for (uint32_t i = 0; kernel->is_called[f] && i < function->statement_count; i++) {
            const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, function->statements + i);
            if (gs_ptx_reads(kernel->module, statement) & GS_PTX_IN_GLOBAL && statement->opcode != GS_PTX_CALL &&
                (!by_atomics || statement->opcode == GS_PTX_ATOMIC) &&
                !gs_ptx_reads_constants(kernel->module, statement))
                return true;
        }
    }
    return false;
}

/* ---- allocation ---- */

/* Whether a function of CUDA gives memory that another block may have to free first. */
static bool is_allocator(const gs_ptx_module *module, uint32_t function) {
    const gs_ptx_function *found = &module->functions.data[function];
    return !found->is_defined && (gs_ptx_token_is(module, found->name, "malloc") ||
                                  gs_ptx_token_is(module, found->name, "__nv_aligned_device_malloc"));
}

/* Whether a call may be one of an allocator: it names one, or is through a pointer, where the module declares one. */
static bool may_call_allocator(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    uint32_t operand;
    int function = gs_ptx_called_function(module, statement, &operand);
    if (function >= 0)
        return is_allocator(module, (uint32_t)function);
    for (uint32_t f = 0; f < module->functions.count; f++)
        if (is_allocator(module, f))
            return true;
    return false;
}

static bool called_allocate(const gs_ptx_kernel *kernel) {
    for (uint32_t f = 0; f < kernel->module->functions.count; f++) {
        const gs_ptx_function *function = &kernel->module->functions.data[f];
        for (uint32_t i = 0; kernel->is_called[f] && i < function->statement_count; i++) {
            const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, function->statements + i);
            if (statement->opcode == GS_PTX_CALL && may_call_allocator(kernel->module, statement))
                return true;
        }
    }
    return false;
}

/* Whether the loop ends if a call gives NULL: its result is the next that is loaded from parameters. */
static bool failure_ends(const gs_ptx_loop *loop, const gs_ptx_statement *call) {
    const gs_ptx_kernel *kernel = loop->kernel;
    uint32_t at = gs_ptx_number_of(kernel, call);
    uint32_t last = kernel->flow.blocks.data[gs_ptx_flow_block(&kernel->flow, at)].last;
    const gs_ptx_operand *results = gs_ptx_operand_at(kernel, call, 0);
    for (uint32_t i = at + 1; i <= last && results->kind == GS_PTX_LIST && results->count == 1; i++) {
        const gs_ptx_statement *load = gs_ptx_statement_at(kernel, i);
        gs_ptx_given given = {load, {GS_FACT_IS, 0}};
        if (load->kind == GS_PTX_INSTRUCTION && gs_ptx_access_of(loop, load)->reads & GS_PTX_IN_PARAM)
            return load->opcode == GS_PTX_LOAD && !gs_ptx_may_return(loop, load, &given, 1, NULL);
    }
    return false;
}

/* Whether a loop waits until memory is free: it goes on when there is none, and does not count how often. */
static bool waits_for_free(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    const gs_ptx_kernel *kernel = loop->kernel;
    if (statement->kind != GS_PTX_INSTRUCTION || statement->opcode != GS_PTX_CALL || !writes_wanted(loop, statement))
        return false;
    bool is_direct = may_call_allocator(kernel->module, statement);
    return (is_direct || called_allocate(kernel)) && !(is_direct && failure_ends(loop, statement)) &&
           !gs_ptx_loop_counts(loop);
}

/* ---- all polls ---- */

static bool operand_reads(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand, uint32_t number) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_READ && operand->value == number)
        return true;
    for (uint32_t i = 0; i < operand->count; i++)
        if (operand_reads(kernel, &kernel->module->operands.data[operand->children + i], number))
            return true;
    return false;
}

/* Whether a register is read anywhere in the kernel. */
static bool is_register_read(const gs_ptx_kernel *kernel, uint32_t number) {
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    for (uint32_t i = function->statements; i < function->statements + function->statement_count; i++) {
        const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, i);
        bool is_read = statement->guard == number;
        for (uint32_t k = 0; k < statement->count && !is_read; k++)
            is_read = operand_reads(kernel, gs_ptx_operand_at(kernel, statement, k), number);
        if (is_read)
            return true;
    }
    return false;
}

/* Whether an exchange is only a store: what it writes does not depend on what it reads, which nothing uses. */
static bool is_only_store(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    if (statement->kind != GS_PTX_INSTRUCTION || gs_ptx_atomic_kind(kernel->module, statement) != GS_PTX_ATOMIC_EXCH ||
        statement->count < 3)
        return false;
    const gs_ptx_operand *result = gs_ptx_operand_at(kernel, statement, 0);
    return result->kind == GS_PTX_REGISTER && !is_register_read(kernel, result->value);
}

static bool is_poll(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    if (waits_for_free(loop, statement))
        return true;
    if (is_only_store(loop->kernel, statement))
        return false;
    if (!gs_ptx_reads_changing(loop, statement) || !writes_wanted(loop, statement))
        return false;
    if (statement->opcode == GS_PTX_CALL) {
        if (called_read(loop->kernel, true))
            return true;
        if (!called_read(loop->kernel, false))
            return false;
    }
    return gs_ptx_reads_anew(loop, statement) || (statement->opcode == GS_PTX_CALL && loop->synchronizes) ||
           (is_at_one_place(loop, statement) && !is_written_within(loop, statement));
}

/* ---- loops ---- */

/* Refuses a read; `in_way` is the write for which it may wait, or NULL. */
static gs_code refuse_wait(const struct search *search, const gs_ptx_statement *read, const gs_ptx_statement *in_way,
                           gs_error *error) {
    const gs_ptx_module *module = search->loop.kernel->module;
    if (search->in_function)
        return gs_ptx_refuse(search->loop.kernel, read, error,
                             "it calls a function that may wait for memory that another block writes");
    if (!in_way)
        return gs_ptx_refuse(search->loop.kernel, read, error,
                             "it waits in a loop for memory that another block may write");
    gs_error place = {.code = GS_OK};
    gs_error_place(&place, module->text, module->size, module->tokens.data[in_way->first].at, 1, 1);
    return gs_ptx_refuse(search->loop.kernel, read, error,
                         "it waits in a loop for memory that another block may write in line %ld%s", place.line,
                         gs_ptx_may_meet(&search->loop, read, in_way) ? "" : ", through another pointer");
}

/* Whether a function lets a dependent kernel begin, which the form leaves out; or waits for the kernel before. */
static bool has_dependents(const gs_ptx_kernel *kernel, uint32_t number, bool is_waiting) {
    const gs_ptx_function *function = &kernel->module->functions.data[number];
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, function->statements + i);
        if (statement->kind == GS_PTX_INSTRUCTION && statement->opcode == GS_PTX_DEPENDENT &&
            (gs_ptx_row(statement)->waits != GS_PTX_WAITS_NOT) == is_waiting)
            return true;
    }
    return false;
}

/* Whether the kernel, or a function that it calls, waits for the kernel before: griddepcontrol.wait. */
static bool waits_for_kernel(const gs_ptx_kernel *kernel) {
    for (uint32_t f = 0; f < kernel->module->functions.count; f++)
        if ((f == kernel->function || kernel->is_called[f]) && has_dependents(kernel, f, true))
            return true;
    return false;
}

/* In functions no proof is tried. */
static gs_code check_poll(struct search *search, const gs_ptx_statement *statement, gs_error *error) {
    gs_ptx_poll poll = {.loop = &search->loop, .read = statement};
    if (waits_for_free(&search->loop, statement))
        return gs_ptx_refuse(search->loop.kernel, statement, error,
                             "it waits in a loop for memory that another block may free");
    if (search->in_function || ++search->proofs > MOST_PROOFS || !gs_ptx_poll_is_safe(&poll))
        return refuse_wait(search, statement, poll.in_way, error);
    search->is_ordered = true;
    search->awaits_lower = search->awaits_lower || poll.awaits_lower;
    search->awaits_begun = search->awaits_begun || poll.awaits_begun;
    search->awaits_outside = search->awaits_outside || poll.awaits_outside;
    if (poll.awaits_outside && has_dependents(search->loop.kernel, search->loop.kernel->function, false))
        return gs_ptx_refuse(search->loop.kernel, statement, error,
                             "it launches dependents, which a form does later, and waits for another kernel");
    search->order = poll.order > search->order ? poll.order : search->order;
    search->most_blocks = poll.most_blocks < search->most_blocks ? poll.most_blocks : search->most_blocks;
    return GS_OK;
}

typedef bool statement_test(const struct search *search, const gs_ptx_statement *statement);

/* Whether a statement of the loop is of a kind. */
static bool loop_has(const struct search *search, statement_test *is_one) {
    const gs_ptx_loop *loop = &search->loop;
    const gs_ptx_flow *flow = &loop->kernel->flow;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++)
            if (is_one(search, gs_ptx_statement_at(loop->kernel, i)))
                return true;
    return false;
}

/* Only loops that read global memory wait for other blocks. */
static bool reads_global(const struct search *search, const gs_ptx_statement *statement) {
    return gs_ptx_reads_changing(&search->loop, statement);
}

static bool reads_anew(const struct search *search, const gs_ptx_statement *statement) {
    return gs_ptx_reads_anew(&search->loop, statement) ||
           (statement->opcode == GS_PTX_CALL && gs_ptx_reads_changing(&search->loop, statement));
}

static bool reads_shared(const struct search *search, const gs_ptx_statement *statement) {
    return statement->kind == GS_PTX_INSTRUCTION &&
           gs_ptx_access_of(&search->loop, statement)->reads & GS_PTX_IN_SHARED;
}

/* Whether others may write what a statement reads for an end of the loop. */
static bool reads_wanted(const struct search *search, const gs_ptx_statement *statement) {
    return (reads_global(search, statement) || reads_shared(search, statement) ||
            gs_ptx_row(statement)->result == GS_PTX_OF_BARRIER) &&
           writes_wanted(&search->loop, statement);
}

/* The same, where what is read may change while the loop runs, without a race. */
static bool reads_meanwhile(const struct search *search, const gs_ptx_statement *statement) {
    return reads_wanted(search, statement) && (search->loop.joins || reads_anew(search, statement) ||
                                               gs_ptx_is_strong(search->loop.kernel->module, statement));
}

/* Whether a loop might go on until others write something. */
static bool loop_waits(struct search *search) {
    search->forwards = false;
    want_ends(search);
    search->forwards = true;
    return loop_has(search, reads_meanwhile) || (loop_has(search, reads_wanted) && !gs_ptx_loop_counts(&search->loop));
}

/* Whether other threads might notice a statement. */
static bool is_noticed(const struct search *search, const gs_ptx_statement *statement) {
    return is_awaited(search, statement) ||
           (statement->kind == GS_PTX_INSTRUCTION &&
            gs_ptx_access_of(&search->loop, statement)->writes & (GS_PTX_IN_SHARED | GS_PTX_IN_GLOBAL));
}

/* Notes all statements of the kernel that write what the loop waits for. */
static void note_awaited(struct search *search) {
    const gs_ptx_loop *loop = &search->loop;
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    const gs_ptx_flow *flow = &kernel->flow;
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, function->statements + i);
        if (!search->awaited[i] && statement->kind == GS_PTX_INSTRUCTION && writes_wanted_memory(loop, statement) &&
            gs_ptx_access_of(loop, statement)->writes & GS_PTX_IN_SHARED)
            search->awaited[i] = search->has_more = true;
    }
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *read = gs_ptx_statement_at(kernel, i), *write;
            uint32_t at = GS_PTX_NONE;
            while (is_poll(loop, read) && (write = gs_ptx_next_writer(loop, read, &at)))
                if (!search->awaited[gs_ptx_place_of(loop, write)])
                    search->awaited[gs_ptx_place_of(loop, write)] = search->has_more = true;
        }
}

static gs_code check_polls(struct search *search, gs_error *error) {
    const gs_ptx_loop *loop = &search->loop;
    const gs_ptx_flow *flow = &loop->kernel->flow;
    gs_code code = GS_OK;
    for (uint32_t b = 0; b < flow->blocks.count && code == GS_OK; b++)
        for (uint32_t i = flow->blocks.data[b].first;
             loop->within[b] && i <= flow->blocks.data[b].last && code == GS_OK; i++) {
            const gs_ptx_statement *statement = gs_ptx_statement_at(loop->kernel, i);
            if (is_poll(loop, statement) && (!search->forwards || reads_anew(search, statement)))
                code = check_poll(search, statement, error);
        }
    return code;
}

static gs_code check_loop(struct search *search, gs_error *error) {
    bool is_waiting = loop_has(search, reads_global) || (search->may_forward && loop_has(search, reads_shared));
    if (search->forwards)
        is_waiting = is_waiting && loop_has(search, is_awaited);
    if (!is_waiting)
        return GS_OK;
    gs_code code = gs_ptx_loop_decide(&search->loop, error);
    if (code != GS_OK || (search->forwards && !loop_waits(search)))
        return code;
    want_ends(search);
    code = check_polls(search, error);
    if (code == GS_OK && search->may_forward)
        note_awaited(search);
    return code;
}

/* Whether functions that the kernel calls may wait for shared memory, as gs_ptx_reads_anew says of global memory. */
static bool called_wait(const gs_ptx_kernel *kernel) {
    const gs_ptx_module *module = kernel->module;
    for (uint32_t f = 0; f < module->functions.count; f++) {
        bool reads = false, is_anew = false;
        for (uint32_t i = 0; kernel->is_called[f] && i < module->functions.data[f].statement_count; i++) {
            const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, module->functions.data[f].statements + i);
            bool is_read = gs_ptx_reads(module, statement) & GS_PTX_IN_SHARED;
            reads = reads || is_read;
            is_anew = is_anew || statement->opcode == GS_PTX_FENCE || statement->opcode == GS_PTX_BARRIER ||
                      (is_read && gs_ptx_is_strong(module, statement));
        }
        if (reads && is_anew)
            return true;
    }
    return false;
}

static gs_code look_at_loop(struct search *search, gs_error *error) {
    (void)error;
    search->may_forward = search->may_forward || (loop_has(search, reads_anew) && loop_has(search, is_noticed));
    return GS_OK;
}

static gs_code each_loop(struct search *search, gs_code (*visit)(struct search *search, gs_error *error),
                         gs_error *error) {
    const gs_ptx_flow *flow = &search->loop.kernel->flow;
    gs_code code = GS_OK;
    bool *is_head = calloc(flow->blocks.count + 1, sizeof *is_head);
    if (!is_head)
        return gs_fail_memory(error);
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = 0; i < gs_ptx_successor_count(flow, b); i++)
            if (gs_ptx_leads_back(&search->loop, b, gs_ptx_successor(flow, b, i)))
                is_head[gs_ptx_successor(flow, b, i)] = true;
    for (uint32_t b = 0; b < flow->blocks.count && code == GS_OK; b++)
        if (is_head[b] && gs_ptx_loop_collect(&search->loop, b))
            code = visit(search, error);
    free(is_head);
    return code;
}

/* First what the ends of loops depend on, then also what they forward to others, which may be more each time. */
static gs_code check_loops(struct search *search, gs_error *error) {
    gs_code code = each_loop(search, look_at_loop, error);
    if (code == GS_OK)
        code = each_loop(search, check_loop, error);
    search->forwards = true;
    for (search->has_more = true; code == GS_OK && search->may_forward && search->has_more;) {
        search->has_more = false;
        code = each_loop(search, check_loop, error);
    }
    return code;
}

/* In a function a word that is read anew is refused even without a loop: the caller may wait for its result. */
static gs_code look_at_statements(struct search *search, gs_error *error) {
    const gs_ptx_kernel *kernel = search->loop.kernel;
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, function->statements + i);
        bool is_strong = gs_ptx_reads_anew(&search->loop, statement) &&
                         (statement->opcode != GS_PTX_ATOMIC || gs_ptx_only_reads(kernel, statement));
        if (is_strong && search->in_function)
            return refuse_wait(search, statement, NULL, error);
        search->has_strong = search->has_strong || is_strong;
    }
    return GS_OK;
}

gs_code gs_ptx_check_waits(gs_ptx_kernel *kernel, bool in_function, gs_error *error) {
    struct search search = {.in_function = in_function,
                            .all_awaited = in_function || called_wait(kernel),
                            .most_blocks = GS_LINEAR_MOST_BLOCKS};
    size_t statements = kernel->module->functions.data[kernel->function].statement_count;
    gs_code code = gs_ptx_loop_init(&search.loop, kernel, error);
    search.awaited = calloc(statements + 1, sizeof *search.awaited);
    if (code == GS_OK && !search.awaited)
        code = gs_fail_memory(error);
    if (code == GS_OK)
        code = look_at_statements(&search, error);
    if (code == GS_OK)
        code = check_loops(&search, error);
    kernel->loop.is_ordered = search.is_ordered || search.has_strong;
    kernel->loop.takes_single =
        search.awaits_lower && (search.awaits_begun || search.awaits_outside || waits_for_kernel(kernel));
    kernel->loop.needs_one_row = search.order == GS_LINEAR_ONE_ROW;
    kernel->loop.most_blocks = search.most_blocks;
    kernel->loop.needs_one_layer = search.order == GS_LINEAR_ONE_LAYER;
    gs_ptx_loop_free(&search.loop);
    free(search.awaited);
    return code;
}
