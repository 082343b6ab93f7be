/*
 * ptx_writers.c: which statements of a kernel may write the word that a loop waits for.
 *
 * A pointer is a parameter, or a variable of the module; an address that is loaded, returned by a call, or put together
 * in a way that is not followed, may be any. A statement may write the word if both addresses may come from the same
 * pointer, and are not known to be different words.
 *
 * Two variables are different memory, but for those of gs_ptx_memory_of. Two parameters may point to the same memory,
 * or to a variable. A write through another pointer counts if the word is only read, and nothing writes it through the
 * pointer that it is read with: then the other pointer is the only way to end the wait. ptx_progress.c asks for such
 * writes, too, where those through the same pointer do not end it. A multicast address and a plain one of the same word
 * are never the same pointer, so what is written there always counts. A word may be written in parts, or as a part of a
 * larger one: the sizes need not be the same.
 */
#include "ptx_wait_facts.h"

#include <string.h>

bool gs_ptx_calls_writers(const gs_ptx_kernel *kernel) {
    for (uint32_t f = 0; f < kernel->module->functions.count; f++) {
        const gs_ptx_function *function = &kernel->module->functions.data[f];
        for (uint32_t i = 0; kernel->is_called[f] && i < function->statement_count; i++) {
            const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, function->statements + i);
            if (statement->opcode != GS_PTX_CALL && gs_ptx_writes(kernel->module, statement) & GS_PTX_IN_GLOBAL)
                return true;
        }
    }
    return false;
}

/* ---- operations that change nothing ---- */

static bool is_wide(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    return gs_ptx_has(kernel->module, statement, "u64 s64 b64");
}

/* The neutral element of an operation: 0 for an addition, all bits for `and`. */
static bool is_neutral(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, uint64_t number) {
    uint64_t all = is_wide(kernel, statement) ? UINT64_MAX : UINT32_MAX, top = all / 2 + 1;
    bool is_signed = gs_ptx_has(kernel->module, statement, "s32 s64");
    number &= all;
    switch (gs_ptx_atomic_kind(kernel->module, statement)) {
    case GS_PTX_ATOMIC_ADD:
    case GS_PTX_ATOMIC_OR:
    case GS_PTX_ATOMIC_XOR:
        return number == 0;
    case GS_PTX_ATOMIC_AND:
        return number == all;
    case GS_PTX_ATOMIC_MAX:
        return number == (is_signed ? top : 0);
    case GS_PTX_ATOMIC_MIN:
        return number == (is_signed ? top - 1 : all);
    default:
        return false;
    }
}

bool gs_ptx_only_reads(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    gs_ptx_atomic kind = gs_ptx_atomic_kind(kernel->module, statement);
    uint32_t at = gs_ptx_address_written(kernel->module, statement);
    const gs_ptx_operand *value = at == GS_PTX_NONE ? NULL : gs_ptx_operand_at(kernel, statement, at + 1),
                         *other = at == GS_PTX_NONE ? NULL : gs_ptx_operand_at(kernel, statement, at + 2);
    if (kind == GS_PTX_NOT_ATOMIC || !value)
        return false;
    gs_linear number = gs_linear_value(kernel, value, GS_LINEAR_EXACT);
    if (kind != GS_PTX_ATOMIC_CAS)
        return gs_linear_is_number(&number) && is_neutral(kernel, statement, (uint64_t)number.number);
    gs_linear next = other ? gs_linear_value(kernel, other, GS_LINEAR_EXACT) : (gs_linear){.is_known = false};
    bool is_same =
        other && value->kind == GS_PTX_REGISTER && other->kind == GS_PTX_REGISTER && value->value == other->value;
    return is_same || gs_linear_is_equal(&number, &next);
}

/* ---- two addresses ---- */

/* Whether two addresses that are the same in all threads are of different words. */
static bool are_apart(const gs_ptx_kernel *kernel, const gs_ptx_statement *read, const gs_ptx_statement *write,
                      const gs_ptx_operand *from, const gs_ptx_operand *to) {
    gs_linear one = gs_linear_value(kernel, from, GS_LINEAR_EXACT),
              other = gs_linear_value(kernel, to, GS_LINEAR_EXACT);
    gs_linear difference = gs_linear_add(one, &other, -1);
    int64_t distance = difference.number < 0 ? -difference.number : difference.number;
    int64_t bytes = gs_ptx_bytes_of(kernel, write), read_bytes = gs_ptx_bytes_of(kernel, read);
    return gs_linear_is_same_everywhere(&one) && gs_linear_is_number(&difference) &&
           gs_linear_are_below_modulus(&difference, (uint64_t)(distance + bytes + read_bytes)) &&
           (difference.number >= bytes || -difference.number >= read_bytes);
}

/* How the addresses of a read and a write are related. */
enum relation { APART, OTHER_POINTER, SAME_POINTER };

static enum relation relation_of(const gs_ptx_loop *loop, const gs_ptx_statement *read, const gs_ptx_statement *write) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_operand *from = gs_ptx_address_of(kernel, read, false), *to = gs_ptx_address_of(kernel, write, true);
    if (read == write || !from || !to)
        return SAME_POINTER;
    gs_linear_origin one = gs_linear_origin_of(kernel, from), other = gs_linear_origin_of(kernel, to);
    if (!gs_linear_share_origin(&one, &other))
        return gs_linear_is_of_variables(&one) && gs_linear_is_of_variables(&other) ? APART : OTHER_POINTER;
    bool is_one = !one.is_unknown && !other.is_unknown && one.count == 1 && other.count == 1;
    if (is_one && gs_linear_are_apart(kernel, from, gs_ptx_bytes_of(kernel, read), to, gs_ptx_bytes_of(kernel, write)))
        return APART;
    return are_apart(kernel, read, write, from, to) ? APART : SAME_POINTER;
}

static bool writes_global(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    if (statement->kind != GS_PTX_INSTRUCTION || !(gs_ptx_access_of(loop, statement)->writes & GS_PTX_IN_GLOBAL))
        return false;
    return statement->opcode == GS_PTX_CALL ? gs_ptx_calls_writers(loop->kernel)
                                            : !gs_ptx_only_reads(loop->kernel, statement);
}

bool gs_ptx_may_meet(const gs_ptx_loop *loop, const gs_ptx_statement *read, const gs_ptx_statement *write) {
    return writes_global(loop, write) && relation_of(loop, read, write) == SAME_POINTER;
}

/* Whether a write through another pointer may be the one that is waited for. */
static bool may_be_alias(const gs_ptx_loop *loop, const gs_ptx_statement *read, const gs_ptx_statement *write) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    if (relation_of(loop, read, write) != OTHER_POINTER)
        return false;
    if (gs_ptx_row(read)->is_multicast != gs_ptx_row(write)->is_multicast)
        return true;
    if (!gs_ptx_reads_anew(loop, read) || writes_global(loop, read))
        return false;
    for (uint32_t i = function->statements; i < function->statements + function->statement_count; i++)
        if (gs_ptx_may_meet(loop, read, gs_ptx_statement_at(kernel, i)))
            return false;
    return true;
}

const gs_ptx_statement *gs_ptx_next_writer(const gs_ptx_loop *loop, const gs_ptx_statement *read, uint32_t *at) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    uint32_t end = function->statements + function->statement_count;
    for (*at = *at == GS_PTX_NONE ? function->statements : *at + 1; *at < end; ++*at) {
        const gs_ptx_statement *write = gs_ptx_statement_at(kernel, *at);
        if (writes_global(loop, write) && (gs_ptx_may_meet(loop, read, write) || may_be_alias(loop, read, write)))
            return write;
    }
    return NULL;
}

const gs_ptx_statement *gs_ptx_next_alias(const gs_ptx_loop *loop, const gs_ptx_statement *read, uint32_t *at) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    uint32_t end = function->statements + function->statement_count;
    for (*at = *at == GS_PTX_NONE ? function->statements : *at + 1; *at < end; ++*at) {
        const gs_ptx_statement *write = gs_ptx_statement_at(kernel, *at);
        if (writes_global(loop, write) && relation_of(loop, read, write) == OTHER_POINTER)
            return write;
    }
    return NULL;
}

/* ---- the same word ---- */

const gs_ptx_operand *gs_ptx_original(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand) {
    for (int i = 0; i < 8 && operand->kind == GS_PTX_REGISTER && !operand->bits; i++) {
        const gs_ptx_statement *writer = gs_ptx_only_writer(kernel, operand->value);
        gs_ptx_math math = writer ? gs_ptx_math_of(writer) : GS_PTX_MATH_NONE;
        const gs_ptx_operand *source = writer ? gs_ptx_operand_at(kernel, writer, 1) : NULL;
        if ((math != GS_PTX_MATH_MOVE && math != GS_PTX_MATH_CONVERT_ADDRESS) || writer->guard != GS_PTX_NONE ||
            !source || source->kind != GS_PTX_REGISTER || gs_ptx_operand_at(kernel, writer, 0)->kind != GS_PTX_REGISTER)
            break;
        operand = source;
    }
    return operand;
}

/* The ways of a thread from one statement to another, on which the first does not run again. */
struct way {
    const gs_ptx_loop *loop;
    const gs_ptx_statement *first, *then;
    bool stays; /* only those that do not leave the loop */
};

/* Sets `reached` for the blocks that may run after a block and before `avoided` runs again. */
static void reach_after(const struct way *way, uint32_t from, uint32_t avoided, bool *reached) {
    const gs_ptx_flow *flow = &way->loop->kernel->flow;
    memset(reached, 0, flow->blocks.count);
    bool has_changed = true;
    for (uint32_t begin = from; has_changed; begin = GS_PTX_NONE) {
        has_changed = false;
        for (uint32_t b = 0; b < flow->blocks.count; b++)
            for (uint32_t i = 0; (reached[b] || b == begin) && i < gs_ptx_successor_count(flow, b); i++) {
                uint32_t next = gs_ptx_successor(flow, b, i);
                if (next < flow->blocks.count && next != avoided && !reached[next] &&
                    (!way->stays || way->loop->within[next]))
                    reached[next] = has_changed = true;
            }
    }
}

/* Whether a statement may run on the way. */
static bool runs_between(const struct way *way, const gs_ptx_statement *middle) {
    const gs_ptx_kernel *kernel = way->loop->kernel;
    uint32_t begin = gs_ptx_flow_block(&kernel->flow, gs_ptx_number_of(kernel, way->first)),
             at = gs_ptx_flow_block(&kernel->flow, gs_ptx_number_of(kernel, middle)),
             end = gs_ptx_flow_block(&kernel->flow, gs_ptx_number_of(kernel, way->then));
    bool is_after = begin == at && middle > way->first;
    reach_after(way, begin, begin, way->loop->reached);
    if (!is_after && !way->loop->reached[at])
        return false;
    if (at == end && middle < way->then)
        return true;
    reach_after(way, at, begin, way->loop->reached);
    return way->loop->reached[end];
}

/* Whether two operands are computed in the same way from the same registers, which are not written between. */
static bool is_same_value(const struct way *way, const gs_ptx_operand *one, const gs_ptx_operand *other, int depth) {
    const gs_ptx_kernel *kernel = way->loop->kernel;
    one = gs_ptx_original(kernel, one);
    other = gs_ptx_original(kernel, other);
    if (one->kind != other->kind || one->bits != other->bits || one->part != other->part)
        return false;
    if (one->kind != GS_PTX_REGISTER)
        return one->kind == GS_PTX_INTEGER ||
               (one->value == other->value && (one->kind == GS_PTX_SPECIAL || one->kind == GS_PTX_SYMBOL));
    if (one->value == other->value && depth) /* it was read somewhere before */
        return gs_ptx_only_writer(kernel, one->value) != NULL;
    if (one->value == other->value) {
        for (uint32_t i = kernel->writer_first[one->value]; i < kernel->writer_first[one->value + 1]; i++)
            if (runs_between(way, gs_ptx_statement_at(kernel, kernel->writers[i])))
                return false;
        return true;
    }
    const gs_ptx_statement *writer = gs_ptx_only_writer(kernel, one->value),
                           *second = gs_ptx_only_writer(kernel, other->value);
    if (!writer || !second || depth == 8 || writer->row != second->row || writer->opcode != GS_PTX_COMPUTE ||
        writer->guard != GS_PTX_NONE || second->guard != GS_PTX_NONE || writer->count != second->count)
        return false;
    for (uint32_t i = 1; i < writer->count; i++)
        if (!is_same_value(way, gs_ptx_operand_at(kernel, writer, i), gs_ptx_operand_at(kernel, second, i), depth + 1))
            return false;
    const gs_ptx_token *tokens = kernel->module->tokens.data, *word = &tokens[writer->word],
                       *next = &tokens[second->word];
    return word->length == next->length &&
           !memcmp(kernel->module->text + word->at, kernel->module->text + next->at, word->length);
}

static bool has_ticket(const gs_linear *value) {
    for (int i = 0; i < value->count; i++)
        for (int k = 0; k < GS_LINEAR_FACTORS; k++)
            if (value->terms[i].factors[k] >> 56 == GS_LINEAR_TICKET)
                return true;
    return false;
}

static bool is_same_word(const struct way *way) {
    const gs_ptx_kernel *kernel = way->loop->kernel;
    const gs_ptx_statement *first = way->first, *then = way->then;
    const gs_ptx_operand *one = gs_ptx_address_of(kernel, first, false), *other = gs_ptx_address_of(kernel, then, true);
    other = other ? other : gs_ptx_address_of(kernel, then, false);
    if (first == then)
        return one != NULL;
    if (!one || !other || one->count != 1 || other->count != 1 ||
        gs_ptx_bytes_of(kernel, first) != gs_ptx_bytes_of(kernel, then))
        return false;
    gs_linear here = gs_linear_value(kernel, one, GS_LINEAR_EXACT),
              there = gs_linear_value(kernel, other, GS_LINEAR_EXACT);
    if (gs_linear_is_equal(&here, &there) && !has_ticket(&here))
        return true;
    return is_same_value(way, &kernel->module->operands.data[one->children],
                         &kernel->module->operands.data[other->children], 0);
}

bool gs_ptx_is_same_word(const gs_ptx_loop *loop, const gs_ptx_statement *first, const gs_ptx_statement *then) {
    return is_same_word(&(struct way){.loop = loop, .first = first, .then = then});
}

bool gs_ptx_is_same_word_within(const gs_ptx_loop *loop, const gs_ptx_statement *first, const gs_ptx_statement *then) {
    return is_same_word(&(struct way){.loop = loop, .first = first, .then = then, .stays = true});
}
