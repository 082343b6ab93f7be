/*
 * test_ptx_linear.c: addresses as sums of products, compared with what threads compute.
 *
 * A random kernel without branches computes registers from numbers of blocks and threads, parameters, tickets and
 * shared memory. Some threads run it here, literally. Where the analysis knows the sum of a register, each thread has
 * this sum in it, as far as the register keeps it; and it knows the sum wherever there are only moves, conversions,
 * sums, products and shifts. If one of both fails, blocks wait for the wrong flag, or a kernel is refused without need.
 */
#include "test.h"

#include "kernels/forms/forms.h"
#include "kernels/forms/ptx_linear.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, MOST_REGISTERS = 80, SHARED_BYTES = 64, PARAMETER_BYTES = 40, VARIABLE_AT = 0x70000 };

/* Threads 2 i and 2 i + 1 are in the same block. */
struct thread {
    uint32_t specials[13]; /* %ctaid, %nctaid, %tid, %ntid, %laneid */
    uint64_t tickets[MOST_REGISTERS];
};

/* A register, and what must be known of it. */
struct reg {
    int bytes, line, child; /* which instruction writes it, and which of its results this is, or -1 */
    uint64_t is[THREADS];
    bool is_followed;
    bool is_number;
    uint32_t kinds;       /* of symbols in it, a bit each */
    int factors, terms;   /* at most */
    double number, times; /* without their signs, at most */
    bool is_widened;      /* a conversion to 64 bits */
};

struct program {
    gs_text text;
    gs_random random;
    struct thread threads[THREADS];
    struct reg regs[MOST_REGISTERS];
    int count, lines;
    bool has_shuffles; /* and no stores: behind a shuffle a load may find what is stored later */
    uint8_t parameters[PARAMETER_BYTES], shared[THREADS][SHARED_BYTES];
    int stores[SHARED_BYTES]; /* which store wrote a byte: its line; 0: none; -1: several */
    int stored[MOST_REGISTERS * 2], stored_at[MOST_REGISTERS * 2], stored_bytes[MOST_REGISTERS * 2]; /* by line */
};

static const char *const special_names[] = {"%ctaid.x",  "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y",
                                            "%nctaid.z", "%tid.x",   "%tid.y",   "%tid.z",    "%ntid.x",
                                            "%ntid.y",   "%ntid.z",  "%laneid"};
static const int special_kinds[] = {GS_LINEAR_BLOCK, GS_LINEAR_BLOCKS, GS_LINEAR_THREAD, GS_LINEAR_THREADS,
                                    GS_LINEAR_LANE};
static const struct {
    const char *name;
    int at, bytes;
} parameters[] = {{"p", 0, 8}, {"q", 8, 8}, {"n", 16, 4}, {"m", 20, 4}, {"s", 24, 16}};

static const char head[] = ".version 8.0\n.target sm_80\n.address_size 64\n.global .u32 word[64];\n"
                           ".visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n, .param .u32 m, "
                           ".param .align 8 .b8 s[16])\n{\n\t.reg .pred %p<4>; .reg .b32 %r<81>; .reg .b64 %d<81>;\n"
                           "\t.shared .align 8 .b8 own[64];\n";

static int pick(struct program *program, int count) {
    return (int)gs_random_from(&program->random, 0, count - 1);
}

static uint64_t read_bytes(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    memcpy(&value, at, (size_t)bytes);
    return value;
}

/* ---- random instructions ---- */

static struct reg *add_register(struct program *program, int bytes) {
    struct reg *reg = &program->regs[program->count++];
    *reg = (struct reg){.bytes = bytes, .line = program->lines, .child = -1};
    return reg;
}

static const char *name_of(const struct program *program, const struct reg *reg) {
    static char names[8][8];
    static int next;
    next = (next + 1) % 8;
    snprintf(names[next], sizeof names[next], "%%%c%d", reg->bytes == 4 ? 'r' : 'd', (int)(reg - program->regs));
    return names[next];
}

/* Whether a register has a sum that is not too large to be followed. */
static void finish(struct reg *reg) {
    reg->is_followed = reg->is_followed && reg->factors <= GS_LINEAR_FACTORS && reg->terms <= GS_LINEAR_TERMS &&
                       reg->times < 0x1p45 && reg->number < (reg->bytes == 4 ? 0x1p31 : 0x1p45);
    for (int i = 0; i < THREADS && reg->bytes == 4; i++)
        reg->is[i] = (uint32_t)reg->is[i];
}

#define LINE(program, ...) (gs_text_add(&(program)->text, "\t" __VA_ARGS__), (program)->lines++)

static void put_symbol(struct reg *reg, int kind) {
    reg->is_followed = true;
    reg->kinds = 1u << kind;
    reg->factors = reg->terms = 1;
    reg->times = 1;
}

static void put_number(struct reg *reg, int64_t number) {
    reg->is_followed = reg->is_number = true;
    reg->number = number < 0 ? -(double)number : (double)number;
    for (int i = 0; i < THREADS; i++)
        reg->is[i] = (uint64_t)number;
}

static void make_special(struct program *program) {
    int which = pick(program, 13);
    struct reg *reg = add_register(program, 4);
    put_symbol(reg, special_kinds[which / 3]);
    for (int i = 0; i < THREADS; i++)
        reg->is[i] = program->threads[i].specials[which];
    LINE(program, "mov.u32 %s, %s;\n", name_of(program, reg), special_names[which]);
}

static void make_number(struct program *program) {
    bool is_wide = pick(program, 2);
    struct reg *reg = add_register(program, is_wide ? 8 : 4);
    int64_t number = gs_random_from(&program->random, -20, pick(program, 3) ? 40 : 5000);
    put_number(reg, number);
    if (number < 0 && !pick(program, 3)) { /* without its sign, it is another number in 64 bits */
        number = (uint32_t)number;
        reg->is_followed = !is_wide;
        for (int i = 0; i < THREADS; i++)
            reg->is[i] = (uint64_t)number;
    }
    LINE(program, "mov.%s %s, %" PRId64 ";\n", is_wide ? "u64" : "u32", name_of(program, reg), number);
}

static void put_loaded(struct program *program, struct reg *reg, int at) {
    put_symbol(reg, GS_LINEAR_PARAMETER);
    for (int i = 0; i < THREADS; i++)
        reg->is[i] = read_bytes(program->parameters + at, reg->bytes);
}

/* A parameter, a word of one, two words at once, or one whose address is in a register. */
static void make_parameter(struct program *program) {
    int which = pick(program, 5), way = pick(program, 4), bytes = parameters[which].bytes;
    if (which == 4)
        bytes = pick(program, 2) ? 4 : 8;
    int offset = which == 4 ? pick(program, 16 / bytes) * bytes : 0;
    if (which == 4 && way == 0 && bytes == 4 && offset % 8 == 0) {
        struct reg *one = add_register(program, 4), *two = add_register(program, 4);
        put_loaded(program, one, 24 + offset);
        put_loaded(program, two, 24 + offset + 4);
        one->child = 0, two->child = 1;
        LINE(program, "ld.param.v2.u32 {%s, %s}, [s+%d];\n", name_of(program, one), name_of(program, two), offset);
        return;
    }
    if (way == 1) {
        struct reg *address = add_register(program, 8); /* as an address it is not looked at */
        address->line = -1;
        int moved = pick(program, 2) * 4;
        LINE(program, "mov.b64 %s, %s+%d;\n", name_of(program, address), parameters[which].name, moved);
        for (int i = pick(program, 3); i > 0; i--) {
            struct reg *copy = add_register(program, 8);
            copy->line = -1;
            LINE(program, "mov.b64 %s, %s;\n", name_of(program, copy), name_of(program, address));
            address = copy;
        }
        struct reg *reg = add_register(program, bytes);
        put_loaded(program, reg, parameters[which].at + offset);
        LINE(program, "ld.param.u%d %s, [%s+%d];\n", bytes * 8, name_of(program, reg), name_of(program, address),
             offset - moved);
        return;
    }
    struct reg *reg = add_register(program, bytes);
    put_loaded(program, reg, parameters[which].at + offset);
    LINE(program, "ld.param.u%d %s, [%s+%d];\n", bytes * 8, name_of(program, reg), parameters[which].name, offset);
}

static void make_ticket(struct program *program) {
    bool is_wide = pick(program, 2);
    struct reg *reg = add_register(program, is_wide ? 8 : 4);
    put_symbol(reg, GS_LINEAR_TICKET);
    for (int i = 0; i < THREADS; i++)
        reg->is[i] = program->threads[i].tickets[program->lines];
    LINE(program, "atom.global.add.u%d %s, [word+8], 1;\n", is_wide ? 64 : 32, name_of(program, reg));
}

static void make_variable(struct program *program) {
    struct reg *reg = add_register(program, 8);
    int offset = pick(program, 3) * 4;
    put_symbol(reg, GS_LINEAR_VARIABLE);
    reg->number = offset;
    for (int i = 0; i < THREADS; i++)
        reg->is[i] = VARIABLE_AT + (uint64_t)offset;
    LINE(program, "mov.u64 %s, word+%d;\n", name_of(program, reg), offset);
}

/* A register of so many bytes, or NULL. Later ones, and those that are followed, are preferred. */
static struct reg *choose(struct program *program, int bytes, const struct reg *not_this) {
    for (int i = 0; i < 40; i++) {
        struct reg *reg = &program->regs[pick(program, program->count)];
        if (reg != not_this && reg->bytes == bytes && reg->line >= 0 && (reg->is_followed || !pick(program, 6)))
            return reg;
    }
    return NULL;
}

static void put_sum(struct reg *to, const struct reg *one, const struct reg *other) {
    to->is_followed = one->is_followed && other->is_followed;
    to->is_number = one->is_number && other->is_number;
    to->kinds = one->kinds | other->kinds;
    to->factors = one->factors > other->factors ? one->factors : other->factors;
    to->terms = one->terms + other->terms;
    to->number = one->number + other->number;
    to->times = one->times + other->times;
}

static void put_product(struct reg *to, const struct reg *one, const struct reg *other) {
    to->is_followed = one->is_followed && other->is_followed;
    to->is_number = one->is_number && other->is_number;
    to->kinds = one->kinds | other->kinds;
    to->factors = one->factors + other->factors;
    to->terms = (one->terms + 1) * (other->terms + 1) - 1;
    to->number = one->number * other->number;
    to->times = (one->times + one->number) * (other->times + other->number);
}

/* Sums and products of two registers, or of one and a number. */
static void make_binary(struct program *program) {
    static const char *const names[] = {"add.u", "sub.s", "mul.lo.u", "add.s", "sub.u", "mul.lo.s"};
    int bytes = pick(program, 2) ? 8 : 4, which = pick(program, 6);
    struct reg *one = choose(program, bytes, NULL), *other = choose(program, bytes, NULL);
    struct reg number = {.bytes = 0};
    char text[16];
    if (!one || !other || program->count == MOST_REGISTERS)
        return;
    if (!pick(program, 3)) {
        int64_t value = gs_random_from(&program->random, -8, 64);
        put_number(&number, value);
        other = &number;
        snprintf(text, sizeof text, "%d", (int)value);
    }
    struct reg *to = add_register(program, bytes);
    if (which % 3 == 2)
        put_product(to, one, other);
    else
        put_sum(to, one, other);
    for (int i = 0; i < THREADS; i++)
        to->is[i] = which % 3 == 0   ? one->is[i] + other->is[i]
                    : which % 3 == 1 ? one->is[i] - other->is[i]
                                     : one->is[i] * other->is[i];
    finish(to);
    LINE(program, "%s%d %s, %s, %s;\n", names[which], bytes * 8, name_of(program, to), name_of(program, one),
         other == &number ? text : name_of(program, other));
}

static uint64_t extended(uint64_t value, bool is_signed) {
    return is_signed ? (uint64_t)(int64_t)(int32_t)(uint32_t)value : (uint32_t)value;
}

/* Whether a register may have a number below 0, which is another one without its sign: it is not known whether
   registers have one. */
static bool may_lose_sign(const struct reg *reg) {
    for (int i = 1; i < THREADS; i++)
        if (reg->is[i] != reg->is[0])
            return false;
    return (int32_t)reg->is[0] < 0;
}

/* Products of 64 bits of two registers of 32, with or without something added; and sums of such products. */
static void make_wide(struct program *program) {
    struct reg *one = choose(program, 4, NULL), *other = choose(program, 4, NULL);
    int how = pick(program, 4); /* 0, 1: mul.wide; 2: mad.wide; 3: mad.lo */
    bool is_signed = pick(program, 2), is_narrow = how == 3;
    struct reg *more = how >= 2 ? choose(program, is_narrow ? 4 : 8, NULL) : NULL;
    if (!one || !other || (how >= 2 && !more))
        return;
    struct reg *to = add_register(program, is_narrow ? 4 : 8), product = {.bytes = 8};
    put_product(&product, one, other);
    for (int i = 0; i < THREADS; i++)
        product.is[i] = extended(one->is[i], is_signed) * extended(other->is[i], is_signed);
    if (!is_narrow && !is_signed)
        product.is_followed = product.is_followed && !may_lose_sign(one) && !may_lose_sign(other);
    struct reg zero = {.bytes = 8, .is_followed = true, .is_number = true};
    put_sum(to, &product, more ? more : &zero);
    for (int i = 0; i < THREADS; i++)
        to->is[i] = product.is[i] + (more ? more->is[i] : 0);
    finish(to);
    if (how < 2)
        LINE(program, "mul.wide.%c32 %s, %s, %s;\n", is_signed ? 's' : 'u', name_of(program, to), name_of(program, one),
             name_of(program, other));
    else
        LINE(program, "mad.%s.%c32 %s, %s, %s, %s;\n", is_narrow ? "lo" : "wide", is_signed ? 's' : 'u',
             name_of(program, to), name_of(program, one), name_of(program, other), name_of(program, more));
}

/* What a lane of the warp hands to all others: known if it is the same in all threads. */
static void make_shuffle(struct program *program) {
    const struct reg *one = choose(program, 4, NULL);
    if (!one || !program->has_shuffles)
        return;
    struct reg *to = add_register(program, 4);
    int line = program->lines;
    *to = *one;
    to->line = line, to->child = -1;
    to->is_followed = one->is_followed && !(one->kinds & (1u << GS_LINEAR_THREAD | 1u << GS_LINEAR_LANE));
    for (int i = 0; i < THREADS; i++)
        to->is[i] = one->is[i & ~1];
    finish(to);
    LINE(program, "shfl.sync.idx.b32 %s, %s, 0, 31, -1;\n", name_of(program, to), name_of(program, one));
}

static void make_unary(struct program *program) {
    static const char *const names[] = {"mov.b", "neg.s", "not.b", "shl.b", "shl.b", "cvta.to.global.u"};
    int which = pick(program, 6), bytes = which == 5 || pick(program, 2) ? 8 : 4;
    struct reg *one = choose(program, bytes, NULL);
    if (!one)
        return;
    struct reg *to = add_register(program, bytes);
    int line = program->lines, by = ((int[]){0, 1, 2, 2, 3, 5, 12, 30, 31})[pick(program, 9)];
    *to = *one;
    to->line = line, to->child = -1, to->is_widened = false;
    for (int i = 0; i < THREADS; i++)
        to->is[i] = which == 1                 ? 0 - one->is[i]
                    : which == 2               ? ~one->is[i]
                    : which == 3 || which == 4 ? one->is[i] << by
                                               : one->is[i];
    if (which == 2)
        to->number++;
    if (which == 3 || which == 4) {
        to->number *= (double)(1ull << by), to->times *= (double)(1ull << by);
        to->is_followed = to->is_followed && by <= 30;
    }
    finish(to);
    char shift[8];
    snprintf(shift, sizeof shift, ", %d", by);
    LINE(program, "%s%d %s, %s%s;\n", names[which], bytes * 8, name_of(program, to), name_of(program, one),
         which == 3 || which == 4 ? shift : "");
}

/* Conversions to 64 bits; and to 32, of what was converted from 32, or has no parameters. */
static void make_conversion(struct program *program) {
    bool is_narrow = !pick(program, 3), is_signed = pick(program, 2);
    struct reg *one = choose(program, is_narrow ? 8 : 4, NULL);
    if (!one)
        return;
    struct reg *to = add_register(program, is_narrow ? 4 : 8);
    int line = program->lines;
    *to = *one;
    to->bytes = is_narrow ? 4 : 8;
    to->line = line, to->child = -1;
    to->is_widened = !is_narrow;
    for (int i = 0; i < THREADS; i++)
        to->is[i] = is_narrow ? one->is[i] : extended(one->is[i], is_signed);
    if (!is_signed && may_lose_sign(one))
        to->is_followed = false;
    if (is_narrow && to->kinds >> GS_LINEAR_PARAMETER & 1 && !one->is_widened)
        to->is_followed = false;
    finish(to);
    if (is_narrow)
        LINE(program, "cvt.%s32.%s64 %s, %s;\n", is_signed ? "s" : "u", is_signed ? "s" : "u", name_of(program, to),
             name_of(program, one));
    else
        LINE(program, "cvt.%c64.%c32 %s, %s;\n", is_signed ? 's' : 'u', is_signed ? 's' : 'u', name_of(program, to),
             name_of(program, one));
}

/* Conversions between signed and unsigned numbers of as many bits. */
static void make_same_size(struct program *program) {
    int bytes = pick(program, 2) ? 8 : 4;
    bool is_signed = pick(program, 2), was_signed = pick(program, 2);
    struct reg *one = choose(program, bytes, NULL);
    if (!one)
        return;
    struct reg *to = add_register(program, bytes);
    int line = program->lines;
    *to = *one;
    to->line = line, to->child = -1, to->is_widened = false;
    if (bytes == 4 && !was_signed && may_lose_sign(one))
        to->is_followed = false;
    finish(to);
    LINE(program, "cvt.%c%d.%c%d %s, %s;\n", is_signed ? 's' : 'u', bytes * 8, was_signed ? 's' : 'u', bytes * 8,
         name_of(program, to), name_of(program, one));
}

/* What is not followed, because it is no sum: if a sum is known, it must be right all the same. */
static void make_other(struct program *program) {
    static const char *const names[] = {"and.b32",      "xor.b32", "rem.u32", "mul.hi.u32", "add.sat.s32",
                                        "@%p1 add.u32", "mul.f32", "min.u32", "shr.u32"};
    int which = pick(program, 9);
    struct reg *one = choose(program, 4, NULL), *other = choose(program, 4, one);
    if (!one || !other)
        return;
    struct reg *to = add_register(program, 4);
    to->kinds = one->kinds | other->kinds;
    for (int i = 0; i < THREADS; i++) {
        uint32_t a = (uint32_t)one->is[i], b = (uint32_t)other->is[i];
        to->is[i] = which == 0   ? a & b
                    : which == 1 ? a ^ b
                    : which == 2 ? (b ? a % b : a)
                    : which == 3 ? (uint64_t)a * b >> 32
                    : which == 4 ? (uint64_t)INT32_MAX
                    : which == 5 ? a + b + (uint32_t)i
                    : which == 6 ? 0xdeadbeefu + (uint32_t)i
                    : which == 7 ? (a < b ? a : b)
                                 : (b < 32 ? a >> b : 0);
        to->is[i] = (uint32_t)to->is[i];
    }
    LINE(program, "%s %s, %s, %s;\n", names[which], name_of(program, to), name_of(program, one),
         name_of(program, other));
}

/* Stores a register in shared memory. */
static void make_store(struct program *program) {
    int bytes = pick(program, 2) ? 8 : 4, at = pick(program, SHARED_BYTES / bytes) * bytes;
    struct reg *one = choose(program, bytes, NULL);
    if (!one || program->has_shuffles || program->lines >= MOST_REGISTERS * 2)
        return;
    program->stored[program->lines] = (int)(one - program->regs);
    program->stored_at[program->lines] = at;
    program->stored_bytes[program->lines] = bytes;
    for (int i = 0; i < bytes; i++)
        program->stores[at + i] = program->stores[at + i] ? -1 : program->lines;
    for (int i = 0; i < THREADS; i++)
        memcpy(program->shared[i] + at, &one->is[i], (size_t)bytes);
    LINE(program, "st.shared.u%d [own+%d], %s;\n", bytes * 8, at, name_of(program, one));
}

/* Loads what the other thread of the block has stored: that is known if it is the same in all threads, and nothing else
   is stored there. A load of 32 bits may make 64 of them. */
static void make_load(struct program *program) {
    int bytes = pick(program, 2) ? 8 : 4, at = pick(program, SHARED_BYTES / bytes) * bytes;
    bool is_wide = bytes == 4 && !pick(program, 4), is_signed = pick(program, 2);
    for (int i = 0; i < 20 && !(program->stores[at] > 0); i++)
        at = pick(program, SHARED_BYTES / bytes) * bytes;
    int store = program->stores[at];
    struct reg *reg = add_register(program, bytes);
    int line = program->lines;
    bool is_same = store > 0 && program->stored_at[store] == at && program->stored_bytes[store] == bytes;
    for (int i = 0; i < bytes; i++)
        is_same = is_same && program->stores[at + i] == store;
    if (is_same) {
        *reg = program->regs[program->stored[store]];
        reg->line = line, reg->child = -1, reg->is_widened = false;
        reg->is_followed = reg->is_followed && !(reg->kinds & (1u << GS_LINEAR_THREAD | 1u << GS_LINEAR_LANE)) &&
                           !(is_wide && may_lose_sign(reg));
    }
    reg->bytes = is_wide ? 8 : bytes;
    for (int i = 0; i < THREADS; i++) {
        reg->is[i] = read_bytes(program->shared[i ^ 1] + at, bytes);
        if (is_wide)
            reg->is[i] = extended(reg->is[i], is_signed);
    }
    LINE(program, "ld.shared.%c%d %s, [own+%d];\n", is_signed ? 's' : 'u', bytes * 8, name_of(program, reg), at);
}

/* A sum of more products than are followed. */
static void make_crowd(struct program *program) {
    struct reg *sum = NULL;
    int first = program->count, wanted = GS_LINEAR_TERMS + pick(program, 3);
    while (program->count < first + 7)
        make_special(program);
    for (int i = 0, k = 0; k < wanted && i < 7; i++)
        for (int j = i; k < wanted && j < 7; j++, k++) {
            const struct reg *one = &program->regs[first + i], *other = &program->regs[first + j];
            struct reg *to = add_register(program, 8), product = {.bytes = 8}, zero = {.is_followed = true};
            put_product(&product, one, other);
            put_sum(to, &product, sum ? sum : &zero);
            for (int t = 0; t < THREADS; t++)
                to->is[t] = one->is[t] * other->is[t] + (sum ? sum->is[t] : 0);
            if (sum)
                LINE(program, "mad.wide.u32 %s, %s, %s, %s;\n", name_of(program, to), name_of(program, one),
                     name_of(program, other), name_of(program, sum));
            else
                LINE(program, "mul.wide.u32 %s, %s, %s;\n", name_of(program, to), name_of(program, one),
                     name_of(program, other));
            finish(to);
            sum = to;
        }
}

static void make_threads(struct program *program) {
    for (int i = 0; i < THREADS; i += 2) {
        uint32_t *special = program->threads[i].specials;
        bool is_large = pick(program, 2);
        for (int k = 0; k < 3; k++) {
            special[3 + k] = (uint32_t)gs_random_from(&program->random, 1, is_large ? 1 << (k ? 4 : 20) : 5);
            special[9 + k] = (uint32_t)gs_random_from(&program->random, 1, k ? 3 : 100);
            special[k] = (uint32_t)gs_random_from(&program->random, 0, special[3 + k] - 1);
        }
        memcpy(program->threads[i + 1].specials, special, sizeof program->threads[i].specials);
        for (int k = 0; k < MOST_REGISTERS; k++)
            program->threads[i].tickets[k] = program->threads[i + 1].tickets[k] =
                gs_random_next(&program->random) >> 40;
    }
    for (int i = 0; i < THREADS; i++) {
        uint32_t *special = program->threads[i].specials;
        for (int k = 6; k < 9; k++)
            special[k] = (uint32_t)gs_random_from(&program->random, 0, special[k + 3] - 1);
        special[12] = (uint32_t)pick(program, 32);
    }
}

static void make_program(struct program *program) {
    static void (*const leaves[])(struct program * program) = {make_special, make_special,   make_special,
                                                               make_number,  make_parameter, make_parameter,
                                                               make_ticket,  make_variable};
    static void (*const makers[])(struct program * program) = {
        make_binary,     make_binary, make_binary,     make_wide, make_unary, make_unary,   make_other,
        make_conversion, make_store,  make_conversion, make_load, make_load,  make_shuffle, make_same_size};
    for (int i = 0; i < PARAMETER_BYTES; i++)
        program->parameters[i] = (uint8_t)gs_random_next(&program->random);
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < SHARED_BYTES; k++)
            program->shared[i][k] = (uint8_t)gs_random_next(&program->random);
    make_threads(program);
    gs_text_add(&program->text, "%s", head);
    LINE(program, "setp.eq.u32 %%p1, 1, 0;\n");
    program->has_shuffles = pick(program, 2);
    if (!pick(program, 8))
        make_crowd(program);
    int leaves_wanted = 3 + pick(program, 8), rest = 8 + pick(program, 24);
    while (program->count < leaves_wanted)
        leaves[pick(program, GS_COUNT(leaves))](program);
    for (int i = 0; i < rest && program->count < MOST_REGISTERS - 8; i++)
        if (pick(program, 8))
            makers[pick(program, GS_COUNT(makers))](program);
        else
            leaves[pick(program, GS_COUNT(leaves))](program);
    gs_text_add(&program->text, "\tret;\n}\n");
}

/* ---- what is known ---- */

static uint64_t value_of_symbol(const struct program *program, const gs_ptx_kernel *kernel, const struct thread *thread,
                                uint64_t symbol) {
    int part = (uint8_t)symbol - 'x';
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    switch (symbol >> 56) {
    case GS_LINEAR_BLOCK:
    case GS_LINEAR_BLOCKS:
    case GS_LINEAR_THREAD:
    case GS_LINEAR_THREADS:
        assert_in_range(part, 0, 2);
        return thread->specials[3 * ((symbol >> 56) - GS_LINEAR_BLOCK) + (uint64_t)part];
    case GS_LINEAR_LANE:
        return thread->specials[12];
    case GS_LINEAR_PARAMETER: {
        uint32_t number = symbol >> 32 & 0xffff, offset = symbol & 0xffffff, bytes = symbol >> 24 & 0xff;
        assert_in_range(number, 0, 4);
        assert_in_range(offset + bytes, 1, parameters[number].bytes);
        return read_bytes(program->parameters + parameters[number].at + offset, (int)bytes);
    }
    case GS_LINEAR_VARIABLE:
        return VARIABLE_AT;
    case GS_LINEAR_TICKET: {
        uint32_t line = 0;
        for (uint32_t i = function->statements; i < (uint32_t)symbol; i++)
            line += kernel->module->statements.data[i].kind == GS_PTX_INSTRUCTION;
        return thread->tickets[line];
    }
    default:
        fail_msg("a sum has symbol %" PRIx64, symbol);
        return 0;
    }
}

static uint64_t value_of_sum(const struct program *program, const gs_ptx_kernel *kernel, const struct thread *thread,
                             const gs_linear *sum) {
    uint64_t value = (uint64_t)sum->number;
    for (int i = 0; i < sum->count; i++) {
        uint64_t product = (uint64_t)sum->terms[i].times;
        for (int k = 0; k < GS_LINEAR_FACTORS; k++)
            if (sum->terms[i].factors[k])
                product *= value_of_symbol(program, kernel, thread, sum->terms[i].factors[k]);
        value += product;
    }
    return value;
}

static gs_ptx_operand operand_of(const gs_ptx_kernel *kernel, const struct reg *reg) {
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    int line = -1;
    uint32_t at = function->statements;
    for (;; at++) {
        line += kernel->module->statements.data[at].kind == GS_PTX_INSTRUCTION;
        if (line == reg->line)
            break;
    }
    const gs_ptx_operand *result = gs_ptx_operand_at(kernel, gs_ptx_statement_at(kernel, at), 0);
    return reg->child < 0 ? *result : kernel->module->operands.data[result->children + (uint32_t)reg->child];
}

static void check_register(const struct program *program, const gs_ptx_kernel *kernel, const struct reg *reg) {
    gs_ptx_operand operand = operand_of(kernel, reg);
    gs_linear sum = gs_linear_value(kernel, &operand, GS_LINEAR_EXACT);
    const char *name = name_of(program, reg);
    if (!sum.is_known) {
        if (reg->is_followed)
            fail_msg("%s is not known\n%s", name, program->text.data);
        return;
    }
    if (sum.lost > 32)
        fail_msg("%s keeps %d bits\n%s", name, 64 - sum.lost, program->text.data);
    uint64_t mask = UINT64_MAX >> sum.lost & (reg->bytes == 4 ? UINT32_MAX : UINT64_MAX);
    bool differs = false, is_zero = false;
    for (int i = 0; i < THREADS; i++) {
        uint64_t is = value_of_sum(program, kernel, &program->threads[i], &sum);
        if ((is ^ reg->is[i]) & mask)
            fail_msg("%s is %" PRIu64 " in thread %d, and its sum is %" PRIu64 ", of which it keeps %d bits\n%s", name,
                     reg->is[i], i, is, 64 - sum.lost, program->text.data);
        differs = differs || is != value_of_sum(program, kernel, &program->threads[i & ~1], &sum);
        is_zero = is_zero || (int64_t)is <= 0;
    }
    assert_true(!differs || !gs_linear_is_same_everywhere(&sum));
    assert_true(!is_zero || !gs_linear_is_positive(&sum));
    const uint32_t of_all = 1u << GS_LINEAR_PARAMETER | 1u << GS_LINEAR_VARIABLE | 1u << GS_LINEAR_BLOCKS |
                            1u << GS_LINEAR_THREADS,
                   of_threads = of_all | 1u << GS_LINEAR_BLOCK | 1u << GS_LINEAR_THREAD | 1u << GS_LINEAR_LANE;
    if (reg->is_followed && !(reg->kinds & ~of_all))
        assert_true(gs_linear_is_same_everywhere(&sum));
    if (reg->is_followed && !(reg->kinds & ~of_threads))
        assert_true(gs_linear_is_same_in_thread(&sum));
    if (reg->is_number && reg->is_followed)
        assert_true(gs_linear_is_number(&sum));
}

/* A sum of sizes and of numbers of threads is positive if it is so where they are least. */
static void check_sign(const struct program *program, const gs_ptx_kernel *kernel, const struct reg *reg) {
    const uint32_t kinds =
        1u << GS_LINEAR_BLOCKS | 1u << GS_LINEAR_THREADS | 1u << GS_LINEAR_THREAD | 1u << GS_LINEAR_LANE;
    struct thread least = {.specials = {0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0}};
    gs_ptx_operand operand = operand_of(kernel, reg);
    gs_linear sum = gs_linear_value(kernel, &operand, GS_LINEAR_EXACT);
    bool can_tell = sum.is_known && !sum.lost && !(reg->kinds & ~kinds) && reg->times < 0x1p20 && reg->factors <= 1;
    for (int i = 0; i < sum.count; i++)
        can_tell = can_tell && sum.terms[i].times > 0;
    if (can_tell && gs_linear_is_positive(&sum) != ((int64_t)value_of_sum(program, kernel, &least, &sum) > 0))
        fail_msg("whether %s is positive is wrong\n%s", name_of(program, reg), program->text.data);
}

/* Two registers whose sums are equal are equal in each thread. */
static void check_pair(const struct program *program, const gs_ptx_kernel *kernel, const struct reg *one,
                       const struct reg *other) {
    gs_ptx_operand first = operand_of(kernel, one), second = operand_of(kernel, other);
    gs_linear a = gs_linear_value(kernel, &first, GS_LINEAR_EXACT),
              b = gs_linear_value(kernel, &second, GS_LINEAR_EXACT);
    assert_int_equal(gs_linear_is_equal(&a, &a), a.is_known && !a.lost);
    if (!gs_linear_is_equal(&a, &b))
        return;
    uint64_t mask = one->bytes == 4 && other->bytes == 4 ? UINT32_MAX : UINT64_MAX;
    for (int i = 0; i < THREADS; i++)
        if ((one->is[i] ^ other->is[i]) & mask)
            fail_msg("%s and %s are not equal in thread %d\n%s", name_of(program, one), name_of(program, other), i,
                     program->text.data);
}

TEST(sums_are_what_threads_compute) {
    uint64_t runs = test_number("GRIDSMITH_RUNS", 100000) / 20 + 50;
    int known = 0, all = 0;
    for (uint64_t i = 0; i < runs; i++) {
        struct program *program = calloc(1, sizeof *program);
        assert_non_null(program);
        program->random = gs_random_at(61, i);
        make_program(program);
        gs_error error = {.code = GS_OK};
        gs_ptx_module module;
        gs_ptx_kernel kernel = {.module = &module};
        gs_ptx_options options = {.form = GS_FORM_PERSISTENT};
        if (gs_ptx_read(&module, "k.ptx", program->text.data, program->text.count, &error) != GS_OK)
            fail_msg("%ld: %s\n%s", error.line, error.message, program->text.data);
        kernel.function = (uint32_t)gs_ptx_find_function(&module, "k");
        if (gs_ptx_kernel_examine(&kernel, &options, &error) != GS_OK)
            fail_msg("%s\n%s", error.message, program->text.data);
        for (int k = 0; k < program->count; k++)
            if (program->regs[k].line >= 0) {
                check_register(program, &kernel, &program->regs[k]);
                check_sign(program, &kernel, &program->regs[k]);
                known += program->regs[k].is_followed;
                all++;
            }
        for (int k = 1; k < program->count; k++)
            if (program->regs[k].line >= 0 && program->regs[k - 1].line >= 0 &&
                program->regs[k].bytes == program->regs[k - 1].bytes)
                check_pair(program, &kernel, &program->regs[k], &program->regs[k - 1]);
        gs_ptx_kernel_free(&kernel);
        gs_ptx_free(&module);
        gs_text_free(&program->text);
        free(program);
    }
    assert_true(known > all / 2);
}

/* ---- pairs of addresses ---- */

/* A kernel that stores to two addresses, and what is asked of them. */
struct pair {
    gs_text text;
    gs_ptx_module module;
    gs_ptx_kernel kernel;
    const gs_ptx_operand *addresses[2];
};

static void read_pair(struct pair *pair) {
    gs_error error = {.code = GS_OK};
    gs_ptx_options options = {.form = GS_FORM_PERSISTENT};
    if (gs_ptx_read(&pair->module, "k.ptx", pair->text.data, pair->text.count, &error) != GS_OK)
        fail_msg("%ld: %s\n%s", error.line, error.message, pair->text.data);
    pair->kernel = (gs_ptx_kernel){.module = &pair->module};
    pair->kernel.function = (uint32_t)gs_ptx_find_function(&pair->module, "k");
    if (gs_ptx_kernel_examine(&pair->kernel, &options, &error) != GS_OK)
        fail_msg("%s\n%s", error.message, pair->text.data);
    int found = 0;
    for (uint32_t i = 0; i < pair->module.statements.count; i++) {
        const gs_ptx_statement *statement = gs_ptx_statement_at(&pair->kernel, i);
        if (statement->kind == GS_PTX_INSTRUCTION && statement->opcode == GS_PTX_STORE)
            pair->addresses[found++] = gs_ptx_operand_at(&pair->kernel, statement, 0);
    }
    assert_int_equal(found, 2);
}

static void free_pair(struct pair *pair) {
    gs_ptx_kernel_free(&pair->kernel);
    gs_ptx_free(&pair->module);
    gs_text_free(&pair->text);
}

static const char pair_head[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                                ".visible .entry k(.param .u64 p)\n.maxntid %d, 1, 1\n{\n\t.reg .b64 %%p, %%a<16>, "
                                "%%b<16>; .reg .b32 %%r<16>;\n\tld.param.u64 %%p, [p];\n";

/* Puts an address: a pointer, a number, and up to three indices that are not known, each times a number or with some
   bits cut off. Returns how many of its lowest bits are those of the pointer and the number. */
static int put_entry(gs_text *text, gs_random *random, char name, int64_t offset) {
    int zeros = 64, count = (int)gs_random_from(random, 1, 3);
    gs_text_add(text, "\tadd.u64 %%%c0, %%p, %d;\n", name, (int)offset);
    for (int i = 1; i <= count; i++) {
        int way = (int)gs_random_from(random, 0, 3), power = (int)gs_random_from(random, 0, 7);
        const char *words = way == 0 ? "shl.b64" : way == 1 ? "and.b64" : "mul.lo.u64";
        int number = way == 0 ? power : way == 1 ? -(1 << power) : way == 2 ? 1 << power : 3 << power;
        gs_text_add(text, "\tld.global.u64 %%%c%d, [%%p+%d];\n", name, 3 * i, 8 * i);
        gs_text_add(text, "\t%s %%%c%d, %%%c%d, %d;\n", words, name, 3 * i + 1, name, 3 * i, number);
        gs_text_add(text, "\tadd.u64 %%%c%d, %%%c%d, %%%c%d;\n", name, 3 * i + 2, name, 3 * i + 1, name,
                    i == 1 ? 0 : 3 * i - 1);
        zeros = zeros < power ? zeros : power;
    }
    gs_text_add(text, "\tcvta.to.global.u64 %%%c15, %%%c%d;\n", name, name, 3 * count + 2);
    return zeros;
}

TEST(keys_and_values_of_tables_are_told_apart) {
    uint64_t runs = test_number("GRIDSMITH_RUNS", 100000) / 20 + 50;
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(62, i);
        struct pair pair = {.text = {0}};
        int64_t offsets[2] = {gs_random_from(&random, -20, 20) * 2, gs_random_from(&random, -20, 20) * 2};
        int64_t bytes[2] = {1 << gs_random_from(&random, 0, 3), 1 << gs_random_from(&random, 0, 3)};
        int64_t more = gs_random_from(&random, 0, 2) * 4;
        gs_text_add(&pair.text, pair_head, 256);
        int one = put_entry(&pair.text, &random, 'a', offsets[0]),
            other = put_entry(&pair.text, &random, 'b', offsets[1]);
        gs_text_add(&pair.text, "\tst.global.u32 [%%a15], 1;\n\tst.global.u32 [%%b15+%d], 1;\n\tret;\n}\n", (int)more);
        read_pair(&pair);
        int64_t period = 1ll << (one < other ? one : other), distance = (offsets[1] + more - offsets[0]) & (period - 1);
        bool are_apart = distance >= bytes[0] && period - distance >= bytes[1];
        if (gs_linear_are_apart(&pair.kernel, pair.addresses[0], bytes[0], pair.addresses[1], bytes[1]) != are_apart)
            fail_msg("%d and %d bytes: they are %s\n%s", (int)bytes[0], (int)bytes[1],
                     are_apart ? "apart" : "not always apart", pair.text.data);
        free_pair(&pair);
    }
}

/* A number of the block: the order in which blocks begin, in grids of this kind. Blocks may share it. */
static const struct {
    const char *text; /* makes %r1; %r10 and above are numbers of the block and sizes of the grid */
    gs_linear_order needs;
    bool is_shared;
} numbers_of_blocks[] = {
    {"mad.lo.u32 %r2, %r12, %r14, %r11; mad.lo.u32 %r1, %r2, %r13, %r10;", GS_LINEAR_ANY_GRID, false},
    {"mad.lo.u32 %r1, %r12, %r14, %r11;", GS_LINEAR_ANY_GRID, true},
    {"mov.u32 %r1, %r12;", GS_LINEAR_ANY_GRID, true},
    {"mad.lo.u32 %r1, %r11, %r13, %r10;", GS_LINEAR_ONE_LAYER, false},
    {"mov.u32 %r1, %r11;", GS_LINEAR_ONE_LAYER, true},
    {"mov.u32 %r1, %r10;", GS_LINEAR_ONE_ROW, false},
    {"atom.global.add.u32 %r1, [%p], 1;", GS_LINEAR_BY_TICKETS, false},
    {"mad.lo.u32 %r1, %r10, %r14, %r11;", GS_LINEAR_ONE_ROW, false}, /* by columns */
    {"mul.lo.u32 %r1, %r10, %r10;", GS_LINEAR_NO_ORDER, false},
};

/* The part of the address that a thread adds: at most, and at least. */
static int64_t part_of(int64_t step, int64_t threads, bool is_most) {
    return (step > 0) == is_most ? step * (threads - 1) : 0;
}

TEST(blocks_wait_only_for_flags_of_earlier_ones) {
    uint64_t runs = test_number("GRIDSMITH_RUNS", 100000) / 20 + 100;
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(63, i);
        size_t which = (size_t)gs_random_from(&random, 0, (int64_t)GS_COUNT(numbers_of_blocks) - 1);
        int64_t threads = gs_random_from(&random, 1, 64), is_by_threads = gs_random_from(&random, 0, 1);
        int64_t flags = gs_random_from(&random, 1, 3), steps[2], offsets[2]; /* flags of a block, or of each thread */
        bool is_wide = gs_random_chance(&random, 50);
        struct pair pair = {.text = {0}};
        gs_text_add(&pair.text, pair_head, (int)threads);
        gs_text_add(&pair.text,
                    "\tmov.u32 %%r10, %%ctaid.x; mov.u32 %%r11, %%ctaid.y; mov.u32 %%r12, %%ctaid.z;\n"
                    "\tmov.u32 %%r13, %%nctaid.x; mov.u32 %%r14, %%nctaid.y; mov.u32 %%r15, %%ntid.x;\n"
                    "\tmov.u32 %%r3, %%tid.x;\n\t%s\n",
                    numbers_of_blocks[which].text);
        if (is_wide) {
            gs_text_add(
                &pair.text,
                "\tcvt.u64.u32 %%a1, %%r1; cvt.u64.u32 %%a2, %%r15; mul.lo.u64 %%a3, %%a1, %s; mul.lo.u64 %%a4, "
                "%%a3, %d; add.u64 %%a5, %%a4, %%p;\n",
                is_by_threads ? "%a2" : "1", (int)flags * 4);
        } else {
            gs_text_add(&pair.text, "\tmul.lo.u32 %%r4, %%r1, %s; mad.wide.u32 %%a5, %%r4, %d, %%p;\n",
                        is_by_threads ? "%r15" : "1", (int)flags * 4);
        }
        for (int k = 0; k < 2; k++) {
            steps[k] = gs_random_from(&random, -1, 1) * 4;
            offsets[k] = gs_random_from(&random, -3, 3) * gs_random_from(&random, 1, 2) * 2;
            if (gs_random_chance(&random, 40) && k == 0)
                offsets[k] -= is_by_threads ? 0 : flags * 4;
            gs_text_add(&pair.text, "\tmad.wide.s32 %%b%d, %%r3, %d, %%a5; st.global.u32 [%%b%d+%d], 1;\n", k + 1,
                        (int)steps[k], k + 1, (int)offsets[k]);
        }
        gs_text_add(&pair.text, "\tret;\n}\n");
        read_pair(&pair);
        gs_linear awaited = gs_linear_value(&pair.kernel, pair.addresses[0], GS_LINEAR_AT_MOST),
                  written = gs_linear_value(&pair.kernel, pair.addresses[1], GS_LINEAR_AT_LEAST);
        gs_linear_sizes sizes = {.bytes = 4, .written = 4, .threads = threads, .tickets = 4};
        uint32_t most = 0;
        gs_linear_order order = gs_linear_order_of(&awaited, &written, sizes, NULL, 0, &most);
        /* in each block size, what is awaited must end before what the next block writes */
        bool is_earlier = true;
        for (int64_t size = 1; size <= threads; size++) {
            int64_t stride = flags * 4 * (is_by_threads ? size : 1);
            int64_t end = offsets[0] + part_of(steps[0], size, true) + 3,
                    next =
                        offsets[1] + part_of(steps[1], size, false) + (numbers_of_blocks[which].is_shared ? 0 : stride);
            is_earlier = is_earlier && end < next;
        }
        gs_linear_order wanted = is_earlier ? numbers_of_blocks[which].needs : GS_LINEAR_NO_ORDER;
        if (order != wanted)
            fail_msg("order %d, not %d\n%s", order, wanted, pair.text.data);
        /* in such grids no address comes again because registers have 32 bits, and they are not much smaller than
         * needed */
        uint64_t modulus = 1ull << (32 + (flags == 2 ? 3 : 2)), flag_bytes = (uint64_t)flags * 4,
                 least = modulus / flag_bytes / (is_by_threads ? 1024 * 16 : 16);
        bool is_sum = strstr(numbers_of_blocks[which].text, "mad"),
             is_short = (is_sum || (is_by_threads && !is_wide)) && order != GS_LINEAR_BY_TICKETS;
        if (order != GS_LINEAR_NO_ORDER &&
            (most > GS_LINEAR_MOST_BLOCKS || (is_short && most > modulus / flag_bytes) ||
             most < (least < GS_LINEAR_MOST_BLOCKS ? least : GS_LINEAR_MOST_BLOCKS / 16)))
            fail_msg("in grids of at most %u blocks\n%s", most, pair.text.data);
        free_pair(&pair);
    }
}

/* ---- bounds ---- */

enum { COUNTERS = 3, DERIVED = 6, ITERATIONS = 6 };

/* A register that a loop changes, or that is computed from such ones, in 32 bits. */
struct bounded {
    char text[80];            /* how it is computed in the loop */
    bool has_most, has_least; /* it is known what it is at most, and at least */
    int64_t is[THREADS];
    int which, one, other; /* of derived ones: the operation and the registers, */
    int64_t number;        /* or a number */
    int64_t step, more;    /* of counters: what is added in an iteration, and how often the size of a block */
};

/* A counter begins as a number or a special register, and each iteration adds to it, or takes away. */
static void make_counter(gs_random *random, struct bounded *reg, int number, gs_text *text) {
    bool is_up = gs_random_chance(random, 50), is_mixed = gs_random_chance(random, 20);
    int64_t step = gs_random_from(random, 0, 5), less = is_mixed ? gs_random_from(random, 1, 5) : 0;
    bool adds_size = !is_mixed && gs_random_chance(random, 30);
    bool moves_on = step || adds_size;
    *reg = (struct bounded){.number = gs_random_from(random, -1, 12), .more = adds_size ? (is_up ? 1 : -1) : 0};
    reg->step = is_up ? step - less : less - step;
    reg->has_most = is_up ? !moves_on : !less;
    reg->has_least = is_up ? !less : !moves_on;
    if (reg->number < 0)
        gs_text_add(text, "\tmov.u32 %%r%d, %%tid.x;\n", number);
    else
        gs_text_add(text, "\tmov.u32 %%r%d, %d;\n", number, (int)reg->number);
    snprintf(reg->text, sizeof reg->text, "%s.s32 %%r%d, %%r%d, %d; %s.s32 %%r%d, %%r%d, %d;", is_up ? "add" : "sub",
             number, number, (int)step, is_up ? "sub" : "add", number, number, (int)less);
    if (adds_size) {
        size_t length = strlen(reg->text);
        snprintf(reg->text + length, sizeof reg->text - length, " %s.s32 %%r%d, %%r%d, %%r20;", is_up ? "add" : "sub",
                 number, number);
    }
}

/* What is at most so much is at least so much with its sign changed. */
static void make_derived(gs_random *random, struct bounded *all, int number) {
    static const char *const names[] = {"add.s32 %%r%d, %%r%d, %%r%d;", "sub.s32 %%r%d, %%r%d, %%r%d;",
                                        "neg.s32 %%r%d, %%r%d;",        "not.b32 %%r%d, %%r%d;",
                                        "mul.lo.s32 %%r%d, %%r%d, %d;", "mad.lo.s32 %%r%d, %d, %%r%d, %%r%d;",
                                        "shl.b32 %%r%d, %%r%d, %d;"};
    struct bounded *reg = &all[number];
    *reg = (struct bounded){.which = (int)gs_random_from(random, 0, 6),
                            .one = (int)gs_random_from(random, 0, number - 1),
                            .other = (int)gs_random_from(random, 0, number - 1),
                            .number = gs_random_from(random, 1, 4)};
    const struct bounded *one = &all[reg->one], *other = &all[reg->other];
    bool is_turned = reg->which == 2 || reg->which == 3;
    reg->has_most = is_turned ? one->has_least : one->has_most;
    reg->has_least = is_turned ? one->has_most : one->has_least;
    if (reg->which <= 1 || reg->which == 5) {
        reg->has_most = reg->has_most && (reg->which == 1 ? other->has_least : other->has_most);
        reg->has_least = reg->has_least && (reg->which == 1 ? other->has_most : other->has_least);
    }
    if (reg->which <= 1)
        snprintf(reg->text, sizeof reg->text, names[reg->which], number, reg->one, reg->other);
    else if (is_turned)
        snprintf(reg->text, sizeof reg->text, names[reg->which], number, reg->one);
    else if (reg->which == 5)
        snprintf(reg->text, sizeof reg->text, names[reg->which], number, (int)reg->number, reg->one, reg->other);
    else
        snprintf(reg->text, sizeof reg->text, names[reg->which], number, reg->one, (int)reg->number);
}

static void run_bounded(struct bounded *all, int thread, const struct thread *as) {
    for (int i = 0; i < COUNTERS; i++)
        all[i].is[thread] += all[i].step + all[i].more * as->specials[9];
    for (int i = COUNTERS; i < COUNTERS + DERIVED; i++) {
        struct bounded *reg = &all[i];
        int64_t one = all[reg->one].is[thread], other = all[reg->other].is[thread];
        reg->is[thread] = reg->which == 0   ? one + other
                          : reg->which == 1 ? one - other
                          : reg->which == 2 ? -one
                          : reg->which == 3 ? -one - 1
                          : reg->which == 4 ? one * reg->number
                          : reg->which == 5 ? one * reg->number + other
                                            : one * (1 << reg->number);
    }
}

/* The register with this number; they are read by the stores behind the loop. */
static gs_ptx_operand bounded_operand(const gs_ptx_kernel *kernel, int number) {
    for (uint32_t i = 0;; i++) {
        const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, i);
        if (statement->kind == GS_PTX_INSTRUCTION && statement->opcode == GS_PTX_STORE && number-- == 0)
            return *gs_ptx_operand_at(kernel, statement, 1);
    }
}

static void check_bounds(const struct program *program, const gs_ptx_kernel *kernel, struct bounded *all) {
    gs_linear most[COUNTERS + DERIVED], least[COUNTERS + DERIVED];
    for (int k = 0; k < COUNTERS + DERIVED; k++) {
        gs_ptx_operand operand = bounded_operand(kernel, k);
        most[k] = gs_linear_value(kernel, &operand, GS_LINEAR_AT_MOST);
        least[k] = gs_linear_value(kernel, &operand, GS_LINEAR_AT_LEAST);
        if (most[k].is_known != all[k].has_most || least[k].is_known != all[k].has_least)
            fail_msg("%%r%d: known bounds %d, %d; not %d, %d\n%s", k, most[k].is_known, least[k].is_known,
                     all[k].has_most, all[k].has_least, program->text.data);
    }
    for (int t = 0; t < THREADS; t++)
        for (int iteration = 0; iteration < ITERATIONS; iteration++) {
            const struct thread *as = &program->threads[t];
            run_bounded(all, t, as);
            for (int k = 0; k < COUNTERS + DERIVED; k++)
                if ((most[k].is_known && (int64_t)value_of_sum(program, kernel, as, &most[k]) < all[k].is[t]) ||
                    (least[k].is_known && (int64_t)value_of_sum(program, kernel, as, &least[k]) > all[k].is[t]))
                    fail_msg("%%r%d is beyond its bound\n%s", k, program->text.data);
        }
}

/* A register that a loop changes in one direction is never beyond its first value. */
TEST(loops_keep_their_bounds) {
    uint64_t runs = test_number("GRIDSMITH_RUNS", 100000) / 20 + 50;
    for (uint64_t i = 0; i < runs; i++) {
        struct program program = {.random = gs_random_at(65, i)};
        struct bounded all[COUNTERS + DERIVED];
        gs_error error = {.code = GS_OK};
        gs_ptx_options options = {.form = GS_FORM_PERSISTENT, .looks_back = true};
        gs_ptx_module module;
        make_threads(&program);
        gs_text_add(&program.text, "%s\tmov.u32 %%r20, %%ntid.x; mov.u32 %%r21, 0;\n", head);
        for (int k = 0; k < COUNTERS; k++)
            make_counter(&program.random, &all[k], k, &program.text);
        for (int k = COUNTERS; k < COUNTERS + DERIVED; k++)
            make_derived(&program.random, all, k);
        gs_text_add(&program.text, "again:\n");
        for (int k = 0; k < COUNTERS + DERIVED; k++)
            gs_text_add(&program.text, "\t%s\n", all[k].text);
        gs_text_add(&program.text, "\tadd.u32 %%r21, %%r21, 1; setp.lt.u32 %%p1, %%r21, 6; @%%p1 bra again;\n");
        for (int k = 0; k < COUNTERS + DERIVED; k++)
            gs_text_add(&program.text, "\tst.global.u32 [word+%d], %%r%d;\n", 4 * k, k);
        gs_text_add(&program.text, "\tret;\n}\n");
        if (gs_ptx_read(&module, "k.ptx", program.text.data, program.text.count, &error) != GS_OK)
            fail_msg("%ld: %s\n%s", error.line, error.message, program.text.data);
        gs_ptx_kernel kernel = {.module = &module, .function = (uint32_t)gs_ptx_find_function(&module, "k")};
        if (gs_ptx_kernel_examine(&kernel, &options, &error) != GS_OK)
            fail_msg("%s\n%s", error.message, program.text.data);
        for (int t = 0; t < THREADS; t++)
            for (int k = 0; k < COUNTERS; k++)
                all[k].is[t] = all[k].number < 0 ? program.threads[t].specials[6] : all[k].number;
        check_bounds(&program, &kernel, all);
        gs_ptx_kernel_free(&kernel);
        gs_ptx_free(&module);
        gs_text_free(&program.text);
    }
}

TEST_MAIN(NULL, NULL)
