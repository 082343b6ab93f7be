/*
 * test_accesses.c: how many transactions loads and stores make for one input, against what is computed here, lane by
 * lane.
 *
 * A random kernel has loops whose rounds differ between lanes, branches, and accesses of global and shared memory at
 * places that it computes or loads. Each lane is executed here, statement by statement, which gives its place in each
 * round. From these the numbers are counted slowly: for all lanes that are in the same rounds, and all places at which
 * the buffer may begin in a sector; a lane that comes to the round but not to the access is one more. The run on the
 * CPU must find exactly these numbers.
 *
 * Then ptxas compiles the kernel: it unrolls loops, and joins and moves code. In some kernels several accesses are in
 * one line. The walk must not say less than the truth for any instruction of a line.
 */
#include "test.h"

#include "ignored_parts.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/cuda.h"
#include "kernels/flow/flow.h"
#include "launch_text.h"

#include <stdlib.h>

enum { VALUES = 4, LANES = 32, BLOCKS = 2, MOST_WARPS = 16, MOST_ROUNDS = 5, STATEMENTS = 60, MOST_LINES = 400 };
enum { ELEMENTS = 1024, SHARED_ELEMENTS = 256, PARAMETER = 3 };

enum kind { LEAF, OPERATION, COMPARE, LOOKUP, ACCESS, LOOP, LOOP_END, IF, IF_END, KINDS };

struct statement {
    enum kind kind;
    int to, a, b, variant;
    uint32_t number, line;
    int bytes, partner; /* of an access; of an end: the begin, and of a begin: the end */
    bool is_shared, is_store, is_guarded;
};

struct place {
    bool is_there, is_present; /* is_present: the lane comes to the round */
    uint64_t at;
};

struct kernel {
    gs_random random;
    gs_text text;
    uint32_t line;
    bool joins_lines; /* several statements in one line */
    int64_t block[3];
    int warps;
    struct statement statements[STATEMENTS];
    int count, depth;
    struct place (*places)[MOST_WARPS][MOST_ROUNDS][MOST_ROUNDS][LANES]; /* of each statement */
    int64_t said[MOST_LINES];                                            /* by the walk: the most of a line */
    int64_t lowered;
};

static uint32_t draw(struct kernel *kernel, uint32_t below) {
    return (uint32_t)(gs_random_next(&kernel->random) % below);
}

/* ---- random kernels ---- */

__attribute__((format(printf, 2, 3))) static void put(struct kernel *kernel, const char *format, ...) {
    char line[300];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    bool stays = kernel->joins_lines && !draw(kernel, 3);
    gs_text_add(&kernel->text, "%s%s", line, stays ? " " : "\n");
    kernel->line += !stays;
}

static struct statement *add(struct kernel *kernel, enum kind kind) {
    struct statement *statement = &kernel->statements[kernel->count++];
    *statement = (struct statement){.kind = kind,
                                    .to = (int)draw(kernel, VALUES),
                                    .a = (int)draw(kernel, VALUES),
                                    .b = (int)draw(kernel, VALUES),
                                    .variant = (int)draw(kernel, 6),
                                    .number = 1 + draw(kernel, 40)};
    return statement;
}

static void put_access(struct kernel *kernel, struct statement *statement) {
    static const char *const types[] = {"u8", "u16", "u32", "v2.u32", "v4.u32"};
    static const char *const values[] = {"%v", "%v", "%v", "{%v, %w}", "{%v, %w, %s, %t}"};
    int size = draw(kernel, 3) ? 2 : (int)draw(kernel, 5);
    statement->bytes = 1 << size;
    statement->is_shared = !draw(kernel, 3);
    statement->is_store = draw(kernel, 2);
    statement->is_guarded = !draw(kernel, 4);
    const char *guard = statement->is_guarded ? "@%p " : "", *space = statement->is_shared ? "shared" : "global";
    put(kernel, "and.b32 %%i, %%x%d, %d;", statement->a, (statement->is_shared ? SHARED_ELEMENTS : ELEMENTS) - 1);
    if (statement->is_shared)
        put(kernel, "mad.lo.u32 %%at, %%i, %d, %%here;", statement->bytes);
    else
        put(kernel, "mul.wide.u32 %%o, %%i, %d; add.u64 %%%s, %%%s, %%o;", statement->bytes,
            statement->is_store ? "to" : "of", statement->is_store ? "into" : "from");
    statement->line = kernel->line;
    const char *at = statement->is_shared ? "%at" : statement->is_store ? "%to" : "%of";
    if (statement->is_store)
        put(kernel, "%sst.%s.%s [%s], %s;", guard, space, types[size], at, values[size]);
    else
        put(kernel, "%sld.%s.%s %s, [%s];", guard, space, types[size], values[size], at);
    put(kernel, "xor.b32 %%sum, %%sum, %%v; xor.b32 %%sum, %%sum, %%w; xor.b32 %%sum, %%sum, %%t;");
}

static void put_statements(struct kernel *kernel, int count);

/* Rounds that are a number, the parameter, or different between lanes: one more than that. */
static void put_loop(struct kernel *kernel) {
    int begin = kernel->count, depth = kernel->depth++;
    struct statement *loop = add(kernel, LOOP);
    loop->to = depth;
    loop->number %= MOST_ROUNDS - 1;
    if (loop->variant < 2)
        put(kernel, "mov.u32 %%n%d, %u;", depth, loop->number);
    else if (loop->variant == 2)
        put(kernel, "mov.u32 %%n%d, %%parameter;", depth);
    else
        put(kernel, "and.b32 %%n%d, %%x%d, 3;", depth, loop->a);
    put(kernel, "mov.u32 %%r%d, 0;", depth);
    put(kernel, "L%d:", begin);
    put_statements(kernel, 2 + (int)draw(kernel, 5));
    put(kernel, "add.u32 %%r%d, %%r%d, 1;", depth, depth);
    put(kernel, "setp.le.u32 %%q%d, %%r%d, %%n%d;", depth, depth, depth);
    put(kernel, "@%%q%d bra L%d;", depth, begin);
    loop->partner = kernel->count;
    struct statement *end = add(kernel, LOOP_END);
    end->partner = begin;
    kernel->depth--;
}

static void put_if(struct kernel *kernel) {
    int begin = kernel->count;
    struct statement *branch = add(kernel, IF);
    put(kernel, "@!%%p bra S%d;", begin);
    put_statements(kernel, 1 + (int)draw(kernel, 3));
    put(kernel, "S%d:", begin);
    branch->partner = kernel->count;
    add(kernel, IF_END);
}

static void put_leaf(struct kernel *kernel, const struct statement *leaf) {
    static const char *const names[] = {"%tid.x", "%tid.y", "%ctaid.x", "%parameter"};
    if (leaf->variant < 4)
        put(kernel, "mov.u32 %%x%d, %s;", leaf->to, names[leaf->variant]);
    else if (leaf->variant == 4)
        put(kernel, "mov.u32 %%x%d, %u;", leaf->to, leaf->number);
    else
        put(kernel, "mov.u32 %%x%d, %%r0;", leaf->to);
}

static void put_statements(struct kernel *kernel, int count) {
    static const char *const words[] = {"add.u32", "sub.u32", "mul.lo.u32", "xor.b32", "min.u32", "mad.lo.u32"};
    for (int i = 0; i < count && kernel->count < STATEMENTS - 10; i++) {
        uint32_t kind = draw(kernel, 16);
        if (kind < 2) {
            put_leaf(kernel, add(kernel, LEAF));
        } else if (kind < 6) {
            struct statement *operation = add(kernel, OPERATION);
            int form = operation->variant;
            put(kernel, form == 5 ? "%s %%x%d, %%x%d, %u, %%x%d;" : "%s %%x%d, %%x%d, %%x%d;", words[form],
                operation->to, operation->a, form == 5 ? operation->number : (uint32_t)operation->b, operation->b);
        } else if (kind == 6) {
            struct statement *compare = add(kernel, COMPARE);
            put(kernel, "setp.lt.u32 %%p, %%x%d, %u;", compare->a, compare->number);
        } else if (kind == 7) { /* element N of the buffer is N */
            struct statement *lookup = add(kernel, LOOKUP);
            put(kernel, "and.b32 %%i, %%x%d, %d; mul.wide.u32 %%o, %%i, 4; add.u64 %%of, %%from, %%o;", lookup->a,
                ELEMENTS - 1);
            lookup->line = kernel->line;
            put(kernel, "ld.global.u32 %%x%d, [%%of];", lookup->to);
        } else if (kind < 12) {
            put_access(kernel, add(kernel, ACCESS));
        } else if (kind < 14 && kernel->depth < 2) {
            put_loop(kernel);
        } else if (kind < 15) {
            put_if(kernel);
        }
    }
}

static void make_kernel(struct kernel *kernel) {
    static const int64_t blocks[][3] = {{64, 1, 1}, {96, 2, 1}, {16, 16, 1}, {40, 1, 1}, {8, 8, 1}, {32, 4, 1}};
    memcpy(kernel->block, blocks[draw(kernel, GS_COUNT(blocks))], sizeof kernel->block);
    kernel->warps = (int)((kernel->block[0] * kernel->block[1] + LANES - 1) / LANES) * BLOCKS;
    kernel->places = calloc(STATEMENTS, sizeof *kernel->places);
    kernel->line = 1;
    put(kernel, ".version 8.0\n.target sm_90\n.address_size 64");
    kernel->line += 2;
    put(kernel, ".visible .entry k(.param .u64 f, .param .u64 t, .param .u32 n)");
    put(kernel, "{ .reg .b32 %%x<%d>, %%n<2>, %%r<2>, %%v, %%w, %%s, %%t, %%i, %%at, %%here, %%sum, %%parameter;",
        VALUES);
    put(kernel, ".reg .b64 %%from, %%into, %%to, %%of, %%o; .reg .pred %%p, %%q<2>; .shared .align 16 .b8 shared[%d];",
        SHARED_ELEMENTS * 16);
    put(kernel, "ld.param.u64 %%from, [f]; ld.param.u64 %%into, [t]; ld.param.u32 %%parameter, [n];");
    put(kernel, "cvta.to.global.u64 %%from, %%from; cvta.to.global.u64 %%into, %%into; mov.u32 %%here, shared;");
    put(kernel, "mov.u32 %%sum, 0; mov.u32 %%v, 0; mov.u32 %%w, 0; mov.u32 %%s, 0; mov.u32 %%t, 0; mov.u32 %%r0, 0;");
    for (int i = 0; i < VALUES; i++)
        put(kernel, "mov.u32 %%x%d, %%tid.x;", i);
    put(kernel, "setp.lt.u32 %%p, %%x0, 20;");
    kernel->joins_lines = !draw(kernel, 4);
    while (kernel->count < 20)
        put_statements(kernel, 8);
    kernel->joins_lines = false;
    put(kernel, "\nmov.u32 %%i, %%tid.x; mul.wide.u32 %%o, %%i, 4; add.u64 %%to, %%into, %%o;");
    put(kernel, "st.global.u32 [%%to], %%sum; ret; }");
}

/* ---- a lane, executed literally ---- */

struct lane {
    uint32_t values[VALUES], rounds[2], limits[2], tid[2], block;
    bool is_in;
    int warp, number;
};

/* A lane comes to a round, of the loop that begins in front of `first`, or to the begin of the kernel: to all accesses
   that are in no loop inside. */
static void come_to_round(struct kernel *kernel, const struct lane *lane, int first, int depth) {
    int inside = 0;
    for (int i = first; i < kernel->count && inside >= 0; i++) {
        inside += (kernel->statements[i].kind == LOOP) - (kernel->statements[i].kind == LOOP_END);
        if (!inside)
            kernel->places[i][lane->warp][depth ? lane->rounds[0] : 0][depth > 1 ? lane->rounds[1] : 0][lane->number]
                .is_present = true;
    }
}

static void execute_lane(struct kernel *kernel, struct lane *lane) {
    int depth = 0;
    come_to_round(kernel, lane, 0, depth);
    for (int i = 0; i < kernel->count; i++) {
        const struct statement *statement = &kernel->statements[i];
        uint32_t a = lane->values[statement->a], b = lane->values[statement->b], *to = lane->values + statement->to;
        const uint32_t leaves[] = {lane->tid[0], lane->tid[1],      lane->block,
                                   PARAMETER,    statement->number, lane->rounds[0]};
        switch (statement->kind) {
        case LEAF:
            *to = leaves[statement->variant];
            break;
        case OPERATION:
            *to = statement->variant == 0   ? a + b
                  : statement->variant == 1 ? a - b
                  : statement->variant == 2 ? a * b
                  : statement->variant == 3 ? a ^ b
                  : statement->variant == 4 ? a < b ? a : b
                                            : a * statement->number + b;
            break;
        case COMPARE:
            lane->is_in = a < statement->number;
            break;
        case LOOKUP:
            *to = a % ELEMENTS;
            /* fall through */
        case ACCESS:
            if (!statement->is_guarded || lane->is_in)
                kernel->places[i][lane->warp][depth ? lane->rounds[0] : 0][depth > 1 ? lane->rounds[1] : 0]
                              [lane->number] =
                    (struct place){true, true,
                                   statement->kind == LOOKUP ? a % ELEMENTS * 4
                                                             : a % (statement->is_shared ? SHARED_ELEMENTS : ELEMENTS) *
                                                                   (uint64_t)statement->bytes};
            break;
        case LOOP:
            lane->limits[depth] = statement->variant < 2    ? statement->number
                                  : statement->variant == 2 ? PARAMETER
                                                            : a % 4;
            lane->rounds[depth++] = 0;
            come_to_round(kernel, lane, i + 1, depth);
            break;
        case LOOP_END:
            if (++lane->rounds[depth - 1] <= lane->limits[depth - 1])
                come_to_round(kernel, lane, (i = statement->partner) + 1, depth);
            else
                depth--;
            break;
        case IF:
            if (!lane->is_in)
                i = statement->partner;
            break;
        default:
            break;
        }
    }
}

static void execute_all(struct kernel *kernel) {
    int threads = (int)(kernel->block[0] * kernel->block[1]);
    for (int block = 0; block < BLOCKS; block++)
        for (int thread = 0; thread < threads; thread++) {
            struct lane lane = {.block = (uint32_t)block,
                                .warp = block * kernel->warps / BLOCKS + thread / LANES,
                                .number = thread % LANES};
            lane.tid[0] = (uint32_t)(thread % kernel->block[0]);
            lane.tid[1] = (uint32_t)(thread / kernel->block[0]);
            for (int i = 0; i < VALUES; i++)
                lane.values[i] = lane.tid[0];
            lane.is_in = lane.tid[0] < 20;
            execute_lane(kernel, &lane);
        }
}

/* ---- counting slowly ---- */

/* Sectors of lanes from `first` to `end`, if the buffer begins so many bytes behind the begin of a sector; of those in
   `piece` only, if that is not NULL. */
static int64_t sectors_at(const struct place *places, const int *piece, int number, int first, int end, int shift) {
    int64_t different = 0;
    for (int i = first; i < end; i++) {
        bool is_new = places[i].is_there && (!piece || piece[i] == number);
        for (int j = first; j < i && is_new; j++)
            is_new =
                !places[j].is_there || (places[j].at + (uint64_t)shift) / 32 != (places[i].at + (uint64_t)shift) / 32;
        different += is_new;
    }
    return different;
}

static int64_t most_sectors(const struct place *places, const int *piece, int number, int first, int end, int bytes) {
    int64_t most = 0;
    for (int shift = 0; shift < 32; shift += bytes) {
        int64_t now = sectors_at(places, piece, number, first, end, shift);
        most = now > most ? now : most;
    }
    return most;
}

/* Pieces are lanes that may share a sector with one of the piece. */
static int64_t sectors_by_pieces(const struct place *places, int first, int end, int bytes) {
    int piece[LANES];
    int64_t sum = 0;
    for (int i = 0; i < LANES; i++)
        piece[i] = i;
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (int i = first; i < end; i++)
            for (int j = first; j < end; j++)
                if (places[i].is_there && places[j].is_there && places[i].at <= places[j].at &&
                    places[j].at + (uint64_t)bytes - places[i].at <= 32 && piece[i] != piece[j]) {
                    piece[i] = piece[j] = piece[i] < piece[j] ? piece[i] : piece[j];
                    has_changed = true;
                }
    }
    for (int number = first; number < end; number++)
        sum += most_sectors(places, piece, number, first, end, bytes);
    return sum;
}

static int64_t passes_of(const struct place *places, int first, int end, int bytes) {
    int64_t most = 0;
    for (uint64_t bank = 0; bank < 32; bank++) {
        bool is_used[SHARED_ELEMENTS * 4] = {0};
        int64_t words = 0;
        for (int i = first; i < end; i++)
            for (uint64_t word = places[i].at / 4;
                 places[i].is_there && word < (places[i].at + (uint64_t)bytes + 3) / 4; word++) {
                words += word % 32 == bank && !is_used[word];
                is_used[word] = true;
            }
        most = words > most ? words : most;
    }
    return most;
}

/* Lanes that come to the round, but not to the access. */
static int64_t missing_of(const struct place *places, int first, int end) {
    int64_t missing = 0;
    for (int i = first; i < end; i++)
        missing += places[i].is_present && !places[i].is_there;
    return missing;
}

/* What the run on the CPU must find, and what is true wherever buffers begin. */
struct numbers {
    int64_t counted, truth;
};

static struct numbers count_slowly(const struct kernel *kernel, int number) {
    const struct statement *statement = &kernel->statements[number];
    int bytes = statement->kind == LOOKUP ? 4 : statement->bytes, parts = bytes > 4 ? bytes / 4 : 1;
    struct numbers found = {0, 0};
    for (int warp = 0; warp < kernel->warps; warp++)
        for (int round = 0; round < MOST_ROUNDS * MOST_ROUNDS; round++) {
            const struct place *places = kernel->places[number][warp][round / MOST_ROUNDS][round % MOST_ROUNDS];
            int64_t truth = 0, counted = 0, missing = 0;
            for (int part = 0; part < parts; part++) {
                int first = part * LANES / parts, end = first + LANES / parts;
                int64_t now = statement->is_shared ? passes_of(places, first, end, bytes)
                                                   : sectors_by_pieces(places, first, end, bytes);
                int64_t missing_now = missing_of(places, first, end);
                counted = now > counted ? now : counted;
                missing = missing_now > missing ? missing_now : missing;
                truth += statement->is_shared ? now : most_sectors(places, NULL, 0, first, end, bytes);
            }
            counted = parts * (counted + missing);
            found.counted = counted > found.counted ? counted : found.counted;
            found.truth = truth > found.truth ? truth : found.truth;
        }
    return found;
}

/* ---- comparing ---- */

struct totals {
    int64_t accesses, known, lowered, instructions;
};

static bool is_access(const struct statement *statement) {
    return statement->kind == ACCESS || statement->kind == LOOKUP;
}

static const gs_loop_rounds *row_of(const gs_loop_rounds_list *list, uint32_t line) {
    for (size_t i = 0; i < list->count; i++)
        if (list->data[i].is_access && list->data[i].line == line)
            return &list->data[i];
    return NULL;
}

/* Accesses that no other one shares a line with must have exactly the number. */
static void check_counted(const struct kernel *kernel, const gs_loop_rounds_list *list, uint64_t index,
                          struct totals *totals) {
    for (int i = 0; i < kernel->count; i++) {
        const struct statement *statement = &kernel->statements[i];
        bool is_alone = true;
        const gs_loop_rounds *row = row_of(list, statement->line);
        if (!is_access(statement) || !row)
            continue;
        for (int j = 0; j < kernel->count; j++)
            is_alone = is_alone && (j == i || kernel->statements[j].line != statement->line);
        struct numbers slow = count_slowly(kernel, i);
        bool is_small = statement->kind == ACCESS && statement->is_shared && statement->bytes < 4;
        bool is_known = is_alone && slow.counted < 32 && !(is_small && slow.counted);
        totals->accesses++;
        totals->known += is_known;
        if (slow.truth > slow.counted && !is_small)
            fail_msg("kernel %llu, line %u: %lld counted, %lld true", (unsigned long long)index, statement->line,
                     (long long)slow.counted, (long long)slow.truth);
        if (is_alone && (row->is_known != is_known || (is_known && row->rounds != (slow.counted ? slow.counted : 1))))
            fail_msg("kernel %llu, line %u: %lld counted here, %lld (%s) there\n%s", (unsigned long long)index,
                     statement->line, (long long)slow.counted, (long long)row->rounds,
                     row->is_known ? "known" : "not known", kernel->text.data);
    }
}

static bool keep_step(void *user, const gs_flow_step *step) {
    struct kernel *kernel = user;
    int64_t now = step->transactions ? step->transactions : LANES;
    bool is_access = strstr(step->class_name, "_load") || strstr(step->class_name, "_store");
    if (is_access && step->line < MOST_LINES && now > kernel->said[step->line])
        kernel->said[step->line] = now;
    return true;
}

/* The access of a line that has least may be the only one that is left; and ptxas may have made several instructions of
   it, for some rounds each. */
static void check_said(struct kernel *kernel, uint64_t index, struct totals *totals) {
    for (int i = 0; i < kernel->count; i++) {
        const struct statement *statement = &kernel->statements[i];
        int64_t truth = INT64_MAX, said = kernel->said[statement->line];
        if (!is_access(statement) || !said)
            continue;
        for (int j = 0; j < kernel->count; j++)
            if (kernel->statements[j].line == statement->line && is_access(&kernel->statements[j])) {
                int64_t here = count_slowly(kernel, j).truth;
                truth = here < truth ? here : truth;
            }
        totals->instructions++;
        if (said < truth)
            fail_msg("kernel %llu, line %u: %lld transactions, the walk says %lld\n%s", (unsigned long long)index,
                     statement->line, (long long)truth, (long long)said, kernel->text.data);
    }
}

static gs_flow_rounds given_of(const gs_loop_rounds *row) {
    return (gs_flow_rounds){.place = row->is_never     ? GS_FLOW_NEVER_LINE
                                     : row->is_one_way ? GS_FLOW_ONE_WAY_LINE
                                     : row->is_access  ? GS_FLOW_ACCESS_LINE
                                                       : GS_FLOW_BRANCH_LINE,
                            .at = row->line,
                            .first = row->first,
                            .last = row->last,
                            .depth = row->depth,
                            .bytes = row->bytes,
                            .is_store = row->is_store,
                            .is_shared = row->is_shared,
                            .rounds = row->is_known ? row->rounds : -1};
}

static void walk_kernel(struct kernel *kernel, const gs_loop_rounds_list *list, uint64_t index, struct totals *totals) {
    gs_error error = {.code = GS_OK};
    gs_cubin cubin = {0};
    gs_sass_image image = {0};
    char *file = NULL;
    gs_flow_rounds *given = calloc(list->count + 1, sizeof *given);
    unsigned char parameters[20] = {[16] = PARAMETER};
    bool is_known[20] = {0};
    gs_flow_launch launch = {
        .grid = {BLOCKS, 1, 1}, .parameters = parameters, .is_known = is_known, .bytes = sizeof parameters};
    gs_flow_visitor visitor = {kernel, ignore_open, ignore_close, keep_step};
    gs_build build = {.name = "k", .text = kernel->text.data, .size = kernel->text.count, .with_lines = true};
    memcpy(launch.block, kernel->block, sizeof launch.block);
    memset(is_known + 16, true, 4);
    for (size_t i = 0; i < list->count; i++)
        given[i] = given_of(&list->data[i]);
    if (gs_cubin_make(&build, 90, &cubin, &error) != GS_OK)
        fail_msg("%s, line %ld\n%s", error.message, error.line, kernel->text.data);
    assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
    if (gs_flow_walk(&image, "k", &launch, given, list->count, &visitor, &file, &error) == GS_OK)
        check_said(kernel, index, totals);
    for (size_t i = 0; i < list->count; i++)
        totals->lowered += given[i].place == GS_FLOW_ACCESS_LINE && given[i].is_used;
    free(file);
    free(given);
    gs_sass_free(&image);
    gs_cubin_free(&cubin);
}

static void check_kernel(uint64_t seed, uint64_t index, bool has_assembler, struct totals *totals) {
    struct kernel *kernel = calloc(1, sizeof *kernel);
    gs_error error = {.code = GS_OK};
    gs_loop_rounds_list list = {0};
    char text[600];
    kernel->random = gs_random_at(seed, index);
    make_kernel(kernel);
    execute_all(kernel);
    snprintf(
        text, sizeof text,
        "{\"schema\":\"gridsmith.launch/1\",\"grid\":[%d,1,1],\"block\":[%d,%d,1],\"shared_bytes\":0,\"arguments\":["
        "{\"buffer\":\"int32\",\"count\":%d,\"fill\":\"index\"},{\"buffer\":\"int32\",\"count\":%d,\"fill\":\"zero\"},"
        "{\"uint32\":%d}]}",
        BLOCKS, (int)kernel->block[0], (int)kernel->block[1], ELEMENTS * 4, ELEMENTS * 4, PARAMETER);
    gs_launch_file *launch = launch_of_text(text);
    gs_code code = gs_count_rounds("k", kernel->text.data, kernel->text.count, "k", launch, 60, &list, &error);
    if (code != GS_OK)
        fail_msg("kernel %llu: %s, line %ld\n%s", (unsigned long long)index, error.message, error.line,
                 kernel->text.data);
    check_counted(kernel, &list, index, totals);
    if (has_assembler)
        walk_kernel(kernel, &list, index, totals);
    gs_launch_free(launch);
    free(list.data);
    gs_text_free(&kernel->text);
    free(kernel->places);
    free(kernel);
}

TEST(transactions_of_an_input_are_those_of_its_lanes) {
    char path[1000];
    struct totals totals = {0};
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), runs = test_number("GRIDSMITH_RUNS", 100000) / 4000 + 3;
    bool has_assembler = gs_assembler_find(path, sizeof path);
    for (uint64_t i = 0; i < runs; i++)
        check_kernel(seed, i, has_assembler, &totals);
    printf("%lld accesses, %lld with a known number; of %lld lines of machine code %lld have fewer than without the "
           "input\n",
           (long long)totals.accesses, (long long)totals.known, (long long)totals.instructions,
           (long long)totals.lowered);
    assert_true(totals.known > totals.accesses / 10);
    assert_true(!has_assembler || totals.lowered > 0);
}

TEST(a_run_that_does_not_end_is_refused) {
    static const char kernel[] = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {\n"
                                 "A: bra A;\n}\n";
    static const char text[] =
        "{\"schema\":\"gridsmith.launch/1\",\"grid\":[1,1,1],\"block\":[1,1,1],\"arguments\":[]}";
    gs_loop_rounds_list list = {0};
    gs_error error = {.code = GS_OK};
    gs_launch_file *launch = launch_of_text(text);
    assert_int_equal(gs_count_rounds("k", kernel, strlen(kernel), "k", launch, 1, &list, &error), GS_E_REFUSED);
    assert_non_null(strstr(error.message, "the run of k on the CPU, for its input: timeout after 1 second"));
    gs_launch_free(launch);
    free(list.data);
}

TEST_MAIN(NULL, NULL)
