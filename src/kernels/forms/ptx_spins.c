/*
 * ptx_spins.c: finds loops that cannot end by themselves.
 *
 * A loop that ends because of a word in global memory, and changes nothing on which its end depends, waits for another
 * thread to write that word, with any kind of load: `while (__ldcg(flag) == 0);`. It reads the same value each time
 * until then. So each register has a state, and so have the memory of the block and the parameters of calls:
 *
 *   steady    the loop does not write it, or computes it from steady ones;
 *   awaited   it depends on global memory that the loop does not write, at a steady address: on a load, or on an atomic
 *             operation that has no effect when it is repeated (an exchange, a compare-and-swap that fails);
 *   changing  anything else: a counter, which depends on itself; a clock; a load from a changing address.
 *
 * A steady value that is written under a branch also depends on the condition of that branch: in `if (__ldcg(flag))
 * done = 1;` the variable is awaited. For an awaited value the branch makes no difference: a loop that reads the word
 * in every tenth iteration still waits for it.
 *
 * A loop spins if an end of it is awaited, and none is changing.
 */
#include "ptx_waits.h"

#include <string.h>

struct spin {
    const gs_ptx_kernel *kernel;
    const gs_ptx_loop *loop;
    uint8_t block_memory; /* the state of shared and local memory */
    uint8_t parameters;   /* of parameters and results of calls */
    uint32_t pairs;       /* combinations of two accesses that were compared */
    bool has_changed;
};

bool gs_ptx_is_global(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    return !gs_ptx_has(module, statement, "shared shared::cta shared::cluster local param const");
}

bool gs_ptx_repeats(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    return statement->opcode == GS_PTX_ATOMIC && gs_ptx_has(module, statement, "and or min max exch cas");
}

/* ---- functions that a loop calls ---- */

static bool function_has(const gs_ptx_kernel *kernel, uint32_t number, bool (*is_it)(const gs_ptx_statement *)) {
    const gs_ptx_function *function = &kernel->module->functions.data[number];
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, function->statements + i);
        if (statement->kind == GS_PTX_INSTRUCTION && is_it(statement) && gs_ptx_is_global(kernel->module, statement))
            return true;
    }
    return false;
}

static bool is_load(const gs_ptx_statement *statement) {
    return statement->opcode == GS_PTX_LOAD;
}

static bool is_change(const gs_ptx_statement *statement) {
    return statement->opcode == GS_PTX_STORE || statement->opcode == GS_PTX_ATOMIC ||
           statement->opcode == GS_PTX_TEXTURE || statement->opcode == GS_PTX_BULK_COPY;
}

static bool is_atomic(const gs_ptx_statement *statement) {
    return statement->opcode == GS_PTX_ATOMIC;
}

static bool any_called_has(const gs_ptx_kernel *kernel, bool (*is_it)(const gs_ptx_statement *)) {
    for (uint32_t i = 0; i < kernel->module->functions.count; i++)
        if (kernel->is_called[i] && function_has(kernel, i, is_it))
            return true;
    return false;
}

bool gs_ptx_calls_atomics(const gs_ptx_kernel *kernel) {
    return any_called_has(kernel, is_atomic);
}

/* ---- writes of the loop ---- */

static int64_t bytes_of(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    int64_t bytes = gs_ptx_has(module, statement, "b128")              ? 16
                    : gs_ptx_has(module, statement, "u64 s64 b64 f64") ? 8
                                                                       : 4;
    return bytes * (gs_ptx_has(module, statement, "v2")   ? 2
                    : gs_ptx_has(module, statement, "v4") ? 4
                    : gs_ptx_has(module, statement, "v8") ? 8
                                                          : 1);
}

/* Whether two addresses are the same in all blocks and threads, and `least` bytes apart. */
static bool are_apart(const gs_linear *one, const gs_linear *other, int64_t least) {
    gs_linear difference = gs_linear_add(*one, other, -1);
    if (!difference.is_known || difference.is_bound)
        return false;
    for (int i = 0; i < one->count; i++)
        if (one->terms[i].symbol >> 56 != GS_LINEAR_PARAMETER)
            return false;
    for (int i = 0; i < difference.count; i++)
        if (difference.terms[i].times)
            return false;
    return difference.number >= least || difference.number <= -least;
}

/* The parameter that an address is derived from. */
static bool has_pointer(const gs_linear *address, uint64_t *symbol) {
    for (int i = 0; i < address->count; i++) {
        *symbol = address->terms[i].symbol;
        if (*symbol >> 56 == GS_LINEAR_PARAMETER && address->terms[i].times == 1)
            return true;
    }
    return false;
}

static bool has_symbol(const gs_linear *address, uint64_t symbol) {
    for (int i = 0; i < address->count; i++)
        if (address->terms[i].symbol == symbol)
            return true;
    return false;
}

/* Whether a store may be to the word that `read` reads: not if its address is derived from another parameter, or
   differs. */
bool gs_ptx_may_meet(const gs_ptx_kernel *kernel, const gs_ptx_statement *read, const gs_ptx_statement *store) {
    const gs_ptx_operand *from = kernel->module->operands.data + read->operands + 1,
                         *to = kernel->module->operands.data + store->operands;
    to += store->count > 1 && to->kind != GS_PTX_ADDRESS;
    if (store->opcode == GS_PTX_TEXTURE || store->opcode == GS_PTX_BULK_COPY || !store->count)
        return true;
    gs_linear awaited = read->count > 1 ? gs_linear_address(kernel, from) : (gs_linear){.is_known = false};
    gs_linear written = gs_linear_address(kernel, to);
    int64_t bytes = bytes_of(kernel->module, read), other_bytes = bytes_of(kernel->module, store);
    if (are_apart(&awaited, &written, bytes > other_bytes ? bytes : other_bytes))
        return false;
    uint64_t symbol;
    if (awaited.is_known && has_pointer(&awaited, &symbol))
        return written.is_known ? has_symbol(&written, symbol) : gs_linear_may_contain(kernel, to, symbol);
    if (written.is_known && has_pointer(&written, &symbol))
        return read->count < 2 || gs_linear_may_contain(kernel, from, symbol);
    return true;
}

/* Textures are only read. */
static bool is_texture_read(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    const char *word = module->text + module->tokens.data[statement->word].at;
    return statement->opcode == GS_PTX_TEXTURE && strncmp(word, "sust", 4) != 0 && strncmp(word, "sured", 5) != 0;
}

bool gs_ptx_may_write(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    if (statement->kind != GS_PTX_INSTRUCTION || is_texture_read(kernel->module, statement))
        return false;
    return statement->opcode == GS_PTX_CALL ? any_called_has(kernel, is_change)
                                            : is_change(statement) && gs_ptx_is_global(kernel->module, statement);
}

/* Whether the loop may write the word that a statement reads. After MOST_PAIRS comparisons of two accesses the answer
   is no. This limits the time for a large loop, which then counts as one that waits. */
static bool is_changed_within(struct spin *spin, const gs_ptx_statement *read) {
    enum { NOT_KNOWN, NO, YES, MOST_PAIRS = 200000 };
    const gs_ptx_kernel *kernel = spin->kernel;
    uint32_t first = kernel->module->functions.data[kernel->function].statements;
    uint8_t *answer = &spin->loop->changes[(uint32_t)(read - kernel->module->statements.data) - first];
    for (uint32_t b = 0; b < kernel->flow.blocks.count && *answer == NOT_KNOWN; b++)
        for (uint32_t i = kernel->flow.blocks.data[b].first;
             spin->loop->within[b] && i <= kernel->flow.blocks.data[b].last && spin->pairs < MOST_PAIRS; i++) {
            const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, i);
            if (statement == read || !gs_ptx_may_write(kernel, statement))
                continue;
            spin->pairs++;
            if (statement->opcode == GS_PTX_CALL || gs_ptx_may_meet(kernel, read, statement)) {
                *answer = YES;
                break;
            }
        }
    *answer = *answer == NOT_KNOWN ? NO : *answer;
    return *answer == YES;
}

/* ---- states ---- */

static uint8_t worse_state(uint8_t one, uint8_t other) {
    return one > other ? one : other;
}

static void raise_to(struct spin *spin, uint8_t *state, uint8_t least) {
    spin->has_changed = spin->has_changed || least > *state;
    *state = worse_state(*state, least);
}

static bool is_clock(const gs_ptx_operand *operand) {
    static const uint8_t clocks[] = {GS_PTX_CLOCK,          GS_PTX_CLOCK_HI,       GS_PTX_CLOCK64, GS_PTX_GLOBALTIMER,
                                     GS_PTX_GLOBALTIMER_LO, GS_PTX_GLOBALTIMER_HI, GS_PTX_PM};
    for (size_t i = 0; operand->kind == GS_PTX_SPECIAL && i < GS_COUNT(clocks); i++)
        if (operand->value == clocks[i] || operand->value == GS_PTX_NONE)
            return true;
    return false;
}

static uint8_t operand_state(const struct spin *spin, const gs_ptx_operand *operand) {
    uint8_t state = is_clock(operand) ? GS_PTX_CHANGING : GS_PTX_STEADY;
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_READ)
        state = spin->loop->states[operand->value];
    for (uint32_t i = 0; i < operand->count; i++)
        state = worse_state(state, operand_state(spin, &spin->kernel->module->operands.data[operand->children + i]));
    return state;
}

static uint8_t operands_state(const struct spin *spin, const gs_ptx_statement *statement) {
    uint8_t state = GS_PTX_STEADY;
    for (uint32_t i = 0; i < statement->count; i++)
        state = worse_state(state, operand_state(spin, &spin->kernel->module->operands.data[statement->operands + i]));
    return state;
}

/* The state of the result of a load, or of an atomic operation that has no effect when it is repeated. */
static uint8_t read_state(struct spin *spin, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = spin->kernel->module;
    uint8_t state = operands_state(spin, statement);
    if (gs_ptx_has(module, statement, "const"))
        return state;
    if (gs_ptx_has(module, statement, "param"))
        return worse_state(state, spin->parameters);
    if (!gs_ptx_is_global(module, statement))
        return worse_state(state, spin->block_memory);
    return state == GS_PTX_CHANGING || is_changed_within(spin, statement) ? GS_PTX_CHANGING : GS_PTX_AWAITED;
}

/* The state of the result of an instruction, without the branches before it. */
static uint8_t result_state(struct spin *spin, const gs_ptx_statement *statement) {
    switch (statement->opcode) {
    case GS_PTX_COMPUTE:
    case GS_PTX_SHUFFLE:
    case GS_PTX_BARRIER:
    case GS_PTX_STORE:
        return operands_state(spin, statement);
    case GS_PTX_ASYNC_COPY:
        return worse_state(operands_state(spin, statement), GS_PTX_AWAITED);
    case GS_PTX_ATOMIC:
        return gs_ptx_repeats(spin->kernel->module, statement) ? read_state(spin, statement) : GS_PTX_CHANGING;
    case GS_PTX_LOAD:
        return read_state(spin, statement);
    case GS_PTX_CALL:
        return any_called_has(spin->kernel, is_change) ? GS_PTX_CHANGING
               : any_called_has(spin->kernel, is_load) ? GS_PTX_AWAITED
                                                       : GS_PTX_STEADY;
    default:
        return GS_PTX_CHANGING;
    }
}

/* The same with the branches before it. */
static uint8_t written_state(struct spin *spin, const gs_ptx_statement *statement, uint32_t block) {
    uint8_t state = result_state(spin, statement);
    if (state != GS_PTX_STEADY)
        return state;
    return worse_state(spin->loop->control[block],
                       statement->guard == GS_PTX_NONE ? GS_PTX_STEADY : spin->loop->states[statement->guard]);
}

static void raise_written(struct spin *spin, const gs_ptx_operand *operand, uint8_t state) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE)
        raise_to(spin, &spin->loop->states[operand->value], state);
    for (uint32_t i = 0; i < operand->count; i++)
        raise_written(spin, &spin->kernel->module->operands.data[operand->children + i], state);
}

/* Whether an instruction may write shared or local memory. */
static bool writes_block_memory(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    switch (statement->opcode) {
    case GS_PTX_ASYNC_COPY:
    case GS_PTX_BULK_COPY:
    case GS_PTX_MATRIX:
    case GS_PTX_CALL:
        return true;
    default:
        return is_change(statement) && !gs_ptx_has(module, statement, "global param");
    }
}

static void raise_statement(struct spin *spin, const gs_ptx_statement *statement, uint32_t block) {
    const gs_ptx_module *module = spin->kernel->module;
    if (statement->kind != GS_PTX_INSTRUCTION)
        return;
    uint8_t state = written_state(spin, statement, block);
    for (uint32_t i = 0; i < statement->count; i++)
        raise_written(spin, &module->operands.data[statement->operands + i], state);
    if (writes_block_memory(module, statement))
        raise_to(spin, &spin->block_memory, statement->opcode == GS_PTX_CALL ? GS_PTX_CHANGING : state);
    if (statement->opcode == GS_PTX_CALL ||
        (statement->opcode == GS_PTX_STORE && gs_ptx_has(module, statement, "param")))
        raise_to(spin, &spin->parameters, state);
}

/* The state of the condition of the branch at the end of a block. */
static uint8_t condition_state(const struct spin *spin, uint32_t number) {
    const gs_ptx_block *block = &spin->kernel->flow.blocks.data[number];
    const gs_ptx_statement *last = gs_ptx_statement_at(spin->kernel, block->last);
    if (block->target_count)
        return operands_state(spin, last);
    return last->guard == GS_PTX_NONE ? GS_PTX_STEADY : spin->loop->states[last->guard];
}

static void raise_control(struct spin *spin, uint32_t block) {
    const gs_ptx_loop *loop = spin->loop;
    for (uint32_t i = loop->decision_first[block]; i < loop->decision_first[block + 1]; i++)
        raise_to(spin, &loop->control[block], condition_state(spin, loop->decisions.data[i]));
}

static void raise_all(struct spin *spin) {
    const gs_ptx_flow *flow = &spin->kernel->flow;
    do {
        spin->has_changed = false;
        for (uint32_t b = 0; b < flow->blocks.count; b++) {
            if (!spin->loop->within[b])
                continue;
            raise_control(spin, b);
            for (uint32_t i = flow->blocks.data[b].first; i <= flow->blocks.data[b].last; i++)
                raise_statement(spin, gs_ptx_statement_at(spin->kernel, i), b);
        }
    } while (spin->has_changed);
}

/* ---- values that depend on themselves ---- */

/* At first all registers that the loop writes are changing. Then registers become steady if their instructions read no
   changing ones. The remaining ones depend on themselves. */

static bool reads_block_memory(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    return (statement->opcode == GS_PTX_LOAD || statement->opcode == GS_PTX_ATOMIC) &&
           !gs_ptx_has(module, statement, "const") && !gs_ptx_has(module, statement, "param") &&
           !gs_ptx_is_global(module, statement);
}

static bool reads_cycle(const struct spin *spin, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = spin->kernel->module;
    bool is_clocked = false;
    for (uint32_t i = 0; i < statement->count; i++)
        is_clocked = is_clocked || is_clock(&module->operands.data[statement->operands + i]);
    return (!is_clocked && operands_state(spin, statement) == GS_PTX_CHANGING) ||
           (spin->block_memory && reads_block_memory(module, statement)) ||
           (spin->parameters && statement->opcode == GS_PTX_LOAD && gs_ptx_has(module, statement, "param"));
}

static bool is_within(const struct spin *spin, uint32_t statement) {
    return spin->loop->within[gs_ptx_flow_block(&spin->kernel->flow, statement)];
}

static void settle_register(struct spin *spin, uint32_t number) {
    const gs_ptx_kernel *kernel = spin->kernel;
    if (spin->loop->states[number] == GS_PTX_STEADY)
        return;
    for (uint32_t i = kernel->writer_first[number]; i < kernel->writer_first[number + 1]; i++)
        if (is_within(spin, kernel->writers[i]) && reads_cycle(spin, gs_ptx_statement_at(kernel, kernel->writers[i])))
            return;
    spin->loop->states[number] = GS_PTX_STEADY;
    spin->has_changed = true;
}

static void settle_written(struct spin *spin, const gs_ptx_operand *operand) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE)
        settle_register(spin, operand->value);
    for (uint32_t i = 0; i < operand->count; i++)
        settle_written(spin, &spin->kernel->module->operands.data[operand->children + i]);
}

/* Goes through the loop once. Memory is steady if all values stored there are. */
static void settle_once(struct spin *spin) {
    const gs_ptx_module *module = spin->kernel->module;
    const gs_ptx_flow *flow = &spin->kernel->flow;
    bool memory_changes = false, parameters_change = false;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; spin->loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *statement = gs_ptx_statement_at(spin->kernel, i);
            if (statement->kind != GS_PTX_INSTRUCTION)
                continue;
            for (uint32_t k = 0; k < statement->count; k++)
                settle_written(spin, &module->operands.data[statement->operands + k]);
            bool changes = operands_state(spin, statement) == GS_PTX_CHANGING;
            memory_changes = memory_changes || (changes && writes_block_memory(module, statement));
            parameters_change = parameters_change || (changes && statement->opcode == GS_PTX_STORE &&
                                                      gs_ptx_has(module, statement, "param"));
        }
    spin->has_changed =
        spin->has_changed || (spin->block_memory && !memory_changes) || (spin->parameters && !parameters_change);
    spin->block_memory = memory_changes ? GS_PTX_CHANGING : GS_PTX_STEADY;
    spin->parameters = parameters_change ? GS_PTX_CHANGING : GS_PTX_STEADY;
}

static void find_cycles(struct spin *spin) {
    const gs_ptx_module *module = spin->kernel->module;
    const gs_ptx_flow *flow = &spin->kernel->flow;
    memset(spin->loop->states, GS_PTX_STEADY, module->functions.data[spin->kernel->function].register_count);
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; spin->loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *statement = gs_ptx_statement_at(spin->kernel, i);
            for (uint32_t k = 0; statement->kind == GS_PTX_INSTRUCTION && k < statement->count; k++)
                raise_written(spin, &module->operands.data[statement->operands + k], GS_PTX_CHANGING);
        }
    spin->block_memory = spin->parameters = GS_PTX_CHANGING;
    do {
        spin->has_changed = false;
        settle_once(spin);
    } while (spin->has_changed);
}

/* ---- the whole analysis ---- */

/* The worst state of the ends of the loop: a steady end may be behind a branch that is not steady. */
static uint8_t worst_end(const struct spin *spin) {
    uint8_t worst = GS_PTX_STEADY;
    for (uint32_t b = 0; b < spin->kernel->flow.blocks.count; b++) {
        if (!spin->loop->within[b] || !gs_ptx_loop_ends_at(spin->loop, b))
            continue;
        uint8_t state = condition_state(spin, b);
        worst = worse_state(worst, state == GS_PTX_STEADY ? spin->loop->control[b] : state);
    }
    return worst;
}

bool gs_ptx_loop_spins(gs_ptx_loop *loop) {
    struct spin spin = {.kernel = loop->kernel, .loop = loop};
    memset(loop->control, GS_PTX_STEADY, loop->kernel->flow.blocks.count);
    memset(loop->changes, 0, loop->kernel->module->functions.data[loop->kernel->function].statement_count);
    find_cycles(&spin);
    raise_all(&spin);
    return worst_end(&spin) == GS_PTX_AWAITED;
}
