/*
 * ptx_memory_wait.c: finds a loop that reads global memory until it has changed, and does nothing else: a poll. What
 * the machine code of a kernel says (sass_waits.c), its PTX says, too.
 *
 * A loop polls if one of its ends depends on a read whose address stays the same, and on nothing that the loop counts,
 * and if it writes no memory and calls no function. A search, or a walk along a list, reads at other addresses each
 * time. An addition, or a compare-and-swap that expects what it has seen, succeeds by itself. One thread of a block may
 * poll for the others: what the loop writes to shared memory is then what it has polled.
 *
 * This recognizes what people write; it proves nothing. For forms of kernels, ptx_waits.c proves.
 */
#include "ptx.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STATEMENTS = 512 }; /* of a loop; what is longer does more than read */

/* What the value of a register depends on, besides values from before the loop. */
enum kind {
    STEADY, /* nothing */
    POLLED, /* reads of words at the same address */
    OTHER,  /* other memory */
    COUNTED /* its value in the iteration before */
};

struct loop {
    const gs_ptx_flow *flow;
    uint32_t first, last;   /* blocks: the head, and the one that leads back to it */
    bool *within;           /* blocks */
    uint8_t *kinds, *found; /* of registers; and what was found in this round */
    bool shares;            /* it writes shared memory, or comes to a barrier */
};

static const gs_ptx_operand *operand_at(const struct loop *loop, const gs_ptx_statement *statement, uint32_t number) {
    return &loop->flow->module->operands.data[statement->operands + number];
}

/* ---- blocks ---- */

static uint32_t successor_of(const gs_ptx_flow *flow, uint32_t block, uint32_t number) {
    const gs_ptx_block *found = &flow->blocks.data[block];
    return number < 2 ? found->successors[number] : flow->targets.data[found->targets + number - 2];
}

/* Whether a block of the loop has a successor in it, or outside of it. */
static bool leads(const struct loop *loop, uint32_t block, bool is_within) {
    for (uint32_t i = 0; i < 2 + loop->flow->blocks.data[block].target_count; i++) {
        uint32_t next = successor_of(loop->flow, block, i);
        bool is_here = next >= loop->first && next <= loop->last && loop->within[next];
        if (next != GS_PTX_NONE && is_here == is_within)
            return true;
    }
    return false;
}

/* The blocks between the head and the last one from which the last one can be reached. */
static void collect_blocks(struct loop *loop) {
    memset(loop->within, 0, loop->flow->blocks.count);
    loop->within[loop->last] = true;
    for (bool has_grown = true; has_grown;) {
        has_grown = false;
        for (uint32_t b = loop->last; b-- > loop->first;)
            if (!loop->within[b] && leads(loop, b, true))
                loop->within[b] = has_grown = true;
    }
}

/* The next instruction of the loop after `*at`, which begins as GS_PTX_NONE; NULL: no other. */
static const gs_ptx_statement *next_statement(const struct loop *loop, uint32_t *at) {
    uint32_t last = loop->flow->blocks.data[loop->last].last;
    uint32_t i = *at == GS_PTX_NONE ? loop->flow->blocks.data[loop->first].first : *at + 1;
    for (; i <= last; i++) {
        const gs_ptx_statement *statement = &loop->flow->module->statements.data[i];
        if (statement->kind == GS_PTX_INSTRUCTION && loop->within[gs_ptx_flow_block(loop->flow, i)]) {
            *at = i;
            return statement;
        }
    }
    return NULL;
}

/* ---- registers ---- */

/* The worst kind of what an operand reads. */
static uint8_t kind_of_operand(const struct loop *loop, const gs_ptx_operand *operand) {
    uint8_t kind = operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_READ ? loop->kinds[operand->value] : 0;
    for (uint32_t i = 0; i < operand->count; i++) {
        uint8_t inner = kind_of_operand(loop, &loop->flow->module->operands.data[operand->children + i]);
        kind = inner > kind ? inner : kind;
    }
    return kind;
}

/* Whether an atomic operation may go on failing, or change nothing, until others have written. */
static bool atomic_waits(const struct loop *loop, const gs_ptx_statement *statement) {
    const gs_ptx_operand *value = statement->count > 2 ? operand_at(loop, statement, 2) : NULL;
    switch (gs_ptx_atomic_kind(loop->flow->module, statement)) {
    case GS_PTX_ATOMIC_ADD:
        return value && value->kind == GS_PTX_INTEGER && value->bits == 0;
    case GS_PTX_ATOMIC_INC:
    case GS_PTX_ATOMIC_DEC:
        return false;
    case GS_PTX_ATOMIC_CAS:
        return value && kind_of_operand(loop, value) == STEADY;
    default:
        return true;
    }
}

static bool is_poll(const struct loop *loop, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = loop->flow->module;
    uint32_t address = gs_ptx_address_read(module, statement);
    return gs_ptx_reads(module, statement) & GS_PTX_IN_GLOBAL && !gs_ptx_reads_constants(module, statement) &&
           address != GS_PTX_NONE && kind_of_operand(loop, operand_at(loop, statement, address)) == STEADY &&
           atomic_waits(loop, statement);
}

static bool combines_conditions(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    gs_ptx_math math = gs_ptx_math_of(statement);
    return (math == GS_PTX_MATH_AND || math == GS_PTX_MATH_OR) && gs_ptx_has(module, statement, "pred");
}

static uint8_t kind_of_result(const struct loop *loop, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = loop->flow->module;
    uint8_t kind = statement->guard == GS_PTX_NONE ? STEADY : loop->kinds[statement->guard];
    bool is_polled = false;
    for (uint32_t i = 0; i < statement->count; i++) {
        uint8_t read = kind_of_operand(loop, operand_at(loop, statement, i));
        is_polled = is_polled || read == POLLED;
        kind = read > kind ? read : kind;
    }
    /* A poll that also ends when its tries are counted. */
    if (is_polled && combines_conditions(module, statement))
        return POLLED;
    bool reads_memory = gs_ptx_reads(module, statement) && !gs_ptx_reads_constants(module, statement);
    bool is_shared = loop->shares && gs_ptx_reads(module, statement) == GS_PTX_IN_SHARED;
    uint8_t memory = !reads_memory ? STEADY : is_shared || is_poll(loop, statement) ? POLLED : OTHER;
    return memory > kind ? memory : kind;
}

/* Registers that an operand writes are at least of this kind. */
static void note_results(const struct loop *loop, const gs_ptx_operand *operand, uint8_t kind, uint8_t *kinds) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE && kinds[operand->value] < kind)
        kinds[operand->value] = kind;
    for (uint32_t i = 0; i < operand->count; i++)
        note_results(loop, &loop->flow->module->operands.data[operand->children + i], kind, kinds);
}

/* At first all that the loop writes is taken for counted. In each round the registers that depend only on better ones
   become better, until nothing changes. */
static void find_kinds(struct loop *loop, uint32_t registers) {
    uint32_t at = GS_PTX_NONE;
    const gs_ptx_statement *statement;
    memset(loop->kinds, STEADY, registers);
    while ((statement = next_statement(loop, &at)))
        for (uint32_t i = 0; i < statement->count; i++)
            note_results(loop, operand_at(loop, statement, i), COUNTED, loop->kinds);
    for (bool has_changed = true; has_changed;) {
        memset(loop->found, STEADY, registers);
        at = GS_PTX_NONE;
        while ((statement = next_statement(loop, &at)))
            for (uint32_t i = 0; i < statement->count; i++)
                note_results(loop, operand_at(loop, statement, i), kind_of_result(loop, statement), loop->found);
        has_changed = memcmp(loop->kinds, loop->found, registers) != 0;
        memcpy(loop->kinds, loop->found, registers);
    }
}

/* ---- polls ---- */

static bool shares(const struct loop *loop, const gs_ptx_statement *statement) {
    return statement->opcode == GS_PTX_BARRIER ||
           (statement->opcode == GS_PTX_STORE && gs_ptx_writes(loop->flow->module, statement) == GS_PTX_IN_SHARED);
}

/* Local memory is the thread's own. An atomic operation with a result may be a read. */
static bool does_work(const struct loop *loop, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = loop->flow->module;
    bool has_result = statement->count && operand_at(loop, statement, 0)->kind == GS_PTX_REGISTER &&
                      operand_at(loop, statement, 0)->access & GS_PTX_WRITE;
    bool may_read = statement->opcode == GS_PTX_ATOMIC && has_result &&
                    (gs_ptx_atomic_kind(module, statement) == GS_PTX_ATOMIC_CAS || atomic_waits(loop, statement));
    return statement->opcode == GS_PTX_CALL || statement->opcode == GS_PTX_UNKNOWN ||
           (gs_ptx_writes(module, statement) & ~GS_PTX_IN_LOCAL && !may_read && !shares(loop, statement));
}

/* Whether a store to shared memory is of what the loop has polled. */
static bool passes_on(const struct loop *loop, const gs_ptx_statement *statement) {
    return statement->opcode == GS_PTX_BARRIER ||
           (statement->count > 1 && kind_of_operand(loop, operand_at(loop, statement, 1)) == POLLED);
}

/* Whether a read decides about an end of the loop. */
static bool end_is_polled(const struct loop *loop) {
    for (uint32_t b = loop->first; b <= loop->last; b++) {
        const gs_ptx_statement *last = &loop->flow->module->statements.data[loop->flow->blocks.data[b].last];
        if (loop->within[b] && leads(loop, b, false) && last->guard != GS_PTX_NONE &&
            loop->kinds[last->guard] == POLLED)
            return true;
    }
    return false;
}

/* The read that decides about an end of the loop, or GS_PTX_NONE. */
static uint32_t find_poll(struct loop *loop, uint32_t registers) {
    uint32_t at = GS_PTX_NONE, poll = GS_PTX_NONE;
    const gs_ptx_statement *statement;
    loop->shares = false;
    memset(loop->kinds, STEADY, registers);
    while ((statement = next_statement(loop, &at))) {
        if (does_work(loop, statement))
            return GS_PTX_NONE;
        loop->shares = loop->shares || shares(loop, statement);
    }
    find_kinds(loop, registers);
    at = GS_PTX_NONE;
    while ((statement = next_statement(loop, &at)))
        if (shares(loop, statement) && !passes_on(loop, statement))
            return GS_PTX_NONE;
    at = GS_PTX_NONE;
    if (!end_is_polled(loop))
        return GS_PTX_NONE;
    while (poll == GS_PTX_NONE && (statement = next_statement(loop, &at)))
        if (is_poll(loop, statement) && (!loop->shares || gs_ptx_is_strong(loop->flow->module, statement)))
            poll = at;
    return poll;
}

/* Whether a block leads back to this one, which is so near that the loop may be a poll. */
static bool is_loop(const gs_ptx_flow *flow, uint32_t head, uint32_t block) {
    const gs_ptx_block *first = &flow->blocks.data[head], *last = &flow->blocks.data[block];
    for (uint32_t i = 0; i < 2 && last->last - first->first < MOST_STATEMENTS; i++)
        if (last->successors[i] == head)
            return true;
    return false;
}

static uint32_t search_loops(struct loop *loop, uint32_t registers) {
    const gs_ptx_flow *flow = loop->flow;
    uint32_t poll = GS_PTX_NONE;
    for (uint32_t b = 0; b < flow->blocks.count && poll == GS_PTX_NONE; b++)
        for (int i = 0; i < 2 && poll == GS_PTX_NONE; i++) {
            loop->first = flow->blocks.data[b].successors[i];
            loop->last = b;
            if (loop->first > b || !is_loop(flow, loop->first, b))
                continue;
            collect_blocks(loop);
            poll = find_poll(loop, registers);
        }
    return poll;
}

static gs_code search_function(const gs_ptx_module *module, uint32_t function, uint32_t *statement, gs_error *error) {
    gs_ptx_flow flow = {0};
    uint32_t registers = module->functions.data[function].register_count;
    gs_code code = gs_ptx_flow_make(&flow, module, function, error);
    struct loop loop = {.flow = &flow,
                        .within = calloc(flow.blocks.count + 1, sizeof *loop.within),
                        .kinds = calloc((size_t)registers + 1, 1),
                        .found = calloc((size_t)registers + 1, 1)};
    if (code == GS_OK && (!loop.within || !loop.kinds || !loop.found))
        code = gs_fail_memory(error);
    if (code == GS_OK)
        *statement = search_loops(&loop, registers);
    free(loop.within);
    free(loop.kinds);
    free(loop.found);
    gs_ptx_flow_free(&flow);
    return code;
}

/* Marks the functions that a function calls by their names. */
static bool mark_called(const gs_ptx_module *module, uint32_t function, bool *is_called) {
    const gs_ptx_function *caller = &module->functions.data[function];
    bool is_new = false;
    for (uint32_t i = 0; i < caller->statement_count; i++) {
        const gs_ptx_statement *statement = &module->statements.data[caller->statements + i];
        uint32_t operand;
        int called = statement->kind == GS_PTX_INSTRUCTION && statement->opcode == GS_PTX_CALL
                         ? gs_ptx_called_function(module, statement, &operand)
                         : -1;
        if (called >= 0 && !is_called[called])
            is_called[called] = is_new = true;
    }
    return is_new;
}

gs_code gs_ptx_waits_for_memory(const gs_ptx_module *module, uint32_t function, uint32_t *statement, gs_error *error) {
    gs_code code = GS_OK;
    bool *is_called = calloc(module->functions.count + 1, sizeof *is_called);
    *statement = GS_PTX_NONE;
    if (!is_called)
        return gs_fail_memory(error);
    is_called[function] = true;
    for (bool is_new = true; is_new;) {
        is_new = false;
        for (uint32_t i = 0; i < module->functions.count; i++)
            is_new = (is_called[i] && mark_called(module, i, is_called)) || is_new;
    }
    for (uint32_t i = 0; i < module->functions.count && code == GS_OK && *statement == GS_PTX_NONE; i++)
        if (is_called[i] && module->functions.data[i].is_defined)
            code = search_function(module, i, statement, error);
    free(is_called);
    return code;
}
