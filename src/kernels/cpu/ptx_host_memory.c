/*
 * ptx_host_memory.c: loads, stores, atomic operations, asynchronous copies and addresses. See ptx_host.h.
 *
 * Copies that are asynchronous on a GPU are made at once, which is one of the orders that PTX allows.
 */
#include "ptx_host.h"

#include <stdlib.h>

/* Words without an effect on the loaded or stored value: scopes, caches, hints. */
static bool is_hint(const char *word) {
    static const char hints[] =
        "weak cta cluster gpu sys nc ca cg cs lu cv wb wt unified noftz relaxed acquire release "
        "acq_rel volatile mmio global const shared shared::cta shared::cluster local param "
        "param::entry param::func";
    return gs_ptx_listed(hints, word) || strncmp(word, "L1::", 4) == 0 || strncmp(word, "L2::", 4) == 0;
}

static bool is_strong(const gs_ptx_instruction *instruction) {
    static const char *const words[] = {"volatile", "relaxed", "acquire", "release", "mmio"};
    for (size_t i = 0; i < GS_COUNT(words); i++)
        if (gs_ptx_word(instruction, words[i]))
            return true;
    return false;
}

/* The words of ld and st: hints, perhaps a vector, and a type. Returns the elements of the vector; 0: refused. */
static uint32_t read_words(gs_ptx_host *host, const gs_ptx_instruction *instruction, gs_ptx_type *type) {
    uint32_t lanes = 1;
    bool is_known = true;
    *type = gs_ptx_nth_type(instruction, 0);
    for (uint32_t i = 1; i < instruction->count; i++) {
        const char *word = instruction->words[i];
        if (gs_ptx_listed("v2 v4 v8", word))
            lanes = (uint32_t)(word[1] - '0');
        else
            is_known = is_known && (is_hint(word) || gs_ptx_type_of(word) == *type);
    }
    uint32_t bytes = gs_ptx_type_bytes(*type);
    if (is_known && *type != GS_PTX_NO_TYPE && *type != GS_PTX_PRED && bytes * lanes <= 32)
        return lanes;
    gs_ptx_host_refuse_instruction(host, instruction);
    return 0;
}

/* "strong_u32": what follows ptx_ld_ and ptx_st_. */
static void put_access(gs_ptx_host *host, const gs_ptx_instruction *instruction, gs_ptx_type type) {
    if (type == GS_PTX_B128)
        gs_ptx_put(host, "b128");
    else
        gs_ptx_put(host, "%s%c%u", is_strong(instruction) ? "strong_" : "", gs_ptx_is_signed(type) ? 's' : 'u',
                   gs_ptx_bits(type));
}

static bool elements_fit(gs_ptx_host *host, const gs_ptx_operand *operand, uint32_t lanes) {
    if (gs_ptx_elements(operand) == lanes)
        return true;
    gs_ptx_host_refuse(host, operand->first, "expected %u registers", lanes);
    return false;
}

void gs_ptx_translate_ld(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    gs_ptx_type type;
    uint32_t lanes = read_words(host, instruction, &type), bytes = gs_ptx_type_bytes(type);
    if (!lanes || !gs_ptx_wants(host, instruction, 2, 3) || !elements_fit(host, &instruction->operands[0], lanes))
        return;
    gs_ptx_c pointer =
        gs_ptx_pointer(host, instruction, &instruction->operands[1], gs_ptx_space_of(instruction), bytes * lanes);
    if (lanes == 1) {
        gs_ptx_put(host, "%sptx_ld_", gs_ptx_target(host, gs_ptx_element(host, &instruction->operands[0], 0)).text);
        put_access(host, instruction, type);
        gs_ptx_put(host, "(%s);", pointer.text);
        return;
    }
    gs_ptx_put(host, "{ const unsigned char *at = %s;", pointer.text);
    for (uint32_t i = 0; i < lanes; i++) {
        gs_ptx_put(host, " %sptx_ld_", gs_ptx_target(host, gs_ptx_element(host, &instruction->operands[0], i)).text);
        put_access(host, instruction, type);
        gs_ptx_put(host, "(at + %u);", i * bytes);
    }
    gs_ptx_put(host, " }");
}

void gs_ptx_translate_st(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    gs_ptx_type type;
    uint32_t lanes = read_words(host, instruction, &type), bytes = gs_ptx_type_bytes(type);
    if (!lanes || !gs_ptx_wants(host, instruction, 2, 3) || !elements_fit(host, &instruction->operands[1], lanes))
        return;
    gs_ptx_c pointer =
        gs_ptx_pointer(host, instruction, &instruction->operands[0], gs_ptx_space_of(instruction), bytes * lanes);
    gs_ptx_put(host, "{ unsigned char *at = %s;", pointer.text);
    for (uint32_t i = 0; i < lanes; i++) {
        gs_ptx_put(host, " ptx_st_");
        put_access(host, instruction, type);
        gs_ptx_put(host, "(at + %u, %s);", i * bytes,
                   gs_ptx_value(host, gs_ptx_element(host, &instruction->operands[1], i), type).text);
    }
    gs_ptx_put(host, " }");
}

/* ---- atom and red ---- */

static const struct {
    const char *operation, *types;
    uint32_t values;
} atomics[] = {
    {"add", "u32 s32 u64 s64 f32 f64 f16 f16x2 bf16 bf16x2", 1},
    {"min", "u32 s32 u64 s64 f16 f16x2 bf16 bf16x2 f32", 1},
    {"max", "u32 s32 u64 s64 f16 f16x2 bf16 bf16x2 f32", 1},
    {"inc", "u32", 1},
    {"dec", "u32", 1},
    {"and", "b32 b64", 1},
    {"or", "b32 b64", 1},
    {"xor", "b32 b64", 1},
    {"exch", "b16 b32 b64", 1},
    {"cas", "b16 b32 b64", 2},
};

/* The row of the operation, or -1. */
static int find_atomic(const gs_ptx_instruction *instruction) {
    int found = -1;
    for (uint32_t i = 1; i < instruction->count; i++) {
        const char *word = instruction->words[i];
        int row = -1;
        for (size_t k = 0; k < GS_COUNT(atomics); k++)
            if (strcmp(atomics[k].operation, word) == 0)
                row = (int)k;
        if (row >= 0 && found < 0)
            found = row;
        else if (!is_hint(word) && gs_ptx_type_of(word) == GS_PTX_NO_TYPE)
            return -1;
    }
    gs_ptx_type type = gs_ptx_nth_type(instruction, 0);
    return found >= 0 && gs_ptx_listed(atomics[found].types, gs_ptx_type_name(type)) ? found : -1;
}

void gs_ptx_translate_atom(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    int row = find_atomic(instruction);
    gs_ptx_type type = gs_ptx_nth_type(instruction, 0);
    uint32_t first = strcmp(instruction->words[0], "atom") == 0;
    if (row < 0) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    uint32_t operands = first + 1 + atomics[row].values;
    if (!gs_ptx_wants(host, instruction, operands, operands + 1))
        return;
    gs_ptx_c pointer = gs_ptx_pointer(host, instruction, &instruction->operands[first], gs_ptx_space_of(instruction),
                                      gs_ptx_type_bytes(type));
    gs_ptx_put(host, "%sptx_atom_%s_%s(%s", first ? gs_ptx_target(host, &instruction->operands[0]).text : "(void)",
               atomics[row].operation, gs_ptx_type_name(type), pointer.text);
    for (uint32_t i = 0; i < atomics[row].values; i++)
        gs_ptx_put(host, ", %s", gs_ptx_value(host, &instruction->operands[first + 1 + i], type).text);
    gs_ptx_put(host, ");");
}

/* gs_access.global words, number, bytes, [place], round...; and gs_present, without a place. They are not of PTX: see
   rounds_accesses.c. */
void gs_ptx_translate_access(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    enum { PLACE = 3 };
    gs_ptx_space space = gs_ptx_space_of(instruction);
    const gs_ptx_operand *operands = instruction->operands;
    bool has_place = strcmp(instruction->words[0], "gs_access") == 0;
    uint32_t rounds = has_place ? PLACE + 1 : PLACE;
    if (instruction->operand_count < rounds) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    gs_ptx_put(host, "ptx_%s(t, (uint32_t *)(uintptr_t)%s + %llu, %d, %llu, ", has_place ? "access" : "present",
               gs_ptx_value(host, &operands[0], GS_PTX_U64).text, (unsigned long long)operands[1].bits,
               space == GS_PTX_SHARED, (unsigned long long)operands[2].bits);
    if (has_place)
        gs_ptx_put(host, "%s, ", gs_ptx_address_number(host, &operands[PLACE], space).text);
    for (uint32_t i = rounds; i < instruction->operand_count; i++)
        gs_ptx_put(host, "ptx_round(");
    gs_ptx_put(host, "0");
    for (uint32_t i = rounds; i < instruction->operand_count; i++)
        gs_ptx_put(host, ", %s)", gs_ptx_value(host, &operands[i], GS_PTX_U32).text);
    gs_ptx_put(host, ");");
}

/* ---- addresses ---- */

void gs_ptx_translate_cvta(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    if (!gs_ptx_wants(host, instruction, 2, 2))
        return;
    gs_ptx_space space = gs_ptx_space_of(instruction);
    gs_ptx_c value = gs_ptx_value(host, &instruction->operands[1], GS_PTX_U64);
    gs_ptx_c target = gs_ptx_target(host, &instruction->operands[0]);
    if (gs_ptx_nth_type(instruction, 0) != GS_PTX_U64)
        gs_ptx_host_refuse_instruction(host, instruction);
    else if (space != GS_PTX_SHARED)
        gs_ptx_put(host, "%s%s;", target.text, value.text);
    else
        gs_ptx_put(host, "%sptx_%s_shared(t, %s);", target.text, gs_ptx_word(instruction, "to") ? "offset" : "generic",
                   value.text);
}

void gs_ptx_translate_isspacep(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    static const char *const names[] = {[GS_PTX_GLOBAL] = "global",
                                        [GS_PTX_SHARED] = "shared",
                                        [GS_PTX_LOCAL] = "local",
                                        [GS_PTX_PARAM] = "param",
                                        [GS_PTX_TEX] = NULL};
    gs_ptx_space space = gs_ptx_space_of(instruction);
    if (!gs_ptx_wants(host, instruction, 2, 2))
        return;
    if (!names[space])
        gs_ptx_host_refuse_instruction(host, instruction);
    else
        gs_ptx_put(host, "%sptx_isspacep_%s(t, %s);", gs_ptx_target(host, &instruction->operands[0]).text, names[space],
                   gs_ptx_value(host, &instruction->operands[1], GS_PTX_U64).text);
}

/* A cluster is one block: mapa.shared::cluster of block 0 is the address itself. */
void gs_ptx_translate_mapa(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    bool is_mapa = strcmp(instruction->words[0], "mapa") == 0;
    if (!is_mapa && strcmp(instruction->words[0], "getctarank") != 0) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    if (!gs_ptx_wants(host, instruction, is_mapa ? 3 : 2, is_mapa ? 3 : 2))
        return;
    gs_ptx_put(host, "%s%s;", gs_ptx_target(host, &instruction->operands[0]).text,
               is_mapa ? gs_ptx_value(host, &instruction->operands[1], gs_ptx_nth_type(instruction, 0)).text : "0");
}

void gs_ptx_translate_alloca(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    if (strcmp(instruction->words[0], "alloca") != 0)
        gs_ptx_host_refuse_instruction(host, instruction);
    else if (gs_ptx_wants(host, instruction, 2, 3))
        gs_ptx_put(host, "%sptx_address(__builtin_alloca(%s));", gs_ptx_target(host, &instruction->operands[0]).text,
                   gs_ptx_value(host, &instruction->operands[1], GS_PTX_U64).text);
}

/* ---- copies ---- */

/* cp.async.ca.shared.global [to], [from], bytes{, read_bytes} */
static void copy_small(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    const gs_ptx_operand *operands = instruction->operands;
    bool has_hint = gs_ptx_word(instruction, "L2::cache_hint");
    uint32_t count = instruction->operand_count - (has_hint && instruction->operand_count > 3);
    if (!gs_ptx_wants(host, instruction, 3, 5) || operands[2].kind != GS_PTX_INTEGER ||
        (operands[2].bits != 4 && operands[2].bits != 8 && operands[2].bits != 16)) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    uint32_t bytes = (uint32_t)operands[2].bits;
    bool is_predicate = count > 3 && (gs_ptx_operand_type(host, &operands[3]) == GS_PTX_PRED);
    gs_ptx_c to = gs_ptx_pointer(host, instruction, &operands[0], GS_PTX_SHARED, bytes);
    gs_ptx_c from = gs_ptx_pointer(host, instruction, &operands[1], GS_PTX_GLOBAL, 1);
    gs_ptx_put(host, "ptx_cp_async(%s, %s, %u, ", to.text, from.text, bytes);
    if (is_predicate) /* whether the source is ignored */
        gs_ptx_put(host, "%s ? 0 : %u);", gs_ptx_value(host, &operands[3], GS_PTX_PRED).text, bytes);
    else if (count > 3)
        gs_ptx_put(host, "%s);", gs_ptx_value(host, &operands[3], GS_PTX_U32).text);
    else
        gs_ptx_put(host, "%u);", bytes);
}

/* cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [to], [from], bytes, [mbarrier], or
   cp.async.bulk.global.shared::cta.bulk_group [to], [from], bytes */
static void copy_bulk(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    const gs_ptx_operand *operands = instruction->operands;
    bool to_shared = instruction->count > 4 && strncmp(instruction->words[3], "shared", 6) == 0 &&
                     strcmp(instruction->words[4], "global") == 0;
    bool from_shared = instruction->count > 4 && strncmp(instruction->words[4], "shared", 6) == 0 &&
                       strcmp(instruction->words[3], "global") == 0;
    bool has_mask = gs_ptx_word(instruction, "multicast::cluster") || gs_ptx_word(instruction, "cp_mask");
    if ((!to_shared && !from_shared) || has_mask || instruction->operand_count < (to_shared ? 4 : 3)) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    gs_ptx_put(host, "{ uint32_t bytes = %s; ", gs_ptx_value(host, &operands[2], GS_PTX_U32).text);
    for (uint32_t i = 0; i < 2; i++) {
        bool is_shared = i == 0 ? to_shared : from_shared;
        gs_ptx_c number = gs_ptx_address_number(host, &operands[i], is_shared ? GS_PTX_SHARED : GS_PTX_GLOBAL);
        gs_ptx_put(host, "unsigned char *%s = ", i == 0 ? "to" : "from");
        if (is_shared)
            gs_ptx_put(host, "ptx_shared_range(t, %s, bytes, %u); ", number.text, instruction->line);
        else
            gs_ptx_put(host, "ptx_at(t, %s, 16, %u); ", number.text, instruction->line);
    }
    gs_ptx_put(host, "ptx_copy(to, from, bytes);");
    if (to_shared)
        gs_ptx_put(host, " ptx_mbarrier_complete_tx(%s, bytes);",
                   gs_ptx_pointer(host, instruction, &operands[3], GS_PTX_SHARED, 8).text);
    gs_ptx_put(host, " }");
}

void gs_ptx_translate_async(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    static const char *const nothing[] = {"commit_group", "wait_group", "wait_all", "prefetch"};
    bool is_cp = strcmp(instruction->words[0], "cp") == 0 && gs_ptx_word(instruction, "async");
    for (size_t i = 0; i < GS_COUNT(nothing); i++)
        if (is_cp && gs_ptx_word(instruction, nothing[i])) {
            gs_ptx_put(host, ";");
            return;
        }
    if (!is_cp || gs_ptx_word(instruction, "tensor"))
        gs_ptx_host_refuse_instruction(host, instruction);
    else if (gs_ptx_word(instruction, "bulk"))
        copy_bulk(host, instruction);
    else
        copy_small(host, instruction);
}

/* ---- mbarrier ---- */

/* The operands after the address: 'n' none, 'c' an optional count, 'b' bytes, 's' a state, 'p' a parity.
 */
static const struct mbarrier {
    const char *words; /* the words of the instruction, in this order */
    const char *function;
    char result; /* 'v' none, 's' a state, 'p' a predicate */
    char operand;
} mbarriers[] = {
    {"init", "init", 'v', 'b'},
    {"inval", NULL, 'v', 'n'},
    {"arrive expect_tx", "arrive_expect_tx", 's', 'b'},
    {"arrive_drop expect_tx", "arrive_drop_expect_tx", 's', 'b'},
    {"arrive_drop", "arrive_drop", 's', 'c'},
    {"arrive", "arrive", 's', 'c'},
    {"expect_tx", "expect_tx", 'v', 'b'},
    {"complete_tx", "complete_tx", 'v', 'b'},
    {"test_wait parity", "test_wait_parity", 'p', 'p'},
    {"test_wait", "test_wait", 'p', 's'},
    {"try_wait parity", "try_wait_parity", 'p', 'p'},
    {"try_wait", "try_wait", 'p', 's'},
};

static bool has_words(const gs_ptx_instruction *instruction, const char *words) {
    char word[32];
    for (const char *at = words; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (!gs_ptx_word(instruction, word))
            return false;
        at += length;
    }
    return true;
}

static void put_mbarrier(gs_ptx_host *host, const gs_ptx_instruction *instruction, const struct mbarrier *row) {
    static const gs_ptx_type types[] = {['b'] = GS_PTX_U32, ['c'] = GS_PTX_U32, ['s'] = GS_PTX_U64, ['p'] = GS_PTX_U32};
    const gs_ptx_operand *operands = instruction->operands;
    uint32_t at = row->result == 'v' || operands[0].kind == GS_PTX_ADDRESS ? 0 : 1;
    bool has_operand = instruction->operand_count > at + 1;
    if (!row->function) {
        gs_ptx_put(host, ";");
        return;
    }
    if (instruction->operand_count <= at || (!has_operand && row->operand != 'c')) {
        gs_ptx_host_refuse_instruction(host, instruction);
        return;
    }
    gs_ptx_put(host, "%s", at ? gs_ptx_target(host, &operands[0]).text : "(void)");
    gs_ptx_put(host, "ptx_mbarrier_%s(%s", row->function,
               gs_ptx_pointer(host, instruction, &operands[at], gs_ptx_space_of(instruction), 8).text);
    if (has_operand)
        gs_ptx_put(host, ", %s);", gs_ptx_value(host, &operands[at + 1], types[(unsigned char)row->operand]).text);
    else
        gs_ptx_put(host, ", 1);");
}

void gs_ptx_translate_mbarrier(gs_ptx_host *host, const gs_ptx_instruction *instruction) {
    if (strcmp(instruction->words[0], "cp") == 0) { /* cp.async.mbarrier.arrive: the copies are done */
        if (!gs_ptx_wants(host, instruction, 1, 1))
            return;
        if (gs_ptx_word(instruction, "noinc"))
            gs_ptx_put(
                host, "(void)ptx_mbarrier_arrive(%s, 1);",
                gs_ptx_pointer(host, instruction, &instruction->operands[0], gs_ptx_space_of(instruction), 8).text);
        else
            gs_ptx_put(host, ";");
        return;
    }
    if (gs_ptx_word(instruction, "pending_count") && gs_ptx_wants(host, instruction, 2, 2)) {
        gs_ptx_put(host, "%sptx_mbarrier_pending_count(%s);", gs_ptx_target(host, &instruction->operands[0]).text,
                   gs_ptx_value(host, &instruction->operands[1], GS_PTX_U64).text);
        return;
    }
    for (size_t i = 0; i < GS_COUNT(mbarriers); i++)
        if (has_words(instruction, mbarriers[i].words) && instruction->operand_count) {
            put_mbarrier(host, instruction, &mbarriers[i]);
            return;
        }
    gs_ptx_host_refuse_instruction(host, instruction);
}
