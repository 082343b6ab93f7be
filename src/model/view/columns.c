/*
 * columns.c: the arrays of a scene, for its HTML page.
 *
 * A column is a name, a type, a length and a function that returns a value, so that nothing is copied: values are
 * computed while they are packed.
 */
#include "html.h"

#include <math.h>

/* ---- operations ---- */

#define OPERATION(name, member)                                                                                        \
    static int64_t name(const gs_scene *scene, int layer, size_t number) {                                             \
        (void)layer;                                                                                                   \
        return scene->operations.data[number].member;                                                                  \
    }
OPERATION(function_of, function)
OPERATION(shape_of, shape)
OPERATION(stream_of, stream)
OPERATION(arrived_of, arrived)
OPERATION(start_of, start)
OPERATION(end_of, end)
OPERATION(measured_start_of, measured_start)
OPERATION(measured_end_of, measured_end)
OPERATION(all_started_of, all_started)
OPERATION(started_of, started)
#undef OPERATION

static int64_t blocks_of(const gs_scene *scene, int layer, size_t number) {
    (void)layer;
    return number < scene->run->launches.count ? scene->run->launches.data[number].blocks : 0;
}

/* ---- waits ---- */

#define WAIT(name, member)                                                                                             \
    static int64_t name(const gs_scene *scene, int layer, size_t number) {                                             \
        (void)layer;                                                                                                   \
        return scene->waits.data[number].member;                                                                       \
    }
WAIT(wait_operation, operation)
WAIT(wait_behind, behind)
WAIT(wait_reason, reason)
WAIT(wait_lack, lack)
WAIT(wait_text, text)
WAIT(wait_from, from)
WAIT(wait_to, to)
#undef WAIT

/* ---- blocks ---- */

static const gs_stay *stay_of(const gs_scene *scene, int layer, size_t number) {
    return &scene->layers[layer].stays.data[number];
}

/* How many stays are on an SM. */
static int64_t stays_on(const gs_scene *scene, int layer, size_t sm) {
    const size_t *first = scene->layers[layer].first;
    return (int64_t)(first[sm + 1] - first[sm]);
}

static int64_t stay_launch(const gs_scene *scene, int layer, size_t number) {
    return stay_of(scene, layer, number)->launch;
}

static int64_t stay_block(const gs_scene *scene, int layer, size_t number) {
    return stay_of(scene, layer, number)->block;
}

static int64_t stay_start(const gs_scene *scene, int layer, size_t number) {
    return stay_of(scene, layer, number)->from;
}

static int64_t stay_duration(const gs_scene *scene, int layer, size_t number) {
    const gs_stay *stay = stay_of(scene, layer, number);
    return stay->to - stay->from;
}

static int64_t stay_room(const gs_scene *scene, int layer, size_t number) {
    const gs_stay *stay = stay_of(scene, layer, number);
    const uint8_t *rooms = scene->played->headroom[stay->launch];
    return rooms ? rooms[stay->block] : 0;
}

static int64_t stay_difference(const gs_scene *scene, int layer, size_t number) {
    return gs_scene_difference(scene, layer, stay_of(scene, layer, number));
}

/* ---- the warp slots of recordings ---- */

static const gs_seen *seen_of(const gs_scene *scene, int layer, size_t number) {
    const gs_run *run = scene->layers[layer].run;
    return run->events.data[run->launches.data[stay_of(scene, layer, number)->launch].observed].seen;
}

static int64_t slots_of(const gs_scene *scene, int layer, size_t number) {
    const gs_seen *seen = seen_of(scene, layer, number);
    int64_t block = stay_of(scene, layer, number)->block;
    if (!seen->has_warp_slots || (size_t)block >= seen->placed.count)
        return 0;
    return (int64_t)(seen->warp_slots.ends[block] - (block ? seen->warp_slots.ends[block - 1] : 0));
}

static int64_t slot_at(const gs_scene *scene, int layer, size_t number) {
    return scene->layers[layer].slots.data[number];
}

/* ---- lists of columns ---- */

/* Times need 64 bits only where differences are long. */
static gs_column_type delta_type(const gs_scene *scene, const gs_column *column) {
    int64_t last = 0;
    for (size_t i = 0; i < column->count; i++) {
        int64_t value = column->value(scene, column->layer, i);
        if (value / 2 - last / 2 > INT32_MAX / 2 - 1 || value / 2 - last / 2 < INT32_MIN / 2 + 1)
            return GS_COLUMN_F64;
        last = value;
    }
    return GS_COLUMN_DELTA;
}

static gs_column_type size_type(const gs_scene *scene, const gs_column *column) {
    int64_t most = 0;
    for (size_t i = 0; i < column->count; i++)
        most = gs_max(most, column->value(scene, column->layer, i));
    return most <= UINT8_MAX    ? GS_COLUMN_U8
           : most <= UINT16_MAX ? GS_COLUMN_U16
           : most <= UINT32_MAX ? GS_COLUMN_U32
                                : GS_COLUMN_F64;
}

static size_t add_operations(const gs_scene *scene, gs_column *columns) {
    const gs_column all[] = {{"op_function", GS_COLUMN_U32, 0, function_of, 0},
                             {"op_shape", GS_COLUMN_U32, 0, shape_of, 0},
                             {"op_stream", GS_COLUMN_U32, 0, stream_of, 0},
                             {"op_arrived", GS_COLUMN_F64, 0, arrived_of, 0},
                             {"op_start", GS_COLUMN_F64, 0, start_of, 0},
                             {"op_end", GS_COLUMN_F64, 0, end_of, 0},
                             {"op_measured_start", GS_COLUMN_F64, 0, measured_start_of, 0},
                             {"op_measured_end", GS_COLUMN_F64, 0, measured_end_of, 0},
                             {"op_all_started", GS_COLUMN_F64, 0, all_started_of, 0},
                             {"op_started", GS_COLUMN_F64, 0, started_of, 0},
                             {"op_blocks", GS_COLUMN_F64, 0, blocks_of, 0}};
    for (size_t i = 0; i < GS_COUNT(all); i++) {
        columns[i] = all[i];
        columns[i].count = scene->operations.count;
    }
    return GS_COUNT(all);
}

static size_t add_waits(const gs_scene *scene, gs_column *columns) {
    const gs_column all[] = {
        {"wait_op", GS_COLUMN_U32, 0, wait_operation, 0}, {"wait_behind", GS_COLUMN_U32, 0, wait_behind, 0},
        {"wait_reason", GS_COLUMN_U8, 0, wait_reason, 0}, {"wait_lack", GS_COLUMN_U8, 0, wait_lack, 0},
        {"wait_text", GS_COLUMN_U32, 0, wait_text, 0},    {"wait_from", GS_COLUMN_F64, 0, wait_from, 0},
        {"wait_to", GS_COLUMN_F64, 0, wait_to, 0}};
    for (size_t i = 0; i < GS_COUNT(all); i++) {
        columns[i] = all[i];
        columns[i].count = scene->waits.count;
    }
    return GS_COUNT(all);
}

/* Arrays of blocks: `a_` for the layer that is shown, `b_` for the measured one. */
static size_t add_blocks(const gs_scene *scene, int layer, gs_column *columns) {
    const gs_column all[] = {{layer ? "b_count" : "a_count", GS_COLUMN_U32, 0, stays_on, layer},
                             {layer ? "b_launch" : "a_launch", GS_COLUMN_U32, 0, stay_launch, layer},
                             {layer ? "b_block" : "a_block", GS_COLUMN_DELTA, 0, stay_block, layer},
                             {layer ? "b_start" : "a_start", GS_COLUMN_DELTA, 0, stay_start, layer},
                             {layer ? "b_duration" : "a_duration", GS_COLUMN_U32, 0, stay_duration, layer},
                             {layer ? "b_difference" : "a_difference", GS_COLUMN_U8, 0, stay_difference, layer},
                             {"a_room", GS_COLUMN_U8, 0, stay_room, layer},
                             {layer ? "b_slots" : "a_slots", GS_COLUMN_U8, 0, slots_of, layer},
                             {layer ? "b_slot" : "a_slot", GS_COLUMN_U8, 0, slot_at, layer}};
    size_t slots = scene->layers[layer].slots.count;
    size_t count = 0;
    for (size_t i = 0; i < GS_COUNT(all); i++) {
        gs_column *column = &columns[count];
        if ((all[i].value == stay_difference && !scene->layers[0].differs) ||
            (all[i].value == stay_room && (layer || !scene->played)) ||
            ((all[i].value == slots_of || all[i].value == slot_at) && !slots))
            continue;
        *column = all[i];
        column->count = all[i].value == slot_at    ? slots
                        : all[i].value == stays_on ? (size_t)scene->gpu->sms
                                                   : scene->layers[layer].stays.count;
        if (column->type == GS_COLUMN_DELTA)
            column->type = delta_type(scene, column);
        else if (column->type == GS_COLUMN_U32)
            column->type = size_type(scene, column);
        count++;
    }
    return count;
}

size_t gs_columns_of(const gs_scene *scene, gs_column *columns, size_t *others) {
    size_t count = add_operations(scene, columns);
    count += add_waits(scene, columns + count);
    *others = count;
    for (int layer = 0; layer < 2; layer++)
        if (scene->layers[layer].stays.count)
            count += add_blocks(scene, layer, columns + count);
    return count;
}

/* ---- packing ---- */

static const struct {
    const char *name;
    size_t bytes;
} types[] = {{"u8", 1}, {"u16", 2}, {"u32", 4}, {"delta", 4}, {"f64", 8}};

static void put_bytes(unsigned char *at, uint64_t bits, size_t count) {
    for (size_t i = 0; i < count; i++)
        at[i] = (unsigned char)(bits >> 8 * i);
}

static uint64_t bits_of_real(int64_t value) {
    double real = value == GS_NO_TIME ? NAN : (double)value;
    uint64_t bits;
    memcpy(&bits, &real, sizeof bits);
    return bits;
}

/* Maps small differences of either sign to small numbers (zigzag): 0, -1, 1, -2, ... become 0, 1, 2, 3, ... */
static uint64_t fold_sign(int64_t value) {
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

/* The bytes of a column from `first` to before `last` of each value. */
static void pack_bytes(gs_pack *pack, const gs_scene *scene, const gs_column *column, size_t first, size_t last) {
    unsigned char bytes[8192];
    size_t filled = 0;
    int64_t before = 0;
    for (size_t i = 0; i < column->count; i++) {
        int64_t value = column->value(scene, column->layer, i);
        uint64_t bits = column->type == GS_COLUMN_F64     ? bits_of_real(value)
                        : column->type == GS_COLUMN_DELTA ? fold_sign(value - before)
                                                          : (uint64_t)value;
        before = value;
        put_bytes(bytes + filled, bits >> 8 * first, last - first);
        filled += last - first;
        if (filled == sizeof bytes) {
            gs_pack_add(pack, bytes, filled);
            filled = 0;
        }
    }
    gs_pack_add(pack, bytes, filled);
}

/* Differences are packed as four arrays of bytes, because all but the lowest bytes are nearly always 0. */
void gs_pack_column(gs_pack *pack, const gs_scene *scene, const gs_column *column) {
    size_t size = types[column->type].bytes, step = column->type == GS_COLUMN_DELTA ? 1 : size;
    for (size_t first = 0; first < size; first += step)
        pack_bytes(pack, scene, column, first, first + step);
    gs_pack_align(pack);
}

void gs_write_columns(gs_writer *writer, const gs_column *columns, size_t count) {
    gs_write_array(writer, "arrays");
    for (size_t i = 0; i < count; i++) {
        gs_write_object(writer, NULL);
        gs_write_string(writer, "name", columns[i].name);
        gs_write_string(writer, "type", types[columns[i].type].name);
        gs_write_uint(writer, "count", columns[i].count);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}
