/*
 * flow_graph.c: the basic blocks of a function, their dominators and loops.
 *
 * Blocks are found from the first instruction on; code behind a function, which nothing leads to, has none. The order
 * of a depth-first search, reversed, is the rank of a block: a branch to a block of the same or a lower rank goes back,
 * and its target must dominate it. A graph where that fails cannot be cut into loops and is refused.
 */
#include "flow_parts.h"

#include <stdlib.h>

enum { MOST_BLOCKS = 6000 };

gs_code gs_flow_refuse(gs_error *error, size_t instruction, const char *format, ...) {
    char words[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    return gs_fail(error, GS_E_REFUSED, "at 0x%zx: %s", instruction * GS_FLOW_BYTES, words);
}

/* ---- instructions ---- */

int gs_flow_written(const gs_flow_instruction *instruction) {
    enum { SIZE_64 = 5, SIZE_128 = 6, CS2R = 0x005, DMMA = 0x03f, DMMA_REGISTERS = 8 };
    unsigned operands = instruction->opcode->operands, size = gs_bits(instruction->high, 9, 3);
    if (gs_operation(instruction) == DMMA)
        return DMMA_REGISTERS;
    if (gs_operation(instruction) == CS2R)
        return gs_bits(instruction->high, 16, 1) ? 2 : 1;
    if (operands & GS_WRITES_SIZED)
        return size == SIZE_64 ? 2 : size == SIZE_128 ? 4 : 1;
    return operands & GS_WRITES_4 ? 4 : operands & GS_WRITES_2 ? 2 : operands & GS_WRITES ? 1 : 0;
}

static bool is_collective(const gs_flow_instruction *instruction) {
    enum { COLLECTIVE = 2 };
    return gs_operation(instruction) == GS_OP_WARPSYNC && gs_bits(instruction->high, 20, 2) == COLLECTIVE;
}

bool gs_flow_branches(const gs_flow_instruction *instruction) {
    return gs_operation(instruction) == GS_OP_BRA || is_collective(instruction);
}

bool gs_flow_never_passes(const gs_flow_instruction *instruction) {
    unsigned operation = gs_operation(instruction);
    bool is_end = operation == GS_OP_BRA || operation == GS_OP_EXIT || operation == GS_OP_RET;
    bool has_condition = gs_bits(instruction->low, 32, 2) && operation == GS_OP_BRA; /* of the warp */
    return is_end && gs_is_always(instruction) && !has_condition &&
           (operation == GS_OP_RET || gs_bits(instruction->high, 23, 4) == GS_NO_PREDICATE);
}

size_t gs_flow_target(const gs_flow_code *code, size_t at) {
    const gs_flow_instruction *branch = &code->data[at];
    uint64_t upper = branch->low >> 34 | branch->high << 30;
    int64_t words = (int64_t)(upper << 16) >> 16;
    int64_t bytes = (int64_t)((uint64_t)words << 8 | gs_bits(branch->low, 16, 8)) * 4;
    int64_t target = (int64_t)((at + 1) * GS_FLOW_BYTES) + bytes;
    bool is_inside = target >= 0 && target % GS_FLOW_BYTES == 0 && (size_t)target / GS_FLOW_BYTES < code->count;
    return is_inside ? (size_t)target / GS_FLOW_BYTES : SIZE_MAX;
}

void gs_flow_add_written(gs_flow_written_set *set, const gs_flow_instruction *instruction) {
    unsigned operands = instruction->opcode->operands, first = gs_bits(instruction->low, 16, 8);
    bool is_uniform = operands & GS_IS_UNIFORM;
    unsigned none = is_uniform ? GS_NO_UNIFORM : GS_NO_REGISTER;
    if (is_uniform)
        first &= GS_NO_UNIFORM;
    for (unsigned i = first; first != none && i < first + (unsigned)gs_flow_written(instruction) && i < none; i++)
        (is_uniform ? set->uniform : set->registers)[i] = true;
    unsigned more = gs_bits(instruction->high, 0, 8); /* textures write the rest of their result there */
    for (unsigned i = more; strcmp(instruction->opcode->class_name, "texture") == 0 && i < more + 4 && i < none; i++)
        set->registers[i] = true;
    bool *predicates = is_uniform ? set->uniform_predicates : set->predicates;
    if (operands & GS_SETS)
        predicates[gs_bits(instruction->high, 17, 3)] = true;
    if (operands & GS_SETS_2)
        predicates[gs_bits(instruction->high, 20, 3)] = true;
    for (int i = 0; operands & GS_SETS_ALL && i < GS_NO_PREDICATE; i++)
        predicates[i] = true;
    predicates[GS_NO_PREDICATE] = false;
}

/* ---- blocks ---- */

/* An atomic operation on memory whose scope is the system: it takes longer than one of the GPU. */
static bool is_system_atomic(const gs_flow_instruction *instruction) {
    enum { STRONG_SYSTEM = 10 };
    const char *name = instruction->opcode->class_name;
    bool is_atomic = name && (strcmp(name, "global_atomic") == 0 || strcmp(name, "generic_atomic") == 0);
    return is_atomic && gs_bits(instruction->high, 13, 4) == STRONG_SYSTEM;
}

/* Instructions of which some forms were not measured, and take longer than those that were: the bits of the second half
   that tell the form, and the values of the forms that were measured. */
static const char *unmeasured_form(const gs_flow_instruction *instruction) {
    static const char past_l1[] = "is a load past the L1 (volatile, relaxed, .cg): many SMs may load one place at once";
    static const char atomic[] = "is an atomic operation other than the addition of 32-bit integers";
    static const struct {
        uint16_t number;
        uint8_t first, bits;
        uint16_t measured; /* a bit for each value */
        const char *words;
    } forms[] = {
        {0x03f, 12, 2, 1, "multiplies matrices of FP64 that are larger than 8 x 8 x 4"},
        {0x180, 13, 4, 0x3f, past_l1},
        {0x181, 13, 4, 0x3f, past_l1},
        {0x18a, 9, 3, 3, atomic},
        {0x18a, 23, 4, 1, atomic},
        {0x18b, 0, 1, 0, atomic},
        {0x18d, 0, 1, 0, "compares and exchanges in shared memory"},
        {0x18e, 9, 3, 3, atomic},
        {0x18e, 23, 3, 1, atomic},
        {0x192, 12, 3, 7, "is a fence for the whole system"},
        {0x1a1, 15, 1, 1, "compares all lanes of a warp with each other"},
        {0x1a2, 0, 1, 0, atomic},
        {0x1a3, 0, 1, 0, atomic},
        {0x1a6, 0, 1, 0, atomic},
        {0x1a8, 9, 3, 3, atomic},
        {0x1a8, 23, 4, 1, atomic},
        {0x1a9, 0, 1, 0, atomic},
    };
    for (size_t i = 0; i < GS_COUNT(forms); i++)
        if (forms[i].number == gs_bits(instruction->low, 0, 9) &&
            !(forms[i].measured >> gs_bits(instruction->high, forms[i].first, forms[i].bits) & 1))
            return forms[i].words;
    return NULL;
}

/* Why an instruction has no bound, or GS_OK. */
static gs_code check_instruction(const gs_flow_instruction *instruction, size_t at, gs_error *error) {
    static const struct {
        uint16_t number;
        const char *words;
    } refused[] = {
        {0x001, "is PTX's pmevent, which was not measured"},
        {0x014, "is PTX's sad, which was not measured"},
        {0x01a, "extracts bits, as PTX's bfe, szext and fns do, which was not measured"},
        {0x01b, "masks bits, as PTX's bmsk and bfi do, which was not measured"},
        {0x026, "is PTX's dp2a or dp4a, which were not measured"},
        {0x02d, "is PTX's griddepcontrol.launch_dependents, which was not measured"},
        {0x02e, "waits for the kernel before it"},
        {0x02f, "is PTX's elect.sync, which was not measured"},
        {0x037, "is PTX's mma of integers, which was not measured"},
        {0x039, "is PTX's cvt.pack, which was not measured"},
        {0x03a, "is PTX's movmatrix, which was not measured"},
        {0x03d, "is PTX's mma of bits, which was not measured"},
        {0x044, "is PTX's stmatrix, which was not measured"},
        {0x143, "calls a function that is not in this code, or through a pointer"},
        {0x149, "jumps to an address in a register"},
        {0x14a, "jumps to an address"},
        {0x14c, "jumps to an address in a register"},
        {0x14e, "calls a function that is not in this code, or through a pointer"},
        {0x15d, "sleeps"},
        {0x1a7, "waits at a barrier in shared memory"},
        {0x1b2, "uses a barrier in shared memory"},
        {0x1c7, "waits for other blocks of its cluster"},
    };
    enum { PLAIN_BARRIER = 5 };
    unsigned number = gs_bits(instruction->low, 0, 9);
    for (size_t i = 0; i < GS_COUNT(refused); i++)
        if (refused[i].number == number)
            return gs_flow_refuse(error, at, "the instruction %s", refused[i].words);
    if (instruction->opcode->number == GS_OP_UNKNOWN)
        return gs_flow_refuse(error, at, "unknown instruction 0x%03x", gs_bits(instruction->low, 0, 12));
    if (is_system_atomic(instruction))
        return gs_flow_refuse(error, at,
                              "the instruction is an atomic operation for the whole system, which was not measured");
    if (unmeasured_form(instruction))
        return gs_flow_refuse(error, at, "the instruction %s, which was not measured", unmeasured_form(instruction));
    if (number == GS_OP_CALL && (gs_form(instruction) == 1 || instruction->is_relocated))
        return gs_flow_refuse(error, at,
                              "the instruction calls a function that is not in this code, or through a pointer");
    if (number == GS_OP_BAR && gs_form(instruction) != PLAIN_BARRIER)
        return gs_flow_refuse(error, at, "the number of a barrier, or of its threads, is in a register");
    return GS_OK;
}

/* Marks where blocks begin, following the code from `entry`. */
static gs_code mark_blocks(const gs_flow_code *code, size_t entry, bool *begins, bool *is_seen, gs_error *error) {
    struct {
        size_t *data, count, capacity;
    } open = {0};
    bool is_stored = GS_PUSH(&open, entry);
    gs_code refused = GS_OK;
    begins[entry] = true;
    while (open.count && is_stored && refused == GS_OK)
        for (size_t at = open.data[--open.count]; !is_seen[at]; at++) {
            const gs_flow_instruction *instruction = &code->data[at];
            is_seen[at] = true;
            refused = check_instruction(instruction, at, error);
            size_t target = gs_flow_branches(instruction) ? gs_flow_target(code, at) : at + 1;
            bool ends = gs_flow_branches(instruction) || gs_operation(instruction) == GS_OP_BSYNC;
            bool stops = gs_flow_never_passes(instruction);
            if (refused == GS_OK && gs_flow_branches(instruction) && target == SIZE_MAX)
                refused = gs_flow_refuse(error, at, "a branch leads out of the code");
            else if (refused == GS_OK && !stops && at + 1 >= code->count)
                refused = gs_flow_refuse(error, at, "the code has no end");
            if (refused != GS_OK)
                break;
            if (ends && !stops)
                begins[at + 1] = true;
            if (gs_flow_branches(instruction)) {
                begins[target] = true;
                is_stored = is_stored && GS_PUSH(&open, target);
            }
            if (stops)
                break;
        }
    free(open.data);
    return is_stored ? refused : gs_fail_memory(error);
}

static bool add_blocks(gs_flow_graph *graph, const bool *begins, const bool *is_seen, int32_t *block_of) {
    size_t count = graph->code->count;
    for (size_t at = 0; at < count; at++) {
        block_of[at] = GS_NO_BLOCK;
        if (!begins[at])
            continue;
        gs_flow_block block = {.first = at, .end = at + 1, .next = {GS_NO_BLOCK, GS_NO_BLOCK}, .groups = 1};
        while (block.end < count && is_seen[block.end] && !begins[block.end] &&
               !gs_flow_never_passes(&graph->code->data[block.end - 1]))
            block.end++;
        block_of[at] = (int32_t)graph->blocks.count;
        if (!GS_PUSH(&graph->blocks, block))
            return false;
    }
    for (size_t i = 0; i < graph->blocks.count; i++) {
        gs_flow_block *block = &graph->blocks.data[i];
        const gs_flow_instruction *last = &graph->code->data[block->end - 1];
        if (!gs_flow_never_passes(last))
            block->next[0] = block_of[block->end];
        if (gs_flow_branches(last))
            block->next[1] = block_of[gs_flow_target(graph->code, block->end - 1)];
        if (block->next[0] == block->next[1])
            block->next[1] = GS_NO_BLOCK;
    }
    return true;
}

/* ---- order and dominators ---- */

static bool order_blocks(gs_flow_graph *graph, int32_t entry) {
    size_t count = graph->blocks.count, depth = 0, rank = count;
    int32_t *stack = calloc(count + 1, sizeof *stack);
    unsigned char *state = calloc(count + 1, 1); /* how many of `next` were looked at, plus 1 */
    graph->order = calloc(count + 1, sizeof *graph->order);
    bool is_stored = stack && state && graph->order;
    if (is_stored) {
        stack[depth++] = entry;
        state[entry] = 1;
    }
    while (depth) {
        int32_t at = stack[depth - 1];
        if (state[at] > 2) {
            graph->order[--rank] = at;
            graph->blocks.data[at].rank = (int32_t)rank;
            depth--;
            continue;
        }
        int32_t next = graph->blocks.data[at].next[state[at]++ - 1];
        if (next != GS_NO_BLOCK && !state[next]) {
            state[next] = 1;
            stack[depth++] = next;
        }
    }
    free(stack);
    free(state);
    return is_stored && rank == 0;
}

static int32_t common_dominator(const gs_flow_graph *graph, int32_t a, int32_t b) {
    const gs_flow_block *blocks = graph->blocks.data;
    while (a != b)
        if (blocks[a].rank > blocks[b].rank)
            a = blocks[a].dominator;
        else
            b = blocks[b].dominator;
    return a;
}

static void find_dominators(gs_flow_graph *graph, int32_t entry) {
    gs_flow_block *blocks = graph->blocks.data;
    for (size_t i = 0; i < graph->blocks.count; i++)
        blocks[i].dominator = GS_NO_BLOCK;
    blocks[entry].dominator = entry;
    for (bool changes = true; changes;) {
        changes = false;
        for (size_t i = 0; i < graph->blocks.count; i++) {
            int32_t at = graph->order[i];
            for (int side = 0; side < 2 && blocks[at].dominator != GS_NO_BLOCK; side++) {
                int32_t next = blocks[at].next[side];
                if (next == GS_NO_BLOCK || next == entry)
                    continue;
                int32_t found =
                    blocks[next].dominator == GS_NO_BLOCK ? at : common_dominator(graph, blocks[next].dominator, at);
                changes = changes || found != blocks[next].dominator;
                blocks[next].dominator = found;
            }
        }
    }
}

bool gs_flow_dominates(const gs_flow_graph *graph, int32_t above, int32_t block) {
    const gs_flow_block *blocks = graph->blocks.data;
    while (blocks[block].rank > blocks[above].rank)
        block = blocks[block].dominator;
    return block == above;
}

/* ---- loops ---- */

bool gs_flow_in_loop(const gs_flow_graph *graph, int32_t block, int32_t loop) {
    int32_t at = graph->blocks.data[block].loop;
    while (at != loop && at != 0)
        at = graph->loops.data[at].parent;
    return at == loop;
}

int32_t gs_flow_loop_inside(const gs_flow_graph *graph, int32_t block, int32_t loop) {
    int32_t at = graph->blocks.data[block].loop;
    while (at != loop && graph->loops.data[at].parent != loop)
        at = graph->loops.data[at].parent;
    return at == loop ? 0 : at;
}

/* Puts a block and what leads to it, up to the header, into a loop. Loops are found from the outermost to the
   innermost, so a block that is in a loop inside this one already stays there. */
static void fill_loop(gs_flow_graph *graph, int32_t from, int32_t loop, bool *is_inside) {
    int32_t header = graph->loops.data[loop].header;
    is_inside[from] = true;
    for (bool changes = true; changes;) {
        changes = false;
        for (size_t i = graph->blocks.count; i-- > 0;) {
            int32_t at = graph->order[i];
            const gs_flow_block *block = &graph->blocks.data[at];
            for (int side = 0; side < 2 && !is_inside[at]; side++)
                if (block->next[side] != GS_NO_BLOCK && is_inside[block->next[side]] && block->next[side] != header &&
                    gs_flow_dominates(graph, header, at))
                    changes = is_inside[at] = true;
        }
    }
}

static bool add_loop(gs_flow_graph *graph, int32_t header) {
    gs_flow_loop loop = {
        .header = header, .parent = graph->blocks.data[header].loop, .times = -1, .given = GS_NOT_GIVEN, .exact = -1};
    int32_t number = (int32_t)graph->loops.count;
    bool *is_inside = calloc(graph->blocks.count + 1, sizeof *is_inside);
    if (!is_inside || !GS_PUSH(&graph->loops, loop)) {
        free(is_inside);
        return false;
    }
    is_inside[header] = true;
    for (size_t i = 0; i < graph->blocks.count; i++)
        for (int side = 0; side < 2; side++)
            if (graph->blocks.data[i].next[side] == header && gs_flow_dominates(graph, header, (int32_t)i))
                fill_loop(graph, (int32_t)i, number, is_inside);
    for (size_t i = 0; i < graph->blocks.count; i++)
        if (is_inside[i])
            graph->blocks.data[i].loop = number;
    free(is_inside);
    return true;
}

/* Outer headers have lower ranks than those of the loops inside. */
static gs_code find_loops(gs_flow_graph *graph, int32_t entry, gs_error *error) {
    gs_flow_loop whole = {.header = entry, .times = 1, .given = GS_NOT_GIVEN, .exact = -1};
    bool *is_header = calloc(graph->blocks.count + 1, sizeof *is_header);
    bool is_stored = is_header && GS_PUSH(&graph->loops, whole);
    gs_code code = GS_OK;
    for (size_t i = 0; i < graph->blocks.count && is_stored; i++)
        for (int side = 0; side < 2; side++) {
            int32_t next = graph->blocks.data[i].next[side];
            if (next == GS_NO_BLOCK || graph->blocks.data[next].rank > graph->blocks.data[i].rank)
                continue;
            if (!gs_flow_dominates(graph, next, (int32_t)i))
                code = gs_flow_refuse(error, graph->blocks.data[i].end - 1, "a loop has several entries");
            is_header[next] = true;
        }
    for (size_t i = 0; i < graph->blocks.count && is_stored && code == GS_OK; i++)
        if (is_header[graph->order[i]])
            is_stored = add_loop(graph, graph->order[i]);
    free(is_header);
    return is_stored ? code : gs_fail_memory(error);
}

gs_code gs_flow_graph_make(gs_flow_graph *graph, const gs_flow_code *code, size_t entry, gs_error *error) {
    *graph = (gs_flow_graph){.code = code, .entry = entry};
    bool *begins = calloc(code->count + 1, sizeof *begins), *is_seen = calloc(code->count + 1, sizeof *is_seen);
    int32_t *block_of = calloc(code->count + 1, sizeof *block_of);
    bool is_stored = begins && is_seen && block_of;
    gs_code result = is_stored ? mark_blocks(code, entry, begins, is_seen, error) : gs_fail_memory(error);
    if (result == GS_OK && !(add_blocks(graph, begins, is_seen, block_of) && order_blocks(graph, block_of[entry])))
        result = gs_fail_memory(error);
    if (result == GS_OK && graph->blocks.count > MOST_BLOCKS)
        result = gs_flow_refuse(error, entry, "more than %d blocks", MOST_BLOCKS);
    if (result == GS_OK) {
        find_dominators(graph, block_of[entry]);
        result = find_loops(graph, block_of[entry], error);
    }
    free(begins);
    free(is_seen);
    free(block_of);
    return result;
}

void gs_flow_graph_clear(gs_flow_graph *graph) {
    free(graph->blocks.data);
    free(graph->loops.data);
    free(graph->order);
    *graph = (gs_flow_graph){0};
}

gs_code gs_flow_called(const gs_flow_code *code, size_t entry, gs_flow_written_set *set, int depth, gs_error *error) {
    enum { MOST_DEEP = 8, MOST_CALLS = 2000 };
    if (entry == SIZE_MAX)
        return gs_fail(error, GS_E_REFUSED, "a call leads out of the code");
    if (depth > MOST_DEEP)
        return gs_flow_refuse(error, entry, "functions call each other in a cycle, or more than %d deep", MOST_DEEP);
    if (++set->calls > MOST_CALLS)
        return gs_flow_refuse(error, entry,
                              "a function makes more than %d calls, including those of the functions that it calls",
                              MOST_CALLS);
    gs_flow_graph graph;
    gs_code result = gs_flow_graph_make(&graph, code, entry, error);
    for (size_t i = 0; i < graph.blocks.count && result == GS_OK; i++)
        for (size_t at = graph.blocks.data[i].first; at < graph.blocks.data[i].end && result == GS_OK; at++) {
            gs_flow_add_written(set, &code->data[at]);
            if (gs_operation(&code->data[at]) == GS_OP_CALL)
                result = gs_flow_called(code, gs_flow_target(code, at), set, depth + 1, error);
        }
    gs_flow_graph_clear(&graph);
    return result;
}
