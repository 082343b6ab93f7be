/*
 * flow_walk.c: the parts of a kernel in order, as a tree of branches and loops.
 *
 * A loop is walked as a graph without circles: its blocks, and the loops inside as one node each. From a node with
 * several ways on, the walk goes along each of them up to the node where all meet, as sides of a branch; if ways share
 * a node before that, each node of the ways is a side of its own of a branch that is not uniform. So each node is
 * counted once. Ways out of the loop, and back to its header, end the walk. A call is walked in its place.
 */
#include "flow_parts.h"

#include <stdlib.h>

enum { MOST_STEPS = 4000000, MOST_NESTING = 150, SINK = -1 };

struct walker {
    gs_flow_code code;
    gs_sass_line_of *lines;
    const gs_flow_launch *launch;
    gs_flow_rounds *given;
    size_t given_count;
    bool *is_never, *is_one_way; /* of each instruction: its line is given as one of these */
    const gs_flow_visitor *visitor;
    gs_error *error;
    size_t steps, left_out; /* instructions that were walked; blocks that the input does not come to */
    int nesting, calls;
};

/* A loop, as nodes: blocks of the loop, and headers of the loops inside. */
struct region {
    struct walker *walker;
    const gs_flow_graph *graph;
    int32_t loop;
    int32_t *nodes; /* their blocks, in order */
    size_t count;
    int32_t *place; /* of each block: the number of its node, or SINK */
    struct ways {
        struct way {
            int32_t from, to; /* nodes; `to` may be SINK: out of the loop, or back */
        } * data;
        size_t count, capacity;
    } ways;            /* by `from` */
    size_t *first_way; /* of each node */
    uint64_t *meets;   /* of each node: a bit for each node that all ways from it go through */
    size_t words;      /* of `meets`, for each node */
    bool *is_uniform;  /* of each node */
};

static gs_code walk_function(struct walker *walker, size_t entry, bool is_called);
static gs_code walk_loop(struct walker *walker, const gs_flow_graph *graph, int32_t loop);

static uint32_t line_at(const struct walker *walker, size_t at) {
    bool is_main = walker->lines[at].file == walker->lines[0].file;
    return is_main ? walker->lines[at].line : 0;
}

static gs_code open_part(struct walker *walker, gs_flow_kind kind, size_t at, bool is_uniform, int64_t times,
                         gs_flow_source source) {
    if (++walker->nesting > MOST_NESTING)
        return gs_flow_refuse(walker->error, at, "branches and loops are nested too deep");
    bool is_stored = walker->visitor->open(walker->visitor->user, kind, (uint32_t)(at * GS_FLOW_BYTES),
                                           line_at(walker, at), is_uniform, times, source);
    return is_stored ? GS_OK : gs_fail_memory(walker->error);
}

static gs_code close_part(struct walker *walker) {
    walker->nesting--;
    return walker->visitor->close(walker->visitor->user) ? GS_OK : gs_fail_memory(walker->error);
}

/* ---- instructions ---- */

/* A barrier of all threads of the block. */
static gs_code check_barrier(struct walker *walker, const gs_flow_instruction *instruction, size_t at) {
    enum { ARRIVES = 1 };
    int64_t threads = walker->launch->block[0] * walker->launch->block[1] * walker->launch->block[2];
    unsigned count = gs_bits(instruction->low, 42, 12), mode = gs_bits(instruction->high, 13, 2);
    if (mode == ARRIVES || (count && count != threads))
        return gs_flow_refuse(walker->error, at, "a barrier of some of the block's threads");
    return GS_OK;
}

/* The class of an instruction: that of its table, or a faster one for lanes that read and write beside each other, 4
   bytes each, or more. */
static const char *class_of(const gs_flow_instruction *instruction) {
    static const struct {
        const char *name, *near_name, *wide_name;
        int most; /* transactions, of each part of a warp */
    } classes[] = {{"global_load", "global_load_near", "global_load_wide", 7},
                   {"global_store", "global_store_near", "global_store_wide", 7},
                   {"local_load", "local_load_near", "local_load_wide", 7},
                   {"local_store", "local_store_near", "local_store_wide", 7},
                   {"global_atomic", "global_atomic_near", "global_atomic_near", 7},
                   {"shared_load", "shared_load_near", "shared_load_near", 1},
                   {"shared_store", "shared_store_near", "shared_store_near", 1},
                   {"constant_scattered", "constant", "constant", 1}};
    const char *name = instruction->opcode->class_name;
    int parts = gs_flow_access_parts(instruction);
    for (size_t i = 0; i < GS_COUNT(classes); i++)
        if (strcmp(classes[i].name, name) == 0 && instruction->transactions &&
            instruction->transactions <= classes[i].most * parts)
            return parts > 1 ? classes[i].wide_name : classes[i].near_name;
    return name;
}

/* What an instruction reads of constant memory, see gs_flow_step. */
static uint32_t constant_of(const gs_flow_instruction *instruction) {
    enum { LDC = 0x182, ULDC = 0x0b9, ULDC_AT = 0x0bb };
    unsigned operation = gs_operation(instruction), form = gs_form(instruction);
    bool is_load = operation == LDC || operation == ULDC || operation == ULDC_AT;
    bool reads = instruction->opcode->operands & GS_READS_B && (form == 3 || form == 5);
    if (operation == ULDC_AT || (operation == LDC && gs_bits(instruction->low, 24, 8) != GS_NO_REGISTER))
        return UINT32_MAX;
    return is_load || reads ? 1 + (gs_bits(instruction->low, 54, 5) << 16 | gs_bits(instruction->low, 38, 16)) : 0;
}

static gs_code walk_instruction(struct walker *walker, size_t at) {
    const gs_flow_instruction *instruction = &walker->code.data[at];
    bool is_barrier = gs_operation(instruction) == GS_OP_BAR;
    bool is_atomic = strcmp(instruction->opcode->class_name, "global_atomic") == 0; /* each lane is a transaction */
    unsigned control = gs_bits(instruction->high, 41, 17);
    gs_flow_step step = {.offset = (uint32_t)(at * GS_FLOW_BYTES),
                         .line = line_at(walker, at),
                         .name = instruction->opcode->name,
                         .class_name = class_of(instruction),
                         .transactions = is_atomic ? 0 : instruction->transactions,
                         .constant = constant_of(instruction),
                         .stall = control & 15,
                         .result = control >> 5 & 7,
                         .reads = control >> 8 & 7,
                         .waits = control >> 11 & 63,
                         .is_barrier = is_barrier,
                         .is_call = gs_operation(instruction) == GS_OP_CALL};
    gs_code result = is_barrier ? check_barrier(walker, instruction, at) : GS_OK;
    if (result == GS_OK && ++walker->steps > MOST_STEPS)
        result =
            gs_flow_refuse(walker->error, at,
                           "the kernel, with the functions that it calls, has more than %d instructions", MOST_STEPS);
    if (result == GS_OK && !walker->visitor->step(walker->visitor->user, &step))
        result = gs_fail_memory(walker->error);
    if (result == GS_OK && gs_operation(instruction) == GS_OP_CALL)
        result = walk_function(walker, gs_flow_target(&walker->code, at), true);
    return result;
}

static gs_code walk_block(struct walker *walker, const gs_flow_block *block) {
    gs_code result = GS_OK;
    if (!block->is_reached)
        return GS_OK;
    if (block->groups > 1)
        result = open_part(walker, GS_FLOW_GROUPS, block->first, false, block->groups, GS_FLOW_OF_CODE);
    for (size_t at = block->first; at < block->end && result == GS_OK; at++)
        result = walk_instruction(walker, at);
    if (block->groups > 1 && result == GS_OK)
        result = close_part(walker);
    return result;
}

/* ---- the nodes of a loop ---- */

/* The node that a way from inside the region leads to. */
static int32_t node_of(const struct region *region, int32_t block) {
    const gs_flow_graph *graph = region->graph;
    if (block == GS_NO_BLOCK || !gs_flow_in_loop(graph, block, region->loop) ||
        (region->loop && block == graph->loops.data[region->loop].header))
        return SINK;
    return region->place[block];
}

static bool add_way(struct region *region, int32_t from, int32_t to) {
    for (size_t i = region->first_way[from]; i < region->ways.count; i++)
        if (region->ways.data[i].to == to)
            return true;
    return GS_PUSH(&region->ways, (struct way){from, to});
}

/* The ways from a node; a node that is a loop has those of all its blocks. */
static bool add_ways(struct region *region, size_t node) {
    const gs_flow_graph *graph = region->graph;
    region->first_way[node] = region->ways.count;
    region->is_uniform[node] = true;
    for (size_t i = 0; i < graph->blocks.count; i++) {
        const gs_flow_block *block = &graph->blocks.data[i];
        if (region->place[i] != (int32_t)node)
            continue;
        for (int side = 0; side < 2; side++) {
            int32_t to = node_of(region, block->next[side]);
            if (block->next[side] == GS_NO_BLOCK || to == (int32_t)node)
                continue;
            region->is_uniform[node] = region->is_uniform[node] && block->is_uniform;
            if (!add_way(region, (int32_t)node, to))
                return false;
        }
    }
    region->first_way[node + 1] = region->ways.count;
    return true;
}

static void place_nodes(struct region *region) {
    const gs_flow_graph *graph = region->graph;
    for (size_t i = 0; i < graph->blocks.count; i++)
        region->place[i] = SINK;
    for (size_t i = 0; i < graph->blocks.count; i++) {
        int32_t block = graph->order[i];
        if (!gs_flow_in_loop(graph, block, region->loop))
            continue;
        int32_t inner = gs_flow_loop_inside(graph, block, region->loop);
        bool is_node = !inner || graph->loops.data[inner].header == block;
        if (is_node)
            region->nodes[region->count] = block;
        region->place[block] = is_node ? (int32_t)region->count++ : region->place[graph->loops.data[inner].header];
    }
}

/* Nodes come after those before them, so one round from the last to the first finds where ways meet. */
static void find_meetings(struct region *region) {
    for (size_t node = region->count; node-- > 0;) {
        uint64_t *meets = region->meets + node * region->words;
        size_t first = region->first_way[node], end = region->first_way[node + 1];
        for (size_t i = first; i < end; i++) {
            int32_t to = region->ways.data[i].to;
            for (size_t word = 0; word < region->words; word++) {
                uint64_t there = to == SINK ? 0 : region->meets[(size_t)to * region->words + word];
                meets[word] = i == first ? there : meets[word] & there;
            }
        }
        meets[node / 64] |= (uint64_t)1 << node % 64;
    }
}

/* The first node, other than this one, that all ways from it go through. */
static int32_t meeting_of(const struct region *region, int32_t node) {
    const uint64_t *meets = region->meets + (size_t)node * region->words;
    for (size_t other = (size_t)node + 1; other < region->count; other++)
        if (meets[other / 64] >> other % 64 & 1)
            return (int32_t)other;
    return SINK;
}

static bool make_region(struct region *region) {
    size_t count = region->graph->blocks.count;
    region->words = count / 64 + 1;
    region->nodes = calloc(count + 1, sizeof *region->nodes);
    region->place = calloc(count + 1, sizeof *region->place);
    region->first_way = calloc(count + 2, sizeof *region->first_way);
    region->is_uniform = calloc(count + 1, sizeof *region->is_uniform);
    if (!region->nodes || !region->place || !region->first_way || !region->is_uniform)
        return false;
    place_nodes(region);
    for (size_t node = 0; node < region->count; node++)
        if (!add_ways(region, node))
            return false;
    region->meets = calloc(region->count * region->words + 1, sizeof *region->meets);
    if (region->meets)
        find_meetings(region);
    return region->meets != NULL;
}

static void clear_region(struct region *region) {
    free(region->nodes);
    free(region->place);
    free(region->ways.data);
    free(region->first_way);
    free(region->meets);
    free(region->is_uniform);
}

/* ---- the walk ---- */

static gs_code walk_node(struct region *region, int32_t node) {
    const gs_flow_graph *graph = region->graph;
    int32_t block = region->nodes[node], inner = gs_flow_loop_inside(graph, block, region->loop);
    if (!inner)
        return walk_block(region->walker, &graph->blocks.data[block]);
    const gs_flow_loop *loop = &graph->loops.data[inner];
    gs_code result =
        open_part(region->walker, GS_FLOW_LOOP, graph->blocks.data[block].first, false, loop->times, loop->source);
    if (result == GS_OK)
        result = walk_loop(region->walker, graph, inner);
    return result == GS_OK ? close_part(region->walker) : result;
}

/* Counts, for each node from `from` up to `stop`, one more way that reaches it. */
static void reach(const struct region *region, int32_t from, int32_t stop, unsigned char *reached) {
    bool *is_here = calloc(region->count + 1, sizeof *is_here);
    int32_t end = stop == SINK ? (int32_t)region->count : stop;
    if (is_here && from != SINK && from < end)
        is_here[from] = true;
    for (int32_t node = from; is_here && node != SINK && node < end; node++)
        for (size_t i = region->first_way[node]; is_here[node] && i < region->first_way[node + 1]; i++)
            if (region->ways.data[i].to != SINK && region->ways.data[i].to < end)
                is_here[region->ways.data[i].to] = true;
    for (size_t node = 0; node < region->count; node++)
        if (!is_here || is_here[node])
            reached[node] = reached[node] < 2 ? reached[node] + 1 : 2;
    free(is_here);
}

static gs_code walk_sides(struct region *region, int32_t node, int32_t stop);

static gs_code walk_side(struct region *region, size_t at, int32_t from, int32_t stop, bool is_alone) {
    gs_code result = open_part(region->walker, GS_FLOW_SIDE, at, false, 0, GS_FLOW_OF_CODE);
    if (result == GS_OK && is_alone)
        result = walk_node(region, from);
    while (result == GS_OK && !is_alone && from != stop && from != SINK) {
        result = walk_node(region, from);
        size_t first = region->first_way[from], end = region->first_way[from + 1];
        int32_t next = first == end ? SINK : end == first + 1 ? region->ways.data[first].to : meeting_of(region, from);
        if (result == GS_OK && end > first + 1)
            result = walk_sides(region, from, next);
        from = next;
    }
    return result == GS_OK ? close_part(region->walker) : result;
}

/* The ways from a node up to where they meet. */
static gs_code walk_sides(struct region *region, int32_t node, int32_t stop) {
    unsigned char *reached = calloc(region->count + 1, 1);
    size_t first = region->first_way[node], end = region->first_way[node + 1];
    size_t at = region->graph->blocks.data[region->nodes[node]].end - 1;
    bool is_shared = false;
    if (!reached)
        return gs_fail_memory(region->walker->error);
    for (size_t i = first; i < end; i++)
        reach(region, region->ways.data[i].to, stop, reached);
    for (size_t i = 0; i < region->count; i++)
        is_shared = is_shared || reached[i] > 1;
    gs_code result =
        open_part(region->walker, GS_FLOW_BRANCH, at, region->is_uniform[node] && !is_shared, 0, GS_FLOW_OF_CODE);
    for (size_t i = first; i < end && !is_shared && result == GS_OK; i++)
        result = walk_side(region, at, region->ways.data[i].to, stop, false);
    for (size_t i = 0; i < region->count && is_shared && result == GS_OK; i++)
        if (reached[i])
            result = walk_side(region, at, (int32_t)i, stop, true);
    free(reached);
    return result == GS_OK ? close_part(region->walker) : result;
}

static gs_code walk_loop(struct walker *walker, const gs_flow_graph *graph, int32_t loop) {
    struct region region = {.walker = walker, .graph = graph, .loop = loop};
    gs_code result = make_region(&region) ? GS_OK : gs_fail_memory(walker->error);
    for (int32_t node = 0; node != SINK && result == GS_OK;) {
        result = walk_node(&region, node);
        size_t first = region.first_way[node], end = region.first_way[node + 1];
        int32_t next = first == end ? SINK : end == first + 1 ? region.ways.data[first].to : meeting_of(&region, node);
        if (result == GS_OK && end > first + 1)
            result = walk_sides(&region, node, next);
        node = next;
    }
    clear_region(&region);
    return result;
}

/* ---- functions ---- */

/* Whether code of a line may be in a loop with these rounds. Compilers move code into loops from outside of all; that
   of another loop says that this is not the loop, or two that were joined. */
static bool may_be_in(const struct walker *walker, const gs_flow_rounds *given, uint32_t line) {
    bool is_of_other = false;
    for (size_t i = 0; i < walker->given_count; i++) {
        const gs_flow_rounds *other = &walker->given[i];
        is_of_other =
            is_of_other || (other->place == GS_FLOW_BRANCH_LINE && line >= other->first && line <= other->last);
    }
    return (line >= given->first && line <= given->last) || (line && !is_of_other);
}

/* Whether all branches back of a loop are of a line. */
static bool goes_back_in(const struct walker *walker, const gs_flow_graph *graph, int32_t loop, uint32_t line) {
    int32_t header = graph->loops.data[loop].header;
    for (size_t i = 0; i < graph->blocks.count; i++) {
        const gs_flow_block *block = &graph->blocks.data[i];
        bool is_back = block->next[0] == header || block->next[1] == header;
        if (is_back && gs_flow_in_loop(graph, (int32_t)i, loop) && line_at(walker, block->end - 1) != line)
            return false;
    }
    return true;
}

/* Whether a loop is the one that is closed in a line: its branches back are of that line, its code is of the lines of
   that loop, and it is in as many loops. */
static bool is_closed_in(const struct walker *walker, const gs_flow_graph *graph, int32_t loop,
                         const gs_flow_rounds *given) {
    uint32_t depth = 0;
    for (int32_t around = loop; around; around = graph->loops.data[around].parent)
        depth++;
    if (given->rounds < 0 || depth < given->depth || !goes_back_in(walker, graph, loop, given->at))
        return false;
    for (size_t i = 0; i < graph->blocks.count; i++) {
        const gs_flow_block *block = &graph->blocks.data[i];
        if (!gs_flow_in_loop(graph, (int32_t)i, loop))
            continue;
        for (size_t at = block->first; at < block->end; at++) /* BSYNC has the line of what is before it */
            if (gs_operation(&walker->code.data[at]) != GS_OP_BSYNC && !may_be_in(walker, given, line_at(walker, at)))
                return false;
    }
    return true;
}

static bool is_inside(const gs_flow_graph *graph, int32_t loop, int32_t outer) {
    while (loop && loop != outer)
        loop = graph->loops.data[loop].parent;
    return loop == outer;
}

/* The rounds of the loop that is closed in a line. A compiler may have joined it with loops of the source inside: then
   these have no loop of their own, and each of their rounds may be one of this. -1: not known. */
static int64_t joined_rounds(const struct walker *walker, const gs_flow_graph *graph, int32_t loop,
                             const gs_flow_rounds *given) {
    int64_t rounds = given->rounds;
    for (size_t i = 0; i < walker->given_count && rounds >= 0; i++) {
        const gs_flow_rounds *other = &walker->given[i];
        if (other->place != GS_FLOW_BRANCH_LINE || other == given || other->first < given->first ||
            other->last > given->last)
            continue;
        bool has_loop = false;
        for (int32_t inner = 1; inner < (int32_t)graph->loops.count && !has_loop; inner++)
            has_loop = inner != loop && is_inside(graph, inner, loop) && goes_back_in(walker, graph, inner, other->at);
        bool is_overflow = other->rounds > 0 && rounds > INT64_MAX / other->rounds;
        if (!has_loop)
            rounds = other->rounds < 0 || is_overflow ? -1 : rounds * gs_max(other->rounds, 1);
    }
    return rounds;
}

static bool is_at(const struct walker *walker, const gs_flow_graph *graph, int32_t loop, const gs_flow_rounds *given) {
    size_t at = graph->blocks.data[graph->loops.data[loop].header].first;
    if (given->place > GS_FLOW_BRANCH_LINE)
        return false;
    if (given->place == GS_FLOW_BRANCH_LINE)
        return is_closed_in(walker, graph, loop, given);
    return given->at == (given->place == GS_FLOW_OFFSET ? at * GS_FLOW_BYTES : line_at(walker, at));
}

static size_t begin_of(const gs_flow_graph *graph, size_t loop) {
    return graph->blocks.data[graph->loops.data[loop].header].first;
}

/* Whether another loop begins in the line of this one. */
static bool shares_line(const struct walker *walker, const gs_flow_graph *graph, size_t loop) {
    for (size_t i = 1; i < graph->loops.count; i++)
        if (i != loop && line_at(walker, begin_of(graph, i)) == line_at(walker, begin_of(graph, loop)))
            return true;
    return false;
}

/* Takes over the rounds of `given`. Those of the user are of the body as the source has it. The code before the test
   of the loop is executed once more, and where that is does not show: compilers put a test at the end and do what
   follows it early. */
static gs_code use_given_rounds(struct walker *walker, gs_flow_graph *graph) {
    for (size_t i = 1; i < graph->loops.count; i++)
        for (size_t j = 0; j < walker->given_count; j++) {
            gs_flow_loop *loop = &graph->loops.data[i];
            gs_flow_rounds *given = &walker->given[j];
            if (!is_at(walker, graph, (int32_t)i, given))
                continue;
            if (given->place == GS_FLOW_LINE && shares_line(walker, graph, i))
                return gs_flow_refuse(walker->error, begin_of(graph, i),
                                      "several loops begin in line %u; --loop 0x%zx=ROUNDS means this one", given->at,
                                      begin_of(graph, i) * GS_FLOW_BYTES);
            bool is_of_user = given->place != GS_FLOW_BRANCH_LINE;
            int64_t rounds = is_of_user ? given->rounds : joined_rounds(walker, graph, (int32_t)i, given);
            if (rounds < 0)
                continue;
            given->is_used = true;
            loop->times = is_of_user && rounds < INT64_MAX ? rounds + 1 : rounds;
            loop->source = is_of_user ? GS_FLOW_GIVEN : GS_FLOW_OF_BRANCH_LINE;
            loop->given = is_of_user ? (int32_t)j : GS_NOT_GIVEN;
        }
    return GS_OK;
}

/* Fewer rounds than the loop has for certain, or than it needs to be left, are a mistake of the user. */
static gs_code check_given(const struct walker *walker, const gs_flow_graph *graph) {
    for (size_t i = 1; i < graph->loops.count; i++) {
        const gs_flow_loop *loop = &graph->loops.data[i];
        if (loop->given == GS_NOT_GIVEN)
            continue;
        const gs_flow_rounds *given = &walker->given[loop->given];
        char place[20], option[60];
        snprintf(place, sizeof place, given->place == GS_FLOW_OFFSET ? "0x%x" : "%u", given->at);
        snprintf(option, sizeof option, "--loop %s=%lld", place, (long long)given->rounds);
        if (loop->exact >= 0 && given->rounds < INT64_MAX && given->rounds + 1 < loop->exact)
            return gs_fail(walker->error, GS_E_USAGE, "%s: the loop at 0x%zx, in line %u, has %lld rounds by its code",
                           option, begin_of(graph, i) * GS_FLOW_BYTES, line_at(walker, begin_of(graph, i)),
                           (long long)loop->exact);
        if (loop->is_closed)
            return gs_fail(walker->error, GS_E_USAGE,
                           "%s: the loop at 0x%zx, in line %u, cannot be left after so few rounds", option,
                           begin_of(graph, i) * GS_FLOW_BYTES, line_at(walker, begin_of(graph, i)));
    }
    return GS_OK;
}

/* ---- transactions of the input ---- */

static bool is_access(const gs_flow_instruction *instruction) {
    static const char *const words[] = {"_load", "_store", "atomic", "async_copy", "texture"};
    bool is_found = false;
    for (size_t i = 0; i < GS_COUNT(words); i++)
        is_found = is_found || strstr(instruction->opcode->class_name, words[i]);
    return is_found;
}

static bool is_same_access(const gs_flow_instruction *instruction, const gs_flow_rounds *given) {
    unsigned wanted = given->is_shared  ? given->is_store ? GS_OP_STS : GS_OP_LDS
                      : given->is_store ? GS_OP_STG
                                        : GS_OP_LDG;
    return gs_operation(instruction) == wanted && gs_flow_access_bytes(instruction) == given->bytes;
}

/* The instructions of a line that access memory; `last` gets the last one. */
static size_t count_accesses(const struct walker *walker, const gs_flow_rounds *given, size_t *last) {
    size_t count = 0;
    for (size_t at = 0; at < walker->code.count; at++)
        if (is_access(&walker->code.data[at]) && line_at(walker, at) == given->at) {
            count++;
            *last = at;
        }
    return count;
}

/* Whether each access of the PTX of the same kind has an instruction of that kind for itself: then none of these does
   what another one was to do. */
static bool has_all_of_kind(const struct walker *walker, const gs_flow_rounds *given) {
    for (size_t i = 0; i < walker->given_count; i++) {
        const gs_flow_rounds *other = &walker->given[i];
        size_t in_line = 0, found = 0;
        if (other->place != GS_FLOW_ACCESS_LINE || other->is_shared != given->is_shared ||
            other->is_store != given->is_store || other->bytes != given->bytes)
            continue;
        for (size_t j = 0; j < walker->given_count; j++)
            in_line += walker->given[j].place == GS_FLOW_ACCESS_LINE && walker->given[j].at == other->at;
        for (size_t at = 0; at < walker->code.count; at++)
            found += line_at(walker, at) == other->at && is_same_access(&walker->code.data[at], other);
        if (found < in_line)
            return false;
    }
    return true;
}

/* Whether no other loop is closed in the line: where a loop has become two, a round of one of them may be other rounds
   of the PTX in other lanes. */
static bool is_only_one(const struct walker *walker, const gs_flow_graph *graph, int32_t loop,
                        const gs_flow_rounds *given) {
    for (size_t i = 0; i < graph->blocks.count; i++)
        for (int side = 0; side < 2; side++) {
            const gs_flow_block *block = &graph->blocks.data[i];
            int32_t to = block->next[side];
            if (to != GS_NO_BLOCK && to != graph->loops.data[loop].header && gs_flow_dominates(graph, to, (int32_t)i) &&
                line_at(walker, block->end - 1) == given->at)
                return false;
        }
    return true;
}

/* Whether a block is in as many loops as an access of the PTX, and each of them is the only one that has its line, and
   one to which the threads of a warp come as one group. */
static bool has_loops_of(const struct walker *walker, const gs_flow_graph *graph, int32_t block,
                         const gs_flow_rounds *access) {
    uint32_t depth = 0;
    for (int32_t loop = graph->blocks.data[block].loop; loop; loop = graph->loops.data[loop].parent) {
        size_t found = 0;
        for (size_t i = 0; i < walker->given_count; i++) {
            const gs_flow_rounds *given = &walker->given[i];
            found += given->place == GS_FLOW_BRANCH_LINE && given->first <= access->at && access->at <= given->last &&
                     given->depth + depth == access->depth && is_closed_in(walker, graph, loop, given) &&
                     is_only_one(walker, graph, loop, given);
        }
        if (found != 1 || graph->blocks.data[graph->loops.data[loop].header].groups != 1)
            return false;
        depth++;
    }
    return depth == access->depth;
}

static gs_flow_block *block_of(gs_flow_graph *graph, size_t at, int32_t *number) {
    for (size_t i = 0; i < graph->blocks.count; i++)
        if (graph->blocks.data[i].first <= at && at < graph->blocks.data[i].end) {
            *number = (int32_t)i;
            return &graph->blocks.data[i];
        }
    return NULL;
}

/* Where one instruction is one access of the PTX, in the same loops, and the threads of a warp come to it as one group,
   those that execute it together are in the same rounds; and their transactions were counted. */
static void use_accesses(struct walker *walker, gs_flow_graph *graph) {
    for (size_t i = 0; i < walker->given_count; i++) {
        gs_flow_rounds *given = &walker->given[i];
        size_t at = 0;
        int32_t number = 0;
        if (given->place != GS_FLOW_ACCESS_LINE || given->rounds < 0 || count_accesses(walker, given, &at) != 1)
            continue;
        gs_flow_instruction *instruction = &walker->code.data[at];
        const gs_flow_block *block = block_of(graph, at, &number);
        bool is_lower = !instruction->transactions || given->rounds < instruction->transactions;
        if (!block || block->groups != 1 || !is_lower || !is_same_access(instruction, given) ||
            !has_loops_of(walker, graph, number, given) || !has_all_of_kind(walker, given))
            continue;
        instruction->transactions = (uint8_t)given->rounds;
        given->is_used = true;
    }
}

/* ---- code that the input does not come to ---- */

/* Whether all instructions of a block are of lines that no thread comes to. BSYNC has the line of what is before it; a
   block of branches and ends alone counts only where `is_rest`. */
static bool is_of_never(const struct walker *walker, const gs_flow_block *block, bool is_rest) {
    bool has_others = is_rest;
    for (size_t at = block->first; at < block->end; at++) {
        unsigned operation = gs_operation(&walker->code.data[at]);
        bool is_end = operation == GS_OP_BSYNC || (is_rest && (operation == GS_OP_BRA || operation == GS_OP_EXIT));
        if (!is_end && !walker->is_never[at])
            return false;
        has_others = has_others || !is_end;
    }
    return has_others;
}

/* The side of a block's branch that no thread takes, or -1: that of a branch that all threads leave the same way, where
   the first block of one side is of lines that no thread comes to, and that of the other is not. */
static int never_side(const struct walker *walker, const gs_flow_graph *graph, const gs_flow_block *block) {
    bool never[2];
    for (int side = 0; side < 2; side++) {
        int32_t next = block->next[side];
        if (next == GS_NO_BLOCK || !graph->blocks.data[next].is_reached)
            return -1;
        never[side] = is_of_never(walker, &graph->blocks.data[next], false);
    }
    return never[0] == never[1] || !walker->is_one_way[block->end - 1] ? -1 : never[1];
}

/* Finds the blocks that are reached without the sides that are left out: side + 1 of each block, or 0. */
static void find_stays(const gs_flow_graph *graph, const uint8_t *left_out, bool *stays, int32_t *open) {
    size_t count = 1;
    memset(stays, 0, graph->blocks.count * sizeof *stays);
    open[0] = graph->order[0];
    stays[open[0]] = true;
    while (count) {
        int32_t at = open[--count];
        for (int side = 0; side < 2; side++) {
            int32_t next = graph->blocks.data[at].next[side];
            if (next == GS_NO_BLOCK || left_out[at] == side + 1 || stays[next] || !graph->blocks.data[next].is_reached)
                continue;
            stays[next] = true;
            open[count++] = next;
        }
    }
}

/* Leaves out the sides of branches that no thread takes, unless code of other lines would go with them. Then the line
   of the side is that of code which the compiler has moved there, as in front of a loop. */
static gs_code drop_never(struct walker *walker, gs_flow_graph *graph) {
    size_t count = graph->blocks.count;
    bool *stays = calloc(count + 1, sizeof *stays), has_never = false;
    uint8_t *left_out = calloc(count + 1, sizeof *left_out);
    int32_t *open = calloc(count + 1, sizeof *open);
    for (size_t i = 0; i < walker->given_count; i++)
        has_never = has_never || walker->given[i].place == GS_FLOW_NEVER_LINE;
    for (size_t i = 0; stays && left_out && open && i < count && has_never; i++) {
        int side = graph->blocks.data[i].is_reached ? never_side(walker, graph, &graph->blocks.data[i]) : -1;
        if (side < 0)
            continue;
        left_out[i] = (uint8_t)(side + 1);
        find_stays(graph, left_out, stays, open);
        for (size_t j = 0; j < count; j++)
            if (!stays[j] && graph->blocks.data[j].is_reached && !is_of_never(walker, &graph->blocks.data[j], true))
                left_out[i] = 0;
    }
    if (stays && left_out && open && has_never) {
        find_stays(graph, left_out, stays, open);
        for (size_t i = 0; i < count; i++) {
            gs_flow_block *block = &graph->blocks.data[i];
            walker->left_out += block->is_reached && !stays[i];
            block->is_reached = block->is_reached && stays[i];
        }
        for (size_t i = 1; i < graph->loops.count; i++)
            if (!stays[graph->loops.data[i].header])
                graph->loops.data[i].times = 0;
    }
    bool is_stored = stays && left_out && open;
    free(stays);
    free(left_out);
    free(open);
    return is_stored ? GS_OK : gs_fail_memory(walker->error);
}

static gs_code check_rounds(struct walker *walker, const gs_flow_graph *graph) {
    for (size_t i = 1; i < graph->loops.count; i++) {
        size_t at = begin_of(graph, i);
        uint32_t line = line_at(walker, at);
        if (graph->loops.data[i].times >= 0)
            continue;
        if (line && !shares_line(walker, graph, i))
            return gs_flow_refuse(walker->error, at,
                                  "the rounds of the loop in line %u are not known; --loop %u=ROUNDS gives them", line,
                                  line);
        return gs_flow_refuse(walker->error, at, "the rounds of the loop are not known; --loop 0x%zx=ROUNDS gives them",
                              at * GS_FLOW_BYTES);
    }
    return GS_OK;
}

static gs_code walk_function(struct walker *walker, size_t entry, bool is_called) {
    enum { MOST_CALLS = 2000 };
    gs_flow_graph graph = {0};
    if (++walker->calls > MOST_CALLS)
        return gs_flow_refuse(walker->error, entry, "more than %d calls", MOST_CALLS);
    gs_code result = gs_flow_graph_make(&graph, &walker->code, entry, walker->error);
    graph.is_called = is_called;
    if (result == GS_OK)
        result = use_given_rounds(walker, &graph);
    if (result == GS_OK)
        result = gs_flow_count_rounds(&graph, walker->launch, walker->error);
    if (result == GS_OK)
        result = check_given(walker, &graph);
    if (result == GS_OK && !is_called)
        result = drop_never(walker, &graph);
    if (result == GS_OK)
        result = gs_flow_find_divergence(&graph, walker->launch, walker->error);
    if (result == GS_OK && !is_called)
        use_accesses(walker, &graph);
    if (result == GS_OK)
        result = check_rounds(walker, &graph);
    if (result == GS_OK)
        result = walk_loop(walker, &graph, 0);
    gs_flow_graph_clear(&graph);
    return result;
}

/* ---- the code ---- */

static const gs_opcode unknown_opcode = {GS_OP_UNKNOWN, "?", "?", 0};

static bool decode(struct walker *walker, const gs_text *bytes) {
    size_t count = bytes->count / GS_FLOW_BYTES;
    walker->code.data = calloc(count + 1, sizeof *walker->code.data);
    walker->lines = calloc(count + 1, sizeof *walker->lines);
    walker->is_never = calloc(count + 1, sizeof *walker->is_never);
    walker->is_one_way = calloc(count + 1, sizeof *walker->is_one_way);
    if (!walker->code.data || !walker->lines || !walker->is_never || !walker->is_one_way)
        return false;
    for (size_t i = 0; i < count; i++) {
        gs_flow_instruction *instruction = &walker->code.data[i];
        instruction->low = gs_sass_long(bytes, i * GS_FLOW_BYTES);
        instruction->high = gs_sass_long(bytes, i * GS_FLOW_BYTES + 8);
        instruction->opcode = gs_opcode_find(gs_bits(instruction->low, 0, 9));
        if (!instruction->opcode)
            instruction->opcode = &unknown_opcode;
    }
    walker->code.count = count;
    return true;
}

static void mark_relocated(struct walker *walker, const gs_sass_image *image, size_t section) {
    for (size_t i = 0; i < image->sections.count; i++) {
        const gs_sass_section *list = &image->sections.data[i];
        size_t step = gs_sass_has_relocations(list) && list->info == section ? gs_sass_relocation_bytes(list) : 0;
        for (size_t at = 0; step && at + step <= list->bytes.count; at += step) {
            uint64_t instruction = gs_sass_long(&list->bytes, at) / GS_FLOW_BYTES;
            if (instruction < walker->code.count)
                walker->code.data[instruction].is_relocated = true;
        }
    }
}

/* Marks the instructions of lines that no thread comes to, and of branches that all threads leave the same way. */
static void mark_lines(struct walker *walker) {
    for (size_t at = 0; at < walker->code.count; at++)
        for (size_t i = 0; i < walker->given_count; i++) {
            bool is_here = walker->given[i].at && walker->given[i].at == line_at(walker, at);
            walker->is_never[at] = walker->is_never[at] || (is_here && walker->given[i].place == GS_FLOW_NEVER_LINE);
            walker->is_one_way[at] =
                walker->is_one_way[at] || (is_here && walker->given[i].place == GS_FLOW_ONE_WAY_LINE);
        }
}

/* Adds the line to a refusal that has the place in the code. */
static void name_line(const struct walker *walker, gs_error *error) {
    char words[sizeof error->message];
    size_t offset = 0;
    int length = 0;
    if (sscanf(error->message, "at 0x%zx:%n", &offset, &length) != 1 || !length || strstr(error->message, " in line "))
        return;
    uint32_t line = offset / GS_FLOW_BYTES < walker->code.count ? line_at(walker, offset / GS_FLOW_BYTES) : 0;
    memcpy(words, error->message, sizeof words);
    if (line)
        snprintf(error->message, sizeof error->message, "at 0x%zx, in line %u:%.350s", offset, line, words + length);
}

gs_code gs_flow_walk(gs_sass_image *image, const char *kernel, const gs_flow_launch *launch, gs_flow_rounds *given,
                     size_t given_count, const gs_flow_visitor *visitor, char **file, gs_error *error) {
    enum { ARCHITECTURE = 90 };
    const gs_sass_section *code = gs_sass_find(image, ".text.", kernel);
    struct walker walker = {
        .launch = launch, .given = given, .given_count = given_count, .visitor = visitor, .error = error};
    *file = NULL;
    if (gs_sass_architecture(image) != ARCHITECTURE)
        return gs_fail(error, GS_E_REFUSED, "the code is for sm_%d; only that of sm_90 is understood",
                       gs_sass_architecture(image));
    if (!code || code->bytes.count < GS_FLOW_BYTES)
        return gs_fail(error, GS_E_REFUSED, "there is no code of %s", kernel);
    gs_code result = decode(&walker, &code->bytes) ? GS_OK : gs_fail_memory(error);
    if (result == GS_OK) {
        mark_relocated(&walker, image, (size_t)(code - image->sections.data));
        gs_sass_lines(image, code, walker.lines, walker.code.count, file);
        mark_lines(&walker);
        result = walk_function(&walker, 0, false);
    }
    for (size_t i = 0; i < given_count; i++)
        if (given[i].place == GS_FLOW_NEVER_LINE)
            given[i].is_used = walker.left_out;
    if (result == GS_E_REFUSED && walker.lines)
        name_line(&walker, error);
    free(walker.code.data);
    free(walker.lines);
    free(walker.is_never);
    free(walker.is_one_way);
    if (result != GS_OK) {
        free(*file);
        *file = NULL;
    }
    return result;
}
