/*
 * flow_transactions.c: how many transactions a load or store makes, from how its address differs between lanes.
 *
 * Global memory is read and written by sectors of 32 bytes, shared memory by passes over its banks. What is wider than
 * 4 bytes is done by halves or quarters of a warp, each by itself. In local memory the same word of 4 bytes of all
 * lanes of a warp is in one piece of 128 bytes, and the next word of a lane is that far away.
 */
#include "flow_parts.h"

#include <stdlib.h>

enum { LD = 0x180, LDC = 0x182, LDL = 0x183, ST = 0x185, STL = 0x187, RED = 0x18e }; /* LD, ST: of any memory */
enum { WARP = 32, WORD = 4, SECTOR = 32 };

static int common_divisor(int a, int b) {
    while (b) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

int64_t gs_flow_access_bytes(const gs_flow_instruction *instruction) {
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 8, 16, 0};
    return bytes[gs_bits(instruction->high, 9, 3)];
}

int gs_flow_access_parts(const gs_flow_instruction *instruction) {
    return gs_flow_access_bytes(instruction) > 4 ? (int)gs_flow_access_bytes(instruction) / 4 : 1;
}

/* Sectors of 32 bytes of `lanes` lanes: in each piece the first lane is anywhere in one, and so is each other place. No
   lane is in two. */
static int64_t sectors_of(gs_lanes low, int64_t lanes) {
    int64_t pieces = low.pieces < lanes ? low.pieces : lanes;
    return (low.step ? (lanes - pieces) * llabs(low.step) / 32 + 2 * pieces : pieces) + low.others;
}

/* How often all banks are passed: 8 and 16 bytes are read by halves and quarters of a warp. */
static int64_t passes_of(int64_t bytes, gs_lanes lanes, int rows) {
    int64_t parts = bytes > 4 ? bytes / 4 : 1, unit = bytes > 4 ? bytes : 4, banks = 32 / parts;
    int64_t step = lanes.kind == GS_LANES_NUMBER ? 0 : llabs(lanes.step);
    if (step % unit)
        return 0;
    int same = common_divisor((int)(step / unit), (int)banks);
    int64_t of_part = WARP / parts, apart = of_part / (same ? same : 1); /* that are in different banks */
    int64_t passes = step ? (of_part + apart - 1) / apart : 1;
    return parts * (passes + lanes.others) * rows;
}

/* A register with the low half of an address, and the one after it. */
static gs_lanes address_of(const gs_flow_lanes *now, const gs_flow_instruction *instruction, gs_lanes *high) {
    unsigned number = gs_bits(instruction->low, 24, 8);
    *high = number < GS_NO_REGISTER - 1 ? gs_lanes_at(now, instruction, number + 1)
                                        : gs_lanes_at(now, instruction, GS_NO_REGISTER);
    return gs_lanes_at(now, instruction, number);
}

/* Sectors of a warp, each part by itself. */
static int64_t global_sectors(gs_lanes low, gs_lanes high, int parts) {
    bool is_pair = gs_lanes_are_halves(low, high);
    int width = is_pair || low.width < high.width ? low.width : high.width;
    int64_t lanes = width < WARP / parts ? width : WARP / parts;
    if (!is_pair && !(gs_lanes_same(low) && gs_lanes_same(high)))
        return 0;
    return WARP / lanes * (is_pair ? sectors_of(low, lanes) : 1);
}

/* Of local memory, or of an address that may be one of it. */
static bool is_local(const gs_flow_instruction *instruction) {
    unsigned operation = gs_operation(instruction);
    return operation == LDL || operation == STL || operation == LD || operation == ST;
}

/* Sectors of local memory: of words that are the same in all lanes, or each of which is in one of its own. */
static int local_sectors(const gs_flow_instruction *instruction, gs_lanes low) {
    int words = gs_flow_access_bytes(instruction) > WORD ? (int)gs_flow_access_bytes(instruction) / WORD : 1;
    bool is_generic = gs_operation(instruction) == LD || gs_operation(instruction) == ST;
    return !is_generic && low.width == WARP && gs_lanes_same(low) ? words * WARP * WORD / SECTOR : words * WARP;
}

bool gs_lanes_read_one(const gs_flow_lanes *now, const gs_flow_instruction *instruction) {
    enum { READ_ONLY = 4 };
    gs_lanes high, low = address_of(now, instruction, &high);
    unsigned operation = gs_operation(instruction);
    bool is_read_only = operation == GS_OP_LDG && gs_bits(instruction->high, 13, 4) == READ_ONLY; /* ld.global.nc */
    if (gs_flow_access_parts(instruction) > 1 && !is_read_only)
        return false; /* a part of the warp may read what is written between */
    return (operation == GS_OP_LDG && gs_lanes_uniform(low) && gs_lanes_uniform(high)) ||
           (operation == GS_OP_LDS && gs_lanes_uniform(low));
}

int gs_lanes_transactions(const gs_flow_lanes *now, const gs_flow_instruction *instruction) {
    gs_lanes high, low = address_of(now, instruction, &high);
    int64_t bytes = gs_flow_access_bytes(instruction), count = 0;
    int rows = low.width ? WARP / low.width : 0;
    if (bytes && is_local(instruction))
        return local_sectors(instruction, low);
    if (!bytes || !rows)
        return 0;
    switch (gs_operation(instruction)) {
    case GS_OP_LDG:
    case GS_OP_STG:
        count = global_sectors(low, high, gs_flow_access_parts(instruction));
        break;
    case RED: /* only whether its lanes are beside each other counts */
        count = global_sectors(low, high, 1);
        break;
    case GS_OP_LDS:
    case GS_OP_STS:
        count = gs_lanes_have_step(low) ? passes_of(bytes, low, rows) : 0;
        break;
    case LDC:
        count = gs_lanes_uniform(low) ? 1 : 0;
        break;
    default:
        break;
    }
    return count < WARP ? (int)count : 0;
}
