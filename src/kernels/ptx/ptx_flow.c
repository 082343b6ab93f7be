/*
 * ptx_flow.c: the basic blocks of a function, and which branches decide whether a block runs. See ptx.h.
 *
 * A block ends after a branch or a return, or before a label. A guard makes a branch conditional: `@%p bra X` goes to X
 * or to the next block. The exit of the function is a block of its own with the number blocks.count. Every return leads
 * to it; an endless loop is given an edge to it too, so that each block has a post-dominator.
 *
 * Post-dominators are found by the algorithm of Cooper, Harvey and Kennedy on the reversed graph. A block depends on a
 * branch if one edge of the branch always leads to it and another may avoid it (Ferrante, Ottenstein and Warren).
 */
#include "ptx.h"

#include <stdlib.h>

/* ---- blocks ---- */

/* A label, and the statements of the braces around it, in which it can be named. */
struct label {
    const char *name;
    uint32_t length, statement, open, close;
};

struct maker {
    gs_ptx_flow *flow;
    GS_PTX_LIST_OF(struct label) labels; /* sorted by name */
    gs_error *error;
};

uint32_t gs_ptx_table_of(const gs_ptx_module *module, uint32_t label) {
    const gs_ptx_statement *statements = module->statements.data;
    uint32_t at = label + 1, end = (uint32_t)module->statements.count;
    while (at < end && (statements[at].kind == GS_PTX_LABEL ||
                        (statements[at].kind == GS_PTX_NOTE && gs_ptx_token_is(module, statements[at].word, ".loc"))))
        at++;
    return at < end && statements[at].kind == GS_PTX_NOTE &&
                   gs_ptx_token_is(module, statements[at].word, ".branchtargets")
               ? at
               : GS_PTX_NONE;
}

static const gs_ptx_statement *statement_at(const gs_ptx_flow *flow, uint32_t number) {
    return &flow->module->statements.data[number];
}

static bool ends_block(const gs_ptx_statement *statement) {
    if (statement->kind != GS_PTX_INSTRUCTION)
        return false;
    return statement->opcode == GS_PTX_BRANCH || statement->opcode == GS_PTX_BRANCH_TABLE ||
           statement->opcode == GS_PTX_RETURN || statement->opcode == GS_PTX_EXIT;
}

static gs_code add_block(gs_ptx_flow *flow, uint32_t first, uint32_t last, gs_error *error) {
    if (!GS_RESERVE(&flow->blocks, 1))
        return gs_fail_memory(error);
    flow->blocks.data[flow->blocks.count++] =
        (gs_ptx_block){.first = first, .last = last, .successors = {GS_PTX_NONE, GS_PTX_NONE}};
    return GS_OK;
}

static gs_code cut_blocks(gs_ptx_flow *flow, gs_error *error) {
    const gs_ptx_function *function = &flow->module->functions.data[flow->function];
    uint32_t first = function->statements, end = first + function->statement_count;
    gs_code code = GS_OK;
    for (uint32_t i = first; i < end && code == GS_OK; i++) {
        bool next_is_label = i + 1 < end && statement_at(flow, i + 1)->kind == GS_PTX_LABEL &&
                             statement_at(flow, i)->kind != GS_PTX_LABEL;
        if (!ends_block(statement_at(flow, i)) && !next_is_label && i + 1 < end)
            continue;
        code = add_block(flow, first, i, error);
        first = i + 1;
    }
    return code;
}

/* ---- labels ---- */

static struct label label_of(const gs_ptx_module *module, uint32_t token) {
    const gs_ptx_token *found = &module->tokens.data[token];
    return (struct label){.name = module->text + found->at, .length = found->length};
}

static int compare_names(const struct label *a, const struct label *b) {
    int order = memcmp(a->name, b->name, gs_min_u64(a->length, b->length));
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

static int by_name(const void *a, const void *b) {
    const struct label *first = a, *second = b;
    int order = compare_names(first, second);
    return order ? order : (first->statement > second->statement) - (first->statement < second->statement);
}

/* Labels live in the braces around them: the same name in other braces is another label. */
static gs_code collect_labels(struct maker *maker) {
    const gs_ptx_flow *flow = maker->flow;
    const gs_ptx_function *function = &flow->module->functions.data[flow->function];
    uint32_t end = function->statements + function->statement_count, opens[GS_PTX_DEEPEST + 1] = {0}, depth = 0;
    for (uint32_t i = function->statements; i < end; i++) {
        uint8_t kind = statement_at(flow, i)->kind;
        if (kind == GS_PTX_OPEN) {
            opens[depth++] = i;
        } else if (kind == GS_PTX_CLOSE) {
            depth--;
            for (size_t k = maker->labels.count; k-- > 0 && maker->labels.data[k].statement > opens[depth];)
                if (maker->labels.data[k].open == opens[depth])
                    maker->labels.data[k].close = i;
        } else if (kind == GS_PTX_LABEL) {
            if (!GS_RESERVE(&maker->labels, 1))
                return gs_fail_memory(maker->error);
            struct label label = label_of(flow->module, statement_at(flow, i)->word);
            label.statement = i;
            label.open = opens[depth ? depth - 1 : 0];
            label.close = end;
            maker->labels.data[maker->labels.count++] = label;
        }
    }
    if (maker->labels.count)
        qsort(maker->labels.data, maker->labels.count, sizeof *maker->labels.data, by_name);
    return GS_OK;
}

/* The first label that is not before this name. */
static size_t first_label(const struct maker *maker, const struct label *name) {
    size_t low = 0, high = maker->labels.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare_names(&maker->labels.data[middle], name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The statement of the label that a token names, as seen from a statement: that of the innermost braces. */
static gs_code find_label(const struct maker *maker, uint32_t token, uint32_t from, uint32_t *statement) {
    const gs_ptx_module *module = maker->flow->module;
    const struct label *found = NULL, name = label_of(module, token);
    for (size_t i = first_label(maker, &name); i < maker->labels.count; i++) {
        const struct label *label = &maker->labels.data[i];
        if (compare_names(label, &name) != 0)
            break;
        if (label->open <= from && from <= label->close && (!found || label->open >= found->open))
            found = label;
    }
    *statement = found ? found->statement : 0;
    return found ? GS_OK
                 : gs_ptx_fail(module, token, maker->error, GS_E_SYNTAX, "there is no such label in these braces");
}

/* ---- edges ---- */

static gs_code add_target(struct maker *maker, gs_ptx_block *block, uint32_t token, uint32_t from) {
    gs_ptx_flow *flow = maker->flow;
    uint32_t target;
    gs_code code = find_label(maker, token, from, &target);
    if (code == GS_OK && !GS_RESERVE(&flow->targets, 1))
        code = gs_fail_memory(maker->error);
    if (code == GS_OK) {
        flow->targets.data[flow->targets.count++] = gs_ptx_flow_block(flow, target);
        block->target_count++;
    }
    return code;
}

/* `brx.idx %r1, table;` and, anywhere in the function, `table: .branchtargets A, B;`. */
static gs_code connect_table(struct maker *maker, gs_ptx_block *block) {
    const gs_ptx_module *module = maker->flow->module;
    const gs_ptx_statement *branch = statement_at(maker->flow, block->last);
    uint32_t table;
    if (branch->count < 2)
        return gs_ptx_fail(module, branch->word, maker->error, GS_E_SYNTAX, "this branch must name a table");
    gs_code code = find_label(maker, module->operands.data[branch->operands + 1].first, block->last, &table);
    block->targets = (uint32_t)maker->flow->targets.count;
    if (code != GS_OK)
        return code;
    uint32_t at = gs_ptx_table_of(module, table);
    if (at == GS_PTX_NONE)
        return gs_ptx_fail(module, branch->word, maker->error, GS_E_SYNTAX, "expected .branchtargets at this label");
    const gs_ptx_statement *list = statement_at(maker->flow, at);
    for (uint32_t token = list->word + 1; token < list->last && code == GS_OK; token++)
        if (module->tokens.data[token].kind == GS_PTX_WORD)
            code = add_target(maker, block, token, at);
    return code;
}

static gs_code connect_block(struct maker *maker, uint32_t number) {
    gs_ptx_flow *flow = maker->flow;
    gs_ptx_block *block = &flow->blocks.data[number];
    const gs_ptx_statement *last = statement_at(flow, block->last);
    uint32_t exit = (uint32_t)flow->blocks.count, next = number + 1; /* after the last block comes the exit */
    bool is_guarded = last->guard != GS_PTX_NONE;
    uint32_t target;
    gs_code code = GS_OK;
    if (!ends_block(last)) {
        block->successors[1] = next;
    } else if (last->opcode == GS_PTX_BRANCH && !last->count) {
        code = gs_ptx_fail(flow->module, last->word, maker->error, GS_E_SYNTAX, "this branch has no target");
    } else if (last->opcode == GS_PTX_BRANCH) {
        code = find_label(maker, flow->module->operands.data[last->operands].first, block->last, &target);
        block->successors[0] = code == GS_OK ? gs_ptx_flow_block(flow, target) : exit;
    } else if (last->opcode == GS_PTX_BRANCH_TABLE) {
        code = connect_table(maker, block);
    } else {
        block->successors[0] = exit;
    }
    if (ends_block(last) && is_guarded)
        block->successors[1] = next;
    return code;
}

/* ---- post-dominators ---- */

/* Calls `visit` for each successor of a block. */
static void each_successor(const gs_ptx_flow *flow, uint32_t block, void (*visit)(void *, uint32_t), void *context) {
    const gs_ptx_block *found = &flow->blocks.data[block];
    for (int i = 0; i < 2; i++)
        if (found->successors[i] != GS_PTX_NONE)
            visit(context, found->successors[i]);
    for (uint32_t i = 0; i < found->target_count; i++)
        visit(context, flow->targets.data[found->targets + i]);
}

/* The reversed graph, and its blocks in post-order from the exit. */
struct reversed {
    uint32_t count;             /* of blocks; the exit is number `count` */
    uint32_t *first, *from;     /* the predecessors of b: from[first[b]] up to from[first[b + 1]] */
    uint32_t *order, *position; /* blocks in post-order, and the place of each in it */
    uint32_t *fill;
    uint32_t block; /* while edges are counted and filled */
};

static void count_edge(void *context, uint32_t to) {
    struct reversed *reversed = context;
    reversed->first[to + 1]++;
}

static void fill_edge(void *context, uint32_t to) {
    struct reversed *reversed = context;
    reversed->from[reversed->fill[to]++] = reversed->block;
}

/* Gives each block that cannot reach the exit an edge to it. One in each endless loop would be enough. */
static bool *find_endless(const gs_ptx_flow *flow, const struct reversed *reversed) {
    uint32_t count = reversed->count, *stack = malloc((count + 1) * sizeof *stack), top = 0;
    bool *ends = calloc(count + 1, sizeof *ends);
    (void)flow;
    if (stack && ends) {
        ends[count] = true;
        stack[top++] = count;
        while (top) {
            uint32_t block = stack[--top];
            for (uint32_t i = reversed->first[block]; i < reversed->first[block + 1]; i++)
                if (!ends[reversed->from[i]]) {
                    ends[reversed->from[i]] = true;
                    stack[top++] = reversed->from[i];
                }
        }
    } else {
        free(ends);
        ends = NULL;
    }
    free(stack);
    return ends;
}

static bool reverse_edges(const gs_ptx_flow *flow, struct reversed *reversed, const bool *ends) {
    uint32_t count = (uint32_t)flow->blocks.count;
    free(reversed->first);
    free(reversed->from);
    free(reversed->fill);
    *reversed = (struct reversed){.count = count, .first = calloc(count + 2, sizeof *reversed->first)};
    reversed->fill = malloc((count + 2) * sizeof *reversed->fill);
    for (uint32_t b = 0; reversed->first && b < count; b++) {
        each_successor(flow, b, count_edge, reversed);
        if (ends && !ends[b])
            count_edge(reversed, count);
    }
    for (uint32_t b = 0; reversed->first && b <= count; b++)
        reversed->first[b + 1] += reversed->first[b];
    if (reversed->first)
        reversed->from = malloc((reversed->first[count + 1] + 1) * sizeof *reversed->from);
    if (!reversed->first || !reversed->from || !reversed->fill)
        return false;
    memcpy(reversed->fill, reversed->first, (count + 2) * sizeof *reversed->fill);
    for (uint32_t b = 0; b < count; b++) {
        reversed->block = b;
        each_successor(flow, b, fill_edge, reversed);
        if (ends && !ends[b])
            fill_edge(reversed, count);
    }
    return true;
}

/* Post-order of the reversed graph, without recursion: `fill` has the next edge of each block on the stack. */
static bool sort_reversed(struct reversed *reversed) {
    uint32_t count = reversed->count, top = 0, done = 0;
    uint32_t *stack = malloc((count + 1) * sizeof *stack);
    reversed->order = malloc((count + 1) * sizeof *reversed->order);
    reversed->position = malloc((count + 1) * sizeof *reversed->position);
    bool *seen = calloc(count + 1, sizeof *seen);
    bool has_memory = stack && reversed->order && reversed->position && seen;
    if (has_memory) {
        memcpy(reversed->fill, reversed->first, (count + 1) * sizeof *reversed->fill);
        seen[count] = true;
        stack[top++] = count;
    }
    while (has_memory && top) {
        uint32_t block = stack[top - 1];
        if (reversed->fill[block] < reversed->first[block + 1]) {
            uint32_t from = reversed->from[reversed->fill[block]++];
            if (!seen[from]) {
                seen[from] = true;
                stack[top++] = from;
            }
        } else {
            reversed->position[block] = done;
            reversed->order[done++] = block;
            top--;
        }
    }
    free(stack);
    free(seen);
    return has_memory;
}

struct meeting {
    const struct reversed *reversed;
    const uint32_t *after;
    uint32_t found; /* GS_PTX_NONE: none yet */
};

/* The first block that both paths have in common. */
static void meet_paths(void *context, uint32_t other) {
    struct meeting *meeting = context;
    const uint32_t *position = meeting->reversed->position;
    uint32_t one = meeting->found;
    if (meeting->after[other] == GS_PTX_NONE)
        return;
    if (one == GS_PTX_NONE) {
        meeting->found = other;
        return;
    }
    while (one != other) {
        while (position[one] < position[other])
            one = meeting->after[one];
        while (position[other] < position[one])
            other = meeting->after[other];
    }
    meeting->found = one;
}

static void find_after(gs_ptx_flow *flow, const struct reversed *reversed, const bool *ends) {
    uint32_t count = reversed->count;
    bool has_changed = true;
    for (uint32_t b = 0; b < count; b++)
        flow->after[b] = GS_PTX_NONE;
    flow->after[count] = count;
    while (has_changed) {
        has_changed = false;
        for (uint32_t i = count; i-- > 0;) { /* the exit is last in post-order; the others from near it to far */
            uint32_t block = reversed->order[i];
            struct meeting meeting = {.reversed = reversed, .after = flow->after, .found = GS_PTX_NONE};
            each_successor(flow, block, meet_paths, &meeting);
            if (!ends[block])
                meet_paths(&meeting, count);
            has_changed = has_changed || flow->after[block] != meeting.found;
            flow->after[block] = meeting.found;
        }
    }
}

static gs_code find_post_dominators(gs_ptx_flow *flow, gs_error *error) {
    struct reversed reversed = {0};
    bool *ends = NULL;
    flow->after = malloc((flow->blocks.count + 1) * sizeof *flow->after);
    bool is_well = flow->after && reverse_edges(flow, &reversed, NULL) && (ends = find_endless(flow, &reversed)) &&
                   reverse_edges(flow, &reversed, ends) && sort_reversed(&reversed);
    if (is_well)
        find_after(flow, &reversed, ends);
    free(reversed.first);
    free(reversed.from);
    free(reversed.fill);
    free(reversed.order);
    free(reversed.position);
    free(ends);
    return is_well ? GS_OK : gs_fail_memory(error);
}

/* ---- dependences ---- */

struct walk {
    gs_ptx_flow *flow;
    uint32_t branch;
    bool failed;
};

/* All blocks that always run after this edge, but not always after the branch. */
static void walk_edge(void *context, uint32_t edge) {
    struct walk *walk = context;
    gs_ptx_flow *flow = walk->flow;
    uint32_t exit = (uint32_t)flow->blocks.count;
    for (uint32_t block = edge; block != flow->after[walk->branch] && block != exit; block = flow->after[block]) {
        if (!GS_RESERVE(&flow->dependences, 1)) {
            walk->failed = true;
            return;
        }
        flow->dependences.data[flow->dependences.count++] = (gs_ptx_dependence){block, walk->branch, edge};
    }
}

static int by_block(const void *a, const void *b) {
    const gs_ptx_dependence *first = a, *second = b;
    if (first->block != second->block)
        return first->block < second->block ? -1 : 1;
    return first->branch < second->branch ? -1 : first->branch > second->branch;
}

static gs_code find_dependences(gs_ptx_flow *flow, gs_error *error) {
    uint32_t count = (uint32_t)flow->blocks.count;
    struct walk walk = {.flow = flow};
    for (uint32_t b = 0; b < count && !walk.failed; b++) {
        const gs_ptx_block *block = &flow->blocks.data[b];
        walk.branch = b;
        if (block->target_count || (block->successors[0] != GS_PTX_NONE && block->successors[1] != GS_PTX_NONE))
            each_successor(flow, b, walk_edge, &walk);
    }
    flow->dependence_first = calloc(count + 1, sizeof *flow->dependence_first);
    if (walk.failed || !flow->dependence_first)
        return gs_fail_memory(error);
    if (flow->dependences.count)
        qsort(flow->dependences.data, flow->dependences.count, sizeof *flow->dependences.data, by_block);
    for (size_t i = 0, b = 0; b <= count; b++) {
        while (i < flow->dependences.count && flow->dependences.data[i].block < b)
            i++;
        flow->dependence_first[b] = (uint32_t)i;
    }
    return GS_OK;
}

/* ---- the whole analysis ---- */

gs_code gs_ptx_flow_make(gs_ptx_flow *flow, const gs_ptx_module *module, uint32_t function, gs_error *error) {
    struct maker maker = {.flow = flow, .error = error};
    *flow = (gs_ptx_flow){.module = module, .function = function};
    gs_code code = cut_blocks(flow, error);
    if (code == GS_OK)
        code = collect_labels(&maker);
    for (uint32_t b = 0; b < flow->blocks.count && code == GS_OK; b++)
        code = connect_block(&maker, b);
    if (code == GS_OK)
        code = find_post_dominators(flow, error);
    if (code == GS_OK)
        code = find_dependences(flow, error);
    free(maker.labels.data);
    if (code != GS_OK)
        gs_ptx_flow_free(flow);
    return code;
}

void gs_ptx_flow_free(gs_ptx_flow *flow) {
    free(flow->blocks.data);
    free(flow->targets.data);
    free(flow->dependences.data);
    free(flow->dependence_first);
    free(flow->after);
    *flow = (gs_ptx_flow){.module = NULL};
}

uint32_t gs_ptx_flow_block(const gs_ptx_flow *flow, uint32_t statement) {
    size_t low = 0, high = flow->blocks.count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (flow->blocks.data[middle].first <= statement)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

struct search {
    uint32_t *stack, top;
    bool *reached;
};

static void mark_reached(void *context, uint32_t block) {
    struct search *search = context;
    if (search->reached[block])
        return;
    search->reached[block] = true;
    search->stack[search->top++] = block;
}

bool gs_ptx_flow_reach(const gs_ptx_flow *flow, uint32_t from, bool *reached) {
    struct search search = {.stack = malloc((flow->blocks.count + 1) * sizeof *search.stack), .reached = reached};
    if (!search.stack)
        return false;
    each_successor(flow, from, mark_reached, &search);
    while (search.top) {
        uint32_t block = search.stack[--search.top];
        if (block < flow->blocks.count)
            each_successor(flow, block, mark_reached, &search);
    }
    free(search.stack);
    return true;
}
